// train.h - `zellige train mnist`: a perceptron on Fashion-MNIST.

#ifndef TRAIN_H
#define TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zellige.h"

// dataset.c -----------------------------------------------------------------------------------------------------

enum { TRAIN_PIXELS = 784, TRAIN_CLASSES = 10 };

struct train_dataset {
    int count;
    unsigned char *image; // (count, TRAIN_PIXELS), as the file has them; owned
    unsigned char *label; // (count); owned
};
// kind: "train" or "t10k". The four files of the dataset are in folder, plain or compressed by gzip.
bool train_read_dataset(struct train_dataset *out, const char *folder, const char *kind, char *error, size_t error_bytes);
void train_free_dataset(struct train_dataset *dataset);
zl_array train_images(const unsigned char *image, int count); // (count, TRAIN_PIXELS), 0 to 1
zl_array train_labels(const unsigned char *label, int count); // int32

// perceptron.c --------------------------------------------------------------------------------------------------

enum { TRAIN_LAYERS_MOST = 8, TRAIN_PARAMETERS_MOST = 2 * TRAIN_LAYERS_MOST };

struct train_network {
    int layers, parameters; // two parameters a layer: matrix, bias
    int width[TRAIN_LAYERS_MOST + 1];
    bool adam;
    double rate;     // at first; it falls to zero
    int steps;       // of all of the training
    int epoch, step; // that are done
    zl_array parameter[TRAIN_PARAMETERS_MOST], first[TRAIN_PARAMETERS_MOST], second[TRAIN_PARAMETERS_MOST];
};

// hidden: "128" or "256,256". False: that is not a list of widths, or zl_error().
bool train_new(struct train_network *n, const char *hidden, bool adam, double rate, int64_t seed);
void train_free(struct train_network *n);
zl_array train_logits(const struct train_network *n, zl_array x);
bool train_step(struct train_network *n, zl_array x, zl_array labels, double *loss); // loss may be NULL
double train_accuracy(const struct train_network *n, const struct train_dataset *data); // NaN: failed
bool train_save(const struct train_network *n, const char *path);
bool train_load(struct train_network *n, const char *path); // of a network with the same widths

#endif
