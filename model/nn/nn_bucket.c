// nn_bucket.c - buckets: parameters that are gathered together before use, and whose gradients are sent
// together.
//
// A bucket consists of consecutive parameters, in the order in which the model first looks them up. For
// derivatives it is one function from shards to the arrays that layers use: the forward pass gathers along
// fsdp, the backward pass sums over ranks. So its gradients are sent as soon as the backward pass has
// computed the last of them, while that pass continues with the earlier layers.
//
// Vectors have buckets of their own, which are sent last: the backward pass visits the last input of a call
// first, so the gradients of norms and biases come late. A gather waits for what had been computed when the
// bucket before it was first used, which keeps it one bucket ahead. Weights that products need in the
// backward pass are gathered again, so that no whole weight stays in memory between the two passes.

#include "nn.h"

#include <stdlib.h>
#include <string.h>

struct nn_bucket {
    struct nn_table *table;
    const int *index; // indices of its parameters in the table
    int count;
    int shards; // parameters that are divided along fsdp
    bool is_vectors;
};

static struct nn_parameter *parameter_of(const struct nn_bucket *b, int i) {
    return &b->table->parameter[b->index[i]];
}

static bool is_sharded(const struct nn_bucket *b, int i) {
    return parameter_of(b, i)->split[NN_FSDP] >= 0;
}

// Making ----------------------------------------------------------------------------------------------------

static int64_t bytes_of(const struct nn_mesh *m, const struct nn_parameter *p) {
    return (int64_t)zl_nbytes(p->array) * (p->split[NN_FSDP] >= 0 ? m->axis[NN_FSDP].size : 1);
}

static bool is_vector(const struct nn_parameter *p) {
    return p->kind == ZL_NN_VECTOR;
}

// Orders parameters: matrices, then vectors, each in the order of the table.
static void put_in_order(const struct nn_table *table, int *order) {
    int at = 0;
    for (int vectors = 0; vectors < 2; vectors++)
        for (int i = 0; i < table->count; i++)
            if (is_vector(&table->parameter[i]) == (vectors == 1))
                order[at++] = i;
}

// Returns whether a parameter begins a new bucket, after a bucket that has `bytes` bytes.
static bool begins(const struct nn_mesh *m, const struct nn_parameter *p, const struct nn_parameter *before,
                   int64_t bytes) {
    return !before || bytes >= m->bucket_bytes || zl_dtype_of(p->array) != zl_dtype_of(before->array) ||
           is_vector(p) != is_vector(before);
}

bool nn_buckets_make(zl_nn nn) {
    struct nn_table *table = nn->table;
    struct nn_mesh *m = table->mesh;
    if (!m || m->bucket)
        return true;
    m->bucket = calloc((size_t)table->count + 1, sizeof *m->bucket);
    m->order = malloc(((size_t)table->count + 1) * sizeof *m->order);
    if (!m->bucket || !m->order)
        return nn_fail(nn, "zl_trainer_step: out of memory");
    put_in_order(table, m->order);
    int64_t bytes = 0;
    struct nn_parameter *before = NULL;
    for (int i = 0; i < table->count; i++) {
        struct nn_parameter *p = &table->parameter[m->order[i]];
        if (begins(m, p, before, bytes)) {
            m->bucket[m->buckets++] =
                (struct nn_bucket){.table = table, .index = &m->order[i], .is_vectors = is_vector(p)};
            bytes = 0;
        }
        struct nn_bucket *b = &m->bucket[m->buckets - 1];
        p->bucket = m->buckets - 1;
        b->shards += p->split[NN_FSDP] >= 0;
        b->count++;
        bytes += bytes_of(m, p);
        before = p;
    }
    return true;
}

void nn_buckets_free(struct nn_mesh *m) {
    free(m->bucket);
    free(m->order);
}

// Returns the next bucket of matrices, or NULL. Buckets of vectors are gathered when they are first used.
static struct nn_bucket *next_of(struct nn_mesh *m, int bucket) {
    bool any = bucket + 1 < m->buckets && !m->bucket[bucket + 1].is_vectors;
    return any ? &m->bucket[bucket + 1] : NULL;
}

// Arrays as one, by rows of what lies along fsdp ------------------------------------------------------------

static zl_array to_front(zl_array x, int axis) {
    return axis > 0 ? zl_moveaxis(x, axis, 0) : x;
}

static zl_array from_front(zl_array x, int axis) {
    return axis > 0 ? zl_moveaxis(x, 0, axis) : x;
}

static zl_array columns(zl_array x, int64_t from, int64_t to) {
    return zl_slice(x, ZL_SHAPE(0, from), ZL_SHAPE(zl_dim(x, 0), to), ZL_SHAPE(1, 1));
}

static zl_array rows_at(zl_array x, int64_t from, int64_t to) {
    int64_t start[NN_DIMS_MOST] = {from}, stop[NN_DIMS_MOST], step[NN_DIMS_MOST];
    int ndim = zl_ndim(x);
    for (int i = 0; i < ndim; i++)
        stop[i] = i ? zl_dim(x, i) : to, step[i] = 1;
    return from == 0 && to == zl_dim(x, 0)
               ? x
               : zl_slice(x, (zl_shape){start, ndim}, (zl_shape){stop, ndim}, (zl_shape){step, ndim});
}

// Reshapes x (rows, ...) to the shape of `like`, except for the first axis.
static zl_array rows_like(zl_array x, int64_t rows, zl_array like) {
    int64_t dim[NN_DIMS_MOST] = {rows};
    for (int i = 1; i < zl_ndim(like); i++)
        dim[i] = zl_dim(like, i);
    return zl_reshape(x, (zl_shape){dim, zl_ndim(like)});
}

// Gathers the shards in[] along fsdp. The gather begins when `after` has been computed; at once if it is
// NULL.
static bool gather(const struct nn_bucket *b, const zl_array *in, zl_array after, zl_array *whole) {
    const struct nn_mesh *m = b->table->mesh;
    int64_t ranks = m->axis[NN_FSDP].size, at = 0;
    zl_array *part = b->shards ? malloc((size_t)b->shards * sizeof *part) : NULL;
    int parts = 0;
    for (int i = 0; part && i < b->count; i++)
        if (is_sharded(b, i))
            part[parts++] = zl_reshape(to_front(in[i], parameter_of(b, i)->split[NN_FSDP]), ZL_SHAPE(-1));
    zl_array all = parts > 1 ? zl_concatenate(part, parts, 0) : parts ? part[0] : NULL;
    all = after && all ? zl_depends(all, &after, 1) : all;
    all = all ? zl_reshape(zl_all_gather(all, m->axis[NN_FSDP].group), ZL_SHAPE(ranks, zl_size(all))) : NULL;
    bool done = all || !b->shards;
    for (int i = 0; done && i < b->count; i++) {
        const struct nn_parameter *p = parameter_of(b, i);
        whole[i] = in[i];
        if (!is_sharded(b, i))
            continue;
        int axis = p->split[NN_FSDP];
        int64_t size = zl_size(in[i]),
                length = p->dim[axis] / (p->split[NN_TENSOR] == axis ? m->axis[NN_TENSOR].size : 1);
        zl_array x = parts > 1 ? columns(all, at, at + size) : all, shape = to_front(in[i], axis);
        x = shape ? rows_like(x, ranks * zl_dim(shape, 0), shape) : NULL;
        done = (whole[i] = x ? from_front(rows_at(x, 0, length), axis) : NULL);
        at += size;
    }
    free(part);
    return done;
}

// Returns the gradient of a divided parameter as (ranks, elements of a shard).
static zl_array by_ranks(const struct nn_bucket *b, int i, zl_array gradient) {
    int64_t ranks = b->table->mesh->axis[NN_FSDP].size, high[NN_DIMS_MOST] = {0}, low[NN_DIMS_MOST] = {0};
    const struct nn_parameter *p = parameter_of(b, i);
    zl_array x = to_front(gradient, p->split[NN_FSDP]);
    high[0] = zl_dim(p->array, p->split[NN_FSDP]) * ranks - zl_dim(x, 0);
    if (high[0])
        x = zl_pad(x, (zl_shape){low, zl_ndim(x)}, (zl_shape){high, zl_ndim(x)}, zl_scalar(0));
    return zl_reshape(x, ZL_SHAPE(ranks, -1));
}

// Sums over ranks the gradients of parameters that are divided, or of those that are not, into sum[].
static bool send(const struct nn_bucket *b, bool sharded, const zl_array *gradient, zl_array *sum) {
    const struct nn_mesh *m = b->table->mesh;
    int parts = 0, all = sharded ? b->shards : b->count - b->shards;
    zl_array *part = all ? malloc((size_t)all * sizeof *part) : NULL;
    for (int i = 0; part && i < b->count; i++)
        if (is_sharded(b, i) == sharded)
            part[parts++] = sharded ? by_ranks(b, i, gradient[i]) : zl_reshape(gradient[i], ZL_SHAPE(-1));
    zl_array x = parts > 1 ? zl_concatenate(part, parts, sharded) : parts ? part[0] : NULL;
    if (x && sharded) {
        x = zl_sum_scatter(zl_reshape(x, ZL_SHAPE(-1)), m->axis[NN_FSDP].group);
        x = m->axis[NN_DATA].group ? zl_all_sum(x, m->axis[NN_DATA].group) : x;
    } else if (x && m->batch) {
        x = zl_all_sum(x, m->batch);
    }
    bool done = x || !all;
    int64_t at = 0;
    for (int i = 0; done && i < b->count; i++)
        if (is_sharded(b, i) == sharded) {
            zl_array shard = parameter_of(b, i)->array,
                     like = to_front(shard, sharded ? parameter_of(b, i)->split[NN_FSDP] : 0);
            int64_t size = zl_size(shard);
            zl_array own = zl_reshape(rows_at(x, at, at + size), zl_shape_of(like));
            done = (sum[i] = sharded ? from_front(own, parameter_of(b, i)->split[NN_FSDP]) : own);
            at += size;
        }
    free(part);
    return done;
}

// A bucket as a function ------------------------------------------------------------------------------------

static bool give_all(zl_outputs *out, int count, const zl_array *a) {
    bool done = true;
    for (int i = 0; done && i < count; i++)
        done = zl_give(out, a[i]);
    return done;
}

static bool take_shards(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct nn_bucket *b = data;
    zl_array *whole = calloc((size_t)count, sizeof *whole);
    bool done = whole && gather(b, in, b->table->mesh->progress, whole) && give_all(out, count, whole);
    free(whole);
    return done;
}

static bool send_gradients(void *data, int count, const zl_array *in, int results, const zl_array *result,
                           const zl_array *cotangent, zl_outputs *out) {
    const struct nn_bucket *b = data;
    (void)in, (void)results, (void)result;
    zl_array *sum = calloc((size_t)count, sizeof *sum);
    bool done =
        sum && send(b, true, cotangent, sum) && send(b, false, cotangent, sum) && give_all(out, count, sum);
    free(sum);
    return done;
}

static zl_array *shards_of(const struct nn_bucket *b) {
    zl_array *in = malloc((size_t)b->count * sizeof *in);
    for (int i = 0; in && i < b->count; i++)
        in[i] = parameter_of(b, i)->current;
    return in;
}

static bool open_bucket(zl_nn nn, struct nn_bucket *b) {
    const zl_custom_fn f = {.f = {.call = take_shards, .data = b}, .vjp = send_gradients};
    zl_array *in = shards_of(b);
    zl_outputs *out = zl_outputs_new();
    bool done = (in && out) || nn_fail(nn, "zl_trainer_step: out of memory");
    done = done && zl_custom(&f, b->count, in, out);
    for (int i = 0; done && i < b->count; i++)
        parameter_of(b, i)->whole = zl_retain(zl_outputs_get(out, i));
    zl_outputs_free(out);
    free(in);
    return done;
}

// Gathers the bucket's parameters again for the backward pass. Only the derivatives of products use these.
static bool open_again(struct nn_bucket *b, zl_array after) {
    zl_array *in = shards_of(b), *whole = calloc((size_t)b->count, sizeof *whole);
    bool done = in && whole && gather(b, in, after, whole);
    for (int i = 0; done && i < b->count; i++)
        parameter_of(b, i)->again = zl_retain(whole[i]);
    free(whole), free(in);
    return done;
}

zl_array nn_bucket_take(zl_nn nn, struct nn_parameter *p) {
    struct nn_mesh *m = nn->table->mesh;
    if (!m->records)
        return nn_gather(m, p, p->array);
    if (!p->whole && !open_bucket(nn, &m->bucket[p->bucket]))
        return NULL;
    struct nn_bucket *next = next_of(m, p->bucket);
    if (next && !parameter_of(next, 0)->whole && !open_bucket(nn, next))
        return NULL;
    return p->whole;
}

// Recording a step ------------------------------------------------------------------------------------------

static void let_go(zl_array *a) {
    zl_release(*a);
    *a = NULL;
}

void nn_record_begin(struct nn_table *table, const zl_array *in) {
    for (int i = 0; i < table->count; i++)
        table->parameter[i].current = in[i];
    if (table->mesh)
        table->mesh->records = true;
}

void nn_record_end(struct nn_table *table) {
    for (int i = 0; i < table->count; i++) {
        struct nn_parameter *p = &table->parameter[i];
        p->current = NULL;
        let_go(&p->whole);
        let_go(&p->again);
    }
    if (table->mesh) {
        table->mesh->records = false;
        let_go(&table->mesh->progress);
    }
}

// Uses of weights -------------------------------------------------------------------------------------------

static zl_array weight_again(const struct nn_use *u, zl_array cotangent) {
    struct nn_mesh *m = u->table->mesh;
    struct nn_parameter *p = &u->table->parameter[u->index];
    if (!p->again && !open_again(&m->bucket[p->bucket], cotangent))
        return NULL;
    struct nn_bucket *before = p->bucket ? &m->bucket[p->bucket - 1] : NULL;
    if (before && !parameter_of(before, 0)->again && !open_again(before, cotangent))
        return NULL;
    return p->again;
}

// The weight is the first input: derivatives then reach it after everything that x is computed from.
static bool call_use(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct nn_use *u = data;
    return zl_give(out, u->op(in[count - 1], in[0]));
}

// Derives a product at the weight that was gathered again. The value of the product is not used, and so not
// computed.
static bool product_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                        const zl_array *cotangent, zl_outputs *out) {
    struct nn_use *u = data;
    zl_array again[2] = {weight_again(u, cotangent[0]), in[1]}, grad[2];
    (void)result;
    return again[0] &&
           zl_vjp((zl_fn){.call = call_use, .data = u}, count, again, results, cotangent, NULL, grad) &&
           give_all(out, count, grad);
}

struct rows {
    const struct nn_use *use;
    zl_array index;
};

static bool call_rows(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct rows *r = data;
    return zl_give(out, r->use->op(r->index, in[count - 1]));
}

// Derives a look-up of rows, which needs only the shape of the weight.
static bool rows_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                     const zl_array *cotangent, zl_outputs *out) {
    struct rows r = {data, in[1]};
    zl_array zeros = zl_zeros_like(in[0], ZL_DTYPE_COUNT),
             grad[2] = {NULL, zl_zeros_like(in[1], ZL_DTYPE_COUNT)};
    (void)result;
    return zl_vjp((zl_fn){.call = call_rows, .data = &r}, 1, &zeros, results, cotangent, NULL, grad) &&
           give_all(out, count, grad);
}

static zl_array use_apart(struct nn_use *u, bool is_product, bool again, zl_array x, zl_array weight) {
    const zl_custom_fn f = {.f = {.call = call_use, .data = u},
                            .vjp = !is_product ? rows_vjp
                                   : again     ? product_vjp
                                               : NULL};
    zl_scope scope = zl_scope_begin();
    zl_outputs *out = zl_outputs_new();
    zl_array y =
        out && zl_custom(&f, 2, (zl_array[]){weight, x}, out) ? zl_retain(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    zl_array left = zl_scope_leave(scope, y);
    zl_release(y);
    return left;
}

zl_array nn_use_weight(zl_nn nn, const char *name, int which, nn_op op, zl_array x, zl_array weight) {
    struct nn_mesh *m = nn ? nn->table->mesh : NULL;
    if (!m || !m->records || !x || !weight)
        return op(x, weight);
    struct nn_parameter *p = nn_find(nn, name);
    if (!p)
        return NULL;
    p->use[which] = (struct nn_use){nn->table, (int)(p - nn->table->parameter), op};
    // The last bucket is needed again at once, so it is not gathered a second time.
    bool again = p->split[NN_FSDP] >= 0 && next_of(m, p->bucket);
    zl_array y = use_apart(&p->use[which], which == 0, again, x, weight);
    if (y) {
        zl_release(m->progress);
        m->progress = zl_retain(y);
    }
    return y;
}
