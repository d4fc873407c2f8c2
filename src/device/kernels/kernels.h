// kernels.h - the build that all devices share which run kernels: from the calls of a segment to launches.
//
// A device of this kind is a target: a record of what each unit has, and a few functions. Kernels are known by what they
// compute, of which dtypes, and how their operands lie (behind each other, with strides, one for all, a number); never by
// sizes or strides. Each is tile IR, one definition for all targets: a file of src/kernel/, or built from the recipe of a group.

#ifndef KERNELS_H
#define KERNELS_H

#include "device/device.h"
#include "device/tile_runtime/op_kernel.h"
#include "fuse/fuse.h"
#include "pass/pass.h"

// One argument of a launch: so many bytes of a value; of memory, the handle that the device gave, and what the kernel may do with it.
// Two launches need no order where neither writes bytes that the other reads or writes.
enum kernel_access { KERNEL_VALUE, KERNEL_READ, KERNEL_WRITTEN };
struct kernel_argument {
    const char *name; // as the kernel calls it
    enum kernel_access access;
    size_t bytes;
    const void *value;
    size_t reach; // of memory: bytes from the handle on; KERNEL_ANY: nobody knows
};
#define KERNEL_ANY SIZE_MAX

// A function of compiled code, and how its groups are launched.
struct kernel_function {
    const char *symbol; // its name, until it is loaded
    void *handle;       // what the target loaded
    int threads, shared; // of a group; bytes
};

enum { KERNEL_GRIDS = 16 }; // most functions of one code

struct kernel_place;
enum kernel_taken { KERNEL_NOT_TAKEN, KERNEL_DONE, KERNEL_FAILED };

struct kernel_target {
    const struct device *device;
    // What a compiled kernel depends on besides its text: model, driver, options. Part of its name on disk.
    const char *(*identity)(int unit);
    // What passes compile for, of groups of threads: one record for each unit, which lives as long as the process. What a unit lacks, and
    // everything if its groups have fewer threads than KERNEL_THREADS, runs on the CPU. NULL and an error.
    const struct target *(*record)(int unit);
    // The source as the device's code, in a form that a file can hold. False and an error.
    bool (*compile)(int unit, const struct text *source, struct text *code);
    // Loads functions of the code by their symbols, with as much shared memory as they say, and sets their handles, which are never
    // let go. False and an error.
    bool (*load)(int unit, const char *code, size_t bytes, int count, struct kernel_function *function);
    bool (*launch)(const struct kernel_place *p, const struct kernel_function *f, int64_t groups, int arguments,
                   const struct kernel_argument *argument);
    // Of a target that runs tile kernels as they are, instead of compile, load and launch. keep makes of a kernel, which it does not
    // change, what run takes; it is never let go. run gets one address for each parameter, of its memory or of its value. NULL, or
    // false, and an error.
    void *(*keep)(int unit, const struct tile_kernel *kernel);
    bool (*run)(const struct kernel_place *p, void *kept, void *const *address, const int64_t *symbol);
    // A call that is not elementwise, by a library of the vendor where that is better; and whether one runs all such calls,
    // which then need no kernel of ours. NULL: there is none.
    enum kernel_taken (*take)(const struct kernel_place *p, const struct call *c);
    bool (*takes)(int unit, const struct call *c);
    // A call and those after it as one, by a library: how many they were, 0 if it does not; and how many that would be.
    int (*fuse)(const struct kernel_place *p, const struct program *program, struct binding *b, int index);
    int (*count)(const struct program *program, struct call *const *call, int index);
};

// What a device of this kind has in its table.
bool kernels_have(const struct op *op); // a tile kernel for calls of the op, of some dtypes and arguments at least
bool kernels_can(const struct kernel_target *target, int unit, const struct call *c);
struct program *kernels_build(const struct kernel_target *target, int unit, const struct segment *s);
void kernels_drop(struct program *p);
void kernels_run(int unit, struct program *p, struct binding *b);
int kernels_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why);

// Between the files of this folder ------------------------------------------------------------------------------------

enum { KERNEL_THREADS = 256, KERNEL_AXES = 8, KERNEL_OPERANDS = 16 };

// Where something runs.
struct kernel_place {
    const struct kernel_target *target;
    int unit, lane;
    const struct target *record; // of the unit
    struct kernel_batch *batch; // not NULL: kernels are only looked for, and those that are missing put here
    struct kernel_numbers *numbers; // of the call that runs; NULL: its kernels read no numbers from memory
};

struct kernel_step {
    struct fuse_step is;
    bool reduces;      // it, or a call soon after it, is a reduction
    uint64_t in_place; // as of binding.prepare
    bool (*run)(const struct kernel_place *p, const struct call *c); // of what is neither a view nor a map
};

static inline bool step_is_other(const struct kernel_step *s) {
    return s->is.kind != FUSE_VIEW && s->is.kind != FUSE_MAP;
}

struct program {
    const struct kernel_target *target;
    bool fuses;
    atomic_bool ran;
    struct fuse_steps steps; // step, as groups are found from them
    struct kernel_step step[];
};

// kernels_cache.c -----------------------------------------------------------------------------------------------------

// Finds functions of a source, which is compiled unless its code is on disk. False and an error.
bool kernel_compile(const struct kernel_place *p, const struct text *source, int functions, struct kernel_function *function);

// Finds the tile kernel of a key. One that is not known is made by make(data), from a file of src/kernel/ (kernel_built_in) or by the
// builder, and compiled. The caller of make owns what it returns. NULL and an error.
struct kernel_tiles;
typedef struct tile_kernel *kernel_maker(const void *data);
const struct kernel_tiles *kernel_find_tiles(const struct kernel_place *p, const void *key, size_t bytes, kernel_maker *make,
                                             const void *data);

// Kernels that a program will need, compiled by all threads at once. What fails is left to who needs it.
struct kernel_batch {
    int count, cap;
    struct kernel_wanted *wanted;
};
void kernel_batch_compile(struct kernel_batch *batch, const struct kernel_place *p); // and frees it
bool kernel_batch_fits(struct kernel_batch *batch, const struct kernel_place *p); // whether the unit has what they need; frees it

// What is given for types and for the bits of indices in files of src/kernel/.
static inline const char *kernel_type(zl_dtype dtype) {
    return tile_type_name(tile_type_of(dtype));
}
static inline int32_t kernel_word(size_t bytes) { // dtype of elements that are only moved
    return bytes == 1 ? ZL_UINT8 : bytes == 2 ? ZL_UINT16 : bytes == 4 ? ZL_UINT32 : ZL_UINT64;
}
static inline int kernel_bits(bool wide) {
    return wide ? 64 : 32;
}

// kernels_launch.c: a list of arguments, and axes as kernels get them.
struct kernel_call {
    int arguments;
    size_t used;
    struct kernel_argument argument[72];
    _Alignas(8) char room[4096]; // what a launch passes by value, tables among it
};
static inline void kernel_begin_call(struct kernel_call *k) {
    k->arguments = 0;
    k->used = 0;
}
void kernel_add(struct kernel_call *k, const void *value, size_t bytes); // copied
void kernel_add_int(struct kernel_call *k, int64_t value, bool wide);    // as wide as indices are
// Memory, of which that many bytes are there. A kernel may write it, unless it is a tile kernel that only reads it.
void kernel_add_bytes(struct kernel_call *k, void *memory, size_t reach);
static inline void kernel_add_memory(struct kernel_call *k, void *memory) { // as much as a tile kernel reaches
    kernel_add_bytes(k, memory, KERNEL_ANY);
}
bool kernel_add_array(const struct kernel_place *p, struct kernel_call *k, zl_array x); // its memory; false and an error
bool kernel_launch_function(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                            const struct kernel_call *k);

// kernels_tiles.c: what a tile kernel became on a unit. It is rendered, compiled and loaded; NULL and an error.
struct kernel_tiles *kernel_tiles_compile(const struct kernel_place *p, struct tile_kernel *kernel);
// Holds a kernel that was made twice, as long as the one that is used; that one. Under the lock of both.
struct kernel_tiles *kernel_tiles_join(struct kernel_tiles *kept, struct kernel_tiles *twin);
// Launches its grids, one after the other. k holds the arguments for its parameters, in their order, to which sizes and memory between
// the grids are added; symbol the values of its symbols, in their order. False and an error.
bool kernel_launch_tiles(const struct kernel_place *p, const struct kernel_tiles *t, struct kernel_call *k, int symbols,
                         const int64_t *symbol);

// Axes of several operands, without those of one element, and with neighbours joined that are one for all operands.
struct kernel_layout {
    int operands, axes;
    int64_t size; // product of dims
    int64_t dim[64];
    int64_t stride[KERNEL_OPERANDS][64];
};
static inline int64_t layout_inner(const struct kernel_layout *l) { // as tiles walk it (tile_walk)
    return MAX_OF(l->axes - 1, 0);
}
void layout_begin(struct kernel_layout *l, int operands);
// An axis behind those there are, with the operands' strides.
void layout_push(struct kernel_layout *l, int64_t dim, const int64_t *stride);
// Axes of more than one element, the outermost in memory first, into room for 64; how many.
int layout_order(zl_array like, int *axis);
// All axes of `like`, which lies without gaps, in the order of its memory; each operand is stretched to its shape.
void layout_of(struct kernel_layout *l, zl_array like, int operands, const zl_array *operand);
int64_t layout_stride(zl_array x, int ndim, int axis); // of x stretched to a shape of ndim axes
bool layout_is_wide(const struct kernel_layout *l); // positions need more than 31 bits
// How many elements of memory an operand reaches from its first one at `at` on, where nobody knows how large the memory is.
int64_t layout_reach(const struct kernel_layout *l, int operand, int64_t at);
// Whether a kernel can have that many axes; false and an error that begins with `what`.
bool kernel_check_axes(const struct kernel_layout *l, const char *what);
// The table of a tile kernel, INDEX[operands + 1, 8]: sizes of the axes, innermost first, then strides of each operand.
void kernel_add_table(struct kernel_call *k, const struct kernel_layout *l, bool wide);
// Any table of a tile kernel, of rows that begin `step` numbers after each other.
void kernel_add_rows(struct kernel_call *k, int rows, int columns, const int64_t *value, int step, bool wide);

// kernels_work.c: one launch of a tile kernel while its arguments are collected, in the order of the kernel's parameters, and its sizes, in
// that of its symbols. `what` begins errors.
enum { WORK_CLAUSES = 16 };
struct kernel_work {
    const struct kernel_place *place;
    const char *what;
    bool wide;   // some size or position needs more than 31 bits: indices have 64
    bool failed; // an error was set
    int sizes;
    int64_t size[36];
    uint64_t numbers; // bit i: argument i is numbers as wide as indices are, which have 64 bits until it is launched
    struct kernel_call k;
};
void work_open(struct kernel_work *w, const struct kernel_place *p, const char *what);
static inline void work_value(struct kernel_work *w, const void *value, size_t bytes) {
    kernel_add(&w->k, value, bytes);
}
void work_int(struct kernel_work *w, int64_t number); // as wide as indices are
// Memory of so many bytes, or of as many as the kernel reaches. NULL fails, with the error of whoever gave it.
void work_bytes(struct kernel_work *w, void *memory, size_t reach);
void work_memory(struct kernel_work *w, void *memory);
void work_place(struct kernel_work *w, zl_array x); // the memory of an array
void work_array(struct kernel_work *w, zl_array x); // its memory, and as sizes the elements of that and where it begins
void work_result(struct kernel_work *w, zl_array x); // its memory, which may make indices wide
void work_table(struct kernel_work *w, const struct kernel_layout *l); // kernel_add_table; fails where it has too many axes
void work_rows(struct kernel_work *w, int rows, int columns, const int64_t *value, int step); // kernel_add_rows
void work_sizes(struct kernel_work *w, int count, const int64_t *size);
#define WORK_SIZES(w, ...) work_sizes(w, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
// Launches the kernel that make(key) gives. False and an error.
bool work_run(struct kernel_work *w, const void *key, size_t bytes, kernel_maker *make);
// Launches that of a file of src/kernel/. In its clauses %t stands for the type of a dtype or WORK_E4M3, %o for an op, %d for a number, each
// the next of the values; %i for INDEX and BITS, %b for the bits of indices.
enum { WORK_E4M3 = ZL_DTYPE_COUNT };
bool work_file(struct kernel_work *w, const char *name, const char *clauses, int count, const int32_t *clause);
#define WORK_FILE(w, name, clauses, ...) \
    work_file(w, name, clauses, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (const int32_t[]){__VA_ARGS__})

// Returns memory of the place that holds an array; NULL and an error. A number that an array holds itself is written there, for the
// call that runs.
void *kernel_reach(const struct kernel_place *p, zl_array x);
size_t kernel_bytes(zl_array x); // of that memory, as far as they are known

// Memory for one call, which is given back in the order of the unit's work.
struct kernel_scratch {
    void *memory; // NULL: there is none
    size_t capacity;
};
void *kernel_scratch_open(const struct kernel_place *p, struct kernel_scratch *s, size_t bytes); // NULL and an error
void kernel_scratch_close(const struct kernel_place *p, struct kernel_scratch *s); // also of one that was not opened

// Numbers that the inputs of a call hold themselves, where its kernels read them.
struct kernel_numbers {
    int count;
    zl_array of[KERNEL_OPERANDS];
    struct kernel_scratch room[KERNEL_OPERANDS];
};
void kernel_numbers_close(const struct kernel_place *p);

// kernels_map.c: runs the elementwise calls from index on as one kernel; how many they were.
int kernel_run_maps(const struct kernel_place *p, const struct program *program, struct binding *b, int index);
int kernel_count_maps(const struct program *program, struct call *const *call, int index, struct text *why);

// kernels_transpose.c: moves between the two operands of a layout, where elements go and where they come from, which have their
// neighbours along different axes, and enough of them. One end of a move: memory of the place, and where its first element is.
struct kernel_end {
    void *memory;
    int64_t at;
};
bool kernel_begins_run(const struct kernel_end *e, int width); // of so many elements, where memory is read 16 bytes at once
bool kernel_is_transpose(const struct kernel_layout *l);
bool kernel_transpose(const struct kernel_place *p, size_t bytes, const struct kernel_layout *l, struct kernel_end to,
                      struct kernel_end from);

// kernels_lines.c: the same of calls with reductions of the last axis among them; 0: there are none, or it does not pay.
int kernel_run_lines(const struct kernel_place *p, const struct program *program, struct binding *b, int index);
int kernel_count_lines(const struct program *program, struct call *const *call, int index);
// kernels_columns.c: the same of calls with reductions of the leading axes among them.
int kernel_run_columns(const struct kernel_place *p, const struct program *program, struct binding *b, int index);
int kernel_count_columns(const struct program *program, struct call *const *call, int index);

// Ops that are not elementwise, a family a file. Each runs a call whose outputs have their memory and are not empty.
typedef bool kernel_question(const struct call *c);
typedef bool kernel_function(const struct kernel_place *p, const struct call *c);
#define KERNEL_OP(op, can, run, ...)  kernel_question can; kernel_function run;
#define KERNEL_OP_OF_ALL(op, run, ...) kernel_function run;
#include "device/kernels/kernels_ops.def"
kernel_question kernel_inputs_lie; // in memory; a number that an array holds itself does not
kernel_function kernel_run_op; // kernels_tiles.c: by the op's own kernel
kernel_question matmul_few_fits; // kernels_matmul_few.c: whether a product has few rows, and inputs that lie as its kernel reads them
kernel_function kernel_matmul_few;
// kernels_product.c: whether a product is large, of a unit that multiplies tiles fast, and has inputs that lie as its kernel reads them.
bool product_fits(const struct kernel_place *p, const struct call *c);
kernel_function kernel_product;
kernel_question kernel_can_reduce;
kernel_function kernel_reduce;
// kernels_reduce.c: how threads share lines of `count` elements. Few lines are cut into parts, so that all of the device has something to do.
// Where no line may depend on the number of others, long ones are.
struct kernel_split {
    int lanes;           // threads that share a line, or a pack of lines by columns
    int64_t parts, each; // of a line; elements of a part, by columns whole turns of all lanes but in the last part
};
struct kernel_split kernel_split_columns(int64_t lines, int64_t count, int pack_bytes); // lines: packs of them
int kernel_column_lanes(int64_t lines, int64_t count, int pack_bytes); // of what is not cut
// Returns memory of the place, which s holds, with a row-major copy of x; NULL and an error.
void *kernel_copy_out(const struct kernel_place *p, zl_array x, struct kernel_scratch *s);
// Copies x, stretched to a shape, row-major to memory of the place.
bool kernel_stretch_out(const struct kernel_place *p, zl_array x, int ndim, const int64_t *dim, void *to);
// Sets elements of memory of the place, by strides, to the number at `number`.
bool kernel_fill(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to, const int64_t *stride,
                 const void *number);
// Moves elements of a dtype from one memory of the place to another, both by strides; kernel_convert those of another dtype.
bool kernel_move(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to,
                 const int64_t *to_stride, void *from, const int64_t *from_stride);
bool kernel_convert(const struct kernel_place *p, int ndim, const int64_t *dim, zl_dtype dtype, void *to,
                    const int64_t *to_stride, zl_dtype from_dtype, void *from, const int64_t *from_stride);

// kernels_move.c: the output is what the first input is, of which it may have the memory.
bool kernel_copy_input(const struct kernel_place *p, const struct call *c);
// The numbers of eight bits (e4m3) of x, row-major, as a float dtype to memory of the place.
bool kernel_from_fp8(const struct kernel_place *p, zl_array x, zl_dtype dtype, void *to);
// kernels_sort.c: the numbers of n places (int64) in their order, equal ones as they come, as uint32.
bool kernel_order_places(const struct kernel_place *p, void *order, void *places, int64_t n);
// Keys, unsigned numbers of 4 or 8 bytes, and where each was in its line (u32).
struct kernel_items {
    struct kernel_scratch key, at;
};
bool kernel_open_items(const struct kernel_place *p, struct kernel_items *t, int64_t count, size_t key_bytes); // false and an error
void kernel_close_items(const struct kernel_place *p, struct kernel_items *t); // also if it was not opened
// Sorts lines of n places each, which are the keys of room[0] (8 bytes if they are wide); equal ones stay as they come. Places are less
// than `end`, or all ones. Returns in which of the rooms they are then; -1 and an error.
int kernel_sort_places(const struct kernel_place *p, struct kernel_items room[2], bool wide, int64_t lines, int64_t n, int64_t end);


#endif
