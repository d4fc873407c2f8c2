// cuda_profile.c - finds out with CUPTI when the kernels of a profile ran.
//
// CUPTI is NVIDIA's library for profilers. It sees kernels inside graphs too, and does not keep kernels from
// overlapping. While a thread submits work, it sets a number that CUPTI links to the kernels of that work;
// for a list of commands, that number is the id of its first launch. The kernels of a list are told apart by
// their names, which are those of tile kernels, and by their order.

#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_queue.h"
#include "device/profile/profile.h"

#include <stdlib.h>
#include <string.h>

enum { // values from CUPTI's header
    DRIVER_CALLS = 4,
    RUNTIME_CALLS = 5,
    KERNELS = 10,
    LINKS = 39,
    OUR_KIND = 3, // of links between kernels and numbers
    FORCED = 1,
    BUFFER = 1 << 20,
};

// The part of CUPTI's records that all versions since CUDA 9 have in common.
struct kernel_activity {
    uint32_t kind, unused[3];
    uint64_t begin, end, unused_end;
    uint32_t device, context, stream, sizes[10], correlation;
    uint64_t grid;
    const char *name;
};
_Static_assert(offsetof(struct kernel_activity, begin) == 16 &&
                   offsetof(struct kernel_activity, correlation) == 92 &&
                   offsetof(struct kernel_activity, name) == 104,
               "not the layout of CUPTI");
struct link_activity {
    uint32_t kind, link_kind;
    uint64_t number;
    uint32_t correlation, unused;
};

typedef void buffer_wanted(uint8_t **buffer, size_t *bytes, size_t *most);
typedef void buffer_full(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);

// name in the library, parameters; all return 0 for success
#define CUPTI_FUNCTIONS(F)                                                          \
    F(cuptiActivityRegisterCallbacks, (buffer_wanted * wanted, buffer_full * full)) \
    F(cuptiActivityEnable, (int kind))                                              \
    F(cuptiActivityDisable, (int kind))                                             \
    F(cuptiActivityFlushAll, (uint32_t how))                                        \
    F(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record))  \
    F(cuptiActivityPushExternalCorrelationId, (int kind, uint64_t number))          \
    F(cuptiActivityPopExternalCorrelationId, (int kind, uint64_t *number))          \
    F(cuptiGetTimestamp, (uint64_t * ns))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    CUPTI_FUNCTIONS(MEMBER)
#undef MEMBER
} api;

// ran: a kernel that ran. link: the correlation number by which CUPTI links kernels to a list. given: a
// launch that a list submitted.
struct ran {
    uint64_t begin, end;
    uint32_t correlation, list; // list: its number, once it is known
    const char *name;
};
struct link {
    uint32_t correlation, list;
};
struct given {
    uint32_t list;
    int at; // position in the list
    bool is_used;
    struct profile_work work;
};

// Held while CUPTI is opened and set up. CUPTI may deliver buffers meanwhile, so `lock` has to be free then.
static struct lock starting;
static bool was_tried, is_there;

static atomic_uint profile; // the profile whose kernels are traced; 0: none
static atomic_uint evented; // the last profile that was timed by events instead
static struct lock lock;    // guards everything below
static size_t room;         // bytes that the lists below may still use
static struct {
    int count, cap;
    struct ran *item;
} ran;
static struct {
    int count, cap;
    struct link *item;
} links;
static struct {
    int count, cap;
    struct given *item;
} given;
static struct {
    int64_t host;
    uint64_t device;
} began; // the same moment on both clocks

static const int kinds[] = {LINKS, DRIVER_CALLS, RUNTIME_CALLS, KERNELS};

// What CUPTI brings -----------------------------------------------------------------------------------------

static void want_buffer(uint8_t **buffer, size_t *bytes, size_t *most) {
    *buffer = malloc(BUFFER); // aligned to 8 bytes at least; CUPTI drops records if it is NULL
    *bytes = *buffer ? BUFFER : 0;
    *most = 0;
}

// Returns whether a list can take one more item. If not, the item is counted as dropped. Under the lock.
static bool has_room(void *items, int *cap, int count, size_t size) {
    if (LIKELY(count < *cap && room >= size)) {
        room -= size;
        return true;
    }
    bool had_error = zl_error();
    bool fits = room >= size && memory_grow(items, cap, count + 1, size);
    if (fits)
        room -= size;
    else
        profile_drop(1);
    if (!fits && !had_error)
        zl_clear_error();
    return fits;
}

static void keep_record(const void *record) {
    const struct kernel_activity *k = record;
    const struct link_activity *l = record;
    if (k->kind == KERNELS && has_room(&ran.item, &ran.cap, ran.count, sizeof *ran.item))
        ran.item[ran.count++] = (struct ran){k->begin, k->end, k->correlation, 0, k->name};
    if (l->kind == LINKS && l->link_kind == OUR_KIND &&
        has_room(&links.item, &links.cap, links.count, sizeof *links.item))
        links.item[links.count++] = (struct link){l->correlation, (uint32_t)l->number};
}

// Takes a full buffer back from CUPTI and keeps its records. Runs on a thread of CUPTI, or on one that
// flushes.
static void take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    void *record = NULL;
    (void)context, (void)stream, (void)bytes;
    lock_take(&lock);
    while (atomic_load(&profile) && !api.cuptiActivityGetNextRecord(buffer, valid, &record))
        keep_record(record);
    lock_give(&lock);
    free(buffer);
}

// Beginning -------------------------------------------------------------------------------------------------

static bool open_library(void) {
    static const int versions[CUDA_VERSIONS] = {13, 12};
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {CUPTI_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    void *library = cuda_library("cupti", versions);
    return library && library_bind(library, symbols, COUNT(symbols), NULL) &&
           !api.cuptiActivityRegisterCallbacks(want_buffer, take_buffer);
}

// Reads both clocks three times and keeps the closest pair.
static void read_clocks(int64_t *host, uint64_t *device) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t now = 0;
        int64_t before = clock_ns();
        bool good = !api.cuptiGetTimestamp(&now);
        int64_t took = clock_ns() - before;
        if (good && took < best) {
            best = took;
            *host = before + took / 2;
            *device = now;
        }
    }
}

static void disable(size_t count) {
    for (size_t i = 0; i < count; i++)
        api.cuptiActivityDisable(kinds[i]);
}

static bool enable(void) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (api.cuptiActivityEnable(kinds[i])) {
            disable(i);
            return false;
        }
    return true;
}

// Begins to trace, at the first launch of a profile.
static void begin(unsigned now) {
    static const char none[] = "cuda: libcupti, which times kernels in graphs, is not here: launches were "
                               "given one by one, between events. It is part of the "
                               "CUDA toolkit, and of the package nvidia-cuda-cupti";
    static const char busy[] = "cuda: CUPTI refuses to time kernels, as it does while another profiler uses "
                               "it: launches were given one "
                               "by one, between events";
    if (!was_tried) {
        is_there = open_library();
        was_tried = true;
        profile_at_exit(NULL); // so that profiles end before the driver is shut down
    }
    if (!is_there || !enable()) {
        profile_say(is_there ? busy : none);
        atomic_store(&evented, now);
        return;
    }
    lock_take(&lock);
    room = (size_t)MAX_OF(setting_number(SETTING_PROFILE_MEMORY), 0);
    read_clocks(&began.host, &began.device);
    lock_give(&lock);
    atomic_store(&profile, now);
}

static void begin_once(void) {
    static unsigned tried; // the last profile that was begun, or could not be begun
    unsigned now = atomic_load(&profile_now);
    lock_take(&starting);
    if (now && now != tried)
        begin(now);
    tried = now;
    lock_give(&starting);
}

// Giving ----------------------------------------------------------------------------------------------------

void cuda_profile_record(int unit, int lane, const char *name, struct profile_record *r) {
    extern const struct device device_cuda;
    *r = (struct profile_record){.kind = PROFILE_LAUNCH,
                                 .unit = (uint8_t)unit,
                                 .lane = (uint8_t)lane,
                                 .device = &device_cuda,
                                 .name = name};
}

bool cuda_profile_uses_events(void) {
    unsigned now = atomic_load(&profile_now);
    if (now && atomic_load(&profile) != now && atomic_load(&evented) != now)
        begin_once();
    return now && atomic_load(&evented) == now;
}

// Keeps the commands of a list. Returns the list's number, or 0 if none of them is profiled.
static uint32_t keep_list(int count, const struct cuda_command *command) {
    uint32_t list = 0;
    lock_take(&lock);
    for (int i = 0; atomic_load(&profile) && i < count; i++) {
        if (!command[i].work.id || !has_room(&given.item, &given.cap, given.count, sizeof *given.item))
            continue;
        list = list ? list : command[i].work.id;
        given.item[given.count++] = (struct given){.list = list, .at = i, .work = command[i].work};
    }
    lock_give(&lock);
    return list;
}

struct cuda_timing cuda_profile_open(int unit, int lane, int count, const struct cuda_command *command) {
    struct cuda_timing timing = {.event = -1};
    if (cuda_profile_uses_events()) {
        if (count == 1 && command->work.id)
            timing.event = cuda_events_open(unit, lane, command->work.id);
        return timing;
    }
    uint32_t list = keep_list(count, command);
    timing.is_linked = list && !api.cuptiActivityPushExternalCorrelationId(OUR_KIND, list);
    return timing;
}

void cuda_profile_close(int unit, int lane, struct cuda_timing timing) {
    uint64_t number;
    if (timing.is_linked)
        api.cuptiActivityPopExternalCorrelationId(OUR_KIND, &number);
    if (timing.event >= 0)
        cuda_events_close(unit, lane, timing.event);
}

// Ending ----------------------------------------------------------------------------------------------------

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_links(const void *a, const void *b) {
    const struct link *x = a, *y = b;
    return compare(x->correlation, y->correlation);
}

static int compare_ran(const void *a, const void *b) {
    const struct ran *x = a, *y = b;
    return x->list != y->list ? compare(x->list, y->list) : compare(x->begin, y->begin);
}

static int compare_given(const void *a, const void *b) {
    const struct given *x = a, *y = b;
    return x->list != y->list ? compare(x->list, y->list) : compare((uint64_t)x->at, (uint64_t)y->at);
}

// Sorts a list. An empty one has no memory, which qsort must not be given.
static void sort(void *item, int count, size_t size, int (*compare_items)(const void *a, const void *b)) {
    if (count)
        qsort(item, (size_t)count, size, compare_items);
}

static void find_lists(void) {
    sort(links.item, links.count, sizeof *links.item, compare_links);
    for (int i = 0; i < ran.count; i++) {
        struct link wanted = {ran.item[i].correlation, 0};
        const struct link *found =
            links.count ? bsearch(&wanted, links.item, (size_t)links.count, sizeof wanted, compare_links)
                        : NULL;
        ran.item[i].list = found ? found->list : 0;
    }
    sort(ran.item, ran.count, sizeof *ran.item, compare_ran);
    sort(given.item, given.count, sizeof *given.item, compare_given);
}

// Returns whether the driver's name for a kernel is that of a grid of the tile kernel that was launched.
static bool has_name(const struct given *g, const char *name) {
    size_t len = strlen(g->work.name);
    return g->work.is_tiles && name && !strncmp(name, g->work.name, len) && name[len] == '_';
}

// Finds the launch that a kernel run `r` of the driver's trace belongs to. A tile kernel belongs to the first
// launch of its name that has no run yet. A kernel of a library belongs to the next library call, or still to
// the last one if a tile kernel comes next. Returns NULL if it cannot be told.
static struct given *find_given(struct given *first, int count, struct given *last, const struct ran *r) {
    struct given *end = first + count, *next = NULL, *library = NULL;
    for (struct given *g = first; g < end; g++)
        if (!g->is_used && has_name(g, r->name))
            return g;
    for (struct given *g = first; g < end; g++) {
        next = !next && !g->is_used ? g : next;
        library = !library && !g->is_used && !g->work.is_tiles ? g : library;
    }
    struct given *before = last && !last->work.is_tiles ? last : NULL;
    bool goes_on = before && (!next || next->work.is_tiles);
    return goes_on || !library ? before : library;
}

static int64_t host_time(uint64_t device, int64_t host_end, uint64_t device_end) {
    double rate =
        device_end > began.device ? (double)(host_end - began.host) / (double)(device_end - began.device) : 1;
    return began.host + (int64_t)((double)(int64_t)(device - began.device) * rate);
}

static void report(const struct ran *r, const struct given *g, int64_t host_end, uint64_t device_end) {
    int64_t first = host_time(r->begin, host_end, device_end);
    profile_add(&(struct profile_record){.kind = PROFILE_TIME,
                                         .id = g->work.id,
                                         .begin = first,
                                         .end = first + (int64_t)(r->end - r->begin),
                                         .name = r->name},
                NULL);
}

static void report_all(void) {
    int64_t host_end = began.host;
    uint64_t device_end = began.device;
    read_clocks(&host_end, &device_end);
    find_lists();
    int from = 0;
    for (int i = 0; i < ran.count;) {
        uint32_t list = ran.item[i].list;
        while (from < given.count && given.item[from].list < list)
            from++;
        int count = 0;
        while (from + count < given.count && given.item[from + count].list == list)
            count++;
        struct given *last = NULL;
        for (; i < ran.count && ran.item[i].list == list; i++) {
            struct given *g = count ? find_given(&given.item[from], count, last, &ran.item[i]) : NULL;
            if (!g)
                continue;
            g->is_used = true;
            last = g;
            report(&ran.item[i], g, host_end, device_end);
        }
    }
}

static void forget(void) {
    memory_free(ran.item);
    memory_free(links.item);
    memory_free(given.item);
    memset(&ran, 0, sizeof ran);
    memset(&links, 0, sizeof links);
    memset(&given, 0, sizeof given);
    atomic_store(&profile, 0);
}

void cuda_profile_end(void) {
    cuda_events_end();
    bool is_on = atomic_load(&profile) != 0;
    if (is_on) {
        api.cuptiActivityFlushAll(FORCED); // calls take_buffer for the rest
        disable(COUNT(kinds));
    }
    lock_take(&lock);
    if (is_on)
        report_all();
    forget();
    lock_give(&lock);
}

ZL_AT_LOAD {
    fork_guard(&lock);
    fork_guard(&starting);
    fork_call(forget);
}
