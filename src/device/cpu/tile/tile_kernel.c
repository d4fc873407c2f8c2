// tile_kernel.c - tile kernels on the CPU: rendered as C, compiled by the system's compiler, and run with
// their blocks divided among the threads of the pool.

#include "device/cpu/rows/operands.h"
#include "device/cpu/tile/compiler.h"
#include "device/cpu/tile/tile_kernel.h"

#include "render/render.h"

#include <inttypes.h>
#include <stdio.h>

typedef void block_fn(const struct tile_run *run, int64_t phase, int64_t block);
typedef int64_t count_fn(const struct tile_run *run, int64_t at);
enum { PAST_LAST = -1 }; // of a count_fn; other negative numbers stand for counts of more than 64 bits

struct compiled {
    block_fn *block;
    count_fn *blocks, *room;
    char name[]; // of the kernel, for messages
};

// Compiling -------------------------------------------------------------------------------------------------

// With index checks (SETTING_CHECK), loops are not vectorised anyway: a level above -Og would compile two to
// six times as long for little gain.
static const char *flags(void) {
    return setting_flag(SETTING_CHECK) ? "-Og -w -fno-strict-aliasing"
                                       : "-O3 -funroll-loops -w -fno-strict-aliasing";
}

// Compiles the text and returns one of its functions.
static void *function(const char *source, const char *name, const char *ending) {
    struct text symbol = {0};
    text_add(&symbol, "%s%s", name, ending);
    void *found = symbol.failed ? NULL : cpu_jit_alone(source, flags(), symbol.data);
    text_free(&symbol);
    return found;
}

static bool find_functions(struct compiled *c, const char *source) {
    return (c->block = (block_fn *)function(source, c->name, "")) &&
           (c->blocks = (count_fn *)function(source, c->name, "_blocks")) &&
           (c->room = (count_fn *)function(source, c->name, "_room"));
}

static void *compile(struct tile_kernel *kernel, struct text *source) {
    size_t bytes = strlen(kernel->name) + 1;
    struct compiled *c = memory_zero(sizeof *c + bytes);
    kernel->registers = cpu_level_registers();
    if (c && render_kernel(source, kernel, render_target("c_tiles"))) {
        memcpy(c->name, kernel->name, bytes);
        if (find_functions(c, source->data))
            return c;
    }
    memory_free(c);
    return NULL;
}

// Running ---------------------------------------------------------------------------------------------------

struct launch {
    struct tile_run run;
    const struct compiled *compiled;
    int64_t phase;
    atomic_int failed_line; // line of a failed assertion; 0: none
    _Atomic(const char *) failed;
    atomic_bool is_outside; // an index was outside of its buffer; `outside` has the message
    struct text outside;
};

static void on_fail(const struct tile_run *run, int line, const char *message) {
    struct launch *l = (struct launch *)(uintptr_t)run;
    int none = 0;
    if (atomic_compare_exchange_strong(&l->failed_line, &none, MAX_OF(line, 1)))
        atomic_store(&l->failed, message);
}

// Records an index that is outside of its buffer; only the first one is reported.
static void on_outside(const struct tile_run *run, int line, const char *buffer, int axis, int64_t index,
                       int64_t size) {
    struct launch *l = (struct launch *)(uintptr_t)run;
    if (atomic_exchange(&l->is_outside, true))
        return;
    text_add(&l->outside,
             "kernel %s, line %d: %s has %" PRId64 " elements along axis %d, and its index there is %" PRId64,
             l->compiled->name, line, buffer, size, axis, index);
}

static void on_print(const struct tile_run *run, const char *message, int has_value, double value) {
    const struct launch *l = (const struct launch *)run;
    if (has_value)
        log_line(ZL_LOG_INFO, "%s: %s %g", l->compiled->name, message, value);
    else
        log_line(ZL_LOG_INFO, "%s: %s", l->compiled->name, message);
}

static void run_blocks(const void *context, int64_t from, int64_t to) {
    const struct launch *l = context;
    for (; from < to; from++)
        l->compiled->block(&l->run, l->phase, from);
}

static bool has_failed(struct launch *l) {
    if (atomic_load(&l->is_outside))
        error_set(ZL_ERROR_VALUE, "%s",
                  l->outside.data ? l->outside.data : "an index is outside of its buffer");
    else if (atomic_load(&l->failed_line))
        error_set(ZL_ERROR_VALUE, "kernel %s, line %d: %s", l->compiled->name, atomic_load(&l->failed_line),
                  atomic_load(&l->failed) ? atomic_load(&l->failed) : "an assertion does not hold");
    return atomic_load(&l->is_outside) || atomic_load(&l->failed_line);
}

static bool run_phases(struct launch *l) {
    for (int64_t blocks; (blocks = l->compiled->blocks(&l->run, l->phase)) != PAST_LAST; l->phase++) {
        if (blocks < 0)
            return error_false(ZL_ERROR_VALUE, "kernel %s: a grid has more blocks than 64 bits can count",
                               l->compiled->name);
        if (blocks > 0)
            cpu_split(blocks, 1, run_blocks, l);
        if (has_failed(l))
            return false;
    }
    return true;
}

static int count_rooms(const struct compiled *c, const struct tile_run *run) {
    int count = 0;
    while (c->room(run, count) != PAST_LAST)
        count++;
    return count;
}

static bool make_rooms(const struct compiled *c, const struct tile_run *run, char **room, int count) {
    for (int i = 0; i < count; i++) {
        int64_t bytes = c->room(run, i);
        if (bytes < 0)
            return error_false(ZL_ERROR_VALUE,
                               "kernel %s: memory has a negative size, or one that does not fit into 64 bits",
                               c->name);
        if (!(room[i] = memory_zero((size_t)MAX_OF(bytes, 1))))
            return false;
    }
    return true;
}

static uint64_t next_id(void) {
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    const struct compiled *c = compiled;
    struct launch l = {.run = {(char *const *)address, symbol, NULL, cpu_tile_gemm, cpu_tile_reduce, on_fail,
                               on_print, next_id(), on_outside},
                       .compiled = c};
    atomic_init(&l.failed_line, 0);
    atomic_init(&l.failed, NULL);
    atomic_init(&l.is_outside, false);
    int rooms = count_rooms(c, &l.run);
    char **room = memory_zero(sizeof *room * (size_t)(rooms + 1));
    l.run.room = room;
    bool done = room && make_rooms(c, &l.run, room, rooms) && run_phases(&l);
    for (int i = 0; room && i < rooms; i++)
        memory_free(room[i]);
    memory_free(room);
    text_free(&l.outside);
    return done;
}

const struct kernel_driver kernel_driver_c = {
    .name = "c", .device = "cpu", .compile = compile, .run = run, .free = memory_free};
