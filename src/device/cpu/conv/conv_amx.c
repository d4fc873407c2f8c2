// conv_amx.c - bf16 convolutions by AMX. An AMX tile holds 32 channels of each of 16 neighbouring positions
// along the last axis.
//
// The lines of x that a part reads are copied with their padding (conv_window.c). The tile of every tap is
// then loaded from another address of that copy, without further packing. Kernels are packed as in matrix
// products (gemm_amx.c).

#include "device/cpu/conv/conv.h"
#include "device/cpu/rows/operands.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum {
    POSITIONS = 16, // positions per tile
    CHANNELS = 32,  // per tile, and elements of k per step
    OUTPUTS = 16,   // per panel
    TILE = 1024,    // bytes
    TILE_ROW = 64,  // bytes
    LINE_LEAST = 8, // positions; with fewer, more than half of a tile would be empty
};

static int64_t panels_of(const struct convolution *v) {
    return (v->outputs + OUTPUTS - 1) / OUTPUTS;
}

static int64_t steps_of(const struct convolution *v) {
    return v->taps * v->channels / CHANNELS;
}

static int64_t group_bytes(const struct convolution *v) {
    return panels_of(v) * steps_of(v) * TILE;
}

// Panels are processed two at a time.
static int64_t pairs_of(const struct convolution *v) {
    return (panels_of(v) + 1) / 2;
}

// Returns whether all lines of a window are processed as one. Then the positions between two lines of the
// output are computed too, but not stored.
static bool is_one_line(const struct convolution *v) {
    return v->axis[1].stride == 1 && v->axis[2].stride == 1;
}

bool conv_has_tiles(const struct convolution *v) {
    return v->dtype == ZL_BFLOAT16 && conv_has_windows(v) && v->channels % CHANNELS == 0 &&
           (is_one_line(v) || v->out[2] >= LINE_LEAST) && gemm_kernel_for(v->dtype)->open &&
           cpu_has("avx512_bf16");
}

static void pack_panels(const void *context, int64_t from, int64_t to) {
    const struct convolution *v = context;
    const struct gemm_packing packing = {.item = 2, .from_item = 2, .unit = 2, .step = CHANNELS};
    const int64_t panels = panels_of(v);
    for (; from < to; from++) {
        const int64_t group = from / panels, output = from % panels * OUTPUTS;
        gemm_pack(&packing, v->packed + group * group_bytes(v) + from % panels * steps_of(v) * TILE, OUTPUTS,
                  v->w + (group * v->w_group + output * v->w_col) * 2, v->w_row * 2, v->w_col * 2,
                  v->taps * v->channels, MIN_OF(OUTPUTS, v->outputs - output), 0);
    }
}

bool conv_pack_tiles(struct convolution *v, struct conv_buffer *buffer) {
    v->packed = conv_open_buffer(buffer, v->groups * group_bytes(v) + GEMM_SLACK);
    if (v->packed)
        cpu_split(v->groups * panels_of(v), CPU_SPLIT / (OUTPUTS * v->taps * v->channels) + 1, pack_panels,
                  v);
    return v->packed;
}

int64_t conv_tile_parts(struct convolution *v) {
    return conv_window_parts(v, v->item, pairs_of(v));
}

#define AMX_TARGET __attribute__((target("amx-tile,amx-bf16")))

// Sums all taps and channels for 32 positions and 32 outputs, or 16 outputs if there is no second panel. AMX
// tiles 0 to 3 hold the sums, 4 and 5 the positions, 6 and 7 the outputs.
AMX_TARGET static void meet(const struct conv_window *w, const char *x, const char *b, const char *right,
                            float *sum) {
    const struct convolution *v = w->v;
    const int64_t position = w->position, next = POSITIONS * v->axis[2].stride * position;
    const size_t row = (size_t)(v->axis[2].stride * position), to_row = 2 * OUTPUTS * sizeof(float);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t tap = 0; tap < v->taps; tap++) {
        const char *a = x + w->tap[tap];
        for (int64_t c = 0; c < position; c += TILE_ROW, b += TILE) {
            _tile_loadd(6, b, TILE_ROW);
            _tile_loadd(4, a + c, row);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(5, a + next + c, row);
            _tile_dpbf16ps(2, 5, 6);
            if (right) {
                _tile_loadd(7, right, TILE_ROW);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
                right += TILE;
            }
        }
    }
    _tile_stored(0, sum, to_row);
    _tile_stored(2, sum + POSITIONS * 2 * OUTPUTS, to_row);
    if (right) {
        _tile_stored(1, sum + OUTPUTS, to_row);
        _tile_stored(3, sum + POSITIONS * 2 * OUTPUTS + OUTPUTS, to_row);
    }
}

// Rounds the sums of `count` positions, from position `at` of a line on, and stores them in the result.
// Positions between lines are left out.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) static void
put(const struct conv_window *w, const float *sum, int64_t line, int64_t at, int64_t count, int64_t output) {
    const struct convolution *v = w->v;
    const int64_t width = v->groups * v->outputs * 2, outputs = MIN_OF(2 * OUTPUTS, v->outputs - output);
    const __mmask32 these = (__mmask32)(((uint64_t)1 << outputs) - 1);
    char *y = v->y + (w->group * v->outputs + output) * 2;
    line += at / w->width;
    at %= w->width;
    for (int64_t i = 0; i < count; i++, sum += 2 * OUTPUTS) {
        const __m512 low = _mm512_loadu_ps(sum), high = _mm512_loadu_ps(sum + OUTPUTS);
        if (at < v->out[2])
            _mm512_mask_storeu_epi16(y + conv_window_row(w, line, at) * width, these,
                                     (__m512i)_mm512_cvtne2ps_pbh(high, low));
        if (++at == w->width)
            at = 0, line++;
    }
}

// Computes positions from the start of a line on, which may reach over all lines, for a pair of panels of
// outputs.
static void run_line(const struct conv_window *w, int64_t line, int64_t positions, int64_t pair) {
    const struct convolution *v = w->v;
    const int64_t panel = steps_of(v) * TILE;
    const char *b = v->packed + w->group * group_bytes(v) + 2 * pair * panel;
    _Alignas(64) float sum[2 * POSITIONS * 2 * OUTPUTS] = {0};
    for (int64_t at = 0; at < positions; at += 2 * POSITIONS) {
        const char *x = w->x + line * v->axis[1].stride * w->line + at * v->axis[2].stride * w->position;
        meet(w, x, b, 2 * pair + 1 < panels_of(v) ? b + panel : NULL, sum);
        __asm__ volatile("" ::: "memory"); // the compiler does not know that tile stores write `sum`
        put(w, sum, line, at, MIN_OF(2 * POSITIONS, positions - at), 2 * pair * OUTPUTS);
    }
}

// Multiplies all positions of the part by one pair of panels, which stays in L2 meanwhile.
static void run_pair(const struct conv_window *w, int64_t pair) {
    const struct convolution *v = w->v;
    if (is_one_line(v))
        run_line(w, 0, (w->lines - 1) * w->width + v->out[2], pair);
    for (int64_t i = 0; !is_one_line(v) && i < w->lines; i++)
        run_line(w, i, v->out[2], pair);
}

void conv_tiles(const void *convolution, int64_t from, int64_t to) {
    struct convolution *v = (struct convolution *)(uintptr_t)convolution;
    const struct gemm_kernel *u = gemm_kernel_for(ZL_BFLOAT16);
    struct conv_window w;
    if (!conv_window_open(&w, v, 2 * POSITIONS, v->dtype)) {
        atomic_store(&v->failed, true);
        return;
    }
    u->open();
    for (; from < to; from++) {
        int64_t pair, end;
        conv_window_fill(&w, from, pairs_of(v), &pair, &end);
        for (; pair < end; pair++)
            run_pair(&w, pair);
    }
    u->close();
}

#else

bool conv_has_tiles(const struct convolution *v) {
    (void)v;
    return false;
}

bool conv_pack_tiles(struct convolution *v, struct conv_buffer *buffer) {
    (void)v, (void)buffer;
    return false;
}

int64_t conv_tile_parts(struct convolution *v) {
    (void)v;
    return 0;
}

void conv_tiles(const void *convolution, int64_t from, int64_t to) {
    (void)convolution, (void)from, (void)to;
}

#endif
