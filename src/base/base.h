// base.h - the basics that every stage may use: errors, memory, arenas, slabs, maps, text, files, threads,
// libraries, settings.
//
// Nothing here depends on arrays or kernels. There is one section per file, which is that file's contract.

#ifndef BASE_H
#define BASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zellige.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define LIKELY(x)    __builtin_expect(!!(x), 1)
#define UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define HOT          __attribute__((flatten)) // inlines all functions of its file that it calls

// error.c ---------------------------------------------------------------------------------------------------

// Records the thread's first error: its kind and a message ("zl_matmul: inner sizes differ: ..."). Returns
// NULL, so that a function returning a handle can say `return error_set(...)`. Later errors are dropped until
// zl_clear_error().
void *error_set(zl_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *error_set_list(zl_error_kind kind, const char *format, va_list list);

// Does the same for functions that return bool.
#define error_false(...) (error_set(__VA_ARGS__), false)

// Puts "function: " before the thread's error, unless that begins with the name of a public function
// ("zl_...: "). Public functions call it when they fail and there was no error before, since the functions
// that they use do not know the caller.
void error_name(const char *function);

// Takes the thread's error away, to move it to another thread. Returns its message, which the caller frees
// with memory_free, and sets *kind. Without an error, it returns NULL and *kind is ZL_ERROR_NONE; if memory
// for the message runs out, it returns NULL and *kind is ZL_ERROR_MEMORY.
char *error_take(zl_error_kind *kind);
// Records such a pair as the thread's error; does nothing if kind is ZL_ERROR_NONE.
void  error_put(zl_error_kind kind, const char *message);

// memory.c --------------------------------------------------------------------------------------------------

// Return memory, as malloc does; zeroed memory, as calloc does; resized memory, as realloc does. 0 bytes get
// an address too. They return NULL, with ZL_ERROR_MEMORY, if memory runs out or memory_fail_at makes them
// fail.
void *memory_alloc(size_t bytes);
void *memory_zero(size_t bytes);
void *memory_resize(void *old, size_t bytes);
// Frees memory of these functions. NULL is ignored.
void  memory_free(void *data);
// Returns a copy of the text, which memory_free frees, or NULL and an error.
char *memory_copy_text(const char *text);

// Returns a block for array data, aligned to at least 64 bytes, or NULL and an error. Blocks of 2 MiB and
// more are aligned to huge pages and request them. bytes may be 0.
void *memory_alloc_pages(size_t bytes);
// Frees such a block, given its size. NULL is ignored.
void  memory_free_pages(void *data, size_t bytes);

// Makes the at-th allocation from now on fail, once (1: the next); 0 switches this off. For fault injection.
void memory_fail_at(long at);
// Returns the number of allocations since then, so that a test knows when it has passed the last one. They
// are not counted while fault injection is off.
long memory_allocations(void);

// Grows *items_pointer (cap items of `size` bytes) to hold at least `need`, and sets *cap. Returns false,
// with an error and without a change, if memory runs out.
bool memory_grow(void *items_pointer, int *cap, int need, size_t size);

// arena.c ---------------------------------------------------------------------------------------------------

// Memory that is freed all at once. Zero-initialised arenas are ready to use.
struct arena {
    struct arena_block *block;
    size_t used;
};
// Returns zeroed memory, aligned to 16 bytes, or NULL and an error.
void *arena_alloc(struct arena *arena, size_t bytes);
// Returns a formatted text in the arena, or NULL and an error.
char *arena_text(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Frees all memory of the arena, which is empty afterwards.
void  arena_free(struct arena *arena);

// slab.c ----------------------------------------------------------------------------------------------------

// Small objects of up to SLAB_LARGEST bytes come from per-thread slabs, without a lock: allocating and
// freeing take some 5 ns each. An object that another thread frees goes back through an atomic list of its
// owner. A thread that ends leaves its slabs to the next thread that starts. Larger sizes go to memory_alloc.
enum { SLAB_LARGEST = 1024 };
// Returns memory aligned to 16 bytes, not zeroed, or NULL and an error.
void *slab_alloc(size_t bytes);
// Frees memory of slab_alloc, which was called with this number of bytes.
void  slab_free(void *data, size_t bytes);
// Returns the number of objects alive in all threads. It is exact if no other thread is allocating.
size_t slab_live(void);

// map.c -----------------------------------------------------------------------------------------------------

// Hash map from byte strings to pointers. Keys are copied. Zero-initialised maps are empty. A map whose keys
// come from outside, such as names in files, needs the seed hash_secret(): otherwise keys chosen to have the
// same hash make it as slow as a list.
struct map {
    struct map_entry *entry;
    int cap, count;
    uint64_t seed; // set while it is empty
};
// Returns a hash of the bytes; equal bytes have equal hashes for the same seed.
uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);
// Returns a random seed, the same as long as the process lives.
uint64_t hash_secret(void);
// Returns the value of a key, or NULL.
void *map_get(const struct map *map, const void *key, size_t bytes);
// Sets the value of a key; NULL removes the key. Returns false, with an error, if memory runs out.
bool  map_set(struct map *map, const void *key, size_t bytes, void *value);
// Calls `visit` for each key, in no particular order.
void  map_each(const struct map *map, void (*visit)(const void *key, size_t bytes, void *value, void *data),
               void *data);
// Frees the keys and the table, but not the values. The map is empty afterwards.
void  map_free(struct map *map);

// Writes the SHA-256 as 64 hexadecimal digits and a NUL to `out`, which holds 65 bytes. It names cached
// files.
void hash_sha256(const void *data, size_t bytes, char *out);

// text.c ----------------------------------------------------------------------------------------------------

// A growing string. Zero-initialised texts are empty. If memory runs out, `failed` is set, with an error, and
// later calls append nothing.
struct text {
    char *data; // NUL-terminated once anything was added
    int len, cap;
    bool failed;
};
// Appends formatted text.
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_list(struct text *text, const char *format, va_list list);
// Appends len bytes.
void text_bytes(struct text *text, const char *data, int len);
// Appends the value as a JSON string, quoted and escaped; NULL as null.
void text_json(struct text *text, const char *value);
// Returns how many bytes the UTF-8 character at `at` has, or 1 if it is not complete. Messages quote such a
// character as a whole.
int text_character(const char *at);
// Returns the string, which the caller frees with memory_free, or NULL if the text failed. The text is empty
// afterwards.
char *text_take(struct text *text);
// Frees the string. The text is empty afterwards.
void text_free(struct text *text);

// file.c ----------------------------------------------------------------------------------------------------

// Reads a whole file and sets *bytes, which may be NULL. A NUL follows the data. The caller frees the result
// with memory_free. Returns NULL, with an error that names the path, if that fails.
char *file_read(const char *path, size_t *bytes);
// Reads a file of at most `most` bytes likewise. A larger one is refused with ZL_ERROR_MEMORY, before memory
// for it is allocated where its size is known.
char *file_read_most(const char *path, size_t most, size_t *bytes);

// Writes a whole file. This is how every file of the project is replaced: a temporary file in the same folder
// is written and renamed, so that readers see the old file or the new one, and maps of the old one stay
// valid. A file that is replaced keeps its mode, and its owner where that is permitted; a new one follows the
// umask. Symbolic links are followed, and the file that they lead to is replaced. Returns false, with an
// error that names the path, if that fails, or if the path is no regular file or may not be written.
bool  file_write(const char *path, const void *data, size_t bytes);
struct file_part { const void *data; size_t bytes; };
// Writes a file whose contents are in memory in several parts, in the same way.
bool  file_write_parts(const char *path, const struct file_part *part, int count);

// A file that is written piece by piece, in the same way. Each function returns false, with an error that
// names the path, if it fails.
struct file_out {
    const char *path;   // must live until file_end
    struct text place;  // the file to replace, after symbolic links
    struct text beside; // the name of the temporary file
    int file;
    bool failed;
};
// Opens the temporary file. file_end must be called even if this fails.
bool file_begin(struct file_out *out, const char *path);
// Appends bytes to it.
bool file_put(struct file_out *out, const void *data, size_t bytes);
// Closes the temporary file, and renames it if `keep` and nothing failed; otherwise removes it. Returns
// whether the file has been replaced.
bool file_end(struct file_out *out, bool keep);

// Maps a file into memory, so that its bytes are read when they are touched. Returns NULL, without an error,
// if the file cannot be mapped or has fewer than `least` bytes. If the file is truncated while it is mapped,
// reading the lost part ends the process with SIGBUS.
const char *file_map(const char *path, size_t least, size_t *bytes);
// Removes the mapping of those bytes.
void file_unmap(const char *data, size_t bytes);

// pool.c ----------------------------------------------------------------------------------------------------

// Runs fn(data, part) for each part in [0, parts) on the calling thread and the workers, and returns when all
// are done. Threads that are free take the parts in order. An idle worker looks for work for at most 20 us
// and then sleeps. A call from inside one of several parts runs on that thread alone; calls from several
// threads share the workers. The first error that a part records becomes the caller's.
void pool_run(int parts, void (*fn)(void *data, int part), void *data);

// Returns whether the calling thread runs one of several parts: pool_run uses no other thread then.
bool pool_inside(void);

// Copies bytes as memcpy does, with several threads from 512 KiB on.
void pool_copy(void *to, const void *from, size_t bytes);

// Returns the number of threads that pool_run uses, the caller included: ZL_THREADS, else the CPUs that
// affinity and cgroups allow.
int  pool_threads(void);
// Sets that number, in 1..POOL_LARGEST, after waiting until the workers have finished their parts. Returns
// false, with an error, for other numbers and inside a part.
bool pool_set_threads(int count);
enum { POOL_LARGEST = 1024 };

// Waits until *word is no longer equal to value; it may also return earlier. On Linux, this is a futex.
void pool_sleep(atomic_uint *word, unsigned value);
// Signals up to `count` threads that wait for the word.
void pool_wake(atomic_uint *word, int count);

// Returns the number of CPUs that affinity and the quotas of cgroups, rounded up, leave to this process
// (cpus.c).
int pool_allowed_cpus(void);
// Returns the CPU on which the calling thread runs, or -1 if it is unknown.
int pool_this_cpu(void);
// Moves the calling thread, a worker, off that CPU if it runs there, at most once per 10 ms.
void pool_avoid_cpu(int cpu);

// A lock of one word. Taking it takes some 5 ns if no other thread wants it; otherwise the thread sleeps.
// Zero-initialised locks are open. In a child of fork(), a lock held by a thread that the child does not have
// is taken over; the data that it guards is consistent only if the lock was given to fork_guard.
struct lock {
    // 0: open; else the era in which it was taken, and in the lowest bits LOCK_TAKEN, or LOCK_WANTED if a
    // thread sleeps until it is open
    atomic_uint word;
};
enum { LOCK_TAKEN = 1, LOCK_WANTED = 2, LOCK_BITS = 2 };
extern atomic_uint fork_era; // how many forks led to this process; fork.c
// Takes a lock that lock_try did not get, and sleeps until then.
void lock_wait(struct lock *lock);
static inline bool lock_try(struct lock *lock) {
    unsigned open = 0,
             taken = atomic_load_explicit(&fork_era, memory_order_relaxed) << LOCK_BITS | LOCK_TAKEN;
    return atomic_compare_exchange_strong_explicit(&lock->word, &open, taken, memory_order_acquire,
                                                   memory_order_relaxed);
}
static inline void lock_take(struct lock *lock) {
    if (UNLIKELY(!lock_try(lock)))
        lock_wait(lock);
}
static inline void lock_give(struct lock *lock) {
    if (UNLIKELY(atomic_exchange_explicit(&lock->word, 0, memory_order_release) & LOCK_WANTED))
        pool_wake(&lock->word, 1);
}

// Adds to a word atomically, without returning its value. Compilers that check at run time whether the CPU
// has atomic additions never use the instruction without a result, for which the CPU does not wait: it saves
// 2 ns of the 45 ns of a view (Neoverse-V1, 2026-11).
static inline void word_add(atomic_ulong *word, unsigned long by) {
#if defined(__aarch64__) && !defined(__ARM_FEATURE_ATOMICS) && !defined(__SANITIZE_THREAD__)
    extern __attribute__((weak, visibility("hidden"))) bool __aarch64_have_lse_atomics; // the compiler's own
    if (LIKELY(&__aarch64_have_lse_atomics && __aarch64_have_lse_atomics)) {
        __asm__(".arch_extension lse\n\tstadd %1, %0" : "+Q"(*word) : "r"(by));
        return;
    }
#endif
    atomic_fetch_add_explicit(word, by, memory_order_relaxed);
}

// Registers a lock that is held during a fork by the thread that forks, so that the data it guards is
// consistent in the child (fork.c). Locks are registered only while the library is loaded: ZL_AT_LOAD {
// fork_guard(&lock); }
void fork_guard(struct lock *lock);
// Registers a function that is called in the child once all such locks are open; also only at load time.
void fork_call(void (*in_the_child)(void));
// Returns whether a device that was opened in that era can be used. Returns false, with an error, if the
// process has forked since, because drivers work only in the process that opened them.
bool fork_spares(const char *device, unsigned era);
#define ZL_AT_LOAD __attribute__((constructor)) static void at_load(void)

// Registers fn(data) to be called when this thread exits, the latest first. Returns false, with an error, if
// memory runs out.
bool base_thread_at_exit(void (*fn)(void *data), void *data);

// library.c -------------------------------------------------------------------------------------------------

// Opens the first of the names (NULL-terminated) that can be opened; it is never closed. Returns NULL,
// without an error, if none can be.
void *library_open(const char *const *names);
// Returns whether this process has loaded one of the names; loads none.
bool library_is_loaded(const char *const *names);
struct library_symbol { const char *name; void **address; };
// Sets the addresses of the symbols. Returns false if one is missing, and sets *missing to the first such
// name unless `missing` is NULL.
bool library_bind(void *library, const struct library_symbol *symbols, int count, const char **missing);

// process.c -------------------------------------------------------------------------------------------------

enum process_end { PROCESS_DONE, PROCESS_FAILED, PROCESS_NOT_STARTED };
// Runs a program, which is looked up in PATH, with the words of a NULL-terminated list, and appends the first
// 4 KB of its output to `output`. It is killed after 60 s. Returns PROCESS_FAILED, with an error that
// contains the output, or PROCESS_NOT_STARTED, without an error, but with *reason set to an errno.
enum process_end process_run(char *const *word, struct text *output, int *reason);
// Writes a source to a file in a new folder, calls `run` to compile it to another file there, and appends the
// contents of that file to `code`. Removes the folder. Returns false, with an error, which may begin with
// `who`, if that fails.
bool process_compile(const char *who, const struct text *source, const char *file, const char *result,
                     bool (*run)(const char *from, const char *to), struct text *code);

// setting.c -------------------------------------------------------------------------------------------------

// Every environment variable that the library reads is a row of settings.def; nothing else calls getenv.
enum setting {
#define SETTING(NAME, fallback, doc) SETTING_##NAME,
#include "base/settings.def"
    SETTING_COUNT
};
// Returns the value, or the default of its row; never NULL.
const char *setting_text(enum setting which);
// Returns whether the value is 1, true, yes or on. For a value that is no flag, warns and returns the
// default.
bool        setting_flag(enum setting which);
// Returns the value as a number, which may end in k, m or g (2^10, 2^20, 2^30). For a value that is no
// number, warns and returns the default, or 0 if that is no number either.
int64_t     setting_number(enum setting which);
// Returns the same, but `otherwise` in place of 0.
int64_t     setting_number_or(enum setting which, int64_t otherwise);
// Warns, once, that a value is not what is expected and is ignored.
void        setting_refuse(enum setting which, const char *expected);
// Returns all rows, and sets *count.
const struct setting_row { const char *name, *fallback, *doc; } *setting_rows(int *count);

// log.c -----------------------------------------------------------------------------------------------------

// Sends a line to the log callback, or to stderr, if the level is within ZL_LOG. Otherwise it costs little.
void log_line(zl_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// half.c ----------------------------------------------------------------------------------------------------

static inline uint32_t bits_of_float(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float float_of_bits(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

// Return an f16 as f32; an f32 as f16; a bf16 as f32; an f32 as bf16. They round to nearest, ties to even.
// NaN stays NaN.
float    half_to_float(uint16_t bits);
uint16_t half_from_float(float x);
float    bfloat_to_float(uint16_t bits);
uint16_t bfloat_from_float(float x);

// clock.c ---------------------------------------------------------------------------------------------------

// Returns the time of a monotonic clock in nanoseconds.
int64_t clock_ns(void);

// Reads a counter of constant rate, in a unit of the machine, which costs a fraction of clock_ns(). On a
// machine without one, or where it may stop or change its rate, clock_has_ticks is false and this is
// clock_ns().
extern bool clock_has_ticks;
static inline int64_t clock_ticks(void) {
#if defined(__aarch64__)
    int64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#elif defined(__x86_64__)
    return clock_has_ticks ? (int64_t)__builtin_ia32_rdtsc() : clock_ns();
#else
    return clock_ns();
#endif
}

#endif
