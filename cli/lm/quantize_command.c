// quantize_command.c - `zellige quantize`: writes a checkpoint with quantised matrices, in MLX's format.

#include "language.h"

#include <stdio.h>
#include <unistd.h>

static const struct option options[] = {
    {"model", 'm', "FOLDER", NULL, "the checkpoint: config.json and safetensors"},
    {"output", 'o', "FOLDER", NULL, "the folder that is written; it must not be there"},
    {"bits", 0, "N", "2 3 4 5 6 8", "bits of a number (default 4, or what the mode has)"},
    {"group-size", 0, "N", "32 64 128", "numbers that share a scale (default 64, or what the mode has)"},
    {"mode", 0, "NAME", "affine mxfp4 mxfp8 nvfp4", "how numbers are written (default affine)"},
    {"mixed", 0, "RULE", "mixed_2_6 mixed_3_4 mixed_3_6 mixed_4_6",
     "fewer bits for most matrices, more for those that matter most"},
    {"device", 0, "NAME", NULL, "device to run on"},
    {0},
};

static bool show_progress(void *context, int64_t done, int64_t all) {
    const struct invocation *call = context;
    if (!call->json && call->verbosity >= 0 && isatty(STDERR_FILENO))
        fprintf(stderr, done < all ? "\r\033[K%.0f %% of %.1f MiB" : "\r\033[K",
                100 * (double)done / (double)(all ? all : 1), (double)all / 1048576);
    return !cli_interrupted();
}

static int report(const struct invocation *call, const char *from, const char *to, double seconds) {
    char error[512];
    zl_model old = zl_model_open(from, error, sizeof error), new = zl_model_open(to, error, sizeof error);
    zl_model_info was = zl_model_about(old), is = zl_model_about(new);
    bool opened = old && new;
    zl_model_close(old);
    zl_model_close(new);
    if (!opened)
        return cli_fail(call, "%s", error);
    double bits = 8 * (double)is.bytes / (double)is.parameters;
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("output", to);
        cli_json_int("bytes_before", (int64_t)was.bytes);
        cli_json_int("bytes", (int64_t)is.bytes);
        cli_json_number("bits_per_weight", bits);
        cli_json_number("seconds", seconds);
        cli_json_close();
    } else if (call->verbosity >= 0) {
        printf("%s: %.1f MiB became %.1f MiB, %.3f bits per weight, in %.1f s\n", to,
               (double)was.bytes / 1048576, (double)is.bytes / 1048576, bits, seconds);
    }
    return CLI_OK;
}

static int run(const struct invocation *call) {
    const char *from = cli_option(call, "model"), *to = cli_option(call, "output"),
               *device = cli_option(call, "device");
    char error[512] = "";
    int64_t bits = 0, group = 0;
    if (!from && call->operand_count)
        from = call->operands[0];
    if (!from || !to)
        return cli_usage(call, "wanted --model FOLDER and --output FOLDER");
    if (!cli_integer(call, "bits", 2, 8, &bits) || !cli_integer(call, "group-size", 16, 128, &group))
        return CLI_USAGE;
    if (device && !zl_use_device(device))
        return cli_library_failed(call);
    zl_quantize_options how = {.mode = cli_option(call, "mode"),
                               .bits = (int)bits,
                               .group_size = (int)group,
                               .mixed = cli_option(call, "mixed"),
                               .progress = show_progress,
                               .context = (void *)(uintptr_t)call};
    double start = language_now();
    cli_catch_interrupts();
    if (!zl_model_quantize(from, to, &how, error, sizeof error))
        return cli_fail(call, "%s", error);
    return report(call, from, to, language_now() - start);
}

const struct command cli_quantize = {
    .name = "quantize",
    .operands = "[FOLDER]",
    .operands_most = 1,
    .summary = "Write a language model with fewer bits for each weight",
    .details =
        "The result is a folder in MLX's format: config.json says how each matrix is quantised, the files of "
        "the tokenizer are\n"
        "copied. Matrices whose rows are no multiple of the group stay as they are.\n"
        "  zellige quantize -m Qwen3-0.6B -o Qwen3-0.6B-4bit --bits 4 --group-size 64\n"
        "  zellige quantize -m Qwen3-0.6B -o Qwen3-0.6B-mixed --mixed mixed_3_6",
    .options = options,
    .run = run,
};
