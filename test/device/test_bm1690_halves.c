// test_bm1690_halves.c - 64-bit numbers on the BM1690's emulator, by 32-bit commands: every bit is that of
// the interpreter.
//
// A run tests a third of the rows that every target supports; `build/test --long bm1690_halves` all of them,
// every row of integers, and more numbers.

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/rules.h"
#include "test.h"
#include "tile/tile.h"
#include "zellige_tile.h"

static const struct {
    const char *name;
    enum tile_op op;
    int inputs, rule;
} rows[] = {
#define UNARY(NAME, fn, doc, rule, ...)   {&#fn[3], TILE_##NAME, 1, rule},
#define BINARY(NAME, fn, doc, rule, ...)  {&#fn[3], TILE_##NAME, 2, rule},
#define TERNARY(NAME, fn, doc, rule, ...) {&#fn[3], TILE_##NAME, 3, rule},
#include "op/elementwise.def"
};

enum { CORNERS = 14, PAIRS = CORNERS * CORNERS, MOST = 1024 };

static const uint64_t whole_corners[CORNERS] = {
    0,
    1,
    UINT64_MAX,
    2,
    3,
    63,
    64,
    UINT32_MAX,
    UINT64_C(1) << 32,
    INT64_MAX,
    UINT64_C(1) << 63,
    0xfffffffffffffff9,
    0x123456789abcdef0,
    1000003,
};
// +-0, 1, -1, infinities, a NaN, the smallest numbers, the largest, halves, neighbours of these.
static const uint64_t float_corners[CORNERS] = {
    0,
    UINT64_C(1) << 63,
    0x3ff0000000000000,
    0xbff0000000000000,
    0x7ff0000000000000,
    0xfff0000000000000,
    0x7ff8000000000000,
    1,
    0x800fffffffffffff,
    0x0010000000000000,
    0x7fefffffffffffff,
    0x4004000000000000,
    0x3ff0000000000001,
    0xc340000000000001,
};

// Returns how many inputs are tested: few enough for the lanes to hold everything that powers of integers
// need at once.
static int64_t points(void) {
    return test_long() ? MOST : PAIRS + 60;
}

// Fills the inputs with numbers of all magnitudes. Every other pair of floats is close together, so that
// differences cancel.
static void fill(zl_dtype dtype, uint64_t *a, uint64_t *b, uint8_t *c) {
    const uint64_t *corner = dtype == ZL_FLOAT64 ? float_corners : whole_corners;
    for (int64_t i = 0; i < points(); i++) {
        uint64_t x = test_random() << 32 ^ test_random(), y = test_random() << 32 ^ test_random();
        if (dtype != ZL_FLOAT64)
            y >>= i * 7 % 64;
        else if (i % 2)
            y = x ^ (y >> (12 + i % 40)) ^ (i % 4 == 1 ? UINT64_C(1) << 63 : 0);
        a[i] = i < PAIRS ? corner[i % CORNERS] : x;
        b[i] = i < PAIRS ? corner[i / CORNERS] : y;
        c[i] = test_random() & 1;
    }
}

static bool is_nan(zl_dtype dtype, uint64_t bits) {
    return dtype == ZL_FLOAT64 && bits << 1 > UINT64_C(0xffe) << 52;
}

struct run {
    zl_dtype dtype;
    uint64_t a[MOST], b[MOST], got[MOST], want[MOST];
    float f[MOST];
    uint8_t c[MOST], truth[2][MOST];
};

static bool try_text(struct run *r, const char *text) {
    int64_t n = points(), one = 1;
    zl_kernel_buffer buffer[] = {{r->a, r->dtype, 1, &n, &one},   {r->b, r->dtype, 1, &n, &one},
                                 {r->c, ZL_BOOL, 1, &n, &one},    {r->f, ZL_FLOAT32, 1, &n, &one},
                                 {r->got, r->dtype, 1, &n, &one}, {r->truth[0], ZL_BOOL, 1, &n, &one}};
    struct tile_kernel *tile = tile_parse(text, "halves");
    zl_kernel k = zl_kernel_compile(text, "halves", "bm1690");
    memset(r->truth, 0, sizeof r->truth);
    memset(r->got, 0, sizeof r->got);
    memset(r->want, 0, sizeof r->want);
    bool good = tile && k && zl_kernel_run(k, COUNT(buffer), buffer) &&
                tile_interpret(tile, (void *[]){r->a, r->b, r->c, r->f, r->want, r->truth[1]}, &n);
    if (!CHECK(good))
        test_note("%s in %s", zl_error() ? zl_error() : "?", text);
    zl_clear_error();
    zl_kernel_release(k);
    tile_free(tile);
    return good;
}

static void compare(const struct run *r, const char *what) {
    for (int64_t i = 0; i < points(); i++) {
        bool same = r->got[i] == r->want[i] || (is_nan(r->dtype, r->got[i]) && is_nan(r->dtype, r->want[i]));
        if (CHECK(same && r->truth[0][i] == r->truth[1][i]))
            continue;
        test_note("%s of %s(%016llx, %016llx) is %016llx, not %016llx; truth %d, not %d", what,
                  tile_type_name(tile_type_of(r->dtype)), (unsigned long long)r->a[i],
                  (unsigned long long)r->b[i], (unsigned long long)r->got[i], (unsigned long long)r->want[i],
                  r->truth[0][i], r->truth[1][i]);
        return;
    }
}

static void try_value(struct run *r, const char *what, const char *value, bool is_truth) {
    struct text text = {0};
    const char *type = tile_type_name(tile_type_of(r->dtype));
    int n = (int)points();
    text_add(&text,
             "kernel halves(a: %s[%d], b: %s[%d], c: bool[%d], f: f32[%d]) -> (y: %s[%d], z: bool[%d]) {\n",
             type, n, type, n, n, n, type, n, n);
    text_add(&text, "  map i in %d { %s[i] = %s }\n}\n", n, is_truth ? "z" : "y", value);
    if (try_text(r, text.data))
        compare(r, what);
    text_free(&text);
}

static void try_rows(zl_dtype dtype) {
    static struct run r;
    r.dtype = dtype;
    fill(dtype, r.a, r.b, r.c);
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool is_base = tile_row_is_base(rows[i].op, dtype), is_formula = !is_base && dtype != ZL_FLOAT64;
        bool is_tried = tile_row_takes(rows[i].op, dtype) &&
                        (test_long() ? is_base || is_formula : is_base && test_random() % 3 == 0);
        char value[64];
        const char *operands = rows[i].inputs == 1   ? "a[i]"
                               : rows[i].inputs == 2 ? "a[i], b[i]"
                                                     : "c[i], a[i], b[i]";
        snprintf(value, sizeof value, "%s(%s)", rows[i].name, operands);
        if (is_tried)
            try_value(&r, rows[i].name, value, rows[i].rule & TRUTH);
    }
}

TEST(rows_of_i64_have_every_bit) {
    try_rows(ZL_INT64);
}
TEST(rows_of_u64_have_every_bit) {
    try_rows(ZL_UINT64);
}
TEST(rows_of_f64_have_every_bit) {
    try_rows(ZL_FLOAT64);
}
