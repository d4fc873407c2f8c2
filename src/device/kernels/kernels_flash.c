// kernels_flash.c - attention by matrix instructions, and its cotangents, for units that have them.
//
// Views are passed as they are if their rows are contiguous and begin at multiples of 16 bytes, which the
// kernels read at once. Other views are copied.

#include "device/kernels/kernels_flash.h"
#include "kernel/kernel.h"

enum { B, N, T, D }; // axes of q: batch, heads, queries, size of a head
enum {
    SIZE_MOST = 128,
    FEWEST_QUERIES = 16,
    BLOCK = 128,
    STEP = 64,
    STAGES = 2,
    INPUTS = 6,
    PACK = 8,
    VJP_THREADS = 256
};

// Kernels ---------------------------------------------------------------------------------------------------

// Chooses threads, blocks and keys per iteration, as measured on an H200: if four warps multiply together
// (`joined`), eight warps with 16 queries each are best; 128 keys per iteration pay if there are registers
// for them; two blocks of a multiprocessor multiply in turns. Otherwise four warps have 32 queries each.
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

int64_t flash_shared(const struct flash *f, const struct target *unit) {
    const int64_t item = 2, size = target_row_bytes(unit, f->size * item),
                  width = target_row_bytes(unit, f->width * item);
    int stages = target_stages(unit, STAGES);
    if (f->backward)
        return (BLOCK + stages * STEP) * (size + width) + stages * 2 * STEP * (int64_t)sizeof(float) +
               target_matrix_bytes(unit, VJP_THREADS);
    return BLOCK * size + stages * f->step * (size + width);
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
    int threads = backward ? VJP_THREADS : f.threads;
    return is_half && unit->multiplies && threads <= target_matrix_threads(unit) &&
           unit->multiplies(dtype, dtype, ZL_FLOAT32) && a->scale > 0 && !a->mask && !a->sinks &&
           size % 16 == 0 && width % 16 == 0 && size <= SIZE_MOST && width <= SIZE_MOST &&
           queries >= FEWEST_QUERIES && !(a->causal && queries > a->k->dim[T]) && most < KERNEL_NARROW / 2 &&
           flash_shared(&f, unit) <= unit->group->most_shared;
}

// Calls -----------------------------------------------------------------------------------------------------

// One launch while its arguments are collected, with copies of inputs, which are freed after it.
struct flash_call {
    struct kernel_work w;
    struct kernel_scratch copy[INPUTS];
    int copies;
};

static void begin(struct flash_call *l, const struct kernel_place *p, const struct attention *a) {
    const int64_t *q = a->q->dim, *k = a->k->dim;
    l->copies = 0;
    work_open(&l->w, p, "attention");
    WORK_SIZES(&l->w, q[B], q[N], k[N], q[T], k[T]);
}

static void add_copy(struct flash_call *l, zl_array x) {
    struct kernel_scratch *copy = &l->copy[l->copies++];
    *copy = (struct kernel_scratch){0};
    work_memory(&l->w, kernel_copy_out(l->w.place, x, copy));
}

static bool lies_in_packs(zl_array x) {
    bool lies = x->offset % PACK == 0 && array_stride(x)[D] == 1 && kernel_elements(x) < KERNEL_NARROW / 2;
    for (int i = 0; i < D; i++)
        lies = lies && array_stride(x)[i] >= 0 && (x->dim[i] == 1 || array_stride(x)[i] % PACK == 0);
    return lies;
}

// Appends strides, which are 0 along axes of size 1.
static void add_strides(struct flash_call *l, const int64_t *dim, const int64_t *stride) {
    for (int i = 0; i < D; i++)
        WORK_SIZES(&l->w, dim[i] == 1 ? 0 : stride[i]);
}

// Appends a view: its memory, and as sizes its offset in packs and its strides.
static void add_view(struct flash_call *l, zl_array x) {
    int64_t row_major[D + 1];
    bool lies = lies_in_packs(x);
    shape_row_major(x->ndim, x->dim, row_major);
    if (lies)
        work_place(&l->w, x);
    else
        add_copy(l, x);
    WORK_SIZES(&l->w, lies ? x->offset / PACK : 0);
    add_strides(l, x->dim, lies ? array_stride(x) : row_major);
}

static void add_result(struct flash_call *l, zl_array x) {
    work_place(&l->w, x);
    add_strides(l, x->dim, array_stride(x));
}

static void add_row_major(struct flash_call *l, zl_array x) {
    if (x->offset == 0 && shape_is_row_major(x->ndim, x->dim, array_stride(x)))
        work_place(&l->w, x);
    else
        add_copy(l, x);
}

static bool launch(struct flash_call *l, const struct flash *f) {
    bool done = work_run(&l->w, f, sizeof *f, flash_make);
    for (int i = 0; i < l->copies; i++)
        kernel_scratch_close(l->w.place, &l->copy[i]);
    return done;
}

// A state that is never read is not written.
bool flash_attend(const struct kernel_place *p, const struct call *c, const struct attention *a) {
    struct flash f = flash_of(a, false, p->record->group->joined > 0);
    struct flash_call l;
    zl_array y = call_first(c), state = call_output(c, 1);
    f.keeps = !array_is_forgotten(state);
    begin(&l, p, a);
    add_view(&l, a->q);
    add_view(&l, a->k);
    add_view(&l, a->v);
    add_result(&l, y);
    work_place(&l.w, f.keeps ? state : y);
    return launch(&l, &f);
}

bool flash_attend_vjp(const struct kernel_place *p, const struct call *c, const struct attention *a) {
    struct flash f = flash_of(a, true, p->record->group->joined > 0);
    struct flash_call l;
    begin(&l, p, a);
    add_view(&l, a->q);
    add_view(&l, a->k);
    add_view(&l, a->v);
    add_view(&l, a->y);
    add_view(&l, a->g);
    add_row_major(&l, a->state);
    for (int i = 0; i < 3; i++)
        add_result(&l, call_output(c, i));
    return launch(&l, &f);
}
