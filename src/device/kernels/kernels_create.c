// kernels_create.c - arrays made of nothing: numbers counted up, and random bits.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

// The key of a kernel begins with the name of its file.
struct recipe {
    char file[16];
    int32_t dtype, wide;
};

// Counting up ------------------------------------------------------------------------------------------------------

static struct tile_kernel *make_count(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,BITS=%d", kernel_type((zl_dtype)r->dtype), kernel_bits(r->wide));
}

static bool count_up(const struct kernel_place *p, const struct call *c, struct recipe r) {
    zl_array y = call_first(c);
    struct kernel_call k;
    kernel_begin_call(&k);
    r.dtype = y->dtype;
    r.wide = y->size > KERNEL_NARROW;
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make_count, &r);
    void *to = kernel_reach(p, y);
    kernel_add(&k, &call_args(c)[0], 8); // a double is kept as its bits
    kernel_add(&k, &call_args(c)[2], 8);
    kernel_add_memory(&k, to);
    return kernel && to && kernel_launch_tiles(p, kernel, &k, 1, &y->size);
}

bool kernel_arange(const struct kernel_place *p, const struct call *c) {
    return count_up(p, c, (struct recipe){"arange"});
}

bool kernel_arange_int(const struct kernel_place *p, const struct call *c) {
    return count_up(p, c, (struct recipe){"arange_int"});
}

// Random bits ------------------------------------------------------------------------------------------------------

static struct tile_kernel *make_bits(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "BITS=%d", kernel_bits(r->wide));
}

// Words of each key, one key's after the other's.
static bool make_words(const struct kernel_place *p, zl_array keys, int64_t words, void *to) {
    int64_t count = keys->size / 2, pairs = words - words / 2;
    struct kernel_call k;
    kernel_begin_call(&k);
    struct recipe r = {"random_bits",
                       .wide = count * words > KERNEL_NARROW || kernel_elements(keys) > KERNEL_NARROW};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make_bits, &r);
    void *from = kernel_reach(p, keys);
    kernel_add_memory(&k, from);
    kernel_add_memory(&k, to);
    return kernel && from && to &&
           kernel_launch_tiles(
               p, kernel, &k, 5,
               (const int64_t[]){count, pairs, words / 2, kernel_elements(keys), keys->offset});
}

// What a key's part of the result has is a number of bytes: where that is no number of words, words are made beside it.
bool kernel_random_bits(const struct kernel_place *p, const struct call *c) {
    zl_array keys = c->in[0], y = call_first(c);
    int64_t count = keys->size / 2, bytes = y->size / count * (int64_t)array_item(y), words = (bytes + 3) / 4;
    void *to = kernel_reach(p, y);
    size_t capacity;
    if (bytes % 4 == 0 || !to)
        return make_words(p, keys, words, to);
    void *room = device_alloc(p->target->device, p->unit, p->lane, (size_t)(count * words) * 4, &capacity);
    bool done = room && make_words(p, keys, words, room) &&
                kernel_move(p, ZL_UINT8, 2, (const int64_t[]){count, bytes}, to, (const int64_t[]){bytes, 1},
                            room, (const int64_t[]){words * 4, 1});
    if (room)
        device_free(p->target->device, p->unit, p->lane, room, capacity);
    return done;
}
