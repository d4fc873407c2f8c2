// kernels_columns_build.c - builds the tile kernel of a recipe that reduces columns.
//
// A thread handles a pack of neighbouring columns and goes down some of their rows, adding elements in the
// same order as src/kernel/reduce_columns.tile. It loads the packs of several rows before it computes the
// first of them, and stores their results afterwards.

#include "device/kernels/kernels_columns.h"
#include "tile/notation.h"

enum {
    TURNS = 4, // rows that a thread reads at once
    PACKS = 8, // packs that a thread reads at once, at most: with many inputs it reads fewer rows
};

struct building {
    const struct column_recipe *r;
    int turns, packs;                      // rows read at once; packs of a workgroup
    expr lines, count, parts, each, inner; // symbols
    const struct tile_buffer *s, *at;      // tables: axes of rows, positions of inputs
    struct fuse_operand x[FUSE_OPERANDS], y[FUSE_OPERANDS];
    struct fuse_operand part[COLUMN_REDUCTIONS],
        sum[COLUMN_REDUCTIONS];              // parts in memory; the thread's own sums
    struct fuse_operand once[FUSE_OPERANDS]; // inputs that are the same in all rows, which a thread reads
                                             // once
    expr part_at, line, own; // the part; the thread's pack; the same, but at most the last pack
};

// The values of one row that a thread holds.
struct turn {
    expr row;
    struct fuse_operand a[FUSE_OPERANDS], b[FUSE_OPERANDS], part[COLUMN_REDUCTIONS];
};

static expr times(expr a, int64_t by) {
    return by == 1 ? a : MUL(a, tile_number(by));
}

static bool is_joined(const struct building *b) {
    return b->r->stage == COLUMN_JOIN;
}

// Parameters ------------------------------------------------------------------------------------------------

static bool is_read_by(const struct fuse_op *op, int input) {
    for (int k = 0; k < op->inputs; k++)
        if (op->arg[k] == (FUSE_INPUT | input))
            return true;
    return false;
}

// Returns whether an input is read by ops on lines (of_lines), or by ops on elements and reductions.
static bool is_read(const struct column_recipe *r, int input, bool of_lines) {
    for (int row = 0; row < r->f.rows; row++)
        if ((r->f.row[row].kind == ROW_LINES) == of_lines && is_read_by(&r->f.row[row], input))
            return true;
    return false;
}

bool column_reads(const struct column_recipe *r, int input) {
    return (r->stage != COLUMN_PARTS && is_read(r, input, true)) ||
           (r->stage != COLUMN_JOIN && is_read(r, input, false));
}

bool column_writes(const struct column_recipe *r, int output) {
    bool of_lines = fuse_output_of_lines(&r->f, output);
    return r->stage == COLUMN_WHOLE || (r->stage == COLUMN_JOIN) == of_lines;
}

static bool is_in_memory(const struct building *b, int input) {
    return column_reads(b->r, input) && fuse_form(&b->r->f, input) != FUSE_SCALAR;
}

static bool varies(const struct building *b, int input) { // whether it differs from row to row
    int form = fuse_form(&b->r->f, input);
    return !is_joined(b) && column_reads(b->r, input) && (form == FUSE_VECTOR || form == COLUMN_SAME);
}

// Returns how many elements of an input a thread reads at once.
static int run_of(const struct building *b, int input) {
    int form = fuse_form(&b->r->f, input);
    return form == FUSE_VECTOR || form == COLUMN_ONCE ? b->r->width : 1;
}

static void declare_operands(struct building *b) {
    const struct fuse_recipe *f = &b->r->f;
    expr elements = times(MUL(b->count, b->lines), b->r->width), columns = times(b->lines, b->r->width);
    for (int k = 0; is_joined(b) && k < b->r->reductions; k++)
        b->part[k] = fuse_declare("p", k, column_sum(b->r, k), elements, false);
    for (int k = 0; k < f->inputs; k++)
        if (is_in_memory(b, k))
            b->x[k] = fuse_declare("x", k, fuse_input_dtype(f, k), fuse_symbol("size", k, 0, 1), false);
        else if (column_reads(b->r, k))
            b->x[k] = fuse_declare_value("x", k, fuse_input_dtype(f, k));
    b->s = fuse_table("s", f->inputs + 1, KERNEL_AXES);
    b->at = fuse_table("inputs", 1, MAX_OF(f->inputs, 1));
    for (int k = 0; k < f->outputs; k++)
        if (column_writes(b->r, k))
            b->y[k] = fuse_declare("y", k, fuse_output_dtype(f, k),
                                   fuse_output_of_lines(f, k) ? columns : elements, true);
    for (int k = 0; b->r->stage == COLUMN_PARTS && k < b->r->reductions; k++)
        b->part[k] = fuse_declare("p", k, column_sum(b->r, k), MUL(b->parts, columns), true);
}

static void declare(struct building *b) {
    b->lines = fuse_symbol("lines", -1, 1, 1);
    b->count = fuse_symbol("count", -1, 1, 1);
    b->parts = fuse_symbol("parts", -1, 1, 1);
    b->each = fuse_symbol("each", -1, 1, 1);
    b->inner = fuse_symbol("inner", -1, 0, 1);
    declare_operands(b);
}

// Rows of elements ------------------------------------------------------------------------------------------

static expr first_of(const struct building *b, int input) {
    return fuse_entry(b->at, 0, tile_number(input));
}

// Sets place[k] to the position of a row in input k, in packs for vectors, if the input differs from row to
// row.
static void find_places(const struct building *b, expr row, expr *place) {
    int inputs = b->r->f.inputs;
    for (int k = 0; k < inputs; k++)
        place[k] = varies(b, k) ? first_of(b, k) : NULL;
    for (int k = 0; b->r->single && k < inputs; k++)
        if (place[k])
            place[k] = ADD(place[k], MUL(row, fuse_entry(b->s, k + 1, tile_number(0))));
    if (!b->r->single)
        fuse_walk(b->s, b->inner, row, inputs, place);
}

static void read_turn(const struct building *b, struct turn *t, int which) {
    const struct fuse_recipe *f = &b->r->f;
    static const char *const word[][3] = {{"a", "b", "c"}, {"d", "e", "f"}, {"g", "h", "i"}, {"j", "k", "l"}};
    expr place[FUSE_OPERANDS];
    find_places(b, t->row, place);
    for (int k = 0; k < f->inputs; k++) {
        if (!varies(b, k))
            continue;
        expr at = fuse_form(f, k) == FUSE_VECTOR ? times(ADD(place[k], b->own), b->r->width) : place[k];
        t->a[k] = fuse_run(word[which][0], k, fuse_input_dtype(f, k), run_of(b, k));
        fuse_move(&t->a[k], tile_number(0), &b->x[k], at, run_of(b, k));
    }
    for (int k = 0; is_joined(b) && k < b->r->reductions; k++) {
        t->part[k] = fuse_run(word[which][2], k, column_sum(b->r, k), b->r->width);
        fuse_move(&t->part[k], tile_number(0), &b->part[k],
                  times(ADD(MUL(t->row, b->lines), b->own), b->r->width), b->r->width);
    }
    for (int k = 0; k < f->outputs; k++)
        if (column_writes(b->r, k) && !fuse_output_of_lines(f, k))
            t->b[k] = fuse_run(word[which][1], k, fuse_output_dtype(f, k), b->r->width);
}

static void add_to(const struct building *b, int k, expr e, expr value) {
    const struct fuse_operand *sum = &b->sum[k];
    expr wide = tile_cast(tile_type_of(sum->dtype), value);
    fuse_put(sum, e, tile_binary((enum tile_op)column_reduction(b->r, k)->op, fuse_read(sum, e), wide));
}

static expr value_of(int reference, const expr *input, const expr *value) {
    return fuse_is_row(reference) ? value[reference] : input[reference & ~FUSE_INPUT];
}

// Computes one element of a row, and combines the operands of reductions into their sums.
static void compute_element(const struct building *b, const struct turn *t, expr e) {
    const struct fuse_recipe *f = &b->r->f;
    expr input[FUSE_OPERANDS] = {NULL}, value[FUSE_CALLS] = {NULL};
    for (int k = 0; k < f->inputs; k++)
        if (is_read(b->r, k, false))
            input[k] =
                fuse_read(varies(b, k) ? &t->a[k] : &b->once[k], run_of(b, k) > 1 ? e : tile_number(0));
    for (int row = 0; row < f->rows; row++)
        if (f->row[row].kind == ROW_ELEMENTS)
            fuse_rows(f, row, row + 1, input, value, true, NULL);
    for (int k = 0; k < b->r->reductions; k++)
        add_to(b, k, e, value_of(column_reduction(b->r, k)->arg[0], input, value));
    for (int k = 0; k < f->outputs; k++)
        if (t->b[k].buffer)
            fuse_put(&t->b[k], e, value[fuse_output_row(f, k)]);
}

static expr open_pack(int width) {
    expr turns = tile_number(width);
    const struct tile_name *name = tile_index("e", turns);
    tile_open_for(name, NULL, turns, NULL, TILE_UNROLLED);
    return tile_name_value(name, TILE_INDEX);
}

static void compute_turn(const struct building *b, const struct turn *t) {
    expr e = open_pack(b->r->width);
    if (!is_joined(b))
        compute_element(b, t, e);
    for (int k = 0; is_joined(b) && k < b->r->reductions; k++)
        add_to(b, k, e, fuse_read(&t->part[k], e));
    tile_close();
}

static void write_turn(const struct building *b, const struct turn *t) {
    expr at = times(ADD(MUL(t->row, b->lines), b->line), b->r->width);
    bool writes = false;
    for (int k = 0; k < b->r->f.outputs; k++)
        writes |= t->b[k].buffer != NULL;
    if (!writes)
        return;
    tile_open_if(LT(b->line, b->lines));
    for (int k = 0; k < b->r->f.outputs; k++)
        if (t->b[k].buffer)
            fuse_move(&b->y[k], at, &t->b[k], tile_number(0), b->r->width);
    tile_close();
}

// Builds the code for so many rows. All values are read before any is computed, and computed before any is
// written, because outputs may share the memory of inputs.
static void build_turns(const struct building *b, expr first, int turns) {
    struct turn turn[TURNS] = {{NULL}};
    for (int i = 0; i < turns; i++) {
        turn[i].row = i ? ADD(first, tile_number((int64_t)i * b->r->lanes)) : first;
        read_turn(b, &turn[i], i);
    }
    for (int i = 0; i < turns; i++)
        compute_turn(b, &turn[i]);
    for (int i = 0; i < turns; i++)
        write_turn(b, &turn[i]);
}

static expr open_rows(expr first, expr end, int64_t step) {
    const struct tile_name *name = tile_name("k", tile_index_type());
    tile_open_for(name, first, end, tile_number(step), TILE_SERIAL);
    return tile_name_value(name, TILE_INDEX);
}

static void build_rows(const struct building *b, expr lane) {
    int64_t lanes = b->r->lanes;
    expr begin = MUL(b->part_at, b->each), end = tile_variable("end", MIN(ADD(begin, b->each), b->count));
    expr first = open_rows(ADD(begin, lane), end, lanes * b->turns);
    tile_open_if(LT(ADD(first, tile_number(lanes * (b->turns - 1))), end));
    build_turns(b, first, b->turns);
    tile_else();
    expr row = open_rows(first, end, lanes);
    build_turns(b, row, 1);
    tile_close();
    tile_close();
    tile_close();
}

// Initialises the sums, and reads the inputs that are the same in all rows.
static void begin_rows(struct building *b) {
    const struct fuse_recipe *f = &b->r->f;
    for (int k = 0; k < b->r->reductions; k++) {
        enum tile_op op = (enum tile_op)column_reduction(b->r, k)->op;
        b->sum[k] = fuse_run("sum", k, column_sum(b->r, k), b->r->width);
        expr nothing = tile_identity_value(op, tile_type_of(column_sum(b->r, k))), e = open_pack(b->r->width);
        fuse_put(&b->sum[k], e, nothing);
        tile_close();
    }
    for (int k = 0; k < f->inputs; k++) {
        if (varies(b, k) || is_joined(b) || !is_read(b->r, k, false))
            continue;
        b->once[k] = b->x[k];
        if (!is_in_memory(b, k))
            continue;
        expr at =
            fuse_form(f, k) == COLUMN_ONCE ? times(ADD(first_of(b, k), b->own), b->r->width) : first_of(b, k);
        b->once[k] = fuse_run("once", k, fuse_input_dtype(f, k), run_of(b, k));
        fuse_move(&b->once[k], tile_number(0), &b->x[k], at, run_of(b, k));
    }
}

// Columns ---------------------------------------------------------------------------------------------------

static expr input_of_column(const struct building *b, int input, expr column) {
    if (!is_in_memory(b, input))
        return b->x[input].value;
    bool is_one = fuse_form(&b->r->f, input) == FUSE_ONE;
    return fuse_read(&b->x[input],
                     is_one ? first_of(b, input) : ADD(times(first_of(b, input), b->r->width), column));
}

// Finishes a column whose sums are known: stores them as parts, or computes and stores the results of lines.
static void finish_column(const struct building *b, expr column, const expr *sum) {
    const struct fuse_recipe *f = &b->r->f;
    expr input[FUSE_OPERANDS] = {NULL}, value[FUSE_CALLS] = {NULL};
    for (int k = 0; k < b->r->reductions; k++) {
        const struct fuse_op *row = column_reduction(b->r, k);
        if (b->r->stage == COLUMN_PARTS)
            fuse_put(&b->part[k], ADD(times(MUL(b->part_at, b->lines), b->r->width), column), sum[k]);
        value[b->r->reduction[k]] = tile_cast(tile_type_of((zl_dtype)row->dtype), sum[k]);
    }
    if (b->r->stage == COLUMN_PARTS)
        return;
    for (int k = 0; k < f->inputs; k++)
        input[k] = is_read(b->r, k, true) ? input_of_column(b, k, column) : NULL;
    for (int row = 0; row < f->rows; row++)
        if (f->row[row].kind == ROW_LINES)
            fuse_rows(f, row, row + 1, input, value, true, NULL);
    for (int k = 0; k < f->outputs; k++)
        if (fuse_output_of_lines(f, k))
            fuse_put(&b->y[k], column, value[fuse_output_row(f, k)]);
}

// Finishes the columns of a thread that shares them with no other.
static void finish_alone(const struct building *b) {
    expr sum[COLUMN_REDUCTIONS];
    tile_open_if(LT(b->line, b->lines));
    expr e = open_pack(b->r->width);
    for (int k = 0; k < b->r->reductions; k++)
        sum[k] = fuse_read(&b->sum[k], e);
    finish_column(b, ADD(times(b->line, b->r->width), e), sum);
    tile_close();
    tile_close();
}

static void meet(void) {
    tile_append((struct tile_stmt){.kind = TILE_BARRIER, .scope = TILE_GROUP});
}

// Adds up the lanes of each column of the workgroup, one reduction after the other, in shared memory. Sets
// all[k] to the sums of the columns that a thread finishes.
static void add_lanes(const struct building *b, expr t, struct fuse_operand *all, int turns) {
    int columns = b->packs * b->r->width, lanes = b->r->lanes;
    const struct tile_buffer *room = NULL;
    for (int k = 0; k < b->r->reductions; k++) {
        struct tile_type type = tile_type_of(column_sum(b->r, k));
        if (room)
            meet();
        if (!room || !tile_type_equal(room->type, type))
            room = tile_alloc("room", type, TILE_SHARED, 2,
                              (const expr[]){tile_number(lanes), tile_number(columns)});
        expr e = open_pack(b->r->width), lane = FLOORDIV(t, tile_number(b->packs)),
             own = ADD(times(REM(t, tile_number(b->packs)), b->r->width), e);
        tile_store(room, 2, (const expr[]){lane, own}, fuse_read(&b->sum[k], e), NULL);
        tile_close();
        meet();
        all[k] = fuse_run("all", k, column_sum(b->r, k), turns);
        expr turn = open_pack(turns), column = ADD(times(turn, KERNEL_THREADS), t);
        tile_open_if(LT(column, tile_number(columns)));
        fuse_put(&all[k], turn, tile_load(room, 2, (const expr[]){tile_number(0), column}, NULL, NULL));
        expr other = ADD(open_pack(lanes - 1), tile_number(1));
        fuse_put(&all[k], turn,
                 tile_binary((enum tile_op)column_reduction(b->r, k)->op, fuse_read(&all[k], turn),
                             tile_load(room, 2, (const expr[]){other, column}, NULL, NULL)));
        tile_close();
        tile_close();
        tile_close();
    }
}

static void finish_together(const struct building *b, expr t, expr group) {
    int columns = b->packs * b->r->width, turns = (columns + KERNEL_THREADS - 1) / KERNEL_THREADS;
    struct fuse_operand all[COLUMN_REDUCTIONS];
    expr sum[COLUMN_REDUCTIONS];
    add_lanes(b, t, all, turns);
    expr turn = open_pack(turns), own = ADD(times(turn, KERNEL_THREADS), t),
         column = ADD(times(group, columns), own);
    tile_open_if(AND(LT(own, tile_number(columns)), LT(column, times(b->lines, b->r->width))));
    for (int k = 0; k < b->r->reductions; k++)
        sum[k] = fuse_read(&all[k], turn);
    finish_column(b, column, sum);
    tile_close();
    tile_close();
}

static void build_thread(struct building *b, expr t, expr group) {
    b->line = ADD(times(group, b->packs), REM(t, tile_number(b->packs)));
    b->own = tile_variable("own", MIN(b->line, SUB(b->lines, tile_number(1))));
    begin_rows(b);
    build_rows(b, FLOORDIV(t, tile_number(b->packs)));
    if (b->r->lanes == 1)
        finish_alone(b);
    else
        finish_together(b, t, group);
}

static int turns_of(const struct building *b) {
    int inputs = is_joined(b) ? b->r->reductions : 0, turns = TURNS;
    for (int k = 0; k < b->r->f.inputs; k++)
        inputs += varies(b, k);
    while (turns > 1 && turns * inputs > PACKS)
        turns /= 2;
    return turns;
}

struct tile_kernel *column_build(const void *recipe) {
    struct building b = {.r = recipe};
    b.packs = KERNEL_THREADS / b.r->lanes;
    b.turns = turns_of(&b);
    fuse_begin("columns", b.r->wide);
    declare(&b);
    expr groups = FLOORDIV(ADD(b.lines, tile_number(b.packs - 1)), tile_number(b.packs)),
         extent[] = {groups, b.parts}, threads = tile_number(KERNEL_THREADS);
    const struct tile_name *name[] = {tile_index("b", groups), tile_index("part", b.parts)},
                           *thread = tile_index("t", threads);
    b.part_at = tile_name_value(name[1], TILE_INDEX);
    tile_open((struct tile_stmt){.kind = TILE_GRID, .indices = 2, .name = name, .extent = extent});
    tile_open((struct tile_stmt){.kind = TILE_THREAD, .indices = 1, .name = &thread, .extent = &threads});
    build_thread(&b, tile_name_value(thread, TILE_INDEX), tile_name_value(name[0], TILE_INDEX));
    tile_close();
    tile_close();
    return tile_end();
}
