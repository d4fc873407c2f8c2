// test_lm.c - language models compared with transformers and mlx-lm, on the tiny checkpoints that
// make_lm_cases.py wrote.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"

#include <limits.h>
#include "base/base.h"
#include "zellige_model.h"

#define CASES ZL_TEST_DIR "/model/lm"

static const char *const dense[] = {"llama", "llama_linear", "llama_bias", "qwen2", "qwen2_window", "qwen3"};
static const char *const mixed[] = {"qwen2_moe", "qwen3_moe"};
static const char *const hybrid[] = {"qwen3_next", "qwen3_5", "qwen3_5_moe"};
enum {
    DENSE = sizeof dense / sizeof *dense,
    MIXED = sizeof mixed / sizeof *mixed,
    HYBRID = sizeof hybrid / sizeof *hybrid,
    CASES_ALL = DENSE + MIXED + HYBRID
};

static const char *case_name(int i) {
    return i < DENSE ? dense[i] : i < DENSE + MIXED ? mixed[i - DENSE] : hybrid[i - DENSE - MIXED];
}

struct fixture {
    zl_model model;
    zl_file *expected;
    zl_array ids;
};

static bool open_case(struct fixture *f, const char *name) {
    char folder[512], path[600], error[512];
    snprintf(folder, sizeof folder, "%s/%s", CASES, name);
    snprintf(path, sizeof path, "%s/expected.npz", folder);
    f->model = zl_model_open(folder, error, sizeof error);
    f->expected = zl_load_npz(path);
    f->ids = f->expected ? zl_file_find(f->expected, "ids") : NULL;
    if (!f->model)
        test_note("%s", error);
    return CHECK(f->model) && CHECK(f->ids);
}

static void close_case(struct fixture *f) {
    zl_file_free(f->expected);
    zl_model_close(f->model);
}

// Returns the largest difference, in standard deviations of the expected values.
static double apart(zl_array is, zl_array expected) {
    zl_array far = zl_max(zl_abs(zl_subtract(is, expected)));
    return zl_item(zl_divide(far, zl_std(expected, 0)));
}

// `near` is the allowed difference, in standard deviations. Transformers computes the delta rule in chunks,
// whose sums are rounded differently.
static void check_forward(const char *name, double near) {
    struct fixture f;
    if (open_case(&f, name)) {
        double far = apart(zl_model_logits(f.model, f.ids), zl_file_find(f.expected, "logits"));
        if (!CHECK(far < near))
            test_note("%s: logits are %g standard deviations apart", name, far);
        for (int layer = 0; layer < zl_model_about(f.model).layers; layer++) {
            char key[32];
            snprintf(key, sizeof key, "hidden.%d", layer);
            zl_array hidden = zl_model_hidden(f.model, f.ids, layer, NULL, 0);
            far = apart(hidden, zl_file_find(f.expected, key));
            if (!CHECK(far < near))
                test_note("%s: the input of layer %d is %g standard deviations apart", name, layer, far);
        }
    }
    close_case(&f);
}

TEST(logits_and_hidden_states_are_those_of_transformers) {
    for (int i = 0; i < CASES_ALL; i++)
        ZL_SCOPE {
            check_forward(case_name(i), i < DENSE + MIXED ? 1e-5 : 2e-4);
        }
}

TEST(hidden_states_of_layers_that_there_are_not) {
    struct fixture f;
    char error[200];
    CHECK(!zl_model_hidden(NULL, zl_scalar_int(0), 0, error, sizeof error));
    CHECK_HAS(error, "model is NULL");
    if (open_case(&f, case_name(0))) {
        int layers = zl_model_about(f.model).layers;
        CHECK(zl_model_hidden(f.model, f.ids, layers, error, sizeof error));
        CHECK(!zl_model_hidden(f.model, f.ids, layers + 1, error, sizeof error));
        CHECK_HAS(error, "zl_model_hidden: layer ");
        CHECK(!zl_model_hidden(f.model, f.ids, -1, error, sizeof error));
        CHECK_HAS(error, "layer -1: 0 to ");
        CHECK(!zl_model_hidden(f.model, NULL, 0, error, sizeof error));
        CHECK_HAS(error, "ids is NULL");
    }
    close_case(&f);
}

static void check_gradients(const char *name, double near) {
    struct fixture f;
    if (open_case(&f, name)) {
        enum { MOST = 256 };
        zl_array parameter[MOST], gradient[MOST];
        const char *names[MOST];
        int count = 0;
        while (count < MOST && (parameter[count] = zl_model_parameter(f.model, count, &names[count])))
            count++;
        int64_t length = zl_dim(f.ids, 1);
        zl_array logits = zl_model_logits(f.model, f.ids);
        logits = zl_slice(logits, ZL_SHAPE(0, 0, 0), ZL_SHAPE(2, length - 1, INT64_MAX), ZL_SHAPE(1, 1, 1));
        zl_array next = zl_slice(f.ids, ZL_SHAPE(0, 1), ZL_SHAPE(2, length), ZL_SHAPE(1, 1));
        zl_array loss = zl_mean(zl_fast_cross_entropy(logits, next));
        if (CHECK(zl_grad(loss, count, parameter, gradient)) && CHECK(zl_eval_all(count, gradient))) {
            CHECK_NEAR(zl_item(loss), zl_item(zl_file_find(f.expected, "loss")), 1e-5);
            for (int i = 0; i < count; i++) {
                char key[160];
                snprintf(key, sizeof key, "gradient.%s", names[i]);
                zl_array expected = zl_file_find(f.expected, key);
                if (!CHECK(expected))
                    continue;
                double most = zl_item(zl_max(zl_abs(expected)));
                double far = zl_item(zl_max(zl_abs(zl_subtract(gradient[i], expected))));
                if (!CHECK(far <= near * most + 1e-7))
                    test_note("%s: %s is %g apart, the largest is %g", name, key, far, most);
            }
        }
    }
    close_case(&f);
}

TEST(gradients_of_all_parameters_are_those_of_transformers) {
    for (int i = 0; i < CASES_ALL; i++)
        ZL_SCOPE {
            check_gradients(case_name(i), i < DENSE + MIXED ? 2e-5 : 2e-4);
        }
}

// Checks the most likely ids, with the prompt computed in chunks of some size.
static void check_greedy(const char *name, int chunk) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, name)) {
        zl_array all = zl_file_find(f.expected, "greedy");
        const int32_t *id = zl_data_i32(all);
        int64_t prompt = zl_dim(f.ids, 1), count = zl_dim(all, 1);
        zl_sequence s = zl_sequence_start(f.model, id, prompt, &(zl_sequence_options){.chunk = chunk}, error,
                                          sizeof error);
        zl_token token;
        for (int64_t i = prompt; i < count && CHECK(zl_sequence_next(s, &token, error, sizeof error)); i++)
            if (!CHECK_EQ_INT(token.id, id[i]) || !CHECK(token.log_probability <= 0))
                break;
        CHECK_STR(error, "");
        CHECK_EQ_INT(zl_sequence_length(s), count);
        zl_sequence_close(s);
    }
    close_case(&f);
}

TEST(greedy_ids_are_those_of_transformers_with_chunks_of_any_size) {
    for (int i = 0; i < CASES_ALL; i++)
        ZL_SCOPE {
            check_greedy(case_name(i), (int)test_between(1, 20));
        }
    ZL_SCOPE {
        check_greedy("qwen3", 1);
        check_greedy("qwen3", 1000);
        check_greedy("qwen3_next", 1);
        check_greedy("qwen3_5", 1000);
    }
}

TEST(quantised_matrices_are_those_of_mlx_lm) {
    struct fixture f;
    if (open_case(&f, "qwen3_quantized")) {
        CHECK(apart(zl_model_logits(f.model, f.ids), zl_file_find(f.expected, "logits")) < 1e-5);
        zl_model_info about = zl_model_about(f.model);
        CHECK_EQ_INT(about.parameters,
                     40 * 64 + 64 + 2 * (64 + 64 + 32 + 32 + 64 * 64 * 2 + 32 * 64 * 2 + 3 * 64 * 64));
        CHECK(about.bytes < (size_t)about.parameters);
    }
    close_case(&f);
    check_greedy("qwen3_quantized", 7);
}

// Saves the tensors of a hybrid checkpoint with the names and layouts of mlx-lm's conversion: without vision,
// with 1 added to norms, and convolutions as (channels, width, 1).
static bool save_as_mlx(zl_file *from, const char *path) {
    static const char old[] = "model.language_model.";
    char name[160];
    zl_file *to = zl_file_new();
    bool added = to;
    for (int i = 0; added && i < zl_file_count(from); i++) {
        const char *own = zl_file_name(from, i);
        zl_array a = zl_file_array(from, i);
        if (strncmp(own, old, strlen(old)) != 0)
            continue;
        if (strstr(own, "conv1d"))
            a = zl_swapaxes(a, 1, 2);
        else if (strstr(own, "norm.weight") && !strstr(own, "linear_attn"))
            a = zl_add(a, zl_scalar(1));
        snprintf(name, sizeof name, "language_model.model.%s", own + strlen(old));
        added = zl_file_add(to, name, a);
    }
    added = added && zl_save_safetensors(path, to);
    zl_file_free(to);
    return added;
}

TEST(conversions_of_mlx_lm_compute_the_same) {
    struct fixture f;
    char command[1024], path[600], error[512];
    int status;
    if (open_case(&f, "qwen3_5")) {
        snprintf(command, sizeof command, "cp %s/qwen3_5/config.json %s/", CASES, test_folder());
        free(test_shell(command, &status));
        snprintf(path, sizeof path, "%s/qwen3_5/model.safetensors", CASES);
        zl_file *own = zl_load_safetensors(path);
        snprintf(path, sizeof path, "%s/model.safetensors", test_folder());
        CHECK_EQ_INT(status, 0);
        CHECK(save_as_mlx(own, path));
        zl_model model = zl_model_open(test_folder(), error, sizeof error);
        if (CHECK(model))
            CHECK(apart(zl_model_logits(model, f.ids), zl_file_find(f.expected, "logits")) < 2e-4);
        zl_model_close(model);
        zl_file_free(own);
    }
    close_case(&f);
}

// The numbers of plans and of allocations while `count` ids are decoded.
struct work {
    int64_t plans;
    long allocations;
};

static struct work decode(zl_sequence s, int count) {
    char error[256] = "";
    zl_token token;
    struct work w = {.plans = zl_counter("plans")};
    memory_fail_at(LONG_MAX);
    for (int i = 0; i < count; i++)
        CHECK(zl_sequence_next(s, &token, error, sizeof error));
    w.allocations = memory_allocations();
    memory_fail_at(0);
    w.plans = zl_counter("plans") - w.plans;
    return w;
}

TEST(a_step_of_decoding_plans_and_allocates_nothing) {
    static const char *const names[] = {"qwen3", "qwen3_moe", "qwen3_5"};
    const zl_sampling drawn = {
        .temperature = 0.8, .top_k = 20, .top_p = 0.9, .repetition_penalty = 1.1, .seed = 5};
    for (int i = 0; i < 6; i++) {
        struct fixture f;
        char error[256] = "";
        if (open_case(&f, names[i / 2])) {
            zl_sequence s = zl_sequence_start(f.model, (int32_t[]){3, 1, 4}, 3,
                                              &(zl_sequence_options){.sampling = i % 2 ? &drawn : NULL},
                                              error, sizeof error);
            decode(s, 20);
            struct work w = decode(s, 30);
            CHECK_EQ_INT(w.plans, 0);
            if (i == 0) // other samplers have kernels that sort or scan, which allocate memory
                CHECK_EQ_INT(w.allocations, 0);
            zl_sequence_close(s);
        }
        close_case(&f);
    }
}

// When the cache gets more pages, the next loop uses the plans of the last one.
TEST(a_cache_that_grows_plans_nothing_anew) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, "qwen3")) {
        int32_t prompt[250];
        for (int i = 0; i < 250; i++)
            prompt[i] = i % 5;
        zl_sequence s = zl_sequence_start(f.model, prompt, 250, NULL, error, sizeof error);
        decode(s, 20); // beyond 256 positions
        CHECK_EQ_INT(decode(s, 220).plans, 0);
        CHECK(decode(s, 60).plans <= 1); // beyond 512, once more: joining old and new pages
        zl_sequence_close(s);
    }
    close_case(&f);
}

TEST(a_sequence_goes_on_after_ids_are_appended) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, "qwen3")) {
        int32_t prompt[] = {3, 1, 4}, more[] = {1, 5}, whole[8];
        zl_token token, expected;
        zl_sequence s = zl_sequence_start(f.model, prompt, 3, NULL, error, sizeof error);
        memcpy(whole, prompt, sizeof prompt);
        for (int i = 3; i < 6 && CHECK(zl_sequence_next(s, &token, error, sizeof error)); i++)
            whole[i] = token.id;
        memcpy(whole + 6, more, sizeof more);
        CHECK(zl_sequence_append(s, more, 2, error, sizeof error) &&
              zl_sequence_next(s, &token, error, sizeof error));
        zl_sequence fresh = zl_sequence_start(f.model, whole, 8, NULL, error, sizeof error);
        CHECK(zl_sequence_next(fresh, &expected, error, sizeof error));
        CHECK_EQ_INT(token.id, expected.id);
        CHECK_NEAR(token.log_probability, expected.log_probability, 1e-5);
        CHECK_EQ_INT(zl_sequence_length(s), 9);
        zl_sequence_close(fresh);
        zl_sequence_close(s);
    }
    close_case(&f);
}

// Draws ids with a sequence of its own after a prompt.
static void draw_alone(zl_model model, const int32_t *prompt, int64_t length, const zl_sampling *how,
                       int count, int32_t *id) {
    char error[256] = "";
    zl_token token;
    zl_sequence s = zl_sequence_start(model, prompt, length, &(zl_sequence_options){.sampling = how}, error,
                                      sizeof error);
    for (int i = 0; i < count && CHECK(zl_sequence_next(s, &token, error, sizeof error)); i++)
        id[i] = token.id;
    CHECK_STR(error, "");
    zl_sequence_close(s);
}

static void random_ids(int32_t *id, int count) {
    for (int i = 0; i < count; i++)
        id[i] = (int32_t)test_between(0, 39);
}

// Trims a sequence and continues with other ids, and compares with a sequence that began with them.
static void check_trim(const char *name) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, name)) {
        int32_t id[40], expected[3];
        random_ids(id, 40);
        zl_token token;
        zl_sequence s =
            zl_sequence_start(f.model, id, 12, &(zl_sequence_options){.chunk = 5}, error, sizeof error);
        for (int i = 0; i < 3; i++)
            CHECK(zl_sequence_next(s, &token, error, sizeof error));
        int lengths[] = {12, 13, 11, 4, 1};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            int length = lengths[i];
            random_ids(id + length, 3);
            CHECK(zl_sequence_trim(s, length, error, sizeof error));
            CHECK_EQ_INT(zl_sequence_length(s), length);
            CHECK(zl_sequence_append(s, id + length, 3, error, sizeof error));
            draw_alone(f.model, id, length + 3, NULL, 3, expected);
            for (int k = 0; k < 3; k++)
                if (CHECK(zl_sequence_next(s, &token, error, sizeof error)) &&
                    !CHECK_EQ_INT(token.id, expected[k]))
                    test_note("%s, trimmed to %d", name, length);
        }
        // If nothing is appended, the next id is drawn from the last one.
        draw_alone(f.model, id, 3, NULL, 2, expected);
        CHECK(zl_sequence_trim(s, 3, error, sizeof error));
        for (int k = 0; k < 2; k++)
            CHECK(zl_sequence_next(s, &token, error, sizeof error) && token.id == expected[k]);
        CHECK(!zl_sequence_trim(s, 100, error, sizeof error));
        CHECK_HAS(error, "zl_sequence_trim: wanted a length from 1");
        zl_sequence_close(s);
    }
    close_case(&f);
}

TEST(a_trimmed_sequence_goes_on_as_if_it_had_never_been_longer) {
    ZL_SCOPE {
        check_trim("qwen3");
        check_trim("qwen2_window");
        check_trim("qwen3_next");
        check_trim("qwen3_5");
    }
}

// A copy continues like its sequence, and neither affects the other.
static void check_copy(const char *name) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, name)) {
        zl_sampling how = {.temperature = 1, .seed = 5, .presence_penalty = 0.5};
        int32_t id[9], expected[6];
        random_ids(id, 9);
        zl_token token, other;
        draw_alone(f.model, id, 9, &how, 6, expected);
        zl_sequence s =
            zl_sequence_start(f.model, id, 9, &(zl_sequence_options){.sampling = &how}, error, sizeof error);
        for (int i = 0; i < 2; i++)
            CHECK(zl_sequence_next(s, &token, error, sizeof error));
        zl_sequence copy = zl_sequence_copy(s, error, sizeof error),
                    changed = zl_sequence_copy(s, error, sizeof error);
        CHECK(copy && changed && zl_sequence_append(changed, id, 4, error, sizeof error));
        for (int i = 2; i < 6; i++) {
            CHECK(zl_sequence_next(changed, &other, error, sizeof error));
            CHECK(zl_sequence_next(s, &token, error, sizeof error));
            CHECK(zl_sequence_next(copy, &other, error, sizeof error));
            CHECK_EQ_INT(token.id, expected[i]);
            CHECK_EQ_INT(other.id, expected[i]);
        }
        CHECK_EQ_INT(zl_sequence_length(copy), 15);
        zl_sequence_close(s);
        zl_sequence_close(copy);
        zl_sequence_close(changed);
    }
    close_case(&f);
}

TEST(a_copy_of_a_sequence_is_a_snapshot) {
    ZL_SCOPE {
        check_copy("qwen3");
        check_copy("qwen3_5");
    }
}

// An allocation fails while ids are drawn: calls that failed are made again, and draw what they would have.
static void check_retry(const char *name, int members) {
    struct fixture f;
    char error[256] = "";
    enum { MOST = 2, COUNT_DRAWN = 8 };
    zl_sampling how = {.temperature = 1, .top_k = 1, .presence_penalty = 0.5};
    int32_t prompt[MOST][7], expected[MOST][COUNT_DRAWN];
    int length[MOST] = {7, 2};
    if (open_case(&f, name)) {
        for (int i = 0; i < members; i++) {
            random_ids(prompt[i], length[i]);
            draw_alone(f.model, prompt[i], length[i], &how, COUNT_DRAWN, expected[i]);
        }
        for (long at = 1; at < 60; at += 7) {
            zl_batch b = members > 1 ? zl_batch_new(f.model) : NULL;
            zl_sequence s[MOST] = {NULL};
            zl_token token[MOST];
            int drawn = 0;
            for (int i = 0; i < members; i++) {
                s[i] = zl_sequence_start(f.model, prompt[i], length[i],
                                         &(zl_sequence_options){.sampling = &how}, error, sizeof error);
                CHECK(s[i] && (!b || zl_batch_add(b, s[i], error, sizeof error)));
            }
            for (int tries = 0; drawn < COUNT_DRAWN && tries < 3 * COUNT_DRAWN; tries++) {
                if (tries == 3)
                    memory_fail_at(at);
                if (!(b ? zl_batch_next(b, token, error, sizeof error)
                        : zl_sequence_next(s[0], token, error, sizeof error))) {
                    memory_fail_at(0);
                    zl_clear_error();
                    continue;
                }
                for (int i = 0; i < members; i++)
                    if (!CHECK_EQ_INT(token[i].id, expected[i][drawn]))
                        test_note("%s, %d sequences: id %d after allocation %ld failed: %s", name, members,
                                  drawn, at, error);
                drawn++;
            }
            memory_fail_at(0);
            CHECK_EQ_INT(drawn, COUNT_DRAWN);
            for (int i = 0; i < members; i++)
                zl_sequence_close(s[i]);
            zl_batch_close(b);
        }
    }
    close_case(&f);
}

TEST(a_step_that_failed_can_be_made_again) {
    static const char *const names[] = {"qwen3", "qwen3_5"};
    for (int i = 0; i < 4; i++)
        ZL_SCOPE {
            check_retry(names[i / 2], 1 + i % 2);
        }
}

// What is kept of a long prompt is keys and values, and not the inputs of convolutions.
TEST(a_long_prompt_leaves_only_the_end_of_its_convolutions) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, "qwen3_5")) {
        int32_t *prompt = calloc(2000, sizeof *prompt);
        zl_token token;
        REQUIRE(prompt);
        draw_alone(f.model, prompt, 2, NULL, 2, (int32_t[2]){0}); // computes what the model keeps
        size_t before = zl_get_active_memory();
        zl_sequence s = zl_sequence_start(f.model, prompt, 2000, NULL, error, sizeof error);
        for (int i = 0; i < 3; i++)
            CHECK(zl_sequence_next(s, &token, error, sizeof error));
        // 2,048 positions of 2 heads of 16 features in one layer are 512 KiB, inputs in two layers 1,250 KiB.
        size_t more = zl_get_active_memory() - before;
        if (!CHECK(more < 1000 * 1024))
            test_note("%zu bytes more", more);
        zl_sequence_close(s);
        free(prompt);
    }
    close_case(&f);
}

enum { MEMBERS = 4, STEPS = 10 };

// Sequences of different lengths and options in one batch, of which one leaves and returns and one is closed:
// each draws the ids that it draws alone.
static void check_batch(const char *name) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, name)) {
        zl_sampling how[MEMBERS] = {{0}, {.temperature = 1, .seed = 3}, {.repetition_penalty = 1.5}, {0}};
        int32_t prompt[MEMBERS][24], expected[MEMBERS][STEPS];
        int length[MEMBERS] = {1, 17, 6, 24}, drawn[MEMBERS] = {0};
        zl_sequence s[MEMBERS];
        zl_token token[MEMBERS];
        zl_batch b = zl_batch_new(f.model);
        for (int i = 0; i < MEMBERS; i++) {
            random_ids(prompt[i], length[i]);
            draw_alone(f.model, prompt[i], length[i], &how[i], STEPS, expected[i]);
            s[i] = zl_sequence_start(f.model, prompt[i], length[i],
                                     &(zl_sequence_options){.sampling = &how[i], .chunk = 7}, error,
                                     sizeof error);
            CHECK(i == 3 || zl_batch_add(b, s[i], error, sizeof error));
        }
        CHECK(!zl_batch_add(b, s[0], error, sizeof error));
        CHECK_STR(error, "zl_batch_add: the sequence is in a batch");
        for (int step = 0; step < STEPS - 1; step++) {
            int members[MEMBERS] = {0, 1, 2, 3};
            if (step == 3)
                CHECK(zl_batch_add(b, s[3], error, sizeof error));
            if (step == 5) { // one is used by itself
                CHECK(zl_sequence_next(s[1], &token[0], error, sizeof error));
                CHECK_EQ_INT(token[0].id, expected[1][drawn[1]++]);
            }
            if (step == 6)
                zl_sequence_close(s[0]);
            int first = step >= 6;
            if (!CHECK(zl_batch_next(b, token, error, sizeof error)) ||
                !CHECK_EQ_INT(zl_batch_count(b), (step < 3 ? 3 : 4) - first))
                test_note("%s: %s", name, error);
            for (int i = 0; i < zl_batch_count(b); i++) {
                int member = members[i + first];
                if (!CHECK_EQ_INT(token[i].id, expected[member][drawn[member]++]))
                    test_note("%s, step %d, sequence %d", name, step, member);
            }
        }
        CHECK(!zl_batch_next(b, NULL, error, sizeof error));
        CHECK_STR(error, "zl_batch_next: batch or tokens is NULL");
        zl_batch_close(b);
        CHECK(zl_sequence_next(s[3], token, error, sizeof error));
        CHECK_EQ_INT(token[0].id, expected[3][drawn[3]]);
        for (int i = 1; i < MEMBERS; i++)
            zl_sequence_close(s[i]);
    }
    close_case(&f);
}

TEST(sequences_of_a_batch_draw_what_each_draws_alone) {
    ZL_SCOPE {
        check_batch("qwen3");
        check_batch("qwen2_window");
        check_batch("qwen3_next");
        check_batch("qwen3_5_moe");
    }
}

static zl_array last_row(zl_array logits) {
    int64_t length = zl_dim(logits, 1);
    return zl_slice(logits, ZL_SHAPE(0, length - 1, 0), ZL_SHAPE(1, length, INT64_MAX), ZL_SHAPE(1, 1, 1));
}

// The ids that a sequence with quantised keys and values draws, alone or in a batch, are the most likely ones
// by logits that are computed from the same codes.
static void check_rounded(zl_model model, int bits) {
    char error[256] = "";
    int32_t id[24];
    random_ids(id, 24);
    zl_token token, together[2];
    zl_sequence_options how = {.chunk = 5, .kv_bits = bits};
    zl_sequence s = zl_sequence_start(model, id, 12, &how, error, sizeof error);
    zl_sequence other = zl_sequence_start(model, id + 12, 7, &how, error, sizeof error);
    zl_sequence same = zl_sequence_copy(s, error, sizeof error);
    zl_batch b = zl_batch_new(model);
    CHECK(zl_batch_add(b, other, error, sizeof error) && zl_batch_add(b, same, error, sizeof error));
    for (int64_t n = 12; n < 18; n++) {
        zl_array logits =
            zl_model_logits_rounded(model, zl_from_i32(id, ZL_SHAPE(1, n)), bits, error, sizeof error);
        zl_array likely = zl_argmax_axis(zl_reshape(last_row(logits), ZL_SHAPE(-1)), 0, false);
        CHECK(zl_sequence_next(s, &token, error, sizeof error));
        CHECK(zl_batch_next(b, together, error, sizeof error));
        CHECK_EQ_INT(token.id, zl_item_int(likely));
        CHECK_EQ_INT(together[1].id, token.id);
        id[n] = token.id;
    }
    zl_batch_close(b);
    zl_sequence_close(s);
    zl_sequence_close(other);
    zl_sequence_close(same);
}

TEST(keys_and_values_may_be_kept_as_codes) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, "qwen3_quantized")) { // heads of 32 features
        zl_array expected = zl_file_find(f.expected, "logits");
        double far8 = apart(zl_model_logits_rounded(f.model, f.ids, 8, error, sizeof error), expected);
        double far4 = apart(zl_model_logits_rounded(f.model, f.ids, 4, error, sizeof error), expected);
        if (!CHECK(far8 > 1e-5 && far8 < 0.05) || !CHECK(far4 > far8 && far4 < 1))
            test_note("logits are %g and %g standard deviations apart", far8, far4);
        check_rounded(f.model, 8);
        check_rounded(f.model, 4);
        int32_t id[] = {1, 2};
        CHECK(!zl_sequence_start(f.model, id, 2, &(zl_sequence_options){.kv_bits = 5}, error, sizeof error));
        CHECK_STR(error, "zl_sequence_start: kv_bits 5: wanted 0, 4 or 8");
    }
    close_case(&f);
    if (open_case(&f, "qwen3")) {
        CHECK(!zl_model_logits_rounded(f.model, f.ids, 8, error, sizeof error));
        CHECK_STR(error, "kv_bits 8: heads of 12 features cannot be cut in groups of 32");
    }
    close_case(&f);
}

// Sampling --------------------------------------------------------------------------------------------------

// Counts the ids that many sequences with different seeds draw first.
static int first_draws(zl_model model, zl_sampling how, int draws, int *count) {
    int32_t prompt[] = {3, 1, 4, 1, 5};
    char error[256];
    zl_token token;
    int drawn = 0;
    for (int i = 0; i < draws; i++)
        ZL_SCOPE {
            how.seed = 1000 + i;
            zl_sequence s = zl_sequence_start(model, prompt, 5, &(zl_sequence_options){.sampling = &how},
                                              error, sizeof error);
            if (s && CHECK(zl_sequence_next(s, &token, error, sizeof error)))
                count[token.id]++, drawn++;
            zl_sequence_close(s);
        }
    return drawn;
}

// Lists the ids after that prompt with their probabilities, the most likely first.
static void likely_ids(zl_model model, int *order, double *p) {
    int32_t prompt[] = {3, 1, 4, 1, 5};
    zl_array logits =
        zl_reshape(zl_model_logits(model, zl_from_i32(prompt, ZL_SHAPE(1, 5))), ZL_SHAPE(5, -1));
    zl_array last = zl_take(logits, zl_scalar_int(4), 0), share = zl_softmax(last, -1, true);
    zl_array down = zl_argsort(zl_negative(last), -1);
    zl_eval_all(2, (zl_array[]){zl_retain(share), zl_retain(down)});
    for (int i = 0; i < 40; i++) {
        order[i] = (int)zl_item_int(zl_take(down, zl_scalar_int(i), 0));
        p[i] = zl_item(zl_take(share, zl_scalar_int(order[i]), 0));
    }
    zl_release(share);
    zl_release(down);
}

TEST(sampling_draws_from_the_ids_that_its_options_leave) {
    struct fixture f;
    int order[40];
    double p[40];
    if (open_case(&f, "qwen3")) {
        likely_ids(f.model, order, p);
        struct {
            zl_sampling how;
            int first, last; // range of the order of ids that may be drawn
        } cases[] = {
            {{.temperature = 1, .top_k = 3}, 0, 2},
            {{.temperature = 1, .top_p = p[0] + p[1] * 0.5}, 0, 1},
            {{.temperature = 1, .min_p = p[2] / p[0] * 0.999}, 0, 2},
            {{.temperature = 1e-3, .top_k = 20}, 0, 0},
            {{.temperature = 1e-40}, 0, 0},
            {{.temperature = 1, .top_p = 1e-9}, 0, 0},
            {{.temperature = 1, .top_k = 1, .xtc_probability = 1, .xtc_threshold = p[1] * 0.999}, 1, 1},
            {{.temperature = 0, .biases = 1, .bias_id = &order[7], .bias = (double[]){100}}, 7, 7},
            {{.temperature = 0, .biases = 1, .bias_id = &order[0], .bias = (double[]){-INFINITY}}, 1, 1},
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            int count[40] = {0}, inside = 0;
            int drawn = first_draws(f.model, cases[i].how, 24, count);
            for (int k = cases[i].first; k <= cases[i].last; k++) {
                inside += count[order[k]];
                // Each of these has a probability of a fifth or more, or is the only one.
                if (cases[i].last == cases[i].first && !CHECK(count[order[k]] > 0))
                    test_note("case %zu never draws its %d-th id", i, k);
            }
            if (!CHECK_EQ_INT(inside, drawn))
                test_note("case %zu draws what its options leave out", i);
        }
    }
    close_case(&f);
}

TEST(penalties_change_logits_of_ids_that_were_seen) {
    struct fixture f;
    char error[256] = "";
    if (open_case(&f, "qwen3")) {
        int order[40];
        double p[40];
        likely_ids(f.model, order, p);
        // With a very large penalty, no id of the prompt is drawn, and no id twice.
        zl_sampling how = {.presence_penalty = 1e5, .penalty_window = 100};
        int32_t prompt[] = {3, 1, 4, 1, 5};
        bool seen[40] = {[3] = true, [1] = true, [4] = true, [5] = true};
        zl_sequence s = zl_sequence_start(f.model, prompt, 5, &(zl_sequence_options){.sampling = &how}, error,
                                          sizeof error);
        zl_token token;
        for (int i = 0; i < 20 && CHECK(zl_sequence_next(s, &token, error, sizeof error)); i++) {
            CHECK(!seen[token.id]);
            seen[token.id] = true;
        }
        zl_sequence_close(s);
    }
    close_case(&f);
}

// Errors ----------------------------------------------------------------------------------------------------

// Copies a case with one text of its config.json replaced, and opens it.
static zl_model open_changed(const char *name, const char *old, const char *new, char *error,
                             size_t error_bytes) {
    char command[2048];
    int status;
    snprintf(command, sizeof command,
             "cp %s/%s/*s* %s/ && chmod u+w %s/* && sed -i 's|%s|%s|' %s/config.json", CASES, name,
             test_folder(), test_folder(), old, new, test_folder());
    free(test_shell(command, &status));
    return CHECK_EQ_INT(status, 0) ? zl_model_open(test_folder(), error, error_bytes) : NULL;
}

TEST(fields_and_tensors_that_do_not_fit_are_named) {
    static const struct {
        const char *name, *old, *new, *says;
    } cases[] = {
        {"qwen3", "\"use_cache\": true", "\"logit_cap\": 30.0", "field 'logit_cap' is unknown"},
        {"qwen3", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "field 'hidden_act' is not silu"},
        {"qwen3", "\"hidden_size\": 16", "\"hidden_size\": 32",
         "model.embed_tokens.weight' is (40, 16), wanted (40, 32)"},
        {"qwen3", "\"hidden_size\": 16", "\"hidden_size\": -1",
         "field 'hidden_size' is not right: wanted an integer"},
        {"llama", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2",
         "has no place in this architecture"},
        {"llama", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4",
         "model.layers.3.input_layernorm.weight' is missing"},
        {"qwen3", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3",
         "field 'num_key_value_heads' does not divide"},
        {"qwen3", "\"model_type\": \"qwen3\"", "\"model_type\": \"gpt2\"",
         "model_type 'gpt2' is none of llama"},
        {"qwen3", "\"vocab_size\": 40", "\"vocab_size\": 1e99", "field 'vocab_size' is not right"},
        {"qwen3_5", "\"linear_attention\"", "\"chunked_attention\"",
         "names a layer that is neither full_attention, sliding_attention nor"},
        {"qwen3_5", "\"linear_num_key_heads\": 2", "\"linear_num_key_heads\": 3",
         "field 'linear_num_key_heads' does not divide"},
        {"qwen3_5", "\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 3",
         "conv1d.weight' is not of width 3"},
        {"qwen3_next", "\"linear_key_head_dim\": 8", "\"linear_key_head_dim\": 7",
         "in_proj_qkvz.weight' is (128, 16), wanted"},
        {"qwen3_5", "\"attention_dropout\": 0.0", "\"logit_cap\": 3.5", "field 'logit_cap' is unknown"},
        {"qwen3", "\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"long_factor\": [2.0]",
         "field 'rope_parameters' has 'long_factor', which is unknown"},
        {"qwen3", "\"use_cache\": true",
         "\"quantization_config\": {\"bits\": 4, \"group_size\": 128, \"quant_method\": \"gptq\"}",
         "field 'quantization_config' is of a method other than MLX's"},
        {"qwen3", "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": \"small\"",
         "field 'rms_norm_eps' is not a number"},
    };
    char error[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zl_model model = open_changed(cases[i].name, cases[i].old, cases[i].new, error, sizeof error);
        if (CHECK(!model))
            CHECK_HAS(error, cases[i].says);
        zl_model_close(model);
    }
    CHECK(!zl_model_open("/nonexistent", error, sizeof error));
    CHECK_HAS(error, "/nonexistent/config.json");
}

// Saves a case's tensors to the test's folder, those whose name has `word` changed.
static void save_changed(const char *name, const char *word, zl_array change(zl_array)) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s/model.safetensors", CASES, name);
    zl_file *from = zl_load_safetensors(path), *to = zl_file_new();
    ZL_SCOPE {
        for (int i = 0; i < zl_file_count(from); i++) {
            const char *own = zl_file_name(from, i);
            zl_array a = zl_file_array(from, i);
            CHECK(zl_file_add(to, own, strstr(own, word) ? change(a) : a));
        }
        snprintf(path, sizeof path, "%s/model.safetensors", test_folder());
        CHECK(zl_save_safetensors(path, to));
    }
    zl_file_free(to);
    zl_file_free(from);
}

static zl_array as_bytes(zl_array a) {
    return zl_astype(a, ZL_UINT8);
}

TEST(matrices_that_are_no_floats_are_named) {
    char error[512];
    zl_model model =
        open_changed("qwen3", "\"use_cache\": true", "\"use_cache\": false", error, sizeof error);
    CHECK(model);
    zl_model_close(model);
    save_changed("qwen3", "layers.1.self_attn.v_proj", as_bytes);
    model = zl_model_open(test_folder(), error, sizeof error);
    CHECK(!model);
    CHECK_HAS(error, "tensor 'model.layers.1.self_attn.v_proj.weight' has elements of uint8, wanted floats");
    zl_model_close(model);
}

TEST(ends_are_ids_of_the_vocabulary) {
    char error[512];
    zl_model model = open_changed("qwen3", "38,", "\"<end>\", 99, -1, 38,", error, sizeof error);
    if (CHECK(model)) {
        zl_model_info about = zl_model_about(model);
        CHECK_EQ_INT(about.eos_count, 2);
        CHECK_EQ_INT(about.eos[0], 38);
        CHECK_EQ_INT(about.eos[1], 39);
    }
    zl_model_close(model);
}

// Makes the weight w of a norm, stored less 1, twice as large in the four features that are rotated.
static zl_array twice(zl_array w) {
    zl_array rotated = zl_slice(w, ZL_SHAPE(0), ZL_SHAPE(4), ZL_SHAPE(1)),
             rest = zl_slice(w, ZL_SHAPE(4), ZL_SHAPE(16), ZL_SHAPE(1));
    rotated = zl_add(zl_multiply(rotated, zl_scalar(2)), zl_scalar(1));
    return zl_concatenate((zl_array[]){rotated, rest}, 2, 0);
}

// YaRN's attention factor multiplies the features of q and k that are rotated, and only these: it is as if
// their norms did.
TEST(yarn_scales_the_features_that_are_rotated) {
    static const char none[] = "\"rope_scaling\": null",
                      yarn[] = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 1.0, "
                               "\"attention_factor\": 2.0, \"original_max_position_embeddings\": 64}";
    char error[512] = "";
    zl_array logits[2] = {NULL};
    ZL_SCOPE {
        zl_array ids = zl_from_i32((int32_t[]){1, 5, 9, 2, 6, 30, 39, 0}, ZL_SHAPE(1, 8));
        for (int i = 0; i < 2; i++) {
            zl_model model = open_changed("qwen3_next", none, i ? yarn : none, error, sizeof error);
            if (!i) {
                zl_model_close(model);
                save_changed("qwen3_next", "_norm.weight", twice);
                model = zl_model_open(test_folder(), error, sizeof error);
            }
            if (!CHECK(model))
                test_note("%s", error);
            logits[i] = model ? zl_model_logits(model, ids) : NULL;
            CHECK(logits[i] && zl_eval(logits[i]));
            zl_model_close(model);
        }
        if (logits[0] && logits[1]) {
            double far = apart(logits[1], logits[0]);
            if (!CHECK(far < 1e-4))
                test_note("logits are %g standard deviations apart", far);
        }
    }
}

TEST(random_weights_have_layers_of_linear_attention_too) {
    static const char *const names[] = {"qwen3_next", "qwen3_5"};
    for (int i = 0; i < 2; i++)
        ZL_SCOPE {
            char path[512], error[512] = "";
            snprintf(path, sizeof path, "%s/%s/config.json", CASES, names[i]);
            zl_model model = zl_model_random(path, 7, error, sizeof error);
            if (!CHECK(model))
                test_note("%s", error);
            zl_array ids = zl_from_i32((int32_t[]){1, 5, 9}, ZL_SHAPE(1, 3));
            zl_array logits = model ? zl_astype(zl_model_logits(model, ids), ZL_FLOAT32) : NULL;
            CHECK(logits && isfinite(zl_item(zl_sum(logits))));
            CHECK(!zl_error());
            zl_model_close(model);
        }
}

TEST(ids_and_options_out_of_range_are_errors) {
    struct fixture f;
    char error[512];
    if (open_case(&f, "qwen3")) {
        CHECK(!zl_sequence_start(f.model, (int32_t[]){3, 40}, 2, NULL, error, sizeof error));
        CHECK_STR(error, "zl_sequence_start: id 40 at position 1: the model has ids from 0 to 39");
        CHECK(!zl_sequence_start(f.model, NULL, 0, NULL, error, sizeof error));
        CHECK_STR(error, "zl_sequence_start: wanted at least one id");
        zl_sampling how = {.temperature = NAN};
        CHECK(!zl_sequence_start(f.model, (int32_t[]){3}, 1, &(zl_sequence_options){.sampling = &how}, error,
                                 sizeof error));
        CHECK_HAS(error, "temperature");
        how = (zl_sampling){.biases = 1, .bias_id = (int[]){99}, .bias = (double[]){1}};
        CHECK(!zl_sequence_start(f.model, (int32_t[]){3}, 1, &(zl_sequence_options){.sampling = &how}, error,
                                 sizeof error));
        CHECK_HAS(error, "id 99");
        how = (zl_sampling){.biases = 1, .bias_id = (int[]){9}, .bias = (double[]){INFINITY}};
        CHECK(!zl_sequence_start(f.model, (int32_t[]){3}, 1, &(zl_sequence_options){.sampling = &how}, error,
                                 sizeof error));
        CHECK_HAS(error, "bias inf of id 9");
    }
    close_case(&f);
}
