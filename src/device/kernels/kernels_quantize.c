// kernels_quantize.c - groups of numbers to a few bits each and back: a thread has eight numbers.

#include "device/kernels/kernels_quantized.h"

enum { MODE, GROUP_OF, CODE_BITS, EIGHT = 8 };

// Codes ------------------------------------------------------------------------------------------------------------

struct quantized_key kernel_quantized_key(const int64_t *arg, zl_array scales) {
    return (struct quantized_key){(int32_t)arg[MODE], (int32_t)arg[GROUP_OF], (int32_t)arg[CODE_BITS],
                                  scales->dtype};
}

// The bits of a small number become those of a f32 whose exponent is too small, but for NaN.
static const char fp4[] = "FN f32 number_of(u32 code) {\n"
                          "    return zl_f32_from((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;\n"
                          "}\n";

// Code i of those that begin with a word; no word is read that it has no part of.
static const char codes[] =
    "FN u32 code_at(GLOBAL const u32 *words, i64 i) {\n"
    "    i64 at = i * BITS / 32;\n"
    "    i32 down = (i32)(i * BITS % 32);\n"
    "    u32 low = words[at] >> down;\n"
    "    return (down + BITS > 32 ? low | words[at + 1] << (32 - down) : low) & ((1u << BITS) - 1u);\n"
    "}\n"
    // Eight codes, number i of such.
    "FN u64 eight_at(GLOBAL const u32 *words, i64 i) {\n"
    "    i64 at = i * BITS / 4;\n"
    "    i32 down = (i32)(i * BITS % 4) * 8;\n"
    "    u64 low = words[at];\n"
    "    return (down + 8 * BITS > 32 ? low | (u64)words[at + 1] << 32 : low) >> down;\n"
    "}\n";

static const char *const scales_of[] = {
    [QUANT_AFFINE] = "FN WIDE scale_of(SCALE x) { WIDE y; widen_scale(&y, &x); return y; }\n",
    [QUANT_MXFP4] = "FN WIDE scale_of(SCALE x) { return (WIDE)zl_f32_from(x ? (u32)x << 23 : 1u << 22); }\n",
    [QUANT_MXFP8] = "FN WIDE scale_of(SCALE x) { return (WIDE)zl_f32_from(x ? (u32)x << 23 : 1u << 22); }\n",
    [QUANT_NVFP4] = "FN WIDE scale_of(SCALE x) { return (WIDE)fp8_number(x); }\n",
};

bool kernel_write_quantized(struct text *out, const struct quantized_key *key, zl_dtype wide,
                            const char *dialect) {
    bool affine = key->mode == QUANT_AFFINE;
    text_add(
        out, "#define BITS %d\n#define GROUP_SIZE %d\n#define AFFINE %d\n#define SCALE %s\n#define WIDE %s\n",
        key->bits, key->group, affine, kernel_memory_type((zl_dtype)key->scales), kernel_memory_type(wide));
    if (affine && !kernel_element(out, tile_cast_kernel(wide, (zl_dtype)key->scales), dialect, "widen_scale"))
        return false;
    text_add(out, "%s%s%s%s", kernel_fp8_text,
             affine           ? "FN f32 number_of(u32 code) { return (f32)code; }\n"
             : key->bits == 4 ? fp4
                              : "FN f32 number_of(u32 code) { return fp8_number(code); }\n",
             scales_of[key->mode], codes);
    return true;
}

// Back -------------------------------------------------------------------------------------------------------------

struct recipe {
    struct quantized_key key;
    int32_t dtype, global; // of the matrix; whether there is a scale of all scales
    char name[12];         // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// Numbers of a small dtype are rounded after the product and after the sum.
static const char unpack[] =
    "FN WIDE round_once(WIDE x) {\n    ITEM item;\n    narrow(&item, &x);\n    widen(&x, &item);\n    return "
    "x;\n}\n"
    "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const u32 *words, i64 words_at, GLOBAL const SCALE *scales, i64 "
    "scales_at,\n"
    "                 GLOBAL const SCALE *biases, i64 biases_at, GLOBAL const f32 *over, i64 over_at, i64 n) "
    "{\n"
    "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    u64 all = eight_at(words + words_at, i);\n"
    "    i64 at = 8 * i / GROUP_SIZE;\n"
    "    WIDE scale = scale_of(scales[scales_at + at]), bias = AFFINE ? scale_of(biases[biases_at + at]) : "
    "0;\n"
    "    if (GLOBAL_SCALE)\n"
    "        scale = scale * (over[over_at] / 2688.0f);\n"
    "    PACK(ITEM, 8) out;\n"
    "    UNROLL for (i32 k = 0; k < 8; k++) {\n"
    "        WIDE value = (WIDE)number_of((u32)(all >> BITS * k) & ((1u << BITS) - 1u)) * scale;\n"
    "        value = AFFINE ? round_once(value) + bias : value;\n"
    "        narrow(&out.e[k], &value);\n"
    "    }\n"
    "    UNROLL for (i32 k = 0; k < 8; k++)\n"
    "        y[8 * i + k] = out.e[k];\n"
    "}\n";

static bool write_unpack(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype, wide = tile_reduce_gives(dtype);
    kernel_begin(out, w->dialect, true);
    if (!kernel_write_quantized(out, &w->r->key, wide, w->dialect) ||
        !kernel_element(out, tile_cast_kernel(wide, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, wide), w->dialect, "narrow"))
        return false;
    text_add(out, "#define ITEM %s\n#define GLOBAL_SCALE %d\n", kernel_memory_type(dtype), w->r->global);
    text_bytes(out, unpack, (int)sizeof unpack - 1);
    return true;
}

// One that is not there stands for another that is, and is not read.
static bool add_array(const struct kernel_place *p, struct kernel_call *k, zl_array x, zl_array other) {
    void *memory = kernel_reach(p, x ? x : other);
    kernel_add_memory(k, memory);
    kernel_add_int(k, x ? x->offset : 0, true);
    return memory;
}

static int64_t groups_for(int64_t threads) {
    return (threads + KERNEL_THREADS - 1) / KERNEL_THREADS;
}

bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m,
                   void *to) {
    struct recipe r = {kernel_quantized_key(arg, m->scales), (int32_t)m->dtype, m->global != NULL, "unpack"};
    void *kernel = kernel_find(p, &r, sizeof r, write_unpack, &(struct writer){&r, p->target->dialect});
    int64_t n = m->scales->size * arg[GROUP_OF] / EIGHT;
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, to);
    if (!kernel || !to || !add_array(p, &k, m->words, NULL) || !add_array(p, &k, m->scales, NULL) ||
        !add_array(p, &k, m->biases, m->scales) || !add_array(p, &k, m->global, m->scales))
        return false;
    kernel_add_int(&k, n, true);
    return kernel_launch(p, kernel, groups_for(n), &k);
}

bool kernel_can_quantize(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return true;
}

bool kernel_dequantize(const struct kernel_place *p, const struct call *c) {
    bool affine = call_args(c)[MODE] == QUANT_AFFINE;
    zl_array third = c->inputs > 2 ? c->in[2] : NULL;
    struct quantized_matrix m = {.words = c->in[0],
                                 .scales = c->in[1],
                                 .biases = affine ? third : NULL,
                                 .global = affine ? NULL : third,
                                 .dtype = (zl_dtype)call_first(c)->dtype};
    return kernel_unpack(p, call_args(c), &m, kernel_reach(p, call_first(c)));
}

// Quantising -------------------------------------------------------------------------------------------------------

// The edge of a group that is further from zero is met exactly; as cpu_quantize.c.
static const char pack[] =
    "#define STEPS ((f32)((1 << BITS) - 1))\n"
    "KERNEL_OF(256) zl_kernel(GLOBAL u8 *words, GLOBAL ITEM *scales, GLOBAL ITEM *biases, GLOBAL const ITEM "
    "*w, i64 w_at, i64 n) {\n"
    "    SLOT(f32, slot, 256)\n"
    "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
    "    f32 e[8], low = 0, high = 0;\n"
    "    for (i32 k = 0; k < 8; k++) {\n"
    "        ITEM item = w[w_at + 8 * (i < n ? i : 0) + k];\n"
    "        widen(&e[k], &item);\n"
    "        high = k == 0 || high < e[k] ? e[k] : high;\n"
    "        low = k == 0 || e[k] < low ? e[k] : low;\n"
    "    }\n"
    "    UNROLL for (i32 span = GROUP_SIZE / 16; span > 0; span /= 2) {\n"
    "        f32 more;\n"
    "        EXCHANGE(more, high, span, slot);\n"
    "        high = high < more ? more : high;\n"
    "        EXCHANGE(more, low, span, slot);\n"
    "        low = more < low ? more : low;\n"
    "    }\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    bool below = zl_abs_f32(low) > zl_abs_f32(high);\n"
    "    f32 step = (high - low) / STEPS, edge = below ? low : high;\n"
    "    step = step < 1e-7f ? 1e-7f : step;\n"
    "    f32 scale = below ? step : -step, code = zl_rint_f32(edge / scale), bias = code != 0 ? edge : 0;\n"
    "    scale = code != 0 ? edge / code : scale;\n"
    "    u64 all = 0;\n"
    "    for (i32 k = 0; k < 8; k++) {\n"
    "        f32 x = zl_rint_f32((e[k] - bias) / scale);\n"
    "        x = x > 0 ? x : 0;\n"
    "        all |= (u64)(u32)(x < STEPS ? x : STEPS) << BITS * k;\n"
    "    }\n"
    "    for (i32 k = 0; k < BITS; k++)\n"
    "        words[i * BITS + k] = (u8)(all >> 8 * k);\n"
    "    if (i % (GROUP_SIZE / 8) == 0) {\n"
    "        ITEM item;\n"
    "        narrow(&item, &scale);\n"
    "        scales[i / (GROUP_SIZE / 8)] = item;\n"
    "        narrow(&item, &bias);\n"
    "        biases[i / (GROUP_SIZE / 8)] = item;\n"
    "    }\n"
    "}\n";

static bool write_pack(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype;
    kernel_begin(out, w->dialect, true);
    if (!kernel_element(out, tile_cast_kernel(ZL_FLOAT32, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, ZL_FLOAT32), w->dialect, "narrow"))
        return false;
    text_add(out, "#define BITS %d\n#define GROUP_SIZE %d\n#define ITEM %s\n", w->r->key.bits,
             w->r->key.group, kernel_memory_type(dtype));
    text_bytes(out, pack, (int)sizeof pack - 1);
    return true;
}

bool kernel_quantize(const struct kernel_place *p, const struct call *c) {
    zl_array w = c->in[0];
    struct recipe r = {kernel_quantized_key(call_args(c), w), w->dtype, 0, "pack"};
    void *kernel = kernel_find(p, &r, sizeof r, write_pack, &(struct writer){&r, p->target->dialect});
    struct kernel_call k;
    kernel_begin_call(&k);
    for (int i = 0; i < 3; i++) {
        void *to = kernel_reach(p, call_output(c, i));
        if (!to)
            return false;
        kernel_add_memory(&k, to);
    }
    if (!kernel || !add_array(p, &k, w, NULL))
        return false;
    kernel_add_int(&k, w->size / EIGHT, true);
    return kernel_launch(p, kernel, groups_for(w->size / EIGHT), &k);
}
