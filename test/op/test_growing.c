// test_growing.c - a program whose sizes grow with every step, as in decoding with a cache of keys and
// values: after the first steps nothing is compiled or planned, and memory stays near that of the cache.

#include "op_test.h"

enum { HEADS = 2, DIM = 64, WIDTH = HEADS * DIM, CHUNK = 256 };

struct state {
    zl_array weight, x, keys, values; // the cache: [1, HEADS, room, DIM]
    int64_t length, room;
};

static void keep(zl_array *place, zl_array a) {
    zl_retain(a);
    zl_release(*place);
    *place = a;
}

static zl_array with_room(zl_array cache) {
    zl_array more = zl_zeros(ZL_SHAPE(1, HEADS, CHUNK, DIM), ZL_FLOAT16);
    return cache ? zl_concatenate((zl_array[]){cache, more}, 2, 2) : more;
}

static zl_array put(const struct state *s, zl_array cache, zl_array row) {
    return zl_slice_update(cache, row, ZL_SHAPE(0, 0, s->length, 0), ZL_SHAPE(1, HEADS, s->length + 1, DIM),
                           ZL_SHAPE(1, 1, 1, 1));
}

static zl_array used(const struct state *s, zl_array cache) {
    return zl_slice(cache, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(1, HEADS, s->length + 1, DIM),
                    ZL_SHAPE(1, 1, 1, 1));
}

static bool step(struct state *s) {
    bool done = false;
    ZL_SCOPE {
        if (s->length == s->room) {
            keep(&s->keys, with_room(s->keys));
            keep(&s->values, with_room(s->values));
            s->room += CHUNK;
        }
        zl_array row = zl_reshape(zl_fast_rms_norm(s->x, NULL, 1e-5), ZL_SHAPE(1, HEADS, 1, DIM));
        zl_array q = zl_fast_rope(row, DIM, false, 10000, 1,
                                  zl_full(ZL_SHAPE(), zl_scalar((double)s->length), ZL_INT32), NULL);
        keep(&s->keys, put(s, s->keys, q));
        keep(&s->values, put(s, s->values, row));
        zl_array y = zl_fast_scaled_dot_product_attention(q, used(s, s->keys), used(s, s->values), 0.125,
                                                          NULL, NULL, NULL);
        keep(&s->x, zl_add(s->x, zl_matmul(zl_reshape(y, ZL_SHAPE(1, WIDTH)), s->weight)));
        done = zl_eval_all(3, (zl_array[]){s->x, s->keys, s->values});
        s->length++;
    }
    return done;
}

static int64_t made(void) {
    return zl_counter("compiles") + zl_counter("plans");
}

TEST(steps_that_grow_make_nothing_new) {
    int steps = test_long() ? 10000 : test_brief() ? CHUNK + 30 : 600, warm = CHUNK + 10;
    struct state s = {0};
    int64_t before = 0;
    zl_synchronize();
    size_t at_first = zl_get_active_memory();
    s.weight = zl_retain(
        zl_multiply(zl_random_normal(ZL_SHAPE(WIDTH, WIDTH), ZL_FLOAT16, NULL, NULL, NULL), zl_scalar(0.01)));
    s.x = zl_retain(zl_ones(ZL_SHAPE(1, WIDTH), ZL_FLOAT16));
    for (int i = 0; i < steps; i++) {
        if (i == warm)
            before = made();
        REQUIRE(step(&s));
        size_t cache = (size_t)(2 * s.room * WIDTH * 2), rest = 4 * WIDTH * WIDTH;
        if (i % 100 == 99) // cached blocks are reused for smaller arrays
            CHECK(zl_get_active_memory() <= at_first + cache * 3 / 2 + rest);
    }
    CHECK_EQ_INT(made() - before, 0);
    CHECK(zl_item_int(zl_all(zl_isfinite(s.x))) == 1);
    zl_release(s.weight);
    zl_release(s.x);
    zl_release(s.keys);
    zl_release(s.values);
}
