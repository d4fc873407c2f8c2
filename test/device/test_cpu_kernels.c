// test_cpu_kernels.c - row programs that become compiled kernels: when this happens, and that no bit changes.

#include "test.h"

#include "device/cpu/rows/reduce.h"
#include "device/cpu/tile/compiler.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 70, COLS = 160 };

static zl_array numbers(zl_shape shape, double from) {
    int64_t size = 1;
    for (int i = 0; i < shape.ndim; i++)
        size *= shape.dim[i];
    return zl_divide(zl_reshape(zl_arange(from, from + (double)size, 1, ZL_FLOAT32), shape), zl_scalar(977));
}

// Computes an expression of numbers, a column and a row.
static zl_array mixed(zl_array x, zl_array column, zl_array row) {
    zl_array a = zl_tanh(zl_multiply(zl_add(x, column), zl_scalar(0.7)));
    return zl_subtract(zl_multiply(a, row), zl_exp(zl_negative(zl_maximum(a, zl_scalar(0.1)))));
}

static zl_array lines(zl_array x, zl_array column, zl_array row) {
    return zl_softmax(zl_multiply(zl_add(zl_square(x), column), row), -1, false);
}

// Becomes a kernel that has two results and reduces a third value, and one that reads 16-bit floats.
static zl_array norm(zl_array x, zl_array column, zl_array row) {
    zl_array half = zl_astype(zl_astype(x, ZL_BFLOAT16), ZL_FLOAT32);
    zl_array centred = zl_subtract(x, zl_mean_axis(x, -1, true));
    zl_array size = zl_add(zl_mean_axis(zl_square(centred), -1, true), zl_sum_axis(zl_abs(half), -1, true));
    return zl_multiply(zl_multiply(centred, zl_rsqrt(zl_add(size, column))), row);
}

static zl_array halves(zl_array x, zl_array column, zl_array row) {
    zl_array a = zl_multiply(zl_astype(x, ZL_BFLOAT16), zl_astype(row, ZL_BFLOAT16));
    return zl_astype(zl_where(zl_greater(a, zl_astype(column, ZL_BFLOAT16)), zl_sqrt(zl_abs(a)), a),
                     ZL_FLOAT32);
}

// Reinterprets bits as other dtypes.
static zl_array bits(zl_array x, zl_array column, zl_array row) {
    zl_array half = zl_view(zl_astype(zl_multiply(x, row), ZL_FLOAT16), ZL_UINT16);
    zl_array turned = zl_view(zl_bitwise_xor(half, zl_astype(zl_scalar_int(0x8001), ZL_UINT16)), ZL_FLOAT16);
    zl_array odd =
        zl_view(zl_bitwise_and(zl_view(zl_add(x, column), ZL_UINT32), zl_scalar_int(0x7fffff00)), ZL_FLOAT32);
    return zl_add(zl_astype(turned, ZL_FLOAT32), zl_multiply(odd, zl_scalar(3)));
}

static zl_array eight_bits(zl_array x, zl_array column, zl_array row) {
    return zl_from_fp8(zl_to_fp8(zl_multiply(zl_add(x, column), row)), ZL_FLOAT32);
}

typedef zl_array function(zl_array x, zl_array column, zl_array row);

static bool evaluate(function *f, const zl_array *in, float *out) {
    bool ok = false;
    ZL_SCOPE {
        zl_array y = f(in[0], in[1], in[2]);
        ok = zl_eval(y) && zl_copy_to(y, out, sizeof(float) * ROWS * COLS);
    }
    return ok;
}

static bool no_compiler(void) {
    bool none = !cpu_compiler_version();
    zl_clear_error();
    return none;
}

static void check_hot(function *f, const zl_array *in) {
    static float first[ROWS * COLS], now[ROWS * COLS];
    CHECK(evaluate(f, in, first));
    for (int i = 0; i < 20; i++)
        CHECK(evaluate(f, in, now) && !memcmp(first, now, sizeof now));
    cpu_kernels_settle();
    int64_t compiled = zl_counter("compiled");
    CHECK(evaluate(f, in, now));
    CHECK(zl_counter("compiled") > compiled);
    CHECK(!memcmp(first, now, sizeof now));
}

TEST(what_runs_often_is_compiled) {
    static function *const functions[] = {mixed, lines, norm, halves, bits, eight_bits};
    if (no_compiler()) {
        test_skip("there is no C compiler");
        return;
    }
    zl_array in[] = {numbers(ZL_SHAPE(ROWS, COLS), -5000), numbers(ZL_SHAPE(ROWS, 1), 3),
                     numbers(ZL_SHAPE(COLS), -80)};
    REQUIRE(zl_eval_all(3, in));
    for (size_t i = 0; i < COUNT(functions); i++)
        check_hot(functions[i], in);
}

// The difference, its square and the sum become one kernel, if a row is summed in one run.
TEST(reductions_join_the_kernel_of_what_they_reduce) {
    static const int64_t lengths[] = {33, 1000, 4096, 4097};
    if (no_compiler()) {
        test_skip("there is no C compiler");
        return;
    }
    for (size_t i = 0; i < COUNT(lengths); i++)
        ZL_SCOPE {
            zl_array x = numbers(ZL_SHAPE(300, lengths[i]), -5000), first = NULL;
            REQUIRE(zl_eval(x));
            for (int round = 0; round < 21; round++) {
                if (round == 20)
                    cpu_kernels_settle();
                int64_t compiled = zl_counter("compiled");
                zl_array y = zl_sum_axis(zl_square(zl_subtract(x, zl_max_axis(x, -1, true))), -1, false);
                REQUIRE(zl_eval(y));
                first = first ? first : y;
                CHECK(zl_item_int(zl_array_equal(first, y, true)));
                if (round == 20)
                    CHECK_EQ_INT(zl_counter("compiled") - compiled, lengths[i] <= REDUCE_RUN_MOST ? 3 : 2);
            }
        }
}

static bool is_quotient(zl_array x, double divisor) {
    bool same = false;
    ZL_SCOPE {
        zl_array want = zl_divide(x, zl_full(ZL_SHAPE(1 << 16), zl_scalar(divisor), ZL_BFLOAT16));
        zl_array y = zl_negative(zl_divide(zl_negative(x), zl_scalar(divisor)));
        same = zl_eval_all(2, (zl_array[]){y, want}) && zl_item_int(zl_array_equal(y, want, true));
    }
    return same;
}

// All bf16 numbers: kernels multiply by the inverse of most divisors.
TEST(quotients_of_compiled_kernels_are_those_of_rows) {
    static const double divisors[] = {1.4140625,   3,          0.1,        -7,         977,       0x1p-126,
                                      0x1.02p-126, 0x1.fep125, 0x1.02p126, 0x1.1p-130, 0x1.5p127, 0};
    if (no_compiler()) {
        test_skip("there is no C compiler");
        return;
    }
    zl_array x = zl_view(zl_astype(zl_arange_int(0, 1 << 16, 1, ZL_INT32), ZL_UINT16), ZL_BFLOAT16);
    REQUIRE(zl_eval(x));
    for (int i = 0; i < 20; i++)
        CHECK(is_quotient(x, 1.5) && is_quotient(x, 0x1.1p-130));
    cpu_kernels_settle();
    int64_t compiled = zl_counter("compiled");
    for (size_t i = 0; i < COUNT(divisors); i++)
        if (!CHECK(is_quotient(x, divisors[i])))
            test_note("divided by %g", divisors[i]);
    CHECK(zl_counter("compiled") >= compiled + (int64_t)COUNT(divisors));
}

TEST(hot_graphs_can_be_switched_off) {
    zl_array in[] = {numbers(ZL_SHAPE(ROWS, COLS), -5000), numbers(ZL_SHAPE(ROWS, 1), 3),
                     numbers(ZL_SHAPE(COLS), -80)};
    static float result[ROWS * COLS];
    REQUIRE(zl_eval_all(3, in));
    test_setenv("ZL_HOT", "0");
    int64_t compiled = zl_counter("compiled");
    for (int i = 0; i < 40; i++)
        CHECK(evaluate(mixed, in, result));
    cpu_kernels_settle();
    CHECK(evaluate(mixed, in, result));
    CHECK_EQ_INT(zl_counter("compiled"), compiled);
    test_setenv("ZL_HOT", NULL);
}

static bool call_mixed(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, mixed(zl_add(in[0], zl_scalar(1)), in[1], in[2]));
}

// Compiling a function announces that it will be called repeatedly.
TEST(compiled_functions_get_kernels_at_once) {
    if (no_compiler()) {
        test_skip("there is no C compiler");
        return;
    }
    zl_array in[] = {numbers(ZL_SHAPE(ROWS, COLS), -5000), numbers(ZL_SHAPE(ROWS, 1), 3),
                     numbers(ZL_SHAPE(COLS), -80)};
    REQUIRE(zl_eval_all(3, in));
    zl_compiled f = zl_compile((zl_fn){.call = call_mixed}, false);
    float result[2][8];
    for (int i = 0; i < 2; i++) {
        zl_outputs *out = zl_outputs_new();
        int64_t compiled = zl_counter("compiled");
        REQUIRE(zl_compiled_call(f, NULL, 0, 3, in, out) && zl_eval(zl_outputs_get(out, 0)));
        memcpy(result[i], zl_data(zl_outputs_get(out, 0)), sizeof result[i]);
        CHECK_EQ_INT(zl_counter("compiled") > compiled, i);
        zl_outputs_free(out);
        cpu_kernels_settle();
    }
    CHECK(!memcmp(result[0], result[1], sizeof result[0]));
    zl_compiled_release(f);
}
