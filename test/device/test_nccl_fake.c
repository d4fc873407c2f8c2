// test_nccl_fake.c - the engine of NCCL with ranks in processes, on the driver and the library of test/fake:
// every collective, groups that are split, and errors instead of hangs. No kernel runs, so nothing is
// compiled.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/ranks.h"
#include "group/group.h"

enum { RANKS = 3 };

static const char *lacks_fake(void) {
    static const char *const driver[] = {"libcuda.so.1", NULL}, *const names[] = {"libnccl.so.2", NULL};
    void *show, *library = library_open(driver);
    bool is_fake = library && library_bind(library, &(struct library_symbol){"fake_show", &show}, 1, NULL);
    library = is_fake ? library_open(names) : NULL;
    if (!library || !library_bind(library, &(struct library_symbol){"ncclGetVersion", &show}, 1, NULL))
        return "its driver is that of test/fake: device/test_cuda:collectives runs it so";
    return ranks_lack();
}

static bool together(int (*what)(zl_group g)) {
    test_setenv("FAKE_NCCL", test_folder());
    bool ok = ranks_run("nccl", "cuda", RANKS, what);
    test_setenv("FAKE_NCCL", NULL);
    return ok;
}

// Sets a variable on one rank only.
static void tell(zl_group g, int rank, const char *variable, const char *text) {
    if (zl_group_rank(g) == rank)
        setenv(variable, text, 1);
}

static bool was_aborted(int rank) {
    char path[512];
    snprintf(path, sizeof path, "%s/aborted.%d", test_folder(), rank);
    return access(path, F_OK) == 0;
}

static bool holds(zl_array x, int64_t count, const float *want) {
    const float *got = x ? zl_data_f32(zl_astype(x, ZL_FLOAT32)) : NULL;
    bool same = got && x->size == count;
    for (int64_t i = 0; same && i < count; i++)
        same = got[i] == want[i];
    return same;
}

// Returns r + 1, 10 (r + 1), 100 (r + 1) on rank r.
static zl_array own(zl_group g) {
    float r = (float)zl_group_rank(g) + 1;
    return zl_from_f32((float[]){r, 10 * r, 100 * r}, ZL_SHAPE(3));
}

static int compute(zl_group g) {
    static const float sum[] = {6, 60, 600}, most[] = {3, 30, 300}, least[] = {1, 10, 100},
                       all[] = {1, 10, 100, 2, 20, 200, 3, 30, 300}, second[] = {2, 20, 200};
    int rank = zl_group_rank(g), wrong = zl_group_size(g) != RANKS || strcmp(zl_group_engine(g), "nccl") != 0;
    ZL_SCOPE {
        float scale = rank == 0 ? 1 : rank == 1 ? 10 : 100;
        zl_array x = own(g);
        wrong += !holds(zl_all_sum(x, g), 3, sum);
        wrong += !holds(zl_all_max(x, g), 3, most);
        wrong += !holds(zl_all_min(x, g), 3, least);
        wrong += !holds(zl_all_gather(x, g), 9, all);
        wrong += !holds(zl_sum_scatter(x, g), 1, (float[]){6 * scale});
        wrong += !holds(zl_all_to_all(x, g), 3, (float[]){scale, 2 * scale, 3 * scale});
        wrong += !holds(zl_broadcast(x, 1, g), 3, second);
        wrong += !zl_group_barrier(g);
        wrong += zl_eval(zl_send(x, rank, g)) || !strstr(zl_error(), "a rank cannot send to itself");
        zl_clear_error();
        if (rank == 0)
            wrong += !holds(zl_send(x, 2, g), 3, least);
        if (rank == 2)
            wrong += !holds(zl_recv(ZL_SHAPE(3), ZL_FLOAT32, 0, g), 3, least);
        wrong += zl_counter("fallbacks") != 0;
    }
    return wrong;
}

TEST(ranks_on_gpus_compute_together) {
    CHECK(together(compute));
}

// Checks sums of all dtypes: those that NCCL has, and bool and complex numbers.
static int add_dtypes(zl_group g) {
    static const zl_dtype dtypes[] = {ZL_INT8,   ZL_UINT8,   ZL_INT32,    ZL_UINT32,  ZL_INT64,
                                      ZL_UINT64, ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    int wrong = 0;
    ZL_SCOPE {
        zl_stream cpu = zl_new_stream("cpu");
        zl_scope scope = zl_scope_begin_on(cpu);
        for (size_t i = 0; i < COUNT(dtypes); i++) {
            zl_array x = zl_retain(zl_full(ZL_SHAPE(5), zl_scalar(zl_group_rank(g) + 1), dtypes[i]));
            wrong += !holds(zl_all_sum(x, g), 5, (float[]){6, 6, 6, 6, 6}) ||
                     !holds(zl_all_max(x, g), 5, (float[]){3, 3, 3, 3, 3});
            zl_release(x);
        }
        zl_array one = zl_retain(zl_full(ZL_SHAPE(2), zl_scalar(zl_group_rank(g) == 1), ZL_BOOL));
        wrong +=
            !holds(zl_all_sum(one, g), 2, (float[]){1, 1}) || !holds(zl_all_min(one, g), 2, (float[]){0, 0});
        zl_array z = zl_retain(zl_multiply(own(g), zl_scalar_complex(1, 2)));
        wrong += !holds(zl_imag(zl_all_sum(z, g)), 3, (float[]){12, 120, 1200});
        wrong += !holds(zl_imag(zl_all_max(z, g)), 3, (float[]){6, 60, 600}); // NCCL has no complex maximum,
                                                                              // so it is gathered
        zl_array narrow = zl_full(ZL_SHAPE(2), zl_scalar(-30000), ZL_INT16);  // nor int16, which is sent as a
                                                                              // wider type
        wrong += !holds(zl_all_sum(narrow, g), 2, (float[]){-90000 + 65536, -90000 + 65536});
        zl_release(one);
        zl_release(z);
        zl_scope_end(scope);
    }
    return wrong;
}

TEST(dtypes_that_nccl_has_and_has_not) {
    CHECK(together(add_dtypes));
}

// Makes a group of ranks 2 and 0, in that order, and one of rank 1 alone.
static int split(zl_group g) {
    int rank = zl_group_rank(g), wrong = 0;
    zl_group part = zl_group_split(g, rank == 1, -rank + 5);
    ZL_SCOPE {
        zl_array x = own(g);
        wrong += !part || zl_group_size(part) != (rank == 1 ? 1 : 2) || zl_group_rank(part) != (rank == 0);
        if (rank != 1)
            wrong += !holds(zl_all_gather(x, part), 6, (float[]){3, 30, 300, 1, 10, 100});
        wrong += !holds(zl_all_sum(x, part), 3, rank == 1 ? (float[]){2, 20, 200} : (float[]){4, 40, 400});
        wrong += !holds(zl_all_sum(x, g), 3, (float[]){6, 60, 600});
    }
    zl_group_release(part);
    return wrong;
}

TEST(groups_split) {
    CHECK(together(split));
}

// Failures --------------------------------------------------------------------------------------------------

static int absent(zl_group g) {
    int wrong = 0;
    ZL_SCOPE {
        wrong += !zl_eval(zl_all_sum(own(g), g));
        if (zl_group_rank(g) == 1) {
            sleep(5); // rank 1 is alive, but does not take part
        } else {
            wrong += zl_eval(zl_all_max(own(g), g)) ||
                     !strstr(zl_error(), "all_max number 2 in a group of 3 (nccl)") ||
                     !strstr(zl_error(), "rank 1 did not come to all_max number 2 in");
            zl_clear_error();
            wrong += zl_eval(zl_all_sum(own(g), g)) || !strstr(zl_error(), "all_sum number 3");
        }
    }
    return wrong;
}

TEST(who_does_not_come_is_named_and_nccl_given_up) {
    test_setenv("ZL_GROUP_TIMEOUT", "2");
    CHECK(together(absent));
    CHECK(was_aborted(0) && !was_aborted(1) && was_aborted(2));
    test_setenv("ZL_GROUP_TIMEOUT", NULL);
}

static int leave(zl_group g) {
    int wrong = 0;
    if (zl_group_rank(g) == 1)
        _exit(0); // exits without a message, as if killed by a signal
    ZL_SCOPE {
        wrong += zl_eval(zl_all_sum(own(g), g)) || !strstr(zl_error(), "rank 1 has ended");
    }
    return wrong;
}

TEST(a_rank_that_ends_is_named_at_once) {
    CHECK(together(leave));
    CHECK(was_aborted(0) && was_aborted(2));
}

static int differ(zl_group g) {
    int wrong = 0;
    setenv("ZL_GROUP_CHECK", "1", 1);
    ZL_SCOPE {
        zl_array x = zl_group_rank(g) == 2 ? zl_from_f32((float[]){1}, ZL_SHAPE(1)) : own(g);
        wrong += zl_eval(zl_all_sum(x, g)) ||
                 !strstr(zl_error(), "rank 0 calls all_sum number 1 of 3 elements of float32; rank 2 calls");
    }
    return wrong;
}

TEST(calls_that_differ_are_shown) {
    CHECK(together(differ));
}

// A call of NCCL fails on one rank: that rank reports it, and so do the others.
static const char *failing;

static int fail(zl_group g) {
    char words[96];
    int wrong = 0;
    snprintf(words, sizeof words, "%.*s failed: internal error", (int)strcspn(failing, ":"), failing);
    tell(g, 1, "FAKE_NCCL_FAIL", failing);
    ZL_SCOPE {
        zl_array x = own(g);
        zl_array all[] = {zl_all_sum(x, g), zl_all_gather(x, g), zl_sum_scatter(x, g), zl_all_to_all(x, g),
                          zl_broadcast(x, 0, g)};
        // Another rank may have got all it needs from rank 1 already, and only fails at the barrier.
        bool ok = zl_eval_all(COUNT(all), all) && zl_group_barrier(g);
        wrong += ok || !strstr(zl_error(), "rank 1: ") || !strstr(zl_error(), words);
    }
    return wrong;
}

TEST(each_call_that_fails_is_an_error_everywhere) {
    static const char *const calls[] = {"ncclAllReduce:1",  "ncclAllGather:1", "ncclReduceScatter:1",
                                        "ncclGroupStart:1", "ncclSend:2",      "ncclRecv:3",
                                        "ncclGroupEnd:1",   "ncclBroadcast:1", "ncclCommGetAsyncError:9"};
    for (size_t i = 0; i < COUNT(calls); i++) {
        failing = calls[i];
        if (!CHECK(together(fail)))
            test_note("%s", failing);
    }
}

static int lose(zl_group g) {
    int wrong = 0;
    tell(g, 2, "FAKE_NCCL_LATE", "ncclAllReduce:1");
    ZL_SCOPE {
        wrong += !zl_eval(zl_all_gather(own(g), g));
        bool ok = zl_eval(zl_all_sum(own(g), g)); // other ranks may have got all they need already
        wrong += zl_group_rank(g) == 2 && (ok || !strstr(zl_error(), "a connection was lost"));
        if (ok)
            wrong += zl_eval(zl_all_sum(own(g), g));
        wrong += !zl_error() || !strstr(zl_error(), "rank 2: ncclAllReduce failed: remote process exited");
    }
    return wrong;
}

TEST(a_transfer_that_fails_later_is_an_error) {
    CHECK(together(lose));
}

TEST(a_group_that_cannot_begin_is_an_error) {
    static const char *const settings[][3] = {
        {"FAKE_NCCL_FAIL", "ncclGetUniqueId:1", "rank 0: ncclGetUniqueId failed: internal error"},
        {"FAKE_NCCL_FAIL", "ncclCommInitRankConfig:1", "ncclCommInitRankConfig failed: internal error"},
        {"FAKE_NCCL_LATE", "ncclCommInitRankConfig:1",
         "ncclCommInitRankConfig failed: remote process exited"},
        {"FAKE_NCCL_VERSION", "21400", "libnccl.so.2 is release 2.14: 2.18 or newer is needed"},
        {NULL, NULL, "the engine nccl connects NVIDIA GPUs, and the default device is cpu"}};
    test_setenv("FAKE_NCCL", test_folder());
    for (size_t i = 0; i < COUNT(settings); i++) {
        if (settings[i][0])
            test_setenv(settings[i][0], settings[i][1]);
        CHECK(ranks_refused("nccl", settings[i][0] ? "cuda" : "cpu", RANKS, settings[i][2]));
        if (settings[i][0])
            test_setenv(settings[i][0], NULL);
    }
    test_setenv("FAKE_NCCL", NULL);
}
