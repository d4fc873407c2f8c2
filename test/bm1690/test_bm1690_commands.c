// test_bm1690_commands.c - single commands on the emulator, compared bit by bit with the vendor's reference
// model.
//
// Each file of golden/ that tool/bm1690/golden.py made has device C and, for each of its cases, the inputs
// and the model's outputs. ZL_TEST_BM1690 names another folder of such files: make test-bm1690-vendor writes
// one with new shapes and values.

#include "on_chip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 12 };

struct file {
    zl_file *npz;
    const uint8_t *text, *names, *data, *before, *expected;
    const int32_t (*row)[4]; // case, whether it is an output, offset, bytes
    size_t text_bytes, name_bytes;
    int rows;
};

static const void *bytes_of(zl_file *npz, const char *name, size_t *count) {
    zl_array a = zl_file_find(npz, name);
    if (!CHECK(a && zl_eval(a)))
        return NULL;
    if (count)
        *count = (size_t)zl_size(a);
    return zl_data(a);
}

static bool open_file(struct file *f, const char *group) {
    const char *chosen = getenv("ZL_TEST_BM1690");
    char path[600];
    snprintf(path, sizeof path, "%s/%s.npz", chosen ? chosen : ZL_TEST_DIR "/bm1690/golden", group);
    size_t numbers = 0;
    *f = (struct file){.npz = zl_load_npz(path)};
    if (!CHECK(f->npz))
        return false;
    f->text = bytes_of(f->npz, "text", &f->text_bytes);
    f->names = bytes_of(f->npz, "names", &f->name_bytes);
    f->data = bytes_of(f->npz, "data", NULL);
    f->before = bytes_of(f->npz, "before", NULL);
    f->expected = bytes_of(f->npz, "expected", NULL);
    f->row = bytes_of(f->npz, "table", &numbers);
    f->rows = (int)(numbers / 4);
    return f->text && f->names && f->row;
}

// Returns a case's line in the list of names.
static const char *name_of(const struct file *f, int index, int *length) {
    const char *at = (const char *)f->names, *end = at + f->name_bytes;
    for (; index > 0; index--)
        at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    *length = (int)((stop ? stop : end) - at);
    return at;
}

static void note(const struct file *f, int index, const char *format, size_t a, unsigned b, unsigned c) {
    int length;
    const char *name = name_of(f, index, &length);
    char more[160];
    snprintf(more, sizeof more, format, a, b, c);
    test_note("%.*s: %s", length, name, more);
}

// Compares the outputs of the case whose first row is `first`.
static void check_outputs(struct file *f, struct on_chip *chip, int first, int count,
                          const uint64_t *address) {
    for (int i = first; i < first + count; i++) {
        size_t bytes = (size_t)f->row[i][3], wrong = 0;
        const uint8_t *expected = f->expected + f->row[i][2];
        uint8_t *found = memory_zero(bytes + 1);
        if (f->row[i][1] && CHECK(found && bm1690_read(chip->chip, address[i - first], found, bytes))) {
            while (wrong < bytes && found[wrong] == expected[wrong])
                wrong++;
            if (!CHECK(wrong == bytes))
                note(f, f->row[i][0], "byte %zu is %02x, not %02x", wrong, found[wrong], expected[wrong]);
        }
        memory_free(found);
    }
}

static void check_case(struct file *f, struct on_chip *chip, int first, int count) {
    uint64_t address[MOST_ARGUMENTS] = {0};
    char entry[32];
    if (!CHECK(count <= MOST_ARGUMENTS))
        return;
    for (int i = 0; i < count; i++) {
        const int32_t *row = f->row[first + i];
        address[i] = on_chip_put(chip, (row[1] ? f->before : f->data) + row[2], (size_t)row[3]);
    }
    snprintf(entry, sizeof entry, "case_%d", f->row[first][0]);
    if (CHECK(bm1690_launch(chip->chip, chip->module, entry, address, sizeof address[0] * (size_t)count, NULL,
                            NULL))) {
        check_outputs(f, chip, first, count, address);
    } else {
        note(f, f->row[first][0], "refused", 0, 0, 0);
        test_note("%s", zl_error());
        zl_clear_error();
    }
    on_chip_forget(chip);
}

static void check_group(const char *group) {
    struct file f;
    if (open_file(&f, group)) {
        struct on_chip chip;
        char *text = memory_zero(f.text_bytes + 1);
        REQUIRE(text);
        memcpy(text, f.text, f.text_bytes);
        if (on_chip_open(&chip, text))
            for (int first = 0, i = 1; i <= f.rows; i++)
                if (i == f.rows || f.row[i][0] != f.row[first][0]) {
                    check_case(&f, &chip, first, i - first);
                    first = i;
                }
        on_chip_close(&chip);
        memory_free(text);
    }
    zl_file_free(f.npz);
}

// Each group is a function of tool/bm1690/cases.py.
// clang-format off
#define GROUPS(GROUP)                                                                                 \
    GROUP(integer) GROUP(bitwise) GROUP(compare) GROUP(select) GROUP(cast) GROUP(unary) GROUP(move)   \
    GROUP(gather) GROUP(reduce_l2) GROUP(sort) GROUP(matrix8) GROUP(pool8) GROUP(function)            \
    GROUP(matrix16) GROUP(pool) GROUP(copies) GROUP(scalars) GROUP(composed) GROUP(bias)              \
    GROUP(places) GROUP(matrix32) GROUP(constants)
// clang-format on
#define GROUP(NAME)         \
    TEST(commands_##NAME) { \
        check_group(#NAME); \
    }
GROUPS(GROUP)
#undef GROUP

static bool calls(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length)
        if (at[length] == '(')
            return true;
    return false;
}

static bool is_called(char *const *text, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (text[i] && calls(text[i], name))
            return true;
    return false;
}

// Only golden vectors show whether our numbers are the model's, so each row of the table of commands needs
// some.
TEST(every_command_has_golden_vectors) {
#define GROUP(NAME) #NAME,
    static const char *const groups[] = {GROUPS(GROUP)};
#undef GROUP
    char *text[COUNT(groups) + 1] = {file_read(ZL_TEST_DIR "/bm1690/device/golden.c", NULL)};
    CHECK(text[0]);
    for (size_t i = 0; i < COUNT(groups); i++) {
        struct file f;
        text[i + 1] = open_file(&f, groups[i]) ? memory_zero(f.text_bytes + 1) : NULL;
        if (CHECK(text[i + 1]))
            memcpy(text[i + 1], f.text, f.text_bytes);
        zl_file_free(f.npz);
    }
    for (int i = 0; i < bm1690_command_count; i++)
        if (bm1690_commands[i].engine != BM1690_CONTROL &&
            !CHECK(is_called(text, COUNT(text), bm1690_commands[i].name)))
            test_note("%s is in no group of golden vectors", bm1690_commands[i].name);
    for (size_t i = 0; i < COUNT(text); i++)
        memory_free(text[i]);
}
