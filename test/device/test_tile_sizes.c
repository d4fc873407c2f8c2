// test_tile_sizes.c - sizes in tile kernels that are negative, do not fit into 64 bits, or into the memory
// that they view: the interpreter and every target reject them.

#include "test.h"

#include "device/device.h"
#include "tile/tile.h"
#include "zellige_tile.h"

#include <stdio.h>
#include <string.h>

#define F32 ZL_FLOAT32
// Runs a text whose input a has n elements and whose output y has four, in the interpreter and on the
// compiled targets. All must reject it, at that line, without writing anything.
static void check_size(const char *text, int64_t n, const char *line, const char *told) {
    static const char *const targets[] = {"c", "opencl"};
    static float a[64];
    float y[8] = {0};
    int64_t four = 4;
    zl_kernel_buffer buffer[] = {{a, F32, 1, &n, NULL}, {y, F32, 1, &four, NULL}};
    struct tile_kernel *read = tile_parse(text, "f.tile");
    if (read && !CHECK_ERROR(ZL_ERROR_SHAPE, tile_interpret(read, (void *[]){a, y}, &n)))
        test_note("%s", text);
    tile_free(read);
    if (!read) { // the reader rejects it, so all others do
        CHECK(zl_error());
        zl_clear_error();
    }
    for (size_t i = 0; i < COUNT(targets); i++) {
        int units = 0;
        if (strcmp(targets[i], "c") != 0 && !device_find(targets[i], &units)) {
            zl_clear_error();
            continue;
        }
        zl_kernel k = zl_kernel_compile(text, "f.tile", targets[i]);
        bool ran = k && zl_kernel_run(k, 2, buffer);
        if (!CHECK(!ran && zl_error()) || !CHECK_HAS(zl_error(), told) || !CHECK_HAS(zl_error(), line))
            test_note("%s: %s\n%s", targets[i], zl_error() ? zl_error() : "no error", text);
        zl_clear_error();
        zl_kernel_release(k);
        for (int j = 0; j < 8; j++)
            CHECK_EQ_F64(y[j], 0);
    }
}

#define KERNEL    "kernel f(a: f32[n]) -> (y: f32[4]) {\n  "
#define BODY      "\n  map i in 4 { y[i] = 1 }\n}"
#define IN_GRID   KERNEL "grid b in 1 {\n    "
#define GRID_BODY "\n    map i in 4 { y[i] = 1 }\n  }\n}"

TEST(views_larger_than_their_memory_are_refused) {
    check_size(KERNEL "view v: f32[n + 1] of a" BODY, 4,
               "f.tile:2:", "'v' has 20 bytes and 'a', whose memory it is, 16");
    check_size(KERNEL "view v: f64[n] of a" BODY, 4, "f.tile:2:", "'v' has 32 bytes");
    check_size(KERNEL "view v: f32[n * n] of y" BODY, 4, "f.tile:2:", "'v' has 64 bytes");
    check_size(KERNEL "view v: f32[5] of y" BODY, 4, "f.tile:2:", "'v' has 20 bytes");
    check_size(IN_GRID "view v: f32[n - 5] of a" GRID_BODY, 4, "f.tile:3:", "is -1, and sizes are 0 or more");
    check_size(KERNEL "view v: f32[n, 4611686018427387904] of a" BODY, 4,
               "f.tile:2:", "more bytes than 64 bits can count");
    check_size(KERNEL "view v: f32[4, 4611686018427387904] of y" BODY, 4,
               "f.tile:2:", "more bytes than 64 bits can count");
    check_size(KERNEL "view v: f32[n * 4611686018427387904] of a" BODY, 4,
               "f.tile:2:", "a size of 'v' does not fit into 64 bits, with n = 4");
    check_size(KERNEL "view v: f32[0, n, 4611686018427387904, 2] of a" BODY, 4,
               "f.tile:2:", "more bytes than 64 bits");
}

TEST(sizes_that_overflow_are_refused) {
    check_size(KERNEL "global g: f32[n, 4611686018427387904]" BODY, 4,
               "f.tile:2:", "'g' of f32[4, 4611686018427387904] has more");
    check_size(KERNEL "global g: f32[n * 4611686018427387904 + 1]" BODY, 4,
               "f.tile:2:", "does not fit into 64 bits");
    check_size(KERNEL "global g: f32[4611686018427387904]" BODY, 4,
               "f.tile:2:", "more bytes than 64 bits can count");
    check_size(KERNEL "global g: f32[n - 8, n - 8]" BODY, 4,
               "f.tile:2:", "the size of 'g' along axis 0 is -4");
    check_size(KERNEL "global g: f32[2, 2] stride [n * n, 4611686018427387904]" BODY, 4,
               "f.tile:2:", "more bytes than");
    check_size(KERNEL "global g: f32[4] stride [n - 5]" BODY, 4,
               "f.tile:2:", "the stride of 'g' along axis 0 is -1");
    static const char *const memory[] = {"shared", "fragment", "local"};
    for (size_t i = 0; i < COUNT(memory); i++) {
        char text[256];
        snprintf(text, sizeof text, IN_GRID "%s t: f32[65536, 281474976710657]" GRID_BODY, memory[i]);
        check_size(text, 4,
                   "f.tile:3:", "'t' of f32[65536, 281474976710657] has more bytes than 64 bits can count");
        snprintf(text, sizeof text, IN_GRID "%s t: f32[4611686018427387904, 1]" GRID_BODY, memory[i]);
        check_size(text, 4, "f.tile:3:", "more bytes than 64 bits can count");
        snprintf(text, sizeof text, IN_GRID "%s t: f32[-4, -4]" GRID_BODY, memory[i]);
        check_size(text, 4, "f.tile:3:", "axis 0 is -4, and sizes are 0 or more");
    }
    check_size(KERNEL "grid b in n * 1073741824, c in 4294967296 { y[0] = 1 }\n}", 4,
               "f.tile:2:", "more blocks than 64 bits");
    check_size(KERNEL "grid b in n * 4611686018427387904 + 1 { y[0] = 1 }\n}", 4,
               "f.tile:2:", "the number of blocks does not fit into 64 bits");
}

TEST(sizes_do_not_change) {
    CHECK_ERROR(ZL_ERROR_SYNTAX, zl_kernel_parse(KERNEL "x: i64 = 4\n  local t: f32[x]" BODY, "f.tile"));
    CHECK_HAS(test_last_error(), "f.tile:3:");
    CHECK_HAS(test_last_error(), "a variable");
    CHECK_ERROR(ZL_ERROR_SYNTAX,
                zl_kernel_parse("kernel f(a: i64[n]) -> (y: i64[4]) {\n  local t: f32[y[0]]\n}", "f.tile"));
    CHECK_HAS(test_last_error(), "is read from 'y'");
}

// Sizes that are only known when a block runs: the kernel checks them, before it accesses anything.
TEST(views_of_sizes_in_blocks_are_compared_there) {
    static const char text[] =
        "kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in n {\n    local t: f32[2]\n"
        "    t[0] = a[b]\n    t[1] = 1\n    view v: f32[b + 1] of t\n    y[b] = v[b]\n  }\n}";
    zl_kernel k = zl_kernel_compile(text, "f.tile", "c");
    float a[4] = {5, 6, 7, 8}, y[4] = {0};
    REQUIRE(k);
    for (int64_t n = 2; n <= 4; n++) {
        zl_kernel_buffer buffer[] = {{a, F32, 1, &n, NULL}, {y, F32, 1, &n, NULL}};
        if (n == 2) {
            CHECK(zl_kernel_run(k, 2, buffer));
            CHECK(y[0] == 5 && y[1] == 1);
        } else {
            CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_run(k, 2, buffer));
            CHECK_HAS(test_last_error(), "line 6: 'v' has more bytes than 't', whose memory it is");
            CHECK_EQ_F64(y[2], 0);
        }
    }
    zl_kernel_release(k);
}

TEST(memory_with_strides_has_room_for_them) {
    static const char text[] = "kernel f(a: f32[n]) -> (y: f32[n]) {\n  global g: f32[n, 2] stride [100, n]\n"
                               "  map i in n { g[i, 1] = a[i] }\n  map i in n { y[i] = g[i, 1] }\n}";
    zl_kernel k = zl_kernel_compile(text, "f.tile", "c");
    zl_array a = zl_arange(0, 50, 1, F32), out = NULL;
    REQUIRE(k);
    CHECK(zl_kernel_call(k, 1, &a, 1, &out));
    for (int i = 0; out && i < 50; i++)
        CHECK_EQ_F64(((const float *)zl_data(out))[i], i);
    zl_release(out), zl_kernel_release(k);
}

TEST(arguments_of_impossible_sizes_are_refused) {
    zl_kernel k = zl_kernel_compile("kernel f(a: f32[n, m]) -> (y: f32[1]) {\n  y[0] = 1\n}", "f.tile", "c");
    zl_kernel narrow =
        zl_kernel_compile("kernel f index 32(a: f32[n, 0]) -> (y: f32[1]) {\n  y[0] = 1\n}", "f.tile", "c");
    float a[4] = {0}, y[1] = {0};
    int64_t one = 1;
    static const int64_t dims[][2] = {
        {-1, 4}, {4, -1}, {-2, -2}, {INT64_C(1) << 62, 4}, {INT64_C(1) << 61, 2}};
    REQUIRE(k && narrow);
    zl_kernel_buffer last = {y, F32, 1, &one, NULL};
    for (size_t i = 0; i < COUNT(dims); i++)
        CHECK_ERROR(ZL_ERROR_SHAPE,
                    zl_kernel_run(k, 2, (zl_kernel_buffer[]){{a, F32, 2, dims[i], NULL}, last}));
    static const int64_t wide[2] = {INT64_C(1) << 32, 0};
    CHECK_ERROR(ZL_ERROR_SHAPE,
                zl_kernel_run(narrow, 2, (zl_kernel_buffer[]){{a, F32, 2, wide, NULL}, last}));
    CHECK_HAS(test_last_error(), "indices of 32 bits, and n is 4294967296");
    zl_kernel_release(k), zl_kernel_release(narrow);
}
