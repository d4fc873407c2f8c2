// render.h - kernels as text for a compiler.
//
// c_style.c writes every language that looks like C; a dialect is its spelling table. `c` is C over the
// vector layer of device/cpu/vec, `c_scalar` plain C of one element at a time; both have functions of rows.
// Dialects that end in _tiles render kernels of any statements.
//
// What dialects of rows render: kernels that are one map over rows (any number of inputs and outputs), or one reduction
// of a row. In C they have one signature, void name(char *const *p, int64_t n, int64_t run): p holds the
// outputs, then the inputs in order; a buffer that is no vector points to elements of which each serves
// for run elements of the vectors (so with run = n to one), a scalar to one for all. An output may be exactly an input.

#ifndef RENDER_H
#define RENDER_H

#include "pass/pass.h"

// c_style.c -------------------------------------------------------------------------------------------------

const char *render_dialect_name(int at); // NULL past the last
bool render_has_dialect(const char *dialect);
// What passes need to know; NULL and an error if there is no such dialect.
const struct target *render_target(const char *dialect);

// Sets *is_rows to whether a kernel, before or after passes, is one map over rows, or one reduction: what dialects of rows have
// functions for. False and an error when memory runs out.
bool render_find_rows(const struct tile_kernel *kernel, bool *is_rows);

// What stands once before the functions of a file.
const char *render_prelude(const char *dialect);

// Appends the function `symbol` (NULL: the kernel's name) for a kernel that all passes were run on; false and
// an error.
bool render_function(struct text *out, const struct tile_kernel *kernel, const char *dialect,
                     const char *symbol);

// Runs the passes for the target, of a language or of a unit, and appends prelude and function: code for the target's compiler, which
// need not be text. The kernel is changed. False and an error, also if the unit cannot run it.
bool render_kernel(struct text *out, struct tile_kernel *kernel, const struct target *target);

// What the entry of a kernel for the BM1690 has behind the kernel's name: "_kernel", or nothing where the name ends so.
const char *render_bm1690_ending(const char *name);

// A kernel of groups of threads, after render_kernel: how its functions NAME_0, NAME_1, ... are launched, one after the other.
struct render_launch {
    int axes;
    const expr *blocks; // along each axis: the launch has their product
    int threads;
    int64_t shared; // bytes of a group; -1: not known
};
int render_launches(const struct tile_kernel *kernel, struct render_launch *out, int room); // how many there are
// Whether its functions take a last argument, the address of an i32 that is 0 before the launch: the line of an assertion that does
// not hold is left there. Kernels without assertions do not have it.
bool render_has_status(const struct tile_kernel *kernel);

// Statements that the function of this kernel is made of: what it costs to compile.
int render_cost(const struct tile_kernel *kernel);

// stablehlo.c -------------------------------------------------------------------------------------------------

extern const struct target render_stablehlo_target;
const char *render_stablehlo_type(zl_dtype dtype); // of elements: "f32"
// Runs the passes on a kernel that is one map with one store, and appends statements that compute its value for whole tensors of a shape,
// written "2x3x". operand[k] is the name, a number, of the tensor that parameter k is; *names, of the next name, grows. Sets *result to
// that of the value. The kernel is changed. False and an error.
bool render_stablehlo(struct text *out, struct tile_kernel *kernel, const char *shape, const int *operand, int *names, int *result);

#endif
