// cuda_conv_product.c - convolutions of float32 as one product of matrices. A row of patches has, of each tap of the kernel, the
// channels of what it meets in the input: patches times kernels are the output, cotangents times patches the gradient of kernels. The
// gradient of the input is the sum of what cotangents times kernels give to each of its elements, in the order of the taps.

#include "device/cuda/cuda_conv.h"
#include "device/cuda/cuda_lt.h"

#include <math.h>

enum {
    PATCHES_MOST = 1 << 28, // numbers
    PLACES_MOST = 1 << 29,
    TIMED_RUNS = 3,
};

// As in the text, of three spatial axes, those that are not there of size 1. A pack is four channels; if they are not whole packs,
// then of patches one, and of the input up to four.
struct sizes {
    uint32_t count, packs; // of what is written, and of the channels
    int32_t channels;
    int32_t in[3], taps[3], out[3], stride[3], low[3], dilation[3];
    int32_t flip;
};

struct recipe {
    int32_t packed, folds;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const char sizes_text[] =
    "struct zl_axes {\n"
    "    u32 count, packs;\n"
    "    i32 channels;\n"
    "    i32 in[3], taps[3], out[3], stride[3], low[3], dilation[3];\n"
    "    i32 flip;\n"
    "};\n"
    "#define TAP(axis, k) ((s.flip ? s.taps[axis] - 1 - (k) : (k)) * s.dilation[axis])\n\n";

// A pack of the patches.
static const char unfold_text[] = "#if PACKED\n"
                                  "typedef float4 pack;\n"
                                  "FN pack zero(void) { return make_float4(0, 0, 0, 0); }\n"
                                  "#else\n"
                                  "typedef f32 pack;\n"
                                  "FN pack zero(void) { return 0; }\n"
                                  "#endif\n"
                                  "KERNEL zl_kernel(GLOBAL pack *to, GLOBAL const pack *x, AXES s) {\n"
                                  "    u32 i = (u32)GROUP * THREADS + THREAD, rest = i / s.packs;\n"
                                  "    if (i >= s.count)\n"
                                  "        return;\n"
                                  "    i32 tap[3], o[3], inside = 1;\n"
                                  "    for (i32 a = 2; a >= 0; a--) {\n"
                                  "        tap[a] = (i32)(rest % (u32)s.taps[a]);\n"
                                  "        rest /= (u32)s.taps[a];\n"
                                  "    }\n"
                                  "    for (i32 a = 2; a >= 0; a--) {\n"
                                  "        o[a] = (i32)(rest % (u32)s.out[a]);\n"
                                  "        rest /= (u32)s.out[a];\n"
                                  "    }\n"
                                  "    for (i32 a = 0; a < 3; a++) {\n"
                                  "        i32 at = o[a] * s.stride[a] + TAP(a, tap[a]) - s.low[a];\n"
                                  "        inside = inside && at >= 0 && at < s.in[a];\n"
                                  "        rest = rest * (u32)s.in[a] + (u32)at;\n"
                                  "    }\n"
                                  "    to[i] = inside ? x[(i64)rest * s.packs + i % s.packs] : zero();\n"
                                  "}\n";

// A pack of the input, of which `left` channels are there. MEET goes on unless a tap of an axis meets it in the output.
static const char fold_text[] =
    "#if PACKED\n"
    "FN float4 load(GLOBAL const f32 *p, i32 left) { return *(GLOBAL const float4 *)p; }\n"
    "FN void store(GLOBAL f32 *p, i32 left, float4 x) { *(GLOBAL float4 *)p = x; }\n"
    "#else\n"
    "FN float4 load(GLOBAL const f32 *p, i32 left) {\n"
    "    return make_float4(p[0], left > 1 ? p[1] : 0, left > 2 ? p[2] : 0, left > 3 ? p[3] : 0);\n"
    "}\n"
    "FN void store(GLOBAL f32 *p, i32 left, float4 x) {\n"
    "    p[0] = x.x;\n"
    "    if (left > 1)\n"
    "        p[1] = x.y;\n"
    "    if (left > 2)\n"
    "        p[2] = x.z;\n"
    "    if (left > 3)\n"
    "        p[3] = x.w;\n"
    "}\n"
    "#endif\n"
    "FN float4 add(float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }\n"
    "#define MEET(axis, k) \\\n"
    "    i32 from##axis = at[axis] + s.low[axis] - TAP(axis, k), o##axis = from##axis / s.stride[axis]; \\\n"
    "    if (from##axis < 0 || o##axis * s.stride[axis] != from##axis || o##axis >= s.out[axis]) \\\n"
    "        continue\n"
    "KERNEL zl_kernel(GLOBAL f32 *x, GLOBAL const f32 *from, AXES s) {\n"
    "    u32 i = (u32)GROUP * THREADS + THREAD, rest = i / s.packs;\n"
    "    if (i >= s.count)\n"
    "        return;\n"
    "    i32 at[3], first = (i32)(i % s.packs) * 4, left = s.channels - first;\n"
    "    x += (i64)rest * s.channels + first;\n"
    "    for (i32 a = 2; a >= 0; a--) {\n"
    "        at[a] = (i32)(rest % (u32)s.in[a]);\n"
    "        rest /= (u32)s.in[a];\n"
    "    }\n"
    "    float4 sum = make_float4(0, 0, 0, 0);\n"
    "    for (i32 a = 0; a < s.taps[0]; a++) {\n"
    "        MEET(0, a);\n"
    "        for (i32 b = 0; b < s.taps[1]; b++) {\n"
    "            MEET(1, b);\n"
    "            for (i32 c = 0; c < s.taps[2]; c++) {\n"
    "                MEET(2, c);\n"
    "                i64 row = (((i64)rest * s.out[0] + o0) * s.out[1] + o1) * s.out[2] + o2;\n"
    "                i64 tap = ((row * s.taps[0] + a) * s.taps[1] + b) * s.taps[2] + c;\n"
    "                sum = add(sum, load(from + tap * s.channels + first, left));\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    store(x, left, sum);\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, true);
    text_add(out, "#define PACKED %d\n%s%s", w->r->packed, sizes_text, w->r->folds ? fold_text : unfold_text);
    return true;
}

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

static struct sizes sizes_of(const struct conv_sizes *s, bool packed, bool folds) {
    struct sizes z = {.in = {1, 1, 1},
                      .taps = {1, 1, 1},
                      .out = {1, 1, 1},
                      .stride = {1, 1, 1},
                      .dilation = {1, 1, 1},
                      .channels = (int32_t)s->x[1],
                      .flip = s->flip};
    for (int i = 0; i < s->axes; i++) {
        int at = 3 - s->axes + i;
        z.in[at] = (int32_t)s->x[i + 2];
        z.taps[at] = (int32_t)s->w[i + 2];
        z.out[at] = (int32_t)s->y[i + 2];
        z.stride[at] = (int32_t)s->stride[i];
        z.low[at] = (int32_t)s->low[i];
        z.dilation[at] = (int32_t)s->dilation[i];
    }
    int64_t packs = packed ? s->x[1] / 4 : folds ? (s->x[1] + 3) / 4 : s->x[1];
    z.packs = (uint32_t)packs;
    z.count = (uint32_t)((folds ? inputs_of(s) : rows_of(s) * columns_of(s)) / s->x[1] * packs);
    return z;
}

// Running -------------------------------------------------------------------------------------------------------------

// Patches from the input, or the input from what belongs to patches.
static bool move(const struct kernel_place *p, const struct conv_sizes *s, bool folds, void *to, void *from) {
    struct recipe r = {s->x[1] % 4 == 0, folds, "patches"};
    struct sizes z = sizes_of(s, r.packed, folds);
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add(&k, &z, sizeof z);
    return kernel && kernel_launch(p, kernel, (z.count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
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
    return done || zl_error() || error_false(ZL_ERROR_DEVICE, "cuda: cuBLASLt has no such product");
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
    struct cuda_scratch patches = {0};
    bool done = cuda_scratch_open(p, &patches, sizeof(float) * (size_t)(rows_of(s) * columns_of(s))) &&
                run(p, s, memory, patches.memory);
    cuda_scratch_close(p, &patches);
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
