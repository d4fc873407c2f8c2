// cloud_status.c - `zellige cloud status`, `logs` and `down`: lists clusters with their prices, prints the
// output of programs, and removes clusters.

#include "cloud.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option status_options[] = {
    {"managed", 0, NULL, NULL, "managed jobs, too", "job"},
    {0},
};

static const struct option logs_options[] = {
    {"name", 'c', "NAME", NULL, "the cluster or the managed job (default: that in .cluster_name)", "cluster"},
    {"managed", 0, NULL, NULL, "of a managed job", "job"},
    {"no-follow", 0, NULL, NULL, "end with what there is so far"},
    {0},
};

static const struct option down_options[] = {
    {"yes", 'y', NULL, NULL, "do not ask"},
    {"managed", 0, NULL, NULL, "managed jobs of these names", "job"},
    {0},
};

// status ----------------------------------------------------------------------------------------------------

static void print_json(const struct cloud_clusters *c) {
    cli_json_open(NULL, '[');
    for (int i = 0; i < c->count; i++) {
        const struct cloud_cluster *at = &c->at[i];
        cli_json_open(NULL, '{');
        cli_json_text("name", at->name);
        cli_json_text("status", at->status);
        cli_json_text("resources", at->resources);
        cli_json_int("nodes", at->nodes);
        cli_json_int("hosts", (int64_t)at->nodes * cloud_hosts_of(at->accelerator));
        cli_json_number("dollars_per_hour", at->per_hour >= 0 ? at->per_hour : (double)INFINITY);
        cli_json_int("idle_minutes", at->autostop);
        cli_json_bool("removed_when_idle", at->to_down);
        cli_json_close();
    }
    cli_json_close();
}

static int status(const struct invocation *call) {
    struct cloud_clusters c;
    const char *name = call->operand_count ? call->operands[0] : NULL;
    if (name && !cloud_is_name(name))
        return cli_usage(call, "a name of a cluster is expected");
    if (!cloud_has_sky(call))
        return CLI_FAILED;
    bool known = cloud_read_clusters(name, true, &c);
    if (known)
        cloud_read_costs(&c);
    if (known && call->json)
        print_json(&c);
    for (int i = 0; known && !call->json && i < c.count; i++)
        cloud_show_cluster(stdout, &c.at[i]);
    if (known && !call->json && !c.count)
        printf("no clusters\n");
    free(c.at);
    if (!known)
        return cli_fail(call, "`sky status` does not answer");
    struct cloud_words jobs = {.at = {"sky", "jobs", "queue"}, .count = 3};
    return cli_option(call, "managed") ? cloud_sky(&jobs, NULL) : CLI_OK;
}

// logs ------------------------------------------------------------------------------------------------------

static int logs(const struct invocation *call) {
    struct cloud_words w = {.count = 0};
    char name[CLOUD_NAME] = "";
    const char *job = call->operand_count ? call->operands[0] : NULL;
    bool managed = cli_option(call, "managed");
    if (job && !cloud_check_text(call, "JOB", job, "[1-9][0-9]{0,8}", "the number of a job"))
        return CLI_FAILED;
    if ((!managed || !job) && !cloud_find_name(call, name))
        return CLI_FAILED;
    if (!cloud_has_sky(call))
        return CLI_FAILED;
    cloud_add(&w, "sky");
    if (managed)
        cloud_add(&w, "jobs");
    cloud_add(&w, "logs");
    if (managed && !job)
        cloud_add(&w, "-n");
    if (!managed || !job)
        cloud_add(&w, name);
    if (job)
        cloud_add(&w, job);
    if (cli_option(call, "no-follow"))
        cloud_add(&w, "--no-follow");
    return cloud_sky(&w, NULL);
}

// down ------------------------------------------------------------------------------------------------------

static int take_down(const struct invocation *call, const char *name) {
    struct cloud_words job = {.at = {"sky", "jobs", "cancel", "-y", "-n"}, .count = 5};
    struct cloud_words cluster = {.at = {"sky", "down", "-y"}, .count = 3};
    struct cloud_words *w = cli_option(call, "managed") ? &job : &cluster;
    cloud_add(w, name);
    int code = cloud_sky(w, NULL);
    if (!code && w == &cluster)
        cloud_forget_name(name);
    if (code && w == &cluster) {
        fprintf(stderr, "zellige cloud down: SkyPilot ended with code %d.\n", code);
        cloud_report_left(name, false);
    }
    return code;
}

static int down(const struct invocation *call) {
    char kept[CLOUD_NAME], question[2 * CLOUD_NAME], *kept_list[] = {kept};
    char *const *name = call->operand_count ? call->operands : kept_list;
    int count = call->operand_count ? call->operand_count : 1, code = CLI_OK;
    if (!call->operand_count && !cloud_find_name(call, kept))
        return CLI_FAILED;
    for (int i = 0; i < count; i++)
        if (!cloud_is_name(name[i]))
            return cli_usage(call, "names of clusters are expected");
    if (!cloud_has_sky(call))
        return CLI_FAILED;
    for (int i = 0; i < count; i++) {
        snprintf(question, sizeof question, "Remove %s and what is on it?", name[i]);
        int ended = cloud_confirm(call, question) ? take_down(call, name[i]) : CLI_FAILED;
        code = code ? code : ended;
    }
    return code;
}

// The commands ----------------------------------------------------------------------------------------------

const struct command cli_cloud_status = {
    .name = "cloud status",
    .operands = "[NAME]",
    .summary = "Clusters that are rented, and what they cost",
    .details = "SkyPilot asks the clouds. Prices are its own report of costs, divided by the time of use.",
    .operands_most = 1,
    .options = status_options,
    .run = status,
};

const struct command cli_cloud_logs = {
    .name = "cloud logs",
    .operands = "[JOB]",
    .summary = "What a program on a cluster prints: the last one, or JOB",
    .operands_most = 1,
    .options = logs_options,
    .run = logs,
};

const struct command cli_cloud_down = {
    .name = "cloud down",
    .operands = "[NAME...]",
    .summary = "Remove clusters, so that they cost nothing more",
    .details = "Without a name, the cluster in .cluster_name. What is on its disks is lost: `zellige cloud "
               "pull` first.",
    .operands_most = INT_MAX,
    .options = down_options,
    .run = down,
};
