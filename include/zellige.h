// zellige.h - arrays: lazy, immutable, on any device. The ops themselves are in zellige_ops.h and
// zellige_matrix_ops.h, included below.
//
//     ZL_SCOPE {
//         zl_array y = zl_softmax(zl_add(zl_matmul(x, w), b), -1, false);
//         if (!zl_eval(y))
//             fprintf(stderr, "%s\n", zl_error());
//     }
//
// Laziness.  An op records what to do; zl_eval(), or reading the data, does it. Views cost nothing.
//
// Ownership. A function that returns a zl_array lends it to you until the innermost open scope ends.
//            zl_retain() makes it yours until zl_release(). Intermediate results of an evaluation that are
//            not retained are freed.
//
// Errors.    An op that fails returns NULL; an op given NULL returns NULL. So write the whole expression,
//            then check once: zl_error() is the first failure of this thread since zl_clear_error().
//
// Threads.   Arrays may be used from any thread; scopes, errors and default streams belong to their thread.

#ifndef ZELLIGE_H
#define ZELLIGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#if defined(__GNUC__)
#define ZL_API __attribute__((visibility("default")))
#else
#define ZL_API
#endif

// Version ---------------------------------------------------------------------------------------------------

#define ZL_VERSION_MAJOR 0
#define ZL_VERSION_MINOR 1
#define ZL_VERSION_PATCH 0

// Returns the version of the library that is running, "0.1.0".
ZL_API const char *zl_version(void);

// Types -----------------------------------------------------------------------------------------------------

typedef struct zl_array_ *zl_array;   // NULL: failed
typedef struct zl_stream_ *zl_stream; // work in order, on one device; belongs to the thread that made it

typedef enum {
    ZL_BOOL,
    ZL_UINT8,
    ZL_UINT16,
    ZL_UINT32,
    ZL_UINT64,
    ZL_INT8,
    ZL_INT16,
    ZL_INT32,
    ZL_INT64,
    ZL_FLOAT16,
    ZL_BFLOAT16,
    ZL_FLOAT32,
    ZL_FLOAT64,
    ZL_COMPLEX64,
    ZL_DTYPE_COUNT,
} zl_dtype;

// Returns the name of a dtype, "float32", or "unknown" if there is no such dtype.
ZL_API const char *zl_dtype_name(zl_dtype dtype);
// Returns the dtype of a name, "float32" or "f32", or ZL_DTYPE_COUNT and an error if there is none.
ZL_API zl_dtype    zl_dtype_find(const char *name);
// Returns the size of one element in bytes, or 0 if there is no such dtype.
ZL_API size_t      zl_dtype_size(zl_dtype dtype);
// Returns the value of a float16 element, exactly.
ZL_API float       zl_float16_to_float(uint16_t bits);
// Returns the float16 element nearest to x; ties go to even.
ZL_API uint16_t    zl_float16_from_float(float x);
// Returns the value of a bfloat16 element, exactly.
ZL_API float       zl_bfloat16_to_float(uint16_t bits);
// Returns the bfloat16 element nearest to x; ties go to even.
ZL_API uint16_t    zl_bfloat16_from_float(float x);
// Returns the dtype to which an op on arrays of both promotes.
ZL_API zl_dtype    zl_result_type(zl_dtype a, zl_dtype b);

// Sizes, or strides in elements, of an array; any number of them. The memory is borrowed from whatever they
// describe.
typedef struct {
    const int64_t *dim;
    int ndim;
} zl_shape;

// Axes on which an op works. Negative axes count from the last. ZL_ALL stands for every axis.
typedef struct {
    const int *axis;
    int count;
} zl_axes;

#ifdef __cplusplus
#define ZL_SHAPE(...) zl_shape_list({__VA_ARGS__})
#define ZL_AXES(...)  zl_axes_list({__VA_ARGS__})
#define ZL_SCALAR     (zl_shape{nullptr, 0})
#define ZL_NO_SHAPE   (zl_shape{nullptr, -1})
#define ZL_ALL        (zl_axes{nullptr, -1})
#else
#define ZL_SHAPE(...)                           \
    ((zl_shape){(const int64_t[]){__VA_ARGS__}, \
                (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))})
#define ZL_AXES(...) \
    ((zl_axes){(const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))})
#define ZL_SCALAR   ((zl_shape){NULL, 0})
#define ZL_NO_SHAPE ((zl_shape){NULL, -1}) // not given
#define ZL_ALL      ((zl_axes){NULL, -1})
#endif

// Errors ----------------------------------------------------------------------------------------------------

typedef enum {
    ZL_ERROR_NONE,
    ZL_ERROR_SHAPE,    // shapes do not fit each other or the op
    ZL_ERROR_AXIS,     // no such axis
    ZL_ERROR_DTYPE,    // the op does not accept this dtype
    ZL_ERROR_VALUE,    // an argument is out of its range, or NULL
    ZL_ERROR_OVERFLOW, // a size exceeds 64 bits
    ZL_ERROR_MEMORY,   // memory ran out, or the limit is exceeded
    ZL_ERROR_STATE,    // data was consumed, history is gone, or a stream belongs to another thread
    // there is no such device, it failed, or a result does not exist (the inverse of a singular matrix)
    ZL_ERROR_DEVICE,
    ZL_ERROR_COMPILE,  // there is no compiler, or a kernel does not compile
    ZL_ERROR_LIBRARY,  // a library that is needed is not installed
    ZL_ERROR_IO,       // a file could not be read or written
    ZL_ERROR_SYNTAX,   // text does not parse
} zl_error_kind;

// Returns the first error of this thread since zl_clear_error, or NULL. The text is valid until this thread
// clears it.
ZL_API const char   *zl_error(void);
// Returns the kind of that error, or ZL_ERROR_NONE.
ZL_API zl_error_kind zl_error_which(void);
// Forgets this thread's error, so that the next failure is recorded.
ZL_API void          zl_clear_error(void);

// Scopes and ownership --------------------------------------------------------------------------------------

// A scope holds the arrays that are lent while it is open. Ending a scope also ends the scopes opened inside
// it, so leaving a block by return or break leaks nothing past the enclosing scope. Every thread has an
// outermost scope, which ends with the thread.
typedef struct {
    int height;
    int open;         // 2: it switched to another stream
    zl_stream stream; // the stream before that
} zl_scope;

// Begins a scope on this thread. Ops are recorded for the same stream as before.
ZL_API zl_scope zl_scope_begin(void);
// Begins a scope whose ops are recorded for a stream; NULL stands for the same stream as before.
ZL_API zl_scope zl_scope_begin_on(zl_stream stream);
// Ends a scope: the arrays lent in it are no longer valid unless they are retained. Restores the stream
// that zl_scope_begin_on replaced.
ZL_API void     zl_scope_end(zl_scope scope);
// Ends a scope and lends `result` to the scope outside. Returns `result`.
ZL_API zl_array zl_scope_leave(zl_scope scope, zl_array result);

// Runs the following block in a scope of its own. (The loop ends by a pointer whose first value the compiler
// knows, so that it sees that the block always runs.)
#define ZL_SCOPE                                                          \
    for (zl_scope zl_s_ = zl_scope_begin(), *zl_open_ = &zl_s_; zl_open_; \
         zl_scope_end(zl_s_), zl_open_ = NULL)

// Makes an array yours until zl_release, and returns it. NULL gives NULL.
ZL_API zl_array zl_retain(zl_array a);
// Releases an array that zl_retain made yours. Its memory is freed when nothing uses it any more. NULL is
// allowed.
ZL_API void     zl_release(zl_array a);
// Evaluates `value`, retains it, and stores it in *owned, whose old array is released. Returns false, with an
// error, if that fails; then *owned stays as it was.
ZL_API bool     zl_assign(zl_array *owned, zl_array value);

// Making arrays ---------------------------------------------------------------------------------------------

// Return an array with a copy of row-major data, or NULL and an error.
ZL_API zl_array zl_from(const void *data, zl_shape shape, zl_dtype dtype);
ZL_API zl_array zl_from_f32(const float *data, zl_shape shape);
ZL_API zl_array zl_from_f64(const double *data, zl_shape shape);
ZL_API zl_array zl_from_i32(const int32_t *data, zl_shape shape);
ZL_API zl_array zl_from_i64(const int64_t *data, zl_shape shape);
ZL_API zl_array zl_from_bool(const bool *data, zl_shape shape);

// Return an array of one number. It is weak: beside another array it takes that array's dtype; alone it is
// float32, int32, bool or complex64.
ZL_API zl_array zl_scalar(double value);
ZL_API zl_array zl_scalar_int(int64_t value);
ZL_API zl_array zl_scalar_bool(bool value);
ZL_API zl_array zl_scalar_complex(double re, double im);

// How zl_from_foreign uses memory of the program.
typedef struct {
    const int64_t *strides;         // in elements; NULL: row-major
    // called from any thread once nothing uses the memory any more; NULL: nothing is called
    void (*release)(void *context);
    void *context;
} zl_foreign_options;
// Returns an array over memory of the program, which is neither copied nor written. If it returns NULL, with
// an error, release has been called. NULL options stand for none.
ZL_API zl_array zl_from_foreign(const void *data, zl_shape shape, zl_dtype dtype,
                                const zl_foreign_options *options);

// Return a view of an array of C structs, without copying: zl_from_records views the structs as records of
// record_bytes, and zl_field views one field by its offset. `inner` is the shape of the field: ZL_SCALAR, or
// ZL_SHAPE(3) for float position[3].
ZL_API zl_array zl_from_records(const void *data, zl_shape shape, size_t record_bytes,
                                const zl_foreign_options *options);
ZL_API zl_array zl_field(zl_array records, size_t offset, zl_dtype dtype, zl_shape inner);

// Looking at arrays: nothing here evaluates -----------------------------------------------------------------

// Returns the dtype of an array; ZL_FLOAT32 for NULL.
ZL_API zl_dtype zl_dtype_of(zl_array a);
// Returns the number of axes; 0 for NULL.
ZL_API int      zl_ndim(zl_array a);
// Returns the size of an axis, where negative axes count from the last, or -1 and an error if there is none.
ZL_API int64_t  zl_dim(zl_array a, int axis);
// Returns the number of elements; 0 for NULL.
ZL_API int64_t  zl_size(zl_array a);
// Returns how many bytes the elements take without gaps; 0 for NULL.
ZL_API size_t   zl_nbytes(zl_array a);
// Returns the shape, which is valid as long as the array.
ZL_API zl_shape zl_shape_of(zl_array a);
// Returns the strides in elements, which are valid as long as the array. Results of ops are row-major, except
// that elementwise results keep the layout of their inputs if all inputs have the same layout, without gaps.
ZL_API zl_shape zl_strides_of(zl_array a);
// Returns whether the array is row-major, without gaps.
ZL_API bool     zl_is_contiguous(zl_array a);
// Returns whether the array is a row-major array with its last two axes swapped.
ZL_API bool     zl_is_transposed(zl_array a);
// Returns whether the array has been computed, or has failed, so that reading it does not wait.
ZL_API bool     zl_is_available(zl_array a);

// Reading: evaluates and waits for that array only. NULL, 0 or false after an error -------------------------

// Return the address of row-major data, valid as long as the array. An array that is not row-major gives NULL
// and an error: use zl_contiguous or zl_copy_to. The typed functions also check the dtype.
ZL_API const void    *zl_data(zl_array a);
ZL_API const float   *zl_data_f32(zl_array a);
ZL_API const double  *zl_data_f64(zl_array a);
ZL_API const int32_t *zl_data_i32(zl_array a);
ZL_API const int64_t *zl_data_i64(zl_array a);
ZL_API const bool    *zl_data_bool(zl_array a);
// Copies an array of any layout to `out`, row-major. `bytes` must be zl_nbytes(a). Returns false, with an
// error, if that fails.
ZL_API bool           zl_copy_to(zl_array a, void *out, size_t bytes);
// Return the value of an array of one element, converted to the type returned; 0 and an error if that fails.
ZL_API double         zl_item(zl_array a);
ZL_API int64_t        zl_item_int(zl_array a);
// Return the array as text, to be freed with zl_free. An array of more than `most` elements (1,000 for
// zl_print) is shortened to the ends of its long axes.
ZL_API char          *zl_print(zl_array a);
ZL_API char          *zl_print_most(zl_array a, int64_t most);
// Frees a text that the library returned, or the bytes that zl_save_memory returned. NULL is allowed.
ZL_API void           zl_free(void *text);

// Evaluation ------------------------------------------------------------------------------------------------

// Computes an array and waits for it. Returns false, with an error, if that fails.
ZL_API bool zl_eval(zl_array a);
// Computes several arrays together and waits for them. Returns false, with an error, if that fails.
ZL_API bool zl_eval_all(int count, const zl_array *arrays);
// Starts to compute an array and does not wait for it, except while more memory is in use than
// zl_set_memory_goal allows. Returns false, with an error, if that cannot be started. A later failure shows
// when the array is read, or when its stream is waited for.
ZL_API bool zl_async_eval(zl_array a);
// Starts to compute several arrays together, otherwise like zl_async_eval.
ZL_API bool zl_async_eval_all(int count, const zl_array *arrays);
// Waits for this thread's default stream. Returns false, with an error, if something failed there that was
// not reported yet.
ZL_API bool zl_synchronize(void);

// Sets a check that threads call now and then while they evaluate or wait, but never in quick succession. If
// it returns true, they give up: what has not been computed yet fails with ZL_ERROR_STATE. NULL: no check.
ZL_API void zl_set_interrupt(bool (*check)(void *context), void *context);

// Transforms ------------------------------------------------------------------------------------------------

// Computes the gradients of `loss`, a float array of one element that has not been evaluated, with respect to
// `count` arrays that it was computed from, numbers (zl_scalar) included. The gradients are lent. Returns
// false, with an error, if that fails. The transforms below take functions, which may evaluate arrays.
ZL_API bool zl_grad(zl_array loss, int count, const zl_array *wrt, zl_array *grads);

// A list of a function's results, which it keeps until it is freed.
typedef struct zl_outputs_ zl_outputs;
// Returns an empty list, to be freed with zl_outputs_free, or NULL and an error.
ZL_API zl_outputs *zl_outputs_new(void);
// Frees a list and releases its results. NULL is allowed.
ZL_API void        zl_outputs_free(zl_outputs *outputs);
// Returns the number of results; 0 for NULL.
ZL_API int         zl_outputs_count(const zl_outputs *outputs);
// Returns a result, which is valid as long as the list holds it, or NULL and an error if there is none of
// that index.
ZL_API zl_array    zl_outputs_get(const zl_outputs *outputs, int index);
// Appends a result, which the list retains. Returns false if it is NULL or memory runs out.
ZL_API bool        zl_give(zl_outputs *out, zl_array a);

// A function of arrays. It runs on the calling thread, on arrays that stand for the real ones, and returns
// its results by zl_give(); it returns false if it failed. Transforms that keep a function for later
// (zl_checkpoint, zl_custom, zl_compile) call retain(data), and release(data) from any thread when they no
// longer need it. Both may be NULL.
typedef struct {
    bool (*call)(void *data, int count, const zl_array *in, zl_outputs *out);
    void *data; // of the caller
    void (*retain)(void *data);
    void (*release)(void *data);
} zl_fn;

// All transforms may be called inside functions that are being transformed. They return false, with an error,
// if they fail. `values` receives the results of f and may be NULL. Lists must be empty at first, and are
// empty after an error. Arrays written to `grads` are lent, like the result of an op.

// Computes the cotangents of the inputs, given one for each result that is not a zl_stop_gradient().
ZL_API bool zl_vjp(zl_fn f, int count, const zl_array *in, int cotangents, const zl_array *cotangent,
                   zl_outputs *values, zl_array *grads);
// Computes the tangents of the results, given one for each input (NULL: zero).
ZL_API bool zl_jvp(zl_fn f, int count, const zl_array *in, const zl_array *tangent, zl_outputs *values,
                   zl_outputs *tangents);
// Computes the gradients of the first result, a scalar, with respect to some of the inputs. Other results are
// passed on.
ZL_API bool zl_value_and_grad(zl_fn f, int count, const zl_array *in, int argnums, const int *argnum,
                              zl_outputs *values, zl_array *grads);
// Applies f to each element along an axis of the inputs (-1: the same input for all). out_axis says where the
// results have that axis, counted from the last if negative; NULL: first. f runs once, and cannot read the
// arrays that it maps over.
ZL_API bool zl_vmap(zl_fn f, int count, const zl_array *in, const int *in_axis, int results,
                    const int *out_axis, zl_outputs *out);
// Calls f such that gradients recompute its intermediate arrays instead of keeping them.
ZL_API bool zl_checkpoint(zl_fn f, int count, const zl_array *in, zl_outputs *out);

// A function with its own rules of differentiation and batching. A rule that is NULL is derived from the
// function. Derivatives see its inputs only: other arrays that it uses are constants.
typedef struct {
    zl_fn f;
    // Gives a cotangent for each input.
    bool (*vjp)(void *data, int count, const zl_array *in, int results, const zl_array *result,
                const zl_array *cotangent, zl_outputs *out);
    // Gives a tangent for each result. Tangents of inputs are NULL where they are zero.
    bool (*jvp)(void *data, int count, const zl_array *in, const zl_array *tangent, zl_outputs *out);
    // Gives each result for inputs with an extra axis (-1: none), and writes to out_axis where the result has
    // that axis.
    bool (*vmap)(void *data, int count, const zl_array *in, const int *axis, int results, zl_outputs *out,
                 int *out_axis);
} zl_custom_fn;
// Calls f, and records the call with its rules. Appends its results to `out`.
ZL_API bool zl_custom(const zl_custom_fn *f, int count, const zl_array *in, zl_outputs *out);

// A compiled function. It runs once for each kind of inputs, that is, their dtypes and shapes or, if
// shapeless, their ranks. Its ops are recorded and simplified, and later calls replay them with other inputs;
// whatever else the function does is not repeated. Arrays that it captures are constants. It cannot evaluate
// or read arrays that depend on its inputs. Called inside another transform, it runs as it is. Any thread may
// call it.
typedef struct zl_compiled_ *zl_compiled;
// Returns a compiled function, to be released with zl_compiled_release, or NULL and an error. Retains f's
// data.
ZL_API zl_compiled zl_compile(zl_fn f, bool shapeless);
// Adds a reference to a compiled function, and returns it. NULL gives NULL.
ZL_API zl_compiled zl_compiled_retain(zl_compiled c);
// Drops a reference; the last one frees the function and releases f's data. NULL is allowed.
ZL_API void        zl_compiled_release(zl_compiled c);
// Calls a compiled function. `key` is bytes that stand for everything else that the function depends on:
// calls with another key are of another kind. Each number (zl_scalar) is a kind of its own.
ZL_API bool zl_compiled_call(zl_compiled c, const void *key, size_t key_bytes, int count, const zl_array *in,
                             zl_outputs *out);
// Attaches a number to the results of a function. Each replay of the function attaches the same number.
ZL_API void    zl_outputs_set_tag(zl_outputs *outputs, int64_t tag);
// Returns the number attached to these results; 0 if there is none.
ZL_API int64_t zl_outputs_tag(const zl_outputs *outputs);

// What compiled functions do from now on, in all threads. The first mode is that of ZL_COMPILE.
typedef enum {
    ZL_COMPILE_DISABLED,    // functions are called as they are
    ZL_COMPILE_NO_SIMPLIFY, // all recorded ops are replayed
    ZL_COMPILE_NO_FUSE,     // every evaluation runs op by op
    ZL_COMPILE_ENABLED,
} zl_compile_mode;
// Sets the mode for all threads. Returns false, with an error, if there is no such mode.
ZL_API bool            zl_set_compile_mode(zl_compile_mode mode);
// Returns the mode.
ZL_API zl_compile_mode zl_get_compile_mode(void);

// Functions in files ----------------------------------------------------------------------------------------

// An exported function is a trace that other programs can call: its calls, by the names of ops, and, as
// constants, the arrays that it uses besides its inputs. Sizes and numbers that it read while it was traced
// are part of it. A file may hold several traces; inputs must have the dtypes, names and shapes (if
// shapeless, ranks) of one of them.
typedef struct {
    bool shapeless;
    const char *metadata; // any text, kept with the function; NULL: none
} zl_export_options;
typedef struct zl_exporter_ zl_exporter;

// Returns an exporter, to be freed with zl_exporter_free, or NULL and an error. Retains f's data. NULL
// options stand for none.
ZL_API zl_exporter *zl_exporter_new(const char *path, zl_fn f, const zl_export_options *options);
// Adds a trace of f, which may not read its inputs, and replaces the file as a whole, so that it can always
// be read. The last `named` of the inputs have names, which differ. Returns false, with an error, if that
// fails or the file has a trace for such inputs already.
ZL_API bool zl_exporter_trace(zl_exporter *e, int count, const zl_array *in, int named,
                              const char *const *name);
// Frees an exporter. The file stays. NULL is allowed.
ZL_API void         zl_exporter_free(zl_exporter *e);
// Writes a file with a single trace of f, whose inputs have no names. Returns false, with an error, if that
// fails.
ZL_API bool zl_export(const char *path, zl_fn f, int count, const zl_array *in,
                      const zl_export_options *options);

// A kernel in a language that no device here runs, such as Metal's.
typedef struct {
    const char *language; // "Metal", for the error
    const char *text;     // everything that a program with such a device must know
    int64_t grid[3], group[3]; // threads, and threads per workgroup
    int outputs;
    const zl_shape *shape;
    const zl_dtype *dtype;
} zl_kernel_source;
// Records such a kernel while a function is being exported. Returns false, with an error, otherwise.
ZL_API bool zl_custom_kernel(const zl_kernel_source *source, int count, const zl_array *in, zl_array *out);

// A constant that precedes a kernel's source: a dtype or an integer.
typedef struct {
    const char *name;
    bool is_dtype;
    int64_t value; // of an integer constant, or a zl_dtype
} zl_kernel_argument;

// A kernel in C for the CPU: the body of a function that is called once for each position of a grid, on all
// threads and in no particular order. It is compiled when it is first evaluated, and kept on disk.
// doc/custom-kernels.md says what a body may use.
typedef struct {
    const char *name;   // a C identifier, which errors quote
    const char *source; // the statements of the body
    const char *header; // functions and types that precede it; NULL: none
    int inputs, outputs;
    const char *const *input, *const *output; // their names
    const zl_shape *shape;                    // of the outputs
    const zl_dtype *dtype;                    // of the outputs
    // positions, and positions per group, which is only a way to count; 0 stands for 1
    int64_t grid[3], group[3];
    int arguments;             // constants that precede the header
    const zl_kernel_argument *argument;
    const double *init; // what each output is filled with before the kernel runs; NULL: nothing
    bool strided;       // the kernel reads inputs of any strides; otherwise they are made contiguous
} zl_cpu_kernel_source;

// Records a call of a kernel. It has no derivative; zl_custom() gives it one. vmap runs it once for each
// element. Functions that contain it can be compiled, but neither shapeless nor exported. Returns false, with
// an error, if the arguments do not fit.
ZL_API bool zl_cpu_kernel(const zl_cpu_kernel_source *k, int count, const zl_array *in, zl_array *out);
// Returns the whole text for the compiler, given inputs of these dtypes, to be freed with zl_free; NULL after
// an error.
ZL_API char *zl_cpu_kernel_text(const zl_cpu_kernel_source *k, int count, const zl_array *in);

// Records a call of a kernel in CUDA C++, like MLX's cuda_kernel, otherwise like zl_cpu_kernel. Only the
// device cuda runs it. The grid is counted in threads, and a group is a thread block; shared_memory is the
// bytes per block beyond what the body declares. The call can be exported.
ZL_API bool zl_cuda_kernel(const zl_cpu_kernel_source *k, int64_t shared_memory, int count,
                           const zl_array *in, zl_array *out);
// Returns the whole text for the CUDA compiler, as zl_cpu_kernel_text does for C.
ZL_API char *zl_cuda_kernel_text(const zl_cpu_kernel_source *k, int count, const zl_array *in);

// A trace of a function step by step, for writers of other formats, as MLX passes it to callbacks. Arrays
// stand for values: they have shapes and dtypes, but only constants have data.
typedef enum {
    ZL_ARGUMENT_INT,
    ZL_ARGUMENT_BOOL,
    ZL_ARGUMENT_DOUBLE,
    ZL_ARGUMENT_DTYPE,
    ZL_ARGUMENT_LIST,
    ZL_ARGUMENT_SHAPE, // a list of sizes or of positions
    ZL_ARGUMENT_TEXT,
} zl_argument_type;
typedef struct {
    zl_argument_type type;
    int64_t integer; // INT, BOOL, DTYPE
    double number;   // DOUBLE
    zl_shape list;   // LIST, SHAPE
    const char *text;
} zl_argument;
typedef struct {
    const char *name; // of MLX's primitive, such as "Reduce"; of the op if MLX has no such primitive
    int inputs, outputs, arguments;
    const zl_array *input, *output;
    const zl_argument *argument; // MLX's arguments, in MLX's order
} zl_step;
typedef struct {
    // Called first, with the inputs, outputs and constants of the function.
    bool (*begin)(void *data, int inputs, const zl_array *input, int outputs, const zl_array *output,
                  int constants, const zl_array *constant);
    // Called for each step, after the steps that compute its inputs.
    bool (*step)(void *data, const zl_step *step);
    void *data;
} zl_listener;
// Records f on arrays like `in` and calls the listener, whose arguments are valid until it returns. Stops
// when the listener returns false. Returns false, with an error, if f or the listener failed.
ZL_API bool zl_export_steps(zl_fn f, int count, const zl_array *in, bool shapeless,
                            const zl_listener *listener);

typedef struct zl_imported_ zl_imported;
// Returns the function in a file, to be freed with zl_imported_free, or NULL and an error. The contents are
// checked: a file that is damaged, or that needs ops which this version does not have, is refused.
ZL_API zl_imported *zl_import(const char *path);
// Calls an imported function, from any thread. The last `named` of the inputs have names. Returns false,
// with an error, if no trace of the file has such inputs.
ZL_API bool         zl_imported_call(const zl_imported *f, int count, const zl_array *in, int named,
                                     const char *const *name, zl_outputs *out);
// Returns the text kept with the function; "" if there is none.
ZL_API const char  *zl_imported_metadata(const zl_imported *f);
// Frees an imported function and its constants. NULL is allowed.
ZL_API void         zl_imported_free(zl_imported *f);

// Looking at graphs -----------------------------------------------------------------------------------------

// Returns, as a Graphviz graph, the calls that compute arrays, as far as their history is kept. `names`, or
// any of them, may be NULL. The text is freed with zl_free; NULL after an error.
ZL_API char *zl_to_dot(int count, const zl_array *arrays, const char *const *names);

// Returns in words what zl_eval(a) would do: the kernels, where they run, which calls are fused and why no
// more are, the bytes that each kernel moves and its arithmetic operations. Evaluates nothing. The text is
// freed with zl_free; NULL after an error.
ZL_API char *zl_explain(zl_array a);

// Profiles --------------------------------------------------------------------------------------------------

// Begins to record what all threads run: each kernel with its ops, time, bytes moved and arithmetic
// operations, and the host's evaluations, launches, copies, waits and compilations. If `path` is not NULL,
// zl_profile_end writes a timeline there (trace events, for Perfetto); %p in it stands for the process id.
// Returns false, with an error, if a profile is being recorded already or the path cannot be written.
// ZL_PROFILE=path profiles a whole program. doc/profile.md explains the result.
ZL_API bool zl_profile_begin(const char *path);
// Waits for pending work, writes the timeline, and returns a table as text, to be freed with zl_free: kernels
// by time, and sums. Returns NULL after an error.
ZL_API char *zl_profile_end(void);

// Files -----------------------------------------------------------------------------------------------------

// Saving writes a file beside its place and renames it, so arrays loaded from the old file stay as they were.
// A path without the format's extension gets it. A replaced file keeps its mode and, where permitted, its
// owner; symbolic links are followed; anything that is not a regular file is refused.
//
// Loading is lazy. Files of 1 MiB and more are mapped, and their large arrays are the mapped file. As long as
// such an array lives, nobody may change or shorten the file in place: the array would change, and reading
// beyond the new end ends the process with SIGBUS. The functions here never do that; where other programs
// might, zl_load_file can read the file instead. An .npy that ends too early is an error when its array is
// read. Deflated members of an .npz are inflated when they are evaluated; damage inside one is an error of
// its evaluation that names the file and the member.

// Returns the array in an .npy file, NumPy's format for one array, or NULL and an error.
ZL_API zl_array zl_load(const char *path);
// Writes an array to an .npy file. Returns false, with an error, if that fails.
ZL_API bool     zl_save(const char *path, zl_array a);

// The contents of a file: arrays by name and, in safetensors (texts only) and gguf, metadata by name.
typedef struct zl_file_ zl_file;
// Return the contents of a file, to be freed with zl_file_free, or NULL and an error.
ZL_API zl_file *zl_load_npz(const char *path);
ZL_API zl_file *zl_load_safetensors(const char *path);
// Returns the contents of a GGUF file like the functions above. A quantised x.weight also has x.scales and
// x.biases, for zl_dequantize: Q4_0 and Q4_1 in groups of 32 with 4 bits, Q5_0 and Q5_1 of 32 with 5, Q8_0
// of 32 with 8. Q4_K, Q5_K and Q6_K, for mode gguf_k, have scales that are bytes, and no biases.
ZL_API zl_file *zl_load_gguf(const char *path);
// Writes the arrays to an .npz file. Returns false, with an error, if that fails, as the three functions
// below do.
ZL_API bool     zl_savez(const char *path, const zl_file *file);
// Writes the arrays to an .npz file whose members are deflated, which needs zlib.
ZL_API bool     zl_savez_compressed(const char *path, const zl_file *file);
// Writes the arrays and metadata to a safetensors file.
ZL_API bool     zl_save_safetensors(const char *path, const zl_file *file);
// Writes the arrays and metadata to a GGUF file.
ZL_API bool     zl_save_gguf(const char *path, const zl_file *file);

typedef struct {
    // "npy", "npz", "safetensors", "gguf" or "gguf_metadata", which leaves its arrays out; NULL: by the path
    const char *format;
    // read the whole file into memory, which counts as that of arrays, instead of mapping it
    bool no_mmap;
} zl_load_options;
// Returns the contents of a file of any of these formats; an .npy is one array whose name is empty. NULL
// options stand for none.
ZL_API zl_file *zl_load_file(const char *path, const zl_load_options *options);

// Writes bytes to a file as the functions above do. Returns false, with an error, if that fails.
ZL_API bool     zl_write_file(const char *path, const void *data, size_t bytes);

// Returns the contents of a file that lies in memory, which is copied, or NULL and an error. The format is
// "npy" (one array, whose name is empty), "npz", "safetensors" or "gguf".
ZL_API zl_file *zl_load_memory(const char *format, const void *data, size_t bytes);
// Returns a file's contents in one of these formats or "npz_compressed", to be freed with zl_free, and sets
// *bytes; NULL after an error.
ZL_API void    *zl_save_memory(const char *format, const zl_file *file, size_t *bytes);

// Returns empty contents, to be freed with zl_file_free, or NULL and an error.
ZL_API zl_file    *zl_file_new(void);
// Frees contents and releases their arrays. NULL is allowed.
ZL_API void        zl_file_free(zl_file *file);
// Adds an array, which it retains. Returns false, with an error, if the name is taken.
ZL_API bool        zl_file_add(zl_file *file, const char *name, zl_array a);
// Returns the number of arrays; 0 for NULL.
ZL_API int         zl_file_count(const zl_file *file);
// Returns the name of an array; NULL past the last.
ZL_API const char *zl_file_name(const zl_file *file, int index);
// Returns the index-th array, valid as long as the contents; NULL past the last.
ZL_API zl_array    zl_file_array(const zl_file *file, int index);
// Returns the array of a name, valid as long as the contents, or NULL and an error if there is none.
ZL_API zl_array    zl_file_find(const zl_file *file, const char *name);

typedef struct {
    const char *data; // followed by a NUL
    size_t bytes;
} zl_text;

// A value of the metadata: an array of at most one axis, a text, or a list of texts.
typedef struct {
    const char *name;
    zl_array array;      // NULL: the value is text
    const zl_text *text;
    int texts;
    bool is_list;        // a list of texts, perhaps of one
} zl_metadata;
// Adds a value: copies its texts, retains its array. Returns false, with an error, if the value does not
// fit or its name is taken.
ZL_API bool zl_file_add_metadata(zl_file *file, const zl_metadata *value);
// Fills in the index-th value; returns false past the last.
ZL_API bool zl_file_metadata(const zl_file *file, int index, zl_metadata *value);

// Random numbers --------------------------------------------------------------------------------------------

// A random op without a key takes the next key of this thread's state. The state is a key itself, made from
// the clock at first.

// Sets the state to zl_random_key(seed).
ZL_API void     zl_random_seed(int64_t seed);
// Returns the state, a key, which is lent like the result of an op.
ZL_API zl_array zl_random_state_get(void);
// Sets the state to a key, which need not be computed yet. Returns false, with an error, if it is not a
// key.
ZL_API bool     zl_random_state_set(zl_array key);

// Returns the order in which zl_einsum would combine its operands, as text to be freed with zl_free; NULL
// after an error. The first line lists the steps ("1,2 0,1": positions among the remaining operands, to which
// each step appends its result); an explanation follows.
ZL_API char *zl_einsum_path(const char *subscripts, const zl_array *operands, int count);

// Streams and devices ---------------------------------------------------------------------------------------

// The default device is the one that ZL_DEVICE names, otherwise the first GPU (cuda before vulkan before
// opencl), otherwise the CPU. A CPU that a driver offers is not a GPU. The default device is determined when
// it is first needed: by an evaluation of ops that were recorded for no other stream, by the functions below,
// or by zl_synchronize. No driver is opened before that.

// Returns the stream for which this thread records ops, or NULL and an error if ZL_DEVICE names a device that
// does not exist.
ZL_API zl_stream zl_default_stream(void);
// Returns this thread's default stream of a device ("cuda:1"), or NULL and an error.
ZL_API zl_stream zl_default_stream_of(const char *device);
// Makes a stream, which lives until its thread ends, on a device (NULL: the default device). Returns NULL
// after an error.
ZL_API zl_stream zl_new_stream(const char *device);
// Records ops of this thread for a stream from now on. Returns false, with an error, if it belongs to
// another thread.
ZL_API bool      zl_set_default_stream(zl_stream stream);
// Does what zl_synchronize does, for any stream.
ZL_API bool      zl_stream_synchronize(zl_stream stream);
// Records ops of this thread for its default stream of a device from now on: "cpu", "cuda:1", ... Returns
// false, with an error, if there is no such device.
ZL_API bool      zl_use_device(const char *device);
// Returns the device of a stream, "cuda", and sets *unit; NULL after an error.
ZL_API const char *zl_stream_device(zl_stream stream, int *unit);

typedef struct {
    const char *device;   // "cpu"
    int unit;             // counts chips of one device
    const char *model;    // "Neoverse-V1", as the system reports it
    const char *detail;   // instruction-set level, driver, libraries in use
    bool available;
    const char *reason;   // why it is not available
    int cores;            // compute units that we may use
    size_t memory;        // bytes
    bool is_host;         // the CPU that runs the program, even if a driver offers it as a device
    // Has memory of its own. The first GPU is the default device. If several drivers reach one chip, only one
    // of them counts as the GPU: the one that ZL_DEVICE names, or the first.
    bool is_gpu;
} zl_device_info;

// Fills in the index-th device, or kind of device that is not available; returns false past the last.
ZL_API bool zl_device(int index, zl_device_info *info);

// What a device does with calls of an op. Bit 1 << ZL_FLOAT32 stands for a dtype; dtypes that the op does not
// accept are in neither mask.
typedef struct {
    const char *op;
    uint32_t native;    // dtypes whose calls the device runs itself
    uint32_t elsewhere; // dtypes whose calls the CPU runs instead,
    const char *reason; // and why; NULL: there are none
} zl_op_support;

// Fills in what a device ("vulkan", "cuda:1"), which is opened for that, does with the index-th op. Views,
// which need no device, and kernels of programs have no bits. Returns false past the last, and after an
// error.
ZL_API bool zl_device_support(const char *device, int index, zl_op_support *out);

// Groups of processes ---------------------------------------------------------------------------------------

// A group is the processes (ranks) that a launcher started together: `zellige launch`, mlx.launch, mpirun,
// srun, torchrun. Collectives are ops: lazy, differentiable, batched and compiled like others. They run on a
// stream of their own, and those that an evaluation needs run in the order in which they were recorded, which
// must be the same on all ranks. If a rank does not take part, or calls something else, the others get an
// error that names it (ZL_GROUP_TIMEOUT, ZL_GROUP_CHECK), and the group can no longer be used. doc/scale.md
// has more.
typedef struct zl_group_ *zl_group;

// Returns the group of all processes, retained, by an engine: "ring", "mpi" or "nccl"; "any" or NULL take the
// one that the launcher prepared. Without a launcher, returns a group of this process alone, or, if strict,
// NULL and an error.
ZL_API zl_group    zl_group_init(bool strict, const char *engine);
// Returns whether this machine has what an engine needs.
ZL_API bool        zl_group_available(const char *engine);
// Adds a reference to a group, and returns it. NULL gives NULL.
ZL_API zl_group    zl_group_retain(zl_group group);
// Drops a reference; the last one closes the group. NULL is allowed.
ZL_API void        zl_group_release(zl_group group);
// Returns this process's rank, from 0; -1 for NULL.
ZL_API int         zl_group_rank(zl_group group);
// Returns the number of processes in the group; -1 for NULL.
ZL_API int         zl_group_size(zl_group group);
// Returns the name of the engine, "none" for a group of one process; NULL for NULL.
ZL_API const char *zl_group_engine(zl_group group);
// Returns the group of the ranks that pass the same color, ordered by key; a negative key stands for the
// rank. All ranks must call it. Returns NULL, with an error, if that fails or the engine cannot split.
ZL_API zl_group    zl_group_split(zl_group group, int color, int key);
// Waits until all ranks have called it, after the collectives that were evaluated before. Returns false,
// with an error, if the group fails.
ZL_API bool        zl_group_barrier(zl_group group);

// NULL stands for the group of all processes. In a group of one, collectives return x.

// Return the sum, maximum or minimum over all ranks, with the same bits on each rank.
ZL_API zl_array zl_all_sum(zl_array x, zl_group group);
ZL_API zl_array zl_all_max(zl_array x, zl_group group);
ZL_API zl_array zl_all_min(zl_array x, zl_group group);
// Returns the arrays of all ranks, concatenated along the first axis.
ZL_API zl_array zl_all_gather(zl_array x, zl_group group);
// Returns this rank's part, along the first axis, of the sum over all ranks.
ZL_API zl_array zl_sum_scatter(zl_array x, zl_group group);
// Sends part k of the first axis to rank k, and returns the parts received.
ZL_API zl_array zl_all_to_all(zl_array x, zl_group group);
// Returns the array of rank `root`; x has its shape and dtype on all ranks.
ZL_API zl_array zl_broadcast(zl_array x, int root, zl_group group);
// Returns x once it has been sent: evaluate the result.
ZL_API zl_array zl_send(zl_array x, int to, zl_group group);
// Returns the array that rank `from` sends.
ZL_API zl_array zl_recv(zl_shape shape, zl_dtype dtype, int from, zl_group group);

// Memory ----------------------------------------------------------------------------------------------------

// All figures are bytes, on the host and on devices together.

// Return the array data in use; the memory kept for reuse; the most data in use since the last reset.
ZL_API size_t zl_get_active_memory(void);
ZL_API size_t zl_get_cache_memory(void);
ZL_API size_t zl_get_peak_memory(void);
// Resets the peak to the data in use now.
ZL_API void   zl_reset_peak_memory(void);
// Sets the limit above which allocations fail, and returns the old one. Without a limit, the host may use 95
// % of the machine's memory, and a device refuses what it does not have.
ZL_API size_t zl_set_memory_limit(size_t bytes);
// Sets the goal above which nothing is kept for reuse and zl_async_eval waits, and returns the old one.
ZL_API size_t zl_set_memory_goal(size_t bytes);
// Returns the goal.
ZL_API size_t zl_get_memory_goal(void);
// Sets how much is kept for reuse, and returns the old value. Without it, that is a quarter of the machine's
// memory, and all of a device's.
ZL_API size_t zl_set_cache_limit(size_t bytes);
// Frees all memory that is kept for reuse.
ZL_API void   zl_clear_cache(void);

// Controls --------------------------------------------------------------------------------------------------

// Returns how many CPU threads evaluation may use, the caller included.
ZL_API int  zl_threads(void);
// Sets that number, after waiting for parallel work that is running. Returns false, with an error, if it is
// out of range or the call comes from inside parallel work.
ZL_API bool zl_set_threads(int count);

typedef enum { ZL_LOG_NONE, ZL_LOG_ERROR, ZL_LOG_WARN, ZL_LOG_INFO, ZL_LOG_DEBUG } zl_log_level;
// Sets the most detailed level that is logged, in all threads. The first level is that of ZL_LOG.
ZL_API void zl_set_log_level(zl_log_level level);
// Sets the function that receives each logged line, from any thread; NULL: lines go to stderr. The function
// replaced may still be running in another thread.
ZL_API void zl_set_log(void (*callback)(zl_log_level level, const char *line, void *context), void *context);

// Returns how often something happened since the start, by name: "compiles", "kernels", "fallbacks",
// "fallback_runs", "plans", "plan_hits", "copies", "narrowed", "donations", "allocations". Returns -1 for an
// unknown name.
ZL_API int64_t zl_counter(const char *name);

// Describes the index-th environment variable that the library reads; returns false past the last.
ZL_API bool zl_setting(int index, const char **name, const char **fallback, const char **doc);

// Every public op as data: what the header, the documentation and the bindings are made from ----------------

typedef enum {
    ZL_PARAM_ARRAY,
    ZL_PARAM_ARRAYS, // const zl_array *, int count
    ZL_PARAM_INT,
    ZL_PARAM_INT64,
    ZL_PARAM_DOUBLE,
    ZL_PARAM_BOOL,
    ZL_PARAM_DTYPE,
    ZL_PARAM_SHAPE,
    ZL_PARAM_AXES,
    ZL_PARAM_OUTPUT,   // zl_array *, filled
    // zl_array; NULL stands for none, unless an error of this thread is pending: then it is a failure
    ZL_PARAM_OPTIONAL,
    ZL_PARAM_STRING,   // const char *
} zl_param_type;

typedef struct {
    const char *name;
    zl_param_type type;
    // Default in languages that have them; NULL: required. "None" is passed as NULL, ZL_NO_SHAPE, ZL_ALL,
    // ZL_DTYPE_COUNT, NaN, or the smallest int or int64_t: not given.
    const char *fallback;
} zl_param;

typedef struct {
    const char *name;     // "zl_sum_axes"
    const char *family;   // file or table that defines it: "reduce"
    const char *doc;      // one or more sentences
    zl_param param[18];
    int params;
    bool returns_bool;    // else zl_array
} zl_op_info;

// Returns the description of the index-th op; NULL past the last.
ZL_API const zl_op_info *zl_op(int index);

#ifdef __cplusplus
}
static inline zl_shape zl_shape_list(std::initializer_list<int64_t> list) {
    return {list.begin(), static_cast<int>(list.size())};
}
static inline zl_axes zl_axes_list(std::initializer_list<int> list) {
    return {list.begin(), static_cast<int>(list.size())};
}
#endif

#include "zellige_ops.h"
#include "zellige_matrix_ops.h"

// Numbers in the place of arrays ----------------------------------------------------------------------------

// zl_scalar(2) makes an array of a number. A bare number does not compile where an op takes an array:
// zl_add(x, 2) would be a pointer to address 2, and zl_add(x, 0) and zl_random_normal(shape, dtype, 0, 0,
// NULL) would silently pass NULL. NULL itself compiles where it means "none", and zl_array variables may be
// NULL anywhere.
//
// In C, every op is also a macro, which checks its arrays and calls the function; (zl_add)(x, y) calls the
// function itself, and zl_add without parentheses is a pointer to it. A call with a compound literal such as
// (zl_shape){dim, n} is not checked. In C++, overloads that take numbers are deleted, except those of ops of
// one parameter. Define ZL_PLAIN_CALLS before you include this file to leave the checks out.
#ifndef ZL_PLAIN_CALLS
#ifdef __cplusplus
#include <type_traits>
// NULL is a number in C++, of a type of its own choice; it stays what it is.
template <class...> struct zl_any_number_ : std::false_type {};
template <class T, class... Rest>
struct zl_any_number_<T, Rest...> : std::integral_constant<bool, (std::is_arithmetic<T>::value &&
                                                                  !std::is_same<T, decltype(NULL)>::value) ||
                                                                     zl_any_number_<Rest...>::value> {};
template <class Result, class... T>
using zl_if_number_ = typename std::enable_if<zl_any_number_<T...>::value, Result>::type;
#else
// Each gives the pointer that it is given. &* needs a pointer to an array, and reads nothing.
#define ZL_NOT_A_NUMBER_(array) (&*(array)) // for a number write zl_scalar(number)
#if __STDC_VERSION__ >= 202311L
#define ZL_NULL_OR_ARRAY_(array) \
    _Generic((array), zl_array : (array), void * : (array), typeof(nullptr) : (array))
#else
// for a number write zl_scalar(number)
#define ZL_NULL_OR_ARRAY_(array) _Generic((array), zl_array: (array), void *: (array))
#endif
#endif
#include "zellige_checks.h"
#endif

#endif
