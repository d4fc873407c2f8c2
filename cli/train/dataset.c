// dataset.c - reads files in MNIST's format (IDX): a magic number, sizes, bytes. zlib, loaded at run time,
// reads both compressed and uncompressed files.

#include "train.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    void *library;
    void *(*open)(const char *path, const char *mode);
    int (*read)(void *file, void *out, unsigned bytes);
    int (*close)(void *file);
} zlib;

static bool open_zlib(void) {
    if (zlib.library)
        return true;
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    *(void **)&zlib.open = dlsym(library, "gzopen");
    *(void **)&zlib.read = dlsym(library, "gzread");
    *(void **)&zlib.close = dlsym(library, "gzclose");
    if (zlib.open && zlib.read && zlib.close)
        zlib.library = library;
    return zlib.library;
}

static uint32_t big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

// Reads a file whose items have `each` bytes, and sets *count to their number. Returns the bytes, to be
// freed; NULL after an error.
static unsigned char *read_idx(const char *path, uint32_t magic, int head, int each, int *count, char *error,
                               size_t bytes) {
    unsigned char start[16], *data = NULL;
    void *file = zlib.open(path, "rb");
    bool fits = file && zlib.read(file, start, (unsigned)head) == head && big_endian(start) == magic;
    *count = fits ? (int)big_endian(start + 4) : 0;
    fits = fits && *count > 0 && *count < 1 << 24;
    if (fits && (data = malloc((size_t)*count * (size_t)each)))
        fits = zlib.read(file, data, (unsigned)*count * (unsigned)each) == *count * each;
    if (file)
        zlib.close(file);
    if (!data || !fits) {
        snprintf(error, bytes, "%s is not a whole file of MNIST's form", path);
        free(data);
        return NULL;
    }
    return data;
}

static void find_file(char *path, size_t bytes, const char *folder, const char *kind, const char *what) {
    snprintf(path, bytes, "%s/%s-%s-ubyte.gz", folder, kind, what);
    if (access(path, R_OK))
        snprintf(path, bytes, "%s/%s-%s-ubyte", folder, kind, what);
}

bool train_read_dataset(struct train_dataset *out, const char *folder, const char *kind, char *error,
                        size_t error_bytes) {
    char images[512], labels[512];
    int label_count = 0;
    *out = (struct train_dataset){0};
    find_file(images, sizeof images, folder, kind, "images-idx3");
    find_file(labels, sizeof labels, folder, kind, "labels-idx1");
    if (access(images, R_OK)) {
        snprintf(error, error_bytes, "no dataset in %s: apt install dataset-fashion-mnist, or give --data",
                 folder);
        return false;
    }
    if (!open_zlib()) {
        snprintf(error, error_bytes, "reading the dataset needs libz.so.1: apt install zlib1g");
        return false;
    }
    out->image = read_idx(images, 0x803, 16, TRAIN_PIXELS, &out->count, error, error_bytes);
    out->label = out->image ? read_idx(labels, 0x801, 8, 1, &label_count, error, error_bytes) : NULL;
    bool done = out->label && label_count == out->count;
    if (out->label && !done)
        snprintf(error, error_bytes, "%s has %d images, but %d labels", folder, out->count, label_count);
    if (!done)
        train_free_dataset(out);
    return done;
}

void train_free_dataset(struct train_dataset *dataset) {
    free(dataset->image);
    free(dataset->label);
    *dataset = (struct train_dataset){0};
}

// Uploads bytes, which the device converts to floats: uploading floats would move four times as much.
zl_array train_images(const unsigned char *image, int count) {
    zl_array bytes = zl_from(image, ZL_SHAPE(count, TRAIN_PIXELS), ZL_UINT8);
    return zl_multiply(zl_astype(bytes, ZL_FLOAT32), zl_scalar(1.0f / 255));
}

zl_array train_labels(const unsigned char *label, int count) {
    return zl_astype(zl_from(label, ZL_SHAPE(count), ZL_UINT8), ZL_INT32);
}
