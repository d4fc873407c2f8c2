// test_llm.c - the suite of language models: works behind a context, random weights by seed, what is wrong in
// words.

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "zellige_model.h"

static const char suite_text[] =
    "{\"name\": \"small\", \"items\": [{\"work\": \"llm\", \"ops\": [\"pp\", \"tg\"], \"sizes\": "
    "[[4, 1], [3, 20], [3, 100000]]}]}";

static const char config[] = "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
                             "\"num_attention_heads\": 2, "
                             "\"num_key_value_heads\": 1, \"head_dim\": 32, \"intermediate_size\": 64, "
                             "\"vocab_size\": 40, \"dtype\": \"float32\", "
                             "\"num_experts\": 4, \"num_experts_per_tok\": 1, \"moe_intermediate_size\": 64, "
                             "\"mlp_only_layers\": [0]%s}";

static const char *write_text(const char *name, const char *text) {
    static char path[2][600];
    static int next = 0;
    char *out = path[next++ % 2];
    snprintf(out, sizeof path[0], "%s/%s", test_folder(), name);
    CHECK(zl_write_file(out, text, strlen(text)));
    return out;
}

static const char *write_config(const char *more) {
    char text[1024];
    snprintf(text, sizeof text, config, more);
    return write_text("config.json", text);
}

static bool open_suite(struct bench_suite *suite) {
    char error[256];
    return CHECK(bench_suite_open(suite, write_text("suite.json", suite_text), error, sizeof error));
}

// Prepares, runs and verifies each work of a model; those of more positions than it has are absent.
static void check_works(const char *model, const char *name) {
    struct bench_suite suite;
    char error[512] = "";
    if (!open_suite(&suite))
        return;
    if (!CHECK(bench_llm_open(model, &suite, error, sizeof error)))
        test_note("%s", error);
    CHECK_HAS(suite.config[0].id, name);
    for (int i = 0; i < suite.count; i++) {
        struct bench_work w = {0};
        bool long_one = suite.config[i].dim[1] == 100000, ready = bench_work_prepare(&w, &suite.config[i]);
        CHECK_EQ_INT(ready, !long_one);
        CHECK_EQ_INT(w.is_absent, long_one);
        if (ready) {
            CHECK(bench_work_run(&w, 2));
            CHECK_EQ_INT((int)w.items, suite.config[i].dim[0]);
            CHECK(w.flops > 0 && w.bytes > 0);
            if (!CHECK(w.kind->verify(&w)))
                test_note("%s: %s", suite.config[i].id, w.why);
        }
        bench_work_finish(&w);
    }
    bench_llm_close();
    bench_suite_close(&suite);
}

TEST(llm_works_run_on_checkpoints_and_on_random_weights) {
    check_works(ZL_TEST_DIR "/model/lm/qwen3", "llm.pp.qwen3/f32/4x1");
    check_works(ZL_TEST_DIR "/model/gguf/mixed.gguf", "llm.pp.mixed.gguf/f32/4x1");
    check_works(write_config(""), "/f32/4x1");
    check_works(write_config(", \"quantization\": {\"group_size\": 32, \"bits\": 4}"), "/f32/4x1");
}

TEST(llm_works_say_what_is_missing) {
    struct bench_suite suite;
    struct bench_work w = {0};
    char error[512] = "";
    if (!open_suite(&suite))
        return;
    CHECK(!bench_work_prepare(&w, &suite.config[0]));
    CHECK_HAS(w.why, "--model");
    bench_work_finish(&w);
    CHECK(!bench_llm_open("/nonexistent", &suite, error, sizeof error));
    CHECK_HAS(error, "/nonexistent/config.json");
    bench_suite_close(&suite);
}

// The sum of the logits of a random model; its facts to *about.
static double sum_of(const char *path, int64_t seed, zl_model_info *about) {
    char error[512] = "";
    zl_model model = zl_model_random(path, seed, error, sizeof error);
    double sum = 0;
    if (!CHECK(model))
        test_note("%s", error);
    ZL_SCOPE {
        if (model)
            sum = zl_item(zl_sum(zl_model_logits(model, zl_from_i32((int32_t[]){1, 2, 3}, ZL_SHAPE(1, 3)))));
    }
    *about = zl_model_about(model);
    zl_model_close(model);
    return sum;
}

TEST(random_weights_are_those_of_their_seed) {
    zl_model_info about, quantised;
    const char *path = write_config("");
    double one = sum_of(path, 1, &about);
    CHECK_EQ_F64(one, sum_of(path, 1, &about));
    CHECK(one != sum_of(path, 2, &about));
    // A dense layer, and one of four experts of which a token has one.
    int64_t attention = 2 * 64 * 64 + 2 * 32 * 64 + 2 * 64 + 2 * 32, mlp = 3 * 64 * 64, router = 4 * 64;
    CHECK_EQ_INT(about.parameters, 2 * 40 * 64 + 64 + 2 * attention + mlp + 4 * mlp + router);
    CHECK_EQ_INT(about.active_parameters, 40 * 64 + 64 + 2 * attention + 2 * mlp + router);
    CHECK_EQ_INT((int64_t)about.active_bytes, 4 * about.active_parameters);
    CHECK_EQ_INT((int64_t)about.position_bytes, 2 * 2 * 32 * 4);
    sum_of(write_config(", \"quantization\": {\"group_size\": 32, \"bits\": 4}"), 1, &quantised);
    CHECK_EQ_INT(quantised.parameters, about.parameters);
    CHECK(quantised.bytes * 3 < about.bytes);
}
