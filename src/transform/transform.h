// transform.h - graphs to graphs: what the transforms share. The contract of each is in zellige.h.
//
// A transform runs a function on tracers, which stand for its inputs, and so records a graph; then it walks that graph:
// backwards with the vjp of its ops, or forwards with their jvp or vmap. What it gives is again only recorded.

#ifndef TRANSFORM_H
#define TRANSFORM_H

#include "op/ops.h"

// walk.c ---------------------------------------------------------------------------------------------------------

// What is told apart by address: calls, and arrays that a walk ends at. Zero-initialised tables are empty.
struct places {
    const void **key;
    int *at;
    int cap, count;
};

enum walk_kind {
    WALK_DERIVATIVE, // ends at sources; does not look behind what is a constant to derivatives
    WALK_HISTORY,    // the same, but goes on behind a source, for others that it was made from
    WALK_BATCH,      // ends at sources
    WALK_ALL,        // ends at sources, and looks behind all else: also at what functions with rules of their own did
};

// The calls between sources and results, inputs first. Every array that is a source or an output of a call has a number.
struct walk {
    enum walk_kind kind;
    struct call **call;
    int *first; // number of the first output of each call
    int calls, call_cap, first_cap;
    bool *depends; // by number: is a source, or was made from one
    int arrays, array_cap;
    struct places places; // of calls, in call; of sources, their numbers
    struct call **stack;
    int stack_cap;
};

bool walk_make(struct walk *w, int sources, const zl_array *source, int results, const zl_array *result);
void walk_free(struct walk *w);
int  walk_number(const struct walk *w, zl_array x); // -1: it has none
int  walk_call(const struct walk *w, zl_array x);   // position of the call that makes it; -1: it is a source or unknown
bool walk_depends(const struct walk *w, zl_array x);
// The inputs of c before this one say nothing to such a walk.
int  walk_from(const struct walk *w, const struct call *c);

// trace.c --------------------------------------------------------------------------------------------------------

// One transform: a scope, and an error that the thread had before, so that rules may ask whether there is one.
struct trace {
    const char *function; // whose errors they are
    zl_scope scope;
    zl_error_kind kind;
    char *message;
};

bool trace_check(const char *function, zl_fn f, int count, const zl_array *in);
bool trace_check_list(const char *function, int count, const zl_array *in);
void trace_begin(struct trace *t, const char *function);
void trace_end(struct trace *t); // the scope has ended
// What is recorded on a, and a itself, are tracers in the function that trace_run will run.
void trace_mark(zl_array a);
// Stand for the inputs: views of them, marked.
bool trace_inputs(int count, const zl_array *in, zl_array *tracer);
// An array without data: of that shape and dtype, marked. Reading what is made of it fails with this message.
zl_array trace_placeholder(zl_dtype dtype, int ndim, const int64_t *dim, const char *message);
// Runs the function as it is. False if it failed; there is an error then.
bool trace_call(const char *function, zl_fn f, int count, const zl_array *in, zl_outputs *out);
// The same on tracers.
bool trace_run(struct trace *t, zl_fn f, int count, const zl_array *tracer, zl_outputs *out);

// cotangent.c ----------------------------------------------------------------------------------------------------

struct cotangent_parts;

// What was added to the cotangent of an array. Zero-initialised: nothing. All functions return false and an error.
struct cotangent {
    zl_array sum; // of what is joined; NULL: nothing
    struct cotangent_parts *parts; // of slices, not joined yet
};

bool cotangent_add(struct cotangent *t, zl_array g); // of the whole array
// Whether c takes contiguous elements along one axis of an array, and is not deferred.
bool cotangent_is_part(const struct call *c);
// Adds what was added to the cotangent of the slice that such a call makes.
bool cotangent_add_part(struct cotangent *t, const struct call *c, struct cotangent *of_slice);
// All that was added is in sum afterwards. It is recorded for the streams of the slices.
bool cotangent_join(struct cotangent *t);
void cotangent_free(struct cotangent *t, int count);

// backward.c -----------------------------------------------------------------------------------------------------

// Cotangents of the sources (NULL: zero) from those of the results (NULL: zero). Errors name the function.
bool backward(const char *function, struct walk *w, int results, const zl_array *result, const zl_array *cotangent,
              int sources, const zl_array *source, zl_array *out);

// vjp.c ----------------------------------------------------------------------------------------------------------

// Gives a cotangent for each input, from one for each result (NULL: zero). Integers have zeros.
bool vjp_give(const char *function, zl_fn f, int count, const zl_array *in, int results, const zl_array *cotangent,
              zl_outputs *out);

// The same of the inputs that are wanted only, each in its place; of the others NULL.
bool vjp_wanted(zl_fn f, int count, const zl_array *in, const bool *wanted, int results, const zl_array *cotangent,
                zl_array *out);

// composed.c -----------------------------------------------------------------------------------------------------

// Rules of calls whose op has the column composed.
bool composed_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
bool composed_jvp(const struct call *c, const zl_array *tangent, zl_array *out);

// custom.c -------------------------------------------------------------------------------------------------------

// inputs: results of the function, its inputs, then a leaf that holds the rules. Outputs: the results.
extern const struct op op_custom;
bool custom_has_vmap(const struct call *c);

// deferred.c -----------------------------------------------------------------------------------------------------

// Calls that hold a function: done again, they give the graph of it (op/defer.c).
extern const struct op op_deferred;
// What f gives when it is transformed, deferred: cotangents (of inputs that are not wanted NULL), tangents and batches; what they are
// given may be NULL.
bool deferred_vjp(zl_fn f, int count, const zl_array *in, int results, const bool *wanted, const zl_array *cotangent,
                  zl_array *out);
bool deferred_jvp(zl_fn f, int count, const zl_array *in, int results, const zl_array *tangent, zl_array *out);
bool deferred_vmap(zl_fn f, int count, const zl_array *in, int results, const int *axis, zl_array *out, int *out_axis);

// sized.c --------------------------------------------------------------------------------------------------------

// Whether rules of c, on these inputs, would record sizes that may be others next time; and the rules that do not.
bool sized_is(const struct call *c, const zl_array *in);
bool sized_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
bool sized_jvp(const struct call *c, const zl_array *tangent, zl_array *out);
bool sized_vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);

// primitive.c ----------------------------------------------------------------------------------------------------

// Adds the name under which MLX draws an op.
void primitive_label(const struct op *op, struct text *out);
// What a call is to who is told the steps of a function: all but its arrays. It is valid until the room is used again.
struct primitive_room {
    struct text name;
    zl_argument *argument;
    int64_t *word; // of lists
    int arguments, words;
};
bool primitive_show(const struct call *c, struct primitive_room *room, zl_step *step);
void primitive_room_free(struct primitive_room *room);

// replay.c -------------------------------------------------------------------------------------------------------

// What a function did with its inputs, to be done again with others: its calls in order, without those that are equal to
// earlier ones, that nothing needs, or that only pass an array on. What does not depend on the inputs is kept.
struct replay;

// A function that was run: on tracers, which stood for in, and with these results. simple: as they are, all calls are
// done again. NULL and an error.
struct replay *replay_make(const char *function, int count, const zl_array *in, const zl_array *tracer,
                           const zl_outputs *results, bool simple);
// recompute.c: lets a function that nobody has run yet compute again what it would keep. False and an error: release it.
bool replay_recompute(struct replay *r);
bool replay_run(const struct replay *r, const zl_array *in, zl_outputs *out);
struct replay *replay_retain(struct replay *r);
void replay_release(struct replay *r);
// Whether it means the same later and here: it uses no array of a transform that is running, nor streams of another
// thread, and nothing that it keeps failed to be computed.
bool replay_lasts(const struct replay *r);

#endif
