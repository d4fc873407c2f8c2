// test_transform_table.c - the rules of every op in the table: tangents compared with differences, cotangents
// with tangents, batches with a loop. An op without a rule must be listed here, with the reason. Ops that
// need other kinds of calls than those in this file are tested in files of their own.

#include <math.h>
#include <string.h>

#include "fuzz/call_op.h"
#include "op/op_test.h"

enum { ARRAYS = 3, OUTPUTS = 8, BATCH = 3, RANK = 5 };

// How to call an op if the defaults do not fit: arrays of shape (2, 3), axis 1, numbers 1, lists as below.
static const struct special {
    const char *name;
    int64_t shape[ARRAYS][RANK + 1]; // sizes, ended by 0
    double lo, hi;
    int64_t number[3];
    int64_t list[4][RANK];
    int length[4];
    bool is_integer;
    const char *text;
} specials[] = {
    {"zl_arccosh", .lo = 1.2, .hi = 3},
    {"zl_bitwise_and", .is_integer = true},
    {"zl_bitwise_invert", .is_integer = true},
    {"zl_bitwise_or", .is_integer = true},
    {"zl_bitwise_xor", .is_integer = true},
    {"zl_left_shift", .is_integer = true},
    {"zl_right_shift", .is_integer = true},
    {"zl_matmul", .shape = {{2, 3}, {3, 2}}},
    {"zl_addmm", .shape = {{2, 2}, {2, 3}, {3, 2}}},
    {"zl_pad", .shape = {{2, 3}, {1}}, .list = {{1, 0}, {0, 2}}, .length = {2, 2}},
    {"zl_full", .list = {{2, 3}}, .length = {2}},
    {"zl_reshape", .list = {{3, 2}}, .length = {2}},
    {"zl_broadcast_to", .shape = {{2, 1}}, .list = {{3, 2, 4}}, .length = {3}},
    {"zl_slice", .list = {{1, -1}, {INT64_MAX, INT64_MIN}, {1, -2}}, .length = {2, 2, 2}},
    {"zl_roll", .list = {{1}}, .length = {1}},
    {"zl_tile", .list = {{2, 2}}, .length = {2}},
    {"zl_unflatten", .number = {1}, .list = {{1, 3}}, .length = {2}},
    {"zl_as_strided", .number = {1}, .list = {{2, 2}, {3, 1}}, .length = {2, 2}},
    {"zl_split_at", .number = {1}, .list = {{1}}, .length = {1}},
    {"zl_split", .number = {3, 1}},
    {"zl_flatten", .shape = {{2, 3, 2}}, .number = {1, 2}},
    {"zl_moveaxis", .shape = {{2, 3, 2}}, .number = {0, 2}},
    {"zl_swapaxes", .number = {0, 1}},
    {"zl_repeat", .number = {2, 1}},
    {"zl_squeeze", .shape = {{2, 1, 3}}},
    {"zl_transpose", .shape = {{2}}},
    {"zl_conv1d", .shape = {{1, 5, 2}, {3, 2, 2}}},
    {"zl_conv2d", .shape = {{1, 4, 3, 1}, {2, 2, 2, 1}}, .list = {{1, 2}, {1, 0}, {2, 1}},
     .length = {2, 2, 2}},
    {"zl_conv3d", .shape = {{1, 3, 2, 2, 1}, {2, 2, 2, 1, 1}}, .list = {{1}, {1}, {1}}, .length = {1, 1, 1}},
    {"zl_conv_general", .shape = {{1, 5, 2}, {3, 2, 2}}, .list = {{2}, {1, 2}, {2}, {3}},
     .length = {1, 2, 1, 1}},
    {"zl_conv_transpose1d", .shape = {{1, 4, 2}, {3, 3, 2}}},
    {"zl_conv_transpose2d", .shape = {{1, 3, 2, 1}, {2, 2, 2, 1}}, .list = {{1, 2}, {1, 0}, {2, 1}, {1, 0}},
     .length = {2, 2, 2, 2}},
    {"zl_conv_transpose3d", .shape = {{1, 2, 2, 2, 1}, {1, 2, 2, 1, 1}}, .list = {{2}, {0}, {1}, {1}},
     .length = {1, 1, 1, 1}},
    {"zl_convolve", .shape = {{5}, {3}}, .text = "same"},
    {"zl_fft_fft", .number = {4, 1}, .text = "ortho"},
    {"zl_fft_ifft", .number = {3, 0}, .text = "ortho"},
    {"zl_fft_rfft", .number = {4, 1}, .text = "ortho"},
    {"zl_fft_irfft", .number = {4, 1}, .text = "ortho"},
    {"zl_fft_fft2", .list = {{4}}, .length = {1}, .text = "forward"},
    {"zl_fft_ifft2", .list = {{4}}, .length = {1}, .text = "forward"},
    {"zl_fft_rfft2", .list = {{4}}, .length = {1}, .text = "forward"},
    {"zl_fft_irfft2", .list = {{4}}, .length = {1}, .text = "forward"},
    {"zl_fft_fftn", .list = {{2}}, .length = {1}, .text = "backward"},
    {"zl_fft_ifftn", .list = {{2}}, .length = {1}, .text = "backward"},
    {"zl_fft_rfftn", .list = {{2}}, .length = {1}, .text = "backward"},
    {"zl_fft_irfftn", .list = {{2}}, .length = {1}, .text = "backward"},
};

// Ops that lack a derivative, and why.
static const struct {
    const char *name, *why;
} underived[] = {
    {"zl_view", "the bytes of a number as another dtype are no function that has a slope"},
};

// A call of one op, which can be repeated with other arrays.
struct sample {
    const zl_op_info *op;
    op_function *function;
    struct special how;
    union op_argument argument[12];
    int at[ARRAYS]; // indices of the parameters that are arrays
    int count;      // arrays that the function takes
    int results;
    bool is_list; // the last arrays are one list
    zl_array list[ARRAYS], out[OUTPUTS];
    int axis[1];
};

static void read_special(struct sample *s) {
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        if (!strcmp(specials[i].name, s->op->name))
            s->how = specials[i];
    if (s->how.lo == 0)
        s->how.lo = 0.55, s->how.hi = 0.9;
    for (int i = 0; i < ARRAYS; i++)
        if (!s->how.shape[i][0])
            memcpy(s->how.shape[i], (int64_t[RANK + 1]){2, 3}, sizeof s->how.shape[i]);
}

static int64_t next_number(const struct sample *s, int *used) {
    int64_t number = *used < 3 && (s->how.number[0] | s->how.number[1]) ? s->how.number[*used] : 1;
    (*used)++;
    return number;
}

extern const char *const __start_op_tested[],
    *const __stop_op_tested[]; // made by the linker from OP_RULES_HERE

static bool is_elsewhere(const zl_op_info *op) {
    for (const char *const *name = __start_op_tested; name < __stop_op_tested; name++)
        if (!strcmp(*name, op->name) || !strcmp(*name, op->family))
            return true;
    return false;
}

static bool prepare(struct sample *s, const zl_op_info *op) {
    *s = (struct sample){.op = op, .function = op_address(op->name), .axis = {1}};
    int numbers = 0, lists = 0;
    if (!strcmp(op->family, "quantized"))
        return false; // their arrays must fit each other: test_quantized.c tests their rules
    read_special(s);
    for (int i = 0; i < op->params; i++) {
        union op_argument *a = &s->argument[i];
        switch (op->param[i].type) {
        case ZL_PARAM_OPTIONAL:
        case ZL_PARAM_ARRAY:
            if (s->is_list || s->count == ARRAYS)
                return false;
            s->at[s->count++] = i;
            break;
        case ZL_PARAM_ARRAYS:
            if (s->is_list || s->count + 2 > ARRAYS)
                return false;
            s->at[s->count] = i, s->count += 2, s->is_list = true;
            break;
        case ZL_PARAM_INT: a->number = (int)next_number(s, &numbers); break;
        case ZL_PARAM_INT64: a->wide = next_number(s, &numbers); break;
        case ZL_PARAM_DOUBLE: a->real = 0.5; break;
        case ZL_PARAM_BOOL: a->number = !strcmp(op->param[i].name, "inclusive"); break;
        case ZL_PARAM_DTYPE: a->number = strcmp(op->name, "zl_view") ? ZL_FLOAT64 : ZL_INT64; break;
        case ZL_PARAM_SHAPE: a->shape = (zl_shape){s->how.list[lists], s->how.length[lists]}, lists++; break;
        case ZL_PARAM_AXES:
            a->axes = strcmp(op->name, "zl_transpose") ? (zl_axes){s->axis, 1} : ZL_ALL;
            break;
        case ZL_PARAM_OUTPUT: a->output = s->out; break;
        case ZL_PARAM_STRING: a->string = s->how.text ? s->how.text : ""; break;
        }
    }
    return s->function && s->count && !is_elsewhere(op);
}

static bool is_index(const struct sample *s, int i) {
    return !s->is_list && !strcmp(s->op->param[s->at[i]].name, "indices");
}

static void put_arrays(struct sample *s, const zl_array *in) {
    int single = s->is_list ? s->count - 2 : s->count;
    for (int i = 0; i < single; i++)
        s->argument[s->at[i]].array = is_index(s, i) ? zl_stop_gradient(in[i]) : in[i];
    if (s->is_list) {
        s->list[0] = in[single];
        s->list[1] = in[single + 1];
        s->argument[s->at[single]].arrays.list = s->list;
        s->argument[s->at[single]].arrays.count = 2;
    }
}

static bool call(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct sample *s = data;
    zl_array y;
    (void)count;
    memset(s->out, 0, sizeof s->out);
    put_arrays(s, in);
    if (!call_op(s->op, s->function, s->argument, &y))
        return false;
    if (y)
        return zl_give(out, y);
    for (int i = 0; i < OUTPUTS && s->out[i]; i++)
        if (!zl_give(out, s->out[i]))
            return false;
    return true;
}

static zl_fn function_of(struct sample *s) {
    return (zl_fn){.call = call, .data = s};
}

// Arrays ----------------------------------------------------------------------------------------------------

// Returns different positions along axis 1, the same for the whole batch.
static zl_array make_indices(zl_shape shape, int extra) {
    int64_t n = shape.dim[extra == 2 ? shape.ndim - 2 : shape.ndim - 1];
    zl_array column =
        zl_reshape(zl_arange_int(n - 1, -1, -1, ZL_INT32), extra == 2 ? ZL_SHAPE(n, 1) : ZL_SHAPE(n));
    zl_array x = zl_contiguous(zl_broadcast_to(column, shape), false);
    return zl_eval(x) ? x : NULL;
}

// Makes the i-th array that the function takes, with an additional axis at `extra`, unless that is negative.
static zl_array make_array(const struct sample *s, int i, int extra) {
    int64_t dim[RANK + 1];
    int rank = 0, given = 0;
    while (s->how.shape[i][given])
        given++;
    for (int k = 0; k < given + (extra >= 0); k++)
        dim[rank++] = k == extra ? BATCH : s->how.shape[i][k - (extra >= 0 && k > extra)];
    zl_shape shape = {dim, rank};
    if (is_index(s, i))
        return make_indices(shape, extra);
    if (s->how.is_integer)
        return op_test_random(shape, ZL_INT32, 0, 2);
    return op_test_random(shape, ZL_FLOAT64, s->how.lo, s->how.hi);
}

static int rank_of(const struct sample *s, int i) {
    int rank = 0;
    while (s->how.shape[i][rank])
        rank++;
    return rank;
}

// Returns the sum of all products, in float64.
static zl_array dot(int count, const zl_array *a, const zl_array *b) {
    zl_array sum = zl_scalar(0);
    for (int i = 0; i < count; i++)
        sum = zl_add(sum, zl_sum(zl_multiply(zl_astype(a[i], ZL_FLOAT64), zl_astype(b[i], ZL_FLOAT64))));
    return sum;
}

static int all_of(const zl_outputs *o, zl_array *out) {
    int count = zl_outputs_count(o);
    for (int i = 0; i < count && i < OUTPUTS; i++)
        out[i] = zl_outputs_get(o, i);
    return count;
}

// Derivatives -----------------------------------------------------------------------------------------------

// Returns sum(w * f(x + step * t)).
static double moved(struct sample *s, const zl_array *x, const zl_array *t, double step, const zl_array *w) {
    zl_array in[ARRAYS], y[OUTPUTS];
    zl_outputs *out = zl_outputs_new();
    for (int i = 0; i < s->count; i++)
        in[i] = t[i] ? zl_add(x[i], zl_multiply(zl_scalar(step), t[i])) : x[i];
    double value = NAN;
    if (CHECK(call(s, s->count, in, out)))
        value = zl_item(dot(all_of(out, y), y, w));
    zl_outputs_free(out);
    return value;
}

struct point {
    zl_array x[ARRAYS], t[ARRAYS], w[OUTPUTS];
};

static double tangent_of(struct sample *s, struct point *p) {
    zl_outputs *values = zl_outputs_new(), *tangents = zl_outputs_new();
    zl_array y[OUTPUTS], dy[OUTPUTS];
    double sum = NAN;
    if (CHECK(zl_jvp(function_of(s), s->count, p->x, p->t, values, tangents))) {
        int count = all_of(values, y);
        CHECK_EQ_INT(all_of(tangents, dy), count);
        for (int i = 0; i < count; i++) {
            CHECK(shape_equal(y[i]->ndim, y[i]->dim, dy[i]->ndim, dy[i]->dim));
            CHECK_EQ_INT(y[i]->dtype == ZL_BOOL ? ZL_FLOAT32 : y[i]->dtype, dy[i]->dtype);
            p->w[i] = op_test_random(zl_shape_of(y[i]), ZL_FLOAT64, -1, 1);
        }
        sum = zl_item(dot(count, dy, p->w));
    }
    zl_outputs_free(values);
    zl_outputs_free(tangents);
    return sum;
}

static double cotangent_of(struct sample *s, struct point *p, int results) {
    zl_array grads[ARRAYS] = {0}, t[ARRAYS];
    int wanted = 0;
    if (!CHECK(zl_vjp(function_of(s), s->count, p->x, results, p->w, NULL, grads)))
        return NAN;
    for (int i = 0; i < s->count; i++) {
        CHECK(shape_equal(p->x[i]->ndim, p->x[i]->dim, grads[i]->ndim, grads[i]->dim));
        CHECK_EQ_INT(p->x[i]->dtype, grads[i]->dtype);
        if (p->t[i])
            t[wanted] = p->t[i], grads[wanted++] = grads[i];
    }
    return zl_item(dot(wanted, grads, t));
}

static int count_results(const struct point *p) {
    int count = 0;
    while (count < OUTPUTS && p->w[count])
        count++;
    return count;
}

static void check_derivative(struct sample *s, int only) {
    struct point p = {0};
    for (int i = 0; i < s->count; i++) {
        p.x[i] = make_array(s, i, -1);
        if (!is_index(s, i) && (only < 0 || only == i))
            p.t[i] = op_test_random(zl_shape_of(p.x[i]), ZL_FLOAT64, -1, 1);
    }
    double forward = tangent_of(s, &p), step = 1e-5;
    bool stopped = !strcmp(s->op->name, "zl_stop_gradient"),
         constant = stopped || !strcmp(s->op->name, "zl_divmod");
    double back = cotangent_of(s, &p, stopped ? 0 : count_results(&p)); // in MLX it takes no cotangent
    double slope = (moved(s, p.x, p.t, step, p.w) - moved(s, p.x, p.t, -step, p.w)) / (2 * step);
    bool near = CHECK_NEAR(forward, back, 1e-9 * (1 + fabs(forward)));
    near &= CHECK_NEAR(forward, constant ? 0 : slope, 1e-6 * (1 + fabs(slope)));
    if (!near)
        test_note("%s by argument %d", s->op->name, only);
}

// Returns whether the op is a Fourier transform: these compute in complex64 or float32 for any input, so
// test_fft.c compares them with their adjoints instead.
static bool is_fourier(const struct sample *s) {
    return !strcmp(s->op->family, "fft") && !strstr(s->op->name, "shift");
}

static bool is_underived(struct sample *s) {
    for (size_t i = 0; i < sizeof underived / sizeof underived[0]; i++) {
        if (strcmp(underived[i].name, s->op->name))
            continue;
        zl_array x[ARRAYS], grads[ARRAYS], w;
        for (int k = 0; k < s->count; k++)
            x[k] = make_array(s, k, -1);
        zl_outputs *y = zl_outputs_new();
        w = call(s, s->count, x, y) ? zl_ones_like(zl_outputs_get(y, 0), ZL_DTYPE_COUNT) : NULL;
        zl_outputs_free(y);
        CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp(function_of(s), s->count, x, 1, &w, NULL, grads));
        CHECK_HAS(test_last_error(), "has no derivative");
        return true;
    }
    return false;
}

// Returns whether the op accepts arguments of this kind.
static bool can_call(struct sample *s) {
    zl_array x[ARRAYS];
    zl_outputs *y = zl_outputs_new();
    for (int i = 0; i < s->count; i++)
        x[i] = make_array(s, i, -1);
    bool ok = call(s, s->count, x, y);
    s->results = zl_outputs_count(y);
    zl_clear_error();
    zl_outputs_free(y);
    return ok;
}

TEST(every_op_has_derivatives) {
    for (int i = 0; zl_op(i); i++)
        if (test_samples(12))
            ZL_SCOPE {
                struct sample s;
                if (!prepare(&s, zl_op(i)) || s.how.is_integer || is_fourier(&s) || !can_call(&s) ||
                    is_underived(&s))
                    continue;
                for (int only = -1; only < s.count; only++)
                    if (only < 0 || !is_index(&s, only))
                        check_derivative(&s, only);
            }
}

// Batches ---------------------------------------------------------------------------------------------------

static void check_element(struct sample *s, int at, const zl_array *x, const int *axis, int count,
                          const zl_array *many) {
    zl_array in[ARRAYS], one[OUTPUTS];
    zl_outputs *y = zl_outputs_new();
    for (int i = 0; i < s->count; i++)
        in[i] = axis[i] < 0 ? x[i] : zl_take(x[i], zl_scalar_int(at), axis[i]);
    if (CHECK(call(s, s->count, in, y)) && CHECK_EQ_INT(all_of(y, one), count))
        for (int i = 0; i < count; i++) {
            zl_array part = zl_take(many[i], zl_scalar_int(at), -1);
            if (!CHECK(shape_equal(one[i]->ndim, one[i]->dim, part->ndim, part->dim)) ||
                !CHECK_EQ_INT(zl_item_int(zl_allclose(part, one[i], 1e-12, 1e-12, true)), 1))
                test_note("%s, element %d of result %d: shape %s, not %s", s->op->name, at, i,
                          array_text(part), array_text(one[i]));
        }
    zl_outputs_free(y);
}

static void check_batch(struct sample *s, const int *axis) {
    zl_array x[ARRAYS], many[OUTPUTS];
    zl_outputs *out = zl_outputs_new();
    const int last[OUTPUTS] = {-1, -1, -1, -1, -1, -1, -1, -1};
    for (int i = 0; i < s->count; i++)
        x[i] = make_array(s, i, axis[i]);
    if (CHECK(zl_vmap(function_of(s), s->count, x, axis, s->results, last, out))) {
        int count = all_of(out, many);
        for (int i = 0; i < BATCH; i++)
            check_element(s, i, x, axis, count, many);
    } else {
        test_note("%s: %s", s->op->name, zl_error());
        zl_clear_error();
    }
    zl_outputs_free(out);
}

// Returns whether an array may have a batch axis: as in MLX, pad takes one value for the whole batch.
static bool is_mapped(const struct sample *s, int i) {
    return s->is_list || strcmp(s->op->param[s->at[i]].name, "constant_values");
}

TEST(every_op_can_be_mapped) {
    for (int i = 0; zl_op(i); i++)
        if (test_samples(12))
            ZL_SCOPE {
                struct sample s;
                int axis[ARRAYS] = {0};
                if (!prepare(&s, zl_op(i)) || !can_call(&s))
                    continue;
                for (int k = 0; k < s.count; k++)
                    axis[k] = is_mapped(&s, k) ? 0 : -1;
                check_batch(&s, axis);
                for (int mapped = 0; mapped < s.count; mapped++) {
                    for (int k = 0; k < ARRAYS; k++)
                        axis[k] = k == mapped ? rank_of(&s, k) : -1;
                    if (is_mapped(&s, mapped))
                        check_batch(&s, axis);
                }
            }
}

// Compiled --------------------------------------------------------------------------------------------------

// Returns whether two arrays have the same bytes, NaN and signs of zeros included.
static bool is_same(zl_array a, zl_array b) {
    if (a->dtype != b->dtype || !shape_equal(a->ndim, a->dim, b->ndim, b->dim))
        return false;
    a = zl_contiguous(a, false), b = zl_contiguous(b, false);
    return zl_eval_all(2, (zl_array[]){a, b}) && (!a->size || !memcmp(zl_data(a), zl_data(b), zl_nbytes(a)));
}

// Computes the gradient of the sum of all results with respect to all inputs.
static bool call_gradient(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct sample *s = data;
    zl_outputs *y = zl_outputs_new();
    zl_array grads[ARRAYS], w[OUTPUTS];
    bool ok = y && call(s, count, in, y);
    for (int i = 0; ok && i < s->results; i++)
        ok = (w[i] = zl_ones_like(zl_outputs_get(y, i), ZL_DTYPE_COUNT));
    ok = ok && zl_vjp(function_of(s), count, in, s->results, w, NULL, grads);
    for (int i = 0; ok && i < count; i++)
        ok = zl_give(out, grads[i]);
    zl_outputs_free(y);
    return ok;
}

static void check_compiled(struct sample *s, zl_fn f, bool shapeless) {
    zl_compiled c = zl_compile(f, shapeless);
    for (int round = 0; round < 2; round++) {
        zl_array x[ARRAYS];
        zl_outputs *plain = zl_outputs_new(), *again = zl_outputs_new();
        for (int i = 0; i < s->count; i++)
            x[i] = make_array(s, i, -1);
        if (CHECK(f.call(f.data, s->count, x, plain)) &&
            CHECK(zl_compiled_call(c, NULL, 0, s->count, x, again)) &&
            CHECK_EQ_INT(zl_outputs_count(again), zl_outputs_count(plain)))
            for (int i = 0; i < zl_outputs_count(plain); i++)
                if (!CHECK(is_same(zl_outputs_get(again, i), zl_outputs_get(plain, i))))
                    test_note("%s, result %d", s->op->name, i);
        if (zl_error())
            test_note("%s: %s", s->op->name, zl_error());
        zl_clear_error();
        zl_outputs_free(plain);
        zl_outputs_free(again);
    }
    zl_compiled_release(c);
}

static bool hear_arrays(void *data, int inputs, const zl_array *input, int outputs, const zl_array *output,
                        int constants, const zl_array *constant) {
    (void)data, (void)inputs, (void)input, (void)output, (void)constants, (void)constant;
    return CHECK(outputs > 0);
}

// Reads everything in the lists of a step, so that sanitizers see invalid memory.
static bool hear_step(void *data, const zl_step *step) {
    int64_t *sum = data;
    for (int i = 0; i < step->arguments; i++)
        for (int k = 0; k < step->argument[i].list.ndim; k++)
            *sum += step->argument[i].list.dim[k];
    return CHECK(step->name && step->outputs > 0);
}

TEST(every_op_can_be_told) {
    int64_t sum = 0;
    zl_listener listener = {hear_arrays, hear_step, &sum};
    for (int i = 0; zl_op(i); i++)
        ZL_SCOPE {
            struct sample s;
            zl_array x[ARRAYS];
            if (!prepare(&s, zl_op(i)) || !can_call(&s))
                continue;
            for (int k = 0; k < s.count; k++)
                x[k] = make_array(&s, k, -1);
            if (!CHECK(zl_export_steps(function_of(&s), s.count, x, false, &listener)))
                test_note("%s: %s", s.op->name, zl_error());
        }
}

TEST(every_op_can_be_compiled) {
    for (int i = 0; zl_op(i); i++)
        if (test_samples(12))
            ZL_SCOPE {
                struct sample s;
                if (!prepare(&s, zl_op(i)) || !can_call(&s))
                    continue;
                check_compiled(&s, function_of(&s), false);
                check_compiled(&s, function_of(&s), true);
                if (!s.how.is_integer && strcmp(s.op->name, "zl_stop_gradient") && !is_underived(&s))
                    check_compiled(&s, (zl_fn){.call = call_gradient, .data = &s}, false);
            }
}

// Other sizes -----------------------------------------------------------------------------------------------

// Changes every size except 1; equal sizes stay equal.
static void grow(struct sample *s) {
    for (int i = 0; i < ARRAYS; i++)
        for (int k = 0; k < RANK && s->how.shape[i][k]; k++)
            s->how.shape[i][k] += s->how.shape[i][k] > 1 ? 2 : 0;
}

static bool is_like(const zl_outputs *a, const zl_outputs *b) {
    bool same = zl_outputs_count(a) == zl_outputs_count(b);
    for (int i = 0; same && i < zl_outputs_count(a); i++)
        same = is_same(zl_outputs_get(a, i), zl_outputs_get(b, i));
    return same;
}

// Ops whose results cannot follow other sizes, and that report this.
static const char *const fixed[] = {"zl_unstack"};

static bool is_fixed(const zl_op_info *op) {
    for (size_t i = 0; i < COUNT(fixed); i++)
        if (!strcmp(fixed[i], op->name))
            return true;
    return false;
}

// A function traced with some sizes and called with others gives what the function itself gives for these.
static void check_sizes(struct sample *s, zl_fn f, const char *what) {
    zl_compiled c = zl_compile(f, true);
    zl_outputs *first = zl_outputs_new(), *plain = zl_outputs_new(), *again = zl_outputs_new();
    zl_array x[ARRAYS];
    for (int i = 0; i < s->count; i++)
        x[i] = make_array(s, i, -1);
    bool ok = zl_compiled_call(c, NULL, 0, s->count, x, first);
    grow(s);
    for (int i = 0; ok && i < s->count; i++)
        x[i] = make_array(s, i, -1);
    if (ok && f.call(f.data, s->count, x, plain)) { // otherwise its numeric arguments do not fit these sizes
        ok = zl_compiled_call(c, NULL, 0, s->count, x, again);
        if (is_fixed(s->op) ? !CHECK(!ok) : !CHECK(ok && is_like(plain, again)))
            test_note("%s of %s: %s", what, s->op->name,
                      zl_error() ? zl_error() : "not what it gives as it is");
    }
    zl_clear_error();
    zl_outputs_free(first);
    zl_outputs_free(plain);
    zl_outputs_free(again);
    zl_compiled_release(c);
}

TEST(every_op_compiled_shapeless_follows_sizes) {
    for (int i = 0; zl_op(i); i++)
        if (test_samples(12))
            ZL_SCOPE {
                struct sample s, t;
                if (!prepare(&s, zl_op(i)) || !can_call(&s) || !prepare(&t, zl_op(i)) || !can_call(&t))
                    continue;
                check_sizes(&s, function_of(&s), "the result");
                if (!t.how.is_integer && strcmp(t.op->name, "zl_stop_gradient") && !is_underived(&t))
                    check_sizes(&t, (zl_fn){.call = call_gradient, .data = &t}, "the gradient");
            }
}
