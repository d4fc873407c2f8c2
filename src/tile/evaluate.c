// evaluate.c - computes expressions on the host.
//
// Expressions are first lowered to base ops, in a scratch kernel. Their nodes then become a tape: an array in
// which the operands of a node come before it. Running the tape is one pass over that array.

#include "tile/tile.h"

struct step {
    expr node;       // in the scratch kernel
    expr leaf;       // of a name or load: the node in the caller's expression; else NULL
    enum tile_op op; // copied from the node, like the fields below: steps run often
    int args, indices;
    struct tile_type type, from; // of the result, of the last operand
    int arg[3];                  // slots
    int index[TILE_DIMS];
    int name;  // of a name, its id; else -1
    int given; // after tile_tape_bind: position of a leaf's value among those given to tile_tape_sizes
};

struct tile_tape {
    struct tile_kernel *scratch;
    int steps, cap, roots;
    struct step *step;       // by slot
    union tile_value *value; // by slot
    bool *wrapped;           // by slot: the value is not what exact arithmetic gives
    int *root;               // slots
    int *running, runs;      // slots of all nodes but constants, in order
    struct quick *quick;     // after tile_tape_bind, by slot; NULL: other ops, or too many steps
};

// Lowering --------------------------------------------------------------------------------------------------

struct lowering {
    struct map done;   // expression -> its lowered form
    struct map origin; // leaf or load of the scratch kernel -> that of the caller
};

static bool is_outside(expr e) {
    return e->op == TILE_LOAD || (tile_op_is_leaf(e->op) && e->op != TILE_CONST);
}

static expr simpler(expr e, const expr *operand) {
    if (!tile_op_is_row(e->op))
        return NULL;
    expr a = operand[0], b = e->args > 1 ? operand[1] : NULL, c = e->args > 2 ? operand[2] : NULL;
    expr result = tile_lower(e->op, a, b, c);
    return result ? result : tile_lower_complex(e->op, a, b);
}

static bool remember(struct lowering *l, expr e, expr lowered) {
    bool is_new = is_outside(e) && !map_get(&l->origin, &lowered, sizeof lowered);
    return map_set(&l->done, &e, sizeof e, (void *)lowered) &&
           (!is_new || map_set(&l->origin, &lowered, sizeof lowered, (void *)e));
}

static expr lower(struct lowering *l, expr e) {
    expr done = map_get(&l->done, &e, sizeof e);
    if (done)
        return done;
    expr operand[3 + TILE_DIMS] = {NULL};
    for (int i = 0; i < tile_operands(e); i++)
        if (!(operand[i] = lower(l, tile_operand(e, i))))
            return NULL;
    expr result = simpler(e, operand);
    result = result ? lower(l, result) : tile_rebuild(e, operand);
    return result && remember(l, e, result) ? result : NULL;
}

// Making tapes ----------------------------------------------------------------------------------------------

// Appends e and its operands to the tape and returns the slot of e; -1 after an error. slot_of[id] is 1 + the
// slot of a node of the scratch kernel; 0: it has none yet.
static int place(struct tile_tape *tape, struct lowering *l, int *slot_of, expr e) {
    if (slot_of[e->id])
        return slot_of[e->id] - 1;
    if (e->type.lanes != 1) {
        error_set(ZL_ERROR_DTYPE, "tile: %s cannot be computed here: one lane at a time",
                  tile_type_name(e->type));
        return -1;
    }
    struct step step = {
        .node = e, .op = e->op, .args = e->args, .indices = e->indices, .type = e->type, .name = -1};
    if (e->args)
        step.from = e->arg[e->args - 1]->type;
    if (is_outside(e))
        step.leaf = map_get(&l->origin, &e, sizeof e);
    if (step.leaf && e->op != TILE_LOAD)
        step.name = step.leaf->name->id;
    for (int i = 0; i < e->args; i++)
        if ((step.arg[i] = place(tape, l, slot_of, e->arg[i])) < 0)
            return -1;
    for (int i = 0; i < e->indices; i++)
        if ((step.index[i] = place(tape, l, slot_of, e->index[i])) < 0)
            return -1;
    if (!memory_grow(&tape->step, &tape->cap, tape->steps + 1, sizeof *tape->step))
        return -1;
    tape->step[tape->steps] = step;
    slot_of[e->id] = ++tape->steps;
    return tape->steps - 1;
}

static bool place_roots(struct tile_tape *tape, struct lowering *l, const expr *root) {
    int *slot_of = memory_zero((size_t)(tape->scratch->ids + 1) * sizeof *slot_of);
    bool good = slot_of;
    for (int i = 0; i < tape->roots && good; i++) {
        expr lowered = map_get(&l->done, &root[i], sizeof root[i]);
        good = (tape->root[i] = place(tape, l, slot_of, lowered)) >= 0;
    }
    memory_free(slot_of);
    return good;
}

static bool lower_roots(struct tile_tape *tape, struct lowering *l, const expr *root) {
    bool good = true;
    tile_begin("tape");
    for (int i = 0; i < tape->roots; i++)
        good = good && root[i] && lower(l, root[i]);
    tape->scratch = tile_end();
    return good && tape->scratch;
}

// Allocates the values, and sets those of constants.
static bool make_values(struct tile_tape *tape) {
    tape->value = memory_zero((size_t)(tape->steps + 1) * sizeof *tape->value);
    tape->wrapped = memory_zero((size_t)(tape->steps + 1) * sizeof *tape->wrapped);
    tape->running = memory_zero((size_t)(tape->steps + 1) * sizeof *tape->running);
    if (!tape->value || !tape->wrapped || !tape->running)
        return false;
    for (int i = 0; i < tape->steps; i++)
        if (tape->step[i].op == TILE_CONST)
            tape->value[i] = tile_value_of(tape->step[i].type, tape->step[i].node->bits);
        else
            tape->running[tape->runs++] = i;
    return true;
}

static bool make(struct tile_tape *tape, const expr *root) {
    struct lowering l = {0};
    tape->root = memory_zero((size_t)(tape->roots + 1) * sizeof *tape->root);
    bool good = tape->root && lower_roots(tape, &l, root) && place_roots(tape, &l, root);
    map_free(&l.done);
    map_free(&l.origin);
    return good && make_values(tape);
}

struct tile_tape *tile_tape(int roots, const expr *root) {
    struct tile_tape *tape = memory_zero(sizeof *tape);
    if (!tape)
        return NULL;
    tape->roots = roots;
    if (make(tape, root))
        return tape;
    tile_tape_free(tape);
    return NULL;
}

void tile_tape_free(struct tile_tape *tape) {
    if (!tape)
        return;
    tile_free(tape->scratch);
    memory_free(tape->step);
    memory_free(tape->value);
    memory_free(tape->wrapped);
    memory_free(tape->root);
    memory_free(tape->running);
    memory_free(tape->quick);
    memory_free(tape);
}

// Running tapes ---------------------------------------------------------------------------------------------

static union tile_value run_leaf(const struct tile_tape *tape, const struct step *s, tile_leaf *leaf,
                                 void *data) {
    if (s->args && !tape->value[s->arg[0]].b)
        return tape->value[s->arg[1]]; // masked
    int64_t index[TILE_DIMS];
    for (int i = 0; i < s->indices; i++)
        index[i] = tape->value[s->index[i]].i;
    return leaf(data, s->leaf, index);
}

static union tile_value run_step(const struct step *s, const union tile_value *value) {
    const union tile_value arg[3] = {value[s->arg[0]], value[s->arg[1]], value[s->arg[2]]};
    return tile_apply(s->op, s->type, s->from, arg);
}

void tile_tape_run(struct tile_tape *tape, const union tile_value *name, tile_leaf *leaf, void *data,
                   union tile_value *out) {
    for (int k = 0; k < tape->runs; k++) {
        int i = tape->running[k];
        const struct step *s = &tape->step[i];
        if (!s->leaf)
            tape->value[i] = run_step(s, tape->value);
        else
            tape->value[i] = name && s->name >= 0 ? name[s->name] : run_leaf(tape, s, leaf, data);
    }
    for (int i = 0; i < tape->roots; i++)
        out[i] = tape->value[tape->root[i]];
}

// Set *exact to the result of an op on integers of 64 bits. Return true if the result does not fit.
static bool leaves_signed(enum tile_op op, int64_t a, int64_t b, int64_t *exact) {
    switch (op) {
    case TILE_ADD: return __builtin_add_overflow(a, b, exact);
    case TILE_SUB: return __builtin_sub_overflow(a, b, exact);
    case TILE_NEG: return __builtin_sub_overflow((int64_t)0, a, exact);
    case TILE_SHL: return b < 0 || b > 62 || __builtin_mul_overflow(a, INT64_C(1) << b, exact);
    default: return __builtin_mul_overflow(a, b, exact);
    }
}

static bool leaves_unsigned(enum tile_op op, uint64_t a, uint64_t b, uint64_t *exact) {
    switch (op) {
    case TILE_ADD: return __builtin_add_overflow(a, b, exact);
    case TILE_SUB: return __builtin_sub_overflow(a, b, exact);
    case TILE_NEG: return __builtin_sub_overflow((uint64_t)0, a, exact);
    case TILE_SHL: return b > 63 || __builtin_mul_overflow(a, UINT64_C(1) << b, exact);
    default: return __builtin_mul_overflow(a, b, exact);
    }
}

// Returns whether the result of an op on integers differs from that of exact arithmetic.
static bool wraps(const struct step *s, const union tile_value *arg, union tile_value result) {
    enum tile_op op = s->node->op;
    bool is_signed = s->node->type.kind == TILE_INT;
    union tile_value exact = {.u = 0}, second = s->node->args > 1 ? arg[1] : (union tile_value){.u = 0};
    if (!s->node->args || !tile_type_is_integer(s->node->type) ||
        !tile_type_is_integer(s->node->arg[0]->type))
        return false;
    if (op == TILE_CAST)
        return result.u != arg[0].u ||
               (is_signed != (s->node->arg[0]->type.kind == TILE_INT) && arg[0].i < 0);
    if (op != TILE_ADD && op != TILE_SUB && op != TILE_MUL && op != TILE_NEG && op != TILE_SHL)
        return false;
    return (is_signed ? leaves_signed(op, arg[0].i, second.i, &exact.i)
                      : leaves_unsigned(op, arg[0].u, second.u, &exact.u)) ||
           exact.u != result.u;
}

// Returns whether the value of a step differs from that of exact arithmetic, because of its own op or of an
// operand. An operand that a select does not choose is ignored.
static bool is_wrapped(const struct step *s, const union tile_value *value, const bool *wrapped_before,
                       union tile_value result) {
    union tile_value arg[3];
    bool chooses = s->node->op == TILE_SELECT || s->node->op == TILE_RARE, wrapped = false;
    for (int i = 0; i < s->node->args; i++) {
        arg[i] = value[s->arg[i]];
        bool is_taken = !chooses || i == 0 || arg[0].b == (i == 1);
        wrapped |= is_taken && wrapped_before[s->arg[i]];
    }
    for (int i = 0; i < s->node->indices; i++)
        wrapped |= wrapped_before[s->index[i]];
    return wrapped || (!chooses && wraps(s, arg, result));
}

bool tile_tape_run_exactly(struct tile_tape *tape, tile_leaf *leaf, void *data, union tile_value *out,
                           int *which) {
    tile_tape_run(tape, NULL, leaf, data, out);
    for (int i = 0; i < tape->steps; i++)
        tape->wrapped[i] = is_wrapped(&tape->step[i], tape->value, tape->wrapped, tape->value[i]);
    for (int i = 0; i < tape->roots; i++)
        if (tape->wrapped[tape->root[i]]) {
            *which = i;
            return false;
        }
    return true;
}

// Sizes -----------------------------------------------------------------------------------------------------

// A step of the few ops that sizes usually consist of, on signed integers. Every launch computes sizes, so
// these run faster than other steps.
struct quick {
    uint8_t op; // TILE_CONST, TILE_SYMBOL, ...
    uint8_t a, b;
    // of a constant, the number; of a leaf, its position in given[]; else the largest number of the type
    int64_t value;
};

enum { QUICK = 128 }; // most steps; a and b are bytes

static bool is_quick(const struct step *s) {
    expr e = s->node;
    if (s->leaf || e->op == TILE_CONST)
        return true;
    return e->type.kind == TILE_INT && e->args && e->arg[0]->type.kind == TILE_INT &&
           (e->op == TILE_ADD || e->op == TILE_SUB || e->op == TILE_MUL || e->op == TILE_FLOORDIV ||
            e->op == TILE_SHR || e->op == TILE_MAX || e->op == TILE_CAST);
}

static struct quick quick_of(const struct tile_tape *tape, int i) {
    const struct step *s = &tape->step[i];
    if (s->leaf)
        return (struct quick){.op = TILE_SYMBOL, .value = s->given};
    if (s->node->op == TILE_CONST)
        return (struct quick){.op = TILE_CONST, .value = tape->value[i].i};
    return (struct quick){(uint8_t)s->node->op, (uint8_t)s->arg[0],
                          (uint8_t)(s->node->args > 1 ? s->arg[1] : 0),
                          INT64_MAX >> (64 - s->node->type.bits)};
}

static bool make_quick(struct tile_tape *tape) {
    for (int i = 0; i < tape->steps; i++)
        if (tape->steps > QUICK || !is_quick(&tape->step[i]))
            return true;
    if (!(tape->quick = memory_zero((size_t)(tape->steps + 1) * sizeof *tape->quick)))
        return false;
    for (int i = 0; i < tape->steps; i++)
        tape->quick[i] = quick_of(tape, i);
    return true;
}

// Returns the position of a leaf's value among those given to tile_tape_sizes: symbols first, then
// parameters. Returns -1 if the leaf is neither a symbol nor a scalar parameter.
static int find_given(const struct tile_kernel *kernel, expr leaf) {
    for (int i = 0; leaf->op == TILE_SYMBOL && i < kernel->symbols; i++)
        if (kernel->symbol[i] == leaf->name)
            return i;
    for (int i = 0; leaf->op == TILE_SCALAR && i < kernel->parameters; i++)
        if (kernel->parameter[i].is_scalar && kernel->parameter[i].scalar == leaf->name)
            return kernel->symbols + i;
    return -1;
}

bool tile_tape_bind(struct tile_tape *tape, const struct tile_kernel *kernel) {
    for (int i = 0; i < tape->steps; i++) {
        struct step *s = &tape->step[i];
        if (s->leaf && (s->given = find_given(kernel, s->leaf)) < 0)
            return error_false(ZL_ERROR_VALUE,
                               "kernel %s: a size does not follow from those of arguments alone",
                               kernel->name);
    }
    return make_quick(tape);
}

// Runs a tape of quick steps. Returns false if a value does not fit its type, or if operands of a shift or a
// division are such that C's operator may give another result.
static bool run_quickly(const struct tile_tape *tape, const int64_t *given, int64_t *value) {
    for (int i = 0; i < tape->steps; i++) {
        const struct quick *q = &tape->quick[i];
        int64_t a = value[q->a], b = value[q->b];
        bool good = true;
        switch (q->op) {
        case TILE_CONST: value[i] = q->value; continue;
        case TILE_SYMBOL: value[i] = given[q->value]; continue;
        case TILE_ADD: good = !__builtin_add_overflow(a, b, &value[i]); break;
        case TILE_SUB: good = !__builtin_sub_overflow(a, b, &value[i]); break;
        case TILE_MUL: good = !__builtin_mul_overflow(a, b, &value[i]); break;
        case TILE_MAX: value[i] = MAX_OF(a, b); break;
        case TILE_CAST: value[i] = a; break;
        case TILE_SHR:
            good = a >= 0 && b >= 0 && b < 31;
            value[i] = good ? a >> b : 0;
            break;
        default: good = a >= 0 && b > 0; value[i] = good ? a / b : 0;
        }
        if (UNLIKELY(!good || value[i] < -q->value - 1 || value[i] > q->value))
            return false;
    }
    return true;
}

// Runs any tape of sizes. `value` and `wrapped` have room for one element per step. Returns false if a size
// is negative or not what exact arithmetic gives.
static bool run_slowly(const struct tile_tape *tape, const int64_t *given, union tile_value *value,
                       bool *wrapped, int64_t *out) {
    bool is_good = true;
    for (int i = 0; i < tape->steps; i++) {
        const struct step *s = &tape->step[i];
        value[i] = s->leaf               ? (union tile_value){.i = given[s->given]}
                   : s->op == TILE_CONST ? tape->value[i]
                                         : run_step(s, value);
        wrapped[i] = !s->leaf && is_wrapped(s, value, wrapped, value[i]);
    }
    for (int i = 0; i < tape->roots; i++) {
        out[i] = value[tape->root[i]].i;
        is_good &= !wrapped[tape->root[i]] && out[i] >= 0;
    }
    return is_good;
}

bool tile_tape_sizes(const struct tile_tape *tape, const int64_t *given, int64_t *out) {
    int64_t quick[QUICK];
    bool is_good = true;
    quick[0] = 0; // constants and symbols have a = b = 0: the value is read but not used
    if (LIKELY(tape->quick && run_quickly(tape, given, quick))) {
        for (int i = 0; i < tape->roots; i++) {
            out[i] = quick[tape->root[i]];
            is_good &= out[i] >= 0;
        }
        return is_good;
    }
    union tile_value *value = memory_zero((size_t)(tape->steps + 1) * (sizeof *value + sizeof(bool)));
    bool good = value && run_slowly(tape, given, value, (bool *)(value + tape->steps), out);
    memory_free(value);
    return good;
}

static union tile_value leaf_by_id(void *data, expr e, const int64_t *index) {
    const union tile_value *leaf = data;
    (void)index;
    return leaf ? leaf[e->id] : (union tile_value){.u = 0};
}

union tile_value tile_evaluate(expr e, const union tile_value *leaf) {
    union tile_value out = {.u = 0};
    struct tile_tape *tape = tile_tape(1, &e);
    if (tape)
        tile_tape_run(tape, NULL, leaf_by_id, (void *)leaf, &out);
    tile_tape_free(tape);
    return out;
}
