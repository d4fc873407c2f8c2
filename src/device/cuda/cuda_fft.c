// cuda_fft.c - Fourier transforms by cuFFT.
//
// An axis that is not the last is walked by strides, one transform of the axes behind it after the other. cuFFT does not
// scale, and may write over what it makes real numbers of: that it gets as a copy, of which the elements that are real by
// definition are made so.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"

#include <pthread.h>

enum { // of cuFFT's header
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

enum { PLANS_MOST = 256 };

struct key {
    int64_t n, inner, batch;
    int32_t type, unit;
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

// Plans -------------------------------------------------------------------------------------------------------------

static void drop(const void *key, size_t bytes, void *value, void *data) {
    struct plan *plan = value;
    (void)key, (void)bytes, (void)data;
    api.cufftDestroy(plan->handle);
    memory_free(plan);
}

// Elements of the input and of the output along the axis.
static int64_t in_size(const struct key *k) {
    return k->type == COMPLEX_TO_REAL ? k->n / 2 + 1 : k->n;
}

static int64_t out_size(const struct key *k) {
    return k->type == REAL_TO_COMPLEX ? k->n / 2 + 1 : k->n;
}

static bool make_plan(const struct key *k, struct plan *plan, cuda_stream s) {
    long long n = k->n, in_room = in_size(k), out_room = out_size(k), step = k->inner;
    bool is_last = k->inner == 1;
    int failed = api.cufftCreate(&plan->handle);
    if (failed)
        return error_false(ZL_ERROR_DEVICE, "fft: cufftCreate failed with code %d", failed);
    failed = api.cufftSetAutoAllocation(plan->handle, 0);
    if (!failed)
        failed =
            api.cufftMakePlanMany64(plan->handle, 1, &n, &in_room, step, is_last ? in_room : 1, &out_room,
                                    step, is_last ? out_room : 1, k->type, k->batch, &plan->work);
    if (!failed)
        failed = api.cufftSetStream(plan->handle, s);
    if (!failed)
        return true;
    api.cufftDestroy(plan->handle);
    return error_false(ZL_ERROR_DEVICE, "fft: cuFFT has no plan for %lld numbers, %lld times: code %d", n,
                       (long long)k->batch, failed);
}

// Under the lock. NULL and an error.
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

// Small kernels -----------------------------------------------------------------------------------------------------

static const char scale_text[] = "KERNEL zl_kernel(GLOBAL f32 *y, f32 factor, idx n) {\n"
                                 "    idx i = GROUP * THREADS + THREAD;\n"
                                 "    if (i < n)\n"
                                 "        y[i] *= factor;\n"
                                 "}\n";
static const char real_text[] = "KERNEL zl_kernel(GLOBAL f32 *x, idx each, idx inner, idx middle, idx n) {\n"
                                "    idx i = GROUP * THREADS + THREAD;\n"
                                "    if (i >= n)\n"
                                "        return;\n"
                                "    idx line = i / inner * each * inner + i % inner;\n"
                                "    x[2 * line + 1] = 0;\n"
                                "    if (middle)\n"
                                "        x[2 * (line + middle * inner) + 1] = 0;\n"
                                "}\n";

static bool write_scale(struct text *out, const void *data) {
    kernel_begin(out, data, true);
    text_bytes(out, scale_text, (int)sizeof scale_text - 1);
    return true;
}

static bool write_real(struct text *out, const void *data) {
    kernel_begin(out, data, true);
    text_bytes(out, real_text, (int)sizeof real_text - 1);
    return true;
}

static bool scale_all(const struct kernel_place *p, void *y, int64_t count, double scale) {
    float factor = (float)scale;
    struct kernel_call k;
    kernel_begin_call(&k);
    void *kernel = kernel_find(p, "cuda_fft scale", 14, write_scale, p->target->dialect);
    kernel_add_memory(&k, y);
    kernel_add(&k, &factor, sizeof factor);
    kernel_add_int(&k, count, true);
    return kernel && kernel_launch(p, kernel, (count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

static bool make_real(const struct kernel_place *p, void *x, const struct key *key, int64_t outer) {
    struct kernel_call k;
    kernel_begin_call(&k);
    int64_t lines = outer * key->inner;
    void *kernel = kernel_find(p, "cuda_fft real", 13, write_real, p->target->dialect);
    kernel_add_memory(&k, x);
    kernel_add_int(&k, in_size(key), true);
    kernel_add_int(&k, key->inner, true);
    kernel_add_int(&k, key->n % 2 ? 0 : key->n / 2, true);
    kernel_add_int(&k, lines, true);
    return kernel && kernel_launch(p, kernel, (lines + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

// Transforms --------------------------------------------------------------------------------------------------------

static int execute(int plan, enum fft which, void *from, void *to) {
    switch (which) {
    case FFT_REAL: return api.cufftExecR2C(plan, from, to);
    case FFT_HERMITIAN: return api.cufftExecC2R(plan, from, to);
    default: return api.cufftExecC2C(plan, from, to, which == FFT_FORWARD ? FORWARD : INVERSE);
    }
}

// One after the other of so many pieces.
static bool execute_all(const struct kernel_place *p, const struct key *k, enum fft which, int64_t pieces,
                        char *from, char *to) {
    struct cuda_device *d = cuda_device(p->unit);
    struct plan *plan = d ? find_plan(k, d->stream) : NULL;
    struct cuda_scratch work = {0};
    if (!plan || (plan->work && !cuda_scratch_open(p, &work, plan->work)))
        return false;
    int64_t in_bytes = in_size(k) * k->inner * (which == FFT_REAL ? 4 : 8);
    int64_t out_bytes = out_size(k) * k->inner * (which == FFT_HERMITIAN ? 4 : 8);
    int failed = api.cufftSetWorkArea(plan->handle, work.memory);
    for (int64_t i = 0; !failed && i < pieces; i++)
        failed = execute(plan->handle, which, from + i * in_bytes, to + i * out_bytes);
    counter_add(COUNTER_LAUNCHES, pieces);
    cuda_scratch_close(p, &work);
    return !failed || error_false(ZL_ERROR_DEVICE, "fft: cuFFT failed with code %d", failed);
}

// Where the input may be read from: as it lies if nothing writes over it.
static char *bring(const struct kernel_place *p, zl_array x, bool is_written, struct cuda_scratch *copy) {
    if (!is_written)
        return cuda_row_major(p, x, copy);
    char *to = cuda_scratch_open(p, copy, (size_t)x->size * array_item(x));
    return to && kernel_copy_out(p, x, to) ? to : NULL;
}

enum kernel_taken cuda_fft(const struct kernel_place *p, const struct call *c) {
    static const int types[] = {[FFT_FORWARD] = COMPLEX_TO_COMPLEX,
                                [FFT_INVERSE] = COMPLEX_TO_COMPLEX,
                                [FFT_REAL] = REAL_TO_COMPLEX,
                                [FFT_HERMITIAN] = COMPLEX_TO_REAL};
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0], y = call_first(c);
    enum fft which = (enum fft)arg[0];
    int axis = (int)arg[1];
    double scale = op_arg_double(arg[3]);
    struct key k = {.n = arg[2], .inner = 1, .type = types[which], .unit = p->unit};
    for (int i = axis + 1; i < x->ndim; i++)
        k.inner *= x->dim[i];
    int64_t outer = x->size / x->dim[axis] / k.inner, pieces = k.inner == 1 ? 1 : outer;
    k.batch = k.inner == 1 ? outer : k.inner;
    struct cuda_scratch copy = {0};
    char *from = bring(p, x, which == FFT_HERMITIAN, &copy), *to = kernel_reach(p, y);
    bool done = from && to && (which != FFT_HERMITIAN || make_real(p, from, &k, outer));
    if (done) {
        lock_take(&lock);
        done = execute_all(p, &k, which, pieces, from, to);
        lock_give(&lock);
    }
    int64_t floats = y->size * (which == FFT_HERMITIAN ? 1 : 2);
    done = done && (scale == 1 || scale_all(p, to, floats, scale));
    cuda_scratch_close(p, &copy);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}
