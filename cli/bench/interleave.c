// interleave.c - two programs measure the same suite in turns, so that a machine that is slow for a while
// slows both. Each is a `zellige bench serve`: it reads a configuration and answers with the seconds of one
// sample, one line each.

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { ROUNDS = 31, ROUNDS_MOST = 4 * ROUNDS };

struct server {
    pid_t process;
    FILE *to, *from;
};

static bool start_server(struct server *s, const char *program, const char *device) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        return false;
    s->process = fork();
    if (s->process == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(to[0], STDIN_FILENO), dup2(from[1], STDOUT_FILENO);
        execl(program, program, "bench", "serve", "--device", device, (char *)NULL);
        _exit(127);
    }
    close(to[0]), close(from[1]);
    s->to = fdopen(to[1], "w");
    s->from = fdopen(from[0], "r");
    return s->process > 0 && s->to && s->from;
}

static void stop_server(struct server *s) {
    if (s->to)
        fclose(s->to);
    if (s->from)
        fclose(s->from);
    if (s->process > 0)
        waitpid(s->process, NULL, 0);
}

// Sends "work op dtype dims..." and returns the seconds of one sample; negative after an error, with the
// message in `why`.
static double request(struct server *s, const struct bench_config *c, char *why, size_t bytes) {
    char line[512];
    if (cli_interrupted()) {
        snprintf(why, bytes, "interrupted");
        return -1;
    }
    fprintf(s->to, "%s %s %s %d", c->work, c->op[0] ? c->op : "-", bench_dtype_name(c->dtype), c->dims);
    for (int i = 0; i < c->dims; i++)
        fprintf(s->to, " %lld", (long long)c->dim[i]);
    fputc('\n', s->to);
    if (fflush(s->to) || !fgets(line, sizeof line, s->from)) {
        snprintf(why, bytes, "the program that is compared ended");
        return -1;
    }
    char *end;
    double seconds = strtod(line, &end);
    if (end != line)
        return seconds;
    snprintf(why, bytes, "%.*s", (int)strcspn(line, "\n"), line);
    return -1;
}

// Takes pairs of samples from round `from` on, with the order reversed in every second pair. Returns
// BENCH_AMBIGUOUS, or after an error, with the message in `why`, the verdict that follows from it.
static enum bench_verdict take_pairs(struct server server[2], const struct bench_config *config, int from,
                                     double *sample[2], char *why, size_t bytes) {
    for (int round = from ? from : -1; round < from + ROUNDS; round++) // the very first round only warms up
        for (int turn = 0; turn < 2; turn++) {
            int which = turn ^ (round > 0 && round % 2); // the baseline first, in case both fail
            double seconds = request(&server[which], config, why, bytes);
            if (seconds < 0)
                return which ? BENCH_BROKEN : BENCH_INCOMPARABLE;
            if (round >= 0)
                sample[which][round] = seconds;
        }
    return BENCH_AMBIGUOUS;
}

// Measures as many rounds as the verdict needs.
static struct bench_comparison compare_config(struct server server[2], const struct bench_config *config,
                                              double threshold) {
    struct bench_comparison c = {.verdict = BENCH_AMBIGUOUS};
    double *sample[2] = {malloc(ROUNDS_MOST * sizeof(double)), malloc(ROUNDS_MOST * sizeof(double))};
    int count = 0;
    for (; sample[0] && sample[1] && count < ROUNDS_MOST && c.verdict == BENCH_AMBIGUOUS; count += ROUNDS) {
        c.verdict = take_pairs(server, config, count, sample, c.why, sizeof c.why);
        if (c.verdict != BENCH_AMBIGUOUS) {
            c.ratio = c.low = c.high = NAN;
            break;
        }
        c = bench_compare_samples(sample[0], count + ROUNDS, sample[1], count + ROUNDS, threshold, true);
    }
    c.sample[0] = sample[0], c.sample[1] = sample[1], c.samples = count;
    snprintf(c.id, sizeof c.id, "%s", config->id);
    return c;
}

bool bench_interleave(struct bench_comparisons *list, const struct bench_suite *suite, const char *device,
                      const char *program, const char *only, double threshold, char *error,
                      size_t error_bytes) {
    struct server server[2] = {{0}};
    double started = bench_now();
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); // if a program ends, its rows get a message instead of a
                                                    // signal
    bool done = !access(program, X_OK) && start_server(&server[0], program, device) &&
                start_server(&server[1], "/proc/self/exe", device);
    list->in_turns = true;
    if (!done)
        snprintf(error, error_bytes, "cannot run %s: %s", program, strerror(errno));
    for (int i = 0; done && i < suite->count && !cli_interrupted(); i++) {
        if (only && !strstr(suite->config[i].id, only))
            continue;
        bench_progress(i, suite->count, started, suite->config[i].id);
        struct bench_comparison c = compare_config(server, &suite->config[i], threshold);
        if (!cli_interrupted() && bench_comparisons_add(list, c))
            continue;
        done = cli_interrupted();
        snprintf(error, error_bytes, "out of memory");
        bench_comparison_free(&c);
    }
    bench_progress(0, 0, 0, NULL);
    stop_server(&server[0]);
    stop_server(&server[1]);
    signal(SIGPIPE, before);
    return done;
}
