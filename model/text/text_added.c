// text_added.c - finds added tokens such as <|im_start|> in the text before it is split.
//
// Takes the leftmost token, and of those that begin at the same place the longest. The tokens are sorted, so
// those that match so far are consecutive, and each further byte narrows their range.

#include "text_inside.h"

static int order(const void *a, const void *b) {
    const struct text_added *x = *(const struct text_added *const *)a,
                            *y = *(const struct text_added *const *)b;
    size_t common = x->bytes < y->bytes ? x->bytes : y->bytes;
    int by_bytes = memcmp(x->text, y->text, common);
    return by_bytes               ? by_bytes
           : x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes)
                                  : x->id - y->id;
}

static bool fill(struct text_tokenizer *t, struct text_added_list *list, bool normalized, char *error,
                 size_t error_bytes) {
    list->item = text_arena_get(&t->arena, sizeof(void *) * (size_t)(t->added_count + 1));
    if (!list->item)
        return text_fail(error, error_bytes, "%.300s: out of memory", t->name);
    for (int i = 0; i < t->added_count; i++) {
        struct text_added *a = &t->added[i];
        if (a->normalized != normalized || a->bytes == 0)
            continue;
        if (normalized && !text_is_normal(t->form, a->text, a->bytes)) {
            struct text_buffer normal = {0};
            bool ok = text_normalize(t->form, a->text, a->bytes, &normal, error, error_bytes);
            const char *copy = ok ? text_arena_copy(&t->arena, normal.data, normal.bytes) : NULL;
            a->text = copy ? copy : a->text;
            a->bytes = copy ? (uint32_t)normal.bytes : a->bytes;
            free(normal.data);
            if (!copy)
                return ok ? text_fail(error, error_bytes, "%.300s: out of memory", t->name) : false;
        }
        list->item[list->count++] = a;
        list->first[(unsigned char)a->text[0]] = true;
    }
    qsort(list->item, (size_t)list->count, sizeof *list->item, order);
    return true;
}

bool text_added_index(struct text_tokenizer *t, char *error, size_t error_bytes) {
    return fill(t, &t->raw, false, error, error_bytes) && fill(t, &t->normal, true, error, error_bytes);
}

// Returns the first token of a range whose byte at index `depth` is at least c.
static int lower_bound(const struct text_added_list *list, int from, int to, uint32_t depth, int c) {
    while (from < to) {
        int middle = from + (to - from) / 2;
        if ((unsigned char)list->item[middle]->text[depth] < c)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

// Returns the longest token at `at`, or NULL if there is none.
static const struct text_added *longest(const struct text_added_list *list, const char *at, size_t left) {
    const struct text_added *found = NULL;
    int from = 0, to = list->count;
    for (uint32_t depth = 0; from < to; depth++) {
        if (list->item[from]->bytes == depth) { // shorter ones come first
            found = list->item[from];
            while (from < to && list->item[from]->bytes == depth)
                from++;
        }
        if (depth == left)
            break;
        int c = (unsigned char)at[depth];
        from = lower_bound(list, from, to, depth, c);
        to = lower_bound(list, from, to, depth, c + 1);
    }
    return found;
}

// Returns the classes of the character that ends before `at`; 0 at the start.
static int class_before(const char *data, const char *at) {
    const char *start = at;
    while (start > data && at - start < 4 && ((unsigned char)*--start & 0xc0) == 0x80)
        ;
    int class = 0;
    if (start < at &&
        text_next((const unsigned char *)start, (const unsigned char *)at, &class) != at - start)
        class = 0;
    return class;
}

static int class_at(const char *at, const char *end) {
    int class = 0;
    if (at < end)
        text_next((const unsigned char *)at, (const unsigned char *)end, &class);
    return class;
}

static const char *spaces_before(const char *from, const char *at) {
    while (at > from && class_before(from, at) & TEXT_SPACE)
        for (at--; at > from && ((unsigned char)*at & 0xc0) == 0x80;)
            at--;
    return at;
}

static const char *spaces_after(const char *at, const char *end) {
    int class;
    while (at < end) {
        int bytes = text_next((const unsigned char *)at, (const unsigned char *)end, &class);
        if (!(class & TEXT_SPACE))
            break;
        at += bytes;
    }
    return at;
}

bool text_added_split(const struct text_added_list *list, const char *data, size_t bytes,
                      const struct text_added_visitor *v) {
    const char *plain = data, *end = data + bytes, *at = data;
    while (list->count && at < end) {
        const struct text_added *a =
            list->first[(unsigned char)*at] ? longest(list, at, (size_t)(end - at)) : NULL;
        if (!a) {
            at++;
            continue;
        }
        const char *start = at, *stop = at = at + a->bytes;
        bool inside_word =
            a->single_word && (class_before(data, start) & TEXT_WORD || class_at(stop, end) & TEXT_WORD);
        bool swallowed = stop <= plain; // as spaces after a token with rstrip
        if ((a->special && v->keep_special) || inside_word || swallowed)
            continue;
        start = a->lstrip ? spaces_before(plain, start) : start;
        stop = a->rstrip ? spaces_after(stop, end) : stop;
        if (start > plain && !v->plain(v->context, plain, (size_t)(start - plain)))
            return false;
        if (!v->token(v->context, a->id))
            return false;
        plain = stop;
    }
    return plain >= end || v->plain(v->context, plain, (size_t)(end - plain));
}
