// kernels_transpose.c - copies whose elements are neighbours along one axis before and along another after, in tiles: of runs of
// neighbours where all lies in whole ones.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"

enum { LEAST = 16 }; // elements along both axes from which it pays

struct recipe {
    char name[12];              // no other kernel has such a key
    int32_t bytes, wide, width; // width: elements of a run; 1: there are none
};

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    const char *item = tile_type_name(kernel_word((size_t)r->bytes)), *index = kernel_index_clauses(r->wide);
    return r->width > 1 ? kernel_built_in("transpose_runs", "ITEM=%s,WIDTH=%d,%s", item, r->width, index)
                        : kernel_built_in("transpose", "ITEM=%s,%s", item, index);
}

enum { TO, FROM };

// The axis along which an operand has neighbours, if it is long enough; -1: there is none.
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

static bool begins_run(const struct kernel_end *e, int width) {
    return e->at % width == 0 && (uintptr_t)e->memory % 16 == 0;
}

// Elements of a run that all fits: 16 bytes of them, or 4 of single bytes, whose squares would be too large.
static int width_of(const struct kernel_layout *l, int row, int col, size_t bytes,
                    const struct kernel_end *to, const struct kernel_end *from) {
    int width = bytes == 1 ? 4 : 16 / (int)bytes;
    bool fits = l->dim[row] % width == 0 && l->dim[col] % width == 0 && begins_run(to, width) &&
                begins_run(from, width);
    for (int i = 0; i < l->axes; i++)
        fits = fits && (i == row || l->stride[FROM][i] % width == 0) &&
               (i == col || l->stride[TO][i] % width == 0);
    return fits ? width : 1;
}

bool kernel_transpose(const struct kernel_place *p, size_t bytes, const struct kernel_layout *l,
                      struct kernel_end to, struct kernel_end from) {
    int row = neighbours(l, FROM), col = neighbours(l, TO), width = width_of(l, row, col, bytes, &to, &from);
    int64_t ends[] = {layout_reach(l, TO, to.at), layout_reach(l, FROM, from.at)};
    struct recipe r = {"transpose", (int32_t)bytes, MAX_OF(ends[0], ends[1]) > KERNEL_NARROW, width};
    int64_t step[] = {l->stride[TO][row] / width, l->stride[FROM][col] / width};
    struct kernel_layout batch;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&batch, 2);
    for (int i = 0; i < l->axes; i++)
        if (i != row && i != col)
            layout_push(&batch, l->dim[i],
                        (const int64_t[]){l->stride[TO][i] / width, l->stride[FROM][i] / width});
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    kernel_add_memory(&k, from.memory);
    kernel_add_table(&k, &batch, r.wide);
    kernel_add_int(&k, step[TO], r.wide);
    kernel_add_int(&k, step[FROM], r.wide);
    kernel_add_memory(&k, to.memory);
    return kernel && to.memory && from.memory &&
           kernel_launch_tiles(p, kernel, &k, 8,
                               (const int64_t[]){l->dim[row] / width, l->dim[col] / width, batch.size,
                                                 batch.axes, (ends[TO] + width - 1) / width, to.at / width,
                                                 (ends[FROM] + width - 1) / width, from.at / width});
}
