// test_cpu_gemm.c - the matrix engine: every micro-kernel that this CPU can run, compared with sums in double
// precision.
//
// Bounds: the error of a sum of k products in float32 or float64 is at most k + 8 roundings of the sum of
// their absolute values (four times that for bfmmla, which rounds differently); a narrower result may add one
// rounding. Integers are exact.

#include "test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"

// A matrix of random numbers, with contiguous rows or columns, maybe with gaps.
struct matrix {
    char *data;
    double *value; // row by row, as double
    int64_t row, col;
};

static void free_matrix(struct matrix *x) {
    memory_free(x->data);
    memory_free(x->value);
}

static struct matrix random_matrix(zl_dtype dtype, int64_t rows, int64_t cols) {
    int64_t gap = test_between(1, 3) / 3 + 1; // one in three has gaps
    bool turned = test_between(0, 1);
    struct matrix x = {.row = turned ? gap : cols * gap, .col = turned ? rows * gap : gap};
    size_t item = zl_dtype_size(dtype), count = (size_t)(rows * cols);
    x.data = memory_zero(count * (size_t)gap * item + 1);
    x.value = memory_zero((count + 1) * sizeof(double));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            char *at = x.data + (i * x.row + j * x.col) * (int64_t)item;
            double v = dtype == ZL_INT8 ? (double)test_between(-128, 127) : test_uniform(-1, 1);
            dtype_convert(at, dtype, &v, ZL_FLOAT64, 1);
            dtype_convert(&x.value[i * cols + j], ZL_FLOAT64, at, dtype, 1);
        }
    return x;
}

// Returns the error bound of a result, as a fraction of the sum of absolute values.
static double share_of(const struct gemm_kernel *u, int64_t k) {
    double unit = u->sum == ZL_FLOAT64 ? DBL_EPSILON / 2 : FLT_EPSILON / 2.0;
    return u->sum == ZL_INT32 ? 0 : (double)(k + 8) * unit * (u->dtype == ZL_BFLOAT16 ? 4 : 1);
}

static double rounding_of(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 ? 0x1p-11 : dtype == ZL_BFLOAT16 ? 0x1p-8 : 0;
}

struct product {
    const struct gemm_kernel *kernel;
    zl_dtype dtype, out;
    struct matrix a, b;
    struct gemm g;
    int64_t item; // bytes per element of c
    int64_t finished;
};

static struct product make_product(const struct gemm_kernel *u, zl_dtype dtype, zl_dtype out, int64_t m,
                                   int64_t n, int64_t k) {
    struct product p = {.kernel = u, .dtype = dtype, .out = out};
    p.a = random_matrix(dtype, m, k);
    p.b = random_matrix(dtype, k, n);
    p.item = (int64_t)zl_dtype_size(out);
    p.g = (struct gemm){.m = m,
                        .n = n,
                        .k = k,
                        .a = p.a.data,
                        .b = p.b.data,
                        .a_row = p.a.row,
                        .a_col = p.a.col,
                        .b_row = p.b.row,
                        .b_col = p.b.col,
                        .c_row = n + 3,
                        .c_col = 1};
    p.g.c = memory_alloc((size_t)(m * (n + 3) * p.item + 1));
    memset(p.g.c, 0x3c, (size_t)(m * (n + 3) * p.item)); // c holds finite numbers before
    return p;
}

static void free_product(struct product *p) {
    free_matrix(&p->a);
    free_matrix(&p->b);
    memory_free(p->g.c);
}

static bool run(struct product *p) {
    return gemm_multiply(
        &(struct gemm_work){.g = &p->g, .dtype = p->dtype, .out = p->out, .kernel = p->kernel});
}

static double element(const struct product *p, int64_t i, int64_t j) {
    double value;
    dtype_convert(&value, ZL_FLOAT64, p->g.c + (i * p->g.c_row + j) * p->item, p->out, 1);
    return value;
}

// Returns the number of elements whose error is too large.
static int64_t count_wrong(const struct product *p) {
    int64_t wrong = 0, k = p->g.k;
    for (int64_t i = 0; i < p->g.m; i++)
        for (int64_t j = 0; j < p->g.n; j++) {
            double sum = 0, size = 0;
            for (int64_t at = 0; at < k; at++) {
                double term = p->a.value[i * k + at] * p->b.value[at * p->g.n + j];
                sum += term;
                size += fabs(term);
            }
            double bound = share_of(p->kernel, k) * size + rounding_of(p->out) * (fabs(sum) + size * 1e-3);
            wrong += !(fabs(element(p, i, j) - sum) <= bound);
        }
    return wrong;
}

static const int64_t shapes[][3] = {
    {1, 1, 1},     {5, 7, 1},      {7, 11, 5},    {8, 12, 16},    {9, 13, 17},  {3, 100, 40},
    {100, 3, 40},  {64, 64, 64},   {17, 300, 33}, {5, 7, 0},      {0, 4, 3},    {4, 0, 3},
    {130, 70, 90}, {40, 30, 1500}, {25, 50, 700}, {11, 14, 5000}, {3, 5, 1023}, {2, 3, 100000},
};

// Returns whether a kernel may be given a dtype: its own, or one that is converted to it in packing.
static bool takes(const struct gemm_kernel *u, zl_dtype dtype) {
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    return u->dtype == dtype || (u->dtype == ZL_FLOAT32 && half) ||
           ((u->dtype == ZL_INT16 || u->dtype == ZL_INT32) && dtype == ZL_INT8);
}

static void check_kernel(const struct gemm_kernel *u, zl_dtype dtype, zl_dtype out) {
    for (size_t i = test_quick() ? (size_t)test_between(0, 3) : 0; i < COUNT(shapes);
         i += test_quick() ? 4 : 1) {
        struct product p = make_product(u, dtype, out, shapes[i][0], shapes[i][1], shapes[i][2]);
        CHECK(run(&p));
        if (!CHECK_EQ_INT(count_wrong(&p), 0))
            test_note("%s, %s to %s, %lld x %lld x %lld", u->name, zl_dtype_name(dtype), zl_dtype_name(out),
                      (long long)p.g.m, (long long)p.g.n, (long long)p.g.k);
        free_product(&p);
    }
}

static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16, ZL_INT8};

static void check_dtypes(const struct gemm_kernel *u) {
    for (size_t d = 0; d < COUNT(dtypes); d++)
        if (takes(u, dtypes[d])) {
            check_kernel(u, dtypes[d], u->sum);
            if (u->sum == ZL_FLOAT32)
                check_kernel(u, dtypes[d], dtypes[d]);
        }
}

// Checks all kernels whose required features are in a list of names with spaces around them; "" stands for
// kernels without any.
static void check_kernels(const char *needs) {
    const struct gemm_kernel *u;
    int known = 0, ran = 0;
    for (int i = 0; (u = gemm_kernel_at(i)); i++) {
        char name[64];
        snprintf(name, sizeof name, " %s ", u->needs ? u->needs : "");
        if (!strstr(needs, name))
            continue;
        known++;
        if (gemm_can_run(u))
            ran++, check_dtypes(u);
    }
    if (!known)
        SKIP("the library for this architecture has no such kernels");
    if (!ran)
        SKIP("this CPU, or the system, does not have the instructions");
}

TEST(kernels_of_every_cpu_within_bounds) {
    check_kernels("  ");
}

TEST(kernels_of_neon_within_bounds) {
    check_kernels(" dotprod fhm bf16 i8mm ");
}

TEST(kernels_of_sve_within_bounds) {
    check_kernels(" sve_256 sve_256_bf16 sve_256_i8mm sve_512 sve_512_bf16 sve_512_i8mm ");
}

TEST(kernels_of_avx2_within_bounds) {
    check_kernels(" avx2 ");
}

TEST(kernels_of_avx512_within_bounds) {
    check_kernels(" avx512 ");
}

TEST(kernels_of_vnni_within_bounds) {
    check_kernels(" avx_vnni avx512_vnni ");
}

TEST(kernels_of_avx512_bf16_within_bounds) {
    check_kernels(" avx512_bf16 ");
}

TEST(kernels_of_amx_within_bounds) {
    check_kernels(" amx_int8 amx_bf16 ");
}

// Compares several tiles in one call with one tile per call; panels of a have `gap` unused steps. One adds to
// c first, the other last, which is a difference of at most two roundings of numbers below k + 1.
static int64_t count_wrong_tiles(const struct gemm_kernel *u, int64_t k, int64_t tiles, int64_t gap,
                                 bool add) {
    const int64_t panel = u->rows * (k + gap * u->step), tile = u->rows * u->cols, slack = GEMM_SLACK / 4;
    const int64_t counts[] = {panel * tiles + slack, u->cols * k + slack, tile * tiles, tile * tiles};
    float *at[COUNT(counts)];
    int64_t wrong = 0;
    for (size_t i = 0; i < COUNT(counts); i++) {
        at[i] = memory_alloc((size_t)counts[i] * sizeof(float));
        for (int64_t j = 0; j < counts[i]; j++)
            at[i][j] = i == 3 ? at[2][j] : (float)test_uniform(-1, 1);
    }
    u->run_tiles(k, at[0], panel * (int64_t)sizeof(float), at[1], at[2], tiles, add);
    for (int64_t i = 0; i < tiles; i++)
        u->run(k, at[0] + i * panel, at[1], at[3] + i * tile, u->cols, add);
    for (int64_t j = 0; j < tile * tiles; j++)
        wrong += !(fabsf(at[2][j] - at[3][j]) <= (add ? (float)(k + 1) * FLT_EPSILON * 2 : 0));
    for (size_t i = 0; i < COUNT(counts); i++)
        memory_free(at[i]);
    return wrong;
}

TEST(tiles_one_behind_the_other_are_those_of_one) {
    const struct gemm_kernel *u;
    for (int i = 0; (u = gemm_kernel_at(i)); i++)
        for (int64_t steps = 2; u->run_tiles && gemm_can_run(u) && steps < 12; steps++)
            for (int64_t tiles = 1; tiles < 5; tiles++) {
                CHECK_EQ_INT(count_wrong_tiles(u, steps * u->step, tiles, 0, false), 0);
                CHECK_EQ_INT(count_wrong_tiles(u, steps * u->step, tiles, steps % 3, true), 0);
            }
}

TEST(every_dtype_has_a_kernel) {
    for (size_t d = 0; d < COUNT(dtypes); d++)
        if (CHECK(gemm_kernel_for(dtypes[d])))
            CHECK(gemm_can_run(gemm_kernel_for(dtypes[d])) && takes(gemm_kernel_for(dtypes[d]), dtypes[d]));
}

// ZL_TEST_KERNELS names the kernels that have to be chosen on the CPU that is emulated
// (test/scripts/cpu_models.sh).
TEST(chosen_kernels_are_those_of_the_cpu) {
    const char *expected = getenv("ZL_TEST_KERNELS");
    struct text chosen = {0};
    for (size_t d = 0; d < COUNT(dtypes); d++)
        text_add(&chosen, "%s%s", d ? ", " : "", gemm_kernel_for(dtypes[d])->name);
    if (expected)
        CHECK_STR(chosen.data, expected);
    text_free(&chosen);
}

static void check_threads(zl_dtype dtype, int64_t m, int64_t n, int64_t k) {
    zl_dtype out = dtype == ZL_INT8 ? ZL_INT32 : dtype;
    struct product p = make_product(gemm_kernel_for(dtype), dtype, out, m, n, k);
    size_t bytes = (size_t)(p.g.m * p.g.c_row * p.item);
    memset(p.g.c, 0, bytes);
    CHECK(run(&p));
    char *first = memory_alloc(bytes);
    memcpy(first, p.g.c, bytes);
    for (int threads = 1; threads <= 8; threads += threads == 4 ? 4 : 1) {
        memset(p.g.c, 0, bytes);
        CHECK(pool_set_threads(threads) && run(&p));
        CHECK(!memcmp(first, p.g.c, bytes));
    }
    memory_free(first);
    free_product(&p);
}

// Results have the same bits in every run and with any number of threads: all threads pack b together, or
// each packs it for its own rows or columns.
TEST(products_are_the_same_on_any_threads) {
    int before = zl_threads();
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        check_threads(dtypes[d], 210, 170, test_quick() ? 300 : 1300);
        check_threads(dtypes[d], 190, 100, 130);
        check_threads(dtypes[d], 60, 330, 130);
        check_threads(dtypes[d], 200, 64, 900);
    }
    CHECK(pool_set_threads(before));
}

static bool has_whole_rows(int64_t m, int64_t n, int64_t k) {
    struct product p = make_product(gemm_kernel_for(ZL_FLOAT32), ZL_FLOAT32, ZL_FLOAT32, m, n, k);
    bool whole = gemm_has_whole_rows(
        &(struct gemm_work){.g = &p.g, .dtype = p.dtype, .out = p.out, .kernel = p.kernel});
    free_product(&p);
    return whole;
}

// Two threads divide the rows, unless each would have too few, or the result is wide.
TEST(parts_are_rows_or_columns) {
    int before = zl_threads();
    CHECK(pool_set_threads(2));
    CHECK(has_whole_rows(150, 80, 128) && has_whole_rows(200, 1000, 150));
    CHECK(!has_whole_rows(100, 80, 128) && !has_whole_rows(150, 1000, 150));
    CHECK(pool_set_threads(before));
}

TEST(products_are_added) {
    for (int d = 0; d < 2; d++) {
        struct product p = make_product(gemm_kernel_for(dtypes[d]), dtypes[d], dtypes[d], 21, 33, 600);
        CHECK(run(&p));
        double before[2] = {element(&p, 0, 0), element(&p, 20, 32)};
        p.g.add = true;
        CHECK(run(&p));
        CHECK_NEAR(element(&p, 0, 0), 2 * before[0], 1e-3);
        CHECK_NEAR(element(&p, 20, 32), 2 * before[1], 1e-3);
        free_product(&p);
    }
}

TEST(products_of_small_matrices_within_bounds) {
    int ran = 0;
    for (int turn = 0; turn < (test_quick() ? 40 : 200); turn++) {
        zl_dtype dtype = dtypes[turn % 2];
        int64_t m = test_between(1, 20), n = test_between(1, 80), k = test_between(1, 40);
        struct product p = make_product(gemm_kernel_for(dtype), dtype, dtype, m, n, k);
        if (cpu_is_tiny(dtype, &p.g)) {
            char *end = p.g.c + (m * p.g.c_row - 3) * p.item, before[3 * 8];
            memcpy(before, end, (size_t)(3 * p.item));
            ran++;
            CHECK(cpu_tiny_gemm(dtype, &p.g));
            CHECK_EQ_INT(count_wrong(&p), 0);
            CHECK(!memcmp(before, end, (size_t)(3 * p.item))); // nothing after a row is written
        }
        free_product(&p);
    }
    CHECK(ran > 0);
}

TEST(products_of_a_few_rows_within_bounds) {
    static const int64_t sizes[][3] = {{13, 70, 300},  {16, 611, 131}, {24, 100, 1},
                                       {33, 500, 129}, {48, 97, 1040}, {2, 70, 300}};
    int ran = 0;
    for (int turn = 0; turn < 4; turn++)
        for (int d = 0; d < 4; d++) // f16 and bf16 too, if they are packed as float32
            for (size_t i = 0; i < COUNT(sizes); i++) {
                struct product p = make_product(gemm_kernel_for(dtypes[d]), dtypes[d],
                                                dtypes[d] == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32,
                                                sizes[i][0], sizes[i][1], sizes[i][2]);
                if (cpu_is_few(dtypes[d], &p.g)) {
                    ran++;
                    CHECK(cpu_few_gemm(dtypes[d], &p.g));
                    CHECK_EQ_INT(count_wrong(&p), 0);
                }
                free_product(&p);
            }
    if (!ran)
        SKIP("a BLAS library multiplies here");
}

TEST(products_of_a_few_vectors_within_bounds) {
    static const int64_t sizes[][3] = {{2, 90, 33},     {5, 50, 64},    {7, 130, 257},  {70, 12, 131},
                                       {16, 611, 131},  {201, 13, 3},   {17, 100, 256}, {90, 24, 1030},
                                       {33, 1400, 300}, {48, 97, 4099}, {12, 2048, 40}, {15, 1024, 33},
                                       {24, 500, 260},  {100, 20, 300}};
    for (int turn = 0; turn < (test_quick() ? 2 : 6); turn++)
        for (int d = 0; d < 2; d++)
            for (size_t i = 0; i < COUNT(sizes); i++) {
                struct product p = make_product(gemm_kernel_for(dtypes[d]), dtypes[d], dtypes[d], sizes[i][0],
                                                sizes[i][1], sizes[i][2]);
                if (cpu_is_thin(dtypes[d], &p.g)) {
                    CHECK(cpu_thin_gemm(dtypes[d], &p.g));
                    CHECK_EQ_INT(count_wrong(&p), 0);
                }
                free_product(&p);
            }
}

// In about one of four turns the rows of the matrix are contiguous along k; the others test other code.
TEST(dot_products_of_a_few_vectors_within_bounds) {
    static const zl_dtype floats[] = {ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16};
    static const int64_t sizes[][3] = {{1, 90, 64},     {2, 65, 100},  {5, 64, 1025}, {16, 131, 2100},
                                       {200, 3, 257},   {64, 70, 333}, {70, 33, 95},  {9, 400, 64},
                                       {17, 100, 1000}, {32, 96, 128}};
    int ran = 0;
    for (int turn = 0; turn < (test_quick() ? 8 : 24); turn++)
        for (size_t d = 0; d < COUNT(floats); d++)
            for (size_t i = 0; i < COUNT(sizes); i++) {
                struct product p = make_product(gemm_kernel_for(floats[d]), floats[d], ZL_FLOAT32,
                                                sizes[i][0], sizes[i][1], sizes[i][2]);
                if (cpu_is_dots(floats[d], &p.g)) {
                    ran++;
                    CHECK(cpu_dots_gemm(floats[d], &p.g));
                    if (!CHECK_EQ_INT(count_wrong(&p), 0))
                        test_note("%s, %lld x %lld x %lld", zl_dtype_name(floats[d]), (long long)p.g.m,
                                  (long long)p.g.n, (long long)p.g.k);
                }
                free_product(&p);
            }
    if (!ran)
        SKIP("this CPU has no wide vectors of x86_64");
}

// The rows end where the mapped memory ends. Sums are small integers, whatever they start from.
static void check_lines(const struct gemm_kernel *u, int vectors, int64_t k, enum gemm_sums how) {
    const int64_t columns = vectors * 4, page = sysconf(_SC_PAGESIZE), line = k * (int64_t)sizeof(float);
    char *pages = mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *panel = memory_zero((size_t)(k * columns) * sizeof *panel + GEMM_SLACK), sums[GEMM_LINES * 16];
    const void *lines[GEMM_LINES];
    if (!CHECK(pages != MAP_FAILED && panel && GEMM_LINES * line <= page &&
               !mprotect(pages + page, (size_t)page, PROT_NONE)))
        return;
    for (int i = 0; i < GEMM_LINES; i++)
        lines[i] = pages + page - (GEMM_LINES - i) * line;
    for (int64_t i = 0; i < GEMM_LINES * k; i++)
        ((float *)(void *)(pages + page - GEMM_LINES * line))[i] = (float)(i % 5);
    for (int64_t i = 0; i < k * columns; i++)
        panel[i] = (float)(i % 7);
    for (int64_t i = 0; i < GEMM_LINES * columns; i++)
        sums[i] = (float)i;
    u->lines[vectors - GEMM_VECTORS_LEAST](k, lines, panel, sums, columns, how);
    for (int64_t i = 0; i < GEMM_LINES * columns; i++) {
        float sum = how == GEMM_SET ? 0 : (float)i;
        for (int64_t at = 0; at < k; at++)
            sum += (float)((i / columns * k + at) % 5) * (float)((at * columns + i % columns) % 7);
        CHECK_EQ_INT((int64_t)sums[i], (int64_t)sum);
    }
    memory_free(panel);
    munmap(pages, (size_t)(2 * page));
}

TEST(lines_are_not_read_behind_their_end) {
    const struct gemm_kernel *u;
    int ran = 0;
    for (int i = 0; (u = gemm_kernel_at(i)); i++)
        for (int vectors = GEMM_VECTORS_LEAST; u->lines[0] && gemm_can_run(u) && vectors <= GEMM_VECTORS_MOST;
             vectors++)
            for (int64_t steps = 1; steps <= 5; steps++, ran++)
                for (int how = GEMM_SET; how <= GEMM_CONTINUE; how++)
                    check_lines(u, vectors, steps * u->step, (enum gemm_sums)how);
    if (!ran)
        SKIP("no kernel of this CPU reads lines where they lie");
}

struct blocks {
    struct product *p;
    atomic_int times[300 * 500]; // how often each element was reported as done
    atomic_int early;            // elements that did not have their value when they were reported
    double *expected;
};

static void note_block(void *data, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    struct blocks *b = data;
    for (int64_t i = row; i < row + rows; i++)
        for (int64_t j = col; j < col + cols; j++) {
            int64_t at = i * b->p->g.n + j;
            atomic_fetch_add(&b->times[at], 1);
            if (element(b->p, i, j) != b->expected[at])
                atomic_fetch_add(&b->early, 1);
        }
}

static void check_blocks(void) {
    static struct blocks b;
    for (size_t d = 0; d < COUNT(dtypes); d += 3) { // results as wide as the sums, and narrower ones
        memset(&b, 0, sizeof b);
        struct product p = make_product(gemm_kernel_for(dtypes[d]), dtypes[d], dtypes[d], 300, 500, 1100);
        int64_t size = p.g.m * p.g.n, wrong = 0;
        CHECK(run(&p));
        b.p = &p;
        b.expected = memory_alloc((size_t)size * sizeof(double));
        for (int64_t i = 0; i < size; i++)
            b.expected[i] = element(&p, i / p.g.n, i % p.g.n);
        memset(p.g.c, 0, (size_t)(p.g.m * p.g.c_row * p.item));
        CHECK(gemm_multiply(&(struct gemm_work){
            .g = &p.g, .dtype = p.dtype, .out = p.out, .kernel = p.kernel, .done = note_block, .data = &b}));
        for (int64_t i = 0; i < size; i++)
            wrong += atomic_load(&b.times[i]) != 1;
        CHECK_EQ_INT(wrong, 0);
        CHECK_EQ_INT(atomic_load(&b.early), 0);
        memory_free(b.expected);
        free_product(&p);
    }
}

// With few threads, and with as many as first pack both factors together.
TEST(blocks_are_done_once_and_complete) {
    int before = zl_threads();
    check_blocks();
    CHECK(pool_set_threads(8));
    check_blocks();
    CHECK(pool_set_threads(before));
}

// A product for which another kernel is better at some columns has the bits of the best kernel. The compiler
// fuses multiplications and additions into fma, which it omits in places at -O1.
TEST(kernels_like_others_have_their_bits) {
#ifdef ZL_SANITIZED
    SKIP("builds with sanitizers do not fuse all products and sums");
#else
    const struct gemm_kernel *u;
    for (int i = 0; (u = gemm_kernel_at(i)); i++)
        if (u->like && gemm_can_run(u)) {
            struct product p = make_product(u->like, u->dtype, u->sum, 50, 64, 2500);
            const size_t bytes = (size_t)(p.g.m * p.g.c_row * p.item);
            CHECK(gemm_kernel_for_columns(u->dtype, 64)->like == u->like ||
                  gemm_kernel_for(u->dtype) != u->like);
            CHECK(run(&p));
            char *first = memory_alloc(bytes);
            memcpy(first, p.g.c, bytes);
            p.kernel = u;
            CHECK(run(&p) && !memcmp(first, p.g.c, bytes));
            memory_free(first);
            free_product(&p);
        }
#endif
}

TEST(caches_have_sizes) {
    for (int level = 1; level <= 3; level++)
        CHECK(cpu_cache_bytes(level) >= 4096 &&
              (level == 1 || cpu_cache_bytes(level) >= cpu_cache_bytes(level - 1)));
}
