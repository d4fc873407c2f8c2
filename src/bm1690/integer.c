// integer.c - elementwise commands on integers and bits: sums, products, logic, shifts, comparisons.
//
// Sums and products are exact in 64 bits, shifted with rounding, and then wrapped or saturated to the
// result's dtype.

#include "bm1690/element.h"

run_function run_integer, run_bits, run_shift, run_compare;

// Elements --------------------------------------------------------------------------------------------------

// The operation of a command on one element; b is an element of a tensor, or the scalar.
struct step {
    const struct view *y, *a, *b;
    uint8_t scalar[4];
    enum bm1690_dtype scalar_dtype;
    int operation, shift, mode;
    bool saturates;
    uint32_t word; // the word that a comparison writes where it holds
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

static bool run_elements(struct command *command, const struct step *s, element_function *apply) {
    struct elements e = {s, apply};
    if (!command->core->counts_only)
        chip_spread(s->y, run_channel, &e);
    return true;
}

// Returns the step of a command whose operands are dst, src or src0, and then src1, shift, or the scalar C.
static struct step step_of(struct command *command) {
    struct step s = {
        .y = command_operand(command, 0), .a = command_operand(command, 1), .operation = command->operation};
    uint32_t word = command_value(command, "C")->word;
    s.b = command->views > 2 ? command_operand(command, 2) : NULL;
    memcpy(s.scalar, &word, sizeof word);
    s.scalar_dtype = command_has(command, "C_dtype") ? (enum bm1690_dtype)command_value(command, "C_dtype")->i
                                                     : s.a->dtype;
    s.mode = (int)command_value(command, "rounding_mode")->i;
    s.saturates = command_value(command, "saturation")->i != 0;
    return s;
}

// Sums and products -----------------------------------------------------------------------------------------

__extension__ typedef unsigned __int128 wide_bits;
__extension__ typedef __int128 wide; // holds the product of two unsigned 32-bit numbers, shifted

static wide left_by(wide x, int places) {
    return (wide)((wide_bits)x << places);
}

// Returns x * 2^shift, rounded by the mode. A number shifted left by more than 31 places is out of range for
// every dtype.
static wide shift_by(wide x, int shift, int mode) {
    if (shift >= 0)
        return left_by(x, MIN_OF(shift, 62));
    int right = MIN_OF(-shift, 100);
    wide below = x >> right, rest = x - left_by(below, right), half = (wide)1 << (right - 1);
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

static void store_wide(uint8_t *to, enum bm1690_dtype dtype, wide x, bool saturates) {
    int64_t least, most;
    element_range(dtype, &least, &most);
    if (saturates)
        x = x < least ? least : x > most ? most : x;
    element_store_int(to, dtype, (int64_t)(uint32_t)x);
}

static void integer_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    wide p = element_load_int(a, s->a->dtype), q = element_load_int(b, s->b ? s->b->dtype : s->scalar_dtype);
    wide x = s->operation == ADD   ? p + q
             : s->operation == SUB ? p - q
             : s->operation == MUL ? (wide)((wide_bits)p * (wide_bits)q)
                                   : q - p;
    store_wide(y, s->y->dtype, shift_by(x, s->shift, s->mode), s->saturates);
}

bool run_integer(struct command *command) {
    struct step s = step_of(command);
    enum bm1690_dtype other = s.b ? s.b->dtype : s.scalar_dtype;
    bool is_difference = command->operation == SUB || command->operation == REVERSED_SUB,
         is_signed = is_difference || element_is_signed(s.a->dtype) || element_is_signed(other);
    s.shift = (int8_t)command_value(command, "shift")->i; // char is unsigned on some hosts
    if (element_is_signed(s.y->dtype) != is_signed)
        return command_refuse(command, "dst_dtype", "is %s; of %s it is to be %s",
                              bm1690_dtype_name(s.y->dtype),
                              is_difference ? "a difference"
                              : is_signed   ? "a signed operand"
                                            : "unsigned operands",
                              is_signed ? "signed" : "unsigned");
    return run_elements(command, &s, integer_element);
}

// Bits ------------------------------------------------------------------------------------------------------

static void bits_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    for (int i = 0; i < s->y->size; i++)
        y[i] = (uint8_t)(s->operation == AND   ? a[i] & b[i]
                         : s->operation == OR  ? a[i] | b[i]
                         : s->operation == XOR ? a[i] ^ b[i]
                                               : ~a[i]);
}

bool run_bits(struct command *command) {
    struct step s = step_of(command);
    return run_elements(command, &s, bits_element);
}

// Shifts one element. Left shifts are taken modulo 32, as in the reference model.
static void shift_element(const struct step *s, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    int64_t amount = s->b ? element_load_int(b, s->b->dtype) : s->shift;
    wide x =
        shift_by(element_load_int(a, s->a->dtype), amount >= 0 ? (int)(amount & 31) : (int)amount, s->mode);
    store_wide(y, s->y->dtype, x, false);
}

bool run_shift(struct command *command) {
    struct step s = step_of(command);
    if (element_is_signed(s.y->dtype) != element_is_signed(s.a->dtype))
        return command_refuse(command, "dst_dtype",
                              "is %s and src_dtype %s; both are to be signed, or neither",
                              bm1690_dtype_name(s.y->dtype), bm1690_dtype_name(s.a->dtype));
    if (s.b && s.b->size > s.a->size)
        return command_refuse(command, "shift_dtype", "is %s, wider than the %s that is shifted",
                              bm1690_dtype_name(s.b->dtype), bm1690_dtype_name(s.a->dtype));
    s.shift = (int8_t)command_value(command, "C")->i;
    return run_elements(command, &s, shift_element);
}

// Comparisons -----------------------------------------------------------------------------------------------

bool element_holds(int operation, enum bm1690_dtype dtype, const uint8_t *a, const uint8_t *b) {
    bool same = memcmp(a, b, (size_t)bm1690_dtype_bytes(dtype)) == 0, greater;
    bool not_less;
    if (element_is_float(dtype)) {
        float x = element_operand(a, dtype), y = element_operand(b, dtype);
        greater = x > y;
        not_less = same || x >= y;
    } else {
        int64_t x = element_load_int(a, dtype), y = element_load_int(b, dtype);
        greater = x > y;
        not_less = x >= y;
    }
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
    uint32_t word = element_holds(s->operation, s->a->dtype, a, b) ? s->word : 0;
    memcpy(y, &word, (size_t)s->y->size);
}

bool run_compare(struct command *command) {
    struct step s = step_of(command);
    s.word = command_value(command, "true_val")->word;
    if (s.y->size > s.a->size)
        return command_refuse(command, "dst_dtype", "is %s, wider than the %s that are compared",
                              bm1690_dtype_name(s.y->dtype), bm1690_dtype_name(s.a->dtype));
    return run_elements(command, &s, compare_element);
}
