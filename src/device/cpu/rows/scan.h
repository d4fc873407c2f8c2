// scan.h - chains: several scans that go along side by side, so that none waits for the one operation before.

#ifndef SCAN_H
#define SCAN_H

#include "device/cpu/cpu.h"
#include "op/ops.h"

enum {
    SCAN_CHAINS = 32, // at most
    SCAN_STRIP = 512, // elements of a long line that are scanned at once
};

// Chains that begin `apart` elements from each other, each of n elements consecutive.
struct chains {
    char *to;
    const char *from; // may be `to`
    int64_t to_apart, from_apart;
    int64_t n; // at least 1
    int count; // of chains: multiples of 4 are quickest
};
// rows combine elements, by their form; they are used where no C operator does.
typedef void scan_chains_fn(const struct chains *c, row_fn *const *rows);
// Returns the function for a scan of a dtype, or NULL if there is none.
scan_chains_fn *cpu_scan_chains(enum scan which, zl_dtype dtype);

// The last element of a scan of SCAN_STRIP elements or another multiple of 64, bit by bit that of a chain.
typedef void scan_total_fn(const char *from, int64_t n, void *total);
// Returns the function for a scan of a dtype, or NULL if there is none.
scan_total_fn *cpu_scan_total(enum scan which, zl_dtype dtype);

// scan_logs.c -----------------------------------------------------------------------------------------------

struct scan_logs {
    double max, sum; // of what was seen; sum: of exp(x - max)
};
// Returns the state before the first element of a line.
struct scan_logs cpu_scan_logs_start(void);
// Scans the next elements of a line of float32 or float64, at most SCAN_STRIP, by logaddexp; to may be x.
void cpu_scan_logs(struct scan_logs *s, zl_dtype dtype, const void *x, void *to, int64_t n);

#endif
