// describe.c - describes this CPU: its model, its caches, its memory, and the features that the library uses.

#include "device/cpu/gemm/product.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 512 };

static char model[TEXT_BYTES], detail[TEXT_BYTES];

// Names of the part numbers that ARM's cores report. https://developer.arm.com, Main ID Register
static const struct {
    unsigned implementer, part;
    const char *name;
} arm_parts[] = {
    {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd05, "Cortex-A55"},  {0x41, 0xd07, "Cortex-A57"},
    {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd09, "Cortex-A73"},  {0x41, 0xd0a, "Cortex-A75"},
    {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse-N1"}, {0x41, 0xd0d, "Cortex-A77"},
    {0x41, 0xd40, "Neoverse-V1"}, {0x41, 0xd41, "Cortex-A78"},  {0x41, 0xd44, "Cortex-X1"},
    {0x41, 0xd46, "Cortex-A510"}, {0x41, 0xd47, "Cortex-A710"}, {0x41, 0xd48, "Cortex-X2"},
    {0x41, 0xd49, "Neoverse-N2"}, {0x41, 0xd4d, "Cortex-A715"}, {0x41, 0xd4e, "Cortex-X3"},
    {0x41, 0xd4f, "Neoverse-V2"}, {0x41, 0xd80, "Cortex-A520"}, {0x41, 0xd81, "Cortex-A720"},
    {0x41, 0xd82, "Cortex-X4"},   {0x41, 0xd84, "Neoverse-V3"}, {0x41, 0xd8e, "Neoverse-N3"},
    {0x46, 0x001, "A64FX"},       {0x48, 0xd01, "Kunpeng-920"}, {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1A"},
};

// Returns the text after "key : " on a line of /proc/cpuinfo, or NULL if the line has another key.
static const char *value_of(char *line, const char *key) {
    size_t len = strlen(key);
    char *colon = strchr(line, ':');
    if (strncmp(line, key, len) != 0 || !colon)
        return NULL;
    line[strcspn(line, "\n")] = 0;
    return colon + 1 + strspn(colon + 1, " \t");
}

static void name_arm_part(unsigned implementer, unsigned part) {
    for (size_t i = 0; i < COUNT(arm_parts); i++)
        if (arm_parts[i].implementer == implementer && arm_parts[i].part == part)
            snprintf(model, sizeof model, "%s", arm_parts[i].name);
    if (!*model)
        snprintf(model, sizeof model, "ARM implementer 0x%02x part 0x%03x", implementer, part);
}

static void read_model(void) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[TEXT_BYTES];
    const char *value;
    unsigned implementer = 0, part = 0;
    while (file && !*model && fgets(line, sizeof line, file)) {
        if ((value = value_of(line, "model name")))
            snprintf(model, sizeof model, "%s", value);
        else if ((value = value_of(line, "CPU implementer")))
            implementer = (unsigned)strtoul(value, NULL, 0);
        else if ((value = value_of(line, "CPU part")))
            part = (unsigned)strtoul(value, NULL, 0), name_arm_part(implementer, part);
    }
    if (file)
        fclose(file);
    if (!*model)
        snprintf(model, sizeof model, "unknown CPU");
}

static bool read_line(const char *format, int index, char *out, size_t bytes) {
    char path[128];
    snprintf(path, sizeof path, format, index);
    FILE *file = fopen(path, "r");
    bool got = file && fgets(out, (int)bytes, file);
    if (file)
        fclose(file);
    if (got)
        out[strcspn(out, "\n")] = 0;
    return got;
}

// Appends the caches' sizes, such as " L1 64K L2 1024K", without instruction caches.
static void add_caches(struct text *out) {
    char level[16], type[32], size[32];
    for (int i = 0; i < 8; i++) {
        if (!read_line("/sys/devices/system/cpu/cpu0/cache/index%d/level", i, level, sizeof level) ||
            !read_line("/sys/devices/system/cpu/cpu0/cache/index%d/type", i, type, sizeof type) ||
            !read_line("/sys/devices/system/cpu/cpu0/cache/index%d/size", i, size, sizeof size))
            return;
        if (strcmp(type, "Instruction") != 0)
            text_add(out, " L%s %s", level, size);
    }
}

static void read_all(void) {
    struct text out = {0};
    read_model();
    text_add(&out, "%s; BLAS: %s; caches:", cpu_level()->name, cpu_blas()->name);
    add_caches(&out);
    snprintf(detail, sizeof detail, "%s", out.data ? out.data : cpu_level()->name);
    text_free(&out);
}

bool cpu_describe(int unit, zl_device_info *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)unit;
    pthread_once(&once, read_all);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    out->model = model;
    out->detail = detail;
    out->cores = pool_threads();
    out->is_host = true;
    out->memory = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
    return true;
}
