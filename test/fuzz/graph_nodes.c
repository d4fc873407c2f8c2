// graph_nodes.c - the kinds of nodes in random graphs: elementwise ops, casts, reductions, patterns of
// models, products and views.

#include "random_graph.h"

#include <string.h>

static const struct random_node *first_input(const struct random_graph *g, const struct random_node *n) {
    return &g->node[n->in[0]];
}

// Elementwise -----------------------------------------------------------------------------------------------

// Most calls are of ops that keep numbers small, since NaN hides errors.
static const struct row {
    const char *name;
    zl_array (*one)(zl_array);
    zl_array (*two)(zl_array, zl_array);
    int rule;
} tame[] =
    {
        {"zl_negative", zl_negative, NULL, ANY}, {"zl_abs", zl_abs, NULL, ANY},
        {"zl_tanh", zl_tanh, NULL, ANY},         {"zl_sigmoid", zl_sigmoid, NULL, ANY},
        {"zl_sin", zl_sin, NULL, ANY},           {"zl_erf", zl_erf, NULL, REAL},
        {"zl_add", NULL, zl_add, ANY},           {"zl_subtract", NULL, zl_subtract, ANY},
        {"zl_multiply", NULL, zl_multiply, ANY}, {"zl_maximum", NULL, zl_maximum, ANY},
},
  rows[] = {
#define UNARY(NAME, fn, doc, rule, tangent, lower, domain)   {#fn, fn, NULL, rule},
#define BINARY(NAME, fn, doc, rule, tangents, lower, domain) {#fn, NULL, fn, rule},
#include "op/elementwise.def"
};

static const struct row *row_of(int pick) {
    return pick < (int)COUNT(tame) ? &tame[pick] : &rows[pick - (int)COUNT(tame)];
}

static const char *row_name(int pick) {
    return row_of(pick)->name;
}

static bool choose_row(struct random_graph *g, struct random_node *n) {
    n->pick = (int)(fuzz_between(g, 0, 4) ? fuzz_between(g, 0, COUNT(tame) - 1)
                                          : fuzz_between(g, 0, COUNT(tame) + COUNT(rows) - 1));
    n->number = (double)fuzz_between(g, -8, 8) / 4;
    n->has_number = row_of(n->pick)->two && fuzz_between(g, 0, 4) == 0;
    if (!row_of(n->pick)->two || n->has_number)
        n->in[1] = -1;
    return true;
}

static zl_array as_row_wants(const struct row *r, zl_array x) {
    if ((r->rule & BITS) && dtype_is_inexact(zl_dtype_of(x)))
        return zl_astype(x, ZL_INT16);
    if ((r->rule & NUMBERS) && zl_dtype_of(x) == ZL_BOOL)
        return zl_astype(x, ZL_INT8);
    return (r->rule & REAL) && zl_dtype_of(x) == ZL_COMPLEX64 ? zl_real(x) : x;
}

static zl_array apply_row(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    const struct row *r = row_of(n->pick);
    zl_array x = as_row_wants(r, in[0]);
    if (r->one)
        return r->one(x);
    bool whole = r->rule & BITS;
    zl_array number = whole ? zl_scalar_int((int64_t)n->number) : zl_scalar(n->number);
    return r->two(x, in[1] ? as_row_wants(r, in[1]) : number);
}

static zl_array apply_where(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)n, (void)s;
    return zl_where(zl_less(zl_real(in[0]), zl_real(in[1])), in[0], in[1]);
}

zl_dtype fuzz_any_dtype(struct random_graph *g) {
    static const zl_dtype usual[] = {ZL_FLOAT32, ZL_FLOAT32, ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT64};
    return fuzz_between(g, 0, 7) ? usual[fuzz_between(g, 0, COUNT(usual) - 1)]
                                 : (zl_dtype)fuzz_between(g, 0, ZL_DTYPE_COUNT - 1);
}

static bool choose_cast(struct random_graph *g, struct random_node *n) {
    n->dtype = fuzz_any_dtype(g);
    return true;
}

static zl_array apply_cast(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    return zl_astype(in[0], n->dtype);
}

// Reductions and what models make of them -------------------------------------------------------------------

static zl_array variance(zl_array x, zl_axes axes, bool keep) {
    return zl_var_axes(x, axes, keep, 0);
}

static const struct reduction {
    const char *name;
    zl_array (*call)(zl_array, zl_axes, bool);
} reductions[] = {
    {"zl_sum_axes", zl_sum_axes},   {"zl_sum_axes", zl_sum_axes},   {"zl_max_axes", zl_max_axes},
    {"zl_mean_axes", zl_mean_axes}, {"zl_min_axes", zl_min_axes},   {"zl_logsumexp_axes", zl_logsumexp_axes},
    {"zl_var_axes", variance},      {"zl_prod_axes", zl_prod_axes}, {"zl_any_axes", zl_any_axes},
    {"zl_all_axes", zl_all_axes},
};

static const char *reduction_name(int pick) {
    return reductions[pick].name;
}

// Chooses mostly the last axis, otherwise another one, or all.
static bool choose_axes(struct random_graph *g, struct random_node *n) {
    int ndim = first_input(g, n)->ndim;
    if (ndim == 0)
        return false;
    n->axes = fuzz_between(g, 0, 9) ? 1 : ndim;
    n->axis[0] = (int)(fuzz_between(g, 0, 2) ? ndim - 1 : fuzz_between(g, 0, ndim - 1));
    for (int i = 0; n->axes > 1 && i < ndim; i++)
        n->axis[i] = i;
    n->keep = fuzz_draw(g) & 1;
    return true;
}

static bool choose_reduction(struct random_graph *g, struct random_node *n) {
    n->pick = (int)fuzz_between(g, 0, COUNT(reductions) - 1);
    return choose_axes(g, n);
}

static zl_axes axes_of(const struct random_node *n) {
    return (zl_axes){n->axis, n->axes};
}

static zl_array apply_reduction(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    return reductions[n->pick].call(in[0], axes_of(n), n->keep);
}

static zl_array pattern_softmax(zl_array x, zl_axes axes) {
    zl_array e = zl_exp(zl_subtract(x, zl_max_axes(x, axes, true)));
    return zl_divide(e, zl_sum_axes(e, axes, true));
}

static zl_array pattern_log_softmax(zl_array x, zl_axes axes) {
    return zl_subtract(x, zl_logsumexp_axes(x, axes, true));
}

static zl_array pattern_layer_norm(zl_array x, zl_axes axes) {
    zl_array centred = zl_subtract(x, zl_mean_axes(x, axes, true));
    return zl_multiply(centred, zl_rsqrt(zl_add(zl_var_axes(x, axes, true, 0), zl_scalar(1e-5))));
}

static zl_array pattern_rms_norm(zl_array x, zl_axes axes) {
    return zl_multiply(x, zl_rsqrt(zl_add(zl_mean_axes(zl_square(x), axes, true), zl_scalar(1e-5))));
}

static zl_array pattern_gelu(zl_array x, zl_axes axes) {
    (void)axes;
    zl_array inner = zl_multiply(zl_add(x, zl_multiply(zl_scalar(0.044715), zl_power(x, zl_scalar(3)))),
                                 zl_scalar(0.7978845608));
    return zl_multiply(zl_multiply(zl_scalar(0.5), x), zl_add(zl_scalar(1), zl_tanh(inner)));
}

static zl_array pattern_cross_entropy(zl_array x, zl_axes axes) {
    zl_array target = zl_astype(zl_greater_equal(x, zl_max_axes(x, axes, true)), ZL_FLOAT32);
    return zl_sum_axes(zl_negative(zl_multiply(target, pattern_log_softmax(x, axes))), axes, false);
}

static zl_array built_in_softmax(zl_array x, zl_axes axes) {
    return zl_softmax_axes(x, axes, false);
}

static const struct pattern {
    const char *name;
    zl_array (*call)(zl_array, zl_axes);
} patterns[] = {
    {"softmax by hand", pattern_softmax},
    {"log_softmax", pattern_log_softmax},
    {"layer_norm", pattern_layer_norm},
    {"rms_norm", pattern_rms_norm},
    {"gelu", pattern_gelu},
    {"cross_entropy", pattern_cross_entropy},
    {"zl_softmax_axes", built_in_softmax},
};

static const char *pattern_name(int pick) {
    return patterns[pick].name;
}

static bool choose_pattern(struct random_graph *g, struct random_node *n) {
    n->pick = (int)fuzz_between(g, 0, COUNT(patterns) - 1);
    return choose_axes(g, n);
}

static zl_array apply_pattern(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    zl_array x = dtype_is_float(zl_dtype_of(in[0])) ? in[0] : zl_astype(zl_real(in[0]), ZL_FLOAT32);
    return patterns[n->pick].call(x, axes_of(n));
}

static zl_array apply_swiglu(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)n, (void)s;
    return zl_multiply(zl_multiply(in[0], zl_sigmoid(in[0])), in[1]);
}

static zl_array apply_matmul(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)n, (void)s;
    return zl_matmul(in[0], in[1]);
}

// Views -----------------------------------------------------------------------------------------------------

static bool choose_permutation(struct random_graph *g, struct random_node *n) {
    n->axes = first_input(g, n)->ndim;
    for (int i = 0; i < n->axes; i++) {
        int k = (int)fuzz_between(g, 0, i);
        n->axis[i] = n->axis[k];
        n->axis[k] = i;
    }
    return n->axes > 1;
}

static zl_array apply_transpose(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    return zl_transpose(in[0], axes_of(n));
}

static zl_array apply_flip(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    return zl_flip(in[0], axes_of(n));
}

static bool choose_place(struct random_graph *g, struct random_node *n) {
    n->axes = 1;
    n->axis[0] = (int)fuzz_between(g, 0, first_input(g, n)->ndim);
    return true;
}

static zl_array apply_expand_dims(const struct random_node *n, const struct fuzz_sizes *s,
                                  const zl_array *in) {
    (void)s;
    return zl_expand_dims(in[0], axes_of(n));
}

// Chooses only axes that have size 1 for all sizes.
static bool choose_ones(struct random_graph *g, struct random_node *n) {
    const struct random_node *from = first_input(g, n);
    for (int i = 0; i < from->ndim; i++)
        if (from->dim[i] == 1)
            n->axis[n->axes++] = i;
    return n->axes > 0;
}

static zl_array apply_squeeze(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    (void)s;
    return zl_squeeze(in[0], axes_of(n));
}

// Merges two axes into one, or divides a merged one again, perhaps in the other order.
static bool choose_reshape(struct random_graph *g, struct random_node *n) {
    const struct random_node *from = first_input(g, n);
    if (from->ndim == 0)
        return false;
    int at = (int)fuzz_between(g, 0, from->ndim - 1);
    bool joins = at + 1 < from->ndim && fuzz_draw(g) & 1;
    int64_t factor = fuzz_probe.of[fuzz_between(g, 0, FUZZ_SIZES - 1)];
    if (!joins && (from->dim[at] % factor || from->ndim == FUZZ_RANK))
        return false;
    for (int i = 0; i < from->ndim; i++) {
        if (joins && i == at + 1)
            n->dim[n->ndim - 1] *= from->dim[i];
        else if (!joins && i == at)
            n->dim[n->ndim++] = factor, n->dim[n->ndim++] = from->dim[i] / factor;
        else
            n->dim[n->ndim++] = from->dim[i];
    }
    return true;
}

static zl_array apply_reshape(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    int64_t room[FUZZ_RANK];
    return zl_reshape(in[0], fuzz_shape(n, s, room));
}

static bool choose_broadcast(struct random_graph *g, struct random_node *n) {
    const struct random_node *like = &g->node[n->in[1]];
    n->in[1] = -1;
    n->ndim = like->ndim;
    memcpy(n->dim, like->dim, sizeof n->dim);
    return true;
}

static zl_array apply_broadcast(const struct random_node *n, const struct fuzz_sizes *s, const zl_array *in) {
    int64_t room[FUZZ_RANK];
    return zl_broadcast_to(in[0], fuzz_shape(n, s, room));
}

// Kinds -----------------------------------------------------------------------------------------------------

const struct node_kind fuzz_leaf = {.name = "leaf"};

static const struct node_kind kinds[] = {
    {"elementwise", 30, 2, choose_row, apply_row, row_name},
    {"zl_where", 2, 2, NULL, apply_where, NULL},
    {"zl_astype", 3, 1, choose_cast, apply_cast, NULL},
    {"reduction", 6, 1, choose_reduction, apply_reduction, reduction_name},
    {"pattern", 5, 1, choose_pattern, apply_pattern, pattern_name},
    {"swiglu", 1, 2, NULL, apply_swiglu, NULL},
    {"zl_matmul", 3, 2, NULL, apply_matmul, NULL},
    {"zl_transpose", 1, 1, choose_permutation, apply_transpose, NULL},
    {"zl_flip", 1, 1, choose_axes, apply_flip, NULL},
    {"zl_expand_dims", 2, 1, choose_place, apply_expand_dims, NULL},
    {"zl_squeeze", 1, 1, choose_ones, apply_squeeze, NULL},
    {"zl_reshape", 2, 1, choose_reshape, apply_reshape, NULL},
    {"zl_broadcast_to", 1, 2, choose_broadcast, apply_broadcast, NULL},
};

const struct node_kind *fuzz_any_kind(struct random_graph *g) {
    int all = 0, at = 0;
    for (size_t i = 0; i < COUNT(kinds); i++)
        all += kinds[i].weight;
    int64_t left = fuzz_between(g, 0, all - 1);
    while (left >= kinds[at].weight)
        left -= kinds[at++].weight;
    return &kinds[at];
}
