// test_tile_text.c - the text form of tile kernels: canonical printing, reading back, errors with positions,
// and fuzzing.

#include "test.h"

#include "base/base.h"
#include "tile/tile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Parses text and prints the kernel; "" after a failed check. The caller frees the text.
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

// Checks that printed text, when read and printed again, stays the same.
static void check_canonical(const char *text) {
    char *once = reprint(text), *twice = reprint(once);
    CHECK_STR(twice, once);
    memory_free(once);
    memory_free(twice);
}

// Checks how an expression is printed in the statement `y[0] = ...` of a kernel.
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

// Zeros before a number do not make it octal.
TEST(tile_numbers_are_decimal) {
    check_expression("f32", "a[010 + 08] - 0XFF", "a[10 + 8] - 255");
    check_expression("i64", "a[ceildiv(n, 010)]", "a[(n + 9) // 10]");
    check_prints("kernel k(a: f32[010]) -> (y: f32[09]) {\n  fill y = 1\n}\n",
                 "kernel k(a: f32[10]) -> (y: f32[9]) {\n  fill y = 1\n}\n");
}

TEST(tile_numbers_take_the_type_beside_them) {
    check_expression("f16", "where(a[0] < 1, 2, a[1])", "where(a[0] < 1, 2, a[1])");
    check_expression("bool", "1.5 < 2", "1.5f32 < 2f32");
    check_expression("bool", "1 < 2u8", "1u8 < 2u8");
    check_expression("i8", "i8(1.5f64) + i8(3) + i8(3i64)", "i8(1.5f64) + 3 + i8(3i64)");
    check_expression("i8", "i8(300) + i8(-2.5)", "i8(300i64) + i8(-2.5f32)"); // numbers that i8 does not have
    check_expression("f64", "f64(0.1) + f64(-inf)", "0.1 + -inf");
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

// A name that is a keyword can only come from the builder.
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
    // Forty doublings: a tree of 2^40 nodes, but a text of forty lines.
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

// Documentation ---------------------------------------------------------------------------------------------

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

// Errors ----------------------------------------------------------------------------------------------------

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
    check_message(IN("reduce add a -> y axis 0 loose"), "loose is said of the maximum of f32 alone");
    check_message(IN("gemm a, a -> y"), "'a' is no matrix");
    check_message(IN("if a[0] { }"), "this is f32 and must be bool");
    check_message(IN("{ x = 1 }"), "a statement is expected, not {");
    check_message(IN("copz a -> y"), "k.tile:2:1: there is no statement 'copz'");
    check_message(IN("for = 1"), "the name of a loop variable is expected, not =");
    check_message(IN("n = 1"), "'n' is no variable");
    check_message(IN("walk n in z, 0 -> p = 0"), "'z' is no buffer of i64 with two axes");
    check_message(IN("walk n in a, 0 -> p = 0"), "'a' is no buffer of i64 with two axes");
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

// Random expressions ----------------------------------------------------------------------------------------

struct garden { // variables and buffers that random expressions use
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

// Returns a random op with a result of that dtype, on operands that it accepts.
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

// Runs a kernel of random_kernel on fixed bytes.
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

// Fuzzing ---------------------------------------------------------------------------------------------------

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

// Mutates a text. A mutant is either parsed, and survives printing, or leaves an error.
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

// Clauses before the kernel ---------------------------------------------------------------------------------

// Parses a text with values for its clauses, and compares the printed kernel.
static void check_instance(const char *text, const char *given, const char *expected) {
    struct tile_kernel *kernel = tile_parse_with(text, "k.tile", given), *again = NULL;
    char *printed = kernel ? tile_print(kernel) : NULL, *twice = NULL;
    if (CHECK(printed) && CHECK_STR(printed, expected) && CHECK(again = tile_parse(printed, "again")))
        CHECK_STR(twice = tile_print(again), expected); // the clauses are gone
    if (!printed)
        test_note("%s", zl_error() ? zl_error() : "no error");
    zl_clear_error();
    memory_free(printed);
    memory_free(twice);
    tile_free(kernel);
    tile_free(again);
}

static const char instance_text[] =
    "type ITEM = f32, INDEX = i64\n"
    "type RAW = u32\n"
    "param LANES = 32, WIDE = LANES * 2\n"
    "op COMBINE = add, EACH = exp\n"
    "kernel k index WIDE (x: ITEM[m, LANES], which: INDEX[n]) -> (y: ITEM[m], z: ITEM[m, LANES])\n"
    "where m % LANES == 0, n <= LANES {\n"
    "  reduce COMBINE x -> y axis 1\n"
    "  scan COMBINE x -> z axis 1\n"
    "  grid b in ceildiv(m, LANES), threads LANES {\n"
    "    shared t: ITEM[LANES] align LANES = identity(COMBINE)\n"
    "    for i: INDEX in which[b] {\n"
    "      v: ITEM = COMBINE(t[0], EACH(ITEM(i)))\n"
    "      t[0] = where(v < ITEM(0.5), v, ITEM(1))\n"
    "      atomic COMBINE y[b], bits<ITEM>(RAW(i))\n"
    "    }\n"
    "  }\n"
    "}\n";

TEST(tile_clauses_are_replaced_by_their_values) {
    check_instance(
        instance_text, NULL,
        "kernel k(x: f32[m, 32], which: i64[n]) -> (y: f32[m], z: f32[m, 32]) where m % 32 == 0, n "
        "<= 32 {\n  reduce add x -> y axis 1\n  scan add x -> z axis 1\n  grid b in (m + 31) // 32, "
        "threads 32 {\n    shared t: f32[32] align 32\n    fill t = 0\n    for i in which[b] {\n"
        "      v: f32 = t[0] + exp(f32(i))\n      t[0] = where(v < 0.5, v, 1)\n"
        "      atomic add y[b], bits<f32>(u32(i))\n    }\n  }\n}\n");
    check_instance(
        instance_text, "COMBINE=maximum,ITEM=f16,RAW=u16,INDEX=u8,LANES=8,WIDE=32,EACH=sqrt",
        "kernel k index 32 (x: f16[m, 8], which: u8[n]) -> (y: f16[m], z: f16[m, 8]) where m % 8 == 0, n "
        "<= 8 {\n  reduce maximum x -> y axis 1\n  scan maximum x -> z axis 1\n  grid b in (m + 7) // 8, "
        "threads 8 {\n    shared t: f16[8] align 8\n    fill t = -inf\n    for i: u8 in which[b] {\n"
        "      v: f16 = maximum(t[0], sqrt(f16(i)))\n      t[0] = where(v < 0.5, v, 1)\n"
        "      atomic maximum y[b], bits<f16>(u16(i))\n    }\n  }\n}\n");
}

// index(x) converts to the type of the kernel's indices.
TEST(index_is_a_conversion) {
    static const struct {
        const char *text, *conversion;
    } cases[] = {
        {"kernel k index 32 (a: i64[n]) -> (y: i64[n]) { map i in n { y[i] = a[index(a[i])] } }",
         "a[i32(a[i])]"},
        {"kernel k(a: i8[n]) -> (y: i8[n]) { map i in n { y[i] = a[index(a[i])] } }", "a[i64(a[i])]"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tile_kernel *kernel = tile_parse(cases[i].text, "k");
        char *printed = kernel ? tile_print(kernel) : NULL;
        CHECK_HAS(printed, cases[i].conversion);
        memory_free(printed);
        tile_free(kernel);
    }
    check_message("type index = f32\nkernel k() -> (y: f32[1]) { y[0] = 0 }",
                  "'index' is a word of the language");
}

TEST(tile_branches_are_decided_by_params) {
    static const char text[] = "param LANES = 32\n"
                               "kernel k(x: f32[n]) -> (y: f32[n]) {\n"
                               "  map i in n {\n"
                               "    if LANES > 32 { y[i] = x[i] } else { y[i] = 0 }\n"
                               "    if LANES > 64 { if i > 2 { y[i] = 1 } }\n"
                               "    if i < LANES { y[i] = 2 }\n"
                               "  }\n"
                               "}\n";
    check_instance(text, NULL,
                   "kernel k(x: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    if true {\n      y[i] = 0\n"
                   "    }\n    if i < 32 {\n      y[i] = 2\n    }\n  }\n}\n");
    check_instance(text, "LANES=48",
                   "kernel k(x: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    if true {\n      y[i] = x[i]\n"
                   "    }\n    if i < 48 {\n      y[i] = 2\n    }\n  }\n}\n");
}

// Other conditions stay, also those of numbers that are not params: the printed text is read back as it was.
TEST(tile_choices_are_decided_by_params) {
    static const char text[] =
        "param LANES = 32\n"
        "kernel k(x: f32[n]) -> (y: f32[n]) {\n"
        "  map i in n {\n"
        "    y[where(LANES > 32, i, n - 1 - i)] = where(LANES * 2 == 64 & true, x[i], 0)\n"
        "    y[i] = where(i < LANES, where(1 == 2, x[i], 3), 4)\n"
        "  }\n"
        "}\n";
    check_instance(text, NULL,
                   "kernel k(x: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[n - 1 - i] = x[i]\n"
                   "    y[i] = where(i < 32, where(1i64 == 2i64, x[i], 3), 4)\n  }\n}\n");
    check_instance(text, "LANES=48",
                   "kernel k(x: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[i] = 0\n"
                   "    y[i] = where(i < 48, where(1i64 == 2i64, x[i], 3), 4)\n  }\n}\n");
    check_message("param LANES = 32\nkernel k() -> (y: f32[1]) { y[0] = where(LANES > 1, 1f32, 2i32) }",
                  "i32");
}

TEST(tile_identities_take_their_type) {
    static const struct {
        const char *op, *type, *expected;
    } cases[] = {{"add", "f32", "0"},
                 {"multiply", "bf16", "1"},
                 {"maximum", "f64", "-inf"},
                 {"minimum", "i8", "127"},
                 {"maximum", "i64", "-9223372036854775808"},
                 {"maximum", "u16", "0"},
                 {"bitwise_and", "u8", "255"},
                 {"bitwise_or", "i32", "0"},
                 {"maximum", "bool", "false"},
                 {"minimum", "bool", "true"},
                 {"maximum", "c64", "c64(-inf, -inf)"},
                 {"logaddexp", "f16", "-inf"},
                 {"logaddexp", "c64", "c64(-inf, 0)"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        static const char *const forms[] = {"identity(%s)", "where(a[0] == a[1], identity(%s), a[0])",
                                            "where(a[0] == a[1], a[0], T(identity(%s)))"};
        for (size_t k = 0; k < COUNT(forms); k++) {
            char written[200], text[500];
            snprintf(written, sizeof written, forms[k], cases[i].op);
            snprintf(text, sizeof text, "type T = %s\nkernel k(a: T[n]) -> (y: T[n]) {\n y[0] = %s\n}\n",
                     cases[i].type, written);
            struct tile_kernel *kernel = tile_parse(text, "k");
            if (!CHECK(kernel))
                break;
            expr value = kernel->body->value;
            value = k == 0 ? value : value->arg[k];
            uint64_t bits;
            CHECK(tile_identity(tile_op_find(cases[i].op), kernel->parameter[0].buffer->type, &bits));
            CHECK(value->op == TILE_CONST && value->bits == bits);
            char *printed = tile_print(kernel);
            CHECK_HAS(printed, cases[i].expected);
            memory_free(printed);
            tile_free(kernel);
        }
    }
    check_message("kernel k() -> (y: f32[1]) { y[0] = identity(subtract) }",
                  "k.tile:1:36: subtract does not combine f32: it has no identity");
    check_message("kernel k() -> (y: f32[1]) { y[0] = identity(bitwise_or) }",
                  "bitwise_or does not combine f32");
    check_message("kernel k() -> (y: f32[1]) { y[0] = identity(exp) }", "an op that combines is expected");
    check_message("kernel k() -> (y: f32[1]) { y[0] = f32x4(identity(add)) }", "add does not combine f32x4");
}

TEST(tile_clauses_say_what_is_wrong) {
#define K " kernel k(a: f32[n]) -> (y: f32[n]) { "
    check_message("type T = f32, T = f16" K "}",
                  "k.tile:1:15: 'T' is a type already, declared before the kernel");
    check_message("type T = f32 param T = 1" K "}", "'T' is a type already");
    check_message("param T = 1 op T = add" K "}", "'T' is a param already");
    check_message("op F = add" K "param F = 1 }", "'F' is an op already");
    check_message("param B = 4" K "param B = 8 }", "'B' is a param already");
    check_message("param B = 4" K "B = 8 }", "'B' is a param already");
    check_message("param B = 4" K "let B = 8 }", "'B' is a param already");
    check_message("param n = 4 kernel k<n>(a: f32[n]) { }", "'n' is a param already");
    check_message("type a = f32" K "}", "k.tile:1:23: 'a' is a type already");
    check_message("type f32 = f16" K "}", "'f32' is a word of the language, not the name of a type");
    check_message("op max = add" K "}",
                  "'max' has a meaning in the language and cannot be the name of an op");
    check_message("type identity = f32" K "}",
                  "'identity' has a meaning in the language and cannot be the name of a type");
    check_message("type table = f32" K "}", "'table' has a meaning in the language");
    check_message("type T = 4" K "}", "a type is expected (f32, i8, bool, ...), not 4");
    check_message("param B = 4 type T = B" K "}", "a type is expected, and 'B' is a param");
    check_message("op F = f32" K "}", "an op is expected (add, maximum, exp, ...), not f32");
    check_message("op F = load" K "}", "an op is expected");
    check_message("param B = n" K "}", "unknown name 'n'");
    check_message("type T = f32 param B = T" K "}", "a value is expected, and 'T' is a type");
    check_message("type T = f32" K "grid b in n, threads T { } }",
                  "a whole number is expected, and 'T' is a type");
    check_message(K "grid b in n, threads n { } }", "a whole number is expected, and 'n' is a value");
    check_message("param B = 0.5" K "grid b in n, threads B { } }", "a whole number is expected, not B");
    check_message("param B = -4" K "grid b in n, threads B { } }", "B is out of range: it is -4");
    check_message("type T = f32" K "reduce T a -> y axis 0 }", "an op that combines is expected");
    check_message("op F = exp" K "reduce F a -> y axis 0 }", "an op that combines is expected");
    check_message("op F = exp" K "y[0] = F(1, 2) }", "takes 1 operands, not 2");
    check_message("op F = exp" K "y[0] = F }", "a value is expected, and 'F' is an op");
    check_message("param B = 2" K "y[0] = B(a[0]) }", "unknown op 'B'");
    check_message("param B = 2" K "x: B = 1 }", "a type is expected, and 'B' is a param");
    check_message("type T = f32", "'kernel' is expected, not the end");
    check_message("types T = f32" K "}", "'kernel' is expected, not types");
#undef K
}

TEST(tile_values_that_are_given_say_what_is_wrong) {
    static const struct {
        const char *given, *part;
    } cases[] = {
        {"ITEM=4", "k.tile:1:6: '4' is given for the type ITEM and is no type"},
        {"ITEM=LANES", "'LANES' is given for the type ITEM and is no type"},
        {"LANES=f32", "'f32' is given for the param LANES and is no whole number"},
        {"LANES=1.5", "'1.5' is given for the param LANES and is no whole number"},
        {"LANES=99999999999999999999", "is no whole number of 64 bits"},
        {"LANES=", "'' is given for the param LANES"},
        {"COMBINE=exp", "'exp' is given for the op COMBINE and takes 1 operands, where add takes 2"},
        {"COMBINE=f32", "'f32' is given for the op COMBINE and is no op"},
        {"COMBINE=plus", "'plus' is given for the op COMBINE and is no op"},
        {"COMBINE=subtract", "subtract does not combine f32"},
        {"LANES=0,WIDE=64", "LANES is out of range: it is 0"},
        {"WIDE=48", "indices have 32 or 64 bits"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK_ERROR(ZL_ERROR_SYNTAX, tile_parse_with(instance_text, "k.tile", cases[i].given));
        CHECK_HAS(test_last_error(), cases[i].part);
    }
    static const struct {
        const char *given, *part;
    } values[] = {{"ITEM=f16,ITEM=f32", "two values are given for 'ITEM'"},
                  {"ITEM", "'ITEM' gives no value; write NAME=value"},
                  {"ITEM=f16,,LANES=8", "'' gives no value"},
                  {"ITEMS=f16", "there is no param 'ITEMS', and no type or op of that name"}};
    for (size_t i = 0; i < COUNT(values); i++) {
        CHECK_ERROR(ZL_ERROR_VALUE, tile_parse_with(instance_text, "k.tile", values[i].given));
        CHECK_HAS(test_last_error(), values[i].part);
    }
}

// Tables ----------------------------------------------------------------------------------------------------

TEST(tile_tables_are_small_inputs) {
    check_prints(
        "kernel k(s: table i32[3, 8], table: f32[n]) -> (y: f32[n]) { y[0] = table[i64(s[1, 2])] }",
        "kernel k(s: table i32[3, 8], table: f32[n]) -> (y: f32[n]) {\n  y[0] = table[i64(s[1, 2])]\n}\n");
    check_canonical("param N = 4 type T = f16 kernel k(s: table T[N]) -> (y: T[N]) { copy s -> y }");
#define K(parameter) "kernel k(" parameter ") -> (y: f32[4]) { }"
    check_message(K("s: table f32[n]"), "'s' is a table, whose sizes are numbers");
    check_message(K("s: table f32[257]"), "'s' is a table of 1028 bytes, not of 1 to 1024");
    check_message(K("s: table f32[0]"), "'s' is a table of 0 bytes");
    check_message(K("s: table f32[4] stride [2]"), "'s' is a table, which has no stride, align or swizzle");
    check_message(K("s: table f32[4] align 16"), "'s' is a table, which has no stride");
    check_message(K("s: table bool[4]"), "'s' is a table of bool: tables are of integers and floats");
    check_message(K("s: table c64[4]"), "'s' is a table of c64");
    check_message(K("s: table e4m3[4]"), "'s' is a table of e4m3");
    check_message(K("s: table f32x4[4]"), "'s' is a table of f32x4");
    check_message(K("s: table f32"), "'[' is expected");
    check_message(K("s: table constant f32[4]"), "a type is expected");
    check_message(K("a: table f64[128], b: table f64[128], c: table f64[128], d: table f64[128]"),
                  "tables, other parameters and sizes take 4104 bytes of a launch, which has 4000 for them");
    check_canonical(K("a: table f64[128], b: table f64[128], c: table f64[128], d: table f64[114], s: f32"));
    check_message(K("a: table f64[128], b: table f64[128], c: table f64[128], d: table f64[114], e: f32[n]"),
                  "take 4008 bytes of a launch");
    check_message("kernel k(s: table f32[4]) -> (y: table f32[4]) { }", "'y' is a table, which is an input");
    check_message("kernel k(s: table f32[4]) -> (y: f32[4]) { s[0] = 1 }", "'s' is an input");
    check_message("kernel k(s: table f32[4]) -> (y: f32[4]) { view v: i32[4] of s }",
                  "'s' is a table: there are no views of tables");
    check_message("kernel k() -> (y: f32[4]) { table s: f32[4] }", "there is no statement 'table'");
#undef K
}

// Places of a matrix with three rows of two elements, transposed in memory, and of one whose rows coincide.
TEST(tile_commands_are_read_back) {
    const char *text = "kernel commands(a: f32[n]) -> (y: f32[n]) {\n"
                       "  shared t: f32[64]\n"
                       "  x: i32 = 3\n"
                       "  command tpu_gdma_cpy_S2L(address(t), address(a) + 4, 1, n, 5i32)\n"
                       "  x = command tpu_global_mem_addr(address(y) + i64(x))\n"
                       "  command tpu_parallel_start()\n"
                       "}\n";
    struct tile_kernel *k = tile_parse(text, "commands");
    REQUIRE(k);
    char *printed = tile_print(k);
    CHECK(tile_verify(k));
    if (!CHECK(printed && !strcmp(printed, text)))
        test_note("%s", printed);
    memory_free(printed);
    tile_free(k);
    CHECK(!tile_parse("kernel k(a: f32[n]) -> (y: f32[n]) { z = command f(address(a)) }", "k"));
    zl_clear_error();
    CHECK(!tile_parse("kernel k(a: f32[n]) -> (y: f32[n]) { command f(address(b)) }", "k"));
    zl_clear_error();
}

TEST(tile_walks_find_places) {
    struct tile_kernel *kernel =
        tile_parse("kernel k(s: table i64[3, 4], inner: i64) -> (y: i64[n, 2]) {\n  map i in n {\n"
                   "    second = 7\n    walk i in s, inner -> first = 100, second = 0\n"
                   "    y[i, 0] = first\n    y[i, 1] = second\n  }\n}\n",
                   "k");
    const int64_t s[3][4] = {{2, 3}, {3, 1}, {10, 0}}, inner = 1;
    int64_t y[6][2];
    REQUIRE(kernel);
    CHECK(tile_interpret(kernel, (void *[]){(void *)(uintptr_t)s, (void *)(uintptr_t)&inner, y},
                         (int64_t[]){6}));
    for (int i = 0; i < 6; i++)
        CHECK(y[i][0] == 100 + i % 2 * 3 + i / 2 && y[i][1] == i % 2 * 10);
    tile_free(kernel);
    check_message("kernel k(s: table i64[2, 4]) -> (y: f32[n]) { map i in n { walk i in s, 1 -> x = 0f32 } }",
                  "'x' is no variable of i64");
}

TEST(tile_tables_are_read_as_other_inputs) {
    struct tile_kernel *kernel = tile_parse("kernel k(s: table i16[2, 3], a: f32[n]) -> (y: f32[n]) {\n"
                                            "  map i in n { y[i] = a[i] * f32(s[i % 2, i % 3]) }\n}\n",
                                            "k");
    int16_t s[] = {1, 2, 3, 4, 5, 6};
    float a[] = {1, 1, 1, 1, 10, 1}, y[6] = {0};
    REQUIRE(kernel);
    CHECK(tile_interpret(kernel, (void *[]){s, a, y}, (int64_t[]){6}));
    CHECK(y[0] == 1 && y[1] == 5 && y[2] == 3 && y[3] == 4 && y[4] == 20 && y[5] == 6);
    CHECK_EQ_F64(tile_cost(kernel, (int64_t[]){6}).bytes, 48); // a launch passes the table by value
    tile_free(kernel);
}
