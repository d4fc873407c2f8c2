// test_fuzz_function.c - damaged files of functions: they are rejected with an error, or harmless; never a
// crash.
//
// A file is changed in a few places, which its checksums detect. With checksums that are recomputed, as an
// attacker would do, everything that the reader accepts is called and evaluated. Constants that share data
// are rejected.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "transform/function_file.h"

enum { INPUTS = 3 };

static bool function(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array x = in[0], at = in[1], w = zl_from_f32((float[]){1, 2, 3, 4, 5, 6}, ZL_SHAPE(2, 3)), pair[2];
    zl_array list[] = {zl_matmul(x, zl_transpose(w, ZL_ALL)),
                       zl_expand_dims(zl_sum_axis(x, 1, false), ZL_AXES(1))};
    zl_array order = zl_argsort(x, 1), part = zl_dynamic_slice(x, at, ZL_AXES(0), ZL_SHAPE(2, 3));
    return zl_give(out, zl_concatenate(list, 2, 1)) && zl_divmod(in[2], zl_scalar_int(3), pair) &&
           zl_give(out, pair[1]) && zl_give(out, zl_take_along_axis(x, order, 1)) &&
           zl_give(out, zl_dynamic_slice_update(x, zl_exp(part), at, ZL_AXES(0))) &&
           zl_give(out, zl_take(zl_pad(x, ZL_SHAPE(1, 0), ZL_SHAPE(0, 2), zl_scalar(1)), in[2], 1)) &&
           zl_give(out, zl_scatter_add(x, &at, 1, zl_ones(ZL_SHAPE(1, 1, 3), ZL_FLOAT32), ZL_AXES(0))) &&
           zl_give(out, zl_cumsum(zl_slice(x, ZL_SHAPE(3, 0), ZL_SHAPE(-9, 3), ZL_SHAPE(-2, 1)), 0, true,
                                  false, ZL_DTYPE_COUNT)) &&
           zl_give(out, zl_as_strided(zl_reshape(x, ZL_SHAPE(6, 2)), ZL_SHAPE(3, 2), ZL_SHAPE(3, 1), 2)) &&
           zl_give(out, zl_view(zl_broadcast_to(x, ZL_SHAPE(2, 4, 3)), ZL_INT16)) &&
           zl_give(out, zl_slice_update(x, zl_scalar(7), ZL_SHAPE(1, 0), ZL_SHAPE(3, 2), ZL_SHAPE(1, 1))) &&
           zl_give(out, zl_addmm(zl_scalar(1), zl_astype(x, ZL_FLOAT16),
                                 zl_astype(zl_transpose(w, ZL_ALL), ZL_FLOAT16), 0.5, 2)) &&
           zl_give(out, zl_searchsorted(in[2], in[2], "right")) &&
           zl_give(out, zl_argmax_axis(x, 0, false)) &&
           zl_give(out, zl_random_bits(ZL_SHAPE(2, 2), 4, zl_random_key(1))) &&
           zl_give(out, zl_unflatten(zl_flatten(x, 0, 1), 0, ZL_SHAPE(3, -1)));
}

static void make_inputs(zl_array *in) {
    in[0] = zl_reshape(zl_arange(0, 12, 1, ZL_FLOAT32), ZL_SHAPE(4, 3));
    in[1] = zl_from_i32((int32_t[]){1}, ZL_SHAPE(1));
    in[2] = zl_from_i32((int32_t[]){0, 2, 4}, ZL_SHAPE(3));
}

// Kernels from source, which files may contain; nothing here runs them.
static bool kernels(void *data, int count, const zl_array *in, zl_outputs *out) {
    static const char *const names[] = {"a", "b", "y", "z"};
    const zl_shape shape[] = {ZL_SHAPE(4, 3), ZL_SHAPE(3)};
    const zl_dtype dtype[] = {ZL_FLOAT32, ZL_INT32};
    zl_kernel_source metal = {.language = "Metal",
                              .text = "y[0] = a[0];",
                              .outputs = 2,
                              .shape = shape,
                              .dtype = dtype,
                              .grid = {4, 1, 1},
                              .group = {2, 1, 1}};
    zl_cpu_kernel_source cuda = {.name = "each",
                                 .source = "y[0] = a[0];",
                                 .inputs = 2,
                                 .outputs = 2,
                                 .input = names,
                                 .output = names + 2,
                                 .shape = shape,
                                 .dtype = dtype,
                                 .grid = {4, 1, 1},
                                 .group = {2, 1, 1},
                                 .init = (double[]){1}};
    zl_array given[] = {in[0], in[2]}, y[2];
    (void)data, (void)count;
    return zl_custom_kernel(&metal, 2, given, y) && zl_give(out, y[0]) && zl_give(out, y[1]) &&
           zl_cuda_kernel(&cuda, 16, 2, given, y) && zl_give(out, zl_exp(y[0])) && zl_give(out, y[1]);
}

static char *write_function(char *path, size_t cap, size_t *bytes, zl_fn f, bool shapeless) {
    zl_array in[INPUTS];
    make_inputs(in);
    snprintf(path, cap, "%s/f", test_folder());
    bool ok =
        zl_export(path, f, INPUTS, in, &(zl_export_options){.shapeless = shapeless});
    return CHECK(ok) ? file_read(path, bytes) : NULL;
}

// Damage ----------------------------------------------------------------------------------------------------

static uint64_t structure_bytes(const uint8_t *file) {
    uint64_t bytes = 0;
    memcpy(&bytes, file + 16, sizeof bytes);
    return bytes;
}

static void seal(uint8_t *file, size_t bytes) {
    char digest[FUNCTION_DIGEST + 1];
    uint64_t length = structure_bytes(file);
    if (bytes < FUNCTION_HEADER || length > bytes - FUNCTION_HEADER)
        return;
    hash_sha256(file + FUNCTION_HEADER, (size_t)length, digest);
    memcpy(file + FUNCTION_HEADER - FUNCTION_DIGEST, digest, FUNCTION_DIGEST);
}

// Draws small numbers and powers of two, which find more errors than random bytes.
static uint64_t odd_number(void) {
    switch (test_between(0, 3)) {
    case 0: return (uint64_t)test_between(0, 9);
    case 1: return (uint64_t)1 << test_between(0, 63);
    case 2: return (uint64_t)-test_between(1, 9);
    default: return test_random();
    }
}

// Changes a file. A file with recomputed checksums is mostly changed in only one place of its structure,
// since files with more changes are seldom accepted.
static size_t damage(uint8_t *file, size_t bytes, bool is_sealed) {
    int64_t from = is_sealed ? FUNCTION_HEADER : 0;
    int64_t to = is_sealed ? from + (int64_t)structure_bytes(file) : (int64_t)bytes;
    for (int64_t i = is_sealed && test_between(0, 3) ? 1 : test_between(1, 3); i > 0; i--) {
        size_t at = (size_t)test_between(from, to - 1), room = bytes - at;
        uint64_t number = odd_number();
        size_t width = (size_t)1 << test_between(0, 3);
        memcpy(file + at, &number, width < room ? width : room);
    }
    return is_sealed || test_between(0, 9) ? bytes : (size_t)test_between(0, (int64_t)bytes);
}

// Trying it -------------------------------------------------------------------------------------------------

static void evaluate(const zl_imported *f, const zl_array *in) {
    zl_outputs *out = zl_outputs_new();
    if (zl_imported_call(f, INPUTS, in, 0, NULL, out))
        for (int i = 0; i < zl_outputs_count(out); i++)
            if (zl_size(zl_outputs_get(out, i)) < 1 << 16)
                zl_eval(zl_outputs_get(out, i));
    zl_outputs_free(out);
}

// Returns whether the file could be read.
static bool try_file(const uint8_t *file, size_t bytes, bool is_sealed) {
    bool read = false;
    ZL_SCOPE {
        zl_array in[INPUTS];
        make_inputs(in);
        zl_imported *f = function_read("damaged", file, bytes);
        read = f;
        CHECK(f || zl_error());
        zl_clear_error();
        if (f && is_sealed)
            evaluate(f, in);
        zl_imported_free(f);
        zl_clear_error();
    }
    return read;
}

static void fuzz(zl_fn f, bool is_sealed, bool shapeless, int64_t count) {
    char path[4096];
    size_t bytes = 0;
    uint8_t *good = (uint8_t *)write_function(path, sizeof path, &bytes, f, shapeless);
    REQUIRE(good);
    uint8_t *bad = malloc(bytes);
    REQUIRE(bad);
    int64_t read = 0;
    size_t limit = zl_set_memory_limit(1 << 28);
    for (int64_t i = 0; i < count; i++) {
        memcpy(bad, good, bytes);
        size_t left = damage(bad, bytes, is_sealed);
        if (is_sealed && left >= FUNCTION_HEADER)
            seal(bad, left);
        bool same = left == bytes && !memcmp(bad, good, bytes);
        read += try_file(bad, left, is_sealed) && !same;
    }
    zl_set_memory_limit(limit);
    // No checksum covers the unused bytes of the header, and those between the parts. Some of the files with
    // recomputed checksums must be readable.
    if (!CHECK(is_sealed ? read > 0 : read <= count / 20))
        test_note("%lld of %lld were read", (long long)read, (long long)count);
    free(bad);
    memory_free(good);
}

static int64_t tries(void) {
    return test_long() ? 500000 : test_quick() ? 2000 : 10000;
}

TEST(damaged_functions_are_refused) {
    fuzz((zl_fn){.call = function}, false, false, tries());
}

TEST(forged_functions_are_harmless) {
    fuzz((zl_fn){.call = function}, true, false, tries() / 2);
    fuzz((zl_fn){.call = function}, true, true, tries() / 2);
}

// Uses the CPU, which cannot run these kernels: on a GPU a foreign kernel may do anything.
TEST(forged_kernels_are_read_or_refused) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    fuzz((zl_fn){.call = kernels}, true, false, tries() / 2);
    fuzz((zl_fn){.call = kernels}, true, true, tries() / 2);
    zl_scope_end(scope);
}

// Uses two constants of the same bytes, with two shapes.
static bool two_constants(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    static const float ones[32] = {1};
    return zl_give(out, zl_add(in[0], zl_sum(zl_from_f32(ones, ZL_SHAPE(32))))) &&
           zl_give(out, zl_add(in[0], zl_sum(zl_from_f32(ones, ZL_SHAPE(8, 4)))));
}

TEST(constants_that_overlap_are_refused) {
    char path[4096], digest[FUNCTION_DIGEST + 1];
    size_t bytes;
    uint64_t offset;
    uint8_t *file =
        (uint8_t *)write_function(path, sizeof path, &bytes, (zl_fn){.call = two_constants}, false);
    REQUIRE(file);
    hash_sha256((float[32]){1}, 32 * sizeof(float), digest);
    uint8_t *first = memmem(file, bytes, digest, FUNCTION_DIGEST);
    REQUIRE(first);
    uint8_t *second = memmem(first + 1, (size_t)(file + bytes - first - 1), digest, FUNCTION_DIGEST);
    REQUIRE(second);
    memcpy(&offset, second - 8, sizeof offset);
    CHECK_EQ_INT(offset, 128);
    memset(second - 8, 0, 8);
    seal(file, bytes);
    REQUIRE(file_write(path, file, bytes));
    CHECK_ERROR(ZL_ERROR_IO, zl_import(path));
    CHECK_HAS(test_last_error(), "zl_import: ");
    CHECK_HAS(test_last_error(), "constants that overlap");
    memory_free(file);
}
