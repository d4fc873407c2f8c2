// cuda_library.c - finds NVIDIA's libraries in a CUDA toolkit or in Python packages.

#include "device/cuda/cuda_library.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const homes[] = {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"};

static void *open_path(const char *path) {
    return access(path, R_OK) == 0 ? library_open((const char *const[]){path, NULL}) : NULL;
}

// Writes lib<name>.so.<version>, without a version if it is 0.
static void name_file(char *out, size_t room, const char *name, int version) {
    if (version)
        snprintf(out, room, "lib%s.so.%d", name, version);
    else
        snprintf(out, room, "lib%s.so", name);
}

static void *open_below(const char *home, const char *file) {
    static const char *const folders[] = {"lib64", "lib", "extras/CUPTI/lib64"};
    void *library = NULL;
    for (size_t i = 0; !library && i < COUNT(folders); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s/%s", home, folders[i], file);
        library = open_path(path);
    }
    return library;
}

static void *open_matching(const char *pattern) {
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found))
        return NULL;
    for (size_t i = 0; !library && i < found.gl_pathc; i++)
        library = open_path(found.gl_pathv[i]);
    globfree(&found);
    return library;
}

// Opens a library from Python packages: those of the Python to whose installation a folder in PATH belongs,
// such as an active environment.
static void *open_packaged(const char *file) {
    void *library = NULL;
    for (const char *path = getenv("PATH"); path && *path && !library;) {
        char pattern[PATH_MAX];
        int len = (int)strcspn(path, ":");
        snprintf(pattern, sizeof pattern, "%.*s/../lib/python3*/*-packages/nvidia/*/lib/%s", len, path, file);
        library = len ? open_matching(pattern) : NULL;
        path += len + (path[len] != 0);
    }
    return library;
}

static void *open_version(const char *name, int version) {
    char file[64];
    const char *home = setting_text(SETTING_CUDA);
    name_file(file, sizeof file, name, version);
    if (*home)
        return open_below(home, file);
    void *library = library_open((const char *const[]){file, NULL});
    for (size_t i = 0; !library && i < COUNT(homes); i++)
        library = open_below(homes[i], file);
    return library ? library : open_packaged(file);
}

void *cuda_library(const char *name, const int version[CUDA_VERSIONS]) {
    void *library = NULL;
    for (int i = 0; !library && i < CUDA_VERSIONS && version[i]; i++)
        library = open_version(name, version[i]);
    return library ? library : open_version(name, 0);
}
