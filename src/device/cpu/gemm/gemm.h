// gemm.h - the inside of our own matrix product: the micro-kernels, the packing of matrices for them, the
// driver.
//
// A line is a row of a or a column of b: k elements.

#ifndef GEMM_H
#define GEMM_H

#include "device/cpu/gemm/product.h"

// Computes c, a tile of the sums' dtype whose rows are c_row elements apart: a panel of a times a panel of b,
// plus the old c if `add`. k is a multiple of the kernel's step. Reads up to GEMM_SLACK bytes past the ends
// of both panels.
typedef void gemm_micro_fn(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add);
// Does the same for some whole, consecutive tiles of c, whose panels of a are `apart` bytes from each other.
// k is at least twice the kernel's step. Also reads up to GEMM_SLACK bytes of the panel of a that would
// follow the last.
typedef void gemm_tiles_fn(int64_t k, const void *a, int64_t apart, const void *b, void *c, int64_t tiles,
                           bool add);
enum { GEMM_SLACK = 256 };
// What a kernel prefetches while it multiplies: the tile of c, into L1, and pieces as long as a row of the
// tile, into L2, one per GEMM_AHEAD_STEPS steps along k. The first piece is at `from`, each next one `apart`
// bytes further. If `pack` is not NULL, the kernel also packs a panel of b there: its argument b is then rows
// of a matrix, b_row bytes from each other, and its unit and step are 1.
struct gemm_ahead {
    const char *from;
    int64_t apart;
    int64_t b_row;
    void *pack;
};
enum { GEMM_AHEAD_STEPS = 8, GEMM_LINE = 64 };
typedef void gemm_ahead_fn(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add,
                           const struct gemm_ahead *ahead);
// What happens to the old sums in c: they are overwritten; the new sums are added to them; or they are the
// start values, to which products are added one by one.
enum gemm_sums { GEMM_SET, GEMM_ADD, GEMM_CONTINUE };
// Computes c (GEMM_LINES rows of the sums' dtype, c_row elements apart): as many lines of k elements, read in
// place, times a panel. k is a multiple of the kernel's step. Reads up to GEMM_SLACK bytes past the end of
// the panel, but nothing past the ends of the lines.
typedef void gemm_lines_fn(int64_t k, const void *const *lines, const void *panel, void *c, int64_t c_row,
                           enum gemm_sums sums);
enum { GEMM_LINES = 6, GEMM_VECTORS_LEAST = 2, GEMM_VECTORS_MOST = 4 };
// Adds to tiles of c, which are `apart` bytes from each other: GEMM_ACROSS rows, packed as panel a, times as
// many rows of b as `lines` says, read in place, b_row bytes from each other. A tile has GEMM_ACROSS
// contiguous rows of GEMM_ACROSS_BYTES, and each tile takes the columns of b after those of the tile before.
// May prefetch past the ends of rows.
typedef void gemm_across_fn(int64_t lines, const void *a, const void *b, int64_t b_row, void *c,
                            int64_t apart, int64_t tiles);
enum { GEMM_ACROSS = 4, GEMM_ACROSS_BYTES = 64 };

// A panel of a has `rows` lines along k, a panel of b `cols`. They are packed in turn, `unit` elements of
// each line at a time, and padded with zeros to whole panels and whole steps.
struct gemm_kernel {
    const char *name;
    const char *needs; // as in cpu_has; NULL: every CPU of the architecture has it
    zl_dtype dtype;    // of a and b
    zl_dtype sum;      // of c
    int rows, cols;
    int unit, step;    // elements along k: contiguous for each line; multiplied at once
    gemm_micro_fn *run;
    int a_unit;             // the unit of a, if it is not that of b; else 0
    int b_cols;             // columns of each of the consecutive panels that form one of b; 0: it is one
    uint8_t flip;           // bits that are flipped in every byte of b when it is packed
    int l1_eighths;         // eighths of L1 that a panel of a and one of b may take; 0: half of L1
    void (*open)(void);     // a thread calls it before it runs the kernel, any number of times,
    void (*close)(void);    // and this afterwards. NULL: nothing to call
    bool fetches;           // the kernel prefetches by itself
    gemm_tiles_fn *run_tiles; // or NULL, as for all functions below
    gemm_ahead_fn *run_ahead;
    gemm_ahead_fn *run_packing; // also packs
    // The same as `run`; with a k of 128, it prefetches GEMM_AHEAD bytes from each of GEMM_STREAMS addresses.
    void (*fetching)(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add,
                     const char *const *ahead);
    // Multiplies the first four rows of a panel with two panels of b.
    void (*four)(int64_t k, const void *a, const void *b, const void *next, void *c, int64_t c_row, bool add,
                 const char *const *ahead);
    // For panels of two, three and four vectors of 16 bytes.
    gemm_lines_fn *lines[GEMM_VECTORS_MOST - GEMM_VECTORS_LEAST + 1];
    gemm_across_fn *across;
    const struct gemm_kernel *like; // the kernel whose order of sums it keeps to; NULL: it has its own
};
enum { GEMM_AHEAD = 1024, GEMM_STREAMS = 3 };
enum { GEMM_ROWS_MOST = 32, GEMM_COLS_MOST = 64 };

// The best kernels come first. The last entry of each file has no name.
extern const struct gemm_kernel gemm_kernels_sve[], gemm_kernels_neon[];
extern const struct gemm_kernel gemm_kernels_amx[], gemm_kernels_vnni[], gemm_kernels_avx512_bf16[],
    gemm_kernels_avx512[], gemm_kernels_avx2[];
extern const struct gemm_kernel gemm_kernels_any[];

// Returns the i-th of all kernels in the library, or NULL past the last.
const struct gemm_kernel *gemm_kernel_at(int i);
// Returns whether this CPU has what the kernel needs.
bool gemm_can_run(const struct gemm_kernel *k);
// Returns whether the CPU can run the kernel, which packs both factors alike and needs neither open nor
// close.
bool gemm_is_plain(const struct gemm_kernel *k);
// Returns the best kernel of this CPU for matrices of a dtype, which may be packed as a wider dtype. NULL:
// there is none.
const struct gemm_kernel *gemm_kernel_for(zl_dtype dtype);
// Returns that kernel, or one with the same order of sums whose panels are filled better by so many columns.
// There must be a kernel for the dtype.
const struct gemm_kernel *gemm_kernel_for_columns(zl_dtype dtype, int64_t columns);

// gemm_order.c: the order in which an element of the result is summed. It depends on k, the kernel and the
// layout of b, but not on the number of rows: a row has the same bits whatever rows and batches are computed
// with it, and every way to multiply keeps to this order. k is divided into spans of equal length. Element i
// of a span belongs to chain i % chains. The products of a chain are added in order, starting from zero, with
// fused multiply-adds (or whatever the kernel's instruction does); then the sums of all chains are added in
// order.
struct gemm_order {
    int64_t k, span, spans; // elements; span is a multiple of chains times the kernel's step
    int chains;             // GEMM_CHAINS, one for each lane of a vector, or 1
    int step;               // of the kernel
};
enum { GEMM_CHAINS = 4 };
// Returns the order for a kernel and a k. along: the result of gemm_is_along().
struct gemm_order gemm_order_of(const struct gemm_kernel *u, int64_t k, bool along);
// Returns whether columns of b are contiguous along k: dot products of vectors are then the fastest way to
// multiply few rows.
bool gemm_is_along(const struct gemm *g);

// Returns whether all ways to multiply such matrices keep to this order: if they can (gemm_ways_agree), and
// ZL_BATCH_INVARIANT requires it or b is so small that it costs nothing. Otherwise the ways for few rows may
// sum in an order that reads b faster; that order does not depend on the number of rows either.
bool gemm_keeps_order(zl_dtype dtype, const struct gemm *g);
// Returns whether all ways can keep to this order on this architecture; otherwise only cpu_own_gemm does.
bool gemm_ways_agree(void);

// A chain: elements first, first + apart, ..., `count` of them. When packed, it is padded to `length`
// elements, and begins at element `at` of the packed line.
struct gemm_chain {
    int64_t first, apart, count, at, length;
};
// Returns the chain with a number from 0 to spans * chains - 1.
struct gemm_chain gemm_chain_at(const struct gemm_order *o, int64_t chain);
// Returns how many elements a span has: the last one may be shorter.
static inline int64_t gemm_span_elements(const struct gemm_order *o, int64_t span) {
    return MIN_OF(o->span, o->k - span * o->span);
}
// Returns the number of elements of a packed line, with the padding of all chains.
int64_t gemm_padded(const struct gemm_order *o);

// Prefetches a cache line. Rows of a matrix that are read in turn along k have to be prefetched by software,
// because no processor predicts where the next row begins. The address may be outside of the matrix. It must
// be inlined: gcc drops calls of a function that only prefetches.
static inline __attribute__((always_inline)) void gemm_fetch(const void *from, int64_t bytes) {
    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)bytes), 0, 2);
}

// Prefetches a piece at `ahead`, and a row of the tile of c, if not NULL.
static inline __attribute__((always_inline)) void gemm_fetch_row(const char *ahead, const void *row,
                                                                 int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += GEMM_LINE)
        __builtin_prefetch(ahead + at, 0, 2);
    for (int64_t at = 0; row && at < bytes; at += GEMM_LINE)
        __builtin_prefetch((const char *)row + at, 1, 3);
}

// gemm_pack.c -----------------------------------------------------------------------------------------------

// How lines of k elements are packed into panels.
struct gemm_packing {
    int64_t item;      // bytes of a packed element
    int64_t from_item; // bytes of an element of the matrix
    row_fn *widen;     // converts elements; NULL: both dtypes are the same
    int unit, step;
};
// Packs `count` lines of k elements each as consecutive panels of `width` lines. Strides are in bytes.
// `spare` more lines after the last may be read.
void gemm_pack(const struct gemm_packing *p, char *to, int64_t width, const char *from, int64_t k_stride,
               int64_t line_stride, int64_t k, int64_t count, int64_t spare);
// Packs a span of these lines: chain c goes to to[c]. `from` is the first element of the lines, not of the
// span.
void gemm_pack_span(const struct gemm_packing *p, const struct gemm_order *o, int64_t span,
                    char *const to[GEMM_CHAINS], int64_t width, const char *from, int64_t k_stride,
                    int64_t line_stride, int64_t count, int64_t spare);

// gemm_own.c ------------------------------------------------------------------------------------------------

// One product and how it is computed.
struct gemm_work {
    const struct gemm *g;
    zl_dtype dtype, out; // of a and b; of c: the sums' dtype, or a narrower one if nothing is added to c
    const struct gemm_kernel *kernel;
    // Called for each finished block of c, by the thread that computed it, while it is in the cache; may be
    // NULL.
    void (*done)(void *data, int64_t row, int64_t col, int64_t rows, int64_t cols);
    void *data;
    bool whole_rows;    // `done` needs all columns of its rows at once; only if gemm_has_whole_rows() returns
                        // true
    row_fn *widen;      // converts elements of a and b to those of the kernel; NULL: a cast
    const float *scale; // factor of float32 sums before they are rounded; NULL: none
};
// Computes a product by all threads that this one may use; the result does not depend on their number.
// Returns false, with an error, if memory runs out.
bool gemm_multiply(const struct gemm_work *w);
// Returns whether, with whole_rows, a thread would call `done` for all columns of a block of rows, in order,
// before it computes other rows.
bool gemm_has_whole_rows(const struct gemm_work *w);

// A matrix that is a factor of several products, of the same sizes and dtype, can be packed once.

// Returns the bytes of a packed factor (0: a, 1: b).
size_t gemm_packed_bytes(const struct gemm_work *w, int factor);
// Packs a factor on this thread.
void gemm_pack_factor(const struct gemm_work *w, int factor, char *to);
// Computes a product of packed factors on this thread. Returns false, with an error, if memory runs out.
bool gemm_multiply_packed(const struct gemm_work *w, const char *a, const char *b);

// Computes all products of a batched call (cpu_gather_mm.c); `how` has what they have in common. Returns
// false, with an error, if memory runs out.
bool gemm_batches(const struct call *c, const struct gemm_work *how);

// A few vectors times a matrix of n lines along k. Strides are in elements; results are float32, or int32 for
// int8.
struct gemm_lines {
    int64_t count, k, n;
    const char *x, *a;
    int64_t x_row, x_col, line;
    char *y;
    int64_t y_row, y_col;
};
// Multiplies bfloat16 where the CPU has amx_bf16, or int8 where it has amx_int8, on this thread (gemm_amx.c).
// n is at least GEMM_AMX_LINES. Returns false, with an error, if memory runs out.
bool gemm_amx_lines(zl_dtype dtype, const struct gemm_lines *l);
enum { GEMM_AMX_LINES = 64 };

// Computes a product of int8 by all threads if gemm_dots.c supports so few rows or columns, and sets *done to
// whether it does. Returns false, with an error, if memory runs out.
bool gemm_few_bytes(const struct gemm *g, bool *done);

// Computes a product of complex64 (gemm_complex.c). Returns false, with an error, if memory runs out.
bool gemm_complex(const struct gemm *g);

#endif
