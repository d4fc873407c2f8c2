// op.h - what an op is to the rest of the system, and how ops are written.
//
// An elementwise op is a row of elementwise.def. Any other op is a row of ops.def and a small file with its `struct op`, the
// public function that checks and records, and its signature. Ops that are made of others are plain functions with a signature.

#ifndef OP_H
#define OP_H

#include "graph/graph.h"
#include "op/rules.h"
#include "tile/tile.h"

// op.c -----------------------------------------------------------------------------------------------------------

enum op_kind {
    OP_ELEMENTWISE, // row says which
    OP_CAST,        // elementwise, to the output's dtype
    OP_VIEW,        // each output shares the storage of the input at its place: dims, strides, offset are its own
    OP_COPY,        // the same elements, row-major
    OP_REDUCE,      // combine over axes; args: axes
    OP_OTHER,       // the device knows it by its address
};

// How an argument is hashed, printed and saved. LIST takes all that are left.
enum op_field_type { FIELD_INT, FIELD_BOOL, FIELD_DOUBLE, FIELD_DTYPE, FIELD_LIST };
struct op_field {
    const char *name;
    enum op_field_type type;
};

enum { OP_OUTPUTS_VARY = UINT8_MAX };

// What the kernel of an op, a file of src/kernel/, is given to compute a call. Its parameters are `in`, then `value`, then the outputs of
// the call.
// Its symbols are `size`, then for each of `in` the element of its memory at which it begins, then for each how many elements that memory
// has. BITS, of its indices, is a clause of the file, and devices say what it is.
enum { OP_KERNEL_SIZES = 16, OP_KERNEL_INPUTS = 12, OP_KERNEL_VALUES = 4, OP_KERNEL_OUTPUTS = 8 };
struct op_kernel_value {
    union {
        float  f32;
        double f64;
    };
    size_t bytes;
};
struct op_kernel {
    char file[32];     // "cross_entropy", of cross_entropy.tile
    char clauses[256]; // what other clauses of the file are: "ITEM=f32,LANES=8"
    int sizes, inputs, values;
    int64_t size[OP_KERNEL_SIZES];
    struct op_kernel_value value[OP_KERNEL_VALUES]; // scalar parameters
    // Those of the call, unless the op changes that. Each is row-major and without gaps, or its kernel is given strides among the
    // sizes: the op sees to that when it is recorded.
    zl_array in[OP_KERNEL_INPUTS];
};

struct op {
    const char *name;
    enum op_kind kind;
    enum tile_op row;    // ELEMENTWISE: the op; REDUCE: what combines
    uint8_t outputs;     // how many a call has: 0 says one, OP_OUTPUTS_VARY that its column fits checks it
    uint8_t fields;
    const struct op_field *field;
    // Records the same call on other inputs: batching, compiled and exported functions replay with it.
    bool (*record)(const struct call *c, const zl_array *in, zl_array *out);
    // Whether record may be given these inputs with the arguments of c, when neither were checked before: they come from
    // a file, or have other shapes. Says so without an error. NULL: of elementwise ops, casts and copies.
    bool (*fits)(const struct call *c, const zl_array *in);
    // Inputs from first to last that hold positions, counted from the end if negative; first 0: none. Where they are made from
    // what is differentiated by, derivatives are refused, as by MLX.
    struct op_positions {
        int8_t first, last;
    } positions;
    // Cotangent of one input, from those of the outputs (NULL: zero). NULL: no gradient flows. Integers have one too where
    // numbers are computed with.
    zl_array (*vjp)(const struct call *c, int input, const zl_array *cotangent);
    // The same for all inputs at once, where they are computed together: those that are not wanted, or to which no
    // gradient flows, stay NULL, and so do those that follow from `composed`. NULL: vjp is asked for each.
    bool (*vjp_all)(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
    // Tangents of the outputs, from those of the inputs (NULL: zero).
    bool (*jvp)(const struct call *c, const zl_array *tangent, zl_array *out);
    // The outputs as other ops compute them from these inputs: what is differentiated where the op has no rule of its own, and for
    // inputs of which vjp gives NULL.
    // An output without a derivative stays NULL; inputs of bool have none.
    bool (*composed)(const struct call *c, const zl_array *in, zl_array *out);
    // The call on inputs with an extra axis each (-1: none); gives outputs and where their extra axis is.
    bool (*vmap)(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);
    // Fills in the file, clauses and sizes of its kernel for a call. With it the op runs on every device; where a device has something
    // better, a row of that device names it. NULL: the op has no such kernel.
    void (*kernel)(const struct call *c, struct op_kernel *k);
    uint64_t in_place; // bit k: that kernel may write the first output where input k was
};

// Cotangents of the inputs of a call by what it is composed of, as vjp_all has them: the transforms define it (composed.c), and an op that is
// the gradient of another one is composed of it.
extern bool (*op_composed_vjp)(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);

// What op->kernel fills in: a file with its clauses, one size and one scalar of f32 or f64 after the other. The tile type of an array's elements as clauses
// name it. Of the formats of printf, clauses have %s and %d.
void op_kernel_set(struct op_kernel *k, const char *file, const char *clauses, ...) __attribute__((format(printf, 3, 4)));
void op_kernel_size(struct op_kernel *k, int64_t size);
void op_kernel_value(struct op_kernel *k, zl_dtype dtype, double value);
const char *op_kernel_type(zl_array x);
// Returns how many of a group's 256 threads share a line of so many elements: a power of two, so that each has four of them or more.
int op_kernel_lanes(int64_t count);

// Records a call of op: args are int64_t words as op->field describes. NULL inputs give NULL.
zl_array op_call(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                 const struct array_spec *spec);
// The same for dense outputs of one dtype and shape.
zl_array op_dense(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg, zl_dtype dtype,
                  int ndim, const int64_t *dim);
// Strides for a result that is computed element by element: those of its inputs, if all of them lie alike and without gaps,
// so that nothing is transposed; NULL: row-major.
const int64_t *op_common_stride(int count, const zl_array *in, int ndim, const int64_t *dim);
// A view of x: other sizes, strides and offset over the same storage.
zl_array op_view(const struct op *op, zl_array x, int args, const int64_t *arg, int ndim, const int64_t *dim,
                 const int64_t *stride, int64_t offset);
// The offset that a view of x counts from.
static inline int64_t op_offset(zl_array x) {
    bool may_move = array_state(x) == ARRAY_LAZY && x->call->op->kind == OP_VIEW;
    return may_move ? array_pin(x) : x->offset;
}
// The same with a dtype of its own.
zl_array op_view_as(const struct op *op, zl_array x, int args, const int64_t *arg, const struct array_spec *spec);
// x itself as the result of an op that has nothing to do.
zl_array op_same(zl_array x);

extern const struct op op_elementwise[]; // by enum tile_op
extern const struct op op_cast, op_copy;

// Dtype in which an elementwise call computes: that of its first input with one of its own.
zl_dtype op_computes_in(const struct call *c);

// Whether a call divides floats by a constant power of two: multiplying by its reciprocal gives the same numbers, sooner.
bool op_scales(const struct call *c);
// Whether it divides bfloat16 by a constant, and a product with its inverse in float32, rounded, has the same bits: quotients are 2^-17
// and more of themselves from the middle of two numbers, or in it where these are subnormal, and the product errs by 2^-23.
bool op_has_inverse(const struct call *c);

// flops.c: Returns the arithmetic operations of a call with inputs: one per element of an elementwise op or of a reduction's input, two
// per multiplication and addition of a product. 0: it only moves data, or the number follows from the values (svd, eig, sort).
double op_flops(const struct call *c);
bool op_selects(const struct op *op); // it reads no more of its first input than its result has

int64_t op_double_arg(double value); // FIELD_DOUBLE in its word, and back
double  op_arg_double(int64_t word);

// Sums x over the axes along which an array of the shape of like was stretched: the transpose of broadcasting.
zl_array op_unbroadcast(zl_array x, zl_array like);
// Broadcasts arrays against each other (views), all to one shape; false and an error that names function.
bool op_broadcast(const char *function, int count, const zl_array *in, zl_array *out);

// Default rules of families.
bool op_vmap_elementwise(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);

// Axes as sorted, distinct, non-negative numbers in out (room for ndim); how many, or -1 and an error.
int op_axes(const char *function, zl_array x, zl_axes axes, int *out);

// Scratch for rank-sized lists. OP_ROOM(int64_t, dim, 2 * ndim) declares `int64_t *dim` with room for that many until
// the block ends, on the stack for common ranks; it is NULL, with an error, when memory is out.
struct op_room {
    void *more;
    union {
        int64_t word[4 * SHAPE_INLINE];
        int axis[4 * SHAPE_INLINE];
        zl_array array[4 * SHAPE_INLINE];
    };
};
static inline void *op_room_open(struct op_room *room, size_t size, int64_t count) {
    bool small = count <= 4 * SHAPE_INLINE;
    room->more = small ? NULL : memory_alloc(size * (size_t)count);
    return small ? room->word : room->more;
}
static inline void op_room_close(struct op_room *room) {
    if (room->more)
        memory_free(room->more);
}
#define OP_ROOM(type, name, count)                                      \
    __attribute__((cleanup(op_room_close))) struct op_room name##_room; \
    type *name = op_room_open(&name##_room, sizeof(type), (count))

// registry.c -----------------------------------------------------------------------------------------------------

const struct op *op_find(const char *name, size_t bytes); // NULL: there is none
const struct op *op_at(int index);                        // all of them, in no order; NULL past the last

// contract.c -----------------------------------------------------------------------------------------------------

// Records the call c on inputs that it was not made for, or one whose arguments nobody has checked: false and an error that
// names function if they do not fit.
bool op_replay(const char *function, const struct call *c, const zl_array *in, zl_array *out);

// signature.c ----------------------------------------------------------------------------------------------------

// Every public op has one described signature, in the file that defines it: the header, the documentation, the
// bindings and the tests are made from these. They gather themselves in a section of the binary: there is no list.
#define OP_SIGNATURE_AS(function, family_, doc_, returns_bool_, ...)                                       \
    static const zl_op_info info_##function = {.name = #function, .family = family_, .doc = doc_,          \
                                               .param = {__VA_ARGS__},                                     \
                                               .params = sizeof((zl_param[]){__VA_ARGS__}) / sizeof(zl_param), \
                                               .returns_bool = returns_bool_};                             \
    static const zl_op_info *const entry_##function                                                       \
        __attribute__((used, section("zl_ops"))) = &info_##function
#define OP_SIGNATURE(function, family_, doc_, ...)      OP_SIGNATURE_AS(function, family_, doc_, false, __VA_ARGS__)
#define OP_SIGNATURE_BOOL(function, family_, doc_, ...) OP_SIGNATURE_AS(function, family_, doc_, true, __VA_ARGS__)

#define P_ARRAY(n)        {#n, ZL_PARAM_ARRAY, NULL}
#define P_ARRAY_OR(n, d)  {#n, ZL_PARAM_ARRAY, d}
#define P_OPTIONAL(n)     {#n, ZL_PARAM_OPTIONAL, "None"}
#define P_NULLABLE(n)     {#n, ZL_PARAM_OPTIONAL, NULL} // must be said, even if it is none
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
#define P_OUTPUT(n)       {#n, ZL_PARAM_OUTPUT, NULL} // as many as the arguments say
#define P_OUTPUTS(n, d)   {#n, ZL_PARAM_OUTPUT, d}    // as many as the text d says

// Writes the public headers of the ops into a folder, and one page of documentation a family.
bool op_write_headers(const char *folder);
bool op_write_docs(const char *folder);

#endif
