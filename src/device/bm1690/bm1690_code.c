// bm1690_code.c - compiles device C of the BM1690 for the emulator.
//
// While the compiler runs, one folder holds the device C, our headers and a stub. Only the library is kept,
// under a hash of all of them.

#include "device/bm1690/bm1690_code.h"

#include "device/cpu/tile/compiler.h"
#include "device/device.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static const char *const headers[] = {"tpu_kernel.h", "ppl_helper.h"};

// A call of an undeclared function is an error, which names the function; other warnings are up to the
// kernel's author. -O0, because a control program does little work, and optimising it would take three times
// as long.
static const char flags[] = "-O0 -Wno-int-conversion -Werror=implicit-function-declaration -Wl,-Bsymbolic "
                            "-D__bm1690__ -D__sg2260__ -D__tpub_7_1__";

struct source {
    const char *device_c;
    struct text stub, header[COUNT(headers)];
};

static bool write_text(const char *folder, const char *name, const char *data, size_t bytes) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3900s/%s", folder, name);
    return file_write(path, data, bytes);
}

static bool make_library(const char *folder, void *context) {
    const struct source *s = context;
    char stub[PATH_MAX], library[PATH_MAX], path[PATH_MAX];
    snprintf(stub, sizeof stub, "%.3900s/kernel.stub.c", folder);
    snprintf(library, sizeof library, "%.3900s/kernel.so", folder);
    bool good = write_text(folder, "kernel.c", s->device_c, strlen(s->device_c)) &&
                write_text(folder, "kernel.stub.c", s->stub.data, (size_t)s->stub.len);
    for (size_t i = 0; i < COUNT(headers); i++)
        good = good && write_text(folder, headers[i], s->header[i].data, (size_t)s->header[i].len);
    good = good && cpu_compile(stub, library, flags);
    for (size_t i = 0; i < COUNT(headers); i++) { // the cache would not remove files of these names
        snprintf(path, sizeof path, "%.3900s/%s", folder, headers[i]);
        unlink(path);
    }
    return good;
}

static void *open_library(const char *path, void *context) {
    (void)context;
    return bm1690_module_open(path);
}

static bool make_key(const struct source *s, char *key) {
    struct text all = {0};
    bool known = cpu_compiler_name(&all);
    cpu_compiler_flags(&all);
    text_add(&all, " %s\n%s\n%s\n", flags, s->device_c, s->stub.data);
    for (size_t i = 0; i < COUNT(headers); i++)
        text_add(&all, "%s\n", s->header[i].data);
    known = known && !all.failed;
    if (known)
        hash_sha256(all.data, (size_t)all.len, key);
    text_free(&all);
    return known;
}

struct bm1690_module *device_bm1690_load(const char *device_c) {
    struct source s = {.device_c = device_c};
    char key[65];
    bool good = true;
    struct bm1690_module *module = NULL;
    bm1690_stub(&s.stub, device_c);
    for (size_t i = 0; i < COUNT(headers); i++) {
        bm1690_header(&s.header[i], headers[i]);
        good = good && !s.header[i].failed;
    }
    if (good && !s.stub.failed && make_key(&s, key))
        module = device_cache_use(&(struct cache_entry){
            .key = key, .file = "kernel.so", .make = make_library, .use = open_library, .context = &s});
    text_free(&s.stub);
    for (size_t i = 0; i < COUNT(headers); i++)
        text_free(&s.header[i]);
    return module;
}
