// language.c - opens a checkpoint and its tokenizer, and reads the options of sampling.

#include "language.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double language_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int language_open(struct language *l, const struct invocation *call) {
    const char *folder = cli_option(call, "model"), *device = cli_option(call, "device");
    double start = language_now();
    *l = (struct language){0};
    if (!folder && call->operand_count)
        folder = call->operands[0];
    if (!folder)
        return cli_usage(call, "which model? --model FOLDER");
    if (device && !zl_use_device(device))
        return cli_library_failed(call);
    l->model = zl_model_open(folder, l->error, sizeof l->error);
    l->tokenizer = l->model ? text_tokenizer_open(folder, NULL, l->error, sizeof l->error) : NULL;
    l->encoder = l->tokenizer ? text_encoder_new(l->tokenizer, l->error, sizeof l->error) : NULL;
    if (!l->encoder) {
        language_close(l);
        return cli_fail(call, "%s", l->error);
    }
    l->info = zl_model_about(l->model);
    const char *end = l->info.eos_count ? NULL : text_tokenizer_eos(l->tokenizer);
    l->end = end ? text_token_id(l->tokenizer, end) : -1;
    l->open_seconds = language_now() - start;
    if (call->verbosity >= 0 && !call->json && isatty(STDERR_FILENO))
        fprintf(stderr, "%s, %.1f M parameters in %.1f MiB, opened in %.2f s\n", l->info.type,
                (double)l->info.parameters / 1e6, (double)l->info.bytes / 1048576, l->open_seconds);
    return CLI_OK;
}

void language_close(struct language *l) {
    text_encoder_free(l->encoder);
    text_tokenizer_close(l->tokenizer);
    zl_model_close(l->model);
    l->encoder = NULL, l->tokenizer = NULL, l->model = NULL;
}

bool language_is_end(const struct language *l, int32_t id) {
    for (int i = 0; i < l->info.eos_count; i++)
        if (l->info.eos[i] == id)
            return true;
    return l->end >= 0 && id == l->end;
}

bool language_encode(struct language *l, const char *text, size_t bytes, bool is_document,
                     struct text_ids *ids) {
    struct text_encode_options options = {.add_special = is_document};
    return text_encode(l->encoder, text, bytes, &options, ids, l->error, sizeof l->error);
}

// Reads biases such as "15043+1.5,29871-inf".
static bool read_biases(const struct invocation *call, struct language_sampling *out) {
    const char *at = cli_option(call, "logit-bias");
    for (; at && *at; at += *at == ',') {
        char *end;
        long id = strtol(at, &end, 10);
        double bias = end != at && (*end == '+' || *end == '-') ? strtod(end, &end) : NAN;
        if (isnan(bias) || (*end && *end != ',') || out->sampling.biases == LANGUAGE_BIASES_MOST)
            return cli_usage(call,
                             "--logit-bias: wanted ID+X or ID-X, with commas between, at most %d: '%.32s'",
                             LANGUAGE_BIASES_MOST, at) == CLI_OK;
        out->bias_id[out->sampling.biases] = (int)id;
        out->bias[out->sampling.biases++] = bias;
        at = end;
    }
    return true;
}

bool language_sampling(const struct invocation *call, struct language_sampling *out) {
    *out = (struct language_sampling){.sampling = {.xtc_threshold = 0.1, .seed = -1}};
    zl_sampling *s = &out->sampling;
    int64_t top_k = 0, window = 64;
    bool read = cli_number(call, "temp", 0, 1e6, &s->temperature) &&
                cli_integer(call, "top-k", 0, INT32_MAX, &top_k) &&
                cli_number(call, "top-p", 0, 1, &s->top_p) && cli_number(call, "min-p", 0, 1, &s->min_p) &&
                cli_number(call, "xtc-probability", 0, 1, &s->xtc_probability) &&
                cli_number(call, "xtc-threshold", 0, 0.5, &s->xtc_threshold) &&
                cli_number(call, "repeat-penalty", 0, 1e6, &s->repetition_penalty) &&
                cli_number(call, "presence-penalty", -1e6, 1e6, &s->presence_penalty) &&
                cli_number(call, "frequency-penalty", -1e6, 1e6, &s->frequency_penalty) &&
                cli_integer(call, "repeat-last-n", 1, 1 << 20, &window) &&
                cli_integer(call, "seed", 0, INT64_C(1) << 50, &s->seed) && read_biases(call, out);
    s->top_k = (int)top_k, s->penalty_window = (int)window;
    s->bias_id = out->bias_id, s->bias = out->bias;
    return read;
}

int language_stops(const struct invocation *call, const char *stop[static LANGUAGE_STOPS_MOST]) {
    int count = 0;
    for (const char *text; (text = cli_option_at(call, "stop", count)); count++) {
        if (!*text || count == LANGUAGE_STOPS_MOST) {
            cli_usage(call, "--stop: wanted at most %d texts that are not empty", LANGUAGE_STOPS_MOST);
            return -1;
        }
        stop[count] = text;
    }
    return count;
}
