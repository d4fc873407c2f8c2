// cuda_queue.c - the work enqueued on a lane of a GPU, in order: submitted to the driver at once, or recorded
// and submitted as CUDA graphs.
//
// Memory is reused as soon as the host has released it, so no later work may overtake recorded work. A thread
// that enqueues work on the lane in any other way first submits the recorded commands.

#include "device/cuda/cuda_queue.h"

#include <stdio.h>
#include <string.h>

enum {
    WARM = 3,     // runs of a program before its commands are recorded
    PIECES = 64,  // lists of commands of a run that may become graphs
    STEADY = 256, // library calls of a run for which `fresh` is counted
    CHANGES = 8,
};

// What is known of a program that runs repeatedly, and its graphs.
struct hot {
    int runs;
    uint8_t fresh[STEADY]; // how often a library call had new arguments; from CHANGES on it is submitted by
                           // itself
    struct cuda_graph_of piece[PIECES];
};

static struct queue {
    struct lock lock;
    const void *owner; // the thread whose program is recorded, or NULL
    bool pauses;       // recording is suspended
    struct hot *hot;   // of the recorded program
    int pieces, works; // of this run so far
    int first_work;    // number of the list's first library call
    cuda_stream spare; // a stream for capturing library calls
    struct map hots;   // program -> struct hot
    struct cuda_repeat *repeats;
    char failure[256];
    struct cuda_list *list; // commands that are not submitted yet; NULL: nothing was recorded so far
} queues[CUDA_DEVICES][CUDA_LANES];

static _Thread_local char self; // its address identifies the thread

static int place_of(const struct queue *q) {
    return (int)(((const char *)q - (const char *)queues) / (ptrdiff_t)sizeof *q);
}

static int unit_of(const struct queue *q) {
    return place_of(q) / CUDA_LANES;
}

static int lane_of(const struct queue *q) {
    return place_of(q) % CUDA_LANES;
}

// Giving ----------------------------------------------------------------------------------------------------

void cuda_command_arguments(const struct cuda_command *c, const char *data, void **argument) {
    const uint16_t *place = (const uint16_t *)(const void *)(data + c->at);
    for (int i = 0; i < c->arguments; i++)
        argument[i] = (void *)(uintptr_t)(data + c->at + place[i]);
}

bool cuda_command_give(const struct cuda_command *c, const char *data, cuda_stream s) {
    void *argument[CUDA_ARGUMENTS];
    if (!c->f) {
        int failed = c->run(data + c->at, s);
        return !failed || error_false(ZL_ERROR_DEVICE, "cuda: %s failed with code %d", c->name, failed);
    }
    cuda_command_arguments(c, data, argument);
    return cuda_check(
        cuda_api()->cuLaunchKernel(c->f, c->groups, 1, 1, c->threads, 1, 1, c->shared, s, argument, NULL),
        "cuLaunchKernel");
}

static bool has_spare(struct queue *q) {
    return q->spare || !cuda_api()->cuStreamCreate(&q->spare, 1);
}

// Submits one command by itself. Under the lock.
static bool give_now(struct queue *q, cuda_stream s, const struct cuda_command *c, const char *data) {
    return (setting_flag(SETTING_GRAPHS) && !cuda_profile_uses_events() && has_spare(q) &&
            cuda_repeat_give(&q->repeats, c, data, s, q->spare)) ||
           cuda_command_give(c, data, s);
}

static bool give(struct queue *q, cuda_stream s, const struct cuda_command *c, const char *data) {
    if (!profile_is_on())
        return give_now(q, s, c, data);
    struct cuda_timing timing = cuda_profile_open(unit_of(q), lane_of(q), 1, c);
    bool good = give_now(q, s, c, data);
    cuda_profile_close(unit_of(q), lane_of(q), timing);
    return good;
}

// Keeps the first failure for whoever asks next (cuda_queue_good): the arrays concerned have already been
// returned to the caller.
static void note_failure(struct queue *q) {
    if (!q->failure[0])
        snprintf(q->failure, sizeof q->failure, "%s", zl_error());
}

// Submits the recorded list. Under the lock.
static void flush(struct queue *q, cuda_stream s) {
    int fresh = -1;
    if (!q->list || !q->list->count)
        return;
    struct cuda_timing timing = {.event = -1};
    if (profile_is_on())
        timing = cuda_profile_open(unit_of(q), lane_of(q), q->list->count, q->list->command);
    struct cuda_graph_of *g = q->hot && q->pieces < PIECES ? &q->hot->piece[q->pieces++] : NULL;
    if (!g || !cuda_graph_run(g, q->list, s, q->spare, &fresh)) {
        bool had_error = zl_error(), good = true;
        for (int i = 0; good && i < q->list->count; i++)
            good = q->list->count == 1 ? give_now(q, s, q->list->command, q->list->data)
                                       : cuda_command_give(&q->list->command[i], q->list->data, s);
        if (!good)
            note_failure(q);
        if (!had_error)
            zl_clear_error();
    }
    cuda_profile_close(unit_of(q), lane_of(q), timing);
    if (fresh >= 0 && q->first_work + fresh < STEADY)
        q->hot->fresh[q->first_work + fresh]++;
    q->list->count = q->list->bytes = q->list->ranges = 0;
}

void cuda_queue_flush(int unit, int lane) {
    struct cuda_device *d = cuda_device(unit);
    struct queue *q = &queues[unit][lane];
    if (!d)
        return;
    lock_take(&q->lock);
    flush(q, d->stream[lane]);
    lock_give(&q->lock);
}

bool cuda_queue_good(int unit, int lane) {
    struct queue *q = &queues[unit][lane];
    lock_take(&q->lock);
    bool good = !q->failure[0] || error_false(ZL_ERROR_DEVICE, "%s", q->failure);
    q->failure[0] = 0;
    lock_give(&q->lock);
    return good;
}

// Writing down ----------------------------------------------------------------------------------------------

// Adds a command to the list, and reserves space for its data and ranges. Returns NULL if the list is full.
static struct cuda_command *add(struct cuda_list *l, const struct cuda_command *like) {
    if (l->count == CUDA_LIST || l->bytes + like->bytes + 16 > CUDA_LIST_BYTES ||
        l->ranges + like->ranges > CUDA_RANGES)
        return NULL;
    struct cuda_command *c = &l->command[l->count++];
    *c = *like;
    c->at = l->bytes;
    c->range = l->ranges;
    l->bytes += (like->bytes + 15) & ~15;
    l->ranges += like->ranges;
    return c;
}

static size_t room_of(int arguments, const struct kernel_argument *argument) {
    size_t bytes = (sizeof(uint16_t) * (size_t)arguments + 7) & ~(size_t)7;
    for (int i = 0; i < arguments; i++)
        bytes += (argument[i].bytes + 7) & ~(size_t)7;
    return bytes;
}

// Copies a value to its `room` bytes, and sets the rest to zero. Nearly all values have one of two sizes, for
// which the copy is inlined.
static void put_value(char *to, size_t room, const void *value, size_t bytes) {
    if (bytes == 8) {
        memcpy(to, value, 8);
    } else if (bytes == 4) {
        memset(to, 0, 8);
        memcpy(to, value, 4);
    } else {
        memset(to, 0, room);
        memcpy(to, value, bytes);
    }
}

static void put_arguments(char *data, int arguments, const struct kernel_argument *argument) {
    size_t at = (sizeof(uint16_t) * (size_t)arguments + 7) & ~(size_t)7;
    uint16_t *place = (uint16_t *)(void *)data;
    if (at)
        memset(data + at - 8, 0, 8); // padding is compared too
    for (int i = 0; i < arguments; i++) {
        size_t room = (argument[i].bytes + 7) & ~(size_t)7;
        place[i] = (uint16_t)at;
        put_value(data + at, room, argument[i].value, argument[i].bytes);
        at += room;
    }
}

static struct cuda_command *add_flushed(struct queue *q, cuda_stream s, const struct cuda_command *like) {
    struct cuda_command *c = add(q->list, like);
    if (!c) {
        flush(q, s);
        c = add(q->list, like);
    }
    if (q->list->count == 1)
        q->first_work = q->works;
    return c;
}

// Returns whether commands of this thread are recorded.
static bool is_written(const struct queue *q) {
    return q->owner == &self && !q->pauses;
}

// Lists the memory ranges that a launch touches, and returns their number. `range` has room for one per
// argument.
static int list_ranges(int arguments, const struct kernel_argument *argument, struct cuda_range *range) {
    int ranges = 0;
    for (int i = 0; i < arguments; i++) {
        const struct kernel_argument *a = &argument[i];
        uintptr_t begin = a->access == KERNEL_VALUE ? 0 : *(const uintptr_t *)a->value;
        if (a->access != KERNEL_VALUE && a->reach == KERNEL_ANY)
            range[ranges++] = (struct cuda_range){0, UINTPTR_MAX, true};
        else if (a->access != KERNEL_VALUE)
            range[ranges++] = (struct cuda_range){begin, begin + a->reach, a->access == KERNEL_WRITTEN};
    }
    return ranges;
}

static struct cuda_command launch_of(const struct kernel_function *f, int64_t groups, int arguments,
                                     size_t bytes) {
    return (struct cuda_command){.f = f->handle,
                                 .groups = (uint32_t)groups,
                                 .threads = (uint32_t)f->threads,
                                 .shared = (uint32_t)f->shared,
                                 .arguments = arguments,
                                 .bytes = (int32_t)bytes,
                                 .work = profile_work};
}

// Records a command, or, if it is not to be recorded, submits the list and then the command.
static bool enqueue(struct queue *q, cuda_stream s, const struct cuda_command *c, bool written,
                    const char *data, const struct cuda_range *range) {
    if (!written) {
        flush(q, s);
        return give(q, s, c, data);
    }
    const struct cuda_command *place = add_flushed(q, s, c);
    memcpy(q->list->data + place->at, data, (size_t)c->bytes);
    memcpy(&q->list->range[place->range], range, sizeof *range * (size_t)c->ranges);
    return true;
}

bool cuda_queue_launch(int unit, int lane, const struct kernel_function *f, int64_t groups, int arguments,
                       const struct kernel_argument *argument) {
    struct cuda_device *d = cuda_device(unit);
    struct queue *q = &queues[unit][lane];
    _Alignas(16) char data[CUDA_LAUNCH_BYTES];
    struct cuda_range range[CUDA_ARGUMENTS];
    size_t bytes = room_of(arguments, argument);
    if (!d)
        return false;
    if (groups > INT32_MAX)
        return error_false(ZL_ERROR_DEVICE, "cuda: a launch has %lld blocks, more than %d", (long long)groups,
                           INT32_MAX);
    if (bytes > sizeof data)
        return error_false(ZL_ERROR_DEVICE, "cuda: a launch has %zu bytes of arguments, more than %zu", bytes,
                           sizeof data);
    put_arguments(data, arguments, argument);
    lock_take(&q->lock);
    struct cuda_command c = launch_of(f, groups, arguments, bytes);
    bool written = is_written(q);
    if (written)
        c.ranges = list_ranges(arguments, argument, range);
    bool good = enqueue(q, d->stream[lane], &c, written, data, range);
    lock_give(&q->lock);
    return good;
}

// Returns whether the next library work is recorded into a graph. Work that differs from run to run is not.
static bool work_is_written(const struct queue *q) {
    return is_written(q) && q->works < STEADY && q->hot->fresh[q->works] < CHANGES;
}

static bool enqueue_work(int unit, int lane, const struct cuda_library_work *work) {
    struct cuda_device *d = cuda_device(unit);
    struct queue *q = &queues[unit][lane];
    struct cuda_command c = {.run = work->run,
                             .name = work->name,
                             .bytes = (int32_t)work->bytes,
                             .ranges = work->ranges,
                             .work = profile_work};
    if (!d)
        return false;
    lock_take(&q->lock);
    bool good = enqueue(q, d->stream[lane], &c, work_is_written(q), work->data, work->range);
    q->works += is_written(q);
    lock_give(&q->lock);
    return good;
}

bool cuda_queue_work(int unit, int lane, const struct cuda_library_work *work) {
    if (!profile_is_on())
        return enqueue_work(unit, lane, work);
    struct profile_record r;
    cuda_profile_record(unit, lane, work->name, &r);
    for (int i = 0; i < work->ranges; i++)
        *(work->range[i].is_written ? &r.written : &r.read) +=
            (float)(work->range[i].end - work->range[i].begin);
    struct profile_work before = profile_open_launch(&r, false);
    bool good = enqueue_work(unit, lane, work);
    profile_close_launch(&r, NULL, before);
    return good;
}

// Programs --------------------------------------------------------------------------------------------------

static struct hot *find_hot(struct queue *q, const struct program *p) {
    struct hot *hot = map_get(&q->hots, &p, sizeof p);
    if (hot || !(hot = memory_zero(sizeof *hot)))
        return hot;
    if (map_set(&q->hots, &p, sizeof p, hot))
        return hot;
    memory_free(hot);
    return NULL;
}

static void begin(struct queue *q, const struct program *p) {
    bool had_error = zl_error();
    struct hot *hot = find_hot(q, p);
    if (!hot && !had_error)
        zl_clear_error(); // the program runs without recording
    if (!hot || hot->runs++ < WARM)
        return;
    if ((!q->list && !(q->list = memory_zero(sizeof *q->list + CUDA_LIST_BYTES))) || !has_spare(q))
        return;
    q->owner = &self;
    q->hot = hot;
    q->pieces = q->works = 0;
}

void cuda_queue_begin(int unit, int lane, const struct program *p) {
    struct queue *q = &queues[unit][lane];
    if (p->steps.count < 2 || !setting_flag(SETTING_GRAPHS) || !cuda_device(unit) ||
        cuda_profile_uses_events())
        return;
    lock_take(&q->lock);
    if (!q->owner)
        begin(q, p);
    lock_give(&q->lock);
}

void cuda_queue_end(int unit, int lane) {
    struct cuda_device *d = cuda_device(unit);
    struct queue *q = &queues[unit][lane];
    lock_take(&q->lock);
    if (q->owner == &self) {
        if (d)
            flush(q, d->stream[lane]);
        q->owner = NULL;
        q->hot = NULL;
        q->pauses = false;
    }
    lock_give(&q->lock);
}

void cuda_queue_pause(int unit, int lane, bool pauses) {
    struct cuda_device *d = cuda_device(unit);
    struct queue *q = &queues[unit][lane];
    if (!d)
        return;
    lock_take(&q->lock);
    flush(q, d->stream[lane]);
    if (q->owner == &self)
        q->pauses = pauses;
    lock_give(&q->lock);
}

static void forget(struct queue *q, const struct program *p) {
    lock_take(&q->lock);
    struct hot *hot = q->hots.count ? map_get(&q->hots, &p, sizeof p) : NULL;
    if (hot)
        map_set(&q->hots, &p, sizeof p, NULL);
    lock_give(&q->lock);
    for (int i = 0; hot && i < PIECES; i++)
        cuda_graph_free(&hot->piece[i]);
    memory_free(hot);
}

void cuda_queue_forget(const struct program *p) {
    for (int unit = 0; unit < CUDA_DEVICES; unit++)
        for (int lane = 0; lane < CUDA_LANES; lane++)
            forget(&queues[unit][lane], p);
}
