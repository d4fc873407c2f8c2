// shape.c - arithmetic on sizes and strides, for any rank.

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

bool shape_size(int ndim, const int64_t *dim, int64_t *size) {
    int64_t total = 1;
    bool empty = false, fits = true;
    for (int i = 0; i < ndim; i++) {
        if (dim[i] < 0)
            return false;
        if (dim[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(total, dim[i], &total))
            fits = false;
    }
    *size = empty ? 0 : total;
    return fits || empty;
}

void shape_row_major(int ndim, const int64_t *dim, int64_t *stride) {
    uint64_t step = 1; // an empty array may have sizes whose product does not fit
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = (int64_t)step;
        step *= dim[i] ? (uint64_t)dim[i] : 1;
    }
}

bool shape_is_row_major(int ndim, const int64_t *dim, const int64_t *stride) {
    uint64_t expected = 1;
    for (int i = 0; i < ndim; i++)
        if (dim[i] == 0)
            return true;
    for (int i = ndim - 1; i >= 0; i--) {
        if (dim[i] != 1 && (uint64_t)stride[i] != expected)
            return false;
        expected *= (uint64_t)dim[i];
    }
    return true;
}

// Goes from the innermost axis outwards: the stride of the next axis must be the number of elements so far.
bool shape_is_dense(int ndim, const int64_t *dim, const int64_t *stride) {
    int64_t size, covered = 1;
    bool found = shape_size(ndim, dim, &size);
    while (found && covered < size) {
        found = false;
        for (int i = 0; i < ndim; i++)
            if (dim[i] != 1 && stride[i] == covered) {
                covered *= dim[i];
                found = true;
            }
    }
    return found;
}

bool shape_same_layout(int ndim, const int64_t *dim, const int64_t *stride, const int64_t *other) {
    for (int i = 0; i < ndim; i++)
        if (dim[i] != 1 && stride[i] != other[i])
            return false;
    return true;
}

bool shape_equal(int ndim, const int64_t *a, int ndim_b, const int64_t *b) {
    if (ndim != ndim_b)
        return false;
    for (int i = 0; i < ndim; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

int shape_broadcast(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int64_t *out) {
    int ndim = MAX_OF(a_ndim, b_ndim);
    for (int i = 1; i <= ndim; i++) { // from the last axis
        int64_t da = i <= a_ndim ? a[a_ndim - i] : 1, db = i <= b_ndim ? b[b_ndim - i] : 1;
        if (da != db && da != 1 && db != 1)
            return -1;
        out[ndim - i] = da == 1 ? db : da;
    }
    return ndim;
}

// Texts of the calling thread. They are on the heap, since a library that is opened late gets little
// thread-local memory.
struct texts {
    unsigned turn;
    char text[8][200];
};
static _Thread_local struct texts *texts;

static void free_texts(void *data) {
    (void)data;
    memory_free(texts);
    texts = NULL;
}

static char *next_text(void) {
    if (!texts) {
        texts = memory_zero(sizeof *texts);
        if (texts && !base_thread_at_exit(free_texts, NULL))
            free_texts(NULL);
    }
    return texts ? texts->text[texts->turn++ % 8] : NULL;
}

const char *shape_text(int ndim, const int64_t *dim) {
    char *out = next_text();
    if (!out)
        return "(...)";
    char *end = out + sizeof texts->text[0];
    int at = snprintf(out, sizeof texts->text[0], "(");
    for (int i = 0; i < ndim && out + at < end - 40; i++)
        at += snprintf(out + at, (size_t)(end - out - at), i ? ", %lld" : "%lld", (long long)dim[i]);
    bool cut = out + at >= end - 40;
    snprintf(out + at, (size_t)(end - out - at), cut ? ", ... of %d axes)" : ndim == 1 ? ",)" : ")", ndim);
    return out;
}

const char *array_text(zl_array a) {
    return shape_text(a->ndim, a->dim);
}

int shape_axis(const char *function, int axis, int ndim) {
    if (axis >= -ndim && axis < ndim)
        return axis < 0 ? axis + ndim : axis;
    error_set(ZL_ERROR_AXIS, "%s: axis %d of an array with %d axes: %d to %d is possible", function, axis,
              ndim, -ndim, ndim - 1);
    return -1;
}

// Groups the old axes into contiguous runs; the new sizes must split along the same groups.
bool shape_view(int ndim, const int64_t *dim, const int64_t *stride, int new_ndim, const int64_t *new_dim,
                int64_t *new_stride) {
    int at = 0, to = 0;
    while (true) {
        while (at < ndim && dim[at] == 1)
            at++;
        if (at == ndim)
            break;
        int64_t have = dim[at], want = 1;
        int last = at, from = to;
        while (to < new_ndim && (want < have || (want == have && new_dim[to] == 1))) {
            want *= new_dim[to++];
            while (want > have) {
                int next = last + 1;
                while (next < ndim && dim[next] == 1)
                    next++;
                if (next == ndim || stride[last] != dim[next] * stride[next])
                    return false;
                last = next;
                have *= dim[next];
            }
        }
        if (want != have)
            return false;
        int64_t step = stride[last];
        for (int i = to - 1; i >= from; i--) {
            new_stride[i] = step;
            step *= new_dim[i];
        }
        at = last + 1;
    }
    for (; to < new_ndim; to++)
        new_stride[to] = 1;
    return true;
}

void shape_span(int ndim, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t *first,
                int64_t *last) {
    *first = *last = offset;
    for (int i = 0; i < ndim; i++)
        *(stride[i] < 0 ? first : last) += (dim[i] - 1) * stride[i];
}

// Lists the absolute strides of the axes along which elements differ, the largest first, and returns their
// number.
static int sort_steps(int ndim, const int64_t *dim, const int64_t *stride, int64_t *step) {
    int count = 0;
    for (int i = 0; i < ndim; i++) {
        int64_t own = stride[i] < 0 ? -stride[i] : stride[i];
        if (dim[i] == 1 || own == 0)
            continue;
        int at = count++;
        for (; at > 0 && step[at - 1] < own; at--)
            step[at] = step[at - 1];
        step[at] = own;
    }
    return count;
}

// Makes an axis for each step. Its size is the next longer step, or the number of elements, divided by its
// own step. If no step is 1, an axis of step 1 is added.
int shape_base(int ndim, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t elements,
               int64_t *out) {
    int64_t first, last;
    shape_span(ndim, dim, stride, offset, &first, &last);
    int count = sort_steps(ndim, dim, stride, out);
    if (count == 0 || out[count - 1] != 1)
        out[count++] = 1;
    for (int64_t above = elements, i = 0; i < count; i++) {
        int64_t step = out[i];
        out[i] = above / step;
        if ((i && above % step) || (!i && out[0] * step <= last) || !out[i])
            return out[0] = elements, 1;
        above = step;
    }
    return count;
}

// Forms -----------------------------------------------------------------------------------------------------

bool buffer_form_is_equal(const struct buffer_form *a, const struct buffer_form *b) {
    return buffer_form_same_layout(a, b) && a->bound.axis == b->bound.axis &&
           shape_equal(a->ndim, a->dim, b->ndim, b->dim);
}

bool buffer_form_same_layout(const struct buffer_form *a, const struct buffer_form *b) {
    bool is_alike = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int i = 0; is_alike && i < a->ndim; i++)
        is_alike = buffer_form_dim(a, i) == buffer_form_dim(b, i);
    return is_alike;
}

int64_t buffer_form_size(const struct buffer_form *f) {
    int64_t size = 1;
    for (int i = 0; i < f->ndim; i++)
        size *= f->dim[i];
    return size;
}

size_t buffer_form_bytes(const struct buffer_form *f) {
    size_t bytes = zl_dtype_size((zl_dtype)f->dtype);
    for (int i = 0; i < f->ndim; i++)
        bytes *= (size_t)buffer_form_dim(f, i);
    return bytes;
}

// Returns the bytes of the elements from the bounded axis on, and sets *parts to how many such parts there
// are.
static size_t part_of(const struct buffer_form *f, int64_t *parts) {
    size_t bytes = zl_dtype_size((zl_dtype)f->dtype);
    *parts = 1;
    for (int i = 0; i < f->ndim; i++)
        if (i < f->bound.axis)
            *parts *= f->dim[i];
        else
            bytes *= (size_t)f->dim[i];
    return bytes;
}

void buffer_form_pack(const struct buffer_form *f, const void *buffer, void *to) {
    int64_t parts;
    size_t bytes = part_of(f, &parts), apart = parts ? buffer_form_bytes(f) / (size_t)parts : 0;
    for (int64_t i = 0; i < parts; i++)
        memcpy((char *)to + (size_t)i * bytes, (const char *)buffer + (size_t)i * apart, bytes);
}

void buffer_form_unpack(const struct buffer_form *f, const void *from, void *buffer) {
    int64_t parts;
    size_t bytes = part_of(f, &parts), apart = parts ? buffer_form_bytes(f) / (size_t)parts : 0;
    for (int64_t i = 0; i < parts; i++) {
        char *to = (char *)buffer + (size_t)i * apart;
        memcpy(to, (const char *)from + (size_t)i * bytes, bytes);
        memset(to + bytes, 0, apart - bytes);
    }
}

struct buffer_form *buffer_form_new(zl_dtype dtype, int ndim, const int64_t *dim, struct form_bound bound) {
    struct buffer_form *f = memory_alloc(sizeof *f + sizeof *dim * (size_t)ndim);
    if (!f)
        return NULL;
    f->dtype = (uint8_t)dtype;
    f->ndim = ndim;
    f->bound = bound;
    for (int i = 0; i < ndim; i++)
        f->dim[i] = dim[i];
    return f;
}
