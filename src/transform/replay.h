// replay.h - the inside of a recorded function, for replay.c, which makes and repeats it, recompute.c, which
// changes it, and steps.c, which lists its steps.

#ifndef REPLAY_H
#define REPLAY_H

#include "transform/transform.h"

struct step {
    struct call *call;
    bool inherits; // the stream of the caller; else that of the call
    int in;        // where the slots of its inputs are
    int out;       // slot of its first output
};

struct kept {
    zl_array array; // retained
    int slot;
};

struct replay {
    atomic_int refs;
    int inputs, slots, widest; // widest: inputs of a step, at most
    struct step *step;
    int steps, step_cap;
    int *in; // slots of inputs, of all steps
    int ins, in_cap;
    struct kept *kept;
    int kept_count, kept_cap;
    int *result; // slots
    int results;
    int64_t tag;
    bool foreign;       // it uses arrays of a transform around it
    int64_t first, last; // numbers of its collectives; 0, 0: it has none
    const void *thread; // whose streams it names; NULL: it names none
};

// Retains a call for a step, and its inputs too, which the call releases if it is evaluated. If the call has
// several outputs, nothing needs to refer to the first. Returns false, with an error, if memory runs out.
bool replay_hold(struct call *c);
// Releases a call that a step retained, and its inputs.
void replay_let_go(struct call *c);

// Drops steps and kept arrays that no result needs: calls that were left out had more inputs than they passed
// on, and copies that compute arrays again may have taken over all readers of those. Returns false, with an
// error, if memory runs out.
bool replay_drop_dead(struct replay *r);

#endif
