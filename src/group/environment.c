// environment.c - reads from the environment which rank a launcher gave this process, and the address of rank
// 0.

#include "group/group.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *group_variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

bool group_read_number(const char *name, int *out) {
    const char *text = group_variable(name);
    char *end;
    long value = text ? strtol(text, &end, 10) : -1;
    if (!text || *end || value < 0 || value > INT_MAX)
        return false;
    *out = (int)value;
    return true;
}

bool group_is_under_mpi(void) {
    return group_variable("OMPI_COMM_WORLD_SIZE") ||
           (group_variable("PMIX_RANK") && group_variable("PMIX_NAMESPACE"));
}

// Writes the first node of a list: node3 for "node[3-5,8],other".
static void first_node(const char *list, char *out, size_t bytes) {
    size_t len = 0;
    for (; *list && *list != ',' && len + 1 < bytes; list++) {
        if (*list != '[') {
            out[len++] = *list;
            continue;
        }
        for (list++; isdigit((unsigned char)*list) && len + 1 < bytes; list++)
            out[len++] = *list;
        break;
    }
    out[len] = 0;
}

// Reads the variables of torchrun, which other launchers set too. torchrun's own store may use the port, so
// ours is the next one.
static bool by_torchrun(struct group_invitation *i) {
    const char *host = group_variable("MASTER_ADDR");
    i->launcher = "torchrun";
    if (!host || !group_read_number("RANK", &i->rank) || !group_read_number("WORLD_SIZE", &i->size) ||
        !group_read_number("MASTER_PORT", &i->port))
        return false;
    snprintf(i->host, sizeof i->host, "%s", host);
    i->port = i->port % 65535 + 1;
    return true;
}

static bool by_slurm(struct group_invitation *i) {
    enum { PORTS_BEGIN = 20000, PORTS = 10000, STEPS = 16 };
    const char *nodes = group_variable("SLURM_STEP_NODELIST");
    int job, step = 0;
    i->launcher = "srun";
    if (!nodes || !group_read_number("SLURM_PROCID", &i->rank) ||
        !group_read_number("SLURM_STEP_NUM_TASKS", &i->size) || !group_read_number("SLURM_JOB_ID", &job))
        return false;
    group_read_number("SLURM_STEP_ID", &step);
    first_node(nodes, i->host, sizeof i->host);
    i->port = PORTS_BEGIN + (int)(((int64_t)job * STEPS + step) % PORTS);
    return true;
}

static bool is_whole(const struct group_invitation *i) {
    return i->size > 1 && i->rank < i->size && *i->host;
}

bool group_is_invited(struct group_invitation *out) {
    *out = (struct group_invitation){0};
    return (by_torchrun(out) || by_slurm(out)) && is_whole(out);
}

// Reads the variables that mlx.launch sets for the engine nccl alone.
bool group_is_invited_to_nccl(struct group_invitation *out) {
    const char *host = group_variable("NCCL_HOST_IP");
    *out = (struct group_invitation){.launcher = "mlx.launch"};
    if (!host || !group_read_number("NCCL_PORT", &out->port) || !group_read_number("MLX_RANK", &out->rank) ||
        !group_read_number("MLX_WORLD_SIZE", &out->size))
        return false;
    snprintf(out->host, sizeof out->host, "%s", host);
    return is_whole(out);
}
