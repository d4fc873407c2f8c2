// record.c - records of comparisons in turns: one per line of a file, with all samples, so that a verdict can
// be examined and reproduced later and elsewhere.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

// Seconds are written as whole picoseconds: short, and precise enough for a clock of nanoseconds over many
// runs.
static const double picosecond = 1e-12;

static void write_samples(const char *key, const double *second, int count) {
    cli_json_open(key, '[');
    for (int i = 0; i < count; i++)
        cli_json_int(NULL, (int64_t)llround(second[i] / picosecond));
    cli_json_close();
}

bool bench_record_add(const char *path, const struct bench_comparisons *list) {
    FILE *out = fopen(path, "a");
    if (!out)
        return false;
    cli_json_to(out, true);
    cli_json_open(NULL, '{');
    cli_json_open("pairs", '[');
    for (int i = 0; i < list->count; i++) {
        const struct bench_comparison *c = &list->item[i];
        cli_json_open(NULL, '{');
        cli_json_text("id", c->id);
        write_samples("before_ps", c->sample[0], c->samples);
        write_samples("after_ps", c->sample[1], c->samples);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
    cli_json_to(NULL, false);
    return !fclose(out);
}

static double *read_samples(text_json_value list, int count) {
    double *second = malloc((size_t)(count ? count : 1) * sizeof *second);
    for (int i = 0; second && i < count; i++)
        second[i] = text_json_number(text_json_at(list, i)) * picosecond;
    return second;
}

static bool replay_pair(struct bench_comparisons *list, text_json_value pair, double threshold) {
    text_json_value before = text_json_get(pair, "before_ps"), after = text_json_get(pair, "after_ps");
    int count = text_json_count(before);
    if (text_json_count(after) != count)
        return false;
    double *first = read_samples(before, count), *second = read_samples(after, count);
    bool done = first && second;
    if (done) {
        struct bench_comparison c = bench_compare_samples(first, count, second, count, threshold, true);
        bench_json_copy(pair, "id", false, c.id, sizeof c.id);
        done = bench_comparisons_add(list, c);
    }
    free(first), free(second);
    return done;
}

bool bench_record_replay(struct bench_comparisons *list, const char *line, double threshold) {
    char error[256];
    text_json_value root = text_json_parse(line, strlen(line), "a recorded check", error, sizeof error);
    text_json_value pairs = text_json_get(root, "pairs");
    bool done = text_json_is_list(pairs);
    list->in_turns = true;
    for (int i = 0; done && i < text_json_count(pairs); i++)
        done = replay_pair(list, text_json_at(pairs, i), threshold);
    text_json_free(root);
    return done;
}
