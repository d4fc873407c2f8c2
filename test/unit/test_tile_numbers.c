// test_tile_numbers.c - results of tile IR ops: types, rounding, casts, and corner cases of arithmetic.

#include "test.h"

#include "tile/tile.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct tile_type type_named(const char *name) {
    struct tile_type type = {0};
    CHECK(tile_type_find(name, &type));
    return type;
}

TEST(tile_types_have_names) {
    for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
        for (int lanes = 1; lanes <= 128; lanes *= 2) {
            struct tile_type type = tile_type_of((zl_dtype)dtype), found;
            type.lanes = (uint16_t)lanes;
            CHECK(tile_type_find(tile_type_name(type), &found) && tile_type_equal(type, found));
            CHECK_EQ_INT(tile_dtype_of(type), lanes == 1 ? dtype : ZL_DTYPE_COUNT);
        }
    CHECK_STR(tile_type_name((struct tile_type){TILE_FLOAT, 32, 3}), "?");
    CHECK_STR(tile_type_name((struct tile_type){TILE_BFLOAT, 16, 4}), "bf16x4");
    CHECK_EQ_INT(tile_type_bytes(type_named("boolx8")), 8);
    CHECK_EQ_INT(tile_type_bytes(type_named("c64")), 8);
}

TEST(tile_ops_are_found_by_name) {
    for (int op = 0; op < TILE_OP_COUNT; op++)
        CHECK_EQ_INT(tile_op_find(tile_op_name((enum tile_op)op)), op);
    CHECK_EQ_INT(tile_op_find("max"), TILE_MAX);
    CHECK_EQ_INT(tile_op_find("select"), TILE_SELECT);
    CHECK_EQ_INT(tile_op_find("nothing"), TILE_OP_COUNT);
}

// Rounding --------------------------------------------------------------------------------------------------

static void check_bits_of_half(struct tile_type type) {
    int wrong = 0;
    for (uint64_t bits = 0; bits < 65536; bits++)
        wrong += tile_bits_of(type, tile_value_of(type, bits)) != bits;
    CHECK_EQ_INT(wrong, 0);
}

TEST(tile_half_bits_survive) {
    check_bits_of_half(type_named("f16"));
    check_bits_of_half(type_named("bf16"));
}

// Every number of a small type is converted back to its code; others are rounded to the nearest, ties to
// even, and saturate.
TEST(tile_small_numbers) {
    static const struct {
        const char *name;
        double one, smallest, largest; // the code of 1; then numbers
    } types[] = {{"e4m3", 0x38, 0x1p-9, 448},
                 {"e5m2", 0x3c, 0x1p-16, 57344},
                 {"e4m3fnuz", 0x40, 0x1p-10, 240},
                 {"e5m2fnuz", 0x40, 0x1p-17, 57344},
                 {"e2m1", 2, 0.5, 6}};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct tile_type type = type_named(types[i].name);
        int wrong = 0;
        for (uint64_t code = 0; code < 1u << type.bits; code++) {
            double value = tile_small_value(type, code);
            wrong += isfinite(value) && tile_small_bits(type, value) != code;
        }
        CHECK_EQ_INT(wrong, 0);
        CHECK_EQ_F64(tile_small_value(type, (uint64_t)types[i].one), 1);
        CHECK_EQ_F64(tile_small_value(type, 1), types[i].smallest);
        CHECK_EQ_F64(tile_round(type, 1e30), types[i].largest);
        CHECK_EQ_F64(tile_round(type, -INFINITY), -types[i].largest);
        CHECK_EQ_F64(tile_round(type, types[i].smallest / 2), 0);
        CHECK_EQ_F64(tile_round(type, types[i].smallest * 1.5), 2 * types[i].smallest);
        CHECK(tile_type_is_small(type) && tile_array_dtype(type) == ZL_UINT8 &&
              tile_dtype_of(type) == ZL_DTYPE_COUNT);
    }
    CHECK(isnan(tile_small_value(type_named("e4m3"), 0xff)) &&
          isnan(tile_small_value(type_named("e5m2fnuz"), 0x80)));
    CHECK_EQ_F64(tile_small_value(type_named("e5m2"), 0xfc), -INFINITY);
    CHECK_EQ_F64(tile_small_value(type_named("e8m0"), 0), 0x1p-127);
    CHECK_EQ_INT((int)tile_small_bits(type_named("e8m0"), 7.9), 129);
}

// Checks that rounding gives the nearest number of the type, ties to even. For positive finite numbers only.
static void check_rounding(struct tile_type type, double x) {
    double y = tile_round(type, x);
    uint64_t bits = tile_bits_of(type, (union tile_value){.f = y});
    double below = tile_value_of(type, bits - (bits > 0)).f, above = tile_value_of(type, bits + 1).f;
    bool is_nearest = fabs(x - y) <= fabs(x - below) && fabs(x - y) <= fabs(x - above);
    bool is_tie = (fabs(x - y) == fabs(x - below) && below != y) || fabs(x - y) == fabs(x - above);
    if (!CHECK(is_nearest && (!is_tie || bits % 2 == 0)))
        test_note("%a became %a as %s", x, y, tile_type_name(type));
}

TEST(tile_rounds_halves_to_nearest_even) {
    struct tile_type f16 = type_named("f16"), bf16 = type_named("bf16");
    for (int i = 0; i < 20000; i++) {
        float x = ldexpf((float)test_between(1, 1 << 13), (int)test_between(-40, 2));
        check_rounding(f16, x);
        check_rounding(bf16, x);
    }
    CHECK_EQ_F64(tile_round(f16, 65519), 65504);
    CHECK_EQ_F64(tile_round(f16, 65520), INFINITY);
    CHECK_EQ_F64(tile_round(bf16, 0x1.ffp127), INFINITY);
    CHECK_SAME_F64(tile_round(f16, -1e-9), -0.0);
}

// Expressions with known values -----------------------------------------------------------------------------

// Returns the bits of an expression in the text form, of that type.
static uint64_t compute(const char *type_name, const char *expression) {
    char text[512];
    uint64_t bits = 0;
    snprintf(text, sizeof text, "kernel k() -> (y: %s[1]) { y[0] = %s }", type_name, expression);
    struct tile_kernel *kernel = tile_parse(text, "test");
    if (!CHECK(kernel && tile_interpret(kernel, (void *[]){&bits}, NULL)))
        test_note("%s", zl_error() ? zl_error() : text);
    zl_clear_error();
    tile_free(kernel);
    return bits;
}

static void check_value(const char *type_name, const char *expression, const char *expected) {
    uint64_t got = compute(type_name, expression), want = compute(type_name, expected);
    struct tile_type type = type_named(type_name);
    bool both_nan =
        tile_type_is_float(type) && isnan(tile_value_of(type, got).f) && isnan(tile_value_of(type, want).f);
    if (!CHECK(got == want || both_nan))
        test_note("%s: %s gives bits 0x%llx, not %s", type_name, expression, (unsigned long long)got,
                  expected);
}

struct fact {
    const char *type, *expression, *value;
};

static void check_facts(const struct fact *fact, int count) {
    for (int i = 0; i < count; i++)
        check_value(fact[i].type, fact[i].expression, fact[i].value);
}

TEST(tile_integers_wrap) {
    static const struct fact facts[] = {
        {"i8", "127 + 1", "-128"},
        {"u8", "3 - 5", "254"},
        {"i16", "300 * 300", "24464"},
        {"i8", "abs(-128)", "-128"},
        {"i8", "negative(-128)", "-128"},
        {"u8", "negative(1)", "255"},
        {"i64", "-9223372036854775808 - 1", "9223372036854775807"},
        {"u64", "18446744073709551615 + 2", "1"},
        {"i32", "square(65536)", "0"},
        {"u16", "!0", "65535"},
        {"i8", "sign(-3)", "-1"},
        {"u8", "sign(7)", "1"},
        {"u8", "sign(0)", "0"},
        {"i8", "floor(-3)", "-3"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_integers_divide_down) {
    static const struct fact facts[] = {
        {"i32", "7 // 2", "3"},
        {"i32", "-7 // 2", "-4"},
        {"i32", "7 // -2", "-4"},
        {"i32", "-7 // -2", "3"},
        {"i32", "7 % 3", "1"},
        {"i32", "-7 % 3", "2"},
        {"i32", "7 % -3", "-2"},
        {"i32", "-7 % -3", "-1"},
        {"i32", "7 // 0", "0"},
        {"i32", "7 % 0", "7"},
        {"u8", "200 // 0", "0"},
        {"u8", "200 % 0", "200"},
        {"u8", "200 // 3", "66"},
        {"u8", "200 % 7", "4"},
        {"i8", "-128 // -1", "-128"},
        {"i8", "-128 % -1", "0"},
        {"i64", "-9223372036854775808 // -1", "-9223372036854775808"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_shifts_past_the_width) {
    static const struct fact facts[] = {
        {"i32", "1 << 31", "-2147483648"},
        {"i32", "1 << 32", "0"},
        {"i32", "1 << -1", "0"},
        {"u8", "255 >> 8", "0"},
        {"i32", "-8 >> 1", "-4"},
        {"i32", "-8 >> 40", "-1"},
        {"i32", "-8 >> -1", "-1"},
        {"i32", "8 >> 99", "0"},
        {"u64", "1 << 63", "0x8000000000000000"},
        {"u64", "1 << 64", "0"},
        {"i64", "-1 >> 64", "-1"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_bool_arithmetic) {
    static const struct fact facts[] = {
        {"bool", "true + true", "true"},         {"bool", "true - true", "false"},
        {"bool", "true * false", "false"},       {"bool", "false - true", "true"},
        {"bool", "max(true, false)", "true"},    {"bool", "min(true, false)", "false"},
        {"bool", "false < true", "true"},        {"bool", "!true", "false"},
        {"bool", "negative(true)", "true"},      {"bool", "power(false, false)", "true"},
        {"bool", "power(false, true)", "false"}, {"bool", "true << true", "false"},
        {"bool", "true // false", "false"},      {"bool", "true % false", "true"},
        {"bool", "true % true", "false"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_casts) {
    static const struct fact facts[] = {
        {"i8", "i8(300.7f32)", "127"},
        {"i8", "i8(-300.7f32)", "-128"},
        {"i8", "i8(-3.9f32)", "-3"},
        {"i8", "i8(nan_f32)", "0"},
        {"u8", "u8(-1.5f32)", "0"},
        {"u64", "u64(inf_f64)", "18446744073709551615"},
        {"i64", "i64(-inf_f32)", "-9223372036854775808"},
        {"i64", "i64(9223372036854775808f64)", "9223372036854775807"},
        {"i8", "i8(300i32)", "44"},
        {"u8", "u8(-1i32)", "255"},
        {"i32", "i32(4294967295u32)", "-1"},
        {"bool", "bool(0.5f32)", "true"},
        {"bool", "bool(-0f32)", "false"},
        {"bool", "bool(nan_f32)", "true"},
        {"bool", "bool(256i32)", "true"},
        {"bool", "bool(c64(0, 1))", "true"},
        {"f32", "f32(true)", "1"},
        {"f32", "f32(c64(2, 3))", "2"},
        {"c64", "c64(3i32)", "c64(3, 0)"},
        {"f32", "f32(16777217i32)", "16777216"},
        {"f32", "f32(0xffffff8000000001u64)", "0x1p64"},
        {"f16", "f16(70000i32)", "inf"},
        {"f64", "f64(0.1f32)", "0x1.99999ap-4"},
        {"f16", "f16(1.00048828125f64)", "1"},
        {"f32", "bits<f32>(0x3f800000u32)", "1"},
        {"i32", "bits<i32>(-0f32)", "-2147483648"},
        {"u16", "bits<u16>(1bf16)", "0x3f80"},
        {"u64", "bits<u64>(c64(1, 2))", "0x400000003f800000"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_floats) {
    static const struct fact facts[] = {
        {"f32", "0.1 + 0.2", "0x1.333334p-2"},
        {"f16", "2048 + 1", "2048"},
        {"f16", "2048 + 3", "2052"},
        {"bf16", "256 + 1", "256"},
        {"f32", "16777216 + 1", "16777216"},
        {"f32", "1 / 3", "0x1.555556p-2"},
        {"f32", "max(nan, 1)", "nan"},
        {"f32", "max(1, nan)", "nan"},
        {"f32", "min(nan, 1)", "nan"},
        {"f32", "max(-0.0, 0.0)", "0.0"},
        {"f32", "max(0.0, -0.0)", "0.0"},
        {"f32", "min(0.0, -0.0)", "-0.0"},
        {"f32", "min(-0.0, 0.0)", "-0.0"},
        {"f32", "rint(2.5)", "2"},
        {"f32", "rint(-0.5)", "-0.0"},
        {"f32", "trunc(-2.5)", "-2"},
        {"f32", "sqrt(2)", "0x1.6a09e6p0"},
        {"f32", "fma(0x1.000002p0, 0x1.000002p0, -1)", "0x1.000001p-22"},
        {"f32", "sign(-0.0)", "0.0"},
        {"f32", "sign(nan)", "nan"},
        {"f32", "sign(-3)", "-1"},
        {"f64", "0.1 + 0.2", "0x1.3333333333334p-2"},
        {"bool", "nan_f32 == nan", "false"},
        {"bool", "nan_f32 != nan", "true"},
        {"bool", "nan_f32 <= 1", "false"},
        {"f32", "imag(3f32)", "0"},
        {"f32", "real(3f32)", "3"},
        {"f32", "reciprocal(4)", "0.25"},
        {"f32", "conjugate(-3)", "-3"},
        {"bool", "2f32 > 1", "true"},
        {"f32", "where(true, 1, 2)", "1"},
        {"f32", "rare(false, 1, 2)", "2"},
        {"bool", "1f16 >= 2", "false"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_float_remainder) {
    static const struct fact facts[] = {
        {"f32", "7 % 3", "1"},
        {"f32", "-7 % 3", "2"},
        {"f32", "7 % -3", "-2"},
        {"f32", "-7 % -3", "-1"},
        {"f32", "5 % inf", "5"},
        {"f32", "-5 % inf", "inf"},
        {"f32", "5 % -inf", "-inf"},
        {"f32", "inf % 3", "nan"},
        {"f32", "5 % 0", "nan"},
        {"f32", "inf % inf", "nan"},
        {"f32", "nan % 3", "nan"},
        {"f32", "-7.5 // 2", "-4"},
        {"f32", "5.5 // -inf", "-0.0"},
        {"f64", "-7.25 % 2", "0.75"},
        {"f16", "-7 % 3", "2"},
        {"bf16", "7.5 // 2", "3"},
        {"f32", "7.5 % 0.1", "0x1.99997cp-4"},
        {"f32", "0 % 5", "0"},
        {"f32", "-0.0 % 5", "0"},
        {"f32", "6 % -3", "-0.0"},
        {"f32", "0 % -inf", "-0.0"},
        {"f32", "1e9 % 7", "6"},
        {"f32", "-1e9 % 7", "1"},
        {"f32", "1 % 1e-40", "0x1.78ep-137"},
        {"f32", "3e38 % 0x1p-149", "0"},
        {"f32", "-3e38 % 2e38", "0x1.2ced3p+126"},
        {"f32", "-0x1p-149 % 7", "7"},
        {"f32", "0x1p127 % 0x1.8p-148", "0x1p-149"},
        {"f64", "1e18 % 7", "1"},
        {"f64", "0x1p1023 % 0x1.8p-1073", "0x1p-1073"},
        {"f16", "65504 % 0x1.8p-23", "0x1p-23"},
        {"bf16", "0x1.fep127 % 7", "3"},
        {"f32", "quotient(1, 0.1)", "9"},
        {"f32", "quotient(-1, inf)", "-1"},
        {"f32", "quotient(inf, 2)", "nan"},
        {"f32", "quotient(-5, 0)", "-inf"},
        {"f32", "quotient(1, -3)", "-1"},
        {"f32", "quotient(-0.0, 3)", "-0.0"},
        {"f32", "quotient(-3e38, 2e38)", "-2"},
        {"f32", "quotient(0x1.fffffep127, 0x1p-149)", "inf"},
        {"f64", "quotient(1e18, 7)", "142857142857142857"},
        {"f16", "quotient(-7.5, 2)", "-4"},
    };
    check_facts(facts, COUNT(facts));
}

// Compares with fmod, which is exact too.
static void check_remainder(const char *type, int range) {
    tile_begin("remainder");
    struct tile_type t = type_named(type);
    expr a = tile_name_value(tile_name("a", t), TILE_LOCAL),
         b = tile_name_value(tile_name("b", t), TILE_LOCAL);
    expr r = tile_binary(TILE_REM, a, b);
    struct tile_kernel *kernel = tile_end();
    REQUIRE(kernel);
    for (int i = 0; i < 600; i++) {
        double x = ldexp(test_uniform(-1, 1), i % 2 ? test_between(-range, range - 25) : 14);
        double y = ldexp(test_uniform(0.01, 1), i % 3 ? test_between(-range, range - 25) : 3);
        x = t.bits == 32 ? (float)x : x, y = t.bits == 32 ? (float)y : y;
        union tile_value leaf[8];
        leaf[a->id].f = x;
        leaf[b->id].f = y;
        double want = fmod(x, y);
        want += want < 0 ? y : 0;
        CHECK_EQ_F64(tile_evaluate(r, leaf).f, t.bits == 32 ? (float)want : want);
    }
    tile_free(kernel);
}

TEST(tile_float_remainder_is_exact) {
    check_remainder("f32", 148);
    check_remainder("f64", 1073);
}

// Powers ----------------------------------------------------------------------------------------------------

TEST(tile_integer_power) {
    static const struct fact facts[] = {
        {"i32", "power(3, 13)", "1594323"},
        {"i32", "power(-2, 31)", "-2147483648"},
        {"i8", "power(3, 100)", "-47"},
        {"u8", "power(3, 255)", "171"},
        {"i32", "power(0, 0)", "1"},
        {"i32", "power(5, -1)", "0"},
        {"i32", "power(1, -5)", "0"},
        {"i32", "power(-1, -5)", "0"},
        {"i32", "power(-1, -4)", "0"},
        {"i32", "power(0, -1)", "0"},
        {"u64", "power(7, 0x8000000000000001)", "7"},
    };
    check_facts(facts, COUNT(facts));
}

// Complex ---------------------------------------------------------------------------------------------------

TEST(tile_complex_corners) {
    static const struct fact facts[] = {
        {"c64", "c64(1, 2) * c64(3, 4)", "c64(-5, 10)"},
        {"c64", "c64(1, 2) + c64(3, 4)", "c64(4, 6)"},
        {"c64", "c64(-5, 10) / c64(3, 4)", "c64(1, 2)"},
        {"c64", "-c64(1, -2)", "c64(-1, 2)"},
        {"c64", "conjugate(c64(1, 2))", "c64(1, -2)"},
        {"bool", "c64(1, 2) < c64(1, 3)", "true"},
        {"bool", "c64(2, 0) <= c64(1, 9)", "false"},
        {"bool", "c64(1, 2) > c64(1, 2)", "false"},
        {"bool", "c64(1, 2) >= c64(1, 2)", "true"},
        {"bool", "c64(1, 2) == c64(1, 2)", "true"},
        {"bool", "c64(1, 2) != c64(1, 3)", "true"},
        {"c64", "max(c64(1, 2), c64(1, 3))", "c64(1, 3)"},
        {"c64", "min(c64(1, 2), c64(0, 3))", "c64(0, 3)"},
        {"c64", "c64(1, 1) / c64(inf, 0)", "c64(0, 0)"},
        {"c64", "c64(0x1p120, 0) / c64(0x1p120, 0)", "c64(1, 0)"},
        {"c64", "c64(0x1p-120, 0) / c64(0x1p-120, 0)", "c64(1, 0)"},
        {"f32", "real(c64(1, 1) / c64(0, 0))", "inf"},
        {"f32", "abs(c64(3, 4))", "5"},
        {"f32", "imag(c64(3, 4))", "4"},
        {"f32", "re(c64(3, 4)) + im(c64(3, 4))", "7"},
        {"c64", "square(c64(1, 2))", "c64(-3, 4)"},
        {"c64", "sign(c64(3, 4))", "c64(0.6, 0.8)"},
        {"c64", "sign(c64(0, 0))", "c64(0, 0)"},
        {"c64", "power(c64(0, 0), c64(0, 0))", "c64(1, 0)"},
        {"c64", "max(c64(nan, 1), c64(2, 2))", "c64(nan, 1)"},
        {"c64", "where(false, c64(1, 2), pair(5, 6))", "c64(5, 6)"},
    };
    check_facts(facts, COUNT(facts));
}

TEST(tile_complex_division_is_close) {
    struct tile_type c64 = type_named("c64");
    tile_begin("divide");
    expr a = tile_name_value(tile_name("a", c64), TILE_LOCAL),
         b = tile_name_value(tile_name("b", c64), TILE_LOCAL);
    expr quotient = tile_binary(TILE_DIV, a, b);
    struct tile_kernel *kernel = tile_end();
    REQUIRE(kernel);
    for (int i = 0; i < 200; i++) {
        union tile_value leaf[8];
        leaf[a->id].c.re = (float)test_uniform(-9, 9), leaf[a->id].c.im = (float)test_uniform(-9, 9);
        leaf[b->id].c.re = (float)test_uniform(-9, 9), leaf[b->id].c.im = (float)test_uniform(-9, 9);
        double complex x = leaf[a->id].c.re + leaf[a->id].c.im * I,
                       y = leaf[b->id].c.re + leaf[b->id].c.im * I;
        union tile_value q = tile_evaluate(quotient, leaf);
        CHECK_NEAR(q.c.re, creal(x / y), cabs(x / y) * 1e-6);
        CHECK_NEAR(q.c.im, cimag(x / y), cabs(x / y) * 1e-6);
    }
    tile_free(kernel);
}

// Formulas that give an op by others ------------------------------------------------------------------------

struct formula {
    struct tile_kernel *kernel;
    expr x[3], result;
};

static struct formula open_formula(tile_formula *build, const char *type) {
    static const char *const name[] = {"a", "b", "c"};
    struct formula f = {0};
    tile_begin("formula");
    for (int i = 0; i < 3; i++)
        f.x[i] = tile_name_value(tile_name(name[i], type_named(type)), TILE_LOCAL);
    f.result = build(f.x);
    f.kernel = tile_end();
    return f;
}

static union tile_value value_of(const struct formula *f, const union tile_value *x) {
    union tile_value leaf[3];
    for (int i = 0; i < 3; i++)
        leaf[f->x[i]->id] = x[i];
    return tile_evaluate(f->result, leaf);
}

static double some_number(bool is_wide) {
    double x = ldexp(test_uniform(-1, 1), (int)test_between(-30, 30));
    return is_wide ? x : (double)(float)x;
}

TEST(tile_fma_by_others_is_exact) {
    const struct {
        tile_formula *build;
        const char *type;
    } ways[] = {{tile_fma_in_f64, "f32"}, {tile_fma_in_parts, "f32"}, {tile_fma_in_parts, "f64"}};
    for (size_t way = 0; way < COUNT(ways); way++) {
        bool is_wide = !strcmp(ways[way].type, "f64");
        struct formula f = open_formula(ways[way].build, ways[way].type);
        REQUIRE(f.kernel);
        for (int i = 0; i < 2000; i++) {
            double a = some_number(is_wide), b = some_number(is_wide), c = some_number(is_wide);
            if (i % 3 == 0) // the sum nearly cancels
                c = is_wide ? -a * b : (double)(float)(-a * b);
            double want = is_wide ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
            CHECK_EQ_F64(value_of(&f, (union tile_value[]){{.f = a}, {.f = b}, {.f = c}}).f, want);
        }
        tile_free(f.kernel);
    }
}

TEST(tile_quotient_by_fma_is_exact) {
    struct formula f = open_formula(tile_quotient, "f32");
    REQUIRE(f.kernel);
    for (int i = 0; i < 2000; i++) {
        float a = float_of_bits((uint32_t)test_random()), b = float_of_bits((uint32_t)test_random());
        double got = value_of(&f, (union tile_value[]){{.f = (double)a}, {.f = (double)b}, {0}}).f;
        float want = a / b;
        CHECK(isnan(want) ? isnan(got) : (double)want == got);
    }
    tile_free(f.kernel);
}

TEST(tile_halves_by_words) {
    struct formula from = open_formula(tile_from_half, "u32"), to = open_formula(tile_to_half, "f32"),
                   brain = open_formula(tile_to_brain, "f32");
    REQUIRE(from.kernel && to.kernel && brain.kernel);
    for (int i = 0; i < 1 << 16; i += test_quick() ? 7 : 1) {
        float x = float_of_bits((uint32_t)test_random());
        float whole = half_to_float((uint16_t)i),
              got = (float)value_of(&from, (union tile_value[]){{.i = i}, {0}, {0}}).f;
        CHECK(isnan(whole) ? isnan(got) : bits_of_float(whole) == bits_of_float(got));
        union tile_value near[] = {{.f = i % 2 ? (double)x : (double)whole * 1.0002}, {0}, {0}};
        float y = (float)(near[0].f = (double)(float)near[0].f);
        if (isnan(y)) // the host need not keep the bits of a NaN
            continue;
        CHECK_EQ_INT(value_of(&to, near).i, half_from_float(y));
        CHECK_EQ_INT(value_of(&brain, near).i, bfloat_from_float(y));
    }
    tile_free(from.kernel);
    tile_free(to.kernel);
    tile_free(brain.kernel);
}
