// lanes_ops.c - ops as commands: each is one, or a few, on all points at once.
//
// A truth value is a byte, 0 or 1. Where the chip's own op differs in a corner from the IR's, it is said at the op; doc/bm1690.md
// lists what that leaves.

#include "pass/lanes.h"

static const struct tile_type i32 = {TILE_INT, 32, 1}, u8 = {TILE_UINT, 8, 1};

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
bool lanes_as_tile(struct lanes *l, const struct lane_points *p, struct lane_operand *o,
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
    if (x.scalar && y.scalar && !lanes_as_tile(l, p, &x, type))
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

bool lanes_flip(struct lanes *l, const struct lane_points *p, const struct lane_operand *to) {
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
        !lanes_binary(l, p, TILE_ADD, &y, b, &zero) || !is_nan(l, p, &nan, *a) || !lanes_flip(l, p, &nan))
        return false;
    compare(p, "tpu_bdc_equal", to, &x, &y);
    return lanes_binary(l, p, TILE_AND, to, to, &nan);
}

static bool compare_floats(struct lanes *l, const struct lane_points *p, enum tile_op op,
                           const struct lane_operand *to, struct lane_operand a, struct lane_operand b) {
    bool swaps = op == TILE_LT || op == TILE_LE, is_strict = op == TILE_LT || op == TILE_GT;
    if (!lanes_as_tile(l, p, &a, b.type))
        return false;
    if ((swaps || op == TILE_EQ || op == TILE_NE) && !lanes_as_tile(l, p, &b, a.type))
        return false;
    if (op == TILE_EQ || op == TILE_NE)
        return equal_floats(l, p, to, &a, &b) && (op == TILE_EQ || lanes_flip(l, p, to));
    const struct lane_operand *x = swaps ? &b : &a, *y = swaps ? &a : &b;
    if (y->scalar)
        compare(p, is_strict ? "tpu_bdc_greater_C" : "tpu_bdc_greater_equal_C", to, x, y);
    else
        compare(p, is_strict ? "tpu_bdc_greater" : "tpu_bdc_greater_equal", to, x, y);
    return true;
}

bool lanes_compare_integers(struct lanes *l, const struct lane_points *p, enum tile_op op,
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
    if (!lanes_as_tile(l, p, &a, b.type))
        return false;
    for (size_t i = 0; i < COUNT(words); i++)
        if (words[i].op == op)
            compare(p, b.scalar ? words[i].with_scalar : words[i].tiles, to, &a, &b);
    return true;
}

bool lanes_is_comparison(enum tile_op op) {
    return op == TILE_EQ || op == TILE_NE || op == TILE_LT || op == TILE_LE || op == TILE_GT || op == TILE_GE;
}

// Functions ---------------------------------------------------------------------------------------------------------------

// What takes no strides: one operand.
static bool function_of(struct lane_work *w, const char *function, struct lane_operand x,
                        struct tile_buffer *constants, int scratch, struct lane_operand *out) {
    struct lane_operand room;
    struct lane_call c = {0};
    if (!lanes_as_tile(w->l, w->p, &x, out->type) || !lanes_aligned(w->l, w->p, &x) ||
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
static bool exponential(struct lane_work *w, expr e, struct lane_operand x, struct lane_operand *out) {
    struct lane_operand scaled = x,
                        ln2 = {.type = x.type, .scalar = tile_const(x.type, 0.69314718055994530942)};
    if (e->op == TILE_EXP2 &&
        (!lanes_as_tile(w->l, w->p, &x, e->type) || !lanes_temporary(w->l, w->p, x.type, NULL, &scaled) ||
         !lanes_binary(w->l, w->p, TILE_MUL, &scaled, &x, &ln2)))
        return false;
    return function_of(w, "tpu_bdc_fp_exp", scaled, w->l->exponents, 2, out);
}

bool lanes_select(struct lane_work *w, struct lane_operand mask, struct lane_operand a, struct lane_operand b,
                  struct tile_type type, struct lane_operand *out) {
    struct lane_call c = {0};
    if (!lanes_as_tile(w->l, w->p, &mask, u8) || !lanes_aligned(w->l, w->p, &mask) ||
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
static bool shift_by(struct lane_work *w, const struct lane_operand *to, struct lane_operand a, int64_t by) {
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
static bool correct_quotient(struct lane_work *w, struct lane_operand *q, struct lane_operand *rest,
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
static bool shift_by_tile(struct lane_work *w, expr e, const struct lane_operand *to, struct lane_operand a,
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

static bool shift(struct lane_work *w, expr e, const struct lane_operand *to, struct lane_operand a,
                  struct lane_operand b) {
    int64_t by = b.scalar ? pass_number(b.scalar) : -1;
    if (by < 0)
        return lanes_as_tile(w->l, w->p, &a, to->type) && shift_by_tile(w, e, to, a, b);
    if (by >= e->type.bits && !(e->op == TILE_SHR && e->type.kind == TILE_INT)) // nothing is left
        return lanes_fill(w->l, w->p, to, tile_const_int(to->type, 0));
    by = MIN_OF(by, e->type.bits - 1);
    return lanes_as_tile(w->l, w->p, &a, to->type) && shift_by(w, to, a, e->op == TILE_SHR ? -by : by);
}

// Whole numbers are divided as f32, and the quotient is set right by what is left: exact below 2^24 in size. By a power of two it is a
// shift. A division by 0 gives 0.
static bool divide(struct lane_work *w, expr e, struct lane_operand a, struct lane_operand b,
                   const struct lane_operand *to) {
    const struct lane_points *p = w->p;
    const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    struct tile_type type = to->type, exact = {TILE_INT, 32, 1};
    struct lane_operand x, y, q, product, rest, test;
    int64_t by = b.scalar ? pass_number(b.scalar) : -1;
    bool is_power = by > 0 && (by & (by - 1)) == 0;
    if (!lanes_as_tile(w->l, p, &a, type) || (!is_power && !lanes_as_tile(w->l, p, &b, type)) ||
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
// Ops of formulas ----------------------------------------------------------------------------------------------------------

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
bool lanes_compute(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *to) {
    const struct lane_points *p = w->p;
    struct lane_operand product;
    if (lanes_is_comparison(e->op))
        return (tile_type_is_float(e->arg[0]->type) ? compare_floats
                                                    : lanes_compare_integers)(w->l, p, e->op, to, x[0], x[1]);
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
        return lanes_as_tile(w->l, p, &bits, sign.type) &&
               lanes_binary(w->l, p, TILE_XOR, &result, &bits, &sign);
    }
    const char *word = unary_word(e->op);
    if (!word)
        return lanes_fail(w->l, "has no command for %s of %s", tile_op_name(e->op), tile_type_name(e->type));
    unary(p, word, to, &x[0], e->op == TILE_RINT ? 0 : e->op == TILE_TRUNC ? 2 : -1);
    return true;
}
// Ops whose result has a place of its own.
bool lanes_compute_apart(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *out,
                         bool *is_done) {
    *is_done = true;
    out->type = lanes_type(e->type);
    switch (e->op) {
    case TILE_SELECT:
    case TILE_RARE: return lanes_select(w, x[0], x[1], x[2], e->type, out);
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
