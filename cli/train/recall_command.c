// recall_command.c - `zellige train recall`: multi-query associative recall. A sequence is some pairs of a key and a value, then all its
// keys in another order; at each of these the model is to say the value. So it must keep all pairs in its state.

#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
    {"pairs", 0, "N", NULL, "pairs of a key and a value per sequence (default 16)"},
    {"words", 0, "N", NULL, "different keys, and as many values (default 256, or twice the pairs)"},
    TRAIN_MODEL_OPTIONS,
    TRAIN_STEP_OPTIONS,
    TRAIN_CHECKPOINT_OPTIONS,
    {0},
};

struct recall {
    struct train_model model;
    int pairs, words;
    int32_t *ids, *targets, *order; // of a batch; order: keys, or pairs, to draw from
};

enum { TESTED = 2048 }; // at least so many questions are a test

static const int64_t first_tested = INT64_C(1) << 41; // batches from here on are not trained on

static int32_t draw(int32_t *order, int at, int count, uint64_t random) {
    int other = at + (int)(random % (uint64_t)(count - at));
    int32_t drawn = order[other];
    order[other] = order[at];
    return order[at] = drawn;
}

// ids: keys and their values, then questions; targets: the answers to these.
static void draw_sequence(const struct recall *r, uint64_t seed, uint64_t sequence, int32_t *ids,
                          int32_t *targets) {
    uint64_t at = 0, words = (uint64_t)r->words;
    for (int i = 0; i < r->words; i++)
        r->order[i] = i;
    for (int i = 0; i < r->pairs; i++) {
        ids[2 * i] = draw(r->order, i, r->words, train_random(seed, sequence, at++));
        ids[2 * i + 1] = r->words + (int32_t)(train_random(seed, sequence, at++) % words);
    }
    for (int i = 0; i < r->pairs; i++)
        r->order[i] = i;
    for (int i = 0; i < r->pairs; i++) {
        int pair = draw(r->order, i, r->pairs, train_random(seed, sequence, at++));
        ids[2 * r->pairs + i] = ids[2 * pair], targets[i] = ids[2 * pair + 1];
    }
}

// ids (batch, 3 * pairs), targets (batch, pairs).
static void make_batch(const struct train_task *task, int64_t seed, int64_t index, zl_array *in) {
    const struct recall *r = task->data;
    for (int64_t i = 0; i < task->sequences; i++)
        draw_sequence(r, (uint64_t)seed, (uint64_t)(index * task->sequences + i), r->ids + i * 3 * r->pairs,
                      r->targets + i * r->pairs);
    in[0] = zl_from_i32(r->ids, ZL_SHAPE(task->sequences, 3 * r->pairs));
    in[1] = zl_from_i32(r->targets, ZL_SHAPE(task->sequences, r->pairs));
}

// The logits where something is asked: in the last third.
static zl_array answers(zl_nn nn, const struct recall *r, zl_array ids) {
    zl_array logits = train_logits(nn, &r->model, ids);
    return logits ? zl_slice(logits, ZL_SHAPE(0, 2 * r->pairs, 0), zl_shape_of(logits), ZL_SHAPE(1, 1, 1))
                  : NULL;
}

static zl_array loss_of(zl_nn nn, int count, const zl_array *in, void *data) {
    return zl_nn_cross_entropy(answers(nn, data, in[0]), in[count - 1], NULL);
}

static bool test(const struct train_task *task, const struct train_run *run, double *loss, double *accuracy) {
    const struct recall *r = task->data;
    int64_t asked = task->sequences * r->pairs, batches = (TESTED + asked - 1) / asked;
    double sum = 0, right = 0;
    bool done = true;
    for (int64_t i = 0; done && i < batches; i++)
        ZL_SCOPE {
            zl_array in[TRAIN_INPUTS_MOST];
            task->batch(task, run->seed, first_tested + i, in);
            zl_array logits = answers(run->nn, r, in[0]);
            zl_array best = zl_astype(zl_argmax_axis(logits, -1, false), ZL_INT32);
            zl_array results[] = {zl_mean(zl_astype(zl_equal(best, in[1]), ZL_FLOAT32)),
                                  zl_nn_cross_entropy(logits, in[1], NULL)};
            done = zl_eval_all(2, results) && !cli_interrupted();
            right += done ? zl_item(results[0]) : 0;
            sum += done ? zl_item(results[1]) : 0;
        }
    *loss = sum / (double)batches, *accuracy = right / (double)batches;
    return done;
}

static bool allocate(struct recall *r, int64_t sequences) {
    size_t pairs = (size_t)sequences * (size_t)r->pairs;
    r->ids = malloc(3 * pairs * sizeof *r->ids);
    r->targets = malloc(pairs * sizeof *r->targets);
    r->order = malloc((size_t)r->words * sizeof *r->order);
    return r->ids && r->targets && r->order;
}

static int run(const struct invocation *call) {
    struct recall r = {.model = {.layers = 1, .width = 64, .mixer = {.heads = 1}}};
    struct train_task task = {.data = &r, .inputs = 2, .batch = make_batch, .test = test};
    struct train_run training = {0};
    int64_t pairs = 16, words = 0;
    if (!cli_integer(call, "pairs", 1, 1 << 16, &pairs) ||
        !cli_integer(call, "words", pairs, 1 << 20, &words) || !train_read_model(call, &r.model) ||
        !train_read_steps(call, &task))
        return CLI_USAGE;
    r.pairs = (int)pairs, r.words = words ? (int)words : pairs > 128 ? 2 * (int)pairs : 256;
    r.model.vocabulary = 2 * r.words;
    task.tokens = task.sequences * 3 * pairs;
    int code = train_begin(&training, call);
    train_describe(&training, &task, &r.model, "train recall --pairs %d --words %d", r.pairs, r.words);
    if (code == CLI_OK)
        code = train_open(&training, loss_of, &r, &task.options);
    if (code == CLI_OK && !allocate(&r, task.sequences))
        code = cli_fail(call, "out of memory");
    if (code == CLI_OK)
        code = train_sequences(&training, &task);
    train_close(&training);
    free(r.ids), free(r.targets), free(r.order);
    return code;
}

const struct command cli_train_recall = {
    .name = "train recall",
    .summary = "Train a mixer on multi-query associative recall",
    .details = "A sequence is some pairs of a key and a value, then its keys in another order, at each of "
               "which the model is\n"
               "to say the value. Tests are sequences that are not trained on.\n"
               "  zellige train recall --mixer gated_delta --pairs 32 --key-dim 32",
    .options = options,
    .run = run,
};
