// test_loop.c - loops: turns have the results of calling the function repeatedly, use the same memory, and
// record nothing.

#include "test.h"

#include <limits.h>
#include <string.h>

#include "base/base.h"
#include "zellige_loop.h"
#include "zellige_ops.h"

enum { SIZE = 300, TURNS = 9, WARM = 12 };

// The next state is x / 2 + sin(table) * n, n + 1, and row n of a page; the results are the largest of x, n +
// 1 again, and the page's row n.
struct work {
    zl_array table; // whose sine does not depend on the state
    int calls;
};

static bool work(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct work *w = data;
    zl_array x = in[0], n = in[1], page = in[2];
    w->calls++;
    CHECK(count == 3);
    zl_array next =
        zl_add(zl_multiply(x, zl_scalar(0.5)), zl_multiply(zl_sin(w->table), zl_astype(n, ZL_FLOAT32)));
    zl_array after = zl_add(n, zl_scalar_int(1)),
             row = zl_reshape(zl_slice(next, ZL_SHAPE(0), ZL_SHAPE(4), ZL_SHAPE(1)), ZL_SHAPE(1, 4));
    zl_array written = zl_dynamic_slice_update(page, row, n, ZL_AXES(0));
    return zl_give(out, next) && zl_give(out, after) && zl_give(out, written) && zl_give(out, zl_max(next)) &&
           zl_give(out, after) && zl_give(out, zl_sum_axes(written, ZL_AXES(0), false));
}

static void make_state(zl_array *state) {
    ZL_SCOPE {
        state[0] = zl_retain(zl_cos(zl_arange(0, SIZE, 1, ZL_FLOAT32)));
        state[1] = zl_retain(zl_from_i32((int32_t[]){0}, ZL_SHAPE(1)));
        state[2] = zl_retain(zl_zeros(ZL_SHAPE(TURNS, 4), ZL_FLOAT32));
        CHECK(zl_eval_all(3, state));
    }
}

static zl_array make_table(void) {
    zl_array table = NULL;
    ZL_SCOPE {
        table = zl_retain(zl_multiply(zl_arange(0, SIZE, 1, ZL_FLOAT32), zl_scalar(0.3)));
    }
    return table;
}

// Computes the expected results: *most of each turn, and the final state.
static void call_again_and_again(struct work *w, zl_array *state, float *most) {
    for (int t = 0; t < TURNS; t++)
        ZL_SCOPE {
            zl_outputs *out = zl_outputs_new();
            CHECK(work(w, 3, state, out));
            most[t] = (float)zl_item(zl_outputs_get(out, 3));
            for (int i = 0; i < 3; i++) {
                zl_array next = zl_retain(zl_outputs_get(out, i));
                CHECK(zl_eval(next));
                zl_release(state[i]);
                state[i] = next;
            }
            zl_outputs_free(out);
        }
}

static bool same(zl_array a, zl_array b) {
    return zl_nbytes(a) == zl_nbytes(b) && !memcmp(zl_data(a), zl_data(b), zl_nbytes(a));
}

static void release(int count, zl_array *list) {
    for (int i = 0; i < count; i++)
        zl_release(list[i]);
}

TEST(loops_give_what_calls_give) {
    struct work plain = {make_table(), 0}, looped = {zl_retain(plain.table), 0};
    zl_array state[3], expected[3], end[3];
    float most[TURNS];
    make_state(state);
    make_state(expected);
    call_again_and_again(&plain, expected, most);
    zl_loop l = zl_loop_new((zl_fn){.call = work, .data = &looped}, 3, state);
    REQUIRE(l);
    for (int t = 0; t < TURNS; t++) {
        CHECK(zl_loop_start(l));
        if (t) // one turn late, while the next one runs
            CHECK_EQ_INT(zl_item_int(zl_loop_result(l, 1, 1)), t),
                CHECK_NEAR(zl_item(zl_loop_result(l, 0, 1)), most[t - 1], 0);
        if (t % 3 == 0)
            CHECK_EQ_INT(zl_item_int(zl_loop_result(l, 1, 0)), t + 1),
                CHECK_NEAR(zl_item(zl_loop_result(l, 0, 0)), most[t], 0);
    }
    CHECK(looped.calls == 1);
    REQUIRE(zl_loop_end(l, end));
    for (int i = 0; i < 3; i++)
        CHECK(same(end[i], expected[i]));
    release(3, end);
    release(3, expected);
    zl_release(plain.table);
    zl_release(looped.table);
}

TEST(turns_of_a_loop_plan_and_allocate_nothing) {
    struct work w = {make_table(), 0};
    zl_array state[3];
    make_state(state);
    zl_loop l = zl_loop_new((zl_fn){.call = work, .data = &w}, 3, state);
    REQUIRE(l);
    for (int t = 0; t < WARM; t++) // until a GPU has made its graphs
        CHECK(zl_loop_start(l) && zl_loop_result(l, 0, 0));
    int64_t plans = zl_counter("plans"), kernels = zl_counter("kernels");
    memory_fail_at(LONG_MAX); // counts allocations from here on
    zl_reset_peak_memory();
    size_t used = zl_get_active_memory();
    for (int t = 0; t < TURNS; t++) {
        CHECK(zl_loop_start(l));
        CHECK(zl_loop_result(l, 0, 0));
    }
    CHECK(memory_allocations() == 0);
    memory_fail_at(0);
    CHECK(zl_get_active_memory() == used && zl_get_peak_memory() == used);
    CHECK(zl_counter("plans") == plans);
    // The sine was computed once: a turn has fewer calls than the function recorded.
    CHECK(zl_counter("kernels") - kernels > 0 && (zl_counter("kernels") - kernels) % TURNS == 0);
    CHECK(w.calls == 1);
    CHECK(zl_loop_end(l, NULL));
    zl_release(w.table);
}

TEST(state_of_a_loop_is_changed_in_place_unless_others_hold_it) {
    struct work w = {make_table(), 0};
    zl_array state[3], end[3], held, before;
    make_state(state);
    const void *page = zl_data(state[2]);
    held = zl_retain(state[0]);
    make_state(end);
    before = end[0];
    release(2, end + 1);
    zl_loop l = zl_loop_new((zl_fn){.call = work, .data = &w}, 3, state);
    REQUIRE(l && zl_loop_start(l) && zl_loop_start(l) && zl_loop_end(l, end));
    int unit;
    if (!strcmp(zl_stream_device(zl_default_stream(), &unit), "cpu"))
        CHECK(zl_data(end[2]) == page);
    CHECK(same(held, before) && !same(held, end[0]));
    zl_release(held);
    zl_release(before);
    release(3, end);
    zl_release(w.table);
}

static bool give_state(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    for (int i = 0; i < count; i++)
        if (!zl_give(out, in[count - 1 - i]))
            return false;
    return zl_give(out, in[0]) && zl_give(out, zl_reshape(in[0], ZL_SHAPE(2, 1)));
}

// Views, arrays that are given twice, and states that exchange places.
TEST(loops_copy_what_has_no_memory_of_its_own) {
    zl_array state[2];
    ZL_SCOPE {
        state[0] = zl_retain(zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)));
        state[1] = zl_retain(zl_from_f32((float[]){3, 4}, ZL_SHAPE(2)));
    }
    zl_loop l = zl_loop_new((zl_fn){.call = give_state}, 2, state);
    REQUIRE(l);
    for (int t = 0; t < 5; t++) {
        CHECK(zl_loop_start(l));
        const float *first = zl_data_f32(zl_loop_result(l, 0, 0)),
                    *view = zl_data_f32(zl_loop_result(l, 1, 0));
        CHECK(first[0] == (t % 2 ? 3 : 1) && view[1] == (t % 2 ? 4 : 2));
    }
    REQUIRE(zl_loop_end(l, state));
    CHECK(zl_data_f32(state[0])[0] == 3 && zl_data_f32(state[1])[1] == 2);
    release(2, state);
}

static bool add_table(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct work *w = data;
    w->calls++;
    (void)count;
    return zl_give(out, zl_add(in[0], zl_scalar(1))) && zl_give(out, zl_multiply(w->table, zl_scalar(2)));
}

// Such a result cannot be overwritten in each turn: every turn calls the function.
TEST(loops_whose_results_do_not_follow_from_the_state) {
    struct work w = {make_table(), 0};
    zl_array state[1];
    ZL_SCOPE {
        state[0] = zl_retain(zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)));
    }
    zl_loop l = zl_loop_new((zl_fn){.call = add_table, .data = &w}, 1, state);
    REQUIRE(l && zl_loop_start(l) && zl_loop_start(l));
    CHECK(zl_data_f32(zl_loop_result(l, 0, 1))[10] == 2 * zl_data_f32(w.table)[10]);
    CHECK(w.calls == 3);
    REQUIRE(zl_loop_end(l, state));
    CHECK(zl_data_f32(state[0])[1] == 4);
    zl_release(state[0]);
    zl_release(w.table);
}

static bool read_state(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_eval(*(bool *)data ? zl_add(in[0], zl_scalar(1)) : in[0]) && zl_give(out, in[0]);
}

static bool change_shape(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_sum(in[0]));
}

static bool give_up(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count, (void)in, (void)out;
    return false;
}

static bool give_nothing(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count, (void)in, (void)out;
    return true;
}

TEST(mistakes_with_loops_are_named) {
    bool made_of_it = false;
    zl_array state = zl_retain(zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)));
    CHECK_ERROR(ZL_ERROR_STATE, zl_loop_new((zl_fn){.call = read_state, .data = &made_of_it}, 1, &state));
    made_of_it = true;
    CHECK_ERROR(ZL_ERROR_STATE, zl_loop_new((zl_fn){.call = read_state, .data = &made_of_it}, 1, &state));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_loop_new((zl_fn){.call = change_shape}, 1, &state));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_new((zl_fn){.call = give_up}, 1, &state));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_new((zl_fn){.call = give_nothing}, 1, &state));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_new((zl_fn){0}, 1, &state));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_new((zl_fn){.call = give_state}, 0, &state));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_new((zl_fn){.call = give_state}, 1, (zl_array[]){NULL}));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_new((zl_fn){.call = give_state}, 1, (zl_array[]){zl_scalar(1)}));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_start(NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_end(NULL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_result(NULL, 0, 0));
    CHECK(zl_data_f32(state)[1] == 2); // still the caller's
    zl_loop l = zl_loop_new((zl_fn){.call = give_state}, 1, &state);
    REQUIRE(l);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_result(l, 0, 0)); // no turn was started
    REQUIRE(zl_loop_start(l));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_result(l, 2, 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_loop_result(l, 0, 1));
    CHECK(zl_loop_end(l, NULL));
}
