// cpu_csr.c - products of sparse matrices in compressed rows (CSR): values, column indices and row pointers.
//
// Rows are divided among threads so that each thread has about as many rows and entries as the others.
// Pointers and indices are checked before anything is read through them. Only when a check fails does a
// second search find which one is wrong, for the message.

#include "device/cpu/rows/operands.h"
#include "device/cpu/index/index.h"
#include "op/ops.h"

// A sparse matrix and its factors. All arrays are row-major.
struct csr {
    int64_t rows, columns, entries, width; // width: columns of dense
    int64_t item;                          // bytes of a value
    zl_dtype index;                        // of pointers and indices: int32 or int64
    const void *values, *indices, *pointers;
    const void *dense, *left;
    void *out;
};

enum { NOT_EQUAL = -1, NOT_ROWS = -2 };
enum {
    CSR_ROWS = 512, // rows that are checked at once, so that their data stay in the cache
    CSR_LONG = 16,  // entries from which on a row is added in four sums
    CSR_WIDTH = 32, // columns added at once
};

#define CSR_I(name) name##_i32
#define CSR_INDEX   int32_t
#define CSR_BITS    uint32_t
#include "device/cpu/gemm/csr_index.h"
#define CSR_I(name) name##_i64
#define CSR_INDEX   int64_t
#define CSR_BITS    uint64_t
#include "device/cpu/gemm/csr_index.h"

#define CSR(name)   name##_f32_i32
#define CSR_I(name) name##_i32
#define CSR_INDEX   int32_t
#define CSR_BITS    uint32_t
#define CSR_TYPE    float
#include "device/cpu/gemm/csr_values.h"
#define CSR(name)   name##_f32_i64
#define CSR_I(name) name##_i64
#define CSR_INDEX   int64_t
#define CSR_BITS    uint64_t
#define CSR_TYPE    float
#include "device/cpu/gemm/csr_values.h"
#define CSR(name)   name##_f64_i32
#define CSR_I(name) name##_i32
#define CSR_INDEX   int32_t
#define CSR_BITS    uint32_t
#define CSR_TYPE    double
#include "device/cpu/gemm/csr_values.h"
#define CSR(name)   name##_f64_i64
#define CSR_I(name) name##_i64
#define CSR_INDEX   int64_t
#define CSR_BITS    uint64_t
#define CSR_TYPE    double
#include "device/cpu/gemm/csr_values.h"

// Parts -----------------------------------------------------------------------------------------------------

typedef bool csr_part(const struct csr *c, int64_t from, int64_t to); // of rows [from, to); false: the matrix
                                                                      // is invalid

struct csr_job {
    const struct csr *matrix;
    csr_part *part;
    const int64_t *bound; // first rows of the parts, then the number of rows
    atomic_bool failed;
};

static void run_part(void *data, int at) {
    struct csr_job *job = data;
    if (job->bound[at] < job->bound[at + 1] && !job->part(job->matrix, job->bound[at], job->bound[at + 1]))
        atomic_store(&job->failed, true);
}

static int64_t row_after(const struct csr *c, int64_t work) {
    return c->index == ZL_INT32 ? row_after_i32(c, work) : row_after_i64(c, work);
}

static int64_t number_at(const struct csr *c, const void *list, int64_t at) {
    return c->index == ZL_INT32 ? ((const int32_t *)list)[at] : ((const int64_t *)list)[at];
}

// Runs a function on parts of the rows. Returns false if the matrix is invalid, or with an error.
static bool run_parts(const struct csr *c, csr_part *part) {
    enum { PIECES = 4 }; // per thread
    int64_t work = c->rows + c->entries;
    double bytes = (double)work * (double)(c->item * (c->width + 1) + (int64_t)zl_dtype_size(c->index));
    int parts = bytes < CPU_SPLIT || pool_threads() < 2 ? 1 : pool_threads() * PIECES;
    OP_TEMP(int64_t, bound, parts + 1);
    if (!bound || (number_at(c, c->pointers, 0) != 0))
        return false;
    bound[0] = 0;
    for (int i = 1; i < parts; i++) // ascending even if the pointers are not
        bound[i] = MAX_OF(bound[i - 1], row_after(c, work / parts * i));
    bound[parts] = c->rows;
    struct csr_job job = {.matrix = c, .part = part, .bound = bound};
    atomic_init(&job.failed, false);
    if (parts == 1)
        run_part(&job, 0);
    else
        pool_run(parts, run_part, &job);
    return !atomic_load(&job.failed);
}

// Sets the error that describes an invalid matrix. Returns false.
static bool refuse(const struct call *call, const struct csr *c) {
    if (zl_error_which() == ZL_ERROR_NONE)
        op_csr_check(call->op->name, &(struct csr_places){c->indices, c->pointers, c->index, c->rows,
                                                          c->columns, c->entries});
    return false;
}

// Calls -----------------------------------------------------------------------------------------------------

enum { VECTOR, MATRIX, SAMPLE, KINDS };

static csr_part *find_part(int kind, zl_dtype dtype, zl_dtype index) {
    static csr_part *const parts[2][2][KINDS] = {
        {{vector_part_f32_i32, matrix_part_f32_i32, sample_part_f32_i32},
         {vector_part_f32_i64, matrix_part_f32_i64, sample_part_f32_i64}},
        {{vector_part_f64_i32, matrix_part_f64_i32, sample_part_f64_i32},
         {vector_part_f64_i64, matrix_part_f64_i64, sample_part_f64_i64}},
    };
    return parts[dtype == ZL_FLOAT64][index == ZL_INT64][kind];
}

// Computes a product with the transposed matrix, by making its columns the rows of a temporary one.
static bool run_transposed(const struct call *call, const struct csr *c, csr_part *part) {
    size_t index = zl_dtype_size(c->index), entries = (size_t)c->entries;
    size_t pointers = (size_t)(c->columns + 2) * index, indices = (entries * index + 15) / 16 * 16;
    char *room = memory_alloc(indices + entries * (size_t)c->item + pointers + 16);
    if (!room)
        return false;
    struct csr t = *c;
    t.rows = c->columns;
    t.columns = c->rows;
    t.indices = room;
    t.values = room + indices;
    t.pointers = room + indices + (entries * (size_t)c->item + 15) / 16 * 16;
    bool ok = number_at(c, c->pointers, 0) == 0 &&
              (c->index == ZL_INT32 ? transpose_i32(c, &t) : transpose_i64(c, &t));
    ok = ok ? run_parts(&t, part) : refuse(call, c);
    memory_free(room);
    return ok;
}

bool cpu_csr_matmul(const struct call *call) {
    union scalar room[4];
    zl_array values = call->in[0], pointers = call->in[2], dense = call->in[3];
    const int64_t *arg = call_args(call);
    struct csr c = {.rows = pointers->dim[0] - 1,
                    .columns = arg[1],
                    .entries = values->dim[0],
                    .width = dense->dim[1],
                    .item = (int64_t)array_item(values),
                    .index = (zl_dtype)pointers->dtype,
                    .values = array_data(values, &room[0]),
                    .indices = array_data(call->in[1], &room[1]),
                    .pointers = array_data(pointers, &room[2]),
                    .dense = array_data(dense, &room[3]),
                    .out = cpu_data(call_first(call))};
    csr_part *part = find_part(c.width == 1 ? VECTOR : MATRIX, (zl_dtype)values->dtype, c.index);
    return arg[0] ? run_transposed(call, &c, part) : run_parts(&c, part) || refuse(call, &c);
}

// Inputs: indices, pointers, left and right.
bool cpu_csr_sample(const struct call *call) {
    union scalar room[4];
    zl_array left = call->in[2], right = call->in[3], out = call_first(call);
    struct csr c = {.rows = left->dim[0],
                    .columns = right->dim[0],
                    .entries = out->size,
                    .width = left->dim[1],
                    .item = (int64_t)array_item(left),
                    .index = (zl_dtype)call->in[0]->dtype,
                    .indices = array_data(call->in[0], &room[0]),
                    .pointers = array_data(call->in[1], &room[1]),
                    .left = array_data(left, &room[2]),
                    .dense = array_data(right, &room[3]),
                    .out = cpu_data(out)};
    if (!run_parts(&c, find_part(SAMPLE, (zl_dtype)left->dtype, c.index)))
        return refuse(call, &c);
    int64_t used = number_at(&c, c.pointers, c.rows);
    memset((char *)c.out + used * c.item, 0, (size_t)((c.entries - used) * c.item));
    return true;
}

bool cpu_csr_rows(const struct call *call) {
    union scalar room[2];
    zl_array pointers = call->in[1], out = call_first(call);
    struct csr c = {.rows = pointers->dim[0] - 1,
                    .columns = call_args(call)[0],
                    .entries = out->size,
                    .item = (int64_t)array_item(out),
                    .index = (zl_dtype)out->dtype,
                    .indices = array_data(call->in[0], &room[0]),
                    .pointers = array_data(pointers, &room[1]),
                    .out = cpu_data(out)};
    if (!run_parts(&c, c.index == ZL_INT32 ? rows_part_i32 : rows_part_i64))
        return refuse(call, &c);
    for (int64_t i = number_at(&c, c.pointers, c.rows); i < c.entries; i++)
        if (c.index == ZL_INT32)
            ((int32_t *)c.out)[i] = (int32_t)c.rows;
        else
            ((int64_t *)c.out)[i] = c.rows;
    return true;
}
