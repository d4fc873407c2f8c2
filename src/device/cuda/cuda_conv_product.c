// cuda_conv_product.c - convolutions of float32 as one product of matrices. A row of patches has, of each tap of the kernel, the
// channels of what it meets in the input: patches times kernels are the output, cotangents times patches the gradient of kernels. The
// gradient of the input is the sum of what cotangents times kernels give to each of its elements, in the order of the taps.

#include "device/cuda/cuda_conv.h"
#include "device/cuda/cuda_lt.h"
#include "kernel/kernel.h"

#include <math.h>

enum {
    PATCHES_MOST = 1 << 28, // numbers
    PLACES_MOST = 1 << 29,
    TIMED_RUNS = 3,
    PACK = 4, // channels that a thread has
};

// Sizes ---------------------------------------------------------------------------------------------------------------

static int64_t product_of(const int64_t *list, int count) {
    int64_t product = 1;
    for (int i = 0; i < count; i++)
        product *= list[i];
    return product;
}

// Of the patches.
static int64_t rows_of(const struct conv_sizes *s) {
    return s->y[0] * product_of(s->y + 2, s->axes);
}

static int64_t columns_of(const struct conv_sizes *s) {
    return s->w[1] * product_of(s->w + 2, s->axes);
}

static int64_t inputs_of(const struct conv_sizes *s) {
    return product_of(s->x, s->axes + 2);
}

// Places along an axis are counted in 32 bits.
static bool is_short(const struct conv_sizes *s, int i) {
    return s->y[i + 2] <= PLACES_MOST / s->stride[i] && s->w[i + 2] <= PLACES_MOST / s->dilation[i] &&
           s->low[i] <= PLACES_MOST;
}

bool conv_has_product(const struct conv_sizes *s) {
    bool has = s->x[1] == s->w[1] && lt_is_there() && inputs_of(s) <= PLACES_MOST; // no groups
    for (int i = 0; i < s->axes; i++)
        has = has && is_short(s, i);
    return has && rows_of(s) <= PATCHES_MOST / columns_of(s);
}

// Kernels of patches --------------------------------------------------------------------------------------------------

enum { FIRST, SECOND, LOW, STEP }; // rows of the kernels' table

// Spatial axes are the last of three. What a flipped window does to an axis is in where its first tap is, and in the step.
static void set_axis(struct conv_patches *z, const struct conv_sizes *s, int i) {
    int at = CONV_AXES - s->axes + i, folds = z->key.folds;
    int64_t size = s->x[i + 2], taps = s->w[i + 2], out = s->y[i + 2], stride = s->stride[i];
    int64_t back = s->flip ? (taps - 1) * s->dilation[i] : 0;
    int64_t *symbol = z->symbol + (folds ? 3 : 2);
    symbol[at] = folds ? size : taps;
    symbol[CONV_AXES + at] = folds ? stride : out;
    z->table[FIRST][at] = (int32_t)(folds ? taps : size);
    z->table[SECOND][at] = (int32_t)(folds ? out : stride);
    z->table[LOW][at] = (int32_t)(s->low[i] - back);
    z->table[STEP][at] = (int32_t)(s->flip ? -s->dilation[i] : s->dilation[i]);
}

// As fold.tile and unfold.tile have them: n, packs, channels of the first, two sizes of each axis, elements of both memories.
struct conv_patches conv_patches_of(const struct conv_sizes *s, bool folds) {
    int64_t channels = s->x[1], patches = rows_of(s) * columns_of(s), inputs = inputs_of(s);
    int32_t unit = channels % PACK == 0 ? PACK : 1;
    int64_t packs = folds ? (channels + PACK - 1) / PACK : channels / unit, *symbol;
    struct conv_patches z = {.key = {"patches", folds, unit}, .symbols = folds ? 11 : 9};
    z.table[FIRST][0] = z.table[FIRST][1] = z.table[FIRST][2] = 1;
    z.table[SECOND][0] = z.table[SECOND][1] = z.table[SECOND][2] = 1;
    for (int i = 0; i < z.symbols; i++)
        z.symbol[i] = 1;
    symbol = z.symbol;
    *symbol++ = (folds ? inputs : patches) / channels * packs;
    *symbol++ = packs;
    if (folds)
        *symbol++ = channels;
    symbol += 2 * CONV_AXES;
    *symbol++ = (folds ? patches : inputs) / unit;
    if (folds)
        *symbol++ = inputs / unit;
    for (int i = 0; i < s->axes; i++)
        set_axis(&z, s, i);
    return z;
}

struct tile_kernel *conv_patches_make(const void *data) {
    const struct conv_patches_key *r = data;
    return kernel_built_in(r->folds ? "fold" : "unfold", "UNIT=%d", r->unit);
}

// Running -------------------------------------------------------------------------------------------------------------

// Patches from the input, or the input from what belongs to patches.
static bool move(const struct kernel_place *p, const struct conv_sizes *s, bool folds, void *to, void *from) {
    struct conv_patches z = conv_patches_of(s, folds);
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &z.key, sizeof z.key, conv_patches_make, &z.key);
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, from);
    kernel_add(&k, z.table, sizeof z.table);
    kernel_add_memory(&k, to);
    return kernel && kernel_launch_tiles(p, kernel, &k, z.symbols, z.symbol);
}

// (m, k) times (k, n); turned: columns of a, or of b, lie behind each other, as of struct lt_key.
static bool multiply(const struct kernel_place *p, int64_t m, int64_t k, int64_t n, int turned, const void *a,
                     const void *b, void *y) {
    struct lt_key key = {.m = m,
                         .n = n,
                         .k = k,
                         .a_step = turned & 1 ? m : k,
                         .b_step = turned & 2 ? k : n,
                         .batch = 1,
                         .dtype = ZL_FLOAT32,
                         .out = ZL_FLOAT32,
                         .aligned = 16,
                         .turned = turned,
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

bool conv_by_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory) {
    struct kernel_scratch patches = {0};
    bool done = kernel_scratch_open(p, &patches, sizeof(float) * (size_t)(rows_of(s) * columns_of(s))) &&
                run(p, s, memory, patches.memory);
    kernel_scratch_close(p, &patches);
    return done;
}

// Timing --------------------------------------------------------------------------------------------------------------

struct trial {
    const struct kernel_place *place;
    const struct conv_sizes *sizes;
    void *const *memory;
};

static bool try_product(const void *data) {
    const struct trial *t = data;
    return conv_by_product(t->place, t->sizes, t->memory);
}

float conv_time_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory) {
    struct trial t = {p, s, memory};
    bool had_error = zl_error();
    // At the last of the first runs cuBLASLt has found its best.
    float first = cuda_time(p->unit, p->lane, TIMED_RUNS, try_product, &t);
    float ms = isfinite(first) ? cuda_time(p->unit, p->lane, TIMED_RUNS, try_product, &t) : INFINITY;
    if (!had_error)
        zl_clear_error();
    return ms;
}
