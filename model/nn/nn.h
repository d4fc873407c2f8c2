// nn.h - what the files of this folder share: the table of parameters, and the rows of optimisers.

#ifndef NN_H
#define NN_H

#include "zellige_nn.h"

// nn_table.c ----------------------------------------------------------------------------------------------------

struct nn_parameter {
    char *name;
    zl_array array;   // retained
    zl_array current; // what layers take, while a transform runs the model on stand-ins; NULL: array
    zl_nn_kind kind;
    bool used;        // the model has asked for it
};

struct nn_table {
    struct nn_parameter *parameter;
    int count, cap, next; // next: where the model is likely to ask
    int64_t seed;
    bool closed;
    zl_nn places;
    char error[512];
};

// A place in a table; the first one is the table's handle.
struct zl_nn_ {
    struct nn_table *table;
    zl_nn next;
    char prefix[];
};

// Keeps the first message; returns false.
bool nn_fail(zl_nn nn, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool nn_add(zl_nn nn, const char *name, zl_array array); // at the end of the table

// nn_optimizer.c --------------------------------------------------------------------------------------------------

enum { NN_STATES = 2 };

// One parameter in a step. Everything is float32, or what is wider.
struct nn_update {
    const zl_train_options *options; // with defaults filled in
    zl_nn_kind kind;
    zl_array rate, grown[NN_STATES]; // grown: 1 - beta^steps
    zl_array gradient;
    zl_array parameter, state[NN_STATES]; // before the step, then behind it
};

struct nn_optimizer {
    const char *name;
    int (*states)(zl_nn_kind kind);
    void (*update)(struct nn_update *u);
};
const struct nn_optimizer *nn_optimizer_find(const char *name); // NULL: none
void nn_optimizer_defaults(zl_train_options *options);
bool nn_is_schedule(const char *name);

#endif
