// test_pass_tiles.c - passes over tile statements: which products read parameters in place, and which loops
// are merged.

#include "test.h"

#include "pass/layout.h"
#include "pass/pass.h"
#include "render/render.h"

#include <stdio.h>
#include <string.h>

// Checks that the body of kernel k(A, B: f32[M, K], [K, N]; D: f32[n, M, K]) contains, or lacks, a text after
// a pass for the CPU's programs.
static void check_body(const char *body, const char *last, const char *has, const char *lacks) {
    struct text source = {0};
    text_add(&source, "kernel k(A: f32[M, K], B: f32[K, N], D: f32[n, M, K]) -> (C: f32[M, N]) {\n%s\n}\n",
             body);
    struct tile_kernel *kernel = tile_parse(source.data, "test");
    REQUIRE(kernel);
    REQUIRE(pass_run(kernel, render_target("c_tiles"), last));
    CHECK(tile_verify(kernel));
    char *text = tile_print(kernel);
    bool good = CHECK(!has || strstr(text, has)) && CHECK(!lacks || !strstr(text, lacks));
    if (!good)
        test_note("%s", text);
    memory_free(text);
    tile_free(kernel);
    text_free(&source);
}

#define TILES                                                                                               \
    "grid x in ceildiv(N, 8), y in ceildiv(M, 8) {\n shared a: f32[8, 4]\n shared b: f32[4, 8]\n fragment " \
    "c: f32[8, 8] = 0\n"
#define END "\n copy c -> C[y * 8, x * 8]\n}"

TEST(forward_leaves_tiles_out) {
    check_body(TILES "for k in ceildiv(K, 4) {\n copy A[y * 8, k * 4] -> a\n copy B[k * 4, x * 8] -> b\n "
                     "gemm a, b -> c }" END,
               "forward", "gemm A[y * 8, k * 4] of [8, 4], B[k * 4, x * 8] of [4, 8] -> c", "copy A");
    check_body(TILES
               "copy D[2, y * 8, 0] -> a\n for k in 3 {\n copy B[k * 4, x * 8] -> b\n gemm a, b -> c }" END,
               "forward", "gemm D[2, y * 8, 0] of [1, 8, 4], B", "shared a");
}

TEST(forward_keeps_what_is_needed) {
    // The tile is changed, or read by another statement.
    check_body(TILES "copy A[y * 8, 0] -> a\n copy B[0, x * 8] -> b\n map i in 8, j in 4 { a[i, j] = a[i, j] "
                     "* 2.0 }\n gemm a, b -> c" END,
               "forward", "gemm a, B", NULL);
    // The tile is written twice.
    check_body(TILES
               "copy A[y * 8, 0] -> a\n copy A[y * 8, 4] -> a\n copy B[0, x * 8] -> b\n gemm a, b -> c" END,
               "forward", "gemm a, B", NULL);
    // The product comes first: it reads the copy of the turn before.
    check_body(TILES
               "copy B[0, x * 8] -> b\n for k in 4 {\n gemm a, b -> c\n copy A[y * 8, k * 4] -> a }" END,
               "forward", "gemm a, B", NULL);
    // The origin is a variable that changes in between.
    check_body(TILES "copy B[0, x * 8] -> b\n o = y\n copy A[o, 0] -> a\n o = o + 1\n gemm a, b -> c" END,
               "forward", "gemm a, B", NULL);
    // Elements outside are not 0; a view shares the tile's memory.
    check_body(TILES "copy A[y * 8, 0] -> a else 1\n copy B[0, x * 8] -> b\n gemm a, b -> c" END, "forward",
               "gemm a, B", NULL);
    check_body(TILES "view v: f32[32] of a\n copy A[y * 8, 0] -> a\n copy B[0, x * 8] -> b\n v[3] = 1.0\n "
                     "gemm a, b -> c" END,
               "forward", "gemm a, B", NULL);
    // An output may change.
    check_body(TILES "copy C[y * 8, 0] of [8, 4] -> a\n copy B[0, x * 8] -> b\n gemm a, b -> c" END,
               "forward", "gemm a, B", NULL);
}

TEST(merge_makes_one_product) {
    check_body(TILES "for k in ceildiv(K, 4) {\n copy A[y * 8, k * 4] -> a\n copy B[k * 4, x * 8] -> b\n "
                     "gemm a, b -> c }" END,
               "merge", "gemm A[y * 8, 0] of [8, t0], B[0, x * 8] of [t0, 8] -> c clear", "for k");
    check_body(TILES "for k in 6 {\n copy A[y * 8, 8 + k * 4] -> a\n copy B[k * 4 + 16, x * 8] -> b\n gemm "
                     "a, b -> c }" END,
               "merge", "gemm A[y * 8, 0 + 8]", "for k");
}

TEST(merge_keeps_other_loops) {
    // Steps that are not adjacent, a tile that is cleared, a statement in between.
    check_body(TILES
               "for k in 6 {\n copy A[y * 8, k * 5] -> a\n copy B[k * 4, x * 8] -> b\n gemm a, b -> c }" END,
               "merge", "for k", NULL);
    check_body(
        TILES
        "for k in 6 {\n copy A[y * 8, k * 4] -> a\n copy B[k * 4, x * 8] -> b\n gemm a, b -> c clear }" END,
        "merge", "for k", NULL);
    check_body(TILES "for k in 6 {\n copy A[y * 8, k * 4] -> a\n copy B[k * 4, x * 8] -> b\n gemm a, b -> "
                     "c\n c[0, 0] = c[0, 0] * 2.0 }" END,
               "merge", "for k", NULL);
    check_body(TILES
               "for k in 6 {\n copy A[k * 8, k * 4] -> a\n copy B[k * 4, x * 8] -> b\n gemm a, b -> c }" END,
               "merge", "for k", NULL);
}

TEST(merge_clears) {
    check_body(TILES "copy A[y * 8, 0] -> a\n copy B[0, x * 8] -> b\n gemm a, b -> c" END, "merge",
               "-> c clear", "fill");
    // Another statement reads the zeros first; a part of them is not overwritten; the values are not zeros.
    check_body(TILES "copy A[y * 8, 0] -> a\n copy B[0, x * 8] -> b\n C[0, 0] = c[1, 1]\n gemm a, b -> c" END,
               "merge", "fill", "clear");
    check_body(TILES
               "shared d: f32[7, 4]\n copy A[y * 8, 0] -> d\n copy B[0, x * 8] -> b\n gemm d, b -> c" END,
               "merge", "fill", "clear");
    check_body(TILES "fill c = 1\n copy A[y * 8, 0] -> a\n copy B[0, x * 8] -> b\n gemm a, b -> c" END,
               "merge", "fill c = 1", "clear");
}

TEST(lines_go_to_rows) {
    check_body("grid y in M {\n fragment s: f32[1]\n fragment t: f32[1, 40]\n copy A[y, 0] -> t\n reduce add "
               "t -> s axis 1\n C[y, 0] = s[0]\n}",
               "tiles", "reduce add t[t", NULL);
    check_body("grid y in M {\n fragment s: f32[40]\n fragment t: f32[3, 40]\n copy A[y, 0] -> t\n reduce "
               "add t -> s axis 0\n C[y, 0] = s[0]\n}",
               "tiles", NULL, "reduce");
}

#define ROWS "grid y in M {\n fragment t: f32[40]\n fragment u: f32[40]\n"

TEST(fuse_makes_one_map) {
    // A stored value is not loaded again, and its store is removed if nothing else reads it.
    check_body(
        ROWS "map j in 40 { t[j] = A[y, j] }\n map i in 40 { u[i] = t[i] * t[i] }\n C[y, 0] = t[1] + u[2]\n}",
        "fuse", "u[j] = A[y, j] * A[y, j]", "map i");
    check_body(ROWS "map j in 40 { t[j] = exp(A[y, j]) * 2.0 + 1.0 }\n map i in 40 { C[y, i] = t[i] }\n}",
               "fuse", "C[y, j] = exp(", "t[j] =");
    check_body(ROWS "map j in 40 { t[j] = A[y, j] }\n map i in 40 { t[i] = t[i] * 2.0 }\n map i in 40 { C[y, "
                    "i] = t[i] }\n}",
               "fuse", "C[y, i] = t[i] * 2", "t[i] = t");
}

TEST(fuse_keeps_order) {
    // Long values are computed once; a value that was overwritten is loaded; other points are other elements.
    check_body(ROWS "map j in 40 { t[j] = exp(A[y, j]) * 2.0 + 1.0 }\n map i in 40 { C[y, i] = t[i] }\n C[y, "
                    "0] = t[3]\n}",
               "fuse", "C[y, j] = t[j]", "map i");
    check_body(ROWS "map j in 40 { t[j] = t[j] * 2.0 }\n map i in 40 { C[y, i] = t[i] }\n C[y, 0] = t[3]\n}",
               "fuse", "C[y, j] = t[j]", "map i");
    check_body(ROWS "map j in 40 { t[j] = A[y, j] }\n map i in 40 { u[i] = t[39 - i] }\n C[y, 0] = u[3]\n}",
               "fuse", "map i", NULL);
    check_body(ROWS "map j in 40 { t[j] = A[y, j] }\n map i in 40 { u[i] = t[0] }\n C[y, 0] = u[3]\n}",
               "fuse", "map i", NULL);
    check_body(ROWS "map j in 40 { t[j] = A[y, j] }\n map i in 39 { u[i] = t[i] }\n C[y, 0] = u[3]\n}",
               "fuse", "map i", NULL);
    check_body(ROWS "map j in 40 { t[0] = A[y, j] }\n map i in 40 { u[i] = t[0] }\n C[y, 0] = u[3]\n}",
               "fuse", "map i", NULL);
}

// Finds the position of the element in a thread's register, along each axis.
static void find_element(const struct layout *l, int thread, int slot, int64_t *at) {
    for (int i = 0; i < l->threads; i++, thread /= l->thread[i - 1].size)
        at[l->thread[i].axis] += (int64_t)(thread % l->thread[i].size) * l->thread[i].step;
    for (int i = 0; i < l->slots; i++, slot /= l->slot[i - 1].size)
        at[l->slot[i].axis] += (int64_t)(slot % l->slot[i].size) * l->slot[i].step;
}

TEST(the_picture_of_a_layout_is_true) {
    struct layout l;
    char *picture = file_read(ZL_TEST_DIR "/../doc/layout.svg", NULL);
    REQUIRE(picture);
    CHECK(layout_matrix(&l, 32, 16, 2, 1));
    CHECK_EQ_INT(layout_registers(&l), 8);
    int count = 0;
    for (const char *at = picture; (at = strstr(at, "data-row=")); at++, count++) {
        int row, column, thread, slot;
        int64_t element[2] = {0};
        if (!CHECK(sscanf(at, "data-row=\"%d\" data-column=\"%d\">%d.%d<", &row, &column, &thread, &slot) ==
                   4))
            break;
        find_element(&l, thread, slot, element);
        CHECK_EQ_INT(element[0], row);
        CHECK_EQ_INT(element[1], column);
    }
    CHECK_EQ_INT(count, 16 * 16);
    memory_free(picture);
}
