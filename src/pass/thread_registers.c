// thread_registers.c - tiles with one row in the registers of a thread, and unrolled loops over them, whose
// indices are constants so that a compiler can use registers.

#include "pass/threads.h"

struct tile_buffer *thread_registers(const char *prefix, struct tile_type type, enum tile_memory memory,
                                     int64_t count) {
    expr shape[2] = {box_number(1), box_number(count)};
    return box_alloc(prefix, type, memory, 2, shape);
}

expr thread_load(const struct tile_buffer *b, expr at) {
    expr index[2] = {box_number(0), box_index(at)};
    return tile_load(b, 2, index, NULL, NULL);
}

void thread_store(const struct tile_buffer *b, expr at, expr value) {
    expr index[2] = {box_number(0), box_index(at)};
    tile_store(b, 2, index, value, NULL);
}

expr thread_unrolled(int64_t count) {
    const struct tile_name *r = box_variable(box_number(count));
    tile_open_for(r, NULL, box_number(count), NULL, TILE_UNROLLED);
    return box_point(r);
}
