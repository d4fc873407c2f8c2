// scalar.c - spells values in the C dialects that compute one element at a time, and defines two of these
// dialects: `c_scalar`, a loop in plain C, and `c_tiles`.
//
// Types have the IR's names (f32, u8, ...), which each prelude defines; f16 and bf16 hold bits. Integer
// arithmetic uses unsigned types of at least 32 bits, which wrap around.

#include "render/c/scalar.h"

#include <inttypes.h>
#include <math.h>

// Spellings -------------------------------------------------------------------------------------------------

#define NUMBERS (PASS_INTEGER | PASS_FLOAT)
#define HALVES  SCALAR_HALVES

// Placeholders besides the operands and their type: %w is the unsigned type in which to compute, %u the
// unsigned type of the operand's width, %n the bits of the operand, %k a constant count. `halves` are the
// 16-bit floats that the language itself adds, multiplies and compares.
#define UNSIGNED(op) "(%t)((%w)%a " op " (%w)%b)"

#define WORDS(halves)                                                                                       \
    [TILE_NEG] = {NUMBERS | HALVES, "zl_neg_%t(%a)", "(%t)(0 - (%w)%a)"},                                   \
    [TILE_ABS] = {PASS_SIGNED | PASS_FLOAT | HALVES, "zl_abs_%t(%a)", "%a < 0 ? (%t)(0 - (%w)%a) : %a"},    \
    [TILE_SQRT] = {PASS_FLOAT, "zl_sqrt_%t(%a)"}, [TILE_FLOOR] = {PASS_FLOAT, "zl_floor_%t(%a)"},           \
    [TILE_CEIL] = {PASS_FLOAT, "zl_ceil_%t(%a)"}, [TILE_RINT] = {PASS_FLOAT, "zl_rint_%t(%a)"},             \
    [TILE_TRUNC] = {PASS_FLOAT, "zl_trunc_%t(%a)"},                                                         \
    [TILE_ADD] = {NUMBERS | (halves), "%a + %b", UNSIGNED("+")},                                            \
    [TILE_SUB] = {NUMBERS | (halves), "%a - %b", UNSIGNED("-")},                                            \
    [TILE_MUL] = {NUMBERS | (halves), "%a * %b", UNSIGNED("*")}, [TILE_DIV] = {PASS_FLOAT, "%a / %b"},      \
    [TILE_MAX] = {NUMBERS | (halves), "zl_max_%t(%a, %b)", "%a > %b ? %a : %b"},                            \
    [TILE_MIN] = {NUMBERS | (halves), "zl_min_%t(%a, %b)", "%a < %b ? %a : %b"},                            \
    [TILE_EQ] = {NUMBERS, "%a == %b"}, [TILE_NE] = {NUMBERS, "%a != %b"}, [TILE_LT] = {NUMBERS, "%a < %b"}, \
    [TILE_LE] = {NUMBERS, "%a <= %b"}, [TILE_GT] = {NUMBERS, "%a > %b"}, [TILE_GE] = {NUMBERS, "%a >= %b"}, \
    [TILE_AND] = {PASS_INTEGER | PASS_BOOL, "%a & %b", "(%t)(%a & %b)"},                                    \
    [TILE_OR] = {PASS_INTEGER | PASS_BOOL, "%a | %b", "(%t)(%a | %b)"},                                     \
    [TILE_XOR] = {PASS_INTEGER | PASS_BOOL, "%a ^ %b", "(%t)(%a ^ %b)"},                                    \
    [TILE_NOT] = {PASS_INTEGER | PASS_BOOL, "!%a", "(%t)~%a"},                                              \
    [TILE_SHL] = {PASS_INTEGER, NULL, "(%u)%b < %n ? (%t)((%w)%a << (%u)%b) : 0"},                          \
    [TILE_SHR] = {PASS_INTEGER, NULL, "(%u)%b < %n ? (%t)(%a >> (%u)%b) : 0"},                              \
    [TILE_SELECT] = {NUMBERS | HALVES, "%a ? %b : %c"}, [TILE_RARE] = {NUMBERS | HALVES, "%a ? %b : %c"},   \
    [TILE_FMA] = {PASS_FLOAT, "zl_fma_%t(%a, %b, %c)"}

// spelling_of has the spelling of signed SHR.
static const struct spelling words[TILE_OP_COUNT] = {
    WORDS(0), [TILE_FLOORDIV] = {PASS_BIT(ZL_INT64) | PASS_BIT(ZL_UINT64), NULL, "zl_floordiv_%t(%a, %b)"}};

// CUDA's own arithmetic of 16-bit floats rounds once; computing in f32 and rounding gives the same.
static const char *const half_words[TILE_OP_COUNT] = {
    [TILE_ADD] = "zl_add_%t(%a, %b)", [TILE_SUB] = "zl_sub_%t(%a, %b)", [TILE_MUL] = "zl_mul_%t(%a, %b)"};

// Kernels for groups of threads divide thread numbers, which have 32 bits.
#define DIVISIBLE (PASS_BIT(ZL_INT64) | PASS_BIT(ZL_UINT64) | PASS_BIT(ZL_INT32) | PASS_BIT(ZL_UINT32))
#define PLAIN_WORDS(halves) WORDS(halves), [TILE_FLOORDIV] = {DIVISIBLE, NULL, "zl_floordiv_%t(%a, %b)"}
#define GROUP_WORDS(halves) PLAIN_WORDS(halves), [TILE_EXP] = {PASS_BF16, "zl_exp_bf16(%a)"}
#define EXP2                [TILE_EXP2] = {PASS_BIT(ZL_FLOAT32), "zl_exp2_f32(%a)"}
const struct spelling scalar_plain_words[TILE_OP_COUNT] = {PLAIN_WORDS(0)};
const struct spelling scalar_group_words[TILE_OP_COUNT] = {GROUP_WORDS(0)};
const struct spelling scalar_exp2_words[TILE_OP_COUNT] = {GROUP_WORDS(0), EXP2};
const struct spelling scalar_cuda_words[TILE_OP_COUNT] = {GROUP_WORDS(HALVES), EXP2};

static const char *type_name(expr e) {
    return tile_type_name(e->type);
}
static bool is_complex(expr e) {
    return tile_type_is_complex(e->type);
}

// Values ----------------------------------------------------------------------------------------------------

static void constant(struct style *s, expr e) {
    union tile_value v = tile_value_of(e->type, e->bits);
    const char *type = type_name(e);
    if (tile_type_is_bool(e->type))
        text_add(s->out, "%d", e->bits != 0);
    else if (tile_type_is_half(e->type))
        text_add(s->out, "(%s)0x%04x", type, (unsigned)e->bits);
    else if (tile_type_is_float(e->type) && isfinite(v.f))
        text_add(s->out, "%a%s", v.f, e->type.bits == 32 ? "f" : "");
    else if (tile_type_is_float(e->type))
        text_add(s->out, "zl_%s_from(0x%" PRIx64 "u)", type, e->bits);
    else
        text_add(s->out, "(%s)0x%" PRIx64 "u", type, e->bits);
}

void render_scalar_operand(struct style *s, expr e, int j) {
    (void)j;
    if (e->op == TILE_CONST)
        constant(s, e);
    else
        text_add(s->out, "%c%d", s->plan->of[e->id].is_fixed ? 's' : 'v', s->plan->of[e->id].number);
}

static void more(struct style *s, char what, expr e, int j) {
    int bits = e->arg[0]->type.bits;
    (void)j;
    if (what == 'w')
        text_add(s->out, bits == 64 ? "u64" : "u32");
    else if (what == 'u')
        text_add(s->out, "u%d", bits);
    else if (what == 'n')
        text_add(s->out, "%d", bits);
    else if (what == 'e')
        text_add(s->out, "%s", tile_type_name(e->arg[0]->type));
    else if (what == 'k')
        text_add(s->out, "%d", (int)e->arg[1]->bits);
}

// Writes an element. part is 0 or 1 for the real or imaginary part of a complex number, otherwise -1.
static void element(struct style *s, char row, int at, bool is_fixed, int part) {
    const char *index = is_fixed ? "0" : "i";
    if (part < 0)
        text_add(s->out, "%c%d[%s]", row, at, index);
    else
        text_add(s->out, "%c%d[2 * %s + %d]", row, at, index, part);
}

static int parameter_of(const struct style *s, expr e) {
    if (e->op == TILE_LOAD)
        return e->buffer->parameter;
    for (int i = 0; i < s->plan->kernel->parameters; i++)
        if (s->plan->kernel->parameter[i].scalar == e->name)
            return i;
    return -1;
}

static bool is_plain_bits(struct tile_type type) {
    return tile_type_is_integer(type) || tile_type_is_half(type);
}

// Writes a bit cast. The bits of a float are those of the unsigned integer as wide as it.
static void reinterpret(struct style *s, expr e) {
    expr x = e->arg[0];
    if (!is_plain_bits(e->type))
        text_add(s->out, "zl_%s_from((u%d)", type_name(e), e->type.bits);
    else if (!is_plain_bits(x->type))
        text_add(s->out, "(%s)zl_%s_bits(", type_name(e), type_name(x));
    else
        text_add(s->out, "(%s)(", type_name(e));
    render_scalar_operand(s, x, 0);
    text_add(s->out, ")");
}

// Writes the language's own conversion, or a function of the prelude where the language leaves the result
// open.
static void convert(struct style *s, expr e) {
    expr x = e->arg[0];
    bool is_saturating = tile_type_is_integer(e->type) && tile_type_is_float(x->type);
    if (is_saturating || tile_type_is_half(e->type) || tile_type_is_half(x->type))
        text_add(s->out, "zl_%s_of_%s(", type_name(e), type_name(x));
    else
        text_add(s->out, "(%s)(", type_name(e));
    render_scalar_operand(s, x, 0);
    text_add(s->out, ")");
}

// Returns the spelling of an op. A signed shift by all bits or more keeps the sign; constant counts and
// positive divisors need no extra code.
static const char *spelling_of(const struct style *s, expr e) {
    const struct spelling *word = style_spelling(s, e);
    bool is_shift = e->op == TILE_SHL || e->op == TILE_SHR;
    if (is_shift && e->arg[1]->op == TILE_CONST && e->arg[1]->bits < e->type.bits)
        return e->op == TILE_SHL ? "(%t)((%w)%a << %k)" : "(%t)(%a >> %k)";
    if (e->op == TILE_SHR && e->type.kind == TILE_INT)
        return "(%t)(%a >> ((%u)%b < %n ? (%u)%b : %n - 1))";
    if (e->op == TILE_FLOORDIV && e->type.kind == TILE_UINT && pass_certain_range(e->arg[1]).low > 0)
        return "%a / %b";
    if (half_words[e->op] && tile_type_is_half(e->type))
        return half_words[e->op];
    return word->integer && tile_type_is_integer(e->arg[e->args - 1]->type) ? word->integer : word->text;
}

void render_scalar_value(struct style *s, expr e, int j) {
    bool is_part = e->op == TILE_RE || e->op == TILE_IM;
    if (e->op == TILE_LOAD || e->op == TILE_SCALAR || is_part) {
        expr load = is_part ? e->arg[0] : e;
        element(s, 'x', parameter_of(s, load), s->plan->of[load->id].is_fixed,
                is_part ? e->op == TILE_IM : -1);
        text_add(s->out, tile_type_is_bool(e->type) ? " != 0" : "");
    } else if (e->op == TILE_CAST)
        convert(s, e);
    else if (e->op == TILE_BITCAST)
        reinterpret(s, e);
    else
        style_expand(s, spelling_of(s, e), e, j, more);
}

void render_scalar_type(struct style *s, expr e) {
    text_add(s->out, "%s", type_name(e));
}

bool render_scalar_is_inline(const struct plan *plan, expr e) {
    (void)plan;
    return e->op == TILE_CONST || e->op == TILE_PAIR || is_complex(e);
}

void render_scalar_any(struct style *s, expr mask) {
    render_scalar_operand(s, mask, 0);
}

// The function ----------------------------------------------------------------------------------------------

// Returns the type of a row's elements in memory.
static const char *memory_name(struct tile_type type) {
    return tile_type_is_bool(type) ? "u8" : tile_type_is_complex(type) ? "f32" : tile_type_name(type);
}

static void store_part(struct style *s, const struct tile_stmt *stmt, int part) {
    expr e = stmt->value;
    text_add(s->out, "%*s", 4 * s->indent, "");
    element(s, 'y', stmt->buffer->parameter, false, part);
    text_add(s->out, " = ");
    if (part < 0)
        render_scalar_operand(s, e, 0);
    else if (e->op == TILE_PAIR)
        render_scalar_operand(s, e->arg[part], 0);
    else
        element(s, 'x', parameter_of(s, e), s->plan->of[e->id].is_fixed, part);
    text_add(s->out, ";\n");
}

static void body(struct style *s) {
    style_block(s, 0);
    for (const struct tile_stmt *stmt = s->plan->map->body; stmt; stmt = stmt->next)
        for (int part = is_complex(stmt->value) ? 0 : -1; part < (is_complex(stmt->value) ? 2 : 0); part++)
            store_part(s, stmt, part);
}

// Calls emit(s, at, place, type in memory, is_output) for each parameter `at`, in the order of their places
// among the arguments.
static void each_argument(struct style *s, void (*emit)(struct style *s, int at, int place, const char *type,
                                                        bool is_output)) {
    const struct tile_kernel *kernel = s->plan->kernel;
    for (int place = 0; place < kernel->parameters; place++)
        for (int at = 0; at < kernel->parameters; at++) {
            const struct tile_buffer *buffer = render_plan_buffer(kernel, at);
            if (render_plan_argument(kernel, at) == place)
                emit(s, at, place, memory_name(render_plan_type(kernel, at)), buffer && buffer->is_output);
        }
}

static void declare(struct style *s, int at, int place, const char *of, bool is_output) {
    const char *constant_row = is_output ? "" : "const ";
    style_line(s, "%s%s *%c%d = (%s%s *)p[%d];", constant_row, of, is_output ? 'y' : 'x', at, constant_row,
               of, place);
}

static void step(struct style *s, int at, int place, const char *of, bool is_output) {
    (void)place, (void)of;
    if (!is_output && render_plan_steps(s->plan, at))
        style_line(s, "x%d += %d;", at, render_plan_type(s->plan->kernel, at).kind == TILE_COMPLEX ? 2 : 1);
}

static void map_loop(struct style *s, const char *symbol) {
    style_open(s, "void %s(char *const *p, int64_t n, int64_t run)", symbol);
    each_argument(s, declare);
    if (!render_plan_has_steps(s->plan))
        style_line(s, "(void)run;");
    else
        style_open(s, "for (int64_t from = 0; from < n; from += run)");
    style_fixed(s);
    if (!render_plan_has_steps(s->plan))
        style_open(s, "for (int64_t i = 0; i < n; i++)");
    else
        style_open(s, "for (int64_t i = from; i < n && i < from + run; i++)");
    body(s);
    style_close(s);
    if (render_plan_has_steps(s->plan)) {
        each_argument(s, step);
        style_close(s);
    }
    style_close(s);
}

// Dialects --------------------------------------------------------------------------------------------------

const struct dialect dialect_c_scalar = {.target = SCALAR_TARGET("c_scalar", words, ),
                                         .prelude = prelude_c_scalar,
                                         .map = map_loop,
                                         .reduction = reduction_scalar,
                                         SCALAR_DIALECT};
// Returns whether the CPU device multiplies tiles of these dtypes; 16-bit floats may be summed in f32, int8
// is summed in int32.
static bool multiplies(zl_dtype a, zl_dtype b, zl_dtype c) {
    bool is_half = a == ZL_FLOAT16 || a == ZL_BFLOAT16;
    bool is_float = a == ZL_FLOAT32 || a == ZL_FLOAT64;
    return a == b && ((is_half && (c == ZL_FLOAT32 || c == a)) || (is_float && c == a) ||
                      (a == ZL_INT8 && c == ZL_INT32));
}

// Returns whether the CPU device has a row kernel for this reduction.
static bool reduces(enum tile_op combine, zl_dtype from, zl_dtype to) {
    bool is_row = combine == TILE_ADD || combine == TILE_MUL || combine == TILE_MAX || combine == TILE_MIN;
    return is_row && from != ZL_BOOL && from != ZL_COMPLEX64 && to == tile_reduce_gives(from);
}

const struct dialect dialect_c_tiles = {
    .target = SCALAR_TARGET("c_tiles", words, .called = "c", .is_program = true, .packs = true,
                            .multiplies = multiplies, .reduces = reduces, ),
    .prelude = prelude_c_tiles,
    .program = program_render,
    SCALAR_DIALECT};
