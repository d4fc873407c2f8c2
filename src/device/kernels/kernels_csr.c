// kernels_csr.c - products of sparse matrices by rows with dense ones.
//
// Of a vector some threads have a row, about as many as it has entries; of a matrix a thread has an element of the result.
// Pointers and indices are checked before the first product: their replicas remember that they hold what is needed.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { LANES_MOST = 32, VALUES = 0, INDICES, POINTERS, DENSE };

struct recipe {
    int32_t dtype, index, lanes, wide; // lanes: threads of a row; 0: the product with a matrix; -1: the check
    char name[8];                      // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const char check[] =
    "KERNEL zl_kernel(GLOBAL i32 *status, GLOBAL const INDEX *indices, i64 indices_at, GLOBAL const INDEX "
    "*pointers, "
    "i64 pointers_at, idx rows, idx entries, i64 columns) {\n"
    "    idx i = GROUP * THREADS + THREAD;\n"
    "    indices += indices_at;\n"
    "    pointers += pointers_at;\n"
    "    if (i < entries && (indices[i] < 0 || indices[i] >= columns))\n"
    "        status[0] = 1;\n"
    "    if (i < rows && (pointers[i + 1] < pointers[i] || pointers[i + 1] > entries))\n"
    "        status[0] = 1;\n"
    "    if (i == 0 && pointers[0] != 0)\n"
    "        status[0] = 1;\n"
    "}\n";

static const char vector[] =
    "KERNEL_OF(256) zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *values, i64 values_at, GLOBAL const INDEX "
    "*indices, "
    "i64 indices_at,\n"
    "                 GLOBAL const INDEX *pointers, i64 pointers_at, GLOBAL const ITEM *x, i64 x_at, idx "
    "rows, idx width) {\n"
    "    SLOT(ITEM, slot, 256)\n"
    "    idx row = GROUP * (256 / LANES) + THREAD / LANES, from = 0, end = 0;\n"
    "    ITEM sum = 0;\n"
    "    if (row < rows) {\n"
    "        from = (idx)pointers[pointers_at + row];\n"
    "        end = (idx)pointers[pointers_at + row + 1];\n"
    "    }\n"
    "    for (idx i = from + THREAD % LANES; i < end; i += LANES)\n"
    "        sum = FMA(values[values_at + i], x[x_at + indices[indices_at + i]], sum);\n"
    "    UNROLL for (i32 span = LANES / 2; span > 0; span /= 2) {\n"
    "        ITEM more;\n"
    "        EXCHANGE(more, sum, span, slot);\n"
    "        sum += more;\n"
    "    }\n"
    "    if (row < rows && THREAD % LANES == 0)\n"
    "        y[row] = sum;\n"
    "}\n";

static const char matrix[] =
    "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *values, i64 values_at, GLOBAL const INDEX *indices, "
    "i64 indices_at,\n"
    "                 GLOBAL const INDEX *pointers, i64 pointers_at, GLOBAL const ITEM *x, i64 x_at, idx "
    "rows, idx width) {\n"
    "    idx number = GROUP * THREADS + THREAD, row = number / width, col = number % width;\n"
    "    ITEM sum = 0;\n"
    "    if (row >= rows)\n"
    "        return;\n"
    "    idx end = (idx)pointers[pointers_at + row + 1];\n"
    "    for (idx i = (idx)pointers[pointers_at + row]; i < end; i++)\n"
    "        sum = FMA(values[values_at + i], x[x_at + (i64)indices[indices_at + i] * width + col], sum);\n"
    "    y[number] = sum;\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    const char *item = kernel_memory_type((zl_dtype)r->dtype);
    kernel_begin(out, w->dialect, r->wide);
    text_add(out, "#define ITEM %s\n#define INDEX %s\n#define FMA zl_fma_%s\n#define LANES %d\n%s", item,
             kernel_memory_type((zl_dtype)r->index), item, MAX_OF(r->lanes, 1),
             r->lanes < 0 ? check
             : r->lanes   ? vector
                          : matrix);
    return true;
}

// Checking ---------------------------------------------------------------------------------------------------------

static uint64_t tag_of(const struct csr_index *m) {
    uint64_t tag = 1;
    const int64_t parts[] = {m->columns, m->indices->dim[0], m->pointers->dim[0], m->indices->offset,
                             m->pointers->offset};
    for (size_t i = 0; i < COUNT(parts); i++)
        tag = (tag ^ (uint64_t)parts[i]) * 0x9e3779b97f4a7c15u;
    return tag | 1;
}

static bool launch_check(const struct kernel_place *p, const struct csr_index *m, void *status) {
    zl_array indices = m->indices, pointers = m->pointers;
    int64_t rows = pointers->dim[0] - 1, entries = indices->dim[0], all = MAX_OF(rows, entries);
    struct kernel_call k;
    kernel_begin_call(&k);
    struct recipe r = {ZL_FLOAT32, indices->dtype, -1, all > INT32_MAX / 2, "csr"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    kernel_add_memory(&k, status);
    kernel_add_memory(&k, kernel_reach(p, indices));
    kernel_add_int(&k, indices->offset, true);
    kernel_add_memory(&k, kernel_reach(p, pointers));
    kernel_add_int(&k, pointers->offset, true);
    kernel_add_int(&k, rows, r.wide);
    kernel_add_int(&k, entries, r.wide);
    kernel_add_int(&k, m->columns, true);
    return kernel && kernel_launch(p, kernel, (MAX_OF(all, 1) + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

static int64_t number_at(zl_array x, int64_t at) {
    const char *data = x->storage->data;
    at += x->offset;
    return x->dtype == ZL_INT32 ? ((const int32_t *)(const void *)data)[at]
                                : ((const int64_t *)(const void *)data)[at];
}

// Says what is wrong; true: only what belongs to no row.
static bool explain(const struct call *c, const struct csr_index *m) {
    zl_array indices = m->indices, pointers = m->pointers;
    int64_t rows = pointers->dim[0] - 1, entries = indices->dim[0], columns = m->columns;
    if (!device_fetch(indices->storage) || !device_fetch(pointers->storage))
        return false;
    int64_t last = number_at(pointers, 0);
    if (last != 0)
        return error_false(ZL_ERROR_VALUE, "%s: indptr[0] is %lld: rows begin at 0", c->op->name,
                           (long long)last);
    for (int64_t i = 1; i <= rows; i++) {
        int64_t next = number_at(pointers, i);
        if (next < last || next > entries)
            return error_false(
                ZL_ERROR_VALUE, "%s: indptr[%lld] is %lld: %lld, the one before it, to %lld are possible",
                c->op->name, (long long)i, (long long)next, (long long)last, (long long)entries);
        last = next;
    }
    for (int64_t i = 0; i < last; i++) {
        int64_t column = number_at(indices, i);
        if (column < 0 || column >= columns)
            return error_false(ZL_ERROR_VALUE, "%s: indices[%lld] is %lld: the matrix has %lld columns",
                               c->op->name, (long long)i, (long long)column, (long long)columns);
    }
    return true;
}

static bool check_now(const struct kernel_place *p, const struct csr_index *m, bool *sound) {
    const struct device *d = p->target->device;
    int32_t status = 0;
    size_t capacity;
    void *room = device_alloc(d, p->unit, p->lane, sizeof status, &capacity);
    bool done = room && d->copy(p->unit, p->lane, room, &status, sizeof status, false) &&
                launch_check(p, m, room) && d->copy(p->unit, p->lane, &status, room, sizeof status, true);
    if (room)
        device_free(d, p->unit, p->lane, room, capacity);
    *sound = !status;
    return done;
}

// Remembered on both replicas: each is written anew before it holds other values.
bool kernel_check_csr(const struct kernel_place *p, const struct call *c, const struct csr_index *m) {
    if (p->batch) // nothing runs, and nothing lies there yet
        return launch_check(p, m, NULL);
    const struct device *d = p->target->device;
    uint64_t tag = tag_of(m);
    _Atomic uint64_t *indices = device_finding(d, p->unit, p->lane, m->indices->storage),
                     *pointers = device_finding(d, p->unit, p->lane, m->pointers->storage);
    bool sound;
    if (!indices || !pointers)
        return false;
    if (atomic_load(indices) == tag && atomic_load(pointers) == tag)
        return true;
    if (!check_now(p, m, &sound))
        return false;
    if (!sound)
        return explain(c, m);
    atomic_store(indices, tag);
    atomic_store(pointers, tag);
    return true;
}

// Products ---------------------------------------------------------------------------------------------------------

bool kernel_can_csr(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return true;
}

static int lanes_for(int64_t entries, int64_t rows) {
    int lanes = 1;
    while (lanes < LANES_MOST && lanes < entries / MAX_OF(rows, 1) / 2)
        lanes *= 2;
    return lanes;
}

bool kernel_csr_matmul(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    struct csr_index m = {c->in[INDICES], c->in[POINTERS], call_args(c)[1]};
    if (call_args(c)[0])
        return kernel_check_csr(p, c, &m) && kernel_csr_transposed(p, c);
    int64_t rows = c->in[POINTERS]->dim[0] - 1, width = c->in[DENSE]->dim[1], entries = c->in[VALUES]->dim[0];
    struct kernel_call k;
    kernel_begin_call(&k);
    struct recipe r = {y->dtype, c->in[INDICES]->dtype, width == 1 ? lanes_for(entries, rows) : 0,
                       MAX_OF(rows * width, entries) > INT32_MAX / 2, "csr"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    for (int i = 0; i < c->inputs; i++) {
        void *memory = kernel_reach(p, c->in[i]);
        if (!memory)
            return false;
        kernel_add_memory(&k, memory);
        kernel_add_int(&k, c->in[i]->offset, true);
    }
    kernel_add_int(&k, rows, r.wide);
    kernel_add_int(&k, width, r.wide);
    int64_t each = r.lanes ? KERNEL_THREADS / r.lanes : KERNEL_THREADS, all = r.lanes ? rows : rows * width;
    return kernel && to && kernel_check_csr(p, c, &m) &&
           kernel_launch(p, kernel, (all + each - 1) / each, &k);
}
