// lm_command.c - `zellige train lm`: trains a small language model on a plain text, on its bytes or on a
// tokenizer's ids. The end of the text is held out for tests.

#include "train.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/text.h"

static const struct option options[] = {
    {"tokenizer", 0, "PATH", "*.json", "tokenizer.json, or its folder, of a byte-level BPE (default: bytes)"},
    {"context", 0, "N", NULL, "tokens per sequence (default 128)"},
    {"held-out", 0, "X", NULL, "share of the text that is tested on (default 0.1)"},
    {"tested", 0, "N", NULL, "most sequences per test (default 64)"},
    TRAIN_MODEL_OPTIONS,
    TRAIN_STEP_OPTIONS,
    TRAIN_CHECKPOINT_OPTIONS,
    TRAIN_MESH_OPTIONS,
    {0},
};

// The text to train on. A text of bytes is mapped, so that a rank only reads its part of the batches; ids are
// computed from the whole text.
struct corpus {
    struct train_model model;
    const unsigned char *text; // NULL: ids are used
    size_t text_bytes;
    struct text_ids ids;
    int64_t context, learned, tested; // learned: ids before those held out; tested: number of test sequences
    int32_t *batch;
};

// Makes the inputs from sequences of context + 1 ids that begin at start[i]: the ids, and the ids that follow
// each.
static void take(const struct corpus *c, int64_t count, const int64_t *start, zl_array *in) {
    int64_t length = c->context + 1;
    for (int64_t i = 0; i < count; i++)
        for (int64_t t = 0; t < length; t++)
            c->batch[i * length + t] = c->text ? c->text[start[i] + t] : c->ids.id[start[i] + t];
    zl_array all = zl_from_i32(c->batch, ZL_SHAPE(count, length));
    in[0] = zl_slice(all, ZL_SHAPE(0, 0), ZL_SHAPE(count, length - 1), ZL_SHAPE(1, 1));
    in[1] = zl_slice(all, ZL_SHAPE(0, 1), ZL_SHAPE(count, length), ZL_SHAPE(1, 1));
}

enum { SEQUENCES_MOST = 4096 }; // per batch

static void make_batch(const struct train_task *task, int64_t seed, int64_t index, int64_t first,
                       int64_t count, zl_array *in) {
    const struct corpus *c = task->data;
    int64_t start[SEQUENCES_MOST];
    for (int64_t i = 0; i < count; i++)
        start[i] = (int64_t)(train_random((uint64_t)seed, (uint64_t)index, (uint64_t)(first + i)) %
                             (uint64_t)(c->learned - c->context));
    take(c, count, start, in);
}

static zl_array loss_of(zl_nn nn, int count, const zl_array *in, void *data) {
    const struct corpus *c = data;
    return zl_nn_cross_entropy(train_logits(nn, &c->model, in[0]), in[count - 1], NULL);
}

// Computes the mean loss of sequences taken at equal distances from the held-out text. The ranks share the
// sequences of a batch if their number divides it.
static bool test(const struct train_task *task, const struct train_run *run, double *loss, double *accuracy) {
    struct corpus *c = task->data;
    int64_t last = (int64_t)c->ids.count - c->context - 1, room = last - c->learned;
    double sum = 0;
    bool done = true;
    (void)accuracy;
    for (int64_t at = 0; done && at < c->tested; at += task->sequences)
        ZL_SCOPE {
            zl_array in[TRAIN_INPUTS_MOST];
            int64_t start[SEQUENCES_MOST],
                first = 0, count = c->tested - at < task->sequences ? c->tested - at : task->sequences,
                own = count;
            if (count == task->sequences)
                done = zl_nn_rows(run->nn, count, &first, &own);
            for (int64_t i = 0; i < own; i++)
                start[i] = c->learned + (c->tested > 1 ? room * (at + first + i) / (c->tested - 1) : 0);
            take(c, own, start, in);
            zl_array mean = done ? zl_nn_mean_of_rows(run->nn, loss_of(run->nn, 2, in, c)) : NULL;
            done = mean && zl_eval(mean) && !cli_interrupted();
            sum += done ? zl_item(mean) * (double)count : 0;
        }
    *loss = sum / (double)c->tested;
    return done;
}

// Maps a file, whose bytes are the ids.
static bool map_bytes(struct corpus *c, const char *path, char *error, size_t error_bytes) {
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *text = file >= 0 && !fstat(file, &about) && S_ISREG(about.st_mode) && about.st_size
                     ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0)
                     : MAP_FAILED;
    if (text == MAP_FAILED)
        snprintf(error, error_bytes, "%s: %s", path, file < 0 ? strerror(errno) : "no file with bytes in it");
    if (file >= 0)
        close(file);
    if (text == MAP_FAILED)
        return false;
    c->text = text;
    c->ids.count = c->text_bytes = (size_t)about.st_size;
    c->model.vocabulary = 256;
    return true;
}

static bool encode(struct corpus *c, const char *path, const char *tokenizer, char *error,
                   size_t error_bytes) {
    size_t bytes;
    char *text = text_read_file(path, &bytes, error, error_bytes);
    if (!text)
        return false;
    text_tokenizer t = text_tokenizer_open(tokenizer, NULL, error, error_bytes);
    struct text_encoder *encoder = t ? text_encoder_new(t, error, error_bytes) : NULL;
    const struct text_encode_options how = {.plain_special = true};
    bool done = encoder && text_encode(encoder, text, bytes, &how, &c->ids, error, error_bytes);
    c->model.vocabulary = done ? text_token_count(t) : 0;
    text_encoder_free(encoder);
    text_tokenizer_close(t);
    free(text);
    return done;
}

static int read_corpus(const struct invocation *call, struct corpus *c, double held_out, bool speaks) {
    char error[512] = "";
    const char *path = call->operands[0], *tokenizer = cli_option(call, "tokenizer");
    if (tokenizer ? !encode(c, path, tokenizer, error, sizeof error)
                  : !map_bytes(c, path, error, sizeof error))
        return cli_fail(call, "%s", error);
    c->learned = (int64_t)((double)c->ids.count * (1 - held_out));
    int64_t rest = (int64_t)c->ids.count - c->learned;
    if (c->learned <= c->context || rest <= c->context)
        return cli_fail(call,
                        "%s has %zu tokens, %lld of them held out: both parts need more than --context %lld",
                        path, c->ids.count, (long long)rest, (long long)c->context);
    if (!call->json && call->verbosity >= 0 && speaks)
        printf("%lld tokens to learn, %lld held out\n", (long long)c->learned, (long long)rest);
    return CLI_OK;
}

static int run(const struct invocation *call) {
    struct corpus c = {
        .model = {.layers = 2, .width = 128, .mixer = {.heads = 4}}, .context = 128, .tested = 64};
    struct train_task task = {.data = &c, .inputs = 2, .batch = make_batch, .test = test};
    struct train_run training = {0};
    double held_out = 0.1;
    if (call->operand_count != 1)
        return cli_usage(call, "wanted a FILE of text");
    if (!cli_integer(call, "context", 1, 1 << 20, &c.context) ||
        !cli_number(call, "held-out", 1e-6, 0.9, &held_out) ||
        !cli_integer(call, "tested", 1, 1 << 20, &c.tested) || !train_read_model(call, &c.model) ||
        !train_read_steps(call, &task))
        return CLI_USAGE;
    if (task.sequences > SEQUENCES_MOST)
        return cli_usage(call, "--batch %lld: at most %d are possible", (long long)task.sequences,
                         SEQUENCES_MOST);
    task.tokens = task.sequences * c.context;
    int code = train_begin(&training, call);
    if (code == CLI_OK)
        code = read_corpus(call, &c, held_out, training.speaks);
    train_describe(&training, &task, &c.model, "train lm of %zu tokens, %lld learned, of %d, --context %lld",
                   c.ids.count, (long long)c.learned, c.model.vocabulary, (long long)c.context);
    c.batch = malloc((size_t)task.sequences * (size_t)(c.context + 1) * sizeof *c.batch);
    if (code == CLI_OK && !c.batch)
        code = cli_fail(call, "out of memory");
    if (code == CLI_OK)
        code = train_open(&training, loss_of, &c, &task.options, train_shard_rows, train_shards);
    if (code == CLI_OK)
        code = train_sequences(&training, &task);
    train_close(&training);
    if (c.text)
        munmap((void *)(uintptr_t)c.text, c.text_bytes);
    free(c.ids.id), free(c.batch);
    return code;
}

const struct command cli_train_lm = {
    .name = "train lm",
    .operands = "FILE",
    .words = "*.txt",
    .operands_most = 1,
    .summary = "Train a small language model on a text",
    .details = "The end of the text is held out: the loss on it, in nats per token, is printed after every "
               "test. A resumed training\n"
               "goes on as if it had never been interrupted.\n"
               "The model has 2 layers of 128 numbers and 4 heads if options do not say otherwise.\n"
               "With --mesh, ranks that a launcher started train together. SIGTERM and SIGUSR1 save and end "
               "with code 75.\n"
               "  zellige train lm book.txt --mixer kda --checkpoint lm.safetensors\n"
               "  zellige launch -n 4 -- zellige train lm book.txt --mesh fsdp=4",
    .options = options,
    .run = run,
};
