// function_file.c - the inputs of functions in files: their dtypes, shapes and names, and whether given
// arrays match them.

#include "transform/function_file.h"

#include <string.h>

bool function_inputs_make(struct function_inputs *f, int count, int named) {
    *f = (struct function_inputs){.count = count, .named = named};
    f->array = memory_zero(sizeof *f->array * ((size_t)count + 1));
    f->name = memory_zero(sizeof *f->name * ((size_t)named + 1));
    if (f->array && f->name)
        return true;
    function_inputs_free(f);
    return false;
}

void function_inputs_free(struct function_inputs *f) {
    for (int i = 0; f->array && i < f->count; i++)
        zl_release(f->array[i]);
    for (int i = 0; f->name && i < f->named; i++)
        memory_free(f->name[i]);
    memory_free(f->array);
    memory_free(f->name);
    *f = (struct function_inputs){0};
}

static bool is_like(zl_array a, zl_array b, bool shapeless) {
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           (shapeless || shape_equal(a->ndim, a->dim, b->ndim, b->dim));
}

// Returns the position of a name in a list, or -1.
static int find_name(const char *wanted, int count, const char *const *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(wanted, name[i]))
            return i;
    return -1;
}

bool function_inputs_match(const struct function_inputs *f, bool shapeless, int count, const zl_array *in,
                           int named, const char *const *name, int *order) {
    int plain = count - named;
    if (f->count != count || f->named != named)
        return false;
    for (int i = 0; i < count; i++) {
        int at = i < plain ? i : find_name(f->name[i - plain], named, name);
        order[i] = i < plain || at < 0 ? at : plain + at;
        if (at < 0 || !is_like(f->array[i], in[order[i]], shapeless))
            return false;
    }
    return true;
}

void function_inputs_text(struct text *out, int count, const zl_array *in, int named,
                          const char *const *name) {
    text_add(out, "(");
    for (int i = 0; i < count; i++) {
        text_add(out, i ? ", " : "");
        if (i >= count - named)
            text_add(out, "%s: ", name[i - (count - named)]);
        text_add(out, "%s %s", zl_dtype_name((zl_dtype)in[i]->dtype), array_text(in[i]));
    }
    text_add(out, ")");
}

bool function_check_names(const char *function, int count, int named, const char *const *name) {
    if (named < 0 || named > count || (named && !name))
        return error_false(ZL_ERROR_VALUE, "%s: %d names for %d inputs: at most one each, and a list of them",
                           function, named, count);
    for (int i = 0; i < named; i++)
        if (!name[i] || find_name(name[i], i, name) >= 0)
            return error_false(ZL_ERROR_VALUE, "%s: name %d is %s: each input needs one of its own", function,
                               i, name[i] ? name[i] : "NULL");
    return true;
}
