// kernels_lines.h - what a kernel of lines computes: its key, and all that its text is made from.

#ifndef KERNELS_LINES_H
#define KERNELS_LINES_H

#include "device/kernels/kernels_group.h"

enum { LINE_WORDS = 440, LINE_REDUCTIONS = 6, LINE_THREADS = 1024 }; // threads: at most

enum line_form { LINE_FLAT, LINE_STRIDED, LINE_SAME, LINE_VALUE }; // along a line; SAME: one element

struct line_recipe {
    char name[8]; // no other kernel has such a key
    int16_t words, rows, inputs, outputs, reductions, wide;
    int16_t input[KERNEL_OPERANDS];      // form | dtype << 4
    int16_t output[KERNEL_OPERANDS];     // row << 1 | one element a line
    int16_t reduction[LINE_REDUCTIONS];       // rows
    int16_t word[LINE_WORDS];          // of each row: combines, op, dtypes of result and operand, operands, references
};

// kernels_lines_text.c: a kernel_writer.
struct line_writer {
    const struct line_recipe *r;
    const char *dialect;
};
bool kernel_write_lines(struct text *out, const void *writer);

#endif
