// reduce.h - reductions over any axes of any layout.

#ifndef REDUCE_H
#define REDUCE_H

#include "device/cpu/rows/operands.h"

// cpu_reduce.c, reduce_rows.c, reduce_columns.c -------------------------------------------------------------

enum { REDUCE_OUT, REDUCE_IN, REDUCE_WIDEST = 8 };

// The row kernels that reduce elements of a dtype.
struct reduce_rows {
    row_fn *row;        // reduces elements to one accumulator
    row_fn *join;       // reduces accumulators to one
    row_fn *combine;    // combines two rows of accumulators element by element
    row_fn *widen;      // converts elements to accumulators; NULL: both have the same dtype
    row_fn *narrow;     // converts accumulators to elements
    int64_t item, wide; // bytes of an element and of an accumulator, at most REDUCE_WIDEST
};
// Sets *rows to the row kernels of an op and a dtype. Returns false if there are none.
bool cpu_reduce_choose(struct reduce_rows *rows, enum tile_op op, zl_dtype dtype);
// Converts n elements to accumulators.
void cpu_reduce_load(const struct reduce_rows *by, char *accumulators, const char *elements, int64_t n);
// Converts n accumulators to elements.
void cpu_reduce_store(const struct reduce_rows *by, char *elements, const char *accumulators, int64_t n);

// cpu_reduce_line reduces each contiguous row of REDUCE_LINE_LEAST to REDUCE_LINE_MOST elements separately if
// there are no gaps between rows, however many rows there are. `more` elements that follow the row in memory
// will be read next and are prefetched; 0 if they are not in memory, or are in a cache already.
enum { REDUCE_LINE_LEAST = 32, REDUCE_LINE_MOST = 65536 };
enum { REDUCE_RUN_MOST = 4096 }; // the most elements that one row kernel reduces: longer runs lose accuracy
// Reduces a row of n contiguous elements to one accumulator.
void cpu_reduce_line(const struct reduce_rows *by, const char *from, int64_t n, int64_t more,
                     char *accumulator);

// One reduction, with its axes sorted and merged.
struct reduction {
    struct layout kept;    // operands: output, input
    struct layout reduced; // operand: input
    struct reduce_rows by;
    int64_t segments;      // pieces into which the reduced elements are divided
    const char *end;       // of the input, if it is to be prefetched; else NULL
    char *partial;         // accumulators of the pieces
    int column;            // by columns: the kept axis along which rows of accumulators go
    int64_t columns, fold; // accumulators of such a row; how many rows are combined as one
};
// Reduces along the last reduced axis, by row kernels. Returns false, with an error, if memory runs out.
bool cpu_reduce_by_rows(struct reduction *r);
// Reduces by combining rows along a kept axis. Returns false, with an error, if memory runs out.
bool cpu_reduce_by_columns(struct reduction *r);

// Returns the first element of a piece, as a position in the reduced space.
int64_t cpu_reduce_segment(const struct reduction *r, int64_t segment);
// Returns the row kernel that reduces elements to one, or NULL if there is none.
row_fn *cpu_reduce_row(enum tile_op op, zl_dtype dtype);

#endif
