// cpus.c - how many CPUs this process may use: affinity, and the quota of its cgroups.

#include "base/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int affinity(void) {
#ifdef __linux__
    cpu_set_t set; // for 1024 CPUs; on a larger machine the call fails, and all online CPUs count
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

#ifdef __linux__

// Does not use file_read, since a missing file is no error here.
static bool read_small(const char *path, char *data, size_t cap) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t got = read(file, data, cap - 1);
    close(file);
    data[got > 0 ? got : 0] = 0;
    return got > 0;
}

static bool read_file_of(const char *folder, const char *name, char *data, size_t cap) {
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    return len < (int)sizeof path && read_small(path, data, cap);
}

static double quota_v2(const char *folder) {
    char text[64];
    double quota, period;
    if (!read_file_of(folder, "cpu.max", text, sizeof text) || sscanf(text, "%lf %lf", &quota, &period) != 2)
        return POOL_LARGEST; // "max" does not scan as a number
    return quota > 0 && period > 0 ? quota / period : POOL_LARGEST;
}

static double quota_v1(const char *folder) {
    char text[64], other[64];
    if (!read_file_of(folder, "cpu.cfs_quota_us", text, sizeof text) ||
        !read_file_of(folder, "cpu.cfs_period_us", other, sizeof other))
        return POOL_LARGEST;
    double quota = strtod(text, NULL), period = strtod(other, NULL);
    return quota > 0 && period > 0 ? quota / period : POOL_LARGEST; // -1: no limit
}

// Returns the least quota of a group and the groups above it. In a container the group's path may not exist
// under its root; folders that do not exist are skipped.
static double least_quota(const char *root, const char *group, double (*quota)(const char *folder)) {
    char folder[2048];
    int top = (int)strlen(root), len = snprintf(folder, sizeof folder, "%s%s", root, group);
    double least = POOL_LARGEST;
    if (len >= (int)sizeof folder)
        return least;
    for (;;) {
        double here = quota(folder);
        least = MIN_OF(least, here);
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static bool has_word(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == 0))
            return true;
    return false;
}

// `line` is "id:controllers:/path"; version 2 has the id 0 and no controllers.
static double quota_of_line(char *line) {
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return POOL_LARGEST;
    *controllers++ = 0;
    *group++ = 0;
    if (!*controllers)
        return least_quota("/sys/fs/cgroup", group, quota_v2);
    return has_word(controllers, "cpu") ? least_quota("/sys/fs/cgroup/cpu", group, quota_v1) : POOL_LARGEST;
}

static int quota_cpus(void) {
    char text[8192], *rest = NULL;
    double least = POOL_LARGEST;
    if (!read_small("/proc/self/cgroup", text, sizeof text))
        return POOL_LARGEST;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        double here = quota_of_line(line);
        least = MIN_OF(least, here);
    }
    return (int)least + (least > (int)least);
}

#else

static int quota_cpus(void) {
    return POOL_LARGEST;
}

#endif

int pool_this_cpu(void) {
#ifdef __linux__
    return sched_getcpu();
#else
    return -1;
#endif
}

#ifdef __linux__
static cpu_set_t allowed; // of the process, before a worker was moved off a CPU

static void find_allowed(void) {
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed) != 0)
        CPU_ZERO(&allowed);
}
#endif

// On some virtual machines the kernel wakes a worker on the CPU of the busy thread that woke it, although
// others are idle, and the worker starts only when that thread is done: 97 % of jobs after 3 ms of rest
// (Linux 6.18, 2 cores of a Graviton 3, 2026-11). A worker moves at most once per 10 ms, so that callers on
// two CPUs do not send it back and forth.
void pool_avoid_cpu(int cpu) {
#ifdef __linux__
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local int64_t again;
    if (cpu < 0 || cpu >= CPU_SETSIZE || cpu != sched_getcpu())
        return;
    int64_t now = clock_ns();
    if (now < again)
        return;
    pthread_once(&once, find_allowed);
    again = now + 10000000;
    cpu_set_t others = allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) > 0)
        sched_setaffinity(0, sizeof others, &others);
#else
    (void)cpu;
#endif
}

int pool_allowed_cpus(void) {
    int cpus = MIN_OF(affinity(), quota_cpus());
    return MAX_OF(1, MIN_OF(cpus, POOL_LARGEST));
}
