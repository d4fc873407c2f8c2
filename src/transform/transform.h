// transform.h - what the transforms share. A transform makes one graph from another; the contract of each is
// in zellige.h.
//
// A transform runs a function on tracers, which stand for its inputs, and so records a graph. Then it walks
// that graph: backwards with the vjp rules of its ops, or forwards with their jvp or vmap rules. The result
// is recorded too, not computed.

#ifndef TRANSFORM_H
#define TRANSFORM_H

#include "op/ops.h"

// walk.c ----------------------------------------------------------------------------------------------------

// A map from addresses (of calls, and of arrays at which a walk ends) to numbers. Zero-initialised tables are
// empty.
struct places {
    const void **key;
    int *at;
    int cap, count;
};

enum walk_kind {
    WALK_DERIVATIVE, // ends at sources, and at arrays that are constants to derivatives
    WALK_HISTORY,    // like WALK_DERIVATIVE, but continues past a source to other sources that it depends on
    WALK_BATCH,      // ends at sources
    WALK_ALL,        // ends at sources only, and includes the calls inside functions with rules of their own
};

// The calls between sources and results, inputs first. Every source and every output of a call has a number.
struct walk {
    enum walk_kind kind;
    struct call **call;
    int *first; // the number of each call's first output
    int calls, call_cap, first_cap;
    bool *depends; // by number: the array is a source or depends on one
    int arrays, array_cap;
    struct places places; // positions of calls, and numbers of sources
    struct call **stack;
    int stack_cap;
};

// Collects the calls between sources and results. Returns false, with an error, if memory runs out.
bool walk_make(struct walk *w, int sources, const zl_array *source, int results, const zl_array *result);
// Frees the memory of a walk, which is zero-initialised afterwards.
void walk_free(struct walk *w);
// Returns the number of an array, or -1.
int  walk_number(const struct walk *w, zl_array x);
// Returns the position of the call that computes an array; -1: it is a source, or unknown.
int  walk_call(const struct walk *w, zl_array x);
// Returns whether an array is a source or depends on one; false if it has no number.
bool walk_depends(const struct walk *w, zl_array x);
// Returns the first input of c that matters to a walk of this kind.
int  walk_from(const struct walk *w, const struct call *c);

// trace.c ---------------------------------------------------------------------------------------------------

// One transform while it runs: its scope, and the thread's earlier error, set aside so that rules can see
// whether they caused one.
struct trace {
    const char *function; // named in errors
    zl_scope scope;
    zl_error_kind kind;
    char *message;
};

// Returns whether f can be called and trace_check_list holds. If not, returns false with an error that names
// `function`.
bool trace_check(const char *function, zl_fn f, int count, const zl_array *in);
// Returns whether the list of arrays exists and none of them is NULL. If not, returns false with an error
// that names `function`.
bool trace_check_list(const char *function, int count, const zl_array *in);
// Begins a transform: saves and clears the thread's error, and begins a scope.
void trace_begin(struct trace *t, const char *function);
// Ends a transform, after its scope: restores the earlier error, if there was one.
void trace_end(struct trace *t);
// Makes an array, and all arrays that are computed from it, tracers of the function that trace_run will run.
void trace_mark(zl_array a);
// Makes tracers that stand for the inputs: marked views of them, lent. Returns false, with an error, if that
// fails.
bool trace_inputs(int count, const zl_array *in, zl_array *tracer);
// Returns a tracer without data, lent, or NULL and an error. Reading an array that depends on it fails with
// this message.
zl_array trace_placeholder(zl_dtype dtype, int ndim, const int64_t *dim, const char *message);
// Calls the function with these inputs. Returns false, with an error, if it failed.
bool trace_call(const char *function, zl_fn f, int count, const zl_array *in, zl_outputs *out);
// Runs the function on tracers. Returns false, with an error, if it failed.
bool trace_run(struct trace *t, zl_fn f, int count, const zl_array *tracer, zl_outputs *out);

// cotangent.c -----------------------------------------------------------------------------------------------

struct cotangent_parts;

// The cotangent of an array while its terms are summed. Zero-initialised, it has no terms. The functions
// return false, with an error, if they fail.
struct cotangent {
    zl_array sum; // of the terms added so far; NULL: none
    struct cotangent_parts *parts; // cotangents of slices that are not summed yet
};

// Adds a term for the whole array.
bool cotangent_add(struct cotangent *t, zl_array g);
// Returns whether c is a slice of contiguous elements along one axis, and not deferred.
bool cotangent_is_part(const struct call *c);
// Adds the terms in `of_slice`, the cotangent of the slice that such a call makes.
bool cotangent_add_part(struct cotangent *t, const struct call *c, struct cotangent *of_slice);
// Sums all terms into t->sum, on the streams of the slices.
bool cotangent_join(struct cotangent *t);
// Frees a list of `count` cotangents, which memory_zero allocated. NULL is ignored.
void cotangent_free(struct cotangent *t, int count);

// backward.c ------------------------------------------------------------------------------------------------

// Computes the cotangents of the sources, given those of the results (NULL stands for zero in both). Returns
// false, with an error that names `function`, if that fails.
bool backward(const char *function, struct walk *w, int results, const zl_array *result,
              const zl_array *cotangent, int sources, const zl_array *source, zl_array *out);

// vjp.c -----------------------------------------------------------------------------------------------------

// Computes a cotangent for each input, given one for each result (NULL: zero), and appends them to `out`. The
// cotangents of integer inputs are zeros. Returns false, with an error, if that fails.
bool vjp_give(const char *function, zl_fn f, int count, const zl_array *in, int results,
              const zl_array *cotangent, zl_outputs *out);

// Computes the cotangents of the inputs that are wanted, and sets those of others to NULL. Returns false,
// with an error, if that fails.
bool vjp_wanted(zl_fn f, int count, const zl_array *in, const bool *wanted, int results,
                const zl_array *cotangent, zl_array *out);

// composed.c ------------------------------------------------------------------------------------------------

// Computes the cotangents of a call whose op defines `composed`, as vjp_all does.
bool composed_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
// Computes the tangents of such a call, as jvp does.
bool composed_jvp(const struct call *c, const zl_array *tangent, zl_array *out);

// custom.c --------------------------------------------------------------------------------------------------

// A call of a function with rules of its own. Inputs: the results of the function, its inputs, then a leaf
// that holds the rules. Outputs: the results.
extern const struct op op_custom;
// Returns whether a call of op_custom has a rule for vmap.
bool custom_has_vmap(const struct call *c);

// deferred.c ------------------------------------------------------------------------------------------------

// A call that holds a function. Replaying it records the function's graph for the actual sizes (op/defer.c).
extern const struct op op_deferred;
// Records the cotangents of f as a deferred call. They are NULL for inputs that are not wanted; entries of
// `cotangent` may be NULL. Returns false, with an error, if that fails.
bool deferred_vjp(zl_fn f, int count, const zl_array *in, int results, const bool *wanted,
                  const zl_array *cotangent, zl_array *out);
// Records the tangents of f as a deferred call. Entries of `tangent` may be NULL. Returns false, with an
// error, if that fails.
bool deferred_jvp(zl_fn f, int count, const zl_array *in, int results, const zl_array *tangent,
                  zl_array *out);
// Records f on batched inputs as a deferred call; each result has its extra axis first. Returns false, with
// an error, if that fails.
bool deferred_vmap(zl_fn f, int count, const zl_array *in, int results, const int *axis, zl_array *out,
                   int *out_axis);

// sized.c ---------------------------------------------------------------------------------------------------

// Returns whether the rules of c would record sizes of these inputs that may differ in a replay. If so, the
// rules below, which defer the call, are used instead.
bool sized_is(const struct call *c, const zl_array *in);
// Computes the cotangents of a call, as vjp_all does.
bool sized_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);
// Computes the tangents of a call, as jvp does.
bool sized_jvp(const struct call *c, const zl_array *tangent, zl_array *out);
// Records a call on batched inputs, as vmap does.
bool sized_vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis);

// primitive.c -----------------------------------------------------------------------------------------------

// Appends the name that MLX gives an op in graphs.
void primitive_label(const struct op *op, struct text *out);
// The memory of a zl_step.
struct primitive_step {
    struct text name;
    zl_argument *argument;
    int64_t *word; // memory for the numbers in lists
    int arguments, words;
};
// Fills in everything of a zl_step except its arrays. It is valid until `memory` is used again. Returns
// false, with an error, if memory runs out.
bool primitive_show(const struct call *c, struct primitive_step *memory, zl_step *step);
// Frees its memory.
void primitive_step_free(struct primitive_step *memory);

// replay.c --------------------------------------------------------------------------------------------------

// The recorded calls of a function, to be replayed with other inputs. It omits calls that repeat earlier
// ones, whose results are not needed, or that only pass an array on. Arrays that do not depend on the inputs
// are kept as they are.
struct replay;

// Returns the recording of a function that ran on tracers, which stood for `in`, and returned `results`, or
// NULL and an error. If simple, all calls are kept.
struct replay *replay_make(const char *function, int count, const zl_array *in, const zl_array *tracer,
                           const zl_outputs *results, bool simple);
// Changes a recording that has not been replayed yet to recompute intermediate arrays instead of keeping them
// for a backward pass (recompute.c). Returns false, with an error, if that fails: then release it.
bool replay_recompute(struct replay *r);
// Replays the calls on other inputs, and appends the results to `out`. Returns false, with an error, if that
// fails.
bool replay_run(const struct replay *r, const zl_array *in, zl_outputs *out);
// Adds a reference; returns r.
struct replay *replay_retain(struct replay *r);
// Drops a reference, and frees the recording with the last one. NULL is ignored.
void replay_release(struct replay *r);
// Returns whether the recording can be replayed later: it uses no array of a transform that is still running
// and no stream of another thread, and no array that it keeps has failed.
bool replay_lasts(const struct replay *r);

#endif
