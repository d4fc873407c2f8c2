// replay.h - the structure of a recorded function, for replay.c, which makes and replays it, recompute.c,
// which changes it, and steps.c, which lists its steps.

#ifndef REPLAY_H
#define REPLAY_H

#include "transform/transform.h"

struct step {
    struct call *call;
    bool inherits; // it runs on the stream of the caller; else on that of the call
    int in;        // the index in replay.in of its first input
    int out;       // the slot of its first output
};

struct kept {
    zl_array array; // retained
    int slot;
};

struct replay {
    atomic_int refs;
    int inputs, slots, widest; // widest: the most inputs that a step has
    struct step *step;
    int steps, step_cap;
    int *in; // the slots of the inputs of all steps
    int ins, in_cap;
    struct kept *kept;
    int kept_count, kept_cap;
    int *result; // the slots of the results
    int results;
    int64_t tag;
    bool foreign;       // it uses arrays of an enclosing transform
    int64_t first, last; // the range of numbers of its collectives; 0, 0: it has none
    const void *thread; // the thread whose streams it names; NULL: it names none
};

// Retains a call for a step, and its inputs too, because the call releases them when it is evaluated. Also
// keeps the first output, which nothing else refers to if only the other outputs are used. Returns false,
// with an error, if memory runs out.
bool replay_hold(struct call *c);
// Releases a call that a step retained, and its inputs.
void replay_let_go(struct call *c);

// Removes steps and kept arrays that no result needs. They arise when a call that was left out had more
// inputs than it passed on, and when copies that recompute an array have replaced it in all of its readers.
// Returns false, with an error, if memory runs out.
bool replay_drop_dead(struct replay *r);

#endif
