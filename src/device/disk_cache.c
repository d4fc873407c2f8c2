// disk_cache.c - what the compiler made, kept in a folder that processes share.
//
// An entry is a folder named by its key. It is made beside its place and renamed, so others see all of it or nothing;
// whoever comes second uses what the first made. A sum of the file lies next to it: an entry that was cut off or changed
// is made anew. Only our own folders, which nobody else may write, are read. When the folder cannot be written, things
// are made in a temporary one for this process alone.

#include "device/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUM_BYTES = 64, LEFT_OVER_S = 3600 };

static const char sum_file[] = "sum";

// Folders ----------------------------------------------------------------------------------------------------------

// Where entries are; false when there is no such place. The variables are the system's, not settings of ours.
static bool find_folder(char *out, size_t bytes) {
    const char *own = setting_text(SETTING_CACHE_DIR), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int len = *own              ? snprintf(out, bytes, "%s", own)
              : cache && *cache ? snprintf(out, bytes, "%s/zellige", cache)
              : home && *home   ? snprintf(out, bytes, "%s/.cache/zellige", home)
                                : -1;
    return len > 0 && (size_t)len < bytes;
}

// Makes the folder and those above it, for the owner only.
static bool make_folders(char *path) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!there)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool is_ours(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static void remove_folder(const char *path) {
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static bool join_path(char *out, const char *folder, const char *name) {
    int len = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return len > 0 && len < PATH_MAX;
}

// Sums -------------------------------------------------------------------------------------------------------------

static bool sum_of(const char *folder, const char *file, char *sum) {
    char path[PATH_MAX];
    size_t bytes;
    char *data = join_path(path, folder, file) ? file_read(path, &bytes) : NULL;
    if (!data)
        return false;
    hash_sha256(data, bytes, sum);
    memory_free(data);
    return true;
}

static bool write_sum(const char *folder, const char *file) {
    char path[PATH_MAX], sum[SUM_BYTES + 1];
    return sum_of(folder, file, sum) && join_path(path, folder, sum_file) && file_write(path, sum, SUM_BYTES);
}

// Errors on the way mean that the entry is not there; they are nobody's.
static bool is_whole(const char *folder, const char *file) {
    char path[PATH_MAX], sum[SUM_BYTES + 1];
    size_t bytes = 0;
    char *kept = is_ours(folder) && join_path(path, folder, sum_file) && access(path, R_OK) == 0
                     ? file_read(path, &bytes)
                     : NULL;
    bool whole = kept && bytes == SUM_BYTES && sum_of(folder, file, sum) && !memcmp(kept, sum, SUM_BYTES);
    memory_free(kept);
    if (!whole)
        zl_clear_error();
    return whole;
}

// Size limit -------------------------------------------------------------------------------------------------------

struct item {
    char name[SUM_BYTES + 1];
    int64_t bytes;
    struct timespec used;
};

static int64_t folder_bytes(const char *path) {
    int64_t bytes = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat s;
        if (fstatat(dirfd(dir), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode))
            bytes += s.st_blocks * INT64_C(512);
    }
    if (dir)
        closedir(dir);
    return bytes;
}

static int by_age(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

// What a process left that was ended while it made something.
static bool is_left_over(const char *name, const struct stat *s) {
    return !strncmp(name, "new-", 4) && s->st_mtim.tv_sec + LEFT_OVER_S < time(NULL);
}

// The entries of the folder; how many.
static int list_items(const char *folder, struct item **items) {
    int count = 0, cap = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        struct stat s;
        if (!join_path(path, folder, e->d_name) || lstat(path, &s))
            continue;
        if (is_left_over(e->d_name, &s))
            remove_folder(path);
        if (strlen(e->d_name) != SUM_BYTES)
            continue;
        if (!memory_grow(items, &cap, count + 1, sizeof **items))
            break;
        struct item *item = &(*items)[count++];
        memcpy(item->name, e->d_name, SUM_BYTES + 1);
        item->bytes = folder_bytes(path);
        item->used = s.st_mtim;
    }
    if (dir)
        closedir(dir);
    return count;
}

// The oldest go first. An entry that another process has open stays usable to it.
static void keep_limit(const char *folder, const char *newest) {
    struct item *items = NULL;
    int count = list_items(folder, &items);
    int64_t total = 0, limit = setting_number(SETTING_CACHE_SIZE);
    for (int i = 0; i < count; i++)
        total += items[i].bytes;
    qsort(items, (size_t)count, sizeof *items, by_age);
    for (int i = 0; i < count && total > limit; i++) {
        char path[PATH_MAX];
        if (!strcmp(items[i].name, newest) || !join_path(path, folder, items[i].name))
            continue;
        remove_folder(path);
        total -= items[i].bytes;
    }
    memory_free(items);
}

// Making and using ---------------------------------------------------------------------------------------------------

static void *use_file(const struct cache_entry *entry, const char *folder) {
    char path[PATH_MAX];
    return join_path(path, folder, entry->file) ? entry->use(path, entry->context) : NULL;
}

// A folder of that name, but of no other process or thread.
static bool new_folder(char *out, const char *folder) {
    return join_path(out, folder, "new-XXXXXX") && mkdtemp(out);
}

static bool fill(const struct cache_entry *entry, const char *folder) {
    return entry->make(folder, entry->context) && write_sum(folder, entry->file);
}

// Moves what was made to its place, unless another process was quicker, and uses what is there.
static void *settle(const struct cache_entry *entry, const char *fresh, const char *place) {
    bool moved = rename(fresh, place) == 0;
    if (!moved && !is_whole(place, entry->file)) {
        remove_folder(place); // damaged
        moved = rename(fresh, place) == 0;
    }
    void *result = use_file(entry, moved || is_whole(place, entry->file) ? place : fresh);
    if (!moved)
        remove_folder(fresh);
    return result;
}

// It could not be written, by us or by the compiler.
static bool is_disk_trouble(void) {
    return zl_error_which() == ZL_ERROR_IO || (zl_error() && strstr(zl_error(), "No space left"));
}

// Made in the cache. *usable: the cache can be written at all; else the caller goes elsewhere.
static void *make_shared(const struct cache_entry *entry, const char *cache, const char *place,
                         bool *usable) {
    char fresh[PATH_MAX];
    *usable = new_folder(fresh, cache);
    if (!*usable)
        return NULL;
    if (!fill(entry, fresh)) {
        *usable = !is_disk_trouble();
        remove_folder(fresh);
        return NULL;
    }
    void *result = settle(entry, fresh, place);
    keep_limit(cache, entry->key);
    return result;
}

static void warn_once(const char *cache) {
    static atomic_bool warned;
    if (!atomic_exchange(&warned, true))
        log_line(ZL_LOG_WARN, "%s%s: kernels are compiled again in every process; ZL_CACHE_DIR names %s folder",
                 *cache ? "cannot write the kernel cache " : "no folder for the kernel cache, as HOME is not set",
                 cache, *cache ? "another" : "a");
}

static void *make_alone(const struct cache_entry *entry) {
    static const char *const places[] = {"/tmp", "/dev/shm", "/var/tmp"};
    const char *asked = getenv("TMPDIR");
    char folder[PATH_MAX];
    bool made = asked && *asked && new_folder(folder, asked);
    for (size_t i = 0; !made && i < COUNT(places); i++)
        made = new_folder(folder, places[i]);
    if (!made)
        return error_set(ZL_ERROR_IO,
                         "no folder to compile in: neither the kernel cache nor TMPDIR can be written");
    void *result = fill(entry, folder) ? use_file(entry, folder) : NULL;
    remove_folder(folder);
    return result;
}

static void *find_or_make(const struct cache_entry *entry) {
    char cache[PATH_MAX] = "", place[PATH_MAX];
    bool usable = find_folder(cache, sizeof cache) && make_folders(cache) && is_ours(cache) &&
                  join_path(place, cache, entry->key);
    if (usable && is_whole(place, entry->file)) {
        utimensat(AT_FDCWD, place, NULL, 0); // used now; fails in a folder that is only read
        void *result = use_file(entry, place);
        if (result)
            return result;
        zl_clear_error();
        remove_folder(place);
    }
    void *result = usable ? make_shared(entry, cache, place, &usable) : NULL;
    if (usable)
        return result;
    zl_clear_error();
    warn_once(cache);
    return make_alone(entry);
}

// An error that the thread had before stays its first; what goes wrong in here must be told from it.
void *device_cache_use(const struct cache_entry *entry) {
    zl_error_kind kind;
    char *before = error_take(&kind);
    void *result = find_or_make(entry);
    if (before) {
        zl_clear_error();
        error_put(kind, before);
        memory_free(before);
    }
    return result;
}
