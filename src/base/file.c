// file.c - whole files: read at once or mapped, written so that readers see the old one or the new one.

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
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

bool file_begin(struct file_out *out, const char *path) {
    *out = (struct file_out){.path = path};
    out->file = open_beside(path, &out->beside);
    if (out->file < 0 && !out->beside.failed)
        error_set(ZL_ERROR_IO, "cannot write %s: %m", path);
    return out->file >= 0;
}

bool file_put(struct file_out *out, const void *data, size_t bytes) {
    if (out->file < 0 || out->failed)
        return false;
    out->failed = !write_all(out->file, data, bytes);
    return !out->failed || error_false(ZL_ERROR_IO, "cannot write %s: %m", out->path);
}

bool file_end(struct file_out *out, bool keep) {
    bool opened = out->file >= 0, wanted = opened && keep && !out->failed;
    bool done = wanted;
    if (opened && close(out->file) != 0)
        done = false;
    done = done && rename(out->beside.data, out->path) == 0;
    if (wanted && !done)
        error_set(ZL_ERROR_IO, "cannot write %s: %m", out->path);
    if (opened && !done)
        unlink(out->beside.data);
    text_free(&out->beside);
    out->file = -1;
    return done;
}

bool file_write_parts(const char *path, const struct file_part *part, int count) {
    struct file_out out;
    bool ok = file_begin(&out, path);
    for (int i = 0; ok && i < count; i++)
        ok = file_put(&out, part[i].data, part[i].bytes);
    return file_end(&out, ok);
}

bool file_write(const char *path, const void *data, size_t bytes) {
    return file_write_parts(path, &(struct file_part){data, bytes}, 1);
}

// Only what has a size can be mapped.
const char *file_map(const char *path, size_t *bytes) {
    struct stat stat;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    bool sized = fstat(file, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0;
    void *data = sized ? mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    *bytes = sized ? (size_t)stat.st_size : 0;
    close(file);
    return data == MAP_FAILED ? NULL : data;
}

void file_unmap(const char *data, size_t bytes) {
    munmap((void *)(uintptr_t)data, bytes);
}
