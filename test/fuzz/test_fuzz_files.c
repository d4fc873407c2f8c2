// test_fuzz_files.c - files with random damage: an error or arrays, never a crash or a read outside them.

#include <string.h>

#include "base/base.h"
#include "op/op_test.h"

static const char *const formats[] = {"npy", "npz", "npz_compressed", "safetensors", "gguf"};

static zl_file *make_file(const char *format) {
    zl_file *file = zl_file_new();
    zl_text texts[] = {{"one", 3}, {"two", 3}};
    CHECK(zl_file_add(file, "", op_test_range(ZL_SHAPE(3, 2), ZL_FLOAT32)));
    if (!strcmp(format, "npy"))
        return file;
    CHECK(zl_file_add(file, "x.weight", op_test_range(ZL_SHAPE(5), ZL_INT16)));
    CHECK(zl_file_add(file, "empty", zl_zeros(ZL_SHAPE(0, 2), ZL_INT32)));
    CHECK(zl_file_add_metadata(file, &(zl_metadata){.name = "text", .text = texts, .texts = 1}));
    if (strcmp(format, "gguf"))
        return file;
    CHECK(zl_file_add_metadata(file,
                               &(zl_metadata){.name = "list", .text = texts, .texts = 2, .is_list = true}));
    CHECK(zl_file_add_metadata(file,
                               &(zl_metadata){.name = "n", .array = op_test_range(ZL_SHAPE(3), ZL_UINT8)}));
    return file;
}

// A byte, a run of bytes, a number that is big or small, or the length.
static void damage(unsigned char *data, size_t *bytes) {
    static const uint64_t numbers[] = {0, 1, 2, 3, 8, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 60};
    size_t at = (size_t)test_between(0, (int64_t)*bytes - 1), left = *bytes - at;
    size_t wide = (size_t)1 << test_random() % 4;
    uint64_t number = numbers[test_random() % COUNT(numbers)];
    switch (test_random() % 6) {
    case 0: data[at] = (unsigned char)test_random(); break;
    case 1: data[at] ^= (unsigned char)(1 << test_random() % 8); break;
    case 2: memcpy(data + at, &number, MIN_OF(left, wide)); break;
    case 3: memmove(data + at, data + *bytes / 2, MIN_OF(left, *bytes / 2)); break;
    case 4: data[at] = (unsigned char)"0123456789-[]{}(),:\"'\\ .eTFnu"[test_random() % 29]; break;
    default: *bytes = test_random() % 4 ? *bytes : at + 1;
    }
}

// All that was loaded is read.
static void touch(const zl_file *file) {
    for (int i = 0; i < zl_file_count(file); i++)
        ZL_SCOPE
            zl_eval(zl_contiguous(zl_file_array(file, i), false));
}

static void try_damaged(const char *format, const void *data, size_t bytes, unsigned char *room) {
    memcpy(room, data, bytes);
    for (int64_t n = test_between(1, 4); n && bytes; n--)
        damage(room, &bytes);
    zl_file *file = zl_load_memory(format, room, bytes);
    if (file)
        touch(file);
    else
        CHECK(zl_error());
    zl_file_free(file);
    zl_clear_error();
}

TEST(damaged_files) {
    int64_t count = test_long() ? 1000000 : test_quick() ? 400 : 4000; // of each format
    for (size_t f = 0; f < COUNT(formats); f++) {
        zl_file *file = make_file(formats[f]);
        size_t bytes = 0;
        void *data = zl_save_memory(formats[f], file, &bytes);
        unsigned char *room = data ? memory_alloc(bytes) : NULL;
        if (!data && zl_error_which() == ZL_ERROR_LIBRARY)
            zl_clear_error();
        for (int64_t i = 0; room && i < count; i++)
            try_damaged(formats[f], data, bytes, room);
        memory_free(room);
        zl_free(data);
        zl_file_free(file);
    }
}

// Every beginning of a file, byte by byte.
TEST(files_that_end_early) {
    for (size_t f = 0; f < COUNT(formats); f++) {
        zl_file *file = make_file(formats[f]);
        size_t bytes = 0;
        char *data = zl_save_memory(formats[f], file, &bytes);
        if (!data && zl_error_which() == ZL_ERROR_LIBRARY)
            zl_clear_error();
        for (size_t cut = 0; data && cut < bytes; cut++) {
            zl_file *part = zl_load_memory(formats[f], data, cut);
            CHECK(part || zl_error());
            zl_file_free(part);
            zl_clear_error();
        }
        zl_free(data);
        zl_file_free(file);
    }
}
