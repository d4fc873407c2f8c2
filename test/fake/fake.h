// fake.h - what tests tell the driver of test/fake/cuda.c, and ask it. Found by dlsym: it is no part of the
// test program.

#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>
#include <stdint.h>

// The after-th call of the function from now on fails with a code of CUDA; codes from 700 on stay: the device
// is lost.
void fake_fail(const char *function, int after, int code);
void fake_heal(void);                   // nothing fails any more
int64_t fake_calls(const char *function); // so far
void fake_memory(size_t bytes);         // that a device has
size_t fake_used(int device);           // bytes
// The first work, since this was asked last, that used memory of another stream's and did not wait for that;
// NULL: there was none.
const char *fake_disorder(void);
int64_t fake_overtaken(void); // nodes of graphs that ran after one that was added behind them, so far

// Who wants to know what the driver does, as cupti.c: that a thread calls it to launch something, which has a
// number, and between which times, of CLOCK_MONOTONIC in ns, a kernel of that ran.
struct fake_observer {
    void (*called)(uint32_t number);
    void (*ran)(uint32_t number, const char *name, uint64_t begin, uint64_t end);
};
void fake_observe(const struct fake_observer *o);

// For libraries that stand beside the driver, and wait for a stream before they compute: the host's address
// of a device's memory.
void *fake_show(const void *memory);
struct stream;
int cuStreamSynchronize(struct stream *s);

// cuda_text.c: a library, for dlsym, with the function of a text in CUDA C; NULL: it does not compile.
void *fake_compile(const char *text, const char *name);

#endif
