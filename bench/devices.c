// devices.c - what a device reaches: bytes a second of elementwise ops and reductions, microseconds of a launch, copies.
//
//   build/bench/devices NAME [--quick]     NAME: of `zellige devices`

#include "bench.h"

#include "zellige_ops.h"

enum { SIDE = 16384, QUICK_SIDE = 1024, ROUNDS = 10, CHAIN = 100 };

static int side = SIDE;
static zl_array a, b;

static zl_array gelu(zl_array x) {
    zl_array gate = zl_add(zl_scalar(1), zl_erf(zl_multiply(x, zl_scalar(0.70710678118654752))));
    return zl_multiply(zl_multiply(zl_scalar(0.5), x), gate);
}

static zl_array case_add(void) {
    return zl_add(a, b);
}
static zl_array case_exp(void) {
    return zl_exp(a);
}
static zl_array case_gelu(void) {
    return gelu(a);
}
static zl_array case_copy(void) {
    return zl_contiguous(zl_matrix_transpose(a), false);
}
static zl_array case_bias(void) {
    return zl_add(a, zl_slice(b, ZL_SHAPE(0, 0), ZL_SHAPE(1, side), ZL_SHAPE(1, 1)));
}
static zl_array case_sum(void) {
    return zl_sum(a);
}
static zl_array case_rows(void) {
    return zl_sum_axis(a, 1, false);
}
static zl_array case_columns(void) {
    return zl_sum_axis(a, 0, false);
}
static zl_array case_softmax(void) {
    return zl_softmax(a, -1, false);
}
static zl_array case_matmul(void) {
    return zl_matmul(a, b);
}

static const struct {
    const char *name;
    zl_array (*run)(void);
    double arrays; // of a's size that have to move
} cases[] = {
    {"add", case_add, 3},
    {"exp", case_exp, 2},
    {"gelu (erf)", case_gelu, 2},
    {"add a row", case_bias, 2},
    {"transpose copy", case_copy, 2},
    {"sum", case_sum, 1},
    {"sum of rows", case_rows, 1},
    {"sum of columns", case_columns, 1},
    {"softmax", case_softmax, 2},
};

// Seconds of the best of several evaluations, each waited for.
static double best_of(zl_array (*run)(void), int rounds) {
    double best = 1e9;
    for (int i = 0; i < rounds; i++)
        ZL_SCOPE {
            zl_array y = run();
            double begin = bench_now();
            if (!zl_eval(y))
                fprintf(stderr, "%s\n", zl_error()), exit(1);
            double took = bench_now() - begin;
            best = took < best ? took : best;
        }
    return best;
}

static void run_cases(zl_dtype dtype) {
    double bytes = (double)side * side * (double)zl_dtype_size(dtype);
    a = zl_retain(zl_astype(
        zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(side, side), ZL_FLOAT32, NULL), dtype));
    b = zl_retain(zl_astype(
        zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(side, side), ZL_FLOAT32, NULL), dtype));
    if (!zl_eval_all(2, (zl_array[]){a, b}))
        fprintf(stderr, "%s\n", zl_error()), exit(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        best_of(cases[i].run, 1); // compiles
        double seconds = best_of(cases[i].run, ROUNDS);
        printf("%-16s %-9s %8.3f ms %9.1f GB/s\n", cases[i].name, zl_dtype_name(dtype), seconds * 1e3,
               cases[i].arrays * bytes / seconds * 1e-9);
    }
    zl_release(a);
    zl_release(b);
}

static void run_matmul(zl_dtype dtype, int size) {
    int kept = side;
    side = size;
    a = zl_retain(zl_astype(
        zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(size, size), ZL_FLOAT32, NULL), dtype));
    b = zl_retain(zl_astype(
        zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(size, size), ZL_FLOAT32, NULL), dtype));
    zl_eval_all(2, (zl_array[]){a, b});
    best_of(case_matmul, 1);
    double seconds = best_of(case_matmul, 3);
    printf("%-16s %-9s %8.3f ms %9.1f GFLOP/s at %d\n", "matmul", zl_dtype_name(dtype), seconds * 1e3,
           2.0 * size * size * size / seconds * 1e-9, size);
    zl_release(a);
    zl_release(b);
    side = kept;
}

// A hundred launches, each reading what the one before it wrote.
static zl_array chain(void) {
    zl_array x = a;
    for (int i = 0; i < CHAIN; i++)
        x = i % 2 ? zl_sin(x) : zl_add(x, zl_scalar(i));
    return x;
}

static void run_launches(void) {
    a = zl_retain(zl_zeros(ZL_SHAPE(64), ZL_FLOAT32));
    zl_eval(a);
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    best_of(chain, 2);
    printf("%-16s %-9s %8.2f us each\n", "tiny launches", "float32", best_of(chain, ROUNDS) / CHAIN * 1e6);
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    zl_release(a);
}

static void run_copies(void) {
    enum { BYTES = 4 << 20 };
    static float data[BYTES / 4], back[BYTES / 4];
    double up = 1e9, down = 1e9;
    for (int i = 0; i < ROUNDS; i++)
        ZL_SCOPE {
            zl_array x = zl_retain(zl_from_f32(data, ZL_SHAPE(BYTES / 4))), y = zl_retain(zl_negative(x));
            double begin = bench_now();
            zl_eval(y);
            double middle = bench_now();
            zl_copy_to(y, back, BYTES);
            double end = bench_now();
            up = middle - begin < up ? middle - begin : up;
            down = end - middle < down ? end - middle : down;
            zl_release(x);
            zl_release(y);
        }
    printf("%-16s %-9s %8.2f GB/s up with a kernel, %.2f GB/s down\n", "copies of 4 MB", "float32",
           BYTES / up * 1e-9, BYTES / down * 1e-9);
}

int main(int argc, char **argv) {
    if (argc < 2 || !zl_use_device(argv[1]))
        return fprintf(stderr, "usage: %s DEVICE [--quick]\n%s\n", argv[0], zl_error() ? zl_error() : ""), 1;
    bool quick = argc > 2 && !strcmp(argv[2], "--quick");
    side = quick ? QUICK_SIDE : SIDE;
    run_cases(ZL_FLOAT32);
    run_cases(ZL_BFLOAT16);
    run_matmul(ZL_FLOAT32, quick ? 256 : 4096);
    run_matmul(ZL_BFLOAT16, quick ? 256 : 4096);
    run_launches();
    run_copies();
    printf("fallbacks %lld, launches %lld\n", (long long)zl_counter("fallbacks"),
           (long long)zl_counter("launches"));
    return 0;
}
