// layout.h - which thread of a group holds which element of a tile, in which of its registers. Between the
// files of pass/ only.
//
// A thread's number is a number in mixed radix, and so is that of a register: each digit steps along one axis
// of the tile. The accumulator of a matrix instruction, rows that all threads of a quad hold, tiles cut into
// vectors: all are such lists.

#ifndef LAYOUT_H
#define LAYOUT_H

#include "pass/pass.h"
#include "tile/notation.h"

enum { LAYOUT_DIGITS = 12, LAYOUT_COPIES = -1 };

struct layout_digit {
    int axis; // LAYOUT_COPIES: threads that differ in it hold the same elements
    int size, step;
};

struct layout {
    int threads, slots; // digits, the lowest first
    struct layout_digit thread[LAYOUT_DIGITS], slot[LAYOUT_DIGITS];
};

static inline bool layout_is_power(int64_t n) { return n > 0 && (n & (n - 1)) == 0; } // of two
static inline int  layout_log(int64_t n) { return 63 - __builtin_clzll((uint64_t)n); } // of such a power

int  layout_registers(const struct layout *l);
bool layout_equal(const struct layout *a, const struct layout *b);
int  layout_below(const struct layout *l, int at); // threads that the digits before this one count
int  layout_copies(const struct layout *l); // threads that hold the same element

// Cuts a tile into vectors of `vector` elements, threads along the last axis first, of which it takes `along`
// at most.
bool layout_blocked(struct layout *l, int axes, const int64_t *size, int threads, int along, int vector);
// A product of registers: each thread has some rows times some columns.
bool layout_outer(struct layout *l, int64_t rows, int64_t columns, int threads);
// The accumulator of m16n8 instructions, of `down` times `across` subgroups of 32.
bool layout_matrix(struct layout *l, int64_t rows, int64_t columns, int down, int across);

// The layout of a tile that has only some axes of another: to[axis] is its own axis, or LAYOUT_COPIES.
struct layout layout_project(const struct layout *l, const int *to);
// Adds an axis of that size: threads that held copies divide it by vectors, registers take the rest.
void layout_extend(struct layout *l, int axis, int64_t size, int64_t vector);

// Expressions of u32 ----------------------------------------------------------------------------------------

// digit: the value of each slot digit. Where along the axis the thread's element is.
expr layout_index(const struct layout *l, int axis, expr thread, const expr *digit);
// The register of a tile whose layout is part of another, by that one's slot digits (axis names as in
// layout_project).
expr layout_register(const struct layout *part, const struct layout *whole, const int *to, const expr *digit);
// True for one of the threads that hold copies; NULL: there are none.
expr layout_first(const struct layout *l, expr thread);
// One digit of a thread's number.
expr layout_thread_digit(const struct layout *l, int at, expr thread);

#endif
