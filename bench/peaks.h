// peaks.h - how fast the instructions of matrix products are: multiply-adds of each dtype, on all cores at
// once.

#ifndef PEAKS_H
#define PEAKS_H

#include "bench.h"
#include "instructions.h"

enum { PEAK_LOOPS = 4000 };

struct peak {
    const struct bench_instruction *instruction;
    double best; // seconds
};

static const struct peak *peak_now; // that the crew repeats

static void peak_part(int part, int parts) {
    (void)part, (void)parts;
    peak_now->instruction->repeat(PEAK_LOOPS);
}

static void measure_peak(struct peak *p) {
    peak_now = p;
    double took = bench_on_all_cores(peak_part);
    p->best = p->best > 0 && p->best < took ? p->best : took;
}

// Operations per second of all cores.
static double peak_rate(const struct peak *p) {
    return p->instruction->operations * PEAK_LOOPS * zl_threads() / p->best;
}

#endif
