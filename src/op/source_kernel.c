// source_kernel.c - zl_cpu_kernel and zl_cuda_kernel: kernels given as source in C and CUDA C++.
//
// The call holds the complete text, generated for the dtypes of the inputs; a device compiles it when it
// first needs it.

#include <string.h>

#include "op/ops.h"

static const char *name_of(const struct op *op) {
    return op == &op_cuda_kernel ? "zl_cuda_kernel" : "zl_cpu_kernel";
}

// The op ----------------------------------------------------------------------------------------------------

// Makes the text row-major, and also the inputs of a kernel that is not strided, whatever the layout of the
// new inputs.
static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    OP_TEMP(zl_array, all, c->inputs);
    for (int k = 0; all && k < c->inputs; k++) {
        bool as_it_lies = k && (k <= c->outputs || call_args(c)[KERNEL_STRIDED]);
        if (!(all[k] = as_it_lies ? in[k] : zl_contiguous(in[k], false)))
            return false;
    }
    return all && op_record_kernel(c->op, c->inputs, all, c->args, call_args(c), out);
}

static void refuse_derivative(const struct call *c) {
    error_set(ZL_ERROR_VALUE,
              "%s: a kernel from source has no derivative of its own: give it one with zl_custom (in Python "
              "custom_function)",
              name_of(c->op));
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input, (void)cotangent;
    refuse_derivative(c);
    return NULL;
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    (void)tangent, (void)out;
    refuse_derivative(c);
    return false;
}

// Returns element i along the first axis.
static zl_array element(zl_array x, int64_t i) {
    OP_TEMP(int64_t, dim, 3 * (int64_t)x->ndim);
    for (int k = 0; dim && k < x->ndim; k++) {
        dim[k] = k ? 0 : i;
        dim[x->ndim + k] = k ? x->dim[k] : i + 1;
        dim[2 * x->ndim + k] = 1;
    }
    return dim ? zl_squeeze(zl_slice(x, (zl_shape){dim, x->ndim}, (zl_shape){dim + x->ndim, x->ndim},
                                     (zl_shape){dim + 2 * x->ndim, x->ndim}),
                            ZL_AXES(0))
               : NULL;
}

// Moves extra axes to the front; makes inputs row-major if the kernel relies on it.
static bool align(const struct call *c, const zl_array *in, const int *axis, zl_array *out) {
    for (int k = 0; k < c->inputs; k++) {
        zl_array x = axis[k] < 0 ? in[k] : op_batch_first(in[k], axis[k]);
        out[k] = axis[k] < 0 || call_args(c)[KERNEL_STRIDED] ? x : zl_contiguous(x, false);
        if (!out[k])
            return false;
    }
    return true;
}

// Records the call for each element of the batch; each[k * batch + i] becomes output k of element i.
static bool record_each(const struct call *c, const zl_array *aligned, const int *axis, int64_t batch,
                        zl_array *each) {
    OP_TEMP(zl_array, one, c->inputs + c->outputs);
    for (int64_t i = 0; one && i < batch; i++) {
        for (int k = 0; k < c->inputs; k++)
            if (!(one[k] = axis[k] < 0 ? aligned[k] : element(aligned[k], i)))
                return false;
        if (!record(c, one, one + c->inputs))
            return false;
        for (int k = 0; k < c->outputs; k++)
            each[k * batch + i] = one[c->inputs + k];
    }
    return one;
}

static zl_array none_of(zl_array y) {
    OP_TEMP(int64_t, dim, (int64_t)y->ndim + 1);
    if (!dim)
        return NULL;
    dim[0] = 0;
    memcpy(dim + 1, y->dim, sizeof *dim * (size_t)y->ndim);
    return zl_zeros((zl_shape){dim, y->ndim + 1}, (zl_dtype)y->dtype);
}

// Only the author knows what an extra axis would mean to a kernel, so it runs once for each element.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    OP_TEMP(zl_array, aligned, c->inputs);
    OP_TEMP(zl_array, each, batch * c->outputs);
    bool ok = aligned && each && align(c, in, axis, aligned) && record_each(c, aligned, axis, batch, each);
    for (int k = 0; ok && k < c->outputs; k++) {
        out_axis[k] = 0;
        ok = (out[k] = batch ? zl_stack(each + k * batch, (int)batch, 0) : none_of(call_output(c, k)));
    }
    return ok;
}

// Files may not contain code that the CPU would run.
static bool fits_cpu_kernel(const struct call *c, const zl_array *in) {
    (void)c, (void)in;
    return false;
}

static const struct op_field fields[] = {
    {"outputs", FIELD_INT},  {"grid_x", FIELD_INT},  {"grid_y", FIELD_INT},  {"grid_z", FIELD_INT},
    {"group_x", FIELD_INT},  {"group_y", FIELD_INT}, {"group_z", FIELD_INT}, {"fills", FIELD_BOOL},
    {"strided", FIELD_BOOL}, {"shared", FIELD_INT}};
const struct op op_cpu_kernel = {
    .name = "cpu_kernel",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = KERNEL_ARGS,
    .field = fields,
    .record = record,
    .fits = fits_cpu_kernel,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};
// The text was generated for the sizes in the file, so inputs must have these sizes.
static bool fits_cuda_kernel(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (!op_is_kernel(c, in, KERNEL_ARGS) || in[0]->size == 0 || in[0]->size > INT32_MAX / 2 ||
        !op_is_among(arg[KERNEL_FILLS], 2) || !op_is_among(arg[KERNEL_STRIDED], 2) ||
        arg[KERNEL_SHARED] < 0 || arg[KERNEL_SHARED] > INT32_MAX)
        return false;
    for (int i = 0; i < 3; i++)
        if (arg[KERNEL_GRID + i] < 0 || arg[KERNEL_GRID + i] > INT64_MAX / 2 || arg[KERNEL_GROUP + i] < 1 ||
            arg[KERNEL_GROUP + i] > INT32_MAX)
            return false;
    for (int i = 1 + c->outputs; i < c->inputs; i++)
        if (in[i]->ndim > KERNEL_AXES_MOST || in[i]->dtype != c->in[i]->dtype ||
            !op_same_shape(in[i], c->in[i]))
            return false;
    return true;
}

const struct op op_cuda_kernel = {
    .name = "cuda_kernel",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = KERNEL_ARGS,
    .field = fields,
    .record = record,
    .fits = fits_cuda_kernel,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Checks ----------------------------------------------------------------------------------------------------

// Returns a name by its number: inputs, outputs, arguments, then the kernel itself.
static const char *name_at(const zl_cpu_kernel_source *k, int at) {
    if (at < k->inputs)
        return k->input[at];
    at -= k->inputs;
    if (at < k->outputs)
        return k->output[at];
    at -= k->outputs;
    return at < k->arguments ? k->argument[at].name : k->name;
}

static bool check_names(const char *function, const zl_cpu_kernel_source *k) {
    int count = k->inputs + k->outputs + k->arguments + 1;
    for (int i = 0; i < count; i++) {
        const char *name = name_at(k, i);
        if (!op_kernel_names(name))
            return error_false(ZL_ERROR_VALUE, "%s: '%s' is not a name: letters, digits and _ make one",
                               function, name ? name : "");
        for (int j = 0; j < i; j++)
            if (!strcmp(name, name_at(k, j)))
                return error_false(ZL_ERROR_VALUE, "%s: the name %s is given twice", function, name);
    }
    return true;
}

static bool check_arguments(const char *function, const zl_cpu_kernel_source *k) {
    for (int i = 0; i < k->arguments; i++)
        if (k->argument[i].is_dtype && !op_check_dtype(function, (zl_dtype)k->argument[i].value))
            return false;
    for (int i = 0; i < k->outputs; i++)
        if (!op_check_dtype(function, k->dtype[i]))
            return false;
    return true;
}

static bool check(const char *function, const zl_cpu_kernel_source *k, int count, const zl_array *in) {
    bool whole = k && k->name && k->source && k->inputs >= 0 && k->outputs > 0 && k->arguments >= 0 &&
                 k->shape && k->dtype && k->output && (!k->inputs || k->input) &&
                 (!k->arguments || k->argument);
    if (!whole)
        return error_false(ZL_ERROR_VALUE,
                           "%s: a name, a source, and names, shapes and dtypes of its outputs are needed",
                           function);
    if (count != k->inputs)
        return error_false(ZL_ERROR_VALUE, "%s: %s has %d inputs, but is given %d", function, k->name,
                           k->inputs, count);
    if (count && !in)
        return error_false(ZL_ERROR_VALUE, "%s: %d inputs, but no list of them", function, count);
    for (int i = 0; i < count; i++)
        if (!in[i])
            return false;
    return check_names(function, k) && check_arguments(function, k);
}

// The sizes of the grid and of the outputs are constants and cannot follow the shapes of inputs. CUDA kernels
// may be exported to files, but kernels for the CPU may not.
static bool check_traced(const struct op *op, const zl_cpu_kernel_source *k, int count, const zl_array *in) {
    const char *function = name_of(op);
    for (int i = 0; i < count; i++)
        if (op_follows(in[i]))
            return error_false(
                ZL_ERROR_VALUE,
                "%s: %s has outputs and a grid of fixed sizes: a function that is compiled shapeless "
                "cannot use it",
                function, k->name);
    return !recorder.exporting || op == &op_cuda_kernel ||
           error_false(ZL_ERROR_VALUE,
                       "%s: %s is code, which files of functions do not hold: it cannot be exported",
                       function, k->name);
}

static bool read_grid(const char *function, const zl_cpu_kernel_source *k, int64_t *arg) {
    int64_t positions = 1;
    for (int i = 0; i < 3; i++) {
        if (k->grid[i] < 0 || k->group[i] < 0 || __builtin_mul_overflow(positions, k->grid[i], &positions))
            return error_false(
                ZL_ERROR_VALUE,
                "%s: a grid of (%lld, %lld, %lld) in groups of (%lld, %lld, %lld): sizes must not be "
                "negative, and fit 64 bits together",
                function, (long long)k->grid[0], (long long)k->grid[1], (long long)k->grid[2],
                (long long)k->group[0], (long long)k->group[1], (long long)k->group[2]);
        arg[KERNEL_GRID + i] = k->grid[i];
        arg[KERNEL_GROUP + i] = MAX_OF(1, MIN_OF(k->group[i], k->grid[i]));
    }
    return true;
}

// Public ----------------------------------------------------------------------------------------------------

// Makes the inputs as the kernel reads them: not weak, and row-major unless it is strided.
static bool read_inputs(const zl_cpu_kernel_source *k, const zl_array *in, zl_array *out) {
    for (int i = 0; i < k->inputs; i++) {
        out[i] = array_is(in[i], ARRAY_WEAK) ? zl_astype(in[i], (zl_dtype)in[i]->dtype) : in[i];
        if (!k->strided)
            out[i] = zl_contiguous(out[i], false);
        if (!out[i])
            return false;
    }
    return true;
}

static char *text_of(const struct op *op, const zl_cpu_kernel_source *k, int count, const zl_array *in) {
    if (!check(name_of(op), k, count, in))
        return NULL;
    struct text text = {0};
    if (op == &op_cuda_kernel)
        op_cuda_kernel_text(&text, k, in);
    else
        op_kernel_text(&text, k, in);
    return text_take(&text);
}

static bool call(const struct op *op, const zl_cpu_kernel_source *k, const char *text, int64_t shared,
                 const zl_array *in, zl_array *out) {
    int64_t inputs = 1 + (int64_t)k->outputs + k->inputs;
    int64_t arg[KERNEL_ARGS] = {k->outputs};
    arg[KERNEL_FILLS] = k->init != NULL;
    arg[KERNEL_STRIDED] = k->strided;
    arg[KERNEL_SHARED] = shared;
    OP_TEMP(zl_array, all, inputs);
    return all && read_grid(name_of(op), k, arg) &&
           op_kernel_inputs(name_of(op), text, k->init ? *k->init : 0, k->outputs, k->shape, k->dtype,
                            k->inputs, in, all) &&
           op_record_kernel(op, (int)inputs, all, KERNEL_ARGS, arg, out);
}

static bool make(const struct op *op, const zl_cpu_kernel_source *k, int64_t shared, int count,
                 const zl_array *in, zl_array *out) {
    char *text = text_of(op, k, count, in);
    if (!text)
        return false;
    OP_TEMP(zl_array, read, count);
    bool ok = op_check_out(name_of(op), k->outputs, out) && check_traced(op, k, count, in) && read &&
              read_inputs(k, in, read) && call(op, k, text, shared, read, out);
    memory_free(text);
    return ok;
}

char *zl_cpu_kernel_text(const zl_cpu_kernel_source *k, int count, const zl_array *in) {
    return text_of(&op_cpu_kernel, k, count, in);
}

bool zl_cpu_kernel(const zl_cpu_kernel_source *k, int count, const zl_array *in, zl_array *out) {
    return make(&op_cpu_kernel, k, 0, count, in, out);
}

char *zl_cuda_kernel_text(const zl_cpu_kernel_source *k, int count, const zl_array *in) {
    return text_of(&op_cuda_kernel, k, count, in);
}

static bool check_axes(const zl_cpu_kernel_source *k, int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (in[i] && in[i]->ndim > KERNEL_AXES_MOST)
            return error_false(ZL_ERROR_SHAPE,
                               "zl_cuda_kernel: input %s of shape %s: at most %d axes are possible",
                               k->input[i], array_text(in[i]), KERNEL_AXES_MOST);
    return true;
}

bool zl_cuda_kernel(const zl_cpu_kernel_source *k, int64_t shared_memory, int count, const zl_array *in,
                    zl_array *out) {
    if (shared_memory < 0 || shared_memory > INT32_MAX)
        return error_false(ZL_ERROR_VALUE,
                           "zl_cuda_kernel: %lld bytes of shared memory: none or some are possible",
                           (long long)shared_memory);
    return (!k || count != k->inputs || !in || !k->input || check_axes(k, count, in)) &&
           make(&op_cuda_kernel, k, shared_memory, count, in, out);
}
