// head.c - the call that a rank is about to make, in a few bytes that ranks compare.

#include "group/group.h"

#include <stdio.h>

enum { MAGIC = 0x5a4c4752 };

struct group_head head_of(zl_group g, const struct op_transfer *t, uint64_t number) {
    bool pairs = group_is_between_ranks(t->kind);
    return (struct group_head){.magic = MAGIC,
                               .kind = (uint8_t)t->kind,
                               .dtype = (uint8_t)t->dtype,
                               .peer = (int16_t)(pairs ? 0 : t->peer),
                               .number = number,
                               .count = pairs ? t->out_count : t->in_count,
                               .rank = (uint64_t)g->rank};
}

bool head_is_same(const struct group_head *a, const struct group_head *b) {
    if (a->magic != b->magic || a->dtype != b->dtype || a->count != b->count)
        return false;
    if (group_is_between_ranks((enum collective)a->kind))
        return b->kind == (a->kind == COLLECTIVE_SEND ? COLLECTIVE_RECV : COLLECTIVE_SEND);
    return a->kind == b->kind && a->number == b->number && a->peer == b->peer;
}

static const char *kind_name(int kind) {
    static const char *const names[] = {
#define COLLECTIVE(NAME, text, ...) text,
#include "op/collective.def"
    };
    return kind >= 0 && kind < COLLECTIVE_COUNT ? names[kind] : "something else";
}

static void describe(const struct group_head *h, char *out, size_t bytes) {
    snprintf(out, bytes, "rank %d calls %s number %llu of %lld elements of %s", (int)h->rank,
             kind_name(h->kind), (unsigned long long)h->number, (long long)h->count,
             h->dtype < ZL_DTYPE_COUNT ? zl_dtype_name((zl_dtype)h->dtype) : "?");
}

void head_difference(const struct group_head *a, const struct group_head *b, char *out, size_t bytes) {
    char one[160], other[160];
    describe(a, one, sizeof one);
    describe(b, other, sizeof other);
    snprintf(out, bytes, "ranks do not call the same: %s; %s%s", one, other,
             a->kind == b->kind && a->peer != b->peer ? ", from another root" : "");
}
