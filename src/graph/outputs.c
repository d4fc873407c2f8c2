// outputs.c - lists of arrays that functions return.

#include "graph/graph.h"

zl_outputs *zl_outputs_new(void) {
    return memory_zero(sizeof(zl_outputs));
}

void outputs_clear(zl_outputs *o) {
    for (int i = 0; i < o->count; i++)
        zl_release(o->item[i]);
    memory_free(o->item);
    *o = (zl_outputs){0};
}

void zl_outputs_free(zl_outputs *outputs) {
    if (!outputs)
        return;
    outputs_clear(outputs);
    memory_free(outputs);
}

bool zl_give(zl_outputs *out, zl_array a) {
    if (!out)
        return error_false(ZL_ERROR_VALUE, "zl_give: no list to give an array to");
    if (!a || !memory_grow(&out->item, &out->cap, out->count + 1, sizeof *out->item)) {
        out->failed = true;
        return false;
    }
    out->item[out->count++] = zl_retain(a);
    return true;
}

int zl_outputs_count(const zl_outputs *outputs) {
    return outputs ? outputs->count : 0;
}

zl_array zl_outputs_get(const zl_outputs *outputs, int index) {
    int count = zl_outputs_count(outputs);
    if (index >= 0 && index < count)
        return outputs->item[index];
    return error_set(ZL_ERROR_VALUE, "zl_outputs_get: no result %d: there are %d", index, count);
}

void zl_outputs_set_tag(zl_outputs *outputs, int64_t tag) {
    if (outputs)
        outputs->tag = tag;
}

int64_t zl_outputs_tag(const zl_outputs *outputs) {
    return outputs ? outputs->tag : 0;
}

bool outputs_leave(zl_scope scope, bool ok, int count, zl_array *arrays) {
    for (int i = 0; ok && i < count; i++)
        graph_lend_again(arrays[i]);
    zl_scope_end(scope);
    bool all = ok;
    for (int i = 0; ok && i < count; i++)
        all &= graph_lend(arrays[i]) != NULL;
    for (int i = 0; !all && i < count; i++)
        arrays[i] = NULL;
    return all;
}
