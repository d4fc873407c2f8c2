// test_mesh.c - training on several ranks: the losses are those of one rank, on any mesh; the memory of a
// rank; checkpoints that any mesh loads.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/ranks.h"
#include "test.h"
#include "zellige_nn.h"

enum { WIDTH = 14, BATCH = 12, CLASSES = 5, STEPS = 4 };

// A perceptron whose sizes 3 and 4 do not divide, with random inputs and classes as outputs.
static zl_array loss_of(zl_nn nn, int count, const zl_array *in, void *data) {
    (void)data;
    zl_array x = zl_nn_layer_norm(nn, "norm", in[0]);
    x = zl_add(x, zl_nn_mlp(nn, "mlp", x, 2 * WIDTH));
    x = zl_add(x, zl_nn_swiglu(nn, "gated", x, WIDTH));
    return zl_nn_cross_entropy(zl_nn_linear(nn, "head", x, CLASSES, true), in[count - 1], NULL);
}

static const zl_nn_shard rows[] = {
    {"mlp.up.*", .fsdp = 0, .tensor = 0},        {"mlp.down.bias", .fsdp = -1, .tensor = -1},
    {"mlp.down.weight", .fsdp = 1, .tensor = 1}, {"gated.down.weight", .fsdp = 0, .tensor = 1},
    {"gated.*", .fsdp = 1, .tensor = 0},         {"*", .fsdp = 0, .tensor = -1},
};

struct plan {
    zl_dtype dtype;
    const char *mesh, *optimizer;
    int64_t bucket;
    int accumulate;
    double clip;
};

static zl_nn open_table(const struct plan *plan, zl_group g, const char *mesh) {
    zl_nn nn = zl_nn_new(7);
    if (zl_nn_set_dtype(nn, plan->dtype) &&
        zl_nn_distribute(nn, g, mesh, sizeof rows / sizeof *rows, rows, plan->bucket))
        return nn;
    fprintf(stderr, "%s\n", zl_nn_error(nn));
    zl_nn_free(nn);
    return NULL;
}

static zl_trainer open_trainer(const struct plan *plan, zl_nn nn) {
    const zl_train_options options = {.optimizer = plan->optimizer,
                                      .rate = 0.02,
                                      .momentum = 0.9,
                                      .weight_decay = 0.1,
                                      .clip = plan->clip,
                                      .accumulate = plan->accumulate};
    return zl_trainer_new(nn, loss_of, NULL, &options);
}

// Trains on this rank's rows of a batch, which depends only on the number of the step.
static bool take_step(zl_trainer t, zl_nn nn, zl_dtype dtype, zl_train_report *report) {
    int64_t first, count;
    bool done = zl_nn_rows(nn, BATCH, &first, &count);
    ZL_SCOPE {
        zl_array key = zl_random_key(zl_trainer_batches(t));
        zl_array x = zl_random_normal(ZL_SHAPE(BATCH, WIDTH), ZL_FLOAT32, NULL, NULL, key);
        zl_array y = zl_astype(
            zl_argmax_axis(zl_slice(x, ZL_SHAPE(0, 0), ZL_SHAPE(BATCH, CLASSES), ZL_SHAPE(1, 1)), -1, false),
            ZL_INT32);
        if (done) {
            x = zl_slice(zl_astype(x, dtype), ZL_SHAPE(first, 0), ZL_SHAPE(first + count, WIDTH),
                         ZL_SHAPE(1, 1));
            y = zl_slice(y, ZL_SHAPE(first), ZL_SHAPE(first + count), ZL_SHAPE(1));
            done = zl_trainer_step(t, 2, (zl_array[]){x, y}, report);
        }
    }
    if (!done)
        fprintf(stderr, "%s\n", zl_nn_error(nn));
    return done;
}

// Writes the losses and norms of some batches.
static bool train(const struct plan *plan, zl_group g, const char *mesh, double *out) {
    zl_nn nn = open_table(plan, g, mesh);
    zl_trainer t = nn ? open_trainer(plan, nn) : NULL;
    bool done = t;
    for (int i = 0; done && i < STEPS * plan->accumulate; i++) {
        zl_train_report report;
        done = take_step(t, nn, plan->dtype, &report);
        out[2 * i] = report.loss, out[2 * i + 1] = report.norm;
    }
    zl_trainer_free(t);
    zl_nn_free(nn);
    return done;
}

// The losses of one rank ------------------------------------------------------------------------------------

static struct plan current; // inherited by children of fork()

static int differs_from_one(zl_group g) {
    double here[8 * STEPS], alone[8 * STEPS], most = current.dtype == ZL_FLOAT64 ? 1e-12 : 2e-5;
    int wrong = 0;
    if (!train(&current, NULL, "", alone) || !train(&current, g, current.mesh, here))
        return 1;
    for (int i = 0; i < 2 * STEPS * current.accumulate; i++)
        wrong += !(fabs(here[i] - alone[i]) <= most) && !(isnan(here[i]) && isnan(alone[i]));
    if (wrong)
        fprintf(stderr, "%s %s: loss %.17g, alone %.17g\n", current.mesh, current.optimizer, here[0],
                alone[0]);
    return wrong;
}

static void check_mesh(int ranks, const struct plan *plan) {
    current = *plan;
    CHECK(ranks_run("ring", "cpu", ranks, differs_from_one));
}

TEST(losses_are_those_of_one_rank_on_any_mesh) {
    if (ranks_lack()) {
        SKIP(ranks_lack());
        return;
    }
    check_mesh(2, &(struct plan){ZL_FLOAT64, "data=2", "adamw", 1 << 20, 1, 0.5});
    check_mesh(2, &(struct plan){ZL_FLOAT64, "tensor=2", "muon", 600, 1, 0.5});
    check_mesh(3, &(struct plan){ZL_FLOAT64, "fsdp=3", "muon", 600, 2, 0.5});
    check_mesh(4, &(struct plan){ZL_FLOAT32, "fsdp=4,data=1", "sgd", 1, 1, 0});
    if (test_quick())
        return;
    check_mesh(2, &(struct plan){ZL_FLOAT32, "tensor=2", "adam", 1, 2, 0});
    check_mesh(3, &(struct plan){ZL_FLOAT32, "data=3", "sgd", 300, 2, 0.1});
    check_mesh(6, &(struct plan){ZL_FLOAT64, "fsdp=6", "adamw", 2000, 1, 0.5});
}

// What a rank holds -----------------------------------------------------------------------------------------

enum { DEEP = 12, BROAD = 256, ADAM = 4 }; // bytes per byte of a parameter, with its gradient and two states

static zl_array deep_loss(zl_nn nn, int count, const zl_array *in, void *data) {
    zl_array x = in[0];
    (void)data;
    for (int i = 0; i < DEEP; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer.%d", i);
        x = zl_tanh(zl_nn_linear(nn, name, x, BROAD, false));
    }
    return zl_nn_mean_squares(x, in[count - 1]);
}

// Measures the peak of memory in a training step, and the memory that remains after it.
static bool measure(zl_group g, const char *mesh, double *peak, double *rest) {
    static const zl_nn_shard all[] = {{"*", .fsdp = 0, .tensor = -1}};
    double before = (double)zl_get_active_memory();
    zl_nn nn = zl_nn_new(1);
    bool done = zl_nn_distribute(nn, g, mesh, 1, all, 1);
    zl_trainer t =
        done ? zl_trainer_new(nn, deep_loss, NULL, &(zl_train_options){.optimizer = "adam", .rate = 0.001})
             : NULL;
    for (int i = 0; done && i < 3; i++)
        ZL_SCOPE {
            zl_array x = zl_random_normal(ZL_SHAPE(1, BROAD), ZL_FLOAT32, NULL, NULL, zl_random_key(i));
            zl_eval(x);
            zl_reset_peak_memory();
            done = zl_trainer_step(t, 2, (zl_array[]){x, x}, NULL);
        }
    *peak = (double)zl_get_peak_memory() - before;
    *rest = (double)zl_get_active_memory() - before;
    zl_trainer_free(t);
    zl_nn_free(nn);
    return done;
}

static int holds_too_much(zl_group g) {
    double peak, rest, layer = BROAD * BROAD * 4, all = ADAM * DEEP * layer;
    if (!measure(g, "fsdp=4", &peak, &rest))
        return 1;
    int wrong = !(peak <= 0.3 * all + 2 * layer) + !(rest <= 0.3 * 0.75 * all);
    if (wrong)
        fprintf(stderr, "rank %d: %.2f layers at most, %.2f behind a step, of %d\n", zl_group_rank(g),
                peak / layer, rest / layer, ADAM * DEEP);
    return wrong;
}

TEST(fsdp_keeps_a_share_and_two_layers) {
    if (ranks_lack()) {
        SKIP(ranks_lack());
        return;
    }
    CHECK(ranks_run("ring", "cpu", 4, holds_too_much));
}

// Checkpoints -----------------------------------------------------------------------------------------------

static char folder[32] = "/tmp/zellige-test-mesh-XXXXXX";
static const struct plan kept = {ZL_FLOAT32, "", "adamw", 700, 2, 0.5};

static void path_of(const char *name, char out[256]) {
    snprintf(out, 256, "%s/%s.safetensors", folder, name);
}

// Loads `from`, unless it is NULL, trains on some batches, and saves.
static int go_on(zl_group g, const char *mesh, const char *from, int batches, const char *to) {
    char path[256];
    zl_nn nn = open_table(&kept, g, mesh);
    zl_trainer t = nn ? open_trainer(&kept, nn) : NULL;
    bool done = t;
    if (done && from) {
        path_of(from, path);
        done = zl_trainer_load(t, path, "test");
    }
    for (int i = 0; done && i < batches; i++)
        done = take_step(t, nn, kept.dtype, NULL);
    path_of(to, path);
    done = done && zl_trainer_save(t, path, "test") && zl_trainer_wait(t) && (!g || zl_group_barrier(g));
    if (!done && nn)
        fprintf(stderr, "%s: %s\n", to, zl_nn_error(nn));
    zl_trainer_free(t);
    zl_nn_free(nn);
    return !done;
}

static int begin_on_four(zl_group g) {
    return go_on(g, "fsdp=4", NULL, 3, "four") + go_on(g, "fsdp=4", NULL, 7, "undisturbed");
}
static int four_to_three(zl_group g) {
    return go_on(g, "fsdp=3", "four", 0, "three");
}
static int three_to_two(zl_group g) {
    return go_on(g, "tensor=2", "three", 0, "two");
}
static int back_to_four(zl_group g) {
    return go_on(g, "fsdp=4", "one", 0, "again") + go_on(g, "fsdp=4", "again", 4, "ended");
}

// Only rank 0 loads the checkpoint: no step is made.
static int loads_apart(zl_group g) {
    char path[256];
    zl_nn nn = open_table(&kept, g, "data=2");
    zl_trainer t = nn ? open_trainer(&kept, nn) : NULL;
    path_of("four", path);
    bool ready = t && (zl_group_rank(g) || zl_trainer_load(t, path, "test"));
    int wrong = !ready || take_step(t, nn, kept.dtype, NULL) || !strstr(zl_nn_error(nn), "after 0 to 3");
    zl_trainer_free(t);
    zl_nn_free(nn);
    return wrong;
}

// Returns whether two checkpoints, loaded here, are the same file.
static bool are_same(const char *a, const char *b) {
    char path[2][256];
    size_t bytes[2] = {0};
    void *data[2] = {NULL};
    bool done = true;
    for (int i = 0; done && i < 2; i++) {
        path_of(i ? "b_alone" : "a_alone", path[i]);
        done = !go_on(NULL, "", i ? b : a, 0, i ? "b_alone" : "a_alone");
        FILE *f = done ? fopen(path[i], "rb") : NULL;
        data[i] = malloc(1 << 20);
        done = f && data[i] && (bytes[i] = fread(data[i], 1, 1 << 20, f)) > 1000;
        if (f)
            fclose(f);
    }
    done = done && bytes[0] == bytes[1] && !memcmp(data[0], data[1], bytes[0]);
    free(data[0]), free(data[1]);
    return done;
}

TEST(checkpoints_load_on_any_mesh_without_a_changed_bit) {
    char path[256], remove[300];
    if (ranks_lack()) {
        SKIP(ranks_lack());
        return;
    }
    REQUIRE(mkdtemp(folder));
    CHECK(ranks_run("ring", "cpu", 4, begin_on_four));
    CHECK(ranks_run("ring", "cpu", 3, four_to_three));
    CHECK(ranks_run("ring", "cpu", 2, three_to_two));
    CHECK(go_on(NULL, "", "two", 0, "one") == 0);
    CHECK(ranks_run("ring", "cpu", 4, back_to_four));
    CHECK(are_same("four", "one"));
    CHECK(are_same("four", "again"));
    CHECK(are_same("undisturbed", "ended"));
    CHECK(!are_same("four", "ended"));

    CHECK(ranks_run("ring", "cpu", 2, loads_apart));

    // If one of its files is missing, loading fails with that file's name.
    path_of("three", path);
    snprintf(remove, sizeof remove, "rm %s/three.*.2-of-3.safetensors", folder);
    CHECK(!system(remove));
    CHECK(go_on(NULL, "", "three", 0, "none") == 1);
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    CHECK(!system(remove));
    zl_clear_error();
}

// What an index names is removed with it only if it is named like a shard.
TEST(a_forged_index_removes_no_other_files) {
    static const char names[] = "book.safetensors\nforged.1-0.abc.1-of-1.safetensors\n";
    char place[] = "/tmp/zellige-test-index-XXXXXX", path[3][256];
    zl_text text = {names, sizeof names - 1};
    REQUIRE(mkdtemp(place));
    memcpy(folder, place, sizeof place);
    snprintf(path[0], sizeof path[0], "%s/book.safetensors", folder);
    snprintf(path[1], sizeof path[1], "%s/forged.1-0.abc.1-of-1.safetensors", folder);
    path_of("forged", path[2]);
    zl_file *index = zl_file_new();
    CHECK(zl_file_add_metadata(index, &(zl_metadata){.name = "files", .text = &text, .texts = 1}));
    for (int i = 0; i < 3; i++)
        CHECK(zl_save_safetensors(path[i], index));
    zl_file_free(index);
    CHECK(go_on(NULL, "", NULL, 2, "forged") == 0);
    CHECK(!access(path[0], F_OK));
    CHECK(access(path[1], F_OK));
    unlink(path[0]);
    unlink(path[2]);
    rmdir(place);
}
