// cpu_peaks.c - measures what the CPU can do at most: the clock, each multiply-add instruction on one core,
// and memory. It takes slices of a tenth of a millisecond of each in turn. Other programs that run in some
// slices do not matter, because a slice that one in fifty exceeds counts; nor does a slice that seems faster
// than the core is, as when a virtual machine's clock jumps. A rate per cycle is that of a slice at the clock
// measured right before or after it, the higher one, as the clock may change at any time.

#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "instructions.h"

enum { ROUNDS_LEAST = 50, COPY_BYTES = 32 << 20, THREADS_MOST = 512 };
static const double slice_seconds = 1e-4;

// Returns the seconds of the loops, after some untimed ones, since units that were idle need time to power
// up.
static double time_loops(void (*repeat)(int64_t loops), int64_t loops) {
    repeat(loops / 4 + 1);
    double start = bench_now();
    repeat(loops);
    return bench_now() - start;
}

// Returns how many loops of `repeat` fill one time slice.
static int64_t loops_of_slice(void (*repeat)(int64_t loops)) {
    double best = 1;
    for (int i = 0; i < 5; i++)
        best = fmin(best, time_loops(repeat, 64));
    double loops = 64 * slice_seconds / best;
    return loops > 1 ? (int64_t)loops : 1;
}

// Returns what a slice of loops does per second, of which one does `work`.
static double rate_of(void (*repeat)(int64_t loops), int64_t loops, double work) {
    return (double)loops * work / time_loops(repeat, loops);
}

static double better_rate(double best, double work, double seconds) {
    double rate = work / seconds;
    return rate > best ? rate : best;
}

static void measure_instructions(struct bench_cpu_peaks *peaks, double seconds) {
    const struct bench_instruction *here[BENCH_INSTRUCTIONS_MOST];
    int64_t loops[BENCH_INSTRUCTIONS_MOST], chain = loops_of_slice(bench_chain);
    struct samples {
        struct bench_window rate, per_cycle;
    } *samples = calloc(1 + BENCH_INSTRUCTIONS_MOST, sizeof *samples), *clock = samples;
    if (!samples)
        return;
    for (const struct bench_instruction *i = bench_instructions;
         i->name && peaks->count < BENCH_INSTRUCTIONS_MOST; i++)
        if (i->is_here()) {
            peaks->instruction[peaks->count].name = i->name;
            peaks->instruction[peaks->count].dtype = i->dtype;
            loops[peaks->count] = loops_of_slice(i->repeat);
            here[peaks->count++] = i;
        }
    double end = bench_now() + seconds, before = rate_of(bench_chain, chain, BENCH_CHAIN_CYCLES);
    for (int round = 0; round < ROUNDS_LEAST || bench_now() < end; round++) {
        double rate[BENCH_INSTRUCTIONS_MOST];
        for (int i = 0; i < peaks->count; i++)
            rate[i] = rate_of(here[i]->repeat, loops[i], here[i]->operations);
        double after = rate_of(bench_chain, chain, BENCH_CHAIN_CYCLES);
        bench_window_add(&clock->rate, after);
        for (int i = 0; i < peaks->count; i++) {
            bench_window_add(&samples[1 + i].rate, rate[i]);
            bench_window_add(&samples[1 + i].per_cycle, rate[i] / fmax(before, after));
        }
        before = after;
    }
    peaks->clock_hz = bench_window_quantile(&clock->rate, BENCH_PEAK_QUANTILE);
    for (int i = 0; i < peaks->count; i++) {
        peaks->instruction[i].rate = bench_window_quantile(&samples[1 + i].rate, BENCH_PEAK_QUANTILE);
        peaks->instruction[i].per_cycle =
            bench_window_quantile(&samples[1 + i].per_cycle, BENCH_PEAK_QUANTILE);
    }
    free(samples);
    bench_measure_all_cores(peaks, here, loops, 2 * seconds);
}

// Memory ----------------------------------------------------------------------------------------------------

// A gate at which threads sleep until all of them are there.
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changes;
    bool open;
    int waiting;
};

static void wait_at(struct gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    gate->waiting++;
    pthread_cond_broadcast(&gate->changes);
    while (!gate->open)
        pthread_cond_wait(&gate->changes, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static void open_for(struct gate *gate, int threads) {
    pthread_mutex_lock(&gate->mutex);
    while (gate->waiting < threads)
        pthread_cond_wait(&gate->changes, &gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changes);
    pthread_mutex_unlock(&gate->mutex);
}

struct mover {
    pthread_t thread;
    struct gate *gate;
    int index;
    char *from, *to; // to NULL: the thread only reads
    uint64_t sum;
    double start, end;
};

static uint64_t read_all(const char *from) {
    const uint64_t *at = (const uint64_t *)(const void *)from;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    size_t half = COPY_BYTES / sizeof *at / 2;
    for (size_t i = 0; i < half; i += 2) // two streams, which some machines read faster
        a ^= at[i], b ^= at[i + 1], c ^= at[half + i], d ^= at[half + i + 1];
    return a ^ b ^ c ^ d;
}

static void *move(void *data) {
    struct mover *m = data;
    bench_stay_on_core(m->index); // two threads on one core would measure half the bandwidth
    wait_at(m->gate);
    m->start = bench_now();
    if (m->to)
        memcpy(m->to, m->from, COPY_BYTES);
    else
        m->sum = read_all(m->from);
    m->end = bench_now();
    return NULL;
}

// Returns the seconds from the start of the first thread to the end of the last one.
static double move_all(struct mover *mover, int threads, struct gate *gate) {
    double start = INFINITY, end = 0;
    int started = 0;
    while (started < threads && !pthread_create(&mover[started].thread, NULL, move, &mover[started]))
        started++;
    open_for(gate, started);
    for (int i = 0; i < started; i++) {
        pthread_join(mover[i].thread, NULL);
        start = fmin(start, mover[i].start);
        end = fmax(end, mover[i].end);
    }
    return started == threads ? end - start : INFINITY;
}

static void measure_memory(struct bench_cpu_peaks *peaks) {
    static struct mover mover[THREADS_MOST];
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changes = PTHREAD_COND_INITIALIZER};
    int threads = peaks->threads < THREADS_MOST ? peaks->threads : THREADS_MOST;
    size_t bytes = 2 * (size_t)COPY_BYTES * (size_t)threads;
    char *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return;
    madvise(room, bytes, MADV_HUGEPAGE);
    memset(room, 1, bytes);
    for (int round = 0; round < 16; round++) {
        bool copies = round % 2;
        gate.open = false;
        gate.waiting = 0;
        for (int i = 0; i < threads; i++) {
            char *own = room + 2 * (size_t)COPY_BYTES * (size_t)i;
            mover[i] = (struct mover){
                .gate = &gate, .index = i, .from = own, .to = copies ? own + COPY_BYTES : NULL};
        }
        double took = move_all(mover, threads, &gate), each = (double)COPY_BYTES * threads;
        if (copies)
            peaks->copy = better_rate(peaks->copy, 2 * each, took);
        else
            peaks->read = better_rate(peaks->read, each, took);
    }
    munmap(room, bytes);
}

void bench_measure_cpu_peaks(struct bench_cpu_peaks *peaks, double seconds) {
    *peaks = (struct bench_cpu_peaks){.threads = zl_threads()};
    measure_instructions(peaks, seconds);
    measure_memory(peaks);
}

double bench_cpu_peak(const struct bench_cpu_peaks *peaks, enum bench_dtype dtype, const char **name) {
    double best = NAN;
    for (int i = 0; i < peaks->count && dtype != BENCH_TF32; i++) {
        double rate = peaks->instruction[i].all;
        rate = rate > 0 ? rate : peaks->instruction[i].rate * peaks->threads;
        if (peaks->instruction[i].dtype != bench_dtype_of_arrays(dtype) || !(isnan(best) || rate > best))
            continue;
        best = rate;
        if (name)
            *name = peaks->instruction[i].name;
    }
    return best;
}
