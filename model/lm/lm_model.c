// lm_model.c - the public functions of models: open, describe, and compute logits without a cache.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>

struct zl_model_ {
    struct lm_network network;
};

// Copies the message to the caller's buffer, truncated to its size.
static void say(const struct lm_error *from, char *error, size_t error_bytes) {
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s", from->text);
}

// Opens a checkpoint, or with `seed` makes random weights for a config.json.
static zl_model open_model(const char *function, const char *path, const int64_t *seed, char *error,
                           size_t error_bytes) {
    struct lm_error why = {""};
    zl_model model = calloc(1, sizeof *model);
    if (model && path &&
        (seed ? lm_network_random(&model->network, path, *seed, &why)
              : lm_network_open(&model->network, path, &why)))
        return model;
    if (!path || !model)
        lm_fail(&why, "%s: %s", function, path ? "out of memory" : "the path is NULL");
    say(&why, error, error_bytes);
    free(model);
    return NULL;
}

zl_model zl_model_open(const char *folder, char *error, size_t error_bytes) {
    return open_model("zl_model_open", folder, NULL, error, error_bytes);
}

zl_model zl_model_random(const char *config, int64_t seed, char *error, size_t error_bytes) {
    return open_model("zl_model_random", config, &seed, error, error_bytes);
}

void zl_model_close(zl_model model) {
    if (model)
        lm_network_free(&model->network);
    free(model);
}

const struct lm_network *lm_network_of(zl_model model) {
    return &model->network;
}

// A number of elements, and of the bytes that hold them.
struct size {
    double elements, bytes;
};

static void count_array(struct size *s, zl_array a, double share) {
    s->elements += a ? share * (double)zl_size(a) : 0;
    s->bytes += a ? share * (double)zl_nbytes(a) : 0;
}

// Adds a matrix, of which the fraction `share` counts.
static void count_matrix(struct size *s, const struct lm_linear *l, double share) {
    zl_array beside[] = {l->scales, l->biases};
    if (!l->weight)
        return;
    s->elements += share * (double)zl_size(l->weight) * (l->scales ? 32.0 / l->bits : 1);
    s->bytes += share * (double)zl_nbytes(l->weight);
    for (int i = 0; i < 2; i++)
        s->bytes += beside[i] ? share * (double)zl_nbytes(beside[i]) : 0;
    count_array(s, l->bias, share);
}

static void count_mlp(struct size *s, const struct lm_mlp *m, double share) {
    count_matrix(s, &m->gate, share);
    count_matrix(s, &m->up, share);
    count_matrix(s, &m->down, share);
}

static void count_delta(struct size *s, const struct lm_delta *d) {
    zl_array vector[] = {d->convolution, d->norm, d->rate, d->bias};
    for (size_t i = 0; i < sizeof d->in / sizeof *d->in; i++)
        count_matrix(s, &d->in[i], 1);
    count_matrix(s, &d->output, 1);
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        count_array(s, vector[i], 1);
}

// Adds a layer. experts: the fraction of its experts that counts.
static void count_layer(struct size *s, const struct lm_layer *l, double experts) {
    const struct lm_linear *matrix[] = {&l->q, &l->k, &l->v, &l->output, &l->router, &l->shared_gate};
    zl_array vector[] = {l->attention_norm, l->mlp_norm, l->q_norm, l->k_norm};
    for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++)
        count_matrix(s, matrix[i], 1);
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        count_array(s, vector[i], 1);
    count_mlp(s, &l->mlp, l->router.weight ? experts : 1);
    count_mlp(s, &l->shared, 1);
    count_delta(s, &l->delta);
}

// Counts the whole network, or if `active` only the matrices by which one token is multiplied.
static struct size count_network(const struct lm_network *n, bool active) {
    const struct lm_config *c = &n->config;
    struct size s = {0};
    double experts = active && c->experts ? (double)c->experts_used / c->experts : 1;
    for (int i = 0; i < c->layers; i++)
        count_layer(&s, &n->layer[i], experts);
    count_array(&s, n->norm, 1);
    count_matrix(&s, &n->head, 1);
    count_matrix(&s, &n->embedding, active && !c->tied ? 0 : 1);
    return s;
}

// Returns the number of layers whose cache grows with each position.
static size_t attending_layers(const struct lm_config *c) {
    size_t count = 0;
    for (int i = 0; i < c->layers; i++)
        count += !c->linear[i];
    return count;
}

static zl_dtype computed_in(const struct lm_network *n) {
    return n->embedding.rows != ZL_DTYPE_COUNT
               ? n->embedding.rows
               : zl_dtype_of(n->embedding.scales ? n->embedding.scales : n->embedding.weight);
}

zl_model_info zl_model_about(zl_model model) {
    if (!model)
        return (zl_model_info){.bos = -1};
    const struct lm_network *n = &model->network;
    const struct lm_config *c = &n->config;
    struct size all = count_network(n, false), active = count_network(n, true);
    zl_dtype dtype = computed_in(n);
    dtype = dtype == ZL_UINT8 ? ZL_BFLOAT16 : dtype; // the dtype that codes with 8-bit scales are decoded to
    return (zl_model_info){.type = c->family->type,
                           .layers = c->layers,
                           .hidden = c->hidden,
                           .vocabulary = c->vocabulary,
                           .heads = c->heads,
                           .kv_heads = c->kv_heads,
                           .head_dim = c->head_dim,
                           .positions = c->positions,
                           .parameters = (int64_t)all.elements,
                           .bytes = lm_weights_bytes(n->weights),
                           .bos = c->bos,
                           .eos = c->eos,
                           .eos_count = c->eos_count,
                           .active_parameters = (int64_t)active.elements,
                           .active_bytes = (size_t)active.bytes,
                           .position_bytes = 2 * attending_layers(c) * (size_t)c->kv_heads *
                                             (size_t)c->head_dim * zl_dtype_size(dtype),
                           .dtype = dtype};
}

zl_array zl_model_parameter(zl_model model, int index, const char **name) {
    return model && name ? lm_weights_at(model->network.weights, index, name) : NULL;
}

zl_array zl_model_hidden(zl_model model, zl_array ids, int layer, char *error, size_t error_bytes) {
    struct lm_error why = {"zl_model_hidden: model is NULL"};
    zl_array hidden = NULL;
    int layers = model ? model->network.config.layers : 0;
    if (model && (layer < 0 || layer > layers)) {
        snprintf(why.text, sizeof why.text, "zl_model_hidden: layer %d: 0 to %d are possible", layer, layers);
    } else if (model) {
        hidden = lm_hidden(&model->network, ids, layer, NULL);
        snprintf(why.text, sizeof why.text, "%s", zl_error() ? zl_error() : "zl_model_hidden: ids is NULL");
    }
    if (!hidden)
        say(&why, error, error_bytes);
    return hidden;
}

static zl_array logits_with(zl_model model, zl_array ids, struct lm_cache *cache) {
    zl_scope scope = zl_scope_begin();
    return zl_scope_leave(scope, lm_logits(&model->network, lm_hidden(&model->network, ids,
                                                                      model->network.config.layers, cache)));
}

zl_array zl_model_logits(zl_model model, zl_array ids) {
    return model ? logits_with(model, ids, NULL) : NULL;
}

zl_array zl_model_logits_rounded(zl_model model, zl_array ids, int kv_bits, char *error, size_t error_bytes) {
    struct lm_cache cache = {0};
    struct lm_error why = {"zl_model_logits_rounded: model is NULL"};
    zl_array logits = NULL;
    if (model && lm_cache_quantized(&cache, model->network.config.layers, kv_bits,
                                    model->network.config.head_dim, &why)) {
        logits = logits_with(model, ids, &cache);
        snprintf(why.text, sizeof why.text, "%s", zl_error() ? zl_error() : "");
    }
    lm_cache_free(&cache);
    if (!logits)
        say(&why, error, error_bytes);
    return logits;
}
