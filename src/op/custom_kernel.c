// custom_kernel.c - kernels in a language that no device of this library runs, recorded for exported
// functions.
//
// Inputs: the text of the kernel as bytes, an array like each output (a broadcast number, which costs
// nothing), then the arrays that the kernel reads. So a file stores them like other calls.

#include <string.h>

#include "op/ops.h"

static const char function[] = "zl_custom_kernel";

// arg: number of outputs, grid, group.
enum { OUTPUTS, GRID, GROUP = GRID + 3, ARGS = GROUP + 3 };

bool op_record_kernel(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                      zl_array *out) {
    int outputs = (int)arg[0];
    struct array_spec *spec = memory_zero(sizeof *spec * (size_t)outputs);
    for (int i = 0; spec && i < outputs; i++)
        spec[i] = (struct array_spec){
            .dtype = (zl_dtype)in[1 + i]->dtype, .ndim = in[1 + i]->ndim, .dim = in[1 + i]->dim};
    zl_array y = spec ? graph_call(op, inputs, in, args, arg, outputs, spec) : NULL;
    for (int i = 0; y && i < outputs; i++)
        out[i] = call_output(y->call, i);
    memory_free(spec);
    return y;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return op_record_kernel(&op_custom_kernel, c->inputs, in, ARGS, call_args(c), out);
}

bool op_is_kernel(const struct call *c, const zl_array *in, int args) {
    return c->args == args && call_args(c)[KERNEL_OUTPUTS] == c->outputs && c->outputs < c->inputs &&
           in[0]->dtype == ZL_UINT8 && in[0]->ndim == 1;
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_is_kernel(c, in, KERNEL_FILLS);
}

static const struct op_field fields[] = {
    {"outputs", FIELD_INT}, {"grid_x", FIELD_INT},  {"grid_y", FIELD_INT}, {"grid_z", FIELD_INT},
    {"group_x", FIELD_INT}, {"group_y", FIELD_INT}, {"group_z", FIELD_INT}};
const struct op op_custom_kernel = {
    .name = "custom_kernel",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = ARGS,
    .field = fields,
    .record = record,
    .fits = fits,
};

static bool check(const zl_kernel_source *k, int count, const zl_array *in, zl_array *out) {
    if (!k || !k->language || !k->text || k->outputs < 1 || !k->shape || !k->dtype || count < 0 ||
        (count && !in))
        return error_false(ZL_ERROR_VALUE,
                           "%s: a language, a text, and the shapes and dtypes of its outputs are needed",
                           function);
    if (!op_check_out(function, k->outputs, out))
        return false;
    for (int i = 0; i < count; i++)
        if (!in[i])
            return false;
    return recorder.exporting ||
           error_false(ZL_ERROR_DEVICE,
                       "%s: No %s back-end: such kernels are recorded only while a function is exported; "
                       "zl_cpu_kernel "
                       "and zl_cuda_kernel run kernels from source (doc/custom-kernels.md)",
                       function, k->language);
}

// Returns an array of this shape and dtype that needs no memory of that size.
static zl_array like(const char *name, zl_shape shape, zl_dtype dtype, double value) {
    bool ok = op_check_dtype(name, dtype) && op_check_shape(name, shape);
    return ok ? zl_broadcast_to(zl_astype(zl_scalar(value), dtype), shape) : NULL;
}

bool op_kernel_inputs(const char *name, const char *text, double value, int outputs, const zl_shape *shape,
                      const zl_dtype *dtype, int count, const zl_array *in, zl_array *all) {
    if (!(all[0] = zl_from(text, ZL_SHAPE((int64_t)strlen(text)), ZL_UINT8)))
        return false;
    for (int i = 0; i < outputs; i++)
        if (!(all[1 + i] = like(name, shape[i], dtype[i], value)))
            return false;
    for (int i = 0; i < count; i++)
        all[1 + outputs + i] = in[i];
    return true;
}

bool zl_custom_kernel(const zl_kernel_source *source, int count, const zl_array *in, zl_array *out) {
    if (!check(source, count, in, out))
        return false;
    const int64_t *grid = source->grid, *group = source->group;
    int64_t inputs = 1 + (int64_t)source->outputs + count;
    int64_t arg[ARGS] = {source->outputs, grid[0], grid[1], grid[2], group[0], group[1], group[2]};
    OP_TEMP(zl_array, all, inputs);
    return all &&
           op_kernel_inputs(function, source->text, 0, source->outputs, source->shape, source->dtype, count,
                            in, all) &&
           op_record_kernel(&op_custom_kernel, (int)MIN_OF(inputs, INT32_MAX), all, ARGS, arg, out);
}
