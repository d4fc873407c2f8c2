// run_folder.c - runs/YYYYmmdd-HHMMSS/: metrics.json, the journal, the log, reports. Files are written under
// another name and renamed; a line of the journal is on the disk before the next configuration starts.

#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

// Creates a folder, and those above it.
static bool make_folders(const char *path) {
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            if (mkdir(part, 0777) && errno != EEXIST)
                return false;
            *at = '/';
        }
    return !mkdir(part, 0777) || errno == EEXIST;
}

// A second run in the same second gets a letter after the time.
bool bench_folder_new(struct bench_run *run, const char *root, char *error, size_t error_bytes) {
    time_t now = time(NULL);
    struct tm utc;
    char name[32];
    gmtime_r(&now, &utc);
    strftime(name, sizeof name, "%Y%m%d-%H%M%S", &utc);
    strftime(run->started, sizeof run->started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    bool done = make_folders(root);
    for (char letter = 'a' - 1; done && letter <= 'z'; letter++) {
        snprintf(run->folder, sizeof run->folder, "%.200s/%s%.*s", root, name, letter >= 'a', &letter);
        if (!mkdir(run->folder, 0777))
            return true;
        done = errno == EEXIST;
    }
    snprintf(error, error_bytes, "cannot make a folder in %s: %s", root, strerror(errno));
    return false;
}

bool bench_folder_write(const struct bench_run *run, const char *name,
                        void (*write)(FILE *out, const struct bench_run *run)) {
    char path[512], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", run->folder, name);
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return false;
    write(out, run);
    bool done = !ferror(out);
    zl_clear_error(); // an error of a row is in its note
    done = !fclose(out) && done && zl_write_file(path, text, bytes);
    free(text);
    return done;
}

// Opens a file for appending. If its last line was cut short, by kill -9 or a full disk, a new line is begun.
FILE *bench_append(const char *path) {
    FILE *out = fopen(path, "a+");
    bool is_cut = out && !fseek(out, -1, SEEK_END) && getc(out) != '\n';
    if (out && !fseek(out, 0, SEEK_END) && is_cut)
        putc('\n', out);
    return out;
}

void bench_log(const struct bench_run *run, const char *format, ...) {
    char path[512], now[32];
    time_t seconds = time(NULL);
    struct tm utc;
    snprintf(path, sizeof path, "%s/log.txt", run->folder);
    FILE *out = fopen(path, "a");
    if (!out)
        return;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    fprintf(out, "%s ", now);
    va_list list;
    va_start(list, format);
    vfprintf(out, format, list);
    va_end(list);
    putc('\n', out);
    fclose(out);
}

// Source ----------------------------------------------------------------------------------------------------

// Writes the lines that a command prints, each from character `from` on, with commas between them, as far as
// there is room. Returns the number of lines.
static int lines_of(const char *command, int from, char *out, size_t bytes) {
    char line[512];
    int lines = 0;
    size_t used = 0;
    FILE *pipe = popen(command, "r");
    out[0] = 0;
    while (pipe && fgets(line, sizeof line, pipe)) {
        int len = (int)strcspn(line, "\n");
        lines++;
        if (len > from && used + (size_t)(len - from) + 3 < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%.*s", used ? ", " : "", len - from,
                                     line + from);
    }
    if (pipe)
        pclose(pipe);
    return lines;
}

void bench_describe_source(struct bench_run *run) {
    lines_of("git rev-parse HEAD 2>/dev/null", 0, run->commit, sizeof run->commit);
    lines_of("git rev-parse --abbrev-ref HEAD 2>/dev/null", 0, run->branch, sizeof run->branch);
    run->dirty = lines_of("git status --porcelain --untracked-files=no 2>/dev/null", 3, run->changed,
                          sizeof run->changed);
    gethostname(run->host, sizeof run->host - 1);
    snprintf(run->version, sizeof run->version, "%s", zl_version());
}

// Journal ---------------------------------------------------------------------------------------------------

bool bench_journal_add(const struct bench_run *run, const struct bench_row *row) {
    char path[512];
    snprintf(path, sizeof path, "%s/journal.jsonl", run->folder);
    FILE *out = bench_append(path);
    if (!out)
        return false;
    bench_write_row(out, row);
    bool done = !fflush(out) && !fsync(fileno(out));
    return !fclose(out) && done;
}

// Ignores a last line that was cut short.
int bench_journal_read(struct bench_run *run) {
    char path[512], error[256], *rest, *line;
    snprintf(path, sizeof path, "%s/journal.jsonl", run->folder);
    char *text = rest = access(path, R_OK) ? NULL : cli_read_all(path);
    if (!text)
        return -1;
    while ((line = strsep(&rest, "\n"))) {
        text_json_value object =
            line[0] ? text_json_parse(line, strlen(line), path, error, sizeof error) : NULL;
        struct bench_row row;
        if (object && bench_read_row(&row, object)) {
            struct bench_row *kept = bench_run_add(run);
            if (kept)
                *kept = row;
            else
                free(row.second);
        }
        text_json_free(object);
    }
    free(text);
    return run->rows;
}
