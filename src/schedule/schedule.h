// schedule.h - from a lazy graph to running programs: walk, plan, run.
//
//     zl_eval ─▶ walk: the calls to run, in order, and the key of their structure
//             ─▶ plan: segments and their programs, found by the key or made
//             ─▶ run:  each segment on its stream: here and now, or on the stream's worker
//
// Planning takes one lock, running takes none. Arrays that an evaluation plans to compute are *claimed*:
// another thread that needs them waits until the stream signals that their state has changed. Runs are
// ordered under the same lock, so a run waits only for earlier ones.

#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <pthread.h>

#include "device/device.h"

// stream.c --------------------------------------------------------------------------------------------------

// A queue of runs, executed in order. They execute on the evaluating thread if the stream is idle, else on
// the stream's worker.
struct zl_stream_ {
    const struct device *device;
    int unit;
    int lane; // of the unit; its work is enqueued there
    pthread_mutex_t lock; // guards the queue and failure
    pthread_cond_t changed;
    struct run *head, *tail;
    struct failure *failure; // the first failure of an evaluation without a waiting thread; until reported
    bool has_worker;
    bool is_default; // the default stream of its device on its thread
    // bits and counts: whether a thread runs one of its programs, how many threads watch, how many runs are
    // queued or run by the worker
    atomic_ulong work;
    atomic_uint ticks; // number of runs that ended; waiting threads watch it
    pthread_t owner;
    struct zl_stream_ *next;  // in the list of its thread; later, in the list of streams to be reused
    struct zl_stream_ *older; // in the list of all streams
};

// Return this thread's stream for calls that name none. stream_standard chooses its device first, which may
// open drivers, and returns NULL, with an error, if that fails. stream_known returns NULL until
// stream_standard was called.
zl_stream stream_standard(void);
zl_stream stream_known(void);
// Returns a stream that belongs to no thread and lives as long as the process, or NULL and an error.
zl_stream stream_shared(const char *device);
// Takes an idle stream for the calling thread, under the planning lock; returns false if it is busy.
bool stream_try_begin(zl_stream s);
// Gives the stream back after a run, and wakes waiting threads.
void stream_end(zl_stream s);
// Waits until the array is no longer claimed. Returns false, with an error, if the program's own check
// (interrupt_wanted) stops the wait.
bool stream_wait(zl_array a);
// Waits while *busy is set, which a run of the stream clears.
void stream_wait_while(zl_stream s, const atomic_bool *busy);
// Keeps the first failure among arrays for the next caller that synchronizes.
void stream_keep_failure(zl_stream s, int count, const zl_array *arrays);
// Marks the failure of an array as reported, so that its stream does not report it again.
void stream_told(zl_array a);
// Waits until all streams have finished their work; without `queues`, waits only for devices, not for queued
// runs. Errors are kept.
void stream_settle_all(bool queues);
// Submits a run to the stream's queue: the worker executes it, and frees it unless it is a loop's. Returns
// false, with an error, if the worker cannot be started.
bool stream_enqueue(zl_stream s, struct run *run);

// tape.c ----------------------------------------------------------------------------------------------------

// The calls that an evaluation needs, inputs first, and facts about each. A tape grows and is reused.
struct tape {
    zl_stream standard;  // the stream of calls that name none; NULL: this thread has not chosen it yet
    bool lacks_standard; // the walk stopped at a call that needs it
    int calls, cap;
    struct call **call;
    uint8_t *needed;     // per call: an output is read after this evaluation, or by several streams
    uint64_t *dies;      // per call: bit k says that nothing reads input k (of the first 64) after it
    uint32_t *uses;      // per call: how many calls of the tape read its outputs
    uint32_t *last;      // per call: the last call that reads an output
    bool looks;          // nothing will be computed, so a gradient may still read lent arrays
    bool has_slices;     // has slices for narrow_tape
    int collectives;     // how many calls are collectives
    bool waits;          // other evaluations are computing some inputs
    bool has_depths;     // dies holds the depths that the walk of epoch of_depths found
    uint32_t epoch;      // of this walk
    uint32_t of_depths;
    int stack_cap, root_cap, sum_cap, sums;
    struct call **stack;
    struct tape_root *root;
    struct tape_root *sum; // reductions to be made adjacent; sums is 0 except in a walk by depth
};
// Lists the calls that arrays need, under the planning lock. Returns false, with an error, if that fails. It
// also returns false, without an error, if it sets lacks_standard: then call stream_standard, without the
// lock, and try again.
bool tape_walk(struct tape *tape, int count, const zl_array *arrays);
// Puts calls [begin, end) into another order, in which inputs still come first: the i-th of them becomes the
// one that was at begin + order[i]. Returns false, with an error and without a change, if memory runs out.
// Needs the planning lock.
bool tape_reorder(struct tape *t, int begin, int end, const int32_t *order);
// Marks all calls that are claimed as lost, so that arrays which need them fail; for the child of a fork.
void tape_forget(void);
// Returns the position of an array's call on the tape, or -1.
static inline int tape_slot(const struct tape *t, zl_array x) {
    return x->call && x->call->epoch == t->epoch && array_state(x) == ARRAY_LAZY ? (int)x->call->slot : -1;
}
static inline zl_stream tape_stream(const struct tape *t, int slot) {
    zl_stream s = t->call[slot]->stream;
    return s ? s : t->standard;
}
// Frees the memory of a tape, which is empty afterwards; not the struct.
void tape_free(struct tape *tape);

// range.c ---------------------------------------------------------------------------------------------------

// The elements i of an axis with start <= i % period < start + count. Axis -1 stands for the whole array.
struct range {
    int axis;
    int64_t period, start, count;
};
// Returns whether two ranges are equal.
bool range_is_same(const struct range *a, const struct range *b);
// Returns how many positions of an axis of x are in the range.
int64_t range_size(zl_array x, int axis, const struct range *r);
// Sets *to to the part of input k that call c needs for a range of its output. Returns false if c can only be
// computed as a whole.
bool range_of_input(const struct call *c, int k, const struct range *r, struct range *to);
// Sets *r to the part of its input that slice c takes, along the axis of which it takes least. Returns false
// unless that is at most half of the axis, with step 1.
bool range_of_slice(const struct call *c, struct range *r);
// Returns those elements of x, lent, or NULL and an error.
zl_array range_slice(zl_array x, const struct range *r);

// narrow.c --------------------------------------------------------------------------------------------------

// Returns whether, if only this slice reads its input, it suffices to compute the part that it takes.
bool narrow_begins(const struct call *c);
// Records calls anew that compute only what slices take of them. Sets *changed if the tape must be walked
// again. Returns false, with an error and without a change, if that fails.
bool narrow_tape(const struct tape *tape, bool *changed);

// sample.c --------------------------------------------------------------------------------------------------

// Returns whether ZL_SAMPLE keeps an evaluation of these calls off static devices.
bool sample_leaves_out(int count, struct call *const *calls);

// plan.c ----------------------------------------------------------------------------------------------------

// the most calls of a plan, so that a change near the end of a long graph does not cost the plan of the whole
enum { PLAN_LARGEST = 4096 };

struct plan_segment {
    int begin, end; // calls of the tape, counted from the plan's first
    const struct device *device;
    int unit;
    struct program *program;
};

struct plan {
    atomic_int refs;
    atomic_int hits; // how often it was found; saturates
    int words;       // of its key; 0: the plan was forgotten
    int64_t *word;   // its key, owned by the map of plans
    // the order in which its calls run, as positions on the tape; NULL: the order of the tape
    int32_t *order;
    int segments;
    struct plan_segment segment[];
};
// Finds or makes the plan of the tape's calls [begin, end), puts the calls into the plan's order, and
// replaces *held by the plan, retained. *held is the plan of the caller's last evaluation, or NULL: repeating
// an evaluation costs no look-up. Returns false, with an error, if that fails. Needs the planning lock.
bool plan_find(struct tape *tape, int begin, int end, struct plan **held);
// Drops a reference, and frees the plan and its programs with the last one. NULL is ignored.
void plan_release(struct plan *plan);
// Forgets all plans.
void plan_clear(void);

// run.c -----------------------------------------------------------------------------------------------------

// One segment bound to its arrays. A run on the evaluating thread borrows the tape's memory; a queued run
// owns a copy.
struct run {
    struct binding binding; // the first member: devices pass its address back
    struct run *next;       // in a stream's queue
    zl_stream stream;
    struct plan *plan;
    const struct plan_segment *segment;
    const uint64_t *dies;
    struct run_profile *profile; // NULL: no profile records it
    bool waits;     // inputs may still be in flight on other streams
    bool alone;     // no thread waits for it
    int donations;  // how many outputs took over an input's memory
    int kept;
    zl_array *keep; // roots that a queued run keeps alive
    // the loop whose turn it is part of, or NULL; a queued run of a loop is a whole turn, which loop_run runs
    struct zl_loop_ *loop;
};
// Returns whether x is more than one input of the call.
static inline bool schedule_reads_twice(const struct call *c, zl_array x) {
    int times = 0;
    for (int i = 0; i < c->inputs; i++)
        times += c->in[i] == x;
    return times > 1;
}
// Executes a run on the calling thread, after waiting for its inputs if run->waits. Calls that fail have
// outputs that failed.
void schedule_run_now(struct run *run);
// Frees a queued run, and releases what it kept.
void schedule_run_free(struct run *run);
// Marks the outputs of a call as failed.
void schedule_run_fail(struct call *c, struct failure *f);
// Does the same for a call that a thread was running when the process forked. Its inputs stay as they are,
// since that thread may have released some of them.
void schedule_run_lose(struct call *c);

// profiling.c -----------------------------------------------------------------------------------------------

// The step of a run that the profile is recording, and the binding's own functions while the profile replaces
// them.
struct run_profile {
    bool (*prepare)(struct binding *b, int index, uint64_t in_place);
    void (*finish)(struct binding *b, int index);
    void (*fail)(struct binding *b, int index);
    int64_t begin;
    int first, calls, inputs;
    uint8_t dtype;
    bool has_finished, has_failed;
    double read, written, flops;
    uintptr_t op[64];        // of the first calls; const struct op *
    zl_array input[16];      // the first arrays that the step reads
};
// Begins to record the steps of a run in the profile.
void schedule_run_profile_begin(struct run *r, struct run_profile *p);
// Records the last step of the run.
void schedule_run_profile_end(struct run *r);

// eval.c ----------------------------------------------------------------------------------------------------

// Evaluates arrays, and waits for them if asked to. Returns false, with an error that names `function`, if
// that fails.
bool eval_arrays(const char *function, int count, const zl_array *arrays, bool wait);
// Plans an evaluation and calls `look` for each plan, without computing anything. look must not evaluate.
// Returns false, with an error, if planning fails.
bool eval_look(zl_array a,
               void (*look)(const struct tape *tape, int begin, const struct plan *plan, void *data),
               void *data);
// Evaluates an array and waits until the host can read it. Returns false, with an error, if that fails.
bool eval_read(const char *function, zl_array a);

// Plans an evaluation and calls `hold`, under the planning lock, with its parts: the tape, whose calls hold
// may claim, and a plan for each PLAN_LARGEST of them. Returns false, with an error, if planning or hold
// fails.
bool eval_hold(int count, const zl_array *arrays,
               bool (*hold)(struct tape *tape, int plans, struct plan *const *plan, void *data), void *data);
// Takes the planning lock and does what stream_try_begin does.
bool eval_begin(zl_stream s);

// loop.c, and loop_turn.c, which gives a loop its memory and runs its turns ---------------------------------

// Memory of a loop's arrays, while the first turn assigns it.
struct loop_place {
    struct storage *storage; // an array of the loop holds it
    size_t bytes;            // needed by the array that it was allocated for
    int live;                // arrays that are in it and will still be read
    bool stays;              // it belongs to the state or to a result: no other array gets it
};

// Two places between which a result or a state alternates, since the values of the turn before may still be
// read: turn t writes storage[t % 2], and reads the other one if it is a state.
struct loop_pair {
    int out;      // the function's result that it belongs to
    int state;    // the state that is read from it; -1: none
    struct storage *storage[2]; // retained
    zl_array *reader, *writer;  // arrays in the place that a turn reads or writes, without references to it
    int readers, writers;
};

struct zl_loop_ { // zl_loop of zellige_loop.h
    struct run whole; // a turn that a worker runs
    zl_fn f;
    int states, results;
    zl_array *state;    // the arguments of f, retained
    zl_outputs list;    // the results of f: the next state, then results
    zl_array *result[2]; // of turn t in result[t % 2], retained; NULL before the first turn
    int64_t turns;      // number of turns that began
    bool is_bound;      // a turn runs the plan; else it calls f again
    bool has_memory;    // memory was assigned to all arrays
    atomic_bool busy;   // a worker has a turn to run
    struct failure *failure; // of a turn; NULL: none
    // The plan: calls in their order, and the inputs that each reads for the last time.
    zl_stream stream;
    int calls, plans;
    struct call **call;
    uint64_t *dies;
    struct plan **plan; // retained
    // Memory.
    struct map place_of; // positions of storages in `place`, counted from 1; root_of: of arrays in `list`
    struct map root_of;
    struct loop_place *place;
    int places, place_cap;
    struct loop_pair *pair;
    int pairs;
};
// Runs a turn on the calling thread. If that fails, l->failure says why.
void loop_run(struct zl_loop_ *l);
// Releases the memory of all calls. The arrays of the state then hold their last values.
void loop_let_go(struct zl_loop_ *l);
// Returns which result of the function an array is, or -1.
int  loop_root(struct zl_loop_ *l, zl_array a);
// Returns whether the next state is a result too.
bool loop_is_shared(const struct zl_loop_ *l, int state);

// interrupt.c -----------------------------------------------------------------------------------------------

// Returns whether the program's own check (zl_set_interrupt) wants to stop the evaluation; if so, sets an
// error.
bool interrupt_wanted(void);
// Does the same before a call that computes `elements` elements; it seldom calls the check.
bool interrupt_between_calls(int64_t elements);

#endif
