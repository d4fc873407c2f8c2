// sink.c - the destination of a format: memory, or a file that is renamed to its name when it is complete.

#include "io/io.h"

#include <string.h>

enum { GATHERED = 1 << 16 }; // bytes that are written to a file at once

static bool grow(struct sink *s, size_t bytes) {
    if (s->held + bytes <= s->cap)
        return true;
    size_t cap = MAX_OF(s->held + bytes, 2 * s->cap + 4096);
    char *wider = memory_resize(s->data, cap);
    if (!wider)
        return false;
    s->data = wider;
    s->cap = cap;
    return true;
}

bool sink_put(struct sink *s, const void *data, size_t bytes) {
    if (bytes == 0)
        return true;
    if (s->file && s->held + bytes > GATHERED && !sink_flush(s))
        return false;
    s->bytes += bytes;
    if (s->file && bytes > GATHERED)
        return file_put(s->file, data, bytes);
    if (!grow(s, bytes))
        return false;
    memcpy(s->data + s->held, data, bytes);
    s->held += bytes;
    return true;
}

bool sink_flush(struct sink *s) {
    bool ok = s->held == 0 || file_put(s->file, s->data, s->held);
    s->held = 0;
    return ok;
}

bool sink_number(struct sink *s, int bytes, uint64_t value) {
    unsigned char out[8];
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
    return sink_put(s, out, (size_t)bytes);
}

bool sink_align(struct sink *s, size_t alignment) {
    static const char zeros[64];
    size_t over = s->bytes % alignment;
    return over == 0 || sink_put(s, zeros, MIN_OF(alignment - over, sizeof zeros));
}

bool sink_dense(zl_array a, struct dense *out) {
    out->array = zl_contiguous(a, false);
    out->bytes = zl_nbytes(out->array);
    out->data = out->bytes ? zl_data(out->array) : NULL;
    return out->array && (out->data || out->bytes == 0);
}

struct dense *sink_dense_all(const zl_file *file) {
    zl_array *all = memory_alloc(sizeof *all * (size_t)(file->count + 1));
    struct dense *list = all ? memory_zero(sizeof *list * (size_t)(file->count + 1)) : NULL;
    bool ok = list != NULL;
    for (int i = 0; ok && i < file->count; i++)
        ok = (all[i] = zl_contiguous(file->array[i], false));
    ok = ok && zl_eval_all(file->count, all);
    for (int i = 0; ok && i < file->count; i++)
        ok = sink_dense(all[i], &list[i]);
    memory_free(all);
    if (ok)
        return list;
    memory_free(list);
    return NULL;
}
