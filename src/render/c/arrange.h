// arrange.h - the plan of a map's text: which values are computed before the loop, in which block, and in how
// many registers. Used by the files of render/ only.

#ifndef ARRANGE_H
#define ARRANGE_H

#include "render/render.h"

struct node_plan {
    int number;    // the number in the names of its registers
    int block;     // of its statements: 0 is the loop's body, others hold rarely needed values
    int inner;     // of a rare node: the block of its rarely needed operand
    bool is_fixed; // the same for all elements: computed before the loop
    bool is_alive; // used while counting the values that are needed at once
    uint8_t bytes; // of one lane; of a boolean, of its mask (0: any)
};

struct plan {
    const struct tile_kernel *kernel;
    const struct tile_stmt *map;
    int count;            // of nodes
    expr *node;           // operands first
    struct node_plan *of; // [id]
    int blocks;
    int *outer; // [block]: the block around it, which has a smaller number
    int narrow; // bytes of the narrowest element
    int unroll; // registers of the narrowest element per iteration of the loop; 0: one element per iteration
};

// Plans the text of a map over rows. Returns false, with an error, if the map is not one over rows or if
// memory runs out. The caller calls render_plan_free in any case.
bool render_plan_make(struct plan *plan, const struct tile_kernel *kernel, const struct tile_stmt *map);
// Frees what the plan points to and clears it.
void render_plan_free(struct plan *plan);

// Returns how many registers hold e in one iteration of the loop.
int render_plan_registers(const struct plan *plan, expr e);

// Returns the position of parameter `at` of the kernel among the arguments: outputs come first.
int render_plan_argument(const struct tile_kernel *kernel, int at);
// Returns the buffer of parameter `at`; NULL for a scalar.
const struct tile_buffer *render_plan_buffer(const struct tile_kernel *kernel, int at);
// Returns the type of parameter `at`: that of a buffer's elements, or of the scalar.
struct tile_type render_plan_type(const struct tile_kernel *kernel, int at);

// Returns whether parameter `at` is a row of the map, not one element that serves for several.
bool render_plan_is_row(const struct plan *plan, int at);
// Returns whether parameter `at` is a buffer of which each element serves for a run of elements of the rows.
bool render_plan_steps(const struct plan *plan, int at);
// Returns whether render_plan_steps is true of any parameter.
bool render_plan_has_steps(const struct plan *plan);

#endif
