// kernels_attention.h - what the kernels of attention and of its gradient share: sizes, masks, and how they are launched.

#pragma once

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum {
    ATTENTION_ROWS = 8,
    ATTENTION_LANES = 32
}; // a group has so many of one side, and as many of the other at a time

// Text: an element as f32.
#define ATTENTION_LOAD                         \
    "FN f32 load(GLOBAL const ITEM *from) {\n" \
    "    ITEM item = *from;\n"                 \
    "    f32 value;\n"                         \
    "    widen(&value, &item);\n"              \
    "    return value;\n"                      \
    "}\n"

// A kernel's text after what all have: ITEM, COLUMNS of a thread, MASK, HIDE, SINK, sizes, load, store, power_of.
struct attention_text {
    const char *name; // of 15 characters at most
    const char *hide; // of a mask of truth values: what is done before `;` if it does not hold
    const char *sink; // what sinks add
    const char *part[2];
};

// One launch for lines of q or k: rows of each, in matrices for each of the batch; memory is what the text has as parameters.
struct attention_launch {
    const struct attention_text *text;
    int64_t columns, rows, matrices;
    int memories;
    const zl_array *memory;
};

bool attention_launch(const struct kernel_place *p, const struct attention *a,
                      const struct attention_launch *l);
