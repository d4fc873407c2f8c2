// lm_network.c - a decoder: the embedding, layers of attention and MLP with a norm before each, the last
// norm, and the logits.

#include "lm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Loading ---------------------------------------------------------------------------------------------------

struct loader {
    struct lm_network *network;
    struct lm_error *error;
    char layer[64]; // "model.layers.3"
};

// Prefixes of tensor names: of text models, of multimodal models, and of models that mlx-lm converted.
static const struct {
    const char *text, *head;
} prefixes[] = {
    {"model", "lm_head"},
    {"model.language_model", "lm_head"},
    {"language_model.model", "language_model.lm_head"},
};

static void find_prefix(struct lm_network *n) {
    char name[96];
    n->prefix.text = prefixes[0].text, n->prefix.head = prefixes[0].head;
    for (size_t i = 1; i < sizeof prefixes / sizeof *prefixes; i++) {
        snprintf(name, sizeof name, "%s.embed_tokens.weight", prefixes[i].text);
        if (lm_weights_has(n->weights, name))
            n->prefix.text = prefixes[i].text, n->prefix.head = prefixes[i].head;
    }
}

// Returns whether the weights of norms are stored without the 1 that is added to them, as on the hub. mlx-lm
// adds the 1 when it converts; its files are recognised by their convolutions, whose shape is (channels,
// width, 1) there and (channels, 1, width) on the hub.
static bool find_centred(const struct lm_network *n) {
    const struct lm_config *c = &n->config;
    struct lm_error unread;
    char name[192];
    for (int i = 0; c->family->delta && i < c->layers; i++) {
        snprintf(name, sizeof name, "%s.layers.%d.linear_attn.conv1d.weight", n->prefix.text, i);
        zl_array weight = c->linear[i] && lm_weights_has(n->weights, name)
                              ? lm_weights_take(n->weights, name, ZL_SHAPE(-1, -1, -1), &unread)
                              : NULL;
        if (weight)
            return zl_dim(weight, 1) == 1;
    }
    return c->family->delta;
}

static const char *tensor_name(const struct loader *l, const char *part, char out[static 192]) {
    snprintf(out, 192, "%s.%s", l->layer, part);
    return out;
}

static bool load_matrix(struct loader *l, struct lm_linear *matrix, const char *part, int outputs, int inputs,
                        bool bias) {
    char name[192];
    return lm_linear_load(matrix, l->network->weights, &l->network->config, tensor_name(l, part, name), 0,
                          outputs, inputs, bias, l->error);
}

static bool load_vector(struct loader *l, zl_array *vector, const char *part, int size) {
    char name[192];
    *vector =
        zl_retain(lm_weights_take(l->network->weights, tensor_name(l, part, name), ZL_SHAPE(size), l->error));
    return *vector;
}

// Loads the weight of a norm. If it is stored less 1, the 1 is added when it is first used, in float32, since
// a sum in bfloat16 would lose bits.
static bool load_norm(struct loader *l, zl_array *norm, const char *part, int size) {
    if (!load_vector(l, norm, part, size) || !l->network->centred)
        return *norm;
    zl_array weight = *norm;
    ZL_SCOPE {
        *norm = zl_retain(zl_add(zl_astype(weight, ZL_FLOAT32), zl_scalar(1)));
    }
    zl_release(weight);
    return *norm;
}

static bool load_attention(struct loader *l, struct lm_layer *layer) {
    const struct lm_config *c = &l->network->config;
    int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    return load_matrix(l, &layer->q, "self_attn.q_proj", c->output_gate ? 2 * q : q, c->hidden,
                       c->qkv_bias) &&
           load_matrix(l, &layer->k, "self_attn.k_proj", kv, c->hidden, c->qkv_bias) &&
           load_matrix(l, &layer->v, "self_attn.v_proj", kv, c->hidden, c->qkv_bias) &&
           load_matrix(l, &layer->output, "self_attn.o_proj", c->hidden, q, c->output_bias) &&
           (!c->family->qk_norm || (load_norm(l, &layer->q_norm, "self_attn.q_norm.weight", c->head_dim) &&
                                    load_norm(l, &layer->k_norm, "self_attn.k_norm.weight", c->head_dim)));
}

static bool load_mlp(struct loader *l, struct lm_mlp *mlp, const char *part, int ffn, bool bias) {
    char gate[96], up[96], down[96];
    snprintf(gate, sizeof gate, "%s.gate_proj", part);
    snprintf(up, sizeof up, "%s.up_proj", part);
    snprintf(down, sizeof down, "%s.down_proj", part);
    int hidden = l->network->config.hidden;
    return load_matrix(l, &mlp->gate, gate, ffn, hidden, bias) &&
           load_matrix(l, &mlp->up, up, ffn, hidden, bias) &&
           load_matrix(l, &mlp->down, down, hidden, ffn, bias);
}

// Loads experts that are stored as two stacks: (experts, 2 ffn, hidden) with the rows of gate before those of
// up, and (experts, hidden, ffn).
static bool load_stacks(struct loader *l, struct lm_mlp *mlp) {
    const struct lm_config *c = &l->network->config;
    char name[192];
    zl_array both = lm_weights_take(l->network->weights, tensor_name(l, "mlp.experts.gate_up_proj", name),
                                    ZL_SHAPE(c->experts, 2 * c->expert_ffn, c->hidden), l->error);
    mlp->down.weight =
        zl_retain(lm_weights_take(l->network->weights, tensor_name(l, "mlp.experts.down_proj", name),
                                  ZL_SHAPE(c->experts, c->hidden, c->expert_ffn), l->error));
    if (!both || !mlp->down.weight)
        return false;
    ZL_SCOPE {
        mlp->gate.weight = zl_retain(lm_slice(both, 1, 0, c->expert_ffn));
        mlp->up.weight = zl_retain(lm_slice(both, 1, c->expert_ffn, 2 * c->expert_ffn));
    }
    return mlp->gate.weight && mlp->up.weight;
}

static bool load_experts(struct loader *l, struct lm_layer *layer) {
    const struct lm_config *c = &l->network->config;
    struct lm_weights *w = l->network->weights;
    char name[192], stacks[192];
    tensor_name(l, "mlp", name);
    bool loaded = lm_weights_has(w, tensor_name(l, "mlp.experts.gate_up_proj", stacks))
                      ? load_stacks(l, &layer->mlp)
                      : lm_linear_load_experts(&layer->mlp.gate, w, c, name, "gate_proj", c->expert_ffn,
                                               c->hidden, l->error) &&
                            lm_linear_load_experts(&layer->mlp.up, w, c, name, "up_proj", c->expert_ffn,
                                                   c->hidden, l->error) &&
                            lm_linear_load_experts(&layer->mlp.down, w, c, name, "down_proj", c->hidden,
                                                   c->expert_ffn, l->error);
    return loaded && load_matrix(l, &layer->router, "mlp.gate", c->experts, c->hidden, false) &&
           (!c->shared_ffn ||
            (load_mlp(l, &layer->shared, "mlp.shared_expert", c->shared_ffn, false) &&
             load_matrix(l, &layer->shared_gate, "mlp.shared_expert_gate", 1, c->hidden, false)));
}

static bool load_layer(struct loader *l, int index) {
    const struct lm_config *c = &l->network->config;
    struct lm_layer *layer = &l->network->layer[index];
    snprintf(l->layer, sizeof l->layer, "%s.layers.%d", l->network->prefix.text, index);
    return load_norm(l, &layer->attention_norm, "input_layernorm.weight", c->hidden) &&
           (c->linear[index] ? lm_delta_load(&layer->delta, l->network->weights, c, l->layer, l->error)
                             : load_attention(l, layer)) &&
           load_norm(l, &layer->mlp_norm, "post_attention_layernorm.weight", c->hidden) &&
           (c->sparse[index] ? load_experts(l, layer) : load_mlp(l, &layer->mlp, "mlp", c->ffn, c->mlp_bias));
}

// Loads factors by which the wave lengths are multiplied. A file of llama.cpp may have them instead of other
// scaling.
static bool load_frequencies(struct loader *l, struct lm_network *n) {
    static const char factors[] = "rope_freqs.weight";
    const struct lm_rope *rope = &n->config.rope;
    if (!lm_weights_has(n->weights, factors)) {
        n->frequencies = lm_rope_frequencies(rope);
        return true;
    }
    if (rope->kind != LM_ROPE_DEFAULT)
        return lm_fail(l->error, "tensor '%s' is there, and the positions are scaled in another way too",
                       factors);
    zl_array found = lm_weights_take(n->weights, factors, ZL_SHAPE(rope->dims / 2), l->error);
    return found && (n->frequencies = lm_rope_stretched(rope, found));
}

static bool load(struct lm_network *n, struct lm_error *error) {
    const struct lm_config *c = &n->config;
    struct loader l = {.network = n, .error = error};
    find_prefix(n);
    n->centred = find_centred(n);
    snprintf(l.layer, sizeof l.layer, "%s", n->prefix.text);
    n->layer = calloc((size_t)c->layers, sizeof *n->layer);
    if (!n->layer)
        return lm_fail(error, "out of memory");
    if (!load_matrix(&l, &n->embedding, "embed_tokens", c->vocabulary, c->hidden, false) ||
        !load_norm(&l, &n->norm, "norm.weight", c->hidden))
        return false;
    for (int i = 0; i < c->layers; i++)
        if (!load_layer(&l, i))
            return false;
    if (!c->tied &&
        !lm_linear_load(&n->head, n->weights, c, n->prefix.head, 0, c->vocabulary, c->hidden, false, error))
        return false;
    if (!load_frequencies(&l, n))
        return false;
    return lm_weights_all_used(n->weights, c->tied, error) && lm_weights_are_floats(n->weights, error);
}

// Joins matrices that multiply the same input, on devices other than the CPU, where each product costs a
// launch. On the CPU the matrices stay as they are in the file.
static bool join_layers(struct lm_network *n, struct lm_error *error) {
    int unit;
    zl_stream stream = zl_default_stream();
    const char *device = stream ? zl_stream_device(stream, &unit) : NULL;
    if (!device || !strcmp(device, "cpu"))
        return device || lm_fail(error, "%s", zl_error());
    for (int i = 0; i < n->config.layers; i++) {
        struct lm_layer *l = &n->layer[i];
        struct lm_mlp *mlp[] = {&l->mlp, &l->shared};
        bool joined = lm_linear_join(&l->qkv, (struct lm_linear *[]){&l->q, &l->k, &l->v}, 3, n->weights);
        for (int k = 0; joined && k < 2; k++)
            joined = lm_linear_join(&mlp[k]->gate_up, (struct lm_linear *[]){&mlp[k]->gate, &mlp[k]->up}, 2,
                                    n->weights);
        if (!joined)
            return lm_fail(error, "%s", zl_error() ? zl_error() : "out of memory");
    }
    return true;
}

bool lm_network_open(struct lm_network *network, const char *folder, struct lm_error *error) {
    *network = (struct lm_network){0};
    bool found = lm_is_gguf(folder) ? lm_gguf_open(folder, &network->config, &network->weights, error)
                                    : lm_config_read(&network->config, folder, error) &&
                                          (network->weights = lm_weights_open(folder, error));
    if (found && load(network, error) && join_layers(network, error))
        return true;
    lm_network_free(network);
    return false;
}

bool lm_network_random(struct lm_network *network, const char *path, int64_t seed, struct lm_error *error) {
    size_t length = strlen(path);
    bool is_file = length > 5 && !strcmp(path + length - 5, ".json");
    text_json_value root = is_file ? text_json_load(path, error->text, sizeof error->text) : NULL;
    struct lm_config *c = &network->config;
    *network = (struct lm_network){0};
    if (is_file ? root && lm_config_of(c, root, path, error) : lm_config_read(c, path, error)) {
        const char *dtype = text_json_text_of(c->root, "torch_dtype");
        dtype = *dtype ? dtype : text_json_text_of(c->root, "dtype");
        network->weights = lm_weights_random(seed,
                                             !strcmp(dtype, "float16")   ? ZL_FLOAT16
                                             : !strcmp(dtype, "float32") ? ZL_FLOAT32
                                                                         : ZL_BFLOAT16,
                                             c->quantization);
        if (network->weights ? load(network, error) && join_layers(network, error)
                             : lm_fail(error, "%s: out of memory", path))
            return true;
    }
    lm_network_free(network);
    return false;
}

static void free_mlp(struct lm_mlp *mlp) {
    lm_linear_free(&mlp->gate);
    lm_linear_free(&mlp->up);
    lm_linear_free(&mlp->down);
    lm_linear_free(&mlp->gate_up);
}

static void free_layer(struct lm_layer *layer) {
    zl_array single[] = {layer->attention_norm, layer->mlp_norm, layer->q_norm, layer->k_norm};
    struct lm_linear *matrix[] = {&layer->q,      &layer->k,      &layer->v,          &layer->qkv,
                                  &layer->output, &layer->router, &layer->shared_gate};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        zl_release(single[i]);
    for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++)
        lm_linear_free(matrix[i]);
    lm_delta_free(&layer->delta);
    free_mlp(&layer->mlp);
    free_mlp(&layer->shared);
}

void lm_network_free(struct lm_network *n) {
    for (int i = 0; n->layer && i < n->config.layers; i++)
        free_layer(&n->layer[i]);
    free(n->layer);
    lm_linear_free(&n->embedding);
    lm_linear_free(&n->head);
    zl_release(n->norm);
    zl_release(n->frequencies);
    lm_weights_free(n->weights);
    lm_config_free(&n->config);
    *n = (struct lm_network){0};
}

// Computing -------------------------------------------------------------------------------------------------

// One pass over ids: their positions, and what all layers share.
struct pass {
    const struct lm_network *network;
    struct lm_cache *cache; // NULL: no cache
    int64_t start, count;   // positions of the ids; with cache->at, the first is at that position instead of
                            // `start`
    int64_t keys;           // positions that attention reads
    zl_array offset;        // start, on the device
    zl_array seen;   // mask of the keys after the zeros before each sequence of a batch; NULL: all keys are
                     // used
    zl_array window; // the same for layers with a sliding window
};

// Reshapes (batch, T, heads * head_dim) to (batch, heads, T, head_dim).
static zl_array split_heads(zl_array x, int heads) {
    zl_array parted = zl_unflatten(x, -1, ZL_SHAPE(heads, -1));
    return zl_transpose(parted, ZL_AXES(0, 2, 1, 3));
}

// Returns YaRN's factor of the features of a head: one number, or a vector with ones for those that are not
// rotated.
static zl_array magnitudes(const struct lm_config *c, zl_dtype dtype) {
    zl_array all = zl_scalar(c->rope.magnitude);
    if (c->rope.dims == c->head_dim)
        return all;
    zl_array rotated = zl_less(zl_arange(0, c->head_dim, 1, ZL_INT32), zl_scalar_int(c->rope.dims));
    return zl_astype(zl_where(rotated, all, zl_scalar(1)), dtype);
}

static zl_array rotate(const struct pass *p, zl_array x) {
    const struct lm_rope *rope = &p->network->config.rope;
    zl_array lengths = p->network->frequencies;
    double scale = rope->kind == LM_ROPE_LINEAR ? 1 / rope->factor : 1;
    if (rope->magnitude != 1)
        x = zl_multiply(x, magnitudes(&p->network->config, zl_dtype_of(x)));
    return zl_fast_rope(x, rope->dims, false, lengths ? NAN : rope->theta, scale, p->offset, lengths);
}

static zl_array norm(const struct lm_config *c, zl_array x, zl_array weight) {
    return zl_astype(zl_fast_rms_norm(x, weight, c->eps), zl_dtype_of(x));
}

static zl_array head_norm(const struct pass *p, zl_array x, zl_array weight) {
    return weight ? norm(&p->network->config, x, weight) : x;
}

// Returns the keys or values that the codes of a cache stand for.
static zl_array decoded(const struct lm_cache *cache, lm_heads heads, zl_dtype dtype) {
    return zl_dequantize(heads[0], heads[1], heads[2], cache->group_size, cache->bits, "affine", NULL, dtype);
}

// Multiplies x (batch, kv_heads, n, ·) by quantised keys or values.
static zl_array times_codes(const struct lm_cache *cache, zl_array x, lm_heads heads, bool transpose) {
    return zl_quantized_matmul(x, heads[0], heads[1], heads[2], transpose, cache->group_size, cache->bits,
                               "affine");
}

// Computes attention of one query (batch, heads, 1, head_dim) from quantised keys and values, without
// decoding them.
static zl_array attend_codes(const struct pass *p, zl_array q, lm_heads k, lm_heads v, zl_array mask) {
    const struct lm_config *c = &p->network->config;
    zl_array grouped = zl_reshape(zl_multiply(q, zl_scalar(1 / sqrt(c->head_dim))),
                                  ZL_SHAPE(zl_dim(q, 0), c->kv_heads, -1, c->head_dim));
    zl_array scores = times_codes(p->cache, grouped, k, true);
    if (mask)
        scores = zl_where(mask, scores, zl_scalar(-INFINITY));
    zl_array y = times_codes(p->cache, zl_softmax(scores, -1, true), v, false);
    return zl_reshape(y, zl_shape_of(q));
}

// Computes attention of q to all keys and values.
static zl_array attend(const struct pass *p, zl_array q, lm_heads k, lm_heads v, zl_array mask) {
    const char *mode = !mask && p->count > 1 ? "causal" : "";
    if (p->cache && p->cache->bits) {
        if (p->count == 1)
            return attend_codes(p, q, k, v, mask);
        k[0] = decoded(p->cache, k, zl_dtype_of(q)), v[0] = decoded(p->cache, v, zl_dtype_of(q));
    }
    return zl_fast_scaled_dot_product_attention(q, k[0], v[0], 1 / sqrt(p->network->config.head_dim), mask,
                                                NULL, mode);
}

// Multiplies x by several matrices, whose rows `joined` has. Without a cache they are multiplied one by one,
// because gradients with respect to each of them need that.
static void multiply(const struct lm_linear *joined, bool cached, int count,
                     const struct lm_linear *const *matrix, zl_array x, zl_array *y) {
    zl_array all = joined->weight && cached ? lm_linear_apply(joined, x) : NULL;
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        int64_t rows = zl_dim(matrix[i]->weight, 0);
        y[i] = all ? lm_slice(all, zl_ndim(all) - 1, at, at + rows) : lm_linear_apply(matrix[i], x);
        at += rows;
    }
}

static zl_array attention(const struct pass *p, const struct lm_layer *layer, int index, zl_array x) {
    const struct lm_config *c = &p->network->config;
    zl_array qkv[3], gate = NULL;
    multiply(&layer->qkv, p->cache, 3, (const struct lm_linear *[]){&layer->q, &layer->k, &layer->v}, x, qkv);
    zl_array q = split_heads(qkv[0], c->heads);
    if (c->output_gate)
        gate = lm_slice(q, 3, c->head_dim, 2 * c->head_dim), q = lm_slice(q, 3, 0, c->head_dim);
    q = rotate(p, head_norm(p, q, layer->q_norm));
    lm_heads k = {rotate(p, head_norm(p, split_heads(qkv[1], c->kv_heads), layer->k_norm))};
    lm_heads v = {split_heads(qkv[2], c->kv_heads)};
    if (p->cache && !lm_cache_append(p->cache, index, k, v))
        return NULL;
    zl_array y = attend(p, q, k, v, c->slides[index] ? p->window : p->seen);
    if (gate)
        y = zl_multiply(y, zl_sigmoid(gate));
    return lm_linear_apply(&layer->output, zl_flatten(zl_transpose(y, ZL_AXES(0, 2, 1, 3)), 2, 3));
}

static zl_array linear_attention(const struct pass *p, const struct lm_layer *layer, int index, zl_array x) {
    struct lm_kept *kept = p->cache ? &p->cache->layer[index] : NULL;
    zl_array state[2] = {kept ? kept->recent : NULL, kept ? kept->state : NULL};
    zl_array y = lm_delta_apply(&layer->delta, &p->network->config, x, state);
    return !y || !kept || lm_cache_keep(p->cache, index, state[0], state[1]) ? y : NULL;
}

static zl_array gated(zl_array gate, zl_array up) {
    return zl_multiply(zl_multiply(gate, zl_sigmoid(gate)), up);
}

// Computes an MLP without experts for x (batch, T, hidden).
static zl_array dense_mlp(const struct lm_mlp *mlp, bool cached, zl_array x) {
    zl_array y[2];
    multiply(&mlp->gate_up, cached, 2, (const struct lm_linear *[]){&mlp->gate, &mlp->up}, x, y);
    return lm_linear_apply(&mlp->down, gated(y[0], y[1]));
}

// Computes the mixture of experts for x (N, hidden). Reads only the matrices of the chosen experts.
static zl_array mix_experts(const struct lm_config *c, const struct lm_layer *layer, bool cached,
                            zl_array x) {
    int used = c->experts_used;
    zl_array share = zl_softmax(zl_astype(lm_linear_apply(&layer->router, x), ZL_FLOAT32), -1, true);
    zl_array order = zl_argpartition(zl_negative(share), used - 1, -1);
    zl_array chosen = zl_stop_gradient(lm_slice(order, 1, 0, used));
    zl_array weight = zl_take_along_axis(share, chosen, -1);
    if (c->renormalise)
        weight = zl_divide(weight, zl_sum_axes(weight, ZL_AXES(-1), true));
    zl_array lone = zl_expand_dims(x, ZL_AXES(1, 2));
    zl_array up = lm_linear_apply_chosen(&layer->mlp.up, lone, chosen);
    zl_array gate = lm_linear_apply_chosen(&layer->mlp.gate, lone, chosen);
    zl_array each = lm_linear_apply_chosen(&layer->mlp.down, gated(gate, up), chosen);
    each = zl_multiply(zl_squeeze(each, ZL_AXES(2)),
                       zl_astype(zl_expand_dims(weight, ZL_AXES(-1)), zl_dtype_of(x)));
    zl_array all = zl_sum_axes(each, ZL_AXES(1), false);
    if (!layer->shared_gate.weight)
        return all;
    return zl_add(all, zl_multiply(zl_sigmoid(lm_linear_apply(&layer->shared_gate, x)),
                                   dense_mlp(&layer->shared, cached, x)));
}

static zl_array mlp(const struct lm_config *c, const struct lm_layer *layer, bool sparse, bool cached,
                    zl_array x) {
    if (!sparse)
        return dense_mlp(&layer->mlp, cached, x);
    return zl_reshape(mix_experts(c, layer, cached, zl_flatten(x, 0, 1)), zl_shape_of(x));
}

static zl_array both(zl_array a, zl_array b) {
    return a && b ? zl_logical_and(a, b) : a ? a : b;
}

// Returns the mask of the keys that exist and belong to each sequence of a batch: bool, broadcast to (batch,
// 1, 1, S). NULL if all keys do.
static zl_array seen_mask(const struct pass *p) {
    zl_array skip = p->cache ? p->cache->skip : NULL, at = p->cache ? p->cache->at : NULL;
    if (!skip && !at)
        return NULL;
    zl_array key = zl_arange(0, (double)p->keys, 1, ZL_INT32);
    return both(at ? zl_less_equal(key, at) : NULL,
                skip ? zl_greater_equal(key, zl_expand_dims(skip, ZL_AXES(1, 2, 3))) : NULL);
}

// Returns the mask of the keys in the window of each query, bool (T, S), combined with the mask of the batch.
// If the window hides no key, that is the mask of the batch alone.
static zl_array window_mask(const struct pass *p) {
    int64_t window = p->network->config.window, all = p->start + p->count;
    zl_array at = p->cache ? p->cache->at : NULL;
    if (!window || (at ? p->keys : all) <= window)
        return p->seen;
    zl_array query = at ? at : zl_arange((double)p->start, (double)all, 1, ZL_INT32);
    zl_array distance =
        zl_subtract(zl_expand_dims(query, ZL_AXES(1)), zl_arange(0, (double)p->keys, 1, ZL_INT32));
    zl_array near = zl_less(distance, zl_scalar_int(window));
    return both(at ? near : zl_logical_and(zl_greater_equal(distance, zl_scalar_int(0)), near), p->seen);
}

// Returns the position of the first id, for rotations: one number for all sequences, or one for each.
static zl_array first_position(const struct pass *p) {
    zl_array at = p->cache ? p->cache->at : NULL;
    zl_array start = at ? zl_reshape(at, ZL_SCALAR) : zl_scalar_int(p->start);
    return p->cache && p->cache->skip ? zl_subtract(start, p->cache->skip) : start;
}

zl_array lm_hidden(const struct lm_network *network, zl_array ids, int layers, struct lm_cache *cache) {
    const struct lm_config *c = &network->config;
    if (!ids)
        return NULL;
    zl_scope scope = zl_scope_begin();
    struct pass p = {
        .network = network, .cache = cache, .start = cache ? cache->length : 0, .count = zl_dim(ids, -1)};
    p.keys = cache && cache->at ? lm_cache_room(cache) : p.start + p.count;
    p.offset = first_position(&p);
    p.seen = seen_mask(&p);
    p.window = window_mask(&p);
    zl_array x = lm_linear_rows(&network->embedding, ids);
    for (int i = 0; x && i < layers; i++) {
        const struct lm_layer *layer = &network->layer[i];
        zl_array normed = norm(c, x, layer->attention_norm);
        x = zl_add(x,
                   c->linear[i] ? linear_attention(&p, layer, i, normed) : attention(&p, layer, i, normed));
        x = zl_add(x, mlp(c, layer, c->sparse[i], cache, norm(c, x, layer->mlp_norm)));
    }
    if (cache && x)
        lm_cache_advance(cache, p.count);
    return zl_scope_leave(scope, x);
}

zl_array lm_logits(const struct lm_network *network, zl_array hidden) {
    zl_scope scope = zl_scope_begin();
    zl_array x = norm(&network->config, hidden, network->norm);
    return zl_scope_leave(scope,
                          lm_linear_apply(network->config.tied ? &network->embedding : &network->head, x));
}
