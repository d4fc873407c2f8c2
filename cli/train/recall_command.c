// recall_command.c - `zellige train recall`: multi-query associative recall. A sequence consists of pairs of
// a key and a value, then all keys in another order; after each of these the model is to predict the value.
// So it must keep all pairs in its state.
//
// Tests have such sequences. In the first half of a training the questions come sooner: after 1 pair, then
// after 2, 4 and so on, because nothing is learned from many pairs before one pair is understood.

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
    int64_t batches;        // of the whole training
    int32_t *ids, *targets; // of a batch
    int32_t *order, *pair;  // keys to draw from; order of the pairs of a block
    bool *asked;            // whether each position has a target
};

enum { TESTED = 2048 }; // a test has at least this many questions

static const int64_t first_tested = INT64_C(1) << 41; // batches from this index on are only for tests

static int32_t draw(int32_t *order, int at, int count, uint64_t random) {
    int other = at + (int)(random % (uint64_t)(count - at));
    int32_t drawn = order[other];
    order[other] = order[at];
    return order[at] = drawn;
}

// Draws one sequence: blocks of `block` pairs, each block followed by questions about its pairs.
static void draw_sequence(const struct recall *r, int block, uint64_t seed, uint64_t sequence, int32_t *ids,
                          int32_t *targets, bool *asked) {
    uint64_t drawn = 0, words = (uint64_t)r->words;
    int place = 0;
    for (int i = 0; i < r->words; i++)
        r->order[i] = i;
    for (int first = 0; first < r->pairs; first += block) {
        int count = r->pairs - first < block ? r->pairs - first : block, start = place;
        for (int i = 0; i < count; i++) {
            ids[place] = draw(r->order, first + i, r->words, train_random(seed, sequence, drawn++));
            targets[place] = 0, asked[place++] = false;
            ids[place] = r->words + (int32_t)(train_random(seed, sequence, drawn++) % words);
            targets[place] = 0, asked[place++] = false;
        }
        for (int i = 0; i < count; i++)
            r->pair[i] = i;
        for (int i = 0; i < count; i++) {
            int pair = start + 2 * draw(r->pair, i, count, train_random(seed, sequence, drawn++));
            ids[place] = ids[pair], targets[place] = ids[pair + 1], asked[place++] = true;
        }
    }
}

// Returns the pairs per block of a batch: all pairs in the second half of the training, and in tests.
static int block_of(const struct recall *r, int64_t index) {
    int stages = 0;
    while (1 << stages < r->pairs)
        stages++;
    int64_t half = r->batches / 2, stage = index < half ? index * stages / half : stages;
    return stage < stages ? 1 << stage : r->pairs;
}

// Sets `in` to the ids, the targets, and whether each target counts in the loss: all (batch, 3 * pairs).
static void make_batch(const struct train_task *task, int64_t seed, int64_t index, int64_t first,
                       int64_t count, zl_array *in) {
    const struct recall *r = task->data;
    int64_t length = 3 * r->pairs;
    for (int64_t i = 0; i < count; i++)
        draw_sequence(r, block_of(r, index), (uint64_t)seed, (uint64_t)(index * task->sequences + first + i),
                      r->ids + i * length, r->targets + i * length, r->asked + i * length);
    in[0] = zl_from_i32(r->ids, ZL_SHAPE(count, length));
    in[1] = zl_from_i32(r->targets, ZL_SHAPE(count, length));
    in[2] = zl_from_bool(r->asked, ZL_SHAPE(count, length));
}

static zl_array loss_of(zl_nn nn, int count, const zl_array *in, void *data) {
    const struct recall *r = data;
    return zl_nn_cross_entropy(train_logits(nn, &r->model, in[0]), in[1], in[count - 1]);
}

// Slices x (batch, 3 * pairs, ...) to the last third of a test sequence, where the questions are.
static zl_array last_third(const struct recall *r, zl_array x) {
    const int64_t start[] = {0, 2 * r->pairs, 0}, step[] = {1, 1, 1};
    int axes = x ? zl_ndim(x) : 0;
    return x ? zl_slice(x, (zl_shape){start, axes}, zl_shape_of(x), (zl_shape){step, axes}) : NULL;
}

static bool test(const struct train_task *task, const struct train_run *run, double *loss, double *accuracy) {
    const struct recall *r = task->data;
    int64_t asked = task->sequences * r->pairs, batches = (TESTED + asked - 1) / asked;
    double sum = 0, right = 0;
    bool done = true;
    for (int64_t i = 0; done && i < batches; i++)
        ZL_SCOPE {
            zl_array in[TRAIN_INPUTS_MOST];
            task->batch(task, run->seed, first_tested + i, 0, task->sequences, in);
            zl_array logits = last_third(r, train_logits(run->nn, &r->model, in[0])),
                     targets = last_third(r, in[1]);
            zl_array best = zl_astype(zl_argmax_axis(logits, -1, false), ZL_INT32);
            zl_array results[] = {zl_mean(zl_astype(zl_equal(best, targets), ZL_FLOAT32)),
                                  zl_nn_cross_entropy(logits, targets, NULL)};
            done = zl_eval_all(2, results) && !cli_interrupted();
            right += done ? zl_item(results[0]) : 0;
            sum += done ? zl_item(results[1]) : 0;
        }
    *loss = sum / (double)batches, *accuracy = right / (double)batches;
    return done;
}

static bool allocate(struct recall *r, int64_t sequences) {
    size_t tokens = 3 * (size_t)sequences * (size_t)r->pairs;
    r->ids = malloc(tokens * sizeof *r->ids);
    r->targets = malloc(tokens * sizeof *r->targets);
    r->asked = malloc(tokens * sizeof *r->asked);
    r->order = malloc((size_t)r->words * sizeof *r->order);
    r->pair = malloc((size_t)r->pairs * sizeof *r->pair);
    return r->ids && r->targets && r->asked && r->order && r->pair;
}

static int run(const struct invocation *call) {
    struct recall r = {.model = {.layers = 1, .width = 64, .mixer = {.heads = 1}}};
    struct train_task task = {.data = &r, .inputs = 3, .batch = make_batch, .test = test};
    struct train_run training = {0};
    int64_t pairs = 16, words = 0;
    if (!cli_integer(call, "pairs", 1, 1 << 16, &pairs) ||
        !cli_integer(call, "words", pairs, 1 << 20, &words) || !train_read_model(call, &r.model) ||
        !train_read_steps(call, &task))
        return CLI_USAGE;
    r.pairs = (int)pairs, r.words = words ? (int)words : pairs > 128 ? 2 * (int)pairs : 256;
    r.model.vocabulary = 2 * r.words;
    r.batches = task.options.steps * task.options.accumulate;
    task.tokens = task.sequences * 3 * pairs;
    int code = train_begin(&training, call);
    train_describe(&training, &task, &r.model, "train recall --pairs %d --words %d", r.pairs, r.words);
    if (code == CLI_OK)
        code = train_open(&training, loss_of, &r, &task.options, 0, NULL);
    if (code == CLI_OK && !allocate(&r, task.sequences))
        code = cli_fail(call, "out of memory");
    if (code == CLI_OK)
        code = train_sequences(&training, &task);
    train_close(&training);
    free(r.ids), free(r.targets), free(r.asked), free(r.order), free(r.pair);
    return code;
}

const struct command cli_train_recall = {
    .name = "train recall",
    .summary = "Train a mixer on multi-query associative recall",
    .details = "A sequence is some pairs of a key and a value, then its keys in another order, at each of "
               "which the model is\n"
               "to say the value. Tests are sequences that are not trained on. In the first half of the "
               "steps keys are asked for sooner.\n"
               "The model has 1 layer of 64 numbers and 1 head if options do not say otherwise.\n"
               "  zellige train recall --mixer gated_delta --pairs 32 --key-dim 32",
    .options = options,
    .run = run,
};
