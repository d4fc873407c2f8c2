// processes.c - runs processes in parallel, prints their output line by line, and stops all of them when one
// fails.

#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_LONGEST = 1 << 16, GRACE_MS = 5000, TICK_MS = 100 };

// After SIGTERM or SIGUSR1 ranks have SAVE_MS milliseconds to write a checkpoint; their exit code is then
// STOPPED (EX_TEMPFAIL).
enum { SAVE_MS = 60000, STOPPED = 75 };

struct stream {
    int from; // -1: at its end
    FILE *to;
    char *line;
    size_t len;
};

struct child {
    pid_t id; // 0: it has ended
    int input;
    struct stream stream[2];
};

static volatile sig_atomic_t stopped_by;

static volatile sig_atomic_t warned; // SIGUSR1 has arrived, which is passed on to the ranks

static void stop(int signal_number) {
    stopped_by = signal_number;
}

static void warn(int signal_number) {
    (void)signal_number;
    warned = 1;
}

// Output ----------------------------------------------------------------------------------------------------

static void write_line(struct stream *s, int rank, bool plain) {
    if (!plain)
        fprintf(s->to, "[%d] ", rank);
    fwrite(s->line, 1, s->len, s->to);
    if (!s->len || s->line[s->len - 1] != '\n')
        fputc('\n', s->to);
    fflush(s->to);
    s->len = 0;
}

// Writes complete lines; a line longer than LINE_LONGEST is split.
static void take(struct stream *s, int rank, bool plain, const char *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        s->line[s->len++] = data[i];
        if (data[i] == '\n' || s->len == LINE_LONGEST)
            write_line(s, rank, plain);
    }
}

static void drain(struct stream *s, int rank, bool plain) {
    char data[4096];
    ssize_t n = read(s->from, data, sizeof data);
    if (n > 0) {
        take(s, rank, plain, data, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        if (s->len)
            write_line(s, rank, plain);
        close(s->from);
        s->from = -1;
    }
}

// Starting --------------------------------------------------------------------------------------------------

static void become(const struct launch_process *p, const int *out, const int *error, const int *in) {
    setpgid(0, 0); // a group of its own, so that all it starts can be ended with it
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(error[1], 2);
    for (int fd = 3; fd < 4096; fd++)
        close(fd);
    for (char *const *v = p->variable; v && *v; v++)
        putenv(*v);
    if (p->folder && chdir(p->folder)) {
        fprintf(stderr, "zellige launch: %s: %s\n", p->folder, strerror(errno));
        _exit(127);
    }
    execvp(p->argv[0], p->argv);
    fprintf(stderr, "zellige launch: '%s' cannot be run: %s\n", p->argv[0], strerror(errno));
    _exit(127);
}

static bool start(struct child *c, const struct launch_process *p) {
    int out[2] = {-1, -1}, error[2] = {-1, -1}, in[2] = {-1, -1};
    c->input = c->stream[0].from = c->stream[1].from = -1;
    c->stream[0].to = stdout;
    c->stream[1].to = stderr;
    for (int i = 0; i < 2; i++)
        if (!(c->stream[i].line = malloc(LINE_LONGEST)))
            return false;
    if (pipe2(out, O_CLOEXEC) || pipe2(error, O_CLOEXEC) || pipe2(in, O_CLOEXEC))
        return false;
    fflush(NULL);
    c->id = fork();
    if (c->id == 0)
        become(p, out, error, in);
    close(out[1]);
    close(error[1]);
    close(in[0]);
    if (c->id < 0) {
        c->id = 0;
        return false;
    }
    setpgid(c->id, c->id);
    c->stream[0].from = out[0];
    c->stream[1].from = error[0];
    c->input = in[1];
    size_t bytes = p->input ? strlen(p->input) : 0;
    for (size_t at = 0; at < bytes;) {
        ssize_t n = write(c->input, p->input + at, bytes - at);
        if (n < 0 && errno != EINTR)
            break; // the child has ended, which reap notices
        at += n > 0 ? (size_t)n : 0;
    }
    if (!p->input) {
        close(c->input);
        c->input = -1;
    } else {
        fcntl(c->input, F_SETFL, O_NONBLOCK); // signals are not waited for
    }
    return true;
}

// Running ---------------------------------------------------------------------------------------------------

// Sends SIGTERM or SIGUSR1 to all ranks. Those on other machines get it from their script, since ssh itself
// would end without passing it on.
static void signal_all(const struct child *c, int count, int signal_number) {
    const char *line = signal_number == SIGTERM ? "TERM\n" : "USR1\n";
    for (int i = 0; i < count; i++)
        if (c[i].id && c[i].input < 0)
            kill(-c[i].id, signal_number);
        else if (c[i].id)
            (void)!write(c[i].input, line, strlen(line)); // a rank that does not read it is killed later
}

static void close_input(struct child *c) {
    if (c->input >= 0)
        close(c->input); // ends what it started on another machine
    c->input = -1;
}

static void kill_all(struct child *c, int count) {
    for (int i = 0; i < count; i++)
        if (c[i].id) {
            kill(-c[i].id, SIGKILL);
            close_input(&c[i]);
        }
}

static int code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Reaps the children that have ended and returns how many still run. The first that fails sets *code to its
// exit code and *rank to its rank.
static int reap(struct child *c, int count, int *code, int *rank) {
    int left = 0, status;
    for (int i = 0; i < count; i++) {
        if (c[i].id && waitpid(c[i].id, &status, WNOHANG) == c[i].id) {
            kill(-c[i].id, SIGTERM); // ends what the child left running
            close_input(&c[i]);
            c[i].id = 0;
            if (*rank < 0 && code_of(status)) {
                *code = code_of(status);
                *rank = i;
            }
        }
        left += c[i].id != 0;
    }
    return left;
}

static int read_some(struct child *c, int count, bool plain, struct pollfd *p) {
    int open = 0;
    for (int i = 0; i < 2 * count; i++)
        p[i] = (struct pollfd){c[i / 2].stream[i % 2].from, POLLIN, 0};
    poll(p, (nfds_t)(2 * count), TICK_MS);
    for (int i = 0; i < 2 * count; i++) {
        struct stream *s = &c[i / 2].stream[i % 2];
        if (s->from >= 0 && p[i].revents)
            drain(s, i / 2, plain);
        open += s->from >= 0;
    }
    return open;
}

static int follow(struct child *c, int count, bool plain, struct pollfd *p) {
    int code = 0, rank = -1, left = count;
    int64_t ended = 0;
    for (int open = 1; left || (open && now_ms() < ended + GRACE_MS);) {
        open = read_some(c, count, plain, p);
        left = reap(c, count, &code, &rank);
        if (!left && !ended)
            ended = now_ms();
        bool fails = rank >= 0 || stopped_by;
        int grace = stopped_by == SIGTERM || code == STOPPED ? SAVE_MS : GRACE_MS;
        if (warned)
            signal_all(c, count, SIGUSR1);
        warned = 0;
        if (fails && left && !ended) {
            if (rank >= 0 && left < count && code != STOPPED)
                fprintf(stderr, "zellige launch: rank %d ended with code %d: the others are ended\n", rank,
                        code);
            signal_all(c, count, SIGTERM);
            ended = now_ms();
        } else if (fails && left && now_ms() > ended + grace) {
            kill_all(c, count);
        }
    }
    return rank >= 0 && (!stopped_by || code == STOPPED) ? code : stopped_by ? 128 + (int)stopped_by : 0;
}

int launch_run(const struct launch_process *process, int count, bool plain) {
    struct child *c = calloc((size_t)count, sizeof *c);
    struct pollfd *p = calloc((size_t)count * 2, sizeof *p);
    bool ok = c && p;
    signal(SIGPIPE, SIG_IGN);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup;
    if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN) // as under nohup
        sigaction(SIGHUP, &action, NULL);
    action.sa_handler = warn;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; ok && i < count; i++)
        ok = start(&c[i], &process[i]);
    if (!ok)
        fprintf(stderr, "zellige launch: not all processes could be started: %s\n", strerror(errno));
    if (!ok && c)
        kill_all(c, count);
    int code = ok ? follow(c, count, plain, p) : CLI_FAILED;
    for (int i = 0; c && i < count; i++)
        for (int k = 0; k < 2; k++)
            free(c[i].stream[k].line);
    free(c);
    free(p);
    return code;
}
