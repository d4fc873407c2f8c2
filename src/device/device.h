// device.h - the interface between devices and the rest of the system.
//
// The schedule divides a graph into segments (consecutive calls of one stream on one unit). It asks the
// device to build a program of each, once per structure, and runs that program for each set of sizes and
// data.

#ifndef DEVICE_H
#define DEVICE_H

#include "op/op.h"
#include "zellige_tile.h"

struct program;

// The longest run of consecutive calls of one stream. build may rely on everything that is in the plan's key:
// ops, arguments, dtypes, ranks, and which calls read which arrays. Sizes and scalars are given at each run.
struct segment {
    int calls;
    struct call *const *call;
    const uint8_t *needed; // per call: whether an output is read after the segment, so that it must be stored
};

enum { DEVICE_LANES = 4, DEVICE_CHIP_ID = 16 };

// The functions of a device. A *unit* is one chip of a device; a *lane* is a queue of a unit, which executes
// the work enqueued on it in order. Where an entry may be NULL, its comment says what NULL means.
struct device {
    const char *name;
    const char *alias; // another name by which device_find finds it, or NULL
    // Whether programs depend on sizes, strides and arguments. If so, these are part of a plan's key, except
    // offsets, arguments of views, and starts and stops of updates, which may differ in each run. A static
    // device has put and get.
    bool is_static;

    // Discovery ---------------------------------------------------------------------------------------------

    // Opens the driver and returns the number of units, or 0 with the reason in *reason.
    int (*open)(const char **reason);
    // Returns what open would, without taking the units from other processes, so that devices can be listed;
    // describe must work after count alone. NULL: open takes nothing.
    int (*count)(const char **reason);
    // Fills *out; returns false, with an error, if the unit cannot be described.
    bool (*describe)(int unit, zl_device_info *out);
    // Returns whether this machine has hardware that could be a GPU of this device, without opening the
    // driver. The choice of the default device opens the driver only if so. NULL: the driver answers at
    // little cost.
    bool (*has_hardware)(void);
    // Writes the 16 bytes that name the unit's chip, the same for every driver that reaches it. Returns false
    // if they are unknown. NULL: always unknown.
    bool (*chip)(int unit, unsigned char id[DEVICE_CHIP_ID]);
    // Returns whether the unit is the host's CPU, without starting it. NULL: no unit is.
    bool (*is_host)(int unit);

    // Programs ----------------------------------------------------------------------------------------------

    // Returns whether the unit can run a call, judged by op, dtypes and rank. Placement moves other calls to
    // the CPU.
    bool (*can)(int unit, const struct call *c);
    // Builds the program of a segment; returns NULL, with an error, if that fails.
    struct program *(*build)(int unit, const struct segment *s);
    void (*drop)(struct program *p);
    // Returns how many calls, starting at `index`, the program runs as one fused kernel, and appends to *why
    // what stopped fusion there. NULL: no calls are fused.
    int (*fuses)(int unit, const struct program *p, const struct segment *s, int index, struct text *why);
    // Begins in the background what the first run of a program would otherwise wait for. Called without the
    // planning lock, before any program of an evaluation runs, for all of them but the first; the arrays that
    // programs pass to each other do not exist yet. NULL: nothing takes long.
    void (*prepare)(int unit, struct program *p, const struct segment *s);
    // Enqueues the program with the arrays and sizes of b. Failures are recorded per call through
    // binding.fail.
    void (*run)(int unit, struct program *p, struct binding *b);

    // Memory of the unit ------------------------------------------------------------------------------------

    // All three are NULL if programs work on the host's memory. copy returns when the host's side may be
    // reused. alloc returns NULL, with or without an error. free waits for everything enqueued on the unit.
    bool (*copy)(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host);
    void *(*alloc)(int unit, size_t bytes);
    void (*free)(int unit, void *memory);
    // The same for memory that is typed and immutable, in place of copy and alloc. put returns a buffer of
    // the given form with the values at `from`, which may be reused on return, or NULL and an error. get
    // writes a buffer's values to `to`; it returns false, with an error, if that fails. free releases a
    // buffer.
    void *(*put)(int unit, const struct buffer_form *form, const void *from);
    bool (*get)(int unit, void *buffer, const struct buffer_form *form, void *to);
    // Returns a copy, on this unit, of a buffer of another unit, made without the host, or NULL and an error.
    // NULL: such copies go through the host.
    void *(*carry)(int unit, void *buffer);
    // pin locks pages of the host, so that the unit can write to them directly; it returns false, with or
    // without an error, if it cannot. unpin releases them. receive is copy to such pages. All three are NULL
    // if the unit has no such memory.
    bool (*pin)(int unit, void *pages, size_t bytes);
    void (*unpin)(int unit, void *pages);
    bool (*receive)(int unit, int lane, void *pages, const void *from, size_t bytes);

    // Order of work -----------------------------------------------------------------------------------------

    // record marks the end of all work enqueued on a lane so far, as one of the 64 marks that a lane keeps
    // (`place`). wait blocks until the work before that mark is done. Both return false, with an error, if
    // the unit fails. NULL: run returns when its work is done.
    bool (*record)(int unit, int lane, int place);
    bool (*wait)(int unit, int lane, int place);
    // Returns whether everything enqueued on the lane was accepted; returns false, with an error, once per
    // failure. NULL: run reports this itself.
    bool (*good)(int unit, int lane);
    // The number of lanes, up to DEVICE_LANES, whose work may overlap; 0 if the unit has a single lane,
    // without follow and done.
    int lanes;
    // Whether copies to the host, and follow, accept the extra lane DEVICE_LANES, which carries nothing but
    // such copies.
    bool reads_aside;
    // Makes later work on `lane` wait for the mark `place` of lane `other`. Does not block.
    bool (*follow)(int unit, int lane, int other, int place);
    // Returns whether the work before a mark is done. Does not block.
    bool (*done)(int unit, int lane, int place);

    // Beside programs ---------------------------------------------------------------------------------------

    // Returns lib<name>.so of a vendor's version, for code that uses the unit beside the device (collectives
    // do), and makes the unit current in the calling thread. Returns NULL, with an error, if it is missing.
    // NULL: the device has no libraries.
    void *(*library)(int unit, const char *name, int version);
    // Reports the times of launches that a profile recorded and that are not known yet (profile.h). NULL:
    // there are no times.
    void (*profile_end)(void);
    // Describes the index-th override, that is, a way to run ops other than by their tile kernels. Returns
    // false past the last. NULL: the device has no overrides.
    bool (*override)(int index, zl_kernel_override *out);
};

// Returns whether the device has memory of its own.
static inline bool device_is_apart(const struct device *d) {
    return d->alloc || d->put;
}

// device.c --------------------------------------------------------------------------------------------------

// Returns whether ZL_BATCH_INVARIANT is set: then no row of a product, of attention or of a norm may depend
// on the rows beside it, whatever that costs. The setting is read once.
bool device_batch_invariant(void);

// Returns the device with this name or alias, opened at its first use, and stores its number of units in
// *units unless `units` is NULL. Returns NULL, with an error, if there is no such device, which lists those
// that exist, or if it has no unit that works.
const struct device *device_find(const char *name, int *units);
// Does the same for the name of a unit, such as "cuda:1", and stores the unit's index; "cuda" is unit 0.
const struct device *device_find_unit(const char *name, int *unit);
// Returns whether the unit of an open device is a GPU: it has memory of its own and is not the host's CPU.
bool device_is_gpu(const struct device *d, int unit);
// Returns whether the operating system has a device file through which GPU drivers work.
bool device_has_gpu_file(void);
// Returns the device that programs use unless they or ZL_DEVICE choose another: the first GPU, else the CPU.
// Opens devices until it finds a GPU, once per process. Returns NULL, with an error, in the child of a
// process that had opened one.
const struct device *device_standard(int *unit);
// Returns the number of rows of devices.def.
int device_count(void);
// Returns the device of a row of devices.def, or NULL if `index` is out of range. Does not open it.
const struct device *device_at(int index);
// Opens the device of a row, once, and returns its number of units, or 0 with the reason in *reason, which
// may be NULL.
int device_units(int index, const char **reason);

// unit_memory.c ---------------------------------------------------------------------------------------------

// Returns memory of a unit for work on a lane, from the cache of freed memory if some fits, and its size in
// *capacity; returns NULL, with an error, if there is none.
void *device_alloc(const struct device *d, int unit, int lane, size_t bytes, size_t *capacity);
// Gives memory of device_alloc, which work on the lane used last, to the cache, or frees it if the cache does
// not keep it.
void device_free(const struct device *d, int unit, int lane, void *memory, size_t capacity);
extern atomic_bool device_memory;
// Returns whether any unit with memory of its own has been used.
static inline bool device_has_memory(void) {
    return atomic_load_explicit(&device_memory, memory_order_relaxed);
}

// Storages on units: a storage has a copy of its values on the host, on units, or on both.

// Returns a new storage that only the unit holds, or NULL and an error.
struct storage *device_storage(const struct device *d, int unit, int lane, size_t bytes);
// Returns the unit's copy of s for work enqueued on the lane from now on, and makes it if there is none; NULL
// and an error if that fails.
void *device_reach(const struct device *d, int unit, int lane, struct storage *s);
// Returns the buffer of this form with the first elements of s, on a unit whose memory is typed, and makes it
// if there is none; NULL and an error if that fails.
void *device_reach_form(const struct device *d, int unit, struct storage *s, const struct buffer_form *form);
// Returns a storage for a buffer that the unit made, or NULL and an error. Takes over the buffer in both
// cases.
struct storage *device_adopt(const struct device *d, int unit, int lane, const struct buffer_form *form,
                             void *buffer);
// Writes the form in which the unit holds, or will hold, the base array that x is a view of, with at most
// ndim + 1 axes. x has a storage. Returns the number of axes.
int device_form(const struct device *d, int unit, zl_array x, zl_dtype *dtype, int64_t *dim,
                struct form_bound *bound);
// Returns the device that alone has the values of s, or NULL if the host has them.
const struct device *device_home(const struct storage *s);
// Makes the host's copy of s; returns false, with an error, if that fails.
bool device_fetch(struct storage *s);
// Writes the first bytes of s, which only units hold, straight to `out`; returns false, with an error, if
// that fails.
bool device_download(struct storage *s, void *out, size_t bytes);
// Prepares s, which nothing else refers to, to be written by work on the lane: drops its other copies.
// Returns false if the unit has no copy and cannot make one.
bool device_claim(const struct device *d, int unit, int lane, struct storage *s);
// Records that the work which writes s has been enqueued on the lane, and clears its finding. Does nothing if
// the unit has no copy of s.
void device_publish(const struct device *d, int unit, int lane, struct storage *s);
// Returns a word in which a device may keep a fact about the values of s on the unit, cleared when they are
// written anew, or NULL and an error.
_Atomic uint64_t *device_finding(const struct device *d, int unit, int lane, struct storage *s);
// Waits until s holds its values; returns false, with an error, if the work that makes them failed.
bool device_settle(struct storage *s);

// Returns the lane of a new stream; lanes are given in turn.
int device_lane(const struct device *d, int unit);

// Points in the order of a lane's work.

// Returns the point after all work enqueued on the lane so far.
uint64_t device_point(const struct device *d, int unit, int lane);
// Makes the next point differ from the last one, unless nothing was enqueued in between.
bool device_mark(const struct device *d, int unit, int lane);
// Waits until the work before a point is done; returns false, with an error, if it failed.
bool device_wait(const struct device *d, int unit, uint64_t point);

// Returns whether a fork made this process after the device was opened and its driver does not survive forks:
// nothing on the device can be used or released then.
bool device_is_lost(const struct device *d);
// Returns true if the device can be used, or false and an error if it is lost.
bool device_check(const struct device *d);

// pinned_memory.c -------------------------------------------------------------------------------------------

// Pinned (page-locked) memory of the host, for copies of what a unit holds, from a bounded cache.
struct pinned_block;
// Returns a block of at least `bytes`, for device_pinned_give, or NULL, without an error, if none is
// available: ordinary memory serves as well.
struct pinned_block *device_pinned_take(const struct device *d, int unit, size_t bytes);
// Returns the address of the block's memory.
void *device_pinned_address(const struct pinned_block *r);
// Returns a block to the cache, from any thread. Nothing may read or write it any more.
void device_pinned_give(void *block);
// Frees the blocks that are in the cache.
void device_pinned_clear(void);

// disk_cache.c ----------------------------------------------------------------------------------------------

// An entry of the cache that compiled kernels share between processes.
struct cache_entry {
    const char *key;  // 64 hexadecimal digits
    const char *file; // its main file, "kernel.*", whose contents are checked when the entry is found again
    // writes the entry's files, all named "kernel.*", into an empty folder
    bool (*make)(const char *folder, void *context);
    void *(*use)(const char *path, void *context);   // loads the main file
    void *context;
};
// Finds or makes an entry and returns what `use` made of it, or NULL and an error. If `use` fails with a file
// that was found, the entry is made anew. Files that are not named "kernel.*" are never removed.
void *device_cache_use(const struct cache_entry *entry);

// counter.c -------------------------------------------------------------------------------------------------

// Counts of what happened, for tests and zl_counter().
enum counter {
#define COUNTER(NAME, text) COUNTER_##NAME,
#include "device/counters.def"
    COUNTER_COUNT
};
extern atomic_llong counter_values[];
static inline int64_t counter_value(enum counter which) {
    return atomic_load_explicit(&counter_values[which], memory_order_relaxed);
}
// Adds `by` to a counter, from any thread.
void counter_add(enum counter which, int64_t by);
// Does the same at less cost, for counters that are only changed under one lock.
static inline void counter_add_alone(enum counter which, int64_t by) {
    atomic_store_explicit(&counter_values[which], counter_value(which) + by, memory_order_relaxed);
}

#endif
