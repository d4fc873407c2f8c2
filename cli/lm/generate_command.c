// generate_command.c - `zellige generate`: prints the answer to one prompt while it is computed.

#include "language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
    LANGUAGE_OPTIONS,
    {"prompt", 'p', "TEXT", NULL, "what to go on from"},
    {"file", 'f', "FILE", NULL, "the prompt is in a file; - is standard input"},
    {"max-tokens", 'n', "N", NULL, "tokens to draw at most (default 256)", "n-predict predict"},
    LANGUAGE_STOP,
    LANGUAGE_KV_BITS,
    {"ignore-eos", 0, NULL, NULL, "end tokens do not end the answer"},
    {"batch-size", 'b', "N", NULL, "tokens of the prompt that are computed at once (default 2048)",
     "prefill-step-size"},
    {"system-prompt", 0, "TEXT", NULL, "what the model is told before the prompt"},
    {"ignore-chat-template", 0, NULL, NULL, "the prompt is text to go on from, not a question"},
    LANGUAGE_TEMPLATE,
    LANGUAGE_SAMPLING,
    {0},
};

// The answer is written to standard output at once, or kept for --json.
struct answer {
    bool keep;
    char *text;
    size_t bytes;
};

static bool give(void *context, const char *text, size_t bytes) {
    struct answer *answer = context;
    if (!answer->keep)
        return fwrite(text, 1, bytes, stdout) == bytes && !fflush(stdout);
    char *more = realloc(answer->text, answer->bytes + bytes + 1);
    if (!more)
        return false;
    memcpy(more + answer->bytes, text, bytes);
    answer->text = more;
    answer->bytes += bytes;
    more[answer->bytes] = '\0';
    return true;
}

static void report_json(const struct language_run *run, const struct answer *answer) {
    cli_json_open(NULL, '{');
    cli_json_text("text", answer->text ? answer->text : "");
    cli_json_text("finish_reason", run->why);
    cli_json_int("prompt_tokens", run->prompt);
    cli_json_number("prompt_tokens_per_second", (double)run->prompt / run->prompt_seconds);
    cli_json_int("generation_tokens", run->drawn);
    cli_json_number("generation_tokens_per_second", (double)run->drawn / run->draw_seconds);
    cli_json_number("open_seconds", run->language->open_seconds);
    cli_json_int("peak_memory_bytes", (int64_t)zl_get_peak_memory());
    cli_json_close();
}

// Returns the prompt of *bytes bytes as a question in the model's chat template, and sets *bytes to those of
// that; NULL after a message in l->error.
static char *as_question(const struct invocation *call, struct language *l, const char *prompt,
                         size_t *bytes) {
    const char *system = cli_option(call, "system-prompt");
    struct language_talk talk;
    char *text = NULL;
    if (language_talk_new(&talk, l, call) &&
        (!system || language_talk_say(&talk, "system", system, strlen(system))) &&
        language_talk_say(&talk, "user", prompt, *bytes))
        text = language_talk_render(&talk, bytes);
    if (!text)
        snprintf(l->error, sizeof l->error, "%s", talk.error);
    language_talk_free(&talk);
    return text;
}

static int answer_prompt(const struct invocation *call, struct language *l, const char *prompt, size_t bytes,
                         const struct language_sampling *sampling, int64_t most, int64_t chunk, int kv_bits) {
    const char *stop[LANGUAGE_STOPS_MOST];
    struct answer answer = {.keep = call->json};
    struct text_ids ids = {0};
    struct language_run run = {.language = l,
                               .most = most,
                               .ignore_end = cli_option(call, "ignore-eos"),
                               .stop = stop,
                               .stops = language_stops(call, stop),
                               .give = give,
                               .context = &answer};
    zl_sequence_options how = {.sampling = &sampling->sampling, .chunk = (int)chunk, .kv_bits = kv_bits};
    if (run.stops < 0)
        return CLI_USAGE;
    bool asks = !cli_option(call, "ignore-chat-template") &&
                (text_chat_template(l->tokenizer) || cli_option(call, "chat-template-file"));
    char *question = asks ? as_question(call, l, prompt, &bytes) : NULL;
    bool done = (!asks || question) && language_encode(l, asks ? question : prompt, bytes, !asks, &ids);
    if (done)
        run.sequence =
            zl_sequence_start(l->model, ids.id, (int64_t)ids.count, &how, l->error, sizeof l->error);
    run.prompt = (int64_t)ids.count;
    done = run.sequence && language_generate(&run);
    int code = done ? CLI_OK : cli_fail(call, "%s", l->error);
    if (done && call->json)
        report_json(&run, &answer);
    else if (done)
        putchar('\n');
    if (done)
        language_report(call, &run);
    zl_sequence_close(run.sequence);
    free(question);
    free(run.ids);
    free(ids.id);
    free(answer.text);
    return code;
}

static int run(const struct invocation *call) {
    const char *prompt = cli_option(call, "prompt"), *file = cli_option(call, "file");
    int64_t most = 256, chunk = 2048, kv_bits = 0;
    struct language_sampling sampling;
    struct language l;
    if (!prompt == !file)
        return cli_usage(call, "wanted --prompt TEXT or --file FILE");
    if (!cli_integer(call, "max-tokens", 1, INT32_MAX, &most) ||
        !cli_integer(call, "batch-size", 1, 1 << 24, &chunk) || !language_sampling(call, &sampling) ||
        !cli_integer(call, "kv-bits", 0, 8, &kv_bits))
        return CLI_USAGE;
    int code = language_open(&l, call);
    if (code != CLI_OK)
        return code;
    size_t bytes = prompt ? strlen(prompt) : 0;
    char *text = file ? text_read_file(file, &bytes, l.error, sizeof l.error) : NULL;
    cli_catch_interrupts();
    code = file && !text
               ? cli_fail(call, "%s", l.error)
               : answer_prompt(call, &l, file ? text : prompt, bytes, &sampling, most, chunk, (int)kv_bits);
    free(text);
    language_close(&l);
    return code;
}

const struct command cli_generate = {
    .name = "generate",
    .operands = "[FOLDER]",
    .operands_most = 1,
    .summary = "Answer a prompt with a language model, or go on from it",
    .details =
        "A checkpoint is a folder as Hugging Face or mlx-lm write it, of the architectures llama, qwen2, "
        "qwen2_moe, qwen3,\n"
        "qwen3_moe, qwen3_next, qwen3_5 and qwen3_5_moe, or a GGUF file of the first five. Speeds and memory "
        "are on standard error.\n"
        "The prompt is a question where the model has a chat template.\n"
        "  zellige generate -m Qwen3-0.6B -p 'What is the capital of France?' -n 32 --temp 0.6 --top-p 0.95\n"
        "  zellige generate -m Qwen3-0.6B -p 'The capital of France is' --ignore-chat-template",
    .options = options,
    .run = run,
};
