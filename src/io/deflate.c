// deflate.c - deflated data by zlib, which is opened when it is first used, and the checksum of zip.

#include "io/io.h"

#include <string.h>

// The stream struct of zlib, whose layout has not changed since 1995.
struct stream {
    const void *next_in;
    unsigned avail_in;
    unsigned long total_in;
    void *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *message;
    void *state;
    void *(*alloc)(void *opaque, unsigned items, unsigned size);
    void (*free)(void *opaque, void *address);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
};

enum {
    OK = 0,
    STREAM_END = 1,
    NO_FLUSH = 0,
    FINISH = 4,
    DEFAULT_LEVEL = -1,
    METHOD = 8,
    RAW = -15,
    MEMORY = 8
};
enum { PIECE = 1 << 30 }; // bytes that are passed to a stream at once

static struct {
    const char *(*version)(void);
    int (*inflate_init)(struct stream *s, int window, const char *version, int size);
    int (*inflate)(struct stream *s, int flush);
    int (*inflate_end)(struct stream *s);
    int (*deflate_init)(struct stream *s, int level, int method, int window, int memory, int strategy,
                        const char *version, int size);
    int (*deflate)(struct stream *s, int flush);
    int (*deflate_end)(struct stream *s);
} zlib;

static bool bind(void) {
    static const char *const names[] = {"libz.so.1", "libz.so", NULL};
    const struct library_symbol symbols[] = {
        {"zlibVersion", (void **)&zlib.version},
        {"inflateInit2_", (void **)&zlib.inflate_init},
        {"inflate", (void **)&zlib.inflate},
        {"inflateEnd", (void **)&zlib.inflate_end},
        {"deflateInit2_", (void **)&zlib.deflate_init},
        {"deflate", (void **)&zlib.deflate},
        {"deflateEnd", (void **)&zlib.deflate_end},
    };
    const char *missing;
    void *library = library_open(names);
    return library && library_bind(library, symbols, (int)COUNT(symbols), &missing);
}

static bool open_zlib(const char *function) {
    static struct lock lock;
    static int state; // 0: not tried yet, 1: found, -1: not found
    lock_take(&lock);
    if (state == 0)
        state = bind() ? 1 : -1;
    bool found = state > 0;
    lock_give(&lock);
    return found || error_false(ZL_ERROR_LIBRARY,
                                "%s: compressed data needs zlib, and libz.so.1 is not there: install "
                                "zlib1g",
                                function);
}

static unsigned give(size_t *left) {
    unsigned piece = (unsigned)MIN_OF(*left, (size_t)PIECE);
    *left -= piece;
    return piece;
}

// A stream that is inflated piece by piece.
struct inflation {
    struct stream s;
    size_t in_left;
    int state; // the last result of zlib
    uint32_t crc;
};

static bool inflate_begin(struct inflation *f, const struct blob *b) {
    *f = (struct inflation){.s.next_in = b->from, .in_left = b->from_bytes};
    if (!open_zlib(b->function))
        return false;
    return zlib.inflate_init(&f->s, RAW, zlib.version(), (int)sizeof f->s) == OK ||
           error_false(ZL_ERROR_MEMORY, "%s: zlib could not begin", b->function);
}

// Inflates the next `bytes` bytes to `out`. Returns false if the stream ends or turns out to be damaged
// before that.
static bool inflate_next(struct inflation *f, void *out, size_t bytes) {
    size_t left = bytes;
    f->s.next_out = out;
    f->s.avail_out = give(&left);
    while (f->s.avail_out && f->state == OK) {
        if (f->s.avail_in == 0)
            f->s.avail_in = give(&f->in_left);
        f->state = zlib.inflate(&f->s, NO_FLUSH); // returns an error if it makes no progress
        if (f->s.avail_out == 0)
            f->s.avail_out = give(&left);
    }
    if (f->s.avail_out)
        return false;
    f->crc = deflate_crc(f->crc, out, bytes);
    return true;
}

// Skips the next `bytes` inflated bytes.
static bool inflate_over(struct inflation *f, size_t bytes) {
    char room[16384];
    for (size_t piece; bytes; bytes -= piece) {
        piece = MIN_OF(bytes, sizeof room);
        if (!inflate_next(f, room, piece))
            return false;
    }
    return true;
}

// Returns whether the stream ends at the present position.
static bool inflate_ends(struct inflation *f) {
    char none;
    while (f->state == OK) {
        if (f->s.avail_in == 0)
            f->s.avail_in = give(&f->in_left);
        f->s.next_out = &none;
        f->state = zlib.inflate(&f->s, NO_FLUSH);
    }
    return f->state == STREAM_END;
}

static bool is_damaged(const struct blob *b) {
    return blob_false(b, "its compressed data is damaged, or does not have %zu bytes", b->bytes);
}

bool deflate_start(const struct blob *b, void *out, size_t bytes) {
    struct inflation f;
    if (!inflate_begin(&f, b))
        return false;
    bool ok = inflate_next(&f, out, bytes);
    zlib.inflate_end(&f.s);
    return ok || is_damaged(b);
}

bool deflate_unpack(const struct blob *b, size_t offset, void *out, size_t bytes) {
    struct inflation f;
    if (!inflate_begin(&f, b))
        return false;
    bool ok = inflate_over(&f, offset) && inflate_next(&f, out, bytes) &&
              inflate_over(&f, b->bytes - offset - bytes) && inflate_ends(&f);
    zlib.inflate_end(&f.s);
    if (!ok)
        return is_damaged(b);
    return f.crc == b->crc || blob_false(b, "it is damaged: its checksum is another");
}

static bool drain(struct stream *s, struct sink *out, int flush) {
    char room[16384];
    do {
        s->next_out = room;
        s->avail_out = sizeof room;
        zlib.deflate(s, flush);
        if (!sink_put(out, room, sizeof room - s->avail_out))
            return false;
    } while (s->avail_out == 0);
    return true;
}

bool deflate_pack(const char *function, const void *const *part, const size_t *bytes, int parts, char **out,
                  size_t *out_bytes) {
    struct stream s = {0};
    struct sink sink = {.function = function};
    if (!open_zlib(function))
        return false;
    if (zlib.deflate_init(&s, DEFAULT_LEVEL, METHOD, RAW, MEMORY, 0, zlib.version(), (int)sizeof s) != OK)
        return error_false(ZL_ERROR_MEMORY, "%s: zlib could not begin", function);
    bool ok = true;
    for (int i = 0; ok && i < parts; i++) {
        size_t left = bytes[i];
        for (s.next_in = part[i]; ok && left;) {
            s.avail_in = give(&left);
            ok = drain(&s, &sink, NO_FLUSH);
        }
    }
    ok = ok && drain(&s, &sink, FINISH);
    zlib.deflate_end(&s);
    *out = sink.data;
    *out_bytes = sink.bytes;
    if (!ok)
        memory_free(sink.data);
    return ok;
}

uint32_t deflate_crc(uint32_t crc, const void *data, size_t bytes) {
    static uint32_t table[256];
    static struct lock lock;
    lock_take(&lock);
    if (!table[1]) // entry 1 is written last: a fork may interrupt the loop
        for (uint32_t i = 255; i > 0; i--) {
            table[i] = i;
            for (int k = 0; k < 8; k++)
                table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
        }
    lock_give(&lock);
    crc = ~crc;
    for (const unsigned char *p = data; bytes--; p++)
        crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
    return ~crc;
}
