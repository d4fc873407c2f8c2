// task.c - writes a task as the YAML that SkyPilot reads.
//
// Texts of the user are written in double quotes, commands as a block in which every line is indented. A
// measurement fills in scripts/tpu_resource.sky.yaml; its values may have only a few characters.

#include "cloud.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char identifier[] = "[A-Za-z_][A-Za-z0-9_]{0,100}";

static const char *file_text(const char *name) {
    for (const struct cloud_file *f = cloud_files; f->name; f++)
        if (!strcmp(f->name, name))
            return strchr(f->text, '\n') + 1; // the text after the first line, which describes the file
    return NULL;
}

// Checking --------------------------------------------------------------------------------------------------

static bool matches(const char *text, const char *pattern) {
    char whole[512];
    regex_t compiled;
    snprintf(whole, sizeof whole, "^(%s)$", pattern);
    if (regcomp(&compiled, whole, REG_EXTENDED | REG_NOSUB))
        return false;
    bool found = !regexec(&compiled, text, 0, NULL, 0);
    regfree(&compiled);
    return found;
}

bool cloud_check_text(const struct invocation *call, const char *what, const char *text, const char *pattern,
                      const char *expected) {
    char shown[CLOUD_NAME];
    if (matches(text, pattern))
        return true;
    snprintf(shown, sizeof shown, "%s", text);
    for (char *at = shown; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    cli_fail(call, "%s '%s': expected is %s", what, shown, expected);
    return false;
}

// Returns whether YAML accepts the text unchanged; line feeds and tabs are accepted.
static bool is_printable(const char *text) {
    char *copy = strdup(text);
    if (!copy)
        return false;
    cli_clean(copy, true);
    bool same = !strcmp(copy, text);
    free(copy);
    return same;
}

static bool ends_with(const char *text, size_t len, const char *end) {
    size_t bytes = strlen(end);
    return len >= bytes && !strncasecmp(text + len - bytes, end, bytes);
}

static bool looks_secret(const char *name, size_t len) {
    return ends_with(name, len, "TOKEN") || ends_with(name, len, "SECRET") ||
           ends_with(name, len, "PASSWORD") || ends_with(name, len, "_KEY");
}

static bool read_env(const struct invocation *call, struct cloud_task *t, const char *pair) {
    size_t len = strcspn(pair, "=");
    char name[CLOUD_NAME];
    snprintf(name, sizeof name, "%.*s", (int)len, pair);
    if (!pair[len] || !matches(name, identifier) || !is_printable(pair))
        return cli_fail(call, "--env: NAME=VALUE is expected, in letters that can be printed"), false;
    if (looks_secret(pair, len))
        return cli_fail(call, "--env %s: others can read it in lists of processes; use --secret %s", name,
                        name),
               false;
    t->env[t->envs++] = pair;
    return true;
}

static bool read_secret(const struct invocation *call, struct cloud_task *t, const char *name) {
    if (!matches(name, identifier)) // it may contain the value: do not print it
        return cli_fail(call, "--secret: a name alone is expected; the value is taken from the environment"),
               false;
    if (!getenv(name))
        return cli_fail(call, "--secret %s: there is no such variable in the environment", name), false;
    t->secret[t->secrets++] = name;
    return true;
}

static bool read_mount(const struct invocation *call, struct cloud_task *t, const char *pair) {
    t->mount[t->mounts++] = pair;
    return cloud_check_text(call, "--mount", pair,
                            "[/~][A-Za-z0-9_./-]*=[a-z0-9]+://[A-Za-z0-9][A-Za-z0-9_./-]*",
                            "PATH=BUCKET, as in /data=gs://name");
}

// Reads every value of an option that may be given several times.
static bool read_all(const struct invocation *call, struct cloud_task *t, const char *option,
                     bool (*read)(const struct invocation *, struct cloud_task *, const char *)) {
    const char *value;
    for (int i = 0; (value = cli_option_at(call, option, i)); i++) {
        if (i == CLOUD_PAIRS - 1) // one place is left for the token
            return cli_fail(call, "--%s: there may be %d of them", option, CLOUD_PAIRS - 1), false;
        if (!read(call, t, value))
            return false;
    }
    return true;
}

static bool read_program(const struct invocation *call, struct cloud_task *t) {
    t->program = call->operands;
    for (int i = 0; i < call->operand_count; i++)
        if (!is_printable(call->operands[i]))
            return cli_fail(call, "word %d of the program has letters that cannot be printed", i + 1), false;
    if (t->setup && !is_printable(t->setup))
        return cli_fail(call, "--setup has letters that cannot be printed"), false;
    return true;
}

// Gives a program on several hosts a token by which its ranks recognise each other, and which no command line
// contains.
static bool share_token(const struct invocation *call, struct cloud_task *t) {
    static const char name[] = "ZL_GROUP_TOKEN";
    char token[CLI_TOKEN_DIGITS + 1];
    if (cloud_task_hosts(t) == 1 || t->bench)
        return true;
    for (int i = 0; i < t->secrets; i++)
        if (!strcmp(t->secret[i], name))
            return true;
    if (!cli_make_token(token) || setenv(name, token, 1))
        return cli_fail(call, "there is no random token to be had"), false;
    t->secret[t->secrets++] = name;
    return true;
}

bool cloud_read_task(const struct invocation *call, struct cloud_task *t) {
    t->workdir = cli_option(call, "workdir") ? cli_option(call, "workdir") : ".";
    if (!is_printable(t->workdir))
        return cli_fail(call, "--workdir has letters that cannot be printed"), false;
    return read_all(call, t, "env", read_env) && read_all(call, t, "secret", read_secret) &&
           read_all(call, t, "mount", read_mount) && read_program(call, t) && share_token(call, t);
}

int cloud_task_hosts(const struct cloud_task *t) {
    return (t->nodes ? t->nodes : 1) * cloud_hosts_of(t->accelerator);
}

// Writing ---------------------------------------------------------------------------------------------------

// Returns whether the task is a rehearsal: the TPU benchmark on machines without TPUs, with XLA's plugin for
// the CPU.
static bool is_rehearsal(const struct cloud_task *t) {
    return t->bench && t->infra && strncmp(t->infra, "gcp", 3);
}

static void put_field(FILE *out, const char *name, const char *value) {
    fprintf(out, "  %s: ", name);
    cli_put_string(out, value);
    fputc('\n', out);
}

static void put_resources(FILE *out, const struct cloud_task *t) {
    const char *infra = t->place[0] ? t->place : t->infra;
    if (infra && !t->on_cluster)
        put_field(out, "infra", infra);
    if (t->accelerator && !is_rehearsal(t))
        put_field(out, "accelerators", t->accelerator);
    if (!t->on_cluster && (t->cpus || is_rehearsal(t) || !t->accelerator))
        fprintf(out, "  cpus: %s\n", t->cpus ? t->cpus : "1+");
    if (!t->on_cluster && t->spot && !is_rehearsal(t))
        fprintf(out, "  use_spot: true\n");
}

// Writes text with every line indented, as a block of YAML.
static void put_block(FILE *out, const char *text) {
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "\n");
        fprintf(out, "%s%.*s\n", len ? "  " : "", (int)len, at);
        at += len + (at[len] == '\n');
    }
}

static void put_program(FILE *out, const struct cloud_task *t) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return;
    if (cloud_task_hosts(t) > 1)
        fputs(file_text("hosts.sh"), f);
    for (char *const *word = t->program; *word; word++) {
        fputs(word > t->program ? " " : "", f);
        cli_put_quoted(f, *word);
    }
    fputs(t->program[0] ? "\n" : "true\n", f);
    if (fclose(f) == 0) {
        fputs("\nrun: |\n", out);
        put_block(out, text);
    }
    free(text);
}

static void put_mount(FILE *out, const char *pair) {
    size_t len = strcspn(pair, "=");
    fprintf(out, "  \"%.*s\":\n    source: ", (int)len, pair);
    cli_put_string(out, pair + len + 1);
    fputs("\n    mode: MOUNT\n", out);
}

static void put_variables(FILE *out, const struct cloud_task *t) {
    int hosts = cloud_hosts_of(t->accelerator);
    if (t->envs || hosts > 1)
        fputs("\nenvs:\n", out);
    for (int i = 0; i < t->envs; i++) {
        size_t len = strcspn(t->env[i], "=");
        fprintf(out, "  %.*s: ", (int)len, t->env[i]);
        cli_put_string(out, t->env[i] + len + 1);
        fputc('\n', out);
    }
    if (hosts > 1)
        fprintf(out, "  ZL_TPU_HOSTS: \"%d\"\n", hosts);
    fputs(t->secrets ? "\nsecrets:\n" : "", out);
    for (int i = 0; i < t->secrets; i++)
        fprintf(out, "  %s: null\n", t->secret[i]);
}

static void write_program(FILE *out, const struct cloud_task *t) {
    fputs("name: ", out);
    cli_put_string(out, t->name);
    fputc('\n', out);
    if (!t->on_cluster || t->accelerator)
        fputs("\nresources:\n", out);
    put_resources(out, t);
    if (t->nodes > 1)
        fprintf(out, "\nnum_nodes: %d\n", t->nodes);
    fputs("\nworkdir: ", out);
    cli_put_string(out, t->workdir);
    fputc('\n', out);
    put_variables(out, t);
    fputs(t->mounts ? "\nfile_mounts:\n" : "", out);
    for (int i = 0; i < t->mounts; i++)
        put_mount(out, t->mount[i]);
    if (t->setup) {
        fputs("\nsetup: |2\n", out); // the first line may begin with spaces
        put_block(out, t->setup);
    }
    put_program(out, t);
}

// Measurements ----------------------------------------------------------------------------------------------

static void put_value(FILE *out, const struct cloud_task *t, const char *word, size_t len) {
    const struct {
        const char *name, *value;
    } values[] = {
        {"EXPERIMENT", t->bench},
        {"SUITE", t->suite},
        {"OPTIONS", t->build_options},
        {"ACCELERATOR", t->accelerator},
        {"PACKAGES", is_rehearsal(t) ? "xla-cpu-pjrt==0.0.1" : "libtpu"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strlen(values[i].name) == len && !strncmp(word, values[i].name, len))
            fputs(values[i].value, out);
}

// Writes the task of a benchmark from its template: each @NAME@ is replaced by its value, and the line
// @RESOURCES@ by the lines of the resources.
static void write_measurement(FILE *out, const struct cloud_task *t) {
    static const char lines[] = "@RESOURCES@\n";
    for (const char *at = file_text("tpu_resource.sky.yaml"); *at;) {
        size_t len = strcspn(at, "@");
        fwrite(at, 1, len, out);
        at += len;
        if (!strncmp(at, lines, strlen(lines))) {
            put_resources(out, t);
            at += strlen(lines);
        } else if (*at) {
            len = strcspn(at + 1, "@");
            put_value(out, t, at + 1, len);
            at += len + 2;
        }
    }
}

void cloud_write_task(FILE *out, const struct cloud_task *t) {
    if (t->bench)
        write_measurement(out, t);
    else
        write_program(out, t);
}

bool cloud_save_task(const struct invocation *call, const struct cloud_task *t, char *path) {
    static const char ending[] = ".sky.yaml";
    snprintf(path, CLOUD_NAME, "/tmp/zellige-XXXXXX%s", ending);
    int file = mkstemps(path, (int)strlen(ending));
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    if (out)
        cloud_write_task(out, t);
    if (!out || ferror(out) || fclose(out))
        return cli_fail(call, "the task cannot be written to %s: %s", path, strerror(errno)), false;
    return true;
}
