// zellige_tile.h - tile kernels: the code that a device runs, as text that people can read and write.
//
//     zl_kernel k = zl_kernel_parse("kernel scale(a: f32[n]) -> (y: f32[n]) {\n"
//                                   "  map i in n { y[i] = a[i] * 2.0 }\n"
//                                   "}\n", "scale.tile");
//     char *c = zl_kernel_print(k, "c");
//     puts(c ? c : zl_error());
//     zl_free(c);
//     zl_kernel_release(k);
//
// Stages.    A kernel can be printed at each stage on its way to a device: "tile" is the kernel as it was
//            written; each pass is a stage ("lower", "simplify", ...), and so is each language ("c", "cuda",
//            ...).
//
// Ownership. Kernels are yours until zl_kernel_release(), texts until zl_free(). A kernel does not change, so
//            several threads may print it.
//
// Errors.    As in zellige.h: NULL or false, and zl_error() says why. For text that does not parse, the error
//            shows the line with a caret.

#ifndef ZELLIGE_TILE_H
#define ZELLIGE_TILE_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zl_kernel_ *zl_kernel; // NULL: failed

// Parses a kernel. Returns NULL, with an error, if that fails. `name` is what errors call the text, such as
// its file; NULL stands for "kernel".
ZL_API zl_kernel zl_kernel_parse(const char *text, const char *name);
// Parses a kernel with other values of the params, types and ops that the text names:
// "BM=64,ITEM=f16,COMBINE=maximum". NULL stands for the values in the text.
ZL_API zl_kernel zl_kernel_parse_with(const char *text, const char *name, const char *params);
// Releases a kernel. NULL is allowed.
ZL_API void      zl_kernel_release(zl_kernel kernel);

// Returns the kernel after a stage, or its source for a target such as "cuda", as text to be freed with
// zl_free; NULL after an error. Passes run as they do for the CPU.
ZL_API char *zl_kernel_print(zl_kernel kernel, const char *stage);

// Returns the name of the index-th stage, in order; NULL past the last.
ZL_API const char *zl_kernel_stage(int index);

// Compiling and running. ------------------------------------------------------------------------------------

// Parses a kernel and compiles it for a target; "c" is the CPU. Returns NULL, with an error, if that fails.
// A kernel that was compiled before, also by another process, is loaded from disk. Several threads may run
// it at once. With "auto", or NULL, the kernel follows its arguments: each run is on the device whose
// memory holds them, and compiles the kernel for that device if no run before did. Errors that only a
// target finds are then those of the run.
ZL_API zl_kernel zl_kernel_compile(const char *text, const char *name, const char *target);
// Parses and compiles a kernel with other values, as zl_kernel_parse_with takes them.
ZL_API zl_kernel zl_kernel_compile_with(const char *text, const char *name, const char *target,
                                        const char *params);
// Compiles a kernel that follows its arguments for a target before it first runs there. Returns false, with
// an error, if that fails or the kernel was compiled for another target only.
ZL_API bool zl_kernel_prepare(zl_kernel kernel, const char *target);
// Returns the name of the index-th target; NULL past the last.
ZL_API const char *zl_kernel_target(int index);
// Returns the text that the target's compiler received, which the kernel owns, or NULL and an error if the
// kernel was not compiled. For a kernel that follows its arguments, the target is the last one for which it
// was compiled; if there is none, the kernel is compiled for the default device.
ZL_API const char *zl_kernel_source_text(zl_kernel kernel);

// A parameter. Parameters are in the order of arguments: inputs, then outputs.
typedef struct {
    const char *name;
    zl_dtype dtype;
    int ndim; // 0 for a scalar too
    bool is_scalar, is_output;
} zl_kernel_parameter;
// Returns the number of parameters; 0 for NULL.
ZL_API int  zl_kernel_parameters(zl_kernel kernel);
// Fills in the index-th parameter. Returns false, with an error, if there is none.
ZL_API bool zl_kernel_parameter_at(zl_kernel kernel, int index, zl_kernel_parameter *out);

// Returns the name of the index-th size that the kernel names; NULL past the last.
ZL_API const char *zl_kernel_size_name(zl_kernel kernel, int index);
// Fills in the shape of a parameter, given a value for each size: `dim` has room for the parameter's axes.
// Returns false, with an error, if a value is out of range or there is no such parameter.
ZL_API bool zl_kernel_shape(zl_kernel kernel, int parameter, const int64_t *sizes, int64_t *dim);
typedef struct {
    double flops, bytes; // bytes: of the parameters, each counted once
} zl_kernel_cost;
// Fills in the cost of one run, given a value for each size. Returns false, with an error, if that fails.
ZL_API bool zl_kernel_cost_of(zl_kernel kernel, const int64_t *sizes, zl_kernel_cost *out);

// Memory that a kernel works on. For a scalar, `data` is the address of its value, and ndim is 0.
typedef struct {
    void *data;
    zl_dtype dtype;
    int ndim;
    const int64_t *dim;
    const int64_t *stride; // in elements; NULL: row-major
} zl_kernel_buffer;

// Runs a compiled kernel on memory, one buffer for each parameter, and waits for it. The sizes that the
// kernel names follow from the shapes. Returns false, with an error, if that fails. Shapes, dtypes and
// strides that do not fit are refused before the kernel starts; the error names the parameter. Memory may
// be the host's, which is copied to the device if need be, or that of the target's first GPU. A kernel that
// follows its arguments needs all of them on one device.
ZL_API bool zl_kernel_run(zl_kernel kernel, int count, const zl_kernel_buffer *buffer);

// Runs a kernel like zl_kernel_run, `repeats` times in a row, and sets *seconds to the time of one run,
// without copies of arguments, by the device's clock if it has one. Returns false, with an error, if that
// fails.
ZL_API bool zl_kernel_time(zl_kernel kernel, int count, const zl_kernel_buffer *buffer, int repeats,
                           double *seconds);
// Returns whether times of a target come from a model of its chip, equal in every run, and not from a clock.
ZL_API bool zl_kernel_is_modelled(const char *target);
// Returns what runs the kernels of a target that is not a device of arrays, and why: "emulator: ..." or
// "chip: ...". Returns NULL for other targets.
ZL_API const char *zl_kernel_runs_on(const char *target);

// Runs a compiled kernel on arrays and waits for it. Inputs are evaluated and made row-major; outputs are
// new arrays, which are yours (zl_release). Returns false, with an error and without outputs, if that
// fails. A kernel that follows its arguments runs on the device that alone has the values of one of them,
// otherwise on the default device; copies are made as for ops.
ZL_API bool zl_kernel_call(zl_kernel kernel, int inputs, const zl_array *in, int outputs, zl_array *out);

// Returns a built-in kernel after a stage, as zl_kernel_print does. `op` is an op of zellige_ops.h without
// zl_ ("add", "exp", "where"), "cast_" and a type of the IR ("cast_f32", from dtype), or "reduce_" and an
// op ("reduce_add"), each on rows of elements; or it is the name of a kernel that ops run on devices, a
// file of src/kernel/ ("conv"), with elements of that dtype.
ZL_API char *zl_kernel_of_op(const char *op, zl_dtype dtype, const char *stage);

// Device C. -------------------------------------------------------------------------------------------------

// A program in the C of a chip that is given its commands by a control program: the target "bm1690"
// (doc/bm1690.md). Arguments are packed into a structure in their order, memory as the chip's 64-bit
// addresses, scalars by value.
typedef struct {
    zl_kernel_buffer memory; // row-major; ndim 0: a scalar
    bool is_output;          // read back after the run
} zl_device_c_argument;
typedef struct {
    const char *entry; // the function that runs
    int cores;         // 0: one
    bool counts_only;  // check and count commands, but compute nothing
    bool traces;       // record every command in the report's trace
} zl_device_c_options;
typedef struct {
    double seconds;                       // modelled, like the two that follow
    double compute_seconds, copy_seconds; // of the engines of the busiest core
    int64_t commands, bytes;              // bytes: moved by copies
    int64_t scalars;                      // elements that the control program handled one at a time
    int64_t bank_conflicts;               // computations in which two operands share a bank of local memory
    double lanes;                         // share of the lanes that computations use: 0 to 1
    char *trace;                          // NULL unless asked for; free it with zl_free
} zl_device_c_report;
// Fills in what a run of a compiled kernel would take on a chip that is modelled, without computing.
// Returns false, with an error, if the target's times are measured rather than modelled
// (zl_kernel_is_modelled).
ZL_API bool zl_kernel_report(zl_kernel kernel, int count, const zl_kernel_buffer *buffer,
                             zl_device_c_report *report);

// Compiles the text as it is with the system's C compiler and runs it on the chip's emulator, which stops
// with an error at the first command that breaks a rule. Returns false, with an error, if that fails.
// `report` may be NULL.
ZL_API bool zl_device_c_run(const char *text, const char *target, const zl_device_c_options *options,
                            int count, const zl_device_c_argument *argument, zl_device_c_report *report);

// Overrides. ------------------------------------------------------------------------------------------------

// A way in which a device runs ops other than by their tile kernels. Its texts live as long as the program.
typedef struct {
    const char *device, *name; // "cuda", "cublaslt"
    const char *kind;          // "library": of a vendor; "kernel": in the language of the device
    const char *ops;           // names of the ops, with spaces between them
    const char *otherwise;     // what runs them where it does not: "tile kernels", or "cpu" if an op has none
    const char *reason;        // why tile kernels do not serve
    const char *measured;      // what it gains, and against what
    int lines;                 // of a kernel's text; 0: it is a library
} zl_kernel_override;
// Fills in the index-th override, counted over all devices, available or not. Returns false past the last.
ZL_API bool zl_kernel_override_at(int index, zl_kernel_override *out);

#ifdef __cplusplus
}
#endif

#endif
