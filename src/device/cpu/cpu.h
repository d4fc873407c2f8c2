// cpu.h - the CPU device: what all of its folders use. Each folder has headers of its own.
//
// An elementwise op is a row kernel over contiguous data (rows.h, generated). rows/operands.h splits operands
// of any strides into tiles on which row kernels work. Reductions, copies, matrix products and indexing have
// drivers of their own, and share the loops over tiles, the gathers and the division among threads.

#ifndef CPU_H
#define CPU_H

#include <limits.h>
#include <string.h>

#include "device/device.h"
#include "fuse/fuse.h"
#include "rows.h"

// Returns the least multiple of unit that is not less than count.
static inline int64_t round_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}
// Returns count / by, rounded up.
static inline int64_t divide_up(int64_t count, int64_t by) {
    return (count + by - 1) / by;
}

// level.c ---------------------------------------------------------------------------------------------------

// One instruction-set level that this library was built with.
struct cpu_level {
    const char *name;  // as in levels.def
    const char *flags; // compiler flags that enable it
    const struct row_table *rows;
};
// Returns the level that ZL_ISA names, else the best that this CPU has. It is chosen once.
const struct cpu_level *cpu_level(void);
// Returns the number of vector registers of that level.
int cpu_level_registers(void);
// Returns whether the CPU has what a level or a feature needs; name: one in level.c. If ZL_ISA is set,
// features beyond its level are hidden.
bool cpu_has(const char *name);

// describe.c ------------------------------------------------------------------------------------------------

// Describes the machine; always returns true. The texts in *out live as long as the process.
bool cpu_describe(int unit, zl_device_info *out);

// caches.c --------------------------------------------------------------------------------------------------

// Returns the bytes of the data cache of a level, 1 to 3, as the system reports them, else a usual value.
int64_t cpu_cache_bytes(int level);

// Buffers that each thread has, by number. They are reused: taking a buffer invalidates its previous
// contents.
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
// Returns a buffer of at least this many bytes, or NULL and an error.
void *cpu_scratch(int which, size_t bytes);

// Compiles a function for CPUs with a feature that not all of aarch64 have.
#if defined(__clang__)
#define CPU_WITH(feature) __attribute__((target(feature)))
#else
#define CPU_WITH(feature) __attribute__((target("arch=armv8.2-a+" feature)))
#endif

// cpu_quantize.c --------------------------------------------------------------------------------------------

// How to decode quantised numbers: to float64 if wide, else to float32.
struct unpacking {
    int mode, group, bits; // as in quantize.c
    zl_dtype dtype;        // of scales and biases, if the mode is affine
    bool wide;
    float factor;          // multiplies all scales, if the mode is not affine
};
// Decodes contiguous groups. In mode gguf_k the first one begins a block of scales.
void cpu_unpack(const struct unpacking *u, const char *words, const char *scales, const char *biases,
                int64_t groups, char *out);

// Unpacks codes to one per byte; count is a multiple of 16.
void cpu_unpack_codes(int bits, const char *words, int64_t count, uint8_t *out);
// Converts the scales, or the biases, of groups to float32, in all modes but gguf_k.
void cpu_unpack_scales(const struct unpacking *u, const char *scales, int64_t groups, float *out);
// Computes the scales and biases of groups in mode gguf_k. The first group begins a block.
void cpu_unpack_k(const struct unpacking *u, const char *scales, int64_t groups, float *scale, float *bias);

// program.c -------------------------------------------------------------------------------------------------

// How a call runs, determined when the program is built.
struct step {
    struct fuse_step is;
    // Runs the call. Returns false, with an error, if that fails. NULL: there is nothing to do.
    bool (*run)(const struct step *s, const struct call *c);
    union {
        row_fn *const *forms;                 // of elementwise ops and casts; index: the set of scalar
                                              // operands
        bool (*other)(const struct call *c);
    };
    uint64_t in_place; // bit k: the output may take over the memory of input k
    uint8_t scalars;   // bit k: input k may be a scalar
    uint8_t item[4];   // bytes per element: of the output, then of the inputs as the row kernel reads them
    uint8_t weight;    // cost per element; moving one costs 1
    uint16_t cost;     // weight times the bytes of one element of each operand
    bool inverts;      // a division computed as a product with the reciprocal
    bool begins;       // a group of calls that run as one row program may begin here
};

struct program {
    struct fuse_steps steps; // refers to step, for finding groups
    struct step step[];
};

// Writes the value of an inline scalar in the form that the step's row kernel reads.
void cpu_write_scalar(const struct step *s, zl_array x, int input, void *room);
// Returns the op whose row kernel computes an elementwise call.
enum tile_op cpu_row_of(const struct call *c);

// The functions of struct device.

// Builds a program, which cpu_drop() frees. Returns NULL and an error if it cannot.
struct program *cpu_build(int unit, const struct segment *s);
// Frees a program.
void cpu_drop(struct program *p);
// Runs the calls of a program in order. Failures are recorded per call through binding.fail.
void cpu_run(int unit, struct program *p, struct binding *b);
// Returns whether the CPU has code for a call.
bool cpu_can(int unit, const struct call *c);

// row_group.c, row_program.c --------------------------------------------------------------------------------

// Finds the calls at which groups may begin. Returns false, with an error, if memory runs out.
bool cpu_group_steps(struct program *p, const struct segment *s);
// Runs calls from index on as one row program, and finishes them. Returns how many calls it ran; 0: the call
// at index must run by itself.
int cpu_run_group(const struct program *p, struct binding *b, int index);
// Waits until all queued kernels have been compiled.
void cpu_kernels_settle(void);
// Drops queued kernels, and waits until the current compilation has ended.
void cpu_kernels_stop(void);
// Returns how many calls from index on run as one row program, as fuses() of struct device does, and appends
// to *why what keeps further calls from joining.
int cpu_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why);

// Ops that are not elementwise ------------------------------------------------------------------------------

// Each runs one call whose outputs have memory, and returns false, with an error, if that fails.
typedef bool cpu_function(const struct call *c);
#define CPU_OP(op, function, ...) cpu_function function;
#include "device/cpu/cpu_ops.def"
cpu_function cpu_reduce;
cpu_function cpu_op_tiles; // op_tiles.c: runs the op's tile kernel

// Runs a collective, whose output has memory. Returns false, with an error, if it fails.
bool cpu_collective(const struct call *c);

// Returns the address of element 0 of an array that is not an inline scalar.
static inline char *cpu_data(zl_array a) {
    return (char *)a->storage->data + a->offset * (int64_t)array_item(a);
}

#endif
