// kernels_lines_build.c - builds the tile kernel of a recipe that reduces lines.
//
// A workgroup handles some lines, each of which is a row of its tiles; threads hold the elements in
// registers. A stage is a map over these tiles, and the reductions of what the map computed. Lines that
// registers do not hold are divided into pieces: a stage is then a loop over the pieces, in which each thread
// combines its elements of all pieces.
//
// Sums make results differ in the last bits from those of the CPU anyway. So exponentials and quotients may
// differ too, and are computed by shorter formulas here.

#include "device/kernels/kernels_lines.h"
#include "pass/pass.h"
#include "render/render.h"
#include "tile/math.h"
#include "tile/notation.h"

#include <stdio.h>
#include <string.h>

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

// The rows of the table of inputs: the position of the first line, and the distance between elements of a
// line.
enum { FIRST, STEP, ROWS };

struct building {
    const struct line_recipe *r;
    struct line_plan plan;
    bool has_exp2;
    bool is_loose;                  // see is_loose()
    int64_t count, held;            // lines of a workgroup; elements in a row of its tiles
    expr packs;                     // packs of a line
    expr lines, line, inner, group; // the number of lines; elements per line; as in tile_walk; the workgroup
    const struct tile_buffer *s, *of; // tables: of axes, of inputs
    struct fuse_operand x[KERNEL_OPERANDS];
    // By output: its memory. By input: where the lines of the workgroup begin, in packs; the elements that
    // the workgroup holds.
    const struct tile_buffer *y[KERNEL_OPERANDS], *at[KERNEL_OPERANDS], *tile[KERNEL_OPERANDS];
    // By reduction: its operand and its result. By row of the recipe: values that are kept, per element or
    // per line; the inverse of a value per line.
    const struct tile_buffer *part[LINE_REDUCTIONS], *sum[LINE_REDUCTIONS], *kept[FUSE_CALLS],
        *inverse[FUSE_CALLS];
    // In a map: the row of the tiles; the element, in the row and in the line; the values of the recipe's
    // rows.
    expr i, j, along, value[FUSE_CALLS];
};

// Notation --------------------------------------------------------------------------------------------------

// Allocates a tile of the workgroup in registers: one row per line, or one element per line. Its vectors are
// packs.
static const struct tile_buffer *tile(const struct building *b, char letter, int at, zl_dtype dtype,
                                      bool of_lines) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", letter, at);
    struct tile_buffer *t = tile_alloc(name, tile_type_of(dtype), TILE_FRAGMENT, 2 - of_lines,
                                       (const expr[]){tile_number(b->count), tile_number(b->held)});
    if (t && !of_lines)
        t->align = MIN_OF(b->r->width * tile_type_bytes(t->type), 16);
    return t;
}

// Returns the element of a tile at the current point of a map.
static expr element(const struct building *b, const struct tile_buffer *t) {
    return t ? tile_load(t, t->ndim, (const expr[]){b->i, b->j}, NULL, NULL) : NULL;
}

static void put(const struct building *b, const struct tile_buffer *t, expr value, bool once) {
    struct tile_stmt *s = t ? tile_store(t, t->ndim, (const expr[]){b->i, b->j}, value, NULL) : NULL;
    if (s)
        s->is_once = once;
}

// Opens a map over lines of the workgroup.
static void open_lines(struct building *b, expr rows) {
    const struct tile_name *i = tile_index("i", rows);
    tile_open_map(1, &i, &rows);
    memset(b->value, 0, sizeof b->value);
    b->i = tile_name_value(i, TILE_INDEX);
    b->j = b->along = NULL;
}

// Opens a map over the elements of lines. If `first` is given, they are those of a piece that begins there,
// and no other map touches its part of the tiles.
static void open_elements(struct building *b, expr rows, expr columns, expr first) {
    const struct tile_name *name[] = {tile_index("i", rows), tile_index("j", columns)};
    struct tile_stmt *s = tile_open_map(2, name, (const expr[]){rows, columns});
    if (s)
        s->is_ahead = first != NULL;
    memset(b->value, 0, sizeof b->value);
    b->i = tile_name_value(name[0], TILE_INDEX);
    b->j = tile_name_value(name[1], TILE_INDEX);
    b->along = first ? ADD(first, b->j) : b->j;
}

// Mathematics -----------------------------------------------------------------------------------------------

// Returns a power of two that brings a divisor into the range where its inverse has full precision.
static expr scale_of(expr b) {
    expr size = ABS(b), small = LT(size, F32(0x1p-64)), large = GT(size, F32(0x1p64));
    return SELECT(small, F32(0x1p64), SELECT(large, F32(0x1p-64), F32(1)));
}

// Returns a / b from 1 / b and one correction by the remainder, which rounds correctly nearly always. If the
// remainder is not finite, because an operand or the quotient is not, the first guess is right.
static expr short_quotient(expr a, expr b, expr inverse, bool is_rough) {
    expr scale = scale_of(b);
    a = MUL(a, scale);
    b = MUL(b, scale);
    expr q = MUL(a, inverse);
    if (is_rough)
        return q;
    expr left = FMA(NEG(q), b, a);
    return SELECT(EQ(SUB(left, left), F32(0)), FMA(left, inverse, q), q);
}

// Values of a point -----------------------------------------------------------------------------------------

static expr place(const struct building *b, int input) {
    expr at = element(&(struct building){.i = b->i}, b->at[input]);
    return fuse_form(&b->r->f, input) == LINE_FLAT
               ? ADD(MUL(at, tile_number(b->r->width)), b->along)
               : ADD(at, MUL(b->along, fuse_entry(b->of, STEP, tile_number(input))));
}

static expr read_input(const struct building *b, int input) {
    return fuse_read(&b->x[input], fuse_form(&b->r->f, input) == LINE_VALUE ? NULL : place(b, input));
}

static expr input_value(const struct building *b, int input) {
    return b->tile[input] ? element(b, b->tile[input]) : read_input(b, input);
}

// Returns whether a row is the sum of a softmax, which is at least 1, so that its inverse needs neither a
// scale nor a correction.
static bool is_sum_of_softmax(const struct building *b, int row) {
    return b->is_loose && row == b->r->reduction[1];
}

static expr value_of(struct building *b, int reference);

static expr compute(struct building *b, int row) {
    const struct fuse_op *op = line_row(b->r, row);
    expr arg[4] = {NULL};
    for (int k = 0; k < op->inputs; k++)
        arg[k] = value_of(b, op->arg[k]);
    if (op->op == TILE_EXP && b->has_exp2 && op->dtype == ZL_FLOAT32)
        return math_short_exp_f32(arg[0], b->r->rough);
    if (line_divides(b->r, row) && b->inverse[op->arg[1]] && is_sum_of_softmax(b, op->arg[1]))
        return MUL(arg[0], element(b, b->inverse[op->arg[1]]));
    if (line_divides(b->r, row) && b->inverse[op->arg[1]])
        return short_quotient(arg[0], arg[1], element(b, b->inverse[op->arg[1]]), b->r->rough);
    return fuse_apply(op, arg, NULL);
}

static expr value_of(struct building *b, int reference) {
    if (!fuse_is_row(reference))
        return input_value(b, reference & ~FUSE_INPUT);
    const struct fuse_op *op = line_row(b->r, reference);
    if (!b->value[reference])
        b->value[reference] = op->kind == ROW_REDUCE
                                  ? tile_cast(tile_type_of((zl_dtype)op->dtype),
                                              element(b, b->sum[line_reduction(b->r, reference)]))
                              : b->kept[reference] ? element(b, b->kept[reference])
                                                   : compute(b, reference);
    return b->value[reference];
}

// The beginning ---------------------------------------------------------------------------------------------

static void declare_input(struct building *b, int k) {
    zl_dtype dtype = fuse_input_dtype(&b->r->f, k);
    b->x[k] = fuse_form(&b->r->f, k) == LINE_VALUE
                  ? fuse_declare_value("x", k, dtype)
                  : fuse_declare("x", k, dtype, fuse_symbol("size", k, 0, 1), false);
}

static void declare(struct building *b) {
    const struct fuse_recipe *f = &b->r->f;
    b->lines = fuse_symbol("lines", -1, 1, 1);
    b->packs = fuse_symbol("packs", -1, 1, 1);
    b->inner = fuse_symbol("inner", -1, 0, 1);
    b->line = b->r->full && b->r->packs ? tile_number(b->held) : MUL(b->packs, tile_number(b->r->width));
    for (int k = 0; k < f->inputs; k++)
        declare_input(b, k);
    b->s = fuse_table("s", f->inputs + 1, KERNEL_AXES);
    b->of = fuse_table("inputs", ROWS, MAX_OF(f->inputs, 1));
    for (int k = 0; k < f->outputs; k++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", k);
        b->y[k] =
            tile_parameter_buffer(name, tile_type_of(fuse_output_dtype(f, k)), 2 - fuse_output_of_lines(f, k),
                                  (const expr[]){b->lines, b->line}, true);
    }
}

static bool is_in_memory(const struct building *b, int input) {
    return fuse_form(&b->r->f, input) != LINE_VALUE;
}

static expr line_number(const struct building *b) {
    return b->count == 1 ? b->group : ADD(MUL(b->group, tile_number(b->count)), b->i);
}

// Finds where the lines of the workgroup begin in each input, and reads inputs with one element per line. If
// the workgroup has rows past the last line, they repeat that line, so that all reads are valid.
static void find_places(struct building *b) {
    const struct fuse_recipe *f = &b->r->f;
    expr place[KERNEL_OPERANDS];
    for (int k = 0; k < f->inputs; k++) {
        place[k] = is_in_memory(b, k) ? fuse_entry(b->of, FIRST, tile_number(k)) : NULL;
        if (fuse_form(f, k) == LINE_SAME)
            b->tile[k] = tile(b, 'x', k, fuse_input_dtype(f, k), true);
        else if (place[k])
            b->at[k] = tile(b, 'a', k, tile_dtype_of(tile_index_type()), true);
    }
    open_lines(b, tile_number(b->count));
    fuse_walk(b->s, b->inner, MIN(line_number(b), SUB(b->lines, tile_number(1))), f->inputs, place);
    for (int k = 0; k < f->inputs; k++)
        if (fuse_form(f, k) == LINE_SAME)
            put(b, b->tile[k], fuse_read(&b->x[k], place[k]), false);
        else if (place[k])
            put(b, b->at[k], place[k], false);
    tile_close();
}

// Returns whether the workgroup holds an input in registers, because several stages read it.
static bool is_held(const struct building *b, int input) {
    int stages = 0;
    for (int i = 0; i <= b->plan.levels; i++)
        stages += b->plan.stage[i].inputs >> input & 1;
    return b->r->packs && line_input_varies(b->r, input) && stages > 1;
}

// Returns whether an input is contiguous along lines but not held. It may be the weights of a norm, which all
// lines read, and which the lines themselves should not push out of the caches.
static bool has_weights(const struct building *b) {
    bool has = false;
    for (int k = 0; k < b->r->f.inputs; k++)
        has |= fuse_form(&b->r->f, k) == LINE_FLAT && !is_held(b, k);
    return has;
}

static zl_dtype wide_of(const struct line_recipe *r, int k) {
    return tile_reduce_gives((zl_dtype)line_row(r, r->reduction[k])->from);
}

static enum tile_op combine_of(const struct line_recipe *r, int k) {
    return (enum tile_op)line_row(r, r->reduction[k])->op;
}

static void fill(const struct tile_buffer *t, enum tile_op combine) {
    if (t)
        tile_append((struct tile_stmt){.kind = TILE_FILL,
                                       .region = {[1] = {.buffer = t}},
                                       .value = tile_identity_value(combine, t->type)});
}

// Returns the op whose identity fills the tile of an input past the end of lines: that of the first reduction
// of the input itself, else addition.
static enum tile_op filling_of(const struct building *b, int input) {
    for (int k = 0; k < b->r->reductions; k++)
        if (line_row(b->r, b->r->reduction[k])->arg[0] == (FUSE_INPUT | input))
            return combine_of(b->r, k);
    return TILE_ADD;
}

static bool is_filled(const struct building *b, int k) {
    int from = line_row(b->r, b->r->reduction[k])->arg[0];
    return !fuse_is_row(from) && filling_of(b, from & ~FUSE_INPUT) == combine_of(b->r, k);
}

static void read_elements(struct building *b) {
    bool is_once = has_weights(b);
    for (int k = 0; k < b->r->f.inputs; k++) {
        if (!is_held(b, k))
            continue;
        const struct tile_buffer *held = tile(b, 'x', k, fuse_input_dtype(&b->r->f, k), false);
        if (!b->r->full)
            fill(held, filling_of(b, k));
        open_elements(b, tile_number(b->count), b->line, NULL);
        put(b, held, read_input(b, k), is_once);
        tile_close();
        b->tile[k] = held;
    }
}

// Stages ----------------------------------------------------------------------------------------------------

static bool reduces_in(const struct building *b, int k, int stage) {
    return b->plan.level[b->r->reduction[k]] == stage + 1;
}

// Returns whether a stage computes whole tiles, without branches at the end of lines, because it reads no
// memory. Elements past the end are masked before they are reduced.
static bool is_cut(const struct building *b, int stage) {
    bool cuts = !b->r->full && b->r->packs && stage < b->plan.levels;
    for (int k = 0; k < b->r->f.inputs; k++)
        if (b->plan.stage[stage].inputs >> k & 1)
            cuts = cuts && (!is_in_memory(b, k) || b->tile[k]);
    return cuts;
}

// Allocates the operands and results of the stage's reductions. Operands hold the elements themselves or, of
// lines in pieces, the combination of the elements of all pieces.
static void open_parts(struct building *b, int stage) {
    for (int k = 0; k < b->r->reductions; k++) {
        if (!reduces_in(b, k, stage))
            continue;
        zl_dtype from = (zl_dtype)line_row(b->r, b->r->reduction[k])->from;
        b->part[k] = tile(b, 'p', k, b->r->packs ? from : wide_of(b->r, k), false);
        b->sum[k] = tile(b, 's', k, wide_of(b->r, k), true);
        if ((!b->r->full || !b->r->packs) && !is_cut(b, stage))
            fill(b->part[k], combine_of(b->r, k));
    }
}

// Returns a copy of a reduction's operand in which elements past the end of lines are the identity.
static const struct tile_buffer *cut(struct building *b, int k) {
    const struct tile_buffer *inside =
        tile(b, 'c', k, (zl_dtype)line_row(b->r, b->r->reduction[k])->from, false);
    fill(inside, combine_of(b->r, k));
    open_elements(b, tile_number(b->count), b->line, NULL);
    put(b, inside, element(b, b->part[k]), false);
    tile_close();
    return inside;
}

static void reduce_parts(struct building *b, int stage) {
    for (int k = 0; k < b->r->reductions; k++)
        if (reduces_in(b, k, stage)) {
            bool is_whole = !is_cut(b, stage) || is_filled(b, k) || b->is_loose;
            const struct tile_buffer *part = is_whole ? b->part[k] : cut(b, k);
            tile_append((struct tile_stmt){.kind = TILE_REDUCE,
                                           .region = {{.buffer = part}, {.buffer = b->sum[k]}},
                                           .combine = combine_of(b->r, k),
                                           .axis = 1,
                                           .clear = true,
                                           .is_loose = b->is_loose && stage == 0});
        }
}

static void put_part(struct building *b, int k) {
    expr x = value_of(b, line_row(b->r, b->r->reduction[k])->arg[0]);

    if (!b->r->packs && b->part[k] && x)
        x = tile_binary(combine_of(b->r, k), element(b, b->part[k]), tile_cast(b->part[k]->type, x));
    put(b, b->part[k], x, false);
    if (b->r->packs && fuse_is_row(line_row(b->r, b->r->reduction[k])->arg[0]))
        b->value[line_row(b->r, b->r->reduction[k])->arg[0]] = element(b, b->part[k]);
}

static void put_results(struct building *b, bool of_lines) {
    expr line = line_number(b);
    for (int k = 0; k < b->r->f.outputs; k++)
        if (fuse_output_of_lines(&b->r->f, k) == of_lines) {
            expr value = value_of(b, fuse_output_row(&b->r->f, k));
            struct tile_stmt *s =
                tile_store(b->y[k], 2 - of_lines, (const expr[]){line, b->along}, value, NULL);
            if (s)
                s->is_once = b->r->groups > 1 && !of_lines;
        }
}

// Returns how many lines the workgroup has: the last one may have fewer.
static expr lines_here(const struct building *b) {
    return b->count == 1 ? tile_number(1)
                         : MIN(tile_number(b->count), SUB(b->lines, MUL(b->group, tile_number(b->count))));
}

// Returns the tile of a row that is kept: the operand of a reduction of this stage, if the row is one.
static const struct tile_buffer *tile_for(const struct building *b, int row, int stage) {
    for (int k = 0; k < b->r->reductions; k++)
        if (reduces_in(b, k, stage) && line_row(b->r, b->r->reduction[k])->arg[0] == row)
            return b->part[k];
    return tile(b, 'v', row, line_dtype(b->r, row), false);
}

// Opens the loop over the pieces of a line. Sets *columns to the elements of a piece, and returns the first
// one.
static expr open_pieces(const struct building *b, expr *columns) {
    int64_t each = b->held / b->r->width;
    expr packs = tile_number(each), all = FLOORDIV(b->line, tile_number(b->r->width));
    expr pieces = FLOORDIV(ADD(all, tile_number(b->r->full ? 0 : each - 1)), packs);
    const struct tile_name *piece = tile_index("piece", pieces);
    tile_open_for(piece, NULL, pieces, NULL, TILE_SERIAL);
    expr before = MUL(tile_name_value(piece, TILE_INDEX), packs);
    *columns =
        b->r->full ? tile_number(b->held) : MUL(MIN(packs, SUB(all, before)), tile_number(b->r->width));
    return MUL(before, tile_number(b->r->width));
}

// Returns the elements of a piece, which may differ from stage to stage: a stage that reads several inputs
// needs more registers.
static int64_t piece_of(const struct building *b, int stage) {
    int inputs = 0;
    for (int k = 0; k < b->r->f.inputs; k++)
        inputs += b->plan.stage[stage].inputs >> k & 1 && line_input_varies(b->r, k);
    return (int64_t)(inputs > 1 ? LINE_SHALLOW : LINE_DEEP) * b->r->threads * b->r->width;
}

// Allocates registers for the inputs that a stage reads of a piece. All loads are issued before anything is
// computed or written.
static void declare_piece(struct building *b, int stage) {
    for (int k = 0; k < b->r->f.inputs; k++)
        b->tile[k] = b->plan.stage[stage].inputs >> k & 1 && line_input_varies(b->r, k)
                         ? tile(b, 'x', k, fuse_input_dtype(&b->r->f, k), false)
                     : fuse_form(&b->r->f, k) == LINE_SAME ? b->tile[k]
                                                           : NULL;
}

static void read_piece(struct building *b, expr rows, expr columns, expr first) {
    open_elements(b, rows, columns, first);
    for (int k = 0; k < b->r->f.inputs; k++)
        if (b->tile[k] && line_input_varies(b->r, k))
            put(b, b->tile[k], read_input(b, k), false);
    tile_close();
}

static void build_stage(struct building *b, int stage) {
    bool is_last = stage == b->plan.levels;
    const struct tile_buffer *kept[FUSE_CALLS] = {NULL};
    if (!b->r->packs)
        b->held = piece_of(b, stage);
    expr rows = is_last ? lines_here(b) : tile_number(b->count),
         columns = is_cut(b, stage) ? tile_number(b->held) : b->line, first = NULL;
    if (!b->plan.stage[stage].count)
        return;
    if (!b->r->packs)
        declare_piece(b, stage);
    open_parts(b, stage);
    for (int row = 0; row < b->r->f.rows; row++)
        if (b->plan.kept >> row & 1 && b->plan.level[row] == stage)
            kept[row] = tile_for(b, row, stage);
    if (!b->r->packs) {
        first = open_pieces(b, &columns);
        read_piece(b, rows, columns, first);
    }
    open_elements(b, rows, columns, first);
    for (int k = 0; k < b->r->reductions; k++)
        if (reduces_in(b, k, stage))
            put_part(b, k);
    for (int row = 0; row < b->r->f.rows; row++)
        if (kept[row])
            put(b, kept[row], value_of(b, row), false);
    if (is_last)
        put_results(b, false);
    tile_close();
    if (!b->r->packs)
        tile_close();
    for (int row = 0; row < b->r->f.rows; row++)
        if (kept[row])
            b->kept[row] = kept[row];
    reduce_parts(b, stage);
}

// Computes a row of one element per line, or its inverse, for all lines of the workgroup.
static const struct tile_buffer *build_row(struct building *b, int row, bool inverts) {
    const struct tile_buffer *t =
        tile(b, inverts ? 'q' : 'v', row, inverts ? ZL_FLOAT32 : line_dtype(b->r, row), true);
    open_lines(b, tile_number(b->count));
    expr x = value_of(b, row);
    put(b, t, inverts ? DIV(F32(1), is_sum_of_softmax(b, row) ? x : MUL(x, scale_of(x))) : x, false);
    tile_close();
    return t;
}

static void build_rows(struct building *b, int level) {
    for (int row = 0; row < b->r->f.rows; row++) {
        if (b->plan.level[row] == level && b->plan.rows >> row & 1)
            b->kept[row] = build_row(b, row, false);
        if (b->plan.level[row] == level && b->plan.inverse >> row & 1)
            b->inverse[row] = build_row(b, row, true);
    }
}

static void build_group(struct building *b) {
    find_places(b);
    read_elements(b);
    for (int stage = 0; stage <= b->plan.levels; stage++) {
        build_rows(b, stage);
        build_stage(b, stage);
    }
    bool has_lines = false;
    for (int k = 0; k < b->r->f.outputs; k++)
        has_lines |= fuse_output_of_lines(&b->r->f, k);
    if (!has_lines)
        return;
    open_lines(b, lines_here(b));
    put_results(b, true);
    tile_close();
}

// Returns whether the workgroups of a cluster exchange the maximum of a softmax together with the sum. They
// do not for elements of 16 bits, whose exponentials are computed again because registers do not hold them.
// Elements past the end of lines have to be -inf, so that no tile is masked before the sum, and nothing but
// the exponentials may be kept that is computed from the maximum.
static bool is_loose(const struct line_recipe *r, const struct line_plan *p) {
    if (r->groups == 1 || r->rough || !line_is_softmax(r) ||
        (!r->full && fuse_is_row(line_row(r, r->reduction[0])->arg[0])))
        return false;
    uint32_t kept = (p->kept | p->rows | p->inverse) & ~(1u << line_row(r, r->reduction[1])->arg[0]);
    for (int row = 0; row < r->f.rows; row++)
        if (kept >> row & 1 && p->level[row] == 1)
            return false;
    return true;
}

struct tile_kernel *line_build(const void *maker) {
    const struct line_maker *m = maker;
    const struct line_recipe *r = m->r;
    int threads = MAX_OF(r->threads, KERNEL_THREADS);
    struct building b = {.r = r,
                         .has_exp2 = target_spells_op(m->target, TILE_EXP2, f32),
                         .count = threads / r->threads,
                         .held = (int64_t)MAX_OF(r->packs, 1) * r->groups * r->threads * r->width};
    line_plan(r, &b.plan);
    b.is_loose = is_loose(r, &b.plan);
    fuse_begin("lines", r->wide);
    declare(&b);
    expr groups =
        b.count == 1 ? b.lines : FLOORDIV(ADD(b.lines, tile_number(b.count - 1)), tile_number(b.count));
    const struct tile_name *group = tile_index("b", groups);
    b.group = tile_name_value(group, TILE_INDEX);
    tile_open((struct tile_stmt){.kind = TILE_GRID,
                                 .indices = 1,
                                 .name = &group,
                                 .extent = &groups,
                                 .threads = threads,
                                 .cluster = r->groups > 1 ? r->groups : 0,
                                 .resident = (r->groups > 1 ? LINE_CLUSTERS : LINE_THREADS) / threads});
    build_group(&b);
    tile_close();
    return tile_end();
}
