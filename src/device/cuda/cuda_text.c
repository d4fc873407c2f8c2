// cuda_text.c - kernels in CUDA C: those of overrides, which are files of this folder, compiled after the
// definitions of a call; and those that programs supply.

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

// Kernels by their keys -------------------------------------------------------------------------------------

struct full_key {
    const char *override; // the same pointer in all keys of an override; NULL: the key of a program's text
    int64_t unit;
    char key[72];
};

static struct lock lock;  // guards `loaded`; kernels are compiled without it, several at a time
static struct map loaded; // struct full_key -> struct kernel_function

ZL_AT_LOAD {
    fork_guard(&lock);
}

// Returns how many bytes the full key has; 0 and an error if the key is too long.
static size_t open_key(struct full_key *full, const struct kernel_place *p, const char *override,
                       const void *key, size_t bytes) {
    *full = (struct full_key){.override = override, .unit = p->unit};
    if (bytes > sizeof full->key) {
        error_set(ZL_ERROR_COMPILE, "cuda: a key of %zu bytes: %zu are possible", bytes, sizeof full->key);
        return 0;
    }
    memcpy(full->key, key, bytes);
    return offsetof(struct full_key, key) + bytes;
}

static const struct kernel_function *look_up(const struct full_key *full, size_t bytes) {
    lock_take(&lock);
    const struct kernel_function *f = map_get(&loaded, full, bytes);
    lock_give(&lock);
    return f;
}

// Compiles a kernel and adds it to the map. If another thread has made the same one, either serves, and
// neither is freed.
static const struct kernel_function *make(const struct kernel_place *p, const struct full_key *full,
                                          size_t bytes, const struct text *source) {
    struct kernel_function *f = memory_zero(sizeof *f);
    if (!f)
        return NULL;
    *f = (struct kernel_function){.symbol = "zl_kernel", .threads = KERNEL_THREADS};
    pass_dump(p->record->name, source->data);
    if (!kernel_compile(p, source, 1, f)) {
        memory_free(f);
        return NULL;
    }
    lock_take(&lock);
    bool kept = map_set(&loaded, full, bytes, f);
    lock_give(&lock);
    if (kept)
        return f;
    memory_free(f);
    return NULL;
}

const struct kernel_function *cuda_text_find(const struct kernel_place *p, const char *override,
                                             const void *key, size_t bytes, cuda_definer *define,
                                             const void *data) {
    struct full_key full;
    struct text source = {0};
    size_t all = open_key(&full, p, override, key, bytes);
    const struct kernel_function *f = all ? look_up(&full, all) : NULL;
    if (!f && all && cuda_text_write(&source, override, define, data))
        f = make(p, &full, all, &source);
    text_free(&source);
    return f;
}

const struct kernel_function *cuda_program_find(const struct kernel_place *p, const char *text,
                                                size_t bytes) {
    struct full_key full;
    struct text source = {0};
    char hash[72] = {0};
    hash_sha256(text, bytes, hash);
    size_t all = open_key(&full, p, NULL, hash, sizeof hash);
    const struct kernel_function *f = all ? look_up(&full, all) : NULL;
    if (!f && all) {
        text_bytes(&source, text, (int)bytes);
        f = source.failed ? NULL : make(p, &full, all, &source);
    }
    text_free(&source);
    return f;
}
