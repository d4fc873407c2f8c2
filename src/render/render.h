// render.h - kernels as text for a compiler.
//
// c_style.c writes every language that looks like C; a *dialect* is its table of spellings. The dialect `c`
// is C over the vector layer of device/cpu/vec, `c_scalar` is plain C that computes one element at a time;
// both render row functions. Dialects whose names end in _tiles render kernels of any statements.
//
// A row function computes one map over contiguous rows, with any number of inputs and outputs, or the
// reduction of one row. In C its signature is void name(char *const *p, int64_t n, int64_t run). p holds the
// outputs, then the inputs in order. Of an input that is not a vector, each element serves for `run` elements
// of the vectors (with run = n, one element serves for all); a scalar points to a single element. An output
// may be the same memory as an input.

#ifndef RENDER_H
#define RENDER_H

#include "pass/pass.h"

// c_style.c -------------------------------------------------------------------------------------------------

// Returns the name of the dialect at this index; NULL past the last.
const char *render_dialect_name(int at);
// Returns whether there is a dialect of this name.
bool render_has_dialect(const char *dialect);
// Returns the record that passes read; NULL, with an error, if there is no such dialect.
const struct target *render_target(const char *dialect);

// Sets *is_rows to whether a kernel, before or after passes, can be a row function. Returns false, with an
// error, if memory runs out.
bool render_find_rows(const struct tile_kernel *kernel, bool *is_rows);

// Returns the text that precedes the functions of a file, once.
const char *render_prelude(const char *dialect);

// Appends the function `symbol` (NULL: the kernel's name) of a kernel after all its passes. Returns false,
// with an error, if that fails.
bool render_function(struct text *out, const struct tile_kernel *kernel, const char *dialect,
                     const char *symbol);

// Runs the passes for a target (the record of a language or of a unit) and appends prelude and function: code
// for the target's compiler, which need not be text. Changes the kernel. Returns false, with an error, if
// that fails or if the unit cannot run it.
bool render_kernel(struct text *out, struct tile_kernel *kernel, const struct target *target);

// Returns the suffix of a kernel's entry point on the BM1690: "_kernel", or "" if the name ends so already.
const char *render_bm1690_ending(const char *name);

// How one of the functions NAME_0, NAME_1, ... of a kernel is launched. They are launched one after the
// other.
struct render_launch {
    int axes;
    const expr *blocks; // along each axis; the launch has their product
    int threads;        // per workgroup
    int64_t shared;     // bytes of shared memory per workgroup; -1: unknown
};
// Describes the launches of a kernel for workgroups, after render_kernel, as far as `out` has room. Returns
// how many there are.
int render_launches(const struct tile_kernel *kernel, struct render_launch *out, int room);
// Returns whether the functions take a last argument, the address of an i32 that is 0 before the launch and
// receives the line of a failed assertion. Kernels without assertions do not.
bool render_has_status(const struct tile_kernel *kernel);

// Returns whether workgroups of a unit can have the threads and the shared memory that a kernel needs, after
// its passes; if not, the error says what it needs.
bool render_fits(const struct target *target, const struct tile_kernel *kernel);

// Returns the number of statements of the kernel's function, an estimate of the cost of compiling it.
int render_cost(const struct tile_kernel *kernel);

// stablehlo.c -----------------------------------------------------------------------------------------------

extern const struct target render_stablehlo_target;
// Returns StableHLO's name of a dtype: "f32".
const char *render_stablehlo_type(zl_dtype dtype);
// Runs the passes on a kernel that is one map with one store, and appends operations that compute its value
// for whole tensors of a shape, written "2x3x". Tensors are named by numbers: operand[k] is that of parameter
// k, *names is the next free one and grows, and *result receives that of the value. Changes the kernel.
// Returns false, with an error, if that fails.
bool render_stablehlo(struct text *out, struct tile_kernel *kernel, const char *shape, const int *operand,
                      int *names, int *result);

#endif
