// gemm.h - the inside of our own matrix product: micro-kernels, how matrices are packed for them, the driver.

#ifndef GEMM_H
#define GEMM_H

#include "device/cpu/gemm/product.h"

// c, a tile of the sums' dtype whose rows are c_row elements apart, is a panel of a times a panel of b, added
// to what c holds if `add`. k is a multiple of the kernel's step. Reads up to GEMM_SLACK bytes behind both
// panels.
typedef void gemm_micro_fn(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add);
// The same for some tiles of c, whole and consecutive, of panels of a that are `apart` bytes from each other.
// k is at least twice the kernel's step. Also reads up to as much behind the panel of a after the last.
typedef void gemm_tiles_fn(int64_t k, const void *a, int64_t apart, const void *b, void *c, int64_t tiles,
                           bool add);
enum { GEMM_SLACK = 256 };
// What a kernel fetches while it multiplies: the tile of c, into L1, and pieces as long as a row of that,
// into L2, one per GEMM_AHEAD_STEPS steps along k: the first is at `from`, the next `apart` bytes behind it.
// And where a panel of b is packed meanwhile, if `pack`: `b` are rows of a matrix then, b_row bytes from each
// other, and the kernel's unit and step are 1.
struct gemm_ahead {
    const char *from;
    int64_t apart;
    int64_t b_row;
    void *pack;
};
enum { GEMM_AHEAD_STEPS = 8, GEMM_LINE = 64 };
typedef void gemm_ahead_fn(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add,
                           const struct gemm_ahead *ahead);
// What happens to the sums that c holds: they are overwritten, added to, or the sums go on from them, product
// by product.
enum gemm_sums { GEMM_SET, GEMM_ADD, GEMM_CONTINUE };
// c (GEMM_LINES rows of the sums' dtype, c_row elements apart) is made of as many lines of k elements, where
// they lie, times a panel. k is a multiple of the kernel's step. Reads up to GEMM_SLACK bytes behind the
// panel, but nothing behind a line.
typedef void gemm_lines_fn(int64_t k, const void *const *lines, const void *panel, void *c, int64_t c_row,
                           enum gemm_sums sums);
enum { GEMM_LINES = 6, GEMM_VECTORS_LEAST = 2, GEMM_VECTORS_MOST = 4 };
// Tiles of c, `apart` bytes from each other, GEMM_ACROSS rows of GEMM_ACROSS_BYTES each consecutive, += as
// many rows, packed as a panel, times lines of b where they lie, b_row bytes from each other; the next tile
// has the columns behind. May fetch what is behind a line.
typedef void gemm_across_fn(int64_t lines, const void *a, const void *b, int64_t b_row, void *c,
                            int64_t apart, int64_t tiles);
enum { GEMM_ACROSS = 4, GEMM_ACROSS_BYTES = 64 };

// A panel of a has `rows` lines along k, one of b has `cols`. They lie `unit` elements of each line after
// another, padded with zeros to whole panels and whole steps.
struct gemm_kernel {
    const char *name;
    const char *needs; // as of cpu_has; NULL: every CPU of the architecture has it
    zl_dtype dtype;    // of a and b
    zl_dtype sum;      // of c
    int rows, cols;
    int unit, step;    // elements along k: of one line side by side; done at once
    gemm_micro_fn *run;
    int a_unit;             // the unit of a, where it is not that of b; else 0
    int b_cols;             // columns of the panels that one of b consists of, consecutive; 0: it is one
    uint8_t flip;           // bits of every byte of b that are flipped when it is packed
    int l1_eighths;         // of L1 that two panels may take; 0: half of it
    void (*open)(void);     // what a thread does before it runs the kernel, some times in a row;
    void (*close)(void);    // and afterwards. NULL: nothing
    bool fetches;           // what it needs next by itself
    gemm_tiles_fn *run_tiles; // NULL: it has none
    gemm_ahead_fn *run_ahead; // the same
    gemm_ahead_fn *run_packing; // the same; it packs
    // Where it has them, NULL else: the same, which with a k of 128 fetches GEMM_AHEAD bytes behind each of
    // the addresses;
    void (*fetching)(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add,
                     const char *const *ahead);
    // and the first four rows of a panel times two panels of b.
    void (*four)(int64_t k, const void *a, const void *b, const void *next, void *c, int64_t c_row, bool add,
                 const char *const *ahead);
    // By panels of two, three and four vectors of 16 bytes.
    gemm_lines_fn *lines[GEMM_VECTORS_MOST - GEMM_VECTORS_LEAST + 1];
    gemm_across_fn *across;
    const struct gemm_kernel *like; // whose order of sums it keeps, whatever its sizes; NULL: its own
};
enum { GEMM_AHEAD = 1024, GEMM_STREAMS = 3 };
enum { GEMM_ROWS_MOST = 32, GEMM_COLS_MOST = 64 };

// The best first. Kernels of a file end with one without a name.
extern const struct gemm_kernel gemm_kernels_sve[], gemm_kernels_neon[];
extern const struct gemm_kernel gemm_kernels_amx[], gemm_kernels_vnni[], gemm_kernels_avx512_bf16[],
    gemm_kernels_avx512[], gemm_kernels_avx2[];
extern const struct gemm_kernel gemm_kernels_any[];

// Returns the i-th of all kernels in the library, or NULL past the last.
const struct gemm_kernel *gemm_kernel_at(int i);
// Returns whether this CPU has what the kernel needs.
bool gemm_can_run(const struct gemm_kernel *k);
// Returns whether the CPU can run it, both factors are packed alike, and it needs neither open nor close.
bool gemm_is_plain(const struct gemm_kernel *k);
// Returns the best kernel that this CPU runs for matrices of a dtype, which may be packed as a wider one, or
// NULL if there is none.
const struct gemm_kernel *gemm_kernel_for(zl_dtype dtype);
// Returns that kernel, or one like it whose panels so many columns fill better. There must be one.
const struct gemm_kernel *gemm_kernel_for_columns(zl_dtype dtype, int64_t columns);

// gemm_order.c: the order in which an element of the result is summed. It depends on k, the kernel and the
// layout of b, but not on the number of rows: a row has the same bits whatever rows and batches are computed
// with it, and every way to multiply keeps to this order. k is cut into spans of equal length. Element i of a
// span belongs to chain i % chains. The products of a chain are added in order, starting from zero, with
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
// ZL_BATCH_INVARIANT asks for it or b is so small that it costs nothing. Otherwise those for few rows may sum
// in an order that reads b faster, which does not depend on the number of rows either.
bool gemm_keeps_order(zl_dtype dtype, const struct gemm *g);
// Returns whether all ways can keep to this order on this architecture; else only cpu_own_gemm does.
bool gemm_ways_agree(void);

// A chain: elements first, first + apart, ..., count of them. Packed, it is padded to `length` elements, and
// `at` elements lie before it.
struct gemm_chain {
    int64_t first, apart, count, at, length;
};
// Returns the chain of a number, which counts those of all spans: 0 to spans * chains - 1.
struct gemm_chain gemm_chain_at(const struct gemm_order *o, int64_t chain);
// Returns how many elements a span has: the last may be shorter.
static inline int64_t gemm_span_elements(const struct gemm_order *o, int64_t span) {
    return MIN_OF(o->span, o->k - span * o->span);
}
// Returns the number of elements of all chains of a line, packed.
int64_t gemm_padded(const struct gemm_order *o);

// Fetches a cache line. Rows of a matrix that follow each other along k are fetched by hand, as no processor
// foresees where the next one begins. The address may lie outside of the matrix. Inlined by force: gcc leaves
// out calls that only fetch.
static inline __attribute__((always_inline)) void gemm_fetch(const void *from, int64_t bytes) {
    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)bytes), 0, 2);
}

// Fetches a piece of what is ahead, and a row of the tile of c, if there is one.
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
    int64_t from_item; // and of the matrix's
    row_fn *widen;     // NULL: they are the same
    int unit, step;
};
// Packs count lines of k elements each as consecutive panels of width lines. Strides are in bytes. After the
// last line `spare` more may be read.
void gemm_pack(const struct gemm_packing *p, char *to, int64_t width, const char *from, int64_t k_stride,
               int64_t line_stride, int64_t k, int64_t count, int64_t spare);
// Packs a span of these lines, of which `from` is element 0: chain c to to[c].
void gemm_pack_span(const struct gemm_packing *p, const struct gemm_order *o, int64_t span,
                    char *const to[GEMM_CHAINS], int64_t width, const char *from, int64_t k_stride,
                    int64_t line_stride, int64_t count, int64_t spare);

// gemm_own.c ------------------------------------------------------------------------------------------------

// One product and how it is computed.
struct gemm_work {
    const struct gemm *g;
    zl_dtype dtype, out; // of a and b; of c: the sums' dtype, or a narrower one if nothing is added to it
    const struct gemm_kernel *kernel;
    // Called when a block of c is done, by the thread that made it, while it is in the cache; may be NULL.
    void (*done)(void *data, int64_t row, int64_t col, int64_t rows, int64_t cols);
    void *data;
    bool whole_rows;    // `done` needs all columns of rows at once, which gemm_has_whole_rows said
    row_fn *widen;      // elements to those of the kernel; NULL: a cast
    const float *scale; // what sums of float32 are multiplied by before they are rounded; NULL: nothing
};
// Computes a product by all threads that this one may use; the result does not depend on their number.
// Returns false, with an error, if memory runs out.
bool gemm_multiply(const struct gemm_work *w);
// Returns whether, with whole_rows, `done` would be called for all columns of some rows, in order and by one
// thread, before others of these rows follow.
bool gemm_has_whole_rows(const struct gemm_work *w);

// A matrix that is a factor of several products, of the same sizes and dtype, can be packed once.

// Returns the bytes of a packed factor (0: a, 1: b).
size_t gemm_packed_bytes(const struct gemm_work *w, int factor);
// Packs a factor, on this thread.
void gemm_pack_factor(const struct gemm_work *w, int factor, char *to);
// Computes a product of packed factors, on this thread. Returns false, with an error, if memory runs out.
bool gemm_multiply_packed(const struct gemm_work *w, const char *a, const char *b);

// Computes all products of a call (cpu_gather_mm.c); how: what they have in common. Returns false, with an
// error, if memory runs out.
bool gemm_batches(const struct call *c, const struct gemm_work *how);

// Few vectors times a matrix of n lines along k. Strides in elements; results are float32, or int32 of int8.
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

// Computes a product of int8 by all threads if there is a way for as few rows or columns, and sets *done to
// whether there is (gemm_dots.c). Returns false, with an error, if memory runs out.
bool gemm_few_bytes(const struct gemm *g, bool *done);

// Computes a product of complex64 (gemm_complex.c). Returns false, with an error, if memory runs out.
bool gemm_complex(const struct gemm *g);

#endif
