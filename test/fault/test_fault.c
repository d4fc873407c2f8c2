// test_fault.c - the n-th allocation fails, for every n: an error or the right result, nothing lost, nothing
// broken.
//
// A scenario runs with allocation 1, 2, 3, ... failing until it gets past its last one; its plans are
// forgotten each time, so that making them is part of it. Slabs take their memory in large pieces: only with
// AddressSanitizer, where every object is allocated alone, does each of them fail.

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "schedule/schedule.h"
#include "test.h"
#include "zellige_tile.h"

// Does some work; the sum of what it computed, or false after an error.
typedef bool scenario(double *out);

static bool sum_of(zl_array x, double *out) {
    zl_array y = zl_sum(zl_astype(x, ZL_FLOAT64));
    bool ok = zl_eval(y);
    *out = ok ? zl_item(y) : 0;
    return ok;
}

static zl_array counting(int64_t rows, int64_t columns) {
    return zl_reshape(zl_arange(0, (double)(rows * columns), 1, ZL_FLOAT32), ZL_SHAPE(rows, columns));
}

// Walking through all allocations ---------------------------------------------------------------------------

struct state {
    size_t live, active;
};

static struct state state_now(void) {
    return (struct state){slab_live(), zl_get_active_memory()};
}

// One run of a scenario with one allocation failing.
struct attempt {
    scenario *run;
    long at;   // 0: none fails
    long made; // allocations
    bool ok;
    double value;
    zl_error_kind kind;
    char message[200];
};

static void *run_attempt(void *data) {
    struct attempt *a = data;
    memory_fail_at(a->at);
    ZL_SCOPE
        a->ok = a->run(&a->value);
    a->made = memory_allocations();
    memory_fail_at(0);
    a->kind = zl_error_which();
    snprintf(a->message, sizeof a->message, "%s", zl_error() ? zl_error() : "no error");
    zl_clear_error();
    return NULL;
}

// A new thread has nothing yet: its first evaluation, scope and stream are part of the run.
static struct attempt attempt(scenario *run, long at, bool in_new_thread) {
    struct attempt a = {.run = run, .at = at};
    pthread_t thread;
    if (!in_new_thread)
        run_attempt(&a);
    else if (CHECK(!pthread_create(&thread, NULL, run_attempt, &a)))
        pthread_join(thread, NULL);
    return a;
}

static bool is_right(const struct attempt *a, double want, struct state before) {
    struct state after = state_now();
    bool right = CHECK_EQ_INT(a->kind, a->ok ? ZL_ERROR_NONE : ZL_ERROR_MEMORY) &&
                 (!a->ok || CHECK_EQ_F64(a->value, want)) && CHECK_EQ_INT(after.live, before.live) &&
                 CHECK_EQ_INT(after.active, before.active);
    if (!right)
        test_note("when allocation %ld fails: %s", a->at, a->message);
    return right;
}

// The first `all` allocations, then a sample of the later ones.
static void fail_each(scenario *run, bool in_new_thread, long all) {
    test_setenv("ZL_HOT", "1000000000"); // no kernel gets so far that another thread compiles it
    struct attempt a = attempt(run, 0, in_new_thread);
    double want = a.value;
    if (!a.ok)
        test_note("without a fault: %s", a.message);
    REQUIRE(a.ok);
    int wrong = 0;
    for (long at = 1; a.made >= a.at && wrong < 3; at += at < all ? 1 : at / 8) {
        plan_clear();
        struct state before = state_now();
        a = attempt(run, at, in_new_thread);
        wrong += !is_right(&a, want, before);
    }
    a = attempt(run, 0, in_new_thread);
    CHECK(a.ok && a.value == want);
    test_setenv("ZL_HOT", NULL);
}

static void fail_both_ways(scenario *run, long all) {
    fail_each(run, false, all);
    fail_each(run, true, all);
}

// Most have less than 320; the rest is for runs that have the time.
#define SCENARIO_OF(name, all)             \
    static bool run_##name(double *out);   \
    TEST(fault_##name) {                   \
        fail_both_ways(run_##name, (all)); \
    }                                      \
    static bool run_##name(double *out)
#define SCENARIO(name) SCENARIO_OF(name, test_quick() ? 320 : 2000)

// A function of one array, for what keeps functions.
static bool products(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array w = zl_ones(ZL_SHAPE(4, 2), ZL_FLOAT32), y = zl_matmul(zl_expand_dims(in[0], ZL_AXES(0)), w);
    return zl_give(out, zl_add(zl_max_axis(y, 1, true), zl_exp(zl_negative(y)))) && zl_give(out, in[0]);
}

// Ops -------------------------------------------------------------------------------------------------------

SCENARIO(linear_algebra) {
    if (test_lacks_lapack())
        return sum_of(zl_zeros(ZL_SHAPE(1), ZL_FLOAT32), out); // nothing to try
    zl_array x = zl_add(zl_eye(6, 6, 0, ZL_FLOAT32), zl_divide(counting(6, 6), zl_scalar(100))), part[3];
    zl_array y = zl_linalg_inv(zl_matmul(x, zl_matrix_transpose(x)));
    return zl_linalg_svd(y, true, part) && sum_of(zl_linalg_solve(x, zl_abs(part[1])), out);
}

SCENARIO(chosen_products) {
    zl_array x = zl_reshape(counting(6, 6), ZL_SHAPE(4, 3, 3)), at = zl_arange_int(0, 4, 1, ZL_INT32);
    zl_array y = zl_gather_mm(x, x, zl_expand_dims(at, ZL_AXES(1)), at, false);
    return sum_of(zl_add(y, zl_matmul_int8(zl_astype(x, ZL_INT8), zl_astype(x, ZL_INT8))), out);
}

// Products of a sparse matrix and of its transposed one, and an array of a size that is found out.
SCENARIO(sparse_products) {
    zl_array part[3], x = zl_subtract(counting(5, 6), zl_scalar(7)), b = counting(6, 2), g, values;
    if (!zl_csr_from_dense(zl_maximum(x, zl_scalar(0)), INT64_MIN, part))
        return false;
    zl_array y = zl_csr_matmul(part[0], part[1], part[2], b);
    return zl_grad(zl_sum(zl_square(y)), 1, &b, &g) && zl_unique(g, 5, false, false, false, NULL, &values) &&
           sum_of(zl_add(zl_sum(values), zl_sum(zl_csr_to_dense(part[0], part[1], part[2], 6))), out);
}

SCENARIO(parts_of_models) {
    zl_array x = zl_divide(counting(6, 4), zl_scalar(10)),
             at = zl_from_i32((int32_t[]){3, 1, 0, 2, 1, 1}, ZL_SHAPE(6));
    zl_array loss = zl_sum(zl_fast_cross_entropy(x, at)), part[2], g[2];
    zl_array k = zl_reshape(x, ZL_SHAPE(1, 2, 3, 4)),
             half = zl_full(ZL_SHAPE(1, 2, 3), zl_scalar(0.5), ZL_FLOAT32);
    if (!zl_grad(loss, 1, &x, g) || !zl_fast_gated_delta_update(k, k, k, half, half, NULL, NULL, part) ||
        !zl_grad(zl_add(zl_sum(part[0]), zl_sum(part[1])), 1, &x, g + 1))
        return false;
    return sum_of(zl_add(zl_square(g[0]), g[1]), out);
}

static bool doubled(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    zl_shape shape = zl_shape_of(in[0]);
    zl_cpu_kernel_source k = {.name = "doubled",
                              .source =
                                  "int64_t i = thread_position_in_grid.x; y[i] = 2 * x[i] + x_shape[0];",
                              .inputs = 1,
                              .outputs = 1,
                              .input = (const char *const[]){"x"},
                              .output = (const char *const[]){"y"},
                              .shape = &shape,
                              .dtype = &(zl_dtype){ZL_FLOAT32},
                              .grid = {zl_size(in[0]), 1, 1}};
    zl_array y;
    return zl_cpu_kernel(&k, count, in, &y) && zl_give(out, y);
}

SCENARIO(source_kernels) {
    zl_array x = counting(3, 4);
    zl_outputs *each = zl_outputs_new();
    bool ok = each && zl_vmap((zl_fn){.call = doubled}, 1, &x, (int[]){0}, 1, NULL, each) &&
              sum_of(zl_outputs_get(each, 0), out);
    zl_outputs_free(each);
    if (zl_error_which() != ZL_ERROR_COMPILE)
        return ok;
    zl_clear_error(); // no compiler: nothing to try
    return sum_of(x, out);
}

SCENARIO(views) {
    zl_array x = counting(6, 8), back = zl_slice(x, ZL_SHAPE(5, 7), ZL_SHAPE(-9, -9), ZL_SHAPE(-2, -1));
    zl_array y = zl_add(zl_transpose(back, ZL_ALL), zl_broadcast_to(zl_scalar(2), ZL_SHAPE(8, 3)));
    return sum_of(zl_multiply(zl_reshape(zl_transpose(y, ZL_ALL), ZL_SHAPE(24)), zl_flatten(back, 0, -1)),
                  out);
}

// Only the last row is computed.
SCENARIO(narrowed_products) {
    zl_array x = zl_fast_rms_norm(zl_sin(counting(100, 16)), NULL, 1e-5),
             y = zl_matmul(x, zl_cos(counting(16, 64)));
    zl_array last = zl_slice(zl_reshape(y, ZL_SHAPE(1, 100, 64)), ZL_SHAPE(0, 99, 0), ZL_SHAPE(1, 100, 64),
                             ZL_SHAPE(1, 1, 1));
    int64_t before = zl_counter("narrowed");
    zl_array row = zl_squeeze(last, ZL_AXES(1));
    bool ok = zl_eval(row);
    CHECK(!ok || zl_counter("narrowed") > before);
    return ok && sum_of(row, out);
}

SCENARIO(quantized_products) {
    zl_array part[3], x = counting(2, 64);
    if (!zl_quantize(zl_sin(counting(4, 64)), 32, 3, NULL, NULL, part))
        return false;
    return sum_of(zl_quantized_matmul(x, part[0], part[1], part[2], true, 32, 3, NULL), out);
}

// Through memory and back.
static bool sum_of_file(const char *format, double *out) {
    zl_file *file = zl_file_new(), *back = NULL;
    size_t bytes = 0;
    void *data = NULL;
    zl_text text = {"text", 4};
    bool ok = file && zl_file_add(file, "a", counting(3, 4)) &&
              zl_file_add(file, "b", zl_ones(ZL_SHAPE(2), ZL_FLOAT16)) &&
              zl_file_add_metadata(file, &(zl_metadata){.name = "note", .text = &text, .texts = 1}) &&
              (data = zl_save_memory(format, file, &bytes)) && (back = zl_load_memory(format, data, bytes));
    ok = ok && sum_of(zl_add(zl_sum(zl_file_find(back, "a")), zl_sum(zl_file_find(back, "b"))), out);
    zl_free(data);
    zl_file_free(back);
    zl_file_free(file);
    return ok;
}

SCENARIO(npz_files) {
    return sum_of_file("npz", out);
}

SCENARIO(deflated_files) {
    if (sum_of_file("npz_compressed", out))
        return true;
    bool can_deflate = zl_error_which() != ZL_ERROR_LIBRARY; // there may be no zlib
    return !can_deflate && (zl_clear_error(), sum_of_file("npz", out));
}

SCENARIO(safetensors_files) {
    return sum_of_file("safetensors", out);
}

SCENARIO(gguf_files) {
    return sum_of_file("gguf", out);
}

SCENARIO(broadcasting) {
    zl_array column = counting(7, 1), row = counting(1, 9);
    return sum_of(zl_where(zl_less(column, row), zl_exp(zl_negative(column)), zl_sqrt(row)), out);
}

SCENARIO(reductions) {
    zl_array x = counting(5, 6),
             list[] = {
                 zl_sum_axis(x, 0, false),    zl_mean_axis(x, 0, false),      zl_max_axis(x, 0, false),
                 zl_var_axis(x, 0, false, 1), zl_logsumexp_axis(x, 0, false), zl_argmax_axis(x, 0, false),
                 zl_all_axis(x, 0, false),    zl_prod_axis(x, 0, false),
             };
    return sum_of(zl_stack(list, COUNT(list), 0), out);
}

SCENARIO(matmul) {
    zl_array a = zl_reshape(counting(6, 8), ZL_SHAPE(2, 3, 8)), b = counting(8, 5);
    zl_array y = zl_addmm(zl_ones(ZL_SHAPE(5), ZL_FLOAT32), a, b, 0.5, 2);
    zl_array half = zl_addmm(zl_ones(ZL_SHAPE(3, 5), ZL_FLOAT16), zl_astype(a, ZL_FLOAT16),
                             zl_astype(b, ZL_FLOAT16), 0.5, 2);
    return sum_of(zl_matmul(zl_add(y, half), zl_transpose(zl_astype(b, ZL_FLOAT64), ZL_ALL)), out);
}

SCENARIO(convolutions) {
    zl_array x = zl_reshape(counting(6, 8), ZL_SHAPE(1, 6, 4, 2)),
             w = zl_reshape(counting(6, 8), ZL_SHAPE(6, 2, 2, 2)), g;
    zl_array y = zl_conv2d(zl_swapaxes(x, 1, 2), w, ZL_SHAPE(1), ZL_SHAPE(1), ZL_SHAPE(1), 1);
    zl_array depth = zl_conv2d(y, zl_reshape(counting(3, 8), ZL_SHAPE(6, 2, 2, 1)), ZL_SHAPE(2), ZL_SHAPE(0),
                               ZL_SHAPE(1), 6);
    return zl_grad(zl_sum(depth), 1, &x, &g) && sum_of(g, out);
}

SCENARIO(fourier) {
    zl_array x = counting(6, 14), smooth = zl_fft_rfft(x, 12, -1, NULL),
             other = zl_fft_fft(x, 11, 0, "ortho");
    return sum_of(zl_add(zl_sum(zl_abs(other)), zl_sum(zl_fft_irfft(smooth, 13, -1, NULL))), out);
}

SCENARIO(fourier_of_frames) {
    zl_array x = counting(2, 14), y = zl_fft_stft(x, 6, 2, 5, NULL, true, "reflect", "ortho", 1);
    return sum_of(zl_fft_istft(y, 6, 2, 5, NULL, true, "ortho", 1, 13), out);
}

static bool export_and_call(const char *path, double *out) {
    zl_array x = counting(3, 4);
    zl_outputs *y = zl_outputs_new();
    bool ok = y && zl_export(path, (zl_fn){.call = products}, 1, &x, &(zl_export_options){.shapeless = true});
    zl_imported *f = ok ? zl_import(path) : NULL;
    ok = f && zl_imported_call(f, 1, &x, 0, NULL, y) && sum_of(zl_outputs_get(y, 0), out);
    zl_imported_free(f);
    zl_outputs_free(y);
    return ok;
}

SCENARIO(export) {
    char path[4096];
    snprintf(path, sizeof path, "%s/f", test_folder());
    return export_and_call(path, out);
}

static bool hear_arrays(void *data, int inputs, const zl_array *input, int outputs, const zl_array *output,
                        int constants, const zl_array *constant) {
    (void)inputs, (void)input, (void)output, (void)constant;
    *(double *)data += outputs + constants;
    return true;
}

static bool hear_step(void *data, const zl_step *step) {
    *(double *)data += step->inputs;
    return true;
}

SCENARIO(steps) {
    zl_array x = counting(3, 4);
    *out = 0;
    return zl_export_steps((zl_fn){.call = products}, 1, &x, true,
                           &(zl_listener){hear_arrays, hear_step, out});
}

SCENARIO(explain) {
    zl_array y = zl_exp(zl_negative(counting(120, 80)));
    char *words = zl_explain(y), *graph = words ? zl_to_dot(1, &y, NULL) : NULL;
    bool ok = graph && sum_of(y, out);
    zl_free(words);
    zl_free(graph);
    return ok;
}

SCENARIO(joins) {
    zl_array x = counting(4, 6), part[3];
    if (!zl_split(x, 3, 1, part))
        return false;
    zl_array joined = zl_concatenate((zl_array[]){part[2], zl_astype(part[0], ZL_FLOAT16), part[1]}, 3, 1);
    zl_array padded = zl_pad(joined, ZL_SHAPE(1, 0), ZL_SHAPE(0, 2), zl_scalar(3));
    zl_array taken = zl_take(padded, zl_from_i32((int32_t[]){4, 0, -1}, ZL_SHAPE(3)), 0);
    return sum_of(zl_roll(zl_tile(zl_repeat(taken, 2, 1), ZL_SHAPE(2, 1)), ZL_SHAPE(1, 2), ZL_AXES(0, 1)),
                  out);
}

SCENARIO(slices) {
    zl_array x = counting(4, 6), at = zl_from_i32((int32_t[]){3, 0, -1}, ZL_SHAPE(3));
    zl_array column = zl_from_i32((int32_t[]){5, 1}, ZL_SHAPE(2, 1));
    zl_array y = zl_gather(x, (zl_array[]){at, column}, 2, ZL_AXES(0, 1), ZL_SHAPE(1, 1));
    y = zl_scatter_add(x, (zl_array[]){at, column}, 2, y, ZL_AXES(0, 1));
    y = zl_put_along_axis(y, zl_reshape(at, ZL_SHAPE(1, 3)),
                          zl_take_along_axis(y, zl_reshape(at, ZL_SHAPE(1, 3)), 1), 1);
    y = zl_slice_update_add(y, zl_scalar(2), ZL_SHAPE(0, 5), ZL_SHAPE(3, -9), ZL_SHAPE(2, -3));
    zl_array start = zl_take(at, zl_scalar_int(1), 0);
    zl_array slice = zl_dynamic_slice(y, start, ZL_AXES(0), ZL_SHAPE(2, 6));
    return sum_of(zl_dynamic_slice_update(y, slice, start, ZL_AXES(1)), out);
}

SCENARIO(scans) {
    zl_array x = counting(4, 6), y = zl_cumsum(x, 0, false, true, ZL_FLOAT32), g = NULL;
    y = zl_logcumsumexp(zl_cummax(zl_astype(y, ZL_FLOAT16), 1, true, false), 1, false, true);
    zl_array mask = zl_greater(x, zl_scalar(9)), z = zl_masked_scatter(x, mask, zl_flatten(x, 0, -1));
    if (!zl_grad(zl_sum(zl_cumprod(x, 1, false, true, ZL_FLOAT32)), 1, &x, &g))
        return false;
    return sum_of(zl_add(zl_add(zl_where(zl_isfinite(y), y, zl_scalar(0)), z), g), out);
}

SCENARIO(orders) {
    zl_array x = zl_sin(counting(6, 40)), sorted = zl_sort(x, 0),
             at = zl_argsort(zl_astype(x, ZL_FLOAT64), 1);
    zl_array found = zl_searchsorted(zl_sort_flat(x), x, "right"), middle = zl_median_axis(x, 1, true);
    return sum_of(zl_add(zl_add(zl_multiply(sorted, at), found), zl_add(middle, zl_topk(x, 1, 0))), out);
}

SCENARIO(casts) {
    zl_array x = counting(3, 5);
    for (int d = 0; d < ZL_DTYPE_COUNT; d++)
        x = zl_astype(zl_add(zl_astype(x, (zl_dtype)d), zl_scalar_bool(true)), ZL_FLOAT32);
    return sum_of(x, out);
}

SCENARIO(two_outputs) {
    zl_array pair[2], both[2];
    if (!zl_divmod(counting(3, 4), zl_scalar(3), pair) || !zl_minmax(pair[1], both))
        return false;
    return sum_of(zl_add(zl_add(pair[0], pair[1]), zl_subtract(both[1], both[0])), out);
}

SCENARIO(einsum) {
    zl_array a = counting(3, 3), b = counting(3, 4);
    zl_array y = zl_einsum("ii,ij,kj,k->ij", (zl_array[]){a, b, b, zl_sum_axis(a, 0, false)}, 4);
    char *path = zl_einsum_path("ij,jk,kl", (zl_array[]){a, a, b}, 3);
    zl_free(path);
    return path && sum_of(zl_tensordot(y, zl_kron(b, a), 0), out);
}

SCENARIO(attention) {
    zl_array x = zl_fast_layer_norm(counting(4, 12), NULL, NULL, 1e-5);
    zl_array q = zl_fast_rope(zl_reshape(x, ZL_SHAPE(1, 4, 3, 4)), 2, true, 10, 1, zl_scalar_int(1), NULL);
    zl_array k = zl_reshape(x, ZL_SHAPE(1, 2, 6, 4)), sinks = zl_ones(ZL_SHAPE(4), ZL_FLOAT32);
    return sum_of(zl_fast_scaled_dot_product_attention(q, k, k, 0.5, NULL, sinks, "causal"), out);
}

SCENARIO(random_numbers) { // from a state of words, then from one that is an array
    zl_random_seed(8);
    zl_array x = zl_random_normal(ZL_SHAPE(3, 2), ZL_FLOAT32, zl_scalar(1), NULL, NULL);
    zl_array lazy = zl_add(zl_random_key(8), zl_zeros(ZL_SHAPE(2), ZL_UINT32));
    bool ok = zl_random_state_set(lazy);
    zl_array y = zl_random_categorical(zl_transpose(x, ZL_ALL), 0, ZL_NO_SHAPE, 4, NULL);
    ok = ok && sum_of(zl_add(zl_sum(x), zl_sum(y)), out);
    zl_random_seed(8);
    return ok;
}

SCENARIO(many_axes) { // more than the room on the stack
    int64_t dim[40], twos = 0;
    int axes[40];
    for (int i = 0; i < 40; i++) {
        dim[i] = i % 13 == 0 ? twos++, 2 : 1;
        axes[i] = 39 - i;
    }
    zl_array x = zl_reshape(zl_arange(0, (double)(1 << twos), 1, ZL_INT32), (zl_shape){dim, 40});
    zl_array y = zl_add(zl_transpose(x, (zl_axes){axes, 40}), x);
    return sum_of(zl_sum_axes(zl_flip(y, ZL_ALL), ZL_AXES(0, 13, -1), true), out);
}

SCENARIO(large_arrays) { // memory in pages, several threads
    zl_array x = zl_arange(0, 1 << 20, 1, ZL_FLOAT32);
    return sum_of(zl_multiply(zl_contiguous(zl_transpose(zl_reshape(x, ZL_SHAPE(1024, 1024)), ZL_ALL), false),
                              zl_reshape(zl_negative(x), ZL_SHAPE(1024, 1024))),
                  out);
}

SCENARIO(row_programs) { // several results, of which one is retained
    zl_array x = zl_arange(0, 20000, 1, ZL_FLOAT32), y = zl_multiply(zl_sin(x), zl_scalar(2));
    zl_array kept = zl_retain(zl_add(y, zl_astype(x, ZL_FLOAT64))),
             z = zl_where(zl_less(y, x), zl_square(kept), y);
    bool ok = sum_of(zl_floor(zl_add(z, kept)), out);
    zl_release(kept);
    return ok;
}

SCENARIO(epilogues) { // of the results of a group with a product, the first may be there and the second not
    zl_array ones = zl_ones(ZL_SHAPE(256, 256), ZL_FLOAT32), bias = zl_arange(0, 256, 1, ZL_FLOAT32);
    if (!zl_eval(ones) || !zl_eval(bias))
        return false;
    zl_array kept = zl_retain(zl_add(zl_matmul(ones, ones), bias));
    zl_clear_cache(); // results need memory that no earlier run left
    bool ok = zl_eval(zl_square(kept));
    const float *number = ok || zl_is_available(kept) ? zl_data_f32(kept) : NULL;
    *out = 0;
    for (int i = 0; number && i < 256 * 256; i++)
        *out += number[i];
    ok |= number && *out != 256 * (256 * 256 + 255 * 128); // what is wrong is to be found
    zl_release(kept);
    return ok;
}

static int lent_before; // arrays in the scope when the gradient is taken: its list grows at different places

SCENARIO(gradient) {
    for (int i = 0; i < lent_before; i++)
        if (!zl_scalar(i))
            return false;
    zl_array x = counting(4, 3), w = zl_ones(ZL_SHAPE(3, 2), ZL_FLOAT32),
             b = zl_zeros(ZL_SHAPE(2), ZL_FLOAT32), g[2];
    zl_array y = zl_tanh(zl_add(zl_matmul(x, w), b)),
             loss = zl_mean(zl_square(zl_subtract(y, zl_scalar(0.5))));
    if (!zl_grad(loss, 2, (zl_array[]){w, b}, g))
        return false;
    return sum_of(zl_add(g[0], g[1]), out);
}

TEST(fault_gradient_of_scopes_of_any_height) {
    int step = test_quick() ? 5 : 1;
    for (lent_before = 1; lent_before < 70; lent_before += step)
        fail_each(run_gradient, true, 2000);
    lent_before = 0;
}

// Transforms inside each other: each runs a function that uses the next.
static bool row_of_matrix(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array pair[2];
    (void)data;
    return count == 2 && zl_divmod(zl_exp(in[0]), in[1], pair) &&
           zl_give(out, zl_add(pair[1], zl_sin(in[0])));
}

static bool rows_of_matrix(void *data, int count, const zl_array *in, zl_outputs *out) {
    return zl_vmap((zl_fn){.call = row_of_matrix, .data = data}, count, in, (int[]){0, -1}, 1, (int[]){0},
                   out);
}

static bool own_cotangents(void *data, int count, const zl_array *in, int results, const zl_array *result,
                           const zl_array *cotangent, zl_outputs *out) {
    (void)data, (void)count, (void)results;
    return zl_give(out, zl_multiply(cotangent[0], result[0])) &&
           zl_give(out, zl_zeros_like(in[1], ZL_DTYPE_COUNT));
}

static bool custom_in_checkpoint(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_custom_fn f = {.f = {.call = rows_of_matrix, .data = data}, .vjp = own_cotangents};
    zl_array turned[] = {zl_transpose(in[0], ZL_ALL), in[1]};
    return turned[0] && zl_custom(&f, count, turned, out);
}

static bool loss_of_all(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_outputs *inner = zl_outputs_new(), *tangents = zl_outputs_new();
    zl_fn f = {.call = custom_in_checkpoint, .data = data}, g = {.call = row_of_matrix, .data = data};
    bool ok = inner && tangents && zl_checkpoint(f, count, in, inner) &&
              zl_jvp(g, count, in, (zl_array[]){in[0], NULL}, NULL, tangents);
    zl_array a = ok ? zl_outputs_get(inner, 0) : NULL, b = ok ? zl_outputs_get(tangents, 0) : NULL;
    ok = ok && zl_eval(b) && zl_give(out, zl_add(zl_sum(a), zl_sum(b)));
    zl_outputs_free(inner);
    zl_outputs_free(tangents);
    return ok;
}

SCENARIO(transforms) {
    zl_array in[] = {zl_multiply(counting(4, 3), zl_scalar(0.1)), zl_scalar(2)}, g[2];
    if (!zl_value_and_grad((zl_fn){.call = loss_of_all}, 2, in, 2, (int[]){0, 1}, NULL, g))
        return false;
    return sum_of(zl_add(g[0], g[1]), out);
}

static bool loss_of_checkpoint(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_outputs *inner = zl_outputs_new();
    bool ok = inner && zl_checkpoint((zl_fn){.call = custom_in_checkpoint, .data = data}, count, in, inner) &&
              zl_give(out, zl_sum(zl_outputs_get(inner, 0)));
    zl_outputs_free(inner);
    return ok;
}

static bool gradient_of_checkpoint(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array g[2];
    return zl_value_and_grad((zl_fn){.call = loss_of_checkpoint, .data = data}, count, in, 2, (int[]){0, 1},
                             NULL, g) &&
           zl_give(out, zl_add(g[0], g[1]));
}

SCENARIO(compiled) {
    zl_compiled c = zl_compile((zl_fn){.call = gradient_of_checkpoint}, false);
    zl_array in[] = {zl_multiply(counting(4, 3), zl_scalar(0.1)), zl_astype(zl_scalar(2), ZL_FLOAT32)};
    bool ok = c && zl_eval_all(2, in);
    for (int i = 0; ok && i < 2; i++) { // recorded, then repeated
        zl_outputs *y = zl_outputs_new();
        ok = y && zl_compiled_call(c, "key", 3, 2, in, y) && sum_of(zl_outputs_get(y, 0), out);
        zl_outputs_free(y);
    }
    zl_compiled_release(c);
    return ok;
}

static bool triangle_slope(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array y = zl_tile(zl_tril(in[0], 0), ZL_SHAPE(2, 1));
    return zl_give(out, zl_sum(zl_multiply(y, y)));
}

static bool slope_again(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array g;
    return zl_value_and_grad((zl_fn){.call = triangle_slope, .data = data}, count, in, 1, (int[]){0}, NULL,
                             &g) &&
           zl_give(out, g);
}

SCENARIO(shapeless) {
    zl_compiled c = zl_compile((zl_fn){.call = slope_again}, true);
    bool ok = c;
    for (int i = 0; ok && i < 2; i++) {
        zl_array x = counting(2 + i, 3 + i);
        zl_outputs *y = zl_outputs_new();
        ok = y && x && zl_compiled_call(c, NULL, 0, 1, &x, y) && sum_of(zl_outputs_get(y, 0), out);
        zl_outputs_free(y);
    }
    zl_compiled_release(c);
    return ok;
}

SCENARIO_OF(long_chain, 50) { // a plan in two pieces
    zl_array x = zl_from_f32((float[]){0, 1}, ZL_SHAPE(2));
    for (int i = 0; i < PLAN_LARGEST + 100; i++)
        x = zl_add(x, zl_scalar(1));
    return sum_of(x, out);
}

// Reading, owning, foreign memory ---------------------------------------------------------------------------

SCENARIO(printing) {
    char *text = zl_print(zl_add(counting(3, 4), zl_scalar(0.5)));
    *out = text ? (double)strlen(text) : 0;
    zl_free(text);
    return text != NULL;
}

SCENARIO(copying_out) {
    float data[12];
    zl_array view = zl_transpose(counting(3, 4), ZL_ALL);
    if (!zl_copy_to(view, data, sizeof data))
        return false;
    *out = data[1] + data[11];
    return true;
}

SCENARIO(assigning) {
    zl_array w = zl_retain(zl_zeros(ZL_SHAPE(3), ZL_FLOAT32));
    bool ok = w != NULL;
    for (int i = 0; ok && i < 3; i++)
        ok = zl_assign(&w, zl_add(w, zl_scalar(i)));
    ok = ok && sum_of(w, out);
    zl_release(w);
    return ok;
}

static void count_release(void *context) {
    (*(int *)context)++;
}

SCENARIO(foreign_memory) {
    static const struct record {
        float position[3];
        double mass;
    } records[2] = {{{1, 2, 3}, 4}, {{5, 6, 7}, 8}};
    int released = 0;
    bool ok = false;
    zl_scope scope = zl_scope_begin();
    zl_foreign_options options = {.release = count_release, .context = &released};
    zl_array r = zl_from_records(records, ZL_SHAPE(2), sizeof records[0], &options);
    zl_array mass = zl_field(r, offsetof(struct record, mass), ZL_FLOAT64, ZL_SCALAR);
    ok = sum_of(zl_multiply(zl_expand_dims(mass, ZL_AXES(1)), zl_field(r, 0, ZL_FLOAT32, ZL_SHAPE(3))), out);
    zl_scope_end(scope);
    CHECK_EQ_INT(released, 1); // also when there was no memory for the array
    return ok;
}

// Streams and threads ---------------------------------------------------------------------------------------

SCENARIO(async_eval) {
    zl_array x = counting(30, 40), y = zl_exp(zl_negative(x)), z = zl_sum_axis(y, 0, false);
    bool ok = zl_async_eval_all(2, (zl_array[]){y, z});
    ok = ok && sum_of(zl_add(z, zl_max(y)), out);
    return zl_synchronize() && ok;
}

SCENARIO(two_streams) {
    static _Thread_local zl_stream stream[2]; // once: streams live until their thread ends
    for (int i = 0; i < 2; i++)
        if (!stream[i] && !(stream[i] = zl_new_stream("cpu")))
            return false;
    zl_array x = counting(3, 3);
    for (int i = 0; i < 6; i++) {
        zl_scope scope = zl_scope_begin_on(stream[i % 2]);
        x = zl_scope_leave(scope, zl_add(zl_square(x), zl_scalar(-1)));
    }
    bool ok = zl_async_eval(x);
    ok = ok && sum_of(x, out);
    return zl_stream_synchronize(stream[0]) && zl_stream_synchronize(stream[1]) && ok;
}

SCENARIO(default_stream) {
    static _Thread_local zl_stream mine;
    zl_stream old = zl_default_stream();
    if (!old || (!mine && !(mine = zl_new_stream("cpu"))) || !zl_set_default_stream(mine))
        return false;
    zl_array x = zl_sqrt(counting(5, 5)), y = zl_sum(x), z = zl_add(x, y);
    bool ok = zl_async_eval(y) && sum_of(z, out);
    return zl_synchronize() && zl_set_default_stream(old) && zl_synchronize() && ok;
}

// Kernels ---------------------------------------------------------------------------------------------------

static const char kernel_text[] = "kernel axpy(a: f32[n], b: f32[n]) -> (y: f32[n]) {\n"
                                  "  map i in n {\n"
                                  "    y[i] = exp(a[i])*2 + b[i]\n"
                                  "  }\n"
                                  "}\n";

// Adds the length of a text, and frees it; false if there is none.
static bool add_length(char *text, double *out) {
    *out += text ? (double)strlen(text) : 0;
    zl_free(text);
    return text != NULL;
}

SCENARIO(kernel_stages) {
    zl_kernel kernel = zl_kernel_parse(kernel_text, "axpy.tile");
    bool ok = kernel != NULL;
    *out = 0;
    for (int i = 0; ok && zl_kernel_stage(i); i++)
        ok = add_length(zl_kernel_print(kernel, zl_kernel_stage(i)), out);
    zl_kernel_release(kernel);
    return ok;
}

SCENARIO(kernels_of_ops) {
    *out = 0;
    return add_length(zl_kernel_of_op("tanh", ZL_FLOAT16, "c"), out) &&
           add_length(zl_kernel_of_op("cast_i8", ZL_FLOAT32, "lower"), out) &&
           add_length(zl_kernel_of_op("reduce_add", ZL_COMPLEX64, "c"), out);
}

// Row programs ----------------------------------------------------------------------------------------------

SCENARIO(fused_lines) {
    zl_array x = counting(128, 80), y = zl_softmax(zl_multiply(zl_tanh(x), zl_scalar(3)), -1, false);
    return sum_of(zl_add(y, zl_max_axis(y, 1, true)), out);
}

// The first use in a process --------------------------------------------------------------------------------

enum { CHILD_RIGHT = 3, CHILD_FAILED = 4, CHILD_WRONG = 5 };

static const char child_variable[] = "ZL_TEST_FAULT_AT";

static bool first_use(double *out) {
    zl_array x = counting(3, 4), y = zl_matmul(x, zl_transpose(x, ZL_ALL));
    return zl_async_eval(y) && sum_of(zl_exp(zl_negative(y)), out) && zl_synchronize();
}

// In a process that was started with the variable set: evaluates, with that allocation failing, and ends.
__attribute__((constructor)) static void run_child(void) {
    const char *at = getenv(child_variable);
    if (!at)
        return;
    struct attempt a = attempt(first_use, atol(at), false), again = attempt(first_use, 0, false);
    bool right = again.ok && (a.ok ? a.value == again.value : a.kind == ZL_ERROR_MEMORY);
    exit(!right ? CHILD_WRONG : a.made < a.at ? CHILD_RIGHT : CHILD_FAILED);
}

// The exit status of such a process; -1 if it could not be started, 128 and more if it crashed. Looking for
// leaks at the end can take a sanitizer seconds: only some do.
static int status_of_child(long at) {
    char variable[64], *environment[64] = {variable}, *arguments[] = {(char *)"test", NULL};
    extern char **environ;
    int count = 1, status;
    pid_t child;
    if (at % 16 != 5)
        environment[count++] = (char *)"ASAN_OPTIONS=detect_leaks=0";
    for (char **e = environ; *e && count < 63; e++)
        environment[count++] = *e;
    snprintf(variable, sizeof variable, "%s=%ld", child_variable, at);
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environment) ||
        waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(fault_first_use_in_a_process) {
    int status = CHILD_FAILED;
    for (long at = 1; status == CHILD_FAILED; at += test_quick() ? 4 : 1) {
        status = status_of_child(at);
        if (at == 1 && (status == -1 || status == 127))
            SKIP("this program cannot start itself (in an emulator)");
        if (!CHECK(status == CHILD_FAILED || status == CHILD_RIGHT))
            test_note("the process in which allocation %ld fails ends with status %d", at, status);
    }
}
