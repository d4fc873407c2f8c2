// test_tile.c - tile kernels: building, rows, verification, running on the host, cost, and failing
// allocations.

#include "test.h"

#include "base/base.h"
#include "tile/tile.h"

#include <limits.h>
#include <math.h>

static const struct tile_type f32 = {TILE_FLOAT, 32, 1}, i32 = {TILE_INT, 32, 1};

static struct tile_kernel *parse(const char *text) {
    struct tile_kernel *kernel = tile_parse(text, "test.tile");
    if (!CHECK(kernel))
        test_note("%s", zl_error());
    return kernel;
}

static bool interpret(const struct tile_kernel *kernel, void *const *buffers, const int64_t *symbols) {
    bool good = kernel && tile_interpret(kernel, buffers, symbols);
    if (!CHECK(good))
        test_note("%s", zl_error() ? zl_error() : "");
    return good;
}

// Building --------------------------------------------------------------------------------------------------

TEST(tile_equal_expressions_are_one) {
    tile_begin("k");
    expr x = tile_name_value(tile_name("x", f32), TILE_LOCAL);
    CHECK(tile_binary(TILE_ADD, x, tile_const(f32, 1)) == tile_binary(TILE_ADD, x, tile_const(f32, 1)));
    CHECK(tile_binary(TILE_ADD, x, tile_const(f32, 1)) != tile_binary(TILE_ADD, tile_const(f32, 1), x));
    CHECK(tile_const(f32, 0) != tile_const(f32, -0.0));
    CHECK(tile_const_int(i32, -1) == tile_const_bits(i32, 0xffffffff));
    CHECK(tile_cast(f32, x) == x);
    struct tile_kernel *kernel = tile_end();
    CHECK(kernel);
    tile_free(kernel);
}

TEST(tile_builder_refuses_types_that_differ) {
    tile_begin("k");
    expr x = tile_name_value(tile_name("x", f32), TILE_LOCAL);
    CHECK(!tile_binary(TILE_ADD, x, tile_const(i32, 1)));
    CHECK_HAS(zl_error(), "add of f32 and i32");
    CHECK(!tile_unary(TILE_NEG, x)); // the kernel has failed
    CHECK_ERROR(ZL_ERROR_DTYPE, tile_end());
    CHECK_ERROR(ZL_ERROR_STATE, tile_const(f32, 1)); // there is no kernel
}

TEST(tile_commands_have_a_limit_of_arguments) {
    expr argument[TILE_COMMAND_ARGUMENTS + 1];
    tile_begin("k");
    for (int i = 0; i <= TILE_COMMAND_ARGUMENTS; i++)
        argument[i] = tile_const_int(i32, i);
    CHECK(tile_command("f", TILE_COMMAND_ARGUMENTS, argument));
    CHECK(!tile_command("f", TILE_COMMAND_ARGUMENTS + 1, argument));
    CHECK_HAS(zl_error(), "f has 57 arguments: 56 at most");
    CHECK_ERROR(ZL_ERROR_VALUE, tile_end());
}

TEST(tile_kernels_nest) {
    struct tile_kernel *outer = tile_begin("outer");
    expr x = tile_const(f32, 1);
    struct tile_kernel *row = tile_row_kernel(TILE_EXP, ZL_FLOAT32, "v");
    CHECK(row && tile_current() == outer && tile_const(f32, 1) == x);
    tile_free(row);
    tile_resume(NULL); // as after a failure: nothing is built until its end
    CHECK(!tile_current() && !tile_const(f32, 2));
    tile_suspend();
    CHECK(tile_current() == outer);
    tile_free(tile_end());
    CHECK(!tile_current());
}

TEST(tile_open_bodies_must_close) {
    tile_begin("k");
    tile_open_if(tile_const_bits(tile_type_of(ZL_BOOL), 1));
    CHECK_ERROR(ZL_ERROR_VALUE, tile_end());
    tile_begin("k");
    tile_close();
    CHECK_ERROR(ZL_ERROR_VALUE, tile_end());
}

TEST(tile_passes_rebuild_a_body) {
    struct tile_kernel *kernel = tile_row_kernel(TILE_SQUARE, ZL_FLOAT32, "v");
    REQUIRE(kernel);
    tile_resume(kernel);
    struct tile_stmt *map = tile_take_body(), *store = map->body;
    tile_open(*map);
    tile_store(store->buffer, 1, store->index, tile_lower(TILE_SQUARE, store->value->arg[0], NULL, NULL),
               NULL);
    tile_close();
    tile_suspend();
    char *text = tile_print(kernel);
    CHECK_STR(
        text,
        "kernel square_f32_v(a: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[i] = a[i] * a[i]\n  }\n}\n");
    CHECK(tile_verify(kernel));
    memory_free(text);
    tile_free(kernel);
}

// Rows ------------------------------------------------------------------------------------------------------

static void check_row(enum tile_op op, zl_dtype dtype, const char *form) {
    struct tile_kernel *kernel = tile_row_kernel(op, dtype, form);
    REQUIRE(kernel);
    CHECK(tile_verify(kernel));
    char *text = tile_print(kernel);
    struct tile_kernel *again = parse(text);
    char *text_again = again ? tile_print(again) : NULL;
    CHECK_STR(text_again, text);
    memory_free(text);
    memory_free(text_again);
    tile_free(kernel);
    tile_free(again);
}

TEST(tile_row_kernels_of_all_rows) {
    static const char *const forms[] = {"v", "vs", "svv"};
    int rows = 0;
    for (int op = 0; op < TILE_CONST; op++)
        for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++) {
            const char *form = forms[tile_op_arity((enum tile_op)op) - 1];
            if (tile_row_takes((enum tile_op)op, (zl_dtype)dtype)) {
                check_row((enum tile_op)op, (zl_dtype)dtype, form);
                rows++;
            } else {
                CHECK_ERROR(ZL_ERROR_DTYPE, tile_row_kernel((enum tile_op)op, (zl_dtype)dtype, form));
            }
        }
    CHECK(rows > 500);
    CHECK_ERROR(ZL_ERROR_VALUE, tile_row_kernel(TILE_ADD, ZL_FLOAT32, "v"));
}

TEST(tile_rows_take_what_their_rule_says) {
    CHECK(tile_row_takes(TILE_EXP, ZL_COMPLEX64) && !tile_row_takes(TILE_EXP, ZL_INT32));
    CHECK(!tile_row_takes(TILE_ERF, ZL_COMPLEX64) && tile_row_takes(TILE_ERF, ZL_BFLOAT16));
    CHECK(tile_row_takes(TILE_AND, ZL_BOOL) && !tile_row_takes(TILE_AND, ZL_FLOAT32));
    CHECK(tile_row_takes(TILE_FLOOR, ZL_UINT8) && !tile_row_takes(TILE_FLOOR, ZL_COMPLEX64));
    CHECK_EQ_INT(tile_row_gives(TILE_ABS, ZL_COMPLEX64), ZL_FLOAT32);
    CHECK_EQ_INT(tile_row_gives(TILE_LT, ZL_INT8), ZL_BOOL);
    CHECK(tile_row_is_base(TILE_ADD, ZL_BFLOAT16) && tile_row_is_base(TILE_FLOORDIV, ZL_INT8));
    CHECK(!tile_row_is_base(TILE_FLOORDIV, ZL_FLOAT32) && !tile_row_is_base(TILE_EXP, ZL_FLOAT16));
    CHECK(!tile_row_is_base(TILE_ABS, ZL_COMPLEX64) && tile_row_is_base(TILE_SQRT, ZL_FLOAT64));
}

TEST(tile_row_kernels_run) {
    struct tile_kernel *kernel = tile_row_kernel(TILE_SUB, ZL_FLOAT32, "vs");
    float a[] = {1, 2, 3}, b[] = {0.5}, y[3];
    REQUIRE(interpret(kernel, (void *[]){a, b, y}, (int64_t[]){3}));
    CHECK_EQ_F64(y[2], 2.5);
    tile_free(kernel);
    kernel = tile_row_kernel(TILE_EXP, ZL_FLOAT16, "v");
    uint16_t h[] = {0x3c00, 0x0000}, z[2]; // 1, 0
    REQUIRE(interpret(kernel, (void *[]){h, z}, (int64_t[]){2}));
    CHECK_EQ_INT(z[0], 0x4170); // 2.71875
    CHECK_EQ_INT(z[1], 0x3c00);
    tile_free(kernel);
    kernel = tile_cast_kernel(ZL_INT8, ZL_FLOAT32);
    float x[] = {-300, 1.9f, NAN};
    int8_t c[3];
    REQUIRE(interpret(kernel, (void *[]){x, c}, (int64_t[]){3}));
    CHECK(c[0] == -128 && c[1] == 1 && c[2] == 0);
    tile_free(kernel);
}

// Reductions ------------------------------------------------------------------------------------------------

TEST(tile_reduce_has_one_order) {
    enum { N = 1000, LANES = 32 };
    float x[N], lane[LANES] = {0}, y = -1;
    for (int i = 0; i < N; i++) {
        x[i] = (float)test_uniform(-1, 1) * ldexpf(1, (int)test_between(-10, 10));
        lane[i % LANES] += x[i];
    }
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    struct tile_kernel *kernel = tile_reduce_kernel(TILE_ADD, ZL_FLOAT32);
    REQUIRE(interpret(kernel, (void *[]){x, &y}, (int64_t[]){N}));
    CHECK_SAME_F64(y, lane[0]);
    tile_free(kernel);
}

TEST(tile_reduce_kernels) {
    struct tile_kernel *kernel = tile_reduce_kernel(TILE_MAX, ZL_INT8);
    int8_t x[] = {-100, -7, -99}, y = 0;
    REQUIRE(interpret(kernel, (void *[]){x, &y}, (int64_t[]){3}));
    CHECK_EQ_INT(y, -7);
    REQUIRE(interpret(kernel, (void *[]){x, &y}, (int64_t[]){0}));
    CHECK_EQ_INT(y, -128);
    tile_free(kernel);
    kernel = tile_reduce_kernel(TILE_ADD, ZL_BFLOAT16);
    uint16_t h[300];
    float sum;
    for (int i = 0; i < 300; i++)
        h[i] = 0x3f80;
    REQUIRE(interpret(kernel, (void *[]){h, &sum}, (int64_t[]){300}));
    CHECK_EQ_F64(sum, 300); // a sum in bf16 would stop earlier
    tile_free(kernel);
    kernel = tile_reduce_kernel(TILE_AND, ZL_BOOL);
    bool b[] = {true, true, false}, all = true;
    REQUIRE(interpret(kernel, (void *[]){b, &all}, (int64_t[]){3}));
    CHECK(!all);
    tile_free(kernel);
    CHECK_ERROR(ZL_ERROR_DTYPE, tile_reduce_kernel(TILE_AND, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_DTYPE, tile_reduce_kernel(TILE_SUB, ZL_FLOAT32));
}

TEST(tile_reduce_and_scan_along_axes) {
    struct tile_kernel *kernel =
        parse("kernel k(a: i32[2, 3]) -> (rows: i32[2], columns: i32[1, 3], s: i32[2, 3], e: i32[2, 3]) {\n"
              "  fill columns = 100\n  reduce add a -> rows axis 1\n"
              "  reduce maximum a -> columns axis 0 accumulate\n"
              "  scan add a -> s axis 1\n  scan add a -> e axis 0 reverse exclusive\n}");
    int32_t a[] = {1, 2, 3, 4, 5, 600}, rows[2], columns[3], s[6], e[6];
    REQUIRE(interpret(kernel, (void *[]){a, rows, columns, s, e}, NULL));
    CHECK(rows[0] == 6 && rows[1] == 609);
    CHECK(columns[0] == 100 && columns[2] == 600);
    CHECK(s[0] == 1 && s[2] == 6 && s[5] == 609);
    CHECK(e[0] == 4 && e[2] == 600 && e[5] == 0);
    tile_free(kernel);
}

// Whole kernels ---------------------------------------------------------------------------------------------

static const char *const matmul =
    "kernel matmul(A: f16[M, K], B: f16[N, K]) -> (C: f32[M, N]) {\n"
    "  param BM = 4, BN = 4, BK = 3\n"
    "  grid bx in ceildiv(N, BN), by in ceildiv(M, BM), threads 32 {\n"
    "    shared a: f16[BM, BK]\n    shared b: f16[BN, BK]\n    fragment acc: f32[BM, BN] = 0\n"
    "    pipeline k in ceildiv(K, BK) stages 2 {\n"
    "      t = copy_async A[by*BM, k*BK] -> a\n      copy B[bx*BN, k*BK] -> b\n      wait t\n"
    "      gemm a, transpose b -> acc\n    }\n"
    "    map i in BM, j in BN { acc[i, j] = max(acc[i, j], 0) }\n"
    "    copy acc -> C[by*BM, bx*BN]\n  }\n}\n";

static double half_value(uint16_t bits) {
    return tile_value_of(tile_type_of(ZL_FLOAT16), bits).f;
}

// Sizes that are not multiples of the tiles: reads beyond the edge give 0, and writes are dropped.
TEST(tile_matmul_runs) {
    enum { M = 6, N = 5, K = 7 };
    uint16_t a[M * K], b[N * K];
    float c[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = (uint16_t)(0x3c00 + test_between(0, 100)); // in [1, 1.1)
    for (int i = 0; i < N * K; i++)
        b[i] = (uint16_t)(0xbc00 - 0x8000 * (i % 2)); // -1, 1
    struct tile_kernel *kernel = parse(matmul);
    REQUIRE(interpret(kernel, (void *[]){a, b, c}, (int64_t[]){M, K, N}));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += half_value(a[i * K + k]) * half_value(b[j * K + k]);
            CHECK_NEAR(c[i * N + j], fmax(sum, 0), 1e-5);
        }
    struct tile_cost cost = tile_cost(kernel, (int64_t[]){64, 66, 32});
    CHECK_EQ_F64(cost.flops, 2.0 * 64 * 66 * 32 + 64 * 32);
    CHECK_EQ_F64(cost.bytes, 64 * 66 * 2 + 66 * 32 * 2 + 64 * 32 * 4);
    tile_free(kernel);
}

TEST(tile_control_flow_runs) {
    struct tile_kernel *kernel =
        parse("kernel collatz(a: i32[n], s: i32) -> (y: i32[n], z: i32[n]) {\n"
              "  map i in n {\n    x = a[i]; steps = 0i32\n"
              "    while x > 1 {\n      if x % 2 == 0 { x = x // 2 } else { x = x * 3 + 1 }\n"
              "      steps = steps + 1\n      if steps >= s { break }\n    }\n    y[i] = steps\n  }\n"
              "  fill z = 7\n  for i in n - 1 .. -1 step -2 { z[i] = i32(i) where i != 2 }\n}");
    int32_t a[] = {1, 6, 27, 97}, s = 20, y[4], z[4];
    REQUIRE(interpret(kernel, (void *[]){a, &s, y, z}, (int64_t[]){4}));
    CHECK(y[0] == 0 && y[1] == 8 && y[2] == 20 && y[3] == 20);
    CHECK(z[0] == 7 && z[1] == 1 && z[2] == 7 && z[3] == 3);
    tile_free(kernel);
}

// A loop that ends by `break` does not evaluate its condition again, which would read out of bounds.
TEST(tile_break_is_before_the_condition) {
    struct tile_kernel *kernel = parse("kernel ones(a: i32[n]) -> (y: i32[1]) {\n"
                                       "  i = 0i64\n"
                                       "  while a[i] == 1 { i = i + 1; if i == n { break } }\n"
                                       "  y[0] = i32(i)\n"
                                       "}");
    int32_t a[] = {1, 1, 1}, y[1];
    REQUIRE(interpret(kernel, (void *[]){a, y}, (int64_t[]){3}));
    CHECK(y[0] == 3);
    a[1] = 0;
    REQUIRE(interpret(kernel, (void *[]){a, y}, (int64_t[]){3}));
    CHECK(y[0] == 1);
    tile_free(kernel);
}

TEST(tile_running_outside_is_an_error) {
    struct tile_kernel *kernel =
        parse("kernel k(a: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[i] = a[i + 1]\n  }\n}");
    float a[3] = {1, 2, 3}, y[3];
    REQUIRE(kernel);
    CHECK_ERROR(ZL_ERROR_VALUE, tile_interpret(kernel, (void *[]){a, y}, (int64_t[]){3}));
    CHECK_HAS(test_last_error(), "test.tile:3:5: store: a[3] is outside of [3]: mask it");
    tile_free(kernel);
    kernel =
        parse("kernel k(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = load(a[i + 1], i + 1 < n, 9) } }");
    REQUIRE(interpret(kernel, (void *[]){a, y}, (int64_t[]){3}));
    CHECK(y[0] == 2 && y[2] == 9);
    tile_free(kernel);
    kernel = parse("kernel k() -> (y: f32[1]) { assert false, \"never\" }");
    CHECK_ERROR(ZL_ERROR_VALUE, tile_interpret(kernel, (void *[]){y}, NULL));
    tile_free(kernel);
    kernel = parse("kernel k() -> (y: f32[1]) { command f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) }");
    REQUIRE(kernel);
    CHECK_ERROR(ZL_ERROR_VALUE, tile_interpret(kernel, (void *[]){y}, NULL));
    CHECK_HAS(test_last_error(), "command: f is a function of a chip, and the interpreter is none");
    tile_free(kernel);
}

// Computing indices does not count as operations, and partial blocks at the ends cost less than whole ones.
TEST(tile_cost_of_branches_and_indices) {
    struct tile_kernel *kernel = parse("kernel k index 32 <n>(x: f32[n]) -> (y: f32[n]) {\n"
                                       "  grid b in (n + 1023) // 1024, threads 256 {\n"
                                       "    map t in 256 {\n"
                                       "      first: i32 = (b * 256 + t) * 4\n"
                                       "      if first + 4 <= n {\n"
                                       "        unroll j in 4 { y[first + j] = x[first + j] * 2.0 + 1.0 }\n"
                                       "      } else {\n"
                                       "        for i in first .. n { y[i] = x[i] * 2.0 + 1.0 }\n"
                                       "      }\n    }\n  }\n}");
    REQUIRE(kernel);
    struct tile_cost cost = tile_cost(kernel, (int64_t[]){65536});
    CHECK_EQ_F64(cost.flops, 2 * 65536);
    CHECK_EQ_F64(cost.bytes, 8 * 65536);
    tile_free(kernel);
    kernel =
        parse("kernel k(x: f32[n]) -> (y: f32[n]) { map i in n { if x[i] > 1.0 { y[i] = x[i] * 2.0 } } }");
    REQUIRE(kernel);
    CHECK_EQ_F64(tile_cost(kernel, (int64_t[]){100}).flops, 50);
    tile_free(kernel);
}

TEST(tile_cost_counts) {
    struct tile_kernel *kernel = tile_row_kernel(TILE_ADD, ZL_FLOAT32, "vs");
    REQUIRE(kernel);
    struct tile_cost cost = tile_cost(kernel, (int64_t[]){1000});
    CHECK_EQ_F64(cost.flops, 1000);
    CHECK_EQ_F64(cost.bytes, 8004);
    tile_free(kernel);
    kernel = tile_reduce_kernel(TILE_ADD, ZL_FLOAT16);
    cost = tile_cost(kernel, (int64_t[]){1000});
    CHECK_EQ_F64(cost.flops, 1000);
    CHECK_EQ_F64(cost.bytes, 2004);
    tile_free(kernel);
    kernel =
        parse("kernel triangle() -> (y: f32[n]) { for i in n { for j in i { y[i] = fma(f32(j), 2, 1) } } }");
    CHECK_NEAR(tile_cost(kernel, (int64_t[]){101}).flops, 101 * 50 * 2, 1);
    tile_free(kernel);
    kernel = parse("kernel steps() -> (y: f32[n]) { for i in 0 .. n step 4 { y[i] = fma(f32(i), 2, 1) } }");
    CHECK_EQ_F64(tile_cost(kernel, (int64_t[]){10}).flops, 3 * 2); // at 0, 4 and 8
    tile_free(kernel);
}

// Verifying -------------------------------------------------------------------------------------------------

static void check_broken(struct tile_kernel *kernel, const char *part) {
    REQUIRE(kernel);
    CHECK_ERROR(ZL_ERROR_VALUE, tile_verify(kernel));
    CHECK_HAS(test_last_error(), part);
    tile_free(kernel);
}

TEST(tile_verify_finds_what_the_builder_lets_pass) {
    expr zero, one;
    const struct tile_name *name;
    tile_begin("late");
    one = tile_const_int(tile_index_type(), 1), zero = tile_const_int(tile_index_type(), 0);
    struct tile_buffer *y = tile_parameter_buffer("y", f32, 1, &one, true);
    name = tile_name("x", f32);
    tile_store(y, 1, &zero, tile_name_value(name, TILE_LOCAL), NULL);
    tile_assign(name, tile_const(f32, 1));
    check_broken(tile_end(), "late: store: local 'x' is not defined here");

    tile_begin("types");
    one = tile_const_int(tile_index_type(), 1), zero = tile_const_int(tile_index_type(), 0);
    y = tile_parameter_buffer("y", f32, 1, &one, true);
    tile_store(y, 1, &zero, tile_const(i32, 1), NULL);
    check_broken(tile_end(), "types: store: the value is i32, not f32");

    tile_begin("twice");
    one = tile_const_int(tile_index_type(), 1);
    name = tile_index("i", one);
    tile_open_map(1, &name, &one);
    tile_open_map(1, &name, &one);
    tile_close();
    tile_close();
    check_broken(tile_end(), "twice: map: 'i' is declared twice");

    tile_begin("gone");
    one = tile_const_int(tile_index_type(), 1), zero = tile_const_int(tile_index_type(), 0);
    tile_open_if(tile_const_bits(tile_type_of(ZL_BOOL), 1));
    y = tile_alloc("t", f32, TILE_REGISTER, 1, &one);
    tile_close();
    tile_store(y, 1, &zero, tile_const(f32, 1), NULL);
    check_broken(tile_end(), "gone: store: buffer 't' is not defined here");
}

// Memory ----------------------------------------------------------------------------------------------------

static bool work(const char *text) {
    struct tile_kernel *kernel = tile_parse(text, "test.tile");
    char *printed = kernel ? tile_print(kernel) : NULL;
    uint16_t a[6 * 7] = {0}, b[5 * 7] = {0};
    float c[6 * 5];
    bool good = printed && tile_verify(kernel) &&
                tile_interpret(kernel, (void *[]){a, b, c}, (int64_t[]){6, 7, 5}) &&
                tile_cost(kernel, (int64_t[]){6, 7, 5}).flops > 0;
    memory_free(printed);
    tile_free(kernel);
    struct tile_kernel *row = tile_row_kernel(TILE_POW, ZL_COMPLEX64, "vv");
    good = row && good;
    tile_free(row);
    return good && !tile_current();
}

// The n-th allocation fails, for all n (a sample in quick runs): the failure is reported, and nothing leaks.
TEST(tile_memory_may_run_out) {
    memory_fail_at(LONG_MAX); // counts allocations
    REQUIRE(work(matmul));
    long all = memory_allocations(), step = test_quick() ? all / 50 + 1 : 1;
    CHECK(all > 0);
    for (long at = 1; at <= all; at += step) {
        memory_fail_at(at);
        bool good = work(matmul);
        memory_fail_at(0);
        if (!CHECK(good || zl_error_which() == ZL_ERROR_MEMORY))
            test_note("allocation %ld: %s", at, zl_error() ? zl_error() : "no error");
        zl_clear_error();
        if (!CHECK(!tile_current()))
            return;
    }
}

// Sizes -----------------------------------------------------------------------------------------------------

// Compares all sizes of the kernel's buffers, computed exactly, with those of the tape, whose leaves are read
// one by one.
static void check_sizes(struct tile_kernel *k, const int64_t *symbol) {
    expr root[TILE_DIMS];
    int count = 0;
    for (int i = 0; i < k->parameters; i++)
        root[count++] = k->parameter[i].buffer->shape[0];
    int64_t got[TILE_DIMS] = {0};
    union tile_value want[TILE_DIMS];
    struct tile_tape *a = tile_tape(count, root), *b = tile_tape(count, root);
    REQUIRE(a && b && tile_tape_bind(a, k));
    int which = -1;
    bool exact = tile_tape_run_exactly(b, tile_symbol_value, &(struct tile_symbols){k, symbol}, want, &which);
    for (int i = 0; i < count; i++)
        exact = exact && want[i].i >= 0;
    CHECK_EQ_INT(tile_tape_sizes(a, symbol, got), exact);
    for (int i = 0; i < count && exact; i++)
        CHECK_EQ_INT(got[i], want[i].i);
    tile_tape_free(a);
    tile_tape_free(b);
}

TEST(sizes_are_computed_exactly_from_symbols) {
    static const char *const texts[] = {
        "kernel f<n, m>(a: f32[ceildiv(n, 256)], b: f32[max(n - m, 0) * 3]) -> (y: f32[n // m]) { }",
        "kernel f index 32 <n, m>(a: f32[n * m], b: f32[n + m]) -> (y: f32[where(n < m, n * n, m % 7)]) { }",
        "kernel f index 32 <n, m>(a: f32[n + 255 >> 8], b: f32[n >> m]) -> (y: f32[m]) { }",
        "kernel f<n, m>(a: f32[min(n, m) << 3], b: f32[i64(i32(n))]) -> (y: f32[(n + m) * (n + 3) >> 1]) { }",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        static const int64_t some[] = {0, 1, 7, 255, 256, 65536, -3, INT32_MAX, INT32_MIN};
        struct tile_kernel *k = tile_parse(texts[i], "sizes");
        if (!CHECK(k))
            test_note("%s", zl_error());
        for (size_t a = 0; k && a < COUNT(some) * COUNT(some); a++)
            check_sizes(k, (const int64_t[]){some[a % COUNT(some)], some[a / COUNT(some)]});
        if (k && k->index_bits == 64)
            check_sizes(k, (const int64_t[]){INT64_MAX, INT64_MAX - 5});
        tile_free(k);
    }
}

// Many steps need allocated memory; a leaf that is not a symbol is refused.
TEST(sizes_of_many_steps) {
    struct text text = {0};
    text_add(&text, "kernel f<n>(a: f32[n");
    for (int i = 2; i < 60; i++)
        text_add(&text, " + n * %d", i);
    text_add(&text, "]) -> (y: f32[n]) { }");
    struct tile_kernel *k = tile_parse(text.data, "sizes");
    REQUIRE(k);
    check_sizes(k, (const int64_t[]){1000});
    text_free(&text);
    tile_free(k);
    k = tile_parse("kernel f(s: i64) -> (y: f32[4]) { map i in 4 { y[i] = f32(s + i) } }", "scalar");
    REQUIRE(k);
    expr value = k->body->body->value;
    struct tile_tape *tape = tile_tape(1, &value);
    CHECK_ERROR(ZL_ERROR_VALUE, tile_tape_bind(tape, k));
    tile_tape_free(tape);
    tile_free(k);
}
