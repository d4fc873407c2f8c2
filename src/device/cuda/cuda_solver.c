// cuda_solver.c - opens cuSOLVER at run time, and has the common parts of its calls: copies, workspaces,
// errors.

#include "device/cuda/cuda_solver.h"

#include <pthread.h>
#include <string.h>

enum { F32 = 0, F64 = 1, C64 = 4 }; // values from NVIDIA's headers

static struct solver_api api;
static struct solver_geev geev;
static bool is_there;
static struct lane {
    struct lock lock; // a handle serves one call at a time
    solver handle;
    solver_parameters parameters;
} lanes[CUDA_DEVICES][CUDA_LANES];

// Opening ---------------------------------------------------------------------------------------------------

static void find(void) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {SOLVER_FUNCTIONS(SYMBOL)};
#undef SYMBOL
#define SYMBOL(name, parameters) {#name, (void **)(void *)&geev.name},
    static const struct library_symbol newer[] = {SOLVER_GEEV(SYMBOL)};
#undef SYMBOL
    const char *missing;
    void *library = cuda_library("cusolver", (const int[CUDA_VERSIONS]){12, 11});
    is_there = library && library_bind(library, symbols, COUNT(symbols), &missing);
    if (is_there && !library_bind(library, newer, COUNT(newer), &missing))
        geev = (struct solver_geev){0};
}

const struct solver_api *solver_api(void) {
    return &api;
}

const struct solver_geev *solver_geev(void) {
    return &geev;
}

bool cuda_factor_can(const struct call *c) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)c;
    pthread_once(&once, find);
    return is_there;
}

static struct lane *lane_of(const struct kernel_place *p) {
    return &lanes[p->unit][p->lane];
}

// Opens the lane's handle at its first use, and sets its stream. Under the lane's lock.
static bool open_lane(struct solving *s) {
    struct lane *l = lane_of(s->p);
    struct cuda_device *d = cuda_device(s->p->unit);
    int failed = 0;
    if (!d)
        return false;
    if (!l->handle)
        failed = api.cusolverDnCreate(&l->handle);
    if (!failed && !l->parameters)
        failed = api.cusolverDnCreateParams(&l->parameters);
    if (!failed)
        failed = api.cusolverDnSetStream(l->handle, d->stream[s->p->lane]);
    s->s = l->handle;
    s->parameters = l->parameters;
    return !failed || error_false(ZL_ERROR_DEVICE, "cuda: cuSOLVER does not start: code %d", failed);
}

// Calls -----------------------------------------------------------------------------------------------------

static char *copy_matrices(struct solving *s, zl_array x, bool transposed) {
    return transposed ? cuda_transposed_copy(s->p, x, &s->copy) : kernel_copy_out(s->p, x, &s->copy);
}

bool solving_open(struct solving *s, const struct kernel_place *p, const struct call *c, bool transposed) {
    zl_array x = c->in[0];
    *s = (struct solving){.p = p, .c = c, .m = x->dim[x->ndim - 2], .n = x->dim[x->ndim - 1]};
    s->item = (int64_t)array_item(x);
    s->batch = x->size / (s->m * s->n);
    s->type = x->dtype == ZL_COMPLEX64 ? C64 : x->dtype == ZL_FLOAT64 ? F64 : F32;
    s->real = s->type == F64 ? F64 : F32;
    lock_take(&lane_of(p)->lock);
    return open_lane(s) && kernel_scratch_open(p, &s->info, (size_t)s->batch * sizeof(int)) &&
           (s->a = copy_matrices(s, x, transposed));
}

bool solving_work(struct solving *s, int failed, size_t work, size_t host) {
    s->bytes = work;
    s->host_bytes = host;
    if (failed)
        return error_false(ZL_ERROR_DEVICE, "%s: cuSOLVER does not take matrices of shape %s: code %d",
                           s->c->op->name, array_text(s->c->in[0]), failed);
    return kernel_scratch_open(s->p, &s->work, work) && (s->host = memory_alloc(host + 1));
}

int *solving_info(const struct solving *s, int64_t i) {
    return (int *)s->info.memory + i;
}

char *solving_matrix(const struct solving *s, int64_t i) {
    return s->a + i * s->m * s->n * s->item;
}

char *solving_output(const struct solving *s, int output, int64_t i) {
    zl_array y = call_output(s->c, output);
    char *memory = kernel_reach(s->p, y);
    return memory ? memory + y->size / s->batch * i * (int64_t)array_item(y) : NULL;
}

// Returns the first info of the batch that is not 0, or 0; -1000 and an error if it cannot be read.
static int read_info(const struct solving *s) {
    size_t bytes = (size_t)s->batch * sizeof(int);
    int *info = memory_alloc(bytes), first = 0;
    if (!info || !s->p->target->device->copy(s->p->unit, s->p->lane, info, s->info.memory, bytes, true))
        first = -1000;
    for (int64_t i = 0; !first && i < s->batch; i++)
        first = info[i];
    memory_free(info);
    return first;
}

static bool judge(const struct solving *s, int failed, const char *what) {
    if (zl_error() && (failed || !s->a || !s->host))
        return false;
    if (failed)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: cuSOLVER failed with code %d, as it does for elements that are not finite",
                           s->c->op->name, failed);
    int info = read_info(s);
    if (info == 0 || (info > 0 && !what))
        return true;
    return info != -1000 &&
           error_false(ZL_ERROR_DEVICE, "%s: a matrix of shape %s %s (LAPACK says %d)", s->c->op->name,
                       array_text(s->c->in[0]), what ? what : "could not be factored", info);
}

enum kernel_taken solving_close(struct solving *s, int failed, const char *what) {
    bool done = judge(s, failed, what);
    struct kernel_scratch *const all[] = {&s->copy, &s->work, &s->more, &s->result, &s->values, &s->info};
    lock_give(&lane_of(s->p)->lock);
    for (size_t i = 0; i < COUNT(all); i++)
        kernel_scratch_close(s->p, all[i]);
    memory_free(s->host);
    counter_add(COUNTER_LAUNCHES, s->batch);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}

// Results ---------------------------------------------------------------------------------------------------

bool solving_store(const struct solving *s, int output, zl_dtype dtype, char *from, int64_t rows,
                   int64_t cols, int64_t step, int64_t next) {
    const int64_t dim[] = {s->batch, rows, cols}, to[] = {rows * cols, cols, 1}, by[] = {next, 1, step};
    char *y = solving_output(s, output, 0);
    return y && from && kernel_move(s->p, dtype, 3, dim, y, to, from, by);
}

bool solving_fill(const struct solving *s, void *to, int64_t rows, int64_t cols, enum solving_fill how) {
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_int(&k, how, false);
    kernel_add_memory(&k, to);
    return to && cuda_run_file(s->p, (struct cuda_file){"triangle", s->c->in[0]->dtype}, &k, 3,
                               (const int64_t[]){s->batch, rows, cols});
}
