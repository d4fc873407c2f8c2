// nn_mesh.c - the mesh of ranks, and the rules by which parameters are divided over it.
//
// Ranks are numbered with tensor varying fastest, then fsdp, then data. A parameter is divided along tensor
// first, and each of these parts along fsdp. Shards along fsdp have one size, so the last ones may end with
// zeros, which no update changes.

#include "nn.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const axis_names[NN_AXES] = {"data", "fsdp", "tensor"};

// The mesh --------------------------------------------------------------------------------------------------

void nn_mesh_free(struct nn_mesh *m) {
    if (!m)
        return;
    nn_buckets_free(m);
    for (int i = 0; i < NN_AXES; i++)
        zl_group_release(m->axis[i].group);
    zl_group_release(m->batch);
    zl_group_release(m->all);
    free(m);
}

int nn_mesh_size(const struct nn_mesh *m, int axis) {
    return m ? m->axis[axis].size : 1;
}

// Reads a text such as "data=2,fsdp=4" into size[]; an axis that is left out has size 1.
static bool read_sizes(zl_nn nn, const char *text, int size[NN_AXES]) {
    bool known[NN_AXES] = {false};
    for (int i = 0; i < NN_AXES; i++)
        size[i] = 1;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "=");
        char *end = NULL;
        long n = at[length] ? strtol(at + length + 1, &end, 10) : 0;
        int axis = 0;
        while (axis < NN_AXES &&
               (strlen(axis_names[axis]) != length || strncmp(axis_names[axis], at, length) != 0))
            axis++;
        if (axis == NN_AXES || known[axis] || n < 1 || n > 1 << 20 || (*end && (*end != ',' || !end[1])))
            return nn_fail(
                nn,
                "zl_nn_distribute: the mesh '%s' is not understood: it is sizes of data, fsdp and tensor, "
                "each at most once, such as data=2,fsdp=2,tensor=2",
                text);
        size[axis] = (int)n, known[axis] = true;
        at = *end ? end + 1 : end;
    }
    return true;
}

// Makes the group of the ranks with the same color; if these are all ranks, that is the group itself. No
// group for size 1.
static bool part_of(struct nn_mesh *m, int size, int color, int key, zl_group *out) {
    if (size > 1)
        *out = size == zl_group_size(m->all) ? zl_group_retain(m->all) : zl_group_split(m->all, color, key);
    return size == 1 || *out;
}

static bool make_groups(struct nn_mesh *m) {
    struct nn_axis *d = &m->axis[NN_DATA], *f = &m->axis[NN_FSDP], *t = &m->axis[NN_TENSOR];
    return part_of(m, d->size, f->rank * t->size + t->rank, d->rank, &d->group) &&
           part_of(m, f->size, d->rank * t->size + t->rank, f->rank, &f->group) &&
           part_of(m, t->size, d->rank * f->size + f->rank, t->rank, &t->group) &&
           part_of(m, m->rows, t->rank, m->row, &m->batch);
}

static struct nn_mesh *new_mesh(zl_nn nn, zl_group group, const int size[NN_AXES]) {
    struct nn_mesh *m = calloc(1, sizeof *m);
    if (!m) {
        nn_fail(nn, "zl_nn_distribute: out of memory");
        return NULL;
    }
    int rank = zl_group_rank(group), above = 0;
    for (int i = NN_AXES - 1; i >= 0; i--) {
        m->axis[i] = (struct nn_axis){.size = size[i], .rank = rank % size[i]};
        rank /= size[i];
        above += size[i] > 1;
    }
    m->all = zl_group_retain(group);
    m->rows = size[NN_DATA] * size[NN_FSDP];
    m->row = m->axis[NN_DATA].rank * size[NN_FSDP] + m->axis[NN_FSDP].rank;
    bool done =
        above < 2 || strcmp(zl_group_engine(group), "ring") != 0 ||
        nn_fail(nn,
                "zl_nn_distribute: a mesh with several axes splits the group, which the engine ring cannot: "
                "mpi and nccl can (zellige launch --backend mpi)");
    if (done && make_groups(m))
        return m;
    nn_mesh_free(m);
    return NULL;
}

bool zl_nn_distribute(zl_nn nn, zl_group group, const char *mesh, int rows, const zl_nn_shard *row,
                      int64_t bucket_bytes) {
    int size[NN_AXES], ranks = group ? zl_group_size(group) : 1;
    if (!nn || !read_sizes(nn, mesh, size))
        return false;
    if (nn->table->count || nn->table->mesh)
        return nn_fail(nn, "zl_nn_distribute: the table has parameters, or a mesh, already");
    int64_t places = (int64_t)size[NN_DATA] * size[NN_FSDP] * size[NN_TENSOR];
    if (places != ranks)
        return nn_fail(nn, "zl_nn_distribute: the mesh %s has %lld places, and the group (%s) %d ranks", mesh,
                       (long long)places, group ? zl_group_engine(group) : "none", ranks);
    if (ranks == 1)
        return true;
    struct nn_mesh *m = new_mesh(nn, group, size);
    if (!m)
        return false;
    m->rule = row, m->rules = rows;
    m->bucket_bytes = bucket_bytes > 0 ? bucket_bytes : 1 << 20;
    nn->table->mesh = m;
    return true;
}

int zl_nn_rank(zl_nn nn) {
    return nn && nn->table->mesh ? zl_group_rank(nn->table->mesh->all) : 0;
}

int zl_nn_ranks(zl_nn nn) {
    return nn && nn->table->mesh ? zl_group_size(nn->table->mesh->all) : 1;
}

bool zl_nn_rows(zl_nn nn, int64_t rows, int64_t *first, int64_t *count) {
    const struct nn_mesh *m = nn ? nn->table->mesh : NULL;
    int parts = m ? m->rows : 1;
    if (!nn || rows % parts)
        return nn &&
               nn_fail(nn, "zl_nn_rows: a batch of %lld does not divide by the %d ranks of data and fsdp",
                       (long long)rows, parts);
    *count = rows / parts;
    *first = m ? m->row * *count : 0;
    return true;
}

zl_array zl_nn_mean_of_rows(zl_nn nn, zl_array x) {
    const struct nn_mesh *m = nn ? nn->table->mesh : NULL;
    return m && m->batch ? zl_multiply(zl_all_sum(x, m->batch), zl_scalar(1.0 / m->rows)) : x;
}

// The table -------------------------------------------------------------------------------------------------

static int rule_axis(const struct nn_mesh *m, const char *name, int ndim, int axis) {
    for (int i = 0; m && i < m->rules; i++)
        if (!fnmatch(m->rule[i].name, name, 0)) {
            int at = axis == NN_FSDP ? m->rule[i].fsdp : axis == NN_TENSOR ? m->rule[i].tensor : -1;
            bool divided = m->axis[axis].size > 1 && (axis != NN_FSDP || ndim > 1);
            return divided ? at : -1;
        }
    return -1;
}

bool nn_place_parameter(zl_nn nn, struct nn_parameter *p) {
    const struct nn_mesh *m = nn->table->mesh;
    char shape[64];
    for (int i = 0; i < NN_AXES; i++) {
        p->split[i] = rule_axis(m, p->name, p->ndim, i);
        bool is_there = p->split[i] < p->ndim,
             divides =
                 is_there && (i != NN_TENSOR || p->split[i] < 0 || !(p->dim[p->split[i]] % m->axis[i].size));
        if (divides)
            continue;
        nn_print_shape(shape, sizeof shape, (zl_shape){p->dim, p->ndim});
        return nn_fail(nn, "zl_nn_parameter: %s is %s, %s axis %d %s %s=%d of the mesh", p->name, shape,
                       is_there ? "whose" : "which has no", p->split[i],
                       is_there ? "does not divide by" : "to lie on", axis_names[i], m->axis[i].size);
    }
    return true;
}

int nn_parts(zl_nn nn, const char *name, int axis) {
    char full[256];
    const struct nn_mesh *m = nn ? nn->table->mesh : NULL;
    enum { ANY_NUMBER = 2 };
    if (!m || m->axis[NN_TENSOR].size == 1 || !nn_full_name(nn, name, "", full, sizeof full))
        return 1;
    return rule_axis(m, full, ANY_NUMBER, NN_TENSOR) == axis ? m->axis[NN_TENSOR].size : 1;
}

// Parts -----------------------------------------------------------------------------------------------------

static zl_array slice_axis(zl_array x, int axis, int64_t from, int64_t to) {
    int64_t start[NN_DIMS_MOST], stop[NN_DIMS_MOST], step[NN_DIMS_MOST];
    int ndim = x ? zl_ndim(x) : 0;
    for (int i = 0; i < ndim; i++)
        start[i] = 0, stop[i] = zl_dim(x, i), step[i] = 1;
    if (!x || (from == 0 && to == stop[axis]))
        return x;
    start[axis] = from, stop[axis] = to;
    return zl_slice(x, (zl_shape){start, ndim}, (zl_shape){stop, ndim}, (zl_shape){step, ndim});
}

static zl_array pad_axis(zl_array x, int axis, int64_t more) {
    int64_t low[NN_DIMS_MOST] = {0}, high[NN_DIMS_MOST] = {0};
    if (!x || !more)
        return x;
    high[axis] = more;
    return zl_pad(x, (zl_shape){low, zl_ndim(x)}, (zl_shape){high, zl_ndim(x)}, zl_scalar(0));
}

// Returns the elements along the axis that fsdp divides, in the parameter as it is whole along fsdp.
static int64_t length_of(const struct nn_mesh *m, const struct nn_parameter *p) {
    int axis = p->split[NN_FSDP];
    return p->split[NN_TENSOR] == axis ? p->dim[axis] / m->axis[NN_TENSOR].size : p->dim[axis];
}

static int64_t rows_of(const struct nn_mesh *m, const struct nn_parameter *p) {
    int ranks = m->axis[NN_FSDP].size;
    return (length_of(m, p) + ranks - 1) / ranks;
}

zl_array nn_shard_of(const struct nn_mesh *m, const struct nn_parameter *p, zl_array x) {
    int t = p->split[NN_TENSOR], f = p->split[NN_FSDP];
    if (t >= 0) {
        int64_t part = p->dim[t] / m->axis[NN_TENSOR].size, first = m->axis[NN_TENSOR].rank * part;
        x = slice_axis(x, t, first, first + part);
    }
    if (f >= 0) {
        int64_t rows = rows_of(m, p), first = m->axis[NN_FSDP].rank * rows;
        x = pad_axis(x, f, rows * m->axis[NN_FSDP].size - length_of(m, p));
        x = slice_axis(x, f, first, first + rows);
    }
    return x;
}

static zl_array gather_axis(zl_array x, int axis, zl_group group) {
    return axis ? zl_moveaxis(zl_all_gather(zl_moveaxis(x, axis, 0), group), 0, axis)
                : zl_all_gather(x, group);
}

zl_array nn_gather(const struct nn_mesh *m, const struct nn_parameter *p, zl_array shard) {
    int f = p->split[NN_FSDP];
    return m && f >= 0 ? slice_axis(gather_axis(shard, f, m->axis[NN_FSDP].group), f, 0, length_of(m, p))
                       : shard;
}

zl_array nn_whole_of(const struct nn_mesh *m, const struct nn_parameter *p, zl_array shard) {
    zl_array x = nn_gather(m, p, shard);
    int t = p->split[NN_TENSOR];
    return m && t >= 0 ? gather_axis(x, t, m->axis[NN_TENSOR].group) : x;
}

bool nn_extent(const struct nn_mesh *m, const struct nn_parameter *p, int64_t *start, int64_t *stop) {
    int t = p->split[NN_TENSOR], f = p->split[NN_FSDP];
    for (int i = 0; i < p->ndim; i++)
        start[i] = 0, stop[i] = p->dim[i];
    if (t >= 0) {
        int64_t part = p->dim[t] / m->axis[NN_TENSOR].size;
        start[t] = m->axis[NN_TENSOR].rank * part, stop[t] = start[t] + part;
    }
    if (f >= 0) {
        int64_t rows = rows_of(m, p), first = start[f] + m->axis[NN_FSDP].rank * rows;
        stop[f] = first + rows < stop[f] ? first + rows : stop[f];
        start[f] = first;
    }
    for (int i = 0; i < p->ndim; i++)
        if (start[i] >= stop[i])
            return false;
    return true;
}

// Products over tensor --------------------------------------------------------------------------------------

static bool same(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return zl_give(out, in[count - 1]);
}

static bool summed(void *data, int count, const zl_array *in, int results, const zl_array *result,
                   const zl_array *cotangent, zl_outputs *out) {
    const struct nn_mesh *m = data;
    (void)count, (void)in, (void)results, (void)result;
    return zl_give(out, zl_all_sum(cotangent[0], m->axis[NN_TENSOR].group));
}

zl_array nn_enter(zl_nn nn, zl_array x) {
    struct nn_mesh *m = nn ? nn->table->mesh : NULL;
    if (!x || nn_mesh_size(m, NN_TENSOR) == 1)
        return x;
    zl_scope scope = zl_scope_begin();
    zl_outputs *out = zl_outputs_new();
    const zl_custom_fn f = {.f = {.call = same, .data = m}, .vjp = summed};
    zl_array y = out && zl_custom(&f, 1, &x, out) ? zl_retain(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    zl_array left = zl_scope_leave(scope, y);
    zl_release(y);
    return left;
}

zl_array nn_leave(zl_nn nn, zl_array x) {
    struct nn_mesh *m = nn ? nn->table->mesh : NULL;
    return nn_mesh_size(m, NN_TENSOR) > 1 ? zl_all_sum(x, m->axis[NN_TENSOR].group) : x;
}

zl_array nn_sum_squares(const struct nn_mesh *m, zl_array sum[2][2]) {
    zl_array along[2];
    for (int t = 0; t < 2; t++)
        along[t] = nn_mesh_size(m, NN_FSDP) > 1
                       ? zl_add(zl_all_sum(sum[1][t], m->axis[NN_FSDP].group), sum[0][t])
                       : sum[0][t];
    return nn_mesh_size(m, NN_TENSOR) > 1 ? zl_add(zl_all_sum(along[1], m->axis[NN_TENSOR].group), along[0])
                                          : along[0];
}
