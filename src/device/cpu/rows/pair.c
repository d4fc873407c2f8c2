// pair.c - ops with two results of the same operands: two row kernels run on each tile.

#include "device/cpu/rows/operands.h"
#include "op/ops.h"

struct pair {
    row_fn *first, *second;
    int64_t run; // elements for which one element of a column operand serves; 0: there is no such operand
};

// p: both results, then the operands.
static void run_pair(const void *context, char *const *p, int64_t n, int64_t more) {
    (void)more;
    const struct pair *rows = context;
    int64_t run = rows->run ? rows->run : n;
    POINTERS(first, 4) = {p[0], p[2], p[3]};
    POINTERS(second, 4) = {p[1], p[2], p[3]};
    rows->first(first, n, run);
    rows->second(second, n, run);
}

static void add_array(struct layout *l, zl_array a, union scalar *room) {
    cpu_layout_add(l, array_data(a, room), array_item(a), a->ndim, a->dim, array_stride(a));
}

static bool choose_rows(struct pair *rows, zl_dtype dtype, unsigned scalar) {
    const struct row_table *table = cpu_level()->rows;
    rows->first = table->op[op_quotient_row(dtype)][dtype][scalar];
    rows->second = table->op[TILE_REM][dtype][scalar];
    return rows->first && rows->second;
}

bool cpu_divmod(const struct call *c) {
    struct layout l;
    struct pair rows;
    union scalar room[2];
    zl_array out = call_output(c, 0);
    zl_dtype dtype = (zl_dtype)out->dtype;
    cpu_layout_start(&l, out->ndim, out->dim, 2);
    add_array(&l, out, NULL);
    add_array(&l, call_output(c, 1), NULL);
    for (int k = 0; k < 2; k++)
        add_array(&l, c->in[k], &room[k]);
    cpu_layout_plan(&l, 0, 0);
    if (!choose_rows(&rows, dtype, l.scalar >> 2)) {
        cpu_layout_plan(&l, ~0u, 0);
        if (!choose_rows(&rows, dtype, 0))
            return error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for divmod of %s",
                               zl_dtype_name(dtype));
    }
    rows.run = l.run;
    cpu_layout_run(&l, 4, run_pair, &rows);
    return true;
}
