// test_io_hostile.c - src/io: files made to cost time or memory, or to contradict themselves, and files that
// others change while they are in use.

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io.h"
#include "op/op_test.h"

// Returns a path in the test's folder. Uses four buffers in turn, as many as one test needs at the same time.
static const char *path_to(const char *name) {
    static char path[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name);
    return path[turn];
}

// Checks that the last error begins with a function's name and contains some words.
static void check_words(const char *function, const char *words) {
    char start[64];
    snprintf(start, sizeof start, "%s: ", function);
    CHECK(!strncmp(test_last_error(), start, strlen(start)));
    CHECK_HAS(test_last_error(), start);
    CHECK_HAS(test_last_error(), words);
}

static zl_file *file_of(const char *name, zl_array a) {
    zl_file *file = zl_file_new();
    CHECK(zl_file_add(file, name, a));
    return file;
}

static unsigned char *save_one(const char *format, const char *name, zl_array a, size_t *bytes) {
    zl_file *file = file_of(name, a);
    unsigned char *data = zl_save_memory(format, file, bytes);
    zl_file_free(file);
    return data;
}

// Many keys -------------------------------------------------------------------------------------------------

enum { KEYS = 80000 };
static const int64_t long_time =
    10000000000; // ns: comparing each key with all others takes several times as long

static void add_note(zl_file *file, const char *name) {
    zl_text text = {"v", 1};
    zl_file_add_metadata(file, &(zl_metadata){.name = name, .text = &text, .texts = 1});
}

static void check_quick(const char *format, const zl_file *file, int64_t start) {
    size_t bytes = 0;
    void *data = zl_save_memory(format, file, &bytes);
    zl_file *back = data ? zl_load_memory(format, data, bytes) : NULL;
    zl_metadata m;
    CHECK(back && zl_file_count(back) == zl_file_count(file));
    CHECK(zl_file_metadata(back, KEYS - 1, &m) == zl_file_metadata(file, KEYS - 1, &m));
    CHECK(clock_ns() - start < long_time);
    zl_file_free(back);
    zl_free(data);
}

TEST(io_many_keys_take_linear_time) {
    static const char *const formats[] = {"safetensors", "gguf"};
    for (size_t f = 0; f < COUNT(formats); f++) {
        int64_t start = clock_ns();
        zl_file *file = zl_file_new();
        char name[32];
        for (int i = 0; i < KEYS; i++) {
            snprintf(name, sizeof name, "key.%d", i);
            add_note(file, name);
        }
        check_quick(formats[f], file, start);
        zl_file_free(file);
    }
}

TEST(io_many_arrays_take_linear_time) {
    static const char *const formats[] = {"npz", "safetensors", "gguf"};
    int count = test_quick() ? 8000 : KEYS;
    zl_array a = op_test_range(ZL_SHAPE(1), ZL_FLOAT32);
    for (size_t f = 0; f < COUNT(formats); f++) {
        int64_t start = clock_ns();
        zl_file *file = zl_file_new();
        char name[32];
        for (int i = 0; i < count; i++) {
            snprintf(name, sizeof name, "array.%d", i);
            CHECK(zl_file_add(file, name, a));
        }
        check_quick(formats[f], file, start);
        zl_file_free(file);
    }
}

// Names with equal values of a hash without a seed: their first and third words make one of its factors 0.
TEST(io_colliding_keys_take_linear_time) {
    unsigned char key[17] = "\x85\xae\x67\xbb____\x3b\xa7\xca\x84____", other[17];
    memcpy(other, key, sizeof key);
    other[5] = 'x';
    CHECK(hash_bytes(key, 16, 0) == hash_bytes(other, 16, 0));
    CHECK(hash_bytes(key, 16, hash_secret()) != hash_bytes(other, 16, hash_secret()));
    int64_t start = clock_ns();
    zl_file *file = zl_file_new();
    for (int i = 0; i < KEYS; i++) {
        char digits[12];
        snprintf(digits, sizeof digits, "%08d", i);
        memcpy(key + 4, digits, 4);
        memcpy(key + 12, digits + 4, 4);
        add_note(file, (const char *)key);
    }
    check_quick("gguf", file, start);
    zl_file_free(file);
}

TEST(io_names_that_come_twice) {
    zl_file *file = zl_file_new();
    add_note(file, "kk");
    add_note(file, "ll");
    size_t bytes = 0;
    unsigned char *data = zl_save_memory("gguf", file, &bytes);
    zl_file_free(file);
    REQUIRE(data);
    unsigned char *at = memmem(data, bytes, "ll", 2);
    REQUIRE(at);
    memcpy(at, "kk", 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_load_memory("gguf", data, bytes));
    check_words("zl_load_memory", "'kk' twice");
    zl_free(data);
    file = file_of("__metadata__", zl_scalar(1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_save_memory("safetensors", file, &bytes));
    check_words("zl_save_memory", "'__metadata__'");
    zl_file_free(file);
}

// Archives --------------------------------------------------------------------------------------------------

enum { END_BYTES = 22, CENTRAL_BYTES = 46 };

static uint32_t u32_at(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(unsigned char *p, size_t value) {
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(value >> 8 * i);
}

static uint32_t directory_of(const unsigned char *data, size_t bytes) {
    return u32_at(data + bytes - END_BYTES + 16);
}

// Makes an archive whose member b is inside the data of its member a.
static unsigned char *make_overlap(size_t *bytes) {
    size_t in, out;
    unsigned char *inner = save_one("npz", "b", op_test_range(ZL_SHAPE(9), ZL_FLOAT32), &in);
    uint32_t inner_at = directory_of(inner, in);
    unsigned char *outer = save_one("npz", "a", zl_from(inner, ZL_SHAPE((int64_t)inner_at), ZL_UINT8), &out);
    uint32_t outer_at = directory_of(outer, out);
    size_t inside = (size_t)((unsigned char *)memmem(outer, out, inner, inner_at) - outer);
    size_t entry = in - END_BYTES - inner_at, before = out - END_BYTES;
    unsigned char *all = memory_alloc(out + entry);
    memcpy(all, outer, before);
    memcpy(all + before, inner + inner_at, entry);
    put_u32(all + before + 42, inside);
    memcpy(all + before + entry, outer + before, END_BYTES);
    all[before + entry + 8] = all[before + entry + 10] = 2;
    put_u32(all + before + entry + 12, before + entry - outer_at);
    zl_free(inner);
    zl_free(outer);
    *bytes = out + entry;
    return all;
}

TEST(io_npz_members_do_not_overlap) {
    size_t bytes;
    unsigned char *data = make_overlap(&bytes);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", data, bytes));
    check_words("zl_load_memory", "'a.npy' overlaps 'b.npy'");
    memory_free(data);
}

// The local header and the directory have to agree: each byte of the name, sizes, method and checksum is
// compared.
TEST(io_npz_headers_agree) {
    static const int places[] = {8,  14, 18,
                                 22, 26, 30}; // method, checksum, sizes, length of the name, the name
    size_t bytes;
    unsigned char *data = save_one("npz", "a", op_test_range(ZL_SHAPE(9), ZL_FLOAT32), &bytes);
    for (size_t i = 0; i < COUNT(places); i++) {
        data[places[i]] ^= 1;
        CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", data, bytes));
        data[places[i]] ^= 1;
    }
    unsigned char *entry = data + directory_of(data, bytes);
    put_u32(data + 22, u32_at(data + 22) + 1); // a stored member with two different sizes, in both places
    put_u32(entry + 24, u32_at(entry + 24) + 1);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", data, bytes));
    check_words("zl_load_memory", "is stored");
    zl_free(data);
}

// Deflated members ------------------------------------------------------------------------------------------

// Makes a file of deflated members a, which the test damages, and b. NULL without zlib.
static unsigned char *save_deflated(zl_array a, size_t *bytes) {
    zl_file *file = file_of("a", a);
    CHECK(zl_file_add(file, "b", op_test_range(ZL_SHAPE(1000), ZL_FLOAT32)));
    unsigned char *data = zl_save_memory("npz_compressed", file, bytes);
    zl_file_free(file);
    if (!data && zl_error_which() == ZL_ERROR_LIBRARY)
        zl_clear_error();
    return data;
}

// Adds to a field of a, in its local header and in the directory.
static void change_field(unsigned char *data, size_t bytes, int local, int central, int by) {
    unsigned char *entry = data + directory_of(data, bytes);
    put_u32(data + local, u32_at(data + local) + (uint32_t)by);
    put_u32(entry + central, u32_at(entry + central) + (uint32_t)by);
}

// Checks that a cannot be evaluated, for a reason with these words, and b can.
static void check_damaged(const unsigned char *data, size_t bytes, const char *words) {
    zl_file *file = zl_load_memory("npz", data, bytes);
    if (CHECK(file)) {
        CHECK_EQ_F64(zl_item(zl_sum(zl_file_find(file, "b"))), 499500);
        for (int i = 0; i < 2; i++) { // the error stays
            CHECK_ERROR(ZL_ERROR_IO, zl_eval(zl_file_find(file, "a")));
            check_words("zl_load_memory", "memory: 'a': ");
            CHECK_HAS(test_last_error(), words);
        }
    }
    zl_file_free(file);
}

TEST(io_damage_of_deflated_members_shows_when_they_are_used) {
    enum {
        CRC = 14,
        PACKED = 18,
        SIZE = 22,
        CENTRAL_CRC = 16,
        CENTRAL_PACKED = 20,
        CENTRAL_SIZE = 24,
        DATA = 35
    };
    size_t bytes = 0;
    unsigned char *data = save_deflated(op_test_range(ZL_SHAPE(1000), ZL_FLOAT32), &bytes);
    if (!data)
        SKIP("no zlib");
    change_field(data, bytes, CRC, CENTRAL_CRC, 1);
    check_damaged(data, bytes, "checksum");
    change_field(data, bytes, CRC, CENTRAL_CRC, -1);
    change_field(data, bytes, SIZE, CENTRAL_SIZE, 1);
    check_damaged(data, bytes, "does not have 4129 bytes");
    change_field(data, bytes, SIZE, CENTRAL_SIZE, -1);
    change_field(data, bytes, PACKED, CENTRAL_PACKED, -9);
    check_damaged(data, bytes, "compressed data is damaged");
    change_field(data, bytes, PACKED, CENTRAL_PACKED, 9);
    data[DATA + u32_at(data + PACKED) - 40] ^= 0xff;
    check_damaged(data, bytes, "damaged");
    data[DATA + u32_at(data + PACKED) - 40] ^= 0xff;
    // Errors in the sizes and in the header are found at once, without inflating the data.
    change_field(data, bytes, SIZE, CENTRAL_SIZE, -1);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", data, bytes));
    check_words("zl_load_memory", "'a': it ends too early: 4000 bytes of data are needed, 3999 are there");
    change_field(data, bytes, SIZE, CENTRAL_SIZE, 1);
    data[DATA] ^= 2; // the kind of the first block
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", data, bytes));
    check_words("zl_load_memory", "memory: 'a': ");
    zl_free(data);
}

TEST(io_deflated_members_without_elements_are_checked_at_once) {
    size_t bytes = 0;
    unsigned char *data = save_deflated(zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), &bytes);
    if (!data)
        SKIP("no zlib");
    change_field(data, bytes, 14, 16, 1);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("npz", data, bytes));
    check_words("zl_load_memory", "'a': it is damaged: its checksum is another");
    zl_free(data);
}

// A compiled function keeps what it captures: a member is not inflated in every call, and not needed after
// the first.
static zl_array deflated;
static bool add_deflated(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_add(in[0], zl_sum(deflated)));
}

TEST(io_deflated_members_are_inflated_once) {
    size_t bytes = 0;
    unsigned char *data = save_deflated(op_test_range(ZL_SHAPE(3000), ZL_INT32), &bytes);
    if (!data)
        SKIP("no zlib");
    zl_file *file = zl_load_memory("npz", data, bytes);
    size_t active = zl_get_active_memory();
    REQUIRE(file && (deflated = zl_file_find(file, "a")));
    CHECK_EQ_INT(zl_file_count(file), 2);
    CHECK(!zl_is_available(deflated));
    zl_compiled c = zl_compile((zl_fn){.call = add_deflated}, false);
    for (int i = 0; i < 2; i++)
        ZL_SCOPE {
            zl_array x = zl_full(ZL_SCALAR, zl_scalar(i), ZL_FLOAT32);
            zl_outputs *out = zl_outputs_new();
            CHECK(zl_compiled_call(c, NULL, 0, 1, &x, out));
            CHECK_EQ_F64(zl_item(zl_outputs_get(out, 0)), 4498500 + i);
            zl_outputs_free(out);
            CHECK(zl_is_available(deflated));
        }
    zl_compiled_release(c);
    CHECK(zl_eval(zl_file_find(file, "b")));
    CHECK(zl_get_active_memory() <= active + 16000 + 2048 - bytes); // the archive is no longer needed
    zl_file_free(file);
    zl_free(data);
}

// Memory ----------------------------------------------------------------------------------------------------

// Members that are far above the limit together, and far below it each.
TEST(io_deflated_members_that_are_not_used_take_no_memory) {
    enum { MEMBERS = 16, BYTES = 4 << 20 };
    size_t bytes = 0;
    zl_file *file = zl_file_new();
    for (int i = 0; i < MEMBERS; i++)
        ZL_SCOPE {
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            CHECK(zl_file_add(file, name, zl_full(ZL_SHAPE(BYTES), zl_scalar_int(i), ZL_UINT8)));
        }
    void *data = zl_save_memory("npz_compressed", file, &bytes);
    zl_file_free(file);
    zl_clear_cache();
    if (!data && zl_error_which() == ZL_ERROR_LIBRARY) {
        zl_clear_error();
        SKIP("no zlib");
    }
    size_t active = zl_get_active_memory(), before = zl_set_memory_limit(active + 3 * BYTES);
    file = zl_load_memory("npz", data, bytes);
    REQUIRE(file);
    CHECK(zl_get_active_memory() < active + bytes + 65536);
    for (int i = 7; i < 9; i++) {
        const uint8_t *element = zl_data(zl_file_array(file, i));
        CHECK(element && element[0] == i && element[BYTES - 1] == i);
    }
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(zl_file_array(file, 0)));
    zl_set_memory_limit(before);
    zl_file_free(file);
    CHECK_EQ_INT(zl_get_active_memory(), active);
    zl_free(data);
}

TEST(io_memory_is_held_to_the_limit) {
    enum { MEGABYTES = 64 };
    zl_file *file = file_of("a", zl_zeros(ZL_SHAPE(MEGABYTES << 20), ZL_UINT8));
    size_t bytes = 0, plain_bytes = 0;
    void *packed = zl_save_memory("npz_compressed", file, &bytes);
    void *plain = zl_save_memory("npz", file, &plain_bytes);
    CHECK(zl_savez(path_to("plain.npz"), file));
    zl_file_free(file);
    zl_clear_error(); // zlib may not be installed
    size_t before = zl_set_memory_limit(zl_get_active_memory() + (MEGABYTES << 19));
    if (packed) {
        CHECK(bytes < 1 << 20);
        CHECK_ERROR(ZL_ERROR_MEMORY, zl_load_memory("npz", packed, bytes));
        check_words("zl_load_memory", "memory limit");
    }
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_load_memory("npz", plain, plain_bytes));
    check_words("zl_load_memory", "memory limit");
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_load_file(path_to("plain.npz"), &(zl_load_options){.no_mmap = true}));
    check_words("zl_load_file", "plain.npz");
    zl_file *mapped = zl_load_npz(path_to("plain.npz")); // mapping takes no memory
    CHECK(zl_file_count(mapped) == 1);
    zl_file_free(mapped);
    zl_set_memory_limit(before);
    size_t active = zl_get_active_memory();
    zl_file *all = zl_load_memory("npz", plain, plain_bytes);
    CHECK(zl_get_active_memory() >= active + plain_bytes);
    zl_file_free(all);
    CHECK_EQ_INT(zl_get_active_memory(), active);
    zl_free(packed);
    zl_free(plain);
}

// A file without an end.
TEST(io_endless_files_end_at_the_limit) {
    if (access("/dev/zero", R_OK) != 0)
        SKIP("no /dev/zero");
    size_t before = zl_set_memory_limit(zl_get_active_memory() + (8 << 20));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_load("/dev/zero"));
    check_words("zl_load", "/dev/zero");
    zl_set_memory_limit(before);
}

TEST(io_parts_do_not_overlap) {
    static const char json[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}";
    char file[256] = {(char)(sizeof json - 1)};
    memcpy(file + 8, json, sizeof json - 1);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("safetensors", file, 8 + sizeof json - 1 + 4));
    check_words("zl_load_memory", "'a' overlaps 'b'");
    zl_file *two = file_of("a", op_test_range(ZL_SHAPE(8), ZL_FLOAT32));
    CHECK(zl_file_add(two, "b", op_test_range(ZL_SHAPE(8), ZL_FLOAT32)));
    size_t bytes = 0;
    unsigned char *gguf = zl_save_memory("gguf", two, &bytes);
    zl_file_free(two);
    size_t second = 24 + (8 + 1 + 4 + 8 + 4 + 8) + (8 + 1 + 4 + 8 + 4); // the offset of b, after two entries
    REQUIRE(gguf && u32_at(gguf + second) == 32);
    gguf[second] = 0;
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("gguf", gguf, bytes));
    check_words("zl_load_memory", "overlaps");
    zl_free(gguf);
}

// Files that others change ----------------------------------------------------------------------------------

// A program that reads memory of a truncated mapping would be ended by a signal.
TEST(io_files_that_are_cut_short_while_in_use) {
    static const int64_t sizes[] = {1000,
                                    600000}; // elements: the smaller file is read at once, the larger one
                                             // when its data are needed
    for (size_t i = 0; i < COUNT(sizes); i++) {
        zl_array a = zl_arange(0, (double)sizes[i], 1, ZL_FLOAT32);
        REQUIRE(zl_save(path_to("a.npy"), a));
        zl_file *file = zl_load_file(path_to("a.npy"), &(zl_load_options){.no_mmap = i == 1});
        REQUIRE(file && truncate(path_to("a.npy"), 0) == 0);
        CHECK(zl_item(zl_array_equal(zl_file_array(file, 0), a, false)) == 1);
        zl_file_free(file);
    }
}

TEST(io_saving_over_what_is_mapped) {
    zl_array a = zl_arange(0, 600000, 1, ZL_FLOAT32), b = zl_add(a, zl_scalar(1));
    REQUIRE(zl_save(path_to("a.npy"), a) && symlink("a.npy", path_to("link.npy")) == 0);
    REQUIRE(chmod(path_to("a.npy"), 0604) == 0);
    zl_array mapped = zl_load(path_to("link.npy"));
    zl_array lazy = zl_add(mapped, zl_scalar(1)); // the array that is saved reads the file that is replaced
    REQUIRE(zl_save(path_to("link.npy"), lazy) && zl_save(path_to("link.npy"), lazy));
    CHECK(zl_item(zl_array_equal(mapped, a, false)) == 1);
    CHECK(zl_item(zl_array_equal(zl_load(path_to("a.npy")), b, false)) == 1);
    struct stat now;
    CHECK(stat(path_to("a.npy"), &now) == 0 && (now.st_mode & 0777) == 0604);
    CHECK(lstat(path_to("link.npy"), &now) == 0 && S_ISLNK(now.st_mode));
}

// Errors ----------------------------------------------------------------------------------------------------

TEST(io_errors_begin_with_the_function) {
    const char *none = path_to("none/none");
    zl_file *file = file_of("a", zl_scalar(1));
    zl_array a = zl_scalar(1);
    CHECK_ERROR(ZL_ERROR_IO, zl_load(none));
    check_words("zl_load", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_npz(none));
    check_words("zl_load_npz", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_safetensors(none));
    check_words("zl_load_safetensors", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_gguf(none));
    check_words("zl_load_gguf", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_load_file(none, &(zl_load_options){.format = "npz"}));
    check_words("zl_load_file", none);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_load_file(none, NULL));
    check_words("zl_load_file", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_save(none, a));
    check_words("zl_save", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_savez(none, file));
    check_words("zl_savez", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_savez_compressed(none, file));
    check_words("zl_savez_compressed", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_save_safetensors(none, file));
    check_words("zl_save_safetensors", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_save_gguf(none, file));
    check_words("zl_save_gguf", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_write_file(none, "x", 1));
    check_words("zl_write_file", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_import(none));
    check_words("zl_import", none);
    CHECK_ERROR(ZL_ERROR_IO, zl_import(test_folder()));
    check_words("zl_import", "directory");
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_load(none));
    memory_fail_at(0);
    check_words("zl_load", "out of memory");
    zl_file_free(file);
}
