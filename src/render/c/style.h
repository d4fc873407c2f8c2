// style.h - shared by the files that render the C family. Used by the files of render/ only.

#ifndef STYLE_H
#define STYLE_H

#include "render/c/arrange.h"

struct style {
    struct text *out;
    const struct plan *plan;
    const struct dialect *dialect;
    const struct target *target; // the record of the dialect, or of a unit
    int indent;
    const char *lane; // replaces the number in names of registers; NULL: the number
};

struct dialect {
    struct target target;
    const char *prelude; // NULL: its code is not text
    // Write the whole function of a map, or of a reduction of one row (NULL: not supported).
    void (*map)(struct style *s, const char *symbol);
    bool (*reduction)(struct style *s, const struct tile_kernel *kernel, const char *symbol);
    // Writes the functions of a kernel of any statements (NULL: not supported).
    bool (*program)(struct style *s, const struct tile_kernel *kernel, const char *symbol);
    // Append parts of a map's statements: the type of a variable, the j-th register of a value in terms of
    // its operands, the name of that register, and a test whether any lane of a mask is true.
    void (*type)(struct style *s, expr e);
    void (*value)(struct style *s, expr e, int j);
    void (*operand)(struct style *s, expr e, int j);
    void (*any)(struct style *s, expr mask);
    const struct group_words *words; // for groups of threads: see group.h
    // Returns whether the node is spelled where it is used, and so has no statement.
    bool (*is_inline)(const struct plan *plan, expr e);
};

#define DIALECT(name) extern const struct dialect dialect_##name;
#include "render/dialects.def"
// prelude.c
extern const char prelude_c_scalar[], prelude_c_tiles[], prelude_opencl_tiles[], prelude_cuda_tiles[],
    prelude_hip_tiles[], prelude_bm1690[], prelude_bm1690_host[];

// reduction.c

// Writes the function of a kernel that reduces one row, in the dialect `c`; a map before the reduction may
// be fused into it. Returns false, with an error, if the kernel is no such reduction or if that fails.
bool reduction_vector(struct style *s, const struct tile_kernel *kernel, const char *symbol);
// Writes the function of a kernel that reduces one row, in the dialect `c_scalar`. Returns false, with an
// error, if the kernel is no such reduction or if that fails.
bool reduction_scalar(struct style *s, const struct tile_kernel *kernel, const char *symbol);

// program.c

// Writes the functions of a kernel of any statements for the blocks of a CPU. Returns false, with an error,
// if that fails.
bool program_render(struct style *s, const struct tile_kernel *kernel, const char *symbol);

// group.c

// Writes the functions of a kernel of any statements for workgroups. Returns false, with an error, if that
// fails.
bool render_group(struct style *s, const struct tile_kernel *kernel, const char *symbol);

// statements.c

// Writes a line.
void style_line(struct style *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Writes a line that ends with an opening brace, and indents the lines after it.
void style_open(struct style *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Ends the indentation and writes the closing brace.
void style_close(struct style *s);
// Writes the statements of the plan's nodes that are the same for all elements.
void style_fixed(struct style *s);
// Writes the statements of one node.
void style_node(struct style *s, expr e);
// Writes the statements of a block of the plan, and those of the blocks inside it.
void style_block(struct style *s, int block);
// Appends a spelling with its placeholders replaced: %a, %b and %c by the operands of e for register j, %t by
// the type of the last operand. For any other placeholder it calls `more`.
void style_expand(struct style *s, const char *spelling, expr e, int j,
                  void (*more)(struct style *, char, expr, int));
// Returns the dialect's spelling of the op of e.
const struct spelling *style_spelling(const struct style *s, expr e);

#endif
