// test_bm1690_launch.c - launches of device C on the emulated chip: cores, regions, counters, and faults that
// it has to detect.

#include "on_chip.h"

#include "bm1690/chip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct matmul {
    uint64_t c, a, b;
    int32_t rows, columns, depth;
};

// Returns small integers, whose products and sums are exact in any order.
static uint16_t *small_halves(int64_t count) {
    uint16_t *x = memory_alloc(sizeof *x * (size_t)count);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = half_from_float((float)test_between(-2, 2));
    return x;
}

static float exact_element(const uint16_t *a, const uint16_t *b, int row, int column,
                           const struct matmul *m) {
    float sum = 0;
    for (int k = 0; k < m->depth; k++)
        sum += half_to_float(a[(int64_t)row * m->depth + k]) *
               half_to_float(b[(int64_t)k * m->columns + column]);
    return sum;
}

// A product of 1024^3 takes at most 3 s, on all threads together.
TEST(matmul_on_all_cores) {
    struct on_chip t;
    int size = test_long() ? 1024 : 256;
    double least = INFINITY;
    struct matmul m = {.rows = size, .columns = size, .depth = size};
    int64_t count = (int64_t)size * size;
    REQUIRE(on_chip_open_file(&t, "matmul.c"));
    uint16_t *a = small_halves(count), *b = small_halves(count), *c = memory_zero(sizeof *c * (size_t)count);
    m.a = on_chip_put(&t, a, sizeof *a * (size_t)count);
    m.b = on_chip_put(&t, b, sizeof *b * (size_t)count);
    m.c = on_chip_put(&t, NULL, sizeof *c * (size_t)count);
    for (int cores = 1; cores <= BM1690_CORES; cores *= 2) {
        struct bm1690_report r;
        clock_t begin = clock();
        if (!CHECK(bm1690_launch(t.chip, t.module, "matmul_kernel", &m, sizeof m,
                                 &(struct bm1690_options){.cores = cores}, &r)))
            test_note("%s", zl_error());
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        least = MIN_OF(least, seconds);
        CHECK(bm1690_read(t.chip, m.c, c, sizeof *c * (size_t)count));
        for (int i = 0; i < 64; i++) {
            int row = (int)test_between(0, size - 1), column = (int)test_between(0, size - 1);
            CHECK_EQ_F64(half_to_float(c[(int64_t)row * size + column]),
                         exact_element(a, b, row, column, &m));
        }
        CHECK_EQ_INT((int64_t)r.scalars, 0);
        CHECK(r.cycles >= r.busy[BM1690_TIU] && r.cycles >= r.busy[BM1690_GDMA]);
        // At most 32 x 4 multiply-adds per lane and cycle.
        CHECK(r.busy[BM1690_TIU] * cores * 64 * 128 >= (double)count * size);
        bm1690_report_free(&r);
    }
    if (!CHECK(least <= 3) || test_long())
        test_note("%d^3 takes %.2f s of processor time", size, least);
    memory_free(a);
    memory_free(b);
    memory_free(c);
    on_chip_close(&t);
}

TEST(counting_computes_nothing) {
    struct on_chip t;
    struct matmul m = {.rows = 4096, .columns = 4096, .depth = 4096};
    size_t bytes = 2ul * 4096 * 4096;
    REQUIRE(on_chip_open_file(&t, "matmul.c"));
    m.a = bm1690_alloc(t.chip, bytes);
    m.b = bm1690_alloc(t.chip, bytes);
    m.c = bm1690_alloc(t.chip, bytes);
    struct bm1690_report r;
    int64_t begin = clock_ns();
    CHECK(bm1690_launch(t.chip, t.module, "matmul_kernel", &m, sizeof m,
                        &(struct bm1690_options){.cores = BM1690_CORES, .counts_only = true}, &r));
    CHECK((double)(clock_ns() - begin) < 1e9);
    CHECK_EQ_INT((int64_t)r.commands[BM1690_TIU], 512 * 32 + 512);
    CHECK_EQ_INT((int64_t)r.commands[BM1690_GDMA], 512 * 64 + 512);
    double peak = 4096.0 * 4096 * 4096 / (64 * 128 * BM1690_CORES);
    CHECK(r.cycles >= peak && r.cycles < 8 * peak);
    bm1690_report_free(&r);
    on_chip_close(&t);
}

// Each allocation fails once: the launch reports it, and nothing leaks.
TEST(memory_of_the_host_runs_out) {
    struct on_chip t;
    struct matmul m = {.rows = 128, .columns = 256, .depth = 256};
    bool good = false;
    REQUIRE(on_chip_open_file(&t, "matmul.c"));
    for (long at = 1; !good && at < 1000; at++) {
        struct bm1690 *chip = NULL;
        memory_fail_at(at);
        good = (chip = bm1690_open()) && (m.a = bm1690_alloc(chip, 2 * 128 * 256)) &&
               (m.b = bm1690_alloc(chip, 2 * 256 * 256)) && (m.c = bm1690_alloc(chip, 2 * 128 * 256)) &&
               bm1690_launch(chip, t.module, "matmul_kernel", &m, sizeof m,
                             &(struct bm1690_options){.traces = at % 2}, NULL);
        memory_fail_at(0);
        bm1690_close(chip);
        if (!good)
            CHECK_ERROR(ZL_ERROR_MEMORY, good);
    }
    CHECK(good);
    on_chip_close(&t);
}

// The channels of one lane run in order, since a channel may read what an earlier one writes: a table of 512
// rows that fills the lanes is reduced into the place where it begins.
struct order {
    atomic_int next[BM1690_LANE_COUNT]; // the channel that each lane expects next
    atomic_bool is_wrong;
};

static void take_turn(void *context, int channel) {
    struct order *o = context;
    int lane = channel % BM1690_LANE_COUNT;
    if (channel == lane) // without waiting, other threads would get to their second channel meanwhile
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    if (atomic_fetch_add(&o->next[lane], BM1690_LANE_COUNT) != channel - lane)
        atomic_store(&o->is_wrong, true);
}

TEST(channels_of_a_lane_are_in_order) {
    struct order o = {.is_wrong = false};
    struct view view = {.dim = {1, 512, 256, 32}};
    chip_spread(&view, take_turn, &o);
    CHECK(!atomic_load(&o.is_wrong));
    for (int i = 0; i < BM1690_LANE_COUNT; i++)
        CHECK_EQ_INT(atomic_load(&o.next[i]), 512);
}
