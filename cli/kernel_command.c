// kernel_command.c - `zellige kernel show`: prints a tile kernel as text, at any stage of its compilation.

#include "kernel_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The source that is shown: a parsed file, or the row kernel of an op.
struct source {
    zl_kernel kernel;
    const char *op, *dtype;
};

static const struct option show_options[] = {
    {"stage", 0, "NAME", NULL, "the kernel after this pass, or for this target; `all`: after each"},
    {"target", 0, "NAME", "c", "the same as --stage, for a target such as c"},
    CLI_PARAM_OPTION,
    {"stages", 0, NULL, NULL, "list the names that --stage knows"},
    {"op", 0, "NAME", NULL,
     "a built-in kernel instead of a file: of an elementwise op, or one of src/kernel/"},
    {"dtype", 0, "TYPE", "f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool c64",
     "its dtype (default f32)"},
    {0},
};

char *cli_read_all(const char *path) {
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (!file)
        return NULL;
    char *text = NULL;
    size_t len = 0, cap = 0, got = 0;
    do {
        len += got;
        if (len + 1 >= cap) {
            cap = cap ? 2 * cap : 4096;
            char *bigger = realloc(text, cap);
            if (!bigger)
                break;
            text = bigger;
        }
        got = fread(text + len, 1, cap - len - 1, file);
    } while (got > 0);
    bool failed = ferror(file) || !text || len + 1 >= cap;
    int reason = errno;
    if (file != stdin)
        fclose(file);
    if (failed) {
        free(text);
        errno = reason;
        return NULL;
    }
    text[len] = 0;
    return text;
}

static bool open_file(const char *path, struct source *source, const struct invocation *call) {
    char *text = cli_read_all(path);
    if (!text) {
        cli_fail(call, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    source->kernel = zl_kernel_parse_with(text, path, cli_option(call, "param"));
    free(text);
    if (!source->kernel)
        cli_library_failed(call);
    return source->kernel != NULL;
}

static bool show_stage(const struct source *source, const char *stage, bool heading,
                       const struct invocation *call) {
    char *text = source->kernel ? zl_kernel_print(source->kernel, stage)
                                : zl_kernel_of_op(source->op, zl_dtype_find(source->dtype), stage);
    if (!text)
        return false;
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("stage", stage);
        cli_json_text("text", text);
        cli_json_close();
    } else {
        if (heading)
            printf("%s// %s%s\n", cli_bold(), stage, cli_plain());
        printf("%s%s", text, text[0] && text[strlen(text) - 1] != '\n' ? "\n" : "");
    }
    zl_free(text);
    return true;
}

// Shows one stage, or if `stage` is "all", every stage that this kernel has.
static bool show_stages(const struct source *source, const char *stage, const struct invocation *call) {
    if (strcmp(stage, "all") != 0)
        return show_stage(source, stage, false, call);
    for (int i = 0; zl_kernel_stage(i); i++) {
        if (show_stage(source, zl_kernel_stage(i), true, call))
            continue;
        if (i == 0 || zl_error_which() != ZL_ERROR_COMPILE)
            return false;
        zl_clear_error();
    }
    return true;
}

static int list_stages(const struct invocation *call) {
    if (call->json)
        cli_json_open(NULL, '[');
    for (int i = 0; zl_kernel_stage(i); i++) {
        if (call->json)
            cli_json_text(NULL, zl_kernel_stage(i));
        else
            puts(zl_kernel_stage(i));
    }
    if (call->json)
        cli_json_close();
    return CLI_OK;
}

static int run_show(const struct invocation *call) {
    if (cli_option(call, "stages"))
        return list_stages(call);
    const char *stage = cli_option(call, "stage"), *target = cli_option(call, "target");
    const char *dtype = cli_option(call, "dtype");
    struct source source = {.op = cli_option(call, "op"), .dtype = dtype ? dtype : "f32"};
    if (!source.op == !call->operand_count)
        return cli_usage(call, "needs a .tile file, or --op NAME");
    if (source.op && cli_option(call, "param"))
        return cli_usage(call, "--param is for a .tile file, not for --op");
    if (stage && target)
        return cli_usage(call, "--stage and --target name the same thing: give one");
    if (call->operand_count && !open_file(call->operands[0], &source, call))
        return CLI_FAILED;
    stage = stage ? stage : target ? target : "tile";
    // Each stage is printed at once, so with --json an error after the first one becomes an item of the list.
    if (call->json)
        cli_json_open(NULL, '[');
    bool shown = show_stages(&source, stage, call);
    int code = shown ? CLI_OK : cli_library_failed(call);
    if (call->json)
        cli_json_close();
    if (source.kernel)
        zl_kernel_release(source.kernel);
    return code;
}

const struct command cli_kernel_show = {
    .name = "kernel show",
    .operands = "[FILE.tile]",
    .words = "*.tile",
    .summary = "A tile kernel as text, at any stage of its way to a target",
    .details = "FILE.tile is a kernel in the tile language, - is standard input. Without --stage it is "
               "printed as read.\n"
               "  zellige kernel show gemm.tile --target c --param BM=64\n"
               "  zellige kernel show --op add --dtype f32 --stage all",
    .operands_most = 1,
    .options = show_options,
    .run = run_show,
};
