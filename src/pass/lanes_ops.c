// lanes_ops.c - generates the commands of ops: one or a few per op, for all points at once.
//
// A boolean is a byte, 0 or 1. Where the chip's op differs from that of the IR for some operands, a comment
// at the op says so; doc/bm1690.md lists the differences that remain.

#include "pass/lanes.h"

#include <math.h>

static const struct tile_type u8 = {TILE_UINT, 8, 1};

// Commands of one form --------------------------------------------------------------------------------------

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

// Returns the arguments of an op of two operands, of which b may be a scalar, without dtypes. `truth` (or
// NULL) is the result of a comparison where it holds.
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
    bool is_plain = words.tiles != NULL; // it takes any type
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
        !is_plain) { // signed: the chip refuses unsigned differences, and the bits are the same
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

// Comparisons -----------------------------------------------------------------------------------------------

// Compares a and b. The result has the bits of `truth` where the comparison holds, else 0.
static void compare_as(const struct lane_points *p, const char *function, const struct lane_operand *to,
                       const struct lane_operand *a, const struct lane_operand *b, int64_t truth) {
    struct lane_call c = operands(p, to, a, b, tile_const_int(to->type, truth));
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, a->type);
    lanes_call(&c, function);
}

static void compare(const struct lane_points *p, const char *function, const struct lane_operand *to,
                    const struct lane_operand *a, const struct lane_operand *b) {
    compare_as(p, function, to, a, b, 1);
}

bool lanes_flip(struct lanes *l, const struct lane_points *p, const struct lane_operand *to) {
    struct lane_operand one = {.type = u8, .scalar = tile_const_int(u8, 1)};
    return lanes_binary(l, p, TILE_XOR, to, to, &one);
}

static struct tile_type bits_of(struct tile_type type) {
    return (struct tile_type){TILE_UINT, type.bits, 1};
}

static struct lane_operand as_bits(struct lane_operand x) {
    x.type = bits_of(x.type);
    x.scalar = x.scalar ? tile_bitcast(x.type, x.scalar) : NULL;
    return x;
}

static struct lane_operand bits_number(struct tile_type type, uint64_t bits) {
    struct tile_type unsigned_type = bits_of(type);
    return (struct lane_operand){.type = unsigned_type, .scalar = tile_const_bits(unsigned_type, bits)};
}

static uint64_t infinity_bits(struct tile_type type) {
    return tile_bits_of(type, (union tile_value){.f = 1.0 / 0.0});
}

static uint64_t sign_bit(struct tile_type type) {
    return UINT64_C(1) << (type.bits - 1);
}

// Sets `to` to 1 where x is not NaN, i.e. where its bits without the sign are at most those of infinity, else
// 0.
static bool is_number(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                      struct lane_operand x) {
    struct lane_operand size, all = bits_number(x.type, sign_bit(x.type) - 1),
                              limit = bits_number(x.type, infinity_bits(x.type));
    x = as_bits(x);
    if (!lanes_temporary(l, p, x.type, NULL, &size) || !lanes_binary(l, p, TILE_AND, &size, &x, &all))
        return false;
    compare(p, "tpu_bdc_less_equal_C", to, &size, &limit);
    return true;
}

// Returns whether an operand is a constant other than NaN.
static bool is_known(const struct lane_operand *x) {
    return x->scalar && x->scalar->op == TILE_CONST &&
           !isnan(tile_value_of(x->scalar->type, x->scalar->bits).f);
}

// Compares floats for equality. The chip compares bits: adding 0 turns -0 into 0, and is_number excludes NaN.
static bool equal_floats(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                         const struct lane_operand *a, const struct lane_operand *b) {
    struct lane_operand zero = {.type = a->type, .scalar = tile_const(a->type, 0)}, x, y, number;
    if (!lanes_temporary(l, p, a->type, NULL, &x) || !lanes_temporary(l, p, a->type, NULL, &y) ||
        !lanes_temporary(l, p, u8, NULL, &number) || !lanes_binary(l, p, TILE_ADD, &x, a, &zero) ||
        !lanes_binary(l, p, TILE_ADD, &y, b, &zero) || !is_number(l, p, &number, *a))
        return false;
    compare(p, "tpu_bdc_equal", to, &x, &y);
    return lanes_binary(l, p, TILE_AND, to, to, &number);
}

static bool compare_floats(struct lanes *l, const struct lane_points *p, enum tile_op op,
                           const struct lane_operand *to, struct lane_operand a, struct lane_operand b) {
    bool swaps = op == TILE_LT || op == TILE_LE, is_strict = op == TILE_LT || op == TILE_GT;
    bool may_be_same =
        !is_strict && !is_known(&a) && !is_known(&b); // both may be one NaN, to the chip equal to itself
    struct lane_operand number;
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
    return !may_be_same || (lanes_temporary(l, p, u8, NULL, &number) && is_number(l, p, &number, *x) &&
                            lanes_binary(l, p, TILE_AND, to, to, &number));
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

// The chip saturates: where `from` rounds to more than the largest number, `to` is that number. Adding 1 to
// its bits gives infinity.
bool lanes_overflow(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                    const struct lane_operand *from) {
    double most = to->type.kind == TILE_BFLOAT ? 0x1.ffp127 : 65520;
    struct lane_operand limit = {.type = from->type, .scalar = tile_const(from->type, most)};
    struct lane_operand size, more, bits = as_bits(*to);
    if (!lanes_temporary(l, p, from->type, NULL, &size) || !lanes_temporary(l, p, bits.type, NULL, &more))
        return false;
    unary(p, "tpu_bdc_abs", &size, from, -1);
    compare(p, "tpu_bdc_greater_equal_C", &more, &size, &limit);
    return lanes_binary(l, p, TILE_ADD, &bits, &bits, &more);
}

// Functions -------------------------------------------------------------------------------------------------

// Generates a command that takes one operand without strides and `scratch` tiles of scratch memory.
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

// Replaces y by x where `size`, read as a number of `type`, is above the number with the bits `limit`.
static bool keep_above(struct lane_work *w, struct lane_operand x, const struct lane_operand *size,
                       struct tile_type type, uint64_t limit, struct lane_operand *y) {
    struct lane_operand to;
    struct lane_call c = {0};
    if (!lanes_temporary(w->l, w->p, x.type, NULL, &to))
        return false;
    lanes_add(&c, to.address);
    lanes_add(&c, size->address);
    lanes_add(&c, tile_const_bits(type, limit));
    lanes_add(&c, x.address);
    lanes_add(&c, y->address);
    lanes_add_four(&c, w->p->size);
    lanes_add_dtype(&c, type);
    lanes_add_dtype(&c, x.type);
    lanes_call(&c, "tpu_bdc_greater_select");
    *y = to;
    return true;
}

// Computes e^x, or 2^x as e^(x ln 2). The chip's e^x is 0 for NaN, so NaN, whose bits without the sign are
// above those of infinity, is taken from x.
static bool exponential(struct lane_work *w, expr e, struct lane_operand x, struct lane_operand *out) {
    struct lane_operand scaled, size,
        ln2 = {.type = x.type, .scalar = tile_const(x.type, 0.69314718055994530942)};
    if (!lanes_as_tile(w->l, w->p, &x, e->type) || !lanes_aligned(w->l, w->p, &x))
        return false;
    scaled = x;
    if (e->op == TILE_EXP2 && (!lanes_temporary(w->l, w->p, x.type, NULL, &scaled) ||
                               !lanes_binary(w->l, w->p, TILE_MUL, &scaled, &x, &ln2)))
        return false;
    if (!function_of(w, "tpu_bdc_fp_exp", scaled, w->l->exponents, 2, out) ||
        !lanes_temporary(w->l, w->p, x.type, NULL, &size))
        return false;
    unary(w->p, "tpu_bdc_abs", &size, &x, -1);
    return keep_above(w, x, &size, bits_of(x.type), infinity_bits(x.type), out);
}

// Shifts by a constant, to the left if it is positive. Shifts of signed numbers to the right keep the sign.
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

// Sets `to` to the bits `from` minus those bits of x that `mask` keeps: a power of two for each x.
static bool power_for(struct lane_work *w, const struct lane_points *p, const struct lane_operand *x,
                      uint32_t mask, uint32_t from, const struct lane_operand *to) {
    struct lane_operand bits = as_bits(*x), power = as_bits(*to);
    struct lane_operand kept = {.type = bits.type, .scalar = tile_const_bits(bits.type, mask)},
                        first = {.type = bits.type, .scalar = tile_const_bits(bits.type, from)};
    return lanes_binary(w->l, p, TILE_AND, &power, &bits, &kept) &&
           lanes_binary(w->l, p, TILE_SUB, &power, &first, &power);
}

// Computes sqrt or rsqrt of f32. The chip's are wrong below 2^-125, and its arithmetic treats numbers below
// 2^-126 as zeros. So x below 2 is multiplied by 2^64, and other x by 2^-64. The chip's result is then
// divided (for rsqrt, multiplied) by the root of that scale, a power of two, so that elsewhere the bits are
// the chip's own.
static bool scaled_root(struct lane_work *w, const char *function, bool is_inverse, struct lane_operand *x,
                        struct lane_operand *out) {
    struct lane_operand scale, back, half;
    if (!lanes_temporary(w->l, w->p, out->type, NULL, &scale) ||
        !lanes_temporary(w->l, w->p, out->type, NULL, &back) ||
        !power_for(w, w->p, x, 0x40000000, 0x5f800000, &scale))
        return false;
    // The biased exponent of the scale is 127 + 64 or 127 - 64; that of its root, or of the inverse of that,
    // is half as far from 127.
    half = as_bits(back);
    shift_by(w, &half, as_bits(scale), -1);
    struct lane_operand middle = bits_number(out->type, is_inverse ? 0x1fc00000 : 0x5f400000);
    return lanes_binary(w->l, w->p, is_inverse ? TILE_ADD : TILE_SUB, &half, is_inverse ? &half : &middle,
                        is_inverse ? &middle : &half) &&
           lanes_binary(w->l, w->p, TILE_MUL, x, x, &scale) && function_of(w, function, *x, NULL, 0, out) &&
           (is_inverse || keep_above(w, *x, x, with_sign(out->type), infinity_bits(out->type) - 1, out)) &&
           lanes_binary(w->l, w->p, TILE_MUL, out, out, &back);
}

// Computes sqrt or rsqrt. The chip's sqrt is x rsqrt(x), which is NaN for infinity, so infinity is taken from
// x.
static bool root(struct lane_work *w, enum tile_op op, struct lane_operand x, struct lane_operand *out) {
    const char *function = op == TILE_SQRT ? "tpu_bdc_fp_sqrt" : "tpu_bdc_fp_rsqrt";
    struct lane_operand one = {.type = out->type, .scalar = tile_const(out->type, 1)}, normal;
    if (!lanes_as_tile(w->l, w->p, &x, out->type) || !lanes_temporary(w->l, w->p, out->type, NULL, &normal) ||
        !lanes_binary(w->l, w->p, TILE_MUL, &normal, &x, &one))
        return false;
    if (out->type.bits == 32)
        return scaled_root(w, function, op == TILE_RSQRT, &normal, out);
    return function_of(w, function, normal, NULL, 0, out) &&
           (op == TILE_RSQRT ||
            keep_above(w, normal, &normal, with_sign(out->type), infinity_bits(out->type) - 1, out));
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

static void shift_tile(struct lane_work *w, const struct lane_operand *to, const struct lane_operand *a,
                       const struct lane_operand *by) {
    struct lane_call c = {0};
    lanes_add(&c, to->address);
    lanes_add(&c, a->address);
    lanes_add(&c, by->address);
    lanes_add_four(&c, w->p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, a->stride);
    lanes_add_four(&c, by->stride);
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, to->type);
    lanes_add_dtype(&c, with_sign(by->type));
    lanes_add(&c, lanes_code(3));
    lanes_call(&c, to->type.kind == TILE_INT ? "tpu_bdc_arithmetic_shift" : "tpu_bdc_logical_shift");
}

// Shifts by a tile of counts. Counts, read as unsigned, are limited to the width less 1, so that a right
// shift of a signed number leaves only the sign. Where a count was larger, other shifts remove the last bit
// by a second shift.
static bool shift_by_tile(struct lane_work *w, expr e, const struct lane_operand *to, struct lane_operand a,
                          struct lane_operand b) {
    const struct lane_points *p = w->p;
    struct lane_operand by, count, more, zero = {.type = with_sign(e->type)};
    struct lane_operand most = bits_number(e->type, (uint64_t)e->type.bits - 1);
    bool is_right = e->op == TILE_SHR;
    zero.scalar = tile_const_int(zero.type, 0);
    if (!lanes_temporary(w->l, p, bits_of(e->type), NULL, &count) || !lanes_move(w->l, p, &count, &b) ||
        !lanes_temporary(w->l, p, bits_of(e->type), NULL, &by) ||
        !lanes_binary(w->l, p, TILE_MIN, &by, &count, &most))
        return false;
    struct lane_operand amount = by;
    amount.type = zero.type;
    if (is_right && !lanes_binary(w->l, p, TILE_SUB, &amount, &zero, &amount))
        return false;
    shift_tile(w, to, &a, &by);
    if (is_right && to->type.kind == TILE_INT)
        return true;
    if (!lanes_temporary(w->l, p, u8, NULL, &more))
        return false;
    compare_as(p, "tpu_bdc_greater_C", &more, &count, &most, is_right ? 255 : 1);
    shift_tile(w, to, to, &more);
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

// Division --------------------------------------------------------------------------------------------------

static const struct tile_type i32 = {TILE_INT, 32, 1}, u32 = {TILE_UINT, 32, 1}, f32 = {TILE_FLOAT, 32, 1};

struct division {
    struct lane_operand a, b, quotient, rest; // unsigned
};

// Sets the rest of a division to a - quotient * b.
static bool whole_rest(struct lane_work *w, struct division *d) {
    return lanes_binary(w->l, w->p, TILE_MUL, &d->rest, &d->quotient, &d->b) &&
           lanes_binary(w->l, w->p, TILE_SUB, &d->rest, &d->a, &d->rest);
}

// Adds x / b, computed in f32, to the quotient, and updates the rest. The result is never too large: it is
// multiplied by 1 - 2^-20, because the conversions and the chip's division err by less than 2^-20.
static bool add_quotient(struct lane_work *w, struct division *d, const struct lane_operand *x,
                         bool is_first) {
    const struct lane_points *p = w->p;
    struct lane_operand less = {.type = f32, .scalar = tile_const(f32, 1 - 0x1p-20)}, dividend, divisor, part;
    if (!lanes_temporary(w->l, p, f32, NULL, &dividend) || !lanes_temporary(w->l, p, f32, NULL, &divisor) ||
        !lanes_temporary(w->l, p, u32, NULL, &part) || !lanes_move(w->l, p, &dividend, x) ||
        !lanes_move(w->l, p, &divisor, &d->b) ||
        !lanes_binary(w->l, p, TILE_DIV, &dividend, &dividend, &divisor) ||
        !lanes_binary(w->l, p, TILE_MUL, &dividend, &dividend, &less) ||
        !lanes_move(w->l, p, is_first ? &d->quotient : &part, &dividend))
        return false;
    return (is_first || lanes_binary(w->l, p, TILE_ADD, &d->quotient, &d->quotient, &part)) &&
           whole_rest(w, d);
}

// Divides unsigned numbers. A quotient in f32 is at most too small. Unless is_small, the rest may be more
// than twice the divisor and is divided again. Finally the quotient is increased by 1 where the rest is not
// below the divisor.
static bool divide_unsigned(struct lane_work *w, struct division *d, bool is_small) {
    const struct lane_points *p = w->p;
    struct lane_operand more;
    if (!lanes_temporary(w->l, p, u32, NULL, &d->quotient) ||
        !lanes_temporary(w->l, p, u32, NULL, &d->rest) || !lanes_temporary(w->l, p, u32, NULL, &more) ||
        !add_quotient(w, d, &d->a, true) || (!is_small && !add_quotient(w, d, &d->rest, false)))
        return false;
    compare(p, "tpu_bdc_greater_equal", &more, &d->rest, &d->b);
    return lanes_binary(w->l, p, TILE_ADD, &d->quotient, &d->quotient, &more) && whole_rest(w, d);
}

static struct lane_operand typed(struct lane_operand x, struct tile_type type) {
    x.type = type;
    return x;
}

static bool absolute(struct lane_work *w, const struct lane_operand *x, struct lane_operand *out) {
    if (!lanes_temporary(w->l, w->p, i32, NULL, out))
        return false;
    unary(w->p, "tpu_bdc_abs", out, x, -1);
    *out = typed(*out, u32);
    return true;
}

// Makes a signed quotient, rounded down, of the quotient of the magnitudes: where the signs differ, it is
// increased by 1 if there is a rest, and negated.
static bool give_sign(struct lane_work *w, const struct lane_operand *a, const struct lane_operand *b,
                      struct division *d) {
    const struct lane_points *p = w->p;
    struct lane_operand differ, left, zero = {.type = i32, .scalar = tile_const_int(i32, 0)};
    if (!lanes_temporary(w->l, p, i32, NULL, &differ) || !lanes_temporary(w->l, p, i32, NULL, &left) ||
        !lanes_binary(w->l, p, TILE_XOR, &differ, a, b))
        return false;
    shift_by(w, &differ, differ, -31); // to -1 or 0
    d->quotient = typed(d->quotient, i32);
    d->rest = typed(d->rest, i32);
    compare_as(p, "tpu_bdc_not_equal_C", &left, &d->rest, &zero, -1);
    d->a = *a;
    d->b = *b;
    return lanes_binary(w->l, p, TILE_AND, &left, &left, &differ) &&
           lanes_binary(w->l, p, TILE_SUB, &d->quotient, &d->quotient, &left) &&
           lanes_binary(w->l, p, TILE_XOR, &d->quotient, &d->quotient, &differ) &&
           lanes_binary(w->l, p, TILE_SUB, &d->quotient, &d->quotient, &differ) && whole_rest(w, d);
}

static bool is_natural(expr e, int64_t most) {
    struct pass_range r = pass_certain_range(e);
    return r.low >= 0 && r.high <= most;
}

// Divides by a power of two with a shift, or computes the remainder with a mask.
static bool divide_by_power(struct lane_work *w, expr e, struct lane_operand a, int64_t by,
                            const struct lane_operand *to) {
    struct lane_operand mask = {.type = to->type, .scalar = tile_const_int(to->type, by - 1)};
    int bits = 0;
    while (by >> (bits + 1))
        bits++;
    if (!lanes_as_tile(w->l, w->p, &a, to->type))
        return false;
    return e->op == TILE_REM ? lanes_binary(w->l, w->p, TILE_AND, to, &a, &mask) : shift_by(w, to, a, -bits);
}

// Divides 32-bit integers. Division by 0 gives the quotient 0 and the dividend as the remainder.
static bool divide(struct lane_work *w, expr e, struct lane_operand a, struct lane_operand b,
                   const struct lane_operand *to) {
    const struct lane_points *p = w->p;
    int64_t by = b.scalar ? pass_number(b.scalar) : -1,
            most = to->type.kind == TILE_INT ? INT32_MAX : UINT32_MAX;
    bool is_unsigned = is_natural(e->arg[0], most) && is_natural(e->arg[1], most);
    if (by > 0 && (by & (by - 1)) == 0)
        return divide_by_power(w, e, a, by, to);
    struct division d = {.a = a, .b = b};
    if (!lanes_as_tile(w->l, p, &a, to->type) || !lanes_as_tile(w->l, p, &b, to->type))
        return false;
    if (is_unsigned) {
        d.a = typed(a, u32);
        d.b = typed(b, u32);
    } else if (!absolute(w, &a, &d.a) || !absolute(w, &b, &d.b)) {
        return false;
    }
    if (!divide_unsigned(w, &d, is_natural(e->arg[0], 1 << 18)) ||
        (!is_unsigned && !give_sign(w, &a, &b, &d)))
        return false;
    if (e->op == TILE_REM || by > 0)
        return lanes_move(w->l, p, to, e->op == TILE_REM ? &d.rest : &d.quotient);
    struct lane_operand some, zero = {.type = to->type, .scalar = tile_const_int(to->type, 0)};
    if (!lanes_temporary(w->l, p, to->type, NULL, &some))
        return false;
    compare_as(p, "tpu_bdc_not_equal_C", &some, &b, &zero, -1);
    return lanes_binary(w->l, p, TILE_AND, to, &some, &d.quotient);
}

// Quotients of floats ---------------------------------------------------------------------------------------

// Returns the points reduced to the dimensions along which an operand varies, and c; marks these in `along`.
static struct lane_points points_of(const struct lane_points *p, const struct lane_operand *b, bool *along) {
    struct lane_points some = *p;
    for (int d = 0; d < LANE_DIMS; d++)
        if (!(along[d] = d == LANE_C || pass_number(b->stride[d]) != 0)) {
            some.size[d] = lanes_number(1);
            some.most[d] = 1;
        }
    return some;
}

// Computes 1 / b: the chip's inverse y, which is some ULPs off, and a step of Newton's method, y (2 - b y),
// which makes inverses of powers of two exact. Where b y is NaN, as for 0 and infinity, y stays.
static bool inverse(struct lane_work *w, const struct lane_points *p, const bool *along,
                    const struct lane_operand *b, struct lane_operand *out) {
    struct lane_operand one = {.type = b->type, .scalar = tile_const(b->type, 1)}, two = one, half = one,
                        step;
    two.scalar = tile_const(b->type, 2);
    half.scalar = tile_const(b->type, 0.5);
    return lanes_temporary(w->l, w->p, b->type, along, out) &&
           lanes_temporary(w->l, w->p, b->type, along, &step) &&
           lanes_binary(w->l, p, TILE_DIV, out, &one, b) && lanes_binary(w->l, p, TILE_MUL, &step, b, out) &&
           lanes_binary(w->l, p, TILE_SUB, &step, &two, &step) &&
           lanes_binary(w->l, p, TILE_MAX, &step, &step, &half) &&
           lanes_binary(w->l, p, TILE_MUL, out, out, &step);
}

// Computes a power of two for each b by which b is scaled so that its inverse is within the range of f32:
// half the inverse of the power of two below b, and at least 2^-126. Sets *by to the scaled b; dividing by b
// is then multiplying by the scale and by the inverse of *by.
static bool normalised(struct lane_work *w, const struct lane_points *p, const bool *along,
                       const struct lane_operand *b, struct lane_operand *scale, struct lane_operand *by) {
    struct lane_operand least = {.type = i32, .scalar = tile_const_int(i32, 0x00800000)}, whole;
    if (!lanes_temporary(w->l, w->p, b->type, along, scale) ||
        !lanes_temporary(w->l, w->p, b->type, along, by) ||
        !power_for(w, p, b, 0x7f800000, 0x7e800000, scale))
        return false;
    whole = *scale;
    whole.type = i32;
    return lanes_binary(w->l, p, TILE_MAX, &whole, &whole, &least) &&
           lanes_binary(w->l, p, TILE_MUL, by, b, scale);
}

// Divides by a number of the control program by multiplying with its inverse. If the number may be so large
// that its inverse is too small for f32, both operands are multiplied by 2^-64 first.
static bool divide_by_number(struct lane_work *w, const struct lane_operand *a, expr number,
                             const struct lane_operand *to) {
    struct tile_type type = to->type;
    expr b = lanes_scalar(type, number), large = tile_const(type, 0x1p100), one = tile_const(type, 1);
    struct lane_operand scale = {.type = type}, by = scale;
    bool is_small = b->op == TILE_CONST && fabs(tile_value_of(type, b->bits).f) < 0x1p100;
    if (is_small || type.bits != 32) {
        by.scalar = tile_binary(TILE_DIV, one, b);
        return lanes_binary(w->l, w->p, TILE_MUL, to, a, &by);
    }
    expr size = tile_unary(TILE_ABS, b);
    scale.scalar =
        tile_ternary(TILE_SELECT, tile_binary(TILE_LT, large, size), tile_const(type, 0x1p-64), one);
    by.scalar = tile_binary(TILE_DIV, one, tile_binary(TILE_MUL, b, scale.scalar));
    return lanes_binary(w->l, w->p, TILE_MUL, to, a, &scale) &&
           lanes_binary(w->l, w->p, TILE_MUL, to, to, &by);
}

// Divides floats by multiplying with the inverse. f32 operands are first multiplied by a power of two.
static bool divide_floats(struct lane_work *w, const struct lane_operand *a, struct lane_operand b,
                          const struct lane_operand *to) {
    bool along[LANE_DIMS];
    struct lane_operand scale, scaled, by;
    if (b.scalar)
        return divide_by_number(w, a, b.scalar, to);
    struct lane_points some = points_of(w->p, &b, along);
    if (b.type.bits != 32)
        return inverse(w, &some, along, &b, &by) && lanes_binary(w->l, w->p, TILE_MUL, to, a, &by);
    return normalised(w, &some, along, &b, &scale, &scaled) && inverse(w, &some, along, &scaled, &by) &&
           lanes_binary(w->l, w->p, TILE_MUL, to, a, &scale) &&
           lanes_binary(w->l, w->p, TILE_MUL, to, to, &by);
}

// Maximum and minimum ---------------------------------------------------------------------------------------

// The chip's max is a > b ? a : b and its min a >= b ? b : a: both pass on NaN from one side alone, and the
// second of two zeros. So the result is computed in both orders, which differ only in these cases, and their
// bits are combined by OR: this keeps NaN, and gives -0 as the minimum of two different zeros. Their maximum
// has to be 0, so a zero with the AND of both signs is added. `to` may be a or b.
bool lanes_extreme(struct lanes *l, const struct lane_points *p, enum tile_op op,
                   const struct lane_operand *to, const struct lane_operand *a,
                   const struct lane_operand *b) {
    struct lane_operand x = as_bits(*to), y, zero, sign = bits_number(to->type, sign_bit(to->type));
    if (!lanes_temporary(l, p, to->type, NULL, &y) || !lanes_binary(l, p, op, &y, b, a) ||
        !lanes_binary(l, p, op, to, a, b))
        return false;
    y = as_bits(y);
    if (op == TILE_MIN)
        return lanes_binary(l, p, TILE_OR, &x, &x, &y);
    if (!lanes_temporary(l, p, x.type, NULL, &zero) || !lanes_binary(l, p, TILE_AND, &zero, &x, &y) ||
        !lanes_binary(l, p, TILE_AND, &zero, &zero, &sign) || !lanes_binary(l, p, TILE_OR, &x, &x, &y))
        return false;
    zero.type = to->type;
    return lanes_binary(l, p, TILE_ADD, to, to, &zero);
}

// Computes a maximum or minimum of floats. If one side is a constant, one order is enough, except in min(x,
// 0): NaN is passed on from the other side. In max(x, 0), adding 0 turns -0 into 0.
static bool extreme(struct lane_work *w, enum tile_op op, struct lane_operand a, struct lane_operand b,
                    const struct lane_operand *to) {
    const struct lane_points *p = w->p;
    bool is_known_first = is_known(&a);
    struct lane_operand number = is_known_first ? a : b, x = is_known_first ? b : a;
    struct lane_operand zero = {.type = to->type, .scalar = tile_const(to->type, 0)};
    if ((!is_known(&number) && !lanes_as_tile(w->l, p, &number, to->type)) ||
        !lanes_as_tile(w->l, p, &x, to->type))
        return false;
    bool is_zero = number.scalar && !lanes_scalar(to->type, number.scalar)->bits;
    if (number.scalar && op == TILE_MIN && !is_zero)
        return lanes_binary(w->l, p, op, to, &x, &number);
    bool is_number = number.scalar;
    if (!lanes_as_tile(w->l, p, &number, to->type))
        return false;
    if (!is_number || op == TILE_MIN)
        return lanes_extreme(w->l, p, op, to, &x, &number);
    return lanes_binary(w->l, p, op, to, &number, &x) &&
           (!is_zero || lanes_binary(w->l, p, TILE_ADD, to, to, &zero));
}

// Ops of formulas -------------------------------------------------------------------------------------------

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
    if (e->op == TILE_FMA) // rounded twice: the chip has no fused one
        return lanes_temporary(w->l, p, e->type, NULL, &product) &&
               lanes_binary(w->l, p, TILE_MUL, &product, &x[0], &x[1]) &&
               lanes_binary(w->l, p, TILE_ADD, to, &product, &x[2]);
    if (e->op == TILE_DIV)
        return divide_floats(w, &x[0], x[1], to);
    if ((e->op == TILE_MAX || e->op == TILE_MIN) && tile_type_is_float(e->type))
        return extreme(w, e->op, x[0], x[1], to);
    if (e->args == 2)
        return lanes_binary(w->l, p, e->op, to, &x[0], &x[1]);
    if (e->op == TILE_NEG && tile_type_is_float(e->type)) { // the chip's is 0 - x, which is 0, not -0, for 0
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
// Computes the ops whose result is not written to a given place.
bool lanes_compute_apart(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *out,
                         bool *is_done) {
    *is_done = true;
    out->type = lanes_type(e->type);
    switch (e->op) {
    case TILE_SELECT:
    case TILE_RARE: return lanes_select(w, x[0], x[1], x[2], e->type, out);
    case TILE_EXP:
    case TILE_EXP2: return exponential(w, e, x[0], out);
    case TILE_SQRT:
    case TILE_RSQRT: return root(w, e->op, x[0], out);
    case TILE_BITCAST:
        *out = x[0];
        out->type = lanes_type(e->type);
        return true;
    default: *is_done = false; return true;
    }
}
