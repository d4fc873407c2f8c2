// spirv_files.c - writes SPIR-V modules to files.

#include "device/spirv_files.h"
#include "test.h"

#include "kernel/kernel.h"
#include "render/render.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL, POOR, GPU, NARROW, FAR, CROWDED, UNITS };

static struct target_unit units[UNITS];

static void set_units(void) {
    static const char *const names[] = {"a full unit",   "a poor unit", "a GPU",
                                        "a narrow unit", "a far unit",  "a crowded unit"};
    for (int i = 0; i < UNITS; i++)
        target_set_unit(&units[i], render_target("spirv_tiles"), names[i], 1024, 1 << 20);
    struct target_spirv *poor = &units[POOR].spirv, *gpu = &units[GPU].spirv, *full = &units[FULL].spirv;
    full->has_exact_fma = full->has_f16 = true;
    full->rounds = full->keeps_small = full->keeps_special = PASS_F16 | PASS_FLOAT;
    full->push_bytes = 4096;
    units[FULL].group.subgroup = 4;
    poor->has_bytes = poor->has_halves = poor->has_small_bytes = poor->has_small_halves = false;
    poor->has_exact_divide = poor->has_exact_root = false;
    poor->push_bytes = 0;
    gpu->has_exact_fma = true;
    gpu->has_exact_divide = gpu->has_exact_root = false;
    gpu->push_bytes = 256;
    gpu->has_shared_layout = true;
    units[GPU].group.subgroup = 32;
    units[NARROW].spirv.has_i64 = false;
    units[FAR].spirv.has_addresses = units[FAR].spirv.is_far = true;
    struct target_spirv *crowded = &units[CROWDED].spirv;
    crowded->has_addresses = true;
    crowded->buffers = 2;
    crowded->has_bytes = crowded->has_halves = false;
    crowded->push_bytes = 32;
}

const struct target *spirv_unit(int at) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_units);
    return at < UNITS ? &units[at].target : NULL;
}

static bool keep_as_file(const struct text *code) {
    const char *folder = getenv("ZL_TEST_SPIRV");
    char hash[65], path[PATH_MAX];
    if (!folder)
        return true;
    hash_sha256(code->data, (size_t)code->len, hash);
    snprintf(path, sizeof path, "%s/%s.spv", folder, hash);
    return file_write(path, code->data, (size_t)code->len);
}

bool spirv_files_keep(const struct tile_kernel *kernel) {
    const struct target *unit;
    bool good = true;
    for (int i = 0; good && (unit = spirv_unit(i)); i++) {
        struct tile_kernel *copy = kernel_copy(kernel);
        struct text code = {0};
        good = copy && render_kernel(&code, copy, unit) && keep_as_file(&code);
        text_free(&code);
        tile_free(copy);
    }
    return good;
}

const char *spirv_files_lack(void) {
    int status;
    memory_free(test_shell("command -v spirv-val", &status));
    return status ? "spirv-val, of spirv-tools, is not installed" : NULL;
}

void spirv_files_check(const char *folder) {
    struct text command = {0};
    int status;
    text_add(&command,
             "find '%s' -name '*.spv' | grep -q . || echo there are none; find '%s' -name '*.spv' | xargs -r "
             "-P %d -I {} "
             "sh -c 'spirv-val --target-env vulkan1.2 {} || echo {}' 2>&1 | head -c 2000",
             folder, folder, pool_threads());
    char *output = command.failed ? NULL : test_shell(command.data, &status);
    if (!CHECK(output && !*output))
        test_note("%s", output ? output : "spirv-val did not run");
    memory_free(output);
    text_free(&command);
}
