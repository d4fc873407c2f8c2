// build.c - builds kernels: the thread's current kernel, its names and buffers, and hash-consed expressions.
//
// Everything lives in the kernel's arena. The first failure marks the kernel as failed; from then on
// functions return NULL.

#include "tile/tile.h"

#include <string.h>

// `dead` counts nested calls of tile_begin and tile_resume that failed. Nothing is built until each of them
// has had its tile_end or tile_suspend.
static _Thread_local struct {
    struct tile_kernel *kernel;
    int dead;
} current;

// Kernels ---------------------------------------------------------------------------------------------------

static void enter(struct tile_kernel *kernel) {
    if (current.dead || !kernel) {
        current.dead++;
        return;
    }
    kernel->outer = current.kernel;
    current.kernel = kernel;
}

static struct tile_kernel *leave(void) {
    struct tile_kernel *kernel = current.dead ? NULL : current.kernel;
    if (current.dead)
        current.dead--;
    else if (kernel)
        current.kernel = kernel->outer;
    return kernel;
}

struct tile_kernel *tile_begin(const char *name) {
    struct tile_kernel *kernel = current.dead ? NULL : memory_zero(sizeof *kernel);
    enter(kernel);
    if (!kernel)
        return NULL;
    kernel->index_bits = 64;
    kernel->tail = &kernel->body;
    kernel->name = arena_text(&kernel->arena, "%s", name);
    kernel->failed = !kernel->name;
    return kernel;
}

struct tile_kernel *tile_current(void) {
    return current.dead ? NULL : current.kernel;
}

struct tile_kernel *tile_end(void) {
    struct tile_kernel *kernel = leave();
    if (kernel && !kernel->failed && kernel->open) {
        error_set(ZL_ERROR_VALUE, "tile: kernel '%s' ends inside of a statement's body", kernel->name);
        kernel->failed = true;
    }
    if (!kernel || !kernel->failed)
        return kernel;
    tile_free(kernel);
    return NULL;
}

void tile_resume(struct tile_kernel *kernel) {
    enter(kernel);
    if (!tile_current())
        return;
    kernel->tail = &kernel->body;
    while (*kernel->tail)
        kernel->tail = &(*kernel->tail)->next;
}

void tile_suspend(void) {
    leave();
}

void tile_free(struct tile_kernel *kernel) {
    if (!kernel)
        return;
    map_free(&kernel->exprs);
    arena_free(&kernel->arena);
    memory_free(kernel);
}

// Returns the kernel to build into; NULL if there is none or it has failed.
static struct tile_kernel *target(void) {
    struct tile_kernel *kernel = tile_current();
    if (!kernel && !current.dead)
        return error_set(ZL_ERROR_STATE, "tile: no kernel is being built (tile_begin comes first)");
    return kernel && !kernel->failed ? kernel : NULL;
}

static void *give_up(void) {
    if (tile_current())
        tile_current()->failed = true;
    return NULL;
}

static void *reserve(size_t bytes) {
    struct tile_kernel *kernel = target();
    void *data = kernel ? arena_alloc(&kernel->arena, bytes) : NULL;
    return data ? data : give_up();
}

static const char *own_text(const char *text) {
    struct tile_kernel *kernel = target();
    char *copy = kernel ? arena_text(&kernel->arena, "%s", text) : NULL;
    return copy ? copy : give_up();
}

// Copies a list, with room for one more item at its end. Not to be called with a failed kernel.
static void *own_list(const void *items, int count, size_t size) {
    char *copy = reserve((size_t)(count + 1) * size);
    if (copy && count)
        memcpy(copy, items, (size_t)count * size);
    return copy;
}

// Names and buffers -----------------------------------------------------------------------------------------

struct tile_type tile_index_type(void) {
    struct tile_kernel *kernel = tile_current();
    return (struct tile_type){TILE_INT, kernel ? (uint8_t)kernel->index_bits : 64, 1};
}

static struct tile_name *new_name(const char *text, struct tile_type type) {
    struct tile_name *name = reserve(sizeof *name);
    if (!name || !(text = own_text(text)))
        return NULL;
    *name = (struct tile_name){text, type, INT64_MIN, INT64_MAX, 1, tile_current()->names++};
    return name;
}

const struct tile_name *tile_name(const char *text, struct tile_type type) {
    return new_name(text, type);
}

const struct tile_name *tile_index(const char *text, expr extent) {
    if (!extent)
        return give_up();
    struct tile_name *name = new_name(text, tile_index_type());
    if (!name)
        return NULL;
    name->low = 0;
    if (extent->op == TILE_CONST && tile_type_is_integer(extent->type))
        name->high = MAX_OF(tile_value_of(extent->type, extent->bits).i, 0) - 1;
    return name;
}

const struct tile_name *tile_symbol(const char *text, int64_t low, int64_t high, int64_t divisor) {
    struct tile_name *name = new_name(text, tile_index_type());
    struct tile_kernel *kernel = tile_current();
    const struct tile_name **list = name ? own_list(kernel->symbol, kernel->symbols, sizeof *list) : NULL;
    if (!list)
        return NULL;
    name->low = low;
    name->high = high;
    name->divisor = divisor;
    list[kernel->symbols++] = name;
    kernel->symbol = list;
    return name;
}

static bool add_parameter(struct tile_parameter parameter) {
    struct tile_kernel *kernel = tile_current();
    struct tile_parameter *list = own_list(kernel->parameter, kernel->parameters, sizeof *list);
    if (!list)
        return false;
    list[kernel->parameters++] = parameter;
    kernel->parameter = list;
    return true;
}

const struct tile_name *tile_parameter_scalar(const char *text, struct tile_type type) {
    struct tile_name *name = new_name(text, type);
    return name && add_parameter((struct tile_parameter){.is_scalar = true, .scalar = name}) ? name : NULL;
}

static struct tile_buffer *new_buffer(const char *text, struct tile_type type, int ndim, const expr *shape) {
    if (ndim < 0 || ndim > TILE_DIMS) {
        error_set(ZL_ERROR_SHAPE, "tile: buffer '%s' has %d axes; %d are possible", text, ndim, TILE_DIMS);
        return give_up();
    }
    for (int i = 0; i < ndim; i++)
        if (!shape[i])
            return give_up();
    struct tile_buffer *buffer = reserve(sizeof *buffer);
    expr *own_shape = buffer ? own_list(shape, ndim, sizeof *shape) : NULL;
    const char *name = own_shape ? own_text(text) : NULL;
    if (!name)
        return NULL;
    *buffer =
        (struct tile_buffer){.text = name, .type = type, .ndim = ndim, .shape = own_shape, .parameter = -1};
    buffer->id = tile_current()->buffers++;
    return buffer;
}

struct tile_buffer *tile_parameter_buffer(const char *text, struct tile_type type, int ndim,
                                          const expr *shape, bool is_output) {
    struct tile_buffer *buffer = new_buffer(text, type, ndim, shape);
    if (!buffer)
        return NULL;
    buffer->is_output = is_output;
    buffer->parameter = tile_current()->parameters;
    return add_parameter((struct tile_parameter){.buffer = buffer}) ? buffer : NULL;
}

struct tile_buffer *tile_parameter_table(const char *text, struct tile_type type, int ndim,
                                         const expr *shape) {
    struct tile_buffer *table = tile_parameter_buffer(text, type, ndim, shape, false);
    if (table)
        table->memory = TILE_TABLE;
    return table;
}

struct tile_buffer *tile_alloc(const char *text, struct tile_type type, enum tile_memory memory, int ndim,
                               const expr *shape) {
    struct tile_buffer *buffer = new_buffer(text, type, ndim, shape);
    if (!buffer)
        return NULL;
    buffer->memory = memory;
    return tile_append((struct tile_stmt){.kind = TILE_ALLOC, .buffer = buffer}) ? buffer : NULL;
}

struct tile_buffer *tile_view(const char *text, struct tile_type type, const struct tile_buffer *base,
                              int ndim, const expr *shape) {
    struct tile_buffer *buffer = base ? new_buffer(text, type, ndim, shape) : give_up();
    if (!buffer)
        return NULL;
    buffer->memory = base->memory;
    buffer->base = base;
    struct tile_buffer *memory = (struct tile_buffer *)tile_memory_of(base);
    if (memory->memory == TILE_REGISTER && tile_type_bytes(type) > tile_type_bytes(memory->type))
        // By default registers are aligned as their own elements.
        memory->align = MAX_OF(memory->align, tile_type_bytes(type));
    return tile_append((struct tile_stmt){.kind = TILE_ALLOC, .buffer = buffer}) ? buffer : NULL;
}

const struct tile_buffer *tile_memory_of(const struct tile_buffer *buffer) {
    while (buffer->base)
        buffer = buffer->base;
    return buffer;
}

// Expressions -----------------------------------------------------------------------------------------------

// The properties in which equal expressions agree. Keys are compared as bytes, so they are zeroed first.
struct key {
    enum tile_op op;
    struct tile_type type;
    uint64_t bits;
    const void *leaf; // name or buffer
    expr operand[3 + TILE_DIMS];
};

static size_t make_key(struct key *key, const struct tile_expr *e) {
    memset(key, 0, sizeof *key);
    key->op = e->op;
    key->type = e->type;
    key->bits = e->bits;
    key->leaf = e->buffer ? (const void *)e->buffer : e->name;
    for (int i = 0; i < e->args + e->indices; i++)
        key->operand[i] = tile_operand(e, i);
    return offsetof(struct key, operand) + (size_t)(e->args + e->indices) * sizeof(expr);
}

// Returns the node that equals e, and makes it if there is none. e.index may be the caller's memory.
static expr intern(struct tile_expr e) {
    struct tile_kernel *kernel = target();
    if (!kernel)
        return NULL;
    struct key key;
    size_t bytes = make_key(&key, &e);
    expr found = map_get(&kernel->exprs, &key, bytes);
    if (found)
        return found;
    struct tile_expr *node = reserve(sizeof *node);
    expr *index = node && e.indices ? own_list(e.index, e.indices, sizeof *e.index) : NULL;
    if (!node || (e.indices && !index) || !map_set(&kernel->exprs, &key, bytes, node))
        return give_up();
    *node = e;
    node->index = index;
    node->id = kernel->ids++;
    return node;
}

expr tile_const_bits(struct tile_type type, uint64_t bits) {
    uint64_t mask = type.bits >= 64 ? UINT64_MAX : ((uint64_t)1 << type.bits) - 1;
    return intern((struct tile_expr){.op = TILE_CONST, .type = type, .bits = bits & mask});
}

expr tile_number(int64_t value) {
    return tile_const_int(tile_index_type(), value);
}

expr tile_const(struct tile_type type, double value) {
    static const struct tile_type f64 = {TILE_FLOAT, 64, 1};
    union tile_value v = tile_convert(type, f64, (union tile_value){.f = value});
    return tile_const_bits(type, tile_bits_of(type, v));
}

expr tile_const_int(struct tile_type type, int64_t value) {
    static const struct tile_type i64 = {TILE_INT, 64, 1};
    union tile_value v = tile_convert(type, i64, (union tile_value){.i = value});
    return tile_const_bits(type, tile_bits_of(type, v));
}

expr tile_name_value(const struct tile_name *name, enum tile_op op) {
    if (!name)
        return give_up();
    return intern((struct tile_expr){.op = op, .type = name->type, .name = name});
}

static expr operation(enum tile_op op, int args, const expr *arg) {
    struct tile_expr e = {.op = op, .args = args};
    for (int i = 0; i < args; i++)
        if (!(e.arg[i] = arg[i]))
            return give_up();
    if (!target())
        return NULL;
    if (tile_op_arity(op) != args)
        error_set(ZL_ERROR_VALUE, "tile: %s takes %d operands, not %d", tile_op_name(op), tile_op_arity(op),
                  args);
    else if (tile_op_type(op, arg, &e.type))
        return intern(e);
    return give_up();
}

expr tile_unary(enum tile_op op, expr x) {
    return operation(op, 1, &x);
}
expr tile_binary(enum tile_op op, expr a, expr b) {
    return operation(op, 2, (expr[]){a, b});
}
expr tile_ternary(enum tile_op op, expr a, expr b, expr c) {
    return operation(op, 3, (expr[]){a, b, c});
}

static expr conversion(enum tile_op op, struct tile_type type, expr x) {
    return intern((struct tile_expr){.op = op, .type = type, .args = 1, .arg = {x}});
}

expr tile_cast(struct tile_type type, expr x) {
    if (!x)
        return give_up();
    if (tile_type_equal(type, x->type))
        return x;
    if (type.lanes == x->type.lanes)
        return conversion(TILE_CAST, type, x);
    error_set(ZL_ERROR_DTYPE, "tile: cast of %s to %s", tile_type_name(x->type), tile_type_name(type));
    return give_up();
}

expr tile_bitcast(struct tile_type type, expr x) {
    if (!x)
        return give_up();
    if (tile_type_equal(type, x->type))
        return x;
    if (type.bits == x->type.bits && type.lanes == x->type.lanes)
        return conversion(TILE_BITCAST, type, x);
    error_set(ZL_ERROR_DTYPE, "tile: the bits of %s as %s", tile_type_name(x->type), tile_type_name(type));
    return give_up();
}

static bool check_load(const struct tile_buffer *buffer, int indices, const expr *index, expr mask,
                       expr other) {
    if (indices != buffer->ndim)
        return error_false(ZL_ERROR_SHAPE, "tile: buffer '%s' has %d axes and %d indices", buffer->text,
                           buffer->ndim, indices);
    for (int i = 0; i < indices; i++)
        if (!index[i])
            return false;
        else if (!tile_type_is_integer(index[i]->type))
            return error_false(ZL_ERROR_DTYPE, "tile: an index of '%s' is %s, not an integer", buffer->text,
                               tile_type_name(index[i]->type));
    if (mask && !tile_type_is_bool(mask->type))
        return error_false(ZL_ERROR_DTYPE, "tile: the mask of a load of '%s' is %s, not bool", buffer->text,
                           tile_type_name(mask->type));
    if (other && !tile_type_equal(other->type, buffer->type))
        return error_false(ZL_ERROR_DTYPE, "tile: a load of '%s' gives %s, and %s where masked", buffer->text,
                           tile_type_name(buffer->type), tile_type_name(other->type));
    return true;
}

expr tile_load(const struct tile_buffer *buffer, int indices, const expr *index, expr mask, expr other) {
    if (!buffer || !target() || !check_load(buffer, indices, index, mask, mask ? other : NULL))
        return give_up();
    struct tile_expr e = {.op = TILE_LOAD, .type = buffer->type, .buffer = buffer, .indices = indices};
    e.index = (expr *)index; // copied by intern
    if (mask) {
        e.args = 2;
        e.arg[0] = mask;
        e.arg[1] = other ? other : tile_const_int(buffer->type, 0);
    }
    return intern(e);
}

expr tile_address_of(const struct tile_buffer *buffer) {
    if (!buffer || !target())
        return give_up();
    return intern((struct tile_expr){.op = TILE_ADDRESS, .type = {TILE_INT, 64, 1}, .buffer = buffer});
}

int tile_operands(expr e) {
    return e->args + e->indices;
}
expr tile_operand(expr e, int at) {
    return at < e->args ? e->arg[at] : e->index[at - e->args];
}

expr tile_rebuild(expr old, const expr *operands) {
    if (!old)
        return give_up();
    if (old->op == TILE_CAST)
        return tile_cast(old->type, operands[0]);
    if (old->op == TILE_BITCAST)
        return tile_bitcast(old->type, operands[0]);
    if (old->op == TILE_LOAD && old->args)
        return tile_load(old->buffer, old->indices, operands + 2, operands[0], operands[1]);
    if (old->op == TILE_LOAD)
        return tile_load(old->buffer, old->indices, operands, NULL, NULL);
    if (!tile_op_is_leaf(old->op))
        return operation(old->op, old->args, operands);
    struct tile_expr leaf = *old;
    return intern(leaf);
}
