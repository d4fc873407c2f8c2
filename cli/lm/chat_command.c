// chat_command.c - `zellige chat`: reads questions from standard input and prints each answer while it is
// computed.
//
// For each question the whole conversation is rendered again. Its common prefix with the ids of the current
// sequence is not computed again.

#include "language.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option options[] = {
    LANGUAGE_OPTIONS,
    {"system-prompt", 0, "TEXT", NULL, "what the model is told before the conversation"},
    {"max-tokens", 'n', "N", NULL, "tokens of an answer at most (default 2048)", "n-predict predict"},
    LANGUAGE_STOP,
    LANGUAGE_KV_BITS,
    LANGUAGE_TEMPLATE,
    LANGUAGE_SAMPLING,
    {0},
};

// Ctrl-C stops an answer, not the program. It must not cancel evaluations, since the sequence needs their
// results.
static volatile sig_atomic_t stopped;

static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

static void catch_stops(void) {
    struct sigaction action = {.sa_handler =
                                   stop}; // without SA_RESTART, so that it also ends the wait for a question
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

struct chat {
    const struct invocation *call;
    struct language *language;
    struct language_talk talk;
    struct language_sampling sampling;
    zl_sequence sequence; // NULL: not started yet
    struct text_ids seen; // ids of the sequence
    const char *stop[LANGUAGE_STOPS_MOST];
    int stops;
    int64_t most, kv_bits;
    char *answer;
    size_t bytes;
};

static bool give(void *context, const char *text, size_t bytes) {
    struct chat *c = context;
    char *more = realloc(c->answer, c->bytes + bytes + 1);
    if (!more)
        return false;
    memcpy(more + c->bytes, text, bytes);
    c->answer = more;
    c->bytes += bytes;
    more[c->bytes] = '\0';
    return fwrite(text, 1, bytes, stdout) == bytes && !fflush(stdout) && !stopped;
}

// Brings the sequence to the state after `ids`: trims it to the prefix that it shares with them and appends
// the rest, or starts a new sequence if it cannot be trimmed. The last id is always computed, as its logits
// are needed.
static bool continue_with(struct chat *c, const struct text_ids *ids) {
    struct language *l = c->language;
    size_t same = 0, most = ids->count < c->seen.count ? ids->count : c->seen.count;
    while (same < most && same + 1 < ids->count && ids->id[same] == c->seen.id[same])
        same++;
    if (c->sequence && same && zl_sequence_trim(c->sequence, (int64_t)same, l->error, sizeof l->error))
        return zl_sequence_append(c->sequence, ids->id + same, (int64_t)(ids->count - same), l->error,
                                  sizeof l->error);
    zl_sequence_close(c->sequence);
    zl_sequence_options how = {.sampling = &c->sampling.sampling, .kv_bits = (int)c->kv_bits};
    c->sequence = zl_sequence_start(l->model, ids->id, (int64_t)ids->count, &how, l->error, sizeof l->error);
    return c->sequence;
}

static bool remember(struct chat *c, struct text_ids *ids, const struct language_run *run) {
    free(c->seen.id);
    c->seen = *ids;
    *ids = (struct text_ids){0};
    for (int64_t i = 0; i < run->drawn; i++) {
        if (c->seen.count == c->seen.cap) {
            size_t cap = c->seen.cap * 2 + 64;
            int32_t *more = realloc(c->seen.id, cap * sizeof *more);
            if (!more)
                return false;
            c->seen.id = more, c->seen.cap = cap;
        }
        c->seen.id[c->seen.count++] = run->ids[i];
    }
    return true;
}

static bool answer(struct chat *c) {
    struct language *l = c->language;
    struct text_ids ids = {0};
    size_t bytes;
    struct language_run run = {.language = l,
                               .most = c->most,
                               .give = give,
                               .context = c,
                               .stopped = &stopped,
                               .stop = c->stop,
                               .stops = c->stops};
    char *text = language_talk_render(&c->talk, &bytes);
    if (!text)
        snprintf(l->error, sizeof l->error, "%s", c->talk.error);
    bool done = text && language_encode(l, text, bytes, false, &ids) && continue_with(c, &ids);
    run.sequence = c->sequence;
    run.prompt = (int64_t)ids.count;
    c->bytes = 0;
    stopped = 0;
    done = done && language_generate(&run);
    putchar('\n');
    fflush(stdout); // so that a reader of a pipe gets the end of the answer
    if (done)
        done = language_talk_say(&c->talk, "assistant", c->bytes ? c->answer : "", c->bytes) &&
               remember(c, &ids, &run);
    if (done && c->call->verbosity > 0)
        language_report(c->call, &run);
    free(run.ids);
    free(ids.id);
    free(text);
    return done;
}

// Reads a question and sets *bytes; after a backslash at its end, a line continues in the next one. Returns
// NULL at the end of the input.
static char *read_question(bool terminal, size_t *bytes) {
    char *line = NULL, *all = NULL;
    size_t cap = 0, used = 0;
    bool more = true;
    while (more) {
        if (terminal)
            fputs(all ? ". " : "> ", stderr);
        ssize_t length = getline(&line, &cap, stdin);
        if (length < 0)
            break;
        if (length && line[length - 1] == '\n')
            line[--length] = '\0';
        more = length && line[length - 1] == '\\';
        if (more)
            line[length - 1] = '\n';
        char *longer = realloc(all, used + (size_t)length + 1);
        if (!longer)
            break;
        all = longer;
        memcpy(all + used, line, (size_t)length + 1);
        used += (size_t)length;
    }
    free(line);
    *bytes = used;
    return all;
}

static const char help_text[] =
    "/clear forgets the conversation, /exit ends it, Ctrl-C stops an answer; a line that ends in \\ goes on "
    "in the next\n";

static int talk(struct chat *c) {
    const char *system = cli_option(c->call, "system-prompt");
    bool terminal = isatty(STDIN_FILENO),
         going = !system || language_talk_say(&c->talk, "system", system, strlen(system));
    char *question;
    size_t bytes;
    if (terminal && c->call->verbosity >= 0)
        fputs(help_text, stderr);
    while (going && ((question = read_question(terminal, &bytes)) || stopped)) {
        if (!question) { // Ctrl-C while nothing is being computed
            stopped = 0;
            clearerr(stdin);
            fputs("\n(/exit ends the conversation)\n", stderr);
            continue;
        }
        if (!strcmp(question, "/exit") || !strcmp(question, "/bye")) {
            free(question);
            break;
        }
        if (!strcmp(question, "/clear"))
            language_talk_forget(&c->talk, system ? 1 : 0);
        else if (!strcmp(question, "/help"))
            fputs(help_text, stderr);
        else if (*question)
            going = language_talk_say(&c->talk, "user", question, bytes) && answer(c);
        free(question);
    }
    if (!going)
        return cli_fail(c->call, "%s", *c->language->error ? c->language->error : c->talk.error);
    return CLI_OK;
}

static int run(const struct invocation *call) {
    struct language l;
    struct chat c = {.call = call, .language = &l, .most = 2048};
    if (!cli_integer(call, "max-tokens", 1, INT32_MAX, &c.most) || !language_sampling(call, &c.sampling) ||
        !cli_integer(call, "kv-bits", 0, 8, &c.kv_bits) || (c.stops = language_stops(call, c.stop)) < 0)
        return CLI_USAGE;
    int code = language_open(&l, call);
    if (code != CLI_OK)
        return code;
    catch_stops();
    code = language_talk_new(&c.talk, &l, call) ? talk(&c) : cli_fail(call, "%s", c.talk.error);
    language_talk_free(&c.talk);
    zl_sequence_close(c.sequence);
    free(c.seen.id);
    free(c.answer);
    language_close(&l);
    return code;
}

const struct command cli_chat = {
    .name = "chat",
    .operands = "[FOLDER]",
    .operands_most = 1,
    .summary = "Talk with a language model",
    .details = "Questions are lines of standard input. The conversation is written as the model's own chat "
               "template says.\n"
               "  zellige chat -m Qwen3-0.6B --temp 0.6 --top-p 0.95 --top-k 20\n"
               "  zellige chat -m Qwen3-0.6B --chat-template-kwargs '{\"enable_thinking\": false}'",
    .options = options,
    .run = run,
};
