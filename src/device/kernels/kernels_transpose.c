// kernels_transpose.c - copies between operands that are contiguous along different axes, in tiles, and by
// runs of elements if everything is aligned to them.

#include "device/kernels/kernels.h"

enum { LEAST = 16 }; // least elements along both axes

enum { TO, FROM };

// Returns the axis along which an operand is contiguous, if it is long enough, else -1.
static int neighbours(const struct kernel_layout *l, int operand) {
    for (int i = l->axes - 1; i >= 0; i--)
        if (l->stride[operand][i] == 1 && l->dim[i] >= LEAST)
            return i;
    return -1;
}

bool kernel_is_transpose(const struct kernel_layout *l) {
    int row = neighbours(l, FROM), col = neighbours(l, TO);
    return row >= 0 && col >= 0 && row != col && l->stride[FROM][col] > 1 && l->axes - 2 <= KERNEL_AXES;
}

bool kernel_begins_run(const struct kernel_end *e, int width) {
    return e->at % width == 0 && (uintptr_t)e->memory % 16 == 0;
}

// Returns the elements of a run: 16 bytes if all positions are multiples of that, else 1. Of single bytes it
// has 4, because squares of 16 would be too large.
static int width_of(const struct kernel_layout *l, int row, int col, size_t bytes,
                    const struct kernel_end *to, const struct kernel_end *from) {
    int width = bytes == 1 ? 4 : 16 / (int)bytes;
    bool fits = l->dim[row] % width == 0 && l->dim[col] % width == 0 && kernel_begins_run(to, width) &&
                kernel_begins_run(from, width);
    for (int i = 0; i < l->axes; i++)
        fits = fits && (i == row || l->stride[FROM][i] % width == 0) &&
               (i == col || l->stride[TO][i] % width == 0);
    return fits ? width : 1;
}

bool kernel_transpose(const struct kernel_place *p, size_t bytes, const struct kernel_layout *l,
                      struct kernel_end to, struct kernel_end from) {
    int row = neighbours(l, FROM), col = neighbours(l, TO), width = width_of(l, row, col, bytes, &to, &from);
    int64_t ends[] = {kernel_layout_reach(l, TO, to.at), kernel_layout_reach(l, FROM, from.at)};
    struct kernel_layout batch;
    struct kernel_work w;
    kernel_layout_begin(&batch, 2);
    for (int i = 0; i < l->axes; i++)
        if (i != row && i != col)
            kernel_layout_push(&batch, l->dim[i],
                               (const int64_t[]){l->stride[TO][i] / width, l->stride[FROM][i] / width});
    work_open(&w, p, "transpose");
    WORK_SIZES(&w, l->dim[row] / width, l->dim[col] / width, batch.size, layout_inner(&batch),
               (ends[TO] + width - 1) / width, to.at / width, (ends[FROM] + width - 1) / width,
               from.at / width);
    work_memory(&w, from.memory);
    work_table(&w, &batch);
    work_int(&w, l->stride[TO][row] / width);
    work_int(&w, l->stride[FROM][col] / width);
    work_memory(&w, to.memory);
    w.wide = MAX_OF(ends[0], ends[1]) > KERNEL_NARROW;
    int32_t bits = 8 * (int32_t)bytes;
    return width > 1 ? WORK_FILE(&w, "transpose_runs", "ITEM=u%d,WIDTH=%d,%i", bits, width)
                     : WORK_FILE(&w, "transpose", "ITEM=u%d,%i", bits);
}
