// cuda.c - a libcuda.so.1 without a GPU, for tests: two devices, whose memory is the host's at other
// addresses.
//
// Work on a stream is done as late as it may be: when something waits for it. So a program that reuses memory
// too early, or forgets to wait, sees wrong values. Streams that use the same memory have to wait for each
// other, by events or by the host: work that did not is kept for fake_disorder, and a process that does not
// ask for it aborts. Kernels are texts in CUDA C, which the libnvrtc.so.13 next to this passes on; c++
// compiles them, and the threads of a block are contexts between which a barrier switches. Any function can
// be made to fail: fake_fail. FAKE_CUDA_DOWN=1: the driver does not start; FAKE_CUDA_DEVICES=0: it has no
// devices.

#include "cuda_faults.h"
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { DEVICES = 2, STREAMS = 64, ARGUMENTS = 64, ARGUMENT_BYTES = 4096, STACK = 64 << 10 };
enum {
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719
};

static const uintptr_t HIDE = (uintptr_t)1 << 60; // no address of the host has this bit
static size_t memory_of_device = (size_t)1 << 30;

static _Thread_local int current = -1;

void fake_memory(size_t bytes) {
    memory_of_device = bytes;
}

// Work ------------------------------------------------------------------------------------------------------

// For each stream, the number of its works that are known to be done before something.
struct before {
    int64_t of[STREAMS];
};

struct event {
    struct stream *stream; // NULL: not recorded
    int64_t at;            // number of the stream's works before it
    struct before before;
    bool blocks; // a thread that waits for it sleeps
};

static const struct fake_observer *observer; // NULL: none
static uint32_t call_number;                 // of the last launch, or graph

void fake_observe(const struct fake_observer *o) {
    observer = o;
}

static void tell_of_call(void) {
    call_number++;
    if (observer)
        observer->called(call_number);
}

struct function {
    struct function *next;
    char name[128];
    void *library;
    void (*call)(void **argument);
    size_t (*bytes)(int argument); // 0: there are no more arguments
    int (*access)(int argument);   // 1: memory that is read, 2: or written
    unsigned *index;               // threadIdx, blockIdx, blockDim, gridDim: three of each
    void **barrier, **subgroup;    // functions that a barrier calls, and a shuffle
    bool has_barriers;
};

struct work {
    struct work *next;
    enum { COPY, LAUNCH, WAIT } kind;
    void *to;
    const void *from;
    size_t bytes;
    struct event event;
    int node;        // node of a graph; 0: of none
    bool is_part;    // it belongs to a graph, as that node
    uint32_t number; // of the call that enqueued it
    struct function *f;
    unsigned grid[3], block[3];
    char argument[ARGUMENT_BYTES];
};

enum { GRAPH_NODES = 64 };

struct graph {
    struct work *head, *tail;
    int nodes;
    uint64_t after[GRAPH_NODES]; // by number, from 1 on: bits of the nodes that a node waits for
};

struct stream {
    struct stream *next;     // of all streams
    struct graph *capturing; // the graph that receives the stream's work; NULL: it is enqueued
    int device, number;
    int64_t asked, done;
    struct before before; // what its next work comes after
    struct work *head, *tail;
};

static struct stream standard[DEVICES] = {{.next = &standard[1]}, {.device = 1, .number = 1}},
                     *streams = standard;
static int stream_count = DEVICES;
static struct before host; // what the host has waited for

static struct stream *stream_of(struct stream *s) {
    return s ? s : &standard[current < 0 ? 0 : current];
}

static void *show(uintptr_t address) {
    return (void *)(address & ~HIDE);
}

void *fake_show(const void *memory) {
    return show((uintptr_t)memory);
}

// Order -----------------------------------------------------------------------------------------------------

// Memory that a program allocated, and the last works of each stream that used it.
struct block {
    size_t bytes;
    int device, writer; // writer: a stream
    int64_t written;    // number of the work that wrote it; 0: none did
    struct block *next;
    int64_t *read; // by stream: number of the last work that read it
    int64_t padding[3];
};
static struct block *blocks;
static char disorder[256];

const char *fake_disorder(void) {
    static char text[sizeof disorder];
    pthread_mutex_lock(&fake_lock);
    memcpy(text, disorder, sizeof text);
    disorder[0] = 0;
    pthread_mutex_unlock(&fake_lock);
    return text[0] ? text : NULL;
}

__attribute__((destructor)) static void end_in_order(void) {
    if (disorder[0]) {
        fprintf(stderr, "fake driver: %s\n", disorder);
        abort();
    }
}

static void learn(struct before *to, const struct before *from) {
    for (int i = 0; i < STREAMS; i++)
        to->of[i] = to->of[i] > from->of[i] ? to->of[i] : from->of[i];
}

// Returns all work enqueued on a stream, and everything that it comes after.
static struct before all_of(const struct stream *s) {
    struct before b = s->before;
    b.of[s->number] = s->asked;
    return b;
}

static struct block *block_at(const void *memory) {
    struct block *b = blocks;
    while (b &&
           ((const char *)memory < (char *)(b + 1) || (const char *)memory >= (char *)(b + 1) + b->bytes))
        b = b->next;
    return b;
}

static void check(const struct stream *s, bool writes, int other, int64_t work, const char *did) {
    if (work > s->before.of[other] && other != s->number && !disorder[0])
        snprintf(disorder, sizeof disorder,
                 "work %lld of stream %d %s memory that work %lld of stream %d %s, and did not wait for it",
                 (long long)s->asked, s->number, writes ? "writes" : "reads", (long long)work, other, did);
}

// Records that the last work enqueued on a stream uses memory.
static void use(struct stream *s, const void *memory, bool writes) {
    struct block *b = block_at(memory);
    if (!b)
        return;
    if (b->written)
        check(s, writes, b->writer, b->written, "wrote");
    for (int i = 0; writes && i < STREAMS; i++)
        check(s, writes, i, b->read[i], "read");
    if (writes) {
        b->writer = s->number;
        b->written = s->asked;
    } else {
        b->read[s->number] = s->asked;
    }
}

static void note_uses(struct stream *s, const struct work *w) {
    size_t at = 0;
    learn(&s->before, &host);
    if (w->kind == WAIT)
        learn(&s->before, &w->event.before);
    if (w->kind == COPY) {
        use(s, w->from, false);
        use(s, w->to, true);
    }
    for (int i = 0; w->kind == LAUNCH && w->f->call && w->f->bytes(i); i++) {
        void *memory;
        memcpy(&memory, w->argument + at, sizeof memory);
        if (w->f->access(i))
            use(s, memory, w->f->access(i) == 2);
        at += (w->f->bytes(i) + 15) & ~(size_t)15;
    }
}

static struct work *add(struct stream *s, struct work w) {
    struct work *copy = malloc(sizeof *copy), **head = s->capturing ? &s->capturing->head : &s->head,
                **tail = s->capturing ? &s->capturing->tail : &s->tail;
    *copy = w;
    copy->next = NULL;
    copy->number = call_number;
    *(*tail ? &(*tail)->next : head) = copy;
    *tail = copy;
    if (!s->capturing) {
        s->asked++;
        note_uses(s, copy);
    }
    return copy;
}

// Launching -------------------------------------------------------------------------------------------------

static ucontext_t back, *thread_context;
static char *stacks;
static struct {
    struct function *f;
    void **argument;
    enum stop { RUNS, AT_SHUFFLE, AT_BARRIER, ENDED } * stopped; // per thread
    unsigned thread;
} running;

static void stop(enum stop why) {
    running.stopped[running.thread] = why;
    swapcontext(&thread_context[running.thread], &back);
}

static void at_barrier(void) {
    stop(AT_BARRIER);
}

static void at_shuffle(void) {
    stop(AT_SHUFFLE);
}

static void thread_main(void) {
    running.f->call(running.argument);
    running.stopped[running.thread] = ENDED;
}

// Resumes those of `count` threads from `first` on that stopped for a reason, until they stop again. Returns
// how many there were.
static unsigned go_on(struct function *f, unsigned first, unsigned count, enum stop why) {
    unsigned ran = 0;
    for (unsigned i = first; i < first + count; i++)
        if (running.stopped[i] == why) {
            running.stopped[i] = RUNS;
            ran++;
        }
    for (unsigned i = first; i < first + count; i++)
        if (running.stopped[i] == RUNS) {
            running.thread = f->index[0] = i;
            swapcontext(&back, &thread_context[i]);
        }
    return ran;
}

static void run_with_barriers(struct function *f, unsigned threads) {
    unsigned left = threads;
    enum { SUBGROUP = 32 };
    thread_context = calloc(threads, sizeof *thread_context);
    stacks = malloc((size_t)threads * STACK);
    running.stopped = malloc(threads * sizeof *running.stopped);
    for (unsigned i = 0; i < threads; i++) {
        getcontext(&thread_context[i]);
        thread_context[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
        thread_context[i].uc_stack.ss_size = STACK;
        thread_context[i].uc_link = &back;
        makecontext(&thread_context[i], thread_main, 0);
        running.stopped[i] = AT_BARRIER;
    }
    while (left) { // the threads of a subgroup exchange values, while others may wait at the barrier
        left = 0;
        for (unsigned i = 0; i < threads; i += SUBGROUP) {
            unsigned count = threads - i < SUBGROUP ? threads - i : SUBGROUP;
            left += go_on(f, i, count, AT_BARRIER);
            while (go_on(f, i, count, AT_SHUFFLE))
                continue;
        }
    }
    free(running.stopped);
    free(stacks);
    free(thread_context);
}

static void run_launch(struct work *w) {
    void *argument[ARGUMENTS];
    struct function *f = w->f;
    if (!f->call)
        return;
    size_t at = 0;
    for (int i = 0; f->bytes(i); i++) {
        argument[i] = w->argument + at;
        at += (f->bytes(i) + 15) & ~(size_t)15;
    }
    running.f = f;
    running.argument = argument;
    unsigned index[12] = {0, 0, 0, 0, 0, 0, w->block[0], 1, 1, w->grid[0], w->grid[1], w->grid[2]};
    memcpy(f->index, index, sizeof index);
    *f->barrier = (void *)(uintptr_t)at_barrier;
    *f->subgroup = (void *)(uintptr_t)at_shuffle;
    for (unsigned block = 0; block < w->grid[0]; block++) {
        f->index[3] = block;
        if (f->has_barriers) {
            run_with_barriers(f, w->block[0]);
            continue;
        }
        for (unsigned i = 0; i < w->block[0]; i++) {
            f->index[0] = i;
            f->call(argument);
        }
    }
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void run_told(struct work *w) {
    uint64_t begin = now_ns();
    run_launch(w);
    if (observer)
        observer->ran(w->number, w->f->name, begin, now_ns());
}

static void run_until(struct stream *s, int64_t count) {
    while (s->done < count && s->head) {
        struct work *w = s->head;
        s->head = w->next;
        if (!s->head)
            s->tail = NULL;
        if (w->kind == COPY)
            memmove(w->to, w->from, w->bytes);
        else if (w->kind == LAUNCH)
            run_told(w);
        else if (w->event.stream)
            run_until(w->event.stream, w->event.at);
        s->done++;
        free(w);
    }
}

// Runs all work of a stream, which the host then has waited for.
static void finish(struct stream *s) {
    struct before all = all_of(s);
    run_until(s, s->asked);
    learn(&host, &all);
}

// The driver ------------------------------------------------------------------------------------------------

int cuInit(unsigned flags) {
    (void)flags;
    BEGIN("cuInit");
    return fake_end(getenv("FAKE_CUDA_DOWN") ? NO_DEVICE : 0);
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

static const char *text_of(int code) {
    return code == OUT_OF_MEMORY   ? "out of memory"
           : code == NOT_FOUND     ? "named symbol not found"
           : code == LAUNCH_FAILED ? "unspecified launch failure"
                                   : "told to fail";
}

int cuGetErrorName(int code, const char **text) {
    *text = code == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                    : "CUDA_ERROR";
    return 0;
}

int cuGetErrorString(int code, const char **text) {
    *text = text_of(code);
    return 0;
}

int cuDeviceGetCount(int *count) {
    const char *fewer = getenv("FAKE_CUDA_DEVICES");
    *count = fewer ? atoi(fewer) : DEVICES;
    return 0;
}

int cuDeviceGet(int *out, int at) {
    *out = at;
    return 0;
}

int cuDeviceGetName(char *out, int room, int d) {
    snprintf(out, (size_t)room, "Fake GPU %d", d);
    return 0;
}

int cuDeviceGetUuid(unsigned char *out, int d) { // the same as in test/fake/vulkan.c
    snprintf((char *)out, 16, "fake chip %d", d);
    return 0;
}

int cuDeviceGetAttribute(int *out, int what, int d) {
    (void)d;
    *out = what == 1 ? 1024 : what == 16 ? 4 : what == 75 ? 9 : what == 76 ? 0 : what == 97 ? 227 << 10 : 0;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int d) {
    (void)d;
    *bytes = memory_of_device;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **out, int d) {
    BEGIN("cuDevicePrimaryCtxRetain");
    *out = (void *)(uintptr_t)(d + 1);
    return fake_end(0);
}

int cuCtxSetCurrent(void *context) {
    current = (int)(uintptr_t)context - 1;
    return 0;
}

int cuStreamCreate(struct stream **out, unsigned flags) {
    (void)flags;
    BEGIN("cuStreamCreate");
    *out = calloc(1, sizeof **out);
    (*out)->device = current;
    (*out)->number = stream_count++;
    if (stream_count > STREAMS) {
        fprintf(stderr, "cuStreamCreate: more than %d streams\n", STREAMS);
        abort();
    }
    (*out)->next = streams;
    streams = *out;
    return fake_end(0);
}

int cuStreamSynchronize(struct stream *s) {
    BEGIN("cuStreamSynchronize");
    finish(stream_of(s));
    return fake_end(0);
}

int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) {
    (void)flags;
    BEGIN("cuStreamWaitEvent");
    add(stream_of(s), (struct work){.kind = WAIT, .event = *e});
    return fake_end(0);
}

int cuEventCreate(struct event **out, unsigned flags) {
    BEGIN("cuEventCreate");
    *out = calloc(1, sizeof **out);
    (*out)->blocks = flags & 1;
    return fake_end(0);
}

int cuEventRecord(struct event *e, struct stream *s) {
    BEGIN("cuEventRecord");
    s = stream_of(s);
    *e = (struct event){s, s->asked, all_of(s), e->blocks};
    return fake_end(0);
}

int cuEventSynchronize(struct event *e) {
    BEGIN("cuEventSynchronize");
    if (!e->blocks && e->stream && e->stream->done < e->at)
        fake_count("spinning");
    if (e->stream)
        run_until(e->stream, e->at);
    learn(&host, &e->before);
    return fake_end(0);
}

// Runs the stream's work, so that the next poll finds it done.
int cuStreamQuery(struct stream *s) {
    BEGIN("cuStreamQuery");
    struct stream *of = stream_of(s);
    if (of->done < of->asked) {
        run_until(of, of->asked);
        return fake_end(NOT_READY);
    }
    finish(of);
    return fake_end(0);
}

int cuEventQuery(struct event *e) {
    BEGIN("cuEventQuery");
    if (e->stream && getenv("FAKE_CUDA_IDLE")) // there is nothing to compute: it is done
        run_until(e->stream, e->at);
    if (e->stream && e->stream->done < e->at)
        return fake_end(NOT_READY);
    learn(&host, &e->before);
    return fake_end(0);
}

int cuEventElapsedTime(float *ms, struct event *a, struct event *b) {
    (void)a, (void)b;
    *ms = 1;
    return 0;
}

int cuEventDestroy_v2(struct event *e) {
    free(e);
    return 0;
}

// Memory ----------------------------------------------------------------------------------------------------

static size_t used[DEVICES];

size_t fake_used(int device) {
    return used[device];
}

int cuMemAlloc_v2(uintptr_t *out, size_t bytes) {
    BEGIN("cuMemAlloc_v2");
    if (current < 0 || used[current] + bytes > memory_of_device)
        return fake_end(current < 0 ? INVALID : OUT_OF_MEMORY);
    struct block *b = malloc(sizeof *b + bytes);
    *b = (struct block){
        .bytes = bytes, .device = current, .next = blocks, .read = calloc(STREAMS, sizeof *b->read)};
    blocks = b;
    used[current] += bytes;
    if (!getenv("FAKE_CUDA_IDLE"))
        memset(b + 1, 0xa5, bytes);
    *out = (uintptr_t)(b + 1) | HIDE;
    return fake_end(0);
}

// Like the driver, waits for all work of the device.
int cuMemFree_v2(uintptr_t memory) {
    BEGIN("cuMemFree_v2");
    struct block *b = (struct block *)show(memory) - 1;
    for (struct stream *s = streams; s; s = s->next)
        finish(s);
    struct block **link = &blocks;
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
    used[b->device] -= b->bytes;
    free(b->read);
    free(b);
    return fake_end(0);
}

enum { PINNED = 2048 };
static uintptr_t pinned[PINNED];
static size_t pinned_bytes[PINNED]; // 0: the entry is free

static int pinned_at(const void *host) { // PINNED: it is not pinned
    int at = 0;
    while (at < PINNED && (uintptr_t)host - pinned[at] >= pinned_bytes[at])
        at++;
    return at;
}

static bool is_pinned(const void *host) {
    return pinned_at(host) < PINNED;
}

static int pin(const void *memory, size_t bytes) {
    int at = 0;
    while (at < PINNED && pinned_bytes[at])
        at++;
    if (!memory || at == PINNED)
        return OUT_OF_MEMORY;
    pinned[at] = (uintptr_t)memory;
    pinned_bytes[at] = bytes;
    return 0;
}

int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    BEGIN("cuMemHostAlloc");
    return fake_end(pin(*out = malloc(bytes), bytes));
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    (void)flags;
    BEGIN("cuMemHostRegister_v2");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return fake_end((uintptr_t)memory % page || bytes % page || is_pinned(memory) ? INVALID
                                                                                  : pin(memory, bytes));
}

int cuMemHostUnregister(void *memory) {
    BEGIN("cuMemHostUnregister");
    if (!is_pinned(memory))
        return fake_end(INVALID);
    pinned_bytes[pinned_at(memory)] = 0;
    return fake_end(0);
}

int cuMemFreeHost(void *memory) {
    int failed = cuMemHostUnregister(memory);
    free(failed ? NULL : memory);
    return failed;
}

// Host memory that is not pinned is read, or written, before the call returns.
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, struct stream *s) {
    BEGIN("cuMemcpyHtoDAsync_v2");
    s = stream_of(s);
    if (!is_pinned(from))
        finish(s);
    add(s, (struct work){.kind = COPY, .to = show(to), .from = from, .bytes = bytes});
    if (!is_pinned(from))
        finish(s);
    return fake_end(0);
}

int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, struct stream *s) {
    BEGIN("cuMemcpyDtoHAsync_v2");
    s = stream_of(s);
    add(s, (struct work){.kind = COPY, .to = to, .from = show(from), .bytes = bytes});
    if (!is_pinned(to))
        finish(s);
    return fake_end(0);
}

int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, struct stream *s) {
    BEGIN("cuMemcpyDtoDAsync_v2");
    add(stream_of(s), (struct work){.kind = COPY, .to = show(to), .from = show(from), .bytes = bytes});
    return fake_end(0);
}

int cuPointerGetAttribute(void *out, int what, uintptr_t memory) {
    (void)what;
    *(unsigned *)out = 2;
    return memory & HIDE ? 0 : INVALID;
}

// Kernels ---------------------------------------------------------------------------------------------------

struct module {
    char *text;
    struct module *next; // of all modules that were ever loaded
};
static struct module *modules;

int cuModuleLoadData(struct module **out, const void *code) {
    BEGIN("cuModuleLoadData");
    *out = malloc(sizeof **out);
    (*out)->text = strdup(code);
    (*out)->next = modules;
    modules = *out;
    return fake_end(0);
}

int cuModuleUnload(struct module *m) {
    BEGIN("cuModuleUnload");
    free(m->text);
    m->text = NULL;
    return fake_end(0);
}

// Returns whether a text uses shuffles, besides defining them.
static bool has_shuffles(const char *text) {
    static const char word[] = "ZL_SHUFFLE_", define[] = "#define ";
    for (const char *at = text; (at = strstr(at, word)); at++)
        if (at - text < (long)strlen(define) || strncmp(at - strlen(define), define, strlen(define)) != 0)
            return true;
    return false;
}

int cuModuleGetFunction(struct function **out, struct module *m, const char *name) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, " %s(", name);
    BEGIN("cuModuleGetFunction");
    if (!strstr(m->text, wanted))
        return fake_end(NOT_FOUND);
    static struct function *all; // never freed, since a program may unload a module before its work has run
    struct function *f = calloc(1, sizeof *f);
    f->next = all;
    all = f;
    snprintf(f->name, sizeof f->name, "%s", name);
    if (!getenv("FAKE_CUDA_IDLE") && (f->library = fake_compile(m->text, name))) {
        f->call = (void (*)(void **))(uintptr_t)dlsym(f->library, "fake_run");
        f->bytes = (size_t(*)(int))(uintptr_t)dlsym(f->library, "fake_bytes");
        f->access = (int (*)(int))(uintptr_t)dlsym(f->library, "fake_access");
        f->index = dlsym(f->library, "fake_place");
        f->barrier = dlsym(f->library, "fake_barrier");
        f->subgroup = dlsym(f->library, "fake_subgroup");
        f->has_barriers =
            strstr(m->text, "BARRIER;") || strstr(m->text, "__syncthreads();") || has_shuffles(m->text);
    }
    *out = f;
    return fake_end(0);
}

int cuFuncSetAttribute(struct function *f, int what, int value) {
    (void)f, (void)what, (void)value;
    BEGIN("cuFuncSetAttribute");
    return fake_end(0);
}

int cuFuncGetParamInfo(struct function *f, size_t i, size_t *at, size_t *bytes) {
    BEGIN("cuFuncGetParamInfo");
    *at = 0;
    *bytes = f->call ? f->bytes((int)i) : 0;
    return fake_end(*bytes ? 0 : INVALID);
}

// Copies a kernel's arguments. Kernels get host addresses: a number with this bit, and no higher one, is an
// address of ours.
static void put_arguments(struct work *w, void **argument) {
    size_t at = 0;
    for (int i = 0; w->f->call && w->f->bytes(i); i++) {
        size_t bytes = w->f->bytes(i);
        uintptr_t address = 0;
        memcpy(w->argument + at, argument[i], bytes);
        memcpy(&address, argument[i], bytes < sizeof address ? bytes : sizeof address);
        if (bytes == sizeof address && address >> 60 == 1) {
            address &= ~HIDE;
            memcpy(w->argument + at, &address, sizeof address);
        }
        at += (bytes + 15) & ~(size_t)15;
    }
}

int cuLaunchKernel(struct function *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, struct stream *s, void **argument,
                   void **extra) {
    (void)shared, (void)extra;
    BEGIN("cuLaunchKernel");
    if (!grid_x || !block_x || block_x > 1024)
        return fake_end(INVALID);
    if (!f->call)
        return fake_end(0);
    struct work w = {
        .kind = LAUNCH, .f = f, .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}};
    put_arguments(&w, argument);
    tell_of_call();
    add(stream_of(s), w);
    return fake_end(0);
}

// Graphs ----------------------------------------------------------------------------------------------------

int cuStreamBeginCapture_v2(struct stream *s, int mode) {
    (void)mode;
    BEGIN("cuStreamBeginCapture_v2");
    s->capturing = calloc(1, sizeof *s->capturing);
    return fake_end(0);
}

int cuStreamEndCapture(struct stream *s, struct graph **out) {
    BEGIN("cuStreamEndCapture");
    *out = s->capturing;
    s->capturing = NULL;
    return fake_end(*out ? 0 : INVALID);
}

int cuGraphCreate(struct graph **out, unsigned flags) {
    (void)flags;
    BEGIN("cuGraphCreate");
    *out = calloc(1, sizeof **out);
    return fake_end(0);
}

struct node_launch {
    struct function *f;
    unsigned grid[3], block[3], shared;
    void **argument, **extra;
    void *kernel, *context;
};

static struct work launch_of(const struct node_launch *l) {
    struct work w = {.kind = LAUNCH, .f = l->f, .grid = {l->grid[0], 1, 1}, .block = {l->block[0], 1, 1}};
    put_arguments(&w, l->argument);
    return w;
}

struct node {
    struct graph *graph; // NULL: the graph was destroyed
    int number;
    struct node *next; // of all nodes
};
static struct node *nodes;

static uintptr_t new_node(struct graph *g, int number) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){g, number, nodes};
    nodes = n;
    return (uintptr_t)n;
}

// Returns the number of a new node, or 0.
static int number_node(struct graph *g, const uintptr_t *after, size_t count) {
    uint64_t before = 0;
    if (g->nodes + 1 == GRAPH_NODES)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct node *n = (const struct node *)after[i];
        if (n->graph != g)
            return 0;
        before |= (uint64_t)1 << n->number;
    }
    g->after[++g->nodes] = before;
    return g->nodes;
}

int cuGraphAddKernelNode_v2(uintptr_t *out, struct graph *g, const uintptr_t *after, size_t count,
                            const struct node_launch *l) {
    BEGIN("cuGraphAddKernelNode_v2");
    struct stream s = {.capturing = g};
    struct work w = launch_of(l);
    if (!(w.node = number_node(g, after, count)))
        return fake_end(INVALID);
    add(&s, w);
    *out = new_node(g, w.node);
    return fake_end(0);
}

int cuGraphAddChildGraphNode(uintptr_t *out, struct graph *g, const uintptr_t *after, size_t count,
                             struct graph *child) {
    BEGIN("cuGraphAddChildGraphNode");
    struct stream s = {.capturing = g};
    int node = number_node(g, after, count);
    for (struct work *w = node ? child->head : NULL; w; w = w->next) {
        struct work *copy = add(&s, *w);
        copy->node = node;
        copy->is_part = true;
    }
    *out = new_node(g, node);
    return fake_end(node ? 0 : INVALID);
}

// The graph of a node must still exist: real drivers would write to freed memory.
int cuGraphExecKernelNodeSetParams_v2(struct graph *g, uintptr_t node, const struct node_launch *l) {
    BEGIN("cuGraphExecKernelNodeSetParams_v2");
    const struct node *n = (const struct node *)node;
    if (!n->graph) {
        fprintf(stderr, "cuGraphExecKernelNodeSetParams: a node of a graph that was destroyed\n");
        abort();
    }
    for (struct work *w = g->head; w; w = w->next)
        if (w->node == n->number && !w->is_part) {
            struct work *next = w->next;
            *w = launch_of(l);
            w->node = n->number;
            w->next = next;
            return fake_end(0);
        }
    return fake_end(INVALID);
}

int cuGraphInstantiateWithFlags(struct graph **out, struct graph *g, unsigned long long flags) {
    (void)flags;
    BEGIN("cuGraphInstantiateWithFlags");
    struct stream copy = {.capturing = *out = calloc(1, sizeof **out)};
    (*out)->nodes = g->nodes;
    memcpy((*out)->after, g->after, sizeof g->after);
    for (struct work *w = g->head; w; w = w->next)
        add(&copy, *w);
    return fake_end(0);
}

// Returns whether the work can run: an idle driver has no code loaded.
static bool has_code(const struct work *w) {
    return w->kind != LAUNCH || w->f->call;
}

static void run_node(const struct graph *g, int node, struct stream *s) {
    for (struct work *w = g->head; w; w = w->next)
        if (w->node == node && has_code(w))
            add(s, *w);
}

static int64_t overtaken;

int64_t fake_overtaken(void) {
    return overtaken;
}

// Returns the last of the nodes that wait for nothing any more, so that a program that needs an order has to
// state it.
static int next_node(const struct graph *g, uint64_t done) {
    int node = g->nodes;
    while (node && ((done >> node & 1) || (g->after[node] & ~done)))
        node--;
    return node;
}

int cuGraphLaunch(struct graph *g, struct stream *s) {
    BEGIN("cuGraphLaunch");
    uint64_t done = 0;
    tell_of_call();
    run_node(g, 0, stream_of(s));
    if (g->head && !has_code(g->head))
        return fake_end(0);
    for (int node; (node = next_node(g, done)) != 0; done |= (uint64_t)1 << node) {
        overtaken += done >> node != 0;
        run_node(g, node, stream_of(s));
    }
    return fake_end(0);
}

int cuGraphDestroy(struct graph *g) {
    BEGIN("cuGraphDestroy");
    for (struct node *n = nodes; n; n = n->next)
        if (n->graph == g)
            n->graph = NULL;
    for (struct work *w = g->head, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(g);
    return fake_end(0);
}

int cuGraphExecDestroy(struct graph *g) {
    return cuGraphDestroy(g);
}
