// cpu.h - the inside of the CPU device: what its files offer each other.
//
// An elementwise op is a row kernel over contiguous data (rows.h, generated). A struct layout describes operands of any strides
// over one shape; the driver cuts it into tiles on which the rows can work. Reductions, copies, matrix products and
// indexing have drivers of their own and share the walk over tiles, the gathers and the threads.

#ifndef CPU_H
#define CPU_H

#include <limits.h>
#include <string.h>

#include "device/device.h"
#include "fuse/fuse.h"
#include "rows.h"

static inline int64_t round_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

// level.c -----------------------------------------------------------------------------------------------------

// One instruction-set level that this library was built with.
struct cpu_level {
    const char *name;  // as in levels.def
    const char *flags; // that make a compiler use it
    const struct row_table *rows;
};
const struct cpu_level *cpu_level(void); // ZL_ISA, else the best that this CPU has; chosen once
int cpu_level_registers(void);           // for vectors
// Whether the CPU has what a level or a feature needs, by its name in level.c; ZL_ISA hides what its level does not need.
bool cpu_has(const char *name);

// describe.c --------------------------------------------------------------------------------------------------

bool cpu_describe(int unit, zl_device_info *out);

// caches.c ----------------------------------------------------------------------------------------------------

int64_t cpu_cache_bytes(int level); // of data, 1..3: as the system tells, else what is usual

// tiling.c ----------------------------------------------------------------------------------------------------

enum {
    LAYOUT_AXES = 60,     // an array has less than 2^60 elements, so no more axes are longer than 1
    LAYOUT_OPERANDS = 16, // outputs first
    LAYOUT_ROOM = 32768,  // bytes of all tiles of a thread: they stay in L1
    LAYOUT_GATHERED = 73728, // bytes of tiles of blocks and lines: some of them lie in L2
    LAYOUT_LINE = 64,     // bytes
    CPU_SPLIT = 262144,   // bytes of traffic below which one thread is quicker than two (Neoverse-V1, 2026-11)
    CPU_AHEAD = 16384,    // bytes from what is computed to what is fetched. Without, one stream of reads does not keep the memory
                          // busy: 55 GB/s a core instead of 73; 4 KB and 8 KB are worse (Neoverse-V1, 2026-11)
};

// Loops that GCC makes vectors of only at -O3.
#if defined(__clang__)
#define CPU_VECTORS
#else
#define CPU_VECTORS __attribute__((optimize("O3")))
#endif

// A row reads its pointers in pairs, just after they were written. A pair that was not written at once comes late: by
// 10 ns and more (Neoverse-V1, 2026-11). So lists of pointers are aligned, and changed as pairs.
typedef int64_t pointer_pair __attribute__((vector_size(16), may_alias));
#define POINTERS(name, count) _Alignas(64) char *name[count]

static inline void cpu_call_row(row_fn *row, const void *to, const void *a, const void *b, const void *c, int64_t n) {
    POINTERS(p, 4) = {(char *)(uintptr_t)to, (char *)(uintptr_t)a, (char *)(uintptr_t)b, (char *)(uintptr_t)c};
    row(p, n, n);
}

// to[k] += by[k] for count pointers, and one more where that is odd: lists have room for it.
static inline void cpu_add_pointers(char **to, const int64_t *by, int count) {
    pointer_pair *pair = (pointer_pair *)(void *)to;
    for (int k = 0; k < count; k += 2)
        pair[k / 2] += ((const pointer_pair *)(const void *)by)[k / 2];
}

struct layout_axis {
    int64_t dim, step;               // elements, and how many of them a tile takes
    int64_t stride[LAYOUT_OPERANDS]; // bytes
};

enum layout_mode {
    LAYOUT_ROWS,  // every operand is contiguous or constant along the last axis, which is long
    LAYOUT_BOX,   // a tile is a box of the last axes, seen as one run
    LAYOUT_BLOCK, // a tile is a rectangle of row_axis and the last axis: some operand is transposed
};

enum layout_access {
    ACCESS_DIRECT, // the rows work where the data is
    ACCESS_SCALAR, // one element serves for the whole tile
    ACCESS_RUNS,   // one element serves for a run of it, the next for the next
    ACCESS_TILE,   // gathered into a tile first, or scattered from one after
};

// Operands over one shape. Start, add operands, then plan. Holds no memory.
struct layout {
    int axes, operands, outputs;
    int loops;    // the first axes, which the walk goes along by their steps
    int row_axis; // LAYOUT_BLOCK
    enum layout_mode mode;
    unsigned scalar; // bit k: operand k is ACCESS_SCALAR or ACCESS_RUNS
    unsigned runs;   // bit k: operand k is ACCESS_RUNS
    int64_t run;     // elements that one of theirs serves for
    int64_t size;    // elements
    char *data[LAYOUT_OPERANDS];
    uint8_t item[LAYOUT_OPERANDS]; // bytes of an element
    uint8_t access[LAYOUT_OPERANDS];
    int origin[LAYOUT_AXES]; // which axis it was, counted from the last
    struct layout_axis axis[LAYOUT_AXES];
};

void cpu_layout_start(struct layout *l, int ndim, const int64_t *dim, int outputs);
// strides are in elements; axes that are missing or of size 1 are stretched.
void cpu_layout_add(struct layout *l, const void *data, size_t item, int ndim, const int64_t *dim,
                    const int64_t *stride);
void cpu_layout_order(struct layout *l); // axes as the first operand lies, the innermost last
void cpu_layout_merge(struct layout *l); // adjacent axes that are one in all operands
void cpu_layout_merge_first(struct layout *l, int axes); // the same among the first axes only
// Leaves a rectangle of the last two axes, which are longer than 1, at one position of those before them.
void cpu_layout_crop(struct layout *l, int64_t before, const int64_t from[2], const int64_t size[2]);
void cpu_layout_trim(struct layout *l);  // the walk need not go along last axes of which a tile takes all

// Where a walk stands: position and address of the tile's first element.
struct walk {
    POINTERS(data, LAYOUT_OPERANDS);             // those that are not used are NULL
    _Alignas(64) int64_t next[LAYOUT_OPERANDS]; // bytes to the next tile along the last looped axis
    int64_t at[LAYOUT_AXES];
};
void cpu_walk_to(const struct layout *l, struct walk *w, int64_t tile);
void cpu_walk_wrap(const struct layout *l, struct walk *w); // to the next tile when the last looped axis is at its end

static inline void cpu_walk_next(const struct layout *l, struct walk *w) {
    int last = l->loops - 1;
    if (UNLIKELY(w->at[last] + l->axis[last].step >= l->axis[last].dim)) {
        cpu_walk_wrap(l, w);
        return;
    }
    w->at[last] += l->axis[last].step;
    cpu_add_pointers(w->data, w->next, l->operands);
}

// Steps over tiles, all along the last looped axis.
static inline void cpu_walk_skip(const struct layout *l, struct walk *w, int64_t tiles) {
    if (tiles == 0)
        return;
    w->at[l->loops - 1] += tiles * l->axis[l->loops - 1].step;
    for (int k = 0; k < l->operands; k++)
        w->data[k] += w->next[k] * tiles;
}

// Elements of the tile at w along an axis.
static inline int64_t cpu_walk_extent(const struct layout *l, const struct walk *w, int axis) {
    int64_t step = l->axis[axis].step, left = l->axis[axis].dim - w->at[axis];
    return MIN_OF(step, left);
}

// Runs part() over all tiles, split over threads when the traffic (bytes) is worth it. part() works at w, tiles times,
// with cpu_walk_next in between.
typedef void walk_part(const struct layout *l, struct walk *w, int64_t tiles, const void *context);
void cpu_walk(const struct layout *l, double traffic, walk_part *part, const void *context);

// pool_run over [0, count): fn(context, from, to) on pieces of at least grain; on this thread when there is one piece.
void cpu_split(int64_t count, int64_t grain, void (*fn)(const void *context, int64_t from, int64_t to),
               const void *context);

// layout.c ----------------------------------------------------------------------------------------------------

// Decides how tiles are cut and operands reached. vectors: operands that must not be scalars; most: elements that a
// body takes at once (0: any number).
void cpu_layout_plan(struct layout *l, unsigned vectors, int64_t most);

// The same for a body that takes whole lines of the last axis, at most so many elements or one line: operands that
// have one element for a line are ACCESS_RUNS, also outputs. False: tiles of such lines do not fit.
bool cpu_layout_plan_lines(struct layout *l, unsigned vectors, int64_t most);

// Computes n elements: p[k] is operand k, contiguous, or one element where bit k of the plan's scalar is set. Four can be
// read, though they be NULL. So many more elements follow in all inputs, and should be fetched from memory.
typedef void layout_body(const void *context, char *const *p, int64_t n, int64_t more);
void cpu_layout_run(const struct layout *l, double weight, layout_body *body, const void *context);

// gather.c, transpose.c ---------------------------------------------------------------------------------------

// Copies rows x cols elements of item bytes (1, 2, 4 or 8) between places with strides in bytes.
struct stride2 { int64_t row, col; };
void cpu_move(size_t item, char *to, struct stride2 to_stride, const char *from, struct stride2 from_stride,
              int64_t rows, int64_t cols);
// The same where the rows of `to` are dense and the columns of `from` are.
void cpu_transpose(size_t item, char *to, int64_t to_row, const char *from, int64_t from_col, int64_t rows,
                   int64_t cols);
// Fills count elements with one.
void cpu_fill(size_t item, char *to, const char *value, int64_t count);

// copy.c ------------------------------------------------------------------------------------------------------

// Copies between any two layouts of one shape; strides in elements.
void cpu_copy(size_t item, int ndim, const int64_t *dim, void *to, const int64_t *to_stride, const void *from,
              const int64_t *from_stride);

// positions.c -------------------------------------------------------------------------------------------------

// Integers of any dtype and layout, to be read as int64 in row-major order; uint64 that do not fit are INT64_MAX.
enum { INDICES_BLOCK = 256 };
struct indices {
    const char *data;
    int64_t step; // bytes
    zl_dtype dtype;
    void *room; // a copy, where strides make that necessary
    union scalar value;
};
bool cpu_indices_open(struct indices *i, zl_array a); // then close it; false and an error
void cpu_indices_close(struct indices *i);
void cpu_indices_read(const char *data, int64_t step, zl_dtype dtype, int64_t n, int64_t *out);
static inline void cpu_indices_next(const struct indices *i, int64_t from, int64_t n, int64_t *out) {
    cpu_indices_read(i->data + from * i->step, i->step, i->dtype, n, out);
}

// An axis that is indexed: its elements, the last position that counts, bytes from one to the next.
struct indices_axis {
    int64_t dim, last, step;
};
// Adds how far positions [from, from + n) are from the first; an index out of range means the nearest.
void cpu_indices_add(const struct indices *i, const struct indices_axis *axis, int64_t from, int64_t n, int64_t *offset);

// Of dim elements, the one that an index means, counted from the end if it is negative.
static inline int64_t cpu_from_start(int64_t index, int64_t dim) {
    return index < 0 ? index + dim : index;
}
// The same, at most last, at least 0.
static inline int64_t cpu_position(int64_t index, int64_t dim, int64_t last) {
    int64_t at = cpu_from_start(index, dim);
    return at < 0 ? 0 : at > last ? last : at;
}

// elements.c --------------------------------------------------------------------------------------------------

// The elements at from + offset[i], one behind the other.
typedef void gather_fn(char *to, const char *from, const int64_t *offset, int64_t n);
gather_fn *cpu_gather_elements(size_t item);
// An axis that indices choose places of: element i is `apart` bytes from the one before, and its index says how far on.
struct indexed {
    char *data;
    int64_t dim, step, apart; // elements; bytes
};
// The same for n indices as they are, one behind the other: read to `to`, or put from there. Those out of range take the
// nearest, or are left out. NULL: there is none for that dtype.
typedef void take_fn(char *to, const struct indexed *x, const char *indices, int64_t n);
typedef void put_fn(const char *from, const struct indexed *x, const char *indices, int64_t n);
take_fn *cpu_take_elements(zl_dtype index, size_t item);
put_fn *cpu_put_elements(zl_dtype index, size_t item);
// Element i, of those step bytes apart, put at out + offset[i], or combined with what is there; in order. A negative
// offset leaves it out. update is one of enum update.
typedef void scatter_fn(char *out, const int64_t *offset, const char *from, int64_t step, int64_t n);
scatter_fn *cpu_scatter_elements(int update, zl_dtype dtype);

// slice_move.c ------------------------------------------------------------------------------------------------

// Slices of one shape, copied from one place to another or combined with what is there.
struct slice_move {
    size_t item;
    size_t run;           // bytes of a slice that is contiguous on both sides; 0: it is not
    row_fn *combine;      // NULL: it is copied
    scatter_fn *elements; // where rows are not contiguous
    struct layout layout; // two axes at least, if only of size 1; operands: to, from
};
// Strides are in elements. update is one of enum update.
void cpu_slice_plan(struct slice_move *s, zl_dtype dtype, int update, int ndim, const int64_t *dim,
                    const int64_t *to_stride, const int64_t *from_stride);
void cpu_slice_strided(const struct slice_move *s, char *to, const char *from);
row_fn *cpu_update_row(int update, zl_dtype dtype); // what combines two elements; NULL: the second one stays

// cpu_collective.c: runs one; its output has memory.
bool cpu_collective(const struct call *c);

static inline void cpu_slice_run(char *to, const char *from, size_t bytes) {
    switch (bytes) { // elements: sizes that are one load and one store
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, bytes);
    }
}

static inline void cpu_slice_move(const struct slice_move *s, char *to, const char *from) {
    if (UNLIKELY(!s->run))
        cpu_slice_strided(s, to, from);
    else if (s->combine)
        cpu_call_row(s->combine, to, to, from, NULL, s->layout.size);
    else
        cpu_slice_run(to, from, s->run);
}

// cpu_matmul.c, blas.c, gemm_own.c, gemm_small.c, gemm_vector.c --------------------------------------------------------------

// What becomes of sums of half floats before they are rounded: alpha times each, and beta times elements at data, of the same
// dtype, whose strides are in elements. alpha 0: nothing; beta 0: there is no data.
struct gemm_added {
    float alpha, beta;
    const char *data;
    int64_t row, col;
};

// c (m x n) = a (m x k) times b (k x n), added to what c holds if `add`. Strides are in elements and of any kind. c is
// float32 where a and b are half floats, and only who rounds it looks at `added`. Runs on one thread; false and an error when memory
// is out.
struct gemm {
    int64_t m, n, k;
    const char *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    char *c;
    int64_t c_row, c_col;
    bool add;
    struct gemm_added added;
};
typedef bool gemm_fn(zl_dtype dtype, const struct gemm *g);

// A way to multiply matrices of float32, float64 and complex64.
struct blas {
    const char *name; // what is used: for people
    gemm_fn *multiply;
};
const struct blas *cpu_blas(void); // ZL_BLAS, else as blas.c says; chosen at the first use

// Says how many threads a library may start itself. NULL: it has no say in that.
typedef void blas_threads(int count);
blas_threads *cpu_blas_threads(void *library);
// Around each use of a library of BLAS or LAPACK: on one thread beside others (NULL), or alone on all threads.
void cpu_blas_begin(blas_threads *alone);
void cpu_blas_end(blas_threads *alone);

// Adds it to n sums: elements from data[at] on, one every step.
void cpu_gemm_add(zl_dtype dtype, const struct gemm_added *added, float *sum, int64_t at, int64_t step, int64_t n);
gemm_fn cpu_gemm;                 // the best way for that size; c has the dtype of a and b, whatever it is; it adds nothing
gemm_fn *cpu_choose_gemm(zl_dtype dtype, const struct gemm *g); // the best for its size
gemm_fn cpu_own_gemm;             // any float or complex dtype
gemm_fn cpu_gemv;                 // m or n is 1; not complex
// The same by all threads, where lines of the matrix lie across the vector; c has the dtype of a and b.
bool cpu_gemv_is_shared(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_gemv_shared;
bool cpu_is_tiny(zl_dtype dtype, const struct gemm *g);
bool cpu_is_thin(zl_dtype dtype, const struct gemm *g);
bool cpu_has_thin_kernel(zl_dtype dtype, const struct gemm *g); // which is better than cpu_few_gemm
gemm_fn cpu_thin_gemm;            // of a few rows or columns: if cpu_is_thin
bool cpu_is_few(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_few_gemm;             // of more rows, but not many: if cpu_is_few
bool cpu_is_packed_late(zl_dtype dtype, const struct gemm *g); // by cpu_own_gemm, from a second factor that L2 holds: it is best then
bool cpu_is_dots(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_dots_gemm;            // of a few rows or columns, by wide vectors of x86_64: if cpu_is_dots
gemm_fn cpu_tiny_gemm;            // where packing would take longer than multiplying: if cpu_is_tiny

// In which parts a product of a call of matmul is computed.
struct product_parts {
    int64_t rows, cols; // of one; of products that all threads share, the whole
    bool whole_rows;    // no row of the result is in two parts
};
struct product_parts cpu_matmul_parts(const struct call *c);

// A part that was computed.
struct product_part {
    int64_t batch, row, col; // where it is
    int64_t rows, cols;
    char *data; // where it is until the function returns that it was given to; NULL: in the output
    int64_t data_row; // elements between its rows
};
// Computes a call of matmul and calls a function on each part, several at once. stored: the output has memory; lines: parts are to
// be whole rows, which they can be. False: memory is out.
struct product_then {
    void (*run)(void *context, const struct product_part *part);
    void *context;
    bool stored, lines;
};
bool cpu_matmul_then(const struct call *c, const struct product_then *then);

// lapack.c, factor.c, cpu_factor.c, cpu_spectrum.c -------------------------------------------------------------

// A function of LAPACK by its Fortran name, such as "sgetrf_"; NULL and ZL_ERROR_LIBRARY.
void *cpu_lapack(const char *symbol);
blas_threads *cpu_lapack_threads(void); // after a function was found

// A factorisation: one of LAPACK's functions for each matrix of a batch.
struct factor {
    const struct call *c;
    zl_dtype dtype;
    int64_t item;
    int m, n;              // rows and columns
    int64_t row, col;      // strides of the input, in elements
    struct layout batch;   // operand: the input
    bool turned;           // the matrix that is worked on is that of the input turned: it lies row by row
    void *function[5];     // of LAPACK
    int work[3];           // elements of its work areas
    int64_t threaded;      // operations from which on LAPACK may use threads of its own; 0: never
    bool finite;           // LAPACK takes only finite numbers: it would print, or not end
    size_t room;           // bytes that one matrix needs, of which the first m * n elements are its own
    // Works on matrix number `at`, which is in room column by column; LAPACK's info.
    int (*one)(const struct factor *f, int64_t at, char *room);
    atomic_int info; // of a matrix that failed
};
enum { CPU_FACTOR_NO_MEMORY = INT_MIN, CPU_FACTOR_NOT_FINITE = INT_MAX }; // no info of LAPACK
// Sets what the call says, and finds functions by their names without the letter of the dtype, as in "getrf trsm".
bool cpu_factor_open(struct factor *f, const struct call *c, const char *functions);
// Runs f->one for all; 0, or the info of one that failed. False and an error for what LAPACK did not see.
bool cpu_factor_run(struct factor *f, int *info);
// A matrix of that many rows and columns, column by column, into output k of matrix `at`.
void cpu_factor_store(const struct factor *f, int k, int64_t at, const char *from, int64_t rows, int64_t cols,
                      int64_t column);
char *cpu_factor_output(const struct factor *f, int k, int64_t at); // where it lies

// blocked.c: for matrices of n columns whose functions are those of FACTOR_BLOCKED; LAPACK's info.
#define FACTOR_BLOCKED "trtri getrf trsm laswp potrf"
enum { FACTOR_TRTRI, FACTOR_GETRF, FACTOR_TRSM, FACTOR_LASWP, FACTOR_POTRF };
int cpu_blocked_cholesky(const struct factor *f, int n, char *a, int lead); // in the lower triangle
// Inverts what is on one side of the diagonal; zeros are on the other. room: of n * n / 4 + n elements.
int cpu_invert_triangle(const struct factor *f, bool upper, int n, char *a, int lead, char *room);
int cpu_blocked_lu(const struct factor *f, int m, int n, char *a, int lead, int *pivot);
// x is the inverse of a, which is lost.
int cpu_blocked_inverse(const struct factor *f, char *a, char *x, char *room, int *pivot);
int cpu_factor_work(const struct factor *f, const void *answer);   // a size that LAPACK gave as a number of the dtype
// Rounds up so that what comes behind it is aligned.
static inline size_t cpu_factor_aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// condense.c: real matrices, column by column, by reflections that are left in them as LAPACK leaves them.
struct condensed {
    void *d, *e;          // the diagonal, and the one beside it
    void *tau, *tau_row;  // of the reflections of columns and, of bidiagonal matrices, of rows
    void *room;           // 4 (m + n) elements
};
void cpu_tridiagonal(zl_dtype dtype, int n, void *a, const struct condensed *c);       // n x n, symmetric: its lower triangle
void cpu_bidiagonal(zl_dtype dtype, int m, int n, void *a, const struct condensed *c); // m x n, m >= n
void cpu_hessenberg(zl_dtype dtype, int64_t n, void *a, void *room); // n x n: itself, without its reflections; room: 6 n elements
// Scales by a power of two where squares of elements could overflow or vanish; its exponent. Values are scaled back by it.
int  cpu_normalize(zl_dtype dtype, void *a, int64_t count);
void cpu_scale_back(zl_dtype dtype, void *values, int64_t count, int exponent);

// cpu_condensed.c: the same as cpu_eigh and cpu_svd for matrices that are condensed first.
bool cpu_condenses(zl_array x); // that pays; LAPACK does others better
bool cpu_eigh_condensed(const struct call *c);
bool cpu_svd_condensed(const struct call *c);
bool cpu_spectrum_failed(const struct factor *f, int info); // false, and an error

// cpu_eigenvalues.c: the same as cpu_eig without vectors.
bool cpu_has_eigenvalues(zl_array x); // that pays
bool cpu_eigenvalues(const struct call *c);

// Products may be added by fused operations in a function that starts with both.
#if defined(__clang__)
#define GEMM_FUSED
#define GEMM_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define GEMM_FUSED __attribute__((optimize("fp-contract=fast")))
#define GEMM_CONTRACT
#endif

// A function for CPUs with a feature that not all of aarch64 have, by its name.
#if defined(__clang__)
#define CPU_WITH(feature) __attribute__((target(feature)))
#else
#define CPU_WITH(feature) __attribute__((target("arch=armv8.2-a+" feature)))
#endif

// A buffer of this thread, one of a few, that is used again: what it held is lost. NULL and an error.
enum {
    SCRATCH_PACK,
    SCRATCH_SHARED,
    SCRATCH_DOUBLED,
    SCRATCH_LINES,
    SCRATCH_RESULT,
    SCRATCH_PART,
    SCRATCH_WORK,
    SCRATCH_WEIGHTS,
    SCRATCH_SCALES,
    SCRATCH_TILES,
    SCRATCH_COUNT
};
void *cpu_scratch(int which, size_t bytes);

// cpu_quantize.c ----------------------------------------------------------------------------------------------

// How to read quantised numbers: as float64 if wide, else float32.
struct unpacking {
    int mode, group, bits; // as of quantize.c
    zl_dtype dtype;        // of scales and biases, if affine
    bool wide;
    float factor;          // of all scales, if not affine
};
// Reads groups that lie behind each other; of mode gguf_k, the first is one that a block of scales begins with.
void cpu_unpack(const struct unpacking *u, const char *words, const char *scales, const char *biases, int64_t groups,
                char *out);

// Codes as bytes, a multiple of 16 of them, and scales or biases as float32.
void cpu_unpack_codes(int bits, const char *words, int64_t count, uint8_t *out);
void cpu_unpack_scales(const struct unpacking *u, const char *scales, int64_t groups, float *out);
// Those of mode gguf_k, from the first of a block on.
void cpu_unpack_k(const struct unpacking *u, const char *scales, int64_t groups, float *scale, float *bias);

// program.c ---------------------------------------------------------------------------------------------------

// How a call is run: resolved when the program is built.
struct step {
    struct fuse_step is;
    bool (*run)(const struct step *s, const struct call *c); // false and an error; NULL: nothing to do
    union {
        row_fn *const *forms;                 // elementwise and cast: by operands that are scalars
        bool (*other)(const struct call *c);
    };
    uint64_t in_place; // bit k: the output may be written where input k was
    uint8_t scalars;   // operands that may be: bit k is input k
    uint8_t item[4];   // bytes of elements: output, then inputs as the row reads them
    uint8_t weight;    // cost of an element, in units of moving it
    uint16_t cost;     // the same in bytes, of all operands
    bool inverts;      // a division that is done as a product with the reciprocal
    bool begins;       // calls from here on may run as one row program
};

struct program {
    struct fuse_steps steps; // step, as groups are found from them
    struct step step[];
};

// The value of an inline scalar as the row of the step reads it.
void cpu_write_scalar(const struct step *s, zl_array x, int input, void *room);
// The row that computes an elementwise call.
enum tile_op cpu_row_of(const struct call *c);

struct program *cpu_build(int unit, const struct segment *s);
void cpu_drop(struct program *p);
void cpu_run(int unit, struct program *p, struct binding *b);
bool cpu_can(int unit, const struct call *c);

// row_group.c, row_program.c -----------------------------------------------------------------------------------------------

// Finds which calls may be the first of several that run together. False and an error.
bool cpu_group_steps(struct program *p, const struct segment *s);
// Runs calls from index on as one row program, and finishes them; how many. 0: the call must run by itself.
int cpu_run_group(const struct program *p, struct binding *b, int index);
// Waits until the kernels are compiled that are to be; or only the one that is under way, the others are let go.
void cpu_kernels_settle(void);
void cpu_kernels_stop(void);
// How many that would be, and why not more. See struct device.
int cpu_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why);

// cpu_reduce.c, reduce_rows.c, reduce_columns.c ---------------------------------------------------------------

enum { REDUCE_OUT, REDUCE_IN, REDUCE_WIDEST = 8 };

// The rows that reduce elements of a dtype.
struct reduce_rows {
    row_fn *row;        // elements to one accumulator
    row_fn *join;       // accumulators to one
    row_fn *combine;    // accumulators, one by one
    row_fn *widen;      // elements to accumulators; NULL: they are the same
    row_fn *narrow;     // and back
    int64_t item, wide; // bytes of an element, of an accumulator: REDUCE_WIDEST at most
};
bool cpu_reduce_choose(struct reduce_rows *rows, enum tile_op op, zl_dtype dtype); // false: there are none
void cpu_reduce_load(const struct reduce_rows *by, char *accumulators, const char *elements, int64_t n);
void cpu_reduce_store(const struct reduce_rows *by, char *elements, const char *accumulators, int64_t n);

// Lines of so many elements that lie behind each other, with no more between them, are reduced one by one, by
// cpu_reduce_line, whatever their number. So many more elements follow the line in memory and will be read: they are fetched. 0
// where they are not in memory, or are already in caches.
enum { REDUCE_LINE_LEAST = 32, REDUCE_LINE_MOST = 65536 };
enum { REDUCE_RUN_MOST = 4096 }; // elements that one row kernel reduces: longer runs lose accuracy
void cpu_reduce_line(const struct reduce_rows *by, const char *from, int64_t n, int64_t more, char *accumulator);

// One reduction, its axes sorted and merged.
struct reduction {
    struct layout kept;    // operands: output, input
    struct layout reduced; // operand: input
    struct reduce_rows by;
    int64_t segments;      // pieces that the reduced elements are cut in
    const char *end;       // of the input, where what follows an element is to be fetched; else NULL
    char *partial;         // accumulators of the pieces
    int column;            // by columns: the kept axis that rows of accumulators lie along
    int64_t columns, fold; // accumulators of such a row; rows that are combined as one
};
bool cpu_reduce_by_rows(struct reduction *r); // false and an error
bool cpu_reduce_by_columns(struct reduction *r);

// First element of a piece, as a position in the reduced space.
int64_t cpu_reduce_segment(const struct reduction *r, int64_t segment);
// The row that reduces elements to one; NULL: there is none.
row_fn *cpu_reduce_row(enum tile_op op, zl_dtype dtype);

// argreduce_columns.c -----------------------------------------------------------------------------------------

// How the extremes of columns are found.
typedef void better_fn(const char *row, int64_t n, int64_t at, void *values, void *positions);
struct column_search {
    better_fn *better;
    row_fn *widen; // NULL: elements are compared as they are
    int64_t item;  // bytes of what is compared
};
enum { COLUMNS_MOST = 512 };
bool cpu_argreduce_columns(zl_dtype dtype, bool is_max, struct column_search *s); // false: not of that dtype
// The position, as uint32, of the extreme of each of n columns, at most COLUMNS_MOST; rows are stride bytes apart.
void cpu_argreduce_rows(const struct column_search *s, const char *rows, int64_t stride, int64_t count, int64_t n, char *to);

// jit.c, compiler.c -----------------------------------------------------------------------------------------

extern const char cpu_vec_text[]; // the vector layer, for the compiler

// Compiles C text, behind the vector layer, and gives the address of one of its functions; it stays for ever. What was
// compiled before, also by another process, is loaded. NULL and ZL_ERROR_COMPILE.
void *cpu_jit(const char *source, const char *symbol);
// The same without the vector layer, and with flags of its own behind those of all.
void *cpu_jit_alone(const char *source, const char *flags, const char *symbol);

// The compiler of ZL_CC. Version as it tells it; NULL and an error that says what to install.
const char *cpu_compiler_version(void);
// Appends what tells it from others, for keys. False and an error: it is not there.
bool cpu_compiler_name(struct text *out);
// Text of the flags that all have, which keys hold.
void cpu_compiler_flags(struct text *out);
bool cpu_compile(const char *source_path, const char *library_path, const char *flags);

// Ops that are not elementwise --------------------------------------------------------------------------------

// Each runs one call whose outputs have their memory: false and an error when it cannot.
typedef bool cpu_function(const struct call *c);
#define CPU_OP(op, function, ...) cpu_function function;
#include "device/cpu/cpu_ops.def"
cpu_function cpu_reduce;
cpu_function cpu_op_tiles; // op_tiles.c: by the op's own kernel

// The first output of an op that changes a part of its first input: that input's elements are in it.
static inline char *cpu_copy_input(const struct call *c) {
    zl_array x = c->in[0], out = call_first(c);
    union scalar room;
    const char *from = array_data(x, &room);
    char *to = (char *)out->storage->data + out->offset * (int64_t)array_item(out);
    if (to != from) // else it was taken over
        cpu_copy(array_item(out), out->ndim, out->dim, to, array_stride(out), from, array_stride(x));
    return to;
}

// Address of element 0 of an array that is not an inline scalar.
static inline char *cpu_data(zl_array a) {
    return (char *)a->storage->data + a->offset * (int64_t)array_item(a);
}

#endif
