// serve_command.c - `zellige bench serve`: reads configurations, and answers each with the seconds of one
// sample. `zellige bench check --against` starts it.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct option options[] = {
    {"device", 0, "NAME", NULL, "device to measure (default cpu)"},
    {0},
};

static const double sample_seconds = 2e-3;

// Reads a line such as "gemm - f32 1 512".
static bool read_config(struct bench_config *c, char *line) {
    char dtype[16];
    int used = 0;
    *c = (struct bench_config){0};
    if (sscanf(line, "%15s %23s %15s %d%n", c->work, c->op, dtype, &c->dims, &used) != 4 || c->dims < 0 ||
        c->dims > 4)
        return false;
    if (!strcmp(c->op, "-"))
        c->op[0] = 0;
    c->dtype = bench_dtype_find(dtype);
    char *at = line + used;
    for (int i = 0; i < c->dims; i++)
        c->dim[i] = strtoll(at, &at, 10);
    bench_config_name(c);
    return c->dtype < BENCH_DTYPES;
}

static void answer_error(const struct bench_work *w) {
    printf("! %s\n", w->why[0] ? w->why : zl_error() ? zl_error() : "failed");
    zl_clear_error();
}

// Prints the best of a few measurements of equal length, which excludes time taken by other programs.
static void answer_sample(struct bench_work *w, int *inner) {
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        double start = bench_now();
        if (!bench_work_run(w, *inner)) {
            answer_error(w);
            return;
        }
        double took = bench_now() - start;
        if (took < sample_seconds && *inner < 1 << 24) {
            *inner *= 2;
            i = -1;
            best = INFINITY;
            continue;
        }
        best = fmin(best, took / *inner);
    }
    printf("%.17g\n", best);
}

static bool prepare(struct bench_work *w, const struct bench_config *config) {
    bool right = bench_work_prepare(w, config);
    if (right)
        ZL_SCOPE {
            right = w->kind->verify(w);
        }
    return right;
}

static int run(const struct invocation *call) {
    const char *device = cli_option(call, "device") ? cli_option(call, "device") : "cpu";
    struct bench_config config = {0}, next;
    struct bench_work w = {0};
    int inner = 1;
    char line[256];
    if (!zl_use_device(device))
        return cli_library_failed(call);
    while (fgets(line, sizeof line, stdin)) {
        bool known = read_config(&next, line);
        if (known && strcmp(next.id, config.id) != 0) { // not the one before
            bench_work_finish(&w);
            config = next;
            w = (struct bench_work){.device = device, .is_async = strcmp(device, "cpu") != 0};
            inner = 1;
            known = prepare(&w, &config);
        }
        if (known)
            answer_sample(&w, &inner);
        else
            answer_error(&w);
        if (!known)
            config.id[0] = 0;
        fflush(stdout);
    }
    bench_work_finish(&w);
    return CLI_OK;
}

const struct command cli_bench_serve = {
    .name = "bench serve",
    .summary = "Answer configurations on standard input with seconds: for bench check --against",
    .options = options,
    .run = run,
};
