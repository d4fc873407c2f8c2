// argreduce.h - elements of a dtype as bytes: compared, and found among others.

#ifndef ARGREDUCE_H
#define ARGREDUCE_H

#include "device/cpu/cpu.h"

// What is compared is kept as extremes are: 16-bit floats as float32. What is found is an element.
struct element_search {
    // Returns the position of the first element that equals value, or of the first NaN if value is NaN, or n.
    int64_t (*find)(const char *from, int64_t n, const char *value);
    bool (*less)(const char *a, const char *b);
    bool (*is_nan)(const char *a);
};
// Returns these functions for a dtype.
struct element_search cpu_element_search(zl_dtype dtype);

// argreduce_columns.c ---------------------------------------------------------------------------------------

// How extremes of columns are found.
typedef void better_fn(const char *row, int64_t n, int64_t at, void *values, void *positions);
struct column_search {
    better_fn *better;
    row_fn *widen; // NULL: elements are compared as they are
    int64_t item;  // bytes of the values that are compared
};
enum { COLUMNS_MOST = 512 };
// Returns false if the dtype has none.
bool cpu_argreduce_columns(zl_dtype dtype, bool is_max, struct column_search *s);
// Writes the position, as uint32, of the extreme of each of n columns, at most COLUMNS_MOST; rows are
// `stride` bytes apart.
void cpu_argreduce_rows(const struct column_search *s, const char *rows, int64_t stride, int64_t count,
                        int64_t n, char *to);

#endif
