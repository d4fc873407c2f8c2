// pooling.c - pooling: the largest, the smallest or the scaled sum of a window that moves over rows and columns.

#include "bm1690/element.h"

run_function run_pool;

struct pooling {
    int operation;
    const struct view *to, *from;
    struct pair kernel, stride, dilation;
    struct padding pad;
    float last; // what stands outside of the tensor, or the scale of sums
};

static float window_element(const struct pooling *p, int n, int c, int h, int w, bool *is_inside) {
    *is_inside = h >= 0 && h < p->from->dim.h && w >= 0 && w < p->from->dim.w;
    return *is_inside
               ? element_load(view_row(p->from, n, c, h) + (size_t)w * (size_t)p->from->size, p->from->dtype)
               : p->last;
}

// Elements with an even and an odd place in the window have a sum each, rounded to the dtype at every step.
struct sums {
    float sum[2];
    int place;
};

static void add_element(struct sums *s, const struct pooling *p, float x) {
    enum bm1690_dtype dtype = p->to->dtype;
    float scaled = element_step(dtype, x * p->last);
    if (dtype == BM1690_FP32)
        scaled = element_flush(scaled);
    float *sum = &s->sum[s->place++ & 1];
    *sum = element_step(dtype, *sum + scaled);
    if (dtype == BM1690_FP32)
        *sum = element_flush(*sum);
}

static float pool_sum(const struct pooling *p, int n, int c, int h, int w) {
    struct sums s = {{0}};
    for (int i = 0; i < p->kernel.h; i++)
        for (int j = 0; j < p->kernel.w; j++) {
            bool is_inside;
            float x = window_element(p, n, c, h + i * p->dilation.h, w + j * p->dilation.w, &is_inside);
            add_element(&s, p, is_inside ? x : 0);
        }
    return s.sum[0] + s.sum[1];
}

static float pool_most(const struct pooling *p, int n, int c, int h, int w) {
    float most = 0;
    for (int i = 0; i < p->kernel.h; i++)
        for (int j = 0; j < p->kernel.w; j++) {
            bool is_inside;
            float x = window_element(p, n, c, h + i * p->dilation.h, w + j * p->dilation.w, &is_inside);
            bool is_first = i == 0 && j == 0;
            most = is_first || (p->operation == MAX ? x > most : x < most) ? x : most;
        }
    return most;
}

static void pool_channel(void *context, int part) {
    const struct pooling *p = context;
    const struct view *to = p->to;
    int n = part / to->dim.c, c = part % to->dim.c;
    for (int h = 0; h < to->dim.h; h++)
        for (int w = 0; w < to->dim.w; w++) {
            int y = h * p->stride.h - p->pad.top, x = w * p->stride.w - p->pad.left;
            float result = p->operation == ADD ? pool_sum(p, n, c, y, x) : pool_most(p, n, c, y, x);
            element_store(view_row(to, n, c, h) + (size_t)w * (size_t)to->size, to->dtype, result);
        }
}

// One vector of 64 bytes per cycle for each element of the window.
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
    return true;
}
