// graph.h - calls and arrays: what an array is before and after it is computed.
//
// A call is an op applied to arrays; an array is one output of a call, or a leaf. Both live in one block of memory,
// which goes back when nothing refers to any of the call's outputs.

#ifndef GRAPH_H
#define GRAPH_H

#include "base/base.h"

struct op;
struct call;

// array.c --------------------------------------------------------------------------------------------------------

enum array_state {
    ARRAY_LAZY,     // a call to be evaluated
    ARRAY_CLAIMED,  // an evaluation has taken it: its call's stream says when the state has changed
    ARRAY_READY,    // storage, or the value itself, is there
    ARRAY_FAILED,   // failure says why
    ARRAY_CONSUMED, // was computed on the way to something else; nobody had retained it
};

// Bits beside the state. Of READY: the storage is held by the array that this is a view of, as long as the call holds that. Of a LAZY view:
// views of it were recorded, and its offset stays as it is; or the offset is being changed.
enum { ARRAY_STATES = 7, ARRAY_MOVING = 32, ARRAY_PINNED = 64, ARRAY_BORROWS = 128 };

enum array_flag {
    ARRAY_WEAK = 1,       // a number without a dtype of its own
    ARRAY_INLINE = 2,     // a scalar whose value is in the node, after the strides
    ARRAY_CONTIGUOUS = 4, // row-major without gaps
    ARRAY_SIBLING = 8,    // one of several outputs of its call
};

struct zl_array_ {
    atomic_ulong count; // references in the low half; those of them that are lends in the high half
    uint8_t dtype;      // zl_dtype
    _Atomic uint8_t state; // enum array_state, and bits
    uint8_t flags;
    uint8_t trace; // depth of the outermost transform whose inputs it was made from; 0: of none
    uint16_t ndim;
    uint16_t index;    // which output of call
    struct call *call; // how it is made; NULL: a leaf
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
// Whether there is one reference. What others did before they gave theirs back has happened then.
static inline bool array_is_held_once(zl_array a) {
    return (uint32_t)atomic_load_explicit(&a->count, memory_order_relaxed) == 1 &&
           (uint32_t)atomic_load_explicit(&a->count, memory_order_acquire) == 1;
}
static inline bool array_borrows(zl_array a) {
    return atomic_load_explicit(&a->state, memory_order_relaxed) & ARRAY_BORROWS;
}

// The value of an inline scalar: what the program gave, in its widest form.
union scalar {
    double f;
    int64_t i;
    struct { float re, im; } c;
};

// A call's outputs follow it in memory, each sized by its rank.
struct call {
    const struct op *op;
    zl_stream stream;
    uint32_t epoch;         // of the last walk that met it
    uint32_t slot : 29;     // its position in that walk
    uint32_t compiled : 1;  // recorded by a compiled function: worth a kernel of its own, shown with its neighbours
    uint32_t detached : 1;  // inputs were let go
    uint32_t kept : 1;      // claimed by an evaluation inside a transform: inputs are not let go
    uint16_t inputs, args, outputs;
    _Atomic uint16_t alive; // outputs that something refers to
    zl_array in[];          // inputs; then int64_t args[], then the outputs
};

static inline int64_t *call_args(const struct call *c) { return (int64_t *)(void *)(uintptr_t)&c->in[c->inputs]; }
static inline zl_array call_first(const struct call *c) { return (zl_array)(void *)(call_args(c) + c->args); }
zl_array call_later(const struct call *c, int index); // an output after the first
static inline zl_array call_output(const struct call *c, int index) {
    return LIKELY(index == 0) ? call_first(c) : call_later(c, index);
}

// One run of a program. prepare(b, i) gives the outputs of call i their storage (bit k of in_place: that of input k, if
// it dies here and fits; if not all bits are set, only where no other input is the same); finish(b, i) publishes them and lets inputs go that nothing reads any more.
struct binding {
    int calls, lane; // lane: of the unit
    struct call *const *call;
    bool (*prepare)(struct binding *b, int index, uint64_t in_place);
    // Before it, where calls [begin, index] run as one: the result may lie where an input lay that none reads after them.
    void (*take)(struct binding *b, int begin, int index);
    void (*finish)(struct binding *b, int index);
    void (*fail)(struct binding *b, int index); // the thread's error becomes that of the call's outputs
};

// What an output of a new call looks like.
struct array_spec {
    zl_dtype dtype;
    int ndim;
    const int64_t *dim;
    const int64_t *stride; // NULL: row-major
    int64_t offset;
    uint8_t flags;
};

// A new call whose outputs are lent to the current scope; retains its inputs; copies args. Returns the first output,
// or NULL. The caller has checked everything; sizes too big are refused here.
zl_array graph_call(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg, int outputs,
                    const struct array_spec *spec);

// A leaf over storage, which it takes over; lent.
zl_array graph_leaf(const struct array_spec *spec, struct storage *storage);
zl_array graph_inline(zl_dtype dtype, union scalar value, uint8_t flags); // a scalar, lent
// Returns an inline scalar that op makes of x, lent. Its value is known at once; as with a view, its history stays until it is
// evaluated, for gradients.
zl_array graph_inline_from(const struct op *op, zl_array x, zl_dtype dtype, union scalar value, uint8_t flags);

// Releases memory that could not become an array; NULL.
void *graph_refuse_foreign(const zl_foreign_options *options);

// Lets the inputs of an evaluated call go.
void graph_detach(struct call *c);
// Lends an output of a call that has several. Nothing may have referred to it for a while: as long as a sibling lives and
// their history is there, so is it.
zl_array graph_lend_sibling(struct call *c, int index);
bool array_is_forgotten(zl_array a); // nothing refers to it; a sibling keeps it

// Returns the offset of a view, which may not be evaluated yet and stays where it is from now on.
int64_t array_pin(zl_array a);
// Evaluation may make a lazy view one of another place of another storage, unless it is pinned: false then. Moves begin and end between
// open and close; who pins what moves waits until then.
void array_open_moves(void);
void array_close_moves(void);
bool array_begin_move(zl_array a);
void array_end_move(zl_array a, int64_t offset);

bool   array_is_pending(zl_array a);  // must be evaluated before its data can be read
int    array_references(zl_array a);  // retains and uses by calls; lends do not count
size_t array_bytes_of(zl_array a);    // of its block: for tests of the budget

// Address of element 0 of a READY array on the host. Of an inline scalar: its value converted to dtype, in *room.
const void *array_data(zl_array a, union scalar *room);
// The value of an inline scalar in another dtype, written to out.
void scalar_write(zl_array a, zl_dtype dtype, void *out);
union scalar scalar_as(zl_array a, zl_dtype dtype); // rounded to dtype, in its widest form

// lend.c ---------------------------------------------------------------------------------------------------------

// What a thread is doing while it records.
struct recorder {
    zl_array *lent;   // what its open scopes hold
    int len, cap;
    zl_stream stream; // what ops record; NULL: the default
    // Not NULL: what tracers do will be done again with other shapes, and ops that read sizes are recorded as calls of this one.
    const struct op *deferred;
    int trace_depth;  // transforms that are running their functions, one inside the other
    bool watched;     // the thread's end will empty lent
    bool compiled;    // a compiled function is being repeated
    bool exporting;   // it will be done elsewhere: kernels that no device here has may be recorded
};
#ifdef __GLIBC__ // little enough for a library that is opened late; saves a call at each use
__attribute__((tls_model("initial-exec")))
#endif
extern _Thread_local struct recorder recorder;

enum { TRACE_DEEPEST = UINT8_MAX };
// A tracer: made from the inputs of a transform that is still running its function. Evaluation keeps its history.
static inline bool array_is_tracer(zl_array a) {
    return a->trace && a->trace <= recorder.trace_depth;
}

// A reference more.
static inline void array_hold(zl_array a) {
    word_add(&a->count, 1);
}

bool graph_grow_lent(void);
void graph_end_lend(zl_array a);
void graph_lend_again(zl_array a); // one lend more, to be given to graph_lend

// The current scope takes over a lend; NULL, and a is gone, when memory is out.
static inline zl_array graph_lend(zl_array a) {
    if (UNLIKELY(recorder.len == recorder.cap) && !graph_grow_lent())
        return graph_end_lend(a), NULL;
    return recorder.lent[recorder.len++] = a;
}

// outputs.c ------------------------------------------------------------------------------------------------------

// What a function gives as its results.
struct zl_outputs_ {
    zl_array *item; // retained
    int count, cap;
    bool failed; // a result was NULL
    int64_t tag; // the function's; 0: none
};

void outputs_clear(zl_outputs *o);
// Lends count arrays to the scope outside, ends the scope, and says whether all went well: else they are NULL.
bool outputs_leave(zl_scope scope, bool ok, int count, zl_array *arrays);

// dtype.c --------------------------------------------------------------------------------------------------------

// Dtype of an op on these: promotion of the strong ones, weak scalars only raise the kind.
zl_dtype dtype_common(int count, const zl_array *arrays);
bool dtype_is_float(zl_dtype d);   // f16 bf16 f32 f64
bool dtype_is_inexact(zl_dtype d); // those and c64
bool dtype_is_integer(zl_dtype d); // not bool
bool dtype_is_signed(zl_dtype d);  // integers
// Converts count elements with the library's rules (saturating, NaN to 0), one by one: for scalars and tests.
void dtype_convert(void *to, zl_dtype to_type, const void *from, zl_dtype from_type, int64_t count);

// shape.c --------------------------------------------------------------------------------------------------------

bool shape_size(int ndim, const int64_t *dim, int64_t *size); // false on overflow or a negative size
void shape_row_major(int ndim, const int64_t *dim, int64_t *stride);
bool shape_is_row_major(int ndim, const int64_t *dim, const int64_t *stride);
bool shape_is_dense(int ndim, const int64_t *dim, const int64_t *stride); // without gaps, axes in any order
bool shape_lies_alike(int ndim, const int64_t *dim, const int64_t *stride, const int64_t *other); // the same places
bool shape_equal(int ndim, const int64_t *a, int ndim_b, const int64_t *b);
// Shape that both broadcast to, in out (room for the larger rank); its rank, or -1 if they do not fit.
int  shape_broadcast(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int64_t *out);
// "(2, 3)", into a buffer of the calling thread; eight texts are kept.
const char *shape_text(int ndim, const int64_t *dim);
const char *array_text(zl_array a); // shape_text of a
// Axis made non-negative; -1 and an error that names function when it is out of range.
int  shape_axis(const char *function, int axis, int ndim);
// Strides that give the same elements under new sizes; false when that needs a copy.
bool shape_view(int ndim, const int64_t *dim, const int64_t *stride, int new_ndim, const int64_t *new_dim,
                int64_t *new_stride);
// The elements that a view reaches: the first is number *first, the last *last. Of one that is not empty.
void shape_span(int ndim, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t *first, int64_t *last);
// The shape of the dense array that this is probably a view of, by its strides, if so many elements are there; its rank, at most
// ndim + 1. out has room for that. It reaches all that the view does.
int  shape_base(int ndim, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t elements, int64_t *out);
// Scratch for rank-sized lists: a stack array up to rank 16, else memory. Use: SHAPE_ROOM(name, count).
#define SHAPE_INLINE 16

// storage.c ------------------------------------------------------------------------------------------------------

// Bytes that hold elements: on the host, on devices, or both, as the schedule copies them. Values never change, so any
// copy serves. The list of replicas only grows, until the storage is written again or goes.
struct storage {
    atomic_int refs;
    uint8_t owned;     // data is ours, and may be written again. release(context) gives it back if set, else the allocator takes what is ours
    uint8_t is_inline; // data follows the struct
    uint16_t spare;
    size_t bytes; // capacity of data
    void *data;   // host replica; NULL: none yet
    void (*release)(void *context);
    void *context;
    struct replica *_Atomic replica; // on other devices
};

// What a buffer of a unit holds whose memory is typed: elements of a dtype, row-major in a shape. They are the first ones of a storage. Along one
// axis the buffer may have room for more: what lies there may be anything.
struct buffer_form {
    uint8_t dtype; // zl_dtype
    int ndim;
    struct form_room {
        int axis;     // -1: none has
        int64_t size; // of that axis in the buffer
    } room;
    int64_t dim[];
};
static inline int64_t buffer_form_dim(const struct buffer_form *f, int axis) { // in the buffer
    return axis == f->room.axis ? f->room.size : f->dim[axis];
}
bool buffer_form_is_equal(const struct buffer_form *a, const struct buffer_form *b);
bool buffer_form_lies_alike(const struct buffer_form *a, const struct buffer_form *b); // buffers of both are alike
struct buffer_form *buffer_form_new(zl_dtype dtype, int ndim, const int64_t *dim, struct form_room room); // NULL and an error; memory_free frees it
int64_t buffer_form_size(const struct buffer_form *f); // elements
size_t buffer_form_bytes(const struct buffer_form *f); // of the buffer
// Copies the elements of a form from how they lie in its buffer to one after the other, or back with zeros in the room.
void buffer_form_pack(const struct buffer_form *f, const void *buffer, void *to);
void buffer_form_unpack(const struct buffer_form *f, const void *from, void *buffer);

// Who makes one fills it in; release frees its memory and itself.
struct replica {
    struct replica *next;
    const struct device *device;
    int unit;
    uint8_t lane;          // of the unit's work that wrote it last, or that it was made for
    _Atomic uint8_t lanes; // that were asked to use it, by bit
    bool is_given;         // by the host: no failure of the unit is one of its values
    void *memory;
    struct buffer_form *form;     // of typed memory, which it owns; else NULL
    size_t bytes;          // capacity of memory
    atomic_ullong ready;   // point of that work at which it holds the values; 0: not yet
    _Atomic uint64_t finding; // what a device found to hold of them: device_finding; 0: nothing
    void (*release)(struct replica *r);
};

struct storage *storage_new(size_t bytes); // NULL and an error when over the limit or out of memory
struct storage *storage_foreign(const void *data, size_t bytes, void (*release)(void *), void *context);
static inline struct storage *storage_retain(struct storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}
void storage_release(struct storage *s);
bool storage_is_held(struct storage *s, int refs); // so many references, memory of our own: if they go, it may be written again
bool storage_is_unique(struct storage *s);         // the same of one
// One that only a device holds, in replica, which it takes over. NULL and an error; the replica is gone then.
struct storage *storage_elsewhere(size_t bytes, struct replica *replica);
void *storage_host_room(struct storage *s);  // memory for a host replica, not its data yet; NULL and an error
void storage_lend_host(struct storage *s, void (*release)(void *), void *context); // its host replica will lie in such memory, as its own
void storage_drop_host(struct storage *s);   // of a unique one
void storage_drop_replicas(struct storage *s, const struct replica *but); // of a unique one; but: stays

// allocator.c: host memory for storages. Counts exactly, caches what is freed, holds to limits.
void *allocator_get(size_t bytes, size_t *capacity); // NULL and an error
void  allocator_put(void *data, size_t capacity);
size_t allocator_capacity(size_t bytes); // what a request for so many gets
size_t allocator_room(void);             // bytes that the host may still get before the limit is reached
// Memory held in another way, or given back; elsewhere: of a unit that has its own. False and an error when over the limit.
bool  allocator_count(int64_t bytes, bool elsewhere);
bool  allocator_is_over_goal(void);

// Freed memory that somebody else keeps, or gives back: false when over a limit. clear is called by zl_clear_cache.
bool  allocator_keep(int64_t bytes, bool elsewhere);
void  allocator_on_clear(void (*clear)(void));

// failure.c ------------------------------------------------------------------------------------------------------

// Why an evaluation failed: kept by the arrays that it should have made.
struct failure {
    atomic_int refs;
    zl_error_kind kind;
    const char *message; // behind the struct
};
struct failure *failure_new(zl_error_kind kind, const char *message); // never NULL
void failure_retain(struct failure *f);
void failure_release(struct failure *f);

#endif
