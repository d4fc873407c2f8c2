// kernels_cache.c - kernels by their keys: in memory, and as code on disk under a hash of text, device and driver.

#include "device/kernels/kernels.h"
#include "pass/pass.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>

static const char symbol[] = "zl_kernel"; // of every text
static const char code_file[] = "kernel.bin";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards loaded; compilations go on side by side
static struct map loaded;                                // key behind target and unit -> kernel

// On disk ----------------------------------------------------------------------------------------------------------

struct making {
    const struct kernel_place *place;
    const struct text *source;
};

static bool make(const char *folder, void *context) {
    const struct making *m = context;
    char path[PATH_MAX];
    struct text code = {0};
    snprintf(path, sizeof path, "%s/%s", folder, code_file);
    counter_add(COUNTER_COMPILES, 1);
    bool done = m->place->target->compile(m->place->unit, m->source->data, &code) && !code.failed &&
                file_write(path, code.data, (size_t)code.len);
    text_free(&code);
    return done;
}

static void *load(const char *path, void *context) {
    const struct making *m = context;
    size_t bytes;
    char *code = file_read(path, &bytes);
    void *kernel = code ? m->place->target->load(m->place->unit, code, bytes, symbol) : NULL;
    memory_free(code);
    return kernel;
}

static void *compile(const struct kernel_place *p, kernel_writer *write, const void *data) {
    struct text source = {0}, name = {0};
    char key[65];
    void *kernel = NULL;
    if (write(&source, data) && !source.failed) {
        pass_dump(p->target->dialect, source.data);
        text_add(&name, "%s\n%s\n", p->target->identity(p->unit), source.data);
        if (!name.failed) {
            hash_sha256(name.data, (size_t)name.len, key);
            struct making making = {p, &source};
            kernel = device_cache_use(&(struct cache_entry){
                .key = key, .file = code_file, .make = make, .use = load, .context = &making});
        }
    }
    text_free(&source);
    text_free(&name);
    return kernel;
}

// In memory --------------------------------------------------------------------------------------------------------

void *kernel_find(const struct kernel_place *p, const void *key, size_t bytes, kernel_writer *write,
                  const void *data) {
    struct {
        const struct kernel_target *target;
        int64_t unit;
        char key[1024];
    } full = {p->target, p->unit, {0}};
    if (bytes > sizeof full.key)
        return error_set(ZL_ERROR_COMPILE, "a kernel of %zu bytes of description: %zu are possible", bytes,
                         sizeof full.key);
    __builtin_memcpy(full.key, key, bytes);
    size_t all = offsetof(__typeof__(full), key) + bytes;
    pthread_mutex_lock(&lock);
    void *kernel = map_get(&loaded, &full, all);
    pthread_mutex_unlock(&lock);
    if (kernel || !(kernel = compile(p, write, data)))
        return kernel;
    pthread_mutex_lock(&lock);
    bool kept = map_set(&loaded, &full, all, kernel); // another thread may have made the same: either serves
    pthread_mutex_unlock(&lock);
    return kept ? kernel : NULL;
}
