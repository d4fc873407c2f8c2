// history.c - runs/index.jsonl: one line per finished run, by which earlier runs of the same kind are found.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

bool bench_history_add(const struct bench_run *run, const char *root) {
    char path[512];
    snprintf(path, sizeof path, "%s/index.jsonl", root);
    FILE *out = bench_append(path);
    if (!out)
        return false;
    const char *name = strrchr(run->folder, '/');
    cli_json_to(out, true);
    cli_json_open(NULL, '{');
    cli_json_text("folder", name ? name + 1 : run->folder);
    cli_json_text("started", run->started);
    cli_json_text("suite", run->suite);
    cli_json_text("status", run->status);
    cli_json_text("chip", run->subject.chip);
    cli_json_text("name", run->subject.name);
    cli_json_text("device", run->subject.device);
    cli_json_int("threads", run->subject.threads);
    cli_json_bool("is_modelled", run->subject.is_modelled);
    cli_json_text("commit", run->commit);
    cli_json_close();
    cli_json_to(NULL, false);
    return !fclose(out);
}

static bool is_same_kind(const struct bench_run *run, text_json_value line) {
    const struct bench_subject *s = &run->subject;
    return !strcmp(text_json_text_of(line, "status"), "complete") &&
           !strcmp(text_json_text_of(line, "suite"), run->suite) &&
           !strcmp(text_json_text_of(line, "name"), s->name) &&
           !strcmp(text_json_text_of(line, "device"), s->device) &&
           text_json_true(text_json_get(line, "is_modelled")) == s->is_modelled &&
           text_json_number_of(line, "threads") == s->threads;
}

// Returns whether a name can be that of a run's folder: one next to the index, not a path that leads
// elsewhere.
static bool is_folder_name(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

int bench_history_find(const struct bench_run *run, const char *root, char ***folders) {
    char path[512], error[256], *rest, *line;
    int count = 0;
    *folders = NULL;
    snprintf(path, sizeof path, "%s/index.jsonl", root);
    char *text = rest = access(path, R_OK) ? NULL : cli_read_all(path);
    while (text && (line = strsep(&rest, "\n"))) {
        text_json_value object =
            line[0] ? text_json_parse(line, strlen(line), path, error, sizeof error) : NULL;
        snprintf(path, sizeof path, "%.300s/%.200s", root, text_json_text_of(object, "folder"));
        bool wanted = object && is_folder_name(text_json_text_of(object, "folder")) &&
                      is_same_kind(run, object) && strcmp(path, run->folder) != 0;
        for (int i = 0; i < count && wanted; i++)
            wanted = strcmp(path, (*folders)[i]) != 0; // a run that was resumed has several lines
        char **more = wanted ? realloc(*folders, (size_t)(count + 1) * sizeof *more) : NULL;
        if (more) {
            *folders = more;
            count += (more[count] = strdup(path)) != NULL;
        }
        text_json_free(object);
    }
    free(text);
    return count;
}

void bench_history_free(char **folders, int count) {
    for (int i = 0; i < count; i++)
        free(folders[i]);
    free(folders);
}
