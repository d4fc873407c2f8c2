// pull_command.c - `zellige bench pull SOURCE`: copies run folders from another machine into the local
// history.

#include "bench.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static const struct option options[] = {
    {"out", 0, "FOLDER", NULL, "where run folders go (default runs)"},
    {0},
};

// Copies by rsync, which also knows SkyPilot's names of machines, and returns its exit code. Only folders and
// plain files are copied: no links, devices or owners of the other machine.
static int copy_runs(const char *source, const char *out) {
    char from[608], to[600];
    snprintf(from, sizeof from, "%s/", source);
    snprintf(to, sizeof to, "%s/", out);
    return cli_run_program(
        (const char *[]){"rsync", "-rt", "--ignore-existing", "--exclude=index.jsonl", "--", from, to, NULL},
        NULL);
}

static bool is_listed(const char *index, const char *name) {
    char key[300];
    snprintf(key, sizeof key, "\"folder\": \"%s\"", name);
    return index && strstr(index, key);
}

// Adds the runs that the index does not have yet, and returns how many there were.
static int list_runs(const char *out) {
    char path[600], error[512];
    struct dirent **entry = NULL;
    int added = 0, count = scandir(out, &entry, NULL, alphasort);
    snprintf(path, sizeof path, "%s/index.jsonl", out);
    char *index = access(path, R_OK) ? NULL : cli_read_all(path);
    for (int i = 0; i < count; i++) {
        struct bench_run run;
        snprintf(path, sizeof path, "%.300s/%.255s", out, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && !is_listed(index, entry[i]->d_name) &&
            bench_read_run(&run, path, error, sizeof error)) {
            snprintf(run.folder, sizeof run.folder, "%.255s", path);
            added += bench_history_add(&run, out);
            bench_run_free(&run);
        }
        free(entry[i]);
    }
    free(entry);
    free(index);
    return added;
}

int cli_pull_runs(const struct invocation *call, const char *source, const char *out) {
    mkdir(out, 0777);
    int code = copy_runs(source, out);
    if (code != 0)
        return cli_fail(call, "%s %s",
                        code == CLI_NOT_FOUND ? "needs rsync to bring" : "rsync could not bring", source);
    int added = list_runs(out);
    if (!call->json)
        printf("%d new runs in %s\n", added, out);
    return CLI_OK;
}

static int run(const struct invocation *call) {
    const char *out = cli_option(call, "out");
    char source[600], name[CLI_CLUSTER_NAME];
    out = out ? out : "runs";
    if (call->operand_count > 0)
        snprintf(source, sizeof source, "%.500s", call->operands[0]);
    else if (cli_kept_cluster(name))
        snprintf(source, sizeof source, "%s:sky_workdir/runs", name);
    else
        return cli_usage(call, "needs a source, a folder or HOST:FOLDER, or a file .cluster_name here, as "
                               "`zellige cloud launch` writes it");
    if (source[0] == '-')
        return cli_usage(call, "the source '%s' looks like an option: write ./%s", source, source);
    return cli_pull_runs(call, source, out);
}

const struct command cli_bench_pull = {
    .name = "bench pull",
    .operands = "[SOURCE]",
    .summary = "Bring run folders from another machine into the local history",
    .details =
        "SOURCE is a folder of runs, or HOST:FOLDER, by rsync; without one, the runs of the cluster in\n"
        ".cluster_name, which `zellige cloud launch` writes.",
    .operands_most = 1,
    .options = options,
    .run = run,
};
