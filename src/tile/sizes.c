// sizes.c - computes the bytes of buffers and the blocks of grids, and detects sizes that wrap around.
//
// Sizes are products of numbers from the caller, so any of them may be too large for 64 bits, and a product
// that wrapped around looks like a small one. All sizes that are known before a kernel runs are computed here
// exactly, once per launch, on all targets alike.

#include "tile/syntax.h"

#include <inttypes.h>

bool tile_times(int64_t a, int64_t b, int64_t *out) {
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

// Buffers ---------------------------------------------------------------------------------------------------

static bool too_large(const struct tile_buffer *b, const int64_t *shape, struct text *why) {
    text_add(why, "'%s' of %s[", b->text, tile_type_name(b->type));
    for (int i = 0; i < b->ndim; i++)
        text_add(why, "%s%" PRId64, i ? ", " : "", shape[i]);
    text_add(why, "] has more bytes than 64 bits can count");
    return false;
}

// Counts the elements from the first to the last, gaps included. Strides of arguments may be negative.
static bool count_strided(const struct tile_buffer *b, const int64_t *shape, const int64_t *stride,
                          int64_t *count) {
    *count = 1;
    for (int i = 0; i < b->ndim; i++) {
        int64_t part;
        if (__builtin_mul_overflow(MAX_OF(shape[i], 1) - 1, stride[i], &part) ||
            __builtin_add_overflow(*count, part, count))
            return false;
    }
    return true;
}

// Counts the elements of a row-major buffer. The other sizes have to fit even if one is 0, because strides
// are products of them.
static bool count_dense(const struct tile_buffer *b, const int64_t *shape, int64_t *count) {
    bool is_empty = false;
    *count = 1;
    for (int i = 0; i < b->ndim; i++) {
        is_empty |= shape[i] == 0;
        if (!tile_times(*count, MAX_OF(shape[i], 1), count))
            return false;
    }
    *count = is_empty ? 0 : *count;
    return true;
}

bool tile_span(const struct tile_buffer *b, const int64_t *shape, const int64_t *stride, int64_t *bytes,
               struct text *why) {
    int64_t count, dense;
    for (int i = 0; i < b->ndim; i++)
        if (shape[i] < 0 || (stride && b->parameter < 0 && stride[i] < 0)) {
            const char *what = shape[i] < 0 ? "size" : "stride";
            text_add(why, "the %s of '%s' along axis %d is %" PRId64 ", and %ss%s are 0 or more", what,
                     b->text, i, shape[i] < 0 ? shape[i] : stride[i], what,
                     shape[i] < 0 ? "" : " of a kernel's own memory");
            return false;
        }
    if (!count_dense(b, shape, &dense) || !tile_times(dense, tile_type_bytes(b->type), bytes))
        return too_large(b, shape, why);
    if (!stride)
        return true;
    return (count_strided(b, shape, stride, &count) &&
            tile_times(MAX_OF(count, 0), tile_type_bytes(b->type), bytes)) ||
           too_large(b, shape, why);
}

// At launch -------------------------------------------------------------------------------------------------

static bool is_known_leaf(expr e, bool with_scalars) {
    return e->op == TILE_CONST || e->op == TILE_SYMBOL ||
           (with_scalars && e->op == TILE_SCALAR && e->type.kind == TILE_INT);
}

// Visits each node once. Operands have smaller ids than the expression that they belong to, whose id is the
// size of `seen`.
static bool is_known_node(expr e, bool with_scalars, bool *seen) {
    if (tile_op_is_leaf(e->op))
        return is_known_leaf(e, with_scalars);
    if (e->op == TILE_LOAD || seen[e->id])
        return e->op != TILE_LOAD;
    seen[e->id] = true;
    for (int i = 0; i < tile_operands(e); i++)
        if (!is_known_node(tile_operand(e, i), with_scalars, seen))
            return false;
    return true;
}

static bool is_known(expr e, bool with_scalars) {
    if (tile_op_is_leaf(e->op))
        return is_known_leaf(e, with_scalars);
    bool *seen = memory_zero((size_t)e->id + 1), known = seen && is_known_node(e, with_scalars, seen);
    memory_free(seen);
    return known;
}

bool tile_are_known_at_launch(const expr *list, int count) {
    for (int i = 0; list && i < count; i++)
        if (!is_known(list[i], false))
            return false;
    return true;
}

bool tile_are_known_with_scalars(const expr *list, int count) {
    for (int i = 0; list && i < count; i++)
        if (!is_known(list[i], true))
            return false;
    return true;
}

bool tile_is_known_at_launch(const struct tile_buffer *b) {
    return tile_are_known_at_launch(b->shape, b->ndim) && tile_are_known_at_launch(b->stride, b->ndim);
}

// A buffer or a grid, and the positions of its sizes among the roots of the tape.
struct item {
    const struct tile_stmt *at; // NULL: a parameter
    const struct tile_buffer *buffer;
    // of its sizes, then strides; of those of the buffer that it is a view of, -1: none or unknown
    int first, base;
};

struct tile_sizes {
    const struct tile_kernel *kernel;
    struct tile_tape *tape;
    union tile_value *value;
    int *owner; // by root: its item
    struct item *item;
    expr *root;
    int items, item_cap, roots, root_cap, owner_cap;
    struct lock lock; // one call at a time uses the tape and the values
};

static bool add_roots(struct tile_sizes *s, const expr *list, int count) {
    for (int i = 0; list && i < count; i++) {
        if (!memory_grow(&s->root, &s->root_cap, s->roots + 1, sizeof *s->root) ||
            !memory_grow(&s->owner, &s->owner_cap, s->roots + 1, sizeof *s->owner))
            return false;
        s->owner[s->roots] = s->items;
        s->root[s->roots++] = list[i];
    }
    return true;
}

static struct item *add_item(struct tile_sizes *s, const struct tile_stmt *at, const struct tile_buffer *b) {
    if (!memory_grow(&s->item, &s->item_cap, s->items + 1, sizeof *s->item))
        return NULL;
    s->item[s->items] = (struct item){.at = at, .buffer = b, .first = s->roots, .base = -1};
    return &s->item[s->items];
}

static bool add_buffer(struct tile_sizes *s, const struct tile_stmt *at, const struct tile_buffer *b) {
    if (!tile_is_known_at_launch(b))
        return true;
    struct item *item = add_item(s, at, b);
    if (!item || !add_roots(s, b->shape, b->ndim) || !add_roots(s, b->stride, b->ndim))
        return false;
    if (b->base && tile_is_known_at_launch(b->base)) {
        item->base = s->roots;
        if (!add_roots(s, b->base->shape, b->base->ndim) || !add_roots(s, b->base->stride, b->base->ndim))
            return false;
    }
    s->items++;
    return true;
}

static bool add_grid(struct tile_sizes *s, const struct tile_stmt *at) {
    if (!tile_are_known_at_launch(at->extent, at->indices))
        return true;
    bool added = add_item(s, at, NULL) && add_roots(s, at->extent, at->indices);
    s->items += added;
    return added;
}

static bool add_block(struct tile_sizes *s, const struct tile_stmt *body) {
    for (const struct tile_stmt *at = body; at; at = at->next)
        if ((at->kind == TILE_ALLOC && !add_buffer(s, at, at->buffer)) ||
            (at->kind == TILE_GRID && !add_grid(s, at)) || !add_block(s, at->body) ||
            !add_block(s, at->other))
            return false;
    return true;
}

static bool add_parameters(struct tile_sizes *s) {
    for (int i = 0; i < s->kernel->parameters; i++)
        if (!s->kernel->parameter[i].is_scalar && !add_buffer(s, NULL, s->kernel->parameter[i].buffer))
            return false;
    return true;
}

struct tile_sizes *tile_sizes_open(const struct tile_kernel *kernel) {
    struct tile_sizes *s = memory_zero(sizeof *s);
    if (!s)
        return NULL;
    s->kernel = kernel;
    bool good = add_parameters(s) && add_block(s, kernel->body) && (s->tape = tile_tape(s->roots, s->root)) &&
                (s->value = memory_zero(sizeof *s->value * (size_t)(s->roots + 1)));
    if (good)
        return s;
    tile_sizes_close(s);
    return NULL;
}

void tile_sizes_close(struct tile_sizes *s) {
    if (!s)
        return;
    tile_tape_free(s->tape);
    memory_free(s->value);
    memory_free(s->owner);
    memory_free(s->item);
    memory_free(s->root);
    memory_free(s);
}

// Checking --------------------------------------------------------------------------------------------------

union tile_value tile_symbol_value(void *symbols, expr e, const int64_t *index) {
    const struct tile_symbols *s = symbols;
    (void)index;
    for (int i = 0; i < s->kernel->symbols; i++)
        if (s->kernel->symbol[i] == e->name)
            return (union tile_value){.i = s->value[i]};
    return (union tile_value){.i = 0};
}

static void take(const struct tile_sizes *s, int first, int count, int64_t *out) {
    for (int i = 0; i < count; i++)
        out[i] = s->value[first + i].i;
}

static bool span_of(const struct tile_sizes *s, const struct tile_buffer *b, int first, int64_t *bytes,
                    struct text *why) {
    int64_t shape[TILE_DIMS], stride[TILE_DIMS];
    take(s, first, b->ndim, shape);
    if (b->stride)
        take(s, first + b->ndim, b->ndim, stride);
    return tile_span(b, shape, b->stride ? stride : NULL, bytes, why);
}

static bool check_buffer(const struct tile_sizes *s, const struct item *item, struct text *why) {
    const struct tile_buffer *b = item->buffer;
    int64_t bytes, room;
    if (!span_of(s, b, item->first, &bytes, why))
        return false;
    if (item->base < 0)
        return true;
    if (!span_of(s, b->base, item->base, &room, why))
        return false;
    if (bytes <= room)
        return true;
    text_add(why, "'%s' has %" PRId64 " bytes and '%s', whose memory it is, %" PRId64, b->text, bytes,
             b->base->text, room);
    return false;
}

static bool check_grid(const struct tile_sizes *s, const struct item *item, struct text *why) {
    int64_t blocks = 1;
    for (int i = 0; i < item->at->indices; i++)
        if (!tile_times(blocks, MAX_OF(s->value[item->first + i].i, 0), &blocks)) {
            text_add(why, "it has more blocks than 64 bits can count");
            return false;
        }
    return true;
}

static bool fail_at(const struct tile_kernel *k, const struct tile_stmt *at, struct text *why) {
    if (!why->failed)
        tile_error_at(ZL_ERROR_SHAPE, k->file ? k->file : k->name, k->source,
                      at ? at->place : (struct tile_place){0}, "%s: %s",
                      at ? tile_stmt_name(at->kind) : "kernel", why->data);
    text_free(why);
    return false;
}

static bool fail_wrapped(const struct tile_sizes *s, const int64_t *symbol, int root) {
    const struct item *item = &s->item[s->owner[root]];
    struct text why = {0};
    if (item->buffer)
        text_add(&why, "a size of '%s'", item->buffer->text);
    else
        text_add(&why, "the number of blocks");
    text_add(&why, " does not fit into %d bits", s->root[root]->type.bits);
    for (int i = 0; i < s->kernel->symbols; i++)
        text_add(&why, "%s%s = %" PRId64, i ? ", " : ", with ", s->kernel->symbol[i]->text, symbol[i]);
    return fail_at(s->kernel, item->at, &why);
}

static bool check_items(const struct tile_sizes *s) {
    for (int i = 0; i < s->items; i++) {
        struct text why = {0};
        const struct item *item = &s->item[i];
        if (!(item->buffer ? check_buffer(s, item, &why) : check_grid(s, item, &why)))
            return fail_at(s->kernel, item->at, &why);
    }
    return true;
}

// Checks that symbols fit into 32 bits if the kernel's indices have 32.
static bool check_symbols(const struct tile_kernel *k, const int64_t *value) {
    for (int i = 0; k->index_bits == 32 && i < k->symbols; i++)
        if (value[i] != (int32_t)value[i])
            return error_false(ZL_ERROR_SHAPE, "kernel %s has indices of 32 bits, and %s is %" PRId64,
                               k->name, k->symbol[i]->text, value[i]);
    return true;
}

bool tile_sizes_check(struct tile_sizes *s, const int64_t *symbol) {
    int which = 0;
    if (!check_symbols(s->kernel, symbol))
        return false;
    lock_take(&s->lock);
    bool good = tile_tape_run_exactly(s->tape, tile_symbol_value, &(struct tile_symbols){s->kernel, symbol},
                                      s->value, &which)
                    ? check_items(s)
                    : fail_wrapped(s, symbol, which);
    lock_give(&s->lock);
    return good;
}
