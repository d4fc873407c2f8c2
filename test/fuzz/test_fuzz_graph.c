// test_fuzz_graph.c - random small graphs have the same bits however they are evaluated.
//
// A graph is a function of its seed: elementwise ops, views, reductions, joins and casts over all dtypes. It
// is built again for each way: all at once, node by node, asynchronously on two streams, and in processes
// without row programs, with other numbers of threads, and with scalar kernels. All NaNs are equal, since
// compilers do not preserve their bits. This finds evaluations that differ, not wrong formulas, which
// test_fuzz_values.c finds.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op/op.h"
#include "test.h"

enum { NODES = 14, ROOTS = 3, RANKS = 5 };

enum way { TOGETHER, ONE_BY_ONE, ON_TWO_STREAMS };

struct graph {
    uint64_t random;
    enum way way;
    zl_stream stream[2];
    zl_array node[NODES];
    int nodes;
    int64_t longest; // size of the longest axis of leaves
};

// Draws from the graph's own random numbers, so that another process makes the same graph.
static uint64_t draw(struct graph *g) {
    g->random += 0x9e3779b97f4a7c15;
    return hash_bytes(&g->random, sizeof g->random, 1);
}

static int64_t between(struct graph *g, int64_t lo, int64_t hi) {
    return lo + (int64_t)(draw(g) % (uint64_t)(hi - lo + 1));
}

static zl_array any_node(struct graph *g) {
    return g->node[between(g, 0, g->nodes - 1)];
}

// Leaves and elementwise ops --------------------------------------------------------------------------------

static zl_array leaf(struct graph *g) {
    static const double odd[] = {0.0, -0.0, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1e30, 0.5, -1e-30};
    int64_t dim[3], size = 1;
    int rank = (int)between(g, 0, 3);
    for (int i = 0; i < rank; i++)
        size *= dim[i] = between(g, 1, i == rank - 1 ? g->longest : 4);
    double *data = malloc(sizeof *data * (size_t)size);
    for (int64_t i = 0; i < size; i++)
        data[i] =
            between(g, 0, 30) ? (double)between(g, -4000, 4000) / 256 : odd[between(g, 0, COUNT(odd) - 1)];
    zl_array x = zl_from_f64(data, (zl_shape){dim, rank});
    free(data);
    return zl_astype(x, (zl_dtype)between(g, 0, ZL_DTYPE_COUNT - 1));
}

static const struct row {
    zl_array (*one)(zl_array);
    zl_array (*two)(zl_array, zl_array);
    int rule;
} rows[] = {
#define UNARY(NAME, fn, doc, rule, tangent, lower, domain)   {fn, NULL, rule},
#define BINARY(NAME, fn, doc, rule, tangents, lower, domain) {NULL, fn, rule},
#include "op/elementwise.def"
};

static zl_array as_row_wants(const struct row *r, zl_array x) {
    if ((r->rule & BITS) && dtype_is_inexact(zl_dtype_of(x)))
        return zl_astype(x, ZL_INT16);
    if ((r->rule & NUMBERS) && zl_dtype_of(x) == ZL_BOOL)
        return zl_astype(x, ZL_INT8);
    return (r->rule & REAL) && zl_dtype_of(x) == ZL_COMPLEX64 ? zl_real(x) : x;
}

// Returns an operand for an op with x: another node if their shapes fit, one element of it, a number, or x
// itself.
static zl_array partner(struct graph *g, zl_array x) {
    int64_t dim[2 * RANKS];
    zl_array y = any_node(g);
    zl_shape a = zl_shape_of(x), b = zl_shape_of(y);
    if (shape_broadcast(a.ndim, a.dim, b.ndim, b.dim, dim) >= 0)
        return y;
    switch (between(g, 0, 3)) {
    case 0: return zl_scalar((double)between(g, -8, 8) / 4);
    case 1: return zl_scalar_int(between(g, -3, 9));
    case 2: return zl_take_flat(y, zl_scalar_int(0));
    default: return x;
    }
}

static zl_array elementwise(struct graph *g, zl_array x) {
    const struct row *r = &rows[between(g, 0, COUNT(rows) - 1)];
    x = as_row_wants(r, x);
    return r->one ? r->one(x) : r->two(x, as_row_wants(r, partner(g, x)));
}

static zl_array chosen(struct graph *g, zl_array x) {
    zl_array y = partner(g, x);
    return zl_where(zl_less(zl_real(x), zl_real(y)), x, y);
}

static zl_array cast(struct graph *g, zl_array x) {
    return zl_astype(x, (zl_dtype)between(g, 0, ZL_DTYPE_COUNT - 1));
}

// Views and joins -------------------------------------------------------------------------------------------

static zl_array slice(struct graph *g, zl_array x) {
    int64_t start[RANKS], stop[RANKS], step[RANKS];
    int rank = zl_ndim(x);
    for (int i = 0; i < rank; i++) {
        int64_t size = zl_dim(x, i), a = between(g, 0, size - 1), b = between(g, 0, size - 1);
        bool back = draw(g) & 1;
        start[i] = back ? MAX_OF(a, b) : MIN_OF(a, b);
        stop[i] = back ? MIN_OF(a, b) - size - 1 : MAX_OF(a, b) + 1;
        step[i] = between(g, 1, 3) * (back ? -1 : 1);
    }
    return zl_slice(x, (zl_shape){start, rank}, (zl_shape){stop, rank}, (zl_shape){step, rank});
}

static zl_array transposed(struct graph *g, zl_array x) {
    int axes[RANKS], rank = zl_ndim(x);
    for (int i = 0; i < rank; i++) {
        int k = (int)between(g, 0, i);
        axes[i] = axes[k];
        axes[k] = i;
    }
    return zl_transpose(x, (zl_axes){axes, rank});
}

static zl_array broadcast(struct graph *g, zl_array x) {
    int64_t dim[RANKS];
    int rank = zl_ndim(x);
    if (rank == RANKS || zl_size(x) > 5000)
        return zl_flip(x, ZL_ALL);
    for (int i = 0; i < rank; i++)
        dim[i + 1] = zl_dim(x, i) == 1 ? between(g, 1, 3) : zl_dim(x, i);
    dim[0] = between(g, 1, 3);
    return zl_broadcast_to(x, (zl_shape){dim, rank + 1});
}

static zl_array reshaped(struct graph *g, zl_array x) {
    int64_t dim[RANKS];
    int rank = zl_ndim(x);
    switch (between(g, 0, 3)) {
    case 0: return zl_flatten(x, 0, -1);
    case 1: return zl_squeeze(x, ZL_ALL);
    case 2: return rank < RANKS ? zl_expand_dims(x, ZL_AXES((int)between(g, 0, rank))) : x;
    default: break;
    }
    for (int i = 0; i < rank; i++)
        dim[i] = zl_dim(x, rank - 1 - i);
    return zl_reshape(x, (zl_shape){dim, rank});
}

static zl_array joined(struct graph *g, zl_array x) {
    zl_array flipped = zl_flip(x, ZL_ALL), list[3] = {x, flipped, zl_negative(zl_astype(x, ZL_FLOAT32))};
    int rank = zl_ndim(x), count = (int)between(g, 1, 3);
    if (rank == 0 || (rank < RANKS && draw(g) % 4 == 0))
        return zl_stack(list, count, 0);
    return zl_concatenate(list, count, (int)between(g, 0, rank - 1));
}

static zl_array taken(struct graph *g, zl_array x) {
    zl_array at =
        zl_from_i32((int32_t[]){0, (int32_t)between(g, -2, 2), (int32_t)between(g, 0, 9)}, ZL_SHAPE(3));
    return zl_ndim(x) ? zl_take(x, at, (int)between(g, 0, zl_ndim(x) - 1)) : zl_take_flat(x, at);
}

// Writes slices of the first axis to other places, or adds them; some of them twice.
static zl_array scattered(struct graph *g, zl_array x) {
    int64_t dim[RANKS + 1] = {3};
    int rank = zl_ndim(x);
    zl_array at =
        zl_from_i32((int32_t[]){0, (int32_t)between(g, -3, 9), (int32_t)between(g, -1, 2)}, ZL_SHAPE(3));
    if (rank == 0)
        return zl_scatter(x, NULL, 0, zl_scalar(2), (zl_axes){NULL, 0});
    for (int i = 0; i < rank; i++)
        dim[i + 1] = i ? zl_dim(x, i) : 1;
    zl_array slices = zl_gather(x, &at, 1, ZL_AXES(0), (zl_shape){dim + 1, rank});
    zl_array back = zl_flip(at, ZL_ALL);
    return draw(g) & 1 ? zl_scatter(x, &back, 1, slices, ZL_AXES(0))
                       : zl_scatter_add(x, &back, 1, slices, ZL_AXES(0));
}

static zl_array along(struct graph *g, zl_array x) {
    int rank = zl_ndim(x), axis = rank ? (int)between(g, 0, rank - 1) : 0;
    if (rank == 0)
        return zl_take_along_axis_flat(x, zl_from_i32((int32_t[]){0, 5}, ZL_SHAPE(2)));
    zl_array order = zl_astype(zl_multiply(zl_real(x), zl_scalar(2)), ZL_INT32);
    switch (between(g, 0, 2)) {
    case 0: return zl_take_along_axis(x, order, axis);
    case 1: return zl_put_along_axis(x, order, x, axis);
    default: return zl_scatter_add_axis(x, order, zl_scalar_int(1), axis);
    }
}

static zl_array updated(struct graph *g, zl_array x) {
    int64_t start[RANKS], stop[RANKS], step[RANKS];
    int rank = zl_ndim(x);
    for (int i = 0; i < rank; i++) {
        start[i] = between(g, 0, 2);
        stop[i] = INT64_MAX;
        step[i] = between(g, 1, 2);
    }
    zl_shape from = {start, rank}, to = {stop, rank}, by = {step, rank};
    return draw(g) & 1 ? zl_slice_update(x, zl_scalar_int(3), from, to, by)
                       : zl_slice_update_max(x, zl_scalar_int(1), from, to, by);
}

static zl_array scanned(struct graph *g, zl_array x) {
    int rank = zl_ndim(x), axis = rank ? (int)between(g, 0, rank - 1) : 0;
    bool reverse = draw(g) & 1, inclusive = draw(g) & 1;
    switch (rank ? between(g, 0, 3) : 4) {
    case 0: return zl_cumsum(x, axis, reverse, inclusive, zl_dtype_of(x));
    case 1: return zl_cumprod(x, axis, reverse, inclusive, zl_dtype_of(x));
    case 2: return zl_cummax(x, axis, reverse, inclusive);
    case 3: return zl_logcumsumexp(zl_real(x), axis, reverse, inclusive);
    default: return zl_cummin_flat(x, reverse, inclusive);
    }
}

// Sorts x, or returns the positions that sort it, which show the order of equal elements.
static zl_array sorted(struct graph *g, zl_array x) {
    int rank = zl_ndim(x), axis = rank ? (int)between(g, 0, rank - 1) : 0;
    if (rank == 0)
        return zl_argsort_flat(x);
    return draw(g) & 1 ? zl_sort(x, axis) : zl_argsort(x, axis);
}

static zl_array padded(struct graph *g, zl_array x) {
    int64_t low[RANKS], high[RANKS];
    for (int i = 0; i < RANKS; i++) {
        low[i] = between(g, 0, 2);
        high[i] = between(g, 0, 1);
    }
    return zl_pad(x, (zl_shape){low, zl_ndim(x)}, (zl_shape){high, zl_ndim(x)},
                  zl_scalar_int(between(g, 0, 2)));
}

// Reductions ------------------------------------------------------------------------------------------------

static zl_array reduced(struct graph *g, zl_array x) {
    int axis = zl_ndim(x) ? (int)between(g, 0, zl_ndim(x) - 1) : 0;
    bool keep = draw(g) & 1;
    zl_axes axes = zl_ndim(x) && draw(g) % 3 ? ZL_AXES(axis) : ZL_ALL;
    switch (between(g, 0, 10)) {
    case 0: return zl_sum_axes(x, axes, keep);
    case 1: return zl_prod_axes(x, axes, keep);
    case 2: return zl_min_axes(x, axes, keep);
    case 3: return zl_max_axes(x, axes, keep);
    case 4: return zl_all_axes(x, axes, keep);
    case 5: return zl_any_axes(x, axes, keep);
    case 6: return zl_mean_axes(x, axes, keep);
    case 7: return zl_var_axes(x, axes, keep, 0);
    case 8: return zl_logsumexp_axes(zl_real(x), axes, keep);
    case 9: return zl_ndim(x) ? zl_argmax_axis(zl_real(x), axis, keep) : zl_argmax(zl_real(x));
    default: return zl_softmax_axes(x, axes, false);
    }
}

// Graphs ----------------------------------------------------------------------------------------------------

static zl_array (*const makers[])(struct graph *, zl_array) = {
    elementwise, elementwise, elementwise, elementwise, elementwise, chosen, cast,    slice,   slice,
    transposed,  broadcast,   reshaped,    joined,      taken,       padded, reduced, reduced, scattered,
    along,       updated,     scanned,     sorted,
};

// Makes a node. The last one is a slice: elements of other nodes that it does not read may not be computed.
static zl_array new_node(struct graph *g) {
    bool is_last = g->nodes == NODES - 1;
    if (g->nodes < 2 || (!is_last && between(g, 0, 9) == 0))
        return leaf(g);
    zl_array x = any_node(g), y = (is_last ? slice : makers[between(g, 0, COUNT(makers) - 1)])(g, x);
    if (y && zl_ndim(y) <= RANKS && zl_size(y) <= 60000)
        return y;
    zl_clear_error(); // ops that lack this dtype, in every way
    return zl_positive(x);
}

// Builds the graph, and meanwhile evaluates it in the graph's way. All nodes are retained until
// release_nodes.
static bool build_graph(struct graph *g, uint64_t seed) {
    g->random = seed;
    g->longest = between(g, 0, 2) ? 6 : 6000; // large graphs run as row programs, on several threads
    for (g->nodes = 0; g->nodes < NODES; g->nodes++) {
        bool flip = draw(g) & 1;
        zl_scope scope = zl_scope_begin_on(g->way == ON_TWO_STREAMS ? g->stream[flip] : NULL);
        zl_array x = g->node[g->nodes] = zl_retain(new_node(g));
        bool ok = x && (g->way == ONE_BY_ONE ? zl_eval(x) : g->way == TOGETHER || flip || zl_async_eval(x));
        zl_scope_end(scope);
        if (!ok)
            return false;
    }
    return true;
}

static void release_nodes(struct graph *g, int count) {
    for (int i = 0; i < count; i++) {
        zl_release(g->node[i]);
        g->node[i] = NULL;
    }
}

static const char nan_text[] = "NaN";

// Returns a hash of an array's dtype, shape and elements; 0 after an error.
static uint64_t hash_of(zl_array x) {
    zl_dtype dtype = zl_dtype_of(x);
    zl_shape shape = zl_shape_of(x);
    size_t bytes = zl_nbytes(x), part = dtype == ZL_COMPLEX64 ? 4 : zl_dtype_size(dtype);
    zl_dtype part_dtype = dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype;
    char *data = malloc(bytes + 1);
    uint64_t hash = hash_bytes(shape.dim, sizeof(int64_t) * (size_t)shape.ndim, dtype);
    bool ok = zl_copy_to(x, data, bytes);
    for (size_t at = 0; ok && at < bytes; at += part) {
        double value = 0;
        if (dtype_is_inexact(dtype))
            dtype_convert(&value, ZL_FLOAT64, data + at, part_dtype, 1);
        hash = value != value ? hash_bytes(nan_text, 3, hash) : hash_bytes(data + at, part, hash);
    }
    free(data);
    return ok ? hash | 1 : 0;
}

// Computes the hashes of the graph's last nodes. If it is evaluated TOGETHER, only these are retained.
static bool hash_graph(enum way way, zl_stream one, zl_stream two, uint64_t seed, uint64_t *hash) {
    struct graph g = {.way = way, .stream = {one, two}};
    zl_array *root = &g.node[NODES - ROOTS];
    bool ok = build_graph(&g, seed);
    if (way == TOGETHER)
        release_nodes(&g, NODES - ROOTS);
    ok = ok && (way == ON_TWO_STREAMS ? zl_async_eval_all(ROOTS, root) : zl_eval_all(ROOTS, root));
    for (int i = 0; ok && i < ROOTS; i++)
        ok = (hash[i] = hash_of(root[i])) != 0;
    release_nodes(&g, NODES);
    return ok;
}

static int graphs(void) {
    return test_long() ? 20000 : test_quick() ? 20 : 400;
}

static bool check_way(enum way way, zl_stream one, zl_stream two, uint64_t seed, const uint64_t *want) {
    uint64_t got[ROOTS] = {0};
    bool ok = false;
    ZL_SCOPE
        ok = CHECK(hash_graph(way, one, two, seed, got)) && CHECK(!memcmp(got, want, sizeof got));
    if (!ok)
        test_note("graph %llu, way %d: %s", (unsigned long long)seed, (int)way,
                  zl_error() ? zl_error() : "other bits");
    zl_clear_error();
    return ok;
}

TEST(graphs_evaluated_in_any_order_give_the_same_bits) {
    zl_stream one = zl_new_stream("cpu"), two = zl_new_stream("cpu");
    REQUIRE(one && two);
    int failed = 0;
    for (int i = 0; i < graphs() && failed < 5; i++) {
        uint64_t seed = test_seed() * 1000003 + (uint64_t)i, want[ROOTS] = {0};
        ZL_SCOPE
            CHECK(hash_graph(TOGETHER, NULL, NULL, seed, want));
        failed += !check_way(ONE_BY_ONE, NULL, NULL, seed, want);
        failed += !check_way(ON_TWO_STREAMS, one, two, seed, want);
    }
    CHECK(zl_stream_synchronize(one) && zl_stream_synchronize(two));
}

// Other settings --------------------------------------------------------------------------------------------

static const char child_variable[] = "ZL_TEST_FUZZ_GRAPH";

// In a process that was started with the variable set to "first seed, count": prints the hashes and exits.
__attribute__((constructor)) static void print_hashes(void) {
    unsigned long long first;
    int count;
    const char *what = getenv(child_variable);
    if (!what || sscanf(what, "%llu,%d", &first, &count) != 2)
        return;
    for (int i = 0; i < count; i++) {
        uint64_t hash[ROOTS] = {0};
        ZL_SCOPE
            hash_graph(TOGETHER, NULL, NULL, first + (unsigned)i, hash);
        for (int k = 0; k < ROOTS; k++)
            printf("%016llx\n", (unsigned long long)hash[k]);
    }
    exit(0);
}

static FILE *start_with(const char *setting, uint64_t first, int count) {
    char command[4400], program[4096] = "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return NULL;
    snprintf(command, sizeof command, "%s %s=%llu,%d ASAN_OPTIONS=detect_leaks=0 '%s' 2>&1", setting,
             child_variable, (unsigned long long)first, count, program);
    fflush(stdout);
    return popen(command, "r");
}

// Returns whether the next ROOTS lines are these hashes. Sets *ended if there are no lines.
static bool same_as(FILE *other, const uint64_t *want, bool *ended) {
    char line[256];
    bool same = true;
    for (int i = 0; i < ROOTS; i++) {
        if ((*ended = !fgets(line, sizeof line, other)))
            return false;
        same &= strtoull(line, NULL, 16) == want[i];
    }
    return same;
}

// Returns how many graphs had the same bits in a process with that setting; stops if that process ended
// early.
static int compare_with(const char *setting, uint64_t first, int count) {
    FILE *other = start_with(setting, first, count);
    bool ended = !other;
    int same = 0;
    for (int i = 0; i < count && !ended; i++) {
        uint64_t want[ROOTS] = {0};
        ZL_SCOPE
            CHECK(hash_graph(TOGETHER, NULL, NULL, first + (uint64_t)i, want));
        bool is_same = same_as(other, want, &ended);
        same += is_same;
        if (!is_same && !ended && !CHECK(!"the same bits"))
            test_note("graph %llu with %s", (unsigned long long)first + (unsigned)i, setting);
    }
    if (other)
        pclose(other);
    return same;
}

TEST(graphs_evaluated_with_other_settings_give_the_same_bits) {
    static const char *const settings[] = {"ZL_FUSE=0",    "ZL_NARROW=1",  "ZL_NARROW=0",
                                           "ZL_THREADS=1", "ZL_THREADS=3", "ZL_ISA=scalar"};
    uint64_t first = test_seed() * 2000003;
    int64_t fused = zl_counter("fused");
    for (size_t i = 0; i < COUNT(settings); i++) {
        int same = compare_with(settings[i], first, graphs());
        if (i == 0 && same == 0)
            SKIP("this program cannot start itself (in an emulator)");
        CHECK_EQ_INT(same, graphs());
    }
    CHECK(test_quick() || zl_counter("fused") > fused);
}
