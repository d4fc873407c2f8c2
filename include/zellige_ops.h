// zellige_ops.h - ops on arrays of any shape: prototypes and documentation. Made from src/op by `make generate`; do not edit.

#include "zellige.h" // which includes this file, so that it always comes first

#ifndef ZELLIGE_OPS_H
#define ZELLIGE_OPS_H

#ifdef __cplusplus
extern "C" {
#endif

// compare

// Whether zl_isclose holds for all elements.
ZL_API zl_array zl_allclose(zl_array a, zl_array b, double rtol, double atol, bool equal_nan);

// Whether a and b have the same shape and equal elements; NaN equals NaN if equal_nan.
ZL_API zl_array zl_array_equal(zl_array a, zl_array b, bool equal_nan);

// Whether |a - b| <= atol + rtol * |b|, element by element; of two integers in float64. Infinities are close
// when they are equal; NaN to NaN if equal_nan.
ZL_API zl_array zl_isclose(zl_array a, zl_array b, double rtol, double atol, bool equal_nan);

// create

// start, start + step, start + 2 * step and so on, as long as they are before stop. Element i is computed
// from i, so that errors do not add up. float32 if no dtype is given.
ZL_API zl_array zl_arange(double start, double stop, double step, zl_dtype dtype);

// zl_arange of whole numbers, exact to 64 bits; int32 if no dtype is given.
ZL_API zl_array zl_arange_int(int64_t start, int64_t stop, int64_t step, zl_dtype dtype);

// The Bartlett window of M numbers: a triangle.
ZL_API zl_array zl_bartlett(int M);

// The Blackman window of M numbers: three terms of a cosine series.
ZL_API zl_array zl_blackman(int M);

// An n by m matrix of ones on the k-th diagonal and zeros elsewhere; k > 0 is above the main one.
ZL_API zl_array zl_eye(int64_t n, int64_t m, int64_t k, zl_dtype dtype);

// An array of that shape filled with vals, a number or what broadcasts to it; of its dtype if none is given.
ZL_API zl_array zl_full(zl_shape shape, zl_array vals, zl_dtype dtype);

// An array filled with vals, of the shape that a and vals broadcast to, and of the dtype of a if none is
// given.
ZL_API zl_array zl_full_like(zl_array a, zl_array vals, zl_dtype dtype);

// The Hamming window of M numbers: a raised cosine on a step.
ZL_API zl_array zl_hamming(int M);

// The Hanning window of M numbers: a raised cosine.
ZL_API zl_array zl_hanning(int M);

// The n by n identity matrix.
ZL_API zl_array zl_identity(int64_t n, zl_dtype dtype);

// num numbers from start to stop, equally far apart; stop itself only if endpoint.
ZL_API zl_array zl_linspace(double start, double stop, int64_t num, bool endpoint, zl_dtype dtype);

// The coordinates of a grid: one array for each of those given, with an axis for each, along one of which it
// changes. The first two axes are swapped if indexing is "xy", and not if it is "ij". sparse leaves the other
// axes with size 1.
ZL_API bool zl_meshgrid(const zl_array *arrays, int count, bool sparse, const char *indexing, zl_array *out);

// An array of ones.
ZL_API zl_array zl_ones(zl_shape shape, zl_dtype dtype);

// Ones of the shape of a, and of its dtype if none is given.
ZL_API zl_array zl_ones_like(zl_array a, zl_dtype dtype);

// An n by m matrix of ones on and below the k-th diagonal and zeros above it; float32 if no dtype is given. A
// negative size is 0.
ZL_API zl_array zl_tri(int64_t n, int64_t m, int64_t k, zl_dtype dtype);

// x with zeros above the k-th diagonal of its last two axes.
ZL_API zl_array zl_tril(zl_array x, int64_t k);

// x with zeros below the k-th diagonal of its last two axes.
ZL_API zl_array zl_triu(zl_array x, int64_t k);

// An array of zeros.
ZL_API zl_array zl_zeros(zl_shape shape, zl_dtype dtype);

// Zeros of the shape of a, and of its dtype if none is given.
ZL_API zl_array zl_zeros_like(zl_array a, zl_dtype dtype);

// elementwise

// The absolute value of a; of a complex a its modulus.
ZL_API zl_array zl_abs(zl_array a);

// a + b.
ZL_API zl_array zl_add(zl_array a, zl_array b);

// The angle in radians whose cosine is a.
ZL_API zl_array zl_arccos(zl_array a);

// The number, not negative, whose hyperbolic cosine is a.
ZL_API zl_array zl_arccosh(zl_array a);

// The angle in radians whose sine is a.
ZL_API zl_array zl_arcsin(zl_array a);

// The number whose hyperbolic sine is a.
ZL_API zl_array zl_arcsinh(zl_array a);

// The angle in radians whose tangent is a.
ZL_API zl_array zl_arctan(zl_array a);

// The angle in radians of the point (b, a).
ZL_API zl_array zl_arctan2(zl_array a, zl_array b);

// The number whose hyperbolic tangent is a.
ZL_API zl_array zl_arctanh(zl_array a);

// a in another dtype. Floats become integers by truncation, out of range saturates and NaN is 0; integers
// wrap around; of complex numbers the real part is kept.
ZL_API zl_array zl_astype(zl_array a, zl_dtype dtype);

// The bits set in a and in b.
ZL_API zl_array zl_bitwise_and(zl_array a, zl_array b);

// Every bit of a inverted; of bool, not a.
ZL_API zl_array zl_bitwise_invert(zl_array a);

// The bits set in a or in b.
ZL_API zl_array zl_bitwise_or(zl_array a, zl_array b);

// The bits set in one of a and b.
ZL_API zl_array zl_bitwise_xor(zl_array a, zl_array b);

// The smallest whole number not below a.
ZL_API zl_array zl_ceil(zl_array a);

// The complex conjugate of a; a real a stays as it is.
ZL_API zl_array zl_conjugate(zl_array a);

// The cosine of a in radians.
ZL_API zl_array zl_cos(zl_array a);

// The hyperbolic cosine of a.
ZL_API zl_array zl_cosh(zl_array a);

// a / b as floating point numbers.
ZL_API zl_array zl_divide(zl_array a, zl_array b);

// Whether a equals b.
ZL_API zl_array zl_equal(zl_array a, zl_array b);

// The error function of a.
ZL_API zl_array zl_erf(zl_array a);

// The number whose error function is a.
ZL_API zl_array zl_erfinv(zl_array a);

// e to the power of a.
ZL_API zl_array zl_exp(zl_array a);

// exp(a) - 1, accurate near zero.
ZL_API zl_array zl_expm1(zl_array a);

// The largest whole number not above a.
ZL_API zl_array zl_floor(zl_array a);

// The largest whole number not above a / b. An integer divided by zero gives 0.
ZL_API zl_array zl_floor_divide(zl_array a, zl_array b);

// Whether a is greater than b.
ZL_API zl_array zl_greater(zl_array a, zl_array b);

// Whether a is greater than or equal to b.
ZL_API zl_array zl_greater_equal(zl_array a, zl_array b);

// The imaginary part of a.
ZL_API zl_array zl_imag(zl_array a);

// a shifted left by b bits; 0 once b reaches the width.
ZL_API zl_array zl_left_shift(zl_array a, zl_array b);

// Whether a is less than b.
ZL_API zl_array zl_less(zl_array a, zl_array b);

// Whether a is less than or equal to b.
ZL_API zl_array zl_less_equal(zl_array a, zl_array b);

// The natural logarithm of a.
ZL_API zl_array zl_log(zl_array a);

// The logarithm of a to base 10.
ZL_API zl_array zl_log10(zl_array a);

// log(1 + a), accurate near zero.
ZL_API zl_array zl_log1p(zl_array a);

// The logarithm of a to base 2.
ZL_API zl_array zl_log2(zl_array a);

// log(exp(a) + exp(b)) without overflow.
ZL_API zl_array zl_logaddexp(zl_array a, zl_array b);

// The larger of a and b; NaN if either is.
ZL_API zl_array zl_maximum(zl_array a, zl_array b);

// The smaller of a and b; NaN if either is.
ZL_API zl_array zl_minimum(zl_array a, zl_array b);

// a * b.
ZL_API zl_array zl_multiply(zl_array a, zl_array b);

// The negative of a.
ZL_API zl_array zl_negative(zl_array a);

// Whether a differs from b.
ZL_API zl_array zl_not_equal(zl_array a, zl_array b);

// a to the power of b.
ZL_API zl_array zl_power(zl_array a, zl_array b);

// How many times b goes into a, as a whole number rounded down: a is b times it plus zl_remainder(a, b).
ZL_API zl_array zl_quotient(zl_array a, zl_array b);

// The real part of a.
ZL_API zl_array zl_real(zl_array a);

// One divided by a.
ZL_API zl_array zl_reciprocal(zl_array a);

// The exact remainder of a divided by b, with the sign of b.
ZL_API zl_array zl_remainder(zl_array a, zl_array b);

// a shifted right by b bits, keeping its sign; b past the width shifts all out.
ZL_API zl_array zl_right_shift(zl_array a, zl_array b);

// The whole number nearest to a, the even one of two.
ZL_API zl_array zl_rint(zl_array a);

// One divided by the square root of a.
ZL_API zl_array zl_rsqrt(zl_array a);

// The logistic function 1 / (1 + exp(-a)).
ZL_API zl_array zl_sigmoid(zl_array a);

// -1, 0 or 1 by the sign of a; NaN stays NaN; of a complex a, a / |a|.
ZL_API zl_array zl_sign(zl_array a);

// The sine of a in radians.
ZL_API zl_array zl_sin(zl_array a);

// The hyperbolic sine of a.
ZL_API zl_array zl_sinh(zl_array a);

// The square root of a, correctly rounded.
ZL_API zl_array zl_sqrt(zl_array a);

// a * a.
ZL_API zl_array zl_square(zl_array a);

// a - b.
ZL_API zl_array zl_subtract(zl_array a, zl_array b);

// The tangent of a in radians.
ZL_API zl_array zl_tan(zl_array a);

// The hyperbolic tangent of a.
ZL_API zl_array zl_tanh(zl_array a);

// a without its fraction.
ZL_API zl_array zl_trunc(zl_array a);

// x where the condition is true, y elsewhere.
ZL_API zl_array zl_where(zl_array condition, zl_array x, zl_array y);

// index

// Of a matrix its k-th diagonal; of a list the square matrix that has it there and zeros elsewhere. k > 0 is
// above the main diagonal.
ZL_API zl_array zl_diag(zl_array a, int k);

// The diagonal of the matrices that two axes of a span, as the last axis of the result. An offset above 0 is
// a diagonal above the main one.
ZL_API zl_array zl_diagonal(zl_array a, int offset, int axis1, int axis2);

// The slice of a of the given size along each axis that begins, along the given axes, where start_indices
// says, and at 0 along the others. Negative starts count from the end; a slice that would leave a is moved
// back into it.
ZL_API zl_array zl_dynamic_slice(zl_array a, zl_array start_indices, zl_axes axes, zl_shape slice_size);

// a with update written over a part of it that begins, along the given axes, where start_indices says, and at
// 0 along the others. Negative starts count from the end; a part that would leave a is moved back into it.
ZL_API zl_array zl_dynamic_slice_update(zl_array a, zl_array update, zl_array start_indices, zl_axes axes);

// Slices of a, of the given size along each axis, that begin where the indices say: one array of indices for
// each of the axes, 0 for the other axes. The indices are broadcast against each other; their shape comes
// first in the result, then that of a slice. Negative indices count from the end; a slice that would leave a
// is moved back into it.
ZL_API zl_array zl_gather(zl_array a, const zl_array *indices, int count, zl_axes axes, zl_shape slice_sizes);

// a with the elements where mask, which has the first sizes of a, is true replaced by those of src, in order:
// src is a list of them, or one for all, in the dtype of a. If src is too short its last element is used
// again, and an empty src changes nothing.
ZL_API zl_array zl_masked_scatter(zl_array a, zl_array mask, zl_array src);

// a with the elements at positions along an axis, given for each place of the other axes, replaced by values,
// which are broadcast to the indices. Negative positions count from the end; those out of range are left out;
// of two values for one element the later stays.
ZL_API zl_array zl_put_along_axis(zl_array a, zl_array indices, zl_array values, int axis);

// a with its elements at positions in the flattened array replaced by values; indices has one axis.
ZL_API zl_array zl_put_along_axis_flat(zl_array a, zl_array indices, zl_array values);

// a with slices replaced by updates, in the dtype of a. The indices, one array for each of the axes, are
// broadcast against each other; updates has their shape, then that of a slice, with a size for each axis of
// a. Negative indices count from the end; an update that does not lie in a is left out. Of two updates of one
// element the later one stays, in row-major order of the indices.
ZL_API zl_array zl_scatter(zl_array a, const zl_array *indices, int count, zl_array updates, zl_axes axes);

// a with updates added to its slices, one after the other; else as zl_scatter.
ZL_API zl_array zl_scatter_add(zl_array a, const zl_array *indices, int count, zl_array updates, zl_axes axes);

// a with values added to the elements at positions along an axis, one after the other; else as
// zl_put_along_axis.
ZL_API zl_array zl_scatter_add_axis(zl_array a, zl_array indices, zl_array values, int axis);

// a with the larger of its elements and the updates that fall on them; NaN if one is. Else as zl_scatter.
ZL_API zl_array zl_scatter_max(zl_array a, const zl_array *indices, int count, zl_array updates, zl_axes axes);

// a with the smaller of its elements and the updates that fall on them; NaN if one is. Else as zl_scatter.
ZL_API zl_array zl_scatter_min(zl_array a, const zl_array *indices, int count, zl_array updates, zl_axes axes);

// a with its slices multiplied by updates, one after the other; else as zl_scatter.
ZL_API zl_array zl_scatter_prod(zl_array a, const zl_array *indices, int count, zl_array updates, zl_axes axes);

// src with the slice from start to stop, step apart, replaced by update, which is broadcast to it. Numbers
// mean what they do in zl_slice.
ZL_API zl_array zl_slice_update(zl_array src, zl_array update, zl_shape start, zl_shape stop, zl_shape step);

// src with update added to a slice; else as zl_slice_update.
ZL_API zl_array zl_slice_update_add(zl_array src, zl_array update, zl_shape start, zl_shape stop, zl_shape step);

// src with the larger of the elements of a slice and update; NaN if one is. Else as zl_slice_update.
ZL_API zl_array zl_slice_update_max(zl_array src, zl_array update, zl_shape start, zl_shape stop, zl_shape step);

// src with the smaller of the elements of a slice and update; NaN if one is. Else as zl_slice_update.
ZL_API zl_array zl_slice_update_min(zl_array src, zl_array update, zl_shape start, zl_shape stop, zl_shape step);

// src with a slice multiplied by update; else as zl_slice_update.
ZL_API zl_array zl_slice_update_prod(zl_array src, zl_array update, zl_shape start, zl_shape stop, zl_shape step);

// The elements of a at the given positions along an axis, in whose place come the axes of indices. Negative
// positions count from the end; positions that a does not have are the caller's mistake.
ZL_API zl_array zl_take(zl_array a, zl_array indices, int axis);

// The elements of a at positions along an axis that are given for each place of the other axes: a and indices
// are broadcast against each other but along that axis. Negative positions count from the end; of those out
// of range the nearest is taken.
ZL_API zl_array zl_take_along_axis(zl_array a, zl_array indices, int axis);

// The elements of a, flattened, at the positions of indices, which has one axis.
ZL_API zl_array zl_take_along_axis_flat(zl_array a, zl_array indices);

// The elements of a, flattened, at the given positions.
ZL_API zl_array zl_take_flat(zl_array a, zl_array indices);

// logic

// a, but not below a_min nor above a_max. One of the bounds may be NULL: there is none.
ZL_API zl_array zl_clip(zl_array a, zl_array a_min, zl_array a_max);

// An angle of a radians in degrees.
ZL_API zl_array zl_degrees(zl_array a);

// In out[0] how many times b goes into a, rounded down, in out[1] zl_remainder(a, b), computed together;
// constants to gradients. out[0] is zl_quotient(a, b) of floats, zl_floor_divide(a, b) of integers.
ZL_API bool zl_divmod(zl_array a, zl_array b, zl_array *out);

// Whether a is neither infinite nor NaN.
ZL_API zl_array zl_isfinite(zl_array a);

// Whether a is infinite; of a complex a, whether a part is.
ZL_API zl_array zl_isinf(zl_array a);

// Whether a is NaN; of a complex a, whether a part is.
ZL_API zl_array zl_isnan(zl_array a);

// Whether a is negative infinity.
ZL_API zl_array zl_isneginf(zl_array a);

// Whether a is positive infinity.
ZL_API zl_array zl_isposinf(zl_array a);

// Whether neither a nor b is zero.
ZL_API zl_array zl_logical_and(zl_array a, zl_array b);

// Whether a is zero.
ZL_API zl_array zl_logical_not(zl_array a);

// Whether a or b differs from zero.
ZL_API zl_array zl_logical_or(zl_array a, zl_array b);

// Whether exactly one of a and b differs from zero.
ZL_API zl_array zl_logical_xor(zl_array a, zl_array b);

// a with NaN and the infinities replaced by numbers. A posinf or neginf that is NaN stands for the largest or
// the smallest number of the dtype.
ZL_API zl_array zl_nan_to_num(zl_array a, double nan, double posinf, double neginf);

// a itself.
ZL_API zl_array zl_positive(zl_array a);

// An angle of a degrees in radians.
ZL_API zl_array zl_radians(zl_array a);

// a rounded to a number of decimals, to the even one of two that are as near; negative decimals round to
// tens, hundreds and so on.
ZL_API zl_array zl_round(zl_array a, int decimals);

// random

// Truth values, each true with probability p, which stretches to shape; of the shape of p if none is given.
ZL_API zl_array zl_random_bernoulli(zl_array p, zl_shape shape, zl_array key);

// Random bits as unsigned integers of width bytes: 1, 2 or 4.
ZL_API zl_array zl_random_bits(zl_shape shape, int width, zl_array key);

// Positions along the axis of logits, each as likely as the exponential of its logit, as uint32. The other
// axes stretch to shape, or there is a new last axis of num_samples, or one number for each.
ZL_API zl_array zl_random_categorical(zl_array logits, int axis, zl_shape shape, int num_samples, zl_array key);

// Numbers of the standard Gumbel distribution.
ZL_API zl_array zl_random_gumbel(zl_shape shape, zl_dtype dtype, zl_array key);

// The key that a seed stands for: two uint32.
ZL_API zl_array zl_random_key(int64_t seed);

// Numbers of the Laplace distribution around loc with that scale.
ZL_API zl_array zl_random_laplace(zl_shape shape, zl_dtype dtype, double loc, double scale, zl_array key);

// Vectors (..., n) that are normally distributed with a mean, (..., n), and a covariance, (..., n, n); their
// batch axes stretch to shape. float32 only.
ZL_API zl_array zl_random_multivariate_normal(zl_array mean, zl_array cov, zl_shape shape, zl_dtype dtype, zl_array key);

// Normally distributed numbers with mean loc, 0 if NULL, and standard deviation scale, 1 if NULL.
ZL_API zl_array zl_random_normal(zl_shape shape, zl_dtype dtype, zl_array loc, zl_array scale, zl_array key);

// x with what lies along an axis in a random order.
ZL_API zl_array zl_random_permutation(zl_array x, int axis, zl_array key);

// The numbers from 0 to before x in a random order, as uint32.
ZL_API zl_array zl_random_permutation_int(int64_t x, zl_array key);

// Whole numbers from low to high, high not included. low and high stretch to shape.
ZL_API zl_array zl_random_randint(zl_array low, zl_array high, zl_shape shape, zl_dtype dtype, zl_array key);

// num new keys, the rows of the result, whose numbers have nothing in common.
ZL_API zl_array zl_random_split(zl_array key, int num);

// Normally distributed numbers of those between lower and upper; of the shape that these broadcast to if none
// is given.
ZL_API zl_array zl_random_truncated_normal(zl_array lower, zl_array upper, zl_shape shape, zl_dtype dtype, zl_array key);

// Numbers spread equally over low to high, high not included. low and high stretch to shape.
ZL_API zl_array zl_random_uniform(zl_array low, zl_array high, zl_shape shape, zl_dtype dtype, zl_array key);

// reduce

// Whether all elements of a are not zero.
ZL_API zl_array zl_all(zl_array a);

// Whether all elements of a are not zero, over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_all_axes(zl_array a, zl_axes axis, bool keepdims);

// Whether all elements of a are not zero, along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_all_axis(zl_array a, int axis, bool keepdims);

// Whether any element of a is not zero.
ZL_API zl_array zl_any(zl_array a);

// Whether any element of a is not zero, over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_any_axes(zl_array a, zl_axes axis, bool keepdims);

// Whether any element of a is not zero, along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_any_axis(zl_array a, int axis, bool keepdims);

// The position of the first largest element of a, flattened, as uint32.
ZL_API zl_array zl_argmax(zl_array a);

// The positions of the first largest elements along one axis, or of all if none is given; axes stay with size
// 1 if keepdims.
ZL_API zl_array zl_argmax_axis(zl_array a, int axis, bool keepdims);

// The position of the first smallest element of a, flattened, as uint32.
ZL_API zl_array zl_argmin(zl_array a);

// The positions of the first smallest elements along one axis, or of all if none is given; axes stay with
// size 1 if keepdims.
ZL_API zl_array zl_argmin_axis(zl_array a, int axis, bool keepdims);

// How many elements of a differ from zero, as int32.
ZL_API zl_array zl_count_nonzero(zl_array a);

// How many elements over the axes differ from zero, as int32.
ZL_API zl_array zl_count_nonzero_axes(zl_array a, zl_axes axis, bool keepdims);

// How many elements along one axis differ from zero, as int32.
ZL_API zl_array zl_count_nonzero_axis(zl_array a, int axis, bool keepdims);

// log(sum(exp(a))) of all elements, without overflow.
ZL_API zl_array zl_logsumexp(zl_array a);

// log(sum(exp(a))) over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_logsumexp_axes(zl_array a, zl_axes axis, bool keepdims);

// log(sum(exp(a))) along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_logsumexp_axis(zl_array a, int axis, bool keepdims);

// The largest element of a. NaN if there is one.
ZL_API zl_array zl_max(zl_array a);

// The largest element of a, over the axes, which stay with size 1 if keepdims. NaN if there is one.
ZL_API zl_array zl_max_axes(zl_array a, zl_axes axis, bool keepdims);

// The largest element of a, along one axis, which stays with size 1 if keepdims. NaN if there is one.
ZL_API zl_array zl_max_axis(zl_array a, int axis, bool keepdims);

// The mean of the elements of a; of integers, as float32.
ZL_API zl_array zl_mean(zl_array a);

// The mean of a over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_mean_axes(zl_array a, zl_axes axis, bool keepdims);

// The mean of a along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_mean_axis(zl_array a, int axis, bool keepdims);

// The median of the elements of a; NaN if one is; of integers, as float32.
ZL_API zl_array zl_median(zl_array a);

// The median of a over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_median_axes(zl_array a, zl_axes axis, bool keepdims);

// The median of a along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_median_axis(zl_array a, int axis, bool keepdims);

// The smallest element of a. NaN if there is one.
ZL_API zl_array zl_min(zl_array a);

// The smallest element of a, over the axes, which stay with size 1 if keepdims. NaN if there is one.
ZL_API zl_array zl_min_axes(zl_array a, zl_axes axis, bool keepdims);

// The smallest element of a, along one axis, which stays with size 1 if keepdims. NaN if there is one.
ZL_API zl_array zl_min_axis(zl_array a, int axis, bool keepdims);

// The smallest and the largest element of a, in out[0] and out[1].
ZL_API bool zl_minmax(zl_array a, zl_array *out);

// The smallest and the largest elements of a over the axes.
ZL_API bool zl_minmax_axes(zl_array a, zl_axes axis, bool keepdims, zl_array *out);

// The smallest and the largest elements of a along one axis.
ZL_API bool zl_minmax_axis(zl_array a, int axis, bool keepdims, zl_array *out);

// The product of the elements of a. Integers are multiplied in at least 32 bits.
ZL_API zl_array zl_prod(zl_array a);

// The product of the elements of a, over the axes, which stay with size 1 if keepdims. Integers are
// multiplied in at least 32 bits.
ZL_API zl_array zl_prod_axes(zl_array a, zl_axes axis, bool keepdims);

// The product of the elements of a, along one axis, which stays with size 1 if keepdims. Integers are
// multiplied in at least 32 bits.
ZL_API zl_array zl_prod_axis(zl_array a, int axis, bool keepdims);

// exp(a) divided by its sum along one axis, without overflow; of integers, as float32. It is always precise:
// 16-bit floats are summed in float32.
ZL_API zl_array zl_softmax(zl_array a, int axis, bool precise);

// exp(a) divided by its sum over the axes, without overflow. It is always precise: 16-bit floats are summed
// in float32.
ZL_API zl_array zl_softmax_axes(zl_array a, zl_axes axis, bool precise);

// The standard deviation of the elements of a: the root of zl_var.
ZL_API zl_array zl_std(zl_array a, int ddof);

// The standard deviation of a over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_std_axes(zl_array a, zl_axes axis, bool keepdims, int ddof);

// The standard deviation of a along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_std_axis(zl_array a, int axis, bool keepdims, int ddof);

// The sum of the elements of a. Integers are summed in at least 32 bits.
ZL_API zl_array zl_sum(zl_array a);

// The sum of the elements of a, over the axes, which stay with size 1 if keepdims. Integers are summed in at
// least 32 bits.
ZL_API zl_array zl_sum_axes(zl_array a, zl_axes axis, bool keepdims);

// The sum of the elements of a, along one axis, which stays with size 1 if keepdims. Integers are summed in
// at least 32 bits.
ZL_API zl_array zl_sum_axis(zl_array a, int axis, bool keepdims);

// The sum of a diagonal of the matrices that two axes of a span, in dtype, by default that of a.
ZL_API zl_array zl_trace(zl_array a, int offset, int axis1, int axis2, zl_dtype dtype);

// The variance of the elements of a: the sum of squares divided by their number less ddof.
ZL_API zl_array zl_var(zl_array a, int ddof);

// The variance of a over the axes, which stay with size 1 if keepdims.
ZL_API zl_array zl_var_axes(zl_array a, zl_axes axis, bool keepdims, int ddof);

// The variance of a along one axis, which stays with size 1 if keepdims.
ZL_API zl_array zl_var_axis(zl_array a, int axis, bool keepdims, int ddof);

// scan

// The largest of the elements of a so far, NaN after the first NaN, along an axis. Backwards if reverse; each
// element without itself unless inclusive.
ZL_API zl_array zl_cummax(zl_array a, int axis, bool reverse, bool inclusive);

// The largest of the elements of a so far, NaN after the first NaN,, flattened. Backwards if reverse; each
// element without itself unless inclusive.
ZL_API zl_array zl_cummax_flat(zl_array a, bool reverse, bool inclusive);

// The smallest of the elements of a so far, NaN after the first NaN, along an axis. Backwards if reverse;
// each element without itself unless inclusive.
ZL_API zl_array zl_cummin(zl_array a, int axis, bool reverse, bool inclusive);

// The smallest of the elements of a so far, NaN after the first NaN,, flattened. Backwards if reverse; each
// element without itself unless inclusive.
ZL_API zl_array zl_cummin_flat(zl_array a, bool reverse, bool inclusive);

// The running product of the elements of a along an axis, in dtype, by default that of a. Backwards if
// reverse; each element without itself unless inclusive.
ZL_API zl_array zl_cumprod(zl_array a, int axis, bool reverse, bool inclusive, zl_dtype dtype);

// The running product of the elements of a, flattened, in dtype, by default that of a. Backwards if reverse;
// each element without itself unless inclusive.
ZL_API zl_array zl_cumprod_flat(zl_array a, bool reverse, bool inclusive, zl_dtype dtype);

// The running sum of the elements of a along an axis, in dtype, by default that of a. Backwards if reverse;
// each element without itself unless inclusive.
ZL_API zl_array zl_cumsum(zl_array a, int axis, bool reverse, bool inclusive, zl_dtype dtype);

// The running sum of the elements of a, flattened, in dtype, by default that of a. Backwards if reverse; each
// element without itself unless inclusive.
ZL_API zl_array zl_cumsum_flat(zl_array a, bool reverse, bool inclusive, zl_dtype dtype);

// The logarithm of the running sum of exp(a), without overflow; of integers, as float32, along an axis.
// Backwards if reverse; each element without itself unless inclusive.
ZL_API zl_array zl_logcumsumexp(zl_array a, int axis, bool reverse, bool inclusive);

// The logarithm of the running sum of exp(a), without overflow; of integers, as float32,, flattened.
// Backwards if reverse; each element without itself unless inclusive.
ZL_API zl_array zl_logcumsumexp_flat(zl_array a, bool reverse, bool inclusive);

// shape

// The arrays one after the other along an axis, in the dtype that holds them all.
ZL_API zl_array zl_concatenate(const zl_array *arrays, int count, int axis);

// Each element less the one before it along an axis, n times over; of truth values, whether they differ.
ZL_API zl_array zl_diff(zl_array a, int n, int axis);

// a with low elements before it and high elements after it along each axis, all equal to constant_values,
// which takes the dtype of a.
ZL_API zl_array zl_pad(zl_array a, zl_shape low, zl_shape high, zl_array constant_values);

// Every element of array several times in a row along an axis; of array, flattened, if none is given.
ZL_API zl_array zl_repeat(zl_array array, int64_t repeats, int axis);

// a with its elements moved on by shift places along each of the axes; what leaves at the end comes in at the
// start. One shift serves all axes. ZL_ALL: along the flattened a, by the sum of the shifts.
ZL_API zl_array zl_roll(zl_array a, zl_shape shift, zl_axes axis);

// a cut along an axis into equal sections, as views.
ZL_API bool zl_split(zl_array a, int indices_or_sections, int axis, zl_array *out);

// a cut along an axis before each of the indices: one part more than there are indices, each a slice from one
// index to the next.
ZL_API bool zl_split_at(zl_array a, zl_shape indices_or_sections, int axis, zl_array *out);

// Arrays of one shape side by side along a new axis of the result.
ZL_API zl_array zl_stack(const zl_array *arrays, int count, int axis);

// a several times along each axis, as reps says; the shorter of shape and reps gets ones in front.
ZL_API zl_array zl_tile(zl_array a, zl_shape reps);

// x split along an axis into as many views as it is long, which do not have that axis.
ZL_API bool zl_unstack(zl_array x, int axis, zl_array *out);

// sort

// The positions, as uint32, of the elements of a along an axis: those less than the kth, those equal to it,
// then the others, each of these as they were. NaN is the largest.
ZL_API zl_array zl_argpartition(zl_array a, int kth, int axis);

// The positions, as uint32, of the elements of a, flattened, as zl_argpartition.
ZL_API zl_array zl_argpartition_flat(zl_array a, int kth);

// The positions, as uint32, that put the elements of a in order along an axis. NaN comes last; equal elements
// keep their order.
ZL_API zl_array zl_argsort(zl_array a, int axis);

// The positions, as uint32, that put the elements of a in order, flattened. NaN comes last; equal elements
// keep their order.
ZL_API zl_array zl_argsort_flat(zl_array a);

// The elements of a along an axis: those less than the kth, those equal to it, then the others, each of these
// as they were. NaN is the largest.
ZL_API zl_array zl_partition(zl_array a, int kth, int axis);

// The elements of a, flattened, as zl_partition.
ZL_API zl_array zl_partition_flat(zl_array a, int kth);

// The positions, as uint32, where values could be put into a sorted sequence so that it stays sorted: before
// equal elements if side is "left", behind them if it is "right". NaN is larger than all others.
ZL_API zl_array zl_searchsorted(zl_array sorted_sequence, zl_array values, const char *side);

// The elements of a from the smallest to the largest along an axis. NaN comes last; equal elements keep their
// order.
ZL_API zl_array zl_sort(zl_array a, int axis);

// The elements of a from the smallest to the largest, flattened. NaN comes last; equal elements keep their
// order.
ZL_API zl_array zl_sort_flat(zl_array a);

// The k largest elements of a along an axis, in no order that can be relied on.
ZL_API zl_array zl_topk(zl_array a, int k, int axis);

// The k largest elements of a, flattened, in no order that can be relied on.
ZL_API zl_array zl_topk_flat(zl_array a, int k);

// The different elements of a, flattened, from the smallest to the largest, in out[0]; behind it, if they are
// asked for, as uint32 where in a each was first, and for each element of a which of them it is, and as int32
// how often each is in a. How many they are depends on a: if size is not given, a is evaluated, which cannot
// be while a function is mapped, compiled or exported. With a size nothing is: the first so many are taken,
// and fill_value, by default the smallest, follows where there are less, with a count of 0. Every NaN is
// another element.
ZL_API bool zl_unique(zl_array a, int64_t size, bool return_index, bool return_inverse, bool return_counts, zl_array fill_value, zl_array *out);

// view

// A view of the elements of a in row-major order: any shape and strides, in elements, from offset on. All
// that it reaches must be in a. Not given, the shape is that of a and the strides are row-major.
ZL_API zl_array zl_as_strided(zl_array a, zl_shape shape, zl_shape strides, int64_t offset);

// a, or a scalar a with one axis.
ZL_API zl_array zl_atleast_1d(zl_array a);

// a, with new first axes if it has less than two.
ZL_API zl_array zl_atleast_2d(zl_array a);

// a, with three axes if it has less: (n,) becomes (1, n, 1), (m, n) (m, n, 1).
ZL_API zl_array zl_atleast_3d(zl_array a);

// The arrays stretched to the shape that all of them fit; count results.
ZL_API bool zl_broadcast_arrays(const zl_array *arrays, int count, zl_array *out);

// a with axes of size 1, and new first axes, repeated to the given shape.
ZL_API zl_array zl_broadcast_to(zl_array a, zl_shape shape);

// a itself if its elements lie in row-major order without gaps, or in column-major order if allow_col_major;
// else a copy in row-major order.
ZL_API zl_array zl_contiguous(zl_array a, bool allow_col_major);

// inputs, which is not evaluated before the dependencies are.
ZL_API zl_array zl_depends(zl_array inputs, const zl_array *dependencies, int count);

// a with new axes of size 1, which are axes of the result.
ZL_API zl_array zl_expand_dims(zl_array a, zl_axes axis);

// a with the axes from start_axis to end_axis, both included, joined into one.
ZL_API zl_array zl_flatten(zl_array a, int start_axis, int end_axis);

// a with the order of its elements along the given axes reversed.
ZL_API zl_array zl_flip(zl_array a, zl_axes axis);

// a with its last two axes exchanged.
ZL_API zl_array zl_matrix_transpose(zl_array a);

// a with one axis moved to another place; the others keep their order.
ZL_API zl_array zl_moveaxis(zl_array a, int source, int destination);

// The elements of a in row-major order under another shape. One size may be -1: it is what is left.
ZL_API zl_array zl_reshape(zl_array a, zl_shape shape);

// The elements of a from start to stop, stop not included, step apart along each axis. Numbers mean what they
// do in Python: negative ones count from the end, steps may be negative, and what is out of range is cut off;
// INT64_MAX and INT64_MIN are past both ends.
ZL_API zl_array zl_slice(zl_array a, zl_shape start, zl_shape stop, zl_shape step);

// a without the given axes, each of size 1. ZL_ALL: without every axis of size 1.
ZL_API zl_array zl_squeeze(zl_array a, zl_axes axis);

// a, but a constant to gradients.
ZL_API zl_array zl_stop_gradient(zl_array a);

// a with two of its axes exchanged.
ZL_API zl_array zl_swapaxes(zl_array a, int axis1, int axis2);

// a with its axes in the given order, each named once. ZL_ALL: in reverse.
ZL_API zl_array zl_transpose(zl_array a, zl_axes axes);

// a with one axis split into several of the given sizes, one of which may be -1.
ZL_API zl_array zl_unflatten(zl_array a, int axis, zl_shape shape);

// The bytes of a as another dtype. The last axis grows or shrinks where the dtypes differ in size.
ZL_API zl_array zl_view(zl_array a, zl_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
