// cpu_conv.c - convolutions as matrix products of patches of the input and the kernels: one tile of patches
// at a time, or by conv_panels.c, conv_positions.c or conv_amx.c.
//
// Depthwise convolutions are not matrix products: rows of channels are multiplied and added (conv_channels.c,
// or conv_taps.c if the kernels are large). With one channel and one output, lines of positions are
// multiplied and added (conv_lines.c). The division into tiles does not depend on the number of threads, so
// the results do not either.

#include "device/cpu/conv/conv.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"

enum {
    TILE_BYTES = 1 << 20, // bytes of patches, which should stay in L2
    TILE_LEAST = 96,      // rows; with fewer, packing would take longer than multiplying
    TILE_MOST = 1024,
    FEW_TILES = 16, // with fewer tiles, columns are divided too
    COLS_LEAST = 128,
};

void *conv_open_buffer(struct conv_buffer *buffer, int64_t bytes) {
    return buffer->data = allocator_get((size_t)bytes, &buffer->bytes);
}

void conv_close_buffer(struct conv_buffer *buffer) {
    if (buffer->data)
        allocator_put(buffer->data, buffer->bytes);
}

// Patches ---------------------------------------------------------------------------------------------------

// Copies the taps of a patch along the last axis, where neighbouring taps are neighbours in x.
static void copy_run(const struct convolution *v, char *to, const char *from, int64_t o, int64_t bytes) {
    const struct conv_axis *a = &v->axis[2];
    int64_t first = o * a->stride - a->low, count = v->kernel[2];
    int64_t before = MIN_OF(MAX_OF(-first, 0), count),
            after = MIN_OF(MAX_OF(first + count - v->in[2], 0), count);
    int64_t inside = MAX_OF(count - before - after, 0);
    if (inside == 0)
        before = count;
    memset(to, 0, (size_t)(before * bytes));
    if (inside)
        memcpy(to + before * bytes, from + (first + before) * bytes, (size_t)(inside * bytes));
    memset(to + (before + inside) * bytes, 0, (size_t)((count - before - inside) * bytes));
}

static void copy_taps(const struct convolution *v, char *to, const char *from, int64_t o, int64_t bytes) {
    for (int64_t k = 0; k < v->kernel[2]; k++, to += bytes) {
        int64_t at = place(v, 2, o, k);
        if (at < 0)
            memset(to, 0, (size_t)bytes);
        else
            cpu_slice_run(to, from + at * v->step[2], (size_t)bytes);
    }
}

static void copy_patch(const struct convolution *v, char *to, const char *from, const struct position *s) {
    const struct conv_axis *a = &v->axis[2];
    int64_t bytes = v->channels * v->item, run = bytes * v->kernel[2];
    bool is_run = a->dilation == 1 && a->input_dilation == 1 && !v->flip && v->step[2] == bytes;
    from += s->batch * v->batch_step;
    for (int64_t i = 0; i < v->kernel[0]; i++)
        for (int64_t j = 0; j < v->kernel[1]; j++, to += run) {
            int64_t first = place(v, 0, s->at[0], i), second = place(v, 1, s->at[1], j);
            if (first < 0 || second < 0)
                memset(to, 0, (size_t)run);
            else
                (is_run ? copy_run : copy_taps)(v, to, from + first * v->step[0] + second * v->step[1],
                                                s->at[2], bytes);
        }
}

// Products --------------------------------------------------------------------------------------------------

static bool set_patches(const struct convolution *v, struct gemm *g, int64_t row, int64_t group) {
    const char *from = v->x + group * v->group_step;
    g->a_col = 1;
    if (v->is_product) {
        g->a_row = v->in_batch ? v->channels : v->groups * v->channels;
        g->a = from + row * g->a_row * v->item;
        return true;
    }
    char *to = cpu_scratch(SCRATCH_WORK, (size_t)(g->m * g->k * v->item));
    struct position s = position_of(v, row);
    g->a_row = g->k;
    g->a = to;
    for (int64_t i = 0; to && i < g->m; i++, to += g->k * v->item, conv_next_position(v, &s))
        copy_patch(v, to, from, &s);
    return to != NULL;
}

static bool multiply_tile(const struct convolution *v, int64_t group, int64_t row, int64_t col) {
    int64_t width = v->groups * v->outputs;
    struct gemm g = {.m = MIN_OF(v->tile_rows, v->rows - row),
                     .n = MIN_OF(v->tile_cols, v->outputs - col),
                     .k = v->taps * v->channels,
                     .b = v->w + (group * v->w_group + col * v->w_col) * v->item,
                     .b_row = v->w_row,
                     .b_col = v->w_col,
                     .c = v->y + (row * width + group * v->outputs + col) * v->item,
                     .c_row = width,
                     .c_col = 1};
    return set_patches(v, &g, row, group) && cpu_gemm(v->dtype, &g);
}

static void multiply_tiles(const void *context, int64_t from, int64_t to) {
    struct convolution *v = (struct convolution *)(uintptr_t)context;
    for (; from < to; from++) {
        int64_t col = from % v->col_tiles, row = from / v->col_tiles % v->row_tiles;
        int64_t group = from / v->col_tiles / v->row_tiles;
        if (!multiply_tile(v, group, row * v->tile_rows, col * v->tile_cols))
            atomic_store(&v->failed, true);
    }
}

static void cut(struct convolution *v) {
    int64_t fit = TILE_BYTES / (v->taps * v->channels * v->item);
    v->tile_rows = MIN_OF(MIN_OF(MAX_OF(fit, TILE_LEAST), TILE_MOST), v->rows);
    v->row_tiles = (v->rows + v->tile_rows - 1) / v->tile_rows;
    v->tile_cols = v->row_tiles * v->groups < FEW_TILES ? MIN_OF(v->outputs, COLS_LEAST) : v->outputs;
    v->col_tiles = (v->outputs + v->tile_cols - 1) / v->tile_cols;
}

// Operands --------------------------------------------------------------------------------------------------

static struct conv_kernel kernel_of(zl_array w, union scalar *value) {
    struct conv_kernel k = {.data = array_data(w, value), .ndim = w->ndim, .size = w->size};
    memcpy(k.dim, w->dim, sizeof(int64_t) * (size_t)w->ndim);
    memcpy(k.stride, array_stride(w), sizeof(int64_t) * (size_t)w->ndim);
    return k;
}

static void set_axes(struct convolution *v, const struct call *c) {
    struct conv how = op_conv_read(c);
    zl_array x = c->in[0], w = c->in[1], out = call_output(c, 0);
    int missing = CONV_AXES - how.axes;
    v->flip = how.flip;
    v->taps = 1;
    v->batch = v->rows = out->dim[0];
    for (int i = 0; i < CONV_AXES; i++) {
        int at = i - missing + 1;
        bool is = i >= missing;
        v->axis[i] = is ? how.axis[i - missing] : (struct conv_axis){1, 0, 0, 1, 1};
        v->in[i] = is ? x->dim[at] : 1;
        v->kernel[i] = is ? w->dim[at] : 1;
        v->out[i] = is ? out->dim[at] : 1;
        v->taps *= v->kernel[i];
        v->rows *= v->out[i];
    }
    v->groups = how.groups;
    v->in_batch = how.in_batch;
    v->channels = w->dim[w->ndim - 1];
    v->outputs = w->dim[0] / how.groups;
}

// Sets x: in place if its channels are contiguous, else a copy in buffer.
static bool set_input(struct convolution *v, zl_array x, union scalar *value, struct conv_buffer *buffer) {
    int64_t dense[CONV_AXES + 2], *stride = array_stride(x);
    int last = x->ndim - 1;
    v->x = array_data(x, value);
    if (stride[last] != 1 && x->dim[last] > 1) {
        char *to = conv_open_buffer(buffer, x->size * v->item);
        if (!to)
            return false;
        shape_row_major(x->ndim, x->dim, dense);
        cpu_copy((size_t)v->item, x->ndim, x->dim, to, dense, v->x, stride);
        v->x = to;
        stride = dense;
    }
    v->batch_step = stride[0] * v->item;
    v->group_step = v->in_batch ? v->batch * v->batch_step : v->channels * v->item;
    for (int i = 0; i < CONV_AXES; i++) {
        int at = i - (CONV_AXES - (x->ndim - 2)) + 1;
        v->step[i] = at > 0 ? stride[at] * v->item : 0;
    }
    v->is_dense = shape_is_row_major(x->ndim, x->dim, stride);
    return true;
}

static bool is_product(const struct convolution *v) {
    bool same = v->is_dense && v->taps == 1;
    for (int i = 0; i < CONV_AXES; i++) {
        const struct conv_axis *a = &v->axis[i];
        same &= a->stride == 1 && a->low == 0 && a->input_dilation == 1 && v->in[i] == v->out[i];
    }
    return same;
}

// Copies w so that in each group, which has `inner` elements of the first axis, this axis becomes the last.
static void transpose_kernel(const struct convolution *v, const struct conv_kernel *w, int64_t inner,
                             char *to) {
    int64_t dim[CONV_AXES + 2], stride[CONV_AXES + 2];
    shape_row_major(w->ndim, w->dim, stride);
    stride[0] = 1;
    dim[0] = inner;
    for (int i = 1; i < w->ndim; i++) {
        dim[i] = w->dim[i];
        stride[i] *= inner;
    }
    for (int64_t done = 0; done < w->dim[0]; done += inner)
        cpu_copy((size_t)v->item, w->ndim, dim, to + done * v->taps * v->channels * v->item, stride,
                 w->data + done * w->stride[0] * v->item, w->stride);
}

// Returns the elements between neighbouring channels of w if the taps and channels of an output are evenly
// spaced, so that a product can read them in place; else 0.
static int64_t even_step(const struct conv_kernel *w) {
    int64_t step = 0, expected = 0;
    for (int i = w->ndim - 1; i > 0; i--) {
        if (w->dim[i] == 1)
            continue;
        step = step ? step : w->stride[i];
        if (w->stride[i] <= 0 || (expected && w->stride[i] != expected))
            return 0;
        expected = w->stride[i] * w->dim[i];
    }
    return step ? step : 1;
}

// Sets w as (groups, outputs, taps, channels), in place or as a copy in buffer. If products are so small that
// they are not packed, the outputs are the last axis of the copy.
static bool set_kernel(struct convolution *v, const struct conv_kernel *w, struct conv_buffer *buffer) {
    int64_t dense[CONV_AXES + 2], k = v->taps * v->channels, step = even_step(w);
    struct gemm g = {.m = v->tile_rows, .n = v->tile_cols, .k = k, .b_col = 1, .c_col = 1};
    bool transposed = v->outputs > 1 && cpu_is_tiny(v->dtype, &g);
    bool in_place = !transposed && w->stride[0] > 0 && step > 0 && (w->stride[0] == 1 || step == 1);
    v->w = w->data;
    v->w_row = in_place ? step : transposed ? v->outputs : 1;
    v->w_col = in_place ? w->stride[0] : transposed ? 1 : k;
    v->w_group = in_place ? v->outputs * w->stride[0] : v->outputs * k;
    if (in_place)
        return true;
    char *to = conv_open_buffer(buffer, w->size * v->item);
    if (!(v->w = to))
        return false;
    shape_row_major(w->ndim, w->dim, dense);
    if (transposed)
        transpose_kernel(v, w, v->outputs, to);
    else
        cpu_copy((size_t)v->item, w->ndim, w->dim, to, dense, w->data, w->stride);
    return true;
}

// Sets w to a copy in buffer, (taps, channels) in the dtype of sums.
static bool set_channel_kernels(struct convolution *v, const struct conv_kernel *w,
                                struct conv_buffer *buffer) {
    zl_dtype wide = v->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    int64_t size = (int64_t)zl_dtype_size(wide);
    char *to = conv_open_buffer(buffer, w->size * (size + v->item));
    if (!to)
        return false;
    char *narrow = wide == v->dtype ? to : to + w->size * size;
    transpose_kernel(v, w, v->groups, narrow);
    if (narrow != to)
        cpu_call_row(cpu_level()->rows->cast[wide][v->dtype], to, narrow, NULL, NULL, w->size);
    v->w = to;
    return true;
}

// Running ---------------------------------------------------------------------------------------------------

typedef void parts_fn(const void *convolution, int64_t from, int64_t to);

static void run(const struct convolution *v, parts_fn *f, int64_t parts) {
    double flops = 2.0 * (double)v->rows * (double)v->taps * (double)v->channels * (double)v->outputs *
                   (double)v->groups;
    double grain = (double)parts * CPU_SPLIT / (flops + 1);
    cpu_split(parts, grain < (double)parts ? (int64_t)grain + 1 : parts, f, v);
}

// Chooses an algorithm, prepares the kernels for it and runs it.
static bool convolve(struct convolution *v, const struct conv_kernel *w, struct conv_buffer *buffer) {
    bool by_channel = v->channels == 1 && v->outputs == 1 && v->groups > 1 && v->group_step == v->item &&
                      v->dtype != ZL_COMPLEX64;
    bool by_line = conv_has_lines(v);
    if (by_channel || by_line) {
        if (!set_channel_kernels(v, w, &buffer[0]))
            return false;
        if (by_line)
            conv_reverse_lines(v, buffer[0].data);
        run(v, by_line ? conv_lines : conv_channels, by_line ? conv_line_parts(v) : v->rows);
        return true;
    }
    if (!set_kernel(v, w, &buffer[0]))
        return false;
    if (conv_has_tiles(v)) {
        if (!conv_pack_tiles(v, &buffer[1]))
            return false;
        run(v, conv_tiles, conv_tile_parts(v));
        return true;
    }
    if (conv_has_positions(v)) {
        if (!conv_pack_positions(v, &buffer[1]))
            return false;
        run(v, conv_positions, conv_position_parts(v));
        return true;
    }
    if (!conv_has_panels(v)) {
        run(v, multiply_tiles, v->groups * v->row_tiles * v->col_tiles);
        return true;
    }
    if (!conv_pack_kernels(v, &buffer[1]))
        return false;
    run(v, conv_panels, conv_panel_parts(v));
    return true;
}

bool conv_run(struct convolution *v, const struct conv_kernel *w) {
    struct conv_buffer buffer[2] = {{0}};
    atomic_init(&v->failed, false);
    v->is_product = is_product(v);
    cut(v);
    bool ok = convolve(v, w, buffer);
    conv_close_buffer(&buffer[0]);
    conv_close_buffer(&buffer[1]);
    return ok && !atomic_load(&v->failed);
}

// Computes the convolution into y, which is row-major.
static bool compute(const struct call *c, char *y) {
    zl_array x = c->in[0], out = call_output(c, 0);
    struct convolution v = {.dtype = (zl_dtype)out->dtype, .item = (int64_t)array_item(out), .y = y};
    union scalar value[2];
    struct conv_buffer buffer = {0};
    set_axes(&v, c);
    struct conv_kernel w = kernel_of(c->in[1], &value[1]);
    if (conv_has_taps(&v)) {
        struct conv_kernel input = kernel_of(x, &value[0]);
        return conv_taps(&v, &input, &w);
    }
    bool ok = set_input(&v, x, &value[0], &buffer);
    ok = ok && (conv_has_phases(&v) ? conv_phases(&v, &w) : conv_run(&v, &w));
    conv_close_buffer(&buffer);
    return ok;
}

bool cpu_conv(const struct call *c) {
    zl_array out = call_output(c, 0);
    int64_t dense[CONV_AXES + 2];
    struct conv_buffer buffer = {0};
    if (array_is(out, ARRAY_CONTIGUOUS))
        return compute(c, cpu_data(out));
    char *y = conv_open_buffer(&buffer, out->size * (int64_t)array_item(out));
    bool ok = y && compute(c, y);
    shape_row_major(out->ndim, out->dim, dense);
    if (ok)
        cpu_copy(array_item(out), out->ndim, out->dim, cpu_data(out), array_stride(out), y, dense);
    conv_close_buffer(&buffer);
    return ok;
}
