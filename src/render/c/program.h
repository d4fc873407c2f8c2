// program.h - the state while a kernel of any statements is rendered. Used by the files of render/ only.

#ifndef PROGRAM_H
#define PROGRAM_H

#include "render/c/style.h"
#include "tile/syntax.h"

// most bytes of memory of a block (of a thread); of one array whose size is known only at the call
enum { PROGRAM_STACK = 4 << 20, PROGRAM_ARRAY = 1 << 20 };

struct program {
    struct style style;
    const struct tile_kernel *kernel;
    const struct tile_stmt *at; // for messages
    int *seen;                  // by id of expression: the stamp of the last statement that computed it
    int *moving; // by id: whether it depends on the axis of a row, with the row's stamp
    int stamp;
    struct node_plan *of; // by id: the numbers of values in the text
    bool *declared;       // by id of name: it is declared in the function
    int numbers;
    int depth;    // nesting of the branches of rare values at this place of the text; 0: none
    int branches; // nesting of `if` statements at this place
    int64_t stack; // bytes of block memory that were declared so far
    const char *symbol;   // of the function
    struct text row_text; // the row functions, which precede the function
    int rows;
    bool checks; // every index is tested: ZL_CHECK
    bool fences; // barriers also order writes of threads before the reads of matrix instructions
    const struct tile_stmt *ahead; // copies to begin while the next product runs; NULL: none
    bool failed;
    // Writes a statement in the target's own way and returns true; NULL, or if it returns false: plain C.
    bool (*own)(struct program *p, const struct tile_stmt *s);
};

// program.c -------------------------------------------------------------------------------------------------

// Writes statements, one after the other, until one fails.
void program_block(struct program *p, const struct tile_stmt *body);
// Declares e<id>, the extent of each index of a map or grid, where id is that of the index's name.
void program_extents(struct program *p, const struct tile_stmt *s);
// Declares and computes s<id>_<axis>, the strides of a buffer that are not constants.
void program_strides(struct program *p, const struct tile_buffer *b);
// Declares the local variables of a function with this body.
void program_locals(struct program *p, const struct tile_stmt *body);
// Appends the text that `write` writes for the program's kernel to style->out, after the row functions in
// row_text. Returns false, with an error, if that fails.
bool program_write(struct program *p, struct style *style, void (*write)(struct program *p));

// program_values.c ------------------------------------------------------------------------------------------

// Sets p->failed and, for the first failure, the error: `why`, then `what`, at statement s (NULL: at the
// kernel). Returns false.
bool program_fail(struct program *p, const struct tile_stmt *s, const char *why, const char *what);
// Returns the stride of an axis in elements; -1 if it is not known before a call.
int64_t program_stride(const struct tile_buffer *b, int axis);
// Returns the name of the type that holds a value in memory.
const char *program_memory(struct tile_type type);
// Returns whether the rows of a swizzled buffer are stored in panels of 128 bytes: zl_panel.
bool program_has_panels(const struct tile_buffer *b);

// Declares the pointer of a view: into the memory of its base.
void program_view(struct program *p, const struct tile_buffer *b);
// Appends an expression for the bytes of a buffer, whose sizes were emitted by program_nodes; its value is -2
// if 64 bits do not suffice or a size is negative.
void program_bytes(struct program *p, const struct tile_buffer *b);

// Emits values, operands first, each once; then program_operand names them.
void program_nodes(struct program *p, int count, const expr *root);
// Appends the name of a value.
void program_operand(struct program *p, expr e);
// Appends text, with the name of the next operand instead of each @ of the format.
void program_text(struct program *p, const expr *operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Appends a line of text as program_text does. If its format ends with {, the lines after it are indented
// until style_close.
void program_line(struct program *p, const expr *operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Opens a block in which the values of a statement, and `more` others, are emitted.
void program_open(struct program *p, const struct tile_stmt *s, int more, const expr *others);
// Appends the element b[...] of a buffer.
void program_element(struct program *p, const struct tile_buffer *b, const expr *index);
// Returns whether s accesses this buffer outside of the block and does not access the same elements again
// soon.
bool program_is_once(const struct tile_stmt *s, const struct tile_buffer *b);
// Appends the sum of index times stride, in elements, over the axes [from, to) of a buffer.
void program_offset(struct program *p, const struct tile_buffer *b, const expr *index, int from, int to);
// Appends text (NULL: "") as a string literal of C.
void program_quoted(struct text *out, const char *text);
// Returns the number of elements that a buffer's memory holds; -1 if it is not known before a call.
int64_t program_elements(const struct tile_buffer *b);
// Returns the bytes of these elements (two numbers each if complex); -1 if their number is unknown or does
// not fit into 64 bits.
int64_t program_size(const struct tile_buffer *b);

// Statements whose values were emitted.
typedef void program_statement(struct program *p, const struct tile_stmt *s);
program_statement program_store, program_atomic, program_message, program_alloc, program_gemm,
    program_reduce;

// program_rows.c --------------------------------------------------------------------------------------------

// Returns whether all statements of a map can be row functions along its last axis.
bool program_has_rows(struct program *p, const struct tile_stmt *map);
// Writes these functions, and a call of each. A call computes `count` elements (a name in the text), starting
// at the value of the last axis's variable.
void program_rows(struct program *p, const struct tile_stmt *map, const char *count);

// Writes statements from s on as one row function if they compute a row and reduce it to one element. Returns
// the last of them; NULL, with nothing written, if they do not.
const struct tile_stmt *program_reduced(struct program *p, const struct tile_stmt *s);

// Writes to `out` the expressions that the text of a product needs and its statement does not have: sizes of
// buffers. Returns their number.
int program_gemm_sizes(const struct tile_stmt *s, expr *out);

#endif
