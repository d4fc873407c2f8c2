// quantized_bf16.c - products of many rows of bf16 and a quantised matrix, which is dequantised to bf16, by
// instructions that multiply 2 x 4 by 4 x 2 matrices (bfmmla).
//
// Rows and columns are packed in panels of eight: four numbers of each, then the next four. As many columns
// are unpacked at a time as fit into L2, and are used for all rows.

#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/lanes.h"
#include "device/cpu/rows/operands.h"

#if defined(__aarch64__)

enum { PANEL = 8, PAIRS = PANEL / 2, SLICE = 4 };
enum { BLOCK = 32, DEPTH = 512 }; // columns, and numbers of each, that are unpacked at once
enum { ROWS_LEAST = 10 };         // with fewer, unpacking would take longer than multiplying
enum { WORK_LEAST = 1 << 18 };    // products that are worth another thread

#define WITH_BF16 CPU_WITH("bf16")
#define INLINE    WITH_BF16 static inline __attribute__((always_inline))

struct halves {
    const struct quantized *q;
    int64_t panels; // per matrix of x
    uint16_t *x;    // all matrices, packed
    bool apart;     // of 32 numbers, those at even indices come first, as for codes of four bits
    atomic_bool failed;
};

// Rows ------------------------------------------------------------------------------------------------------

static void pack_row(const uint16_t *from, int64_t k, bool apart, uint16_t *to) {
    for (int64_t i = 0; i < k; i += 32, from += 32)
        for (int s = 0; s < 32; s += SLICE, to += PANEL * SLICE)
            if (apart)
                for (int n = 0; n < SLICE; n++)
                    to[n] = from[(s + n) % 16 * 2 + s / 16];
            else
                memcpy(to, from + s, SLICE * sizeof *to);
}

static void pack_panels(const void *context, int64_t from, int64_t to) {
    const struct halves *h = context;
    const struct quantized *q = h->q;
    for (; from < to; from++) {
        int64_t matrix = from / h->panels, row = from % h->panels * PANEL, rows = MIN_OF(PANEL, q->m - row);
        uint16_t *panel = h->x + from * PANEL * q->k;
        if (rows < PANEL)
            memset(panel, 0, (size_t)(PANEL * q->k) * sizeof *panel);
        for (int64_t i = 0; i < rows; i++)
            pack_row((const uint16_t *)(const void *)q->x + (matrix * q->m + row + i) * q->k, q->k, h->apart,
                     panel + i * SLICE);
    }
}

// Columns ---------------------------------------------------------------------------------------------------

INLINE floats4 fused(floats4 a, floats4 b, floats4 c) {
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
    return c;
}

// Rounds eight f32 numbers to bf16.
INLINE halves8 narrow(floats4 a, floats4 b) {
    halves8 r;
    __asm__("bfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s" : "=&w"(r) : "w"(a), "w"(b));
    return r;
}

INLINE bytes16 look_up(bytes16 table, bytes16 at) {
    bytes16 r;
    __asm__("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(r) : "w"(table), "w"(at));
    return r;
}

// A lookup table for codes of four bits: the low and the high bytes of the 16 bf16 numbers that codes stand
// for.
struct table {
    bytes16 low, high; // one byte per code
};

INLINE struct table table_of(float scale, float bias) {
    const floats4 first = {0, 1, 2, 3}, s = (floats4){0} + scale, b = (floats4){0} + bias;
    halves8 x = narrow(fused(first, s, b), fused(first + 4, s, b)),
            y = narrow(fused(first + 8, s, b), fused(first + 12, s, b));
    return (struct table){__builtin_shufflevector((bytes16)x, (bytes16)y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                                  20, 22, 24, 26, 28, 30),
                          __builtin_shufflevector((bytes16)x, (bytes16)y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
                                                  21, 23, 25, 27, 29, 31)};
}

// Unpacks 32 codes of four bits to bf16: those at even indices, then the others.
INLINE void unpack_nibbles(const uint8_t *from, const struct table *t, halves8 *out) {
    bytes16 pair = *(const bytes_memory *)from;
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        bytes16 code = odd ? pair >> 4 : pair & 15, low = look_up(t->low, code),
                high = look_up(t->high, code);
        out[2 * odd] = (halves8)__builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                        6, 22, 7, 23);
        out[2 * odd + 1] = (halves8)__builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                            13, 29, 14, 30, 15, 31);
    }
}

// Returns four codes times scale plus bias. Codes become the low bits of floats from 2^23 on, from which 2^23
// is subtracted.
INLINE floats4 number_of(halves8 code, bool high, floats4 scale, floats4 bias) {
    const halves8 top = (halves8){0} + 0x4b00;
    floats4 x = (floats4)(high ? __builtin_shufflevector(code, top, 4, 12, 5, 13, 6, 14, 7, 15)
                               : __builtin_shufflevector(code, top, 0, 8, 1, 9, 2, 10, 3, 11));
    return fused(x - 8388608, scale, bias);
}

// Unpacks 16 codes of eight bits to bf16.
INLINE void unpack_bytes(const uint8_t *from, float scale, float bias, halves8 *out) {
    const bytes16 zero = {0};
    floats4 s = (floats4){0} + scale, b = (floats4){0} + bias;
    bytes16 code = *(const bytes_memory *)from;
    halves8 low =
        (halves8)__builtin_shufflevector(code, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    halves8 high = (halves8)__builtin_shufflevector(code, zero, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                    14, 30, 15, 31);
    out[0] = narrow(number_of(low, false, s, b), number_of(low, true, s, b));
    out[1] = narrow(number_of(high, false, s, b), number_of(high, true, s, b));
}

// Interleaves eight numbers of two columns as two slices.
INLINE void put_pair(halves8 a, halves8 b, uint16_t *to) {
    *(halves_memory *)to = (halves8)__builtin_shufflevector((longs2)a, (longs2)b, 0, 2);
    *(halves_memory *)(to + PANEL * SLICE) = (halves8)__builtin_shufflevector((longs2)a, (longs2)b, 1, 3);
}

// Some groups of two columns.
struct pair {
    const uint8_t *code[2];
    const float *scale[2], *bias[2];
};

WITH_BF16 static void unpack_pair_4(const struct pair *p, int group, int64_t groups, uint16_t *to) {
    for (int64_t g = 0; g < groups; g++) {
        struct table t[2] = {table_of(p->scale[0][g], p->bias[0][g]),
                             table_of(p->scale[1][g], p->bias[1][g])};
        for (int i = 0; i < group; i += 32, to += 32 * PANEL) {
            halves8 a[4], b[4];
            unpack_nibbles(p->code[0] + (g * group + i) / 2, &t[0], a);
            unpack_nibbles(p->code[1] + (g * group + i) / 2, &t[1], b);
#pragma GCC unroll 4
            for (int n = 0; n < 4; n++)
                put_pair(a[n], b[n], to + n * 8 * PANEL);
        }
    }
}

WITH_BF16 static void unpack_pair_8(const struct pair *p, int group, int64_t groups, uint16_t *to) {
    for (int64_t g = 0; g < groups; g++)
        for (int i = 0; i < group; i += 16, to += 16 * PANEL) {
            halves8 a[2], b[2];
            unpack_bytes(p->code[0] + g * group + i, p->scale[0][g], p->bias[0][g], a);
            unpack_bytes(p->code[1] + g * group + i, p->scale[1][g], p->bias[1][g], b);
            put_pair(a[0], b[0], to);
            put_pair(a[1], b[1], to + 8 * PANEL);
        }
}

struct room {
    uint16_t *column; // panels of columns
    float *result;    // of BLOCK columns, row by row
    float *number;    // scales and biases of two columns
    uint8_t *code;    // their codes, one per byte
};

static bool get_room(const struct halves *h, struct room *r) {
    int64_t columns = (int64_t)BLOCK * DEPTH * 2, result = h->panels * PANEL * BLOCK * 4,
            numbers = DEPTH / 16 * 4 * 4;
    char *room = cpu_scratch(SCRATCH_WEIGHTS, (size_t)(columns + result + numbers + 2 * DEPTH));
    if (room)
        *r = (struct room){.column = (uint16_t *)(void *)room,
                           .result = (float *)(void *)(room + columns),
                           .number = (float *)(void *)(room + columns + result),
                           .code = (uint8_t *)room + columns + result + numbers};
    return room != NULL;
}

// Unpacks columns `row` and `row` + 1, some groups from `group` on. Columns after the last repeat it.
static void unpack_pair(const struct halves *h, int64_t w, int64_t row, int64_t group, int64_t groups,
                        struct room *r, uint16_t *to) {
    const struct quantized *q = h->q;
    struct pair p;
    for (int i = 0; i < 2; i++) {
        int64_t at = quantized_at(q, w, MIN_OF(row + i, q->rows - 1), group);
        float *scale = r->number + 2 * i * groups, *bias = scale + groups;
        cpu_unpack_scales(&q->u, q->scales + at * q->scale_item, groups, scale);
        cpu_unpack_scales(&q->u, q->biases + at * q->scale_item, groups, bias);
        p.scale[i] = scale, p.bias[i] = bias;
        p.code[i] = quantized_words(q, at);
        if (q->u.bits == 4 || q->u.bits == 8)
            continue;
        uint8_t *code = r->code + i * DEPTH;
        cpu_unpack_codes(q->u.bits, (const char *)p.code[i], groups * q->u.group, code);
        p.code[i] = code;
    }
    (h->apart ? unpack_pair_4 : unpack_pair_8)(&p, q->u.group, groups, to);
}

// Products --------------------------------------------------------------------------------------------------

INLINE void put_four(float *to, floats4 x, bool add) {
    if (add)
        x += *(floats_memory *)to;
    *(floats_memory *)to = x;
}

// Multiplies a panel of rows by a panel of columns, and adds the products to `out` or stores them there.
WITH_BF16 static void multiply_tile(const uint16_t *x, const uint16_t *w, int64_t k, bool add, float *out) {
    floats4 sum[PAIRS][PAIRS];
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++)
            sum[i][j] = (floats4){0};
    for (int64_t n = 0; n < k; n += SLICE, x += PANEL * SLICE, w += PANEL * SLICE) {
        halves8 column[PAIRS];
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++)
            column[j] = *(const halves_memory *)(w + j * 8);
#pragma GCC unroll 4
        for (int i = 0; i < PAIRS; i++) {
            halves8 row = *(const halves_memory *)(x + i * 8);
#pragma GCC unroll 4
            for (int j = 0; j < PAIRS; j++)
                __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum[i][j]) : "w"(row), "w"(column[j]));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 2
        for (int j = 0; j < PAIRS; j += 2) {
            float *to = out + 2 * i * BLOCK + 2 * j;
            put_four(to, __builtin_shufflevector(sum[i][j], sum[i][j + 1], 0, 1, 4, 5), add);
            put_four(to + BLOCK, __builtin_shufflevector(sum[i][j], sum[i][j + 1], 2, 3, 6, 7), add);
        }
}

// Multiplies all rows by some groups of a block of columns, from `group` on.
static void multiply_part(const struct halves *h, int64_t product, int64_t from, int64_t group,
                          int64_t groups, struct room *r) {
    const struct quantized *q = h->q;
    int64_t columns = MIN_OF(BLOCK, q->n - from), depth = groups * q->u.group, k = group * q->u.group;
    for (int64_t c = 0; c < columns; c += 2)
        unpack_pair(h, q->second ? q->second[product] : 0, from + c, group, groups, r,
                    r->column + c / PANEL * PANEL * DEPTH + c % PANEL * SLICE);
    const uint16_t *x = h->x + ((q->first ? q->first[product] : 0) * h->panels * q->k + k) * PANEL;
    for (int64_t p = 0; p < h->panels; p++, x += q->k * PANEL)
        for (int64_t c = 0; c < columns; c += PANEL)
            multiply_tile(x, r->column + c * DEPTH, depth, group > 0, r->result + p * PANEL * BLOCK + c);
}

static void multiply_block(struct halves *h, int64_t product, int64_t from) {
    const struct quantized *q = h->q;
    struct room r;
    if (!get_room(h, &r)) {
        atomic_store(&h->failed, true);
        return;
    }
    int64_t most = DEPTH / q->u.group, columns = MIN_OF(BLOCK, q->n - from);
    for (int64_t g = 0; g < q->groups; g += most)
        multiply_part(h, product, from, g, MIN_OF(most, q->groups - g), &r);
    char *out = q->out + (product * q->m * q->n + from) * q->item;
    for (int64_t i = 0; i < q->m; i++)
        cpu_call_row(cpu_level()->rows->cast[q->dtype][ZL_FLOAT32], out + i * q->n * q->item,
                     r.result + i * BLOCK, NULL, NULL, columns);
}

static int64_t blocks_of(const struct quantized *q) {
    return (q->n + BLOCK - 1) / BLOCK;
}

static void multiply_range(const void *context, int64_t from, int64_t to) {
    struct halves *h = (struct halves *)(uintptr_t)context;
    for (int64_t blocks = blocks_of(h->q); from < to; from++)
        multiply_block(h, from / blocks, from % blocks * BLOCK);
}

static bool can(const struct quantized *q) {
    return !strcmp(cpu_level()->name, "neon_bf16") && q->dtype == ZL_BFLOAT16 && q->transpose &&
           q->m >= ROWS_LEAST && q->u.mode == QUANT_AFFINE && q->u.dtype != ZL_FLOAT64 && q->k % 32 == 0 &&
           (q->u.bits != 4 || q->u.group >= 32);
}

bool cpu_multiply_halves(const struct quantized *q, bool *done) {
    struct halves h = {.q = q, .panels = (q->m + PANEL - 1) / PANEL, .apart = q->u.bits == 4};
    atomic_init(&h.failed, false);
    if (!can(q))
        return true;
    if (!(h.x = memory_alloc((size_t)(q->matrices * h.panels * PANEL * q->k) * sizeof *h.x)))
        return false;
    cpu_split(q->matrices * h.panels, WORK_LEAST / 8 / (PANEL * q->k) + 1, pack_panels, &h);
    cpu_split(q->products * blocks_of(q), WORK_LEAST / (BLOCK * q->m * q->k) + 1, multiply_range, &h);
    memory_free(h.x);
    return *done = !atomic_load(&h.failed);
}

#else

bool cpu_multiply_halves(const struct quantized *q, bool *done) {
    (void)q, (void)done;
    return true;
}

#endif
