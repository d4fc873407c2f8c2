// test_fuzz_files.c - damaged files: they give an error or arrays, but never a crash, a read outside of them,
// or more memory and time than their size permits.
//
// Covers, for npy, npz, safetensors and gguf: random bytes, bits, numbers, and pieces in the wrong place;
// fields copied over each other, such as offsets, so that parts overlap; names that are empty, very long, not
// UTF-8, paths, with a NUL, or duplicates; huge counts, sizes and lengths; every file truncated at every
// byte. Covers, for saving: places that are files, symbolic links in chains, in loops and to nothing,
// directories and FIFOs.

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "op/op_test.h"

static const char *const formats[] = {"npy", "npz", "npz_compressed", "safetensors", "gguf"};

// Adds an array with an unusual name, unless the name exists already.
static void add_crafted(zl_file *file) {
    static const char *const names[] = {
        "../../etc/passwd", "/",  "a/b", ".npy", "a.npy", "\xff\xfe", "\xc3",
        "\xed\xa0\x80",     "\"", "\\",  "\n",   "{}",    "x.scales", "general.alignment"};
    static char longest[60001];
    size_t which = (size_t)test_between(0, COUNT(names));
    memset(longest, 'n', sizeof longest - 1);
    if (!zl_file_add(file, which < COUNT(names) ? names[which] : longest,
                     op_test_range(ZL_SHAPE(4), ZL_INT32)))
        zl_clear_error();
}

static zl_file *make_file(const char *format) {
    zl_file *file = zl_file_new();
    zl_text texts[] = {{"one", 3}, {"two", 3}};
    CHECK(zl_file_add(file, "", op_test_range(ZL_SHAPE(3, 2), ZL_FLOAT32)));
    if (!strcmp(format, "npy"))
        return file;
    CHECK(zl_file_add(file, "x.weight", op_test_range(ZL_SHAPE(5), ZL_INT16)));
    CHECK(zl_file_add(file, "empty", zl_zeros(ZL_SHAPE(0, 2), ZL_INT32)));
    CHECK(zl_file_add_metadata(file, &(zl_metadata){.name = "text", .text = texts, .texts = 1}));
    if (strcmp(format, "gguf"))
        return file;
    CHECK(zl_file_add_metadata(file,
                               &(zl_metadata){.name = "list", .text = texts, .texts = 2, .is_list = true}));
    CHECK(zl_file_add_metadata(file,
                               &(zl_metadata){.name = "n", .array = op_test_range(ZL_SHAPE(3), ZL_UINT8)}));
    return file;
}

// Finds a marker with which formats begin parts: an entry of a zip's directory, its end, a length before a
// name.
static size_t find_mark(const unsigned char *data, size_t bytes, size_t from) {
    static const unsigned char marks[][4] = {
        {'P', 'K', 1, 2}, {'P', 'K', 3, 4}, {'P', 'K', 5, 6}, {'e', 't', 's', '"'}};
    const unsigned char *mark = marks[test_random() % COUNT(marks)];
    for (size_t i = from; i + 4 <= bytes; i++)
        if (!memcmp(data + i, mark, 4))
            return i;
    return from;
}

// Copies a field over another one of the same kind, namely after the same marker, so that parts overlap or
// names are duplicates.
static void copy_field(unsigned char *data, size_t bytes) {
    size_t half = bytes / 2, wide = (size_t)1 << test_random() % 5;
    size_t a = find_mark(data, bytes, (size_t)test_between(0, (int64_t)half));
    size_t b = find_mark(data, bytes, (size_t)test_between(0, (int64_t)bytes - 1));
    size_t in = (size_t)test_between(0, 64);
    if (MAX_OF(a, b) + in + wide <= bytes)
        memmove(data + b + in, data + a + in, wide);
}

// Changes a byte, some consecutive bytes, a number to a large or small one, a field to one from elsewhere, or
// the length.
static void damage(unsigned char *data, size_t *bytes) {
    static const uint64_t numbers[] = {0, 1, 2, 3, 8, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 60};
    size_t at = (size_t)test_between(0, (int64_t)*bytes - 1), left = *bytes - at;
    size_t wide = (size_t)1 << test_random() % 4;
    uint64_t number = numbers[test_random() % COUNT(numbers)];
    switch (test_random() % 8) {
    case 0: data[at] = (unsigned char)test_random(); break;
    case 1: data[at] ^= (unsigned char)(1 << test_random() % 8); break;
    case 2: memcpy(data + at, &number, MIN_OF(left, wide)); break;
    case 3: memmove(data + at, data + *bytes / 2, MIN_OF(left, *bytes / 2)); break;
    case 4: data[at] = (unsigned char)"0123456789-[]{}(),:\"'\\ .eTFnu"[test_random() % 29]; break;
    case 5: copy_field(data, *bytes); break;
    case 6: data[at] = 0; break;
    default: *bytes = test_random() % 4 ? *bytes : at + 1;
    }
}

// Reads everything that was loaded.
static void touch(const zl_file *file) {
    for (int i = 0; i < zl_file_count(file); i++)
        ZL_SCOPE
            zl_eval(zl_contiguous(zl_file_array(file, i), false));
}

static void try_damaged(const char *format, const void *data, size_t bytes, unsigned char *room) {
    memcpy(room, data, bytes);
    for (int64_t n = test_between(1, 4); n && bytes; n--)
        damage(room, &bytes);
    zl_file *file = zl_load_memory(format, room, bytes);
    if (file)
        touch(file);
    else
        CHECK(zl_error());
    zl_file_free(file);
    zl_clear_error();
}

static long most_memory(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0; // KiB
}

TEST(damaged_files) {
    int64_t count = test_long() ? 1000000 : test_quick() ? 400 : 4000; // per format
    long before = most_memory();
    for (size_t f = 0; f < COUNT(formats); f++) {
        zl_file *file = make_file(formats[f]);
        for (int64_t n = test_between(0, 3); n-- && strcmp(formats[f], "npy");)
            add_crafted(file);
        size_t bytes = 0;
        void *data = zl_save_memory(formats[f], file, &bytes);
        unsigned char *room = data ? memory_alloc(bytes) : NULL;
        if (!data && zl_error_which() == ZL_ERROR_LIBRARY)
            zl_clear_error();
        for (int64_t i = 0; room && i < count; i++)
            try_damaged(formats[f], data, bytes, room);
        memory_free(room);
        zl_free(data);
        zl_file_free(file);
    }
    CHECK(most_memory() - before < 1 << 20); // a sanitizer keeps some freed memory
}

// Headers that promise far more than the file contains: counts and lengths of all sizes, in the formats'
// fields.
TEST(files_with_huge_counts) {
    static const struct {
        const char *format;
        int at[6]; // offsets of fields; from the end if negative
    } places[] = {{"npy", {6, 8, 10}},
                  {"npz", {18, 22, 26, -12, -14, -6}},
                  {"npz_compressed", {18, 22, 26, -12, -14, -6}},
                  {"safetensors", {0, 4}},
                  {"gguf", {8, 16, 24, 32}}};
    for (size_t p = 0; p < COUNT(places); p++) {
        zl_file *file = make_file(places[p].format);
        size_t bytes = 0;
        unsigned char *data = zl_save_memory(places[p].format, file, &bytes);
        if (!data && zl_error_which() == ZL_ERROR_LIBRARY)
            zl_clear_error();
        for (int shift = 0; data && shift < 64; shift++)
            for (size_t k = 0; k < COUNT(places[p].at); k++) {
                uint64_t huge = (1ull << shift) + test_random() % 3 - 1, old;
                int at = places[p].at[k];
                unsigned char *field = data + (at < 0 ? (int64_t)bytes + at : at);
                size_t wide = MIN_OF(sizeof huge, (size_t)(data + bytes - field));
                memcpy(&old, field, wide);
                memcpy(field, &huge, wide);
                zl_file *got = zl_load_memory(places[p].format, data, bytes);
                CHECK(got || zl_error());
                zl_file_free(got);
                zl_clear_error();
                memcpy(field, &old, wide);
            }
        zl_free(data);
        zl_file_free(file);
    }
}

// Every beginning of a file, for each length.
TEST(files_that_end_early) {
    for (size_t f = 0; f < COUNT(formats); f++) {
        zl_file *file = make_file(formats[f]);
        size_t bytes = 0;
        char *data = zl_save_memory(formats[f], file, &bytes);
        if (!data && zl_error_which() == ZL_ERROR_LIBRARY)
            zl_clear_error();
        for (size_t cut = 0; data && cut < bytes; cut++) {
            zl_file *part = zl_load_memory(formats[f], data, cut);
            CHECK(part || zl_error());
            zl_file_free(part);
            zl_clear_error();
        }
        zl_free(data);
        zl_file_free(file);
    }
}

// Places to save to -----------------------------------------------------------------------------------------

enum { PLACES = 6 };

static const char *place(int which) {
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%d.npy", test_folder(), which);
    return path[turn];
}

static mode_t kind_of(int which) {
    struct stat now;
    return lstat(place(which), &now) == 0 ? now.st_mode : 0;
}

// Makes nothing, a file, a link to any of the places, a directory or a FIFO.
static void make_place(int which) {
    char target[32];
    snprintf(target, sizeof target, "%d.npy", (int)test_between(0, PLACES - 1));
    switch (test_random() % 6) {
    case 0: break;
    case 1:
        CHECK(zl_save(place(which), zl_scalar(-1)) &&
              chmod(place(which), test_random() % 2 ? 0600 : 0646) == 0);
        break;
    case 2: CHECK(mkdir(place(which), 0777) == 0); break;
    case 3: CHECK(mkfifo(place(which), 0666) == 0); break;
    default: CHECK(symlink(target, place(which)) == 0);
    }
}

TEST(saving_to_any_place) {
    for (int64_t n = test_long() ? 5000 : test_quick() ? 40 : 300; n--;)
        ZL_SCOPE {
            mode_t before[PLACES];
            struct stat old, now;
            for (int i = 0; i < PLACES; i++)
                make_place(i);
            for (int i = 0; i < PLACES; i++)
                before[i] = kind_of(i);
            int to = (int)test_between(0, PLACES - 1);
            bool is_old = stat(place(to), &old) == 0;
            bool saved = zl_save(place(to), zl_scalar((double)n));
            CHECK(saved || !strncmp(zl_error(), "zl_save: cannot write ", 22));
            CHECK(!saved || !is_old || S_ISREG(old.st_mode));
            zl_clear_error();
            CHECK(!saved || zl_item(zl_load(place(to))) == (double)n);
            CHECK(!saved || !is_old || (stat(place(to), &now) == 0 && now.st_mode == old.st_mode));
            for (int i = 0; i < PLACES; i++) {
                CHECK(before[i] == 0 || kind_of(i) == before[i]); // links stay links
                if (kind_of(i))
                    CHECK(remove(place(i)) == 0);
            }
            CHECK(rmdir(test_folder()) == 0 &&
                  mkdir(test_folder(), 0777) == 0); // there were no other files
        }
}
