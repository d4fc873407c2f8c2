// recipe.c - writes what the calls of a group compute as rows, which are the key of a kernel, and builds the
// tile IR from them.

#include "fuse/fuse.h"
#include "op/ops.h"
#include "tile/notation.h"

#include <stdio.h>
#include <string.h>

// Writing ---------------------------------------------------------------------------------------------------

static int op_of(const struct fuse_writer *w, int index) {
    const struct call *c = w->g->call[index];
    if (c->op->kind == OP_REDUCE)
        return (int)fuse_combines(c);
    if (c->op->kind != OP_ELEMENTWISE)
        return TILE_CAST;
    return c->op->row == TILE_DIV && w->divide ? w->divide(w, index) : (int)c->op->row;
}

// Returns a reference to operand k of a call, or -1 if there are too many inputs.
static int refer(struct fuse_writer *w, int index, int k, int op) {
    int source = k < fuse_step(w->g, index)->inputs ? fuse_step(w->g, index)->source[k] : -1;
    int row = source >= w->begin ? w->number[source - w->begin] : -1;
    if (row >= 0)
        return row;
    int input = w->input(w, index, k, op);
    w->r->inputs = (int16_t)MAX_OF(w->r->inputs, input + 1);
    return input < 0 ? -1 : FUSE_INPUT | input;
}

static bool add_row(struct fuse_writer *w, int index) {
    const struct fuse_step *s = fuse_step(w->g, index);
    int op = op_of(w, index);
    struct fuse_op row = {fuse_row(w->g, index)->kind,
                          (uint8_t)(s->inputs + (op == FUSE_QUOTIENT)),
                          s->dtype[0],
                          s->dtype[s->inputs],
                          (int16_t)op,
                          {0}};
    for (int k = 0; k < row.inputs; k++) {
        int reference = refer(w, index, k, op);
        if (reference < 0)
            return false;
        row.arg[k] = (int16_t)reference;
    }
    w->number[index - w->begin] = w->r->rows;
    w->r->row[w->r->rows++] = row;
    return true;
}

// A view has the row of the call whose result it shows. If it has another dtype, it gets a row of its own:
// memory would hold the same bits, but a kernel computes with values.
static void add_view(struct fuse_writer *w, int index) {
    int source = fuse_step(w->g, index)->source[0];
    int16_t row = source >= w->begin ? w->number[source - w->begin] : -1;
    uint8_t dtype = fuse_output(w->g, index)->dtype, from = w->g->call[index]->in[0]->dtype;
    if (row >= 0 && dtype != from) {
        w->r->row[w->r->rows] = (struct fuse_op){ROW_ELEMENTS, 1, dtype, from, TILE_BITCAST, {row}};
        row = w->r->rows++;
    }
    w->number[index - w->begin] = row;
}

bool fuse_is_result(const struct fuse_writer *w, int index) {
    const struct fuse_row *r = fuse_row(w->g, index);
    return !row_is_view((enum row_kind)r->kind) && (r->stored || r->until >= w->end);
}

bool fuse_write(struct fuse_writer *w) {
    struct fuse_recipe *r = w->r;
    memset(r, 0, offsetof(struct fuse_recipe, row));
    for (int i = w->begin; i < w->end; i++)
        if (fuse_row(w->g, i)->kind == ROW_ASIDE)
            w->number[i - w->begin] = -1;
        else if (fuse_row(w->g, i)->kind == ROW_VIEW)
            add_view(w, i);
        else if (!add_row(w, i))
            return false;
    for (int i = w->begin; i < w->end; i++) {
        if (!fuse_is_result(w, i))
            continue;
        if (r->inputs + r->outputs == w->operands)
            return false;
        r->operand[r->inputs + r->outputs++] =
            (int16_t)(w->number[i - w->begin] << 1 | fuse_row(w->g, i)->of_lines);
    }
    return r->inputs + r->outputs <= w->operands;
}

// Building --------------------------------------------------------------------------------------------------

// Divisors within these bounds are plain: their inverses are normal floats, and so are quotients by them,
// except those of the smallest and largest floats.
const double fuse_plain_least = 0x1p-60, fuse_plain_most = 0x1p60;

// Returns x / b, correctly rounded. Two corrections by the remainder round as an f32 division does if x is
// plain. In bf16 the product with the inverse suffices: quotients of 8-bit significands are too far from the
// points where rounding changes.
static expr quotient(zl_dtype dtype, expr x, expr b, expr inverse, expr *rare) {
    struct tile_type wide = tile_type_of(ZL_FLOAT32), type = tile_type_of(dtype);
    expr a = tile_cast(wide, x), by = tile_cast(wide, b), q = MUL(a, inverse);
    if (dtype == ZL_BFLOAT16)
        return tile_cast(type, q);
    for (int i = 0; i < 2; i++) {
        expr left = FMA(NEG(by), q, a);
        q = FMA(left, inverse, q);
    }
    expr size = ABS(a);
    expr is_plain =
        AND(GE(size, tile_const(wide, fuse_plain_least)), LE(size, tile_const(wide, fuse_plain_most)));
    expr is_rare = NOT(is_plain);
    *rare = *rare ? OR(*rare, is_rare) : is_rare;
    return tile_cast(type, q);
}

// The inverse does not depend on the element, so it is computed once.
static expr divide_by_inverse(struct tile_type type, expr a, expr b) {
    const struct tile_type wide = tile_type_of(ZL_FLOAT32);
    expr inverse = DIV(tile_const(wide, 1), tile_cast(wide, b));
    return tile_cast(type, MUL(tile_cast(wide, a), inverse));
}

expr fuse_apply(const struct fuse_op *op, const expr *arg, expr *rare) {
    struct tile_type type = tile_type_of((zl_dtype)op->dtype);
    switch (op->op) {
    case FUSE_QUOTIENT:
        return rare ? quotient((zl_dtype)op->dtype, arg[0], arg[1], arg[2], rare) : DIV(arg[0], arg[1]);
    case FUSE_BY_INVERSE: return divide_by_inverse(type, arg[0], arg[1]);
    case TILE_CAST: return tile_cast(type, arg[0]);
    case TILE_BITCAST: return tile_bitcast(type, arg[0]);
    default: break;
    }
    return op->inputs == 1   ? tile_unary((enum tile_op)op->op, arg[0])
           : op->inputs == 2 ? tile_binary((enum tile_op)op->op, arg[0], arg[1])
                             : tile_ternary((enum tile_op)op->op, arg[0], arg[1], arg[2]);
}

static struct tile_buffer *vector(char letter, int number, zl_dtype dtype, expr n, bool is_output) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", letter, number);
    return tile_parameter_buffer(name, tile_type_of(dtype), 1, &n, is_output);
}

static expr load_input(const struct fuse_recipe *r, int k, expr n, expr i) {
    zl_dtype dtype = fuse_input_dtype(r, k);
    if (fuse_form(r, k) == FUSE_SCALAR)
        return fuse_declare_value("x", k, dtype).value;
    expr one = fuse_form(r, k) == FUSE_ONE ? tile_number(1) : NULL, at = one ? tile_number(0) : i;
    return tile_load(vector('x', k, dtype, one ? one : n, false), 1, &at, NULL, NULL);
}

// The row that the last one reduces need not be a result: then it is kept in registers.
struct tile_kernel *fuse_build_map(const struct fuse_recipe *r) {
    const struct fuse_op *last = &r->row[r->rows - 1];
    const bool reduces = last->kind == ROW_REDUCE;
    struct tile_buffer *y[FUSE_OPERANDS], *from = NULL, *to = NULL;
    expr input[FUSE_OPERANDS], value[FUSE_CALLS], result[FUSE_OPERANDS];
    int count = r->outputs - reduces; // the last one is the reduction's
    tile_begin("fused");
    expr n = fuse_symbol("n", -1, 0, 1);
    const struct tile_name *name = tile_index("i", n);
    expr i = tile_name_value(name, TILE_INDEX);
    for (int k = 0; k < r->inputs; k++)
        input[k] = load_input(r, k, n, i);
    fuse_rows(r, 0, r->rows - reduces, input, value, false, NULL);
    for (int k = 0; k < count; k++) {
        result[k] = value[fuse_output_row(r, k)];
        y[k] = vector('y', k, fuse_output_dtype(r, k), n, true);
        if (reduces && fuse_output_row(r, k) == last->arg[0])
            from = y[k];
    }
    if (reduces)
        to = vector('y', count, (zl_dtype)last->from, tile_number(1), true);
    if (reduces && !from) {
        y[count] = from = tile_alloc("z", tile_type_of((zl_dtype)last->from), TILE_REGISTER, 1, &n);
        result[count++] = value[last->arg[0]];
    }
    tile_open_map(1, &name, &n);
    for (int k = 0; k < count; k++)
        tile_store(y[k], 1, &i, result[k], NULL);
    tile_close();
    if (reduces)
        tile_append((struct tile_stmt){.kind = TILE_REDUCE,
                                       .region = {{.buffer = from}, {.buffer = to}},
                                       .combine = (enum tile_op)last->op,
                                       .clear = true});
    return tile_end();
}
