// test_replicas.c - arrays on a device with its own memory: copies are made where they are needed, and only
// there.
//
// The device of these tests adds, subtracts and multiplies floats. Its addresses differ from the host's, so
// that reading one without the device's functions causes a fault.

#include "test.h"

#include "op/ops.h"
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { HIDE = 1 << 20 }; // added to addresses, so that they point to no mapped page

static struct {
    int64_t allocated, freed, marks, waits, most;
    bool fails; // copies to the host fail
} seen;

static float *show(void *memory) {
    return (float *)((uintptr_t)memory ^ (uintptr_t)1 << 60) - HIDE / 4;
}

static void *apart_alloc(int unit, size_t bytes) {
    (void)unit;
    if (seen.most && (int64_t)bytes + seen.allocated - seen.freed > seen.most)
        return NULL;
    size_t *block = malloc(bytes + 16);
    *block = bytes;
    seen.allocated += (int64_t)bytes;
    return (void *)(((uintptr_t)block + 16 + HIDE) ^ (uintptr_t)1 << 60);
}

static void apart_free(int unit, void *memory) {
    (void)unit;
    size_t *block = (size_t *)(void *)((char *)show(memory) - 16);
    seen.freed += (int64_t)*block;
    free(block);
}

static bool apart_copy(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host) {
    (void)unit, (void)lane;
    if (to_host && seen.fails)
        return error_false(ZL_ERROR_DEVICE, "apart: the cable is out");
    if (to_host)
        memcpy(to, show((void *)(uintptr_t)from), bytes);
    else
        memcpy(show(to), from, bytes);
    return true;
}

static bool apart_record(int unit, int lane, int place) {
    (void)unit, (void)lane, (void)place;
    return ++seen.marks;
}

static bool apart_wait(int unit, int lane, int place) {
    (void)unit, (void)lane, (void)place;
    return ++seen.waits;
}

static int apart_open(const char **reason) {
    (void)reason;
    return 1;
}

static bool apart_can(int unit, const struct call *c) {
    (void)unit;
    enum tile_op row = c->op->row;
    return c->op->kind == OP_VIEW || (c->op->kind == OP_ELEMENTWISE && call_first(c)->dtype == ZL_FLOAT32 &&
                                      (row == TILE_ADD || row == TILE_SUB || row == TILE_MUL));
}

static struct program *apart_build(int unit, const struct segment *s) {
    (void)unit, (void)s;
    return memory_alloc(1);
}

static void apart_drop(struct program *p) {
    memory_free(p);
}

extern const struct device apart;

static const float *reach(zl_array x, float *room) {
    if (array_is(x, ARRAY_INLINE)) {
        scalar_write(x, ZL_FLOAT32, room);
        return room;
    }
    void *memory = device_reach(&apart, 0, 0, x->storage);
    return memory ? show(memory) + x->offset : NULL;
}

static bool compute(const struct call *c) {
    float room[2];
    zl_array y = call_first(c);
    const float *a = reach(c->in[0], &room[0]), *b = reach(c->in[1], &room[1]);
    float *to = (float *)(uintptr_t)reach(y, NULL);
    for (int64_t i = 0; a && b && i < y->size; i++) {
        float p = a[c->in[0]->size == 1 ? 0 : i], q = b[c->in[1]->size == 1 ? 0 : i];
        to[i] = c->op->row == TILE_ADD ? p + q : c->op->row == TILE_SUB ? p - q : p * q;
    }
    return a && b;
}

static void apart_run(int unit, struct program *p, struct binding *b) {
    (void)unit, (void)p;
    for (int i = 0; i < b->calls; i++) {
        if (b->prepare(b, i, UINT64_MAX) && (b->call[i]->op->kind == OP_VIEW || compute(b->call[i])))
            b->finish(b, i);
        else
            b->fail(b, i);
    }
}

const struct device apart = {
    .name = "apart",
    .open = apart_open,
    .can = apart_can,
    .build = apart_build,
    .drop = apart_drop,
    .run = apart_run,
    .copy = apart_copy,
    .alloc = apart_alloc,
    .free = apart_free,
    .record = apart_record,
    .wait = apart_wait,
};

// Returns a stream on that device, which is in no list.
static zl_stream on_apart(void) {
    static struct zl_stream_ stream;
    if (!stream.device) {
        stream.device = &apart;
        pthread_mutex_init(&stream.lock, NULL);
        pthread_cond_init(&stream.changed, NULL);
    }
    stream.owner = pthread_self();
    seen.fails = false;
    seen.most = 0;
    return &stream;
}

static zl_array numbers(int64_t count, float first) {
    float data[1024];
    for (int64_t i = 0; i < count; i++)
        data[i] = first + (float)i;
    return zl_from_f32(data, ZL_SHAPE(count));
}

// This has to be the first test, as no array may have been on a device before.
TEST(memory_that_is_written_again_leaves_no_old_copy) {
    zl_scope scope = zl_scope_begin_on(on_apart());
    zl_array w = NULL, host = NULL;
    ZL_SCOPE
        w = zl_retain(numbers(300, 0));
    for (int i = 0; i < 3; i++) {
        int64_t donations = zl_counter("donations");
        zl_array next = NULL;
        ZL_SCOPE
            next = zl_retain(zl_add(w, zl_scalar(1)));
        zl_release(w);
        REQUIRE(zl_eval(w = next));
        CHECK_EQ_INT(zl_counter("donations"), donations + 1);
        CHECK_EQ_F64(zl_data_f32(w)[7], 8 + i);
    }
    ZL_SCOPE
        host = zl_retain(zl_negative(w)); // on the CPU, reusing its memory
    zl_release(w);
    CHECK_EQ_F64(zl_data_f32(host)[7], -10);
    CHECK_EQ_F64(zl_data_f32(zl_add(host, zl_scalar(1)))[7], -9);
    zl_release(host);
    zl_scope_end(scope);
}

TEST(copies_where_they_are_needed) {
    zl_scope scope = zl_scope_begin_on(on_apart());
    int64_t up = zl_counter("uploads"), down = zl_counter("downloads");
    zl_array x = zl_retain(numbers(200, 1)), y = zl_retain(numbers(200, 5));
    zl_array s = zl_retain(zl_add(zl_multiply(x, y), zl_scalar(2)));
    REQUIRE(zl_eval(s));
    CHECK(s->storage->data == NULL);
    CHECK_EQ_INT(zl_counter("uploads") - up, 2);
    CHECK_EQ_INT(zl_counter("downloads") - down, 0);
    CHECK_EQ_F64(zl_data_f32(s)[3], 4 * 8 + 2);
    CHECK_EQ_F64(zl_data_f32(s)[199], 200 * 204 + 2);
    CHECK_EQ_INT(zl_counter("downloads") - down, 1);
    zl_array t = zl_subtract(s, x); // both are on the device already
    CHECK_EQ_F64(zl_data_f32(t)[3], 30);
    CHECK_EQ_INT(zl_counter("uploads") - up, 2);
    zl_release(x);
    zl_release(y);
    zl_release(s);
    zl_scope_end(scope);
}

TEST(what_a_device_cannot_do_is_done_by_the_cpu) {
    zl_scope scope = zl_scope_begin_on(on_apart());
    int64_t fallbacks = zl_counter("fallbacks");
    zl_array x = numbers(100, 1);
    zl_array y = zl_add(zl_sqrt(zl_multiply(x, x)), zl_scalar(1)); // on the device, on the CPU, on the device
    CHECK_EQ_F64(zl_data_f32(y)[41], 43);
    CHECK(zl_counter("fallbacks") > fallbacks);
    int64_t runs = zl_counter("fallback_runs");
    y = zl_add(zl_sqrt(zl_multiply(x, x)), zl_scalar(1)); // by the same plan
    CHECK_EQ_F64(zl_data_f32(y)[41], 43);
    CHECK_EQ_INT(zl_counter("fallback_runs") - runs, 1);
    zl_array z = zl_sum(zl_slice(zl_add(x, x), ZL_SHAPE(10), ZL_SHAPE(20), ZL_SHAPE(1)));
    CHECK_EQ_F64(zl_item(z), 2 * (11 + 20) * 5);
    CHECK(zl_eval(zl_add(zl_zeros(ZL_SHAPE(0), ZL_FLOAT32), zl_scalar(1))));
    zl_scope_end(scope);
}

TEST(a_device_that_fails_or_has_no_memory) {
    zl_scope scope = zl_scope_begin_on(on_apart());
    zl_array x = zl_retain(zl_add(numbers(1000, 0), zl_scalar(1)));
    REQUIRE(zl_eval(x));
    seen.fails = true;
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_data(x));
    CHECK_HAS(test_last_error(), "cable");
    zl_array root = zl_retain(zl_sqrt(x));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(root));
    seen.fails = false;
    CHECK_EQ_F64(zl_data_f32(x)[8], 9);
    zl_clear_cache();
    seen.most = seen.allocated - seen.freed + 100;
    zl_array y = zl_retain(zl_add(x, x));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(y));
    CHECK_HAS(test_last_error(), "apart");
    seen.most = 0;
    CHECK_EQ_F64(zl_data_f32(zl_add(x, x))[8], 18);
    zl_release(root);
    zl_release(x);
    zl_release(y);
    zl_scope_end(scope);
}

TEST(the_memory_of_a_device_is_used_again_and_given_back) {
    zl_scope scope = zl_scope_begin_on(on_apart());
    int64_t before = seen.allocated;
    for (int i = 0; i < 20; i++)
        ZL_SCOPE
            CHECK(zl_eval(zl_add(numbers(900, 0), zl_scalar(i))));
    CHECK(seen.allocated - before <= 4 * 4096);
    CHECK(zl_get_cache_memory() > 0);
    zl_scope_end(scope);
    zl_clear_cache();
    CHECK_EQ_INT(seen.allocated, seen.freed);
}

TEST(waiting_for_a_device) {
    zl_stream stream = on_apart();
    zl_scope scope = zl_scope_begin_on(stream);
    int64_t marks = seen.marks, waits = seen.waits;
    zl_array x = zl_retain(zl_add(numbers(100, 0), zl_scalar(1)));
    CHECK(zl_eval(x));
    CHECK_EQ_INT(seen.marks, marks + 1);
    CHECK_EQ_INT(seen.waits, waits + 1);
    CHECK(zl_stream_synchronize(stream));
    CHECK_EQ_INT(seen.waits, waits + 2);
    zl_release(x);
    zl_scope_end(scope);
}

static void hear(zl_log_level level, const char *line, void *context) {
    (void)level;
    strcpy(context, strlen(line) < 200 ? line : "");
}

TEST(fallbacks_are_logged) {
    char heard[200] = "";
    zl_scope scope = zl_scope_begin_on(on_apart());
    zl_set_log_level(ZL_LOG_INFO);
    zl_set_log(hear, heard);
    CHECK(zl_eval(zl_sinh(numbers(10, 0))));
    CHECK_STR(heard, "sinh of float32 falls back to the CPU: the apart device cannot run it");
    zl_set_log(NULL, NULL);
    zl_set_log_level(ZL_LOG_WARN);
    zl_scope_end(scope);
}

TEST(no_fallback_is_an_error) {
    zl_scope scope = zl_scope_begin_on(on_apart());
    test_setenv("ZL_NO_FALLBACK", "1");
    zl_array x = numbers(10, 0);
    CHECK(zl_eval(zl_add(x, x)));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_tanh(x)));
    CHECK_HAS(test_last_error(), "apart");
    CHECK_HAS(test_last_error(), "tanh");
    test_setenv("ZL_NO_FALLBACK", NULL);
    zl_scope_end(scope);
}
