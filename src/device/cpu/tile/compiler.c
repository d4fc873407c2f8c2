// compiler.c - runs the system's C compiler.

#include "device/cpu/tile/compiler.h"
#include "device/profile/profile.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 64 };

// A command line: ZL_CC and flags are split at spaces, paths are single words.
struct command {
    struct text text;
    char *word[WORDS];
    int words;
};

static bool cut_words(struct command *c) {
    char *rest = NULL;
    if (c->text.failed)
        return false;
    for (char *word = strtok_r(c->text.data, " ", &rest); word && c->words < WORDS - 8;
         word = strtok_r(NULL, " ", &rest))
        c->word[c->words++] = word;
    return c->words > 0 || error_false(ZL_ERROR_COMPILE, "ZL_CC names no compiler");
}

// Running ---------------------------------------------------------------------------------------------------

static bool cannot_start(const char *program, int reason) {
    return error_false(
        ZL_ERROR_COMPILE,
        "no C compiler: %s could not be started: %s; install one (on Debian: apt install gcc), or name it "
        "in ZL_CC",
        program, strerror(reason));
}

static bool run(struct command *c, struct text *output) {
    int reason = 0;
    enum process_end end = process_run(c->word, output, &reason);
    return end == PROCESS_NOT_STARTED ? cannot_start(c->word[0], reason) : end == PROCESS_DONE;
}

// Compiling -------------------------------------------------------------------------------------------------

// The flags are those of the built-in rows (cmake/flags.cmake), so that the same text gives the same bits.
// Pages of 4 KiB keep files small.
void cpu_compiler_flags(struct text *out) {
    const struct cpu_level *level = cpu_level();
    text_add(out,
             "-std=c11 -D_GNU_SOURCE -O2 -g0 -fPIC -shared -ffp-contract=off -fno-math-errno "
             "-fno-trapping-math "
#ifdef __x86_64__
             "-mno-mmx "
#endif
             "-DZL_LEVEL=%s %s -Wl,-z,max-page-size=4096",
             level->name, level->flags);
}

static struct {
    struct lock lock;
    char *compiler, *version;
} known;

ZL_AT_LOAD {
    fork_guard(&known.lock);
}

static char *read_version(const char *compiler) {
    struct command c = {0};
    struct text output = {0};
    text_add(&c.text, "%s --version", compiler);
    bool done = cut_words(&c) && run(&c, &output);
    text_free(&c.text);
    char *version = done ? text_take(&output) : NULL;
    text_free(&output);
    return version;
}

// Finds a program in PATH, or at its own path. Returns false if there is none.
static bool find_program(const char *name, int len, char *out, struct stat *info) {
    const char *folders = memchr(name, '/', (size_t)len) ? "" : getenv("PATH");
    for (const char *at = folders, *colon; at; at = colon ? colon + 1 : NULL) {
        colon = strchr(at, ':');
        int folder = (int)strcspn(at, ":");
        snprintf(out, PATH_MAX, "%.*s%s%.*s", folder, at, folder ? "/" : "", len, name);
        if (stat(out, info) == 0 && S_ISREG(info->st_mode) && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

// Identifies the compiler by its file's path, size and time, because running it to get its version takes as
// long as loading all kernels compiled before. It is run only if there is no such file.
bool cpu_compiler_name(struct text *out) {
    const char *words = setting_text(SETTING_CC);
    int space = (int)strspn(words, " "), len = (int)strcspn(words + space, " ");
    char path[PATH_MAX];
    struct stat s;
    if (len && len < PATH_MAX / 2 && find_program(words + space, len, path, &s)) {
        text_add(out, "%s\n%s %lld %lld.%09ld\n", words, path, (long long)s.st_size,
                 (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
        return true;
    }
    const char *version = cpu_compiler_version();
    if (version)
        text_add(out, "%s\n%s\n", words, version);
    return version;
}

// Runs each compiler only once to get its version. The texts of earlier compilers are kept, because callers
// may use them.
const char *cpu_compiler_version(void) {
    const char *compiler = setting_text(SETTING_CC);
    lock_take(&known.lock);
    if (!known.compiler || strcmp(known.compiler, compiler) != 0) {
        char *version = read_version(compiler), *copy = version ? memory_copy_text(compiler) : NULL;
        if (!copy) {
            memory_free(version);
            lock_give(&known.lock);
            return NULL;
        }
        known.compiler = copy;
        known.version = version;
    }
    const char *version = known.version;
    lock_give(&known.lock);
    return version;
}

bool cpu_compile(const char *source_path, const char *library_path, const char *flags) {
    struct command c = {0};
    struct text output = {0};
    text_add(&c.text, "%s ", setting_text(SETTING_CC));
    cpu_compiler_flags(&c.text);
    text_add(&c.text, " %s", flags);
    bool done = cut_words(&c);
    if (done) {
        const char *const last[] = {"-o", library_path, source_path, "-lm"};
        memcpy(&c.word[c.words], last, sizeof last);
        counter_add(COUNTER_COMPILES, 1);
    }
    int64_t begin = clock_ns();
    done = done && run(&c, &output);
    profile_compiled("compile C", begin);
    log_line(ZL_LOG_DEBUG, "compiled %s in %.1f ms", library_path, (double)(clock_ns() - begin) * 1e-6);
    text_free(&c.text);
    text_free(&output);
    return done;
}
