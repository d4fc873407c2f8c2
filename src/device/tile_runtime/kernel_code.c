// kernel_code.c - keeps the code of tile kernels on disk, under a hash of their text and of the compiler's
// identity, so that other processes and later runs load it instead of compiling.

#include "device/tile_runtime/group_kernel.h"

#include "device/profile/profile.h"

#include <limits.h>
#include <stdio.h>

static const char code_file[] = "kernel.bin";

static bool make(const char *folder, void *context) {
    const struct kernel_code *c = context;
    char path[PATH_MAX];
    struct text code = {0};
    snprintf(path, sizeof path, "%s/%s", folder, code_file);
    counter_add(COUNTER_COMPILES, 1);
    int64_t begin = clock_ns();
    bool done = c->compile(c->source, &code, c->context) && !code.failed &&
                file_write(path, code.data, (size_t)code.len);
    profile_compiled("compile a kernel", begin);
    text_free(&code);
    return done;
}

static void *load(const char *path, void *context) {
    const struct kernel_code *c = context;
    size_t bytes;
    char *code = file_read(path, &bytes);
    void *loaded = code ? c->load(code, bytes, c->context) : NULL;
    memory_free(code);
    return loaded;
}

void *kernel_code_use(const struct kernel_code *code) {
    struct text name = {0};
    char key[65];
    void *loaded = NULL;
    text_add(&name, "%s\n", code->identity);
    text_bytes(&name, code->source->data, code->source->len);
    text_add(&name, "\n");
    if (!name.failed) {
        hash_sha256(name.data, (size_t)name.len, key);
        loaded = device_cache_use(&(struct cache_entry){
            .key = key, .file = code_file, .make = make, .use = load, .context = (void *)(uintptr_t)code});
    }
    text_free(&name);
    return loaded;
}
