// index.h - indices read as positions, elements selected by them, and slices that are copied or combined.

#ifndef INDEX_H
#define INDEX_H

#include "device/cpu/rows/operands.h"

// positions.c -----------------------------------------------------------------------------------------------

// Indices: integers of any dtype and layout, read as int64 in row-major order. Larger uint64 are read as
// INT64_MAX.
enum { INDICES_BLOCK = 256 };
struct indices {
    const char *data;
    int64_t step; // bytes
    zl_dtype dtype;
    void *room; // a copy, if the strides require one
    union scalar value;
};
// Opens the indices of an array, for cpu_indices_close. Returns false, with an error, if memory runs out.
bool cpu_indices_open(struct indices *i, zl_array a);
// Frees the copy, if there is one.
void cpu_indices_close(struct indices *i);
// Reads n indices of a dtype that are `step` bytes apart.
void cpu_indices_read(const char *data, int64_t step, zl_dtype dtype, int64_t n, int64_t *out);
// Reads n of the opened indices, from index `from` on.
static inline void cpu_indices_next(const struct indices *i, int64_t from, int64_t n, int64_t *out) {
    cpu_indices_read(i->data + from * i->step, i->step, i->dtype, n, out);
}

// An indexed axis: its elements, the last valid position, and the bytes from one element to the next.
struct indices_axis {
    int64_t dim, last, step;
};
// Adds to offset[k], for k in [0, n), the bytes to the position of index from + k along the axis. An index
// out of range is clamped.
void cpu_indices_add(const struct indices *i, const struct indices_axis *axis, int64_t from, int64_t n,
                     int64_t *offset);

// Returns an index into `dim` elements, where negative ones count from the end.
static inline int64_t cpu_from_start(int64_t index, int64_t dim) {
    return index < 0 ? index + dim : index;
}
// Returns the same, clamped to [0, last].
static inline int64_t cpu_position(int64_t index, int64_t dim, int64_t last) {
    int64_t at = cpu_from_start(index, dim);
    return at < 0 ? 0 : at > last ? last : at;
}

// elements.c ------------------------------------------------------------------------------------------------

// Gathers the elements at from + offset[i] into contiguous memory.
typedef void gather_fn(char *to, const char *from, const int64_t *offset, int64_t n);
// Returns the function for elements of `item` bytes (1, 2, 4 or 8).
gather_fn *cpu_gather_elements(size_t item);
// An axis, and several elements that each have an index along it; these elements are `apart` bytes from each
// other.
struct indexed {
    char *data;
    int64_t dim, step, apart; // elements; bytes
};
// Read elements by n contiguous indices of a dtype, or write them. A read clamps indices out of range, a
// write ignores them.
typedef void take_fn(char *to, const struct indexed *x, const char *indices, int64_t n);
typedef void put_fn(const char *from, const struct indexed *x, const char *indices, int64_t n);
// Return the function for a dtype of indices and elements of `item` bytes, the first one to read and the
// second one to write. NULL: there is none for the dtype.
take_fn *cpu_take_elements(zl_dtype index, size_t item);
put_fn *cpu_put_elements(zl_dtype index, size_t item);
// Writes elements, which are `step` bytes apart, to out + offset[i] in order, or combines them with what is
// there. Elements with a negative offset are skipped. update is one of enum update.
typedef void scatter_fn(char *out, const int64_t *offset, const char *from, int64_t step, int64_t n);
// Returns that function for an update and a dtype.
scatter_fn *cpu_scatter_elements(int update, zl_dtype dtype);

// slice_move.c ----------------------------------------------------------------------------------------------

// Slices of one shape that are copied, or combined with their destination.
struct slice_move {
    size_t item;
    size_t run;           // bytes of a slice that is contiguous on both sides; 0: it is not contiguous
    row_fn *combine;      // NULL: slices are copied
    scatter_fn *elements; // used if rows are not contiguous
    struct layout layout; // of at least two axes, some of which may have size 1; operands: to, from
};
// Plans how slices of a shape are copied or combined. Strides are in elements. update is one of enum update.
void cpu_slice_plan(struct slice_move *s, zl_dtype dtype, int update, int ndim, const int64_t *dim,
                    const int64_t *to_stride, const int64_t *from_stride);
// Moves a slice whose `run` is 0.
void cpu_slice_strided(const struct slice_move *s, char *to, const char *from);
// Returns the row kernel that combines elements, or NULL if the second one replaces the first.
row_fn *cpu_update_row(int update, zl_dtype dtype);

// Copies `bytes` bytes.
static inline void cpu_slice_run(char *to, const char *from, size_t bytes) {
    switch (bytes) { // sizes of elements: one load and one store each
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, bytes);
    }
}

// Copies a slice to its destination, or combines both, as planned.
static inline void cpu_slice_move(const struct slice_move *s, char *to, const char *from) {
    if (UNLIKELY(!s->run))
        cpu_slice_strided(s, to, from);
    else if (s->combine)
        cpu_call_row(s->combine, to, to, from, NULL, s->layout.size);
    else
        cpu_slice_run(to, from, s->run);
}

#endif
