// hlo_sizes.c - finds out which sizes of a segment change from run to run, such as that of a cache that
// grows.
//
// Segments with the same ops, dtypes, ranks and links are of one kind. When a kind has had three different
// lists of sizes, the sizes that changed are expected to change again, and programs are made for the next
// step of such a size. This only decides what pays; programs are correct in any case.

#include "device/hlo/hlo.h"

#include <string.h>

enum { KINDS_MOST = 1024, LISTS = 3, LEAST_STEP = 32 };

struct kind {
    int count, lists; // number of sizes; different lists of them so far
    int64_t *last;
    uint8_t *varied;
};

static struct lock lock; // guards `kinds`
static struct map kinds;
ZL_AT_LOAD {
    fork_guard(&lock);
}

int64_t hlo_step(int64_t size) {
    int64_t step = LEAST_STEP;
    while (step < size)
        step *= 2;
    return step;
}

// Listing ---------------------------------------------------------------------------------------------------

struct list {
    int64_t *word, *size;
    int words, word_cap, sizes, size_cap;
    bool failed;
};

static void add_word(struct list *l, int64_t word) {
    if (memory_grow(&l->word, &l->word_cap, l->words + 1, sizeof *l->word))
        l->word[l->words++] = word;
    else
        l->failed = true;
}

// Appends the dtype and rank of an array and lists its sizes, or appends its place if it was added before.
static void add_array(struct hlo_sizes *s, struct list *l, zl_array x) {
    intptr_t at = (intptr_t)map_get(&s->place, &x, sizeof x);
    add_word(l, at ? at : -1 - (int64_t)x->dtype - ((int64_t)x->ndim << 8) -
                              ((int64_t)array_is(x, ARRAY_INLINE) << 24));
    if (at || array_is(x, ARRAY_INLINE))
        return;
    if (!map_set(&s->place, &x, sizeof x, (void *)(intptr_t)(l->sizes + 1)) ||
        !memory_grow(&l->size, &l->size_cap, l->sizes + x->ndim + 1, sizeof *l->size)) {
        l->failed = true;
        return;
    }
    l->size[l->sizes++] = x->ndim; // so that each array has a place of its own
    for (int i = 0; i < x->ndim; i++)
        l->size[l->sizes++] = x->dim[i];
}

static void list_segment(struct hlo_sizes *sizes, struct list *l, const struct segment *s) {
    for (int i = 0; i < s->calls; i++) {
        const struct call *c = s->call[i];
        add_word(l, (int64_t)(intptr_t)c->op);
        for (int k = 0; k < c->inputs; k++)
            add_array(sizes, l, c->in[k]);
        for (int k = 0; k < c->outputs; k++)
            add_array(sizes, l, call_output(c, k));
    }
}

// Remembering -----------------------------------------------------------------------------------------------

static void free_kind(const void *key, size_t bytes, void *value, void *data) {
    struct kind *k = value;
    (void)key, (void)bytes, (void)data;
    memory_free(k->last);
    memory_free(k->varied);
    memory_free(k);
}

// Returns the kind of a list of words, or NULL if memory runs out. Under the lock.
static struct kind *find_kind(const struct list *l) {
    size_t bytes = sizeof *l->word * (size_t)l->words;
    struct kind *k = map_get(&kinds, l->word, bytes);
    if (k)
        return k;
    if (kinds.count >= KINDS_MOST) {
        map_each(&kinds, free_kind, NULL);
        map_free(&kinds);
    }
    if (!(k = memory_zero(sizeof *k)))
        return NULL;
    k->count = l->sizes;
    k->last = memory_zero(sizeof *k->last * (size_t)(l->sizes + 1));
    k->varied = memory_zero((size_t)(l->sizes + 1));
    if (k->last && k->varied && map_set(&kinds, l->word, bytes, k))
        return k;
    free_kind(NULL, 0, k, NULL);
    return NULL;
}

// Notes the sizes of a run. Under the lock.
static void note(struct kind *k, const struct list *l) {
    size_t bytes = sizeof *l->size * (size_t)l->sizes;
    if (k->lists && !memcmp(k->last, l->size, bytes))
        return;
    for (int i = 0; k->lists && i < l->sizes; i++)
        k->varied[i] |= k->last[i] != l->size[i];
    memcpy(k->last, l->size, bytes);
    k->lists = MIN_OF(k->lists + 1, LISTS);
}

bool hlo_sizes_open(struct hlo_sizes *sizes, const struct segment *s) {
    struct list l = {0};
    *sizes = (struct hlo_sizes){0};
    list_segment(sizes, &l, s);
    lock_take(&lock);
    struct kind *k = l.failed ? NULL : find_kind(&l);
    bool ok = k;
    if (k)
        note(k, &l);
    if (k && k->lists == LISTS && (ok = (sizes->varied = memory_zero((size_t)(k->count + 1)))))
        memcpy(sizes->varied, k->varied, (size_t)k->count);
    lock_give(&lock);
    memory_free(l.word);
    memory_free(l.size);
    return ok;
}

uint64_t hlo_sizes_of(const struct hlo_sizes *sizes, zl_array x) {
    intptr_t at = sizes->varied ? (intptr_t)map_get(&sizes->place, &x, sizeof x) : 0;
    uint64_t axes = 0;
    for (int i = 0; at && i < x->ndim && i < 64; i++)
        axes |= (uint64_t)sizes->varied[at + i] << i;
    return axes;
}

void hlo_sizes_close(struct hlo_sizes *sizes) {
    map_free(&sizes->place);
    memory_free(sizes->varied);
}
