// test_tile_text.c - the text form of tile kernels: canonical printing, reading back, errors that point, and fuzzing.

#include "test.h"

#include "base/base.h"
#include "tile/tile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Parses text and prints the kernel; "" after a failed check. The caller frees it.
static char *reprint(const char *text) {
    struct tile_kernel *kernel = tile_parse(text, "test.tile");
    char *printed = kernel ? tile_print(kernel) : NULL;
    if (!CHECK(printed))
        test_note("%s", zl_error() ? zl_error() : "no error");
    zl_clear_error();
    tile_free(kernel);
    return printed ? printed : memory_copy_text("");
}

static void check_prints(const char *text, const char *expected) {
    char *printed = reprint(text);
    CHECK_STR(printed, expected);
    memory_free(printed);
}

// What is printed is read as the same.
static void check_canonical(const char *text) {
    char *once = reprint(text), *twice = reprint(once);
    CHECK_STR(twice, once);
    memory_free(once);
    memory_free(twice);
}

// Prints just the one statement `y[0] = ...` of a kernel around an expression.
static void check_expression(const char *type, const char *expression, const char *expected) {
    char text[512], wanted[512];
    const char *frame = "kernel k(a: %s[n]) -> (y: %s[n]) {\n  y[0] = %s\n}\n";
    snprintf(text, sizeof text, frame, type, type, expression);
    snprintf(wanted, sizeof wanted, frame, type, type, expected);
    check_prints(text, wanted);
}

TEST(tile_prints_as_few_parentheses_as_possible) {
    check_expression("f32", "(a[0] + a[1]) + a[2]", "a[0] + a[1] + a[2]");
    check_expression("f32", "a[0] + (a[1] + a[2])", "a[0] + (a[1] + a[2])");
    check_expression("f32", "a[0] - (a[1] * (a[2] - 1))", "a[0] - a[1] * (a[2] - 1)");
    check_expression("i32", "(a[0] & 3) << (a[1] + 1)", "(a[0] & 3) << a[1] + 1");
    check_expression("bool", "a[0] & (a[1] | a[2])", "a[0] & (a[1] | a[2])");
    check_expression("bool", "!(a[0] == a[1])", "!(a[0] == a[1])");
    check_expression("f32", "-(-a[0])", "--a[0]");
    check_expression("f32", "-(a[0] * 2)", "-(a[0] * 2)");
    check_expression("f32", "negative(2)", "negative(2)");
    check_expression("i64", "a[ceildiv(n, 4) % 2]", "a[(n + 3) // 4 % 2]");
    check_expression("f32", "maximum(a[0], exp(a[1]))", "maximum(a[0], exp(a[1]))");
}

TEST(tile_numbers_take_the_type_beside_them) {
    check_expression("f16", "where(a[0] < 1, 2, a[1])", "where(a[0] < 1, 2, a[1])");
    check_expression("bool", "1.5 < 2", "1.5f32 < 2f32");
    check_expression("bool", "1 < 2u8", "1u8 < 2u8");
    check_expression("i8", "i8(1.5f64) + i8(3)", "i8(1.5f64) + i8(3i64)");
    check_expression("f32", "f32(a[n - 1] == -inf) - 0x10", "f32(a[n - 1] == -inf) - 16");
    check_expression("c64", "a[0] * 2 + c64(-0.0, nan)", "a[0] * c64(2, 0) + c64(-0, nan)");
    check_expression("f64", "0.1 + 1e300 - inf", "0.1 + 1e+300 - inf");
}

TEST(tile_numbers_print_exactly) {
    static const char *const types[] = {"f16", "bf16", "f32", "f64"};
    for (size_t t = 0; t < COUNT(types); t++)
        for (int i = 0; i < 300; i++) {
            struct tile_type type;
            REQUIRE(tile_type_find(types[t], &type));
            tile_begin("number");
            expr one = tile_const_int(tile_index_type(), 1), zero = tile_const_int(tile_index_type(), 0);
            struct tile_buffer *y = tile_parameter_buffer("y", type, 1, &one, true);
            expr value = tile_const_bits(type, test_random());
            tile_store(y, 1, &zero, value, NULL);
            struct tile_kernel *kernel = tile_end();
            REQUIRE(kernel);
            char *text = tile_print(kernel);
            struct tile_kernel *again = tile_parse(text, "test.tile");
            if (!CHECK(again && again->body->value->bits == kernel->body->value->bits))
                test_note("%s", text);
            memory_free(text);
            tile_free(kernel);
            tile_free(again);
        }
}

TEST(tile_names_stay_apart) {
    check_prints(
        "kernel k(a: f32[n]) -> (y: f32[n]) { map i in n { let t = a[i]; for i in 3 { y[i] = t } } }",
        "kernel k(a: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    for i_1 in 3 {\n      y[i_1] = a[i]\n    "
        "}\n  }\n}\n");
    check_prints(
        "kernel k() -> (y: f32[n]) { for i in n { x = 1.5; y[i] = x }; for i in n { x = 2.5; y[i] = x } }",
        "kernel k() -> (y: f32[n]) {\n  for i in n {\n    x: f32 = 1.5\n    y[i] = x\n  }\n"
        "  for i in n {\n    x: f32 = 2.5\n    y[i] = x\n  }\n}\n");
}

// A name that is a word of the language can only come from the builder.
TEST(tile_prints_names_that_are_words) {
    tile_begin("k");
    expr n = tile_name_value(tile_symbol("step", 0, INT64_MAX, 1), TILE_SYMBOL);
    struct tile_buffer *y = tile_parameter_buffer("f32", tile_type_of(ZL_INT64), 1, &n, true);
    const struct tile_name *i = tile_index("in", n);
    expr at = tile_name_value(i, TILE_INDEX);
    tile_open_map(1, &i, &n);
    tile_store(y, 1, &at, at, NULL);
    tile_close();
    struct tile_kernel *kernel = tile_end();
    REQUIRE(kernel);
    char *text = tile_print(kernel);
    CHECK_STR(
        text,
        "kernel k() -> (f32_1: i64[step_1]) {\n  map in_1 in step_1 {\n    f32_1[in_1] = in_1\n  }\n}\n");
    check_canonical(text);
    memory_free(text);
    tile_free(kernel);
}

TEST(tile_shared_expressions_print_once) {
    check_prints(
        "kernel k(a: f32[n]) -> (y: f32[n]) { let u = a[0] * a[1] + 2; y[0] = u * u - u }",
        "kernel k(a: f32[n]) -> (y: f32[n]) {\n  let t0 = a[0] * a[1] + 2\n  y[0] = t0 * t0 - t0\n}\n");
    // Forty doublings: a tree of 2^40 nodes, a text of forty lines.
    struct text text = {0};
    text_add(&text, "kernel k(a: f32[n]) -> (y: f32[n]) { let x0 = a[0] * 3 + 1 ");
    for (int i = 1; i <= 40; i++)
        text_add(&text, "let x%d = x%d + x%d ", i, i - 1, i - 1);
    text_add(&text, "y[0] = x40 }");
    check_canonical(text.data);
    text_free(&text);
}

TEST(tile_symbols_keep_their_order) {
    check_prints("kernel k<m, n, q>(a: f32[n, m]) -> (y: f32[n]) { }",
                 "kernel k<m, n, q>(a: f32[n, m]) -> (y: f32[n]) {\n}\n");
    check_prints("kernel k<n, m>(a: f32[n, m]) -> (y: f32[n]) { }",
                 "kernel k(a: f32[n, m]) -> (y: f32[n]) {\n}\n");
}

// Documentation -----------------------------------------------------------------------------------------------------

// Calls visit with each ```tile block of doc/tile.md.
static int each_example(void (*visit)(const char *text)) {
    char *doc = file_read(ZL_TEST_DIR "/../doc/tile.md", NULL), *at = doc;
    int count = 0;
    if (!CHECK(doc))
        return 0;
    while ((at = strstr(at, "```tile\n"))) {
        char *begin = at + 8, *end = strstr(begin, "```");
        if (!CHECK(end))
            break;
        *end = '\0';
        visit(begin);
        count++;
        at = end + 1;
    }
    memory_free(doc);
    return count;
}

TEST(tile_examples_of_the_documentation) {
    CHECK(each_example(check_canonical) >= 9);
}

// Errors ------------------------------------------------------------------------------------------------------------

static void check_message(const char *text, const char *part) {
    CHECK_ERROR(ZL_ERROR_SYNTAX, tile_parse(text, "k.tile"));
    CHECK_HAS(test_last_error(), part);
}

TEST(tile_errors_point_at_the_place) {
    check_message("kernel add(a: f32[n], b: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[i] = aa[i] + "
                  "b[i]\n  }\n}\n",
                  "k.tile:3:12: unknown buffer 'aa'; known: a, b, y\n    y[i] = aa[i] + b[i]\n           ^");
}

TEST(tile_errors_say_what_is_wrong) {
#define IN(body) "kernel k(a: f32[n], c: i32[n], s: f32) -> (y: f32[n]) {\n" body "\n}"
    check_message(IN("y[0] = c[0]"), "k.tile:2:8: this is i32 and must be f32; write the cast f32(...)");
    check_message(IN("y[0] = a[0] + c[0]"), "k.tile:2:13: add of f32 and i32: operands must agree in type");
    check_message(IN("a[0] = 1"),
                  "k.tile:2:1: store: 'a' is an input; only outputs and allocations are written");
    check_message(IN("y[0, 1] = 1"), "'y' has 1 axes and 2 indices");
    check_message(IN("y[0] = zz"), "unknown name 'zz'; known: n, s");
    check_message(IN("y[0] = foo(1)"), "unknown op 'foo'");
    check_message(IN("y[0] = exp(1, 2)"), "exp takes 1 operands, not 2");
    check_message(IN("y[0] = f32(c[0] / c[1])"), "divide does not take i32");
    check_message(IN("y[0] = f32(1 < 2 < 3)"), "comparisons do not chain; join them with &");
    check_message(IN("y[0] = f32(300u8)"), "300 as u8: does not fit its type");
    check_message(IN("y[c[0] < 1] = 1"), "an index is bool, not an integer");
    check_message(IN("break"), "break: no loop is around it");
    check_message(IN("for i in n { map j in n { break } }"), "break: no loop is around it");
    check_message(IN("wait t"), "'t' is not the token of an asynchronous statement");
    check_message(IN("copy a[0] -> y[1]"), "how much of 'y' is not said");
    check_message(IN("x: i32 = 1\nx = atomic add y[0], 1"), "'x' is no variable of f32");
    check_message(IN("view v: f32[4] of zz"), "unknown buffer 'zz'; known: a, c, y");
    check_message(IN("view v: f32[n] of a\nv[0] = 1"),
                  "'a' is an input; only outputs and allocations are written");
    check_message(IN("shared t: f32[4]\nview v: u16[9] of t"),
                  "'v' has 18 bytes and 't', whose memory it is, 16");
    check_message(IN("copy a -> y else 1i32"), "k.tile:2:18: this is i32 and must be f32");
    check_message(IN("reduce add a -> y axis 1"), "'a' has no axis 1");
    check_message(IN("reduce subtract a -> y axis 0"), "subtract does not combine f32");
    check_message(IN("gemm a, a -> y"), "'a' is no matrix");
    check_message(IN("if a[0] { }"), "this is f32 and must be bool");
    check_message(IN("{ x = 1 }"), "a statement is expected, not {");
    check_message(IN("copz a -> y"), "k.tile:2:1: there is no statement 'copz'");
    check_message(IN("for = 1"), "the name of a loop variable is expected, not =");
    check_message(IN("n = 1"), "'n' is no variable");
    check_message(IN("x = 1 }"), "the kernel has ended");
    check_message(IN("y[0] = \"text"), "a text that does not end on its line");
    check_message(IN("y[0] = 1.5zz"), "a number with letters that name no type");
    check_message(IN("y[0] = $"), "a character that means nothing here");
    check_message(IN("grid b in n { grid c in n { } }"), "a grid inside of a grid");
    check_message(IN("map i in n { x = 1 } y[0] = f32(x)"), "unknown name 'x'");
    check_message(IN("param P = n"), "a param is a number that is known here");
    check_message("kernel k(x: f33[n]) { }", "a type is expected");
    check_message("", "'kernel' is expected, not the end");
#undef IN
}

TEST(tile_nesting_has_a_limit) {
    struct text text = {0};
    text_add(&text, "kernel k() -> (y: f32[1]) { y[0] = ");
    for (int i = 0; i < 100000; i++)
        text_add(&text, "(");
    check_message(text.data, "nested too deeply");
    text_free(&text);
    text_add(&text, "kernel k() -> (y: f32[1]) { y[0] = 1");
    for (int i = 0; i < 100000; i++)
        text_add(&text, "+1");
    text_add(&text, " }");
    check_message(text.data, "nested too deeply");
    text_free(&text);
}

// Random expressions ------------------------------------------------------------------------------------------------

struct garden { // what random expressions grow from
    struct tile_buffer *buffer[ZL_DTYPE_COUNT];
    expr leaf[ZL_DTYPE_COUNT];
    expr index;
};

static expr grow(const struct garden *g, zl_dtype dtype, int depth);

static zl_dtype any_dtype(void) {
    return (zl_dtype)test_between(0, ZL_DTYPE_COUNT - 1);
}

static expr grow_leaf(const struct garden *g, zl_dtype dtype) {
    struct tile_type type = tile_type_of(dtype);
    switch (test_between(0, 3)) {
    case 0: return tile_const_bits(type, dtype == ZL_BOOL ? test_random() & 1 : test_random());
    case 1: return tile_const_int(type, test_between(-3, 3));
    case 2: return g->leaf[dtype];
    default: return tile_load(g->buffer[dtype], 1, &g->index, NULL, NULL);
    }
}

// A row that gives dtype, on operands that it takes.
static expr grow_row(const struct garden *g, zl_dtype dtype, int depth) {
    for (;;) {
        enum tile_op op = (enum tile_op)test_between(0, TILE_CONST - 1);
        zl_dtype from = test_between(0, 1) ? dtype : any_dtype();
        if (!tile_row_takes(op, from) || tile_row_gives(op, from) != dtype)
            continue;
        expr a = grow(g, op == TILE_SELECT ? ZL_BOOL : from, depth), b = grow(g, from, depth);
        if (tile_op_arity(op) == 1)
            return tile_unary(op, a);
        return tile_op_arity(op) == 2 ? tile_binary(op, a, b) : tile_ternary(op, a, b, grow(g, from, depth));
    }
}

static expr grow_special(const struct garden *g, zl_dtype dtype, int depth) {
    struct tile_type type = tile_type_of(dtype);
    expr x = grow(g, dtype, depth), y = grow(g, dtype, depth);
    if (dtype == ZL_COMPLEX64)
        return tile_binary(TILE_PAIR, grow(g, ZL_FLOAT32, depth), grow(g, ZL_FLOAT32, depth));
    if (tile_type_is_float(type) && test_between(0, 1))
        return tile_ternary(TILE_FMA, x, y, grow(g, dtype, depth));
    if (dtype == ZL_UINT32)
        return tile_bitcast(type, grow(g, ZL_FLOAT32, depth));
    if (test_between(0, 1))
        return tile_load(g->buffer[dtype], 1, &g->index, grow(g, ZL_BOOL, depth), x);
    return tile_ternary(TILE_RARE, grow(g, ZL_BOOL, depth), x, y);
}

static expr grow(const struct garden *g, zl_dtype dtype, int depth) {
    if (depth == 0 || test_between(0, 4) == 0)
        return grow_leaf(g, dtype);
    switch (test_between(0, 5)) {
    case 0: return tile_cast(tile_type_of(dtype), grow(g, any_dtype(), depth - 1));
    case 1: return grow_special(g, dtype, depth - 1);
    default: return grow_row(g, dtype, depth - 1);
    }
}

static struct tile_kernel *random_kernel(void) {
    struct garden g;
    zl_dtype dtype = any_dtype();
    tile_begin("random");
    expr n = tile_name_value(tile_symbol("n", 1, 4, 1), TILE_SYMBOL);
    g.index = tile_const_int(tile_index_type(), 0);
    for (int i = 0; i < ZL_DTYPE_COUNT; i++)
        g.buffer[i] = tile_parameter_buffer(tile_type_name(tile_type_of((zl_dtype)i)),
                                            tile_type_of((zl_dtype)i), 1, &n, false);
    struct tile_buffer *y = tile_parameter_buffer("y", tile_type_of(dtype), 1, &n, true);
    const struct tile_name *i = tile_index("i", n);
    tile_open_map(1, &i, &n);
    g.index = tile_name_value(i, TILE_INDEX);
    for (int k = 0; k < ZL_DTYPE_COUNT; k++) {
        const struct tile_name *x = tile_name("x", tile_type_of((zl_dtype)k));
        tile_assign(x, tile_load(g.buffer[k], 1, &g.index, NULL, NULL));
        g.leaf[k] = tile_name_value(x, TILE_LOCAL);
    }
    tile_store(y, 1, &g.index, grow(&g, dtype, 5), test_between(0, 1) ? grow(&g, ZL_BOOL, 3) : NULL);
    tile_close();
    return tile_end();
}

// Runs a kernel made by random_kernel on some fixed bytes.
static void run(const struct tile_kernel *kernel, uint64_t *out) {
    uint64_t input[ZL_DTYPE_COUNT][4];
    void *buffer[ZL_DTYPE_COUNT + 1];
    for (int i = 0; i < ZL_DTYPE_COUNT; i++) {
        for (int k = 0; k < 4; k++)
            input[i][k] = i == ZL_BOOL ? 0x0001010001000100u : 0x3c013f80u * (uint64_t)(i + k + 1);
        buffer[i] = input[i];
    }
    memset(out, 0, 4 * sizeof *out);
    buffer[ZL_DTYPE_COUNT] = out;
    CHECK(tile_interpret(kernel, buffer, (int64_t[]){3}));
}

TEST(tile_random_kernels_survive_the_text) {
    for (int i = 0; i < (test_quick() ? 60 : test_long() ? 5000 : 600); i++) {
        struct tile_kernel *kernel = random_kernel();
        REQUIRE(kernel);
        CHECK(tile_verify(kernel));
        char *text = tile_print(kernel);
        struct tile_kernel *again = tile_parse(text, "test.tile");
        char *text_again = again ? tile_print(again) : NULL;
        uint64_t first[4] = {0}, second[4] = {1};
        run(kernel, first);
        if (again)
            run(again, second);
        if (!CHECK(text_again && !strcmp(text, text_again) && !memcmp(first, second, sizeof first)))
            test_note("%s\n%s\n%s", text, text_again ? text_again : "", zl_error() ? zl_error() : "");
        memory_free(text);
        memory_free(text_again);
        tile_free(kernel);
        tile_free(again);
    }
}

// Fuzzing -----------------------------------------------------------------------------------------------------------

static void mutate(char *text, size_t *len, size_t room) {
    static const char *const piece[] = {
        "{",     "}",      "(",    ")",     "[",           "]",      "map i in n {",
        "0x",    "1e",     "\"",   "nan(",  "-",           "<",      "let t = ",
        "param", "1.5f16", " .. ", "where", "copy a -> y", "c64(1,", "9999999999999999999"};
    size_t at = (size_t)test_between(0, (int64_t)*len - 1), count = (size_t)test_between(1, 8);
    count = MIN_OF(count, *len - at);
    const char *add = piece[test_between(0, COUNT(piece) - 1)];
    switch (test_between(0, 3)) {
    case 0: text[at] = (char)test_between(1, 127); break;
    case 1:
        memmove(text + at, text + at + count, *len - at - count + 1);
        *len -= count;
        break;
    default:
        if (*len + strlen(add) + 1 >= room)
            break;
        memmove(text + at + strlen(add), text + at, *len - at + 1);
        memcpy(text + at, add, strlen(add));
        *len += strlen(add);
    }
}

// Mutants of a text either parse, and then survive printing, or leave an error.
static void fuzz(const char *seed_text) {
    char text[4096];
    for (int i = 0; i < (test_quick() ? 40 : test_long() ? 5000 : 500); i++) {
        size_t len = strlen(seed_text);
        REQUIRE(len + 1 < sizeof text);
        memcpy(text, seed_text, len + 1);
        for (int64_t k = test_between(1, 4); k > 0 && len > 8; k--)
            mutate(text, &len, sizeof text);
        struct tile_kernel *kernel = tile_parse(text, "fuzz");
        CHECK(kernel || zl_error_which() == ZL_ERROR_SYNTAX);
        char *printed = kernel ? tile_print(kernel) : NULL;
        zl_clear_error();
        if (printed)
            check_canonical(printed);
        memory_free(printed);
        tile_free(kernel);
    }
}

TEST(tile_parser_survives_mutants) {
    CHECK(each_example(fuzz) >= 9);
}

TEST(params_are_given) {
    static const char text[] = "kernel f(a: f32[n]) -> (y: f32[n]) {\n  param B = 64, C = 0.5, D = B * 2\n"
                               "  grid b in ceildiv(n, D) { y[b] = a[b] * C }\n}\n";
    struct tile_kernel *kernel = tile_parse_with(text, "f", "C=2.25,B=8");
    REQUIRE(kernel);
    char *printed = tile_print(kernel);
    CHECK_HAS(printed, "grid b in (n + 15) // 16");
    CHECK_HAS(printed, "a[b] * 2.25");
    memory_free(printed);
    tile_free(kernel);
    CHECK_ERROR(ZL_ERROR_VALUE, tile_parse_with(text, "f", "B=8,E=1"));
    CHECK_HAS(test_last_error(), "there is no param 'E'");
    static const char *const wrong[] = {"B=8.5", "B=", "B", "B=x", "C=1e"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK(!tile_parse_with(text, "f", wrong[i]));
        zl_clear_error();
    }
}
