// pjrt_text.h - what the two files of the plugin of test/fake/pjrt.c know of each other: programs that its
// evaluator runs.

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

// The types of a module's arguments and results; false: it has no @main, or more than there is room for.
bool text_signature(const char *text, struct tensor *argument, int *arguments, struct tensor *result,
                    int *results);
// Computes results, of which each has room, from arguments. The name of the first op that it does not know,
// or that is of other elements than those of 32 bits; NULL: it is done. With `argument` NULL nothing is
// computed.
const char *text_run(const char *text, void *const *argument, void *const *result);

#endif
