// device_clock.c - the seconds that runs took on the device, by its own clock: the runs are recorded as a
// profile, whose timeline has what each launch took. Unlike the host's clock it does not see what starting a
// program costs.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "zellige_model.h"

struct launch {
    double begin, took; // microseconds
};

static int compare_launches(const void *a, const void *b) {
    const struct launch *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// Returns the process that the timeline shows the host as; NaN if it does not.
static double find_host(text_json_value events) {
    for (int i = 0; i < text_json_count(events); i++) {
        text_json_value e = text_json_at(events, i);
        if (!strcmp(text_json_text_of(e, "name"), "process_name") &&
            !strcmp(text_json_text_of(text_json_get(e, "args"), "name"), "host"))
            return text_json_number_of(e, "pid");
    }
    return NAN;
}

// Lists the launches on units, in the order in which they began. The caller frees *out. Returns how many
// there are.
static int list_launches(text_json_value events, struct launch **out) {
    double host = find_host(events);
    int count = 0, most = text_json_count(events);
    *out = malloc((size_t)(most + 1) * sizeof **out);
    for (int i = 0; *out && i < most; i++) {
        text_json_value e = text_json_at(events, i);
        if (!strcmp(text_json_text_of(e, "cat"), "kernel") && text_json_number_of(e, "pid") != host)
            (*out)[count++] =
                (struct launch){text_json_number_of(e, "ts"), text_json_number_of(e, "dur")};
    }
    if (count)
        qsort(*out, (size_t)count, sizeof **out, compare_launches);
    return count;
}

// Sets the seconds of each run from the timeline. All runs are the same work and so have as many launches.
static bool read_timeline(struct bench_work *w, const char *path, int runs, double *second) {
    char error[256] = "";
    text_json_value timeline = text_json_load(path, error, sizeof error);
    struct launch *launch = NULL;
    int count = list_launches(text_json_get(timeline, "traceEvents"), &launch);
    bool is_whole = timeline && launch && count && count % runs == 0 &&
                    text_json_number_of(text_json_get(timeline, "otherData"), "dropped") == 0;
    for (int i = 0; is_whole && i < runs; i++) {
        second[i] = 0;
        for (int k = 0; k < count / runs; k++)
            second[i] += launch[i * (count / runs) + k].took * 1e-6;
        is_whole = second[i] > 0;
    }
    free(launch);
    text_json_free(timeline);
    return is_whole || bench_fail(w, "the device does not tell when its work ran%s%s", error[0] ? ": " : "",
                                  error);
}

bool bench_device_seconds(struct bench_work *w, int runs, double *second) {
    char path[] = "/tmp/zellige-clock-XXXXXX";
    int file = mkstemp(path);
    if (file < 0)
        return bench_fail(w, "no file for a profile can be made in /tmp");
    close(file);
    bool done = zl_profile_begin(path);
    if (done) {
        done = bench_work_run(w, runs);
        char *table = zl_profile_end();
        done = done && table;
        zl_free(table);
    }
    done = done && read_timeline(w, path, runs, second);
    unlink(path);
    return done;
}
