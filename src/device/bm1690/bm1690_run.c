// bm1690_run.c - the public interface to device C: packs and copies arguments, runs the program on the
// emulator, and copies outputs back.

#include "device/bm1690/bm1690_code.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    uint64_t *address; // the address of each argument; 0 for a scalar
    uint8_t *packed;
    size_t bytes;
};

static size_t bytes_of(const zl_kernel_buffer *b) {
    size_t bytes = zl_dtype_size(b->dtype);
    for (int i = 0; i < b->ndim; i++)
        bytes *= (size_t)b->dim[i];
    return bytes;
}

// Appends a value, aligned to its size like a member of a C struct.
static void pack(struct arguments *a, const void *value, size_t bytes) {
    a->bytes = (a->bytes + bytes - 1) / bytes * bytes;
    memcpy(a->packed + a->bytes, value, bytes);
    a->bytes += bytes;
}

static bool pack_argument(struct arguments *a, struct bm1690 *chip, int i, const zl_kernel_buffer *b) {
    if (!b->data)
        return error_false(ZL_ERROR_VALUE, "zl_device_c_run: argument %d is NULL", i);
    if (b->ndim == 0) {
        pack(a, b->data, zl_dtype_size(b->dtype));
        return true;
    }
    a->address[i] = bm1690_alloc(chip, bytes_of(b));
    if (!a->address[i] || !bm1690_write(chip, a->address[i], b->data, bytes_of(b)))
        return false;
    pack(a, &a->address[i], sizeof a->address[i]);
    return true;
}

static bool arguments_open(struct arguments *a, struct bm1690 *chip, int count,
                           const zl_device_c_argument *argument) {
    a->address = memory_zero(sizeof *a->address * (size_t)(count + 1));
    a->packed = memory_zero(16 * (size_t)(count + 1)); // the largest scalar has 16 bytes
    bool good = a->address && a->packed;
    for (int i = 0; good && i < count; i++)
        good = pack_argument(a, chip, i, &argument[i].memory);
    return good;
}

static bool arguments_read(const struct arguments *a, struct bm1690 *chip, int count,
                           const zl_device_c_argument *argument) {
    bool good = true;
    for (int i = 0; good && i < count; i++)
        if (argument[i].is_output && a->address[i])
            good = bm1690_read(chip, a->address[i], argument[i].memory.data, bytes_of(&argument[i].memory));
    return good;
}

void device_bm1690_report(zl_device_c_report *out, struct bm1690_report *r) {
    *out = (zl_device_c_report){
        .seconds = r->cycles * 1e-9,
        .compute_seconds = r->busy[BM1690_TIU] * 1e-9,
        .copy_seconds = r->busy[BM1690_GDMA] * 1e-9,
        .commands = (int64_t)(r->commands[BM1690_TIU] + r->commands[BM1690_GDMA] + r->commands[BM1690_HAU]),
        .bytes = (int64_t)r->bytes,
        .scalars = (int64_t)r->scalars,
        .bank_conflicts = (int64_t)r->bank_conflicts,
        .lanes = r->tiu_cycles > 0 ? r->lane_cycles / (r->tiu_cycles * BM1690_LANE_COUNT) : 0,
        .trace = r->trace.data ? text_take(&r->trace) : NULL,
    };
}

static bool run(struct bm1690 *chip, struct bm1690_module *module, const zl_device_c_options *o, int count,
                const zl_device_c_argument *argument, zl_device_c_report *report) {
    struct arguments a = {0};
    struct bm1690_report r = {0};
    struct bm1690_options options = {.cores = o->cores, .counts_only = o->counts_only, .traces = o->traces};
    bool ran = arguments_open(&a, chip, count, argument) &&
               bm1690_launch(chip, module, o->entry, a.packed, a.bytes, &options, &r);
    bool good = ran && arguments_read(&a, chip, count, argument);
    if (report)
        device_bm1690_report(report, &r);
    bm1690_report_free(&r);
    memory_free(a.address);
    memory_free(a.packed);
    return good;
}

bool zl_device_c_run(const char *text, const char *target, const zl_device_c_options *options, int count,
                     const zl_device_c_argument *argument, zl_device_c_report *report) {
    if (report)
        *report = (zl_device_c_report){0};
    if (!text || !target || strcmp(target, "bm1690") != 0)
        return error_false(ZL_ERROR_VALUE,
                           "zl_device_c_run: the target is '%s'; device C is run for 'bm1690'",
                           target ? target : "NULL");
    if (!options || !options->entry)
        return error_false(ZL_ERROR_VALUE, "zl_device_c_run: no entry: name the function that runs");
    struct bm1690_module *module = device_bm1690_load(text);
    struct bm1690 *chip = module ? bm1690_open() : NULL;
    bool good = chip && run(chip, module, options, count, argument, report);
    bm1690_close(chip);
    bm1690_module_close(module);
    return good;
}
