// qqmm.c - products of two quantised matrices. The left one is quantised here; the right one may be quantised
// already. Derivatives treat rounding as the identity, so that quantised training has gradients.

#include "op/ops.h"

#include <string.h>

struct pair {
    const char *function;
    zl_array x, w, scales; // scales: NULL if w is not quantised yet
    zl_array global_x, global_w;
    struct quantization q;
    const char *mode;
};

// Returns x quantised and dequantised again, in its own dtype.
static zl_array rounded(zl_array x, const struct pair *p, zl_array global) {
    zl_array part[3], fixed = zl_stop_gradient(x);
    if (!fixed || !zl_quantize(fixed, p->q.group, p->q.bits, p->mode, global, part))
        return NULL;
    zl_array y =
        zl_dequantize(part[0], part[1], part[2], p->q.group, p->q.bits, p->mode, global, (zl_dtype)x->dtype);
    return zl_add(y, zl_subtract(x, fixed)); // adds 0, with the derivative of x
}

// Returns the right matrix as floats.
static zl_array right_side(const struct pair *p) {
    if (!p->scales)
        return rounded(p->w, p, p->global_w);
    return zl_dequantize(p->w, p->scales, NULL, p->q.group, p->q.bits, p->mode, p->global_w,
                         (zl_dtype)p->x->dtype);
}

static bool is_common_float(zl_array x) {
    return dtype_is_float((zl_dtype)x->dtype) && x->dtype != ZL_FLOAT64;
}

static bool check_dtypes(const struct pair *p) {
    bool packed = p->w->dtype == ZL_UINT32;
    if (!is_common_float(p->x) || (!packed && !is_common_float(p->w)))
        return error_false(
            ZL_ERROR_DTYPE, "%s: %s times %s: float16, bfloat16 or float32, and of w uint32, are needed",
            p->function, zl_dtype_name((zl_dtype)p->x->dtype), zl_dtype_name((zl_dtype)p->w->dtype));
    if (packed != (p->scales != NULL) || !p->global_x != !p->global_w)
        return error_false(ZL_ERROR_VALUE,
                           "%s: scales are needed if w is quantised, and only then; global scales for both "
                           "or none",
                           p->function);
    if (p->q.mode == QUANT_AFFINE || p->q.mode == QUANT_GGUF_K)
        return error_false(ZL_ERROR_VALUE, "%s: mode affine or gguf_k: mxfp4, mxfp8 or nvfp4 is needed",
                           p->function);
    return true;
}

// Checks that x and w have the same inner size, which is a multiple of the group size.
static bool check_inner(const struct pair *p) {
    zl_array x = p->x, w = p->w;
    if (p->scales && !op_check_quantized(p->function, &p->q, w, p->scales, NULL))
        return false;
    int64_t inner = p->scales ? p->scales->dim[w->ndim - 1] * p->q.group : w->dim[w->ndim - 1],
            size = x->dim[x->ndim - 1];
    if (size == inner && size % p->q.group == 0)
        return true;
    return error_false(
        ZL_ERROR_SHAPE,
        "%s: %lld numbers in a row of x, %lld in one of w: as many, a multiple of %d, are needed",
        p->function, (long long)size, (long long)inner, p->q.group);
}

// Checks everything but the rank, which is large enough.
static bool prepare(struct pair *p) {
    return check_dtypes(p) && op_check_global(p->function, &p->q, p->global_x) &&
           op_check_global(p->function, &p->q, p->global_w) && check_inner(p);
}

static bool read_mode(struct pair *p, int group_size, int bits) {
    p->mode = p->mode ? p->mode : "nvfp4";
    return p->x && p->w && op_check_optional(p->scales) &&
           op_read_quantization(p->function, p->mode, group_size, bits, &p->q);
}

// One matrix on the right -----------------------------------------------------------------------------------

static zl_array multiply(const struct pair *p) {
    zl_array x = p->x, y;
    zl_array rows = rounded(x->ndim == 1 ? zl_expand_dims(x, ZL_AXES(0)) : x, p, p->global_x);
    if (p->scales && !p->global_w)
        y = zl_quantized_matmul(rows, p->w, p->scales, NULL, true, p->q.group, p->q.bits, p->mode);
    else
        y = zl_astype(zl_matmul(rows, zl_matrix_transpose(right_side(p))), (zl_dtype)x->dtype);
    return x->ndim == 1 ? zl_squeeze(y, ZL_AXES(0)) : y;
}

static bool again_qqmm(const union op_value *v, zl_array *out) {
    return (out[0] = zl_qqmm(v[0].array, v[1].array, v[2].array, v[3].number, v[4].number, v[5].string,
                             v[6].array, v[7].array));
}

zl_array zl_qqmm(zl_array x, zl_array w, zl_array scales, int group_size, int bits, const char *mode,
                 zl_array global_scale_x, zl_array global_scale_w) {
    zl_array again;
    if (op_again(&again, "zl_qqmm", again_qqmm, x, w, scales, group_size, bits, mode, global_scale_x,
                 global_scale_w))
        return again;
    struct pair p = {"zl_qqmm", x, w, scales, global_scale_x, global_scale_w, .mode = mode};
    if (!read_mode(&p, group_size, bits))
        return NULL;
    if (w->ndim != 2 || x->ndim == 0)
        return error_set(ZL_ERROR_SHAPE, "zl_qqmm: shapes %s and %s: one axis or more and two are needed",
                         array_text(x), array_text(w));
    return prepare(&p) ? multiply(&p) : NULL;
}
OP_SIGNATURE(zl_qqmm, "quantized",
             "x times the transpose of w, (n, k), where both are quantised first: w may be quantised "
             "already, with its scales. In a mode of floating-point codes. To derivatives rounding is the "
             "identity.",
             P_ARRAY(x), P_ARRAY(w), P_OPTIONAL(scales), P_INT(group_size, "None"), P_INT(bits, "None"),
             P_STRING(mode, "nvfp4"), P_OPTIONAL(global_scale_x), P_OPTIONAL(global_scale_w));

// Chosen matrices -------------------------------------------------------------------------------------------

static zl_array multiply_chosen(const struct pair *p, zl_array lhs, zl_array rhs) {
    zl_array rows = rounded(p->x, p, p->global_x);
    if (p->scales && !p->global_w)
        return zl_gather_qmm(rows, p->w, p->scales, NULL, lhs, rhs, true, p->q.group, p->q.bits, p->mode,
                             NULL, false);
    return zl_astype(zl_gather_mm(rows, zl_matrix_transpose(right_side(p)), lhs, rhs, false),
                     (zl_dtype)p->x->dtype);
}

static bool again_gather_qqmm(const union op_value *v, zl_array *out) {
    return (out[0] = zl_gather_qqmm(v[0].array, v[1].array, v[2].array, v[3].array, v[4].array, v[5].number,
                                    v[6].number, v[7].string, v[8].array, v[9].array, v[10].number));
}

zl_array zl_gather_qqmm(zl_array x, zl_array w, zl_array scales, zl_array lhs_indices, zl_array rhs_indices,
                        int group_size, int bits, const char *mode, zl_array global_scale_x,
                        zl_array global_scale_w, bool sorted_indices) {
    zl_array again, at[2];
    if (op_again(&again, "zl_gather_qqmm", again_gather_qqmm, x, w, scales, lhs_indices, rhs_indices,
                 group_size, bits, mode, global_scale_x, global_scale_w, sorted_indices))
        return again;
    struct pair p = {"zl_gather_qqmm", x, w, scales, global_scale_x, global_scale_w, .mode = mode};
    if (!read_mode(&p, group_size, bits) || !op_check_optional(lhs_indices) ||
        !op_check_optional(rhs_indices) || !(at[0] = op_matrix_indices(p.function, lhs_indices, x)) ||
        !(at[1] = op_matrix_indices(p.function, rhs_indices, w)) || !prepare(&p) ||
        !op_broadcast(p.function, 2, at, at))
        return NULL;
    return multiply_chosen(&p, at[0], at[1]);
}
OP_SIGNATURE(zl_gather_qqmm, "quantized",
             "Products of matrices of x and transposed ones of w that the indices name, where both are "
             "quantised first, as zl_qqmm does: each index counts the axes before the last two as one. The "
             "indices broadcast, and their shape comes first in the result; none are 0, 1, 2 and so on.",
             P_ARRAY(x), P_ARRAY(w), P_OPTIONAL(scales), P_OPTIONAL(lhs_indices), P_OPTIONAL(rhs_indices),
             P_INT(group_size, "None"), P_INT(bits, "None"), P_STRING(mode, "nvfp4"),
             P_OPTIONAL(global_scale_x), P_OPTIONAL(global_scale_w), P_BOOL(sorted_indices, "False"));
