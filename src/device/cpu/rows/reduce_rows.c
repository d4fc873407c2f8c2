// reduce_rows.c - reductions of elements that are close together in memory: each run of elements is reduced
// to one.
//
// The results of runs are joined as a tree, which keeps sums accurate. The reduced elements are divided into
// segments, which threads share if few elements are kept. The division depends on the number of reduced
// elements alone.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"

#include <string.h>

enum {
    TILE = 1024,                // elements gathered at once
    SLOTS = 64,                 // results of runs that are joined at once
    BLOCK = 256,                // kept elements whose accumulators are stored together
    SEGMENT = REDUCE_LINE_MOST, // elements of a piece that threads may share
    SEGMENTS = 256,             // pieces at most
};

struct slots {
    int used;
    _Alignas(64) char value[SLOTS * REDUCE_WIDEST];
    _Alignas(64) char tile[TILE * REDUCE_WIDEST];
};

// Reduces n elements, and prefetches some of those that follow.
static void call_run(const struct reduce_rows *by, char *to, const char *from, int64_t n, int64_t more) {
    POINTERS(p, 4) = {to, (char *)(uintptr_t)from};
    by->row(p, n, n + MIN_OF(more, CPU_AHEAD / by->item));
}

// Reduces n elements that are `stride` bytes apart into the next slot.
static void reduce_run(const struct reduce_rows *by, struct slots *s, const char *from, int64_t stride,
                       int64_t n, int64_t more) {
    if (s->used == SLOTS) {
        char joined[REDUCE_WIDEST];
        cpu_call_row(by->join, joined, s->value, NULL, NULL, SLOTS);
        memcpy(s->value, joined, (size_t)by->wide);
        s->used = 1;
    }
    if (stride != by->item) {
        cpu_move((size_t)by->item, s->tile, (struct stride2){0, by->item}, from, (struct stride2){0, stride},
                 1, n);
        from = s->tile;
    }
    call_run(by, s->value + s->used++ * by->wide, from, n, more);
}

void cpu_reduce_line(const struct reduce_rows *by, const char *from, int64_t n, int64_t more,
                     char *accumulator) {
    struct slots s;
    if (n <= REDUCE_RUN_MOST) {
        call_run(by, accumulator, from, n, more);
        return;
    }
    s.used = 0;
    for (int64_t i = 0; i < n; i += REDUCE_RUN_MOST) {
        const int64_t count = MIN_OF(REDUCE_RUN_MOST, n - i);
        reduce_run(by, &s, from + i * by->item, by->item, count, more ? more + n - i - count : 0);
    }
    cpu_call_row(by->join, accumulator, s.value, NULL, NULL, s.used);
}

// Reduces positions [at, end) of the reduced space, for the kept element at base, to one accumulator.
static void reduce_range(const struct reduction *r, const char *base, int64_t at, int64_t end, char *result) {
    const struct layout *l = &r->reduced;
    const struct layout_axis *inner = &l->axis[l->axes - 1];
    int64_t stride = inner->stride[0], most = stride == r->by.item ? REDUCE_RUN_MOST : TILE;
    if (l->axes == 1 && stride == r->by.item) {
        const char *from = base + at * stride, *to = base + end * stride;
        cpu_reduce_line(&r->by, from, end - at, r->end ? (r->end - to) / r->by.item : 0, result);
        return;
    }
    struct slots s;
    struct walk w;
    s.used = 0;
    cpu_walk_to(l, &w, at / inner->dim);
    for (int64_t i = at % inner->dim; at < end; i = 0) {
        int64_t run_end = MIN_OF(inner->dim, i + end - at);
        const char *row = base + (w.data[0] - l->data[0]);
        at += run_end - i;
        for (int64_t n; i < run_end; i += n) {
            n = MIN_OF(most, run_end - i);
            reduce_run(&r->by, &s, row + i * stride, stride, n, 0);
        }
        if (at < end)
            cpu_walk_next(l, &w);
    }
    cpu_call_row(r->by.join, result, s.value, NULL, NULL, s.used);
}

// Reduces all segments of a kept element and joins them.
static void reduce_all(const struct reduction *r, const char *base, char *result) {
    _Alignas(64) char partial[SEGMENTS * REDUCE_WIDEST];
    for (int64_t i = 0; i < r->segments; i++)
        reduce_range(r, base, cpu_reduce_segment(r, i), cpu_reduce_segment(r, i + 1),
                     partial + i * r->by.wide);
    cpu_call_row(r->by.join, result, partial, NULL, NULL, r->segments);
}

static void rows_part(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    struct walk w;
    _Alignas(64) char block[BLOCK * REDUCE_WIDEST];
    cpu_walk_to(&r->kept, &w, from);
    char *out = r->kept.data[REDUCE_OUT] + from * r->by.item;
    for (int64_t count; from < to; from += count, out += count * r->by.item) {
        count = MIN_OF(BLOCK, to - from);
        for (int64_t i = 0; i < count; i++) {
            if (r->segments == 1)
                reduce_range(r, w.data[REDUCE_IN], 0, r->reduced.size, block + i * r->by.wide);
            else
                reduce_all(r, w.data[REDUCE_IN], block + i * r->by.wide);
            if (from + i + 1 < to)
                cpu_walk_next(&r->kept, &w);
        }
        cpu_reduce_store(&r->by, out, block, count);
    }
}

// Reduces segments. Few elements are kept, so threads share the segments of each.
static void segments_part(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    for (; from < to; from++) {
        int64_t kept = from / r->segments, segment = from % r->segments;
        struct walk w;
        cpu_walk_to(&r->kept, &w, kept);
        reduce_range(r, w.data[REDUCE_IN], cpu_reduce_segment(r, segment), cpu_reduce_segment(r, segment + 1),
                     r->partial + from * r->by.wide);
    }
}

static void join_segments(const struct reduction *r) {
    for (int64_t i = 0; i < r->kept.size; i++) {
        char joined[REDUCE_WIDEST];
        cpu_call_row(r->by.join, joined, r->partial + i * r->segments * r->by.wide, NULL, NULL, r->segments);
        cpu_reduce_store(&r->by, r->kept.data[REDUCE_OUT] + i * r->by.item, joined, 1);
    }
}

// Returns the end of the input if it is contiguous in the order of reduction and larger than the last-level
// cache, so that prefetching pays; else NULL.
static const char *find_end(const struct reduction *r) {
    const int64_t bytes = r->kept.size * r->reduced.size * r->by.item;
    int64_t expected = r->by.item;
    if (bytes <= cpu_cache_bytes(3))
        return NULL;
    for (int j = r->reduced.axes - 1; j >= 0; expected *= r->reduced.axis[j--].dim)
        if (r->reduced.axis[j].stride[0] != expected)
            return NULL;
    for (int j = r->kept.axes - 1; j >= 0; expected *= r->kept.axis[j--].dim)
        if (r->kept.axis[j].stride[REDUCE_IN] != expected)
            return NULL;
    return r->kept.data[REDUCE_IN] + bytes;
}

bool cpu_reduce_by_rows(struct reduction *r) {
    int64_t kept = r->kept.size, size = r->reduced.size, grain = CPU_SPLIT / 2 / (size * r->by.item) + 1;
    r->reduced.loops = r->reduced.axes - 1;
    r->kept.loops = r->kept.axes;
    r->segments = MIN_OF(MAX_OF(size / SEGMENT, 1), SEGMENTS);
    r->end = find_end(r);
    if (r->segments == 1 || kept >= SLOTS) {
        cpu_split(kept, grain, rows_part, r);
        return true;
    }
    _Alignas(64) char room[SEGMENTS * REDUCE_WIDEST];
    r->partial = kept == 1 ? room : memory_alloc((size_t)(kept * r->segments * r->by.wide));
    if (!r->partial)
        return false;
    cpu_split(kept * r->segments, 1, segments_part, r);
    join_segments(r);
    if (kept != 1)
        memory_free(r->partial);
    return true;
}
