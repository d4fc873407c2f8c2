// kernel_tune.c - `zellige kernel tune`: finds the fastest values of a tile kernel's params.
//
// Each configuration is compiled and timed in a process of its own, so that one that does not compile, fails
// or hangs only gets a reason in its row. Compilations run in parallel and fill the cache; after them the
// timings run one at a time. The rows are stored in the folder `zellige-tuned` next to the compiled kernels,
// in a file named by a hash of everything that they depend on.

#include "kernel_run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMES = 16, CONFIGURATIONS = 1024, REASON = 400 };

struct row {
    char params[256];
    double seconds; // -1: not timed
    char reason[REASON];
};

struct tuning {
    const struct invocation *call;
    char target[32];
    char *text;
    int rows;
    struct row *row;
    double timeout;
    bool is_modelled; // times are those of a model of the chip, not of a clock
    bool from_disk;
};

// Configurations --------------------------------------------------------------------------------------------

// A param with its values, in a list such as "BM=64,128,BN=32".
struct axis {
    const char *name, *first;
    int len, values;
};

static int list_axes(const char *list, struct axis *axis) {
    int count = 0;
    for (const char *at = list; at && *at; at = strchr(at, ','), at += at != NULL) {
        int word = (int)strcspn(at, ",");
        const char *equals = memchr(at, '=', (size_t)word);
        if ((!equals && !count) || (equals && count == NAMES) || word == 0)
            return -1;
        if (equals)
            axis[count++] = (struct axis){at, equals + 1, (int)(equals - at), 0};
        axis[count - 1].values++;
    }
    return count;
}

static void add_value(char *params, size_t bytes, const struct axis *a, int index) {
    const char *value = a->first;
    while (index--)
        value = strchr(value, ',') + 1;
    size_t used = strlen(params);
    snprintf(params + used, bytes - used, "%s%.*s=%.*s", used ? "," : "", a->len, a->name,
             (int)strcspn(value, ","), value);
}

static bool list_rows(struct tuning *t) {
    struct axis axis[NAMES];
    const char *list = cli_option(t->call, "param");
    int axes = list ? list_axes(list, axis) : 0;
    if (axes <= 0)
        return cli_usage(t->call, "needs --param with names and values, such as --param BM=64,128,BN=64,128"),
               false;
    t->rows = 1;
    for (int i = 0; i < axes && t->rows <= CONFIGURATIONS; i++)
        t->rows *= axis[i].values;
    if (t->rows > CONFIGURATIONS)
        return cli_usage(t->call, "more than %d configurations", CONFIGURATIONS), false;
    t->row = calloc((size_t)t->rows, sizeof *t->row);
    for (int r = 0; t->row && r < t->rows; r++)
        for (int i = 0, block = t->rows; i < axes; i++) { // the last param changes fastest
            block /= axis[i].values;
            add_value(t->row[r].params, sizeof t->row[r].params, &axis[i], r / block % axis[i].values);
        }
    return t->row;
}

// A process for each ----------------------------------------------------------------------------------------

static zl_kernel compile(const struct tuning *t, const struct row *row) {
    return zl_kernel_compile_with(t->text, t->call->operands[0], t->target, row->params);
}

// Times a row, or only compiles it. Writes the seconds, or the reason of a failure, to the file descriptor
// `to`.
static void measure(const struct tuning *t, const struct row *row, bool only_compile, int to) {
    struct run r = {.kernel = compile(t, row)};
    int runs;
    double best = 0;
    bool good =
        r.kernel && (only_compile || (cli_run_sizes(t->call, r.kernel, r.size) && cli_run_arguments(&r) &&
                                      (best = cli_run_best(&r, t->is_modelled ? 0 : 0.2, &runs)) >= 0));
    const char *why = zl_error();
    if (good)
        dprintf(to, "%.9g", best);
    else
        dprintf(to, "!%.*s", REASON - 2, why ? why : "it failed");
    cli_run_end(&r);
}

struct child {
    pid_t pid;
    int from;
    double end;
};

static bool start(struct tuning *t, struct row *row, bool only_compile, struct child *c) {
    int ends[2];
    if (pipe(ends))
        return false;
    c->pid = fork();
    if (c->pid == 0) {
        setpgid(0, 0); // a group with the compiler that it starts
        close(ends[0]);
        measure(t, row, only_compile, ends[1]);
        close(ends[1]);
        _exit(0);
    }
    if (c->pid > 0)
        setpgid(c->pid, c->pid); // both processes set the group, since either may run first
    close(ends[1]);
    c->from = ends[0];
    c->end = cli_now() + t->timeout;
    if (c->pid > 0)
        return true;
    close(ends[0]);
    return false;
}

static int read_all(struct child *c, char *answer, int bytes) {
    int len = 0;
    for (;;) {
        struct pollfd wait = {.fd = c->from, .events = POLLIN};
        double left = (c->end - cli_now()) * 1e3;
        int ready = cli_interrupted() ? 0 : poll(&wait, 1, left > 0 ? (int)left + 1 : 0);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return -1;
        ssize_t got = read(c->from, answer + len, (size_t)(bytes - 1 - len));
        if (got <= 0)
            return len;
        len += (int)got;
    }
}

static void leave_out(struct row *row, const char *reason) {
    row->seconds = -1;
    snprintf(row->reason, sizeof row->reason, "%s", reason);
}

static void finish(const struct tuning *t, struct row *row, struct child *c) {
    char answer[REASON] = "";
    int len = read_all(c, answer, sizeof answer), status = 0;
    if (len < 0)
        kill(-c->pid, SIGKILL);
    close(c->from);
    waitpid(c->pid, &status, 0);
    answer[len > 0 ? len : 0] = 0;
    row->seconds = len > 0 && *answer != '!' ? strtod(answer, NULL) : -1;
    if (row->seconds >= 0)
        return;
    if (len < 0 && cli_interrupted())
        leave_out(row, "interrupted");
    else if (len < 0)
        snprintf(row->reason, sizeof row->reason, "it took more than %g s", t->timeout);
    else if (WIFSIGNALED(status))
        snprintf(row->reason, sizeof row->reason, "it was ended by signal %d", WTERMSIG(status));
    else
        snprintf(row->reason, sizeof row->reason, "%s", *answer ? answer + 1 : "it ended without a word");
    row->reason[strcspn(row->reason, "\n\t")] = 0;
}

static void show_progress(const struct tuning *t, bool only_compile, int done) {
    if (!isatty(STDERR_FILENO) || t->call->verbosity < 0)
        return;
    fputs("\r\033[K", stderr);
    if (done < t->rows)
        fprintf(stderr, "%s %d of %d: %s", only_compile ? "compiles" : "times", done + 1, t->rows,
                t->row[done].params);
    fflush(stderr);
}

// Compiles or times all rows that have not failed, `at_once` of them in parallel.
static bool measure_all(struct tuning *t, bool only_compile, int at_once) {
    struct child *child = calloc((size_t)t->rows, sizeof *child);
    int started = 0;
    for (int done = 0; child && done < t->rows; done++) {
        show_progress(t, only_compile, done);
        for (; started < t->rows && started < done + at_once && !cli_interrupted(); started++)
            if (!*t->row[started].reason && !start(t, &t->row[started], only_compile, &child[started]))
                leave_out(&t->row[started], "no process for it");
        if (child[done].pid > 0)
            finish(t, &t->row[done], &child[done]);
        else if (!*t->row[done].reason)
            leave_out(&t->row[done], "interrupted");
    }
    show_progress(t, only_compile, t->rows);
    free(child);
    return child;
}

// On disk ---------------------------------------------------------------------------------------------------

static uint64_t hash(uint64_t sum, const char *text) {
    for (const char *at = text ? text : ""; *at; at++)
        sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return (sum ^ 0xff) * UINT64_C(0x100000001b3);
}

static bool path_of(const struct tuning *t, char *folder, char *path, size_t bytes) {
    const char *own = getenv("ZL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char threads[32];
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    snprintf(threads, sizeof threads, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    const char *const parts[] = {zl_version(),
                                 t->text,
                                 t->target,
                                 t->is_modelled ? "modelled" : "measured",
                                 cli_option(t->call, "param"),
                                 cli_option(t->call, "size"),
                                 threads,
                                 getenv("ZL_THREADS"),
                                 getenv("ZL_ISA")};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum = hash(sum, parts[i]);
    int len = own && *own       ? snprintf(folder, bytes, "%s/zellige-tuned", own)
              : cache && *cache ? snprintf(folder, bytes, "%s/zellige/zellige-tuned", cache)
              : home && *home   ? snprintf(folder, bytes, "%s/.cache/zellige/zellige-tuned", home)
                                : -1;
    return len > 0 && (size_t)len < bytes &&
           snprintf(path, bytes, "%s/%016llx.rows", folder, (unsigned long long)sum) < (int)bytes;
}

// Reads the rows of an earlier run: each line has the params, the seconds and the reason of a failure,
// separated by tabs.
static bool load_rows(struct tuning *t) {
    char folder[4096], path[4096], line[1024];
    FILE *file = path_of(t, folder, path, sizeof path) ? fopen(path, "r") : NULL;
    int found = 0;
    while (file && found < t->rows && fgets(line, sizeof line, file)) {
        struct row *row = &t->row[found];
        char *seconds = strchr(line, '\t'), *reason = seconds ? strchr(seconds + 1, '\t') : NULL;
        if (!reason || (size_t)(seconds - line) != strlen(row->params) ||
            strncmp(line, row->params, strlen(row->params)) != 0)
            break;
        row->seconds = strtod(seconds + 1, NULL);
        reason[strcspn(reason, "\n")] = 0;
        snprintf(row->reason, sizeof row->reason, "%.*s", REASON - 1, reason + 1);
        found++;
    }
    if (file)
        fclose(file);
    return found == t->rows;
}

// Stores the rows. It is no error if the folder cannot be written.
static void save_rows(const struct tuning *t) {
    char folder[4096], path[4096], *text = NULL;
    size_t bytes = 0;
    FILE *file = path_of(t, folder, path, sizeof path) ? open_memstream(&text, &bytes) : NULL;
    if (!file)
        return;
    mkdir(folder, 0700);
    for (int i = 0; i < t->rows; i++)
        fprintf(file, "%s\t%.9g\t%s\n", t->row[i].params, t->row[i].seconds, t->row[i].reason);
    if (!fclose(file) && !zl_write_file(path, text, bytes))
        zl_clear_error();
    free(text);
}

// -----------------------------------------------------------------------------------------------------------

static const struct row *best_of(const struct tuning *t) {
    const struct row *best = NULL;
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].seconds >= 0 && (!best || t->row[i].seconds < best->seconds))
            best = &t->row[i];
    return best;
}

static void print_json(const struct tuning *t, const struct row *best) {
    cli_json_open(NULL, '{');
    cli_json_text("best", best ? best->params : NULL);
    cli_json_bool("is_modelled", t->is_modelled);
    cli_json_bool("from_disk", t->from_disk);
    cli_json_bool("interrupted", cli_interrupted());
    cli_json_open("rows", '[');
    for (int i = 0; i < t->rows; i++) {
        cli_json_open(NULL, '{');
        cli_json_text("params", t->row[i].params);
        if (t->row[i].seconds >= 0)
            cli_json_number("milliseconds", t->row[i].seconds * 1e3);
        else
            cli_json_text("error", t->row[i].reason);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
}

static void print_rows(const struct tuning *t, const struct row *best) {
    for (int i = 0; i < t->rows; i++) {
        const struct row *row = &t->row[i];
        if (row->seconds >= 0)
            printf("%-40s %10.3f ms%s%s\n", row->params, row->seconds * 1e3,
                   t->is_modelled ? " (modelled)" : "", row == best ? "  best" : "");
        else
            printf("%-40s %s\n", row->params, row->reason);
    }
    if (t->from_disk)
        printf("as %s before; --again %s anew\n", t->is_modelled ? "modelled" : "measured",
               t->is_modelled ? "models" : "measures");
    cli_remark_cpu(t->target, "");
}

// Reports once, before the first configuration, an error that all of them would have.
static int check(const struct tuning *t) {
    int64_t size[CLI_SIZES];
    zl_kernel k = zl_kernel_parse(t->text, t->call->operands[0]);
    if (!k)
        return cli_library_failed(t->call);
    int code = cli_run_sizes(t->call, k, size) ? CLI_OK : CLI_USAGE;
    zl_kernel_release(k);
    return code;
}

static int tune(struct tuning *t) {
    int code = check(t);
    if (code != CLI_OK)
        return code;
    if (!list_rows(t))
        return t->rows && !t->row ? cli_fail(t->call, "out of memory") : CLI_USAGE;
    t->from_disk = !cli_option(t->call, "again") && load_rows(t);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!t->from_disk) {
        if (!measure_all(t, true, processors > 0 ? (int)processors : 1) || !measure_all(t, false, 1))
            return cli_fail(t->call, "out of memory");
        if (!cli_interrupted())
            save_rows(t);
    }
    const struct row *best = best_of(t);
    if (t->call->json)
        print_json(t, best);
    else
        print_rows(t, best);
    if (cli_interrupted() && !t->call->json)
        cli_fail(t->call, "interrupted: not all was timed, and no time is kept");
    return best && !cli_interrupted() ? CLI_OK : CLI_FAILED;
}

// Finds the target in a process of its own: a driver that this process had opened could not be used by its
// children, which compile and measure.
static void query_target(struct tuning *t) {
    int ends[2];
    char said[sizeof t->target + 1] = "";
    snprintf(t->target, sizeof t->target, "%s", zl_kernel_target(0));
    if (pipe(ends))
        return;
    pid_t child = fork();
    if (child == 0) {
        const char *target = cli_target(t->call);
        dprintf(ends[1], "%c%s", zl_kernel_is_modelled(target) ? 'm' : ' ', target);
        _exit(0);
    }
    close(ends[1]);
    if (child > 0 && read(ends[0], said, sizeof said - 1) > 1) {
        memcpy(t->target, said + 1, sizeof t->target);
        t->is_modelled = said[0] == 'm';
    }
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
}

static int run_tune(const struct invocation *call) {
    const char *timeout = cli_option(call, "timeout");
    if (!call->operand_count)
        return cli_usage(call, "needs a .tile file");
    struct tuning t = {.call = call,
                       .text = cli_read_all(call->operands[0]),
                       .timeout = timeout ? strtod(timeout, NULL) : 30};
    cli_catch_interrupts();
    query_target(&t);
    int code = !t.text          ? cli_fail(call, "cannot read %s: %s", call->operands[0], strerror(errno))
               : t.timeout <= 0 ? cli_usage(call, "--timeout takes seconds, not '%s'", timeout)
                                : tune(&t);
    free(t.text);
    free(t.row);
    return code;
}

static const struct option options[] = {
    {"param", 0, "NAME=N,N,...", NULL, "values to try, also of types and ops: BM=64,128,ITEM=f16,f32"},
    {"size", 0, "NAME=N,...", NULL, "the sizes that the kernel names"},
    CLI_TARGET_OPTION,
    {"timeout", 0, "SECONDS", NULL, "that a configuration may take to compile, and to run (default 30)"},
    {"again", 0, NULL, NULL, "measure anew what was measured before"},
    {0},
};

const struct command cli_kernel_tune = {
    .name = "kernel tune",
    .operands = "FILE.tile",
    .words = "*.tile",
    .summary = "Find the fastest values of a tile kernel's params",
    .details = "Every combination of the values is compiled and timed; one that does not compile or run is a "
               "row with its reason.\n"
               "Rows are kept on disk beside the compiled kernels.\n"
               "  zellige kernel tune gemm.tile --param BM=64,128,BN=64,128 --size M=1024,N=1024,K=1024",
    .operands_most = 1,
    .options = options,
    .run = run_tune,
};
