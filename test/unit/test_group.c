// test_group.c - groups of processes: a group of one, errors, and rings whose ranks are children of the test.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(each_address_of_a_name_is_tried) {
    int listener = wire_listen(&(struct wire_address){"127.0.0.1", "0"});
    REQUIRE(listener >= 0);
    struct wire_address at = {.host = "localhost"}; // on many machines that is ::1 first
    snprintf(at.port, sizeof at.port, "%d", wire_port(listener));
    int s = wire_connect(&at, clock_ns() + 2000000000);
    CHECK(s >= 0);
    if (s >= 0)
        close(s);
    close(listener);
}

TEST(srun_numbers_of_jobs_may_be_large) {
    struct group_invitation i;
    ranks_forget_launchers();
    setenv("SLURM_STEP_NODELIST", "node[3-5]", 1);
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("SLURM_JOB_ID", "2147483647", 1);
    CHECK(group_is_invited(&i) && i.rank == 1 && i.size == 2 && i.port >= 20000 && i.port < 30000);
    CHECK_STR(i.host, "node3");
    unsetenv("SLURM_STEP_NODELIST");
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_JOB_ID");
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

// The child of a fork of a rank must not use the connections of its parent.
static int fork_and_split(zl_group g) {
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(zl_group_split(g, 0, 0) || !strstr(zl_error() ? zl_error() : "", "child of a fork"));
    waitpid(child, &status, 0);
    return status != 0;
}

// What is equal on several ranks gets the cotangent in equal shares; NaN gets none.
static bool largest(void *g, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, zl_sum(zl_all_max(in[0], g)));
}

static int share_cotangents(zl_group g) {
    int rank = zl_group_rank(g), wrong = 0;
    ZL_SCOPE {
        zl_array grad, x = zl_from_f32((float[]){1, (float)(rank > 0), (float)rank}, ZL_SHAPE(3));
        zl_outputs *value = zl_outputs_new();
        wrong +=
            !zl_value_and_grad((zl_fn){.call = largest, .data = g}, 1, &x, 1, (int[]){0}, value, &grad) ||
            !zl_eval(grad);
        const float *d = wrong ? NULL : zl_data_f32(grad);
        wrong += !d || fabsf(d[0] - 1.0f / RANKS) > 1e-6f || d[1] != (rank > 0 ? 0.5f : 0.0f) ||
                 d[2] != (float)(rank == RANKS - 1);
        zl_outputs_free(value);
    }
    return wrong;
}

TEST(a_maximum_of_several_ranks_shares_its_cotangent) {
    if (ranks_lack())
        SKIP(ranks_lack());
    CHECK(ranks_run("ring", NULL, RANKS, share_cotangents));
}

TEST(the_child_of_a_fork_is_refused) {
    if (ranks_lack())
        SKIP(ranks_lack());
    CHECK(ranks_run("ring", NULL, 2, fork_and_split));
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
