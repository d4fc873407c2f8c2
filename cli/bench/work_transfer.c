// work_transfer.c - bytes from the host to the device and back. Ops: upload, download.

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

static bool run(struct bench_work *w, int count) {
    bool uploads = !strcmp(w->config->op, "upload"), done = true;
    for (int i = 0; i < count && done; i++)
        ZL_SCOPE {
            done = uploads ? zl_eval(zl_from(w->data, ZL_SHAPE((int64_t)w->bytes), ZL_UINT8))
                           : zl_copy_to(w->in[0], w->data, (size_t)w->bytes);
        }
    return done;
}

static bool verify(struct bench_work *w) {
    unsigned char *back = malloc((size_t)w->bytes);
    bool right =
        back && zl_copy_to(w->in[0], back, (size_t)w->bytes) && !memcmp(back, w->data, (size_t)w->bytes);
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
