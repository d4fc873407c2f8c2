// spirv_matrix.c - products of tiles by cooperative matrices of 16 x 16 elements, of subgroups of 32 threads.
//
// Registers hold tiles as m16n8k16 of CUDA wants them: of 16 x 16 elements a thread has eight, of sums those of the left half first. Only
// units whose cooperative matrices have that order say that they have any (target_spirv).

#include "render/spirv_program.h"

#include "render/program.h"

enum {
    SIDE = 16,
    EACH = 8,
    SUBGROUP = 32,
    MOST = 16,
    USE_A = 0,
    USE_B,
    USE_SUM
}; // MOST: matrices of a subgroup along a side

struct product {
    const struct tile_stmt *s;
    int64_t rows, columns, depth; // of a subgroup, in matrices
    spirv_id first[2];            // its first row, its first column
};

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

static spirv_id component_of(struct spirv_program *p, struct tile_type type) {
    if (type.kind != TILE_BFLOAT)
        return spirv_float(&p->m, type.bits);
    spirv_need(&p->m, SPIRV_BFLOAT);
    spirv_need(&p->m, SPIRV_BFLOAT_MATRIX);
    spirv_extend(&p->m, "SPV_KHR_bfloat16");
    return spirv_bfloat(&p->m);
}

static spirv_id matrix_type(struct spirv_program *p, struct tile_type type, int use) {
    spirv_need(&p->m, SPIRV_MATRIX);
    spirv_extend(&p->m, "SPV_KHR_cooperative_matrix");
    return spirv_matrix(&p->m, component_of(p, type), SIDE, (uint32_t)use);
}

// A pointer to one of the elements that this thread has of a matrix in a variable.
static spirv_id element(struct spirv_program *p, spirv_id variable, struct tile_type type, int which) {
    spirv_id pointer = spirv_pointer(&p->m, SPIRV_PRIVATE, component_of(p, type));
    return spirv_value(&p->m, SPIRV_AccessChain, pointer, variable, spirv_u32(p, (uint32_t)which));
}

static spirv_id register_at(struct spirv_program *p, const struct tile_buffer *b, int64_t at) {
    return spirv_read(p, b, spirv_u32(p, (uint32_t)at), 0);
}

// A factor that registers hold.
static spirv_id from_registers(struct spirv_program *p, const struct product *m, int64_t tile, int64_t k) {
    const struct tile_buffer *b = m->s->region[0].buffer;
    spirv_id type = matrix_type(p, b->type, USE_A), variable = spirv_local(&p->m, type);
    spirv_need(&p->m, SPIRV_INT16);
    for (int e = 0; e < EACH; e++) {
        spirv_id bits = register_at(p, b, tile * m->depth * EACH + k * EACH + e);
        bits = spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 16), bits);
        spirv_do(&p->m, SPIRV_Store, element(p, variable, b->type, e),
                 spirv_value(&p->m, SPIRV_Bitcast, component_of(p, b->type), bits));
    }
    return spirv_load(&p->m, type, variable);
}

// Matrix `tile` along the result's rows (which is 0) or columns, and k along the depth.
static spirv_id factor(struct spirv_program *p, const struct product *m, int which, int64_t tile, int64_t k) {
    enum { ROW_MAJOR, COLUMN_MAJOR, NON_PRIVATE = 0x20 };
    const struct tile_region *r = &m->s->region[which];
    const struct tile_buffer *b = r->buffer;
    bool is_transposed = m->s->transpose[which], first_is_column = is_transposed != (which == 1);
    if (b->memory == TILE_REGISTER && which == 0)
        return from_registers(p, m, tile, k);
    if (b->memory != TILE_SHARED || b->swizzle)
        spirv_fail(p, "matrices are read from shared memory without a swizzle, not from ", b->text);
    uint32_t row = (uint32_t)program_stride(b, b->ndim - 2);
    spirv_id at = r->origin ? spirv_place(p, b, r->origin, -1) : spirv_u32(p, 0);
    spirv_id first = spirv_op(p, SPIRV_IAdd, m->first[which], spirv_u32(p, (uint32_t)tile * SIDE));
    spirv_id down = first_is_column ? spirv_u32(p, (uint32_t)k * SIDE) : first;
    spirv_id across = first_is_column ? first : spirv_u32(p, (uint32_t)k * SIDE);
    at = spirv_op(p, SPIRV_IAdd, at, spirv_op(p, SPIRV_IMul, down, spirv_u32(p, row)));
    at = spirv_op(p, SPIRV_IAdd, at, across);
    return spirv_value(&p->m, SPIRV_CooperativeMatrixLoadKHR,
                       matrix_type(p, b->type, which == 0 ? USE_A : USE_B), spirv_element_pointer(p, b, at),
                       spirv_u32(p, is_transposed ? COLUMN_MAJOR : ROW_MAJOR), spirv_u32(p, row),
                       NON_PRIVATE);
}

static int64_t sum_at(const struct product *m, int64_t i, int64_t j, int e) {
    return (i * m->columns + j) * EACH + e;
}

static spirv_id read_sums(struct spirv_program *p, const struct product *m, spirv_id variable, int64_t i,
                          int64_t j) {
    const struct tile_buffer *b = m->s->region[2].buffer;
    spirv_id zero = spirv_constant_of(p, f32, 0);
    for (int e = 0; e < EACH; e++)
        spirv_do(&p->m, SPIRV_Store, element(p, variable, f32, e),
                 m->s->clear ? zero : spirv_from_bits(p, f32, register_at(p, b, sum_at(m, i, j, e))));
    return spirv_load(&p->m, matrix_type(p, f32, USE_SUM), variable);
}

static void write_sums(struct spirv_program *p, const struct product *m, spirv_id variable, spirv_id sum,
                       int64_t i, int64_t j) {
    const struct tile_buffer *b = m->s->region[2].buffer;
    spirv_do(&p->m, SPIRV_Store, variable, sum);
    for (int e = 0; e < EACH; e++)
        spirv_write(
            p, b, spirv_u32(p, (uint32_t)sum_at(m, i, j, e)),
            spirv_to_bits(p, f32, spirv_load(&p->m, spirv_float(&p->m, 32), element(p, variable, f32, e))));
}

static void multiply(struct spirv_program *p, const struct product *m) {
    spirv_id sum[MOST * MOST], variable[MOST * MOST], a[MOST], type = matrix_type(p, f32, USE_SUM);
    for (int64_t i = 0; i < m->rows * m->columns; i++) {
        variable[i] = spirv_local(&p->m, type);
        sum[i] = read_sums(p, m, variable[i], i / m->columns, i % m->columns);
    }
    for (int64_t k = 0; k < m->depth; k++) {
        for (int64_t i = 0; i < m->rows; i++)
            a[i] = factor(p, m, 0, i, k);
        for (int64_t j = 0; j < m->columns; j++) {
            spirv_id b = factor(p, m, 1, j, k);
            for (int64_t i = 0; i < m->rows; i++) {
                spirv_id *to = &sum[i * m->columns + j];
                *to = spirv_value(&p->m, SPIRV_CooperativeMatrixMulAddKHR, type, a[i], b, *to);
            }
        }
    }
    for (int64_t i = 0; i < m->rows * m->columns; i++)
        write_sums(p, m, variable[i], sum[i], i / m->columns, i % m->columns);
}

void spirv_gemm(struct spirv_program *p, const struct tile_stmt *s) {
    struct product m = {.s = s,
                        .rows = pass_number(s->extent[0]) / s->threads / SIDE,
                        .columns = pass_number(s->extent[1]) / s->keep / SIDE,
                        .depth = pass_number(s->extent[2]) / SIDE};
    spirv_id subgroup = spirv_op(p, SPIRV_UDiv, p->thread, spirv_u32(p, SUBGROUP)),
             down = spirv_u32(p, (uint32_t)s->threads);
    m.first[0] = spirv_op(p, SPIRV_IMul, spirv_op(p, SPIRV_UMod, subgroup, down),
                          spirv_u32(p, (uint32_t)m.rows * SIDE));
    m.first[1] = spirv_op(p, SPIRV_IMul, spirv_op(p, SPIRV_UDiv, subgroup, down),
                          spirv_u32(p, (uint32_t)m.columns * SIDE));
    if (m.rows > MOST || m.columns > MOST)
        spirv_fail(p, "a subgroup has more than 256 rows or columns of the result", "");
    else
        multiply(p, &m);
}
