// op.h - the description of an op, and the functions with which ops are written.
//
// An elementwise op is a row of elementwise.def. Any other op is a row of ops.def and a small file with its
// `struct op`, the public function that checks and records, and its signature. Functions composed of other
// ops are plain functions with a signature.

#ifndef OP_H
#define OP_H

#include "graph/graph.h"
#include "op/rules.h"
#include "tile/tile.h"

// op.c ------------------------------------------------------------------------------------------------------

enum op_kind {
    OP_ELEMENTWISE, // the field `row` says which
    OP_CAST,        // elementwise, to the output's dtype
    OP_VIEW,        // output k shares the storage of input k, with its own sizes, strides and offset
    OP_COPY,        // the same elements, row-major
    OP_REDUCE,      // combines elements over axes, which are its arguments
    OP_OTHER,       // another op, known to devices by its address
};

// How an argument is hashed, printed and saved. FIELD_LIST takes all remaining arguments.
enum op_field_type { FIELD_INT, FIELD_BOOL, FIELD_DOUBLE, FIELD_DTYPE, FIELD_LIST };
struct op_field {
    const char *name;
    enum op_field_type type;
};

enum { OP_OUTPUTS_VARY = UINT8_MAX };

// How the kernel of an op (a file of src/kernel/) computes a call. The kernel's parameters are `in`, then
// `value`, then the outputs of the call. Its symbols are `size`, then the position of the first element of
// each of `in` in its memory, then the number of elements in each of these memories. The clause BITS, the
// width of indices, is set by the device.
enum { OP_KERNEL_SIZES = 16, OP_KERNEL_INPUTS = 12, OP_KERNEL_VALUES = 4, OP_KERNEL_OUTPUTS = 8 };
struct op_kernel_value {
    union {
        float  f32;
        double f64;
    };
    size_t bytes;
};
struct op_kernel {
    char file[32];     // "cross_entropy" for cross_entropy.tile
    char clauses[256]; // values of the file's clauses: "ITEM=f32,LANES=8"
    // Clauses that replace others on units whose workgroups have too little shared memory for the kernel; "":
    // none.
    char smaller[32];
    int sizes, inputs, values;
    int64_t size[OP_KERNEL_SIZES];
    struct op_kernel_value value[OP_KERNEL_VALUES]; // parameters that are numbers
    // The inputs of the call, unless the op changes them. Each is contiguous, which the op ensures when the
    // call is recorded, or the kernel gets its strides among the sizes.
    zl_array in[OP_KERNEL_INPUTS];
};

struct op {
    const char *name;
    enum op_kind kind;
    enum tile_op row;    // ELEMENTWISE: the op; REDUCE: the op that combines elements
    // number of outputs of a call; 0 stands for one; OP_OUTPUTS_VARY: `fits` checks the number
    uint8_t outputs;
    uint8_t fields;
    const struct op_field *field;
    // Records the same call on other inputs. Returns false, with an error, if that fails. Batching, compiled
    // functions and exported functions use it to replay calls.
    bool (*record)(const struct call *c, const zl_array *in, zl_array *out);
    // Returns whether record may be called with these inputs and the arguments of c, none of which have been
    // checked: they come from a file, or have new shapes. Sets no error. NULL: the rules of elementwise ops,
    // casts and copies apply.
    bool (*fits)(const struct call *c, const zl_array *in);
    // The inputs from `first` to `last` are positions; negative numbers count from the end; first 0: there
    // are none. As in MLX, differentiating with respect to positions is refused.
    struct op_positions {
        int8_t first, last;
    } positions;
    // Returns the cotangent of one input, given those of the outputs (NULL: zero), or NULL if no gradient
    // flows to it. Integer inputs have cotangents too if their values are used in arithmetic.
    zl_array (*vjp)(const struct call *c, int input, const zl_array *cotangent);
    // Computes the cotangents of all inputs together. Those that are not wanted, without a gradient, or left
    // to `composed` stay NULL. Returns false, with an error, if that fails. NULL: vjp is called for each
    // input.
    bool (*vjp_all)(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
    // Computes the tangents of the outputs, given those of the inputs (NULL: zero).
    bool (*jvp)(const struct call *c, const zl_array *tangent, zl_array *out);
    // Computes the outputs from these inputs by other ops. These ops are differentiated where the op has no
    // rule of its own, and for inputs to which vjp returns NULL. An output without a derivative stays NULL;
    // inputs of bool have no derivative.
    bool (*composed)(const struct call *c, const zl_array *in, zl_array *out);
    // Records the call on inputs with an extra axis each (-1: none), and writes where the extra axis of each
    // output is.
    bool (*vmap)(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
    // Fills in the file, clauses and sizes of the op's kernel for a call. An op with a kernel runs on every
    // device; a device with a faster way lists it in its own table. NULL: the op has no kernel.
    void (*kernel)(const struct call *c, struct op_kernel *k);
    uint64_t in_place; // bit k: the kernel may write the first output into the memory of input k
};

// Computes the cotangents of the inputs of a call by differentiating the ops that it is composed of, like
// vjp_all. Ops that are the gradient of another op use it. The transforms define it (composed.c).
extern bool (*op_composed_vjp)(const struct call *c, const bool *wanted, const zl_array *cotangent,
                               zl_array *out);

// Sets the kernel's file and its clauses, for op->kernel. Of printf's formats, only %s and %d work.
void op_kernel_set(struct op_kernel *k, const char *file, const char *clauses, ...)
    __attribute__((format(printf, 3, 4)));
// Appends a size of the kernel.
void op_kernel_size(struct op_kernel *k, int64_t size);
// Appends a parameter that is a number: an f64 if dtype is ZL_FLOAT64, else an f32.
void op_kernel_value(struct op_kernel *k, zl_dtype dtype, double value);
// Returns the tile type of an array's elements as clauses name it.
const char *op_kernel_type(zl_array x);
// Returns how many of a workgroup's 256 threads share a row of `count` elements: a power of two, such that
// each thread has at least four elements.
int op_kernel_lanes(int64_t count);

// Records a call of op. The arguments are int64_t words as op->field describes them. Returns the first
// output, or NULL and an error; NULL inputs give NULL.
zl_array op_call(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                 const struct array_spec *spec);
// Does the same for contiguous outputs of one dtype and shape.
zl_array op_dense(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                  zl_dtype dtype, int ndim, const int64_t *dim);
// Returns the strides for a result that is computed element by element: those of its inputs if all of them
// have the same layout without gaps, so that nothing is transposed; NULL stands for row-major.
const int64_t *op_common_stride(int count, const zl_array *in, int ndim, const int64_t *dim);
// Records a view of x: other sizes, strides and offset over the same storage.
zl_array op_view(const struct op *op, zl_array x, int args, const int64_t *arg, int ndim, const int64_t *dim,
                 const int64_t *stride, int64_t offset);
// Returns the offset in elements from which a view of x is computed. Pins a lazy view first, since its offset
// could still change.
static inline int64_t op_offset(zl_array x) {
    bool may_move = array_state(x) == ARRAY_LAZY && x->call->op->kind == OP_VIEW;
    return may_move ? array_pin(x) : x->offset;
}
// Records a view with a dtype of its own.
zl_array op_view_as(const struct op *op, zl_array x, int args, const int64_t *arg,
                    const struct array_spec *spec);
// Returns x itself, lent, as the result of an op with no effect.
zl_array op_same(zl_array x);

extern const struct op op_elementwise[]; // by enum tile_op
extern const struct op op_cast, op_copy;

// Returns the dtype in which an elementwise call computes: that of its first input that is not a weak scalar.
zl_dtype op_computes_in(const struct call *c);

// Returns whether a call divides floats by a constant power of two: multiplying by the reciprocal is exact
// too, and faster.
bool op_scales(const struct call *c);
// Returns whether a call divides bf16 by a constant such that the product with its inverse in float32,
// rounded, has the same bits. The product errs by at most 2^-23, while a quotient is at least 2^-17 (both
// relative) away from the midpoint of two bf16 numbers, or exactly at it if these are subnormal.
bool op_has_inverse(const struct call *c);

// Returns the number of arithmetic operations of a call with inputs (flops.c): one per element of an
// elementwise op or of a reduction's input, two per multiplication and addition of a product. Returns 0 if
// the op only moves data, or if the number depends on the values (svd, eig, sort).
double op_flops(const struct call *c);
// Returns whether the op reads no more elements of its first input than its result has.
bool op_selects(const struct op *op);

// Returns the argument word of a FIELD_DOUBLE: the bits of the value.
int64_t op_double_arg(double value);
// Returns the value of such a word.
double  op_arg_double(int64_t word);

// Returns the transpose of broadcasting: the sum of x over the axes along which an array of the shape of
// `like` was stretched.
zl_array op_unbroadcast(zl_array x, zl_array like);
// Sets `out` to views of the arrays, all of the shape to which these broadcast. Returns false, with an error
// that names `function`, if they do not fit.
bool op_broadcast(const char *function, int count, const zl_array *in, zl_array *out);

// Records an elementwise call on batched inputs: the batching rule (op->vmap) of elementwise ops. The batch
// axis of the output is axis 0.
bool op_vmap_elementwise(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis);

// Writes axes as sorted, distinct, non-negative numbers to `out`, which has room for the rank of x. Returns
// how many there are, or -1 and an error.
int op_axes(const char *function, zl_array x, zl_axes axes, int *out);

// Temporary memory for lists whose length depends on the rank. OP_TEMP(int64_t, dim, 2 * ndim) declares
// `int64_t *dim` with space for that many until the block ends, on the stack for common ranks. It is NULL,
// with an error, if memory runs out.
struct op_temp {
    void *more;
    union {
        int64_t word[4 * SHAPE_INLINE];
        int axis[4 * SHAPE_INLINE];
        zl_array array[4 * SHAPE_INLINE];
    };
};
static inline void *op_temp_open(struct op_temp *temp, size_t size, int64_t count) {
    bool small = count <= 4 * SHAPE_INLINE;
    temp->more = small ? NULL : memory_alloc(size * (size_t)count);
    return small ? temp->word : temp->more;
}
static inline void op_temp_close(struct op_temp *temp) {
    if (temp->more)
        memory_free(temp->more);
}
#define OP_TEMP(type, name, count)                                      \
    __attribute__((cleanup(op_temp_close))) struct op_temp name##_temp; \
    type *name = op_temp_open(&name##_temp, sizeof(type), (count))

// registry.c ------------------------------------------------------------------------------------------------

// Returns the op of a name, or NULL.
const struct op *op_find(const char *name, size_t bytes);
// Returns the op of this number, or NULL past the last. All ops are enumerated, in no particular order.
const struct op *op_at(int index);

// contract.c ------------------------------------------------------------------------------------------------

// Records the call c on inputs that it was not made for, or with arguments that were never checked. Returns
// false, with an error that names `function`, if they do not fit.
bool op_replay(const char *function, const struct call *c, const zl_array *in, zl_array *out);

// signature.c -----------------------------------------------------------------------------------------------

// Every public op has one signature, in the file that defines it. The header, the documentation, the bindings
// and the tests are generated from these. The linker collects them in a section of the binary, so there is no
// list to maintain.
#define OP_SIGNATURE_AS(function, family_, doc_, returns_bool_, ...)                                       \
    static const zl_op_info info_##function = {.name = #function, .family = family_, .doc = doc_,          \
                                               .param = {__VA_ARGS__},                                     \
                                               .params = sizeof((zl_param[]){__VA_ARGS__}) /               \
                                                         sizeof(zl_param),                                 \
                                               .returns_bool = returns_bool_};                             \
    static const zl_op_info *const entry_##function                                                       \
        __attribute__((used, section("zl_ops"))) = &info_##function
#define OP_SIGNATURE(function, family_, doc_, ...) \
    OP_SIGNATURE_AS(function, family_, doc_, false, __VA_ARGS__)
#define OP_SIGNATURE_BOOL(function, family_, doc_, ...) \
    OP_SIGNATURE_AS(function, family_, doc_, true, __VA_ARGS__)

#define P_ARRAY(n)        {#n, ZL_PARAM_ARRAY, NULL}
#define P_ARRAY_OR(n, d)  {#n, ZL_PARAM_ARRAY, d}
#define P_OPTIONAL(n)     {#n, ZL_PARAM_OPTIONAL, "None"}
#define P_NULLABLE(n)     {#n, ZL_PARAM_OPTIONAL, NULL} // the default must be given; it may be None
#define P_ARRAYS(n)       {#n, ZL_PARAM_ARRAYS, NULL}
#define P_INT(n, d)       {#n, ZL_PARAM_INT, d}
#define P_INT64(n, d)     {#n, ZL_PARAM_INT64, d}
#define P_DOUBLE(n, d)    {#n, ZL_PARAM_DOUBLE, d}
#define P_BOOL(n, d)      {#n, ZL_PARAM_BOOL, d}
#define P_DTYPE(n, d)     {#n, ZL_PARAM_DTYPE, d}
#define P_SHAPE(n)        {#n, ZL_PARAM_SHAPE, NULL}
#define P_SHAPE_OR(n, d)  {#n, ZL_PARAM_SHAPE, d}
#define P_AXES(n, d)      {#n, ZL_PARAM_AXES, d}
#define P_STRING(n, d)    {#n, ZL_PARAM_STRING, d}
#define P_OUTPUT(n)       {#n, ZL_PARAM_OUTPUT, NULL} // their number is an argument
#define P_OUTPUTS(n, d)   {#n, ZL_PARAM_OUTPUT, d}    // their number is given by the text d

// Writes the public headers of the ops into a folder. Returns false, with an error, if that fails.
bool op_write_headers(const char *folder);
// Writes one page of documentation per family of ops. Returns false, with an error, if that fails.
bool op_write_docs(const char *folder);

#endif
