// cloud_launch.c - `zellige cloud launch`: rents machines through SkyPilot, after the price is shown and
// confirmed, and runs a program or a measurement on them. A launch that fails ends with a list of the
// clusters that may still cost money.

#include "cloud.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_MINUTES = 30, NODES_MOST = 1024, SECONDS_MOST = 1000000 };

static const struct option options[] = {
    {"name", 'c', "NAME", NULL, "of the cluster or the job (default: zl- and what is asked for)", "cluster"},
    {"infra", 0, "PLACE", NULL,
     "a cloud, with a region and a zone: gcp/us-east5/us-east5-a (default: the cheapest)"},
    {"gpus", 0, "NAME[:COUNT]", NULL, "accelerators of each node: H100:8, tpu-v6e-8, tpu-v6e-16",
     "accelerators"},
    {"cpus", 0, "COUNT[+]", NULL, "processors of each node; +: or more"},
    {"nodes", 0, "COUNT", NULL, "nodes, each with these accelerators (default 1)", "num-nodes"},
    {"spot", 0, NULL, NULL, "machines that cost less and may be taken away", "use-spot"},
    {"idle", 0, "MINUTES", NULL, "remove the cluster after so long without a job (default 30; 0: never)"},
    {"max-price", 0, "DOLLARS", NULL, "refuse to pay more per hour, and stay where that price holds"},
    {"yes", 'y', NULL, NULL, "take the price without being asked"},
    {"managed", 0, NULL, NULL, "as a managed job, which is started again where its machines are taken away",
     "job"},
    {"workdir", 0, "FOLDER", NULL, "what is brought there (default: this folder; ignored files stay)"},
    {"setup", 0, "COMMANDS", NULL, "run first, on each host"},
    {"env", 0, "NAME=VALUE", NULL, "a variable of the program; may be repeated"},
    {"secret", 0, "NAME", NULL,
     "a variable whose value is taken from the environment, and kept out of logs; repeatable"},
    {"mount", 0, "PATH=BUCKET", NULL, "a bucket as a folder: /data=gs://name; may be repeated"},
    {"wait", 0, "SECONDS", NULL, "give up a launch that takes longer"},
    {"bench", 0, "EXPERIMENT", NULL, "instead of a program: build this tree of Zellige there, and measure"},
    {"suite", 0, "SUITE", NULL, "of --bench: a suite of `zellige bench run`, or a file of this tree"},
    {"build-options", 0, "OPTIONS", NULL, "of --bench: for CMake, -DNAME=VALUE"},
    {"render", 0, NULL, NULL, "only print the task, as YAML"},
    {"dryrun", 0, NULL, NULL, "only let SkyPilot plan it"},
    {0},
};

// Options ---------------------------------------------------------------------------------------------------

static const char *option_or(const struct invocation *call, const char *name, const char *otherwise) {
    return cli_option(call, name) ? cli_option(call, name) : otherwise;
}

// Reads the options of a measurement. Its YAML contains these texts, so only a few characters are allowed in
// them.
static bool read_bench(const struct invocation *call, struct cloud_task *t) {
    static const char path[] = "[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*";
    static const char *const own[] = {"simple", "gemm", "full"};
    static char suite[CLOUD_NAME];
    const char *named = cli_option(call, "suite");
    t->build_options = option_or(call, "build-options", "");
    t->infra = option_or(call, "infra", "gcp");
    if (!t->accelerator || call->operand_count || t->nodes > 1 || t->envs || t->mounts || t->secrets ||
        t->setup)
        return cli_fail(call,
                        "--bench measures one accelerator, --gpus, of one host, without a program of yours"),
               false;
    if (!cloud_check_text(call, "--bench", t->bench, "[a-z0-9][a-z0-9_-]{0,40}",
                          "lower-case letters, digits, - and _, 41 at most") ||
        !cloud_check_text(call, "--build-options", t->build_options,
                          "(-D[A-Za-z0-9_]+=[A-Za-z0-9_.,:+/=-]*( +|$))*",
                          "options for CMake, -DNAME=VALUE") ||
        (named && !cloud_check_text(call, "--suite", named, path, "a suite, or a file of this tree")))
        return false;
    if (!cloud_is_tpu(t->accelerator))
        return cli_fail(call, "%s: --bench measures TPUs", t->accelerator), false;
    if (cloud_hosts_of(t->accelerator) > 1)
        return cli_fail(call,
                        "%s: its chips belong to several hosts, and the device pjrt works on those of one: "
                        "%.*s-8 is "
                        "the largest",
                        t->accelerator, (int)(strrchr(t->accelerator, '-') - t->accelerator), t->accelerator),
               false;
    snprintf(suite, sizeof suite, "%s", strncmp(t->bench, "tpu_", 4) ? "tpu_simple" : t->bench);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(t->bench, own[i]) || (!strncmp(t->bench, "tpu_", 4) && !strcmp(t->bench + 4, own[i])))
            snprintf(suite, sizeof suite, "tpu_%s", own[i]);
    t->suite = named ? named : suite;
    return true;
}

// Makes a name such as "zl-v6e-8-gemm". Two launches of the same kind have the same name, and so the same
// cluster.
static bool read_name(const struct invocation *call, struct cloud_task *t) {
    const char *a = t->accelerator ? t->accelerator : "cpu";
    snprintf(t->name, sizeof t->name, "zl-%.40s%s%.41s", a + (strncmp(a, "tpu-", 4) ? 0 : 4),
             t->bench ? "-" : "", t->bench ? t->bench : "");
    for (char *c = strchr(t->name, ':'); c; c = NULL)
        *c = '-';
    return !cli_option(call, "name") || cloud_find_name(call, t->name);
}

static bool read_options(const struct invocation *call, struct cloud_task *t) {
    int64_t nodes = 1;
    t->accelerator = cli_option(call, "gpus");
    t->infra = cli_option(call, "infra");
    t->cpus = cli_option(call, "cpus");
    t->setup = cli_option(call, "setup");
    t->bench = cli_option(call, "bench");
    t->spot = cli_option(call, "spot");
    if (!cli_integer(call, "nodes", 1, NODES_MOST, &nodes))
        return false;
    t->nodes = (int)nodes;
    if ((t->accelerator && !cloud_check_accelerator(call, t->accelerator)) ||
        (t->infra && !cloud_check_text(call, "--infra", t->infra, "[a-z0-9]+(/[A-Za-z0-9_.-]+){0,2}",
                                       "a cloud, with a region and a zone: gcp/us-east5/us-east5-a")) ||
        (t->cpus && !cloud_check_text(call, "--cpus", t->cpus, "[1-9][0-9]{0,3}[+]?", "a count: 8, or 8+")))
        return false;
    if (nodes > 1 && cloud_hosts_of(t->accelerator) > 1)
        return cli_fail(call, "%s is a slice of several hosts already: one node", t->accelerator), false;
    return cloud_read_task(call, t) && (!t->bench || read_bench(call, t)) && read_name(call, t);
}

// Launching -------------------------------------------------------------------------------------------------

// Returns whether the cluster can be removed when it is idle: SkyPilot refuses this for machines of Slurm and
// for those reached by ssh.
static bool can_idle(const struct cloud_task *t) {
    return !t->infra || (strncmp(t->infra, "slurm", 5) && strncmp(t->infra, "ssh", 3));
}

struct launch {
    const struct invocation *call;
    struct cloud_task task;
    char path[CLOUD_NAME], wait[16], minutes[16];
    int64_t idle, seconds;
};

static int run_there(struct launch *l) {
    struct cloud_words w = {.count = 0};
    const char *words[] = {"sky", "exec", l->task.name, l->path};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cloud_add(&w, words[i]);
    cloud_add_secrets(&w, &l->task);
    fprintf(stderr, "zellige cloud launch: %s is up: running there\n", l->task.name);
    return cloud_sky(&w, NULL);
}

static void add_wait(struct launch *l, struct cloud_words *w) {
    snprintf(l->wait, sizeof l->wait, "%lld", (long long)l->seconds);
    if (l->seconds) {
        cloud_add(w, "timeout");
        cloud_add(w, l->wait);
    }
    cloud_add(w, "sky");
}

static int launch_cluster(struct launch *l) {
    struct cloud_words w = {.count = 0};
    const char *words[] = {"launch", "-y", "-i", l->minutes, "--down", "-c", l->task.name, l->path};
    bool idles = l->idle > 0 && can_idle(&l->task);
    snprintf(l->minutes, sizeof l->minutes, "%lld", (long long)l->idle);
    add_wait(l, &w);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (idles || i < 2 || i > 4)
            cloud_add(&w, words[i]);
    cloud_add_secrets(&w, &l->task);
    return cloud_sky(&w, NULL);
}

// Launches a managed job. SkyPilot starts a machine for the controller of such jobs once, and stops it when
// it is idle.
static int launch_job(struct launch *l) {
    struct cloud_words w = {.count = 0};
    const char *words[] = {"jobs", "launch", "-y", "-d", "-n", l->task.name, l->path};
    add_wait(l, &w);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cloud_add(&w, words[i]);
    cloud_add_secrets(&w, &l->task);
    int code = cloud_sky(&w, NULL);
    if (!code)
        fprintf(stderr,
                "zellige cloud launch: the job %s: `zellige cloud logs --managed --name %s`, and `down` ends "
                "it\n",
                l->task.name, l->task.name);
    return code;
}

static bool is_up(const char *name) {
    struct cloud_clusters c;
    bool up = false;
    cloud_read_clusters(name, true, &c);
    for (int i = 0; i < c.count; i++)
        up = up || (!strcmp(c.at[i].name, name) && !strcmp(c.at[i].status, "UP"));
    free(c.at);
    return up;
}

// Shows the price and asks for consent. With --max-price the task file is written again, restricted to the
// place that has this price.
static bool agree(struct launch *l) {
    struct cloud_price price;
    if (!cloud_ask_price(l->call, &l->task, l->path, &price) ||
        !cloud_confirm_price(l->call, &l->task, &price))
        return false;
    if (!cli_option(l->call, "max-price"))
        return true;
    if (!cloud_stay(l->call, &l->task, &price))
        return false;
    unlink(l->path);
    return cloud_save_task(l->call, &l->task, l->path);
}

static int launch(struct launch *l) {
    bool managed = cli_option(l->call, "managed");
    if (!managed && is_up(l->task.name))
        return cloud_keep_name(l->call, l->task.name) ? run_there(l) : CLI_FAILED;
    // The name is recorded before the launch: a launch that fails later may leave machines up that cost
    // money.
    if (!agree(l) || (!managed && !cloud_keep_name(l->call, l->task.name)))
        return CLI_FAILED;
    int code = managed ? launch_job(l) : launch_cluster(l);
    if (code) {
        fprintf(stderr, "zellige cloud launch: SkyPilot ended with code %d.\n", code);
        cloud_report_left(l->task.name, managed);
    }
    return code;
}

static int run(const struct invocation *call) {
    struct launch l = {.call = call, .idle = IDLE_MINUTES};
    if (!cli_integer(call, "idle", 0, SECONDS_MOST, &l.idle) ||
        !cli_integer(call, "wait", 0, SECONDS_MOST, &l.seconds))
        return CLI_USAGE;
    if (!read_options(call, &l.task))
        return CLI_FAILED;
    if (cli_option(call, "render")) {
        cloud_write_task(stdout, &l.task);
        return CLI_OK;
    }
    if (!cloud_has_sky(call))
        return CLI_FAILED;
    int code = CLI_FAILED;
    if (cloud_save_task(call, &l.task, l.path))
        code = cli_option(call, "dryrun") ? cloud_plan(&l.task, l.path, NULL) : launch(&l);
    unlink(l.path);
    return code;
}

const struct command cli_cloud_launch = {
    .name = "cloud launch",
    .operands = "[PROGRAM [ARG...]]",
    .summary = "Rent machines through SkyPilot, and run a program there",
    .details = "SkyPilot plans first: the price per hour is shown, and asked about unless --yes is given.\n"
               "The name of the cluster is kept in .cluster_name, for exec, sync, logs, pull and down; on a\n"
               "cluster that is up, the program runs without another launch. A launch that fails lists what\n"
               "may still cost money (doc/cloud.md).\n"
               "  zellige cloud launch --gpus H100:8 --max-price 30 -- ./train\n"
               "  zellige cloud launch --gpus tpu-v6e-16 --spot --secret HF_TOKEN -- python3 train.py\n"
               "  zellige cloud launch --gpus H100:8 --nodes 2 --managed --mount /out=gs://name -- ./train",
    .operands_most = INT_MAX,
    .takes_program = true,
    .options = options,
    .run = run,
};
