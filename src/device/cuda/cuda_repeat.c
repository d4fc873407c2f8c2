// cuda_repeat.c - a launch, or a library's work, that is asked for again with the same memory: as a graph of
// its own.
//
// A program that is evaluated again and again gets the same memory in turns. On an H200 the driver takes a
// graph in a third of the time of a launch, and in a fifth of that of a product by cuBLASLt. What came last
// is kept in a table, in the row of places that its hash says.

#include "device/cuda/cuda_queue.h"

#include <string.h>

enum {
    PLACES = 256, // in rows of ROW, of which a hash means one
    ROW = 4,
    ROOM = 256, // bytes of arguments that a place holds
    WARM = 3,   // times that it came before it is a graph
    STAYS = 8,  // others that come to its row before it has to go
    RELAXED = 2,
};

struct cuda_repeat {
    struct cuda_command c;
    cuda_graph_exec exec; // NULL: not yet
    uint64_t hash;
    int uses, misses;
    bool refused; // it cannot be a graph
    _Alignas(16) char data[ROOM];
};

static uint64_t hash_of(const struct cuda_command *c, const char *data) {
    const uintptr_t what[] = {(uintptr_t)c->f, (uintptr_t)c->run, c->groups, c->threads};
    return hash_bytes(data, (size_t)c->bytes, hash_bytes(what, sizeof what, 0));
}

static bool is_at(const struct cuda_repeat *r, const struct cuda_command *c, const char *data,
                  uint64_t hash) {
    return r->hash == hash && r->c.f == c->f && r->c.run == c->run && r->c.groups == c->groups &&
           r->c.threads == c->threads && r->c.shared == c->shared && r->c.bytes == c->bytes &&
           !memcmp(r->data, data, (size_t)c->bytes);
}

static void drop(struct cuda_repeat *r) {
    if (r->exec)
        cuda_api()->cuGraphExecDestroy(r->exec);
    *r = (struct cuda_repeat){0};
}

static void make(struct cuda_repeat *r, cuda_stream spare) {
    const struct cuda_api *api = cuda_api();
    cuda_graph graph = NULL;
    r->refused = true;
    if (api->cuStreamBeginCapture_v2(spare, RELAXED))
        return;
    bool good = cuda_command_give(&r->c, r->data, spare);
    good = !api->cuStreamEndCapture(spare, &graph) && good && graph;
    r->refused = !good || api->cuGraphInstantiateWithFlags(&r->exec, graph, 0);
    if (r->refused)
        r->exec = NULL;
    if (graph)
        api->cuGraphDestroy(graph);
}

// The place of a row for a new one: what came least often and is no graph, or a graph that nobody asks for.
// NULL: there is none.
static struct cuda_repeat *make_room(struct cuda_repeat *row) {
    struct cuda_repeat *best = NULL;
    for (struct cuda_repeat *r = row; r < row + ROW; r++) {
        bool may_go = !r->exec || ++r->misses >= STAYS;
        if (may_go && (!best || r->uses < best->uses))
            best = r;
    }
    return best;
}

// The place of the command if it came before, else one that is its own now, or NULL.
static struct cuda_repeat *find(struct cuda_repeat *table, const struct cuda_command *c, const char *data) {
    uint64_t hash = hash_of(c, data);
    struct cuda_repeat *row = &table[hash % (PLACES / ROW) * ROW];
    for (struct cuda_repeat *r = row; r < row + ROW; r++)
        if (is_at(r, c, data, hash)) {
            r->misses = 0;
            return r;
        }
    struct cuda_repeat *r = make_room(row);
    if (!r)
        return NULL;
    drop(r);
    r->c = *c;
    r->c.at = 0;
    r->hash = hash;
    memcpy(r->data, data, (size_t)c->bytes);
    return r;
}

bool cuda_repeat_give(struct cuda_repeat **table, const struct cuda_command *c, const char *data,
                      cuda_stream s, cuda_stream spare) {
    bool had_error = zl_error();
    if (c->bytes > ROOM)
        return false;
    if (!*table && !(*table = memory_zero(sizeof **table * PLACES))) {
        if (!had_error)
            zl_clear_error();
        return false;
    }
    struct cuda_repeat *r = find(*table, c, data);
    if (!r || r->refused)
        return false;
    if (!r->exec && ++r->uses > WARM)
        make(r, spare);
    bool given = r->exec && !cuda_api()->cuGraphLaunch(r->exec, s);
    if (given)
        counter_add(COUNTER_GRAPHS, 1);
    else if (!had_error)
        zl_clear_error(); // it is asked for in the plain way
    return given;
}
