// test_lm_gguf.c - models in llama.cpp's files, which make_gguf_cases.py wrote, compared with transformers.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"
#include "zellige_model.h"

#define CASES ZL_TEST_DIR "/model"

static zl_model open_file(const char *name) {
    char path[512], error[512];
    snprintf(path, sizeof path, CASES "/gguf/%s.gguf", name);
    zl_model model = zl_model_open(path, error, sizeof error);
    if (!CHECK(model))
        test_note("%s: %s", name, error);
    return model;
}

static zl_file *expected_of(const char *name) {
    char path[512];
    snprintf(path, sizeof path, CASES "/%s", name);
    return zl_load_npz(path);
}

// Returns the largest difference of the logits from those in a file, in standard deviations of these.
static double apart(zl_model model, zl_file *expected) {
    zl_array logits = zl_file_find(expected, "logits");
    zl_array is = zl_model_logits(model, zl_file_find(expected, "ids"));
    zl_array far = zl_max(zl_abs(zl_subtract(is, logits)));
    return zl_item(zl_divide(far, zl_std(logits, 0)));
}

static void check_logits(const char *name, const char *expected, double most) {
    zl_model model = open_file(name);
    zl_file *file = expected_of(expected);
    ZL_SCOPE {
        double far = model && file ? apart(model, file) : 1;
        if (!CHECK(far < most))
            test_note("%s: logits are %g standard deviations apart", name, far);
    }
    zl_file_free(file);
    zl_model_close(model);
}

TEST(gguf_models_of_floats_have_the_logits_of_transformers) {
    check_logits("llama", "lm/llama/expected.npz", 1e-5);
    check_logits("qwen2", "lm/qwen2/expected.npz", 1e-5);
    check_logits("qwen3", "lm/qwen3/expected.npz", 1e-5);
    check_logits("qwen2_moe", "lm/qwen2_moe/expected.npz", 1e-5);
    check_logits("qwen3_moe", "lm/qwen3_moe/expected.npz", 1e-5);
    check_logits("llama-00001-of-00003", "lm/llama/expected.npz", 1e-5); // in three parts
    check_logits("llama_f16", "lm/llama/expected.npz", 1e-2);            // computed in float16
}

// A matrix of each quantised type.
TEST(gguf_models_of_blocks_have_the_logits_of_what_these_stand_for) {
    check_logits("mixed", "gguf/mixed.npz", 1e-5);
}

TEST(gguf_models_say_what_they_are) {
    zl_model mixed = open_file("mixed"), moe = open_file("qwen3_moe");
    zl_model_info about = zl_model_about(mixed);
    CHECK_STR(about.type, "llama");
    CHECK_EQ_INT(about.parameters, 2 * 40 * 256 + 3 * 256 + (64 + 32 + 32) * 256 + 256 * 64 + 3 * 64 * 256);
    // Bytes of 256 weights with their scales, in the order of the rows below: Q4_K Q5_K Q6_K as in the file,
    // Q8_0 Q4_0 Q4_1 Q5_0, Q6_K Q5_1; float32 norms.
    int64_t bytes = 64 * 144 + 32 * 176 + 32 * 210 + 64 * 32 * (9 + 5 + 5 + 6) + 40 * (210 + 32 * 6);
    CHECK_EQ_INT((int64_t)about.bytes, bytes + 3 * 256 * 4);
    CHECK_EQ_INT(about.bos, 0);
    if (CHECK_EQ_INT(about.eos_count, 2))
        CHECK(about.eos[0] == 38 && about.eos[1] == 39);
    CHECK_STR(zl_model_about(moe).type, "qwen3_moe");
    zl_model_close(mixed);
    zl_model_close(moe);
}

TEST(gguf_parts_that_are_missing_or_not_the_first_are_named) {
    char error[512], command[1024], path[512];
    int status;
    CHECK(!zl_model_open(CASES "/gguf/llama-00002-of-00003.gguf", error, sizeof error));
    CHECK_HAS(error, "is one of 3 parts: open the first, whose name ends with -00001-of-00003.gguf");
    snprintf(command, sizeof command, "cp " CASES "/gguf/llama-00001-of-00003.gguf %s", test_folder());
    free(test_shell(command, &status));
    snprintf(path, sizeof path, "%s/llama-00001-of-00003.gguf", test_folder());
    CHECK(!zl_model_open(path, error, sizeof error));
    CHECK_HAS(error, "llama-00002-of-00003.gguf");
}

// Copies a file with one text replaced by another of the same length, and opens it.
static zl_model open_changed(const char *name, const char *old, const char *new, char *error,
                             size_t error_bytes) {
    char command[1536], path[512];
    int status;
    snprintf(path, sizeof path, "%s/changed.gguf", test_folder());
    snprintf(command, sizeof command, "sed 's|%s|%s|' " CASES "/gguf/%s.gguf > %s", old, new, name, path);
    free(test_shell(command, &status));
    return CHECK_EQ_INT(status, 0) ? zl_model_open(path, error, error_bytes) : NULL;
}

TEST(gguf_keys_and_tensors_that_do_not_fit_are_named) {
    static const struct {
        const char *name, *old, *new, *says;
    } cases[] = {
        {"qwen3", "qwen3.block_count", "qwen3.block_cound",
         "key 'qwen3.block_cound' is unknown, and may change what the model computes"},
        {"qwen3", "general.architecture", "general.architecturf",
         "general.architecture '' is none of llama, qwen2, qwen2moe, qwen3, qwen3moe"},
        {"qwen3", "qwen3.embedding_length", "qwenX.embedding_length",
         "key 'qwen3.embedding_length' is missing"},
        {"qwen3", "blk.1.attn_q.weight", "blk.1.attn_x.weight",
         "tensor 'model.layers.1.self_attn.q_proj.weight' is missing"},
        {"qwen3", "token_embd.weight", "token_embx.weight", "tensor 'token_embd.weight' is missing"},
        {"qwen2", "yarn", "yarx", "key 'qwen2.rope.scaling.type' is none of none, linear, yarn"},
    };
    char error[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zl_model model = open_changed(cases[i].name, cases[i].old, cases[i].new, error, sizeof error);
        if (CHECK(!model))
            CHECK_HAS(error, cases[i].says);
        zl_model_close(model);
    }
}

// Changes some bytes of the metadata and of the list of tensors: the file is rejected with an error, or is
// still a model.
static void open_damaged(unsigned char *data, size_t bytes, const char *path) {
    char error[512] = "";
    size_t at[4];
    unsigned char old[4];
    int changes = (int)test_between(1, 4);
    for (int i = 0; i < changes; i++) {
        at[i] = (size_t)test_between(4, (int64_t)bytes / 8);
        old[i] = data[at[i]];
        data[at[i]] = (unsigned char)test_between(0, 255);
    }
    CHECK(zl_write_file(path, data, bytes));
    zl_model model = zl_model_open(path, error, sizeof error);
    if (!CHECK(model || *error))
        test_note("byte %zu became %d", at[0], data[at[0]]);
    CHECK(!zl_error());
    zl_model_close(model);
    while (changes--)
        data[at[changes]] = old[changes];
}

TEST(gguf_models_with_damage_are_refused_or_open) {
    static const char *const names[] = {"qwen2", "qwen3_moe", "mixed"};
    int times = test_long() ? 100000 : test_quick() ? 20 : 60;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char from[512], to[512];
        static unsigned char data[1 << 17];
        snprintf(from, sizeof from, CASES "/gguf/%s.gguf", names[n]);
        snprintf(to, sizeof to, "%s/damaged.gguf", test_folder());
        FILE *file = fopen(from, "rb");
        size_t bytes = file ? fread(data, 1, sizeof data, file) : 0;
        if (file)
            fclose(file);
        for (int i = 0; CHECK(bytes > 4096) && i < times; i++)
            ZL_SCOPE {
                open_damaged(data, bytes, to);
            }
    }
}
