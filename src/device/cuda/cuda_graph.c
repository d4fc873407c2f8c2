// cuda_graph.c - a list of launches as a CUDA graph, whose arguments change from run to run.
//
// Commands depend on each other in order. A launch whose arguments are others than last time is set anew in the graph. What a
// library asks for cannot be: it has to be the same.

#include "device/cuda/cuda_queue.h"

#include <string.h>

enum { LEAST = 4, MADE_MOST = 8, RELAXED = 2 };

static const char *data_of(const struct cuda_list *l, int i) {
    return l->data + l->command[i].at;
}

// Comparing --------------------------------------------------------------------------------------------------------

static bool is_same(const struct cuda_list *a, const struct cuda_list *b, int i) {
    const struct cuda_command *x = &a->command[i], *y = &b->command[i];
    return x->f == y->f && x->run == y->run && x->groups == y->groups && x->threads == y->threads &&
           x->bytes == y->bytes && !memcmp(data_of(a, i), data_of(b, i), (size_t)x->bytes);
}

// The same functions in the same order, and the same work of libraries.
static bool is_alike(const struct cuda_list *a, const struct cuda_list *b, int *changed) {
    int works = 0;
    *changed = -1;
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++) {
        const struct cuda_command *x = &a->command[i], *y = &b->command[i];
        if (x->f != y->f || x->run != y->run)
            return false;
        if (!x->f && *changed < 0 && !is_same(a, b, i))
            *changed = works;
        works += !x->f;
    }
    return *changed < 0;
}

// Making -----------------------------------------------------------------------------------------------------------

static struct cuda_node_launch node_launch(const struct cuda_list *l, int i, void **argument) {
    const struct cuda_command *c = &l->command[i];
    cuda_command_arguments(c, l->data, argument);
    return (struct cuda_node_launch){
        .f = c->f, .grid = {c->groups, 1, 1}, .block = {c->threads, 1, 1}, .argument = argument};
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

static bool add_nodes(struct cuda_graph_of *g, cuda_graph graph, cuda_stream spare) {
    for (int i = 0; i < g->list->count; i++) {
        const cuda_graph_node *after = i ? &g->node[i - 1] : NULL;
        void *argument[CUDA_ARGUMENTS];
        if (g->list->command[i].f) {
            struct cuda_node_launch l = node_launch(g->list, i, argument);
            if (cuda_api()->cuGraphAddKernelNode_v2(&g->node[i], graph, after, after ? 1 : 0, &l))
                return false;
        } else if (!add_work(graph, &g->node[i], after, g->list, i, spare)) {
            return false;
        }
    }
    return true;
}

static bool make(struct cuda_graph_of *g, cuda_stream spare) {
    const struct cuda_api *api = cuda_api();
    cuda_graph graph = NULL;
    if (++g->made > MADE_MOST || !(g->node = memory_zero(sizeof *g->node * CUDA_LIST)))
        return false;
    bool good = !api->cuGraphCreate(&graph, 0) && add_nodes(g, graph, spare) &&
                !api->cuGraphInstantiateWithFlags(&g->exec, graph, 0);
    if (graph)
        api->cuGraphDestroy(graph);
    return good;
}

// Running ----------------------------------------------------------------------------------------------------------

static void copy_command(struct cuda_list *to, const struct cuda_list *from, int i) {
    to->command[i] = from->command[i];
    memcpy(to->data + from->command[i].at, data_of(from, i), (size_t)from->command[i].bytes);
}

static bool keep_list(struct cuda_graph_of *g, const struct cuda_list *from) {
    size_t bytes = sizeof *from + (size_t)from->bytes;
    if (!g->list || g->list->bytes != from->bytes) {
        memory_free(g->list);
        g->list = memory_alloc(bytes);
    }
    return g->list && memcpy(g->list, from, bytes);
}

// A launch with as many bytes of arguments as before lies where it did: functions are the same.
static bool update(struct cuda_graph_of *g, const struct cuda_list *l) {
    for (int i = 0; i < l->count; i++) {
        void *argument[CUDA_ARGUMENTS];
        if (is_same(g->list, l, i))
            continue;
        struct cuda_node_launch n = node_launch(l, i, argument);
        if (cuda_api()->cuGraphExecKernelNodeSetParams_v2(g->exec, g->node[i], &n))
            return false;
        copy_command(g->list, l, i);
    }
    return true;
}

static void drop_exec(struct cuda_graph_of *g) {
    if (g->exec)
        cuda_api()->cuGraphExecDestroy(g->exec);
    memory_free(g->node);
    g->exec = NULL;
    g->node = NULL;
}

bool cuda_graph_run(struct cuda_graph_of *g, const struct cuda_list *l, cuda_stream s, cuda_stream spare,
                    int *changed) {
    *changed = -1;
    if (l->count < LEAST || g->made > MADE_MOST)
        return false;
    bool alike = g->list && is_alike(g->list, l, changed);
    if (alike && (g->exec ? update(g, l) : keep_list(g, l) && make(g, spare))) {
        counter_add(COUNTER_GRAPHS, 1);
        return !cuda_api()->cuGraphLaunch(g->exec, s);
    }
    drop_exec(g);
    keep_list(g, l);
    return false;
}

void cuda_graph_free(struct cuda_graph_of *g) {
    drop_exec(g);
    memory_free(g->list);
    *g = (struct cuda_graph_of){0};
}
