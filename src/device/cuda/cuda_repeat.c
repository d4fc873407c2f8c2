// cuda_repeat.c - submits a launch, or a library call, that is repeated with the same memory as a graph of
// its own.
//
// A program that is evaluated repeatedly gets the same sets of memory in turn. On an H200, the driver takes a
// graph in a third of the time of a launch, and in a fifth of that of a product by cuBLASLt. Recent commands
// are kept in a hash table, whose rows have ROW places each.

#include "device/cuda/cuda_queue.h"

#include <string.h>

enum {
    PLACES = 256, // all places of the table
    ROW = 4,
    ROOM = 256, // bytes of arguments that a place can hold
    WARM = 3,   // uses before a graph is made
    STAYS = 8,  // other commands that come to its row before a graph may be replaced
    RELAXED = 2,
};

struct cuda_repeat {
    struct cuda_command c;
    cuda_graph_exec exec; // NULL: not made yet
    uint64_t hash;
    int uses, misses;
    bool refused; // the command cannot be captured
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

// Returns the place in a row for a new command: the least used one without a graph, or with a graph that was
// not used for long. Returns NULL if there is none.
static struct cuda_repeat *make_room(struct cuda_repeat *row) {
    struct cuda_repeat *best = NULL;
    for (struct cuda_repeat *r = row; r < row + ROW; r++) {
        bool may_go = !r->exec || ++r->misses >= STAYS;
        if (may_go && (!best || r->uses < best->uses))
            best = r;
    }
    return best;
}

// Returns the place of a command that was seen before, else a place that becomes the command's, or NULL.
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
        zl_clear_error(); // the caller submits the command as usual
    return given;
}
