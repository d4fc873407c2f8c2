// test_kernels_columns.c - tile kernels of columns, made from recipes: interpreted, compiled for the host,
// and rendered for all targets; and groups of calls that become such kernels, on devices.

#include "on_devices.h"
#include "test.h"

#include "tile_trial.h"

#include "device/kernels/kernels_columns.h"
#include "kernel/kernel.h"

#include <math.h>
#include <string.h>

extern const struct kernel_driver kernel_driver_c;

// Recipes ---------------------------------------------------------------------------------------------------

enum { GAP = 8 }; // elements between rows of x

struct trial {
    int16_t width, lanes;
    int columns, rows, parts;
};

// x times a number per column, plus one per row; the sum of that times another number per column; and the
// largest x.
static struct column_recipe recipe_of(const struct trial *p) {
    enum { X = FUSE_INPUT, WEIGHT, SHIFT, SCALE };
    struct column_recipe r = {.name = "columns",
                              .width = p->width,
                              .lanes = p->lanes,
                              .single = 1,
                              .reductions = 2,
                              .reduction = {2, 4},
                              .f = {.rows = 5, .inputs = 4, .outputs = 3}};
    const uint8_t f32 = ZL_FLOAT32;
    const struct fuse_op rows[] = {{ROW_ELEMENTS, 2, f32, f32, TILE_MUL, {X, WEIGHT}},
                                   {ROW_ELEMENTS, 2, f32, f32, TILE_ADD, {0, SHIFT}},
                                   {ROW_REDUCE, 1, f32, f32, TILE_ADD, {1}},
                                   {ROW_LINES, 2, f32, f32, TILE_MUL, {2, SCALE}},
                                   {ROW_REDUCE, 1, f32, f32, TILE_MAX, {X}}};
    memcpy(r.f.row, rows, sizeof rows);
    fuse_set_input(&r.f, 0, FUSE_VECTOR, ZL_FLOAT32);
    fuse_set_input(&r.f, 1, COLUMN_ONCE, ZL_FLOAT32);
    fuse_set_input(&r.f, 2, COLUMN_SAME, ZL_FLOAT32);
    fuse_set_input(&r.f, 3, COLUMN_ONCE, ZL_FLOAT32);
    r.f.operand[4] = 1 << 1;
    r.f.operand[5] = 3 << 1 | 1;
    r.f.operand[6] = 4 << 1 | 1;
    return r;
}

static void run_stage(const struct column_recipe *r, bool compiles, void **address, const int64_t *size) {
    struct tile_kernel *kernel = column_build(r);
    struct text source = {0};
    REQUIRE(kernel);
    CHECK(tile_verify(kernel) && tile_renders(kernel));
    struct tile_kernel *copy = kernel_copy(kernel);
    void *made = copy && compiles ? kernel_driver_c.compile(copy, &source) : NULL;
    CHECK(made ? kernel_driver_c.run(made, address, size) : tile_interpret(kernel, address, size));
    CHECK(!compiles || made);
    if (made)
        kernel_driver_c.free(made);
    text_free(&source);
    tile_free(copy);
    tile_free(kernel);
}

struct numbers {
    float *x, *weight, *shift, *scale, *y, *sum, *most, *part[2];
};

static void run_stages(const struct trial *p, bool compiles, const struct numbers *n) {
    struct column_recipe r = recipe_of(p);
    int64_t packs = p->columns / p->width, rows = p->rows, turn = 4 * p->lanes,
            each = (rows + p->parts * turn - 1) / (p->parts * turn) * turn, parts = (rows + each - 1) / each,
            sizes[] = {(p->columns + GAP) * rows, p->columns, rows, p->columns};
    int32_t axes[5][KERNEL_AXES] = {{p->rows}, {(p->columns + GAP) / p->width}, {0}, {1}, {0}}, at[4] = {0};
    CHECK_EQ_INT(parts, p->parts);
    if (parts == 1) {
        run_stage(&r, compiles,
                  (void *[]){n->x, n->weight, n->shift, n->scale, axes, at, n->y, n->sum, n->most},
                  (int64_t[]){packs, rows, 1, each, 0, sizes[0], sizes[1], sizes[2], sizes[3]});
        return;
    }
    r.stage = COLUMN_PARTS;
    run_stage(&r, compiles, (void *[]){n->x, n->weight, n->shift, axes, at, n->y, n->part[0], n->part[1]},
              (int64_t[]){packs, rows, parts, each, 0, sizes[0], sizes[1], sizes[2]});
    r.stage = COLUMN_JOIN;
    run_stage(&r, compiles, (void *[]){n->part[0], n->part[1], n->scale, axes, at, n->sum, n->most},
              (int64_t[]){packs, parts, 1, parts, 0, sizes[3]});
}

static bool are_right(const struct trial *p, const struct numbers *n) {
    for (int j = 0; j < p->columns; j++) {
        double sum = 0, most = -INFINITY;
        for (int i = 0; i < p->rows; i++) {
            float x = n->x[i * (p->columns + GAP) + j], y = x * n->weight[j] + n->shift[i];
            if (n->y[i * p->columns + j] != y)
                return false;
            sum += (double)y;
            most = fmax(most, (double)x);
        }
        sum *= (double)n->scale[j];
        if (!(fabs((double)n->sum[j] - sum) <= 1e-4 * fmax(1, fabs(sum))) || (double)n->most[j] != most)
            return false;
    }
    return true;
}

static void run(const struct trial *p, bool compiles) {
    size_t columns = (size_t)p->columns, rows = (size_t)p->rows;
    float *room = memory_zero(
        sizeof(float) * ((2 * columns + GAP) * rows + 4 * columns + rows + 2 * columns * (size_t)p->parts));
    REQUIRE(room);
    struct numbers n = {.x = room, .y = room + (columns + GAP) * rows};
    n.weight = n.y + columns * rows;
    n.scale = n.weight + columns;
    n.sum = n.scale + columns;
    n.most = n.sum + columns;
    n.shift = n.most + columns;
    n.part[0] = n.shift + rows;
    n.part[1] = n.part[0] + columns * (size_t)p->parts;
    for (size_t i = 0; i < (columns + GAP) * rows; i++)
        n.x[i] = (float)(i * 7 % 16) / 16;
    for (size_t i = 0; i < columns; i++) {
        n.weight[i] = (float)(i % 5 + 1);
        n.scale[i] = (float)(i % 3) - 1;
    }
    for (size_t i = 0; i < rows; i++)
        n.shift[i] = (float)(i % 4) / 4;
    run_stages(p, compiles, &n);
    if (!CHECK(are_right(p, &n)))
        test_note("%d rows in %d parts, %d columns in packs of %d, %d lanes", p->rows, p->parts, p->columns,
                  p->width, p->lanes);
    memory_free(room);
}

TEST(columns_are_packed_shared_and_cut) {
    static const struct trial trials[] = {{4, 1, 64, 9, 1},     {1, 1, 300, 5, 1},  {4, 2, 1040, 21, 1},
                                          {4, 8, 40, 100, 1},   {1, 32, 3, 131, 1}, {4, 4, 24, 201, 3},
                                          {4, 16, 200, 150, 2}, {1, 1, 7, 11, 3}};
    for (size_t i = 0; i < COUNT(trials); i++) {
        run(&trials[i], false);
        if (!test_quick() || i % 3 == 2)
            run(&trials[i], true);
    }
}

// Groups ----------------------------------------------------------------------------------------------------

// Elementwise results with a number per column and per row.
struct group {
    zl_dtype dtype;
    int64_t dim[3];
    bool has_gaps; // between rows of x, whose rows then span two axes
    int launches;
};

enum { RESULTS = 4 };

// As in a batch norm: elements that are read later, their mean, the mean of their squares, and the largest of
// other elements; each with a call that uses it.
static void find_results(const struct group *g, zl_array out[RESULTS]) {
    int64_t rows = g->dim[1] * (1 + g->has_gaps);
    zl_array x = values(ZL_SHAPE(g->dim[0], rows, g->dim[2]), g->dtype, 1),
             weight = values(ZL_SHAPE(g->dim[2]), g->dtype, 2),
             shift = values(ZL_SHAPE(g->dim[0], g->dim[1], 1), g->dtype, 3);
    CHECK(zl_eval_all(3, (zl_array[]){x, weight, shift}));
    if (g->has_gaps)
        x = zl_slice(x, ZL_SHAPE(0, 1, 0), ZL_SHAPE(g->dim[0], rows, g->dim[2]), ZL_SHAPE(1, 2, 1));
    zl_array y = zl_subtract(x, weight), one = zl_astype(zl_scalar(0.0625), g->dtype);
    out[0] = zl_retain(y);
    out[1] = zl_retain(zl_multiply(zl_sum_axes(y, ZL_AXES(0, 1), true), one));
    out[2] = zl_retain(zl_add(zl_multiply(zl_sum_axes(zl_square(y), ZL_AXES(0, 1), false), one), weight));
    out[3] = zl_retain(zl_max_axes(zl_multiply(x, shift), ZL_AXES(0, 1), false));
}

static bool have_same_bits(zl_array a, zl_array b) {
    const char *p = zl_data(a), *q = zl_data(b);
    return p && q && a->size == b->size && !memcmp(p, q, (size_t)a->size * array_item(a));
}

static void check_group(const struct group *g) {
    zl_array fused[RESULTS], apart[RESULTS];
    zl_compile_mode mode = zl_get_compile_mode();
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    find_results(g, apart);
    CHECK(zl_eval_all(RESULTS, apart));
    zl_set_compile_mode(mode);
    find_results(g, fused);
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval_all(RESULTS, fused));
    bool good = CHECK_EQ_INT(zl_counter("launches") - launches, g->launches);
    for (int i = 0; i < RESULTS; i++) {
        good = CHECK(have_same_bits(fused[i], apart[i])) && good;
        zl_release(fused[i]);
        zl_release(apart[i]);
    }
    if (!good)
        test_note("%s (%d, %d, %d)", zl_dtype_name(g->dtype), (int)g->dim[0], (int)g->dim[1], (int)g->dim[2]);
}

// Columns that are divided into parts are joined by a second launch.
static void check_groups(void) {
    static const struct group groups[] = {
        {ZL_BFLOAT16, {2, 20, 64}, false, 1}, {ZL_FLOAT32, {3, 700, 24}, false, 2},
        {ZL_FLOAT16, {5, 70, 9}, false, 1},   {ZL_BFLOAT16, {4, 512, 16}, true, 2},
        {ZL_INT32, {3, 7, 1000}, false, 1},   {ZL_FLOAT32, {2, 30, 40}, true, 1}};
    for (size_t i = 0; i < COUNT(groups); i++)
        if (!test_quick() || i % 3 == 0)
            ZL_SCOPE
                check_group(&groups[i]);
}

TEST(sums_of_columns_are_fused_on_devices) {
    on_devices(check_groups);
}

// Sums of different arrays that are computed from the same one, each read by a call that no group contains,
// in an evaluation of many calls.
static void find_sums(zl_array out[4]) {
    zl_array x = values(ZL_SHAPE(8, 10, 64), ZL_FLOAT32, 1), y = zl_retain(zl_square(x)), chain = y;
    CHECK(zl_eval_all(2, (zl_array[]){x, y}));
    for (int i = 0; i < 64; i++)
        chain = zl_add(chain, x);
    zl_array from[] = {zl_multiply(x, y), x, zl_subtract(x, y)};
    for (int i = 0; i < 3; i++)
        out[i] = zl_cumsum(zl_sum_axes(from[i], ZL_AXES(0, 1), false), 0, false, true, ZL_FLOAT32);
    out[3] = chain;
    zl_release(y);
}

enum { KEPT = 11 }; // arrays that an update reads

// As in an optimiser's step: many numbers per column, and a sum.
static zl_array update(zl_array sum, uint64_t seed) {
    for (int i = 0; i < KEPT; i++) {
        zl_array kept = values(ZL_SHAPE(64), ZL_FLOAT32, seed + (uint64_t)i);
        CHECK(zl_eval(kept));
        sum = zl_add(zl_multiply(sum, kept), kept);
    }
    return sum;
}

// Two sums, a third one that is computed from one of them, elements that are computed from these, and an
// update for each of the first two.
static void find_updates(zl_array out[3]) {
    zl_axes rows = ZL_AXES(0, 1);
    zl_array x = values(ZL_SHAPE(8, 10, 64), ZL_FLOAT32, 1), y = zl_retain(zl_square(x));
    CHECK(zl_eval_all(2, (zl_array[]){x, y}));
    zl_array first = zl_sum_axes(zl_multiply(x, y), rows, false), second = zl_sum_axes(x, rows, false),
             third = zl_sum_axes(zl_subtract(x, zl_multiply(second, y)), rows, true);
    out[0] = update(first, 10);
    out[1] = update(second, 30);
    zl_array both = zl_add(zl_multiply(third, third), zl_negative(second));
    out[2] = zl_cumsum(zl_add(x, both), 2, false, true, ZL_FLOAT32);
    for (int i = 0; i < 8; i++)
        out[2] = zl_add(out[2], y);
    zl_release(y);
}

// Calls that use the sums join their kernels; updates come later.
static void check_updates(void) {
    zl_array out[3];
    find_updates(out);
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval_all(3, out));
    // Two sums, the third one, the elements, their running sum, the calls after it, two updates.
    CHECK_EQ_INT(zl_counter("launches") - launches, 7);
}

static void check_order(void) {
    zl_array out[4];
    find_sums(out);
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval_all(4, out));
    CHECK_EQ_INT(zl_counter("launches") - launches, 1 + 3 + 64 / 32); // all sums, each running sum, the chain
}

TEST(sums_of_columns_follow_each_other_on_devices) {
    on_devices(check_order);
}

TEST(updates_come_after_what_else_reads_sums_on_devices) {
    on_devices(check_updates);
}
