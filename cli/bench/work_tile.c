// work_tile.c - tile kernels, which also run on targets without a device of arrays: products and attention,
// measured by FLOP (`tile`), and kernels on rows, measured by bytes (`tile_rows`).
//
// The compiled kernel that is timed is verified on arrays of at most 200 along each axis, with edges, because
// an emulator is too slow for 4096^3.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "zellige_tile.h"

enum { ARRAYS = 4, VERIFIED = 200 };

struct tile {
    const struct op *op;
    zl_kernel kernel;
    int64_t size[4]; // in the kernel's order
    zl_array out;    // the output, where the device reports its times
};

// Kernels ---------------------------------------------------------------------------------------------------

static const char matmul[] = "type ITEM = f16, SUM = f32, OUT = f16\n"
                             "kernel matmul(a: ITEM[M, K], b: ITEM[K, N]) -> (c: OUT[M, N]) {\n"
                             "  param BM = 128, BN = 128, BK = 32\n"
                             "  grid bx in ceildiv(N, BN), by in ceildiv(M, BM), threads 256 {\n"
                             "    shared x: ITEM[BM, BK]\n"
                             "    shared y: ITEM[BK, BN]\n"
                             "    fragment sum: SUM[BM, BN] = 0\n"
                             "    pipeline k in ceildiv(K, BK) stages 2 {\n"
                             "      copy a[by * BM, k * BK] -> x\n"
                             "      copy b[k * BK, bx * BN] -> y\n"
                             "      gemm x, y -> sum\n"
                             "    }\n"
                             "    copy sum -> c[by * BM, bx * BN]\n"
                             "  }\n"
                             "}\n";

static const char attention[] =
    "type ITEM = f16\n"
    "param WIDTH = 64\n"
    "kernel attention(q: ITEM[h, n, WIDTH], k: ITEM[h, n, WIDTH], v: ITEM[h, n, WIDTH]) -> (o: ITEM[h, n, "
    "WIDTH]) {\n"
    "  grid b in ceildiv(n, 64), at in h, threads 128 {\n"
    "    shared x: ITEM[64, WIDTH]\n"
    "    shared y: ITEM[64, WIDTH]\n"
    "    shared z: ITEM[64, WIDTH]\n"
    "    shared p: ITEM[64, 64]\n"
    "    fragment s: f32[64, 64]\n"
    "    fragment sum: f32[64, WIDTH] = 0\n"
    "    fragment most: f32[64] = -inf\n"
    "    fragment before: f32[64]\n"
    "    fragment part: f32[64]\n"
    "    fragment all: f32[64] = 0\n"
    "    copy q[at, b * 64, 0] of [1, 64, WIDTH] -> x\n"
    "    pipeline c in b + 1 stages 2 {\n"
    "      copy k[at, c * 64, 0] of [1, 64, WIDTH] -> y\n"
    "      copy v[at, c * 64, 0] of [1, 64, WIDTH] -> z\n"
    "      gemm x, transpose y -> s clear\n"
    "      map i in 64, j in 64 { s[i, j] = where(b * 64 + i >= c * 64 + j, s[i, j] * rsqrt(f32(WIDTH)), "
    "-inf) }\n"
    "      map i in 64 { before[i] = most[i] }\n"
    "      reduce maximum s -> most axis 1 accumulate\n"
    "      map i in 64, j in 64 { s[i, j] = exp(s[i, j] - most[i]) }\n"
    "      reduce add s -> part axis 1\n"
    "      map i in 64 { all[i] = all[i] * exp(before[i] - most[i]) + part[i] }\n"
    "      map i in 64, j in WIDTH { sum[i, j] = sum[i, j] * exp(before[i] - most[i]) }\n"
    "      copy s -> p\n"
    "      gemm p, z -> sum\n"
    "    }\n"
    "    map i in 64, j in WIDTH { sum[i, j] = sum[i, j] / all[i] }\n"
    "    copy sum -> o[at, b * 64, 0] of [1, 64, WIDTH]\n"
    "  }\n"
    "}\n";

static const char add[] = "type ITEM = f32\n"
                          "kernel add(a: ITEM[n], b: ITEM[n]) -> (y: ITEM[n]) { map i in n { y[i] = a[i] + "
                          "b[i] } }\n";

// Kernels on rows of at most MOST elements, 64 rows per block.
#define ROWS(NAME, BODY)                                                          \
    "type ITEM = f32\n"                                                           \
    "param MOST = 1024\n"                                                         \
    "kernel " NAME "(x: ITEM[rows, n]) -> (y: ITEM[rows, n]) where n <= MOST {\n" \
    "  grid b in ceildiv(rows, 64), threads 256 {\n"                              \
    "    fragment t: f32[64, MOST]\n"                                             \
    "    fragment u: f32[64, MOST]\n"                                             \
    "    fragment all: f32[64]\n" BODY "  }\n"                                    \
    "}\n"

static const char softmax[] =
    ROWS("softmax", "    copy x[b * 64, 0] -> t else -inf\n"
                    "    reduce maximum t -> all axis 1\n"
                    "    map i in 64, j in MOST { t[i, j] = exp(t[i, j] - all[i]) }\n"
                    "    reduce add t -> all axis 1\n"
                    "    map i in 64, j in MOST { t[i, j] = t[i, j] / all[i] }\n"
                    "    copy t -> y[b * 64, 0]\n");

static const char rms_norm[] =
    ROWS("rms_norm", "    copy x[b * 64, 0] -> t else 0\n"
                     "    map i in 64, j in MOST { u[i, j] = t[i, j] * t[i, j] }\n"
                     "    reduce add u -> all axis 1\n"
                     "    map i in 64, j in MOST { t[i, j] = t[i, j] * rsqrt(all[i] / f32(n) + 0.00001) }\n"
                     "    copy t -> y[b * 64, 0]\n");

static const char running_sum[] = ROWS("running_sum", "    copy x[b * 64, 0] -> t else 0\n"
                                                      "    scan add t -> u axis 1\n"
                                                      "    copy u -> y[b * 64, 0]\n");

// What they should give, in double --------------------------------------------------------------------------

static void want_matmul(const double *const *in, const int64_t *size, double *out) {
    int64_t m = size[0], k = size[1], n = size[2];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = out[i * n + j] = 0; p < k; p++)
                out[i * n + j] += in[0][i * k + p] * in[1][p * n + j];
}

static void want_attention(const double *const *in, const int64_t *size, double *out) {
    int64_t n = size[1], width = size[2];
    for (int64_t row = 0; row < size[0] * n; row++) {
        const double *q = in[0] + row * width, *k = in[1] + row / n * n * width,
                     *v = in[2] + row / n * n * width;
        double total = 0, *y = out + row * width;
        memset(y, 0, (size_t)width * sizeof *y);
        for (int64_t j = 0; j <= row % n; j++) {
            double score = 0;
            for (int64_t d = 0; d < width; d++)
                score += q[d] * k[j * width + d];
            double weight = exp(score / sqrt((double)width));
            total += weight;
            for (int64_t d = 0; d < width; d++)
                y[d] += weight * v[j * width + d];
        }
        for (int64_t d = 0; d < width; d++)
            y[d] /= total;
    }
}

static void want_add(const double *const *in, const int64_t *size, double *out) {
    for (int64_t i = 0; i < size[0]; i++)
        out[i] = in[0][i] + in[1][i];
}

static void want_softmax(const double *const *in, const int64_t *size, double *out) {
    for (int64_t i = 0; i < size[0]; i++) {
        const double *x = in[0] + i * size[1];
        double total = 0, *y = out + i * size[1];
        for (int64_t j = 0; j < size[1]; j++)
            total += y[j] = exp(x[j]);
        for (int64_t j = 0; j < size[1]; j++)
            y[j] /= total;
    }
}

static void want_rms_norm(const double *const *in, const int64_t *size, double *out) {
    for (int64_t i = 0; i < size[0]; i++) {
        const double *x = in[0] + i * size[1];
        double total = 0;
        for (int64_t j = 0; j < size[1]; j++)
            total += x[j] * x[j];
        for (int64_t j = 0; j < size[1]; j++)
            out[i * size[1] + j] = x[j] / sqrt(total / (double)size[1] + 1e-5);
    }
}

static void want_running_sum(const double *const *in, const int64_t *size, double *out) {
    for (int64_t i = 0; i < size[0] * size[1]; i++)
        out[i] = in[0][i] + (i % size[1] ? out[i - 1] : 0);
}

// The table -------------------------------------------------------------------------------------------------

static const struct op {
    const char *name, *text;
    int inputs, dims; // number of input arrays; sizes of the configuration
    bool counts_flops;
    void (*want)(const double *const *in, const int64_t *size, double *out);
} ops[] = {
    {"matmul", matmul, 2, 3, true, want_matmul},
    {"attention", attention, 3, 3, true, want_attention},
    {"add", add, 2, 1, false, want_add},
    {"softmax", softmax, 1, 2, false, want_softmax},
    {"rms_norm", rms_norm, 1, 2, false, want_rms_norm},
    {"running_sum", running_sum, 1, 2, false, want_running_sum},
};

static const struct op *find_op(struct bench_work *w, bool counts_flops) {
    const struct bench_config *c = w->config;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, c->op) && ops[i].counts_flops == counts_flops)
            return &ops[i];
    bench_fail(w, "%s has no op '%s': there are %s", c->work, c->op,
               counts_flops ? "matmul and attention" : "add, softmax, rms_norm and running_sum");
    return NULL;
}

// Reads sizes in the kernel's order: m, k, n for a product, whose configuration has m, n, k.
static bool read_sizes(struct bench_work *w, struct tile *t, const int64_t *dim) {
    const struct bench_config *c = w->config;
    bool is_product = t->op->text == matmul;
    if (c->dims != t->op->dims && !(is_product && c->dims == 1))
        return bench_fail(w, "%s takes %d sizes", c->op, t->op->dims);
    for (int i = 0; i < t->op->dims; i++)
        t->size[i] = dim[c->dims == 1 ? 0 : i];
    if (is_product) {
        int64_t n = t->size[1];
        t->size[1] = t->size[2];
        t->size[2] = n;
    }
    return true;
}

static void shape_of(const struct tile *t, int at, int64_t *dim, int *dims) {
    const int64_t *s = t->size;
    *dims = t->op->text == matmul ? 2 : t->op->dims;
    memcpy(dim, s, 3 * sizeof *dim);
    if (t->op->text == matmul) {
        dim[0] = at == 1 ? s[1] : s[0];
        dim[1] = at == 0 ? s[1] : s[2];
    }
}

// Preparing -------------------------------------------------------------------------------------------------

static const char *target_of(const struct bench_work *w) {
    return !w->device || !strcmp(w->device, "cpu") ? "c" : w->device;
}

// On chips with lanes large blocks read less device memory: takes the largest that still give each of eight
// cores a block.
static void add_blocks(char *params, size_t bytes, int64_t rows, int64_t columns) {
    int64_t m = 1024, n = 1024;
    while (m > 128 && ((rows + m - 1) / m) * ((columns + n - 1) / n) < 8)
        if (m < n)
            n /= 2;
        else
            m /= 2;
    size_t used = strlen(params);
    snprintf(params + used, bytes - used, ",BM=%d,BN=%d", (int)m, (int)n);
}

static bool compile(struct bench_work *w, struct tile *t) {
    const char *item = bench_dtype_name(w->config->dtype);
    char params[128];
    bool is_int8 = w->config->dtype == BENCH_INT8, is_product = t->op->text == matmul;
    int64_t most = 64;
    while (t->op->dims == 2 && most < t->size[1])
        most *= 2;
    if (is_int8 && !is_product)
        return bench_fail(w, "of int8 there are products alone");
    if (is_product)
        snprintf(params, sizeof params, "ITEM=%s,SUM=%s,OUT=%s", is_int8 ? "i8" : item,
                 is_int8 ? "i32" : "f32", is_int8 ? "i32" : item);
    else if (t->op->text == attention)
        snprintf(params, sizeof params, "ITEM=%s,WIDTH=%lld", item, (long long)t->size[2]);
    else if (t->op->dims == 2)
        snprintf(params, sizeof params, "ITEM=%s,MOST=%lld", item, (long long)most);
    else
        snprintf(params, sizeof params, "ITEM=%s", item);
    if (is_product && w->tells_seconds)
        add_blocks(params, sizeof params, t->size[0], t->size[2]);
    t->kernel = zl_kernel_compile_with(t->op->text, t->op->name, target_of(w), params);
    return t->kernel;
}

// Counts the bytes of the arrays and the operations of one run.
static void count(struct bench_work *w, const struct tile *t) {
    const int64_t *s = t->size;
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(w->config->dtype)), elements = 0;
    for (int i = 0; i <= t->op->inputs; i++) {
        int64_t dim[3];
        int dims;
        double all = i == t->op->inputs && w->config->dtype == BENCH_INT8 ? 4 : 1;
        shape_of(t, i, dim, &dims);
        for (int d = 0; d < dims; d++)
            all *= (double)dim[d];
        elements += all;
    }
    w->bytes = elements * size;
    w->flops = t->op->text == matmul ? 2.0 * (double)s[0] * (double)s[1] * (double)s[2]
               : t->op->text == attention
                   ? 2.0 * (double)s[0] * (double)s[1] * (double)(s[1] + 1) * (double)s[2]
                   : 0;
}

static bool make_inputs(struct bench_work *w, const struct tile *t) {
    bool made = true;
    for (int i = 0; made && i < t->op->inputs; i++) {
        int64_t dim[3];
        int dims;
        shape_of(t, i, dim, &dims);
        zl_shape shape = {dim, dims};
        made = w->is_modelled ? bench_hold(w, zl_zeros(shape, bench_dtype_of_arrays(w->config->dtype)))
                              : bench_random(w, shape);
    }
    return made;
}

static zl_dtype out_dtype(const struct bench_work *w) {
    return w->config->dtype == BENCH_INT8 ? ZL_INT32 : bench_dtype_of_arrays(w->config->dtype);
}

static bool prepare(struct bench_work *w, bool counts_flops) {
    struct tile *t = w->data = calloc(1, sizeof *t);
    if (!t || !(t->op = find_op(w, counts_flops)) || !read_sizes(w, t, w->config->dim) || !compile(w, t))
        return false;
    count(w, t);
    if (!make_inputs(w, t))
        return false;
    if (w->tells_seconds) {
        int64_t dim[3];
        int dims;
        shape_of(t, t->op->inputs, dim, &dims);
        t->out = zl_zeros((zl_shape){dim, dims}, out_dtype(w));
        return t->out && zl_eval(zl_retain(t->out));
    }
    return true;
}

static bool prepare_flops(struct bench_work *w) {
    return prepare(w, true);
}

static bool prepare_rows(struct bench_work *w) {
    return prepare(w, false);
}

static void finish(struct bench_work *w) {
    struct tile *t = w->data;
    zl_kernel_release(t->kernel);
    zl_release(t->out);
}

// Running ---------------------------------------------------------------------------------------------------

static bool run(struct bench_work *w, int runs) {
    const struct tile *t = w->data;
    bool done = true;
    for (int i = 0; done && i < runs; i++) {
        zl_array out = NULL;
        done = zl_kernel_call(t->kernel, t->op->inputs, w->in, 1, &out);
        zl_release(out);
    }
    return (!w->is_async || zl_synchronize()) && done;
}

static bool tell(struct bench_work *w, double *seconds) {
    const struct tile *t = w->data;
    zl_kernel_buffer buffer[ARRAYS];
    int64_t dim[ARRAYS][3];
    for (int i = 0; i <= t->op->inputs; i++) {
        zl_array a = i < t->op->inputs ? w->in[i] : t->out;
        int dims;
        shape_of(t, i, dim[i], &dims);
        buffer[i] = (zl_kernel_buffer){(void *)(uintptr_t)zl_data(a), zl_dtype_of(a), dims, dim[i], NULL};
    }
    return zl_kernel_time(t->kernel, t->op->inputs + 1, buffer, 1, seconds);
}

// Verification ----------------------------------------------------------------------------------------------

static bool is_near(struct bench_work *w, const double *got, const double *want, int64_t count) {
    double epsilon = fmax(2 * bench_dtype_epsilon(w->config->dtype), 1e-4), worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs(got[i] - want[i]) / fmax(1, fabs(want[i])));
    if (w->config->dtype == BENCH_INT8)
        epsilon = 0;
    return worst <= epsilon || bench_fail(w, "wrong result: off by %.3g, allowed is %.3g", worst, epsilon);
}

static bool verify_arrays(struct bench_work *small, const struct tile *t) {
    zl_array out = NULL;
    double *in[ARRAYS] = {NULL}, *got = NULL, *want = NULL;
    bool good = zl_kernel_call(t->kernel, t->op->inputs, small->in, 1, &out);
    int64_t count = good ? (int64_t)zl_size(out) : 0;
    for (int i = 0; good && i < t->op->inputs; i++)
        good = (in[i] = bench_elements(small->in[i]));
    good = good && (got = bench_elements(out)) && (want = malloc((size_t)(count + 1) * sizeof *want));
    if (good) {
        t->op->want((const double *const *)in, t->size, want);
        good = is_near(small, got, want, count);
    }
    for (int i = 0; i < ARRAYS; i++)
        free(in[i]);
    free(got), free(want);
    zl_release(out);
    return good;
}

// Verifies the same kernel on smaller random arrays.
static bool verify(struct bench_work *w) {
    struct tile small = *(struct tile *)w->data;
    struct bench_work work = {.kind = w->kind, .config = w->config, .device = w->device};
    int fixed = small.op->text == attention ? 2 : -1; // the size that is a constant of the kernel
    for (int i = 0; i < small.op->dims; i++)
        if (i != fixed && small.size[i] > VERIFIED)
            small.size[i] = VERIFIED - 7 * i;
    bool good = make_inputs(&work, &small) && verify_arrays(&work, &small);
    for (int i = 0; i < work.inputs; i++)
        zl_release(work.in[i]);
    if (!good)
        snprintf(w->why, sizeof w->why, "%s", work.why);
    return good;
}

const struct bench_work_kind bench_work_tile = {
    .name = "tile",
    .unit = "FLOP",
    .summary = "tile kernels: products, causal attention",
    .prepare = prepare_flops,
    .run = run,
    .verify = verify,
    .tell = tell,
    .finish = finish,
};

const struct bench_work_kind bench_work_tile_rows = {
    .name = "tile_rows",
    .unit = "B",
    .summary = "tile kernels of elements and rows",
    .prepare = prepare_rows,
    .run = run,
    .verify = verify,
    .tell = tell,
    .finish = finish,
};
