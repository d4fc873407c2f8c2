// group_gemm.c - renders products of tiles by CUDA's matrix instructions.
//
// A subgroup computes some rows and columns of the result. In steps of 16 along the depth it loads 16 x 16
// elements of a for each 16 of its rows and 16 x 16 of b for each 16 of its columns, and multiplies each with
// each: m16n8k16 on fragments that ldmatrix loads. If four subgroups have the same columns and b is stored in
// panels, sm_90a multiplies 64 rows at once (group_warps.c).

#include "render/gpu_c/group_gemm.h"

#include <inttypes.h>

int64_t render_gemm_origin(const struct gemm_operand *o, int axis) {
    const struct tile_region *r = o->region;
    return r->origin ? pass_number(r->origin[r->buffer->ndim - 2 + axis]) : 0;
}

int64_t render_gemm_size(const struct gemm_operand *o, int axis) {
    const struct tile_buffer *b = o->region->buffer;
    return pass_number(b->shape[b->ndim - 2 + axis]);
}

void render_gemm_loop(struct program *p, const char *name, int64_t from, int64_t to) {
    style_line(&p->style, "ZL_UNROLL");
    style_open(&p->style, "for (u32 %s = %" PRId64 "; %s < %" PRId64 "; %s++)", name, from, name, to, name);
}

void render_gemm_matrix(struct program *p, const struct gemm_operand *o) {
    const struct tile_buffer *b = o->region->buffer;
    text_add(p->style.out, "b%d", b->id);
    for (int i = 0; o->region->origin && i < b->ndim - 2; i++)
        program_text(p, &o->region->origin[i], " + (u32)@ * %" PRId64 "u", program_stride(b, i));
}

// Loads -----------------------------------------------------------------------------------------------------

// Returns whether the lane's offset is computed once for all loads: in panels, the loads differ only by whole
// rows and panels, and by the swizzled bits.
static bool has_lane(const struct gemm_operand *o) {
    return o->region->buffer->memory == TILE_SHARED && program_has_panels(o->region->buffer) &&
           render_gemm_origin(o, 1) % GEMM_STEP == 0 &&
           (!o->first_is_column || o->steps * GEMM_STEP % GEMM_PANEL == 0);
}

static void lane_place(struct program *p, const struct gemm_operand *o) {
    if (!has_lane(o))
        return;
    text_add(p->style.out,
             "%*sconst u32 zl_at_%c = (%s) * %du + ((%s) ^ zl_lane %% 8 * 8) + %s * %" PRId64 "u;\n",
             4 * p->style.indent, "", o->name, o->lane[0], GEMM_PANEL, o->lane[1], o->first,
             o->first_is_column ? render_gemm_size(o, 0) : GEMM_PANEL);
}

// Writes the row (axis 0) or column (axis 1) of the region at which this lane reads eight elements.
static void lane_index(struct program *p, const struct gemm_operand *o, int axis) {
    text_add(p->style.out, "%s%s%s + %s + %" PRId64 "u", o->first_is_column == axis ? o->first : "",
             o->first_is_column == axis ? " + " : "", o->step[axis], o->lane[axis],
             render_gemm_origin(o, axis));
}

static void lane_address(struct program *p, const struct gemm_operand *o) {
    const struct tile_buffer *b = o->region->buffer;
    struct text *out = p->style.out;
    int64_t rows = render_gemm_size(o, 0), width = render_gemm_size(o, 1);
    render_gemm_matrix(p, o);
    if (has_lane(o)) {
        int64_t row = render_gemm_origin(o, 0), column = render_gemm_origin(o, 1);
        text_add(out, " + (%s + %" PRId64 "u) * %du + (%s + %" PRId64 "u) / %d * %" PRId64 "u", o->step[0],
                 row, GEMM_PANEL, o->step[1], column, GEMM_PANEL, rows * GEMM_PANEL);
        text_add(out, " + (zl_at_%c ^ (%s + %" PRId64 "u) %% %d)", o->name, o->step[1], column, GEMM_PANEL);
        return;
    }
    bool has_panels = program_has_panels(b);
    text_add(out, has_panels ? " + zl_panel(" : b->swizzle ? " + zl_swizzle((" : " + ((");
    lane_index(p, o, 0);
    if (has_panels)
        text_add(out, ", ");
    else
        text_add(out, ") * %" PRId64 "u + ", width);
    lane_index(p, o, 1);
    if (has_panels)
        text_add(out, ", %" PRId64 "u, 6, 3)", rows);
    else
        text_add(out, b->swizzle ? ", 6, 3)" : ")");
}

static void load(struct program *p, const struct gemm_operand *o, const char *to) {
    style_line(&p->style, "ZL_UNROLL");
    style_line(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", o->steps);
    text_add(p->style.out, "%*szl_load_%s(%s[zl_i], ", 4 * p->style.indent + 4, "",
             o->is_transposed ? "transposed" : "matrices", to);
    lane_address(p, o);
    text_add(p->style.out, ");\n");
}

// Packs a tile in registers into words of two adjacent elements: its layout is already that of the
// instruction.
static void pack(struct program *p, const struct gemm_operand *o, const char *to, int64_t depth) {
    int id = o->region->buffer->id;
    render_gemm_loop(p, "zl_i", 0, o->steps);
    render_gemm_loop(p, "zl_j", 0, 4);
    style_line(&p->style, "const u32 zl_at = zl_i * %" PRId64 "u + zl_k * 8 + zl_j * 2;", depth / 2);
    style_line(&p->style, "%s[zl_i][zl_j] = (u32)b%d[zl_at] | (u32)b%d[zl_at + 1] << 16;", to, id, id);
    style_close(&p->style);
    style_close(&p->style);
}

void render_gemm_load(struct program *p, const struct gemm_operand *o, const char *to, int64_t depth) {
    if (o->region->buffer->memory == TILE_REGISTER)
        pack(p, o, to, depth);
    else
        load(p, o, to);
}

// Products --------------------------------------------------------------------------------------------------

// Describes a as [rows, depth]: lanes 0..15 address its rows or, if it is stored transposed, steps of the
// depth.
static struct gemm_operand operand_a(const struct tile_stmt *s, int64_t rows) {
    struct gemm_operand o = {.region = &s->region[0],
                             .is_transposed = s->transpose[0],
                             .first_is_column = s->transpose[0],
                             .steps = rows / GEMM_STEP,
                             .name = 'a',
                             .first = "zl_row"};
    o.step[s->transpose[0]] = "zl_i * 16";
    o.step[!s->transpose[0]] = "zl_k * 16";
    o.lane[0] = s->transpose[0] ? "zl_lane / 16 * 8 + zl_lane % 8" : "zl_lane % 16";
    o.lane[1] = s->transpose[0] ? "zl_lane / 8 % 2 * 8" : "zl_lane / 16 * 8";
    return o;
}

static struct gemm_operand operand_b(const struct tile_stmt *s, int64_t columns) {
    struct gemm_operand o = {.region = &s->region[1],
                             .is_transposed = !s->transpose[1],
                             .first_is_column = !s->transpose[1],
                             .steps = columns / GEMM_STEP,
                             .name = 'b',
                             .first = "zl_column"};
    o.step[!s->transpose[1]] = "zl_i * 16";
    o.step[s->transpose[1]] = "zl_k * 16";
    o.lane[0] = s->transpose[1] ? "zl_lane / 16 * 8 + zl_lane % 8" : "zl_lane / 8 % 2 * 8 + zl_lane % 8";
    o.lane[1] = s->transpose[1] ? "zl_lane / 8 % 2 * 8" : "zl_lane / 16 * 8";
    return o;
}

static void multiply(struct program *p, const struct gemm_product *m) {
    int64_t pairs = m->b.steps;
    render_gemm_loop(p, "zl_i", 0, m->a.steps);
    render_gemm_loop(p, "zl_j", 0, 2 * pairs);
    style_line(&p->style,
               "zl_multiply_%s(b%d + (zl_i * %" PRId64
               " + zl_j) * 4, zl_a[zl_i], zl_b[zl_j / 2] + zl_j %% 2 * 2);",
               m->type, m->sum, 2 * pairs);
    style_close(&p->style);
    style_close(&p->style);
}

static void by_subgroups(struct program *p, const struct gemm_product *m) {
    lane_place(p, &m->b);
    if (m->clear) {
        style_line(&p->style, "ZL_UNROLL");
        style_line(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", m->rows * m->columns / 32);
        style_line(&p->style, "    b%d[zl_i] = 0;", m->sum);
    }
    render_gemm_loop(p, "zl_k", 0, m->depth / GEMM_STEP);
    style_line(&p->style, "u32 zl_a[%" PRId64 "][4], zl_b[%" PRId64 "][4];", m->a.steps, m->b.steps);
    render_gemm_load(p, &m->a, "zl_a", m->depth);
    render_gemm_load(p, &m->b, "zl_b", m->depth);
    multiply(p, m);
    style_close(&p->style);
}

static struct gemm_product product_of(const struct tile_stmt *s) {
    struct gemm_product m = {.rows = pass_number(s->extent[0]) / s->threads,
                             .columns = pass_number(s->extent[1]) / s->keep,
                             .depth = pass_number(s->extent[2]),
                             .down = s->threads,
                             .clear = s->clear,
                             .sum = s->region[2].buffer->id,
                             .type = tile_type_name(s->region[0].buffer->type)};
    m.a = operand_a(s, m.rows);
    m.b = operand_b(s, m.columns);
    return m;
}

bool render_group_gemm_runs_on(const struct tile_stmt *s) {
    struct gemm_product m = product_of(s);
    return render_gemm_has_warps(&m);
}

void render_group_gemm(struct program *p, const struct tile_stmt *s) {
    struct gemm_product m = product_of(s);
    program_open(p, s, 0, NULL);
    style_line(&p->style,
               "const u32 zl_lane = threadIdx.x %% 32, zl_row = threadIdx.x / 32 %% %d * %" PRId64 "u, "
               "zl_column = threadIdx.x / %d * %" PRId64 "u;",
               m.down, m.rows, 32 * m.down, m.columns);
    lane_place(p, &m.a);
    if (render_gemm_has_warps(&m)) {
        text_add(p->style.out, "#ifdef ZL_WARPS\n");
        render_gemm_by_warps(p, &m);
        text_add(p->style.out, "#else\n");
    }
    by_subgroups(p, &m);
    if (render_gemm_has_warps(&m))
        text_add(p->style.out, "#endif\n");
    style_close(&p->style);
}
