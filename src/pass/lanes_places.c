// lanes_places.c - addresses of tiles in the lanes: tiles that are not used at the same time share memory.
//
// A tile is in use from its first command to its last; within a loop that it lives longer than, for the whole loop. Tiles are placed
// in the order in which they begin, each as low as it can be.

#include "pass/lanes.h"

#include <stdlib.h>
#include <string.h>

struct place {
    const struct tile_buffer *buffer; // NULL: none of that id
    int first, last;                  // numbers of statements; first 0: not used
    int made;                     // the loop, by number of its first statement, that it is made in; 0: none
    const struct tile_stmt *user; // the first that uses it
    int64_t bytes, address;
};

struct places {
    struct lanes *lanes;
    struct place *of; // by id of buffer
    int buffers, count, now;
    const struct tile_stmt *at;        // statement number now
    int loop[64], loop_end[64], loops; // that are open: where each begins
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

// A loop ends: what is used in it, and was made before it, is used up to here.
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
        bool is_loop = (s->kind == TILE_FOR || s->kind == TILE_WHILE || s->kind == TILE_GRID) &&
                       p->loops < (int)COUNT(p->loop);
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

static int by_first(const void *a, const void *b) {
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

// The lowest address at which a tile meets no other that is used at the same time.
static int64_t lowest(struct place **list, int count, const struct place *tile) {
    int64_t address = 0;
    for (int i = 0; i < count; i++) {
        const struct place *other = list[i];
        bool meets = other->last >= tile->first && other->address < address + tile->bytes &&
                     address < other->address + other->bytes;
        if (meets) {
            address = other->address + other->bytes;
            i = -1;
        }
    }
    return address;
}

// Bytes of all tiles that are in use when one of them begins to be.
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

static bool assign(struct places *p) {
    struct place **list = memory_zero(sizeof *list * (size_t)(p->buffers + 1));
    int count = 0;
    bool good = list != NULL;
    for (int i = 0; good && i < p->buffers; i++)
        if (p->of[i].buffer && p->of[i].first)
            list[count++] = &p->of[i];
    if (good)
        qsort(list, (size_t)count, sizeof *list, by_first);
    for (int i = 0; good && i < count; i++) {
        list[i]->address = lowest(list, i, list[i]);
        if (list[i]->address + list[i]->bytes > p->lanes->target->lanes->bytes)
            good = refuse(p, list, count, list[i]);
    }
    memory_free(list);
    return good;
}

static expr replaced(void *data, expr e) {
    struct places *p = data;
    const struct place *at =
        e->op == TILE_ADDRESS && e->buffer->id < p->buffers ? &p->of[e->buffer->id] : NULL;
    return at && at->buffer ? lanes_number(at->address) : pass_rebuild(e, replaced, data);
}

static void replace(expr *place, void *data) {
    expr e = replaced(data, *place);
    if (e)
        *place = e;
}

static bool is_tile(void *data, const struct tile_stmt *s) {
    (void)data;
    return s->kind == TILE_ALLOC && lanes_is_local(s->buffer); // it has an address instead
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
