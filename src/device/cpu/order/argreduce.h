// argreduce.h - comparing elements of a dtype, and finding one among others, as bytes.

#ifndef ARGREDUCE_H
#define ARGREDUCE_H

#include "device/cpu/cpu.h"

// Functions of a dtype. Extremes are compared: elements, or float32 for 16-bit floats. What is found is an
// element.
struct element_search {
    // Returns the position of the first element that equals value, or of the first NaN if value is NaN, or n.
    int64_t (*find)(const char *from, int64_t n, const char *value);
    bool (*less)(const char *a, const char *b);
    bool (*is_nan)(const char *a);
};
// Returns the functions of a dtype.
struct element_search cpu_element_search(zl_dtype dtype);

// argreduce_columns.c ---------------------------------------------------------------------------------------

// How the extremes of columns are found: `better` compares a row with the best of each column so far.
typedef void better_fn(const char *row, int64_t n, int64_t at, void *values, void *positions);
struct column_search {
    better_fn *better;
    row_fn *widen; // NULL: elements are compared as they are
    int64_t item;  // bytes of a compared value
};
enum { COLUMNS_MOST = 512 };
// Sets *s for a dtype. Returns false if there is no function for it.
bool cpu_argreduce_columns(zl_dtype dtype, bool is_max, struct column_search *s);
// Writes, for each of n columns, the position of its extreme as uint32. n is at most COLUMNS_MOST; rows are
// `stride` bytes apart.
void cpu_argreduce_rows(const struct column_search *s, const char *rows, int64_t stride, int64_t count,
                        int64_t n, char *to);

#endif
