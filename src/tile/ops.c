// ops.c - the ops of expressions: names, number of operands, and which types they take and give.

#include "tile/tile.h"

#include "op/rules.h"

#include <ctype.h>
#include <string.h>

struct op_info {
    const char *name;       // in the text form
    const char *short_name; // of rows: the name of the row, which the parser accepts too
    int8_t arity;
    uint8_t rule;
};

static const struct op_info ops[TILE_OP_COUNT] = {
#define UNARY(NAME, fn, doc, rule, ...)   [TILE_##NAME] = {&#fn[3], #NAME, 1, rule},
#define BINARY(NAME, fn, doc, rule, ...)  [TILE_##NAME] = {&#fn[3], #NAME, 2, rule},
#define TERNARY(NAME, fn, doc, rule, ...) [TILE_##NAME] = {&#fn[3], #NAME, 3, rule},
#include "op/elementwise.def"
    [TILE_CONST] = {.name = "constant"},
    [TILE_INDEX] = {.name = "index"},
    [TILE_SYMBOL] = {.name = "symbol"},
    [TILE_SCALAR] = {.name = "scalar"},
    [TILE_LOCAL] = {.name = "local"},
    [TILE_LOAD] = {.name = "load"},
    [TILE_ADDRESS] = {.name = "address"},
    [TILE_CAST] = {.name = "cast", .arity = 1},
    [TILE_BITCAST] = {.name = "bits", .arity = 1},
    [TILE_FMA] = {.name = "fma", .arity = 3},
    [TILE_RARE] = {.name = "rare", .arity = 3},
    [TILE_EXP2] = {.name = "exp2", .arity = 1},
    [TILE_RE] = {.name = "re", .arity = 1},
    [TILE_IM] = {.name = "im", .arity = 1},
    [TILE_PAIR] = {.name = "pair", .arity = 2},
};

const char *tile_op_name(enum tile_op op) {
    return (unsigned)op < TILE_OP_COUNT ? ops[op].name : "?";
}
int tile_op_arity(enum tile_op op) {
    return (unsigned)op < TILE_OP_COUNT ? ops[op].arity : 0;
}
int tile_op_rule(enum tile_op op) {
    return (unsigned)op < TILE_OP_COUNT ? ops[op].rule : 0;
}

static bool same_letters(const char *upper, const char *lower) {
    while (*upper && tolower((unsigned char)*upper) == *lower)
        upper++, lower++;
    return !*upper && !*lower;
}

enum tile_op tile_op_find(const char *name) {
    for (int op = 0; op < TILE_OP_COUNT; op++)
        if (!strcmp(name, ops[op].name))
            return (enum tile_op)op;
    for (int op = 0; tile_op_is_row((enum tile_op)op); op++)
        if (same_letters(ops[op].short_name, name))
            return (enum tile_op)op;
    return TILE_OP_COUNT;
}

// Types -----------------------------------------------------------------------------------------------------

bool tile_op_takes(enum tile_op op, struct tile_type type) {
    if (!tile_op_is_row(op) || tile_type_is_small(type))
        return false;
    int rule = ops[op].rule;
    bool is_complex = tile_type_is_complex(type), is_float = tile_type_is_float(type);
    return !((rule & FLOAT) && !is_float && !is_complex) && !((rule & REAL) && is_complex) &&
           !((rule & BITS) && (is_float || is_complex));
}

static bool refuse(enum tile_op op, struct tile_type type) {
    return error_false(ZL_ERROR_DTYPE, "tile: %s does not take %s", ops[op].name, tile_type_name(type));
}

static bool agree(enum tile_op op, expr a, expr b) {
    return tile_type_equal(a->type, b->type) ||
           error_false(ZL_ERROR_DTYPE, "tile: %s of %s and %s: operands must agree in type", ops[op].name,
                       tile_type_name(a->type), tile_type_name(b->type));
}

static struct tile_type part_of(struct tile_type type) {
    return tile_type_is_complex(type) ? (struct tile_type){TILE_FLOAT, 32, type.lanes} : type;
}

static bool type_of_row(enum tile_op op, const expr *arg, struct tile_type *out) {
    struct tile_type type = arg[0]->type;
    if (!tile_op_takes(op, type))
        return refuse(op, type);
    if (ops[op].arity == 2 && !agree(op, arg[0], arg[1]))
        return false;
    if (ops[op].rule & TRUTH)
        type = (struct tile_type){TILE_BOOL, 1, type.lanes};
    *out = ops[op].rule & PART ? part_of(type) : type;
    return true;
}

static bool type_of_select(enum tile_op op, const expr *arg, struct tile_type *out) {
    struct tile_type mask = arg[0]->type;
    if (!tile_type_is_bool(mask) || (mask.lanes != 1 && mask.lanes != arg[1]->type.lanes))
        return error_false(ZL_ERROR_DTYPE, "tile: the condition of %s is %s, not bool", ops[op].name,
                           tile_type_name(mask));
    *out = arg[1]->type;
    return agree(op, arg[1], arg[2]);
}

static bool type_of_fma(const expr *arg, struct tile_type *out) {
    *out = arg[0]->type;
    if (!tile_type_is_float(*out))
        return refuse(TILE_FMA, *out);
    return agree(TILE_FMA, arg[0], arg[1]) && agree(TILE_FMA, arg[0], arg[2]);
}

static bool type_of_part(enum tile_op op, const expr *arg, struct tile_type *out) {
    *out = part_of(arg[0]->type);
    return tile_type_is_complex(arg[0]->type) || refuse(op, arg[0]->type);
}

static bool type_of_pair(const expr *arg, struct tile_type *out) {
    struct tile_type type = arg[0]->type;
    *out = (struct tile_type){TILE_COMPLEX, 64, type.lanes};
    if (type.kind != TILE_FLOAT || type.bits != 32)
        return refuse(TILE_PAIR, type);
    return agree(TILE_PAIR, arg[0], arg[1]);
}

bool tile_op_type(enum tile_op op, const expr *arg, struct tile_type *out) {
    switch (op) {
    case TILE_SELECT:
    case TILE_RARE: return type_of_select(op, arg, out);
    case TILE_FMA: return type_of_fma(arg, out);
    case TILE_EXP2:
        *out = arg[0]->type;
        return (out->kind == TILE_FLOAT && out->bits == 32) || refuse(op, *out);
    case TILE_RE:
    case TILE_IM: return type_of_part(op, arg, out);
    case TILE_PAIR: return type_of_pair(arg, out);
    default:
        return tile_op_is_row(op)
                   ? type_of_row(op, arg, out)
                   : error_false(ZL_ERROR_VALUE, "tile: '%s' is not an op on values", tile_op_name(op));
    }
}
