// npy.c - NumPy's format of one array: a Python dict that describes it, in one line, then its elements.

#include "io/io.h"

#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, ALIGN = 64, MOST_AXES = 64 };

// Dtypes by NumPy's codes of two characters. bfloat16, which NumPy does not have, has the code that MLX
// writes.
static const char *const codes[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = "b1",    [ZL_UINT8] = "u1",     [ZL_UINT16] = "u2",   [ZL_UINT32] = "u4",
    [ZL_UINT64] = "u8",  [ZL_INT8] = "i1",      [ZL_INT16] = "i2",    [ZL_INT32] = "i4",
    [ZL_INT64] = "i8",   [ZL_FLOAT16] = "f2",   [ZL_BFLOAT16] = "V2", [ZL_FLOAT32] = "f4",
    [ZL_FLOAT64] = "f8", [ZL_COMPLEX64] = "c8",
};

struct header {
    zl_dtype dtype;
    bool swapped;   // big-endian
    bool by_column; // column-major (Fortran's order)
    int ndim;       // -1: not given
    int64_t dim[MOST_AXES];
    size_t start; // offset of the data
};

// The line, as C text ---------------------------------------------------------------------------------------

struct line {
    const struct blob *blob;
    const char *at; // ends with a NUL
};

static void skip_blanks(struct line *l) {
    while (*l->at == ' ' || *l->at == '\n' || *l->at == '\t')
        l->at++;
}

static bool take(struct line *l, char c) {
    skip_blanks(l);
    if (*l->at != c)
        return false;
    l->at++;
    return true;
}

static bool need(struct line *l, char c) {
    return take(l, c) || blob_false(l->blob, "the header has no '%c' at '%.20s'", c, l->at);
}

// Reads a quoted text, and copies it to `out`.
static bool read_text(struct line *l, char *out, size_t room) {
    skip_blanks(l);
    char quote = *l->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(l->at + 1, quote) : NULL;
    if (!end || (size_t)(end - l->at) > room)
        return blob_false(l->blob, "the header has no short text at '%.20s'", l->at);
    size_t bytes = (size_t)(end - l->at - 1);
    memcpy(out, l->at + 1, bytes);
    out[bytes] = 0;
    l->at = end + 1;
    return true;
}

static bool read_dtype(struct line *l, struct header *h) {
    char code[16];
    if (!read_text(l, code, sizeof code))
        return false;
    const char *type = strchr("<>|=", code[0]) && code[0] ? code + 1 : code;
    for (int i = 0; i < ZL_DTYPE_COUNT; i++)
        if (!strcmp(type, codes[i])) {
            h->dtype = (zl_dtype)i;
            h->swapped = code[0] == '>' && zl_dtype_size(h->dtype) > 1;
            return true;
        }
    return blob_false(l->blob, "elements of type '%s': no dtype is like them", code);
}

static bool read_truth(struct line *l, bool *out) {
    skip_blanks(l);
    *out = !strncmp(l->at, "True", 4);
    if (!*out && strncmp(l->at, "False", 5))
        return blob_false(l->blob, "the header has neither True nor False at '%.20s'", l->at);
    l->at += *out ? 4 : 5;
    return true;
}

static bool read_sizes(struct line *l, struct header *h) {
    if (!need(l, '('))
        return false;
    for (h->ndim = 0; !take(l, ')'); h->ndim++) {
        skip_blanks(l);
        char *end;
        long long size = strtoll(l->at, &end, 10);
        if (end == l->at || size < 0 || size == INT64_MAX || h->ndim == MOST_AXES)
            return blob_false(l->blob, "the shape has no size, or more than %d, at '%.20s'", MOST_AXES,
                              l->at);
        h->dim[h->ndim] = size;
        l->at = *end == 'L' ? end + 1 : end; // Python 2 wrote an L after long numbers
        if (!take(l, ',')) {
            h->ndim++;
            return need(l, ')');
        }
    }
    return true;
}

static bool read_member(struct line *l, struct header *h) {
    char key[16];
    if (!read_text(l, key, sizeof key) || !need(l, ':'))
        return false;
    if (!strcmp(key, "descr"))
        return read_dtype(l, h);
    if (!strcmp(key, "fortran_order"))
        return read_truth(l, &h->by_column);
    if (!strcmp(key, "shape"))
        return read_sizes(l, h);
    return blob_false(l->blob, "the header has '%s': descr, fortran_order and shape are known", key);
}

static bool read_line(const struct blob *b, const char *text, struct header *h) {
    struct line l = {b, text};
    if (!need(&l, '{'))
        return false;
    while (!take(&l, '}'))
        if (!read_member(&l, h) || (!take(&l, ',') && *l.at != '}' && !need(&l, '}')))
            return false;
    return (h->dtype != ZL_DTYPE_COUNT && h->ndim >= 0) ||
           blob_false(b, "the header says no dtype or no shape");
}

size_t npy_header_bytes(const unsigned char *data, size_t bytes) {
    size_t fixed = bytes > MAGIC && data[MAGIC] > 1 ? MAGIC + 2 + 4 : MAGIC + 2 + 2, length = 0;
    if (bytes < fixed)
        return fixed;
    for (size_t i = fixed; i-- > MAGIC + 2;)
        length = length << 8 | data[i];
    return fixed + length;
}

static bool read_header(struct blob *b, struct header *h) {
    struct reader r = {b, 0};
    const unsigned char *start, *text;
    uint64_t version, bytes;
    if (!reader_skip(&r, MAGIC, &start) || !reader_number(&r, 2, &version))
        return false;
    if (memcmp(start, magic, MAGIC))
        return blob_false(b, "it is no npy file: it does not begin with \\x93NUMPY");
    version &= 0xff;
    if (version < 1 || version > 3)
        return blob_false(b, "npy version %d: 1, 2 and 3 are known", (int)version);
    if (!reader_number(&r, version == 1 ? 2 : 4, &bytes) || !reader_skip(&r, bytes, &text))
        return false;
    char *copy = memory_alloc((size_t)bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, text, (size_t)bytes);
    copy[bytes] = 0;
    *h = (struct header){.dtype = ZL_DTYPE_COUNT, .ndim = -1, .start = r.at};
    bool ok = read_line(b, copy, h);
    memory_free(copy);
    return ok;
}

// Arrays ----------------------------------------------------------------------------------------------------

// Reverses the bytes of each number.
static zl_array swap(zl_array bytes, zl_dtype dtype, zl_shape shape) {
    int64_t unit = dtype == ZL_COMPLEX64 ? 4 : (int64_t)zl_dtype_size(dtype);
    zl_array rows = zl_reshape(bytes, ZL_SHAPE(-1, unit));
    zl_array reversed =
        rows ? zl_slice(rows, ZL_SHAPE(0, unit - 1), ZL_SHAPE(rows->dim[0], -unit - 1), ZL_SHAPE(1, -1))
             : NULL;
    return zl_reshape(zl_view(zl_flatten(zl_contiguous(reversed, false), 0, -1), dtype), shape);
}

static void reverse(int ndim, int64_t *dim) {
    for (int i = 0; i < ndim / 2; i++) {
        int64_t other = dim[ndim - 1 - i];
        dim[ndim - 1 - i] = dim[i];
        dim[i] = other;
    }
}

// Returns an array that fails when it is read.
static zl_array missing(const struct blob *b, const struct header *h, size_t bytes) {
    zl_array a = graph_leaf(&(struct array_spec){.dtype = h->dtype, .ndim = h->ndim, .dim = h->dim}, NULL);
    struct text why = {0};
    text_add(&why, "%s: %s: it ends too early: %zu bytes of data are needed, %zu are there", b->function,
             b->label, bytes, b->bytes - h->start);
    if (a && !why.failed) {
        a->failure = failure_new(ZL_ERROR_IO, why.data);
        atomic_store_explicit(&a->state, ARRAY_FAILED, memory_order_release);
    }
    a = why.failed ? NULL : a;
    text_free(&why);
    return a;
}

static zl_array data_of(struct blob *b, const struct header *h, size_t bytes, bool late) {
    zl_shape shape = {h->dim, h->ndim};
    if (bytes > b->bytes - h->start)
        return late ? missing(b, h, bytes)
                    : blob_fail(b, "it ends too early: %zu bytes of data are needed, %zu are there", bytes,
                                b->bytes - h->start);
    if (h->swapped && bytes)
        return swap(blob_array(b, h->start, ZL_UINT8, ZL_SHAPE((int64_t)bytes)), h->dtype, shape);
    return blob_array(b, h->start, h->dtype, shape);
}

zl_array npy_array(struct blob *b, bool late) {
    struct header h;
    size_t bytes;
    if (!read_header(b, &h) || !blob_size(b, h.dtype, (zl_shape){h.dim, h.ndim}, &bytes))
        return NULL;
    if (h.by_column)
        reverse(h.ndim, h.dim);
    zl_array a = data_of(b, &h, bytes, late);
    return h.by_column ? zl_transpose(a, ZL_ALL) : a;
}

bool npy_load(struct blob *b, zl_file *out) {
    return io_file_list_add(out, b, "", npy_array(b, !b->in_memory));
}

// Saving ----------------------------------------------------------------------------------------------------

bool npy_header(struct text *out, zl_array a) {
    struct text line = {0};
    text_add(&line, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", array_item(a) > 1 ? '<' : '|',
             codes[a->dtype]);
    for (int i = 0; i < a->ndim; i++)
        text_add(&line, "%s%lld%s", i ? " " : "", (long long)a->dim[i], i + 1 < a->ndim || i == 0 ? "," : "");
    text_add(&line, "), }");
    bool is_long = line.len > 60000;
    int before = MAGIC + 2 + (is_long ? 4 : 2), all = (before + line.len + 1 + ALIGN - 1) / ALIGN * ALIGN;
    unsigned length = (unsigned)(all - before);
    text_bytes(out, magic, MAGIC);
    text_bytes(out, (char[]){is_long ? 2 : 1, 0}, 2);
    text_bytes(out, (char[]){(char)length, (char)(length >> 8), (char)(length >> 16), (char)(length >> 24)},
               is_long ? 4 : 2);
    text_add(out, "%s%*s\n", line.data ? line.data : "", (int)length - line.len - 1, "");
    bool ok = !line.failed && !out->failed;
    text_free(&line);
    return ok;
}

bool npy_save(struct sink *s, const zl_file *file) {
    struct dense d;
    struct text header = {0};
    if (file->count != 1)
        return error_false(ZL_ERROR_VALUE, "%s: %d arrays: an npy file holds one", s->function, file->count);
    bool ok = sink_dense(file->array[0], &d) && npy_header(&header, d.array) &&
              sink_put(s, header.data, (size_t)header.len) && sink_put(s, d.data, d.bytes);
    text_free(&header);
    return ok;
}
