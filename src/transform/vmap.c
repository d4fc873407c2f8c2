// vmap.c - applies a function of single arrays to many at once: each of its calls becomes a call on arrays
// with one more axis.

#include "transform/transform.h"

// The batched arrays of the walk, by number, and the position of their extra axis; -1: it has none.
struct batch {
    const struct walk *w;
    zl_array *array;
    int *axis;
    int64_t size;
};

// Inputs ----------------------------------------------------------------------------------------------------

// Returns the size of the extra axis, or -1 and an error if it is not the same everywhere.
static int64_t batch_size(int count, const zl_array *in, const int *axis) {
    int64_t size = -1;
    for (int i = 0; i < count; i++) {
        if (axis[i] < 0)
            continue;
        if (axis[i] >= in[i]->ndim) {
            error_set(ZL_ERROR_AXIS, "zl_vmap: axis %d of input %d: its shape is %s", axis[i], i,
                      array_text(in[i]));
            return -1;
        }
        if (size >= 0 && in[i]->dim[axis[i]] != size) {
            error_set(ZL_ERROR_SHAPE,
                      "zl_vmap: axis %d of input %d has size %lld, but others %lld: they must be equal",
                      axis[i], i, (long long)in[i]->dim[axis[i]], (long long)size);
            return -1;
        }
        size = in[i]->dim[axis[i]];
    }
    if (size < 0)
        error_set(ZL_ERROR_VALUE, "zl_vmap: none of %d inputs has an axis to map over: at least one must",
                  count);
    return size;
}

// Returns an array that stands for one element of the batch: it has a shape and a dtype, but no data to read.
static zl_array placeholder(zl_array x, int axis) {
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim - 1; i++)
        dim[i] = x->dim[i + (i >= axis)];
    return trace_placeholder((zl_dtype)x->dtype, x->ndim - 1, dim,
                             "zl_vmap: an array that is being mapped over has no data: what a function "
                             "does with it is recorded once, for all, so it cannot be read");
}

static bool make_placeholders(int count, const zl_array *in, const int *axis, zl_array *out) {
    for (int i = 0; i < count; i++)
        if (!(out[i] = axis[i] < 0 ? op_same(in[i]) : placeholder(in[i], axis[i])))
            return false;
    return true;
}

// Calls -----------------------------------------------------------------------------------------------------

// Records the call on batched inputs. If none of them has the extra axis, it is the same call as before.
static bool apply(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    bool any = false;
    for (int i = 0; i < c->inputs; i++)
        any |= axis[i] >= 0;
    for (int i = 0; i < c->outputs; i++)
        out_axis[i] = -1;
    if (!any)
        return c->op->record(c, in, out);
    if (sized_is(c, in))
        return sized_vmap(c, in, axis, out, out_axis);
    return c->op->vmap ? c->op->vmap(c, in, axis, out, out_axis)
                       : error_false(ZL_ERROR_VALUE, "zl_vmap: %s cannot be mapped", c->op->name);
}

static bool map_call(const struct batch *b, const struct call *c) {
    OP_TEMP(zl_array, in, c->inputs + c->outputs);
    OP_TEMP(int, axis, c->inputs + c->outputs);
    if (!in || !axis)
        return false;
    for (int i = 0; i < c->inputs; i++) {
        int number = walk_number(b->w, c->in[i]);
        bool mapped = number >= 0 && b->array[number];
        in[i] = mapped ? b->array[number] : c->in[i];
        axis[i] = mapped ? b->axis[number] : -1;
    }
    if (!apply(c, in, axis, in + c->inputs, axis + c->inputs))
        return false;
    for (int i = 0; i < c->outputs; i++) {
        int number = walk_number(b->w, call_output(c, i));
        b->array[number] = in[c->inputs + i];
        b->axis[number] = axis[c->inputs + i];
    }
    return true;
}

static bool map_calls(const struct batch *b) {
    for (int i = 0; i < b->w->calls; i++) {
        const struct call *c = b->w->call[i];
        zl_stream before = recorder.stream;
        recorder.stream = c->stream;
        bool ok = !b->w->depends[b->w->first[i]] || map_call(b, c);
        recorder.stream = before;
        if (!ok)
            return false;
    }
    return true;
}

// Results ---------------------------------------------------------------------------------------------------

// Returns y with its extra axis at position `to`. If y does not depend on the batch, it is repeated.
static zl_array place_axis(const struct batch *b, zl_array y, int to) {
    int number = walk_number(b->w, y);
    bool known = number >= 0 && b->array[number];
    zl_array many = known ? b->array[number] : y;
    if (known && b->axis[number] >= 0)
        return zl_moveaxis(many, b->axis[number], to);
    return zl_repeat(zl_expand_dims(many, ZL_AXES(to)), b->size, to);
}

static bool check_axis(int index, zl_array y, int to) {
    return (to >= -y->ndim - 1 && to <= y->ndim) ||
           error_false(ZL_ERROR_AXIS,
                       "zl_vmap: axis %d of result %d, which has %d axes with the one mapped over", to, index,
                       y->ndim + 1);
}

static bool give_results(const struct batch *b, const zl_outputs *one, const int *out_axis, zl_outputs *out) {
    for (int i = 0; i < one->count; i++) {
        int to = out_axis ? out_axis[i] : 0;
        if (!check_axis(i, one->item[i], to) || !zl_give(out, place_axis(b, one->item[i], to)))
            return false;
    }
    return true;
}

// All of it -------------------------------------------------------------------------------------------------

static bool replay(struct batch *b, const zl_outputs *one, int count, const zl_array *single,
                   const zl_array *in, const int *axis, const int *out_axis, zl_outputs *out) {
    size_t arrays = (size_t)b->w->arrays + 1;
    b->array = memory_zero(sizeof(zl_array) * arrays);
    b->axis = memory_zero(sizeof(int) * arrays);
    bool ok = b->array && b->axis;
    for (int i = 0; ok && i < count; i++)
        if (axis[i] >= 0) {
            b->array[walk_number(b->w, single[i])] = in[i];
            b->axis[walk_number(b->w, single[i])] = axis[i];
        }
    ok = ok && map_calls(b) && give_results(b, one, out_axis, out);
    memory_free(b->array);
    memory_free(b->axis);
    return ok;
}

static bool list_mapped(struct walk *w, int count, const zl_array *single, const int *axis,
                        const zl_outputs *one) {
    OP_TEMP(zl_array, source, count);
    int sources = 0;
    for (int i = 0; source && i < count; i++)
        if (axis[i] >= 0)
            source[sources++] = single[i];
    return source && walk_make(w, sources, source, one->count, one->item);
}

static bool check_results(const zl_outputs *one, int results, const int *out_axis) {
    return !out_axis || one->count == results ||
           error_false(ZL_ERROR_VALUE, "zl_vmap: %d axes for %d results: each needs one", results,
                       one->count);
}

static bool run(struct trace *t, zl_fn f, int count, const zl_array *in, const int *axis, int results,
                const int *out_axis, zl_outputs *out) {
    struct walk w = {.kind = WALK_BATCH};
    struct batch b = {.w = &w, .size = batch_size(count, in, axis)};
    zl_outputs one = {0};
    OP_TEMP(zl_array, single, count);
    bool ok = single && b.size >= 0 && make_placeholders(count, in, axis, single) &&
              trace_run(t, f, count, single, &one) && check_results(&one, results, out_axis) &&
              list_mapped(&w, count, single, axis, &one) &&
              replay(&b, &one, count, single, in, axis, out_axis, out);
    walk_free(&w);
    outputs_clear(&one);
    return ok;
}

bool zl_vmap(zl_fn f, int count, const zl_array *in, const int *in_axis, int results, const int *out_axis,
             zl_outputs *out) {
    if (!trace_check("zl_vmap", f, count, in))
        return false;
    if (!out || out->count || (count && !in_axis))
        return error_false(ZL_ERROR_VALUE, "zl_vmap: %s",
                           out && !out->count ? "no axes of the inputs" : "no empty list for the results");
    struct trace t;
    trace_begin(&t, "zl_vmap");
    bool ok = run(&t, f, count, in, in_axis, results, out_axis, out);
    zl_scope_end(t.scope);
    if (!ok)
        outputs_clear(out);
    trace_end(&t);
    return ok;
}
