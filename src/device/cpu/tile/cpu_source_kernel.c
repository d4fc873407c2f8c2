// cpu_source_kernel.c - runs kernels that programs supply as C source.
//
// The text is compiled at its first evaluation. The cost of one position of the grid is unknown, so pieces of
// doubling size are timed until it is known how many positions are worth another thread.

#include "device/cpu/rows/operands.h"
#include "device/cpu/tile/compiler.h"
#include "op/ops.h"


enum {
    TIMED_NS = 2000,   // a piece that takes this long shows the cost of a position
    PIECE_NS = 20000,  // shorter pieces are not worth waking a thread
    NAME_MOST = 64,    // bytes of a name in errors
    ERROR_MOST = 1500, // bytes of a compiler's message in errors
};

typedef void kernel_fn(const struct op_kernel_call *c, int64_t from, int64_t to);

// Compiling -------------------------------------------------------------------------------------------------

// Compiled functions, by their texts.
static struct {
    struct lock lock;
    struct map functions;
} compiled;

ZL_AT_LOAD {
    fork_guard(&compiled.lock);
}

// Some warnings are errors, because they always mean a wrong call.
static const char flags[] = "-O3 -Werror=implicit-function-declaration -Werror=int-conversion "
                            "-Werror=incompatible-pointer-types";

// Copies the name from the comment with which the text begins.
static void find_name(const char *text, char *name) {
    size_t bytes = strcspn(text + 3, "\n");
    bytes = MIN_OF(bytes, NAME_MOST);
    memcpy(name, text + 3, bytes);
    name[bytes] = 0;
}

// Compiles a kernel. If the thread has an error already, that error is kept.
static void *compile(const char *text) {
    char name[NAME_MOST + 1];
    zl_error_kind before_kind = ZL_ERROR_NONE, kind = ZL_ERROR_COMPILE;
    char *before = error_take(&before_kind);
    void *function = cpu_jit_alone(text, flags, "zellige_kernel");
    char *why = function ? NULL : error_take(&kind);
    find_name(text, name);
    if (before_kind != ZL_ERROR_NONE)
        error_put(before_kind, before);
    if (!function)
        error_set(kind, "zl_cpu_kernel: %s: %.*s", name, ERROR_MOST,
                  why ? why : "there is no memory to compile it");
    memory_free(before);
    memory_free(why);
    return function;
}

static void *find_compiled(const char *text, size_t bytes) {
    lock_take(&compiled.lock);
    void *function = map_get(&compiled.functions, text, bytes);
    lock_give(&compiled.lock);
    return function;
}

static kernel_fn *function_of(zl_array text) {
    const char *data = cpu_data(text);
    size_t bytes = (size_t)text->size;
    void *function = find_compiled(data, bytes);
    if (function)
        return (kernel_fn *)function;
    struct text copy = {0}; // terminated by a zero
    text_bytes(&copy, data, (int)bytes);
    function = copy.failed ? NULL : compile(copy.data);
    text_free(&copy);
    lock_take(&compiled.lock);
    bool kept = function && map_set(&compiled.functions, data, bytes, function);
    lock_give(&compiled.lock);
    return kept ? (kernel_fn *)function : NULL;
}

// Running ---------------------------------------------------------------------------------------------------

struct job {
    kernel_fn *function;
    const struct op_kernel_call *call;
    int64_t done; // positions
};

static void run_piece(const void *context, int64_t from, int64_t to) {
    const struct job *job = context;
    job->function(job->call, job->done + from, job->done + to);
}

static void run_grid(struct job *job) {
    const int64_t *grid = job->call->grid;
    int64_t positions = grid[0] * grid[1] * grid[2], size = 0, took = 0;
    while (job->done < positions && took < TIMED_NS) {
        size = MIN_OF(MAX_OF(2 * size, 1), positions - job->done);
        int64_t begin = clock_ns();
        job->function(job->call, job->done, job->done + size);
        took = clock_ns() - begin;
        job->done += size;
    }
    if (job->done < positions)
        cpu_split(positions - job->done, 1 + size * PIECE_NS / took, run_piece, job);
}

static void fill(zl_array out, zl_array value) {
    union scalar room;
    const void *from = array_data(value, &room);
    if (out->size)
        cpu_copy(array_item(out), out->ndim, out->dim, cpu_data(out), array_stride(out), from,
                 array_stride(value));
}

static void reach(zl_array a, struct op_kernel_operand *out, union scalar *room) {
    *out =
        (struct op_kernel_operand){(void *)(uintptr_t)array_data(a, room), a->dim, array_stride(a), a->ndim};
}

static bool run(const struct call *c, kernel_fn *function) {
    int first = 1 + c->outputs, inputs = c->inputs - first, operands = inputs + c->outputs;
    const int64_t *arg = call_args(c);
    struct op_kernel_operand *operand = memory_zero(sizeof *operand * (size_t)operands);
    union scalar *room = memory_zero(sizeof *room * (size_t)operands);
    for (int i = 0; operand && room && i < inputs; i++)
        reach(c->in[first + i], &operand[i], &room[i]);
    for (int i = 0; operand && room && i < c->outputs; i++) {
        reach(call_output(c, i), &operand[inputs + i], &room[inputs + i]);
        if (arg[KERNEL_FILLS])
            fill(call_output(c, i), c->in[1 + i]);
    }
    struct op_kernel_call call = {.operand = operand};
    memcpy(call.grid, arg + KERNEL_GRID, sizeof call.grid);
    memcpy(call.group, arg + KERNEL_GROUP, sizeof call.group);
    bool ok = operand && room;
    if (ok)
        run_grid(&(struct job){function, &call, 0});
    memory_free(operand);
    memory_free(room);
    return ok;
}

bool cpu_source_kernel(const struct call *c) {
    kernel_fn *function = function_of(c->in[0]);
    return function && run(c, function);
}
