// einsum.c - Einstein sums, written with subscripts and contracted pair by pair.
//
// Every axis has a label: a letter, or a place in an ellipsis, counted from its end. A term is an array with
// its labels. The greedy path of opt_einsum and MLX chooses the terms that are joined next. Two terms that
// share a label which neither the result nor another term needs are joined by one matrix product.

#include <string.h>

#include "op/ops.h"

enum {
    LETTERS = 52, // A to Z, then a to z: in the order of their codes
    LABELS = 64,  // the labels after the letters are axes of ellipses, the last one first
    MOST = 1000,  // the most operands
};

struct term {
    zl_array x;
    int ndim;
    uint8_t label[LABELS];
    uint64_t set; // bit k: label k
};

// The state of one sum. `term` holds the operands that are left; each step appends its result.
struct sum {
    const char *function;
    const char *subscripts;
    int terms;
    struct term *term;
    struct term out;     // only labels; x is NULL
    int64_t dim[LABELS]; // by label: size, after broadcasting
    int ellipsis;        // axes of the longest ellipsis
    struct join *list;   // for the path: the pairs that may be joined
    int listed;
    double cost, most; // cost: of the steps so far; most: of one step that joins all
    int labels;        // number of labels of the largest step
    double room;       // elements of the largest term
    struct text *path; // if not NULL, only the path is written, and nothing computed
};

// Reading ---------------------------------------------------------------------------------------------------

static int label_of(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static bool add_label(const struct sum *s, struct term *t, int label) {
    if (t->ndim == LABELS)
        return error_false(ZL_ERROR_VALUE, "%s: '%s': a term has more than %d subscripts", s->function,
                           s->subscripts, LABELS);
    t->label[t->ndim++] = (uint8_t)label;
    t->set |= 1ull << label;
    return true;
}

static bool add_ellipsis(struct sum *s, struct term *t, int count) {
    if (count < 0 || count > LABELS - LETTERS)
        return error_false(ZL_ERROR_SHAPE,
                           "%s: '%s': an ellipsis would stand for %d axes: 0 to %d are possible", s->function,
                           s->subscripts, count, LABELS - LETTERS);
    s->ellipsis = MAX_OF(s->ellipsis, count);
    for (int i = count - 1; i >= 0; i--)
        if (!add_label(s, t, LETTERS + i))
            return false;
    return true;
}

// Returns the number of letters in [from, to).
static int count_letters(const char *from, const char *to) {
    int count = 0;
    for (; from < to; from++)
        count += label_of(*from) >= 0;
    return count;
}

// Reads the labels in [from, to). ndim: the axes of the operand; -1: these are the labels of the result.
static bool read_term(struct sum *s, struct term *t, const char *from, const char *to, int ndim) {
    int missing = ndim < 0 ? s->ellipsis : ndim - count_letters(from, to);
    bool seen = false;
    for (; from < to; from++) {
        bool dots = to - from >= 3 && !memcmp(from, "...", 3) && !seen;
        if (*from == ' ')
            continue;
        if (!dots && label_of(*from) < 0)
            return error_false(ZL_ERROR_SYNTAX,
                               "%s: '%s': '%.*s' is not a letter nor the only ellipsis of its term",
                               s->function, s->subscripts, text_character(from), from);
        if (!(dots ? add_ellipsis(s, t, missing) : add_label(s, t, label_of(*from))))
            return false;
        from += dots ? 2 : 0;
        seen |= dots;
    }
    return ndim < 0 || t->ndim == ndim ||
           error_false(ZL_ERROR_SHAPE, "%s: '%s': %d subscripts for an operand of shape %s", s->function,
                       s->subscripts, t->ndim, array_text(t->x));
}

// Without an arrow, the result has the ellipsis, then the letters that occur once, in alphabetical order.
static bool infer_output(struct sum *s, const char *end) {
    int seen[LETTERS] = {0};
    for (const char *c = s->subscripts; c < end; c++)
        if (label_of(*c) >= 0)
            seen[label_of(*c)]++;
    bool ok = add_ellipsis(s, &s->out, s->ellipsis);
    for (int i = 0; ok && i < LETTERS; i++)
        ok = seen[i] != 1 || add_label(s, &s->out, i);
    return ok;
}

static bool check_output(const struct sum *s) {
    uint64_t all = 0;
    for (int i = 0; i < s->terms; i++)
        all |= s->term[i].set;
    if (s->out.ndim != __builtin_popcountll(s->out.set))
        return error_false(ZL_ERROR_SYNTAX, "%s: '%s': the result has a subscript twice", s->function,
                           s->subscripts);
    return !(s->out.set & ~all) ||
           error_false(ZL_ERROR_SYNTAX, "%s: '%s': the result has a subscript that no operand has",
                       s->function, s->subscripts);
}

static bool read_subscripts(struct sum *s, int count) {
    const char *arrow = strstr(s->subscripts, "->"),
               *end = arrow ? arrow : s->subscripts + strlen(s->subscripts);
    int commas = 0;
    for (const char *c = s->subscripts; c < end; c++)
        commas += *c == ',';
    if (commas + 1 != count)
        return error_false(ZL_ERROR_VALUE, "%s: '%s' is for %d operands, but there are %d", s->function,
                           s->subscripts, commas + 1, count);
    const char *from = s->subscripts;
    for (int i = 0; i < count; i++) {
        const char *comma = memchr(from, ',', (size_t)(end - from)), *to = comma ? comma : end;
        if (!read_term(s, &s->term[i], from, to, s->term[i].x->ndim))
            return false;
        from = to + 1;
    }
    if (!(arrow ? read_term(s, &s->out, arrow + 2, arrow + strlen(arrow), -1) : infer_output(s, end)))
        return false;
    return check_output(s);
}

// Finds the sizes of all labels. A label that occurs twice in a term has one size there; between terms, size
// 1 broadcasts.
static bool read_sizes(struct sum *s) {
    for (int i = 0; i < LABELS; i++)
        s->dim[i] = 1;
    for (int i = 0; i < s->terms; i++)
        for (int k = 0; k < s->term[i].ndim; k++) {
            const struct term *t = &s->term[i];
            int label = t->label[k],
                first = (int)((const uint8_t *)memchr(t->label, label, (size_t)t->ndim) - t->label);
            int64_t size = t->x->dim[k], *dim = &s->dim[label];
            if (t->x->dim[first] != size || (*dim != 1 && size != 1 && *dim != size))
                return error_false(ZL_ERROR_SHAPE,
                                   "%s: '%s': axis %d of shape %s does not fit its subscript's size %lld",
                                   s->function, s->subscripts, k, array_text(t->x),
                                   (long long)(t->x->dim[first] != size ? t->x->dim[first] : *dim));
            *dim = *dim == 1 ? size : *dim;
        }
    return true;
}

// Steps -----------------------------------------------------------------------------------------------------

static int place_of(const struct term *t, int label) {
    const uint8_t *at = memchr(t->label, label, (size_t)t->ndim);
    return at ? (int)(at - t->label) : -1;
}

static void drop_label(struct term *t, int place) {
    memmove(t->label + place, t->label + place + 1, (size_t)(t->ndim - place - 1));
    t->ndim--;
}

// Takes every (n + 1)-th element of n rows of n: the diagonal, which replaces axis `place` and the next one.
static zl_array diagonal(zl_array x, int place) {
    int64_t start[LABELS], stop[LABELS], step[LABELS], n = x ? x->dim[place] : 0;
    if (!(x = zl_flatten(x, place, place + 1)))
        return NULL;
    for (int i = 0; i < x->ndim; i++) {
        start[i] = 0;
        stop[i] = x->dim[i];
        step[i] = i == place ? n + 1 : 1;
    }
    return zl_slice(x, (zl_shape){start, x->ndim}, (zl_shape){stop, x->ndim}, (zl_shape){step, x->ndim});
}

static void take_diagonals(struct term *t) {
    for (int i = 0; i < t->ndim; i++)
        for (int k = t->ndim - 1; t->x && k > i; k--)
            if (t->label[k] == t->label[i]) {
                t->x = diagonal(zl_moveaxis(t->x, k, i + 1), i);
                drop_label(t, k);
            }
}

// Sums over the axes whose labels are not in keep.
static void sum_out(const char *function, struct term *t, uint64_t keep) {
    int axis[LABELS], count = 0, kept = 0;
    for (int i = 0; i < t->ndim; i++)
        if (keep >> t->label[i] & 1)
            t->label[kept++] = t->label[i];
        else
            axis[count++] = i;
    t->ndim = kept;
    t->set &= keep;
    if (count)
        t->x = op_reduce_axes(function, REDUCE_SUM, t->x, (zl_axes){axis, count}, false);
}

// Returns the array with its axes in the order of `label`; those that t lacks have size 1.
static zl_array arrange(const struct term *t, int count, const uint8_t *label) {
    int order[LABELS], added[LABELS], present = 0, missing = 0;
    for (int i = 0; i < count; i++) {
        int place = place_of(t, label[i]);
        if (place < 0)
            added[missing++] = i;
        else
            order[present++] = place;
    }
    return zl_expand_dims(zl_transpose(t->x, (zl_axes){order, present}), (zl_axes){added, missing});
}

static void append_set(struct term *t, uint64_t set) {
    for (; set; set &= set - 1)
        t->label[t->ndim++] = (uint8_t)__builtin_ctzll(set);
}

// Multiplies the terms element by element, then sums.
static struct term multiply_all(const struct sum *s, int count, const int *at, uint64_t keep) {
    struct term y = {.x = NULL};
    int64_t dim[LABELS];
    for (int i = 0; i < count; i++)
        y.set |= s->term[at[i]].set;
    append_set(&y, y.set);
    for (int i = 0; i < y.ndim; i++)
        dim[i] = s->dim[y.label[i]];
    if (!op_check_size(s->function, y.ndim, dim))
        return y;
    y.x = arrange(&s->term[at[0]], y.ndim, y.label);
    for (int i = 1; i < count; i++)
        y.x = zl_multiply(y.x, arrange(&s->term[at[i]], y.ndim, y.label));
    sum_out(s->function, &y, keep);
    return y;
}

// Returns t as (batch, rows, columns); each of the three is a set of labels. Axes of batch and common labels
// are broadcast.
static zl_array as_matrices(const struct sum *s, const struct term *t, uint64_t batch, uint64_t rows,
                            uint64_t columns, uint64_t common) {
    struct term order = {.x = NULL};
    int64_t dim[LABELS + 2], matrix[LABELS + 2];
    append_set(&order, batch);
    int first = order.ndim;
    append_set(&order, rows);
    int second = order.ndim;
    append_set(&order, columns);
    for (int i = 0; i < order.ndim; i++) {
        int label = order.label[i];
        matrix[i] = dim[i] = common >> label & 1 ? s->dim[label] : t->x->dim[place_of(t, label)];
    }
    if (!op_check_size(s->function, second - first, dim + first) ||
        !op_check_size(s->function, order.ndim - second, dim + second) ||
        !op_check_size(s->function, order.ndim, dim))
        return NULL;
    zl_array x = zl_broadcast_to(arrange(t, order.ndim, order.label), (zl_shape){dim, order.ndim});
    shape_size(second - first, dim + first, &matrix[first]);
    shape_size(order.ndim - second, dim + second, &matrix[first + 1]);
    return zl_reshape(x, (zl_shape){matrix, first + 2});
}

// Contracts two terms over the labels that both have and that are not in keep, by one matrix product.
static struct term multiply_matrices(const struct sum *s, const struct term *a, const struct term *b,
                                     uint64_t keep) {
    uint64_t common = a->set & b->set, batch = common & keep, rows = a->set & ~common,
             columns = b->set & ~common;
    struct term y = {.set = batch | rows | columns};
    append_set(&y, batch);
    append_set(&y, rows);
    append_set(&y, columns);
    int64_t dim[2 * LABELS];
    for (int i = 0; i < y.ndim; i++) {
        const struct term *from = place_of(a, y.label[i]) < 0 ? b : a;
        dim[i] = batch >> y.label[i] & 1 ? s->dim[y.label[i]] : from->x->dim[place_of(from, y.label[i])];
    }
    if (!op_check_size(s->function, y.ndim, dim))
        return y;
    zl_array left = as_matrices(s, a, batch, rows, common & ~keep, common);
    zl_array right = left ? as_matrices(s, b, batch, common & ~keep, columns, common) : NULL;
    y.x = zl_reshape(op_matmul_as(s->function, left, right), (zl_shape){dim, y.ndim});
    return y;
}

static bool is_inexact(const struct term *a, const struct term *b) {
    return dtype_is_inexact(dtype_common(2, (zl_array[]){a->x, b->x}));
}

// Reduces a term: takes diagonals, and sums over labels that neither the other given terms nor `keep` have.
static bool reduce_term(const struct sum *s, int count, const int *at, int which, uint64_t keep) {
    struct term *t = &s->term[at[which]];
    for (int i = 0; i < count; i++)
        keep |= i == which ? 0 : s->term[at[i]].set;
    take_diagonals(t);
    if (t->x)
        sum_out(s->function, t, keep);
    return t->x != NULL;
}

// Joins the terms at these positions into one that keeps these labels. After an error, its x is NULL.
static struct term join(const struct sum *s, int count, const int *at, uint64_t keep) {
    for (int i = 0; i < count; i++)
        if (!reduce_term(s, count, at, i, keep))
            return (struct term){.x = NULL};
    const struct term *a = &s->term[at[0]], *b = &s->term[at[count - 1]];
    if (count == 2 && (a->set & b->set & ~keep) && is_inexact(a, b))
        return multiply_matrices(s, a, b, keep);
    return multiply_all(s, count, at, keep);
}

// Path ------------------------------------------------------------------------------------------------------

// A pair that may be joined: the labels of its result, the elements that it saves, and its cost.
struct join {
    int a, b, labels;
    uint64_t set;
    double saved, cost;
};

static double elements(const struct sum *s, uint64_t set) {
    double size = 1;
    for (; set; set &= set - 1)
        size *= (double)s->dim[__builtin_ctzll(set)];
    return size;
}

static double cost_of(const struct sum *s, uint64_t all, uint64_t keep, int count) {
    return elements(s, all) * (MAX_OF(count - 1, 1) + ((all & ~keep) != 0));
}

// Returns the labels that the result and the terms other than a and b need.
static uint64_t needed(const struct sum *s, int a, int b) {
    uint64_t set = s->out.set;
    for (int i = 0; i < s->terms; i++)
        set |= i == a || i == b ? 0 : s->term[i].set;
    return set;
}

static void consider(struct sum *s, int a, int b) {
    uint64_t all = s->term[a].set | s->term[b].set, keep = all & needed(s, a, b);
    double size = elements(s, keep), cost = cost_of(s, all, keep, 2);
    if (size > s->room || s->cost + cost > s->most)
        return;
    s->list[s->listed++] =
        (struct join){.a = a,
                      .b = b,
                      .labels = __builtin_popcountll(all),
                      .set = keep,
                      .cost = cost,
                      .saved = elements(s, s->term[a].set) + elements(s, s->term[b].set) - size};
}

// Lists the pairs whose second term is at least `from`; those without a common label only if there are no
// others.
static void consider_pairs(struct sum *s, int from) {
    for (int outer = 0; outer < 2 && (outer == 0 || s->listed == 0); outer++)
        for (int a = 0; a < s->terms; a++)
            for (int b = MAX_OF(a + 1, from); b < s->terms; b++)
                if (outer || (s->term[a].set & s->term[b].set))
                    consider(s, a, b);
}

static struct join best_join(const struct sum *s) {
    struct join best = s->list[0];
    for (int i = 1; i < s->listed; i++) {
        const struct join *j = &s->list[i];
        if (j->saved > best.saved || (j->saved == best.saved && j->cost < best.cost))
            best = *j;
    }
    return best;
}

// Removes the pairs that contain terms a and b, which are gone, and renumbers the terms after them.
static void forget(struct sum *s, struct join done) {
    int kept = 0;
    for (int i = 0; i < s->listed; i++) {
        struct join j = s->list[i];
        if (j.a == done.a || j.a == done.b || j.b == done.a || j.b == done.b)
            continue;
        j.a -= (j.a > done.a) + (j.a > done.b);
        j.b -= (j.b > done.a) + (j.b > done.b);
        s->list[kept++] = j;
    }
    s->listed = kept;
}

static void remove_term(struct sum *s, int at) {
    memmove(&s->term[at], &s->term[at + 1], sizeof *s->term * (size_t)(s->terms - at - 1));
    s->terms--;
}

static void write_step(struct sum *s, const int *position, int count) {
    text_add(s->path, s->path->len ? " " : "");
    for (int i = 0; i < count; i++)
        text_add(s->path, "%s%d", i ? "," : "", position[i]);
}

// Returns a term with labels only, for when only the path is computed.
static struct term planned(uint64_t set) {
    struct term y = {.set = set};
    append_set(&y, set);
    return y;
}

static bool join_pair(struct sum *s, struct join j) {
    const int pair[] = {j.a, j.b};
    struct term y = s->path ? planned(j.set) : join(s, 2, pair, j.set);
    if (s->path)
        write_step(s, pair, 2);
    else if (!y.x)
        return false;
    s->cost += j.cost;
    s->labels = MAX_OF(s->labels, j.labels);
    remove_term(s, j.b);
    remove_term(s, j.a);
    s->term[s->terms++] = y;
    forget(s, j);
    return true;
}

// Joins all remaining terms at once.
static bool join_rest(struct sum *s) {
    int count = s->terms;
    OP_TEMP(int, at, count);
    if (!at)
        return false;
    uint64_t all = 0;
    for (int i = 0; i < count; i++) {
        at[i] = i;
        all |= s->term[i].set;
    }
    s->cost += cost_of(s, all, s->out.set, count);
    s->labels = MAX_OF(s->labels, __builtin_popcountll(all));
    struct term y = s->path ? planned(s->out.set) : join(s, count, at, s->out.set);
    if (s->path)
        write_step(s, at, count);
    s->terms = 1;
    s->term[0] = y;
    return s->path || y.x;
}

static void measure(struct sum *s) {
    uint64_t all = 0;
    s->room = elements(s, s->out.set);
    for (int i = 0; i < s->terms; i++) {
        double size = elements(s, s->term[i].set);
        s->room = MAX_OF(s->room, size);
        all |= s->term[i].set;
    }
    s->most = cost_of(s, all, s->out.set, s->terms);
}

static bool contract(struct sum *s) {
    measure(s);
    if (s->terms <= 2)
        return join_rest(s);
    for (int from = 0; s->terms > 1; from = s->terms - 1) {
        consider_pairs(s, from);
        if (s->listed == 0)
            return join_rest(s);
        if (!join_pair(s, best_join(s)))
            return false;
    }
    return true;
}

// Public ----------------------------------------------------------------------------------------------------

static bool open_sum(struct sum *s, const zl_array *operands, int count) {
    if (!op_check_inputs(s->function, operands, count))
        return false;
    if (!s->subscripts || count > MOST)
        return error_false(ZL_ERROR_VALUE,
                           "%s: subscripts '%s' for %d operands: a text is needed, and at most %d",
                           s->function, s->subscripts ? s->subscripts : "NULL", count, MOST);
    s->terms = count;
    s->term = memory_zero(sizeof *s->term * (size_t)count);
    s->list = memory_alloc(sizeof *s->list * (size_t)count * (size_t)count);
    if (!s->term || !s->list)
        return false;
    for (int i = 0; i < count; i++)
        s->term[i].x = operands[i];
    return read_subscripts(s, count) && read_sizes(s);
}

static void close_sum(struct sum *s) {
    memory_free(s->term);
    memory_free(s->list);
}

static bool again_einsum(const union op_value *v, zl_array *out) {
    return (out[0] = zl_einsum(v[0].string, v[1].arrays.list, v[1].arrays.count));
}

zl_array zl_einsum(const char *subscripts, const zl_array *operands, int count) {
    zl_array again;
    if (op_again(&again, "zl_einsum", again_einsum, subscripts, operands, count))
        return again;
    struct sum s = {.function = "zl_einsum", .subscripts = subscripts};
    zl_scope scope = zl_scope_begin();
    bool ok = open_sum(&s, operands, count) && contract(&s);
    zl_array y = ok ? arrange(&s.term[0], s.out.ndim, s.out.label) : NULL;
    close_sum(&s);
    return zl_scope_leave(scope, y);
}
OP_SIGNATURE(zl_einsum, "matmul",
             "The sum of products that subscripts describe: a letter for each axis, operands separated by "
             "commas, then "
             "'->' and the axes of the result. Letters that the result lacks are summed; '...' stands for "
             "all axes that "
             "have none. Without '->' the result has the letters that stand once, in order.",
             P_STRING(subscripts, NULL), P_ARRAYS(operands));

static void write_path(struct sum *s, struct text *out) {
    uint64_t all = 0;
    for (int i = 0; i < s->terms; i++)
        all |= s->term[i].set;
    contract(s);
    text_add(out, "%s\n  Complete contraction:  %s\n", s->path->data ? s->path->data : "", s->subscripts);
    text_add(out, "         Naive scaling:  %d\n     Optimized scaling:  %d\n", __builtin_popcountll(all),
             s->labels);
    text_add(out, "      Naive FLOP count:  %.0f\n  Optimized FLOP count:  %.0f\n", s->most, s->cost);
}

char *zl_einsum_path(const char *subscripts, const zl_array *operands, int count) {
    struct text path = {0}, out = {0};
    struct sum s = {.function = "zl_einsum_path", .subscripts = subscripts, .path = &path};
    bool ok = open_sum(&s, operands, count);
    if (ok)
        write_path(&s, &out);
    out.failed |= !ok || path.failed;
    close_sum(&s);
    text_free(&path);
    return text_take(&out);
}
