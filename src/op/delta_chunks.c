// delta_chunks.c - the delta rule by other ops: products and triangular inverses over chunks of tokens.
//
// The tokens of a chunk are computed together (the WY form of their products). Let L be the products of their
// keys, decayed, and S the state before the chunk. Then Delta = (I + L)^-1 (X - E S), and the state after the
// chunk is P S + Q, where P and Q depend on the chunk alone. So the states between chunks come from a tree of
// such pairs, whose depth is logarithmic: the graph for a thousand chunks has only a few calls more than that
// for five hundred. Every decay is the product of the decays between two tokens; none is a quotient. With
// momentum, a state has twice as many rows, and the influence of a token on later ones is a sum of such
// products.

#include "op/ops.h"

enum { CHUNK = 64, CHUNK_BY_COLUMN = 16 };

struct chunks {
    const struct delta_rule *r;
    zl_dtype wide;
    int64_t batch, time, heads, keys, values, chunk, count;
    bool by_column;
    zl_array token, first, sequence, last, slot; // of packed sequences, see pack_sequences
};

static zl_array transposed(zl_array x) {
    return zl_swapaxes(x, -1, -2);
}

static zl_array number(const struct chunks *c, double value) {
    return op_number(c->wide, value);
}

static zl_array column_of(zl_array x) {
    return zl_expand_dims(x, ZL_AXES(-1));
}

static zl_array whole(int64_t value) {
    return op_number(ZL_INT32, (double)value);
}

// Places of tokens ------------------------------------------------------------------------------------------

// Returns, for each element of x, the number of elements of the sorted list `begins` that are at most x, less
// one: the sequence that x is in.
static zl_array sequence_of(zl_array x, zl_array begins) {
    zl_array more = zl_greater_equal(zl_expand_dims(x, ZL_AXES(1)), zl_expand_dims(begins, ZL_AXES(0)));
    zl_array met = op_reduce_axes("delta", REDUCE_SUM, zl_astype(more, ZL_INT32), ZL_AXES(1), false);
    return zl_subtract(met, whole(1));
}

// Finds the chunks of packed sequences. Each sequence begins with a new chunk: sequence n begins with chunk
// offset / chunk + n, and there are time / chunk + n chunks in all. Sets token: for each place in the chunks
// its token, or `time` if it is empty; slot: the place of each token; first: whether a chunk begins a
// sequence; last: the last chunk of each sequence.
static bool pack_sequences(struct chunks *c) {
    int64_t sequences = c->r->offsets->dim[0] - 1;
    c->count = c->time / c->chunk + sequences;
    zl_array offset = zl_stop_gradient(zl_astype(c->r->offsets, ZL_INT32));
    zl_array begin = op_slice_axis(offset, 0, 0, sequences), end = op_slice_axis(offset, 0, 1, sequences + 1);
    zl_array base = zl_add(zl_floor_divide(begin, whole(c->chunk)), zl_arange_int(0, sequences, 1, ZL_INT32));
    zl_array chunk = zl_arange_int(0, c->count, 1, ZL_INT32);
    c->sequence = sequence_of(chunk, base);
    zl_array into = zl_subtract(chunk, zl_take(base, c->sequence, 0));
    c->first = zl_equal(into, whole(0));
    zl_array from = zl_add(zl_take(begin, c->sequence, 0), zl_multiply(into, whole(c->chunk)));
    zl_array token = zl_add(zl_expand_dims(from, ZL_AXES(1)), zl_arange_int(0, c->chunk, 1, ZL_INT32));
    zl_array inside = zl_less(token, zl_expand_dims(zl_take(end, c->sequence, 0), ZL_AXES(1)));
    c->token = zl_flatten(zl_where(inside, token, whole(c->time)), 0, 1);
    zl_array next = zl_concatenate(
        (zl_array[]){op_slice_axis(base, 0, 1, sequences), zl_expand_dims(whole(c->count), ZL_AXES(0))}, 2,
        0);
    c->last = zl_subtract(next, whole(1));
    zl_array each = zl_arange_int(0, c->time, 1, ZL_INT32), its = sequence_of(each, begin);
    zl_array place = zl_subtract(each, zl_take(begin, its, 0));
    c->slot = zl_add(zl_multiply(zl_take(base, its, 0), whole(c->chunk)), place);
    return c->token && c->slot && c->first && c->last;
}

// Returns x (B, T, H, D) as (B, heads, chunks, chunk, D), with `fill` in places without a token.
static zl_array pack(const struct chunks *c, zl_array x, double fill) {
    if (!x)
        return NULL;
    x = zl_repeat(zl_astype(x, c->wide), c->heads / x->dim[2], 2);
    int64_t more = c->token ? 1 : c->count * c->chunk - c->time;
    if (more)
        x = zl_pad(x, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(0, more, 0, 0), number(c, fill));
    if (c->token)
        x = zl_take(x, c->token, 1);
    return zl_transpose(zl_unflatten(x, 1, ZL_SHAPE(c->count, c->chunk)), ZL_AXES(0, 3, 1, 2, 4));
}

static zl_array unpack(const struct chunks *c, zl_array y) {
    y = zl_flatten(zl_transpose(y, ZL_AXES(0, 2, 3, 1, 4)), 1, 2);
    return c->slot ? zl_take(y, c->slot, 1) : op_slice_axis(y, 1, 0, c->time);
}

// Decays ----------------------------------------------------------------------------------------------------

// Returns the decay along an axis from its first token to each token, without the decay of the token itself
// if `before`.
static zl_array run(const struct chunks *c, zl_array g, int axis, bool before) {
    return c->r->factors ? zl_cumprod(g, axis, false, !before, ZL_DTYPE_COUNT)
                         : zl_exp(zl_cumsum(g, axis, false, !before, ZL_DTYPE_COUNT));
}

// Returns a mask (t, i) of whether token t comes after token i; also true for t = i if `equal`.
static zl_array later(const struct chunks *c, bool equal) {
    return zl_astype(zl_tri(c->chunk, c->chunk, equal ? 0 : -1, ZL_FLOAT32), ZL_BOOL);
}

// Returns the decay from token i (exclusive) to token t, (..., t, i, 1 or keys); 0 if t < i, and also for t =
// i if `strictly`.
static zl_array between(const struct chunks *c, zl_array g, bool before, bool strictly) {
    zl_array each = zl_where(zl_expand_dims(later(c, false), ZL_AXES(2)), zl_expand_dims(g, ZL_AXES(4)),
                             number(c, c->r->factors ? 1 : 0));
    zl_array all = run(c, each, 3, before);
    return zl_where(zl_expand_dims(later(c, !strictly), ZL_AXES(2)), all, number(c, 0));
}

// Returns the products of rows of a and b, each with the decay between their tokens: (..., t, i).
static zl_array scores(const struct chunks *c, zl_array a, zl_array b, zl_array decay) {
    if (!c->by_column)
        return zl_multiply(zl_matmul(a, transposed(b)), zl_squeeze(decay, ZL_AXES(-1)));
    zl_array both = zl_multiply(zl_expand_dims(a, ZL_AXES(4)), zl_expand_dims(b, ZL_AXES(3)));
    return op_reduce_axes("delta", REDUCE_SUM, zl_multiply(both, decay), ZL_AXES(-1), false);
}

// States ----------------------------------------------------------------------------------------------------

// How a chunk changes the state S before it: to keep S + add. If keep has one column, that is a diagonal.
struct pair {
    zl_array keep, add;
};

static zl_array apply(zl_array keep, zl_array state) {
    return keep && keep->dim[4] == 1 ? zl_multiply(keep, state) : zl_matmul(keep, state);
}

static zl_array half(zl_array x, int which) {
    return zl_squeeze(op_slice_axis(zl_unflatten(x, 2, ZL_SHAPE(-1, 2)), 3, which, which + 1), ZL_AXES(3));
}

// Appends a chunk that changes nothing.
static struct pair with_idle(struct pair p) {
    zl_array like = op_slice_axis(p.keep, 2, 0, 1), zero = op_zeros_of(op_slice_axis(p.add, 2, 0, 1));
    int64_t keys = p.keep->dim[3], cols = p.keep->dim[4];
    zl_array one = cols == keys ? zl_eye(keys, keys, 0, (zl_dtype)p.keep->dtype)
                                : zl_ones(ZL_SHAPE(keys, cols), (zl_dtype)p.keep->dtype);
    zl_array idle = like ? zl_broadcast_to(one, (zl_shape){like->dim, like->ndim}) : NULL;
    return (struct pair){zl_concatenate((zl_array[]){p.keep, idle}, 2, 2),
                         zl_concatenate((zl_array[]){p.add, zero}, 2, 2)};
}

// Returns the state before each chunk, (B, heads, chunks, keys, values), given that before the first chunk,
// which has the same axes.
static zl_array states(struct pair p, zl_array state) {
    int64_t count = p.keep && p.add ? p.keep->dim[2] : 0;
    if (count <= 1)
        return count ? state : NULL;
    if (count % 2)
        p = with_idle(p);
    if (!p.keep || !p.add)
        return NULL;
    zl_array keep[] = {half(p.keep, 0), half(p.keep, 1)}, add[] = {half(p.add, 0), half(p.add, 1)};
    struct pair both = {apply(keep[1], keep[0]), zl_add(apply(keep[1], add[0]), add[1])};
    zl_array even = states(both, state), odd = zl_add(apply(keep[0], even), add[0]);
    return op_slice_axis(zl_flatten(zl_stack((zl_array[]){even, odd}, 2, 3), 2, 3), 2, 0, count);
}

static zl_array choose(zl_array first, zl_array x, zl_array y) {
    return zl_where(zl_expand_dims(first, ZL_AXES(1, 2)), x, y);
}

// Returns the state before each chunk of packed sequences; the first chunk of each sequence begins with its
// own state. Sets *last to the states after the sequences.
static zl_array states_of_sequences(const struct chunks *c, struct pair p, zl_array *last) {
    // given: (chunks, heads, keys, values)
    zl_array given = zl_take(zl_astype(c->r->state, c->wide), c->sequence, 0);
    given = zl_expand_dims(zl_transpose(given, ZL_AXES(1, 0, 2, 3)), ZL_AXES(0));
    zl_array after = zl_add(apply(p.keep, given), p.add);
    struct pair fresh = {choose(c->first, number(c, 0), p.keep), choose(c->first, after, p.add)};
    zl_array state = choose(c->first, given, states(fresh, op_slice_axis(given, 2, 0, 1)));
    zl_array ends = zl_take(zl_add(apply(p.keep, state), p.add), c->last, 2);
    *last = zl_transpose(zl_squeeze(ends, ZL_AXES(0)), ZL_AXES(1, 0, 2, 3));
    return state;
}

static zl_array states_of(const struct chunks *c, struct pair p, zl_array *last) {
    if (c->token)
        return states_of_sequences(c, p, last);
    zl_array state = states(p, zl_expand_dims(zl_astype(c->r->state, c->wide), ZL_AXES(2)));
    int64_t n = c->count;
    zl_array end = zl_add(apply(op_slice_axis(p.keep, 2, n - 1, n), op_slice_axis(state, 2, n - 1, n)),
                          op_slice_axis(p.add, 2, n - 1, n));
    *last = zl_squeeze(end, ZL_AXES(2));
    return state;
}

// All of it -------------------------------------------------------------------------------------------------

static void sizes_of(struct chunks *c, const struct delta_rule *r) {
    *c = (struct chunks){.r = r,
                         .wide = (zl_dtype)r->state->dtype,
                         .batch = r->x->dim[0],
                         .time = r->x->dim[1],
                         .heads = r->x->dim[2],
                         .keys = r->q->dim[3],
                         .values = r->x->dim[3],
                         .by_column = r->g->ndim == 4};
    int64_t most = c->by_column ? CHUNK_BY_COLUMN : CHUNK;
    for (c->chunk = 1; c->chunk < most && c->chunk < c->time; c->chunk *= 2)
        ;
    c->count = (c->time + c->chunk - 1) / c->chunk;
}

// Returns the inverse of I + lower, whose last two axes are a strictly lower triangle of n by n, n a power of
// two. Computes the inverses of both diagonal halves together, and from them the block below the diagonal.
static zl_array unit_inverse(zl_array lower, int64_t n) {
    if (!lower || n == 1)
        return lower ? zl_ones_like(lower, (zl_dtype)lower->dtype) : NULL;
    int row = lower->ndim - 2, column = lower->ndim - 1;
    int64_t half = n / 2;
    zl_array upper_rows = op_slice_axis(lower, row, 0, half), lower_rows = op_slice_axis(lower, row, half, n);
    zl_array diagonal[2] = {zl_expand_dims(op_slice_axis(upper_rows, column, 0, half), ZL_AXES(0)),
                            zl_expand_dims(op_slice_axis(lower_rows, column, half, n), ZL_AXES(0))};
    zl_array both = unit_inverse(zl_concatenate(diagonal, 2, 0), half);
    zl_array first = zl_squeeze(op_slice_axis(both, 0, 0, 1), ZL_AXES(0)),
             second = zl_squeeze(op_slice_axis(both, 0, 1, 2), ZL_AXES(0));
    zl_array below =
        zl_negative(zl_matmul(second, zl_matmul(op_slice_axis(lower_rows, column, 0, half), first)));
    zl_array rows[2] = {zl_concatenate((zl_array[]){first, op_zeros_of(first)}, 2, column),
                        zl_concatenate((zl_array[]){below, second}, 2, column)};
    return zl_concatenate(rows, 2, row);
}

bool op_delta_chunks(const struct delta_rule *r, zl_array *state_out, zl_array *y_out) {
    struct chunks c;
    sizes_of(&c, r);
    if (r->offsets && !pack_sequences(&c))
        return false;
    zl_array q = zl_multiply(pack(&c, r->q, 0), number(&c, r->scale)), w = pack(&c, r->w, 0),
             x = pack(&c, r->x, 0);
    zl_array g = pack(&c, c.by_column ? r->g : zl_expand_dims(r->g, ZL_AXES(3)), r->factors ? 1 : 0);
    zl_array beta = r->beta ? pack(&c, zl_expand_dims(r->beta, ZL_AXES(3)), 0) : NULL;
    if (r->beta)
        x = zl_multiply(x, beta);
    zl_array decay = between(&c, g, false, false), so_far = run(&c, g, 3, false);
    // rest: the decay from each token to the end of the chunk
    zl_array rest = zl_squeeze(op_slice_axis(decay, 3, c.chunk - 1, c.chunk), ZL_AXES(3));
    zl_array whole_chunk = transposed(op_slice_axis(so_far, 3, c.chunk - 1, c.chunk)); // (..., 1 or keys, 1)
    zl_array late = transposed(zl_multiply(w, rest));
    struct pair p = {NULL, zl_matmul(late, x)};
    zl_array fixed = x, erased = NULL;
    if (r->e) {
        zl_array e = pack(&c, r->e, 0);
        if (r->beta)
            e = zl_multiply(e, beta);
        zl_array products =
            scores(&c, e, w, r->pre ? between(&c, g, true, true) : between(&c, g, false, true));
        zl_array inverse = unit_inverse(products, c.chunk);
        zl_array read = zl_multiply(e, r->pre ? run(&c, g, 3, true) : so_far);
        fixed = zl_matmul(inverse, x);
        erased = zl_matmul(inverse, read);
        zl_array kept = zl_multiply(whole_chunk, zl_eye(c.keys, c.keys, 0, c.wide));
        p = (struct pair){zl_subtract(kept, zl_matmul(late, erased)), zl_matmul(late, fixed)};
    } else {
        zl_array like = q ? zl_zeros(ZL_SHAPE(c.keys, 1), c.wide) : NULL;
        p.keep = zl_add(whole_chunk, like);
    }
    zl_array state = states_of(&c, p, state_out);
    zl_array delta = erased ? zl_subtract(fixed, zl_matmul(erased, state)) : x;
    zl_array y = zl_add(zl_matmul(zl_multiply(q, so_far), state), zl_matmul(scores(&c, q, w, decay), delta));
    *y_out = zl_astype(unpack(&c, y), (zl_dtype)r->x->dtype);
    return *state_out && *y_out;
}

// Momentum --------------------------------------------------------------------------------------------------

// Shifts rows by one: each row becomes the one before it, and the first becomes 0.
static zl_array delayed(zl_array x) {
    zl_array less = x ? op_slice_axis(x, 3, 0, x->dim[3] - 1) : NULL;
    return zl_concatenate((zl_array[]){op_zeros_of(op_slice_axis(x, 3, 0, 1)), less}, 2, 3);
}

// How a chunk's end depends on its beginning, for states with S above M: S becomes keep S - mixed M, and M
// becomes slowed M.
struct held {
    zl_array keep, mixed, slowed; // (..., 1, 1)
};

static zl_array hold(const struct chunks *c, struct held h, zl_array both) {
    zl_array s = op_slice_axis(both, 3, 0, c->keys), m = op_slice_axis(both, 3, c->keys, 2 * c->keys);
    zl_array top = zl_subtract(zl_multiply(h.keep, s), zl_multiply(h.mixed, m));
    return zl_concatenate((zl_array[]){top, zl_multiply(h.slowed, m)}, 2, 3);
}

// Returns vectors for the stacked state: x times `s` for S, then x times `m` for M.
static zl_array on_both(zl_array x, zl_array s, zl_array m) {
    return zl_concatenate((zl_array[]){zl_multiply(x, s), zl_multiply(x, m)}, 2, 4);
}

static zl_array last_row(const struct chunks *c, zl_array x) {
    return op_slice_axis(x, 3, c->chunk - 1, c->chunk);
}

// An update of token i reaches S at token t along all paths: M decays by mu from i to some j, enters S with
// beta_j, and decays by exp(g) from j to t. The sum over j is a product of triangular matrices.
bool op_delta_momentum(const struct delta_rule *r, zl_array mu, zl_array *state_out, zl_array *y_out) {
    struct chunks c;
    sizes_of(&c, r);
    if (r->offsets && !pack_sequences(&c))
        return false;
    zl_array q = zl_multiply(pack(&c, r->q, 0), number(&c, r->scale)), w = pack(&c, r->w, 0),
             x = pack(&c, r->x, 0), e = pack(&c, r->e, 0), beta = pack(&c, column_of(r->beta), 0);
    zl_array g = pack(&c, column_of(r->g), 0), slow = pack(&c, column_of(mu), 0);
    zl_array decay = zl_squeeze(between(&c, g, false, false), ZL_AXES(-1));
    zl_array slowing = zl_squeeze(between(&c, slow, false, false), ZL_AXES(-1));
    zl_array ways = zl_matmul(decay, zl_multiply(beta, slowing));
    zl_array kept = run(&c, g, 3, false), slowed = run(&c, slow, 3, false);
    zl_array mixed = zl_matmul(decay, zl_multiply(beta, slowed)), minus = zl_negative(mixed);
    zl_array inverse = unit_inverse(zl_multiply(zl_matmul(e, transposed(w)), delayed(ways)), c.chunk);
    zl_array read = on_both(e, run(&c, g, 3, true), delayed(minus));
    zl_array fixed = zl_matmul(inverse, x), erased = zl_matmul(inverse, read);
    zl_array late = transposed(
        on_both(w, transposed(last_row(&c, ways)), zl_negative(transposed(last_row(&c, slowing)))));
    struct held h = {last_row(&c, kept), last_row(&c, mixed), last_row(&c, slowed)};
    zl_array whole_chunk =
        hold(&c, h, zl_expand_dims(zl_eye(2 * c.keys, 2 * c.keys, 0, c.wide), ZL_AXES(0, 1, 2)));
    struct pair p = {zl_subtract(whole_chunk, zl_matmul(late, erased)), zl_matmul(late, fixed)};
    zl_array state = states_of(&c, p, state_out);
    zl_array delta = zl_subtract(fixed, zl_matmul(erased, state));
    if (c.count == 1 && !c.token) // avoids the product of all pairs of keys
        *state_out = zl_squeeze(zl_add(hold(&c, h, state), zl_matmul(late, delta)), ZL_AXES(2));
    zl_array y = zl_add(zl_matmul(on_both(q, kept, minus), state),
                        zl_matmul(zl_multiply(zl_matmul(q, transposed(w)), ways), delta));
    *y_out = zl_astype(unpack(&c, y), (zl_dtype)r->x->dtype);
    return *state_out && *y_out;
}
