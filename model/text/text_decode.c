// text_decode.c - decodes ids to text in whole characters: the start of a character is held back until it is
// complete, or invalid. Bytes that are not UTF-8 become U+FFFD, one for each longest valid start of a
// character, as the Unicode standard recommends.

#include "text_inside.h"

static const char replacement[] = "\xef\xbf\xbd";

// Returns the number of bytes, at least 1, of the longest valid start of a UTF-8 character at `at`. Sets
// *whole if it is a complete character, and *open if more bytes could complete it.
static int longest_start(const unsigned char *at, const unsigned char *end, bool *whole, bool *open) {
    int need = *at < 0x80                  ? 1
               : *at >= 0xc2 && *at < 0xe0 ? 2
               : *at >> 4 == 14            ? 3
               : *at >= 0xf0 && *at < 0xf5 ? 4
                                           : 0;
    int have = 1;
    unsigned char low = *at == 0xe0   ? 0xa0
                        : *at == 0xf0 ? 0x90
                                      : 0x80,
                  high = *at == 0xed   ? 0x9f
                         : *at == 0xf4 ? 0x8f
                                       : 0xbf;
    while (have < need && at + have < end && at[have] >= low && at[have] <= high) {
        have++;
        low = 0x80;
        high = 0xbf;
    }
    *whole = have == need;
    *open = have < need && at + have == end;
    return have;
}

struct output {
    char **data;
    size_t *bytes, *cap;
};

static bool put(const struct output *out, const void *data, size_t bytes) {
    struct text_buffer b = {*out->data, *out->bytes, *out->cap};
    bool ok = text_buffer_add(&b, data, bytes);
    *out->data = b.data;
    *out->bytes = b.bytes;
    *out->cap = b.cap;
    return ok;
}

// Decodes bytes up to an incomplete character at the end, and sets *rest to where that begins.
static bool put_text(const struct output *out, const unsigned char *at, const unsigned char *end,
                     const unsigned char **rest) {
    bool whole = true, open = false;
    while (at < end && !open) {
        const unsigned char *start = at;
        while (at < end) {
            int bytes = longest_start(at, end, &whole, &open);
            if (!whole)
                break;
            at += bytes;
        }
        if (!put(out, start, (size_t)(at - start)))
            return false;
        if (at < end && !open) {
            at += longest_start(at, end, &whole, &open);
            if (!put(out, replacement, 3))
                return false;
        }
    }
    *rest = at;
    return true;
}

bool text_decode(struct text_decoder *d, int id, char **out, size_t *out_bytes, size_t *out_cap, char *error,
                 size_t error_bytes) {
    size_t bytes;
    const char *data = text_token_text(d->tokenizer, id, &bytes);
    if (!data)
        return text_fail(error, error_bytes, "%.300s has no token %d: ids are below %d", d->tokenizer->name,
                         id, d->tokenizer->count);
    if (d->skip_special && d->tokenizer->token[id].special)
        return true;
    struct output to = {out, out_bytes, out_cap};
    const unsigned char *at = (const unsigned char *)data, *end = at + bytes, *rest = at;
    bool ok = true;
    while (ok && d->held_bytes > 0 && at < end) { // complete the held character, byte by byte
        bool whole, open;
        unsigned char joined[5];
        memcpy(joined, d->held, (size_t)d->held_bytes);
        joined[d->held_bytes] = *at;
        int used = longest_start(joined, joined + d->held_bytes + 1, &whole, &open);
        if (used == d->held_bytes + 1) {
            at++;
            d->held[d->held_bytes++] = joined[used - 1];
            if (open)
                continue;
            ok = put(&to, joined, (size_t)used);
        } else
            ok = put(&to, replacement, 3);
        d->held_bytes = 0;
    }
    ok = ok && put_text(&to, at, end, &rest);
    if (ok && d->held_bytes == 0) {
        d->held_bytes = (int)(end - rest);
        memcpy(d->held, rest, (size_t)(end - rest));
    }
    return ok || text_fail(error, error_bytes, "out of memory");
}

bool text_decode_end(struct text_decoder *d, char **out, size_t *out_bytes, size_t *out_cap, char *error,
                     size_t error_bytes) {
    struct output to = {out, out_bytes, out_cap};
    bool held = d->held_bytes > 0;
    d->held_bytes = 0;
    return put(&to, replacement, held ? 3 : 0) || text_fail(error, error_bytes, "out of memory");
}
