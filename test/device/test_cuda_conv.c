// test_cuda_conv.c - the kernels that turn convolutions into products of patches, without a GPU: patches of
// an image, and the image that is the sum of patches, compared with loops over all taps.

#include "device/desk.h"
#include "device/tile_trial.h"
#include "on_devices.h"

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_conv.h"

#include <string.h>

enum { AXES = 2, BATCH = 2, MOST = 4096 };

static const int64_t sizes[AXES] = {7, 6}, taps[AXES] = {3, 2}, stride[AXES] = {2, 1},
                     dilation[AXES] = {1, 2}, low[AXES] = {1, 2};

// Visits all elements of patches: sets them from the image, or if `folds`, adds them to it. Returns how many
// there are.
static int64_t walk(int64_t channels, const int64_t *out, bool flip, float *image, float *patches,
                    bool folds) {
    int64_t count = 0;
    for (int64_t row = 0; row < BATCH * out[0] * out[1]; row++)
        for (int64_t tap = 0; tap < taps[0] * taps[1]; tap++) {
            int64_t batch = row / (out[0] * out[1]), o[AXES] = {row / out[1] % out[0], row % out[1]};
            int64_t t[AXES] = {tap / taps[1], tap % taps[1]}, p[AXES];
            bool inside = true;
            for (int a = 0; a < AXES; a++) {
                p[a] = o[a] * stride[a] + (flip ? taps[a] - 1 - t[a] : t[a]) * dilation[a] - low[a];
                inside = inside && p[a] >= 0 && p[a] < sizes[a];
            }
            for (int64_t c = 0; c < channels; c++, count++) {
                float *at =
                    inside ? &image[((batch * sizes[0] + p[0]) * sizes[1] + p[1]) * channels + c] : NULL;
                if (folds && at)
                    *at += patches[count];
                else if (!folds)
                    patches[count] = at ? *at : 0;
            }
        }
    return count;
}

static bool run(const struct kernel_place *p, const struct conv_patches *z, float *from, float *to) {
    const struct kernel_tiles *kernel =
        kernel_find_tiles(p, &z->key, sizeof z->key, cuda_conv_patches_make, &z->key);
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, from);
    kernel_add(&k, z->table, (size_t)z->rows * sizeof *z->table);
    kernel_add_memory(&k, to);
    return kernel && kernel_launch_tiles(p, kernel, &k, z->symbols, z->symbol);
}

static void check(const struct kernel_place *p, int64_t channels, bool flip) {
    static float image[MOST], patches[MOST], want[MOST], got[MOST];
    int64_t out[AXES];
    for (int a = 0; a < AXES; a++)
        out[a] = (sizes[a] + 2 * low[a] - (taps[a] - 1) * dilation[a] - 1) / stride[a] + 1;
    const int64_t x[] = {BATCH, channels, sizes[0], sizes[1]}, w[] = {1, channels, taps[0], taps[1]},
                  y[] = {BATCH, 1, out[0], out[1]};
    const struct conv_sizes s = {.axes = AXES,
                                 .flip = flip,
                                 .x = x,
                                 .w = w,
                                 .y = y,
                                 .stride = stride,
                                 .dilation = dilation,
                                 .low = low};
    int64_t inputs = BATCH * channels * sizes[0] * sizes[1];
    for (int i = 0; i < MOST; i++)
        image[i] = (float)(test_random() % 1000);
    struct conv_patches unfolds = cuda_conv_patches_of(&s, false), folds = cuda_conv_patches_of(&s, true);
    int64_t count = walk(channels, out, flip, image, want, false);
    REQUIRE(count <= MOST && run(p, &unfolds, image, patches));
    CHECK(!memcmp(patches, want, sizeof(float) * (size_t)count));
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    walk(channels, out, flip, want, patches, true);
    REQUIRE(run(p, &folds, patches, got));
    CHECK(!memcmp(got, want, sizeof(float) * (size_t)inputs));
}

static void check_all(const char *how) {
    struct kernel_place p = desk_place(how);
    for (int i = 0; i < 4; i++)
        check(&p, i & 1 ? 8 : 3, i & 2);
}

TEST(patches_in_the_interpreter) {
    check_all("interpreter");
}

TEST(patches_compiled_for_c) {
    check_all("c");
}

TEST(patches_by_opencl) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    check_all("opencl");
}

TEST(patches_compile_for_cuda) {
    static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    if (!cuda_compiler()) {
        test_skip(zl_error());
        zl_clear_error();
        return;
    }
    for (int i = 0; i < (test_long() ? 12 : 4); i++) {
        struct conv_patches_key key = {"patches", i & 1, i & 2 ? 4 : 1};
        struct tile_kernel *kernel = cuda_conv_patches_make(&key);
        char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
        struct text code = {0};
        CHECK(source && cuda_compile(source, architectures[i % 3], NULL, &code));
        text_free(&code);
        memory_free(source);
        tile_free(kernel);
    }
}
