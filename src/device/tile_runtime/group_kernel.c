// group_kernel.c - computes the sizes of a call of a kernel that runs as workgroups.

#include "device/tile_runtime/group_kernel.h"

#include <string.h>

// Expressions -----------------------------------------------------------------------------------------------

// Sizes are computed in 64 bits, whatever the kernel's indices have.
static const struct tile_type i64 = {TILE_INT, 64, 1};

static expr number(int64_t value) {
    return tile_const_int(i64, value);
}

static expr as_index(expr e) {
    return tile_cast(i64, e);
}

// Returns the size of a buffer in bytes, from its first element to its last if it has strides.
static expr bytes_of(const struct tile_buffer *b) {
    expr count = number(1);
    for (int i = 0; i < b->ndim; i++) {
        expr size = as_index(b->shape[i]);
        if (b->stride)
            count = tile_binary(
                TILE_ADD, count,
                tile_binary(TILE_MUL,
                            tile_binary(TILE_SUB, tile_binary(TILE_MAX, size, number(1)), number(1)),
                            as_index(b->stride[i])));
        else
            count = tile_binary(TILE_MUL, count, size);
    }
    return tile_binary(TILE_MUL, count, number(tile_type_bytes(b->type)));
}

static expr groups_of(const struct render_launch *l) {
    expr count = NULL;
    for (int i = 0; i < l->axes; i++) {
        expr blocks = tile_binary(TILE_MAX, as_index(l->blocks[i]), number(0));
        count = count ? tile_binary(TILE_MUL, count, blocks) : blocks;
    }
    return count ? count : number(1);
}

static bool is_room(const struct tile_stmt *s) {
    return s->kind == TILE_ALLOC && !s->buffer->base;
}

static void list_bytes(const struct group_kernel *g, expr *root) {
    for (int i = 0; i < g->parameters; i++) {
        const struct tile_parameter *p = &g->kernel->parameter[i];
        *root++ = p->is_scalar ? number(tile_type_bytes(p->scalar->type)) : bytes_of(p->buffer);
    }
}

static void list_launches(const struct group_kernel *g, expr *root) {
    for (const struct tile_stmt *s = g->kernel->body; s; s = s->next)
        if (is_room(s))
            *root++ = bytes_of(s->buffer);
    for (int i = 0; i < g->launches; i++)
        *root++ = groups_of(&g->launch[i]);
}

static struct tile_tape *make_tape(const struct group_kernel *g, int count,
                                   void (*list)(const struct group_kernel *, expr *)) {
    expr *root = memory_zero(sizeof *root * (size_t)(count + 1));
    if (!root)
        return NULL;
    tile_resume((struct tile_kernel *)g->kernel);
    list(g, root);
    tile_suspend();
    struct tile_tape *tape = g->kernel->failed ? NULL : tile_tape(count, root);
    memory_free(root);
    if (tape && tile_tape_bind(tape, g->kernel))
        return tape;
    tile_tape_free(tape);
    return NULL;
}

bool device_group_kernel_open(struct group_kernel *g, const struct tile_kernel *kernel) {
    *g = (struct group_kernel){
        .kernel = kernel, .parameters = kernel->parameters, .has_status = render_has_status(kernel)};
    for (const struct tile_stmt *s = kernel->body; s; s = s->next) {
        if (is_room(s) && !tile_is_known_at_launch(s->buffer))
            return error_false(
                ZL_ERROR_COMPILE,
                "kernel %s, line %d: the size of '%s', which is outside of grids, follows from the "
                "sizes of arguments",
                kernel->name, s->place.line, s->buffer->text);
        g->rooms += is_room(s);
    }
    g->launches = render_launches(kernel, NULL, 0);
    g->launch = memory_zero(sizeof *g->launch * (size_t)(g->launches + 1));
    if (!g->launch)
        return false;
    render_launches(kernel, g->launch, g->launches);
    for (int i = 0; i < g->launches; i++) {
        const struct render_launch *l = &g->launch[i];
        if (!tile_are_known_with_scalars(l->blocks, l->axes))
            return error_false(
                ZL_ERROR_COMPILE,
                "kernel %s: the number of blocks of a grid follows from sizes of arguments and "
                "from integers that are passed by value on this target, and from nothing else",
                kernel->name);
        g->reads_scalars |= !tile_are_known_at_launch(l->blocks, l->axes);
    }
    return (g->bytes = make_tape(g, g->parameters, list_bytes)) &&
           (g->sizes = make_tape(g, g->rooms + g->launches, list_launches));
}

void device_group_kernel_close(struct group_kernel *g) {
    tile_tape_free(g->bytes);
    tile_tape_free(g->sizes);
    memory_free(g->launch);
    *g = (struct group_kernel){0};
}

// Calls -----------------------------------------------------------------------------------------------------

bool device_group_sizes_fail(const char *kernel) {
    return error_false(ZL_ERROR_SHAPE,
                       "kernel %s: the size of a buffer or grid is negative, or does not fit into 64 bits",
                       kernel);
}

static int64_t read_integer(const void *address, struct tile_type type) {
    int64_t value = 0;
    memcpy(&value, address, (size_t)tile_type_bytes(type));
    return type.bits == 64 ? value : (int64_t)((uint64_t)value << (64 - type.bits)) >> (64 - type.bits);
}

// Returns the values that sizes are computed from: symbols, then parameters, of which only integers passed by
// value matter. NULL and an error. The caller frees it.
static int64_t *list_given(const struct group_kernel *g, const int64_t *symbol, void *const *address) {
    const struct tile_kernel *k = g->kernel;
    int64_t *given = memory_zero(sizeof *given * (size_t)(k->symbols + k->parameters + 1));
    for (int i = 0; given && i < k->symbols; i++)
        given[i] = symbol[i];
    for (int i = 0; given && i < k->parameters; i++)
        if (k->parameter[i].is_scalar && k->parameter[i].scalar->type.kind == TILE_INT)
            given[k->symbols + i] = read_integer(address[i], k->parameter[i].scalar->type);
    return given;
}

bool device_group_sizes_open(struct group_sizes *s, const struct group_kernel *g, const int64_t *symbol,
                             void *const *address) {
    int64_t *given = g->reads_scalars ? list_given(g, symbol, address) : NULL;
    s->bytes = memory_zero(sizeof *s->bytes * (size_t)(g->parameters + g->rooms + g->launches + 1));
    bool good = s->bytes && (given || !g->reads_scalars);
    if (good) {
        s->room = s->bytes + g->parameters;
        s->groups = s->room + g->rooms;
        good = (tile_tape_sizes(g->bytes, symbol, s->bytes) &&
                tile_tape_sizes(g->sizes, given ? given : symbol, s->room)) ||
               device_group_sizes_fail(g->kernel->name);
    }
    memory_free(given);
    return good;
}

void device_group_sizes_close(struct group_sizes *s) {
    memory_free(s->bytes);
}

int64_t device_group_sizes_most(const struct group_sizes *s, const struct group_kernel *g) {
    int64_t most = 0;
    for (int i = 0; i < g->parameters; i++)
        most = MAX_OF(most, s->bytes[i]);
    for (int i = 0; i < g->rooms; i++)
        most = MAX_OF(most, s->room[i]);
    return most;
}

static const char *find_message(const struct tile_stmt *s, int line) {
    for (; s; s = s->next) {
        const char *found = s->kind == TILE_ASSERT && MAX_OF(s->place.line, 1) == line ? s->message : NULL;
        found = found ? found : find_message(s->body, line);
        found = found ? found : find_message(s->other, line);
        if (found)
            return found;
    }
    return NULL;
}

bool device_group_kernel_fail(const struct group_kernel *g, int line) {
    const char *message = find_message(g->kernel->body, line);
    return error_false(ZL_ERROR_VALUE, "kernel %s, line %d: %s", g->kernel->name, line,
                       message ? message : "an assertion does not hold");
}

// Calls -----------------------------------------------------------------------------------------------------

bool device_group_call_is_value(const struct group_call *k, int parameter) {
    return tile_is_by_value(&k->group->kernel->parameter[parameter]);
}

static bool make_memory(struct group_call *k) {
    const struct group_kernel *g = k->group;
    int32_t status = 0;
    for (int i = 0; i < g->parameters; i++)
        if (!device_group_call_is_value(k, i) &&
            (!(k->memory[i] = k->use->alloc(k->device, (size_t)k->sizes.bytes[i])) ||
             !k->use->write(k->device, k->memory[i], k->address[i], (size_t)k->sizes.bytes[i])))
            return false;
    for (int i = 0; i < g->rooms; i++)
        if (!(k->memory[g->parameters + i] = k->use->alloc(k->device, (size_t)k->sizes.room[i])))
            return false;
    void **last = &k->memory[g->parameters + g->rooms];
    return !g->has_status || ((*last = k->use->alloc(k->device, sizeof status)) &&
                              k->use->write(k->device, *last, &status, sizeof status));
}

bool device_group_call_open(struct group_call *k) {
    k->memory = memory_zero(sizeof *k->memory * (size_t)(k->group->parameters + k->group->rooms + 1));
    return k->memory && device_group_sizes_open(&k->sizes, k->group, k->symbol, k->address) && make_memory(k);
}

bool device_group_call_read(const struct group_call *k) {
    const struct group_kernel *g = k->group;
    int32_t status = 0;
    for (int i = 0; i < g->parameters; i++)
        if (!device_group_call_is_value(k, i) && g->kernel->parameter[i].buffer->is_output &&
            !k->use->read(k->device, k->address[i], k->memory[i], (size_t)k->sizes.bytes[i]))
            return false;
    if (g->has_status &&
        !k->use->read(k->device, &status, k->memory[g->parameters + g->rooms], sizeof status))
        return false;
    return !status || device_group_kernel_fail(g, status);
}

void device_group_call_close(struct group_call *k, bool is_done) {
    for (int i = 0; k->memory && is_done && i <= k->group->parameters + k->group->rooms; i++)
        if (k->memory[i])
            k->use->free(k->device, k->memory[i]);
    memory_free(k->memory);
    device_group_sizes_close(&k->sizes);
}
