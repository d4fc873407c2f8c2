// cuda_faults.h - the beginning and end of functions of the driver in cuda.c: they run one at a time, are
// counted, and fail if a test says so.

#ifndef CUDA_FAULTS_H
#define CUDA_FAULTS_H

#include <pthread.h>

extern pthread_mutex_t fake_lock; // guards everything in cuda.c except contexts

// Takes the lock and counts a call. Returns the code with which it has to fail; 0: it does not.
int fake_begin(const char *name);
int fake_end(int code);            // releases the lock, and returns the code
void fake_count(const char *name); // counts another call; the lock is held

#define BEGIN(name)                \
    int failed = fake_begin(name); \
    if (failed)                    \
    return fake_end(failed)

#endif
