// base.h - what every stage may use: errors, memory, arenas, slabs, maps, text, threads, libraries, settings.
//
// Nothing here knows of arrays or kernels. One section a file; the section is that file's contract.

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
#define HOT          __attribute__((flatten)) // all that it calls in its file becomes part of it

// error.c ---------------------------------------------------------------------------------------------------

// Records the thread's first error: id and message ("zl_matmul: inner sizes differ: ..."). Returns NULL, so
// that a function returning a handle can say `return error_set(...)`; later errors are dropped until
// zl_clear_error().
void *error_set(zl_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *error_set_list(zl_error_kind kind, const char *format, va_list list);

// The same for functions that return bool.
#define error_false(...) (error_set(__VA_ARGS__), false)

// Puts "function: " before the thread's error, unless that begins with the name of a public function
// ("zl_...: "). Public functions call it when they fail and there was no error before: what they use does not
// know who called.
void error_name(const char *function);

// Moves errors between threads: takes the thread's error away (NULL if none; free with memory_free), puts one
// in. When there is no memory for the message, it is NULL and *kind is ZL_ERROR_MEMORY; error_put takes that
// pair too.
char *error_take(zl_error_kind *kind);
void  error_put(zl_error_kind kind, const char *message);

// memory.c --------------------------------------------------------------------------------------------------

// malloc and friends that record ZL_ERROR_MEMORY when they fail, and can be made to fail by a test.
void *memory_alloc(size_t bytes);
void *memory_zero(size_t bytes);
void *memory_resize(void *old, size_t bytes);
void  memory_free(void *data);
char *memory_copy_text(const char *text);

// Big or aligned blocks for array data. Blocks of 2 MiB and more ask for huge pages. bytes may be 0.
void *memory_alloc_pages(size_t bytes);
void  memory_free_pages(void *data, size_t bytes);

// Fault injection: the at-th allocation from now on (1 is the next) fails, once; 0 switches it off.
// memory_allocations() counts calls since then (not while switched off), so that a test knows when it has
// walked past the last one.
void memory_fail_at(long at);
long memory_allocations(void);

// Grows *items (cap elements of size bytes) to hold at least need; false and an error when memory is out.
bool memory_grow(void *items_pointer, int *cap, int need, size_t size);

// arena.c ---------------------------------------------------------------------------------------------------

// Memory that is freed all at once. Zero-initialised arenas are ready to use.
struct arena {
    struct arena_block *block;
    size_t used;
};
void *arena_alloc(struct arena *arena, size_t bytes); // 16-byte aligned, zeroed; NULL when memory is out
char *arena_text(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void  arena_free(struct arena *arena);

// slab.c ----------------------------------------------------------------------------------------------------

// Small objects of up to SLAB_LARGEST bytes from per-thread slabs: no lock, some 5 ns each way. An object
// freed by another thread goes back through an atomic list of its owner. A thread that ends leaves its slabs
// to the next thread that starts. Larger sizes go to memory_alloc. Not zeroed; 16-byte aligned.
enum { SLAB_LARGEST = 1024 };
void *slab_alloc(size_t bytes);
void  slab_free(void *data, size_t bytes); // bytes as given to slab_alloc
// objects alive in all threads: exact when no other thread is allocating
size_t slab_live(void);

// map.c -----------------------------------------------------------------------------------------------------

// Hash map from byte strings to pointers. Keys are copied. Zero-initialised maps are empty. A map whose keys
// come from outside, such as names in files, has the seed hash_secret(): else keys that all hash alike make
// it a list.
struct map {
    struct map_entry *entry;
    int cap, count;
    uint64_t seed; // set while it is empty
};
uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);
uint64_t hash_secret(void); // random, the same as long as the process lives
void *map_get(const struct map *map, const void *key, size_t bytes);
bool  map_set(struct map *map, const void *key, size_t bytes, void *value); // value NULL removes the key
void  map_each(const struct map *map, void (*visit)(const void *key, size_t bytes, void *value, void *data),
               void *data);
void  map_free(struct map *map);

// SHA-256 as 64 hexadecimal digits and a NUL: names of cached files. out holds 65 bytes.
void hash_sha256(const void *data, size_t bytes, char *out);

// text.c ----------------------------------------------------------------------------------------------------

// A growing string. Zero-initialised texts are empty. Out of memory sets failed and later calls do nothing;
// text_take then returns NULL.
struct text {
    char *data; // NUL-terminated once anything was added
    int len, cap;
    bool failed;
};
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_list(struct text *text, const char *format, va_list list);
void text_bytes(struct text *text, const char *data, int len);
void text_json(struct text *text, const char *value); // quoted and escaped
// Returns how many bytes the UTF-8 character at `at` has; 1 if there is no whole one. Messages quote it as
// one.
int text_character(const char *at);
char *text_take(struct text *text);                   // the caller frees it with memory_free
void text_free(struct text *text);

// file.c ----------------------------------------------------------------------------------------------------

// Reads a whole file (bytes may be NULL; a NUL follows the data). NULL with an error that names the path.
char *file_read(const char *path, size_t *bytes);
// The same for files of at most so many bytes; others are ZL_ERROR_MEMORY, before there is memory for them.
char *file_read_most(const char *path, size_t most, size_t *bytes);

// Writes a whole file. This is how every file of the project is replaced: it is written beside its place and
// renamed, so that readers see the old one or the new one and maps of the old one stay valid. A file that is
// replaced keeps its mode, and its owner where that is permitted; a new one follows the umask. Symbolic links
// are followed: what they lead to is replaced. What is no regular file, or may not be written, is refused.
// False with an error that names the path.
bool  file_write(const char *path, const void *data, size_t bytes);
// The same for a file that lies in memory in several parts.
struct file_part { const void *data; size_t bytes; };
bool  file_write_parts(const char *path, const struct file_part *part, int count);

// The same piece by piece. Each may fail, with an error that names the path; file_end is called whatever
// failed, gives the file its name if it is to be kept, and says whether it has it. path lives until then.
struct file_out {
    const char *path;
    struct text place;  // where path leads to
    struct text beside; // its name until then
    int file;
    bool failed;
};
bool file_begin(struct file_out *out, const char *path);
bool file_put(struct file_out *out, const void *data, size_t bytes);
bool file_end(struct file_out *out, bool keep);

// Returns a file's bytes as memory that is read when it is touched. NULL, without an error, where it cannot
// be mapped or has fewer than `least` bytes. Whoever cuts the file short while it is mapped ends the process
// with SIGBUS.
const char *file_map(const char *path, size_t least, size_t *bytes);
void file_unmap(const char *data, size_t bytes);

// pool.c ----------------------------------------------------------------------------------------------------

// Runs fn(data, part) for each part in [0, parts) on the calling thread and the workers, and returns when all
// are done. Parts are taken in order by whoever is free. Workers park when idle and look for work for at most
// 20 us after some. A call from inside one of several parts runs on that thread alone; calls from several
// threads share the workers. The first error that a part records becomes the caller's.
void pool_run(int parts, void (*fn)(void *data, int part), void *data);

// Returns whether the calling thread runs one of several parts: pool_run uses no other thread then.
bool pool_inside(void);

// memcpy, by several threads where there is much to copy.
void pool_copy(void *to, const void *from, size_t bytes);

// Threads that pool_run uses, the caller included: ZL_THREADS, else the CPUs that affinity and cgroups allow.
int  pool_threads(void);
bool pool_set_threads(int count); // 1..POOL_LARGEST; waits for running work; not from inside a part
enum { POOL_LARGEST = 1024 };

// Sleeps until *word is no longer equal to value (it may also wake for nothing); wakes sleepers. Futexes on
// Linux.
void pool_sleep(atomic_uint *word, unsigned value);
void pool_wake(atomic_uint *word, int count);

// cpus.c: CPUs that affinity and the quotas of cgroups, rounded up, leave to this process.
int pool_allowed_cpus(void);
int pool_this_cpu(void); // -1: unknown
void pool_avoid_cpu(int cpu); // the calling thread leaves that CPU to others

// A lock of one word: some 5 ns when nobody else wants it, sleeps when somebody does. Zero-initialised locks
// are open. In a child of fork(), one that a thread held which is not there is taken over; what it guards is
// whole if it was given to fork_guard.
struct lock {
    // 0: open; else the era in which it was taken, and in the lowest bits LOCK_TAKEN, or LOCK_WANTED:
    // somebody sleeps
    atomic_uint word;
};
enum { LOCK_TAKEN = 1, LOCK_WANTED = 2, LOCK_BITS = 2 };
extern atomic_uint fork_era; // how many forks made this process; fork.c
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

// Adds to a word that others add to; what it was before is of no interest. Where the compiler must ask the
// CPU at run time whether it has atomic additions, it never uses the one that returns nothing and is not
// waited for: 2 ns of a view's 45 (Neoverse-V1, 2026-11).
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

// fork.c: the lock is held by the thread that forks while it does, so that what it guards is whole in the
// child; the function is called in the child, when all such locks are open again. Both while the library is
// loaded: ZL_AT_LOAD { fork_guard(&lock); }
void fork_guard(struct lock *lock);
void fork_call(void (*in_the_child)(void));
// Whether a device that was opened in that era can be used: drivers work only in the process that opened
// them. False and an error.
bool fork_spares(const char *device, unsigned era);
#define ZL_AT_LOAD __attribute__((constructor)) static void at_load(void)

// A thread's end: calls fn(data) when this thread exits, latest first.
bool base_thread_at_exit(void (*fn)(void *data), void *data);

// library.c -------------------------------------------------------------------------------------------------

// Opens the first of the names (NULL-terminated) that can be; NULL with no error recorded when none can. Not
// closed.
void *library_open(const char *const *names);
bool library_is_loaded(const char *const *names); // by anybody in this process; opens none
// Looks each symbol up; false, naming the first that is missing in *missing, unless all are there.
struct library_symbol { const char *name; void **address; };
bool library_bind(void *library, const struct library_symbol *symbols, int count, const char **missing);

// process.c -------------------------------------------------------------------------------------------------

// Runs a program found by its name, with the words of a NULL-terminated list, and adds what it says to
// output. One that takes more than 60 s is ended. PROCESS_FAILED has an error with its message;
// PROCESS_NOT_STARTED has none, but sets *reason to an errno.
enum process_end { PROCESS_DONE, PROCESS_FAILED, PROCESS_NOT_STARTED };
enum process_end process_run(char *const *word, struct text *output, int *reason);
// Writes a source to a file of a new folder, has `run` compile it to another, and appends what that holds to
// code. The folder is gone afterwards. who: what errors begin with. False and an error.
bool process_compile(const char *who, const struct text *source, const char *file, const char *result,
                     bool (*run)(const char *from, const char *to), struct text *code);

// setting.c -------------------------------------------------------------------------------------------------

// Every environment variable the library reads is a row of settings.def; nothing else calls getenv.
enum setting {
#define SETTING(NAME, fallback, doc) SETTING_##NAME,
#include "base/settings.def"
    SETTING_COUNT
};
const char *setting_text(enum setting which);   // value, or the default of its row; never NULL
bool        setting_flag(enum setting which);   // 1, true, yes, on
// with k, m, g suffixes; a value that is no number is the default
int64_t     setting_number(enum setting which);
int64_t     setting_number_or(enum setting which, int64_t otherwise); // where the default is no number either
void        setting_refuse(enum setting which, const char *expected); // warns of its value, once
const struct setting_row { const char *name, *fallback, *doc; } *setting_rows(int *count);

// log.c -----------------------------------------------------------------------------------------------------

// One line to the log callback, or to stderr, when level is within ZL_LOG. Cheap when it is not.
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

// 16-bit floats, rounded to the nearest, of two the even one. NaN stays NaN.
float    half_to_float(uint16_t bits);
uint16_t half_from_float(float x);
float    bfloat_to_float(uint16_t bits);
uint16_t bfloat_from_float(float x);

// clock.c ---------------------------------------------------------------------------------------------------

int64_t clock_ns(void); // monotonic

// Reads a counter that goes on steadily and costs a fraction of clock_ns(): its unit is that of the machine.
// Where there is none, or it may stop or change its pace, it is clock_ns(), as clock_has_ticks says.
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
