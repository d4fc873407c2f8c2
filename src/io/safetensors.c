// safetensors.c - Hugging Face's format: a length, JSON with the position of each array, then the arrays.

#include "io/io.h"

#include <string.h>

enum { HEADER_MOST = 100000000, MOST_AXES = 64 };

static const char *const names[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = "BOOL",   [ZL_UINT8] = "U8",      [ZL_UINT16] = "U16",    [ZL_UINT32] = "U32",
    [ZL_UINT64] = "U64",  [ZL_INT8] = "I8",       [ZL_INT16] = "I16",     [ZL_INT32] = "I32",
    [ZL_INT64] = "I64",   [ZL_FLOAT16] = "F16",   [ZL_BFLOAT16] = "BF16", [ZL_FLOAT32] = "F32",
    [ZL_FLOAT64] = "F64", [ZL_COMPLEX64] = "C64",
};

struct tensor {
    zl_dtype dtype;
    int ndim; // -1: not given
    int64_t dim[MOST_AXES];
    uint64_t from, to;
    bool placed;
};

struct header {
    struct blob *blob;
    zl_file *out;
    size_t data; // offset of the data
    struct spans spans;
};

// Loading ---------------------------------------------------------------------------------------------------

static bool read_dtype(struct json *j, struct tensor *t) {
    struct text name = {0};
    bool ok = json_text(j, &name);
    t->dtype = ZL_DTYPE_COUNT;
    for (int i = 0; ok && i < ZL_DTYPE_COUNT; i++)
        if (!strcmp(name.data, names[i]))
            t->dtype = (zl_dtype)i;
    if (ok && (!strcmp(name.data, "F8_E4M3") || !strcmp(name.data, "F8_E8M0"))) // as bytes, for zl_from_fp8
        t->dtype = ZL_UINT8;
    if (ok && t->dtype == ZL_DTYPE_COUNT)
        ok = blob_false(j->in.blob, "elements of type '%.20s': no dtype is like them", name.data);
    text_free(&name);
    return ok;
}

static bool read_sizes(struct json *j, int most, uint64_t *out, int *count) {
    *count = 0;
    if (!json_char(j, '['))
        return false;
    if (json_is(j, ']'))
        return true;
    do
        if (*count == most)
            return blob_false(j->in.blob, "a list of more than %d numbers at byte %zu", most, j->in.at);
        else if (!json_size(j, &out[(*count)++]))
            return false;
    while (json_is(j, ','));
    return json_char(j, ']');
}

static bool read_offsets(struct json *j, struct tensor *t) {
    uint64_t offset[2];
    int count;
    if (!read_sizes(j, 2, offset, &count))
        return false;
    t->from = offset[0];
    t->to = count > 1 ? offset[1] : 0;
    t->placed = count == 2;
    return count == 2 || blob_false(j->in.blob, "data_offsets has %d numbers: two are needed", count);
}

static bool read_property(struct json *j, const char *name, int len, void *context) {
    struct tensor *t = context;
    (void)len;
    if (!strcmp(name, "dtype"))
        return read_dtype(j, t);
    if (!strcmp(name, "shape"))
        return read_sizes(j, MOST_AXES, (uint64_t *)t->dim, &t->ndim);
    return !strcmp(name, "data_offsets") ? read_offsets(j, t) : json_skip(j);
}

static bool check_place(const struct header *h, const char *name, const struct tensor *t) {
    size_t bytes, left = h->blob->bytes - h->data;
    if (t->dtype == ZL_DTYPE_COUNT || t->ndim < 0 || !t->placed)
        return blob_false(h->blob, "'%.200s' has no dtype, shape or data_offsets", name);
    if (!blob_size(h->blob, t->dtype, (zl_shape){t->dim, t->ndim}, &bytes))
        return false;
    if (t->to < t->from || t->to - t->from != bytes || t->to > left)
        return blob_false(h->blob,
                          "'%.200s' lies from %llu to %llu: %zu bytes of the %zu that are there are needed",
                          name, (unsigned long long)t->from, (unsigned long long)t->to, bytes, left);
    return true;
}

static bool add_tensor(struct json *j, const char *name, struct header *h) {
    struct tensor t = {.dtype = ZL_DTYPE_COUNT, .ndim = -1};
    return json_object(j, read_property, &t) && check_place(h, name, &t) &&
           spans_add(&h->spans, name, strlen(name), t.from, t.to) &&
           io_file_list_add(
               h->out, h->blob, name,
               blob_array(h->blob, h->data + (size_t)t.from, t.dtype, (zl_shape){t.dim, t.ndim}));
}

static bool read_note(struct json *j, const char *name, int len, void *context) {
    const struct header *h = context;
    struct text text = {0};
    const char *key = io_file_list_name(h->out, h->blob, name, (size_t)len);
    bool ok = key && json_text(j, &text);
    zl_text value = {text.data, (size_t)text.len};
    ok = ok && io_file_list_note(h->out, h->blob, &(zl_metadata){.name = key, .text = &value, .texts = 1});
    text_free(&text);
    return ok;
}

static bool read_entry(struct json *j, const char *name, int len, void *context) {
    struct header *h = context;
    const char *key = io_file_list_name(h->out, h->blob, name, (size_t)len);
    if (!key)
        return false;
    if (strcmp(key, "__metadata__"))
        return add_tensor(j, key, h);
    if (json_is(j, 'n')) // null
        return json_skip(j);
    return json_object(j, read_note, context);
}

bool safetensors_load(struct blob *b, zl_file *out) {
    struct reader r = {b, 0};
    uint64_t bytes;
    if (!reader_number(&r, 8, &bytes))
        return false;
    if (bytes == 0 || bytes >= HEADER_MOST || bytes > b->bytes - r.at)
        return blob_false(
            b, "a header of %llu bytes: more than 0 and less than 100 million are possible, %zu are there",
            (unsigned long long)bytes, b->bytes - r.at);
    struct header h = {.blob = b, .out = out, .data = r.at + (size_t)bytes};
    struct json j = {.in = r, .end = h.data};
    bool ok = json_object(&j, read_entry, &h) && spans_are_apart(b, &h.spans);
    memory_free(h.spans.span);
    return ok;
}

// Saving ----------------------------------------------------------------------------------------------------

static bool add_metadata(const struct sink *s, struct text *json, const zl_file *file) {
    text_add(json, "{\"__metadata__\":{");
    for (int i = 0; i < file->notes; i++) {
        const zl_metadata *note = &file->note[i];
        if (note->array || note->is_list || memchr(note->text->data, 0, note->text->bytes))
            return error_false(ZL_ERROR_VALUE,
                               "%s: metadata '%.200s': safetensors holds one text without NUL for each name",
                               s->function, note->name);
        text_add(json, i ? "," : "");
        text_json(json, note->name);
        text_add(json, ":");
        text_json(json, note->text->data);
    }
    text_add(json, "}");
    return true;
}

static void add_array(struct text *json, const char *name, zl_array a, size_t from) {
    text_add(json, ",");
    text_json(json, name);
    text_add(json, ":{\"dtype\":\"%s\",\"shape\":[", names[a->dtype]);
    for (int i = 0; i < a->ndim; i++)
        text_add(json, "%s%lld", i ? "," : "", (long long)a->dim[i]);
    text_add(json, "],\"data_offsets\":[%zu,%zu]}", from, from + zl_nbytes(a));
}

// Writes the header, with blanks at its end so that the data begins at a multiple of 8.
static bool make_header(const struct sink *s, struct text *json, const zl_file *file) {
    size_t at = 0;
    if (!add_metadata(s, json, file))
        return false;
    for (int i = 0; i < file->count; i++) {
        if (!strcmp(file->name[i], "__metadata__"))
            return error_false(ZL_ERROR_VALUE, "%s: an array cannot be named '__metadata__' in safetensors",
                               s->function);
        add_array(json, file->name[i], file->array[i], at);
        at += zl_nbytes(file->array[i]);
    }
    text_add(json, "}");
    text_add(json, "%*s", (8 - json->len % 8) % 8, "");
    return !json->failed;
}

static bool put_all(struct sink *s, const struct text *json, const zl_file *file) {
    struct dense *list = sink_dense_all(file);
    bool ok = list && sink_number(s, 8, (uint64_t)json->len) && sink_put(s, json->data, (size_t)json->len);
    for (int i = 0; ok && i < file->count; i++)
        ok = sink_put(s, list[i].data, list[i].bytes);
    memory_free(list);
    return ok;
}

bool safetensors_save(struct sink *s, const zl_file *file) {
    struct text json = {0};
    bool ok = make_header(s, &json, file) && put_all(s, &json, file);
    text_free(&json);
    return ok;
}
