// bounds.c - what is known of integers without running the kernel: the least and the most that an index can be. Indices
// are thought not to wrap around: a kernel whose do has no meaning.

#include "pass/pass.h"

enum { LEAST = 0, MOST = 1 };
static const struct pass_range all = {INT64_MIN, INT64_MAX};

static bool is_number(int64_t x) {
    return x != INT64_MIN && x != INT64_MAX;
}

// What is not known stays so; so does what leaves the numbers.
static int64_t sum(int64_t a, int64_t b, int end) {
    int64_t result, unknown = end == MOST ? INT64_MAX : INT64_MIN;
    return is_number(a) && is_number(b) && !__builtin_add_overflow(a, b, &result) ? result : unknown;
}

static int64_t negative(int64_t x) {
    return x == INT64_MIN ? INT64_MAX : x == INT64_MAX ? INT64_MIN : -x;
}

// Of numbers that are not negative, which sizes and positions are.
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

static int64_t floor_of(int64_t a, int64_t b) {
    return is_number(a) ? a / b - (a % b < 0) : a;
}

static struct pass_range divide(struct pass_range a, struct pass_range b) {
    if (b.low != b.high || b.low <= 0)
        return b.low > 0 && a.low >= 0 ? (struct pass_range){0, a.high} : all;
    return (struct pass_range){floor_of(a.low, b.low), floor_of(a.high, b.low)};
}

// x % y has the sign of y.
static struct pass_range remainder_of(struct pass_range a, struct pass_range b) {
    if (b.low <= 0)
        return all;
    bool stays = a.low >= 0 && a.high < b.low;
    return stays ? a : (struct pass_range){0, sum(b.high, -1, MOST)};
}

static struct pass_range range_of_op(expr e) {
    struct pass_range a = pass_range(e->arg[0]), b = e->args > 1 ? pass_range(e->arg[1]) : a;
    switch (e->op) {
    case TILE_ADD: return (struct pass_range){sum(a.low, b.low, LEAST), sum(a.high, b.high, MOST)};
    case TILE_SUB:
        return (struct pass_range){sum(a.low, negative(b.high), LEAST), sum(a.high, negative(b.low), MOST)};
    case TILE_MUL: return multiply(a, b);
    case TILE_FLOORDIV: return divide(a, b);
    case TILE_REM: return remainder_of(a, b);
    case TILE_MAX: return (struct pass_range){MAX_OF(a.low, b.low), MAX_OF(a.high, b.high)};
    case TILE_MIN: return (struct pass_range){MIN_OF(a.low, b.low), MIN_OF(a.high, b.high)};
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

struct pass_range pass_range(expr e) {
    if (!tile_type_is_integer(e->type) || e->type.bits < 32)
        return all;
    if (e->op == TILE_CONST) {
        int64_t value = tile_value_of(e->type, e->bits).i;
        return (struct pass_range){value, value};
    }
    if (e->op == TILE_INDEX || e->op == TILE_SYMBOL)
        return (struct pass_range){e->name->low, e->name->high};
    return e->args && e->op != TILE_LOAD ? range_of_op(e) : all;
}

// A name that counts from something to less than its extent.
static void learn(const struct tile_stmt *s, int at) {
    struct tile_name *name = (struct tile_name *)s->name[at];
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
