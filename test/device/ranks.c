// ranks.c - groups whose ranks are children of a test.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/ranks.h"
#include "group/group.h"
#include "test.h"

enum { RANKS_MOST = 8 };

void ranks_forget_launchers(void) {
    static const char *const variables[] = {"MLX_HOSTFILE",         "MLX_RANK",  "RANK",
                                            "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "SLURM_PROCID",
                                            "NCCL_HOST_IP"};
    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
}

// Children of fork() start threads, which TSan does not allow, and which crash in an emulator.
const char *ranks_lack(void) {
#ifdef UNDER_TSAN
    return "a child of fork() may start no threads here";
#endif
    return test_lacks_itself();
}

static char path[] = "/tmp/zellige-test-hosts-XXXXXX";

// Writes a hostfile with ports that were free a moment ago.
static bool write_hosts(int count) {
    char place[] = "/tmp/zellige-test-hosts-XXXXXX";
    int listener[RANKS_MOST], file = mkstemp(place);
    memcpy(path, place, sizeof path);
    FILE *f = file < 0 ? NULL : fdopen(file, "w");
    if (!f)
        return false;
    for (int i = 0; i < count; i++) {
        listener[i] = wire_listen(&(struct wire_address){"127.0.0.1", "0"});
        fprintf(f, "%s[\"127.0.0.1:%d\"]", i ? ", " : "[", wire_port(listener[i]));
    }
    for (int i = 0; i < count; i++)
        close(listener[i]);
    fprintf(f, "]\n");
    return fclose(f) == 0;
}

// The work of a rank: what(group), or if a refusal is given, checking that no group begins.
struct part {
    const char *engine, *device, *refusal;
    int (*what)(zl_group g);
};

static int be_rank(const struct part *part, int rank) {
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    ranks_forget_launchers();
    setenv("MLX_HOSTFILE", path, 1);
    setenv("MLX_RANK", text, 1);
    setenv("ZL_GROUP_TIMEOUT", "20", 0);
    bool ready = !part->device || zl_use_device(part->device);
    zl_group g = ready ? zl_group_init(true, part->engine) : NULL;
    int wrong = part->refusal ? g || !strstr(zl_error() ? zl_error() : "", part->refusal)
                : g           ? part->what(g)
                              : 99;
    if (wrong)
        fprintf(stderr, "rank %d: %d wrong: %s\n", rank, wrong, zl_error() ? zl_error() : "no error");
    zl_group_release(g);
    return wrong;
}

static bool start(const struct part *part, int count) {
    pid_t id[RANKS_MOST] = {0};
    bool ok = count <= RANKS_MOST && write_hosts(count);
    for (int i = 0; ok && i < count; i++)
        if ((id[i] = fork()) == 0)
            _exit(be_rank(part, i));
    for (int i = 0, status; i < count && id[i]; i++)
        ok &= waitpid(id[i], &status, 0) == id[i] && WIFEXITED(status) && !WEXITSTATUS(status);
    unlink(path);
    return ok;
}

bool ranks_run(const char *engine, const char *device, int count, int (*what)(zl_group g)) {
    return start(&(struct part){engine, device, NULL, what}, count);
}

bool ranks_refused(const char *engine, const char *device, int count, const char *words) {
    return start(&(struct part){engine, device, words, NULL}, count);
}
