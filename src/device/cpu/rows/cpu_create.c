// cpu_create.c - ops without array inputs: counting sequences, and arrays read from a source such as a file.

#include "device/cpu/rows/operands.h"
#include "op/ops.h"

#include <math.h>

enum { TILE = 512, GRAIN = 16384 };

// Element i is start + i * step: in 64-bit integers, which wrap around, or in doubles with one rounding.
struct count {
    union {
        int64_t i[TILE];
        double f[TILE];
    } tile;
};

struct counting {
    char *out;
    size_t item;
    row_fn *cast; // from int64 or float64; NULL: the output has that dtype
    bool is_int;
    int64_t first, step;
    double start, by;
};

static void count_tile(const struct counting *c, struct count *t, int64_t from, int64_t n) {
    if (c->is_int)
        for (int64_t i = 0; i < n; i++)
            t->tile.i[i] = (int64_t)((uint64_t)c->first + (uint64_t)(from + i) * (uint64_t)c->step);
    else
        for (int64_t i = 0; i < n; i++)
            t->tile.f[i] = fma((double)(from + i), c->by, c->start);
}

static void count_part(const void *context, int64_t from, int64_t to) {
    const struct counting *c = context;
    struct count t;
    for (int64_t n; from < to; from += n) {
        n = MIN_OF(TILE, to - from);
        count_tile(c, &t, from, n);
        char *p[2] = {c->out + from * (int64_t)c->item, (char *)&t};
        if (c->cast)
            c->cast(p, n, n);
        else
            cpu_move(8, p[0], (struct stride2){0, 8}, p[1], (struct stride2){0, 8}, 1, n);
    }
}

static bool count_up(zl_array out, struct counting c, zl_dtype from) {
    zl_dtype dtype = (zl_dtype)out->dtype;
    c.out = cpu_data(out);
    c.item = array_item(out);
    c.cast = dtype == from ? NULL : cpu_level()->rows->cast[dtype][from];
    if (!c.cast && dtype != from)
        return error_false(ZL_ERROR_DEVICE, "the cpu device has no cast to %s", zl_dtype_name(dtype));
    cpu_split(out->size, GRAIN, count_part, &c);
    return true;
}

bool cpu_arange_int(const struct call *c) {
    const int64_t *args = call_args(c);
    return count_up(call_output(c, 0), (struct counting){.is_int = true, .first = args[0], .step = args[2]},
                    ZL_INT64);
}

bool cpu_arange(const struct call *c) {
    const int64_t *args = call_args(c);
    double start = op_arg_double(args[0]), step = op_arg_double(args[2]);
    return count_up(call_output(c, 0), (struct counting){.start = start, .by = step}, ZL_FLOAT64);
}

bool cpu_load(const struct call *c) {
    return op_load_run(c, cpu_data(call_first(c)));
}
