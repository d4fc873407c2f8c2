// graph.h - calls and arrays, before and after they are computed.
//
// A *call* is an op applied to arrays; an *array* is one output of a call, or a leaf. A call and its outputs
// share one block of memory, which is freed when nothing refers to any of the outputs.

#ifndef GRAPH_H
#define GRAPH_H

#include "base/base.h"

struct op;
struct call;

// array.c ---------------------------------------------------------------------------------------------------

enum array_state {
    ARRAY_LAZY,     // not evaluated yet
    ARRAY_CLAIMED,  // an evaluation is computing it; its call's stream signals when the state changes
    ARRAY_READY,    // has a storage, or is an inline scalar
    ARRAY_FAILED,   // could not be computed; failure has the reason
    ARRAY_CONSUMED, // was an intermediate result and not retained, so its values are gone
};

// Bits of zl_array_.state in addition to the state.
enum {
    ARRAY_STATES = 7,    // mask of the state
    ARRAY_MOVING = 32,   // of a lazy view: its offset is being changed
    ARRAY_PINNED = 64,   // of a lazy view: views of it were recorded, so its offset must not change
    ARRAY_BORROWS = 128, // of a ready view: the viewed array holds the storage
};

enum array_flag {
    ARRAY_WEAK = 1,       // a number that takes the dtype of the other operand
    ARRAY_INLINE = 2,     // a scalar whose value is in the node, after the strides
    ARRAY_CONTIGUOUS = 4, // row-major, without gaps
    ARRAY_SIBLING = 8,    // one of several outputs of its call
};

struct zl_array_ {
    atomic_ulong count; // low half: references; high half: how many of them are lends
    uint8_t dtype;      // zl_dtype
    _Atomic uint8_t state; // enum array_state, and bits
    uint8_t flags;
    uint8_t trace; // depth of the outermost transform whose inputs it depends on; 0: none
    uint16_t ndim;
    uint16_t index;    // which output of call it is
    struct call *call; // the call that computes it; NULL: it is a leaf
    union {
        struct storage *storage; // READY, unless ARRAY_INLINE
        struct failure *failure; // FAILED
    };
    int64_t offset; // of the first element in storage, in elements
    int64_t size;   // elements
    int64_t dim[];  // ndim sizes, then ndim strides in elements, then the value of an inline scalar
};

union scalar;
static inline int64_t *array_stride(zl_array a) { return a->dim + a->ndim; }
static inline union scalar *array_value(zl_array a) { return (union scalar *)(void *)(a->dim + 2 * a->ndim); }
static inline size_t array_item(zl_array a) { return zl_dtype_size((zl_dtype)a->dtype); }
static inline bool array_is(zl_array a, enum array_flag flag) { return a->flags & flag; }
static inline enum array_state array_state(zl_array a) {
    return (enum array_state)(atomic_load_explicit(&a->state, memory_order_acquire) & ARRAY_STATES);
}
// Returns whether there is a single reference. If so, everything that other threads did before they released
// theirs is visible.
static inline bool array_is_held_once(zl_array a) {
    return (uint32_t)atomic_load_explicit(&a->count, memory_order_relaxed) == 1 &&
           (uint32_t)atomic_load_explicit(&a->count, memory_order_acquire) == 1;
}
static inline bool array_borrows(zl_array a) {
    return atomic_load_explicit(&a->state, memory_order_relaxed) & ARRAY_BORROWS;
}

// The value of an inline scalar in its widest form, as the program passed it.
union scalar {
    double f;
    int64_t i;
    struct { float re, im; } c;
};

// A call's outputs follow it in memory, each sized by its rank.
struct call {
    const struct op *op;
    zl_stream stream;
    uint32_t epoch;         // the last walk that met it
    uint32_t slot : 29;     // its position in that walk
    uint32_t compiled : 1;  // recorded by a compiled function, so that a fused kernel is compiled at once
    uint32_t detached : 1;  // its inputs were released
    uint32_t kept : 1;      // claimed by an evaluation inside a transform, so its inputs are not released
    uint16_t inputs, args, outputs;
    _Atomic uint16_t alive; // outputs that something refers to
    zl_array in[];          // inputs; then int64_t args[]; then the outputs
};

static inline int64_t *call_args(const struct call *c) {
    return (int64_t *)(void *)(uintptr_t)&c->in[c->inputs];
}
static inline zl_array call_first(const struct call *c) { return (zl_array)(void *)(call_args(c) + c->args); }
// Returns an output after the first.
zl_array call_later(const struct call *c, int index);
static inline zl_array call_output(const struct call *c, int index) {
    return LIKELY(index == 0) ? call_first(c) : call_later(c, index);
}

// One run of a program: its calls, and functions that the device calls while it runs them.
struct binding {
    int calls;
    int lane; // of the unit
    struct call *const *call;
    // Allocates the outputs of a call; returns false, with an error, if that fails. If bit k of in_place is
    // set, the first output may take over the memory of input k, provided that nothing reads it later and
    // that it fits. Unless all bits are set, an input that is passed twice is not taken.
    bool (*prepare)(struct binding *b, int index, uint64_t in_place);
    // Called before prepare if calls [begin, index] run as one kernel: the result may take over the memory of
    // an input that nothing reads after them.
    void (*take)(struct binding *b, int begin, int index);
    // Publishes the outputs of a call and releases inputs that nothing reads any more.
    void (*finish)(struct binding *b, int index);
    // Marks the outputs of a call as failed with the thread's error.
    void (*fail)(struct binding *b, int index);
};

// Describes an output of a new call.
struct array_spec {
    zl_dtype dtype;
    int ndim;
    const int64_t *dim;
    const int64_t *stride; // NULL: row-major
    int64_t offset;
    uint8_t flags;
};

// Records a call: retains its inputs, copies its arguments, lends its outputs to the current scope. Returns
// the first output, or NULL and an error. The caller has checked everything except sizes that are too large,
// which are refused here.
zl_array graph_call(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                    int outputs, const struct array_spec *spec);

// Returns a leaf over storage, which it takes over; lent.
zl_array graph_leaf(const struct array_spec *spec, struct storage *storage);
// Returns an inline scalar; lent.
zl_array graph_inline(zl_dtype dtype, union scalar value, uint8_t flags);
// Returns the inline scalar that op computes from x; lent. Its value is known at once. Like that of a view,
// its history is kept for gradients until it is evaluated.
zl_array graph_inline_from(const struct op *op, zl_array x, zl_dtype dtype, union scalar value,
                           uint8_t flags);

// Releases foreign memory that could not become an array; returns NULL.
void *graph_refuse_foreign(const zl_foreign_options *options);

// Releases the inputs of an evaluated call.
void graph_detach(struct call *c);
// Returns an output, lent, of a call that has several, or NULL and an error. It exists even if nothing
// referred to it for a while, as long as a sibling lives and their history is kept.
zl_array graph_lend_sibling(struct call *c, int index);
// Returns whether the array has no references and exists only because another output of its call does.
bool array_is_forgotten(zl_array a);

// Returns the offset of a view, evaluated or not, and keeps it from changing.
int64_t array_pin(zl_array a);
// Locks moves: evaluation may then move lazy views to other offsets of other storages. array_pin waits for
// array_close_moves if its view is being moved.
void array_open_moves(void);
// Unlocks moves.
void array_close_moves(void);
// Begins to move a lazy view; returns false if it is pinned, and must then stay. Moves must be locked.
bool array_begin_move(zl_array a);
// Ends the move: sets the view's offset.
void array_end_move(zl_array a, int64_t offset);

// Returns whether the array must be evaluated before its data can be read.
bool   array_is_pending(zl_array a);
// Returns the number of retains and of uses by calls; lends do not count.
int    array_references(zl_array a);
// Returns the bytes of the array's block, for tests of memory use.
size_t array_bytes_of(zl_array a);

// Returns the address of element 0 of a ready array on the host. The value of an inline scalar is converted
// to its dtype in *room.
const void *array_data(zl_array a, union scalar *room);
// Writes the value of an inline scalar, converted to another dtype, to `out`.
void scalar_write(zl_array a, zl_dtype dtype, void *out);
// Returns the value of an inline scalar, rounded to a dtype, in its widest form.
union scalar scalar_as(zl_array a, zl_dtype dtype);

// lend.c ----------------------------------------------------------------------------------------------------

// The state of a thread that records.
struct recorder {
    zl_array *lent;   // the arrays that open scopes hold
    int len, cap;
    zl_stream stream; // the stream that ops record; NULL: the default
    // If set, the recording will be replayed with other shapes, and ops that read sizes of tracers are
    // recorded as calls of this op.
    const struct op *deferred;
    int trace_depth;  // how many transforms are running their functions, nested
    bool watched;     // lent is freed when the thread ends
    bool compiled;    // a compiled function is being replayed
    bool exporting;   // the recording will run elsewhere, so kernels that no device here has may be recorded
};
#ifdef __GLIBC__ // small enough even for a library that is opened at run time; saves a call at each use
__attribute__((tls_model("initial-exec")))
#endif
extern _Thread_local struct recorder recorder;

enum { TRACE_DEEPEST = UINT8_MAX };
// Returns whether the array is a tracer: it depends on the inputs of a transform that is still running its
// function. Evaluation keeps its history.
static inline bool array_is_tracer(zl_array a) {
    return a->trace && a->trace <= recorder.trace_depth;
}

// Adds a reference.
static inline void array_hold(zl_array a) {
    word_add(&a->count, 1);
}

// Grows the thread's list of lent arrays by one. Returns false, with an error, if memory runs out.
bool graph_grow_lent(void);
// Releases a lend, which frees the array if nothing else refers to it.
void graph_end_lend(zl_array a);
// Adds a lend, to be passed to graph_lend.
void graph_lend_again(zl_array a);

// Hands a lend to the current scope. Returns a, or NULL, with the lend ended, if memory runs out.
static inline zl_array graph_lend(zl_array a) {
    if (UNLIKELY(recorder.len == recorder.cap) && !graph_grow_lent())
        return graph_end_lend(a), NULL;
    return recorder.lent[recorder.len++] = a;
}

// outputs.c -------------------------------------------------------------------------------------------------

// The results of a transformed function.
struct zl_outputs_ {
    zl_array *item; // retained
    int count, cap;
    bool failed; // a result was NULL
    int64_t tag; // set by the function; 0: none
};

// Releases the results and makes the list empty.
void outputs_clear(zl_outputs *o);
// Ends the scope and, if `ok`, lends `count` arrays to the scope outside. Returns whether all went well; if
// not, the arrays are NULL.
bool outputs_leave(zl_scope scope, bool ok, int count, zl_array *arrays);

// dtype.c ---------------------------------------------------------------------------------------------------

// Returns the dtype to which an op on these arrays promotes: weak scalars only raise the kind.
zl_dtype dtype_common(int count, const zl_array *arrays);
// Return whether a dtype is one of f16, bf16, f32, f64; one of these or c64; an integer, which bool is not; a
// signed integer.
bool dtype_is_float(zl_dtype d);
bool dtype_is_inexact(zl_dtype d);
bool dtype_is_integer(zl_dtype d);
bool dtype_is_signed(zl_dtype d);
// Converts elements one by one by the library's rules (saturating, NaN to 0), for scalars and tests.
void dtype_convert(void *to, zl_dtype to_type, const void *from, zl_dtype from_type, int64_t count);

// shape.c ---------------------------------------------------------------------------------------------------

// Writes the number of elements; returns false if it overflows or a size is negative.
bool shape_size(int ndim, const int64_t *dim, int64_t *size);
// Writes the strides of a row-major layout without gaps.
void shape_row_major(int ndim, const int64_t *dim, int64_t *stride);
// Returns whether the layout is row-major without gaps.
bool shape_is_row_major(int ndim, const int64_t *dim, const int64_t *stride);
// Returns whether the layout has no gaps; axes may be in any order.
bool shape_is_dense(int ndim, const int64_t *dim, const int64_t *stride);
// Returns whether both lists of strides place every element alike.
bool shape_same_layout(int ndim, const int64_t *dim, const int64_t *stride, const int64_t *other);
// Returns whether rank and sizes are equal.
bool shape_equal(int ndim, const int64_t *a, int ndim_b, const int64_t *b);
// Writes the shape that both broadcast to, for which `out` has room of the larger rank. Returns its rank, or
// -1 if they do not fit.
int  shape_broadcast(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int64_t *out);
// Return "(2, 3)", in a buffer of the calling thread that keeps the last eight texts.
const char *shape_text(int ndim, const int64_t *dim);
const char *array_text(zl_array a);
// Returns the axis as a non-negative number, or -1, with an error that names `function`, if it is out of
// range.
int  shape_axis(const char *function, int axis, int ndim);
// Writes the strides that give the same elements under new sizes; returns false if that needs a copy.
bool shape_view(int ndim, const int64_t *dim, const int64_t *stride, int new_ndim, const int64_t *new_dim,
                int64_t *new_stride);
// Writes the positions of the first and the last element that a view reaches. The view must not be empty.
void shape_span(int ndim, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t *first,
                int64_t *last);
// Writes the likely shape of the contiguous array that a view was taken of, derived from the view's strides
// and the number of elements in its memory. Returns its rank, at most ndim + 1, for which `out` has room. The
// shape covers everything that the view reaches.
int shape_base(int ndim, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t elements,
               int64_t *out);
// The rank up to which lists of sizes or axes are on the stack; longer ones are allocated.
#define SHAPE_INLINE 16

// storage.c -------------------------------------------------------------------------------------------------

// Memory of elements: on the host, on devices, or both; the schedule copies it between them. Values never
// change, so all replicas are equal. The list of replicas only grows, until the storage is written anew or
// freed.
struct storage {
    atomic_int refs;
    // Whether data is the library's own, so that it may be written anew. release(context) frees it if set;
    // otherwise the allocator does.
    uint8_t owned;
    uint8_t is_inline; // data is directly after the struct
    uint16_t spare;
    size_t bytes; // capacity of data
    void *data;   // host replica; NULL: none yet
    void (*release)(void *context);
    void *context;
    struct replica *_Atomic replica; // on other devices
};

// The contents of a buffer on a unit with typed memory: the first elements of a storage, of a dtype,
// row-major in a shape. Along one axis the buffer may have room for more elements, whose values are
// undefined.
struct buffer_form {
    uint8_t dtype; // zl_dtype
    int ndim;
    struct form_bound {
        int axis;     // -1: none is bounded
        int64_t size; // of that axis in the buffer
    } bound;
    int64_t dim[];
};
static inline int64_t buffer_form_dim(const struct buffer_form *f, int axis) { // returns a size of the buffer
    return axis == f->bound.axis ? f->bound.size : f->dim[axis];
}
// Returns whether both forms have the same layout, the same sizes and the same bounded axis.
bool buffer_form_is_equal(const struct buffer_form *a, const struct buffer_form *b);
// Returns whether buffers of both forms have the same layout.
bool buffer_form_same_layout(const struct buffer_form *a, const struct buffer_form *b);
// Returns a new form, which memory_free frees, or NULL and an error.
struct buffer_form *buffer_form_new(zl_dtype dtype, int ndim, const int64_t *dim, struct form_bound bound);
// Returns the number of elements.
int64_t buffer_form_size(const struct buffer_form *f);
// Returns the bytes of the buffer.
size_t buffer_form_bytes(const struct buffer_form *f);
// Copies the elements from a buffer to contiguous memory.
void buffer_form_pack(const struct buffer_form *f, const void *buffer, void *to);
// Copies them from contiguous memory to a buffer, and fills the rest with zeros.
void buffer_form_unpack(const struct buffer_form *f, const void *from, void *buffer);

// A copy of a storage's values on a unit. Its maker fills it in; release frees its memory and the struct.
struct replica {
    struct replica *next;
    const struct device *device;
    int unit;
    uint8_t lane;          // the lane that wrote it last, or for which it was made
    _Atomic uint8_t lanes; // the lanes with work that uses it, by bit
    bool is_given;         // the host supplied the values: a failure of the unit does not affect them
    void *memory;
    struct buffer_form *form; // of typed memory, owned by the replica; else NULL
    size_t bytes;             // capacity of memory
    atomic_ullong ready;      // the lane's point after which it holds the values; 0: not known yet
    _Atomic uint64_t finding; // a fact about the values that a device keeps (device_finding); 0: none
    void (*release)(struct replica *r);
};

// Returns a new storage on the host, or NULL, with an error, if memory runs out or the limit is exceeded.
struct storage *storage_new(size_t bytes);
// Returns a storage over memory of the program, which `release` frees, or NULL and an error.
struct storage *storage_foreign(const void *data, size_t bytes, void (*release)(void *), void *context);
static inline struct storage *storage_retain(struct storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}
// Drops a reference, and frees the storage and its replicas with the last one.
void storage_release(struct storage *s);
// Returns whether the memory is our own and has exactly `refs` references: if these are released, it may be
// written anew.
bool storage_is_held(struct storage *s, int refs);
// Returns the same for one reference.
bool storage_is_unique(struct storage *s);
// Returns a storage that only a device holds, in `replica`, or NULL and an error. Takes over the replica in
// both cases.
struct storage *storage_elsewhere(size_t bytes, struct replica *replica);
// Returns memory for a host replica, which is not its data yet, or NULL and an error.
void *storage_host_memory(struct storage *s);
// Makes memory that `release` frees the storage's own, for its host replica.
void storage_lend_host(struct storage *s, void (*release)(void *), void *context);
// Frees the host replica of a storage that is unique.
void storage_drop_host(struct storage *s);
// Frees the replicas on devices, but not `but` (NULL: all of them), of a storage that is unique.
void storage_drop_replicas(struct storage *s, const struct replica *but);

// allocator.c: host memory for storages. It counts exactly, caches freed memory and enforces limits.

// Returns memory and its capacity, or NULL and an error.
void *allocator_get(size_t bytes, size_t *capacity);
// Gives memory back, which the allocator caches up to the cache limit.
void  allocator_put(void *data, size_t capacity);
// Returns the capacity that a request for so many bytes gets.
size_t allocator_capacity(size_t bytes);
// Returns how many bytes the host may still allocate before the limit is reached.
size_t allocator_available(void);
// Counts memory that was allocated in another way, or, if negative, freed. `elsewhere` says that it is memory
// of a unit. Returns false, with an error, if that exceeds the limit.
bool  allocator_count(int64_t bytes, bool elsewhere);
// Returns whether more memory is in use than zl_set_memory_goal allows.
bool  allocator_is_over_goal(void);
// Counts freed memory that the caller caches, or, if negative, frees. Returns false if that exceeds a limit.
bool  allocator_keep(int64_t bytes, bool elsewhere);
// Registers a function that zl_clear_cache calls.
void  allocator_on_clear(void (*clear)(void));

// failure.c -------------------------------------------------------------------------------------------------

// The reason why an evaluation failed, shared by the arrays that it should have computed.
struct failure {
    atomic_int refs;
    zl_error_kind kind;
    const char *message; // stored after the struct
};
// Returns a new failure with one reference and a copy of the message. Never NULL: if memory runs out, it is a
// shared failure that says so.
struct failure *failure_new(zl_error_kind kind, const char *message);
// Adds a reference.
void failure_retain(struct failure *f);
// Drops a reference, and frees the failure with the last one.
void failure_release(struct failure *f);

#endif
