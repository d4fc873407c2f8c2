// device.h - all that a device is to the rest of the system.
//
// The schedule cuts a graph into segments (calls of one stream on one unit, in order), asks the device to build each
// into a program, once per structure, and to run it as often as sizes and data come along.

#ifndef DEVICE_H
#define DEVICE_H

#include "op/op.h"

struct program;

// A maximal run of calls of one stream, in order. What build may rely on is what the plan's key holds: ops,
// arguments, dtypes, ranks, links. Extents and scalars are bound at each run.
struct segment {
    int calls;
    struct call *const *call;
    const uint8_t *needed; // per call: an output is read after the segment, so it must be stored
};

// One run of a program. prepare(b, i) gives the outputs of call i their storage (bit k of in_place: that of input k, if
// it dies here and fits; if not all bits are set, only where no other input is the same); finish(b, i) publishes them and lets inputs go that nothing reads any more.
struct binding {
    int calls;
    struct call *const *call;
    bool (*prepare)(struct binding *b, int index, uint64_t in_place);
    // Before it, where calls [begin, index] run as one: the result may lie where an input lay that none reads after them.
    void (*take)(struct binding *b, int begin, int index);
    void (*finish)(struct binding *b, int index);
    void (*fail)(struct binding *b, int index); // the thread's error becomes that of the call's outputs
};

struct device {
    const char *name;
    bool is_static; // its programs depend on sizes and arguments: these are part of a plan's key
    int  (*open)(const char **reason);              // units there are; 0 with the reason
    bool (*describe)(int unit, zl_device_info *out);
    bool (*can)(int unit, const struct call *c);    // placement: op, dtypes, rank
    struct program *(*build)(int unit, const struct segment *s); // NULL and an error
    void (*drop)(struct program *p);
    // Of how many calls, from index on, a program of the segment makes one kernel; *why: what keeps it from more, or NULL.
    // NULL: of one each.
    int (*fuses)(int unit, const struct program *p, const struct segment *s, int index, const char **why);
    void (*run)(int unit, struct program *p, struct binding *b); // failures go to binding.fail, call by call
    // Memory of the unit. NULL: the unit reads and writes host memory.
    bool (*copy)(int unit, void *to, const void *from, size_t bytes, bool to_host);
    void *(*alloc)(int unit, size_t bytes);
    void (*free)(int unit, void *memory);
};

// device.c -------------------------------------------------------------------------------------------------------

// Devices are opened when first asked for. NULL and an error that lists what there is.
const struct device *device_find(const char *name, int *units);
int device_count(void);
const struct device *device_at(int index);
int device_units(int index, const char **reason); // opens it

// counter.c ------------------------------------------------------------------------------------------------------

// What happened, for tests and zl_counter().
enum counter {
#define COUNTER(NAME, text) COUNTER_##NAME,
#include "device/counters.def"
    COUNTER_COUNT
};
void counter_add(enum counter which, int64_t by);
void counter_add_alone(enum counter which, int64_t by); // cheaper: for counts that only holders of one lock change
int64_t counter_value(enum counter which);

#endif
