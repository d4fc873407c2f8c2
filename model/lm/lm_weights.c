// lm_weights.c - the tensors of a checkpoint by name, from all its files.

#include "lm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tensor {
    const char *name; // owned by a file, or by the entry
    zl_array array;   // owned by a file, or retained by the entry
    bool used;
};

struct lm_weights {
    zl_file **part;
    int parts, tensors;
    struct tensor *tensor; // sorted by name
    int room;              // capacity of `tensor` when the entries own their names and arrays; 0 otherwise
    zl_dtype dtype;
    bool is_random, quantized; // is_random: tensors are drawn when they are taken
    int64_t seed;
    zl_dtype drawn;
    char folder[4096];
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static struct tensor *find(const struct lm_weights *w, const char *name) {
    struct tensor key = {.name = name};
    return w->tensors ? bsearch(&key, w->tensor, (size_t)w->tensors, sizeof key, by_name) : NULL;
}

static bool open_part(struct lm_weights *w, const char *name, struct lm_error *error) {
    char path[sizeof w->folder + 256];
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    zl_file **part = realloc(w->part, (size_t)(w->parts + 1) * sizeof *part);
    if (!part)
        return lm_fail(error, "%s: out of memory", path);
    w->part = part;
    w->part[w->parts] = zl_load_safetensors(path);
    if (!w->part[w->parts]) {
        lm_fail(error, "%s", zl_error());
        zl_clear_error();
        return false;
    }
    w->parts++;
    return true;
}

// Opens the files of an index. They must be in the same folder: names with a slash are refused.
static bool open_parts(struct lm_weights *w, text_json_value index, const char *path,
                       struct lm_error *error) {
    text_json_value map = text_json_get(index, "weight_map");
    const char **seen = calloc((size_t)text_json_count(map) + 1, sizeof *seen);
    int count = 0;
    bool opened = seen && text_json_count(map) > 0;
    if (!opened)
        lm_fail(error, "%s: field 'weight_map' names no tensor", path);
    for (int i = 0; opened && i < text_json_count(map); i++) {
        const char *tensor, *name = text_json_text(text_json_member(map, i, &tensor));
        if (!name || !*name || strchr(name, '/')) {
            opened =
                lm_fail(error, "%s: field 'weight_map': '%.64s' is in no file of this folder", path, tensor);
            break;
        }
        bool known = false;
        for (int j = count - 1; j >= 0 && !known; j--) // mostly the file of the tensor before
            known = !strcmp(seen[j], name);
        if (!known) {
            seen[count++] = name;
            opened = open_part(w, name, error);
        }
    }
    free(seen);
    return opened;
}

static bool list_tensors(struct lm_weights *w, struct lm_error *error) {
    bool listed = true;
    for (int p = 0; p < w->parts; p++) {
        for (int i = 0; listed && i < zl_file_count(w->part[p]); i++)
            listed = lm_weights_add(w, zl_file_name(w->part[p], i), zl_file_array(w->part[p], i));
        zl_file_free(w->part[p]); // only the tensors still hold its memory, so that replacing one frees it
    }
    w->parts = 0;
    lm_weights_finish(w, w->dtype);
    return listed || lm_fail(error, "%s: out of memory", w->folder);
}

struct lm_weights *lm_weights_open(const char *folder, struct lm_error *error) {
    struct lm_weights *w = calloc(1, sizeof *w);
    char path[sizeof w->folder + 64];
    struct stat status;
    if (!w) {
        lm_fail(error, "%s: out of memory", folder);
        return NULL;
    }
    w->dtype = ZL_DTYPE_COUNT;
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    bool opened;
    if (!stat(path, &status)) {
        text_json_value index = text_json_load(path, error->text, sizeof error->text);
        opened = index && open_parts(w, index, path, error);
        text_json_free(index);
    } else {
        opened = open_part(w, "model.safetensors", error);
    }
    if (opened && list_tensors(w, error))
        return w;
    lm_weights_free(w);
    return NULL;
}

struct lm_weights *lm_weights_new(const char *label) {
    struct lm_weights *w = calloc(1, sizeof *w);
    if (w)
        snprintf(w->folder, sizeof w->folder, "%s", label);
    return w;
}

bool lm_weights_add(struct lm_weights *w, const char *name, zl_array a) {
    if (w->tensors == w->room) {
        int room = w->room ? 2 * w->room : 64;
        struct tensor *more = realloc(w->tensor, (size_t)room * sizeof *more);
        if (!more)
            return false;
        w->tensor = more, w->room = room;
    }
    char *copy = a ? strdup(name) : NULL;
    if (copy)
        w->tensor[w->tensors++] = (struct tensor){copy, zl_retain(a), false};
    return copy;
}

void lm_weights_finish(struct lm_weights *w, zl_dtype dtype) {
    w->dtype = dtype;
    if (w->tensors)
        qsort(w->tensor, (size_t)w->tensors, sizeof *w->tensor, by_name);
}

zl_dtype lm_weights_dtype(const struct lm_weights *w) {
    return w->dtype;
}

void lm_weights_free(struct lm_weights *w) {
    for (int i = 0; w && w->room && i < w->tensors; i++) {
        free((char *)(uintptr_t)w->tensor[i].name);
        zl_release(w->tensor[i].array);
    }
    for (int p = 0; w && p < w->parts; p++)
        zl_file_free(w->part[p]);
    if (w)
        free(w->part), free(w->tensor);
    free(w);
}

static bool ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), tail = strlen(end);
    return bytes >= tail && !strcmp(text + bytes - tail, end);
}

// Random weights have all experts as one stack.
bool lm_weights_has(const struct lm_weights *w, const char *name) {
    if (!w->is_random)
        return find(w, name);
    return ends_with(name, ".scales") || ends_with(name, ".biases") ? w->quantized
                                                                    : strstr(name, ".switch_mlp.") != NULL;
}

struct lm_weights *lm_weights_random(int64_t seed, zl_dtype dtype, bool quantized) {
    struct lm_weights *w = lm_weights_new("random weights");
    if (w)
        w->is_random = true, w->quantized = quantized, w->seed = seed, w->drawn = dtype,
        w->dtype = ZL_DTYPE_COUNT;
    return w;
}

// Draws random values for a tensor: vectors are ones, matrices and convolutions are normal with deviation
// 1 / sqrt(columns), codes are random bits, and scales and biases are small.
static zl_array draw(struct lm_weights *w, const char *name, zl_shape shape) {
    zl_array key = zl_random_key(w->seed + w->tensors), a = NULL;
    if (shape.ndim == 1)
        a = zl_ones(shape, w->drawn);
    else if (ends_with(name, ".scales") || ends_with(name, ".biases"))
        a = zl_astype(zl_multiply(zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, key), zl_scalar(0.003)),
                      w->drawn);
    else if (w->quantized && !ends_with(name, "conv1d.weight"))
        a = zl_random_bits(shape, 4, key);
    else
        a = zl_astype(zl_multiply(zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, key),
                                  zl_scalar(1 / sqrt((double)shape.dim[shape.ndim - 1]))),
                      w->drawn);
    return lm_weights_add(w, name, a) && zl_eval(a) ? a : NULL;
}

int64_t lm_weights_columns(const struct lm_weights *w, const char *name, const char *part) {
    char full[320];
    snprintf(full, sizeof full, "%s.%s", name, part);
    const struct tensor *t = find(w, full);
    zl_shape shape = t ? zl_shape_of(t->array) : (zl_shape){0};
    return shape.ndim ? shape.dim[shape.ndim - 1] : 0;
}

bool lm_weights_is(const struct lm_weights *w, const char *name, const char *part, zl_dtype dtype) {
    char full[320];
    snprintf(full, sizeof full, "%s.%s", name, part);
    const struct tensor *t = find(w, full);
    return t && zl_dtype_of(t->array) == dtype;
}

static void write_shape(zl_shape shape, char *out, size_t bytes) {
    size_t used = (size_t)snprintf(out, bytes, "(");
    for (int i = 0; i < shape.ndim && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, shape.dim[i] < 0 ? "%sany" : "%s%lld",
                                 i ? ", " : "", (long long)shape.dim[i]);
    if (used < bytes)
        snprintf(out + used, bytes - used, ")");
}

static bool fits(zl_shape is, zl_shape wanted) {
    bool same = is.ndim == wanted.ndim;
    for (int i = 0; same && i < is.ndim; i++)
        same = wanted.dim[i] < 0 || wanted.dim[i] == is.dim[i];
    return same;
}

zl_array lm_weights_take(struct lm_weights *w, const char *name, zl_shape shape, struct lm_error *error) {
    char is[128], wanted[128];
    if (w->is_random) {
        zl_array drawn = NULL;
        ZL_SCOPE {
            drawn = draw(w, name, shape);
        }
        if (!drawn)
            lm_fail(error, "%s: %s", name, zl_error() ? zl_error() : "out of memory");
        else
            w->tensor[w->tensors - 1].used = true;
        return drawn;
    }
    struct tensor *t = find(w, name);
    if (!t) {
        lm_fail(error, "%s: tensor '%.128s' is missing", w->folder, name);
        return NULL;
    }
    if (!fits(zl_shape_of(t->array), shape)) {
        write_shape(zl_shape_of(t->array), is, sizeof is);
        write_shape(shape, wanted, sizeof wanted);
        lm_fail(error, "%s: tensor '%.128s' is %s, wanted %s", w->folder, name, is, wanted);
        return NULL;
    }
    t->used = true;
    return t->array;
}

// Returns whether a tensor may be ignored: tables of rotary positions that old versions stored, an output
// matrix that is tied to the embedding, vision towers, and layers that predict further tokens.
static bool may_be_left(const char *name, bool tied) {
    static const char *const beside[] = {"model.visual.", "vision_tower.", "mtp."};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (!strncmp(name, beside[i], strlen(beside[i])))
            return true;
    return strstr(name, "rotary_emb.inv_freq") || (tied && !strncmp(name, "lm_head.", 8));
}

bool lm_weights_all_used(const struct lm_weights *w, bool tied, struct lm_error *error) {
    for (int i = 0; i < w->tensors; i++)
        if (!w->tensor[i].used && !may_be_left(w->tensor[i].name, tied))
            return lm_fail(error, "%s: tensor '%.128s' has no place in this architecture", w->folder,
                           w->tensor[i].name);
    return true;
}

// Returns whether a tensor is part of a quantised matrix: NAME.weight beside NAME.scales, or these.
static bool is_quantized(const struct lm_weights *w, const char *name) {
    char scales[320];
    snprintf(scales, sizeof scales, "%.*s.scales", (int)(strlen(name) - strlen(".weight")), name);
    return ends_with(name, ".scales") || (ends_with(name, ".weight") && lm_weights_has(w, scales));
}

bool lm_weights_are_floats(const struct lm_weights *w, struct lm_error *error) {
    for (int i = 0; i < w->tensors; i++) {
        const struct tensor *t = &w->tensor[i];
        zl_dtype dtype = zl_dtype_of(t->array);
        bool floats =
            dtype == ZL_FLOAT32 || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT16 || dtype == ZL_FLOAT64;
        if (t->used && !floats && strlen(t->name) > strlen(".weight") && !is_quantized(w, t->name))
            return lm_fail(error, "%s: tensor '%.128s' has elements of %s, wanted floats of 16 bits or more",
                           w->folder, t->name, zl_dtype_name(dtype));
    }
    return true;
}

void lm_weights_replace(struct lm_weights *w, zl_array tensor, zl_array by) {
    for (int i = 0; i < w->tensors; i++)
        if (w->tensor[i].array == tensor) {
            w->tensor[i].array = zl_retain(by);
            zl_release(tensor);
            return;
        }
}

zl_array lm_weights_at(const struct lm_weights *w, int index, const char **name) {
    for (int i = 0; index >= 0 && i < w->tensors; i++)
        if (w->tensor[i].used && index-- == 0) {
            *name = w->tensor[i].name;
            return w->tensor[i].array;
        }
    return NULL;
}

size_t lm_weights_bytes(const struct lm_weights *w) {
    size_t bytes = 0;
    for (int i = 0; i < w->tensors; i++)
        bytes += w->tensor[i].used ? zl_nbytes(w->tensor[i].array) : 0;
    return bytes;
}
