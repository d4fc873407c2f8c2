// zellige_loop.h - loops: a function that gives its own next inputs, planned once and run again and again in
// the same memory.
//
// Part of libzellige. doc/transforms.md has an example.

#ifndef ZELLIGE_LOOP_H
#define ZELLIGE_LOOP_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// A loop over a function that gives its own next inputs. The function takes the state and returns the next
// state, with the same dtypes and shapes in the same order, followed by its results. It is called once, and
// must not read the values of the arrays it is given. Its calls are planned and given memory once; what
// does not depend on the state is computed before the first turn. A turn runs that plan and nothing else:
// it records no op, plans nothing and allocates no memory. On devices that run whole programs (pjrt), with
// ops that fall back to the CPU, or on several streams, each turn calls the function again instead. Only
// one thread may use a loop at a time.
typedef struct zl_loop_ *zl_loop;
// Plans a loop and takes over one reference to each of the `count` arrays of the state. Arrays that nothing
// else refers to are updated in place; the others are copied first. Returns NULL, with an error, if it fails;
// the caller then keeps its references.
ZL_API zl_loop zl_loop_new(zl_fn f, int count, const zl_array *state);
// Enqueues a turn. Waits only until the previous turn has finished or has been submitted to the device.
// Returns false, with an error, if that turn failed; the loop can then only be ended.
ZL_API bool zl_loop_start(zl_loop loop);
// Returns result number `index` of the turn started last (`turn` 0) or of the one before it (`turn` 1). The
// loop owns it and overwrites its memory two turns later, so whatever is computed from it must be evaluated
// by then. Returns NULL, with an error, if there is no such result.
ZL_API zl_array zl_loop_result(zl_loop loop, int index, int turn);
// Waits for the last turn, frees the loop and writes the state, retained, to `state`; if `state` is NULL the
// state is released. Returns false, with an error and without a state, if a turn failed.
ZL_API bool zl_loop_end(zl_loop loop, zl_array *state);

#ifdef __cplusplus
}
#endif

#endif
