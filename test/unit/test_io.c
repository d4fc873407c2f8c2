// test_io.c - src/io: saving and loading arrays, in every format, dtype and layout; invalid files.

#include <stdio.h>
#include <string.h>

#include "io/io.h"
#include "op/op_test.h"

static const char *path_to(const char *name) {
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name);
    return path[turn];
}

static zl_array sample(zl_shape shape, zl_dtype dtype) {
    zl_array key = zl_random_key((int64_t)(test_random() >> 2));
    zl_array bits = zl_random_uniform(zl_scalar(-3), zl_scalar(3), shape, ZL_FLOAT32, key);
    return dtype == ZL_BOOL ? zl_greater(bits, zl_scalar(0)) : zl_astype(bits, dtype);
}

static void check_same(zl_array got, zl_array expected) {
    if (!CHECK(got && zl_dtype_of(got) == zl_dtype_of(expected) && zl_ndim(got) == zl_ndim(expected)))
        return;
    for (int i = 0; i < zl_ndim(got); i++)
        CHECK_EQ_INT(zl_dim(got, i), zl_dim(expected, i));
    CHECK(zl_item(zl_array_equal(got, expected, false)) == 1);
}

static const zl_shape shapes[] = {{NULL, 0},
                                  {(int64_t[]){1}, 1},
                                  {(int64_t[]){0, 3}, 2},
                                  {(int64_t[]){5, 3}, 2},
                                  {(int64_t[]){2, 1, 4, 3}, 4},
                                  {(int64_t[]){700, 800}, 2}};

static bool fits(const char *format, zl_dtype dtype) {
    return strcmp(format, "gguf") || dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT32 ||
           dtype == ZL_FLOAT64 || (dtype >= ZL_INT8 && dtype <= ZL_INT64);
}

// Memory to arrays ------------------------------------------------------------------------------------------

static zl_file *through_memory(const char *format, const zl_file *file) {
    size_t bytes = 0;
    void *data = zl_save_memory(format, file, &bytes);
    zl_file *back = data ? zl_load_memory(format, data, bytes) : NULL;
    zl_free(data);
    return back;
}

static void check_round(const char *format, zl_file *file) {
    zl_file *back = through_memory(format, file);
    if (!back && zl_error_which() == ZL_ERROR_LIBRARY) {
        zl_clear_error(); // zlib is not installed
    } else if (CHECK(back) && CHECK_EQ_INT(zl_file_count(back), zl_file_count(file))) {
        for (int i = 0; i < zl_file_count(file); i++) {
            CHECK_STR(zl_file_name(back, i), zl_file_name(file, i));
            check_same(zl_file_find(back, zl_file_name(file, i)), zl_file_array(file, i));
        }
    }
    zl_file_free(back);
}

static const char *const many[] = {"npz", "npz_compressed", "safetensors", "gguf"};

TEST(io_every_dtype_and_shape) {
    for (size_t f = 0; f < COUNT(many); f++)
        for (int d = 0; d < ZL_DTYPE_COUNT; d++)
            if (fits(many[f], (zl_dtype)d)) {
                zl_file *file = zl_file_new();
                for (size_t i = 0; i < COUNT(shapes) - test_quick(); i++) {
                    char name[32];
                    snprintf(name, sizeof name, "a \"%zu\" \xc3\xa9\n", i);
                    CHECK(zl_file_add(file, name, sample(shapes[i], (zl_dtype)d)));
                }
                check_round(many[f], file);
                zl_file_free(file);
            }
}

TEST(io_npy_files) {
    for (int d = 0; d < ZL_DTYPE_COUNT; d++)
        for (size_t i = 0; i < COUNT(shapes); i++)
            ZL_SCOPE {
                zl_array a = sample(shapes[i], (zl_dtype)d);
                const char *path = path_to("a.npy");
                CHECK(zl_save(path, a));
                check_same(zl_load(path), a);
            }
}

TEST(io_strided_arrays_are_written_in_order) {
    zl_array a = zl_transpose(op_test_range(ZL_SHAPE(3, 4), ZL_FLOAT32), ZL_ALL);
    zl_array b = zl_broadcast_to(op_test_range(ZL_SHAPE(2), ZL_INT32), ZL_SHAPE(3, 2));
    for (size_t f = 0; f < COUNT(many); f++) {
        zl_file *file = zl_file_new();
        CHECK(zl_file_add(file, "a", a) && zl_file_add(file, "b", b));
        check_round(many[f], file);
        zl_file_free(file);
    }
    CHECK(zl_save(path_to("strided"), a)); // the extension is added
    check_same(zl_load(path_to("strided.npy")), a);
}

TEST(io_files_may_be_written_over_what_was_loaded) {
    zl_array old = sample(ZL_SHAPE(600, 700), ZL_FLOAT32);
    REQUIRE(zl_eval(old) && zl_save(path_to("a.npy"), old));
    zl_array mapped = zl_load(path_to("a.npy"));
    REQUIRE(zl_save(path_to("a.npy"), zl_add(mapped, zl_scalar(1))));
    check_same(mapped, old);
    check_same(zl_load(path_to("a.npy")), zl_add(old, zl_scalar(1)));
}

TEST(io_named_files) {
    zl_file *file = zl_file_new();
    zl_array a = sample(ZL_SHAPE(4, 4), ZL_FLOAT32);
    CHECK(zl_file_add(file, "a", a));
    CHECK(zl_savez(path_to("x"), file) && zl_save_safetensors(path_to("x"), file) &&
          zl_save_gguf(path_to("x"), file));
    zl_file *npz = zl_load_npz(path_to("x.npz")), *st = zl_load_safetensors(path_to("x.safetensors"));
    zl_file *gguf = zl_load_gguf(path_to("x.gguf"));
    check_same(zl_file_find(npz, "a"), a);
    check_same(zl_file_find(st, "a"), a);
    check_same(zl_file_find(gguf, "a"), a);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_file_find(st, "b"));
    CHECK(zl_file_name(st, 1) == NULL && zl_file_array(st, -1) == NULL);
    zl_file_free(npz);
    zl_file_free(st);
    zl_file_free(gguf);
    zl_file_free(file);
}

// Metadata --------------------------------------------------------------------------------------------------

static void add_text(zl_file *file, const char *name, const char *value) {
    zl_text text = {value, strlen(value)};
    CHECK(zl_file_add_metadata(file, &(zl_metadata){.name = name, .text = &text, .texts = 1}));
}

TEST(io_metadata_of_safetensors) {
    zl_file *file = zl_file_new();
    CHECK(zl_file_add(file, "w", sample(ZL_SHAPE(2), ZL_FLOAT32)));
    add_text(file, "format", "mlx");
    add_text(file, "a \\ \"b\"", "\xf0\x9f\x8c\x8d\t");
    zl_file *back = through_memory("safetensors", file);
    zl_metadata m;
    if (CHECK(back && zl_file_metadata(back, 1, &m))) {
        CHECK_STR(m.name, "a \\ \"b\"");
        CHECK_STR(m.text->data, "\xf0\x9f\x8c\x8d\t");
        CHECK(!zl_file_metadata(back, 2, &m));
    }
    zl_file_free(back);
    CHECK(zl_file_add_metadata(file, &(zl_metadata){.name = "n", .array = zl_scalar(1)}));
    size_t bytes;
    CHECK_ERROR(ZL_ERROR_VALUE, zl_save_memory("safetensors", file, &bytes));
    zl_file_free(file);
}

TEST(io_metadata_of_gguf) {
    zl_file *file = zl_file_new();
    const zl_text list[] = {{"one", 3}, {"", 0}, {"t\0o", 3}};
    CHECK(zl_file_add_metadata(file,
                               &(zl_metadata){.name = "list", .text = list, .texts = 3, .is_list = true}));
    CHECK(zl_file_add_metadata(file,
                               &(zl_metadata){.name = "n", .array = op_test_range(ZL_SHAPE(3), ZL_UINT16)}));
    CHECK(zl_file_add_metadata(file, &(zl_metadata){.name = "x", .array = zl_scalar(1.5)}));
    add_text(file, "t", "text");
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_file_add_metadata(file, &(zl_metadata){.name = "t", .array = zl_scalar(1.5)}));
    zl_file *back = through_memory("gguf", file);
    zl_metadata m[4];
    for (int i = 0; i < 4; i++)
        REQUIRE(back && zl_file_metadata(back, i, &m[i]));
    CHECK(m[0].is_list && m[0].texts == 3 && m[0].text[2].bytes == 3 &&
          !memcmp(m[0].text[2].data, "t\0o", 3));
    CHECK_ARRAY(m[1].array, ZL_UINT16, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ARRAY(m[2].array, ZL_FLOAT32, ZL_SCALAR, 1.5);
    CHECK_STR(m[3].text->data, "text");
    zl_file_free(back);
    zl_file_free(file);
}

// Files of others -------------------------------------------------------------------------------------------

static zl_file *load_npy(const char *dict, const void *data, size_t bytes) {
    char file[512];
    size_t length = strlen(dict);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = (char)length, file[9] = 0;
    memcpy(file + 10, dict, length);
    memcpy(file + 10 + length, data, bytes);
    return zl_load_memory("npy", file, 10 + length + bytes);
}

TEST(io_npy_of_other_orders) {
    const float rows[] = {1, 2, 3, 4, 5, 6};
    zl_file *f = load_npy("{'shape': (2, 3,), 'fortran_order': True, \"descr\": '<f4'}\n", rows, sizeof rows);
    CHECK_ARRAY(zl_file_array(f, 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 1, 3, 5, 2, 4, 6);
    zl_file_free(f);
    f = load_npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", "\1\2\377\376", 4);
    CHECK_ARRAY(zl_file_array(f, 0), ZL_INT16, ZL_SHAPE(2), 258, -2);
    zl_file_free(f);
    f = load_npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\2\1", 3);
    CHECK_ARRAY(zl_file_array(f, 0), ZL_BOOL, ZL_SHAPE(3), 0, 1, 1);
    zl_file_free(f);
}

TEST(io_npy_that_is_wrong) {
    static const char *const bad[] = {
        "{'descr': '<c16', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'shape': (-1,)}",
        "{'descr': '<f4'",
        "{'descr': '<f4', 'shape': (1}",
        "{'descr': '<f4', 'fortran_order': No, 'shape': (1,)}",
        "{}",
        "",
        "{'descr': 4}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3)}",
        "{'what': '<f4'}",
        "{'descr': '<f4', 'shape': (99999999999999999999,)}",
        "{'descr': '<f8', 'shape': (4294967296, 4294967296)}",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_ERROR(ZL_ERROR_IO, load_npy(bad[i], "1234", 4));
}

TEST(io_npy_that_ends_early_fails_when_it_is_read) {
    zl_array a = sample(ZL_SHAPE(16), ZL_FLOAT32);
    zl_file *file = zl_file_new();
    size_t bytes = 0;
    CHECK(zl_file_add(file, "", a));
    void *data = zl_save_memory("npy", file, &bytes);
    REQUIRE(data && file_write(path_to("cut.npy"), data, bytes - 4));
    zl_array cut = zl_load(path_to("cut.npy"));
    REQUIRE(cut);
    CHECK_ERROR(ZL_ERROR_IO, zl_eval(zl_add(cut, zl_scalar(1))));
    CHECK_HAS(test_last_error(), "cut.npy");
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npy", data, bytes - 4));
    zl_free(data);
    zl_file_free(file);
}

static zl_file *load_safetensors(const char *json, const char *data, size_t bytes) {
    char file[1024] = {(char)strlen(json)};
    memcpy(file + 8, json, strlen(json));
    memcpy(file + 8 + strlen(json), data, bytes);
    return zl_load_memory("safetensors", file, 8 + strlen(json) + bytes);
}

TEST(io_safetensors_of_others) {
    zl_file *f =
        load_safetensors("{ \"\\u00e9\\ud83c\\udf0d\" : {\"dtype\":\"I16\", \"x\": [1, {\"y\": null}], "
                         "\"shape\":[2],\"data_offsets\":[1,5]} }",
                         "\7\1\0\2\0", 5);
    CHECK_ARRAY(zl_file_find(f, "\xc3\xa9\xf0\x9f\x8c\x8d"), ZL_INT16, ZL_SHAPE(2), 1,
                2); // at an unaligned address
    zl_file_free(f);
}

TEST(io_safetensors_that_are_wrong) {
    static const char *const bad[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F3\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "[1]",
        "{\"a\"",
        "{\"a\":{\"dtype\":\"\\u12\"}}",
        "{\"a\\u0000b\":1}",
        "{\"__metadata__\":{\"a\":1}}",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_ERROR(ZL_ERROR_IO, load_safetensors(bad[i], "1234", 4));
    const char *twice = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                        "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    char file[300] = {(char)strlen(twice)};
    memcpy(file + 8, twice, strlen(twice));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_load_memory("safetensors", file, 8 + strlen(twice) + 1));
}

// One block of 32 numbers: a scale of 0.5, and the codes 0 to 15 twice.
TEST(io_gguf_of_blocks) {
    unsigned char file[256] = "GGUF\3\0\0\0\1", *at = file + 24, *start = file + 64;
    memcpy(at, "\10\0\0\0\0\0\0\0t.weight\1\0\0\0\40\0\0\0\0\0\0\0\2", 8 + 8 + 4 + 8 + 1);
    memcpy(start, "\0\70", 2); // float16
    for (int i = 0; i < 16; i++)
        start[2 + i] = (unsigned char)(i | i << 4);
    zl_file *f = zl_load_memory("gguf", file, 64 + 18);
    zl_array part[] = {zl_file_find(f, "t.weight"), zl_file_find(f, "t.scales"), zl_file_find(f, "t.biases")};
    for (int i = 0; i < 3; i++)
        part[i] = zl_expand_dims(part[i], ZL_AXES(0));
    zl_array x = zl_dequantize(part[0], part[1], part[2], 32, 4, NULL, NULL, ZL_FLOAT32);
    if (CHECK(zl_eval(x)))
        for (int i = 0; i < 32; i++)
            CHECK_EQ_F64(zl_data_f32(x)[i], 0.5 * (i % 16 - 8));
    zl_file_free(f);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("gguf", file, 64 + 17));
    file[24 + 28] = 7; // an unknown type of elements
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("gguf", file, 64 + 18));
}

TEST(io_calls_that_are_wrong) {
    size_t bytes;
    zl_file *file = zl_file_new();
    CHECK_ERROR(ZL_ERROR_VALUE, zl_load(NULL));
    CHECK_ERROR(ZL_ERROR_IO, zl_load(path_to("none.npy")));
    CHECK_ERROR(ZL_ERROR_IO, zl_load_gguf(test_folder()));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_load_memory("zip", "", 0));
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", "", 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_load_memory("npz", NULL, 4));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_save_memory("npy", file, &bytes));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_save_memory("npz", NULL, &bytes));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_savez(NULL, file));
    CHECK_ERROR(ZL_ERROR_IO, zl_savez(path_to("none/x.npz"), file));
    CHECK(!zl_save(path_to("x.npy"), NULL));
    CHECK(zl_file_add(file, "a", zl_astype(zl_scalar(1), ZL_COMPLEX64)));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_file_add(file, "a", zl_scalar(1)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_save_memory("gguf", file, &bytes));
    zl_file_free(file);
    zl_file_free(NULL);
}
