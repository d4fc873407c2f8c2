// group_warps.c - renders products by the wgmma instructions of sm_90a: four subgroups multiply 64 rows at
// once.
//
// The tensor cores read operands from shared memory themselves: a descriptor gives the address of the first
// panel of 128 bytes and the distance between panels. a is passed in registers if it is stored there, or if a
// warpgroup has more than 64 rows of it. The layout of the sums is that of m16n8k16.

#include "render/gpu_c/group_gemm.h"

#include <inttypes.h>

enum { MOST_COLUMNS = 256, WARPS = 4 };

static bool depth_is_column(const struct gemm_operand *o) {
    return !o->first_is_column;
}

static bool is_described(const struct gemm_operand *o) {
    const struct tile_buffer *b = o->region->buffer;
    if (b->memory != TILE_SHARED || !program_has_panels(b))
        return false;
    return render_gemm_origin(o, 1) % (depth_is_column(o) ? GEMM_STEP : GEMM_PANEL) == 0;
}

static bool a_is_described(const struct gemm_product *m) {
    return is_described(&m->a) && m->a.steps == 1;
}

bool render_gemm_has_warps(const struct gemm_product *m) {
    return m->down % WARPS == 0 && m->columns <= MOST_COLUMNS && is_described(&m->b) &&
           (depth_is_column(&m->b) || m->columns % GEMM_PANEL == 0);
}

// Writes the descriptor of an operand. Its unit is 16 bytes, which are eight elements.
static void descriptor(struct program *p, const struct gemm_operand *o) {
    int64_t rows = render_gemm_size(o, 0), row = render_gemm_origin(o, 0), column = render_gemm_origin(o, 1);
    text_add(p->style.out, "%*sconst u64 zl_from_%c = zl_descriptor(", 4 * p->style.indent, "", o->name);
    render_gemm_matrix(p, o);
    if (depth_is_column(o))
        text_add(p->style.out, " + (zl_first_%c + %" PRId64 "u) * %du, 16);\n", o->name, row, GEMM_PANEL);
    else
        text_add(p->style.out,
                 " + (zl_first_%c + %" PRId64 "u) * %" PRId64 "u + %" PRId64 "u, %" PRId64 "u);\n", o->name,
                 column, rows, row * GEMM_PANEL, rows * 128);
}

static void add_step(struct program *p, const struct gemm_operand *o) {
    if (depth_is_column(o))
        text_add(p->style.out,
                 "zl_from_%c + ((zl_k * 16 + %" PRId64 "u) / %d * %" PRId64 "u + (zl_k * 16 + %" PRId64
                 "u) %% %d / 8)",
                 o->name, render_gemm_origin(o, 1), GEMM_PANEL, render_gemm_size(o, 0) * 8,
                 render_gemm_origin(o, 1), GEMM_PANEL);
    else
        text_add(p->style.out, "zl_from_%c + zl_k * %d", o->name, GEMM_STEP * 8);
}

static void multiply(struct program *p, const struct gemm_product *m, bool is_first) {
    struct text *out = p->style.out;
    int count = (int)m->columns / 2, at = count;
    bool described = a_is_described(m);
    text_add(
        out,
        "%*sasm volatile(\"{ .reg .pred p; setp.ne.b32 p, %d, 0; wgmma.mma_async.sync.aligned.m64n%" PRId64
        "k16.f32.%s.%s {",
        4 * p->style.indent, "", !is_first, m->columns, m->type, m->type);
    for (int i = 0; i < count; i++)
        text_add(out, i ? ", %%%d" : "%%%d", i);
    text_add(out, described ? "}, %%%d" : "}, {%%%d, %%%d, %%%d, %%%d}", at, at + 1, at + 2, at + 3);
    at += described ? 1 : 4;
    text_add(out, ", %%%d, p, 1, 1, ", at);
    if (described)
        text_add(out, "%d, ", !depth_is_column(&m->a));
    text_add(out, "%d; }\" :", !depth_is_column(&m->b));
    for (int i = 0; i < count; i++)
        text_add(out, "%s \"%cf\"(b%d[zl_i * %d + %d])", i ? "," : "", is_first ? '=' : '+', m->sum, count,
                 i);
    text_add(out, " : ");
    if (described) {
        text_add(out, "\"l\"(");
        add_step(p, &m->a);
        text_add(out, ")");
    } else
        for (int i = 0; i < 4; i++)
            text_add(out, "%s\"r\"(zl_a[zl_k][zl_i][%d])", i ? ", " : "", i);
    text_add(out, ", \"l\"(");
    add_step(p, &m->b);
    text_add(out, "));\n");
}

static void open_steps(struct program *p, const struct gemm_product *m, int from, int64_t to) {
    render_gemm_loop(p, "zl_k", from, to);
    render_gemm_loop(p, "zl_i", 0, m->a.steps);
}

static void close_steps(struct program *p) {
    style_close(&p->style);
    style_close(&p->style);
}

// Keeps the compiler from moving accesses to the sums across this point.
static void hold(struct program *p, const struct gemm_product *m) {
    style_line(&p->style, "ZL_UNROLL");
    style_line(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", m->a.steps * m->columns / 2);
    style_line(&p->style, "    asm volatile(\"\" : \"+f\"(b%d[zl_i]) :: \"memory\");", m->sum);
}

static void begin_copies(struct program *p) {
    if (!p->ahead)
        return;
    struct tile_stmt alone = *p->ahead;
    alone.next = NULL;
    program_block(p, &alone);
    p->ahead = NULL;
}

void render_gemm_by_warps(struct program *p, const struct gemm_product *m) {
    int64_t steps = m->depth / GEMM_STEP;
    int groups = m->down / WARPS;
    style_line(&p->style, "const u32 zl_group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);");
    if (a_is_described(m)) {
        style_line(&p->style, "const u32 zl_first_a = zl_group %% %d * %" PRId64 "u;", groups,
                   m->rows * WARPS);
        descriptor(p, &m->a);
    } else {
        style_line(&p->style, "u32 zl_a[%" PRId64 "][%" PRId64 "][4];", steps, m->a.steps);
        render_gemm_loop(p, "zl_k", 0, steps);
        render_gemm_load(p, &m->a, "zl_a[zl_k]", m->depth);
        style_close(&p->style);
    }
    style_line(&p->style, "const u32 zl_first_b = zl_group / %d * %" PRId64 "u;", groups, m->columns);
    descriptor(p, &m->b);
    if (!m->clear)
        hold(p, m);
    style_line(&p->style, "ZL_MATRICES_BEGIN;");
    if (m->clear) {
        open_steps(p, m, 0, 1);
        multiply(p, m, true);
        close_steps(p);
    }
    open_steps(p, m, m->clear, steps);
    multiply(p, m, false);
    close_steps(p);
    begin_copies(p);
    style_line(&p->style, "ZL_MATRICES_END;");
    hold(p, m);
}
