// schedule.h - from a lazy graph to running programs: walk, plan, run.
//
//     zl_eval ─▶ walk: the calls to run, in order, and the key of their structure
//             ─▶ plan: segments and their programs, found by the key or made
//             ─▶ run:  each segment on its stream: here and now, or on the stream's worker
//
// Planning takes one lock, running none. What is planned is claimed: another thread that needs it waits for the stream
// to say that its state has changed. Runs are put in order under the same lock, so a run waits only for earlier ones.

#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <pthread.h>

#include "device/device.h"

// stream.c -------------------------------------------------------------------------------------------------------

// Work in order. A stream runs on the thread that evaluates when it has nothing queued, else on a worker of its own.
struct zl_stream_ {
    const struct device *device;
    int unit, lane; // lane: of the unit, by which its work goes there
    pthread_mutex_t lock; // guards the queue and failure
    pthread_cond_t changed;
    struct run *head, *tail;
    struct failure *failure; // the first of an evaluation that nobody waited for, until somebody is told
    bool has_worker;
    bool is_default; // of its device, on its thread
    atomic_ulong
        work; // whether some thread is running a program of it, who watches, what is queued or being run by the worker
    atomic_uint ticks; // runs that ended; sleepers watch it
    pthread_t owner;
    struct zl_stream_ *next; // of its thread, then among those to be used again
    struct zl_stream_ *older; // of all that were made
};

// The stream of calls that name none, on this thread. stream_standard finds out which device it is on, which may open drivers: NULL and an
// error. stream_known returns NULL as long as it was not called.
zl_stream stream_standard(void);
zl_stream stream_known(void);
// A stream that belongs to no thread and lives as long as the process. NULL and an error.
zl_stream stream_shared(const char *device);
bool stream_try_begin(zl_stream s); // takes an idle stream for the calling thread; under the planning lock
void stream_end(zl_stream s);                 // after a run: gives it back and wakes who waits
bool stream_wait(zl_array a);                 // until a is no longer claimed
void stream_wait_while(zl_stream s, const atomic_bool *busy); // which a run of it ends
void stream_keep_failure(zl_stream s, int count, const zl_array *arrays); // the first, for who synchronizes
void stream_told(zl_array a);                 // somebody knows now why a failed
// Waits until all streams have done what they were asked for; unless `queues`, only devices, not what is still queued. Errors stay where
// they are.
void stream_settle_all(bool queues);
bool stream_enqueue(zl_stream s, struct run *run); // its worker runs and frees it; false and an error

// tape.c ---------------------------------------------------------------------------------------------------------

// The calls that arrays need, inputs first, and what is known of each. Grows and is used again.
struct tape {
    zl_stream standard; // of calls that name none; NULL: this thread has not chosen its own yet
    bool lacks_standard; // the walk ended at a call that needs it
    int calls, cap;
    struct call **call;
    uint8_t *needed;  // an output is read after this evaluation, or by several streams
    uint64_t *dies;   // bit k: nothing reads input k after this call (of the first 64 inputs)
    uint32_t *uses;   // by calls of the tape
    uint32_t *last;   // the last call that reads an output of this one
    bool looks; // nothing will be computed: what is lent may still be asked for by a gradient
    bool has_slices; // of which narrow_tape may make something
    int collectives; // how many it has
    bool waits; // some inputs are being computed by other evaluations
    bool has_depths; // dies holds the depths that the walk of epoch of_depths found
    uint32_t epoch, of_depths; // epoch: of its walk
    int stack_cap, root_cap, sum_cap, sums;
    struct call **stack;
    struct tape_root *root, *sum; // sum: reductions that are to follow each other; sums 0 but in a walk by depths
};
// Lists the calls that arrays need, under the planning lock. False and an error; or with lacks_standard and no error: stream_standard
// must be called, without the lock, before the next try.
bool tape_walk(struct tape *tape, int count, const zl_array *arrays);
// Puts calls [begin, end) into another order, in which inputs are still first: number i is the one that was order[i] from `begin` on. False and
// an error; then all is as it was. Under the planning lock.
bool tape_reorder(struct tape *t, int begin, int end, const int32_t *order);
void tape_forget(void); // in the child of a fork: what was claimed before will not be computed by anybody; arrays that need it fail
// The position of an array's call on the tape, or -1.
static inline int tape_slot(const struct tape *t, zl_array x) {
    return x->call && x->call->epoch == t->epoch && array_state(x) == ARRAY_LAZY ? (int)x->call->slot : -1;
}
static inline zl_stream tape_stream(const struct tape *t, int slot) {
    zl_stream s = t->call[slot]->stream;
    return s ? s : t->standard;
}
void tape_free(struct tape *tape);

// range.c --------------------------------------------------------------------------------------------------------

// The elements i of an axis with start <= i % period < start + count. Axis -1: all of the array.
struct range {
    int axis;
    int64_t period, start, count;
};
bool range_is_same(const struct range *a, const struct range *b);
int64_t range_size(zl_array x, int axis, const struct range *r); // how much of an axis of x is in it
// Sets *to to what call c needs of input k for a range of its output. False: c can only be computed as a whole.
bool range_of_input(const struct call *c, int k, const struct range *r, struct range *to);
// Sets *r to what slice c takes of its input, along the axis of which it takes least. False unless that is at most half of it, with step 1.
bool range_of_slice(const struct call *c, struct range *r);
zl_array range_slice(zl_array x, const struct range *r); // those elements of x, lent; NULL and an error

// narrow.c -------------------------------------------------------------------------------------------------------

// Whether what a slice on the tape takes may be all that is computed of its input, if nothing else reads that.
bool narrow_begins(const struct call *c);
// Records calls anew for what slices take of them. changed: the tape must be walked again. False and an error; then all is as it was.
bool narrow_tape(const struct tape *tape, bool *changed);

// sample.c -------------------------------------------------------------------------------------------------------

// Whether ZL_SAMPLE keeps an evaluation of these calls from a device that is static.
bool sample_leaves_out(int count, struct call *const *calls);

// plan.c ---------------------------------------------------------------------------------------------------------

enum { PLAN_LARGEST = 4096 }; // calls in one plan: one changing tail must not cost all its plan

struct plan_segment {
    int begin, end; // calls of the tape, from the plan's first
    const struct device *device;
    int unit;
    struct program *program;
};

struct plan {
    atomic_int refs;
    atomic_int hits; // saturating; how often it was found
    int words;       // of its key; 0: it is forgotten
    int64_t *word; // owned by the map of plans
    int32_t *order; // in which its calls run, of their places on the tape; NULL: as they are there
    int segments;
    struct plan_segment segment[];
};
// Finds or makes the plan of the tape's calls [begin, end). *held is retained, or NULL, and is replaced: who evaluates the same again
// holds its plan already. False and an error. Under the planning lock.
// The calls are put into the plan's order.
bool plan_find(struct tape *tape, int begin, int end, struct plan **held);
void plan_release(struct plan *plan);
void plan_clear(void); // forgets all plans

// run.c ----------------------------------------------------------------------------------------------------------

// One segment bound to its arrays. A run on the evaluating thread borrows the tape's memory; a queued one owns a copy.
struct run {
    struct binding binding; // first: devices hand it back
    struct run *next;       // in a stream's queue
    zl_stream stream;
    struct plan *plan;
    const struct plan_segment *segment;
    const uint64_t *dies;
    struct run_profile *profile; // NULL: it is not recorded
    bool waits; // inputs may be under way on other streams
    bool alone; // nobody waits for it
    int donations; // outputs that took over an input's memory
    int kept;
    zl_array *keep; // roots that a queued run keeps alive
    struct zl_loop_ *loop; // whose turn it is part of; a queued one is a whole turn, which loop_run runs. NULL: none
};
void run_now(struct run *run);
void run_free(struct run *run);
void run_fail(struct call *c, struct failure *f); // its outputs failed, for this reason
// The same of a call that a thread was running which a fork left behind. Its inputs, of which that thread may have let go some,
// stay as they are.
void run_lose(struct call *c);

// profiling.c ----------------------------------------------------------------------------------------------------

// The step of a run that is under way, for the profile, and what the binding called before it was recorded.
struct run_profile {
    bool (*prepare)(struct binding *b, int index, uint64_t in_place);
    void (*finish)(struct binding *b, int index);
    void (*fail)(struct binding *b, int index);
    int64_t begin;
    int first, calls, inputs;
    uint8_t dtype;
    bool has_finished, has_failed;
    double read, written, flops;
    uintptr_t op[64];        // of the first calls, const struct op *
    zl_array input[16];      // the first that were read
};
// Records the steps of a run from now on; the second records the last one.
void run_profile_begin(struct run *r, struct run_profile *p);
void run_profile_end(struct run *r);

// eval.c ---------------------------------------------------------------------------------------------------------

bool eval_arrays(const char *function, int count, const zl_array *arrays, bool wait);
// Plans an evaluation, shows each piece of it and leaves it at that. look must not evaluate.
bool eval_look(zl_array a, void (*look)(const struct tape *tape, int begin, const struct plan *plan, void *data),
               void *data);
bool eval_read(const char *function, zl_array a); // evaluates and waits; false and an error when it cannot be read

// Plans an evaluation and has `hold` take what it is made of, under the planning lock: the tape, whose calls it may claim, and a plan for
// each PLAN_LARGEST of them. False and an error, also from hold.
bool eval_hold(int count, const zl_array *arrays, bool (*hold)(struct tape *tape, int plans, struct plan *const *plan, void *data),
               void *data);
bool eval_begin(zl_stream s); // stream_try_begin, under the planning lock

// loop.c, and loop_turn.c, which gives a loop its memory and runs its turns ---------------------------------------

// Memory of arrays of a loop, while the turn runs that gives all of them theirs.
struct loop_place {
    struct storage *storage; // an array of the loop holds it
    size_t bytes;            // that were asked for
    int live;                // arrays that are in it and will be read
    bool stays;              // it is of the state or of a result: nothing else gets it
};

// What a turn writes while the turn before may still be read: turn t writes storage[t % 2], and reads the other one if it is a state.
struct loop_pair {
    int out;      // which of the function's results it is of
    int state;    // which state is read from it; -1: none
    struct storage *storage[2]; // retained
    zl_array *reader, *writer;  // arrays that are in the one or the other, which hold neither
    int readers, writers;
};

struct zl_loop_ { // of zellige_loop.h
    struct run whole; // a turn that a worker runs
    zl_fn f;
    int states, results;
    zl_array *state;    // what f is called with, retained
    zl_outputs list;    // what f gave: the next state, then results
    zl_array *result[2]; // of turn t in result[t % 2], retained; NULL before the first turn
    int64_t turns;      // that began
    bool is_bound;      // a turn runs the plan; else it calls f again
    bool has_memory;    // all arrays have theirs
    atomic_bool busy;   // a worker has a turn to run
    struct failure *failure; // of a turn; NULL: none
    // The plan: calls in their order, and what each reads for the last time.
    zl_stream stream;
    int calls, plans;
    struct call **call;
    uint64_t *dies;
    struct plan **plan; // retained
    // Memory.
    struct map place_of; // of storages, in `place`, counted from 1; and of roots, in `list`
    struct map root_of;
    struct loop_place *place;
    int places, place_cap;
    struct loop_pair *pair;
    int pairs;
};
void loop_run(struct zl_loop_ *l);        // runs a turn; what fails is in l->failure
void loop_let_go(struct zl_loop_ *l);     // takes the memory from all calls that have it
int  loop_root(struct zl_loop_ *l, zl_array a); // which result of the function an array is; -1: none
bool loop_is_shared(const struct zl_loop_ *l, int state); // the next state is a result too

// interrupt.c ----------------------------------------------------------------------------------------------------

// Whether the program's check says to give up; the error is set then.
bool interrupt_wanted(void);
// The same, asked before a call that computes so many elements: most times it does not look.
bool interrupt_between_calls(int64_t elements);

#endif
