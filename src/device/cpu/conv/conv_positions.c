// conv_positions.c - convolutions by vectors of outputs, which are multiplied by single elements of x, so
// that x is not packed.
//
// The sums of some positions and a panel of one or two vectors of outputs stay in registers over all taps and
// channels. The lines of x that a part reads are copied and padded with zeros (conv_window.c); 16-bit floats
// are widened by that copy.

#include "device/cpu/conv/conv.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

#if defined(__x86_64__)

enum {
    POSITIONS_MOST = 12,
    FLOATS_MOST = 32,   // per panel
    RUN_LEAST = 3,      // contiguous elements; with fewer, loops cost more than products
    OUTPUTS_LEAST = 16, // with fewer, much of a panel would be empty
    ROWS_LEAST = POSITIONS_MOST,
};

// The operands of a block of positions and a panel of outputs. Elements of x are read in runs of contiguous
// ones.
struct micro_operands {
    // run[r * apart]: bytes from the first element that a position depends on to run r
    const int64_t *run;
    int64_t runs, apart, length;
    const char *position[POSITIONS_MOST];
    const float *panel;
};

#define VECTORS(name, bytes)                                         \
    typedef float vector_##name __attribute__((vector_size(bytes))); \
    typedef vector_##name memory_##name __attribute__((aligned(4), may_alias));

// Defines a function that computes the sums of a block of positions and a panel. sum has a row of the panel
// per position.
#define MICRO_KERNEL(name, bytes, positions, vectors, TARGET)                                            \
    GEMM_FUSED TARGET static void micro_##name##_##vectors(const struct micro_operands *m, float *sum) { \
        GEMM_CONTRACT                                                                                    \
        enum { LANES = bytes / 4 };                                                                      \
        vector_##name total[positions][vectors];                                                         \
        const float *w = m->panel;                                                                       \
        _Pragma("GCC unroll 12") for (int i = 0; i < positions; i++)                                     \
            _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) total[i][j] = (vector_##name){0};  \
        for (int64_t r = 0; r < m->runs; r++)                                                            \
            for (int64_t at = m->run[r * m->apart], end = at + m->length * 4; at < end;                  \
                 at += 4, w += vectors * LANES)                                                          \
                _Pragma("GCC unroll 12") for (int i = 0; i < positions; i++)                             \
                    _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) total[i][j] +=             \
                    *(const float *)(const void *)(m->position[i] + at) *                                \
                    *(const memory_##name *)(w + j * LANES);                                             \
        _Pragma("GCC unroll 12") for (int i = 0; i < positions; i++)                                     \
                _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) *                              \
            (memory_##name *)(sum + (i * vectors + j) * LANES) = total[i][j];                            \
    }

#define AVX512 __attribute__((target("avx512f")))
#define AVX2   __attribute__((target("avx2,fma")))
VECTORS(avx512, 64)
MICRO_KERNEL(avx512, 64, 12, 2, AVX512)
MICRO_KERNEL(avx512, 64, 12, 1, AVX512)
VECTORS(avx2, 32)
MICRO_KERNEL(avx2, 32, 6, 2, AVX2)
MICRO_KERNEL(avx2, 32, 6, 1, AVX2)

static const struct form {
    const char *needs;
    int positions, lanes;
    void (*micro_kernel[2])(const struct micro_operands *m, float *sum); // panels of one vector, and of two
} forms[] = {
    {"avx512", 12, 16, {micro_avx512_1, micro_avx512_2}},
    {"avx2", 6, 8, {micro_avx2_1, micro_avx2_2}},
};

static const struct form *form_here(void) {
    for (size_t i = 0; i < COUNT(forms); i++)
        if (cpu_has(forms[i].needs))
            return &forms[i];
    return NULL;
}

// Returns how many taps along the last axis form one contiguous run of x.
static int64_t taps_of_run(const struct convolution *v) {
    return v->flip || v->axis[2].dilation > 1 ? 1 : v->kernel[2];
}

static int64_t length_of(const struct convolution *v) {
    return v->taps * v->channels;
}

// Returns the outputs of a group, rounded up to whole vectors.
static int64_t padded_of(const struct convolution *v) {
    return round_up(v->outputs, form_here()->lanes);
}

static int64_t panels_of(const struct convolution *v) {
    return (padded_of(v) + 2 * form_here()->lanes - 1) / (2 * form_here()->lanes);
}

bool conv_has_positions(const struct convolution *v) {
    return (v->dtype == ZL_FLOAT32 || v->dtype == ZL_FLOAT16 || v->dtype == ZL_BFLOAT16) && form_here() &&
           conv_has_windows(v) && v->outputs >= OUTPUTS_LEAST && v->rows >= ROWS_LEAST &&
           v->channels * taps_of_run(v) >= RUN_LEAST;
}

static void pack_panels(const void *context, int64_t from, int64_t to) {
    const struct convolution *v = context;
    const int64_t panels = panels_of(v), width = 2 * form_here()->lanes, padded = padded_of(v);
    const struct gemm_packing packing = {
        .item = 4,
        .from_item = v->item,
        .widen = v->dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[ZL_FLOAT32][v->dtype],
        .unit = 1,
        .step = 1};
    for (; from < to; from++) {
        const int64_t group = from / panels, output = from % panels * width;
        gemm_pack(&packing, v->packed + (group * padded + output) * length_of(v) * 4,
                  MIN_OF(width, padded - output), v->w + (group * v->w_group + output * v->w_col) * v->item,
                  v->w_row * v->item, v->w_col * v->item, length_of(v), MIN_OF(width, v->outputs - output),
                  0);
    }
}

bool conv_pack_positions(struct convolution *v, struct conv_buffer *buffer) {
    v->packed = conv_open_buffer(buffer, v->groups * padded_of(v) * length_of(v) * 4 + GEMM_SLACK);
    if (v->packed)
        cpu_split(v->groups * panels_of(v), CPU_SPLIT / (FLOATS_MOST * length_of(v)) + 1, pack_panels, v);
    return v->packed;
}

int64_t conv_position_parts(struct convolution *v) {
    return conv_window_parts(v, sizeof(float), panels_of(v));
}

// Stores the sums of a block of positions with one panel in the result.
static void put(const struct conv_window *w, const float *sum, int64_t sum_row, int64_t position,
                int64_t count, int64_t output) {
    const struct convolution *v = w->v;
    const int64_t outputs = MIN_OF(sum_row, v->outputs - output), width = v->groups * v->outputs;
    char *y = v->y + (conv_window_row(w, 0, position) * width + w->group * v->outputs + output) * v->item;
    row_fn *narrow = v->dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[v->dtype][ZL_FLOAT32];
    for (int64_t i = 0; i < count; i++, y += width * v->item, sum += sum_row)
        if (narrow)
            cpu_call_row(narrow, y, sum, NULL, NULL, outputs);
        else
            memcpy(y, sum, (size_t)outputs * sizeof(float));
}

// Finds the first element of x that each position of a block depends on. Positions after the last one repeat
// it.
static void find_positions(const struct conv_window *w, struct micro_operands *m, int64_t first,
                           int64_t positions) {
    const struct convolution *v = w->v;
    for (int64_t i = 0; i < positions; i++) {
        const int64_t at = MIN_OF(first + i, w->lines * v->out[2] - 1);
        m->position[i] = w->x + at / v->out[2] * v->axis[1].stride * w->line +
                         at % v->out[2] * v->axis[2].stride * w->position;
    }
}

// Multiplies all positions of a part by one panel of outputs, which is read from L2 for each block of
// positions.
static void run_panel(const struct conv_window *w, struct micro_operands *m, int64_t panel) {
    const struct convolution *v = w->v;
    const struct form *form = form_here();
    const int64_t width = 2 * form->lanes, padded = padded_of(v), output = panel * width;
    const int64_t vectors = MIN_OF(width, padded - output) / form->lanes, positions = w->lines * v->out[2];
    _Alignas(64) float sum[POSITIONS_MOST * FLOATS_MOST];
    m->panel = (const float *)(const void *)v->packed + (w->group * padded + output) * length_of(v);
    for (int64_t at = 0; at < positions; at += form->positions) {
        find_positions(w, m, at, form->positions);
        form->micro_kernel[vectors - 1](m, sum);
        put(w, sum, vectors * form->lanes, at, MIN_OF(form->positions, positions - at), output);
    }
}

void conv_positions(const void *convolution, int64_t from, int64_t to) {
    struct convolution *v = (struct convolution *)(uintptr_t)convolution;
    struct conv_window w;
    if (!conv_window_open(&w, v, 0, ZL_FLOAT32)) {
        atomic_store(&v->failed, true);
        return;
    }
    const int64_t taps = taps_of_run(v);
    struct micro_operands m = {
        .run = w.tap, .runs = v->taps / taps, .apart = taps, .length = taps * v->channels};
    for (; from < to; from++) {
        int64_t panel, end;
        conv_window_fill(&w, from, panels_of(v), &panel, &end);
        for (; panel < end; panel++)
            run_panel(&w, &m, panel);
    }
}

#else

bool conv_has_positions(const struct convolution *v) {
    (void)v;
    return false;
}

bool conv_pack_positions(struct convolution *v, struct conv_buffer *buffer) {
    (void)v, (void)buffer;
    return false;
}

int64_t conv_position_parts(struct convolution *v) {
    (void)v;
    return 0;
}

void conv_positions(const void *convolution, int64_t from, int64_t to) {
    (void)convolution, (void)from, (void)to;
}

#endif
