// cpu_fold.c - sums patches into images, line by line: each run of contiguous elements of a patch is added to
// its place in a line of the result. 16-bit floats are added as float32, in a temporary line.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum {
    SHORT = 16, // with fewer elements, runs are not worth a call each
    BLOCK = 256,
};

struct folding {
    struct fold fold;
    const char *x;
    char *y, *lines; // lines: one of the wide dtype per part of the work; NULL: sums are made in the result
    int64_t item, wide; // bytes per element, and per element of the sums
    int64_t run, runs;  // elements per run, and runs per output along the last axis
    int64_t parts;
    row_fn *widen, *narrow, *add; // the first two are NULL where dtypes are the same
    scatter_fn *elements;         // adds single elements of many outputs; NULL: runs are added
    int64_t offset[BLOCK];        // bytes in a line from the first output of a block to each
};

// The outputs [first, end) whose windows contain the element at `place` of an axis. In a dilated window it
// may be between two taps.
struct outputs {
    int64_t first, end;
};

static struct outputs outputs_at(const struct fold_axis *a, int64_t place) {
    int64_t from = place - a->start - (a->taps - 1) * a->apart, to = place - a->start;
    return (struct outputs){from > 0 ? (from + a->step - 1) / a->step : 0,
                            to < 0 ? 0 : MIN_OF(to / a->step + 1, a->outs)};
}

enum { NO_TAP = -1 };

// Returns the tap of output o that is at `place`, or NO_TAP.
static int64_t tap_at(const struct fold_axis *a, int64_t place, int64_t o) {
    int64_t rest = place - a->start - o * a->step;
    return rest % a->apart ? NO_TAP : rest / a->apart;
}

static void add_run(const struct folding *f, char *to, const char *from, int64_t n) {
    enum { TILE = 1024 };
    _Alignas(64) float tile[TILE];
    for (int64_t i = 0, part; f->widen && i < n; i += part) {
        part = MIN_OF(n - i, TILE);
        cpu_call_row(f->widen, tile, from + i * f->item, NULL, NULL, part);
        cpu_call_row(f->add, to + i * f->wide, to + i * f->wide, tile, NULL, part);
    }
    if (!f->widen)
        cpu_call_row(f->add, to, to, from, NULL, n);
}

// Adds the patches along the last axis to a line, element by element. Taps come from the last to the first,
// so that the outputs are added to each element in order.
static void add_elements(const struct folding *f, char *to, const char *from) {
    const struct fold_axis *a = &f->fold.axis[2];
    int64_t channels = f->fold.channels;
    for (int64_t t = a->taps - 1; t >= 0; t--)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t o = 0; o < a->outs; o += BLOCK)
                f->elements(to + ((a->start + o * a->step + t * a->apart) * channels + c) * f->item,
                            f->offset, from + (o * a->out_stride + t * a->tap_stride + c) * f->item,
                            a->out_stride * f->item, MIN_OF(BLOCK, a->outs - o));
}

// Adds the patches along the last axis to a line, run by run.
static void add_patches(const struct folding *f, char *to, const char *from) {
    const struct fold_axis *a = &f->fold.axis[2];
    int64_t channel = f->fold.channels * f->wide;
    for (int64_t o = 0; o < a->outs; o++)
        for (int64_t t = 0; t < f->runs; t++)
            add_run(f, to + (a->start + o * a->step + t * a->apart) * channel,
                    from + (o * a->out_stride + t * a->tap_stride) * f->item, f->run);
}

static void sum_line(const struct folding *f, char *to, int64_t line) {
    const struct fold_axis *a = &f->fold.axis[0], *b = &f->fold.axis[1];
    int64_t at_b = line % b->size, at_a = line / b->size % a->size, image = line / b->size / a->size;
    struct outputs of_a = outputs_at(a, at_a), of_b = outputs_at(b, at_b);
    for (int64_t i = of_a.first; i < of_a.end; i++)
        for (int64_t j = of_b.first; j < of_b.end; j++) {
            int64_t tap_a = tap_at(a, at_a, i), tap_b = tap_at(b, at_b, j);
            int64_t from = image * f->fold.batch_stride + i * a->out_stride + tap_a * a->tap_stride +
                           j * b->out_stride + tap_b * b->tap_stride;
            if (tap_a != NO_TAP && tap_b != NO_TAP)
                (f->elements ? add_elements : add_patches)(f, to, f->x + from * f->item);
        }
}

static void sum_part(const struct folding *f, int64_t part) {
    const struct fold *fold = &f->fold;
    int64_t lines = fold->batch * fold->axis[0].size * fold->axis[1].size;
    int64_t count = fold->axis[2].size * fold->channels, end = lines * (part + 1) / f->parts;
    for (int64_t line = lines * part / f->parts; line < end; line++) {
        char *y = f->y + line * count * f->item, *to = f->lines ? f->lines + part * count * f->wide : y;
        memset(to, 0, (size_t)(count * f->wide));
        sum_line(f, to, line);
        if (f->narrow)
            cpu_call_row(f->narrow, y, to, NULL, NULL, count);
    }
}

static void sum_parts(const void *context, int64_t from, int64_t to) {
    for (; from < to; from++)
        sum_part(context, from);
}

static void choose_rows(struct folding *f, zl_dtype dtype) {
    const struct row_table *rows = cpu_level()->rows;
    zl_dtype wide = f->item == 2 ? ZL_FLOAT32 : dtype;
    f->wide = (int64_t)zl_dtype_size(wide);
    f->widen = wide == dtype ? NULL : rows->cast[wide][dtype];
    f->narrow = wide == dtype ? NULL : rows->cast[dtype][wide];
    f->add = rows->op[TILE_ADD][wide][0];
}

static void choose_runs(struct folding *f, zl_dtype dtype) {
    const struct fold_axis *last = &f->fold.axis[2];
    int64_t channels = f->fold.channels;
    bool dense = last->apart == 1 && (last->tap_stride == channels || last->taps == 1);
    f->run = dense ? last->taps * channels : channels;
    f->runs = dense ? 1 : last->taps;
    if (f->widen || f->run >= SHORT)
        return;
    f->elements = cpu_scatter_elements(UPDATE_ADD, dtype);
    for (int i = 0; i < BLOCK; i++)
        f->offset[i] = i * last->step * channels * f->item;
}

bool cpu_fold(const struct call *c) {
    enum { PARTS_OF_THREAD = 4 };
    union scalar room;
    zl_array x = c->in[0], y = call_first(c);
    struct folding f = {
        .fold = op_fold_read(c), .x = array_data(x, &room), .y = cpu_data(y), .item = (int64_t)array_item(x)};
    int64_t line = f.fold.axis[2].size * f.fold.channels;
    f.parts = MIN_OF(y->size / line, PARTS_OF_THREAD * pool_threads());
    choose_rows(&f, (zl_dtype)x->dtype);
    choose_runs(&f, (zl_dtype)x->dtype);
    if (f.widen && !(f.lines = memory_alloc((size_t)(f.parts * line * f.wide))))
        return false;
    cpu_split(f.parts, CPU_SPLIT * f.parts / ((x->size + y->size) * f.item) + 1, sum_parts, &f);
    memory_free(f.lines);
    return true;
}
