// stablehlo.c - renders a kernel that is a single map as StableHLO: one statement on whole tensors per node.
//
// XLA does not evaluate a formula as written: it contracts products and sums, and simplifies (x + c) - c to
// x. So an op is written as the op of StableHLO or CHLO where there is one, and passes expand our own
// formulas only for the rest.

#include "render/render.h"

#include <inttypes.h>
#include <string.h>

// Spellings -------------------------------------------------------------------------------------------------

// A spelling is a list of steps, the last of which gives the value. %a %b %c are operands, and %1 %2 ...
// earlier steps. The types of tensors are %t (of the last operand), %p (of the first), %r (of the result), %d
// (f64) and %B (booleans); %s is the kind of a right shift.
#define NUMBERS    (PASS_INTEGER | PASS_FLOAT)
#define HALVES     (PASS_F16 | PASS_BF16)
#define ONE(op)    "stablehlo." op " %a : %t"
#define TWO(op)    "stablehlo." op " %a, %b : %t"
#define ORDER(how) "stablehlo.compare " how ", %a, %b : (%t, %t) -> %r"
#define CHLO(op)   "chlo." op " %a : %t -> %r"

static const struct spelling words[TILE_OP_COUNT] = {
    [TILE_NEG] = {NUMBERS | HALVES | PASS_COMPLEX, ONE("negate")},
    [TILE_ABS] = {PASS_SIGNED | PASS_FLOAT | HALVES | PASS_COMPLEX, "stablehlo.abs %a : (%t) -> %r"},
    [TILE_SIGN] = {PASS_SIGNED | PASS_FLOAT | HALVES | PASS_COMPLEX, ONE("sign")},
    [TILE_SQRT] = {PASS_FLOAT | PASS_COMPLEX, ONE("sqrt")},
    [TILE_RSQRT] = {PASS_FLOAT,
                    "stablehlo.sqrt %a : %t;stablehlo.constant dense<1.0> : %t;stablehlo.divide %2, %1 : %t"},
    [TILE_EXP] = {PASS_FLOAT | PASS_COMPLEX, ONE("exponential")},
    [TILE_EXPM1] = {PASS_FLOAT | PASS_COMPLEX, ONE("exponential_minus_one")},
    [TILE_LOG] = {PASS_FLOAT | PASS_COMPLEX, ONE("log")},
    [TILE_LOG2] = {PASS_FLOAT, "stablehlo.log %a : %t;stablehlo.constant dense<1.4426950408889634> : %t;"
                               "stablehlo.multiply %1, %2 : %t"},
    [TILE_LOG10] = {PASS_FLOAT, "stablehlo.log %a : %t;stablehlo.constant dense<0.43429448190325183> : %t;"
                                "stablehlo.multiply %1, %2 : %t"},
    [TILE_LOG1P] = {PASS_FLOAT | PASS_COMPLEX, ONE("log_plus_one")},
    [TILE_SIN] = {PASS_FLOAT | PASS_COMPLEX, ONE("sine")},
    [TILE_COS] = {PASS_FLOAT | PASS_COMPLEX, ONE("cosine")},
    [TILE_TAN] = {PASS_FLOAT | PASS_COMPLEX, ONE("tan")},
    [TILE_ASIN] = {PASS_FLOAT | PASS_COMPLEX, CHLO("asin")},
    [TILE_ACOS] = {PASS_FLOAT | PASS_COMPLEX, CHLO("acos")},
    [TILE_ATAN] = {PASS_FLOAT | PASS_COMPLEX, CHLO("atan")},
    [TILE_SINH] = {PASS_FLOAT | PASS_COMPLEX, CHLO("sinh")},
    [TILE_COSH] = {PASS_FLOAT | PASS_COMPLEX, CHLO("cosh")},
    [TILE_TANH] = {PASS_FLOAT | PASS_COMPLEX, ONE("tanh")},
    [TILE_ASINH] = {PASS_FLOAT | PASS_COMPLEX, CHLO("asinh")},
    [TILE_ACOSH] = {PASS_FLOAT | PASS_COMPLEX, CHLO("acosh")},
    [TILE_ATANH] = {PASS_FLOAT | PASS_COMPLEX, CHLO("atanh")},
    [TILE_ERF] = {PASS_FLOAT, CHLO("erf")},
    [TILE_ERFINV] = {PASS_FLOAT, CHLO("erf_inv")},
    [TILE_SIGMOID] = {PASS_FLOAT, ONE("logistic")},
    [TILE_FLOOR] = {PASS_FLOAT, ONE("floor")},
    [TILE_CEIL] = {PASS_FLOAT, ONE("ceil")},
    [TILE_RINT] = {PASS_FLOAT, ONE("round_nearest_even")},
    [TILE_TRUNC] = {PASS_FLOAT,
                    "stablehlo.abs %a : %t;stablehlo.floor %1 : %t;stablehlo.sign %a : %t;stablehlo.multiply "
                    "%2, %3 : %t;"
                    "stablehlo.compare EQ, %1, %2 : (%t, %t) -> %B;stablehlo.select %5, %a, %4 : %B, %t"},
    [TILE_NOT] = {PASS_INTEGER | PASS_BOOL, ONE("not")},
    [TILE_ADD] = {NUMBERS | PASS_COMPLEX, TWO("add")},
    [TILE_SUB] = {NUMBERS | PASS_COMPLEX, TWO("subtract")},
    [TILE_MUL] = {NUMBERS | PASS_COMPLEX, TWO("multiply")},
    [TILE_DIV] = {PASS_FLOAT | PASS_COMPLEX, TWO("divide")},
    // The quotient rounded down, whatever the signs; division by 0 gives 0.
    [TILE_FLOORDIV] =
        {PASS_INTEGER, NULL,
         "stablehlo.constant dense<0> : %t;stablehlo.constant dense<1> : %t;"
         "stablehlo.compare EQ, %b, %1 : (%t, %t) -> %B;stablehlo.select %3, %2, %b : %B, %t;"
         "stablehlo.divide %a, %4 : %t;stablehlo.multiply %5, %4 : %t;stablehlo.subtract %a, %6 : %t;"
         "stablehlo.compare NE, %7, %1 : (%t, %t) -> %B;stablehlo.xor %7, %4 : %t;"
         "stablehlo.compare LT, %9, %1 : (%t, %t) -> %B;stablehlo.and %8, %10 : %B;"
         "stablehlo.subtract %5, %2 : %t;stablehlo.select %11, %12, %5 : %B, %t;"
         "stablehlo.select %3, %1, %13 : %B, %t"},
    // C's remainder, moved to the sign of the divisor. For integers, the remainder of a division by 0 is the
    // dividend.
    [TILE_REM] =
        {NUMBERS,
         "stablehlo.remainder %a, %b : %t;stablehlo.constant dense<0.0> : %t;"
         "stablehlo.compare NE, %1, %2 : (%t, %t) -> %B;stablehlo.compare LT, %1, %2 : (%t, %t) -> %B;"
         "stablehlo.compare LT, %b, %2 : (%t, %t) -> %B;stablehlo.xor %4, %5 : %B;stablehlo.and %3, %6 : %B;"
         "stablehlo.add %1, %b : %t;stablehlo.select %7, %8, %1 : %B, %t",
         "stablehlo.constant dense<0> : %t;stablehlo.constant dense<1> : %t;"
         "stablehlo.compare EQ, %b, %1 : (%t, %t) -> %B;stablehlo.select %3, %2, %b : %B, %t;"
         "stablehlo.remainder %a, %4 : %t;stablehlo.compare NE, %5, %1 : (%t, %t) -> %B;stablehlo.xor %5, %4 "
         ": %t;"
         "stablehlo.compare LT, %7, %1 : (%t, %t) -> %B;stablehlo.and %6, %8 : %B;stablehlo.add %5, %4 : %t;"
         "stablehlo.select %9, %10, %5 : %B, %t;stablehlo.select %3, %a, %11 : %B, %t"},
    [TILE_POW] = {PASS_FLOAT | PASS_COMPLEX, TWO("power")},
    [TILE_MAX] = {NUMBERS | HALVES, TWO("maximum")},
    [TILE_MIN] = {NUMBERS | HALVES, TWO("minimum")},
    // max + log1p(exp(min - max)), or the larger operand itself if it is infinite or NaN.
    [TILE_LOGADDEXP] =
        {PASS_FLOAT,
         "stablehlo.maximum %a, %b : %t;stablehlo.minimum %a, %b : %t;stablehlo.subtract %2, %1 : %t;"
         "stablehlo.exponential %3 : %t;stablehlo.log_plus_one %4 : %t;stablehlo.add %1, %5 : %t;"
         "stablehlo.is_finite %1 : (%t) -> %B;stablehlo.select %7, %6, %1 : %B, %t"},
    [TILE_ATAN2] = {PASS_FLOAT, TWO("atan2")},
    [TILE_EQ] = {NUMBERS | HALVES | PASS_COMPLEX, ORDER("EQ")},
    [TILE_NE] = {NUMBERS | HALVES | PASS_COMPLEX, ORDER("NE")},
    [TILE_LT] = {NUMBERS | HALVES, ORDER("LT")},
    [TILE_LE] = {NUMBERS | HALVES, ORDER("LE")},
    [TILE_GT] = {NUMBERS | HALVES, ORDER("GT")},
    [TILE_GE] = {NUMBERS | HALVES, ORDER("GE")},
    [TILE_AND] = {PASS_INTEGER | PASS_BOOL, TWO("and")},
    [TILE_OR] = {PASS_INTEGER | PASS_BOOL, TWO("or")},
    [TILE_XOR] = {PASS_INTEGER | PASS_BOOL, TWO("xor")},
    [TILE_SHL] = {PASS_INTEGER, TWO("shift_left")},
    [TILE_SHR] = {PASS_INTEGER, "stablehlo.shift_right_%s %a, %b : %t"},
    [TILE_SELECT] = {NUMBERS | HALVES | PASS_COMPLEX, "stablehlo.select %a, %b, %c : %p, %t"},
    [TILE_RARE] = {NUMBERS | HALVES | PASS_COMPLEX, "stablehlo.select %a, %b, %c : %p, %t"},
    // f32 is computed in f64, where the product is exact.
    [TILE_FMA] =
        {PASS_FLOAT,
         "stablehlo.convert %a : (%t) -> %d;stablehlo.convert %b : (%t) -> %d;"
         "stablehlo.convert %c : (%t) -> %d;stablehlo.multiply %1, %2 : %d;stablehlo.add %4, %3 : %d;"
         "stablehlo.convert %5 : (%d) -> %t"},
    [TILE_EXP2] = {PASS_FLOAT,
                   "stablehlo.constant dense<0.69314718055994531> : %t;stablehlo.multiply %a, %1 : %t;"
                   "stablehlo.exponential %2 : %t"},
    [TILE_RE] = {PASS_COMPLEX, "stablehlo.real %a : (%t) -> %r"},
    [TILE_IM] = {PASS_COMPLEX, "stablehlo.imag %a : (%t) -> %r"},
    [TILE_PAIR] = {PASS_FLOAT, "stablehlo.complex %a, %b : %r"},
    [TILE_CAST] = {~0u, "stablehlo.convert %a : (%t) -> %r"},
    [TILE_BITCAST] = {~0u, "stablehlo.bitcast_convert %a : (%t) -> %r"},
};

#define REALS (NUMBERS | HALVES | PASS_BOOL)
const struct target render_stablehlo_target = {
    .name = "stablehlo",
    .op = words,
    .cast = {[ZL_BOOL] = REALS,
             [ZL_UINT8] = REALS,
             [ZL_UINT16] = REALS,
             [ZL_UINT32] = REALS,
             [ZL_UINT64] = REALS,
             [ZL_INT8] = REALS,
             [ZL_INT16] = REALS,
             [ZL_INT32] = REALS,
             [ZL_INT64] = REALS,
             [ZL_FLOAT16] = REALS,
             [ZL_BFLOAT16] = REALS,
             [ZL_FLOAT32] = REALS | PASS_COMPLEX,
             [ZL_FLOAT64] = REALS,
             [ZL_COMPLEX64] = REALS},
};

const char *render_stablehlo_type(zl_dtype dtype) {
    static const char *const name[] = {[ZL_BOOL] = "i1",       [ZL_UINT8] = "ui8",
                                       [ZL_UINT16] = "ui16",   [ZL_UINT32] = "ui32",
                                       [ZL_UINT64] = "ui64",   [ZL_INT8] = "i8",
                                       [ZL_INT16] = "i16",     [ZL_INT32] = "i32",
                                       [ZL_INT64] = "i64",     [ZL_FLOAT16] = "f16",
                                       [ZL_BFLOAT16] = "bf16", [ZL_FLOAT32] = "f32",
                                       [ZL_FLOAT64] = "f64",   [ZL_COMPLEX64] = "complex<f32>"};
    return name[dtype];
}

// Nodes -----------------------------------------------------------------------------------------------------

struct tensors {
    struct text *out;
    int *names;        // numbers of tensors used so far
    const char *shape; // sizes, as "2x3x"
    const int *operand;
    int *name; // by id of node: the number of its tensor
};

static void add_type(struct tensors *t, struct tile_type type) {
    text_add(t->out, "tensor<%s%s>", t->shape, render_stablehlo_type(tile_dtype_of(type)));
}

static void add_step(struct tensors *t, expr e, const char *at, const char *end, int first) {
    static const struct tile_type truth = {TILE_BOOL, 1, 1}, f64 = {TILE_FLOAT, 64, 1};
    for (; at < end; at++) {
        if (*at != '%') {
            text_bytes(t->out, at, 1);
            continue;
        }
        int number = 0, digits = 0;
        switch (*++at) {
        case 'a':
        case 'b':
        case 'c': text_add(t->out, "%%%d", t->name[e->arg[*at - 'a']->id]); break;
        case 't': add_type(t, e->arg[e->args - 1]->type); break;
        case 'p': add_type(t, e->arg[0]->type); break;
        case 'r': add_type(t, e->type); break;
        case 'd': add_type(t, f64); break;
        case 'B': add_type(t, truth); break;
        case 's': text_add(t->out, "%s", e->type.kind == TILE_INT ? "arithmetic" : "logical"); break;
        default:
            for (; at[digits] >= '0' && at[digits] <= '9'; digits++)
                number = number * 10 + at[digits] - '0';
            text_add(t->out, "%%%d", first + number - 1);
            at += digits - 1;
        }
    }
}

static void add_op(struct tensors *t, expr e) {
    const struct spelling *word = &words[e->op];
    bool is_integer = tile_type_is_integer(e->arg[e->args - 1]->type);
    const char *at = word->integer && is_integer ? word->integer : word->text;
    int first = *t->names;
    while (at) {
        const char *end = strchr(at, ';');
        t->name[e->id] = (*t->names)++;
        text_add(t->out, "%%%d = ", t->name[e->id]);
        add_step(t, e, at, end ? end : at + strlen(at), first);
        text_add(t->out, "\n");
        at = end ? end + 1 : NULL;
    }
}

static void add_constant(struct tensors *t, expr e) {
    t->name[e->id] = (*t->names)++;
    text_add(t->out, "%%%d = stablehlo.constant dense<", t->name[e->id]);
    if (tile_type_is_bool(e->type))
        text_add(t->out, e->bits ? "true" : "false");
    else if (tile_type_is_complex(e->type))
        text_add(t->out, "(0x%08" PRIX64 ", 0x%08" PRIX64 ")", e->bits & 0xffffffff, e->bits >> 32);
    else if (tile_type_is_float(e->type))
        text_add(t->out, "0x%0*" PRIX64, e->type.bits / 4, e->bits);
    else if (e->type.kind == TILE_UINT)
        text_add(t->out, "%" PRIu64, e->bits);
    else
        text_add(t->out, "%" PRId64, tile_value_of(e->type, e->bits).i);
    text_add(t->out, "> : ");
    add_type(t, e->type);
    text_add(t->out, "\n");
}

static bool add_node(struct tensors *t, expr e) {
    if (e->op == TILE_LOAD)
        t->name[e->id] = t->operand[e->buffer->parameter];
    else if (e->op == TILE_CONST)
        add_constant(t, e);
    else if (words[e->op].dtypes)
        add_op(t, e);
    else
        return error_false(ZL_ERROR_COMPILE, "render: stablehlo has no %s", tile_op_name(e->op));
    return true;
}

static bool add_nodes(struct tensors *t, const struct tile_kernel *kernel, const struct tile_stmt *map,
                      int *result) {
    expr *node;
    int count = pass_nodes(kernel, map->body, &node);
    bool ok = count >= 0;
    for (int i = 0; i < count && ok; i++)
        ok = add_node(t, node[i]);
    *result = ok ? t->name[map->body->value->id] : -1;
    if (count >= 0)
        memory_free(node);
    return ok && !t->out->failed;
}

static bool is_one_value(const struct tile_stmt *body) {
    return body && !body->next && body->kind == TILE_MAP && body->body && !body->body->next &&
           body->body->kind == TILE_STORE;
}

bool render_stablehlo(struct text *out, struct tile_kernel *kernel, const char *shape, const int *operand,
                      int *names, int *result) {
    if (!pass_run(kernel, &render_stablehlo_target, NULL))
        return false;
    if (!is_one_value(kernel->body))
        return error_false(ZL_ERROR_COMPILE,
                           "render: kernel '%s' is not one map, which is all that stablehlo has",
                           kernel->name);
    struct tensors t = {.out = out, .names = names, .shape = shape, .operand = operand};
    t.name = memory_alloc(sizeof *t.name * (size_t)(kernel->ids + 1));
    bool ok = t.name && add_nodes(&t, kernel, kernel->body, result);
    memory_free(t.name);
    return ok;
}
