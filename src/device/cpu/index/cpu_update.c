// cpu_update.c - replaces or combines slices of an array, at positions that are constant or read from an
// array.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

static void run_body(const void *context, char *const *p, int64_t n, int64_t more) {
    (void)more;
    row_fn *const *row = context;
    cpu_call_row(*row, p[0], p[1], p[2], NULL, n);
}

// Replaces the elements at `to` by x, or combines both by a row kernel; strides of `to` are in elements.
static void put(int update, zl_dtype dtype, zl_array x, char *to, const int64_t *stride) {
    union scalar room;
    size_t item = array_item(x);
    row_fn *row = cpu_update_row(update, dtype);
    const char *from = array_data(x, &room);
    struct layout l;
    if (!row) {
        cpu_copy(item, x->ndim, x->dim, to, stride, from, array_stride(x));
        return;
    }
    cpu_layout_start(&l, x->ndim, x->dim, 1);
    cpu_layout_add(&l, to, item, x->ndim, x->dim, stride);
    cpu_layout_add(&l, to, item, x->ndim, x->dim, stride);
    cpu_layout_add(&l, from, item, x->ndim, x->dim, array_stride(x));
    cpu_layout_plan(&l, ~0u, 0);
    cpu_layout_run(&l, 1, run_body, &row);
}

bool cpu_slice_update(const struct call *c) {
    zl_array out = call_output(c, 0);
    const int64_t *start = call_args(c) + 1, *stop = start + out->ndim, *step = stop + out->ndim;
    OP_TEMP(int64_t, stride, out->ndim);
    if (!stride)
        return false;
    int64_t offset = 0;
    for (int i = 0; i < out->ndim; i++) {
        struct slice_run run = op_slice_run(out->dim[i], start[i], stop[i], step[i]);
        stride[i] = run.step * array_stride(out)[i];
        offset += run.start * array_stride(out)[i];
    }
    char *to = cpu_copy_input(c) + offset * (int64_t)array_item(out);
    put((int)call_args(c)[0], (zl_dtype)out->dtype, c->in[1], to, stride);
    return true;
}

// Sets *offset to the elements of x before a slice of the given sizes, whose positions along `axes` are in
// `start`.
static bool find_start(zl_array x, zl_array start, const int64_t *axes, const int64_t *size,
                       int64_t *offset) {
    struct indices list;
    *offset = 0;
    if (start->size == 0)
        return true;
    if (!cpu_indices_open(&list, start))
        return false;
    for (int64_t i = 0; i < start->size; i++) {
        int64_t index, axis = axes[i];
        cpu_indices_next(&list, i, 1, &index);
        *offset += cpu_position(index, x->dim[axis], x->dim[axis] - size[axis]) * array_stride(x)[axis];
    }
    cpu_indices_close(&list);
    return true;
}

bool cpu_dynamic_slice(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    size_t item = array_item(x);
    int64_t offset;
    if (!find_start(x, c->in[1], call_args(c) + 1, out->dim, &offset))
        return false;
    cpu_copy(item, out->ndim, out->dim, cpu_data(out), array_stride(out),
             (const char *)array_data(x, &room) + offset * (int64_t)item, array_stride(x));
    return true;
}

bool cpu_dynamic_slice_update(const struct call *c) {
    zl_array update = c->in[1], out = call_output(c, 0);
    int64_t offset;
    if (!find_start(out, c->in[2], call_args(c), update->dim, &offset))
        return false;
    put(UPDATE_SET, (zl_dtype)out->dtype, update, cpu_copy_input(c) + offset * (int64_t)array_item(out),
        array_stride(out));
    return true;
}
