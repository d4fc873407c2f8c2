// npz.c - NumPy's format of several arrays: npy files in a zip archive, stored or deflated.

#include "io/io.h"

#include <string.h>

enum { STORED = 0, DEFLATED = 8 };
enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END_64 = 0x06064b50,
    LOCATOR_64 = 0x07064b50
};
enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, LOCATOR_BYTES = 20, END_64_BYTES = 56 };
enum { VERSION = 45, UTF8 = 0x800, EXTRA_64 = 1, DATE = 0x21 }; // version with 64-bit sizes; 1 January 1980
#define WIDE         UINT32_MAX // in place of a size that is in the extra field
#define INFLATE_MOST 1040       // the most bytes that one deflated byte can become
enum { HEADER_USUAL = 256 };    // bytes of a member that nearly always contain the header of its array

enum { ENCRYPTED = 1, SIZES_FOLLOW = 8 }; // flags of a member

struct member {
    uint64_t flags, method, crc, packed, bytes, offset, name_bytes;
    const unsigned char *name;
    size_t data; // offset of its data
};

// Returns how many bytes of its name errors show.
static int shown(const struct member *m) {
    return (int)MIN_OF(m->name_bytes, 200);
}

// Reading ---------------------------------------------------------------------------------------------------

static uint64_t number_at(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | p[bytes];
    return value;
}

// Finds the end record. After it there is only a comment of at most 64 KiB.
static bool find_end(const struct blob *b, size_t *at) {
    size_t least = b->bytes > END_BYTES + 65535 ? b->bytes - END_BYTES - 65535 : 0;
    for (size_t i = b->bytes < END_BYTES ? 0 : b->bytes - END_BYTES + 1; i-- > least;)
        if (number_at(b->data + i, 4) == END) {
            *at = i;
            return true;
        }
    return blob_false(b, "it is no zip archive: it has no end record");
}

struct directory {
    uint64_t count, bytes, offset;
    uint64_t end; // where the end records begin
};

// Reads the second end record of a large archive, to which a locator before the first one points.
static bool read_big_end(const struct blob *b, size_t end, struct directory *d) {
    if (end < LOCATOR_BYTES || number_at(b->data + end - LOCATOR_BYTES, 4) != LOCATOR_64)
        return true;
    uint64_t at = number_at(b->data + end - LOCATOR_BYTES + 8, 8);
    if (b->bytes < END_64_BYTES || at > b->bytes - END_64_BYTES || number_at(b->data + at, 4) != END_64)
        return blob_false(b, "its zip64 end record is not at byte %llu", (unsigned long long)at);
    *d = (struct directory){number_at(b->data + at + 32, 8), number_at(b->data + at + 40, 8),
                            number_at(b->data + at + 48, 8), at};
    return true;
}

// Reads sizes of 64 bits from the extra field. It has only the sizes that are WIDE, in this order.
static void read_extra(struct member *m, const unsigned char *extra, uint64_t bytes) {
    while (bytes >= 4) {
        uint64_t id = number_at(extra, 2), size = number_at(extra + 2, 2);
        if (size > bytes - 4)
            return;
        uint64_t *wide[] = {&m->bytes, &m->packed, &m->offset};
        const unsigned char *p = extra + 4;
        for (size_t i = 0, left = id == EXTRA_64 ? size : 0; i < COUNT(wide) && left >= 8; i++)
            if (*wide[i] == WIDE) {
                *wide[i] = number_at(p, 8);
                p += 8;
                left -= 8;
            }
        extra += 4 + size;
        bytes -= 4 + size;
    }
}

static bool read_central(struct reader *r, struct member *m) {
    const unsigned char *p, *extra;
    if (!reader_skip(r, CENTRAL_BYTES, &p))
        return false;
    if (number_at(p, 4) != CENTRAL)
        return blob_false(r->blob, "it has no entry of its directory at byte %zu", r->at - CENTRAL_BYTES);
    uint64_t extra_bytes = number_at(p + 30, 2), comment = number_at(p + 32, 2);
    *m = (struct member){.flags = number_at(p + 8, 2),
                         .method = number_at(p + 10, 2),
                         .crc = number_at(p + 16, 4),
                         .packed = number_at(p + 20, 4),
                         .bytes = number_at(p + 24, 4),
                         .name_bytes = number_at(p + 28, 2),
                         .offset = number_at(p + 42, 4)};
    if (!reader_skip(r, m->name_bytes, &m->name) || !reader_skip(r, extra_bytes, &extra) ||
        !reader_skip(r, comment, NULL))
        return false;
    read_extra(m, extra, extra_bytes);
    return true;
}

// Checks that the local header before a member's data agrees with the directory: otherwise programs that read
// only one of them would see different archives. Sizes and checksum may follow the data instead.
static bool check_local(const struct blob *b, const struct member *m, const unsigned char *p,
                        uint64_t name_bytes, uint64_t extra_bytes) {
    struct member local = {.flags = number_at(p + 6, 2),
                           .method = number_at(p + 8, 2),
                           .crc = number_at(p + 14, 4),
                           .packed = number_at(p + 18, 4),
                           .bytes = number_at(p + 22, 4)};
    bool same = name_bytes == m->name_bytes && !memcmp(p + LOCAL_BYTES, m->name, (size_t)name_bytes) &&
                local.method == m->method && !((local.flags ^ m->flags) & (ENCRYPTED | UTF8));
    read_extra(&local, p + LOCAL_BYTES + name_bytes, extra_bytes);
    if (!(local.flags & SIZES_FOLLOW))
        same = same && local.crc == m->crc && local.packed == m->packed && local.bytes == m->bytes;
    return same ||
           blob_false(
               b,
               "'%.*s' has another name, size, method, flag or checksum in the directory than at byte %llu",
               shown(m), (const char *)m->name, (unsigned long long)m->offset);
}

// Finds the data of a member, which follow its local header, and lists the bytes that the member takes up.
static bool find_data(struct blob *b, struct member *m, struct spans *spans) {
    struct reader r = {b, 0};
    const unsigned char *p;
    if (m->offset > b->bytes)
        return blob_false(b, "a member at byte %llu of %zu", (unsigned long long)m->offset, b->bytes);
    r.at = (size_t)m->offset;
    if (!reader_skip(&r, LOCAL_BYTES, &p))
        return false;
    if (number_at(p, 4) != LOCAL)
        return blob_false(b, "it has no member at byte %llu", (unsigned long long)m->offset);
    uint64_t name = number_at(p + 26, 2), extra = number_at(p + 28, 2);
    if (!reader_skip(&r, name + extra, NULL) || !check_local(b, m, p, name, extra))
        return false;
    m->data = r.at;
    return reader_skip(&r, m->packed, NULL) &&
           spans_add(spans, (const char *)m->name, (size_t)m->name_bytes, m->offset, r.at);
}

// Returns the member as a packed blob, with its first `bytes` bytes unpacked, or fewer if it is shorter.
static struct blob *inflate_start(struct blob *b, const struct member *m, const char *name, size_t bytes) {
    char *data;
    size_t there = MIN_OF(bytes, (size_t)m->bytes);
    struct blob *part =
        blob_packed(b, name, m->data, (size_t)m->packed, (size_t)m->bytes, (uint32_t)m->crc, there, &data);
    if (part && deflate_start(part, data, there))
        return part;
    blob_release(part);
    return NULL;
}

// Returns the member with the header of its array unpacked. Damage in the rest is found when the array is
// evaluated, except sizes that are impossible.
static struct blob *inflate_member(struct blob *b, const struct member *m, const char *name) {
    if (m->bytes / INFLATE_MOST > m->packed)
        return blob_fail(b, "'%.200s': %llu bytes cannot become %llu", name, (unsigned long long)m->packed,
                         (unsigned long long)m->bytes);
    size_t room = allocator_available();
    if (m->bytes > room)
        return error_set(ZL_ERROR_MEMORY,
                         "%s: %s: '%.200s' has %llu bytes when it is inflated, and the memory limit leaves "
                         "%zu; see zl_set_memory_limit",
                         b->function, b->label, name, (unsigned long long)m->bytes, room);
    struct blob *part = inflate_start(b, m, name, HEADER_USUAL);
    size_t header = part ? npy_header_bytes(part->data, part->there) : 0;
    if (part && header > part->there && part->there < part->bytes) {
        blob_release(part);
        part = inflate_start(b, m, name, header);
    }
    return part;
}

static struct blob *open_member(struct blob *b, const struct member *m, const char *name) {
    if (m->flags & ENCRYPTED)
        return blob_fail(b, "'%.*s' is encrypted", shown(m), (const char *)m->name);
    if (m->method != STORED && m->method != DEFLATED)
        return blob_fail(b, "'%.*s' is compressed by method %d: stored and deflated are known", shown(m),
                         (const char *)m->name, (int)m->method);
    if (m->method == STORED && m->packed != m->bytes)
        return blob_fail(b, "'%.*s' is stored, but its %llu bytes are said to be %llu", shown(m),
                         (const char *)m->name, (unsigned long long)m->packed, (unsigned long long)m->bytes);
    return m->method == STORED ? blob_part(b, name, m->data, (size_t)m->packed) : inflate_member(b, m, name);
}

static bool check_stored(const struct blob *part, const struct member *m) {
    return part->packed || deflate_crc(0, part->data, part->bytes) == m->crc ||
           blob_false(part, "it is damaged: its checksum is another");
}

static bool add_member(struct blob *b, const struct member *m, zl_file *out) {
    uint64_t bytes = m->name_bytes;
    if (bytes >= 4 && !memcmp(m->name + bytes - 4, ".npy", 4))
        bytes -= 4;
    const char *name = io_file_list_name(out, b, m->name, (size_t)bytes);
    struct blob *part = name ? open_member(b, m, name) : NULL;
    zl_array a = part && check_stored(part, m) ? npy_array(part, false) : NULL;
    // An array without elements is never evaluated, so its checksum is compared here.
    bool ok = a && (!part->packed || a->size || deflate_unpack(part, 0, NULL, 0)) &&
              io_file_list_add(out, b, name, a);
    blob_release(part);
    return ok;
}

// The members of an archive. None is unpacked before all were found to be valid.
struct members {
    struct member *member;
    int count, cap;
    struct spans spans;
};

static bool read_directory(struct blob *b, const struct directory *d, struct members *all) {
    struct reader r = {b, (size_t)d->offset};
    for (uint64_t i = 0; i < d->count; i++) {
        if (!memory_grow(&all->member, &all->cap, all->count + 1, sizeof *all->member))
            return false;
        struct member *m = &all->member[all->count++];
        if (!read_central(&r, m) || !find_data(b, m, &all->spans))
            return false;
    }
    if (r.at != d->end)
        return blob_false(b, "its directory ends at byte %zu, not at byte %llu", r.at,
                          (unsigned long long)d->end);
    static const char directory[] = "the directory";
    return spans_add(&all->spans, directory, sizeof directory - 1, d->offset, r.at) &&
           spans_are_apart(b, &all->spans);
}

bool npz_load(struct blob *b, zl_file *out) {
    size_t end;
    struct members all = {0};
    if (!find_end(b, &end))
        return false;
    const unsigned char *p = b->data + end;
    struct directory d = {number_at(p + 10, 2), number_at(p + 12, 4), number_at(p + 16, 4), end};
    if (!read_big_end(b, end, &d))
        return false;
    if (d.offset > d.end || d.bytes != d.end - d.offset)
        return blob_false(b, "its directory has %llu bytes from byte %llu on, but its end is at byte %llu",
                          (unsigned long long)d.bytes, (unsigned long long)d.offset,
                          (unsigned long long)d.end);
    bool ok = read_directory(b, &d, &all);
    for (int i = 0; ok && i < all.count; i++)
        ok = add_member(b, &all.member[i], out);
    memory_free(all.member);
    memory_free(all.spans.span);
    return ok;
}

// Writing ---------------------------------------------------------------------------------------------------

struct entry {
    uint64_t method, crc, packed, bytes, offset;
    const char *name; // without .npy
};

static bool put_all(struct sink *s, int count, const uint64_t (*field)[2]) {
    for (int i = 0; i < count; i++)
        if (!sink_number(s, (int)field[i][0], field[i][1]))
            return false;
    return true;
}

static uint64_t narrow(uint64_t size) {
    return MIN_OF(size, (uint64_t)WIDE);
}

static bool put_name(struct sink *s, const struct entry *e) {
    return sink_put(s, e->name, strlen(e->name)) && sink_put(s, ".npy", 4);
}

static bool put_local(struct sink *s, const struct entry *e) {
    bool big = e->bytes >= WIDE || e->packed >= WIDE;
    const uint64_t field[][2] = {{4, LOCAL},
                                 {2, VERSION},
                                 {2, UTF8},
                                 {2, e->method},
                                 {2, 0},
                                 {2, DATE},
                                 {4, e->crc},
                                 {4, big ? WIDE : e->packed},
                                 {4, big ? WIDE : e->bytes},
                                 {2, strlen(e->name) + 4},
                                 {2, big ? 20 : 0}};
    const uint64_t extra[][2] = {{2, EXTRA_64}, {2, 16}, {8, e->bytes}, {8, e->packed}};
    return put_all(s, COUNT(field), field) && put_name(s, e) && (!big || put_all(s, COUNT(extra), extra));
}

static bool put_central(struct sink *s, const struct entry *e) {
    const uint64_t sizes[] = {e->bytes, e->packed, e->offset};
    uint64_t wide = 0;
    for (size_t i = 0; i < COUNT(sizes); i++)
        wide += sizes[i] >= WIDE;
    const uint64_t field[][2] = {{4, CENTRAL},
                                 {2, VERSION},
                                 {2, VERSION},
                                 {2, UTF8},
                                 {2, e->method},
                                 {2, 0},
                                 {2, DATE},
                                 {4, e->crc},
                                 {4, narrow(e->packed)},
                                 {4, narrow(e->bytes)},
                                 {2, strlen(e->name) + 4},
                                 {2, wide ? 4 + 8 * wide : 0},
                                 {2, 0},
                                 {2, 0},
                                 {2, 0},
                                 {4, 0},
                                 {4, narrow(e->offset)}};
    bool ok = put_all(s, COUNT(field), field) && put_name(s, e);
    ok = ok && (!wide || (sink_number(s, 2, EXTRA_64) && sink_number(s, 2, 8 * wide)));
    for (size_t i = 0; ok && i < COUNT(sizes); i++)
        ok = sizes[i] < WIDE || sink_number(s, 8, sizes[i]);
    return ok;
}

static bool put_end(struct sink *s, uint64_t count, uint64_t start) {
    uint64_t end = s->bytes, bytes = end - start;
    const uint64_t big[][2] = {{4, END_64},     {8, 44},    {2, VERSION}, {2, VERSION}, {4, 0},
                               {4, 0},          {8, count}, {8, count},   {8, bytes},   {8, start},
                               {4, LOCATOR_64}, {4, 0},     {8, end},     {4, 1}};
    const uint64_t field[][2] = {{4, END},
                                 {2, 0},
                                 {2, 0},
                                 {2, MIN_OF(count, UINT16_MAX)},
                                 {2, MIN_OF(count, UINT16_MAX)},
                                 {4, narrow(bytes)},
                                 {4, narrow(start)},
                                 {2, 0}};
    bool is_big = count >= UINT16_MAX || bytes >= WIDE || start >= WIDE;
    return (!is_big || put_all(s, COUNT(big), big)) && put_all(s, COUNT(field), field);
}

// Writes a member: the header and the elements, or both deflated.
static bool put_parts(struct sink *s, struct entry *e, const void *const *part, const size_t *bytes) {
    e->offset = s->bytes;
    e->bytes = e->packed = bytes[0] + bytes[1];
    e->crc = deflate_crc(deflate_crc(0, part[0], bytes[0]), part[1], bytes[1]);
    if (e->method == STORED)
        return put_local(s, e) && sink_put(s, part[0], bytes[0]) && sink_put(s, part[1], bytes[1]);
    char *packed;
    size_t packed_bytes;
    if (!deflate_pack(s->function, part, bytes, 2, &packed, &packed_bytes))
        return false;
    e->packed = packed_bytes;
    bool ok = put_local(s, e) && sink_put(s, packed, packed_bytes);
    memory_free(packed);
    return ok;
}

static bool put_member(struct sink *s, struct entry *e, const struct dense *d) {
    struct text header = {0};
    if (strlen(e->name) > UINT16_MAX - 4)
        return error_false(ZL_ERROR_VALUE, "%s: a name of %zu bytes: at most %d are possible", s->function,
                           strlen(e->name), UINT16_MAX - 4);
    bool ok = npy_header(&header, d->array) && put_parts(s, e, (const void *[]){header.data, d->data},
                                                         (size_t[]){(size_t)header.len, d->bytes});
    text_free(&header);
    return ok;
}

static bool put_archive(struct sink *s, const zl_file *file, uint64_t method, const struct dense *list,
                        struct entry *entry) {
    for (int i = 0; i < file->count; i++) {
        entry[i] = (struct entry){.method = method, .name = file->name[i]};
        if (!put_member(s, &entry[i], &list[i]))
            return false;
    }
    uint64_t start = s->bytes;
    for (int i = 0; i < file->count; i++)
        if (!put_central(s, &entry[i]))
            return false;
    return put_end(s, (uint64_t)file->count, start);
}

static bool save(struct sink *s, const zl_file *file, uint64_t method) {
    struct entry *entry = memory_alloc(sizeof *entry * (size_t)(file->count + 1));
    struct dense *list = entry ? sink_dense_all(file) : NULL;
    bool ok = list && put_archive(s, file, method, list, entry);
    memory_free(list);
    memory_free(entry);
    return ok;
}

bool npz_save(struct sink *s, const zl_file *file) {
    return save(s, file, STORED);
}

bool npz_save_compressed(struct sink *s, const zl_file *file) {
    return save(s, file, DEFLATED);
}
