// lm_model.c - the public face of a network: what it is, and its logits without a cache.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>

struct zl_model_ {
    struct lm_network network;
};

// Gives the caller the message, cut to the room that there is.
static void say(const struct lm_error *from, char *error, size_t error_bytes) {
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s", from->text);
}

zl_model zl_model_open(const char *folder, char *error, size_t error_bytes) {
    struct lm_error why = {""};
    zl_model model = calloc(1, sizeof *model);
    if (model && folder && lm_network_open(&model->network, folder, &why))
        return model;
    if (!folder || !model)
        lm_fail(&why, "zl_model_open: %s", folder ? "out of memory" : "folder is NULL");
    say(&why, error, error_bytes);
    free(model);
    return NULL;
}

void zl_model_close(zl_model model) {
    if (model)
        lm_network_free(&model->network);
    free(model);
}

const struct lm_network *lm_network_of(zl_model model) {
    return &model->network;
}

static int64_t matrix_size(const struct lm_linear *l) {
    if (!l->weight)
        return 0;
    int64_t size = zl_size(l->weight);
    return (l->scales ? size * 32 / l->bits : size) + (l->bias ? zl_size(l->bias) : 0);
}

static int64_t mlp_size(const struct lm_mlp *m) {
    return matrix_size(&m->gate) + matrix_size(&m->up) + matrix_size(&m->down);
}

static int64_t vector_size(zl_array a) {
    return a ? zl_size(a) : 0;
}

static int64_t delta_size(const struct lm_delta *d) {
    int64_t size = matrix_size(&d->output) + vector_size(d->convolution) + vector_size(d->norm) +
                   vector_size(d->rate) + vector_size(d->bias);
    for (int i = 0; i < 4; i++)
        size += matrix_size(&d->in[i]);
    return size;
}

static int64_t layer_size(const struct lm_layer *l) {
    return matrix_size(&l->q) + matrix_size(&l->k) + matrix_size(&l->v) + matrix_size(&l->output) +
           mlp_size(&l->mlp) + mlp_size(&l->shared) + matrix_size(&l->router) + matrix_size(&l->shared_gate) +
           vector_size(l->attention_norm) + vector_size(l->mlp_norm) + vector_size(l->q_norm) +
           vector_size(l->k_norm) + delta_size(&l->delta);
}

zl_model_info zl_model_about(zl_model model) {
    if (!model)
        return (zl_model_info){.bos = -1};
    const struct lm_network *n = &model->network;
    const struct lm_config *c = &n->config;
    int64_t size = matrix_size(&n->embedding) + matrix_size(&n->head) + vector_size(n->norm);
    for (int i = 0; i < c->layers; i++)
        size += layer_size(&n->layer[i]);
    return (zl_model_info){c->family->type,
                           c->layers,
                           c->hidden,
                           c->vocabulary,
                           c->positions,
                           size,
                           lm_weights_bytes(n->weights),
                           c->bos,
                           c->eos,
                           c->eos_count};
}

zl_array zl_model_parameter(zl_model model, int index, const char **name) {
    return model && name ? lm_weights_at(model->network.weights, index, name) : NULL;
}

zl_array zl_model_hidden(zl_model model, zl_array ids, int layer) {
    if (!model || layer < 0 || layer > model->network.config.layers)
        return NULL;
    return lm_hidden(&model->network, ids, layer, NULL);
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
