// work_llm.c - a language model. Ops: pp computes the tokens of a prompt after a context, tg draws tokens one
// after the other; sizes are (tokens, context). The limit of tg is the time to read the cache and the weights
// by which a token is multiplied.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "zellige_model.h"

// The model of all runs of this process.
static struct {
    zl_model model;
    zl_model_info about;
} all;

struct llm {
    zl_sequence sequence;
    int32_t *ids;
    int64_t tokens, context;
};

static enum bench_dtype dtype_of(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 ? BENCH_F16 : dtype == ZL_BFLOAT16 ? BENCH_BF16 : BENCH_F32;
}

// Copies the name of the folder, such as Qwen3-0.6B of "…/Qwen3-0.6B/config.json".
static void name_of(const char *path, char *out, size_t bytes) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", path);
    for (size_t length = strlen(copy); length && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    char *name = strrchr(copy, '/');
    if (name && !strcmp(name, "/config.json")) {
        *name = '\0';
        name = strrchr(copy, '/');
    }
    snprintf(out, bytes, "%.*s", (int)bytes - 1, name ? name + 1 : copy);
}

bool bench_llm_open(const char *path, struct bench_suite *suite, char *error, size_t error_bytes) {
    char weights[600], name[64];
    size_t length = strlen(path);
    snprintf(weights, sizeof weights, "%s/model.safetensors", path);
    bool is_file = length > 5 && !strcmp(path + length - 5, ".json");
    bool is_folder = !is_file && !access(weights, F_OK);
    snprintf(weights, sizeof weights, "%s/model.safetensors.index.json", path);
    is_folder = is_folder || (!is_file && !access(weights, F_OK));
    snprintf(weights, sizeof weights, "%s/config.json", path);
    bool is_random = is_file || (!is_folder && !access(weights, F_OK));
    bench_llm_close();
    all.model =
        is_random ? zl_model_random(path, 1, error, error_bytes) : zl_model_open(path, error, error_bytes);
    if (!all.model)
        return false;
    all.about = zl_model_about(all.model);
    name_of(path, name, sizeof name);
    for (int i = 0; i < suite->count; i++) {
        struct bench_config *c = &suite->config[i];
        if (strcmp(c->work, "llm") != 0)
            continue;
        size_t used = strlen(c->op);
        snprintf(c->op + used, sizeof c->op - used, ".%.20s", name);
        cli_clean(c->op, false);
        c->dtype = dtype_of(all.about.dtype);
        bench_config_name(c);
    }
    return true;
}

void bench_llm_close(void) {
    zl_model_close(all.model);
    all.model = NULL;
}

static void finish(struct bench_work *w) {
    struct llm *l = w->data;
    zl_sequence_close(l->sequence);
    free(l->ids);
}

static bool prefill(struct bench_work *w, struct llm *l) {
    while (zl_sequence_prefill(l->sequence, NULL, w->why, sizeof w->why))
        ;
    return !*w->why;
}

static bool is_prompt(const struct bench_work *w) {
    return !strncmp(w->config->op, "pp", 2);
}

// Counts one run: products with the weights for each token, and attention to the tokens before it.
static void count(struct bench_work *w, const struct llm *l) {
    double tokens = (double)l->tokens, seen = (double)l->context + tokens / 2,
           passes = is_prompt(w) ? 1 : tokens;
    double weights = (double)all.about.active_parameters, cached = (double)all.about.position_bytes;
    w->items = tokens;
    double scores =
        4.0 * all.about.layers * all.about.heads * all.about.head_dim * seen; // the products with keys, and
                                                                              // those with values
    w->flops = tokens * (2 * weights + scores);
    w->bytes = passes * ((double)all.about.active_bytes + cached * seen);
}

static bool prepare(struct bench_work *w) {
    const struct bench_config *c = w->config;
    struct llm *l = w->data = calloc(1, sizeof *l);
    if (!all.model)
        return bench_fail(
            w, "llm needs a model: --model with a checkpoint, or a config.json for random weights");
    if (c->dims != 2 || (!is_prompt(w) && strncmp(c->op, "tg", 2) != 0))
        return bench_fail(w, "llm is pp or tg of tokens behind a context: [512, 4096]");
    if (!l)
        return bench_fail(w, "out of memory");
    l->tokens = c->dim[0], l->context = c->dim[1];
    if (l->tokens + l->context + 1 > all.about.positions) {
        w->is_absent = true;
        return bench_fail(w, "the model has %lld positions", (long long)all.about.positions);
    }
    int64_t most = (l->tokens > l->context ? l->tokens : l->context) + 1;
    l->ids = malloc(sizeof *l->ids * (size_t)most);
    for (int64_t i = 0; l->ids && i < most; i++)
        l->ids[i] = (int32_t)((uint64_t)i * 7919 % (uint64_t)all.about.vocabulary);
    if (l->ids)
        l->sequence = zl_sequence_start(all.model, l->ids, l->context + 1, NULL, w->why, sizeof w->why);
    count(w, l);
    return l->sequence ? prefill(w, l) : *w->why ? false : bench_fail(w, "out of memory");
}

// Computes or draws the tokens after the context, then trims them. One id of the sequence always remains
// uncomputed.
static bool run_once(struct bench_work *w, struct llm *l) {
    zl_token token;
    bool done = true;
    if (is_prompt(w))
        done = zl_sequence_append(l->sequence, l->ids, l->tokens, w->why, sizeof w->why) && prefill(w, l);
    for (int64_t i = 0; done && !is_prompt(w) && i < l->tokens; i++)
        done = zl_sequence_next(l->sequence, &token, w->why, sizeof w->why);
    return done && zl_sequence_trim(l->sequence, l->context, w->why, sizeof w->why) &&
           zl_sequence_append(l->sequence, l->ids + l->context, 1, w->why, sizeof w->why);
}

static bool run(struct bench_work *w, int count) {
    bool done = true;
    for (int i = 0; done && i < count; i++)
        done = run_once(w, w->data);
    return zl_synchronize() && done;
}

// Verifies that the model draws the same id each time after the context, and that its logits are numbers.
static bool verify(struct bench_work *w) {
    struct llm *l = w->data;
    zl_token token[2];
    for (int i = 0; i < 2; i++)
        if (!zl_sequence_next(l->sequence, &token[i], w->why, sizeof w->why) ||
            !zl_sequence_trim(l->sequence, l->context, w->why, sizeof w->why) ||
            !zl_sequence_append(l->sequence, l->ids + l->context, 1, w->why, sizeof w->why))
            return false;
    bool number = token[0].log_probability <= 0;
    return (number && token[0].id == token[1].id) ||
           bench_fail(w, "wrong result: ids %d and %d, log-probability %g", token[0].id, token[1].id,
                      (double)token[0].log_probability);
}

const struct bench_work_kind bench_work_llm = {
    .name = "llm",
    .unit = "tokens",
    .summary = "a language model: prompts (pp) and drawn tokens (tg) behind a context",
    .prepare = prepare,
    .run = run,
    .verify = verify,
    .finish = finish,
};
