// dot.c - zl_to_dot: graphs of calls and arrays as Graphviz draws them.

#include "transform/transform.h"

// Names of arrays: those that were given, else A, B, ..., Z, AA, ... in the order in which they are met.
struct naming {
    struct map number; // plus one, by address
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

// Whether x was met for the first time, in *is_new.
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

// An array that no call of the graph makes, when it is first met.
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

static bool add_call(struct naming *n, const struct call *c, int index) {
    for (int i = 0; i < c->inputs; i++)
        if (!add_source(n, c->in[i]))
            return false;
    text_add(n->out, "{ %d [label =\"%s\", shape=rectangle]; }\n", index, c->op->name);
    for (int i = 0; i < c->inputs; i++) {
        if (!add_name(n, c->in[i]))
            return false;
        text_add(n->out, " -> %d\n", index);
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
    bool *read = memory_zero((size_t)w->arrays + 1), ok = read;
    for (int i = 0; ok && i < w->calls; i++)
        for (int k = 0; k < w->call[i]->inputs; k++)
            if (walk_number(w, w->call[i]->in[k]) >= 0)
                read[walk_number(w, w->call[i]->in[k])] = true;
    for (int i = 0; ok && i < w->calls; i++)
        ok = add_call(n, w->call[i], i) && add_outputs(n, w->call[i], i, read + w->first[i]);
    for (int i = 0; ok && i < n->count; i++)
        ok = add_source(n, n->array[i]);
    memory_free(read);
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
