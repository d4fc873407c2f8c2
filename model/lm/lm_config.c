// lm_config.c - reads config.json into a description of layers, in the dialects of the hub and of
// transformers 5.
//
// Every field is either read here or is on the list of fields that do not affect what the model computes. Any
// other field is refused by name, unless it is null, false or an empty list or object.

#include "lm.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lm_fail(struct lm_error *error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return false;
}

static const struct lm_family families[] = {
    {.type = "llama"},
    {.type = "qwen2", .qkv_bias = true},
    {.type = "qwen2_moe", .qkv_bias = true, .experts = true, .shared_expert = true},
    {.type = "qwen3", .qk_norm = true},
    {.type = "qwen3_moe", .qk_norm = true, .experts = true, .router_bits = 8},
    {.type = "qwen3_next",
     .qk_norm = true,
     .experts = true,
     .renormalise = true,
     .shared_expert = true,
     .router_bits = 8,
     .delta = LM_DELTA_FUSED},
    {.type = "qwen3_5", .qk_norm = true, .delta = LM_DELTA_PARTED},
    {.type = "qwen3_5_moe",
     .qk_norm = true,
     .experts = true,
     .renormalise = true,
     .shared_expert = true,
     .router_bits = 8,
     .delta = LM_DELTA_PARTED},
};
enum { FAMILIES = sizeof families / sizeof *families };

// Fields about training, storage or serving, which do not change what the model computes.
static const char *const harmless[] = {
    "_attn_implementation",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "id2label",
    "image_token_id",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "mamba_ssm_dtype", // states are float32 whatever the dtype of the weights
    "model_type",
    "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "quantization",
    "quantization_config",
    "return_dict",
    "rope_interleaved",
    "router_aux_loss_coef",
    "text_config",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "use_cache",
    "video_token_id",
    "vision_config",
    "vision_end_token_id",
    "vision_start_token_id",
};
enum { HARMLESS = sizeof harmless / sizeof *harmless, READ_MOST = 64 };

// Reads config.json, and records which fields were read, so that unknown ones can be found.
struct reader {
    text_json_value root;  // the text model's object
    text_json_value outer; // the object with root as its text_config; NULL: root is the whole file
    const char *path;
    struct lm_error *error;
    const char *read[READ_MOST];
    int reads;
    bool failed;
};

// Returns a field of the text model, or of the object around it, unless it is null.
static text_json_value find(const struct reader *r, const char *name) {
    text_json_value value = text_json_get(r->root, name);
    if (!value || text_json_is_null(value))
        value = text_json_get(r->outer, name);
    return text_json_is_null(value) ? NULL : value;
}

static text_json_value field(struct reader *r, const char *name) {
    if (r->reads < READ_MOST)
        r->read[r->reads++] = name;
    return find(r, name);
}

static void refuse(struct reader *r, const char *name, const char *why) {
    if (!r->failed)
        lm_fail(r->error, "%s: field '%s' %s", r->path, name, why);
    r->failed = true;
}

// Reads an integer and checks its range, so that no size overflows an int later. The field is required if
// `fallback` is below `least`.
static int64_t integer(struct reader *r, const char *name, int64_t least, int64_t most, int64_t fallback) {
    text_json_value value = field(r, name);
    if (!value && fallback >= least)
        return fallback;
    if (!text_json_is_integer(value) || text_json_integer(value) < least || text_json_integer(value) > most) {
        char why[96];
        snprintf(why, sizeof why, "%s: wanted an integer from %lld to %lld",
                 value ? "is not right" : "is missing", (long long)least, (long long)most);
        refuse(r, name, why);
        return least;
    }
    return text_json_integer(value);
}

static double number_in(struct reader *r, text_json_value object, const char *name, double fallback) {
    text_json_value value = text_json_get(object, name);
    if (!value || text_json_is_null(value))
        return fallback;
    double x = text_json_number(value);
    if (fabs(x) < 1e15)
        return x;
    refuse(r, name, "is not a number, or is too large");
    return fallback;
}

static double number(struct reader *r, const char *name, double fallback) {
    field(r, name);
    return number_in(r, r->root, name, number_in(r, r->outer, name, fallback));
}

static bool truth(struct reader *r, const char *name, bool fallback) {
    text_json_value value = field(r, name);
    if (value && !text_json_is_bool(value))
        refuse(r, name, "is neither true nor false");
    return value ? text_json_true(value) : fallback;
}

// Finds the family of a model_type. Where the text model of a multimodal type is stored alone, its type has
// the suffix _text.
static const struct lm_family *find_family(const char *type) {
    for (int i = 0; i < FAMILIES; i++) {
        size_t length = strlen(families[i].type);
        if (!strncmp(families[i].type, type, length) && (!type[length] || !strcmp(type + length, "_text")))
            return &families[i];
    }
    return NULL;
}

static void list_families(char *out, size_t bytes) {
    size_t used = 0;
    for (int i = 0; i < FAMILIES && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? ", " : "", families[i].type);
}

// Returns whether a value is null, false or an empty list or object.
static bool is_nothing(text_json_value value) {
    return text_json_is_null(value) || (text_json_is_bool(value) && !text_json_true(value)) ||
           ((text_json_is_list(value) || text_json_is_object(value)) && !text_json_count(value));
}

static const struct {
    const char *name;
    enum lm_rope_kind kind;
} rope_kinds[] = {
    {"default", LM_ROPE_DEFAULT},
    {"linear", LM_ROPE_LINEAR},
    {"llama3", LM_ROPE_LLAMA3},
    {"yarn", LM_ROPE_YARN},
};

static bool find_rope_kind(const char *name, enum lm_rope_kind *kind) {
    for (size_t i = 0; i < sizeof rope_kinds / sizeof *rope_kinds; i++)
        if (!strcmp(rope_kinds[i].name, name)) {
            *kind = rope_kinds[i].kind;
            return true;
        }
    return false;
}

// Returns YaRN's attention factor, as in the paper (arXiv 2309.00071) and transformers.
static double yarn_magnitude(double factor, double scale) {
    return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

// Refuses unknown members of the object that scales positions, since they could change what is computed.
static void refuse_unknown_rope(struct reader *r, const char *name, text_json_value all) {
    static const char *const known[] = {"rope_type",
                                        "type",
                                        "rope_theta",
                                        "partial_rotary_factor",
                                        "factor",
                                        "low_freq_factor",
                                        "beta_fast",
                                        "beta_slow",
                                        "high_freq_factor",
                                        "attention_factor",
                                        "mscale_all_dim",
                                        "mscale",
                                        "truncate",
                                        "mrope_section",
                                        "mrope_interleaved",
                                        "original_max_position_embeddings"};
    const char *key;
    for (int i = 0; i < text_json_count(all); i++) {
        bool fits = is_nothing(text_json_member(all, i, &key));
        for (size_t k = 0; !fits && k < sizeof known / sizeof *known; k++)
            fits = !strcmp(known[k], key);
        if (!fits) {
            char why[128];
            snprintf(why, sizeof why, "has '%.40s', which is unknown, and may change what is computed", key);
            refuse(r, name, why);
        }
    }
}

// Reads the rotary positions. Files of the hub have rope_theta and rope_scaling, those of transformers 5 have
// all of it in rope_parameters.
static void read_rope(struct reader *r, struct lm_config *c) {
    text_json_value nested = field(r, "rope_parameters"), scaling = field(r, "rope_scaling");
    text_json_value all = nested ? nested : scaling;
    struct lm_rope *rope = &c->rope;
    const char *kind = text_json_text_of(all, "rope_type");
    if (!*kind)
        kind = text_json_text_of(all, "type");
    if (all && !text_json_is_object(all))
        refuse(r, nested ? "rope_parameters" : "rope_scaling", "is not an object");
    else
        refuse_unknown_rope(r, nested ? "rope_parameters" : "rope_scaling", all);
    if (!find_rope_kind(*kind ? kind : "default", &rope->kind))
        refuse(r, "rope_type", "is none of default, linear, llama3, yarn");
    double share = number_in(r, nested, "partial_rotary_factor", number(r, "partial_rotary_factor", 1));
    rope->dims = (int)(c->head_dim * share);
    rope->theta = number_in(r, nested, "rope_theta", number(r, "rope_theta", 10000));
    rope->low_frequency = number_in(r, all, "low_freq_factor", 1);
    rope->high_frequency = number_in(r, all, "high_freq_factor", 4);
    rope->beta_fast = number_in(r, all, "beta_fast", 32);
    rope->beta_slow = number_in(r, all, "beta_slow", 1);
    rope->original = (int64_t)number_in(r, all, "original_max_position_embeddings", (double)c->positions);
    // Without a factor, YaRN stretches from the positions of training to those that the model has now.
    bool stretched = rope->kind == LM_ROPE_YARN && rope->original > 0;
    rope->factor = number_in(r, all, "factor", stretched ? (double)c->positions / (double)rope->original : 1);
    text_json_value whole = text_json_get(all, "truncate");
    rope->whole_pairs = !text_json_is_bool(whole) || text_json_true(whole);
    double scale = number_in(r, all, "mscale", 0), scale_all = number_in(r, all, "mscale_all_dim", 0);
    double magnitude = scale && scale_all
                           ? yarn_magnitude(rope->factor, scale) / yarn_magnitude(rope->factor, scale_all)
                           : yarn_magnitude(rope->factor, 1);
    rope->magnitude = rope->kind == LM_ROPE_YARN ? number_in(r, all, "attention_factor", magnitude) : 1;
    if (!(share > 0 && share <= 1) || rope->dims < 2 || rope->dims % 2)
        refuse(r, "partial_rotary_factor", "leaves no even number of features to rotate");
    if (!(rope->theta > 1) || !(rope->factor > 0) || rope->original < 1)
        refuse(r, "rope_theta", "or its factor, or the positions of training, are out of range");
}

static bool list_has(text_json_value list, int value) {
    for (int i = 0; i < text_json_count(list); i++)
        if (text_json_integer(text_json_at(list, i)) == value)
            return true;
    return false;
}

// Sets the kind of a layer from the text that layer_types has for it: full, sliding-window or linear
// attention.
static void read_layer_type(struct reader *r, struct lm_config *c, int i, const char *type) {
    bool known = !strcmp(type, "full_attention");
    if (!strcmp(type, "sliding_attention"))
        known = c->slides[i] = true;
    if (c->family->delta && !strcmp(type, "linear_attention"))
        known = c->linear[i] = true;
    if (!known)
        refuse(r, "layer_types",
               "names a layer that is neither full_attention, sliding_attention nor, of a hybrid model, "
               "linear_attention");
}

// Finds the kind of each layer: sparse or dense, linear or full attention, and with or without a sliding
// window. Without layer_types, every full_attention_interval-th layer of a hybrid model has full attention,
// and windows slide from layer max_window_layers on.
static void read_layers(struct reader *r, struct lm_config *c) {
    text_json_value types = field(r, "layer_types"), dense = field(r, "mlp_only_layers");
    bool windowed = truth(r, "use_sliding_window", false);
    int64_t window = integer(r, "sliding_window", 0, INT32_MAX, 0);
    int64_t first = integer(r, "max_window_layers", 0, INT32_MAX, 28);
    int64_t full = c->family->delta ? integer(r, "full_attention_interval", 1, INT32_MAX, 4) : 1;
    int64_t every = c->family->experts ? integer(r, "decoder_sparse_step", 1, INT32_MAX, 1) : 1;
    c->slides = calloc((size_t)c->layers, sizeof *c->slides);
    c->sparse = calloc((size_t)c->layers, sizeof *c->sparse);
    c->linear = calloc((size_t)c->layers, sizeof *c->linear);
    if (!c->slides || !c->sparse || !c->linear)
        return refuse(r, "num_hidden_layers", "is more than memory has room for");
    if (types && text_json_count(types) != c->layers)
        refuse(r, "layer_types", "does not name each layer");
    for (int i = 0; i < c->layers && !r->failed; i++) {
        const char *type = types ? text_json_text(text_json_at(types, i)) : NULL;
        if (types)
            read_layer_type(r, c, i, type ? type : "");
        else
            c->slides[i] = windowed && i >= first, c->linear[i] = (i + 1) % full != 0;
        c->sparse[i] = c->family->experts && c->experts > 0 && (i + 1) % every == 0 && !list_has(dense, i);
        if (c->slides[i] && !window)
            refuse(r, "sliding_window", "is missing, though a layer slides");
    }
    c->window = window;
}

// Reads the sizes of layers of linear attention.
static void read_delta(struct reader *r, struct lm_config *c) {
    if (!c->family->delta)
        return;
    c->delta.key_heads = (int)integer(r, "linear_num_key_heads", 1, 4096, 0);
    c->delta.value_heads = (int)integer(r, "linear_num_value_heads", 1, 4096, 0);
    c->delta.key_dim = (int)integer(r, "linear_key_head_dim", 1, 4096, 0);
    c->delta.value_dim = (int)integer(r, "linear_value_head_dim", 1, 4096, 0);
    c->delta.width = (int)integer(r, "linear_conv_kernel_dim", 1, 64, 0);
    if (c->delta.value_heads % c->delta.key_heads)
        refuse(r, "linear_num_key_heads", "does not divide linear_num_value_heads");
}

static void read_experts(struct reader *r, struct lm_config *c) {
    if (!c->family->experts)
        return;
    const char *count = find(r, "num_experts") ? "num_experts" : "num_local_experts";
    c->experts = (int)integer(r, count, 1, 1 << 16, 0);
    field(r, "num_experts"), field(r, "num_local_experts"); // a file may have both
    c->experts_used = (int)integer(r, "num_experts_per_tok", 1, c->experts, 0);
    c->expert_ffn = (int)integer(r, "moe_intermediate_size", 1, 1 << 24, 0);
    c->renormalise = truth(r, "norm_topk_prob", c->family->renormalise);
    if (c->family->shared_expert)
        c->shared_ffn = (int)integer(r, "shared_expert_intermediate_size", 1, 1 << 24, 0);
}

static void read_ends(struct lm_config *c, text_json_value value) {
    int count = text_json_is_list(value) ? text_json_count(value) : 1;
    for (int i = 0; i < count; i++) {
        text_json_value one = text_json_is_list(value) ? text_json_at(value, i) : value;
        int64_t id = text_json_integer(one);
        bool known = !text_json_is_integer(one) || id < 0 || id >= c->vocabulary; // no id that is drawn
        for (int j = 0; j < c->eos_count; j++)
            known = known || c->eos[j] == id;
        if (!known && c->eos_count < LM_EOS_MOST)
            c->eos[c->eos_count++] = (int)id;
    }
}

static bool is_known(const struct reader *r, const char *name) {
    for (int i = 0; i < r->reads; i++)
        if (!strcmp(r->read[i], name))
            return true;
    for (int i = 0; i < HARMLESS; i++)
        if (!strcmp(harmless[i], name))
            return true;
    return false;
}

static void refuse_unknown(struct reader *r, text_json_value object) {
    const char *name;
    for (int i = 0; i < text_json_count(object) && !r->failed; i++) {
        text_json_value value = text_json_member(object, i, &name);
        if (!is_known(r, name) && !is_nothing(value))
            refuse(r, name, "is unknown, and may change what the model computes");
    }
}

static void read_all(struct reader *r, struct lm_config *c) {
    c->hidden = (int)integer(r, "hidden_size", 1, 1 << 20, 0);
    c->layers = (int)integer(r, "num_hidden_layers", 1, 4096, 0);
    c->heads = (int)integer(r, "num_attention_heads", 1, 4096, 0);
    c->kv_heads = (int)integer(r, "num_key_value_heads", 1, 4096, c->heads);
    c->head_dim = (int)integer(r, "head_dim", 1, 1 << 16, c->heads ? c->hidden / c->heads : 1);
    c->vocabulary = (int)integer(r, "vocab_size", 1, 1 << 28, 0);
    c->positions = integer(r, "max_position_embeddings", 1, INT32_MAX, 32768);
    c->eps = number(r, "rms_norm_eps", 1e-6);
    // In a multimodal model, the output matrix belongs to the outer object, which says whether it is tied to
    // the embedding.
    text_json_value tied = text_json_get(r->outer, "tie_word_embeddings");
    c->tied = truth(r, "tie_word_embeddings", false);
    if (tied && text_json_is_bool(tied))
        c->tied = text_json_true(tied);
    c->output_gate = truth(r, "attn_output_gate", c->family->delta != LM_DELTA_NONE);
    bool bias = truth(r, "attention_bias", truth(r, "qkv_bias", c->family->qkv_bias));
    c->qkv_bias = bias;
    c->output_bias = bias && !c->family->qkv_bias; // Qwen2's output matrix has no bias
    c->mlp_bias = truth(r, "mlp_bias", false);
    text_json_value act = field(r, "hidden_act");
    if (act && (!text_json_text(act) || strcmp(text_json_text(act), "silu") != 0))
        refuse(r, "hidden_act", "is not silu");
    if (c->heads % c->kv_heads)
        refuse(r, "num_key_value_heads", "does not divide num_attention_heads");
    read_rope(r, c);
    read_experts(r, c);
    read_delta(r, c);
    if (!r->failed)
        read_layers(r, c);
    bool all_sparse = !r->failed;
    for (int i = 0; all_sparse && i < c->layers; i++)
        all_sparse = c->sparse[i];
    c->ffn = (int)integer(r, "intermediate_size", 1, 1 << 24, all_sparse ? 1 : 0);
    c->bos = -1;
    text_json_value bos = find(r, "bos_token_id");
    if (bos && text_json_is_integer(bos))
        c->bos = (int)text_json_integer(bos);
    read_ends(c, find(r, "eos_token_id"));
    text_json_value way = find(r, "quantization_config");
    c->quantization = find(r, "quantization");
    if (!c->quantization && text_json_get(way, "group_size") && !text_json_get(way, "quant_method"))
        c->quantization = way;
    if (!c->quantization && text_json_is_object(way))
        refuse(r, "quantization_config", "is of a method other than MLX's");
    refuse_unknown(r, r->root);
    refuse_unknown(r, r->outer);
}

bool lm_config_of(struct lm_config *config, text_json_value root, const char *path, struct lm_error *error) {
    char names[256];
    *config = (struct lm_config){.root = root};
    struct reader r = {.root = root, .path = path, .error = error};
    const char *type = text_json_text_of(root, "model_type");
    config->family = find_family(type);
    if (!config->family) {
        list_families(names, sizeof names);
        return lm_fail(error, "%s: model_type '%.64s' is none of %s", path, type, names);
    }
    text_json_value text = text_json_get(config->root, "text_config");
    if (text_json_is_object(text))
        r.root = text, r.outer = config->root;
    read_all(&r, config);
    return !r.failed;
}

bool lm_config_read(struct lm_config *config, const char *folder, struct lm_error *error) {
    char path[4096];
    *config = (struct lm_config){0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    text_json_value root = text_json_load(path, error->text, sizeof error->text);
    if (!root || !lm_config_of(config, root, path, error))
        return false;
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    char unread[64]; // receives the message, which is dropped: the file is optional
    text_json_value generation = text_json_load(path, unread, sizeof unread);
    read_ends(config, text_json_get(generation, "eos_token_id"));
    text_json_free(generation);
    return true;
}

void lm_config_free(struct lm_config *config) {
    text_json_free(config->root);
    free(config->slides);
    free(config->sparse);
    free(config->linear);
    *config = (struct lm_config){0};
}
