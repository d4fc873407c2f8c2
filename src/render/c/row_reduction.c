// row_reduction.c - renders a map over rows and the reduction of one of its results as one loop, in the
// dialect `c`: the lanes accumulate values as they are computed. A result that only the reduction reads is
// not stored.
//
//     kernel row(x: f32[n], m: f32[1]) -> (y: f32[n], sum: f32[1]) {
//       local z: f32[n]
//       map i in n { y[i] = x[i] - m[0]; z[i] = (x[i] - m[0]) * (x[i] - m[0]) }
//       reduce add z -> sum axis 0
//     }
//
// Every value is one register with elements as wide as those of the lanes; 16-bit floats are converted when
// they are loaded. A statement is a macro S<number>(R), expanded for several registers in turn, so that their
// dependency chains overlap.

#include "render/c/reduction.h"

#include <string.h>

// The parts of the kernel -----------------------------------------------------------------------------------

static const struct tile_stmt *map_of(const struct tile_kernel *kernel) {
    const struct tile_stmt *s = kernel->body;
    return s && s->kind == TILE_ALLOC ? s->next : s;
}

// Returns the store of the result that is reduced; NULL if there is none, or if the map does more than store.
static const struct tile_stmt *reduced_store(const struct tile_stmt *map) {
    const struct tile_stmt *found = NULL;
    for (const struct tile_stmt *s = map->body; s; s = s->next) {
        if (s->kind != TILE_STORE || (s->buffer->parameter < 0 && s->buffer != map->next->region[0].buffer))
            return NULL;
        if (s->buffer == map->next->region[0].buffer)
            found = s;
    }
    return found;
}

bool render_row_reduction_is(const struct tile_kernel *kernel) {
    const struct tile_stmt *map = map_of(kernel);
    return map && map->kind == TILE_MAP && map->next && map->next->kind == TILE_REDUCE && reduced_store(map);
}

// Returns whether the reduced dtype is kept in lanes as it is: no booleans, complex numbers or 16-bit floats.
static bool is_plain(const struct tile_stmt *reduce) {
    struct tile_type from = reduce->region[0].buffer->type, to = reduce->region[1].buffer->type;
    return tile_type_equal(from, to) && !tile_type_is_bool(to) && !tile_type_is_complex(to) &&
           !tile_type_is_half(to);
}

// Values ----------------------------------------------------------------------------------------------------

static bool is_half_load(expr e) {
    return e->op == TILE_LOAD && tile_type_is_half(e->type);
}

static bool is_row(const struct plan *plan, expr e) {
    return !plan->of[e->id].is_fixed && e->op != TILE_CONST;
}

// Returns whether 16-bit floats occur only in conversions to f32, and all other values are as wide as a lane.
static bool is_even(const struct plan *plan, const struct reduction *r) {
    for (int i = 0; i < plan->count; i++) {
        expr e = plan->node[i];
        bool is_fine = !is_row(plan, e) || is_half_load(e) || plan->of[e->id].bytes == r->bytes;
        for (int k = 0; k < e->args && is_row(plan, e); k++)
            is_fine &= !is_half_load(e->arg[k]) || (e->op == TILE_CAST && e->type.bits == 32);
        if (!is_fine || (is_half_load(e) && !is_row(plan, e)))
            return false;
    }
    return true;
}

// Writes the value of register R: a load from a row, a conversion, or a variable.
static void value(struct style *s, expr e, int j) {
    expr x = e->op == TILE_CAST ? e->arg[0] : NULL;
    if (e->op == TILE_LOAD && is_row(s->plan, e))
        text_add(s->out, "vec_load_%s(x%d + (G + R) * VEC_BYTES)", tile_type_name(e->type),
                 e->buffer->parameter);
    else if (x && is_half_load(x))
        text_add(s->out, "vec_f32_of_%s(vec_load_%s(x%d + (G + R) / 2 * VEC_BYTES), (G + R) %% 2)",
                 tile_type_name(x->type), tile_type_name(x->type), x->buffer->parameter);
    else
        dialect_c.value(s, e, j);
}

static bool is_inline(const struct plan *plan, expr e) {
    return dialect_c.is_inline(plan, e) || is_half_load(e);
}

// Text ------------------------------------------------------------------------------------------------------

// Appends the definition of a macro of R with these lines.
static void add_macro(struct text *out, const char *name, int number, const struct text *lines) {
    text_add(out, "#define %s%d(R)", name, number);
    for (const char *at = lines->data, *end; at && (end = strchr(at, '\n')); at = end + 1) {
        text_add(out, at == lines->data ? " " : " \\\n");
        text_bytes(out, at, (int)(end - at));
    }
    text_add(out, "\n");
    out->failed |= lines->failed;
}

static bool has_statement(const struct style *s, expr e) {
    const struct node_plan *p = &s->plan->of[e->id];
    return !p->is_fixed && p->block == 0 && !s->dialect->is_inline(s->plan, e);
}

// Defines the macro of a value's statement, or of its store.
static void define_statement(struct style *s, int number, expr node, const struct tile_stmt *store) {
    struct text *out = s->out, lines = {0};
    s->out = &lines;
    if (store) {
        text_add(&lines, "vec_store_%s(y%d + (G + R) * VEC_BYTES, ", tile_type_name(store->value->type),
                 store->buffer->parameter);
        dialect_c.operand(s, store->value, 0);
        text_add(&lines, ");\n");
    } else
        style_node(s, node);
    s->out = out;
    add_macro(out, "S", number, &lines);
    text_free(&lines);
}

// Defines the macros of all statements and returns their number.
static int define_statements(struct style *s, const struct tile_stmt *map) {
    int count = 0;
    for (int i = 0; i < s->plan->count; i++)
        if (has_statement(s, s->plan->node[i]))
            define_statement(s, count++, s->plan->node[i], NULL);
    for (const struct tile_stmt *store = map->body; store; store = store->next)
        if (store->buffer->parameter >= 0)
            define_statement(s, count++, NULL, store);
    return count;
}

// Defines STEP(R), which accumulates a register of values, and LAST(R), which accumulates those before n.
static void define_steps(struct style *s, const struct reduction *r, const struct tile_stmt *store) {
    struct text *out = s->out;
    text_add(out, "#define STEP(R) sum[G + R] = %s_step(sum[G + R], ", r->name);
    dialect_c.operand(s, store->value, 0);
    text_add(out,
             ");\n#define LAST(R) sum[G + R] = vec_select_%s(vec_before_%d((G + R) * VEC_BYTES / %d, n), "
             "%s_step(sum[G + R], ",
             r->value, 8 * r->bytes, r->bytes, r->name);
    dialect_c.operand(s, store->value, 0);
    text_add(out, "), sum[G + R]);\n#define KEEP(R) sum[R] = a##R;\n#define TAKE(R) a##R = sum[R];\n");
}

// Defines GROUP(FIRST) or GROUP_LAST(FIRST): all statements for the registers from FIRST on.
static void define_group(struct text *out, const char *name, const char *step, int statements) {
    text_add(out, "#define %s(FIRST) { enum { G = FIRST };", name);
    for (int i = 0; i < statements; i++)
        text_add(out, " \\\n    VEC_EACH_OF_GROUP(S%d)", i);
    text_add(out, " \\\n    VEC_EACH_OF_GROUP(%s) }\n", step);
}

static void declare(struct style *s) {
    const struct tile_kernel *kernel = s->plan->kernel;
    for (int i = 0; i < kernel->parameters; i++) {
        const struct tile_buffer *b = render_plan_buffer(kernel, i);
        bool is_output = b && b->is_output;
        style_line(s, "%schar *%c%d = p[%d];", is_output ? "" : "const ", is_output ? 'y' : 'x', i,
                   render_plan_argument(kernel, i));
    }
}

// Calls emit for all rows: inputs, and outputs except the result of the reduction.
static void for_rows(struct style *s, const struct tile_stmt *map,
                     void (*emit)(struct style *s, int at, bool is_output, int bytes)) {
    const struct tile_kernel *kernel = s->plan->kernel;
    for (int i = 0; i < kernel->parameters; i++) {
        const struct tile_buffer *b = render_plan_buffer(kernel, i);
        if (b && (b->is_output ? b != map->next->region[1].buffer : render_plan_is_row(s->plan, i)))
            emit(s, i, b->is_output, tile_type_bytes(b->type));
    }
}

static void advance(struct style *s, int at, bool is_output, int bytes) {
    style_line(s, "%c%d += BLOCK * %d;", is_output ? 'y' : 'x', at, bytes);
}

static void redirect(struct style *s, int at, bool is_output, int bytes) {
    style_line(s, "_Alignas(64) char rest%d[BLOCK * %d];", at, bytes);
    if (is_output)
        style_line(s, "char *end%d = y%d;", at, at);
    else
        style_line(s, "vec_rest(rest%d, x%d, n * %d, sizeof rest%d);", at, at, bytes, at);
    style_line(s, "%c%d = rest%d;", is_output ? 'y' : 'x', at, at);
}

static void put_back(struct style *s, int at, bool is_output, int bytes) {
    if (is_output)
        style_line(s, "vec_copy(end%d, rest%d, n * %d);", at, at, bytes);
}

static void function(struct style *s, const struct reduction *r, const struct tile_stmt *map) {
    int statements = define_statements(s, map);
    define_steps(s, r, reduced_store(map));
    define_group(s->out, "GROUP", "STEP", statements);
    define_group(s->out, "GROUP_LAST", "LAST", statements);
    style_open(s, "void %s(char *const *p, int64_t n, int64_t run)", r->symbol);
    style_line(s, "(void)run;");
    style_line(s, "enum { BLOCK = %d };", 128 / r->bytes);
    declare(s);
    style_fixed(s);
    style_line(s, "VEC_EACH_128(START)");
    style_line(s, "vec_%s sum[128 / VEC_BYTES];", r->value);
    style_line(s, "VEC_EACH_128(KEEP)");
    style_open(s, "for (; n >= BLOCK; n -= BLOCK)");
    style_line(s, "VEC_GROUPS(GROUP)");
    for_rows(s, map, advance);
    style_close(s);
    style_open(s, "if (n > 0)");
    for_rows(s, map, redirect);
    style_line(s, "VEC_GROUPS(GROUP_LAST)");
    for_rows(s, map, put_back);
    style_close(s);
    style_line(s, "VEC_EACH_128(TAKE)");
    reduction_finish(s, r, render_plan_argument(s->plan->kernel, map->next->region[1].buffer->parameter));
    text_add(s->out, "#undef GROUP\n#undef GROUP_LAST\n#undef KEEP\n#undef TAKE\n");
    for (int i = 0; i < statements; i++)
        text_add(s->out, "#undef S%d\n", i);
}

bool render_row_reduction(struct style *s, const struct tile_kernel *kernel, const char *symbol) {
    const struct tile_stmt *map = map_of(kernel);
    struct plan plan = {0};
    struct reduction r = reduction_of(&reduction_vectors, map->next, symbol, symbol);
    struct dialect inside = *s->dialect;
    inside.value = value;
    inside.is_inline = is_inline;
    struct style body = {.out = s->out, .plan = &plan, .dialect = &inside, .lane = "##R"};
    bool good = render_plan_make(&plan, kernel, map);
    if (good && (!is_plain(map->next) || !is_even(&plan, &r)))
        good = error_false(ZL_ERROR_COMPILE, "render: values of kernel '%s' differ in width", kernel->name);
    if (good && (good = reduction_step(s, &r))) {
        plan.narrow = r.bytes;
        plan.unroll = 1;
        reduction_define_start(s->out, &r);
        reduction_define_end(s->out, &r);
        function(&body, &r, map);
    }
    render_plan_free(&plan);
    return good;
}
