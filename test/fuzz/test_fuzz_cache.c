// test_fuzz_cache.c - the kernel cache in folders full of crafted names: files that it did not write do not
// change.
//
// Covers: ZL_CACHE_DIR at a folder that others use too; files, folders and symbolic links, old and new, with
// names that the cache itself uses or similar ones, next to its subfolder, in its place and inside it; a
// cache that is above its limit.

#include "test.h"

#include "device/device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 64, DEPTH = 3, PATHS = 4096 };

// Files that must exist afterwards; each contains its own path.
static char (*kept)[PATHS];
static int kept_count;

static const char *const names[] = {
    "new-abcdef",
    "new-photos",
    "new-",
    "sum",
    "sum.17.0.tmp",
    "summary",
    "kernel.so",
    "kernel",
    "CACHEDIR.TAG",
    "zellige-kernels-v1",
    "zellige-kernels-v1-abcdef",
    "zellige-tuned",
    "..data",
    "notes.txt",
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg",
    "a folder whose name happens to have sixty-four characters in all.",
};

static const char *any_name(void) {
    return names[test_between(0, COUNT(names) - 1)];
}

static void make_old(const char *path) {
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

// The cache may remove a file in one of its folders if the name is one of its own.
static bool is_own_name(const char *name) {
    return !strncmp(name, "kernel.", 7) || !strcmp(name, "sum") || !strncmp(name, "sum.", 4);
}

static void put_file(const char *path, const char *name, bool inside) {
    if (access(path, F_OK) == 0 || !file_write(path, path, strlen(path)))
        return;
    if (kept_count < KEPT && !(inside && is_own_name(name)))
        snprintf(kept[kept_count++], PATHS, "%s", path);
}

// inside: below the cache's own subfolder. outside: the target of links.
static void put_any(const char *folder, const char *outside, int depth, bool inside) {
    const char *name = any_name();
    char path[PATHS];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATHS)
        return;
    int kind = depth < DEPTH ? (int)test_between(0, 4) : 0;
    if (kind == 0)
        put_file(path, name, inside);
    else if (kind == 1)
        (void)!symlink(outside, path);
    else if (mkdir(path, 0700) == 0)
        for (int i = (int)test_between(0, 3); i > 0; i--)
            put_any(path, outside, depth + 1, inside);
    if (test_between(0, 3))
        make_old(path);
}

static bool make(const char *folder, void *context) {
    char path[PATHS + 16], body[8192] = "";
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    snprintf(body, sizeof body, "%s", (const char *)context);
    return file_write(path, body, sizeof body);
}

static void *use(const char *path, void *context) {
    char *text = file_read(path, NULL);
    bool same = text && !strcmp(text, context);
    memory_free(text);
    return same ? context : NULL;
}

static void ask(int count) {
    for (int i = 0; i < count; i++) {
        char key[65], text[16];
        snprintf(text, sizeof text, "%d", i);
        hash_sha256(text, strlen(text), key);
        CHECK(device_cache_use(&(struct cache_entry){
            .key = key, .file = "kernel.so", .make = make, .use = use, .context = text}));
    }
}

static void check_kept(void) {
    for (int i = 0; i < kept_count; i++) {
        char *text = access(kept[i], F_OK) ? NULL : file_read(kept[i], NULL);
        if (!CHECK(text && !strcmp(text, kept[i])))
            test_note("%s is gone or changed", kept[i]);
        memory_free(text);
    }
}

static void ignore(zl_log_level level, const char *line, void *context) {
    (void)level, (void)line, (void)context;
}

static void try_once(int round) {
    char folder[PATHS], outside[PATHS], cache[PATHS];
    kept_count = 0;
    snprintf(folder, sizeof folder, "%s/%d", test_folder(), round);
    snprintf(outside, sizeof outside, "%s/outside-%d", test_folder(), round);
    REQUIRE(mkdir(folder, 0700) == 0 && mkdir(outside, 0700) == 0);
    for (int i = 0; i < 4; i++)
        put_any(outside, "/", DEPTH, false);
    test_setenv("ZL_CACHE_DIR", folder);
    test_setenv("ZL_CACHE_SIZE", test_between(0, 1) ? "20k" : "1");
    bool first = test_between(0, 1);
    if (first)
        ask(2);
    for (int i = (int)test_between(1, 8); i > 0; i--)
        put_any(folder, outside, 0, false);
    snprintf(cache, sizeof cache, "%.3800s/zellige-kernels-v1", folder);
    for (int i = (int)test_between(0, 8); first && i > 0; i--)
        put_any(cache, outside, 1, true);
    ask(6);
    check_kept();
}

TEST(crafted_names_in_the_kernel_cache) {
    const char *before = getenv("ZL_CACHE_DIR");
    char *old = before ? strdup(before) : NULL;
    REQUIRE(kept = calloc(KEPT, sizeof *kept));
    zl_set_log(ignore, NULL);
    for (int i = 0, rounds = test_long() ? 2000 : test_quick() ? 40 : 200; i < rounds; i++)
        try_once(i);
    zl_set_log(NULL, NULL);
    test_setenv("ZL_CACHE_SIZE", NULL);
    if (old)
        test_setenv("ZL_CACHE_DIR", old);
    else
        test_setenv("ZL_CACHE_DIR", NULL);
    free(old);
    free(kept);
}
