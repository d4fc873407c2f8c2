// nn_table.c - the table of a model's parameters: names, arrays, places, and initial values.

#include "nn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };

bool nn_fail(zl_nn nn, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!*nn->table->error)
        vsnprintf(nn->table->error, sizeof nn->table->error, format, args);
    va_end(args);
    return false;
}

const char *zl_nn_error(zl_nn nn) {
    return nn && *nn->table->error ? nn->table->error : zl_error();
}

static zl_nn new_place(struct nn_table *table, const char *prefix) {
    zl_nn place = malloc(sizeof *place + strlen(prefix) + 1);
    if (!place)
        return NULL;
    *place = (struct zl_nn_){.table = table, .next = table->places};
    strcpy(place->prefix, prefix);
    return table->places = place;
}

zl_nn zl_nn_new(int64_t seed) {
    struct nn_table *table = calloc(1, sizeof *table);
    zl_nn nn = table ? new_place(table, "") : NULL;
    if (!nn)
        free(table);
    else
        table->seed = seed, table->dtype = ZL_FLOAT32;
    return nn;
}

void zl_nn_free(zl_nn nn) {
    struct nn_table *table = nn ? nn->table : NULL;
    if (!table)
        return;
    for (int i = 0; i < table->count; i++) {
        zl_release(table->parameter[i].array);
        free(table->parameter[i].name);
    }
    nn_mesh_free(table->mesh);
    for (zl_nn place = table->places, next; place; place = next) {
        next = place->next;
        free(place);
    }
    free(table->parameter);
    free(table);
}

bool nn_full_name(zl_nn nn, const char *name, const char *end, char *out, size_t bytes) {
    int length = snprintf(out, bytes, "%s%s%s", nn->prefix, name, end);
    return length < (int)bytes ||
           nn_fail(nn, "zl_nn: the name %.64s... has %d bytes; at most %d are possible", out, length,
                   (int)bytes - 1);
}

zl_nn zl_nn_at(zl_nn nn, const char *format, ...) {
    char name[NAME_BYTES], prefix[NAME_BYTES];
    if (!nn)
        return NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (!nn_full_name(nn, name, ".", prefix, sizeof prefix))
        return NULL;
    for (zl_nn place = nn->table->places; place; place = place->next)
        if (!strcmp(place->prefix, prefix))
            return place;
    zl_nn place = new_place(nn->table, prefix);
    if (!place)
        nn_fail(nn, "zl_nn_at: out of memory");
    return place;
}

// Parameters ------------------------------------------------------------------------------------------------

static struct nn_parameter *find(struct nn_table *table, const char *name) {
    for (int i = 0; i < table->count; i++) {
        int at = (table->next + i) % table->count;
        if (!strcmp(table->parameter[at].name, name)) {
            table->next = at + 1;
            return &table->parameter[at];
        }
    }
    return NULL;
}

struct nn_parameter *nn_find(zl_nn nn, const char *name) {
    char full[NAME_BYTES];
    return nn_full_name(nn, name, "", full, sizeof full) ? find(nn->table, full) : NULL;
}

struct nn_parameter *nn_add(zl_nn nn, const char *name, zl_shape shape, zl_array array) {
    struct nn_table *table = nn->table;
    if (shape.ndim > NN_DIMS_MOST) {
        nn_fail(nn, "zl_nn_parameter: %s has %d axes: at most %d are possible", name, shape.ndim,
                NN_DIMS_MOST);
        return NULL;
    }
    if (table->count == table->cap) {
        int cap = table->cap ? 2 * table->cap : 16;
        struct nn_parameter *larger = realloc(table->parameter, (size_t)cap * sizeof *larger);
        if (larger)
            table->parameter = larger, table->cap = cap;
    }
    char *copy = table->count < table->cap ? malloc(strlen(name) + 1) : NULL;
    if (!copy) {
        nn_fail(nn, "zl_nn_parameter: out of memory");
        return NULL;
    }
    strcpy(copy, name);
    struct nn_parameter *p = &table->parameter[table->count];
    *p = (struct nn_parameter){.name = copy, .ndim = shape.ndim};
    for (int i = 0; i < shape.ndim; i++)
        p->dim[i] = shape.dim[i];
    if (!nn_place_parameter(nn, p)) {
        free(copy);
        return NULL;
    }
    p->array = zl_retain(array);
    table->count++;
    return p;
}

// Returns the key for the next parameter: different seeds and indices give different random numbers
// (splitmix64).
static zl_array key_of(const struct nn_table *table) {
    uint64_t x = (uint64_t)table->seed * 0x9e3779b97f4a7c15u + (uint64_t)table->count;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return zl_random_key((int64_t)((x ^ x >> 31) >> 1));
}

// Makes a parameter. Every rank draws it whole and keeps its shard, so that it starts with the same values on
// all meshes.
static struct nn_parameter *make(zl_nn nn, const char *name, zl_shape shape, const zl_nn_init *init) {
    struct nn_parameter *p = nn_add(nn, name, shape, NULL);
    if (!p)
        return NULL;
    nn->table->count--; // the key depends on the number of parameters before it
    bool done = false;
    ZL_SCOPE {
        zl_array x = zl_broadcast_to(zl_full(ZL_SCALAR, zl_scalar(init->mean), ZL_FLOAT32), shape);
        if (init->deviation > 0)
            x = zl_add(x, zl_multiply(zl_scalar(init->deviation),
                                      zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, key_of(nn->table))));
        if (init->spread > 0)
            x = zl_add(x, zl_random_uniform(zl_scalar(-init->spread), zl_scalar(init->spread), shape,
                                            ZL_FLOAT32, key_of(nn->table)));
        x = zl_contiguous(nn_shard_of(nn->table->mesh, p, zl_astype(x, nn->table->dtype)), false);
        done = zl_eval(x) && (p->array = zl_retain(x));
    }
    if (!done) {
        free(p->name);
        return NULL;
    }
    nn->table->count++;
    return p;
}

bool zl_nn_set_dtype(zl_nn nn, zl_dtype dtype) {
    if (!nn || nn->table->count)
        return nn && nn_fail(nn, "zl_nn_set_dtype: there are %d parameters already", nn->table->count);
    if (dtype != ZL_FLOAT32 && dtype != ZL_FLOAT64)
        return nn_fail(nn, "zl_nn_set_dtype: parameters are float32 or float64, not %s",
                       zl_dtype_name(dtype));
    nn->table->dtype = dtype;
    return true;
}

// Writes a shape as text, for messages.
void nn_print_shape(char *out, size_t bytes, zl_shape shape) {
    size_t at = (size_t)snprintf(out, bytes, "(");
    for (int i = 0; i < shape.ndim && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, i ? ", %lld" : "%lld", (long long)shape.dim[i]);
    if (at < bytes)
        snprintf(out + at, bytes - at, ")");
}

static bool same_shape(zl_shape a, zl_shape b) {
    return a.ndim == b.ndim && !memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim);
}

static bool check_shape(zl_nn nn, const char *function, const struct nn_parameter *p, zl_shape shape,
                        zl_shape wanted) {
    char has[64], needs[64];
    if (same_shape(shape, wanted))
        return true;
    nn_print_shape(has, sizeof has, shape);
    nn_print_shape(needs, sizeof needs, wanted);
    return nn_fail(nn, "%s: %s is %s, and %s is asked for", function, p->name, has, needs);
}

zl_array zl_nn_parameter(zl_nn nn, const char *name, zl_shape shape, zl_nn_init init) {
    char full[NAME_BYTES];
    if (!nn || !nn_full_name(nn, name, "", full, sizeof full))
        return NULL;
    struct nn_parameter *p = find(nn->table, full);
    if (!p && nn->table->closed) {
        nn_fail(nn, "zl_nn_parameter: no %s is among the %d parameters there are", full, nn->table->count);
        return NULL;
    }
    if (!p && (p = make(nn, full, shape, &init)))
        nn->table->next = nn->table->count;
    if (!p || !check_shape(nn, "zl_nn_parameter", p, (zl_shape){p->dim, p->ndim}, shape))
        return NULL;
    if (!p->used)
        p->kind = init.kind;
    p->used = true;
    if (nn->table->mesh)
        return nn_bucket_take(nn, p);
    return p->current ? p->current : p->array;
}

int zl_nn_count(zl_nn nn) {
    return nn ? nn->table->count : 0;
}

static struct nn_parameter *at(zl_nn nn, int index) {
    return nn && index >= 0 && index < nn->table->count ? &nn->table->parameter[index] : NULL;
}

const char *zl_nn_name(zl_nn nn, int index) {
    return at(nn, index) ? at(nn, index)->name : NULL;
}

zl_array zl_nn_array(zl_nn nn, int index) {
    return at(nn, index) ? at(nn, index)->array : NULL;
}

zl_nn_kind zl_nn_kind_of(zl_nn nn, int index) {
    return at(nn, index) ? at(nn, index)->kind : ZL_NN_VECTOR;
}

bool zl_nn_assign(zl_nn nn, int index, zl_array value) {
    struct nn_parameter *p = at(nn, index);
    if (!p || !value)
        return false;
    if (!check_shape(nn, "zl_nn_assign", p, zl_shape_of(p->array), zl_shape_of(value)))
        return false;
    if (zl_dtype_of(value) != zl_dtype_of(p->array))
        return nn_fail(nn, "zl_nn_assign: %s is %s, and %s is given", p->name,
                       zl_dtype_name(zl_dtype_of(p->array)), zl_dtype_name(zl_dtype_of(value)));
    return zl_assign(&p->array, value);
}

int64_t zl_nn_elements(zl_nn nn) {
    int64_t sum = 0;
    for (int i = 0; i < zl_nn_count(nn); i++) {
        int64_t size = 1;
        for (int k = 0; k < nn->table->parameter[i].ndim; k++)
            size *= nn->table->parameter[i].dim[k];
        sum += size;
    }
    return sum;
}
