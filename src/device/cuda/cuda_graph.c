// cuda_graph.c - a list of launches as a CUDA graph, whose arguments change from run to run.
//
// Commands depend on each other in order. A launch whose arguments are others than last time is set anew in the graph. What a
// library asks for cannot be: it has to be the same.

#include "device/cuda/cuda_queue.h"

#include <string.h>

enum { LEAST = 2, MADE_MOST = 64, RELAXED = 2 };

static const char *data_of(const struct cuda_list *l, int i) {
    return l->data + l->command[i].at;
}

// Comparing --------------------------------------------------------------------------------------------------------

static bool is_same(const struct cuda_list *a, const struct cuda_list *b, int i) {
    const struct cuda_command *x = &a->command[i], *y = &b->command[i];
    return x->f == y->f && x->run == y->run && x->groups == y->groups && x->threads == y->threads &&
           x->shared == y->shared && x->bytes == y->bytes &&
           !memcmp(data_of(a, i), data_of(b, i), (size_t)x->bytes);
}

// The same functions in the same order, and the same work of libraries.
static bool is_alike(const struct cuda_list *a, const struct cuda_list *b) {
    if (a->count != b->count)
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

// Making -----------------------------------------------------------------------------------------------------------

static struct cuda_node_launch node_launch(const struct cuda_list *l, int i, void **argument) {
    const struct cuda_command *c = &l->command[i];
    cuda_command_arguments(c, l->data, argument);
    return (struct cuda_node_launch){.f = c->f,
                                     .grid = {c->groups, 1, 1},
                                     .block = {c->threads, 1, 1},
                                     .shared = c->shared,
                                     .argument = argument};
}

// What a library asks for on a stream that nothing else uses, as a graph within the graph.
static bool add_work(cuda_graph graph, cuda_graph_node *node, const cuda_graph_node *after,
                     const struct cuda_list *l, int i, cuda_stream spare) {
    const struct cuda_api *api = cuda_api();
    cuda_graph child = NULL;
    if (api->cuStreamBeginCapture_v2(spare, RELAXED))
        return false;
    bool good = !l->command[i].run(data_of(l, i), spare);
    good = !api->cuStreamEndCapture(spare, &child) && good && child &&
           !api->cuGraphAddChildGraphNode(node, graph, after, after ? 1 : 0, child);
    if (child)
        api->cuGraphDestroy(child);
    return good;
}

static bool add_nodes(struct variant *v, cuda_graph graph, cuda_stream spare) {
    for (int i = 0; i < v->list->count; i++) {
        const cuda_graph_node *after = i ? &v->node[i - 1] : NULL;
        void *argument[CUDA_ARGUMENTS];
        if (v->list->command[i].f) {
            struct cuda_node_launch l = node_launch(v->list, i, argument);
            if (cuda_api()->cuGraphAddKernelNode_v2(&v->node[i], graph, after, after ? 1 : 0, &l))
                return false;
        } else if (!add_work(graph, &v->node[i], after, v->list, i, spare)) {
            return false;
        }
    }
    return true;
}

static bool make(struct variant *v, cuda_stream spare) {
    const struct cuda_api *api = cuda_api();
    if (!(v->node = memory_zero(sizeof *v->node * CUDA_LIST)))
        return false;
    return !api->cuGraphCreate(&v->graph, 0) && add_nodes(v, v->graph, spare) &&
           !api->cuGraphInstantiateWithFlags(&v->exec, v->graph, 0);
}

// Running ----------------------------------------------------------------------------------------------------------

static void copy_command(struct cuda_list *to, const struct cuda_list *from, int i) {
    to->command[i] = from->command[i];
    memcpy(to->data + from->command[i].at, data_of(from, i), (size_t)from->command[i].bytes);
}

static bool keep_list(struct variant *v, const struct cuda_list *from) {
    size_t bytes = sizeof *from + (size_t)from->bytes;
    if (!v->list || v->list->bytes != from->bytes) {
        memory_free(v->list);
        v->list = memory_alloc(bytes);
    }
    return v->list && memcpy(v->list, from, bytes);
}

// A launch with as many bytes of arguments as before lies where it did: functions are the same.
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

static int count_changes(const struct cuda_list *a, const struct cuda_list *b) {
    int count = 0;
    for (int i = 0; i < a->count; i++)
        count += !is_same(a, b, i);
    return count;
}

// The variant that has least to change; NULL: there is none, or there is room for another.
static struct variant *find(struct cuda_graph_of *g, const struct cuda_list *l) {
    struct variant *best = NULL;
    int least = CUDA_LIST + 1;
    bool has_room = false;
    for (int i = 0; i < CUDA_VARIANTS; i++) {
        struct variant *v = &g->variant[i];
        has_room |= !v->list;
        if (!v->list || !is_alike(v->list, l))
            continue;
        int changes = count_changes(v->list, l);
        if (changes < least) {
            best = v;
            least = changes;
        }
    }
    return least && has_room ? NULL : best;
}

bool cuda_graph_run(struct cuda_graph_of *g, const struct cuda_list *l, cuda_stream s, cuda_stream spare,
                    int *fresh) {
    *fresh = -1;
    if (l->count < LEAST || g->made > MADE_MOST)
        return false;
    struct variant *v = find(g, l);
    if (!v) {
        *fresh = find_fresh(g, l);
        v = &g->variant[g->turn++ % CUDA_VARIANTS];
    } else if (v->exec ? update(v, l) : keep_list(v, l) && (g->made++, make(v, spare))) {
        counter_add(COUNTER_GRAPHS, 1);
        return !cuda_api()->cuGraphLaunch(v->exec, s);
    }
    drop_exec(v);
    keep_list(v, l);
    return false;
}

void cuda_graph_free(struct cuda_graph_of *g) {
    for (int i = 0; i < CUDA_VARIANTS; i++) {
        drop_exec(&g->variant[i]);
        memory_free(g->variant[i].list);
    }
    *g = (struct cuda_graph_of){0};
}
