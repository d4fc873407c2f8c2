// cloud.h - `zellige cloud`: machines that are rented through SkyPilot's program `sky`, which does the
// renting.
//
//     cloud_launch.c   launch: options, price, confirmation, what is left when it fails
//     cloud_exec.c     exec and sync, on a cluster that is up
//     cloud_status.c   status, logs and down
//     cloud_pull.c     pull, from every host of a cluster
//     task.c           the YAML that SkyPilot is given; hosts.sh is in it, by which hosts know each other
//     accelerators.c   names and counts of accelerators, and how many hosts a TPU slice has
//     price.c          what SkyPilot would take, and what that costs
//     clusters.c       which clusters there are, and which one is meant
//
// A function that returns false or NULL, or a code other than CLI_OK, has said why.

#ifndef CLOUD_H
#define CLOUD_H

#include <stdbool.h>
#include <stdio.h>

#include "cli.h"

enum { CLOUD_NAME = CLI_CLUSTER_NAME, CLOUD_PAIRS = 64 };

// accelerators.c --------------------------------------------------------------------------------------------

// Returns whether SkyPilot can be asked for it: H100, H100:8, tpu-v6e-8. Counts of TPUs are checked.
bool cloud_check_accelerator(const struct invocation *call, const char *name);
// Returns whether the name is that of a TPU; NULL is not.
bool cloud_is_tpu(const char *accelerator);
// Returns how many hosts one node of it has: 1 but for slices of TPUs, such as tpu-v6e-16 with 4.
int cloud_hosts_of(const char *accelerator);

// task.c ----------------------------------------------------------------------------------------------------

// What SkyPilot is asked for. Texts belong to the command line.
struct cloud_task {
    char name[CLOUD_NAME];   // of the cluster or the managed job
    const char *bench;       // the experiment of a measurement; NULL: a program
    const char *suite, *build_options; // of a measurement
    const char *infra, *accelerator, *cpus, *workdir, *setup; // NULL: SkyPilot's choice, or none
    char place[CLOUD_NAME];  // instead of infra, if it is not empty: where a price holds
    int nodes;               // 0: 1
    bool spot;               // machines that may be taken away
    bool on_cluster;         // that is there: nothing is asked for but its accelerators
    const char *env[CLOUD_PAIRS], *mount[CLOUD_PAIRS]; // "NAME=VALUE", "/path=s3://bucket"
    const char *secret[CLOUD_PAIRS];                   // names; their values are in the environment
    int envs, mounts, secrets;
    char *const *program;    // NULL at the end
};
// Reads and checks --env, --secret, --workdir and the operands. A program of several hosts also gets a token,
// ZL_GROUP_TOKEN, in the environment and among the secrets.
bool cloud_read_task(const struct invocation *call, struct cloud_task *t);
// Writes the task as YAML.
void cloud_write_task(FILE *out, const struct cloud_task *t);
// Returns how many hosts its program runs on.
int cloud_task_hosts(const struct cloud_task *t);
// Writes the task to a new file, which the caller removes; `path` has room for CLOUD_NAME letters.
bool cloud_save_task(const struct invocation *call, const struct cloud_task *t, char *path);
// Returns whether the extended regular expression matches the whole text. If not, the message says what is
// expected.
bool cloud_check_text(const struct invocation *call, const char *what, const char *text, const char *pattern,
                      const char *expected);

extern const struct cloud_file {
    const char *name, *text;
} cloud_files[]; // hosts.sh and scripts/tpu_resource.sky.yaml; the last has no name

// price.c ---------------------------------------------------------------------------------------------------

struct cloud_price {
    bool known;
    double per_hour;             // US dollars, of all nodes
    char where[CLOUD_NAME];      // "GCP (us-east5-b)"
    char what[CLOUD_NAME];       // "tpu-v6e-8:1"
};
// Lets SkyPilot plan the task in the file `path`, without launching. Returns the exit code of `sky`; see
// cli_run_program.
int cloud_plan(const struct cloud_task *t, const char *path, char **output);
// Reads the price from such a plan. Returns false if SkyPilot has no plan.
bool cloud_ask_price(const struct invocation *call, const struct cloud_task *t, const char *path,
                     struct cloud_price *out);
// Shows the price and asks whether it is right. Returns true with --yes or an answer of y; false if it is
// more than --max-price, is not known though --max-price is given, or is not confirmed.
bool cloud_confirm_price(const struct invocation *call, const struct cloud_task *t,
                         const struct cloud_price *p);
// Sets the task's place to where the price holds.
void cloud_stay(struct cloud_task *t, const struct cloud_price *p);
// Asks a question, unless --yes is given. Returns whether the answer is y.
bool cloud_confirm(const struct invocation *call, const char *question);

// clusters.c ------------------------------------------------------------------------------------------------

struct cloud_cluster {
    char name[CLOUD_NAME], status[16], resources[2 * CLOUD_NAME], accelerator[CLOUD_NAME];
    int nodes, autostop; // autostop: minutes; below 0: never
    bool to_down;        // autostop removes it; false: stops it
    double per_hour;     // US dollars, as far as it was used; below 0: not known
};
struct cloud_clusters {
    struct cloud_cluster *at; // belongs to the caller
    int count;
};
// Reads what SkyPilot knows of one cluster, or of all if name is NULL; `refresh` asks the cloud.
// Returns false, without a message, if `sky` did not answer; *out has none then.
bool cloud_read_clusters(const char *name, bool refresh, struct cloud_clusters *out);
// Fills in per_hour, from what SkyPilot reports of costs.
void cloud_read_costs(struct cloud_clusters *clusters);
// Writes a line on the cluster: its state, what it costs, and when it ends by itself.
void cloud_show_cluster(FILE *out, const struct cloud_cluster *c);
// Lists, on the standard error, what is left and may cost money, `name` above all.
void cloud_report_left(const char *name);
// Copies the cluster that is meant: --name, or that which launch kept in .cluster_name.
bool cloud_find_name(const struct invocation *call, char *out);
// Writes the name to .cluster_name.
bool cloud_keep_name(const struct invocation *call, const char *name);
// Removes .cluster_name if it has this name.
void cloud_forget_name(const char *name);
// Returns whether SkyPilot would take it for a name; without a message.
bool cloud_is_name(const char *text);
// Finds the cluster that is meant and is up.
bool cloud_find_up(const struct invocation *call, struct cloud_cluster *out);

// sky.c -----------------------------------------------------------------------------------------------------

enum { CLOUD_WORDS = 2 * CLOUD_PAIRS + 32 };
struct cloud_words {
    const char *at[CLOUD_WORDS + 1]; // NULL at the end
    int count;
};
// Appends a word, which stays the caller's. What does not fit is left out.
void cloud_add(struct cloud_words *w, const char *word);
// Appends the names of the secrets, from which sky takes values by itself.
void cloud_add_secrets(struct cloud_words *w, const struct cloud_task *t);
// Runs the words, of which the first is sky, by cli_run_program. Returns the exit code.
int cloud_sky(const struct cloud_words *w, char **output);
// Returns whether `sky` can be run at all.
bool cloud_has_sky(const struct invocation *call);

#endif
