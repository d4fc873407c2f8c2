// kernels_lines_math.c - what functions of lines compute, as expressions. Sums make their results differ in the last bits
// from those of the CPU: so exponentials and quotients may too, and are shorter here.

#include "device/kernels/kernels_lines.h"
#include "pass/pass.h"
#include "render/render.h"

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

struct building {
    const struct line_recipe *r;
    expr input[KERNEL_OPERANDS], reduction[LINE_REDUCTIONS], inverse[FUSE_CALLS], value[FUSE_CALLS];
    bool has_exp2;
};

static expr number(double value) {
    return tile_const(f32, value);
}

static expr fma_of(expr a, expr b, expr c) {
    return tile_ternary(TILE_FMA, a, b, c);
}

// 2^t (1 + s ln2) with t + s = x / ln2, within 2 ulp; below 2^-126 it may be 0. Without s it has 17 bits.
static expr short_exp(expr x, bool is_rough) {
    const double log2_e = 1.44269502, rest = 1.92596299e-08;
    if (is_rough)
        return tile_unary(TILE_EXP2, tile_binary(TILE_MUL, x, number(log2_e)));
    x = tile_binary(TILE_MIN, tile_binary(TILE_MAX, x, number(-110)), number(100));
    expr t = tile_binary(TILE_MUL, x, number(log2_e));
    expr s = fma_of(x, number(rest), fma_of(x, number(log2_e), tile_unary(TILE_NEG, t)));
    expr y = tile_unary(TILE_EXP2, t);
    return fma_of(y, tile_binary(TILE_MUL, s, number(0.693147182)), y);
}

// What brings a divisor to where its inverse has all its digits.
static expr scale_of(expr b) {
    expr size = tile_unary(TILE_ABS, b), small = tile_binary(TILE_LT, size, number(0x1p-64)),
         large = tile_binary(TILE_GT, size, number(0x1p64));
    return tile_ternary(TILE_SELECT, small, number(0x1p64),
                        tile_ternary(TILE_SELECT, large, number(0x1p-64), number(1)));
}

static expr inverse_of(const struct line_recipe *r, expr b) {
    return tile_binary(TILE_DIV, number(1), r->at_once ? b : tile_binary(TILE_MUL, b, scale_of(b)));
}

// a/b from 1/b, with what is left over added: rounded as the quotient is, nearly always. Of what is not finite the first guess
// is right, and the rest is not a number.
static expr short_quotient(expr a, expr b, expr inverse, bool is_rough) {
    expr scale = scale_of(b);
    a = tile_binary(TILE_MUL, a, scale);
    b = tile_binary(TILE_MUL, b, scale);
    expr q = tile_binary(TILE_MUL, a, inverse);
    if (is_rough)
        return q;
    expr left = fma_of(tile_unary(TILE_NEG, q), b, a);
    return tile_ternary(TILE_SELECT, tile_binary(TILE_EQ, left, left), fma_of(left, inverse, q), q);
}

static expr value_of(struct building *b, int reference);

static expr compute(struct building *b, int row) {
    const struct fuse_op *op = line_row(b->r, row);
    expr arg[4] = {NULL};
    for (int k = 0; k < op->inputs; k++)
        arg[k] = value_of(b, op->arg[k]);
    if (op->op == TILE_EXP && b->has_exp2 && op->dtype == ZL_FLOAT32)
        return short_exp(arg[0], b->r->rough);
    if (line_divides(b->r, row) && b->inverse[op->arg[1]] && b->r->at_once)
        return tile_binary(TILE_MUL, arg[0], b->inverse[op->arg[1]]); // a sum of softmax is 1 at least
    if (line_divides(b->r, row) && b->inverse[op->arg[1]])
        return short_quotient(arg[0], arg[1], b->inverse[op->arg[1]], b->r->rough);
    return fuse_apply(op, arg, NULL);
}

static expr value_of(struct building *b, int reference) {
    if (!fuse_is_row(reference))
        return b->input[reference & ~FUSE_INPUT];
    if (line_row(b->r, reference)->kind == ROW_REDUCE)
        return b->reduction[line_reduction(b->r, reference)];
    if (!b->value[reference])
        b->value[reference] = compute(b, reference);
    return b->value[reference];
}

// In the order in which texts list them.
static void take_parameters(struct building *b, const struct line_function *f, expr n, expr at) {
    const struct line_recipe *r = b->r;
    for (int k = 0; k < r->f.inputs; k++)
        if (f->inputs >> k & 1)
            b->input[k] = fuse_parameter('x', k, fuse_input_dtype(&r->f, k), n, at);
    for (int k = 0; k < r->reductions; k++)
        if (f->reductions >> k & 1)
            b->reduction[k] = fuse_parameter('r', k, line_dtype(r, r->reduction[k]), n, at);
    for (int k = 0; k < r->f.rows; k++)
        if ((f->rows | f->kept) >> k & 1)
            b->value[k] = fuse_parameter('v', k, line_dtype(r, k), n, at);
    for (int k = 0; k < r->f.rows; k++)
        if (f->inverses >> k & 1)
            b->inverse[k] = fuse_parameter('q', k, ZL_FLOAT32, n, at);
}

struct tile_kernel *line_build(const struct line_recipe *r, const struct line_function *f, bool inverts,
                               const char *dialect) {
    struct building b = {.r = r, .has_exp2 = target_spells_op(render_target(dialect), TILE_EXP2, f32)};
    expr result[FUSE_CALLS];
    tile_begin("lines");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
    const struct tile_name *i = tile_index("i", n);
    take_parameters(&b, f, n, tile_name_value(i, TILE_INDEX));
    for (int k = 0; k < f->count; k++) {
        result[k] = value_of(&b, f->wanted[k]);
        if (inverts)
            result[k] = inverse_of(r, result[k]);
    }
    fuse_store(f->count, result, i, n);
    return tile_end();
}

struct tile_kernel *line_build_factor(void) {
    tile_begin("lines");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
    const struct tile_name *i = tile_index("i", n);
    expr at = tile_name_value(i, TILE_INDEX), from = fuse_parameter('x', 0, ZL_FLOAT32, n, at);
    expr result = short_exp(tile_binary(TILE_SUB, from, fuse_parameter('x', 1, ZL_FLOAT32, n, at)), false);
    fuse_store(1, &result, i, n);
    return tile_end();
}
