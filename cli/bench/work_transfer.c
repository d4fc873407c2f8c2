// work_transfer.c - times copies between host memory and the device. Ops: upload, download.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

static bool prepare(struct bench_work *w) {
    int64_t bytes = w->config->dims ? w->config->dim[0] : 0;
    if (bytes < 4 || (strcmp(w->config->op, "upload") && strcmp(w->config->op, "download")))
        return bench_fail(w, "transfer needs a size in bytes and the op upload or download");
    unsigned char *data = w->data = malloc((size_t)bytes);
    for (int64_t i = 0; data && i < bytes; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    w->bytes = (double)bytes;
    return data && bench_hold(w, zl_from(data, ZL_SHAPE(bytes), ZL_UINT8));
}

// Uploads `bytes` bytes. A device copies a whole array as soon as one of its elements is read; on the CPU
// zl_from copies it.
static bool upload(struct bench_work *w, int64_t bytes) {
    if (!w->is_async)
        return zl_eval(zl_from(w->data, ZL_SHAPE(bytes), ZL_UINT8));
    zl_array there = zl_from_foreign(w->data, ZL_SHAPE(bytes), ZL_UINT8, NULL);
    zl_array first = zl_slice(there, ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(1));
    return zl_async_eval(zl_add(first, zl_scalar_int(1)));
}

// Downloads an array. On a device it is computed anew for each copy, as the host keeps a copy of what it has
// read; that costs little at the speed of device memory. On the CPU the array is already in host memory.
static bool download(struct bench_work *w, int64_t bytes) {
    zl_array made = w->is_async ? zl_add(w->in[0], zl_scalar_int(1)) : w->in[0];
    return zl_copy_to(made, w->data, (size_t)bytes);
}

static bool run(struct bench_work *w, int count) {
    bool uploads = !strcmp(w->config->op, "upload"), done = true;
    for (int i = 0; i < count && done; i++)
        ZL_SCOPE {
            done = (uploads ? upload : download)(w, (int64_t)w->bytes);
        }
    return (!w->is_async || zl_synchronize()) && done;
}

// Verifies both directions: uploads, adds one to each element, and downloads.
static bool verify(struct bench_work *w) {
    const unsigned char *data = w->data;
    size_t bytes = (size_t)w->bytes;
    unsigned char *back = malloc(bytes);
    bool right = back && zl_copy_to(zl_add(w->in[0], zl_scalar_int(1)), back, bytes);
    for (size_t i = 0; i < bytes && right; i++)
        right = back[i] == (unsigned char)(data[i] + 1);
    free(back);
    return right || bench_fail(w, "wrong result: other bytes came back");
}

const struct bench_work_kind bench_work_transfer = {
    .name = "transfer",
    .unit = "B",
    .summary = "bytes to the device and back",
    .prepare = prepare,
    .run = run,
    .verify = verify,
};
