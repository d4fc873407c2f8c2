// accelerators.c - names and counts of accelerators that clouds rent. SkyPilot's catalog decides in the end;
// this refuses what SkyPilot would misunderstand, or reject without a reason.

#include "cloud.h"

#include <stdlib.h>
#include <string.h>

static const int cores_v2[] = {8, 32, 128, 256, 512, 0};
static const int cores_v3[] = {8, 32, 64, 128, 256, 512, 1024, 2048, 0};
static const int cores_v4[] = {8, 16, 32, 64, 0};
static const int chips[] = {1, 4, 8, 16, 32, 64, 128, 256, 0};

// The names of v2, v3, v4 and v5p count TensorCores, two per chip; those of v5litepod and v6e count chips.
static const struct generation {
    const char *prefix;
    const int *counts;
    int step, most; // multiples of `step` up to `most` also exist; 0: none
    int per_host;   // in a slice of several hosts
    const char *expected;
} generations[] = {
    {"tpu-v2-", cores_v2, 0, 0, 8, "8, 32, 128, 256 and 512 cores"},
    {"tpu-v3-", cores_v3, 0, 0, 8, "8, 32, 64, 128, 256, 512, 1024 and 2048 cores"},
    {"tpu-v4-", cores_v4, 128, 6144, 8, "8, 16, 32 and 64 cores, and multiples of 128 up to 6144"},
    {"tpu-v5p-", cores_v4, 128, 12288, 8, "8, 16, 32 and 64 cores, and multiples of 128 up to 12288"},
    {"tpu-v5litepod-", chips, 0, 0, 4, "1, 4, 8, 16, 32, 64, 128 and 256 chips"},
    {"tpu-v6e-", chips, 0, 0, 4, "1, 4, 8, 16, 32, 64, 128 and 256 chips"},
};

enum { ON_ONE_HOST = 8, DIGITS_MOST = 5 };

static bool begins(const char *text, const char *prefix) {
    return !strncmp(text, prefix, strlen(prefix));
}

bool cloud_is_tpu(const char *accelerator) {
    return accelerator && begins(accelerator, "tpu");
}

// Returns the row of a TPU, and sets its count; NULL if the name is unknown or has no valid count.
static const struct generation *find(const char *name, int *count) {
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        const struct generation *g = &generations[i];
        const char *digits = name + strlen(g->prefix);
        if (!begins(name, g->prefix))
            continue;
        size_t len = strspn(digits, "0123456789");
        *count = len && len <= DIGITS_MOST && digits[0] != '0' && !digits[len] ? atoi(digits) : 0;
        return *count ? g : NULL;
    }
    return NULL;
}

static bool has(const struct generation *g, int count) {
    for (const int *c = g->counts; *c; c++)
        if (*c == count)
            return true;
    return g->step && count % g->step == 0 && count <= g->most;
}

int cloud_hosts_of(const char *accelerator) {
    int count = 0;
    const struct generation *g = accelerator ? find(accelerator, &count) : NULL;
    return g && count > ON_ONE_HOST ? count / g->per_host : 1;
}

static bool refuse(const struct invocation *call, const char *name, const char *why) {
    cli_fail(call, "%s: %s", name, why);
    return false;
}

static bool check_tpu(const struct invocation *call, const char *name) {
    int count;
    const struct generation *g = find(name, &count);
    if (begins(name, "tpu-v7") || begins(name, "tpu7x") || begins(name, "tpu-7x"))
        return refuse(
            call, name,
            "SkyPilot 0.14 does not know TPU v7 (Ironwood), neither on GCP nor on GKE; use Google's "
            "xpk or GKE directly");
    if (begins(name, "tpu-v5e-"))
        return refuse(call, name, "SkyPilot calls v5e tpu-v5litepod, as in tpu-v5litepod-8");
    if (!g)
        return refuse(
            call, name,
            "it is no TPU that SkyPilot knows: tpu-v4-8, tpu-v5litepod-8, tpu-v5p-8, tpu-v6e-8, ...");
    if (has(g, count))
        return true;
    cli_fail(call, "%s: there are %s", name, g->expected);
    return false;
}

bool cloud_check_accelerator(const struct invocation *call, const char *name) {
    return cloud_check_text(call, "--gpus", name, "[A-Za-z0-9][A-Za-z0-9_-]{0,40}(:[1-9][0-9]{0,3})?",
                            "a name, with a count behind a colon: H100:8, tpu-v6e-8") &&
           (!cloud_is_tpu(name) || check_tpu(call, name));
}
