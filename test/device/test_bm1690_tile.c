// test_bm1690_tile.c - tile kernels as commands of the BM1690, on its emulator, against the interpreter.

#include "tile_samples.h"
#include "tile_trial.h"

#include "test.h"

#include "tile/tile.h"

#include <stdlib.h>

static const struct sample {
    const char *text;
    int64_t sizes[4];
    double near;
} samples[] = {
    {SAMPLE_SCALE, {10000}, 2e-6},       {SAMPLE_EDGES, {37, 71}, 0},     {SAMPLE_IM2COL, {8}, 0},
    {SAMPLE_REDUCTIONS, {48}, 1e-4},     {SAMPLE_SCANS, {11, 500}, 1e-4}, {SAMPLE_LINES, {37, 100}, 1e-4},
    {SAMPLE_STORES, {3, 1032}, 0},       {SAMPLE_RUNS, {3, 256}, 1e-4},   {SAMPLE_GEMM_RELU, {50, 29, 70}, 1e-5},
    {SAMPLE_INNER_TILES, {5}, 1e-4},     {SAMPLE_WHILE, {5}, 0},          {SAMPLE_SMALL_PRODUCT, {0}, 1e-4},
    {SAMPLE_HALF_GEMM, {0}, 2e-2},       {SAMPLE_WAVES, {100}, 1e-5},     {SAMPLE_TABLES, {200}, 1e-5},
    {SAMPLE_PIECES, {5}, 1e-5},          {SAMPLE_ROOM, {201}, 0},         {SAMPLE_SMALL, {600}, 0},
    {SAMPLE_SMALL_TILES, {0}, 1e-5},
};

TEST(tile_kernels_on_the_emulator) {
    const char *only = getenv("ONLY");
    for (size_t i = 0; i < COUNT(samples); i++)
        if (!only || atoi(only) == (int)i)
            tile_trial(samples[i].text, "bm1690", samples[i].sizes, samples[i].near);
}

TEST(the_manual_on_the_emulator) {
    tile_trial_of_manual("bm1690");
}
