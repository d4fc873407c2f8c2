// fake.h - functions by which tests control and query the driver of test/fake/cuda.c. They are found by
// dlsym, as they are not part of the test program.

#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>
#include <stdint.h>

// Makes the after-th call of the function from now on fail with a CUDA code; codes from 700 on are permanent:
// the device is lost.
void fake_fail(const char *function, int after, int code);
void fake_heal(void);                   // ends all failures
int64_t fake_calls(const char *function); // number of calls so far
void fake_memory(size_t bytes);         // sets the bytes of memory of a device
size_t fake_used(int device);           // bytes in use
// Returns the first work, since the last call of this function, that used memory of another stream without
// waiting for it; NULL: there was none.
const char *fake_disorder(void);
int64_t fake_overtaken(void); // number of nodes of graphs that ran before a node that was added earlier, so
                              // far

// An observer of the driver, such as cupti.c: it is told when a thread calls the driver to launch something,
// which has a number, and when a kernel of that call ran, in CLOCK_MONOTONIC ns.
struct fake_observer {
    void (*called)(uint32_t number);
    void (*ran)(uint32_t number, const char *name, uint64_t begin, uint64_t end);
};
void fake_observe(const struct fake_observer *o);

// For other fake libraries, which wait for a stream before they compute: returns the host address of a
// device's memory.
void *fake_show(const void *memory);
struct stream;
int cuStreamSynchronize(struct stream *s);

// Compiles the function of a text in CUDA C to a library for dlsym; NULL if that fails.
void *fake_compile(const char *text, const char *name);

#endif
