// test_cotangents.c - gradients of arrays that are used by slices: concatenated if the slices are disjoint,
// with the same bits as sums of padded ones. The expected gradients come from taking the same elements by
// their positions, which scatters and adds cotangents.

#include <string.h>

#include "op/op_test.h"
#include "op/ops.h"

enum { ROWS = 6, COLUMNS = 24, USES_MOST = 10 };

// A use of an array: parts of it, or if count is 0 all of it, each multiplied by its own numbers.
struct use {
    int axis, start, count,
        cut; // cut: the part is used in two parts, before and after `cut`; 0: as it is
};

struct program {
    int uses;
    struct use use[USES_MOST];
    bool positions; // elements are taken by their positions
    zl_array numbers;
};

static zl_array part(const struct program *p, zl_array x, int axis, int start, int stop) {
    if (p->positions)
        return zl_take(x, zl_arange_int(start, stop, 1, ZL_INT32), axis);
    int64_t from[2] = {0, 0}, to[2] = {x->dim[0], x->dim[1]};
    from[axis] = start;
    to[axis] = stop;
    return zl_slice(x, (zl_shape){from, 2}, (zl_shape){to, 2}, ZL_SHAPE(1, 1));
}

// Returns the sum of squares, weighted by numbers that depend on the element's position and on the use.
static zl_array weighed(const struct program *p, zl_array x, int use) {
    zl_array w =
        zl_slice(p->numbers, ZL_SHAPE(use, 0, 0), ZL_SHAPE(use + 1, x->dim[0], x->dim[1]), ZL_SHAPE(1, 1, 1));
    return zl_sum(zl_multiply(zl_square(x), zl_squeeze(w, ZL_AXES(0))));
}

static bool run_uses(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct program *p = data;
    zl_array total = NULL;
    (void)count;
    for (int i = 0; i < p->uses; i++) {
        const struct use *u = &p->use[i];
        zl_array x = u->count ? part(p, in[0], u->axis, u->start, u->start + u->count) : in[0];
        zl_array y = u->cut ? zl_add(weighed(p, part(p, x, u->axis, 0, u->cut), i),
                                     weighed(p, part(p, x, u->axis, u->cut, u->count), i))
                            : weighed(p, x, i);
        total = total ? zl_add(total, y) : y;
    }
    return zl_give(out, total);
}

static zl_fn function_of(struct program *p) {
    return (zl_fn){.call = run_uses, .data = p};
}

static zl_array gradient(struct program *p, zl_array x) {
    zl_array g = NULL;
    zl_value_and_grad(function_of(p), 1, &x, 1, (int[]){0}, NULL, &g);
    return g;
}

static int count_calls(zl_array x, const struct op *op) {
    int found = 0;
    if (!x->call || x->call->detached)
        return 0;
    for (int i = 0; i < x->call->inputs; i++)
        found += count_calls(x->call->in[i], op);
    return found + (x->call->op == op);
}

static zl_array random_of(zl_shape shape) {
    return op_test_random(shape, ZL_FLOAT32, -2, 2);
}

static bool same_bits(zl_array a, zl_array b) {
    zl_array bits = zl_view(a, ZL_INT32), others = zl_view(b, ZL_INT32);
    return zl_item_int(zl_all(zl_equal(bits, others)));
}

static struct program program_of(int uses, const struct use *use) {
    struct program p = {.uses = uses, .numbers = random_of(ZL_SHAPE(USES_MOST, ROWS, COLUMNS))};
    memcpy(p.use, use, sizeof *use * (size_t)uses);
    return p;
}

// Checks that the gradient contains this number of calls of each op, and has the bits of the other gradient.
static void check_calls(int line, int uses, const struct use *use, int concatenated, int padded) {
    struct program p = program_of(uses, use);
    zl_array x = random_of(ZL_SHAPE(ROWS, COLUMNS)), g = gradient(&p, x);
    int concatenates = count_calls(g, &op_concatenate), pads = count_calls(g, &op_pad);
    p.positions = true;
    if (!CHECK(concatenates == concatenated && pads == padded && same_bits(g, gradient(&p, x))))
        test_note("line %d: %d concatenates, %d pads", line, concatenates, pads);
}
#define CHECK_CALLS(concatenated, padded, ...)                                             \
    check_calls(__LINE__, (int)(sizeof((struct use[]){__VA_ARGS__}) / sizeof(struct use)), \
                (struct use[]){__VA_ARGS__}, concatenated, padded)

TEST(disjoint_slices_are_concatenated) {
    CHECK_CALLS(1, 0, {1, 0, 8, 0}, {1, 8, 8, 0}, {1, 16, 8, 0});  // equal parts
    CHECK_CALLS(1, 0, {1, 16, 8, 0}, {1, 0, 5, 0}, {1, 5, 11, 0}); // unequal parts in any order
    CHECK_CALLS(1, 0, {0, 0, 3, 0}, {0, 3, 3, 0});
    CHECK_CALLS(1, 0, {1, 2, 4, 0}, {1, 10, 4, 0}); // with gaps
    CHECK_CALLS(0, 1, {1, 2, 4, 0});
}

TEST(slices_that_overlap_are_added) {
    CHECK_CALLS(0, 2, {1, 0, 23, 0}, {1, 1, 23, 0});
    CHECK_CALLS(0, 2, {1, 0, 12, 0}, {0, 3, 3, 0}); // along two axes
    CHECK_CALLS(2, 0, {1, 0, 12, 0}, {1, 12, 12, 0}, {1, 0, 6, 0}, {1, 6, 18, 0});
}

TEST(slices_of_slices_are_parts_of_the_whole) {
    CHECK_CALLS(1, 0, {1, 0, 12, 4}, {1, 12, 12, 7});
    CHECK_CALLS(1, 0, {1, 4, 12, 4});
    CHECK_CALLS(1, 1, {1, 4, 12, 4}, {0, 1, 2, 0});
}

TEST(whole_cotangents_are_added) {
    CHECK_CALLS(1, 0, {0, 0, 0, 0}, {1, 0, 12, 0}, {1, 12, 12, 0});
    CHECK_CALLS(1, 0, {1, 0, 12, 0}, {0, 0, 0, 0}, {1, 12, 12, 0}); // the order of two sums does not matter
    CHECK_CALLS(0, 2, {0, 0, 0, 0}, {1, 0, 12, 0}, {0, 0, 0, 0}, {0, 0, 0, 0},
                {1, 12, 12, 0}); // that of four does
}

static struct use random_use(void) {
    int axis = (int)(test_random() % 2), size = axis ? COLUMNS : ROWS,
        start = (int)(test_random() % (uint64_t)size);
    int count = (int)(test_random() % (uint64_t)(size - start + 1));
    int cut = count > 1 && test_random() % 3 == 0 ? 1 + (int)(test_random() % (uint64_t)(count - 1)) : 0;
    return (struct use){axis, start, count, cut};
}

TEST(gradients_of_slices_have_the_bits_of_sums) {
    for (int round = 0; round < (test_quick() ? 20 : 200); round++) {
        zl_scope scope = zl_scope_begin();
        struct use use[USES_MOST];
        for (int i = 0; i < USES_MOST; i++)
            use[i] = random_use();
        struct program p = program_of(1 + (int)(test_random() % USES_MOST), use);
        zl_array x = random_of(ZL_SHAPE(ROWS, COLUMNS)), g = gradient(&p, x);
        p.positions = true;
        if (!CHECK(same_bits(g, gradient(&p, x))))
            test_note("round %d", round);
        zl_scope_end(scope);
    }
}

// Other transforms ------------------------------------------------------------------------------------------

static const struct use thirds[] = {{1, 0, 8, 0}, {0, 0, 0, 0}, {1, 8, 8, 3}, {1, 18, 6, 0}};

// Returns the sum of the squares of a gradient, which is differentiated again.
static bool squares_of_gradient(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, zl_sum(zl_square(gradient(data, in[0]))));
}

static bool give_gradient(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, gradient(data, in[0]));
}

// Another transform of the gradient, compared between slices and positions.
typedef zl_array transform(struct program *p, zl_array x);

static void check_transform(transform *f, zl_array x) {
    struct program p = program_of((int)COUNT(thirds), thirds);
    zl_array y = f(&p, x);
    p.positions = true;
    zl_array expected = f(&p, x);
    CHECK(y && expected && same_bits(y, expected));
}

static zl_array second_derivative(struct program *p, zl_array x) {
    zl_array g = NULL;
    zl_value_and_grad((zl_fn){.call = squares_of_gradient, .data = p}, 1, &x, 1, (int[]){0}, NULL, &g);
    return g;
}

static zl_array only_of(bool ok, zl_outputs *out) {
    zl_array y = ok ? zl_positive(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return y;
}

static zl_array mapped(struct program *p, zl_array x) {
    zl_outputs *out = zl_outputs_new();
    return only_of(zl_vmap((zl_fn){.call = give_gradient, .data = p}, 1, &x, (int[]){1}, 0, NULL, out), out);
}

static zl_array compiled(struct program *p, zl_array x) {
    zl_compiled c = zl_compile((zl_fn){.call = give_gradient, .data = p}, false);
    zl_outputs *out = zl_outputs_new();
    zl_array y = only_of(zl_compiled_call(c, NULL, 0, 1, &x, out), out);
    zl_compiled_release(c);
    return y;
}

TEST(gradients_of_slices_in_other_transforms) {
    check_transform(second_derivative, random_of(ZL_SHAPE(ROWS, COLUMNS)));
    check_transform(mapped, random_of(ZL_SHAPE(ROWS, 3, COLUMNS)));
    check_transform(compiled, random_of(ZL_SHAPE(ROWS, COLUMNS)));
}

// Divides any number of rows in halves.
static bool halves(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array half[2];
    (void)data;
    (void)count;
    return zl_split(in[0], 2, 0, half) && zl_give(out, zl_sum(zl_multiply(half[0], zl_square(half[1]))));
}

static bool gradient_of_halves(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array g = NULL;
    return zl_value_and_grad((zl_fn){.call = halves, .data = data}, count, in, 1, (int[]){0}, NULL, &g) &&
           zl_give(out, g);
}

TEST(gradients_of_slices_follow_shapes) {
    zl_compiled c = zl_compile((zl_fn){.call = gradient_of_halves}, true);
    for (int64_t rows = 2; rows <= 6; rows += 2) {
        zl_array x = op_test_random(ZL_SHAPE(rows, 3), ZL_FLOAT32, -2, 2);
        zl_outputs *out = zl_outputs_new(), *plain = zl_outputs_new();
        zl_array y = only_of(zl_compiled_call(c, NULL, 0, 1, &x, out), out);
        zl_array expected = only_of(gradient_of_halves(NULL, 1, &x, plain), plain);
        CHECK(y && expected && same_bits(y, expected));
    }
    zl_compiled_release(c);
}

// Slices on one stream, among ops on another.
static bool halves_of_stream(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array half[2];
    zl_stream before = zl_default_stream();
    (void)count;
    bool ok = zl_set_default_stream(data) && zl_split(in[0], 2, 0, half) && zl_set_default_stream(before);
    return ok && zl_give(out, zl_sum(zl_multiply(half[0], zl_square(half[1]))));
}

TEST(slices_of_a_stream_are_concatenated_there) {
    zl_array x = random_of(ZL_SHAPE(4)), g = NULL;
    zl_stream stream = zl_new_stream(NULL);
    REQUIRE(stream);
    zl_value_and_grad((zl_fn){.call = halves_of_stream, .data = stream}, 1, &x, 1, (int[]){0}, NULL, &g);
    REQUIRE(g);
    CHECK(g->call->op == &op_concatenate && g->call->stream == stream);
    double a = op_test_values(x)[0], b = op_test_values(x)[2];
    CHECK_NEAR(op_test_values(g)[0], b * b, 1e-6);
    CHECK_NEAR(op_test_values(g)[2], 2 * a * b, 1e-6);
}

TEST(slices_keep_the_sign_of_zero) {
    zl_array x = zl_from_f32((float[]){1, 2, 3, 4}, ZL_SHAPE(1, 4)), g = NULL;
    struct program p = {.uses = 2, .use = {{1, 0, 2, 0}, {1, 2, 2, 0}}};
    p.numbers = zl_full(ZL_SHAPE(2, 1, 4), zl_scalar(-0.0F), ZL_FLOAT32);
    g = gradient(&p, x);
    for (int i = 0; g && i < 4; i++)
        CHECK_SAME_F64(op_test_values(g)[i], -0.0);
}
