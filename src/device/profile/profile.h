// profile.h - the profiler: the records that it collects while it is on, and the reports that it makes of
// them.
//
//     schedule: evaluations, and each step of a program with its ops ─┐
//     kernels:  each launch, with bytes and the kernel's IR           ├─▶ blocks of records, per thread
//     devices:  when launches ran, as their drivers tell; copies      ┘
//
//     blocks of records ─▶ struct profile ─▶ table, timeline
//
// A thread appends records to blocks of its own, without a lock. No other thread writes them, and they are
// read when the profile ends. A launch has an id. Devices report later, from any thread, when the work of an
// id ran. While the profiler is off, each place that records tests one word.

#ifndef PROFILE_H
#define PROFILE_H

#include "device/device.h"

// profile.c -------------------------------------------------------------------------------------------------

extern atomic_uint profile_now; // the number of the profile that is being recorded; 0: none
static inline bool profile_is_on(void) {
    return UNLIKELY(atomic_load_explicit(&profile_now, memory_order_relaxed) != 0);
}

enum profile_kind {
    PROFILE_EVAL,    // an evaluation, from the call to its return; name: the public function
    // a step of a program; words: its ops. The launches of the thread since the last one belong to it
    PROFILE_OPS,
    // work that was enqueued on a device; words: the kernel's IR as text, then the values of its symbols
    PROFILE_LAUNCH,
    // a tile kernel of the program, which zl_kernel_run ran and waited for; words as of a launch
    PROFILE_KERNEL,
    PROFILE_COPY, // a copy between the host and a unit; read: bytes that go up, written: bytes that come down
    PROFILE_WAIT,    // the host waits for a unit
    PROFILE_COMPILE, // a compiler runs
    // a launch on an emulated chip; words: struct profile_model. begin and end are those of the emulation
    PROFILE_MODELLED,
    // from begin to end, on the clock of the host, the unit did some of the work of `id`; name: what, or NULL
    PROFILE_TIME,
};

struct profile_record {
    uint8_t kind, unit, lane;
    uint8_t dtype;      // zl_dtype that a step computes in
    bool is_fallback;   // a step that the CPU runs because the stream's device cannot
    bool has_failed;    // a step whose results could not be computed
    bool is_part;       // a launch of a further grid of the same kernel
    bool has_words_of;  // another record, which word[0] points to, has the same words
    uint16_t words;     // how many words follow
    uint32_t id;        // of LAUNCH and TIME; 0: none
    uint32_t calls;     // of a step
    float read, written, flops; // bytes, bytes, operations
    int64_t begin, end; // as of clock_ns(); until it is read, as of clock_ticks(), but of TIME and COMPILE
    const struct device *device; // NULL: the host
    const char *name;            // lives as long as the process
    uintptr_t word[];
};

// A launch on a chip whose time is modelled: microseconds of the launch and of its engines, the share of
// lanes that computations use, commands of which two operands share a bank of memory, elements that the
// control program handles one at a time.
struct profile_model {
    double us, compute_us, copy_us, lanes, bank_conflicts, scalars;
};
enum { PROFILE_MODEL_WORDS = (sizeof(struct profile_model) + sizeof(uintptr_t) - 1) / sizeof(uintptr_t) };

static inline const uintptr_t *profile_words(const struct profile_record *r) {
    return r->has_words_of ? (const uintptr_t *)r->word[0] : r->word;
}

// Appends a record and its words to the blocks of the calling thread. A record for which there is no room is
// counted as dropped; there is never an error.
void profile_add(const struct profile_record *r, const uintptr_t *words);
// Returns a copy that lives as long as the process, the same for equal texts, or NULL, without an error, if
// there is no memory.
const char *profile_keep(const char *text);
// Adds a record of a compilation that ends now, if the profiler is on. `what` lives as long as the process.
void profile_compiled(const char *what, int64_t begin);
// Returns an id for a launch, from 1.
uint32_t profile_new_id(void);
// The work that this thread is enqueuing on a device, which reports when it ran; id 0: none.
struct profile_work {
    uint32_t id;
    bool is_tiles; // a grid of the tile kernel `name`
    const char *name;
};
// Little enough for a library that is opened late; saves a call at each use.
#ifdef __GLIBC__
#define PROFILE_TLS __attribute__((tls_model("initial-exec")))
#else
#define PROFILE_TLS
#endif
extern PROFILE_TLS _Thread_local struct profile_work profile_work;
extern _Thread_local bool profile_is_ending; // this thread waits for devices because it ends the profile
// Sets the id and the begin of *r, and profile_work, before a launch is enqueued. Returns the earlier value
// of profile_work, for profile_close_launch.
struct profile_work profile_open_launch(struct profile_record *r, bool is_tiles);
// Sets the end of *r, restores profile_work and adds the record, once the launch is enqueued.
void profile_close_launch(struct profile_record *r, const uintptr_t *words, struct profile_work before);
// Counts so many more records as dropped.
void profile_drop(int64_t count);

// Adds a line to the table, once, such as why a device has no times. The text lives as long as the process.
void profile_say(const char *what);

// profile_ring.c --------------------------------------------------------------------------------------------

// How a driver reports the times of its units.
struct profile_driver {
    const char *lack; // the text for the table if a unit cannot report when its launches ran
    // ns of the unit's clock, read during the call. False: it does not tell
    bool (*now)(int unit, int64_t *time);
    // Waits for a launch, by its place in the ring and its handle, and says when it ran by that clock. False:
    // that is not known.
    bool (*times)(int unit, int place, uint64_t handle, int64_t *begin, int64_t *end);
};
// Launches of a unit that are not reported yet, in order. Zeroed, it is empty. The caller provides the lock.
enum { PROFILE_RING = 256 }; // with more, the host waits for the oldest
struct profile_ring {
    unsigned profile; // the profile in which the clocks were compared
    int64_t ahead;    // ns by which the host's clock is ahead of the unit's
    int first, count;
    struct { uint32_t id; uint64_t handle; } launch[PROFILE_RING];
};
// Returns whether a profile is to record when the next launch of this thread runs, and makes room for it, for
// which it may report the oldest launch. Sets no error.
bool profile_ring_wants(struct profile_ring *r, const struct profile_driver *driver, int unit);
// Returns the place of the launch that is added next.
int  profile_ring_place(const struct profile_ring *r);
// Adds the launch of this thread, profile_work, with the driver's handle for it. There has to be room.
void profile_ring_add(struct profile_ring *r, uint64_t handle);
// Reports all launches and empties the ring. Sets no error.
void profile_ring_end(struct profile_ring *r, const struct profile_driver *driver, int unit);

// Between the files of the profiler -------------------------------------------------------------------------

// The records of a profile, put together.
struct profile_span {
    const struct profile_record *r;
    int thread;
    int step;            // the span of the step that a launch belongs to; -1: none
    int first, count;    // times of a launch: in profile.time
    double read, written, flops;
};
struct profile {
    int64_t begin, end;
    double tick_ns; // of a tick of clock_ticks()
    int threads;
    int spans, spans_cap;
    struct profile_span *span; // all but times; of each thread in the order in which they ended
    int times, times_cap;
    const struct profile_record **time; // by id, then begin
    int64_t dropped;
    size_t most; // bytes of records that may be kept
    const char *said[4];
};
// Registers `end` to be called when the process exits, before the drivers that are open by then are shut
// down. Devices call it with NULL after they open a driver, which keeps this order for the function given
// before.
void profile_at_exit(void (*end)(void));
// Starts a profile. Returns false, with an error, if one is being recorded.
bool profile_start(void);
// Ends recording and fills *p with what was recorded, which the caller frees with profile_free. Returns false
// if no profile is being recorded, or, with an error, if there is no memory.
bool profile_stop(struct profile *p);
// Frees a profile and the blocks of records that it refers to.
void profile_free(struct profile *p);
// Returns the bytes of all blocks of records.
size_t profile_used(void);

// Fills in the bytes and operations of each step and launch (profile_cost.c). Returns false, with an error,
// if that fails.
bool profile_set_costs(struct profile *p);

// Appends the ops of a step, as zl_explain names them.
void profile_add_ops(struct text *out, const struct profile_record *r);
// Returns whether it is known when the device did the work of the span: a launch with times, a kernel of the
// program, or a step of a device whose run returns when its work is done.
bool profile_is_kernel(const struct profile_span *s);

// Appends the profile as a table (profile_table.c).
void profile_table(struct text *out, const struct profile *p);
// Writes the profile to a file as a timeline (profile_timeline.c). Returns false, with an error, if that
// fails.
bool profile_write_timeline(const char *path, const struct profile *p);

#endif
