// device_kernels.c - kernels of a device against the bytes they have to move, with what an H200 is to reach
// beside it.
//
//   build/bench/device_kernels NAME [--quick]     NAME: of `zellige devices`

#include "bench.h"

#include "zellige_ops.h"

enum { ELEMENTS = 1 << 28, QUICK_ELEMENTS = 1 << 20, ROUNDS = 8 };

static zl_array a, weight, bias;

static zl_array run_exp(void) {
    return zl_exp(a);
}

static zl_array run_gelu(void) {
    zl_array gate = zl_add(zl_scalar(1), zl_erf(zl_multiply(a, zl_scalar(0.70710678118654752))));
    return zl_multiply(zl_multiply(zl_scalar(0.5), a), gate);
}

static zl_array run_row(void) {
    return zl_add(a, weight);
}

static zl_array run_transpose(void) {
    return zl_contiguous(zl_matrix_transpose(a), false);
}

static zl_array run_sum(void) {
    return zl_sum(a);
}

static zl_array run_rows(void) {
    return zl_sum_axis(a, 1, false);
}

static zl_array run_columns(void) {
    return zl_sum_axis(a, 0, false);
}

static zl_array run_softmax(void) {
    return zl_softmax(a, -1, false);
}

static zl_array run_layer_norm(void) {
    return zl_fast_layer_norm(a, weight, bias, 1e-5);
}

static zl_array run_rms_norm(void) {
    return zl_fast_rms_norm(a, weight, 1e-5);
}

static zl_array run_cumsum(void) {
    return zl_cumsum(a, -1, false, true, ZL_DTYPE_COUNT);
}

static zl_array run_cumsum_down(void) {
    return zl_cumsum(a, 0, false, true, ZL_DTYPE_COUNT);
}

static zl_array run_cumsum_flat(void) {
    return zl_cumsum_flat(a, false, true, ZL_DTYPE_COUNT);
}

static zl_array run_argmax(void) {
    return zl_argmax_axis(a, 1, false);
}

static zl_array run_sort(void) {
    return zl_sort(a, -1);
}

// bar: TB/s of float32 and of bfloat16; 0: there is none. arrays: of a's size that have to move.
static const struct work {
    const char *name;
    zl_array (*run)(void);
    int64_t line;
    double arrays, bar[2];
} works[] = {
    {"exp", run_exp, 16384, 2, {4.1, 3.8}},
    {"gelu (erf)", run_gelu, 16384, 2, {4.0, 3.8}},
    {"add a row", run_row, 16384, 2, {0, 0}},
    {"transpose copy", run_transpose, 16384, 2, {3.9, 3.7}},
    {"sum", run_sum, 16384, 1, {4.0, 4.0}},
    {"sum of rows", run_rows, 16384, 1, {4.0, 4.0}},
    {"sum of columns", run_columns, 16384, 1, {4.0, 4.0}},
    {"softmax", run_softmax, 1024, 2, {3.9, 3.5}},
    {"softmax", run_softmax, 4096, 2, {3.9, 3.5}},
    {"softmax", run_softmax, 16384, 2, {3.9, 3.5}},
    {"softmax", run_softmax, 32768, 2, {3.9, 3.5}},
    {"layer_norm", run_layer_norm, 4096, 2, {3.8, 3.4}},
    {"layer_norm", run_layer_norm, 16384, 2, {3.8, 3.4}},
    {"rms_norm", run_rms_norm, 4096, 2, {3.8, 3.4}},
    {"cumsum", run_cumsum, 16384, 2, {3.0, 0}},
    {"cumsum down", run_cumsum_down, 16384, 2, {0, 0}},
    {"cumsum of all", run_cumsum_flat, 16384, 2, {0, 0}},
    {"argmax of rows", run_argmax, 16384, 1, {0, 0}},
    {"sort", run_sort, 1024, 2, {0, 0}},
};

static void give_up(void) {
    fprintf(stderr, "%s\n", zl_error());
    exit(1);
}

static zl_array random_of(zl_shape shape, zl_dtype dtype) {
    zl_array x =
        zl_retain(zl_astype(zl_random_uniform(zl_scalar(-1), zl_scalar(1), shape, ZL_FLOAT32, NULL), dtype));
    if (!zl_eval(x))
        give_up();
    return x;
}

// Seconds of the best evaluation, each waited for.
static double best_of(zl_array (*run)(void), int rounds) {
    double best = 1e9;
    for (int i = 0; i < rounds; i++)
        ZL_SCOPE {
            zl_array y = run();
            double begin = bench_now();
            if (!zl_eval(y))
                give_up();
            double took = bench_now() - begin;
            best = took < best ? took : best;
        }
    return best;
}

static void run_work(const struct work *w, int64_t elements, bool is_half) {
    zl_dtype dtype = is_half ? ZL_BFLOAT16 : ZL_FLOAT32;
    int64_t line = w->line < elements / 32 ? w->line : elements / 32;
    double bar = w->bar[is_half];
    a = random_of(ZL_SHAPE(elements / line, line), dtype);
    weight = random_of(ZL_SHAPE(line), dtype);
    bias = random_of(ZL_SHAPE(line), dtype);
    best_of(w->run, 2); // compiles
    double seconds = best_of(w->run, ROUNDS);
    double rate = w->arrays * (double)elements * (double)zl_dtype_size(dtype) / seconds * 1e-12;
    printf("%-16s %-9s lines of %-6lld %8.3f ms %6.2f TB/s", w->name, zl_dtype_name(dtype), (long long)line,
           seconds * 1e3, rate);
    printf(bar > 0 ? "   bar %.1f%s\n" : "\n", bar, rate >= bar ? "" : "  below");
    fflush(stdout);
    zl_release(a);
    zl_release(weight);
    zl_release(bias);
    zl_clear_cache();
}

// Rows of two entries: neighbours on a ring.
static void run_sparse(int64_t rows) {
    enum { TURNS = 20 };
    int32_t *column = malloc(sizeof *column * (size_t)rows * 2),
            *begin = malloc(sizeof *begin * (size_t)(rows + 1));
    for (int64_t i = 0; column && begin && i <= rows; i++) {
        begin[i] = (int32_t)(2 * i);
        for (int side = 0; i < rows && side < 2; side++)
            column[2 * i + side] = (int32_t)((i + (side ? 1 : rows - 1)) % rows);
    }
    zl_array indices = zl_retain(zl_from_i32(column, ZL_SHAPE(2 * rows))),
             pointers = zl_retain(zl_from_i32(begin, ZL_SHAPE(rows + 1)));
    zl_array numbers = random_of(ZL_SHAPE(2 * rows), ZL_FLOAT32), x = random_of(ZL_SHAPE(rows), ZL_FLOAT32);
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++)
        ZL_SCOPE {
            zl_array y = x;
            for (int turn = 0; turn < TURNS; turn++)
                y = zl_csr_matvec(numbers, indices, pointers, y);
            double start = bench_now();
            if (!zl_eval(y))
                give_up();
            double took = (bench_now() - start) / TURNS;
            best = took < best ? took : best;
        }
    printf("%-16s %-9s %lld rows in a ring %8.3f ms %6.0f GFLOP/s   bar 300\n", "csr_matvec", "float32",
           (long long)rows, best * 1e3, 4e-9 * (double)rows / best);
    zl_release(indices);
    zl_release(pointers);
    zl_release(numbers);
    zl_release(x);
    free(column);
    free(begin);
}

int main(int argc, char **argv) {
    if (argc < 2 || !zl_use_device(argv[1]))
        return fprintf(stderr, "usage: %s DEVICE [--quick]\n%s\n", argv[0], zl_error() ? zl_error() : ""), 1;
    int64_t elements = argc > 2 && !strcmp(argv[2], "--quick") ? QUICK_ELEMENTS : ELEMENTS;
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        for (int half = 0; half < 2; half++)
            ZL_SCOPE
                run_work(&works[i], elements, half);
    run_sparse(elements >> 8);
    printf("fallbacks %lld, launches %lld\n", (long long)zl_counter("fallbacks"),
           (long long)zl_counter("launches"));
    return 0;
}
