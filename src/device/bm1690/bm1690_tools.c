// bm1690_tools.c - finds the vendor's tools for the BM1690.

#include "device/bm1690/bm1690_tools.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Paths in the package, in the two layouts that its releases have.
static const struct layout {
    const char *include[BM1690_HEADER_FOLDERS], *archive;
} layouts[] = {
    {{"deps/chip/tpub_7_1/TPU1686/kernel/include", "deps/common/dev/kernel", "deps/common/dev/utils/include"},
     "deps/chip/tpub_7_1/lib/libfirmware_core.a"},
    {{"runtime/bm1690/TPU1686/kernel/include", "runtime/kernel", "runtime/customize/include"},
     "runtime/bm1690/lib/libbm1690.a"},
};

static const char compiler_name[] = "riscv64-unknown-linux-gnu-gcc";
static const char variable_root[] = "PPL_PROJECT_ROOT", variable_toolchains[] = "CROSS_TOOLCHAINS";

static bool is_there(const char *path) {
    return access(path, R_OK) == 0;
}

static void join(char *out, const char *folder, const char *name) {
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", folder, name);
}

// Finds a path that matches a pattern; if there are several, the last by name.
static bool match(const char *pattern, char *out) {
    glob_t found;
    bool good = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (good)
        snprintf(out, PATH_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return good;
}

// Variables of a script, without running it -----------------------------------------------------------------

// Evaluates a value in a shell script without a shell: a leading $PPL_PROJECT_ROOT becomes `root`, and any
// other value with an expansion is taken for the script's own folder, `folder`.
static void take_value(const char *value, int len, const char *folder, const char *root, char *out) {
    static const char *const spelled[] = {"${PPL_PROJECT_ROOT}", "$PPL_PROJECT_ROOT"};
    if (len > 1 && strchr("\"'", value[0]) && value[len - 1] == value[0]) {
        value++;
        len -= 2;
    }
    char text[PATH_MAX];
    snprintf(text, sizeof text, "%.*s", len, value);
    for (size_t i = 0; i < COUNT(spelled); i++) {
        size_t own = strlen(spelled[i]);
        if (!strncmp(text, spelled[i], own)) {
            snprintf(out, PATH_MAX, "%.2000s%.2000s", root, text + own);
            return;
        }
    }
    snprintf(out, PATH_MAX, "%s", strchr(text, '$') || strchr(text, '`') ? folder : text);
}

// Sets *out to the value of a variable in FOLDER/envsetup.sh. Returns false if it is not set there.
static bool read_variable(const char *folder, const char *name, const char *root, char *out) {
    char path[PATH_MAX];
    bool found = false;
    join(path, folder, "envsetup.sh");
    char *text = is_there(path) ? file_read(path, NULL) : NULL;
    for (const char *at = text; at && !found; at = strchr(at, '\n')) {
        at += strspn(at, " \t\n");
        if (!strncmp(at, "export", 6))
            at += 6 + strspn(at + 6, " \t");
        size_t len = strlen(name);
        found = !strncmp(at, name, len) && at[len] == '=';
        if (found)
            take_value(at + len + 1, (int)strcspn(at + len + 1, "\n"), folder, root, out);
        if (!*at)
            break;
    }
    memory_free(text);
    return found;
}

// Folders ---------------------------------------------------------------------------------------------------

static bool is_package(const char *folder) {
    char path[PATH_MAX];
    for (size_t i = 0; i < COUNT(layouts); i++) {
        join(path, folder, layouts[i].include[0]);
        if (is_there(path))
            return true;
    }
    return false;
}

// Sets *out to the root of a package: the folder itself, or the folder to which its envsetup.sh sets
// PPL_PROJECT_ROOT. Returns whether there is a package.
static bool take_root(const char *folder, char *out) {
    if (!read_variable(folder, variable_root, folder, out))
        snprintf(out, PATH_MAX, "%s", folder);
    return is_package(out);
}

static void find_root(struct bm1690_tools *t) {
    const char *told = getenv(variable_root), *home = getenv("HOME");
    char own[PATH_MAX], folder[PATH_MAX];
    join(own, home ? home : "/root", "ppl*");
    const char *const usual[] = {own, "/workspace/ppl*", "/opt/ppl*", "/usr/local/ppl*", "/opt/sophgo/ppl*"};
    if (told && *told) {
        snprintf(t->root, sizeof t->root, "%s", told);
        return;
    }
    for (size_t i = 0; i < COUNT(usual); i++)
        if (match(usual[i], folder) && take_root(folder, t->root))
            return;
    t->root[0] = 0;
}

static void find_headers(struct bm1690_tools *t) {
    for (size_t i = 0; i < COUNT(layouts) && !*t->archive; i++) {
        char path[PATH_MAX];
        join(path, t->root, layouts[i].include[0]);
        if (!is_there(path))
            continue;
        for (int k = 0; k < BM1690_HEADER_FOLDERS; k++)
            join(t->include[k], t->root, layouts[i].include[k]);
        join(t->archive, t->root, layouts[i].archive);
    }
}

static bool find_compiler_in(const char *folder, char *out) {
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%.2000s/Xuantie-*/bin/%s", folder, compiler_name);
    return match(pattern, out);
}

static void find_compiler(struct bm1690_tools *t) {
    const char *told = getenv(variable_toolchains);
    char folder[PATH_MAX];
    if (told && *told && find_compiler_in(told, t->compiler))
        return;
    if (read_variable(t->root, variable_toolchains, t->root, folder) && find_compiler_in(folder, t->compiler))
        return;
    join(folder, t->root, "third_party/toolchains_dir");
    if (!find_compiler_in(folder, t->compiler))
        t->compiler[0] = 0;
}

void bm1690_tools_find(struct bm1690_tools *out) {
    *out = (struct bm1690_tools){0};
    find_root(out);
    if (*out->root)
        find_headers(out);
    if (*out->root)
        find_compiler(out);
    if (!*out->root)
        snprintf(out->missing, sizeof out->missing,
                 "SophGo's package PPL is not here; unpack it and name its folder in PPL_PROJECT_ROOT");
    else if (!*out->archive)
        snprintf(out->missing, sizeof out->missing, "%s, which is to be SophGo's PPL, has no %s or %s",
                 out->root, layouts[0].include[0], layouts[1].include[0]);
    else if (!is_there(out->archive))
        snprintf(out->missing, sizeof out->missing, "%s is not there, which device C is linked with",
                 out->archive);
    else if (!*out->compiler)
        snprintf(out->missing, sizeof out->missing,
                 "no Xuantie-*/bin/%s in %s/third_party/toolchains_dir or CROSS_TOOLCHAINS", compiler_name,
                 out->root);
}
