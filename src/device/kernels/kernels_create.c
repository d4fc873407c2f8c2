// kernels_create.c - arange, and random bits from keys.

#include "device/kernels/kernels.h"
#include "op/ops.h"

bool kernel_arange(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    bool is_whole = c->op == &op_arange_int;
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, y->size);
    work_value(&w, &call_args(c)[0], 8); // a double is kept as its bits
    work_value(&w, &call_args(c)[2], 8);
    work_result(&w, y);
    return WORK_FILE(&w, "arange", "ITEM=%t,NUMBER=%t,WHOLE=%d,BITS=%b", y->dtype,
                     is_whole ? ZL_INT64 : ZL_FLOAT64, is_whole);
}

// Writes so many random words of each key, key after key.
static bool make_words(const struct kernel_place *p, zl_array keys, int64_t words, void *to) {
    int64_t count = keys->size / 2, pairs = words - words / 2;
    struct kernel_work w;
    work_open(&w, p, "random bits");
    WORK_SIZES(&w, count, pairs, words / 2);
    work_array(&w, keys);
    work_memory(&w, to);
    w.wide |= count * words > KERNEL_NARROW;
    return work_file(&w, "random_bits", "BITS=%b", 0, NULL);
}

// The number of bytes of each key's part of the result need not be a multiple of 4. If it is not, the words
// are written to scratch memory, and the bytes are copied from there.
bool kernel_random_bits(const struct kernel_place *p, const struct call *c) {
    zl_array keys = c->in[0], y = call_first(c);
    int64_t count = keys->size / 2, bytes = y->size / count * (int64_t)array_item(y), words = (bytes + 3) / 4;
    void *to = kernel_reach(p, y);
    struct kernel_scratch room = {0};
    if (bytes % 4 == 0 || !to)
        return make_words(p, keys, words, to);
    bool done = kernel_scratch_open(p, &room, (size_t)(count * words) * 4) &&
                make_words(p, keys, words, room.memory) &&
                kernel_move(p, ZL_UINT8, 2, (const int64_t[]){count, bytes}, to, (const int64_t[]){bytes, 1},
                            room.memory, (const int64_t[]){words * 4, 1});
    kernel_scratch_close(p, &room);
    return done;
}
