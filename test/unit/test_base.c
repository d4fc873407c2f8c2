// test_base.c - src/base: errors, memory, arenas, slabs, maps, text, files, threads, logs. test_setting.c
// tests settings.

#include "test.h"

#include "base/base.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void in_thread(void *(*fn)(void *data), void *data) {
    pthread_t thread;
    if (CHECK(pthread_create(&thread, NULL, fn, data) == 0))
        pthread_join(thread, NULL);
}

// Errors ---------------------------------------------------------------------------------------------------

TEST(error_first_wins) {
    CHECK(zl_error() == NULL);
    CHECK_EQ_INT(zl_error_which(), ZL_ERROR_NONE);
    CHECK(error_set(ZL_ERROR_SHAPE, "zl_add: %d and %d", 2, 3) == NULL);
    CHECK(!error_false(ZL_ERROR_AXIS, "later"));
    CHECK_STR(zl_error(), "zl_add: 2 and 3");
    CHECK_EQ_INT(zl_error_which(), ZL_ERROR_SHAPE);
    zl_clear_error();
    CHECK(zl_error() == NULL);
    CHECK_ERROR(ZL_ERROR_AXIS, error_set(ZL_ERROR_AXIS, "now it is first"));
}

TEST(error_keeps_long_messages) {
    char message[5000];
    memset(message, 'm', sizeof message - 1);
    message[sizeof message - 1] = 0;
    error_set(ZL_ERROR_COMPILE, "%s!", message);
    CHECK_EQ_INT(strlen(zl_error()), sizeof message);
    CHECK(zl_error()[sizeof message - 1] == '!');
    zl_clear_error();

    memory_fail_at(1); // memory for the whole message cannot be allocated: its beginning is kept
    error_set(ZL_ERROR_COMPILE, "%s!", message);
    memory_fail_at(0);
    CHECK_EQ_INT(zl_error_which(), ZL_ERROR_COMPILE);
    CHECK(strlen(zl_error()) > 100 && !strncmp(zl_error(), message, 100));
    zl_clear_error();
}

static void *fail_in_thread(void *data) {
    CHECK(zl_error() == NULL);
    char message[1000];
    memset(message, 'x', sizeof message - 1);
    message[sizeof message - 1] = 0;
    error_set(ZL_ERROR_VALUE, "%s", message); // not cleared: freed with the thread
    *(bool *)data = zl_error() != NULL;
    return NULL;
}

TEST(error_belongs_to_its_thread) {
    bool seen = false;
    in_thread(fail_in_thread, &seen);
    CHECK(seen);
    CHECK(zl_error() == NULL);
}

TEST(error_moves) {
    zl_error_kind kind = ZL_ERROR_VALUE;
    CHECK(error_take(&kind) == NULL);
    CHECK_EQ_INT(kind, ZL_ERROR_NONE);
    error_put(kind, NULL);
    CHECK(zl_error() == NULL);

    error_set(ZL_ERROR_DEVICE, "no %s", "cuda");
    char *message = error_take(&kind);
    CHECK(zl_error() == NULL);
    CHECK_EQ_INT(kind, ZL_ERROR_DEVICE);
    error_put(kind, message);
    memory_free(message);
    CHECK_STR(zl_error(), "no cuda");

    memory_fail_at(1);
    message = error_take(&kind);
    memory_fail_at(0);
    CHECK(message == NULL);
    CHECK_EQ_INT(kind, ZL_ERROR_MEMORY);
    error_put(kind, message);
    CHECK_STR(zl_error(), "out of memory");
    zl_clear_error();
}

// Memory ---------------------------------------------------------------------------------------------------

TEST(memory_fails_where_told) {
    memory_fail_at(3);
    void *a = memory_alloc(10), *b = memory_zero(10);
    CHECK(a && b);
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_alloc(77));
    CHECK_HAS(test_last_error(), "77 bytes");
    void *c = memory_copy_text("once only");
    CHECK_STR(c, "once only");
    CHECK_EQ_INT(memory_allocations(), 4);

    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_resize(a, 1000));
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_alloc_pages(4 << 20));
    memory_fail_at(0);
    CHECK_EQ_INT(memory_allocations(), 0);
    memory_free(a);
    memory_free(b);
    zl_free(c);
    memory_free(NULL);
}

TEST(memory_pages) {
    const size_t sizes[] = {0, 1, 64, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *data = memory_alloc_pages(sizes[i]);
        REQUIRE(data != NULL);
        CHECK_EQ_INT((uintptr_t)data % (sizes[i] >= 2 << 20 ? 2 << 20 : 64), 0);
        memset(data, 1, sizes[i]);
        memory_free_pages(data, sizes[i]);
    }
    memory_free_pages(NULL, 0);
    memory_free_pages(NULL, 5 << 20);
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_alloc_pages((size_t)1 << 60));
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_alloc_pages(SIZE_MAX));
}

TEST(memory_grows) {
    int *items = NULL, cap = 0;
    for (int i = 0; i < 1000; i++) {
        REQUIRE(memory_grow(&items, &cap, i + 1, sizeof *items));
        items[i] = i;
    }
    CHECK(cap >= 1000);
    int before = cap;
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_grow(&items, &cap, cap + 1, sizeof *items));
    memory_fail_at(0);
    CHECK_EQ_INT(cap, before);
    CHECK_EQ_INT(items[999], 999);
    CHECK_ERROR(ZL_ERROR_MEMORY, memory_grow(&items, &cap, INT_MAX, SIZE_MAX / 2));
    memory_free(items);
}

TEST(arena_alloc) {
    struct arena arena = {0};
    for (size_t bytes = 0; bytes < 5000; bytes += 7) {
        unsigned char *data = arena_alloc(&arena, bytes);
        REQUIRE(data != NULL);
        CHECK_EQ_INT((uintptr_t)data % 16, 0);
        size_t zeros = 0;
        while (zeros < bytes && data[zeros] == 0)
            zeros++;
        CHECK_EQ_INT(zeros, bytes);
        memset(data, 0xff, bytes);
    }
    CHECK(arena_alloc(&arena, 3 << 20) != NULL);
    CHECK_STR(arena_text(&arena, "%s %d", "axis", 3), "axis 3");
    CHECK_ERROR(ZL_ERROR_MEMORY, arena_alloc(&arena, SIZE_MAX));
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, arena_alloc(&arena, 5 << 20));
    memory_fail_at(0);
    CHECK(arena_alloc(&arena, 16) != NULL);
    arena_free(&arena);
    CHECK(arena.block == NULL);
}

// Slabs ----------------------------------------------------------------------------------------------------

TEST(slab_sizes) {
    size_t before = slab_live();
    unsigned char *item[1100];
    for (size_t bytes = 0; bytes < COUNT(item); bytes++) {
        REQUIRE((item[bytes] = slab_alloc(bytes)) != NULL);
        CHECK_EQ_INT((uintptr_t)item[bytes] % 16, 0);
        memset(item[bytes], (int)(bytes & 255), bytes);
    }
    CHECK_EQ_INT(slab_live() - before, COUNT(item));
    for (size_t bytes = 0; bytes < COUNT(item); bytes++) {
        bool kept = true;
        for (size_t i = 0; i < bytes; i++)
            kept = kept && item[bytes][i] == (bytes & 255);
        CHECK(kept);
        slab_free(item[bytes], bytes);
    }
    slab_free(NULL, 8);
    CHECK_EQ_INT(slab_live(), before);
}

TEST(slab_many) {
    enum { MANY = 60000 };
    size_t before = slab_live();
    uint32_t **item = memory_alloc(MANY * sizeof *item);
    REQUIRE(item != NULL);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MANY; i++)
            *(item[i] = slab_alloc(128)) = i;
        int wrong = 0;
        for (uint32_t i = round & 1, step = 2; step > 0; step--, i ^= 1)
            for (uint32_t at = i; at < MANY; at += 2) {
                wrong += *item[at] != at;
                slab_free(item[at], 128);
            }
        CHECK_EQ_INT(wrong, 0);
        CHECK_EQ_INT(slab_live(), before);
    }
    memory_free(item);
}

enum { HANDED = 3000 };

static void *alloc_for_others(void *data) {
    void **item = data;
    for (int i = 0; i < HANDED; i++)
        item[i] = slab_alloc((size_t)(i % 20) * 16);
    return NULL;
}

static void *free_of_others(void *data) {
    void **item = data;
    for (int i = 0; i < HANDED; i++)
        slab_free(item[i], (size_t)(i % 20) * 16);
    return NULL;
}

TEST(slab_freed_by_other_threads) {
    void *item[HANDED];
    size_t before = slab_live();
    in_thread(alloc_for_others, item); // the thread that allocated the objects has ended when they are freed
    CHECK_EQ_INT(slab_live() - before, HANDED);
    free_of_others(item);
    CHECK_EQ_INT(slab_live(), before);
    alloc_for_others(item);
    in_thread(free_of_others, item); // by a thread that never allocated
    CHECK_EQ_INT(slab_live(), before);
}

static bool slab_is_forwarded(void) {
    slab_free(slab_alloc(32), 32);
    memory_fail_at(LONG_MAX);
    slab_free(slab_alloc(32), 32);
    bool forwarded = memory_allocations() > 0;
    memory_fail_at(0);
    return forwarded;
}

TEST(slab_of_ended_thread_is_adopted) {
    if (slab_is_forwarded())
        SKIP("the sanitizer's allocator takes the place of slabs");
    void *item[HANDED];
    in_thread(alloc_for_others, item);
    memory_fail_at(LONG_MAX);
    for (int i = 0; i < 20; i++) {
        free_of_others(item);
        in_thread(alloc_for_others, item);
    }
    CHECK(memory_allocations() <= 20 + 2); // one farewell per thread, no slabs
    memory_fail_at(0);
    free_of_others(item);
}

static void *alloc_without_memory(void *data) {
    (void)data;
    for (int at = 1; at <= 2; at++) { // first the cache fails, then its farewell
        memory_fail_at(at);
        void *item = slab_alloc(100);
        if (memory_allocations() >= at)
            CHECK_ERROR(ZL_ERROR_MEMORY, item);
        else
            slab_free(item, 100);
    }
    memory_fail_at(0);
    void *item = slab_alloc(100);
    CHECK(item != NULL);
    slab_free(item, 100);
    return NULL;
}

TEST(slab_out_of_memory) {
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, slab_alloc(SLAB_LARGEST + 1));
    memory_fail_at(0);
    in_thread(alloc_without_memory, NULL);
}

enum { PLACES = 512, TRADERS = 4 };

struct market {
    _Atomic(unsigned char *) place[PLACES];
    atomic_int wrong;
    uint64_t seed;
};

static size_t market_bytes(int at) {
    return 8 + (size_t)at * 2;
}

static void *trade(void *data) {
    struct market *market = data;
    uint64_t random = hash_bytes(&(pthread_t){pthread_self()}, sizeof(pthread_t), market->seed);
    for (int i = 0; i < 20000; i++) {
        random = hash_bytes(&random, sizeof random, 0);
        int at = (int)(random % PLACES);
        size_t bytes = market_bytes(at);
        unsigned char *fresh = random >> 60 ? slab_alloc(bytes) : NULL;
        if (fresh)
            memset(fresh, at & 255, bytes);
        unsigned char *old = atomic_exchange(&market->place[at], fresh);
        if (!old)
            continue;
        if (old[0] != (at & 255) || old[bytes - 1] != (at & 255))
            atomic_fetch_add(&market->wrong, 1);
        slab_free(old, bytes);
    }
    return NULL;
}

TEST(slab_trade_between_threads) {
    static struct market market;
    size_t before = slab_live();
    market.seed = test_random();
    for (int round = 0; round < 3; round++) { // threads of a later round adopt the slabs of earlier ones
        pthread_t trader[TRADERS];
        for (int i = 0; i < TRADERS; i++)
            REQUIRE(pthread_create(&trader[i], NULL, trade, &market) == 0);
        for (int i = 0; i < TRADERS; i++)
            pthread_join(trader[i], NULL);
    }
    CHECK_EQ_INT(atomic_load(&market.wrong), 0);
    for (int at = 0; at < PLACES; at++)
        slab_free(atomic_exchange(&market.place[at], NULL), market_bytes(at));
    CHECK_EQ_INT(slab_live(), before);
}

// Maps and hashes ------------------------------------------------------------------------------------------

static void count_entry(const void *key, size_t bytes, void *value, void *data) {
    int number;
    CHECK_EQ_INT(bytes, sizeof number);
    memcpy(&number, key, sizeof number);
    if ((uintptr_t)value == (uintptr_t)number + 1)
        ++*(int *)data;
}

TEST(map_many_keys) {
    enum { KEYS = 100000 };
    struct map map = {0};
    CHECK(map_get(&map, "a", 1) == NULL);
    CHECK(map_set(&map, "a", 1, NULL));
    for (int i = 0; i < KEYS; i++)
        REQUIRE(map_set(&map, &i, sizeof i, (void *)((uintptr_t)i + 1)));
    CHECK_EQ_INT(map.count, KEYS);
    for (int i = 0; i < KEYS; i += 3)
        REQUIRE(map_set(&map, &i, sizeof i, NULL));
    int wrong = 0, seen = 0;
    for (int i = 0; i < KEYS; i++)
        wrong += map_get(&map, &i, sizeof i) != (i % 3 ? (void *)((uintptr_t)i + 1) : NULL);
    CHECK_EQ_INT(wrong, 0);
    map_each(&map, count_entry, &seen);
    CHECK_EQ_INT(seen, KEYS - (KEYS + 2) / 3);
    CHECK_EQ_INT(map.count, seen);
    map_free(&map);
    CHECK_EQ_INT(map.count, 0);
}

TEST(map_keys_are_bytes) {
    struct map map = {0};
    int one, two;
    CHECK(map_set(&map, "", 0, &one));
    CHECK(map_set(&map, "\0", 1, &two));
    CHECK(map_set(&map, "\0\0", 2, &one));
    CHECK(map_get(&map, NULL, 0) == &one);
    CHECK(map_get(&map, "\0", 1) == &two);
    CHECK(map_set(&map, "\0", 1, &one)); // another value for the same key
    CHECK(map_get(&map, "\0", 1) == &one);
    CHECK_EQ_INT(map.count, 3);
    map_free(&map);
}

TEST(map_out_of_memory) {
    for (int at = 1;; at++) {
        struct map map = {0};
        memory_fail_at(at);
        int stored = 0;
        while (stored < 50 && map_set(&map, &stored, sizeof stored, &map))
            stored++;
        bool past_end = memory_allocations() < at;
        memory_fail_at(0);
        CHECK_EQ_INT(map.count, stored);
        if (!past_end)
            CHECK_ERROR(ZL_ERROR_MEMORY, stored == 50);
        map_free(&map);
        if (past_end)
            break;
    }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int equal_neighbours(uint64_t *hash, int count, int shift) {
    int equal = 0;
    qsort(hash, (size_t)count, sizeof *hash, by_value);
    for (int i = 1; i < count; i++)
        equal += hash[i] >> shift == hash[i - 1] >> shift;
    return equal;
}

// Zeros, and keys that differ in one bit, which collide if bits are mixed badly.
TEST(hash_tells_keys_apart) {
    static unsigned char key[200];
    static uint64_t hash[200 * 201 * 4 + 201];
    int count = 0;
    memset(key, 0, sizeof key);
    for (size_t bytes = 0; bytes <= sizeof key; bytes++) {
        hash[count++] = hash_bytes(key, bytes, 0);
        for (size_t bit = 0; bit < bytes * 8; bit++) {
            key[bit / 8] = (unsigned char)(1 << bit % 8);
            hash[count++] = hash_bytes(key, bytes, 0);
            key[bit / 8] = 0;
        }
    }
    CHECK_EQ_INT(count, COUNT(hash));
    CHECK_EQ_INT(equal_neighbours(hash, count, 0), 0);
    CHECK(equal_neighbours(hash, count, 24) < 40); // of 40 bits; about 12 are expected by chance
    CHECK(hash_bytes("key", 3, 1) != hash_bytes("key", 3, 2));
    CHECK(hash_bytes(NULL, 0, 1) == hash_bytes("", 0, 1));
}

TEST(hash_sha256_vectors) {
    static const struct {
        const char *unit; // repeated
        int times;
        const char *digest;
    } vector[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
        {"x", 55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
        {"x", 64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
        {"x", 119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
    };
    for (size_t i = 0; i < COUNT(vector); i++) {
        struct text text = {0};
        for (int k = 0; k < vector[i].times; k++)
            text_bytes(&text, vector[i].unit, (int)strlen(vector[i].unit));
        char digest[65];
        hash_sha256(text.data, (size_t)text.len, digest);
        CHECK_STR(digest, vector[i].digest);
        text_free(&text);
    }
}

// Text and files -------------------------------------------------------------------------------------------

TEST(text_add) {
    struct text text = {0};
    for (int i = 0; i < 1000; i++)
        text_add(&text, "%d,", i);
    text_bytes(&text, "end\0", 4);
    CHECK_EQ_INT(text.len, 10 * 2 + 90 * 3 + 900 * 4 + 4);
    CHECK(!strncmp(text.data, "0,1,2,", 6));
    CHECK_STR(text.data + text.len - 8, "999,end");
    char *taken = text_take(&text);
    CHECK(taken != NULL);
    CHECK(text.data == NULL && text.len == 0);
    memory_free(taken);
    taken = text_take(&text);
    CHECK_STR(taken, "");
    memory_free(taken);
}

TEST(text_characters) {
    CHECK(text_character("a\xc3\xa9") == 1);
    CHECK(text_character("\xc3\xa9x") == 2);
    CHECK(text_character("\xe6\x97\xa5") == 3);
    CHECK(text_character("\xf0\x9f\x98\x80!") == 4);
    CHECK(text_character("\xc3") == 1); // truncated: no byte after the text is read
    CHECK(text_character("\xf0\x9f\x98") == 1);
    CHECK(text_character("\xa9") == 1);
    CHECK(text_character("") == 1);
}

TEST(text_json) {
    struct text text = {0};
    text_json(&text, "a\"b\\c\n\t\r\b\f\x01\x1f/\x7f \xc3\xa9");
    CHECK_STR(text.data, "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f/\x7f \xc3\xa9\"");
    text.len = 0;
    text_json(&text, "");
    text_json(&text, NULL);
    CHECK_STR(text.data, "\"\"null");
    text_free(&text);
}

TEST(text_out_of_memory) {
    struct text text = {0};
    text_add(&text, "kept");
    memory_fail_at(1);
    text_add(&text, "%1000d", 1);
    memory_fail_at(0);
    CHECK(text.failed);
    text_add(&text, "x");
    CHECK_ERROR(ZL_ERROR_MEMORY, text_take(&text));
    CHECK(!text.failed);
    text_bytes(&text, "", -1);
    CHECK_ERROR(ZL_ERROR_MEMORY, text_take(&text));
}

static int count_files(const char *folder) {
    int count = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static const char *path_in_folder(char *path, size_t bytes, const char *name) {
    const char *folder = test_folder();
    snprintf(path, bytes, "%s/%s", folder ? folder : "/nowhere", name);
    return path;
}

TEST(file_round_trip) {
    char path[600];
    path_in_folder(path, sizeof path, "data");
    char sent[10000];
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7);
    REQUIRE(file_write(path, "old", 3));
    REQUIRE(file_write(path, sent, sizeof sent));
    size_t bytes = 0;
    char *got = file_read(path, &bytes);
    REQUIRE(got != NULL);
    CHECK_EQ_INT(bytes, sizeof sent);
    CHECK(!memcmp(got, sent, sizeof sent) && got[bytes] == 0);
    memory_free(got);
    CHECK_EQ_INT(count_files(test_folder()), 1); // no other file is left in the folder

    REQUIRE(file_write(path, NULL, 0));
    got = file_read(path, &bytes);
    CHECK_EQ_INT(bytes, 0);
    CHECK_STR(got, "");
    memory_free(got);
    struct stat stat_now;
    CHECK(stat(path, &stat_now) == 0 && (stat_now.st_mode & 0400));
}

TEST(file_errors_name_the_path) {
    char path[600], deeper[700];
    CHECK_ERROR(ZL_ERROR_IO, file_write(path_in_folder(path, sizeof path, "none/data"), "x", 1));
    CHECK_HAS(test_last_error(), path);
    CHECK_HAS(test_last_error(), "No such file");
    CHECK_ERROR(ZL_ERROR_IO, file_read(path, NULL));
    CHECK_HAS(test_last_error(), path);
    CHECK_ERROR(ZL_ERROR_IO, file_read(test_folder(), NULL));
    CHECK_HAS(test_last_error(), "directory");
    CHECK(file_write(path_in_folder(path, sizeof path, "file"), "x", 1));
    snprintf(deeper, sizeof deeper, "%s/data", path);
    CHECK_ERROR(ZL_ERROR_IO, file_write(deeper, "x", 1));
    CHECK_ERROR(ZL_ERROR_IO, file_write(test_folder(), "x", 1));
    CHECK_EQ_INT(count_files(test_folder()), 1);
}

TEST(file_read_without_a_size) {
    char *status = file_read("/proc/self/status", NULL);
    if (!status) {
        zl_clear_error();
        SKIP("no /proc");
    }
    CHECK_HAS(status, "Pid:");
    memory_free(status);
}

TEST(file_out_of_memory) {
    char path[600];
    path_in_folder(path, sizeof path, "data");
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, file_write(path, "x", 1));
    memory_fail_at(0);
    CHECK(file_write(path, "x", 1));
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, file_read(path, NULL));
    memory_fail_at(0);
}

// Threads --------------------------------------------------------------------------------------------------

struct count_parts {
    atomic_int *times; // how often each part ran
    int inner;         // parts of a nested call in each part
    atomic_int inner_done;
    atomic_int strangers; // nested parts that ran on another thread than the outer part
    atomic_int outside;   // parts for which pool_inside is false
};

static _Thread_local int outer_part = -1;

static void count_inner(void *data, int part) {
    struct count_parts *c = data;
    (void)part;
    atomic_fetch_add(&c->inner_done, 1);
    if (outer_part < 0)
        atomic_fetch_add(&c->strangers, 1);
}

static void count_part(void *data, int part) {
    struct count_parts *c = data;
    atomic_fetch_add(&c->times[part], 1);
    atomic_fetch_add(&c->outside, !pool_inside());
    if (!c->inner)
        return;
    outer_part = part;
    pool_run(c->inner, count_inner, c);
    outer_part = -1;
}

static int count_wrong(int parts, int inner) {
    struct count_parts c = {.times = calloc((size_t)parts + 1, sizeof(atomic_int)), .inner = inner};
    pool_run(parts, count_part, &c);
    int wrong = 0;
    for (int i = 0; i < parts; i++)
        wrong += atomic_load(&c.times[i]) != 1;
    wrong += atomic_load(&c.inner_done) != parts * inner;
    wrong += parts > 1 ? atomic_load(&c.strangers) : 0;
    wrong += atomic_load(&c.outside) != (parts == 1) || pool_inside();
    free(c.times);
    return wrong;
}

// The number of threads before a test; every test of the pool restores it.
static int threads_before;

static void with_threads(int count) {
    threads_before = pool_threads();
    CHECK(pool_set_threads(count));
    CHECK_EQ_INT(zl_threads(), count);
}

static void threads_as_before(void) {
    CHECK(zl_set_threads(threads_before));
}

TEST(pool_runs_each_part_once) {
    const int threads[] = {1, 2, 3, 8};
    for (size_t i = 0; i < COUNT(threads); i++) {
        with_threads(threads[i]);
        CHECK_EQ_INT(count_wrong(0, 0), 0);
        CHECK_EQ_INT(count_wrong(1, 3), 0);
        for (int parts = 2; parts < 200; parts += 13)
            CHECK_EQ_INT(count_wrong(parts, 0), 0);
        CHECK_EQ_INT(count_wrong(20000, 0), 0);
        CHECK_EQ_INT(count_wrong(50, 7), 0);
        threads_as_before();
    }
}

static void *call_pool(void *data) {
    for (int i = 0; i < 60; i++)
        atomic_fetch_add((atomic_int *)data, count_wrong(1 + i % 17, i % 3));
    return NULL;
}

TEST(pool_serves_many_callers) {
    enum { CALLERS = 40 }; // more than there are slots for jobs
    with_threads(4);
    pthread_t caller[CALLERS];
    atomic_int wrong = 0;
    for (int i = 0; i < CALLERS; i++)
        REQUIRE(pthread_create(&caller[i], NULL, call_pool, &wrong) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(pool_set_threads(1 + i % 5));
    for (int i = 0; i < CALLERS; i++)
        pthread_join(caller[i], NULL);
    CHECK_EQ_INT(atomic_load(&wrong), 0);
    threads_as_before();
}

static void sleep_part(void *data, int part) {
    (void)data;
    usleep(part ? 3000 : 100); // the caller finishes first, and sleeps until the worker is done
}

TEST(pool_wakes_its_caller) {
    with_threads(2);
    for (int i = 0; i < 20; i++) {
        pool_run(2, sleep_part, NULL);
        usleep(100);
    }
    threads_as_before();
}

enum { GUESTS = 12 };

struct meeting {
    atomic_int arrived, late;
};

static void meet(void *data, int part) {
    struct meeting *meeting = data;
    (void)part;
    atomic_fetch_add(&meeting->arrived, 1);
    int64_t end = clock_ns() + 10000000000;
    while (atomic_load(&meeting->arrived) < GUESTS && clock_ns() < end)
        usleep(20);
    if (atomic_load(&meeting->arrived) < GUESTS)
        atomic_fetch_add(&meeting->late, 1);
}

// All parts meet only if each has its own thread: threads that the caller wakes have to wake the others.
TEST(pool_wakes_all_that_are_useful) {
    with_threads(GUESTS);
    struct meeting meeting = {0};
    for (int i = 0; i < 50 && !atomic_load(&meeting.late); i++) {
        atomic_store(&meeting.arrived, 0);
        pool_run(GUESTS, meet, &meeting);
        if (i % 10 == 0)
            usleep(1000); // until they are parked again
    }
    CHECK_EQ_INT(atomic_load(&meeting.late), 0);
    threads_as_before();
}

static void fail_part(void *data, int part) {
    (void)data;
    if (part >= 2)
        error_set(ZL_ERROR_DEVICE, "part %d failed", part);
    if (part == 0)
        usleep(2000); // the caller is busy, so that workers get the errors
}

TEST(pool_hands_errors_to_the_caller) {
    with_threads(3);
    for (int i = 0; i < 10; i++) {
        pool_run(6, fail_part, NULL);
        CHECK_EQ_INT(zl_error_which(), ZL_ERROR_DEVICE);
        CHECK_HAS(zl_error(), " failed");
        zl_clear_error();
        pool_run(2, fail_part, NULL);
        CHECK(zl_error() == NULL);
    }
    threads_as_before();
}

static void set_threads_inside(void *data, int part) {
    (void)part;
    if (!pool_set_threads(2) && zl_error_which() == ZL_ERROR_STATE)
        atomic_fetch_add((atomic_int *)data, 1);
    zl_clear_error();
}

TEST(pool_refuses_bad_counts) {
    CHECK_ERROR(ZL_ERROR_VALUE, zl_set_threads(0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_set_threads(-1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_set_threads(POOL_LARGEST + 1));
    with_threads(2);
    atomic_int refused = 0;
    pool_run(5, set_threads_inside, &refused);
    CHECK_EQ_INT(atomic_load(&refused), 5);
    threads_as_before();
    CHECK(pool_allowed_cpus() >= 1 && pool_allowed_cpus() <= POOL_LARGEST);
}

TEST(pool_works_after_fork) {
#ifdef UNDER_TSAN
    SKIP("the sanitizer allows no threads after a fork");
#endif
    with_threads(3);
    CHECK_EQ_INT(count_wrong(100, 0), 0);
    pid_t child = fork();
    if (child == 0) {
        int wrong = zl_threads() != 3;
        for (int i = 0; i < 20; i++)
            wrong += count_wrong(100, 2);
        slab_free(slab_alloc(100), 100);
        wrong += !pool_set_threads(4) + count_wrong(100, 0);
        _exit(wrong != 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ_INT(count_wrong(100, 0), 0);
    threads_as_before();
}

static struct lock counter_lock;
static int counter;

static void count_locked(void *data, int part) {
    (void)data, (void)part;
    for (int i = 0; i < 1000; i++) {
        lock_take(&counter_lock);
        counter++;
        lock_give(&counter_lock);
    }
}

TEST(lock_keeps_others_out) {
    with_threads(4);
    counter = 0;
    pool_run(40, count_locked, NULL);
    CHECK_EQ_INT(counter, 40000);
    threads_as_before();
}

static int farewell_order[4], farewell_count;

static void note_farewell(void *data) {
    farewell_order[farewell_count++ % 4] = *(int *)data;
    if (*(int *)data == 2) { // a farewell that adds another one
        static int last = 9;
        base_thread_at_exit(note_farewell, &last);
    }
}

static void *say_farewells(void *data) {
    for (int i = 0; i < 3; i++)
        CHECK(base_thread_at_exit(note_farewell, (int *)data + i));
    return NULL;
}

TEST(thread_at_exit_runs_latest_first) {
    int number[] = {1, 2, 3};
    farewell_count = 0;
    in_thread(say_farewells, number);
    CHECK_EQ_INT(farewell_count, 4);
    const int expected[] = {3, 2, 9, 1};
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(farewell_order[i], expected[i]);
    memory_fail_at(1);
    CHECK_ERROR(ZL_ERROR_MEMORY, base_thread_at_exit(note_farewell, number));
    memory_fail_at(0);
}

static void exit_with(void *data) {
    _exit(*(int *)data);
}

// Runs in a process of its own: what drivers do at the exit of a process that used them is not tested here,
// least of all in a child of fork().
TEST(thread_at_exit_runs_for_the_main_thread) {
    enum {
        CANNOT_START = 126
    }; // or 127, from a shell: the program is for another architecture, and runs in an emulator
    if (getenv("ZL_TEST_EXIT")) {
        static int code = 42;
        base_thread_at_exit(exit_with, &code);
        exit(1);
    }
    int status =
        system("ZL_TEST_EXIT=1 " ZL_BUILD_DIR
               "/test --no-fork unit/test_base:thread_at_exit_runs_for_the_main_thread >/dev/null 2>&1");
    if (WIFEXITED(status) && WEXITSTATUS(status) >= CANNOT_START)
        SKIP("the shell cannot start this program");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

// Libraries, log -------------------------------------------------------------------------------------------

TEST(library_open_and_bind) {
    const char *const none[] = {"libno-such-library.so.7", NULL};
    CHECK(library_open(none) == NULL);
    CHECK(zl_error() == NULL);
    const char *const some[] = {"libno-such-library.so.7", "libm.so.6", "libm.so", NULL};
    void *library = library_open(some);
    if (!library)
        SKIP("no libm");
    double (*cosine)(double) = NULL, (*nothing)(double) = NULL;
    const struct library_symbol symbols[] = {
        {"cos", (void **)&cosine},
        {"no_such_symbol", (void **)&nothing},
    };
    const char *missing = NULL;
    CHECK(library_bind(library, symbols, 1, &missing));
    CHECK(missing == NULL && cosine && cosine(0) == 1);
    CHECK(!library_bind(library, symbols, 2, &missing));
    CHECK_STR(missing, "no_such_symbol");
}

TEST(log_to_stderr) {
    char path[600];
    FILE *file = fopen(path_in_folder(path, sizeof path, "log"), "w");
    int old = dup(2);
    REQUIRE(file != NULL && old >= 0);
    dup2(fileno(file), 2);
    zl_set_log_level(ZL_LOG_WARN);
    log_line(ZL_LOG_WARN, "slow: %s", "why");
    log_line(ZL_LOG_INFO, "not shown");
    dup2(old, 2);
    close(old);
    fclose(file);
    char *text = file_read(path, NULL);
    CHECK_STR(text, "zellige: warn: slow: why\n");
    memory_free(text);
}

TEST(clock_and_version) {
    int64_t start = clock_ns();
    usleep(1000);
    CHECK(clock_ns() - start >= 1000000);
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", ZL_VERSION_MAJOR, ZL_VERSION_MINOR, ZL_VERSION_PATCH);
    CHECK_STR(zl_version(), version);
}
