// tokenize.c - `zellige tokenize`: turns texts into the ids of a model's tokenizer and back, and writes
// conversations as the model's chat template does.

#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "text/text.h"

static const struct option options[] = {
    {"model", 'm', "FILE", "*", "tokenizer.json, GGUF or rank file, or a folder; else the first operand"},
    {"prompt", 'p', "TEXT", NULL, "the text; else operands after MODEL, a file, or standard input"},
    {"file", 'f', "FILE", "*", "read the text from a file; - is standard input"},
    {"null", '0', NULL, NULL, "NUL bytes separate texts of their own: a line of ids for each"},
    {"ids", 0, NULL, NULL, "print the ids alone, as [1, 2, 3]"},
    {"show-count", 0, NULL, NULL, "print how many tokens there are"},
    {"no-bos", 0, NULL, NULL, "leave out what the tokenizer puts around a text"},
    {"no-parse-special", 0, NULL, NULL, "special tokens inside the text are text"},
    {"decode", 'd', NULL, NULL, "the text is ids: print what they decode to"},
    {"skip-special", 0, NULL, NULL, "leave special tokens out when decoding"},
    {"chat", 0, "FILE", "*", "a conversation in JSON, through the chat template"},
    {"render", 0, NULL, NULL, "print the text that the template makes, not its ids"},
    {"tools", 0, "FILE", "*", "a list of tools in JSON, for the template"},
    {"chat-template-file", 0, "FILE", "*", "use this template, not that of the model"},
    {"chat-template-kwargs", 0, "JSON", NULL, "variables for the template: {\"enable_thinking\": false}"},
    {"no-generation-prompt", 0, NULL, NULL, "do not end with the start of an answer"},
    {"pattern", 0, "NAME", "qwen2 qwen35 llama3 gpt2",
     "how a rank file splits texts: a name, or a regular expression"},
    {0},
};

// One run of the command.
struct job {
    const struct invocation *call;
    text_tokenizer tokenizer;
    char error[1024];
    char *text; // to be freed
    size_t bytes;
};

static int fail(struct job *j) {
    cli_clean(j->error, false);
    return cli_fail(j->call, "%s", j->error);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Texts -----------------------------------------------------------------------------------------------------

static bool take_text(struct job *j, const char *text) {
    j->bytes = strlen(text);
    j->text = malloc(j->bytes + 1);
    if (!j->text) {
        snprintf(j->error, sizeof j->error, "out of memory");
        return false;
    }
    memcpy(j->text, text, j->bytes + 1);
    return true;
}

static bool join_operands(struct job *j, int from) {
    size_t bytes = 1;
    for (int i = from; i < j->call->operand_count; i++)
        bytes += strlen(j->call->operands[i]) + 1;
    char *joined = malloc(bytes), *to = joined;
    for (int i = from; joined && i < j->call->operand_count; i++)
        to += snprintf(to, bytes - (size_t)(to - joined), "%s%s", i > from ? " " : "", j->call->operands[i]);
    j->text = joined;
    j->bytes = joined ? (size_t)(to - joined) : 0;
    if (!joined)
        snprintf(j->error, sizeof j->error, "out of memory");
    return joined != NULL;
}

// Reads the text to encode. first: index of the first operand that is text.
static bool read_text(struct job *j, int first) {
    const char *prompt = cli_option(j->call, "prompt"), *file = cli_option(j->call, "file");
    if (prompt)
        return take_text(j, prompt);
    if (!file && j->call->operand_count > first)
        return join_operands(j, first);
    j->text = text_read_file(file ? file : "-", &j->bytes, j->error, sizeof j->error);
    return j->text != NULL;
}

// Conversations ---------------------------------------------------------------------------------------------

// Returns the text of a JSON file, after parsing it into *out; the caller frees it. NULL after an error.
static char *json_text(struct job *j, const char *path, text_json_value *out) {
    size_t bytes;
    char *text = text_read_file(path, &bytes, j->error, sizeof j->error);
    *out = text ? text_json_parse(text, bytes, path, j->error, sizeof j->error) : NULL;
    if (*out && !text_json_is_list(*out) && !text_json_is_object(*out)) {
        snprintf(j->error, sizeof j->error, "%.300s: a list, or an object, must stand here", path);
        text_json_free(*out);
        *out = NULL;
    }
    if (*out)
        return text;
    free(text);
    return NULL;
}

static void put_token(FILE *out, const char *name, const char *text) {
    if (!text)
        return;
    fprintf(out, ", \"%s\": ", name);
    text_json_write_text(out, text, strlen(text));
}

// Returns the variables that transformers gives to a template, as one JSON object.
static text_json_value template_variables(struct job *j, const char *messages, const char *tools) {
    char *data = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&data, &bytes);
    if (!out) {
        snprintf(j->error, sizeof j->error, "out of memory");
        return NULL;
    }
    fprintf(out, "{\"messages\": %s, \"tools\": %s, \"documents\": null, \"add_generation_prompt\": %s",
            messages, tools ? tools : "null", cli_option(j->call, "no-generation-prompt") ? "false" : "true");
    put_token(out, "bos_token", text_tokenizer_bos(j->tokenizer));
    put_token(out, "eos_token", text_tokenizer_eos(j->tokenizer));
    putc('}', out);
    fclose(out);
    text_json_value variables =
        text_json_parse(data, bytes, "the template's variables", j->error, sizeof j->error);
    free(data);
    return variables;
}

static struct text_template *open_template(struct job *j) {
    const char *path = cli_option(j->call, "chat-template-file"), *own = text_chat_template(j->tokenizer);
    if (!path && !own) {
        snprintf(j->error, sizeof j->error,
                 "the model has no chat template: give one with --chat-template-file");
        return NULL;
    }
    if (!path)
        return text_template_new(own, strlen(own), "chat_template", j->error, sizeof j->error);
    size_t bytes;
    char *text = text_read_file(path, &bytes, j->error, sizeof j->error);
    struct text_template *template =
        text ? text_template_new(text, bytes, path, j->error, sizeof j->error) : NULL;
    free(text);
    return template;
}

// Renders the conversation into j->text. It is a list of messages, or a request {"messages": [...], "tools":
// [...]}, whose other members become variables.
static bool render_chat(struct job *j) {
    const char *tools_path = cli_option(j->call, "tools"),
               *kwargs = cli_option(j->call, "chat-template-kwargs");
    text_json_value messages = NULL, tools = NULL, more = NULL, variables = NULL;
    char *messages_text = json_text(j, cli_option(j->call, "chat"), &messages), *tools_text = NULL;
    struct text_template *template = messages ? open_template(j) : NULL;
    bool ok = template != NULL;
    if (ok && tools_path)
        ok = (tools_text = json_text(j, tools_path, &tools)) != NULL;
    if (ok && kwargs)
        ok = (more = text_json_parse(kwargs, strlen(kwargs), "--chat-template-kwargs", j->error,
                                     sizeof j->error)) != NULL;
    bool is_request = text_json_is_object(messages);
    ok = ok && (variables = template_variables(j, is_request ? "[]" : messages_text, tools_text)) != NULL;
    struct text_render_options how = {.variables = {variables, is_request ? messages : NULL, more}};
    j->text = ok ? text_render(template, &how, &j->bytes, j->error, sizeof j->error) : NULL;
    text_template_free(template);
    text_json_free(messages);
    text_json_free(tools);
    text_json_free(more);
    text_json_free(variables);
    free(messages_text);
    free(tools_text);
    return j->text != NULL;
}

static bool print_text(const struct job *j) {
    if (j->call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("text", j->text);
        cli_json_close();
    } else
        fwrite(j->text, 1, j->bytes, stdout);
    return true;
}

// Encoding --------------------------------------------------------------------------------------------------

static bool show_progress(void *context, size_t done, size_t all) {
    (void)context;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%.0f of %.0f MB", 1e-6 * (double)done, 1e-6 * (double)all);
    return !cli_interrupted();
}

static void end_progress(void) {
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

static void print_ids(const struct text_ids *ids) {
    putchar('[');
    for (size_t i = 0; i < ids->count; i++)
        printf("%s%" PRId32, i ? ", " : "", ids->id[i]);
    puts("]");
}

static void print_tokens(const struct job *j, const struct text_ids *ids) {
    for (size_t i = 0; i < ids->count; i++) {
        size_t bytes;
        const char *text = text_token_text(j->tokenizer, ids->id[i], &bytes);
        printf("%6" PRId32 " -> '", ids->id[i]);
        for (size_t k = 0; text && k < bytes; k++)
            if ((unsigned char)text[k] < ' ' || text[k] == 127)
                printf("\\x%02x", (unsigned char)text[k]);
            else
                putchar(text[k]);
        puts("'");
    }
}

// Writes the text of a token as JSON; incomplete characters become U+FFFD.
static bool json_token(struct job *j, int id) {
    struct text_decoder decoder = {.tokenizer = j->tokenizer};
    char *text = NULL;
    size_t bytes = 0, cap = 0;
    bool ok = text_decode(&decoder, id, &text, &bytes, &cap, j->error, sizeof j->error) &&
              text_decode_end(&decoder, &text, &bytes, &cap, j->error, sizeof j->error);
    if (ok) {
        cli_json_open(NULL, '{');
        cli_json_int("id", id);
        cli_json_text("text", text ? text : "");
        cli_json_close();
    }
    free(text);
    return ok;
}

static bool print_encoded(struct job *j, const struct text_ids *ids) {
    if (j->call->json) {
        cli_json_open(NULL, '{');
        cli_json_int("count", (int64_t)ids->count);
        cli_json_open("tokens", '[');
        bool ok = true;
        for (size_t i = 0; ok && i < ids->count; i++)
            ok = json_token(j, ids->id[i]);
        cli_json_close();
        cli_json_close();
        return ok;
    }
    if (cli_option(j->call, "ids"))
        print_ids(ids);
    else if (!cli_option(j->call, "show-count"))
        print_tokens(j, ids);
    if (cli_option(j->call, "show-count"))
        printf("%zu tokens\n", ids->count);
    return true;
}

static bool encode_one(struct job *j, struct text_encoder *encoder, const char *text, size_t bytes,
                       double *seconds) {
    struct text_ids ids = {0};
    struct text_encode_options how = {
        .add_special = !cli_option(j->call, "no-bos") && !cli_option(j->call, "chat"),
        .plain_special = cli_option(j->call, "no-parse-special") != NULL,
        .progress = show_progress,
    };
    double start = now();
    bool ok = text_encode(encoder, text, bytes, &how, &ids, j->error, sizeof j->error);
    *seconds += now() - start;
    end_progress();
    ok = ok && print_encoded(j, &ids);
    free(ids.id);
    return ok;
}

static bool encode(struct job *j) {
    struct text_encoder *encoder = text_encoder_new(j->tokenizer, j->error, sizeof j->error);
    bool ok = encoder != NULL, separated = cli_option(j->call, "null") != NULL;
    const char *at = j->text, *end = j->text + j->bytes;
    double seconds = 0;
    if (!separated)
        ok = ok && encode_one(j, encoder, at, j->bytes, &seconds);
    for (const char *next; separated && ok && at < end; at = next + 1) {
        next = memchr(at, 0, (size_t)(end - at));
        next = next ? next : end;
        ok = encode_one(j, encoder, at, (size_t)(next - at), &seconds);
    }
    if (ok && j->call->verbosity > 0)
        fprintf(stderr, "%zu bytes in %.4f s: %.1f MB/s\n", j->bytes, seconds,
                1e-6 * (double)j->bytes / seconds);
    text_encoder_free(encoder);
    return ok;
}

// Decoding --------------------------------------------------------------------------------------------------

// Reads the next number of a list such as [1, 2, 3] or 1 2 3. Returns 0 at the end, -1 if there is something
// else.
static int next_id(const char **at, const char *end, int *id) {
    while (*at < end && strchr(" \t\r\n,[]", **at) && **at)
        ++*at;
    if (*at == end)
        return 0;
    char *rest;
    errno = 0;
    long value = strtol(*at, &rest, 10);
    if (rest == *at || errno || value < 0 || value > INT32_MAX)
        return -1;
    *at = rest;
    *id = (int)value;
    return 1;
}

static bool decode(struct job *j) {
    struct text_decoder decoder = {.tokenizer = j->tokenizer,
                                   .skip_special = cli_option(j->call, "skip-special") != NULL};
    const char *at = j->text, *end = at + j->bytes;
    char *text = NULL;
    size_t bytes = 0, cap = 0;
    int id, more;
    bool ok = true;
    while (ok && (more = next_id(&at, end, &id)) > 0)
        ok = text_decode(&decoder, id, &text, &bytes, &cap, j->error, sizeof j->error);
    if (ok && more < 0) {
        snprintf(j->error, sizeof j->error, "'%.20s' is no id: numbers are needed, such as [1, 2, 3]", at);
        ok = false;
    }
    ok = ok && text_decode_end(&decoder, &text, &bytes, &cap, j->error, sizeof j->error);
    if (ok && j->call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("text", text ? text : "");
        cli_json_close();
    } else if (ok) {
        fwrite(text ? text : "", 1, bytes, stdout);
        if (isatty(STDOUT_FILENO))
            putchar('\n');
    }
    free(text);
    return ok;
}

// The command -----------------------------------------------------------------------------------------------

static int work(struct job *j, int first) {
    bool is_chat = cli_option(j->call, "chat") != NULL;
    bool ok = is_chat ? render_chat(j) : read_text(j, first);
    ok = ok && (cli_option(j->call, "decode")              ? decode(j)
                : is_chat && cli_option(j->call, "render") ? print_text(j)
                                                           : encode(j));
    return ok ? CLI_OK : fail(j);
}

static int run(const struct invocation *call) {
    const char *model = cli_option(call, "model");
    int first = !model;
    if (!model && call->operand_count == 0)
        return cli_usage(call, "needs a model: tokenizer.json, a GGUF or rank file, or a folder");
    if (cli_option(call, "prompt") && cli_option(call, "file"))
        return cli_usage(call, "--prompt and --file both give the text: give one");
    struct job j = {.call = call};
    struct text_open_options how = {.pattern = cli_option(call, "pattern")};
    cli_catch_interrupts();
    double start = now();
    j.tokenizer = text_tokenizer_open(model ? model : call->operands[0], &how, j.error, sizeof j.error);
    if (!j.tokenizer)
        return fail(&j);
    if (call->verbosity > 0)
        fprintf(stderr, "%d tokens, opened in %.3f s\n", text_token_count(j.tokenizer), now() - start);
    int code = work(&j, first);
    free(j.text);
    text_tokenizer_close(j.tokenizer);
    return code;
}

const struct command cli_tokenize = {
    .name = "tokenize",
    .operands = "[MODEL] [TEXT...]",
    .words = "*",
    .summary = "Texts as a model's tokens and back, and conversations as its template writes them",
    .details =
        "MODEL is a tokenizer.json, a GGUF file, a rank file (tiktoken), or a folder with a tokenizer.json.\n"
        "  zellige tokenize Qwen3-0.6B \"Hello world\"\n"
        "  zellige tokenize -m model.gguf --ids -f book.txt\n"
        "  zellige tokenize Qwen3-0.6B --decode 9707 1879\n"
        "  zellige tokenize Qwen3-0.6B --chat messages.json --render",
    .operands_most = 1 << 20,
    .options = options,
    .run = run,
};
