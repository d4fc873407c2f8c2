// hadamard.c - Hadamard transforms, as products with small factors of the matrix.
//
// The matrix of order m * 2^k is the Kronecker product of one matrix of order m, which is 1, 12, 20 or 28,
// and k matrices of order 2. Up to six of the latter are applied at a time.

#include <math.h>

#include "op/ops.h"

enum { LARGEST = 64, MOST_AT_ONCE = 6 };

// Paley's second construction: the symmetric conference matrix of order 6, from the squares modulo 5; its
// elements 0, 1 and -1 become blocks of order 2.
static float paley(int row, int column) {
    static const int residue[] = {0, 1, -1, -1, 1};
    int i = row / 2, k = column / 2;
    int element = i == k ? 0 : i == 0 || k == 0 ? 1 : residue[(k - i + 5) % 5];
    bool odd = row % 2, right = column % 2;
    if (element == 0)
        return odd || right ? -1 : 1;
    return odd && right ? (float)-element : (float)element;
}

// Williamson's construction: four circulant blocks, given by their first rows, arranged as a quaternion.
static float williamson(int order, int row, int column) {
    static const char *const of_20[] = {"+----", "+----", "++--+", "+-++-"};
    static const char *const of_28[] = {"+------", "++----+", "+-+--+-", "+--++--"};
    static const int which[4][4] = {{1, 2, 3, 4}, {-2, 1, -4, 3}, {-3, 4, 1, -2}, {-4, -3, 2, 1}};
    int size = order / 4, block = which[row / size][column / size],
        at = (column % size - row % size + size) % size;
    const char *const *rows = order == 20 ? of_20 : of_28;
    float value = rows[(block < 0 ? -block : block) - 1][at] == '+' ? 1 : -1;
    return block < 0 ? -value : value;
}

static float element(int order, int row, int column) {
    if (order == 12)
        return paley(row, column);
    if (order == 20 || order == 28)
        return williamson(order, row, column);
    return __builtin_popcount((unsigned)row & (unsigned)column) % 2 ? -1 : 1;
}

static zl_array matrix(int order, zl_dtype dtype) {
    float data[LARGEST * LARGEST];
    for (int i = 0; i < order * order; i++)
        data[i] = element(order, i / order, i % order);
    return zl_astype(zl_from_f32(data, ZL_SHAPE(order, order)), dtype);
}

// Factors n into `order` and a power of 2. Returns false if there is no matrix of that order.
static bool factor(int64_t n, int *order, int *twos) {
    for (*twos = 0; n % 2 == 0 && n != 12 && n != 20 && n != 28; n /= 2)
        ++*twos;
    *order = n <= 28 ? (int)n : 0;
    return n == 1 || n == 12 || n == 20 || n == 28;
}

// Transforms the middle axis of x seen as (rest, order, done).
static zl_array apply(zl_array x, int order, int64_t done) {
    if (!x)
        return NULL;
    int64_t rest = x->size / order / done;
    zl_array h = matrix(order, (zl_dtype)x->dtype);
    if (done == 1) // the matrices of order 2^k, which come first, are symmetric
        return op_matmul_as("zl_hadamard_transform", zl_reshape(x, ZL_SHAPE(rest, order)), h);
    return op_matmul_as("zl_hadamard_transform", h, zl_reshape(x, ZL_SHAPE(rest, order, done)));
}

static zl_array transform(zl_array x, int order, int twos) {
    int64_t done = 1;
    for (; twos > 0; twos -= MOST_AT_ONCE) {
        int step = 1 << MIN_OF(twos, MOST_AT_ONCE);
        x = apply(x, step, done);
        done *= step;
    }
    if (x && order > 1 && done == 1)
        return op_matmul_as("zl_hadamard_transform", zl_reshape(x, ZL_SHAPE(x->size / order, order)),
                            zl_matrix_transpose(matrix(order, (zl_dtype)x->dtype)));
    return order > 1 ? apply(x, order, done) : x;
}

static zl_array hadamard(zl_array a, double scale) {
    int64_t n = a->ndim ? a->dim[a->ndim - 1] : 1;
    int order, twos;
    if (a->size == 0 || !factor(n, &order, &twos))
        return error_set(
            ZL_ERROR_SHAPE,
            "zl_hadamard_transform: a of shape %s: the last size must be a power of 2, times 1, 12, 20 or 28",
            array_text(a));
    scale = isnan(scale) ? 1 / sqrt((double)n) : scale;
    zl_dtype dtype = dtype_is_float((zl_dtype)a->dtype) ? (zl_dtype)a->dtype : ZL_FLOAT32;
    if (n == 1)
        return scale == 1 ? op_same(a) : zl_multiply(a, op_number(dtype, scale));
    zl_dtype wide = dtype == ZL_FLOAT64 ? dtype : ZL_FLOAT32; // so that 16-bit floats are rounded once
    zl_array y = zl_reshape(transform(zl_astype(a, wide), order, twos), zl_shape_of(a));
    return zl_astype(scale == 1 ? y : zl_multiply(y, op_number(wide, scale)), dtype);
}

static bool again_hadamard_transform(const union op_value *v, zl_array *out) {
    return (out[0] = zl_hadamard_transform(v[0].array, v[1].real));
}

zl_array zl_hadamard_transform(zl_array a, double scale) {
    zl_array again;
    if (op_again(&again, "zl_hadamard_transform", again_hadamard_transform, a, scale))
        return again;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, a ? hadamard(a, scale) : NULL);
}
OP_SIGNATURE(zl_hadamard_transform, "matmul",
             "scale times the product of a Hadamard matrix with a along its last axis, whose size is a power "
             "of 2, times "
             "1, 12, 20 or 28. If the scale is not given, which is NaN, the product keeps lengths.",
             P_ARRAY(a), P_DOUBLE(scale, "None"));
