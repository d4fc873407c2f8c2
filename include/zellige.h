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
// Ownership. A function that returns a zl_array lends it to you until the innermost open scope ends. zl_retain()
//            makes it yours until zl_release(). What an evaluation computed on its way and nobody retained is gone.
//
// Errors.    An op that fails returns NULL; an op given NULL returns NULL. So write the whole expression, then check
//            once: zl_error() is the first failure of this thread since zl_clear_error().
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

// Version -------------------------------------------------------------------------------------------------------

#define ZL_VERSION_MAJOR 0
#define ZL_VERSION_MINOR 1
#define ZL_VERSION_PATCH 0

ZL_API const char *zl_version(void); // "0.1.0", of the library that is running

// Types ---------------------------------------------------------------------------------------------------------

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

ZL_API const char *zl_dtype_name(zl_dtype dtype);           // "float32"
ZL_API zl_dtype    zl_dtype_find(const char *name);         // "float32" or "f32"; ZL_DTYPE_COUNT and an error if unknown
ZL_API size_t      zl_dtype_size(zl_dtype dtype);           // bytes of one element
// Elements of float16 and bfloat16, for programs that make or read them; rounded to the nearest, of two the even one.
ZL_API float       zl_float16_to_float(uint16_t bits);
ZL_API uint16_t    zl_float16_from_float(float x);
ZL_API float       zl_bfloat16_to_float(uint16_t bits);
ZL_API uint16_t    zl_bfloat16_from_float(float x);
ZL_API zl_dtype    zl_result_type(zl_dtype a, zl_dtype b);  // what an op on both gives

// Sizes or element strides of an array, any number of them. Only borrowed: valid as long as what they came from.
typedef struct {
    const int64_t *dim;
    int ndim;
} zl_shape;

// Axes that an op works on; negative ones count from the last. ZL_ALL: every axis.
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
#define ZL_SHAPE(...) \
    ((zl_shape){(const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))})
#define ZL_AXES(...) \
    ((zl_axes){(const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))})
#define ZL_SCALAR   ((zl_shape){NULL, 0})
#define ZL_NO_SHAPE ((zl_shape){NULL, -1}) // not given
#define ZL_ALL      ((zl_axes){NULL, -1})
#endif

// Errors --------------------------------------------------------------------------------------------------------

typedef enum {
    ZL_ERROR_NONE,
    ZL_ERROR_SHAPE,    // shapes do not fit each other or the op
    ZL_ERROR_AXIS,     // no such axis
    ZL_ERROR_DTYPE,    // the op does not take this dtype
    ZL_ERROR_VALUE,    // an argument is out of its range, or NULL
    ZL_ERROR_OVERFLOW, // a size does not fit 64 bits
    ZL_ERROR_MEMORY,   // out of memory, or over the limit
    ZL_ERROR_STATE,    // data that was consumed, history that is gone, a stream of another thread
    ZL_ERROR_DEVICE,   // no such device, or it failed: also where there is no result, as of a singular matrix
    ZL_ERROR_COMPILE,  // no compiler, or a kernel that does not compile
    ZL_ERROR_LIBRARY,  // a library that is needed is not installed
    ZL_ERROR_IO,       // a file could not be read or written
    ZL_ERROR_SYNTAX,   // text that does not parse
} zl_error_kind;

ZL_API const char   *zl_error(void);       // first error of this thread, or NULL
ZL_API zl_error_kind zl_error_which(void); // its kind
ZL_API void          zl_clear_error(void);

// Scopes and ownership ------------------------------------------------------------------------------------------

// A scope that ends also ends the scopes opened inside it, so leaving the block by return or break leaks nothing
// past the enclosing scope. Every thread has an outermost scope, which ends with the thread.
typedef struct {
    int height;
    int open;         // 2: it switched to another stream
    zl_stream stream; // to go back to then
} zl_scope;

ZL_API zl_scope zl_scope_begin(void);
ZL_API zl_scope zl_scope_begin_on(zl_stream stream); // ops in this scope are recorded for that stream
ZL_API void     zl_scope_end(zl_scope scope);
ZL_API zl_array zl_scope_leave(zl_scope scope, zl_array result); // ends it, lends result outside

// The loop ends by a pointer whose first value the compiler knows, not by a field that zl_scope_begin() fills: so it sees
// that the block always runs, and that what the block assigns has a value after it.
#define ZL_SCOPE \
    for (zl_scope zl_s_ = zl_scope_begin(), *zl_open_ = &zl_s_; zl_open_; zl_scope_end(zl_s_), zl_open_ = NULL)

ZL_API zl_array zl_retain(zl_array a);
ZL_API void     zl_release(zl_array a);
ZL_API bool     zl_assign(zl_array *owned, zl_array value); // evaluates value, then swaps it for what *owned held

// Making arrays -------------------------------------------------------------------------------------------------

ZL_API zl_array zl_from(const void *data, zl_shape shape, zl_dtype dtype); // copies, row-major
ZL_API zl_array zl_from_f32(const float *data, zl_shape shape);
ZL_API zl_array zl_from_f64(const double *data, zl_shape shape);
ZL_API zl_array zl_from_i32(const int32_t *data, zl_shape shape);
ZL_API zl_array zl_from_i64(const int64_t *data, zl_shape shape);
ZL_API zl_array zl_from_bool(const bool *data, zl_shape shape);

// A number. It is weak: next to an array it takes that array's dtype; alone it is float32, int32 or bool.
ZL_API zl_array zl_scalar(double value);
ZL_API zl_array zl_scalar_int(int64_t value);
ZL_API zl_array zl_scalar_bool(bool value);
ZL_API zl_array zl_scalar_complex(double re, double im);

// Memory of yours, not copied. strides in elements, or NULL for row-major. release(context), if given, is called
// once nothing uses data any more, from any thread, and at once when NULL is returned. The library never writes to it.
typedef struct {
    const int64_t *strides;
    void (*release)(void *context);
    void *context;
} zl_foreign_options;
ZL_API zl_array zl_from_foreign(const void *data, zl_shape shape, zl_dtype dtype, const zl_foreign_options *options);

// Fields of an array of C structs, without copying: view the structs as records of record_bytes, then a field by
// its offset. inner is the shape of the field itself: ZL_SCALAR, or ZL_SHAPE(3) for float position[3].
ZL_API zl_array zl_from_records(const void *data, zl_shape shape, size_t record_bytes,
                                const zl_foreign_options *options);
ZL_API zl_array zl_field(zl_array records, size_t offset, zl_dtype dtype, zl_shape inner);

// Looking at arrays: nothing here evaluates ---------------------------------------------------------------------

ZL_API zl_dtype zl_dtype_of(zl_array a);
ZL_API int      zl_ndim(zl_array a);
ZL_API int64_t  zl_dim(zl_array a, int axis); // negative axes count from the last; -1 and an error if there is none
ZL_API int64_t  zl_size(zl_array a);
ZL_API size_t   zl_nbytes(zl_array a);
ZL_API zl_shape zl_shape_of(zl_array a);   // lives as long as a
// In elements; lives as long as a. Results are row-major, but elementwise ones lie as their inputs do if those lie alike,
// without gaps.
ZL_API zl_shape zl_strides_of(zl_array a);
ZL_API bool     zl_is_contiguous(zl_array a); // row-major without gaps
ZL_API bool     zl_is_transposed(zl_array a); // the last two axes swapped of a row-major matrix
ZL_API bool     zl_is_available(zl_array a);  // computed, or failed: reading it does not wait

// Reading: evaluates and waits for that array only. NULL, 0 or false after an error ------------------------------

ZL_API const void    *zl_data(zl_array a); // row-major; an array that is not says so: use zl_contiguous or zl_copy_to
ZL_API const float   *zl_data_f32(zl_array a);
ZL_API const double  *zl_data_f64(zl_array a);
ZL_API const int32_t *zl_data_i32(zl_array a);
ZL_API const int64_t *zl_data_i64(zl_array a);
ZL_API const bool    *zl_data_bool(zl_array a);
ZL_API bool           zl_copy_to(zl_array a, void *out, size_t bytes); // row-major, any layout; bytes as zl_nbytes
ZL_API double         zl_item(zl_array a);                             // of a one-element array
ZL_API int64_t        zl_item_int(zl_array a);
// As text; free it with zl_free. An array of more than `most` elements, of zl_print 1000, is shortened to the ends of its
// long axes.
ZL_API char          *zl_print(zl_array a);
ZL_API char          *zl_print_most(zl_array a, int64_t most);
ZL_API void           zl_free(void *text);

// Evaluation ----------------------------------------------------------------------------------------------------

ZL_API bool zl_eval(zl_array a);
ZL_API bool zl_eval_all(int count, const zl_array *arrays);
ZL_API bool zl_async_eval(zl_array a); // returns at once; failures show when the array is read, or its stream waited for
ZL_API bool zl_async_eval_all(int count, const zl_array *arrays);
// Waits for this thread's default stream. False and an error when something failed there that nobody waited for.
ZL_API bool zl_synchronize(void);

// A check that threads call now and then while they evaluate or wait, never in quick succession. When it returns true
// they give up: what is not computed yet fails with ZL_ERROR_STATE. NULL: none.
ZL_API void zl_set_interrupt(bool (*check)(void *context), void *context);

// Transforms ----------------------------------------------------------------------------------------------------

// Gradients of loss, a float array of one element, with respect to arrays that it was made from, numbers (zl_scalar) among
// them: it must not have been evaluated. Those below are for functions, which may evaluate what they like.
ZL_API bool zl_grad(zl_array loss, int count, const zl_array *wrt, zl_array *grads);

// Results of a function, as many as it gives. They are kept until the list is freed.
typedef struct zl_outputs_ zl_outputs;
ZL_API zl_outputs *zl_outputs_new(void);
ZL_API void        zl_outputs_free(zl_outputs *outputs);
ZL_API int         zl_outputs_count(const zl_outputs *outputs);
ZL_API zl_array    zl_outputs_get(const zl_outputs *outputs, int index); // lives as long as the list holds it
ZL_API bool        zl_give(zl_outputs *out, zl_array a); // adds a result; false if a is NULL

// A function of arrays. It runs on the calling thread, on arrays that stand for the real ones, and gives its results
// with zl_give(); false: it failed. data is the caller's; what records a function for later (zl_checkpoint, zl_custom)
// calls retain(data) and then, when nothing needs it any more and from any thread, release(data). Both may be NULL.
typedef struct {
    bool (*call)(void *data, int count, const zl_array *in, zl_outputs *out);
    void *data;
    void (*retain)(void *data);
    void (*release)(void *data);
} zl_fn;

// All transforms may be called inside functions that are being transformed. values takes the results of f and may be
// NULL; lists must be empty, and are again after an error. What is put into grads is lent, as an op's result is.

// Cotangents of the inputs from those of the results, one for each result that is not a zl_stop_gradient().
ZL_API bool zl_vjp(zl_fn f, int count, const zl_array *in, int cotangents, const zl_array *cotangent,
                   zl_outputs *values, zl_array *grads);
// Tangents of the results from those of the inputs, one each; NULL: zero.
ZL_API bool zl_jvp(zl_fn f, int count, const zl_array *in, const zl_array *tangent, zl_outputs *values,
                   zl_outputs *tangents);
// Gradients of the first result, a scalar, with respect to some of the inputs. Other results are only passed on.
ZL_API bool zl_value_and_grad(zl_fn f, int count, const zl_array *in, int argnums, const int *argnum,
                              zl_outputs *values, zl_array *grads);
// f of each element along an axis of the inputs (-1: the same input for all). The results have that axis where out_axis
// says, counted from the last if negative; NULL: first. f runs once, and cannot read what it maps over.
ZL_API bool zl_vmap(zl_fn f, int count, const zl_array *in, const int *in_axis, int results, const int *out_axis,
                    zl_outputs *out);
// Results of f. What it computes on the way is not kept for gradients, but computed again.
ZL_API bool zl_checkpoint(zl_fn f, int count, const zl_array *in, zl_outputs *out);

// A function with rules of its own. A rule that is NULL follows from the function. To derivatives it depends on its
// inputs only: other arrays that it uses are constants.
typedef struct {
    zl_fn f;
    // Gives a cotangent for each input.
    bool (*vjp)(void *data, int count, const zl_array *in, int results, const zl_array *result,
                const zl_array *cotangent, zl_outputs *out);
    // Gives a tangent for each result. Those of inputs are NULL where they are zero.
    bool (*jvp)(void *data, int count, const zl_array *in, const zl_array *tangent, zl_outputs *out);
    // Gives each result for inputs with an extra axis (-1: none), and fills out_axis with where it has that axis.
    bool (*vmap)(void *data, int count, const zl_array *in, const int *axis, int results, zl_outputs *out,
                 int *out_axis);
} zl_custom_fn;
ZL_API bool zl_custom(const zl_custom_fn *f, int count, const zl_array *in, zl_outputs *out);

// A function that runs once for each kind of inputs: dtypes and shapes, or if shapeless only ranks. What it did is
// recorded, without what was superfluous, and later calls do the same with other inputs: nothing else that it does
// happens again. Arrays that it captures are constants. It cannot evaluate or read what it makes of its inputs. Called
// inside another transform, it runs as it is. All threads may call it.
typedef struct zl_compiled_ *zl_compiled;
ZL_API zl_compiled zl_compile(zl_fn f, bool shapeless); // retains f's data
ZL_API zl_compiled zl_compiled_retain(zl_compiled c);
ZL_API void        zl_compiled_release(zl_compiled c);
// key: bytes that stand for all else that the function depends on; calls with another key are of another kind. Numbers
// (zl_scalar) are of a kind each.
ZL_API bool zl_compiled_call(zl_compiled c, const void *key, size_t key_bytes, int count, const zl_array *in,
                             zl_outputs *out);
// A number that a function puts on its results: each call that repeats it gives it again; 0 where nothing was recorded.
ZL_API void    zl_outputs_set_tag(zl_outputs *outputs, int64_t tag);
ZL_API int64_t zl_outputs_tag(const zl_outputs *outputs);

// What compiled functions do from now on, in all threads; at first what ZL_COMPILE says.
typedef enum {
    ZL_COMPILE_DISABLED,    // the function is called as it is
    ZL_COMPILE_NO_SIMPLIFY, // all that it did is done again
    ZL_COMPILE_NO_FUSE,     // evaluation, of anything, takes op by op
    ZL_COMPILE_ENABLED,
} zl_compile_mode;
ZL_API bool            zl_set_compile_mode(zl_compile_mode mode);
ZL_API zl_compile_mode zl_get_compile_mode(void);

// Functions in files --------------------------------------------------------------------------------------------

// A function that was traced, to be called by other programs: its calls by the names of the ops, and as constants the
// arrays that it uses besides its inputs. Sizes and numbers that it read while it was traced are part of it. One file
// may hold several traces; inputs must have the dtypes, names and shapes of one of them, or if shapeless as many axes.
typedef struct {
    bool shapeless;
    const char *metadata; // any text, kept with the function; NULL: none
} zl_export_options;
typedef struct zl_exporter_ zl_exporter;

// The last named of count inputs have names, each once. The file is replaced as a whole after each trace: it is always
// one that can be read. f is called inside zl_exporter_trace() only, and may not read its inputs.
ZL_API zl_exporter *zl_exporter_new(const char *path, zl_fn f, const zl_export_options *options); // NULL options: none
ZL_API bool         zl_exporter_trace(zl_exporter *e, int count, const zl_array *in, int named, const char *const *name);
ZL_API void         zl_exporter_free(zl_exporter *e);
// One trace, without names.
ZL_API bool zl_export(const char *path, zl_fn f, int count, const zl_array *in, const zl_export_options *options);

// A kernel in a language that no device here runs, such as Metal's: recorded only while a function is exported, for programs
// that have such a device. text is all that they must know of it. False and an error otherwise.
typedef struct {
    const char *language; // "Metal": for the error
    const char *text;
    int64_t grid[3], group[3]; // threads, and how many of them work together
    int outputs;
    const zl_shape *shape;
    const zl_dtype *dtype;
} zl_kernel_source;
ZL_API bool zl_custom_kernel(const zl_kernel_source *source, int count, const zl_array *in, zl_array *out);

// A kernel in C, for the CPU: the body of a function that is called once for each position of a grid, on all threads and in
// no order. It is compiled when it is first evaluated, and kept on disk. doc/custom-kernels.md says what a body may use.
typedef struct {
    const char *name;
    bool is_dtype;
    int64_t value; // of an integer constant, or a zl_dtype
} zl_kernel_argument;

typedef struct {
    const char *name;   // as C spells names: errors say it
    const char *source; // statements
    const char *header; // functions and types that stand before it; NULL: none
    int inputs, outputs;
    const char *const *input, *const *output; // their names
    const zl_shape *shape;                    // of the outputs
    const zl_dtype *dtype;
    int64_t grid[3], group[3]; // positions, of which a group is only a way to count: 0 is 1
    int arguments;             // types and constants that stand before the header
    const zl_kernel_argument *argument;
    const double *init; // what the outputs are filled with before it runs; NULL: nothing
    bool strided;       // it reads inputs as they lie; else they are made row-major
} zl_cpu_kernel_source;

// Has no derivative: zl_custom() gives it one. vmap runs it once for each element. Functions with it can be compiled, but
// neither shapeless nor exported.
ZL_API bool zl_cpu_kernel(const zl_cpu_kernel_source *k, int count, const zl_array *in, zl_array *out);
// All of the text that the compiler gets for inputs of such dtypes. Free it with zl_free. NULL after an error.
ZL_API char *zl_cpu_kernel_text(const zl_cpu_kernel_source *k, int count, const zl_array *in);

// The same in CUDA C++, for the device cuda, as MLX's cuda_kernel: the grid is counted in threads, of which a group is a block;
// shared_memory: bytes of a block beyond what the body declares. No other device runs it. It can be exported.
ZL_API bool  zl_cuda_kernel(const zl_cpu_kernel_source *k, int64_t shared_memory, int count, const zl_array *in, zl_array *out);
ZL_API char *zl_cuda_kernel_text(const zl_cpu_kernel_source *k, int count, const zl_array *in);

// A function told step by step, as MLX's callbacks are: for who writes another format. Arrays stand for values: they have
// shapes and dtypes, but only constants have data.
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
    const char *name; // of MLX's primitive, "Reduce"; of what MLX does not have, of the op
    int inputs, outputs, arguments;
    const zl_array *input, *output;
    const zl_argument *argument; // MLX's, in its order
} zl_step;
typedef struct {
    // First: what the function takes, gives, and uses besides.
    bool (*begin)(void *data, int inputs, const zl_array *input, int outputs, const zl_array *output, int constants,
                  const zl_array *constant);
    bool (*step)(void *data, const zl_step *step); // each, after those that make its inputs
    void *data;
} zl_listener;
// A listener that returns false ends it. What it is given is valid until it returns.
ZL_API bool zl_export_steps(zl_fn f, int count, const zl_array *in, bool shapeless, const zl_listener *listener);

// What is in a file is checked when it is read: one that is damaged, or needs ops that this version does not have, is
// refused. Calls may come from several threads.
typedef struct zl_imported_ zl_imported;
ZL_API zl_imported *zl_import(const char *path);
ZL_API bool         zl_imported_call(const zl_imported *f, int count, const zl_array *in, int named,
                                     const char *const *name, zl_outputs *out);
ZL_API const char  *zl_imported_metadata(const zl_imported *f); // "": none
ZL_API void         zl_imported_free(zl_imported *f);

// Looking at graphs ---------------------------------------------------------------------------------------------

// The calls that arrays are made from, as far as their history is there, for Graphviz. names, or one of them, may be
// NULL. Free it with zl_free. NULL after an error.
ZL_API char *zl_to_dot(int count, const zl_array *arrays, const char *const *names);

// What zl_eval(a) would do, in words: the kernels that the calls become, where they run, what is fused and why not more,
// the bytes that each moves and its arithmetic operations. Nothing is evaluated. Free it with zl_free. NULL after an error.
ZL_API char *zl_explain(zl_array a);

// Profiles ------------------------------------------------------------------------------------------------------

// Records what runs from now on, of all threads: each kernel with its ops, when it ran, the bytes that it moved and its arithmetic
// operations; evaluations, launches, copies, waits and compilations of the host. path, if it is not NULL, is where zl_profile_end
// leaves a timeline (trace events, for Perfetto); %p in it is the number of the process. False after an error: one is being recorded
// already, or path cannot be written. doc/profile.md explains the result. ZL_PROFILE=path does this for a whole program.
ZL_API bool zl_profile_begin(const char *path);
// Waits for what is under way, writes the timeline, and returns a table for people: kernels by time, and sums. Free it with zl_free.
// NULL after an error.
ZL_API char *zl_profile_end(void);

// Files ---------------------------------------------------------------------------------------------------------

// One array as NumPy's .npy. Paths that lack the format's extension get it when they are written. Files are written beside
// their place and renamed: what was loaded from the old file stays as it was. A file that is replaced keeps its mode, and its
// owner where that is permitted; symbolic links are followed; what is no regular file is refused. Loading is lazy: files of
// 1 MiB and more are mapped, and their big arrays are the file itself. Nobody may change or shorten such a file in place as
// long as something loaded from it lives: the arrays would change, and reading what is no longer there ends the process with
// SIGBUS. The functions here never do that; where others might, zl_load_file reads the file instead. An .npy that ends too
// early shows when its array is read. Deflated members of an .npz are inflated when they are evaluated: those that never are cost
// nothing, and damage inside one is an error of its evaluation that names the file and the member.
ZL_API zl_array zl_load(const char *path);
ZL_API bool     zl_save(const char *path, zl_array a);

// What other files hold: arrays by name and, in safetensors (texts only) and gguf, metadata by name.
typedef struct zl_file_ zl_file;
ZL_API zl_file *zl_load_npz(const char *path); // NULL after an error; free it with zl_file_free
ZL_API zl_file *zl_load_safetensors(const char *path);
ZL_API zl_file *zl_load_gguf(const char *path); // a quantised x.weight also has x.scales and x.biases, for zl_dequantize:
// Q4_0 and Q4_1 in groups of 32 and 4 bits, Q5_0 and Q5_1 of 32 and 5, Q8_0 of 32 and 8. Of Q4_K, Q5_K and Q6_K scales are bytes, for mode gguf_k, without biases.
ZL_API bool     zl_savez(const char *path, const zl_file *file);
ZL_API bool     zl_savez_compressed(const char *path, const zl_file *file); // these need zlib
ZL_API bool     zl_save_safetensors(const char *path, const zl_file *file);
ZL_API bool     zl_save_gguf(const char *path, const zl_file *file);

// A file of any of these formats; of an .npy one array whose name is empty.
typedef struct {
    const char *format; // "npy", "npz", "safetensors", "gguf" or "gguf_metadata", which leaves its arrays out; NULL: by the path
    bool no_mmap;       // read all of the file, into memory that counts as that of arrays, instead of mapping it
} zl_load_options;
ZL_API zl_file *zl_load_file(const char *path, const zl_load_options *options); // NULL options: none

// Any bytes, written as the functions above write their files.
ZL_API bool     zl_write_file(const char *path, const void *data, size_t bytes);

// The same from and to memory, which is copied. format: "npy" (one array, whose name is empty), "npz", "npz_compressed"
// (to write), "safetensors" or "gguf". What zl_save_memory returns is freed with zl_free.
ZL_API zl_file *zl_load_memory(const char *format, const void *data, size_t bytes);
ZL_API void    *zl_save_memory(const char *format, const zl_file *file, size_t *bytes);

ZL_API zl_file    *zl_file_new(void);
ZL_API void        zl_file_free(zl_file *file);
ZL_API bool        zl_file_add(zl_file *file, const char *name, zl_array a); // keeps a; false if the name is there already
ZL_API int         zl_file_count(const zl_file *file);
ZL_API const char *zl_file_name(const zl_file *file, int index);  // NULL past the last
ZL_API zl_array    zl_file_array(const zl_file *file, int index); // lives as long as the file does
ZL_API zl_array    zl_file_find(const zl_file *file, const char *name); // the same by name; NULL and an error

typedef struct {
    const char *data; // a NUL follows
    size_t bytes;
} zl_text;

// A value of the metadata: an array of at most one axis, a text, or a list of texts.
typedef struct {
    const char *name;
    zl_array array;      // NULL: it is texts
    const zl_text *text;
    int texts;
    bool is_list;        // also if it is a list of one
} zl_metadata;
ZL_API bool zl_file_add_metadata(zl_file *file, const zl_metadata *value);           // copies it, keeps the array
ZL_API bool zl_file_metadata(const zl_file *file, int index, zl_metadata *value); // false past the last

// Random numbers ------------------------------------------------------------------------------------------------

// An op that is given no key takes the next one of this thread's state, which is a key, at first made from the clock.
ZL_API void     zl_random_seed(int64_t seed);         // makes it that of zl_random_key(seed)
ZL_API zl_array zl_random_state_get(void);
ZL_API bool     zl_random_state_set(zl_array key);    // of any array like a key, also one that is not computed yet

// How zl_einsum would join its operands: a line of steps ("1,2 0,1": positions among those that are left, to which each
// step appends its result), then lines for people. Free it with zl_free. NULL after an error.
ZL_API char *zl_einsum_path(const char *subscripts, const zl_array *operands, int count);

// Streams and devices -------------------------------------------------------------------------------------------

// Default streams are on the device that ZL_DEVICE names; without it on the first GPU, where cuda comes before vulkan and opencl, and on the CPU
// where there is none. A CPU that a driver offers is no GPU. Which device that is, is found out when it is first needed: by an evaluation of
// ops that were recorded for no other stream, by the functions below, and by zl_synchronize. Before that no driver is opened.

// Returns the stream that this thread records ops for. NULL and an error if ZL_DEVICE names a device that is not here.
ZL_API zl_stream zl_default_stream(void);
// Returns this thread's default stream of a device, "cuda:1" or such, whether or not that is the default device; NULL after an error.
ZL_API zl_stream zl_default_stream_of(const char *device);
// Makes a stream, which lives until its thread ends. NULL as the device: the default device. NULL after an error.
ZL_API zl_stream zl_new_stream(const char *device);
ZL_API bool      zl_set_default_stream(zl_stream stream);
ZL_API bool      zl_stream_synchronize(zl_stream stream); // as zl_synchronize
ZL_API bool      zl_use_device(const char *device); // records ops of this thread for its default stream of "cpu", "cuda:1", ...
ZL_API const char *zl_stream_device(zl_stream stream, int *unit); // "cuda", and which of its units; NULL after an error

typedef struct {
    const char *device;   // "cpu"
    int unit;             // of several of one kind
    const char *model;    // "Neoverse-V1", as the system tells it
    const char *detail;   // instruction-set level, driver, libraries in use
    bool available;
    const char *reason;   // why it is not
    int cores;            // compute units that we may use
    size_t memory;        // bytes
    bool is_host;         // the CPU that runs the program, also where a driver offers it as a device
    bool is_gpu;          // computes with memory of its own: the first is the default device. One of all that reach a chip is: that of ZL_DEVICE, or the first
} zl_device_info;

// Fills info with the index-th device or device kind that is known; false past the last.
ZL_API bool zl_device(int index, zl_device_info *info);

// What a device does with calls of an op. Bit 1 << ZL_FLOAT32 stands for a dtype; those that the op does not take are in neither.
typedef struct {
    const char *op;
    uint32_t native;    // dtypes of which the device runs calls itself
    uint32_t elsewhere; // dtypes of which the CPU runs them instead,
    const char *reason; // and why; NULL: there are none
} zl_op_support;

// Fills out with what a device ("vulkan", "cuda:1"), which is opened for it, says of the index-th op. Views, which need no device, and what only programs
// bring have no bits. False past the last, and after an error.
ZL_API bool zl_device_support(const char *device, int index, zl_op_support *out);

// Groups of processes -------------------------------------------------------------------------------------------

// The processes that a launcher started together (`zellige launch`, mlx.launch, mpirun, srun, torchrun). What they do together are ops:
// lazy, differentiable, batched and compiled as others are. They run on a stream of their own, and those that an evaluation needs run in
// the order in which they were recorded, which must be the same on all ranks. A rank that does not come, or calls something else, is an
// error on the others that names it (ZL_GROUP_TIMEOUT, ZL_GROUP_CHECK); the group cannot be used any more then. doc/scale.md has more.
typedef struct zl_group_ *zl_group;

// Returns the group of all processes, retained, by an engine: "ring", "mpi", "nccl", or "any" or NULL for what the launcher prepared. If there is none: a
// group of this process alone, or, if strict, NULL and an error.
ZL_API zl_group    zl_group_init(bool strict, const char *engine);
ZL_API bool        zl_group_available(const char *engine); // whether this machine has what it needs
ZL_API zl_group    zl_group_retain(zl_group group);
ZL_API void        zl_group_release(zl_group group);
ZL_API int         zl_group_rank(zl_group group); // from 0; -1 for NULL
ZL_API int         zl_group_size(zl_group group);
ZL_API const char *zl_group_engine(zl_group group); // "ring"; "none" of a process alone
// Returns the group of those ranks that give the same color, ordered by key; a negative key stands for the rank. All ranks of the group must call it.
// NULL and an error, as with engines that cannot split.
ZL_API zl_group    zl_group_split(zl_group group, int color, int key);
ZL_API bool        zl_group_barrier(zl_group group); // returns when all ranks have come to it, after the collectives that were evaluated

// Of a group of one they give x. group NULL: the group of all processes.
ZL_API zl_array zl_all_sum(zl_array x, zl_group group); // over all ranks, the same bits on each of them
ZL_API zl_array zl_all_max(zl_array x, zl_group group);
ZL_API zl_array zl_all_min(zl_array x, zl_group group);
ZL_API zl_array zl_all_gather(zl_array x, zl_group group);      // of all ranks, along the first axis
ZL_API zl_array zl_sum_scatter(zl_array x, zl_group group);     // of the sum, this rank's part of the first axis
ZL_API zl_array zl_all_to_all(zl_array x, zl_group group);      // part k of the first axis goes to rank k
ZL_API zl_array zl_broadcast(zl_array x, int root, zl_group group); // what rank root has; x is of its shape and dtype on all ranks
ZL_API zl_array zl_send(zl_array x, int to, zl_group group);    // x, when it was sent: evaluate it
ZL_API zl_array zl_recv(zl_shape shape, zl_dtype dtype, int from, zl_group group);

// Memory --------------------------------------------------------------------------------------------------------

// On the host and on devices together.
ZL_API size_t zl_get_active_memory(void); // bytes of array data in use
ZL_API size_t zl_get_cache_memory(void);  // bytes kept for reuse
ZL_API size_t zl_get_peak_memory(void);   // most bytes in use since the last reset
ZL_API void   zl_reset_peak_memory(void);
// Each returns the old one. Over the limit allocations fail; without one only the host's memory has a limit, of 95 % of the
// machine's, and what a device has not it says itself. Over the goal nothing is kept for reuse and zl_async_eval waits.
ZL_API size_t zl_set_memory_limit(size_t bytes);
ZL_API size_t zl_set_memory_goal(size_t bytes);
ZL_API size_t zl_get_memory_goal(void);
ZL_API size_t zl_set_cache_limit(size_t bytes); // on what is kept; without one a quarter of the machine's memory, and all of a device's
ZL_API void   zl_clear_cache(void);

// Controls ------------------------------------------------------------------------------------------------------

ZL_API int  zl_threads(void);
ZL_API bool zl_set_threads(int count);

typedef enum { ZL_LOG_NONE, ZL_LOG_ERROR, ZL_LOG_WARN, ZL_LOG_INFO, ZL_LOG_DEBUG } zl_log_level;
ZL_API void zl_set_log_level(zl_log_level level);
ZL_API void zl_set_log(void (*callback)(zl_log_level level, const char *line, void *context), void *context);

// Counts of what happened since the start, by name: "compiles", "kernels", "fallbacks", "fallback_runs", "plans", "plan_hits",
// "copies", "narrowed", "donations", "allocations". -1 for a name that is not counted.
ZL_API int64_t zl_counter(const char *name);

// Environment variables that the library reads, index by index: false past the last.
ZL_API bool zl_setting(int index, const char **name, const char **fallback, const char **doc);

// Every public op as data: what the header, the documentation and the bindings are made from ----------------------

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
    ZL_PARAM_OPTIONAL, // zl_array; NULL is none, unless an error of this thread is pending: then it is a failure
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

ZL_API const zl_op_info *zl_op(int index); // NULL past the last

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

// Numbers in the place of arrays --------------------------------------------------------------------------------

// zl_scalar(2) makes an array of a number. A bare number does not compile where an op takes an array: zl_add(x, 2) would
// be a pointer to address 2, and zl_add(x, 0) and zl_random_normal(shape, dtype, 0, 0, NULL) would silently pass NULL.
// NULL itself compiles where it means "none", and zl_array variables may be NULL anywhere.
//
// In C, every op is also a macro, which checks its arrays and calls the function; (zl_add)(x, y) calls the function
// itself, and zl_add without parentheses is a pointer to it. A call with a compound literal such as (zl_shape){dim, n} is
// not checked. In C++, overloads that take numbers are deleted, except those of ops of one parameter. Define
// ZL_PLAIN_CALLS before you include this file to leave the checks out.
#ifndef ZL_PLAIN_CALLS
#ifdef __cplusplus
#include <type_traits>
// NULL is a number in C++, of a type of its own choice; it stays what it is.
template <class...> struct zl_any_number_ : std::false_type {};
template <class T, class... Rest>
struct zl_any_number_<T, Rest...>
    : std::integral_constant<bool, (std::is_arithmetic<T>::value && !std::is_same<T, decltype(NULL)>::value) ||
                                       zl_any_number_<Rest...>::value> {};
template <class Result, class... T>
using zl_if_number_ = typename std::enable_if<zl_any_number_<T...>::value, Result>::type;
#else
// Each gives the pointer that it is given. &* needs a pointer to an array, and reads nothing.
#define ZL_NOT_A_NUMBER_(array) (&*(array)) // for a number write zl_scalar(number)
#if __STDC_VERSION__ >= 202311L
#define ZL_NULL_OR_ARRAY_(array) _Generic((array), zl_array: (array), void *: (array), typeof(nullptr): (array))
#else
#define ZL_NULL_OR_ARRAY_(array) _Generic((array), zl_array: (array), void *: (array)) // for a number write zl_scalar(number)
#endif
#endif
#include "zellige_checks.h"
#endif

#endif
