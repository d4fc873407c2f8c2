// integer.c - elementwise commands on integers and bits: sums, products, logic, shifts, comparisons.
//
// Sums and products are exact in 64 bits, shifted with rounding, and then wrapped or saturated to the result's dtype.

#include "bm1690/number.h"

run_function run_integer, run_bits, run_shift, run_compare;

// Elements ---------------------------------------------------------------------------------------------------------------

// What a command does with one element: b is of a tensor or the scalar.
struct step {
    const struct call *call;
    const struct view *y, *a, *b;
    uint8_t scalar[4];
    enum bm1690_dtype scalar_dtype;
    int operation, shift, mode;
    bool saturates;
    uint32_t word; // what a comparison writes
};
typedef void element_function(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b);

static const uint8_t *at(const struct view *v, int n, int c, int h, int w) {
    return view_row(v, n, c, h) + w * v->stride[3] * v->size;
}

struct elements {
    const struct step *step;
    element_function *apply;
};

static void run_channel(void *context, int part) {
    const struct elements *e = context;
    const struct step *s = e->step;
    int n = part / s->y->dim.c, c = part % s->y->dim.c;
    for (int h = 0; h < s->y->dim.h; h++)
        for (int w = 0; w < s->y->dim.w; w++)
            e->apply(s, (uint8_t *)(uintptr_t)at(s->y, n, c, h, w), at(s->a, n, c, h, w),
                     s->b ? at(s->b, n, c, h, w) : s->scalar);
}

static bool run_elements(struct call *call, const struct step *s, element_function *apply) {
    struct elements e = {s, apply};
    if (!call->core->counts_only)
        chip_spread(s->y, run_channel, &e);
    return true;
}

// A step of a command whose operands are dst, src or src0, and then src1, shift, or the scalar C.
static struct step step_of(struct call *call) {
    struct step s = {.call = call, .y = call_operand(call, 0), .a = call_operand(call, 1), .operation = call->operation};
    uint32_t word = call_value(call, "C")->word;
    s.b = call->views > 2 ? call_operand(call, 2) : NULL;
    memcpy(s.scalar, &word, sizeof word);
    s.scalar_dtype = call_has(call, "C_dtype") ? (enum bm1690_dtype)call_value(call, "C_dtype")->i : s.a->dtype;
    s.mode = (int)call_value(call, "rounding_mode")->i;
    s.saturates = call_value(call, "saturation")->i != 0;
    return s;
}

// Sums and products --------------------------------------------------------------------------------------------------------

// x * 2^shift, rounded by the mode.
static int64_t shift_by(int64_t x, int shift, int mode) {
    if (shift >= 0)
        return shift > 62 ? 0 : (int64_t)((uint64_t)x << shift);
    int right = MIN_OF(-shift, 62);
    int64_t below = x >> right, rest = x - (int64_t)((uint64_t)below << right), half = INT64_C(1) << (right - 1);
    bool is_negative = x < 0, up;
    switch (mode) {
    case ROUND_AWAY: up = is_negative ? rest > half : rest >= half; break;
    case ROUND_ZERO: up = is_negative && rest; break;
    case ROUND_DOWN: up = false; break;
    case ROUND_UP: up = rest; break;
    case ROUND_HALF_UP: up = rest >= half; break;
    case ROUND_HALF_DOWN: up = rest > half; break;
    default: up = rest > half || (rest == half && (below & 1)); break;
    }
    return below + up;
}

// A left shift that leaves 64 bits is beyond every dtype, on the side of its sign.
static int64_t saturated(int64_t x, int shift, int mode, int64_t least, int64_t most) {
    if (shift > 0 && x != 0 && (shift > 31 || x > INT64_MAX >> shift || x < INT64_MIN >> shift))
        return x < 0 ? least : most;
    int64_t shifted = shift_by(x, shift, mode);
    return MAX_OF(least, MIN_OF(most, shifted));
}

static void integer_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    int64_t p = number_load_int(a, s->a->dtype), q = number_load_int(b, s->b ? s->b->dtype : s->scalar_dtype), least, most,
            x = s->operation == ADD   ? p + q
                : s->operation == SUB ? p - q
                : s->operation == MUL ? (int64_t)((uint64_t)p * (uint64_t)q)
                                      : q - p;
    number_range(s->y->dtype, &least, &most);
    number_store_int(y, s->y->dtype,
                     s->saturates ? saturated(x, s->shift, s->mode, least, most) : shift_by(x, s->shift, s->mode));
}

bool run_integer(struct call *call) {
    struct step s = step_of(call);
    enum bm1690_dtype other = s.b ? s.b->dtype : s.scalar_dtype;
    bool is_difference = call->operation == SUB || call->operation == REVERSED_SUB,
         is_signed = is_difference || number_is_signed(s.a->dtype) || number_is_signed(other);
    s.shift = (int8_t)call_value(call, "shift")->i; // char has no sign on some hosts
    if (number_is_signed(s.y->dtype) != is_signed)
        return call_refuse(call, "dst_dtype", "is %s; of %s it is to be %s", bm1690_dtype_name(s.y->dtype),
                           is_difference ? "a difference" : is_signed ? "a signed operand" : "unsigned operands",
                           is_signed ? "signed" : "unsigned");
    return run_elements(call, &s, integer_element);
}

// Bits ---------------------------------------------------------------------------------------------------------------------

static void bits_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    for (int i = 0; i < s->y->size; i++)
        y[i] = (uint8_t)(s->operation == AND   ? a[i] & b[i]
                         : s->operation == OR  ? a[i] | b[i]
                         : s->operation == XOR ? a[i] ^ b[i]
                                               : ~a[i]);
}

bool run_bits(struct call *call) {
    struct step s = step_of(call);
    return run_elements(call, &s, bits_element);
}

// Amounts to the left are taken modulo the width of 32 bits, as the model's own shifts are.
static void shift_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    int64_t amount = s->b ? number_load_int(b, s->b->dtype) : s->shift;
    number_store_int(y, s->y->dtype,
                     shift_by(number_load_int(a, s->a->dtype), amount >= 0 ? (int)(amount & 31) : (int)amount, s->mode));
}

bool run_shift(struct call *call) {
    struct step s = step_of(call);
    if (number_is_signed(s.y->dtype) != number_is_signed(s.a->dtype))
        return call_refuse(call, "dst_dtype", "is %s and src_dtype %s; both are to be signed, or neither",
                           bm1690_dtype_name(s.y->dtype), bm1690_dtype_name(s.a->dtype));
    if (s.b && s.b->size > s.a->size)
        return call_refuse(call, "shift_dtype", "is %s, wider than the %s that is shifted", bm1690_dtype_name(s.b->dtype),
                           bm1690_dtype_name(s.a->dtype));
    s.shift = (int8_t)call_value(call, "C")->i;
    return run_elements(call, &s, shift_element);
}

// Comparisons --------------------------------------------------------------------------------------------------------------

bool number_holds(int operation, enum bm1690_dtype dtype, const uint8_t *a, const uint8_t *b) {
    bool same = memcmp(a, b, (size_t)bm1690_dtype_bytes(dtype)) == 0, greater;
    if (number_is_float(dtype))
        greater = number_flush(number_load(a, dtype)) > number_flush(number_load(b, dtype));
    else
        greater = number_load_int(a, dtype) > number_load_int(b, dtype);
    bool not_less = same || greater ||
                    (number_is_float(dtype) && number_flush(number_load(a, dtype)) == number_flush(number_load(b, dtype)));
    switch (operation) {
    case GREATER: return greater;
    case GREATER_EQUAL: return not_less;
    case LESS: return !not_less;
    case LESS_EQUAL: return !greater;
    case EQUAL: return same;
    default: return !same;
    }
}

static void compare_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    uint32_t word = number_holds(s->operation, s->a->dtype, a, b) ? s->word : 0;
    memcpy(y, &word, (size_t)s->y->size);
}

bool run_compare(struct call *call) {
    struct step s = step_of(call);
    s.word = call_value(call, "true_val")->word;
    if (s.y->size > s.a->size)
        return call_refuse(call, "dst_dtype", "is %s, wider than the %s that are compared", bm1690_dtype_name(s.y->dtype),
                           bm1690_dtype_name(s.a->dtype));
    return run_elements(call, &s, compare_element);
}
