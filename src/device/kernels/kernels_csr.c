// kernels_csr.c - sparse matrices by rows, by the files csr_*.tile of src/kernel/: products with dense matrices, also of the
// transposed matrix, elements of dense products at the places of entries, and the rows of entries.
//
// Pointers and indices are checked before their first use: their replicas remember that they hold what is needed. For a transposed
// matrix the entries are sorted by their columns, in a stable order, so that sums are the same each time.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

enum { LANES_MOST = 32, SIZES_MOST = 12 };
enum file { CHECK, MATVEC, MATMUL, ENTRIES, TRANSPOSED };
enum kind { ROWS, PLACES, SAMPLE }; // KIND of csr_entries.tile

// A sparse matrix without its values.
struct csr_index {
    zl_array indices, pointers;
    int64_t columns;
};

struct recipe {
    char name[4]; // no other kernel has such a key
    int32_t file, item, which, wide;
    int32_t number; // LANES or KIND
};

// A launch whose arguments are collected. An array has two sizes: the elements of its memory, and where it begins.
struct launch {
    const struct kernel_place *place;
    struct recipe r;
    struct kernel_call k;
    int sizes;
    int64_t size[SIZES_MOST];
    bool ready;
};

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    int bits = kernel_bits(r->wide);
    const char *index = kernel_type(r->wide ? ZL_INT64 : ZL_INT32), *which = kernel_type((zl_dtype)r->which),
               *item = kernel_type((zl_dtype)r->item);
    switch (r->file) {
    case CHECK: return kernel_built_in("csr_check", "BITS=%d,WHICH=%s", bits, which);
    case MATVEC:
        return kernel_built_in("csr_matvec", "BITS=%d,INDEX=%s,WHICH=%s,ITEM=%s,LANES=%d", bits, index, which,
                               item, r->number);
    case MATMUL:
        return kernel_built_in("csr_matmul", "BITS=%d,INDEX=%s,WHICH=%s,ITEM=%s", bits, index, which, item);
    case ENTRIES:
        return kernel_built_in("csr_entries", "BITS=%d,INDEX=%s,WHICH=%s,ITEM=%s,DENSE=%s,KIND=%d", bits,
                               index, which, r->number == PLACES ? index : item,
                               r->number == SAMPLE ? item : "f32", r->number);
    default: return kernel_built_in("csr_transposed", "BITS=%d,INDEX=%s,ITEM=%s", bits, index, item);
    }
}

static void begin(struct launch *l, const struct kernel_place *p, struct recipe r) {
    l->place = p;
    l->r = r;
    l->sizes = 0;
    l->ready = true;
    kernel_begin_call(&l->k);
}

static void add_size(struct launch *l, int64_t size) {
    l->size[l->sizes++] = size;
    l->r.wide |= size > KERNEL_NARROW;
}

static void add_memory(struct launch *l, void *memory) {
    l->ready = l->ready && (memory || l->place->batch); // of a batch nothing has memory yet
    kernel_add_memory(&l->k, memory);
}

static void add_array(struct launch *l, zl_array x) {
    add_memory(l, kernel_reach(l->place, x));
    add_size(l, kernel_elements(x));
    add_size(l, x->offset);
}

static bool finish(struct launch *l) {
    const struct kernel_tiles *kernel = kernel_find_tiles(l->place, &l->r, sizeof l->r, make, &l->r);
    return kernel && l->ready && kernel_launch_tiles(l->place, kernel, &l->k, l->sizes, l->size);
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
    struct launch l;
    begin(&l, p, (struct recipe){"csr", CHECK, .which = m->indices->dtype});
    add_size(&l, m->pointers->dim[0] - 1);
    add_size(&l, m->indices->dim[0]);
    add_array(&l, m->indices);
    add_array(&l, m->pointers);
    kernel_add_int(&l.k, m->columns, true);
    add_memory(&l, status);
    return finish(&l);
}

static const void *host_data(zl_array x) {
    return (const char *)x->storage->data + (size_t)x->offset * array_item(x);
}

// Sets the error for what is wrong. Returns true if that belongs to no row.
static bool explain(const struct call *c, const struct csr_index *m) {
    zl_array indices = m->indices, pointers = m->pointers;
    return device_fetch(indices->storage) && device_fetch(pointers->storage) &&
           op_csr_check(c->op->name, &(struct csr_places){host_data(indices), host_data(pointers),
                                                          (zl_dtype)indices->dtype, pointers->dim[0] - 1,
                                                          m->columns, indices->dim[0]});
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
static bool check(const struct kernel_place *p, const struct call *c, const struct csr_index *m) {
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

// Entries ----------------------------------------------------------------------------------------------------------

bool kernel_can_csr(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return true;
}

// Runs csr_entries.tile. Without dense matrices, which only SAMPLE reads, left and right are the indices.
static bool run_entries(const struct kernel_place *p, const struct csr_index *m, struct recipe r,
                        zl_array left, zl_array right, void *y, void *places) {
    struct launch l;
    r.which = m->indices->dtype;
    begin(&l, p, r);
    add_size(&l, m->indices->dim[0]);
    add_size(&l, m->pointers->dim[0] - 1);
    add_size(&l, left->ndim == 2 ? left->dim[1] : 0);
    add_array(&l, m->indices);
    add_array(&l, m->pointers);
    add_array(&l, left);
    add_array(&l, right);
    kernel_add_int(&l.k, m->columns, true);
    add_memory(&l, y);
    add_memory(&l, places);
    return finish(&l);
}

bool kernel_csr_sample(const struct kernel_place *p, const struct call *c) {
    struct csr_index m = {c->in[0], c->in[1], c->in[3]->dim[0]};
    void *y = kernel_reach(p, call_first(c));
    return check(p, c, &m) &&
           run_entries(p, &m, (struct recipe){"csr", ENTRIES, call_first(c)->dtype, .number = SAMPLE},
                       c->in[2], c->in[3], y, y);
}

bool kernel_csr_rows(const struct kernel_place *p, const struct call *c) {
    struct csr_index m = {c->in[0], c->in[1], call_args(c)[0]};
    void *y = kernel_reach(p, call_first(c));
    return check(p, c, &m) &&
           run_entries(p, &m, (struct recipe){"csr", ENTRIES, m.indices->dtype, .number = ROWS}, m.indices,
                       m.indices, y, y);
}

// Products ---------------------------------------------------------------------------------------------------------

enum { ROWS_OF, PLACE, ORDER, ROOMS };

static bool multiply_transposed(const struct kernel_place *p, const struct call *c, const struct csr_index *m,
                                void *const *room) {
    zl_array y = call_first(c);
    struct launch l;
    begin(&l, p, (struct recipe){"csr", TRANSPOSED, y->dtype});
    add_size(&l, y->size);
    add_size(&l, y->dim[1]);
    add_size(&l, m->indices->dim[0]);
    add_array(&l, c->in[0]);
    add_array(&l, c->in[3]);
    for (int i = 0; i < ROOMS; i++)
        add_memory(&l, room[i]);
    add_memory(&l, kernel_reach(p, y));
    return finish(&l);
}

static bool run_transposed(const struct kernel_place *p, const struct call *c, const struct csr_index *m) {
    const struct device *d = p->target->device;
    int64_t entries = m->indices->dim[0];
    size_t each[ROOMS] = {sizeof(int64_t), sizeof(int64_t), sizeof(uint32_t)}, capacity[ROOMS];
    void *room[ROOMS];
    int rooms = 0;
    while (rooms < ROOMS &&
           (room[rooms] = device_alloc(d, p->unit, p->lane, (size_t)entries * each[rooms], &capacity[rooms])))
        rooms++;
    bool done = rooms == ROOMS &&
                run_entries(p, m, (struct recipe){"csr", ENTRIES, .number = PLACES}, m->indices, m->indices,
                            room[ROWS_OF], room[PLACE]) &&
                kernel_order_places(p, room[ORDER], room[PLACE], entries) &&
                multiply_transposed(p, c, m, room);
    for (int i = 0; i < rooms; i++) // whoever gets the memory next comes later in the lane's order
        device_free(d, p->unit, p->lane, room[i], capacity[i]);
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
    struct launch l;
    if (!check(p, c, &m))
        return false;
    if (call_args(c)[0])
        return run_transposed(p, c, &m);
    int lanes = y->dim[1] == 1 ? lanes_for(m.indices->dim[0], y->dim[0]) : 0;
    begin(&l, p,
          (struct recipe){"csr", lanes ? MATVEC : MATMUL, y->dtype, .which = m.indices->dtype,
                          .number = lanes});
    add_size(&l, y->dim[0]);
    if (!lanes)
        add_size(&l, y->dim[1]);
    for (int i = 0; i < c->inputs; i++)
        add_array(&l, c->in[i]);
    add_memory(&l, kernel_reach(p, y));
    l.r.wide |= y->size > KERNEL_NARROW;
    return finish(&l);
}
