// test_fuzz_input.c - every public op with arguments that may be invalid: it gives an error or a result,
// never a crash.
//
// The ops and their parameters come from zl_op(). Sizes that do not fit into memory, axes that do not exist,
// NULL, NaN and invalid dtypes may all occur together. Small results are also evaluated.

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "fuzz/call_op.h"

enum {
    POOL = 24,      // arrays to choose from
    LIST = 16,      // numbers in a shape or a list of axes
    OUTPUTS = 4096, // room for the results of one call
    SMALL = 100000, // largest number of elements that are evaluated
};

// Values ----------------------------------------------------------------------------------------------------

static int64_t some_size(void) {
    static const int64_t odd[] = {0,   -1, -2, INT64_MAX, INT64_MIN, 1ll << 31, 1ll << 62, (1ll << 32) + 1,
                                  4096};
    return test_between(0, 3) ? test_between(0, 6) : odd[test_between(0, COUNT(odd) - 1)];
}

static int some_axis(void) {
    static const int odd[] = {INT_MAX, INT_MIN, 100, -100};
    return test_between(0, 7) ? (int)test_between(-4, 4) : odd[test_between(0, COUNT(odd) - 1)];
}

// Draws a number that may be the number of results, and so must not exceed the room for them.
static int some_count(void) {
    return (int)(test_between(0, 4) ? test_between(-1, 3) : test_between(-5, OUTPUTS));
}

static double some_real(void) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 0.0, -0.0, 5e-324};
    return test_between(0, 2) ? test_uniform(-10, 10) : odd[test_between(0, COUNT(odd) - 1)];
}

static zl_dtype some_dtype(void) {
    return (zl_dtype)(test_between(0, 15) ? test_between(0, ZL_DTYPE_COUNT - 1) : test_between(-1, 99));
}

static const char *some_string(void) {
    static const char *const strings[] = {
        NULL,    "",     "causal", "L",       "2",     "ij,jk->ik", "ij", "i,i",   "xy",  "left",
        "right", "same", "ortho",  "reflect", "...->", "a...a,",    "->", "i->ii", "i,j", "...i,i..."};
    return strings[test_between(0, COUNT(strings) - 1)];
}

struct lists { // memory to which the arguments of one call point
    int64_t size[4][LIST];
    int axis[4][LIST];
    zl_array array[4][LIST];
    zl_array output[OUTPUTS];
    int used;
};

static zl_shape some_shape(struct lists *l) {
    int64_t *size = l->size[l->used++ % 4];
    int ndim = (int)(test_between(0, 9) ? test_between(0, 4) : test_between(-1, LIST));
    for (int i = 0; i < LIST; i++)
        size[i] = some_size();
    return (zl_shape){test_between(0, 30) ? size : NULL, ndim};
}

static zl_axes some_axes(struct lists *l) {
    int *axis = l->axis[l->used++ % 4];
    int count = (int)(test_between(0, 9) ? test_between(0, 4) : test_between(-2, LIST));
    for (int i = 0; i < LIST; i++)
        axis[i] = some_axis();
    return (zl_axes){test_between(0, 30) ? axis : NULL, count};
}

// Draws an array: all ranks, dtypes and layouts, numbers, empty arrays, too many elements, NULL.
static zl_array some_array(void) {
    int64_t dim[10];
    int rank = (int)(test_between(0, 6) ? test_between(0, 4) : 10);
    for (int i = 0; i < rank; i++)
        dim[i] = rank == 10 ? test_between(1, 2) : test_between(test_between(0, 9) == 0 ? 0 : 1, 5);
    switch (test_between(0, 12)) {
    case 0: return zl_scalar(some_real());
    case 1: return zl_scalar_int(some_size());
    case 2: return zl_scalar_bool(test_between(0, 1));
    case 3: return zl_broadcast_to(zl_scalar(1), ZL_SHAPE(1 << 20, 1 << 20));
    default: break;
    }
    zl_array x =
        zl_full((zl_shape){dim, rank}, zl_scalar(some_real()), (zl_dtype)test_between(0, ZL_DTYPE_COUNT - 1));
    return test_between(0, 2) ? x : test_between(0, 1) ? zl_transpose(x, ZL_ALL) : zl_flip(x, ZL_ALL);
}

static void fill_pool(zl_array *pool) {
    pool[0] = NULL;
    pool[1] = zl_full(ZL_SHAPE(2), zl_scalar_int(7), ZL_UINT32); // a key of random numbers
    pool[2] = zl_ones(ZL_SHAPE(2, 2, 2, 2), ZL_FLOAT32);
    pool[3] = zl_scalar_int(1);
    pool[4] = zl_ones(ZL_SHAPE(2, 2), ZL_INT8);
    pool[5] = zl_ones(ZL_SHAPE(2, 2), ZL_FLOAT32);
    pool[6] = zl_ones(ZL_SHAPE(2), ZL_FLOAT32);
    pool[7] = zl_eye(2, 2, 0, ZL_FLOAT32);
    for (int i = 8; i < POOL; i++)
        if (!CHECK(pool[i] = some_array()))
            test_note("%s", zl_error());
}

// Calls -----------------------------------------------------------------------------------------------------

// Ops whose arrays must have this number of axes and fit together: some calls have two equal ones, and 1 for
// every number.
static const struct {
    const char *name;
    int rank;
} exacting[] = {
    {"zl_conv1d", 3},           {"zl_conv2d", 4},           {"zl_conv3d", 5},
    {"zl_conv_general", 4},     {"zl_conv_transpose1d", 3}, {"zl_conv_transpose2d", 4},
    {"zl_conv_transpose3d", 5}, {"zl_convolve", 1},
};

static zl_array fitting_array(const char *op) {
    static const int64_t twos[] = {2, 2, 2, 2, 2};
    for (size_t i = 0; i < COUNT(exacting); i++)
        if (!strcmp(exacting[i].name, op))
            return zl_ones((zl_shape){twos, exacting[i].rank}, ZL_FLOAT32);
    return NULL;
}

struct attempt {
    bool fits; // the first array is a fitting_array
    zl_array first; // of a call with fitting arguments: lists fit its rank, and other arrays are it or a
                    // number. NULL: arguments are random
    union op_argument argument[OP_PARAMS];
    struct lists lists;
    bool has_null; // an array is NULL: then the result is NULL too, and no error is needed
    int64_t most;  // not 0: only 2 arrays of the pool, and small numbers, for ops with many arguments that
                   // must fit together
    // not 0: few arrays, 2 of the pool, and small numbers: some of the ops want much that fits together
    int plain;
    bool has_output;
};

static zl_shape some_ones(struct attempt *a) {
    int64_t *size = a->lists.size[a->lists.used++ % 4];
    for (int i = 0; i < LIST; i++)
        size[i] = 1;
    return (zl_shape){size, a->fits ? 1 : zl_ndim(a->first)};
}

static zl_array choose(struct attempt *a, zl_array *pool) {
    if (a->first)
        return a->fits || test_between(0, 1) ? a->first : zl_scalar_int(0);
    zl_array x = a->plain ? pool[2 * a->plain + test_between(0, 1)]
                          : pool[test_between(test_between(0, 9) ? 1 : 0, POOL - 1)];
    if (a->has_output && zl_size(x) > SMALL) // it could be split into more pieces than there is room for
        x = pool[0];
    a->has_null |= !x;
    a->most = MAX_OF(a->most, zl_size(x));
    return x;
}

static void choose_list(struct attempt *a, zl_array *pool, union op_argument *out) {
    zl_array *list = a->lists.array[a->lists.used++ % 4];
    int count = a->first ? 1 : (int)(test_between(0, 9) ? test_between(1, 4) : test_between(-1, LIST));
    for (int i = 0; i < LIST; i++)
        list[i] = i < count ? choose(a, pool) : NULL;
    out->arrays.list = test_between(0, 30) ? list : NULL;
    out->arrays.count = count;
}

static const zl_axes first_axis = {(const int[]){0}, 1};

static void choose_argument(struct attempt *a, zl_array *pool, const zl_param *param,
                            union op_argument *out) {
    if (test_between(0, 1) && op_argument_none(param, out))
        return;
    switch (param->type) {
    case ZL_PARAM_ARRAY: out->array = choose(a, pool); break;
    case ZL_PARAM_ARRAYS: choose_list(a, pool, out); break;
    case ZL_PARAM_INT:
        out->number = a->fits         ? 1
                      : a->plain      ? (int)test_between(0, 2)
                      : a->has_output ? some_count()
                                      : some_axis();
        break;
    case ZL_PARAM_INT64: out->wide = some_size(); break;
    case ZL_PARAM_DOUBLE: out->real = some_real(); break;
    case ZL_PARAM_BOOL: out->number = (int)test_between(0, 1); break;
    case ZL_PARAM_DTYPE: out->number = some_dtype(); break;
    case ZL_PARAM_SHAPE: out->shape = a->first ? some_ones(a) : some_shape(&a->lists); break;
    case ZL_PARAM_AXES: out->axes = a->first ? first_axis : some_axes(&a->lists); break;
    case ZL_PARAM_OPTIONAL: out->array = choose(a, pool); break;
    case ZL_PARAM_STRING: out->string = some_string(); break;
    case ZL_PARAM_OUTPUT: out->output = test_between(0, 30) ? a->lists.output : NULL; break;
    }
}

static void choose_arguments(struct attempt *a, zl_array *pool, const zl_op_info *op) {
    for (int i = 0; i < op->params; i++)
        a->has_output |= op->param[i].type == ZL_PARAM_OUTPUT;
    if (!a->has_output && test_between(0, 3) == 0) {
        a->first = fitting_array(op->name);
        a->fits = a->first;
        if (!a->fits)
            a->first = choose(a, pool);
    }
    bool fits = test_between(0, 3) == 0;
    for (int i = 0; i < op->params; i++)
        if (!fits || !op_argument_fitting(op, &op->param[i], &a->argument[i]))
            choose_argument(a, pool, &op->param[i], &a->argument[i]);
}

// Uses a result like any other array: queries it, and evaluates it if it is small.
static void use(const struct attempt *a, zl_array y) {
    CHECK(zl_ndim(y) >= 0 && zl_size(y) >= 0 && (unsigned)zl_dtype_of(y) < ZL_DTYPE_COUNT);
    if (a->most <= SMALL && zl_size(y) <= SMALL && !zl_eval(y))
        CHECK(zl_error() != NULL);
}

// Returns what a call did wrong; NULL if nothing.
static const char *misbehaviour(const struct attempt *a, const char *name, bool ok) {
    const char *error = zl_error();
    if (ok)
        return error ? "it succeeded, but left an error" : NULL;
    if (!error)
        return a->has_null ? NULL : "it failed without a reason";
    return strstr(error, name) ? NULL : "the error does not name it";
}

// Calls an op, and increments *succeeded or *wrong.
static void try_op(const zl_op_info *op, op_function *function, zl_array *pool, int *succeeded, int *wrong) {
    static struct attempt a; // static, because its room for outputs is large
    zl_array y;
    memset(&a, 0, sizeof a);
    a.plain = test_between(0, 2) == 0 ? (int)test_between(1, 3) : 0;
    choose_arguments(&a, pool, op);
    bool ok = call_op(op, function, a.argument, &y);
    const char *what = misbehaviour(&a, op->name, ok);
    if (!CHECK(!what)) {
        test_note("%s: %s: %s", op->name, what, zl_error() ? zl_error() : "no error");
        ++*wrong;
    }
    zl_clear_error();
    if (ok && y)
        use(&a, y);
    for (int i = 0; ok && op->returns_bool && i < OUTPUTS && a.lists.output[i]; i++)
        use(&a, a.lists.output[i]);
    zl_clear_error();
    *succeeded += ok;
}

static void try_fifty(const zl_op_info *op, op_function *function, int *succeeded, int *wrong) {
    zl_array pool[POOL];
    fill_pool(pool);
    for (int i = 0; i < 50 && *wrong < 3; i++)
        ZL_SCOPE
            try_op(op, function, pool, succeeded, wrong);
}

static void fuzz_op(const zl_op_info *op, int rounds) {
    op_function *function = op_address(op->name);
    int succeeded = 0, wrong = 0;
    if (!CHECK(function != NULL))
        test_note("%s is described but not there", op->name);
    for (int i = 0; function && (i < rounds || (!succeeded && i < 50000)) && wrong < 3; i += 50)
        ZL_SCOPE
            try_fifty(op, function, &succeeded, &wrong);
    if (!wrong && !CHECK(succeeded > 0))
        test_note("no call of %s was right: the arguments tried are too strange", op->name);
}

TEST(bad_arguments_give_errors_or_results) {
    int rounds = test_long() ? 50000 : test_quick() ? 250 : 1000;
    if (!op_address("zl_add"))
        SKIP("this program has no symbols");
    size_t limit = zl_set_memory_limit(zl_get_active_memory() + (256 << 20));
    for (int i = 0; zl_op(i); i++)
        fuzz_op(zl_op(i), rounds);
    zl_set_memory_limit(limit);
}
