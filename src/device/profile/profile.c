// profile.c - records what runs, in blocks of memory that each thread has for itself.
//
// Only the owner writes a thread's blocks, without locks: it announces that it is writing before it checks
// whether the profile is still recorded. Whoever ends a profile waits until no thread is writing, and then
// reads all blocks.

#include "device/profile/profile.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    // Bytes of a thread's first block. Each block has twice the bytes of the one before, because fresh pages
    // cost more than the records in them.
    FIRST = 64 << 10,
    LARGEST = 2 << 20,
    IDS = 256,   // ids that a thread takes at once
    LISTS = 256, // lists of words that a thread recognises
    SAID = COUNT(((struct profile *)0)->said),
};

struct block {
    struct block *next;
    size_t bytes; // bytes of the whole block
    size_t used;  // bytes of data in use
    _Alignas(16) char data[];
};

struct thread {
    struct thread *next; // in the list of all threads
    unsigned profile;    // the profile that its blocks belong to
    bool has_ended;
    atomic_bool is_writing;
    struct block *first, *last;
    const struct profile_record *list[LISTS]; // the last record with words, by a hash of the words
    int64_t dropped;
};

atomic_uint profile_now;
_Thread_local struct profile_work profile_work;
_Thread_local bool profile_is_ending;
static PROFILE_TLS _Thread_local struct thread *mine;
static PROFILE_TLS _Thread_local struct { uint32_t last, left; } ids;

static struct lock lock; // guards everything below, except atomic variables
static struct thread *threads;
static unsigned profiles;          // number of profiles so far
static int64_t began, began_ticks; // the same moment on both clocks
static const char *said[SAID];
static atomic_uint last_id;
static atomic_size_t used;
static atomic_llong dropped; // besides those that threads count
static size_t most;

// Blocks ----------------------------------------------------------------------------------------------------

static void free_blocks(struct thread *t) {
    for (struct block *b = t->first; b;) {
        struct block *next = b->next;
        atomic_fetch_sub(&used, b->bytes);
        memory_free_pages(b, b->bytes);
        b = next;
    }
    t->first = t->last = NULL;
    memset(t->list, 0, sizeof t->list);
    t->dropped = 0;
}

static void remove_thread(struct thread *t) {
    struct thread **link = &threads;
    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    free_blocks(t);
    memory_free(t);
}

// Runs at the end of a thread. Its records stay if the current profile has yet to read them.
static void leave(void *data) {
    struct thread *t = data;
    lock_take(&lock);
    mine = NULL;
    if (t->profile == atomic_load(&profile_now))
        t->has_ended = true;
    else
        remove_thread(t);
    lock_give(&lock);
}

// Allocates without an error: a profile that lacks memory must not fail the program.
static void *alloc_quietly(void *(*alloc)(size_t bytes), size_t bytes) {
    bool had_error = zl_error();
    void *data = alloc(bytes);
    if (!data && !had_error)
        zl_clear_error();
    return data;
}

static struct thread *new_thread(void) {
    bool had_error = zl_error();
    struct thread *t = alloc_quietly(memory_alloc, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct thread){.next = threads};
    if (!base_thread_at_exit(leave, t)) {
        if (!had_error)
            zl_clear_error();
        memory_free(t);
        return NULL;
    }
    return mine = threads = t;
}

// Registers the calling thread with the current profile. Returns NULL if there is no profile, or no memory.
static struct thread *join(void) {
    lock_take(&lock);
    unsigned now = atomic_load(&profile_now);
    struct thread *t = !now ? NULL : mine ? mine : new_thread();
    if (t)
        t->profile = now;
    lock_give(&lock);
    return t;
}

static bool may_use(size_t bytes) {
    if (atomic_fetch_add(&used, bytes) + bytes <= most)
        return true;
    atomic_fetch_sub(&used, bytes);
    return false;
}

static struct block *new_block(struct thread *t) {
    size_t bytes = t->last ? MIN_OF(2 * t->last->bytes, (size_t)LARGEST) : FIRST;
    if (!may_use(bytes) && !may_use(bytes = FIRST))
        return NULL;
    struct block *b = alloc_quietly(memory_alloc_pages, bytes);
    if (!b) {
        atomic_fetch_sub(&used, bytes);
        return NULL;
    }
    *b = (struct block){.bytes = bytes};
    *(t->last ? &t->last->next : &t->first) = b;
    return t->last = b;
}

// Recording -------------------------------------------------------------------------------------------------

static size_t bytes_of(const struct profile_record *r) {
    return sizeof *r + sizeof r->word[0] * (r->has_words_of ? 1 : r->words);
}

// Returns the slot of the thread's last record with words of this hash. Programs repeat themselves, so a
// record often finds its words there already and need not store them again.
static const struct profile_record **list_of(struct thread *t, int words, const uintptr_t *word) {
    uintptr_t mix = (word[0] >> 4) + word[words / 2] * 31 + word[words - 1] * 7 + (uintptr_t)words;
    return &t->list[(mix ^ mix >> 8) % LISTS];
}

static bool has_words(const struct profile_record *r, int words, const uintptr_t *word) {
    return r && r->words == words && !memcmp(r->word, word, sizeof *word * (size_t)words);
}

static void write_record(struct thread *t, const struct profile_record *r, const uintptr_t *word) {
    const struct profile_record **list = r->words > 1 ? list_of(t, r->words, word) : NULL;
    bool is_known = list && has_words(*list, r->words, word);
    size_t bytes = sizeof *r + sizeof *word * (is_known ? 1 : r->words);
    struct block *b = t->last;
    if (UNLIKELY(!b || b->used + bytes > b->bytes - sizeof *b) && !(b = new_block(t))) {
        t->dropped++;
        return;
    }
    struct profile_record *to = (void *)(b->data + b->used);
    *to = *r;
    to->has_words_of = is_known;
    if (is_known)
        to->word[0] = (uintptr_t)(*list)->word;
    else if (r->words)
        memcpy(to->word, word, bytes - sizeof *r);
    if (list && !is_known)
        *list = to;
    b->used += bytes;
}

void profile_add(const struct profile_record *r, const uintptr_t *words) {
    unsigned now = atomic_load_explicit(&profile_now, memory_order_relaxed);
    struct thread *t = LIKELY(mine && mine->profile == now) ? mine : join();
    if (!t)
        return;
    atomic_store(&t->is_writing, true);
    if (LIKELY(atomic_load(&profile_now) == t->profile))
        write_record(t, r, words);
    atomic_store_explicit(&t->is_writing, false, memory_order_release);
}

const char *profile_keep(const char *text) {
    static struct map kept;
    bool had_error = zl_error();
    lock_take(&lock);
    char *copy = map_get(&kept, text, strlen(text) + 1);
    if (!copy && (copy = memory_copy_text(text)) && !map_set(&kept, text, strlen(text) + 1, copy)) {
        memory_free(copy);
        copy = NULL;
    }
    lock_give(&lock);
    if (!copy && !had_error)
        zl_clear_error();
    return copy;
}

void profile_compiled(const char *what, int64_t begin) {
    if (profile_is_on())
        profile_add(
            &(struct profile_record){
                .kind = PROFILE_COMPILE, .name = what, .begin = begin, .end = clock_ns()},
            NULL);
}

uint32_t profile_new_id(void) {
    if (UNLIKELY(!ids.left)) {
        ids.last = atomic_fetch_add_explicit(&last_id, IDS, memory_order_relaxed);
        ids.left = IDS;
    }
    ids.left--;
    return ++ids.last;
}

struct profile_work profile_open_launch(struct profile_record *r, bool is_tiles) {
    struct profile_work before = profile_work;
    r->id = profile_new_id();
    r->begin = clock_ticks();
    profile_work = (struct profile_work){r->id, is_tiles, r->name};
    return before;
}

void profile_close_launch(struct profile_record *r, const uintptr_t *words, struct profile_work before) {
    profile_work = before;
    r->end = clock_ticks();
    profile_add(r, words);
}

void profile_drop(int64_t count) {
    atomic_fetch_add(&dropped, count);
}

void profile_say(const char *what) {
    lock_take(&lock);
    for (int i = 0; i < SAID && said[i] != what; i++)
        if (!said[i]) {
            said[i] = what;
            break;
        }
    lock_give(&lock);
}

// Profiles --------------------------------------------------------------------------------------------------

bool profile_start(void) {
    lock_take(&lock);
    bool is_free = !atomic_load(&profile_now);
    if (is_free) {
        memset(said, 0, sizeof said);
        atomic_store(&dropped, 0);
        most = (size_t)MAX_OF(setting_number(SETTING_PROFILE_MEMORY), 0);
        began = clock_ns();
        began_ticks = clock_ticks();
        profiles += profiles == UINT32_MAX ? 2 : 1;
        atomic_store(&profile_now, profiles);
    }
    lock_give(&lock);
    return is_free ||
           error_false(ZL_ERROR_STATE, "zl_profile_begin: a profile is being recorded already: end it with "
                                       "zl_profile_end");
}

static void (*exit_function)(void);

static void run_exit_function(void) {
    if (exit_function)
        exit_function();
}

// Functions are registered with atexit, which runs the latest first.
void profile_at_exit(void (*end)(void)) {
    if (end)
        exit_function = end;
    if (exit_function)
        atexit(run_exit_function);
}

// Drops the profile in the child of a fork: it is the parent's, and the other threads do not exist here.
static void forget(void) {
    atomic_store(&profile_now, 0);
    while (threads && threads != mine)
        remove_thread(threads);
    for (struct thread *t = threads; t && t->next;)
        remove_thread(t->next);
    if (mine)
        free_blocks(mine);
}

ZL_AT_LOAD {
    fork_guard(&lock);
    fork_call(forget);
}

size_t profile_used(void) {
    return atomic_load(&used);
}

// Reading ---------------------------------------------------------------------------------------------------

// Converts a record's times to ns.
static void set_times(const struct profile *p, struct profile_record *r) {
    if (r->kind == PROFILE_TIME || r->kind == PROFILE_COMPILE)
        return;
    r->begin = p->begin + (int64_t)((double)(r->begin - began_ticks) * p->tick_ns);
    r->end = p->begin + (int64_t)((double)(r->end - began_ticks) * p->tick_ns);
}

static bool keep_span(struct profile *p, const struct profile_record *r) {
    if (!memory_grow(&p->span, &p->spans_cap, p->spans + 1, sizeof *p->span))
        return false;
    p->span[p->spans++] = (struct profile_span){.r = r, .thread = p->threads, .step = -1};
    return true;
}

static bool keep_time(struct profile *p, const struct profile_record *r) {
    if (!memory_grow(&p->time, &p->times_cap, p->times + 1, sizeof *p->time))
        return false;
    p->time[p->times++] = r;
    return true;
}

// Reads a thread's records. A step is recorded when it ends, so the launches before it wait until then to
// learn which step they belong to.
static bool read_thread(struct profile *p, struct thread *t) {
    int waiting = p->spans;
    for (struct block *b = t->first; b; b = b->next) {
        for (size_t at = 0; at < b->used;) {
            struct profile_record *r = (void *)(b->data + at);
            at += bytes_of(r);
            set_times(p, r);
            if (!(r->kind == PROFILE_TIME ? keep_time(p, r) : keep_span(p, r)))
                return false;
            for (; r->kind == PROFILE_OPS && waiting < p->spans - 1; waiting++)
                if (p->span[waiting].r->kind == PROFILE_LAUNCH)
                    p->span[waiting].step = p->spans - 1;
            waiting += r->kind == PROFILE_OPS;
        }
    }
    p->dropped += t->dropped;
    p->threads++;
    return true;
}

static int compare_times(const void *a, const void *b) {
    const struct profile_record *x = *(const struct profile_record *const *)a,
                                *y = *(const struct profile_record *const *)b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->begin > y->begin) - (x->begin < y->begin);
}

// Returns the first time of an id, or of the next id that has one.
static int find_time(const struct profile *p, uint32_t id) {
    int low = 0, high = p->times;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->time[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_times(struct profile *p) {
    if (p->times)
        qsort(p->time, (size_t)p->times, sizeof *p->time, compare_times);
    for (int i = 0; i < p->spans; i++) {
        struct profile_span *s = &p->span[i];
        if (s->r->kind != PROFILE_LAUNCH || !s->r->id)
            continue;
        s->first = find_time(p, s->r->id);
        while (s->first + s->count < p->times && p->time[s->first + s->count]->id == s->r->id)
            s->count++;
    }
}

static void wait_for_writers(void) {
    for (struct thread *t = threads; t; t = t->next)
        while (atomic_load(&t->is_writing))
            sched_yield();
}

bool profile_stop(struct profile *p) {
    *p = (struct profile){.end = clock_ns()};
    int64_t end_ticks = clock_ticks();
    lock_take(&lock);
    unsigned now = atomic_exchange(&profile_now, 0);
    bool good = now != 0;
    wait_for_writers();
    p->begin = began;
    p->tick_ns = end_ticks > began_ticks ? (double)(p->end - began) / (double)(end_ticks - began_ticks) : 1;
    p->most = most;
    p->dropped = atomic_load(&dropped);
    memcpy(p->said, said, sizeof said);
    for (struct thread *t = threads; good && t; t = t->next)
        if (t->profile == now)
            good = read_thread(p, t);
    lock_give(&lock);
    if (good && p->times)
        find_times(p);
    if (good && profile_set_costs(p))
        return true;
    if (now)
        profile_free(p);
    return false;
}

void profile_free(struct profile *p) {
    memory_free(p->span);
    memory_free(p->time);
    lock_take(&lock);
    for (struct thread *t = threads, *next; t; t = next) {
        next = t->next;
        if (t->has_ended)
            remove_thread(t);
        else
            free_blocks(t);
    }
    lock_give(&lock);
    *p = (struct profile){0};
}

void profile_add_ops(struct text *out, const struct profile_record *r) {
    for (int i = 0; i < r->words; i++)
        text_add(out, "%s%s", i ? " + " : "", ((const struct op *)profile_words(r)[i])->name);
    if (r->calls > r->words)
        text_add(out, " + %u more", r->calls - r->words);
}

bool profile_is_kernel(const struct profile_span *s) {
    return s->r->kind == PROFILE_KERNEL || (s->r->kind == PROFILE_LAUNCH && s->count > 0) ||
           (s->r->kind == PROFILE_OPS && !s->r->device->record);
}
