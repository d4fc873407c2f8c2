// lm_quantize.c - writes a checkpoint with quantised matrices, as mlx-lm converts it: the same names, groups,
// config.json and division into files.
//
// Everything is written to a temporary folder next to the result, which is renamed when it is complete.

#include "lm.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t part_bytes = (int64_t)5 << 30; // at most, except for a single larger tensor

// How a matrix is quantised.
struct way {
    int group_size, bits;
    const char *mode;
};
static const struct way modes[] = {{64, 4, "affine"}, {32, 4, "mxfp4"}, {32, 8, "mxfp8"}, {16, 4, "nvfp4"}};

// Rules that give some matrices more bits, with mlx-lm's names.
static const struct rule {
    const char *name;
    int low, high;
} rules[] = {{"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};
#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

// A tensor of the result.
struct entry {
    char *name;
    zl_array array;
    int64_t source; // bytes of the tensors it is made from
};

struct job {
    const zl_quantize_options *options;
    const struct lm_config *config;
    struct lm_weights *weights;
    bool centred; // the norms of the file are stored less 1, which is added for MLX
    struct way way;          // default of all matrices
    const struct rule *rule; // NULL: none
    zl_dtype dtype;          // to which floats are cast; ZL_DTYPE_COUNT: they keep theirs
    struct entry *entry;
    int entries, room;
    FILE *ways; // members of "quantization" in config.json
    int64_t done, all;
    char folder[4096]; // the temporary folder
    struct lm_error *error;
};

// Options ---------------------------------------------------------------------------------------------------

static bool read_options(struct job *j) {
    const zl_quantize_options *o = j->options;
    const char *mode = o->mode ? o->mode : "affine";
    j->way.mode = NULL;
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        if (!strcmp(mode, modes[i].mode))
            j->way = modes[i];
    if (!j->way.mode)
        return lm_fail(j->error, "mode '%.32s' is none of affine, mxfp4, mxfp8, nvfp4", mode);
    bool affine = j->way.mode == modes[0].mode;
    int bits = o->bits ? o->bits : j->way.bits, group = o->group_size ? o->group_size : j->way.group_size;
    if (affine ? bits < 2 || bits > 8 || bits == 7 : bits != j->way.bits)
        return lm_fail(j->error,
                       affine ? "%d bits: 2, 3, 4, 5, 6 or 8 are possible in mode %s"
                              : "%d bits do not fit mode %s",
                       bits, mode);
    if (affine ? group != 32 && group != 64 && group != 128 : group != j->way.group_size)
        return lm_fail(j->error,
                       affine ? "groups of %d: 32, 64 or 128 are possible in mode %s"
                              : "groups of %d do not fit mode %s",
                       group, mode);
    j->way.bits = bits, j->way.group_size = group;
    for (size_t i = 0; o->mixed && i < COUNT_OF(rules); i++)
        if (!strcmp(o->mixed, rules[i].name))
            j->rule = &rules[i];
    if (o->mixed && (!j->rule || !affine))
        return lm_fail(j->error,
                       "mixed rule '%.32s': mixed_2_6, mixed_3_4, mixed_3_6 and mixed_4_6 are possible, "
                       "in mode affine",
                       o->mixed);
    return true;
}

// Reads the dtype that config.json names. Floats are cast to it, as in mlx-lm.
static void read_dtype(struct job *j) {
    const char *name = text_json_text_of(j->config->root, "torch_dtype");
    if (!*name)
        name = text_json_text_of(text_json_get(j->config->root, "text_config"), "dtype");
    j->dtype = !strcmp(name, "float16")    ? ZL_FLOAT16
               : !strcmp(name, "bfloat16") ? ZL_BFLOAT16
               : !strcmp(name, "float32")  ? ZL_FLOAT32
                                           : ZL_DTYPE_COUNT;
}

// Tensors ---------------------------------------------------------------------------------------------------

static int layer_of(const char *name) {
    int layer = 0;
    const char *at = strstr(name, "layers.");
    return at && sscanf(at, "layers.%d.", &layer) == 1 ? layer : 0;
}

// Returns whether a rule gives this matrix more bits: v_proj and down_proj in the first and last eighth of
// the layers and in every third of the others, as in llama.cpp's Q4_K_M; and the output matrix.
static bool deserves_more(const struct job *j, const char *path) {
    int layers = j->config->layers, layer = layer_of(path), eighth = layers / 8;
    bool chosen = layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
    return strstr(path, "lm_head") || (chosen && (strstr(path, "v_proj") || strstr(path, "down_proj")));
}

static bool ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), tail = strlen(end);
    return bytes >= tail && !strcmp(text + bytes - tail, end);
}

// Returns how the matrix at `path` is quantised. Sets *own if config.json must name it separately. As in
// mlx-lm, routers of Qwen3 keep eight bits, and so do the gates of their shared experts.
static struct way way_of(const struct job *j, const char *path, bool *own) {
    struct way way = j->way;
    *own = j->rule != NULL;
    if (j->rule)
        way.bits = deserves_more(j, path) ? j->rule->high : j->rule->low;
    else if (j->config->family->router_bits &&
             (ends_with(path, "mlp.gate") || ends_with(path, "shared_expert_gate"))) {
        way = (struct way){64, j->config->family->router_bits, modes[0].mode};
        *own = true;
    }
    return way;
}

static bool add(struct job *j, const char *path, const char *part, zl_array a, int64_t source) {
    if (j->entries == j->room) {
        int room = j->room ? 2 * j->room : 256;
        struct entry *more = realloc(j->entry, (size_t)room * sizeof *more);
        if (!more)
            return lm_fail(j->error, "out of memory");
        j->entry = more, j->room = room;
    }
    size_t bytes = strlen(path) + strlen(part) + 1;
    char *name = a ? malloc(bytes) : NULL;
    if (!name)
        return lm_fail(j->error, "%s: %s", path, zl_error() ? zl_error() : "out of memory");
    snprintf(name, bytes, "%s%s", path, part);
    j->entry[j->entries++] = (struct entry){name, zl_retain(a), source};
    j->all += source;
    return true;
}

static zl_array as_wanted(const struct job *j, zl_array a) {
    zl_dtype dtype = zl_dtype_of(a);
    bool is_float = dtype == ZL_FLOAT32 || dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT64;
    return is_float && j->dtype != ZL_DTYPE_COUNT ? zl_astype(a, j->dtype) : a;
}

static bool add_matrix(struct job *j, const char *path, zl_array a) {
    zl_shape shape = zl_shape_of(a);
    int64_t source = (int64_t)zl_nbytes(a);
    bool own;
    struct way way = way_of(j, path, &own);
    if (shape.dim[shape.ndim - 1] % j->way.group_size || shape.dim[shape.ndim - 1] % way.group_size)
        return add(j, path, ".weight", as_wanted(j, a), source);
    zl_array part[3];
    if (!zl_quantize(as_wanted(j, a), way.group_size, way.bits, way.mode, NULL, part))
        return lm_fail(j->error, "%s: %s", path, zl_error());
    if (own)
        fprintf(
            j->ways,
            ",\n        \"%s\": {\n            \"group_size\": %d,\n            \"bits\": %d,\n            "
            "\"mode\": \"%s\"\n        }",
            path, way.group_size, way.bits, way.mode);
    return add(j, path, ".weight", part[0], source) && add(j, path, ".scales", part[1], 0) &&
           (!part[2] || add(j, path, ".biases", part[2], 0));
}

// Adds experts that are separate in the file, as one stack, when it meets the first of them.
static bool add_experts(struct job *j, const char *was, const char *name) {
    const char *experts = strstr(was, ".experts.");
    char part[64], mlp[256], path[384];
    int number = 0;
    if (sscanf(experts, ".experts.%d.%63[^.].weight", &number, part) != 2 || number)
        return true;
    snprintf(mlp, sizeof mlp, "%.*s", (int)(experts - was), was);
    snprintf(path, sizeof path, "%.*s.switch_mlp.%s", (int)(strstr(name, ".experts.") - name), name, part);
    zl_array stack = lm_linear_stack(j->weights, mlp, part, j->config->experts, -1, -1, j->error);
    bool added = stack && add_matrix(j, path, stack);
    zl_release(stack);
    return added;
}

// Adds experts that are stacked in the file: gate and up, the halves of one tensor, become two; down stays.
static bool add_stacked(struct job *j, const char *path, const char *experts, zl_array a) {
    char name[384];
    int length = (int)(experts - path);
    int64_t rows = zl_dim(a, 1) / 2;
    if (ends_with(path, ".down_proj")) {
        snprintf(name, sizeof name, "%.*s.switch_mlp.down_proj", length, path);
        return add_matrix(j, name, a);
    }
    snprintf(name, sizeof name, "%.*s.switch_mlp.gate_proj", length, path);
    bool added = add_matrix(j, name, lm_slice(a, 1, 0, rows));
    snprintf(name, sizeof name, "%.*s.switch_mlp.up_proj", length, path);
    return added && add_matrix(j, name, lm_slice(a, 1, rows, 2 * rows));
}

// Returns MLX's name of a tensor. In multimodal models, the names of the text model begin with
// language_model.
static const char *name_in_mlx(const struct job *j, const char *name, char room[static 320]) {
    static const char inside[] = "model.language_model.", outside[] = "language_model.";
    if (j->config->family->delta != LM_DELTA_PARTED || !strncmp(name, outside, strlen(outside)))
        return name;
    if (!strncmp(name, inside, strlen(inside)))
        snprintf(room, 320, "language_model.model.%s", name + strlen(inside));
    else
        snprintf(room, 320, "language_model.%s", name);
    return room;
}

// Converts a tensor that is not a matrix to MLX's form: convolutions (channels, width, 1), and norms with the
// 1 added.
static zl_array as_in_mlx(const struct job *j, const char *name, zl_array a) {
    static const char *const norms[] = {".input_layernorm.weight", ".post_attention_layernorm.weight",
                                        ".q_norm.weight", ".k_norm.weight", "model.norm.weight"};
    zl_shape shape = zl_shape_of(a);
    if (shape.ndim == 3 && ends_with(name, "conv1d.weight") && shape.dim[2] != 1)
        return zl_swapaxes(a, 1, 2);
    for (size_t i = 0; j->centred && shape.ndim == 1 && i < COUNT_OF(norms); i++)
        if (ends_with(name, norms[i]))
            return zl_add(a, zl_scalar(1));
    return a;
}

static bool add_tensor(struct job *j, const char *was, zl_array a) {
    char room[320], path[320];
    const char *name = name_in_mlx(j, was, room), *experts = strstr(name, ".experts.");
    int ndim = zl_shape_of(a).ndim;
    if (ends_with(name, ".scales"))
        return lm_fail(j->error, "tensor '%s': the checkpoint is quantised already", name);
    if (experts)
        return ndim == 3 ? add_stacked(j, name, experts, a) : add_experts(j, was, name);
    bool matrix = ends_with(name, ".weight") && (ndim == 2 || (ndim == 3 && strstr(name, ".switch_mlp.")));
    if (!matrix) {
        bool stays = j->config->family->delta == LM_DELTA_PARTED && ends_with(name, "A_log");
        zl_array is = stays ? a : as_wanted(j, as_in_mlx(j, name, a));
        return add(j, name, "", is, (int64_t)zl_nbytes(a));
    }
    snprintf(path, sizeof path, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
    return add_matrix(j, path, a);
}

static bool add_tensors(struct job *j) {
    const char *name;
    zl_array a;
    bool added = true;
    for (int i = 0; added && (a = lm_weights_at(j->weights, i, &name)); i++)
        ZL_SCOPE {
            added = add_tensor(j, name, a);
        }
    return added;
}

// Parts -----------------------------------------------------------------------------------------------------

// Returns the index after the last entry of the file that begins at entry `from`.
static int part_end(const struct job *j, int from) {
    int64_t bytes = 0;
    int at = from;
    for (; at < j->entries; at++) {
        bytes += (int64_t)zl_nbytes(j->entry[at].array);
        if (at > from && bytes > part_bytes)
            break;
    }
    return at;
}

// Computes the tensors of one file one after the other and saves them. They are released afterwards.
static bool write_part(struct job *j, const char *name, int from, int to) {
    char path[sizeof j->folder + 64];
    zl_file *file = zl_file_new();
    bool ok = file && zl_file_add_metadata(
                          file, &(zl_metadata){.name = "format", .text = &(zl_text){"mlx", 3}, .texts = 1});
    for (int i = from; ok && i < to; i++) {
        struct entry *e = &j->entry[i];
        ok = zl_eval(e->array) && zl_file_add(file, e->name, e->array);
        j->done += e->source;
        if (ok && e->source && j->options->progress &&
            !j->options->progress(j->options->context, j->done, j->all)) {
            zl_file_free(file);
            return lm_fail(j->error, "interrupted");
        }
    }
    snprintf(path, sizeof path, "%s/%s", j->folder, name);
    ok = ok && zl_save_safetensors(path, file);
    zl_file_free(file);
    for (int i = from; i < to; i++) {
        zl_release(j->entry[i].array);
        j->entry[i].array = NULL;
    }
    return ok || lm_fail(j->error, "%s: %s", path, zl_error() ? zl_error() : "out of memory");
}

static bool write_parts(struct job *j, FILE *index) {
    int parts = 0, part = 0;
    for (int at = 0; at < j->entries; at = part_end(j, at))
        parts++;
    int64_t bytes = 0;
    for (int i = 0; i < j->entries; i++)
        bytes += (int64_t)zl_nbytes(j->entry[i].array);
    fprintf(index, "{\n    \"metadata\": {\n        \"total_size\": %lld\n    },\n    \"weight_map\": {",
            (long long)bytes);
    for (int at = 0, end; at < j->entries; at = end) {
        char name[64] = "model.safetensors";
        if (parts > 1)
            snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", ++part, parts);
        end = part_end(j, at);
        for (int i = at; i < end; i++)
            fprintf(index, "%s\n        \"%s\": \"%s\"", i ? "," : "", j->entry[i].name, name);
        if (!write_part(j, name, at, end))
            return false;
    }
    fputs("\n    }\n}\n", index);
    return true;
}

// Files beside the tensors ----------------------------------------------------------------------------------

static bool write_file(const struct job *j, const char *name, const char *text, size_t bytes) {
    char path[sizeof j->folder + 64];
    snprintf(path, sizeof path, "%s/%s", j->folder, name);
    if (zl_write_file(path, text, bytes))
        return true;
    lm_fail(j->error, "%s", zl_error());
    zl_clear_error();
    return false;
}

static int by_key(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Writes config.json: the original keys in their order, plus the quantisation under the two names that MLX
// looks for.
static bool write_config(struct job *j, const char *ways) {
    text_json_value root = j->config->root;
    int count = text_json_count(root), keys = 0;
    const char **key = calloc((size_t)count + 2, sizeof *key);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = key ? open_memstream(&text, &bytes) : NULL;
    for (int i = 0; out && i < count; i++) {
        const char *name;
        text_json_member(root, i, &name);
        if (strcmp(name, "_name_or_path") != 0 && strcmp(name, "quantization") != 0 &&
            strcmp(name, "quantization_config") != 0)
            key[keys++] = name;
    }
    if (out) {
        key[keys++] = "quantization", key[keys++] = "quantization_config";
        qsort(key, (size_t)keys, sizeof *key, by_key);
        fputc('{', out);
    }
    for (int i = 0; out && i < keys; i++) {
        fputs(i ? ",\n    " : "\n    ", out);
        text_json_write_text(out, key[i], strlen(key[i]));
        fputs(": ", out);
        if (!strcmp(key[i], "quantization") || !strcmp(key[i], "quantization_config"))
            fprintf(
                out,
                "{\n        \"group_size\": %d,\n        \"bits\": %d,\n        \"mode\": \"%s\"%s\n    }",
                j->way.group_size, j->way.bits, j->way.mode, ways);
        else
            text_json_write(out, text_json_get(root, key[i]), 1);
    }
    bool ok = out && fputs("\n}\n", out) >= 0;
    ok = out && !fclose(out) && ok;
    ok = ok ? write_file(j, "config.json", text, bytes) : lm_fail(j->error, "config.json: out of memory");
    free(text);
    free(key);
    return ok;
}

// Copies the files of the tokenizer and the settings of generation.
static bool copy_files(const struct job *j, const char *from) {
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "special_tokens_map.json",
                                        "generation_config.json"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[4200];
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", from, names[i]);
        if (access(path, F_OK))
            continue;
        char *text = text_read_file(path, &bytes, j->error->text, sizeof j->error->text);
        bool ok = text && write_file(j, names[i], text, bytes);
        free(text);
        if (!ok)
            return false;
    }
    return true;
}

// The folder ------------------------------------------------------------------------------------------------

static bool is_empty(const char *folder) {
    DIR *list = opendir(folder);
    bool empty = list;
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list))
        empty = empty && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."));
    if (list)
        closedir(list);
    return empty;
}

// Makes the temporary folder. A result folder that exists is refused unless it is empty; the rename at the
// end replaces it.
static bool begin_folder(struct job *j, const char *out) {
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/')
        length--;
    if (!access(out, F_OK) && !is_empty(out))
        return lm_fail(j->error, "%s: is there already: name a folder that is not", out);
    if (snprintf(j->folder, sizeof j->folder, "%.*s.part-%ld", (int)length, out, (long)getpid()) >=
        (int)sizeof j->folder)
        return lm_fail(j->error, "%.300s...: the path is too long", out);
    if (!mkdir(j->folder, 0777))
        return true;
    lm_fail(j->error, "%s: %s", out, strerror(errno));
    j->folder[0] = '\0';
    return false;
}

static void remove_folder(const char *folder) {
    DIR *list = opendir(folder);
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
        char path[4096 + 256];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(path);
    }
    if (list)
        closedir(list);
    rmdir(folder);
}

static bool end_folder(struct job *j, const char *out) {
    return !rename(j->folder, out) || lm_fail(j->error, "%s: %s", out, strerror(errno));
}

// All -------------------------------------------------------------------------------------------------------

static bool write_all(struct job *j, const char *from, const char *out) {
    char *ways = NULL, *index = NULL;
    size_t ways_bytes = 0, index_bytes = 0;
    FILE *list = NULL;
    j->ways = open_memstream(&ways, &ways_bytes);
    bool ok = j->ways ? add_tensors(j) : lm_fail(j->error, "out of memory");
    if (j->ways)
        ok = !fclose(j->ways) && ok;
    ok = ok && begin_folder(j, out) &&
         ((list = open_memstream(&index, &index_bytes)) || lm_fail(j->error, "out of memory")) &&
         write_parts(j, list);
    if (list)
        ok = !fclose(list) && ok;
    ok = ok && write_file(j, "model.safetensors.index.json", index, index_bytes) && write_config(j, ways) &&
         copy_files(j, from) && end_folder(j, out);
    if (!ok && *j->folder)
        remove_folder(j->folder);
    free(ways);
    free(index);
    return ok;
}

bool zl_model_quantize(const char *folder, const char *out, const zl_quantize_options *options, char *error,
                       size_t error_bytes) {
    static const zl_quantize_options none;
    struct lm_error why = {""};
    struct lm_network network = {0};
    struct job j = {.options = options ? options : &none, .error = &why};
    bool ok = folder && out ? read_options(&j) : lm_fail(&why, "zl_model_quantize: a folder is NULL");
    if (ok && lm_is_gguf(folder))
        ok = lm_fail(&why, "%s: is a GGUF file, and a folder with config.json and safetensors is wanted",
                     folder);
    ok = ok && lm_network_open(&network, folder, &why);
    if (ok) {
        j.config = &network.config, j.weights = network.weights, j.centred = network.centred;
        read_dtype(&j);
        ok = write_all(&j, folder, out);
    }
    for (int i = 0; i < j.entries; i++) {
        zl_release(j.entry[i].array);
        free(j.entry[i].name);
    }
    free(j.entry);
    lm_network_free(&network);
    zl_clear_error();
    if (!ok && error && error_bytes)
        snprintf(error, error_bytes, "%s", why.text);
    return ok;
}
