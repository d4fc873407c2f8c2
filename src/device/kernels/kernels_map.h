// kernels_map.h - what a kernel of elements computes: its key, and all that its text is made from.

#ifndef KERNELS_MAP_H
#define KERNELS_MAP_H

#include "device/kernels/kernels_group.h"

// How an input lies. ROWS and SAME are strided too: behind each other along the last axis, or one for all of it.
enum map_form { FORM_FLAT = FUSE_FORMS, FORM_STRIDED, FORM_ONE, FORM_VALUE, FORM_ROWS, FORM_SAME };

static inline bool form_is_strided(int form) {
    return form == FORM_STRIDED || form == FORM_ROWS || form == FORM_SAME;
}

struct map_recipe {
    int16_t width, packs, wide; // elements that a thread takes at once, and how often; indices have 64 bits
    struct fuse_recipe f;
};

// kernels_map_text.c: a kernel_writer, and how many inputs are walked along axes.
struct map_writer {
    const struct map_recipe *r;
    const char *dialect;
};
bool kernel_write_map(struct text *out, const void *writer);
int map_strided_inputs(const struct map_recipe *r);

#endif
