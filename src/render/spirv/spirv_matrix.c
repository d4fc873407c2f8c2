// spirv_matrix.c - multiplies tiles by cooperative matrices of 16 x 16 elements, of subgroups of 32 threads.

#include "render/spirv/spirv_program.h"

#include "render/c/program.h"

// rows of a matrix; registers per thread for it; 16-bit elements in 16 bytes
enum { SIDE = 16, EACH = 8, PACK = 8 };
enum { SUBGROUP = 32 }; // threads
enum { MOST = 16 };     // most matrices of a subgroup along a side
enum { USE_A, USE_B, USE_SUM };
enum { ROW_MAJOR, COLUMN_MAJOR };
enum { NON_PRIVATE = 0x20 };

struct product {
    const struct tile_stmt *s;
    int64_t rows, columns, depth; // per subgroup, in matrices
    spirv_id first[2];            // its first row, its first column
};

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

static spirv_id component_of(struct spirv_program *p, struct tile_type type) {
    if (type.bits == 32)
        return spirv_float(&p->m, 32);
    if (type.kind == TILE_BFLOAT)
        spirv_need(&p->m, SPIRV_BFLOAT_MATRIX);
    return spirv_half(&p->m, type.kind == TILE_BFLOAT);
}

static spirv_id matrix_type(struct spirv_program *p, struct tile_type type, int use) {
    spirv_need(&p->m, SPIRV_MATRIX);
    spirv_extend(&p->m, "SPV_KHR_cooperative_matrix");
    return spirv_matrix(&p->m, component_of(p, type), SIDE, (uint32_t)use);
}

// Between registers and matrices ----------------------------------------------------------------------------

// Which thread holds which element of a cooperative matrix is not specified. So a subgroup writes a matrix,
// in rows of 16, to a part of shared memory that only it uses, and reads the elements from there.

// Returns where the subgroup's own part begins, in elements of `bytes` bytes.
static spirv_id own_part(struct spirv_program *p, int bytes) {
    spirv_id subgroup = spirv_op_by(p, SPIRV_UDiv, p->thread, SUBGROUP);
    return spirv_op_by(p, SPIRV_IMul, subgroup, TARGET_EXCHANGED * SUBGROUP / (uint32_t)bytes);
}

// Returns a pointer to the place of register e, of this thread's eight, in layout_matrix of pass/layout.c.
static spirv_id exchanged(struct spirv_program *p, int e, int bytes) {
    uint32_t within = (uint32_t)(e / 2 % 2 * 8 * SIDE + e / 4 * 8 + e % 2);
    spirv_id lane = spirv_op_by(p, SPIRV_UMod, p->thread, SUBGROUP);
    spirv_id row = spirv_op_by(p, SPIRV_IMul, spirv_op_by(p, SPIRV_UDiv, lane, 4), SIDE);
    spirv_id pair = spirv_op_by(p, SPIRV_IMul, spirv_op_by(p, SPIRV_UMod, lane, 4), 2);
    spirv_id at = spirv_op(p, SPIRV_IAdd, spirv_op(p, SPIRV_IAdd, own_part(p, bytes), row), pair);
    return spirv_exchange_pointer(p, spirv_op_by(p, SPIRV_IAdd, at, within), bytes);
}

static spirv_id load_matrix(struct spirv_program *p, struct tile_type type, int use, spirv_id pointer,
                            int layout, uint32_t stride) {
    spirv_id of = matrix_type(p, type, use), how = spirv_u32(p, (uint32_t)layout),
             step = spirv_u32(p, stride);
    return spirv_value(&p->m, SPIRV_CooperativeMatrixLoadKHR, of, pointer, how, step, NON_PRIVATE);
}

// Returns a matrix made from eight registers of each thread, from register `first` on.
static spirv_id from_registers(struct spirv_program *p, const struct tile_buffer *b, int64_t first, int use) {
    int bytes = tile_type_bytes(b->type);
    spirv_meet(p, SPIRV_SUBGROUP);
    for (int e = 0; e < EACH; e++) {
        spirv_id to = exchanged(p, e, bytes), bits = spirv_read(p, b, spirv_u32(p, (uint32_t)(first + e)), 0);
        if (bytes == 2)
            bits = spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 16), bits);
        spirv_do(&p->m, SPIRV_Store, to, bits, NON_PRIVATE);
    }
    spirv_meet(p, SPIRV_SUBGROUP);
    return load_matrix(p, b->type, use, spirv_exchange_pointer(p, own_part(p, bytes), bytes), ROW_MAJOR,
                       SIDE);
}

static void to_registers(struct spirv_program *p, const struct tile_buffer *b, int64_t first,
                         spirv_id matrix) {
    int bytes = tile_type_bytes(b->type);
    spirv_meet(p, SPIRV_SUBGROUP);
    spirv_id to = spirv_exchange_pointer(p, own_part(p, bytes), bytes), how = spirv_u32(p, ROW_MAJOR);
    spirv_do(&p->m, SPIRV_CooperativeMatrixStoreKHR, to, matrix, how, spirv_u32(p, SIDE), NON_PRIVATE);
    spirv_meet(p, SPIRV_SUBGROUP);
    for (int e = 0; e < EACH; e++) {
        spirv_id from = exchanged(p, e, bytes), at = spirv_u32(p, (uint32_t)(first + e));
        spirv_write(p, b, at, spirv_value(&p->m, SPIRV_Load, spirv_uint(&p->m, 32), from, NON_PRIVATE));
    }
}

// Factors ---------------------------------------------------------------------------------------------------

// Returns whether all rows of a region begin at multiples of 16 bytes, and the memory can be read in packs of
// 16 bytes.
static bool lies_in_packs(const struct spirv_program *p, const struct tile_region *r) {
    const struct tile_buffer *b = r->buffer;
    bool lies = p->unit->has_shared_layout && (!r->origin || pass_number(r->origin[b->ndim - 1]) % PACK == 0);
    for (int i = 0; i < b->ndim - 1; i++)
        lies = lies && program_stride(b, i) % PACK == 0;
    return lies;
}

// Returns where a region begins for this subgroup, in packs. The distance of each of its matrices from there
// is a constant of its instructions.
static spirv_id begin_of(struct spirv_program *p, const struct product *m, int which, uint32_t row,
                         int pack) {
    const struct tile_region *r = &m->s->region[which];
    spirv_id at = r->origin ? spirv_place(p, r->buffer, r->origin, -1) : spirv_u32(p, 0);
    uint32_t step = m->s->transpose[which] != (which == 1) ? 1 : row;
    at = spirv_op(p, SPIRV_IAdd, at, spirv_op_by(p, SPIRV_IMul, m->first[which], step));
    return pack > 1 ? spirv_op_by(p, SPIRV_UDiv, at, (uint32_t)pack) : at;
}

// Loads matrix `tile` along the result's rows (which = 0) or columns (which = 1), and k along the depth.
// Drivers read packs of 16 bytes at once, but elements one by one.
static spirv_id factor(struct spirv_program *p, const struct product *m, int which, int64_t tile, int64_t k) {
    const struct tile_region *r = &m->s->region[which];
    const struct tile_buffer *b = r->buffer;
    bool is_transposed = m->s->transpose[which], first_is_column = is_transposed != (which == 1);
    if (b->memory == TILE_REGISTER && which == 0)
        return from_registers(p, b, (tile * m->depth + k) * EACH, USE_A);
    if (b->memory != TILE_SHARED || b->swizzle)
        spirv_fail(p, "matrices are read from shared memory without a swizzle, not from ", b->text);
    uint32_t row = (uint32_t)program_stride(b, b->ndim - 2), pack = lies_in_packs(p, r) ? PACK : 1;
    uint32_t down = (uint32_t)(first_is_column ? k : tile), across = (uint32_t)(first_is_column ? tile : k);
    spirv_id at = begin_of(p, m, which, row, (int)pack);
    at = spirv_op_by(p, SPIRV_IAdd, at, (down * row + across) * (SIDE / pack));
    return load_matrix(p, b->type, which == 0 ? USE_A : USE_B, spirv_pack_pointer(p, b, at, (int)pack),
                       is_transposed ? COLUMN_MAJOR : ROW_MAJOR, row / pack);
}

// Sums ------------------------------------------------------------------------------------------------------

static spirv_id sum_type(struct spirv_program *p) {
    return matrix_type(p, f32, USE_SUM);
}

static int64_t matrices_of(const struct tile_buffer *sums) {
    return program_elements(sums) / EACH;
}

static void open_sums(struct spirv_program *p, const struct tile_buffer *b, bool are_cleared) {
    struct spirv_memory *m = &p->memory[b->id];
    if (!m->sum)
        m->sum = arena_alloc(&p->arena, sizeof *m->sum * (size_t)matrices_of(b));
    if (!m->sum) {
        p->failed = true;
        return;
    }
    for (int64_t i = 0; i < matrices_of(b) && !m->sum[i]; i++)
        m->sum[i] = spirv_local(&p->m, sum_type(p));
    m->is_open = true;
    for (int64_t i = 0; i < matrices_of(b) && !are_cleared; i++)
        spirv_do(&p->m, SPIRV_Store, m->sum[i], from_registers(p, b, i * EACH, USE_SUM));
}

static bool is_load_of(expr e, const void *buffer) {
    return e->op == TILE_LOAD && tile_memory_of(e->buffer) == buffer;
}

// Returns whether a statement accesses the sums other than as the result of a product.
static bool touches(const struct tile_stmt *s, const void *buffer) {
    expr root[TILE_STMT_EXPRS];
    bool is_touched = s->buffer && tile_memory_of(s->buffer) == buffer;
    for (int i = 0; i < 3; i++)
        is_touched |= s->region[i].buffer && tile_memory_of(s->region[i].buffer) == buffer &&
                      !(s->kind == TILE_GEMM && i == 2);
    int count = tile_stmt_exprs(s, root);
    for (int i = 0; i < count && !is_touched; i++)
        is_touched = root[i] && pass_any(root[i], is_load_of, buffer);
    return is_touched;
}

static void open_of(struct spirv_program *p, const struct tile_stmt *loop, const struct tile_stmt *s,
                    int *count, const struct tile_buffer **buffer) {
    for (; s; s = s->next) {
        const struct tile_buffer *b = s->kind == TILE_GEMM ? s->region[2].buffer : NULL;
        if (b && *count < SPIRV_SUMS && !p->memory[b->id].is_open && !pass_find(loop->body, touches, b)) {
            open_sums(p, b, false);
            buffer[(*count)++] = b;
        }
        open_of(p, loop, s->body, count, buffer);
        open_of(p, loop, s->other, count, buffer);
    }
}

int spirv_open_sums(struct spirv_program *p, const struct tile_stmt *loop,
                    const struct tile_buffer **buffer) {
    int count = 0;
    if (p->is_vulkan)
        open_of(p, loop, loop->body, &count, buffer);
    return count;
}

void spirv_close_sums(struct spirv_program *p, int count, const struct tile_buffer *const *buffer) {
    for (int i = 0; i < count && !p->failed; i++) {
        struct spirv_memory *m = &p->memory[buffer[i]->id];
        m->is_open = false;
        for (int64_t k = 0; k < matrices_of(buffer[i]); k++)
            to_registers(p, buffer[i], k * EACH, spirv_load(&p->m, sum_type(p), m->sum[k]));
    }
}

// Products --------------------------------------------------------------------------------------------------

static void multiply(struct spirv_program *p, const struct product *m) {
    const spirv_id *variable = p->memory[m->s->region[2].buffer->id].sum;
    spirv_id sum[MOST * MOST], a[MOST], type = sum_type(p);
    for (int64_t i = 0; i < m->rows * m->columns; i++)
        sum[i] = m->s->clear
                     ? spirv_value(&p->m, SPIRV_CompositeConstruct, type, spirv_constant_of(p, f32, 0))
                     : spirv_load(&p->m, type, variable[i]);
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
        spirv_do(&p->m, SPIRV_Store, variable[i], sum[i]);
}

void spirv_gemm(struct spirv_program *p, const struct tile_stmt *s) {
    struct product m = {.s = s,
                        .rows = pass_number(s->extent[0]) / s->threads / SIDE,
                        .columns = pass_number(s->extent[1]) / s->keep / SIDE,
                        .depth = pass_number(s->extent[2]) / SIDE};
    spirv_id subgroup = spirv_op_by(p, SPIRV_UDiv, p->thread, SUBGROUP);
    spirv_id down = spirv_op_by(p, SPIRV_UMod, subgroup, (uint32_t)s->threads);
    m.first[0] = spirv_op_by(p, SPIRV_IMul, down, (uint32_t)m.rows * SIDE);
    spirv_id across = spirv_op_by(p, SPIRV_UDiv, subgroup, (uint32_t)s->threads);
    m.first[1] = spirv_op_by(p, SPIRV_IMul, across, (uint32_t)m.columns * SIDE);
    if (m.rows > MOST || m.columns > MOST)
        spirv_fail(p, "a subgroup has more than 256 rows or columns of the result", "");
    const struct tile_buffer *sums = s->region[2].buffer;
    bool is_open = p->memory[sums->id].is_open;
    if (!is_open)
        open_sums(p, sums, s->clear);
    if (!p->failed)
        multiply(p, &m);
    if (!is_open)
        spirv_close_sums(p, 1, &sums);
}
