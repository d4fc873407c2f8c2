// cloud.h - `zellige cloud`: rents machines through SkyPilot's program `sky`.
//
//     cloud_launch.c   launch: options, price, confirmation, and the clusters that remain after a failure
//     cloud_exec.c     exec and sync, on a cluster that is up
//     cloud_status.c   status, logs and down
//     cloud_pull.c     pull, from every host of a cluster
//     task.c           the YAML for SkyPilot; it includes hosts.sh, by which hosts find each other
//     accelerators.c   names and counts of accelerators, and how many hosts a TPU slice has
//     price.c          the machines that SkyPilot would rent, and their price
//     clusters.c       the clusters that exist, and which one a command means
//
// Functions that return false, NULL or a code other than CLI_OK have written a message.

#ifndef CLOUD_H
#define CLOUD_H

#include <stdbool.h>
#include <stdio.h>

#include "cli.h"

enum { CLOUD_NAME = CLI_CLUSTER_NAME, CLOUD_PAIRS = 64 };

// accelerators.c --------------------------------------------------------------------------------------------

// Returns whether SkyPilot accepts the name: H100, H100:8, tpu-v6e-8. Counts of TPUs are checked.
bool cloud_check_accelerator(const struct invocation *call, const char *name);
// Returns whether the name is that of a TPU; false for NULL.
bool cloud_is_tpu(const char *accelerator);
// Returns the number of hosts of one node: 1, except for slices of TPUs such as tpu-v6e-16, which has 4.
int cloud_hosts_of(const char *accelerator);

// task.c ----------------------------------------------------------------------------------------------------

// A request to SkyPilot. Texts belong to the command line.
struct cloud_task {
    char name[CLOUD_NAME];   // of the cluster or the managed job
    const char *bench;       // the experiment to measure; NULL: the task is a program
    const char *suite, *build_options; // of a measurement
    const char *infra, *accelerator, *cpus, *workdir, *setup; // NULL: SkyPilot chooses, or there is none
    char place[CLOUD_NAME];  // replaces infra unless empty: the place for which the price holds
    int nodes;               // 0: 1
    bool spot;               // spot machines, which the cloud may take back
    bool on_cluster;         // the cluster exists: the task only needs its accelerators
    const char *env[CLOUD_PAIRS], *mount[CLOUD_PAIRS]; // "NAME=VALUE", "/path=s3://bucket"
    const char *secret[CLOUD_PAIRS];                   // names; their values are in the environment
    int envs, mounts, secrets;
    char *const *program;    // ends with NULL
};
// Reads and checks --env, --secret, --workdir and the operands. A program on several hosts also gets a token,
// ZL_GROUP_TOKEN, as a secret in the environment.
bool cloud_read_task(const struct invocation *call, struct cloud_task *t);
// Writes the task as YAML.
void cloud_write_task(FILE *out, const struct cloud_task *t);
// Returns the number of hosts on which its program runs.
int cloud_task_hosts(const struct cloud_task *t);
// Writes the task to a new file, which the caller removes; `path` has CLOUD_NAME bytes.
bool cloud_save_task(const struct invocation *call, const struct cloud_task *t, char *path);
// Returns whether the extended regular expression matches the whole text. If not, prints a message that says
// what is expected.
bool cloud_check_text(const struct invocation *call, const char *what, const char *text, const char *pattern,
                      const char *expected);

extern const struct cloud_file {
    const char *name, *text;
} cloud_files[]; // hosts.sh and scripts/tpu_resource.sky.yaml; ends with a file without a name

// price.c ---------------------------------------------------------------------------------------------------

struct cloud_price {
    bool known;
    double per_hour;             // US dollars, for all nodes
    char where[CLOUD_NAME];      // "GCP (us-east5-b)"
    char what[CLOUD_NAME];       // "tpu-v6e-8:1"
};
// Lets SkyPilot plan the task in the file `path`, without launching it. Returns the exit code of `sky`; see
// cli_run_program.
int cloud_plan(const struct cloud_task *t, const char *path, char **output);
// Reads the price from such a plan. Returns false if SkyPilot has no plan.
bool cloud_ask_price(const struct invocation *call, const struct cloud_task *t, const char *path,
                     struct cloud_price *out);
// Shows the price and asks for confirmation. Returns true with --yes or after the answer y; false if the
// price is above --max-price, unknown although --max-price is given, or not confirmed.
bool cloud_confirm_price(const struct invocation *call, const struct cloud_task *t,
                         const struct cloud_price *p);
// Sets the task's place to that for which the price holds. Returns false if SkyPilot's words for it are not
// understood, unless the task names a region itself.
bool cloud_stay(const struct invocation *call, struct cloud_task *t, const struct cloud_price *p);
// Asks a question, unless --yes is given. Returns whether the answer is y.
bool cloud_confirm(const struct invocation *call, const char *question);

// clusters.c ------------------------------------------------------------------------------------------------

struct cloud_cluster {
    char name[CLOUD_NAME], status[16], resources[2 * CLOUD_NAME], accelerator[CLOUD_NAME];
    int nodes, autostop; // autostop: minutes; below 0: never
    bool to_down;        // autostop removes the cluster; false: stops it
    double per_hour;     // US dollars, averaged over its use so far; below 0: unknown
};
struct cloud_clusters {
    struct cloud_cluster *at; // owned by the caller
    int count;
};
// Reads what SkyPilot knows of one cluster, or of all if name is NULL; `refresh` makes it query the cloud.
// Returns false, without a message, if `sky` fails; *out is empty then.
bool cloud_read_clusters(const char *name, bool refresh, struct cloud_clusters *out);
// Fills in per_hour, from what SkyPilot reports of costs.
void cloud_read_costs(struct cloud_clusters *clusters);
// Writes a line about the cluster: its state, its price, and when it ends automatically.
void cloud_show_cluster(FILE *out, const struct cloud_cluster *c);
// Lists on standard error which clusters remain and may cost money, and how to end `name`, a cluster or a
// managed job.
void cloud_report_left(const char *name, bool managed);
// Copies the name of the cluster that the command means: --name, or that which launch wrote to .cluster_name.
bool cloud_find_name(const struct invocation *call, char *out);
// Writes the name to .cluster_name.
bool cloud_keep_name(const struct invocation *call, const char *name);
// Removes .cluster_name if it has this name.
void cloud_forget_name(const char *name);
// Returns whether SkyPilot accepts the text as a name; writes no message.
bool cloud_is_name(const char *text);
// Finds the cluster that the command means, which must be up.
bool cloud_find_up(const struct invocation *call, struct cloud_cluster *out);

// sky.c -----------------------------------------------------------------------------------------------------

enum { CLOUD_WORDS = 2 * CLOUD_PAIRS + 32 };
struct cloud_words {
    const char *at[CLOUD_WORDS + 1]; // ends with NULL
    int count;
};
// Appends a word, which the caller still owns. Ignored if there is no room.
void cloud_add(struct cloud_words *w, const char *word);
// Appends the names of the secrets, whose values sky takes from the environment.
void cloud_add_secrets(struct cloud_words *w, const struct cloud_task *t);
// Runs the words as a command, the first of which is sky, by cli_run_program. Returns the exit code.
int cloud_sky(const struct cloud_words *w, char **output);
// Returns whether `sky` can be run at all.
bool cloud_has_sky(const struct invocation *call);

#endif
