// cloud_exec.c - `zellige cloud exec` and `sync`: copies the folder to every host of a cluster that is up;
// exec then runs a program there.

#include "cloud.h"

#include <limits.h>
#include <unistd.h>

static const struct option exec_options[] = {
    {"name", 'c', "NAME", NULL, "the cluster (default: that in .cluster_name)", "cluster"},
    {"workdir", 0, "FOLDER", NULL, "what is brought there first (default: this folder; ignored files stay)"},
    {"env", 0, "NAME=VALUE", NULL, "a variable of the program; may be repeated"},
    {"secret", 0, "NAME", NULL,
     "a variable whose value is taken from the environment, and kept out of logs; repeatable"},
    {"detach", 'd', NULL, NULL, "do not wait for its end: `zellige cloud logs` shows it"},
    {"render", 0, NULL, NULL, "only print the task, as YAML"},
    {0},
};

static const struct option sync_options[] = {
    {"name", 'c', "NAME", NULL, "the cluster (default: that in .cluster_name)", "cluster"},
    {0},
};

static int execute(const struct invocation *call, const struct cloud_task *t) {
    struct cloud_words w = {.at = {"sky", "exec"}, .count = 2};
    char path[CLOUD_NAME];
    int code = CLI_FAILED;
    if (cloud_save_task(call, t, path)) {
        cloud_add(&w, t->name);
        cloud_add(&w, path);
        if (cli_option(call, "detach"))
            cloud_add(&w, "-d");
        cloud_add_secrets(&w, t);
        code = cloud_sky(&w, NULL);
    }
    unlink(path);
    return code;
}

static int exec(const struct invocation *call) {
    struct cloud_cluster c;
    struct cloud_task t = {.on_cluster = true};
    if (!call->operand_count)
        return cli_usage(call, "a program is needed: zellige cloud exec -- ./train");
    if (!cloud_find_up(call, &c))
        return CLI_FAILED;
    snprintf(t.name, sizeof t.name, "%s", c.name);
    t.nodes = c.nodes;
    t.accelerator = c.accelerator[0] ? c.accelerator : NULL;
    if (!cloud_read_task(call, &t))
        return CLI_FAILED;
    if (!cli_option(call, "render"))
        return execute(call, &t);
    cloud_write_task(stdout, &t);
    return CLI_OK;
}

static int sync_folder(const struct invocation *call) {
    struct cloud_cluster c;
    struct cloud_words w = {.at = {"sky", "exec"}, .count = 2};
    if (!cloud_find_up(call, &c))
        return CLI_FAILED;
    const char *words[] = {c.name, "--workdir", call->operand_count ? call->operands[0] : ".", "--", "true"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cloud_add(&w, words[i]);
    return cloud_sky(&w, NULL);
}

const struct command cli_cloud_exec = {
    .name = "cloud exec",
    .operands = "PROGRAM [ARG...]",
    .summary = "Bring this folder to a cluster that is up, and run a program there",
    .details =
        "The program runs on every host, and its output and exit code come back. SkyPilot gives 100 for a "
        "program that failed.\n"
        "  zellige cloud exec -- ./train --steps 100\n"
        "  zellige cloud exec -- sh -c 'make && ./train'",
    .operands_most = INT_MAX,
    .takes_program = true,
    .options = exec_options,
    .run = exec,
};

const struct command cli_cloud_sync = {
    .name = "cloud sync",
    .operands = "[FOLDER]",
    .summary = "Bring this folder to every host of a cluster that is up",
    .operands_most = 1,
    .options = sync_options,
    .run = sync_folder,
};
