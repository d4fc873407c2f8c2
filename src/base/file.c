// file.c - whole files: reads or maps them, and replaces them atomically, so that readers see the old or the
// new one.

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
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

static void *too_much(const char *path, size_t most) {
    return error_set(ZL_ERROR_MEMORY, "cannot read %s: it has more than the %zu bytes that may be used", path,
                     most);
}

// Reads to the end regardless of the reported size: files under /proc report 0, and others may grow.
static char *read_all(int file, const char *path, size_t most, size_t *bytes) {
    size_t hint = size_hint(file), len = 0;
    if (hint > most)
        return too_much(path, most);
    size_t cap = hint + 2; // one byte to find the end at the first try, one for the NUL
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
        if (len > most) {
            too_much(path, most);
            break;
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

char *file_read_most(const char *path, size_t most, size_t *bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return error_set(ZL_ERROR_IO, "cannot read %s: %m", path);
    size_t ignored;
    char *data = read_all(file, path, most, bytes ? bytes : &ignored);
    close(file);
    return data;
}

char *file_read(const char *path, size_t *bytes) {
    return file_read_most(path, SIZE_MAX / 4, bytes);
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

// Writing ---------------------------------------------------------------------------------------------------

enum {
    MOST_LINKS = 40,
    NAME_KEPT = 200
}; // links that the kernel follows; bytes kept of a name, of the 255 that are possible

static bool cannot_write(const char *path) {
    return error_false(ZL_ERROR_IO, "cannot write %s: %m", path);
}

// Returns the length of the folder in a path, with the slash.
static int folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

// Appends the path that symbolic links lead to. The last link may lead to nothing; then the file is created
// at the place that it names, as open() would do.
static bool follow_links(const char *path, struct text *place) {
    char target[PATH_MAX];
    text_add(place, "%s", path);
    for (int links = 0; !place->failed; links++) {
        ssize_t bytes = readlink(place->data, target, sizeof target);
        if (bytes < 0)
            return true; // not a link, or it does not exist: opening it reports what is wrong
        if (links == MOST_LINKS || bytes == (ssize_t)sizeof target) {
            errno = links == MOST_LINKS ? ELOOP : ENAMETOOLONG;
            return cannot_write(path);
        }
        place->len = target[0] == '/' ? 0 : folder_of(place->data);
        text_bytes(place, target, (int)bytes);
    }
    return false;
}

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

// Sets *is_new if there is no file yet, and refuses one that may not be written. stat() comes before the
// links are read, since it refuses links that other users made in a folder that all may write, such as /tmp.
static bool look_at(const char *path, struct stat *old, bool *is_new) {
    *is_new = stat(path, old) != 0;
    if (*is_new)
        return errno == ENOENT || cannot_write(path);
    if (!S_ISREG(old->st_mode))
        return error_false(ZL_ERROR_IO, "cannot write %s: it is %s, and only regular files are replaced",
                           path, kind_of(old->st_mode));
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 || cannot_write(path);
}

// Creates a temporary file in the folder of `place`. mkstemp would make it private regardless of the umask,
// and the umask cannot be read without changing it.
static int open_beside(const char *place, struct text *name, mode_t mode) {
    static atomic_uint count;
    int folder = folder_of(place);
    for (int tries = 0; tries < 100; tries++) {
        name->len = 0;
        text_add(name, "%.*s%.*s.%ld.%u.tmp", folder, place, NAME_KEPT, place + folder, (long)getpid(),
                 atomic_fetch_add(&count, 1));
        if (name->failed)
            return -1;
        int file = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

// Gives a new file the owner and the mode of the file that it replaces, as far as that is permitted. If the
// group differs, the group's rights are reduced to those of all users.
static void keep_access(int file, const struct stat *old) {
    struct stat now;
    mode_t mode = old->st_mode & 07777;
    if (fchown(file, old->st_uid, old->st_gid) != 0 && fchown(file, (uid_t)-1, old->st_gid) != 0)
        mode &= 01777;
    if (fstat(file, &now) != 0)
        return;
    if (now.st_uid != old->st_uid)
        mode &= 01777;
    if (now.st_gid != old->st_gid)
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    (void)!fchmod(file, mode); // file systems without modes refuse this
}

bool file_begin(struct file_out *out, const char *path) {
    struct stat old;
    bool is_new;
    *out = (struct file_out){.path = path, .file = -1};
    if (!look_at(path, &old, &is_new) || !follow_links(path, &out->place))
        return false;
    out->file = open_beside(out->place.data, &out->beside, is_new ? 0666 : 0600);
    if (out->file < 0)
        return out->beside.failed ? false : cannot_write(path);
    if (!is_new)
        keep_access(out->file, &old);
    return true;
}

bool file_put(struct file_out *out, const void *data, size_t bytes) {
    if (out->file < 0 || out->failed)
        return false;
    out->failed = !write_all(out->file, data, bytes);
    return !out->failed || cannot_write(out->path);
}

bool file_end(struct file_out *out, bool keep) {
    bool opened = out->file >= 0, wanted = opened && keep && !out->failed;
    bool done = wanted;
    if (opened && close(out->file) != 0)
        done = false;
    done = done && rename(out->beside.data, out->place.data) == 0;
    if (wanted && !done)
        cannot_write(out->path);
    if (opened && !done)
        unlink(out->beside.data);
    text_free(&out->beside);
    text_free(&out->place);
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

// Maps regular files only, since only these have a size.
const char *file_map(const char *path, size_t least, size_t *bytes) {
    struct stat stat;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    bool sized =
        fstat(file, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0 && (size_t)stat.st_size >= least;
    void *data = sized ? mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    *bytes = sized ? (size_t)stat.st_size : 0;
    close(file);
    return data == MAP_FAILED ? NULL : data;
}

void file_unmap(const char *data, size_t bytes) {
    munmap((void *)(uintptr_t)data, bytes);
}
