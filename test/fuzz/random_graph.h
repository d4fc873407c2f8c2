// random_graph.h - random graphs that can be built again for other sizes and data, and printed.
//
// A graph is first made with probe sizes, which are four primes: an axis of 6 is rows times columns, whatever
// sizes these have when the graph is built. So its structure does not change, and plans and kernels made for
// it serve all sizes.

#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include "op/op.h"
#include "test.h"

enum { FUZZ_NODES = 24, FUZZ_LEAVES = 4, FUZZ_OUTPUTS = 3, FUZZ_RANK = 4, FUZZ_SIZES = 4 };

struct fuzz_sizes {
    int64_t of[FUZZ_SIZES]; // rows, columns, depth, width
};

struct random_node {
    const struct node_kind *kind;
    int in[2];   // earlier nodes; -1: none
    int pick;    // which op of its kind
    int axes, axis[FUZZ_RANK];
    bool keep;       // reduced axes stay, with size 1
    bool has_number; // a number replaces the second input
    bool is_read;    // by a later node
    double number;
    zl_dtype dtype;          // of the result
    int ndim;                // of the result
    int64_t dim[FUZZ_RANK]; // in probe sizes
};

struct random_graph {
    uint64_t seed, random;
    int nodes, leaves; // the leaves are the first nodes
    struct random_node node[FUZZ_NODES];
    int outputs, output[FUZZ_OUTPUTS];
    bool is_odd; // its data include infinities, NaN, zeros and numbers of very different magnitudes
};

void fuzz_make(struct random_graph *g, uint64_t seed);
struct fuzz_sizes fuzz_random_sizes(struct random_graph *g);

// Makes arrays for the leaves, evaluated and retained.
bool fuzz_make_leaves(struct random_graph *g, const struct fuzz_sizes *s, zl_array *leaf);

// Builds the outputs, retained and not evaluated. If `alone`, each node is evaluated separately meanwhile.
bool fuzz_build(const struct random_graph *g, const struct fuzz_sizes *s, const zl_array *leaf, bool alone,
                 zl_array *out);

// Prints the nodes that outputs need.
void fuzz_print(const struct random_graph *g, const struct fuzz_sizes *s);

// graph_nodes.c ---------------------------------------------------------------------------------------------

struct node_kind {
    const char *name;
    int weight; // how often it is chosen
    int inputs;
    // Chooses what is random about it besides its inputs; NULL: nothing. Returns false if it cannot be made
    // from them.
    bool (*choose)(struct random_graph *g, struct random_node *n);
    zl_array (*apply)(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in);
    const char *(*name_of)(int pick); // NULL: the name suffices
};

extern const struct node_kind fuzz_leaf;
const struct node_kind *fuzz_any_kind(struct random_graph *g);
zl_dtype fuzz_any_dtype(struct random_graph *g);

// For kinds of nodes. A graph has its own random numbers, which are the same for the same seed.
extern const struct fuzz_sizes fuzz_probe;
uint64_t fuzz_draw(struct random_graph *g);
int64_t  fuzz_between(struct random_graph *g, int64_t lo, int64_t hi);
zl_shape fuzz_shape(const struct random_node *n, const struct fuzz_sizes *s, int64_t *room); // shape of the
                                                                                             // result

#endif
