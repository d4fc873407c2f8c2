// zellige_loop.h - loops: a function that gives its own next inputs, planned once and run again and again in
// the same memory.
//
// Part of libzellige. doc/compile.md has an example.

#ifndef ZELLIGE_LOOP_H
#define ZELLIGE_LOOP_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// A function that gives its own next inputs, done again and again in the same memory. f takes the state and
// gives the next state, of the same dtypes and shapes in the same order, then its results. It runs once, and
// must not read what it makes of the state. What it did is planned and given memory once; a turn runs that
// plan and nothing else: no op is recorded, nothing is planned, no memory is asked for, and what does not
// follow from the state was computed before the first turn. A loop is used by one thread at a time. On
// devices that run whole programs (pjrt), with ops that run on the CPU instead, or on several streams, turns
// call f anew.
typedef struct zl_loop_ *zl_loop;
// Takes over one reference to each array of the state, unless it fails: what nothing else refers to is
// changed in place, the rest is copied. NULL and an error.
ZL_API zl_loop zl_loop_new(zl_fn f, int count, const zl_array *state);
// Starts a turn and returns at once, when the one before has ended or is with the device. False and an error;
// the loop can then only end.
ZL_API bool zl_loop_start(zl_loop loop);
// A result of the last turn that was started (turn 0) or of the one before it (1). The loop's: its memory is
// written again by the second turn after its own, so what is made of it must be evaluated before. NULL and an
// error.
ZL_API zl_array zl_loop_result(zl_loop loop, int index, int turn);
// Waits for the last turn, frees the loop and gives the state, retained; state NULL: it is released. False
// and an error, with no state, if a turn failed.
ZL_API bool zl_loop_end(zl_loop loop, zl_array *state);

#ifdef __cplusplus
}
#endif

#endif
