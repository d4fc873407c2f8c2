// lanes_places.c - assigns addresses in the lanes to tiles; tiles that are not in use at the same time share
// memory.
//
// A tile is in use from its first command to its last, and during the whole of a loop that it outlives. Tiles
// are placed one after the other, each at the lowest address that is free, in the one of several orders that
// takes least memory. Where no tile reaches across an address, the tiles from there on then move up to the
// next bank, as long as there is room.

#include "pass/lanes.h"

#include <stdlib.h>
#include <string.h>

struct place {
    const struct tile_buffer *buffer; // NULL: there is no tile with this id
    int first, last;                  // numbers of statements; first 0: not used
    int made;                     // the loop that allocates it, by the number of its first statement; 0: none
    const struct tile_stmt *user; // the first statement that uses it
    int64_t bytes, address;
    int64_t packed; // the address before tiles move to other banks
};

struct places {
    struct lanes *lanes;
    struct place *of; // by id of buffer
    int buffers, count, now;
    const struct tile_stmt *at; // the statement with the number `now`
    int loop[64], loops;        // the numbers of the statements that begin the open loops
    bool good;
};

static void use(struct places *p, const struct tile_buffer *b) {
    struct place *at = b->id < p->buffers ? &p->of[b->id] : NULL;
    if (!at || !at->buffer)
        return;
    int first = p->now;
    at->user = at->user ? at->user : p->at;
    for (int i = p->loops - 1; i >= 0 && p->loop[i] > at->made; i--)
        first = p->loop[i];
    at->first = at->first ? MIN_OF(at->first, first) : first;
    at->last = MAX_OF(at->last, p->now);
}

static bool visit(expr e, const void *data) {
    if (e->op == TILE_ADDRESS)
        use((struct places *)data, e->buffer);
    return false;
}

// Ends a loop: tiles that are used in it and were allocated before it are in use up to here.
static void extend(struct places *p, int begin) {
    for (int i = 0; i < p->buffers; i++)
        if (p->of[i].buffer && p->of[i].first && p->of[i].last >= begin && p->of[i].made < begin)
            p->of[i].last = p->now;
}

static void number(struct places *p, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        p->now++;
        p->at = s;
        if (s->kind == TILE_ALLOC && lanes_is_local(s->buffer)) {
            struct lane_tile tile;
            p->lanes->at = s;
            p->good = p->good && lanes_tile(p->lanes, s->buffer, &tile);
            p->of[s->buffer->id] = (struct place){
                .buffer = s->buffer, .bytes = tile.bytes, .made = p->loops ? p->loop[p->loops - 1] : 0};
        }
        for (int i = 0; i < count; i++)
            pass_any(list[i], visit, p);
        bool is_loop = s->kind == TILE_FOR || s->kind == TILE_WHILE || s->kind == TILE_GRID;
        if (is_loop && p->loops == (int)COUNT(p->loop)) {
            p->lanes->at = s;
            p->good =
                p->good && lanes_fail(p->lanes, "takes at most %d loops inside of each other", p->loops);
            return;
        }
        int begin = p->now;
        if (is_loop)
            p->loop[p->loops++] = begin;
        number(p, s->body);
        number(p, s->other);
        if (is_loop) {
            p->now++;
            p->loops--;
            extend(p, begin);
        }
    }
}

typedef int order(const void *a, const void *b);

static int by_first(const void *a, const void *b) {
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int by_bytes(const void *a, const void *b) {
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : by_first(a, b);
}

// Orders tiles by size times duration, the largest first.
static int by_area(const void *a, const void *b) {
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    int64_t of_x = x->bytes * (x->last - x->first + 1), of_y = y->bytes * (y->last - y->first + 1);
    return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : by_first(a, b);
}

// Orders tiles by duration, the longest first.
static int by_length(const void *a, const void *b) {
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    int of_x = x->last - x->first, of_y = y->last - y->first;
    return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : by_bytes(a, b);
}

static bool meet(const struct place *a, const struct place *b) { // in use at the same time
    return a->last >= b->first && b->last >= a->first;
}

// Returns the lowest address at which the tile overlaps no tile that is in use at the same time (first fit).
static int64_t lowest(struct place **list, int count, const struct place *tile) {
    int64_t address = 0;
    for (int i = 0; i < count; i++) {
        const struct place *other = list[i];
        if (meet(other, tile) && other->packed < address + tile->bytes &&
            address < other->packed + other->bytes) {
            address = other->packed + other->bytes;
            i = -1;
        }
    }
    return address;
}

// Places all tiles in an order. Returns the end of the highest one.
static int64_t pack(struct place **list, int count, order *before) {
    int64_t end = 0;
    qsort(list, (size_t)count, sizeof *list, before);
    for (int i = 0; i < count; i++) {
        list[i]->packed = lowest(list, i, list[i]);
        end = MAX_OF(end, list[i]->packed + list[i]->bytes);
    }
    return end;
}

// Returns the bytes of all tiles that are in use when the use of one of them begins.
static int64_t used_with(struct place **list, int count, const struct place *tile) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += list[i]->first <= tile->first && list[i]->last >= tile->first ? list[i]->bytes : 0;
    return bytes;
}

static bool refuse(struct places *p, struct place **list, int count, const struct place *tile) {
    int64_t needed = used_with(list, count, tile), bytes = p->lanes->target->lanes->bytes;
    bool is_command = tile->user && tile->user->kind == TILE_COMMAND;
    p->lanes->at = tile->user;
    return lanes_fail(p->lanes, "has %lld bytes in each lane, and %s needs %lld, of which '%s' takes %lld%s",
                      (long long)bytes, is_command ? tile->user->message : "it", (long long)needed,
                      tile->buffer->text, (long long)tile->bytes,
                      needed <= bytes ? ", which are not left in one piece" : "");
}

static int64_t most_used(struct place **list, int count) {
    int64_t most = 0;
    for (int i = 0; i < count; i++)
        most = MAX_OF(most, used_with(list, count, list[i]));
    return most;
}

// Places all tiles in the best of some orders, or in the first one if there are many, because each order
// takes time.
static int64_t pack_best(struct place **list, int count, int64_t live) {
    static order *const orders[] = {by_first, by_area, by_bytes, by_length};
    enum { MANY = 600 };
    int best = 0;
    int64_t least = pack(list, count, orders[0]);
    for (int i = 1; i < (int)COUNT(orders) && least > live && count <= MANY; i++) {
        int64_t end = pack(list, count, orders[i]);
        if (end < least) {
            least = end;
            best = i;
        }
    }
    return pack(list, count, orders[best]);
}

static int by_packed(const void *a, const void *b) {
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    return x->packed != y->packed ? (x->packed > y->packed) - (x->packed < y->packed) : by_first(a, b);
}

// Sets the addresses of tiles. Where no tile reaches across an address, the tiles from there on move up to
// the next bank, as long as all of them fit.
static void spread(struct place **list, int count, int64_t end, const struct target_lanes *lanes) {
    int64_t bank = lanes->bytes / MAX_OF(lanes->banks, 1), reach = 0, shift = 0;
    qsort(list, (size_t)count, sizeof *list, by_packed);
    for (int i = 0; i < count; i++) {
        int64_t at = list[i]->packed + shift, next = lanes_round(at, bank);
        if (list[i]->packed >= reach && next - at + shift + end <= lanes->bytes)
            shift += next - at;
        list[i]->address = list[i]->packed + shift;
        reach = MAX_OF(reach, list[i]->packed + list[i]->bytes);
    }
}

static bool assign(struct places *p) {
    const struct target_lanes *lanes = p->lanes->target->lanes;
    struct place **list = memory_zero(sizeof *list * (size_t)(p->buffers + 1));
    int count = 0;
    for (int i = 0; list && i < p->buffers; i++)
        if (p->of[i].buffer && p->of[i].first)
            list[count++] = &p->of[i];
    struct tile_kernel *kernel = tile_current();
    kernel->live_bytes = list ? most_used(list, count) : 0;
    kernel->lane_bytes = list ? pack_best(list, count, kernel->live_bytes) : 0;
    bool good = list;
    for (int i = 0; good && i < count; i++)
        if (list[i]->packed + list[i]->bytes > lanes->bytes)
            good = refuse(p, list, count, list[i]);
    if (good)
        spread(list, count, kernel->lane_bytes, lanes);
    memory_free(list);
    return good;
}

static expr replaced(void *data, expr e) {
    struct places *p = data;
    const struct place *at =
        e->op == TILE_ADDRESS && e->buffer->id < p->buffers ? &p->of[e->buffer->id] : NULL;
    return at && at->buffer ? lanes_number(at->address) : pass_rebuild(e, replaced, data);
}

static bool is_address(expr e, const void *data) {
    (void)data;
    return e->op == TILE_ADDRESS;
}

static void replace(expr *place, void *data) {
    expr e = pass_any(*place, is_address, NULL) ? replaced(data, *place) : NULL; // most formulas have none
    if (e)
        *place = e;
}

static bool is_tile(void *data, const struct tile_stmt *s) {
    (void)data;
    return s->kind == TILE_ALLOC && lanes_is_local(s->buffer); // every use has its address instead
}

bool lanes_assign(struct lanes *l, struct tile_kernel *kernel) {
    struct places p = {.lanes = l, .buffers = kernel->buffers, .good = true};
    p.of = memory_zero(sizeof *p.of * (size_t)(kernel->buffers + 1));
    if (!p.of)
        return false;
    tile_resume(kernel);
    number(&p, kernel->body);
    bool good = p.good && assign(&p);
    if (good)
        pass_each_expr(kernel->body, replace, &p);
    tile_suspend();
    good = good && pass_emit_kernel(kernel, is_tile, NULL);
    memory_free(p.of);
    return good && !kernel->failed;
}
