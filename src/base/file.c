// file.c - whole files: read at once, written so that readers see the old one or the new one.

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_some(int file, char *data, size_t bytes) {
    ssize_t got;
    do {
        got = read(file, data, MIN_OF(bytes, INT_MAX / 2));
    } while (got < 0 && errno == EINTR);
    return got;
}

static size_t size_hint(int file) {
    struct stat stat;
    return fstat(file, &stat) == 0 && stat.st_size > 0 ? (size_t)stat.st_size : 0;
}

// Reads to the end whatever the size was said to be: files under /proc say 0, and others may grow.
static char *read_all(int file, const char *path, size_t *bytes) {
    size_t cap = size_hint(file) + 2, len = 0; // one byte to find the end in the first try, one for the NUL
    char *data = memory_alloc(cap);
    while (data) {
        ssize_t got = read_some(file, data + len, cap - 1 - len);
        if (got < 0) {
            error_set(ZL_ERROR_IO, "cannot read %s: %m", path);
            break;
        }
        len += (size_t)got;
        if (got == 0) {
            data[len] = 0;
            *bytes = len;
            return data;
        }
        if (len < cap - 1)
            continue;
        cap = cap * 2 + 4096;
        char *wider = memory_resize(data, cap);
        if (!wider)
            break;
        data = wider;
    }
    memory_free(data);
    return NULL;
}

char *file_read(const char *path, size_t *bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return error_set(ZL_ERROR_IO, "cannot read %s: %m", path);
    size_t ignored;
    char *data = read_all(file, path, bytes ? bytes : &ignored);
    close(file);
    return data;
}

static bool write_all(int file, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t put = write(file, data, MIN_OF(bytes, INT_MAX / 2));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        data += put;
        bytes -= (size_t)put;
    }
    return true;
}

// Not mkstemp: its files are private whatever the umask says, and the umask cannot be read without being
// changed.
static int open_beside(const char *path, struct text *name) {
    static atomic_uint count;
    for (int tries = 0; tries < 100; tries++) {
        name->len = 0;
        text_add(name, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&count, 1));
        if (name->failed)
            return -1;
        int file = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

bool file_write(const char *path, const void *data, size_t bytes) {
    struct text name = {0};
    int file = open_beside(path, &name);
    bool done = file >= 0 && write_all(file, data, bytes);
    if (file >= 0 && close(file) != 0)
        done = false;
    done = done && rename(name.data, path) == 0;
    if (!done && !name.failed)
        error_set(ZL_ERROR_IO, "cannot write %s: %m", path);
    if (!done && file >= 0)
        unlink(name.data);
    text_free(&name);
    return done;
}
