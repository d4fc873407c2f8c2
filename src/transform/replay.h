// replay.h - what a recorded function is inside: for replay.c, which makes and repeats it, and steps.c, which
// tells it.

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

// A step holds its call, and the inputs of it too: the call lets them go if somebody evaluates it. Of several
// outputs the first may be one that nothing refers to. False and an error when memory is out.
bool replay_hold(struct call *c);
void replay_let_go(struct call *c);

// Drops steps and kept arrays that no result needs: calls that were passed over had more inputs than they
// gave on, and copies of what is computed again may have all of its readers. False and an error when memory
// is out.
bool replay_drop_dead(struct replay *r);

#endif
