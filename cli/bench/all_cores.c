// all_cores.c - rates of multiply-adds on all cores at once. The cores of a machine may share arithmetic
// units, so that a single core's rate times the number of cores is more than the machine can do. The threads
// start each slice together; a round counts if their slices overlap.

#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "instructions.h"

enum { THREADS_MOST = 512, ROUNDS_LEAST = 20, ROUNDS_BETWEEN_LOOKS = 32 };
static const double patience = 5e-3; // seconds: longer than other processes keep a core at a time

struct slice {
    double start, end;
};

struct crew {
    int threads;
    atomic_int arrived, phase;
    atomic_int start; // 0: not all threads exist yet, 1: go, -1: a thread could not be created
    atomic_bool over;
    struct bench_cpu_peaks *peaks;
    const struct bench_instruction **instruction;
    const int64_t *loops;
    struct bench_window *rate; // of each instruction
    struct slice slice[THREADS_MOST];
};

struct member {
    struct crew *crew;
    int index;
    pthread_t thread;
};

void bench_stay_on_core(int index) {
    cpu_set_t ours, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof ours, &ours))
        return;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &ours) && index-- == 0)
            CPU_SET(core, &one);
    if (CPU_COUNT(&one))
        sched_setaffinity(0, sizeof one, &one);
}

// Waits until all threads have called it. It spins, because a thread that sleeps would not be back on its
// core when the last one arrives; only after a long wait does it yield.
static void meet(struct crew *crew) {
    int phase = atomic_load(&crew->phase);
    if (atomic_fetch_add(&crew->arrived, 1) == crew->threads - 1) {
        atomic_store(&crew->arrived, 0);
        atomic_store(&crew->phase, phase + 1);
        return;
    }
    double since = bench_now();
    while (atomic_load(&crew->phase) == phase)
        if (bench_now() - since > patience)
            sched_yield();
}

static void run_slice(struct member *m, int which) {
    struct crew *crew = m->crew;
    struct slice *slice = &crew->slice[m->index];
    void (*repeat)(int64_t loops) = crew->instruction[which]->repeat;
    meet(crew);
    repeat(crew->loops[which] / 4 + 1);
    slice->start = bench_now();
    repeat(crew->loops[which]);
    slice->end = bench_now();
    meet(crew);
}

// Returns the operations per second of all threads together; 0 if their slices did not overlap enough.
static double rate_of_round(const struct crew *crew, int which) {
    double work = (double)crew->loops[which] * crew->instruction[which]->operations, total = 0;
    double start = 0, end = INFINITY, longest = 0;
    for (int i = 0; i < crew->threads; i++) {
        const struct slice *s = &crew->slice[i];
        start = fmax(start, s->start);
        end = fmin(end, s->end);
        longest = fmax(longest, s->end - s->start);
        total += work / (s->end - s->start);
    }
    return end - start > 0.8 * longest ? total : 0;
}

// Sets the rate of each instruction on all cores. Returns whether each was measured often enough, and is
// nearly the rate of one core times their number.
static bool is_clear(struct crew *crew) {
    struct bench_cpu_peaks *peaks = crew->peaks;
    bool clear = true;
    for (int i = 0; i < peaks->count; i++) {
        double rate = bench_window_quantile(&crew->rate[i], BENCH_PEAK_QUANTILE);
        peaks->instruction[i].all = crew->rate[i].taken ? rate : 0;
        if (crew->rate[i].taken < ROUNDS_LEAST || rate < 0.985 * peaks->instruction[i].rate * peaks->threads)
            clear = false;
    }
    return clear;
}

static void *work(void *data) {
    struct member *m = data;
    struct crew *crew = m->crew;
    bench_stay_on_core(m->index);
    while (atomic_load(&crew->start) == 0)
        sched_yield();
    while (atomic_load(&crew->start) > 0 && !atomic_load(&crew->over))
        for (int i = 0; i < crew->peaks->count; i++)
            run_slice(m, i);
    return NULL;
}

// Runs the slices on the first thread, which also computes the rates and decides when to end. The other
// threads see its decision after the round, because all of them meet once more.
static void lead(struct member *first, double end) {
    struct crew *crew = first->crew;
    bool over = false;
    for (int round = 1; !over; round++) {
        for (int i = 0; i < crew->peaks->count; i++) {
            if (i == crew->peaks->count - 1) {
                bool looks = round % ROUNDS_BETWEEN_LOOKS == 0;
                over = bench_now() >= end || (looks && is_clear(crew));
                atomic_store(&crew->over, over);
            }
            run_slice(first, i);
            double rate = rate_of_round(crew, i);
            if (rate > 0)
                bench_window_add(&crew->rate[i], rate);
        }
    }
    is_clear(crew);
}

// A core alone reaches at least what it reached beside the others, which ran when the clock was higher if
// that is more.
static void raise_single_cores(struct bench_cpu_peaks *peaks) {
    for (int i = 0; i < peaks->count; i++)
        peaks->instruction[i].rate =
            fmax(peaks->instruction[i].rate, peaks->instruction[i].all / peaks->threads);
}

void bench_measure_all_cores(struct bench_cpu_peaks *peaks, const struct bench_instruction **instruction,
                             const int64_t *loops, double seconds) {
    static struct crew crew;
    struct member *member = calloc((size_t)peaks->threads, sizeof *member);
    int threads = peaks->threads < THREADS_MOST ? peaks->threads : THREADS_MOST, started = 1;
    struct bench_window *rate = calloc(BENCH_INSTRUCTIONS_MOST, sizeof *rate);
    cpu_set_t before;
    if (!member || !rate || sched_getaffinity(0, sizeof before, &before)) {
        free(member);
        free(rate);
        return;
    }
    crew = (struct crew){
        .threads = threads, .peaks = peaks, .instruction = instruction, .loops = loops, .rate = rate};
    for (int i = 0; i < threads; i++)
        member[i] = (struct member){.crew = &crew, .index = i};
    while (started < threads && !pthread_create(&member[started].thread, NULL, work, &member[started]))
        started++;
    atomic_store(&crew.start, started == threads ? 1 : -1);
    if (started == threads) {
        bench_stay_on_core(0);
        lead(&member[0], bench_now() + seconds);
    }
    for (int i = 1; i < started; i++)
        pthread_join(member[i].thread, NULL);
    sched_setaffinity(0, sizeof before, &before);
    raise_single_cores(peaks);
    free(member);
    free(rate);
}
