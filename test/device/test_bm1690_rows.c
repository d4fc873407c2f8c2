// test_bm1690_rows.c - every row of elementwise.def on the BM1690's emulator, compared with the interpreter:
// f32, f16, bf16 and i32, with numbers at which formulas are likely to fail.
//
// `build/test --long bm1690_rows` prints the errors for more numbers; doc/bm1690.md lists them.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/rules.h"
#include "test.h"
#include "tile/tile.h"
#include "zellige_tile.h"

// Rows ------------------------------------------------------------------------------------------------------

static const struct row {
    const char *name;
    enum tile_op op;
    int inputs, rule;
} rows[] = {
#define UNARY(NAME, fn, doc, rule, ...)   {&#fn[3], TILE_##NAME, 1, rule},
#define BINARY(NAME, fn, doc, rule, ...)  {&#fn[3], TILE_##NAME, 2, rule},
#define TERNARY(NAME, fn, doc, rule, ...) {&#fn[3], TILE_##NAME, 3, rule},
#include "op/elementwise.def"
};

// The greatest error of f32, in ULPs. 16-bit results are rounded f32 results, with an error of at most one of
// their ULPs. Ops that are not listed are exact. The chip treats numbers below the smallest normal one as
// zeros, and also returns zeros for them.
static const struct {
    enum tile_op op;
    double units;
    const char *how; // how it is computed
} errors[] = {
    {TILE_SQRT, 4, "command"},      {TILE_RSQRT, 4, "command"},    {TILE_RECIP, 4, "command"},
    {TILE_DIV, 4, "command"},       {TILE_FLOORDIV, 0, "formula"}, {TILE_REM, 0, "formula"},
    {TILE_QUOT, 0, "formula"},      {TILE_ATAN2, 4, "formula"},    {TILE_EXP, 64, "command"},
    {TILE_EXPM1, 2, "formula"},     {TILE_LOG, 2, "formula"},      {TILE_LOG2, 2, "formula"},
    {TILE_LOG10, 2, "formula"},     {TILE_LOG1P, 2, "formula"},    {TILE_SIN, 2, "formula"},
    {TILE_COS, 2, "formula"},       {TILE_TAN, 5, "formula"},      {TILE_ASIN, 4, "formula"},
    {TILE_ACOS, 4, "formula"},      {TILE_ATAN, 4, "formula"},     {TILE_SINH, 4, "formula"},
    {TILE_COSH, 4, "formula"},      {TILE_TANH, 4, "formula"},     {TILE_ASINH, 4, "formula"},
    {TILE_ACOSH, 4, "formula"},     {TILE_ATANH, 4, "formula"},    {TILE_ERF, 3, "formula"},
    {TILE_ERFINV, 3, "formula"},    {TILE_SIGMOID, 5, "formula"},  {TILE_POW, 2, "formula"},
    {TILE_LOGADDEXP, 5, "formula"},
};

static double units_of(enum tile_op op) {
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].op == op)
            return errors[i].units;
    return 0;
}

// Numbers ---------------------------------------------------------------------------------------------------

enum { CORNERS = 20, PAIRS = CORNERS * CORNERS };

static const double float_corners[CORNERS] = {
    0,   -0.0, 1,    -1,  INFINITY, -INFINITY, NAN,     1e-40, -1e-40, 1.17549435e-38,
    0.5, 2,    -2.5, 3.5, 88.5,     -104,      65504.0, 6e-8,  3e38,   -16777215,
};
static const double whole_corners[CORNERS] = {
    0, 1, -1, 2, -2, 3, -3, 7, 31, 32, 33, 64, 255, -256, 4096, 46341, 65535, 16777217, INT32_MAX, INT32_MIN,
};

// Returns how many inputs each row gets: all pairs of corner cases, and random ones.
static int points(void) {
    return PAIRS + (test_long() ? 65136 : 624);
}

static double random_number(int at, bool is_whole) {
    if (is_whole)
        return at % 3 == 0 ? (double)test_between(-100, 100) : (double)(int32_t)(test_random() >> (at % 16));
    double wide = ldexp(test_uniform(1, 2), (int)test_between(-126, 127));
    return at % 3 == 0 ? test_uniform(-2, 2) : at % 3 == 1 ? test_uniform(-20, 20) : at % 2 ? wide : -wide;
}

static void store(struct tile_type type, void *data, int64_t i, double value) {
    union tile_value v = {.f = value};
    if (!tile_type_is_float(type))
        v.i = tile_type_is_bool(type) ? value != 0 : (int64_t)value;
    uint64_t bits = tile_bits_of(type, v);
    memcpy((char *)data + i * tile_type_bytes(type), &bits, (size_t)tile_type_bytes(type));
}

static uint64_t bits_at(struct tile_type type, const void *data, int64_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + i * tile_type_bytes(type), (size_t)tile_type_bytes(type));
    return bits;
}

static double value_at(struct tile_type type, const void *data, int64_t i) {
    union tile_value v = tile_value_of(type, bits_at(type, data, i));
    return tile_type_is_float(type) ? v.f : (double)v.i;
}

static bool is_f16(struct tile_type type) {
    return type.kind == TILE_FLOAT && type.bits == 16;
}

// Returns whether the chip treats the number as zero.
static bool is_flushed(struct tile_type type, double x) {
    return tile_type_is_float(type) && !is_f16(type) && fabs(x) < 0x1p-126;
}

// Returns whether a remainder of a large number is wrong by up to the small divisor: the chip treats a
// remainder below 2^-126 as zero before it looks at the sign.
static bool is_near_remainder(const struct row *r, double a, double b, double got, double want) {
    return r->op == TILE_REM && fabs(a) >= 0x1p60 && fabs(b) < 0x1p-90 && fabs(got - want) <= fabs(b);
}

static double unit(struct tile_type type, double x) {
    int digits = type.bits == 32 ? 24 : type.kind == TILE_BFLOAT ? 8 : 11, exponent;
    int least = type.bits == 16 && type.kind == TILE_FLOAT ? -24 : -149;
    frexp(x, &exponent);
    return ldexp(1, exponent - digits > least ? exponent - digits : least);
}

// Returns the error of a result in ULPs; infinity if it is not the same kind of number.
static double error_of(struct tile_type type, uint64_t got_bits, uint64_t want_bits) {
    union tile_value g = tile_value_of(type, got_bits), w = tile_value_of(type, want_bits);
    if (!tile_type_is_float(type))
        return g.i == w.i ? 0 : INFINITY;
    if (isnan(w.f) || isinf(w.f))
        return (isnan(w.f) ? isnan(g.f) : g.f == w.f) ? 0 : INFINITY;
    if (isnan(g.f) || isinf(g.f))
        return INFINITY;
    if (is_flushed(type, w.f) && is_flushed(type, g.f))
        return 0;
    if (fabs(g.f - w.f) <= 0x1p-125 && !is_f16(type) && (g.f != 0 || w.f != 0))
        return 0;
    if (g.f == 0 && w.f == 0)
        return signbit(g.f) == signbit(w.f) ? 0 : INFINITY;
    return fabs(g.f - w.f) / unit(type, w.f);
}

// Kernels ---------------------------------------------------------------------------------------------------

enum { BATCH = 5 }; // rows per kernel

struct trial {
    zl_dtype dtype;
    struct tile_type type;
    const struct row *row[COUNT(rows)];
    int count;         // number of rows in this kernel
    char *input[3][2]; // a, b and the condition, and copies with zeros for the numbers that the chip treats
                       // as zeros
    char *want[2][2], *got[2]; // numbers and booleans
};

static bool gives_truth(const struct row *r) {
    return r->rule & TRUTH;
}

static void write_kernel(const struct trial *t, struct text *out) {
    const char *type = tile_type_name(t->type);
    int next[2] = {0};
    text_add(out, "kernel rows(a: %s[n], b: %s[n], c: bool[n]) -> (y: %s[%d, n], z: bool[%d, n]) {\n", type,
             type, type, t->count, t->count);
    text_add(out, "  map i in n {\n");
    for (int i = 0; i < t->count; i++) {
        const struct row *r = t->row[i];
        bool truth = gives_truth(r);
        text_add(out, "    %s[%d, i] = %s(%s)\n", truth ? "z" : "y", next[truth]++, r->name,
                 r->inputs == 1   ? "a[i]"
                 : r->inputs == 2 ? "a[i], b[i]"
                                  : "c[i], a[i], b[i]");
    }
    text_add(out, "  }\n}\n");
}

static void fill(struct trial *t) {
    const struct tile_type truth = tile_type_of(ZL_BOOL);
    bool is_whole = tile_type_is_integer(t->type);
    const double *corner = is_whole ? whole_corners : float_corners;
    for (int i = 0; i < points(); i++) {
        double x[3] = {i < PAIRS ? corner[i % CORNERS] : random_number(i, is_whole),
                       i < PAIRS ? corner[i / CORNERS] : random_number(i + i / 3, is_whole),
                       (double)test_between(0, 1)};
        for (int k = 0; k < 3; k++) {
            struct tile_type type = k == 2 ? truth : t->type;
            store(type, t->input[k][0], i, x[k]);
            double kept = value_at(type, t->input[k][0], i);
            store(type, t->input[k][1], i, is_flushed(type, kept) ? copysign(0, kept) : kept);
        }
    }
}

static bool run(struct trial *t, const char *text) {
    int64_t n = points(), line[] = {n}, table[] = {t->count, n}, stride[] = {n, 1};
    zl_kernel_buffer buffer[] = {{t->input[0][0], t->dtype, 1, line, &stride[1]},
                                 {t->input[1][0], t->dtype, 1, line, &stride[1]},
                                 {t->input[2][0], ZL_BOOL, 1, line, &stride[1]},
                                 {t->got[0], t->dtype, 2, table, stride},
                                 {t->got[1], ZL_BOOL, 2, table, stride}};
    struct tile_kernel *tile = tile_parse(text, "rows");
    zl_kernel k = zl_kernel_compile(text, "rows", "bm1690");
    bool good = tile && k && zl_kernel_run(k, COUNT(buffer), buffer);
    for (int i = 0; i < 2 && good; i++)
        good = tile_interpret(
            tile, (void *[]){t->input[0][i], t->input[1][i], t->input[2][i], t->want[0][i], t->want[1][i]},
            &n);
    if (!CHECK(good))
        test_note("%s", zl_error() ? zl_error() : "?");
    zl_clear_error();
    zl_kernel_release(k);
    tile_free(tile);
    return good;
}

static void compare(const struct trial *t, const struct row *r, int64_t first) {
    bool truth = gives_truth(r);
    struct tile_type type = truth ? tile_type_of(ZL_BOOL) : t->type;
    double most = 0, allowed = units_of(r->op);
    int64_t worst = -1;
    if (t->type.bits == 16)
        allowed = allowed > 0 ? 1 : 0;
    if (tile_type_is_integer(t->type))
        allowed = 0;
    for (int64_t i = 0; i < points(); i++) {
        uint64_t got = bits_at(type, t->got[truth], first + i);
        double error = fmin(error_of(type, got, bits_at(type, t->want[truth][0], first + i)),
                            error_of(type, got, bits_at(type, t->want[truth][1], first + i)));
        if (is_near_remainder(r, value_at(t->type, t->input[0][0], i), value_at(t->type, t->input[1][0], i),
                              value_at(type, t->got[truth], first + i),
                              value_at(type, t->want[truth][0], first + i)))
            continue;
        if (error > most || (worst < 0 && error > 0)) {
            most = error;
            worst = i;
        }
    }
    if (test_long())
        test_note("%s of %s: %.3g units", r->name, tile_type_name(t->type), most);
    if (!CHECK(most <= allowed))
        test_note("%s of %s(%.9g, %.9g) is %.9g, not %.9g: %g units", r->name, tile_type_name(t->type),
                  value_at(t->type, t->input[0][0], worst), value_at(t->type, t->input[1][0], worst),
                  value_at(type, t->got[truth], first + worst),
                  value_at(type, t->want[truth][0], first + worst), most);
}

static void try_rows(struct trial *t) {
    struct text text = {0};
    int next[2] = {0};
    write_kernel(t, &text);
    if (run(t, text.data))
        for (int i = 0; i < t->count; i++)
            compare(t, t->row[i], (int64_t)next[gives_truth(t->row[i])]++ * points());
    text_free(&text);
}

static void try_dtype(zl_dtype dtype) {
    struct trial t = {.dtype = dtype, .type = tile_type_of(dtype)};
    size_t bytes = (size_t)points() * sizeof(float);
    char *room = calloc(12 + 6 * COUNT(rows), bytes);
    REQUIRE(room);
    for (int i = 0; i < 6; i++)
        t.input[i / 2][i % 2] = room + (size_t)i * bytes;
    for (int i = 0; i < 4; i++)
        t.want[i / 2][i % 2] = room + (6 + (size_t)i * COUNT(rows)) * bytes;
    for (int i = 0; i < 2; i++)
        t.got[i] = room + (6 + (size_t)(4 + i) * COUNT(rows)) * bytes;
    fill(&t);
    int step = test_step(4), at = (int)test_between(0, step - 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (tile_row_takes(rows[i].op, dtype))
            t.row[t.count++] = &rows[i];
        if (t.count == BATCH || (t.count && i + 1 == COUNT(rows))) {
            if (at++ % step == 0)
                try_rows(&t);
            t.count = 0;
        }
    }
    free(room);
}

TEST(rows_of_f32_are_near_the_interpreter) {
    try_dtype(ZL_FLOAT32);
}
TEST(rows_of_f16_are_near_the_interpreter) {
    try_dtype(ZL_FLOAT16);
}
TEST(rows_of_bf16_are_near_the_interpreter) {
    try_dtype(ZL_BFLOAT16);
}
TEST(rows_of_i32_are_those_of_the_interpreter) {
    try_dtype(ZL_INT32);
}

TEST(rows_of_narrow_integers_are_those_of_the_interpreter) {
    static const zl_dtype dtypes[] = {ZL_BOOL, ZL_UINT8, ZL_INT8, ZL_UINT16, ZL_INT16, ZL_UINT32};
    for (size_t i = 0; i < COUNT(dtypes); i++)
        try_dtype(dtypes[i]);
}

// Conversions -----------------------------------------------------------------------------------------------

static const zl_dtype converted[] = {ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16, ZL_INT32, ZL_UINT32,
                                     ZL_INT16,   ZL_UINT16,  ZL_INT8,     ZL_UINT8, ZL_BOOL};
enum { CONVERTED = COUNT(converted) };

static void write_conversions(struct text *out, zl_dtype to) {
    const char *type = tile_type_name(tile_type_of(to));
    text_add(out, "kernel conversions(");
    for (int i = 0; i < CONVERTED; i++)
        text_add(out, "%sx%d: %s[n]", i ? ", " : "", i, tile_type_name(tile_type_of(converted[i])));
    text_add(out, ") -> (y: %s[%d, n]) {\n  map i in n {\n", type, CONVERTED);
    for (int i = 0; i < CONVERTED; i++)
        text_add(out, "    y[%d, i] = %s(x%d[i])\n", i, type, i);
    text_add(out, "  }\n}\n");
}

// Converts every dtype to one. The bits are the same, except that integers are rounded to 16 bits once
// instead of twice, and numbers that the chip treats as zeros stay zeros.
static void convert_to(zl_dtype to) {
    enum { COLUMNS = 120 };
    static char x[CONVERTED][2][COLUMNS * 4], got[CONVERTED * COLUMNS * 4], want[2][CONVERTED * COLUMNS * 4];
    struct text text = {0};
    struct tile_type type = tile_type_of(to);
    int64_t n = COLUMNS, line[] = {COLUMNS}, table[] = {CONVERTED, COLUMNS}, stride[] = {COLUMNS, 1};
    zl_kernel_buffer buffer[CONVERTED + 1];
    void *argument[2][CONVERTED + 1];
    write_conversions(&text, to);
    for (int i = 0; i < CONVERTED; i++) {
        struct tile_type from = tile_type_of(converted[i]);
        bool is_whole = !tile_type_is_float(from);
        for (int k = 0; k < COLUMNS; k++) {
            store(from, x[i][0], k,
                  k < CORNERS ? (is_whole ? whole_corners : float_corners)[k] : random_number(k, is_whole));
            double kept = value_at(from, x[i][0], k);
            store(from, x[i][1], k, is_flushed(from, kept) ? copysign(0, kept) : kept);
        }
        buffer[i] = (zl_kernel_buffer){x[i][0], converted[i], 1, line, &stride[1]};
        argument[0][i] = x[i][0];
        argument[1][i] = x[i][1];
    }
    buffer[CONVERTED] = (zl_kernel_buffer){got, to, 2, table, stride};
    argument[0][CONVERTED] = want[0];
    argument[1][CONVERTED] = want[1];
    struct tile_kernel *tile = tile_parse(text.data, "conversions");
    zl_kernel k = zl_kernel_compile(text.data, "conversions", "bm1690");
    bool good = tile && k && zl_kernel_run(k, COUNT(buffer), buffer) &&
                tile_interpret(tile, argument[0], &n) && tile_interpret(tile, argument[1], &n);
    if (!CHECK(good))
        test_note("%s\n%s", zl_error() ? zl_error() : "?", text.data);
    for (int i = 0; good && i < CONVERTED * COLUMNS; i++) {
        double error = fmin(error_of(type, bits_at(type, got, i), bits_at(type, want[0], i)),
                            error_of(type, bits_at(type, got, i), bits_at(type, want[1], i)));
        struct tile_type from = tile_type_of(converted[i / COLUMNS]);
        if (!CHECK(error <= (type.bits == 16 && from.bits == 32 && !tile_type_is_float(from) ? 1 : 0)))
            test_note("%s(%s %.9g) is %.9g, not %.9g", tile_type_name(type), tile_type_name(from),
                      value_at(from, x[i / COLUMNS][0], i % COLUMNS), value_at(type, got, i),
                      value_at(type, want[0], i));
    }
    zl_clear_error();
    zl_kernel_release(k);
    tile_free(tile);
    text_free(&text);
}

TEST(conversions_are_those_of_the_interpreter) {
    int step = test_step(3);
    for (int i = (int)test_between(0, step - 1); i < CONVERTED; i += step)
        convert_to(converted[i]);
}

// Reductions ------------------------------------------------------------------------------------------------

// A NaN makes the maximum and the minimum NaN, along both axes, in scans, and if the result already holds it.
static void reduce_with_nan(zl_dtype dtype) {
    enum { ROWS = 70, COLUMNS = 300 };
    static const char form[] = "kernel most(x: %s[%d, %d]) -> (y: %s[%d, 2], z: %s[2, %d], s: %s[%d, %d]) {\n"
                               "  grid b in 1 {\n"
                               "    shared t: %s[%d, %d]\n"
                               "    fragment high: %s[%d]\n"
                               "    fragment low: %s[%d]\n"
                               "    fragment over: f32[%d]\n"
                               "    fragment under: %s[%d] = 1000\n"
                               "    copy x -> t\n"
                               "    reduce maximum t -> high axis 1\n"
                               "    reduce minimum t -> low axis 1\n"
                               "    reduce maximum t -> over axis 0\n"
                               "    reduce minimum t -> under axis 0 accumulate\n"
                               "    map i in %d { y[i, 0] = high[i] ; y[i, 1] = low[i] }\n"
                               "    map j in %d { z[0, j] = %s(over[j]) ; z[1, j] = under[j] }\n"
                               "    scan maximum t -> t axis 1\n"
                               "    copy t -> s\n"
                               "  }\n"
                               "}\n";
    static char x[ROWS * COLUMNS * 4], got[3][ROWS * COLUMNS * 4], want[3][ROWS * COLUMNS * 4];
    struct tile_type type = tile_type_of(dtype);
    const char *t = tile_type_name(type);
    int64_t dims[4][2] = {{ROWS, COLUMNS}, {ROWS, 2}, {2, COLUMNS}, {ROWS, COLUMNS}};
    char text[2000];
    zl_kernel_buffer buffer[4];
    snprintf(text, sizeof text, form, t, ROWS, COLUMNS, t, ROWS, t, COLUMNS, t, ROWS, COLUMNS, t, ROWS,
             COLUMNS, t, ROWS, t, ROWS, COLUMNS, t, COLUMNS, ROWS, COLUMNS, t);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double value = test_uniform(-100, 100);
        store(type, x, i, test_between(0, 299) ? value : test_between(0, 1) ? NAN : 0 * value);
    }
    for (int i = 0; i < 4; i++)
        buffer[i] = (zl_kernel_buffer){i ? got[i - 1] : x, dtype, 2, dims[i], NULL};
    struct tile_kernel *tile = tile_parse(text, "most");
    zl_kernel k = tile ? zl_kernel_compile(text, "most", "bm1690") : NULL;
    if (!CHECK(k && zl_kernel_run(k, 4, buffer) &&
               tile_interpret(tile, (void *[]){x, want[0], want[1], want[2]}, NULL)))
        test_note("%s", zl_error());
    for (int b = 0; k && b < 3; b++)
        for (int64_t i = 0; i < dims[b + 1][0] * dims[b + 1][1]; i++)
            if (!CHECK(error_of(type, bits_at(type, got[b], i), bits_at(type, want[b], i)) == 0)) {
                test_note("%s: result %d at %lld is %g, not %g", t, b, (long long)i,
                          value_at(type, got[b], i), value_at(type, want[b], i));
                break;
            }
    zl_kernel_release(k);
    tile_free(tile);
}

TEST(reductions_keep_a_nan) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16};
    for (size_t i = 0; i < COUNT(dtypes); i++)
        reduce_with_nan(dtypes[i]);
}
