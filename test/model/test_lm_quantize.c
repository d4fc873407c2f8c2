// test_lm_quantize.c - quantising checkpoints: what is written, what is unchanged, what is refused.
// oracle_quantize.py compares the tensors with mlx-lm's.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"
#include "zellige_model.h"

enum { HIDDEN = 64, LAYERS = 9, WORDS = 40 };

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 9, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 1, \"intermediate_size\": 96, \"vocab_size\": 40, \"eos_token_id\": [38, 39], "
    "\"rope_theta\": 1e4, \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": true, \"torch_dtype\": "
    "\"bfloat16\"}";

static void add(zl_file *file, const char *name, zl_shape shape) {
    static int count = 0;
    zl_array a = zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, zl_random_key(count++));
    a = shape.ndim == 2 ? zl_multiply(a, zl_scalar(0.125))
                        : a; // one over the square root of the length of its rows
    CHECK(zl_file_add(file, name, zl_astype(a, ZL_BFLOAT16)));
}

// Writes a checkpoint of random numbers, and a file of a tokenizer.
static void write_checkpoint(const char *folder) {
    static const struct {
        const char *name;
        int rows, columns; // rows 0: a vector
    } parts[] = {
        {"input_layernorm", 0, 64},   {"post_attention_layernorm", 0, 64},
        {"self_attn.q_proj", 64, 64}, {"self_attn.k_proj", 32, 64},
        {"self_attn.v_proj", 32, 64}, {"self_attn.o_proj", 64, 64},
        {"mlp.gate_proj", 96, 64},    {"mlp.up_proj", 96, 64},
        {"mlp.down_proj", 64, 96}, // not a multiple of 64
    };
    char path[600];
    zl_file *file = zl_file_new();
    ZL_SCOPE {
        add(file, "model.embed_tokens.weight", ZL_SHAPE(WORDS, HIDDEN));
        add(file, "model.norm.weight", ZL_SHAPE(HIDDEN));
        for (int i = 0; i < LAYERS; i++)
            for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
                char name[96];
                snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, parts[p].name);
                int64_t dim[] = {parts[p].rows, parts[p].columns};
                add(file, name, (zl_shape){dim + !parts[p].rows, 1 + (parts[p].rows > 0)});
            }
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        CHECK(zl_save_safetensors(path, file));
    }
    zl_file_free(file);
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK(zl_write_file(path, config, strlen(config)));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    CHECK(zl_write_file(path, "{}", 2));
}

static char *path_of(const char *name) {
    static char path[4][600];
    static int next = 0;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", test_folder(), name);
    return out;
}

static bool quantise(const char *out, const zl_quantize_options *how, char *error) {
    error[0] = '\0';
    bool done = zl_model_quantize(test_folder(), out, how, error, 512);
    if (!done)
        test_note("%s", error);
    return done;
}

// Returns the largest difference of logits, in standard deviations.
static double apart(zl_model a, zl_model b) {
    double far = 1;
    ZL_SCOPE {
        zl_array ids = zl_from_i32((int32_t[]){1, 5, 9, 2, 6, 30, 39, 0}, ZL_SHAPE(1, 8));
        zl_array x = zl_astype(zl_model_logits(a, ids), ZL_FLOAT32),
                 y = zl_astype(zl_model_logits(b, ids), ZL_FLOAT32);
        far = zl_item(zl_divide(zl_max(zl_abs(zl_subtract(x, y))), zl_std(x, 0)));
    }
    return far;
}

TEST(a_quantised_checkpoint_opens_and_is_nearly_the_model_that_it_was) {
    char error[512];
    write_checkpoint(test_folder());
    CHECK(quantise(path_of("eight"), &(zl_quantize_options){.bits = 8, .group_size = 32}, error));
    zl_model was = zl_model_open(test_folder(), error, sizeof error);
    zl_model is = zl_model_open(path_of("eight"), error, sizeof error);
    if (CHECK(was) && CHECK(is)) {
        double far = apart(was, is);
        if (!CHECK(far < 0.2))
            test_note("logits are %g standard deviations apart", far);
        zl_model_info before = zl_model_about(was), after = zl_model_about(is);
        CHECK_EQ_INT(after.parameters, before.parameters);
        CHECK(after.bytes < before.bytes * 2 / 3);
        CHECK_EQ_INT(after.eos_count, 2);
    }
    zl_model_close(was);
    zl_model_close(is);
    CHECK(!access(path_of("eight/tokenizer.json"), F_OK));
    CHECK(!access(path_of("eight/model.safetensors.index.json"), F_OK));
}

// Returns the largest difference of a quantised model's logits from those of transformers, in standard
// deviations of these.
static double apart_from_expected(zl_model model, const char *name) {
    char path[512];
    double far = 1;
    snprintf(path, sizeof path, ZL_TEST_DIR "/model/lm/%s/expected.npz", name);
    zl_file *expected = zl_load_npz(path);
    if (CHECK(expected))
        ZL_SCOPE {
            zl_array logits = zl_file_find(expected, "logits");
            zl_array is = zl_astype(zl_model_logits(model, zl_file_find(expected, "ids")), ZL_FLOAT32);
            far = zl_item(zl_divide(zl_max(zl_abs(zl_subtract(is, logits))), zl_std(logits, 0)));
        }
    zl_file_free(expected);
    return far;
}

// Hybrid models get MLX's names, layouts of convolutions and norms, and are read back as the same model.
TEST(models_with_linear_attention_are_quantised_too) {
    static const char *const names[] = {"qwen3_next", "qwen3_5", "qwen3_5_moe"};
    char error[512], from[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(from, sizeof from, ZL_TEST_DIR "/model/lm/%s", names[i]);
        error[0] = '\0';
        bool done =
            zl_model_quantize(from, path_of(names[i]), &(zl_quantize_options){.bits = 8, .group_size = 32},
                              error, sizeof error);
        zl_model model = done ? zl_model_open(path_of(names[i]), error, sizeof error) : NULL;
        double far = model ? apart_from_expected(model, names[i]) : 1;
        if (!CHECK(far < 0.2))
            test_note("%s: logits are %g standard deviations apart; %s", names[i], far, error);
        zl_model_close(model);
    }
    zl_file *file = zl_load_safetensors(path_of("qwen3_5_moe/model.safetensors"));
    if (CHECK(file)) {
        CHECK(zl_file_find(file, "language_model.model.embed_tokens.weight"));
        CHECK(zl_file_find(file, "language_model.model.layers.1.mlp.switch_mlp.gate_proj.weight"));
        CHECK_EQ_INT(zl_dim(zl_file_find(file, "language_model.model.layers.0.linear_attn.conv1d.weight"), 2),
                     1);
        CHECK(zl_file_find(file, "language_model.model.layers.1.self_attn.o_proj.scales"));
    }
    zl_file_free(file);
}

// Returns the bits per weight of a matrix of the model in a folder; 0: it is not quantised.
static int bits_of(zl_file *file, const char *name, int columns) {
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    zl_array weight = zl_file_find(file, full);
    return zl_dtype_of(weight) == ZL_UINT32 ? (int)(zl_dim(weight, 1) * 32 / columns) : 0;
}

TEST(rules_give_some_matrices_more_bits_and_rows_of_other_lengths_stay) {
    char error[512];
    write_checkpoint(test_folder());
    CHECK(quantise(path_of("mixed"), &(zl_quantize_options){.mixed = "mixed_2_6"}, error));
    zl_file *file = zl_load_safetensors(path_of("mixed/model.safetensors"));
    if (CHECK(file)) {
        // Of nine layers: the first, the last two, and every third of the others.
        static const bool more[LAYERS] = {true, false, false, true, false, false, true, true, true};
        for (int i = 0; i < LAYERS; i++) {
            char v[64], q[64], down[64];
            snprintf(v, sizeof v, "model.layers.%d.self_attn.v_proj", i);
            snprintf(q, sizeof q, "model.layers.%d.self_attn.q_proj", i);
            snprintf(down, sizeof down, "model.layers.%d.mlp.down_proj", i);
            CHECK_EQ_INT(bits_of(file, v, HIDDEN), more[i] ? 6 : 2);
            CHECK_EQ_INT(bits_of(file, q, HIDDEN), 2);
            CHECK_EQ_INT(bits_of(file, down, 96), 0);
        }
        CHECK_EQ_INT(bits_of(file, "model.embed_tokens", HIDDEN), 2);
    }
    zl_file_free(file);
    zl_model model = zl_model_open(path_of("mixed"), error, sizeof error);
    if (!CHECK(model))
        test_note("%s", error);
    zl_model_close(model);
}

static bool stop(void *context, int64_t done, int64_t all) {
    int *calls = context;
    return done <= all && ++*calls < 3;
}

// Returns the number of entries in the test's folder.
static int entries(void) {
    char command[600];
    int status;
    snprintf(command, sizeof command, "ls %s | wc -l", test_folder());
    char *count = test_shell(command, &status);
    int number = count ? atoi(count) : -1;
    free(count);
    return number;
}

TEST(quantising_leaves_nothing_behind_when_it_fails) {
    char error[512];
    int calls = 0;
    write_checkpoint(test_folder());
    int before = entries();
    CHECK(!zl_model_quantize(test_folder(), path_of("out"),
                             &(zl_quantize_options){.progress = stop, .context = &calls}, error,
                             sizeof error));
    CHECK_STR(error, "interrupted");
    CHECK_EQ_INT(calls, 3);
    CHECK_EQ_INT(entries(), before);
}

TEST(quantising_refuses_what_it_cannot_do) {
    static const struct {
        zl_quantize_options how;
        const char *says;
    } cases[] = {
        {{.bits = 7}, "7 bits: 2, 3, 4, 5, 6 or 8 are possible"},
        {{.group_size = 16}, "groups of 16: 32, 64 or 128 are possible"},
        {{.mode = "q4"}, "mode 'q4' is none of affine, mxfp4, mxfp8, nvfp4"},
        {{.mode = "mxfp4", .bits = 8}, "8 bits do not fit mode mxfp4"},
        {{.mixed = "best"}, "mixed rule 'best': mixed_2_6"},
        {{.mixed = "mixed_3_6", .mode = "nvfp4"}, "in mode affine"},
    };
    char error[512];
    write_checkpoint(test_folder());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (CHECK(!zl_model_quantize(test_folder(), path_of("out"), &cases[i].how, error, sizeof error)))
            CHECK_HAS(error, cases[i].says);
    CHECK(!zl_model_quantize(test_folder(), test_folder(), NULL, error, sizeof error));
    CHECK_HAS(error, "is there already");
    CHECK(!zl_model_quantize(ZL_TEST_DIR "/model/lm/qwen3_quantized", path_of("out"), NULL, error,
                             sizeof error));
    CHECK_HAS(error, "is quantised already");
    CHECK(
        !zl_model_quantize(ZL_TEST_DIR "/model/gguf/qwen3.gguf", path_of("out"), NULL, error, sizeof error));
    CHECK_HAS(error, "is a GGUF file");
}
