// caches.c - the sizes of this CPU's caches as the system reports them, or usual sizes if it does not.

#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEVELS = 3 };

static int64_t bytes[LEVELS + 1] = {0, 32 << 10, 512 << 10, 4 << 20};

// Reads the first line of a file about a cache of the first CPU. Returns false if there is none.
static bool read_line(int index, const char *file, char *out, int size) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    FILE *f = fopen(path, "r");
    bool got = f && fgets(out, size, f);
    if (f)
        fclose(f);
    return got;
}

static void read_index(int index) {
    char level[16], type[32], size[32], *unit;
    if (!read_line(index, "level", level, sizeof level) || !read_line(index, "type", type, sizeof type) ||
        !read_line(index, "size", size, sizeof size) || type[0] == 'I') // 'I': an instruction cache
        return;
    int64_t count = strtoll(size, &unit, 10);
    int at = atoi(level);
    if (at >= 1 && at <= LEVELS && count > 0)
        bytes[at] = count * (*unit == 'M' ? 1 << 20 : *unit == 'K' ? 1 << 10 : 1);
}

static void read_all(void) {
    for (int i = 0; i < 2 * LEVELS; i++)
        read_index(i);
    bytes[3] = MAX_OF(bytes[3], 4 * bytes[2]); // also if there is no L3
}

int64_t cpu_cache_bytes(int level) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
    return bytes[level];
}
