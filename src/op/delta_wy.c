// delta_wy.c - which calls of the delta rule its kernels of chunks compute (src/kernel/delta_wy.tile), and what they are given.

#include "op/ops.h"

enum { SIZE_MOST = 128, LENGTH_LEAST = 32 };

// How tiles lie. Matrix instructions multiply 16-bit floats, whose rows fill panels of 128 bytes; products of others are loops, whose tiles
// leave room for those of the state.
struct tiles {
    int size, part, chunk, threads, stages;
};

static struct tiles tiles_of(const struct delta_rule *r) {
    int keys = (int)r->q->dim[3];
    if (array_item(r->x) == 2)
        return (struct tiles){keys <= 64 ? 64 : 128, 64, 64, 128, 2};
    return (struct tiles){(keys + 15) / 16 * 16, 16, 16, 128, 1};
}

bool op_delta_has_chunks(const struct delta_rule *r) {
    int64_t sequences = r->state->dim[0], tokens = r->x->dim[0] * r->x->dim[1];
    return r->state->dtype == ZL_FLOAT32 && !r->factors && (r->e || !r->beta) && r->g->ndim == 3 && r->q->dim[3] <= SIZE_MOST &&
           tokens / sequences >= LENGTH_LEAST;
}

// Elements at which all vectors begin, and which their heads have a multiple of: what copies move at once.
static int unit_of(const struct delta_rule *r) {
    enum { UNIT = 8 };
    const zl_array each[] = {r->q, r->w, r->x, r->e};
    for (size_t i = 0; i < COUNT(each); i++)
        if (each[i] && (each[i]->offset % UNIT || each[i]->dim[3] % UNIT))
            return 1;
    return UNIT;
}

static int shares(const struct delta_rule *r, zl_array x) {
    return x ? (int)(r->x->dim[2] / x->dim[2]) : 1;
}

void op_delta_by_chunks(const struct delta_rule *r, struct op_kernel *k) {
    struct tiles t = tiles_of(r);
    int64_t sequences = r->state->dim[0], tokens = r->x->dim[0] * r->x->dim[1], steps = r->x->dim[1];
    op_kernel_set(k, "delta_wy",
                  "ITEM=%s,PLACE=%s,KEYS=%d,SIZE=%d,VALUES=%d,PART=%d,CHUNK=%d,UNIT=%d,THREADS=%d,STAGES=%d,"
                  "Q_SHARES=%d,W_SHARES=%d,E_SHARES=%d,PRE=%d,ERASES=%d,BETA=%d,PACKED=%d",
                  op_kernel_type(r->x), op_kernel_type(r->offsets ? r->offsets : r->g), (int)r->q->dim[3],
                  t.size, (int)r->x->dim[3], t.part, t.chunk, unit_of(r), t.threads, t.stages,
                  shares(r, r->q), shares(r, r->w), shares(r, r->e), r->pre,
                  !r->e ? 0 : r->e == r->w ? 2 : 1, r->beta != NULL, r->offsets != NULL);
    int64_t slots = r->offsets ? tokens / t.chunk + sequences : sequences * ((steps + t.chunk - 1) / t.chunk);
    const int64_t sizes[] = {steps,     r->x->dim[2], r->q->dim[2], r->w->dim[2], r->e ? r->e->dim[2] : 1,
                             sequences, tokens,       slots};
    for (size_t i = 0; i < COUNT(sizes); i++)
        op_kernel_size(k, sizes[i]);
    op_delta_other_inputs(r, k);
}
