// vector.c - the dialect `c`: C on the vector layer (device/cpu/vec).
//
// A value of the narrowest dtype takes `unroll` registers (v7_0, v7_1, ...) and a wider one proportionally
// more, so that the text does not depend on the size of registers. Booleans are masks as wide as the values
// that were compared; a mask is converted to another width where it is used.

#include "render/c/style.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    // most values of a kernel that prefetches: with more, computing takes longer than loading
    FETCH_NODES = 16,
    // most values of one that computes its end by single registers: faster than copying the end
    SHORT_NODES = 8,
};

// Spellings -------------------------------------------------------------------------------------------------

#define NUMBERS (PASS_INTEGER | PASS_FLOAT | PASS_F16)
#define FLOATS  (PASS_FLOAT | PASS_F16)
#define HALVES  (PASS_F16 | PASS_BF16)

// %m is the mask (operand 0) with lanes as wide as the value's, %r the type of the result, %d operand 2, an
// addend that the instruction may overwrite.
static const struct spelling words[TILE_OP_COUNT] = {
    [TILE_NEG] = {NUMBERS | HALVES, "vec_neg_%t(%a)"},
    [TILE_ABS] = {PASS_SIGNED | FLOATS | HALVES, "vec_abs_%t(%a)"},
    [TILE_SQRT] = {FLOATS, "vec_sqrt_%t(%a)"},
    [TILE_FLOOR] = {FLOATS, "vec_floor_%t(%a)"},
    [TILE_CEIL] = {FLOATS, "vec_ceil_%t(%a)"},
    [TILE_RINT] = {FLOATS, "vec_rint_%t(%a)"},
    [TILE_TRUNC] = {FLOATS, "vec_trunc_%t(%a)"},
    [TILE_ADD] = {NUMBERS, "vec_add_%t(%a, %b)"},
    [TILE_SUB] = {NUMBERS, "vec_sub_%t(%a, %b)"},
    [TILE_MUL] = {NUMBERS, "vec_mul_%t(%a, %b)"},
    [TILE_DIV] = {FLOATS, "vec_div_%t(%a, %b)"},
    [TILE_FLOORDIV] = {PASS_BIT(ZL_INT64) | PASS_BIT(ZL_UINT64), "vec_floordiv_%t(%a, %b)"},
    [TILE_MAX] = {NUMBERS, "vec_max_%t(%a, %b)"},
    [TILE_MIN] = {NUMBERS, "vec_min_%t(%a, %b)"},
    [TILE_EQ] = {NUMBERS, "vec_eq_%t(%a, %b)"},
    [TILE_NE] = {NUMBERS, "vec_ne_%t(%a, %b)"},
    [TILE_LT] = {NUMBERS, "vec_lt_%t(%a, %b)"},
    [TILE_LE] = {NUMBERS, "vec_le_%t(%a, %b)"},
    [TILE_GT] = {NUMBERS, "vec_lt_%t(%b, %a)"},
    [TILE_GE] = {NUMBERS, "vec_le_%t(%b, %a)"},
    [TILE_AND] = {PASS_INTEGER | PASS_BOOL, "%a & %b"},
    [TILE_OR] = {PASS_INTEGER | PASS_BOOL, "%a | %b"},
    [TILE_XOR] = {PASS_INTEGER | PASS_BOOL, "%a ^ %b"},
    [TILE_NOT] = {PASS_INTEGER | PASS_BOOL, "~%a"},
    [TILE_SHL] = {PASS_INTEGER, "vec_shl_%t(%a, %b)"},
    [TILE_SHR] = {PASS_INTEGER, "vec_shr_%t(%a, %b)"},
    [TILE_SELECT] = {NUMBERS | HALVES, "vec_select_%t(%m, %b, %c)"},
    [TILE_RARE] = {NUMBERS | HALVES, "vec_select_%t(%m, %b, %c)"},
    [TILE_FMA] = {PASS_FLOAT, "vec_fma_%t(%a, %b, %d)"},
    [TILE_BITCAST] = {0, "(vec_%r)%a"},
};

static const char *type_name(expr e) {
    return tile_type_name(e->type);
}

static bool is_complex(expr e) {
    return tile_type_is_complex(e->type);
}

// Operands --------------------------------------------------------------------------------------------------

static void number(struct style *s, const char *function, expr e) {
    text_add(s->out, "vec_%s_%s(%a%s)", function, type_name(e), tile_value_of(e->type, e->bits).f,
             e->type.bits == 32 ? "f" : "");
}

static bool is_number(expr e) {
    return e->op == TILE_CONST && tile_type_is_float(e->type) && !tile_type_is_half(e->type) &&
           isfinite(tile_value_of(e->type, e->bits).f);
}

static void constant(struct style *s, expr e) {
    union tile_value v = tile_value_of(e->type, e->bits);
    const char *type = type_name(e);
    if (tile_type_is_half(e->type))
        text_add(s->out, "vec_splat_%s(0x%04x)", type, (unsigned)e->bits);
    else if (is_number(e))
        number(s, "splat", e);
    else if (e->type.kind == TILE_INT && v.i > INT64_MIN)
        text_add(s->out, "vec_splat_%s(%" PRId64 ")", type, v.i);
    else if (e->type.kind == TILE_UINT)
        text_add(s->out, "vec_splat_%s(0x%" PRIx64 "u)", type, e->bits);
    else
        text_add(s->out, "(vec_%s)vec_splat_u%d(0x%" PRIx64 "u)", type, e->type.bits, e->bits);
}

static void operand(struct style *s, expr e, int j) {
    if (e->op == TILE_CONST)
        constant(s, e);
    else if (s->plan->of[e->id].is_fixed)
        text_add(s->out, "s%d", s->plan->of[e->id].number);
    else if (s->lane)
        text_add(s->out, "v%d_%s", s->plan->of[e->id].number, s->lane);
    else
        text_add(s->out, "v%d_%d", s->plan->of[e->id].number, j);
}

// Writes register j of a boolean as a mask of lanes of `bytes` bytes. A fixed mask is the same at every
// width.
static void mask(struct style *s, expr e, int bytes, int j) {
    const struct node_plan *p = &s->plan->of[e->id];
    if (e->op == TILE_CONST)
        text_add(s->out, "vec_splat_i%d(%d)", 8 * bytes, e->bits ? -1 : 0);
    else if (p->is_fixed)
        text_add(s->out, "(vec_i%d)s%d", 8 * bytes, p->number);
    else if (p->bytes == bytes)
        operand(s, e, j);
    else if (p->bytes < bytes) {
        text_add(s->out, "vec_i%d_of_i%d(", 8 * bytes, 4 * bytes);
        mask(s, e, bytes / 2, j / 2);
        text_add(s->out, ", %d)", j % 2);
    } else {
        text_add(s->out, "vec_i%d_of_i%d(", 8 * bytes, 16 * bytes);
        mask(s, e, bytes * 2, 2 * j);
        text_add(s->out, ", ");
        mask(s, e, bytes * 2, 2 * j + 1);
        text_add(s->out, ")");
    }
}

// Values ----------------------------------------------------------------------------------------------------

static void more(struct style *s, char what, expr e, int j) {
    if (what == 'm')
        mask(s, e->arg[0], s->plan->of[e->id].bytes, j);
    else if (what == 'r')
        text_add(s->out, "%s", type_name(e));
    else if (what == 'd' && is_number(e->arg[2]))
        number(s, "addend", e->arg[2]);
    else if (what == 'd')
        operand(s, e->arg[2], j);
}

// Writes a logical op on booleans; the operands are as wide as the result.
static void logic(struct style *s, expr e, int j) {
    int bytes = s->plan->of[e->id].bytes;
    if (e->op == TILE_NOT) {
        text_add(s->out, "~");
        mask(s, e->arg[0], bytes, j);
        return;
    }
    mask(s, e->arg[0], bytes, j);
    text_add(s->out, e->op == TILE_AND ? " & " : e->op == TILE_OR ? " | " : " ^ ");
    mask(s, e->arg[1], bytes, j);
}

// Returns whether a bf16 is converted back to f32: then one register is rounded in place.
static bool is_rounding(expr e) {
    static const struct tile_type bf16 = {TILE_BFLOAT, 16, 1};
    expr x = e->arg[0];
    return x->op == TILE_CAST && tile_type_equal(x->type, bf16) && tile_type_equal(e->type, x->arg[0]->type);
}

// Writes a conversion. One conversion at most doubles or halves the width: it reads part j % 2 of a narrower
// register, or two wider ones.
static void convert(struct style *s, expr e, int j) {
    expr x = e->arg[0];
    if (is_rounding(e)) {
        text_add(s->out, "vec_rounded_bf16(");
        operand(s, x->arg[0], j);
        text_add(s->out, ")");
        return;
    }
    text_add(s->out, "vec_%s_of_%s(", type_name(e), type_name(x));
    if (e->type.bits > x->type.bits) {
        operand(s, x, j / 2);
        text_add(s->out, ", %d)", j % 2);
    } else if (e->type.bits < x->type.bits) {
        operand(s, x, 2 * j);
        text_add(s->out, ", ");
        operand(s, x, 2 * j + 1);
        text_add(s->out, ")");
    } else {
        operand(s, x, j);
        text_add(s->out, ")");
    }
}

// Writes the real or imaginary part of a complex number: from a row, every second f32 of two registers; from
// a single number, its f32 in memory.
static void part(struct style *s, expr e, int j) {
    expr x = e->arg[0];
    int number = s->plan->of[x->id].number;
    if (s->plan->of[x->id].is_fixed)
        text_add(s->out, "vec_one_f32(x%d%s)", x->buffer->parameter, e->op == TILE_IM ? " + 4" : "");
    else
        text_add(s->out, "%s(v%d_%d, v%d_%d)", e->op == TILE_RE ? "vec_re" : "vec_im", number, 2 * j, number,
                 2 * j + 1);
}

static void load(struct style *s, expr e, int j) {
    int at = e->op == TILE_SCALAR ? -1 : e->buffer->parameter;
    for (int i = 0; at < 0 && i < s->plan->kernel->parameters; i++)
        if (s->plan->kernel->parameter[i].scalar == e->name)
            at = i;
    bool is_bool = tile_type_is_bool(e->type);
    const char *type = is_bool ? "i8" : is_complex(e) ? "f32" : type_name(e);
    text_add(s->out, "%svec_%s_%s(x%d", is_bool ? "vec_truth(" : "",
             s->plan->of[e->id].is_fixed ? "one" : "load", type, at);
    if (j)
        text_add(s->out, " + %d * VEC_BYTES", j);
    text_add(s->out, is_bool ? "))" : ")");
}

static bool is_constant_shift(expr e) {
    return (e->op == TILE_SHL || e->op == TILE_SHR) && e->arg[1]->op == TILE_CONST &&
           e->arg[1]->bits < e->type.bits;
}

static void value(struct style *s, expr e, int j) {
    if (e->op == TILE_LOAD || e->op == TILE_SCALAR)
        load(s, e, j);
    else if (e->op == TILE_RE || e->op == TILE_IM)
        part(s, e, j);
    else if (e->op == TILE_CAST)
        convert(s, e, j);
    else if (tile_type_is_bool(e->type) && e->args && tile_type_is_bool(e->arg[0]->type))
        logic(s, e, j);
    else if (is_constant_shift(e)) {
        text_add(s->out, "vec_%s_by_%s(", e->op == TILE_SHL ? "shl" : "shr", type_name(e));
        operand(s, e->arg[0], j);
        text_add(s->out, ", %d)", (int)e->arg[1]->bits);
    } else
        style_expand(s, style_spelling(s, e)->text, e, j, more);
}

static void type(struct style *s, expr e) {
    if (tile_type_is_bool(e->type))
        text_add(s->out, "vec_i%d", 8 * MAX_OF(1, s->plan->of[e->id].bytes));
    else
        text_add(s->out, "vec_%s", is_complex(e) ? "f32" : type_name(e));
}

// A pair has no variable: its parts are stored separately. A single complex number is read where its parts
// are used.
static bool is_inline(const struct plan *plan, expr e) {
    return e->op == TILE_CONST || e->op == TILE_PAIR || (is_complex(e) && plan->of[e->id].is_fixed);
}

static void any(struct style *s, expr e) {
    int bytes = MAX_OF(1, s->plan->of[e->id].bytes), count = render_plan_registers(s->plan, e);
    text_add(s->out, "vec_any((vec_u64)(");
    for (int j = 0; j < count; j++) {
        text_add(s->out, j ? " | " : "");
        mask(s, e, bytes, j);
    }
    text_add(s->out, "))");
}

// Stores ----------------------------------------------------------------------------------------------------

static void store_complex(struct style *s, int row, expr e, int j) {
    static const char *const half[] = {"low", "high"};
    for (int k = 0; k < 2; k++) {
        text_add(s->out, "%*svec_store_f32(y%d + %d * VEC_BYTES, ", 4 * s->indent, "", row, 2 * j + k);
        if (e->op == TILE_PAIR) {
            text_add(s->out, "vec_pair_%s(", half[k]);
            operand(s, e->arg[0], j);
            text_add(s->out, ", ");
            operand(s, e->arg[1], j);
            text_add(s->out, "));\n");
        } else
            text_add(s->out, "v%d_%d);\n", s->plan->of[e->id].number, 2 * j + k);
    }
}

static void store_real(struct style *s, int row, expr e, int j) {
    bool is_bool = tile_type_is_bool(e->type);
    text_add(s->out, "%*svec_store_%s(y%d + %d * VEC_BYTES, ", 4 * s->indent, "",
             is_bool ? "i8" : type_name(e), row, j);
    if (is_bool)
        mask(s, e, 1, j);
    else
        operand(s, e, j);
    text_add(s->out, is_bool ? " & 1);\n" : ");\n");
}

static void store(struct style *s, const struct tile_stmt *stmt) {
    int row = stmt->buffer->parameter;
    int bytes = is_complex(stmt->value) ? 4 : tile_type_bytes(stmt->buffer->type);
    for (int j = 0; j < bytes / s->plan->narrow * s->plan->unroll; j++)
        if (is_complex(stmt->value))
            store_complex(s, row, stmt->value, j);
        else
            store_real(s, row, stmt->value, j);
}

// The function ----------------------------------------------------------------------------------------------

static char letter(const struct tile_buffer *buffer) {
    return buffer && buffer->is_output ? 'y' : 'x';
}

static void declare_rows(struct style *s) {
    const struct tile_kernel *kernel = s->plan->kernel;
    for (int i = 0; i < kernel->parameters; i++) {
        const struct tile_buffer *buffer = render_plan_buffer(kernel, i);
        bool is_output = buffer && buffer->is_output;
        style_line(s, "%schar *%c%d = p[%d];", is_output ? "" : "const ", letter(buffer), i,
                   render_plan_argument(kernel, i));
        if (render_plan_is_row(s->plan, i))
            style_line(s, "_Alignas(64) char rest%d[BLOCK * %d];", i, tile_type_bytes(buffer->type));
        if (is_output || (render_plan_is_row(s->plan, i) && render_plan_has_steps(s->plan)))
            style_line(s, "%schar *end%d = %c%d;", is_output ? "" : "const ", i, letter(buffer), i);
    }
}

static void for_rows(struct style *s,
                     void (*emit)(struct style *s, int at, char name, int bytes, bool is_output)) {
    const struct tile_kernel *kernel = s->plan->kernel;
    for (int i = 0; i < kernel->parameters; i++)
        if (render_plan_is_row(s->plan, i)) {
            const struct tile_buffer *buffer = render_plan_buffer(kernel, i);
            emit(s, i, letter(buffer), tile_type_bytes(buffer->type), buffer->is_output);
        }
}

static void advance(struct style *s, int at, char name, int bytes, bool is_output) {
    (void)is_output;
    style_line(s, "%c%d += BLOCK * %d;", name, at, bytes);
}

static void advance_least(struct style *s, int at, char name, int bytes, bool is_output) {
    (void)is_output;
    style_line(s, "%c%d += LEAST * %d;", name, at, bytes);
}

static void fetch(struct style *s, int at, char name, int bytes, bool is_output) {
    if (!is_output)
        style_line(s, "vec_fetch(%c%d, ahead * %d, BLOCK * %d);", name, at, bytes, bytes);
}

// Returns whether a row is bound by memory: it computes little on one input. Loads of two inputs already
// overlap.
static bool fetches(const struct style *s) {
    const struct tile_kernel *kernel = s->plan->kernel;
    int inputs = 0;
    for (int i = 0; i < kernel->parameters; i++)
        inputs += render_plan_is_row(s->plan, i) && !render_plan_buffer(kernel, i)->is_output;
    return inputs == 1 && s->plan->count <= FETCH_NODES;
}

static void redirect(struct style *s, int at, char name, int bytes, bool is_output) {
    if (is_output || render_plan_has_steps(s->plan))
        style_line(s, "end%d = %c%d;", at, name, at);
    if (!is_output)
        style_line(s, "vec_rest(rest%d, %c%d, rest * %d, BLOCK * %d);", at, name, at, bytes, bytes);
    style_line(s, "%c%d = rest%d;", name, at, at);
}

static void finish(struct style *s, int at, char name, int bytes, bool is_output) {
    if (is_output)
        style_line(s, "vec_copy(end%d, rest%d, rest * %d);", at, at, bytes);
    if (render_plan_has_steps(s->plan))
        style_line(s, "%c%d = end%d + rest * %d;", name, at, at, bytes);
}

// Advances the pointers of inputs that have one element per run.
static void advance_scalars(struct style *s) {
    const struct tile_kernel *kernel = s->plan->kernel;
    for (int i = 0; i < kernel->parameters; i++)
        if (render_plan_steps(s->plan, i))
            style_line(s, "x%d += %d;", i, tile_type_bytes(render_plan_type(kernel, i)));
}

static void body(struct style *s) {
    style_block(s, 0);
    for (const struct tile_stmt *stmt = s->plan->map->body; stmt; stmt = stmt->next)
        store(s, stmt);
}

static bool has_short_end(const struct plan *plan) {
    return plan->unroll > 1 && plan->blocks == 1 && plan->count <= SHORT_NODES;
}

// Writes a loop with one register of the narrowest dtype per iteration, for as long as registers are full.
static void short_end(struct style *s) {
    const struct plan *plan = s->plan;
    struct plan least = *plan;
    least.unroll = 1;
    s->plan = &least;
    style_open(s, "for (; n >= LEAST; n -= LEAST)");
    body(s);
    for_rows(s, advance_least);
    style_close(s);
    s->plan = plan;
}

// Writes the loop of a map: first full blocks; then the rest is copied to memory for a whole block, which
// goes through the same loop. If `run` is longer than n, the data after n is prefetched.
static void map(struct style *s, const char *symbol) {
    bool has_steps = render_plan_has_steps(s->plan), is_fetched = fetches(s),
         is_short = has_short_end(s->plan);
    style_open(s, "void %s(char *const *p, int64_t n, int64_t run)", symbol);
    style_line(s, "enum { BLOCK = %d * VEC_BYTES / %d };", s->plan->unroll, s->plan->narrow);
    if (is_short)
        style_line(s, "enum { LEAST = VEC_BYTES / %d };", s->plan->narrow);
    declare_rows(s);
    if (is_fetched)
        style_line(s, "const int64_t ahead = run > n ? run - n : 0;");
    if (has_steps) {
        style_open(s, "for (int64_t left = n; left > 0; left -= run)");
        style_line(s, "n = left < run ? left : run;");
    } else if (!is_fetched)
        style_line(s, "(void)run;");
    style_fixed(s);
    style_line(s, "int64_t rest = 0;");
    style_open(s, "for (;;)");
    style_open(s, "for (; n >= BLOCK; n -= BLOCK)");
    if (is_fetched)
        for_rows(s, fetch);
    body(s);
    for_rows(s, advance);
    style_close(s);
    if (is_short)
        short_end(s);
    style_line(s, "if (n <= 0)");
    style_line(s, "    break;");
    style_line(s, "rest = n;");
    style_line(s, "n = BLOCK;");
    for_rows(s, redirect);
    style_close(s);
    style_open(s, "if (rest)");
    for_rows(s, finish);
    style_close(s);
    if (has_steps) {
        advance_scalars(s);
        style_close(s);
    }
    style_close(s);
}

#define OF(dtype) PASS_BIT(ZL_##dtype)

const struct dialect dialect_c = {
    .target = {.name = "c",
               .op = words,
               .is_vector = true,
               .cast = {[ZL_UINT8] = OF(UINT16),
                        [ZL_INT8] = OF(INT16),
                        [ZL_UINT16] = OF(UINT8) | OF(UINT32),
                        [ZL_INT16] = OF(INT8) | OF(INT32),
                        [ZL_UINT32] = OF(UINT16) | OF(UINT64) | OF(FLOAT32) | OF(FLOAT64),
                        [ZL_INT32] = OF(INT16) | OF(INT64) | OF(FLOAT32) | OF(FLOAT64),
                        [ZL_UINT64] = OF(UINT32) | OF(FLOAT64),
                        [ZL_INT64] = OF(INT32) | OF(FLOAT64),
                        [ZL_FLOAT16] = OF(FLOAT32),
                        [ZL_BFLOAT16] = OF(FLOAT32),
                        [ZL_FLOAT32] = OF(INT32) | OF(UINT32) | OF(INT64) | OF(UINT64) | OF(FLOAT16) |
                                       OF(BFLOAT16) | OF(FLOAT64),
                        [ZL_FLOAT64] = OF(FLOAT32) | OF(INT32) | OF(UINT32) | OF(INT64) | OF(UINT64)}},
    .prelude = "#include \"vec/vec.h\"\n",
    .map = map,
    .reduction = reduction_vector,
    .type = type,
    .value = value,
    .operand = operand,
    .any = any,
    .is_inline = is_inline,
};
