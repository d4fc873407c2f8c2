// cuda_take.c - the table of overrides: which of them runs a call, and what each is; and what their calls share: memory, and kernels before
// and after them.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_queue.h"
#include "kernel/kernel.h"
#include "op/ops.h"

#include <pthread.h>
#include <string.h>

// The table ---------------------------------------------------------------------------------------------------------

enum kind { LIBRARY, RECORDED, KERNEL, OF_PROGRAM };

enum { // which override is which
#define CUDA_OVERRIDE(name, ...) OF_##name,
#define CUDA_OP(...)
#define CUDA_PROGRAM_OP(...)
#include "device/cuda/cuda_ops.def"
    OVERRIDES
};

static const struct {
    const char *name;
    enum kind kind;
    const char *reason, *measured;
} overrides[] = {
#define CUDA_OVERRIDE(name, ...) {#name, __VA_ARGS__},
#define CUDA_OP(...)
#define CUDA_PROGRAM_OP(op, can, take) {#op, OF_PROGRAM, "", ""},
#include "device/cuda/cuda_ops.def"
};

_Static_assert(COUNT(overrides) == OVERRIDES + 1, "what programs bring comes last in cuda_ops.def");

static const struct row {
    const struct op *op;
    cuda_question *can;
    cuda_function_of *take;
    int override;
} rows[] = {
#define CUDA_OVERRIDE(...)
#define CUDA_OP(op, can, take, override) {&op_##op, can, take, OF_##override},
#define CUDA_PROGRAM_OP(op, can, take)   {&op_##op, can, take, OVERRIDES},
#include "device/cuda/cuda_ops.def"
};

// Calls -------------------------------------------------------------------------------------------------------------

static bool may_use;

static void read_setting(void) {
    may_use = setting_flag(SETTING_CUDA_LIBRARIES);
}

bool cuda_uses_libraries(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_setting);
    return may_use;
}

static bool can_take(const struct row *r, const struct call *c) {
    return r->op == c->op && (overrides[r->override].kind > RECORDED || cuda_uses_libraries()) && r->can(c);
}

bool cuda_takes(int unit, const struct call *c) {
    (void)unit;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (can_take(&rows[i], c))
            return true;
    return false;
}

// What is neither recorded nor launched as our own kernels are waits for what was.
static enum kernel_taken take(const struct row *r, const struct kernel_place *p, const struct call *c) {
    enum kind kind = overrides[r->override].kind;
    if (kind == RECORDED || kind == KERNEL)
        return r->take(p, c);
    cuda_queue_pause(p->unit, p->lane, true);
    enum kernel_taken taken = r->take(p, c);
    cuda_queue_pause(p->unit, p->lane, false);
    return taken;
}

enum kernel_taken cuda_take(const struct kernel_place *p, const struct call *c) {
    enum kernel_taken taken = KERNEL_NOT_TAKEN;
    for (size_t i = 0; i < COUNT(rows) && taken == KERNEL_NOT_TAKEN; i++)
        if (can_take(&rows[i], c))
            taken = take(&rows[i], p, c);
    return taken;
}

// The list ----------------------------------------------------------------------------------------------------------

static struct text ops[OVERRIDES];
static bool has_tiles[OVERRIDES]; // for each of its ops

static void list_ops(void) {
    for (int i = 0; i < OVERRIDES; i++)
        has_tiles[i] = true;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int at = rows[i].override;
        if (at == OVERRIDES)
            continue;
        text_add(&ops[at], "%s%s", ops[at].len ? " " : "", rows[i].op->name);
        has_tiles[at] = has_tiles[at] && kernels_have(rows[i].op);
    }
}

static int count_lines(const char *text) {
    int lines = 0;
    for (; text && *text; text++)
        lines += *text == '\n';
    return lines;
}

bool cuda_override(int index, zl_kernel_override *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (index < 0 || index >= OVERRIDES)
        return false;
    pthread_once(&once, list_ops);
    *out = (zl_kernel_override){.name = overrides[index].name,
                                .kind = overrides[index].kind == KERNEL ? "kernel" : "library",
                                .ops = ops[index].data ? ops[index].data : "",
                                .otherwise = has_tiles[index] ? "tile kernels" : "cpu",
                                .reason = overrides[index].reason,
                                .measured = overrides[index].measured,
                                .lines = count_lines(cuda_text_of(overrides[index].name))};
    return true;
}

// Memory ------------------------------------------------------------------------------------------------------------

void *cuda_scratch_open(const struct kernel_place *p, struct cuda_scratch *s, size_t bytes) {
    s->memory = device_alloc(p->target->device, p->unit, p->lane, MAX_OF(bytes, (size_t)1), &s->capacity);
    return s->memory;
}

void cuda_scratch_close(const struct kernel_place *p, struct cuda_scratch *s) {
    if (s->memory)
        device_free(p->target->device, p->unit, p->lane, s->memory, s->capacity);
    s->memory = NULL;
}

void *cuda_element(const struct kernel_place *p, zl_array x) {
    char *memory = kernel_reach(p, x);
    return memory ? memory + x->offset * (int64_t)array_item(x) : NULL;
}

void *cuda_row_major(const struct kernel_place *p, zl_array x, struct cuda_scratch *s) {
    if (shape_is_row_major(x->ndim, x->dim, array_stride(x)))
        return cuda_element(p, x);
    void *copy = cuda_scratch_open(p, s, (size_t)x->size * array_item(x));
    return copy && kernel_copy_out(p, x, copy) ? copy : NULL;
}

// x with its last two axes the other way round, if it is to be turned, to be freed. NULL and an error.
static zl_array view_of(zl_array x, bool turned) {
    size_t bytes = sizeof *x + 2 * (size_t)x->ndim * sizeof x->dim[0];
    zl_array view = memory_alloc(bytes);
    if (!view)
        return NULL;
    memcpy(view, x, bytes);
    for (int list = 0; turned && list < 2; list++) {
        int64_t *last = view->dim + (list + 1) * x->ndim - 2, first = last[0];
        last[0] = last[1];
        last[1] = first;
    }
    return view;
}

void *cuda_turned_copy(const struct kernel_place *p, zl_array x, struct cuda_scratch *s) {
    zl_array turned = view_of(x, true);
    void *to = turned ? cuda_scratch_open(p, s, (size_t)x->size * array_item(x)) : NULL;
    bool done = to && kernel_copy_out(p, turned, to);
    memory_free(turned);
    return done ? to : NULL;
}

void *cuda_from_fp8(const struct kernel_place *p, zl_array x, bool turned, zl_dtype dtype,
                    struct cuda_scratch *s) {
    zl_array view = view_of(x, turned);
    void *to = view ? cuda_scratch_open(p, s, (size_t)x->size * zl_dtype_size(dtype)) : NULL;
    bool done = to && kernel_from_fp8(p, view, dtype, to);
    memory_free(view);
    return done ? to : NULL;
}

// Kernels -----------------------------------------------------------------------------------------------------------

static struct tile_kernel *make(const void *data) {
    const struct cuda_file *file = data;
    return kernel_built_in(file->name, "ITEM=%s", kernel_type((zl_dtype)file->dtype));
}

bool cuda_run_file(const struct kernel_place *p, struct cuda_file file, struct kernel_call *k, int symbols,
                   const int64_t *symbol) {
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &file, sizeof file, make, &file);
    return kernel && kernel_launch_tiles(p, kernel, k, symbols, symbol);
}

bool cuda_pair_up(const struct kernel_place *p, zl_dtype dtype, int64_t n, void *x, double second, void *y) {
    union scalar number;
    struct kernel_call k;
    dtype_convert(&number, dtype, &second, ZL_FLOAT64, 1);
    kernel_begin_call(&k);
    kernel_add_memory(&k, x);
    kernel_add(&k, &number, zl_dtype_size(dtype));
    kernel_add_memory(&k, y);
    return x && y && cuda_run_file(p, (struct cuda_file){"pairs", (int32_t)dtype}, &k, 1, &n);
}
