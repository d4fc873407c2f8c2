// quantized_line.h - products of one row of whole numbers and columns of codes in place, included once per
// instruction set of x86.
//
// LINE_NAME(part) gives the names of functions, LINE_VECTOR and LINE_ARRANGE those of the functions of struct
// int_kind. LINE_BYTES is the size of a register, LINE_TARGET the attribute of functions that use the
// instructions. LINE_DOT(sum, w, x, wide) adds products of bytes, of which those of w are unsigned; wide:
// they may have eight bits. LINE_SPREAD(at, map) loads four floats from `at`; lane i of the result is float
// map[i]. LINE_HALVES(at) widens f16. LINE_SIXES(at) and LINE_FIVES(at) unpack a register of codes of six or
// five bits, and read no byte after them. LINE_SUM(x) adds up the lanes.
//
// The row is stored in blocks, each for a register of codes: the parts of the row one after the other. For
// codes of four bits, of which a byte has two, the numbers at even indices come first, then the others. Four
// lanes of sums are a slot: 32 codes of four bits, or 16 codes of more bits.

typedef uint8_t LINE_NAME(codes) __attribute__((vector_size(LINE_BYTES)));
typedef uint16_t LINE_NAME(pairs) __attribute__((vector_size(LINE_BYTES)));
typedef int32_t LINE_NAME(ints) __attribute__((vector_size(LINE_BYTES)));
typedef float LINE_NAME(floats) __attribute__((vector_size(LINE_BYTES)));
typedef LINE_NAME(codes) LINE_NAME(codes_memory) __attribute__((aligned(1), may_alias));
typedef LINE_NAME(ints) LINE_NAME(ints_memory) __attribute__((aligned(1), may_alias));
typedef LINE_NAME(floats) LINE_NAME(floats_memory) __attribute__((aligned(4), may_alias));

#define INLINE LINE_TARGET static inline __attribute__((always_inline))
enum { LINE_NAME(lanes) = LINE_BYTES / 4 };

INLINE LINE_NAME(ints) LINE_NAME(row)(const int8_t *x, int at) {
    return *(const LINE_NAME(ints_memory) *)(x + at * LINE_BYTES);
}

INLINE LINE_NAME(floats) LINE_NAME(real)(LINE_NAME(ints) x) {
    return __builtin_convertvector(x, LINE_NAME(floats));
}

// Returns the sums of a block as whole numbers, one per lane. They fit into 32 bits, except with codes of
// eight bits and three parts.
INLINE LINE_NAME(floats) LINE_NAME(block)(int parts, int bits, const int8_t *x, const uint8_t *code) {
    LINE_NAME(ints) sum = {0};
    if (bits == 4) {
        const LINE_NAME(codes) all = *(const LINE_NAME(codes_memory) *)code;
        const LINE_NAME(ints) even = (LINE_NAME(ints))(all & 15);
        const LINE_NAME(ints) odd = (LINE_NAME(ints))((LINE_NAME(codes))((LINE_NAME(pairs))all >> 4) & 15);
#pragma GCC unroll 3
        for (int p = 0; p < parts; p++) {
            sum = LINE_DOT(sum * 256, even, LINE_NAME(row)(x, 2 * p), false);
            sum = LINE_DOT(sum, odd, LINE_NAME(row)(x, 2 * p + 1), false);
        }
        return LINE_NAME(real)(sum);
    }
    LINE_NAME(ints) w;
    if (bits == 8)
        w = *(const LINE_NAME(ints_memory) *)code;
    else
        w = (LINE_NAME(ints))(bits == 6 ? LINE_SIXES(code) : LINE_FIVES(code));
    const bool wide = bits == 8, apart = wide && parts == 3;
    sum = LINE_DOT(sum, w, LINE_NAME(row)(x, 0), wide);
    sum = LINE_DOT(sum * 256, w, LINE_NAME(row)(x, 1), wide);
    if (parts == 3 && !apart)
        sum = LINE_DOT(sum * 256, w, LINE_NAME(row)(x, 2), wide);
    if (!apart)
        return LINE_NAME(real)(sum);
    LINE_NAME(ints) last = LINE_DOT((LINE_NAME(ints)){0}, w, LINE_NAME(row)(x, 2), wide);
    return LINE_NAME(real)(sum) * 256 + LINE_NAME(real)(last);
}

// A column's numbers ----------------------------------------------------------------------------------------

INLINE LINE_NAME(floats) LINE_NAME(wide)(zl_dtype dtype, const char *from) {
    typedef uint32_t words __attribute__((vector_size(LINE_BYTES)));
    typedef uint16_t halves __attribute__((vector_size(LINE_BYTES / 2)));
    halves half;
    if (dtype == ZL_FLOAT32)
        return *(const LINE_NAME(floats_memory) *)(const void *)from;
    if (dtype == ZL_FLOAT16)
        return LINE_HALVES(from);
    memcpy(&half, from, sizeof half);
    return (LINE_NAME(floats))(__builtin_convertvector(half, words) << 16);
}

// Converts the numbers of groups to float32, padded with zeros to a whole register.
INLINE void LINE_NAME(widen)(zl_dtype dtype, const char *from, int64_t groups, float *to) {
    const int64_t item = dtype == ZL_FLOAT32 ? 4 : 2, lanes = LINE_NAME(lanes);
    int64_t g = 0;
    for (; g + lanes <= groups; g += lanes)
        *(LINE_NAME(floats_memory) *)(to + g) = LINE_NAME(wide)(dtype, from + g * item);
    if (g < groups) {
        char room[LINE_BYTES] = {0};
        memcpy(room, from + g * item, (size_t)((groups - g) * item));
        *(LINE_NAME(floats_memory) *)(to + g) = LINE_NAME(wide)(dtype, room);
    }
}

INLINE void LINE_NAME(numbers)(const struct line *l, int64_t at, float *scale, float *bias) {
    const struct quantized *q = l->q;
    const char *scales = quantized_scales(q, at);
    if (q->u.mode == QUANT_GGUF_K) {
        const int each = op_k_groups(q->u.bits);
        for (int64_t g = 0; g < q->groups; g += each, scales += op_k_bytes(q->u.bits))
            line_k_block(q->u.bits, (const uint8_t *)scales, scale + g, bias + g);
        memset(bias + q->groups, 0, LINE_BYTES);
        return;
    }
    const char *biases = q->biases + at * q->scale_item;
    switch (q->u.dtype) {
    case ZL_FLOAT16:
        LINE_NAME(widen)(ZL_FLOAT16, scales, q->groups, scale);
        LINE_NAME(widen)(ZL_FLOAT16, biases, q->groups, bias);
        return;
    case ZL_BFLOAT16:
        LINE_NAME(widen)(ZL_BFLOAT16, scales, q->groups, scale);
        LINE_NAME(widen)(ZL_BFLOAT16, biases, q->groups, bias);
        return;
    default:
        LINE_NAME(widen)(ZL_FLOAT32, scales, q->groups, scale);
        LINE_NAME(widen)(ZL_FLOAT32, biases, q->groups, bias);
    }
}

// Columns ---------------------------------------------------------------------------------------------------

// Returns the product of the row and one column, without the row's factor. Codes after the last whole block
// are copied and padded with zeros.
INLINE float LINE_NAME(column)(int parts, int bits, const struct line *l, int64_t at, float *scale,
                               float *bias) {
    enum { SLOTS = LINE_BYTES / 16 };
    const struct quantized *q = l->q;
    const int codes = bits == 4 ? 2 * LINE_BYTES : LINE_BYTES, row = parts * codes, bytes = codes * bits / 8;
    const uint8_t *code = quantized_words(q, at);
    const int8_t *x = l->x->code;
    const int64_t blocks = q->k / codes, left = q->k % codes * bits / 8;
    LINE_NAME(ints) map = {0};
    LINE_NAME(floats) sum = {0}, rest = {0};
    for (int i = 0; i < LINE_NAME(lanes); i++)
        map[i] = (i / 4) >> l->shift;
    LINE_NAME(numbers)(l, at, scale, bias);
    for (int64_t b = 0; b < blocks; b++, code += bytes, x += row) {
        __builtin_prefetch(code + 2048);
        sum += LINE_NAME(block)(parts, bits, x, code) * LINE_SPREAD(scale + (b * SLOTS >> l->shift), map);
    }
    if (left) {
        uint8_t room[LINE_BYTES] = {0};
        memcpy(room, code, (size_t)left);
        sum +=
            LINE_NAME(block)(parts, bits, x, room) * LINE_SPREAD(scale + (blocks * SLOTS >> l->shift), map);
    }
    for (int64_t g = 0; g < q->groups; g += LINE_NAME(lanes))
        rest += *(const LINE_NAME(floats_memory) *)(bias + g) *
                *(const LINE_NAME(floats_memory) *)(l->x->sum + g);
    return LINE_SUM(sum + rest);
}

#define LINE_COLUMNS(parts, bits)                                                                        \
    LINE_TARGET static void LINE_NAME(columns_##parts##_##bits)(const struct line *l, int64_t at,        \
                                                                int64_t columns,                         \
                                                                float *scale, float *bias, float *out) { \
        for (int64_t i = 0; i < columns; i++)                                                            \
            out[i] = LINE_NAME(column)(parts, bits, l, at + i * l->q->groups, scale,                     \
                                       bias) * l->x->factor[0];                                          \
    }
LINE_COLUMNS(2, 4)
LINE_COLUMNS(2, 5)
LINE_COLUMNS(2, 6)
LINE_COLUMNS(2, 8)
LINE_COLUMNS(3, 4)
LINE_COLUMNS(3, 5)
LINE_COLUMNS(3, 6)
LINE_COLUMNS(3, 8)

void LINE_VECTOR(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                 float *scale, float *out) {
    const struct line l = {q, x, line_shift(&q->u)};
    float *bias = scale + line_floats(q->groups);
    switch (8 * x->parts + q->u.bits - 4) {
    case 16: LINE_NAME(columns_2_4)(&l, at, columns, scale, bias, out); return;
    case 17: LINE_NAME(columns_2_5)(&l, at, columns, scale, bias, out); return;
    case 18: LINE_NAME(columns_2_6)(&l, at, columns, scale, bias, out); return;
    case 20: LINE_NAME(columns_2_8)(&l, at, columns, scale, bias, out); return;
    case 24: LINE_NAME(columns_3_4)(&l, at, columns, scale, bias, out); return;
    case 25: LINE_NAME(columns_3_5)(&l, at, columns, scale, bias, out); return;
    case 26: LINE_NAME(columns_3_6)(&l, at, columns, scale, bias, out); return;
    default: LINE_NAME(columns_3_8)(&l, at, columns, scale, bias, out);
    }
}

// Stores the parts of a row, block by block, padded with zeros.
void LINE_ARRANGE(const int8_t *const *part, int parts, int64_t k, int bits, int8_t *out) {
    const int64_t codes = bits == 4 ? 2 * LINE_BYTES : LINE_BYTES;
    for (int64_t from = 0; from < k; from += codes)
        for (int p = 0; p < parts; p++, out += codes) {
            const int64_t count = MIN_OF(codes, k - from);
            if (count < codes)
                memset(out, 0, (size_t)codes);
            if (bits == 4)
                for (int64_t i = 0; i < count / 2; i++) {
                    out[i] = part[p][from + 2 * i];
                    out[i + LINE_BYTES] = part[p][from + 2 * i + 1];
                }
            else
                memcpy(out, part[p] + from, (size_t)count);
        }
}

#undef INLINE
#undef LINE_COLUMNS
#undef LINE_NAME
#undef LINE_VECTOR
#undef LINE_ARRANGE
#undef LINE_BYTES
#undef LINE_TARGET
#undef LINE_DOT
#undef LINE_SPREAD
#undef LINE_HALVES
#undef LINE_SIXES
#undef LINE_FIVES
#undef LINE_SUM
