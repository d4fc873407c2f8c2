// text_json.c - parses JSON into a tree. Its nodes are in blocks, its texts are in the document itself,
// unescaped in place.
//
// Strict: RFC 8259 in UTF-8, nothing after the value, at most MOST_DEPTH levels. A tokenizer of 7 MB has
// 450,000 nodes.

#include "text_inside.h"

#include <errno.h>
#include <limits.h>
#include <math.h>

enum { MOST_DEPTH = 512, BLOCK_BYTES = 1 << 16 };
enum kind { KIND_NULL, KIND_FALSE, KIND_TRUE, KIND_INTEGER, KIND_REAL, KIND_TEXT, KIND_LIST, KIND_OBJECT };

struct text_json_ {
    const char *key; // of a member of an object; NULL: not a member
    union {
        const char *text;
        const struct text_json_ *item;
        int64_t integer;
        double real;
    } as;
    uint32_t key_bytes, count; // bytes of a text, items of a list, members of an object
    uint32_t line;
    uint8_t kind;
};

struct block {
    struct block *next;
    struct text_json_ node[];
};

struct document {
    struct text_json_ root; // first, because a pointer to it is what the caller holds
    struct block *blocks;
    char *text;
};

struct parser {
    struct document *document;
    char *at, *end, *line_start;
    uint32_t line;
    int depth;
    struct text_json_ *open; // values of lists that are not complete yet
    size_t open_count, open_cap;
    size_t block_left;
    const char *name;
    char *error;
    size_t error_bytes;
};

static bool fail(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct parser *p, const char *format, ...) {
    char what[160];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    snprintf(p->error, p->error_bytes, "%.300s:%u:%d: %s", p->name, p->line, (int)(p->at - p->line_start) + 1,
             what);
    return false;
}

static void skip_blanks(struct parser *p) {
    for (; p->at < p->end; p->at++)
        if (*p->at == '\n') {
            p->line++;
            p->line_start = p->at + 1;
        } else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r')
            return;
}

// Texts -----------------------------------------------------------------------------------------------------

static int hex4(const struct parser *p, const char *at) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = at + i < p->end ? (unsigned char)at[i] : 0;
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

int text_utf8_put(char *out, uint32_t code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = bytes - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 63));
    out[0] = (char)(lead[bytes] | code);
    return bytes;
}

// Decodes the escape sequence at p->at, after its backslash, and advances *to.
static bool unescape(struct parser *p, char **to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *which = p->at < p->end && *p->at ? strchr(from, *p->at) : NULL;
    if (which) {
        *(*to)++ = into[which - from];
        p->at++;
        return true;
    }
    if (p->at >= p->end || *p->at != 'u')
        return fail(p, "unknown escape in a text");
    int code = hex4(p, p->at + 1), low = -1;
    if (code < 0)
        return fail(p, "\\u needs four hexadecimal digits");
    p->at += 5;
    if (code >= 0xd800 && code < 0xdc00 && p->end - p->at >= 6 && p->at[0] == '\\' && p->at[1] == 'u')
        low = hex4(p, p->at + 2);
    if (low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        p->at += 6;
    } else if (code >= 0xd800 && code < 0xe000)
        return fail(p, "\\u%04x is half of a surrogate pair", (unsigned)code);
    *to += text_utf8_put(*to, (uint32_t)code);
    return true;
}

// Reads the text whose opening quote is at p->at. It is unescaped in place and ends with a NUL, at the
// closing quote or before.
static bool read_text(struct parser *p, const char **text, uint32_t *bytes) {
    char *start = ++p->at, *to = start;
    for (;;) {
        unsigned char c = p->at < p->end ? (unsigned char)*p->at : 0;
        if (p->at >= p->end)
            return fail(p, "a text has no end");
        if (c == '"')
            break;
        if (c < ' ')
            return fail(p, "control character %02x in a text", c);
        if (c == '\\') {
            p->at++;
            if (!unescape(p, &to))
                return false;
            continue;
        }
        int length =
            c < 0x80 ? 1 : text_utf8_length((const unsigned char *)p->at, (const unsigned char *)p->end);
        if (!length)
            return fail(p, "byte %02x is not UTF-8", c);
        if (to != p->at)
            memmove(to, p->at, (size_t)length);
        to += length;
        p->at += length;
    }
    p->at++;
    if (to - start > INT_MAX)
        return fail(p, "a text of more than 2 GiB");
    *to = 0;
    *text = start;
    *bytes = (uint32_t)(to - start);
    return true;
}

// Numbers and words -----------------------------------------------------------------------------------------

static bool digits(struct parser *p) {
    char *start = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    return p->at > start;
}

static bool read_number(struct parser *p, struct text_json_ *out) {
    char *start = p->at;
    p->at += *p->at == '-';
    char *first = p->at;
    bool whole = true;
    if (!digits(p) || (*first == '0' && p->at - first > 1))
        return fail(p, "a number must not be empty or begin with 0");
    if (p->at < p->end && *p->at == '.') {
        whole = false;
        p->at++;
        if (!digits(p))
            return fail(p, "digits must follow the point of a number");
    }
    if (p->at < p->end && (*p->at | 32) == 'e') {
        whole = false;
        p->at++;
        p->at += p->at < p->end && (*p->at == '-' || *p->at == '+');
        if (!digits(p))
            return fail(p, "digits must follow the e of a number");
    }
    if (whole) {
        errno = 0;
        out->as.integer = strtoll(start, NULL, 10);
        out->kind = KIND_INTEGER;
        if (!errno)
            return true;
    }
    out->kind = KIND_REAL;
    out->as.real = strtod(start, NULL);
    return isfinite(out->as.real) || fail(p, "a number is too large");
}

static bool read_word(struct parser *p, struct text_json_ *out) {
    static const struct {
        const char *word;
        enum kind kind;
    } words[] = {{"null", KIND_NULL}, {"false", KIND_FALSE}, {"true", KIND_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i].word);
        if ((size_t)(p->end - p->at) >= len && !memcmp(p->at, words[i].word, len)) {
            p->at += len;
            out->kind = words[i].kind;
            return true;
        }
    }
    return fail(p, p->at < p->end ? "a value must stand here" : "the document ends early");
}

// Lists and objects -----------------------------------------------------------------------------------------

static bool push(struct parser *p, const struct text_json_ *value) {
    if (p->open_count == p->open_cap) {
        size_t cap = p->open_cap ? 2 * p->open_cap : 256;
        struct text_json_ *bigger = realloc(p->open, cap * sizeof *bigger);
        if (!bigger)
            return fail(p, "out of memory");
        p->open = bigger;
        p->open_cap = cap;
    }
    p->open[p->open_count++] = *value;
    return true;
}

// Copies the open values from `first` on to a block, where they stay, and returns them.
static const struct text_json_ *close_items(struct parser *p, size_t first) {
    size_t count = p->open_count - first, bytes = count * sizeof *p->open;
    struct block *block = p->document->blocks;
    if (count > p->block_left || !block) {
        size_t room = bytes > BLOCK_BYTES ? count : BLOCK_BYTES / sizeof *p->open;
        block = malloc(sizeof *block + room * sizeof *p->open);
        if (!block)
            return NULL;
        block->next = p->document->blocks;
        p->document->blocks = block;
        p->block_left = room;
    }
    // Blocks are filled from their end, so that block_left is both the free room and the index of its end.
    struct text_json_ *to = block->node + (p->block_left -= count);
    if (count)
        memcpy(to, p->open + first, bytes);
    p->open_count = first;
    return to;
}

static bool read_value(struct parser *p, struct text_json_ *out);

static bool read_key(struct parser *p, struct text_json_ *item) {
    skip_blanks(p);
    if (p->at >= p->end || *p->at != '"')
        return fail(p, "a member's name must stand here");
    if (!read_text(p, &item->key, &item->key_bytes))
        return false;
    skip_blanks(p);
    if (p->at >= p->end || *p->at != ':')
        return fail(p, "a colon must stand behind a member's name");
    p->at++;
    return true;
}

static bool read_items(struct parser *p, struct text_json_ *out, char closing) {
    size_t first = p->open_count;
    if (++p->depth > MOST_DEPTH)
        return fail(p, "more than %d levels", MOST_DEPTH);
    p->at++;
    skip_blanks(p);
    bool empty = p->at < p->end && *p->at == closing;
    while (!empty) {
        struct text_json_ item = {0};
        if ((closing == '}' && !read_key(p, &item)) || !read_value(p, &item) || !push(p, &item))
            return false;
        skip_blanks(p);
        if (p->at < p->end && *p->at == closing)
            break;
        if (p->at >= p->end || *p->at != ',')
            return fail(p, "a comma or %c must stand here", closing);
        p->at++;
    }
    p->at++;
    p->depth--;
    if (p->open_count - first > INT_MAX)
        return fail(p, "too many values");
    out->kind = closing == '}' ? KIND_OBJECT : KIND_LIST;
    out->count = (uint32_t)(p->open_count - first);
    out->as.item = close_items(p, first);
    return out->as.item || fail(p, "out of memory");
}

static bool read_value(struct parser *p, struct text_json_ *out) {
    skip_blanks(p);
    out->line = p->line;
    char c = p->at < p->end ? *p->at : 0;
    if (c == '"') {
        out->kind = KIND_TEXT;
        return read_text(p, &out->as.text, &out->count);
    }
    if (c == '{' || c == '[')
        return read_items(p, out, c == '{' ? '}' : ']');
    return c == '-' || (c >= '0' && c <= '9') ? read_number(p, out) : read_word(p, out);
}

// Documents -------------------------------------------------------------------------------------------------

text_json_value text_json_take(char *text, size_t bytes, const char *name, char *error, size_t error_bytes) {
    struct document *d = calloc(1, sizeof *d);
    if (!d) {
        free(text);
        snprintf(error, error_bytes, "%.300s: out of memory", name);
        return NULL;
    }
    d->text = text;
    struct parser p = {.document = d,
                       .at = text,
                       .end = text + bytes,
                       .line_start = text,
                       .line = 1,
                       .name = name,
                       .error = error,
                       .error_bytes = error_bytes};
    bool ok = read_value(&p, &d->root);
    skip_blanks(&p);
    if (ok && p.at < p.end)
        ok = fail(&p, "something follows the value");
    free(p.open);
    if (!ok) {
        text_json_free(&d->root);
        return NULL;
    }
    return &d->root;
}

text_json_value text_json_parse(const char *text, size_t bytes, const char *name, char *error,
                                size_t error_bytes) {
    char *copy = malloc(bytes + 1);
    if (!copy) {
        snprintf(error, error_bytes, "%.300s: out of memory", name);
        return NULL;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    return text_json_take(copy, bytes, name, error, error_bytes);
}

char *text_read_file(const char *path, size_t *bytes, char *error, size_t error_bytes) {
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    char *text = NULL;
    size_t len = 0, cap = 0, got = 0;
    bool full = false;
    while (file && !full) {
        len += got;
        if (len + 1 >= cap) {
            cap = cap ? 2 * cap : 1 << 20;
            char *bigger = realloc(text, cap);
            full = !bigger;
            text = bigger ? bigger : text;
            if (full)
                errno = ENOMEM;
        }
        if (!full && (got = fread(text + len, 1, cap - len - 1, file)) == 0)
            break;
    }
    bool failed = !file || full || ferror(file);
    int reason = errno;
    if (file && file != stdin)
        fclose(file);
    if (failed) {
        free(text);
        snprintf(error, error_bytes, "cannot read %.300s: %s", path, strerror(reason));
        return NULL;
    }
    text[len] = 0;
    *bytes = len;
    return text;
}

text_json_value text_json_load(const char *path, char *error, size_t error_bytes) {
    size_t bytes;
    char *text = text_read_file(path, &bytes, error, error_bytes);
    return text ? text_json_take(text, bytes, path, error, error_bytes) : NULL;
}

void text_json_free(text_json_value root) {
    struct document *d = (struct document *)(uintptr_t)root;
    if (!d)
        return;
    for (struct block *block = d->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(d->text);
    free(d);
}

// Values ----------------------------------------------------------------------------------------------------

text_json_value text_json_get(text_json_value object, const char *key) {
    for (int i = text_json_is_object(object) ? (int)object->count : 0; i-- > 0;)
        if (!strcmp(object->as.item[i].key, key))
            return &object->as.item[i];
    return NULL;
}

text_json_value text_json_member(text_json_value object, int index, const char **key) {
    text_json_value item = text_json_is_object(object) && index >= 0 && (uint32_t)index < object->count
                               ? &object->as.item[index]
                               : NULL;
    *key = item ? item->key : NULL;
    return item;
}

int text_json_count(text_json_value value) {
    return text_json_is_list(value) || text_json_is_object(value) ? (int)value->count : 0;
}

text_json_value text_json_at(text_json_value list, int index) {
    bool inside = text_json_is_list(list) && index >= 0 && (uint32_t)index < list->count;
    return inside ? &list->as.item[index] : NULL;
}

bool text_json_is_list(text_json_value value) {
    return value && value->kind == KIND_LIST;
}

bool text_json_is_object(text_json_value value) {
    return value && value->kind == KIND_OBJECT;
}

bool text_json_is_bool(text_json_value value) {
    return value && (value->kind == KIND_TRUE || value->kind == KIND_FALSE);
}

bool text_json_is_null(text_json_value value) {
    return value && value->kind == KIND_NULL;
}

bool text_json_true(text_json_value value) {
    return value && value->kind == KIND_TRUE;
}

bool text_json_is_integer(text_json_value value) {
    return value && value->kind == KIND_INTEGER;
}

double text_json_number(text_json_value value) {
    if (text_json_is_integer(value))
        return (double)value->as.integer;
    return value && value->kind == KIND_REAL ? value->as.real : (double)NAN;
}

int64_t text_json_integer(text_json_value value) {
    double number = text_json_number(value);
    if (text_json_is_integer(value))
        return value->as.integer;
    return fabs(number) < 9e15 ? (int64_t)number : 0;
}

const char *text_json_text(text_json_value value) {
    return value && value->kind == KIND_TEXT ? value->as.text : NULL;
}

size_t text_json_bytes(text_json_value value) {
    return value && value->kind == KIND_TEXT ? value->count : 0;
}

size_t text_json_key_bytes(text_json_value member) {
    return member ? member->key_bytes : 0;
}

const char *text_json_text_of(text_json_value object, const char *key) {
    const char *text = text_json_text(text_json_get(object, key));
    return text ? text : "";
}

double text_json_number_of(text_json_value object, const char *key) {
    return text_json_number(text_json_get(object, key));
}

int text_json_line(text_json_value value) {
    return value ? (int)value->line : 0;
}
