// zellige_checks.h - makes calls of ops that pass a number for an array fail to compile: zellige.h says how.
// Made from src/op by `make generate`; do not edit.

#include "zellige.h" // which includes this file, so that it always comes first

#if !defined(ZELLIGE_CHECKS_H) && !defined(ZL_PLAIN_CALLS)
#define ZELLIGE_CHECKS_H

#ifdef __cplusplus

template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_allclose(T0 a, T1 b, double rtol, double atol, bool equal_nan) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_array_equal(T0 a, T1 b, bool equal_nan) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_isclose(T0 a, T1 b, double rtol, double atol, bool equal_nan) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv1d(T0 input, T1 weight, int stride, int padding, int dilation, int groups) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv2d(T0 input, T1 weight, zl_shape stride, zl_shape padding, zl_shape dilation, int groups) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv3d(T0 input, T1 weight, zl_shape stride, zl_shape padding, zl_shape dilation, int groups) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv_general(T0 input, T1 weight, zl_shape stride, zl_shape padding, zl_shape kernel_dilation, zl_shape input_dilation, int groups, bool flip) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv_transpose1d(T0 input, T1 weight, int stride, int padding, int dilation, int output_padding, int groups) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv_transpose2d(T0 input, T1 weight, zl_shape stride, zl_shape padding, zl_shape dilation, zl_shape output_padding, int groups) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_conv_transpose3d(T0 input, T1 weight, zl_shape stride, zl_shape padding, zl_shape dilation, zl_shape output_padding, int groups) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_convolve(T0 a, T1 v, const char *mode) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_full(zl_shape shape, T0 vals, zl_dtype dtype) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_full_like(T0 a, T1 vals, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_ones_like(T0 a, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_tril(T0 x, int64_t k) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_triu(T0 x, int64_t k) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_zeros_like(T0 a, zl_dtype dtype) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_add(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_arctan2(T0 a, T1 b) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_astype(T0 a, zl_dtype dtype) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_bitwise_and(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_bitwise_or(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_bitwise_xor(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_divide(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_equal(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_floor_divide(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_greater(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_greater_equal(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_left_shift(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_less(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_less_equal(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_logaddexp(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_maximum(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_minimum(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_multiply(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_not_equal(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_power(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_quotient(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_remainder(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_right_shift(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_subtract(T0 a, T1 b) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_where(T0 condition, T1 x, T2 y) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_fast_cross_entropy(T0 logits, T1 targets) = delete;
template <class T0, class T1, class T2, class T3, class T4, class T5, class T6, class T7, class T8, class T9, class T10, class T11>
zl_if_number_<bool, T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11> zl_fast_delta_rule(const char *rule, T0 q, T1 k, T2 v, T3 g, T4 beta, T5 a, T6 b, T7 initial_state, T8 mask, T9 offsets, T10 A_log, T11 dt_bias, double scale, bool l2_norm, bool sigmoid, zl_array *out) = delete;
template <class T0, class T1, class T2, class T3, class T4, class T5, class T6>
zl_if_number_<bool, T0, T1, T2, T3, T4, T5, T6> zl_fast_gated_delta_update(T0 q, T1 k, T2 v, T3 gamma, T4 beta, T5 initial_state, T6 mask, zl_array *out) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_fast_layer_norm(T0 x, T1 weight, T2 bias, double eps) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_fast_rms_norm(T0 x, T1 weight, double eps) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_fast_rope(T0 a, int dims, bool traditional, double base, double scale, T1 offset, T2 freqs) = delete;
template <class T0, class T1, class T2, class T3, class T4>
zl_if_number_<zl_array, T0, T1, T2, T3, T4> zl_fast_scaled_dot_product_attention(T0 q, T1 k, T2 v, double scale, T3 mask, T4 sinks, const char *mask_mode) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_fft(T0 a, int n, int axis, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_fft2(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_fftn(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_fftshift(T0 a, zl_axes axes) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_ifft(T0 a, int n, int axis, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_ifft2(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_ifftn(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_ifftshift(T0 a, zl_axes axes) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_irfft(T0 a, int n, int axis, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_irfft2(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_irfftn(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_fft_istft(T0 stft_matrix, int n_fft, int hop_length, int win_length, T1 window, bool center, const char *norm, int onesided, int length) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_rfft(T0 a, int n, int axis, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_rfft2(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_fft_rfftn(T0 a, zl_shape s, zl_axes axes, const char *norm) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_fft_stft(T0 x, int n_fft, int hop_length, int win_length, T1 window, bool center, const char *pad_mode, const char *norm, int onesided) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_diag(T0 a, int k) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_diagonal(T0 a, int offset, int axis1, int axis2) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_dynamic_slice(T0 a, T1 start_indices, zl_axes axes, zl_shape slice_size) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_dynamic_slice_update(T0 a, T1 update, T2 start_indices, zl_axes axes) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_gather(T0 a, const zl_array *indices, int count, zl_axes axes, zl_shape slice_sizes) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_masked_scatter(T0 a, T1 mask, T2 src) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_put_along_axis(T0 a, T1 indices, T2 values, int axis) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_put_along_axis_flat(T0 a, T1 indices, T2 values) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_scatter(T0 a, const zl_array *indices, int count, T1 updates, zl_axes axes) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_scatter_add(T0 a, const zl_array *indices, int count, T1 updates, zl_axes axes) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_scatter_add_axis(T0 a, T1 indices, T2 values, int axis) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_scatter_max(T0 a, const zl_array *indices, int count, T1 updates, zl_axes axes) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_scatter_min(T0 a, const zl_array *indices, int count, T1 updates, zl_axes axes) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_scatter_prod(T0 a, const zl_array *indices, int count, T1 updates, zl_axes axes) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_slice_update(T0 src, T1 update, zl_shape start, zl_shape stop, zl_shape step) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_slice_update_add(T0 src, T1 update, zl_shape start, zl_shape stop, zl_shape step) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_slice_update_max(T0 src, T1 update, zl_shape start, zl_shape stop, zl_shape step) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_slice_update_min(T0 src, T1 update, zl_shape start, zl_shape stop, zl_shape step) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_slice_update_prod(T0 src, T1 update, zl_shape start, zl_shape stop, zl_shape step) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_take(T0 a, T1 indices, int axis) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_take_along_axis(T0 a, T1 indices, int axis) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_take_along_axis_flat(T0 a, T1 indices) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_take_flat(T0 a, T1 indices) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_linalg_cholesky(T0 a, bool upper) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_linalg_cholesky_inv(T0 a, bool upper) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_linalg_cross(T0 a, T1 b, int axis) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_eig(T0 a, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_eigh(T0 a, const char *UPLO, zl_array *out) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_linalg_eigvalsh(T0 a, const char *UPLO) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_lu(T0 a, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_lu_factor(T0 a, zl_array *out) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_linalg_norm(T0 a, const char *ord, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_qr(T0 a, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_slogdet(T0 a, zl_array *out) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_linalg_solve(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_linalg_solve_triangular(T0 a, T1 b, bool upper) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_linalg_svd(T0 a, bool compute_uv, zl_array *out) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_linalg_tri_inv(T0 a, bool upper) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_clip(T0 a, T1 a_min, T2 a_max) = delete;
template <class T0, class T1>
zl_if_number_<bool, T0, T1> zl_divmod(T0 a, T1 b, zl_array *out) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_logical_and(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_logical_or(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_logical_xor(T0 a, T1 b) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_nan_to_num(T0 a, double nan, double posinf, double neginf) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_round(T0 a, int decimals) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_addmm(T0 c, T1 a, T2 b, double alpha, double beta) = delete;
template <class T0, class T1, class T2, class T3, class T4>
zl_if_number_<zl_array, T0, T1, T2, T3, T4> zl_block_masked_mm(T0 a, T1 b, int block_size, T2 mask_out, T3 mask_lhs, T4 mask_rhs) = delete;
template <class T0, class T1, class T2, class T3>
zl_if_number_<zl_array, T0, T1, T2, T3> zl_gather_mm(T0 a, T1 b, T2 lhs_indices, T3 rhs_indices, bool sorted_indices) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_hadamard_transform(T0 a, double scale) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_inner(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_kron(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_matmul(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_matmul_fp8(T0 a, T1 b, double a_scale, double b_scale, zl_dtype dtype) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_matmul_int8(T0 a, T1 b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_outer(T0 a, T1 b) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_segmented_mm(T0 a, T1 b, T2 segments) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_tensordot(T0 a, T1 b, int axes) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_tensordot_axes(T0 a, T1 b, zl_axes axes_a, zl_axes axes_b) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_vecdot(T0 a, T1 b, int axis) = delete;
template <class T0, class T1, class T2, class T3>
zl_if_number_<zl_array, T0, T1, T2, T3> zl_dequantize(T0 w, T1 scales, T2 biases, int group_size, int bits, const char *mode, T3 global_scale, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_from_fp8(T0 x, zl_dtype dtype) = delete;
template <class T0, class T1, class T2, class T3, class T4, class T5, class T6>
zl_if_number_<zl_array, T0, T1, T2, T3, T4, T5, T6> zl_gather_qmm(T0 x, T1 w, T2 scales, T3 biases, T4 lhs_indices, T5 rhs_indices, bool transpose, int group_size, int bits, const char *mode, T6 global_scale, bool sorted_indices) = delete;
template <class T0, class T1, class T2, class T3, class T4, class T5, class T6>
zl_if_number_<zl_array, T0, T1, T2, T3, T4, T5, T6> zl_gather_qqmm(T0 x, T1 w, T2 scales, T3 lhs_indices, T4 rhs_indices, int group_size, int bits, const char *mode, T5 global_scale_x, T6 global_scale_w, bool sorted_indices) = delete;
template <class T0, class T1, class T2, class T3, class T4>
zl_if_number_<zl_array, T0, T1, T2, T3, T4> zl_qqmm(T0 x, T1 w, T2 scales, int group_size, int bits, const char *mode, T3 global_scale_x, T4 global_scale_w) = delete;
template <class T0, class T1>
zl_if_number_<bool, T0, T1> zl_quantize(T0 w, int group_size, int bits, const char *mode, T1 global_scale, zl_array *out) = delete;
template <class T0, class T1, class T2, class T3>
zl_if_number_<zl_array, T0, T1, T2, T3> zl_quantized_matmul(T0 x, T1 w, T2 scales, T3 biases, bool transpose, int group_size, int bits, const char *mode) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_random_bernoulli(T0 p, zl_shape shape, T1 key) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_random_bits(zl_shape shape, int width, T0 key) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_random_categorical(T0 logits, int axis, zl_shape shape, int num_samples, T1 key) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_random_gumbel(zl_shape shape, zl_dtype dtype, T0 key) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_random_laplace(zl_shape shape, zl_dtype dtype, double loc, double scale, T0 key) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_random_multivariate_normal(T0 mean, T1 cov, zl_shape shape, zl_dtype dtype, T2 key) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_random_normal(zl_shape shape, zl_dtype dtype, T0 loc, T1 scale, T2 key) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_random_permutation(T0 x, int axis, T1 key) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_random_permutation_int(int64_t x, T0 key) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_random_randint(T0 low, T1 high, zl_shape shape, zl_dtype dtype, T2 key) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_random_split(T0 key, int num) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_random_truncated_normal(T0 lower, T1 upper, zl_shape shape, zl_dtype dtype, T2 key) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_random_uniform(T0 low, T1 high, zl_shape shape, zl_dtype dtype, T2 key) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_all_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_all_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_any_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_any_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_argmax_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_argmin_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_count_nonzero_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_count_nonzero_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_logsumexp_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_logsumexp_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_max_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_max_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_mean_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_mean_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_median_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_median_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_min_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_min_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_minmax(T0 a, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_minmax_axes(T0 a, zl_axes axis, bool keepdims, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_minmax_axis(T0 a, int axis, bool keepdims, zl_array *out) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_prod_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_prod_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_softmax(T0 a, int axis, bool precise) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_softmax_axes(T0 a, zl_axes axis, bool precise) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_std(T0 a, int ddof) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_std_axes(T0 a, zl_axes axis, bool keepdims, int ddof) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_std_axis(T0 a, int axis, bool keepdims, int ddof) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_sum_axes(T0 a, zl_axes axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_sum_axis(T0 a, int axis, bool keepdims) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_trace(T0 a, int offset, int axis1, int axis2, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_var(T0 a, int ddof) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_var_axes(T0 a, zl_axes axis, bool keepdims, int ddof) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_var_axis(T0 a, int axis, bool keepdims, int ddof) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cummax(T0 a, int axis, bool reverse, bool inclusive) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cummax_flat(T0 a, bool reverse, bool inclusive) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cummin(T0 a, int axis, bool reverse, bool inclusive) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cummin_flat(T0 a, bool reverse, bool inclusive) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cumprod(T0 a, int axis, bool reverse, bool inclusive, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cumprod_flat(T0 a, bool reverse, bool inclusive, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cumsum(T0 a, int axis, bool reverse, bool inclusive, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_cumsum_flat(T0 a, bool reverse, bool inclusive, zl_dtype dtype) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_logcumsumexp(T0 a, int axis, bool reverse, bool inclusive) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_logcumsumexp_flat(T0 a, bool reverse, bool inclusive) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_diff(T0 a, int n, int axis) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_pad(T0 a, zl_shape low, zl_shape high, T1 constant_values) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_repeat(T0 array, int64_t repeats, int axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_roll(T0 a, zl_shape shift, zl_axes axis) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_split(T0 a, int indices_or_sections, int axis, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_split_at(T0 a, zl_shape indices_or_sections, int axis, zl_array *out) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_tile(T0 a, zl_shape reps) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_unstack(T0 x, int axis, zl_array *out) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_argpartition(T0 a, int kth, int axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_argpartition_flat(T0 a, int kth) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_argsort(T0 a, int axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_partition(T0 a, int kth, int axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_partition_flat(T0 a, int kth) = delete;
template <class T0, class T1>
zl_if_number_<zl_array, T0, T1> zl_searchsorted(T0 sorted_sequence, T1 values, const char *side) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_sort(T0 a, int axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_topk(T0 a, int k, int axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_topk_flat(T0 a, int k) = delete;
template <class T0, class T1>
zl_if_number_<bool, T0, T1> zl_unique(T0 a, int64_t size, bool return_index, bool return_inverse, bool return_counts, T1 fill_value, zl_array *out) = delete;
template <class T0>
zl_if_number_<bool, T0> zl_csr_from_dense(T0 a, int64_t count, zl_array *out) = delete;
template <class T0, class T1, class T2, class T3>
zl_if_number_<zl_array, T0, T1, T2, T3> zl_csr_matmul(T0 values, T1 indices, T2 indptr, T3 b) = delete;
template <class T0, class T1, class T2, class T3>
zl_if_number_<zl_array, T0, T1, T2, T3> zl_csr_matvec(T0 values, T1 indices, T2 indptr, T3 x) = delete;
template <class T0, class T1, class T2>
zl_if_number_<zl_array, T0, T1, T2> zl_csr_to_dense(T0 values, T1 indices, T2 indptr, int64_t columns) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_as_strided(T0 a, zl_shape shape, zl_shape strides, int64_t offset) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_broadcast_to(T0 a, zl_shape shape) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_contiguous(T0 a, bool allow_col_major) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_depends(T0 inputs, const zl_array *dependencies, int count) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_expand_dims(T0 a, zl_axes axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_flatten(T0 a, int start_axis, int end_axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_flip(T0 a, zl_axes axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_moveaxis(T0 a, int source, int destination) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_reshape(T0 a, zl_shape shape) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_slice(T0 a, zl_shape start, zl_shape stop, zl_shape step) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_squeeze(T0 a, zl_axes axis) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_swapaxes(T0 a, int axis1, int axis2) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_transpose(T0 a, zl_axes axes) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_unflatten(T0 a, int axis, zl_shape shape) = delete;
template <class T0>
zl_if_number_<zl_array, T0> zl_view(T0 a, zl_dtype dtype) = delete;

#else

#define ZL_PICK_(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, pick, ...) pick
#define ZL_IF_1_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain)(__VA_ARGS__)
#define ZL_IF_2_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain)(__VA_ARGS__)
#define ZL_IF_3_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_4_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_5_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_6_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_7_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_8_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_9_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_10_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_11_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_12_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_13_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_14_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_15_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_16_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_17_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_18_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)
#define ZL_IF_19_(checked, plain, ...) ZL_PICK_(__VA_ARGS__, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, checked, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain)(__VA_ARGS__)

#define zl_allclose(a, b, rtol, atol, equal_nan) zl_allclose(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), rtol, atol, equal_nan)
#define zl_array_equal(a, b, equal_nan) zl_array_equal(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), equal_nan)
#define zl_isclose(a, b, rtol, atol, equal_nan) zl_isclose(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), rtol, atol, equal_nan)
#define zl_conv1d(input, weight, stride, padding, dilation, groups) zl_conv1d(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, dilation, groups)
#define zl_conv2d_(input, weight, stride, padding, dilation, groups) zl_conv2d(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, dilation, groups)
#define zl_conv2d(...) ZL_IF_6_(zl_conv2d_, zl_conv2d, __VA_ARGS__)
#define zl_conv3d_(input, weight, stride, padding, dilation, groups) zl_conv3d(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, dilation, groups)
#define zl_conv3d(...) ZL_IF_6_(zl_conv3d_, zl_conv3d, __VA_ARGS__)
#define zl_conv_general_(input, weight, stride, padding, kernel_dilation, input_dilation, groups, flip) zl_conv_general(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, kernel_dilation, input_dilation, groups, flip)
#define zl_conv_general(...) ZL_IF_8_(zl_conv_general_, zl_conv_general, __VA_ARGS__)
#define zl_conv_transpose1d(input, weight, stride, padding, dilation, output_padding, groups) zl_conv_transpose1d(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, dilation, output_padding, groups)
#define zl_conv_transpose2d_(input, weight, stride, padding, dilation, output_padding, groups) zl_conv_transpose2d(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, dilation, output_padding, groups)
#define zl_conv_transpose2d(...) ZL_IF_7_(zl_conv_transpose2d_, zl_conv_transpose2d, __VA_ARGS__)
#define zl_conv_transpose3d_(input, weight, stride, padding, dilation, output_padding, groups) zl_conv_transpose3d(ZL_NOT_A_NUMBER_(input), ZL_NOT_A_NUMBER_(weight), stride, padding, dilation, output_padding, groups)
#define zl_conv_transpose3d(...) ZL_IF_7_(zl_conv_transpose3d_, zl_conv_transpose3d, __VA_ARGS__)
#define zl_convolve(a, v, mode) zl_convolve(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(v), mode)
#define zl_full_(shape, vals, dtype) zl_full(shape, ZL_NOT_A_NUMBER_(vals), dtype)
#define zl_full(...) ZL_IF_3_(zl_full_, zl_full, __VA_ARGS__)
#define zl_full_like(a, vals, dtype) zl_full_like(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(vals), dtype)
#define zl_ones_like(a, dtype) zl_ones_like(ZL_NOT_A_NUMBER_(a), dtype)
#define zl_tril(x, k) zl_tril(ZL_NOT_A_NUMBER_(x), k)
#define zl_triu(x, k) zl_triu(ZL_NOT_A_NUMBER_(x), k)
#define zl_zeros_like(a, dtype) zl_zeros_like(ZL_NOT_A_NUMBER_(a), dtype)
#define zl_abs(a) zl_abs(ZL_NOT_A_NUMBER_(a))
#define zl_add(a, b) zl_add(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_arccos(a) zl_arccos(ZL_NOT_A_NUMBER_(a))
#define zl_arccosh(a) zl_arccosh(ZL_NOT_A_NUMBER_(a))
#define zl_arcsin(a) zl_arcsin(ZL_NOT_A_NUMBER_(a))
#define zl_arcsinh(a) zl_arcsinh(ZL_NOT_A_NUMBER_(a))
#define zl_arctan(a) zl_arctan(ZL_NOT_A_NUMBER_(a))
#define zl_arctan2(a, b) zl_arctan2(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_arctanh(a) zl_arctanh(ZL_NOT_A_NUMBER_(a))
#define zl_astype(a, dtype) zl_astype(ZL_NOT_A_NUMBER_(a), dtype)
#define zl_bitwise_and(a, b) zl_bitwise_and(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_bitwise_invert(a) zl_bitwise_invert(ZL_NOT_A_NUMBER_(a))
#define zl_bitwise_or(a, b) zl_bitwise_or(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_bitwise_xor(a, b) zl_bitwise_xor(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_ceil(a) zl_ceil(ZL_NOT_A_NUMBER_(a))
#define zl_conjugate(a) zl_conjugate(ZL_NOT_A_NUMBER_(a))
#define zl_cos(a) zl_cos(ZL_NOT_A_NUMBER_(a))
#define zl_cosh(a) zl_cosh(ZL_NOT_A_NUMBER_(a))
#define zl_divide(a, b) zl_divide(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_equal(a, b) zl_equal(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_erf(a) zl_erf(ZL_NOT_A_NUMBER_(a))
#define zl_erfinv(a) zl_erfinv(ZL_NOT_A_NUMBER_(a))
#define zl_exp(a) zl_exp(ZL_NOT_A_NUMBER_(a))
#define zl_expm1(a) zl_expm1(ZL_NOT_A_NUMBER_(a))
#define zl_floor(a) zl_floor(ZL_NOT_A_NUMBER_(a))
#define zl_floor_divide(a, b) zl_floor_divide(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_greater(a, b) zl_greater(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_greater_equal(a, b) zl_greater_equal(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_imag(a) zl_imag(ZL_NOT_A_NUMBER_(a))
#define zl_left_shift(a, b) zl_left_shift(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_less(a, b) zl_less(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_less_equal(a, b) zl_less_equal(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_log(a) zl_log(ZL_NOT_A_NUMBER_(a))
#define zl_log10(a) zl_log10(ZL_NOT_A_NUMBER_(a))
#define zl_log1p(a) zl_log1p(ZL_NOT_A_NUMBER_(a))
#define zl_log2(a) zl_log2(ZL_NOT_A_NUMBER_(a))
#define zl_logaddexp(a, b) zl_logaddexp(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_maximum(a, b) zl_maximum(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_minimum(a, b) zl_minimum(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_multiply(a, b) zl_multiply(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_negative(a) zl_negative(ZL_NOT_A_NUMBER_(a))
#define zl_not_equal(a, b) zl_not_equal(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_power(a, b) zl_power(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_quotient(a, b) zl_quotient(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_real(a) zl_real(ZL_NOT_A_NUMBER_(a))
#define zl_reciprocal(a) zl_reciprocal(ZL_NOT_A_NUMBER_(a))
#define zl_remainder(a, b) zl_remainder(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_right_shift(a, b) zl_right_shift(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_rint(a) zl_rint(ZL_NOT_A_NUMBER_(a))
#define zl_rsqrt(a) zl_rsqrt(ZL_NOT_A_NUMBER_(a))
#define zl_sigmoid(a) zl_sigmoid(ZL_NOT_A_NUMBER_(a))
#define zl_sign(a) zl_sign(ZL_NOT_A_NUMBER_(a))
#define zl_sin(a) zl_sin(ZL_NOT_A_NUMBER_(a))
#define zl_sinh(a) zl_sinh(ZL_NOT_A_NUMBER_(a))
#define zl_sqrt(a) zl_sqrt(ZL_NOT_A_NUMBER_(a))
#define zl_square(a) zl_square(ZL_NOT_A_NUMBER_(a))
#define zl_subtract(a, b) zl_subtract(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_tan(a) zl_tan(ZL_NOT_A_NUMBER_(a))
#define zl_tanh(a) zl_tanh(ZL_NOT_A_NUMBER_(a))
#define zl_trunc(a) zl_trunc(ZL_NOT_A_NUMBER_(a))
#define zl_where(condition, x, y) zl_where(ZL_NOT_A_NUMBER_(condition), ZL_NOT_A_NUMBER_(x), ZL_NOT_A_NUMBER_(y))
#define zl_fast_cross_entropy(logits, targets) zl_fast_cross_entropy(ZL_NOT_A_NUMBER_(logits), ZL_NOT_A_NUMBER_(targets))
#define zl_fast_delta_rule_(rule, q, k, v, g, beta, a, b, initial_state, mask, offsets, A_log, dt_bias, scale, l2_norm, sigmoid, out) zl_fast_delta_rule(rule, ZL_NOT_A_NUMBER_(q), ZL_NOT_A_NUMBER_(k), ZL_NOT_A_NUMBER_(v), ZL_NULL_OR_ARRAY_(g), ZL_NULL_OR_ARRAY_(beta), ZL_NULL_OR_ARRAY_(a), ZL_NULL_OR_ARRAY_(b), ZL_NULL_OR_ARRAY_(initial_state), ZL_NULL_OR_ARRAY_(mask), ZL_NULL_OR_ARRAY_(offsets), ZL_NULL_OR_ARRAY_(A_log), ZL_NULL_OR_ARRAY_(dt_bias), scale, l2_norm, sigmoid, out)
#define zl_fast_delta_rule(...) ZL_IF_17_(zl_fast_delta_rule_, zl_fast_delta_rule, __VA_ARGS__)
#define zl_fast_gated_delta_update_(q, k, v, gamma, beta, initial_state, mask, out) zl_fast_gated_delta_update(ZL_NOT_A_NUMBER_(q), ZL_NOT_A_NUMBER_(k), ZL_NOT_A_NUMBER_(v), ZL_NOT_A_NUMBER_(gamma), ZL_NOT_A_NUMBER_(beta), ZL_NULL_OR_ARRAY_(initial_state), ZL_NULL_OR_ARRAY_(mask), out)
#define zl_fast_gated_delta_update(...) ZL_IF_8_(zl_fast_gated_delta_update_, zl_fast_gated_delta_update, __VA_ARGS__)
#define zl_fast_layer_norm(x, weight, bias, eps) zl_fast_layer_norm(ZL_NOT_A_NUMBER_(x), ZL_NULL_OR_ARRAY_(weight), ZL_NULL_OR_ARRAY_(bias), eps)
#define zl_fast_rms_norm(x, weight, eps) zl_fast_rms_norm(ZL_NOT_A_NUMBER_(x), ZL_NULL_OR_ARRAY_(weight), eps)
#define zl_fast_rope(a, dims, traditional, base, scale, offset, freqs) zl_fast_rope(ZL_NOT_A_NUMBER_(a), dims, traditional, base, scale, ZL_NOT_A_NUMBER_(offset), ZL_NULL_OR_ARRAY_(freqs))
#define zl_fast_scaled_dot_product_attention(q, k, v, scale, mask, sinks, mask_mode) zl_fast_scaled_dot_product_attention(ZL_NOT_A_NUMBER_(q), ZL_NOT_A_NUMBER_(k), ZL_NOT_A_NUMBER_(v), scale, ZL_NULL_OR_ARRAY_(mask), ZL_NULL_OR_ARRAY_(sinks), mask_mode)
#define zl_fft_fft(a, n, axis, norm) zl_fft_fft(ZL_NOT_A_NUMBER_(a), n, axis, norm)
#define zl_fft_fft2_(a, s, axes, norm) zl_fft_fft2(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_fft2(...) ZL_IF_4_(zl_fft_fft2_, zl_fft_fft2, __VA_ARGS__)
#define zl_fft_fftn_(a, s, axes, norm) zl_fft_fftn(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_fftn(...) ZL_IF_4_(zl_fft_fftn_, zl_fft_fftn, __VA_ARGS__)
#define zl_fft_fftshift_(a, axes) zl_fft_fftshift(ZL_NOT_A_NUMBER_(a), axes)
#define zl_fft_fftshift(...) ZL_IF_2_(zl_fft_fftshift_, zl_fft_fftshift, __VA_ARGS__)
#define zl_fft_ifft(a, n, axis, norm) zl_fft_ifft(ZL_NOT_A_NUMBER_(a), n, axis, norm)
#define zl_fft_ifft2_(a, s, axes, norm) zl_fft_ifft2(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_ifft2(...) ZL_IF_4_(zl_fft_ifft2_, zl_fft_ifft2, __VA_ARGS__)
#define zl_fft_ifftn_(a, s, axes, norm) zl_fft_ifftn(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_ifftn(...) ZL_IF_4_(zl_fft_ifftn_, zl_fft_ifftn, __VA_ARGS__)
#define zl_fft_ifftshift_(a, axes) zl_fft_ifftshift(ZL_NOT_A_NUMBER_(a), axes)
#define zl_fft_ifftshift(...) ZL_IF_2_(zl_fft_ifftshift_, zl_fft_ifftshift, __VA_ARGS__)
#define zl_fft_irfft(a, n, axis, norm) zl_fft_irfft(ZL_NOT_A_NUMBER_(a), n, axis, norm)
#define zl_fft_irfft2_(a, s, axes, norm) zl_fft_irfft2(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_irfft2(...) ZL_IF_4_(zl_fft_irfft2_, zl_fft_irfft2, __VA_ARGS__)
#define zl_fft_irfftn_(a, s, axes, norm) zl_fft_irfftn(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_irfftn(...) ZL_IF_4_(zl_fft_irfftn_, zl_fft_irfftn, __VA_ARGS__)
#define zl_fft_istft(stft_matrix, n_fft, hop_length, win_length, window, center, norm, onesided, length) zl_fft_istft(ZL_NOT_A_NUMBER_(stft_matrix), n_fft, hop_length, win_length, ZL_NULL_OR_ARRAY_(window), center, norm, onesided, length)
#define zl_fft_rfft(a, n, axis, norm) zl_fft_rfft(ZL_NOT_A_NUMBER_(a), n, axis, norm)
#define zl_fft_rfft2_(a, s, axes, norm) zl_fft_rfft2(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_rfft2(...) ZL_IF_4_(zl_fft_rfft2_, zl_fft_rfft2, __VA_ARGS__)
#define zl_fft_rfftn_(a, s, axes, norm) zl_fft_rfftn(ZL_NOT_A_NUMBER_(a), s, axes, norm)
#define zl_fft_rfftn(...) ZL_IF_4_(zl_fft_rfftn_, zl_fft_rfftn, __VA_ARGS__)
#define zl_fft_stft(x, n_fft, hop_length, win_length, window, center, pad_mode, norm, onesided) zl_fft_stft(ZL_NOT_A_NUMBER_(x), n_fft, hop_length, win_length, ZL_NULL_OR_ARRAY_(window), center, pad_mode, norm, onesided)
#define zl_diag(a, k) zl_diag(ZL_NOT_A_NUMBER_(a), k)
#define zl_diagonal(a, offset, axis1, axis2) zl_diagonal(ZL_NOT_A_NUMBER_(a), offset, axis1, axis2)
#define zl_dynamic_slice_(a, start_indices, axes, slice_size) zl_dynamic_slice(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(start_indices), axes, slice_size)
#define zl_dynamic_slice(...) ZL_IF_4_(zl_dynamic_slice_, zl_dynamic_slice, __VA_ARGS__)
#define zl_dynamic_slice_update_(a, update, start_indices, axes) zl_dynamic_slice_update(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(update), ZL_NOT_A_NUMBER_(start_indices), axes)
#define zl_dynamic_slice_update(...) ZL_IF_4_(zl_dynamic_slice_update_, zl_dynamic_slice_update, __VA_ARGS__)
#define zl_gather_(a, indices, count, axes, slice_sizes) zl_gather(ZL_NOT_A_NUMBER_(a), indices, count, axes, slice_sizes)
#define zl_gather(...) ZL_IF_5_(zl_gather_, zl_gather, __VA_ARGS__)
#define zl_masked_scatter(a, mask, src) zl_masked_scatter(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(mask), ZL_NOT_A_NUMBER_(src))
#define zl_put_along_axis(a, indices, values, axis) zl_put_along_axis(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices), ZL_NOT_A_NUMBER_(values), axis)
#define zl_put_along_axis_flat(a, indices, values) zl_put_along_axis_flat(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices), ZL_NOT_A_NUMBER_(values))
#define zl_scatter_(a, indices, count, updates, axes) zl_scatter(ZL_NOT_A_NUMBER_(a), indices, count, ZL_NOT_A_NUMBER_(updates), axes)
#define zl_scatter(...) ZL_IF_5_(zl_scatter_, zl_scatter, __VA_ARGS__)
#define zl_scatter_add_(a, indices, count, updates, axes) zl_scatter_add(ZL_NOT_A_NUMBER_(a), indices, count, ZL_NOT_A_NUMBER_(updates), axes)
#define zl_scatter_add(...) ZL_IF_5_(zl_scatter_add_, zl_scatter_add, __VA_ARGS__)
#define zl_scatter_add_axis(a, indices, values, axis) zl_scatter_add_axis(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices), ZL_NOT_A_NUMBER_(values), axis)
#define zl_scatter_max_(a, indices, count, updates, axes) zl_scatter_max(ZL_NOT_A_NUMBER_(a), indices, count, ZL_NOT_A_NUMBER_(updates), axes)
#define zl_scatter_max(...) ZL_IF_5_(zl_scatter_max_, zl_scatter_max, __VA_ARGS__)
#define zl_scatter_min_(a, indices, count, updates, axes) zl_scatter_min(ZL_NOT_A_NUMBER_(a), indices, count, ZL_NOT_A_NUMBER_(updates), axes)
#define zl_scatter_min(...) ZL_IF_5_(zl_scatter_min_, zl_scatter_min, __VA_ARGS__)
#define zl_scatter_prod_(a, indices, count, updates, axes) zl_scatter_prod(ZL_NOT_A_NUMBER_(a), indices, count, ZL_NOT_A_NUMBER_(updates), axes)
#define zl_scatter_prod(...) ZL_IF_5_(zl_scatter_prod_, zl_scatter_prod, __VA_ARGS__)
#define zl_slice_update_(src, update, start, stop, step) zl_slice_update(ZL_NOT_A_NUMBER_(src), ZL_NOT_A_NUMBER_(update), start, stop, step)
#define zl_slice_update(...) ZL_IF_5_(zl_slice_update_, zl_slice_update, __VA_ARGS__)
#define zl_slice_update_add_(src, update, start, stop, step) zl_slice_update_add(ZL_NOT_A_NUMBER_(src), ZL_NOT_A_NUMBER_(update), start, stop, step)
#define zl_slice_update_add(...) ZL_IF_5_(zl_slice_update_add_, zl_slice_update_add, __VA_ARGS__)
#define zl_slice_update_max_(src, update, start, stop, step) zl_slice_update_max(ZL_NOT_A_NUMBER_(src), ZL_NOT_A_NUMBER_(update), start, stop, step)
#define zl_slice_update_max(...) ZL_IF_5_(zl_slice_update_max_, zl_slice_update_max, __VA_ARGS__)
#define zl_slice_update_min_(src, update, start, stop, step) zl_slice_update_min(ZL_NOT_A_NUMBER_(src), ZL_NOT_A_NUMBER_(update), start, stop, step)
#define zl_slice_update_min(...) ZL_IF_5_(zl_slice_update_min_, zl_slice_update_min, __VA_ARGS__)
#define zl_slice_update_prod_(src, update, start, stop, step) zl_slice_update_prod(ZL_NOT_A_NUMBER_(src), ZL_NOT_A_NUMBER_(update), start, stop, step)
#define zl_slice_update_prod(...) ZL_IF_5_(zl_slice_update_prod_, zl_slice_update_prod, __VA_ARGS__)
#define zl_take(a, indices, axis) zl_take(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices), axis)
#define zl_take_along_axis(a, indices, axis) zl_take_along_axis(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices), axis)
#define zl_take_along_axis_flat(a, indices) zl_take_along_axis_flat(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices))
#define zl_take_flat(a, indices) zl_take_flat(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(indices))
#define zl_linalg_cholesky(a, upper) zl_linalg_cholesky(ZL_NOT_A_NUMBER_(a), upper)
#define zl_linalg_cholesky_inv(a, upper) zl_linalg_cholesky_inv(ZL_NOT_A_NUMBER_(a), upper)
#define zl_linalg_cross(a, b, axis) zl_linalg_cross(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), axis)
#define zl_linalg_det(a) zl_linalg_det(ZL_NOT_A_NUMBER_(a))
#define zl_linalg_eig_(a, out) zl_linalg_eig(ZL_NOT_A_NUMBER_(a), out)
#define zl_linalg_eig(...) ZL_IF_2_(zl_linalg_eig_, zl_linalg_eig, __VA_ARGS__)
#define zl_linalg_eigh_(a, UPLO, out) zl_linalg_eigh(ZL_NOT_A_NUMBER_(a), UPLO, out)
#define zl_linalg_eigh(...) ZL_IF_3_(zl_linalg_eigh_, zl_linalg_eigh, __VA_ARGS__)
#define zl_linalg_eigvals(a) zl_linalg_eigvals(ZL_NOT_A_NUMBER_(a))
#define zl_linalg_eigvalsh(a, UPLO) zl_linalg_eigvalsh(ZL_NOT_A_NUMBER_(a), UPLO)
#define zl_linalg_inv(a) zl_linalg_inv(ZL_NOT_A_NUMBER_(a))
#define zl_linalg_lu_(a, out) zl_linalg_lu(ZL_NOT_A_NUMBER_(a), out)
#define zl_linalg_lu(...) ZL_IF_2_(zl_linalg_lu_, zl_linalg_lu, __VA_ARGS__)
#define zl_linalg_lu_factor_(a, out) zl_linalg_lu_factor(ZL_NOT_A_NUMBER_(a), out)
#define zl_linalg_lu_factor(...) ZL_IF_2_(zl_linalg_lu_factor_, zl_linalg_lu_factor, __VA_ARGS__)
#define zl_linalg_norm_(a, ord, axis, keepdims) zl_linalg_norm(ZL_NOT_A_NUMBER_(a), ord, axis, keepdims)
#define zl_linalg_norm(...) ZL_IF_4_(zl_linalg_norm_, zl_linalg_norm, __VA_ARGS__)
#define zl_linalg_pinv(a) zl_linalg_pinv(ZL_NOT_A_NUMBER_(a))
#define zl_linalg_qr_(a, out) zl_linalg_qr(ZL_NOT_A_NUMBER_(a), out)
#define zl_linalg_qr(...) ZL_IF_2_(zl_linalg_qr_, zl_linalg_qr, __VA_ARGS__)
#define zl_linalg_slogdet_(a, out) zl_linalg_slogdet(ZL_NOT_A_NUMBER_(a), out)
#define zl_linalg_slogdet(...) ZL_IF_2_(zl_linalg_slogdet_, zl_linalg_slogdet, __VA_ARGS__)
#define zl_linalg_solve(a, b) zl_linalg_solve(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_linalg_solve_triangular(a, b, upper) zl_linalg_solve_triangular(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), upper)
#define zl_linalg_svd_(a, compute_uv, out) zl_linalg_svd(ZL_NOT_A_NUMBER_(a), compute_uv, out)
#define zl_linalg_svd(...) ZL_IF_3_(zl_linalg_svd_, zl_linalg_svd, __VA_ARGS__)
#define zl_linalg_tri_inv(a, upper) zl_linalg_tri_inv(ZL_NOT_A_NUMBER_(a), upper)
#define zl_clip(a, a_min, a_max) zl_clip(ZL_NOT_A_NUMBER_(a), ZL_NULL_OR_ARRAY_(a_min), ZL_NULL_OR_ARRAY_(a_max))
#define zl_degrees(a) zl_degrees(ZL_NOT_A_NUMBER_(a))
#define zl_divmod_(a, b, out) zl_divmod(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), out)
#define zl_divmod(...) ZL_IF_3_(zl_divmod_, zl_divmod, __VA_ARGS__)
#define zl_isfinite(a) zl_isfinite(ZL_NOT_A_NUMBER_(a))
#define zl_isinf(a) zl_isinf(ZL_NOT_A_NUMBER_(a))
#define zl_isnan(a) zl_isnan(ZL_NOT_A_NUMBER_(a))
#define zl_isneginf(a) zl_isneginf(ZL_NOT_A_NUMBER_(a))
#define zl_isposinf(a) zl_isposinf(ZL_NOT_A_NUMBER_(a))
#define zl_logical_and(a, b) zl_logical_and(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_logical_not(a) zl_logical_not(ZL_NOT_A_NUMBER_(a))
#define zl_logical_or(a, b) zl_logical_or(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_logical_xor(a, b) zl_logical_xor(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_nan_to_num(a, nan, posinf, neginf) zl_nan_to_num(ZL_NOT_A_NUMBER_(a), nan, posinf, neginf)
#define zl_positive(a) zl_positive(ZL_NOT_A_NUMBER_(a))
#define zl_radians(a) zl_radians(ZL_NOT_A_NUMBER_(a))
#define zl_round(a, decimals) zl_round(ZL_NOT_A_NUMBER_(a), decimals)
#define zl_addmm(c, a, b, alpha, beta) zl_addmm(ZL_NOT_A_NUMBER_(c), ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), alpha, beta)
#define zl_block_masked_mm(a, b, block_size, mask_out, mask_lhs, mask_rhs) zl_block_masked_mm(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), block_size, ZL_NULL_OR_ARRAY_(mask_out), ZL_NULL_OR_ARRAY_(mask_lhs), ZL_NULL_OR_ARRAY_(mask_rhs))
#define zl_gather_mm(a, b, lhs_indices, rhs_indices, sorted_indices) zl_gather_mm(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), ZL_NULL_OR_ARRAY_(lhs_indices), ZL_NULL_OR_ARRAY_(rhs_indices), sorted_indices)
#define zl_hadamard_transform(a, scale) zl_hadamard_transform(ZL_NOT_A_NUMBER_(a), scale)
#define zl_inner(a, b) zl_inner(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_kron(a, b) zl_kron(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_matmul(a, b) zl_matmul(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_matmul_fp8(a, b, a_scale, b_scale, dtype) zl_matmul_fp8(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), a_scale, b_scale, dtype)
#define zl_matmul_int8(a, b) zl_matmul_int8(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_outer(a, b) zl_outer(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b))
#define zl_segmented_mm(a, b, segments) zl_segmented_mm(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), ZL_NOT_A_NUMBER_(segments))
#define zl_tensordot(a, b, axes) zl_tensordot(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), axes)
#define zl_tensordot_axes_(a, b, axes_a, axes_b) zl_tensordot_axes(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), axes_a, axes_b)
#define zl_tensordot_axes(...) ZL_IF_4_(zl_tensordot_axes_, zl_tensordot_axes, __VA_ARGS__)
#define zl_vecdot(a, b, axis) zl_vecdot(ZL_NOT_A_NUMBER_(a), ZL_NOT_A_NUMBER_(b), axis)
#define zl_dequantize(w, scales, biases, group_size, bits, mode, global_scale, dtype) zl_dequantize(ZL_NOT_A_NUMBER_(w), ZL_NOT_A_NUMBER_(scales), ZL_NULL_OR_ARRAY_(biases), group_size, bits, mode, ZL_NULL_OR_ARRAY_(global_scale), dtype)
#define zl_from_fp8(x, dtype) zl_from_fp8(ZL_NOT_A_NUMBER_(x), dtype)
#define zl_gather_qmm(x, w, scales, biases, lhs_indices, rhs_indices, transpose, group_size, bits, mode, global_scale, sorted_indices) zl_gather_qmm(ZL_NOT_A_NUMBER_(x), ZL_NOT_A_NUMBER_(w), ZL_NOT_A_NUMBER_(scales), ZL_NULL_OR_ARRAY_(biases), ZL_NULL_OR_ARRAY_(lhs_indices), ZL_NULL_OR_ARRAY_(rhs_indices), transpose, group_size, bits, mode, ZL_NULL_OR_ARRAY_(global_scale), sorted_indices)
#define zl_gather_qqmm(x, w, scales, lhs_indices, rhs_indices, group_size, bits, mode, global_scale_x, global_scale_w, sorted_indices) zl_gather_qqmm(ZL_NOT_A_NUMBER_(x), ZL_NOT_A_NUMBER_(w), ZL_NULL_OR_ARRAY_(scales), ZL_NULL_OR_ARRAY_(lhs_indices), ZL_NULL_OR_ARRAY_(rhs_indices), group_size, bits, mode, ZL_NULL_OR_ARRAY_(global_scale_x), ZL_NULL_OR_ARRAY_(global_scale_w), sorted_indices)
#define zl_qqmm(x, w, scales, group_size, bits, mode, global_scale_x, global_scale_w) zl_qqmm(ZL_NOT_A_NUMBER_(x), ZL_NOT_A_NUMBER_(w), ZL_NULL_OR_ARRAY_(scales), group_size, bits, mode, ZL_NULL_OR_ARRAY_(global_scale_x), ZL_NULL_OR_ARRAY_(global_scale_w))
#define zl_quantize_(w, group_size, bits, mode, global_scale, out) zl_quantize(ZL_NOT_A_NUMBER_(w), group_size, bits, mode, ZL_NULL_OR_ARRAY_(global_scale), out)
#define zl_quantize(...) ZL_IF_6_(zl_quantize_, zl_quantize, __VA_ARGS__)
#define zl_quantized_matmul(x, w, scales, biases, transpose, group_size, bits, mode) zl_quantized_matmul(ZL_NOT_A_NUMBER_(x), ZL_NOT_A_NUMBER_(w), ZL_NOT_A_NUMBER_(scales), ZL_NULL_OR_ARRAY_(biases), transpose, group_size, bits, mode)
#define zl_to_fp8(x) zl_to_fp8(ZL_NOT_A_NUMBER_(x))
#define zl_random_bernoulli_(p, shape, key) zl_random_bernoulli(ZL_NOT_A_NUMBER_(p), shape, ZL_NULL_OR_ARRAY_(key))
#define zl_random_bernoulli(...) ZL_IF_3_(zl_random_bernoulli_, zl_random_bernoulli, __VA_ARGS__)
#define zl_random_bits_(shape, width, key) zl_random_bits(shape, width, ZL_NULL_OR_ARRAY_(key))
#define zl_random_bits(...) ZL_IF_3_(zl_random_bits_, zl_random_bits, __VA_ARGS__)
#define zl_random_categorical_(logits, axis, shape, num_samples, key) zl_random_categorical(ZL_NOT_A_NUMBER_(logits), axis, shape, num_samples, ZL_NULL_OR_ARRAY_(key))
#define zl_random_categorical(...) ZL_IF_5_(zl_random_categorical_, zl_random_categorical, __VA_ARGS__)
#define zl_random_gumbel_(shape, dtype, key) zl_random_gumbel(shape, dtype, ZL_NULL_OR_ARRAY_(key))
#define zl_random_gumbel(...) ZL_IF_3_(zl_random_gumbel_, zl_random_gumbel, __VA_ARGS__)
#define zl_random_laplace_(shape, dtype, loc, scale, key) zl_random_laplace(shape, dtype, loc, scale, ZL_NULL_OR_ARRAY_(key))
#define zl_random_laplace(...) ZL_IF_5_(zl_random_laplace_, zl_random_laplace, __VA_ARGS__)
#define zl_random_multivariate_normal_(mean, cov, shape, dtype, key) zl_random_multivariate_normal(ZL_NOT_A_NUMBER_(mean), ZL_NOT_A_NUMBER_(cov), shape, dtype, ZL_NULL_OR_ARRAY_(key))
#define zl_random_multivariate_normal(...) ZL_IF_5_(zl_random_multivariate_normal_, zl_random_multivariate_normal, __VA_ARGS__)
#define zl_random_normal_(shape, dtype, loc, scale, key) zl_random_normal(shape, dtype, ZL_NULL_OR_ARRAY_(loc), ZL_NULL_OR_ARRAY_(scale), ZL_NULL_OR_ARRAY_(key))
#define zl_random_normal(...) ZL_IF_5_(zl_random_normal_, zl_random_normal, __VA_ARGS__)
#define zl_random_permutation(x, axis, key) zl_random_permutation(ZL_NOT_A_NUMBER_(x), axis, ZL_NULL_OR_ARRAY_(key))
#define zl_random_permutation_int(x, key) zl_random_permutation_int(x, ZL_NULL_OR_ARRAY_(key))
#define zl_random_randint_(low, high, shape, dtype, key) zl_random_randint(ZL_NOT_A_NUMBER_(low), ZL_NOT_A_NUMBER_(high), shape, dtype, ZL_NULL_OR_ARRAY_(key))
#define zl_random_randint(...) ZL_IF_5_(zl_random_randint_, zl_random_randint, __VA_ARGS__)
#define zl_random_split(key, num) zl_random_split(ZL_NOT_A_NUMBER_(key), num)
#define zl_random_truncated_normal_(lower, upper, shape, dtype, key) zl_random_truncated_normal(ZL_NOT_A_NUMBER_(lower), ZL_NOT_A_NUMBER_(upper), shape, dtype, ZL_NULL_OR_ARRAY_(key))
#define zl_random_truncated_normal(...) ZL_IF_5_(zl_random_truncated_normal_, zl_random_truncated_normal, __VA_ARGS__)
#define zl_random_uniform_(low, high, shape, dtype, key) zl_random_uniform(ZL_NOT_A_NUMBER_(low), ZL_NOT_A_NUMBER_(high), shape, dtype, ZL_NULL_OR_ARRAY_(key))
#define zl_random_uniform(...) ZL_IF_5_(zl_random_uniform_, zl_random_uniform, __VA_ARGS__)
#define zl_all(a) zl_all(ZL_NOT_A_NUMBER_(a))
#define zl_all_axes_(a, axis, keepdims) zl_all_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_all_axes(...) ZL_IF_3_(zl_all_axes_, zl_all_axes, __VA_ARGS__)
#define zl_all_axis(a, axis, keepdims) zl_all_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_any(a) zl_any(ZL_NOT_A_NUMBER_(a))
#define zl_any_axes_(a, axis, keepdims) zl_any_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_any_axes(...) ZL_IF_3_(zl_any_axes_, zl_any_axes, __VA_ARGS__)
#define zl_any_axis(a, axis, keepdims) zl_any_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_argmax(a) zl_argmax(ZL_NOT_A_NUMBER_(a))
#define zl_argmax_axis(a, axis, keepdims) zl_argmax_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_argmin(a) zl_argmin(ZL_NOT_A_NUMBER_(a))
#define zl_argmin_axis(a, axis, keepdims) zl_argmin_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_count_nonzero(a) zl_count_nonzero(ZL_NOT_A_NUMBER_(a))
#define zl_count_nonzero_axes_(a, axis, keepdims) zl_count_nonzero_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_count_nonzero_axes(...) ZL_IF_3_(zl_count_nonzero_axes_, zl_count_nonzero_axes, __VA_ARGS__)
#define zl_count_nonzero_axis(a, axis, keepdims) zl_count_nonzero_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_logsumexp(a) zl_logsumexp(ZL_NOT_A_NUMBER_(a))
#define zl_logsumexp_axes_(a, axis, keepdims) zl_logsumexp_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_logsumexp_axes(...) ZL_IF_3_(zl_logsumexp_axes_, zl_logsumexp_axes, __VA_ARGS__)
#define zl_logsumexp_axis(a, axis, keepdims) zl_logsumexp_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_max(a) zl_max(ZL_NOT_A_NUMBER_(a))
#define zl_max_axes_(a, axis, keepdims) zl_max_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_max_axes(...) ZL_IF_3_(zl_max_axes_, zl_max_axes, __VA_ARGS__)
#define zl_max_axis(a, axis, keepdims) zl_max_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_mean(a) zl_mean(ZL_NOT_A_NUMBER_(a))
#define zl_mean_axes_(a, axis, keepdims) zl_mean_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_mean_axes(...) ZL_IF_3_(zl_mean_axes_, zl_mean_axes, __VA_ARGS__)
#define zl_mean_axis(a, axis, keepdims) zl_mean_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_median(a) zl_median(ZL_NOT_A_NUMBER_(a))
#define zl_median_axes_(a, axis, keepdims) zl_median_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_median_axes(...) ZL_IF_3_(zl_median_axes_, zl_median_axes, __VA_ARGS__)
#define zl_median_axis(a, axis, keepdims) zl_median_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_min(a) zl_min(ZL_NOT_A_NUMBER_(a))
#define zl_min_axes_(a, axis, keepdims) zl_min_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_min_axes(...) ZL_IF_3_(zl_min_axes_, zl_min_axes, __VA_ARGS__)
#define zl_min_axis(a, axis, keepdims) zl_min_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_minmax_(a, out) zl_minmax(ZL_NOT_A_NUMBER_(a), out)
#define zl_minmax(...) ZL_IF_2_(zl_minmax_, zl_minmax, __VA_ARGS__)
#define zl_minmax_axes_(a, axis, keepdims, out) zl_minmax_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims, out)
#define zl_minmax_axes(...) ZL_IF_4_(zl_minmax_axes_, zl_minmax_axes, __VA_ARGS__)
#define zl_minmax_axis_(a, axis, keepdims, out) zl_minmax_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims, out)
#define zl_minmax_axis(...) ZL_IF_4_(zl_minmax_axis_, zl_minmax_axis, __VA_ARGS__)
#define zl_prod(a) zl_prod(ZL_NOT_A_NUMBER_(a))
#define zl_prod_axes_(a, axis, keepdims) zl_prod_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_prod_axes(...) ZL_IF_3_(zl_prod_axes_, zl_prod_axes, __VA_ARGS__)
#define zl_prod_axis(a, axis, keepdims) zl_prod_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_softmax(a, axis, precise) zl_softmax(ZL_NOT_A_NUMBER_(a), axis, precise)
#define zl_softmax_axes_(a, axis, precise) zl_softmax_axes(ZL_NOT_A_NUMBER_(a), axis, precise)
#define zl_softmax_axes(...) ZL_IF_3_(zl_softmax_axes_, zl_softmax_axes, __VA_ARGS__)
#define zl_std(a, ddof) zl_std(ZL_NOT_A_NUMBER_(a), ddof)
#define zl_std_axes_(a, axis, keepdims, ddof) zl_std_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims, ddof)
#define zl_std_axes(...) ZL_IF_4_(zl_std_axes_, zl_std_axes, __VA_ARGS__)
#define zl_std_axis(a, axis, keepdims, ddof) zl_std_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims, ddof)
#define zl_sum(a) zl_sum(ZL_NOT_A_NUMBER_(a))
#define zl_sum_axes_(a, axis, keepdims) zl_sum_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_sum_axes(...) ZL_IF_3_(zl_sum_axes_, zl_sum_axes, __VA_ARGS__)
#define zl_sum_axis(a, axis, keepdims) zl_sum_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims)
#define zl_trace(a, offset, axis1, axis2, dtype) zl_trace(ZL_NOT_A_NUMBER_(a), offset, axis1, axis2, dtype)
#define zl_var(a, ddof) zl_var(ZL_NOT_A_NUMBER_(a), ddof)
#define zl_var_axes_(a, axis, keepdims, ddof) zl_var_axes(ZL_NOT_A_NUMBER_(a), axis, keepdims, ddof)
#define zl_var_axes(...) ZL_IF_4_(zl_var_axes_, zl_var_axes, __VA_ARGS__)
#define zl_var_axis(a, axis, keepdims, ddof) zl_var_axis(ZL_NOT_A_NUMBER_(a), axis, keepdims, ddof)
#define zl_cummax(a, axis, reverse, inclusive) zl_cummax(ZL_NOT_A_NUMBER_(a), axis, reverse, inclusive)
#define zl_cummax_flat(a, reverse, inclusive) zl_cummax_flat(ZL_NOT_A_NUMBER_(a), reverse, inclusive)
#define zl_cummin(a, axis, reverse, inclusive) zl_cummin(ZL_NOT_A_NUMBER_(a), axis, reverse, inclusive)
#define zl_cummin_flat(a, reverse, inclusive) zl_cummin_flat(ZL_NOT_A_NUMBER_(a), reverse, inclusive)
#define zl_cumprod(a, axis, reverse, inclusive, dtype) zl_cumprod(ZL_NOT_A_NUMBER_(a), axis, reverse, inclusive, dtype)
#define zl_cumprod_flat(a, reverse, inclusive, dtype) zl_cumprod_flat(ZL_NOT_A_NUMBER_(a), reverse, inclusive, dtype)
#define zl_cumsum(a, axis, reverse, inclusive, dtype) zl_cumsum(ZL_NOT_A_NUMBER_(a), axis, reverse, inclusive, dtype)
#define zl_cumsum_flat(a, reverse, inclusive, dtype) zl_cumsum_flat(ZL_NOT_A_NUMBER_(a), reverse, inclusive, dtype)
#define zl_logcumsumexp(a, axis, reverse, inclusive) zl_logcumsumexp(ZL_NOT_A_NUMBER_(a), axis, reverse, inclusive)
#define zl_logcumsumexp_flat(a, reverse, inclusive) zl_logcumsumexp_flat(ZL_NOT_A_NUMBER_(a), reverse, inclusive)
#define zl_diff(a, n, axis) zl_diff(ZL_NOT_A_NUMBER_(a), n, axis)
#define zl_pad_(a, low, high, constant_values) zl_pad(ZL_NOT_A_NUMBER_(a), low, high, ZL_NOT_A_NUMBER_(constant_values))
#define zl_pad(...) ZL_IF_4_(zl_pad_, zl_pad, __VA_ARGS__)
#define zl_repeat(array, repeats, axis) zl_repeat(ZL_NOT_A_NUMBER_(array), repeats, axis)
#define zl_roll_(a, shift, axis) zl_roll(ZL_NOT_A_NUMBER_(a), shift, axis)
#define zl_roll(...) ZL_IF_3_(zl_roll_, zl_roll, __VA_ARGS__)
#define zl_split_(a, indices_or_sections, axis, out) zl_split(ZL_NOT_A_NUMBER_(a), indices_or_sections, axis, out)
#define zl_split(...) ZL_IF_4_(zl_split_, zl_split, __VA_ARGS__)
#define zl_split_at_(a, indices_or_sections, axis, out) zl_split_at(ZL_NOT_A_NUMBER_(a), indices_or_sections, axis, out)
#define zl_split_at(...) ZL_IF_4_(zl_split_at_, zl_split_at, __VA_ARGS__)
#define zl_tile_(a, reps) zl_tile(ZL_NOT_A_NUMBER_(a), reps)
#define zl_tile(...) ZL_IF_2_(zl_tile_, zl_tile, __VA_ARGS__)
#define zl_unstack_(x, axis, out) zl_unstack(ZL_NOT_A_NUMBER_(x), axis, out)
#define zl_unstack(...) ZL_IF_3_(zl_unstack_, zl_unstack, __VA_ARGS__)
#define zl_argpartition(a, kth, axis) zl_argpartition(ZL_NOT_A_NUMBER_(a), kth, axis)
#define zl_argpartition_flat(a, kth) zl_argpartition_flat(ZL_NOT_A_NUMBER_(a), kth)
#define zl_argsort(a, axis) zl_argsort(ZL_NOT_A_NUMBER_(a), axis)
#define zl_argsort_flat(a) zl_argsort_flat(ZL_NOT_A_NUMBER_(a))
#define zl_partition(a, kth, axis) zl_partition(ZL_NOT_A_NUMBER_(a), kth, axis)
#define zl_partition_flat(a, kth) zl_partition_flat(ZL_NOT_A_NUMBER_(a), kth)
#define zl_searchsorted(sorted_sequence, values, side) zl_searchsorted(ZL_NOT_A_NUMBER_(sorted_sequence), ZL_NOT_A_NUMBER_(values), side)
#define zl_sort(a, axis) zl_sort(ZL_NOT_A_NUMBER_(a), axis)
#define zl_sort_flat(a) zl_sort_flat(ZL_NOT_A_NUMBER_(a))
#define zl_topk(a, k, axis) zl_topk(ZL_NOT_A_NUMBER_(a), k, axis)
#define zl_topk_flat(a, k) zl_topk_flat(ZL_NOT_A_NUMBER_(a), k)
#define zl_unique_(a, size, return_index, return_inverse, return_counts, fill_value, out) zl_unique(ZL_NOT_A_NUMBER_(a), size, return_index, return_inverse, return_counts, ZL_NULL_OR_ARRAY_(fill_value), out)
#define zl_unique(...) ZL_IF_7_(zl_unique_, zl_unique, __VA_ARGS__)
#define zl_csr_from_dense_(a, count, out) zl_csr_from_dense(ZL_NOT_A_NUMBER_(a), count, out)
#define zl_csr_from_dense(...) ZL_IF_3_(zl_csr_from_dense_, zl_csr_from_dense, __VA_ARGS__)
#define zl_csr_matmul(values, indices, indptr, b) zl_csr_matmul(ZL_NOT_A_NUMBER_(values), ZL_NOT_A_NUMBER_(indices), ZL_NOT_A_NUMBER_(indptr), ZL_NOT_A_NUMBER_(b))
#define zl_csr_matvec(values, indices, indptr, x) zl_csr_matvec(ZL_NOT_A_NUMBER_(values), ZL_NOT_A_NUMBER_(indices), ZL_NOT_A_NUMBER_(indptr), ZL_NOT_A_NUMBER_(x))
#define zl_csr_to_dense(values, indices, indptr, columns) zl_csr_to_dense(ZL_NOT_A_NUMBER_(values), ZL_NOT_A_NUMBER_(indices), ZL_NOT_A_NUMBER_(indptr), columns)
#define zl_as_strided_(a, shape, strides, offset) zl_as_strided(ZL_NOT_A_NUMBER_(a), shape, strides, offset)
#define zl_as_strided(...) ZL_IF_4_(zl_as_strided_, zl_as_strided, __VA_ARGS__)
#define zl_atleast_1d(a) zl_atleast_1d(ZL_NOT_A_NUMBER_(a))
#define zl_atleast_2d(a) zl_atleast_2d(ZL_NOT_A_NUMBER_(a))
#define zl_atleast_3d(a) zl_atleast_3d(ZL_NOT_A_NUMBER_(a))
#define zl_broadcast_to_(a, shape) zl_broadcast_to(ZL_NOT_A_NUMBER_(a), shape)
#define zl_broadcast_to(...) ZL_IF_2_(zl_broadcast_to_, zl_broadcast_to, __VA_ARGS__)
#define zl_contiguous(a, allow_col_major) zl_contiguous(ZL_NOT_A_NUMBER_(a), allow_col_major)
#define zl_depends_(inputs, dependencies, count) zl_depends(ZL_NOT_A_NUMBER_(inputs), dependencies, count)
#define zl_depends(...) ZL_IF_3_(zl_depends_, zl_depends, __VA_ARGS__)
#define zl_expand_dims_(a, axis) zl_expand_dims(ZL_NOT_A_NUMBER_(a), axis)
#define zl_expand_dims(...) ZL_IF_2_(zl_expand_dims_, zl_expand_dims, __VA_ARGS__)
#define zl_flatten(a, start_axis, end_axis) zl_flatten(ZL_NOT_A_NUMBER_(a), start_axis, end_axis)
#define zl_flip_(a, axis) zl_flip(ZL_NOT_A_NUMBER_(a), axis)
#define zl_flip(...) ZL_IF_2_(zl_flip_, zl_flip, __VA_ARGS__)
#define zl_matrix_transpose(a) zl_matrix_transpose(ZL_NOT_A_NUMBER_(a))
#define zl_moveaxis(a, source, destination) zl_moveaxis(ZL_NOT_A_NUMBER_(a), source, destination)
#define zl_reshape_(a, shape) zl_reshape(ZL_NOT_A_NUMBER_(a), shape)
#define zl_reshape(...) ZL_IF_2_(zl_reshape_, zl_reshape, __VA_ARGS__)
#define zl_slice_(a, start, stop, step) zl_slice(ZL_NOT_A_NUMBER_(a), start, stop, step)
#define zl_slice(...) ZL_IF_4_(zl_slice_, zl_slice, __VA_ARGS__)
#define zl_squeeze_(a, axis) zl_squeeze(ZL_NOT_A_NUMBER_(a), axis)
#define zl_squeeze(...) ZL_IF_2_(zl_squeeze_, zl_squeeze, __VA_ARGS__)
#define zl_stop_gradient(a) zl_stop_gradient(ZL_NOT_A_NUMBER_(a))
#define zl_swapaxes(a, axis1, axis2) zl_swapaxes(ZL_NOT_A_NUMBER_(a), axis1, axis2)
#define zl_transpose_(a, axes) zl_transpose(ZL_NOT_A_NUMBER_(a), axes)
#define zl_transpose(...) ZL_IF_2_(zl_transpose_, zl_transpose, __VA_ARGS__)
#define zl_unflatten_(a, axis, shape) zl_unflatten(ZL_NOT_A_NUMBER_(a), axis, shape)
#define zl_unflatten(...) ZL_IF_3_(zl_unflatten_, zl_unflatten, __VA_ARGS__)
#define zl_view(a, dtype) zl_view(ZL_NOT_A_NUMBER_(a), dtype)

#endif

#endif
