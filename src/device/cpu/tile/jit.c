// jit.c - compiles C text to functions at run time.
//
// The system's compiler compiles the text, preceded by the vector layer, to a shared library, which is loaded
// and never unloaded. Libraries are cached under a hash of everything that they depend on.

#include "device/cpu/tile/compiler.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { JIT_ABI = 1, KEY_BYTES = 64 }; // the ABI is increased when the arguments of kernels change

static struct {
    struct lock lock;
    struct map libraries; // by key
} loaded;

ZL_AT_LOAD {
    fork_guard(&loaded.lock);
}

struct source {
    struct text text;
    const char *flags;
};

static bool make_library(const char *folder, void *context) {
    const struct source *source = context;
    char c_path[PATH_MAX], library[PATH_MAX];
    snprintf(c_path, sizeof c_path, "%.4000s/kernel.c", folder);
    snprintf(library, sizeof library, "%.4000s/kernel.so", folder);
    return file_write(c_path, source->text.data, (size_t)source->text.len) &&
           cpu_compile(c_path, library, source->flags);
}

static void *open_library(const char *path, void *context) {
    (void)context;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library ? library
                   : error_set(ZL_ERROR_COMPILE, "a compiled kernel cannot be loaded: %s", dlerror());
}

static void *find_loaded(const char *key) {
    lock_take(&loaded.lock);
    void *library = map_get(&loaded.libraries, key, KEY_BYTES);
    lock_give(&loaded.lock);
    return library;
}

// Stores a loaded library for later calls. If another thread has stored the same one meanwhile, that one is
// kept.
static void *keep_loaded(const char *key, void *library) {
    lock_take(&loaded.lock);
    bool kept =
        map_get(&loaded.libraries, key, KEY_BYTES) || map_set(&loaded.libraries, key, KEY_BYTES, library);
    lock_give(&loaded.lock);
    if (kept)
        return library;
    dlclose(library);
    return NULL;
}

static void *load(const struct source *source) {
    char key[KEY_BYTES + 1];
    struct text all = {0};
    text_add(&all, "abi %d\n", JIT_ABI);
    if (!cpu_compiler_name(&all)) {
        text_free(&all);
        return NULL;
    }
    cpu_compiler_flags(&all);
    text_add(&all, " %s\n", source->flags);
    text_bytes(&all, source->text.data, source->text.len);
    if (all.failed) {
        text_free(&all);
        return NULL;
    }
    hash_sha256(all.data, (size_t)all.len, key);
    text_free(&all);
    void *library = find_loaded(key);
    if (library)
        return library;
    library = device_cache_use(&(struct cache_entry){.key = key,
                                                     .file = "kernel.so",
                                                     .make = make_library,
                                                     .use = open_library,
                                                     .context = (void *)(uintptr_t)source});
    return library ? keep_loaded(key, library) : NULL;
}

static void *find_function(struct source *source, const char *symbol) {
    void *library = source->text.failed ? NULL : load(source);
    text_free(&source->text);
    if (!library)
        return NULL;
    void *function = dlsym(library, symbol);
    return function ? function
                    : error_set(ZL_ERROR_COMPILE, "the compiled kernel has no function %s", symbol);
}

void *cpu_jit(const char *text, const char *symbol) {
    struct source source = {.flags = "-w"};
    text_add(&source.text, "%s\n%s\n", cpu_vec_text, text);
    return find_function(&source, symbol);
}

// The line that includes the vector layer. It is replaced by the layer's text, so that the compiler needs no
// folder of headers.
static const char vec_line[] = "#include \"vec/vec.h\"\n";

void *cpu_jit_alone(const char *text, const char *flags, const char *symbol) {
    struct source source = {.flags = flags};
    const char *layer = strstr(text, vec_line);
    if (layer) {
        text_bytes(&source.text, text, (int)(layer - text));
        text_add(&source.text, "%s\n%s\n", cpu_vec_text, layer + strlen(vec_line));
    } else {
        text_add(&source.text, "%s\n", text);
    }
    return find_function(&source, symbol);
}
