// spirv.h - kernels as SPIR-V, for Vulkan: what a device needs to know of the code that render_kernel makes
// for a target of the dialect `spirv_tiles`.
//
// The code is one module of SPIR-V 1.5 (words, little endian) with an entry point NAME_0, NAME_1, ... for
// each launch, in the order of render_launches; NAME is the kernel's. One with cooperative matrices is SPIR-V
// 1.6 in Vulkan's memory model, and wants the features of these, and of bf16, to be switched on. All have the
// same arguments:
//
// - Descriptor set 0, binding b, is a storage buffer for the b-th buffer argument: parameters that are not
//   passed by value, in order; then memory outside of all groups, in the order of their statements; then, if
//   render_has_status, the i32 of assertions. An argument need not begin where its binding does: bindings
//   begin at multiples of 16 bytes at least, and the block says how many bytes lie before the argument.
// - A module of addresses, whose addressing model says so, has none of these bindings: the block has the
//   address of each argument instead, of 8 bytes. Modules are that for a unit that is_far, and where a kernel
//   has more bindings than its unit.
// - All else is one block of 32-bit words: for each binding, those bytes; how many groups the launch has;
//   parameters that are passed by value, each from a word of its own on, as they lie in memory (bytes behind
//   the last element are not read); then symbols, of 4 or 8 bytes. It is the push constants; where it is
//   larger than those of the unit can be, it is a storage buffer instead, behind all other bindings, and
//   there are no push constants. A module of addresses has it at binding 0.
//
// A launch of more than SPIRV_ROW groups is a dispatch of rows of SPIRV_ROW groups each, of which what is too
// much of the last does nothing; one of fewer is a single row.

#ifndef SPIRV_H
#define SPIRV_H

#include "pass/pass.h"

enum { SPIRV_ROW = 65535 };

// Places in the block are bytes from its beginning.
struct spirv_layout {
    int buffers;       // arguments that are; the first words of the block belong to them
    bool has_addresses; // of them, instead of bindings
    int groups;        // where the number of groups is; values follow
    int symbols;       // where the first symbol is
    int symbol_bytes;  // of each
    int bytes;         // of the block
    bool is_in_buffer; // it is a storage buffer, not push constants
    int binding;       // of that
};
// Returns the layout of the arguments of a kernel after the passes for the target.
struct spirv_layout spirv_layout(const struct tile_kernel *kernel, const struct target *target);
// Returns the offset in the block, in bytes, of a parameter that is passed by value.
int spirv_layout_parameter(const struct spirv_layout *l, const struct tile_kernel *kernel, int parameter);

// Appends a module as readable text. Returns false, with an error, if the code is no module.
bool spirv_disassemble(struct text *out, const char *code, size_t bytes);

#endif
