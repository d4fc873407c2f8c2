// elementwise.c - public functions and derivatives of the rows of elementwise.def.

#include "op/ops.h"

#include <math.h>
#include <stdlib.h>

// Declares the public functions, so that a row is all that is needed to add an op: the public header is
// generated from the signatures in this file.
#define UNARY(NAME, fn, ...)   ZL_API zl_array fn(zl_array a);
#define BINARY(NAME, fn, ...)  ZL_API zl_array fn(zl_array a, zl_array b);
#define TERNARY(NAME, fn, ...) ZL_API zl_array fn(zl_array condition, zl_array x, zl_array y);
#include "op/elementwise.def"

// Recording -------------------------------------------------------------------------------------------------

static const struct {
    const char *function;
    uint8_t rule; // enum op_rule
} rows[] = {
#define UNARY(NAME, fn, doc, rule, ...)   [TILE_##NAME] = {#fn, rule},
#define BINARY(NAME, fn, doc, rule, ...)  [TILE_##NAME] = {#fn, rule},
#define TERNARY(NAME, fn, doc, rule, ...) [TILE_##NAME] = {#fn, rule},
#include "op/elementwise.def"
};

// Returns the dtype in which the op computes, or ZL_DTYPE_COUNT and an error.
static zl_dtype compute_dtype(enum tile_op row, zl_dtype dtype) {
    uint8_t rule = rows[row].rule;
    if ((rule & FLOAT) && !dtype_is_inexact(dtype))
        return ZL_FLOAT32;
    if ((row == TILE_SHL || row == TILE_SHR) && dtype == ZL_BOOL)
        return ZL_UINT8; // a bool is shifted as the number 0 or 1
    bool refused = (rule & BITS) ? dtype_is_inexact(dtype) : (rule & REAL) && dtype == ZL_COMPLEX64;
    if (!refused && !((rule & NUMBERS) && dtype == ZL_BOOL))
        return dtype;
    error_set(ZL_ERROR_DTYPE, "%s: %s is not possible; %s", rows[row].function, zl_dtype_name(dtype),
              (rule & BITS) ? "integers and bool are"
              : (rule & NUMBERS) ? "numbers are, and zl_logical_not inverts truth"
                                 : "real numbers are");
    return ZL_DTYPE_COUNT;
}

static zl_dtype output_dtype(enum tile_op row, zl_dtype dtype) {
    if (rows[row].rule & TRUTH)
        return ZL_BOOL;
    return (rows[row].rule & PART) && dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype;
}

static bool is_plain_pair(int count, const zl_array *in) {
    return count == 2 && in[0]->dtype == in[1]->dtype && !((in[0]->flags | in[1]->flags) & ARRAY_WEAK);
}

// Casts every operand that is not a weak number to the common dtype. Weak numbers stay, since kernels take
// them as they are. At least one operand is made strong, so that a device can see the dtype of the
// computation.
static __attribute__((noinline)) bool convert(int count, zl_array *in, zl_dtype dtype) {
    bool strong = false;
    for (int i = 0; i < count; i++) {
        bool weak = array_is(in[i], ARRAY_WEAK);
        if (!weak && in[i]->dtype != dtype && !(in[i] = zl_astype(in[i], dtype)))
            return false;
        strong |= !weak;
    }
    return strong || (in[0] = zl_astype(in[0], dtype));
}

static zl_array dense(enum tile_op row, int count, const zl_array *in, zl_dtype dtype, int ndim,
                      const int64_t *dim) {
    return graph_call(&op_elementwise[row], count, in, 0, NULL, 1,
                      &(struct array_spec){.dtype = dtype, .ndim = ndim, .dim = dim,
                                           .stride = op_common_stride(count, in, ndim, dim)});
}

static __attribute__((noinline)) zl_array broadcast_all(enum tile_op row, int count, const zl_array *in,
                                                        zl_dtype dtype, int64_t *dim) {
    int ndim = 0;
    for (int i = 0; i < count; i++) {
        int next = shape_broadcast(ndim, dim, in[i]->ndim, in[i]->dim, dim);
        if (next < 0)
            return error_set(ZL_ERROR_SHAPE,
                             "%s: shapes %s and %s do not broadcast: sizes must be equal or 1",
                             rows[row].function, shape_text(ndim, dim), array_text(in[i]));
        ndim = next;
    }
    if (!op_check_size(rows[row].function, ndim, dim))
        return NULL;
    return dense(row, count, in, dtype, ndim, dim);
}

static __attribute__((noinline)) zl_array record_broadcast(enum tile_op row, int count, const zl_array *in,
                                                           zl_dtype dtype) {
    int64_t room[SHAPE_INLINE], *dim = room;
    int rank = 0;
    for (int i = 0; i < count; i++)
        rank = MAX_OF(rank, in[i]->ndim);
    if (rank > SHAPE_INLINE && !(dim = memory_alloc(sizeof(int64_t) * (size_t)rank)))
        return NULL;
    zl_array y = broadcast_all(row, count, in, dtype, dim);
    if (dim != room)
        memory_free(dim);
    return y;
}

HOT static zl_array record_row(enum tile_op row, int count, zl_array *in) {
    for (int i = 0; i < count; i++)
        if (!in[i])
            return NULL;
    int skip = count - 2 > 0; // the condition of a select is not part of the common dtype
    if (skip && in[0]->dtype != ZL_BOOL && !(in[0] = zl_astype(in[0], ZL_BOOL)))
        return NULL;
    bool plain = is_plain_pair(count, in);
    zl_dtype dtype = plain ? (zl_dtype)in[0]->dtype : dtype_common(count - skip, in + skip);
    zl_dtype compute = compute_dtype(row, dtype);
    if (compute == ZL_DTYPE_COUNT)
        return NULL;
    if (!(plain && compute == dtype) && !convert(count - skip, in + skip, compute))
        return NULL;
    zl_dtype out = output_dtype(row, compute);
    if (count == 1 || (count == 2 && shape_equal(in[0]->ndim, in[0]->dim, in[1]->ndim, in[1]->dim)))
        return dense(row, count, in, out, in[0]->ndim, in[0]->dim);
    return record_broadcast(row, count, in, out);
}

static bool is_whole(zl_array a) {
    return a && !dtype_is_inexact((zl_dtype)a->dtype) && !array_is(a, ARRAY_WEAK);
}

#define UNARY(NAME, fn, doc, rule, ...) \
    zl_array fn(zl_array a) { \
        return ((rule) & WHOLE) && is_whole(a) ? op_same(a) : record_row(TILE_##NAME, 1, (zl_array[]){a}); \
    }
#define BINARY(NAME, fn, ...) \
    zl_array fn(zl_array a, zl_array b) { return record_row(TILE_##NAME, 2, (zl_array[]){a, b}); }
#define TERNARY(NAME, fn, ...) \
    zl_array fn(zl_array condition, zl_array x, zl_array y) { \
        return record_row(TILE_##NAME, 3, (zl_array[]){condition, x, y}); \
    }
#include "op/elementwise.def"

#define UNARY(NAME, fn, doc, ...)   OP_SIGNATURE(fn, "elementwise", doc, P_ARRAY(a));
#define BINARY(NAME, fn, doc, ...)  OP_SIGNATURE(fn, "elementwise", doc, P_ARRAY(a), P_ARRAY(b));
#define TERNARY(NAME, fn, doc, ...) \
    OP_SIGNATURE(fn, "elementwise", doc, P_ARRAY(condition), P_ARRAY(x), P_ARRAY(y));
#include "op/elementwise.def"

// Derivatives -----------------------------------------------------------------------------------------------

// The notation of the tangent column; here the ops act on arrays.
#define K(v)                 zl_scalar(v)
#define I                    zl_scalar_complex(0, 1)
#define OF_COMPLEX(e)        (x->dtype == ZL_COMPLEX64 ? (e) : NULL)
#define UNARY(NAME, fn, ...)  static inline zl_array NAME(zl_array x) { return fn(x); }
#define BINARY(NAME, fn, ...) static inline zl_array NAME(zl_array a, zl_array b) { return fn(a, b); }
#define TERNARY(NAME, fn, ...)                                        \
    static inline zl_array NAME(zl_array c, zl_array a, zl_array b) { \
        return fn(c, a, b);                                           \
    }
#include "op/elementwise.def"
#define NONE     NULL
#define ZERO     NULL
#define D(da, db) (input == call->inputs - 2 ? (da) : (db))

// Returns an operand of a call with two inputs. A weak number with a float64 operand is cast to float64,
// because a tangent that reads it alone would compute in float32.
static zl_array operand(const struct call *call, int i) {
    zl_array x = call->in[i];
    bool widen = array_is(x, ARRAY_WEAK) && call->in[!i]->dtype == ZL_FLOAT64;
    return widen ? zl_astype(x, ZL_FLOAT64) : x;
}

#define UNARY(NAME, fn, doc, rule, tangent, ...)                                            \
    static zl_array tangent_##NAME(const struct call *call, int input, zl_array t) {        \
        zl_array x = call->in[0], y = call_output(call, 0);                                 \
        (void)x, (void)y, (void)t, (void)input;                                             \
        return tangent;                                                                     \
    }
#define BINARY(NAME, fn, doc, rule, tangents, ...)                                          \
    static zl_array tangent_##NAME(const struct call *call, int input, zl_array t) {        \
        zl_array a = operand(call, 0), b = operand(call, 1), y = call_output(call, 0);      \
        (void)a, (void)b, (void)y, (void)t, (void)input;                                    \
        return tangents;                                                                    \
    }
#define TERNARY(NAME, fn, doc, rule, tangents, ...)                                         \
    static zl_array tangent_##NAME(const struct call *call, int input, zl_array t) {        \
        zl_array c = call->in[0];                                                           \
        return input == 0 ? NULL : tangents;                                                \
    }
#include "op/elementwise.def"

static zl_array (*const tangents[])(const struct call *call, int input, zl_array t) = {
#define UNARY(NAME, ...)   [TILE_##NAME] = tangent_##NAME,
#define BINARY(NAME, ...)  [TILE_##NAME] = tangent_##NAME,
#define TERNARY(NAME, ...) [TILE_##NAME] = tangent_##NAME,
#include "op/elementwise.def"
};

// For a holomorphic op, vjp(g) = conj(jvp(conj g)); for a real input, the real part of that. For an op that
// returns a part of a complex number, the column is the vjp itself.
static zl_array vjp(const struct call *call, int input, const zl_array *cotangent) {
    zl_array g = cotangent[0];
    if (!g)
        return NULL;
    zl_scope scope = zl_scope_begin();
    bool complex_out = g->dtype == ZL_COMPLEX64;
    zl_array t = tangents[call->op->row](call, input, complex_out ? zl_conjugate(g) : g);
    if (!t) {
        zl_scope_end(scope);
        return NULL;
    }
    zl_array x = call->in[input];
    if (complex_out && t->dtype == ZL_COMPLEX64)
        t = x->dtype == ZL_COMPLEX64 ? zl_conjugate(t) : zl_real(t);
    if (t && t->dtype != x->dtype)
        t = zl_astype(t, (zl_dtype)x->dtype);
    return zl_scope_leave(scope, op_unbroadcast(t, x));
}

// For an op that returns a part y of a complex x, y is Re(conj(w) x) near x with some weight w: its VJP is w
// g, and its JVP is Re(conj(w) t).
static zl_array tangent_by(const struct call *call, int input, zl_array t) {
    enum tile_op row = call->op->row;
    if (!(rows[row].rule & PART) || t->dtype != ZL_COMPLEX64)
        return tangents[row](call, input, t);
    return zl_real(zl_conjugate(tangents[row](call, input, zl_conjugate(t))));
}

static bool jvp(const struct call *call, const zl_array *tangent, zl_array *out) {
    zl_array y = call_output(call, 0), sum = NULL;
    for (int i = 0; i < call->inputs; i++) {
        zl_array t = tangent[i] ? tangent_by(call, i, tangent[i]) : NULL;
        if (t)
            sum = sum ? zl_add(sum, t) : t;
    }
    zl_array full[] = {zl_astype(sum, (zl_dtype)y->dtype), y};
    out[0] = sum ? op_stretch("zl_broadcast_to", 2, full, 0) : NULL;
    return zl_error() == NULL;
}

static bool record(const struct call *call, const zl_array *in, zl_array *out) {
    zl_array copy[3] = {in[0], call->inputs > 1 ? in[1] : NULL, call->inputs > 2 ? in[2] : NULL};
    out[0] = record_row(call->op->row, call->inputs, copy);
    return out[0] != NULL;
}

#define ROW(NAME, fn)                        \
    [TILE_##NAME] = {.name = &#fn[3],        \
                     .kind = OP_ELEMENTWISE, \
                     .row = TILE_##NAME,     \
                     .record = record,       \
                     .vjp = vjp,             \
                     .jvp = jvp,             \
                     .vmap = op_vmap_elementwise},
const struct op op_elementwise[] = {
#define UNARY(NAME, fn, ...)   ROW(NAME, fn)
#define BINARY(NAME, fn, ...)  ROW(NAME, fn)
#define TERNARY(NAME, fn, ...) ROW(NAME, fn)
#include "op/elementwise.def"
};

// In float16 too, the number and its reciprocal are exact.
static bool is_power_of_two(double value) {
    int exponent;
    return fabs(frexp(value, &exponent)) == 0.5 && abs(exponent - 1) <= 14;
}

static bool divides_by_constant(const struct call *c) {
    return UNLIKELY(c->op == &op_elementwise[TILE_DIV]) && array_is(c->in[1], ARRAY_INLINE);
}

bool op_scales(const struct call *c) {
    if (!divides_by_constant(c))
        return false;
    zl_dtype dtype = (zl_dtype)call_output(c, 0)->dtype;
    return dtype_is_inexact(dtype) && dtype != ZL_COMPLEX64 && is_power_of_two(scalar_as(c->in[1], dtype).f);
}

bool op_has_inverse(const struct call *c) {
    if (!divides_by_constant(c) || call_output(c, 0)->dtype != ZL_BFLOAT16)
        return false;
    double size = fabs(scalar_as(c->in[1], ZL_BFLOAT16).f);
    return size >= 0x1p-126 && size <= 0x1p126;
}
