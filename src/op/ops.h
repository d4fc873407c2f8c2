// ops.h - the ops that are not elementwise, which devices find by address, and what their files share.
//
// Inputs may have any strides; outputs are dense unless the op is a view. Reductions keep their axes with size 1: a
// squeeze, which costs nothing, follows. A result that is not empty has no empty input, except of concatenate.

#ifndef OPS_H
#define OPS_H

#include "op/op.h"

// view.c, stretch.c, slice.c, reshape.c, bitcast.c: of kind OP_VIEW. All that they did is in the sizes, strides, offset
// and dtype of the output. Only depends has more than one input.
extern const struct op op_transpose, op_squeeze, op_expand_dims;
extern const struct op op_broadcast_to, op_stop_gradient, op_depends;
extern const struct op op_slice, op_as_strided;
extern const struct op op_reshape, op_flatten, op_unflatten;
extern const struct op op_bitcast; // the same bytes as another dtype

// reduce.c: of kind OP_REDUCE; one input of the output's dtype; args: the axes, sorted. Min and max of NaN are NaN.
enum reduce {
#define REDUCE(NAME, ...) REDUCE_##NAME,
#include "op/reduce.def"
    REDUCE_COUNT
};
extern const struct op op_reduce[]; // by enum reduce
// The public reduction, under the name of another function.
zl_array op_reduce_axes(const char *function, enum reduce which, zl_array x, zl_axes axes, bool keepdims);

// argreduce.c: args: is_max, axis. The uint32 position of the first extreme element; the first NaN, if there is one.
extern const struct op op_argreduce;

// create.c: no inputs; args: start, stop, step: int64_t of op_arange_int, whose dtypes are integers and which wraps
// around; doubles of op_arange, whose dtypes are the others and which rounds once. Element i is start + i * step.
extern const struct op op_arange, op_arange_int;

// concatenate.c: inputs of one dtype, one after the other along an axis; args: axis.
extern const struct op op_concatenate;

// pad.c: inputs x and a scalar of the same dtype; args: elements before x along each axis, then those after it.
extern const struct op op_pad;

// logic.c: two inputs of one shape and dtype; outputs as the rows op_quotient_row and TILE_REM define them. Returns
// the row of the first output: of floats the quotient that belongs to the exact remainder, else floor_divide.
extern const struct op op_divmod;
enum tile_op op_quotient_row(zl_dtype dtype);

// matmul.c: (..., m, k) times (..., k, n) gives (..., m, n): floats or complex of one dtype, the same batch axes.
extern const struct op op_matmul;
// addmm.c: alpha times such a product of half floats, and beta times a third input of that dtype, which broadcasts to the result;
// rounded once. The third is not read if beta is 0; alpha is not 0, also as a float.
extern const struct op op_addmm;
enum { ADDMM_ALPHA, ADDMM_BETA, ADDMM_ARGS };
static inline bool op_is_product(const struct op *op) { // of floats, perhaps with something added
    return op == &op_matmul || op == &op_addmm;
}
// The public product, under the name of another function.
zl_array op_matmul_as(const char *function, zl_array a, zl_array b);
// What products of other ops than matmul share with it: vectors, batch axes that broadcast, inner sizes of 0, which are zeros.
struct op_product {
    const char *function;
    const struct op *op; // of matrices with the same batch axes
    int args;
    const int64_t *arg;
    zl_dtype dtype; // of the result
    zl_array added; // a third input, which broadcasts to the result; NULL: none
};
bool op_check_product(const char *function, zl_array a, zl_array b); // false and an error: they have no product
zl_array op_multiply(const struct op_product *p, zl_array a, zl_array b);

// conv.c: inputs (N, sizes, C) and (O, sizes, C / groups) of one float or complex dtype, with one to three spatial axes.
// Element o of the output along one has those of the input, of which neighbours are input_dilation apart, at o * stride
// + k * dilation - low for every element k of the kernel, counted from the last one if flip. All else is 0. Groups in the
// batch are of an input (groups * N, sizes, C): outputs of a group are of its part of the batch, and the result is
// (N, sizes, O).
enum { CONV_AXES = 3 };
struct conv_axis {
    int64_t stride, low, high, dilation, input_dilation; // low, high: padding, may be negative
};
struct conv {
    int64_t groups;
    bool in_batch, flip; // in_batch: the groups are, else in the channels
    int axes;
    struct conv_axis axis[CONV_AXES];
};
extern const struct op op_conv;
struct conv op_conv_read(const struct call *c);

// gather_mm.c: matrices a (A, m, k) and b (B, k, n) of one float dtype, and integer indices of one shape, which say which
// of a and which of b each product is of; the products, (..., m, n), have that shape. Out of range as of take.
extern const struct op op_gather_mm;

// segmented_mm.c: a (m, k), b (k, n) of one float dtype, and uint32 segments (..., 2): where a product over a part of k
// begins and ends. What is not in a is left out.
extern const struct op op_segmented_mm;

// matmul_int8.c: (..., m, k) times (..., k, n) of int8 with the same batch axes gives int32.
extern const struct op op_matmul_int8;

// matmul_fp8.c: the same of e4m3 in uint8 gives bfloat16, float16 or float32; args: what the sums, float32, are multiplied by,
// and the dtype.
enum { FP8_SCALE, FP8_DTYPE, FP8_ARGS };
extern const struct op op_matmul_fp8;

// attention.c: inputs q (B, N, T, D), k (B, M, S, D) and v (B, M, S, E) of one float dtype of at most 32 bits; if the
// arguments say so a mask, bool or of that dtype, that stretches to (B, N, T, S), and sinks (B or 1, N); args: scale,
// causal, has a mask, has sinks. Outputs (B, N, T, E), and float32 (B, N, T, 2): of each query the largest score, and the
// sum of exp(score - largest). A score that a mask of bool, or causal, hides is the least float32. The backward pass has
// inputs more: both outputs, the second row-major, and the cotangent of the first; its outputs are the cotangents of q, k and v and,
// if there are sinks, float32 (B, N, T): what each query adds to those of the sinks. Nothing is empty.
extern const struct op op_attention, op_attention_vjp;
// A call in parts; those that are not there are NULL.
struct attention {
    zl_array q, k, v, mask, sinks;
    zl_array y, state, g; // of the backward pass
    double scale;
    bool causal;
};
struct attention op_attention_read(const struct call *c, const zl_array *in);

// attention_rules.c: the same composed of other ops, also of float64 and empty arrays; and columns of the two ops.
zl_array op_attention_composed(const struct attention *a);
zl_array op_attention_mask_vjp(const struct attention *a);
bool op_attention_jvp(const struct call *c, const zl_array *tangent, zl_array *out);
bool op_attention_vjp_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
bool op_attention_vjp_jvp(const struct call *c, const zl_array *tangent, zl_array *out);
// cross_entropy.c: inputs logits, row-major floats, and integer targets of the shape of all axes but the last; outputs of
// that shape, of float32, or float64 if the logits are: the losses, and log(sum(exp(logits))). Out of range as of take.
extern const struct op op_cross_entropy;

// gated_delta.c: inputs q and k (B, T, H, D), v (B, T, N, E), gates (B, T, N) or (B, T, N, D), betas (B, T, N), a state
// (B, N, E, D), all row-major and of one dtype, float32 or float64, and perhaps a mask (B, T) of bool; N is a multiple of
// H, and T and D are not 0. Outputs (B, T, N, E) and the state after the last step, as its column composed defines them.
extern const struct op op_gated_delta;

// csr.c: a sparse matrix is values (entries), of each its column (indices), and where each row begins (indptr, one more
// than rows), both of int32 or both of int64. Entries from the last pointer on are in no row. The device checks indptr and
// indices: an error if a pointer is less than the one before it, or an index is not a column. All inputs are row-major.
//   csr_matmul: values, indices, indptr, dense; args: transposed, columns. The matrix times dense, of float32 or float64.
//   csr_sample: indices, indptr, left (rows, n), right (columns, n): of each entry left[row] times right[column]; 0 if it
//   is in no row.
//   csr_rows: indices, indptr; args: columns. The row of each entry; how many rows there are, if it is in none.
extern const struct op op_csr_matmul, op_csr_sample, op_csr_rows;
zl_array op_csr_product(const zl_array *in, bool transposed, int64_t columns);
zl_array op_csr_entry_rows(const zl_array *in, int64_t columns);

// fft.c: args: enum fft, axis, n, then a double that the result is multiplied by. Element k is the sum of those of x, each
// times exp(-2 pi i j k / n), or exp(2 pi i j k / n) if inverse. Of float32 x, REAL, there are elements 0 to n / 2. To
// float32, HERMITIAN, x has those of n elements of which number n - j is the conjugate of number j; it is inverse.
enum fft { FFT_FORWARD, FFT_INVERSE, FFT_REAL, FFT_HERMITIAN };
extern const struct op op_fft;

// take.c: inputs x and integer indices; args: axis, which the axes of indices replace. Negative ones count from the
// end; what an index out of range gives is left to the device, which must not touch memory that is not x's.
extern const struct op op_take;

// random.c: input keys (..., 2) of uint32, row-major; args: the shape that each key gives. The output, uint8, uint16 or
// uint32, has the axes of the keys, then those; its bits are as threefry.h and MLX make them.
extern const struct op op_random_bits;

// What an op does with an element and the update that falls on it.
enum update { UPDATE_SET, UPDATE_ADD, UPDATE_PROD, UPDATE_MAX, UPDATE_MIN };

// gather_slices.c: inputs a and integer indices of one shape; args: how many indices, the axes that they index, then
// the size of a slice along each axis of a. Slices lie behind each other in the shape of the indices. Negative indices
// count from the end; a slice that leaves a is moved back until it does not.
extern const struct op op_gather;

// scatter.c: inputs a, integer indices of one shape, and updates: slices of the rank of a in the shape of the indices;
// args: enum update, then the axes that are indexed. Updates come one after the other, in row-major order of the
// indices; those that do not lie in a wholly are left out.
extern const struct op op_scatter;
zl_array op_scatter_slices(enum update how, zl_array a, int count, const zl_array *indices, zl_array updates,
                           const int64_t *axes);

// along_axis.c: inputs a and integer indices that have the same sizes but along axis; args: axis. put_along also has
// values of the shape of the indices, and enum update, SET or ADD, behind the axis. Out of range as of take, scatter.
extern const struct op op_take_along, op_put_along;

// update.c: inputs x and an update of the shape of the slice; args: enum update, then start, stop and step of each axis
// as of slice.
extern const struct op op_slice_update;
// Inputs a and as many integer starts as axes; args: how many, the axes, then the size of the slice along each axis. A
// start is as an index of gather. The update has those sizes: inputs a, update, starts; args: the axes.
extern const struct op op_dynamic_slice, op_dynamic_slice_update;

// scan.c: args: enum scan, axis, reverse, inclusive. Element i of the result combines those up to i along the axis: from
// i on if reverse; without i itself unless inclusive, so that the first is what no elements give.
enum scan { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, SCAN_LOGADDEXP };
extern const struct op op_scan;

// sort.c: of row-major inputs, along the last axis: NaN last, equal elements in the order in which they were. Sort of
// complex numbers is taken by argsort, whose result is uint32.
extern const struct op op_sort, op_argsort;
// What an axis of a becomes, moved to the end and back; arg goes to order. An error in the name of function.
typedef zl_array op_order_fn(zl_array x, const int64_t *arg);
zl_array op_order(const char *function, zl_array a, int axis, op_order_fn *order, const int64_t *arg);
// The column vmap of ops along the last axis.
bool op_vmap_last(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
// partition.c: as sort, but in order are only three groups: those less than the kth element, those equal to it, and others. Args:
// kth, then which run of that is wanted: first, and count (less than 0: all). They are counted from the end if less than 0.
extern const struct op op_partition, op_argpartition;
struct op_window {
    int64_t kth, first, count;
};
bool op_partition_window(const int64_t *arg, int64_t n, struct op_window *w); // of n elements; false: it does not fit
// Inputs a sorted list, not empty, and values of its dtype; args: right. How many elements come before each value: those
// less than it, and if right those equal to it.
extern const struct op op_searchsorted;

// Matrices: the last two axes of an input; every one of a batch is taken by itself. Of float32 and float64, those of svd,
// eigh and eig also complex64. None is empty.
//
// cholesky.c: args: upper. inverse.c: args: triangular, upper. Of a triangular matrix the other elements are not read.
extern const struct op op_cholesky, op_inverse;
// lu.c: outputs the factors in one matrix, and as uint32 the row that each was swapped with, and for each row of the input
// the row of the lower factor.
extern const struct op op_lu;
extern const struct op op_qr; // qr.c: outputs q (m, k) and r (k, n), k the smaller of m and n
// svd.c: args: whether vectors are wanted: outputs u (m, m), s (k), v transposed (n, n), else s alone.
extern const struct op op_svd;
// eigen.c: eigh, of symmetric or Hermitian matrices; args: upper, whether vectors are wanted; outputs: values, vectors. eig,
// whose outputs are complex64; args: whether vectors are wanted.
extern const struct op op_eigh, op_eig;

// linalg.c -------------------------------------------------------------------------------------------------------

// Whether a has at least two axes, equal ones at the end if square, and a dtype that factorisations have.
bool op_check_matrix(const char *function, zl_array a, bool square, bool may_be_complex);
// For the column fits of factorisations: one such matrix that is not empty, and so many arguments, all of them bools.
bool op_fits_factor(const struct call *c, const zl_array *in, int args, bool square, bool may_be_complex);
// Records a factorisation of a: out[k] is of dtype[k] and has the batch axes of a, then last[k] axes: rows[k] if two,
// and cols[k].
struct factor_output {
    zl_dtype dtype;
    int last;
    int64_t rows, cols;
};
bool op_factor(const char *function, const struct op *op, zl_array a, int args, const int64_t *arg, int outputs,
               const struct factor_output *f, zl_array *out);
// The column vmap of factorisations.
bool op_vmap_factor(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
// A matrix of that many rows and columns with ones on its diagonal, once for each of the batch axes of a.
zl_array op_eyes(zl_array a, int64_t rows, int64_t cols, zl_dtype dtype);

// follow.c -------------------------------------------------------------------------------------------------------

// Calls of a traced function that will be done again with other shapes; nothing evaluates them.
extern const struct op op_stretch_with, op_element_count;
bool op_follows(zl_array x); // the shape of x may be another one next time
// The first array stretched to the shape that all have together, but for the last axes of each. NULL and an error.
zl_array op_stretch(const char *function, int count, const zl_array *in, int last);
// How many elements x has along some axes, less some but not below 0; or one divided by that. A scalar to multiply by,
// weak unless it follows x: then of that dtype.
zl_array op_count(zl_array x, zl_dtype dtype, int count, const int *axis, int less, bool inverse);

// defer.c --------------------------------------------------------------------------------------------------------

bool op_defers(int count, const zl_array *in); // some of them may have other shapes next time
// What f, which is retained, gives for these: deferred if its inputs say so, else at once. It gives so many results. A deferred
// call is one of recorder.deferred that holds f, as its last input, and stands for what f gives.
bool op_defer(zl_fn f, int count, const zl_array *in, int results, zl_array *out);
// For the op of deferred calls: the function that one holds, and the column record.
zl_fn op_deferred_function(const struct call *c);
bool op_record_deferred(const struct call *c, const zl_array *in, zl_array *out);
// What f gives for these: a graph that has their sizes. At most `most` results; how many, or -1 and an error.
int op_run_now(zl_fn f, int count, const zl_array *in, int most, zl_array *out);
bool op_give_all(int count, const zl_array *list, zl_outputs *out);

// again.c --------------------------------------------------------------------------------------------------------

// The value of a parameter; which member it is follows from its type. number: of INT, BOOL and DTYPE; of OUTPUT, how many
// there is room for.
union op_value {
    zl_array array;
    struct {
        const zl_array *list;
        int count;
    } arrays;
    int number;
    int64_t wide;
    double real;
    zl_shape shape;
    zl_axes axes;
    const char *string;
};
// Calls an op with its arguments in order.
typedef bool op_again_fn(const union op_value *v, zl_array *out);
// At the start of an op that reads sizes: whether it is deferred, with its own arguments in order. *out: its result.
bool op_again(zl_array *out, const char *function, op_again_fn *run, ...);
// The same of an op that gives a list and says whether all is well.
bool op_again_all(bool *ok, int results, zl_array *out, const char *function, op_again_fn *run, ...);

// quantize.c: args: enum quant_mode, group size, bits. Quantise, in mode affine only, has inputs w, row-major, of float16,
// bfloat16 or float32, and outputs words, scales and biases. Dequantise has inputs words, scales, then biases if affine,
// else perhaps a global scale, all row-major; numbers are rounded to the output's dtype after the product and after the sum.
enum quant_mode { QUANT_AFFINE, QUANT_MXFP4, QUANT_MXFP8, QUANT_NVFP4 };
struct quantization {
    enum quant_mode mode;
    int group, bits;
};
extern const struct op op_quantize, op_dequantize;
// What the arguments say; INT_MIN and NULL are not given. False and an error.
bool op_read_quantization(const char *function, const char *mode, int group, int bits, struct quantization *q);
// Whether the parts of a quantised matrix fit each other. biases may be NULL.
bool op_check_quantized(const char *function, const struct quantization *q, zl_array w, zl_array scales, zl_array biases);
// Whether that may be the scale of all scales; NULL: there is none.
bool op_check_global(const char *function, const struct quantization *q, zl_array scale);
// For the column fits: the same, without an error, of the arguments mode, group size and bits of a call that nobody has
// checked, and of the inputs that are parts of its matrix.
bool op_is_quantization(const int64_t *arg);
bool op_are_quantized(const int64_t *arg, const zl_array *part);
// Cotangent of scales (input 1) or biases (2) from that of the matrix.
zl_array op_quant_vjp(zl_array w, zl_array scales, const struct quantization *q, int input, zl_array g);

// quantized_matmul.c: inputs x (m, k), words, scales and, if affine, biases; args: those of quantise, transpose, gathered.
// If transposed the matrix is (n, k). If gathered all have one axis more, in front, and two lists of indices follow: result
// i is x[first[i]] times matrix second[i]. All are row-major; x and the result are of one float dtype.
extern const struct op op_quantized_matmul;
// Numbers of matrices of x: the indices as they are given, or (NULL) all in the shape of its axes before the last two. NULL
// and an error that names function.
zl_array op_matrix_indices(const char *function, zl_array indices, zl_array x);

// custom_kernel.c: inputs the text of a kernel as bytes, an array like each output, then what it reads; args: how many
// outputs, then the grid and the group, of three sizes each. No device here has it.
extern const struct op op_custom_kernel;
// For the column fits of such calls, which have so many arguments: the text, an array like each output, what it reads.
bool op_is_kernel(const struct call *c, const zl_array *in, int args);
// Such a call. arg[0]: how many outputs.
bool op_record_kernel(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg, zl_array *out);
// All of its inputs: the text, arrays like each output that hold a value, then what it reads.
bool op_kernel_inputs(const char *function, const char *text, double value, int outputs, const zl_shape *shape,
                      const zl_dtype *dtype, int count, const zl_array *in, zl_array *all);

// source_kernel.c: inputs as those of op_custom_kernel, of which the text is C, begins with a comment that names the kernel,
// and has void zellige_kernel(const struct op_kernel_call *, from, to), which does those positions of the grid; args: as
// well, then whether the outputs are filled with what is like them, whether inputs have any strides, and bytes of memory that a
// group shares. That of op_cuda_kernel is CUDA C++ with a kernel zl_kernel, whose parameters are of each input its memory and, if
// it has axes, its sizes, strides and their number (struct op_cuda_sizes and such of strides), then the memory of outputs.
extern const struct op op_cpu_kernel, op_cuda_kernel;
enum { KERNEL_OUTPUTS, KERNEL_GRID, KERNEL_GROUP = 4, KERNEL_FILLS = 7, KERNEL_STRIDED, KERNEL_SHARED, KERNEL_ARGS };
enum { KERNEL_AXES_MOST = 8 }; // of inputs of op_cuda_kernel
struct op_cuda_sizes {
    int32_t of[KERNEL_AXES_MOST];
};
struct op_cuda_strides {
    int64_t of[KERNEL_AXES_MOST];
};
struct op_kernel_operand { // kernel_prelude.c says the same to kernels
    void *data;
    const int64_t *shape, *strides;
    int ndim;
};
struct op_kernel_call {
    const struct op_kernel_operand *operand; // inputs, then outputs
    int64_t grid[3], group[3];
};
extern const char op_kernel_prelude[]; // kernel_prelude.c
// kernel_text.c
bool op_kernel_names(const char *name); // it is a name in C
void op_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in);
void op_kernel_own(struct text *out, const char *name, const char *what, const char *text); // under its own line numbers
void op_cuda_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in); // cuda_kernel_text.c

extern const struct op op_field_view; // field.c: a view of what lies at an offset in each record

// contract.c -----------------------------------------------------------------------------------------------------

// For the column fits: whether what nobody has checked is as the contract of an op says. None of them sets an error.
static inline bool op_has(const struct call *c, int inputs, int args) {
    return c->inputs == inputs && c->args == args;
}
static inline bool op_is_among(int64_t value, int64_t count) { // 0 to count - 1; of a bool, count is 2
    return value >= 0 && value < count;
}
static inline bool op_is_axis(zl_array x, int64_t axis) {
    return op_is_among(axis, x->ndim);
}
// Each less than limit, and none twice; in ascending order if sorted.
bool op_are_axes(int limit, int count, const int64_t *axis, bool sorted);
bool op_same_shape(zl_array a, zl_array b);
bool op_same_but_along(zl_array a, zl_array b, int64_t axis); // of the same shape except along this axis
bool op_are_indices(int count, const zl_array *in);           // of integers, and of one shape
bool op_are_within(zl_array x, const int64_t *size);          // sizes of a part of x, one for each axis
bool op_has_steps(int ndim, const int64_t *step);             // none of them is 0
// Updates of a: slices of its rank, in a shape of so many leading axes.
bool op_are_updates(zl_array a, zl_array updates, int lead, const int64_t *dim);
bool op_are_factors(const zl_array *in,
                    zl_dtype dtype);    // two matrices of it with the same batch axes and inner size
bool op_is_small_float(zl_dtype dtype); // float16, bfloat16 or float32

// slice.c --------------------------------------------------------------------------------------------------------

// What a slice takes of an axis of so many elements: count of them, from start on, step apart.
struct slice_run {
    int64_t start, step, count;
};
struct slice_run op_slice_run(int64_t size, int64_t start, int64_t stop, int64_t step);

// op_help.c ------------------------------------------------------------------------------------------------------

// Whether arguments make sense; else false and an error that begins with function.
bool op_check_list(const char *function, zl_shape list);                // there, whatever the numbers are
bool op_check_shape(const char *function, zl_shape shape);              // sizes, none negative, that fit
bool op_check_size(const char *function, int ndim, const int64_t *dim); // fits 64 bits with every dtype
bool op_check_dtype(const char *function, zl_dtype dtype);
bool op_check_out(const char *function, int count, zl_array *out);      // there; all set to NULL
bool op_check_broadcast(const char *function, zl_array a, zl_array b); // no error when one of them is NULL
bool op_check_optional(zl_array x);                                     // given or not, but not a failure
bool op_check_inputs(const char *function, const zl_array *arrays, int count); // no error when one of them is NULL
bool op_check_broadcast_to(const char *function, zl_array x, int ndim, const int64_t *dim);
bool op_check_integers(const char *function, zl_array indices);
void op_axes_of(int count, const int64_t *arg, int *out);                         // arguments of a call as axes
bool op_read_axes(const char *function, zl_array a, zl_axes axes, int64_t *out); // as they are given, each once
// Index arrays, and which axis of a each is for: checked, the arrays broadcast against each other and the axes made
// non-negative. No error when one of the arrays is NULL.
bool op_check_indices(const char *function, zl_array a, const zl_array *indices, int count, zl_axes axes,
                      zl_array *out, int64_t *out_axes);

zl_dtype op_float_dtype(zl_dtype dtype);             // float32 for integers and bool, else the same
zl_dtype op_dtype_or(zl_dtype dtype, zl_dtype other); // other where it is not given
double   op_largest(zl_dtype dtype);                 // number of a float dtype
zl_array op_number(zl_dtype dtype, double value);    // a scalar that is not weak; small whole numbers for integers
zl_array op_zeros_of(zl_array x);                    // of its shape and dtype

// Evaluates arrays, the last of which is a whole number, on which the shape of a result depends: *number. False and an
// error that names function, also where one is traced whose inputs are not there.
bool op_read_number(const char *function, int count, const zl_array *arrays, int64_t *number);

// For the vjp of the largest and the smallest of x and others: the cotangent where x is the result, else 0.
zl_array op_winners(zl_array result, zl_array x, zl_array cotangent);

// For vmap: x with its extra axis first, and the same for one that may have none, which gets one of size 1.
zl_array op_batch_first(zl_array x, int axis);
zl_array op_batch_any(zl_array x, int axis);
int64_t  op_batch_size(int count, const zl_array *in, const int *axis); // -1: none has an extra axis
zl_array op_batch_repeat(zl_array x, int axis, int64_t batch);          // one that has none is repeated

// Columns of linear ops of one input: the tangent goes the way of the input.
bool op_jvp_linear(const struct call *c, const zl_array *tangent, zl_array *out);
// Columns of ops whose results do not change when an input changes a little.
zl_array op_vjp_zero(const struct call *c, int input, const zl_array *cotangent);
bool op_jvp_zero(const struct call *c, const zl_array *tangent, zl_array *out);
// An input that holds positions, and was made from what is differentiated by, as MLX refuses it. NULL.
zl_array op_refuse_positions(const struct call *c);
bool op_is_position(const struct call *c, int input); // as the column positions says
// Column of ops of one input that keep every axis where it is.
bool op_vmap_same(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);

#endif
