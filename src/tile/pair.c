// pair.c - finds which axes of two regions belong together.

#include "tile/tile.h"

bool tile_region_is_sized(const struct tile_region *r) {
    return r->extent || !r->origin;
}

expr tile_region_size(const struct tile_region *r, int axis) {
    return r->extent ? r->extent[axis] : r->buffer->shape[axis];
}

static bool is_one(expr e) {
    return e && e->op == TILE_CONST && tile_type_is_integer(e->type) &&
           tile_value_of(e->type, e->bits).i == 1;
}

// Numbers the axes whose size is not the constant 1, and sets the others to -1. Returns how many it numbered.
static int number_long(const struct tile_region *r, int *of) {
    int count = 0;
    for (int i = 0; i < r->buffer->ndim; i++)
        of[i] = is_one(tile_region_size(r, i)) ? -1 : count++;
    return count;
}

static void number_from_last(const struct tile_region *r, int axes, int *of) {
    for (int i = 0; i < r->buffer->ndim; i++)
        of[i] = axes - r->buffer->ndim + i;
}

int tile_pair(const struct tile_region *a, const struct tile_region *b, int *of_a, int *of_b) {
    if (tile_region_is_sized(a) && tile_region_is_sized(b)) {
        int axes = number_long(a, of_a);
        if (axes && axes == number_long(b, of_b))
            return axes;
    }
    int axes = MAX_OF(a->buffer->ndim, b->buffer->ndim);
    number_from_last(a, axes, of_a);
    number_from_last(b, axes, of_b);
    return axes;
}
