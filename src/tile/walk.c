// walk.c - builds the statement `walk`, for the parser and for code that builds kernels: it computes the
// places in memory of the element with a given number along axes.

#include "tile/notation.h"

expr tile_variable(const char *text, expr value) {
    const struct tile_name *name = value ? tile_name(text, value->type) : NULL;
    tile_assign(name, value);
    return tile_name_value(name, TILE_LOCAL);
}

static expr entry(const struct tile_buffer *table, int row, expr axis) {
    return tile_load(table, 2, (const expr[]){tile_number(row), axis}, NULL, NULL);
}

static void step(const struct tile_buffer *table, expr axis, expr by, int count, const expr *place) {
    for (int k = 0; k < count; k++)
        if (place[k])
            tile_assign(place[k]->name, ADD(place[k], MUL(by, entry(table, 1 + k, axis))));
}

// Divides unsigned numbers, which takes less code. Sizes are at least 1, so that no division by 0 has to be
// handled.
void tile_walk(const struct tile_buffer *table, expr inner, expr which, int count, const expr *place) {
    struct tile_type index = tile_index_type(), natural = {TILE_UINT, index.bits, 1};
    expr rest = tile_variable("rest", tile_cast(natural, which));
    const struct tile_name *axis = tile_index("a", inner);
    expr a = tile_name_value(axis, TILE_INDEX),
         size = MAX(tile_cast(natural, entry(table, 0, a)), tile_const_int(natural, 1));
    tile_open_for(axis, NULL, inner, NULL, TILE_SERIAL);
    expr next = tile_variable("next", FLOORDIV(rest, size));
    step(table, a, tile_variable("here", tile_cast(index, SUB(rest, MUL(next, size)))), count, place);
    tile_assign(rest ? rest->name : NULL, next);
    tile_close();
    step(table, inner, tile_cast(index, rest), count, place);
}
