// collectives.c - `zellige bench run collectives`: collectives and messages between the processes of a group,
// from 8 bytes to 256 MiB.
//
// Latency, algorithm bandwidth and bus bandwidth are defined as in nccl-tests: bytes are those of the whole
// buffer of a collective, and the bus bandwidth multiplies by the part of them that each rank must send, so
// that it can be compared with the bandwidth of a link. All ranks time the same number of calls, starting at
// a barrier; the slowest rank counts.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "session.h"

enum { SMALLEST = 8, LARGEST = 256 << 20, WARM = 2, FIRST = 3, CALLS_MOST = 2000 };
static const double budget = 0.25; // seconds per size of an op

static zl_array broadcast(zl_array x, zl_group g) {
    return zl_broadcast(x, 0, g);
}

// Sends x to the next rank, and returns what the rank before sends.
static zl_array pass_on(zl_array x, zl_group g) {
    int n = zl_group_size(g), rank = zl_group_rank(g), right = (rank + 1) % n, left = (rank + n - 1) % n;
    zl_array sent = NULL, got;
    if (rank % 2 == 0)
        sent = zl_send(x, right, g);
    got = zl_recv(zl_shape_of(x), zl_dtype_of(x), left, g);
    if (rank % 2)
        sent = zl_send(x, right, g);
    zl_array both[] = {sent, got};
    return zl_eval_all(2, both) ? got : NULL;
}

static double share_of_sum(int n) {
    return 2.0 * (n - 1) / n;
}

static double share_of_parts(int n) {
    return (double)(n - 1) / n;
}

static double share_of_all(int n) {
    (void)n;
    return 1;
}

static const struct op {
    const char *name;
    zl_array (*call)(zl_array x, zl_group g);
    double (*share)(int n); // part of the buffer's bytes that each rank must send
    bool whole;             // x is the whole buffer; false: the result is
} ops[] = {
    {"all_sum", zl_all_sum, share_of_sum, true},
    {"all_gather", zl_all_gather, share_of_parts, false},
    {"sum_scatter", zl_sum_scatter, share_of_parts, true},
    {"all_to_all", zl_all_to_all, share_of_parts, true},
    {"broadcast", broadcast, share_of_all, true},
    {"send_recv", pass_on, share_of_all, true},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool run_calls(const struct op *op, zl_array x, zl_group g, int calls) {
    bool ok = true;
    for (int i = 0; ok && i < calls; i++)
        ZL_SCOPE {
            ok = zl_eval(op->call(x, g));
        }
    return ok;
}

// Returns the seconds per call on the slowest rank; negative after an error.
static double measure(const struct op *op, zl_array x, zl_group g, int calls) {
    double slowest = -1;
    if (!zl_group_barrier(g))
        return -1;
    double begin = now();
    bool ok = run_calls(op, x, g, calls);
    double took = (now() - begin) / calls;
    ZL_SCOPE {
        zl_array all = zl_all_max(zl_full(ZL_SHAPE(1), zl_scalar(took), ZL_FLOAT64), g);
        if (ok && zl_eval(all))
            slowest = zl_item(all);
    }
    return slowest;
}

struct row {
    const struct op *op;
    int64_t bytes;
    int calls;
    double seconds;
};

static void show(const struct row *r, int n, bool json, const char *engine) {
    double algorithm = (double)r->bytes / r->seconds * 1e-9, bus = algorithm * r->op->share(n);
    if (json)
        printf("{\"op\": \"%s\", \"engine\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"calls\": %d, "
               "\"latency_us\": %.3f, "
               "\"algorithm_gb_s\": %.5g, \"bus_gb_s\": %.5g}\n",
               r->op->name, engine, n, (long long)r->bytes, r->calls, r->seconds * 1e6, algorithm, bus);
    else
        printf("%-12s %11lld %7d %12.2f %12.4g %12.4g\n", r->op->name, (long long)r->bytes, r->calls,
               r->seconds * 1e6, algorithm, bus);
    fflush(stdout);
}

// Measures as many calls as fit into the budget, judged by the first few; the same number on all ranks.
static bool measure_size(struct row *r, zl_group g) {
    int n = zl_group_size(g);
    int64_t items = r->bytes / 4, own = r->op->whole ? items : items / n;
    bool ok = false;
    ZL_SCOPE {
        zl_array x = zl_ones(ZL_SHAPE(own), ZL_FLOAT32);
        ok = zl_eval(x) && run_calls(r->op, x, g, WARM);
        double first = ok ? measure(r->op, x, g, FIRST) : -1;
        r->calls = first > 0 ? (int)(budget / first) : 1;
        r->calls = r->calls < FIRST ? FIRST : r->calls > CALLS_MOST ? CALLS_MOST : r->calls;
        r->seconds = first > 0 ? measure(r->op, x, g, r->calls) : -1;
    }
    return r->seconds > 0;
}

static bool measure_op(const struct op *op, zl_group g, bool json) {
    int n = zl_group_size(g);
    bool in_parts = op->share == share_of_parts;
    for (int64_t bytes = SMALLEST; bytes <= LARGEST; bytes *= 2) {
        int64_t unit = in_parts ? 4 * (int64_t)n : 4;
        struct row r = {.op = op, .bytes = bytes / unit * unit};
        if (!r.bytes)
            continue; // less than one element per rank
        if (!measure_size(&r, g))
            return false;
        if (zl_group_rank(g) == 0)
            show(&r, n, json, zl_group_engine(g));
    }
    return true;
}

int bench_collectives(const struct invocation *call) {
    const char *only = cli_option(call, "only");
    zl_group g = zl_group_init(false, "any");
    int chosen = 0;
    if (!g)
        return cli_library_failed(call);
    if (zl_group_size(g) < 2) {
        zl_group_release(g);
        return cli_usage(
            call, "collectives need several processes: zellige launch -n 4 zellige bench run collectives");
    }
    if (zl_group_rank(g) == 0 && !call->json)
        printf("%-12s %11s %7s %12s %12s %12s   %d ranks, %s\n", "op", "bytes", "calls", "latency us",
               "algo GB/s", "bus GB/s", zl_group_size(g), zl_group_engine(g));
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof ops / sizeof *ops; i++)
        if (!only || strstr(ops[i].name, only)) {
            chosen++;
            ok = measure_op(&ops[i], g, call->json);
        }
    zl_group_release(g);
    if (!chosen)
        return cli_usage(call, "--only: no collective's name contains '%s'", only);
    return ok ? CLI_OK : cli_library_failed(call);
}
