// arrays.c - how near the CPU device comes to the machine's limits: bandwidth, arithmetic, and the budgets of
// tiny ops. Everything goes through the public API; the limits are plain C, measured in the same rounds.

#include "bench.h"
#include "limits.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

enum { CASES = 128, CHAIN = 1000, CALLS = 2000, SIDE = 4096 };

static struct bench_options options;
static struct bench_case cases[CASES];
static int case_count;

typedef zl_array unary_op(zl_array x);
typedef zl_array binary_op(zl_array a, zl_array b);
typedef zl_array axis_op(zl_array x, int axis, bool keepdims);

// A case that was not asked for goes nowhere.
static struct bench_case *add_case(const char *name, enum bench_limit limit, double work, double bar,
                                   void (*run)(struct bench_case *c)) {
    static struct bench_case ignored;
    if (options.only && !strstr(name, options.only))
        return &ignored;
    if (case_count == CASES) {
        fprintf(stderr, "more than %d cases: raise CASES\n", CASES);
        exit(2);
    }
    cases[case_count] =
        (struct bench_case){.name = name, .limit = limit, .work = work, .bar = bar, .run = run};
    return &cases[case_count++];
}

// An array of the size that limits are measured with.
static zl_array big(zl_dtype dtype) {
    int64_t count = (int64_t)(limit_bytes / zl_dtype_size(dtype));
    return kept(zl_astype(
        zl_add(zl_remainder(zl_arange_int(0, count, 1, ZL_INT32), zl_scalar_int(100)), zl_scalar_int(1)),
        dtype));
}

static void run_unary(struct bench_case *c) {
    ZL_SCOPE
        need(zl_eval(((unary_op *)c->operation)(c->in[0])));
}

static void run_binary(struct bench_case *c) {
    ZL_SCOPE
        need(zl_eval(((binary_op *)c->operation)(c->in[0], c->in[1])));
}

static void run_where(struct bench_case *c) {
    ZL_SCOPE
        need(zl_eval(zl_where(c->in[0], c->in[1], c->in[2])));
}

static void run_cast(struct bench_case *c) {
    ZL_SCOPE
        need(zl_eval(zl_astype(c->in[0], c->dtype)));
}

static void run_axis(struct bench_case *c) {
    ZL_SCOPE
        need(zl_eval(((axis_op *)c->operation)(c->in[0], c->count, false)));
}

// (a * b + a) * 0.5 + b * 1.5: one pass over memory when its calls run together.
static void run_chain_of_five(struct bench_case *c) {
    ZL_SCOPE {
        zl_array a = c->in[0], b = c->in[1];
        need(zl_eval(zl_add(zl_multiply(zl_add(zl_multiply(a, b), a), zl_scalar(0.5)),
                            zl_multiply(b, zl_scalar(1.5)))));
    }
}

static void binary_case(const char *name, binary_op *op, zl_array a, zl_array b, double bytes, double bar) {
    struct bench_case *c = add_case(name, BENCH_COPY, bytes, bar, run_binary);
    c->operation = (void (*)(void))op;
    c->in[0] = a, c->in[1] = b;
    c->reads = (double)zl_nbytes(a) + (double)zl_nbytes(b);
    c->streams = 2;
}

static zl_array row_major(zl_array x) {
    return zl_contiguous(x, false);
}

static void unary_case(const char *name, unary_op *op, zl_array x, enum bench_limit limit, double bytes,
                       double bar) {
    struct bench_case *c = add_case(name, limit, bytes, bar, run_unary);
    c->operation = (void (*)(void))op;
    c->in[0] = x;
}

static void axis_case(const char *name, axis_op *op, zl_array x, int axis, double bar) {
    struct bench_case *c = add_case(name, BENCH_READ, (double)zl_nbytes(x), bar, run_axis);
    c->operation = (void (*)(void))op;
    c->in[0] = x;
    c->count = axis;
}

static void cast_case(const char *name, zl_array x, zl_dtype to, double bar) {
    double bytes = (double)zl_nbytes(x) + (double)zl_size(x) * (double)zl_dtype_size(to);
    struct bench_case *c = add_case(name, BENCH_COPY, bytes, bar, run_cast);
    c->in[0] = x;
    c->dtype = to;
    c->reads = (double)zl_nbytes(x);
}

static zl_array f32, f64, i32, f16, bf16, f32_b, f64_b, i32_b, f16_b, bf16_b;

// bfloat16 is rounded by instructions on some levels only.
static double bf16_bar(void) {
    zl_device_info cpu;
    return zl_device(0, &cpu) && strstr(cpu.detail, "bf16") ? 0.6 : 0.3;
}

static void add_contiguous(void) {
    double n = (double)limit_bytes;
    static const struct {
        const char *name;
        binary_op *op;
        zl_array *a, *b;
        double bar;
    } rows[] = {
        {"add f32", zl_add, &f32, &f32_b, 0.9},           {"add f64", zl_add, &f64, &f64_b, 0.9},
        {"add i32", zl_add, &i32, &i32_b, 0.9},           {"add f16", zl_add, &f16, &f16_b, 0.9},
        {"multiply f32", zl_multiply, &f32, &f32_b, 0.9}, {"multiply f64", zl_multiply, &f64, &f64_b, 0.9},
        {"multiply i32", zl_multiply, &i32, &i32_b, 0.9}, {"multiply f16", zl_multiply, &f16, &f16_b, 0.9},
        {"maximum f32", zl_maximum, &f32, &f32_b, 0.9},   {"maximum f64", zl_maximum, &f64, &f64_b, 0.9},
        {"maximum i32", zl_maximum, &i32, &i32_b, 0.9},   {"maximum f16", zl_maximum, &f16, &f16_b, 0.9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        binary_case(rows[i].name, rows[i].op, *rows[i].a, *rows[i].b, 3 * n, rows[i].bar);
    binary_case("add bf16", zl_add, bf16, bf16_b, 3 * n, bf16_bar());
    binary_case("less f32", zl_less, f32, f32_b, 2 * n + n / 4, 0.9);
    binary_case("less f64", zl_less, f64, f64_b, 2 * n + n / 8, 0.9);
    binary_case("add f32 and a number", zl_add, f32, kept(zl_from_f32((float[]){1.5f}, ZL_SCALAR)), 2 * n,
                0.9);
    struct bench_case *where = add_case("where f32", BENCH_COPY, 3 * n + n / 4, 0.9, run_where);
    where->in[0] = kept(zl_less(f32, zl_scalar(50))), where->in[1] = f32, where->in[2] = f32_b;
    where->reads = 2 * n + n / 4, where->streams = 2;
    struct bench_case *chain = add_case("chain of five f32", BENCH_COPY, 3 * n, 0, run_chain_of_five);
    chain->in[0] = f32, chain->in[1] = f32_b;
    unary_case("exp f32", zl_exp, f32, BENCH_COPY, 2 * n, 0);
}

static void add_casts(void) {
    cast_case("cast f32 to f64", f32, ZL_FLOAT64, 0.9);
    cast_case("cast f64 to f32", f64, ZL_FLOAT32, 0.9);
    cast_case("cast f32 to i32", f32, ZL_INT32, 0.9);
    cast_case("cast i32 to f32", i32, ZL_FLOAT32, 0.9);
    cast_case("cast f16 to f32", f16, ZL_FLOAT32, 0.9);
    cast_case("cast f32 to f16", f32, ZL_FLOAT16, 0.9);
    cast_case("cast bf16 to f32", bf16, ZL_FLOAT32, bf16_bar());
    cast_case("cast f32 to bf16", f32, ZL_BFLOAT16, bf16_bar());
}

static void add_reductions(void) {
    double n = (double)limit_bytes;
    zl_array square = kept(zl_reshape(f32, ZL_SHAPE(-1, SIDE)));
    unary_case("sum f32", zl_sum, f32, BENCH_READ, n, 0.9);
    unary_case("sum f64", zl_sum, f64, BENCH_READ, n, 0.9);
    unary_case("sum i32", zl_sum, i32, BENCH_READ, n, 0.9);
    unary_case("sum f16", zl_sum, f16, BENCH_READ, n, 0.9);
    unary_case("max f32", zl_max, f32, BENCH_READ, n, 0.9);
    unary_case("argmax f32", zl_argmax, f32, BENCH_READ, n, 0.8);
    axis_case("sum of rows f32", zl_sum_axis, square, 1, 0.8);
    axis_case("sum of columns f32", zl_sum_axis, square, 0, 0.7);
    axis_case("argmax of columns f32", zl_argmax_axis, square, 0, 0);
}

static void add_layouts(void) {
    double n = (double)limit_bytes;
    static const struct {
        const char *row, *column;
        int64_t inner;
    } runs[] = {
        {"add a row of 16", "add a column, rows of 16", 16},
        {"add a row of 64", "add a column, rows of 64", 64},
        {"add a row of 1024", "add a column, rows of 1024", 1024},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        int64_t inner = runs[i].inner;
        zl_array x = kept(zl_reshape(f32, ZL_SHAPE(-1, inner)));
        binary_case(runs[i].row, zl_add, x, kept(zl_arange(0, (double)inner, 1, ZL_FLOAT32)), 2 * n, 0.8);
        zl_array column =
            kept(row_major(zl_slice(x, ZL_SHAPE(0, 0), ZL_SHAPE(zl_dim(x, 0), 1), ZL_SHAPE(1, 1))));
        binary_case(runs[i].column, zl_add, x, column, 2 * n + n / (double)inner, 0.8);
    }
    zl_array square = kept(zl_reshape(f32, ZL_SHAPE(-1, SIDE))),
             wide = kept(zl_reshape(f32_b, ZL_SHAPE(SIDE, -1)));
    zl_array even = kept(zl_slice(f32, ZL_SHAPE(0), ZL_SHAPE(zl_size(f32)), ZL_SHAPE(2)));
    zl_array half = kept(row_major(zl_slice(f32_b, ZL_SHAPE(0), ZL_SHAPE(zl_size(even)), ZL_SHAPE(1))));
    binary_case("every other element", zl_add, even, half, 2 * n, 0.5); // whole lines are moved
    binary_case("transposed plus plain", zl_add, kept(zl_matrix_transpose(square)), wide, 3 * n, 0.15);
    unary_case("copy of a transpose", row_major, kept(zl_matrix_transpose(square)), BENCH_COPY, 2 * n, 0.35);
}

// Fields of structs against an array with the same stride: the ratio of the two is what counts.
static void add_fields(void) {
    enum { RECORD = 32 };
    int64_t count = (int64_t)(limit_bytes / RECORD);
    zl_array records = zl_from_records(copy_from, ZL_SHAPE(count), RECORD, NULL);
    zl_array field = kept(zl_field(records, 8, ZL_FLOAT32, ZL_SCALAR));
    zl_array plain = kept(zl_from_foreign(copy_from + 8, ZL_SHAPE(count), ZL_FLOAT32,
                                          &(zl_foreign_options){.strides = (int64_t[]){RECORD / 4}}));
    double bytes = (double)limit_bytes + (double)count * 4;
    binary_case("field of structs", zl_add, field, kept(zl_scalar(1)), bytes, 0);
    binary_case("array of that stride", zl_add, plain, kept(zl_scalar(1)), bytes, 0);
}

static void matmul_case(const char *name, int64_t m, int64_t n, int64_t k, zl_dtype dtype, double bar) {
    struct bench_case *c = add_case(name, BENCH_FMA, 2.0 * (double)(m * n * k), bar, run_binary);
    c->operation = (void (*)(void))zl_matmul;
    c->in[0] = kept(zl_full(ZL_SHAPE(m, k), zl_scalar(0.5), dtype));
    c->in[1] = kept(zl_full(ZL_SHAPE(k, n), zl_scalar(0.25), dtype));
}

static void add_products(void) {
    matmul_case("matmul f32 64", 64, 64, 64, ZL_FLOAT32, 0);
    matmul_case("matmul f32 256", 256, 256, 256, ZL_FLOAT32, 0);
    matmul_case("matmul f32 512", 512, 512, 512, ZL_FLOAT32, 0);
    matmul_case("matmul f32 1024", 1024, 1024, 1024, ZL_FLOAT32, 0.7);
    matmul_case("matmul f64 1024", 1024, 1024, 1024, ZL_FLOAT64, 0.35);
    matmul_case("matmul bf16 1024", 1024, 1024, 1024, ZL_BFLOAT16, 0);
    struct bench_case *c =
        add_case("matrix times vector f32", BENCH_READ, (double)limit_bytes, 0.8, run_binary);
    c->operation = (void (*)(void))zl_matmul;
    c->in[0] = kept(zl_reshape(f32, ZL_SHAPE(-1, SIDE)));
    c->in[1] = kept(zl_ones(ZL_SHAPE(SIDE, 1), ZL_FLOAT32));
}

// Tiny ops --------------------------------------------------------------------------------------------------

static void run_record(struct bench_case *c) {
    for (int i = 0; i < CALLS; i++)
        ZL_SCOPE
            sink = (float)(zl_add(c->in[0], c->in[1]) != NULL);
}

static void run_view(struct bench_case *c) {
    for (int i = 0; i < CALLS; i++)
        ZL_SCOPE
            sink = (float)(zl_matrix_transpose(c->in[0]) != NULL);
}

static void run_tiny(struct bench_case *c) {
    for (int i = 0; i < CALLS; i++)
        ZL_SCOPE
            need(zl_eval(zl_add(c->in[0], c->in[1])));
}

static void run_long_chain(struct bench_case *c) {
    ZL_SCOPE {
        zl_array y = c->in[0];
        for (int i = 0; i < CHAIN; i++)
            y = zl_add(y, c->in[1]);
        need(zl_eval(y));
    }
}

static void run_is_contiguous(struct bench_case *c) {
    for (int i = 0; i < CALLS; i++)
        sink = zl_is_contiguous(c->in[0]);
}

static void run_is_transposed(struct bench_case *c) {
    for (int i = 0; i < CALLS; i++)
        sink = zl_is_transposed(c->in[0]);
}

static bool ten_ops(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array y = in[0];
    for (int i = 0; i < 5; i++)
        y = zl_add(zl_multiply(y, zl_scalar(i + 0.5)), in[1]);
    return zl_give(out, y);
}

// Evaluation is a budget of its own.
static void run_compiled(struct bench_case *c) {
    static zl_compiled ten;
    if (!ten)
        ten = zl_compile((zl_fn){.call = ten_ops}, false);
    for (int i = 0; i < CALLS; i++) {
        zl_outputs *out = zl_outputs_new();
        need(zl_compiled_call(ten, NULL, 0, 2, c->in, out));
        zl_outputs_free(out);
    }
}

static void budget_case(const char *name, double ns, double calls, void (*run)(struct bench_case *c),
                        zl_array a, zl_array b) {
    struct bench_case *c = add_case(name, BENCH_BUDGET, calls, 1, run);
    c->budget = ns;
    c->in[0] = a, c->in[1] = b;
}

static void add_budgets(void) {
    zl_array a = kept(zl_ones(ZL_SHAPE(8), ZL_FLOAT32)), b = kept(zl_ones(ZL_SHAPE(8), ZL_FLOAT32));
    zl_array matrix = kept(zl_ones(ZL_SHAPE(3, 4), ZL_FLOAT32)), turned = kept(zl_matrix_transpose(matrix));
    budget_case("view", 45, CALLS, run_view, matrix, NULL);
    budget_case("record", 80, CALLS, run_record, a, b);
    budget_case("record and evaluate", 250, CALLS, run_tiny, a, b);
    budget_case("chain of 1000, an op", 150, CHAIN, run_long_chain, a, b);
    budget_case("call of ten compiled ops", 2000, CALLS, run_compiled, a, b);
    budget_case("zl_is_contiguous", 20, CALLS, run_is_contiguous, matrix, NULL);
    budget_case("zl_is_transposed", 20, CALLS, run_is_transposed, turned, NULL);
}

// The best BLAS of the system, with threads of its own, in another process ----------------------------------

static const char *const libraries[] = {"libblis.so.4", "libopenblas.so.0", "libblas.so.3"};

typedef void sgemm_fn(const char *, const char *, const int *, const int *, const int *, const float *,
                      const float *, const int *, const float *, const int *, const float *, float *,
                      const int *, size_t, size_t);

// Prints GFLOP/s of 1024 x 1024; what the child does.
static int measure_blas(const char *name) {
    enum { N = 1024, ROUNDS = 12 };
    void *library = dlopen(name, RTLD_NOW);
    sgemm_fn *sgemm;
    *(void **)&sgemm = library ? dlsym(library, "sgemm_") : NULL;
    float *a = calloc(3 * N * N, sizeof *a), one = 1, zero = 0;
    int n = N;
    double best = 0;
    if (!sgemm || !a)
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        double start = bench_now();
        sgemm("N", "N", &n, &n, &n, &one, a, &n, a + N * N, &n, &zero, a + 2 * N * N, &n, 1, 1);
        double rate = 2.0 * N * N * N / (bench_now() - start);
        best = rate > best ? rate : best;
        if (rate < 1e10 && i)
            break; // a reference library
    }
    printf("%.3f\n", best * 1e-9);
    free(a);
    return 0;
}

static double ask_blas(const char *program, const char *name) {
    char command[1024], line[64] = "";
    snprintf(command, sizeof command,
             "OPENBLAS_NUM_THREADS=%d BLIS_NUM_THREADS=%d '%s' --blas %s 2>/dev/null", zl_threads(),
             zl_threads(), program, name);
    FILE *child = popen(command, "r");
    bool got = child && fgets(line, sizeof line, child);
    return child && pclose(child) == 0 && got ? atof(line) : 0;
}

static void compare_with_blas(void) {
    char program[512];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    const struct bench_case *own = NULL;
    for (int i = 0; i < case_count; i++)
        own = !strcmp(cases[i].name, "matmul f32 1024") ? &cases[i] : own;
    if (len <= 0 || !own)
        return;
    program[len] = 0;
    double ours = own->work / own->best * 1e-9;
    printf("\nmatmul f32 1024: %.1f GFLOP/s", ours);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        double theirs = ask_blas(program, libraries[i]);
        if (theirs > 0)
            printf("; %s %.1f (%.2f of it)", libraries[i], theirs, ours / theirs);
    }
    printf("\n");
}

// Running ---------------------------------------------------------------------------------------------------

static void measure_limits(void) {
    for (int i = 0; i < LIMITS; i++)
        bench_run_once(&limits[i]);
}

static void run_rounds(int rounds) {
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < case_count; i++) {
            if (i % 16 == 0)
                measure_limits();
            bench_run_once(&cases[i]);
        }
    }
}

// Cases below what they must reach. They are run again: that the machine was busy is no loss of ours.
static int run_low_again(const char *baseline, bool bars) {
    struct bench_rates r = limit_rates();
    int low = 0;
    for (int i = 0; i < case_count; i++) {
        if (bench_ratio(&cases[i], &r) >= bench_least(&cases[i], bars, baseline))
            continue;
        low++;
        for (int k = 0; k < 3; k++)
            bench_run_once(&cases[i]);
    }
    return low;
}

static int report_low(const char *baseline) {
    struct bench_rates r = limit_rates();
    int low = 0;
    for (int i = 0; i < case_count; i++) {
        double least = bench_least(&cases[i], options.bars, baseline), ratio = bench_ratio(&cases[i], &r);
        if (ratio >= least)
            continue;
        low++;
        fprintf(stderr, "%s: ratio %.3f, at least %.3f is needed\n", cases[i].name, ratio, least);
    }
    return low;
}

// The committed baseline, if it is of this kind of machine.
static char *read_baseline(void) {
    char *baseline = bench_read_file(options.check), key[256];
    snprintf(key, sizeof key, "\"machine\": \"%s\"", bench_model());
    if (!baseline) {
        fprintf(stderr, "%s cannot be read\n", options.check);
        exit(2);
    }
    if (strstr(baseline, key))
        return baseline;
    fprintf(stderr, "%s is of another machine: not compared\n", options.check);
    free(baseline);
    return NULL;
}

// Gives low cases some more seconds; how many stay low.
static int settle(void) {
    enum { SECONDS = 20 };
    char *baseline = options.check ? read_baseline() : NULL;
    double end = bench_now() + SECONDS;
    while (run_low_again(baseline, options.bars || !options.check) && bench_now() < end)
        ;
    int low = report_low(baseline);
    free(baseline);
    return low;
}

static int demo(void) {
    static const char *const shown[] = {
        "add f32",         "where f32",          "sum f32", "chain of five f32", "copy of a transpose",
        "matmul f32 1024", "record and evaluate"};
    struct bench_rates r = limit_rates();
    printf("This machine (%s, %d cores) copies %.0f GB/s and computes %.0f GFLOP/s.\n", bench_model(),
           zl_threads(), r.rate[BENCH_COPY] * 1e-9, r.rate[BENCH_FMA] * 1e-9);
    for (int i = 0; i < case_count; i++)
        for (size_t k = 0; k < sizeof shown / sizeof shown[0]; k++) {
            if (strcmp(cases[i].name, shown[k]) != 0)
                continue;
            double ratio = bench_ratio(&cases[i], &r), rate = cases[i].work / cases[i].best;
            if (cases[i].limit == BENCH_BUDGET)
                printf("  %-24s %6.0f ns, of %.0f ns that it may take\n", shown[k], 1e9 / rate,
                       cases[i].budget);
            else
                printf("  %-24s %6.1f %s, %3.0f %% of what the machine can do\n", shown[k], rate * 1e-9,
                       cases[i].limit == BENCH_FMA ? "GFLOP/s" : "GB/s   ", 100 * ratio);
        }
    return 0;
}

static void add_all(void) {
    f32 = big(ZL_FLOAT32), f32_b = big(ZL_FLOAT32), f64 = big(ZL_FLOAT64), f64_b = big(ZL_FLOAT64);
    i32 = big(ZL_INT32), i32_b = big(ZL_INT32), f16 = big(ZL_FLOAT16), f16_b = big(ZL_FLOAT16);
    bf16 = big(ZL_BFLOAT16), bf16_b = big(ZL_BFLOAT16);
    add_contiguous();
    add_casts();
    add_reductions();
    add_layouts();
    add_fields();
    add_products();
    add_budgets();
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--blas"))
        return measure_blas(argv[2]);
    if (!bench_read_options(argc, argv, &options))
        return 2;
    if (options.demo)
        limit_bytes = 32 << 20;
    start_limits();
    add_all();
    run_rounds(options.demo ? 4 : options.quick ? 6 : 20);
    if (options.demo)
        return demo();
    int failed = options.quick && !options.check && !options.bars ? 0 : settle() > 0;
    struct bench_rates r = limit_rates();
    if (options.json) {
        bench_print_json(cases, case_count, &r);
        return failed;
    }
    bench_print_table(cases, case_count, &r);
    if (!options.quick)
        compare_with_blas();
    return failed;
}
