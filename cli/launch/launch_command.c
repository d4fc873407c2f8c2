// launch_command.c - `zellige launch PROGRAM`: starts one rank per host, or several on this machine, and
// tells them how to reach each other.
//
// The environment of a rank of the engine `ring` has the name of a hostfile, the rank and a token; that of a
// rank of `nccl` has the address of rank 0, and a GPU of its machine. For other machines these are sent to
// the standard input of ssh, so that they never appear in a list of processes. mpirun and srun get the
// program unchanged.

#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zellige.h"

enum { FIRST_PORT = 32323, PORT_LAST = 65535, PAIRS_MOST = 64 };

static const struct option options[] = {
    {"n", 'n', "COUNT", NULL, "ranks on each host (default 1); --repeat-hosts is the same"},
    {"repeat-hosts", 0, "COUNT", NULL, "as --n, under mlx.launch's name"},
    {"hosts", 0, "LIST", NULL, "names or addresses with commas between them (default 127.0.0.1)"},
    {"hostfile", 0, "FILE", "*.json", "[{\"ssh\": \"name\", \"ips\": [\"10.0.0.1\"]}, ...]"},
    {"backend", 0, "NAME", "ring nccl mpi srun",
     "what connects the ranks: ring (default), nccl, mpi by mpirun, or srun"},
    {"starting-port", 'p', "PORT", NULL,
     "first port of the ring (default 32323), and where ranks of nccl meet"},
    {"connections-per-ip", 0, "COUNT", NULL, "connections between neighbours for each address (default 1)"},
    {"env", 0, "NAME=VALUE,...", NULL, "more variables for the program"},
    {"cwd", 0, "FOLDER", NULL, "folder to run in, also on other machines"},
    {"mpi-arg", 0, "ARG,...", NULL, "more arguments for mpirun or srun, with commas between them"},
    {"plain", 0, NULL, NULL, "output as it is, without the rank before each line"},
    {0},
};

// Everything that all ranks share.
struct job {
    const struct invocation *call;
    struct launch_hosts hosts;
    int64_t times, port, links;
    char token[CLI_TOKEN_DIGITS + 1];
    char file[64], *pair[PAIRS_MOST + 1];
    int pairs;
    char *ring; // the ring's hostfile, as JSON
    bool nccl;  // the engine is nccl: ranks connect to rank 0, and each has a GPU
};

static char *format(const char *form, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *form, ...) {
    char *out = NULL;
    va_list list;
    va_start(list, form);
    int n = vasprintf(&out, form, list);
    va_end(list);
    return n < 0 ? NULL : out;
}

// Options ---------------------------------------------------------------------------------------------------

static bool add_pair(struct job *j, char *pair) {
    if (!pair || j->pairs == PAIRS_MOST)
        return free(pair), false;
    j->pair[j->pairs++] = pair;
    return true;
}

static bool read_pairs(struct job *j, const char *list) {
    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ",");
        size_t name = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
        if (!name || at[name] != '=' || (*at >= '0' && *at <= '9')) // a name that a shell can export
            return cli_usage(j->call, "--env: NAME=VALUE is expected, not '%.*s'", (int)len, at), false;
        if (!add_pair(j, strndup(at, len)))
            return cli_fail(j->call, "--env: more than %d variables", PAIRS_MOST), false;
        at += len + (at[len] == ',');
    }
    return true;
}

static bool read_options(struct job *j) {
    const struct invocation *call = j->call;
    j->times = j->links = 1;
    j->port = FIRST_PORT;
    return cli_integer(call, "repeat-hosts", 1, LAUNCH_RANKS, &j->times) &&
           cli_integer(call, "n", 1, LAUNCH_RANKS, &j->times) &&
           cli_integer(call, "starting-port", 1, PORT_LAST, &j->port) &&
           cli_integer(call, "connections-per-ip", 1, LAUNCH_ADDRESSES, &j->links) &&
           read_pairs(j, cli_option(call, "env"));
}

// The ring --------------------------------------------------------------------------------------------------

// Writes the hostfile of the ring. Port numbers increase over all ranks, so that ranks on the same machine
// get different ones.
static bool write_ring(struct job *j) {
    size_t bytes;
    FILE *f = open_memstream(&j->ring, &bytes);
    int64_t port = j->port;
    if (!f)
        return false;
    for (int i = 0; i < j->hosts.count; i++) {
        const struct launch_rank *r = &j->hosts.rank[i];
        fprintf(f, "%s[", i ? ", " : "[");
        for (int64_t k = 0; k < r->addresses * j->links; k++)
            fprintf(f, "%s\"%s:%lld\"", k ? ", " : "", r->address[k % r->addresses], (long long)port++);
        fprintf(f, "]");
    }
    fprintf(f, "]\n");
    return fclose(f) == 0 && port <= PORT_LAST + 1;
}

static bool write_file(struct job *j) {
    strcpy(j->file, "/tmp/zellige-hosts-XXXXXX");
    int f = mkstemp(j->file);
    bool ok = f >= 0 && write(f, j->ring, strlen(j->ring)) == (ssize_t)strlen(j->ring);
    if (f >= 0)
        close(f);
    return ok || (cli_fail(j->call, "the file of hosts cannot be written: %s", strerror(errno)), false);
}

static bool is_same_machine(const struct launch_rank *a, const struct launch_rank *b) {
    return (launch_is_local(a) && launch_is_local(b)) || !strcmp(a->ssh, b->ssh);
}

// Returns the index of a rank among those of its machine, and sets *all to their number.
static int place_on_machine(const struct job *j, int rank, int *all) {
    int place = 0;
    *all = 0;
    for (int i = 0; i < j->hosts.count; i++)
        if (is_same_machine(&j->hosts.rank[i], &j->hosts.rank[rank])) {
            place += i < rank;
            ++*all;
        }
    return place;
}

// Returns the name of a GPU for a rank, in at most *length characters: one of those in CUDA_VISIBLE_DEVICES,
// if that is set here and the rank runs here. NULL: it lists too few; "": the name is the rank's place.
static const char *gpu_of(const struct job *j, int rank, int *length) {
    int all, place = place_on_machine(j, rank, &all);
    const char *list = launch_is_local(&j->hosts.rank[rank]) ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
    *length = 0;
    if (!list || !*list)
        return "";
    while (list && place--)
        list = (list = strchr(list, ',')) ? list + 1 : NULL;
    *length = list ? (int)strcspn(list, ",") : 0;
    return *length ? list : NULL;
}

// Checks that each rank has an address and, of the engine nccl, a GPU.
static bool check_ranks(const struct job *j) {
    int length;
    for (int i = 0; i < j->hosts.count; i++) {
        if (!j->hosts.rank[i].addresses)
            return cli_fail(j->call, "rank %d has no address: \"ips\": [\"10.0.0.1\"] is expected in '%s'", i,
                            cli_option(j->call, "hostfile")),
                   false;
        if (j->nccl && !gpu_of(j, i, &length))
            return cli_fail(j->call, "rank %d has no GPU: CUDA_VISIBLE_DEVICES is %s", i,
                            getenv("CUDA_VISIBLE_DEVICES")),
                   false;
    }
    return true;
}

// Writes the variables of a rank, besides the hostfile, to `out`, which has room for OWN_PAIRS and a NULL at
// the end.
enum { OWN_PAIRS = 6 };
static void own_pairs(const struct job *j, int rank, char **out) {
    int all, length, place = place_on_machine(j, rank, &all);
    const char *gpu = gpu_of(j, rank, &length);
    *out++ = format("MLX_RANK=%d", rank);
    *out++ = format("ZL_GROUP_TOKEN=%s", j->token);
    if (j->nccl) {
        *out++ = format("NCCL_HOST_IP=%s", j->hosts.rank[0].address[0]);
        *out++ = format("NCCL_PORT=%lld", (long long)j->port);
        *out++ = format("MLX_WORLD_SIZE=%d", j->hosts.count);
    }
    if (j->nccl && all > 1)
        *out++ = *gpu ? format("CUDA_VISIBLE_DEVICES=%.*s", length, gpu)
                      : format("CUDA_VISIBLE_DEVICES=%d", place);
    *out = NULL;
}

static void export_pair(FILE *f, const char *pair) {
    size_t name = strcspn(pair, "=");
    fprintf(f, "export %.*s=", (int)name, pair);
    cli_put_quoted(f, pair + name + 1);
    fputc('\n', f);
}

static char *script(const struct job *j, int rank) {
    char *out = NULL, *own[OWN_PAIRS + 1];
    size_t bytes;
    FILE *f = open_memstream(&out, &bytes);
    const char *folder = cli_option(j->call, "cwd");
    if (!f)
        return NULL;
    // The script is one shell function, so that the shell has read all of it before it reads anything else
    // from the same standard input. Each line after it is a signal for the program. When the input ends, with
    // the launcher or for another reason, the script ends the program.
    fprintf(
        f,
        "run() {\nexec 3<&0\nhosts=$(mktemp) || exit 1\ncat >\"$hosts\" <<'END_OF_HOSTS'\n%sEND_OF_HOSTS\n",
        j->ring);
    if (!j->nccl)
        fputs("export MLX_HOSTFILE=\"$hosts\"\n", f);
    own_pairs(j, rank, own);
    for (int i = 0; own[i]; i++) {
        export_pair(f, own[i]);
        free(own[i]);
    }
    for (int i = 0; i < j->pairs; i++)
        export_pair(f, j->pair[i]);
    if (folder) {
        fputs("cd ", f);
        cli_put_quoted(f, folder);
        fputs(" || exit 1\n", f);
    }
    fputs("set -m\n", f);
    for (int i = 0; i < j->call->operand_count; i++) {
        cli_put_quoted(f, j->call->operands[i]);
        fputc(' ', f);
    }
    fputs("</dev/null 3<&- &\nprogram=$!\n(while read -r signal <&3; do kill \"-$signal\" -$program; done; "
          "kill -TERM -$program; sleep 5; kill -KILL -$program) 2>/dev/null &\nwatch=$!\n"
          "wait $program\ncode=$?\nkill -TERM -$watch 2>/dev/null\nrm -f \"$hosts\"\nexit $code\n}\nrun\n",
          f);
    return fclose(f) == 0 ? out : NULL;
}

static bool set_local(struct job *j, struct launch_process *p, int rank) {
    char **variable = calloc((size_t)j->pairs + OWN_PAIRS + 2, sizeof *variable);
    if (!variable)
        return false;
    int n = 0;
    own_pairs(j, rank, variable);
    while (variable[n])
        n++;
    if (!j->nccl)
        variable[n++] = format("MLX_HOSTFILE=%s", j->file);
    for (int i = 0; i < j->pairs; i++)
        variable[n++] = strdup(j->pair[i]);
    *p = (struct launch_process){
        .argv = j->call->operands, .variable = variable, .folder = cli_option(j->call, "cwd")};
    return true;
}

static bool set_remote(struct job *j, struct launch_process *p, int rank) {
    const char *words[] = {"ssh", "-T", "-o", "BatchMode=yes", j->hosts.rank[rank].ssh, "bash", NULL};
    char **argv = calloc(sizeof words / sizeof *words, sizeof *argv);
    for (int i = 0; argv && words[i]; i++)
        argv[i] = strdup(words[i]);
    *p = (struct launch_process){.argv = argv, .input = script(j, rank)};
    return argv && p->input;
}

static void free_words(char *const *words) {
    for (char *const *w = words; w && *w; w++)
        free(*w);
    free((void *)words);
}

static int run_ranks(struct job *j) {
    if (!check_ranks(j))
        return CLI_FAILED;
    struct launch_process *p = calloc((size_t)j->hosts.count, sizeof *p);
    bool ok = p && cli_make_token(j->token) && write_ring(j);
    if (!ok)
        return free(p),
               cli_fail(j->call, "the ring cannot be prepared: ports from %lld on", (long long)j->port);
    ok = write_file(j);
    for (int i = 0; ok && i < j->hosts.count; i++)
        ok = (launch_is_local(&j->hosts.rank[i]) ? set_local : set_remote)(j, &p[i], i);
    int code = ok ? launch_run(p, j->hosts.count, cli_option(j->call, "plain")) : CLI_FAILED;
    unlink(j->file);
    for (int i = 0; i < j->hosts.count; i++) {
        free_words(p[i].variable);
        if (p[i].input) {
            free_words(p[i].argv);
            free((void *)(uintptr_t)p[i].input);
        }
    }
    free(p);
    return code;
}

// mpirun and srun -------------------------------------------------------------------------------------------

// A command line, which a NULL ends. failed: a word is missing, since memory ran out.
struct words {
    char **at;
    int count;
    bool failed;
};

static void add(struct words *w, char *word) {
    char **more = word ? realloc(w->at, sizeof *more * (size_t)(w->count + 2)) : NULL;
    w->failed |= !more;
    if (!more)
        return;
    w->at = more;
    w->at[w->count++] = word;
    w->at[w->count] = NULL;
}

static void add_list(struct words *w, const char *list) {
    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ",");
        add(w, strndup(at, len));
        at += len + (at[len] == ',');
    }
}

static void add_hosts(struct words *w, const struct job *j) {
    size_t bytes;
    char *list = NULL;
    FILE *f = open_memstream(&list, &bytes);
    for (int i = 0; f && i < j->hosts.count; i++)
        fprintf(f, "%s%s:1", i ? "," : "",
                launch_is_local(&j->hosts.rank[i]) ? "localhost" : j->hosts.rank[i].ssh);
    if (f && fclose(f) == 0) {
        add(w, strdup("--host"));
        add(w, list);
    }
}

// Runs the program under mpirun or srun. Each has its own options for the hosts and for labelling output
// lines with ranks.
static int hand_over(struct job *j, bool srun) {
    struct words w = {.count = 0};
    bool plain = cli_option(j->call, "plain");
    add(&w, strdup(srun ? "srun" : "mpirun"));
    add(&w, strdup(srun ? "--ntasks" : "-np"));
    add(&w, format("%d", j->hosts.count));
    if (!plain)
        add(&w, strdup(srun ? "--label" : "--tag-output"));
    if (!srun)
        add_hosts(&w, j);
    else
        add(&w, strdup("--kill-on-bad-exit=1"));
    if (cli_option(j->call, "cwd")) {
        add(&w, strdup(srun ? "--chdir" : "-wdir"));
        add(&w, strdup(cli_option(j->call, "cwd")));
    }
    for (int i = 0; i < j->pairs; i++) {
        putenv(j->pair[i]);
        if (!srun) { // srun passes the whole environment on
            add(&w, strdup("-x"));
            add(&w, strndup(j->pair[i], strcspn(j->pair[i], "=")));
        }
    }
    if (srun && cli_make_token(j->token))
        setenv("ZL_GROUP_TOKEN", j->token, 1);
    add_list(&w, cli_option(j->call, "mpi-arg"));
    for (int i = 0; i < j->call->operand_count; i++)
        add(&w, j->call->operands[i]);
    if (w.failed)
        return cli_fail(j->call, "out of memory");
    execvp(w.at[0], w.at);
    return cli_fail(j->call, "'%s' cannot be run: %s", w.at[0], strerror(errno));
}

static int run(const struct invocation *call) {
    struct job j = {.call = call};
    const char *backend = cli_option(call, "backend") ? cli_option(call, "backend") : "ring";
    bool mpi = !strcmp(backend, "mpi"), srun = !strcmp(backend, "srun");
    j.nccl = !strcmp(backend, "nccl");
    if (!call->operand_count)
        return cli_usage(call, "a program is needed: zellige launch -n 4 ./train");
    if (!mpi && !srun && !j.nccl && strcmp(backend, "ring") && strcmp(backend, "any"))
        return cli_usage(call, "--backend is ring, nccl, mpi or srun, not '%s'", backend);
    int code = CLI_USAGE;
    if (read_options(&j) && launch_read_hosts(call, cli_option(call, "hosts"), cli_option(call, "hostfile"),
                                              (int)j.times, &j.hosts))
        code = mpi || srun ? hand_over(&j, srun) : run_ranks(&j);
    launch_free_hosts(&j.hosts);
    for (int i = 0; i < j.pairs; i++)
        free(j.pair[i]);
    free(j.ring);
    return code;
}

const struct command cli_launch = {
    .name = "launch",
    .operands = "PROGRAM [ARG...]",
    .summary = "Start a program several times, here or on other machines, as ranks of one group",
    .details = "Each line of output has its rank before it. The first rank that fails ends all others, and "
               "its exit code is that of the\n"
               "command. Ranks find each other by zl_group_init, or mlx's distributed.init (doc/scale.md).\n"
               "  zellige launch -n 4 ./train\n"
               "  zellige launch --hostfile hosts.json --cwd /data python3 train.py\n"
               "  zellige launch --backend mpi -n 8 ./train",
    .operands_most = INT_MAX,
    .takes_program = true,
    .options = options,
    .run = run,
};
