// cuda_conv_product.c - convolutions of f32 as one product of matrices. A row of patches has, for each tap of
// the kernel, the channels of the input element that the tap meets. Patches times kernels are the output,
// cotangents times patches the gradient of the kernels. For the gradient of the input, cotangents are
// multiplied with kernels, and the products are summed for each element of the input, in the order of the
// taps.

#include "device/cuda/cuda_conv.h"
#include "device/cuda/cuda_lt.h"
#include "kernel/kernel.h"

#include <math.h>

enum {
    PATCHES_MOST = 1 << 28, // elements
    PLACES_MOST = 1 << 29,
    TIMED_RUNS = 3,
    PACK = 4, // channels that a thread handles
};

// Sizes -----------------------------------------------------------------------------------------------------

static int64_t product_of(const int64_t *list, int count) {
    int64_t product = 1;
    for (int i = 0; i < count; i++)
        product *= list[i];
    return product;
}

// Returns the rows of the patches.
static int64_t rows_of(const struct conv_sizes *s) {
    return s->y[0] * product_of(s->y + 2, s->axes);
}

static int64_t columns_of(const struct conv_sizes *s) {
    return s->w[1] * product_of(s->w + 2, s->axes);
}

static int64_t inputs_of(const struct conv_sizes *s) {
    return product_of(s->x, s->axes + 2);
}

// Returns whether positions along an axis, which kernels count in 32 bits, are small enough.
static bool is_short(const struct conv_sizes *s, int i) {
    return s->y[i + 2] <= PLACES_MOST / s->stride[i] && s->w[i + 2] <= PLACES_MOST / s->dilation[i] &&
           s->low[i] <= PLACES_MOST;
}

bool cuda_conv_has_product(const struct conv_sizes *s) {
    bool has = s->x[1] == s->w[1] && lt_is_there() && inputs_of(s) <= PLACES_MOST; // without groups
    for (int i = 0; i < s->axes; i++)
        has = has && is_short(s, i);
    return has && rows_of(s) <= PATCHES_MOST / columns_of(s);
}

// Kernels of patches ----------------------------------------------------------------------------------------

// Returns the index of a spatial axis among the three of the kernels, of which it uses the last ones. Axes
// before them have size 1, one output and one tap.
static int axis_of(const struct conv_sizes *s, int i) {
    return CONV_AXES - s->axes + i;
}

// Sets what unfold.tile needs of an axis: taps and outputs as symbols, the rest in the table. For a flipped
// kernel, the first tap is the last one, and steps are negative.
static void set_unfold(struct conv_patches *z, const struct conv_sizes *s, int i) {
    enum { SIZE, STRIDE, LOW, STEP };
    int at = axis_of(s, i);
    int64_t *symbol = z->symbol + 2, back = s->flip ? (s->w[i + 2] - 1) * s->dilation[i] : 0;
    symbol[at] = s->w[i + 2];
    symbol[CONV_AXES + at] = s->y[i + 2];
    z->table[SIZE][at] = (int32_t)s->x[i + 2];
    z->table[STRIDE][at] = (int32_t)s->stride[i];
    z->table[LOW][at] = (int32_t)(s->low[i] - back);
    z->table[STEP][at] = (int32_t)(s->flip ? -s->dilation[i] : s->dilation[i]);
}

// Returns the launch of unfold.tile. Its symbols are n, packs, two sizes of each axis, and the elements of
// its input.
static struct conv_patches unfold_of(const struct conv_sizes *s) {
    int64_t channels = s->x[1], unit = channels % PACK == 0 ? PACK : 1;
    struct conv_patches z = {.key = {"patches", 0, (int32_t)unit}, .symbols = 9, .rows = 4};
    for (int i = 0; i < CONV_AXES; i++) {
        z.symbol[2 + i] = z.symbol[2 + CONV_AXES + i] = 1;
        z.table[0][i] = z.table[1][i] = 1;
    }
    z.symbol[0] = rows_of(s) * columns_of(s) / unit;
    z.symbol[1] = channels / unit;
    z.symbol[8] = inputs_of(s) / unit;
    for (int i = 0; i < s->axes; i++)
        set_unfold(&z, s, i);
    return z;
}

enum {
    FOLD_N,
    FOLD_PACKS,
    FOLD_CHANNELS,
    FOLD_SIZE,
    FOLD_STRIDE = 6,
    FOLD_APART = 9,
    FOLD_EACH = 12,
    FOLD_FROM,
    FOLD_AT,
    FOLD_TO
};

// Sets what fold.tile needs of an axis, whose outputs and taps are so many elements apart in the patches. A
// flipped kernel is read from its last tap on.
static void set_fold(struct conv_patches *z, const struct conv_sizes *s, int i, int64_t out, int64_t tap) {
    enum { OUTS, LOW, REACH, OUT, TAP };
    int at = axis_of(s, i);
    int64_t last = s->w[i + 2] - 1;
    z->symbol[FOLD_SIZE + at] = s->x[i + 2];
    z->symbol[FOLD_STRIDE + at] = s->stride[i];
    z->symbol[FOLD_APART + at] = s->dilation[i];
    z->symbol[FOLD_AT] += s->flip ? last * tap : 0;
    z->table[OUTS][at] = (int32_t)s->y[i + 2];
    z->table[LOW][at] = (int32_t)s->low[i];
    z->table[REACH][at] = (int32_t)(last * s->dilation[i]);
    z->table[OUT][at] = (int32_t)out;
    z->table[TAP][at] = (int32_t)(s->flip ? -tap : tap);
}

static struct conv_patches fold_of(const struct conv_sizes *s) {
    int64_t channels = s->x[1], unit = channels % PACK == 0 ? PACK : 1, packs = (channels + PACK - 1) / PACK;
    struct conv_patches z = {.key = {"patches", 1, (int32_t)unit}, .symbols = 16, .rows = 5};
    for (int i = 0; i < CONV_AXES; i++) {
        z.symbol[FOLD_SIZE + i] = z.symbol[FOLD_STRIDE + i] = z.symbol[FOLD_APART + i] = 1;
        z.table[0][i] = 1;
    }
    int64_t tap = channels / unit, out = columns_of(s) / unit;
    for (int i = s->axes - 1; i >= 0; i--) {
        set_fold(&z, s, i, out, tap);
        tap *= s->w[i + 2];
        out *= s->y[i + 2];
    }
    z.symbol[FOLD_N] = inputs_of(s) / channels * packs;
    z.symbol[FOLD_PACKS] = packs;
    z.symbol[FOLD_CHANNELS] = channels;
    z.symbol[FOLD_EACH] = out;
    z.symbol[FOLD_FROM] = rows_of(s) * columns_of(s) / unit;
    z.symbol[FOLD_TO] = inputs_of(s) / unit;
    return z;
}

struct conv_patches cuda_conv_patches_of(const struct conv_sizes *s, bool folds) {
    return folds ? fold_of(s) : unfold_of(s);
}

struct tile_kernel *cuda_conv_patches_make(const void *data) {
    const struct conv_patches_key *r = data;
    return kernel_built_in(r->folds ? "fold" : "unfold", "UNIT=%d", r->unit);
}

// Running ---------------------------------------------------------------------------------------------------

// Makes patches from the input, or the input from products for patches.
static bool move(const struct kernel_place *p, const struct conv_sizes *s, bool folds, void *to, void *from) {
    struct conv_patches z = cuda_conv_patches_of(s, folds);
    const struct kernel_tiles *kernel =
        kernel_find_tiles(p, &z.key, sizeof z.key, cuda_conv_patches_make, &z.key);
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, from);
    kernel_add(&k, z.table, (size_t)z.rows * sizeof *z.table);
    kernel_add_memory(&k, to);
    return kernel && kernel_launch_tiles(p, kernel, &k, z.symbols, z.symbol);
}

// Multiplies (m, k) by (k, n). Bits of `transposed` say that columns of a, or of b, are contiguous, as in
// struct lt_key.
static bool multiply(const struct kernel_place *p, int64_t m, int64_t k, int64_t n, int transposed,
                     const void *a, const void *b, void *y) {
    struct lt_key key = {.m = m,
                         .n = n,
                         .k = k,
                         .a_step = transposed & 1 ? m : k,
                         .b_step = transposed & 2 ? k : n,
                         .batch = 1,
                         .dtype = ZL_FLOAT32,
                         .out = ZL_FLOAT32,
                         .aligned = 16,
                         .transposed = transposed,
                         .then = LT_NOTHING};
    struct lt_memory memory = {.a = a, .b = b, .y = y, .scale = 1};
    lt_take(p->unit);
    struct lt_product *r = lt_find(p->unit, p->lane, &key);
    bool done = r && lt_multiply(p->unit, p->lane, r, &key, &memory);
    lt_give(p->unit);
    if (!done && !zl_error())
        error_set(ZL_ERROR_DEVICE, "cuda: cuBLASLt has no such product");
    return done;
}

static bool run(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory,
                void *patches) {
    void *x = memory[0], *w = memory[1], *y = memory[2];
    int64_t rows = rows_of(s), columns = columns_of(s), outputs = s->y[1];
    switch (s->kind) {
    case DNN_CONV_FORWARD:
        return move(p, s, false, patches, x) && multiply(p, rows, columns, outputs, 2, patches, w, y);
    case DNN_CONV_OF_KERNEL:
        return move(p, s, false, patches, x) && multiply(p, outputs, rows, columns, 1, y, patches, w);
    case DNN_CONV_OF_INPUT:
        return multiply(p, rows, outputs, columns, 0, y, w, patches) && move(p, s, true, x, patches);
    }
    return false;
}

bool cuda_conv_by_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory) {
    struct kernel_scratch patches = {0};
    bool done = kernel_scratch_open(p, &patches, sizeof(float) * (size_t)(rows_of(s) * columns_of(s))) &&
                run(p, s, memory, patches.memory);
    kernel_scratch_close(p, &patches);
    return done;
}

// Timing ----------------------------------------------------------------------------------------------------

struct trial {
    const struct kernel_place *place;
    const struct conv_sizes *sizes;
    void *const *memory;
};

static bool try_product(const void *data) {
    const struct trial *t = data;
    return cuda_conv_by_product(t->place, t->sizes, t->memory);
}

float cuda_conv_time_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory) {
    struct trial t = {p, s, memory};
    bool had_error = zl_error();
    // During the first runs, cuBLASLt finds its best algorithm.
    float first = cuda_time(p->unit, p->lane, TIMED_RUNS, try_product, &t);
    float ms = isfinite(first) ? cuda_time(p->unit, p->lane, TIMED_RUNS, try_product, &t) : INFINITY;
    if (!had_error)
        zl_clear_error();
    return ms;
}
