// kernels_attention_few.c - attention of few queries, split over keys (src/kernel/attention_few.tile), for
// units with matrix instructions.

#include "device/kernels/kernels_flash.h"

enum { B, N, T, D }; // axes of q: batch, heads, queries, size of a head
enum {
    LINES_LEAST = 16, // least rows of a block: queries times heads that share keys
    LINES_MOST = 64,
    QUERIES_MOST = 16, // queries of a head, if a block has more than LINES_LEAST rows
    SIZE_MOST = 256,
    STEP = 64,    // keys per iteration
    STAGES = 2,   // iterations whose keys are in shared memory; three or four were no faster on an H200
    PIECE = 16,   // elements of a head that a matrix instruction multiplies
    PACK = 8,     // the elements that strides have to be multiples of
    BLOCKS = 264, // blocks that keep a unit busy; no more than MOST of the kernel
};

// Returns the rows of a block: the smallest power of two, from LINES_LEAST on, that holds all queries of the
// heads that share keys; 0 if there are too many queries.
static int lines_of(const struct attention *a) {
    int64_t all = a->q->dim[N] / a->k->dim[N] * a->q->dim[T];
    int lines = LINES_LEAST;
    bool may_have_more = a->q->dim[T] <= QUERIES_MOST && array_item(a->q) == 2;
    while (lines < all && lines < LINES_MOST && may_have_more)
        lines *= 2;
    return lines < all ? 0 : lines;
}

static int64_t shared_of(const struct target *unit, const struct attention *a) {
    int64_t item = (int64_t)array_item(a->q), step = target_row_bytes(unit, STEP * item);
    int64_t size = target_row_bytes(unit, a->q->dim[D] * item),
            width = target_row_bytes(unit, a->v->dim[D] * item);
    return lines_of(a) * (size + step) + target_stages(unit, STAGES) * STEP * (size + width);
}

static bool is_taken(const struct target *unit, zl_dtype dtype) {
    bool is_half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    return unit->multiplies && (is_half ? unit->multiplies(dtype, dtype, ZL_FLOAT32) : dtype == ZL_FLOAT32);
}

bool kernel_attention_few_fits(const struct target *unit, const struct attention *a) {
    int64_t size = a->q->dim[D], width = a->v->dim[D];
    int64_t most = MAX_OF(kernel_elements(a->q), MAX_OF(kernel_elements(a->k), kernel_elements(a->v)));
    bool has_sinks = !a->sinks || a->sinks->dim[0] == 1;
    if (a->mask)
        most = MAX_OF(most, kernel_elements(a->mask));
    return is_taken(unit, (zl_dtype)a->q->dtype) && lines_of(a) && size % PIECE == 0 && width % PIECE == 0 &&
           size <= SIZE_MOST && width <= SIZE_MOST && has_sinks &&
           !(a->causal && a->q->dim[T] > a->k->dim[T]) && most < KERNEL_NARROW / 2 &&
           shared_of(unit, a) <= unit->group->most_shared;
}

// Calls -----------------------------------------------------------------------------------------------------

struct operand {
    int64_t stride[4]; // 0 along axes of one element
    struct kernel_scratch copy;
};

// Passes an input as it is if it begins at the start of its memory and its strides except the last are
// multiples of `pack` (for which the last has to be 1); else a row-major copy. For NULL, passes q, which the
// kernel does not read in that role.
static void add(struct kernel_work *w, zl_array q, zl_array x, int64_t pack, struct operand *o) {
    bool lies = true;
    for (int i = 0; x && i < x->ndim; i++) {
        bool is_last = i == x->ndim - 1;
        o->stride[i] = x->dim[i] == 1 && !(is_last && pack > 1) ? 0 : array_stride(x)[i];
        lies =
            lies && x->offset == 0 && (pack == 1 || (is_last ? o->stride[i] == 1 : o->stride[i] % pack == 0));
    }
    if (lies) {
        work_place(w, x ? x : q);
        return;
    }
    shape_row_major(x->ndim, x->dim, o->stride);
    for (int i = 0; i < x->ndim; i++)
        o->stride[i] = x->dim[i] == 1 ? 0 : o->stride[i];
    work_memory(w, kernel_copy_out(w->place, x, &o->copy));
}

enum { INPUTS = 5 };

// The state is written even if it is never read: it is small.
static bool launch(struct kernel_work *w, const struct call *c, const struct attention *a,
                   struct operand *o) {
    const zl_array in[INPUTS] = {a->q, a->k, a->v, a->mask, a->sinks};
    const int64_t *q = a->q->dim, *k = a->k->dim;
    int64_t turns = MAX_OF((k[T] + STEP - 1) / STEP, 1),
            parts = MIN_OF(MAX_OF(BLOCKS / MAX_OF(k[B] * k[N], 1), 1), turns);
    int64_t each = (turns + parts - 1) / parts * STEP;
    float power = (float)(a->scale * 1.4426950408889634);
    bool is_truth = a->mask && a->mask->dtype == ZL_BOOL;
    for (int i = 0; i < INPUTS; i++)
        add(w, a->q, in[i], i < 3 ? PACK : 1, &o[i]);
    work_value(w, &power, sizeof power);
    work_place(w, call_first(c));
    work_place(w, call_output(c, 1));
    WORK_SIZES(w, q[N] / k[N], each, (k[T] + each - 1) / each, q[B], q[N], k[N], q[T], k[T]);
    for (int i = 0; i < 3; i++)
        work_sizes(w, 3, o[i].stride);
    work_sizes(w, 4, o[3].stride);
    WORK_SIZES(w, o[4].stride[1]);
    work_sizes(w, 3, array_stride(call_first(c)));
    return work_file(
        w, "attention_few", "ITEM=%t,MASK=%t,SIZE=%d,WIDTH=%d,CAUSAL=%d,MASKED=%d,SINKS=%d,LINES=%d", 8,
        (const int32_t[]){a->q->dtype, is_truth ? ZL_BOOL : a->q->dtype, (int32_t)q[D], (int32_t)a->v->dim[D],
                          a->causal && q[T] > 1, a->mask ? 2 - is_truth : 0, a->sinks != NULL, lines_of(a)});
}

bool kernel_attention_few(const struct kernel_place *p, const struct call *c, const struct attention *a) {
    struct operand o[INPUTS] = {{{0}}};
    struct kernel_work w;
    work_open(&w, p, "attention");
    bool done = launch(&w, c, a, o);
    for (int i = 0; i < INPUTS; i++)
        kernel_scratch_close(p, &o[i].copy);
    return done;
}
