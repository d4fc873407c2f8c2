// layout.h - which thread of a workgroup holds which element of a tile, and in which of its registers. Shared
// by files of pass/ only.
//
// The number of a thread is a number in mixed radix, and so is that of a register: each digit steps along one
// axis of the tile. Such lists of digits describe the accumulator of a matrix instruction, rows that all
// threads of a quad hold, and tiles cut into vectors.

#ifndef LAYOUT_H
#define LAYOUT_H

#include "pass/pass.h"
#include "tile/notation.h"

// An axis has at most two digits of registers, a vector and the number of the vector, and one of threads.
enum { LAYOUT_DIGITS = 2 * TILE_DIMS, LAYOUT_COPIES = -1 };

struct layout_digit {
    int axis; // LAYOUT_COPIES: threads that differ in it hold the same elements
    int size, step;
};

struct layout {
    int threads, slots; // digits, the lowest first
    struct layout_digit thread[LAYOUT_DIGITS], slot[LAYOUT_DIGITS];
};

static inline bool layout_is_power(int64_t n) { return n > 0 && (n & (n - 1)) == 0; } // of two
static inline int  layout_log(int64_t n) { return 63 - __builtin_clzll((uint64_t)n); } // of a power of two

// Returns the registers that each thread needs for the tile.
int  layout_registers(const struct layout *l);
// Returns whether two layouts have the same digits.
bool layout_equal(const struct layout *a, const struct layout *b);
// Returns the weight of a digit of the thread's number: the product of the sizes of the digits before it.
int  layout_below(const struct layout *l, int at);
// Returns how many threads hold the same element.
int  layout_copies(const struct layout *l);

// Makes a layout that cuts a tile into vectors of at most `vector` elements. Threads are distributed along
// the last axis first, at most `along` of them, then along the others; threads that are left hold copies.
// Returns false for a tile without axes.
bool layout_blocked(struct layout *l, int axes, const int64_t *size, int threads, int along, int vector);
// Makes the layout of a product that is computed in registers: each thread has some rows times some columns.
// Returns false if the threads do not divide the tile.
bool layout_outer(struct layout *l, int64_t rows, int64_t columns, int threads);
// Makes the layout of the accumulator of m16n8 instructions, divided among `down` times `across` subgroups of
// 32 threads. Returns false if these do not divide the tile.
bool layout_matrix(struct layout *l, int64_t rows, int64_t columns, int down, int across);

// Returns the layout of a tile that has only some axes of another: to[axis] is its own axis, or
// LAYOUT_COPIES.
struct layout layout_project(const struct layout *l, const int *to);
// Adds an axis of `size` elements: threads that held copies divide it into vectors, registers take the rest.
void layout_extend(struct layout *l, int axis, int64_t size, int64_t vector);

// Expressions of u32 ----------------------------------------------------------------------------------------

// Returns the index of the thread's element along an axis. `digit` has the value of each slot digit.
expr layout_index(const struct layout *l, int axis, expr thread, const expr *digit);
// Returns the number of the register of a tile whose layout is part of another, from the slot digits of that
// one. `to` is that of layout_project.
expr layout_register(const struct layout *part, const struct layout *whole, const int *to, const expr *digit);
// Returns a test that is true in one of the threads that hold copies; NULL: there are no copies.
expr layout_first(const struct layout *l, expr thread);
// Returns one digit of a thread's number.
expr layout_thread_digit(const struct layout *l, int at, expr thread);

#endif
