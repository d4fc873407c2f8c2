// lm_gguf.c - checkpoints in llama.cpp's format: makes a configuration from the metadata, and gives the
// tensors the names that the hub has for them.
//
// The arrays of a quantised tensor are those that zl_load_gguf makes of it. The model is computed in the
// dtype of its matrices if all are floats of one dtype, otherwise in float32.

#include "lm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Maps general.architecture to a model_type, with the differences. A related architecture is one more row.
struct architecture {
    const char *name, *type;
    bool permuted;    // features of q and k that are rotated together are adjacent rows, not half a head
                      // apart
    bool renormalise; // the weights of the chosen experts are scaled to add up to 1
};
static const struct architecture architectures[] = {
    {.name = "llama", .type = "llama", .permuted = true},
    {.name = "qwen2", .type = "qwen2"},
    {.name = "qwen2moe", .type = "qwen2_moe"},
    {.name = "qwen3", .type = "qwen3"},
    {.name = "qwen3moe", .type = "qwen3_moe", .renormalise = true},
};

// Keys after the prefix ARCHITECTURE., and their names in config.json. scaling: the name is a member of
// rope_scaling.
struct key {
    const char *name, *field;
    bool needed, scaling;
};
static const struct key keys[] = {
    {"block_count", "num_hidden_layers", .needed = true},
    {"context_length", "max_position_embeddings", .needed = true},
    {"embedding_length", "hidden_size", .needed = true},
    {"feed_forward_length", "intermediate_size", .needed = true},
    {"attention.head_count", "num_attention_heads", .needed = true},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", .needed = true},
    {"rope.freq_base", "rope_theta"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"rope.scaling.factor", "factor", .scaling = true},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", .scaling = true},
    {"rope.scaling.yarn_beta_fast", "beta_fast", .scaling = true},
    {"rope.scaling.yarn_beta_slow", "beta_slow", .scaling = true},
    // Read elsewhere, or known from the tensors.
    {"vocab_size", NULL},
    {"attention.value_length", NULL},
    {"expert_weights_norm", NULL},
    {"rope.dimension_count", NULL},
    {"rope.scaling.type", NULL},
    {"rope.scaling.finetuned", NULL},
};

// Names of the tensors of a layer, without the prefix "blk.N."; after them, those of the whole model.
static const struct {
    const char *name, *becomes;
} names[] =
    {
        {"attn_norm", "input_layernorm"},
        {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},
        {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"},
        {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"},
        {"ffn_norm", "post_attention_layernorm"},
        {"ffn_gate", "mlp.gate_proj"},
        {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},
        {"ffn_gate_inp", "mlp.gate"},
        {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
        {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
        {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
        {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
        {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
        {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
        {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
},
  outer_names[] = {
      {"token_embd", "model.embed_tokens"},
      {"output_norm", "model.norm"},
      {"output", "lm_head"},
};
#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

// The metadata is that of the first part, the tensors are those of all parts.
struct gguf {
    const char *path;
    zl_file **file;
    int files;
    const struct architecture *architecture;
    struct lm_error *error;
};

bool lm_is_gguf(const char *path) {
    char magic[4] = "";
    FILE *file = fopen(path, "rb");
    bool is = file && fread(magic, 1, 4, file) == 4 && !memcmp(magic, "GGUF", 4);
    if (file)
        fclose(file);
    return is;
}

// Metadata --------------------------------------------------------------------------------------------------

static bool find_note(const struct gguf *g, const char *name, zl_metadata *out) {
    for (int i = 0; zl_file_metadata(g->file[0], i, out); i++)
        if (!strcmp(out->name, name))
            return true;
    return false;
}

static bool find_key(const struct gguf *g, const char *key, zl_metadata *out) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", g->architecture->name, key);
    return find_note(g, name, out);
}

static const char *text_of(const zl_metadata *note) {
    return note->texts == 1 && !note->is_list ? note->text[0].data : NULL;
}

// Returns a number, with booleans as 0 and 1, or NaN if the entry is not a number.
static double number_of(const zl_metadata *note) {
    return note->array && zl_size(note->array) == 1 ? zl_item(note->array) : NAN;
}

// Returns an integer whose key has the architecture as a prefix, such as the number of heads; 0 if there is
// none.
static int64_t integer_of(const struct gguf *g, const char *key) {
    zl_metadata note;
    double value = find_key(g, key, &note) ? number_of(&note) : 0;
    return value >= 0 && value <= INT32_MAX ? (int64_t)value : 0;
}

// Returns the index-th tensor of all parts; NULL past the last.
static zl_array tensor_at(const struct gguf *g, int index, const char **name) {
    for (int f = 0; f < g->files; index -= zl_file_count(g->file[f]), f++)
        if (index < zl_file_count(g->file[f])) {
            *name = zl_file_name(g->file[f], index);
            return zl_file_array(g->file[f], index);
        }
    return NULL;
}

static zl_array find_tensor(const struct gguf *g, const char *name) {
    const char *other;
    zl_array a;
    for (int i = 0; (a = tensor_at(g, i, &other)); i++)
        if (!strcmp(other, name))
            return a;
    return NULL;
}

static bool find_architecture(struct gguf *g) {
    zl_metadata note;
    const char *name = find_note(g, "general.architecture", &note) ? text_of(&note) : NULL;
    char list[128];
    size_t used = 0;
    for (size_t i = 0; i < COUNT_OF(architectures); i++) {
        if (name && !strcmp(name, architectures[i].name))
            g->architecture = &architectures[i];
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", architectures[i].name);
    }
    return g->architecture || lm_fail(g->error, "%s: general.architecture '%.64s' is none of %s", g->path,
                                      name ? name : "", list);
}

// Refuses unknown keys of the architecture, since they could change what the model computes.
static bool check_keys(const struct gguf *g) {
    const char *name = g->architecture->name;
    size_t length = strlen(name);
    zl_metadata note;
    for (int i = 0; zl_file_metadata(g->file[0], i, &note); i++) {
        bool known = strncmp(note.name, name, length) != 0 || note.name[length] != '.';
        for (size_t k = 0; !known && k < COUNT_OF(keys); k++)
            known = !strcmp(note.name + length + 1, keys[k].name);
        if (!known)
            return lm_fail(g->error, "%s: key '%.128s' is unknown, and may change what the model computes",
                           g->path, note.name);
    }
    return true;
}

// Writes `"field": number` for the keys that are members of rope_scaling, or those that are not.
static bool write_numbers(const struct gguf *g, bool scaling, FILE *out) {
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        zl_metadata note;
        if (!keys[i].field || keys[i].scaling != scaling)
            continue;
        bool there = find_key(g, keys[i].name, &note);
        double value = there ? number_of(&note) : 0;
        if (there ? !isfinite(value) : keys[i].needed)
            return lm_fail(g->error, "%s: key '%s.%s' is %s", g->path, g->architecture->name, keys[i].name,
                           there ? "not a finite number" : "missing");
        if (there && value != 0) // a count of 0 means that the model has none
            fprintf(out, ", \"%s\": %.17g", keys[i].field, value);
    }
    return true;
}

static bool write_rope(const struct gguf *g, FILE *out) {
    zl_metadata note;
    const char *type = find_key(g, "rope.scaling.type", &note) ? text_of(&note) : "none";
    int64_t heads = integer_of(g, "attention.head_count"), dims = integer_of(g, "rope.dimension_count"),
            width = integer_of(g, "attention.key_length");
    if (!width && heads)
        width = integer_of(g, "embedding_length") / heads;
    if (dims && dims != width)
        fprintf(out, ", \"partial_rotary_factor\": %.17g", (double)dims / (double)width);
    if (type && !strcmp(type, "none"))
        return true;
    if (!type || (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0))
        return lm_fail(g->error, "%s: key '%s.rope.scaling.type' is none of none, linear, yarn", g->path,
                       g->architecture->name);
    fprintf(out, ", \"rope_scaling\": {\"rope_type\": \"%s\"", type);
    bool written = write_numbers(g, true, out);
    fputc('}', out);
    return written;
}

// Writes the list of dense layers, which are those without a router.
static void write_dense_layers(const struct gguf *g, FILE *out) {
    char name[64];
    int64_t layers = integer_of(g, "block_count");
    int count = 0;
    fputs(", \"mlp_only_layers\": [", out);
    for (int64_t i = 0; i < layers && i < 4096; i++) {
        snprintf(name, sizeof name, "blk.%lld.ffn_gate_inp.weight", (long long)i);
        if (!find_tensor(g, name))
            fprintf(out, "%s%lld", count++ ? ", " : "", (long long)i);
    }
    fputc(']', out);
}

static void write_ends(const struct gguf *g, FILE *out) {
    static const char *const ends[] = {"eos", "eot", "eom"};
    char name[64];
    zl_metadata note;
    int count = 0;
    if (find_note(g, "tokenizer.ggml.bos_token_id", &note) && number_of(&note) >= 0)
        fprintf(out, ", \"bos_token_id\": %.0f", number_of(&note));
    fputs(", \"eos_token_id\": [", out);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", ends[i]);
        if (find_note(g, name, &note) && number_of(&note) >= 0)
            fprintf(out, "%s%.0f", count++ ? ", " : "", number_of(&note));
    }
    fputc(']', out);
}

static bool write_config(const struct gguf *g, FILE *out) {
    const struct architecture *a = g->architecture;
    zl_metadata note;
    zl_array embedding = find_tensor(g, "token_embd.weight");
    if (!embedding)
        return lm_fail(g->error, "%s: tensor 'token_embd.weight' is missing", g->path);
    fprintf(out, "{\"model_type\": \"%s\", \"vocab_size\": %lld, \"tie_word_embeddings\": %s", a->type,
            (long long)zl_dim(embedding, 0), find_tensor(g, "output.weight") ? "false" : "true");
    if (find_tensor(g, "blk.0.attn_q.bias"))
        fputs(", \"attention_bias\": true", out);
    if (find_tensor(g, "blk.0.ffn_gate.bias"))
        fputs(", \"mlp_bias\": true", out);
    if (integer_of(g, "expert_count")) {
        bool norm = find_key(g, "expert_weights_norm", &note) ? number_of(&note) != 0 : a->renormalise;
        fprintf(out, ", \"norm_topk_prob\": %s", norm ? "true" : "false");
        write_dense_layers(g, out);
    }
    int64_t value_length = integer_of(g, "attention.value_length");
    if (value_length && value_length != integer_of(g, "attention.key_length"))
        return lm_fail(g->error, "%s: keys '%s.attention.key_length' and value_length differ", g->path,
                       a->name);
    write_ends(g, out);
    bool written = write_numbers(g, false, out) && write_rope(g, out);
    fputs("}", out);
    return written;
}

static bool read_config(const struct gguf *g, struct lm_config *config) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool written = out && write_config(g, out);
    if (out)
        written = !fclose(out) && written;
    else
        lm_fail(g->error, "%s: out of memory", g->path);
    text_json_value root =
        written ? text_json_parse(text, bytes, g->path, g->error->text, sizeof g->error->text) : NULL;
    free(text);
    return root && lm_config_of(config, root, g->path, g->error);
}

// Tensors ---------------------------------------------------------------------------------------------------

// Returns the dtype in which the model is computed: that of the matrices of its layers. Routers are always
// float32 and do not count.
static zl_dtype computed_in(const struct gguf *g) {
    zl_dtype dtype = ZL_DTYPE_COUNT;
    const char *name;
    zl_array a;
    for (int i = 0; (a = tensor_at(g, i, &name)); i++) {
        if (zl_shape_of(a).ndim < 2 || strncmp(name, "blk.", 4) != 0 || strstr(name, "ffn_gate_inp"))
            continue;
        if (zl_dtype_of(a) == ZL_UINT32 || (dtype != ZL_DTYPE_COUNT && dtype != zl_dtype_of(a)))
            return ZL_FLOAT32;
        dtype = zl_dtype_of(a);
    }
    return dtype == ZL_DTYPE_COUNT ? ZL_FLOAT32 : dtype;
}

// Writes the hub's name of a tensor. Unknown names stay as they are; they are refused later, as tensors that
// nothing took. Sets `base` to the tensor's name within its layer.
static void rename_tensor(const char *name, char base[static 64], char *out, size_t bytes) {
    const char *rest = name, *dot = strrchr(name, '.');
    int layer = -1, read = 0;
    if (sscanf(name, "blk.%d.%n", &layer, &read) == 1 && read)
        rest = name + read;
    size_t length = dot && dot > rest ? (size_t)(dot - rest) : strlen(rest);
    snprintf(base, 64, "%.*s", (int)(length < 63 ? length : 63), rest);
    snprintf(out, bytes, "%s", name);
    for (size_t i = 0; layer >= 0 && dot && i < COUNT_OF(names); i++)
        if (!strcmp(base, names[i].name))
            snprintf(out, bytes, "model.layers.%d.%s%s", layer, names[i].becomes, dot);
    for (size_t i = 0; layer < 0 && dot && i < COUNT_OF(outer_names); i++)
        if (!strcmp(base, outer_names[i].name))
            snprintf(out, bytes, "%s%s", outer_names[i].becomes, dot);
}

// Reorders rows (heads, pairs, 2, …) to (heads, 2, pairs, …), so that features that are rotated together are
// half a head apart.
static zl_array unpermute(zl_array a, int64_t heads) {
    int64_t pairs = heads ? zl_dim(a, 0) / heads / 2 : 0;
    if (!pairs || zl_dim(a, 0) % (2 * heads))
        return a; // its shape is refused later
    int axes[] = {0, 2, 1, 3};
    zl_array parted = zl_unflatten(a, 0, ZL_SHAPE(heads, pairs, 2));
    return zl_flatten(zl_transpose(parted, (zl_axes){axes, zl_shape_of(parted).ndim}), 0, 2);
}

static zl_array as_hub(const struct gguf *g, const char *base, zl_array a, zl_dtype dtype) {
    bool q = !strcmp(base, "attn_q"), k = !strcmp(base, "attn_k");
    int64_t heads = integer_of(g, "attention.head_count"), kv = integer_of(g, "attention.head_count_kv");
    if (g->architecture->permuted && (q || k))
        a = unpermute(a, q || !kv ? heads : kv);
    if (!strcmp(base, "ffn_gate_inp_shexp") && zl_shape_of(a).ndim == 1)
        return zl_expand_dims(a, ZL_AXES(0));
    return zl_shape_of(a).ndim == 1 && strcmp(base, "rope_freqs") != 0 ? zl_astype(a, dtype) : a;
}

static bool add_tensors(const struct gguf *g, struct lm_weights *weights) {
    zl_dtype dtype = computed_in(g);
    const char *old;
    zl_array a;
    bool added = true;
    for (int i = 0; added && (a = tensor_at(g, i, &old)); i++)
        ZL_SCOPE {
            char base[64], name[256];
            rename_tensor(old, base, name, sizeof name);
            added = lm_weights_add(weights, name, as_hub(g, base, a, dtype));
        }
    if (!added) {
        lm_fail(g->error, "%s: %s", g->path, zl_error() ? zl_error() : "out of memory");
        zl_clear_error();
    }
    lm_weights_finish(weights, dtype);
    return added;
}

// Files -----------------------------------------------------------------------------------------------------

static bool load_part(struct gguf *g, const char *path) {
    zl_file **more = realloc(g->file, (size_t)(g->files + 1) * sizeof *more);
    if (!more)
        return lm_fail(g->error, "%s: out of memory", path);
    g->file = more;
    if (!(g->file[g->files] = zl_load_gguf(path))) {
        lm_fail(g->error, "%s", zl_error());
        zl_clear_error();
        return false;
    }
    g->files++;
    return true;
}

// Opens the other parts. The first part has their number, and their file names differ from its own only in
// the index.
static bool load_parts(struct gguf *g) {
    zl_metadata note;
    if (!load_part(g, g->path))
        return false;
    double parts = find_note(g, "split.count", &note) ? number_of(&note) : 0;
    char end[48], path[4096];
    if (!(parts > 1))
        return true;
    snprintf(end, sizeof end, "-00001-of-%05d.gguf", parts < 1e5 ? (int)parts : 0);
    size_t length = strlen(g->path), tail = strlen(end);
    if (length < tail || strcmp(g->path + length - tail, end) != 0)
        return lm_fail(g->error, "%s: is one of %g parts: open the first, whose name ends with %s", g->path,
                       parts, end);
    for (int i = 2; i <= (int)parts; i++) {
        snprintf(path, sizeof path, "%.*s-%05d-of-%05d.gguf", (int)(length - tail), g->path, i, (int)parts);
        if (!load_part(g, path))
            return false;
    }
    return true;
}

bool lm_gguf_open(const char *path, struct lm_config *config, struct lm_weights **weights,
                  struct lm_error *error) {
    struct gguf g = {.path = path, .error = error};
    bool opened = load_parts(&g) && find_architecture(&g) && check_keys(&g) && read_config(&g, config) &&
                  ((*weights = lm_weights_new(path)) || lm_fail(error, "%s: out of memory", path)) &&
                  add_tensors(&g, *weights);
    for (int i = 0; i < g.files; i++)
        zl_file_free(g.file[i]);
    free(g.file);
    return opened;
}
