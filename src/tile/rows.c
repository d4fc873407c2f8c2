// rows.c - makes functions of the `lower` column of elementwise.def, and the kernels of single ops.

#include "op/rules.h"
#include "tile/math.h"
#include "tile/notation.h"

#include <stdio.h>
#include <string.h>

// The lower column ------------------------------------------------------------------------------------------

#define K(v)          tile_const(a->type, v)
#define BASE          NULL
#define OF_COMPLEX(e) (tile_is_c64(a) ? (e) : BASE)

#define UNARY(NAME, fn, doc, rule, tangent, lower, domain) \
    static expr lower_##NAME(expr a, expr b, expr c) {     \
        expr x = a;                                        \
        (void)x, (void)b, (void)c;                         \
        return lower;                                      \
    }
#define BINARY(NAME, fn, doc, rule, tangents, lower, domain) \
    static expr lower_##NAME(expr a, expr b, expr c) {       \
        (void)a, (void)b, (void)c;                           \
        return lower;                                        \
    }
#define TERNARY(NAME, fn, doc, rule, tangents, lower, domain) \
    BINARY(NAME, fn, doc, rule, tangents, lower, domain)
#include "op/elementwise.def"

static expr (*const lower_column[])(expr a, expr b, expr c) = {
#define UNARY(NAME, ...)   [TILE_##NAME] = lower_##NAME,
#define BINARY(NAME, ...)  [TILE_##NAME] = lower_##NAME,
#define TERNARY(NAME, ...) [TILE_##NAME] = lower_##NAME,
#include "op/elementwise.def"
};

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

// Formulas of 16-bit floats are computed in f32 and rounded once at the end. erf of bf16 has a shorter one.
static expr lower_half(enum tile_op op, expr a, expr b) {
    struct tile_type type = a->type, wide = {TILE_FLOAT, 32, type.lanes};
    expr x = tile_cast(wide, a);
    expr result = op == TILE_ERF && type.kind == TILE_BFLOAT
                      ? math_short_erf_f32(x)
                      : lower_column[op](x, b ? tile_cast(wide, b) : NULL, NULL);
    return result && tile_type_equal(result->type, wide) ? tile_cast(type, result) : result;
}

expr tile_lower(enum tile_op op, expr a, expr b, expr c) {
    if (!tile_op_is_row(op) || !a)
        return NULL;
    if (tile_type_is_half(a->type))
        return lower_half(op, a, b);
    return lower_column[op](a, b, c);
}

// Rules -----------------------------------------------------------------------------------------------------

bool tile_row_takes(enum tile_op op, zl_dtype dtype) {
    return (unsigned)dtype < ZL_DTYPE_COUNT && tile_op_takes(op, tile_type_of(dtype));
}

zl_dtype tile_row_gives(enum tile_op op, zl_dtype dtype) {
    if (tile_op_rule(op) & TRUTH)
        return ZL_BOOL;
    return (tile_op_rule(op) & PART) && dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype;
}

// Returns the type of an operand of a row on dtype: bool for the condition of a select, else that of dtype.
static struct tile_type operand_type(enum tile_op op, zl_dtype dtype, int at) {
    return tile_type_of(op == TILE_SELECT && at == 0 ? ZL_BOOL : dtype);
}

bool tile_row_is_base(enum tile_op op, zl_dtype dtype) {
    static const char *const name[] = {"a", "b", "c"};
    if (!tile_row_takes(op, dtype))
        return false;
    expr arg[3] = {NULL};
    tile_begin("is_base");
    for (int i = 0; i < tile_op_arity(op); i++)
        arg[i] = tile_name_value(tile_name(name[i], operand_type(op, dtype, i)), TILE_LOCAL);
    bool is_base = !tile_lower(op, arg[0], arg[1], arg[2]);
    struct tile_kernel *kernel = tile_end();
    is_base = is_base && kernel;
    tile_free(kernel);
    return is_base;
}

// Kernels of single ops -------------------------------------------------------------------------------------

static void *refuse(const char *what, enum tile_op op, zl_dtype dtype) {
    return error_set(ZL_ERROR_DTYPE, "tile: %s %s does not take %s", what, tile_op_name(op),
                     tile_type_name(tile_type_of(dtype)));
}

static bool is_form(const char *form, int arity) {
    return form && (int)strlen(form) == arity && (int)strspn(form, "vs") == arity;
}

// Begins a kernel named after op, types and form.
static void begin_named(const char *first, const char *second, const char *third) {
    char name[96];
    snprintf(name, sizeof name, "%s_%s%s%s", first, second, *third ? "_" : "", third);
    tile_begin(name);
}

// Adds an operand of a row kernel: a parameter of n elements, of which it returns element i, or of one
// element.
static expr operand(const char *name, struct tile_type type, char form, expr n, expr i) {
    expr size = form == 'v' ? n : tile_const_int(tile_index_type(), 1);
    expr at = form == 'v' ? i : tile_const_int(tile_index_type(), 0);
    struct tile_buffer *buffer = tile_parameter_buffer(name, type, 1, &size, false);
    return buffer ? tile_load(buffer, 1, &at, NULL, NULL) : NULL;
}

static expr symbol_n(void) {
    return tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
}

// Builds `map i in n { y[i] = value }`.
static void map_to_output(struct tile_type type, expr n, const struct tile_name *i, expr value) {
    expr at = tile_name_value(i, TILE_INDEX);
    struct tile_buffer *y = tile_parameter_buffer("y", type, 1, &n, true);
    tile_open_map(1, &i, &n);
    tile_store(y, 1, &at, value, NULL);
    tile_close();
}

static expr apply(enum tile_op op, const expr *arg) {
    switch (tile_op_arity(op)) {
    case 1: return tile_unary(op, arg[0]);
    case 2: return tile_binary(op, arg[0], arg[1]);
    default: return tile_ternary(op, arg[0], arg[1], arg[2]);
    }
}

struct tile_kernel *tile_row_kernel(enum tile_op op, zl_dtype dtype, const char *form) {
    static const char *const name[] = {"a", "b", "c"};
    if (!tile_row_takes(op, dtype))
        return refuse("row", op, dtype);
    int arity = tile_op_arity(op);
    if (!is_form(form, arity))
        return error_set(ZL_ERROR_VALUE,
                         "tile: '%s' is no form of %s: it has a 'v' or 's' for each of its %d operands",
                         form ? form : "", tile_op_name(op), arity);
    begin_named(tile_op_name(op), tile_type_name(tile_type_of(dtype)), form);
    expr n = symbol_n(), arg[3] = {NULL};
    const struct tile_name *i = tile_index("i", n);
    for (int k = 0; k < arity; k++)
        arg[k] = operand(name[k], operand_type(op, dtype, k), form[k], n, tile_name_value(i, TILE_INDEX));
    map_to_output(tile_type_of(tile_row_gives(op, dtype)), n, i, apply(op, arg));
    return tile_end();
}

struct tile_kernel *tile_cast_kernel(zl_dtype to, zl_dtype from) {
    struct tile_type to_type = tile_type_of(to), from_type = tile_type_of(from);
    begin_named("cast", tile_type_name(from_type), tile_type_name(to_type));
    expr n = symbol_n();
    const struct tile_name *i = tile_index("i", n);
    expr x = operand("a", from_type, 'v', n, tile_name_value(i, TILE_INDEX));
    map_to_output(to_type, n, i, tile_cast(to_type, x));
    return tile_end();
}

// Reductions ------------------------------------------------------------------------------------------------

zl_dtype tile_reduce_gives(zl_dtype dtype) {
    return tile_type_is_half(tile_type_of(dtype)) ? ZL_FLOAT32 : dtype;
}

static uint64_t bits_of_real(struct tile_type type, double value) {
    static const struct tile_type f64 = {TILE_FLOAT, 64, 1};
    return tile_bits_of(type, tile_convert(type, f64, (union tile_value){.f = value}));
}

// Returns the bits of the number below all others (infinity < 0) or above them. Casts from float saturate, so
// of integers that is the smallest or largest one.
static uint64_t bits_of_extreme(struct tile_type type, double infinity) {
    if (tile_type_is_bool(type))
        return infinity > 0;
    uint64_t bits = bits_of_real(tile_type_is_complex(type) ? f32 : type, infinity);
    return tile_type_is_complex(type) ? bits | bits << 32 : bits;
}

bool tile_identity(enum tile_op combine, struct tile_type type, uint64_t *bits) {
    bool takes = tile_op_takes(combine, type);
    switch (combine) {
    case TILE_ADD:
    case TILE_OR: *bits = 0; return takes;
    case TILE_MUL: *bits = bits_of_real(type, 1); return takes;
    case TILE_LOGADDEXP: *bits = bits_of_real(type, -1.0 / 0.0); return takes;
    case TILE_AND: *bits = UINT64_MAX >> (64 - type.bits); return takes;
    case TILE_MAX:
    case TILE_MIN: *bits = bits_of_extreme(type, combine == TILE_MAX ? -1.0 / 0.0 : 1.0 / 0.0); return takes;
    default: return false;
    }
}

expr tile_identity_value(enum tile_op combine, struct tile_type type) {
    uint64_t bits;
    return tile_identity(combine, type, &bits) ? tile_const_bits(type, bits) : NULL;
}

struct tile_kernel *tile_reduce_kernel(enum tile_op combine, zl_dtype dtype) {
    uint64_t identity;
    struct tile_type type = tile_type_of(dtype), wide = tile_type_of(tile_reduce_gives(dtype));
    if ((unsigned)dtype >= ZL_DTYPE_COUNT || !tile_identity(combine, wide, &identity))
        return refuse("a reduction by", combine, dtype);
    begin_named("reduce", tile_op_name(combine), tile_type_name(type));
    expr n = symbol_n(), one = tile_const_int(tile_index_type(), 1);
    struct tile_buffer *x = tile_parameter_buffer("x", type, 1, &n, false);
    struct tile_buffer *y = tile_parameter_buffer("y", wide, 1, &one, true);
    tile_append((struct tile_stmt){
        .kind = TILE_REDUCE, .region = {{.buffer = x}, {.buffer = y}}, .combine = combine, .clear = true});
    return tile_end();
}
