// test_fuzz_fusion.c - random graphs have the same bits fused as op by op.
//
// A graph's reference is every node evaluated separately, without fusion. Evaluated at once, through a
// compiled function, and differentiated, on one thread and on two, repeatedly with other sizes and data, its
// results must be the same; a graph that runs often may get kernels of its own meanwhile. All NaNs are equal.
// The data of one graph in four include infinities, NaN, zeros and numbers of very different magnitudes. Both
// sides use the same formulas of the ops, which test_fuzz_values.c tests.

#include "random_graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum way { TOGETHER, COMPILED, GRADIENT, WAYS };
static const char *const way_names[] = {"evaluated at once", "through zl_compile", "its gradient"};

// A graph with its current sizes and leaves.
struct trial {
    struct random_graph graph;
    struct fuzz_sizes sizes;
    zl_array leaf[FUZZ_LEAVES];
    zl_compiled compiled;
};

static void release_all(zl_array *a, int count) {
    for (int i = 0; i < count; i++) {
        zl_release(a[i]);
        a[i] = NULL;
    }
}

// Ways ------------------------------------------------------------------------------------------------------

static bool call_graph(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct trial *t = data;
    zl_array result[FUZZ_OUTPUTS] = {NULL};
    bool ok = fuzz_build(&t->graph, &t->sizes, in, false, result);
    (void)count;
    for (int i = 0; i < t->graph.outputs; i++)
        ok = zl_give(out, result[i]) && ok;
    release_all(result, t->graph.outputs);
    return ok;
}

// Computes a number that depends on all outputs.
static bool call_loss(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct trial *t = data;
    zl_array result[FUZZ_OUTPUTS] = {NULL}, loss = zl_scalar(0);
    bool ok = fuzz_build(&t->graph, &t->sizes, in, false, result);
    (void)count;
    for (int i = 0; ok && i < t->graph.outputs; i++)
        loss = zl_add(loss, zl_mean_axes(zl_astype(zl_real(result[i]), ZL_FLOAT32), ZL_ALL, false));
    ok = ok && zl_give(out, loss);
    release_all(result, t->graph.outputs);
    return ok;
}

static bool build_compiled(struct trial *t, zl_array *out) {
    zl_outputs *list = zl_outputs_new();
    bool ok = zl_compiled_call(t->compiled, &t->sizes, sizeof t->sizes, t->graph.leaves, t->leaf, list);
    for (int i = 0; ok && i < t->graph.outputs; i++)
        out[i] = zl_retain(zl_outputs_get(list, i));
    zl_outputs_free(list);
    return ok;
}

static int float_leaves(const struct random_graph *g, int *which) {
    int count = 0;
    for (int i = 0; i < g->leaves; i++)
        if (dtype_is_float(g->node[i].dtype))
            which[count++] = i;
    return count;
}

static bool build_gradient(struct trial *t, zl_array *out) {
    int which[FUZZ_LEAVES], count = float_leaves(&t->graph, which);
    bool ok = zl_value_and_grad((zl_fn){.call = call_loss, .data = t}, t->graph.leaves, t->leaf, count, which,
                                NULL, out);
    for (int i = 0; i < count; i++)
        out[i] = ok ? zl_retain(out[i]) : NULL;
    return ok;
}

static int results_of(const struct trial *t, enum way way) {
    int which[FUZZ_LEAVES];
    return way == GRADIENT ? float_leaves(&t->graph, which) : t->graph.outputs;
}

enum { RESULTS = FUZZ_LEAVES > FUZZ_OUTPUTS ? FUZZ_LEAVES : FUZZ_OUTPUTS };

// Computes the results, evaluated and retained.
static bool compute(struct trial *t, enum way way, bool alone, zl_array *out) {
    bool ok = false;
    memset(out, 0, sizeof *out * RESULTS);
    ZL_SCOPE {
        if (way == GRADIENT)
            ok = build_gradient(t, out);
        else if (way == COMPILED && !alone)
            ok = build_compiled(t, out);
        else
            ok = fuzz_build(&t->graph, &t->sizes, t->leaf, alone, out);
        ok = ok && zl_eval_all(results_of(t, way), out);
    }
    return ok;
}

// Computes without fusion; nodes that are built here are evaluated separately.
static bool compute_alone(struct trial *t, enum way way, zl_array *out) {
    int64_t fused = zl_counter("fused");
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    bool ok = compute(t, way, true, out);
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    CHECK_EQ_INT(zl_counter("fused"), fused);
    return ok;
}

// Comparing -------------------------------------------------------------------------------------------------

static double part_value(const void *data, zl_dtype dtype) {
    double value = 0;
    dtype_convert(&value, ZL_FLOAT64, data, dtype, 1);
    return value;
}

// Returns the first part (complex numbers have two) in which a and b differ; -1: none.
static int64_t first_difference(const char *a, const char *b, size_t bytes, zl_dtype dtype) {
    zl_dtype part = dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype;
    size_t item = zl_dtype_size(part);
    if (!memcmp(a, b, bytes))
        return -1;
    for (size_t at = 0; at < bytes; at += item) {
        double x = part_value(a + at, part), y = part_value(b + at, part);
        bool nan = dtype_is_inexact(dtype) && x != x && y != y;
        if (!nan && memcmp(a + at, b + at, item) != 0)
            return (int64_t)(at / item);
    }
    return -1;
}

// Returns whether the arrays are equal; if not, prints the difference unless `quiet` is set.
static bool is_same(zl_array got, zl_array want, int which, bool quiet) {
    zl_dtype dtype = zl_dtype_of(want), part = dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype;
    size_t bytes = zl_nbytes(want), item = zl_dtype_size(part);
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    bool like = zl_dtype_of(got) == dtype && zl_nbytes(got) == bytes;
    bool ok = a && b && like && zl_copy_to(got, a, bytes) && zl_copy_to(want, b, bytes);
    int64_t at = ok ? first_difference(a, b, bytes, dtype) : -1;
    if (!quiet && ok && at >= 0)
        test_note("result %d differs at %lld of %lld: %.17g, op by op %.17g", which, (long long)at,
                  (long long)(bytes / item), part_value(a + (size_t)at * item, part),
                  part_value(b + (size_t)at * item, part));
    if (!quiet && !ok)
        test_note("result %d: %s", which, like ? "could not be read" : "another dtype or shape");
    free(a), free(b);
    return ok && at < 0;
}

static bool are_same(const struct trial *t, enum way way, const zl_array *got, const zl_array *want,
                     bool quiet) {
    bool same = true;
    for (int i = 0; i < results_of(t, way); i++)
        same = is_same(got[i], want[i], i, quiet) && same;
    return same;
}

// Computes the reference and one way, and returns whether they have the same bits.
static bool holds(struct trial *t, enum way way, bool quiet) {
    zl_array want[RESULTS], got[RESULTS];
    bool ok =
        compute_alone(t, way, want) && compute(t, way, false, got) && are_same(t, way, got, want, quiet);
    release_all(want, RESULTS);
    release_all(got, RESULTS);
    return ok;
}

// Finds the first node that is wrong when it is the only output, and prints its graph.
static void report(const struct trial *failed, enum way way) {
    struct trial t = *failed;
    t.graph.outputs = 1;
    t.compiled = NULL;
    test_note("%s, on %d threads, is not what it is op by op%s%s", way_names[way], zl_threads(),
              zl_error() ? ": " : "", zl_error() ? zl_error() : "");
    zl_clear_error();
    for (int i = t.graph.leaves; i < t.graph.nodes; i++) {
        t.graph.output[0] = i;
        if (holds(&t, way == COMPILED ? TOGETHER : way, true))
            continue;
        test_note("the smallest part that fails:");
        holds(&t, way == COMPILED ? TOGETHER : way, false);
        zl_array out[FUZZ_OUTPUTS] = {NULL};
        char *text = fuzz_build(&t.graph, &t.sizes, t.leaf, false, out) ? zl_explain(out[0]) : NULL;
        fuzz_print(&t.graph, &t.sizes);
        test_note("%s", text ? text : "");
        zl_free(text);
        release_all(out, 1);
        zl_clear_error();
        return;
    }
    test_note("no single node of it fails when it is evaluated again:");
    fuzz_print(&failed->graph, &failed->sizes);
}

// Trials ----------------------------------------------------------------------------------------------------

static bool start_trial(struct trial *t, uint64_t seed) {
    fuzz_make(&t->graph, seed);
    t->compiled = zl_compile((zl_fn){.call = call_graph, .data = t}, false);
    return t->compiled;
}

static void end_trial(struct trial *t) {
    zl_compiled_release(t->compiled);
    release_all(t->leaf, FUZZ_LEAVES);
}

static bool take_new_data(struct trial *t, bool other_sizes) {
    if (other_sizes)
        t->sizes = fuzz_random_sizes(&t->graph);
    release_all(t->leaf, FUZZ_LEAVES);
    return fuzz_make_leaves(&t->graph, &t->sizes, t->leaf);
}

// Checks a way on one thread and on two in turns. A graph without a derivative passes.
static bool check_way(struct trial *t, enum way way, int times) {
    zl_array want[RESULTS], got[RESULTS];
    bool same = true, known = compute_alone(t, way, want);
    if (!known && way == GRADIENT)
        zl_clear_error();
    else
        same = CHECK(known);
    for (int i = 0; known && same && i < times; i++) {
        zl_set_threads(1 + i % 2);
        same = CHECK(compute(t, way, false, got)) && CHECK(are_same(t, way, got, want, false));
        release_all(got, RESULTS);
    }
    release_all(want, RESULTS);
    if (!same)
        report(t, way);
    return same;
}

enum { BATCH = 20, PASSES = 3, FAILURES_MOST = 3 };

// Runs all graphs of a batch once, then again, so that kernels made in the background have time to appear.
static int run_batch(uint64_t first, int count) {
    static struct trial trials[BATCH];
    bool failed[BATCH] = {false};
    int failures = 0;
    memset(trials, 0, sizeof trials);
    for (int i = 0; i < count; i++)
        CHECK(start_trial(&trials[i], first + (uint64_t)i));
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < count && failures < FAILURES_MOST; i++) {
            if (failed[i])
                continue;
            failed[i] = !CHECK(take_new_data(&trials[i], true));
            for (int way = 0; way < WAYS && !failed[i]; way++)
                failed[i] = !check_way(&trials[i], (enum way)way, way == TOGETHER ? 4 : 2);
            failures += failed[i];
        }
    for (int i = 0; i < count; i++)
        end_trial(&trials[i]);
    return failures;
}

TEST(fused_graphs_give_the_bits_of_single_ops) {
    int64_t fused = zl_counter("fused");
    int threads = zl_threads(), graphs = test_long() ? 20000 : test_quick() ? 6 : 200;
    for (int i = 0, failures = 0; i < graphs && failures < FAILURES_MOST; i += BATCH)
        failures += run_batch(test_seed() * 3000017 + (uint64_t)i, MIN_OF(BATCH, graphs - i));
    zl_set_threads(threads);
    CHECK(zl_counter("fused") > fused);
}

// Uses one size, with other data now and then, until evaluation has made the kernels for graphs that run
// often.
TEST(fused_graphs_that_run_often_give_the_same_bits) {
    int threads = zl_threads(),
        graphs = test_long()    ? 200
                 : test_quick() ? 1
                                : 8,
        rounds = test_quick() ? 3 : 12;
    for (int i = 0; i < graphs; i++) {
        struct trial t = {.leaf = {NULL}};
        bool ok = CHECK(start_trial(&t, test_seed() * 4000037 + (uint64_t)i));
        for (int round = 0; ok && round < rounds; round++)
            ok = CHECK(take_new_data(&t, round == 0)) && check_way(&t, round % 2 ? COMPILED : TOGETHER, 50);
        end_trial(&t);
    }
    zl_set_threads(threads);
}

// Many threads ----------------------------------------------------------------------------------------------

enum { SHARED = 4, THREADS = 3 };

// Graphs that all threads run, and the expected results.
struct shared {
    struct trial trial[SHARED];
    zl_array want[SHARED][RESULTS];
    int rounds;
};

static void *run_shared(void *data) {
    struct shared *s = data;
    zl_array got[RESULTS];
    for (int i = 0; i < s->rounds * SHARED; i++) {
        struct trial *t = &s->trial[i % SHARED];
        enum way way = i / SHARED % 2 ? COMPILED : TOGETHER;
        if (!CHECK(compute(t, way, false, got)) || !CHECK(are_same(t, way, got, s->want[i % SHARED], false)))
            test_note("graph %llu %s", (unsigned long long)t->graph.seed, way_names[way]);
        release_all(got, RESULTS);
    }
    return NULL;
}

// A kernel may replace a row program while other threads run it.
TEST(threads_run_the_same_fused_graphs) {
    static struct shared s;
    pthread_t thread[THREADS];
    int started = 0;
    s = (struct shared){.rounds = test_quick() ? 5 : 50};
    for (int i = 0; i < SHARED; i++) {
        CHECK(start_trial(&s.trial[i], test_seed() * 5000011 + (uint64_t)i) &&
              take_new_data(&s.trial[i], true));
        CHECK(compute_alone(&s.trial[i], TOGETHER, s.want[i]));
    }
    while (started < THREADS && CHECK(pthread_create(&thread[started], NULL, run_shared, &s) == 0))
        started++;
    while (started > 0)
        pthread_join(thread[--started], NULL);
    for (int i = 0; i < SHARED; i++) {
        end_trial(&s.trial[i]);
        release_all(s.want[i], RESULTS);
    }
}
