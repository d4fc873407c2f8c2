// reduction.c - renders reductions of one row to one element, in `c` and `c_scalar`.
//
// The combining function is the row kernel of the op, rendered as an inline function of two values. Lane j
// combines elements j, j + lanes, ...; then lane j combines with lane j + lanes / 2, until one is left: the
// order that the interpreter defines.

#include "render/c/reduction.h"

#include <inttypes.h>

const struct reduction_words reduction_vectors = {"VEC_FN", "vec_", "struct vec_c64", "i8"};
static const struct reduction_words scalar_words = {"FN", "", "struct c64", "bool"};

static const char *name_of(zl_dtype dtype) {
    return tile_type_name(tile_type_of(dtype));
}

// The combining function ------------------------------------------------------------------------------------

// Returns the node of a parameter: a load, or one part of a complex load.
static expr find(const struct plan *plan, int parameter, enum tile_op part) {
    for (int i = 0; i < plan->count; i++) {
        expr e = plan->node[i], load = part == TILE_LOAD ? e : e->arg[0];
        if (e->op == part && load->op == TILE_LOAD && load->buffer->parameter == parameter)
            return e;
    }
    return NULL;
}

// Declares a parameter under the name of its node.
static void parameter(struct style *s, const struct reduction *r, int at, enum tile_op part) {
    expr e = find(s->plan, at, part);
    text_add(s->out, "%s%s ", r->words->prefix, r->value);
    if (e)
        s->dialect->operand(s, e, 0);
    else
        text_add(s->out, "unused%d%d", at, part);
}

static void signature(struct style *s, const struct reduction *r) {
    if (r->is_complex)
        text_add(s->out, "%s %s %s_step(", r->words->function, r->words->pair, r->name);
    else
        text_add(s->out, "%s %s%s %s_step(", r->words->function, r->words->prefix, r->value, r->name);
    for (int at = 0; at < 2; at++) {
        text_add(s->out, at ? ", " : "");
        parameter(s, r, at, r->is_complex ? TILE_RE : TILE_LOAD);
        if (r->is_complex) {
            text_add(s->out, ", ");
            parameter(s, r, at, TILE_IM);
        }
    }
    text_add(s->out, ") {\n");
}

static void result(struct style *s, const struct reduction *r, expr e) {
    text_add(s->out, "    return ");
    if (r->is_complex) {
        text_add(s->out, "(%s){", r->words->pair);
        s->dialect->operand(s, e->arg[0], 0);
        text_add(s->out, ", ");
        s->dialect->operand(s, e->arg[1], 0);
        text_add(s->out, "}");
    } else
        s->dialect->operand(s, e, 0);
    text_add(s->out, ";\n}\n\n");
}

// Returns whether a node has no statement of its own: parameters have none.
static bool is_inline(const struct plan *plan, expr e) {
    return dialect_c.is_inline(plan, e) || e->op == TILE_LOAD || e->op == TILE_RE || e->op == TILE_IM;
}

bool reduction_step(struct style *s, const struct reduction *r) {
    struct tile_kernel *kernel = tile_row_kernel(r->combine, r->lane, "vv");
    struct dialect inside = *s->dialect;
    struct plan plan = {0};
    bool good =
        kernel && pass_run(kernel, &inside.target, NULL) && render_plan_make(&plan, kernel, kernel->body);
    inside.is_inline = is_inline;
    struct style body = {.out = s->out, .plan = &plan, .dialect = &inside, .indent = 1};
    if (good) {
        plan.unroll = inside.target.is_vector;
        signature(&body, r);
        style_block(&body, 0);
        result(&body, r, kernel->body->body->value);
    }
    render_plan_free(&plan);
    tile_free(kernel);
    return good;
}

static uint64_t identity_bits(const struct reduction *r) {
    uint64_t bits = 0;
    tile_identity(r->combine, tile_type_of(r->lane), &bits);
    return bits;
}

// Registers -------------------------------------------------------------------------------------------------

static void identity(struct text *out, const struct reduction *r, int part) {
    uint64_t bits = identity_bits(r);
    if (r->is_complex)
        text_add(out, "(vec_f32)vec_splat_u32(0x%xu)", (unsigned)(bits >> (32 * part)));
    else if (r->lane == ZL_BOOL)
        text_add(out, "vec_splat_i8(%d)", bits ? -1 : 0);
    else
        text_add(out, "(vec_%s)vec_splat_u%d(0x%" PRIx64 "u)", r->value, 8 * r->bytes, bits);
}

// Writes the load of register R of the lanes from a row.
static void load(struct text *out, const struct reduction *r, const char *row) {
    const char *type = name_of(r->input);
    if (r->is_complex)
        text_add(out, "vec_load_re(%s + 2 * R * VEC_BYTES), vec_load_im(%s + 2 * R * VEC_BYTES)", row, row);
    else if (r->input == ZL_BOOL)
        text_add(out, "vec_truth(vec_load_i8(%s + R * VEC_BYTES))", row);
    else if (r->input != r->lane)
        text_add(out, "vec_f32_of_%s(vec_load_%s(%s + R / 2 * VEC_BYTES), R %% 2)", type, type, row);
    else
        text_add(out, "vec_load_%s(%s + R * VEC_BYTES)", type, row);
}

static void define_complex(struct text *out, const struct reduction *r) {
    text_add(out, "#define START(R) struct vec_c64 a##R = {");
    identity(out, r, 0);
    text_add(out, ", ");
    identity(out, r, 1);
    text_add(out, "};\n#define STEP(R) a##R = %s_step(a##R.re, a##R.im, ", r->name);
    load(out, r, "x");
    text_add(out, ");\n#define LAST(R) struct vec_c64 b##R = %s_step(a##R.re, a##R.im, ", r->name);
    load(out, r, "rest");
    text_add(out, "); \\\n    vec_i32 m##R = vec_before_32(R * VEC_BYTES / 4, n); \\\n"
                  "    a##R.re = vec_select_f32(m##R, b##R.re, a##R.re); \\\n"
                  "    a##R.im = vec_select_f32(m##R, b##R.im, a##R.im);\n");
    text_add(out, "#define FOLD(R, S) a##R = %s_step(a##R.re, a##R.im, a##S.re, a##S.im);\n", r->name);
    text_add(out,
             "#define DOWN(BYTES) a0 = %s_step(a0.re, a0.im, (vec_f32)vec_down((vec_u64)a0.re, BYTES), "
             "(vec_f32)vec_down((vec_u64)a0.im, BYTES));\n",
             r->name);
}

// Defines STEP(R), which combines register R of the accumulator with its elements of a block. Some levels add
// elements to a wider sum in one instruction.
static void define_step(struct text *out, const struct reduction *r) {
    if (r->combine == TILE_ADD && r->input == ZL_FLOAT16) {
        text_add(
            out,
            "#define STEP(R) a##R = vec_add_f32_f16(a##R, vec_load_f16(x + R / 2 * VEC_BYTES), R %% 2);\n");
        return;
    }
    text_add(out, "#define STEP(R) a##R = %s_step(a##R, ", r->name);
    load(out, r, "x");
    text_add(out, ");\n");
}

void reduction_define_start(struct text *out, const struct reduction *r) {
    text_add(out, "#define START(R) vec_%s a##R = ", r->value);
    identity(out, r, 0);
    text_add(out, ";\n");
}

void reduction_define_end(struct text *out, const struct reduction *r) {
    text_add(out, "#define FOLD(R, S) a##R = %s_step(a##R, a##S);\n", r->name);
    text_add(out, "#define DOWN(BYTES) a0 = %s_step(a0, (vec_%s)vec_down((vec_u64)a0, BYTES));\n", r->name,
             r->value);
}

static void define_real(struct text *out, const struct reduction *r) {
    reduction_define_start(out, r);
    define_step(out, r);
    text_add(out, "#define LAST(R) a##R = vec_select_%s(vec_before_%d(R * VEC_BYTES / %d, n), %s_step(a##R, ",
             r->value, 8 * r->bytes, r->bytes, r->name);
    load(out, r, "rest");
    text_add(out, "), a##R);\n");
    reduction_define_end(out, r);
}

void reduction_finish(struct style *s, const struct reduction *r, int argument) {
    style_line(s, "VEC_FOLD_%d(FOLD)", r->is_complex ? 64 : 128);
    style_line(s, "VEC_DOWN_%d(DOWN)", r->bytes);
    style_line(s, "_Alignas(64) char result[VEC_BYTES];");
    if (r->is_complex)
        style_line(s, "vec_store_f32(result, vec_pair_low(a0.re, a0.im));");
    else
        style_line(s, "vec_store_%s(result, a0%s);", r->value, r->lane == ZL_BOOL ? " & 1" : "");
    style_line(s, "__builtin_memcpy(p[%d], result, %d);", argument, tile_type_bytes(tile_type_of(r->lane)));
    style_close(s);
    text_add(s->out, "#undef START\n#undef STEP\n#undef LAST\n#undef FOLD\n#undef DOWN\n");
}

// Writes the reduction: full blocks of lanes, then the remaining elements before n, then the halving of
// lanes. If `run` is longer than n, the data after n is prefetched, in a loop of its own, because one more
// instruction slows the loop over data in cache. The text uses the lists of the header (VEC_EACH_128), since
// only the header has the number of registers.
static void vector_function(struct style *s, const struct reduction *r) {
    int lanes = r->is_complex ? 64 : 128; // bytes
    style_open(s, "void %s(char *const *p, int64_t n, int64_t run)", r->symbol);
    style_line(s, "enum { BLOCK = %d };", lanes / r->bytes);
    style_line(s, "const char *x = p[1];");
    style_line(s, "const int64_t ahead = run > n ? (run - n) * %d : 0;", r->element);
    style_line(s, "VEC_EACH_%d(START)", lanes);
    style_open(s, "for (; ahead && n >= BLOCK; n -= BLOCK, x += BLOCK * %d)", r->element);
    style_line(s, "vec_fetch(x, ahead, BLOCK * %d);", r->element);
    style_line(s, "VEC_EACH_%d(STEP)", lanes);
    style_close(s);
    style_open(s, "for (; n >= BLOCK; n -= BLOCK, x += BLOCK * %d)", r->element);
    style_line(s, "VEC_EACH_%d(STEP)", lanes);
    style_close(s);
    style_open(s, "if (n > 0)");
    style_line(s, "_Alignas(64) char rest[BLOCK * %d];", r->element);
    style_line(s, "vec_rest(rest, x, n * %d, sizeof rest);", r->element);
    style_line(s, "VEC_EACH_%d(LAST)", lanes);
    style_close(s);
    reduction_finish(s, r, 0);
}

// One lane at a time ----------------------------------------------------------------------------------------

static void scalar_identity(struct text *out, const struct reduction *r) {
    uint64_t bits = identity_bits(r);
    if (r->is_complex)
        text_add(out, "(struct c64){zl_f32_from(0x%xu), zl_f32_from(0x%xu)}", (unsigned)bits,
                 (unsigned)(bits >> 32));
    else if (tile_type_is_float(tile_type_of(r->lane)))
        text_add(out, "zl_%s_from(0x%" PRIx64 "u)", r->value, bits);
    else
        text_add(out, "(%s)0x%" PRIx64 "u", r->value, bits);
}

static void scalar_element(struct text *out, const struct reduction *r) {
    if (r->is_complex)
        text_add(out, "x[2 * i], x[2 * i + 1]");
    else if (r->input == ZL_BOOL)
        text_add(out, "x[i] != 0");
    else
        text_add(out, r->input == r->lane ? "x[i]" : "zl_f32_of_%s(x[i])", name_of(r->input));
}

static void scalar_function(struct style *s, const struct reduction *r) {
    const char *memory = r->is_complex ? "f32" : r->input == ZL_BOOL ? "u8" : name_of(r->input);
    const char *lane = r->is_complex ? "struct c64" : r->value,
               *in = r->is_complex ? "lane[j].re, lane[j].im" : "lane[j]";
    style_open(s, "void %s(char *const *p, int64_t n, int64_t run)", r->symbol);
    style_line(s, "(void)run;");
    style_line(s, "enum { LANES = %d };", 128 / tile_type_bytes(tile_type_of(r->lane)));
    style_line(s, "const %s *x = (const %s *)p[1];", memory, memory);
    style_line(s, "%s lane[LANES];", lane);
    style_line(s, "for (int j = 0; j < LANES; j++)");
    text_add(s->out, "        lane[j] = ");
    scalar_identity(s->out, r);
    text_add(s->out, ";\n");
    style_open(s, "for (int64_t i = 0; i < n; i++)");
    style_line(s, "int j = (int)(i %% LANES);");
    text_add(s->out, "        lane[j] = %s_step(%s, ", r->name, in);
    scalar_element(s->out, r);
    text_add(s->out, ");\n");
    style_close(s);
    style_line(s, "for (int half = LANES / 2; half; half /= 2)");
    style_line(s, "    for (int j = 0; j < half; j++)");
    style_line(s, "        lane[j] = %s_step(%s, %s);", r->name, in,
               r->is_complex ? "lane[j + half].re, lane[j + half].im" : "lane[j + half]");
    style_line(s, "*(%s *)p[0] = lane[0];", r->lane == ZL_BOOL ? "u8" : lane);
    style_close(s);
}

// -----------------------------------------------------------------------------------------------------------

struct reduction reduction_of(const struct reduction_words *words, const struct tile_stmt *stmt,
                              const char *name, const char *symbol) {
    struct tile_type from = stmt->region[0].buffer->type, to = stmt->region[1].buffer->type;
    bool is_complex = tile_type_is_complex(to);
    return (struct reduction){.words = words,
                              .symbol = symbol,
                              .name = name,
                              .input = tile_dtype_of(from),
                              .lane = tile_dtype_of(to),
                              .combine = stmt->combine,
                              .is_complex = is_complex,
                              .value = is_complex              ? "f32"
                                       : tile_type_is_bool(to) ? words->truth
                                                               : tile_type_name(to),
                              .element = tile_type_bytes(from),
                              .bytes = is_complex ? 4 : tile_type_bytes(to)};
}

static bool is_row(const struct tile_kernel *kernel) {
    const struct tile_stmt *s = kernel->body;
    return (s->region[0].buffer->ndim == 1 && s->clear && !s->region[0].origin && !s->region[1].origin) ||
           error_false(ZL_ERROR_COMPILE, "render: the reduction of kernel '%s' is not one of a row",
                       kernel->name);
}

bool reduction_vector(struct style *s, const struct tile_kernel *kernel, const char *symbol) {
    if (render_row_reduction_is(kernel))
        return render_row_reduction(s, kernel, symbol);
    struct reduction r = reduction_of(&reduction_vectors, kernel->body, kernel->name, symbol);
    if (!is_row(kernel) || !reduction_step(s, &r))
        return false;
    if (r.is_complex)
        define_complex(s->out, &r);
    else
        define_real(s->out, &r);
    vector_function(s, &r);
    return true;
}

bool reduction_scalar(struct style *s, const struct tile_kernel *kernel, const char *symbol) {
    struct reduction r = reduction_of(&scalar_words, kernel->body, kernel->name, symbol);
    if (!is_row(kernel) || !reduction_step(s, &r))
        return false;
    scalar_function(s, &r);
    return true;
}
