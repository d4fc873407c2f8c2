// program.c - programs of the CPU: one step per call, prepared from everything that the plan's key
// determines.
//
// Sizes, strides and scalars are read at each run. If all operands are contiguous and small, a step is one
// call of a row kernel, chosen without looking at shapes.

#include "device/cpu/rows/operands.h"
#include "op/ops.h"

#include <string.h>

enum { HEAVY = 8 }; // weight of rows whose computation costs more than moving their data

// Elementwise -----------------------------------------------------------------------------------------------

struct operands {
    POINTERS(p, 4);       // output, then inputs
    union scalar room[3]; // values of inline scalars
    unsigned scalar;      // bit k: input k is one element
    bool flat;            // all other inputs are contiguous and as large as the output
};

static inline char *data_of(zl_array a, size_t item) {
    return (char *)a->storage->data + a->offset * (int64_t)item;
}

void cpu_write_scalar(const struct step *s, zl_array x, int input, void *room) {
    zl_dtype dtype = (zl_dtype)s->is.dtype[input + 1];
    if (LIKELY(!s->inverts || input != 1)) {
        scalar_write(x, dtype, room);
        return;
    }
    double reciprocal = 1 / scalar_as(x, dtype).f;
    dtype_convert(room, dtype, &reciprocal, ZL_FLOAT64, 1);
}

enum tile_op cpu_row_of(const struct call *c) {
    return op_scales(c) ? TILE_MUL : c->op->row;
}

// Returns the address of one input, and sets its bit in the flags of o (scalar or not).
static inline char *reach_input(const struct step *s, const struct call *c, zl_array out, struct operands *o,
                                int k) {
    zl_array x = c->in[k];
    if (array_is(x, ARRAY_INLINE)) {
        cpu_write_scalar(s, x, k, &o->room[k]);
        o->scalar |= 1u << k;
        return (char *)&o->room[k];
    }
    if (x->size == out->size)
        o->flat &= array_is(x, ARRAY_CONTIGUOUS);
    else if (x->size == 1)
        o->scalar |= 1u << k;
    else
        o->flat = false;
    return data_of(x, s->item[k + 1]);
}

static inline void reach_operands(const struct step *s, const struct call *c, zl_array out,
                                  struct operands *o) {
    o->scalar = 0;
    o->flat = true;
    char *a = reach_input(s, c, out, o, 0);
    char *b = s->is.inputs > 1 ? reach_input(s, c, out, o, 1) : NULL;
    char *d = s->is.inputs > 2 ? reach_input(s, c, out, o, 2) : NULL;
    o->p[0] = data_of(out, s->item[0]);
    o->p[1] = a;
    o->p[2] = b;
    o->p[3] = d;
}

static row_fn *form_of(const struct step *s, unsigned scalar) {
    return scalar & ~(unsigned)s->scalars ? NULL : s->forms[scalar];
}

struct row_call {
    row_fn *fn;
    int64_t run; // elements per run; 0: the whole tile
};

static void run_body(const void *context, char *const *p, int64_t n, int64_t more) {
    const struct row_call *row = context;
    row->fn(p, n, row->run ? row->run : n + more);
}

static void lay_out(struct layout *l, const struct step *s, const struct call *c, zl_array out,
                    const struct operands *o) {
    cpu_layout_start(l, out->ndim, out->dim, 1);
    cpu_layout_add(l, o->p[0], s->item[0], out->ndim, out->dim, array_stride(out));
    for (int k = 0; k < s->is.inputs; k++) {
        zl_array x = c->in[k];
        cpu_layout_add(l, o->p[k + 1], s->item[k + 1], x->ndim, x->dim, array_stride(x));
    }
}

static bool run_layout(const struct step *s, const struct call *c, zl_array out, const struct operands *o) {
    struct layout l;
    lay_out(&l, s, c, out, o);
    cpu_layout_plan(&l, 0, 0);
    if (l.runs && l.scalar != l.runs)
        cpu_layout_plan(&l, l.runs, 0); // all runs of a row kernel need the same scalar operands
    struct row_call row = {form_of(s, l.scalar >> 1), l.run};
    if (!row.fn) {
        cpu_layout_plan(&l, ~0u, 0);
        row = (struct row_call){s->forms[0], 0};
    }
    cpu_layout_run(&l, s->weight, run_body, &row);
    return true;
}

static bool run_row(const struct step *s, const struct call *c) {
    zl_array out = call_first(c);
    if (UNLIKELY(out->size == 0))
        return true;
    struct operands o;
    reach_operands(s, c, out, &o);
    row_fn *row = form_of(s, o.scalar);
    if (LIKELY(o.flat && row && out->size * s->cost < CPU_SPLIT)) {
        row(o.p, out->size, out->size);
        return true;
    }
    return run_layout(s, c, out, &o);
}

static bool run_copy(const struct step *s, const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    if (out->size == 0)
        return true;
    const char *from = array_data(x, &room);
    char *to = data_of(out, s->item[0]);
    if (to == from)
        return true; // the output took over the input's memory, which was row-major already
    counter_add(COUNTER_COPIES, 1);
    cpu_copy(s->item[0], out->ndim, out->dim, to, array_stride(out), from, array_stride(x));
    return true;
}

// Other ops -------------------------------------------------------------------------------------------------

static const struct {
    const struct op *op;
    cpu_function *run;
    uint64_t in_place;
} overrides[] = {
#define CPU_OP(op, function, in_place) {&op_##op, function, in_place},
#include "device/cpu/cpu_ops.def"
};

// An op with several outputs, such as a kernel from source, runs even if its first output is empty.
static bool run_other(const struct step *s, const struct call *c) {
    return (call_output(c, 0)->size == 0 && c->op != &op_cpu_kernel) || s->other(c);
}

// Runs for empty arrays too: other ranks of the group may have data.
static bool run_collective(const struct step *s, const struct call *c) {
    (void)s;
    return cpu_collective(c);
}

static bool set_collective(struct step *s, const struct op *op) {
    s->run = run_collective;
    s->in_place = op->in_place;
    return true;
}

// Sets the function that runs an op without row kernels: its override, or its tile kernel. Returns false if
// it has neither.
static bool set_override(struct step *s, const struct op *op) {
    s->run = run_other;
    s->other = op->kernel ? cpu_op_tiles : NULL;
    for (size_t i = 0; i < COUNT(overrides); i++)
        if (overrides[i].op == op) {
            s->other = overrides[i].run;
            s->in_place = overrides[i].in_place;
        }
    return s->other != NULL;
}

// Building --------------------------------------------------------------------------------------------------

static const uint8_t weights[] = {
#define BASE                                              1
#define WEIGH(NAME, lower) [TILE_##NAME] = sizeof(#lower) == sizeof("BASE") ? 1 : HEAVY,
#define UNARY(NAME, fn, doc, rule, tangent, lower, ...)   WEIGH(NAME, lower)
#define BINARY(NAME, fn, doc, rule, tangent, lower, ...)  WEIGH(NAME, lower)
#define TERNARY(NAME, fn, doc, rule, tangent, lower, ...) WEIGH(NAME, lower)
#include "op/elementwise.def"
#undef BASE
};

static void set_operands(struct step *s, int weight) {
    for (int k = 0; k <= s->is.inputs; k++) {
        s->item[k] = (uint8_t)zl_dtype_size((zl_dtype)s->is.dtype[k]);
        s->cost = (uint16_t)(s->cost + weight * s->item[k]);
    }
    s->weight = (uint8_t)weight;
    s->run = run_row;
    s->in_place = UINT64_MAX;
}

static bool set_elementwise(struct step *s, const struct call *c) {
    enum tile_op row = cpu_row_of(c);
    set_operands(s, weights[row]);
    s->forms = cpu_level()->rows->op[row][s->is.dtype[s->is.inputs]];
    s->inverts = row != c->op->row;
    s->scalars = 7;
    return s->forms[0] != NULL;
}

static bool set_cast(struct step *s) {
    set_operands(s, 1);
    s->forms = &cpu_level()->rows->cast[s->is.dtype[0]][s->is.dtype[1]];
    return s->forms[0] != NULL;
}

static bool set_reduce(struct step *s) {
    set_operands(s, 1);
    s->run = run_other;
    s->other = cpu_reduce;
    s->in_place = 0;
    return true;
}

// Sets up the step of a call. Returns false if there is no kernel for it.
static bool set_step(struct step *s, const struct call *c) {
    *s = (struct step){.run = NULL};
    fuse_set_step(&s->is, c);
    switch (c->op->kind) {
    case OP_VIEW: return true;
    case OP_REDUCE: return set_reduce(s);
    case OP_ELEMENTWISE: return set_elementwise(s, c);
    case OP_CAST: return set_cast(s);
    case OP_COPY:
        s->is.kind = FUSE_OTHER; // a copy only moves data, in blocks if that is faster
        s->run = run_copy;
        s->item[0] = (uint8_t)array_item(call_output(c, 0));
        s->in_place = UINT64_MAX;
        return true;
    default: return op_is_collective(c->op) ? set_collective(s, c->op) : set_override(s, c->op);
    }
}

bool cpu_can(int unit, const struct call *c) {
    struct step s;
    (void)unit;
    return set_step(&s, c);
}

static bool set_steps(struct program *p, const struct segment *s) {
    for (int i = 0; i < s->calls; i++) {
        const struct call *c = s->call[i];
        if (!set_step(&p->step[i], c))
            return error_false(
                ZL_ERROR_DEVICE, "the cpu device has no kernel for %s of %s%s", c->op->name,
                zl_dtype_name((zl_dtype)(c->inputs ? c->in[c->inputs - 1] : call_output(c, 0))->dtype),
                c->op == &op_cuda_kernel ? ": it is CUDA C++, which runs on a stream of the device cuda"
                                         : "");
    }
    bool fuses = setting_flag(SETTING_FUSE) && zl_get_compile_mode() != ZL_COMPILE_NO_FUSE;
    return !fuses || cpu_group_steps(p, s);
}

struct program *cpu_build(int unit, const struct segment *s) {
    (void)unit;
    struct program *p = memory_alloc(sizeof *p + sizeof p->step[0] * (size_t)s->calls);
    if (!p)
        return NULL;
    p->steps = (struct fuse_steps){&p->step[0].is, sizeof p->step[0], s->calls};
    if (set_steps(p, s))
        return p;
    memory_free(p);
    return NULL;
}

void cpu_drop(struct program *p) {
    memory_free(p);
}

// Running ---------------------------------------------------------------------------------------------------

static inline void run_step(const struct step *s, struct binding *b, int index) {
    if (b->prepare(b, index, s->in_place) && (!s->run || s->run(s, b->call[index])))
        b->finish(b, index);
    else
        b->fail(b, index);
}

void cpu_run(int unit, struct program *p, struct binding *b) {
    (void)unit;
    for (int i = 0; i < b->calls;) {
        const struct step *s = &p->step[i];
        int done = s->begins ? cpu_run_group(p, b, i) : 0;
        if (!done)
            run_step(s, b, i);
        i += done ? done : 1;
    }
}
