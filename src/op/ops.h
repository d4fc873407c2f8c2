// ops.h - the ops that are not elementwise, which devices find by address, and what their files share.
// ops.def describes the inputs, arguments and outputs of each.

#ifndef OPS_H
#define OPS_H

#include "op/op.h"

#define OP(name) extern const struct op op_##name;
#include "op/ops.def"

// reduce.c: ops of kind OP_REDUCE, with one input of the output's dtype. The arguments are the axes, sorted.
// These axes stay, with size 1; a squeeze, which costs nothing, removes them afterwards. Min and max of NaN
// are NaN.
enum reduce {
#define REDUCE(NAME, ...) REDUCE_##NAME,
#include "op/reduce.def"
    REDUCE_COUNT
};
extern const struct op op_reduce[]; // by enum reduce
// Returns the reduction of x as the public functions do, lent, or NULL and an error that names `function`.
// NULL gives NULL.
zl_array op_reduce_axes(const char *function, enum reduce which, zl_array x, zl_axes axes, bool keepdims);

// Returns the elementwise op of the first output of divmod (logic.c): for floats, the quotient that belongs
// to the exact remainder, else floor_divide.
enum tile_op op_quotient_row(zl_dtype dtype);

// addmm.c, matmul.c
enum { ADDMM_ALPHA, ADDMM_BETA, ADDMM_ARGS };
static inline bool op_is_product(const struct op *op) { // returns whether it is matmul or addmm
    return op == &op_matmul || op == &op_addmm;
}
// Returns the product as zl_matmul does, lent, or NULL and an error that names `function`. NULL gives NULL.
zl_array op_matmul_as(const char *function, zl_array a, zl_array b);
// A product by another op than matmul. op_multiply adds what matmul has: vectors, batch axes that broadcast,
// and zeros for inner sizes of 0.
struct op_product {
    const char *function;
    const struct op *op; // of matrices with the same batch axes
    int args;
    const int64_t *arg;
    zl_dtype dtype; // of the result
    zl_array added; // a third input, which broadcasts to the result; NULL: none
};
// Returns whether a and b have axes and equal inner sizes; false, with an error that names `function`, if
// not.
bool op_check_product(const char *function, zl_array a, zl_array b);
// Returns the product of a and b, lent, or NULL and an error. NULL gives NULL.
zl_array op_multiply(const struct op_product *p, zl_array a, zl_array b);
// Returns the product of a and b. Its columns are contiguous if those of `like` are, so that the cotangent of
// a transposed matrix is row-major after it is transposed back.
zl_array op_multiply_like(zl_array like, zl_array a, zl_array b);

// conv.c
enum { CONV_AXES = 3 };
struct conv_axis {
    int64_t stride, low, high, dilation, input_dilation; // low, high: padding, may be negative
};
struct conv {
    int64_t groups;
    bool in_batch, flip; // in_batch: the groups are in the batch axis, else in the channels
    int axes;
    struct conv_axis axis[CONV_AXES];
};
// Returns the arguments of a convolution.
struct conv op_conv_read(const struct call *c);

// fold.c: the arguments of a call. Along an axis, tap t of output o is the element start + o * step + t *
// apart of the result, whose size is `size`. Strides are those of the input, in elements.
enum { FOLD_AXES = 3 };
struct fold_axis {
    int64_t size, start, step, apart, outs, taps, out_stride, tap_stride;
};
struct fold {
    int64_t batch, batch_stride, channels;
    struct fold_axis axis[FOLD_AXES];
};
// Returns the sizes, strides and arguments of a fold.
struct fold op_fold_read(const struct call *c);
// Computes the cotangent of x, which is row-major, from the cotangent g of a view that is not empty (arg: the
// arguments of as_strided). Returns false, without an error, unless each axis of the view has stride 0 or
// steps along one axis of x and stays in it. If an error occurs, returns true and sets *out to NULL.
bool op_fold_view(zl_array g, zl_array x, int ndim, const int64_t *arg, zl_array *out);

// matmul_fp8.c
enum { FP8_SCALE, FP8_DTYPE, FP8_ARGS };

// attention.c: the inputs and arguments of a call; absent inputs are NULL.
struct attention {
    zl_array q, k, v, mask, sinks;
    zl_array y, state, g; // of the backward pass
    double scale;
    bool causal;
};
// Returns the arguments of a call of attention or attention_vjp, and its inputs from `in`.
struct attention op_attention_read(const struct call *c, const zl_array *in);

// Returns attention composed of other ops (attention_rules.c), also for float64 and empty arrays; lent, or
// NULL and an error.
zl_array op_attention_composed(const struct attention *a);
// Returns the cotangent of the mask, lent, or NULL and an error.
zl_array op_attention_mask_vjp(const struct attention *a);
// Computes the tangents of attention: its column jvp.
bool op_attention_jvp(const struct call *c, const zl_array *tangent, zl_array *out);
// Computes the cotangents of attention_vjp, that is, second derivatives: its column vjp_all.
bool op_attention_vjp_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
// Computes the tangents of attention_vjp: its column jvp.
bool op_attention_vjp_jvp(const struct call *c, const zl_array *tangent, zl_array *out);

// rope.c: the inputs and arguments of a call. x is (B, N, T, D). There are one or B offsets, and dims / 2
// freqs, of the dtype of the angles; both are optional.
struct rope {
    zl_array x, offsets, freqs;
    int64_t dims, offset; // offset: used if there is no array of offsets
    bool traditional, inverse, has_offsets, has_freqs;
    double base, scale;
};
// Returns the arguments of a call of rope, and its inputs from `in`.
struct rope op_rope_read(const struct call *c, const zl_array *in);
// Returns the rate of a rope without freqs: pair j is rotated by exp(-j * rate) radians per position.
double op_rope_rate(const struct rope *r);

// The kernel that computes a delta rule: token by token, by chunks with loops, or by chunks with matrix
// instructions.
enum delta_form { DELTA_TOKENS, DELTA_CHUNKS, DELTA_MATRICES, DELTA_FORMS };
// delta.c: the inputs and arguments of a call, as in ops.def. e, beta and offsets are NULL if absent. e may
// be w.
struct delta_rule {
    zl_array q, w, x, g, state, e, beta, offsets;
    bool pre, factors;
    enum delta_form form; // of a recorded call
    double scale;
};
// Returns the arguments of a call of a delta rule or its gradient, and its inputs from `in`.
struct delta_rule op_delta_read(const struct call *c, const zl_array *in);
// Records the rule. Returns false, with an error, if that fails.
bool op_delta(const struct delta_rule *r, zl_array *state, zl_array *y);
enum { DELTA_INPUTS_MOST = 8, DELTA_ARGS = 7 };
// Lists the inputs and arguments that op_delta_read reads. Returns the number of inputs.
int op_delta_list(const struct delta_rule *r, zl_array *in, int64_t *arg);
// Returns whether a call that has `more` inputs after those of the rule keeps the contract: for the column
// fits.
bool op_delta_fits(const struct call *c, const zl_array *in, int more);
// Merges the extra axis of each input (vmap; -1: none) with its batch axis or, for packed sequences, with its
// tokens, and writes the inputs of one call to `all`. Returns false, with an error, if that fails.
bool op_delta_merge(const struct call *c, const zl_array *in, const int *axis, int64_t batch, zl_array *all);
// Appends to a kernel the inputs after the five that every rule has, and the scale. Inputs that the rule
// lacks are replaced by others that are not read.
void op_delta_other_inputs(const struct delta_rule *r, struct op_kernel *k);
// Returns which kernel computes the rule on the device that calls are recorded for (delta_wy.c).
enum delta_form op_delta_form(const struct delta_rule *r);
// Fills in the kernel that computes the rule by chunks (op->kernel).
void op_delta_by_chunks(const struct delta_rule *r, struct op_kernel *k);
enum { DELTA_COTANGENTS = 7 };
// Records the gradient of the rule: the cotangents of q, w, x, g, state, e and beta; those of q, w and e have
// the heads of x. The cotangents of beta and e are empty if the rule has none or e is w. Returns false, with
// an error, if that fails.
bool op_delta_back(const struct delta_rule *r, zl_array dy, zl_array dstate, zl_array *out);
// Computes the cotangents of the rule: its column vjp_all. Computes none if `composed` is to be used.
bool op_delta_vjp_all(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
// Computes the rule by other ops (delta_chunks.c). Returns false, with an error, if that fails.
bool op_delta_chunks(const struct delta_rule *r, zl_array *state, zl_array *y);
// Records the rule with momentum. mu holds logarithms, as g does. The state has twice the rows of a key: S,
// then M. At a token, M becomes exp(mu) M - w (x - e^T S)^T, then S becomes exp(g) S - beta M. Returns false,
// with an error, if that fails.
bool op_delta_momentum(const struct delta_rule *r, zl_array mu, zl_array *state, zl_array *y);

// Returns the product of a sparse matrix (in: values, indices, indptr), or its transpose, with a dense one
// (in[3]); lent, or NULL and an error (csr.c). columns: the number of columns of the sparse matrix.
zl_array op_csr_product(const zl_array *in, bool transposed, int64_t columns);
// Returns the row of each entry of a sparse matrix (in: indices, indptr), lent, or NULL and an error.
zl_array op_csr_entry_rows(const zl_array *in, int64_t columns);
// The structure of a sparse matrix in host memory: indices and pointers are int32 or int64.
struct csr_places {
    const void *indices, *pointers;
    zl_dtype dtype;
    int64_t rows, columns, entries;
};
// Returns whether pointers and indices describe a matrix; false, with an error that begins with `name`, if
// not.
bool op_csr_check(const char *name, const struct csr_places *m);

// fft.c
enum fft { FFT_FORWARD, FFT_INVERSE, FFT_REAL, FFT_HERMITIAN };

// How an element is combined with its update.
enum update { UPDATE_SET, UPDATE_ADD, UPDATE_PROD, UPDATE_MAX, UPDATE_MIN };
// Returns the elementwise op that combines them, or TILE_OP_COUNT for UPDATE_SET.
enum tile_op op_update_row(enum update how);

// Returns a with slices updated (scatter.c), lent, or NULL and an error. There are `count` arrays of indices,
// each for an axis of a.
zl_array op_scatter_slices(enum update how, zl_array a, int count, const zl_array *indices, zl_array updates,
                           const int64_t *axes);

// scan.c
enum scan { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, SCAN_LOGADDEXP };

typedef zl_array op_order_fn(zl_array x, const int64_t *arg);
// Applies `order` to an axis of a (sort.c), which is moved to the end and back; `arg` is passed on. Returns
// the result, lent, or NULL and an error that names `function`.
zl_array op_order(const char *function, zl_array a, int axis, op_order_fn *order, const int64_t *arg);
// Records a call, along the last axis, on a batched input: its column vmap.
bool op_vmap_last(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
// partition.c: the arguments of a call as non-negative positions in an axis.
struct op_window {
    int64_t kth, first, count;
};
// Reads the arguments for an axis of n elements. Returns false, without an error, if they do not fit.
bool op_partition_window(const int64_t *arg, int64_t n, struct op_window *w);

// linalg.c --------------------------------------------------------------------------------------------------

// Returns whether a has at least two axes, the last two equal if `square`, and float32, float64 or, if
// `may_be_complex`, complex64; false, with an error that names `function`, if not.
bool op_check_matrix(const char *function, zl_array a, bool square, bool may_be_complex);
// Returns whether an unchecked call has one such matrix that is not empty, and `args` arguments, all of them
// bools: the column fits of factorisations. Sets no error.
bool op_fits_factor(const struct call *c, const zl_array *in, int args, bool square, bool may_be_complex);
// An output of a factorisation: the batch axes of the matrix, then `last` axes: rows, if two, and cols.
struct factor_output {
    zl_dtype dtype;
    int last;
    int64_t rows, cols;
};
// Records a factorisation of a, with at most 3 outputs. Returns false, with an error, if that fails.
bool op_factor(const char *function, const struct op *op, zl_array a, int args, const int64_t *arg,
               int outputs, const struct factor_output *f, zl_array *out);
// Records a factorisation of a batched input: the column vmap of factorisations.
bool op_vmap_factor(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
// Returns a matrix with ones on its diagonal, broadcast to the batch axes of a; lent, or NULL and an error.
zl_array op_eyes(zl_array a, int64_t rows, int64_t cols, zl_dtype dtype);

// follow.c --------------------------------------------------------------------------------------------------

// Returns whether the recording will be replayed with other shapes of x.
bool op_follows(zl_array x);
// Returns the first array, broadcast to the shape that all arrays have together, not counting the last `last`
// axes of each; lent, or NULL and an error that names `function`.
zl_array op_stretch(const char *function, int count, const zl_array *in, int last);
// Returns the number of elements of x along `count` axes, less `less` but not below 0, or, if `inverse`, one
// divided by that: a scalar to multiply by, lent, or NULL and an error. It is weak unless x has op_follows;
// then it has the dtype.
zl_array op_count(zl_array x, zl_dtype dtype, int count, const int *axis, int less, bool inverse);

// defer.c ---------------------------------------------------------------------------------------------------

// Returns whether the recording will be replayed with other shapes of some of the arrays, so that ops which
// read sizes are deferred. Returns false while a function is exported.
bool op_defers(int count, const zl_array *in);
// Calls f, which is retained, on the arrays. If op_defers returns true for them, records a deferred call
// instead of the calls of f: a call of recorder.deferred that holds f as its last input and has the same
// results. Returns false, with an error, if that fails or the number of results is not `results`.
bool op_defer(zl_fn f, int count, const zl_array *in, int results, zl_array *out);
// Returns the function that a deferred call holds.
zl_fn op_deferred_function(const struct call *c);
// Records a deferred call on other inputs: its column record.
bool op_record_deferred(const struct call *c, const zl_array *in, zl_array *out);
// Calls f on the arrays with their present sizes, and writes at most `most` results. Returns how many results
// f has, or -1 and an error.
int op_run_now(zl_fn f, int count, const zl_array *in, int most, zl_array *out);
// Appends the arrays to the results of a function. Returns false, with an error, if that fails.
bool op_give_all(int count, const zl_array *list, zl_outputs *out);

// load.c ----------------------------------------------------------------------------------------------------

// The source of an array's elements, read when the array is evaluated.
struct op_source {
    // Writes all elements, row-major, on any thread. Returns false, with an error, if that fails.
    bool (*read)(void *context, void *out, size_t bytes);
    void (*release)(void *context);
    void *context;
};
// An op whose input is the source's bytes; the input's storage holds the source.
extern const struct op op_load;
// Returns a lazy array of the elements that `source` makes of these bytes, which stay valid as long as its
// context; lent. Takes ownership of the context, also if it returns NULL.
zl_array op_load_from(const struct op_source *source, const void *data, size_t bytes, zl_dtype dtype,
                      zl_shape shape);
// Reads the elements of such an array, for devices. Returns false, with an error, if that fails.
bool op_load_run(const struct call *c, void *out);

// collective.c ----------------------------------------------------------------------------------------------

// The kinds of collectives. Inputs: x, row-major, which RECV lacks, then the ticket: a leaf that holds the
// group and a number, in the order in which collectives were recorded. args: the peer. Collectives are calls
// of the group's stream, and the schedule runs those of an evaluation in that order.
enum collective {
#define COLLECTIVE(NAME, ...) COLLECTIVE_##NAME,
#include "op/collective.def"
    COLLECTIVE_COUNT
};
extern const struct op op_collectives[COLLECTIVE_COUNT]; // by enum collective
static inline bool op_is_collective(const struct op *op) {
    return (uintptr_t)op - (uintptr_t)op_collectives < sizeof(struct op) * COLLECTIVE_COUNT;
}

// One collective for a group to run. in and out hold in_count and out_count elements of dtype, and may be the
// same memory if the row of collective.def allows it.
struct op_transfer {
    enum collective kind;
    const char *name;
    zl_dtype dtype;
    int peer;
    const void *in;
    void *out;
    int64_t in_count, out_count;
    // Writes the combination of the n elements of a and b, for sums, max and min. NULL for other collectives.
    void (*combine)(const struct op_transfer *t, void *to, const void *a, const void *b, int64_t n);
    const void *row; // for combine
    // If the arrays are on a device, the driver's queue in which they are computed, for libraries that
    // enqueue work there. NULL: they are on the host.
    void *queue;
    // Returns 1 if all work of the queue is done, 0 if not yet, -1 if it failed. NULL: the arrays are on the
    // host.
    int (*progress)(void *queue);
};

// The processes that communicate. An engine allocates and fills it. When the last reference is dropped, close
// is called, which frees it.
struct zl_group_ {
    atomic_int refs;
    int rank, size;
    const char *engine;
    zl_stream stream; // of its collectives
    // Runs a collective. Returns false, with an error, if that fails.
    bool (*run)(zl_group g, const struct op_transfer *t);
    // Returns whether the engine has this collective; other collectives are composed of those that it has.
    // NULL: it has all.
    bool (*takes)(enum collective kind, zl_dtype dtype);
    zl_group (*split)(zl_group g, int color, int key); // returns a new group, or NULL and an error
    void (*close)(zl_group g);
};

// Records a collective of x (NULL for RECV), whose result has this dtype and shape. The caller has checked
// everything. Returns the result, lent, or NULL and an error.
zl_array op_collective(enum collective kind, zl_group group, zl_array x, int peer, zl_dtype dtype, int ndim,
                       const int64_t *dim);
// Returns the number of a collective: collectives that are recorded later have larger numbers.
int64_t op_collective_number(const struct call *c);
// Begins to replay, on this thread, a recording whose collectives have the numbers `first` to `last`. They
// get new numbers in the same order, larger than all numbers so far. Called with 0, 0, ends the replay.
void op_collective_again(int64_t first, int64_t last);
// Runs a collective whose output has its memory. The device has set the memory, the queue and combine of t;
// the other members are set here. Returns false, with an error, if that fails.
bool op_collective_run(const struct call *c, struct op_transfer *t);

// again.c ---------------------------------------------------------------------------------------------------

// The value of a parameter; its type determines the member. `number` is for INT, BOOL and DTYPE, and for
// OUTPUT, where it is the number of results that fit.
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
// Returns whether an op that reads sizes is deferred, and defers it if so. The op calls this first, and
// passes its own arguments in order. If it is deferred, *out is its result, or NULL and an error.
bool op_again(zl_array *out, const char *function, op_again_fn *run, ...);
// Does the same for an op with several results; *ok is what the op is to return.
bool op_again_all(bool *ok, int results, zl_array *out, const char *function, op_again_fn *run, ...);

// quantize.c, quantized_matmul.c ----------------------------------------------------------------------------

enum quant_mode { QUANT_AFFINE, QUANT_MXFP4, QUANT_MXFP8, QUANT_NVFP4, QUANT_GGUF_K };
struct quantization {
    enum quant_mode mode;
    int group, bits;
};
// Return, for mode gguf_k, the number of groups that share a block of scales, and the bytes of such a block.
// As in the blocks of Q4_K, Q5_K and Q6_K.
static inline int op_k_groups(int bits) {
    return bits == 6 ? 16 : 8;
}
static inline int op_k_bytes(int bits) {
    return bits == 6 ? 18 : 16;
}
// Returns the number of columns of the matrix that is packed in these words.
int64_t op_quant_columns(const struct quantization *q, zl_array words);
// Reads the arguments; NULL and INT_MIN stand for the defaults. Returns false, with an error that names
// `function`, if there is no such quantisation.
bool op_read_quantization(const char *function, const char *mode, int group, int bits,
                          struct quantization *q);
// Returns whether the parts of a quantised matrix fit each other; false, with an error that names `function`,
// if not. biases may be NULL.
bool op_check_quantized(const char *function, const struct quantization *q, zl_array w, zl_array scales,
                        zl_array biases);
// Returns whether an array, or NULL, can be the global scale, which multiplies all scales; false, with an
// error that names `function`, if not.
bool op_check_global(const char *function, const struct quantization *q, zl_array scale);
// Returns whether the mode, group size and bits of an unchecked call form a valid quantisation. Sets no
// error; for the column fits.
bool op_is_quantization(const int64_t *arg);
// Returns whether words, scales and, in mode affine, biases fit each other and these arguments. Sets no
// error.
bool op_are_quantized(const int64_t *arg, const zl_array *part);
// Returns the cotangent of scales (input 1) or biases (2) from the cotangent g of the matrix.
zl_array op_quant_vjp(zl_array w, zl_array scales, const struct quantization *q, int input, zl_array g);
// Returns the indices of matrices of x as uint32. NULL stands for 0, 1, 2, ... in the shape of the axes of x
// before the last two. Returns NULL, with an error that names `function`, if that fails.
zl_array op_matrix_indices(const char *function, zl_array indices, zl_array x);

// custom_kernel.c, source_kernel.c --------------------------------------------------------------------------

// Returns whether an unchecked call is of an op whose calls hold a kernel: it has `args` arguments and the
// inputs of op_kernel_inputs. Sets no error; for the column fits.
bool op_is_kernel(const struct call *c, const zl_array *in, int args);
// Records such a call with arg[0] outputs. Returns false, with an error, if that fails.
bool op_record_kernel(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                      zl_array *out);
// Writes the inputs of such a call to `all`: the text, for each output an array of its shape that holds
// `value`, then the inputs of the kernel. Returns false, with an error, if that fails.
bool op_kernel_inputs(const char *function, const char *text, double value, int outputs,
                      const zl_shape *shape, const zl_dtype *dtype, int count, const zl_array *in,
                      zl_array *all);

enum {
    KERNEL_OUTPUTS,
    KERNEL_GRID,
    KERNEL_GROUP = 4,
    KERNEL_FILLS = 7,
    KERNEL_STRIDED,
    KERNEL_SHARED,
    KERNEL_ARGS
};
enum { KERNEL_AXES_MOST = 8 }; // of inputs of op_cuda_kernel
struct op_cuda_sizes {
    int32_t of[KERNEL_AXES_MOST];
};
struct op_cuda_strides {
    int64_t of[KERNEL_AXES_MOST];
};
struct op_kernel_operand { // kernel_prelude.c declares the same for kernels
    void *data;
    const int64_t *shape, *strides;
    int ndim;
};
struct op_kernel_call {
    const struct op_kernel_operand *operand; // inputs, then outputs
    int64_t grid[3], group[3];
};
extern const char op_kernel_prelude[]; // kernel_prelude.c
// Returns whether a text is an identifier of C (kernel_text.c); false for NULL.
bool op_kernel_names(const char *name);
// Appends the C text of a kernel for the CPU.
void op_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in);
// Appends source text of the program, with a #line so that compilers report its own line numbers.
void op_kernel_own(struct text *out, const char *name, const char *what, const char *text);
// Appends the CUDA text of a kernel (cuda_kernel_text.c).
void op_cuda_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in);

// contract.c ------------------------------------------------------------------------------------------------

// For the column fits: these return whether an unchecked call keeps the contract of its op. None of them sets
// an error.
static inline bool op_has(const struct call *c, int inputs, int args) {
    return c->inputs == inputs && c->args == args;
}
static inline bool op_is_among(int64_t value, int64_t count) { // 0 to count - 1; for a bool, count is 2
    return value >= 0 && value < count;
}
static inline bool op_is_axis(zl_array x, int64_t axis) {
    return op_is_among(axis, x->ndim);
}
// Returns whether all axes are in [0, limit) and none occurs twice; if `sorted`, whether they ascend too.
bool op_are_axes(int limit, int count, const int64_t *axis, bool sorted);
// Returns whether a and b have the same shape.
bool op_same_shape(zl_array a, zl_array b);
// Returns whether they have the same shape except along this axis.
bool op_same_but_along(zl_array a, zl_array b, int64_t axis);
// Returns whether all arrays hold integers and have one shape.
bool op_are_indices(int count, const zl_array *in);
// Returns whether each size, one per axis, is in [0, the size of x].
bool op_are_within(zl_array x, const int64_t *size);
// Returns whether no step is 0.
bool op_has_steps(int ndim, const int64_t *step);
// Returns whether updates have the dtype of a, `lead` leading axes of these sizes, then slices of a.
bool op_are_updates(zl_array a, zl_array updates, int lead, const int64_t *dim);
// Returns whether two arrays are matrices of the dtype with the same batch axes and inner size.
bool op_are_factors(const zl_array *in, zl_dtype dtype);
// Returns whether the dtype is float16, bfloat16 or float32.
bool op_is_small_float(zl_dtype dtype);

// slice.c ---------------------------------------------------------------------------------------------------

// The elements of an axis that a slice takes: `count` elements, from `start` on, `step` apart.
struct slice_run {
    int64_t start, step, count;
};
// Returns the elements that start:stop:step takes of an axis of `size` elements, by the rules of Python.
struct slice_run op_slice_run(int64_t size, int64_t start, int64_t stop, int64_t step);
// Returns the elements that a call of op_slice takes of an axis of x. arg: start of each axis, then stop,
// then step, as the program gave them.
struct slice_run op_slice_along(zl_array x, const int64_t *arg, int axis);

// op_help.c -------------------------------------------------------------------------------------------------

// The checks of the arguments of public functions return false, with an error that begins with `function`, if
// they fail; exceptions are stated below.

// Returns whether the list is not NULL, whatever its numbers are.
bool op_check_list(const char *function, zl_shape list);
// Returns whether the sizes are not NULL, none is negative, and op_check_size holds.
bool op_check_shape(const char *function, zl_shape shape);
// Returns whether the number of elements and, for every dtype, the number of bytes fit 64 bits.
bool op_check_size(const char *function, int ndim, const int64_t *dim);
// Returns whether there is such a dtype.
bool op_check_dtype(const char *function, zl_dtype dtype);
// Returns whether `out` is not NULL, and sets all of it to NULL.
bool op_check_out(const char *function, int count, zl_array *out);
// Returns whether a and b broadcast. False, without an error, if one of them is NULL.
bool op_check_broadcast(const char *function, zl_array a, zl_array b);
// Returns whether an optional array is usable or was not given: false if it is NULL because of an earlier
// error.
bool op_check_optional(zl_array x);
// Returns whether there is at least one array and none is NULL. For an array that is NULL, it sets no error.
bool op_check_inputs(const char *function, const zl_array *arrays, int count);
// Returns whether x broadcasts to the shape.
bool op_check_broadcast_to(const char *function, zl_array x, int ndim, const int64_t *dim);
// Returns whether the indices are integers.
bool op_check_integers(const char *function, zl_array indices);
// Converts the arguments of a call to axes.
void op_axes_of(int count, const int64_t *arg, int *out);
// Writes axes as non-negative numbers, in their order. Returns false, with an error that names `function`, if
// one is out of range or occurs twice.
bool op_read_axes(const char *function, zl_array a, zl_axes axes, int64_t *out);
// Checks arrays of indices and the axis of a for each. Writes the arrays, broadcast against each other, and
// the axes as non-negative numbers. Returns false, with an error, if that fails; for an array that is NULL,
// it sets no error.
bool op_check_indices(const char *function, zl_array a, const zl_array *indices, int count, zl_axes axes,
                      zl_array *out, int64_t *out_axes);

// Returns float32 for integers and bool, else the dtype itself.
zl_dtype op_float_dtype(zl_dtype dtype);
// Returns `other` if the dtype is not given (ZL_DTYPE_COUNT), else the dtype itself.
zl_dtype op_dtype_or(zl_dtype dtype, zl_dtype other);
// Returns the largest finite number of a float dtype.
double   op_largest(zl_dtype dtype);
// Returns a scalar, lent, that is not weak, or NULL and an error. For integers, the value is rounded toward
// 0.
zl_array op_number(zl_dtype dtype, double value);
// Returns zeros of the shape and dtype of x, lent, or NULL and an error.
zl_array op_zeros_of(zl_array x);
// Returns a view of the elements [from, to) of an axis of x, lent, or NULL and an error. NULL gives NULL. x
// has at most 16 axes.
zl_array op_slice_axis(zl_array x, int axis, int64_t from, int64_t to);
// Returns the offsets of packed sequences as kernels rely on them, lent, or NULL and an error: int32,
// ascending from 0 to `time`, whatever values were given.
zl_array op_whole_offsets(zl_array offsets, int64_t time);

// Evaluates arrays, the last of which is an integer on which the shape of a result depends, and sets *number
// to it. Returns false, with an error that names `function`, if that fails, or if one is traced and has no
// values.
bool op_read_number(const char *function, int count, const zl_array *arrays, int64_t *number);

// Returns the cotangent of x, an operand of max or min: that of the result where x is the result, else 0.
zl_array op_winners(zl_array result, zl_array x, zl_array cotangent);

// Returns x with its extra axis, that of vmap, moved to the front.
zl_array op_batch_first(zl_array x, int axis);
// Returns x with its extra axis first, which has size 1 if x has none (axis -1).
zl_array op_batch_any(zl_array x, int axis);
// Returns the size of the extra axis, or -1 if no array has one.
int64_t  op_batch_size(int count, const zl_array *in, const int *axis);
// Returns x with its extra axis first, broadcast to `batch` if x has none.
zl_array op_batch_repeat(zl_array x, int axis, int64_t batch);

// Computes the tangent of a linear op of one input, by recording the op on the input's tangent: its column
// jvp.
bool op_jvp_linear(const struct call *c, const zl_array *tangent, zl_array *out);
// Returns NULL: the column vjp of ops whose derivatives are 0.
zl_array op_vjp_zero(const struct call *c, int input, const zl_array *cotangent);
// Sets all tangents to NULL: the column jvp of such ops.
bool op_jvp_zero(const struct call *c, const zl_array *tangent, zl_array *out);
// Refuses, as MLX does, a gradient by an input that holds positions: returns NULL and an error.
zl_array op_refuse_positions(const struct call *c);
// Returns whether an input holds positions, by the column positions.
bool op_is_position(const struct call *c, int input);
// Records a call of an op of one input that keeps every axis where it is: its column vmap.
bool op_vmap_same(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);

#endif
