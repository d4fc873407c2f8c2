// language_generate.c - generates text from a prompt: shows progress, prints complete characters only, ends
// at stop texts, and reports speeds.

#include "language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show_progress(int64_t done, int64_t all) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, done < all ? "\r\033[Kprompt: %lld of %lld tokens" : "\r\033[K", (long long)done,
                (long long)all);
}

static bool is_stopped(const struct language_run *run) {
    return cli_interrupted() || (run->stopped && *run->stopped);
}

static bool prefill(struct language_run *run) {
    struct language *l = run->language;
    double start = language_now();
    int64_t done = 0;
    while (zl_sequence_prefill(run->sequence, &done, l->error, sizeof l->error))
        if (is_stopped(run))
            break;
        else
            show_progress(done, run->prompt);
    show_progress(1, 1);
    run->prompt_seconds = language_now() - start;
    return !*l->error;
}

// Text that is held back because a stop text may begin in it.
struct pending {
    char *text;
    size_t bytes, cap;
};

// Returns where a stop text begins, or may begin, depending on the text after it. Sets *whole to whether it
// is complete.
static size_t find_stop(const struct language_run *run, const struct pending *p, bool *whole) {
    *whole = false;
    for (size_t at = 0; at < p->bytes; at++)
        for (int i = 0; i < run->stops; i++) {
            size_t length = strlen(run->stop[i]), there = p->bytes - at;
            if (length && !memcmp(p->text + at, run->stop[i], there < length ? there : length)) {
                *whole = there >= length;
                return at;
            }
        }
    return p->bytes;
}

// Passes on the text that cannot be part of a stop text. Returns false if there is a stop text, or the
// receiver ends the generation.
static bool give(struct language_run *run, struct pending *p, bool last) {
    bool whole;
    size_t until = find_stop(run, p, &whole);
    if (last && !whole)
        until = p->bytes;
    bool wanted = !until || run->give(run->context, p->text, until);
    if (until)
        memmove(p->text, p->text + until, p->bytes - until);
    p->bytes -= until;
    if (whole || !wanted)
        run->why = whole ? "stop" : "interrupt";
    return !whole && wanted;
}

static bool keep_id(struct language_run *run, int32_t id) {
    if (run->drawn % 256 == 0) {
        int32_t *more = realloc(run->ids, (size_t)(run->drawn + 256) * sizeof *more);
        if (!more)
            return false;
        run->ids = more;
    }
    run->ids[run->drawn++] = id;
    return true;
}

static bool draw_all(struct language_run *run, struct pending *p) {
    struct language *l = run->language;
    struct text_decoder decoder = {.tokenizer = l->tokenizer, .skip_special = true};
    zl_token token;
    run->why = "length";
    while (run->drawn < run->most) {
        if (is_stopped(run) || !zl_sequence_next(run->sequence, &token, l->error, sizeof l->error)) {
            run->why = "interrupt";
            return is_stopped(run);
        }
        if (!keep_id(run, token.id))
            return false;
        if (language_is_end(l, token.id) && !run->ignore_end) {
            run->why = "end";
            break;
        }
        size_t bytes; // ids that only pad the model's vocabulary have no text
        if (text_token_text(l->tokenizer, token.id, &bytes) &&
            !text_decode(&decoder, token.id, &p->text, &p->bytes, &p->cap, l->error, sizeof l->error))
            return false;
        if (!give(run, p, false))
            return true;
    }
    return text_decode_end(&decoder, &p->text, &p->bytes, &p->cap, l->error, sizeof l->error) &&
           (give(run, p, true) || true);
}

bool language_generate(struct language_run *run) {
    struct pending pending = {0};
    run->language->error[0] = '\0';
    run->drawn = 0;
    run->why = "interrupt";
    if (!prefill(run))
        return is_stopped(run);
    double start = language_now();
    bool done = draw_all(run, &pending);
    run->draw_seconds = language_now() - start;
    free(pending.text);
    return done;
}

void language_report(const struct invocation *call, const struct language_run *run) {
    double peak = (double)zl_get_peak_memory() / 1048576;
    if (call->verbosity < 0 || call->json)
        return;
    fprintf(
        stderr,
        "prompt: %lld tokens, %.1f tokens/s\ngeneration: %lld tokens, %.1f tokens/s\npeak memory: %.1f MiB\n",
        (long long)run->prompt, run->prompt_seconds > 0 ? (double)run->prompt / run->prompt_seconds : 0.0,
        (long long)run->drawn, run->draw_seconds > 0 ? (double)run->drawn / run->draw_seconds : 0.0, peak);
}
