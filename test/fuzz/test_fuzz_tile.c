// test_fuzz_tile.c - texts of the tile language with mistakes in them: a message or a kernel, never a crash or a hang.
//
// The examples of doc/tile.md are changed a little: bytes, words, numbers and pieces of other examples. What is read is printed
// and read again, to the same text; some of it goes through all passes to C.

#include "test.h"

#include "pass/pass.h"
#include "render/render.h"
#include "tile/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXAMPLES = 64,
    BYTES = 8192,
    QUICK = 2000,
    USUAL = 20000,
    LONG = 1000000,
    RENDERED = 16,
    SLOW_NS = 2000000000
};

static int read_examples(char *doc, char **example) {
    static const char open[] = "```tile\n";
    int count = 0;
    for (char *at = doc, *end; at && (at = strstr(at, open)) && count < EXAMPLES; at = end + 3) {
        at += strlen(open);
        if (!(end = strstr(at, "```")))
            break;
        *end = 0;
        example[count++] = at;
    }
    return count;
}

// Changes -----------------------------------------------------------------------------------------------------------

struct change {
    char text[BYTES];
    char *const *example;
    int examples;
};

static int some_place(const char *text) {
    return (int)test_between(0, (int64_t)strlen(text));
}

static void replace(char *text, int at, int removed, const char *added) {
    int len = (int)strlen(text), more = (int)strlen(added);
    removed = MIN_OF(removed, len - at);
    if (len - removed + more >= BYTES)
        return;
    memmove(text + at + more, text + at + removed, (size_t)(len - at - removed + 1));
    memcpy(text + at, added, (size_t)more);
}

static const char *some_word(void) {
    static const char *const words[] = {
        "kernel",
        "param",
        "grid",
        "map",
        "for",
        "if",
        "else",
        "while",
        "break",
        "copy",
        "gemm",
        "reduce",
        "scan",
        "fill",
        "let",
        "shared",
        "where",
        "threads",
        "view",
        "of",
        "stride",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "->",
        "..",
        "=",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "<<",
        "<",
        "==",
        "f32",
        "i8",
        "bf16",
        "c64",
        "f32x4",
        "bool",
        "0",
        "1",
        "-1",
        "0x1p-3f64",
        "1e999",
        "inf",
        "nan",
        "0.0.0",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999999",
        "add",
        "maximum",
        "exp",
        "load(",
        "store(",
        "bits<i32>(",
        "pair(",
        "rare(",
        "\"",
        "\n",
        ";",
        "#",
        "\\",
        "\xff",
        "transpose",
        "axis",
        "wait",
        "async",
        "atomic",
        "barrier",
        "print",
        "assert",
        "n",
        "index 32",
    };
    return words[test_between(0, COUNT(words) - 1)];
}

// A piece of any example.
static void splice(struct change *c, int at) {
    const char *from = c->example[test_between(0, c->examples - 1)];
    int begin = some_place(from);
    char piece[256];
    snprintf(piece, sizeof piece, "%.*s", (int)test_between(1, 200), from + begin);
    replace(c->text, at, (int)test_between(0, 60), piece);
}

// Brackets within brackets: deeper than a stack should be asked for.
static void nest(struct change *c, int at) {
    static const char *const open[] = {"(", "[", "{", "-", "!", "if n > 1 {", "for i in 2 {", "abs("};
    char deep[3000] = "";
    const char *one = open[test_between(0, COUNT(open) - 1)];
    size_t most = test_between(0, 3) ? 20 : sizeof deep / strlen(one) - 1;
    for (size_t i = 0; i < most; i++)
        strcat(deep, one);
    replace(c->text, at, 0, deep);
}

static void change(struct change *c) {
    int at = some_place(c->text);
    switch (test_between(0, 6)) {
    case 0: replace(c->text, at, 1, (char[]){(char)test_between(1, 255), 0}); break;
    case 1: replace(c->text, at, (int)test_between(1, 40), ""); break;
    case 2:
    case 3: replace(c->text, at, (int)test_between(0, 4), some_word()); break;
    case 4: splice(c, at); break;
    case 5: c->text[at] = 0; break;
    default:
        if (test_between(0, 9) == 0)
            nest(c, at);
        else
            replace(c->text, at + (int)strcspn(c->text + at, "0123456789"), 1, some_word());
        break;
    }
}

// -----------------------------------------------------------------------------------------------------------------

static void render(struct tile_kernel *kernel) {
    static const char *const dialects[] = {"c_tiles", "c", "cuda", "opencl"};
    char *text = render_kernel(kernel, dialects[test_between(0, COUNT(dialects) - 1)]);
    CHECK(text || zl_error());
    memory_free(text);
    zl_clear_error();
}

static bool read_again(const char *printed) {
    struct tile_kernel *kernel = tile_parse(printed, "again");
    char *text = kernel ? tile_print(kernel) : NULL;
    bool good = CHECK(text && !strcmp(text, printed));
    memory_free(text);
    tile_free(kernel);
    return good;
}

static bool try_text(const char *text) {
    int64_t begin = clock_ns();
    struct tile_kernel *kernel = tile_parse(text, "fuzz");
    char *printed = kernel ? tile_print(kernel) : NULL;
    bool good = kernel ? CHECK(printed) && read_again(printed) : CHECK(zl_error());
    zl_clear_error();
    if (kernel && test_between(0, RENDERED - 1) == 0)
        render(kernel);
    good = CHECK(clock_ns() - begin < SLOW_NS) && good;
    memory_free(printed);
    tile_free(kernel);
    return good;
}

TEST(fuzz_tile_text) {
    char *doc = file_read(ZL_TEST_DIR "/../doc/tile.md", NULL), *example[EXAMPLES];
    static struct change c;
    REQUIRE(doc);
    c.example = example;
    c.examples = read_examples(doc, example);
    CHECK(c.examples > 5);
    bool good = true;
    for (int i = 0; good && i < (test_quick() ? QUICK : test_long() ? LONG : USUAL); i++) {
        snprintf(c.text, sizeof c.text, "%s", example[test_between(0, c.examples - 1)]);
        for (int64_t changes = test_between(1, 4); changes; changes--)
            change(&c);
        good = try_text(c.text);
        if (!good)
            test_note("%s", c.text);
    }
    memory_free(doc);
}
