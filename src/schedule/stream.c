// stream.c - streams: which thread owns them, their queues and their workers.
//
// The structs are never freed, since calls hold plain pointers to them. Those of a thread that ended are
// reused by new threads.

#include <string.h>

#include "schedule/schedule.h"

static struct lock lock; // guards spare and last
static zl_stream spare;  // streams of threads that ended
static zl_stream last;   // the newest of all streams; zl_stream_.older leads to the others

// Parts of zl_stream_.work. All are in one word, so that the thread which ends a run learns from the same
// atomic operation whether any thread waits.
#define RUNNING     1ul
#define ONE_WATCHER 2ul
#define ONE_QUEUED  (1ul << 32)

static _Thread_local struct {
    zl_stream first;    // all streams of this thread, linked by next
    zl_stream standard; // the default stream of this thread
    bool watched;
} mine;

static zl_stream take_spare(const struct device *device, int unit) {
    lock_take(&lock);
    zl_stream *link = &spare, found = NULL;
    while (*link && ((*link)->device != device || (*link)->unit != unit))
        link = &(*link)->next;
    if ((found = *link))
        *link = found->next;
    lock_give(&lock);
    return found;
}

static void give_back(void *data) {
    (void)data;
    lock_take(&lock);
    while (mine.first) {
        zl_stream s = mine.first;
        mine.first = s->next;
        s->next = spare;
        spare = s;
    }
    lock_give(&lock);
    mine.standard = NULL;
    mine.watched = false;
    recorder.stream = NULL;
}

static void drop_failure(zl_stream s) {
    if (s->failure)
        failure_release(s->failure);
    s->failure = NULL;
}

static zl_stream make(const struct device *device, int unit) {
    zl_stream s = take_spare(device, unit);
    if (!s) {
        s = memory_zero(sizeof *s);
        if (!s)
            return NULL;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        s->device = device;
        s->unit = unit;
        s->lane = device_lane(device, unit);
        lock_take(&lock);
        s->older = last;
        last = s;
        lock_give(&lock);
    }
    drop_failure(s);
    s->is_default = false;
    s->owner = pthread_self();
    s->next = mine.first;
    mine.first = s;
    return s;
}

// Runs in the child of a fork, where the workers and the threads that ran programs do not exist. Queued runs
// are dropped, not freed, since another thread may have been using them.
static void forget_work(void) {
    for (zl_stream s = last; s; s = s->older) {
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        s->head = s->tail = NULL;
        s->failure = NULL;
        s->has_worker = false;
        atomic_store(&s->work, 0);
    }
}

ZL_AT_LOAD {
    fork_guard(&lock);
    fork_call(forget_work);
}

// Returns the default device. If ZL_DEVICE is wrong, the error names that variable, since the program itself
// did not name the device.
static const struct device *find_standard(int *unit) {
    const char *name = setting_text(SETTING_DEVICE);
    if (!*name)
        return device_standard(unit);
    bool had_error = zl_error();
    const struct device *d = device_find_unit(name, unit);
    zl_error_kind kind;
    char *why = d || had_error ? NULL : error_take(&kind);
    if (why)
        error_set(kind, "ZL_DEVICE: %s", why);
    memory_free(why);
    return d;
}

static zl_stream make_watched(const struct device *d, int unit) {
    if (!mine.watched) {
        if (!base_thread_at_exit(give_back, NULL))
            return NULL;
        mine.watched = true;
    }
    return make(d, unit);
}

zl_stream stream_shared(const char *device) {
    int unit;
    const struct device *d = device_find_unit(device, &unit);
    zl_stream s = d ? make(d, unit) : NULL;
    if (s)
        mine.first = s->next; // make put it there; it must not be passed on when this thread ends
    return s;
}

zl_stream zl_new_stream(const char *device) {
    int unit;
    const struct device *d = device ? device_find_unit(device, &unit) : find_standard(&unit);
    return d ? make_watched(d, unit) : NULL;
}

// Returns this thread's default stream of a unit, and makes it if there is none.
static zl_stream default_of(const struct device *d, int unit) {
    for (zl_stream s = mine.first; s; s = s->next)
        if (s->is_default && s->device == d && s->unit == unit)
            return s;
    zl_stream s = make_watched(d, unit);
    if (s)
        s->is_default = true;
    return s;
}

zl_stream zl_default_stream_of(const char *device) {
    int unit;
    if (!device)
        return error_set(ZL_ERROR_VALUE, "zl_default_stream_of: the name is NULL");
    const struct device *d = device_find_unit(device, &unit);
    return d ? default_of(d, unit) : NULL;
}

zl_stream stream_known(void) {
    return mine.standard;
}

zl_stream stream_standard(void) {
    int unit;
    const struct device *d = mine.standard ? NULL : find_standard(&unit);
    if (d)
        mine.standard = default_of(d, unit);
    return mine.standard;
}

zl_stream zl_default_stream(void) {
    return recorder.stream ? recorder.stream : stream_standard();
}

bool zl_set_default_stream(zl_stream stream) {
    if (!stream)
        return error_false(ZL_ERROR_VALUE, "zl_set_default_stream: the stream is NULL");
    if (!pthread_equal(stream->owner, pthread_self()))
        return error_false(
            ZL_ERROR_STATE,
            "zl_set_default_stream: the stream belongs to another thread; make one here with zl_new_stream");
    recorder.stream = stream;
    return true;
}

bool zl_use_device(const char *device) {
    if (!device)
        return error_false(ZL_ERROR_VALUE, "zl_use_device: the name is NULL");
    zl_stream s = zl_default_stream_of(device);
    if (s)
        recorder.stream = s;
    return s != NULL;
}

const char *zl_stream_device(zl_stream stream, int *unit) {
    if (!stream || !unit)
        return error_set(ZL_ERROR_VALUE, "zl_stream_device: the %s is NULL", stream ? "unit" : "stream");
    *unit = stream->unit;
    return stream->device->name;
}

// Running ---------------------------------------------------------------------------------------------------

// A Unix signal also wakes a waiting thread; interrupt_wanted then says whether to go on.
bool stream_wait(zl_array a) {
    if (array_state(a) != ARRAY_CLAIMED)
        return true;
    zl_stream s = a->call->stream;
    bool given_up = false;
    atomic_fetch_add(&s->work, ONE_WATCHER);
    while (!given_up) {
        unsigned seen = atomic_load(&s->ticks);
        if (array_state(a) != ARRAY_CLAIMED)
            break;
        pool_sleep(&s->ticks, seen);
        given_up = array_state(a) == ARRAY_CLAIMED && interrupt_wanted();
    }
    atomic_fetch_sub(&s->work, ONE_WATCHER);
    return !given_up;
}

void stream_wait_while(zl_stream s, const atomic_bool *busy) {
    if (!atomic_load(busy))
        return;
    atomic_fetch_add(&s->work, ONE_WATCHER);
    for (unsigned seen; seen = atomic_load(&s->ticks), atomic_load(busy);)
        pool_sleep(&s->ticks, seen);
    atomic_fetch_sub(&s->work, ONE_WATCHER);
}

static bool has_queue(unsigned long work) {
    return work >= ONE_QUEUED;
}

// Wakes waiting threads, which check their condition again. A thread that counts itself as a watcher after
// the subtraction sees the new states of the arrays, since they were stored before.
void stream_end(zl_stream s) {
    unsigned long work = atomic_fetch_sub_explicit(&s->work, RUNNING, memory_order_release) - RUNNING;
    if (LIKELY(!work))
        return;
    if (work % ONE_QUEUED) {
        atomic_fetch_add(&s->ticks, 1);
        pool_wake(&s->ticks, INT32_MAX);
    }
    if (has_queue(work)) {
        pthread_mutex_lock(&s->lock);
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
}

bool stream_try_begin(zl_stream s) {
    unsigned long seen = atomic_load_explicit(&s->work, memory_order_acquire);
    if (seen & RUNNING || has_queue(seen)) // queued runs go first, and the worker begins them
        return false;
    if (UNLIKELY(s->has_worker))
        return !(atomic_fetch_or(&s->work, RUNNING) & RUNNING);
    word_add(&s->work, RUNNING); // without a worker, only the holder of the planning lock begins a run
    return true;
}

static struct run *next_run(zl_stream s) {
    pthread_mutex_lock(&s->lock);
    while (!s->head || atomic_fetch_or(&s->work, RUNNING) & RUNNING)
        pthread_cond_wait(&s->changed, &s->lock);
    struct run *run = s->head;
    s->head = run->next;
    if (!s->head)
        s->tail = NULL;
    pthread_mutex_unlock(&s->lock);
    return run;
}

void stream_keep_failure(zl_stream s, int count, const zl_array *arrays) {
    int at = 0;
    while (at < count && array_state(arrays[at]) != ARRAY_FAILED)
        at++;
    if (at == count)
        return;
    pthread_mutex_lock(&s->lock);
    if (!s->failure)
        failure_retain(s->failure = arrays[at]->failure);
    pthread_mutex_unlock(&s->lock);
}

void stream_told(zl_array a) {
    zl_stream s = a->call ? a->call->stream : NULL;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->failure == a->failure)
        drop_failure(s);
    pthread_mutex_unlock(&s->lock);
}

static void *work(void *data) {
    zl_stream s = data;
    while (true) {
        struct run *run = next_run(s);
        if (run->loop) { // the loop owns the run
            loop_run(run->loop);
        } else {
            schedule_run_now(run);
            if (run->alone)
                stream_keep_failure(s, run->kept, run->keep);
            schedule_run_free(run);
        }
        atomic_fetch_sub(&s->work, ONE_QUEUED);
        stream_end(s);
        pthread_mutex_lock(&s->lock);
        pthread_cond_broadcast(&s->changed); // wakes threads that wait until the queue is empty
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static bool start_worker(zl_stream s) {
    pthread_t thread;
    if (s->has_worker)
        return true;
    if (pthread_create(&thread, NULL, work, s))
        return error_false(ZL_ERROR_MEMORY, "evaluation: no thread could be started for a stream");
    pthread_detach(thread);
    return s->has_worker = true;
}

bool stream_enqueue(zl_stream s, struct run *run) {
    pthread_mutex_lock(&s->lock);
    bool ok = start_worker(s);
    if (ok) {
        run->next = NULL;
        *(s->tail ? &s->tail->next : &s->head) = run;
        s->tail = run;
        atomic_fetch_add(&s->work, ONE_QUEUED);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

static void wait_for_queue(zl_stream s) {
    pthread_mutex_lock(&s->lock);
    while (has_queue(atomic_load(&s->work)))
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void stream_settle_all(bool queues) {
    bool had_error = zl_error();
    lock_take(&lock);
    zl_stream newest = last;
    lock_give(&lock);
    for (zl_stream s = newest; s; s = s->older) {
        if (queues)
            wait_for_queue(s);
        device_wait(s->device, s->unit, device_point(s->device, s->unit, s->lane));
    }
    if (!had_error)
        zl_clear_error();
}

bool zl_stream_synchronize(zl_stream stream) {
    if (!stream)
        return error_false(ZL_ERROR_VALUE, "zl_stream_synchronize: the stream is NULL");
    pthread_mutex_lock(&stream->lock);
    while (has_queue(atomic_load(&stream->work)))
        pthread_cond_wait(&stream->changed, &stream->lock);
    bool ok = !stream->failure;
    if (!ok)
        error_put(stream->failure->kind, stream->failure->message);
    drop_failure(stream);
    pthread_mutex_unlock(&stream->lock);
    return device_wait(stream->device, stream->unit,
                       device_point(stream->device, stream->unit, stream->lane)) &&
           ok;
}

bool zl_synchronize(void) {
    zl_stream s = zl_default_stream();
    return s && zl_stream_synchronize(s);
}
