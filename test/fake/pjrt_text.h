// pjrt_text.h - the evaluator of programs, which test/fake/pjrt.c uses.

#ifndef FAKE_PJRT_TEXT_H
#define FAKE_PJRT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_AXES = 8, FAKE_VALUES = 512, FAKE_ARGUMENTS = 16 };

struct tensor {
    char type[8]; // "f32", "ui32"
    int axes;
    int64_t dim[FAKE_AXES];
};

int64_t tensor_size(const struct tensor *t);

// Finds the types of a module's arguments and results. Returns false if it has no @main, or too many of them.
bool text_signature(const char *text, struct tensor *argument, int *arguments, struct tensor *result,
                    int *results);
// Computes the results, whose memory the caller allocated, from the arguments. Returns the name of the first
// op that is unknown, or has elements that are not 32 bits wide; NULL: done. If `argument` is NULL, it only
// checks the program.
const char *text_run(const char *text, void *const *argument, void *const *result);

#endif
