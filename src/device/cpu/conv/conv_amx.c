// conv_amx.c - convolutions of bfloat16 by AMX: 16 neighbours along the last axis, 32 channels of each, are a tile where they lie.
//
// The lines of x that a part sees are copied (conv_window.c); then every tap is a tile at another address, and nothing else is packed.
// The kernels' outputs are packed as those of products (gemm_amx.c).

#include "device/cpu/conv/conv.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum {
    SPOTS = 16,           // of a tile
    CHANNELS = 32,        // of a tile, and elements of k of a step
    OUTPUTS = 16,         // of a panel
    TILE = 1024,          // bytes
    TILE_ROW = 64,        // bytes
    LINE_LEAST = 8,       // spots, below which more than half of a tile would be empty
};

struct part {
    struct conv_window w;
    float *sums; // of two tiles of spots, all outputs
    char *narrow;
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

bool conv_has_tiles(const struct convolution *v) {
    return v->dtype == ZL_BFLOAT16 && conv_has_windows(v) && v->channels % CHANNELS == 0 &&
           v->out[2] >= LINE_LEAST && gemm_kernel_for(v->dtype)->open;
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

bool conv_pack_tiles(struct convolution *v, struct conv_room *room) {
    v->packed = conv_open_room(room, v->groups * group_bytes(v) + GEMM_SLACK);
    if (v->packed)
        cpu_split(v->groups * panels_of(v), CPU_SPLIT / (OUTPUTS * v->taps * v->channels) + 1, pack_panels,
                  v);
    return v->packed;
}

int64_t conv_tile_parts(struct convolution *v) {
    return conv_window_parts(v, 2 * SPOTS, v->item);
}

#define AMX_TARGET __attribute__((target("amx-tile,amx-bf16")))

// All taps and channels of 32 spots and 32 outputs, or 16 where there is no second panel. Tiles 0 to 3 are sums, 4 and 5 spots, 6 and
// 7 outputs.
AMX_TARGET static void meet(const struct part *p, const char *x, const char *b, const char *right, float *sum,
                            int64_t sum_row) {
    const struct convolution *v = p->w.v;
    const int64_t spot = p->w.spot, next = SPOTS * v->axis[2].stride * spot;
    const size_t row = (size_t)(v->axis[2].stride * spot), to_row = (size_t)sum_row * 4;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t tap = 0; tap < v->taps; tap++) {
        const char *a = x + p->w.tap[tap];
        for (int64_t c = 0; c < spot; c += TILE_ROW, b += TILE) {
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
    _tile_stored(2, sum + SPOTS * sum_row, to_row);
    if (right) {
        _tile_stored(1, sum + OUTPUTS, to_row);
        _tile_stored(3, sum + SPOTS * sum_row + OUTPUTS, to_row);
    }
}

// `count` spots from one on, all outputs, rounded into their places.
static void store(const struct part *p, int64_t row, int64_t count) {
    const struct convolution *v = p->w.v;
    row_fn *narrow = cpu_level()->rows->cast[ZL_BFLOAT16][ZL_FLOAT32];
    const int64_t width = v->groups * v->outputs, padded = panels_of(v) * OUTPUTS;
    char *y = v->y + (row * width + p->w.group * v->outputs) * 2;
    const bool is_whole = width == padded;
    cpu_call_row(narrow, is_whole ? y : p->narrow, p->sums, NULL, NULL, count * padded);
    for (int64_t i = 0; !is_whole && i < count; i++)
        memcpy(y + i * width * 2, p->narrow + i * padded * 2, (size_t)(v->outputs * 2));
}

// A line of the output: two tiles of spots at a time. The last ones may reach behind its end.
static void run_line(const struct part *p, int64_t line) {
    const struct conv_window *w = &p->w;
    const struct convolution *v = w->v;
    const int64_t panels = panels_of(v), panel = steps_of(v) * TILE, padded = panels * OUTPUTS;
    const char *b = v->packed + w->group * group_bytes(v);
    const int64_t row = ((w->batch * v->out[0] + w->first) * v->out[1] + w->second + line) * v->out[2];
    for (int64_t at = 0; at < v->out[2]; at += 2 * SPOTS) {
        const char *x = w->x + line * v->axis[1].stride * w->line + at * v->axis[2].stride * w->spot;
        for (int64_t i = 0; i < panels; i += 2)
            meet(p, x, b + i * panel, i + 1 < panels ? b + (i + 1) * panel : NULL, p->sums + i * OUTPUTS,
                 padded);
        store(p, row + at, MIN_OF(2 * SPOTS, v->out[2] - at));
    }
}

void conv_tiles(const void *convolution, int64_t from, int64_t to) {
    struct convolution *v = (struct convolution *)(uintptr_t)convolution;
    const struct gemm_kernel *u = gemm_kernel_for(ZL_BFLOAT16);
    const int64_t sums = 2 * SPOTS * panels_of(v) * OUTPUTS;
    struct part p;
    p.sums = cpu_scratch(SCRATCH_RESULT, (size_t)(sums * 4));
    p.narrow = cpu_scratch(SCRATCH_WORK, (size_t)(sums * 2));
    if (!conv_window_open(&p.w, v, 2 * SPOTS, v->dtype) || !p.sums || !p.narrow) {
        atomic_store(&v->failed, true);
        return;
    }
    u->open();
    for (; from < to; from++) {
        conv_window_fill(&p.w, from);
        for (int64_t i = 0; i < p.w.lines; i++)
            run_line(&p, i);
    }
    u->close();
}

#else

bool conv_has_tiles(const struct convolution *v) {
    (void)v;
    return false;
}

bool conv_pack_tiles(struct convolution *v, struct conv_room *room) {
    (void)v, (void)room;
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
