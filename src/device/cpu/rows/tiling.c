// tiling.c - operands over one shape: adding them, merging their axes, and walking over tiles on one thread
// or several.

#include "device/cpu/rows/operands.h"

#include <stdlib.h>

// Collecting ------------------------------------------------------------------------------------------------

void cpu_layout_start(struct layout *l, int ndim, const int64_t *dim, int outputs) {
    l->axes = 0;
    l->operands = 0;
    l->outputs = outputs;
    l->size = 1;
    for (int i = 0; i < ndim; i++) {
        if (dim[i] == 1)
            continue;
        l->origin[l->axes] = ndim - 1 - i;
        l->axis[l->axes++].dim = dim[i];
        l->size *= dim[i];
    }
}

void cpu_layout_add(struct layout *l, const void *data, size_t item, int ndim, const int64_t *dim,
                    const int64_t *stride) {
    int k = l->operands++;
    l->data[k] = (char *)(uintptr_t)data;
    l->item[k] = (uint8_t)item;
    for (int j = 0; j < l->axes; j++) {
        int i = ndim - 1 - l->origin[j];
        l->axis[j].stride[k] = i < 0 || dim[i] == 1 ? 0 : stride[i] * (int64_t)item;
    }
}

static bool are_one(const struct layout *l, const struct layout_axis *outer,
                    const struct layout_axis *inner) {
    for (int k = 0; k < l->operands; k++)
        if (outer->stride[k] != inner->stride[k] * inner->dim)
            return false;
    return true;
}

static void copy_axis(const struct layout *l, struct layout_axis *to, const struct layout_axis *from) {
    to->dim = from->dim;
    for (int k = 0; k < l->operands; k++)
        to->stride[k] = from->stride[k];
}

void cpu_layout_merge_first(struct layout *l, int axes) {
    if (axes < 2)
        return;
    int last = 0;
    for (int j = 1; j < axes; j++) {
        int64_t outer = l->axis[last].dim;
        if (are_one(l, &l->axis[last], &l->axis[j])) {
            copy_axis(l, &l->axis[last], &l->axis[j]);
            l->axis[last].dim *= outer;
        } else {
            copy_axis(l, &l->axis[++last], &l->axis[j]);
        }
    }
    for (int j = axes; j < l->axes; j++)
        copy_axis(l, &l->axis[++last], &l->axis[j]);
    l->axes = last + 1;
}

void cpu_layout_order(struct layout *l) {
    for (int j = 1; j < l->axes; j++)
        for (int i = j; i > 0 && llabs(l->axis[i - 1].stride[0]) < llabs(l->axis[i].stride[0]); i--) {
            struct layout_axis axis;
            copy_axis(l, &axis, &l->axis[i]);
            copy_axis(l, &l->axis[i], &l->axis[i - 1]);
            copy_axis(l, &l->axis[i - 1], &axis);
        }
}

void cpu_layout_merge(struct layout *l) {
    cpu_layout_merge_first(l, l->axes);
}

void cpu_layout_crop(struct layout *l, int64_t before, const int64_t from[2], const int64_t size[2]) {
    int first = l->axes - 2;
    for (int j = l->axes - 1; j >= 0; j--) {
        int64_t at = j < first ? before % l->axis[j].dim : from[j - first];
        before /= j < first ? l->axis[j].dim : 1;
        for (int k = 0; k < l->operands; k++)
            l->data[k] += l->axis[j].stride[k] * at;
    }
    for (int j = 0; j < 2; j++) {
        l->axis[j] = l->axis[first + j];
        l->axis[j].dim = size[j];
    }
    l->axes = 2;
    l->size = size[0] * size[1];
}

void cpu_layout_trim(struct layout *l) {
    while (l->loops > 0 && l->axis[l->loops - 1].step >= l->axis[l->loops - 1].dim)
        l->loops--;
}

// Walking ---------------------------------------------------------------------------------------------------

// Adds to addresses as integers: an operand without elements has no memory, and a walk may begin at NULL to
// compute distances.
static void move_along(const struct layout *l, struct walk *w, int j, int64_t elements) {
    w->at[j] += elements;
    for (int k = 0; k < l->operands; k++)
        w->data[k] = (char *)((uintptr_t)w->data[k] + (uintptr_t)(l->axis[j].stride[k] * elements));
}

void cpu_walk_wrap(const struct layout *l, struct walk *w) {
    for (int j = l->loops - 1; j >= 0; j--) {
        const struct layout_axis *a = &l->axis[j];
        if (w->at[j] + a->step < a->dim) {
            move_along(l, w, j, a->step);
            return;
        }
        move_along(l, w, j, -w->at[j]);
    }
}

static int64_t tiles_along(const struct layout_axis *a) {
    return (a->dim + a->step - 1) / a->step;
}

void cpu_walk_to(const struct layout *l, struct walk *w, int64_t tile) {
    const struct layout_axis *last = &l->axis[MAX_OF(l->loops, 1) - 1];
    for (int k = 0; k < l->operands; k++) {
        w->data[k] = l->data[k];
        w->next[k] = l->loops ? last->stride[k] * last->step : 0;
    }
    for (int k = l->operands; k < LAYOUT_OPERANDS; k++) {
        w->data[k] = NULL;
        w->next[k] = 0;
    }
    for (int j = l->loops; j < l->axes; j++)
        w->at[j] = 0;
    for (int j = l->loops - 1; j >= 0; j--) {
        int64_t tiles = tiles_along(&l->axis[j]);
        w->at[j] = 0;
        move_along(l, w, j, tile % tiles * l->axis[j].step);
        tile /= tiles;
    }
}

struct walk_job {
    const struct layout *l;
    walk_part *part;
    const void *context;
};

static void walk_range(const void *data, int64_t from, int64_t to) {
    const struct walk_job *job = data;
    struct walk w;
    cpu_walk_to(job->l, &w, from);
    job->part(job->l, &w, to - from, job->context);
}

void cpu_walk(const struct layout *l, double traffic, walk_part *part, const void *context) {
    struct walk_job job = {l, part, context};
    int64_t tiles = 1;
    for (int j = 0; j < l->loops; j++)
        tiles *= tiles_along(&l->axis[j]);
    double grain = (double)tiles * (CPU_SPLIT / 2) / (traffic + 1);
    cpu_split(tiles, grain < (double)tiles ? (int64_t)grain + 1 : tiles, walk_range, &job);
}

// Splitting -------------------------------------------------------------------------------------------------

enum { PIECES = 4 }; // per thread, so that a delayed thread leaves work to the others

struct split_job {
    int64_t count;
    int parts;
    void (*fn)(const void *context, int64_t from, int64_t to);
    const void *context;
};

static void split_part(void *data, int part) {
    const struct split_job *job = data;
    int64_t each = job->count / job->parts, more = job->count % job->parts;
    int64_t from = part * each + MIN_OF(part, more);
    job->fn(job->context, from, from + each + (part < more));
}

void cpu_split(int64_t count, int64_t grain, void (*fn)(const void *context, int64_t from, int64_t to),
               const void *context) {
    int64_t parts = count / grain;
    if (parts >= 2)
        parts = MIN_OF(parts, (int64_t)pool_threads() * PIECES);
    if (parts < 2 || pool_threads() < 2) {
        fn(context, 0, count);
        return;
    }
    struct split_job job = {count, (int)parts, fn, context};
    pool_run(job.parts, split_part, &job);
}
