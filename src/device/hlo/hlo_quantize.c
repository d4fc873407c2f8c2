// hlo_quantize.c - renders ops of quantised matrices: words are split into codes in the graph, by shifts and
// masks, where they are read.

#include "device/hlo/hlo.h"

#include <math.h>
#include <string.h>

enum { WORD = 32, EIGHT = 8 };

static struct hlo_tensor whole(struct hlo_module *m, uint64_t value) {
    return hlo_bits(m, ZL_UINT32, value);
}

static struct hlo_tensor real(struct hlo_module *m, double value) {
    return hlo_number(m, ZL_FLOAT32, value);
}

// Splits the last axis into two, the second of this size.
static struct hlo_tensor in_groups(struct hlo_module *m, struct hlo_tensor x, int64_t size) {
    int64_t dim[HLO_RANK];
    for (int i = 0; i < x.ndim; i++)
        dim[i] = x.dim[i];
    dim[x.ndim - 1] /= size;
    dim[x.ndim] = size;
    return hlo_reshape(m, x, x.ndim + 1, dim);
}

// Joins the last two axes again.
static struct hlo_tensor in_lines(struct hlo_module *m, struct hlo_tensor x) {
    int64_t dim[HLO_RANK];
    for (int i = 0; i < x.ndim; i++)
        dim[i] = x.dim[i];
    dim[x.ndim - 2] *= x.dim[x.ndim - 1];
    return hlo_reshape(m, x, x.ndim - 1, dim);
}

// Codes -----------------------------------------------------------------------------------------------------

// Returns the bit offset of each code in a word.
static struct hlo_tensor shifts(struct hlo_module *m, int bits) {
    int64_t codes = WORD / bits;
    return hlo_binary(m, TILE_MUL, hlo_iota(m, ZL_UINT32, 1, &codes, 0), whole(m, (uint64_t)bits));
}

// Splits words into codes that may cross bytes: eight codes are in as many bytes as a code has bits, and each
// is in one byte or in two consecutive ones.
static struct hlo_tensor codes_of_bytes(struct hlo_module *m, struct hlo_tensor words, int bits) {
    int64_t bytes[] = {hlo_size(&words) * 4 / bits, bits}, stride[] = {bits, 1};
    struct hlo_tensor all = hlo_cast(m, hlo_view(m, words, ZL_UINT8, 2, bytes, stride, 0), ZL_UINT32),
                      code[EIGHT];
    for (int i = 0; i < EIGHT; i++) {
        int at = i * bits / 8, shift = i * bits % 8;
        code[i] = hlo_cut(m, all, 1, at, at + 1);
        if (shift + bits > 8)
            code[i] = hlo_binary(m, TILE_OR, code[i],
                                 hlo_binary(m, TILE_SHL, hlo_cut(m, all, 1, at + 1, at + 2), whole(m, 8)));
        code[i] = hlo_binary(m, TILE_SHR, code[i], whole(m, (uint64_t)shift));
    }
    return hlo_binary(m, TILE_AND, hlo_join(m, EIGHT, code, 1), whole(m, (1u << bits) - 1));
}

// Returns the codes of words (..., n) as 32-bit numbers (..., 32 n / bits).
static struct hlo_tensor codes_of(struct hlo_module *m, struct hlo_tensor words, int bits) {
    int64_t last = words.dim[words.ndim - 1] * WORD / bits;
    struct hlo_tensor codes, like = words;
    if (WORD % bits == 0)
        codes = hlo_binary(m, TILE_AND, hlo_binary(m, TILE_SHR, in_groups(m, words, 1), shifts(m, bits)),
                           whole(m, (1ull << bits) - 1));
    else
        codes = codes_of_bytes(m, words, bits);
    like.dim[like.ndim - 1] = last;
    return hlo_reshape(m, codes, like.ndim, like.dim);
}

// Packs codes (..., n) of 32 bits each into 32-bit words.
static struct hlo_tensor words_of(struct hlo_module *m, struct hlo_tensor codes, int bits) {
    int64_t last = codes.dim[codes.ndim - 1] * bits / WORD, axis = codes.ndim,
            list[] = {hlo_size(&codes) / EIGHT, EIGHT};
    struct hlo_tensor like = codes, byte[EIGHT];
    like.dim[like.ndim - 1] = last;
    if (WORD % bits == 0) {
        codes = hlo_binary(m, TILE_SHL, in_groups(m, codes, WORD / bits), shifts(m, bits));
        return hlo_reshape(m, hlo_reduce(m, TILE_ADD, codes, 1, &axis), like.ndim, like.dim);
    }
    codes = hlo_reshape(m, codes, 2, list);
    for (int b = 0; b < bits; b++)
        for (int i = b * 8 / bits, first = i; i < EIGHT && i * bits < b * 8 + 8;
             i++) { // codes with bits in this byte
            int by = i * bits - b * 8;
            struct hlo_tensor part = hlo_cut(m, codes, 1, i, i + 1);
            part = hlo_binary(m, by < 0 ? TILE_SHR : TILE_SHL, part, whole(m, (uint64_t)(by < 0 ? -by : by)));
            byte[b] = i == first ? part : hlo_binary(m, TILE_OR, byte[b], part);
        }
    struct hlo_tensor all = hlo_binary(m, TILE_AND, hlo_join(m, bits, byte, 1), whole(m, 255));
    int64_t stride[HLO_RANK], step = 1;
    for (int i = like.ndim - 1; i >= 0; step *= like.dim[i--])
        stride[i] = step;
    return hlo_view(m, hlo_cast(m, all, ZL_UINT8), ZL_UINT32, like.ndim, like.dim, stride, 0);
}

// Numbers ---------------------------------------------------------------------------------------------------

// Returns small floats without infinities, of a sign, an exponent and `mantissa` bits below it, as f32. They
// are computed in units of the smallest such number, in which they are exact integers.
static struct hlo_tensor small_floats(struct hlo_module *m, struct hlo_tensor code, int bits, int mantissa,
                                      double unit) {
    uint64_t sign = 1ull << (bits - 1), one = 1ull << mantissa;
    struct hlo_tensor size = hlo_binary(m, TILE_AND, code, whole(m, sign - 1));
    struct hlo_tensor exponent = hlo_binary(m, TILE_SHR, size, whole(m, (uint64_t)mantissa));
    struct hlo_tensor is_normal = hlo_binary(m, TILE_NE, exponent, whole(m, 0));
    struct hlo_tensor units = hlo_binary(m, TILE_AND, size, whole(m, one - 1));
    units = hlo_choose(m, is_normal, hlo_binary(m, TILE_OR, units, whole(m, one)), units);
    exponent = hlo_binary(m, TILE_MAX, exponent, whole(m, 1));
    units = hlo_binary(m, TILE_SHL, units, hlo_binary(m, TILE_SUB, exponent, whole(m, 1)));
    struct hlo_tensor x = hlo_binary(m, TILE_MUL, hlo_cast(m, units, ZL_FLOAT32), real(m, unit));
    if (bits == 8)
        x = hlo_choose(m, hlo_binary(m, TILE_EQ, size, whole(m, sign - 1)), real(m, NAN), x);
    struct hlo_tensor is_negative = hlo_binary(m, TILE_GE, code, whole(m, sign));
    return hlo_choose(m, is_negative, hlo_unary(m, TILE_NEG, x), x);
}

static struct hlo_tensor e2m1(struct hlo_module *m, struct hlo_tensor code) {
    return small_floats(m, code, 4, 1, 0.5);
}

static struct hlo_tensor e4m3(struct hlo_module *m, struct hlo_tensor code) {
    return small_floats(m, code, 8, 3, 1.0 / 512);
}

// Returns the power of two with this biased exponent (bias 127).
static struct hlo_tensor e8m0(struct hlo_module *m, struct hlo_tensor code) {
    struct hlo_tensor bits = hlo_binary(m, TILE_SHL, code, whole(m, 23));
    bits = hlo_choose(m, hlo_binary(m, TILE_EQ, code, whole(m, 0)), whole(m, 1u << 22), bits);
    return hlo_reinterpret(m, bits, ZL_FLOAT32);
}

// Returns the same number, but keeps XLA from fusing it into a multiply-add: XLA cannot know that the
// exclusive or changes no bit.
static struct hlo_tensor rounded(struct hlo_module *m, struct hlo_tensor x) {
    if (x.dtype != ZL_FLOAT32)
        return x;
    struct hlo_tensor bits = hlo_reinterpret(m, x, ZL_UINT32);
    return hlo_reinterpret(m, hlo_binary(m, TILE_XOR, bits, hlo_word(m, ZL_UINT32, 0)), ZL_FLOAT32);
}

// Returns the f16 that two bytes of the last axis of blocks form, from `at` on, as f32.
static struct hlo_tensor half_of(struct hlo_module *m, struct hlo_tensor blocks, int at) {
    int axis = blocks.ndim - 1;
    struct hlo_tensor low = hlo_cut(m, blocks, axis, at, at + 1),
                      high = hlo_cut(m, blocks, axis, at + 1, at + 2);
    struct hlo_tensor both = hlo_binary(m, TILE_OR, low, hlo_binary(m, TILE_SHL, high, whole(m, 8)));
    return hlo_cast(m, hlo_reinterpret(m, hlo_cast(m, both, ZL_UINT16), ZL_FLOAT16), ZL_FLOAT32);
}

// Returns the six-bit scales of eight groups. Those of the first four are the low bits of the bytes from
// `from` on. Those of the others have four bits in the last four bytes, from bit `shift` on, and their high
// bits above the scales of the first four.
static struct hlo_tensor sixes_of(struct hlo_module *m, struct hlo_tensor blocks, int from, int shift) {
    int axis = blocks.ndim - 1;
    struct hlo_tensor low = hlo_cut(m, blocks, axis, from, from + 4);
    struct hlo_tensor rest = hlo_cut(m, blocks, axis, 12, 16), part[2];
    part[0] = hlo_binary(m, TILE_AND, low, whole(m, 63));
    rest = hlo_binary(m, TILE_AND, hlo_binary(m, TILE_SHR, rest, whole(m, (uint64_t)shift)), whole(m, 15));
    part[1] = hlo_binary(m, TILE_SHL, hlo_binary(m, TILE_SHR, low, whole(m, 6)), whole(m, 4));
    part[1] = hlo_binary(m, TILE_OR, rest, part[1]);
    return hlo_cast(m, hlo_join(m, 2, part, axis), ZL_FLOAT32);
}

// Unpacks mode gguf_k; for the layout of its scales see cpu_quantize.c.
static struct hlo_tensor unpack_k(struct hlo_module *m, const struct quantization *q,
                                  const struct hlo_tensor *in) {
    struct hlo_tensor x = in_groups(m, hlo_cast(m, codes_of(m, in[0], q->bits), ZL_FLOAT32), q->group);
    struct hlo_tensor scale, bias;
    struct hlo_tensor blocks = in_groups(m, hlo_cast(m, in[1], ZL_UINT32), op_k_bytes(q->bits));
    if (q->bits == 6) {
        struct hlo_tensor byte = hlo_cut(m, blocks, blocks.ndim - 1, 0, 16);
        struct hlo_tensor less =
            hlo_binary(m, TILE_SHL, hlo_binary(m, TILE_SHR, byte, whole(m, 7)), whole(m, 8));
        scale = hlo_binary(m, TILE_SUB, hlo_cast(m, byte, ZL_FLOAT32), hlo_cast(m, less, ZL_FLOAT32));
        scale = hlo_binary(m, TILE_MUL, scale, half_of(m, blocks, 16));
        bias = hlo_binary(m, TILE_MUL, scale, real(m, -32));
    } else {
        scale = hlo_binary(m, TILE_MUL, sixes_of(m, blocks, 4, 0), half_of(m, blocks, 0));
        bias = hlo_binary(m, TILE_MUL, sixes_of(m, blocks, 8, 4), half_of(m, blocks, 2));
        bias = hlo_unary(m, TILE_NEG, bias);
    }
    x = hlo_binary(m, TILE_MUL, x, in_groups(m, in_lines(m, scale), 1));
    return in_lines(m, hlo_binary(m, TILE_ADD, x, in_groups(m, in_lines(m, bias), 1)));
}

// Unpacks a quantised matrix, or a list of them. In mode affine, results are rounded to `dtype` after the
// product and after the sum, in other modes after the product. third: biases if affine, else a global scale,
// or NULL if there is none.
static struct hlo_tensor unpack(struct hlo_module *m, const struct quantization *q,
                                const struct hlo_tensor *in, const struct hlo_tensor *third, zl_dtype dtype) {
    struct hlo_tensor x = codes_of(m, in[0], q->bits), scale = in[1];
    if (q->mode == QUANT_GGUF_K)
        return hlo_cast(m, unpack_k(m, q, in), dtype);
    if (q->mode == QUANT_AFFINE) {
        x = in_groups(m, hlo_cast(m, x, dtype), q->group);
        x = rounded(m, hlo_binary(m, TILE_MUL, x, in_groups(m, hlo_cast(m, scale, dtype), 1)));
        x = hlo_binary(m, TILE_ADD, x, in_groups(m, hlo_cast(m, *third, dtype), 1));
        return in_lines(m, x);
    }
    scale = hlo_cast(m, scale, ZL_UINT32);
    scale = q->mode == QUANT_NVFP4 ? e4m3(m, scale) : e8m0(m, scale);
    if (third) {
        struct hlo_tensor all = hlo_reshape(m, *third, 0, NULL);
        scale = hlo_binary(m, TILE_MUL, scale, hlo_binary(m, TILE_DIV, all, real(m, 448 * 6)));
    }
    x = in_groups(m, q->bits == 4 ? e2m1(m, x) : e4m3(m, x), q->group);
    x = hlo_binary(m, TILE_MUL, x, in_groups(m, scale, 1));
    return hlo_cast(m, in_lines(m, x), dtype);
}

// Rows ------------------------------------------------------------------------------------------------------

static struct quantization quantization_of(const struct call *c) {
    const int64_t *arg = call_args(c);
    return (struct quantization){(enum quant_mode)arg[0], (int)arg[1], (int)arg[2]};
}

bool hlo_dequantize(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                    struct hlo_tensor *out) {
    struct quantization q = quantization_of(c);
    out[0] = unpack(m, &q, in, c->inputs > 2 ? &in[2] : NULL, (zl_dtype)call_first(c)->dtype);
    return true;
}

// Finds the scales and biases of groups (..., n, size); in them, the last axis has size 1. The edge of a
// group that is further from zero is exactly a code times the scale.
static void find_scales(struct hlo_module *m, struct hlo_tensor x, int bits, struct hlo_tensor *scale,
                        struct hlo_tensor *bias) {
    int64_t last = x.ndim - 1;
    struct hlo_tensor one = x, zero = real(m, 0), steps;
    float most = (float)((1 << bits) - 1);
    uint32_t word;
    memcpy(&word, &most, sizeof word);
    steps = hlo_word(m, ZL_FLOAT32, word); // XLA would multiply by the inverse of a constant
    one.dim[last] = 1;
    struct hlo_tensor high = hlo_reshape(m, hlo_reduce(m, TILE_MAX, x, 1, &last), one.ndim, one.dim),
                      low = hlo_reshape(m, hlo_reduce(m, TILE_MIN, x, 1, &last), one.ndim, one.dim);
    struct hlo_tensor is_below =
                          hlo_binary(m, TILE_GT, hlo_unary(m, TILE_ABS, low), hlo_unary(m, TILE_ABS, high)),
                      edge = hlo_choose(m, is_below, low, high);
    struct hlo_tensor step = hlo_binary(m, TILE_DIV, hlo_binary(m, TILE_SUB, high, low), steps);
    step = hlo_binary(m, TILE_MAX, step, real(m, 1e-7f));
    step = hlo_choose(m, is_below, step, hlo_unary(m, TILE_NEG, step));
    struct hlo_tensor code = hlo_unary(m, TILE_RINT, hlo_binary(m, TILE_DIV, edge, step)),
                      is_zero = hlo_binary(m, TILE_EQ, code, zero);
    *scale = hlo_choose(m, is_zero, step, hlo_binary(m, TILE_DIV, edge, code));
    *bias = hlo_choose(m, is_zero, zero, edge);
}

bool hlo_quantize(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                  struct hlo_tensor *out) {
    struct quantization q = quantization_of(c);
    struct hlo_tensor x = in_groups(m, hlo_cast(m, in[0], ZL_FLOAT32), q.group), part[2];
    find_scales(m, x, q.bits, &part[0], &part[1]);
    x = hlo_unary(m, TILE_RINT, hlo_binary(m, TILE_DIV, hlo_binary(m, TILE_SUB, x, part[1]), part[0]));
    x = hlo_choose(m, hlo_binary(m, TILE_GT, x, real(m, 0)), x, real(m, 0)); // also for NaN
    x = hlo_binary(m, TILE_MIN, x, real(m, (1 << q.bits) - 1));
    out[0] = words_of(m, in_lines(m, hlo_cast(m, x, ZL_UINT32)), q.bits);
    for (int i = 0; i < 2; i++)
        out[1 + i] = hlo_cast(m, in_lines(m, part[i]), in[0].dtype);
    return true;
}

// Renders a product with a quantised matrix. The matrix is unpacked in the dtype of sums, and rounded once to
// the dtype of x, in which the factors are multiplied.
bool hlo_quantized_matmul(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                          struct hlo_tensor *out) {
    enum { TRANSPOSE = 3, GATHERED };
    const int64_t *arg = call_args(c);
    zl_array y = call_first(c);
    zl_dtype dtype = (zl_dtype)y->dtype, wide = tile_reduce_gives(dtype);
    struct quantization q = quantization_of(c);
    bool is_affine = q.mode == QUANT_AFFINE;
    int parts = is_affine ? 3 : 2;
    struct hlo_tensor x = in[0], part[3];
    for (int i = 0; i < parts; i++)
        part[i] = arg[GATHERED] ? hlo_pick(m, in[1 + i], in[c->inputs - 1]) : in[1 + i];
    if (arg[GATHERED])
        x = hlo_pick(m, x, in[c->inputs - 2]);
    struct hlo_tensor w = hlo_cast(m, unpack(m, &q, part, is_affine ? &part[2] : NULL, wide), dtype);
    if (arg[TRANSPOSE])
        w = hlo_move_axis(m, w, w.ndim - 2, w.ndim - 1);
    out[0] = hlo_cast(m, hlo_multiply(m, x, w, wide), dtype);
    return true;
}
