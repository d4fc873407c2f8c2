// cuda_faults.h - how functions of the driver in cuda.c begin and end: one after the other, counted, and
// failing where a test says so.

#ifndef CUDA_FAULTS_H
#define CUDA_FAULTS_H

#include <pthread.h>

extern pthread_mutex_t fake_lock; // guards all that cuda.c has, but contexts

// Takes the lock and counts a call. Returns the code with which it has to fail, 0: none.
int fake_begin(const char *name);
int fake_end(int code);            // gives the lock back, and returns the code
void fake_count(const char *name); // one more call; the lock is held

#define BEGIN(name)                \
    int failed = fake_begin(name); \
    if (failed)                    \
    return fake_end(failed)

#endif
