// conv_amx.c - convolutions of bfloat16 by AMX: 16 neighbours along the last axis, 32 channels of each, are a tile where they lie.
//
// A part is some lines of the output. The lines of x that it sees are copied once, with zeros around them; then every tap is a tile
// at another address, and nothing else is packed. The kernels' outputs are packed as those of products (gemm_amx.c). Parts do not
// depend on the number of threads, and so do not the results.

#include "device/cpu/conv/conv.h"
#include "device/cpu/rows/operands.h"

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
    PART_BYTES = 1 << 18, // of lines of x, which stay in L2
};

// What a part has; sizes in bytes. Lines of x lie by the kernel's first axis, then along the second.
struct part {
    const struct convolution *v;
    int64_t group, batch, first, second, lines; // where in the output, and how many lines of it
    int64_t width, spot, line,
        plane; // of a copied line; from one spot, line and place of the first axis to the next
    char *x;
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
    const bool is_near =
        v->axis[0].input_dilation == 1 && v->axis[1].input_dilation == 1 && v->axis[2].input_dilation == 1;
    return v->dtype == ZL_BFLOAT16 && is_near && !v->is_product && v->channels % CHANNELS == 0 &&
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

// Elements of x that a line, or lines, of the output reach along an axis.
static int64_t reach(const struct convolution *v, int axis, int64_t count) {
    return (count - 1) * v->axis[axis].stride + (v->kernel[axis] - 1) * v->axis[axis].dilation + 1;
}

// Of a line of x: what the last tile reads behind it too.
static int64_t width_of(const struct convolution *v) {
    return reach(v, 2, round_up(v->out[2], 2 * SPOTS));
}

int64_t conv_tile_parts(struct convolution *v) {
    const int64_t line = width_of(v) * v->channels * 2 * v->kernel[0];
    int64_t lines = (PART_BYTES / line - reach(v, 1, 1)) / v->axis[1].stride;
    v->tile_rows = MIN_OF(MAX_OF(lines, 1), v->out[1]);
    v->row_tiles = (v->out[1] + v->tile_rows - 1) / v->tile_rows;
    return v->groups * v->batch * v->out[0] * v->row_tiles;
}

// Copies what the part sees of the line of x at a place of the first two axes, zeros where it sees nothing.
static void copy_line(const struct part *p, int64_t first, int64_t second, char *to) {
    const struct convolution *v = p->v;
    const bool is_inside = first >= 0 && first < v->in[0] && second >= 0 && second < v->in[1];
    const int64_t before = MIN_OF(MAX_OF(v->axis[2].low, 0), p->width), skipped = MAX_OF(-v->axis[2].low, 0);
    const int64_t count = is_inside ? MAX_OF(MIN_OF(v->in[2] - skipped, p->width - before), 0) : 0;
    const char *from = v->x + p->batch * v->batch_step + p->group * v->group_step + first * v->step[0] +
                       second * v->step[1] + skipped * v->step[2];
    memset(to, 0, (size_t)(before * p->spot));
    to += before * p->spot;
    if (v->step[2] == p->spot && count > 0)
        memcpy(to, from, (size_t)(count * p->spot));
    for (int64_t i = 0; v->step[2] != p->spot && i < count; i++)
        memcpy(to + i * p->spot, from + i * v->step[2], (size_t)p->spot);
    memset(to + count * p->spot, 0, (size_t)((p->width - before - count) * p->spot));
}

static void copy_lines(const struct part *p) {
    const struct convolution *v = p->v;
    const int64_t lines = reach(v, 1, p->lines);
    for (int64_t i = 0; i < v->kernel[0]; i++)
        for (int64_t j = 0; j < lines; j++)
            copy_line(p, p->first * v->axis[0].stride + i * v->axis[0].dilation - v->axis[0].low,
                      p->second * v->axis[1].stride + j - v->axis[1].low, p->x + i * p->plane + j * p->line);
}

#define AMX_TARGET __attribute__((target("amx-tile,amx-bf16")))

// All taps and channels of 32 spots and 32 outputs, or 16 where there is no second panel. Tiles 0 to 3 are sums, 4 and 5 spots, 6 and
// 7 outputs.
AMX_TARGET static void meet(const struct part *p, const char *x, const char *b, const char *right, float *sum,
                            int64_t sum_row) {
    const struct convolution *v = p->v;
    const size_t row = (size_t)(v->axis[2].stride * p->spot), to_row = (size_t)sum_row * 4;
    const int64_t next = SPOTS * v->axis[2].stride * p->spot, *kernel = v->kernel;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t tap = 0; tap < v->taps; tap++) {
        const int64_t at[CONV_AXES] = {tap / kernel[2] / kernel[1], tap / kernel[2] % kernel[1],
                                       tap % kernel[2]};
        const char *a = x;
        const int64_t apart[CONV_AXES] = {p->plane, v->axis[1].dilation * p->line,
                                          v->axis[2].dilation * p->spot};
        for (int i = 0; i < CONV_AXES; i++)
            a += (v->flip ? kernel[i] - 1 - at[i] : at[i]) * apart[i];
        for (int64_t c = 0; c < p->spot; c += TILE_ROW, b += TILE) {
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
    const struct convolution *v = p->v;
    row_fn *narrow = cpu_level()->rows->cast[ZL_BFLOAT16][ZL_FLOAT32];
    const int64_t width = v->groups * v->outputs, padded = panels_of(v) * OUTPUTS;
    char *y = v->y + (row * width + p->group * v->outputs) * 2;
    const bool is_whole = width == padded;
    cpu_call_row(narrow, is_whole ? y : p->narrow, p->sums, NULL, NULL, count * padded);
    for (int64_t i = 0; !is_whole && i < count; i++)
        memcpy(y + i * width * 2, p->narrow + i * padded * 2, (size_t)(v->outputs * 2));
}

// A line of the output: two tiles of spots at a time. The last ones may reach behind its end.
static void run_line(const struct part *p, int64_t line) {
    const struct convolution *v = p->v;
    const int64_t panels = panels_of(v), panel = steps_of(v) * TILE, padded = panels * OUTPUTS;
    const char *b = v->packed + p->group * group_bytes(v);
    const int64_t row = ((p->batch * v->out[0] + p->first) * v->out[1] + p->second + line) * v->out[2];
    for (int64_t at = 0; at < v->out[2]; at += 2 * SPOTS) {
        const char *x = p->x + line * v->axis[1].stride * p->line + at * v->axis[2].stride * p->spot;
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
    struct part p = {.v = v, .width = width_of(v), .spot = v->channels * 2};
    p.line = p.width * p.spot;
    p.plane = p.line * reach(v, 1, v->tile_rows);
    p.x = cpu_scratch(SCRATCH_PACK, (size_t)(p.plane * v->kernel[0]));
    p.sums = cpu_scratch(SCRATCH_RESULT, (size_t)(sums * 4));
    p.narrow = cpu_scratch(SCRATCH_WORK, (size_t)(sums * 2));
    if (!p.x || !p.sums || !p.narrow) {
        atomic_store(&v->failed, true);
        return;
    }
    u->open();
    for (; from < to; from++) {
        const int64_t tile = from % v->row_tiles, place = from / v->row_tiles;
        p.second = tile * v->tile_rows;
        p.lines = MIN_OF(v->tile_rows, v->out[1] - p.second);
        p.first = place % v->out[0];
        p.batch = place / v->out[0] % v->batch;
        p.group = place / v->out[0] / v->batch;
        copy_lines(&p);
        for (int64_t i = 0; i < p.lines; i++)
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
