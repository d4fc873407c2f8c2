// test_fuzz_tile.c - texts of the tile language with mistakes: they give a message or a kernel, never a crash
// or a hang.
//
// Covers three kinds of texts. First, examples of doc/tile.md with small changes: bytes, words, numbers,
// symbolic or huge sizes, and pieces of other examples; some are read with values for the types, params and
// ops that they name. A text that can be read is printed and read again, with the same result; some go
// through all passes to C and to the targets with groups. Second, kernels with buffers and views of random
// sizes, numbers and symbols, whose exact values are known: they must be rejected if and only if a size is
// negative, does not fit into 64 bits, or is larger than the memory that it views. Third, maps and loops that
// read and write adjacent elements, with random dtypes, sizes with and without known divisors, offsets, masks
// and branches: groups of threads, which move vectors where they can, must have the results of the kernel.

#include "test.h"

#include "device/on_devices.h"
#include "device/tile_trial.h"
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

// Changes ---------------------------------------------------------------------------------------------------

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
        "thread t in 64 {",
        "x = shuffle up 1, 3 of 8\n",
        "print",
        "assert",
        "n",
        "n * n",
        "n - 9",
        "n * 4611686018427387904",
        "4611686018427387904 * 4",
        "global g: f32[n, 4611686018427387904]\n",
        "shared s: f64[1073741824, n]\n",
        "view v: f32[n * 8] of a\n",
        "index 32",
        "type",
        "op",
        "type ITEM = f16\n",
        "param LANES = 8, WIDE = LANES * 4\n",
        "op COMBINE = maximum\n",
        "ITEM",
        "LANES",
        "COMBINE",
        "identity(COMBINE)",
        "ITEM(",
        "table",
        "t: table f16[4, 8], ",
    };
    return words[test_between(0, COUNT(words) - 1)];
}

// Inserts a piece of any example.
static void splice(struct change *c, int at) {
    const char *from = c->example[test_between(0, c->examples - 1)];
    int begin = some_place(from);
    char piece[256];
    snprintf(piece, sizeof piece, "%.*s", (int)test_between(1, 200), from + begin);
    replace(c->text, at, (int)test_between(0, 60), piece);
}

// Inserts nested brackets, deeper than a stack allows.
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

// -----------------------------------------------------------------------------------------------------------

static void render(struct tile_kernel *kernel) {
    static const char *const dialects[] = {"c_tiles",          "c",          "opencl_tiles",
                                           "opencl_cpu_tiles", "cuda_tiles", "hip_tiles"};
    char *text = tile_rendered(kernel, dialects[test_between(0, COUNT(dialects) - 1)]);
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

// Returns values for names that the text may have; mostly NULL, since most texts have none.
static const char *some_values(void) {
    static const char *const values[] = {"ITEM=bf16",
                                         "ITEM=u8,COMBINE=minimum",
                                         "LANES=8,ITEM=c64",
                                         "COMBINE=subtract",
                                         "LANES=-1",
                                         "BM=64,BN=0",
                                         "ITEM=f32x4",
                                         "COMBINE=where",
                                         "LANES=f32",
                                         "ITEM=f16,ITEM=f32",
                                         "=",
                                         "ITEM=bool"};
    return test_between(0, 3) ? NULL : values[test_between(0, COUNT(values) - 1)];
}

static bool try_text(const char *text) {
    int64_t begin = clock_ns();
    struct tile_kernel *kernel = tile_parse_with(text, "fuzz", some_values());
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

// Sizes -----------------------------------------------------------------------------------------------------

// An expression as text, and its value, unless the value or that of a part does not fit into 64 bits.
struct size {
    char text[200];
    int64_t value;
    bool fits;
};

enum { SIZE_DEPTH = 2, BUFFERS = 4, AXES = 3 };

static struct size some_size(int64_t n, int depth) {
    static const int64_t numbers[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      8,
                                      64,
                                      65536,
                                      INT64_C(1) << 31,
                                      INT64_C(1) << 32,
                                      INT64_C(1) << 61,
                                      INT64_C(1) << 62,
                                      INT64_MAX};
    struct size s = {.fits = true};
    if (depth == 0 || test_between(0, 1)) {
        bool is_symbol = test_between(0, 1);
        s.value =
            is_symbol ? n : numbers[test_between(0, test_between(0, 2) ? 6 : (int64_t)COUNT(numbers) - 1)];
        if (is_symbol)
            strcpy(s.text, "n");
        else
            snprintf(s.text, sizeof s.text, "%lld", (long long)s.value);
        return s;
    }
    struct size a = some_size(n, depth - 1), b = some_size(n, depth - 1);
    static const char ops[] = "+-*";
    char op = ops[test_between(0, 2)];
    snprintf(s.text, sizeof s.text, "(%.80s %c %.80s)", a.text, op, b.text);
    s.fits = a.fits && b.fits &&
             !(op == '+'   ? __builtin_add_overflow(a.value, b.value, &s.value)
               : op == '-' ? __builtin_sub_overflow(a.value, b.value, &s.value)
                           : __builtin_mul_overflow(a.value, b.value, &s.value));
    return s;
}

struct made_buffer {
    bool good;
    int64_t bytes;
};

// Writes a type such as "f32[n, 4]". Returns the memory that it takes.
static struct made_buffer some_shape(struct text *out, int64_t n) {
    static const struct {
        const char *name;
        int64_t bytes;
    } types[] = {{"f32", 4}, {"f64", 8}, {"u8", 1}};
    int type = (int)test_between(0, COUNT(types) - 1), axes = (int)test_between(1, AXES);
    struct made_buffer made = {.good = true};
    int64_t elements = 1;
    bool is_empty = false;
    text_add(out, "%s[", types[type].name);
    for (int i = 0; i < axes; i++) {
        struct size s = some_size(n, SIZE_DEPTH);
        text_add(out, "%s%s", i ? ", " : "", s.text);
        made.good &=
            s.fits && s.value >= 0 && !__builtin_mul_overflow(elements, MAX_OF(s.value, 1), &elements);
        is_empty |= s.value == 0;
    }
    text_add(out, "]");
    made.good &= !__builtin_mul_overflow(is_empty ? 0 : elements, types[type].bytes, &made.bytes);
    return made;
}

static bool try_sizes(void) {
    struct text text = {0};
    struct made_buffer made[BUFFERS + 1] = {{true, 0}};
    int64_t n = test_between(0, 2) ? test_between(0, 9) : test_between(0, INT64_MAX);
    bool good = !__builtin_mul_overflow(n, INT64_C(4), &made[0].bytes);
    text_add(&text, "kernel f(a: f32[n]) -> (y: f32[4]) {\n");
    for (int i = 1, count = (int)test_between(1, BUFFERS); i <= count; i++) {
        int base = (int)test_between(0, i - 1);
        bool is_view = test_between(0, 1);
        text_add(&text, is_view ? "  view b%d: " : "  global b%d: ", i);
        made[i] = some_shape(&text, n);
        text_add(&text, !is_view ? "\n" : base ? " of b%d\n" : " of a\n", base);
        good &= made[i].good && (!is_view || made[i].bytes <= made[base].bytes);
    }
    text_add(&text, "  map i in 4 { y[i] = 1 }\n}\n");
    struct tile_kernel *kernel = text.failed ? NULL : tile_parse(text.data, "fuzz");
    struct tile_sizes *sizes = kernel ? tile_sizes_open(kernel) : NULL;
    bool accepted = sizes && tile_sizes_check(sizes, &n);
    bool right = CHECK(accepted == good) && CHECK(accepted || zl_error());
    if (!right)
        test_note("n = %lld, %s: %s\n%s", (long long)n, good ? "good" : "bad", zl_error() ? zl_error() : "",
                  text.data);
    zl_clear_error();
    tile_sizes_close(sizes);
    tile_free(kernel);
    text_free(&text);
    return right;
}

TEST(fuzz_tile_sizes) {
    for (int i = 0; i < (test_quick() ? QUICK : test_long() ? LONG : USUAL) && try_sizes(); i++)
        ;
}

// Runs of neighbours ----------------------------------------------------------------------------------------

enum { RUNS_QUICK = 40, RUNS_USUAL = 400, RUNS_LONG = 20000, RUNS_DEPTH = 3, IN = 3, OUT = 2 };

struct runs_text {
    struct text out;
    const char *type[IN + OUT];
    int offset[IN + OUT]; // where rows begin in their buffer
    const char *row;      // index along the first axis
    bool in_place;        // the old values of the first output may be read
    bool has_tile, has_local, has_at;
};

static const char *one_of(int count, const char *const *word) {
    return word[test_between(0, count - 1)];
}

static void element_of(struct runs_text *t, int which, const char *column) {
    text_add(&t->out, "%c[%s, %s + %d]", "abcyz"[which], t -> row, column, t -> offset[which]);
}

static void formula(struct runs_text *t, const char *column, int depth) {
    static const char *const words[] = {"maximum", "minimum", "add", "multiply"};
    int kind = (int)test_between(depth ? 0 : 4, 12), which = (int)test_between(0, IN - 1);
    if (kind < 4) {
        text_add(&t->out, "%s(", one_of(COUNT(words), words));
        formula(t, column, depth - 1);
        text_add(&t->out, ", ");
        formula(t, column, depth - 1);
        text_add(&t->out, ")");
    } else if (kind == 4) {
        text_add(&t->out, "f32(w[%s])", test_between(0, 1) ? column : "2");
    } else if (kind == 5) {
        text_add(&t->out, "load(v[m - 1 - %s], %s %% 3 < 2, 1)", column, column);
    } else if (kind == 6) {
        text_add(&t->out, "load(v[%s], %s < %lld, 0.5)", column, column, (long long)test_between(0, 40));
    } else if (kind == 7 && t->in_place) {
        text_add(&t->out, "f32(");
        element_of(t, IN, column);
        text_add(&t->out, ")");
    } else if (kind == 8 && t->has_tile) {
        text_add(&t->out, test_between(0, 1) ? "tile[%s]" : "tile[191 - %s]", column);
    } else if (kind == 9 && t->has_local) {
        text_add(&t->out, "x");
    } else if (kind >= 10 && t->has_at) {
        text_add(&t->out, "f32(c[%s, at * 8 + %s])", t->row, column);
    } else {
        text_add(&t->out, "f32(");
        element_of(t, which, column);
        text_add(&t->out, ")");
    }
}

static void store(struct runs_text *t, int which, const char *column) {
    static const char *const ends[] = {"", "", "", " where %s %% 5 != 1"};
    bool is_again = which == IN && test_between(0, 7) == 0;
    t->in_place = is_again || test_between(0, 2) == 0;
    if (is_again)
        text_add(&t->out, "for q in 3 { ");
    element_of(t, which, column);
    text_add(&t->out, " = %s(", t->type[which]);
    formula(t, column, RUNS_DEPTH);
    text_add(&t->out, ")");
    text_add(&t->out, one_of(COUNT(ends), ends), column);
    text_add(&t->out, is_again ? " }\n" : "\n");
    t->in_place = false;
}

// Writes a body for one column, of up to six statements.
static void body(struct runs_text *t, const char *column) {
    bool has_local = test_between(0, 2) == 0, has_at = t->has_at && test_between(0, 1),
         is_branch = test_between(0, 5) == 0;
    t->has_at = false;
    if (has_local) {
        text_add(&t->out, "x = ");
        formula(t, column, 1);
        text_add(&t->out, "\n");
    }
    if (has_at)
        text_add(&t->out, "at = %s %% 3\n", column);
    t->has_local = has_local;
    t->has_at = has_at;
    if (has_local && test_between(0, 2) == 0) {
        text_add(&t->out, "for q in %lld { x = x + f32(b[%s, q]) * ", (long long)test_between(1, 8), t->row);
        formula(t, column, 0);
        text_add(&t->out, " }\n");
    }
    if (is_branch)
        text_add(&t->out, "if %s %% 4 != 2 {\n", column);
    store(t, IN, column);
    if (is_branch)
        text_add(&t->out, "}\n");
    if (test_between(0, 1))
        store(t, IN + 1, column);
    if (test_between(0, 5) == 0)
        store(t, IN, column);
    t->has_local = t->has_at = false;
}

static void map_of_columns(struct runs_text *t, const char *extent) {
    int run = 1 << test_between(0, 4);
    if (test_between(0, 2)) {
        text_add(&t->out, "map j in %s {\n", extent);
        body(t, "j");
        text_add(&t->out, "}\n");
        return;
    }
    char column[32];
    static const char *const loops[] = {"unroll", "for", "vector"};
    snprintf(column, sizeof column, "(j * %d + k)", run);
    text_add(&t->out, "map j in %s // %d { %s k in %d {\n", extent, run, one_of(COUNT(loops), loops), run);
    body(t, column);
    text_add(&t->out, "} }\n");
}

static void in_grid(struct runs_text *t, const char *extent) {
    static const char *const more[] = {"2", "v[j]", "v[191 - j]", "f32(b[i, j])"};
    text_add(&t->out, "grid i in n, threads %d {\n", 32 << test_between(0, 2));
    t->has_tile = test_between(0, 2) == 0;
    if (t->has_tile) {
        text_add(&t->out, "%s tile: f32[192]\n", test_between(0, 1) ? "shared" : "fragment");
        text_add(&t->out, "map j in 192 { tile[j] = load(v[j], j < m, 2) }\n");
        for (int64_t maps = test_between(0, 2); maps; maps--)
            text_add(&t->out, "map j in 192 { tile[j] = tile[j] + %s }\n", one_of(COUNT(more), more));
        extent = "192";
    }
    for (int64_t maps = test_between(1, 2); maps; maps--)
        map_of_columns(t, extent);
    text_add(&t->out, "}\n");
}

static void try_runs(bool on_device) {
    static const char *const types[] = {"f32", "f16", "bf16", "u8", "i32", "f64", "i8"};
    static const char *const facts[] = {"m >= 192", "m % 2 == 0, m >= 192", "m % 8 == 0, m >= 192",
                                        "m % 16 == 0, m >= 192"};
    static const int divisors[] = {1, 2, 8, 16}, offsets[] = {0, 0, 0, 4, 8, 3};
    struct runs_text t = {.row = "i"};

    int fact = (int)test_between(0, COUNT(facts) - 1), pad = (int)test_between(0, 2) * 8;
    int64_t m = (192 + test_between(0, 160)) / divisors[fact] * divisors[fact], n = test_between(1, 3);
    text_add(&t.out, "kernel f%s<n, m>(", test_between(0, 1) ? "" : " index 32 ");
    for (int i = 0; i < IN + OUT; i++) {
        t.type[i] = one_of(test_between(0, 1) ? 1 : COUNT(types), types);
        t.offset[i] = pad ? offsets[test_between(0, COUNT(offsets) - 1)] : 0;
        if (i == IN)
            text_add(&t.out, "w: %s[m], v: f32[m]) -> (", one_of(COUNT(types), types));
        text_add(&t.out, "%c: %s[n, m + %d]%s", "abcyz"[i], t.type[i], pad,
                 i < IN    ? ", "
                 : i == IN ? ", "
                           : ")");
    }
    text_add(&t.out, " where %s {\n", facts[fact]);
    t.has_at = pad == 16;
    int form = (int)test_between(0, 3);
    const char *extent = test_between(0, 2) ? "m" : "192";
    if (form < 2)
        in_grid(&t, extent);
    else if (form == 2) {
        text_add(&t.out, "map i in n, j in %s {\n", extent);
        body(&t, "j");
        text_add(&t.out, "}\n");
    } else {
        t.row = "n - 1";
        map_of_columns(&t, extent);
    }
    text_add(&t.out, "}\n");
    static const char *const targets[] = {"cuda_tiles", "hip_tiles", "opencl_tiles"};
    if (!t.out.failed && on_device)
        tile_trial(t.out.data, "opencl", (int64_t[]){n, m}, 1e-5);
    else if (!t.out.failed)
        tile_trial_of_groups(t.out.data, render_target(one_of(COUNT(targets), targets)), (int64_t[]){n, m},
                             0);
    text_free(&t.out);
}

TEST(fuzz_tile_runs) {
    for (int i = 0; i < (test_quick() ? RUNS_QUICK : test_long() ? RUNS_LONG : RUNS_USUAL); i++)
        try_runs(false);
}

TEST(fuzz_tile_runs_on_opencl) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    for (int i = 0; i < (test_quick() ? 1 : test_long() ? 200 : 4); i++)
        try_runs(true);
}
