// group_gemm.c - products of tiles by CUDA's matrix instructions: m16n8k16 on fragments that ldmatrix reads from shared memory.
//
// A subgroup has some rows and columns of the result: in steps of 16 along the depth it loads 16 x 16 of a for each of its rows
// and 16 x 16 of b for each pair of its columns, and multiplies all with all.

#include "render/group.h"

#include <inttypes.h>

struct operand {
    const struct tile_region *region;
    bool is_transposed; // as ldmatrix has to read it
    int64_t steps;      // of 16 rows or columns, of one subgroup
    const char *first;  // of the subgroup: a variable of the text
};

// Row and column in the region of the eight bytes... vectors that this lane gives to ldmatrix.
static void lane_address(struct program *p, const struct operand *o, const char *row, const char *column) {
    const struct tile_buffer *b = o->region->buffer;
    struct text *out = p->style.out;
    int last = b->ndim - 1, bytes = tile_type_bytes(b->type);
    int64_t width = program_number(b->shape[last]), line = width * bytes;
    text_add(out, "b%d", b->id);
    for (int i = 0; o->region->origin && i < last - 1; i++) {
        text_add(out, " + (u32)");
        program_operand(p, o->region->origin[i]);
        text_add(out, " * %" PRId64 "u", program_stride(b, i));
    }
    text_add(out, " + ");
    text_add(out, b->swizzle ? "zl_swizzle(" : "(");
    for (int i = 0; i < 2; i++) {
        text_add(out, i ? " + (%s" : "(%s", i ? column : row);
        if (o->region->origin) {
            text_add(out, " + (u32)");
            program_operand(p, o->region->origin[last - 1 + i]);
        }
        text_add(out, i ? ")" : ") * %" PRId64 "u", width);
    }
    int shift = 0;
    while (bytes << shift < MAX_OF(line, 128))
        shift++;
    if (b->swizzle)
        text_add(out, ", %d, 3)", shift);
    else
        text_add(out, ")");
}

// a as [rows, depth], lanes 0..15 its rows; stored the other way round, lanes are steps of the depth.
static void load_a(struct program *p, const struct operand *o) {
    const char *row =
        o->is_transposed ? "zl_k * 16 + zl_lane / 16 * 8 + zl_lane % 8" : "zl_row + zl_i * 16 + zl_lane % 16";
    const char *column =
        o->is_transposed ? "zl_row + zl_i * 16 + zl_lane / 8 % 2 * 8" : "zl_k * 16 + zl_lane / 16 * 8";
    style_line(&p->style, "u32 zl_a[%" PRId64 "][4];", o->steps);
    style_line(&p->style, "ZL_UNROLL");
    style_line(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", o->steps);
    text_add(p->style.out, "%*szl_load_%s(zl_a[zl_i], ", 4 * p->style.indent + 4, "",
             o->is_transposed ? "transposed" : "matrices");
    lane_address(p, o, row, column);
    text_add(p->style.out, ");\n");
}

static void load_b(struct program *p, const struct operand *o) {
    const char *row = o->is_transposed ? "zl_k * 16 + zl_lane / 8 % 2 * 8 + zl_lane % 8"
                                       : "zl_column + zl_i * 16 + zl_lane / 16 * 8 + zl_lane % 8";
    const char *column =
        o->is_transposed ? "zl_column + zl_i * 16 + zl_lane / 16 * 8" : "zl_k * 16 + zl_lane / 8 % 2 * 8";
    style_line(&p->style, "u32 zl_b[%" PRId64 "][4];", o->steps);
    style_line(&p->style, "ZL_UNROLL");
    style_line(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", o->steps);
    text_add(p->style.out, "%*szl_load_%s(zl_b[zl_i], ", 4 * p->style.indent + 4, "",
             o->is_transposed ? "transposed" : "matrices");
    lane_address(p, o, row, column);
    text_add(p->style.out, ");\n");
}

// A tile in registers is laid out as the instruction wants it: pairs of neighbours are words.
static void pack_a(struct program *p, const struct operand *o, int64_t depth) {
    int id = o->region->buffer->id;
    style_line(&p->style, "u32 zl_a[%" PRId64 "][4];", o->steps);
    style_line(&p->style, "ZL_UNROLL");
    style_open(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", o->steps);
    style_line(&p->style, "ZL_UNROLL");
    style_open(&p->style, "for (u32 zl_j = 0; zl_j < 4; zl_j++)");
    style_line(&p->style, "const u32 zl_at = zl_i * %" PRId64 "u + zl_k * 8 + zl_j * 2;", depth / 2);
    style_line(&p->style, "zl_a[zl_i][zl_j] = (u32)b%d[zl_at] | (u32)b%d[zl_at + 1] << 16;", id, id);
    style_close(&p->style);
    style_close(&p->style);
}

static void multiply(struct program *p, const char *type, int sum, int64_t rows, int64_t pairs) {
    style_line(&p->style, "ZL_UNROLL");
    style_open(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", rows);
    style_line(&p->style, "ZL_UNROLL");
    style_open(&p->style, "for (u32 zl_j = 0; zl_j < %" PRId64 "; zl_j++)", 2 * pairs);
    style_line(&p->style,
               "zl_multiply_%s(b%d + (zl_i * %" PRId64
               " + zl_j) * 4, zl_a[zl_i], zl_b[zl_j / 2] + zl_j %% 2 * 2);",
               type, sum, 2 * pairs);
    style_close(&p->style);
    style_close(&p->style);
}

void group_gemm(struct program *p, const struct tile_stmt *s) {
    expr root[TILE_STMT_EXPRS];
    int64_t m = program_number(s->extent[0]), n = program_number(s->extent[1]),
            k = program_number(s->extent[2]);
    int64_t rows = m / s->threads, columns = n / s->keep;
    struct operand a = {&s->region[0], s->transpose[0], rows / 16, "zl_row"};
    struct operand b = {&s->region[1], !s->transpose[1], columns / 16, "zl_column"};
    int sum = s->region[2].buffer->id;
    style_line(&p->style, "{");
    p->style.indent++;
    program_nodes(p, tile_stmt_exprs(s, root), root);
    style_line(&p->style,
               "const u32 zl_lane = threadIdx.x %% 32, zl_row = threadIdx.x / 32 %% %d * %" PRId64 "u, "
               "zl_column = threadIdx.x / %d * %" PRId64 "u;",
               s->threads, rows, 32 * s->threads, columns);
    if (s->clear) {
        style_line(&p->style, "ZL_UNROLL");
        style_line(&p->style, "for (u32 zl_i = 0; zl_i < %" PRId64 "; zl_i++)", rows * columns / 32);
        style_line(&p->style, "    b%d[zl_i] = 0;", sum);
    }
    style_line(&p->style, "ZL_UNROLL");
    style_open(&p->style, "for (u32 zl_k = 0; zl_k < %" PRId64 "; zl_k++)", k / 16);
    if (s->region[0].buffer->memory == TILE_REGISTER)
        pack_a(p, &a, k);
    else
        load_a(p, &a);
    load_b(p, &b);
    multiply(p, tile_type_name(s->region[0].buffer->type), sum, a.steps, b.steps);
    style_close(&p->style);
    style_close(&p->style);
}
