// map.c - builds kernels over elements: a thread computes the rows of a recipe for one element, or for
// adjacent ones that it moves by vectors.

#include "fuse/fuse.h"
#include "tile/notation.h"

struct building {
    const struct fuse_map *map;
    const struct fuse_recipe *r;
    struct fuse_operand x[FUSE_OPERANDS], y[FUSE_OPERANDS];
    expr first[FUSE_OPERANDS]; // position of the first element of an input
    expr place[FUSE_OPERANDS]; // of a strided input: offset from there to the thread's elements
    expr n, inner, from;
    const struct tile_buffer *s;
};

// The registers of one run of adjacent elements.
struct run {
    expr at; // position in the outputs
    int width;
    struct fuse_operand a[FUSE_OPERANDS], b[FUSE_OPERANDS];
};

static expr times(expr a, int64_t by) {
    return by == 1 ? a : MUL(a, tile_number(by));
}

static bool is_run(const struct building *b, int input) {
    int form = fuse_form(b->r, input);
    return form == FUSE_VECTOR || form == FUSE_STRIDED || form == FUSE_ROWS;
}

int fuse_strided_inputs(const struct fuse_recipe *r) {
    int count = 0;
    for (int k = 0; k < r->inputs; k++)
        count += fuse_is_strided(fuse_form(r, k));
    return count;
}

// Parameters ------------------------------------------------------------------------------------------------

static void declare_symbols(struct building *b) {
    b->n = fuse_symbol("n", -1, 0, fuse_strided_inputs(b->r) ? b->map->width : 1);
    for (int k = 0; k < b->r->inputs; k++)
        if (fuse_form(b->r, k) != FUSE_SCALAR)
            b->first[k] = fuse_symbol("at", k, 0, is_run(b, k) ? b->map->width : 1);
    if (!fuse_strided_inputs(b->r))
        return;
    b->inner = fuse_symbol("inner", -1, 0, 1);
    b->from = fuse_symbol("start", -1, 0, b->map->width);
}

static void declare_operands(struct building *b) {
    const struct fuse_recipe *r = b->r;
    for (int k = 0; k < r->inputs; k++) {
        int form = fuse_form(r, k);
        expr size = form == FUSE_SCALAR     ? NULL
                    : fuse_is_strided(form) ? fuse_symbol("m", k, 0, 1)
                                            : ADD(b->first[k], form == FUSE_ONE ? tile_number(1) : b->n);
        b->x[k] = form == FUSE_SCALAR ? fuse_declare_value("x", k, fuse_input_dtype(r, k))
                                      : fuse_declare("x", k, fuse_input_dtype(r, k), size, false);
    }
    if (fuse_strided_inputs(r))
        b->s = fuse_table("s", 1 + fuse_strided_inputs(r), FUSE_MAP_AXES);
    for (int k = 0; k < r->outputs; k++)
        b->y[k] = fuse_declare("y", k, fuse_output_dtype(r, k), b->from ? ADD(b->from, b->n) : b->n, true);
}

// Places ----------------------------------------------------------------------------------------------------

// Computes the offset of run number `which` in each strided input.
static void find_places(struct building *b, expr which) {
    expr place[FUSE_OPERANDS];
    int count = 0;
    for (int k = 0; k < b->r->inputs; k++)
        place[k] = tile_number(0);
    fuse_walk(b->s, b->inner, which, fuse_strided_inputs(b->r), place);
    for (int k = 0; k < b->r->inputs; k++)
        if (fuse_is_strided(fuse_form(b->r, k)))
            b->place[k] = place[count++];
}

// Returns the offset of the first element that a run reads of an input.
static expr place_of(const struct building *b, const struct run *run, int input) {
    int form = fuse_form(b->r, input);
    if (form == FUSE_ONE)
        return b->first[input];
    return ADD(b->first[input],
               fuse_is_strided(form) ? times(b->place[input], form == FUSE_ROWS ? run->width : 1) : run->at);
}

// Runs ------------------------------------------------------------------------------------------------------

static void read_run(const struct building *b, struct run *run, int which) {
    for (int k = 0; k < b->r->inputs; k++) {
        if (!is_run(b, k))
            continue;
        run->a[k] = fuse_run(which ? "c" : "a", k, fuse_input_dtype(b->r, k), run->width);
        fuse_move(&run->a[k], tile_number(0), &b->x[k], place_of(b, run, k), run->width);
    }
    for (int k = 0; k < b->r->outputs; k++)
        run->b[k] = fuse_run(which ? "d" : "b", k, fuse_output_dtype(b->r, k), run->width);
}

// Computes all elements of a run. quick: computes quotients by the fast method and, if odd is not NULL, sets
// *odd where one of them is wrong.
static void compute(const struct building *b, const struct run *run, bool quick,
                    const struct tile_name *odd) {
    expr input[FUSE_OPERANDS], value[FUSE_CALLS], rare = NULL, turns = tile_number(run->width),
                                                  j = tile_number(0);
    const struct tile_name *turn = tile_index("j", turns);
    if (run->width > 1) {
        tile_open_for(turn, NULL, turns, NULL, TILE_UNROLLED);
        j = tile_name_value(turn, TILE_INDEX);
    }
    for (int k = 0; k < b->r->inputs; k++)
        input[k] = is_run(b, k)            ? fuse_read(&run->a[k], j)
                   : b->x[k].value != NULL ? b->x[k].value
                                           : fuse_read(&b->x[k], place_of(b, run, k));
    fuse_rows(b->r, 0, b->r->rows, input, value, b->r->outputs > 1, quick ? &rare : NULL);
    for (int k = 0; k < b->r->outputs; k++)
        fuse_put(&run->b[k], j, value[fuse_output_row(b->r, k)]);
    if (odd)
        tile_assign(odd, OR(tile_name_value(odd, TILE_LOCAL), rare));
    if (run->width > 1)
        tile_close();
}

// Quotients in bf16 are right by the fast method. Those of other dtypes may rarely be wrong: if one of the
// run's elements is, the whole run is computed again exactly, which pays off for runs of several elements.
static void compute_run(const struct building *b, const struct run *run) {
    bool sure = true;
    for (int k = 0; k < b->r->rows; k++)
        sure &= b->r->row[k].op != FUSE_QUOTIENT || b->r->row[k].dtype == ZL_BFLOAT16;
    if (sure || run->width == 1) {
        compute(b, run, sure, NULL);
        return;
    }
    struct tile_type truth = tile_type_of(ZL_BOOL);
    const struct tile_name *odd = tile_name("odd", truth);
    tile_assign(odd, tile_const_int(truth, 0));
    compute(b, run, true, odd);
    tile_open_if(tile_name_value(odd, TILE_LOCAL));
    compute(b, run, false, NULL);
    tile_close();
}

// Builds runs. All inputs are read before anything is computed, and all results computed before any is
// written, since outputs may share memory with inputs.
static void build_runs(const struct building *b, int runs, int width, const expr *at) {
    struct run run[2];
    for (int i = 0; i < runs; i++) {
        run[i] = (struct run){.at = at[i], .width = width};
        read_run(b, &run[i], i);
    }
    for (int i = 0; i < runs; i++)
        compute_run(b, &run[i]);
    for (int i = 0; i < runs; i++)
        for (int k = 0; k < b->r->outputs; k++)
            fuse_move(&b->y[k], b->from ? ADD(b->from, at[i]) : at[i], &run[i].b[k], tile_number(0), width);
}

// Builds one run or, at the end of the array, the elements of it that exist.
static void build_part(const struct building *b, expr at) {
    int width = b->map->width;
    tile_open_if(LE(ADD(at, tile_number(width)), b->n));
    build_runs(b, 1, width, &at);
    tile_else();
    const struct tile_name *i = tile_index("i", b->n);
    expr one = tile_name_value(i, TILE_INDEX);
    tile_open_for(i, at, b->n, NULL, TILE_SERIAL);
    build_runs(b, 1, 1, &one);
    tile_close();
    tile_close();
}

// Builds two runs, whose distance is the number of elements that a block's threads compute in one run; near
// the end, each is built by itself.
static void build_two(const struct building *b, expr first) {
    int64_t width = b->map->width, step = FUSE_MAP_THREADS * width;
    expr at[] = {first, ADD(first, tile_number(step))}, two = tile_number(2);
    tile_open_if(LE(ADD(at[1], tile_number(width)), b->n));
    build_runs(b, 2, b->map->width, at);
    tile_else();
    const struct tile_name *k = tile_index("k", two);
    tile_open_for(k, NULL, two, NULL, TILE_SERIAL);
    build_part(b, ADD(first, times(tile_name_value(k, TILE_INDEX), step)));
    tile_close();
    tile_close();
}

// With strided inputs, sizes are multiples of the width, so that all runs are complete.
static void build_thread(struct building *b, expr block, expr thread) {
    const struct fuse_map *m = b->map;
    expr which = ADD(times(block, FUSE_MAP_THREADS * m->runs), thread), at = times(which, m->width);
    if (m->width > 1 && !b->s) {
        (m->runs > 1 ? build_two : build_part)(b, at);
        return;
    }
    tile_open_if(LT(at, b->n));
    if (b->s)
        find_places(b, which);
    build_runs(b, 1, m->width, &at);
    tile_close();
}

struct tile_kernel *fuse_make_map(const void *map) {
    struct building b = {.map = map, .r = &((const struct fuse_map *)map)->f};
    int64_t each = (int64_t)FUSE_MAP_THREADS * b.map->width * b.map->runs;
    fuse_begin("elements", b.map->wide);
    declare_symbols(&b);
    declare_operands(&b);
    expr blocks = FLOORDIV(ADD(b.n, tile_number(each - 1)), tile_number(each));
    expr threads = tile_number(FUSE_MAP_THREADS);
    const struct tile_name *block = tile_index("b", blocks), *thread = tile_index("t", threads);
    tile_open((struct tile_stmt){
        .kind = TILE_GRID, .indices = 1, .name = &block, .extent = &blocks, .threads = FUSE_MAP_THREADS});
    tile_open_map(1, &thread, &threads);
    build_thread(&b, tile_name_value(block, TILE_INDEX), tile_name_value(thread, TILE_INDEX));
    tile_close();
    tile_close();
    return tile_end();
}
