// random_graph.c - makes, builds and prints random graphs, and the data of their leaves.

#include "random_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct fuzz_sizes fuzz_probe = {{2, 3, 5, 7}};
enum { PROBE_ALL = 2 * 3 * 5 * 7 };
static const char *const size_names[FUZZ_SIZES] = {"rows", "columns", "depth", "width"};

uint64_t fuzz_draw(struct random_graph *g) {
    g->random += 0x9e3779b97f4a7c15;
    return hash_bytes(&g->random, sizeof g->random, 1);
}

int64_t fuzz_between(struct random_graph *g, int64_t lo, int64_t hi) {
    return lo + (int64_t)(fuzz_draw(g) % (uint64_t)(hi - lo + 1));
}

static int64_t size_of(int64_t dim, const struct fuzz_sizes *s) {
    int64_t size = 1;
    for (int i = 0; i < FUZZ_SIZES; i++)
        size *= dim % fuzz_probe.of[i] ? 1 : s->of[i];
    return size;
}

zl_shape fuzz_shape(const struct random_node *n, const struct fuzz_sizes *s, int64_t *room) {
    for (int i = 0; i < n->ndim; i++)
        room[i] = size_of(n->dim[i], s);
    return (zl_shape){room, n->ndim};
}

// Graphs ----------------------------------------------------------------------------------------------------

// Returns how preferable a node is as an input: matrices, nodes that are not read yet, and late nodes are
// preferred, so that graphs are deep, and little is computed in vain.
static int worth(const struct random_graph *g, int at) {
    const struct random_node *n = &g->node[at];
    int64_t product = 1;
    for (int i = 0; i < n->ndim; i++)
        product *= n->dim[i];
    bool is_matrix = product % (fuzz_probe.of[0] * fuzz_probe.of[1]) == 0;
    return (is_matrix ? 4 * FUZZ_NODES : 0) + (n->is_read ? 0 : 2 * FUZZ_NODES) + at;
}

// Returns the best of `some` random nodes.
static int any_node(struct random_graph *g, int some) {
    int best = (int)fuzz_between(g, 0, g->nodes - 1);
    while (--some > 0) {
        int other = (int)fuzz_between(g, 0, g->nodes - 1);
        best = worth(g, other) > worth(g, best) ? other : best;
    }
    return best;
}

static zl_array apply(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *node) {
    zl_array in[2] = {node[n->in[0]], n->in[1] < 0 ? NULL : node[n->in[1]]};
    return n->kind->apply(n, s, in);
}

// Records a node's dtype and shape. Returns false if it is too large: each size may occur only once in it,
// since rows x rows would be too many elements.
static bool note_result(struct random_node *n, zl_array x) {
    int64_t product = 1;
    if (!x || zl_ndim(x) > FUZZ_RANK)
        return false;
    n->dtype = zl_dtype_of(x);
    n->ndim = zl_ndim(x);
    for (int i = 0; i < n->ndim; i++)
        product *= n->dim[i] = zl_dim(x, i);
    return PROBE_ALL % product == 0;
}

static bool try_node(struct random_graph *g, zl_array *node) {
    struct random_node n = {.kind = fuzz_any_kind(g), .in = {any_node(g, 4), any_node(g, 1)}};
    if (n.kind->inputs < 2)
        n.in[1] = -1;
    if (n.kind->choose && !n.kind->choose(g, &n))
        return false;
    zl_array x = node[g->nodes] = apply(&n, &fuzz_probe, node);
    bool ok = note_result(&n, x);
    zl_clear_error(); // errors of ops that lack this dtype, or of shapes that do not fit
    for (int i = 0; ok && i < 2; i++)
        if (n.in[i] >= 0)
            g->node[n.in[i]].is_read = true;
    if (ok)
        g->node[g->nodes++] = n;
    return ok;
}

// Adds leaves: a matrix first, then rows, columns, numbers, weights and stacks of matrices.
static void add_leaf(struct random_graph *g, zl_array *node) {
    static const struct {
        int ndim;
        int64_t dim[3];
    } shapes[] = {{2, {2, 3}}, {2, {2, 3}},    {1, {3}}, {2, {2, 1}},   {0, {0}},
                  {2, {3, 7}}, {3, {5, 2, 3}}, {1, {6}}, {3, {5, 1, 3}}};
    int pick = (int)(g->nodes ? fuzz_between(g, 0, COUNT(shapes) - 1) : fuzz_between(g, 0, 3) ? 0 : 6);
    struct random_node *n = &g->node[g->nodes];
    *n = (struct random_node){
        .kind = &fuzz_leaf, .in = {-1, -1}, .dtype = fuzz_any_dtype(g), .ndim = shapes[pick].ndim};
    memcpy(n->dim, shapes[pick].dim, sizeof shapes[pick].dim);
    node[g->nodes++] = zl_zeros((zl_shape){n->dim, n->ndim}, n->dtype);
}

// Finds the nodes that the outputs need, and returns how many they are.
static int find_needed(const struct random_graph *g, bool *needed) {
    int count = 0;
    memset(needed, 0, sizeof *needed * FUZZ_NODES);
    for (int i = 0; i < g->outputs; i++)
        needed[g->output[i]] = true;
    for (int i = g->nodes - 1; i >= 0; i--) {
        count += needed[i];
        for (int k = 0; needed[i] && k < 2; k++)
            if (g->node[i].in[k] >= 0)
                needed[g->node[i].in[k]] = true;
    }
    return count;
}

// Chooses first the node that needs the most others, then nodes that are not read, and sometimes an inner
// node.
static void choose_outputs(struct random_graph *g) {
    bool needed[FUZZ_NODES];
    int most = 0, best = g->nodes - 1, wanted = (int)fuzz_between(g, 1, FUZZ_OUTPUTS);
    g->outputs = 1;
    for (int i = g->leaves; i < g->nodes; i++) {
        g->output[0] = i;
        int count = find_needed(g, needed);
        best = count > most ? i : best;
        most = count > most ? count : most;
    }
    g->output[0] = best;
    for (int i = g->nodes - 1; i >= g->leaves && g->outputs < wanted; i--)
        if (i != best && (!g->node[i].is_read || fuzz_between(g, 0, 9) == 0))
            g->output[g->outputs++] = i;
}

void fuzz_make(struct random_graph *g, uint64_t seed) {
    *g = (struct random_graph){.seed = seed, .random = seed};
    zl_array node[FUZZ_NODES];
    ZL_SCOPE {
        g->is_odd = fuzz_between(g, 0, 3) == 0;
        g->leaves = (int)fuzz_between(g, 2, FUZZ_LEAVES);
        while (g->nodes < g->leaves)
            add_leaf(g, node);
        int nodes = (int)fuzz_between(g, g->leaves + 3, FUZZ_NODES);
        for (int tries = 0; g->nodes < nodes && tries < 2000; tries++)
            try_node(g, node);
    }
    choose_outputs(g);
}

// Sizes around the one at which calls begin to be fused, and well above it; rows of any length.
struct fuzz_sizes fuzz_random_sizes(struct random_graph *g) {
    static const int64_t most[] = {100, 8191, 8192, 9000, 20000, 20000, 60000, 60000};
    int64_t elements = most[fuzz_between(g, 0, COUNT(most) - 1)];
    int64_t powers = 1 << fuzz_between(g, 0, 12), any = fuzz_between(g, 1, fuzz_draw(g) & 1 ? 5000 : 80);
    int64_t columns = fuzz_between(g, 0, 3) ? any : powers;
    int64_t rows = elements > columns ? elements / columns : 1;
    return (struct fuzz_sizes){{rows, columns, fuzz_between(g, 1, 3), fuzz_between(g, 1, 40)}};
}

static double any_number(struct random_graph *g) {
    static const double odd[] = {0.0, -0.0, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1e30, 0.5, -1e-30};
    if (g->is_odd && fuzz_between(g, 0, 2000) == 0)
        return odd[fuzz_between(g, 0, COUNT(odd) - 1)];
    if (g->is_odd && fuzz_between(g, 0, 200) == 0) // of another magnitude than the others, but finite in most
                                                   // later results
        return ldexp((double)fuzz_between(g, -4096, 4096), fuzz_between(g, -150, 100));
    return (double)fuzz_between(g, -40000, 40000) / 16384;
}

bool fuzz_make_leaves(struct random_graph *g, const struct fuzz_sizes *s, zl_array *leaf) {
    bool ok = true;
    for (int i = 0; i < g->leaves; i++) {
        int64_t room[FUZZ_RANK];
        zl_shape shape = fuzz_shape(&g->node[i], s, room);
        int64_t size = 1;
        for (int k = 0; k < shape.ndim; k++)
            size *= shape.dim[k];
        double *data = malloc(sizeof *data * (size_t)size);
        for (int64_t k = 0; data && k < size; k++)
            data[k] = any_number(g);
        ZL_SCOPE
            leaf[i] = data ? zl_retain(zl_astype(zl_from_f64(data, shape), g->node[i].dtype)) : NULL;
        free(data);
        ok &= leaf[i] && zl_eval(leaf[i]);
    }
    return ok;
}

bool fuzz_build(const struct random_graph *g, const struct fuzz_sizes *s, const zl_array *leaf, bool alone,
                zl_array *out) {
    zl_array node[FUZZ_NODES] = {NULL};
    bool ok = true;
    zl_scope scope = zl_scope_begin();
    for (int i = 0; ok && i < g->nodes; i++) {
        node[i] = i < g->leaves ? leaf[i] : apply(&g->node[i], s, node);
        if (alone)
            zl_retain(node[i]);
        ok = node[i] && (!alone || zl_eval(node[i]));
    }
    for (int i = 0; i < g->outputs; i++)
        out[i] = ok ? zl_retain(node[g->output[i]]) : NULL;
    for (int i = 0; alone && i < g->nodes; i++)
        zl_release(node[i]);
    zl_scope_end(scope);
    return ok;
}

// Printing --------------------------------------------------------------------------------------------------

static void print_node(const struct random_graph *g, int at) {
    const struct random_node *n = &g->node[at];
    struct text line = {0};
    text_add(&line, "n%d = %s(", at, n->kind->name_of ? n->kind->name_of(n->pick) : n->kind->name);
    for (int i = 0; i < n->kind->inputs && n->in[i] >= 0; i++)
        text_add(&line, "%sn%d", i ? ", " : "", n->in[i]);
    if (n->has_number)
        text_add(&line, ", %g", n->number);
    for (int i = 0; i < n->axes; i++)
        text_add(&line, "%s%d", i ? " " : ", axes ", n->axis[i]);
    text_add(&line, "%s): %s (", n->keep ? ", keepdims" : "", zl_dtype_name(n->dtype));
    for (int i = 0; i < n->ndim; i++) {
        const char *sign = "";
        text_add(&line, "%s%s", i ? ", " : "", n->dim[i] == 1 ? "1" : "");
        for (int k = 0; k < FUZZ_SIZES; k++)
            if (n->dim[i] % fuzz_probe.of[k] == 0) {
                text_add(&line, "%s%s", sign, size_names[k]);
                sign = " * ";
            }
    }
    test_note("  %s)", line.data);
    text_free(&line);
}

void fuzz_print(const struct random_graph *g, const struct fuzz_sizes *s) {
    bool needed[FUZZ_NODES];
    find_needed(g, needed);
    test_note("graph %llu: %lld rows, %lld columns, depth %lld, width %lld", (unsigned long long)g->seed,
              (long long)s->of[0], (long long)s->of[1], (long long)s->of[2], (long long)s->of[3]);
    for (int i = 0; i < g->nodes; i++)
        if (needed[i])
            print_node(g, i);
    for (int i = 0; i < g->outputs; i++)
        test_note("  output %d is n%d", i, g->output[i]);
}
