// conv_panels.c - convolutions by the micro-kernels of matrix products: patches are packed directly from x
// and never stored as rows (implicit GEMM).
//
// Panels of kernels, whose rows are outputs, are multiplied by panels of `cols` positions. Both extend along
// taps and channels, in chunks that fit into L1. The sums have a row per output, in which the positions of a
// panel are contiguous, until a tile of panels is done. The division into tiles does not depend on the number
// of threads, so the results do not either.

#include "device/cpu/conv/conv.h"
#include "device/cpu/rows/operands.h"

enum {
    OUTPUTS_LEAST = 4,   // with fewer, most of a panel of outputs would be empty
    CHANNELS_LEAST = 16, // with fewer, taps are too short to be packed one by one
    PARTS_LEAST = 16,    // parts are a multiple of this, so that all threads have equally many
    PANELS_EACH = 4,     // panels per part, so that reading the kernels pays,
    OUTPUTS_EACH = 128,  // and outputs per part, so that packing positions pays
};

// Returns the number of panels of positions.
static int64_t panels_of(const struct convolution *v) {
    return (v->rows + v->kernels->cols - 1) / v->kernels->cols;
}

static int64_t length_of(const struct convolution *v) {
    return v->taps * v->channels;
}

// Returns the packed bytes of one output: all of its taps and channels.
static int64_t line_bytes(const struct convolution *v) {
    return round_up(length_of(v), v->kernels->step) * v->item;
}

static int64_t group_bytes(const struct convolution *v) {
    return round_up(v->outputs, v->kernels->rows) * line_bytes(v);
}

bool conv_has_panels(struct convolution *v) {
    if (v->dtype == ZL_COMPLEX64)
        return false;
    const struct gemm_kernel *u = v->kernels = gemm_kernel_for(v->dtype);
    return u->dtype == v->dtype && gemm_is_plain(u) && !v->is_product && v->channels % u->unit == 0 &&
           v->rows >= u->cols && v->outputs >= OUTPUTS_LEAST && v->channels >= CHANNELS_LEAST;
}

// Chooses chunks of equal length whose panels take three quarters of L1, and tiles of equal size whose
// patches and sums take half of L2, or less where there would be too few tiles. Also divides the outputs if
// parts would have few panels otherwise.
static void cut(struct convolution *v) {
    const struct gemm_kernel *u = v->kernels;
    int64_t most = cpu_cache_bytes(1) * 3 / 4 / ((u->rows + u->cols) * v->item), length = length_of(v);
    int64_t chunks = (length + most - 1) / most, panels = panels_of(v);
    v->chunk = round_up((length + chunks - 1) / chunks, u->step);
    v->tile_cols =
        panels * v->groups < PARTS_LEAST * PANELS_EACH ? MIN_OF(v->outputs, OUTPUTS_EACH) : v->outputs;
    v->tile_cols = round_up(v->tile_cols, u->rows);
    v->col_tiles = (v->outputs + v->tile_cols - 1) / v->tile_cols;
    int64_t bytes = u->cols * (v->chunk * v->item + v->tile_cols * (int64_t)zl_dtype_size(u->sum));
    int64_t fit = MAX_OF(cpu_cache_bytes(2) / 2 / bytes, 1), others = v->groups * v->col_tiles;
    v->row_tiles = round_up((panels + fit - 1) / fit * others, PARTS_LEAST) / others;
    v->row_tiles = MIN_OF(v->row_tiles, panels);
    v->tile_rows = (panels + v->row_tiles - 1) / v->row_tiles * u->cols;
}

int64_t conv_panel_parts(struct convolution *v) {
    cut(v);
    return v->groups * v->row_tiles * v->col_tiles;
}

static void pack_lines(const void *context, int64_t from, int64_t to) {
    const struct convolution *v = context;
    const struct gemm_kernel *u = v->kernels;
    const struct gemm_packing p = {v->item, v->item, NULL, u->unit, u->step};
    const int64_t panels = (v->outputs + u->rows - 1) / u->rows;
    for (; from < to; from++) {
        int64_t group = from / panels, line = from % panels * u->rows;
        gemm_pack(&p, v->packed + group * group_bytes(v) + line * line_bytes(v), u->rows,
                  v->w + (group * v->w_group + line * v->w_col) * v->item, v->w_row * v->item,
                  v->w_col * v->item, length_of(v), MIN_OF(u->rows, v->outputs - line), 0);
    }
}

bool conv_pack_kernels(struct convolution *v, struct conv_buffer *buffer) {
    const int64_t rows = v->kernels->rows, panels = (v->outputs + rows - 1) / rows;
    v->packed = conv_open_buffer(buffer, v->groups * group_bytes(v) + GEMM_SLACK);
    if (v->packed)
        cpu_split(v->groups * panels, CPU_SPLIT / (rows * length_of(v)) + 1, pack_lines, v);
    return v->packed;
}

// Packing ---------------------------------------------------------------------------------------------------

// The positions of a panel.
struct positions {
    int64_t count;
    struct position at[GEMM_COLS_MOST];
    bool in_line; // a full panel of positions, consecutive along the last axis
};

static void read_positions(const struct convolution *v, int64_t row, struct positions *s) {
    const int cols = v->kernels->cols;
    s->count = MIN_OF(cols, v->rows - row);
    s->at[0] = position_of(v, row);
    for (int64_t i = 1; i < s->count; i++) {
        s->at[i] = s->at[i - 1];
        conv_next_position(v, &s->at[i]);
    }
    s->in_line = s->count == cols && s->at[0].at[2] + cols <= v->out[2] && v->axis[2].input_dilation == 1;
}

// Returns the address in x of tap `tap` at a position; NULL if it is outside of x.
static const char *patch(const struct convolution *v, const struct position *s, const int64_t *tap) {
    const char *x = v->x + s->batch * v->batch_step;
    for (int i = 0; i < CONV_AXES; i++) {
        int64_t at = place(v, i, s->at[i], tap[i]);
        if (at < 0)
            return NULL;
        x += at * v->step[i];
    }
    return x;
}

// Packs bytes [from, from + bytes) of the channels at one tap, for all positions. `scratch` has space for one
// unpacked copy.
static void pack_tap(const struct convolution *v, const struct positions *s, const int64_t *tap, int64_t from,
                     int64_t bytes, char *scratch, char *to) {
    const struct gemm_kernel *u = v->kernels;
    const int64_t unit = u->unit * v->item;
    if (s->in_line) {
        const char *first = patch(v, &s->at[0], tap);
        if (first && patch(v, &s->at[u->cols - 1], tap)) {
            cpu_transpose((size_t)unit, to, u->cols * unit, first + from, v->axis[2].stride * v->step[2],
                          bytes / unit, u->cols);
            return;
        }
    }
    for (int64_t i = 0; i < u->cols; i++) {
        const char *x = i < s->count ? patch(v, &s->at[i], tap) : NULL;
        if (x)
            memcpy(scratch + i * bytes, x + from, (size_t)bytes);
        else
            memset(scratch + i * bytes, 0, (size_t)bytes);
    }
    cpu_transpose((size_t)unit, to, u->cols * unit, scratch, bytes, bytes / unit, u->cols);
}

// Packs n elements of taps and channels, from element `first` on, for one panel of positions.
static void pack_positions(const struct convolution *v, const struct positions *s, int64_t group,
                           int64_t first, int64_t n, char *scratch, char *to) {
    const int64_t cols = v->kernels->cols, *kernel = v->kernel, end = first + n;
    for (int64_t k = first, part; k < end; k += part) {
        int64_t at = k / v->channels, channel = k % v->channels;
        const int64_t tap[CONV_AXES] = {at / kernel[2] / kernel[1], at / kernel[2] % kernel[1],
                                        at % kernel[2]};
        part = MIN_OF(v->channels - channel, end - k);
        pack_tap(v, s, tap, group * v->group_step + channel * v->item, part * v->item, scratch, to);
        to += part * cols * v->item;
    }
    memset(to, 0, (size_t)((round_up(n, v->kernels->step) - n) * cols * v->item));
}

// Tiles -----------------------------------------------------------------------------------------------------

struct tile {
    int64_t group, row, panels, k;
    int64_t output, outputs; // the first output, and their number, rounded up to whole panels
    char *positions, *sums, *scratch;
};

// Multiplies all outputs of a tile by all of its positions, over n elements of taps and channels.
static void multiply(const struct convolution *v, const struct tile *t, int64_t n) {
    const struct gemm_kernel *u = v->kernels;
    const int64_t sum = (int64_t)zl_dtype_size(u->sum);
    const int64_t padded = round_up(n, u->step), panel = v->chunk * u->cols * v->item;
    for (int64_t i = 0; i < t->outputs; i += u->rows) {
        const char *w = v->packed + t->group * group_bytes(v) + (t->output + i) * line_bytes(v) +
                        t->k * u->rows * v->item;
        for (int64_t p = 0; p < t->panels; p++)
            u->run(padded, w, t->positions + p * panel, t->sums + (p * t->outputs + i) * u->cols * sum,
                   u->cols, t->k > 0);
    }
}

// Transposes the sums of panel p to positions of the result, and converts them to its dtype.
static void finish(const struct convolution *v, const struct tile *t, int64_t p) {
    const struct gemm_kernel *u = v->kernels;
    const int64_t sum = (int64_t)zl_dtype_size(u->sum), width = v->groups * v->outputs,
                  row = t->row + p * u->cols;
    const int64_t count = MIN_OF(u->cols, v->rows - row),
                  outputs = MIN_OF(t->outputs, v->outputs - t->output);
    const char *sums = t->sums + p * t->outputs * u->cols * sum;
    char *y = v->y + (row * width + t->group * v->outputs + t->output) * v->item;
    if (u->sum == v->dtype) {
        cpu_transpose((size_t)sum, y, width * sum, sums, u->cols * sum, count, outputs);
        return;
    }
    row_fn *narrow = cpu_level()->rows->cast[v->dtype][u->sum];
    cpu_transpose((size_t)sum, t->scratch, outputs * sum, sums, u->cols * sum, count, outputs);
    for (int64_t i = 0; i < count; i++)
        cpu_call_row(narrow, y + i * width * v->item, t->scratch + i * outputs * sum, NULL, NULL, outputs);
}

static void run_tile(const struct convolution *v, struct tile *t) {
    const struct gemm_kernel *u = v->kernels;
    struct positions s;
    for (t->k = 0; t->k < length_of(v); t->k += v->chunk) {
        int64_t n = MIN_OF(v->chunk, length_of(v) - t->k);
        for (int64_t p = 0; p < t->panels; p++) {
            read_positions(v, t->row + p * u->cols, &s);
            pack_positions(v, &s, t->group, t->k, n, t->scratch,
                           t->positions + p * v->chunk * u->cols * v->item);
        }
        multiply(v, t, n);
    }
    for (int64_t p = 0; p < t->panels; p++)
        finish(v, t, p);
}

void conv_panels(const void *convolution, int64_t from, int64_t to) {
    struct convolution *v = (struct convolution *)(uintptr_t)convolution;
    const struct gemm_kernel *u = v->kernels;
    const int64_t sum = (int64_t)zl_dtype_size(u->sum), panels = panels_of(v);
    const int64_t patches = round_up(v->tile_rows * v->chunk * v->item, 64) + GEMM_SLACK,
                  sums = v->tile_rows * v->tile_cols * sum;
    struct tile t;
    t.positions = cpu_scratch(SCRATCH_PACK, (size_t)patches);
    t.sums = cpu_scratch(SCRATCH_RESULT, (size_t)sums);
    t.scratch =
        cpu_scratch(SCRATCH_WORK, (size_t)(u->cols * MAX_OF(v->channels * v->item, v->tile_cols * sum)));
    if (!t.positions || !t.sums || !t.scratch) {
        atomic_store(&v->failed, true);
        return;
    }
    for (; from < to; from++) {
        t.group = from / v->col_tiles / v->row_tiles;
        const int64_t at = from / v->col_tiles % v->row_tiles, first = panels * at / v->row_tiles;
        t.row = first * u->cols;
        t.panels = panels * (at + 1) / v->row_tiles - first;
        t.output = from % v->col_tiles * v->tile_cols;
        t.outputs = MIN_OF(v->tile_cols, round_up(v->outputs - t.output, u->rows));
        run_tile(v, &t);
    }
}
