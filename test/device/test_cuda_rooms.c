// test_cuda_rooms.c - host copies of a CUDA device's arrays are in pinned pages, which are kept and reused.
// It runs under the driver of test/fake, which counts its calls.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include "base/base.h"
#include "zellige_ops.h"

#include <sys/wait.h>
#include <unistd.h>

enum { MB = 1 << 20, ALL_MOST = 64 * MB };

static struct {
    void (*fail)(const char *function, int after, int code);
    int64_t (*calls)(const char *function);
} fake;

static const char *lacks_fake(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = library_open(names);
    const struct library_symbol symbols[] = {{"fake_fail", (void **)(void *)&fake.fail},
                                             {"fake_calls", (void **)(void *)&fake.calls}};
    return library && library_bind(library, symbols, COUNT(symbols), NULL)
               ? NULL
               : "its driver is that of test/fake: device/test_cuda:host_side runs it so";
}

static int64_t pins(void) {
    return fake.calls("cuMemHostRegister_v2");
}

static int64_t unpins(void) {
    return fake.calls("cuMemHostUnregister");
}

// Begins without any pinned pages kept.
static zl_scope begin(void) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    zl_clear_cache();
    return zl_scope_begin_on(zl_new_stream("cuda"));
}

static void end(zl_scope scope) {
    zl_scope_end(scope);
    zl_clear_cache();
    test_setenv("ZL_CACHE_DIR", NULL);
}

// Returns an array of `bytes` bytes that the device has computed, retained and read.
static zl_array read_one(size_t bytes, float first) {
    int64_t count = (int64_t)(bytes / sizeof(float));
    zl_array x = NULL;
    ZL_SCOPE
        x = zl_retain(zl_add(zl_arange(0, (double)count, 1, ZL_FLOAT32), zl_scalar((double)first)));
    const float *data = zl_data_f32(x);
    CHECK(data && data[0] == first && data[count - 1] == (float)(count - 1) + first);
    return x;
}

TEST(a_size_that_was_read_needs_no_new_pages) {
    static const size_t sizes[] = {64 << 10, 256 << 10, 300 << 10, MB, 4 * MB, 8 * MB};
    zl_scope scope = begin();
    for (size_t i = 0; i < COUNT(sizes); i++) {
        zl_release(read_one(sizes[i], 1));
        int64_t before = pins(), copies = fake.calls("cuMemcpyDtoHAsync_v2");
        zl_release(read_one(sizes[i], 2));
        CHECK_EQ_INT(pins(), before);
        CHECK_EQ_INT(fake.calls("cuMemcpyDtoHAsync_v2"), copies + 1); // copied directly, not in pieces
    }
    CHECK_EQ_INT(fake.calls("spinning"), 0);
    end(scope);
}

TEST(small_and_large_copies_lie_in_ordinary_memory) {
    zl_scope scope = begin();
    int64_t before = pins();
    zl_release(read_one(32 << 10, 1));
    zl_release(read_one(9 * MB, 1));
    CHECK_EQ_INT(pins(), before);
    end(scope);
}

TEST(a_room_goes_back_with_its_last_view) {
    zl_scope scope = begin();
    zl_array x = read_one(MB, 1), view = NULL;
    ZL_SCOPE {
        view = zl_retain(zl_slice(x, ZL_SHAPE(5), ZL_SHAPE(9), ZL_SHAPE(1)));
        CHECK(zl_eval(view));
    }
    zl_release(x);
    int64_t before = pins();
    zl_array other = read_one(MB, 7);
    CHECK_EQ_INT(pins(), before + 1);
    const float *data = zl_data_f32(view);
    CHECK(data && data[0] == 6 && data[3] == 9);
    zl_release(view);
    zl_release(read_one(MB, 3));
    CHECK_EQ_INT(pins(), before + 1);
    zl_release(other);
    end(scope);
}

TEST(rooms_are_counted_and_cleared) {
    zl_scope scope = begin();
    size_t active = zl_get_active_memory(), cached;
    int64_t made = pins() - unpins();
    zl_array x = read_one(3 * MB, 1);
    CHECK_EQ_INT((int64_t)(zl_get_active_memory() - active), 3 * MB + 4 * MB);
    cached = zl_get_cache_memory();
    zl_release(x);
    CHECK(zl_get_active_memory() == active && zl_get_cache_memory() - cached == 7 * MB);
    CHECK_EQ_INT(pins() - unpins(), made + 1);
    zl_clear_cache();
    CHECK_EQ_INT(pins() - unpins(), made);
    size_t limit = zl_set_cache_limit(0);
    zl_release(read_one(3 * MB, 1));
    CHECK_EQ_INT(pins() - unpins(), made);
    zl_set_cache_limit(limit);
    end(scope);
}

// Arrays of 8 MB that together exceed the limit of pinned memory: the rest is read into unpinned memory.
TEST(all_rooms_together_are_bounded) {
    enum { COUNT_OF = ALL_MOST / (8 * MB) + 2 };
    zl_scope scope = begin();
    int64_t made = pins() - unpins();
    zl_array x[COUNT_OF];
    for (int i = 0; i < COUNT_OF; i++)
        x[i] = read_one(8 * MB, (float)i);
    CHECK_EQ_INT(pins() - unpins(), made + COUNT_OF - 2);
    for (int i = 0; i < COUNT_OF; i++)
        zl_release(x[i]);
    zl_release(read_one(4 * MB, 1)); // the oldest of the 8 MB blocks is freed for it
    CHECK_EQ_INT(pins() - unpins(), made + COUNT_OF - 2);
    int64_t before = pins();
    for (int i = 0; i < COUNT_OF - 3; i++)
        x[i] = read_one(8 * MB, (float)i);
    CHECK_EQ_INT(pins(), before);
    for (int i = 0; i < COUNT_OF - 3; i++)
        zl_release(x[i]);
    end(scope);
}

TEST(a_driver_that_refuses_is_asked_again_when_the_cache_was_cleared) {
    zl_scope scope = begin();
    fake.fail("cuMemHostRegister_v2", 1, 2);
    int64_t before = pins();
    zl_release(read_one(MB, 1));
    zl_release(read_one(MB, 2));
    CHECK_EQ_INT(pins(), before + 1);
    CHECK(!zl_error());
    zl_clear_cache();
    zl_release(read_one(MB, 3));
    CHECK_EQ_INT(pins(), before + 2);
    end(scope);
}

TEST(a_copy_that_fails_gives_its_room_back) {
    zl_scope scope = begin();
    zl_array x = NULL;
    ZL_SCOPE
        x = zl_retain(zl_add(zl_arange(0, MB / 4, 1, ZL_FLOAT32), zl_scalar(1)));
    CHECK(zl_eval(x));
    fake.fail("cuMemcpyDtoHAsync_v2", 1, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_data_f32(x));
    int64_t before = pins();
    const float *data = zl_data_f32(x);
    CHECK(data && data[9] == 10);
    CHECK_EQ_INT(pins(), before);
    zl_release(x);
    end(scope);
}

// The parent reuses the pages while the child still reads its own copy.
TEST(a_child_of_fork_keeps_its_values) {
    zl_scope scope = begin();
    int done[2];
    zl_array x = read_one(MB, 5);
    REQUIRE(!pipe(done));
    pid_t child = fork();
    if (!child) {
        char byte;
        bool good = read(done[0], &byte, 1) == 1 && zl_data_f32(x) && zl_data_f32(x)[3] == 8;
        zl_release(x);
        _exit(good ? 0 : 1);
    }
    zl_release(x);
    zl_release(read_one(MB, 900));
    int status = 1;
    CHECK(write(done[1], "", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
    close(done[0]);
    close(done[1]);
    end(scope);
}
