// cuda_dnn.c - cuDNN's graphs, by the functions of its backend: descriptors with attributes, heuristics,
// plans.

#include "device/cuda/cuda_dnn.h"

#include <pthread.h>
#include <string.h>

typedef struct dnn_ *dnn;

enum { // kinds of descriptors
    POINTWISE = 0,
    CONVOLUTION = 1,
    ENGINE = 2,
    CONFIGURATION = 3,
    HEURISTICS = 4,
    PLAN = 5,
    OPERATION_CONV_FORWARD = 10,
    OPERATION_CONV_KERNEL = 11,
    OPERATION_CONV_INPUT = 12,
    OPERATION_POINTWISE = 13,
    GRAPH = 15,
    VARIANT_PACK = 16,
    TENSOR = 17,
    MATMUL = 18,
    OPERATION_MATMUL = 19,
    REDUCTION = 21,
    OPERATION_REDUCTION = 22,
    OPERATION_RESHAPE = 31,
};

enum { // types of attributes
    A_HANDLE = 0,
    A_TYPE = 1,
    A_BOOL = 2,
    A_INT = 3,
    A_FLOAT = 4,
    A_DOUBLE = 5,
    A_POINTER = 6,
    A_CONV_MODE = 7,
    A_HEURISTICS_MODE = 8,
    A_NOTE = 11,
    A_ROW = 14,
    A_OBJECT = 15,
    A_REDUCE = 18,
};

enum { ALIGNMENT = 16, NOTES = 16 };

#define DNN_FUNCTIONS(F)                                                                                     \
    F(cudnnCreate, (dnn * out))                                                                              \
    F(cudnnSetStream, (dnn d, cuda_stream s))                                                                \
    F(cudnnBackendCreateDescriptor, (int kind, dnn_object *out))                                             \
    F(cudnnBackendDestroyDescriptor, (dnn_object o))                                                         \
    F(cudnnBackendFinalize, (dnn_object o))                                                                  \
    F(cudnnBackendSetAttribute, (dnn_object o, int name, int type, int64_t count, const void *value))        \
    F(cudnnBackendGetAttribute, (dnn_object o, int name, int type, int64_t room, int64_t *count, void *out)) \
    F(cudnnBackendExecute, (dnn d, dnn_object plan, dnn_object pack))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    DNN_FUNCTIONS(MEMBER)
#undef MEMBER
    size_t (*cudnnGetVersion)(void);
} api;

static bool is_there;
static struct lane {
    struct lock lock; // a handle serves one thread at a time
    dnn handle;
    bool failed;
} lanes[CUDA_DEVICES][CUDA_LANES];

// Opening ---------------------------------------------------------------------------------------------------

static void find(void) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {DNN_FUNCTIONS(SYMBOL) SYMBOL(cudnnGetVersion, (void))};
#undef SYMBOL
    const char *missing;
    void *library = cuda_library("cudnn", (const int[CUDA_VERSIONS]){9});
    is_there = library && library_bind(library, symbols, COUNT(symbols), &missing);
}

bool dnn_is_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return is_there;
}

size_t dnn_version(void) {
    return dnn_is_there() ? api.cudnnGetVersion() : 0;
}

static dnn handle_of(int unit, int lane) {
    struct lane *l = &lanes[unit][lane];
    struct cuda_device *d = cuda_device(unit);
    lock_take(&l->lock);
    if (d && !l->handle && !l->failed) {
        l->failed = api.cudnnCreate(&l->handle) || api.cudnnSetStream(l->handle, d->stream[lane]);
        l->handle = l->failed ? NULL : l->handle;
    }
    lock_give(&l->lock);
    return l->handle;
}

enum dnn_type dnn_type_of(zl_dtype dtype) {
    return dtype == ZL_FLOAT16    ? DNN_FLOAT16
           : dtype == ZL_BFLOAT16 ? DNN_BFLOAT16
           : dtype == ZL_FLOAT64  ? DNN_FLOAT64
                                  : DNN_FLOAT32;
}

// Descriptors -----------------------------------------------------------------------------------------------

static dnn_object create(struct dnn_graph *g, int kind) {
    dnn_object o = NULL;
    if (!g->failed && g->objects < (int)COUNT(g->object) && !api.cudnnBackendCreateDescriptor(kind, &o))
        return g->object[g->objects++] = o;
    g->failed = true;
    return NULL;
}

static void set(struct dnn_graph *g, dnn_object o, int name, int type, int64_t count, const void *value) {
    if (!g->failed && api.cudnnBackendSetAttribute(o, name, type, count, value))
        g->failed = true;
}

static void set_int(struct dnn_graph *g, dnn_object o, int name, int64_t value) {
    set(g, o, name, A_INT, 1, &value);
}

static void set_type(struct dnn_graph *g, dnn_object o, int name, enum dnn_type type) {
    set(g, o, name, A_TYPE, 1, &(int){type});
}

static void set_tensor(struct dnn_graph *g, dnn_object o, int name, int tensor) {
    if (tensor >= 0)
        set(g, o, name, A_OBJECT, 1, &g->tensor[tensor].object);
}

static void finish(struct dnn_graph *g, dnn_object o) {
    if (!g->failed && api.cudnnBackendFinalize(o))
        g->failed = true;
}

static void finish_operation(struct dnn_graph *g, dnn_object o) {
    finish(g, o);
    if (!g->failed)
        g->operation[g->operations++] = o;
}

// Tensors ---------------------------------------------------------------------------------------------------

enum { // attributes
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE,
    TENSOR_DIM,
    TENSOR_STRIDE,
    TENSOR_ID = 906,
    TENSOR_WITHIN,
    TENSOR_NUMBER
};

int dnn_tensor(struct dnn_graph *g, enum dnn_hold hold, enum dnn_type type, int ndim, const int64_t *dim,
               const int64_t *stride) {
    if (g->tensors == DNN_TENSORS) {
        g->failed = true;
        return 0;
    }
    struct dnn_tensor *t = &g->tensor[g->tensors];
    *t = (struct dnn_tensor){.object = create(g, TENSOR), .type = type, .ndim = ndim};
    memcpy(t->dim, dim, sizeof *dim * (size_t)ndim);
    if (stride)
        memcpy(t->stride, stride, sizeof *stride * (size_t)ndim);
    else
        shape_row_major(ndim, dim, t->stride);
    set_type(g, t->object, TENSOR_TYPE, type);
    set(g, t->object, TENSOR_DIM, A_INT, ndim, t->dim);
    set(g, t->object, TENSOR_STRIDE, A_INT, ndim, t->stride);
    set_int(g, t->object, TENSOR_ID, g->tensors + 1);
    set_int(g, t->object, TENSOR_ALIGNMENT, ALIGNMENT);
    if (hold == DNN_WITHIN)
        set(g, t->object, TENSOR_WITHIN, A_BOOL, 1, &(bool){true});
    if (hold == DNN_NUMBER)
        set(g, t->object, TENSOR_NUMBER, A_BOOL, 1, &(bool){true});
    finish(g, t->object);
    return g->tensors++;
}

int dnn_number(struct dnn_graph *g, enum dnn_type type, int ndim) {
    static const int64_t ones[DNN_AXES] = {1, 1, 1, 1, 1};
    return dnn_tensor(g, DNN_NUMBER, type, ndim, ones, ones);
}

int dnn_like(struct dnn_graph *g, int x, enum dnn_type type) {
    return dnn_tensor(g, DNN_WITHIN, type, g->tensor[x].ndim, g->tensor[x].dim, NULL);
}

// Operations ------------------------------------------------------------------------------------------------

void dnn_matmul(struct dnn_graph *g, int a, int b, int y) {
    enum { COMPUTES_IN = 1500, A = 1520, B, Y, WHAT };
    dnn_object what = create(g, MATMUL), o = create(g, OPERATION_MATMUL);
    set_type(g, what, COMPUTES_IN, DNN_FLOAT32);
    finish(g, what);
    set_tensor(g, o, A, a);
    set_tensor(g, o, B, b);
    set_tensor(g, o, Y, y);
    set(g, o, WHAT, A_OBJECT, 1, &what);
    finish_operation(g, o);
}

void dnn_reduce(struct dnn_graph *g, enum dnn_reduce how, int x, int y) {
    enum { HOW = 1600, COMPUTES_IN, X = 1610, Y, WHAT };
    dnn_object what = create(g, REDUCTION), o = create(g, OPERATION_REDUCTION);
    set(g, what, HOW, A_REDUCE, 1, &(int){how});
    set_type(g, what, COMPUTES_IN, DNN_FLOAT32);
    finish(g, what);
    set_tensor(g, o, X, x);
    set_tensor(g, o, Y, y);
    set(g, o, WHAT, A_OBJECT, 1, &what);
    finish_operation(g, o);
}

static void map(struct dnn_graph *g, enum dnn_row row, enum dnn_type computes_in, int axis, int x, int b,
                int select, int y) {
    enum { ROW = 0, COMPUTES_IN = 1, AXIS = 9, WHAT = 750, X, B, Y, SELECT = 758 };
    dnn_object what = create(g, POINTWISE), o = create(g, OPERATION_POINTWISE);
    set(g, what, ROW, A_ROW, 1, &(int){row});
    set_type(g, what, COMPUTES_IN, computes_in);
    if (axis >= 0)
        set_int(g, what, AXIS, axis);
    finish(g, what);
    set(g, o, WHAT, A_OBJECT, 1, &what);
    set_tensor(g, o, X, x);
    set_tensor(g, o, B, b);
    set_tensor(g, o, Y, y);
    set_tensor(g, o, SELECT, select);
    finish_operation(g, o);
}

void dnn_map(struct dnn_graph *g, enum dnn_row row, enum dnn_type computes_in, int x, int b, int select,
             int y) {
    map(g, row, computes_in, -1, x, b, select, y);
}

void dnn_index(struct dnn_graph *g, int like, int axis, int y) {
    map(g, DNN_INDEX, DNN_FLOAT32, axis, like, -1, -1, y);
}

void dnn_reshape(struct dnn_graph *g, int x, int y) {
    enum { X = 2200, Y };
    dnn_object o = create(g, OPERATION_RESHAPE);
    set_tensor(g, o, X, x);
    set_tensor(g, o, Y, y);
    finish_operation(g, o);
}

static dnn_object describe_convolution(struct dnn_graph *g, const struct dnn_conv *v, enum dnn_type type) {
    enum { COMPUTES_IN = 100, MODE, DILATION, STRIDE, HIGH, LOW, AXES };
    dnn_object what = create(g, CONVOLUTION);
    set_type(g, what, COMPUTES_IN, type == DNN_FLOAT64 ? DNN_FLOAT64 : DNN_FLOAT32);
    set(g, what, MODE, A_CONV_MODE, 1, &(int){!v->flip});
    set(g, what, DILATION, A_INT, v->axes, v->dilation);
    set(g, what, STRIDE, A_INT, v->axes, v->stride);
    set(g, what, HIGH, A_INT, v->axes, v->high);
    set(g, what, LOW, A_INT, v->axes, v->low);
    set_int(g, what, AXES, v->axes);
    finish(g, what);
    return what;
}

void dnn_convolve(struct dnn_graph *g, enum dnn_conv_kind kind, const struct dnn_conv *v, int x, int w,
                  int y) {
    enum { ALPHA, BETA, WHAT, W, X, Y, NAMES };
    static const int names[][NAMES] = {[DNN_CONV_FORWARD] = {700, 701, 702, 703, 704, 705},
                                       [DNN_CONV_OF_INPUT] = {706, 707, 708, 709, 710, 711},
                                       [DNN_CONV_OF_KERNEL] = {712, 713, 714, 715, 716, 717}};
    static const int kinds[] = {OPERATION_CONV_FORWARD, OPERATION_CONV_INPUT, OPERATION_CONV_KERNEL};
    const int *name = names[kind];
    dnn_object what = describe_convolution(g, v, g->tensor[x].type), o = create(g, kinds[kind]);
    bool wide = g->tensor[x].type == DNN_FLOAT64;
    set(g, o, name[ALPHA], wide ? A_DOUBLE : A_FLOAT, 1, wide ? (const void *)&(double){1} : &(float){1});
    set(g, o, name[BETA], wide ? A_DOUBLE : A_FLOAT, 1, wide ? (const void *)&(double){0} : &(float){0});
    set(g, o, name[WHAT], A_OBJECT, 1, &what);
    set_tensor(g, o, name[W], w);
    set_tensor(g, o, name[X], x);
    set_tensor(g, o, name[Y], y);
    finish_operation(g, o);
}

// Plans -----------------------------------------------------------------------------------------------------

static dnn_object describe_graph(struct dnn_graph *g, dnn handle) {
    enum { HANDLE = 800, OPERATIONS };
    dnn_object o = create(g, GRAPH);
    set(g, o, OPERATIONS, A_OBJECT, g->operations, g->operation);
    set(g, o, HANDLE, A_HANDLE, 1, &handle);
    finish(g, o);
    return o;
}

// Returns whether an engine gives the same bits in every run and, if `exact`, has the precision of plain
// multiplications and additions.
static bool is_good(dnn_object configuration, bool exact) {
    enum { ENGINE_OF = 300, ENGINE_NOTES = 1303, DIFFERS_BY_RUNS = 4, KEEPS_NAN = 9 };
    dnn_object engine = NULL;
    int64_t count = 0;
    int note[NOTES];
    if (api.cudnnBackendCreateDescriptor(ENGINE, &engine))
        return false;
    bool is_known = !api.cudnnBackendGetAttribute(configuration, ENGINE_OF, A_OBJECT, 1, &count, &engine) &&
                    !api.cudnnBackendGetAttribute(engine, ENGINE_NOTES, A_NOTE, NOTES, &count, note);
    bool good = is_known || !exact;
    for (int64_t i = 0; is_known && good && i < count && i < NOTES; i++)
        good = note[i] != DIFFERS_BY_RUNS && (!exact || note[i] == KEEPS_NAN);
    api.cudnnBackendDestroyDescriptor(engine);
    return good;
}

// Makes the plan of a configuration. Returns false if it cannot run, or does not meet the wish.
static bool try_configuration(dnn handle, dnn_object configuration, struct dnn_wish wish,
                              struct dnn_plan *out) {
    enum { HANDLE = 400, CONFIGURATION_OF = 401, WORKSPACE = 402 };
    int64_t count = 0, bytes = 0;
    dnn_object plan = NULL;
    if (api.cudnnBackendCreateDescriptor(PLAN, &plan))
        return false;
    bool works = !api.cudnnBackendSetAttribute(plan, HANDLE, A_HANDLE, 1, &handle) &&
                 !api.cudnnBackendSetAttribute(plan, CONFIGURATION_OF, A_OBJECT, 1, &configuration) &&
                 !api.cudnnBackendFinalize(plan) &&
                 !api.cudnnBackendGetAttribute(plan, WORKSPACE, A_INT, 1, &count, &bytes) &&
                 !(wish.no_workspace && bytes);
    if (works)
        *out = (struct dnn_plan){.plan = plan, .workspace = (size_t)bytes};
    else
        api.cudnnBackendDestroyDescriptor(plan);
    return works;
}

// Appends plans for the configurations that the heuristics propose in a mode, up to `most` in all. Returns
// the number of plans.
static int try_mode(struct dnn_graph *g, dnn handle, dnn_object graph, int mode, struct dnn_wish wish,
                    int plans, int most, struct dnn_plan *out) {
    enum { MODE = 200, OF, RESULTS };
    dnn_object configuration[DNN_CONFIGURATIONS] = {NULL}, o = create(g, HEURISTICS);
    int64_t count = 0;
    set(g, o, OF, A_OBJECT, 1, &graph);
    set(g, o, MODE, A_HEURISTICS_MODE, 1, &mode);
    finish(g, o);
    for (int i = 0; i < DNN_CONFIGURATIONS; i++)
        configuration[i] = create(g, CONFIGURATION);
    if (g->failed ||
        api.cudnnBackendGetAttribute(o, RESULTS, A_OBJECT, DNN_CONFIGURATIONS, &count, configuration))
        return plans;
    for (int64_t i = 0; i < count && i < DNN_CONFIGURATIONS && plans < most; i++)
        if (is_good(configuration[i], wish.exact) &&
            try_configuration(handle, configuration[i], wish, &out[plans]))
            out[plans++].configuration = mode * DNN_CONFIGURATIONS + (int)i;
    return plans;
}

int dnn_build_some(struct dnn_graph *g, int unit, int lane, struct dnn_wish wish, int most,
                   struct dnn_plan *out) {
    enum { FALLBACK = 2, BEST_GUESS = 3 };
    dnn handle = handle_of(unit, lane);
    dnn_object graph = handle && !g->failed ? describe_graph(g, handle) : NULL;
    if (!graph || g->failed)
        return 0;
    int plans = try_mode(g, handle, graph, BEST_GUESS, wish, 0, most, out);
    if (plans)
        return plans;
    g->failed = false;
    return try_mode(g, handle, graph, FALLBACK, wish, 0, most, out);
}

struct dnn_plan dnn_build(struct dnn_graph *g, int unit, int lane, bool exact) {
    struct dnn_plan plan = {0};
    dnn_build_some(g, unit, lane, (struct dnn_wish){.exact = exact}, 1, &plan);
    return plan;
}

void dnn_drop(struct dnn_graph *g) {
    while (g->objects)
        api.cudnnBackendDestroyDescriptor(g->object[--g->objects]);
}

// Running ---------------------------------------------------------------------------------------------------

void dnn_take(const struct kernel_place *p) {
    lock_take(&lanes[p->unit][p->lane].lock);
}

void dnn_give(const struct kernel_place *p) {
    lock_give(&lanes[p->unit][p->lane].lock);
}

int dnn_execute(const struct kernel_place *p, const struct dnn_plan *plan, int count, const int64_t *tensor,
                void *const *memory, void *work) {
    enum { IDS = 1000, POINTERS, WORKSPACE = 1003 };
    dnn_object pack = NULL;
    int64_t id[DNN_TENSORS];
    for (int i = 0; i < count; i++)
        id[i] = tensor[i] + 1;
    int failed = api.cudnnBackendCreateDescriptor(VARIANT_PACK, &pack);
    if (failed)
        return failed;
    failed = api.cudnnBackendSetAttribute(pack, IDS, A_INT, count, id);
    if (!failed)
        failed = api.cudnnBackendSetAttribute(pack, POINTERS, A_POINTER, count, memory);
    if (!failed)
        failed = api.cudnnBackendSetAttribute(pack, WORKSPACE, A_POINTER, 1, &work);
    if (!failed)
        failed = api.cudnnBackendFinalize(pack);
    if (!failed)
        failed = api.cudnnBackendExecute(lanes[p->unit][p->lane].handle, plan->plan, pack);
    api.cudnnBackendDestroyDescriptor(pack);
    return failed;
}

bool dnn_run(const struct kernel_place *p, const struct dnn_plan *plan, int count, const int64_t *tensor,
             void *const *memory) {
    struct kernel_scratch work = {0};
    if (!cuda_device(p->unit) || !kernel_scratch_open(p, &work, plan->workspace))
        return false;
    dnn_take(p);
    int failed = dnn_execute(p, plan, count, tensor, memory, work.memory);
    dnn_give(p);
    counter_add(COUNTER_LAUNCHES, 1);
    kernel_scratch_close(p, &work);
    return !failed || error_false(ZL_ERROR_DEVICE, "cuda: cuDNN failed with code %d", failed);
}

void dnn_keep(int plans, struct dnn_plan *plan, int kept) {
    for (int i = 0; i < plans; i++)
        if (i != kept)
            api.cudnnBackendDestroyDescriptor(plan[i].plan);
    if (kept >= 0)
        plan[0] = plan[kept];
}
