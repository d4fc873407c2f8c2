// kernels.h - turns the calls of a segment into launches, for all devices that run kernels.
//
// Such a device supplies a target record for each unit and a few functions. The key of a kernel consists of
// what it computes, its dtypes, and the layouts of its operands (contiguous, strided, one element for all, a
// number by value), never of sizes or strides. Every kernel is tile IR, one definition for all targets: a
// file of src/kernel/, or built from the recipe of a group.

#ifndef KERNELS_H
#define KERNELS_H

#include "device/device.h"
#include "device/tile_runtime/op_kernel.h"
#include "fuse/fuse.h"
#include "pass/pass.h"

// One argument of a launch: the bytes of a value, or the device's handle of memory and how the kernel
// accesses it. Two launches need no order unless one writes bytes that the other reads or writes.
enum kernel_access { KERNEL_VALUE, KERNEL_READ, KERNEL_WRITTEN };
struct kernel_argument {
    const char *name; // name of the kernel's parameter
    enum kernel_access access;
    size_t bytes;
    const void *value;
    size_t reach; // of memory: bytes that are accessed from the handle on; KERNEL_ANY: unknown
};
#define KERNEL_ANY SIZE_MAX

// A function of compiled code.
struct kernel_function {
    const char *symbol;  // its name, until it is loaded
    void *handle;        // the target's handle, once it is loaded
    int threads, shared; // threads and bytes of shared memory per workgroup
};

enum { KERNEL_GRIDS = 16 }; // the most functions of one kernel

struct kernel_place;
enum kernel_taken { KERNEL_NOT_TAKEN, KERNEL_DONE, KERNEL_FAILED };

struct kernel_target {
    const struct device *device;
    // Returns what compiled code depends on besides its source (model, driver, options), as part of its key
    // on disk.
    const char *(*identity)(int unit);
    // Returns the record that passes compile for, which lives as long as the process, or NULL and an error.
    // Calls that need what the unit lacks run on the CPU, and so do all calls if its workgroups have fewer
    // than KERNEL_THREADS threads.
    const struct target *(*record)(int unit);
    // Compiles source to code that a file can hold. Returns false, with an error, if that fails.
    bool (*compile)(int unit, const struct text *source, struct text *code);
    // Loads functions of the code by their symbols, with the shared memory that they state, and sets their
    // handles, which are never released. Returns false, with an error, if that fails.
    bool (*load)(int unit, const char *code, size_t bytes, int count, struct kernel_function *function);
    // Enqueues a launch. Returns false, with an error, if that fails.
    bool (*launch)(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                   int arguments, const struct kernel_argument *argument);
    // For a target that runs tile kernels without compile, load and launch: keep returns a handle of a
    // kernel, which it does not change, and which is never released, or NULL and an error. run executes it;
    // `address` has an entry for each parameter, of its memory or its value.
    void *(*keep)(int unit, const struct tile_kernel *kernel);
    bool (*run)(const struct kernel_place *p, void *kept, void *const *address, const int64_t *symbol);
    // take runs a call that is not elementwise by an override (a vendor library), if that is better. takes
    // returns whether an override runs every such call, which then needs no kernel of ours. NULL: there are
    // no overrides.
    enum kernel_taken (*take)(const struct kernel_place *p, const struct call *c);
    bool (*takes)(int unit, const struct call *c);
    // fuse runs a call and those after it by one override, and returns how many calls that were; 0: none.
    // count returns how many they would be.
    int (*fuse)(const struct kernel_place *p, const struct program *program, struct binding *b, int index);
    int (*count)(const struct program *program, struct call *const *call, int index);
};

// Returns whether there is a tile kernel for calls of the op, at least for some dtypes and arguments.
bool kernels_have(const struct op *op);

// The functions of struct device for such devices.

// Returns whether a tile kernel or an override of the target runs the call on the unit.
bool kernels_can(const struct kernel_target *target, int unit, const struct call *c);
// Returns the program of a segment, which kernels_drop frees, or NULL and an error.
struct program *kernels_build(const struct kernel_target *target, int unit, const struct segment *s);
// Frees a program.
void kernels_drop(struct program *p);
// Enqueues a program with the arrays and sizes of b, and compiles what it lacks. Failures are recorded per
// call.
void kernels_run(int unit, struct program *p, struct binding *b);
// Returns how many calls, starting at `index`, are fused into one kernel. Appends to *why what stopped the
// fusion of a group of elementwise calls.
int kernels_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why);

// Between the files of this folder --------------------------------------------------------------------------

enum { KERNEL_THREADS = 256, KERNEL_AXES = 8, KERNEL_OPERANDS = 16 };

// Where a call runs.
struct kernel_place {
    const struct kernel_target *target;
    int unit, lane;
    const struct target *record;    // of the unit
    struct kernel_batch *batch;     // if set, nothing runs: missing kernels are collected here
    // the inline scalars of the running call; NULL: its kernels read none from memory
    struct kernel_numbers *numbers;
};

struct kernel_step {
    struct fuse_step is;
    bool reduces;      // whether the call is a reduction, or one follows soon
    uint64_t in_place; // the argument of binding.prepare
    // runs a call that is neither a view nor a map
    bool (*run)(const struct kernel_place *p, const struct call *c);
};

static inline bool step_is_other(const struct kernel_step *s) {
    return s->is.kind != FUSE_VIEW && s->is.kind != FUSE_MAP;
}

struct program {
    const struct kernel_target *target;
    bool fuses;
    atomic_bool ran;
    struct fuse_steps steps; // refers to step, for finding groups
    struct kernel_step step[];
};

// kernels_cache.c -------------------------------------------------------------------------------------------

// Loads the functions of a source, which is compiled unless its code is on disk. Returns false, with an
// error, if that fails.
bool kernel_compile(const struct kernel_place *p, const struct text *source, int functions,
                    struct kernel_function *function);

struct kernel_tiles;
typedef struct tile_kernel *kernel_maker(const void *data);
// Returns the compiled tile kernel of a key, or NULL and an error. A new key's kernel comes from make(data),
// which reads a file of src/kernel/ (kernel_built_in) or uses the builder, and whose caller owns the result.
const struct kernel_tiles *kernel_find_tiles(const struct kernel_place *p, const void *key, size_t bytes,
                                             kernel_maker *make, const void *data);

// Kernels that a program will need, to be compiled by all threads at once. Failures are ignored: they show
// when the kernel is needed.
struct kernel_batch {
    int count, cap;
    struct kernel_wanted *wanted;
};
// Compiles the kernels, unless there is only one, and frees the batch.
void kernel_batch_compile(struct kernel_batch *batch, const struct kernel_place *p);
// Returns whether the unit has what the kernels need, and frees the batch.
bool kernel_batch_fits(struct kernel_batch *batch, const struct kernel_place *p);

// Values of clauses in files of src/kernel/: the name of a type, the dtype for elements that are only copied,
// the bits of indices.
static inline const char *kernel_type(zl_dtype dtype) {
    return tile_type_name(tile_type_of(dtype));
}
static inline int32_t kernel_word(size_t bytes) {
    return bytes == 1 ? ZL_UINT8 : bytes == 2 ? ZL_UINT16 : bytes == 4 ? ZL_UINT32 : ZL_UINT64;
}
static inline int kernel_bits(bool wide) {
    return wide ? 64 : 32;
}

// kernels_launch.c: lists of arguments, and axes as kernels receive them.
struct kernel_call {
    int arguments;
    size_t used;
    struct kernel_argument argument[72];
    _Alignas(8) char room[4096]; // values and tables that the launch passes by value
};
static inline void kernel_begin_call(struct kernel_call *k) {
    k->arguments = 0;
    k->used = 0;
}
// Appends a copy of a value.
void kernel_add(struct kernel_call *k, const void *value, size_t bytes);
// Appends an integer of the width of indices: 64 bits if `wide`, else 32.
void kernel_add_int(struct kernel_call *k, int64_t value, bool wide);
// Appends memory, of which `reach` bytes are accessed; KERNEL_ANY: as many as a tile kernel reaches. Whether
// it is written follows from the kernel.
void kernel_add_bytes(struct kernel_call *k, void *memory, size_t reach);
static inline void kernel_add_memory(struct kernel_call *k, void *memory) {
    kernel_add_bytes(k, memory, KERNEL_ANY);
}
// Appends the memory of an array. Returns false, with an error, if the unit has no room for it.
bool kernel_add_array(const struct kernel_place *p, struct kernel_call *k, zl_array x);
// Enqueues a launch of f with the arguments of k, or does nothing while kernels are collected. Returns false,
// with an error, if that fails.
bool kernel_launch_function(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                            const struct kernel_call *k);

// Renders, compiles and loads a tile kernel, which it may change, for a unit (kernels_tiles.c). Returns NULL,
// with an error, if that fails. The result lives as long as the process, once it is launched.
struct kernel_tiles *kernel_tiles_compile(const struct kernel_place *p, struct tile_kernel *kernel);
// Frees a kernel that was never launched (NULL: nothing); its code stays loaded.
void kernel_tiles_free(struct kernel_tiles *t);
// Keeps a kernel that was compiled twice as long as the one that is used, and returns the latter. The lock of
// both is held.
struct kernel_tiles *kernel_tiles_join(struct kernel_tiles *kept, struct kernel_tiles *twin);
// Launches the kernel's grids, one after the other. k holds the arguments for its parameters, in order;
// sizes, and memory that passes values between grids, are appended. symbol holds the values of its symbols,
// in order. Returns false, with an error, if that fails.
bool kernel_launch_tiles(const struct kernel_place *p, const struct kernel_tiles *t, struct kernel_call *k,
                         int symbols, const int64_t *symbol);

// The axes of several operands, without axes of size 1, and with adjacent axes merged that are one axis in
// all operands.
struct kernel_layout {
    int operands, axes;
    int64_t size; // product of dims
    int64_t dim[64];
    int64_t stride[KERNEL_OPERANDS][64];
};
// Returns the argument `inner` of tile_walk.
static inline int64_t layout_inner(const struct kernel_layout *l) {
    return MAX_OF(l->axes - 1, 0);
}
// Begins a layout without axes.
void kernel_layout_begin(struct kernel_layout *l, int operands);
// Appends an axis with the operands' strides.
void kernel_layout_push(struct kernel_layout *l, int64_t dim, const int64_t *stride);
// Writes the axes of more than one element, the outermost in memory first, to `axis`, which has room for 64.
// Returns how many there are.
int kernel_layout_order(zl_array like, int *axis);
// Sets the layout to all axes of `like`, which has no gaps, in the order of its memory. Operands are
// broadcast to its shape.
void kernel_layout_of(struct kernel_layout *l, zl_array like, int operands, const zl_array *operand);
// Returns the stride of x along an axis after broadcasting to ndim axes.
int64_t kernel_layout_stride(zl_array x, int ndim, int axis);
// Returns whether positions need more than 31 bits.
bool kernel_layout_is_wide(const struct kernel_layout *l);
// Returns how many elements of memory an operand reaches, whose first element is at `at`, if the size of the
// memory is unknown.
int64_t kernel_layout_reach(const struct kernel_layout *l, int operand, int64_t at);
// Returns whether a kernel can have that many axes; if not, sets an error that begins with `what`.
bool kernel_check_axes(const struct kernel_layout *l, const char *what);
// Appends the table of a tile kernel, INDEX[operands + 1, 8]: sizes of the axes, innermost first, then
// strides of each operand.
void kernel_add_table(struct kernel_call *k, const struct kernel_layout *l, bool wide);
// Appends any table of a tile kernel, given as rows that begin `step` numbers apart.
void kernel_add_rows(struct kernel_call *k, int rows, int columns, const int64_t *value, int step, bool wide);

// kernels_work.c: one launch of a tile kernel while its arguments and sizes are collected, in the order of
// its parameters and symbols. Errors begin with `what`.
enum { WORK_CLAUSES = 16 };
struct kernel_work {
    const struct kernel_place *place;
    const char *what;
    bool wide;   // some size or position needs more than 31 bits, so indices have 64
    bool failed; // an error was set
    int sizes;
    int64_t size[36];
    // bit i: argument i holds integers of the width of indices, kept as 64 bits until the launch
    uint64_t numbers;
    struct kernel_call k;
};
// Begins a launch without arguments and sizes. `what` outlives it.
void work_open(struct kernel_work *w, const struct kernel_place *p, const char *what);
static inline void work_value(struct kernel_work *w, const void *value, size_t bytes) {
    kernel_add(&w->k, value, bytes);
}
// Appends an integer of the width of indices.
void work_int(struct kernel_work *w, int64_t number);
// Appends memory, of which `reach` bytes are accessed. NULL marks the launch as failed, with the error
// already set.
void work_bytes(struct kernel_work *w, void *memory, size_t reach);
// Appends memory, of which as much is accessed as the kernel reaches; NULL as for work_bytes.
void work_memory(struct kernel_work *w, void *memory);
// Appends the memory of an array.
void work_place(struct kernel_work *w, zl_array x);
// Appends the memory of an array, and two sizes: its elements and the position of the first.
void work_array(struct kernel_work *w, zl_array x);
// Appends the memory of an array that may make indices wide.
void work_result(struct kernel_work *w, zl_array x);
// Appends the table of a layout (kernel_add_table). Too many axes mark the launch as failed.
void work_table(struct kernel_work *w, const struct kernel_layout *l);
// Appends any table (kernel_add_rows).
void work_rows(struct kernel_work *w, int rows, int columns, const int64_t *value, int step);
// Appends sizes, the values of the kernel's next symbols, any of which may make indices wide.
void work_sizes(struct kernel_work *w, int count, const int64_t *size);
#define WORK_SIZES(w, ...) \
    work_sizes(w, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
// Launches the kernel of a key, made by make(key). Returns false, with an error, if that fails.
bool work_run(struct kernel_work *w, const void *key, size_t bytes, kernel_maker *make);
enum { WORK_E4M3 = ZL_DTYPE_COUNT };
// Launches the kernel of a file of src/kernel/. In its clauses, %t (the type of a dtype, or WORK_E4M3), %o
// (an op) and %d (a number) take the next value each; %i stands for INDEX and BITS, %b for the bits of
// indices. Returns false, with an error, if that fails.
bool work_file(struct kernel_work *w, const char *name, const char *clauses, int count,
               const int32_t *clause);
#define WORK_FILE(w, name, clauses, ...)                                                  \
    work_file(w, name, clauses, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), \
              (const int32_t[]){__VA_ARGS__})

// Returns the place's memory of an array, or NULL and an error. An inline scalar is written there for the
// running call.
void *kernel_reach(const struct kernel_place *p, zl_array x);
// Returns the bytes of that memory, as far as they are known.
size_t kernel_bytes(zl_array x);

// Scratch memory for one call. It is freed in the order of the unit's work, so close does not wait.
struct kernel_scratch {
    void *memory; // NULL: there is none
    size_t capacity;
};
// Returns the memory, or NULL and an error.
void *kernel_scratch_open(const struct kernel_place *p, struct kernel_scratch *s, size_t bytes);
// Frees scratch memory; does nothing if s->memory is NULL.
void kernel_scratch_close(const struct kernel_place *p, struct kernel_scratch *s);

// The inline scalars of a call's inputs that its kernels read from memory.
struct kernel_numbers {
    int count;
    zl_array of[KERNEL_OPERANDS];
    struct kernel_scratch room[KERNEL_OPERANDS];
};
// Frees the memory of the inline scalars of the running call.
void kernel_numbers_close(const struct kernel_place *p);

// Runs the elementwise calls from `index` on as one kernel, and returns how many they were (kernels_map.c).
int kernel_run_maps(const struct kernel_place *p, const struct program *program, struct binding *b,
                    int index);
// Returns how many calls kernel_run_maps would run, and appends to *why what stopped fusion after them.
int kernel_count_maps(const struct program *program, struct call *const *call, int index, struct text *why);

// kernels_transpose.c: copies between two operands of a layout that are contiguous along different, long
// axes.

// One end of a copy: memory of the place, and the position of its first element.
struct kernel_end {
    void *memory;
    int64_t at;
};
// Returns whether an end is aligned for accesses of `width` elements, 16 bytes at once.
bool kernel_begins_run(const struct kernel_end *e, int width);
// Returns whether the layout of a copy, whose operands are `to` and `from`, is such a transposition.
bool kernel_is_transpose(const struct kernel_layout *l);
// Runs such a copy of elements of so many bytes. Returns false, with an error, if that fails.
bool kernel_transpose(const struct kernel_place *p, size_t bytes, const struct kernel_layout *l,
                      struct kernel_end to, struct kernel_end from);

// Runs a group of calls from `index` on, with reductions over the last axis, as one kernel (kernels_lines.c).
// Returns how many calls they were; 0: there is no such group, or fusing it does not pay.
int kernel_run_lines(const struct kernel_place *p, const struct program *program, struct binding *b,
                     int index);
// Returns how many calls kernel_run_lines would run.
int kernel_count_lines(const struct program *program, struct call *const *call, int index);
// Runs a group of calls from `index` on, with reductions over leading axes, as one kernel or two
// (kernels_columns.c). Returns how many calls they were; 0: there is no such group.
int kernel_run_columns(const struct kernel_place *p, const struct program *program, struct binding *b,
                       int index);
// Returns how many calls kernel_run_columns would run.
int kernel_count_columns(const struct program *program, struct call *const *call, int index);

// Ops that are not elementwise, a family per file. Each function runs a call whose outputs have memory and
// are not empty.
typedef bool kernel_question(const struct call *c);
typedef bool kernel_function(const struct kernel_place *p, const struct call *c);
#define KERNEL_OP(op, can, run, ...)  kernel_question can; kernel_function run;
#define KERNEL_OP_OF_ALL(op, run, ...) kernel_function run;
#include "device/kernels/kernels_ops.def"
kernel_question kernel_inputs_lie; // returns whether all inputs are in memory: none is an inline scalar
kernel_function kernel_run_op;     // kernels_tiles.c: runs the op's own kernel
// kernels_matmul_few.c: for products of few rows whose inputs have a layout that the kernel reads.
kernel_question kernel_matmul_few_fits;
kernel_function kernel_matmul_few;
// Returns whether kernel_product runs the call (kernels_product.c): a large product of f32, or of f16 or bf16
// on units with matrix instructions, whose inputs have a layout that the kernel reads. Always false with
// ZL_BATCH_INVARIANT.
bool kernel_product_fits(const struct kernel_place *p, const struct call *c);
kernel_function kernel_product;
kernel_question kernel_can_reduce;
kernel_function kernel_reduce;
// kernels_reduce.c: how threads share rows of `count` elements that are reduced. If there are few rows, they
// are divided into parts, so that the whole device has work; with ZL_BATCH_INVARIANT, long rows are, however
// many there are.
struct kernel_split {
    int lanes;           // threads that share a row, or a pack of columns
    // parts per row; elements per part (by columns: whole turns of all lanes, except in the last part)
    int64_t parts, each;
};
// Returns the split for reductions by columns; `lines` counts packs of columns.
struct kernel_split kernel_split_columns(int64_t lines, int64_t count, int pack_bytes);
// Returns the lanes of reductions by columns that are not divided.
int kernel_column_lanes(int64_t lines, int64_t count, int pack_bytes);
// Returns memory of the place, held by s, with a row-major copy of x, or NULL and an error.
void *kernel_copy_out(const struct kernel_place *p, zl_array x, struct kernel_scratch *s);
// Copies x, broadcast to a shape, row-major to memory of the place. Returns false, with an error, if that
// fails.
bool kernel_stretch_out(const struct kernel_place *p, zl_array x, int ndim, const int64_t *dim, void *to);
// Sets strided elements of memory of the place to the number at `number`. Returns false, with an error, if
// that fails.
bool kernel_fill(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to,
                 const int64_t *stride, const void *number);
// Copies strided elements within the place's memory. Returns false, with an error, if that fails.
bool kernel_move(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to,
                 const int64_t *to_stride, void *from, const int64_t *from_stride);
// Converts strided elements within the place's memory. Returns false, with an error, if that fails.
bool kernel_convert(const struct kernel_place *p, int ndim, const int64_t *dim, zl_dtype dtype, void *to,
                    const int64_t *to_stride, zl_dtype from_dtype, void *from, const int64_t *from_stride);

// Copies the first input to the output, unless the output took over its memory (kernels_move.c). Returns
// false, with an error, if that fails.
bool kernel_copy_input(const struct kernel_place *p, const struct call *c);
// Converts the fp8 (e4m3) numbers of x, row-major, to a float dtype in memory of the place. Returns false,
// with an error, if that fails.
bool kernel_from_fp8(const struct kernel_place *p, zl_array x, zl_dtype dtype, void *to);
// Writes the order that sorts n places (int64) stably, as uint32 (kernels_sort.c). Returns false, with an
// error, if that fails.
bool kernel_order_places(const struct kernel_place *p, void *order, void *places, int64_t n);
// Keys, unsigned integers of 4 or 8 bytes, and the position of each in its row (u32).
struct kernel_items {
    struct kernel_scratch key, at;
};
// Allocates `count` items with keys of so many bytes. Returns false, with an error, if memory runs out; call
// close anyway.
bool kernel_open_items(const struct kernel_place *p, struct kernel_items *t, int64_t count, size_t key_bytes);
// Frees items; does nothing if they are zeroed.
void kernel_close_items(const struct kernel_place *p, struct kernel_items *t);
// Sorts rows of n places each, stably. They are the keys of room[0], 8 bytes each if wide; places are less
// than `end`, or all ones. Returns which of the rooms holds the result, or -1 and an error.
int kernel_sort_places(const struct kernel_place *p, struct kernel_items room[2], bool wide, int64_t lines,
                       int64_t n, int64_t end);

#endif
