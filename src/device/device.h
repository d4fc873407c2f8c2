// device.h - all that a device is to the rest of the system.
//
// The schedule cuts a graph into segments (calls of one stream on one unit, in order), asks the device to build each
// into a program, once per structure, and to run it as often as sizes and data come along.

#ifndef DEVICE_H
#define DEVICE_H

#include "op/op.h"
#include "zellige_tile.h"

struct program;

// A maximal run of calls of one stream, in order. What build may rely on is what the plan's key holds: ops,
// arguments, dtypes, ranks, links. Extents and scalars are bound at each run.
struct segment {
    int calls;
    struct call *const *call;
    const uint8_t *needed; // per call: an output is read after the segment, so it must be stored
};

enum { DEVICE_LANES = 4, DEVICE_CHIP_ID = 16 };

struct device {
    const char *name;
    const char *alias; // another name by which it is found; NULL: none
    // Its programs depend on sizes, strides and arguments: these are part of a plan's key, but for offsets, arguments of views, and starts and
    // stops of updates, which may be others at each run. put and get are there.
    bool is_static;
    int  (*open)(const char **reason);              // units there are; 0 with the reason
    // The same without taking the units from other processes, for lists of devices; NULL: open takes nothing. describe has to do with that.
    int  (*count)(const char **reason);
    bool (*describe)(int unit, zl_device_info *out);
    // Whether the machine has hardware that could be a GPU of this device, found out without its driver, which is opened for the choice of
    // the default device only if so. NULL: the driver tells at little cost.
    bool (*has_hardware)(void);
    // Of a driver: 16 bytes that name the unit's chip, the same for every driver that reaches it. False: not known. NULL: never.
    bool (*chip)(int unit, unsigned char id[DEVICE_CHIP_ID]);
    bool (*is_host)(int unit); // of a driver: whether the unit is the host's CPU, asked without starting it; NULL: none is
    bool (*can)(int unit, const struct call *c);    // placement: op, dtypes, rank
    struct program *(*build)(int unit, const struct segment *s); // NULL and an error
    void (*drop)(struct program *p);
    // Of how many calls, from index on, a program of the segment makes one kernel; adds to why what keeps it from more.
    // NULL: of one each.
    int (*fuses)(int unit, const struct program *p, const struct segment *s, int index, struct text *why);
    // Begins in the background what the first run of a program would wait for: called without the planning lock, for the programs of an
    // evaluation but the first, before any of them runs. What they read of each other is not there yet. NULL: nothing takes long.
    void (*prepare)(int unit, struct program *p, const struct segment *s);
    void (*run)(int unit, struct program *p, struct binding *b); // failures go to binding.fail, call by call
    // Memory of the unit, if it has its own; all NULL: it reads and writes that of the host. A lane of a unit does what it is
    // asked for in order. copy returns when the host's side may be used again. alloc gives NULL, with or without an error;
    // free waits for all that the unit was asked for.
    bool (*copy)(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host);
    void *(*alloc)(int unit, size_t bytes);
    void (*free)(int unit, void *memory);
    // Memory of the unit that is typed and never written again, instead of copy and alloc: put makes a buffer of a form of what lies at
    // `from`, which may be used again when it returns, and get writes one there; free lets it go. NULL, or false, and an error.
    void *(*put)(int unit, const struct buffer_form *form, const void *from);
    bool (*get)(int unit, void *buffer, const struct buffer_form *form, void *to);
    // Makes a copy of another unit's buffer on this one, without the host. NULL and an error. NULL: the host takes part.
    void *(*carry)(int unit, void *buffer);
    // Pins pages of the host, so that the unit's copies to them need nothing else, and lets go of them; pin returns false, with or without
    // an error, if it cannot. receive is copy to such pages. All NULL: there is no such memory.
    bool (*pin)(int unit, void *pages, size_t bytes);
    void (*unpin)(int unit, void *pages);
    bool (*receive)(int unit, int lane, void *pages, const void *from, size_t bytes);
    // Marks all that the lane was asked for so far in one of its 64 places, and blocks until what is marked there is done;
    // false and an error also when the unit fails. NULL: run returns when all is done.
    bool (*record)(int unit, int lane, int place);
    bool (*wait)(int unit, int lane, int place);
    // Whether all that the lane was asked for could be given to it; false and an error, told once. NULL: run says so itself.
    bool (*good)(int unit, int lane);
    // Lanes of a unit, whose work may overlap, up to DEVICE_LANES; 0: it has one, and neither of these. What a lane is asked for
    // from now on comes after what is marked in a place of another one; and whether what is marked there is done. Neither waits.
    int lanes;
    bool reads_aside; // copy to the host, and follow, take the lane DEVICE_LANES too, which does nothing but such copies
    bool (*follow)(int unit, int lane, int other, int place);
    bool (*done)(int unit, int lane, int place);
    // lib<name>.so of a version, of the vendor, for who works on the unit beside the device, as libraries of collectives do; the unit becomes
    // that of the calling thread. NULL: it is not there, or an error. NULL for all: there are none.
    void *(*library)(int unit, const char *name, int version);
    // Reports when the launches ran that a profile recorded and of which this is not known yet (profile.h). NULL: nothing can tell.
    void (*profile_end)(void);
    // Describes the index-th way in which it runs ops other than by their tile kernels; false past the last. NULL: there is none.
    bool (*override)(int index, zl_kernel_override *out);
};

static inline bool device_is_apart(const struct device *d) { // it has memory of its own
    return d->alloc || d->put;
}

// device.c -------------------------------------------------------------------------------------------------------

// Whether ZL_BATCH_INVARIANT is set: no row of a product, of attention or of a norm may depend on the rows beside it, whatever that
// costs. Read once.
bool device_batch_invariant(void);

// Devices are opened when first asked for. NULL and an error that lists what there is.
const struct device *device_find(const char *name, int *units);
const struct device *device_find_unit(const char *name, int *unit); // "cuda:1"; "cuda" is its first
// Whether the unit of an open device is a GPU: it has memory of its own, and is not the host's CPU.
bool device_is_gpu(const struct device *d, int unit);
bool device_has_gpu_file(void); // whether the kernel has a file through which drivers of GPUs work
// The device that programs run on unless they or ZL_DEVICE say otherwise: the first GPU, else the CPU. Opens devices until there is a GPU,
// once per process. NULL and an error in the child of a process that opened it.
const struct device *device_standard(int *unit);
int device_count(void);
const struct device *device_at(int index);
int device_units(int index, const char **reason); // opens it

// unit_memory.c --------------------------------------------------------------------------------------------------

// Memory of a unit for work of a lane, used again when it was freed. NULL and an error.
void *device_alloc(const struct device *d, int unit, int lane, size_t bytes, size_t *capacity);
void device_free(const struct device *d, int unit, int lane, void *memory, size_t capacity);
extern atomic_bool device_memory;
static inline bool device_has_memory(void) { // some unit with memory of its own was used
    return atomic_load_explicit(&device_memory, memory_order_relaxed);
}

// Storages on units. A new one that only the unit holds; NULL and an error.
struct storage *device_storage(const struct device *d, int unit, int lane, size_t bytes);
// The unit's copy of s, made if there is none, for what the lane is asked for from now on; NULL and an error.
void *device_reach(const struct device *d, int unit, int lane, struct storage *s);
// Of a unit whose memory is typed. The unit's buffer of this form that holds the first elements of s, made if there is none; NULL and an error. A
// storage of a buffer that the unit made, which it takes over, also if it fails: NULL and an error.
void *device_reach_form(const struct device *d, int unit, struct storage *s, const struct buffer_form *form);
struct storage *device_adopt(const struct device *d, int unit, int lane, const struct buffer_form *form, void *buffer);
// The form by which the unit holds what an array with a storage is a view of, or will hold it: at most ndim + 1 axes. Returns their number.
int device_form(const struct device *d, int unit, zl_array x, zl_dtype *dtype, int64_t *dim, struct form_room *room);
const struct device *device_home(const struct storage *s); // the device that alone has its values; NULL: the host has them
bool device_fetch(struct storage *s); // makes the host's copy; false and an error
// The first bytes of s, which only units hold, straight to where they are wanted; false and an error.
bool device_download(struct storage *s, void *out, size_t bytes);
// s, which nothing else refers to, will be written by the lane: its other copies go. False: it has none there, nor can have.
bool device_claim(const struct device *d, int unit, int lane, struct storage *s);
void device_publish(const struct device *d, int unit, int lane, struct storage *s); // what writes s has been asked for
// Where a device may keep what it found to hold of the values on the unit, until they are written anew; NULL and an error.
_Atomic uint64_t *device_finding(const struct device *d, int unit, int lane, struct storage *s);
bool device_settle(struct storage *s); // waits until s holds its values; false and an error

int device_lane(const struct device *d, int unit); // of a new stream: lanes are given in turn

// Points in the order of a lane's work.
uint64_t device_point(const struct device *d, int unit, int lane); // after all that was asked for so far
bool device_mark(const struct device *d, int unit, int lane); // so that the next point is another one, if the last is not fresh
bool device_wait(const struct device *d, int unit, uint64_t point);

// Whether a fork made this process after the device was opened, if its driver does not live through that: nothing on it can be
// used or released. The second also records an error.
bool device_is_lost(const struct device *d);
bool device_check(const struct device *d);

// host_room.c ----------------------------------------------------------------------------------------------------

// Page-locked memory for the host's copy of what a unit holds, from a bounded cache. NULL without an error: ordinary memory serves.
struct room;
struct room *device_room_take(const struct device *d, int unit, size_t bytes);
void *device_room_memory(const struct room *r);
void device_room_give(void *room); // nothing reads or writes it any more; any thread
void device_rooms_clear(void);     // frees those that are not in use

// disk_cache.c ---------------------------------------------------------------------------------------------------

// A file that is made once: `make` writes into an empty folder what entry `key` (64 hexadecimal digits) is to hold, of
// which `file` is checked when it is found again. Its files are called "kernel.*": others are never removed. Calls
// use(path of file, context), again if it failed with what was found; returns its result, or NULL and an error.
struct cache_entry {
    const char *key, *file;
    bool (*make)(const char *folder, void *context);
    void *(*use)(const char *path, void *context);
    void *context;
};
void *device_cache_use(const struct cache_entry *entry);

// counter.c ------------------------------------------------------------------------------------------------------

// What happened, for tests and zl_counter().
enum counter {
#define COUNTER(NAME, text) COUNTER_##NAME,
#include "device/counters.def"
    COUNTER_COUNT
};
extern atomic_llong counter_values[];
static inline int64_t counter_value(enum counter which) {
    return atomic_load_explicit(&counter_values[which], memory_order_relaxed);
}
void counter_add(enum counter which, int64_t by);
// Cheaper: for counts that only holders of one lock change.
static inline void counter_add_alone(enum counter which, int64_t by) {
    atomic_store_explicit(&counter_values[which], counter_value(which) + by, memory_order_relaxed);
}

#endif
