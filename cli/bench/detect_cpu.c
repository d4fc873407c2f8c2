// detect_cpu.c - the CPU: its model by its identification registers, its features as the kernel reports them,
// and the number of cores that affinity and the control group leave to this process.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static char cpuinfo[16384]; // room for the first cores, which is enough

// Copies the value of the first line "key : value"; "" if there is none.
static void cpuinfo_value(const char *key, char *out, size_t bytes) {
    size_t len = strlen(key);
    out[0] = 0;
    for (const char *line = cpuinfo; line && *line;
         line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, len) || !colon || (line[len] != ' ' && line[len] != '\t' && line[len] != ':'))
            continue;
        colon += 1 + (colon[1] == ' ');
        snprintf(out, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        return;
    }
}

static bool has_word(const char *text, const char *word) {
    size_t len = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if ((at == text || at[-1] == ' ') && (at[len] == 0 || at[len] == ' '))
            return true;
    return false;
}

// What it is ------------------------------------------------------------------------------------------------

static bool has_flags(text_json_value flags, const char *features) {
    for (int i = 0; i < text_json_count(flags); i++)
        if (!has_word(features, text_json_text(text_json_at(flags, i))))
            return false;
    return true;
}

// Returns whether a row of the table describes this CPU: by "midr" such as "0x41/0xd40"; by "cpuid" such as
// "6/0x8f, 6/0xcf", with all flags; or by "cpuid_family" such as "0x19", with all flags.
static bool is_cpu(text_json_value detect, const char *midr, const char *family, const char *model,
                   const char *features) {
    char key[32];
    const char *wanted_midr = text_json_text_of(detect, "midr"),
               *cpuid = text_json_text_of(detect, "cpuid");
    if (midr[0])
        return !strcmp(wanted_midr, midr);
    snprintf(key, sizeof key, "%ld/0x%lx", strtol(family, NULL, 10), strtol(model, NULL, 10));
    if (family[0] && cpuid[0])
        return strstr(cpuid, key) && has_flags(text_json_get(detect, "flags"), features);
    const char *wanted_family = text_json_text_of(detect, "cpuid_family");
    return family[0] && wanted_family[0] && strtol(wanted_family, NULL, 16) == strtol(family, NULL, 10) &&
           has_flags(text_json_get(detect, "flags"), features);
}

static void identify(struct bench_cpu *cpu, const struct bench_specs *specs) {
    char implementer[16], part[16], family[16], model[16], name[96], midr[32] = "";
    cpuinfo_value("CPU implementer", implementer, sizeof implementer);
    cpuinfo_value("CPU part", part, sizeof part);
    cpuinfo_value("cpu family", family, sizeof family);
    cpuinfo_value("model", model, sizeof model);
    cpuinfo_value("model name", name, sizeof name);
    if (implementer[0] && part[0]) {
        snprintf(midr, sizeof midr, "%s/%s", implementer, part);
        bench_add_evidence(cpu->evidence, "MIDR implementer %s, part %s", implementer, part);
    } else if (family[0]) {
        bench_add_evidence(cpu->evidence, "cpuid family %s, model %s", family, model);
    }
    text_json_value cpus = text_json_get(specs->root, "cpus");
    for (int i = 0; i < text_json_count(cpus) && !cpu->id[0]; i++) {
        text_json_value known = text_json_at(cpus, i);
        if (!is_cpu(text_json_get(known, "detect"), midr, family, model, cpu->features))
            continue;
        bench_json_copy(known, "id", false, cpu->id, sizeof cpu->id);
        bench_json_copy(known, "name", false, cpu->model, sizeof cpu->model);
    }
    if (!cpu->model[0])
        snprintf(cpu->model, sizeof cpu->model, "%s", name[0] ? name : midr[0] ? midr : "unknown CPU");
}

// How much of it is ours ------------------------------------------------------------------------------------

// Returns the number of cores in a list such as "0-3,8".
static int count_cores(const char *list) {
    int count = 0;
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        count += (int)(last - first + 1);
        list = end + (*end == ',');
    }
    return count;
}

static int allowed_cores(const struct bench_machine *machine) {
    char status[8192];
    bench_read_text(machine, status, sizeof status, "/proc/self/status");
    const char *at = strstr(status, "Cpus_allowed_list:");
    return at ? count_cores(at + strlen("Cpus_allowed_list:") + 1) : 0;
}

// Returns how many cores cpu.max grants to our control group or one above it; 0 if there is no limit.
static double granted_cores(const struct bench_machine *machine) {
    char group[512], line[64], period_text[32];
    double least = 0;
    bench_read_line(machine, group, sizeof group, "/proc/self/cgroup");
    char *path = strstr(group, "0::");
    path = path ? path + 3 : group;
    for (;;) {
        double quota = 0, period = 0;
        if (bench_read_line(machine, line, sizeof line, "/sys/fs/cgroup%s/cpu.max", path) &&
            sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 &&
            (least == 0 || quota / period < least))
            least = quota / period;
        char *slash = strrchr(path, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    if (least == 0 && bench_read_line(machine, line, sizeof line, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us") &&
        bench_read_line(machine, period_text, sizeof period_text, "/sys/fs/cgroup/cpu/cpu.cfs_period_us") &&
        atof(line) > 0)
        least = atof(line) / atof(period_text);
    return least;
}

void bench_detect_cpu(struct bench_machine *machine, const struct bench_specs *specs) {
    struct bench_cpu *cpu = &machine->cpu;
    char online[128];
    bench_read_text(machine, cpuinfo, sizeof cpuinfo, "/proc/cpuinfo");
    cpuinfo_value("Features", cpu->features, sizeof cpu->features);
    if (!cpu->features[0])
        cpuinfo_value("flags", cpu->features, sizeof cpu->features);
    identify(cpu, specs);
    if (!machine->sysroot[0])
        bench_add_evidence(cpu->evidence, "HWCAP %#lx, HWCAP2 %#lx", getauxval(AT_HWCAP),
                           getauxval(AT_HWCAP2));
    bench_read_line(machine, online, sizeof online, "/sys/devices/system/cpu/online");
    cpu->cores_online = count_cores(online);
    cpu->cores_allowed = allowed_cores(machine);
    cpu->quota = granted_cores(machine);
    bench_add_evidence(cpu->evidence, "%d of %d cores by affinity", cpu->cores_allowed, cpu->cores_online);
    if (cpu->quota > 0)
        bench_add_evidence(cpu->evidence, "control group grants %.3g", cpu->quota);
}
