// kernels_argreduce.c - the positions of the smallest and the largest elements along an axis, by
// src/kernel/argreduce.tile. If there are few long lines, each is cut into parts, so that the whole device
// has work; a second launch finds the best of the results of the parts.

#include "device/kernels/kernels.h"

enum {
    SUBGROUP = 32,
    FEW = 8,           // lines of up to this many elements have one thread each
    EACH = 4,          // least elements per thread in a part, if threads share a line
    EACH_ALONE = 64,   // the same if a thread has a line to itself
    PARTS_MOST = 1024, // the most parts of a line
    BUSY = 1 << 18,    // threads that fill a device
};

struct search {
    const struct kernel_place *place;
    const struct call *call;
    struct kernel_layout lines;
    int64_t step; // distance between neighbouring elements of a line
};

// One launch. It finds the best of the n elements of each part of each line, or of n positions that an
// earlier launch found.
struct search_launch {
    int64_t n, parts, each;
    int lanes;
    void *given,
        *to; // given: positions of an earlier launch, or NULL; to: memory for the parts' positions, or NULL
             // for the result
};

bool kernel_can_argreduce(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    return !array_is(c->in[0], ARRAY_INLINE) && tile_row_takes(TILE_LT, dtype) &&
           c->in[0]->dim[call_args(c)[1]] < INT32_MAX;
}

static int lanes_of_line(int64_t n) {
    return n <= FEW ? 1 : n <= 16 * SUBGROUP ? SUBGROUP : KERNEL_THREADS;
}

// Returns how many threads share a line. Neighbouring threads read neighbouring elements: of one line or,
// with one thread per line, of neighbouring lines.
static int lanes_for(const struct search *s, int64_t n) {
    const struct kernel_layout *l = &s->lines;
    bool columns = l->axes && l->stride[0][l->axes - 1] == 1 && s->step != 1 && l->size >= KERNEL_THREADS;
    return columns ? 1 : lanes_of_line(n);
}

static struct search_launch cut(const struct search *s, int64_t n) {
    int lanes = lanes_for(s, n);
    int64_t least = lanes == 1 ? EACH_ALONE : EACH * lanes;
    int64_t parts = MIN_OF(BUSY / MAX_OF(s->lines.size * lanes, 1), n / least);
    parts = MAX_OF(MIN_OF(parts, PARTS_MOST), 1);
    int64_t each = (n + parts - 1) / parts;
    return (struct search_launch){.n = n, .parts = (n + each - 1) / each, .each = each, .lanes = lanes};
}

static size_t bytes_of_positions(const struct search *s, int64_t each) {
    return (size_t)(s->lines.size * each) * sizeof(uint32_t);
}

static bool launch(const struct search *s, const struct search_launch *k) {
    zl_array x = s->call->in[0];
    struct kernel_work w;
    work_open(&w, s->place, s->call->op->name);
    WORK_SIZES(&w, s->lines.size, k->n, k->parts, k->each, layout_inner(&s->lines));
    work_array(&w, x);
    work_table(&w, &s->lines);
    work_int(&w, s->step);
    if (k->given)
        work_bytes(&w, k->given, bytes_of_positions(s, k->n));
    else
        work_place(&w, x); // a placeholder, which is not read
    WORK_SIZES(&w, k->given ? s->lines.size * k->n : 0);
    if (k->to)
        work_bytes(&w, k->to, bytes_of_positions(s, k->parts));
    else
        work_result(&w, call_first(s->call));
    w.wide |= x->size > KERNEL_NARROW;
    int rounds = k->lanes == 1 ? 0 : k->lanes == SUBGROUP ? 5 : 8;
    return WORK_FILE(&w, "argreduce", "ITEM=%t,BETTER=%o,LANES=%d,ROUNDS=%d,JOIN=%d,%i", x->dtype,
                     call_args(s->call)[0] ? TILE_GT : TILE_LT, k->lanes, rounds, k->given != NULL);
}

static bool launch_parts(const struct search *s, struct search_launch *k) {
    struct kernel_scratch room = {0};
    struct search_launch join = {
        .n = k->parts, .parts = 1, .each = k->parts, .lanes = lanes_of_line(k->parts)};
    join.given = k->to = kernel_scratch_open(s->place, &room, bytes_of_positions(s, k->parts));
    bool done = k->to && launch(s, k) && launch(s, &join);
    kernel_scratch_close(s->place, &room);
    return done;
}

bool kernel_argreduce(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0];
    int axis = (int)call_args(c)[1];
    struct search s = {.place = p, .call = c, .step = array_stride(x)[axis]};
    kernel_layout_begin(&s.lines, 1);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            kernel_layout_push(&s.lines, x->dim[i], &array_stride(x)[i]);
    struct search_launch k = cut(&s, x->dim[axis]);
    return k.parts > 1 ? launch_parts(&s, &k) : launch(&s, &k);
}
