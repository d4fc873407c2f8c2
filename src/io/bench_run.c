// bench_run.c - zellige_bench.h: reads the run folders of `zellige bench`. Tables map members of the JSON to
// fields of structs; other members are skipped, so that files of later versions can be read.

#include "zellige_bench.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "io/io.h"

struct peak {
    char *dtype;
    double rate;
};

struct zl_run_ {
    struct arena arena;
    const char *suite, *status, *started, *host, *version, *commit, *branch, *command, *notes, *baseline,
        *evidence;
    const char *chip, *name, *device;
    double bandwidth, threads;
    struct peak *peak;
    int peaks, peak_cap;
    zl_run_row *row;
    int rows, row_cap;
    bool has_rows; // the list exists; it may be empty
};

struct zl_history_ {
    struct arena arena;
    zl_history_run *run;
    int runs, run_cap;
};

// Members as fields of a struct -----------------------------------------------------------------------------

enum field_type { TEXT, NUMBER, INTEGER, FLAG };

struct field {
    const char *name;
    enum field_type type;
    size_t at; // offset in the struct
};

static bool read_text(struct json *j, struct arena *arena, const char **out) {
    struct text text = {0};
    bool done = json_is_null(j) || json_text(j, &text);
    if (done)
        *out = arena_text(arena, "%s", text.data ? text.data : "");
    text_free(&text);
    return done && *out;
}

static bool read_whole(struct json *j, int *out) {
    double number;
    bool done = json_number(j, &number);
    *out = done && fabs(number) <= INT32_MAX ? (int)number : 0;
    return done;
}

static bool read_field(struct json *j, struct arena *arena, const struct field *field, void *into) {
    void *place = (char *)into + field->at;
    switch (field->type) {
    case TEXT: return read_text(j, arena, place);
    case NUMBER: return json_number(j, place);
    case INTEGER: return read_whole(j, place);
    case FLAG: break;
    }
    return json_flag(j, place);
}

// Reads the value of a member into its field, or skips it if there is no such field.
static bool read_member(struct json *j, struct arena *arena, const struct field *fields, const char *name,
                        void *into) {
    for (; fields->name; fields++)
        if (!strcmp(fields->name, name))
            return read_field(j, arena, fields, into);
    return json_skip(j);
}

// Sets all fields to their values for a missing member: "" or NaN.
static void clear(const struct field *fields, void *into) {
    for (; fields->name; fields++) {
        void *place = (char *)into + fields->at;
        if (fields->type == TEXT)
            *(const char **)place = "";
        else if (fields->type == NUMBER)
            *(double *)place = NAN;
    }
}

// Rows ------------------------------------------------------------------------------------------------------

#define ROW(type, json_name, member) \
    { json_name, type, offsetof(zl_run_row, member) }
static const struct field row_fields[] = {
    ROW(TEXT, "id", id),
    ROW(TEXT, "work", work),
    ROW(TEXT, "op", op),
    ROW(TEXT, "dtype", dtype),
    ROW(TEXT, "status", status),
    ROW(TEXT, "note", note),
    ROW(TEXT, "unit", unit),
    ROW(TEXT, "path", path),
    ROW(NUMBER, "median_s", median),
    ROW(NUMBER, "low_s", low),
    ROW(NUMBER, "high_s", high),
    ROW(NUMBER, "mad_s", mad),
    ROW(NUMBER, "p5_s", p5),
    ROW(NUMBER, "p95_s", p95),
    ROW(NUMBER, "best_s", best),
    ROW(NUMBER, "rate", rate),
    ROW(NUMBER, "peak", peak),
    ROW(NUMBER, "limit", limit),
    ROW(NUMBER, "flops", flops),
    ROW(NUMBER, "bytes", bytes),
    ROW(NUMBER, "items", items),
    ROW(NUMBER, "steal", steal),
    ROW(NUMBER, "load", load),
    ROW(NUMBER, "utilisation", utilisation),
    ROW(FLAG, "stable", stable),
    ROW(FLAG, "bimodal", bimodal),
    ROW(FLAG, "memory_bound", memory_bound),
    ROW(INTEGER, "outliers", outliers),
    {0},
};

struct numbers {
    double *value;
    int count, cap;
};

static bool add_number(struct json *j, void *context) {
    struct numbers *list = context;
    return memory_grow(&list->value, &list->cap, list->count + 1, sizeof *list->value) &&
           json_number(j, &list->value[list->count++]);
}

static bool read_samples(struct json *j, struct arena *arena, zl_run_row *row) {
    struct numbers list = {0};
    bool done = json_list(j, add_number, &list);
    double *kept = done ? arena_alloc(arena, (size_t)list.count * sizeof *kept + 1) : NULL;
    if (kept) {
        if (list.count)
            memcpy(kept, list.value, (size_t)list.count * sizeof *kept);
        row->samples = kept;
        row->sample_count = list.count;
    }
    memory_free(list.value);
    return kept;
}

static bool add_size(struct json *j, void *context) {
    zl_run_row *row = context;
    double size;
    if (!json_number(j, &size))
        return false;
    if (row->size_count < 4)
        row->size[row->size_count++] = fabs(size) < 0x1p62 ? (int64_t)size : 0;
    return true;
}

struct place { // the row that is being read
    struct arena *arena;
    zl_run_row *row;
};

static bool read_row_member(struct json *j, const char *name, int len, void *context) {
    struct place *place = context;
    (void)len;
    if (!strcmp(name, "samples_s"))
        return read_samples(j, place->arena, place->row);
    if (!strcmp(name, "size"))
        return json_list(j, add_size, place->row);
    return read_member(j, place->arena, row_fields, name, place->row);
}

static bool add_row(struct json *j, void *context) {
    zl_run run = context;
    if (!memory_grow(&run->row, &run->row_cap, run->rows + 1, sizeof *run->row))
        return false;
    zl_run_row *row = &run->row[run->rows++];
    *row = (zl_run_row){0};
    clear(row_fields, row);
    return json_object(j, read_row_member, &(struct place){&run->arena, row});
}

// Runs ------------------------------------------------------------------------------------------------------

#define RUN(type, member) \
    { #member, type, offsetof(struct zl_run_, member) }
static const struct field run_fields[] = {
    RUN(TEXT, suite),   RUN(TEXT, status),   RUN(TEXT, started),  RUN(TEXT, host),
    RUN(TEXT, version), RUN(TEXT, commit),   RUN(TEXT, branch),   RUN(TEXT, command),
    RUN(TEXT, notes),   RUN(TEXT, baseline), RUN(TEXT, evidence), {0},
};
static const struct field subject_fields[] = {
    RUN(TEXT, chip), RUN(TEXT, name), RUN(TEXT, device), RUN(NUMBER, bandwidth), RUN(NUMBER, threads), {0},
};
static const struct field peak_fields[] = {{"rate", NUMBER, offsetof(struct peak, rate)}, {0}};

static bool read_peak_member(struct json *j, const char *name, int len, void *context) {
    (void)len;
    return read_member(j, NULL, peak_fields, name, context);
}

static bool read_peak(struct json *j, const char *name, int len, void *context) {
    zl_run run = context;
    (void)len;
    if (!memory_grow(&run->peak, &run->peak_cap, run->peaks + 1, sizeof *run->peak))
        return false;
    struct peak *peak = &run->peak[run->peaks++];
    *peak = (struct peak){arena_text(&run->arena, "%s", name), NAN};
    return peak->dtype && json_object(j, read_peak_member, peak);
}

static bool read_subject_member(struct json *j, const char *name, int len, void *context) {
    zl_run run = context;
    (void)len;
    return !strcmp(name, "peaks") ? json_object(j, read_peak, run)
                                  : read_member(j, &run->arena, subject_fields, name, run);
}

static bool read_run_member(struct json *j, const char *name, int len, void *context) {
    zl_run run = context;
    (void)len;
    if (!strcmp(name, "rows")) {
        run->has_rows = true;
        return json_list(j, add_row, run);
    }
    return !strcmp(name, "subject") ? json_object(j, read_subject_member, run)
                                    : read_member(j, &run->arena, run_fields, name, run);
}

static struct json json_of(struct blob *b) {
    return (struct json){.in = {.blob = b}, .end = b->bytes};
}

static struct blob *open_metrics(const char *path) {
    struct stat info;
    struct text file = {0};
    if (!path)
        return error_set(ZL_ERROR_VALUE, "zl_run_open: the path is NULL");
    bool is_folder = !stat(path, &info) && S_ISDIR(info.st_mode);
    text_add(&file, "%s%s", path, is_folder ? "/metrics.json" : "");
    struct blob *b = file.failed ? NULL : blob_open("zl_run_open", file.data, false);
    text_free(&file);
    return b;
}

zl_run zl_run_open(const char *path) {
    struct blob *b = open_metrics(path);
    zl_run run = b ? memory_zero(sizeof *run) : NULL;
    if (run) {
        struct json j = json_of(b);
        clear(run_fields, run);
        clear(subject_fields, run);
        bool done = json_object(&j, read_run_member, run);
        if (done && !run->has_rows)
            done = blob_false(b, "it has no list 'rows': is it the metrics.json of a run?");
        if (!done) {
            zl_run_close(run);
            run = NULL;
        }
    }
    blob_release(b);
    return run;
}

void zl_run_close(zl_run run) {
    if (!run)
        return;
    arena_free(&run->arena);
    memory_free(run->peak);
    memory_free(run->row);
    memory_free(run);
}

static const char *text_in(const struct field *fields, zl_run run, const char *key) {
    for (; fields->name; fields++)
        if (fields->type == TEXT && !strcmp(fields->name, key))
            return *(const char *const *)((const char *)run + fields->at);
    return NULL;
}

const char *zl_run_text(zl_run run, const char *key) {
    const char *found = run && key ? text_in(run_fields, run, key) : NULL;
    if (!found && run && key)
        found = text_in(subject_fields, run, key);
    return found ? found : "";
}

double zl_run_peak(zl_run run, const char *dtype) {
    for (int i = 0; run && dtype && i < run->peaks; i++)
        if (!strcmp(run->peak[i].dtype, dtype))
            return run->peak[i].rate;
    return NAN;
}

double zl_run_bandwidth(zl_run run) {
    return run ? run->bandwidth : (double)NAN;
}

int zl_run_threads(zl_run run) {
    return run && run->threads > 0 && run->threads < INT32_MAX ? (int)run->threads : 0;
}

int zl_run_rows(zl_run run) {
    return run ? run->rows : 0;
}

bool zl_run_row_at(zl_run run, int index, zl_run_row *out) {
    if (!run || index < 0 || index >= run->rows)
        return false;
    *out = run->row[index];
    return true;
}

bool zl_run_row_find(zl_run run, const char *id, zl_run_row *out) {
    for (int i = 0; run && id && i < run->rows; i++)
        if (!strcmp(run->row[i].id, id))
            return zl_run_row_at(run, i, out);
    return false;
}

// History ---------------------------------------------------------------------------------------------------

#define ENTRY(type, json_name, member) \
    { json_name, type, offsetof(zl_history_run, member) }
static const struct field entry_fields[] = {
    ENTRY(TEXT, "folder", path),        ENTRY(TEXT, "started", started),
    ENTRY(TEXT, "suite", suite),        ENTRY(TEXT, "status", status),
    ENTRY(TEXT, "chip", chip),          ENTRY(TEXT, "name", name),
    ENTRY(TEXT, "device", device),      ENTRY(TEXT, "commit", commit),
    ENTRY(INTEGER, "threads", threads), {0},
};

struct entry_place {
    struct arena *arena;
    zl_history_run *run;
};

static bool read_entry_member(struct json *j, const char *name, int len, void *context) {
    struct entry_place *place = context;
    (void)len;
    return read_member(j, place->arena, entry_fields, name, place->run);
}

static bool add_entry(struct json *j, zl_history history, const char *root) {
    if (!memory_grow(&history->run, &history->run_cap, history->runs + 1, sizeof *history->run))
        return false;
    zl_history_run *run = &history->run[history->runs++];
    *run = (zl_history_run){0};
    clear(entry_fields, run);
    if (!json_object(j, read_entry_member, &(struct entry_place){&history->arena, run}))
        return false;
    run->path = arena_text(&history->arena, "%s/%s", root, run->path);
    for (int i = 0; run->path && i + 1 < history->runs; i++)
        if (!strcmp(history->run[i].path, run->path)) { // for a run that was resumed, the last line counts
            history->run[i] = *run;
            history->runs--;
            return true;
        }
    return run->path;
}

zl_history zl_history_open(const char *root) {
    struct text path = {0};
    if (!root)
        return error_set(ZL_ERROR_VALUE, "zl_history_open: the folder is NULL");
    text_add(&path, "%s/index.jsonl", root);
    struct blob *b = path.failed ? NULL : blob_open("zl_history_open", path.data, false);
    zl_history history = b ? memory_zero(sizeof *history) : NULL;
    if (history) {
        struct json j = json_of(b);
        bool done = true;
        while (done && !json_at_end(&j))
            done = add_entry(&j, history, root);
        if (!done) {
            zl_history_close(history);
            history = NULL;
        }
    }
    blob_release(b);
    text_free(&path);
    return history;
}

void zl_history_close(zl_history history) {
    if (!history)
        return;
    arena_free(&history->arena);
    memory_free(history->run);
    memory_free(history);
}

bool zl_history_run_at(zl_history history, int index, zl_history_run *out) {
    if (!history || index < 0 || index >= history->runs)
        return false;
    *out = history->run[index];
    return true;
}
