// cpuinfo.c - preloaded, shows LLVM a /proc/cpuinfo whose CPU has no SVE, where the system offers none.
//
// LLVM takes a CPU for one with SVE by its part number, and XLA's CPU plugin then uses it: on machines that
// hide SVE from their guests, the process ends by an illegal instruction. The part number of a Neoverse N1
// stands for what such machines have.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int shown = -1; // a file with what is shown; every reader opens it anew

static int real_open(const char *path, int flags, mode_t mode) {
    int (*next)(const char *, int, ...) = NULL;
    *(void **)(void *)&next = dlsym(RTLD_NEXT, "open");
    return next(path, flags, mode);
}

static void make(void) {
    static char text[1 << 20];
    size_t bytes = 0;
    int from = real_open("/proc/cpuinfo", O_RDONLY, 0), to = memfd_create("cpuinfo", MFD_CLOEXEC);
    for (ssize_t got; from >= 0 && bytes < sizeof text - 1 &&
                      (got = read(from, text + bytes, sizeof text - 1 - bytes)) > 0;)
        bytes += (size_t)got;
    if (from >= 0)
        close(from);
    for (char *at = text; !strstr(text, " sve") && (at = strstr(at, "CPU part")); at++) {
        char *part = strstr(at, "0xd");
        if (part)
            memcpy(part, "0xd0c", 5);
    }
    if (to >= 0 && write(to, text, bytes) == (ssize_t)bytes)
        shown = to;
}

static int open_shown(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char path[64];
    pthread_once(&once, make);
    snprintf(path, sizeof path, "/proc/self/fd/%d", shown);
    return real_open(path, O_RDONLY, 0);
}

#define OPEN(name)                                                           \
    int name(const char *path, int flags, ...) {                             \
        va_list list;                                                        \
        va_start(list, flags);                                               \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; \
        va_end(list);                                                        \
        if (!strcmp(path, "/proc/cpuinfo"))                                  \
            return open_shown();                                             \
        return real_open(path, flags, mode);                                 \
    }
OPEN(open)
OPEN(open64)
