// test_bm1690_golden.c - the emulator compared bit by bit with vectors of the vendor's reference model.
//
// golden/first.npz has inputs and outputs of 49 cases, as bits. An array that equals an earlier one is stored
// once: `same` has its name.
// once: `same` says under which name.

#include "on_chip.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    uint64_t out, a, b;
    int32_t rows, columns, depth, dtype, operation, times;
};

static const struct {
    const char *name;
    int code, bytes;
} dtypes[] = {{"f32", BM1690_FP32, 4}, {"f16", BM1690_FP16, 2}, {"bf16", BM1690_BFP16, 2}};

static zl_array find(zl_file *file, const char *format, const char *a, const char *b, const char *c) {
    char name[128];
    snprintf(name, sizeof name, format, a, b, c);
    return zl_file_find(file, name);
}

// Returns the bits of an array, in the order of its elements, or of its transpose. The caller frees them with
// memory_free.
static uint8_t *bits_of(zl_array a, bool is_transposed) {
    zl_array x = zl_contiguous(is_transposed ? zl_transpose(a, ZL_AXES(1, 0)) : a, false);
    size_t bytes = (size_t)zl_size(x) * zl_dtype_size(zl_dtype_of(x));
    uint8_t *bits = memory_alloc(bytes);
    if (bits && zl_eval(x))
        memcpy(bits, zl_data(x), bytes);
    return bits;
}

struct golden {
    struct on_chip chip;
    zl_file *file;
    int cases;
};

static bool open_golden(struct golden *g, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/bm1690/golden/%s", ZL_TEST_DIR, name);
    *g = (struct golden){.file = zl_load_npz(path)};
    return CHECK(g->file) && on_chip_open_file(&g->chip, "golden.c");
}

static void close_golden(struct golden *g) {
    on_chip_close(&g->chip);
    zl_file_free(g->file);
}

static void check_case(struct golden *g, const char *name, const char *entry, struct arguments k, zl_array a,
                       zl_array b, bool b_is_transposed, zl_array out) {
    if (!CHECK(a && out))
        return;
    size_t item = zl_dtype_size(zl_dtype_of(out)), bytes = (size_t)zl_size(out) * item;
    uint8_t *x = bits_of(a, false), *y = b ? bits_of(b, b_is_transposed) : NULL,
            *expected = bits_of(out, false), *found = memory_zero(bytes);
    k.a = on_chip_put(&g->chip, x, (size_t)zl_size(a) * zl_dtype_size(zl_dtype_of(a)));
    k.b = b ? on_chip_put(&g->chip, y, (size_t)zl_size(b) * zl_dtype_size(zl_dtype_of(b))) : 0;
    k.out = on_chip_put(&g->chip, NULL, bytes);
    if (!CHECK(bm1690_launch(g->chip.chip, g->chip.module, entry, &k, sizeof k, NULL, NULL)))
        test_note("%s: %s", name, zl_error());
    CHECK(bm1690_read(g->chip.chip, k.out, found, bytes));
    size_t wrong = 0, first = 0;
    for (size_t i = bytes / item; i-- > 0;)
        if (memcmp(found + i * item, expected + i * item, item)) {
            wrong++;
            first = i;
        }
    if (!CHECK_EQ_INT((int64_t)wrong, 0)) {
        uint32_t f = 0, e = 0, p = 0;
        memcpy(&f, found + first * item, item);
        memcpy(&e, expected + first * item, item);
        memcpy(&p, x + first * item, item);
        test_note("%s: element %zu is %x, not %x (a %x)", name, first, f, e, p);
    }
    g->cases++;
    on_chip_forget(&g->chip);
    memory_free(x);
    memory_free(y);
    memory_free(expected);
    memory_free(found);
}

TEST(golden_elementwise) {
    static const char *const ops[] = {"add", "sub", "mul", "max", "min"}, *const others[] = {"exp", "rsqrt",
                                                                                             "sqrt"};
    struct golden g;
    REQUIRE(open_golden(&g, "first.npz"));
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        const char *dtype = dtypes[d].name;
        zl_array a = find(g.file, "%s.%s.%s", "add", dtype, "a"),
                 b = find(g.file, "%s.%s.%s", "add", dtype, "b");
        struct arguments k = {.rows = 70, .columns = 37, .dtype = dtypes[d].code};
        for (size_t i = 0; i < COUNT(ops); i++) {
            k.operation = (int)i;
            check_case(&g, ops[i], "binary", k, a, b, false, find(g.file, "%s.%s.%s", ops[i], dtype, "out"));
        }
        k.operation = 0;
        check_case(&g, others[0], "unary", k, a, NULL, false,
                   find(g.file, "%s.%s.%s", others[0], dtype, "out"));
    }
    struct arguments k = {.rows = 70, .columns = 37, .dtype = BM1690_FP32};
    zl_array x = find(g.file, "%s.%s.%s", "rsqrt", "f32", "a");
    for (size_t i = 1; i < COUNT(others); i++) {
        k.operation = (int)i;
        check_case(&g, others[i], "unary", k, x, NULL, false,
                   find(g.file, "%s.%s.%s", others[i], "f32", "out"));
    }
    k.operation = 5;
    check_case(&g, "div", "binary", k, find(g.file, "%s.%s.%s", "div", "f32", "a"),
               find(g.file, "%s.%s.%s", "div", "f32", "b"), false,
               find(g.file, "%s.%s.%s", "div", "f32", "out"));
    for (size_t d = 1; d < COUNT(dtypes); d++) {
        k.dtype = dtypes[d].code;
        check_case(&g, "cast", "cast", k, find(g.file, "%s.%s.%s", "cast.f32", "f16", "x"), NULL, false,
                   find(g.file, "%s.%s.%s", "cast.f32", dtypes[d].name, "out"));
    }
    CHECK_EQ_INT(g.cases, 23);
    close_golden(&g);
}

TEST(golden_reductions) {
    static const char *const ops[] = {"pool_sum_w", "pool_max_w"};
    struct golden g;
    REQUIRE(open_golden(&g, "first.npz"));
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t i = 0; i < COUNT(ops); i++)
            check_case(
                &g, ops[i], "reduce",
                (struct arguments){.rows = 70, .columns = 64, .dtype = dtypes[d].code, .operation = (int)i},
                find(g.file, "%s.%s.%s", ops[0], dtypes[d].name, "x"), NULL, false,
                find(g.file, "%s.%s.%s", ops[i], dtypes[d].name, "out"));
    CHECK_EQ_INT(g.cases, 6);
    close_golden(&g);
}

TEST(golden_products) {
    static const struct {
        const char *name;
        int rows, depth, columns;
    } shape[] = {{"70x100x90", 70, 100, 90}, {"5x33x17", 5, 33, 17}, {"128x64x64", 128, 64, 64}};
    struct golden g;
    REQUIRE(open_golden(&g, "first.npz"));
    for (size_t d = 1; d < COUNT(dtypes); d++)
        for (size_t i = 0; i < COUNT(shape); i++) {
            const char *dtype = dtypes[d].name, *size = shape[i].name;
            struct arguments k = {.rows = shape[i].rows,
                                  .columns = shape[i].columns,
                                  .depth = shape[i].depth,
                                  .dtype = dtypes[d].code,
                                  .times = 1};
            char once[64], twice[64];
            snprintf(once, sizeof once, "mm.nn.%s", dtype);
            snprintf(twice, sizeof twice, "mm.nn_acc2.%s", dtype);
            zl_array a = find(g.file, "%s.%s.%s", once, size, "a"),
                     b = find(g.file, "%s.%s.%s", once, size, "b"),
                     out = find(g.file, "%s.%s.%s", once, size, "out");
            check_case(&g, once, "product", k, a, b, false, out);
            k.operation = 1;
            check_case(&g, "mm.nt", "product", k, a, b, true, out); // the same bits
            k.operation = 0;
            k.times = 2;
            check_case(&g, twice, "product", k, a, b, false, find(g.file, "%s.%s.%s", twice, size, "out"));
        }
    for (int times = 1; times <= 2; times++) {
        const char *name = times == 1 ? "mm32.acc0" : "mm32.acc1";
        check_case(&g, name, "product_f32",
                   (struct arguments){.rows = 20, .depth = 51, .columns = 48, .times = times},
                   find(g.file, "%s%s.%s", name, "", "a"), find(g.file, "%s%s.%s", name, "", "b"), false,
                   find(g.file, "%s%s.%s", name, "", "out"));
    }
    CHECK_EQ_INT(g.cases, 20);
    close_golden(&g);
}

// golden/series.npz has, for each function, x and its results.
TEST(golden_series) {
    static const char *const names[] = {"sigmoid", "silu", "tanh", "erf", "gelu", "log", "sin", "cos"};
    struct golden g;
    REQUIRE(open_golden(&g, "series.npz"));
    for (size_t i = 0; i < COUNT(names); i++)
        check_case(&g, names[i], "series", (struct arguments){.rows = 64, .columns = 24, .operation = (int)i},
                   find(g.file, "%s%s%s", names[i], ".", "x"), NULL, false,
                   find(g.file, "%s%s%s", names[i], ".", "out"));
    close_golden(&g);
}
