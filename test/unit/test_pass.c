// test_pass.c - each pass: what it rewrites, and that it changes no bit of a kernel's results.

#include "test.h"

#include "device/tile_trial.h"

#include "pass/pass.h"
#include "render/render.h"

#include <math.h>
#include <string.h>

// Returns the kernel's text after the passes up to `last`, for a dialect; freed with memory_free.
static char *text_after(const char *source, const char *dialect, const char *last) {
    struct tile_kernel *kernel = tile_parse(source, "test");
    char *text = kernel && pass_run(kernel, render_target(dialect), last) ? tile_print(kernel) : NULL;
    tile_free(kernel);
    return text;
}

// Checks the value of map i in n { y[i] = <value> } after all passes up to `last`.
static void check_value(const char *types, const char *value, const char *last, const char *want) {
    struct text source = {0};
    text_add(&source, "kernel k(%s) {\n  map i in n {\n    y[i] = %s\n  }\n}\n", types, value);
    char *text = text_after(source.data, "c", last);
    const char *start = text ? strstr(text, "y[i] = ") : NULL;
    if (CHECK(start)) {
        char got[512] = {0};
        start += strlen("y[i] = ");
        memcpy(got, start, MIN_OF(strcspn(start, "\n"), sizeof got - 1));
        CHECK_STR(got, want);
    }
    memory_free(text);
    text_free(&source);
}

#define F32 "a: f32[n], b: f32[n]) -> (y: f32[n]"
#define I32 "a: i32[n], b: i32[n]) -> (y: i32[n]"

TEST(pass_simplify_keeps_signed_zeros) {
    check_value(F32, "a[i] + 0", "simplify", "a[i] + 0"); // -0 + 0 is 0
    check_value(F32, "a[i] + -0.0", "simplify", "a[i]");
    check_value(F32, "a[i] - 0", "simplify", "a[i]");
    check_value(F32, "a[i] * 1", "simplify", "a[i]");
    check_value(F32, "a[i] * 0", "simplify", "a[i] * 0"); // NaN, -0
    check_value(F32, "a[i] / 1", "simplify", "a[i]");
    check_value(F32, "a[i] - a[i]", "simplify", "a[i] - a[i]");
    check_value(F32, "--a[i]", "simplify", "a[i]");
    check_value(F32, "abs(-a[i])", "simplify", "abs(a[i])");
}

TEST(pass_simplify_folds) {
    check_value(I32, "a[i] + 0", "simplify", "a[i]");
    check_value(I32, "a[i] & -1", "simplify", "a[i]");
    check_value(I32, "a[i] | a[i]", "simplify", "a[i]");
    check_value(I32, "a[i] ^ 0", "simplify", "a[i]");
    check_value(I32, "a[i] << 0", "simplify", "a[i]");
    check_value(I32, "a[i] + (3 << 2) * 2", "simplify", "a[i] + 24");
    check_value(I32, "where(1 < 2, a[i], b[i])", "simplify", "a[i]");
    check_value(I32, "where(a[i] < 2, b[i], b[i])", "simplify", "b[i]");
    check_value(I32, "where(!(a[i] < 2), a[i], b[i])", "simplify", "where(a[i] < 2, b[i], a[i])");
    check_value(I32, "i32(i64(a[i]))", "simplify", "a[i]");
    check_value(I32, "i32(i16(a[i]))", "simplify", "i32(i16(a[i]))"); // an i32 does not fit into i16
    check_value(I32, "i32(f64(a[i]))", "simplify", "a[i]");
}

TEST(pass_lower_until_spelled) {
    check_value(F32, "square(a[i])", "lower", "a[i] * a[i]");
    check_value(F32, "reciprocal(a[i])", "lower", "1 / a[i]");
    check_value(I32, "remainder(a[i], b[i])", "lower",
                "a[i] - b[i] * where(b[i] == 0, 0, i32(i64(floor(f64(a[i]) / f64(b[i])))))");
}

TEST(pass_divide_by_powers_and_of_positive_numbers) {
    check_value(I32, "a[i] // 8", "divide", "a[i] >> 3");
    check_value(I32, "a[i] % 8", "divide", "a[i] & 7");
    check_value(I32, "a[i] // -8", "divide", "a[i] // -8");
    check_value(I32, "a[i] // b[i]", "divide", "a[i] // b[i]");
#define I64 "a: i64[n]) -> (y: i64[n]"
    check_value(I64, "i // 3", "divide", "i64(u64(i) // u64(3i64))");
    check_value(I64, "i % n", "divide", "i64(u64(i) % u64(n))");
    check_value(I64, "(i - 1) // 3", "divide", "(i - 1) // 3");
    check_value(I64, "i * 6364136223846793005 // 3", "divide",
                "i * 6364136223846793005 // 3");                                // wraps around
    check_value(I64, "i64(i32(i) * 5 // 3)", "divide", "i64(i32(i) * 5 // 3)"); // this wraps around too
    check_value(I64, "i % 7 // 9", "divide", "0");
    check_value(I64, "i % 7 % 9", "divide", "i64(u64(i) % u64(7i64))");
}

// Divisors that may be 0, numbers of either sign, and products that wrap around have the same bits after the
// pass.
TEST(pass_divide_keeps_every_bit) {
    static const char text[] =
        "kernel d<z, m>(a: i64[n], u: u32[n], s: i32[n]) -> (y: i64[n, 25], w: i64[6]) where m >= 1 {\n"
        "  map i in n {\n"
        "    y[i, 0] = i // 3\n    y[i, 1] = i % 3\n    y[i, 2] = (i - 5) // 3\n    y[i, 3] = (i - 5) % 3\n"
        "    y[i, 4] = (i - 5) // 4\n    y[i, 5] = (i - 5) % 4\n    y[i, 6] = a[i] // 8\n    y[i, 7] = a[i] "
        "% 8\n"
        "    y[i, 8] = i // z\n    y[i, 9] = i % z\n    y[i, 10] = a[i] // m\n    y[i, 11] = i // m % m\n"
        "    y[i, 12] = i * 6364136223846793005 // 7\n    y[i, 13] = i * 6364136223846793005 % 10\n"
        "    y[i, 14] = i64(u[i] // 10)\n    y[i, 15] = i64(u[i] * 2654435761 % 1000)\n"
        "    y[i, 16] = i64(s[i] // 16)\n    y[i, 17] = i64(s[i] % 16)\n"
        "    y[i, 18] = i64(i32(i) * 1000000007 // 3)\n    y[i, 19] = i % 7 // 9 + i % 7 % 9\n"
        "    y[i, 20] = a[i] // -4 + a[i] % -4\n    y[i, 21] = where(i < 3, i, 2) // 5\n"
        "    y[i, 22] = i64(u64(a[i]) // 9223372036854775809)\n    y[i, 23] = i64(u64(a[i]) % 5)\n"
        "    y[i, 24] = (n + i) // (i + 1) + i64(u32(i - 3) // 10)\n"
        "  }\n"
        "  for k in -5 step -1 { w[-k] = k // 3 }\n  w[5] = 0\n}\n";
    static const char *const dialects[] = {"c_tiles", "cuda_tiles", "opencl_tiles"};
    enum { N = 40 };
    int64_t a[N], want[N * 25 + 6], got[N * 25 + 6];
    uint32_t u[N];
    int32_t s[N];
    for (int i = 0; i < N; i++) {
        a[i] = i < 4 ? (int64_t[]){INT64_MIN, INT64_MAX, -1, 0}[i] : (int64_t)test_random();
        u[i] = i < 1 ? UINT32_MAX : (uint32_t)test_random();
        s[i] = i < 2 ? (int32_t[]){INT32_MIN, -1}[i] : (int32_t)test_random();
    }
    void *before[] = {a, u, s, want, want + N * 25}, *after[] = {a, u, s, got, got + N * 25};
    for (size_t k = 0; k < COUNT(dialects); k++)
        for (int64_t m = 1; m < 10; m += 8) {
            struct tile_kernel *kernel = tile_parse(text, "test");
            const int64_t symbols[] = {0, m, N};
            memset(want, 0, sizeof want);
            memset(got, 0, sizeof got);
            REQUIRE(kernel);
            CHECK(tile_interpret(kernel, before, symbols));
            CHECK(pass_run(kernel, render_target(dialects[k]), "divide") &&
                  tile_interpret(kernel, after, symbols));
            for (int i = 0; i < N * 25 + 6; i++)
                if (!CHECK_EQ_INT(got[i], want[i]))
                    test_note("%s: value %d of point %d", dialects[k], i % 25, i / 25);
            tile_free(kernel);
        }
}

TEST(pass_widen_rounds_once) {
    check_value("a: bf16[n]) -> (y: bf16[n]", "a[i] + a[i]", "widen", "bf16(f32(a[i]) + f32(a[i]))");
    check_value("a: f16[n]) -> (y: f16[n]", "a[i] + a[i]", "widen", "a[i] + a[i]"); // the target has this op
    check_value("a: f16[n]) -> (y: f16[n]", "square(a[i])", "widen", "a[i] * a[i]");
    check_value("a: bf16[n]) -> (y: bf16[n]", "-a[i]", "widen", "-a[i]");
}

TEST(pass_truth_of_bool) {
    static const char types[] = "a: bool[n], b: bool[n]) -> (y: bool[n]";
    check_value(types, "a[i] + b[i]", "booleans", "a[i] | b[i]");
    check_value(types, "a[i] * b[i]", "booleans", "a[i] & b[i]");
    check_value(types, "a[i] - b[i]", "booleans", "a[i] ^ b[i]");
    check_value(types, "a[i] < b[i]", "booleans", "!a[i] & b[i]");
    check_value(types, "-a[i]", "booleans", "a[i]");
    check_value(I32, "floor(a[i])", "booleans", "a[i]");
    check_value("a: u8[n]) -> (y: u8[n]", "abs(a[i])", "booleans", "a[i]");
}

TEST(pass_convert_step_by_step) {
    check_value("a: i8[n]) -> (y: i64[n]", "i64(a[i])", "convert", "i64(i32(i16(a[i])))");
    check_value("a: i64[n]) -> (y: i8[n]", "i8(a[i])", "convert", "i8(i16(i32(a[i])))");
    check_value("a: f64[n]) -> (y: bf16[n]", "bf16(a[i])", "convert", "bf16(f32(a[i]))");
    check_value("a: f32[n]) -> (y: bool[n]", "bool(a[i])", "convert", "a[i] != 0");
    check_value("a: bool[n]) -> (y: f32[n]", "f32(a[i])", "convert", "where(a[i], 1, 0)");
}

TEST(pass_vectorise_marks_rows) {
    static const char rows[] =
        "kernel k(a: f32[n], s: f32[1]) -> (y: f32[n]) {\n  map i in n { y[i] = a[i] * s[0] }\n}\n";
    static const char stride[] =
        "kernel k(a: f32[m]) -> (y: f32[n]) {\n  map i in n { y[i] = a[i * 2] }\n}\n";
    struct tile_kernel *kernel = tile_parse(rows, "rows");
    CHECK(kernel && pass_run(kernel, render_target("c"), NULL) && kernel->body->loop == TILE_VECTOR);
    tile_free(kernel);
    kernel = tile_parse(stride, "stride");
    CHECK(kernel && pass_run(kernel, render_target("c"), NULL) && kernel->body->loop != TILE_VECTOR);
    CHECK_ERROR(ZL_ERROR_COMPILE, tile_rendered(kernel, "c"));
    tile_free(kernel);
    kernel = tile_parse(rows, "scalar");
    CHECK(kernel && pass_run(kernel, render_target("c_scalar"), NULL) && kernel->body->loop != TILE_VECTOR);
    tile_free(kernel);
}

// For a target without any op, the error names the missing one.
TEST(pass_names_what_is_missing) {
    static const struct spelling nothing[TILE_OP_COUNT] = {{0}};
    static const struct target poor = {.name = "poor", .op = nothing};
    struct tile_kernel *kernel = tile_row_kernel(TILE_ADD, ZL_FLOAT32, "vv");
    CHECK_ERROR(ZL_ERROR_COMPILE, pass_run(kernel, &poor, NULL));
    CHECK_HAS(test_last_error(), "poor has no add of f32");
    tile_free(kernel);
    CHECK_ERROR(ZL_ERROR_VALUE, render_target("nothing"));
}

TEST(pass_names) {
    CHECK_STR(pass_name(0), "expand");
    CHECK_STR(pass_name(-1), NULL);
    int count = 0;
    while (pass_name(count))
        count++;
    CHECK_STR(pass_name(count - 1), "vectorise");
}

// Bits ------------------------------------------------------------------------------------------------------

enum { ELEMENTS = 24, ITEM = 8 };

// Computes the kernel's output for the given inputs.
static bool compute(const struct tile_kernel *kernel, char (*in)[ELEMENTS * ITEM], char *out) {
    void *buffers[4] = {in[0], in[1], in[2], in[3]};
    int64_t n = ELEMENTS;
    memset(out, 0, ELEMENTS * ITEM);
    buffers[kernel->parameters - 1] = out;
    return CHECK(tile_interpret(kernel, buffers, &n));
}

static void fill(char *data, struct tile_type type) {
    static const double some[] = {0, -0.0, 1, -1.5, 0.1, 300, -300, 1e-42, 1e30, INFINITY, 2.5, 7};
    static const struct tile_type f64 = {TILE_FLOAT, 64, 1};
    for (int i = 0; i < ELEMENTS; i++) {
        double v = some[test_between(0, (int)COUNT(some) - 1)];
        uint64_t bits = tile_bits_of(type, tile_convert(type, f64, (union tile_value){.f = v}));
        if (test_between(0, 3) == 0 && !tile_type_is_bool(type) && !tile_type_is_float(type))
            bits = test_random();
        memcpy(data + i * tile_type_bytes(type), &bits, (size_t)tile_type_bytes(type));
    }
}

// Checks that the kernel computes the same after each pass.
static void check_bits(struct tile_kernel *kernel, const struct target *target) {
    static char in[4][ELEMENTS * ITEM], want[ELEMENTS * ITEM], got[ELEMENTS * ITEM];
    for (int i = 0; i < kernel->parameters - 1; i++)
        fill(in[i], kernel->parameter[i].buffer->type);
    bool good = compute(kernel, in, want);
    for (int i = 0; pass_name(i) && good; i++) {
        good = CHECK(pass_run(kernel, target, pass_name(i))) && compute(kernel, in, got);
        if (good && !(good = CHECK(!memcmp(want, got, sizeof got))))
            test_note("%s after %s for %s", kernel->name, pass_name(i), target->name);
    }
}

TEST(passes_keep_every_bit) {
    for (int op = 0; tile_op_is_row((enum tile_op)op); op++)
        for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++) {
            static const char *const forms[] = {"", "v", "vv", "vvv"};
            if (!tile_row_takes((enum tile_op)op, (zl_dtype)dtype) || (test_quick() && test_between(0, 7)))
                continue;
            const char *dialect = render_dialect_name((int)test_between(0, 1));
            struct tile_kernel *kernel =
                tile_row_kernel((enum tile_op)op, (zl_dtype)dtype, forms[tile_op_arity((enum tile_op)op)]);
            if (CHECK(kernel))
                check_bits(kernel, render_target(dialect));
            tile_free(kernel);
        }
    for (int to = 0; to < ZL_DTYPE_COUNT; to++)
        for (int from = 0; from < ZL_DTYPE_COUNT; from++) {
            struct tile_kernel *kernel = to != from ? tile_cast_kernel((zl_dtype)to, (zl_dtype)from) : NULL;
            if (kernel)
                check_bits(kernel, render_target("c"));
            tile_free(kernel);
        }
}

// A kernel reports whether it needs doubles, in agreement with its text.
TEST(kernels_tell_the_dtypes_they_need) {
    static const char *const forms[] = {"", "v", "vv", "vvv"};
    int with = 0, without = 0;
    for (int op = 0; tile_op_is_row((enum tile_op)op); op++)
        for (zl_dtype dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++) {
            if (!tile_row_takes((enum tile_op)op, dtype))
                continue;
            struct tile_kernel *k =
                tile_row_kernel((enum tile_op)op, dtype, forms[tile_op_arity((enum tile_op)op)]);
            struct text text = {0};
            if (CHECK(k && pass_run(k, render_target("opencl_tiles"), NULL) &&
                      render_function(&text, k, "opencl_tiles", "f"))) {
                bool needs = pass_dtypes(k) & PASS_BIT(ZL_FLOAT64);
                CHECK_EQ_INT(needs, strstr(text.data, "f64") != NULL);
                CHECK(pass_dtypes(k) & PASS_BIT(dtype) || dtype == ZL_COMPLEX64 || dtype == ZL_BOOL);
                with += needs;
                without += !needs;
            }
            text_free(&text);
            tile_free(k);
        }
    CHECK(with > 20 && without > 100);
}
