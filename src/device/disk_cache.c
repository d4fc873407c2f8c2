// disk_cache.c - a cache of compiled files in a folder that processes share.
//
// An entry is a folder named by its key. It is made under another name and then renamed, so that other
// processes see all of it or nothing; if two processes make the same entry, the second uses the first one's.
// A checksum of the main file is kept in the entry: an entry that is truncated or changed is made again. Only
// folders that belong to this user, and that no other user may write, are read. If the folder cannot be
// written, entries are made in a temporary one for this process alone.
//
// ZL_CACHE_DIR may name any folder, even a home directory. So the entries are in a subfolder of it, which
// this file creates together with a marker file; a folder of that name without the marker belongs to someone
// else and is left alone. Inside, only names that this file assigns are touched, symbolic links are not
// followed, and folders are removed only once they are empty.

#include "device/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUM_BYTES = 64, LEFT_OVER_S = 3600, TRUSTED = 64 };

static const char sum_file[] = "sum", made_prefix[] = "kernel."; // the files of an entry: the checksum, and
                                                                 // the prefix of all others
static const char subfolder[] = "zellige-kernels-v1";            // changes when the layout of entries changes

// By its first line, backup programs recognise folders that can be made again (bford.info/cachedir).
static const char mark_file[] = "CACHEDIR.TAG";
static const char mark[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Kernels that Zellige compiled, layout 1. It removes old ones itself; all of it may be removed.\n";

// Folders ---------------------------------------------------------------------------------------------------

static bool join_path(char *out, const char *folder, const char *name) {
    int len = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return len > 0 && len < PATH_MAX;
}

// Finds the folder that contains the subfolder of entries. Returns false if there is none. XDG_CACHE_HOME and
// HOME are not settings of the library, so they are read with getenv.
static bool find_folder(char *out) {
    const char *own = setting_text(SETTING_CACHE_DIR), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    return *own              ? snprintf(out, PATH_MAX, "%s", own) < PATH_MAX
           : cache && *cache ? join_path(out, cache, "zellige")
           : home && *home   ? join_path(out, home, ".cache/zellige")
                             : false;
}

// Makes the folder and its parents, with access for the owner only.
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

// Returns whether the path is a folder, not a link to one, that belongs to this user and that no other user
// may write.
static bool is_ours(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_file(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0 && S_ISREG(s.st_mode);
}

// Names -----------------------------------------------------------------------------------------------------

static bool is_key(const char *name) {
    return strlen(name) == SUM_BYTES && strspn(name, "0123456789abcdef") == SUM_BYTES;
}

// Returns whether a name may be one of new_folder().
static bool is_fresh_name(const char *name) {
    return !strncmp(name, "new-", 4) && strlen(name) == 10 && !strpbrk(name + 4, "./-");
}

// Returns whether a name is that of a file in an entry, or of a temporary file that a killed process left
// behind, such as "sum.17.0.tmp".
static bool is_made_name(const char *name) {
    size_t len = strlen(sum_file);
    return !strncmp(name, made_prefix, strlen(made_prefix)) ||
           (!strncmp(name, sum_file, len) && (!name[len] || name[len] == '.'));
}

// Removes the files of an entry from a folder, then the folder, unless something else is in it.
static void remove_folder(const char *path) {
    int at = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = at < 0 ? NULL : fdopendir(at);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_made_name(e->d_name))
            unlinkat(at, e->d_name, 0); // removes a link itself, and fails for a folder
    if (dir)
        closedir(dir);
    else if (at >= 0)
        close(at);
    if (dir)
        rmdir(path);
}

// The mark --------------------------------------------------------------------------------------------------

static bool has_mark(const char *folder) {
    char path[PATH_MAX];
    size_t bytes = 0;
    char *text = join_path(path, folder, mark_file) && is_file(path) ? file_read(path, &bytes) : NULL;
    bool marked = text && bytes == sizeof mark - 1 && !memcmp(text, mark, bytes);
    memory_free(text);
    if (!marked)
        zl_clear_error();
    return marked;
}

// Makes the subfolder. The marker is written before the folder gets its final name. A rename cannot replace a
// folder that is not empty: of several processes the first wins, and a folder of another program stays.
static void make_marked(const char *folder, const char *cache) {
    char fresh[PATH_MAX], path[PATH_MAX] = "";
    int len = snprintf(fresh, sizeof fresh, "%s/%s-XXXXXX", folder, subfolder);
    if (len < 0 || len >= PATH_MAX || !mkdtemp(fresh))
        return;
    bool moved = join_path(path, fresh, mark_file) && file_write(path, mark, sizeof mark - 1) &&
                 rename(fresh, cache) == 0;
    if (!moved) {
        unlink(path);
        rmdir(fresh);
    }
    zl_clear_error();
}

// Finds or makes the subfolder of entries. Returns NULL, or why it cannot be used.
static const char *open_cache(char *cache) {
    char folder[PATH_MAX];
    *cache = 0;
    if (!find_folder(folder) || !join_path(cache, folder, subfolder))
        return *cache ? "its path is too long" : "HOME is not set";
    if (!make_folders(folder))
        return "it cannot be made";
    if (!is_ours(folder))
        return "the folder above it is a link, belongs to somebody else, or may be written by others";
    if (!has_mark(cache))
        make_marked(folder, cache);
    if (!is_ours(cache))
        return "it is no folder of this user alone";
    return has_mark(cache) ? NULL : "files that are not Zellige's are in it";
}

// Checksums -------------------------------------------------------------------------------------------------

static bool sum_of(const char *folder, const char *file, char *sum) {
    char path[PATH_MAX];
    size_t bytes;
    char *data = join_path(path, folder, file) && is_file(path) ? file_read(path, &bytes) : NULL;
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

// Returns whether an entry exists and is undamaged. Errors are not reported: they only mean that it is not.
static bool is_whole(const char *folder, const char *file) {
    char path[PATH_MAX], sum[SUM_BYTES + 1];
    size_t bytes = 0;
    char *kept = is_ours(folder) && join_path(path, folder, sum_file) && is_file(path)
                     ? file_read(path, &bytes)
                     : NULL;
    bool whole = kept && bytes == SUM_BYTES && sum_of(folder, file, sum) && !memcmp(kept, sum, SUM_BYTES);
    memory_free(kept);
    if (!whole)
        zl_clear_error();
    return whole;
}

// Size limit ------------------------------------------------------------------------------------------------

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

// Returns whether a folder is a leftover of a process that ended while it made an entry.
static bool is_left_over(const char *name, const struct stat *s) {
    return is_fresh_name(name) && s->st_mtim.tv_sec + LEFT_OVER_S < time(NULL);
}

// Lists the entries of the folder and returns their number.
static int list_items(const char *folder, struct item **items) {
    int count = 0, cap = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        struct stat s;
        if (!join_path(path, folder, e->d_name) || lstat(path, &s) || !S_ISDIR(s.st_mode))
            continue;
        if (is_left_over(e->d_name, &s))
            remove_folder(path);
        if (!is_key(e->d_name))
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

// Listing thousands of entries takes as long as compiling a kernel. So after the first listing, a process
// only adds the sizes of the entries that it makes. It lists them again when the sum reaches the limit, or
// after TRUSTED entries, because other processes make entries too.
static struct {
    struct lock lock;
    char folder[PATH_MAX];
    int64_t bytes;
    int made; // entries made since the listing
} listed;

ZL_AT_LOAD {
    fork_guard(&listed.lock);
}

// Returns whether the cache with a new entry is known to be within the limit.
static bool is_within(const char *folder, const char *newest, int64_t limit) {
    char path[PATH_MAX];
    int64_t bytes = join_path(path, folder, newest) ? folder_bytes(path) : 0;
    lock_take(&listed.lock);
    listed.bytes += bytes;
    bool within = !strcmp(listed.folder, folder) && listed.made++ < TRUSTED && listed.bytes <= limit;
    lock_give(&listed.lock);
    return within;
}

static void note_listed(const char *folder, int64_t bytes) {
    lock_take(&listed.lock);
    snprintf(listed.folder, sizeof listed.folder, "%s", folder);
    listed.bytes = bytes;
    listed.made = 0;
    lock_give(&listed.lock);
}

// Removes the oldest entries until the rest is within the limit. An entry that another process has open stays
// usable to it.
static void keep_limit(const char *folder, const char *newest) {
    struct item *items = NULL;
    int64_t total = 0, limit = setting_number(SETTING_CACHE_SIZE);
    if (is_within(folder, newest, limit))
        return;
    int count = list_items(folder, &items);
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
    note_listed(folder, total);
    memory_free(items);
}

// Making and using ------------------------------------------------------------------------------------------

static void *use_file(const struct cache_entry *entry, const char *folder) {
    char path[PATH_MAX];
    return join_path(path, folder, entry->file) ? entry->use(path, entry->context) : NULL;
}

// Makes a folder that no other process or thread uses.
static bool new_folder(char *out, const char *folder) {
    return join_path(out, folder, "new-XXXXXX") && mkdtemp(out);
}

static bool fill(const struct cache_entry *entry, const char *folder) {
    return entry->make(folder, entry->context) && write_sum(folder, entry->file);
}

// Moves the new folder to its final place, unless another process was faster, and uses the entry at that
// place. If it cannot be moved and no good entry is there, uses it once from where it is. Removes it if it
// was not moved.
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

// Returns whether an entry could not be written, by this process or by the compiler.
static bool is_disk_trouble(void) {
    return zl_error_which() == ZL_ERROR_IO || (zl_error() && strstr(zl_error(), "No space left"));
}

// Makes an entry in the cache. Sets *usable to whether the cache can be written; if not, the caller makes the
// entry elsewhere.
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

static void warn_once(const char *cache, const char *why) {
    static atomic_bool warned;
    if (!atomic_exchange(&warned, true))
        log_line(ZL_LOG_WARN,
                 "%s%s, as %s: kernels are compiled again in every process; ZL_CACHE_DIR names %s folder",
                 *cache ? "cannot use the kernel cache " : "there is no kernel cache", cache, why,
                 *cache ? "another" : "a");
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
    char cache[PATH_MAX], place[PATH_MAX];
    const char *why = open_cache(cache);
    bool usable = !why && join_path(place, cache, entry->key);
    if (usable && is_whole(place, entry->file)) {
        utimensat(AT_FDCWD, place, NULL,
                  AT_SYMLINK_NOFOLLOW); // sets the time of the last use; fails if the folder is read-only
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
    warn_once(cache, why ? why : "it cannot be written");
    return make_alone(entry);
}

// The error that the thread had before is set aside, so that errors in here can be told from it, and
// restored.
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
