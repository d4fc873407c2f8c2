// arrange.h - how a map is laid out in text: what is computed once, what in which block, in how many
// registers. Between the files of render/ only.

#ifndef ARRANGE_H
#define ARRANGE_H

#include "render/render.h"

struct node_plan {
    int number;    // in the names of its registers
    int block;     // where its statements stand: 0 is the loop's body, else a block for what is rarely needed
    int inner;     // of a rare node: the block of its rarely needed operand
    bool is_fixed; // the same for all elements: computed before the loop
    bool is_alive; // met while values are counted that are needed at once
    uint8_t bytes; // of one lane: of its type, of a truth value the width of its mask (0: any)
};

struct plan {
    const struct tile_kernel *kernel;
    const struct tile_stmt *map;
    int count;            // of nodes
    expr *node;           // operands first
    struct node_plan *of; // [id]
    int blocks;
    int *outer; // [block]: the block around it; those further out have smaller numbers
    int narrow; // bytes of the narrowest element
    int unroll; // registers of the narrowest element in one turn of the loop; 0: one element a turn
};

// False and an error if the map is not one over rows. render_plan_free also after a failure.
bool render_plan_make(struct plan *plan, const struct tile_kernel *kernel, const struct tile_stmt *map);
void render_plan_free(struct plan *plan);

int render_plan_registers(const struct plan *plan, expr e); // how many hold e in one turn of the loop

// Where parameter `at` of the kernel is among the arguments: outputs come first.
int render_plan_argument(const struct tile_kernel *kernel, int at);
const struct tile_buffer *render_plan_buffer(const struct tile_kernel *kernel, int at); // NULL: a scalar
struct tile_type render_plan_type(const struct tile_kernel *kernel, int at);

// Whether the parameter is a row of the map, not one element for all.
bool render_plan_is_row(const struct plan *plan, int at);
// Whether it is a buffer of which each element serves for a run; a scalar serves for all.
bool render_plan_steps(const struct plan *plan, int at);
bool render_plan_has_steps(const struct plan *plan); // some parameter does

#endif
