// perplexity_command.c - `zellige perplexity`: measures how well a model predicts a text, or which of several
// endings it prefers.

#include "language.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option options[] = {
    LANGUAGE_OPTIONS,
    {"file", 'f', "FILE", NULL, "the text; - is standard input"},
    {"ctx-size", 'c', "N", NULL, "tokens that are scored at once, each from those before it (default 512)"},
    {"chunks", 0, "N", NULL, "score the first N pieces only"},
    LANGUAGE_KV_BITS,
    {"choices", 0, "FILE", NULL, "instead: JSON lines {\"prompt\": …, \"choices\": […], \"answer\": index}"},
    {0},
};

// Returns the sum of the losses of ids[first..count), each predicted from all ids before it; sets *squares to
// the sum of their squares. Returns NaN after an error, with a message in l->error.
static double score(struct language *l, const int32_t *ids, int64_t count, int64_t first, double *squares) {
    double sum = NAN;
    l->error[0] = '\0';
    ZL_SCOPE {
        zl_array all = zl_from_i32(ids, ZL_SHAPE(1, count));
        zl_array before = zl_slice(all, ZL_SHAPE(0, 0), ZL_SHAPE(1, count - 1), ZL_SHAPE(1, 1));
        zl_array after = zl_slice(all, ZL_SHAPE(0, first), ZL_SHAPE(1, count), ZL_SHAPE(1, 1));
        zl_array logits =
            l->kv_bits ? zl_model_logits_rounded(l->model, before, l->kv_bits, l->error, sizeof l->error)
                       : zl_model_logits(l->model, before);
        logits = zl_slice(logits, ZL_SHAPE(0, first - 1, 0), ZL_SHAPE(1, count - 1, l->info.vocabulary),
                          ZL_SHAPE(1, 1, 1));
        zl_array loss = zl_fast_cross_entropy(logits, after);
        zl_array sums[2] = {zl_sum(loss), zl_sum(zl_square(loss))};
        if (zl_eval_all(2, sums))
            sum = zl_item(sums[0]), *squares = zl_item(sums[1]);
    }
    if (isnan(sum) && !*l->error)
        snprintf(l->error, sizeof l->error, "%s",
                 zl_error() ? zl_error() : "the loss is not a number: the model's logits are not finite");
    return sum;
}

struct tally {
    double sum, squares; // of the tokens' losses
    int64_t tokens, chunks, all_chunks;
    double seconds;
};

static double perplexity(const struct tally *t) {
    return exp(t->sum / (double)t->tokens);
}

// Returns the standard error of the perplexity, from that of the mean loss per token, as if the losses were
// independent.
static double uncertainty(const struct tally *t) {
    double n = (double)t->tokens, mean = t->sum / n, variance = t->squares / n - mean * mean;
    return n > 1 && variance > 0 ? perplexity(t) * sqrt(variance / (n - 1)) : 0;
}

static void show_progress(const struct tally *t, bool last) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, last ? "\r\033[K" : "\r\033[K%lld of %lld pieces, perplexity %.3f",
                (long long)t->chunks, (long long)t->all_chunks, perplexity(t));
}

static bool score_text(struct language *l, const struct text_ids *ids, int64_t size, int64_t most,
                       struct tally *t) {
    int64_t count = (int64_t)ids->count;
    double start = language_now();
    t->all_chunks =
        (count - 1 + size - 2) / (size - 1); // the last token of a chunk is the first of the next
    t->all_chunks = most && most < t->all_chunks ? most : t->all_chunks;
    for (int64_t at = 0; t->chunks < t->all_chunks && !cli_interrupted(); at += size - 1) {
        int64_t length = count - at < size ? count - at : size;
        double squares = 0, sum = score(l, ids->id + at, length, 1, &squares);
        if (isnan(sum))
            break;
        t->sum += sum, t->squares += squares;
        t->tokens += length - 1, t->chunks++;
        show_progress(t, false);
    }
    show_progress(t, true);
    t->seconds = language_now() - start;
    return t->chunks == t->all_chunks;
}

static int report_text(const struct invocation *call, const struct tally *t) {
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_number("perplexity", perplexity(t));
        cli_json_number("standard_error", uncertainty(t));
        cli_json_number("loss", t->sum / (double)t->tokens);
        cli_json_int("tokens", t->tokens);
        cli_json_int("pieces", t->chunks);
        cli_json_number("tokens_per_second", (double)t->tokens / t->seconds);
        cli_json_close();
    } else {
        printf("perplexity %.4f +- %.4f over %lld tokens in %lld pieces, %.1f tokens/s\n", perplexity(t),
               uncertainty(t), (long long)t->tokens, (long long)t->chunks, (double)t->tokens / t->seconds);
    }
    return CLI_OK;
}

static int run_text(const struct invocation *call, struct language *l, const char *path, int64_t size,
                    int64_t most) {
    struct text_ids ids = {0};
    struct tally tally = {0};
    size_t bytes;
    char *text = text_read_file(path, &bytes, l->error, sizeof l->error);
    int code = CLI_OK;
    if (!text || !language_encode(l, text, bytes, true, &ids))
        code = cli_fail(call, "%s", l->error);
    else if (ids.count < 2)
        code = cli_fail(call, "%s: has %zu tokens, and two are needed", path, ids.count);
    else if (!score_text(l, &ids, size, most, &tally))
        code = cli_interrupted() ? cli_fail(call, "interrupted after %lld of %lld pieces",
                                            (long long)tally.chunks, (long long)tally.all_chunks)
                                 : cli_fail(call, "%s", l->error);
    if (code == CLI_OK)
        code = report_text(call, &tally);
    free(text);
    free(ids.id);
    return code;
}

// Multiple choice -------------------------------------------------------------------------------------------

struct answers {
    int64_t questions, right, right_by_length; // right_by_length: judged by log-probability per byte of the
                                               // choice
};

// Returns the log-probability of `choice` after the prompt; NaN after an error, with a message in l->error.
static double score_choice(struct language *l, const char *prompt, const char *choice) {
    struct text_ids before = {0}, all = {0};
    size_t length = strlen(prompt) + strlen(choice) + 1;
    char *joined = malloc(length);
    double sum = NAN, squares;
    snprintf(l->error, sizeof l->error, "out of memory");
    if (joined) {
        snprintf(joined, length, "%s%s", prompt, choice);
        if (language_encode(l, prompt, strlen(prompt), true, &before) &&
            language_encode(l, joined, length - 1, true, &all)) {
            // A token may cross the boundary between prompt and choice, so the choice begins at the first id
            // that differs from the prompt's.
            size_t same = 0;
            while (same < before.count && same + 1 < all.count && before.id[same] == all.id[same])
                same++;
            sum = same ? -score(l, all.id, (int64_t)all.count, (int64_t)same, &squares) : NAN;
            if (!same)
                snprintf(l->error, sizeof l->error, "the prompt has no tokens");
        }
    }
    free(joined);
    free(before.id);
    free(all.id);
    return sum;
}

static bool score_question(struct language *l, text_json_value question, struct answers *a) {
    text_json_value choices = text_json_get(question, "choices"), answer = text_json_get(question, "answer");
    const char *prompt = text_json_text(text_json_get(question, "prompt"));
    int best = -1, best_by_length = -1, count = text_json_count(choices);
    double most = -INFINITY, most_by_length = -INFINITY;
    if (!prompt || count < 2 || !text_json_is_integer(answer) || text_json_integer(answer) < 0 ||
        text_json_integer(answer) >= count) {
        snprintf(l->error, sizeof l->error,
                 "question %lld: wanted a prompt, at least two choices, and the index of the answer",
                 (long long)a->questions + 1);
        return false;
    }
    for (int i = 0; i < count; i++) {
        const char *choice = text_json_text(text_json_at(choices, i));
        double sum = NAN;
        if (choice && *choice)
            sum = score_choice(l, prompt, choice);
        else
            snprintf(l->error, sizeof l->error, "wanted a text that is not empty");
        if (isnan(sum)) {
            char why[sizeof l->error];
            snprintf(why, sizeof why, "%s", l->error);
            snprintf(l->error, sizeof l->error, "question %lld, choice %d: %.400s",
                     (long long)a->questions + 1, i, why);
            return false;
        }
        if (sum > most)
            most = sum, best = i;
        if (sum / (double)strlen(choice) > most_by_length)
            most_by_length = sum / (double)strlen(choice), best_by_length = i;
    }
    a->questions++;
    a->right += best == text_json_integer(answer);
    a->right_by_length += best_by_length == text_json_integer(answer);
    return true;
}

static int run_choices(const struct invocation *call, struct language *l, const char *path) {
    struct answers a = {0};
    size_t bytes;
    char *text = text_read_file(path, &bytes, l->error, sizeof l->error), *save = NULL;
    bool done = text;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line && done;
         line = strtok_r(NULL, "\n", &save)) {
        char name[320];
        snprintf(name, sizeof name, "%.280s, question %lld", path, (long long)a.questions + 1);
        text_json_value question = text_json_parse(line, strlen(line), name, l->error, sizeof l->error);
        done = question && !cli_interrupted() && score_question(l, question, &a);
        text_json_free(question);
    }
    free(text);
    if (!done && cli_interrupted())
        return cli_fail(call, "interrupted after %lld questions", (long long)a.questions);
    if (!done)
        return cli_fail(call, "%s", l->error);
    if (!a.questions)
        return cli_fail(call, "%s: has no question", path);
    double share = (double)a.right / (double)a.questions,
           by_length = (double)a.right_by_length / (double)a.questions;
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_int("questions", a.questions);
        cli_json_number("accuracy", share);
        cli_json_number("accuracy_per_byte", by_length);
        cli_json_close();
    } else {
        printf("%lld questions, %.2f %% right; by log-probability per byte %.2f %%\n", (long long)a.questions,
               100 * share, 100 * by_length);
    }
    return CLI_OK;
}

static int run(const struct invocation *call) {
    const char *file = cli_option(call, "file"), *choices = cli_option(call, "choices");
    int64_t size = 512, most = 0, kv_bits = 0;
    struct language l;
    if (!file == !choices)
        return cli_usage(call, "wanted --file FILE or --choices FILE");
    if (!cli_integer(call, "ctx-size", 2, INT32_MAX, &size) ||
        !cli_integer(call, "chunks", 1, INT32_MAX, &most) || !cli_integer(call, "kv-bits", 0, 8, &kv_bits))
        return CLI_USAGE;
    int code = language_open(&l, call);
    if (code != CLI_OK)
        return code;
    l.kv_bits = (int)kv_bits;
    cli_catch_interrupts();
    code = file ? run_text(call, &l, file, size, most) : run_choices(call, &l, choices);
    language_close(&l);
    return code;
}

const struct command cli_perplexity = {
    .name = "perplexity",
    .operands = "[FOLDER]",
    .operands_most = 1,
    .summary = "How well a language model predicts a text, or chooses endings",
    .details = "A text is cut into pieces of --ctx-size tokens; each token but the first is scored from "
               "those before it in its\n"
               "piece. The perplexity is the exponential of the mean loss.\n"
               "  zellige perplexity -m Qwen3-0.6B -f book.txt -c 2048",
    .options = options,
    .run = run,
};
