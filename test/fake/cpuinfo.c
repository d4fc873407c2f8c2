// cpuinfo.c - a preloaded library that shows LLVM a /proc/cpuinfo of a CPU without SVE, on systems that do
// not offer SVE.
//
// LLVM decides by the part number whether a CPU has SVE, and XLA's CPU plugin then uses it: on machines that
// hide SVE from their guests, the process ends with an illegal instruction. The part number of a Neoverse N1
// is shown instead.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int shown = -1; // a file with the replaced text, which every reader opens anew

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
