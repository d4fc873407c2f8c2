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
// Stages.    A kernel is shown on its way to a device: "tile" is the kernel as it was written; then each pass
//            has its name ("lower", "simplify", ...), and then each language ("c", "cuda", ...).
//
// Ownership. Kernels are yours until zl_kernel_release(), texts until zl_free(). A kernel does not change: it
//            may be printed from several threads.
//
// Errors.    As in zellige.h: NULL, and zl_error() says why. Text that does not parse: with line and caret.

#ifndef ZELLIGE_TILE_H
#define ZELLIGE_TILE_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zl_kernel_ *zl_kernel; // NULL: failed

// Reads a kernel. name is what messages call the text, such as its file; NULL is "kernel".
ZL_API zl_kernel zl_kernel_parse(const char *text, const char *name);
// Does the same with other values of the params, types and ops that the text names:
// "BM=64,ITEM=f16,COMBINE=maximum". NULL: as they are in the text.
ZL_API zl_kernel zl_kernel_parse_with(const char *text, const char *name, const char *params);
ZL_API void      zl_kernel_release(zl_kernel kernel); // NULL is allowed

// The kernel as it is after a stage, or as text for a target such as "cuda". Passes are shown as they are run
// for the CPU.
ZL_API char *zl_kernel_print(zl_kernel kernel, const char *stage);

// Name of the index-th stage, in order; NULL past the last.
ZL_API const char *zl_kernel_stage(int index);

// Compiling and running. ------------------------------------------------------------------------------------

// Reads a kernel and compiles it for a target: "c" is the CPU. What was compiled before, also by another
// process, is loaded from disk. May be run by several threads at once. With "auto", or NULL, the kernel
// follows its arguments: each run is on the device on whose memory they are, and compiles the kernel for it
// if none before did. Mistakes that only a target finds are then told by the run.
ZL_API zl_kernel zl_kernel_compile(const char *text, const char *name, const char *target);
// Does the same with other values, as zl_kernel_parse_with takes them.
ZL_API zl_kernel zl_kernel_compile_with(const char *text, const char *name, const char *target,
                                        const char *params);
// Compiles a kernel that follows its arguments for a target before it first runs there. False and an error;
// of a kernel that was compiled for another target too.
ZL_API bool zl_kernel_prepare(zl_kernel kernel, const char *target);
ZL_API const char *zl_kernel_target(int index); // names of the targets, in order; NULL past the last
// The text that the target's compiler got; the kernel owns it. Of a kernel that follows its arguments that of
// the target which was last compiled for, and before the first run that for the default device. NULL and an
// error: it was not compiled.
ZL_API const char *zl_kernel_source_text(zl_kernel kernel);

// Parameters in the order of arguments: inputs, then outputs.
typedef struct {
    const char *name;
    zl_dtype dtype;
    int ndim; // 0 of a scalar too
    bool is_scalar, is_output;
} zl_kernel_parameter;
ZL_API int  zl_kernel_parameters(zl_kernel kernel);
ZL_API bool zl_kernel_parameter_at(zl_kernel kernel, int index, zl_kernel_parameter *out);

// Sizes that the kernel names, in order; NULL past the last. With a value for each: the shape of a parameter
// (dim has room for its axes), and what one run costs.
ZL_API const char *zl_kernel_size_name(zl_kernel kernel, int index);
ZL_API bool zl_kernel_shape(zl_kernel kernel, int parameter, const int64_t *sizes, int64_t *dim);
typedef struct {
    double flops, bytes; // of parameters, each byte once
} zl_kernel_cost;
ZL_API bool zl_kernel_cost_of(zl_kernel kernel, const int64_t *sizes, zl_kernel_cost *out);

// Memory that a kernel works on; of a scalar its value, with ndim 0.
typedef struct {
    void *data;
    zl_dtype dtype;
    int ndim;
    const int64_t *dim;
    const int64_t *stride; // in elements; NULL: row-major
} zl_kernel_buffer;

// Runs a compiled kernel on memory, one buffer for each parameter, and waits for it. Sizes that the kernel
// names are found in the shapes. Shapes, dtypes and strides that do not fit are refused before it starts,
// with the parameter's name. Memory may be the host's, which is copied if it must be, or that of the target's
// first GPU. A kernel that follows its arguments wants all of them on one device.
ZL_API bool zl_kernel_run(zl_kernel kernel, int count, const zl_kernel_buffer *buffer);

// The same that many times in a row; *seconds: of one of them, without copies of arguments, by the device's
// clock if it has one.
ZL_API bool zl_kernel_time(zl_kernel kernel, int count, const zl_kernel_buffer *buffer, int repeats,
                           double *seconds);
// Returns whether times of a target come from a model of its chip, equal in every run, and not from a clock.
ZL_API bool zl_kernel_is_modelled(const char *target);
// Returns what runs the kernels of a target that is no device of arrays, and why: "emulator: ..." or
// "chip: ...". Returns NULL for other targets.
ZL_API const char *zl_kernel_runs_on(const char *target);

// The same on arrays: inputs are evaluated and made row-major, outputs are new arrays that are yours
// (zl_release). A kernel that follows its arguments runs on the device that alone has the values of one of
// them, else on the default device; copies are made as for ops.
ZL_API bool zl_kernel_call(zl_kernel kernel, int inputs, const zl_array *in, int outputs, zl_array *out);

// The built-in kernel of one op on rows of numbers: op as in zellige_ops.h without zl_ ("add", "exp",
// "where"), "cast_" and a type that the IR knows ("cast_f32", from dtype), or "reduce_" and an op
// ("reduce_add"); or the name of a kernel that ops run on devices, a file of src/kernel/ ("conv"), whose
// elements have the dtype.
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
    bool counts_only;  // checks and counts commands, but computes nothing
    bool traces;       // writes down every command
} zl_device_c_options;
typedef struct {
    double seconds;                       // modelled, as the two that follow
    double compute_seconds, copy_seconds; // of the engines of the busiest core
    int64_t commands, bytes;              // bytes: moved by copies
    int64_t scalars;                      // elements that the control program handled one at a time
    int64_t bank_conflicts;               // computations of which two operands share a bank of local memory
    double lanes;                         // in use by computations, of all of them: 0 to 1
    char *trace;                          // NULL unless asked for; free it with zl_free
} zl_device_c_report;
// Fills in what a run of a compiled kernel would take on a chip that is modelled, without computing. Returns
// false, with an error, if times of the target are measured (zl_kernel_is_modelled).
ZL_API bool zl_kernel_report(zl_kernel kernel, int count, const zl_kernel_buffer *buffer,
                             zl_device_c_report *report);

// Compiles the text with the system's C compiler, as it is, and runs it on the chip's emulator, which ends it
// with an error at the first command that breaks a rule. report may be NULL.
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
// Fills out with the index-th override, of all devices, also of those that are not here; false past the last.
ZL_API bool zl_kernel_override_at(int index, zl_kernel_override *out);

#ifdef __cplusplus
}
#endif

#endif
