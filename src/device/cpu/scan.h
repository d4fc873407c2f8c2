// scan.h - chains: several scans that go along side by side, so that none waits for the one operation before.

#ifndef SCAN_H
#define SCAN_H

#include "device/cpu/cpu.h"
#include "op/ops.h"

enum { SCAN_CHAINS = 32 }; // at most

// Chains that begin `apart` elements from each other, each of n elements one behind the other.
struct chains {
    char *to;
    const char *from; // may be `to`
    int64_t to_apart, from_apart;
    int64_t n; // at least 1
    int count; // of chains: multiples of 4 are quickest
};
// rows combine elements, by their form; they are used where no C operator does.
typedef void scan_chains_fn(const struct chains *c, row_fn *const *rows);
scan_chains_fn *cpu_scan_chains(enum scan which, zl_dtype dtype); // NULL: there is none

#endif
