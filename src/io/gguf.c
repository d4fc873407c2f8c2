// gguf.c - reads and writes llama.cpp's format: metadata, a list of tensors, and their elements.

#include "io/gguf.h"

#include <limits.h>
#include <string.h>

enum { MOST_AXES = 64 };
static const char magic[] = "GGUF";

// Dtypes ----------------------------------------------------------------------------------------------------

static const uint8_t value_dtypes[GGUF_VALUES] = {
    [GGUF_UINT8] = ZL_UINT8,       [GGUF_INT8] = ZL_INT8,     [GGUF_UINT16] = ZL_UINT16,
    [GGUF_INT16] = ZL_INT16,       [GGUF_UINT32] = ZL_UINT32, [GGUF_INT32] = ZL_INT32,
    [GGUF_FLOAT32] = ZL_FLOAT32,   [GGUF_BOOL] = ZL_BOOL,     [GGUF_STRING] = ZL_DTYPE_COUNT,
    [GGUF_ARRAY] = ZL_DTYPE_COUNT, [GGUF_UINT64] = ZL_UINT64, [GGUF_INT64] = ZL_INT64,
    [GGUF_FLOAT64] = ZL_FLOAT64,
};

static const struct {
    uint8_t type, dtype;
} tensor_dtypes[] = {
    {GGUF_F32, ZL_FLOAT32}, {GGUF_F16, ZL_FLOAT16}, {GGUF_I8, ZL_INT8},     {GGUF_I16, ZL_INT16},
    {GGUF_I32, ZL_INT32},   {GGUF_I64, ZL_INT64},   {GGUF_F64, ZL_FLOAT64}, {GGUF_BF16, ZL_BFLOAT16},
};

zl_dtype gguf_value_dtype(uint32_t value) {
    return value < GGUF_VALUES ? (zl_dtype)value_dtypes[value] : ZL_DTYPE_COUNT;
}

zl_dtype gguf_tensor_dtype(uint32_t type) {
    for (size_t i = 0; i < COUNT(tensor_dtypes); i++)
        if (tensor_dtypes[i].type == type)
            return (zl_dtype)tensor_dtypes[i].dtype;
    return ZL_DTYPE_COUNT;
}

int gguf_dtype_value(zl_dtype dtype) {
    for (int i = 0; i < GGUF_VALUES; i++)
        if (value_dtypes[i] == dtype)
            return i;
    return -1;
}

int gguf_dtype_tensor(zl_dtype dtype) {
    for (size_t i = 0; i < COUNT(tensor_dtypes); i++)
        if (tensor_dtypes[i].dtype == dtype)
            return tensor_dtypes[i].type;
    return -1;
}

// Metadata --------------------------------------------------------------------------------------------------

static bool read_string(struct reader *r, zl_text *out) {
    uint64_t bytes;
    const unsigned char *start;
    if (!reader_number(r, 8, &bytes) || !reader_skip(r, bytes, &start))
        return false;
    *out = (zl_text){(const char *)start, (size_t)bytes};
    return true;
}

static const char *read_name(struct reader *r, zl_file *out) {
    zl_text name;
    return read_string(r, &name) ? io_file_list_name(out, r->blob, name.data, name.bytes) : NULL;
}

static bool add_strings(struct reader *r, zl_file *out, const char *name, uint64_t count, bool is_list) {
    if (count > (r->blob->bytes - r->at) / 8 || count > INT_MAX)
        return blob_false(r->blob, "'%.200s' has %llu texts: there is no room for them", name,
                          (unsigned long long)count);
    zl_text *list = memory_alloc(sizeof *list * (size_t)(count + 1));
    bool ok = list != NULL;
    for (uint64_t i = 0; ok && i < count; i++)
        ok = read_string(r, &list[i]);
    ok = ok && io_file_list_note(
                   out, r->blob,
                   &(zl_metadata){.name = name, .text = list, .texts = (int)count, .is_list = is_list});
    memory_free(list);
    return ok;
}

// Adds a metadata entry of numbers. They are copied, since they are few; float64 becomes float32, as in MLX.
static bool add_numbers(struct reader *r, zl_file *out, const char *name, uint32_t type, uint64_t count,
                        zl_shape shape) {
    zl_dtype dtype = gguf_value_dtype(type);
    if (dtype == ZL_DTYPE_COUNT)
        return blob_false(r->blob,
                          "'%.200s' is of type %u: numbers, truth values, texts and lists of these are known",
                          name, type);
    uint64_t item = zl_dtype_size(dtype), at = r->at;
    if (count > SIZE_MAX / 16 || !reader_skip(r, count * item, NULL))
        return blob_false(r->blob, "'%.200s' has %llu elements, more than are there", name,
                          (unsigned long long)count);
    zl_array a = blob_array(r->blob, (size_t)at, dtype, shape);
    a = dtype == ZL_FLOAT64 ? zl_astype(a, ZL_FLOAT32) : a;
    return a && zl_eval(a) && io_file_list_note(out, r->blob, &(zl_metadata){.name = name, .array = a});
}

static bool add_list(struct reader *r, zl_file *out, const char *name) {
    uint32_t type;
    uint64_t count;
    if (!reader_u32(r, &type) || !reader_number(r, 8, &count))
        return false;
    if (type == GGUF_ARRAY)
        return blob_false(r->blob, "'%.200s' is a list of lists: only one level is possible", name);
    if (count > INT64_MAX / 16)
        return blob_false(r->blob, "'%.200s' has %llu elements", name, (unsigned long long)count);
    return type == GGUF_STRING ? add_strings(r, out, name, count, true)
                               : add_numbers(r, out, name, type, count, ZL_SHAPE((int64_t)count));
}

static bool read_value(struct reader *r, zl_file *out, uint64_t *align) {
    uint32_t type;
    const char *name = read_name(r, out);
    if (!name || !reader_u32(r, &type))
        return false;
    if (type == GGUF_UINT32 && !strcmp(name, "general.alignment")) {
        struct reader ahead = *r;
        if (!reader_number(&ahead, 4, align))
            return false;
        if (*align == 0 || *align % 8 || *align > 1 << 20)
            return blob_false(r->blob, "an alignment of %llu: a multiple of 8, at most 2^20, is needed",
                              (unsigned long long)*align);
    }
    if (type == GGUF_STRING)
        return add_strings(r, out, name, 1, false);
    return type == GGUF_ARRAY ? add_list(r, out, name) : add_numbers(r, out, name, type, 1, ZL_SCALAR);
}

// Tensors ---------------------------------------------------------------------------------------------------

struct tensor {
    const char *name;
    uint32_t ndim, type;
    uint64_t offset;
    int64_t dim[MOST_AXES]; // in our order: the last axis last
};

static bool read_tensor(struct reader *r, zl_file *out, struct tensor *t) {
    if (!(t->name = read_name(r, out)) || !reader_u32(r, &t->ndim))
        return false;
    if (t->ndim > MOST_AXES)
        return blob_false(r->blob, "'%.200s' has %u axes: at most %d are possible", t->name, t->ndim,
                          MOST_AXES);
    for (uint32_t i = t->ndim; i--;) {
        uint64_t size;
        if (!reader_number(r, 8, &size))
            return false;
        if (size > INT64_MAX / 16)
            return blob_false(r->blob, "'%.200s' has an axis of size %llu", t->name,
                              (unsigned long long)size);
        t->dim[i] = (int64_t)size;
    }
    return reader_u32(r, &t->type) && reader_number(r, 8, &t->offset);
}

static bool tensor_bytes(const struct blob *b, const struct tensor *t, size_t *bytes) {
    zl_dtype dtype = gguf_tensor_dtype(t->type);
    const struct gguf_blocks *blocks = gguf_blocks(t->type);
    if (dtype == ZL_DTYPE_COUNT && !blocks)
        return blob_false(b,
                          "'%.200s' has elements of type %u: F32, F16, BF16, F64, I8 to I64, Q4_0, Q4_1, "
                          "Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are known",
                          t->name, t->type);
    if (blocks && (t->ndim == 0 || t->dim[t->ndim - 1] % blocks->numbers))
        return blob_false(b, "'%.200s' of shape %s is quantised: its last size must be a multiple of %d",
                          t->name, shape_text((int)t->ndim, t->dim), blocks->numbers);
    if (!blob_size(b, blocks ? ZL_UINT8 : dtype, (zl_shape){t->dim, (int)t->ndim}, bytes))
        return false;
    *bytes = blocks ? *bytes / (size_t)blocks->numbers * (size_t)blocks->bytes : *bytes;
    return true;
}

static bool add_tensor(struct blob *b, zl_file *out, const struct tensor *t, size_t start) {
    size_t bytes, left = b->bytes - MIN_OF(start, b->bytes);
    zl_shape shape = {t->dim, (int)t->ndim};
    if (!tensor_bytes(b, t, &bytes))
        return false;
    if (t->offset > left || bytes > left - t->offset)
        return blob_false(b, "'%.200s' has %zu bytes at %llu: %zu are there", t->name, bytes,
                          (unsigned long long)t->offset, left);
    const struct gguf_blocks *blocks = gguf_blocks(t->type);
    if (blocks)
        return gguf_add_blocks(b, out, t->name, blocks, shape, start + (size_t)t->offset);
    return io_file_list_add(
        out, b, t->name,
        blob_array(b, bytes ? start + (size_t)t->offset : 0, gguf_tensor_dtype(t->type), shape));
}

// Reads past the list of tensors, after which the elements begin. Offsets that are too large are refused
// later.
static bool pass_tensors(struct reader *r, zl_file *out, uint64_t count) {
    struct tensor t;
    struct spans spans = {0};
    size_t bytes;
    bool ok = true;
    for (uint64_t i = 0; ok && i < count; i++)
        ok = read_tensor(r, out, &t) && tensor_bytes(r->blob, &t, &bytes) &&
             (t.offset > r->blob->bytes ||
              spans_add(&spans, t.name, strlen(t.name), t.offset, t.offset + bytes));
    ok = ok && spans_are_apart(r->blob, &spans);
    memory_free(spans.span);
    return ok;
}

// Reads the list of tensors twice, since where the elements begin is known only after the list.
static bool read_tensors(struct reader *r, zl_file *out, uint64_t count, uint64_t align) {
    struct tensor t;
    struct reader again = *r;
    if (!pass_tensors(r, out, count))
        return false;
    size_t start = (size_t)((r->at + align - 1) / align * align);
    for (uint64_t i = 0; i < count; i++)
        if (!read_tensor(&again, out, &t) || !add_tensor(r->blob, out, &t, start))
            return false;
    return true;
}

static bool load(struct blob *b, zl_file *out, bool with_arrays) {
    struct reader r = {b, 0};
    const unsigned char *start;
    uint32_t version;
    uint64_t tensors, values, align = GGUF_ALIGN;
    if (!reader_skip(&r, 4, &start) || !reader_u32(&r, &version))
        return false;
    if (memcmp(start, magic, 4) || version < 2 || version > GGUF_VERSION)
        return blob_false(b,
                          "it is no gguf file of version 2 or 3: it begins with %02x%02x%02x%02x, version %u",
                          start[0], start[1], start[2], start[3], version);
    if (!reader_number(&r, 8, &tensors) || !reader_number(&r, 8, &values))
        return false;
    for (uint64_t i = 0; i < values; i++)
        if (!read_value(&r, out, &align))
            return false;
    return !with_arrays || read_tensors(&r, out, tensors, align);
}

bool gguf_load(struct blob *b, zl_file *out) {
    return load(b, out, true);
}

bool gguf_load_metadata(struct blob *b, zl_file *out) {
    return load(b, out, false);
}

// Saving ----------------------------------------------------------------------------------------------------

static bool put_string(struct sink *s, const char *data, size_t bytes) {
    return sink_number(s, 8, bytes) && sink_put(s, data, bytes);
}

static bool put_texts(struct sink *s, const zl_metadata *note) {
    bool ok = sink_number(s, 4, note->is_list ? GGUF_ARRAY : GGUF_STRING);
    if (ok && note->is_list)
        ok = sink_number(s, 4, GGUF_STRING) && sink_number(s, 8, (uint64_t)note->texts);
    for (int i = 0; ok && i < note->texts; i++)
        ok = put_string(s, note->text[i].data, note->text[i].bytes);
    return ok;
}

static bool put_numbers(struct sink *s, const zl_metadata *note) {
    zl_array a = note->array;
    struct dense d;
    int type = gguf_dtype_value((zl_dtype)a->dtype);
    if (type < 0 || a->ndim > 1 || a->size == 0)
        return error_false(ZL_ERROR_VALUE,
                           "%s: metadata '%.200s' is %s of shape %s: numbers or a list of them, of integers, "
                           "bool, float32 or float64, are possible",
                           s->function, note->name, zl_dtype_name((zl_dtype)a->dtype), array_text(a));
    if (!sink_dense(a, &d) || !sink_number(s, 4, a->ndim ? GGUF_ARRAY : (uint64_t)type))
        return false;
    if (a->ndim && (!sink_number(s, 4, (uint64_t)type) || !sink_number(s, 8, (uint64_t)a->size)))
        return false;
    return sink_put(s, d.data, d.bytes);
}

static bool put_metadata(struct sink *s, const zl_file *file) {
    for (int i = 0; i < file->notes; i++) {
        const zl_metadata *note = &file->note[i];
        if (!put_string(s, note->name, strlen(note->name)) ||
            !(note->array ? put_numbers : put_texts)(s, note))
            return false;
    }
    return true;
}

static bool put_tensor(struct sink *s, const char *name, zl_array a, uint64_t *offset) {
    int type = gguf_dtype_tensor((zl_dtype)a->dtype);
    if (type < 0)
        return error_false(ZL_ERROR_DTYPE,
                           "%s: '%.200s' is %s: float16, bfloat16, float32, float64 and signed integers are "
                           "possible",
                           s->function, name, zl_dtype_name((zl_dtype)a->dtype));
    bool ok = put_string(s, name, strlen(name)) && sink_number(s, 4, a->ndim);
    for (int i = a->ndim; ok && i--;)
        ok = sink_number(s, 8, (uint64_t)a->dim[i]);
    ok = ok && sink_number(s, 4, (uint64_t)type) && sink_number(s, 8, *offset);
    *offset = (*offset + zl_nbytes(a) + GGUF_ALIGN - 1) / GGUF_ALIGN * GGUF_ALIGN;
    return ok;
}

static bool put_head(struct sink *s, const zl_file *file) {
    uint64_t offset = 0;
    bool ok = sink_put(s, magic, 4) && sink_number(s, 4, GGUF_VERSION) &&
              sink_number(s, 8, (uint64_t)file->count) && sink_number(s, 8, (uint64_t)file->notes) &&
              put_metadata(s, file);
    for (int i = 0; ok && i < file->count; i++)
        ok = put_tensor(s, file->name[i], file->array[i], &offset);
    return ok;
}

bool gguf_save(struct sink *s, const zl_file *file) {
    if (!put_head(s, file))
        return false;
    struct dense *list = sink_dense_all(file);
    bool ok = list != NULL;
    for (int i = 0; ok && i < file->count; i++)
        ok = sink_align(s, GGUF_ALIGN) && sink_put(s, list[i].data, list[i].bytes);
    ok = ok && sink_align(s, GGUF_ALIGN);
    memory_free(list);
    return ok;
}
