// bm1690_kernel.c - the target bm1690: tile kernels as device C for SophGo's TPU, on the emulator.
//
// A chip is opened for each call: device memory, copies and launches are calls of their own, on which an array device can be built.

#include "device/bm1690_code.h"
#include "device/device.h"
#include "device/group_kernel.h"

#include "render/render.h"

#include <stdio.h>
#include <string.h>

struct compiled {
    struct group_kernel group;
    struct bm1690_module *module;
    char entry[256];
};

static void free_compiled(void *compiled) {
    struct compiled *c = compiled;
    if (!c)
        return;
    bm1690_module_close(c->module);
    group_kernel_close(&c->group);
    memory_free(c);
}

static void *compile(struct tile_kernel *kernel, struct text *source) {
    struct compiled *c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    snprintf(c->entry, sizeof c->entry, "%.200s_kernel", kernel->name);
    if (render_kernel(source, kernel, render_target("bm1690")) && group_kernel_open(&c->group, kernel) &&
        (c->module = device_bm1690_load(source->data)))
        return c;
    free_compiled(c);
    return NULL;
}

// Memory of the chip, by its addresses ------------------------------------------------------------------------------------

static void *allocate(void *chip, size_t bytes) {
    return (void *)(uintptr_t)bm1690_alloc(chip, MAX_OF(bytes, 1));
}

static bool write_memory(void *chip, void *to, const void *from, size_t bytes) {
    return bm1690_write(chip, (uint64_t)(uintptr_t)to, from, bytes);
}

static bool read_memory(void *chip, void *to, const void *from, size_t bytes) {
    return bm1690_read(chip, (uint64_t)(uintptr_t)from, to, bytes);
}

static void free_memory(void *chip, void *memory) {
    bm1690_free(chip, (uint64_t)(uintptr_t)memory);
}

static const struct group_memory use = {allocate, write_memory, read_memory, free_memory};

// Launches ------------------------------------------------------------------------------------------------------------------

// The arguments as the text's struct has them: eight bytes each.
static uint64_t *list_arguments(const struct group_call *k, size_t *bytes) {
    const struct tile_kernel *kernel = k->group->kernel;
    int count = 0, total = kernel->parameters + k->group->rooms + kernel->symbols;
    uint64_t *list = memory_zero(sizeof *list * (size_t)(total + 1));
    for (int i = 0; list && i < kernel->parameters; i++, count++)
        if (group_call_is_value(k, i))
            memcpy(&list[count], k->address[i], (size_t)k->sizes.bytes[i]);
        else
            list[count] = (uint64_t)(uintptr_t)k->memory[i];
    for (int i = 0; list && i < k->group->rooms; i++)
        list[count++] = (uint64_t)(uintptr_t)k->memory[kernel->parameters + i];
    for (int i = 0; list && i < kernel->symbols; i++)
        list[count++] = (uint64_t)k->symbol[i];
    *bytes = sizeof *list * (size_t)total;
    return list;
}

static bool launch(const struct compiled *c, struct bm1690 *chip, const struct group_call *k, bool counts,
                   double *seconds) {
    struct bm1690_options options = {.cores = BM1690_CORES, .counts_only = counts};
    struct bm1690_report report = {{0}};
    size_t bytes;
    uint64_t *arguments = list_arguments(k, &bytes);
    bool good = arguments && bm1690_launch(chip, c->module, c->entry, arguments, bytes, &options, &report);
    if (seconds)
        *seconds = report.cycles * 1e-9;
    counter_add(COUNTER_LANE_ELEMENTS, (int64_t)report.elements);
    counter_add(COUNTER_LANE_SINGLES, (int64_t)report.scalars);
    bm1690_report_free(&report);
    memory_free(arguments);
    return good;
}

static bool call(const struct compiled *c, void *const *address, const int64_t *symbol, bool counts,
                 double *seconds) {
    struct bm1690 *chip = bm1690_open();
    struct group_call k = {
        .group = &c->group, .use = &use, .device = chip, .address = address, .symbol = symbol};
    bool good = chip && group_call_open(&k) && launch(c, chip, &k, counts, seconds) &&
                (counts || group_call_read(&k));
    if (chip)
        group_call_close(&k, true);
    bm1690_close(chip);
    return good;
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    return call(compiled, address, symbol, false, NULL);
}

// The modelled time, which does not change from run to run.
static bool time_runs(void *compiled, void *const *address, const int64_t *symbol, int repeats,
                      double *seconds) {
    (void)repeats;
    return call(compiled, address, symbol, true, seconds);
}

const struct kernel_driver kernel_driver_bm1690 = {.name = "bm1690",
                                                   .device = "bm1690",
                                                   .compile = compile,
                                                   .run = run,
                                                   .time = time_runs,
                                                   .is_modelled = true,
                                                   .free = free_compiled};
