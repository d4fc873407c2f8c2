// cuda_graph.c - runs a list of launches as a CUDA graph, whose arguments change from run to run.
//
// A command waits only for earlier commands that touch the same memory, if one of the two writes it. A launch
// whose arguments have changed since the last run is updated in the graph. Work of libraries cannot be
// updated: it has to be the same.

#include "device/cuda/cuda_queue.h"

#include <string.h>

enum { LEAST = 2, MADE_MOST = 64, RELAXED = 2 };

static const char *data_of(const struct cuda_list *l, int i) {
    return l->data + l->command[i].at;
}

// Comparing -------------------------------------------------------------------------------------------------

static bool is_same(const struct cuda_list *a, const struct cuda_list *b, int i) {
    const struct cuda_command *x = &a->command[i], *y = &b->command[i];
    return x->f == y->f && x->run == y->run && x->groups == y->groups && x->threads == y->threads &&
           x->shared == y->shared && x->bytes == y->bytes &&
           !memcmp(data_of(a, i), data_of(b, i), (size_t)x->bytes);
}

// Returns whether the list has the same functions in the same order as the variant, the same library work,
// and the same dependencies.
static bool is_alike(const struct variant *v, const struct cuda_list *b, const uint64_t *after) {
    const struct cuda_list *a = v->list;
    if (a->count != b->count || memcmp(v->after, after, sizeof *after * (size_t)a->count) != 0)
        return false;
    for (int i = 0; i < a->count; i++)
        if (a->command[i].f != b->command[i].f || a->command[i].bytes != b->command[i].bytes ||
            (!a->command[i].f && !is_same(a, b, i)))
            return false;
    return true;
}

static bool was_seen(const struct cuda_graph_of *g, const struct cuda_list *l, int i) {
    for (int k = 0; k < CUDA_VARIANTS; k++)
        if (g->variant[k].list && g->variant[k].list->count > i && is_same(g->variant[k].list, l, i))
            return true;
    return false;
}

static int find_fresh(const struct cuda_graph_of *g, const struct cuda_list *l) {
    for (int i = 0, works = 0; i < l->count; i++)
        if (!l->command[i].f && works++ >= 0 && !was_seen(g, l, i))
            return works - 1;
    return -1;
}

// Order -----------------------------------------------------------------------------------------------------

_Static_assert(CUDA_LIST <= 64, "a command of a list is a bit");

static bool have_in_common(const struct cuda_range *a, const struct cuda_range *b) {
    return (a->is_written || b->is_written) && a->begin < b->end && b->begin < a->end;
}

static bool must_wait(const struct cuda_list *l, int later, int earlier) {
    const struct cuda_command *a = &l->command[later], *b = &l->command[earlier];
    for (int i = 0; i < a->ranges; i++)
        for (int k = 0; k < b->ranges; k++)
            if (have_in_common(&l->range[a->range + i], &l->range[b->range + k]))
                return true;
    return false;
}

// Finds which commands each command must wait for, without those that another of them already waits for
// (transitive reduction).
static void find_order(const struct cuda_list *l, uint64_t *after) {
    uint64_t before[CUDA_LIST]; // all commands that are done when a command begins
    for (int i = 0; i < l->count; i++) {
        after[i] = before[i] = 0;
        uint64_t all = ((uint64_t)1 << i) - 1;
        for (int k = i - 1; k >= 0 && before[i] != all; k--)
            if (!(before[i] >> k & 1) && must_wait(l, i, k)) {
                after[i] |= (uint64_t)1 << k;
                before[i] |= (uint64_t)1 << k | before[k];
            }
    }
}

// Making ----------------------------------------------------------------------------------------------------

static struct cuda_node_launch node_launch(const struct cuda_list *l, int i, void **argument) {
    const struct cuda_command *c = &l->command[i];
    cuda_command_arguments(c, l->data, argument);
    return (struct cuda_node_launch){.f = c->f,
                                     .grid = {c->groups, 1, 1},
                                     .block = {c->threads, 1, 1},
                                     .shared = c->shared,
                                     .argument = argument};
}

// Adds work of a library: it is captured on a stream that nothing else uses, and becomes a child graph.
static bool add_work(struct variant *v, int i, int waits, const cuda_graph_node *after, cuda_stream spare) {
    const struct cuda_api *api = cuda_api();
    cuda_graph child = NULL;
    if (api->cuStreamBeginCapture_v2(spare, RELAXED))
        return false;
    bool good = !v->list->command[i].run(data_of(v->list, i), spare);
    good = !api->cuStreamEndCapture(spare, &child) && good && child &&
           !api->cuGraphAddChildGraphNode(&v->node[i], v->graph, after, (size_t)waits, child);
    if (child)
        api->cuGraphDestroy(child);
    return good;
}

static bool add_launch(struct variant *v, int i, int waits, const cuda_graph_node *after) {
    void *argument[CUDA_ARGUMENTS];
    struct cuda_node_launch l = node_launch(v->list, i, argument);
    return !cuda_api()->cuGraphAddKernelNode_v2(&v->node[i], v->graph, after, (size_t)waits, &l);
}

static bool add_nodes(struct variant *v, cuda_stream spare) {
    for (int i = 0; i < v->list->count; i++) {
        cuda_graph_node after[CUDA_LIST];
        int waits = 0;
        for (int k = 0; k < i; k++)
            if (v->after[i] >> k & 1)
                after[waits++] = v->node[k];
        if (!(v->list->command[i].f ? add_launch(v, i, waits, after) : add_work(v, i, waits, after, spare)))
            return false;
    }
    return true;
}

static bool make(struct variant *v, cuda_stream spare) {
    const struct cuda_api *api = cuda_api();
    if (!(v->node = memory_zero(sizeof *v->node * CUDA_LIST)))
        return false;
    return !api->cuGraphCreate(&v->graph, 0) && add_nodes(v, spare) &&
           !api->cuGraphInstantiateWithFlags(&v->exec, v->graph, 0);
}

// Running ---------------------------------------------------------------------------------------------------

static void copy_command(struct cuda_list *to, const struct cuda_list *from, int i) {
    to->command[i] = from->command[i];
    memcpy(to->data + from->command[i].at, data_of(from, i), (size_t)from->command[i].bytes);
}

static bool keep_list(struct variant *v, const struct cuda_list *from, const uint64_t *after) {
    size_t bytes = sizeof *from + (size_t)from->bytes;
    memcpy(v->after, after, sizeof *after * (size_t)from->count);
    if (!v->list || v->list->bytes != from->bytes) {
        memory_free(v->list);
        v->list = memory_alloc(bytes);
    }
    return v->list && memcpy(v->list, from, bytes);
}

// Updates the launches of an existing graph that differ from the list. Their functions and argument sizes are
// the same, so each argument stays at its place in the list's data.
static bool update(struct variant *v, const struct cuda_list *l) {
    for (int i = 0; i < l->count; i++) {
        void *argument[CUDA_ARGUMENTS];
        if (is_same(v->list, l, i))
            continue;
        struct cuda_node_launch n = node_launch(l, i, argument);
        if (cuda_api()->cuGraphExecKernelNodeSetParams_v2(v->exec, v->node[i], &n))
            return false;
        copy_command(v->list, l, i);
    }
    return true;
}

static void drop_exec(struct variant *v) {
    if (v->exec)
        cuda_api()->cuGraphExecDestroy(v->exec);
    if (v->graph)
        cuda_api()->cuGraphDestroy(v->graph);
    memory_free(v->node);
    v->graph = NULL;
    v->exec = NULL;
    v->node = NULL;
}

// Counts commands that differ, up to `most`.
static int count_changes(const struct cuda_list *a, const struct cuda_list *b, int most) {
    int count = 0;
    for (int i = 0; i < a->count && count < most; i++)
        count += !is_same(a, b, i);
    return count;
}

// Returns the graph that does exactly what the list does, or NULL.
static struct variant *find_same(struct cuda_graph_of *g, const struct cuda_list *l) {
    for (int i = 0; i < CUDA_VARIANTS; i++) {
        struct variant *v = &g->variant[i];
        int same = 0;
        if (!v->exec || v->list->count != l->count)
            continue;
        while (same < l->count && is_same(v->list, l, same))
            same++;
        if (same == l->count)
            return v;
    }
    return NULL;
}

// Returns the variant with the fewest commands to change, or NULL if there is none or space for another. If a
// program alternates between two sets of memory, the variant that ran last will be needed again by the next
// run but one: it is changed only if there is no other.
static struct variant *find(struct cuda_graph_of *g, const struct cuda_list *l, const uint64_t *after) {
    struct variant *best = NULL;
    int least = CUDA_LIST + 1;
    bool has_room = false;
    for (int i = 0; i < CUDA_VARIANTS; i++) {
        struct variant *v = &g->variant[i];
        has_room |= !v->list;
        if (!v->list || !is_alike(v, l, after))
            continue;
        int changes = v == g->last ? CUDA_LIST : count_changes(v->list, l, least);
        if (changes < least) {
            best = v;
            least = changes;
        }
    }
    return least && has_room ? NULL : best;
}

static bool launch(struct cuda_graph_of *g, const struct variant *v, cuda_stream s) {
    g->last = v;
    counter_add(COUNTER_GRAPHS, 1);
    return !cuda_api()->cuGraphLaunch(v->exec, s);
}

bool cuda_graph_run(struct cuda_graph_of *g, const struct cuda_list *l, cuda_stream s, cuda_stream spare,
                    int *fresh) {
    *fresh = -1;
    if (l->count < LEAST || g->made > MADE_MOST)
        return false;
    uint64_t after[CUDA_LIST];
    struct variant *v = find_same(g, l);
    if (v)
        return launch(g, v, s);
    find_order(l, after);
    v = find(g, l, after);
    if (!v) {
        *fresh = find_fresh(g, l);
        v = &g->variant[g->turn++ % CUDA_VARIANTS];
    } else if (v->exec ? update(v, l) : keep_list(v, l, after) && (g->made++, make(v, spare))) {
        return launch(g, v, s);
    }
    drop_exec(v);
    keep_list(v, l, after);
    return false;
}

void cuda_graph_free(struct cuda_graph_of *g) {
    for (int i = 0; i < CUDA_VARIANTS; i++) {
        drop_exec(&g->variant[i]);
        memory_free(g->variant[i].list);
    }
    *g = (struct cuda_graph_of){0};
}
