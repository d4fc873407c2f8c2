// peaks.h - how fast the instructions of matrix products are: multiply-adds of each dtype, on all cores at once.

#ifndef PEAKS_H
#define PEAKS_H

#include "bench.h"
#include "instructions.h"

enum { PEAK_LOOPS = 4000 };

// What our products are measured by, the best first for each dtype. f16 is summed in f32.
static struct peak {
    zl_dtype dtype;
    const char *name;
    const struct bench_instruction *instruction; // NULL: not asked for yet
    double best;                                 // seconds
} peaks[] = {
    {ZL_FLOAT32, "fmla f32"},     {ZL_FLOAT32, "fma f32 512"},   {ZL_FLOAT32, "fma f32 256"},
    {ZL_BFLOAT16, "bfmmla"},      {ZL_BFLOAT16, "tdpbf16ps"},    {ZL_BFLOAT16, "dpbf16ps 512"},
    {ZL_BFLOAT16, "fma f32 512"}, {ZL_BFLOAT16, "fma f32 256"},  {ZL_INT8, "smmla"},
    {ZL_INT8, "tdpbssd"},         {ZL_INT8, "dpbusd 512"},       {ZL_FLOAT16, "fmlal f16"},
    {ZL_FLOAT16, "fma f32 512"},  {ZL_FLOAT16, "fma f32 256"},   {ZL_FLOAT64, "fmla f64"},
    {ZL_FLOAT64, "fma f64 512"},  {ZL_FLOAT64, "fma f64 256"},
};

static const struct peak *peak_now; // that the crew repeats

static void peak_part(int part, int parts) {
    (void)part, (void)parts;
    peak_now->instruction->repeat(PEAK_LOOPS);
}

// The best instruction for a dtype that the CPU has; NULL: none.
static struct peak *find_peak(zl_dtype dtype) {
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++) {
        peaks[i].instruction = bench_instruction_find(peaks[i].name);
        if (peaks[i].dtype == dtype && peaks[i].instruction && peaks[i].instruction->is_here())
            return &peaks[i];
    }
    return NULL;
}

static void measure_peak(struct peak *p) {
    peak_now = p;
    double took = bench_on_all_cores(peak_part);
    p->best = p->best > 0 && p->best < took ? p->best : took;
}

// Operations a second of all cores.
static double peak_rate(const struct peak *p) {
    return p->instruction->operations * PEAK_LOOPS * zl_threads() / p->best;
}

#endif
