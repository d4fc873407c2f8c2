// pooling.c - pooling: the maximum, the minimum or the scaled sum of a window that moves over rows and
// columns.

#include "bm1690/element.h"

run_function run_pool;

struct pooling {
    int operation;
    const struct view *to, *from;
    struct pair kernel, stride, dilation;
    struct padding pad;
    float last;         // the value of the padding, or the scale of sums
    atomic_bool failed; // no memory
};

// Loads the rows of a channel as floats, surrounded by the padding, so that the elements which the outputs of
// a row read are `stride` apart.
static void load_channel(const struct pooling *p, int n, int c, float *to, int height, int width) {
    float outside = p->operation == ADD ? 0 : p->last;
    for (int i = 0; i < height * width; i++)
        to[i] = outside;
    for (int h = 0; h < p->from->dim.h; h++)
        element_load_row(to + (size_t)(h + p->pad.top) * (size_t)width + p->pad.left,
                         view_row(p->from, n, c, h), 1, p->from->dim.w, p->from->dtype);
    for (int i = 0; i < height * width; i++)
        to[i] = element_flush(to[i]);
}

static void step_row(enum bm1690_dtype dtype, float *x, int count) {
    for (int i = 0; i < count; i++)
        x[i] = element_flush(dtype == BM1690_FP32 ? x[i] : element_step(dtype, x[i]));
}

// Adds one place of the window to the sums of a row of outputs. Even and odd places have a sum each, rounded
// to the dtype at every step. x is the element that the first output reads at this place; `sums` holds both
// rows of sums.
static void add_row(const struct pooling *p, float *sums, const float *x, int place, float *scaled) {
    int count = p->to->dim.w, stride = p->stride.w;
    float *sum = sums + (size_t)(place & 1) * (size_t)count, scale = p->last;
    for (int i = 0; i < count; i++)
        scaled[i] = x[i * stride] * scale;
    step_row(p->to->dtype, scaled, count);
    for (int i = 0; i < count; i++)
        sum[i] = place < 2 ? scaled[i] : sum[i] + scaled[i]; // the first sum is assigned, which keeps the
                                                             // sign of zeros
    step_row(p->to->dtype, sum, count);
}

// Takes the maximum or minimum with one place of the window. A NaN never replaces a maximum; it replaces a
// minimum, and the next number replaces it.
static void most_row(const struct pooling *p, float *most, const float *x, int place) {
    int count = p->to->dim.w, stride = p->stride.w;
    bool is_max = p->operation == MAX;
    for (int i = 0; i < count; i++) {
        float a = x[i * stride], b = most[i];
        most[i] = place == 0 || (is_max ? a > b : !(b <= a)) ? a : b;
    }
}

// Computes a row of outputs, all at once for each place of the window.
static void pool_row(const struct pooling *p, int h, const float *channel, int width, float *work) {
    int count = p->to->dim.w, place = 0;
    float *sums = work, *scaled = work + 2 * (size_t)count;
    memset(sums, 0, sizeof *sums * 2 * (size_t)count);
    for (int i = 0; i < p->kernel.h; i++)
        for (int j = 0; j < p->kernel.w; j++, place++) {
            const float *x =
                channel + (size_t)(h * p->stride.h + i * p->dilation.h) * (size_t)width + j * p->dilation.w;
            if (p->operation == ADD)
                add_row(p, sums, x, place, scaled);
            else
                most_row(p, sums, x, place);
        }
    for (int i = 0; p->operation == ADD && i < count; i++)
        sums[i] += sums[count + i];
}

static void pool_channel(void *context, int part) {
    struct pooling *p = context;
    const struct view *to = p->to, *from = p->from;
    int n = part / to->dim.c, c = part % to->dim.c, height = from->dim.h + p->pad.top + p->pad.bottom,
        width = from->dim.w + p->pad.left + p->pad.right;
    float *work = memory_alloc(sizeof *work * ((size_t)height * (size_t)width + 3 * (size_t)to->dim.w));
    if (!work) {
        atomic_store(&p->failed, true);
        return;
    }
    float *channel = work + 3 * (size_t)to->dim.w;
    load_channel(p, n, c, channel, height, width);
    for (int h = 0; h < to->dim.h; h++) {
        pool_row(p, h, channel, width, work);
        element_store_row(view_row(to, n, c, h), 1, to->dim.w, to->dtype, work);
        for (int w = 0; p->operation == ADD && w < to->dim.w; w++)
            if (work[w] != work[w])
                element_result(view_row(to, n, c, h) + (size_t)w * (size_t)to->size, to->dtype, work[w]);
    }
    memory_free(work);
}

// Returns the cycles: one per vector of 64 bytes and element of the window.
static double pool_cycles(const struct pooling *p) {
    const struct view *to = p->to;
    int64_t groups = (to->lane + to->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT;
    int64_t bytes = (int64_t)to->dim.h * to->dim.w * to->size;
    int64_t vectors = to->dim.n * groups * ((bytes + BM1690_VECTOR_BYTES - 1) / BM1690_VECTOR_BYTES);
    return (double)vectors * p->kernel.h * p->kernel.w;
}

bool run_pool(struct command *command) {
    struct pooling p = {.operation = command->operation,
                        .to = command_operand(command, 0),
                        .from = command_operand(command, 1)};
    uint32_t last = command_value(command, command->operation == ADD ? "scale" : "pad_val")->word;
    p.kernel = *(const struct pair *)command_value(command, "kernel")->p;
    p.stride = *(const struct pair *)command_value(command, "stride")->p;
    p.dilation = *(const struct pair *)command_value(command, "dilation")->p;
    p.pad = *(const struct padding *)command_value(command, "padding")->p;
    p.last = element_load((const uint8_t *)&last, p.from->dtype);
    command->cycles = pool_cycles(&p);
    if (!command->core->counts_only)
        chip_spread(p.from, pool_channel, &p);
    return !atomic_load(&p.failed);
}
