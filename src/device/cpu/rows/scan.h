// scan.h - chains: several scans that run side by side, so that their operations do not wait for each other.

#ifndef SCAN_H
#define SCAN_H

#include "device/cpu/cpu.h"
#include "op/ops.h"

enum {
    SCAN_CHAINS = 32, // chains at most
    SCAN_STRIP = 512, // elements of a long row that are scanned at once
};

// Chains of n contiguous elements each, whose first elements are `apart` elements from each other.
struct chains {
    char *to;
    const char *from; // may be `to`
    int64_t to_apart, from_apart;
    int64_t n; // at least 1
    int count; // chains: multiples of 4 are fastest
};
// Scans chains. rows: kernels that combine elements, by form; used for operations without a C operator.
typedef void scan_chains_fn(const struct chains *c, row_fn *const *rows);
// Returns the function for a scan of a dtype, or NULL if there is none.
scan_chains_fn *cpu_scan_chains(enum scan which, zl_dtype dtype);

// Computes the last element of a scan of n elements, with the same bits as a chain has; n: SCAN_STRIP or
// another multiple of 64.
typedef void scan_total_fn(const char *from, int64_t n, void *total);
// Returns the function for a scan of a dtype, or NULL if there is none.
scan_total_fn *cpu_scan_total(enum scan which, zl_dtype dtype);

// scan_logs.c -----------------------------------------------------------------------------------------------

struct scan_logs {
    double max, sum; // of the elements so far: the maximum, and the sum of exp(x - max)
};
// Returns the state before the first element of a row.
struct scan_logs cpu_scan_logs_start(void);
// Scans the next elements of a row of float32 or float64 by logaddexp, at most SCAN_STRIP; to may equal x.
void cpu_scan_logs(struct scan_logs *s, zl_dtype dtype, const void *x, void *to, int64_t n);

#endif
