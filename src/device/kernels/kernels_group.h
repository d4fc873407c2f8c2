// kernels_group.h - calls that become one kernel, while they are found, written and run.

#ifndef KERNELS_GROUP_H
#define KERNELS_GROUP_H

#include "device/kernels/kernels.h"

struct kernel_group {
    const struct program *program;
    struct call *const *call;
    int begin, end, ndim;
    const int64_t *dim;          // the shape of its elements
    bool stored[KERNEL_CALLS];   // something outside reads the result, which gets memory
    bool in_place[KERNEL_CALLS]; // which may be that of an input
    int16_t row[KERNEL_CALLS];   // in the recipe; views have none
    int inputs;
    zl_array input[KERNEL_OPERANDS];
    zl_dtype dtype[KERNEL_OPERANDS]; // as they are read
    int inverse_of[KERNEL_OPERANDS]; // GROUP_ITSELF; or the dtype of a number, given by value, whose inverse is read
};

enum { GROUP_INPUT = 1 << 8 }; // in recipes: a reference to an input; else to the result of a row

// In recipes, beside tile_ops: a quotient of x, b and the inverse of b, a number that group_division allows.
enum { GROUP_QUOTIENT = TILE_OP_COUNT, GROUP_ITSELF = -1 };

static inline const struct kernel_step *group_step(const struct kernel_group *g, int index) {
    return &g->program->step[index];
}

static inline zl_array group_output(const struct kernel_group *g, int index) {
    return call_first(g->call[index]);
}

static inline bool group_has_shape(const struct kernel_group *g, zl_array x) {
    return shape_equal(x->ndim, x->dim, g->ndim, g->dim);
}

// The kernel writes the call's result to memory.
static inline bool group_has_output(const struct kernel_group *g, int index) {
    return g->stored[index - g->begin] && group_step(g, index)->kind != STEP_VIEW;
}

bool group_is_ready(const struct kernel_group *g, int index); // nothing that a call reads from outside has failed
// The call of the group that computes what an input of another is, or is a view of; -1: none does.
int group_source(const struct kernel_group *g, int index, int k);
// How a call is computed that divides by a number given by value: as TILE_MUL with its inverse, as GROUP_QUOTIENT, or as TILE_DIV.
int group_division(const struct kernel_group *g, int index);
int group_find_stored(struct kernel_group *g); // how many outputs there are
int group_input(struct kernel_group *g, zl_array x, zl_dtype dtype, int inverse_of); // its number among the inputs; -1: there are too many

// Pieces of map i in n { y0[i] = ...; }: an input at i, a row on its operands, and the results.
expr group_parameter(char letter, int number, zl_dtype dtype, expr n, expr at);
// A tile_op, or GROUP_QUOTIENT: in the quick way, and *rare becomes true where that is wrong too; if rare is NULL, by a division.
expr group_apply(int op, zl_dtype dtype, int count, const expr *arg, expr *rare);
void group_store(int count, const expr *result, const struct tile_name *i, expr n);

bool group_add_outputs(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g);
// The input's memory and offset, or its value.
bool group_add_input(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g, int at,
                     int64_t offset);

// Gives outputs their memory, runs body, and publishes them, or fails all of them; how many calls there were. The group is
// the first member of what body gets.
typedef bool group_body(const struct kernel_place *p, struct kernel_group *g);
int group_run(struct kernel_group *g, struct binding *b, group_body *body, const struct kernel_place *p);

#endif
