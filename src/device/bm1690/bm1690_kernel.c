// bm1690_kernel.c - the target bm1690: runs tile kernels as device C on SophGo's TPU: on the emulator or,
// with the vendor's tools, on a chip.
//
// An emulated chip is opened for each call. Device memory, copies and launches are separate functions, so
// that a device for arrays can be built on them.

#include "device/bm1690/bm1690_code.h"
#include "device/bm1690/bm1690_tools.h"
#include "device/device.h"
#include "device/tile_runtime/group_kernel.h"
#include "device/profile/profile.h"

#include "render/render.h"

#include <stdio.h>
#include <string.h>

struct compiled {
    struct group_kernel group;
    struct bm1690_module *module;    // for the emulator, or
    struct bm1690_chip_module *code; // for a chip
    char name[208], entry[224];
};

static void free_compiled(void *compiled) {
    struct compiled *c = compiled;
    if (!c)
        return;
    bm1690_module_close(c->module);
    bm1690_chip_unload(c->code);
    device_group_kernel_close(&c->group);
    memory_free(c);
}

static bool load(struct compiled *c, const struct text *source) {
    if (bm1690_chip_is_used())
        return (c->code = bm1690_chip_load(source));
    return (c->module = device_bm1690_load(source->data));
}

static void *compile(struct tile_kernel *kernel, struct text *source) {
    struct compiled *c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    snprintf(c->name, sizeof c->name, "%.200s", kernel->name);
    snprintf(c->entry, sizeof c->entry, "%s%s", c->name, render_bm1690_ending(c->name));
    if (render_kernel(source, kernel, render_target("bm1690")) &&
        device_group_kernel_open(&c->group, kernel) && load(c, source))
        return c;
    free_compiled(c);
    return NULL;
}

// Memory of the chip, by its addresses ----------------------------------------------------------------------

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

static const struct group_memory emulated = {allocate, write_memory, read_memory, free_memory};

static void *allocate_on_chip(void *unused, size_t bytes) {
    (void)unused;
    return bm1690_chip_alloc(MAX_OF(bytes, 1));
}

static bool write_to_chip(void *unused, void *to, const void *from, size_t bytes) {
    (void)unused;
    return bm1690_chip_write(to, from, bytes);
}

static bool read_from_chip(void *unused, void *to, const void *from, size_t bytes) {
    (void)unused;
    return bm1690_chip_read(to, from, bytes);
}

static void free_on_chip(void *unused, void *memory) {
    (void)unused;
    bm1690_chip_free(memory);
}

static const struct group_memory real = {allocate_on_chip, write_to_chip, read_from_chip, free_on_chip};

// Launches --------------------------------------------------------------------------------------------------

// Returns the arguments in the layout of the kernel text's struct, eight bytes each.
static uint64_t *list_arguments(const struct group_call *k, size_t *bytes) {
    const struct tile_kernel *kernel = k->group->kernel;
    int count = 0, total = kernel->parameters + k->group->rooms + kernel->symbols;
    uint64_t *list = memory_zero(sizeof *list * (size_t)(total + 1));
    for (int i = 0; list && i < kernel->parameters; i++, count++)
        if (device_group_call_is_value(k, i))
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

static void record(const struct compiled *c, const zl_device_c_report *r, int64_t begin) {
    uintptr_t word[PROFILE_MODEL_WORDS];
    const char *name = profile_keep(c->name);
    struct profile_model model = {.us = r->seconds * 1e6,
                                  .compute_us = r->compute_seconds * 1e6,
                                  .copy_us = r->copy_seconds * 1e6,
                                  .lanes = r->lanes,
                                  .bank_conflicts = (double)r->bank_conflicts,
                                  .scalars = (double)r->scalars};
    memcpy(word, &model, sizeof model);
    if (name)
        profile_add(&(struct profile_record){.kind = PROFILE_MODELLED,
                                             .begin = begin,
                                             .end = clock_ticks(),
                                             .words = PROFILE_MODEL_WORDS,
                                             .name = name},
                    word);
}

// Runs a launch on the emulator. If out is not NULL, the launch's work is only counted, into *out, and
// nothing is computed.
static bool emulate(const struct compiled *c, const struct group_call *k, const void *arguments, size_t bytes,
                    zl_device_c_report *out) {
    struct bm1690_options options = {.cores = BM1690_CORES, .counts_only = out};
    struct bm1690_report counted = {{0}};
    zl_device_c_report own;
    int64_t begin = clock_ticks();
    bool good = bm1690_launch(k->device, c->module, c->entry, arguments, bytes, &options, &counted);
    device_bm1690_report(out ? out : &own, &counted);
    counter_add(COUNTER_LANE_ELEMENTS, (int64_t)counted.elements);
    counter_add(COUNTER_LANE_SINGLES, (int64_t)counted.scalars);
    bm1690_report_free(&counted);
    if (good && profile_is_on())
        record(c, out ? out : &own, begin);
    return good;
}

// Launches the kernel `repeats` times on the chip; *seconds, unless NULL, is the time of the fastest launch.
static bool run_on_chip(const struct compiled *c, const void *arguments, size_t bytes, int repeats,
                        double *seconds) {
    bool good = true;
    for (int i = 0; good && i < repeats; i++) {
        int64_t begin = clock_ns();
        good = bm1690_chip_launch(c->code, c->entry, arguments, bytes, BM1690_CORES);
        double taken = (double)(clock_ns() - begin) * 1e-9;
        if (seconds)
            *seconds = i ? MIN_OF(*seconds, taken) : taken;
    }
    return good;
}

// What a call returns: results; or times, those of the chip's runs or the emulator's report.
struct wanted {
    int repeats;
    double *seconds;
    zl_device_c_report *report;
};

static bool call(const struct compiled *c, void *const *address, const int64_t *symbol, struct wanted w) {
    struct bm1690 *chip = c->code ? NULL : bm1690_open();
    struct group_call k = {.group = &c->group,
                           .use = c->code ? &real : &emulated,
                           .device = chip,
                           .address = address,
                           .symbol = symbol};
    size_t bytes;
    bool is_open = c->code || chip, good = is_open && device_group_call_open(&k);
    uint64_t *arguments = good ? list_arguments(&k, &bytes) : NULL;
    good = arguments &&
           (c->code ? run_on_chip(c, arguments, bytes, w.repeats, w.seconds)
                    : emulate(c, &k, arguments, bytes, w.report)) &&
           (w.seconds || w.report || device_group_call_read(&k));
    memory_free(arguments);
    if (is_open)
        device_group_call_close(&k, true);
    bm1690_close(chip);
    return good;
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    return call(compiled, address, symbol, (struct wanted){.repeats = 1});
}

static bool report_run(void *compiled, void *const *address, const int64_t *symbol, zl_device_c_report *out) {
    return call(compiled, address, symbol, (struct wanted){.repeats = 1, .report = out});
}

// Sets *seconds to the time of the fastest run on a chip; on the emulator, to the modelled time, which is the
// same for every run.
static bool time_runs(void *compiled, void *const *address, const int64_t *symbol, int repeats,
                      double *seconds) {
    const struct compiled *c = compiled;
    zl_device_c_report report = {0};
    if (c->code)
        return call(c, address, symbol, (struct wanted){.repeats = repeats, .seconds = seconds});
    bool good = report_run(compiled, address, symbol, &report);
    *seconds = report.seconds;
    return good;
}

static bool is_modelled(void) {
    return !bm1690_chip_is_used();
}

const struct kernel_driver kernel_driver_bm1690 = {.name = "bm1690",
                                                   .device = "bm1690",
                                                   .compile = compile,
                                                   .run = run,
                                                   .time = time_runs,
                                                   .is_modelled = is_modelled,
                                                   .report = report_run,
                                                   .says = bm1690_chip_says,
                                                   .free = free_compiled};
