// cuda_text.c - kernels of overrides that are CUDA C: files of this folder, compiled with what a call defines before them.

#include "device/cuda/cuda_library.h"
#include "pass/pass.h"

#include <string.h>

const char *cuda_text_of(const char *override) {
    size_t len = strlen(override);
    for (const struct cuda_text *t = cuda_texts; t->name; t++)
        if (!strncmp(t->name, override, len) && !strcmp(t->name + len, ".cu"))
            return t->text;
    return NULL;
}

bool cuda_text_write(struct text *out, const char *override, cuda_definer *define, const void *data) {
    const char *text = cuda_text_of(override);
    if (!text)
        return error_false(ZL_ERROR_COMPILE, "cuda: the override %s has no text", override);
    define(out, data);
    text_bytes(out, text, (int)strlen(text));
    return !out->failed;
}

// Kernels by their keys ---------------------------------------------------------------------------------------------

struct full_key {
    const char *override; // one for all of its keys
    int64_t unit;
    char key[64];
};

static struct lock lock;  // guards loaded; compilations go on side by side
static struct map loaded; // struct full_key -> struct kernel_function

ZL_AT_LOAD {
    fork_guard(&lock);
}

static struct kernel_function *make(const struct kernel_place *p, const char *override, cuda_definer *define,
                                    const void *data) {
    struct text source = {0};
    struct kernel_function *f = memory_zero(sizeof *f);
    bool good = f && cuda_text_write(&source, override, define, data);
    if (good) {
        *f = (struct kernel_function){.symbol = "zl_kernel", .threads = KERNEL_THREADS};
        pass_dump(p->record->name, source.data);
        good = kernel_compile(p, &source, 1, f);
    }
    text_free(&source);
    if (good)
        return f;
    memory_free(f);
    return NULL;
}

// Another thread may have made the same: either serves, and neither is freed.
const struct kernel_function *cuda_text_find(const struct kernel_place *p, const char *override,
                                             const void *key, size_t bytes, cuda_definer *define,
                                             const void *data) {
    struct full_key full = {.override = override, .unit = p->unit};
    size_t all = offsetof(struct full_key, key) + bytes;
    if (bytes > sizeof full.key)
        return error_set(ZL_ERROR_COMPILE, "cuda: a key of %zu bytes: %zu are possible", bytes,
                         sizeof full.key);
    memcpy(full.key, key, bytes);
    lock_take(&lock);
    struct kernel_function *f = map_get(&loaded, &full, all);
    lock_give(&lock);
    if (f || !(f = make(p, override, define, data)))
        return f;
    lock_take(&lock);
    bool kept = map_set(&loaded, &full, all, f);
    lock_give(&lock);
    return kept ? f : NULL;
}
