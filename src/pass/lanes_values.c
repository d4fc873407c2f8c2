// lanes_values.c - maps as commands: every op of a formula is one, or a few, on all points at once.
//
// A truth value is a byte, 0 or 1. Indices are kept in 32 bits. Where the chip's own op differs in a corner from the IR's, it is said
// at the op; doc/bm1690.md lists what that leaves.

#include "pass/lanes.h"

enum { MOST_VALUES = 512 };

static const struct tile_type i32 = {TILE_INT, 32, 1}, u8 = {TILE_UINT, 8, 1};

// A map that is being made.
struct work {
    struct lanes *l;
    const struct lane_points *p;
    int values; // of the statement, computed so far
    expr node[MOST_VALUES];
    struct lane_operand value[MOST_VALUES];
    struct lane_operand variable[LANE_VARIABLES]; // of the names that each point has
    struct lane_operand *mask;                    // of the branch that statements are in; NULL: none
};

static bool evaluate(struct work *w, expr e, const struct lane_operand *wanted, struct lane_operand *out);

// Commands of one form -----------------------------------------------------------------------------------------------------

static void unary(const struct lane_points *p, const char *function, const struct lane_operand *to,
                  const struct lane_operand *x, int mode) {
    struct lane_call c = {0};
    lanes_add(&c, to->address);
    lanes_add(&c, x->address);
    lanes_add_four(&c, p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, x->stride);
    lanes_add_dtype(&c, to->type);
    if (mode >= 0)
        lanes_add(&c, lanes_code(mode));
    lanes_call(&c, function);
}

// Arguments of an op of two operands, of which the second, or the first where it is reversed, may be a scalar.
static struct lane_call operands(const struct lane_points *p, const struct lane_operand *to,
                                 const struct lane_operand *a, const struct lane_operand *b, expr truth) {
    struct lane_call c = {0};
    lanes_add(&c, to->address);
    lanes_add(&c, a->address);
    lanes_add(&c, b->scalar ? lanes_scalar(a->type, b->scalar) : b->address);
    if (truth)
        lanes_add(&c, truth);
    lanes_add_four(&c, p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, a->stride);
    if (!b->scalar)
        lanes_add_four(&c, b->stride);
    return c;
}

struct words {
    const char *tiles, *with_scalar, *scalar_first; // scalar_first: NULL where the order does not matter
};

static struct words float_words(enum tile_op op) {
    switch (op) {
    case TILE_ADD: return (struct words){"tpu_bdc_fp_add", "tpu_bdc_fp_add_C", NULL};
    case TILE_SUB: return (struct words){"tpu_bdc_fp_sub", "tpu_bdc_fp_sub_C", "tpu_bdc_fp_C_sub"};
    case TILE_MUL: return (struct words){"tpu_bdc_fp_mul", "tpu_bdc_fp_mul_C", NULL};
    case TILE_DIV: return (struct words){"tpu_bdc_fp_div", "tpu_bdc_fp_div_C", "tpu_bdc_fp_C_div"};
    default: return (struct words){0};
    }
}

static struct words integer_words(enum tile_op op) {
    switch (op) {
    case TILE_ADD: return (struct words){"tpu_bdc_int_add", "tpu_bdc_int_add_C", NULL};
    case TILE_SUB: return (struct words){"tpu_bdc_int_sub", "tpu_bdc_int_sub_C", "tpu_bdc_int_C_sub"};
    case TILE_MUL: return (struct words){"tpu_bdc_int_mul", "tpu_bdc_int_mul_C", NULL};
    default: return (struct words){0};
    }
}

static struct words other_words(enum tile_op op) {
    switch (op) {
    case TILE_MAX: return (struct words){"tpu_bdc_max", "tpu_bdc_max_C", NULL};
    case TILE_MIN: return (struct words){"tpu_bdc_min", "tpu_bdc_min_C", NULL};
    case TILE_AND: return (struct words){"tpu_bdc_and", "tpu_bdc_and_C", NULL};
    case TILE_OR: return (struct words){"tpu_bdc_or", "tpu_bdc_or_C", NULL};
    case TILE_XOR: return (struct words){"tpu_bdc_xor", "tpu_bdc_xor_C", NULL};
    default: return (struct words){0};
    }
}

// An operand that is in the lanes: a number becomes a tile.
static bool as_tile(struct lanes *l, const struct lane_points *p, struct lane_operand *o,
                    struct tile_type type) {
    expr value = o->scalar;
    static const bool none[LANE_DIMS] = {false, true, false, false};
    struct lane_points one = *p;
    if (!value)
        return true;
    for (int d = 0; d < LANE_DIMS; d++)
        if (d != LANE_C) {
            one.size[d] = lanes_number(1);
            one.most[d] = 1;
        }
    return lanes_temporary(l, p, type, none, o) && lanes_fill(l, &one, o, value);
}

static struct tile_type with_sign(struct tile_type type) {
    return (struct tile_type){TILE_INT, type.bits, 1};
}

bool lanes_binary(struct lanes *l, const struct lane_points *p, enum tile_op op,
                  const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b) {
    struct tile_type type = a->scalar ? b->type : a->type;
    bool is_integer = tile_type_is_integer(type);
    struct words words = other_words(op);
    bool is_plain = words.tiles != NULL; // of any type
    if (!is_plain)
        words = is_integer ? integer_words(op) : float_words(op);
    if (!words.tiles)
        return lanes_fail(l, "has no command for %s of %s", tile_op_name(op), tile_type_name(type));
    struct lane_operand x = *a, y = *b;
    if (x.scalar && y.scalar && !as_tile(l, p, &x, type))
        return false;
    const char *function = words.tiles;
    if (x.scalar) {
        struct lane_operand number = x;
        x = y;
        y = number;
        function = words.scalar_first ? words.scalar_first : words.with_scalar;
    } else if (y.scalar) {
        function = words.with_scalar;
    }
    struct lane_call c = operands(p, to, &x, &y, NULL);
    if (is_integer &&
        !is_plain) { // differences of unsigned numbers are refused: the bits are those of signed ones
        struct tile_type exact = with_sign(type);
        for (int i = 0; i < 3; i++)
            lanes_add_dtype(&c, exact);
        for (int i = 0; i < 3; i++) // no shift, no rounding, no saturation
            lanes_add(&c, lanes_code(0));
    } else {
        lanes_add_dtype(&c, type);
    }
    lanes_call(&c, function);
    return true;
}

// Comparisons -----------------------------------------------------------------------------------------------------------

static void compare(const struct lane_points *p, const char *function, const struct lane_operand *to,
                    const struct lane_operand *a, const struct lane_operand *b) {
    struct lane_call c = operands(p, to, a, b, tile_const_int(u8, 1));
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, a->type);
    lanes_call(&c, function);
}

static bool flip(struct lanes *l, const struct lane_points *p, const struct lane_operand *to) {
    struct lane_operand one = {.type = u8, .scalar = tile_const_int(u8, 1)};
    return lanes_binary(l, p, TILE_XOR, to, to, &one);
}

static struct tile_type bits_of(struct tile_type type) {
    return (struct tile_type){TILE_UINT, type.bits, 1};
}

// 1 where x is no number: its bits without the sign are above those of infinity.
static bool is_nan(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                   struct lane_operand x) {
    struct lane_operand size;
    uint64_t infinite = tile_bits_of(x.type, (union tile_value){.f = 1.0 / 0.0});
    struct tile_type type = bits_of(x.type);
    x.type = type;
    struct lane_operand all = {.type = type,
                               .scalar = tile_const_bits(type, (UINT64_C(1) << (type.bits - 1)) - 1)},
                        limit = {.type = type, .scalar = tile_const_bits(type, infinite)};
    if (!lanes_temporary(l, p, type, NULL, &size) || !lanes_binary(l, p, TILE_AND, &size, &x, &all))
        return false;
    compare(p, "tpu_bdc_greater_C", to, &size, &limit);
    return true;
}

// The chip compares bits: -0 becomes 0 first, and what is no number is equal to nothing.
static bool equal_floats(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                         const struct lane_operand *a, const struct lane_operand *b) {
    struct lane_operand zero = {.type = a->type, .scalar = tile_const(a->type, 0)}, x, y, nan;
    if (!lanes_temporary(l, p, a->type, NULL, &x) || !lanes_temporary(l, p, a->type, NULL, &y) ||
        !lanes_temporary(l, p, u8, NULL, &nan) || !lanes_binary(l, p, TILE_ADD, &x, a, &zero) ||
        !lanes_binary(l, p, TILE_ADD, &y, b, &zero) || !is_nan(l, p, &nan, *a) || !flip(l, p, &nan))
        return false;
    compare(p, "tpu_bdc_equal", to, &x, &y);
    return lanes_binary(l, p, TILE_AND, to, to, &nan);
}

static bool compare_floats(struct lanes *l, const struct lane_points *p, enum tile_op op,
                           const struct lane_operand *to, struct lane_operand a, struct lane_operand b) {
    bool swaps = op == TILE_LT || op == TILE_LE, is_strict = op == TILE_LT || op == TILE_GT;
    if (!as_tile(l, p, &a, b.type))
        return false;
    if ((swaps || op == TILE_EQ || op == TILE_NE) && !as_tile(l, p, &b, a.type))
        return false;
    if (op == TILE_EQ || op == TILE_NE)
        return equal_floats(l, p, to, &a, &b) && (op == TILE_EQ || flip(l, p, to));
    const struct lane_operand *x = swaps ? &b : &a, *y = swaps ? &a : &b;
    if (y->scalar)
        compare(p, is_strict ? "tpu_bdc_greater_C" : "tpu_bdc_greater_equal_C", to, x, y);
    else
        compare(p, is_strict ? "tpu_bdc_greater" : "tpu_bdc_greater_equal", to, x, y);
    return true;
}

static bool compare_integers(struct lanes *l, const struct lane_points *p, enum tile_op op,
                             const struct lane_operand *to, struct lane_operand a, struct lane_operand b) {
    static const struct {
        enum tile_op op;
        const char *tiles, *with_scalar;
    } words[] = {{TILE_GT, "tpu_bdc_greater", "tpu_bdc_greater_C"},
                 {TILE_GE, "tpu_bdc_greater_equal", "tpu_bdc_greater_equal_C"},
                 {TILE_LT, "tpu_bdc_less", "tpu_bdc_less_C"},
                 {TILE_LE, "tpu_bdc_less_equal", "tpu_bdc_less_equal_C"},
                 {TILE_EQ, "tpu_bdc_equal", "tpu_bdc_equal_C"},
                 {TILE_NE, "tpu_bdc_not_equal", "tpu_bdc_not_equal_C"}};
    if (!as_tile(l, p, &a, b.type))
        return false;
    for (size_t i = 0; i < COUNT(words); i++)
        if (words[i].op == op)
            compare(p, b.scalar ? words[i].with_scalar : words[i].tiles, to, &a, &b);
    return true;
}

static bool is_comparison(enum tile_op op) {
    return op == TILE_EQ || op == TILE_NE || op == TILE_LT || op == TILE_LE || op == TILE_GT || op == TILE_GE;
}

// Functions ---------------------------------------------------------------------------------------------------------------

// What takes no strides: one operand.
static bool function_of(struct work *w, const char *function, struct lane_operand x,
                        struct tile_buffer *constants, int scratch, struct lane_operand *out) {
    struct lane_operand room;
    struct lane_call c = {0};
    if (!as_tile(w->l, w->p, &x, out->type) || !lanes_aligned(w->l, w->p, &x) ||
        !lanes_temporary(w->l, w->p, x.type, NULL, out))
        return false;
    lanes_add(&c, out->address);
    lanes_add(&c, x.address);
    for (int i = 0; i < scratch; i++) {
        if (!lanes_temporary(w->l, w->p, x.type, NULL, &room))
            return false;
        lanes_add(&c, room.address);
    }
    if (constants)
        lanes_add(&c, tile_address_of(constants));
    lanes_add_four(&c, w->p->size);
    lanes_add_dtype(&c, x.type);
    lanes_call(&c, function);
    return true;
}

// 2^x as e^(x ln 2).
static bool exponential(struct work *w, expr e, struct lane_operand x, struct lane_operand *out) {
    struct lane_operand scaled = x,
                        ln2 = {.type = x.type, .scalar = tile_const(x.type, 0.69314718055994530942)};
    if (e->op == TILE_EXP2 &&
        (!as_tile(w->l, w->p, &x, e->type) || !lanes_temporary(w->l, w->p, x.type, NULL, &scaled) ||
         !lanes_binary(w->l, w->p, TILE_MUL, &scaled, &x, &ln2)))
        return false;
    return function_of(w, "tpu_bdc_fp_exp", scaled, w->l->exponents, 2, out);
}

static bool select(struct work *w, struct lane_operand mask, struct lane_operand a, struct lane_operand b,
                   struct tile_type type, struct lane_operand *out) {
    struct lane_call c = {0};
    if (!as_tile(w->l, w->p, &mask, u8) || !lanes_aligned(w->l, w->p, &mask) ||
        !lanes_aligned(w->l, w->p, &a) || !lanes_aligned(w->l, w->p, &b) ||
        !lanes_temporary(w->l, w->p, type, NULL, out))
        return false;
    lanes_add(&c, out->address);
    lanes_add(&c, mask.address);
    lanes_add(&c, tile_const_int(u8, 0));
    lanes_add(&c, a.scalar ? lanes_scalar(out->type, a.scalar) : a.address);
    lanes_add(&c, b.scalar ? lanes_scalar(out->type, b.scalar) : b.address);
    lanes_add_four(&c, w->p->size);
    lanes_add_dtype(&c, u8);
    lanes_add_dtype(&c, out->type);
    lanes_call(&c, "tpu_bdc_greater_select");
    return true;
}

// Shifts by a number: to the left by a positive one. Those of signed numbers to the right keep the sign.
static bool shift_by(struct work *w, const struct lane_operand *to, struct lane_operand a, int64_t by) {
    struct lane_call c = {0};
    lanes_add(&c, to->address);
    lanes_add(&c, a.address);
    lanes_add(&c, lanes_code((int)by));
    lanes_add_four(&c, w->p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, a.stride);
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, to->type);
    lanes_add(&c, lanes_code(3));
    lanes_call(&c, to->type.kind == TILE_INT ? "tpu_bdc_arithmetic_shift_C" : "tpu_bdc_logical_shift_C");
    return true;
}

// Sets test to -1, 0 or 1, by which a quotient is wrong, and adds it: where the rest has another sign than the divisor, and is not 0, one
// less is right; where it is as large as the divisor, one more.
static bool correct_quotient(struct work *w, struct lane_operand *q, struct lane_operand *rest,
                             struct lane_operand *b, struct lane_operand *test, int turn) {
    const struct lane_points *p = w->p;
    const struct tile_type exact = {TILE_INT, 32, 1};
    struct lane_operand zero = {.type = exact, .scalar = tile_const_int(exact, 0)}, sign, size, size_b, wrong;
    if (!lanes_temporary(w->l, p, exact, NULL, &sign) || !lanes_temporary(w->l, p, u8, NULL, &wrong) ||
        !lanes_temporary(w->l, p, exact, NULL, &size) || !lanes_temporary(w->l, p, exact, NULL, &size_b))
        return false;
    if (turn == 0) { // of another sign: the bits of both differ in the highest
        if (!lanes_binary(w->l, p, TILE_XOR, &sign, rest, b))
            return false;
        compare(p, "tpu_bdc_less_C", &wrong, &sign, &zero);
        struct lane_operand is_rest;
        if (!lanes_temporary(w->l, p, u8, NULL, &is_rest))
            return false;
        compare(p, "tpu_bdc_not_equal_C", &is_rest, rest, &zero);
        if (!lanes_binary(w->l, p, TILE_AND, &wrong, &wrong, &is_rest) || !lanes_move(w->l, p, test, &wrong))
            return false;
        return lanes_binary(w->l, p, TILE_SUB, q, q, test);
    }
    unary(p, "tpu_bdc_abs", &size, rest, -1);
    unary(p, "tpu_bdc_abs", &size_b, b, -1);
    compare(p, "tpu_bdc_greater_equal", &wrong, &size, &size_b);
    return lanes_move(w->l, p, test, &wrong) && lanes_binary(w->l, p, TILE_ADD, q, q, test);
}

// Shifts by what is not known: all of a number is shifted out by its size, at most.
static bool shift_by_tile(struct work *w, expr e, const struct lane_operand *to, struct lane_operand a,
                          struct lane_operand b) {
    const struct lane_points *p = w->p;
    struct lane_operand by, zero = {.type = i32, .scalar = tile_const_int(i32, 0)},
                            most = {.type = i32, .scalar = tile_const_int(i32, e->type.bits - 1)};
    struct lane_call c = {0};
    if (!lanes_temporary(w->l, p, i32, NULL, &by) || !lanes_move(w->l, p, &by, &b) ||
        !lanes_binary(w->l, p, TILE_MIN, &by, &by, &most) ||
        (e->op == TILE_SHR && !lanes_binary(w->l, p, TILE_SUB, &by, &zero, &by)))
        return false;
    lanes_add(&c, to->address);
    lanes_add(&c, a.address);
    lanes_add(&c, by.address);
    lanes_add_four(&c, p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, a.stride);
    lanes_add_four(&c, by.stride);
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, i32);
    lanes_add(&c, lanes_code(3));
    lanes_call(&c, to->type.kind == TILE_INT ? "tpu_bdc_arithmetic_shift" : "tpu_bdc_logical_shift");
    return true;
}

static bool shift(struct work *w, expr e, const struct lane_operand *to, struct lane_operand a,
                  struct lane_operand b) {
    int64_t by = b.scalar ? pass_number(b.scalar) : -1;
    if (by < 0)
        return as_tile(w->l, w->p, &a, to->type) && shift_by_tile(w, e, to, a, b);
    if (by >= e->type.bits && !(e->op == TILE_SHR && e->type.kind == TILE_INT)) // nothing is left
        return lanes_fill(w->l, w->p, to, tile_const_int(to->type, 0));
    by = MIN_OF(by, e->type.bits - 1);
    return as_tile(w->l, w->p, &a, to->type) && shift_by(w, to, a, e->op == TILE_SHR ? -by : by);
}

// Whole numbers are divided as f32, and the quotient is set right by what is left: exact below 2^24 in size. By a power of two it is a
// shift. A division by 0 gives 0.
static bool divide(struct work *w, expr e, struct lane_operand a, struct lane_operand b,
                   const struct lane_operand *to) {
    const struct lane_points *p = w->p;
    const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    struct tile_type type = to->type, exact = {TILE_INT, 32, 1};
    struct lane_operand x, y, q, product, rest, test;
    int64_t by = b.scalar ? pass_number(b.scalar) : -1;
    bool is_power = by > 0 && (by & (by - 1)) == 0;
    if (!as_tile(w->l, p, &a, type) || (!is_power && !as_tile(w->l, p, &b, type)) ||
        !lanes_temporary(w->l, p, exact, NULL, &q))
        return false;
    if (is_power) {
        int bits = 0;
        while (by >> (bits + 1))
            bits++;
        struct lane_operand mask = {.type = type, .scalar = tile_const_int(type, by - 1)};
        if (e->op == TILE_REM)
            return lanes_binary(w->l, p, TILE_AND, to, &a, &mask);
        return shift_by(w, to, a, -bits);
    }
    if (!lanes_temporary(w->l, p, f32, NULL, &x) || !lanes_temporary(w->l, p, f32, NULL, &y) ||
        !lanes_temporary(w->l, p, exact, NULL, &product) || !lanes_temporary(w->l, p, exact, NULL, &rest) ||
        !lanes_temporary(w->l, p, exact, NULL, &test) || !lanes_move(w->l, p, &x, &a) ||
        !lanes_move(w->l, p, &y, &b) || !lanes_binary(w->l, p, TILE_DIV, &x, &x, &y))
        return false;
    unary(p, "tpu_bdc_fp_floor", &x, &x, -1);
    struct lane_operand signed_a = a, signed_b = b;
    signed_a.type = signed_b.type = exact;
    if (!lanes_move(w->l, p, &q, &x))
        return false;
    // The rest has the divisor's sign and is smaller: a quotient that is one too large or too small shows there.
    for (int turn = 0; turn < 2; turn++) {
        if (!lanes_binary(w->l, p, TILE_MUL, &product, &q, &signed_b) ||
            !lanes_binary(w->l, p, TILE_SUB, &rest, &signed_a, &product) ||
            !correct_quotient(w, &q, &rest, &signed_b, &test, turn))
            return false;
    }
    if (!lanes_binary(w->l, p, TILE_MUL, &product, &q, &signed_b) ||
        !lanes_binary(w->l, p, TILE_SUB, &rest, &signed_a, &product))
        return false;
    struct lane_operand out = *to;
    out.type = exact;
    return lanes_move(w->l, p, &out, e->op == TILE_REM ? &rest : &q);
}

// Leaves --------------------------------------------------------------------------------------------------------------------

// 0, 1, 2, ... along a dimension, or across the lanes.
static bool sequence(struct work *w, int variable, struct lane_operand *out) {
    int dim = w->p->dim[variable];
    bool along[LANE_DIMS] = {false, true, false, false};
    struct lane_points one = *w->p;
    struct lane_call c = {0};
    for (int d = 0; d < LANE_DIMS; d++)
        if (d != LANE_C) {
            one.size[d] = lanes_number(1);
            one.most[d] = 1;
        }
    if (dim == LANE_C) {
        if (!lanes_temporary(w->l, &one, i32, along, out))
            return false;
        lanes_add(&c, out->address);
        lanes_add(&c, lanes_code(0));
        lanes_add(&c, lanes_code(1));
        lanes_add(&c, w->p->size[LANE_C]);
        lanes_call(&c, "tpu_bdc_arithmetic_sequence_distribute_aligned");
        for (int d = 0; d < LANE_DIMS; d++)
            out->stride[d] = d == LANE_C ? out->stride[d] : lanes_number(0);
        return true;
    }
    one.most[LANE_C] = MIN_OF(w->p->most[LANE_C], 64);
    one.size[LANE_W] = w->p->size[dim];
    one.most[LANE_W] = w->p->most[dim];
    if (!lanes_temporary(w->l, &one, i32, NULL, out))
        return false;
    lanes_add(&c, out->address);
    lanes_add(&c, lanes_number(one.most[LANE_C]));
    lanes_add(&c, lanes_code(0));
    lanes_add(&c, lanes_code(1));
    lanes_add(&c, one.size[LANE_W]);
    lanes_call(&c, "tpu_bdc_arithmetic_sequence_bcast");
    for (int d = 0; d < LANE_DIMS; d++)
        out->stride[d] = lanes_number(d == dim);
    return true;
}

static int variable_of(const struct work *w, const struct tile_name *name) {
    for (int i = 0; i < w->l->variables; i++)
        if (w->l->variable[i] == name)
            return i;
    return -1;
}

static bool load(struct work *w, expr e, struct lane_operand *out) {
    struct lane_operand mask, other, found;
    if (!lanes_near(w->l, w->p, e->buffer, e->index, e->args, e->args ? &found : out))
        return false;
    if (!e->args)
        return true;
    return evaluate(w, e->arg[0], NULL, &mask) && evaluate(w, e->arg[1], NULL, &other) &&
           select(w, mask, found, other, e->type, out);
}

// Values --------------------------------------------------------------------------------------------------------------------

static bool is_shift(enum tile_op op) {
    return op == TILE_SHL || op == TILE_SHR;
}

static const char *unary_word(enum tile_op op) {
    switch (op) {
    case TILE_NEG: return "tpu_bdc_neg";
    case TILE_ABS: return "tpu_bdc_abs";
    case TILE_FLOOR: return "tpu_bdc_fp_floor";
    case TILE_CEIL: return "tpu_bdc_fp_ceil";
    case TILE_NOT: return "tpu_bdc_not";
    case TILE_RINT:
    case TILE_TRUNC: return "tpu_bdc_fp_round";
    default: return NULL;
    }
}

// Places are compared by what varies: the rest, which the control program has, goes to the other side.
static bool compare_places(struct work *w, expr e, struct lane_operand *to, bool *is_done) {
    expr coefficient[2][TILE_DIMS], rest[2], sum = NULL;
    struct lane_operand tile, number = {.type = i32};
    *is_done = false;
    if (!is_comparison(e->op) || e->arg[0]->type.kind != TILE_INT || e->arg[0]->type.bits != 64)
        return true;
    for (int i = 0; i < 2; i++)
        if (!lanes_affine(w->l, w->p, e->arg[i], coefficient[i], &rest[i]))
            return true;
    for (int v = 0; v < w->p->names; v++) {
        expr a = coefficient[0][v], b = coefficient[1][v], by = !b ? a : SUB(a ? a : lanes_number(0), b);
        if (!by)
            continue;
        expr term = MUL(tile_cast(i32, tile_name_value(w->p->name[v], TILE_INDEX)), tile_cast(i32, by));
        sum = sum ? ADD(sum, term) : term;
    }
    if (!sum)
        return true;
    *is_done = true;
    expr limit = MAX(MIN(SUB(rest[1], rest[0]), lanes_number(INT32_MAX)), lanes_number(INT32_MIN));
    number.scalar = tile_cast(i32, limit);
    return evaluate(w, sum, NULL, &tile) && lanes_temporary(w->l, w->p, u8, NULL, to) &&
           compare_integers(w->l, w->p, e->op, to, tile, number);
}

static bool compute(struct work *w, expr e, const struct lane_operand *x, struct lane_operand *to) {
    const struct lane_points *p = w->p;
    struct lane_operand product;
    if (is_comparison(e->op))
        return (tile_type_is_float(e->arg[0]->type) ? compare_floats : compare_integers)(w->l, p, e->op, to,
                                                                                         x[0], x[1]);
    if (is_shift(e->op))
        return shift(w, e, to, x[0], x[1]);
    if ((e->op == TILE_FLOORDIV || e->op == TILE_REM) && tile_type_is_integer(e->type))
        return divide(w, e, x[0], x[1], to);
    if (e->op == TILE_NOT && tile_type_is_bool(e->type))
        return lanes_binary(w->l, p, TILE_XOR, to, &x[0],
                            &(struct lane_operand){.type = u8, .scalar = tile_const_int(u8, 1)});
    if (e->op == TILE_FMA) // rounded twice: the chip has no other
        return lanes_temporary(w->l, p, e->type, NULL, &product) &&
               lanes_binary(w->l, p, TILE_MUL, &product, &x[0], &x[1]) &&
               lanes_binary(w->l, p, TILE_ADD, to, &product, &x[2]);
    if (e->args == 2)
        return lanes_binary(w->l, p, e->op, to, &x[0], &x[1]);
    if (e->op == TILE_NEG && tile_type_is_float(e->type)) { // the chip's own is 0 - x, which gives 0 for 0
        struct lane_operand bits = x[0], sign = {.type = bits_of(e->type)}, result = *to;
        sign.scalar = tile_const_bits(sign.type, UINT64_C(1) << (e->type.bits - 1));
        bits.type = result.type = sign.type;
        return as_tile(w->l, p, &bits, sign.type) && lanes_binary(w->l, p, TILE_XOR, &result, &bits, &sign);
    }
    const char *word = unary_word(e->op);
    if (!word)
        return lanes_fail(w->l, "has no command for %s of %s", tile_op_name(e->op), tile_type_name(e->type));
    unary(p, word, to, &x[0], e->op == TILE_RINT ? 0 : e->op == TILE_TRUNC ? 2 : -1);
    return true;
}

// The lower half of a number of 64 bits is all that a conversion to fewer takes.
static bool is_lower_half(expr e) {
    return e->op == TILE_CAST && tile_type_is_integer(e->type) && e->type.bits <= 32 &&
           e->arg[0]->op == TILE_LOAD;
}

// Ops whose result has a place of its own.
static bool compute_apart(struct work *w, expr e, const struct lane_operand *x, struct lane_operand *out,
                          bool *is_done) {
    *is_done = true;
    out->type = lanes_type(e->type);
    switch (e->op) {
    case TILE_SELECT:
    case TILE_RARE: return select(w, x[0], x[1], x[2], e->type, out);
    case TILE_EXP:
    case TILE_EXP2: return exponential(w, e, x[0], out);
    case TILE_SQRT: return function_of(w, "tpu_bdc_fp_sqrt", x[0], NULL, 0, out);
    case TILE_RSQRT: return function_of(w, "tpu_bdc_fp_rsqrt", x[0], NULL, 0, out);
    case TILE_LOG: return function_of(w, "tpu_bdc_fp_log", x[0], w->l->logarithms, 1, out);
    case TILE_BITCAST:
        *out = x[0];
        out->type = lanes_type(e->type);
        return true;
    default: *is_done = false; return true;
    }
}

static bool compute_node(struct work *w, expr e, const struct lane_operand *wanted,
                         struct lane_operand *out) {
    struct lane_operand x[3];
    bool is_done;
    if (!compare_places(w, e, out, &is_done) || is_done)
        return is_done && out->address;
    for (int i = 0; i < e->args; i++)
        if (!(is_lower_half(e) ? load(w, e->arg[0], &x[0]) : evaluate(w, e->arg[i], NULL, &x[i])))
            return false;
    if (e->op == TILE_CAST && tile_type_equal(x[0].type, lanes_type(e->type))) {
        *out = x[0];
        return true;
    }
    if (!compute_apart(w, e, x, out, &is_done) || is_done)
        return is_done && out->address;
    struct tile_type type = lanes_type(e->type);
    if (wanted && tile_type_equal(wanted->type, type))
        *out = *wanted;
    else if (!lanes_temporary(w->l, w->p, type, NULL, out))
        return false;
    return e->op == TILE_CAST ? lanes_move(w->l, w->p, out, &x[0]) : compute(w, e, x, out);
}

// Whether a number is a place in arrays, which are counted in 32 bits, or is known to need no more.
static bool is_no_place(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD || e->op == TILE_LOCAL || e->op == TILE_SCALAR || e->op == TILE_SHL ||
           e->op == TILE_BITCAST;
}

static bool fits(expr e) {
    struct pass_range r = pass_certain_range(e);
    return !tile_type_is_integer(e->type) || e->type.bits < 64 || !pass_any(e, is_no_place, NULL) ||
           (r.low >= INT32_MIN && r.high <= INT32_MAX);
}

static bool is_uniform(const struct work *w, expr e) {
    return lanes_is_uniform(w->l, w->p, e);
}

static bool reads(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD;
}

// What an expression is at the points. wanted: where it is to be, if that can be done at once; out says where it is.
static bool evaluate(struct work *w, expr e, const struct lane_operand *wanted, struct lane_operand *out) {
    *out = (struct lane_operand){.type = lanes_type(e->type)};
    bool is_place = tile_type_is_bool(e->type) || (tile_type_is_integer(e->type) && e->type.bits == 64);
    if (is_uniform(w, e) && (is_place || !pass_any(e, reads, NULL))) {
        out->scalar = lanes_control(w->l, e);
        return out->scalar;
    }
    for (int i = 0; i < w->values; i++)
        if (w->node[i] == e) {
            *out = w->value[i];
            return true;
        }
    bool good = false;
    if (!fits(e))
        return lanes_fail(w->l, "computes with 32 bits, and %s of %s may need more", tile_op_name(e->op),
                          tile_type_name(e->type));
    if (e->op == TILE_INDEX) {
        for (int i = 0; i < w->p->names; i++)
            if (w->p->name[i] == e->name)
                good = sequence(w, i, out);
    } else if (e->op == TILE_LOCAL) {
        *out = w->variable[variable_of(w, e->name)];
        return true;
    } else if (e->op == TILE_LOAD) {
        good = load(w, e, out);
    } else {
        good = compute_node(w, e, wanted, out);
    }
    if (good && w->values < MOST_VALUES) {
        w->node[w->values] = e;
        w->value[w->values++] = *out;
    }
    return good;
}

// Statements ---------------------------------------------------------------------------------------------------------------

static bool run_block(struct work *w, const struct tile_stmt *body);

// Of two masks, each of which may be NULL.
static bool both(struct work *w, const struct lane_operand *a, const struct lane_operand *b,
                 struct lane_operand *out) {
    if (!a || !b) {
        *out = a ? *a : *b;
        return true;
    }
    return lanes_temporary(w->l, w->p, u8, NULL, out) && lanes_binary(w->l, w->p, TILE_AND, out, a, b);
}

// Puts a value where it belongs; where a mask is false, what is there stays.
static bool put(struct work *w, expr value, expr mask, const struct lane_operand *to) {
    struct lane_operand found, test, own, old = *to, chosen;
    bool is_masked = mask || w->mask;
    if (!evaluate(w, value, is_masked || to->is_far || to->is_shifted ? NULL : to, &found))
        return false;
    if (is_masked) {
        if ((mask && !evaluate(w, mask, NULL, &own)) || !both(w, w->mask, mask ? &own : NULL, &test))
            return false;
        if (to->is_far &&
            (!lanes_temporary(w->l, w->p, to->type, NULL, &old) || !lanes_move(w->l, w->p, &old, to)))
            return false;
        if (!found.scalar && !tile_type_equal(found.type, to->type))
            return lanes_fail(w->l, "stores %s as %s", tile_type_name(found.type), tile_type_name(to->type));
        if (!select(w, test, found, old, to->type, &chosen))
            return false;
        found = chosen;
    }
    bool is_there = !found.scalar && found.address == to->address;
    return is_there || lanes_move(w->l, w->p, to, &found);
}

static bool store(struct work *w, const struct tile_stmt *s) {
    struct lane_operand to;
    return lanes_place(w->l, w->p, s->buffer, s->index, &to) && put(w, s->value, s->mask, &to);
}

static bool assign(struct work *w, const struct tile_stmt *s) {
    int at = variable_of(w, s->name[0]);
    bool is_whole = tile_type_is_integer(s->name[0]->type) || tile_type_is_bool(s->name[0]->type);
    if (at < 0 && !w->p->names && !w->mask && is_whole &&
        is_uniform(w, s->value)) { // a place, which the control program has
        tile_assign(s->name[0], lanes_control(w->l, s->value));
        return true;
    }
    if (at < 0) {
        at = w->l->variables;
        if (at >= LANE_VARIABLES)
            return lanes_fail(w->l, "takes at most %d variables in a map", LANE_VARIABLES);
        w->l->variable[w->l->variables++] = s->name[0];
        if (!lanes_temporary(w->l, w->p, s->name[0]->type, NULL, &w->variable[at]))
            return false;
        struct lane_operand *mask = w->mask; // it has no older value
        w->mask = NULL;
        bool good = put(w, s->value, NULL, &w->variable[at]);
        w->mask = mask;
        return good;
    }
    return put(w, s->value, NULL, &w->variable[at]);
}

// What is there and a value, where it was. All blocks of such a kernel are one core's: nobody comes between.
static bool atomic(struct work *w, const struct tile_stmt *s) {
    struct lane_operand to, old, value, sum;
    if (!lanes_near(w->l, w->p, s->buffer, s->index, false, &old) ||
        !lanes_place(w->l, w->p, s->buffer, s->index, &to) || !evaluate(w, s->value, NULL, &value) ||
        !lanes_temporary(w->l, w->p, to.type, NULL, &sum))
        return false;
    if (s->old && !w->p->names &&
        tile_type_is_integer(s->old->type)) { // a place, which the control program has
        tile_assign(s->old, tile_const_int(s->old->type, 0));
        struct tile_stmt *read = tile_command("tpu_local_mem_addr_unified", 1, &old.address);
        if (read)
            read->old = s->old;
    } else if (s->old) {
        int at = w->l->variables;
        if (at >= LANE_VARIABLES)
            return lanes_fail(w->l, "takes at most %d variables in a map", LANE_VARIABLES);
        w->l->variable[w->l->variables++] = s->old;
        if (!lanes_temporary(w->l, w->p, to.type, NULL, &w->variable[at]) ||
            !lanes_move(w->l, w->p, &w->variable[at], &old))
            return false;
    }
    if (!as_tile(w->l, w->p, &value, to.type) || !lanes_binary(w->l, w->p, s->combine, &sum, &old, &value))
        return false;
    if (s->mask || w->mask) {
        struct lane_operand own, test, chosen;
        if ((s->mask && !evaluate(w, s->mask, NULL, &own)) ||
            !both(w, w->mask, s->mask ? &own : NULL, &test) || !select(w, test, sum, old, to.type, &chosen))
            return false;
        sum = chosen;
    }
    return lanes_move(w->l, w->p, &to, &sum);
}

static bool branch(struct work *w, const struct tile_stmt *s) {
    struct lane_operand *outer = w->mask, test, not_test, now;
    if (is_uniform(w, s->mask)) {
        tile_open_if(lanes_control(w->l, s->mask));
        bool good = run_block(w, s->body);
        if (s->other) {
            tile_else();
            good = good && run_block(w, s->other);
        }
        tile_close();
        return good;
    }
    struct lane_operand found;
    if (!evaluate(w, s->mask, NULL, &found) || !lanes_temporary(w->l, w->p, u8, NULL, &test) ||
        !lanes_move(w->l, w->p, &test, &found) || !both(w, outer, &test, &now))
        return false;
    w->mask = &now;
    bool good = run_block(w, s->body);
    if (good && s->other) {
        good = lanes_temporary(w->l, w->p, u8, NULL, &not_test) && lanes_move(w->l, w->p, &not_test, &test) &&
               flip(w->l, w->p, &not_test) && both(w, outer, &not_test, &now) && run_block(w, s->other);
    }
    w->mask = outer;
    return good;
}

static bool loop(struct work *w, const struct tile_stmt *s) {
    if (!is_uniform(w, s->extent[0]) || !is_uniform(w, s->begin) || !is_uniform(w, s->step))
        return lanes_fail(w->l, "cannot loop differently at different points");
    struct tile_stmt copy = *s;
    expr end = lanes_control(w->l, s->extent[0]);
    copy.loop = TILE_SERIAL;
    copy.extent = &end;
    copy.begin = lanes_control(w->l, s->begin);
    copy.step = lanes_control(w->l, s->step);
    tile_open(copy);
    bool good = run_block(w, s->body);
    tile_close();
    return good;
}

static bool run_block(struct work *w, const struct tile_stmt *body) {
    bool good = true;
    for (const struct tile_stmt *s = body; s && good; s = s->next) {
        w->l->at = s;
        w->values = 0;
        switch (s->kind) {
        case TILE_STORE: good = store(w, s); break;
        case TILE_ASSIGN: good = assign(w, s); break;
        case TILE_ATOMIC: good = atomic(w, s); break;
        case TILE_IF: good = branch(w, s); break;
        case TILE_FOR: good = loop(w, s); break;
        case TILE_ALLOC: tile_append(*s); break;
        default: good = lanes_fail(w->l, "has no command for it in a map");
        }
        w->values = 0;
    }
    return good && !tile_current()->failed;
}

// Maps ------------------------------------------------------------------------------------------------------------------------

// The variable that goes across the lanes of what a map stores, or else reads; -1: none.
static int lane_in(struct lanes *l, const struct tile_stmt *map, const struct tile_buffer *b,
                   const expr *index) {
    struct lane_tile tile;
    if (!lanes_is_local(b) || !lanes_tile(l, b, &tile) || tile.lane < 0)
        return -1;
    for (int i = 0; i < map->indices; i++)
        if (pass_depends(index[tile.lane], map->name[i]))
            return i;
    return -1;
}

struct lane_search {
    struct lanes *l;
    const struct tile_stmt *map;
    int *found;
};

static bool look(expr e, const void *data) {
    const struct lane_search *s = data;
    if (*s->found < 0 && e->op == TILE_LOAD)
        *s->found = lane_in(s->l, s->map, e->buffer, e->index);
    return false;
}

static void look_in(const struct lane_search *search, const struct tile_stmt *body, bool stores) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        if (stores && s->kind == TILE_STORE && *search->found < 0)
            *search->found = lane_in(search->l, search->map, s->buffer, s->index);
        expr list[TILE_STMT_EXPRS];
        int count = stores ? 0 : tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], look, search);
        look_in(search, s->body, stores);
        look_in(search, s->other, stores);
    }
}

static bool stores_tiles(const struct tile_stmt *s, const void *data) {
    (void)data;
    return s->kind == TILE_STORE && lanes_is_local(s->buffer);
}

static int choose_lane(struct lanes *l, const struct tile_stmt *s) {
    int lane = -1;
    struct lane_search search = {l, s, &lane};
    look_in(&search, s->body, true);
    if (lane < 0 && !pass_find(s->body, stores_tiles, NULL)) {
        look_in(&search, s->body, false);
        if (lane < 0)
            lane = s->indices - 2;
    }
    return lane;
}

// Which variables an index has in a way that strides do not: reversed, divided, or in what it reads elsewhere.
struct odd {
    const struct tile_stmt *map;
    bool *is_odd; // by variable
};

static bool assigns(const struct tile_stmt *s, const void *name) {
    return (s->kind == TILE_ASSIGN && s->name[0] == name) || s->old == name;
}

static void mark(const struct odd *o, expr e, bool is_odd) {
    bool is_sum = e->op == TILE_ADD || e->op == TILE_SUB, is_cast = e->op == TILE_CAST;
    bool is_scaled = e->op == TILE_MUL && (pass_number(e->arg[0]) >= 0 || pass_number(e->arg[1]) >= 0);
    for (int i = 0; e->op == TILE_INDEX && i < o->map->indices; i++)
        if (o->map->name[i] == e->name)
            o->is_odd[i] |= is_odd;
    bool is_own =
        e->op == TILE_LOCAL && pass_find(o->map->body, assigns, e->name); // it may be any at each point
    for (int i = 0; is_own && i < o->map->indices; i++)
        o->is_odd[i] = true;
    for (int i = 0; i < tile_operands(e); i++)
        mark(o, tile_operand(e, i),
             is_odd || (e->op == TILE_SUB && i == 1) || !(is_sum || is_cast || is_scaled));
}

static bool mark_load(expr e, const void *data) {
    for (int i = 0; e->op == TILE_LOAD && i < e->indices; i++)
        mark(data, e->index[i], false);
    return false;
}

static bool has_index(const struct tile_stmt *s, const struct tile_name *name) {
    for (int i = 0; i < s->indices; i++)
        if (pass_depends(s->index[i], name))
            return true;
    return false;
}

static void mark_block(const struct odd *o, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], mark_load, o);
        for (int i = 0; (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) && i < s->indices; i++)
            mark(o, s->index[i], false);
        for (int i = 0; s->kind == TILE_ATOMIC && i < o->map->indices; i++) // points that may meet
            o->is_odd[i] |= !has_index(s, o->map->name[i]);
        for (int i = 0; i < count && (s->kind == TILE_FOR || s->kind == TILE_WHILE); i++)
            mark(o, list[i], true);
        for (int i = 0; s->kind == TILE_ALLOC && i < o->map->indices; i++) // memory of each point
            o->is_odd[i] = true;
        mark_block(o, s->body);
        mark_block(o, s->other);
    }
}

// Variables that strides do not reach go by loops of the control program.
static int open_odd(const struct tile_stmt *s, struct tile_stmt *rest, const struct tile_name **name,
                    expr *extent) {
    bool is_odd[TILE_DIMS] = {false};
    int loops = 0;
    mark_block(&(struct odd){s, is_odd}, s->body);
    rest->indices = 0;
    for (int i = 0; i < s->indices; i++) {
        if (is_odd[i]) {
            tile_open_for(s->name[i], NULL, s->extent[i], NULL, TILE_SERIAL);
            loops++;
            continue;
        }
        name[rest->indices] = s->name[i];
        extent[rest->indices++] = s->extent[i];
    }
    rest->name = name;
    rest->extent = extent;
    return loops;
}

static bool map_points(struct lanes *l, const struct tile_stmt *s) {
    struct lane_space space;
    struct work *w = memory_zero(sizeof *w);
    if (!w || !lanes_open(l, s->indices, s->name, s->extent, choose_lane(l, s), &space)) {
        memory_free(w);
        return false;
    }
    struct pass_swap swap = {.names = s->indices, .name = s->name, .value = space.value};
    w->l = l;
    w->p = &space.points;
    int variables = l->variables;
    bool good = pass_swap_in(&swap, s->body) && run_block(w, s->body);
    l->variables = variables;
    lanes_close(&space);
    memory_free(w);
    return good;
}

bool lanes_map(struct lanes *l, const struct tile_stmt *s) {
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
    struct tile_stmt rest = *s;
    int loops = open_odd(s, &rest, name, extent);
    bool good = map_points(l, &rest);
    while (loops-- > 0)
        tile_close();
    return good;
}

bool lanes_store(struct lanes *l, const struct tile_stmt *s) {
    struct lane_space space;
    struct work *w = memory_zero(sizeof *w);
    bool good = w && lanes_open(l, 0, NULL, NULL, -1, &space);
    if (good) {
        w->l = l;
        w->p = &space.points;
        struct tile_stmt alone = *s;
        alone.next = NULL;
        good = run_block(w, &alone);
    }
    memory_free(w);
    return good;
}
