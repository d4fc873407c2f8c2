// blob.c - the bytes of a file, mapped or read, and arrays that use them.

#include "io/io.h"
#include "op/ops.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    // Arrays of at most this many bytes are copied, since keeping a file mapped for them costs more.
    COPY_MOST = 1 << 20,
    // Files of fewer bytes are read instead of mapped: a program that overwrites them then cannot end this
    // one, and up to this size reading costs no more than mapping (Neoverse-V1, 2026-11, load and sum: 1.1 MB
    // took 71 us read and 79 us mapped, 2 MiB took 126 and 74 us).
    MAP_LEAST = 1 << 20,
};

static struct blob *new_blob(const char *function, const char *label) {
    struct blob *b = memory_zero(sizeof *b);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->function = function;
    if (!(b->label = memory_copy_text(label))) {
        memory_free(b);
        return NULL;
    }
    return b;
}

// Opens the file of b. Returns false, with an error, if that fails. Bytes that are read count as memory of
// arrays, which has a limit.
static bool read_file(struct blob *b, const char *path, bool map) {
    const char *data = map ? file_map(path, MAP_LEAST, &b->bytes) : NULL;
    b->mapped = data != NULL;
    if (!data)
        data = file_read_most(path, allocator_available(), &b->bytes);
    b->data = (const unsigned char *)data;
    b->there = b->bytes;
    b->counted = data && !b->mapped && allocator_count((int64_t)b->bytes, false);
    return data && (b->mapped || b->counted);
}

struct blob *blob_open(const char *function, const char *path, bool map) {
    if (!path)
        return error_set(ZL_ERROR_VALUE, "%s: the path is NULL", function);
    bool is_first = !zl_error();
    struct blob *b = new_blob(function, path);
    if (b && read_file(b, path, map))
        return b;
    if (is_first)
        error_name(function);
    blob_release(b);
    return NULL;
}

struct blob *blob_new(const char *function, const char *label, size_t bytes, char **data) {
    struct blob *b = new_blob(function, label);
    if (!b)
        return NULL;
    b->bytes = b->there = bytes;
    b->counted = allocator_count((int64_t)bytes, false);
    b->data = b->counted ? memory_alloc(bytes + 1) : NULL;
    if (b->data) {
        *data = (char *)(uintptr_t)b->data;
        return b;
    }
    blob_release(b);
    return NULL;
}

struct blob *blob_copy(const char *function, const void *data, size_t bytes) {
    char *copy;
    if (!data && bytes)
        return error_set(ZL_ERROR_VALUE, "%s: %zu bytes at NULL", function, bytes);
    struct blob *b = blob_new(function, "memory", bytes, &copy);
    if (!b)
        return NULL;
    b->in_memory = true;
    if (bytes)
        memcpy(copy, data, bytes);
    return b;
}

static struct blob *retain(struct blob *b) {
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

// Returns a label such as "x.npz: 'name'", which the caller frees.
static char *label_of(const struct blob *whole, const char *name) {
    struct text label = {0};
    text_add(&label, "%s: '%.200s'", whole->label, name);
    if (label.failed)
        text_free(&label);
    return label.data;
}

struct blob *blob_part(struct blob *whole, const char *name, size_t offset, size_t bytes) {
    char *label = label_of(whole, name);
    struct blob *b = label ? new_blob(whole->function, label) : NULL;
    memory_free(label);
    if (!b)
        return NULL;
    b->whole = retain(whole);
    b->data = whole->data + offset;
    b->bytes = b->there = bytes;
    return b;
}

struct blob *blob_packed(struct blob *whole, const char *name, size_t offset, size_t from_bytes, size_t bytes,
                         uint32_t crc, size_t there, char **data) {
    char *label = label_of(whole, name);
    struct blob *b = label ? blob_new(whole->function, label, there, data) : NULL;
    memory_free(label);
    if (!b)
        return NULL;
    b->whole = retain(whole);
    b->packed = true;
    b->bytes = bytes;
    b->from = whole->data + offset;
    b->from_bytes = from_bytes;
    b->crc = crc;
    return b;
}

void blob_release(struct blob *b) {
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (b->mapped)
        file_unmap((const char *)b->data, b->bytes);
    else if (!b->whole || b->packed)
        memory_free((void *)(uintptr_t)b->data);
    if (b->counted)
        allocator_count(-(int64_t)b->there, false);
    blob_release(b->whole); // no recursion: parts have no parts
    memory_free(b->label);
    memory_free(b);
}

void *blob_fail(const struct blob *b, const char *format, ...) {
    struct text message = {0};
    va_list list;
    va_start(list, format);
    text_add_list(&message, format, list);
    va_end(list);
    if (!message.failed)
        error_set(ZL_ERROR_IO, "%s: %s: %s", b->function, b->label, message.data);
    text_free(&message);
    return NULL;
}

// Arrays ----------------------------------------------------------------------------------------------------

bool blob_size(const struct blob *b, zl_dtype dtype, zl_shape shape, size_t *bytes) {
    int64_t size;
    if (!shape_size(shape.ndim, shape.dim, &size) || size > INT64_MAX / 16)
        return blob_false(b, "an array of shape %s is too big", shape_text(shape.ndim, shape.dim));
    *bytes = (size_t)size * zl_dtype_size(dtype);
    return true;
}

static void release(void *context) {
    blob_release(context);
}

static zl_array share(struct blob *b, size_t offset, zl_dtype dtype, zl_shape shape) {
    return zl_from_foreign(b->data + offset, shape, dtype,
                           &(zl_foreign_options){.release = release, .context = retain(b)});
}

// The place in a packed blob from which an array is unpacked.
struct unpacking {
    struct blob *blob;
    size_t offset;
};

static bool unpack(void *context, void *out, size_t bytes) {
    const struct unpacking *u = context;
    return deflate_unpack(u->blob, u->offset, out, bytes);
}

static void release_unpacking(void *context) {
    struct unpacking *u = context;
    blob_release(u->blob);
    memory_free(u);
}

static zl_array unpack_late(struct blob *b, size_t offset, zl_dtype dtype, zl_shape shape) {
    struct unpacking *u = memory_alloc(sizeof *u);
    if (!u)
        return NULL;
    *u = (struct unpacking){retain(b), offset};
    return op_load_from(&(struct op_source){unpack, release_unpacking, u}, b->from, b->from_bytes, dtype,
                        shape);
}

static zl_array copy(zl_array x) {
    return x ? op_dense(&op_copy, 1, &x, 0, NULL, (zl_dtype)x->dtype, x->ndim, x->dim) : NULL;
}

void blob_leave(const struct blob *b, size_t from, size_t to) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), data = (uintptr_t)b->data;
    const uintptr_t first = (data + from + page - 1) / page * page, last = (data + to) / page * page;
    if (b->mapped && first < last)
        madvise((void *)first, last - first, MADV_DONTNEED);
}

zl_array blob_array(struct blob *b, size_t offset, zl_dtype dtype, zl_shape shape) {
    size_t bytes, item = zl_dtype_size(dtype);
    if (!blob_size(b, dtype, shape, &bytes))
        return NULL;
    if (bytes == 0)
        return zl_zeros(shape, dtype);
    if (dtype == ZL_BOOL) // bytes may have any value, booleans not
        return zl_not_equal(blob_array(b, offset, ZL_UINT8, shape), zl_scalar_int(0));
    if (b->packed)
        return unpack_late(b, offset, dtype, shape);
    if ((uintptr_t)(b->data + offset) % item) {
        zl_array all = copy(share(b, offset, ZL_UINT8, ZL_SHAPE((int64_t)bytes)));
        return zl_reshape(zl_view(all, dtype), shape);
    }
    zl_array x = share(b, offset, dtype, shape);
    return bytes <= COPY_MOST ? copy(x) : x;
}

// Spans -----------------------------------------------------------------------------------------------------

bool spans_add(struct spans *s, const char *name, size_t name_bytes, uint64_t from, uint64_t to) {
    if (from == to)
        return true;
    if (!memory_grow(&s->span, &s->cap, s->count + 1, sizeof *s->span))
        return false;
    s->span[s->count++] = (struct span){from, to, {name, name_bytes}};
    return true;
}

static int compare_spans(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

bool spans_are_apart(const struct blob *b, struct spans *s) {
    if (s->count)
        qsort(s->span, (size_t)s->count, sizeof *s->span, compare_spans);
    for (int i = 1; i < s->count; i++) {
        const struct span *x = &s->span[i - 1], *y = &s->span[i];
        if (x->to > y->from)
            return blob_false(
                b, "'%.*s' overlaps '%.*s': one lies from %llu to %llu, the other from %llu to %llu",
                (int)MIN_OF(x->name.bytes, 200), x->name.data, (int)MIN_OF(y->name.bytes, 200), y->name.data,
                (unsigned long long)x->from, (unsigned long long)x->to, (unsigned long long)y->from,
                (unsigned long long)y->to);
    }
    return true;
}

// Reading ---------------------------------------------------------------------------------------------------

bool reader_skip(struct reader *r, uint64_t bytes, const unsigned char **start) {
    size_t left = r->blob->there - r->at;
    if (bytes > left)
        return blob_false(r->blob, "it ends too early: at byte %zu %llu more are needed, %zu are there",
                          r->at, (unsigned long long)bytes, left);
    if (start)
        *start = r->blob->data + r->at;
    r->at += (size_t)bytes;
    return true;
}

bool reader_number(struct reader *r, int bytes, uint64_t *out) {
    const unsigned char *p;
    *out = 0;
    if (!reader_skip(r, (uint64_t)bytes, &p))
        return false;
    for (int i = bytes; i--;)
        *out = *out << 8 | p[i];
    return true;
}

bool reader_u32(struct reader *r, uint32_t *out) {
    uint64_t value;
    bool ok = reader_number(r, 4, &value);
    *out = (uint32_t)value;
    return ok;
}
