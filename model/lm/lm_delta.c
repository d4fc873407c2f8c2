// lm_delta.c - layers of linear attention: projections, a causal convolution, the gated delta rule, and a
// gated norm.

#include "lm.h"

#include <math.h>
#include <stdio.h>

// Loading ---------------------------------------------------------------------------------------------------

struct sizes {
    int keys, values; // features of all heads
    int channels;     // of the convolution: those of q, k and v
};

static struct sizes sizes_of(const struct lm_config *c) {
    int keys = c->delta.key_heads * c->delta.key_dim, values = c->delta.value_heads * c->delta.value_dim;
    return (struct sizes){keys, values, 2 * keys + values};
}

static zl_array load_vector(struct lm_weights *weights, const char *layer, const char *part, int size,
                            struct lm_error *error) {
    char name[256];
    snprintf(name, sizeof name, "%s.linear_attn.%s", layer, part);
    return zl_retain(lm_weights_take(weights, name, ZL_SHAPE(size), error));
}

// Loads the weights of the convolution, which PyTorch stores as (channels, 1, width) and MLX as (channels,
// width, 1). Returns (width, channels), contiguous once it is computed.
static zl_array load_convolution(struct lm_weights *weights, const struct lm_config *c, const char *layer,
                                 struct lm_error *error) {
    char name[256];
    int channels = sizes_of(c).channels, width = c->delta.width;
    snprintf(name, sizeof name, "%s.linear_attn.conv1d.weight", layer);
    bool stored = lm_weights_has(weights, name); // random weights are not, and need a whole shape
    zl_array weight = lm_weights_take(
                 weights, name, stored ? ZL_SHAPE(channels, -1, -1) : ZL_SHAPE(channels, 1, width), error),
             rows = NULL;
    if (weight && zl_size(weight) != (int64_t)channels * width) {
        lm_fail(error, "%s: tensor '%.128s' is not of width %d", layer, name, width);
        return NULL;
    }
    if (weight)
        ZL_SCOPE {
            rows = zl_reshape(weight, ZL_SHAPE(channels, width));
            rows = zl_retain(zl_contiguous(zl_swapaxes(rows, 0, 1), false));
        }
    return rows;
}

bool lm_delta_load(struct lm_delta *delta, struct lm_weights *weights, const struct lm_config *c,
                   const char *layer, struct lm_error *error) {
    struct sizes n = sizes_of(c);
    int heads = c->delta.value_heads;
    const struct {
        const char *name;
        int outputs;
    } parted[] = {{"in_proj_qkv", n.channels},
                  {"in_proj_z", n.values},
                  {"in_proj_b", heads},
                  {"in_proj_a", heads}},
      fused[] = {{"in_proj_qkvz", n.channels + n.values}, {"in_proj_ba", 2 * heads}};
    bool is_fused = c->family->delta == LM_DELTA_FUSED;
    char name[256];
    for (int i = 0; i < (is_fused ? 2 : 4); i++) {
        snprintf(name, sizeof name, "%s.linear_attn.%s", layer, is_fused ? fused[i].name : parted[i].name);
        if (!lm_linear_load(&delta->in[i], weights, c, name, 0,
                            is_fused ? fused[i].outputs : parted[i].outputs, c->hidden, false, error))
            return false;
    }
    snprintf(name, sizeof name, "%s.linear_attn.out_proj", layer);
    return (delta->convolution = load_convolution(weights, c, layer, error)) &&
           (delta->norm = load_vector(weights, layer, "norm.weight", c->delta.value_dim, error)) &&
           (delta->rate = load_vector(weights, layer, "A_log", heads, error)) &&
           (delta->bias = load_vector(weights, layer, "dt_bias", heads, error)) &&
           lm_linear_load(&delta->output, weights, c, name, 0, c->hidden, n.values, false, error);
}

void lm_delta_free(struct lm_delta *delta) {
    for (int i = 0; i < 4; i++)
        lm_linear_free(&delta->in[i]);
    lm_linear_free(&delta->output);
    zl_release(delta->convolution);
    zl_release(delta->norm);
    zl_release(delta->rate);
    zl_release(delta->bias);
    *delta = (struct lm_delta){0};
}

// Computing -------------------------------------------------------------------------------------------------

// Returns the next `size` features of each of the `heads` groups, as (batch, T, heads * size), and advances
// *at.
static zl_array part(zl_array grouped, int *at, int size) {
    zl_array one = zl_flatten(lm_slice(grouped, 3, *at, *at + size), 2, 3);
    *at += size;
    return one;
}

struct projected {
    zl_array qkv, z, b, a;
};

// Computes the projections. Fused ones contain, for each key head, its q and k, and v and z of the value
// heads that share it.
static struct projected project(const struct lm_delta *delta, const struct lm_config *c, zl_array x) {
    if (c->family->delta == LM_DELTA_PARTED)
        return (struct projected){lm_linear_apply(&delta->in[0], x), lm_linear_apply(&delta->in[1], x),
                                  lm_linear_apply(&delta->in[2], x), lm_linear_apply(&delta->in[3], x)};
    int groups = c->delta.key_heads, shared = c->delta.value_heads / groups, at = 0;
    zl_array all = zl_unflatten(lm_linear_apply(&delta->in[0], x), -1, ZL_SHAPE(groups, -1));
    zl_array q = part(all, &at, c->delta.key_dim), k = part(all, &at, c->delta.key_dim);
    zl_array v = part(all, &at, shared * c->delta.value_dim), z = part(all, &at, shared * c->delta.value_dim);
    zl_array gates = zl_unflatten(lm_linear_apply(&delta->in[1], x), -1, ZL_SHAPE(groups, -1));
    at = 0;
    zl_array b = part(gates, &at, shared), a = part(gates, &at, shared);
    return (struct projected){zl_concatenate((zl_array[]){q, k, v}, 3, -1), z, b, a};
}

// Convolves x (batch, T, channels) along T, each channel by itself. Before x come the last width - 1 inputs,
// *recent, or zeros if it is NULL. Sets *recent for the next call.
static zl_array convolve(zl_array x, zl_array weight, zl_array *recent) {
    int64_t width = zl_dim(weight, 0), count = zl_dim(x, 1);
    zl_array before =
        *recent ? *recent : zl_zeros(ZL_SHAPE(zl_dim(x, 0), width - 1, zl_dim(x, 2)), zl_dtype_of(x));
    zl_array all = zl_concatenate((zl_array[]){before, x}, 2, 1), sum = NULL;
    for (int64_t i = 0; i < width; i++) {
        zl_array product = zl_multiply(lm_slice(all, 1, i, i + count), lm_slice(weight, 0, i, i + 1));
        sum = sum ? zl_add(sum, product) : product;
    }
    *recent = lm_slice(all, 1, count, count + width - 1);
    if (count > 1 && width > 2) // as two parts: a slice alone would keep all inputs of the prompt in memory
        *recent = zl_concatenate((zl_array[]){lm_slice(*recent, 1, 0, 1), lm_slice(*recent, 1, 1, width - 1)},
                                 2, 1);
    return sum;
}

static zl_array silu(zl_array x) {
    return zl_multiply(x, zl_sigmoid(x));
}

zl_array lm_delta_apply(const struct lm_delta *delta, const struct lm_config *c, zl_array x,
                        zl_array state[2]) {
    struct sizes n = sizes_of(c);
    struct projected p = project(delta, c, x);
    if (!p.qkv)
        return NULL;
    zl_array mixed = silu(convolve(p.qkv, delta->convolution, &state[0]));
    zl_array out[2];
    zl_shape key_shape = ZL_SHAPE(c->delta.key_heads, c->delta.key_dim),
             value_shape = ZL_SHAPE(c->delta.value_heads, c->delta.value_dim);
    zl_array q = zl_unflatten(lm_slice(mixed, 2, 0, n.keys), -1, key_shape);
    zl_array k = zl_unflatten(lm_slice(mixed, 2, n.keys, 2 * n.keys), -1, key_shape);
    zl_array v = zl_unflatten(lm_slice(mixed, 2, 2 * n.keys, n.channels), -1, value_shape);
    if (!zl_fast_delta_rule("gated_delta", q, k, v, p.a, p.b, NULL, NULL, state[1], NULL, NULL, delta->rate,
                            delta->bias, NAN, true, true, out))
        return NULL;
    state[1] = out[1];
    // The norm and its gate are computed in float32, whatever the dtype of the model.
    zl_array gate = silu(zl_astype(zl_unflatten(p.z, -1, value_shape), ZL_FLOAT32));
    zl_array normed = zl_fast_rms_norm(out[0], delta->norm, c->eps);
    zl_array y = zl_astype(zl_multiply(normed, gate), zl_dtype_of(x));
    return lm_linear_apply(&delta->output, zl_flatten(y, 2, 3));
}
