// test_narrow.c - elements that no slice reads are not computed, which only the counters show.

#include <pthread.h>
#include <string.h>

#include "op_test.h"

enum { ROWS = 96, WIDTH = 64, HIDDEN = 128 };

// Returns numbers in [-1, 1], evaluated.
static zl_array leaf_of(zl_shape shape) {
    int64_t size = 1;
    for (int i = 0; i < shape.ndim; i++)
        size *= shape.dim[i];
    zl_array angles = zl_multiply(zl_arange(1, (double)size + 1, 1, ZL_FLOAT32), zl_scalar(1.7));
    return op_test_ready(zl_reshape(zl_sin(angles), shape));
}

static zl_array leaf(int64_t rows, int64_t columns) {
    return leaf_of(ZL_SHAPE(rows, columns));
}

// Compares within a bound: devices with kernels for few rows may sum products of fewer rows in another order.
static bool near(zl_array a, zl_array b) {
    return a && b && zl_item_int(zl_allclose(a, b, 1e-4, 1e-4, false)) == 1;
}

// Returns elements [start, stop) of one axis.
static zl_array take(zl_array y, int axis, int64_t start, int64_t stop) {
    int64_t at[3][4];
    for (int i = 0; i < y->ndim; i++) {
        at[0][i] = i == axis ? start : 0;
        at[1][i] = i == axis ? stop : INT64_MAX;
        at[2][i] = 1;
    }
    return zl_slice(y, (zl_shape){at[0], y->ndim}, (zl_shape){at[1], y->ndim}, (zl_shape){at[2], y->ndim});
}

// A graph that can be built several times on the same leaves.
struct graph {
    zl_array (*build)(const zl_array *leaf);
    zl_array leaf[8];
};

// Evaluates a slice of a graph, and compares it with a slice of the whole. Returns how many calls were
// narrowed.
static int64_t narrowed(const struct graph *g, int axis, int64_t start, int64_t stop) {
    zl_array whole = zl_retain(op_test_ready(g->build(g->leaf)));
    zl_array want = take(whole, axis, start, stop), got = NULL;
    int64_t before = zl_counter("narrowed");
    ZL_SCOPE
        got = zl_retain(take(g->build(g->leaf), axis, start, stop));
    CHECK(zl_eval(got));
    int64_t count = zl_counter("narrowed") - before;
    CHECK_EQ_INT(got->dtype, want->dtype);
    CHECK(shape_equal(got->ndim, got->dim, want->ndim, want->dim));
    CHECK(near(got, want));
    // The same if a call reads the slice.
    before = zl_counter("narrowed");
    zl_array sum = zl_add(zl_exp(take(g->build(g->leaf), axis, start, stop)), zl_scalar(1));
    CHECK(zl_eval(sum));
    CHECK(zl_counter("narrowed") - before >= count);
    CHECK(near(sum, zl_add(zl_exp(want), zl_scalar(1))));
    zl_release(got);
    zl_release(whole);
    return count;
}

static zl_array product(const zl_array *in) {
    return zl_matmul(in[0], in[1]);
}

TEST(narrow_rows_and_columns_of_a_product) {
    const struct graph g = {product, {leaf(ROWS, WIDTH), leaf(WIDTH, HIDDEN)}};
    CHECK_EQ_INT(narrowed(&g, 0, ROWS - 1, ROWS), 1);
    CHECK_EQ_INT(narrowed(&g, 0, 0, 7), 1);
    CHECK_EQ_INT(narrowed(&g, 0, 30, 50), 1);
    CHECK_EQ_INT(narrowed(&g, 0, 0, ROWS / 2 + 1), 0); // more than half
    CHECK_EQ_INT(narrowed(&g, 0, 5, 5), 0);            // nothing
    // A view that is held shows that its rows have gaps, so its layout cannot change.
    CHECK_EQ_INT(narrowed(&g, 1, 32, 64), 0);
}

static zl_array columns(const zl_array *in) {
    return zl_contiguous(take(zl_matmul(in[0], in[1]), 1, 32, 64), false);
}

TEST(narrow_columns_that_a_call_reads) {
    zl_array x = leaf(ROWS, WIDTH), w = leaf(WIDTH, HIDDEN), whole = zl_retain(zl_matmul(x, w));
    REQUIRE(zl_eval(whole));
    int64_t before = zl_counter("narrowed");
    zl_array y = columns((zl_array[]){x, w});
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_counter("narrowed") - before, 1);
    CHECK(near(y, take(whole, 1, 32, 64)));
    before = zl_counter("narrowed");
    y = zl_exp(take(zl_matmul(x, w), 1, 33, 64)); // would begin at an address that is not a multiple of 16
                                                  // bytes
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_counter("narrowed"), before);
    zl_release(whole);
}

static zl_array normed_product(const zl_array *in) {
    return zl_matmul(zl_fast_rms_norm(zl_add(in[0], in[3]), in[2], 1e-5), zl_matrix_transpose(in[1]));
}

TEST(narrow_through_a_norm) {
    const struct graph g = {
        normed_product, {leaf(ROWS, WIDTH), leaf(HIDDEN, WIDTH), leaf_of(ZL_SHAPE(WIDTH)), leaf(1, WIDTH)}};
    CHECK(narrowed(&g, 0, ROWS - 1, ROWS) > 5);
    CHECK(narrowed(&g, 0, 3, 9) > 5);
}

// Two residual layers of (batch, rows, width), then columns as of a vocabulary.
static zl_array layers(const zl_array *in) {
    zl_array h = zl_multiply(in[0], zl_scalar(2)); // read by two calls
    for (int i = 0; i < 2; i++) {
        zl_array x = zl_fast_layer_norm(h, in[1], NULL, 1e-5);
        zl_array gate = zl_matmul(x, in[2]), up = zl_matmul(x, in[3]);
        h = zl_add(h, zl_matmul(zl_multiply(zl_multiply(gate, zl_sigmoid(gate)), up), in[4]));
    }
    return zl_softmax(zl_matmul(h, in[5]), -1, false);
}

static struct graph graph_of_layers(int64_t batch, int64_t rows) {
    return (struct graph){layers,
                          {leaf_of(ZL_SHAPE(batch, rows, WIDTH)), leaf_of(ZL_SHAPE(WIDTH)),
                           leaf(WIDTH, HIDDEN), leaf(WIDTH, HIDDEN), leaf(HIDDEN, WIDTH),
                           leaf(WIDTH, HIDDEN)}};
}

TEST(narrow_through_layers) {
    struct graph one = graph_of_layers(1, ROWS), many = graph_of_layers(4, ROWS / 2);
    CHECK(narrowed(&one, 1, ROWS - 1, ROWS) > 20);
    CHECK(narrowed(&one, 1, 10, 20) > 20);
    CHECK(narrowed(&many, 0, 1, 2) > 20);      // one element of the batch
    CHECK_EQ_INT(narrowed(&many, 1, 5, 9), 0); // held, with gaps
    zl_array want = zl_retain(layers(many.leaf));
    REQUIRE(zl_eval(want));
    int64_t before = zl_counter("narrowed"); // the last row of each element of the batch
    zl_array y = zl_exp(zl_squeeze(take(layers(many.leaf), 1, ROWS / 2 - 1, ROWS / 2), ZL_AXES(1)));
    CHECK(zl_eval(y));
    CHECK(zl_counter("narrowed") - before > 20);
    CHECK(near(y, zl_exp(zl_squeeze(take(want, 1, ROWS / 2 - 1, ROWS / 2), ZL_AXES(1)))));
    zl_release(want);
}

static zl_array quantised(const zl_array *in) {
    return zl_quantized_matmul(zl_exp(in[0]), in[1], in[2], in[3], true, 64, 4, "affine");
}

TEST(narrow_rows_of_quantised_products) {
    zl_array part[3];
    REQUIRE(zl_quantize(leaf(HIDDEN, WIDTH), 64, 4, "affine", NULL, part) && zl_eval_all(3, part));
    struct graph g = {quantised, {leaf_of(ZL_SHAPE(1, ROWS, WIDTH)), part[0], part[1], part[2]}};
    CHECK_EQ_INT(narrowed(&g, 1, ROWS - 1, ROWS), 2);
}

static zl_array added_product(const zl_array *in) {
    return zl_addmm(zl_astype(in[2], ZL_BFLOAT16), zl_astype(in[0], ZL_BFLOAT16),
                    zl_astype(in[1], ZL_BFLOAT16), 0.5, 2);
}

TEST(narrow_what_is_added_to_a_product) {
    const struct graph each = {added_product, {leaf(ROWS, WIDTH), leaf(WIDTH, HIDDEN), leaf(ROWS, HIDDEN)}};
    const struct graph one = {added_product, {leaf(ROWS, WIDTH), leaf(WIDTH, HIDDEN), leaf(1, HIDDEN)}};
    CHECK_EQ_INT(narrowed(&each, 0, 4, 8), 3);
    CHECK_EQ_INT(narrowed(&one, 0, 4, 8), 2);
}

// Heads: (rows, heads, width) transposed, and back.
static zl_array heads(const zl_array *in) {
    zl_array x = zl_reshape(zl_matmul(in[0], in[1]), ZL_SHAPE(1, ROWS, 4, HIDDEN / 4));
    x = zl_exp(zl_transpose(x, ZL_AXES(0, 2, 1, 3)));
    x = zl_divide(x, zl_sum_axis(x, -1, true));
    return zl_reshape(zl_transpose(x, ZL_AXES(0, 2, 1, 3)), ZL_SHAPE(1, ROWS, -1));
}

TEST(narrow_through_transposed_heads) {
    const struct graph g = {heads, {leaf(ROWS, WIDTH), leaf(WIDTH, HIDDEN)}};
    CHECK(narrowed(&g, 1, ROWS - 1, ROWS) >= 4);
    CHECK(narrowed(&g, 1, 3, 40) >= 4);
}

// The sum is row-major, but each of its matrices has the layout of the first operand.
TEST(narrow_for_calls_that_need_rows) {
    zl_array x = leaf_of(ZL_SHAPE(4, 48, 64)), c = leaf_of(ZL_SHAPE(4, 1, 1));
    zl_array whole = op_test_ready(zl_add(zl_transpose(x, ZL_AXES(0, 2, 1)), c)),
             want = zl_sort(take(whole, 0, 2, 3), -1);
    int64_t before = zl_counter("narrowed");
    zl_array y = zl_sort(take(zl_add(zl_transpose(x, ZL_AXES(0, 2, 1)), c), 0, 2, 3), -1);
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_counter("narrowed") - before, 1);
    CHECK(near(y, want));
}

// Who holds something ---------------------------------------------------------------------------------------

TEST(narrow_not_what_is_held_or_read_by_others) {
    zl_array x = leaf(ROWS, WIDTH), w = leaf(WIDTH, HIDDEN);
    zl_array y = zl_retain(zl_matmul(x, w)), last = take(y, 0, ROWS - 1, ROWS);
    int64_t before = zl_counter("narrowed");
    CHECK(zl_eval(last));
    CHECK_EQ_INT(zl_counter("narrowed"), before);
    CHECK_IS_VIEW(last, y);
    zl_array h = zl_matmul(x, w), both = zl_add(zl_sum(h), take(h, 0, 0, 1));
    CHECK(zl_eval(both));
    CHECK_EQ_INT(zl_counter("narrowed"), before);
    // Only a part of an array that is held is read.
    zl_array held = zl_retain(zl_exp(x)), z = take(zl_matmul(held, w), 0, 0, 2);
    CHECK(zl_eval(z));
    CHECK_EQ_INT(zl_counter("narrowed"), before + 1);
    CHECK(near(held, zl_exp(x)));
    zl_release(held);
    zl_release(y);
}

TEST(narrow_slices_that_are_viewed_or_held_twice) {
    zl_array x = leaf(ROWS, WIDTH), w = leaf(WIDTH, HIDDEN), want = op_test_ready(zl_matmul(x, w));
    zl_array last = zl_retain(take(zl_matmul(x, w), 0, ROWS - 1, ROWS));
    zl_array row = zl_retain(zl_reshape(last, ZL_SHAPE(2, HIDDEN / 2))), sum = zl_sum(last);
    CHECK(zl_eval(last)); // row uses its offset
    CHECK(zl_eval(row));
    CHECK(zl_eval(sum));
    want = take(want, 0, ROWS - 1, ROWS);
    CHECK(near(last, want));
    CHECK(near(row, zl_reshape(want, ZL_SHAPE(2, HIDDEN / 2))));
    CHECK(near(sum, zl_sum(want)));
    // Calls recorded before it is evaluated, except views, read it in its new place.
    zl_array again = zl_retain(take(zl_matmul(x, w), 0, ROWS - 1, ROWS)), doubled = zl_add(again, again);
    int64_t before = zl_counter("narrowed");
    CHECK(zl_eval(again));
    CHECK_EQ_INT(zl_counter("narrowed"), before + 1);
    CHECK(near(zl_flatten(again, 0, -1), zl_flatten(want, 0, -1)));
    CHECK(near(doubled, zl_add(want, want)));
    zl_release(again);
    zl_release(row);
    zl_release(last);
}

TEST(narrow_leaves_lent_arrays_as_they_are) {
    zl_array x = leaf(ROWS, WIDTH), w = leaf(WIDTH, HIDDEN), y = zl_matmul(x, w), last = take(y, 0, 1, 2);
    zl_array end = zl_negative(last);
    CHECK(zl_eval(end));
    CHECK_EQ_INT(y->dim[0], ROWS);
    CHECK_EQ_INT(last->dim[0], 1);
    CHECK(near(last, zl_negative(end))); // computed now, since it was not before
}

TEST(narrow_several_results) {
    struct graph g = graph_of_layers(1, ROWS);
    zl_array a = take(layers(g.leaf), 1, 0, 1), b = zl_squeeze(take(layers(g.leaf), 1, 7, 8), ZL_AXES(1)),
             h = zl_exp(g.leaf[0]);
    zl_array c = take(h, 1, 3, 9);
    int64_t before = zl_counter("narrowed");
    CHECK(zl_eval_all(4, (zl_array[]){a, b, h, c}));
    CHECK(zl_counter("narrowed") - before > 40);
    zl_array want = zl_retain(layers(g.leaf));
    REQUIRE(zl_eval(want));
    CHECK(near(a, take(want, 1, 0, 1)));
    CHECK(near(b, zl_squeeze(take(want, 1, 7, 8), ZL_AXES(1))));
    CHECK_IS_VIEW(c, h);
    zl_release(want);
}

// Transforms ------------------------------------------------------------------------------------------------

static bool loss(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array y = take(zl_exp(zl_matmul(in[0], in[1])), 0, ROWS - 2, ROWS);
    return zl_eval(y) && zl_give(out, zl_sum(zl_square(y)));
}

TEST(narrow_gradients_are_the_same) {
    zl_array in[] = {leaf(ROWS, WIDTH), leaf(WIDTH, HIDDEN)}, out[3];
    REQUIRE(zl_value_and_grad((zl_fn){.call = loss}, 2, in, 2, (int[]){0, 1}, NULL, out));
    zl_array y = take(zl_exp(zl_matmul(in[0], in[1])), 0, ROWS - 2, ROWS);
    zl_array part = take(in[0], 0, ROWS - 2, ROWS),
             g = op_test_ready(zl_multiply(zl_square(y), zl_scalar(2)));
    CHECK(near(out[1], zl_matmul(zl_matrix_transpose(part), g)));
    zl_array dx = take(out[0], 0, ROWS - 2, ROWS);
    CHECK(near(dx, zl_matmul(g, zl_matrix_transpose(in[1]))));
    CHECK_EQ_F64(zl_item(zl_sum(zl_abs(take(out[0], 0, 0, ROWS - 2)))), 0);
}

static bool last_row(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, take(zl_exp(zl_matmul(in[0], in[1])), 0, ROWS - 1, ROWS));
}

TEST(narrow_compiled_functions) {
    zl_array in[] = {leaf(ROWS, WIDTH), leaf(WIDTH, HIDDEN)};
    zl_array want = take(op_test_ready(zl_exp(zl_matmul(in[0], in[1]))), 0, ROWS - 1, ROWS);
    zl_compiled f = zl_compile((zl_fn){.call = last_row}, false);
    for (int i = 0; i < 3; i++) {
        zl_outputs *out = zl_outputs_new();
        REQUIRE(zl_compiled_call(f, NULL, 0, 2, in, out));
        int64_t before = zl_counter("narrowed");
        zl_array y = zl_outputs_get(out, 0);
        CHECK(zl_eval(y));
        CHECK_EQ_INT(zl_counter("narrowed") - before, 2);
        CHECK(near(y, want));
        zl_outputs_free(out);
    }
    zl_compiled_release(f);
}

TEST(narrow_keeps_the_history_of_what_is_only_explained) {
    zl_array x = leaf(ROWS, WIDTH), w = leaf(WIDTH, HIDDEN), h = zl_matmul(x, w), dh;
    zl_array y = zl_sum(zl_square(take(h, 0, 0, 1)));
    char *text = zl_explain(y);
    CHECK(text);
    zl_free(text);
    REQUIRE(zl_grad(y, 1, &h, &dh));
    zl_array want = zl_multiply(take(op_test_ready(zl_matmul(x, w)), 0, 0, 1), zl_scalar(2));
    CHECK(near(take(dh, 0, 0, 1), want));
}

// Threads ---------------------------------------------------------------------------------------------------

static void *record_views(void *data) {
    zl_array last = data;
    bool right = true;
    ZL_SCOPE {
        for (int i = 0; i < 50; i++) {
            zl_array view = zl_transpose(last, ZL_AXES(1, 0));
            right = right && view->offset % HIDDEN == 0;
        }
        zl_array view = zl_flatten(last, 0, -1);
        right = zl_eval(view) && right;
        data = right ? zl_retain(view) : NULL;
    }
    return data;
}

TEST(narrow_while_another_thread_records_views) {
    zl_array x = leaf(ROWS, WIDTH), w = leaf(WIDTH, HIDDEN);
    zl_array want = zl_flatten(take(op_test_ready(zl_matmul(x, w)), 0, ROWS - 1, ROWS), 0, -1);
    for (int i = 0; i < (test_quick() ? 50 : 1000); i++) {
        pthread_t thread;
        void *view = NULL;
        zl_array last = zl_retain(take(zl_matmul(x, w), 0, ROWS - 1, ROWS));
        REQUIRE(!pthread_create(&thread, NULL, record_views, last));
        bool ok = zl_eval(last);
        REQUIRE(!pthread_join(thread, &view));
        if (!CHECK(ok && view) || !CHECK(near(view, want)) || !CHECK(near(zl_flatten(last, 0, -1), want)))
            i = 1000;
        zl_release(view);
        zl_release(last);
    }
}
