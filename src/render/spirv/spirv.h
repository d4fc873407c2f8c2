// spirv.h - kernels as SPIR-V for Vulkan: how a device runs the code that render_kernel makes for a target of
// the dialect `spirv_tiles`.
//
// The code is one module of SPIR-V 1.5 (words, little endian) with an entry point NAME_0, NAME_1, ... for
// each launch, in the order of render_launches; NAME is the kernel's. A module with cooperative matrices is
// SPIR-V 1.6 in Vulkan's memory model, and needs the features for these, and for bf16, to be enabled. All
// entry points have the same arguments:
//
// - Descriptor set 0, binding b, is a storage buffer for the b-th buffer argument: parameters that are not
//   passed by value, in order; then memory outside of all groups, in the order of their statements; then, if
//   render_has_status, the i32 of assertions. An argument need not begin where its binding does: bindings
//   begin at multiples of 16 bytes at least, and the block has the number of bytes before the argument.
// - A module of addresses, which its addressing model shows, has none of these bindings: the block has the
//   address of each argument instead, of 8 bytes. Modules are of this kind for a unit that is_far, and if a
//   kernel has more bindings than its unit.
// - Everything else is one block of 32-bit words: the bytes before the argument of each binding; the number
//   of groups of the launch; parameters that are passed by value, each beginning at a word of its own, as in
//   memory (bytes after the last element are not read); then symbols, of 4 or 8 bytes. The block is the push
//   constants. If it is larger than the unit's push constants can be, it is a storage buffer instead, after
//   all other bindings, and there are no push constants. A module of addresses has it at binding 0.
//
// A launch of at most SPIRV_ROW groups is a dispatch of a single row. A larger one is a dispatch of rows of
// SPIRV_ROW groups each; the groups of the last row that are too many do nothing.

#ifndef SPIRV_H
#define SPIRV_H

#include "pass/pass.h"

enum { SPIRV_ROW = 65535 };

// The layout of the arguments. Places in the block are in bytes from its beginning.
struct spirv_layout {
    int buffers;       // buffer arguments; the first words of the block belong to them
    bool has_addresses; // the block has their addresses, and there are no bindings
    int groups;        // place of the number of groups; values follow
    int symbols;       // place of the first symbol
    int symbol_bytes;  // per symbol
    int bytes;         // of the block
    bool is_in_buffer; // the block is a storage buffer, not push constants
    int binding;       // of that storage buffer
};
// Returns the layout of the arguments of a kernel after the passes for the target.
struct spirv_layout spirv_layout(const struct tile_kernel *kernel, const struct target *target);
// Returns the offset in the block, in bytes, of a parameter that is passed by value.
int spirv_layout_parameter(const struct spirv_layout *l, const struct tile_kernel *kernel, int parameter);

// Appends a module as readable text. Returns false, with an error, if the code is no module.
bool spirv_disassemble(struct text *out, const char *code, size_t bytes);

#endif
