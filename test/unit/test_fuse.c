// test_fuse.c - groups, their rows and recipes, found for a device that is only a set of limits.

#include "fuse/fuse.h"
#include "test.h"

#include <math.h>

enum { CALLS = 8, INPUTS = 8 };

struct found {
    struct fuse_group g;
    struct fuse_steps steps;
    struct fuse_step step[CALLS];
    struct call *call[CALLS];
    struct fuse_recipe r;
    zl_array input[INPUTS];
    int inputs;
};

static enum fuse_end fits_two_outputs(struct fuse_group *g) {
    return g->outputs > 2 ? FUSE_END_OPERANDS : FUSE_END_NONE;
}

static const struct fuse_limits
    maps = {.calls = 4, .operands = INPUTS, .line_least = 4, .line_most = INT64_MAX},
    lines = {.calls = CALLS, .operands = 2, .reductions = 2, .line_least = 4, .line_most = 64},
    pairs = {.calls = CALLS, .operands = INPUTS, .fits = fits_two_outputs};

// Finds the group that begins with the first of `count` results. The last result is needed, and those whose
// bits are set in `needed`.
static bool find(struct found *f, const struct fuse_limits *limits, int count, const zl_array *result,
                 unsigned needed) {
    uint8_t is_needed[CALLS] = {0};
    *f = (struct found){.steps = {f->step, sizeof f->step[0], count}};
    for (int i = 0; i < count; i++) {
        f->call[i] = result[i]->call;
        is_needed[i] = i == count - 1 || needed >> i & 1;
        fuse_set_step(&f->step[i], f->call[i]);
    }
    f->g = (struct fuse_group){.steps = &f->steps, .call = f->call, .limits = limits};
    return CHECK(fuse_link_steps(&f->steps, f->call, is_needed)) && fuse_find(&f->g);
}

static void check_words(const struct found *f, const char *words) {
    struct text out = {0};
    fuse_explain(&f->g, &out);
    CHECK_STR(out.len ? out.data : "", words);
    text_free(&out);
}

TEST(fuse_finds_what_is_stored) {
    struct found f;
    zl_array x = zl_ones(ZL_SHAPE(3, 8), ZL_FLOAT32), a, b, c, d;
    CHECK(zl_eval(x));
    a = zl_exp(x), b = zl_negative(a), c = zl_multiply(b, a), d = zl_square(c);
    zl_array all[] = {a, b, c, d, zl_abs(d)};
    REQUIRE(find(&f, &maps, 4, all, 1 << 1));
    CHECK_EQ_INT(f.g.end, 4);
    CHECK_EQ_INT(f.g.outputs, 2);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(f.g.row[i].kind, ROW_ELEMENTS);
        CHECK_EQ_INT(f.g.row[i].stored, i % 2);
    }
    CHECK_EQ_INT(f.g.row[0].until, 2);
    check_words(&f, "");
    REQUIRE(find(&f, &maps, 5, all, 0));
    CHECK_EQ_INT(f.g.end, 4);
    check_words(&f, "a kernel has 4 calls at most");
    REQUIRE(find(&f, &pairs, 5, all, 7)); // three results are too many
    CHECK_EQ_INT(f.g.end, 2);
    check_words(&f, "a kernel has 8 operands at most");
}

TEST(fuse_begins_with_products_where_limits_say_so) {
    static const struct fuse_limits with_products = {.calls = CALLS, .operands = INPUTS, .products = true};
    struct found f;
    zl_array x = zl_ones(ZL_SHAPE(8, 8), ZL_FLOAT32);
    CHECK(zl_eval(x));
    zl_array product = zl_matmul(x, x), all[] = {product, zl_exp(product)};
    CHECK(!find(&f, &maps, 2, all, 0));
    REQUIRE(find(&f, &with_products, 2, all, 0));
    CHECK_EQ_INT(f.g.end, 2);
    CHECK_EQ_INT(f.g.row[0].kind, ROW_PRODUCT);
}

TEST(fuse_ends_before_other_shapes_and_reductions) {
    struct found f;
    zl_array x = zl_ones(ZL_SHAPE(3, 8), ZL_FLOAT32), y = zl_exp(x);
    CHECK(zl_eval(x));
    REQUIRE(find(&f, &maps, 2, (zl_array[]){y, zl_negative(zl_ones(ZL_SHAPE(24), ZL_FLOAT32))}, 0));
    check_words(&f, "what follows has another shape");
    REQUIRE(find(&f, &maps, 2, (zl_array[]){y, zl_sum_axis(y, 1, true)}, 0));
    check_words(&f, "what follows reduces other axes, or lines of fewer than 4 elements");
    REQUIRE(find(&f, &lines, 2, (zl_array[]){y, zl_sum_axis(y, 0, true)}, 0));
    check_words(&f, "what follows reduces other axes, or lines of fewer than 4 elements or more than 64");
    REQUIRE(find(&f, &lines, 2, (zl_array[]){y, zl_transpose(y, ZL_ALL)}, 0));
    check_words(&f, "what follows has its elements in another order");
    REQUIRE(find(&f, &lines, 2, (zl_array[]){y, zl_sort(y, 1)}, 0));
    check_words(&f, "what follows is not elementwise");
    CHECK_EQ_INT(f.g.end, 1);
}

// Elementwise calls, reductions of leading axes, and calls on columns that use them; not elementwise calls
// that read columns. Views of other arrays may come between.
TEST(fuse_finds_columns) {
    static const struct fuse_limits columns = {.calls = CALLS,
                                               .operands = INPUTS,
                                               .reductions = 2,
                                               .line_least = 2,
                                               .line_most = INT64_MAX,
                                               .asides = true};
    struct found f;
    zl_array x = zl_ones(ZL_SHAPE(3, 4, 8), ZL_FLOAT32), w = zl_ones(ZL_SHAPE(1, 8), ZL_FLOAT32);
    CHECK(zl_eval(x) && zl_eval(w));
    zl_array y = zl_exp(x), sum = zl_sum_axes(y, ZL_AXES(0, 1), true), flat = zl_squeeze(sum, ZL_ALL),
             other = zl_squeeze(w, ZL_ALL), scaled = zl_multiply(flat, other), late = zl_multiply(x, scaled),
             all[] = {y, sum, flat, other, scaled, late};
    CHECK(!find(&f, &maps, 6, all, 0) || f.g.end == 1);
    CHECK_EQ_INT(fuse_columns_ahead(&f.steps, f.call, 0), 2);
    CHECK_EQ_INT(fuse_columns_ahead(&f.steps, f.call, 2), 0);
    f.g.limits = &columns;
    f.g.columns = 2;
    REQUIRE(fuse_find(&f.g));
    CHECK_EQ_INT(f.g.end, 5);
    CHECK_EQ_INT(f.g.line, 12);
    CHECK_EQ_INT(f.g.outputs, 1);
    static const uint8_t kinds[] = {ROW_ELEMENTS, ROW_REDUCE, ROW_VIEW, ROW_ASIDE, ROW_LINES};
    for (int i = 0; i < 5; i++)
        CHECK_EQ_INT(f.g.row[i].kind, kinds[i]);
    CHECK(fuse_is_outside(&f.g, 4, 1) && !fuse_is_outside(&f.g, 4, 0));
}

static int input_of(struct fuse_writer *w, int index, int k, int op) {
    struct found *f = (struct found *)w->g;
    (void)op;
    for (int i = 0; i < f->inputs; i++)
        if (f->input[i] == w->g->call[index]->in[k])
            return i;
    if (f->inputs == INPUTS)
        return -1;
    f->input[f->inputs] = w->g->call[index]->in[k];
    fuse_set_input(w->r, f->inputs, FUSE_VECTOR, (zl_dtype)fuse_step(w->g, index)->dtype[k + 1]);
    return f->inputs++;
}

TEST(fuse_writes_recipes_of_lines) {
    struct found f;
    zl_array x = zl_ones(ZL_SHAPE(3, 8), ZL_FLOAT32), y, most, less, wide;
    CHECK(zl_eval(x));
    y = zl_exp(x), most = zl_max_axis(y, 1, true), less = zl_negative(most);
    wide = zl_broadcast_to(less, ZL_SHAPE(3, 8));
    REQUIRE(find(&f, &lines, 5, (zl_array[]){y, most, less, wide, zl_subtract(y, wide)}, 0));
    static const uint8_t kinds[] = {ROW_ELEMENTS, ROW_REDUCE, ROW_LINES, ROW_VIEW, ROW_ELEMENTS};
    for (int i = 0; i < 5; i++)
        CHECK_EQ_INT(f.g.row[i].kind, kinds[i]);
    CHECK_EQ_INT(f.g.line, 8);
    struct fuse_writer w = {.g = &f.g, .end = f.g.end, .operands = 2, .r = &f.r, .input = input_of};
    REQUIRE(fuse_write(&w));
    CHECK_EQ_INT(f.r.rows, 4); // the view is not a row
    CHECK_EQ_INT(f.r.inputs, 1);
    CHECK_EQ_INT(f.r.outputs, 1);
    CHECK_EQ_INT(f.r.row[0].arg[0], FUSE_INPUT);
    CHECK_EQ_INT(f.r.row[1].op, TILE_MAX);
    CHECK_EQ_INT(f.r.row[3].arg[1], 2);
    CHECK_EQ_INT(fuse_output_row(&f.r, 0), 3);
    w.operands = 1;
    f.inputs = 0;
    CHECK(!fuse_write(&w));
}

TEST(fuse_builds_maps) {
    struct found f;
    zl_array x = zl_ones(ZL_SHAPE(3, 8), ZL_FLOAT32), y, z;
    CHECK(zl_eval(x));
    y = zl_exp(x), z = zl_multiply(y, x);
    REQUIRE(find(&f, &maps, 2, (zl_array[]){y, z}, 1));
    struct fuse_writer w = {.g = &f.g, .end = f.g.end, .operands = INPUTS, .r = &f.r, .input = input_of};
    REQUIRE(fuse_write(&w));
    struct tile_kernel *kernel = fuse_build_map(&f.r);
    REQUIRE(kernel);
    char *text = tile_print(kernel);
    CHECK_HAS(text, "y0[i] = exp(x0[i])");
    CHECK_HAS(text, "y1[i] = exp(x0[i]) * x0[i]");
    memory_free(text);
    tile_free(kernel);
}

// Two elements per turn, of complex numbers and of floats: y0 = x0 * v1, y1 = y0 * y0.
static struct tile_kernel *build_pieces(void) {
    const struct fuse_recipe r = {
        .rows = 2,
        .inputs = 2,
        .outputs = 2,
        .row = {{ROW_ELEMENTS, 2, ZL_COMPLEX64, ZL_COMPLEX64, TILE_MUL, {FUSE_INPUT, FUSE_INPUT | 1}},
                {ROW_ELEMENTS, 2, ZL_COMPLEX64, ZL_COMPLEX64, TILE_MUL, {0, 0}}}};
    tile_begin("pieces");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 2), TILE_SYMBOL), input[2], value[2];
    expr two = tile_const_int(tile_index_type(), 2), half = tile_binary(TILE_FLOORDIV, n, two);
    struct fuse_operand x = fuse_declare("x", 0, ZL_COMPLEX64, n, false),
                        v = fuse_declare_value("v", 1, ZL_COMPLEX64),
                        y = fuse_declare("y", 0, ZL_COMPLEX64, n, true),
                        z = fuse_declare("y", 1, ZL_COMPLEX64, n, true);
    const struct tile_name *i = tile_index("i", half), *j = tile_index("j", two);
    expr at = tile_binary(TILE_MUL, tile_name_value(i, TILE_INDEX), two),
         turn = tile_name_value(j, TILE_INDEX), zero = tile_const_int(tile_index_type(), 0);
    tile_open_map(1, &i, &half);
    struct fuse_operand from = fuse_run("a", 0, ZL_COMPLEX64, 2), to = fuse_run("b", 0, ZL_COMPLEX64, 2);
    fuse_move(&from, zero, &x, at, 2);
    tile_open_for(j, NULL, two, NULL, TILE_UNROLLED);
    input[0] = fuse_read(&from, turn);
    input[1] = fuse_read(&v, turn);
    fuse_rows(&r, 0, 2, input, value, true, NULL);
    fuse_put(&to, turn, value[0]);
    fuse_put(&z, tile_binary(TILE_ADD, at, turn), value[1]);
    tile_close();
    fuse_move(&y, at, &to, zero, 2);
    tile_close();
    return tile_end();
}

TEST(fuse_builds_pieces_of_kernels) {
    float x[] = {1, 2, -3, 0.5f, 0, 1, 4, -1}, by[] = {0, 2}, y[8], z[8];
    struct tile_kernel *kernel = build_pieces();
    REQUIRE(kernel);
    CHECK(tile_verify(kernel));
    REQUIRE(tile_interpret(kernel, (void *[]){x, by, y, z}, (const int64_t[]){4}));
    for (int i = 0; i < 8; i += 2) {
        CHECK(y[i] == -2 * x[i + 1]);
        CHECK(y[i + 1] == 2 * x[i]);
        CHECK(z[i] == y[i] * y[i] - y[i + 1] * y[i + 1]);
        CHECK(z[i + 1] == 2 * y[i] * y[i + 1]);
    }
    tile_free(kernel);
}

// The results that kernels of elements must give however they are divided: y0 = x0 / 3, y1 = y0 * x1, where
// x1 is a row, or has one element per row.
static const struct fuse_recipe cut = {
    .rows = 2,
    .inputs = 4,
    .outputs = 2,
    .row = {{ROW_ELEMENTS,
             3,
             ZL_FLOAT32,
             ZL_FLOAT32,
             FUSE_QUOTIENT,
             {FUSE_INPUT, FUSE_INPUT | 2, FUSE_INPUT | 3}},
            {ROW_ELEMENTS, 2, ZL_FLOAT32, ZL_FLOAT32, TILE_MUL, {0, FUSE_INPUT | 1}}}};

enum { ROW = 24, MOST = 3000 };

static void check_cut(int width, int runs, int form, int64_t n, bool wide) {
    static float x[MOST + 8], y[2][MOST];
    float by = 3, inverse = 1 / by, row[8 + MOST];
    struct fuse_map m = {.width = (int16_t)width, .runs = (int16_t)runs, .wide = wide, .f = cut};
    bool is_row = form == FUSE_ROWS || (form == FUSE_STRIDED && width == 1);
    static const int forms[] = {FUSE_VECTOR, 0, FUSE_SCALAR, FUSE_SCALAR};
    for (int k = 0; k < 4; k++)
        fuse_set_input(&m.f, k, k == 1 ? form : forms[k], ZL_FLOAT32);
    for (int k = 0; k < 2; k++)
        m.f.operand[4 + k] = (int16_t)(k << 1);
    for (int i = 0; i < MOST; i++) {
        x[8 + i] = i % 71 ? (float)(i * 7 % 1000) - 500 : i % 2 ? 1e-40f : INFINITY;
        row[8 + i] = (float)(i % 97) - 40;
        y[0][i] = y[1][i] = -1;
    }
    struct tile_kernel *kernel = fuse_make_map(&m);
    REQUIRE(kernel);
    int64_t table[2][8] = {{ROW / width, n / ROW, 1, 1, 1, 1, 1, 1}, {is_row, !is_row}};
    int32_t narrow[2][8];
    for (int i = 0; i < 16; i++)
        narrow[i / 8][i % 8] = (int32_t)table[i / 8][i % 8];
    void *strided[] = {x, row, &by, &inverse, wide ? (void *)table : narrow, y[0], y[1]},
         *flat[] = {x, row, &by, &inverse, y[0], y[1]};
    const int64_t size[] = {n, 8, 8, 2, 0, 8 + MOST};
    CHECK(tile_verify(kernel) && tile_interpret(kernel, fuse_is_strided(form) ? strided : flat, size));
    for (int64_t i = 0; i < MOST; i++) {
        float q = x[8 + i] / by, f = row[8 + (form == FUSE_VECTOR ? i
                                              : form == FUSE_ONE  ? 0
                                              : is_row            ? i % ROW
                                                                  : i / ROW)];
        CHECK_SAME_F64(y[0][i], i < n ? q : -1);
        CHECK_SAME_F64(y[1][i], i < n ? q * f : -1);
    }
    tile_free(kernel);
}

TEST(fuse_makes_maps_of_runs) {
    for (int width = 1; width <= 8; width *= 2)
        for (int n = 0; n < 8; n++) {
            check_cut(width, 1, FUSE_VECTOR, MOST - 57 * n, false);
            check_cut(width, 1, FUSE_ONE, n, false);
        }
    check_cut(4, 2, FUSE_VECTOR, MOST, false);
    check_cut(4, 2, FUSE_VECTOR, 2049, false);
    check_cut(4, 2, FUSE_VECTOR, 1023, false);
    check_cut(4, 2, FUSE_VECTOR, 2049, true);
    for (int width = 1; width <= 8; width *= 2) {
        check_cut(width, 1, width == 1 ? FUSE_STRIDED : FUSE_ROWS, 120 * ROW, false);
        check_cut(width, 1, FUSE_SAME, 100 * ROW, false);
        check_cut(width, 1, FUSE_SAME, 100 * ROW, true);
    }
}
