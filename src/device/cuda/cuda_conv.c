// cuda_conv.c - convolutions by cuDNN: as forward convolutions, as gradients of an input, or as gradients of
// a kernel.
//
// The gradients of a convolution are recorded as convolutions too, for which cuDNN has kernels of its own. A
// convolution with a dilated input or a flipped kernel is the gradient of the input of a convolution with
// that stride. One with a kernel that is larger than the result, or with groups in the batch, is the gradient
// of a kernel, and its kernel is the cotangent. cuDNN reads and writes arrays with contiguous channels, as
// ours are unless they are views; those are copied, except for views with batch and channels exchanged in
// gradients of kernels. A convolution for which cuDNN has no plan runs on our own kernel.
//
// cuDNN proposes a few plans for a shape. At its first use, a large convolution is computed with each of
// them, and the fastest is kept: cuDNN's first guess may take several times as long. In f32 without TF32, a
// product of matrices is tried as well.

#include "device/cuda/cuda_conv.h"
#include "op/ops.h"

#include <math.h>
#include <string.h>

enum { SPATIAL = CONV_AXES, AXES = SPATIAL + 2 };

// An array in cuDNN's order of axes: batch, channels, then at least two spatial axes. Axis `grouped` may
// consist of groups that are group_stride apart.
struct view {
    int64_t dim[AXES], stride[AXES];
    int grouped;
    int64_t groups, group_stride;
};

struct key {
    int64_t x[AXES], w[AXES],
        y[AXES]; // sizes of the input, kernel and output, as cuDNN defines them
    int64_t stride[SPATIAL], dilation[SPATIAL], low[SPATIAL], high[SPATIAL];
    int32_t axes, kind, flip, dtype, exact, unit, lane;
};

enum {
    PLANS = 8,             // plans that are timed
    TIMED_LEAST = 1 << 28, // least operations of a convolution for which timing pays
};

enum { NOT_YET = -1, NO_PLAN = -2 };

struct planned {
    struct dnn_plan plan[PLANS];
    int plans;
    // the plan that is kept; NOT_YET: none chosen so far; NO_PLAN: none has the precision asked for
    int chosen;
    bool multiplies; // whether a product of matrices is faster
    int64_t tensor[3];
};

static struct lock lock; // guards plans
static struct map plans;

// Views -----------------------------------------------------------------------------------------------------

// Returns an array with its axes (N, sizes, C) in cuDNN's order. A single spatial axis gets another one of
// size 1 before it.
static struct view view_of(zl_array x, bool swapped) {
    struct view v = {.groups = 1};
    int last = x->ndim - 1, spatial = last - 1, shift = spatial == 1;
    v.dim[swapped ? 1 : 0] = x->dim[0];
    v.stride[swapped ? 1 : 0] = array_stride(x)[0];
    v.dim[swapped ? 0 : 1] = x->dim[last];
    v.stride[swapped ? 0 : 1] = array_stride(x)[last];
    if (shift) {
        v.dim[2] = 1;
        v.stride[2] = x->dim[1] * array_stride(x)[1];
    }
    for (int i = 0; i < spatial; i++) {
        v.dim[2 + shift + i] = x->dim[i + 1];
        v.stride[2 + shift + i] = array_stride(x)[i + 1];
    }
    return v;
}

// Moves groups to axis `to`, for an array that has them in the other one of its first two axes.
static void move_groups(struct view *v, int to, int64_t groups) {
    int from = 1 - to;
    v->dim[from] /= groups;
    v->dim[to] *= groups;
    v->grouped = to;
    v->groups = groups;
    v->group_stride = v->dim[from] * v->stride[from];
}

static int64_t span(int64_t size, int64_t dilation) {
    return (size - 1) * dilation + 1;
}

// Returns the padding after an axis for which `size` elements give `out`: the same as before it, if that
// does.
static int64_t pad_after(int64_t size, int64_t kernel, int64_t stride, int64_t low, int64_t out) {
    int64_t least = (out - 1) * stride + kernel - size - low;
    return low >= least && low < least + stride ? low : least;
}

static void set_axis(struct key *k, int at, const struct conv_axis *a) {
    int64_t kernel = k->w[at + 2], size = k->x[at + 2], out = k->y[at + 2];
    switch ((enum dnn_conv_kind)k->kind) {
    case DNN_CONV_FORWARD:
        k->stride[at] = a->stride;
        k->dilation[at] = a->dilation;
        k->low[at] = a->low;
        break;
    case DNN_CONV_OF_INPUT:
        k->stride[at] = a->input_dilation;
        k->dilation[at] = a->dilation;
        k->low[at] = span(kernel, a->dilation) - 1 - a->low;
        break;
    case DNN_CONV_OF_KERNEL:
        k->stride[at] = a->dilation;
        k->dilation[at] = a->stride;
        k->low[at] = a->low;
        break;
    }
    k->high[at] = pad_after(size, span(kernel, k->dilation[at]), k->stride[at], k->low[at], out);
}

static enum dnn_conv_kind kind_of(const struct conv *v, zl_array w, zl_array y) {
    int64_t kernel = 1, out = 1;
    bool is_dilated = false, is_strided = false;
    for (int i = 0; i < v->axes; i++) {
        is_dilated |= v->axis[i].input_dilation > 1;
        is_strided |= v->axis[i].stride > 1;
        kernel *= w->dim[i + 1];
        out *= y->dim[i + 1];
    }
    if (is_dilated || (v->flip && !is_strided))
        return DNN_CONV_OF_INPUT;
    return !v->flip && (v->in_batch || kernel > out) ? DNN_CONV_OF_KERNEL : DNN_CONV_FORWARD;
}

// Returns whether cuDNN can express the convolution.
static bool fits(const struct key *k, const struct conv *v) {
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        if ((k->kind == DNN_CONV_OF_INPUT && a->stride != 1) ||
            (k->kind != DNN_CONV_OF_INPUT && a->input_dilation != 1))
            return false;
    }
    for (int i = 0; i < k->axes; i++)
        if (k->low[i] < 0 || k->high[i] < 0)
            return false;
    return true;
}

// The arrays of a call in the roles that they have for cuDNN; of_input and of_kernel say whether x or w is
// the result.
struct arrays {
    zl_array x, w, y;
    bool of_input, of_kernel;
    struct view views[3];
};

static struct arrays arrays_of(const struct call *c, enum dnn_conv_kind kind, const struct conv *v) {
    zl_array x = c->in[0], w = c->in[1], y = call_first(c);
    bool of_input = kind == DNN_CONV_OF_INPUT, of_kernel = kind == DNN_CONV_OF_KERNEL;
    struct arrays a = {of_input ? y : x, of_kernel ? y : w,
                       of_kernel  ? w
                       : of_input ? x
                                  : y,
                       of_input, of_kernel};
    a.views[0] = view_of(a.x, of_kernel);
    a.views[1] = view_of(a.w, of_kernel || of_input);
    a.views[2] = view_of(a.y, of_kernel);
    if (v->groups > 1 && v->in_batch != of_kernel)
        move_groups(&a.views[of_input ? 2 : 0], 1, v->groups);
    if (v->groups > 1 && of_input)
        move_groups(&a.views[1], 0, v->groups);
    return a;
}

static bool read_key(struct key *k, struct arrays *a, const struct kernel_place *p, const struct call *c,
                     enum dnn_conv_kind kind) {
    struct conv v = op_conv_read(c);
    int shift = v.axes == 1;
    memset(k, 0, sizeof *k);
    k->axes = v.axes + shift;
    k->kind = kind;
    k->dtype = c->in[0]->dtype;
    k->exact = k->dtype == ZL_FLOAT32 && !setting_flag(SETTING_TF32);
    k->unit = p->unit;
    k->lane = p->lane;
    *a = arrays_of(c, kind, &v);
    k->flip = v.flip != a->of_input;
    memcpy(k->x, a->views[0].dim, sizeof k->x);
    memcpy(k->w, a->views[1].dim, sizeof k->w);
    memcpy(k->y, a->views[2].dim, sizeof k->y);
    if (shift)
        k->stride[0] = k->dilation[0] = 1;
    for (int i = 0; i < v.axes; i++)
        set_axis(k, shift + i, &v.axis[i]);
    return fits(k, &v);
}

// Memory ----------------------------------------------------------------------------------------------------

// Sets row-major strides for channels last: consecutive channels, then spatial axes, then the batch.
static void lay_out(int axes, const int64_t *dim, int64_t *stride) {
    int64_t next = dim[1];
    stride[1] = 1;
    for (int i = axes + 1; i >= 2; i--) {
        stride[i] = next;
        next *= dim[i];
    }
    stride[0] = next;
}

static bool lies_so(int axes, const struct view *v) {
    int64_t stride[AXES], each = v->dim[v->grouped] / v->groups;
    lay_out(axes, v->dim, stride);
    for (int i = 0; i < axes + 2; i++)
        if ((i == v->grouped ? each : v->dim[i]) != 1 && v->stride[i] != stride[i])
            return false;
    return v->groups == 1 || v->group_stride == each * stride[v->grouped];
}

// Copies a list of sizes or strides of axes, in which the axis with groups becomes two axes: groups, and
// elements of a group.
static void split(const struct view *v, int64_t group, int64_t each, const int64_t *list, int64_t *out) {
    int at = v->grouped;
    memcpy(out, list, sizeof *list * (size_t)at);
    out[at] = group;
    out[at + 1] = each;
    memcpy(out + at + 2, list + at + 1, sizeof *list * (size_t)(AXES - at - 1));
}

// Sorts axes by their strides in the copy, the smallest last, so that neighbouring elements are moved at
// once.
static void order_axes(int ndim, int64_t *dim, int64_t *copied, int64_t *lying) {
    for (int i = 1; i < ndim; i++)
        for (int k = i; k > 0 && copied[k - 1] < copied[k]; k--) {
            int64_t *const lists[] = {dim, copied, lying};
            for (int j = 0; j < 3; j++) {
                int64_t moved = lists[j][k];
                lists[j][k] = lists[j][k - 1];
                lists[j][k - 1] = moved;
            }
        }
}

// Copies an array, in its own layout, to a dense copy for cuDNN, or back.
static bool move(const struct kernel_place *p, int axes, const struct view *v, zl_array x, void *copy,
                 bool back) {
    int64_t dense[AXES] = {0}, dim[AXES + 1], copied[AXES + 1], lying[AXES + 1];
    int at = v->grouped, ndim = axes + 3;
    int64_t each = v->dim[at] / v->groups;
    lay_out(axes, v->dim, dense);
    split(v, v->groups, each, v->dim, dim);
    split(v, each * dense[at], dense[at], dense, copied);
    split(v, v->group_stride, v->stride[at], v->stride, lying);
    order_axes(ndim, dim, copied, lying);
    void *lies = cuda_element(p, x);
    return lies && (back ? kernel_move(p, (zl_dtype)x->dtype, ndim, dim, lies, lying, copy, copied)
                         : kernel_move(p, (zl_dtype)x->dtype, ndim, dim, copy, copied, lies, lying));
}

// Returns memory that cuDNN can use for an array: its own, or a copy, which is not filled yet if it is the
// result. Returns NULL, with an error, if that fails.
static void *bring(const struct kernel_place *p, int axes, const struct view *v, zl_array x, bool is_result,
                   struct kernel_scratch *copy) {
    void *lies = cuda_element(p, x);
    if (!lies || (lies_so(axes, v) && (uintptr_t)lies % 16 == 0))
        return lies;
    void *to = kernel_scratch_open(p, copy, (size_t)x->size * array_item(x));
    return to && (is_result || move(p, axes, v, x, to, false)) ? to : NULL;
}

// Plans -----------------------------------------------------------------------------------------------------

static bool is_worth_timing(const struct key *k) {
    double operations = 2 * (double)k->w[1];
    for (int i = 0; i < k->axes + 2; i++)
        operations *= (double)k->y[i] * (i < 2 ? 1 : (double)k->w[i]);
    return operations >= TIMED_LEAST;
}

// Returns whether a plan with a workspace would give wrong results: for gradients of kernels in f32 and f64
// whose padding differs before and after, cuDNN 9 was wrong in each of 19 random cases on an H200; without a
// workspace it was right in 136 of 136.
static bool is_wrong_in_workspace(const struct key *k) {
    bool uneven = false;
    for (int i = 0; i < k->axes; i++)
        uneven |= k->low[i] != k->high[i];
    return uneven && k->kind == DNN_CONV_OF_KERNEL && (k->dtype == ZL_FLOAT32 || k->dtype == ZL_FLOAT64);
}

// Builds the plans of a key. Returns their number.
static int build(const struct key *k, struct dnn_plan *plan, int64_t *tensor) {
    struct dnn_conv v = {.axes = k->axes, .flip = k->flip};
    struct dnn_graph *g = memory_zero(sizeof *g);
    enum dnn_type type = dnn_type_of((zl_dtype)k->dtype);
    if (!g)
        return 0;
    memcpy(v.stride, k->stride, sizeof v.stride);
    memcpy(v.dilation, k->dilation, sizeof v.dilation);
    memcpy(v.low, k->low, sizeof v.low);
    memcpy(v.high, k->high, sizeof v.high);
    const int64_t *const dims[] = {k->x, k->w, k->y};
    for (int i = 0; i < 3; i++) {
        int64_t stride[AXES];
        lay_out(k->axes, dims[i], stride);
        tensor[i] = dnn_tensor(g, DNN_MEMORY, type, k->axes + 2, dims[i], stride);
    }
    dnn_convolve(g, (enum dnn_conv_kind)k->kind, &v, (int)tensor[0], (int)tensor[1], (int)tensor[2]);
    struct dnn_wish wish = {.exact = k->exact, .no_workspace = is_wrong_in_workspace(k)};
    int count = dnn_build_some(g, k->unit, k->lane, wish, k->exact || is_worth_timing(k) ? PLANS : 1, plan);
    dnn_drop(g);
    memory_free(g);
    return count;
}

// Returns the entry of a key, which may have no plans, or NULL and an error if memory runs out.
static struct planned *find_plan(const struct key *k) {
    struct planned *plan = map_get(&plans, k, sizeof *k);
    if (plan || !(plan = memory_zero(sizeof *plan)))
        return plan;
    plan->plans = build(k, plan->plan, plan->tensor);
    plan->chosen = NOT_YET;
    if (map_set(&plans, k, sizeof *k, plan))
        return plan;
    dnn_keep(plan->plans, plan->plan, -1);
    memory_free(plan);
    return NULL;
}

bool cuda_convolve_can(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype) && dnn_is_there();
}

// Returns the choice that another lane of the unit has made for the key, or NULL if there is none. With it, a
// result does not depend on its stream.
static const struct planned *chosen_by_others(struct key k) {
    for (k.lane = 0; k.lane < CUDA_LANES; k.lane++) {
        const struct planned *other = map_get(&plans, &k, sizeof k);
        if (other && other->chosen != NOT_YET)
            return other;
    }
    return NULL;
}

static int result_of(enum dnn_conv_kind kind) {
    return kind == DNN_CONV_OF_INPUT ? 0 : kind == DNN_CONV_OF_KERNEL ? 1 : 2;
}

static int64_t elements_of(const struct key *k, const int64_t *dim) {
    int64_t elements = 1;
    for (int i = 0; i < k->axes + 2; i++)
        elements *= dim[i];
    return elements;
}

static struct conv_sizes sizes_of(const struct key *k) {
    return (struct conv_sizes){.kind = (enum dnn_conv_kind)k->kind,
                               .axes = k->axes,
                               .flip = k->flip,
                               .x = k->x,
                               .w = k->w,
                               .y = k->y,
                               .stride = k->stride,
                               .dilation = k->dilation,
                               .low = k->low};
}

// Returns the fastest plan, or the first if the convolution is too small to time. In exact mode, only plans
// that multiply and add at full precision count. Returns NO_PLAN if there is none. Sets *ms to the plan's
// time, or to INFINITY if it was not timed.
static int find_best(const struct kernel_place *p, const struct key *k, const struct planned *plan,
                     void *const *memory, float *ms) {
    const int64_t elements[] = {elements_of(k, k->x), elements_of(k, k->w), elements_of(k, k->y)};
    int result = result_of((enum dnn_conv_kind)k->kind), count = 0, from[PLANS] = {0};
    struct dnn_plan good[PLANS];
    for (int i = 0; i < plan->plans && (!count || is_worth_timing(k)); i++)
        if (!k->exact || dnn_is_whole(p, &plan->plan[i], result, 3, plan->tensor, elements)) {
            good[count] = plan->plan[i];
            from[count++] = i;
        }
    *ms = INFINITY;
    if (!count)
        return NO_PLAN;
    return from[is_worth_timing(k) ? dnn_fastest(p, count, good, 3, plan->tensor, memory, ms) : 0];
}

static void choose_best(const struct kernel_place *p, const struct key *k, struct planned *plan,
                        void *const *memory) {
    struct conv_sizes sizes = sizes_of(k);
    float ms;
    int best = find_best(p, k, plan, memory, &ms);
    plan->multiplies = k->exact && is_worth_timing(k) && cuda_conv_has_product(&sizes) &&
                       cuda_conv_time_product(p, &sizes, memory) < ms;
    dnn_keep(plan->plans, plan->plan, best);
    plan->chosen = best;
}

// Returns which plan of this lane is what another lane has chosen. Lists of lanes differ where one could not
// build a plan. Returns NOT_YET if the plan is not here.
static int chosen_here(const struct planned *plan, const struct planned *other) {
    int here = other->chosen == NO_PLAN ? NO_PLAN : NOT_YET;
    for (int i = 0; i < plan->plans && here == NOT_YET; i++)
        if (plan->plan[i].configuration == other->plan[0].configuration)
            here = i;
    return here;
}

static void choose(const struct kernel_place *p, const struct key *k, struct planned *plan,
                   void *const *memory) {
    lock_take(&lock);
    const struct planned *other = plan->chosen == NOT_YET ? chosen_by_others(*k) : NULL;
    int here = other ? chosen_here(plan, other) : NOT_YET;
    if (here != NOT_YET) {
        dnn_keep(plan->plans, plan->plan, here);
        plan->chosen = here;
        plan->multiplies = other->multiplies;
    } else if (plan->chosen == NOT_YET) {
        choose_best(p, k, plan, memory);
    }
    lock_give(&lock);
}

// Runs the chosen way; if memory for patches is missing, runs a plan of cuDNN instead of the product.
static enum kernel_taken compute(const struct kernel_place *p, const struct key *k,
                                 const struct planned *plan, void *const *memory) {
    struct conv_sizes sizes = sizes_of(k);
    bool had_error = zl_error();
    if (plan->multiplies && cuda_conv_by_product(p, &sizes, memory))
        return KERNEL_DONE;
    if (plan->multiplies && !had_error)
        zl_clear_error();
    if (plan->chosen == NO_PLAN)
        return KERNEL_NOT_TAKEN;
    return dnn_run(p, plan->plan, 3, plan->tensor, memory) ? KERNEL_DONE : KERNEL_FAILED;
}

static enum kernel_taken run(const struct kernel_place *p, const struct key *k, struct planned *plan,
                             const struct arrays *a) {
    const zl_array list[] = {a->x, a->w, a->y};
    int result = result_of((enum dnn_conv_kind)k->kind);
    struct kernel_scratch copy[3] = {{0}};
    void *memory[3];
    enum kernel_taken taken = KERNEL_DONE;
    for (int i = 0; i < 3; i++)
        if (!(memory[i] = bring(p, k->axes, &a->views[i], list[i], i == result, &copy[i])))
            taken = KERNEL_FAILED;
    if (taken == KERNEL_DONE) {
        choose(p, k, plan, memory);
        taken = compute(p, k, plan, memory);
    }
    if (taken == KERNEL_DONE && copy[result].memory &&
        !move(p, k->axes, &a->views[result], list[result], copy[result].memory, true))
        taken = KERNEL_FAILED;
    for (int i = 0; i < 3; i++)
        kernel_scratch_close(p, &copy[i]);
    return taken;
}

static enum kernel_taken convolve_as(enum dnn_conv_kind kind, const struct kernel_place *p,
                                     const struct call *c) {
    struct key k;
    struct arrays a;
    if (!read_key(&k, &a, p, c, kind))
        return KERNEL_NOT_TAKEN;
    lock_take(&lock);
    struct planned *plan = find_plan(&k);
    bool can = plan && plan->plans && (plan->chosen != NO_PLAN || plan->multiplies);
    lock_give(&lock);
    if (!can)
        return plan ? KERNEL_NOT_TAKEN : KERNEL_FAILED;
    return run(p, &k, plan, &a);
}

enum kernel_taken cuda_convolve(const struct kernel_place *p, const struct call *c) {
    struct conv v = op_conv_read(c);
    enum dnn_conv_kind kind = kind_of(&v, c->in[1], call_first(c));
    enum kernel_taken taken = convolve_as(kind, p, c);
    return taken == KERNEL_NOT_TAKEN && kind != DNN_CONV_FORWARD ? convolve_as(DNN_CONV_FORWARD, p, c)
                                                                 : taken;
}
