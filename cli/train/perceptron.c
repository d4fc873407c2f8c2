// perceptron.c - a multi-layer perceptron: relu(x w + b) layer by layer, cross-entropy, SGD with momentum or Adam.

#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_BATCH = 2000 };

static bool read_widths(struct train_network *n, const char *hidden) {
    char *end;
    n->width[0] = TRAIN_PIXELS;
    for (n->layers = 1; n->layers < TRAIN_LAYERS_MOST; hidden = end + 1) {
        long width = strtol(hidden, &end, 10);
        if (end == hidden || width < 1 || width > 1 << 16 || (*end && *end != ','))
            return false;
        n->width[n->layers++] = (int)width;
        if (!*end)
            break;
    }
    n->width[n->layers] = TRAIN_CLASSES;
    n->parameters = 2 * n->layers;
    return !*end;
}

static zl_array kept(zl_array a) {
    return a && zl_eval(zl_retain(a)) ? a : NULL;
}

bool train_new(struct train_network *n, const char *hidden, bool adam, double rate, int64_t seed) {
    *n = (struct train_network){.adam = adam, .rate = rate};
    if (!read_widths(n, hidden))
        return false;
    zl_random_seed(seed);
    bool done = true;
    for (int i = 0; i < n->layers && done; i++)
        ZL_SCOPE {
            zl_shape shape = ZL_SHAPE(n->width[i], n->width[i + 1]), bias = ZL_SHAPE(n->width[i + 1]);
            n->parameter[2 * i] = kept(zl_multiply(zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, NULL),
                                                   zl_scalar(sqrt(2.0 / n->width[i]))));
            n->parameter[2 * i + 1] = kept(zl_zeros(bias, ZL_FLOAT32));
            for (int j = 2 * i; j < 2 * i + 2; j++) {
                n->first[j] = kept(zl_zeros(j % 2 ? bias : shape, ZL_FLOAT32));
                n->second[j] = kept(zl_zeros(j % 2 ? bias : shape, ZL_FLOAT32));
                done = done && n->parameter[j] && n->first[j] && n->second[j];
            }
        }
    return done;
}

void train_free(struct train_network *n) {
    for (int i = 0; i < n->parameters; i++) {
        zl_release(n->parameter[i]);
        zl_release(n->first[i]);
        zl_release(n->second[i]);
    }
    n->parameters = 0;
}

zl_array train_logits(const struct train_network *n, zl_array x) {
    for (int i = 0; i < n->layers; i++) {
        x = zl_add(zl_matmul(x, n->parameter[2 * i]), n->parameter[2 * i + 1]);
        if (i + 1 < n->layers)
            x = zl_maximum(x, zl_scalar(0));
    }
    return x;
}

// What a parameter and its moments become.
struct update {
    zl_array parameter, first, second;
};

// Falls in a straight line, so that the last steps settle.
static double rate_now(const struct train_network *n) {
    return n->steps > n->step ? n->rate * (1 - (double)n->step / n->steps) : n->steps ? 0 : n->rate;
}

static struct update adam(const struct train_network *n, int i, zl_array gradient) {
    const double b1 = 0.9, b2 = 0.999;
    zl_array first =
        zl_add(zl_multiply(zl_scalar(b1), n->first[i]), zl_multiply(zl_scalar(1 - b1), gradient));
    zl_array second =
        zl_add(zl_multiply(zl_scalar(b2), n->second[i]), zl_multiply(zl_scalar(1 - b2), zl_square(gradient)));
    double grown1 = 1 - pow(b1, n->step + 1), grown2 = 1 - pow(b2, n->step + 1);
    zl_array size = zl_add(zl_sqrt(zl_multiply(second, zl_scalar(1 / grown2))), zl_scalar(1e-8));
    zl_array move = zl_divide(zl_multiply(first, zl_scalar(rate_now(n) / grown1)), size);
    return (struct update){zl_subtract(n->parameter[i], move), first, second};
}

static struct update sgd(const struct train_network *n, int i, zl_array gradient) {
    zl_array first = zl_add(zl_multiply(zl_scalar(0.9), n->first[i]), gradient);
    return (struct update){zl_subtract(n->parameter[i], zl_multiply(zl_scalar(rate_now(n)), first)), first,
                           n->second[i]};
}

bool train_step(struct train_network *n, zl_array x, zl_array labels, double *loss) {
    bool done = false;
    ZL_SCOPE {
        zl_array gradient[TRAIN_PARAMETERS_MOST], all[3 * TRAIN_PARAMETERS_MOST + 1];
        int count = 0;
        zl_array mean = zl_mean(zl_fast_cross_entropy(train_logits(n, x), labels));
        done = mean && zl_grad(mean, n->parameters, n->parameter, gradient);
        for (int i = 0; done && i < n->parameters; i++) {
            struct update u = n->adam ? adam(n, i, gradient[i]) : sgd(n, i, gradient[i]);
            all[count++] = u.parameter, all[count++] = u.first, all[count++] = u.second;
        }
        all[count] = mean;
        done = done && zl_eval_all(count + 1, all);
        for (int i = 0; done && i < n->parameters; i++)
            done = zl_assign(&n->parameter[i], all[3 * i]) && zl_assign(&n->first[i], all[3 * i + 1]) &&
                   zl_assign(&n->second[i], all[3 * i + 2]);
        if (done && loss)
            *loss = zl_item(mean);
    }
    n->step++;
    return done;
}

double train_accuracy(const struct train_network *n, const struct train_dataset *data) {
    double right = 0;
    for (int at = 0; at < data->count; at += TEST_BATCH)
        ZL_SCOPE {
            int count = data->count - at < TEST_BATCH ? data->count - at : TEST_BATCH;
            zl_array x = train_images(data->image + (size_t)at * TRAIN_PIXELS, count);
            zl_array best = zl_astype(zl_argmax_axis(train_logits(n, x), -1, false), ZL_INT32);
            zl_array hits =
                zl_sum(zl_astype(zl_equal(best, train_labels(data->label + at, count)), ZL_FLOAT32));
            right += hits ? zl_item(hits) : (double)NAN;
        }
    return right / data->count;
}

// Checkpoints: parameters, moments, and how far it is ---------------------------------------------------------

bool train_save(const struct train_network *n, const char *path) {
    zl_file *file = zl_file_new();
    bool done = file;
    char name[32], number[32];
    for (int i = 0; done && i < n->parameters; i++)
        for (int kind = 0; kind < 3 && done; kind++) {
            snprintf(name, sizeof name, "%s.%d", (const char *[]){"parameter", "first", "second"}[kind], i);
            done = zl_file_add(file, name,
                               kind == 0   ? n->parameter[i]
                               : kind == 1 ? n->first[i]
                                           : n->second[i]);
        }
    for (int i = 0; i < 2 && done; i++) {
        snprintf(number, sizeof number, "%d", i ? n->step : n->epoch);
        zl_text text = {number, strlen(number)};
        done = zl_file_add_metadata(file,
                                    &(zl_metadata){.name = i ? "step" : "epoch", .text = &text, .texts = 1});
    }
    done = done && zl_save_safetensors(path, file);
    zl_file_free(file);
    return done;
}

static bool take(zl_array *owned, const zl_file *file, const char *kind, int index) {
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, index);
    zl_array found = zl_file_find(file, name);
    if (!found)
        return false;
    zl_shape a = zl_shape_of(found), b = zl_shape_of(*owned);
    bool fits = a.ndim == b.ndim && !memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim);
    return fits && zl_assign(owned, found);
}

bool train_load(struct train_network *n, const char *path) {
    zl_file *file = zl_load_safetensors(path);
    bool done = file;
    zl_metadata value;
    for (int i = 0; done && i < n->parameters; i++)
        done = take(&n->parameter[i], file, "parameter", i) && take(&n->first[i], file, "first", i) &&
               take(&n->second[i], file, "second", i);
    for (int i = 0; done && zl_file_metadata(file, i, &value); i++)
        if (value.texts == 1)
            *(strcmp(value.name, "epoch") ? &n->step : &n->epoch) = atoi(value.text[0].data);
    zl_file_free(file);
    return done;
}
