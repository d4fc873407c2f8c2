// gemm.c - matrix products of every dtype beside the peak of the instruction that they use, and beside BLAS
// libraries.
//
// Three shapes are fixed and seven are drawn. Rounds go through peaks, products and libraries in turn; the
// best time of each counts. A library runs in a process of its own, with threads of its own, which sleep
// meanwhile.

#include "peaks.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

enum { SHAPES = 10, DRAWN = 7, LEAST = 512, MOST = 4096, LIBRARIES = 2 };

struct shape {
    int m, n, k;
};

static const struct {
    zl_dtype dtype;
    double bar; // of the peak, median over shapes; 0: none
} kinds[] = {{ZL_FLOAT32, 0.82}, {ZL_BFLOAT16, 0.72}, {ZL_INT8, 0.72}, {ZL_FLOAT16, 0.75}, {ZL_FLOAT64, 0}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static struct gemm_options {
    bool quick;
    unsigned seed;
    const char *only, *blas;
} options = {.seed = 1};

// Seconds of this thread where it is the only one: others that use the machine do not count.
static double now(void) {
    struct timespec t;
    if (zl_threads() > 1)
        return bench_now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double smaller(double a, double b) {
    return a > 0 && a < b ? a : b;
}

// Libraries -------------------------------------------------------------------------------------------------

typedef void sgemm_fn(const char *, const char *, const int *, const int *, const int *, const float *,
                      const float *, const int *, const float *, const int *, const float *, float *,
                      const int *, size_t, size_t);

// Reads shapes, answers with seconds: what the other process does.
static int serve(const char *name) {
    void *library = dlopen(name, RTLD_NOW);
    sgemm_fn *sgemm;
    *(void **)&sgemm = library ? dlsym(library, "sgemm_") : NULL;
    size_t each = (size_t)MOST * MOST;
    float *room = sgemm ? malloc(3 * each * sizeof *room) : NULL, one = 1, zero = 0;
    struct shape s;
    if (!room)
        return 1;
    for (size_t i = 0; i < 3 * each; i++)
        room[i] = 0.5f;
    while (scanf("%d %d %d", &s.m, &s.n, &s.k) == 3) {
        double start = now();
        sgemm("N", "N", &s.n, &s.m, &s.k, &one, room, &s.n, room + each, &s.k, &zero, room + 2 * each, &s.n,
              1, 1);
        printf("%.9f\n", now() - start);
        fflush(stdout);
    }
    free(room);
    return 0;
}

static struct library {
    const char *name;
    FILE *to, *from; // NULL: it is not there
} libraries[LIBRARIES] = {{"libblis.so.4", NULL, NULL}, {"libopenblas.so.0", NULL, NULL}};

static void start_library(struct library *l) {
    int in[2], out[2];
    char threads[16], program[] = "/proc/self/exe";
    snprintf(threads, sizeof threads, "%d", zl_threads());
    if (pipe(in) || pipe(out))
        exit(2);
    if (fork() == 0) {
        setenv("OPENBLAS_NUM_THREADS", threads, 1);
        setenv("BLIS_NUM_THREADS", threads, 1);
        dup2(in[0], 0), dup2(out[1], 1);
        close(in[1]), close(out[0]);
        execl(program, program, "--serve", l->name, (char *)NULL);
        _exit(1);
    }
    close(in[0]), close(out[1]);
    l->to = fdopen(in[1], "w");
    l->from = fdopen(out[0], "r");
}

// Seconds; 0: the library is not there.
static double ask(struct library *l, struct shape s) {
    double took = 0;
    if (!l->to)
        return 0;
    if (fprintf(l->to, "%d %d %d\n", s.m, s.n, s.k) < 0 || fflush(l->to) ||
        fscanf(l->from, "%lf", &took) != 1)
        l->to = NULL;
    return took;
}

// Products --------------------------------------------------------------------------------------------------

struct product {
    zl_array a, b;
    double best, library[LIBRARIES]; // seconds
};

static zl_array random_matrix(int rows, int cols, zl_dtype dtype) {
    zl_array x = zl_remainder(zl_arange_int(0, (int64_t)rows * cols, 1, ZL_INT32), zl_scalar_int(17));
    x = zl_astype(zl_subtract(x, zl_scalar_int(8)), dtype);
    return zl_reshape(x, ZL_SHAPE(rows, cols));
}

static void multiply(struct product *p, zl_dtype dtype) {
    double start = now();
    ZL_SCOPE
        need(zl_eval(dtype == ZL_INT8 ? zl_matmul_int8(p->a, p->b) : zl_matmul(p->a, p->b)));
    p->best = smaller(p->best, now() - start);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const struct shape *s, const struct product *p, double peak) {
    double work = 2.0 * s->m * s->n * s->k;
    printf("  %4d x %4d x %4d  %8.1f  %5.3f", s->m, s->n, s->k, work / p->best * 1e-9, work / p->best / peak);
    for (int i = 0; i < LIBRARIES; i++)
        if (p->library[i] > 0)
            printf("  %8.1f", work / p->library[i] * 1e-9);
    printf("\n");
}

// Median of the ratios to the peak.
static double run_kind(int kind, struct peak *peak, const struct shape *shapes, int count) {
    struct product p[SHAPES] = {{0}};
    double ratio[SHAPES];
    zl_dtype dtype = kinds[kind].dtype;
    for (int i = 0; i < count; i++)
        ZL_SCOPE {
            p[i].a = kept(random_matrix(shapes[i].m, shapes[i].k, dtype));
            p[i].b = kept(random_matrix(shapes[i].k, shapes[i].n, dtype));
        }
    for (int r = 0, rounds = options.quick ? 5 : 9; r < rounds; r++)
        for (int i = 0; i < count; i++) {
            for (int t = 0; t < 4; t++)
                measure_peak(peak);
            multiply(&p[i], dtype);
            multiply(&p[i], dtype);
            for (int l = 0; dtype == ZL_FLOAT32 && l < LIBRARIES; l++)
                p[i].library[l] = smaller(p[i].library[l], ask(&libraries[l], shapes[i]));
            if (dtype == ZL_FLOAT32)
                nanosleep(&(struct timespec){.tv_nsec = 20000000},
                          NULL); // threads of libraries wait for more first
        }
    printf("%s: %s %.1f GFLOP/s\n     m      n      k   GFLOP/s  ratio", zl_dtype_name(dtype),
           peak->instruction->name, peak_rate(peak) * 1e-9);
    for (int l = 0; dtype == ZL_FLOAT32 && l < LIBRARIES; l++)
        printf("  %s", libraries[l].name);
    printf("\n");
    for (int i = 0; i < count; i++) {
        print_row(&shapes[i], &p[i], peak_rate(peak));
        ratio[i] = 2.0 * shapes[i].m * shapes[i].n * shapes[i].k / p[i].best / peak_rate(peak);
        zl_release(p[i].a), zl_release(p[i].b);
    }
    qsort(ratio, (size_t)count, sizeof *ratio, by_value);
    return (ratio[(count - 1) / 2] + ratio[count / 2]) / 2;
}

static int draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return LEAST + (int)((*state >> 33) % (MOST - LEAST + 1));
}

static int choose_shapes(struct shape *s) {
    uint64_t state = options.seed;
    int count = 0;
    for (int side = 512; side <= 2048; side *= 2)
        s[count++] = (struct shape){side, side, side};
    for (int i = 0; i < DRAWN && !options.quick; i++)
        s[count++] = (struct shape){draw(&state), draw(&state), draw(&state)};
    return count;
}

static bool read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            options.quick = true;
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            options.seed = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            options.only = argv[++i];
        else if (!strcmp(argv[i], "--serve") && i + 1 < argc)
            options.blas = argv[++i];
        else {
            fprintf(stderr, "usage: %s [--quick] [--seed N] [--only DTYPE]\n", argv[0]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    struct shape shapes[SHAPES];
    bench_on_cpu();
    if (!read_options(argc, argv))
        return 2;
    if (options.blas)
        return serve(options.blas);
    signal(SIGPIPE, SIG_IGN); // a library that is not there
    for (int l = 0; l < LIBRARIES; l++)
        start_library(&libraries[l]);
    int count = choose_shapes(shapes);
    printf("%s, %d threads, seed %u\n", bench_model(), zl_threads(), options.seed);
    for (int k = 0; k < KINDS; k++) {
        struct peak peak = {bench_instruction_of_products(kinds[k].dtype), 0};
        if (!peak.instruction || (options.only && strcmp(options.only, zl_dtype_name(kinds[k].dtype)) != 0))
            continue;
        double median = run_kind(k, &peak, shapes, count);
        printf("  median %.3f  %s, bar %.2f\n", median, median >= kinds[k].bar ? "ok" : "LOW", kinds[k].bar);
    }
    return 0;
}
