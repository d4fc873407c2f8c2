// dot.c - zl_to_dot: writes graphs of calls and arrays for Graphviz, under MLX's names.
//
// Elementwise calls of a compiled function whose results are read only within the group are drawn as one
// node, as MLX does: "CompiledMultiplyAdd".

#include "transform/transform.h"

// The names of arrays: those that were given, else A, B, ..., Z, AA, ... in the order of their first use.
struct naming {
    struct map number; // array numbers plus one, by address
    int next, count;
    const zl_array *array;
    const char *const *name;
    struct text *out;
};

static void add_letters(struct text *out, int number) {
    char letter[8];
    int at = COUNT(letter);
    for (int left = number + 1; left > 0; left = (left - 1) / 26)
        letter[--at] = (char)('A' + (left - 1) % 26);
    text_add(out, "\"%.*s\"", (int)COUNT(letter) - at, letter + at);
}

// Sets *number to the number of x, and *is_new to whether x is used for the first time.
static bool number(struct naming *n, zl_array x, int *number, bool *is_new) {
    uintptr_t known = (uintptr_t)map_get(&n->number, &x, sizeof x);
    *is_new = !known;
    *number = known ? (int)known - 1 : n->next;
    return known || map_set(&n->number, &x, sizeof x, (void *)(uintptr_t)(++n->next));
}

static const char *given_name(const struct naming *n, zl_array x) {
    for (int i = 0; n->name && i < n->count; i++)
        if (n->array[i] == x && n->name[i])
            return n->name[i];
    return NULL;
}

static bool add_name(struct naming *n, zl_array x) {
    const char *name = given_name(n, x);
    bool is_new;
    int at;
    if (name)
        return text_json(n->out, name), true;
    if (!number(n, x, &at, &is_new))
        return false;
    add_letters(n->out, at);
    return true;
}

static bool has_history(zl_array x) {
    return x->call && !x->call->detached;
}

// Draws an array that no call of the graph computes, at its first use.
static bool add_source(struct naming *n, zl_array x) {
    bool is_new;
    int at;
    if (has_history(x))
        return true;
    if (!number(n, x, &at, &is_new))
        return false;
    if (!is_new)
        return true;
    text_add(n->out, "{ rank=source; ");
    bool ok = add_name(n, x);
    text_add(n->out, "; }\n");
    return ok;
}

// Groups ----------------------------------------------------------------------------------------------------

// The readers of a call if they are not a single group: none, several groups, or a call outside all groups.
enum { NOBODY = -1, SEVERAL = -2, OTHERS = -3 };

// The calls that are drawn as one node. A group is named by the index of its last call.
struct groups {
    int *group;        // the group of each call; SEVERAL: a broadcast that each group which reads it copies
    int *first, *next; // members of the group that ends with the call, inputs first
    int *shown;        // by call: the last group that was labelled with the broadcast
    bool *read;        // by number of the array: some call reads it
};

static bool start_groups(struct groups *g, const struct walk *w) {
    size_t calls = (size_t)w->calls + 1;
    g->group = memory_alloc(sizeof(int) * 4 * calls);
    g->read = memory_zero(sizeof(bool) * ((size_t)w->arrays + 1));
    if (!g->group || !g->read)
        return false;
    g->first = g->group + calls;
    g->next = g->first + calls;
    g->shown = g->next + calls;
    for (int i = 0; i < w->calls; i++)
        g->group[i] = g->first[i] = g->next[i] = g->shown[i] = NOBODY;
    return true;
}

static void free_groups(struct groups *g) {
    memory_free(g->group);
    memory_free(g->read);
}

static bool is_small(const struct call *c) {
    bool small = c->op->kind == OP_ELEMENTWISE || c->op->kind == OP_CAST || c->op == &op_broadcast_to;
    return small && c->compiled;
}

static bool is_stretch(const struct call *c) {
    return c->op == &op_broadcast_to && c->compiled;
}

static int join_readers(int a, int b) {
    return a == NOBODY || a == b ? b : a == OTHERS || b == OTHERS ? OTHERS : SEVERAL;
}

// Records `reader`, a group or OTHERS, as a reader of the inputs of a call.
static void note_reads(struct groups *g, const struct walk *w, const struct call *c, int reader) {
    for (int k = 0; k < c->inputs; k++) {
        int from = walk_call(w, c->in[k]), number = walk_number(w, c->in[k]);
        if (number >= 0)
            g->read[number] = true;
        if (from >= 0)
            g->group[from] = join_readers(g->group[from], reader);
    }
}

// Groups the calls, each after all of its readers. A call that a single group reads joins it. A broadcast
// costs nothing, so each of several groups that read one has a copy of it.
static void make_groups(struct groups *g, const struct walk *w, int count, const zl_array *result) {
    for (int i = 0; i < count; i++)
        if (walk_call(w, result[i]) >= 0)
            g->group[walk_call(w, result[i])] = OTHERS;
    for (int i = w->calls - 1; i >= 0; i--) {
        const struct call *c = w->call[i];
        int to = g->group[i];
        bool joins = to >= 0 && is_small(c) && c->stream == w->call[to]->stream;
        bool hidden = to == SEVERAL && is_stretch(c), begins = is_small(c) && !is_stretch(c);
        note_reads(g, w, c, joins ? to : begins ? i : OTHERS);
        if (hidden)
            continue;
        g->group[i] = joins ? to : i;
        g->next[i] = g->first[g->group[i]];
        g->first[g->group[i]] = i;
    }
}

// Returns the call of a broadcast that the group copies for an input of a member, or NULL.
static const struct call *copied(const struct groups *g, const struct walk *w, const struct call *member,
                                 zl_array x, int group) {
    int from = walk_call(w, x);
    bool copies = from >= 0 && g->group[from] != group && is_small(member) && !is_stretch(member);
    return copies && is_stretch(w->call[from]) ? w->call[from] : NULL;
}

// Returns whether x is computed outside the group.
static bool is_outside(const struct groups *g, const struct walk *w, zl_array x, int group) {
    int call = walk_call(w, x);
    return call < 0 || g->group[call] != group;
}

// Drawing ---------------------------------------------------------------------------------------------------

// Adds the labels of the broadcasts that a group copies for a member. Returns whether there are any.
static bool label_copies(struct groups *g, const struct walk *w, const struct call *member, int group,
                         struct text *label) {
    bool any = false;
    for (int k = 0; k < member->inputs; k++) {
        const struct call *copy = copied(g, w, member, member->in[k], group);
        int from = walk_call(w, member->in[k]);
        if (!copy || g->shown[from] == group)
            continue;
        any = true;
        g->shown[from] = group;
        primitive_label(copy->op, label);
    }
    return any;
}

static void add_label(struct naming *n, struct groups *g, const struct walk *w, int group) {
    bool is_one = g->first[group] != group;
    struct text label = {0};
    for (int i = g->first[group]; i >= 0; i = g->next[i]) {
        is_one |= label_copies(g, w, w->call[i], group, &label);
        primitive_label(w->call[i]->op, &label);
    }
    n->out->failed |= label.failed;
    text_add(n->out, "{ %d [label =\"%s%s\", shape=rectangle]; }\n", group, is_one ? "Compiled" : "",
             label.data ? label.data : "");
    text_free(&label);
}

static bool add_edge(struct naming *n, zl_array x, int group) {
    if (!add_source(n, x) || !add_name(n, x))
        return false;
    text_add(n->out, " -> %d\n", group);
    return true;
}

static bool add_edges(struct naming *n, const struct groups *g, const struct walk *w, int group) {
    for (int i = g->first[group]; i >= 0; i = g->next[i])
        for (int k = 0; k < w->call[i]->inputs; k++) {
            zl_array x = w->call[i]->in[k];
            const struct call *copy = copied(g, w, w->call[i], x, group);
            if (is_outside(g, w, x, group) && !add_edge(n, copy ? copy->in[0] : x, group))
                return false;
        }
    return true;
}

static bool add_outputs(struct naming *n, const struct call *c, int index, const bool *read) {
    for (int i = 0; i < c->outputs; i++) {
        zl_array y = call_output(c, i);
        text_add(n->out, "{ %s", read[i] ? "" : "rank=sink; ");
        if (!add_name(n, y))
            return false;
        text_add(n->out, "; }\n%d -> ", index);
        if (!add_name(n, y))
            return false;
        text_add(n->out, "\n");
    }
    return true;
}

static bool add_graph(struct naming *n, const struct walk *w) {
    struct groups g = {0};
    bool ok = start_groups(&g, w);
    if (ok)
        make_groups(&g, w, n->count, n->array);
    for (int i = 0; ok && i < w->calls; i++)
        if (g.group[i] == i) {
            add_label(n, &g, w, i);
            ok = add_edges(n, &g, w, i) && add_outputs(n, w->call[i], i, g.read + w->first[i]);
        }
    for (int i = 0; ok && i < n->count; i++)
        ok = add_source(n, n->array[i]);
    free_groups(&g);
    return ok;
}

char *zl_to_dot(int count, const zl_array *arrays, const char *const *names) {
    struct text out = {0};
    struct walk w = {.kind = WALK_ALL};
    struct naming n = {.count = count, .array = arrays, .name = names, .out = &out};
    if (!trace_check_list("zl_to_dot", count, arrays))
        return NULL;
    text_add(&out, "digraph {\n");
    bool ok = walk_make(&w, 0, NULL, count, arrays) && add_graph(&n, &w);
    text_add(&out, "}\n");
    walk_free(&w);
    map_free(&n.number);
    if (ok)
        return text_take(&out);
    text_free(&out);
    return NULL;
}
