// test_compile_free.c - eager evaluation never compiles: every op finds its kernels for every dtype built in,
// unless it is a kernel itself.
//
// Arguments are drawn at random until the op accepts them; zl_op() lists the ops and their parameters.

#include <string.h>

#include "base/base.h"
#include "device/cpu/cpu.h"
#include "fuzz/call_op.h"

enum { TRIES = 400, WANTED = 2, LIST = 3 };

struct arguments {
    union op_argument value[OP_PARAMS];
    int64_t size[OP_PARAMS][LIST];
    int axis[OP_PARAMS][LIST];
    zl_array array[OP_PARAMS][LIST], output[8];
    int rank;
    bool plain; // equal arrays, and numbers of 1, for ops with many arguments that must fit together
};

// Returns an array. Some of their shapes fit each other, some are square, some broadcast. Most arrays of a
// call have the same rank.
static zl_array some_array(const struct arguments *a, zl_dtype dtype) {
    static const int64_t fours[] = {4, 4, 4, 4, 4};
    if (a->plain)
        return zl_full((zl_shape){fours, a->rank}, zl_scalar_int(1), dtype);
    static const int64_t dims[][5] = {{4, 4, 4, 4, 4}, {4, 4, 4, 4, 4}, {4, 4, 4, 4, 4},
                                      {1, 4, 4, 4, 4}, {4, 1, 4, 4, 4}, {2, 4, 2, 4, 4}};
    const int64_t *dim = dims[test_between(0, COUNT(dims) - 1)];
    int rank = test_between(0, 2) ? a->rank : (int)test_between(0, 2);
    if (test_between(0, 6) == 0)
        return zl_scalar_int(1);
    if (test_between(0, 9) == 0)
        dtype = ZL_INT32;
    if (rank == 2 && test_between(0, 1))
        return zl_eye(4, 4, 0, dtype);
    return zl_full((zl_shape){dim, rank}, zl_scalar_int(1), dtype);
}

static void choose(struct arguments *a, int at, const zl_param *param, zl_dtype dtype) {
    static const char *const strings[] = {"",       "ij,ij->i", "ij->ji", "xy",   "ij",    "left",   "right",
                                          "causal", "L",        "fro",    "same", "ortho", "reflect"};
    union op_argument *out = &a->value[at];
    int count = (int)test_between(1, 2);
    for (int i = 0; i < LIST; i++) {
        a->size[at][i] = a->plain ? 1 : test_between(1, 4);
        a->axis[at][i] = i;
        a->array[at][i] = param->type == ZL_PARAM_ARRAYS ? some_array(a, dtype) : NULL;
    }
    if ((a->plain || test_between(0, 1)) && op_argument_none(param, out))
        return;
    switch (param->type) {
    case ZL_PARAM_ARRAY:
        out->array =
            strcmp(param->name, "segments") ? some_array(a, dtype) : zl_ones(ZL_SHAPE(3, 2), ZL_UINT32);
        break;
    case ZL_PARAM_ARRAYS: out->arrays.list = a->array[at], out->arrays.count = count; break;
    case ZL_PARAM_INT: out->number = a->plain ? 1 : (int)test_between(0, 2); break;
    case ZL_PARAM_INT64: out->wide = test_between(1, 4); break;
    case ZL_PARAM_DOUBLE: out->real = (double)test_between(0, 4); break;
    case ZL_PARAM_BOOL: out->number = (int)test_between(0, 1); break;
    case ZL_PARAM_DTYPE: out->number = (int)dtype; break;
    case ZL_PARAM_SHAPE: out->shape = (zl_shape){a->size[at], count}; break;
    case ZL_PARAM_AXES: out->axes = (zl_axes){a->axis[at], count}; break;
    case ZL_PARAM_OPTIONAL: out->array = some_array(a, dtype); break;
    case ZL_PARAM_STRING: out->string = strings[test_between(0, COUNT(strings) - 1)]; break;
    case ZL_PARAM_OUTPUT: out->output = a->output; break;
    }
}

// Returns whether the op accepted the drawn arguments and its results were computed. Counts those refused for
// their dtype.
static bool try_op(const zl_op_info *op, op_function *function, zl_dtype dtype, int *refused) {
    struct arguments a = {.rank = (int)test_between(0, 5), .plain = test_between(0, 2) == 0};
    zl_array y;
    for (int i = 0; i < op->params; i++)
        if (!op_argument_fitting(op, &op->param[i], &a.value[i]))
            choose(&a, i, &op->param[i], dtype);
    bool ok = call_op(op, function, a.value, &y) && (!y || zl_eval(y));
    for (int i = 0; ok && i < 8 && a.output[i]; i++)
        ok = zl_eval(a.output[i]);
    *refused += zl_error_which() == ZL_ERROR_DTYPE;
    zl_clear_error();
    return ok;
}

static int run_op(const zl_op_info *op, zl_dtype dtype) {
    op_function *function = op_address(op->name);
    int done = 0, refused = 0;
    for (int i = 0; function && i < TRIES && done < WANTED && refused < 50; i++)
        ZL_SCOPE
            done += try_op(op, function, dtype, &refused);
    return done;
}

static bool needs_lapack(const zl_op_info *op) {
    return !strcmp(op->family, "linalg") || !strcmp(op->name, "zl_random_multivariate_normal");
}

// Returns why a default device other than the CPU is not tested; NULL: it is the CPU.
static const char *reason_to_skip(void) {
    return strcmp(setting_text(SETTING_DEVICE), "cpu") ? "only the CPU has its kernels built in" : NULL;
}

// Returns whether a function is an op of the same name that the CPU only runs by its kernel in src/kernel/.
static bool is_kernel(const zl_op_info *function) {
    const char *name = function->name + strlen("zl_");
    const struct op *op = op_find(name, strlen(name));
    return op && op->kernel;
}

TEST(eager_ops_compile_nothing) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    if (!op_address("zl_add"))
        SKIP("this program has no symbols");
    cpu_kernels_stop(); // those that other tests started
    int64_t fallbacks = zl_counter("fallbacks");
    CHECK(fallbacks >= 0);
    for (int i = 0; zl_op(i); i++) {
        int64_t compiles = zl_counter("compiles");
        int done = 0;
        for (int d = 0; d < ZL_DTYPE_COUNT; d++)
            done += run_op(zl_op(i), (zl_dtype)d);
        for (int more = 0; !done && more < 50; more++)
            done += run_op(zl_op(i), ZL_FLOAT32);
        bool possible = !test_lacks_lapack() || !needs_lapack(zl_op(i));
        if (possible && !CHECK(done > 0))
            test_note("%s was never called as it should be", zl_op(i)->name);
        if (!is_kernel(zl_op(i)) && !CHECK_EQ_INT(zl_counter("compiles"), compiles))
            test_note("%s was compiled", zl_op(i)->name);
    }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

static zl_array mixture(zl_array x, zl_array y) {
    zl_array z = zl_add(zl_multiply(x, y), zl_scalar(0.5));
    return zl_sum_axis(zl_where(zl_less(x, z), zl_exp(zl_negative(z)), zl_sqrt(zl_abs(y))), 0, false);
}

// Fused expressions run at once as row programs; a few evaluations do not make them hot.
TEST(new_expressions_compile_nothing) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    int64_t compiles = zl_counter("compiles"), fused = zl_counter("fused");
    for (int d = ZL_FLOAT16; d <= ZL_FLOAT64; d++)
        ZL_SCOPE {
            zl_array x = zl_ones(ZL_SHAPE(300, 60), (zl_dtype)d), y = zl_arange(0, 60, 1, (zl_dtype)d);
            CHECK(zl_eval(mixture(x, y)));
        }
    CHECK_EQ_INT(zl_counter("compiles"), compiles);
    CHECK(zl_counter("fused") > fused);
}
