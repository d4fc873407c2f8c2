// text_bpe.c - byte pair encoding of one piece: while neighbours form a token, those of the lowest rank, of
// equal ones the leftmost, are replaced by it.
//
// A pair's rank and token are one 64-bit number in a hash table with open addressing; pairs of single bytes
// have a table of their own. Short pieces are merged in an array that is searched at each step; long pieces
// with a heap, in O(n log n). Recent pieces are cached with their tokens.

#include "text_inside.h"

enum { SHORT = 48, CACHE_SLOTS = 1 << 14, CACHE_KEY = 22, CACHE_IDS = 10 };
#define NO_PAIR UINT64_MAX

// Pairs -----------------------------------------------------------------------------------------------------

static size_t pair_slot(const struct text_tokenizer *t, uint64_t key) {
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    return (size_t)((hash ^ hash >> 32) * 0xd6e8feb86659fd93u >> 20) & (t->pairs - 1);
}

// Returns rank << 32 | token of two neighbours; NO_PAIR if they form none.
static uint64_t find_pair(const struct text_tokenizer *t, uint32_t left, uint32_t right) {
    uint64_t key = (uint64_t)left << 32 | right;
    for (size_t slot = pair_slot(t, key);; slot = (slot + 1) & (t->pairs - 1)) {
        const struct text_pair *p = &t->pair[slot];
        if (p->key == key)
            return (uint64_t)p->rank << 32 | p->id;
        if (p->key == NO_PAIR)
            return NO_PAIR;
    }
}

bool text_pairs_reserve(struct text_tokenizer *t, size_t count) {
    size_t slots = 64;
    while (slots < count + count / 2)
        slots *= 2;
    if (slots <= t->pairs)
        return true;
    struct text_pair *old = t->pair, *table = malloc(slots * sizeof *table);
    if (!table)
        return false;
    memset(table, 0xff, slots * sizeof *table);
    size_t had = t->pairs;
    t->pair = table;
    t->pairs = slots;
    for (size_t i = 0; i < had; i++)
        if (old[i].key != NO_PAIR)
            text_pairs_put(t, (uint32_t)(old[i].key >> 32), (uint32_t)old[i].key, old[i].rank, old[i].id);
    free(old);
    return true;
}

void text_pairs_put(struct text_tokenizer *t, uint32_t left, uint32_t right, uint32_t rank, uint32_t id) {
    uint64_t key = (uint64_t)left << 32 | right;
    size_t slot = pair_slot(t, key);
    while (t->pair[slot].key != NO_PAIR && t->pair[slot].key != key)
        slot = (slot + 1) & (t->pairs - 1);
    t->pair[slot] = (struct text_pair){key, rank, id};
}

bool text_bpe_finish(struct text_tokenizer *t) {
    t->byte_pair = malloc(65536 * sizeof *t->byte_pair);
    if (!t->byte_pair || !text_pairs_reserve(t, 1))
        return false;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            t->byte_pair[a << 8 | b] = t->byte_id[a] < 0 || t->byte_id[b] < 0
                                           ? NO_PAIR
                                           : find_pair(t, (uint32_t)t->byte_id[a], (uint32_t)t->byte_id[b]);
    return true;
}

bool text_bpe_pairs_of_ranks(struct text_tokenizer *t) {
    size_t used = 0;
    for (int id = 0; id < t->count; id++) {
        const struct text_token *token = &t->token[id];
        if (token->added)
            continue;
        if (!text_pairs_reserve(t, used + token->bytes + 64))
            return false;
        for (uint32_t cut = 1; cut < token->bytes; cut++) {
            int64_t left = text_map_get(&t->by_bytes, token->data, cut);
            int64_t right =
                left < 0 ? left : text_map_get(&t->by_bytes, token->data + cut, token->bytes - cut);
            if (right < 0)
                continue;
            text_pairs_put(t, (uint32_t)left, (uint32_t)right, (uint32_t)id, (uint32_t)id);
            used++;
        }
    }
    return text_pairs_reserve(t, used + 1);
}

// Memory of a thread ----------------------------------------------------------------------------------------

struct cached { // fits in a cache line
    uint8_t key_bytes, count;
    char key[CACHE_KEY];
    int32_t id[CACHE_IDS];
};

struct text_bpe_memory {
    struct cached cache[CACHE_SLOTS];
    uint32_t *id, *next, *previous; // of a long piece
    uint64_t *pair, *heap;
    size_t cap;
};

struct text_bpe_memory *text_bpe_memory_new(void) {
    return calloc(1, sizeof(struct text_bpe_memory));
}

static void free_arrays(struct text_bpe_memory *m) {
    free(m->id);
    free(m->next);
    free(m->previous);
    free(m->pair);
    free(m->heap);
    m->cap = 0;
}

void text_bpe_memory_free(struct text_bpe_memory *m) {
    if (m)
        free_arrays(m);
    free(m);
}

static bool have_arrays(struct text_bpe_memory *m, size_t count) {
    if (count <= m->cap)
        return true;
    free_arrays(m);
    m->id = malloc(count * sizeof *m->id);
    m->next = malloc(count * sizeof *m->next);
    m->previous = malloc(count * sizeof *m->previous);
    m->pair = malloc(count * sizeof *m->pair);
    m->heap = malloc(3 * count * sizeof *m->heap); // each merge adds at most two
    m->cap = m->id && m->next && m->previous && m->pair && m->heap ? count : 0;
    return m->cap > 0;
}

bool text_ids_room(struct text_ids *ids, size_t count) {
    if (ids->count + count <= ids->cap)
        return true;
    size_t cap = 2 * (ids->count + count) + 64;
    int32_t *bigger = realloc(ids->id, cap * sizeof *bigger);
    if (!bigger)
        return false;
    ids->id = bigger;
    ids->cap = cap;
    return true;
}

// Merging ---------------------------------------------------------------------------------------------------

// Writes the tokens of the single bytes, and returns how many there are.
static size_t start(const struct text_tokenizer *t, const unsigned char *piece, size_t bytes, uint32_t *id) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        int of_byte = t->byte_id[piece[i]];
        bool again = of_byte < 0 && i > 0 && t->fuse_unknown && t->byte_id[piece[i - 1]] < 0;
        if (of_byte >= 0 || (t->unknown >= 0 && !again))
            id[count++] = (uint32_t)(of_byte >= 0 ? of_byte : t->unknown);
    }
    return count;
}

static size_t merge_short(const struct text_tokenizer *t, const unsigned char *piece, size_t bytes,
                          uint32_t *id) {
    uint64_t pair[SHORT];
    size_t count = start(t, piece, bytes, id);
    for (size_t i = 0; i + 1 < count; i++)
        pair[i] =
            count == bytes ? t->byte_pair[piece[i] << 8 | piece[i + 1]] : find_pair(t, id[i], id[i + 1]);
    while (count > 1) {
        size_t at = 0;
        uint64_t best = pair[0];
        for (size_t i = 1; i + 1 < count; i++) // equal ranks mean equal tokens: the first stays the best
            if (pair[i] < best) {
                best = pair[i];
                at = i;
            }
        if (best == NO_PAIR)
            break;
        id[at] = (uint32_t)best;
        count--;
        for (size_t i = at + 1; i < count; i++)
            id[i] = id[i + 1];
        for (size_t i = at + 1; i + 1 < count; i++)
            pair[i] = pair[i + 1];
        if (at + 1 < count)
            pair[at] = find_pair(t, id[at], id[at + 1]);
        if (at > 0)
            pair[at - 1] = find_pair(t, id[at - 1], id[at]);
    }
    return count;
}

static void heap_push(uint64_t *heap, size_t *count, uint64_t value) {
    size_t at = (*count)++;
    for (; at > 0 && heap[(at - 1) / 2] > value; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count) {
    uint64_t top = heap[0], value = heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        child += child + 1 < *count && heap[child + 1] < heap[child];
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
    return top;
}

// Sets the pair that begins at a position, and adds it to the heap, which is ordered by rank, then position.
static void set_pair(const struct text_tokenizer *t, struct text_bpe_memory *m, size_t *heap, uint32_t at,
                     uint32_t count) {
    uint32_t next = m->next[at];
    m->pair[at] = next < count ? find_pair(t, m->id[at], m->id[next]) : NO_PAIR;
    if (m->pair[at] != NO_PAIR)
        heap_push(m->heap, heap, (m->pair[at] >> 32) << 32 | at);
}

static size_t merge_long(const struct text_tokenizer *t, struct text_bpe_memory *m, uint32_t count) {
    size_t heap = 0;
    for (uint32_t i = 0; i < count; i++) {
        m->next[i] = i + 1;
        m->previous[i] = i - 1; // of the first: not a valid position
    }
    for (uint32_t i = 0; i < count; i++)
        set_pair(t, m, &heap, i, count);
    while (heap > 0) {
        uint64_t top = heap_pop(m->heap, &heap);
        uint32_t at = (uint32_t)top, gone = m->next[at];
        if (m->pair[at] == NO_PAIR || m->pair[at] >> 32 != top >> 32)
            continue; // this pair no longer exists
        m->id[at] = (uint32_t)m->pair[at];
        m->pair[gone] = NO_PAIR;
        m->next[at] = m->next[gone];
        if (m->next[at] < count)
            m->previous[m->next[at]] = at;
        set_pair(t, m, &heap, at, count);
        if (m->previous[at] < count)
            set_pair(t, m, &heap, m->previous[at], count);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < count; i = m->next[i])
        m->id[kept++] = m->id[i];
    return kept;
}

// Pieces ----------------------------------------------------------------------------------------------------

static bool append(struct text_ids *out, const uint32_t *id, size_t count) {
    if (!text_ids_room(out, count))
        return false;
    memcpy(out->id + out->count, id, count * sizeof *id);
    out->count += count;
    return true;
}

bool text_bpe(const struct text_tokenizer *t, struct text_bpe_memory *m, const unsigned char *piece,
              size_t bytes, struct text_ids *out) {
    if (bytes >= UINT32_MAX / 4)
        return false;
    bool small = bytes <= CACHE_KEY;
    struct cached *c = small ? &m->cache[text_hash(piece, bytes) & (CACHE_SLOTS - 1)] : NULL;
    if (small && c->key_bytes == bytes && !memcmp(c->key, piece, bytes)) {
        if (!text_ids_room(out, CACHE_IDS))
            return false;
        memcpy(out->id + out->count, c->id, sizeof c->id);
        out->count += c->count;
        return true;
    }
    int64_t whole = t->whole_pieces ? text_map_get(&t->by_bytes, piece, bytes) : TEXT_NONE;
    uint32_t few[SHORT], *id = few;
    size_t count = 1;
    if (whole >= 0)
        few[0] = (uint32_t)whole;
    else if (bytes <= SHORT)
        count = merge_short(t, piece, bytes, few);
    else {
        if (!have_arrays(m, bytes))
            return false;
        count = merge_long(t, m, (uint32_t)start(t, piece, bytes, m->id));
        id = m->id;
    }
    if (small && bytes > 0 && count <= CACHE_IDS) {
        c->key_bytes = (uint8_t)bytes;
        c->count = (uint8_t)count;
        memcpy(c->key, piece, bytes);
        memcpy(c->id, id, count * sizeof *id);
    }
    return append(out, id, count);
}
