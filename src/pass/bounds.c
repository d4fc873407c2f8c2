// bounds.c - what is known of integers without running the kernel: the least and the greatest value of an
// index. Indices are assumed not to wrap around; a kernel whose indices do has no meaning. pass_certain_range
// is about any integer, and allows for wrap-around in every op.

#include "pass/pass.h"

enum { LEAST = 0, MOST = 1 };
static const struct pass_range all = {INT64_MIN, INT64_MAX};

static bool is_number(int64_t x) {
    return x != INT64_MIN && x != INT64_MAX;
}

// Returns a + b, or the end that stands for the unknown if one of them is unknown or the sum overflows.
static int64_t sum(int64_t a, int64_t b, int end) {
    int64_t result, unknown = end == MOST ? INT64_MAX : INT64_MIN;
    return is_number(a) && is_number(b) && !__builtin_add_overflow(a, b, &result) ? result : unknown;
}

static int64_t negative(int64_t x) {
    return x == INT64_MIN ? INT64_MAX : x == INT64_MAX ? INT64_MIN : -x;
}

// Returns the product of numbers that are not negative, as sizes and positions are; INT64_MAX: it is not
// known.
static int64_t product(int64_t a, int64_t b) {
    int64_t result;
    if (a == 0 || b == 0)
        return 0;
    return is_number(a) && is_number(b) && !__builtin_mul_overflow(a, b, &result) ? result : INT64_MAX;
}

static struct pass_range multiply(struct pass_range a, struct pass_range b) {
    if (a.low < 0 || b.low < 0)
        return all;
    int64_t low = product(a.low, b.low);
    return (struct pass_range){is_number(low) ? low : 0, product(a.high, b.high)};
}

// Returns an end of a range divided by b, rounded down. INT64_MIN and INT64_MAX stand for the unknown, but
// also are the ends of signed 64-bit integers, so that their quotients are known; those of u64 are not.
static int64_t floor_of(int64_t a, int64_t b, bool is_u64) {
    return is_number(a) || (!is_u64 && b > 1) ? a / b - (a % b < 0) : a;
}

// x // 0 is 0.
static struct pass_range divide(struct pass_range a, struct pass_range b, bool is_u64) {
    if (b.low != b.high || b.low <= 0)
        return b.low >= 0 && a.low >= 0 ? (struct pass_range){0, a.high} : all;
    return (struct pass_range){floor_of(a.low, b.low, is_u64), floor_of(a.high, b.low, is_u64)};
}

// x % y has the sign of y, and x % 0 is x.
static struct pass_range remainder_of(struct pass_range a, struct pass_range b) {
    if (b.low < 0 || (b.low == 0 && a.low < 0))
        return all;
    int64_t most = a.low >= 0 ? a.high : INT64_MAX;
    if (a.low >= 0 && a.high < b.low)
        return a;
    return (struct pass_range){0, b.low > 0 ? MIN_OF(sum(b.high, -1, MOST), most) : most};
}

static struct pass_range either(struct pass_range a, struct pass_range b) {
    return (struct pass_range){MIN_OF(a.low, b.low), MAX_OF(a.high, b.high)};
}

static bool is_u64(struct tile_type type) {
    return type.kind == TILE_UINT && type.bits == 64;
}

// The state of finding a range. Formulas share their parts, and each path through them is walked; `left`
// bounds that work.
struct search {
    bool is_certain;
    int left;
};
enum { PATHS = 2000 };

static struct pass_range range_of(expr e, struct search *s);

static struct pass_range range_of_op(expr e, struct search *s) {
    struct pass_range a = range_of(e->arg[0], s), b = e->args > 1 ? range_of(e->arg[1], s) : a;
    switch (e->op) {
    case TILE_ADD: return (struct pass_range){sum(a.low, b.low, LEAST), sum(a.high, b.high, MOST)};
    case TILE_SUB:
        return (struct pass_range){sum(a.low, negative(b.high), LEAST), sum(a.high, negative(b.low), MOST)};
    case TILE_MUL: return multiply(a, b);
    case TILE_FLOORDIV: return divide(a, b, is_u64(e->type));
    case TILE_REM: return remainder_of(a, b);
    case TILE_MAX: return (struct pass_range){MAX_OF(a.low, b.low), MAX_OF(a.high, b.high)};
    case TILE_MIN: return (struct pass_range){MIN_OF(a.low, b.low), MIN_OF(a.high, b.high)};
    case TILE_SELECT:
    case TILE_RARE: return either(b, range_of(e->arg[2], s));
    case TILE_CAST: return a;
    case TILE_AND: return b.low >= 0 && b.low == b.high ? (struct pass_range){0, b.high} : all;
    case TILE_SHR:
        return a.low >= 0 && b.low == b.high && b.low >= 0 && b.low < 63
                   ? (struct pass_range){is_number(a.low) ? a.low >> b.low : 0,
                                         is_number(a.high) ? a.high >> b.low : a.high}
                   : all;
    default: return all;
    }
}

// Returns the range of all numbers of a type; the greatest of u64 is not known.
static struct pass_range range_of_type(struct tile_type type) {
    if (tile_type_is_bool(type))
        return (struct pass_range){0, 1};
    if (!tile_type_is_integer(type) || type.lanes > 1)
        return all;
    bool is_signed = type.kind == TILE_INT;
    int64_t most = type.bits - is_signed >= 63 ? INT64_MAX : (INT64_C(1) << (type.bits - is_signed)) - 1;
    return (struct pass_range){is_signed ? -most - 1 : 0, most};
}

static struct pass_range within(struct pass_range r, struct pass_range type) {
    return (struct pass_range){MAX_OF(r.low, type.low), MIN_OF(r.high, type.high)};
}

// Returns whether the exact result of an op, which is in range r, may be outside of its type.
static bool may_wrap(expr e, struct pass_range r) {
    struct pass_range type = range_of_type(e->type);
    bool is_sum = e->op == TILE_ADD || e->op == TILE_SUB || e->op == TILE_MUL;
    bool is_open =
        is_sum ? !is_number(r.low) || !is_number(r.high) : !is_number(r.high) && is_u64(e->arg[0]->type);
    return (is_sum || e->op == TILE_CAST) && (is_open || r.low < type.low || r.high > type.high);
}

static struct pass_range range_of(expr e, struct search *s) {
    struct pass_range type = range_of_type(e->type);
    if (!tile_type_is_integer(e->type) || e->type.lanes > 1 || s->left-- <= 0)
        return type;
    if (e->op == TILE_CONST) {
        int64_t value = tile_value_of(e->type, e->bits).i;
        return value < type.low ? type : (struct pass_range){value, value};
    }
    if (e->op == TILE_INDEX || e->op == TILE_SYMBOL) { // a position is less than some number of its type
        int64_t most = type.high - (s->is_certain && e->op == TILE_INDEX);
        return within((struct pass_range){e->name->low, MIN_OF(e->name->high, most)}, type);
    }
    if (!e->args || e->op == TILE_LOAD)
        return type;
    struct pass_range r = range_of_op(e, s);
    return s->is_certain && may_wrap(e, r) ? type : within(r, type);
}

struct pass_range pass_range(expr e) {
    return range_of(e, &(struct search){false, PATHS});
}

struct pass_range pass_certain_range(expr e) {
    return range_of(e, &(struct search){true, PATHS});
}

int64_t pass_number(expr e) {
    struct pass_range r = e ? pass_range(e) : all;
    return r.low == r.high ? r.low : -1;
}

int64_t pass_product(int count, const expr *e) {
    int64_t all_of_them = 1;
    for (int i = 0; i < count; i++)
        if (!tile_times(all_of_them, pass_number(e[i]), &all_of_them))
            return -1;
    return all_of_them;
}

int64_t pass_common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Bounds a divisor, so that products of two fit into 64 bits. A larger one is reduced to the power of two
// that divides it, which is enough for vectors.
static int64_t bounded(int64_t divisor) {
    return divisor <= PASS_DIVISOR_MOST ? MAX_OF(divisor, 1)
                                        : pass_common_divisor(divisor, PASS_DIVISOR_MOST);
}

int64_t pass_divisor(expr e) {
    struct pass_range known = pass_range(e), by = e->args > 1 ? pass_range(e->arg[1]) : all;
    if (known.low == known.high && is_number(known.low))
        return known.low ? bounded(MAX_OF(known.low, -known.low)) : PASS_DIVISOR_MOST;
    if (e->op == TILE_SYMBOL || e->op == TILE_INDEX)
        return bounded(e->name->divisor);
    if (!tile_type_is_integer(e->type) || !e->args || e->op == TILE_LOAD)
        return 1;
    int64_t a = pass_divisor(e->arg[0]);
    switch (e->op) {
    case TILE_CAST:
        return pass_common_divisor(a, PASS_DIVISOR_MOST); // wrap-around keeps powers of two
    case TILE_MUL: return bounded(a * pass_divisor(e->arg[1]));
    case TILE_ADD:
    case TILE_SUB:
    case TILE_REM: return pass_common_divisor(a, pass_divisor(e->arg[1]));
    case TILE_FLOORDIV: return by.low == by.high && by.low > 0 && a % by.low == 0 ? a / by.low : 1;
    default: return 1;
    }
}

// Sets the range and divisor of a name that counts from the begin of a loop to less than its extent.
static void learn(const struct tile_stmt *s, int at) {
    struct tile_name *name = (struct tile_name *)s->name[at];
    if (s->step)
        name->divisor =
            pass_common_divisor(s->begin ? pass_divisor(s->begin) : PASS_DIVISOR_MOST, pass_divisor(s->step));
    struct pass_range end = pass_range(s->extent[at]),
                      begin = s->begin ? pass_range(s->begin) : (struct pass_range){0, 0};
    bool is_up = !s->step || pass_range(s->step).low > 0;
    if (is_up && is_number(end.high) && name->high > end.high - 1)
        name->high = end.high - 1;
    if (is_up && is_number(begin.low) && name->low < begin.low)
        name->low = begin.low;
}

void pass_learn(const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        for (int i = 0;
             (s->kind == TILE_MAP || s->kind == TILE_FOR || s->kind == TILE_GRID || s->kind == TILE_THREAD) &&
             i < s->indices;
             i++)
            learn(s, i);
        pass_learn(s->body);
        pass_learn(s->other);
    }
}

bool pass_narrow(const struct tile_stmt *map, expr mask, int64_t *end) {
    if (mask->op == TILE_AND)
        return pass_narrow(map, mask->arg[0], end) && pass_narrow(map, mask->arg[1], end);
    bool is_swapped = mask->op == TILE_GT || mask->op == TILE_GE;
    if (!is_swapped && mask->op != TILE_LT && mask->op != TILE_LE)
        return false;
    expr variable = mask->arg[is_swapped];
    int64_t limit = pass_number(mask->arg[!is_swapped]);
    int at = variable->op == TILE_INDEX && limit >= 0 ? map->indices - 1 : -1;
    while (at >= 0 && map->name[at] != variable->name)
        at--;
    if (at < 0 || end[at] < 0)
        return false;
    end[at] = MIN_OF(end[at], limit + (mask->op == TILE_LE || mask->op == TILE_GE));
    return true;
}
