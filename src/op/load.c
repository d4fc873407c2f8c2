// load.c - arrays whose elements are read when they are evaluated, such as from the compressed part of a
// file.

#include "op/ops.h"

static void release_source(void *context) {
    struct op_source *s = context;
    s->release(s->context);
    memory_free(s);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    zl_array y = call_output(c, 0);
    return (out[0] = op_dense(c->op, 1, in, 0, NULL, (zl_dtype)y->dtype, y->ndim, y->dim));
}

// The op is not in ops.def: files of functions store its result as a constant.
const struct op op_load = {.name = "load", .kind = OP_OTHER, .record = record};

zl_array op_load_from(const struct op_source *source, const void *data, size_t bytes, zl_dtype dtype,
                      zl_shape shape) {
    struct op_source *s = memory_alloc(sizeof *s);
    struct storage *storage = NULL;
    if (s) {
        *s = *source;
        storage = storage_foreign(data, bytes, release_source, s);
    }
    if (!storage) {
        memory_free(s);
        source->release(source->context);
        return NULL;
    }
    zl_array from = graph_leaf(
        &(struct array_spec){.dtype = ZL_UINT8, .ndim = 1, .dim = (int64_t[]){(int64_t)bytes}}, storage);
    return from ? op_dense(&op_load, 1, &from, 0, NULL, dtype, shape.ndim, shape.dim) : NULL;
}

bool op_load_run(const struct call *c, void *out) {
    const struct op_source *s = c->in[0]->storage->context;
    return s->read(s->context, out, zl_nbytes(call_first(c)));
}
