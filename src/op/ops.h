// ops.h - the ops that are not elementwise, which devices find by address, and what their files share.
// ops.def says what each of them is given and gives.

#ifndef OPS_H
#define OPS_H

#include "op/op.h"

#define OP(name) extern const struct op op_##name;
#include "op/ops.def"

// reduce.c: of kind OP_REDUCE; one input of the output's dtype; args: the axes, sorted, which stay with size
// 1: a squeeze, which costs nothing, follows. Min and max of NaN are NaN.
enum reduce {
#define REDUCE(NAME, ...) REDUCE_##NAME,
#include "op/reduce.def"
    REDUCE_COUNT
};
extern const struct op op_reduce[]; // by enum reduce
// The public reduction, under the name of another function.
zl_array op_reduce_axes(const char *function, enum reduce which, zl_array x, zl_axes axes, bool keepdims);

// logic.c: the row of the first output of divmod: of floats the quotient that belongs to the exact remainder,
// else floor_divide.
enum tile_op op_quotient_row(zl_dtype dtype);

// addmm.c, matmul.c
enum { ADDMM_ALPHA, ADDMM_BETA, ADDMM_ARGS };
static inline bool op_is_product(const struct op *op) { // of floats, perhaps with something added
    return op == &op_matmul || op == &op_addmm;
}
// The public product, under the name of another function.
zl_array op_matmul_as(const char *function, zl_array a, zl_array b);
// What products of other ops than matmul share with it: vectors, batch axes that broadcast, inner sizes of 0,
// which are zeros.
struct op_product {
    const char *function;
    const struct op *op; // of matrices with the same batch axes
    int args;
    const int64_t *arg;
    zl_dtype dtype; // of the result
    zl_array added; // a third input, which broadcasts to the result; NULL: none
};
// false and an error: they have no product
bool op_check_product(const char *function, zl_array a, zl_array b);
zl_array op_multiply(const struct op_product *p, zl_array a, zl_array b);
// The product of a and b, whose columns are contiguous where those of `like` are: the cotangent of a matrix
// that was transposed is transposed back, and row-major then.
zl_array op_multiply_like(zl_array like, zl_array a, zl_array b);

// conv.c
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
struct conv op_conv_read(const struct call *c);

// fold.c: a call in parts. Of an axis, tap t of output o is the element start + o * step + t * apart of the
// result, which has `size`; strides are those of the input, in elements.
enum { FOLD_AXES = 3 };
struct fold_axis {
    int64_t size, start, step, apart, outs, taps, out_stride, tap_stride;
};
struct fold {
    int64_t batch, batch_stride, channels;
    struct fold_axis axis[FOLD_AXES];
};
struct fold op_fold_read(const struct call *c);
// The cotangent of x, which is row-major, from that of a view that is not empty (arg: as of as_strided), if
// each axis of the view steps along one of x and stays in it, or not at all. False: it is another view; true
// with *out NULL: an error.
bool op_fold_view(zl_array g, zl_array x, int ndim, const int64_t *arg, zl_array *out);

// matmul_fp8.c
enum { FP8_SCALE, FP8_DTYPE, FP8_ARGS };

// attention.c: a call in parts; those that are not there are NULL.
struct attention {
    zl_array q, k, v, mask, sinks;
    zl_array y, state, g; // of the backward pass
    double scale;
    bool causal;
};
struct attention op_attention_read(const struct call *c, const zl_array *in);

// attention_rules.c: the same composed of other ops, also of float64 and empty arrays; and columns of the two
// ops.
zl_array op_attention_composed(const struct attention *a);
zl_array op_attention_mask_vjp(const struct attention *a);
bool op_attention_jvp(const struct call *c, const zl_array *tangent, zl_array *out);
bool op_attention_vjp_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
bool op_attention_vjp_jvp(const struct call *c, const zl_array *tangent, zl_array *out);

// rope.c: a call in parts. x is (B, N, T, D); offsets are one or B, freqs are dims / 2 of the dtype of
// angles, where they are there.
struct rope {
    zl_array x, offsets, freqs;
    int64_t dims, offset; // offset: without offsets
    bool traditional, inverse, has_offsets, has_freqs;
    double base, scale;
};
struct rope op_rope_read(const struct call *c, const zl_array *in);
double op_rope_rate(const struct rope *r); // pair j turns by exp(-j * rate) per position, without freqs

// delta.c: a call in parts, as ops.def has them; e, beta and offsets are NULL where there are none. e may be
// w.
// which kernel; chunks by loops, or by matrix instructions
enum delta_form { DELTA_TOKENS, DELTA_CHUNKS, DELTA_MATRICES, DELTA_FORMS };
struct delta_rule {
    zl_array q, w, x, g, state, e, beta, offsets;
    bool pre, factors;
    enum delta_form form; // of a recorded call
    double scale;
};
struct delta_rule op_delta_read(const struct call *c, const zl_array *in);
// Records it. False and an error.
bool op_delta(const struct delta_rule *r, zl_array *state, zl_array *y);
// What op_delta_read takes apart: how many inputs, and the arguments.
enum { DELTA_INPUTS_MOST = 8, DELTA_ARGS = 7 };
int op_delta_list(const struct delta_rule *r, zl_array *in, int64_t *arg);
bool op_delta_fits(const struct call *c, const zl_array *in, int more); // with so many inputs behind its own
bool op_delta_merge(const struct call *c, const zl_array *in, const int *axis, int64_t batch, zl_array *all);
// What kernels are given behind the five inputs that are always there, and the scale; what is not there is
// not read.
void op_delta_other_inputs(const struct delta_rule *r, struct op_kernel *k);
// delta_wy.c: which kernel computes it where it is recorded, and what that of chunks is given.
enum delta_form op_delta_form(const struct delta_rule *r);
void op_delta_by_chunks(const struct delta_rule *r, struct op_kernel *k);
// Records its gradient: cotangents of q, w, x, g, state, e and beta, those of q, w and e for each head of x.
// Of e or beta that are not there, or e that is w, they are empty. False and an error.
enum { DELTA_COTANGENTS = 7 };
bool op_delta_back(const struct delta_rule *r, zl_array dy, zl_array dstate, zl_array *out);
bool op_delta_vjp_all(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
// delta_chunks.c: the same, composed of other ops.
bool op_delta_chunks(const struct delta_rule *r, zl_array *state, zl_array *y);
// Records the rule with momentum: with mu, logarithms like g, the state has twice the rows of a key, M below
// S. At a token M becomes exp(mu) M - w (x - e^T S)^T, then S becomes exp(g) S - beta M. False and an error.
bool op_delta_momentum(const struct delta_rule *r, zl_array mu, zl_array *state, zl_array *y);

// csr.c
zl_array op_csr_product(const zl_array *in, bool transposed, int64_t columns);
zl_array op_csr_entry_rows(const zl_array *in, int64_t columns);
// The places of a sparse matrix in memory of the host: indices and pointers are int32 or int64.
struct csr_places {
    const void *indices, *pointers;
    zl_dtype dtype;
    int64_t rows, columns, entries;
};
// Whether pointers and indices are those of a matrix. Else false, with an error in the name of an op that
// says what is wrong.
bool op_csr_check(const char *name, const struct csr_places *m);

// fft.c
enum fft { FFT_FORWARD, FFT_INVERSE, FFT_REAL, FFT_HERMITIAN };

// What an op does with an element and the update that falls on it.
enum update { UPDATE_SET, UPDATE_ADD, UPDATE_PROD, UPDATE_MAX, UPDATE_MIN };
enum tile_op op_update_row(enum update how); // the row that combines; of UPDATE_SET it is none

// scatter.c
zl_array op_scatter_slices(enum update how, zl_array a, int count, const zl_array *indices, zl_array updates,
                           const int64_t *axes);

// scan.c
enum scan { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, SCAN_LOGADDEXP };

// sort.c: what an axis of a becomes, moved to the end and back; arg goes to order. An error in the name of
// function.
typedef zl_array op_order_fn(zl_array x, const int64_t *arg);
zl_array op_order(const char *function, zl_array a, int axis, op_order_fn *order, const int64_t *arg);
// The column vmap of ops along the last axis.
bool op_vmap_last(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
// partition.c: arguments of a call as positions in an axis.
struct op_window {
    int64_t kth, first, count;
};
// of n elements; false: it does not fit
bool op_partition_window(const int64_t *arg, int64_t n, struct op_window *w);

// linalg.c --------------------------------------------------------------------------------------------------

// Whether a has at least two axes, equal ones at the end if square, and a dtype that factorisations have.
bool op_check_matrix(const char *function, zl_array a, bool square, bool may_be_complex);
// For the column fits of factorisations: one such matrix that is not empty, and so many arguments, all of
// them bools.
bool op_fits_factor(const struct call *c, const zl_array *in, int args, bool square, bool may_be_complex);
// Records a factorisation of a: out[k] is of dtype[k] and has the batch axes of a, then last[k] axes: rows[k]
// if two, and cols[k].
struct factor_output {
    zl_dtype dtype;
    int last;
    int64_t rows, cols;
};
bool op_factor(const char *function, const struct op *op, zl_array a, int args, const int64_t *arg,
               int outputs, const struct factor_output *f, zl_array *out);
// The column vmap of factorisations.
bool op_vmap_factor(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
// A matrix of that many rows and columns with ones on its diagonal, once for each of the batch axes of a.
zl_array op_eyes(zl_array a, int64_t rows, int64_t cols, zl_dtype dtype);

// follow.c --------------------------------------------------------------------------------------------------

bool op_follows(zl_array x); // the shape of x may be another one next time
// The first array stretched to the shape that all have together, but for the last axes of each. NULL and an
// error.
zl_array op_stretch(const char *function, int count, const zl_array *in, int last);
// How many elements x has along some axes, less some but not below 0; or one divided by that. A scalar to
// multiply by, weak unless it follows x: then of that dtype.
zl_array op_count(zl_array x, zl_dtype dtype, int count, const int *axis, int less, bool inverse);

// defer.c ---------------------------------------------------------------------------------------------------

bool op_defers(int count, const zl_array *in); // some of them may have other shapes next time
// What f, which is retained, gives for these: deferred if its inputs say so, else at once. It gives so many
// results. A deferred call is one of recorder.deferred that holds f, as its last input, and stands for what f
// gives.
bool op_defer(zl_fn f, int count, const zl_array *in, int results, zl_array *out);
// For the op of deferred calls: the function that one holds, and the column record.
zl_fn op_deferred_function(const struct call *c);
bool op_record_deferred(const struct call *c, const zl_array *in, zl_array *out);
// What f gives for these: a graph that has their sizes. At most `most` results; how many, or -1 and an error.
int op_run_now(zl_fn f, int count, const zl_array *in, int most, zl_array *out);
bool op_give_all(int count, const zl_array *list, zl_outputs *out);

// load.c ----------------------------------------------------------------------------------------------------

// Where elements come from when an array is evaluated. read writes all of them, row-major, on any thread:
// false and an error.
struct op_source {
    bool (*read)(void *context, void *out, size_t bytes);
    void (*release)(void *context);
    void *context;
};
// Input: the bytes that are read; its storage holds the source.
extern const struct op op_load;
// Returns a lazy array of elements that source makes of these bytes, which the context keeps there; lent.
// Takes the context over, also where it returns NULL.
zl_array op_load_from(const struct op_source *source, const void *data, size_t bytes, zl_dtype dtype,
                      zl_shape shape);
bool op_load_run(const struct call *c, void *out); // for devices

// collective.c ----------------------------------------------------------------------------------------------

// What the processes of a group do together. Inputs: x, row-major, which RECV has not, then the ticket: a
// leaf that holds the group and tells in which order collectives were recorded. args: the peer. They are
// calls of the group's stream, and the schedule runs those of an evaluation in that order.
enum collective {
#define COLLECTIVE(NAME, ...) COLLECTIVE_##NAME,
#include "op/collective.def"
    COLLECTIVE_COUNT
};
extern const struct op op_collectives[COLLECTIVE_COUNT]; // by enum collective
static inline bool op_is_collective(const struct op *op) {
    return (uintptr_t)op - (uintptr_t)op_collectives < sizeof(struct op) * COLLECTIVE_COUNT;
}

// One collective that a group is to run. in and out hold so many elements of dtype, and may be the same
// memory where the row says so.
struct op_transfer {
    enum collective kind;
    const char *name;
    zl_dtype dtype;
    int peer;
    const void *in;
    void *out;
    int64_t in_count, out_count;
    // Writes to n elements what a and b combine to: of sums, and of the largest and smallest. NULL for the
    // others.
    void (*combine)(const struct op_transfer *t, void *to, const void *a, const void *b, int64_t n);
    const void *row; // for combine
    // Of arrays that lie on a device: the queue of its driver that they are computed in, for libraries that
    // work there, and whether all that it was asked for is done: 1, 0: not yet, -1: it failed. NULL: they lie
    // on the host.
    void *queue;
    int (*progress)(void *queue);
};

// The processes that communicate. Who makes one fills it in; the last who lets go of it calls close, which
// frees it.
struct zl_group_ {
    atomic_int refs;
    int rank, size;
    const char *engine;
    zl_stream stream; // of its collectives
    bool (*run)(zl_group g, const struct op_transfer *t); // false and an error
    // NULL: all. What it does not take is made of other collectives
    bool (*takes)(enum collective kind, zl_dtype dtype);
    zl_group (*split)(zl_group g, int color, int key);    // NULL and an error
    void (*close)(zl_group g);
};

// Records a collective of x, or of nothing for RECV, whose result has a dtype and shape. What it is given was
// checked. Lent.
zl_array op_collective(enum collective kind, zl_group group, zl_array x, int peer, zl_dtype dtype, int ndim,
                       const int64_t *dim);
int64_t op_collective_number(const struct call *c); // later ones have larger numbers
// While a function is done again, its collectives get numbers in the order in which it recorded them, of
// which the first and last are given: after those of all that was recorded so far. Ends with 0, 0.
void op_collective_again(int64_t first, int64_t last);
// Runs a call whose output has its memory: of t, the device sets where the arrays lie and how it combines
// them. False and an error.
bool op_collective_run(const struct call *c, struct op_transfer *t);

// again.c ---------------------------------------------------------------------------------------------------

// The value of a parameter; which member it is follows from its type. number: of INT, BOOL and DTYPE; of
// OUTPUT, how many there is room for.
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
// At the start of an op that reads sizes: whether it is deferred, with its own arguments in order. *out: its
// result.
bool op_again(zl_array *out, const char *function, op_again_fn *run, ...);
// The same of an op that gives a list and says whether all is well.
bool op_again_all(bool *ok, int results, zl_array *out, const char *function, op_again_fn *run, ...);

// quantize.c, quantized_matmul.c ----------------------------------------------------------------------------

enum quant_mode { QUANT_AFFINE, QUANT_MXFP4, QUANT_MXFP8, QUANT_NVFP4, QUANT_GGUF_K };
struct quantization {
    enum quant_mode mode;
    int group, bits;
};
// How many groups have a block of scales together in mode gguf_k, and the bytes of that: as in the blocks of
// Q4_K, Q5_K and Q6_K.
static inline int op_k_groups(int bits) {
    return bits == 6 ? 16 : 8;
}
static inline int op_k_bytes(int bits) {
    return bits == 6 ? 18 : 16;
}
// Returns the numbers in a row of the matrix of the words.
int64_t op_quant_columns(const struct quantization *q, zl_array words);
// What the arguments say; INT_MIN and NULL are not given. False and an error.
bool op_read_quantization(const char *function, const char *mode, int group, int bits,
                          struct quantization *q);
// Whether the parts of a quantised matrix fit each other. biases may be NULL.
bool op_check_quantized(const char *function, const struct quantization *q, zl_array w, zl_array scales,
                        zl_array biases);
// Whether that may be the scale of all scales; NULL: there is none.
bool op_check_global(const char *function, const struct quantization *q, zl_array scale);
// For the column fits: the same, without an error, of the arguments mode, group size and bits of a call that
// nobody has checked, and of the inputs that are parts of its matrix.
bool op_is_quantization(const int64_t *arg);
bool op_are_quantized(const int64_t *arg, const zl_array *part);
// Cotangent of scales (input 1) or biases (2) from that of the matrix.
zl_array op_quant_vjp(zl_array w, zl_array scales, const struct quantization *q, int input, zl_array g);
// Numbers of matrices of x: the indices as they are given, or (NULL) all in the shape of its axes before the
// last two. NULL and an error that names function.
zl_array op_matrix_indices(const char *function, zl_array indices, zl_array x);

// custom_kernel.c, source_kernel.c --------------------------------------------------------------------------

// For the column fits of ops whose calls hold a kernel, with so many arguments: the text, an array like each
// output, what it reads.
bool op_is_kernel(const struct call *c, const zl_array *in, int args);
// Such a call. arg[0]: how many outputs.
bool op_record_kernel(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                      zl_array *out);
// All of its inputs: the text, arrays like each output that hold a value, then what it reads.
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
// under its own line numbers
void op_kernel_own(struct text *out, const char *name, const char *what, const char *text);
// cuda_kernel_text.c
void op_cuda_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in);

// contract.c ------------------------------------------------------------------------------------------------

// For the column fits: whether what nobody has checked is as the contract of an op says. None of them sets an
// error.
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
// two matrices of it with the same batch axes and inner size
bool op_are_factors(const zl_array *in, zl_dtype dtype);
bool op_is_small_float(zl_dtype dtype);                       // float16, bfloat16 or float32

// slice.c ---------------------------------------------------------------------------------------------------

// What a slice takes of an axis of so many elements: count of them, from start on, step apart.
struct slice_run {
    int64_t start, step, count;
};
struct slice_run op_slice_run(int64_t size, int64_t start, int64_t stop, int64_t step);
// What a call of op_slice takes of an axis of x. arg: start of each axis, then stop, then step, as they were
// given.
struct slice_run op_slice_along(zl_array x, const int64_t *arg, int axis);

// op_help.c -------------------------------------------------------------------------------------------------

// Whether arguments make sense; else false and an error that begins with function.
bool op_check_list(const char *function, zl_shape list);                // there, whatever the numbers are
bool op_check_shape(const char *function, zl_shape shape);              // sizes, none negative, that fit
bool op_check_size(const char *function, int ndim, const int64_t *dim); // fits 64 bits with every dtype
bool op_check_dtype(const char *function, zl_dtype dtype);
bool op_check_out(const char *function, int count, zl_array *out);      // there; all set to NULL
bool op_check_broadcast(const char *function, zl_array a, zl_array b); // no error when one of them is NULL
bool op_check_optional(zl_array x);                                     // given or not, but not a failure
// no error when one of them is NULL
bool op_check_inputs(const char *function, const zl_array *arrays, int count);
bool op_check_broadcast_to(const char *function, zl_array x, int ndim, const int64_t *dim);
bool op_check_integers(const char *function, zl_array indices);
// arguments of a call as axes
void op_axes_of(int count, const int64_t *arg, int *out);
// as they are given, each once
bool op_read_axes(const char *function, zl_array a, zl_axes axes, int64_t *out);
// Index arrays, and which axis of a each is for: checked, the arrays broadcast against each other and the
// axes made non-negative. No error when one of the arrays is NULL.
bool op_check_indices(const char *function, zl_array a, const zl_array *indices, int count, zl_axes axes,
                      zl_array *out, int64_t *out_axes);

zl_dtype op_float_dtype(zl_dtype dtype);             // float32 for integers and bool, else the same
zl_dtype op_dtype_or(zl_dtype dtype, zl_dtype other); // other where it is not given
double   op_largest(zl_dtype dtype);                 // number of a float dtype
// a scalar that is not weak; small whole numbers for integers
zl_array op_number(zl_dtype dtype, double value);
zl_array op_zeros_of(zl_array x);                    // of its shape and dtype
// Rows `from` to `to` of an axis: a view. At most 16 axes.
zl_array op_slice_axis(zl_array x, int axis, int64_t from, int64_t to);
// Offsets of packed sequences as kernels rely on them, int32: ascending from 0 to the last token, whatever
// was given.
zl_array op_whole_offsets(zl_array offsets, int64_t time);

// Evaluates arrays, the last of which is a whole number, on which the shape of a result depends: *number.
// False and an error that names function, also where one is traced whose inputs are not there.
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
