// test_row_kernels.c - the built-in row kernels of every level that this machine has, and the same kernels as
// plain C, compared bit by bit with the interpreter: for rows of all lengths, special numbers, numbers of
// very different magnitudes, and outputs that overwrite inputs.

#include "trial.h"

#include "device/cpu/tile/compiler.h"
#include "render/render.h"

#include <string.h>

static const struct {
    const char *name;
    const struct row_table *rows;
} levels[] = {
#define LEVEL(name, arch, flags) {#name, &rows_##name},
#include "levels_built.def"
};

// Returns how many levels run here. They are listed lowest first, and all up to the machine's level run.
static int levels_here(void) {
    for (int i = 0; i < (int)COUNT(levels); i++)
        if (!strcmp(levels[i].name, cpu_level()->name))
            return i + 1;
    return 1;
}

// Lists the numbers of kernels in the table; in shorter runs a sample of them, by the seed.
static int pick(int *list, int room, int wanted) {
    int count = 0, at = 0;
    for (; at < 64 * 1024 && count < room; at++)
        if (trial_function(levels[0].rows, at))
            list[count++] = at;
    for (int i = 0; wanted < count && i < wanted; i++) {
        int other = (int)test_between(i, count - 1), moved = list[i];
        list[i] = list[other];
        list[other] = moved;
    }
    return wanted < count ? wanted : count;
}

static bool check_lengths(struct trial *t, trial_fn *fn) {
    bool good = trial_check(t, fn, TRIAL_MOST, true) && trial_check(t, fn, 0, false);
    for (int i = 0; i < 8 && good; i++)
        good = trial_check(t, fn, test_between(1, 70), i == 0);
    for (int i = 0; i < 4 && good && t->kernel->body->kind == TILE_MAP; i++)
        good = trial_check_runs(t, fn, test_between(1, TRIAL_MOST), i ? test_between(1, 70) : 64);
    return good;
}

TEST(row_kernels_equal_the_interpreter) {
    static int list[4096];
    int count = pick(list, (int)COUNT(list), test_quick() ? 150 : (int)COUNT(list)), wrong = 0;
    CHECK(count > 100);
    for (int i = 0; i < count; i++) {
        struct trial t;
        if (trial_open(&t, trial_kernel(list[i])))
            for (int level = 0; level < levels_here(); level++)
                if (!check_lengths(&t, trial_function(levels[level].rows, list[i])) && ++wrong)
                    test_note("at level %s", levels[level].name);
        trial_close(&t);
    }
    CHECK_EQ_INT(wrong, 0);
}

// Every op has row kernels for each dtype that it accepts, in every form except that of numbers only.
TEST(row_table_is_complete) {
    int missing = 0;
    for (int op = 0; tile_op_is_row((enum tile_op)op); op++)
        for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
            for (int form = 0; form < (1 << tile_op_arity((enum tile_op)op)) - 1; form++)
                for (int level = 0; level < (int)COUNT(levels); level++)
                    missing += tile_row_takes((enum tile_op)op, (zl_dtype)dtype) !=
                               (levels[level].rows->op[op][dtype][form] != NULL);
    for (int to = 0; to < ZL_DTYPE_COUNT; to++)
        for (int from = 0; from < ZL_DTYPE_COUNT; from++)
            missing += (levels[0].rows->cast[to][from] != NULL) != (to != from);
    CHECK_EQ_INT(missing, 0);
}

// Rows of all lengths around a block; each ends at the last byte of accessible memory.
TEST(row_kernels_take_every_length) {
    static const struct {
        enum tile_op op;
        zl_dtype dtype;
    } some[] = {{TILE_ADD, ZL_FLOAT32},
                {TILE_LT, ZL_FLOAT64},
                {TILE_EXP, ZL_FLOAT16},
                {TILE_MUL, ZL_COMPLEX64},
                {TILE_ADD, ZL_INT8}};
    for (size_t i = 0; i < COUNT(some); i++) {
        struct trial t;
        const char *form = tile_op_arity(some[i].op) == 1 ? "v" : "vv";
        bool good = trial_open(&t, tile_row_kernel(some[i].op, some[i].dtype, form));
        for (int level = 0; level < levels_here(); level++)
            for (int64_t n = 0; n <= 140 && good; n++)
                good = CHECK(
                    trial_check(&t, levels[level].rows->op[some[i].op][some[i].dtype][0], n, n % 7 == 0));
        trial_close(&t);
    }
}

// Compiled text ---------------------------------------------------------------------------------------------

// Appends the text of a kernel, without the prelude; its name is unique.
static bool add_function(struct text *out, struct tile_kernel *kernel, const char *dialect) {
    return CHECK(kernel && pass_run(kernel, render_target(dialect), NULL) &&
                 render_function(out, kernel, dialect, NULL));
}

static void check_compiled(const char *dialect, const int *list, int count) {
    struct text source = {0};
    text_add(&source, "%s", strcmp(dialect, "c") ? render_prelude(dialect) : "");
    for (int i = 0; i < count; i++) {
        struct tile_kernel *kernel = trial_kernel(list[i]);
        add_function(&source, kernel, dialect);
        tile_free(kernel);
    }
    for (int i = 0; i < count; i++) {
        struct trial t;
        bool good = trial_open(&t, trial_kernel(list[i]));
        trial_fn *fn = good ? (trial_fn *)cpu_jit(source.data, t.kernel->name) : NULL;
        CHECK(!good || (fn && check_lengths(&t, fn)));
        trial_close(&t);
        if (good && !fn)
            break;
    }
    text_free(&source);
}

TEST(compiled_text_equals_the_interpreter) {
    static int list[4096];
    int count = pick(list, (int)COUNT(list), test_quick() ? 12 : 60);
    check_compiled("c_scalar", list, count);
    check_compiled("c", list, count);
}
