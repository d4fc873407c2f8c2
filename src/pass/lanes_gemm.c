// lanes_gemm.c - generates the commands of matrix products, for the matrix unit.
//
// A factor is a matrix {1, rows, 1, columns} that begins in lane 0. Transposed factors are transposed first,
// except for a second factor of 16 bits or small floats, and of bytes if the products are not added to a
// tile: the unit reads these as they are.

#include "pass/lanes.h"

#include "bm1690/command.h"

static const struct tile_type f32 = {TILE_FLOAT, 32, 1}, i32 = {TILE_INT, 32, 1};

// Opens the last two axes of a region as points.
static bool open_matrix(struct lanes *l, const struct tile_region *r, struct lane_space *space, expr *index) {
    int ndim = r->buffer->ndim;
    const struct tile_name *name[2];
    expr size[2];
    for (int i = 0; i < 2; i++) {
        size[i] = box_region_size(r, ndim - 2 + i);
        name[i] = box_variable(size[i]);
        if (!name[i] || pass_number(size[i]) < 1)
            return lanes_fail(l, "multiplies tiles whose sizes are known when a kernel is compiled, not '%s'",
                              r->buffer->text);
    }
    // Axes of size 1 stay, unlike in lanes_open.
    *space = (struct lane_space){.points = {.names = 2, .name = {name[0], name[1]}, .dim = {LANE_C, LANE_W}}};
    for (int d = 0; d < LANE_DIMS; d++) {
        int axis = d == LANE_C ? 0 : d == LANE_W ? 1 : -1;
        space->points.most[d] = axis < 0 ? 1 : pass_number(size[axis]);
        space->points.size[d] = lanes_number(space->points.most[d]);
    }
    for (int i = 0; i < ndim; i++) {
        expr origin = box_origin(r, i);
        index[i] = i < ndim - 2 ? origin : ADD(origin, box_point(name[i - ndim + 2]));
    }
    return true;
}

struct factor {
    struct lane_points points;
    struct lane_operand operand;
    int64_t rows, columns;
};

static bool read_factor(struct lanes *l, const struct tile_region *r, bool transposes, struct factor *out) {
    struct lane_space space;
    struct lane_points transposed;
    expr index[TILE_DIMS];
    if (!open_matrix(l, r, &space, index) ||
        !lanes_near(l, &space.points, r->buffer, index, true, &out->operand) ||
        !lanes_aligned(l, &space.points, &out->operand))
        return false;
    out->points = space.points;
    if (transposes) {
        if (!lanes_transposed(l, &space.points, &out->operand, &transposed, &out->operand))
            return false;
        out->points = transposed;
    }
    out->rows = out->points.most[LANE_C];
    out->columns = out->points.most[LANE_W];
    return true;
}

static bool convert(struct lanes *l, struct factor *f, struct tile_type type) {
    struct lane_operand to;
    if (tile_type_equal(f->operand.type, type))
        return true;
    if (!lanes_temporary(l, &f->points, type, NULL, &to) || !lanes_move(l, &f->points, &to, &f->operand))
        return false;
    f->operand = to;
    return true;
}

// Returns the number of columns of an f32 matrix per lane: a divisor of the number of columns with which the
// busiest lane has the fewest vectors.
static int64_t line_of(int64_t columns) {
    int64_t best = columns, least = INT64_MAX;
    for (int64_t line = columns; line; line--) {
        int64_t groups = (columns / line + 63) / 64, vectors = (line + 15) / 16;
        if (columns % line == 0 && groups * vectors < least) {
            least = groups * vectors;
            best = line;
        }
    }
    return best;
}

// Allocates a tile in the layout in which the unit for f32 reads and writes a matrix: each row is a batch
// (n), with line_of(columns) columns in each lane.
static bool as_lines(struct lanes *l, const struct factor *f, struct lane_operand *out) {
    struct lane_points lines = f->points;
    lines.most[LANE_N] = f->rows;
    lines.most[LANE_W] = line_of(f->columns);
    lines.most[LANE_C] = f->columns / lines.most[LANE_W];
    return lanes_temporary(l, &lines, f->operand.type, NULL, out);
}

static void reshape(const struct lane_operand *to, const struct lane_operand *from, const expr *to_shape,
                    const expr *from_shape, const expr *to_stride, const expr *from_stride) {
    struct lane_call c = {0};
    lanes_add(&c, to->address);
    lanes_add(&c, from->address);
    lanes_add_four(&c, to_shape);
    lanes_add_four(&c, from_shape);
    lanes_add_four(&c, to_stride);
    lanes_add_four(&c, from_stride);
    lanes_add_dtype(&c, to->type);
    lanes_call(&c, "tpu_gdma_general_cpy_L2L");
}

static void move_lines(const struct factor *f, const struct lane_operand *lines, bool to_lines) {
    int64_t line = line_of(f->columns);
    expr one = lanes_number(1), rows = lanes_number(f->rows), columns = lanes_number(f->columns);
    expr matrix[LANE_DIMS] = {one, rows, one, columns},
         flat[LANE_DIMS] = {rows, lanes_number(f->columns / line), one, lanes_number(line)};
    if (to_lines)
        reshape(lines, &f->operand, flat, matrix, lines->stride, f->operand.stride);
    else
        reshape(&f->operand, lines, matrix, flat, f->operand.stride, lines->stride);
}

// Multiplies matrices of f32; adds the products to the sum if `adds`.
static bool multiply_f32(struct lanes *l, struct factor *a, struct factor *b, struct factor *sum, bool adds) {
    struct lane_operand left, right, result;
    if (!as_lines(l, a, &left) || !as_lines(l, b, &right) || !as_lines(l, sum, &result))
        return false;
    l->is_mixed = true;
    move_lines(a, &left, true);
    move_lines(b, &right, true);
    if (adds)
        move_lines(sum, &result, true);
    struct lane_call c = {0};
    lanes_add(&c, result.address);
    lanes_add(&c, left.address);
    lanes_add(&c, right.address);
    lanes_add(&c, lanes_number(0));
    lanes_add(&c, lanes_number(a->rows));
    lanes_add(&c, lanes_number(a->columns));
    lanes_add(&c, lanes_number(b->columns));
    lanes_add(&c, lanes_number(line_of(a->columns)));
    lanes_add(&c, lanes_number(line_of(b->columns)));
    lanes_add(&c, lanes_code(0));
    lanes_add(&c, lanes_code(adds));
    lanes_call(&c, "tpu_bdc_fp32_mm");
    move_lines(sum, &result, false);
    return true;
}

static void add_matrices(struct lane_call *c, const struct factor *a, const struct factor *b,
                         const struct factor *sum) {
    lanes_add(c, sum->operand.address);
    lanes_add(c, a->operand.address);
    lanes_add(c, b->operand.address);
}

static void add_sizes(struct lane_call *c, const struct factor *a, const struct factor *sum) {
    lanes_add(c, lanes_number(a->rows));
    lanes_add(c, lanes_number(a->columns));
    lanes_add(c, lanes_number(sum->columns));
}

static void multiply_halves(const struct factor *a, const struct factor *b, const struct factor *sum,
                            bool transposed, bool adds) {
    struct lane_call c = {0};
    add_matrices(&c, a, b, sum);
    add_sizes(&c, a, sum);
    lanes_add_dtype(&c, sum->operand.type);
    lanes_add_dtype(&c, a->operand.type);
    if (!transposed) {
        lanes_add(&c, lanes_code(adds));
        lanes_call(&c, "tpu_bdc_fp_mm");
        return;
    }
    lanes_add_dtype(&c, f32);
    lanes_add(&c, lanes_code(adds));
    lanes_add(&c, lanes_code(1)); // the bias is a number, 0
    lanes_add(&c, tile_const(f32, 0));
    lanes_add(&c, lanes_code(0));
    lanes_call(&c, "tpu_bdc_fp_mm_R_trans_with_bias");
}

static int code_of_small(uint8_t kind) {
    return kind == TILE_E4M3 ? BM1690_FP8E4M3 : BM1690_FP8E5M2;
}

static void multiply_small(const struct tile_stmt *s, const struct factor *a, const struct factor *b,
                           const struct factor *sum, bool adds) {
    struct lane_call c = {0};
    add_matrices(&c, a, b, sum);
    add_sizes(&c, a, sum);
    lanes_add_dtype(&c, sum->operand.type);
    lanes_add(&c, lanes_code(code_of_small(s->small[0])));
    lanes_add(&c, lanes_code(code_of_small(s->small[1])));
    lanes_add(&c, lanes_code(adds));
    lanes_add(&c, lanes_code(0)); // no scale
    lanes_add(&c, lanes_code(1));
    lanes_add(&c, tile_const(f32, 1));
    lanes_call(&c, s->transpose[1] ? "tpu_bdc_fp8_mm_R_trans" : "tpu_bdc_fp8_mm");
}

static void multiply_bytes(const struct factor *a, const struct factor *b, const struct factor *sum,
                           bool transposed, bool adds) {
    struct lane_call c = {0};
    add_matrices(&c, a, b, sum);
    lanes_add(&c, tile_const_int(a->operand.type, 0)); // the zero point, which is subtracted
    add_sizes(&c, a, sum);
    lanes_add_dtype(&c, a->operand.type);
    lanes_add_dtype(&c, b->operand.type);
    if (!transposed)
        lanes_add(&c, lanes_code(adds));
    lanes_call(&c, transposed ? "tpu_bdc_int8_zp_mm_R_trans" : "tpu_bdc_int8_zp_mm");
}

// The kinds of commands that multiply matrices.
enum unit { BY_F32, BY_HALVES, BY_BYTES, BY_SMALL };

static enum unit unit_of(const struct tile_stmt *s) {
    struct tile_type a = s->region[0].buffer->type, b = s->region[1].buffer->type;
    if (s->small[0] && s->small[1])
        return BY_SMALL;
    if (!tile_type_equal(a, b))
        return BY_F32;
    return tile_type_is_half(a) ? BY_HALVES : tile_type_is_integer(a) && a.bits == 8 ? BY_BYTES : BY_F32;
}

// Stores a sum of integers in a tile of floats, or adds it to the tile.
static bool add_as_floats(struct lanes *l, const struct factor *sum, const struct lane_operand *place,
                          bool adds) {
    struct lane_operand product, old;
    if (!lanes_temporary(l, &sum->points, f32, NULL, &product) ||
        !lanes_move(l, &sum->points, &product, &sum->operand))
        return false;
    if (adds &&
        (!lanes_temporary(l, &sum->points, f32, NULL, &old) || !lanes_move(l, &sum->points, &old, place) ||
         !lanes_binary(l, &sum->points, TILE_ADD, &product, &old, &product)))
        return false;
    return lanes_move(l, &sum->points, place, &product);
}

static bool multiply(struct lanes *l, const struct tile_stmt *s, enum unit unit, struct factor *a,
                     struct factor *b, struct factor *sum, bool adds) {
    switch (unit) {
    case BY_HALVES: multiply_halves(a, b, sum, s->transpose[1], adds); return true;
    case BY_SMALL: multiply_small(s, a, b, sum, adds); return true;
    case BY_BYTES: multiply_bytes(a, b, sum, s->transpose[1] && !adds, adds); return true;
    default: return convert(l, a, f32) && convert(l, b, f32) && multiply_f32(l, a, b, sum, adds);
    }
}

bool lanes_gemm(struct lanes *l, const struct tile_stmt *s) {
    const struct tile_buffer *result = s->region[2].buffer;
    enum unit unit = unit_of(s);
    struct tile_type type = unit == BY_BYTES ? i32 : f32; // of the sums
    struct factor a, b, sum;
    struct lane_space space;
    expr index[TILE_DIMS];
    if (!open_matrix(l, &s->region[2], &space, index))
        return false;
    sum = (struct factor){
        .points = space.points, .rows = space.points.most[LANE_C], .columns = space.points.most[LANE_W]};
    if (!lanes_is_local(result) || !lanes_place(l, &space.points, result, index, &sum.operand))
        return lanes_is_local(result) ? false
                                      : lanes_fail(l, "adds products up in tiles, not in '%s'", result->text);
    struct lane_operand place = sum.operand;
    bool is_place = tile_type_equal(place.type, type),
         is_apart = unit == BY_BYTES && tile_type_is_float(place.type), adds = !s->clear && !is_apart;
    bool reads_transposed = unit == BY_HALVES || unit == BY_SMALL || (unit == BY_BYTES && !adds);
    if (!read_factor(l, &s->region[0], s->transpose[0], &a) ||
        !read_factor(l, &s->region[1], s->transpose[1] && !reads_transposed, &b))
        return false;
    if (!is_place && (!lanes_temporary(l, &space.points, type, NULL, &sum.operand) ||
                      (adds && !lanes_move(l, &space.points, &sum.operand, &place))))
        return false;
    if (!multiply(l, s, unit, &a, &b, &sum, adds))
        return false;
    return is_apart   ? add_as_floats(l, &sum, &place, !s->clear)
           : is_place ? true
                      : lanes_move(l, &space.points, &place, &sum.operand);
}
