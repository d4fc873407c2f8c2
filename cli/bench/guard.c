// guard.c - judges a row: its rate, its fraction of the peak, the roofline. A rate above the peak is
// impossible, so something is wrong, and the note has the most likely cause.

#include "bench.h"

#include <string.h>
#include <unistd.h>

// Returns the factor by which a rate may exceed its peak. Measured peaks vary a little from run to run, that
// of memory more than those of instructions.
static double tolerance(const struct bench_subject *s, bool counts_bytes) {
    return !s->is_measured ? 1 : counts_bytes ? 1.2 : 1.02;
}

enum { CACHED_BYTES = 128 << 20 }; // smaller arrays may come from caches

// Returns the size below which arrays may come from caches. Some CPUs have larger ones: 300 MiB were seen.
// (sysconf returns -1 or 0 if the system does not know.)
static double cached_bytes(const struct bench_subject *s) {
    return s->is_modelled
               ? 0
               : fmax(CACHED_BYTES, s->is_measured ? 2.0 * (double)sysconf(_SC_LEVEL3_CACHE_SIZE) : 0);
}

static void set_peak(struct bench_row *row, const struct bench_subject *s) {
    const struct bench_peak *peak = &s->peak[row->config.dtype];
    bool counts_flops = !strcmp(row->unit, "FLOP"), counts_bytes = !strcmp(row->unit, "B");
    row->peak = row->limit = NAN;
    if (counts_flops) {
        double at_memory = row->flops / row->bytes * s->bandwidth;
        row->peak = peak->rate;
        row->memory_bound = at_memory < peak->rate;
        row->limit = isnan(at_memory) ? peak->rate : fmin(peak->rate, at_memory);
        snprintf(row->path, sizeof row->path, "%s", peak->path);
    } else if (counts_bytes && row->bytes >= cached_bytes(s) && strcmp(row->config.work, "transfer")) {
        row->peak = row->limit = s->bandwidth;
        row->memory_bound = true;
    }
}

void bench_judge(struct bench_row *row, const struct bench_subject *s) {
    double work = !strcmp(row->unit, "FLOP") ? row->flops : !strcmp(row->unit, "B") ? row->bytes : row->items;
    row->rate = work / row->stats.median;
    if (row->status != BENCH_OK)
        row->rate = NAN;
    set_peak(row, s);
    row->utilisation = row->rate / row->peak;
    bench_guard(row, s);
}

// Causes, in the order in which they are likely -------------------------------------------------------------

// Finds another dtype in which f32 may have been computed, whose peak explains the rate.
static bool other_path(const struct bench_row *row, const struct bench_subject *s, char *out, size_t bytes) {
    static const enum bench_dtype paths[] = {BENCH_TF32, BENCH_BF16, BENCH_F16};
    double best = INFINITY;
    int found = -1;
    for (size_t i = 0; row->config.dtype == BENCH_F32 && i < sizeof paths / sizeof *paths; i++) {
        double rate = s->peak[paths[i]].rate;
        if (rate >= row->rate && rate < best) {
            best = rate;
            found = (int)paths[i];
        }
    }
    if (found >= 0)
        snprintf(out, bytes, "%s ran the %s path, of whose peak it is %.1f %%",
                 bench_dtype_name(row->config.dtype), bench_dtype_name((enum bench_dtype)found),
                 100 * row->rate / best);
    return found >= 0;
}

static void add_cause(char *note, size_t bytes, const char *cause) {
    size_t used = strlen(note);
    if (used < bytes)
        snprintf(note + used, bytes - used, "%s%s", used ? "; or " : "", cause);
}

static void find_memory_causes(const struct bench_row *row, const struct bench_subject *s, char *note,
                               size_t bytes) {
    if (s->devices_per_chip > 1 && row->utilisation <= s->devices_per_chip)
        add_cause(note, bytes, "the device is a whole chip, the peak that of a part of one");
    add_cause(note, bytes, "some of the bytes were still in a cache");
    add_cause(note, bytes, "the memory's peak is wrong");
}

static void find_causes(const struct bench_row *row, const struct bench_subject *s, char *note,
                        size_t bytes) {
    const struct bench_peak *peak = &s->peak[row->config.dtype];
    double over = row->utilisation, clock = row->after.clock_mhz;
    char text[160];
    if (other_path(row, s, text, sizeof text))
        add_cause(note, bytes, text);
    if (!strncmp(peak->source, "--peak", 6)) {
        snprintf(text, sizeof text, "the peak is wrong: %s", peak->source);
        add_cause(note, bytes, text);
    }
    if (s->devices_per_chip > 1 && over <= s->devices_per_chip)
        add_cause(note, bytes, "the device is a whole chip, the peak that of a part of one");
    if (clock / peak->clock_mhz >= over * 0.98) {
        snprintf(text, sizeof text, "the clock is %.0f MHz, the peak assumes %.0f", clock, peak->clock_mhz);
        add_cause(note, bytes, text);
    }
    if (over > 1.6 && over <= 2.05 && !s->is_measured)
        add_cause(note, bytes, "a sparse figure would be twice the peak");
    if (over > 2.05 || !note[0])
        add_cause(note, bytes, "part of the work was never done or not waited for");
}

void bench_guard(struct bench_row *row, const struct bench_subject *s) {
    char causes[200];
    bool counts_bytes = !strcmp(row->unit, "B");
    if (row->status != BENCH_OK || !(row->utilisation > tolerance(s, counts_bytes)))
        return;
    row->status = BENCH_SUSPECT;
    causes[0] = 0;
    (counts_bytes ? find_memory_causes : find_causes)(row, s, causes, sizeof causes);
    snprintf(row->note, sizeof row->note, "%.1f %% of the peak: %s", 100 * row->utilisation, causes);
}
