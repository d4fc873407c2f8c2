// cloud_pull.c - `zellige cloud pull`: copies a folder from every host of a cluster. If there are several
// hosts, each gets a folder of its own here, so that files of the same name do not overwrite each other.

#include "cloud.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 600 };

static const struct option options[] = {
    {"name", 'c', "NAME", NULL, "the cluster (default: that in .cluster_name)", "cluster"},
    {"out", 0, "FOLDER", NULL,
     "where it goes (default: the same name); of several hosts, node-0, node-1, ... in it"},
    {0},
};

// Copies a folder from the cluster. Runs are merged into the history in `out`; anything else is copied by
// rsync, without links, devices and owners.
static int bring(const struct invocation *call, const char *source, const char *out, bool runs) {
    char from[PATH_BYTES + 8], to[PATH_BYTES + 8];
    if (runs)
        return cli_pull_runs(call, source, out);
    snprintf(from, sizeof from, "%s/", source);
    snprintf(to, sizeof to, "%s/", out);
    int code = cli_run_program((const char *[]){"rsync", "-rt", "--", from, to, NULL}, NULL);
    return code ? cli_fail(call, "%s %s",
                           code == CLI_NOT_FOUND ? "needs rsync to bring" : "rsync could not bring", source)
                : CLI_OK;
}

// Pulls from host number `host`. SkyPilot names the hosts of a cluster NAME, NAME-worker1, NAME-worker2, ...
static int pull_from(const struct invocation *call, const struct cloud_cluster *c, int host,
                     const char *folder, const char *out) {
    int hosts = c->nodes * cloud_hosts_of(c->accelerator);
    char source[PATH_BYTES], to[PATH_BYTES], worker[32] = "";
    if (host)
        snprintf(worker, sizeof worker, "-worker%d", host);
    snprintf(source, sizeof source, "%s%s:sky_workdir/%.300s", c->name, worker, folder);
    if (hosts > 1)
        snprintf(to, sizeof to, "%.300s/node-%d", out, host);
    else
        snprintf(to, sizeof to, "%.300s", out);
    mkdir(out, 0777);
    mkdir(to, 0777);
    return bring(call, source, to, !strcmp(folder, "runs"));
}

static int run(const struct invocation *call) {
    struct cloud_cluster c;
    const char *folder = call->operand_count ? call->operands[0] : "runs";
    const char *out = cli_option(call, "out") ? cli_option(call, "out") : folder;
    if (!cloud_check_text(call, "FOLDER", folder,
                          "[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*",
                          "a folder of the working folder there"))
        return CLI_FAILED;
    if (!cloud_find_up(call, &c))
        return CLI_FAILED;
    int hosts = c.nodes * cloud_hosts_of(c.accelerator), code = CLI_OK;
    for (int host = 0; host < hosts; host++) { // continues with the other hosts if one fails
        int ended = pull_from(call, &c, host, folder, out);
        code = code ? code : ended;
    }
    return code;
}

const struct command cli_cloud_pull = {
    .name = "cloud pull",
    .operands = "[FOLDER]",
    .summary = "Bring a folder home from every host of a cluster, by rsync",
    .details =
        "FOLDER lies in the folder that was brought there. Without one, the runs of `zellige bench` come,\n"
        "which join the local history. Of several hosts, each has a folder of its own: node-0, node-1, ...",
    .operands_most = 1,
    .options = options,
    .run = run,
};
