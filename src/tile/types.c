// types.c - the types of expressions and memory, and their names.

#include "tile/tile.h"

#include <string.h>

enum { LANE_COUNTS = 8, SMALL_TYPES = 8 }; // 1, 2, 4 .. 128

// One row per dtype and small type, with the names of all its vectors, so that a name needs no memory of its
// own.
#define NAMES(t) \
    { t, t "x2", t "x4", t "x8", t "x16", t "x32", t "x64", t "x128" }
static const struct {
    struct tile_type type;
    const char *name[LANE_COUNTS];
} types[ZL_DTYPE_COUNT + SMALL_TYPES] = {
    [ZL_BOOL] = {{TILE_BOOL, 1, 1}, NAMES("bool")},
    [ZL_UINT8] = {{TILE_UINT, 8, 1}, NAMES("u8")},
    [ZL_UINT16] = {{TILE_UINT, 16, 1}, NAMES("u16")},
    [ZL_UINT32] = {{TILE_UINT, 32, 1}, NAMES("u32")},
    [ZL_UINT64] = {{TILE_UINT, 64, 1}, NAMES("u64")},
    [ZL_INT8] = {{TILE_INT, 8, 1}, NAMES("i8")},
    [ZL_INT16] = {{TILE_INT, 16, 1}, NAMES("i16")},
    [ZL_INT32] = {{TILE_INT, 32, 1}, NAMES("i32")},
    [ZL_INT64] = {{TILE_INT, 64, 1}, NAMES("i64")},
    [ZL_FLOAT16] = {{TILE_FLOAT, 16, 1}, NAMES("f16")},
    [ZL_BFLOAT16] = {{TILE_BFLOAT, 16, 1}, NAMES("bf16")},
    [ZL_FLOAT32] = {{TILE_FLOAT, 32, 1}, NAMES("f32")},
    [ZL_FLOAT64] = {{TILE_FLOAT, 64, 1}, NAMES("f64")},
    [ZL_COMPLEX64] = {{TILE_COMPLEX, 64, 1}, NAMES("c64")},
    [ZL_DTYPE_COUNT] = {{TILE_E4M3, 8, 1}, NAMES("e4m3")},
    {{TILE_E5M2, 8, 1}, NAMES("e5m2")},
    {{TILE_E4M3FNUZ, 8, 1}, NAMES("e4m3fnuz")},
    {{TILE_E5M2FNUZ, 8, 1}, NAMES("e5m2fnuz")},
    {{TILE_E2M1, 4, 1}, NAMES("e2m1")},
    {{TILE_E8M0, 8, 1}, NAMES("e8m0")},
    {{TILE_INT, 4, 1}, NAMES("i4")},
    {{TILE_UINT, 4, 1}, NAMES("u4")},
};

struct tile_type tile_type_of(zl_dtype dtype) {
    return (unsigned)dtype < ZL_DTYPE_COUNT ? types[dtype].type : (struct tile_type){0};
}

// Returns the row of a type, with any number of lanes; -1: none.
static int row_of(struct tile_type type) {
    for (int i = 0; i < (int)COUNT(types); i++)
        if (types[i].type.kind == type.kind && types[i].type.bits == type.bits)
            return i;
    return -1;
}

zl_dtype tile_dtype_of(struct tile_type type) {
    int row = type.lanes == 1 ? row_of(type) : -1;
    return row >= 0 && row < ZL_DTYPE_COUNT ? (zl_dtype)row : ZL_DTYPE_COUNT;
}

zl_dtype tile_array_dtype(struct tile_type type) {
    return tile_type_is_small(type) && type.lanes == 1 ? ZL_UINT8 : tile_dtype_of(type);
}

bool tile_type_equal(struct tile_type a, struct tile_type b) {
    return a.kind == b.kind && a.bits == b.bits && a.lanes == b.lanes;
}

static int lanes_column(int lanes) {
    for (int i = 0; i < LANE_COUNTS; i++)
        if (lanes == 1 << i)
            return i;
    return -1;
}

const char *tile_type_name(struct tile_type type) {
    int row = row_of(type), column = lanes_column(type.lanes);
    return row >= 0 && column >= 0 ? types[row].name[column] : "?";
}

bool tile_type_find(const char *name, struct tile_type *out) {
    for (size_t i = 0; i < COUNT(types); i++)
        for (int column = 0; column < LANE_COUNTS; column++)
            if (!strcmp(name, types[i].name[column])) {
                *out = types[i].type;
                out->lanes = (uint16_t)(1 << column);
                return true;
            }
    return false;
}

int tile_type_bytes(struct tile_type type) {
    int bytes = type.bits < 8 ? 1 : type.bits / 8;
    return bytes * type.lanes;
}
