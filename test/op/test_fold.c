// test_fold.c - gradients of views with windows: sums of the cotangents of each element, compared with a loop
// over the view; which views need no indices; and the rules of the op `fold`.

#include "op/op_test.h"
#include "op/ops.h"

struct view {
    const char *name;
    zl_shape x, shape, strides;
    int64_t offset;
    const struct op *by; // op that adds the cotangents: fold or scatter; NULL: elements are only moved
};

#define VIEW(name, x, shape, strides, offset, by) \
    { name, ZL_SHAPE x, ZL_SHAPE shape, ZL_SHAPE strides, offset, by }

static const struct view views[] = {
    VIEW("pool", (2, 7, 9, 4), (2, 3, 4, 3, 3, 4), (252, 72, 8, 36, 4, 1), 0, &op_fold),
    VIEW("pool of runs", (1, 7, 5, 16), (1, 3, 2, 3, 3, 16), (560, 160, 32, 80, 16, 1), 0, &op_fold),
    VIEW("pool of pixels", (1, 5, 5, 3), (1, 4, 4, 2, 2, 3), (75, 15, 3, 15, 3, 1), 0, &op_fold),
    VIEW("pool of planes", (2, 3, 6, 7), (2, 3, 2, 3, 3, 2), (126, 42, 14, 2, 7, 1), 0, &op_fold),
    VIEW("pool of volumes", (2, 4, 5, 6, 2), (2, 3, 2, 3, 2, 3, 2, 2), (240, 60, 24, 4, 60, 12, 2, 1), 0,
         &op_fold),
    VIEW("frames", (25), (5, 9), (4, 1), 0, &op_fold),
    VIEW("many frames", (700), (300, 5), (2, 1), 3, &op_fold),
    VIEW("frames of some", (3, 25, 1, 1), (5, 9), (3, 1), 27, &op_fold),
    VIEW("dilated", (1, 12, 2), (1, 6, 3, 2), (24, 2, 6, 1), 0, &op_fold),
    VIEW("dilated and apart", (2, 20, 8), (2, 4, 3, 8), (160, 24, 16, 1), 8, &op_fold),
    VIEW("apart alone", (3, 9, 9, 2), (2, 3, 3, 2), (162, 54, 6, 1), 200, &op_fold),
    VIEW("with a gap", (1, 7, 7, 2), (1, 3, 3, 2, 2, 2), (98, 28, 4, 14, 2, 1), 0, &op_fold),
    VIEW("channels first", (1, 5, 5, 4), (1, 3, 3, 4, 3, 3), (100, 20, 4, 1, 20, 4), 0, &op_fold),
    VIEW("taps first", (1, 5, 5, 4), (3, 3, 1, 3, 3, 4), (20, 4, 100, 20, 4, 1), 0, &op_fold),
    VIEW("many axes", (2, 3, 5, 2, 4), (2, 3, 3, 3, 2, 4), (120, 40, 8, 8, 4, 1), 0, &op_fold),
    VIEW("whole between", (5, 3, 6), (3, 3, 3, 2, 2), (18, 18, 6, 2, 3), 0, &op_fold),
    VIEW("seen again", (4, 6), (3, 4, 2, 5, 2), (0, 6, 0, 1, 1), 0, &op_fold),
    VIEW("patches", (2, 4, 6, 3), (2, 2, 3, 2, 2, 3), (72, 36, 6, 18, 3, 1), 0, NULL),
    VIEW("turned", (3, 4), (4, 1, 3), (1, 7, 4), 0, NULL),
    VIEW("stretched", (1), (4), (0), 0, NULL),
    VIEW("stretched rows", (2, 3), (3, 4, 2), (1, 0, 3), 0, NULL),
    VIEW("over the end of rows", (2, 4), (3, 2, 2), (1, 2, 1), 1, &op_scatter),
    VIEW("between rows", (4, 4), (3, 3), (5, 1), 0, &op_scatter),
    VIEW("backwards", (2, 3), (3, 2), (-1, -1), 4, &op_scatter),
    VIEW("three along one axis", (12), (2, 3, 2), (4, 2, 1), 0, &op_scatter),
    VIEW("four axes", (3, 3, 3, 3), (2, 2, 2, 2), (27, 9, 3, 1), 0, &op_scatter),
};

static zl_array view_of(const struct view *v, zl_array x) {
    return zl_as_strided(x, v->shape, v->strides, v->offset);
}

// Returns whether an op is among the calls that computed y, following first inputs.
static bool is_made_by(zl_array y, const struct op *op) {
    while (y && y->call && y->call->op != op)
        y = y->call->inputs ? y->call->in[0] : NULL;
    return y && y->call;
}

static bool sees_again(const struct view *v) {
    bool again = false;
    for (int i = 0; i < v->shape.ndim; i++)
        again |= v->shape.dim[i] > 1 && v->strides.dim[i] == 0;
    return again;
}

// Computes, for each element of the array, the sum of the weights of its places in the view.
static void add_up(const struct view *v, const double *weight, double *sum) {
    int64_t at[8] = {0};
    for (int64_t place = v->offset, i = 0;; i++) {
        sum[place] += weight[i];
        int axis = v->shape.ndim - 1;
        for (; axis >= 0 && ++at[axis] == v->shape.dim[axis]; axis--) {
            at[axis] = 0;
            place -= (v->shape.dim[axis] - 1) * v->strides.dim[axis];
        }
        if (axis < 0)
            return;
        place += v->strides.dim[axis];
    }
}

static zl_array gradient(zl_array x, zl_array loss) {
    zl_array grad;
    return zl_grad(loss, 1, &x, &grad) ? grad : NULL;
}

// Checks sums of small integers, which are exact in all dtypes.
static void check_view(const struct view *v, zl_dtype dtype) {
    double sum[1024] = {0};
    zl_array x = op_test_ready(zl_ones(v->x, dtype));
    zl_array weight = zl_astype(zl_round(op_test_random(v->shape, ZL_FLOAT32, -4, 4), 0), dtype);
    zl_array grad = gradient(x, zl_sum(zl_real(zl_multiply(view_of(v, x), op_test_ready(weight)))));
    REQUIRE(grad && x->size <= 1024);
    CHECK_EQ_INT(grad->dtype, dtype);
    CHECK_EQ_INT(is_made_by(grad, &op_fold), v->by == &op_fold);
    CHECK_EQ_INT(is_made_by(grad, &op_scatter), v->by == &op_scatter);
    CHECK_EQ_INT(is_made_by(grad, &op_reduce[REDUCE_SUM]), sees_again(v));
    add_up(v, op_test_values(zl_real(weight)), sum);
    const double *got = op_test_values(zl_real(grad));
    for (int64_t i = 0; i < x->size; i++)
        if (!CHECK_EQ_INT((int64_t)got[i], (int64_t)sum[i]))
            test_note("%s, %s, element %lld", v->name, zl_dtype_name(dtype), (long long)i);
}

TEST(fold_of_views) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT64, ZL_COMPLEX64};
    for (size_t i = 0; i < COUNT(views); i++)
        ZL_SCOPE {
            check_view(&views[i], ZL_FLOAT32);
            check_view(&views[i], dtypes[i % COUNT(dtypes)]);
        }
}

// One number is the cotangent of all elements, so nothing is read from memory.
TEST(fold_of_one_number) {
    for (size_t i = 0; i < COUNT(views); i++)
        ZL_SCOPE {
            double sum[1024] = {0};
            zl_array x = op_test_ready(zl_ones(views[i].x, ZL_FLOAT32)), y = view_of(&views[i], x);
            const double *got = op_test_values(gradient(x, zl_sum(y)));
            add_up(&views[i], op_test_values(zl_ones(views[i].shape, ZL_FLOAT32)), sum);
            for (int64_t k = 0; got && k < x->size; k++)
                CHECK_EQ_INT((int64_t)got[k], (int64_t)sum[k]);
        }
}

// Each term would be lost if sums were rounded to 16 bits in between.
TEST(fold_rounds_once) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16};
    for (int i = 0; i < 2; i++) {
        zl_array x = op_test_ready(zl_ones(ZL_SHAPE(17, 1), dtypes[i]));
        zl_array y = zl_as_strided(x, ZL_SHAPE(9, 9), ZL_SHAPE(1, 1), 0);
        zl_array weight = zl_where(zl_equal(zl_arange(0, 9, 1, ZL_INT32), zl_scalar_int(8)), zl_scalar(2048),
                                   zl_scalar(0.75));
        zl_array grad =
            gradient(x, zl_sum(zl_astype(zl_multiply(y, zl_astype(weight, dtypes[i])), ZL_FLOAT32)));
        CHECK_EQ_INT((int64_t)op_test_values(grad)[8], dtypes[i] == ZL_FLOAT16 ? 2054 : 2048);
    }
}

static bool frames(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_as_strided(in[0], ZL_SHAPE(4, 3), ZL_SHAPE(1, 1), 0));
}

TEST(fold_of_integers_is_a_scatter) {
    zl_array x = zl_arange(0, 6, 1, ZL_INT32), one = zl_ones(ZL_SHAPE(4, 3), ZL_INT32), grad;
    REQUIRE(zl_vjp((zl_fn){.call = frames}, 1, &x, 1, &one, NULL, &grad));
    CHECK(is_made_by(grad, &op_scatter));
    CHECK_ARRAY(grad, ZL_INT32, ZL_SHAPE(6), 1, 2, 3, 3, 2, 1);
}

TEST(fold_of_nothing) {
    zl_array x = op_test_ready(zl_zeros(ZL_SHAPE(0, 5, 5, 2), ZL_FLOAT32));
    zl_array y = zl_as_strided(x, ZL_SHAPE(0, 2, 2, 3, 3, 2), ZL_SHAPE(50, 20, 4, 10, 2, 1), 0);
    CHECK_EMPTY(gradient(x, zl_sum(y)), ZL_FLOAT32, ZL_SHAPE(0, 5, 5, 2));
}

// Adds the patches x to an image, as a function of the patches.
static zl_array folded(zl_array x, zl_shape image, zl_shape strides) {
    zl_array zeros = zl_zeros(image, (zl_dtype)x->dtype);
    return gradient(zeros, zl_sum(zl_multiply(zl_as_strided(zeros, zl_shape_of(x), strides, 0), x)));
}

static zl_array windows_of(zl_array x) {
    return zl_as_strided(x, ZL_SHAPE(2, 2, 2, 2, 1), ZL_SHAPE(4, 1, 4, 1, 1), 0);
}

RULES(fold, ZL_SHAPE(2, 2, 2, 2, 1), folded(zl_square(x), ZL_SHAPE(3, 4, 1), ZL_SHAPE(4, 2, 4, 1, 1)))
RULES(fold_of_patches, ZL_SHAPE(2, 3, 2), folded(zl_square(x), ZL_SHAPE(2, 6), ZL_SHAPE(6, 2, 1)))
RULES(fold_of_fold, ZL_SHAPE(3, 4, 1), gradient(x, zl_sum(zl_exp(windows_of(zl_square(x))))))
RULES(fold_of_largest, ZL_SHAPE(3, 4, 1),
      gradient(x, zl_sum(zl_square(zl_max_axes(windows_of(x), ZL_AXES(2, 3), false)))))

static bool pooled(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, rule_fold_of_largest(in[0]));
}

TEST(fold_when_compiled) {
    zl_array x = op_test_ready(op_test_random(ZL_SHAPE(3, 4, 1), ZL_FLOAT32, -2, 2));
    zl_compiled c = zl_compile((zl_fn){.call = pooled}, false);
    zl_outputs *out = zl_outputs_new();
    CHECK(zl_compiled_call(c, NULL, 0, 1, &x, out));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_outputs_get(out, 0), rule_fold_of_largest(x), false)), 1);
    zl_outputs_free(out);
    zl_compiled_release(c);
}
