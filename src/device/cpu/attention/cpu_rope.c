// cpu_rope.c - rotary position embeddings: cosines and sines of some positions are computed once, and the
// rows of all heads at these positions are multiplied by them.
//
// A row becomes x * cosines + swapped * sines, where `swapped` has the two elements of each pair exchanged,
// and the sines of the first ones are negated. These are the numbers a cos - b sin and a sin + b cos,
// computed by row kernels over whole tiles.

#include "device/cpu/rows/operands.h"
#include "op/ops.h"

#include <string.h>

enum { PAIRS = 512, WIDEST = 8 }; // pairs per tile, and bytes of the widest element

struct rotation {
    struct rope rope;
    zl_dtype dtype, wide; // dtype of x, and of angles
    int64_t item;
    int64_t pairs, lines;   // per tile: pairs of a row, and rows (positions)
    int64_t blocks, chunks; // tiles along positions, and along the pairs of a row
    int64_t stride[3];      // of x, in bytes
    const char *x;
    char *y;
    const char *frequencies; // the angle of each pair per position, of dtype wide
    const char *offsets;
    row_fn *by_number, *cosine, *sine, *narrow, *negative, *multiply,
        *add; // narrow is NULL where the dtypes are the same
};

// The position of a tile, and the factors that the rows of all heads are multiplied by there. The factors of
// pairs are in the order of a row of x.
struct rope_tile {
    int64_t key; // the tile that the factors are for; -1: none yet
    int64_t batch, position, lines, pair, pairs;
    _Alignas(64) char cosines[2 * PAIRS * WIDEST];
    _Alignas(64) char sines[2 * PAIRS * WIDEST];
};

// Writes pairs in the order of a row of x: element by element from `first` and `second` in turn
// (traditional), or for each row all elements of `first`, then all of `second`.
static void join(const struct rotation *t, const struct rope_tile *tile, char *to, const char *first,
                 const char *second) {
    int64_t item = t->item, n = tile->pairs;
    for (int64_t i = 0; i < tile->lines; i++, first += n * item, second += n * item)
        if (t->rope.traditional)
            for (int64_t j = 0; j < n; j++, to += 2 * item) {
                memcpy(to, first + j * item, (size_t)item);
                memcpy(to + item, second + j * item, (size_t)item);
            }
        else {
            memcpy(to, first, (size_t)(n * item));
            memcpy(to + n * item, second, (size_t)(n * item));
            to += 2 * n * item;
        }
}

static double start_of(const struct rotation *t, int64_t batch) {
    const struct rope *r = &t->rope;
    double start = (double)r->offset;
    float narrow = (float)r->offset;
    int64_t at = r->has_offsets && r->offsets->size > 1 ? batch : 0;
    if (r->has_offsets)
        dtype_convert(t->wide == ZL_FLOAT64 ? (void *)&start : (void *)&narrow, t->wide,
                      t->offsets + at * (int64_t)array_item(r->offsets), (zl_dtype)r->offsets->dtype, 1);
    return t->wide == ZL_FLOAT64 ? start : (double)narrow;
}

// Computes the angles of a tile's positions; intermediate results are rounded as the separate ops would round
// them.
static void fill_angles(const struct rotation *t, const struct rope_tile *tile, char *angle) {
    int64_t wide = (int64_t)zl_dtype_size(t->wide);
    double start = start_of(t, tile->batch);
    for (int64_t i = 0; i < tile->lines; i++) {
        double position = (double)(tile->position + i);
        double place = (position + start) * t->rope.scale;
        float narrow = ((float)position + (float)start) * (float)t->rope.scale;
        cpu_call_row(t->by_number, angle + i * tile->pairs * wide, t->frequencies + tile->pair * wide,
                     t->wide == ZL_FLOAT64 ? (void *)&place : (void *)&narrow, NULL, tile->pairs);
    }
}

// Computes cosines or sines of n angles, rounded to the dtype of x.
static void take_row(const struct rotation *t, row_fn *row, char *to, const char *angle, int64_t n) {
    _Alignas(64) char exact[PAIRS * WIDEST];
    cpu_call_row(row, t->narrow ? exact : to, angle, NULL, NULL, n);
    if (t->narrow)
        cpu_call_row(t->narrow, to, exact, NULL, NULL, n);
}

static void fill_table(const struct rotation *t, struct rope_tile *tile) {
    _Alignas(64) char angle[PAIRS * WIDEST], part[PAIRS * WIDEST], negative[PAIRS * WIDEST];
    int64_t n = tile->lines * tile->pairs;
    fill_angles(t, tile, angle);
    take_row(t, t->cosine, part, angle, n);
    join(t, tile, tile->cosines, part, part);
    take_row(t, t->sine, part, angle, n);
    cpu_call_row(t->negative, negative, part, NULL, NULL, n);
    join(t, tile, tile->sines, t->rope.inverse ? part : negative, t->rope.inverse ? negative : part);
}

// Copies the pairs of a row in a tile from x, or back to y. Unless traditional, the second elements of pairs
// begin to_apart and from_apart bytes after the first ones.
static void copy_pairs(const struct rotation *t, const struct rope_tile *tile, char *to, int64_t to_apart,
                       const char *from, int64_t from_apart) {
    size_t bytes = (size_t)(tile->pairs * t->item);
    if (t->rope.traditional) {
        memcpy(to, from, 2 * bytes);
    } else {
        memcpy(to, from, bytes);
        memcpy(to + to_apart, from + from_apart, bytes);
    }
}

// SWAP exchanges the two elements of each pair, which are the halves of a word, by rotating the word.
#define SWAP(word)                                                   \
    for (int64_t j = 0; j < n; j++) {                                \
        word pair;                                                   \
        memcpy(&pair, from + j * (int64_t)sizeof pair, sizeof pair); \
        pair = pair << 4 * sizeof pair | pair >> 4 * sizeof pair;    \
        memcpy(to + j * (int64_t)sizeof pair, &pair, sizeof pair);   \
    }

// Copies a row of pairs with the two elements of each pair exchanged.
static void swap_pairs(const struct rotation *t, const struct rope_tile *tile, char *to, const char *from,
                       int64_t apart) {
    int64_t n = tile->pairs, bytes = n * t->item;
    if (!t->rope.traditional) {
        memcpy(to, from + apart, (size_t)bytes);
        memcpy(to + bytes, from, (size_t)bytes);
    } else if (t->item == 2) {
        SWAP(uint32_t)
    } else if (t->item == 4) {
        SWAP(uint64_t)
    } else {
        for (int64_t j = 0; j < 2 * n; j++)
            memcpy(to + j * t->item, from + (j ^ 1) * t->item, sizeof(double));
    }
}

static void rotate_head(const struct rotation *t, const struct rope_tile *tile, int64_t head) {
    _Alignas(64) char numbers[2 * PAIRS * WIDEST], swapped[2 * PAIRS * WIDEST];
    const int64_t *dim = t->rope.x->dim;
    int64_t line = dim[3] * t->item, bytes = 2 * tile->pairs * t->item, apart = t->rope.dims / 2 * t->item;
    int64_t skip = tile->pair * t->item * (t->rope.traditional ? 2 : 1);
    const char *x = t->x + tile->batch * t->stride[0] + head * t->stride[1] + tile->position * t->stride[2];
    char *y = t->y + ((tile->batch * dim[1] + head) * dim[2] + tile->position) * line;
    bool whole = bytes == line, dense = whole && (t->stride[2] == line || tile->lines == 1);
    for (int64_t i = 0; i < tile->lines; i++) {
        const char *from = x + i * t->stride[2] + skip;
        swap_pairs(t, tile, swapped + i * bytes, from, apart);
        if (!dense)
            copy_pairs(t, tile, numbers + i * bytes, bytes / 2, from, apart);
    }
    int64_t n = 2 * tile->lines * tile->pairs;
    cpu_call_row(t->multiply, numbers, dense ? x : numbers, tile->cosines, NULL, n);
    cpu_call_row(t->multiply, swapped, swapped, tile->sines, NULL, n);
    cpu_call_row(t->add, whole ? y : numbers, numbers, swapped, NULL, n);
    int64_t rest = line - t->rope.dims * t->item;
    for (int64_t i = 0; !whole && i < tile->lines; i++) {
        copy_pairs(t, tile, y + i * line + skip, apart, numbers + i * bytes, bytes / 2);
        if (rest && tile->pair == 0)
            memcpy(y + (i + 1) * line - rest, x + i * t->stride[2] + line - rest, (size_t)rest);
    }
}

// Moves to tile `number`, and computes its factors if they are not those of the tile before. Heads are not
// counted here: they are the innermost loop, because they share the tile's factors.
static void open_tile(const struct rotation *t, int64_t number, struct rope_tile *tile) {
    const struct rope *r = &t->rope;
    int64_t tiles = t->blocks * t->chunks, at = number % tiles;
    tile->batch = number / tiles;
    bool by_batch = r->has_offsets && r->offsets->size > 1;
    int64_t key = by_batch ? number : at;
    if (key == tile->key)
        return;
    tile->key = key;
    tile->position = at / t->chunks * t->lines;
    tile->lines = MIN_OF(t->lines, r->x->dim[2] - tile->position);
    tile->pair = at % t->chunks * t->pairs;
    tile->pairs = MIN_OF(t->pairs, r->dims / 2 - tile->pair);
    fill_table(t, tile);
}

static void tiles(const void *context, int64_t from, int64_t to) {
    const struct rotation *t = context;
    int64_t heads = t->rope.x->dim[1];
    struct rope_tile tile;
    tile.key = -1;
    for (; from < to; from++) {
        open_tile(t, from / heads, &tile);
        rotate_head(t, &tile, from % heads);
    }
}

static void choose_rows(struct rotation *t) {
    const struct row_table *rows = cpu_level()->rows;
    t->by_number = rows->op[TILE_MUL][t->wide][2]; // the second operand is one number
    t->cosine = rows->op[TILE_COS][t->wide][0];
    t->sine = rows->op[TILE_SIN][t->wide][0];
    t->narrow = t->dtype == t->wide ? NULL : rows->cast[t->dtype][t->wide];
    t->negative = rows->op[TILE_NEG][t->dtype][0];
    t->multiply = rows->op[TILE_MUL][t->dtype][0];
    t->add = rows->op[TILE_ADD][t->dtype][0];
}

// Computes the angle by which each pair rotates per position.
static void fill_frequencies(const struct rotation *t, char *frequencies) {
    const struct rope *r = &t->rope;
    int64_t half = r->dims / 2;
    union scalar room;
    const void *freqs = r->has_freqs ? array_data(r->freqs, &room) : NULL;
    double rate = r->has_freqs ? 0 : op_rope_rate(r);
    for (int64_t j = 0; j < half; j++)
        if (t->wide == ZL_FLOAT64)
            ((double *)(void *)frequencies)[j] = freqs ? 1 / ((const double *)freqs)[j] : (double)-j * rate;
        else
            ((float *)(void *)frequencies)[j] =
                freqs ? 1 / ((const float *)freqs)[j] : (float)-j * (float)rate;
    if (!freqs)
        cpu_call_row(cpu_level()->rows->op[TILE_EXP][t->wide][0], frequencies, frequencies, NULL, NULL, half);
}

bool cpu_rope(const struct call *c) {
    union scalar room[2];
    struct rotation t = {.rope = op_rope_read(c, c->in), .y = cpu_data(call_first(c))};
    zl_array x = t.rope.x;
    int64_t half = t.rope.dims / 2;
    t.dtype = (zl_dtype)x->dtype;
    t.wide = t.dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    t.item = (int64_t)array_item(x);
    t.x = array_data(x, &room[0]);
    t.offsets = t.rope.has_offsets ? array_data(t.rope.offsets, &room[1]) : NULL;
    for (int i = 0; i < 3; i++)
        t.stride[i] = array_stride(x)[i] * t.item;
    t.pairs = MIN_OF(half, PAIRS);
    t.lines = MIN_OF(PAIRS / t.pairs, x->dim[2]);
    t.blocks = (x->dim[2] + t.lines - 1) / t.lines;
    t.chunks = (half + t.pairs - 1) / t.pairs;
    choose_rows(&t);
    size_t bytes = (size_t)half * zl_dtype_size(t.wide);
    _Alignas(16) char few[1024]; // enough for the usual sizes of heads
    char *more = bytes > sizeof few ? memory_alloc(bytes) : NULL, *frequencies = more ? more : few;
    if (bytes > sizeof few && !more)
        return false;
    t.frequencies = frequencies;
    fill_frequencies(&t, frequencies);
    int64_t traffic = 4 * t.lines * t.pairs * t.item;
    cpu_split(x->dim[0] * x->dim[1] * t.blocks * t.chunks, CPU_SPLIT / traffic + 1, tiles, &t);
    memory_free(more);
    return true;
}
