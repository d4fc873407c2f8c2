// zellige_matrix_ops.h - ops on matrices, signals and layers of models: prototypes and documentation. Made from src/op by `make generate`; do not edit.

#include "zellige.h" // which includes this file, so that it always comes first

#ifndef ZELLIGE_MATRIX_OPS_H
#define ZELLIGE_MATRIX_OPS_H

#ifdef __cplusplus
extern "C" {
#endif

// conv

// The input convolved over one axis, or over all spatial ones if there are more, without turning the kernels
// around. The input is (N, sizes, C), the weight (O, sizes, C / groups), the result (N, sizes, O): each of
// `groups` equal parts of the channels has its own kernels.
ZL_API zl_array zl_conv1d(zl_array input, zl_array weight, int stride, int padding, int dilation, int groups);

// The input convolved over two axes, without turning the kernels around. The input is (N, sizes, C), the
// weight (O, sizes, C / groups), the result (N, sizes, O): each of `groups` equal parts of the channels has
// its own kernels. A list of one number is for all axes.
ZL_API zl_array zl_conv2d(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape dilation, int groups);

// The input convolved over three axes, without turning the kernels around. The input is (N, sizes, C), the
// weight (O, sizes, C / groups), the result (N, sizes, O): each of `groups` equal parts of the channels has
// its own kernels. A list of one number is for all axes.
ZL_API zl_array zl_conv3d(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape dilation, int groups);

// The input convolved, without turning the kernels around unless flip, over one to three axes. The input is
// (N, sizes, C), the weight (O, sizes, C / groups), the result (N, sizes, O): each of `groups` equal parts of
// the channels has its own kernels. The input is dilated, then padded with zeros; padding that is negative
// takes elements away, and a list of twice as many numbers as there are axes has what comes before, then what
// comes behind. A list of one number is for all axes.
ZL_API zl_array zl_conv_general(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape kernel_dilation, zl_shape input_dilation, int groups, bool flip);

// The transpose of a convolution over one axis, as layers use it to make arrays longer. The input is (N,
// sizes, C), the weight (O, sizes, C / groups), the result (N, sizes, O): each of `groups` equal parts of the
// channels has its own kernels. The result is as long as the input of a convolution with this stride and
// padding whose result the input is, and output_padding longer.
ZL_API zl_array zl_conv_transpose1d(zl_array input, zl_array weight, int stride, int padding, int dilation, int output_padding, int groups);

// The transpose of a convolution over two axes, as layers use it to make arrays larger. The input is (N,
// sizes, C), the weight (O, sizes, C / groups), the result (N, sizes, O): each of `groups` equal parts of the
// channels has its own kernels. The result is as long as the input of a convolution with this stride and
// padding whose result the input is, and output_padding longer. A list of one number is for all axes.
ZL_API zl_array zl_conv_transpose2d(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape dilation, zl_shape output_padding, int groups);

// The transpose of a convolution over three axes, as layers use it to make arrays larger. The input is (N,
// sizes, C), the weight (O, sizes, C / groups), the result (N, sizes, O): each of `groups` equal parts of the
// channels has its own kernels. The result is as long as the input of a convolution with this stride and
// padding whose result the input is, and output_padding longer. A list of one number is for all axes.
ZL_API zl_array zl_conv_transpose3d(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape dilation, zl_shape output_padding, int groups);

// The convolution of two lists: "full", everywhere where they meet; "same", as long as the longer one; or
// "valid", where the shorter one lies within.
ZL_API zl_array zl_convolve(zl_array a, zl_array v, const char *mode);

// fast

// log(sum(exp(logits))) along the last axis, less the logit of the class that targets, integers of the shape
// of the other axes, name: as float32, in which it is summed whatever the logits are; float64 is summed as
// such. A negative target counts from the last class; one that is not there is the nearest.
ZL_API zl_array zl_fast_cross_entropy(zl_array logits, zl_array targets);

// Linear attention with a state, of the delta rule and its relatives. Each of N heads has a state S of K rows
// and V columns. At every token S becomes Diag(exp(g)) S, then S + w (x - S^T e) where w, x and e are made of
// k, v, beta, a and b as `rule` says, and out[0] is scale * S^T q. Rules: linear, linear_normalized,
// retention, simple_gla, gla, delta, gated_delta, kda, gdn2, precond_gated_delta, precond_kda, comba, dplr,
// iplr, gated_delta_product, gated_oja, momentum_delta. q and k are (B, T, H, K), v is (B, T, N, V), N / H
// heads share one of q and k; g, logarithms of the decay, is (B, T, N), or (B, T, N, K) of gla, kda, gdn2 and
// dplr, (B, T, N, V) of gated_oja; beta is (B, T, N). a and b: of gdn2 the gates that erase (B, T, N, K) and
// write (B, T, N, V); of comba a is the key that erases; of dplr and iplr they are the vectors of the low
// rank; of precond rules the gate and weight of the preconditioner, (B, T, H); of momentum_delta a, (B, T, H,
// K), is the key that erases and b, (B, T, N, 2), has the logarithm of mu and the rate eta: M becomes mu M -
// eta k (v - S^T a)^T, then S becomes exp(g) S - beta M, and a state is S above M, (2 K, V). k, v and beta of
// gated_delta_product have some updates for each token of q. initial_state, zeros if there is none, is (B, N,
// K, V); out[1] is that after the last token, float32, or float64 if the inputs are. A token whose mask (B,
// T) is false changes nothing and gives 0. With offsets, S + 1 numbers from 0 to T, a batch of 1 holds S
// sequences after each other, each with a state. With A_log (N) or dt_bias, g is -exp(A_log) * softplus(g +
// dt_bias); l2_norm divides q and k by their lengths, and sigmoid takes that of beta. scale is 1 / sqrt(K) if
// it is not given.
ZL_API bool zl_fast_delta_rule(const char *rule, zl_array q, zl_array k, zl_array v, zl_array g, zl_array beta, zl_array a, zl_array b, zl_array initial_state, zl_array mask, zl_array offsets, zl_array A_log, zl_array dt_bias, double scale, bool l2_norm, bool sigmoid, zl_array *out);

// The gated delta rule: the state of each of N heads, E rows of D numbers, is multiplied by gamma at every
// step; then beta * (v - state k) k^T is added, so that it answers k with v, and out[0] at that step is state
// q. q and k are (B, T, H, D), v is (B, T, N, E), N / H heads share one of q and k; gamma is (B, T, N), or
// (B, T, N, D) for each column of the state, beta (B, T, N). initial_state, zeros if there is none, is (B, N,
// E, D); out[1] is the state after the last step. A step whose mask (B, T) is false changes nothing and gives
// 0. Computed in float32 or float64.
ZL_API bool zl_fast_gated_delta_update(zl_array q, zl_array k, zl_array v, zl_array gamma, zl_array beta, zl_array initial_state, zl_array mask, zl_array *out);

// x less its mean along the last axis, divided by its standard deviation, with eps added to the variance,
// times weight and plus bias if there are such.
ZL_API zl_array zl_fast_layer_norm(zl_array x, zl_array weight, zl_array bias, double eps);

// x divided by the root of the mean of its squares along the last axis, with eps added to the mean, times
// weight if there is one.
ZL_API zl_array zl_fast_rms_norm(zl_array x, zl_array weight, double eps);

// a, of shape (B, ..., T, D), with pairs of its first dims features rotated by angles that grow with the
// position along T: rotary positions. Pairs are neighbours if traditional, else one from each half. Positions
// start at offset, one or a number for each of B, and are multiplied by scale. Either base, or the wave
// lengths freqs, is given; a base that is not is NaN.
ZL_API zl_array zl_fast_rope(zl_array a, int dims, bool traditional, double base, double scale, zl_array offset, zl_array freqs);

// softmax(scale * q k^T + mask) v for each head: q is (B, N, T, D), k and v are (B, M, S, D), and N / M heads
// of q share one of k and v. A mask stretches to (B, N, T, S): of bool, what is not seen is false. mask_mode
// 'causal' lets a query see the keys up to its own, the last query up to the last key. sinks, one a head, are
// scores more that only take part in the softmax's sum.
ZL_API zl_array zl_fast_scaled_dot_product_attention(zl_array q, zl_array k, zl_array v, double scale, zl_array mask, zl_array sinks, const char *mask_mode);

// fft

// The discrete Fourier transform of a along an axis. n numbers are taken: those that are missing are 0. The
// norm says which direction is divided by the count of numbers: "backward" or "forward"; "ortho" divides both
// by its root.
ZL_API zl_array zl_fft_fft(zl_array a, int n, int axis, const char *norm);

// The discrete Fourier transform of a along axes. s numbers are taken along the axes, each its own: those
// that are missing are 0. The norm says which direction is divided by the count of numbers: "backward" or
// "forward"; "ortho" divides both by its root.
ZL_API zl_array zl_fft_fft2(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// The frequencies of the transform of n samples that are d apart.
ZL_API zl_array zl_fft_fftfreq(int n, double d);

// The discrete Fourier transform of a along axes. s numbers are taken along the axes, each its own: those
// that are missing are 0. The norm says which direction is divided by the count of numbers: "backward" or
// "forward"; "ortho" divides both by its root.
ZL_API zl_array zl_fft_fftn(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// a rolled along axes so that frequency 0, which is first, is in the middle.
ZL_API zl_array zl_fft_fftshift(zl_array a, zl_axes axes);

// The inverse discrete Fourier transform of a along an axis. n numbers are taken: those that are missing are
// 0. The norm says which direction is divided by the count of numbers: "backward" or "forward"; "ortho"
// divides both by its root.
ZL_API zl_array zl_fft_ifft(zl_array a, int n, int axis, const char *norm);

// The inverse discrete Fourier transform of a along axes. s numbers are taken along the axes, each its own:
// those that are missing are 0. The norm says which direction is divided by the count of numbers: "backward"
// or "forward"; "ortho" divides both by its root.
ZL_API zl_array zl_fft_ifft2(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// The inverse discrete Fourier transform of a along axes. s numbers are taken along the axes, each its own:
// those that are missing are 0. The norm says which direction is divided by the count of numbers: "backward"
// or "forward"; "ortho" divides both by its root.
ZL_API zl_array zl_fft_ifftn(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// a rolled along axes so that frequency 0, which is in the middle, is first.
ZL_API zl_array zl_fft_ifftshift(zl_array a, zl_axes axes);

// The real numbers of whose discrete Fourier transform a is the first half and the element in the middle
// along an axis. n numbers are taken: those that are missing are 0. The norm says which direction is divided
// by the count of numbers: "backward" or "forward"; "ortho" divides both by its root.
ZL_API zl_array zl_fft_irfft(zl_array a, int n, int axis, const char *norm);

// The real numbers of whose discrete Fourier transform a is the first half and the element in the middle, of
// the last axis, along axes. s numbers are taken along the axes, each its own: those that are missing are 0.
// The norm says which direction is divided by the count of numbers: "backward" or "forward"; "ortho" divides
// both by its root.
ZL_API zl_array zl_fft_irfft2(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// The real numbers of whose discrete Fourier transform a is the first half and the element in the middle, of
// the last axis, along axes. s numbers are taken along the axes, each its own: those that are missing are 0.
// The norm says which direction is divided by the count of numbers: "backward" or "forward"; "ortho" divides
// both by its root.
ZL_API zl_array zl_fft_irfftn(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// The signals, float32, whose zl_fft_stft with the same arguments is stft_matrix (..., frequencies, frames):
// frames times the window are added up and divided by the sum of its squares. n_fft is by default an even
// number that fits. onesided, 1 or not given, says that only frequencies that are not negative are there. The
// result is cut, or lengthened with 0, to a length if there is one.
ZL_API zl_array zl_fft_istft(zl_array stft_matrix, int n_fft, int hop_length, int win_length, zl_array window, bool center, const char *norm, int onesided, int length);

// The first half, and the element in the middle, of the discrete Fourier transform of real numbers a along an
// axis. n numbers are taken: those that are missing are 0. The norm says which direction is divided by the
// count of numbers: "backward" or "forward"; "ortho" divides both by its root.
ZL_API zl_array zl_fft_rfft(zl_array a, int n, int axis, const char *norm);

// The first half, and the element in the middle, of the discrete Fourier transform of real numbers a, of the
// last axis, along axes. s numbers are taken along the axes, each its own: those that are missing are 0. The
// norm says which direction is divided by the count of numbers: "backward" or "forward"; "ortho" divides both
// by its root.
ZL_API zl_array zl_fft_rfft2(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// The frequencies of the transform of n real samples that are d apart.
ZL_API zl_array zl_fft_rfftfreq(int n, double d);

// The first half, and the element in the middle, of the discrete Fourier transform of real numbers a, of the
// last axis, along axes. s numbers are taken along the axes, each its own: those that are missing are 0. The
// norm says which direction is divided by the count of numbers: "backward" or "forward"; "ortho" divides both
// by its root.
ZL_API zl_array zl_fft_rfftn(zl_array a, zl_shape s, zl_axes axes, const char *norm);

// Fourier transforms, complex64 of shape (..., frequencies, frames), of frames of n_fft elements, hop_length
// apart (by default a quarter of it), along the last axis of x, times a window: one of at most n_fft numbers,
// put in the middle; else win_length ones. If center, the middle of the first frame is the first element:
// what is missing at the ends is mirrored (pad_mode "reflect"), 0 ("constant") or the last element ("edge").
// norm is as of zl_fft_fft. If onesided, 1, only frequencies that are not negative are given, of complex x
// those of its real part; by default so of real x.
ZL_API zl_array zl_fft_stft(zl_array x, int n_fft, int hop_length, int win_length, zl_array window, bool center, const char *pad_mode, const char *norm, int onesided);

// linalg

// The lower triangular matrix of which a, symmetric and positive definite, is the product with its transpose;
// the upper one if upper.
ZL_API zl_array zl_linalg_cholesky(zl_array a, bool upper);

// The inverse of the matrix of which a is the Cholesky factor, the upper one if upper.
ZL_API zl_array zl_linalg_cholesky_inv(zl_array a, bool upper);

// The cross product of vectors of 3 elements along an axis; of 2, the third is 0. The other axes broadcast.
ZL_API zl_array zl_linalg_cross(zl_array a, zl_array b, int axis);

// The determinants of the square matrices of a.
ZL_API zl_array zl_linalg_det(zl_array a);

// The eigenvalues of a in out[0], and in the columns of out[1] vectors of length 1; both complex64.
ZL_API bool zl_linalg_eig(zl_array a, zl_array *out);

// The eigenvalues of symmetric or Hermitian a from the smallest on in out[0], and in the columns of out[1]
// vectors of length 1. The lower triangle of a is read if UPLO is 'L', the upper one if 'U'.
ZL_API bool zl_linalg_eigh(zl_array a, const char *UPLO, zl_array *out);

// The eigenvalues of a, as complex64.
ZL_API zl_array zl_linalg_eigvals(zl_array a);

// The eigenvalues of symmetric or Hermitian a from the smallest on. The lower triangle of a is read if UPLO
// is 'L', the upper one if 'U'.
ZL_API zl_array zl_linalg_eigvalsh(zl_array a, const char *UPLO);

// The inverses of the square matrices of a.
ZL_API zl_array zl_linalg_inv(zl_array a);

// For each row of a the row of the lower factor that makes it, as uint32, in out[0], the lower factor in
// out[1] and the upper one in out[2].
ZL_API bool zl_linalg_lu(zl_array a, zl_array *out);

// Both triangular factors of a in out[0], the ones of the lower one's diagonal left out, and in out[1], as
// uint32, which row each row was swapped with, one after the other.
ZL_API bool zl_linalg_lu_factor(zl_array a, zl_array *out);

// A norm of vectors along one axis, or of matrices in two: of order ord, a number such as "1" or "-inf", for
// matrices also "fro" and "nuc". NULL: the root of the sum of all squares. The axes stay with size 1 if
// keepdims.
ZL_API zl_array zl_linalg_norm(zl_array a, const char *ord, zl_axes axis, bool keepdims);

// The Moore-Penrose inverse of the matrices of a.
ZL_API zl_array zl_linalg_pinv(zl_array a);

// q in out[0], whose columns are orthogonal and of length 1, and upper triangular r in out[1], such that q r
// = a.
ZL_API bool zl_linalg_qr(zl_array a, zl_array *out);

// The sign of the determinant of a, 0 if it is 0, in out[0], and the logarithm of its absolute value in
// out[1].
ZL_API bool zl_linalg_slogdet(zl_array a, zl_array *out);

// x such that a x = b, for square matrices a and vectors or matrices b.
ZL_API zl_array zl_linalg_solve(zl_array a, zl_array b);

// x such that a x = b, for lower triangular matrices a, upper ones if upper, and vectors or matrices b.
ZL_API zl_array zl_linalg_solve_triangular(zl_array a, zl_array b, bool upper);

// Orthogonal u in out[0], singular values from the largest on in out[1], and orthogonal v, transposed, in
// out[2], of which a is the product; the values alone, in out[0], if not compute_uv.
ZL_API bool zl_linalg_svd(zl_array a, bool compute_uv, zl_array *out);

// The inverses of the lower triangular matrices of a, of upper ones if upper.
ZL_API zl_array zl_linalg_tri_inv(zl_array a, bool upper);

// matmul

// beta * c + alpha * matmul(a, b); c broadcasts. Of float16 and bfloat16 it is computed in float32 and
// rounded once, and a beta of 0 leaves c out.
ZL_API zl_array zl_addmm(zl_array c, zl_array a, zl_array b, double alpha, double beta);

// The matrix product of a and b, of which blocks of block_size x block_size elements, 32 or 64, are left out:
// of a where mask_lhs is false, of b where mask_rhs is, of the result where mask_out is. A mask of numbers
// multiplies. A mask that is NULL leaves out nothing.
ZL_API zl_array zl_block_masked_mm(zl_array a, zl_array b, int block_size, zl_array mask_out, zl_array mask_lhs, zl_array mask_rhs);

// The sum of products that subscripts describe: a letter for each axis, operands separated by commas, then
// '->' and the axes of the result. Letters that the result lacks are summed; '...' stands for all axes that
// have none. Without '->' the result has the letters that stand once, in order.
ZL_API zl_array zl_einsum(const char *subscripts, const zl_array *operands, int count);

// Products of matrices that the indices choose among those of a and of b, counted over all batch axes; the
// indices broadcast. Without one of them all matrices of a, or b, are taken. sorted_indices says that they
// are in order.
ZL_API zl_array zl_gather_mm(zl_array a, zl_array b, zl_array lhs_indices, zl_array rhs_indices, bool sorted_indices);

// scale times the product of a Hadamard matrix with a along its last axis, whose size is a power of 2, times
// 1, 12, 20 or 28. If the scale is not given, which is NaN, the product keeps lengths.
ZL_API zl_array zl_hadamard_transform(zl_array a, double scale);

// The sum of products over the last axes of a and b.
ZL_API zl_array zl_inner(zl_array a, zl_array b);

// The Kronecker product: b times every element of a, side by side as these are.
ZL_API zl_array zl_kron(zl_array a, zl_array b);

// The matrix product over the last two axes; the axes before them broadcast. A vector on the left is a row,
// on the right a column, and the axis it lacks is not in the result. Floating point and complex numbers only.
ZL_API zl_array zl_matmul(zl_array a, zl_array b);

// The matrix product of numbers of eight bits (e4m3) that a and b, uint8, hold as to_fp8 gives them: summed
// in float32, multiplied by a_scale * b_scale, rounded once to dtype (bfloat16, float16 or float32). Vectors
// and the axes before the last two are as of matmul. There is no gradient by a and b.
ZL_API zl_array zl_matmul_fp8(zl_array a, zl_array b, double a_scale, double b_scale, zl_dtype dtype);

// The matrix product of int8 over the last two axes as int32, which wraps around; vectors and the axes before
// them are as of matmul.
ZL_API zl_array zl_matmul_int8(zl_array a, zl_array b);

// The products of every element of a, flattened, with every element of b.
ZL_API zl_array zl_outer(zl_array a, zl_array b);

// For each pair of segments, (..., 2), the product of the columns of a from the first to before the second
// with those rows of b.
ZL_API zl_array zl_segmented_mm(zl_array a, zl_array b, zl_array segments);

// The sum of products over the last axes of a and as many first axes of b.
ZL_API zl_array zl_tensordot(zl_array a, zl_array b, int axes);

// The sum of products over axes of a and, one for one, of b. The axes that are left are those of a, then
// those of b.
ZL_API zl_array zl_tensordot_axes(zl_array a, zl_array b, zl_axes axes_a, zl_axes axes_b);

// The sum of products of a, conjugated, and b along one axis; the others broadcast.
ZL_API zl_array zl_vecdot(zl_array a, zl_array b, int axis);

// quantized

// The numbers that zl_quantize made w, scales and biases from, nearly: of the dtype of the scales or, where
// they are bytes, bfloat16 (of mode gguf_k float32), unless dtype says another.
ZL_API zl_array zl_dequantize(zl_array w, zl_array scales, zl_array biases, int group_size, int bits, const char *mode, zl_array global_scale, zl_dtype dtype);

// The numbers of eight bits (e4m3) that x, uint8, holds.
ZL_API zl_array zl_from_fp8(zl_array x, zl_dtype dtype);

// Products of matrices of x and of w, scales and biases, as zl_quantized_matmul, that the indices name: each
// counts the axes before the last two as one. The indices broadcast, and their shape comes first in the
// result; none are 0, 1, 2 and so on.
ZL_API zl_array zl_gather_qmm(zl_array x, zl_array w, zl_array scales, zl_array biases, zl_array lhs_indices, zl_array rhs_indices, bool transpose, int group_size, int bits, const char *mode, zl_array global_scale, bool sorted_indices);

// Products of matrices of x and transposed ones of w that the indices name, where both are quantised first,
// as zl_qqmm does: each index counts the axes before the last two as one. The indices broadcast, and their
// shape comes first in the result; none are 0, 1, 2 and so on.
ZL_API zl_array zl_gather_qqmm(zl_array x, zl_array w, zl_array scales, zl_array lhs_indices, zl_array rhs_indices, int group_size, int bits, const char *mode, zl_array global_scale_x, zl_array global_scale_w, bool sorted_indices);

// x times the transpose of w, (n, k), where both are quantised first: w may be quantised already, with its
// scales. In a mode of floating-point codes. To derivatives rounding is the identity.
ZL_API zl_array zl_qqmm(zl_array x, zl_array w, zl_array scales, int group_size, int bits, const char *mode, zl_array global_scale_x, zl_array global_scale_w);

// w in few bits: in groups of group_size (16, 32, 64 or 128; None: 64) along the last axis, bits (2 to 6 or
// 8; None: 4) a number. out[0] are the codes, packed into uint32, out[1] the scales and, in mode affine,
// out[2] the biases: a number is scale * code + bias. In the modes mxfp4, mxfp8 and nvfp4, which fix groups
// and bits, the codes are numbers of four or eight bits, the scales bytes, and out[2] is NULL; nvfp4 may have
// a scale for all.
ZL_API bool zl_quantize(zl_array w, int group_size, int bits, const char *mode, zl_array global_scale, zl_array *out);

// x times the matrix that w, scales and biases of zl_quantize stand for or, if transpose, times its
// transpose: of x (..., m, k) and a matrix (n, k) then (..., m, n). The axes before the last two broadcast.
ZL_API zl_array zl_quantized_matmul(zl_array x, zl_array w, zl_array scales, zl_array biases, bool transpose, int group_size, int bits, const char *mode);

// x as numbers of eight bits (e4m3), rounded to the nearest, in uint8; at most 448 in size.
ZL_API zl_array zl_to_fp8(zl_array x);

// sparse

// The elements of a matrix that are not 0 as a sparse matrix: values in out[0], of each its column in out[1],
// and where each row begins in out[2], int32 if that is enough. How many they are depends on a: if count is
// not given, a is evaluated, which cannot be while a function is mapped, compiled or exported. With a count
// nothing is: the first so many are taken, and zeros that belong to no row follow where there are less.
ZL_API bool zl_csr_from_dense(zl_array a, int64_t count, zl_array *out);

// The product of a sparse matrix: values, of each its column, in indices, and where each row begins among
// them, in indptr, which has one element more than rows; entries from its last element on are not used. Where
// it is computed it is an error if indptr does not begin with 0, or falls, or an index is not a column. b,
// (columns, n), is dense, and so is the result. 16-bit floats are added in float32.
ZL_API zl_array zl_csr_matmul(zl_array values, zl_array indices, zl_array indptr, zl_array b);

// The product of a sparse matrix: values, of each its column, in indices, and where each row begins among
// them, in indptr, which has one element more than rows; entries from its last element on are not used. Where
// it is computed it is an error if indptr does not begin with 0, or falls, or an index is not a column. x has
// as many elements as the matrix has columns. 16-bit floats are added in float32.
ZL_API zl_array zl_csr_matvec(zl_array values, zl_array indices, zl_array indptr, zl_array x);

// The dense matrix of so many columns that is a sparse matrix: values, of each its column, in indices, and
// where each row begins among them, in indptr, which has one element more than rows; entries from its last
// element on are not used. Where it is computed it is an error if indptr does not begin with 0, or falls, or
// an index is not a column. Entries at one place are added.
ZL_API zl_array zl_csr_to_dense(zl_array values, zl_array indices, zl_array indptr, int64_t columns);

#ifdef __cplusplus
}
#endif

#endif
