// kernels_flash.c - attention by matrix instructions, and its cotangents, for units that have them.
//
// Views that are not contiguous from the start of their memory are copied: the kernels read 16 bytes at once.

#include "device/kernels/kernels_flash.h"
#include "kernel/kernel.h"

enum { B, N, T, D }; // axes of q: batch, heads, queries, size of a head
enum { SIZE_MOST = 128, FEWEST_QUERIES = 16, BLOCK = 128, STEP = 64, STAGES = 2, INPUTS = 6 };

// Kernels ----------------------------------------------------------------------------------------------------------

// Measured on an H200: with the matrix instructions of four warps, eight warps have 16 queries each, and 128 keys a turn pay where
// registers leave room for them; two blocks of a multiprocessor multiply in turns. Else four warps have 32 queries each.
static void choose(struct flash *f, bool joined) {
    bool is_wide = f->size % 64 == 0 && f->width % 64 == 0;
    f->threads = joined && is_wide ? 256 : 128;
    f->blocks = f->threads == 256 ? 2 : 1;
    f->step = joined && f->size == 64 && f->width == 64 ? 2 * STEP : STEP;
}

struct flash flash_of(const struct attention *a, bool backward, bool joined) {
    struct flash f = {.name = "flash",
                      .dtype = a->q->dtype,
                      .backward = backward,
                      .size = (int32_t)a->q->dim[D],
                      .width = (int32_t)a->v->dim[D],
                      .shares = (int32_t)(a->q->dim[N] / a->k->dim[N]),
                      .causal = a->causal,
                      .scale = a->scale};
    if (!backward)
        choose(&f, joined);
    return f;
}

int64_t flash_shared(const struct flash *f) {
    const int64_t item = 2, heads = f->size + f->width;
    if (f->backward)
        return (BLOCK + STAGES * STEP) * heads * item + STAGES * 2 * STEP * (int64_t)sizeof(float);
    return (BLOCK * f->size + STAGES * f->step * heads) * item;
}

struct tile_kernel *flash_make(const void *data) {
    const struct flash *f = data;
    const double of_two = 1.4426950408889634;
    struct text clauses = {0};
    text_add(&clauses, "ITEM=%s,SIZE=%d,WIDTH=%d,SHARES=%d,CAUSAL=%d,SCALE=%.17g,POWER=%.17g",
             kernel_type((zl_dtype)f->dtype), f->size, f->width, f->shares, f->causal, f->scale,
             f->scale * of_two);
    if (!f->backward)
        text_add(&clauses, ",KEEPS=%d,STEP=%d,THREADS=%d,BLOCKS=%d", f->keeps, f->step, f->threads,
                 f->blocks);
    struct tile_kernel *kernel =
        clauses.failed ? NULL : kernel_built_in(f->backward ? "flash_vjp" : "flash", "%s", clauses.data);
    text_free(&clauses);
    return kernel;
}

bool flash_fits(const struct kernel_place *p, const struct attention *a, bool backward) {
    const struct target *unit = p->record;
    zl_dtype dtype = (zl_dtype)a->q->dtype;
    bool is_half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    int64_t most = MAX_OF(a->q->size, MAX_OF(a->k->size, a->v->size));
    int64_t size = a->q->dim[D], width = a->v->dim[D], queries = a->q->dim[T];
    struct flash f = flash_of(a, backward, unit->group->joined > 0);
    return is_half && unit->multiplies && unit->multiplies(dtype, dtype, ZL_FLOAT32) && a->scale > 0 &&
           !a->mask && !a->sinks && size % 16 == 0 && width % 16 == 0 && size <= SIZE_MOST &&
           width <= SIZE_MOST && queries >= FEWEST_QUERIES && !(a->causal && queries > a->k->dim[T]) &&
           most < KERNEL_NARROW / 2 && flash_shared(&f) <= unit->group->most_shared;
}

// Calls ------------------------------------------------------------------------------------------------------------

// The memory in which x lies row-major from its start: its own, or a copy. NULL and an error.
static void *bring(const struct kernel_place *p, zl_array x, struct kernel_scratch *copy) {
    if (x->offset == 0 && shape_is_row_major(x->ndim, x->dim, array_stride(x)))
        return kernel_reach(p, x);
    return kernel_copy_out(p, x, copy);
}

static bool launch(const struct kernel_place *p, const struct attention *a, const struct flash *f, int inputs,
                   const zl_array *in, int outputs, const zl_array *out) {
    const int64_t *q = a->q->dim, *k = a->k->dim;
    struct kernel_scratch copy[INPUTS] = {{0}};
    struct kernel_work w;
    work_open(&w, p, "attention");
    WORK_SIZES(&w, q[B] * q[N], q[T], k[B] * k[N], k[T]);
    for (int i = 0; i < inputs; i++)
        work_memory(&w, bring(p, in[i], &copy[i]));
    for (int i = 0; i < outputs; i++)
        work_place(&w, out[i]);
    bool done = work_run(&w, f, sizeof *f, flash_make);
    for (int i = 0; i < inputs; i++)
        kernel_scratch_close(p, &copy[i]);
    return done;
}

// A state that nobody reads is not written.
bool flash_attend(const struct kernel_place *p, const struct call *c, const struct attention *a) {
    struct flash f = flash_of(a, false, p->record->group->joined > 0);
    zl_array y = call_first(c), state = call_output(c, 1);
    f.keeps = !array_is_forgotten(state);
    return launch(p, a, &f, 3, (const zl_array[]){a->q, a->k, a->v}, 2,
                  (const zl_array[]){y, f.keeps ? state : y});
}

bool flash_attend_vjp(const struct kernel_place *p, const struct call *c, const struct attention *a) {
    struct flash f = flash_of(a, true, p->record->group->joined > 0);
    return launch(p, a, &f, INPUTS, (const zl_array[INPUTS]){a->q, a->k, a->v, a->y, a->g, a->state}, 3,
                  (const zl_array[]){call_first(c), call_output(c, 1), call_output(c, 2)});
}
