// attention.c - how attention reads, packs and masks its inputs, whatever their layout, and which code and
// kernel it uses.

#include "device/cpu/rows/operands.h"
#include "device/cpu/attention/attention.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float quad __attribute__((vector_size(16)));
typedef quad quad_memory __attribute__((aligned(4), may_alias));

#define CODE(name) name##_base
#define CODE_BYTES 16
#define CODE_TARGET
#include "device/cpu/attention/attention_micro.h"

#if defined(__x86_64__)
#define CODE(name)  name##_avx2
#define CODE_BYTES  32
#define CODE_TARGET __attribute__((target("avx2,fma")))
#include "device/cpu/attention/attention_micro.h"

#define CODE(name)        name##_avx512
#define CODE_BYTES        64
#define CODE_TARGET       __attribute__((target("avx512f")))
#define CODE_PAIRS_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#include "device/cpu/attention/attention_micro.h"
#endif

const struct attention_code *cpu_attention_code(void) {
#if defined(__x86_64__)
    if (!strcmp(cpu_level()->name, "avx512"))
        return &code_avx512;
    if (!strcmp(cpu_level()->name, "avx2"))
        return &code_avx2;
#endif
    return &code_base;
}

static const struct gemm_kernel *plain_kernel(zl_dtype dtype, int64_t cols) {
    const struct gemm_kernel *k, *best = NULL;
    for (int i = 0; (k = gemm_kernel_at(i)); i++)
        if (k->dtype == dtype && gemm_is_plain(k) && !k->like && k->cols % cpu_attention_code()->lanes == 0 &&
            (!best || (best->cols > cols && k->cols < best->cols)))
            best = k;
    return best;
}

// Returns whether `exp_sum_bf16` packs weights for this kernel.
static bool takes_half(const struct gemm_kernel *k) {
#if defined(__x86_64__)
    return k->unit == 2 && !k->flip;
#else
    return k->unit == 4 && k->cols == HALF_COLS && gemm_is_plain(k);
#endif
}

static const struct gemm_kernel *half_kernel(void) {
    const struct gemm_kernel *k;
    for (int i = 0; cpu_attention_code()->exp_sum_bf16 && (k = gemm_kernel_at(i)); i++)
        if (k->dtype == ZL_BFLOAT16 && takes_half(k) && gemm_can_run(k))
            return k;
    return NULL;
}

// A panel that the queries do not fill takes as long as a full one: few queries get a kernel with few
// columns.
const struct gemm_kernel *cpu_attention_kernel(zl_dtype dtype, int64_t rows) {
    const struct gemm_kernel *k = dtype == ZL_BFLOAT16 ? half_kernel() : NULL;
    return k ? k : plain_kernel(ZL_FLOAT32, rows);
}

// Inputs ----------------------------------------------------------------------------------------------------

void cpu_attention_input(struct attend *a, struct attention_input *x, zl_array from, int room,
                         int64_t share) {
    zl_dtype dtype = (zl_dtype)from->dtype;
    x->data = array_data(from, &a->room[room]);
    x->item = (int64_t)array_item(from);
    x->share = share;
    x->lines = from->dim[2];
    x->cols = from->dim[3];
    for (int i = 0; i < 4; i++)
        x->stride[i] = from->dim[i] == 1 ? 0 : array_stride(from)[i] * x->item;
    if (x->cols == 1)
        x->stride[3] = x->item;
    x->widen = dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[ZL_FLOAT32][dtype];
}

// Reads the sinks of all heads as float32.
static bool read_sinks(struct attend *a, zl_array sinks) {
    union scalar room;
    zl_dtype dtype = (zl_dtype)sinks->dtype;
    int64_t item = (int64_t)array_item(sinks), heads = sinks->dim[1];
    const int64_t *stride = array_stride(sinks);
    const char *from = array_data(sinks, &room);
    row_fn *widen = dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[ZL_FLOAT32][dtype];
    float *to = a->sinks = memory_alloc(sizeof(float) * (size_t)sinks->size);
    for (int64_t i = 0; to && i < sinks->size; i++) {
        const char *at = from + (i / heads * stride[0] + i % heads * stride[1]) * item;
        if (widen)
            cpu_call_row(widen, (char *)(to + i), (char *)(uintptr_t)at, NULL, NULL, 1);
        else
            memcpy(to + i, at, sizeof(float));
    }
    a->sink_stride = sinks->dim[0] == 1 ? 0 : heads;
    return to;
}

bool cpu_attention_open(struct attend *a, const struct attention *from) {
    const int64_t *q = from->q->dim, *k = from->k->dim;
    int64_t share = q[1] / k[1];
    *a = (struct attend){.code = cpu_attention_code(), .causal = from->causal, .scale = (float)from->scale};
    a->batch = q[0], a->matrices = k[1], a->rows = share * q[2], a->keys = k[2];
    a->dim = q[3], a->width = from->v->dim[3];
    cpu_attention_input(a, &a->q, from->q, 0, share);
    cpu_attention_input(a, &a->k, from->k, 1, 1);
    cpu_attention_input(a, &a->v, from->v, 2, 1);
    if (from->mask) {
        cpu_attention_input(a, &a->mask, from->mask, 3, share);
        a->is_bool_mask = from->mask->dtype == ZL_BOOL;
        a->mask.lines = q[2]; // also where the mask is broadcast
        a->mask.cols = a->keys;
        if (from->mask->dim[3] == 1)
            a->mask.stride[3] = 0;
    }
    return !from->sinks || read_sinks(a, from->sinks);
}

// Rows ------------------------------------------------------------------------------------------------------

// Returns whether count rows from `first` on are equally far apart in memory.
static bool is_even(const struct attention_input *x, int64_t first, int64_t count) {
    return first / x->lines == (first + count - 1) / x->lines || x->stride[1] == x->lines * x->stride[2];
}

// Reads cols elements of one row as float32.
static void read_row(const struct attention_input *x, const char *row, int64_t cols, float *to) {
    enum { PIECE = 512 };
    _Alignas(16) char narrow[PIECE * sizeof(float)];
    if (x->stride[3] == x->item) {
        if (x->widen)
            cpu_call_row(x->widen, (char *)to, (char *)(uintptr_t)row, NULL, NULL, cols);
        else
            memcpy(to, row, sizeof(float) * (size_t)cols);
        return;
    }
    for (int64_t i = 0, n; i < cols; i += n) {
        n = MIN_OF(PIECE, cols - i);
        char *dense = x->widen ? narrow : (char *)(to + i);
        cpu_move((size_t)x->item, dense, (struct stride2){0, x->item}, row + i * x->stride[3],
                 (struct stride2){0, x->stride[3]}, 1, n);
        if (x->widen)
            cpu_call_row(x->widen, (char *)(to + i), narrow, NULL, NULL, n);
    }
}

const float *cpu_attention_read(const struct attention_input *x, int64_t b, int64_t m, int64_t first,
                                int64_t count, float *room, int64_t *row) {
    const char *from = attention_row(x, b, m, first);
    bool even = is_even(x, first, count), whole = x->stride[3] == x->item;
    if (!x->widen && even && whole) {
        *row = x->stride[2] / x->item;
        return (const float *)(const void *)from;
    }
    *row = x->cols;
    if (even && whole && x->stride[2] == x->cols * x->item)
        cpu_call_row(x->widen, (char *)room, (char *)(uintptr_t)from, NULL, NULL, count * x->cols);
    else
        for (int64_t i = 0; i < count; i++)
            read_row(x, attention_row(x, b, m, first + i), x->cols, room + i * x->cols);
    return room;
}

void cpu_attention_output(struct attention_output *y, zl_array to, int64_t share) {
    y->data = cpu_data(to);
    y->item = (int64_t)array_item(to);
    y->share = share;
    y->lines = to->dim[2];
    y->cols = to->dim[3];
    for (int i = 0; i < 3; i++)
        y->stride[i] = array_stride(to)[i] * y->item;
    y->narrow = to->dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[to->dtype][ZL_FLOAT32];
}

// Stores rows that belong to one head.
static void put_lines(const struct attention_output *y, char *to, int64_t count, const float *from,
                      int64_t apart, float *room) {
    const int64_t word = sizeof(float), line = y->cols * word;
    if (!y->narrow) {
        cpu_transpose(sizeof(float), to, y->stride[2], (const char *)from, apart * word, count, y->cols);
        return;
    }
    cpu_transpose(sizeof(float), (char *)room, line, (const char *)from, apart * word, count, y->cols);
    int64_t each = y->stride[2] == y->cols * y->item ? count : 1;
    for (int64_t i = 0; i < count; i += each)
        cpu_call_row(y->narrow, to + i * y->stride[2], (char *)room + i * line, NULL, NULL, each * y->cols);
}

void cpu_attention_put(const struct attention_output *y, int64_t b, int64_t m, int64_t first, int64_t count,
                       const float *from, int64_t apart, float *room) {
    for (int64_t i = 0, n; i < count; i += n) {
        n = MIN_OF(count - i, y->lines - (first + i) % y->lines);
        put_lines(y, attention_place(y, b, m, first + i), n, from + i, apart, room);
    }
}

// Panels ----------------------------------------------------------------------------------------------------

static struct gemm_packing packing_of(const struct attend *a, const struct attention_input *x, int factor) {
    const struct gemm_kernel *u = a->kernel;
    int64_t item = (int64_t)zl_dtype_size(u->dtype);
    return (struct gemm_packing){item, x->item, item == x->item ? NULL : x->widen,
                                 factor == 0 && u->a_unit ? u->a_unit : u->unit, u->step};
}

// Copies count rows to `to`, where they are contiguous.
static void gather_rows(const struct attention_input *x, int64_t b, int64_t m, int64_t first, int64_t count,
                        char *to) {
    const int64_t row = x->cols * x->item;
    for (int64_t i = 0; i < count; i++, to += row)
        cpu_move((size_t)x->item, to, (struct stride2){row, x->item}, attention_row(x, b, m, first + i),
                 (struct stride2){0, x->stride[3]}, 1, x->cols);
}

void cpu_attention_pack_rows(const struct attend *a, const struct attention_input *x, int factor, int64_t b,
                             int64_t m, int64_t first, int64_t count, char *room, char *to) {
    const struct gemm_kernel *u = a->kernel;
    const int64_t width = factor == 0 ? u->rows : u->b_cols ? u->b_cols : u->cols;
    const int64_t packed = attention_packed(a, width, count, x->cols);
    struct gemm_packing p = packing_of(a, x, factor);
    if (factor) // clear the parts of b's last panel (u->b_cols) that no row fills
        memset(to + packed, 0, (size_t)(attention_packed(a, u->cols, count, x->cols) - packed));
    if (is_even(x, first, count)) {
        gemm_pack(&p, to, width, attention_row(x, b, m, first), x->stride[3], x->stride[2], x->cols, count,
                  0);
        return;
    }
    for (int64_t i = 0, n; i < count; i += n, to += attention_packed(a, width, width, x->cols)) {
        n = MIN_OF(width, count - i);
        gather_rows(x, b, m, first + i, n, room);
        gemm_pack(&p, to, width, room, x->item, x->cols * x->item, x->cols, n, 0);
    }
}

void cpu_attention_pack_cols(const struct attend *a, const struct attention_input *x, int64_t b, int64_t m,
                             int64_t first, int64_t count, char *room, char *to) {
    struct gemm_packing p = packing_of(a, x, 0);
    const char *from = attention_row(x, b, m, first);
    int64_t row = x->stride[2], col = x->stride[3];
    if (!is_even(x, first, count)) {
        gather_rows(x, b, m, first, count, room);
        from = room, row = x->cols * x->item, col = x->item;
    }
    gemm_pack(&p, to, a->kernel->rows, from, row, col, count, x->cols, 0);
}

void cpu_attention_multiply(const struct attend *a, int64_t lines, int64_t k, int64_t length,
                            const char *panels, const char *panel, float *c, bool add) {
    const struct gemm_kernel *u = a->kernel;
    const int64_t next = attention_packed(a, u->rows, u->rows, length), steps = attention_round(k, u->step);
    if (u->run_tiles && lines > 0 && steps >= 2 * u->step) {
        u->run_tiles(steps, panels, next, panel, c, (lines + u->rows - 1) / u->rows, add);
        return;
    }
    for (int64_t i = 0; i < lines; i += u->rows, panels += next)
        u->run(steps, panels, panel, c + i * u->cols, u->cols, add);
}

// Masks -----------------------------------------------------------------------------------------------------

void cpu_attention_mask_causal(const struct attend *a, int64_t first, int64_t count, int64_t key,
                               int64_t keys, float masked, float *scores) {
    const int cols = a->kernel->cols;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = MAX_OF(attention_seen(a, first + i) - key, 0); j < keys; j++)
            scores[j * cols + i] = masked;
}

void cpu_attention_mask(const struct attend *a, int64_t b, int64_t m, int64_t first, int64_t count,
                        int64_t key, int64_t keys, float *room, float *scores) {
    const int cols = a->kernel->cols;
    if (a->causal)
        cpu_attention_mask_causal(a, first, count, key, keys, MASKED, scores);
    if (!a->mask.data)
        return;
    float *mask = room + cols * keys;
    if (count < cols)
        memset(room, 0, sizeof(float) * (size_t)(cols * keys));
    for (int64_t i = 0; i < count; i++)
        read_row(&a->mask, attention_row(&a->mask, b, m, first + i) + key * a->mask.stride[3], keys,
                 room + i * keys);
    cpu_transpose(sizeof(float), (char *)mask, cols * (int64_t)sizeof(float), (const char *)room,
                  keys * (int64_t)sizeof(float), keys, cols);
    (a->is_bool_mask ? a->code->mask_out : a->code->add)(scores, mask, cols * keys);
}

void cpu_attention_mask_row(const struct attend *a, int64_t b, int64_t m, int64_t row, int64_t key,
                            int64_t keys, float *room, float *scores) {
    for (int64_t j = MAX_OF(attention_seen(a, row) - key, 0); j < keys; j++)
        scores[j] = MASKED;
    if (!a->mask.data)
        return;
    read_row(&a->mask, attention_row(&a->mask, b, m, row) + key * a->mask.stride[3], keys, room);
    (a->is_bool_mask ? a->code->mask_out : a->code->add)(scores, room, keys);
}
