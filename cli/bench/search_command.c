// search_command.c - `zellige bench search`: finds the shape at which products of a dtype are fastest: a
// coarse grid, then neighbours of the best shape as long as they are faster, then new samples of the best
// five, all within a time limit.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "session.h"

enum { ALIGN = 16, CONFIRMED = 5 };

static const struct option options[] = {
    BENCH_SESSION_OPTIONS,
    {"dtype", 0, "NAME", "f64 f32 tf32 bf16 f16 fp8 int8", "dtype of the product (default f32)"},
    {"budget", 0, "SECONDS", NULL, "time for all of it (default 60)"},
    {"least", 0, "N", NULL, "smallest size of an axis (default 256)"},
    {"most", 0, "N", NULL, "largest (default 4096)"},
    {"resume", 0, "FOLDER", NULL, "go on with an interrupted search"},
    {0},
};

struct search {
    struct bench_session *session;
    enum bench_dtype dtype;
    int64_t least, most;
    double started, budget; // both in seconds
};

static bool is_over(const struct search *s) {
    return bench_now() - s->started >= s->budget || cli_interrupted() || s->session->failed;
}

// Returns the rate of a shape, which is measured only once; 0 if it failed or is out of bounds.
static double try_shape(const struct search *s, int64_t m, int64_t n, int64_t k) {
    struct bench_config c = {.work = "gemm", .dtype = s->dtype, .dims = 3};
    const int64_t dim[3] = {m, n, k};
    for (int i = 0; i < 3; i++) {
        c.dim[i] = (dim[i] + ALIGN / 2) / ALIGN * ALIGN;
        if (c.dim[i] < s->least || c.dim[i] > s->most)
            return 0;
    }
    bench_config_name(&c);
    const struct bench_row *row = bench_run_find(&s->session->run, c.id);
    if (!row && !is_over(s)) {
        if (!s->session->call->json)
            bench_progress((int)(bench_now() - s->started), (int)s->budget, s->started, c.id);
        row = bench_session_one(s->session, &c);
    }
    return row && isfinite(row->rate) ? row->rate : 0;
}

static bool is_confirmation(const struct bench_row *row) {
    return strchr(row->config.id, '#');
}

static const struct bench_row *best_of(const struct bench_run *run) {
    const struct bench_row *best = NULL;
    for (int i = 0; i < run->rows; i++)
        if (isfinite(run->row[i].rate) && !is_confirmation(&run->row[i]) &&
            (!best || run->row[i].rate > best->rate))
            best = &run->row[i];
    return best;
}

// Tries cubes first, then shapes with one axis longer or shorter than the others.
static void search_coarse(const struct search *s) {
    for (int64_t side = s->least; side <= s->most; side *= 2)
        try_shape(s, side, side, side);
    for (int64_t side = s->least; side <= s->most && !is_over(s); side *= 2)
        for (int axis = 0; axis < 3; axis++) {
            try_shape(s, axis == 0 ? side * 4 : side, axis == 1 ? side * 4 : side,
                      axis == 2 ? side * 4 : side);
            try_shape(s, axis == 0 ? side / 4 : side, axis == 1 ? side / 4 : side,
                      axis == 2 ? side / 4 : side);
        }
}

// Makes each axis of the best shape a quarter or a half longer or shorter, until no such shape is faster.
static void search_near(const struct search *s) {
    static const double factors[] = {0.5, 0.75, 1.25, 1.5};
    for (bool better = true; better && !is_over(s);) {
        const struct bench_row *best = best_of(&s->session->run);
        if (!best)
            return;
        int64_t dim[3] = {best->config.dim[0], best->config.dim[1], best->config.dim[2]};
        double rate = best->rate;
        better = false;
        for (int axis = 0; axis < 3; axis++)
            for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
                int64_t near[3] = {dim[0], dim[1], dim[2]};
                near[axis] = (int64_t)((double)dim[axis] * factors[f]);
                better = try_shape(s, near[0], near[1], near[2]) > rate || better;
            }
    }
}

static int by_rate(const void *a, const void *b) {
    double x = ((const struct bench_row *)a)->rate, y = ((const struct bench_row *)b)->rate;
    return (x < y) - (x > y);
}

// Measures the fastest shapes again, because the best of many samples is partly luck.
static const struct bench_row *confirm(struct bench_session *session) {
    struct bench_run *run = &session->run;
    struct bench_config first[CONFIRMED];
    struct bench_row *sorted = malloc((size_t)(run->rows ? run->rows : 1) * sizeof *sorted);
    int count = 0, best = -1;
    if (!sorted)
        return NULL;
    for (int i = 0; i < run->rows; i++)
        if (isfinite(run->row[i].rate) && !is_confirmation(&run->row[i]))
            sorted[count++] = run->row[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_rate);
    count = count < CONFIRMED ? count : CONFIRMED;
    for (int i = 0; i < count; i++) {
        first[i] = sorted[i].config;
        strncat(first[i].id, "#confirm", sizeof first[i].id - strlen(first[i].id) - 1);
    }
    free(sorted);
    for (int i = 0; i < count && !cli_interrupted(); i++)
        if (!bench_run_find(run, first[i].id)) // a search that is resumed may have it already
            bench_session_one(session, &first[i]);
    for (int i = 0; i < run->rows; i++)
        if (is_confirmation(&run->row[i]) && isfinite(run->row[i].rate) &&
            (best < 0 || run->row[i].rate > run->row[best].rate))
            best = i;
    return best < 0 ? best_of(run) : &run->row[best];
}

static void print_best(const struct invocation *call, const struct bench_row *best) {
    char rate[32], part[16];
    if (!best && !call->json)
        printf("\nno shape could be measured\n");
    if (best && !call->json)
        printf("\nbest: %lld x %lld x %lld, %s, %s of the peak\n", (long long)best->config.dim[0],
               (long long)best->config.dim[1], (long long)best->config.dim[2],
               bench_format_rate(best->rate, best->unit, rate),
               bench_format_percent(best->utilisation, part));
}

static int run(const struct invocation *call) {
    struct bench_session session;
    const char *dtype = cli_option(call, "dtype");
    struct search s = {.session = &session,
                       .dtype = bench_dtype_find(dtype ? dtype : "f32"),
                       .least = 256,
                       .most = 4096,
                       .budget = 60};
    if (s.dtype == BENCH_DTYPES)
        return cli_usage(call, "no dtype '%s': there are f64, f32, tf32, bf16, f16, fp8 and int8", dtype);
    if (!cli_integer(call, "least", ALIGN, INT32_MAX, &s.least) ||
        !cli_integer(call, "most", ALIGN, INT32_MAX, &s.most) ||
        !cli_number(call, "budget", 0, INFINITY, &s.budget))
        return CLI_USAGE;
    if (s.most < s.least)
        return cli_usage(call, "--most %lld is less than --least %lld", (long long)s.most,
                         (long long)s.least);
    int code = bench_session_open(&session, call, "search");
    if (code != CLI_OK)
        return code;
    code = bench_session_start(&session, cli_option(call, "resume"));
    if (code == CLI_OK) {
        s.started = bench_now();
        search_coarse(&s);
        search_near(&s);
        print_best(call, confirm(&session));
        code = bench_session_finish(&session);
    }
    bench_session_close(&session);
    return code;
}

const struct command cli_bench_search = {
    .name = "bench search",
    .summary = "The shape at which products of matrices are fastest, within a time",
    .details =
        "Ctrl-C ends it with the best so far; --resume goes on. The first five are measured once more.\n"
        "  zellige bench search --dtype bf16 --budget 120",
    .options = options,
    .run = run,
};
