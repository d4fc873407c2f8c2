// interpret.h - the state of the interpreter. Included by interpret.c, lockstep.c and regions.c only.

#ifndef INTERPRET_H
#define INTERPRET_H

#include "tile/tile.h"

// The memory of a buffer while a kernel runs.
struct cells {
    char *data;
    bool is_owned;
    int64_t shape[TILE_DIMS], stride[TILE_DIMS]; // elements
    int64_t bytes;
};

struct machine {
    const struct tile_kernel *kernel;
    struct cells *cells;    // by id of buffer
    union tile_value *name; // by id of name
    struct map tapes;       // statement or list of sizes -> tape of its expressions
    struct {
        const void *of;
        struct tile_tape *tape;
    } recent[256]; // a cache of `tapes` by address
    const struct tile_stmt *at; // the statement that is running, for messages
    bool failed, broke;
};

// The values of a statement's expressions.
struct operands {
    int64_t index[TILE_DIMS], extent[TILE_DIMS];
    union tile_value value, mask;
    int64_t begin, step;
    int64_t origin[3][TILE_DIMS], size[3][TILE_DIMS]; // of regions; size only if the region states it
};

// Records an error at the statement that is running, marks the machine failed and returns false.
bool machine_fail(struct machine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Evaluates the expressions of a statement that is no command. Returns false, with an error, if that fails,
// such as by a load outside of its buffer.
bool machine_evaluate(struct machine *m, const struct tile_stmt *s, struct operands *out);
// Runs the statements before `end` (NULL: all), up to a break, which sets m->broke. Returns false, with an
// error, if one fails.
bool machine_run(struct machine *m, const struct tile_stmt *from, const struct tile_stmt *end);
// Sets *at to the address of an element. Returns false, without an error, if the buffer has no such element
// or no memory.
bool machine_find(const struct machine *m, const struct tile_buffer *buffer, const int64_t *index, char **at);
// Reads an element, which need not be aligned.
union tile_value machine_read(struct tile_type type, const char *at);
// Writes an element, which need not be aligned.
void machine_write(struct tile_type type, char *at, union tile_value value);

// An op of two operands, prepared to run on values, also complex ones.
struct combiner {
    struct tile_kernel *kernel;
    struct tile_tape *tape;
    union tile_value arg[3];
};
// Prepares an op of two operands of a type. Returns false, with an error, if it does not take them or memory
// runs out; combiner_close is due in any case.
bool combiner_open(struct combiner *c, enum tile_op op, struct tile_type type);
// Returns the op's result on a and b.
union tile_value combiner_run(struct combiner *c, union tile_value a, union tile_value b);
// Frees what combiner_open made, but not the combiner itself.
void combiner_close(struct combiner *c);

// lockstep.c

// Runs a `thread` statement for all threads, which proceed together at barriers, shuffles and statements that
// contain these. Returns false, with an error, if a statement fails.
bool machine_threads(struct machine *m, const struct tile_stmt *s, const struct operands *o);

// regions.c

// Runs a statement of one kind; `o` has the values of its expressions. Returns false, with an error, if sizes
// do not fit, memory runs out, or the op does not take the type.
bool machine_copy(struct machine *m, const struct tile_stmt *s, const struct operands *o);
bool machine_fill(struct machine *m, const struct tile_stmt *s, const struct operands *o);
bool machine_im2col(struct machine *m, const struct tile_stmt *s, const struct operands *o);
bool machine_reduce(struct machine *m, const struct tile_stmt *s, const struct operands *o);
bool machine_scan(struct machine *m, const struct tile_stmt *s, const struct operands *o);
bool machine_gemm(struct machine *m, const struct tile_stmt *s, const struct operands *o);

#endif
