// random.c - random numbers: keys, the state of a thread, bits, and distributions composed of bits.
//
// All numbers follow from a key. Bits are the only op. Distributions are computed from them by elementwise
// ops, and so have derivatives and batching. Formulas and the order of roundings are those of MLX, so that a
// key gives the same numbers.

#include <limits.h>
#include <math.h>
#include <string.h>

#include "op/ops.h"
#include "op/threefry.h"

// Bits ------------------------------------------------------------------------------------------------------

// Draws dim[0] * dim[1] * ... numbers for each of the keys (..., 2).
static zl_array draw(zl_array keys, zl_dtype dtype, int ndim, const int64_t *dim) {
    int batch = keys->ndim - 1;
    OP_TEMP(int64_t, all, batch + ndim);
    if (!all)
        return NULL;
    for (int i = 0; i < batch + ndim; i++)
        all[i] = i < batch ? keys->dim[i] : dim[i - batch];
    keys = op_check_size("zl_random_bits", batch + ndim, all) ? zl_contiguous(keys, false) : NULL;
    return op_dense(&op_random_bits, 1, &keys, ndim, dim, dtype, batch + ndim, all);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = draw(in[0], (zl_dtype)call_output(c, 0)->dtype, c->args, call_args(c)));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array keys = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return keys && record(c, &keys, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    zl_array keys = in[0];
    int64_t size;
    zl_dtype dtype = (zl_dtype)call_output(c, 0)->dtype;
    return c->inputs == 1 && keys->ndim >= 1 && keys->dim[keys->ndim - 1] == 2 && keys->dtype == ZL_UINT32 &&
           (dtype == ZL_UINT8 || dtype == ZL_UINT16 || dtype == ZL_UINT32) &&
           shape_size(c->args, call_args(c), &size);
}

static const struct op_field fields[] = {{"shape", FIELD_LIST}};
const struct op op_random_bits = {
    .name = "random_bits",
    .kind = OP_OTHER,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap,
};

// Keys ------------------------------------------------------------------------------------------------------

static zl_array key_of(const uint32_t *word) {
    return zl_from(word, ZL_SHAPE(2), ZL_UINT32);
}

static void seed_words(int64_t seed, uint32_t *word) {
    word[0] = (uint32_t)((uint64_t)seed >> 32);
    word[1] = (uint32_t)seed;
}

static bool check_key(const char *function, zl_array key) {
    if (key->dtype == ZL_UINT32 && key->ndim == 1 && key->dim[0] == 2)
        return true;
    return error_false(ZL_ERROR_VALUE,
                       "%s: a key of shape %s of %s: two uint32 are needed, as zl_random_key gives", function,
                       array_text(key), zl_dtype_name((zl_dtype)key->dtype));
}

zl_array zl_random_key(int64_t seed) {
    uint32_t word[2];
    seed_words(seed, word);
    return key_of(word);
}
OP_SIGNATURE(zl_random_key, "random", "The key that a seed stands for: two uint32.", P_INT64(seed, NULL));

zl_array zl_random_split(zl_array key, int num) {
    if (!key || !check_key("zl_random_split", key))
        return NULL;
    if (num < 0)
        return error_set(ZL_ERROR_VALUE, "zl_random_split: %d keys: there cannot be less than 0", num);
    return draw(key, ZL_UINT32, 2, (int64_t[]){num, 2});
}
OP_SIGNATURE(zl_random_split, "random",
             "num new keys, the rows of the result, whose numbers have nothing in common.", P_ARRAY(key),
             P_INT(num, "2"));

// State -----------------------------------------------------------------------------------------------------

// The state of a thread. It is two words, so that drawing without a key records only the op itself, or an
// array that was not computed yet when it was set, such as one inside a transform.
static _Thread_local struct {
    uint32_t word[2];
    bool seeded, watched;
    zl_array key; // retained; NULL: `word` is the state
} state;

static void set_words(const uint32_t *word) {
    zl_release(state.key);
    state.key = NULL;
    memcpy(state.word, word, sizeof state.word);
    state.seeded = true;
}

static void end_thread(void *data) {
    (void)data;
    zl_release(state.key);
    state.key = NULL;
    state.watched = false;
}

static bool hold(zl_array key) {
    if (!state.watched && !(state.watched = base_thread_at_exit(end_thread, NULL)))
        return false;
    zl_retain(key);
    zl_release(state.key);
    state.key = key;
    state.seeded = true;
    return true;
}

void zl_random_seed(int64_t seed) {
    uint32_t word[2];
    seed_words(seed, word);
    set_words(word);
}

zl_array zl_random_state_get(void) {
    if (!state.seeded)
        zl_random_seed(clock_ns());
    return state.key ? op_same(state.key) : key_of(state.word);
}

bool zl_random_state_set(zl_array key) {
    if (!key || !check_key("zl_random_state_set", key))
        return false;
    if (array_state(key) != ARRAY_READY || array_is_tracer(key) || !key->storage->data)
        return hold(key);
    const uint32_t *data = array_data(key, NULL);
    set_words((uint32_t[]){data[0], data[array_stride(key)[0]]});
    return true;
}

// Splits the state's words: the first two become the state, the others are the key to use.
static zl_array next_of_words(void) {
    threefry_words x[THREEFRY_VECTORS] = {{0, 1}}, y[THREEFRY_VECTORS] = {{2, 3}};
    threefry(state.word, x, y);
    zl_array key = key_of((uint32_t[]){y[0][0], y[0][1]});
    if (key)
        set_words((uint32_t[]){x[0][0], x[0][1]});
    return key;
}

static zl_array next_of_array(void) {
    zl_scope s = zl_scope_begin();
    zl_array pair[2] = {NULL, NULL};
    bool ok = zl_split(zl_random_split(state.key, 2), 2, 0, pair);
    zl_array first = ok ? zl_squeeze(pair[0], ZL_AXES(0)) : NULL, second = zl_squeeze(pair[1], ZL_AXES(0));
    return zl_scope_leave(s, first && second && hold(first) ? second : NULL);
}

// Returns the given key, or else the next one of the state; NULL and an error if that fails.
static zl_array key_or_next(const char *function, zl_array key) {
    if (key)
        return check_key(function, key) ? key : NULL;
    if (!op_check_optional(key))
        return NULL;
    if (!state.seeded)
        zl_random_seed(clock_ns());
    return state.key ? next_of_array() : next_of_words();
}

// Bits and uniform ------------------------------------------------------------------------------------------

static zl_array bits(const char *function, zl_shape shape, zl_dtype dtype, zl_array key) {
    if (!op_check_shape(function, shape))
        return NULL;
    key = key_or_next(function, key);
    return key ? draw(key, dtype, shape.ndim, shape.dim) : NULL;
}

zl_array zl_random_bits(zl_shape shape, int width, zl_array key) {
    if (width != 1 && width != 2 && width != 4)
        return error_set(ZL_ERROR_VALUE, "zl_random_bits: a width of %d bytes: 1, 2 and 4 are possible",
                         width);
    return bits("zl_random_bits", shape, width == 4 ? ZL_UINT32 : width == 2 ? ZL_UINT16 : ZL_UINT8, key);
}
OP_SIGNATURE(zl_random_bits, "random", "Random bits as unsigned integers of width bytes: 1, 2 or 4.",
             P_SHAPE(shape), P_INT(width, "4"), P_OPTIONAL(key));

// Broadcasts the sizes of parameters (NULL: none) together with shape, and writes them to dim. Returns their
// number, or -1 and an error.
static int join_shapes(const char *function, int count, const zl_array *given, zl_shape shape, int64_t *dim) {
    int ndim = shape.ndim;
    for (int i = 0; i < ndim; i++)
        dim[i] = shape.dim[i];
    for (int i = 0; i < count; i++) {
        int next = given[i] ? shape_broadcast(ndim, dim, given[i]->ndim, given[i]->dim, dim) : ndim;
        if (next < 0) {
            error_set(ZL_ERROR_SHAPE, "%s: parameters of shape %s do not stretch to numbers of shape %s",
                      function, array_text(given[i]), shape_text(shape.ndim, shape.dim));
            return -1;
        }
        ndim = next;
    }
    return op_check_size(function, ndim, dim) ? ndim : -1;
}

static int64_t largest_rank(int count, const zl_array *given, zl_shape shape) {
    int rank = shape.ndim;
    for (int i = 0; i < count; i++)
        rank = MAX_OF(rank, zl_ndim(given[i]));
    return rank;
}

// Returns whether the parameters broadcast to shape; false, with an error, if not.
static bool check_fits(const char *function, int count, const zl_array *given, zl_shape shape) {
    OP_TEMP(int64_t, dim, largest_rank(count, given, shape));
    int ndim = dim ? join_shapes(function, count, given, shape, dim) : -1;
    if (ndim < 0 || shape_equal(ndim, dim, shape.ndim, shape.dim))
        return ndim >= 0;
    return error_false(ZL_ERROR_SHAPE, "%s: parameters of shape %s do not stretch to numbers of shape %s",
                       function, shape_text(ndim, dim), shape_text(shape.ndim, shape.dim));
}

// Returns whether the parameters and shape broadcast to a common shape, which may be larger than shape.
static bool check_joins(const char *function, int count, const zl_array *given, zl_shape shape) {
    OP_TEMP(int64_t, dim, largest_rank(count, given, shape));
    return dim && join_shapes(function, count, given, shape, dim) >= 0;
}

static bool check_float(const char *function, zl_dtype dtype) {
    return dtype_is_float(dtype) || error_false(ZL_ERROR_DTYPE, "%s: dtype %s is not possible; floats are",
                                                function, zl_dtype_name(dtype));
}

// Returns the largest number below 1; 0 for dtypes that need more random bits than a word has.
static double below_one(zl_dtype dtype) {
    switch (dtype) {
    case ZL_FLOAT16: return 1 - 0x1p-11;
    case ZL_BFLOAT16: return 1 - 0x1p-8;
    case ZL_FLOAT32: return 1 - 0x1p-24;
    default: return 0;
    }
}

// Returns numbers in [0, 1).
static zl_array unit(const char *function, zl_shape shape, zl_dtype dtype, zl_array key) {
    if (below_one(dtype) == 0)
        return error_set(ZL_ERROR_DTYPE, "%s: dtype %s is not possible; float32, float16 and bfloat16 are",
                         function, zl_dtype_name(dtype));
    zl_array x = zl_divide(bits(function, shape, ZL_UINT32, key), op_number(ZL_FLOAT32, UINT32_MAX));
    return zl_astype(zl_minimum(x, op_number(ZL_FLOAT32, below_one(dtype))), dtype);
}

static zl_array uniform(const char *function, zl_array low, zl_array high, zl_shape shape, zl_dtype dtype,
                        zl_array key) {
    if (!low || !high || !op_check_shape(function, shape) || !op_check_dtype(function, dtype) ||
        !check_fits(function, 2, (zl_array[]){low, high}, shape))
        return NULL;
    low = zl_astype(low, dtype);
    zl_array range = zl_subtract(zl_astype(high, dtype), low);
    return zl_add(zl_multiply(range, unit(function, shape, dtype, key)), low);
}

zl_array zl_random_uniform(zl_array low, zl_array high, zl_shape shape, zl_dtype dtype, zl_array key) {
    zl_scope s = zl_scope_begin();
    dtype = op_dtype_or(dtype, ZL_FLOAT32);
    return zl_scope_leave(s, uniform("zl_random_uniform", low, high, shape, dtype, key));
}
OP_SIGNATURE(zl_random_uniform, "random",
             "Numbers spread equally over low to high, high not included. low and high stretch to shape.",
             P_ARRAY_OR(low, "0"), P_ARRAY_OR(high, "1"), P_SHAPE_OR(shape, "[]"), P_DTYPE(dtype, "float32"),
             P_OPTIONAL(key));

// Returns numbers in (-1, 1) as float32, the input of inverse distribution functions.
static zl_array symmetric(const char *function, zl_shape shape, zl_array key) {
    return uniform(function, op_number(ZL_FLOAT32, -(1 - 0x1p-24)), op_number(ZL_FLOAT32, 1), shape,
                   ZL_FLOAT32, key);
}

// Distributions ---------------------------------------------------------------------------------------------

static zl_array randint(zl_array low, zl_array high, zl_shape shape, zl_dtype dtype, zl_array key) {
    const char *function = "zl_random_randint";
    if (!low || !high || !op_check_dtype(function, dtype))
        return NULL;
    if (dtype_is_inexact(dtype))
        return error_set(ZL_ERROR_DTYPE, "%s: dtype %s is not possible; integers and bool are", function,
                         zl_dtype_name(dtype));
    zl_array x = zl_astype(zl_floor(uniform(function, low, high, shape, ZL_FLOAT32, key)), dtype);
    // The rounding to float32 may have left the bounds.
    zl_dtype own = (zl_dtype)high->dtype;
    zl_array last = zl_astype(zl_subtract(zl_astype(high, own), op_number(own, 1)), dtype);
    return zl_maximum(zl_minimum(x, last), zl_astype(low, dtype));
}

zl_array zl_random_randint(zl_array low, zl_array high, zl_shape shape, zl_dtype dtype, zl_array key) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, randint(low, high, shape, op_dtype_or(dtype, ZL_INT32), key));
}
OP_SIGNATURE(zl_random_randint, "random",
             "Whole numbers from low to high, high not included. low and high stretch to shape.",
             P_ARRAY(low), P_ARRAY(high), P_SHAPE_OR(shape, "[]"), P_DTYPE(dtype, "int32"), P_OPTIONAL(key));

static zl_array bernoulli(zl_array p, zl_shape shape, zl_array key) {
    if (!p)
        return NULL;
    if (!dtype_is_float((zl_dtype)p->dtype))
        return error_set(ZL_ERROR_DTYPE, "zl_random_bernoulli: p is %s: a probability is a float",
                         zl_dtype_name((zl_dtype)p->dtype));
    if (shape.ndim == -1)
        shape = zl_shape_of(p);
    if (!op_check_shape("zl_random_bernoulli", shape) || !check_fits("zl_random_bernoulli", 1, &p, shape))
        return NULL;
    // The factor is just above 2^32, so that probability 1 is always true, and 0 never.
    zl_array level = zl_multiply(p, op_number(ZL_FLOAT32, 0x1.000002p32));
    return zl_less(bits("zl_random_bernoulli", shape, ZL_UINT32, key), level);
}

zl_array zl_random_bernoulli(zl_array p, zl_shape shape, zl_array key) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, bernoulli(p, shape, key));
}
OP_SIGNATURE(zl_random_bernoulli, "random",
             "Truth values, each true with probability p, which stretches to shape; of the shape of p if "
             "none is given.",
             P_ARRAY_OR(p, "0.5"), P_SHAPE_OR(shape, "None"), P_OPTIONAL(key));

// Each part is normal with half of the variance.
static zl_array complex_normal(zl_shape shape, zl_array key) {
    OP_TEMP(int64_t, dim, (int64_t)shape.ndim + 1);
    if (!dim)
        return NULL;
    for (int i = 0; i < shape.ndim; i++)
        dim[i] = shape.dim[i];
    dim[shape.ndim] = 2;
    zl_array parts = zl_erfinv(symmetric("zl_random_normal", (zl_shape){dim, shape.ndim + 1}, key));
    return zl_squeeze(zl_view(parts, ZL_COMPLEX64), ZL_AXES(-1));
}

static zl_array normal(zl_shape shape, zl_dtype dtype, zl_array loc, zl_array scale, zl_array key) {
    if (!op_check_optional(loc) || !op_check_optional(scale) || !op_check_dtype("zl_random_normal", dtype) ||
        !op_check_shape("zl_random_normal", shape) ||
        !check_joins("zl_random_normal", 2, (zl_array[]){loc, scale}, shape))
        return NULL;
    if (dtype == ZL_COMPLEX64) {
        zl_array z = complex_normal(shape, key);
        z = scale ? zl_multiply(scale, z) : z;
        return loc ? zl_add(loc, z) : z;
    }
    if (!check_float("zl_random_normal", dtype))
        return NULL;
    zl_array width = op_number(dtype, M_SQRT2);
    width = scale ? zl_multiply(width, zl_astype(scale, dtype)) : width;
    zl_array x = zl_multiply(width, zl_astype(zl_erfinv(symmetric("zl_random_normal", shape, key)), dtype));
    return loc ? zl_add(zl_astype(loc, dtype), x) : x;
}

zl_array zl_random_normal(zl_shape shape, zl_dtype dtype, zl_array loc, zl_array scale, zl_array key) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, normal(shape, op_dtype_or(dtype, ZL_FLOAT32), loc, scale, key));
}
OP_SIGNATURE(
    zl_random_normal, "random",
    "Normally distributed numbers with mean loc, 0 if NULL, and standard deviation scale, 1 if NULL.",
    P_SHAPE_OR(shape, "[]"), P_DTYPE(dtype, "float32"), P_OPTIONAL(loc), P_OPTIONAL(scale), P_OPTIONAL(key));

static zl_array truncated_normal(zl_array lower, zl_array upper, zl_shape shape, zl_dtype dtype,
                                 zl_array key) {
    const char *function = "zl_random_truncated_normal";
    zl_array ends[2];
    if (!op_check_dtype(function, dtype) || !check_float(function, dtype) ||
        !op_broadcast(function, 2, (zl_array[]){zl_astype(lower, dtype), zl_astype(upper, dtype)}, ends))
        return NULL;
    if (shape.ndim == -1)
        shape = zl_shape_of(ends[0]);
    zl_array root = op_number(dtype, M_SQRT2);
    zl_array x = uniform(function, zl_erf(zl_divide(ends[0], root)), zl_erf(zl_divide(ends[1], root)), shape,
                         dtype, key);
    return zl_maximum(zl_minimum(ends[1], zl_multiply(root, zl_erfinv(x))), ends[0]);
}

zl_array zl_random_truncated_normal(zl_array lower, zl_array upper, zl_shape shape, zl_dtype dtype,
                                    zl_array key) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, truncated_normal(lower, upper, shape, op_dtype_or(dtype, ZL_FLOAT32), key));
}
OP_SIGNATURE(
    zl_random_truncated_normal, "random",
    "Normally distributed numbers of those between lower and upper; of the shape that these broadcast to if "
    "none is given.",
    P_ARRAY(lower), P_ARRAY(upper), P_SHAPE_OR(shape, "None"), P_DTYPE(dtype, "float32"), P_OPTIONAL(key));

static zl_array gumbel(const char *function, zl_shape shape, zl_dtype dtype, zl_array key) {
    return zl_negative(zl_log(zl_negative(zl_log(unit(function, shape, dtype, key)))));
}

zl_array zl_random_gumbel(zl_shape shape, zl_dtype dtype, zl_array key) {
    zl_scope s = zl_scope_begin();
    dtype = op_dtype_or(dtype, ZL_FLOAT32);
    if (!op_check_dtype("zl_random_gumbel", dtype))
        return zl_scope_leave(s, NULL);
    return zl_scope_leave(s, gumbel("zl_random_gumbel", shape, dtype, key));
}
OP_SIGNATURE(zl_random_gumbel, "random", "Numbers of the standard Gumbel distribution.",
             P_SHAPE_OR(shape, "[]"), P_DTYPE(dtype, "float32"), P_OPTIONAL(key));

static zl_array laplace(zl_shape shape, zl_dtype dtype, double loc, double scale, zl_array key) {
    if (!op_check_dtype("zl_random_laplace", dtype) || !check_float("zl_random_laplace", dtype))
        return NULL;
    zl_array x = symmetric("zl_random_laplace", shape, key);
    x = zl_astype(zl_multiply(zl_sign(x), zl_log1p(zl_negative(zl_abs(x)))), dtype);
    x = scale == 1 ? x : zl_multiply(op_number(dtype, scale), x);
    return loc == 0 ? x : zl_add(op_number(dtype, loc), x);
}

zl_array zl_random_laplace(zl_shape shape, zl_dtype dtype, double loc, double scale, zl_array key) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, laplace(shape, op_dtype_or(dtype, ZL_FLOAT32), loc, scale, key));
}
OP_SIGNATURE(zl_random_laplace, "random", "Numbers of the Laplace distribution around loc with that scale.",
             P_SHAPE_OR(shape, "[]"), P_DTYPE(dtype, "float32"), P_DOUBLE(loc, "0.0"), P_DOUBLE(scale, "1.0"),
             P_OPTIONAL(key));

// Permutations and vectors ----------------------------------------------------------------------------------

// Checks that there are not too many elements to permute.
static bool check_places(const char *function, int64_t count) {
    return count <= UINT32_MAX ||
           error_false(ZL_ERROR_OVERFLOW, "%s: %lld elements: at most %u can be permuted", function,
                       (long long)count, UINT32_MAX);
}

zl_array zl_random_permutation_int(int64_t x, zl_array key) {
    if (!check_places("zl_random_permutation_int", x))
        return NULL;
    zl_scope s = zl_scope_begin();
    zl_array order = bits("zl_random_permutation_int", ZL_SHAPE(x), ZL_UINT32, key);
    return zl_scope_leave(s, order ? zl_argsort(order, -1) : NULL);
}
OP_SIGNATURE(zl_random_permutation_int, "random",
             "The numbers from 0 to before x in a random order, as uint32.", P_INT64(x, NULL),
             P_OPTIONAL(key));

static bool again_random_permutation(const union op_value *v, zl_array *out) {
    return (out[0] = zl_random_permutation(v[0].array, v[1].number, v[2].array));
}

zl_array zl_random_permutation(zl_array x, int axis, zl_array key) {
    if (recorder.deferred && !(key = key_or_next("zl_random_permutation", key)))
        return NULL;
    zl_array again;
    if (op_again(&again, "zl_random_permutation", again_random_permutation, x, axis, key))
        return again;
    int at = x ? shape_axis("zl_random_permutation", axis, x->ndim) : -1;
    if (at < 0 || !check_places("zl_random_permutation", x->dim[at]))
        return NULL;
    zl_scope s = zl_scope_begin();
    zl_array order = bits("zl_random_permutation", ZL_SHAPE(x->dim[at]), ZL_UINT32, key);
    return zl_scope_leave(s, order ? zl_take(x, zl_argsort(order, -1), at) : NULL);
}
OP_SIGNATURE(zl_random_permutation, "random", "x with what lies along an axis in a random order.", P_ARRAY(x),
             P_INT(axis, "0"), P_OPTIONAL(key));

static bool check_moments(const char *function, zl_array mean, zl_array cov, zl_dtype dtype) {
    if (dtype != ZL_FLOAT32)
        return error_false(ZL_ERROR_DTYPE, "%s: dtype %s is not possible; float32 is", function,
                           zl_dtype_name(dtype));
    int n = mean->ndim - 1, k = cov->ndim - 1;
    bool fits = n >= 0 && k >= 1 && cov->dim[k] == cov->dim[k - 1] && mean->dim[n] == cov->dim[k];
    return fits ||
           error_false(
               ZL_ERROR_SHAPE,
               "%s: a mean of shape %s and a covariance of shape %s: (..., n) and (..., n, n) are needed",
               function, array_text(mean), array_text(cov));
}

// Returns a square root of a covariance: u sqrt(s) v of its singular value decomposition.
static zl_array root_of(zl_array cov) {
    zl_array part[3];
    if (!cov || !zl_linalg_svd(cov, true, part))
        return NULL;
    return zl_matmul(zl_multiply(part[0], zl_expand_dims(zl_sqrt(part[1]), ZL_AXES(-2))), part[2]);
}

// Writes the batch axes of both, broadcast with shape, and then n to dim. Returns the number of sizes, or -1
// and an error.
static int moments_shape(const char *function, zl_array mean, zl_array cov, zl_shape shape, int64_t *dim) {
    for (int i = 0; i < shape.ndim; i++)
        dim[i] = shape.dim[i];
    int ndim = shape_broadcast(shape.ndim, dim, mean->ndim - 1, mean->dim, dim);
    ndim = ndim < 0 ? -1 : shape_broadcast(ndim, dim, cov->ndim - 2, cov->dim, dim);
    if (ndim < 0) {
        error_set(ZL_ERROR_SHAPE, "%s: a mean of shape %s and a covariance of shape %s do not stretch to %s",
                  function, array_text(mean), array_text(cov), shape_text(shape.ndim, shape.dim));
        return -1;
    }
    dim[ndim] = mean->dim[mean->ndim - 1];
    return ndim + 1;
}

static zl_array multivariate_normal(zl_array mean, zl_array cov, zl_shape shape, zl_dtype dtype,
                                    zl_array key) {
    const char *function = "zl_random_multivariate_normal";
    if (!mean || !cov || !op_check_optional(key) || (key && !check_key(function, key)) ||
        !op_check_dtype(function, dtype) || !check_moments(function, mean, cov, dtype) ||
        !op_check_shape(function, shape))
        return NULL;
    OP_TEMP(int64_t, dim, (int64_t)MAX_OF(MAX_OF(mean->ndim, cov->ndim), shape.ndim) + 1);
    int ndim = dim ? moments_shape(function, mean, cov, shape, dim) : -1;
    if (ndim < 0)
        return NULL;
    zl_array x = normal((zl_shape){dim, ndim}, dtype, NULL, NULL, key);
    zl_array root = x ? root_of(zl_astype(cov, ZL_FLOAT32)) : NULL;
    x = root ? zl_squeeze(zl_matmul(zl_expand_dims(x, ZL_AXES(-2)), root), ZL_AXES(-2)) : NULL;
    return x ? zl_add(mean, x) : NULL;
}

zl_array zl_random_multivariate_normal(zl_array mean, zl_array cov, zl_shape shape, zl_dtype dtype,
                                       zl_array key) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, multivariate_normal(mean, cov, shape, op_dtype_or(dtype, ZL_FLOAT32), key));
}
OP_SIGNATURE(zl_random_multivariate_normal, "random",
             "Vectors (..., n) that are normally distributed with a mean, (..., n), and a covariance, (..., "
             "n, n); their "
             "batch axes stretch to shape. float32 only.",
             P_ARRAY(mean), P_ARRAY(cov), P_SHAPE_OR(shape, "[]"), P_DTYPE(dtype, "float32"),
             P_OPTIONAL(key));

// Categories ------------------------------------------------------------------------------------------------

// Chooses the category whose logit plus a Gumbel number is the largest. all: the shape of these sums.
static zl_array largest(zl_array logits, int axis, zl_shape all, zl_array key) {
    zl_array noise = gumbel("zl_random_categorical", all, ZL_FLOAT32, key);
    if (noise && noise->size == 0)
        return error_set(ZL_ERROR_SHAPE,
                         "zl_random_categorical: of shape %s, axis %d, there is nothing to choose",
                         array_text(noise), axis);
    return zl_argmax_axis(zl_add(noise, logits), axis, false);
}

// Shifts a list by some places, with zeros at its start.
static zl_array move_on(zl_array x, int64_t places) {
    if (!x)
        return NULL;
    zl_array kept = zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(x->dim[0] - places), ZL_SHAPE(1));
    return zl_pad(kept, ZL_SHAPE(places), ZL_SHAPE(0), zl_scalar(0));
}

// Returns the sums of the elements before each element of a list.
static zl_array sums_before(zl_array x) {
    zl_array y = move_on(x, 1);
    for (int64_t places = 1; y && places < x->dim[0]; places *= 2)
        y = zl_add(y, move_on(y, places));
    return y;
}

// Chooses from one list of logits for all numbers by inverting the cumulative distribution: the categories
// divide an interval into pieces as long as they are likely, and each uniform number falls into one of them.
static zl_array pieces(zl_array logits, zl_shape shape, zl_array key) {
    zl_array x = zl_astype(zl_flatten(logits, 0, -1), zl_result_type((zl_dtype)logits->dtype, ZL_FLOAT32));
    zl_array top = zl_max(x), likely = zl_exp(zl_subtract(x, top));
    zl_array equal = x ? zl_astype(zl_equal(x, top), (zl_dtype)x->dtype) : NULL;
    likely = zl_where(zl_isinf(top), equal, likely); // infinity minus infinity would be NaN
    if (!likely)
        return NULL;
    zl_array place = zl_multiply(unit("zl_random_categorical", shape, ZL_FLOAT32, key), zl_sum(likely));
    zl_array before = zl_less_equal(sums_before(likely), zl_expand_dims(place, ZL_AXES(-1)));
    return zl_astype(zl_subtract(zl_sum_axis(before, -1, false), zl_scalar_int(1)), ZL_UINT32);
}

// shape: the shape of the result, to which logits without their axis broadcast.
static zl_array choose(zl_array logits, int axis, zl_shape shape, zl_array key) {
    const char *function = "zl_random_categorical";
    int at = axis + shape.ndim - logits->ndim + 1;
    if (!op_check_shape(function, shape))
        return NULL;
    if (shape.ndim < logits->ndim - 1)
        return error_set(ZL_ERROR_SHAPE, "%s: shape %s has less axes than logits of shape %s leave", function,
                         shape_text(shape.ndim, shape.dim), array_text(logits));
    OP_TEMP(int64_t, dim, (int64_t)shape.ndim + 1);
    if (!dim)
        return NULL;
    for (int i = 0; i <= shape.ndim; i++)
        dim[i] = i == at ? logits->dim[axis] : shape.dim[i - (i > at)];
    zl_shape all = {dim, shape.ndim + 1};
    if (!check_fits(function, 1, &logits, all))
        return NULL;
    bool one_list = logits->dim[axis] > 0 && logits->size == logits->dim[axis] && shape.ndim > 0;
    return one_list ? pieces(logits, shape, key) : largest(logits, at, all, key);
}

static bool check_categorical(zl_array logits, zl_shape shape, int num_samples) {
    if (shape.ndim != -1 && num_samples != INT_MIN)
        return error_false(ZL_ERROR_VALUE,
                           "zl_random_categorical: a shape and %d samples: only one of them can be given",
                           num_samples);
    return logits->dtype != ZL_COMPLEX64 ||
           error_false(ZL_ERROR_DTYPE, "zl_random_categorical: logits of complex64: real numbers are needed");
}

static zl_array categorical(zl_array logits, int axis, zl_shape shape, int num_samples, zl_array key) {
    axis = logits ? shape_axis("zl_random_categorical", axis, logits->ndim) : -1;
    if (axis < 0 || !check_categorical(logits, shape, num_samples))
        return NULL;
    bool counted = num_samples != INT_MIN;
    if (counted && !(logits = zl_expand_dims(logits, ZL_AXES(-1))))
        return NULL;
    OP_TEMP(int64_t, dim, logits->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < logits->ndim - 1; i++)
        dim[i] = logits->dim[i + (i >= axis)];
    zl_shape each = {dim, logits->ndim - 1};
    if (counted)
        dim[each.ndim - 1] = num_samples;
    return choose(logits, axis, shape.ndim == -1 ? each : shape, key);
}

static bool again_random_categorical(const union op_value *v, zl_array *out) {
    return (out[0] = zl_random_categorical(v[0].array, v[1].number, v[2].shape, v[3].number, v[4].array));
}

zl_array zl_random_categorical(zl_array logits, int axis, zl_shape shape, int num_samples, zl_array key) {
    if (recorder.deferred && !(key = key_or_next("zl_random_categorical", key)))
        return NULL;
    zl_array again;
    if (op_again(&again, "zl_random_categorical", again_random_categorical, logits, axis, shape, num_samples,
                 key))
        return again;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, categorical(logits, axis, shape, num_samples, key));
}
OP_SIGNATURE(zl_random_categorical, "random",
             "Positions along the axis of logits, each as likely as the exponential of its logit, as uint32. "
             "The other "
             "axes stretch to shape, or there is a new last axis of num_samples, or one number for each.",
             P_ARRAY(logits), P_INT(axis, "-1"), P_SHAPE_OR(shape, "None"), P_INT(num_samples, "None"),
             P_OPTIONAL(key));
