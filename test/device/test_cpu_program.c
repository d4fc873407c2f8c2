// test_cpu_program.c - calls that run together have the same bits as each alone; nothing is compiled for
// them.

#include "random_view.h"

#include "device/cpu/cpu.h"
#include "op/ops.h"

#include <stdlib.h>
#include <string.h>

static int rounds(int quick, int usual) {
    return test_quick() ? quick : test_long() ? 10 * usual : usual;
}

enum { STEPS = 12 };

static zl_array next_value(int pick, zl_array a, zl_array b) {
    switch (pick) {
    case 0: return zl_exp(a);
    case 1: return zl_where(zl_less(a, b), a, zl_scalar(0.5));
    case 2: return zl_multiply(a, zl_scalar(0.75));
    case 3: return zl_subtract(zl_scalar(1), a);
    case 4: return zl_astype(zl_astype(a, ZL_FLOAT16), ZL_FLOAT32);
    case 5: return zl_maximum(a, b);
    case 6: return zl_add(a, zl_sqrt(zl_abs(b)));
    case 7: return zl_astype(zl_astype(a, ZL_FLOAT64), ZL_FLOAT32);
    // these keep the layout of their input
    case 8: return zl_dim(a, 0) == zl_dim(a, 1) ? zl_transpose(a, ZL_ALL) : zl_negative(a);
    default: return zl_multiply(a, b);
    }
}

// Computes the values of a random expression of x and y, retained; each is evaluated separately if `alone`.
static bool compute(zl_array x, zl_array y, uint64_t choices, bool alone, zl_array *value) {
    value[0] = zl_retain(x);
    value[1] = zl_retain(y);
    for (int i = 0; i < STEPS; i++) {
        int pick = (int)(choices >> (5 * i) & 31);
        value[i + 2] = zl_retain(next_value(pick % 10, value[i + 1], value[pick * 7 % (i + 2)]));
        if (!value[i + 2] || (alone && !zl_eval(value[i + 2])))
            return false;
    }
    return true;
}

static void release_all(zl_array *value) {
    for (int i = 0; i < STEPS + 2; i++)
        zl_release(value[i]);
}

static bool same_bits(zl_array a, zl_array b) {
    const void *x = zl_data(zl_contiguous(a, false)), *y = zl_data(zl_contiguous(b, false));
    return x && y && zl_nbytes(a) == zl_nbytes(b) && !memcmp(x, y, zl_nbytes(a));
}

// Keeps only the last value, or some; the others never get memory of their own.
static void compare_once(void) {
    int64_t rows = test_between(1, 300), cols = 9000 / rows + test_between(1, 100);
    if (test_between(0, 1))
        rows = cols = test_between(91, 130);
    uint64_t choices = test_random();
    struct view x = view_random(ZL_FLOAT32, 2, (int64_t[]){rows, cols});
    struct view y = view_random(ZL_FLOAT32, 2, (int64_t[]){rows, test_between(0, 1) ? cols : 1});
    zl_array together[STEPS + 2], alone[STEPS + 2];
    REQUIRE(x.array && y.array);
    REQUIRE(compute(x.array, y.array, choices, true, alone));
    REQUIRE(compute(x.array, y.array, choices, false, together));
    zl_array last[2] = {together[STEPS + 1], together[test_between(2, STEPS + 1)]};
    int at = 2;
    while (together[at] != last[1])
        at++;
    for (int i = 0; i < STEPS + 2; i++)
        if (i != at && i != STEPS + 1) {
            zl_release(together[i]);
            together[i] = NULL;
        }
    REQUIRE(zl_eval_all(2, last));
    if (!CHECK(same_bits(last[0], alone[STEPS + 1]) && same_bits(last[1], alone[at])))
        test_note("choices %llx, %lld x %lld", (unsigned long long)choices, (long long)rows, (long long)cols);
    release_all(together);
    release_all(alone);
}

TEST(together_as_alone) {
    test_setenv("ZL_HOT", "0");
    cpu_kernels_stop();
    int64_t fused = zl_counter("fused"), compiles = zl_counter("compiles");
    for (int round = 0; round < rounds(10, 80); round++)
        ZL_SCOPE {
            compare_once();
        }
    CHECK(zl_counter("fused") > fused + 20);
    CHECK_EQ_INT(zl_counter("compiles"), compiles);
    test_setenv("ZL_HOT", NULL);
}

// A long chain is divided into groups; every element passes through all of them.
TEST(long_chain) {
    zl_array x = zl_zeros(ZL_SHAPE(20000), ZL_FLOAT32);
    for (int i = 0; i < 500; i++)
        x = zl_add(x, zl_scalar(1));
    CHECK_EQ_F64(zl_item(zl_min(x)), 500);
}

// Results of different shapes, and reductions between them, end a group.
TEST(mixed_shapes) {
    zl_array x = zl_arange(0, 20000, 1, ZL_FLOAT32);
    zl_array a = zl_multiply(zl_add(x, zl_scalar(1)), zl_scalar(2));
    zl_array b = zl_add(zl_reshape(a, ZL_SHAPE(100, 200)), zl_reshape(x, ZL_SHAPE(100, 200)));
    zl_array c = zl_subtract(zl_negative(b), zl_sum_axis(b, 1, true));
    zl_array d = zl_add(
        zl_abs(c),
        zl_broadcast_to(zl_reshape(zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(200), ZL_SHAPE(1)), ZL_SHAPE(1, 200)),
                        ZL_SHAPE(100, 200)));
    const float *y = zl_data_f32(d);
    REQUIRE(y);
    double row = 0;
    for (int j = 0; j < 200; j++)
        row += 3.0 * (400 + j) + 2;
    CHECK_NEAR(y[2 * 200 + 5], 3.0 * 405 + 2 + row + 5, 1);
}

TEST(tiny_and_empty) {
    CHECK_EQ_F64(zl_item(zl_exp(zl_scalar(0))), 1);
    CHECK_EQ_INT(zl_size(zl_add(zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), zl_scalar(1))), 0);
    CHECK(zl_eval(zl_exp(zl_add(zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), zl_scalar(1)))));
    CHECK_EQ_F64(zl_item(zl_sum(zl_zeros(ZL_SHAPE(0), ZL_FLOAT32))), 0);
    CHECK_EQ_F64(zl_item(zl_add(zl_scalar_int(2), zl_scalar(0.5))), 2.5);
}

// The product of the sizes before the 0 overflows.
TEST(copies_of_nothing) {
    zl_array x = zl_full(ZL_SHAPE(INT64_MAX, 240, 0), zl_scalar(1), ZL_FLOAT32);
    CHECK(zl_eval(x) && zl_size(x) == 0);
}

// Returns whether only another device runs this op: some of these calls are never evaluated, others contain
// kernels for other devices.
static bool is_elsewhere(const struct op *op) {
    return op == &op_stretch_with || op == &op_element_count || op == &op_custom_kernel ||
           op == &op_cuda_kernel;
}

TEST(every_op_has_a_row_on_the_cpu) {
    zl_array x = zl_ones(ZL_SHAPE(2, 2), ZL_FLOAT32), in[] = {x, x, x};
    const struct op *op;
    for (int i = 0; (op = op_at(i)); i++) {
        if (op->kind != OP_OTHER)
            continue;
        zl_array y = graph_call(op, COUNT(in), in, 0, NULL, 1,
                                &(struct array_spec){.dtype = ZL_FLOAT32, .ndim = 2, .dim = x->dim});
        REQUIRE(y);
        if (!CHECK(cpu_can(0, y->call) != is_elsewhere(op)))
            test_note("%s", op->name);
    }
}
