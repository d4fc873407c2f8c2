// test_group.c - groups of processes: a group of one, errors, and rings whose ranks are children of the test.

#include <string.h>

#include "device/ranks.h"
#include "group/group.h"
#include "test.h"

enum { RANKS = 3 };

TEST(one_process_gives_back_what_it_has) {
    ranks_forget_launchers();
    zl_group g = zl_group_init(false, "any");
    REQUIRE(g);
    CHECK_EQ_INT(zl_group_rank(g), 0);
    CHECK_EQ_INT(zl_group_size(g), 1);
    CHECK_STR(zl_group_engine(g), "none");
    ZL_SCOPE {
        zl_array x = zl_from_f32((float[]){1, 2}, ZL_SHAPE(2));
        CHECK(zl_all_sum(x, g) == x && zl_all_gather(x, g) == x && zl_sum_scatter(x, g) == x &&
              zl_broadcast(x, 0, g) == x);
        CHECK_ERROR(ZL_ERROR_VALUE, zl_send(x, 0, g));
        CHECK_ERROR(ZL_ERROR_VALUE, zl_recv(ZL_SHAPE(2), ZL_FLOAT32, 0, g));
        CHECK_ERROR(ZL_ERROR_VALUE, zl_broadcast(x, 1, g));
    }
    CHECK(zl_group_barrier(g));
    CHECK_ERROR(ZL_ERROR_STATE, zl_group_split(g, 0, 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_group_split(g, -1, 0));
    zl_group_release(g);
}

TEST(engines_that_nothing_prepared_are_refused) {
    ranks_forget_launchers();
    CHECK_ERROR(ZL_ERROR_STATE, zl_group_init(true, "any"));
    CHECK_ERROR(ZL_ERROR_STATE, zl_group_init(true, "ring"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_group_init(true, "smoke"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_group_available("smoke"));
    CHECK(zl_group_available("ring") && zl_group_available("any"));
}

TEST(addresses_are_read_or_refused) {
    struct wire_host h = {0};
    CHECK(wire_add_address(&h, "10.0.0.1:5000") && wire_add_address(&h, "[::1]:7"));
    REQUIRE(h.addresses == 2);
    CHECK_STR(h.address[0].host, "10.0.0.1");
    CHECK_STR(h.address[1].host, "::1");
    CHECK_STR(h.address[1].port, "7");
    static const char *const wrong[] = {"", "host", "host:", ":5", "host:x", "host:123456789"};
    for (size_t i = 0; i < COUNT(wrong); i++)
        CHECK_ERROR(ZL_ERROR_VALUE, wire_add_address(&h, wrong[i]));
    memory_free(h.address);
}

// Returns the number of wrong results on a rank.
static int sum_and_gather(zl_group g) {
    int rank = zl_group_rank(g), wrong = zl_group_size(g) != RANKS;
    ZL_SCOPE {
        zl_array x = zl_full(ZL_SHAPE(5000), zl_scalar(rank + 1), ZL_FLOAT32);
        zl_array sum = zl_all_sum(x, g), all = zl_all_gather(zl_scalar(rank), g),
                 most = zl_all_max(zl_multiply(x, x), g);
        // in another order than they were recorded
        zl_array in[] = {most, zl_add(sum, zl_scalar(0)), all, sum};
        wrong += !zl_eval_all(4, in);
        for (int i = 0; !wrong && i < 5000; i += 499)
            wrong += zl_data_f32(sum)[i] != 6 || zl_data_f32(most)[i] != 9;
        for (int i = 0; !wrong && i < RANKS; i++)
            wrong += zl_data_f32(all)[i] != (float)i;
    }
    return wrong;
}

static int call_differently(zl_group g) {
    int wrong = 0;
    ZL_SCOPE {
        zl_array x = zl_ones(ZL_SHAPE(3 + (zl_group_rank(g) == 1)), ZL_FLOAT32);
        wrong += zl_eval(zl_all_sum(x, g)) || !strstr(zl_error(), "ranks do not call the same");
        zl_clear_error();
        wrong += zl_eval(zl_all_sum(zl_scalar(1), g)) || !strstr(zl_error(), "all_sum number 2");
    }
    return wrong;
}

static int leave(zl_group g) {
    int wrong = 0;
    if (zl_group_rank(g) == 1)
        return 0;
    ZL_SCOPE {
        wrong += zl_eval(zl_all_sum(zl_scalar(1), g)) || !strstr(zl_error(), "rank 1 has ended");
    }
    return wrong;
}

TEST(ranks_compute_together) {
    if (ranks_lack())
        SKIP(ranks_lack());
    CHECK(ranks_run("ring", NULL, RANKS, sum_and_gather));
}

TEST(ranks_that_call_different_things_are_told) {
    if (ranks_lack())
        SKIP(ranks_lack());
    CHECK(ranks_run("ring", NULL, RANKS, call_differently));
}

TEST(a_rank_that_has_gone_is_named) {
    if (ranks_lack())
        SKIP(ranks_lack());
    CHECK(ranks_run("ring", NULL, RANKS, leave));
}
