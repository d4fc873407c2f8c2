// vulkan_queue.c - orders a device's work: commands, barriers between those that need them, and batches on
// one timeline semaphore.
//
// All streams share the device's one queue. Their work may still overlap, because there is no barrier between
// commands that have no memory in common. Submission n sets the timeline to n, so a value stands for all work
// enqueued before it. Nothing ever waits for a value that was not submitted.

#include "device/vulkan/vulkan.h"

#include "device/profile/profile.h"
#include "render/spirv/spirv.h"

#include <stdio.h>
#include <string.h>

enum {
    BATCHES = 16,     // in flight; with more, the host waits for the oldest
    COMMANDS = 50,    // the most commands of a batch
    RANGES = 256,     // ranges that are remembered since the last barrier; with more, a barrier is added
    RING = 16 << 20,  // bytes of memory that the host writes and commands of a batch read
    PIECE = 4 << 20,  // bytes that a copy moves at once, in either direction
    BACK = 2 * PIECE, // bytes of memory that the host reads
    DIRECT = 4096,    // most bytes that the host reads directly from memory that it does not cache
    STAGES = VK_STAGE_COMPUTE | VK_STAGE_COPY,
};
static const uint64_t batch_bytes = (uint64_t)256 << 20; // bytes that a batch accesses before it is submitted
static const uint64_t back_place = (uint64_t)1 << 63;    // stands for `back` among ranges

struct range {
    uint64_t begin, end;
    bool is_written;
};

struct batch {
    vk_handle pool, set_pool;
    vk_commands commands;
    uint64_t value;    // 0: it was never submitted
    uint64_t ring_end; // the end of the ring space that its commands read
};

static struct queue {
    struct lock lock;                 // guards everything except the next two
    struct lock read_lock, time_lock; // guard `back`, and `clock`
    vk_handle timeline;               // 0: nothing was made yet
    struct batch batch[BATCHES];
    bool is_recording;
    int commands;    // commands of the open batch
    uint64_t bytes;  // bytes that they access
    vk_handle bound; // pipeline
    uint64_t submitted;
    atomic_ullong done; // a value that the timeline is known to have reached
    int ranges;
    struct range range[RANGES];
    struct vulkan_buffer ring, back;
    uint64_t ring_begin, ring_end; // ring space in use; both numbers only grow
    vk_handle clock;               // two timestamps
    struct profile_ring timed;     // launches that are timed, by values of the timeline
    vk_handle timed_clock;         // two timestamps for each launch of `timed`, and one to compare clocks
    uint64_t timed_from;           // the first timestamp that was read
    struct vulkan_counts counts;
    char failure[256]; // the error of a batch that was rejected; reported once
} queues[VULKAN_DEVICES];

static struct queue *queue_of(const struct vulkan_device *d) {
    return &queues[vulkan_unit(d)];
}

// The timeline ----------------------------------------------------------------------------------------------

static void note_done(struct queue *q, uint64_t value) {
    unsigned long long before = atomic_load(&q->done);
    while (before < value && !atomic_compare_exchange_weak(&q->done, &before, value))
        ;
}

// Waits until the timeline reaches a value that was submitted.
static bool wait_for(struct vulkan_device *d, struct queue *q, uint64_t value) {
    struct vk_semaphore_wait wait = {
        .record = VK_RECORD_SEMAPHORE_WAIT, .semaphores = 1, .semaphore = &q->timeline, .value = &value};
    if (value <= atomic_load(&q->done))
        return true;
    if (!VULKAN_CALL(d, vkWaitSemaphores, d->device, &wait, UINT64_MAX))
        return false;
    note_done(q, value);
    return true;
}

static bool is_reached(struct vulkan_device *d, struct queue *q, uint64_t value) {
    uint64_t now = 0;
    if (value > atomic_load(&q->done) && q->timeline &&
        d->api.vkGetSemaphoreCounterValue(d->device, q->timeline, &now) == VK_DONE)
        note_done(q, now);
    return value <= atomic_load(&q->done);
}

// Making ----------------------------------------------------------------------------------------------------

static bool make_set_pool(struct vulkan_device *d, struct batch *b) {
    struct vk_pool_size size = {VK_STORAGE_BUFFER, (COMMANDS + 1) * (VULKAN_BUFFERS + 1)};
    struct vk_make_set_pool make = {
        .record = VK_RECORD_SET_POOL, .sets = COMMANDS + 1, .sizes = 1, .size = &size};
    return d->api.push_set || VULKAN_CALL(d, vkCreateDescriptorPool, d->device, &make, NULL, &b->set_pool);
}

static bool make_batch(struct vulkan_device *d, struct batch *b) {
    struct vk_make_plain pool = {.record = VK_RECORD_COMMAND_POOL, .family = d->family};
    if (b->commands)
        return true;
    if (!b->pool && !VULKAN_CALL(d, vkCreateCommandPool, d->device, &pool, NULL, &b->pool))
        return false;
    struct vk_make_commands commands = {.record = VK_RECORD_COMMANDS, .pool = b->pool, .count = 1};
    return (b->set_pool || make_set_pool(d, b)) &&
           VULKAN_CALL(d, vkAllocateCommandBuffers, d->device, &commands, &b->commands);
}

static bool make_timeline(struct vulkan_device *d, struct queue *q) {
    struct vk_semaphore_type type = {.record = VK_RECORD_SEMAPHORE_TYPE, .type = 1};
    struct vk_make_plain make = {.record = VK_RECORD_SEMAPHORE, .next = &type};
    return q->timeline || VULKAN_CALL(d, vkCreateSemaphore, d->device, &make, NULL, &q->timeline);
}

// Batches ---------------------------------------------------------------------------------------------------

static struct batch *current(struct queue *q) {
    return &q->batch[q->submitted % BATCHES];
}

// Opens the next batch, unless one is open. Under the lock.
static bool begin(struct vulkan_device *d, struct queue *q) {
    struct vk_begin begin = {.record = VK_RECORD_BEGIN, .flags = 1}; // the commands are submitted once
    struct batch *b = current(q);
    if (LIKELY(q->is_recording))
        return true;
    if (!make_timeline(d, q) || !make_batch(d, b) || !wait_for(d, q, b->value) ||
        !VULKAN_CALL(d, vkResetCommandPool, d->device, b->pool, 0) ||
        (b->set_pool && !VULKAN_CALL(d, vkResetDescriptorPool, d->device, b->set_pool, 0)) ||
        !VULKAN_CALL(d, vkBeginCommandBuffer, b->commands, &begin))
        return false;
    q->is_recording = true;
    q->commands = 0;
    q->bytes = 0;
    q->bound = 0;
    return true;
}

// Makes writes visible to the host. On some chips, their caches are separate from the host's even if memory
// is coherent.
static void show_host(struct vulkan_device *d, const struct batch *b) {
    struct vk_barrier barrier = {
        .record = VK_RECORD_BARRIER, .before = VK_ACCESS_WRITE, .after = VK_ACCESS_HOST_READ};
    d->api.vkCmdPipelineBarrier(b->commands, STAGES, VK_STAGE_HOST, 0, 1, &barrier, 0, NULL, 0, NULL);
}

// Submits the open batch. If that fails, the batch is lost. Its arrays have already been returned to the
// program, so the failure is kept and reported by the next call of vulkan_good. Under the lock.
static bool submit(struct vulkan_device *d, struct queue *q) {
    struct batch *b = current(q);
    uint64_t value = q->submitted + 1;
    struct vk_timeline_submit timeline = {
        .record = VK_RECORD_TIMELINE_SUBMIT, .signals = 1, .signal = &value};
    struct vk_submit submit = {.record = VK_RECORD_SUBMIT,
                               .next = &timeline,
                               .commands = 1,
                               .command = &b->commands,
                               .signals = 1,
                               .signal = &q->timeline};
    if (!q->is_recording)
        return true;
    show_host(d, b);
    q->is_recording = false;
    if (!VULKAN_CALL(d, vkEndCommandBuffer, b->commands) ||
        !VULKAN_CALL(d, vkQueueSubmit, d->queue, 1, &submit, 0)) {
        snprintf(q->failure, sizeof q->failure, "%s", zl_error());
        return false;
    }
    q->counts.submissions++;
    b->value = q->submitted = value;
    b->ring_end = q->ring_end;
    return true;
}

// Barriers --------------------------------------------------------------------------------------------------

static bool conflict(const struct range *a, const struct range *b) {
    return (a->is_written || b->is_written) && a->begin < b->end && b->begin < a->end;
}

// Adds a barrier between all reads and writes. It names reads as well, because some drivers drop a barrier
// whose first half has only reads.
static void barrier(struct vulkan_device *d, struct queue *q) {
    struct vk_barrier all = {.record = VK_RECORD_BARRIER,
                             .before = VK_ACCESS_READ | VK_ACCESS_WRITE,
                             .after = VK_ACCESS_READ | VK_ACCESS_WRITE};
    d->api.vkCmdPipelineBarrier(current(q)->commands, STAGES, STAGES, 0, 1, &all, 0, NULL, 0, NULL);
    q->counts.barriers++;
    q->ranges = 0;
}

// Adds a barrier before a command that touches these ranges, if an earlier command must not overlap it. Under
// the lock.
static void order(struct vulkan_device *d, struct queue *q, int ranges, const struct range *range) {
    bool waits = q->ranges + ranges > RANGES;
    for (int i = 0; i < ranges && !waits; i++)
        for (int k = 0; k < q->ranges && !waits; k++)
            waits = conflict(&range[i], &q->range[k]);
    if (waits)
        barrier(d, q);
    memcpy(&q->range[q->ranges], range, sizeof *range * (size_t)ranges);
    q->ranges += ranges;
    for (int i = 0; i < ranges; i++)
        q->bytes += range[i].end - range[i].begin;
}

static struct range range_of(const void *memory, uint64_t bytes, bool is_written) {
    uint64_t begin = (uint64_t)(uintptr_t)memory;
    return (struct range){begin, begin + bytes, is_written};
}

// Ends a command, and submits the batch if it is full. Under the lock.
static bool end_command(struct vulkan_device *d, struct queue *q) {
    return (++q->commands < COMMANDS && q->bytes < batch_bytes) || submit(d, q);
}

// The ring --------------------------------------------------------------------------------------------------

// Frees the ring space of batches that are done; the host waits for the oldest one that is not. Under the
// lock.
static bool drain_ring(struct vulkan_device *d, struct queue *q) {
    struct batch *oldest = NULL;
    for (int i = 0; i < BATCHES; i++) {
        struct batch *b = &q->batch[i];
        bool is_in_use = b->value && b->ring_end > q->ring_begin;
        if (is_in_use && (!oldest || b->value < oldest->value))
            oldest = b;
    }
    if (!oldest && !q->is_recording)
        q->ring_begin = q->ring_end; // nothing uses the ring
    if (!oldest)
        return submit(d, q);
    if (!wait_for(d, q, oldest->value))
        return false;
    q->ring_begin = oldest->ring_end;
    return true;
}

// Reserves ring space of at most PIECE bytes for the host to write, and stores its position in *at. A batch
// must be open, and is open afterwards. Returns false, with an error, if that fails. Under the lock.
static bool take_ring(struct vulkan_device *d, struct queue *q, uint64_t bytes, uint64_t *at) {
    if (!q->ring.buffer && !vulkan_buffer_open(d, &q->ring, d->upload_type, RING))
        return false;
    uint64_t first = (q->ring_end + VULKAN_ALIGNMENT - 1) & ~(uint64_t)(VULKAN_ALIGNMENT - 1);
    if (first % RING + bytes > RING)
        first += RING - first % RING;
    while (first + bytes - q->ring_begin > RING)
        if (!drain_ring(d, q))
            return false;
    q->ring_end = first + bytes;
    *at = first % RING;
    return begin(d, q);
}

// Times -----------------------------------------------------------------------------------------------------

static bool make_clock(struct vulkan_device *d, vk_handle *clock, uint32_t times) {
    struct vk_make_queries make = {
        .record = VK_RECORD_QUERY_POOL, .type = VK_QUERY_TIMESTAMP, .count = times};
    if (!d->timestamp_ns)
        return error_false(ZL_ERROR_DEVICE, "vulkan: the queue of %s has no clock", d->name);
    return *clock || VULKAN_CALL(d, vkCreateQueryPool, d->device, &make, NULL, clock);
}

// Records a timestamp after all earlier work is done. Under the lock with a batch open, like the functions
// below.
static void take_time(struct vulkan_device *d, struct queue *q, vk_handle clock, uint32_t which) {
    barrier(d, q);
    d->api.vkCmdResetQueryPool(current(q)->commands, clock, which, 1);
    d->api.vkCmdWriteTimestamp(current(q)->commands, VK_STAGE_END, clock, which);
}

// Reads the timestamps of commands that are done. Returns false, with an error, if that fails.
static bool read_times(struct vulkan_device *d, vk_handle clock, uint32_t first, uint32_t count,
                       uint64_t *out) {
    int code = d->api.vkGetQueryPoolResults(d->device, clock, first, count, count * sizeof *out, out,
                                            sizeof *out, VK_QUERY_64);
    return code == VK_DONE || error_false(ZL_ERROR_DEVICE, "vulkan: vkGetQueryPoolResults gave %d", code);
}

// Converts a timestamp to ns since the first one that was read, for a profile.
static int64_t profile_time(const struct vulkan_device *d, struct queue *q, uint64_t time) {
    q->timed_from = q->timed_from ? q->timed_from : time;
    return (int64_t)((double)(int64_t)(time - q->timed_from) * (double)d->timestamp_ns);
}

static bool time_now(int unit, int64_t *out) {
    struct queue *q = &queues[unit];
    struct vulkan_device *d = vulkan_opened(unit);
    uint64_t time;
    if (!d || !make_clock(d, &q->timed_clock, 2 * PROFILE_RING + 1) || !begin(d, q))
        return false;
    take_time(d, q, q->timed_clock, 2 * PROFILE_RING);
    if (!submit(d, q) || !wait_for(d, q, q->submitted) ||
        !read_times(d, q->timed_clock, 2 * PROFILE_RING, 1, &time))
        return false;
    *out = profile_time(d, q, time);
    return true;
}

static bool times_of(int unit, int place, uint64_t value, int64_t *begin, int64_t *end) {
    struct queue *q = &queues[unit];
    struct vulkan_device *d = vulkan_opened(unit);
    uint64_t time[2];
    if (!d || value > q->submitted || !wait_for(d, q, value) ||
        !read_times(d, q->timed_clock, 2 * (uint32_t)place, 2, time))
        return false;
    *begin = profile_time(d, q, time[0]);
    *end = profile_time(d, q, time[1]);
    return true;
}

static const struct profile_driver profile_driver = {
    "vulkan: the driver does not tell when kernels ran: they are not in the table", time_now, times_of};

void vulkan_profile_end(void) {
    bool had_error = zl_error();
    for (int unit = 0; unit < VULKAN_DEVICES; unit++) {
        struct queue *q = &queues[unit];
        struct vulkan_device *d = q->timed.count ? vulkan_opened(unit) : NULL;
        lock_take(&q->lock);
        if (d && submit(d, q))
            profile_ring_end(&q->timed, &profile_driver, unit);
        lock_give(&q->lock);
    }
    if (!had_error)
        zl_clear_error();
}

// Launches --------------------------------------------------------------------------------------------------

void vulkan_launch_begin(struct vulkan_launch *l, const struct vulkan_function *f, int64_t groups) {
    l->function = f;
    l->groups = groups;
    l->buffers = 0;
    l->is_too_large = false;
}

void vulkan_launch_buffer(struct vulkan_launch *l, const void *memory, uint64_t bytes, bool is_written) {
    if (l->buffers < VULKAN_BUFFERS)
        l->buffer[l->buffers++] = (struct vulkan_reach){memory, bytes, is_written};
    else
        l->is_too_large = true;
}

void vulkan_launch_value(struct vulkan_launch *l, const void *value, size_t bytes) {
    if (bytes > sizeof l->block - l->block_bytes) {
        l->is_too_large = true;
        return;
    }
    memcpy((char *)l->block + l->block_bytes, value, bytes);
    l->block_bytes += ((uint32_t)bytes + 3) & ~3u;
}

// Fills in where each buffer begins: at its address, or at the beginning of its binding; then the number of
// workgroups.
void vulkan_launch_block(struct vulkan_launch *l, const struct vulkan_device *d) {
    uint32_t before = 0, groups = (uint32_t)l->groups;
    l->block_bytes = 0;
    for (int i = 0; i < l->buffers; i++)
        if (l->function->has_addresses)
            vulkan_launch_value(l, &(uint64_t){vulkan_place(d, l->buffer[i].memory).address},
                                sizeof(uint64_t));
        else
            vulkan_launch_value(l, &before, sizeof before);
    vulkan_launch_value(l, &groups, sizeof groups);
}

static bool bind_set(struct vulkan_device *d, struct queue *q, const struct vulkan_function *f,
                     struct vk_set_write *write) {
    struct batch *b = current(q);
    struct vk_make_sets make = {
        .record = VK_RECORD_SETS, .pool = b->set_pool, .count = 1, .layout = &f->set_layout};
    vk_handle set = 0;
    if (d->api.push_set) {
        d->api.push_set(b->commands, VK_POINT_COMPUTE, f->layout, 0, (uint32_t)f->bindings, write);
        return true;
    }
    if (!VULKAN_CALL(d, vkAllocateDescriptorSets, d->device, &make, &set))
        return false;
    for (int i = 0; i < f->bindings; i++)
        write[i].set = set;
    d->api.vkUpdateDescriptorSets(d->device, (uint32_t)f->bindings, write, 0, NULL);
    d->api.vkCmdBindDescriptorSets(b->commands, VK_POINT_COMPUTE, f->layout, 0, 1, &set, 0, NULL);
    return true;
}

// Binds the buffers, and the block of values if it is a buffer. Under the lock.
static bool bind_buffers(struct vulkan_device *d, struct queue *q, const struct vulkan_launch *l,
                         uint64_t block_at) {
    struct vk_range range[VULKAN_BUFFERS + 1];
    struct vk_set_write write[VULKAN_BUFFERS + 1];
    int buffers = l->function->has_addresses ? 0 : l->buffers;
    for (int i = 0; i < l->function->bindings; i++) {
        if (i < buffers) {
            struct vulkan_place place = vulkan_place(d, l->buffer[i].memory);
            range[i] =
                (struct vk_range){place.buffer, place.offset, (MAX_OF(l->buffer[i].bytes, 1u) + 15) & ~15ull};
        } else {
            range[i] = (struct vk_range){q->ring.buffer, block_at, l->block_bytes};
        }
        write[i] = (struct vk_set_write){.record = VK_RECORD_SET_WRITE,
                                         .binding = (uint32_t)i,
                                         .count = 1,
                                         .kind = VK_STORAGE_BUFFER,
                                         .range = &range[i]};
    }
    return !l->function->bindings || bind_set(d, q, l->function, write);
}

static bool check_launch(const struct vulkan_device *d, const struct vulkan_launch *l, bool is_in_ring) {
    if (l->is_too_large)
        return error_false(ZL_ERROR_DEVICE,
                           "vulkan: a launch has more than %d buffers, or %d bytes of arguments",
                           VULKAN_BUFFERS, VULKAN_BLOCK_BYTES);
    int bindings = l->function->bindings, buffers = l->function->has_addresses ? 0 : l->buffers;
    if (is_in_ring ? bindings != buffers + 1 : bindings > buffers)
        return error_false(ZL_ERROR_DEVICE, "vulkan: a kernel has %d bindings, and was given %d buffers%s",
                           bindings, buffers, is_in_ring ? " and a block" : "");
    if (l->groups > (int64_t)SPIRV_ROW * SPIRV_ROW)
        return error_false(ZL_ERROR_DEVICE, "vulkan: a launch has %lld groups, more than %lld",
                           (long long)l->groups, (long long)SPIRV_ROW * SPIRV_ROW);
    for (int i = 0; i < buffers; i++)
        if (l->buffer[i].bytes > d->storage_range)
            return error_false(ZL_ERROR_DEVICE,
                               "vulkan: an array of %llu bytes: kernels of %s reach %u at most%s",
                               (unsigned long long)l->buffer[i].bytes, d->name, d->storage_range,
                               d->has_addresses ? "" : ", and it has no buffer addresses");
    return true;
}

// Under the lock.
static bool launch(struct vulkan_device *d, struct queue *q, const struct vulkan_launch *l, bool is_in_ring) {
    const struct vulkan_function *f = l->function;
    struct range range[VULKAN_BUFFERS];
    uint64_t at = 0;
    bool timed = profile_ring_wants(&q->timed, &profile_driver, vulkan_unit(d)); // has to be called before a
                                                                                 // batch is open
    if (!begin(d, q) || (is_in_ring && !take_ring(d, q, l->block_bytes, &at)))
        return false;
    vk_commands c = current(q)->commands;
    for (int i = 0; i < l->buffers; i++)
        range[i] = range_of(l->buffer[i].memory, l->buffer[i].bytes, l->buffer[i].is_written);
    order(d, q, l->buffers, range);
    if (q->bound != f->pipeline)
        d->api.vkCmdBindPipeline(c, VK_POINT_COMPUTE, f->pipeline);
    q->bound = f->pipeline;
    if (is_in_ring)
        memcpy(q->ring.mapped + at, l->block, l->block_bytes);
    else
        d->api.vkCmdPushConstants(c, f->layout, VK_SHADER_COMPUTE, 0, l->block_bytes, l->block);
    if (!bind_buffers(d, q, l, at))
        return false;
    uint32_t rows = (uint32_t)((l->groups + SPIRV_ROW - 1) / SPIRV_ROW);
    uint32_t place = (uint32_t)profile_ring_place(&q->timed);
    if (timed)
        take_time(d, q, q->timed_clock, 2 * place);
    d->api.vkCmdDispatch(c, (uint32_t)MIN_OF(l->groups, (int64_t)SPIRV_ROW), rows, 1);
    if (timed) {
        take_time(d, q, q->timed_clock, 2 * place + 1);
        profile_ring_add(&q->timed, q->submitted + 1);
    }
    q->counts.launches++;
    return end_command(d, q);
}

bool vulkan_launch(struct vulkan_device *d, const struct vulkan_launch *l) {
    struct queue *q = queue_of(d);
    bool is_in_ring = l->block_bytes > (uint32_t)d->unit.spirv.push_bytes;
    if (!check_launch(d, l, is_in_ring))
        return false;
    lock_take(&q->lock);
    bool good = launch(d, q, l, is_in_ring);
    lock_give(&q->lock);
    return good;
}

// Copies ----------------------------------------------------------------------------------------------------

// Copies between memory and the ring, or the read-back buffer, whose own range is `other`. Under the lock.
static bool copy(struct vulkan_device *d, struct queue *q, const void *memory, uint64_t bytes, bool to_host,
                 uint64_t at) {
    struct vulkan_place place = vulkan_place(d, memory);
    struct range range[] = {range_of(memory, bytes, !to_host),
                            {back_place + at, back_place + at + bytes, to_host}};
    struct vk_copy part = {to_host ? place.offset : at, to_host ? at : place.offset, bytes};
    order(d, q, to_host ? 2 : 1, range);
    d->api.vkCmdCopyBuffer(current(q)->commands, to_host ? place.buffer : q->ring.buffer,
                           to_host ? q->back.buffer : place.buffer, 1, &part);
    return end_command(d, q);
}

// Returns whether the device has completed all enqueued work.
static bool is_idle(struct vulkan_device *d, struct queue *q) {
    lock_take(&q->lock);
    bool idle = !q->is_recording && is_reached(d, q, q->submitted);
    lock_give(&q->lock);
    return idle;
}

bool vulkan_write(struct vulkan_device *d, void *to, const void *from, size_t bytes) {
    struct queue *q = queue_of(d);
    char *mapped = bytes ? vulkan_place(d, to).mapped : NULL;
    if (mapped && is_idle(d, q)) {
        pool_copy(mapped, from, bytes);
        return true;
    }
    bool good = true;
    for (size_t at = 0; at < bytes && good; at += PIECE) {
        uint64_t some = MIN_OF((uint64_t)PIECE, bytes - at), place = 0;
        lock_take(&q->lock);
        good = begin(d, q) && take_ring(d, q, some, &place);
        if (good) {
            memcpy(q->ring.mapped + place, (const char *)from + at, some);
            good = copy(d, q, (char *)to + at, some, false, place);
        }
        lock_give(&q->lock);
    }
    return good;
}

// Enqueues a copy from the device to the read-back buffer and submits it. Returns the batch's value on the
// timeline; 0 and an error.
static uint64_t enqueue_read(struct vulkan_device *d, struct queue *q, const char *from, uint64_t bytes,
                             uint64_t at) {
    lock_take(&q->lock);
    bool good = begin(d, q) && copy(d, q, from, bytes, true, at) && submit(d, q);
    uint64_t value = good ? q->submitted : 0;
    lock_give(&q->lock);
    return value;
}

// Copies to the host through two halves of a buffer: the device fills one while the host reads the other.
// Under the lock of that buffer.
static bool read_back(struct vulkan_device *d, struct queue *q, char *to, const char *from, size_t bytes) {
    uint64_t value[2] = {0};
    if (!q->back.buffer && !vulkan_buffer_open(d, &q->back, d->read_type, BACK))
        return false;
    for (size_t at = 0; at < bytes + PIECE; at += PIECE) {
        int half = (int)(at / PIECE % 2);
        size_t before = at - PIECE;
        if (at < bytes && !(value[half] = enqueue_read(d, q, from + at, MIN_OF((size_t)PIECE, bytes - at),
                                                       (uint64_t)half * PIECE)))
            return false;
        if (at && !wait_for(d, q, value[!half]))
            return false;
        if (at)
            pool_copy(to + before, q->back.mapped + (size_t)!half * PIECE,
                      MIN_OF((size_t)PIECE, bytes - before));
    }
    return true;
}

bool vulkan_read(struct vulkan_device *d, void *to, const void *from, size_t bytes, uint64_t value) {
    struct queue *q = queue_of(d);
    const char *mapped = bytes ? vulkan_place(d, from).mapped : NULL;
    if (!bytes)
        return true;
    if (mapped && (vulkan_is_cached(d) || bytes <= DIRECT)) {
        if (!vulkan_wait(d, value == UINT64_MAX ? vulkan_point(d) : value))
            return false;
        pool_copy(to, mapped, bytes);
        return true;
    }
    lock_take(&q->read_lock);
    bool good = read_back(d, q, to, from, bytes);
    lock_give(&q->read_lock);
    return good;
}

// Points ----------------------------------------------------------------------------------------------------

bool vulkan_submit(struct vulkan_device *d) {
    struct queue *q = queue_of(d);
    lock_take(&q->lock);
    bool good = submit(d, q);
    lock_give(&q->lock);
    return good;
}

void vulkan_submit_if_idle(struct vulkan_device *d) {
    struct queue *q = queue_of(d);
    bool had_error = zl_error();
    lock_take(&q->lock);
    if (q->is_recording && is_reached(d, q, q->submitted) && !submit(d, q) && !had_error)
        zl_clear_error(); // vulkan_good reports it
    lock_give(&q->lock);
}

uint64_t vulkan_point(struct vulkan_device *d) {
    struct queue *q = queue_of(d);
    lock_take(&q->lock);
    uint64_t value = q->submitted + q->is_recording;
    lock_give(&q->lock);
    return value;
}

bool vulkan_wait(struct vulkan_device *d, uint64_t value) {
    struct queue *q = queue_of(d);
    lock_take(&q->lock);
    bool good = value <= q->submitted || submit(d, q);
    if (good && value > q->submitted)
        good = error_false(ZL_ERROR_DEVICE, "vulkan: what is waited for was not taken by the device");
    lock_give(&q->lock);
    return good && wait_for(d, q, value);
}

bool vulkan_is_done(struct vulkan_device *d, uint64_t value) {
    return is_reached(d, queue_of(d), value);
}

bool vulkan_good(int unit) {
    struct queue *q = &queues[unit];
    lock_take(&q->lock);
    bool good = !q->failure[0] || error_false(ZL_ERROR_DEVICE, "%s", q->failure);
    q->failure[0] = 0;
    lock_give(&q->lock);
    return good;
}

struct vulkan_counts vulkan_counts(int unit) {
    struct queue *q = &queues[unit];
    lock_take(&q->lock);
    struct vulkan_counts counts = q->counts;
    lock_give(&q->lock);
    return counts;
}

static bool take_time_now(struct vulkan_device *d, struct queue *q, uint32_t which) {
    lock_take(&q->lock);
    bool good = begin(d, q);
    if (good)
        take_time(d, q, q->clock, which);
    good = good && end_command(d, q);
    lock_give(&q->lock);
    return good;
}

bool vulkan_time(struct vulkan_device *d, bool (*run)(void *data), void *data, double *ns) {
    struct queue *q = queue_of(d);
    uint64_t time[2] = {0};
    lock_take(&q->time_lock);
    bool good = make_clock(d, &q->clock, 2) && take_time_now(d, q, 0) && run(data) &&
                take_time_now(d, q, 1) && vulkan_wait(d, vulkan_point(d)) &&
                read_times(d, q->clock, 0, 2, time);
    lock_give(&q->time_lock);
    *ns = (double)(time[1] - time[0]) * (double)d->timestamp_ns;
    return good;
}
