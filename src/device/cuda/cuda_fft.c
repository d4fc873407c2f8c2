// cuda_fft.c - Fourier transforms by cuFFT.
//
// Lines are contiguous, or copied to be so and back, so that the result of a line does not depend on its
// neighbours. cuFFT does not scale, and may overwrite the input of a transform to real numbers. That input is
// therefore a copy, in which the elements that are real by definition are made so.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"

#include <pthread.h>

enum { // values from cuFFT's header
    COMPLEX_TO_COMPLEX = 0x29,
    REAL_TO_COMPLEX = 0x2a,
    COMPLEX_TO_REAL = 0x2c,
    FORWARD = -1,
    INVERSE = 1,
};

#define FFT_FUNCTIONS(F)                                                                                    \
    F(cufftCreate, (int *out))                                                                              \
    F(cufftDestroy, (int plan))                                                                             \
    F(cufftSetAutoAllocation, (int plan, int automatic))                                                    \
    F(cufftMakePlanMany64, (int plan, int rank, long long *n, long long *in_room, long long in_step,        \
                            long long in_next, long long *out_room, long long out_step, long long out_next, \
                            int type, long long batch, size_t *work))                                       \
    F(cufftSetStream, (int plan, cuda_stream s))                                                            \
    F(cufftSetWorkArea, (int plan, void *work))                                                             \
    F(cufftExecC2C, (int plan, void *from, void *to, int direction))                                        \
    F(cufftExecR2C, (int plan, void *from, void *to))                                                       \
    F(cufftExecC2R, (int plan, void *from, void *to))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    FFT_FUNCTIONS(MEMBER)
#undef MEMBER
} api;

enum { PLANS_MOST = 256, SHORT = 1024, LINES_LEAST = 64 };

struct key {
    int64_t n, batch;
    int32_t type;
    int16_t unit, lane;
};

struct plan {
    int handle;
    size_t work;
};

static bool is_there;
static struct lock lock; // guards the plans, each of which serves one call at a time
static struct map plans;
static int plan_count;

static void find(void) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {FFT_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    const char *missing;
    void *library = cuda_library("cufft", (const int[CUDA_VERSIONS]){12, 11});
    is_there = library && library_bind(library, symbols, COUNT(symbols), &missing);
}

bool cuda_fft_can(const struct call *c) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)c;
    pthread_once(&once, find);
    return is_there;
}

// Plans -----------------------------------------------------------------------------------------------------

static void drop(const void *key, size_t bytes, void *value, void *data) {
    struct plan *plan = value;
    (void)key, (void)bytes, (void)data;
    api.cufftDestroy(plan->handle);
    memory_free(plan);
}

// Return the elements of the input, and of the output, along the axis.
static int64_t in_size(const struct key *k) {
    return k->type == COMPLEX_TO_REAL ? k->n / 2 + 1 : k->n;
}

static int64_t out_size(const struct key *k) {
    return k->type == REAL_TO_COMPLEX ? k->n / 2 + 1 : k->n;
}

static bool make_plan(const struct key *k, struct plan *plan, cuda_stream s) {
    long long n = k->n, in_room = in_size(k), out_room = out_size(k);
    int failed = api.cufftCreate(&plan->handle);
    if (failed)
        return error_false(ZL_ERROR_DEVICE, "fft: cufftCreate failed with code %d", failed);
    failed = api.cufftSetAutoAllocation(plan->handle, 0);
    if (!failed)
        failed = api.cufftMakePlanMany64(plan->handle, 1, &n, &in_room, 1, in_room, &out_room, 1, out_room,
                                         k->type, k->batch, &plan->work);
    if (!failed)
        failed = api.cufftSetStream(plan->handle, s);
    if (!failed)
        return true;
    api.cufftDestroy(plan->handle);
    return error_false(ZL_ERROR_DEVICE, "fft: cuFFT has no plan for %lld numbers, %lld times: code %d", n,
                       (long long)k->batch, failed);
}

// Returns the plan of a key, and makes it at its first use; NULL and an error if that fails. Under the lock.
static struct plan *find_plan(const struct key *k, cuda_stream s) {
    struct plan *plan = map_get(&plans, k, sizeof *k);
    if (plan)
        return plan;
    if (plan_count == PLANS_MOST) {
        map_each(&plans, drop, NULL);
        map_free(&plans);
        plans = (struct map){0};
        plan_count = 0;
    }
    plan = memory_zero(sizeof *plan);
    if (plan && make_plan(k, plan, s)) {
        if (map_set(&plans, k, sizeof *k, plan)) {
            plan_count++;
            return plan;
        }
        api.cufftDestroy(plan->handle);
    }
    memory_free(plan);
    return NULL;
}

// Small kernels ---------------------------------------------------------------------------------------------

static bool scale_all(const struct kernel_place *p, void *y, int64_t count, double scale) {
    float factor = (float)scale;
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add(&k, &factor, sizeof factor);
    kernel_add_memory(&k, y);
    return cuda_run_file(p, (struct cuda_file){"scale", ZL_FLOAT32}, &k, 1, &count);
}

// Makes the first element of each line real, and the middle one of a line that has one.
static bool make_real(const struct kernel_place *p, void *x, const struct key *k) {
    const int64_t dim[] = {k->batch, k->n % 2 ? 1 : 2}, stride[] = {2 * in_size(k), k->n / 2 * 2};
    return kernel_fill(p, ZL_FLOAT32, 2, dim, (float *)x + 1, stride, &(float){0});
}

// Transforms ------------------------------------------------------------------------------------------------

static int execute(int plan, enum fft which, void *from, void *to) {
    switch (which) {
    case FFT_REAL: return api.cufftExecR2C(plan, from, to);
    case FFT_HERMITIAN: return api.cufftExecC2R(plan, from, to);
    default: return api.cufftExecC2C(plan, from, to, which == FFT_FORWARD ? FORWARD : INVERSE);
    }
}

static bool execute_all(const struct kernel_place *p, const struct key *k, enum fft which, void *from,
                        void *to) {
    struct cuda_device *d = cuda_device(p->unit);
    struct plan *plan = d ? find_plan(k, d->stream[p->lane]) : NULL;
    struct kernel_scratch work = {0};
    if (!plan || !kernel_scratch_open(p, &work, plan->work))
        return false;
    int failed = plan->work ? api.cufftSetWorkArea(plan->handle, work.memory) : 0;
    if (!failed)
        failed = execute(plan->handle, which, from, to);
    counter_add(COUNTER_LAUNCHES, 1);
    kernel_scratch_close(p, &work);
    return !failed || error_false(ZL_ERROR_DEVICE, "fft: cuFFT failed with code %d", failed);
}

// Returns real numbers as complex ones, or NULL and an error.
static void *widen(const struct kernel_place *p, void *x, int64_t count, struct kernel_scratch *wide) {
    void *y = x ? kernel_scratch_open(p, wide, (size_t)count * 8) : NULL;
    return y && cuda_pair_up(p, ZL_FLOAT32, count, x, 0, y) ? y : NULL;
}

// An array as lines along an axis: (outer, inner, line), where the memory is in the order (outer, line,
// inner).
struct lines {
    int64_t dim[3], stride[3], dense[3];
};

static struct lines lines_of(zl_array like, int axis) {
    int64_t inner = 1, line = like->dim[axis];
    for (int i = axis + 1; i < like->ndim; i++)
        inner *= like->dim[i];
    return (struct lines){
        {like->size / line / inner, inner, line}, {line * inner, 1, inner}, {line * inner, line, 1}};
}

static bool transform(const struct kernel_place *p, const struct key *k, enum fft which, double scale,
                      void *from, void *to, int64_t floats) {
    if (which == FFT_HERMITIAN && !make_real(p, from, k))
        return false;
    lock_take(&lock);
    bool done = execute_all(p, k, which, from, to);
    lock_give(&lock);
    return done && (scale == 1 || scale_all(p, to, floats, scale));
}

// Returns the number of lines of a plan. There are at least LINES_LEAST if lines are short, filled up with
// zeros, so that cuFFT's algorithm, and with it the last bits of a result, does not depend on the number of
// lines.
static int64_t lines_of_plan(int64_t n, int64_t lines) {
    return n <= SHORT && lines < LINES_LEAST ? LINES_LEAST : lines;
}

// Returns memory for so many consecutive lines, with those of `from` copied to it if that is given, or NULL
// and an error.
static void *room_of(const struct kernel_place *p, zl_dtype dtype, const struct lines *l, int64_t lines,
                     void *from, const int64_t *stride, struct kernel_scratch *s) {
    size_t bytes = (size_t)(lines * l->dim[2]) * zl_dtype_size(dtype);
    void *to = kernel_scratch_open(p, s, bytes);
    if (!to || !from)
        return to;
    const int64_t floats = (int64_t)(bytes / sizeof(float));
    bool filled = lines == l->dim[0] * l->dim[1] ||
                  kernel_fill(p, ZL_FLOAT32, 1, &floats, to, (const int64_t[]){1}, &(float){0});
    return filled && kernel_move(p, dtype, 3, l->dim, to, l->dense, from, stride) ? to : NULL;
}

enum kernel_taken cuda_fft(const struct kernel_place *p, const struct call *c) {
    static const int types[] = {[FFT_FORWARD] = COMPLEX_TO_COMPLEX,
                                [FFT_INVERSE] = COMPLEX_TO_COMPLEX,
                                [FFT_REAL] = REAL_TO_COMPLEX,
                                [FFT_HERMITIAN] = COMPLEX_TO_REAL};
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0], y = call_first(c);
    enum fft which = (enum fft)arg[0];
    struct lines in = lines_of(x, (int)arg[1]), out = lines_of(y, (int)arg[1]);
    int64_t count = out.dim[0] * out.dim[1], lines = lines_of_plan(arg[2], count);
    struct key k = {.n = arg[2],
                    .batch = lines,
                    .type = types[which],
                    .unit = (int16_t)p->unit,
                    .lane = (int16_t)p->lane};
    bool is_dense = out.dim[1] == 1 && lines == count;
    struct kernel_scratch rows = {0}, copy = {0}, wide = {0}, result = {0};
    void *from = cuda_row_major(p, x, &rows), *to = kernel_reach(p, y), *made = to;
    if (x->dtype == ZL_FLOAT32 && which != FFT_REAL)
        from = widen(p, from, x->size, &wide);
    if (from && (!is_dense || (which == FFT_HERMITIAN && !rows.memory && !wide.memory)))
        from = room_of(p, which == FFT_REAL ? ZL_FLOAT32 : ZL_COMPLEX64, &in, lines, from, in.stride, &copy);
    if (!is_dense)
        made = room_of(p, (zl_dtype)y->dtype, &out, lines, NULL, NULL, &result);
    int64_t floats = count * out.dim[2] * (which == FFT_HERMITIAN ? 1 : 2);
    bool done =
        from && to && made && transform(p, &k, which, op_arg_double(arg[3]), from, made, floats) &&
        (made == to || kernel_move(p, (zl_dtype)y->dtype, 3, out.dim, to, out.stride, made, out.dense));
    kernel_scratch_close(p, &rows);
    kernel_scratch_close(p, &copy);
    kernel_scratch_close(p, &wide);
    kernel_scratch_close(p, &result);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}
