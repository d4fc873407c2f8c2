// layout.c - makes layouts, takes parts of them, and says where an element is as an expression.

#include "pass/layout.h"

#include <assert.h>

static const struct tile_type u32 = {TILE_UINT, 32, 1};

int layout_registers(const struct layout *l) {
    int count = 1;
    for (int i = 0; i < l->slots; i++)
        count *= l->slot[i].size;
    return count;
}

static bool same_digits(const struct layout_digit *a, const struct layout_digit *b, int count) {
    for (int i = 0; i < count; i++)
        if (a[i].axis != b[i].axis || a[i].size != b[i].size || a[i].step != b[i].step)
            return false;
    return true;
}

bool layout_equal(const struct layout *a, const struct layout *b) {
    return a->threads == b->threads && a->slots == b->slots &&
           same_digits(a->thread, b->thread, a->threads) && same_digits(a->slot, b->slot, a->slots);
}

int layout_below(const struct layout *l, int at) {
    int size = 1;
    for (int i = 0; i < at; i++)
        size *= l->thread[i].size;
    return size;
}

int layout_copies(const struct layout *l) {
    int count = 1;
    for (int i = 0; i < l->threads; i++)
        count *= l->thread[i].axis == LAYOUT_COPIES ? l->thread[i].size : 1;
    return count;
}

// Making ----------------------------------------------------------------------------------------------------

// Adds a digit, unless its size is 1. The step of copies is 0, so that equal layouts compare as equal.
static void add(struct layout_digit *list, int *count, int axis, int64_t size, int64_t step) {
    assert(*count < LAYOUT_DIGITS || size <= 1);
    if (size > 1)
        list[(*count)++] = (struct layout_digit){axis, (int)size, axis == LAYOUT_COPIES ? 0 : (int)step};
}

static void add_thread(struct layout *l, int axis, int64_t size, int64_t step) {
    add(l->thread, &l->threads, axis, size, step);
}

static void add_slot(struct layout *l, int axis, int64_t size, int64_t step) {
    add(l->slot, &l->slots, axis, size, step);
}

bool layout_blocked(struct layout *l, int axes, const int64_t *size, int threads, int along, int vector) {
    *l = (struct layout){0};
    if (!axes)
        return false;
    int64_t run = pass_common_divisor(size[axes - 1], vector);
    add_slot(l, axes - 1, run, 1);
    for (int axis = axes - 1; axis >= 0; axis--) {
        int64_t step = axis == axes - 1 ? run : 1, rest = size[axis] / step;
        int64_t taken = pass_common_divisor(rest, axis == axes - 1 ? MIN_OF(along, threads) : threads);
        add_thread(l, axis, taken, step);
        add_slot(l, axis, rest / taken, step * taken);
        threads /= (int)taken;
    }
    add_thread(l, LAYOUT_COPIES, threads, 0);
    return true;
}

bool layout_outer(struct layout *l, int64_t rows, int64_t columns, int threads) {
    *l = (struct layout){0};
    int64_t across = pass_common_divisor(columns, 16), down = threads / across;
    while (across < columns && down > rows)
        across *= 2, down /= 2;
    if (across * down != threads || rows % down || columns % across)
        return false;
    add_thread(l, 1, across, 1);
    add_thread(l, 0, down, 1);
    add_slot(l, 1, columns / across, across);
    add_slot(l, 0, rows / down, down);
    return true;
}

bool layout_matrix(struct layout *l, int64_t rows, int64_t columns, int down, int across) {
    *l = (struct layout){0};
    if (rows % (16 * down) || columns % (8 * across))
        return false;
    add_thread(l, 1, 4, 2);
    add_thread(l, 0, 8, 1);
    add_thread(l, 0, down, rows / down);
    add_thread(l, 1, across, columns / across);
    add_slot(l, 1, 2, 1);
    add_slot(l, 0, 2, 8);
    add_slot(l, 1, columns / across / 8, 8);
    add_slot(l, 0, rows / down / 16, 16);
    return true;
}

struct layout layout_project(const struct layout *l, const int *to) {
    struct layout part = {0};
    for (int i = 0; i < l->threads; i++) {
        const struct layout_digit *d = &l->thread[i];
        int axis = d->axis == LAYOUT_COPIES ? LAYOUT_COPIES : to[d->axis];
        add_thread(&part, axis, d->size, d->step);
    }
    for (int i = 0; i < l->slots; i++)
        if (to[l->slot[i].axis] != LAYOUT_COPIES)
            add_slot(&part, to[l->slot[i].axis], l->slot[i].size, l->slot[i].step);
    return part;
}

void layout_extend(struct layout *l, int axis, int64_t size, int64_t vector) {
    int64_t step = vector;
    add_slot(l, axis, vector, 1);
    for (int i = 0; i < l->threads; i++)
        if (l->thread[i].axis == LAYOUT_COPIES && size / step % l->thread[i].size == 0) {
            l->thread[i].axis = axis;
            l->thread[i].step = (int)step;
            step *= l->thread[i].size;
        }
    add_slot(l, axis, size / step, step);
}

// Expressions -----------------------------------------------------------------------------------------------

static expr number(int64_t value) {
    return tile_const_int(u32, value);
}

static expr times(expr e, int64_t factor) {
    return factor == 1 ? e : MUL(e, number(factor));
}

static expr plus(expr a, expr b) {
    return a ? ADD(a, b) : b;
}

expr layout_thread_digit(const struct layout *l, int at, expr thread) {
    int below = layout_below(l, at), size = l->thread[at].size;
    expr e = thread;
    if (below > 1)
        e = layout_is_power(below) ? SHR(e, number(layout_log(below))) : FLOORDIV(e, number(below));
    if (at + 1 == l->threads)
        return e;
    return layout_is_power(size) ? AND(e, number(size - 1)) : REM(e, number(size));
}

expr layout_index(const struct layout *l, int axis, expr thread, const expr *digit) {
    expr sum = NULL;
    for (int i = 0; i < l->threads; i++)
        if (l->thread[i].axis == axis)
            sum = plus(sum, times(layout_thread_digit(l, i, thread), l->thread[i].step));
    for (int i = 0; i < l->slots; i++)
        if (l->slot[i].axis == axis)
            sum = plus(sum, times(digit[i], l->slot[i].step));
    return sum ? sum : number(0);
}

expr layout_register(const struct layout *part, const struct layout *whole, const int *to,
                     const expr *digit) {
    expr sum = NULL;
    int weight = 1, at = 0;
    for (int i = 0; i < whole->slots && at < part->slots; i++)
        if (to[whole->slot[i].axis] != LAYOUT_COPIES) {
            sum = plus(sum, times(digit[i], weight));
            weight *= part->slot[at++].size;
        }
    return sum ? sum : number(0);
}

expr layout_first(const struct layout *l, expr thread) {
    expr test = NULL;
    for (int i = 0; i < l->threads; i++)
        if (l->thread[i].axis == LAYOUT_COPIES) {
            expr is_zero = EQ(layout_thread_digit(l, i, thread), number(0));
            test = test ? AND(test, is_zero) : is_zero;
        }
    return test;
}
