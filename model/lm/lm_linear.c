// lm_linear.c - matrices of a model, as floats or quantised by MLX; config.json describes the quantisation of
// each matrix.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const modes[] = {"affine", "mxfp4", "mxfp8", "nvfp4"}, gguf_k[] = "gguf_k";

// Sets how the matrix `name` is quantised, by the default of all matrices if it has no entry. Returns false
// after an error.
static bool read_quantization(struct lm_linear *linear, const struct lm_config *config, const char *name,
                              struct lm_error *error) {
    text_json_value all = config->quantization, own = text_json_get(all, name),
                    from = text_json_is_object(own) ? own : all;
    const char *mode = text_json_text_of(from, "mode");
    linear->group_size = (int)text_json_integer(text_json_get(from, "group_size"));
    linear->bits = (int)text_json_integer(text_json_get(from, "bits"));
    linear->mode = *mode ? NULL : modes[0];
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(mode, modes[i]))
            linear->mode = modes[i];
    if (!linear->mode || linear->group_size < 1 || linear->bits < 1 || linear->bits > 8)
        return lm_fail(error,
                       "config.json: field 'quantization' does not say how '%.128s' is quantised: mode "
                       "'%.16s', %d bits in groups of %d",
                       name, mode, linear->bits, linear->group_size);
    return true;
}

// Finds the mode, bits and group size of a quantised matrix from the sizes of its tensors, if no
// configuration has them: in llama.cpp's files each tensor has its own type.
static bool find_quantization(struct lm_linear *linear, struct lm_weights *weights, const char *name,
                              int inputs, struct lm_error *error) {
    int64_t words = lm_weights_columns(weights, name, "weight"),
            groups = lm_weights_columns(weights, name, "scales");
    linear->bits = (int)(words * 32 / inputs);
    linear->mode = lm_weights_is(weights, name, "scales", ZL_UINT8) ? gguf_k : modes[0];
    linear->group_size = linear->mode == gguf_k ? linear->bits == 6 ? 16 : 32
                         : groups               ? (int)(inputs / groups)
                                                : 0;
    if (linear->bits < 2 || linear->bits > 8 || linear->group_size < 1)
        return lm_fail(error,
                       "'%.128s' has rows of %lld words and %lld scales, which are no quantised rows of %d",
                       name, (long long)words, (long long)groups, inputs);
    return true;
}

// Takes one tensor of a matrix with `outputs` rows of `columns` elements, or of a stack of such matrices.
static zl_array take(struct lm_weights *weights, const char *name, const char *part, int experts,
                     int64_t outputs, int64_t columns, struct lm_error *error) {
    char full[320];
    int64_t dim[3] = {experts, outputs, columns};
    zl_shape shape = experts ? (zl_shape){dim, 3} : (zl_shape){dim + 1, 2};
    snprintf(full, sizeof full, "%s.%s", name, part);
    return zl_retain(lm_weights_take(weights, full, shape, error));
}

static bool load_quantized(struct lm_linear *linear, struct lm_weights *weights,
                           const struct lm_config *config, const char *name, int experts, int outputs,
                           int inputs, struct lm_error *error) {
    char biases[320];
    if (!(config->quantization ? read_quantization(linear, config, name, error)
                               : find_quantization(linear, weights, name, inputs, error)))
        return false;
    snprintf(biases, sizeof biases, "%s.biases", name);
    int64_t groups = inputs / linear->group_size;
    if (linear->mode == gguf_k) // the number of bytes is checked when they are read
        groups = -1;
    linear->weight =
        take(weights, name, "weight", experts, outputs, (int64_t)inputs * linear->bits / 32, error);
    linear->scales = linear->weight ? take(weights, name, "scales", experts, outputs, groups, error) : NULL;
    if (linear->scales && lm_weights_has(weights, biases) &&
        !(linear->biases = take(weights, name, "biases", experts, outputs, groups, error)))
        return false;
    return linear->scales;
}

// Stacks experts that are separate in the file. The stack is computed when it is first used.
zl_array lm_linear_stack(struct lm_weights *weights, const char *mlp, const char *part, int experts,
                         int outputs, int inputs, struct lm_error *error) {
    zl_array *one = calloc((size_t)experts, sizeof *one), stack = NULL;
    char name[320];
    int count = 0;
    if (!one) {
        lm_fail(error, "%s: out of memory", mlp);
        return NULL;
    }
    ZL_SCOPE {
        for (; count < experts; count++) {
            snprintf(name, sizeof name, "%s.experts.%d.%s.weight", mlp, count, part);
            zl_array found = lm_weights_take(weights, name, ZL_SHAPE(outputs, inputs), error);
            if (!(one[count] = found ? zl_expand_dims(found, ZL_AXES(0)) : NULL))
                break;
        }
        stack = count == experts ? zl_retain(zl_concatenate(one, experts, 0)) : NULL;
    }
    free(one);
    return stack;
}

bool lm_linear_load_experts(struct lm_linear *linear, struct lm_weights *weights,
                            const struct lm_config *config, const char *mlp, const char *part, int outputs,
                            int inputs, struct lm_error *error) {
    char stacked[256], weight[320];
    snprintf(stacked, sizeof stacked, "%s.switch_mlp.%s", mlp, part);
    snprintf(weight, sizeof weight, "%s.weight", stacked);
    if (lm_weights_has(weights, weight))
        return lm_linear_load(linear, weights, config, stacked, config->experts, outputs, inputs, false,
                              error);
    *linear = (struct lm_linear){0};
    linear->weight = lm_linear_stack(weights, mlp, part, config->experts, outputs, inputs, error);
    return linear->weight;
}

bool lm_linear_load(struct lm_linear *linear, struct lm_weights *weights, const struct lm_config *config,
                    const char *name, int experts, int outputs, int inputs, bool bias,
                    struct lm_error *error) {
    char scales[320];
    *linear = (struct lm_linear){.rows = lm_weights_dtype(weights)};
    snprintf(scales, sizeof scales, "%s.scales", name);
    if (lm_weights_has(weights, scales)) {
        if (!load_quantized(linear, weights, config, name, experts, outputs, inputs, error))
            return false;
    } else if (!(linear->weight = take(weights, name, "weight", experts, outputs, inputs, error))) {
        return false;
    }
    if (bias) {
        char full[320];
        snprintf(full, sizeof full, "%s.bias", name);
        linear->bias = zl_retain(lm_weights_take(weights, full, ZL_SHAPE(outputs), error));
    }
    return !bias || linear->bias;
}

void lm_linear_free(struct lm_linear *linear) {
    zl_release(linear->weight);
    zl_release(linear->scales);
    zl_release(linear->biases);
    zl_release(linear->bias);
    *linear = (struct lm_linear){0};
}

// The tensors of a matrix, all with the same number of rows.
enum { ROW_TENSORS = 4 };
static zl_array *tensor_of(struct lm_linear *linear, int index) {
    return index == 0   ? &linear->weight
           : index == 1 ? &linear->scales
           : index == 2 ? &linear->biases
                        : &linear->bias;
}

static bool lie_alike(struct lm_linear *a, struct lm_linear *b) {
    bool alike =
        a->weight && b->weight && a->group_size == b->group_size && a->bits == b->bits && a->mode == b->mode;
    for (int i = 0; alike && i < ROW_TENSORS; i++) {
        zl_array x = *tensor_of(a, i), y = *tensor_of(b, i);
        alike = !x == !y && (!x || (zl_dtype_of(x) == zl_dtype_of(y) && zl_ndim(x) == zl_ndim(y) &&
                                    (zl_ndim(x) < 2 || zl_dim(x, 1) == zl_dim(y, 1))));
    }
    return alike && zl_ndim(a->weight) == 2;
}

static bool join_tensor(struct lm_linear *all, struct lm_linear *const *each, int count, int index,
                        struct lm_weights *weights) {
    zl_array part[LM_JOIN_MOST], *to = tensor_of(all, index);
    for (int i = 0; i < count; i++)
        part[i] = *tensor_of(each[i], index);
    if (!part[0])
        return true;
    *to = zl_retain(zl_concatenate(part, count, 0));
    int64_t at = 0;
    for (int i = 0; *to && i < count; i++) {
        int64_t rows = zl_dim(part[i], 0);
        zl_array view = lm_slice(*to, 0, at, at + rows);
        if (!view)
            return false;
        lm_weights_replace(weights, part[i], view);
        *tensor_of(each[i], index) = zl_retain(view);
        zl_release(part[i]);
        at += rows;
    }
    return *to;
}

bool lm_linear_join(struct lm_linear *all, struct lm_linear *const *each, int count,
                    struct lm_weights *weights) {
    bool joined = true, alike = count <= LM_JOIN_MOST;
    for (int i = 1; alike && i < count; i++)
        alike = lie_alike(each[0], each[i]);
    *all =
        (struct lm_linear){.group_size = each[0]->group_size, .bits = each[0]->bits, .mode = each[0]->mode};
    for (int index = 0; alike && joined && index < ROW_TENSORS; index++)
        ZL_SCOPE {
            joined = join_tensor(all, each, count, index, weights);
        }
    return joined;
}

zl_array lm_linear_apply(const struct lm_linear *linear, zl_array x) {
    zl_array y = linear->scales ? zl_quantized_matmul(x, linear->weight, linear->scales, linear->biases, true,
                                                      linear->group_size, linear->bits, linear->mode)
                                : zl_matmul(x, zl_swapaxes(linear->weight, -1, -2));
    return linear->bias ? zl_add(y, linear->bias) : y;
}

zl_array lm_linear_apply_chosen(const struct lm_linear *linear, zl_array x, zl_array chosen) {
    if (linear->scales)
        return zl_gather_qmm(x, linear->weight, linear->scales, linear->biases, NULL, chosen, true,
                             linear->group_size, linear->bits, linear->mode, NULL, false);
    return zl_gather_mm(x, zl_swapaxes(linear->weight, -1, -2), NULL, chosen, false);
}

zl_array lm_linear_rows(const struct lm_linear *linear, zl_array ids) {
    zl_array part[] = {linear->scales ? linear->scales : linear->weight, linear->biases};
    for (int i = 0; i < 2;
         i++) { // of a quantised matrix, the scales and biases are widened, not the result
        part[i] = part[i] ? zl_take(part[i], ids, 0) : NULL;
        bool floats = part[i] && linear->mode != gguf_k && linear->rows != ZL_DTYPE_COUNT;
        part[i] = floats ? zl_astype(part[i], linear->rows) : part[i];
    }
    if (!linear->scales)
        return part[0];
    return zl_dequantize(zl_take(linear->weight, ids, 0), part[0], part[1], linear->group_size, linear->bits,
                         linear->mode, NULL, linear->mode == gguf_k ? linear->rows : ZL_DTYPE_COUNT);
}
