// halves.c - replaces each number of 64 bits by two of 32 bits, for targets whose commands take no wider
// ones: integers and f64 become two words of u32, complex numbers two floats.
//
// A tile of such numbers becomes two tiles; device memory, and memory that views of other types use too, gets
// one more axis of two elements. A *place* is an integer that indices or bounds are computed from. Places
// keep their type: a map computes them from lower words, with their sign, and the control program from whole
// elements.

#include "pass/halves.h"

#include <stdio.h>
#include <string.h>

static const struct tile_type u32 = {TILE_UINT, 32, 1}, f32 = {TILE_FLOAT, 32, 1}, i64 = {TILE_INT, 64, 1},
                              u64 = {TILE_UINT, 64, 1};

// The replacement of a buffer of such numbers: two tiles, or one buffer whose last axis has both halves.
struct halves_buffer {
    const struct tile_buffer *half[2], *pairs;
};

struct halves_memo {
    int words_in, narrow_in, place_in; // the number of the statement for which each is known
    struct half_words words;
    expr narrow, place;
};

struct halves {
    struct halves_buffer *of;           // by id of the buffer
    bool *is_shared;                    // by id of the memory: it has views of several types
    const struct tile_name *(*name)[2]; // by id of the name: the two variables that replace it
    int buffers, names;
    struct halves_memo *memo; // by id of the expression
    int cap, statement;
    int maps; // around the current statement
    bool failed;
};

static struct halves_memo *memo_of(struct halves *h, expr e) {
    if (e->id >= h->cap) {
        int old = h->cap;
        if (!memory_grow(&h->memo, &h->cap, e->id + 1, sizeof *h->memo))
            return NULL;
        memset(h->memo + old, 0, (size_t)(h->cap - old) * sizeof *h->memo);
    }
    return &h->memo[e->id];
}

static void *fail(struct halves *h, expr e) {
    h->failed = true;
    tile_current()->failed = true;
    return error_set(ZL_ERROR_COMPILE, "kernel %s: the target has no commands for %s of %s",
                     tile_current()->name, tile_op_name(e->op), tile_type_name(e->type));
}

static bool is_whole(struct tile_type type) { // it has two words
    return halves_is_wide(type) && !tile_type_is_complex(type);
}

static bool is_wide_integer(struct tile_type type) {
    return halves_is_wide(type) && tile_type_is_integer(type);
}

static bool is_f64(struct tile_type type) {
    return halves_is_wide(type) && type.kind == TILE_FLOAT;
}

static struct tile_type half_type(struct tile_type type) {
    return tile_type_is_complex(type) ? f32 : u32;
}

// What needs both words -------------------------------------------------------------------------------------

static bool is_split(const struct halves *h, const struct tile_name *name) {
    return name && name->id < h->names && h->name[name->id][0];
}

static bool is_source(expr e, const void *data) {
    bool is_float = e->op == TILE_CAST && is_wide_integer(e->type) && tile_type_is_float(e->arg[0]->type);
    return e->op == TILE_LOAD || is_float || e->op == TILE_SHL ||
           (e->op == TILE_BITCAST && is_whole(e->type)) || (e->op == TILE_LOCAL && is_split(data, e->name));
}

static bool is_split_local(expr e, const void *data) {
    return e->op == TILE_LOCAL && is_split(data, e->name);
}

static bool is_open(expr e, const void *data) { // it may be any number of 64 bits, and is no place
    bool is_any = e->op == TILE_LOCAL && e->name->high == INT64_MAX;
    return is_source(e, data) || is_any || e->op == TILE_SCALAR;
}

static bool is_wide_load(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD && halves_is_wide(e->type);
}

static bool fits(expr e) {
    struct pass_range r = pass_certain_range(e);
    return r.low >= INT32_MIN && r.high <= INT32_MAX && !pass_any(e, is_wide_load, NULL);
}

// Returns whether an operand, of an op with a narrower result, may need more than 32 bits, unlike a place.
static bool needs_words(const struct halves *h, expr e, bool is_compared) {
    if (is_f64(e->type))
        return true;
    return is_wide_integer(e->type) && pass_any(e, is_compared ? is_source : is_open, h) && !fits(e);
}

// Expressions -----------------------------------------------------------------------------------------------

static struct half_words words_of(struct halves *h, expr e);
static expr narrow_of(struct halves *h, expr e);
static expr place_of(struct halves *h, expr e);

static expr place_in(void *data, expr e) {
    return place_of(data, e);
}

static expr any_of(struct halves *h, expr e) {
    return is_wide_integer(e->type) ? place_of(h, e) : is_f64(e->type) ? e : narrow_of(h, e);
}

static expr any_in(void *data, expr e) {
    return any_of(data, e);
}

// Loads one half of an element.
static expr load_half(struct halves *h, expr e, int half) {
    const struct halves_buffer *of = &h->of[e->buffer->id];
    expr index[TILE_DIMS], mask = NULL, other = NULL;
    for (int i = 0; i < e->indices; i++)
        if (!(index[i] = place_of(h, e->index[i])))
            return NULL;
    if (e->args) {
        mask = narrow_of(h, e->arg[0]);
        if (tile_type_is_complex(e->type)) {
            other = narrow_of(h, e->arg[1]);
            other = other ? tile_unary(half ? TILE_IM : TILE_RE, other) : NULL;
        } else {
            struct half_words w = words_of(h, e->arg[1]);
            other = half ? w.high : w.low;
        }
    }
    if (of->half[half])
        return tile_load(of->half[half], e->indices, index, mask, other);
    if (e->indices < TILE_DIMS)
        index[e->indices] = box_number(half);
    return of->pairs ? tile_load(of->pairs, e->indices + 1, index, mask, other) : NULL;
}

static struct half_words load_words(struct halves *h, expr e) {
    return (struct half_words){load_half(h, e, 0), load_half(h, e, 1)};
}

static struct half_words local_words(struct halves *h, expr e) {
    const struct tile_name *const *name = h->name[e->name->id];
    return (struct half_words){box_local_value(name[0]), box_local_value(name[1])};
}

// Returns the words of a number of the control program, or of a place.
static struct half_words words_of_place(struct halves *h, expr e) {
    expr x = place_of(h, e), low = x ? tile_cast(u32, x) : NULL;
    if (x && e->op == TILE_INDEX)
        return (struct half_words){low, U32(0)};
    return (struct half_words){low, x ? tile_cast(u32, SHR(x, tile_const_int(x->type, 32))) : NULL};
}

// Returns the words of a number that fits into 32 bits.
static struct half_words words_of_small(struct halves *h, expr e) {
    expr x = place_of(h, e), low = x ? TO_I32(x) : NULL;
    return (struct half_words){AS_U32(low),
                               pass_certain_range(e).low >= 0 ? U32(0) : AS_U32(SHR(low, I32(31)))};
}

static struct half_words words_of_cast(struct halves *h, expr e) {
    expr x = e->arg[0];
    if (is_f64(e->type)) {
        if (is_wide_integer(x->type))
            return words_of(h, halves_float_from_integer(x));
        if (tile_type_is_complex(x->type))
            return words_of(h, tile_cast(e->type, RE(x)));
        if (tile_type_is_float(x->type))
            return words_of(h, halves_float_from_f32(TO_F32(x)));
        return words_of(h, tile_cast(e->type, tile_cast(i64, x)));
    }
    if (is_f64(x->type))
        return words_of(h, halves_float_to_integer(e->type, x));
    if (is_wide_integer(x->type))
        return words_of(h, x);
    if (tile_type_is_complex(x->type))
        return words_of(h, tile_cast(e->type, RE(x)));
    expr narrow = narrow_of(h, x);
    if (!narrow)
        return (struct half_words){NULL, NULL};
    return tile_type_is_float(x->type) ? halves_from_f32(e->type, TO_F32(narrow))
                                       : halves_from_narrow(narrow);
}

static struct half_words words_of_float(struct halves *h, expr e) {
    expr formula = halves_float(e->op, e->arg[0], e->arg[1]);
    if (!formula && e->op == TILE_FLOORDIV)
        formula = FLOOR(DIV(e->arg[0], e->arg[1]));
    if (!formula)
        formula = tile_lower(e->op, e->arg[0], e->arg[1], e->arg[2]);
    if (!formula)
        fail(h, e);
    return formula ? words_of(h, formula) : (struct half_words){NULL, NULL};
}

static struct half_words words_of_integer(struct halves *h, expr e) {
    struct half_words a = words_of(h, e->arg[0]), b = {NULL, NULL};
    if (e->args > 1)
        b = words_of(h, e->arg[1]);
    struct half_words found = {NULL, NULL};
    if (a.low && a.high && (e->args < 2 || (b.low && b.high)))
        found = halves_integer(e->op, e->type, a, b);
    if (found.low || tile_current()->failed)
        return found;
    expr formula = tile_lower(e->op, e->arg[0], e->arg[1], e->arg[2]);
    if (!formula)
        fail(h, e);
    return formula ? words_of(h, formula) : found;
}

static struct half_words make_words(struct halves *h, expr e) {
    if (e->op == TILE_CONST)
        return halves_of_bits(e->bits);
    if (e->op == TILE_LOAD)
        return load_words(h, e);
    if (e->op == TILE_LOCAL && is_split(h, e->name))
        return local_words(h, e);
    if (tile_op_is_leaf(e->op) && is_f64(e->type))
        return words_of_place(h, tile_bitcast(u64, e));
    if (tile_op_is_leaf(e->op) || (!h->maps && is_wide_integer(e->type)))
        return words_of_place(h, e);
    if (e->op == TILE_BITCAST)
        return words_of(h, e->arg[0]);
    if (e->op == TILE_SELECT || e->op == TILE_RARE) {
        struct half_words a = words_of(h, e->arg[1]), b = words_of(h, e->arg[2]);
        return halves_select(narrow_of(h, e->arg[0]), a, b);
    }
    if (is_wide_integer(e->type) && fits(e) && !pass_any(e, is_split_local, h))
        return words_of_small(h, e);
    if (e->op == TILE_CAST)
        return words_of_cast(h, e);
    return is_f64(e->type) ? words_of_float(h, e) : words_of_integer(h, e);
}

// Returns both words of a number of 64 bits.
static struct half_words words_of(struct halves *h, expr e) {
    struct halves_memo *memo = e && !tile_current()->failed ? memo_of(h, e) : NULL;
    if (!memo)
        return (struct half_words){NULL, NULL};
    if (memo->words_in == h->statement)
        return memo->words;
    struct half_words made = make_words(h, e);
    if (!(memo = memo_of(h, e)))
        return (struct half_words){NULL, NULL};
    memo->words = made;
    memo->words_in = h->statement;
    return made;
}

// Returns a comparison, or a conversion to a narrower type, computed from words.
static expr from_words(struct halves *h, expr e) {
    expr x = e->arg[0];
    struct tile_type type = x->type;
    if (e->op != TILE_CAST && is_f64(type)) {
        expr formula = halves_float(e->op, x, e->arg[1]);
        formula = formula ? formula : tile_lower(e->op, x, e->arg[1], e->arg[2]);
        return formula ? narrow_of(h, formula) : fail(h, e);
    }
    if (e->op != TILE_CAST) {
        struct half_words a = words_of(h, x), b = words_of(h, e->arg[1]);
        expr found = a.low && b.low ? halves_integer(e->op, type, a, b).low : NULL;
        expr formula = found ? NULL : tile_lower(e->op, x, e->arg[1], e->arg[2]);
        return found ? found : formula ? narrow_of(h, formula) : fail(h, e);
    }
    if (tile_type_is_bool(e->type))
        return narrow_of(h, NE(x, tile_const(type, 0)));
    if (tile_type_is_complex(e->type))
        return narrow_of(h, COMPLEX(TO_F32(x), F32(0)));
    if (is_f64(type) && tile_type_is_float(e->type))
        return narrow_of(h, tile_cast(e->type, halves_float_to_f32(x)));
    if (is_f64(type)) {
        expr low = tile_const_int(i64, e->type.kind == TILE_INT ? -(INT64_C(1) << (e->type.bits - 1)) : 0),
             high = tile_const_int(i64, (INT64_C(1) << (e->type.bits - (e->type.kind == TILE_INT))) - 1);
        return narrow_of(h, tile_cast(e->type, MIN(MAX(tile_cast(i64, x), low), high)));
    }
    struct half_words w = words_of(h, x);
    if (!w.low || !w.high)
        return NULL;
    return tile_type_is_float(e->type) ? tile_cast(e->type, halves_to_f32(type, w))
                                       : tile_cast(e->type, w.low);
}

static bool is_comparison(enum tile_op op) {
    return op == TILE_EQ || op == TILE_NE || op == TILE_LT || op == TILE_LE || op == TILE_GT || op == TILE_GE;
}

static expr make_narrow(struct halves *h, expr e) {
    if (tile_type_is_complex(e->type) && e->op == TILE_LOAD)
        return COMPLEX(load_half(h, e, 0), load_half(h, e, 1));
    if (tile_type_is_complex(e->type) && e->op == TILE_LOCAL && is_split(h, e->name)) {
        struct half_words parts = local_words(h, e);
        return COMPLEX(parts.low, parts.high);
    }
    bool is_of_wide = false;
    for (int i = 0; i < e->args && e->op != TILE_LOAD; i++)
        is_of_wide |=
            h->maps || is_f64(e->arg[i]->type) ? needs_words(h, e->arg[i], is_comparison(e->op)) : false;
    return is_of_wide ? from_words(h, e) : pass_rebuild(e, any_in, h);
}

// Rewrites an expression of fewer than 64 bits, or a complex one, which becomes one of floats.
static expr narrow_of(struct halves *h, expr e) {
    struct halves_memo *memo = e && !tile_current()->failed ? memo_of(h, e) : NULL;
    if (!memo)
        return NULL;
    if (memo->narrow_in == h->statement)
        return memo->narrow;
    expr made = make_narrow(h, e);
    if (!(memo = memo_of(h, e)))
        return NULL;
    memo->narrow = made;
    memo->narrow_in = h->statement;
    return made;
}

// Returns a place, from both words of a number: the control program computes all of it, a map the lower word.
static expr joined(struct halves *h, struct tile_type type, struct half_words w) {
    if (!w.low || !w.high)
        return NULL;
    if (h->maps)
        return tile_cast(type, AS_I32(w.low));
    return OR(SHL(tile_cast(type, w.high), tile_const_int(type, 32)), tile_cast(type, w.low));
}

static bool is_kept(const struct halves *h, expr e) { // in device memory, from which a place is read as it is
    const struct tile_buffer *memory = tile_memory_of(e->buffer);
    bool is_far = memory->parameter >= 0 || memory->memory == TILE_GLOBAL;
    return is_far && !e->buffer->base && !h->is_shared[memory->id];
}

static expr make_place(struct halves *h, expr e) {
    if (!is_wide_integer(e->type))
        return is_f64(e->type) ? e : narrow_of(h, e);
    if (e->op == TILE_LOAD && !is_kept(h, e))
        return joined(h, e->type, load_words(h, e));
    if (e->op == TILE_LOCAL && is_split(h, e->name))
        return joined(h, e->type, local_words(h, e));
    if ((e->op == TILE_CAST || e->op == TILE_BITCAST) && is_f64(e->arg[0]->type))
        return joined(h, e->type, words_of(h, e));
    return pass_rebuild(e, place_in, h);
}

static expr place_of(struct halves *h, expr e) {
    struct halves_memo *memo = e && !tile_current()->failed ? memo_of(h, e) : NULL;
    if (!memo)
        return NULL;
    if (memo->place_in == h->statement)
        return memo->place;
    expr made = make_place(h, e);
    if (!(memo = memo_of(h, e)))
        return NULL;
    memo->place = made;
    memo->place_in = h->statement;
    return made;
}

// Statements ------------------------------------------------------------------------------------------------

// Returns the strides of the same memory, counted in halves.
static expr *strides_of_pairs(const struct tile_buffer *b) {
    struct tile_kernel *kernel = tile_current();
    expr *stride = kernel ? arena_alloc(&kernel->arena, sizeof *stride * (size_t)(b->ndim + 1)) : NULL;
    for (int i = 0; stride && i < b->ndim; i++)
        stride[i] = MUL(box_index(b->stride[i]), box_number(2));
    if (stride)
        stride[b->ndim] = box_number(1);
    return stride;
}

// Returns a buffer with one more axis, of two halves. It is a view of `base`, or new if `base` is NULL.
static struct tile_buffer *with_axis(struct halves *h, const struct tile_buffer *b,
                                     const struct tile_buffer *base) {
    expr shape[TILE_DIMS];
    char text[64];
    if (b->ndim == TILE_DIMS) {
        h->failed = tile_current()->failed = true;
        return error_set(ZL_ERROR_COMPILE,
                         "kernel %s: '%s' has %d axes; the target takes %d of numbers of 64 bits",
                         tile_current()->name, b->text, b->ndim, TILE_DIMS - 1);
    }
    for (int i = 0; i < b->ndim; i++)
        shape[i] = b->shape[i];
    shape[b->ndim] = box_number(2);
    snprintf(text, sizeof text, "%.50s_halves", b->text);
    struct tile_buffer *made = base ? tile_view(text, half_type(b->type), base, b->ndim + 1, shape)
                                    : tile_alloc(text, half_type(b->type), b->memory, b->ndim + 1, shape);
    if (made && base && base->stride)
        made->stride = strides_of_pairs(b);
    return made;
}

static struct tile_buffer *half_of(const struct tile_buffer *b, const struct tile_buffer *base, int half) {
    static const char *const word[2][2] = {{"low", "high"}, {"re", "im"}};
    char text[64];
    snprintf(text, sizeof text, "%.50s_%s", b->text, word[tile_type_is_complex(b->type)][half]);
    return base ? tile_view(text, half_type(b->type), base, b->ndim, b->shape)
                : tile_alloc(text, half_type(b->type), b->memory, b->ndim, b->shape);
}

static bool is_far(const struct tile_buffer *b) {
    return b->parameter >= 0 || b->memory == TILE_GLOBAL;
}

// Emits a view, whose base may have become two tiles or a buffer with an axis for both words or parts.
static void view(struct halves *h, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer, *base = b->base;
    struct halves_buffer *under = &h->of[base->id], *of = &h->of[b->id];
    bool is_wide = halves_is_wide(b->type);
    if (is_wide && under->half[0])
        for (int i = 0; i < 2; i++)
            of->half[i] = half_of(b, under->half[i], i);
    else if (is_wide)
        of->pairs = with_axis(h, b, under->pairs ? under->pairs : base);
    else {
        struct tile_stmt *made = tile_append(*s);
        if (made && under->pairs)
            ((struct tile_buffer *)(uintptr_t)made->buffer)->base = under->pairs;
    }
}

static void allocate(struct halves *h, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    struct halves_buffer *of = &h->of[b->id];
    bool is_memory = is_far(b);
    if (b->base)
        view(h, s);
    else if (!halves_is_wide(b->type))
        tile_append(*s);
    else if (h->is_shared[b->id] && !is_memory)
        of->pairs = with_axis(h, b, NULL);
    else if (is_memory) {
        tile_append(*s);
        of->pairs = with_axis(h, b, b);
    } else
        for (int i = 0; i < 2; i++)
            of->half[i] = half_of(b, NULL, i);
}

static bool reads_memory(expr e, const void *memory) {
    return e->op == TILE_LOAD && tile_memory_of(e->buffer) == memory;
}

static bool reads_local(expr e, const void *name) {
    return e->op == TILE_LOCAL && e->name == name;
}

// Sets part[0] and part[1] to the halves of a value. Returns false if that fails.
static bool parts_of(struct halves *h, struct tile_type type, expr value, expr *part) {
    if (tile_type_is_complex(type)) {
        expr e = narrow_of(h, value);
        part[0] = e ? RE(e) : NULL;
        part[1] = e ? IM(e) : NULL;
    } else {
        struct half_words w = words_of(h, value);
        part[0] = w.low;
        part[1] = w.high;
    }
    return part[0] && part[1];
}

// Assigns a half to a variable, because storing the other half may change what it is computed from.
static expr kept(struct tile_type type, expr e) {
    const struct tile_name *name = box_local("half", half_type(type));
    tile_assign(name, e);
    return name ? box_local_value(name) : NULL;
}

static void store(struct halves *h, const struct tile_stmt *s) {
    const struct halves_buffer *of = &h->of[s->buffer->id];
    expr index[TILE_DIMS], part[2], mask = s->mask ? narrow_of(h, s->mask) : NULL;
    for (int i = 0; i < s->indices; i++)
        index[i] = place_of(h, s->index[i]);
    if (!parts_of(h, s->buffer->type, s->value, part))
        return;
    const struct tile_buffer *memory = tile_memory_of(s->buffer);
    if (pass_any(s->value, reads_memory, memory) || (s->mask && pass_any(s->mask, reads_memory, memory)))
        for (int i = 0; i < 2; i++)
            part[i] = kept(s->buffer->type, part[i]);
    for (int i = 0; i < 2; i++) {
        struct tile_stmt half = *s;
        half.buffer = of->half[i] ? of->half[i] : of->pairs;
        half.indices = s->indices + !of->half[i];
        if (!of->half[i] && s->indices < TILE_DIMS)
            index[s->indices] = box_number(i);
        half.index = index;
        half.value = part[i];
        half.mask = mask;
        if (half.buffer)
            tile_append(half);
    }
}

static void assign(struct halves *h, const struct tile_stmt *s) {
    const struct tile_name *const *name = h->name[s->name[0]->id];
    expr part[2];
    if (!parts_of(h, s->name[0]->type, s->value, part))
        return;
    if (pass_any(s->value, reads_local, s->name[0]))
        part[1] = kept(s->name[0]->type, part[1]);
    tile_assign(name[0], part[0]);
    tile_assign(name[1], part[1]);
}

// Emits the atomic of one half of an element. `index` has room for one more index.
static void atomic_half(const struct halves *h, const struct tile_stmt *s, int half, expr *index, expr mask,
                        expr value, const struct tile_name *old) {
    const struct halves_buffer *of = &h->of[s->buffer->id];
    struct tile_stmt made = *s;
    made.buffer = of->half[half] ? of->half[half] : of->pairs;
    made.indices = s->indices + !of->half[half];
    if (!of->half[half] && s->indices < TILE_DIMS)
        index[s->indices] = box_number(half);
    made.index = index;
    made.value = value;
    made.mask = mask;
    made.old = old;
    if (made.buffer)
        tile_append(made);
}

static bool has_atomic(const struct tile_stmt *s) {
    bool is_bits = s->combine == TILE_AND || s->combine == TILE_OR || s->combine == TILE_XOR;
    return !is_f64(s->buffer->type) && (s->combine == TILE_ADD || is_bits);
}

// Emits an atomic as two of 32 bits. In an addition, the upper half adds the carry of the lower one.
static void atomic(struct halves *h, const struct tile_stmt *s) {
    struct tile_type type = half_type(s->buffer->type);
    const struct tile_name *old[2];
    expr index[TILE_DIMS], part[2], mask = s->mask ? narrow_of(h, s->mask) : NULL;
    if (!has_atomic(s)) {
        h->failed = !error_false(
            ZL_ERROR_COMPILE, "kernel %s, line %d: atomic: the target has no commands for atomic %s of %s",
            tile_current()->name, s->place.line, tile_op_name(s->combine), tile_type_name(s->buffer->type));
        tile_current()->failed = true;
        return;
    }
    for (int i = 0; i < s->indices; i++)
        index[i] = place_of(h, s->index[i]);
    if (!parts_of(h, s->buffer->type, s->value, part))
        return;
    for (int i = 0; i < 2; i++)
        old[i] = is_split(h, s->old) ? h->name[s->old->id][i] : box_local("old", type);
    bool carries = s->combine == TILE_ADD && tile_type_is_integer(type), is_asked = carries || s->old;
    atomic_half(h, s, 0, index, mask, part[0], is_asked ? old[0] : NULL);
    if (carries) {
        expr is_over = LT(ADD(box_local_value(old[0]), part[0]), part[0]);
        part[1] = ADD(part[1], SELECT(is_over, U32(1), U32(0)));
    }
    atomic_half(h, s, 1, index, mask, part[1], s->old ? old[1] : NULL);
    struct half_words was = {box_local_value(old[0]), box_local_value(old[1])};
    if (s->old && !is_split(h, s->old))
        tile_assign(s->old, joined(h, s->old->type, was));
}

static void emit_block(void *data, const struct tile_stmt *body);

static void emit_one(struct halves *h, const struct tile_stmt *s) {
    h->statement++;
    if (s->kind == TILE_ALLOC) {
        allocate(h, s);
        return;
    }
    if (s->kind == TILE_STORE && halves_is_wide(s->buffer->type)) {
        store(h, s);
        return;
    }
    if (s->kind == TILE_ASSIGN && is_split(h, s->name[0])) {
        assign(h, s);
        return;
    }
    if (s->kind == TILE_ATOMIC && halves_is_wide(s->buffer->type)) {
        atomic(h, s);
        return;
    }
    pass_emit_as(s, any_in, h);
    h->maps += s->kind == TILE_MAP;
    pass_emit_bodies(s, emit_block, h);
    h->maps -= s->kind == TILE_MAP;
}

static void emit_block(void *data, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s && !tile_current()->failed; s = s->next)
        emit_one(data, s);
}

// The kernel ------------------------------------------------------------------------------------------------

static void look_for(expr e, void *found) {
    *(bool *)found |=
        is_f64(e->type) || tile_type_is_complex(e->type) || (e->op == TILE_LOAD && halves_is_wide(e->type));
}

static bool has_wide_tiles(const struct tile_stmt *body) {
    bool found = false;
    for (const struct tile_stmt *s = body; s && !found; s = s->next) {
        found = (s->kind == TILE_ALLOC || s->kind == TILE_STORE) && halves_is_wide(s->buffer->type);
        found = found || has_wide_tiles(s->body) || has_wide_tiles(s->other);
    }
    return found;
}

// The variables that places are computed from.
struct places {
    bool *is_place; // by id of the name
    int names;
    bool changed;
};

static bool mark_place(expr e, const void *data) {
    const struct places *p = data;
    if (e->op == TILE_LOCAL && e->name->id < p->names && !p->is_place[e->name->id]) {
        p->is_place[e->name->id] = true;
        ((struct places *)(uintptr_t)p)->changed = true;
    }
    return false;
}

static bool mark_load(expr e, const void *data) {
    for (int i = 0; e->op == TILE_LOAD && i < e->indices; i++)
        pass_any(e->index[i], mark_place, data);
    return false;
}

// Marks the variables in all expressions except values and masks, in indices of loads, and in values that are
// assigned to a marked variable.
static void mark_places(struct places *p, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        bool is_place = s->kind == TILE_ASSIGN && s->name[0]->id < p->names && p->is_place[s->name[0]->id];
        for (int i = 0; i < count; i++)
            pass_any(list[i],
                     is_place || (list[i] != s->value && list[i] != s->mask) ? mark_place : mark_load, p);
        mark_places(p, s->body);
        mark_places(p, s->other);
    }
}

// Splits the variables of maps that are no places, and all variables that are no integers. Other variables
// stay whole.
static void split_names(struct halves *h, const struct places *p, const struct tile_stmt *body,
                        bool is_in_map) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        const struct tile_name *name = s->kind == TILE_ASSIGN   ? s->name[0]
                                       : s->kind == TILE_ATOMIC ? s->old
                                                                : NULL;
        bool is_wide = name && name->id < h->names && halves_is_wide(name->type) && !is_split(h, name);
        bool is_value = is_wide && is_in_map && !p->is_place[name->id] &&
                        (s->kind == TILE_ATOMIC || pass_any(s->value, is_open, h));
        for (int i = 0; i < 2 && is_wide && (is_value || !tile_type_is_integer(name->type)); i++)
            h->name[name->id][i] = box_local(name->text, half_type(name->type));
        split_names(h, p, s->body, is_in_map || s->kind == TILE_MAP);
        split_names(h, p, s->other, is_in_map || s->kind == TILE_MAP);
    }
}

static bool find_names(struct halves *h, const struct tile_kernel *kernel) {
    struct places p = {.is_place = memory_zero((size_t)h->names + 1), .names = h->names, .changed = true};
    while (p.is_place && p.changed) {
        p.changed = false;
        mark_places(&p, kernel->body);
    }
    bool good = p.is_place;
    if (good)
        split_names(h, &p, kernel->body, false);
    memory_free(p.is_place);
    return good;
}

// Marks memory that is accessed both as numbers of 64 bits and as others.
static void find_shared(struct halves *h, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        const struct tile_buffer *b = s->kind == TILE_ALLOC && s->buffer->base ? s->buffer : NULL;
        if (b && halves_is_wide(b->type) != halves_is_wide(b->base->type))
            h->is_shared[tile_memory_of(b)->id] = true;
        find_shared(h, s->body);
        find_shared(h, s->other);
    }
}

static void emit_kernel(struct halves *h, struct tile_kernel *kernel) {
    find_shared(h, kernel->body);
    if (!find_names(h, kernel))
        return;
    const struct tile_stmt *body = tile_take_body();
    for (int i = 0; i < kernel->parameters; i++) {
        struct tile_buffer *b = kernel->parameter[i].is_scalar ? NULL : kernel->parameter[i].buffer;
        if (!b || !halves_is_wide(b->type))
            continue;
        b->memory = TILE_GLOBAL; // tables are in device memory too
        h->of[b->id].pairs = with_axis(h, b, b);
    }
    emit_block(h, body);
}

bool pass_halves(struct tile_kernel *kernel, const struct target *target) {
    struct halves h = {.statement = 1};
    bool is_wide = false;
    if (!target->lanes)
        return true;
    if (!pass_each_node(kernel, look_for, &is_wide) || !(is_wide || has_wide_tiles(kernel->body)))
        return !kernel->failed;
    h.buffers = kernel->buffers;
    h.names = kernel->names;
    h.of = memory_zero(((size_t)h.buffers + 1) * sizeof *h.of);
    h.is_shared = memory_zero((size_t)h.buffers + 1);
    h.name = memory_zero(((size_t)h.names + 1) * sizeof *h.name);
    bool good = h.of && h.is_shared && h.name;
    if (good) {
        tile_resume(kernel);
        pass_learn(kernel->body);
        emit_kernel(&h, kernel);
        tile_suspend();
    }
    good = good && !h.failed && !kernel->failed;
    memory_free(h.of);
    memory_free(h.is_shared);
    memory_free(h.name);
    memory_free(h.memo);
    return good;
}
