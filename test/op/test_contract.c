// test_contract.c - unchecked calls: the contract of every op rejects invalid ones, whatever a file contains.

#include <sys/mman.h>
#include <unistd.h>

#include "op/op_test.h"
#include "op/ops.h"

enum { MOST = 8 }; // of inputs, arguments and outputs

// Lists that end at a protected page: accessing memory after their end is a fault.
struct fence {
    char *page;
    size_t bytes;
};

static bool fence_open(struct fence *f) {
    f->bytes = (size_t)sysconf(_SC_PAGESIZE);
    f->page = mmap(NULL, 2 * f->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return f->page != MAP_FAILED && !mprotect(f->page + f->bytes, f->bytes, PROT_NONE);
}

static zl_array *fence_list(const struct fence *f, int count) {
    return (zl_array *)(void *)(f->page + f->bytes) - count;
}

static zl_array some_array(zl_dtype dtype) {
    int64_t dim[4];
    int ndim = (int)test_between(0, 4);
    for (int i = 0; i < ndim; i++)
        dim[i] = test_between(0, 3);
    return zl_ones((zl_shape){dim, ndim}, dtype);
}

static zl_dtype some_dtype(void) {
    return (zl_dtype)test_between(0, ZL_DTYPE_COUNT - 1);
}

// Makes a call of op as a file may contain it, on inputs that often have one dtype. Returns whether it was
// accepted.
static bool try_call(const struct op *op, const struct fence *inputs, const struct fence *outputs) {
    int count = (int)test_between(0, MOST), args = (int)test_between(0, MOST),
        results = (int)test_between(1, 4);
    zl_array *in = fence_list(inputs, count), *out = fence_list(outputs, results);
    zl_dtype common = some_dtype();
    int64_t arg[MOST], dim[] = {2, 3};
    struct array_spec spec[4];
    for (int i = 0; i < 4; i++)
        spec[i] =
            (struct array_spec){.dtype = test_between(0, 1) ? common : some_dtype(), .ndim = 2, .dim = dim};
    for (int i = 0; i < count; i++)
        in[i] = some_array(test_between(0, 2) ? common : some_dtype());
    for (int i = 0; i < args; i++)
        arg[i] = test_between(-2, 4);
    for (int i = 0; i < results; i++)
        out[i] = NULL;
    zl_array y = graph_call(op, count, in, args, arg, results, spec);
    bool taken = CHECK(y) && op_replay("f", y->call, in, out);
    for (int i = 0; taken && i < results; i++)
        CHECK(out[i]);
    CHECK(taken || zl_error());
    zl_clear_error();
    return taken;
}

TEST(contracts_hold_for_any_call) {
    struct fence inputs, outputs;
    const struct op *op;
    int taken = 0;
    REQUIRE(fence_open(&inputs) && fence_open(&outputs));
    for (int i = 0; (op = op_at(i)); i++)
        for (int k = 0; k < (test_quick() ? 50 : 500); k++)
            ZL_SCOPE {
                taken += try_call(op, &inputs, &outputs);
            }
    CHECK(taken > 0);
    munmap(inputs.page, 2 * inputs.bytes);
    munmap(outputs.page, 2 * outputs.bytes);
}

// Makes a call that is valid by the op's contract, except perhaps for its number of results.
static bool takes_results(const struct op *op, zl_array x, int args, const int64_t *arg, int results) {
    zl_array out[MOST];
    struct array_spec spec[MOST];
    for (int i = 0; i < results; i++)
        spec[i] = (struct array_spec){.dtype = (zl_dtype)x->dtype, .ndim = x->ndim, .dim = x->dim};
    zl_array y = graph_call(op, 1, &x, args, arg, results, spec);
    bool taken = y && op_replay("f", y->call, &x, out);
    if (!taken)
        CHECK_HAS(zl_error(), "results");
    zl_clear_error();
    return taken;
}

TEST(contracts_say_how_many_results_there_are) {
    zl_array x = op_test_range(ZL_SHAPE(2, 2), ZL_FLOAT32);
    CHECK(takes_results(&op_copy, x, 0, NULL, 1) && !takes_results(&op_copy, x, 0, NULL, 2));
    CHECK(takes_results(&op_qr, x, 0, NULL, 2) && !takes_results(&op_qr, x, 0, NULL, 1));
    for (int vectors = 0; vectors < 2; vectors++) {
        int64_t arg[] = {vectors};
        for (int results = 1; results < 4; results++)
            CHECK(takes_results(&op_svd, x, 1, arg, results) == (results == (vectors ? 3 : 1)));
    }
}
