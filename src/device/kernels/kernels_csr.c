// kernels_csr.c - sparse matrices in CSR form, by the files csr_*.tile of src/kernel/: products of the matrix
// or its transpose with dense matrices, elements of dense products at the positions of the entries (sampled
// products), and the row of each entry.
//
// Pointers and indices are checked before their first use, and their replicas remember that they are sound.
// For a transposed matrix the entries are sorted by column with a stable sort, so that the order of summation
// is always the same.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { LANES_MOST = 32 };
enum kind { ROWS, PLACES, SAMPLE }; // KIND of csr_entries.tile

// A sparse matrix without its values.
struct csr_index {
    zl_array indices, pointers;
    int64_t columns;
};

// Checking --------------------------------------------------------------------------------------------------

static uint64_t tag_of(const struct csr_index *m) {
    uint64_t tag = 1;
    const int64_t parts[] = {m->columns, m->indices->dim[0], m->pointers->dim[0], m->indices->offset,
                             m->pointers->offset};
    for (size_t i = 0; i < COUNT(parts); i++)
        tag = (tag ^ (uint64_t)parts[i]) * 0x9e3779b97f4a7c15u;
    return tag | 1;
}

static bool launch_check(const struct kernel_place *p, const struct csr_index *m, void *status) {
    struct kernel_work w;
    work_open(&w, p, "csr");
    WORK_SIZES(&w, m->pointers->dim[0] - 1, m->indices->dim[0]);
    work_array(&w, m->indices);
    work_array(&w, m->pointers);
    work_value(&w, &m->columns, 8);
    work_memory(&w, status);
    return WORK_FILE(&w, "csr_check", "BITS=%b,WHICH=%t", m->indices->dtype);
}

static const void *host_data(zl_array x) {
    return (const char *)x->storage->data + (size_t)x->offset * array_item(x);
}

// Checks the indices again on the host, which sets an error that names what is wrong. Returns true if the
// only fault is that some elements belong to no row.
static bool explain(const struct call *c, const struct csr_index *m) {
    zl_array indices = m->indices, pointers = m->pointers;
    return device_fetch(indices->storage) && device_fetch(pointers->storage) &&
           op_csr_check(c->op->name, &(struct csr_places){host_data(indices), host_data(pointers),
                                                          (zl_dtype)indices->dtype, pointers->dim[0] - 1,
                                                          m->columns, indices->dim[0]});
}

static bool check_now(const struct kernel_place *p, const struct csr_index *m, bool *sound) {
    const struct device *d = p->target->device;
    struct kernel_scratch room = {0};
    int32_t status = 0;
    bool done = kernel_scratch_open(p, &room, sizeof status) &&
                d->copy(p->unit, p->lane, room.memory, &status, sizeof status, false) &&
                launch_check(p, m, room.memory) &&
                d->copy(p->unit, p->lane, &status, room.memory, sizeof status, true);
    kernel_scratch_close(p, &room);
    *sound = !status;
    return done;
}

// Checks the indices of m unless that was done before. The result is kept with both replicas, until they are
// written again.
static bool check(const struct kernel_place *p, const struct call *c, const struct csr_index *m) {
    if (p->batch) // nothing runs, and the arrays have no memory yet
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

// Entries ---------------------------------------------------------------------------------------------------

// Runs csr_entries.tile. Without dense matrices, which only SAMPLE reads, left and right are the indices.
static bool run_entries(const struct kernel_place *p, const struct csr_index *m, enum kind kind,
                        zl_dtype item, zl_array left, zl_array right, void *y, void *places) {
    struct kernel_work w;
    work_open(&w, p, "csr");
    WORK_SIZES(&w, m->indices->dim[0], m->pointers->dim[0] - 1, left->ndim == 2 ? left->dim[1] : 0);
    work_array(&w, m->indices);
    work_array(&w, m->pointers);
    work_array(&w, left);
    work_array(&w, right);
    work_value(&w, &m->columns, 8);
    work_memory(&w, y);
    work_memory(&w, places);
    if (kind == PLACES)
        item = w.wide ? ZL_INT64 : ZL_INT32;
    return WORK_FILE(&w, "csr_entries", "BITS=%b,INDEX=i%b,WHICH=%t,ITEM=%t,DENSE=%t,KIND=%d",
                     m->indices->dtype, item, kind == SAMPLE ? item : ZL_FLOAT32, kind);
}

bool kernel_csr_sample(const struct kernel_place *p, const struct call *c) {
    struct csr_index m = {c->in[0], c->in[1], c->in[3]->dim[0]};
    void *y = kernel_reach(p, call_first(c));
    return check(p, c, &m) &&
           run_entries(p, &m, SAMPLE, (zl_dtype)call_first(c)->dtype, c->in[2], c->in[3], y, y);
}

bool kernel_csr_rows(const struct kernel_place *p, const struct call *c) {
    struct csr_index m = {c->in[0], c->in[1], call_args(c)[0]};
    void *y = kernel_reach(p, call_first(c));
    return check(p, c, &m) &&
           run_entries(p, &m, ROWS, (zl_dtype)m.indices->dtype, m.indices, m.indices, y, y);
}

// Products --------------------------------------------------------------------------------------------------

enum { ROWS_OF, PLACE, ORDER, ROOMS };

static bool multiply_transposed(const struct kernel_place *p, const struct call *c, const struct csr_index *m,
                                const struct kernel_scratch *room) {
    zl_array y = call_first(c);
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, y->size, y->dim[1], m->indices->dim[0]);
    work_array(&w, c->in[0]);
    work_array(&w, c->in[3]);
    for (int i = 0; i < ROOMS; i++)
        work_memory(&w, room[i].memory);
    work_result(&w, y);
    return WORK_FILE(&w, "csr_transposed", "BITS=%b,INDEX=i%b,ITEM=%t", y->dtype);
}

static bool run_transposed(const struct kernel_place *p, const struct call *c, const struct csr_index *m) {
    static const size_t each[ROOMS] = {sizeof(int64_t), sizeof(int64_t), sizeof(uint32_t)};
    struct kernel_scratch room[ROOMS] = {{0}};
    int64_t entries = m->indices->dim[0];
    bool done = true;
    for (int i = 0; i < ROOMS; i++)
        done = done && kernel_scratch_open(p, &room[i], (size_t)entries * each[i]);
    done = done &&
           run_entries(p, m, PLACES, ZL_INT32, m->indices, m->indices, room[ROWS_OF].memory,
                       room[PLACE].memory) &&
           kernel_order_places(p, room[ORDER].memory, room[PLACE].memory, entries) &&
           multiply_transposed(p, c, m, room);
    for (int i = 0; i < ROOMS; i++)
        kernel_scratch_close(p, &room[i]);
    return done;
}

static int lanes_for(int64_t entries, int64_t rows) {
    int lanes = 1;
    while (lanes < LANES_MOST && lanes < entries / MAX_OF(rows, 1) / 2)
        lanes *= 2;
    return lanes;
}

bool kernel_csr_matmul(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    struct csr_index m = {c->in[1], c->in[2], call_args(c)[1]};
    struct kernel_work w;
    if (!check(p, c, &m))
        return false;
    if (call_args(c)[0])
        return run_transposed(p, c, &m);
    bool is_single = y->dim[1] == 1;
    work_open(&w, p, c->op->name);
    work_sizes(&w, 2, y->dim);
    for (int i = 0; i < c->inputs; i++)
        work_array(&w, c->in[i]);
    work_result(&w, y);
    return WORK_FILE(&w, "csr_matmul", "BITS=%b,INDEX=i%b,WHICH=%t,ITEM=%t,LANES=%d,SINGLE=%d",
                     m.indices->dtype, y->dtype, is_single ? lanes_for(m.indices->dim[0], y->dim[0]) : 1,
                     is_single);
}
