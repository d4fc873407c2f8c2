// program.c - runs other programs, for their exit code and output; quotes words for shells; makes random
// tokens.

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 4096 };

static void become(const char *const *argv, int out) {
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    if (out >= 0) {
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        close(out);
    }
    execvp(argv[0], (char *const *)(uintptr_t)argv); // execvp does not change the words
    _exit(CLI_NOT_FOUND);
}

// Returns everything that can be read, NUL-terminated; NULL if memory runs out.
static char *collect(int from) {
    char data[READ_BYTES], *text = NULL;
    size_t bytes;
    ssize_t n;
    FILE *f = open_memstream(&text, &bytes);
    while (f && ((n = read(from, data, sizeof data)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            fwrite(data, 1, (size_t)n, f);
    return f && fclose(f) == 0 ? text : NULL;
}

static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return CLI_NOT_FOUND;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int cli_run_program(const char *const *argv, char **output) {
    int pipe_ends[2] = {-1, -1}, code = CLI_NOT_FOUND;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    if (output)
        *output = NULL;
    if (output && pipe2(pipe_ends, O_CLOEXEC))
        return CLI_NOT_FOUND;
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        become(argv, pipe_ends[1]);
    if (output) {
        close(pipe_ends[1]);
        *output = collect(pipe_ends[0]);
        close(pipe_ends[0]);
    }
    if (child > 0)
        code = wait_for(child);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    return code;
}

void cli_put_quoted(FILE *out, const char *word) {
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

bool cli_make_token(char *out) {
    unsigned char random[CLI_TOKEN_DIGITS / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(out + 2 * i, 3, "%02x", random[i]);
    return true;
}
