// test_fuzz_runs.c - files that `zellige bench` reads and that may come from another machine, with hostile
// texts and numbers: metrics.json, the index of runs, journals, recorded comparisons and suites.
//
// Texts contain markup, formulas, links, commands for terminals and broken characters; numbers are huge,
// tiny, negative or invalid. Each file is rejected or read; a run that was read is written as HTML, Markdown,
// CSV and JSON, and compared. The page must have no tags and attributes but the report's own, the table no
// formulas, and no output a control character.

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "bench.h"

// Files -----------------------------------------------------------------------------------------------------

// Texts as written in JSON.
static void add_text(struct text *out) {
    static const char *const pieces[] = {
        "</title><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\\\" onload=\\\"alert(1)",
        "' x='",
        "javascript:alert(1)",
        "[a](javascript:alert(1))",
        "=cmd|' /C calc'!A0",
        "+1",
        "-1",
        "@SUM(A1)",
        "\\u001b[2J",
        "\\u001b]0;x\\u0007",
        "\\u009b31m",
        "\\u202e",
        "\\r\\n\\t",
        "\\n# forged\\n",
        "|",
        "`",
        "```",
        "**",
        "<!--",
        "]]>",
        "&lt;",
        "%s%n%d",
        "\\\\",
        "\\u0000",
        "\xc3\xa9",
        "\xf0\x9f\x92\xa5",
        "gemm",
        "bandwidth",
        "/",
        "..",
        "../../etc",
        "$(touch x)",
        ";",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    };
    text_add(out, "\"");
    for (int64_t i = test_between(0, 6); i > 0; i--) {
        const char *piece = pieces[test_between(0, COUNT(pieces) - 1)];
        if (strcmp(piece, "\\u0000") || !test_between(0, 20)) // the reader rejects this one
            text_add(out, "%s", piece);
    }
    text_add(out, "\"");
}

static void add_number(struct text *out) {
    static const char *const odd[] = {"0",       "-1",         "1e308", "-1e308", "1e-320", "9.3e18",
                                      "-9.3e18", "4294967296", "null",  "true",   "[]",     "{}",
                                      "\"1\"",   "1e15",       "-0.0",  "NaN"};
    if (test_between(0, 2))
        text_add(out, "%.9g", test_uniform(0, 1e6));
    else
        text_add(out, "%s", odd[test_between(0, COUNT(odd) - 1 - !!test_between(0, 9))]); // NaN is not valid
                                                                                          // JSON
}

static void add_members(struct text *out, void (*add)(struct text *), const char *names) {
    char copy[512], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", names);
    while ((name = strsep(&rest, " "))) {
        text_add(out, "\"%s\": ", name);
        add(out);
        text_add(out, ", ");
    }
}

static void add_one_of(struct text *out, const char *name, const char *const *words, int count) {
    text_add(out, "\"%s\": ", name);
    if (test_between(0, 15))
        text_add(out, "\"%s\"", words[test_between(0, count - 1)]);
    else
        add_text(out);
    text_add(out, ", ");
}

static void add_numbers(struct text *out, const char *name) {
    text_add(out, "\"%s\": [", name);
    for (int64_t i = 0, count = test_between(0, 8); i < count; i++) {
        text_add(out, i ? ", " : "");
        add_number(out);
    }
    text_add(out, "]");
}

static void add_row(struct text *out, int index) {
    static const char *const works[] = {"gemm", "gemm", "bandwidth", "elementwise"};
    static const char *const dtypes[] = {"f64", "f32", "tf32", "bf16", "f16", "fp8", "int8"};
    static const char *const statuses[] = {"ok", "ok", "suspect", "failed", "absent"};
    static const char *const units[] = {"FLOP", "B", "calls"};
    text_add(out, "{");
    add_one_of(out, "work", works, COUNT(works));
    add_one_of(out, "dtype", dtypes, COUNT(dtypes));
    add_one_of(out, "status", statuses, COUNT(statuses));
    add_one_of(out, "unit", units, COUNT(units));
    if (test_between(0, 1))
        text_add(out, "\"op\": \"\", ");
    else
        add_members(out, add_text, "op");
    add_members(out, add_text, "note path");
    add_members(out, add_number,
                "flops bytes items rate peak utilisation limit memory_bound median_s outliers inner warm "
                "stable slope "
                "start_s steal load");
    text_add(out, "\"before\": {");
    add_members(out, add_text, "throttle");
    text_add(out, "\"clock_mhz\": 1}, \"id\": \"gemm/f32/%d\", ", index);
    if (test_between(0, 1))
        add_members(out, add_text, "id"); // the last of two members counts
    add_numbers(out, "size");
    text_add(out, ", ");
    add_numbers(out, "samples_s");
    text_add(out, "}");
}

static void add_run(struct text *out) {
    text_add(out, "{");
    add_members(
        out, add_text,
        "folder suite status started host version commit branch changed command notes baseline evidence");
    add_members(out, add_number, "dirty schema");
    text_add(out, "\"subject\": {");
    add_members(out, add_text, "chip name device");
    add_members(out, add_number, "threads clock_hz bandwidth devices_per_chip is_measured");
    text_add(out, "\"peaks\": {\"f32\": {");
    add_members(out, add_text, "path source");
    text_add(out, "\"rate\": ");
    add_number(out);
    text_add(out, "}}}, \"timing\": {");
    add_members(out, add_number, "seconds warm_seconds least most wipe");
    text_add(out, "\"zeros\": true}, \"rows\": [");
    for (int i = 0, rows = (int)test_between(0, 6); i < rows; i++) {
        text_add(out, i ? ", " : "");
        add_row(out, i);
    }
    text_add(out, "]}");
}

static void add_index_line(struct text *out, const char *folder) {
    text_add(out, "{\"folder\": \"%s\", ", folder);
    add_members(out, add_text, "started suite name device");
    text_add(out, "\"status\": \"complete\", \"threads\": ");
    add_number(out);
    text_add(out, "}\n");
}

// Outputs ---------------------------------------------------------------------------------------------------

static bool is_word_of(const char *word, size_t len, const char *list) {
    char key[64];
    snprintf(key, sizeof key, " %.*s ", (int)(len < 60 ? len : 60), word);
    return strstr(list, key);
}

// Skips the attributes of a tag, and returns its end; NULL if one is not the report's own.
static const char *skip_attributes(const char *at) {
    static const char own[] = " lang charset http-equiv content name rel href class data-value viewBox role "
                              "aria-label x y x1 y1 x2 y2 cx cy r "
                              "rx width height fill fill-opacity stroke points text-anchor transform ";
    while (*(at += strspn(at, " \n")) && !strchr("/>", *at)) {
        size_t len = strcspn(at, "= >\n");
        if (!is_word_of(at, len, own) || at[len] != '=' || at[len + 1] != '"')
            return NULL;
        if (!strncmp(at, "href", len) && strncmp(at + len, "=\"data:,\"", 9) != 0)
            return NULL;
        at += len + 2;
        at += strcspn(at, "\"<");
        if (*at++ != '"')
            return NULL;
    }
    at += *at == '/';
    return *at == '>' ? at + 1 : NULL;
}

static bool is_own_page(const char *page) {
    static const char own[] =
        " html head meta link title style body h1 h2 p div b span i section dl dt dd table thead tbody tr "
        "th td svg line text circle rect polyline script ";
    int scripts = 0, policies = 0;
    const char *at = strchr(page, '\n'); // after the doctype
    for (at = at ? strchr(at, '<') : NULL; at; at = strchr(at, '<')) {
        bool closes = at[1] == '/';
        const char *name = at + 1 + closes;
        size_t len = strcspn(name, " />\n");
        if (!is_word_of(name, len, own) || !(at = closes ? name + len + 1 : skip_attributes(name + len)))
            return test_note("not the report's own: %.80s", name), false;
        scripts += !closes && !strncmp(name, "script", len);
        policies += !strncmp(name, "meta http-equiv=\"Content-Security-Policy\"", 40);
        if (!closes && (!strncmp(name, "script", len) || !strncmp(name, "style", len)))
            at = strstr(at, *name == 's' && name[1] == 'c' ? "</script>" : "</style>");
    }
    return scripts == 1 && policies == 1;
}

static bool has_formula(const char *table) {
    enum { TEXTS = 7, FIELDS = 27 };
    int field = 0;
    for (const char *at = table; *at; at++) {
        bool is_quoted = *at == '"', is_text = field < TEXTS || field >= FIELDS - 2;
        const char *first = at + is_quoted;
        if (is_text && *first && strchr("=+-@\t\r", *first) && strncmp(first, "\r\n", 2) != 0)
            return true;
        if (is_quoted) {
            for (at++; *at && (*at != '"' || at[1] == '"'); at++)
                at += *at == '"';
            at += *at == '"';
        }
        at += strcspn(at, ",\n");
        field = *at == '\n' ? 0 : field + 1;
        if (!*at)
            break;
    }
    return field != 0;
}

// Returns whether there are control characters, except line feeds, tabs and carriage returns, which CSV uses.
static bool has_control(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if ((*at < ' ' && !strchr("\n\t\r", *at)) || *at == 127 ||
            (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) ||
            (*at == 0xe2 && at[1] == 0x80 && at[2] >= 0xaa && at[2] <= 0xae))
            return true;
    return false;
}

static char *written(void (*write)(FILE *out, const struct bench_run *run), const struct bench_run *run) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    write(out, run);
    fclose(out);
    return text;
}

static void check_outputs(const struct bench_run *run) {
    char *page = written(bench_write_html, run), *markdown = written(bench_write_markdown, run);
    char *table = written(bench_write_csv, run), *json = written(bench_write_run, run), error[256];
    REQUIRE(page && markdown && table && json);
    CHECK(is_own_page(page));
    CHECK(!has_control(page) && !has_control(markdown) && !has_control(table) && !has_control(json));
    CHECK(!has_formula(table));
    text_json_value again = text_json_parse(json, strlen(json), "again", error, sizeof error);
    if (!CHECK(again))
        test_note("%s", error);
    text_json_free(again);
    free(page), free(markdown), free(table), free(json);
}

static void compare(const struct bench_run *before, const struct bench_run *after) {
    struct bench_comparisons list = {0};
    char why[256];
    bench_compare_runs(before, after, why, sizeof why);
    bench_compare_all(&list, before, after, 0.05);
    bench_comparisons_free(&list);
}

// Tests -----------------------------------------------------------------------------------------------------

static bool put(const char *folder, const char *name, struct text *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bool done = !text->failed && file_write(path, text->data ? text->data : "", (size_t)text->len);
    text_free(text);
    return done;
}

static int count_of_cases(void) {
    return test_long() ? 20000 : test_quick() ? 60 : 600;
}

TEST(hostile_runs_make_harmless_reports) {
    char first[300], second[300], error[512];
    const char *root = test_folder();
    REQUIRE(root);
    snprintf(first, sizeof first, "%s/20260101-000000", root);
    snprintf(second, sizeof second, "%s/20260102-000000", root);
    REQUIRE(!mkdir(first, 0777) && !mkdir(second, 0777));
    int read = 0, cases = count_of_cases();
    for (int i = 0; i < cases; i++) {
        struct text before = {0}, after = {0}, index = {0};
        struct bench_run runs[2];
        add_run(&before), add_run(&after);
        add_index_line(&index, "20260101-000000"), add_index_line(&index, "../../../etc"),
            add_index_line(&index, ".");
        REQUIRE(put(first, "metrics.json", &before) && put(second, "metrics.json", &after) &&
                put(root, "index.jsonl", &index));
        bool has[2] = {bench_read_run(&runs[0], first, error, sizeof error),
                       bench_read_run(&runs[1], second, error, sizeof error)};
        for (int k = 0; k < 2; k++)
            if (has[k])
                check_outputs(&runs[k]), read++;
        if (has[0] && has[1])
            compare(&runs[0], &runs[1]);
        for (int k = 0; k < 2; k++)
            if (has[k])
                bench_run_free(&runs[k]);
    }
    CHECK(read > cases / 4); // most hostile files are still runs
}

TEST(hostile_journals_checks_and_suites_are_read_or_refused) {
    char path[300], error[512];
    const char *root = test_folder();
    REQUIRE(root);
    for (int i = 0, cases = count_of_cases(); i < cases; i++) {
        struct text journal = {0}, check = {0}, suite = {0};
        struct bench_run run = {0};
        struct bench_comparisons list = {0};
        struct bench_suite read;
        snprintf(run.folder, sizeof run.folder, "%s", root);
        for (int k = 0; k < 3; k++) {
            add_row(&journal, k);
            text_add(&journal, test_between(0, 3) ? "\n" : "");
        }
        REQUIRE(put(root, "journal.jsonl", &journal));
        bench_journal_read(&run);
        check_outputs(&run);
        bench_run_free(&run);

        text_add(&check, "{\"pairs\": [{");
        add_members(&check, add_text, "id");
        add_numbers(&check, "before_ps");
        text_add(&check, ", ");
        add_numbers(&check, "after_ps");
        text_add(&check, "}]}");
        REQUIRE(!check.failed);
        if (bench_record_replay(&list, check.data, 0.05))
            CHECK(!list.count || !has_control(list.item[0].id));
        bench_comparisons_free(&list);
        text_free(&check);

        text_add(&suite, "{");
        add_members(&suite, add_text, "name");
        add_members(&suite, add_number, "seconds samples_least samples_most");
        text_add(&suite, "\"items\": [{\"work\": \"gemm\", \"ops\": [");
        add_text(&suite);
        text_add(&suite,
                 "], \"sizes\": [\"%s\", {\"from\": 1, \"to\": ", test_between(0, 3) ? "4K" : "99999999999G");
        add_number(&suite);
        text_add(&suite, ", \"times\": 1.0001}, ");
        add_number(&suite);
        text_add(&suite, "]}]}");
        REQUIRE(put(root, "suite.json", &suite));
        snprintf(path, sizeof path, "%s/suite.json", root);
        if (bench_suite_open(&read, path, error, sizeof error)) {
            CHECK(!has_control(read.name) && (!read.count || !has_control(read.config[0].id)));
            bench_suite_close(&read);
        }
    }
}
