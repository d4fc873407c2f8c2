// program.h - kernels of any statements while they are rendered. Between the files of render/ only.

#ifndef PROGRAM_H
#define PROGRAM_H

#include "render/c/style.h"
#include "tile/syntax.h"

// bytes of a block's (a thread's) memory at most; of one of unknown size
enum { PROGRAM_STACK = 4 << 20, PROGRAM_ARRAY = 1 << 20 };

struct program {
    struct style style;
    const struct tile_kernel *kernel;
    const struct tile_stmt *at; // for messages
    int *seen;                  // by id of expression: the statement that it was computed for
    int *moving; // by id: of a row, whether it depends on the axis
    int stamp;
    struct node_plan *of; // by id: the numbers that values have in the text
    bool *declared;       // by id of name: a variable of the function
    int numbers;
    int depth;    // of the branch of a statement's value that text is written into; 0: none
    int branches; // that a statement is in
    int64_t stack; // bytes of memory of blocks so far
    const char *symbol;   // of the function
    struct text row_text; // functions of rows, before it
    int rows;
    bool checks; // every index is tested: ZL_CHECK
    bool fences; // what threads wrote is for matrix instructions to read
    const struct tile_stmt *ahead; // copies that are begun while the next product runs; NULL: none
    bool failed;
    // Statements that the target writes in its own way; NULL, or false: as plain C does.
    bool (*own)(struct program *p, const struct tile_stmt *s);
};

// program.c -------------------------------------------------------------------------------------------------

void program_block(struct program *p, const struct tile_stmt *body);
void program_extents(struct program *p, const struct tile_stmt *s); // e<id> of each name
void program_strides(struct program *p, const struct tile_buffer *b); // s<id>_<axis> where they are not known
void program_locals(struct program *p, const struct tile_stmt *body); // of a function
// Appends what `write` writes of the program's kernel, with what it leaves in row_text before it. False: it
// failed.
bool program_write(struct program *p, struct style *style, void (*write)(struct program *p));

// program_values.c ------------------------------------------------------------------------------------------

bool program_fail(struct program *p, const struct tile_stmt *s, const char *why, const char *what); // false
int64_t program_stride(const struct tile_buffer *b, int axis); // in elements; -1: not known before a call
const char *program_memory(struct tile_type type);           // the type in memory
bool program_has_panels(const struct tile_buffer *b); // rows of matrices in panels of 128 bytes: zl_panel

// a pointer into the memory of another buffer
void program_view(struct program *p, const struct tile_buffer *b);
// of it, after program_nodes of its sizes; -2: there are none
void program_bytes(struct program *p, const struct tile_buffer *b);

// Emits values, operands first, each once; then program_operand names them.
void program_nodes(struct program *p, int count, const expr *root);
void program_operand(struct program *p, expr e);
// Appends text with the name of an operand instead of each @ of the format; or as a line, after which one
// that ends with { is open.
void program_text(struct program *p, const expr *operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void program_line(struct program *p, const expr *operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Opens a block in which the values of a statement, and `more` others, are emitted.
void program_open(struct program *p, const struct tile_stmt *s, int more, const expr *others);
void program_element(struct program *p, const struct tile_buffer *b, const expr *index); // b[...]
// Whether a statement whose accesses are not made again soon accesses this buffer outside of the block.
bool program_is_once(const struct tile_stmt *s, const struct tile_buffer *b);
// Elements along the axes [from, to) of a buffer.
void program_offset(struct program *p, const struct tile_buffer *b, const expr *index, int from, int to);
void program_quoted(struct text *out, const char *text);
int64_t program_elements(const struct tile_buffer *b); // -1: not known
// Bytes of as many elements, two numbers each if they are complex; -1 where the number of elements is, or 64
// bits do not suffice.
int64_t program_size(const struct tile_buffer *b);

// Statements whose values were emitted.
typedef void program_statement(struct program *p, const struct tile_stmt *s);
program_statement program_store, program_atomic, program_message, program_alloc, program_gemm,
    program_reduce;

// program_rows.c --------------------------------------------------------------------------------------------

// Whether all statements of a map are rows along its last axis; and calls of their functions, of which the
// first element is where that axis' variable is, for so many elements (a name of the text).
bool program_has_rows(struct program *p, const struct tile_stmt *map);
void program_rows(struct program *p, const struct tile_stmt *map, const char *count);

// If statements from s on compute a line and reduce it to one element: writes them as one row; the last of
// them, else NULL.
const struct tile_stmt *program_reduced(struct program *p, const struct tile_stmt *s);

// Expressions of a product's text that its statement does not have: sizes of buffers. How many.
int program_gemm_sizes(const struct tile_stmt *s, expr *out);

#endif
