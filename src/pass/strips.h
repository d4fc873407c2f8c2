// strips.h - dividing statements into strips along an axis of their tiles. Shared by files of pass/ only.

#ifndef STRIPS_H
#define STRIPS_H

#include "pass/lanes.h"

enum { STRIPS_CUTS = 32, STRIPS_STATEMENTS = 64, STRIPS_LEAVES = 128 };
enum strips_place { STRIPS_BEFORE, STRIPS_INSIDE, STRIPS_BEHIND }; // relative to the loop

// A tile that is cut, and the tile of the size of a strip that replaces it in the loop.
struct cut {
    const struct tile_buffer *old, *now;
    int axis;
};

struct strips {
    const struct target *target;
    const struct tile_stmt *block; // its tiles need too much memory
    int64_t extent, size;          // elements along the axis, and of a strip
    int cuts;
    struct cut cut[STRIPS_CUTS];
    bool good, changed; // results of the search for the tiles that are cut
    int count;          // of a list, from the first to the last statement that touches a strip
    const struct tile_stmt *first, *last, *statement[STRIPS_STATEMENTS];
    enum strips_place place[STRIPS_STATEMENTS];
    // In the loop:
    expr base;                       // the first element of a strip
    // old_name: the variable of a map along the axis; inner: its replacement, which counts within a strip
    const struct tile_name *old_name;
    expr inner;
    // of statements whose results add up over the strips: a tile of f32 if the result has 16 bits, else NULL
    const struct tile_buffer *sum[STRIPS_STATEMENTS];
};

// strips.c --------------------------------------------------------------------------------------------------

// Returns how a tile is cut; NULL: it is not.
struct cut *strips_cut(struct strips *p, const struct tile_buffer *b);
// Returns whether a statement, or one in it, accesses a tile that is cut.
bool strips_touch(const struct strips *p, const struct tile_stmt *s);
// Sets axis[i] to the axis of region i along which a statement is divided into strips, -1 for none. The
// statement accesses a tile that is cut. Returns false, without an error, if it cannot be divided.
bool strips_axes(struct strips *p, const struct tile_stmt *s, int *axis);
// Returns whether a statement that accesses a tile that is cut is a reduction or product along the axis of
// the strips, so that its results are summed over them.
bool strips_adds_up(struct strips *p, const struct tile_stmt *s);
// Returns the position of the map's variable along the axis of the strips; -1: there is none. Clears p->good
// if accesses to tiles that are cut disagree.
int strips_variable(struct strips *p, const struct tile_stmt *map);

// strips_emit.c ---------------------------------------------------------------------------------------------

// Emits the statements of the list: those before the loop, the loop over strips, and those after it.
void strips_emit(struct strips *p);

#endif
