// detect_pjrt.c - the device kind that a PJRT plugin reports, which is what a run will use. The plugin is
// named by TPU_LIBRARY_PATH or, as for JAX, PJRT_NAMES_AND_LIBRARY_PATHS ("tpu:/path").

#include "bench.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MOST = 60 }; // TPUs take a while to start

// Finds the plugin's path. Returns false if none is named, or below a sysroot, if the file does not exist.
static bool find_plugin(const struct bench_machine *machine, char *path, size_t bytes) {
    const char *value = bench_environment(machine, "TPU_LIBRARY_PATH");
    if (!value || !value[0]) {
        value = bench_environment(machine, "PJRT_NAMES_AND_LIBRARY_PATHS");
        const char *colon = value ? strchr(value, ':') : NULL;
        value = colon ? colon + 1 : NULL;
    }
    if (value)
        snprintf(path, bytes, "%s%.*s", machine->sysroot, (int)strcspn(value, ","), value);
    return value && path[0];
}

// Starts `zellige bench kinds`, which is killed if it takes too long. Returns its output, or NULL if it
// cannot be started.
static FILE *query_plugin(const char *path, pid_t *child) {
    int from[2];
    if (pipe2(from, O_CLOEXEC))
        return NULL;
    *child = fork();
    if (*child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(from[1], STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        alarm(SECONDS_MOST);
        execl("/proc/self/exe", "zellige", "bench", "kinds", path, (char *)NULL);
        _exit(127);
    }
    close(from[1]);
    FILE *in = *child > 0 ? fdopen(from[0], "r") : NULL;
    if (!in)
        close(from[0]);
    return in;
}

// Sets *kind to the kind of the plugin's first device, and *count to how many devices have it. Returns false
// if there is none.
static bool read_kind(const char *path, char *kind, size_t bytes, int *count) {
    char line[128];
    pid_t child = -1;
    FILE *in = query_plugin(path, &child);
    *count = 0;
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (*count == 0)
            snprintf(kind, bytes, "%.*s", (int)bytes - 1, line);
        *count += !strcmp(kind, line);
    }
    if (in)
        fclose(in);
    if (child > 0)
        waitpid(child, NULL, 0);
    return *count > 0;
}

static struct bench_chip *other_accelerator(struct bench_machine *machine) {
    return machine->count ? &machine->chip[0] : NULL;
}

void bench_detect_pjrt(struct bench_machine *machine, const struct bench_specs *specs) {
    char path[600], kind[96];
    int count;
    if (!find_plugin(machine, path, sizeof path) || !read_kind(path, kind, sizeof kind, &count) ||
        !strcmp(kind, "cpu"))
        return;
    text_json_value spec = bench_chip_by_name(specs, "pjrt_device_kind", kind);
    spec = spec ? spec : bench_chip_by_name(specs, "nvml_names", kind);
    struct bench_chip *chip = spec ? bench_machine_chip(machine, text_json_text_of(spec, "id")) : NULL;
    if (chip) {
        bench_add_evidence(chip->evidence, "PJRT calls its %d devices %s", count, kind);
    } else if ((chip = other_accelerator(machine))) {
        bench_add_evidence(chip->evidence, "PJRT calls its %d devices %s, which does not fit: ignored", count,
                           kind);
    } else {
        double each = fmax(1, text_json_number_of(spec, "devices_per_chip"));
        chip = bench_add_chip(machine, spec, kind, "tpu");
        chip->devices = count;
        chip->chips = (int)ceil(count / each);
        bench_add_evidence(chip->evidence, "PJRT calls its %d devices %s", count, kind);
    }
}
