// process.c - runs programs without a shell and with a time limit, and keeps their output for messages.

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 60000, MESSAGE_MOST = 4000 };

// Starts a process in a process group of its own, so that its descendants can be stopped with it. Its output
// and errors go to the pipe.
static int start(char *const *word, int output, pid_t *child) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&how);
    if (!failed) {
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&how, 0);
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
        failed = posix_spawnp(child, word[0], &files, &how, word, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

// Reads until the pipe closes. Returns false if the time is up.
static bool read_output(int from, struct text *out) {
    int64_t end = clock_ns() + LIMIT_MS * INT64_C(1000000);
    struct pollfd wait = {.fd = from, .events = POLLIN};
    for (;;) {
        int64_t left = (end - clock_ns()) / 1000000;
        int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        char data[1024];
        ssize_t got = read(from, data, sizeof data);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return true;
        if (got > 0 && out->len < MESSAGE_MOST)
            text_bytes(out, data, (int)got);
    }
}

static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0; // another waiter reaped it; its output files show whether it worked
    return status;
}

static bool has_ended_well(const char *program, int status, bool in_time, const struct text *output) {
    if (!in_time)
        return error_false(ZL_ERROR_COMPILE, "%s took longer than %d s and was stopped", program,
                           LIMIT_MS / 1000);
    if (status == 0)
        return true;
    const char *text = output->data ? output->data : "";
    if (WIFSIGNALED(status))
        return error_false(ZL_ERROR_COMPILE, "%s was ended by signal %d:\n%s", program, WTERMSIG(status),
                           text);
    return error_false(ZL_ERROR_COMPILE, "%s failed with status %d:\n%s", program, WEXITSTATUS(status), text);
}

enum process_end process_run(char *const *word, struct text *output, int *reason) {
    int ends[2];
    pid_t child;
    if (pipe2(ends, O_CLOEXEC))
        return error_set(ZL_ERROR_COMPILE, "%s: no pipe: %m", word[0]), PROCESS_FAILED;
    *reason = start(word, ends[1], &child);
    close(ends[1]);
    bool in_time = *reason || read_output(ends[0], output);
    close(ends[0]);
    if (*reason)
        return PROCESS_NOT_STARTED;
    if (!in_time)
        kill(-child, SIGKILL);
    int status = wait_for(child);
    if (in_time && WIFEXITED(status) &&
        WEXITSTATUS(status) == 127) // how a child reports that the program does not exist
        return *reason = ENOENT, PROCESS_NOT_STARTED;
    return has_ended_well(word[0], status, in_time, output) ? PROCESS_DONE : PROCESS_FAILED;
}

bool process_compile(const char *who, const struct text *source, const char *file, const char *result,
                     bool (*run)(const char *from, const char *to), struct text *code) {
    char folder[] = "/tmp/zellige-XXXXXX", from[64], to[64];
    size_t bytes = 0;
    if (!mkdtemp(folder))
        return error_false(ZL_ERROR_IO, "%s: no folder to compile in: %s", who, strerror(errno));
    snprintf(from, sizeof from, "%s/%s", folder, file);
    snprintf(to, sizeof to, "%s/%s", folder, result);
    bool done = file_write(from, source->data, (size_t)source->len) && run(from, to);
    char *data = done ? file_read(to, &bytes) : NULL;
    if (data)
        text_bytes(code, data, (int)bytes);
    memory_free(data);
    unlink(from);
    unlink(to);
    rmdir(folder);
    return data;
}
