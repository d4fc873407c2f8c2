// kernels_program.c - programs of devices that run tile kernels: one step per call, with everything resolved
// that the plan's key fixes.

#include "device/kernels/kernels.h"
#include "op/ops.h"

#include <string.h>

// Ops that are not elementwise ------------------------------------------------------------------------------

static const struct {
    const struct op *op;
    kernel_question *can; // NULL: always
    kernel_function *run;
    uint64_t in_place;
} others[] = {
#define REDUCE(NAME, ...)                   {&op_reduce[REDUCE_##NAME], kernel_can_reduce, kernel_reduce, 0},
#define KERNEL_OP(op, can, run, in_place)   {&op_##op, can, run, in_place},
#define KERNEL_OP_OF_ALL(op, run, in_place) {&op_##op, NULL, run, in_place},
#include "op/reduce.def"
#include "device/kernels/kernels_ops.def"
};

bool kernels_have(const struct op *op) {
    bool has = op->kernel;
    for (size_t i = 0; i < COUNT(others); i++)
        has = has || others[i].op == op;
    return has;
}

// Building --------------------------------------------------------------------------------------------------

bool kernel_inputs_lie(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return true;
}

static bool set_other(struct kernel_step *s, const struct call *c) {
    if (op_is_collective(c->op)) // run by a library of the target
        s->in_place = c->op->in_place;
    if (c->op->kernel) {
        s->run = kernel_run_op;
        s->in_place = c->op->in_place;
    }
    for (size_t i = 0; i < COUNT(others); i++)
        if (others[i].op == c->op && (!others[i].can || others[i].can(c))) {
            s->run = others[i].run;
            s->in_place = others[i].in_place;
        }
    return s->run;
}

static bool set_step(struct kernel_step *s, const struct call *c) {
    *s = (struct kernel_step){.reduces = false};
    fuse_set_step(&s->is, c);
    if (step_is_other(s))
        return set_other(s, c);
    return c->op->kind != OP_ELEMENTWISE || tile_row_takes(c->op->row, (zl_dtype)s->is.dtype[c->inputs]);
}

// For a step that is not elementwise: prepares the kernels that it would launch, without arrays to run on,
// and returns whether the unit can run them.
static bool has_needs_of_others(const struct kernel_place *p, const struct kernel_step *s,
                                const struct call *c) {
    struct kernel_batch batch = {0};
    struct kernel_place place = *p;
    place.batch = &batch;
    bool found = s->run(&place, c);
    return kernel_batch_fits(&batch, p) && found;
}

static bool has_needs_of_row(const struct kernel_place *p, const struct kernel_step *s,
                             const struct call *c) {
    static const char *const forms[] = {"", "v", "vv", "vvv"};
    zl_dtype dtype = (zl_dtype)s->is.dtype[s->is.inputs];
    struct tile_kernel *kernel = c->op->kind == OP_ELEMENTWISE
                                     ? tile_row_kernel(c->op->row, dtype, forms[c->inputs])
                                     : tile_cast_kernel((zl_dtype)s->is.dtype[0], dtype);
    bool has = kernel && pass_run(kernel, p->record, NULL) && target_has_needs(p->record, kernel);
    tile_free(kernel);
    return has;
}

// Whether the unit has what the kernels of a call need.
static bool has_needs(const struct kernel_place *p, const struct kernel_step *s, const struct call *c) {
    bool had_error = zl_error();
    if (!p->record->lacks && !p->record->lacks_wide_atomics)
        return true;
    bool has = s->is.kind == FUSE_MAP ? has_needs_of_row(p, s, c) : has_needs_of_others(p, s, c);
    if (!had_error)
        zl_clear_error();
    return has;
}

bool kernels_can(const struct kernel_target *target, int unit, const struct call *c) {
    struct kernel_step s;
    bool knows = set_step(&s, c);
    if (step_is_other(&s) && target->takes && target->takes(unit, c))
        return true;
    if (!knows || s.is.kind == FUSE_VIEW)
        return knows;
    struct kernel_place place = {.target = target, .unit = unit, .record = target->record(unit)};
    return place.record && place.record->group->most_threads >= KERNEL_THREADS && has_needs(&place, &s, c);
}

// Marks the calls that a group with a reduction may begin with: a reduction follows within FUSE_CALLS calls,
// and no call that cannot be in a group comes before it.
static void find_reductions(struct program *p) {
    for (int i = p->steps.count - 1, ahead = FUSE_CALLS; i >= 0; i--) {
        enum fuse_kind kind = (enum fuse_kind)p->step[i].is.kind;
        ahead = kind == FUSE_REDUCE ? 0 : step_is_other(&p->step[i]) ? FUSE_CALLS : ahead + 1;
        p->step[i].reduces = p->fuses && ahead < FUSE_CALLS && kind != FUSE_VIEW;
    }
}

struct program *kernels_build(const struct kernel_target *target, int unit, const struct segment *s) {
    (void)unit;
    struct program *p = memory_zero(sizeof *p + sizeof p->step[0] * (size_t)s->calls);
    if (!p)
        return NULL;
    p->target = target;
    p->fuses = setting_flag(SETTING_FUSE) && zl_get_compile_mode() != ZL_COMPILE_NO_FUSE;
    p->steps = (struct fuse_steps){&p->step[0].is, sizeof p->step[0], s->calls};
    for (int i = 0; i < s->calls; i++)
        set_step(&p->step[i], s->call[i]);
    find_reductions(p);
    if (fuse_link_steps(&p->steps, s->call, s->needed))
        return p;
    memory_free(p);
    return NULL;
}

void kernels_drop(struct program *p) {
    memory_free(p);
}

// Running ---------------------------------------------------------------------------------------------------

// Returns whether a step launches nothing. A program's own kernel always runs, because its effect without a
// first result is unknown.
static bool is_nothing(const struct kernel_step *s, const struct call *c) {
    return s->is.kind == FUSE_VIEW || (call_first(c)->size == 0 && c->op != &op_cuda_kernel);
}

static bool run_step(const struct kernel_place *p, const struct kernel_step *s, const struct call *c) {
    enum kernel_taken taken = p->target->take ? p->target->take(p, c) : KERNEL_NOT_TAKEN;
    if (taken != KERNEL_NOT_TAKEN)
        return taken == KERNEL_DONE;
    return s->run ? s->run(p, c)
                  : error_false(ZL_ERROR_DEVICE, "%s: no library takes %s", c->op->name,
                                array_text(call_first(c)));
}

static bool compute(const struct kernel_place *p, const struct kernel_step *s, const struct call *c) {
    struct kernel_numbers numbers;
    struct kernel_place place = *p;
    if (is_nothing(s, c))
        return true;
    numbers.count = 0;
    place.numbers = &numbers;
    bool done = run_step(&place, s, c);
    kernel_numbers_close(&place);
    return done;
}

static void run_one(const struct kernel_place *p, const struct kernel_step *s, struct binding *b, int index) {
    if (b->prepare(b, index, s->in_place) && compute(p, s, b->call[index]))
        b->finish(b, index);
    else
        b->fail(b, index);
}

// Prepares the kernels of one step, unless a library of the target runs it.
static void look_for_one(const struct kernel_place *p, const struct kernel_step *s, const struct call *c) {
    if (is_nothing(s, c) || !s->run || (p->target->takes && p->target->takes(p->unit, c)))
        return;
    s->run(p, c);
}

static void run_all(const struct kernel_place *p, struct program *program, struct binding *b) {
    for (int i = 0; i < b->calls;) {
        const struct kernel_step *s = &program->step[i];
        int done = s->reduces ? kernel_run_lines(p, program, b, i) : 0;
        if (!done && s->reduces)
            done = kernel_run_columns(p, program, b, i);
        if (!done && s->is.kind == FUSE_MAP)
            done = kernel_run_maps(p, program, b, i);
        if (!done && step_is_other(s) && p->target->fuse)
            done = p->batch ? p->target->count(program, b->call, i) : p->target->fuse(p, program, b, i);
        if (!done && p->batch)
            look_for_one(p, s, b->call[i]);
        else if (!done)
            run_one(p, s, b, i);
        i += MAX_OF(done, 1);
    }
}

// Prepares a program before its first run: goes through it without launching anything, and compiles all
// missing kernels together.
static void look_ahead(const struct kernel_place *p, struct program *program, struct binding *b) {
    bool had_error = zl_error();
    struct kernel_batch batch = {0};
    struct kernel_place place = *p;
    place.batch = &batch;
    run_all(&place, program, b);
    kernel_batch_compile(&batch, p);
    if (!had_error)
        zl_clear_error(); // an error recurs where the step runs
}

void kernels_run(int unit, struct program *p, struct binding *b) {
    struct kernel_place place = {
        .target = p->target, .unit = unit, .lane = b->lane, .record = p->target->record(unit)};
    for (int i = 0; !place.record && i < b->calls; i++)
        b->fail(b, i);
    if (!place.record)
        return;
    if (b->calls > 1 && !atomic_exchange_explicit(&p->ran, true, memory_order_relaxed))
        look_ahead(&place, p, b);
    run_all(&place, p, b);
}

int kernels_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why) {
    (void)unit;
    int lines = p->step[index].reduces ? kernel_count_lines(p, s->call, index) : 0;
    if (lines)
        return lines;
    int columns = p->step[index].reduces ? kernel_count_columns(p, s->call, index) : 0;
    if (columns)
        return columns;
    int fused = step_is_other(&p->step[index]) && p->target->count ? p->target->count(p, s->call, index) : 0;
    if (fused)
        return fused;
    return p->step[index].is.kind == FUSE_MAP ? kernel_count_maps(p, s->call, index, why) : 1;
}
