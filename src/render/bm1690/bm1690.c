// bm1690.c - writes device C for SophGo's BM1690, the control program of a core, from kernels whose tile
// statements are commands.
//
// The text includes only the vendor's header. NAME_blocks computes the blocks of this core; NAME_kernel is
// the entry point, which is registered. The arguments are one struct with members of eight bytes: in the
// order of the parameters, addresses of buffers in device memory and scalars; then addresses of memory
// outside of grids; then sizes. The host's part, a dialect of its own, fills that struct and launches the
// entry point through the vendor's runtime.

#include "render/c/program.h"
#include "render/c/scalar.h"

#include "bm1690/command.h"

#include <inttypes.h>
#include <string.h>

static const struct bm1690_command commands[] = {
#define COMMAND(NAME, ENGINE, RETURNS, PARAMETERS, RUN, OPERATION, PASSES) \
    BM1690_ROW(NAME, ENGINE, RETURNS, PARAMETERS, PASSES),
#include "bm1690/commands.def"
};

static const struct bm1690_command *find(const char *name) {
    for (size_t i = 0; i < COUNT(commands); i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static const struct target_lanes lanes = {.cores = 8, .bytes = 256 << 10, .banks = 16};

// Arguments -------------------------------------------------------------------------------------------------

static int width(enum bm1690_kind kind) { // arguments of the statement per argument of the function
    return kind == BM1690_KIND_SHAPE || kind == BM1690_KIND_STRIDE || kind == BM1690_KIND_PADDING ? 4
           : kind == BM1690_KIND_PAIR                                                             ? 2
                                                                                                  : 1;
}

static const char *member(struct tile_type type) {
    if (tile_type_is_float(type))
        return type.bits == 32 ? "f32" : "u16";
    bool is_signed = type.kind == TILE_INT;
    return type.bits == 8    ? (is_signed ? "s8" : "u8")
           : type.bits == 16 ? (is_signed ? "s16" : "u16")
           : is_signed       ? "s32"
                             : "u32";
}

static const char *dtype_name(int code) {
    switch (code) {
#define DTYPE(NAME, CODE, BYTES) \
    case CODE: return "DT_" #NAME;
        BM1690_DTYPES(DTYPE)
#undef DTYPE
    default: return "0";
    }
}

static bool is_address(expr e) {
    return e->type.kind == TILE_INT && e->type.bits == 64;
}

// Writes a number: constants as literals, anything else as the expression computed before.
static void number(struct program *p, const char *type, expr e) {
    if (e->op == TILE_CONST)
        text_add(p->style.out, "%" PRId64, tile_value_of(e->type, e->bits).i);
    else
        program_text(p, &e, "(%s)@", type);
}

static void numbers(struct program *p, const char *type, const expr *e, int count) {
    text_add(p->style.out, "&(%s){", type);
    for (int i = 0; i < count; i++) {
        text_add(p->style.out, i ? ", " : "");
        number(p, "int", e[i]);
    }
    text_add(p->style.out, "}");
}

static void argument(struct program *p, enum bm1690_kind kind, const expr *e) {
    switch (kind) {
    case BM1690_KIND_LOCAL: number(p, "local_addr_t", *e); return;
    case BM1690_KIND_SYSTEM:
    case BM1690_KIND_EITHER: number(p, "system_addr_t", *e); return;
    case BM1690_KIND_SHAPE:
    case BM1690_KIND_STRIDE: numbers(p, "dim4", e, 4); return;
    case BM1690_KIND_PADDING: numbers(p, "padding_t", e, 4); return;
    case BM1690_KIND_PAIR: numbers(p, "dim2", e, 2); return;
    case BM1690_KIND_DTYPE: text_add(p->style.out, "%s", dtype_name((int)pass_number(*e))); return;
    case BM1690_KIND_SCALAR: program_text(p, e, "(scalar_t){.%s = @}", member((*e)->type)); return;
    case BM1690_KIND_CONTEXT:
        program_text(p, e, "(var_context_t){.scalar = {.%s = @}}", member((*e)->type));
        return;
    case BM1690_KIND_VARIABLE:
        if (is_address(*e))
            program_text(p, e, "&(variable_t){TENSOR, {.addr = (local_addr_t)@}}");
        else
            program_text(p, e, "&(variable_t){SCALAR, {.scalar = {.%s = @}}}", member((*e)->type));
        return;
    case BM1690_KIND_ROUNDING: number(p, "rounding_mode_t", *e); return;
    default: number(p, "int", *e); return;
    }
}

static void command(struct program *p, const struct tile_stmt *s) {
    const struct bm1690_command *c = find(s->message);
    int at = 0, count = 0;
    while (c && count < BM1690_PARAMETERS && c->parameter[count].name)
        at += width(c->parameter[count++].kind);
    if (!c || at != s->indices) {
        program_fail(p, s, c ? "the arguments do not fit the command " : "the chip has no command ",
                     s->message);
        return;
    }
    program_open(p, s, 0, NULL);
    text_add(p->style.out, "%*s", 4 * p->style.indent, "");
    if (s->old) // the control program reads an element
        text_add(p->style.out, "x%d = *(const %s *)", s->old->id, program_memory(s->old->type));
    text_add(p->style.out, "%s(", c->name);
    for (int i = at = 0; i < count; at += width(c->parameter[i++].kind)) {
        text_add(p->style.out, i ? ", " : "");
        argument(p, c->parameter[i].kind, &s->index[at]);
    }
    text_add(p->style.out, ");\n");
    style_close(&p->style);
}

// Statements ------------------------------------------------------------------------------------------------

static bool own(struct program *p, const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_COMMAND: command(p, s); return true;
    case TILE_ALLOC: return true; // it is device memory, whose address is an argument
    case TILE_PRINT:
        program_open(p, s, 0, NULL);
        text_add(p->style.out, "%*sTPUKERNEL_LOG(", 4 * p->style.indent, "");
        program_quoted(p->style.out, s->message);
        program_text(p, &s->value, s->value ? ", (double)@);\n" : ");\n");
        style_close(&p->style);
        return true;
    case TILE_ASSERT:
        program_open(p, s, 0, NULL);
        program_line(p, &s->mask, "TPUKERNEL_ASSERT(@);");
        style_close(&p->style);
        return true;
    case TILE_STORE:
    case TILE_ATOMIC:
    case TILE_MAP:
        program_fail(p, s, "the control program of the chip does not compute elements", "");
        return true;
    default: return false;
    }
}

// Writes the loop over the blocks of this core: every n-th block, for n cores.
static void grid(struct program *p, const struct tile_stmt *s) {
    program_line(p, NULL, "{");
    program_extents(p, s);
    text_add(p->style.out, "%*sconst i64 blocks = ", 4 * p->style.indent, "");
    for (int i = 0; i < s->indices; i++)
        text_add(p->style.out, "%s(i64)e%d", i ? " * " : "", s->name[i]->id);
    text_add(p->style.out, ";\n");
    if (s->threads == 1)
        style_open(&p->style, "for (i64 block = 0; block < blocks && tpu_workitem_index() == 0; block++)");
    else
        style_open(&p->style,
                   "for (i64 block = tpu_workitem_index(); block < blocks; block += tpu_workitem_num())");
    style_line(&p->style, "i64 rest = block;");
    for (int i = 0; i < s->indices; i++) {
        const char *type = tile_type_name(s->name[i]->type);
        int id = s->name[i]->id;
        style_line(&p->style, "const %s j%d = (%s)(rest %% e%d);", type, id, type, id);
        style_line(&p->style, "rest /= e%d;", id);
    }
    program_block(p, s->body);
    style_close(&p->style);
    style_close(&p->style);
}

static void first_core(struct program *p, const struct tile_stmt *s) {
    struct tile_stmt alone = *s;
    alone.next = NULL;
    style_open(&p->style, "if (tpu_workitem_index() == 0)");
    program_block(p, &alone);
    style_close(&p->style);
}

static bool is_room(const struct tile_stmt *s) {
    return s->kind == TILE_ALLOC && !s->buffer->base;
}

// Writes one argument, as a member of the struct or as a variable that reads it.
static void argument_line(struct program *p, bool is_member, char letter, int id, const char *type,
                          const char *text) {
    if (is_member)
        style_line(&p->style, "_Alignas(8) %s %c%d; // %s", type, letter, id, text);
    else
        style_line(&p->style, "const %s %c%d = arguments->%c%d;", type, letter, id, letter, id);
}

static void each_argument(struct program *p, bool is_member) {
    const struct tile_kernel *k = p->kernel;
    for (int i = 0; i < k->parameters; i++) {
        const struct tile_parameter *q = &k->parameter[i];
        if (q->is_scalar)
            argument_line(p, is_member, 'a', q->scalar->id, tile_type_name(q->scalar->type), q->scalar->text);
        else
            argument_line(p, is_member, 'b', q->buffer->id, "i64", q->buffer->text);
    }
    for (const struct tile_stmt *s = k->body; s; s = s->next)
        if (is_room(s))
            argument_line(p, is_member, 'b', s->buffer->id, "i64", s->buffer->text);
    for (int i = 0; i < k->symbols; i++)
        argument_line(p, is_member, 'n', k->symbol[i]->id, tile_type_name(k->symbol[i]->type),
                      k->symbol[i]->text);
}

const char *render_bm1690_ending(const char *name) {
    static const char ending[] = "_kernel";
    size_t length = strlen(name), bytes = sizeof ending - 1;
    return length >= bytes && !strcmp(name + length - bytes, ending) ? "" : ending;
}

static void functions(struct program *p) {
    style_open(&p->style, "struct %s_arguments", p->symbol);
    each_argument(p, true);
    p->style.indent--;
    style_line(&p->style, "};\n");
    style_line(&p->style, "// Tiles take %lld bytes of each lane; %lld are in use at once at most.",
               (long long)p->kernel->lane_bytes, (long long)p->kernel->live_bytes);
    style_open(&p->style, "static void %s_blocks(const struct %s_arguments *arguments)", p->symbol,
               p->symbol);
    each_argument(p, false);
    program_locals(p, p->kernel->body);
    bool is_first = true;
    for (const struct tile_stmt *s = p->kernel->body; s && !p->failed; s = s->next) {
        if (s->kind == TILE_ALLOC)
            continue;
        if (!is_first)
            style_line(&p->style, "tpu_sync_all();");
        is_first = false;
        if (s->kind == TILE_GRID)
            grid(p, s);
        else
            first_core(p, s);
    }
    style_close(&p->style);
    const char *ending = render_bm1690_ending(p->symbol);
    style_open(&p->style, "\nint %s%s(const void *arguments)", p->symbol, ending);
    style_line(&p->style, "tpu_initialize();");
    style_line(&p->style, "%s_blocks(arguments);", p->symbol);
    style_line(&p->style, "tpu_poll();");
    style_line(&p->style, "return 0;");
    style_close(&p->style);
    style_line(&p->style, "TPUKERNEL_FUNC_REGISTER(%s%s)", p->symbol, ending);
}

// The host's part -------------------------------------------------------------------------------------------

static void host_launch(struct program *p) {
    style_line(
        &p->style,
        "// Runs it on all cores, each with a copy of the arguments, whose addresses are of tpuRtMalloc, and "
        "waits. Returns the runtime's status.");
    style_open(
        &p->style,
        "tpuRtStatus_t %s_launch(tpuRtKernelModule_t module, tpuRtStream_t stream, const struct %s_arguments "
        "*arguments)",
        p->symbol, p->symbol);
    style_line(&p->style, "struct %s_arguments copies[%d];", p->symbol, lanes.cores);
    style_open(&p->style, "for (int i = 0; i < %d; i++)", lanes.cores);
    style_line(&p->style, "copies[i] = *arguments;");
    style_close(&p->style);
    style_line(&p->style,
               "tpuRtStatus_t status = tpuRtKernelLaunch(module, \"%s%s\", copies, sizeof copies, 1, "
               "%d, stream);",
               p->symbol, render_bm1690_ending(p->symbol), lanes.cores);
    style_line(&p->style, "return status ? status : tpuRtStreamSynchronize(stream);");
    style_close(&p->style);
}

// Writes the head of the host's function, which takes buffers in host memory.
static void host_parameters(struct program *p) {
    const struct tile_kernel *k = p->kernel;
    text_add(p->style.out, "tpuRtStatus_t %s_run(tpuRtKernelModule_t module, tpuRtStream_t stream",
             p->symbol);
    for (int i = 0; i < k->parameters; i++)
        if (k->parameter[i].is_scalar)
            text_add(p->style.out, ", %s a%d", tile_type_name(k->parameter[i].scalar->type),
                     k->parameter[i].scalar->id);
        else
            text_add(p->style.out, ", void *b%d", k->parameter[i].buffer->id);
    for (int i = 0; i < k->symbols; i++)
        text_add(p->style.out, ", %s n%d", tile_type_name(k->symbol[i]->type), k->symbol[i]->id);
    text_add(p->style.out, ") {\n");
    p->style.indent++;
}

// Writes code that allocates device memory for a buffer and, unless it is internal to the kernel, copies the
// host's values there.
static void host_put(struct program *p, int at, const struct tile_buffer *b, bool is_room) {
    expr root[2 * TILE_DIMS];
    for (int i = 0; i < b->ndim; i++) {
        root[i] = b->shape[i];
        root[b->ndim + i] = b->stride ? b->stride[i] : NULL;
    }
    program_line(p, NULL, "{");
    program_nodes(p, b->stride ? 2 * b->ndim : b->ndim, root);
    text_add(p->style.out, "%*sstatus = status ? status : zl_put(&memory[%d], ", 4 * p->style.indent, "", at);
    text_add(p->style.out, is_room ? "NULL, " : "b%d, ", b->id);
    program_bytes(p, b);
    text_add(p->style.out, ");\n");
    style_line(&p->style, "arguments.b%d = (i64)(uintptr_t)memory[%d].device;", b->id, at);
    style_close(&p->style);
}

static int host_memory(struct program *p) {
    const struct tile_kernel *k = p->kernel;
    int count = 0;
    for (int i = 0; i < k->parameters; i++)
        if (!k->parameter[i].is_scalar)
            host_put(p, count++, k->parameter[i].buffer, false);
    for (const struct tile_stmt *s = k->body; s; s = s->next)
        if (is_room(s))
            host_put(p, count++, s->buffer, true);
    return count;
}

static int count_memory(const struct tile_kernel *k) {
    int count = 0;
    for (int i = 0; i < k->parameters; i++)
        count += !k->parameter[i].is_scalar;
    for (const struct tile_stmt *s = k->body; s; s = s->next)
        count += is_room(s);
    return count;
}

static void host_numbers(struct program *p) {
    const struct tile_kernel *k = p->kernel;
    for (int i = 0; i < k->parameters; i++)
        if (k->parameter[i].is_scalar)
            style_line(&p->style, "arguments.a%d = a%d;", k->parameter[i].scalar->id,
                       k->parameter[i].scalar->id);
    for (int i = 0; i < k->symbols; i++)
        style_line(&p->style, "arguments.n%d = n%d;", k->symbol[i]->id, k->symbol[i]->id);
}

static void host_functions(struct program *p) {
    const struct tile_kernel *k = p->kernel;
    style_open(&p->style, "struct %s_arguments", p->symbol);
    each_argument(p, true);
    p->style.indent--;
    style_line(&p->style, "};\n");
    host_launch(p);
    style_line(&p->style, "\n// Runs it on memory of the host, row-major: copies it to the device, and "
                          "outputs back. zl_open gives "
                          "module and stream.");
    host_parameters(p);
    style_line(&p->style, "struct zl_memory memory[%d];", MAX_OF(count_memory(k), 1));
    style_line(&p->style, "struct %s_arguments arguments;", p->symbol);
    style_line(&p->style, "tpuRtStatus_t status = tpuRtSuccess;");
    style_line(&p->style, "memset(memory, 0, sizeof memory);");
    style_line(&p->style, "memset(&arguments, 0, sizeof arguments);");
    int count = host_memory(p);
    host_numbers(p);
    style_line(&p->style, "status = status ? status : %s_launch(module, stream, &arguments);", p->symbol);
    for (int i = 0, at = 0; i < k->parameters; i++)
        if (!k->parameter[i].is_scalar && k->parameter[i].buffer->is_output)
            style_line(&p->style, "status = status ? status : zl_take(&memory[%d]);", at++);
        else
            at += !k->parameter[i].is_scalar;
    style_open(&p->style, "for (int i = 0; i < %d; i++)", count);
    style_open(&p->style, "if (memory[i].device)");
    style_line(&p->style, "tpuRtFree(&memory[i].device, 0);");
    style_close(&p->style);
    style_close(&p->style);
    style_line(&p->style, "return status;");
    style_close(&p->style);
}

static bool render_host(struct style *style, const struct tile_kernel *kernel, const char *symbol) {
    struct program p = {.kernel = kernel, .symbol = symbol, .own = own};
    return program_write(&p, style, host_functions);
}

static bool render(struct style *style, const struct tile_kernel *kernel, const char *symbol) {
    struct program p = {.kernel = kernel, .symbol = symbol, .own = own};
    return program_write(&p, style, functions);
}

// Spellings: of the control program, for types that commands compute with, or that are never in tiles. ------

#define F32          PASS_BIT(ZL_FLOAT32)
#define FLOATS       (F32 | PASS_F16 | PASS_BF16)
#define INTEGERS     PASS_INTEGER
#define DIVISIBLE    (PASS_BIT(ZL_INT64) | PASS_BIT(ZL_UINT64) | PASS_BIT(ZL_INT32) | PASS_BIT(ZL_UINT32))
#define UNSIGNED(op) "(%t)((%w)%a " op " (%w)%b)"
#define COMPARED(op) "zl_value_%t(%a) " op " zl_value_%t(%b)"

static const struct spelling words[TILE_OP_COUNT] = {
    [TILE_NEG] = {INTEGERS | FLOATS, "zl_neg_%t(%a)", "(%t)(0 - (%w)%a)"},
    [TILE_ABS] = {PASS_SIGNED | FLOATS, "zl_abs_%t(%a)", "%a < 0 ? (%t)(0 - (%w)%a) : %a"},
    [TILE_SQRT] = {F32, "zl_sqrt_%t(%a)"},
    [TILE_RSQRT] = {F32, "1 / zl_sqrt_%t(%a)"},
    [TILE_EXP] = {F32, "expf(%a)"},
    [TILE_EXP2] = {F32, "exp2f(%a)"},
    [TILE_FLOOR] = {FLOATS, "zl_floor_%t(%a)"},
    [TILE_CEIL] = {FLOATS, "zl_ceil_%t(%a)"},
    [TILE_RINT] = {FLOATS, "zl_rint_%t(%a)"},
    [TILE_TRUNC] = {FLOATS, "zl_trunc_%t(%a)"},
    [TILE_ADD] = {INTEGERS | FLOATS, "%a + %b", UNSIGNED("+")},
    [TILE_SUB] = {INTEGERS | FLOATS, "%a - %b", UNSIGNED("-")},
    [TILE_MUL] = {INTEGERS | FLOATS, "%a * %b", UNSIGNED("*")},
    [TILE_DIV] = {F32, "%a / %b"},
    [TILE_MAX] = {INTEGERS | FLOATS, "zl_max_%t(%a, %b)", "%a > %b ? %a : %b"},
    [TILE_MIN] = {INTEGERS | FLOATS, "zl_min_%t(%a, %b)", "%a < %b ? %a : %b"},
    [TILE_EQ] = {INTEGERS | FLOATS, COMPARED("=="), "%a == %b"},
    [TILE_NE] = {INTEGERS | FLOATS, COMPARED("!="), "%a != %b"},
    [TILE_LT] = {INTEGERS | FLOATS, COMPARED("<"), "%a < %b"},
    [TILE_LE] = {INTEGERS | FLOATS, COMPARED("<="), "%a <= %b"},
    [TILE_GT] = {INTEGERS | FLOATS, COMPARED(">"), "%a > %b"},
    [TILE_GE] = {INTEGERS | FLOATS, COMPARED(">="), "%a >= %b"},
    [TILE_AND] = {INTEGERS | PASS_BOOL, "%a & %b", "(%t)(%a & %b)"},
    [TILE_OR] = {INTEGERS | PASS_BOOL, "%a | %b", "(%t)(%a | %b)"},
    [TILE_XOR] = {INTEGERS | PASS_BOOL, "%a ^ %b", "(%t)(%a ^ %b)"},
    [TILE_NOT] = {INTEGERS | PASS_BOOL, "!%a", "(%t)~%a"},
    [TILE_SHL] = {INTEGERS, NULL, "(%u)%b < %n ? (%t)((%w)%a << (%u)%b) : 0"},
    [TILE_SHR] = {INTEGERS, NULL, "(%u)%b < %n ? (%t)(%a >> (%u)%b) : 0"},
    [TILE_FLOORDIV] = {DIVISIBLE, NULL, "zl_floordiv_%t(%a, %b)"},
    [TILE_REM] = {DIVISIBLE, NULL, "(%t)((%w)%a - (%w)%b * (%w)zl_floordiv_%t(%a, %b))"},
    [TILE_SELECT] = {INTEGERS | FLOATS, "%a ? %b : %c"},
    [TILE_RARE] = {INTEGERS | FLOATS, "%a ? %b : %c"},
    [TILE_FMA] = {F32, "%a * %b + %c"},
};

const struct dialect dialect_bm1690 = {
    .target = SCALAR_TARGET("bm1690", words, .is_program = true, .lanes = &lanes, ),
    .prelude = prelude_bm1690,
    .program = render,
    SCALAR_DIALECT};

const struct dialect dialect_bm1690_host = {
    .target = SCALAR_TARGET("bm1690_host", words, .called = "bm1690", .is_program = true, .lanes = &lanes, ),
    .prelude = prelude_bm1690_host,
    .program = render_host,
    SCALAR_DIALECT};
