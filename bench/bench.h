// bench.h - what benchmark programs share: cases that are timed in turns, limits of the machine measured in
// the same run, tables, JSON, and comparison with a committed baseline.
//
// A result is a ratio: how near a case came to its limit. Rounds go through all cases, so that a machine that
// is slow for a second is slow for all of them; the best time of each counts.

#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zellige.h"

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Options ---------------------------------------------------------------------------------------------------

struct bench_options {
    bool json, bars, demo, quick;
    const char *check; // baseline file
    const char *only;  // cases whose name contains it
};

// The limits are those of the CPU, so cases run there, also on a machine with a GPU, unless ZL_DEVICE names
// another device.
static inline void bench_on_cpu(void) {
    setenv("ZL_DEVICE", "cpu", 0);
}

static inline bool bench_read_options(int argc, char **argv, struct bench_options *o) {
    bench_on_cpu();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            o->json = true;
        else if (!strcmp(argv[i], "--bars"))
            o->bars = true;
        else if (!strcmp(argv[i], "--demo"))
            o->demo = o->quick = true;
        else if (!strcmp(argv[i], "--quick"))
            o->quick = true;
        else if (!strcmp(argv[i], "--check") && i + 1 < argc)
            o->check = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            o->only = argv[++i];
        else {
            fprintf(stderr,
                    "usage: %s [--quick] [--json] [--bars] [--check BASELINE.json] [--only WORD] [--demo]\n",
                    argv[0]);
            return false;
        }
    }
    return true;
}

// Cases -----------------------------------------------------------------------------------------------------

enum bench_limit {
    BENCH_COPY,     // bytes read and written, as memcpy moves them
    BENCH_READ,     // bytes read in one stream a core
    BENCH_READ_TWO, // in two: machines may read faster so
    BENCH_FMA,      // multiply-adds
    BENCH_BUDGET,   // time that is allowed
    BENCH_LIMITS
};

struct bench_case {
    const char *name;
    enum bench_limit limit;
    double bar;            // ratio that it must reach; 0: none
    void (*run)(struct bench_case *c);
    double took;           // set by a run that has a clock of its own
    double work;           // of one run: bytes, flops; of a budget: calls
    double reads;          // BENCH_COPY: the part of the bytes that is read
    int streams;           // and from how many arrays
    double budget;         // BENCH_BUDGET: nanoseconds a call
    double best;           // seconds of the best run so far; 0: not run
    void (*operation)(void); // for run: a function of the API, and what it is called with
    zl_array in[3];
    zl_dtype dtype;
    int count;
};

// Work per second of the limits, measured in the same rounds.
struct bench_rates {
    double rate[BENCH_LIMITS];
};

static inline double bench_ratio(const struct bench_case *c, const struct bench_rates *r) {
    if (c->best == 0)
        return 0;
    if (c->limit == BENCH_BUDGET)
        return c->budget * 1e-9 * c->work / c->best;
    // What reads more than it writes is bound by reading: a machine may copy faster than twice its reading.
    double least = c->work / r->rate[c->limit];
    double reading = c->reads / r->rate[c->streams > 1 ? BENCH_READ_TWO : BENCH_READ];
    return (reading > least ? reading : least) / c->best;
}

static inline void bench_run_once(struct bench_case *c) {
    double start = bench_now();
    c->took = 0;
    c->run(c);
    double took = c->took > 0 ? c->took : bench_now() - start;
    if (c->best == 0 || took < c->best)
        c->best = took;
}

// Work that all cores do at once: what limits are measured with ---------------------------------------------

// Threads wake first, meet, and only then is the clock started: waking them is not what is measured. So a run
// of this kind tells itself how long it took.
static struct {
    pthread_barrier_t wake;
    atomic_int ready, done;
    void (*work)(int part, int parts);
    int parts;
} bench_crew;

static inline void bench_crew_work(int part) {
    atomic_fetch_add(&bench_crew.ready, 1);
    while (atomic_load(&bench_crew.ready) < bench_crew.parts)
        ;
    bench_crew.work(part, bench_crew.parts);
    atomic_fetch_add(&bench_crew.done, 1);
}

static inline void *bench_crew_member(void *data) {
    while (pthread_barrier_wait(&bench_crew.wake), bench_crew.parts)
        bench_crew_work((int)(intptr_t)data);
    return NULL;
}

static inline void bench_start_crew(void) {
    bench_crew.parts = zl_threads();
    pthread_barrier_init(&bench_crew.wake, NULL, (unsigned)bench_crew.parts);
    for (int i = 1; i < bench_crew.parts; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, bench_crew_member, (void *)(intptr_t)i))
            exit(2);
        pthread_detach(thread);
    }
}

// Seconds.
static inline double bench_on_all_cores(void (*work)(int part, int parts)) {
    if (!bench_crew.parts)
        bench_start_crew();
    atomic_store(&bench_crew.ready, 0);
    atomic_store(&bench_crew.done, 0);
    bench_crew.work = work;
    pthread_barrier_wait(&bench_crew.wake);
    while (atomic_load(&bench_crew.ready) < bench_crew.parts - 1)
        ;
    double start = bench_now();
    bench_crew_work(0);
    while (atomic_load(&bench_crew.done) < bench_crew.parts)
        ;
    return bench_now() - start;
}

// Reports ---------------------------------------------------------------------------------------------------

static inline const char *bench_model(void) {
    zl_device_info info;
    return zl_device(0, &info) ? info.model : "unknown";
}

static inline void bench_print_json(const struct bench_case *c, int count, const struct bench_rates *r) {
    printf("{\n  \"machine\": \"%s\",\n  \"threads\": %d,\n", bench_model(), zl_threads());
    printf("  \"copy_gb_s\": %.2f,\n  \"read_gb_s\": %.2f,\n  \"fma_gflop_s\": %.2f,\n  \"results\": [\n",
           r->rate[BENCH_COPY] * 1e-9, r->rate[BENCH_READ] * 1e-9, r->rate[BENCH_FMA] * 1e-9);
    for (int i = 0; i < count; i++)
        printf("    {\"name\": \"%s\", \"ratio\": %.4f, \"bar\": %.2f}%s\n", c[i].name, bench_ratio(&c[i], r),
               c[i].bar, i + 1 < count ? "," : "");
    printf("  ]\n}\n");
}

static inline void bench_print_row(const struct bench_case *c, const struct bench_rates *r) {
    double ratio = bench_ratio(c, r), rate = c->best > 0 ? c->work / c->best : 0;
    char measured[64];
    if (c->limit == BENCH_BUDGET)
        snprintf(measured, sizeof measured, "%8.1f ns", rate > 0 ? 1e9 / rate : 0);
    else
        snprintf(measured, sizeof measured, "%8.1f %s", rate * 1e-9,
                 c->limit == BENCH_FMA ? "GFLOP/s" : "GB/s");
    printf("%-34s %-18s %5.2f", c->name, measured, ratio);
    if (c->bar > 0)
        printf("  %s %.2f", ratio >= c->bar ? "ok " : "LOW", c->bar);
    printf("\n");
}

static inline void bench_print_table(const struct bench_case *c, int count, const struct bench_rates *r) {
    printf("%s, %d threads: copy %.1f GB/s, read %.1f GB/s, fma %.1f GFLOP/s\n", bench_model(), zl_threads(),
           r->rate[BENCH_COPY] * 1e-9, r->rate[BENCH_READ] * 1e-9, r->rate[BENCH_FMA] * 1e-9);
    printf("%-34s %-18s %5s  %s\n", "case", "measured", "ratio", "bar");
    for (int i = 0; i < count; i++)
        bench_print_row(&c[i], r);
}

// Baseline --------------------------------------------------------------------------------------------------

enum { BENCH_TOLERANCE = 15 }; // percent that a ratio may be worse than the baseline

static inline char *bench_read_file(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = file ? calloc(1, 1 << 20) : NULL;
    if (text && fread(text, 1, (1 << 20) - 1, file) == 0)
        text[0] = 0;
    if (file)
        fclose(file);
    return text;
}

// The ratio that our own JSON holds for a case; 0: none.
static inline double bench_baseline_of(const char *text, const char *name) {
    char key[160];
    snprintf(key, sizeof key, "\"name\": \"%s\", \"ratio\": ", name);
    const char *at = strstr(text, key);
    return at ? atof(at + strlen(key)) : 0;
}

// What a case must reach: its bar if bars count, and nearly the baseline's ratio.
static inline double bench_least(const struct bench_case *c, bool bars, const char *baseline) {
    double least = bars ? c->bar : 0, before = baseline ? bench_baseline_of(baseline, c->name) : 0;
    double near = before * (100 - BENCH_TOLERANCE) / 100;
    return near > least ? near : least;
}

// What a benchmark cannot go on without.
static inline void need(bool done) {
    if (done)
        return;
    fprintf(stderr, "benchmark failed: %s\n", zl_error() ? zl_error() : "");
    exit(2);
}

// Evaluated, and held for ever.
static inline zl_array kept(zl_array x) {
    need(x && zl_eval(zl_retain(x)));
    return x;
}

#endif
