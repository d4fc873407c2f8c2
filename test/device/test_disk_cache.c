// test_disk_cache.c - the folder of compiled kernels, tested with entries that need no compiler.

#include "test.h"

#include "device/device.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void use_folder(const char *folder) {
    test_setenv("ZL_CACHE_DIR", folder);
}

struct made {
    atomic_int times;
    bool fails;
    char text[64];
};

static bool make(const char *folder, void *context) {
    struct made *m = context;
    char path[4096], body[4096];
    atomic_fetch_add(&m->times, 1);
    if (m->fails)
        return error_false(ZL_ERROR_COMPILE, "it does not compile");
    snprintf(path, sizeof path, "%s/kernel.thing", folder);
    memset(body, 'x', sizeof body);
    memcpy(body, m->text, sizeof m->text);
    return file_write(path, body, sizeof body);
}

static void *use(const char *path, void *context) {
    struct made *m = context;
    char *text = file_read(path, NULL);
    bool same = text && !strcmp(text, m->text);
    memory_free(text);
    return same ? context : NULL;
}

static void *ask(struct made *m, const char *name) {
    char key[65];
    hash_sha256(name, strlen(name), key);
    snprintf(m->text, sizeof m->text, "%s", name);
    return device_cache_use(
        &(struct cache_entry){.key = key, .file = "kernel.thing", .make = make, .use = use, .context = m});
}

static const char subfolder[] = "zellige-kernels-v1";

// Returns the number of entries, including incomplete ones, without the marker file.
static int entries(const char *folder) {
    int count = 0;
    char path[4096];
    snprintf(path, sizeof path, "%.3800s/%s", folder, subfolder);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.' && strcmp(e->d_name, "CACHEDIR.TAG") != 0;
    if (dir)
        closedir(dir);
    return count;
}

static void path_of(char *out, const char *folder, const char *name, const char *file) {
    char key[65];
    hash_sha256(name, strlen(name), key);
    snprintf(out, 4096, "%.3800s/%s/%s/%s", folder, subfolder, key, file);
}

TEST(an_entry_is_made_once) {
    struct made m = {0};
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/deep/cache", test_folder());
    use_folder(folder);
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "two"));
    CHECK_EQ_INT(atomic_load(&m.times), 2);
    CHECK_EQ_INT(entries(folder), 2);
    struct stat s;
    CHECK(stat(folder, &s) == 0 && (s.st_mode & 0777) == 0700);
}

TEST(a_damaged_entry_is_made_anew) {
    struct made m = {0};
    char path[4096];
    use_folder(test_folder());
    for (int round = 0; round < 3; round++) {
        CHECK(ask(&m, "one"));
        path_of(path, test_folder(), "one", round == 2 ? "sum" : "kernel.thing");
        if (round == 0)
            CHECK(truncate(path, 100) == 0);
        else
            CHECK(file_write(path, "other", 5));
    }
    CHECK(ask(&m, "one"));
    CHECK_EQ_INT(atomic_load(&m.times), 4);
    CHECK_EQ_INT(entries(test_folder()), 1);
}

TEST(what_cannot_be_made_leaves_nothing) {
    struct made m = {.fails = true};
    use_folder(test_folder());
    CHECK_ERROR(ZL_ERROR_COMPILE, ask(&m, "one"));
    CHECK_EQ_INT(entries(test_folder()), 0);
}

TEST(the_oldest_entries_go_first) {
    struct made m = {0};
    char name[32], path[4096];
    use_folder(test_folder());
    test_setenv("ZL_CACHE_SIZE", "100k");
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "entry %d", i);
        CHECK(ask(&m, name));
        usleep(2000);
        CHECK(ask(&m, "entry 0")); // used again and again, so it stays
        usleep(2000);
    }
    test_setenv("ZL_CACHE_SIZE", NULL);
    CHECK(entries(test_folder()) < 15);
    path_of(path, test_folder(), "entry 0", "kernel.thing");
    CHECK(access(path, R_OK) == 0);
    path_of(path, test_folder(), "entry 1", "kernel.thing");
    CHECK(access(path, R_OK) != 0);
}

static double seconds_of_misses(struct made *m, int from, int to) {
    struct timespec begin, end;
    char name[32];
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = from; i < to; i++) {
        snprintf(name, sizeof name, "entry %d", i);
        CHECK(ask(m, name));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

// The first miss of a process lists the folder; later misses do not.
TEST(many_entries_are_listed_once) {
    struct made m = {0};
    char path[4096], other[4096], key[65];
    use_folder(test_folder());
    CHECK(ask(&m, "one"));
    for (int i = 0; i < 2000; i++) {
        hash_sha256(&i, sizeof i, key);
        snprintf(path, sizeof path, "%.3800s/%s/%s", test_folder(), subfolder, key);
        CHECK(mkdir(path, 0700) == 0);
    }
    snprintf(other, sizeof other, "%s/other", test_folder());
    use_folder(other);
    CHECK(ask(&m, "one"));
    use_folder(test_folder());
    double first = seconds_of_misses(&m, 0, 1), next = seconds_of_misses(&m, 1, 21);
    if (!CHECK(next < 10 * first))
        test_note("the first miss took %g s, 20 more %g s", first, next);
}

static void ignore(zl_log_level level, const char *line, void *context) {
    (void)level, (void)line;
    atomic_fetch_add((atomic_int *)context, 1);
}

TEST(a_folder_that_cannot_be_written) {
    struct made m = {0};
    atomic_int warnings = 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/file", test_folder());
    CHECK(file_write(path, "", 0));
    zl_set_log(ignore, &warnings);
    strcat(path, "/cache");
    use_folder(path);
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "one"));
    zl_set_log(NULL, NULL);
    CHECK_EQ_INT(atomic_load(&m.times), 2);
    CHECK(atomic_load(&warnings) <= 1);
}

TEST(folders_of_others_are_not_read) {
    struct made m = {0};
    atomic_int warnings = 0;
    use_folder(test_folder());
    CHECK(ask(&m, "one"));
    CHECK(chmod(test_folder(), 0777) == 0);
    zl_set_log(ignore, &warnings);
    CHECK(ask(&m, "one"));
    zl_set_log(NULL, NULL);
    CHECK_EQ_INT(atomic_load(&m.times), 2);
}

TEST(an_earlier_error_stays) {
    struct made m = {0};
    use_folder(test_folder());
    error_set(ZL_ERROR_SHAPE, "earlier");
    CHECK(ask(&m, "one"));
    CHECK_EQ_INT(zl_error_which(), ZL_ERROR_SHAPE);
    zl_clear_error();
}

static void *race(void *data) {
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "race %d", i);
        struct made m = {0};
        if (ask(&m, name))
            atomic_fetch_add((atomic_int *)data, 1);
    }
    zl_clear_error();
    return NULL;
}

TEST(many_make_the_same) {
    pthread_t thread[4];
    atomic_int done = 0;
    use_folder(test_folder());
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&thread[i], NULL, race, &done) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ_INT(atomic_load(&done), 80);
    CHECK_EQ_INT(entries(test_folder()), 20);
}

// What is not the cache's -----------------------------------------------------------------------------------

// Makes a folder look old enough to have been abandoned by a process.
static void make_old(const char *path) {
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CHECK(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0);
}

static void put_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%.3800s/%.100s", folder, name);
    CHECK(file_write(path, "mine", 4));
}

static bool has_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%.3800s/%.100s", folder, name);
    return access(path, F_OK) == 0;
}

static void put_folder(char *out, const char *folder, const char *name) {
    snprintf(out, 4096, "%.3800s/%.100s", folder, name);
    CHECK(mkdir(out, 0700) == 0);
}

static const char a_key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

// A user may name any folder, with any contents.
TEST(other_folders_beside_the_cache_stay) {
    struct made m = {0};
    char photos[4096], hashed[4096];
    put_folder(photos, test_folder(), "new-photos");
    put_folder(hashed, test_folder(), a_key);
    put_file(photos, "kernel.jpg");
    put_file(hashed, "sum");
    make_old(photos);
    make_old(hashed);
    use_folder(test_folder());
    test_setenv("ZL_CACHE_SIZE", "1");
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "two"));
    test_setenv("ZL_CACHE_SIZE", NULL);
    CHECK(has_file(photos, "kernel.jpg"));
    CHECK(has_file(hashed, "sum"));
}

TEST(other_files_inside_the_cache_stay) {
    struct made m = {0};
    char cache[4096], notes[4096], left[4096], outside[4096], link[4096];
    use_folder(test_folder());
    CHECK(ask(&m, "one"));
    snprintf(cache, sizeof cache, "%s/%s", test_folder(), subfolder);
    put_folder(outside, test_folder(), "outside");
    put_file(outside, "kernel.c");
    put_file(outside, "sum");
    put_folder(notes, cache, a_key);
    put_file(notes, "notes.txt");
    put_file(notes, "kernel.c");
    put_folder(left, cache, "new-abcdef");
    put_file(left, "kernel.c");
    snprintf(link, sizeof link, "%.3800s/new-ABCDEF", cache);
    CHECK(symlink(outside, link) == 0);
    make_old(link);
    make_old(notes);
    make_old(left);
    test_setenv("ZL_CACHE_SIZE", "1");
    CHECK(ask(&m, "two"));
    test_setenv("ZL_CACHE_SIZE", NULL);
    CHECK(has_file(notes, "notes.txt"));
    CHECK(has_file(outside, "kernel.c") && has_file(outside, "sum"));
    CHECK(access(left, F_OK) != 0); // left by a process that was killed: this one is ours
}

// A folder without the marker file is not ours, whatever its name is. An empty one is taken.
TEST(a_folder_without_the_mark_is_not_used) {
    struct made m = {0};
    atomic_int warnings = 0;
    char cache[4096], entry[4096];
    put_folder(cache, test_folder(), subfolder);
    put_folder(entry, cache, a_key);
    put_file(entry, "sum");
    make_old(entry);
    use_folder(test_folder());
    zl_set_log(ignore, &warnings);
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "one"));
    zl_set_log(NULL, NULL);
    CHECK_EQ_INT(atomic_load(&m.times), 2);
    CHECK_EQ_INT(entries(test_folder()), 1);
    CHECK(has_file(entry, "sum"));
    char sum[4096];
    snprintf(sum, sizeof sum, "%.3800s/sum", entry);
    CHECK(unlink(sum) == 0 && rmdir(entry) == 0);
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "one"));
    CHECK_EQ_INT(atomic_load(&m.times), 3);
    CHECK(has_file(cache, "CACHEDIR.TAG"));
}

TEST(a_link_in_place_of_the_cache_is_not_followed) {
    struct made m = {0};
    atomic_int warnings = 0;
    char real[4096], link[4096];
    put_folder(real, test_folder(), "real");
    use_folder(real);
    CHECK(ask(&m, "one"));
    char inner[4096], home[4096];
    snprintf(inner, sizeof inner, "%.3800s/%s", real, subfolder);
    put_folder(home, test_folder(), "home");
    snprintf(link, sizeof link, "%.3800s/%s", home, subfolder);
    CHECK(symlink(inner, link) == 0);
    use_folder(home);
    zl_set_log(ignore, &warnings);
    CHECK(ask(&m, "one"));
    zl_set_log(NULL, NULL);
    CHECK_EQ_INT(atomic_load(&m.times), 2);
    CHECK_EQ_INT(entries(real), 1);
}
