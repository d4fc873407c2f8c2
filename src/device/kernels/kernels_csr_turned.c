// kernels_csr_turned.c - what goes from entries of sparse matrices to their rows: products of transposed matrices, elements of dense
// products at the places of entries, and the rows themselves.
//
// For a transposed matrix the entries are brought into the order of their columns, as they come: sums are the same each time.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { PLACES, TRANSPOSED, SAMPLE, ROWS };

struct recipe {
    int32_t dtype, index, what;
    char name[12]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// The last row that begins at or before an entry: the one that has it, if it is before the last pointer.
static const char common[] = "FN i64 row_of(GLOBAL const INDEX *pointers, i64 rows, i64 entry) {\n"
                             "    i64 low = 0, high = rows;\n"
                             "    while (high - low > 1) {\n"
                             "        i64 middle = (low + high) / 2;\n"
                             "        if ((i64)pointers[middle] <= entry)\n"
                             "            low = middle;\n"
                             "        else\n"
                             "            high = middle;\n"
                             "    }\n"
                             "    return low;\n"
                             "}\n";

static const char *const bodies[] = {
    [PLACES] =
        "KERNEL zl_kernel(GLOBAL i64 *y, GLOBAL const INDEX *indices, i64 indices_at, GLOBAL const INDEX "
        "*pointers, i64 pointers_at,\n"
        "                 i64 rows, i64 entries, i64 columns) {\n"
        "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
        "    if (i < entries)\n"
        "        y[i] = i < (i64)pointers[pointers_at + rows] ? (i64)indices[indices_at + i] : columns;\n"
        "}\n",
    [TRANSPOSED] =
        "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *values, i64 values_at, GLOBAL const INDEX "
        "*pointers, i64 pointers_at,\n"
        "                 GLOBAL const ITEM *x, i64 x_at, GLOBAL const i64 *places, GLOBAL const u32 *order, "
        "i64 rows, i64 entries,\n"
        "                 i64 columns, i64 width) {\n"
        "    i64 number = (i64)GROUP * THREADS + THREAD, column = number / width, low = 0, high = entries;\n"
        "    ITEM sum = 0;\n"
        "    if (column >= columns)\n"
        "        return;\n"
        "    while (low < high) {\n"
        "        i64 middle = (low + high) / 2;\n"
        "        if (places[order[middle]] < column)\n"
        "            low = middle + 1;\n"
        "        else\n"
        "            high = middle;\n"
        "    }\n"
        "    for (; low < entries && places[order[low]] == column; low++) {\n"
        "        i64 entry = order[low], row = row_of(pointers + pointers_at, rows, entry);\n"
        "        sum = FMA(values[values_at + entry], x[x_at + row * width + number % width], sum);\n"
        "    }\n"
        "    y[number] = sum;\n"
        "}\n",
    [SAMPLE] = "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const INDEX *indices, i64 indices_at, GLOBAL const "
               "INDEX *pointers, i64 pointers_at,\n"
               "                 GLOBAL const ITEM *left, i64 left_at, GLOBAL const ITEM *right, i64 "
               "right_at, i64 rows, i64 entries,\n"
               "                 i64 width) {\n"
               "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
               "    ITEM sum = 0;\n"
               "    if (i >= entries)\n"
               "        return;\n"
               "    if (i < (i64)pointers[pointers_at + rows]) {\n"
               "        left += left_at + row_of(pointers + pointers_at, rows, i) * width;\n"
               "        right += right_at + (i64)indices[indices_at + i] * width;\n"
               "        for (i64 k = 0; k < width; k++)\n"
               "            sum = FMA(left[k], right[k], sum);\n"
               "    }\n"
               "    y[i] = sum;\n"
               "}\n",
    [ROWS] = "KERNEL zl_kernel(GLOBAL INDEX *y, GLOBAL const INDEX *pointers, i64 pointers_at, i64 rows, i64 "
             "entries) {\n"
             "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
             "    pointers += pointers_at;\n"
             "    if (i < entries)\n"
             "        y[i] = (INDEX)(i < (i64)pointers[rows] ? row_of(pointers, rows, i) : rows);\n"
             "}\n",
};

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const char *item = kernel_memory_type((zl_dtype)w->r->dtype);
    kernel_begin(out, w->dialect, true);
    text_add(out, "#define ITEM %s\n#define FMA zl_fma_%s\n#define INDEX %s\n%s%s", item, item,
             kernel_memory_type((zl_dtype)w->r->index), common, bodies[w->r->what]);
    return true;
}

static void *find(const struct kernel_place *p, zl_dtype dtype, zl_array indices, int what) {
    struct recipe r = {(int32_t)dtype, indices->dtype, what, "csr turned"};
    return kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
}

static bool add_array(const struct kernel_place *p, struct kernel_call *k, zl_array x) {
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    kernel_add_int(k, x->offset, true);
    return memory;
}

static bool launch(const struct kernel_place *p, void *kernel, int64_t threads, const struct kernel_call *k) {
    return kernel && kernel_launch(p, kernel, (threads + KERNEL_THREADS - 1) / KERNEL_THREADS, k);
}

// Transposed -------------------------------------------------------------------------------------------------------

static bool find_places(const struct kernel_place *p, const struct csr_index *m, void *places) {
    int64_t entries = m->indices->dim[0];
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, places);
    if (!add_array(p, &k, m->indices) || !add_array(p, &k, m->pointers))
        return false;
    kernel_add_int(&k, m->pointers->dim[0] - 1, true);
    kernel_add_int(&k, entries, true);
    kernel_add_int(&k, m->columns, true);
    return launch(p, find(p, ZL_FLOAT32, m->indices, PLACES), entries, &k);
}

static bool multiply(const struct kernel_place *p, const struct call *c, const struct csr_index *m,
                     void *places, void *order) {
    zl_array y = call_first(c);
    struct kernel_call k;
    kernel_begin_call(&k);
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    if (!to || !add_array(p, &k, c->in[0]) || !add_array(p, &k, m->pointers) || !add_array(p, &k, c->in[3]))
        return false;
    kernel_add_memory(&k, places);
    kernel_add_memory(&k, order);
    kernel_add_int(&k, m->pointers->dim[0] - 1, true);
    kernel_add_int(&k, m->indices->dim[0], true);
    kernel_add_int(&k, m->columns, true);
    kernel_add_int(&k, c->in[3]->dim[1], true);
    return launch(p, find(p, (zl_dtype)y->dtype, m->indices, TRANSPOSED), y->size, &k);
}

bool kernel_csr_transposed(const struct kernel_place *p, const struct call *c) {
    const struct device *d = p->target->device;
    struct csr_index m = {c->in[1], c->in[2], call_args(c)[1]};
    size_t entries = (size_t)m.indices->dim[0], capacity[2];
    void *places = device_alloc(d, p->unit, p->lane, entries * sizeof(int64_t), &capacity[0]);
    void *order = places ? device_alloc(d, p->unit, p->lane, entries * sizeof(uint32_t), &capacity[1]) : NULL;
    bool done = order && find_places(p, &m, places) &&
                kernel_order_places(p, order, places, (int64_t)entries) && multiply(p, c, &m, places, order);
    if (order)
        device_free(d, p->unit, p->lane, order, capacity[1]); // who gets it comes later in the lane's order
    if (places)
        device_free(d, p->unit, p->lane, places, capacity[0]);
    return done;
}

// Entries ----------------------------------------------------------------------------------------------------------

bool kernel_csr_sample(const struct kernel_place *p, const struct call *c) {
    struct csr_index m = {c->in[0], c->in[1], c->in[3]->dim[0]};
    zl_array y = call_first(c);
    struct kernel_call k;
    kernel_begin_call(&k);
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    for (int i = 0; i < 4; i++)
        if (!add_array(p, &k, c->in[i]))
            return false;
    kernel_add_int(&k, m.pointers->dim[0] - 1, true);
    kernel_add_int(&k, y->size, true);
    kernel_add_int(&k, c->in[2]->dim[1], true);
    void *kernel = find(p, (zl_dtype)y->dtype, m.indices, SAMPLE);
    return to && kernel_check_csr(p, c, &m) && launch(p, kernel, y->size, &k);
}

bool kernel_csr_rows(const struct kernel_place *p, const struct call *c) {
    struct csr_index m = {c->in[0], c->in[1], call_args(c)[0]};
    zl_array y = call_first(c);
    struct kernel_call k;
    kernel_begin_call(&k);
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    if (!to || !add_array(p, &k, m.pointers))
        return false;
    kernel_add_int(&k, m.pointers->dim[0] - 1, true);
    kernel_add_int(&k, y->size, true);
    void *kernel = find(p, ZL_FLOAT32, m.indices, ROWS);
    return kernel_check_csr(p, c, &m) && launch(p, kernel, y->size, &k);
}
