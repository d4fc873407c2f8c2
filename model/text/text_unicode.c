// text_unicode.c - UTF-8 characters, and normal forms by utf8proc, which is loaded when a text first needs
// it.

#include "text_inside.h"

#include <dlfcn.h>
#include <pthread.h>

int text_utf8_get(const unsigned char *at, const unsigned char *end, uint32_t *code) {
    unsigned char c = *at;
    ptrdiff_t left = end - at;
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    if (c >= 0xc2 && c < 0xe0 && left >= 2 && at[1] >> 6 == 2) {
        *code = (uint32_t)(c & 31) << 6 | (at[1] & 63);
        return 2;
    }
    if (c >> 4 == 14 && left >= 3 && at[1] >> 6 == 2 && at[2] >> 6 == 2) {
        *code = (uint32_t)(c & 15) << 12 | (uint32_t)(at[1] & 63) << 6 | (at[2] & 63);
        if (*code >= 0x800 && (*code < 0xd800 || *code >= 0xe000))
            return 3;
    }
    if (c >= 0xf0 && c < 0xf5 && left >= 4 && at[1] >> 6 == 2 && at[2] >> 6 == 2 && at[3] >> 6 == 2) {
        *code = (uint32_t)(c & 7) << 18 | (uint32_t)(at[1] & 63) << 12 | (uint32_t)(at[2] & 63) << 6 |
                (at[3] & 63);
        if (*code >= 0x10000 && *code < 0x110000)
            return 4;
    }
    *code = TEXT_NO_CHARACTER;
    return 1;
}

int text_utf8_length(const unsigned char *at, const unsigned char *end) {
    uint32_t code;
    int bytes = text_utf8_get(at, end, &code);
    return code == TEXT_NO_CHARACTER ? 0 : bytes;
}

size_t text_utf8_stretch(const char *data, size_t bytes) {
    const unsigned char *start = (const unsigned char *)data, *end = start + bytes, *at = start;
    for (int length = 1; at < end && length; at += length)
        length = text_utf8_length(at, end);
    return (size_t)(at - start);
}

// Normal forms ----------------------------------------------------------------------------------------------

// Options of utf8proc, from its documentation, by which the result is to be freed with free.
enum { OPTION_STABLE = 2, OPTION_COMPAT = 4, OPTION_COMPOSE = 8, OPTION_DECOMPOSE = 16 };
typedef ptrdiff_t (*map_function)(const uint8_t *text, ptrdiff_t bytes, uint8_t **out, int options);

static map_function map;
static int32_t (*lower_case)(int32_t), (*upper_case)(int32_t);

static void open_once(void) {
    static const char *const names[] = {"libutf8proc.so.3", "libutf8proc.so.2", "libutf8proc.so"};
    for (size_t i = 0; !map && i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            *(void **)&map = dlsym(library, "utf8proc_map");
            *(void **)&lower_case = dlsym(library, "utf8proc_tolower");
            *(void **)&upper_case = dlsym(library, "utf8proc_toupper");
        }
    }
}

static bool open_library(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return map != NULL;
}

uint32_t text_in_case(uint32_t code, bool upper) {
    if (code < 0x80)
        return text_is_letter((int)code) ? (upper ? code & ~32u : code | 32u) : code;
    bool known = code < 0x110000 && text_class_of(code) & (TEXT_LETTER | TEXT_NUMBER | TEXT_WORD) &&
                 open_library() && lower_case && upper_case;
    return known ? (uint32_t)(upper ? upper_case : lower_case)((int32_t)code) : code;
}

static bool normalize_stretch(enum text_form form, const char *data, size_t bytes, struct text_buffer *out,
                              char *error, size_t error_bytes) {
    static const int options[] = {
        [TEXT_NFC] = OPTION_STABLE | OPTION_COMPOSE,
        [TEXT_NFD] = OPTION_STABLE | OPTION_DECOMPOSE,
        [TEXT_NFKC] = OPTION_STABLE | OPTION_COMPOSE | OPTION_COMPAT,
        [TEXT_NFKD] = OPTION_STABLE | OPTION_DECOMPOSE | OPTION_COMPAT,
    };
    if (!open_library())
        return text_fail(error, error_bytes,
                         "this text needs a Unicode normal form, which libutf8proc.so.2 computes: apt "
                         "install libutf8proc2");
    uint8_t *normal = NULL;
    ptrdiff_t count = map((const uint8_t *)data, (ptrdiff_t)bytes, &normal, options[form]);
    bool ok = count >= 0 && text_buffer_add(out, normal, (size_t)count);
    free(normal);
    return ok ||
           text_fail(error, error_bytes, "utf8proc cannot normalise %zu bytes of text (%td)", bytes, count);
}

// Returns whether normalisation neither changes the character nor joins it with a neighbour, so that a text
// may be cut before it.
static bool is_apart(enum text_form form, uint32_t code, int class) {
    return form == TEXT_NFC ? !(class & TEXT_COMPOSES) : code < 0x80 || code == TEXT_NO_CHARACTER;
}

static bool may_be_joined(const unsigned char *at, const unsigned char *end) {
    uint32_t code;
    text_utf8_get(at, end, &code);
    return code != TEXT_NO_CHARACTER && !(text_class_of(code) & TEXT_NEWER);
}

// Returns how many bytes at the start of data are already normal; sets *touched to the number of bytes after
// them that normalisation may change.
static size_t next_stretch(enum text_form form, const char *data, size_t bytes, size_t *touched) {
    const unsigned char *start = (const unsigned char *)data, *end = start + bytes, *at = start,
                        *last = start, *begin = NULL;
    while (at < end) {
        if (*at < 0x80 && !begin) {
            last = at++;
            continue;
        }
        uint32_t code;
        int length = text_utf8_get(at, end, &code);
        bool apart = is_apart(form, code, text_class_of(code));
        if (apart && begin)
            break;
        if (!apart && !begin) // a character that comes first may be joined to the one before it
            begin = at > start && may_be_joined(last, end) ? last : at;
        last = at;
        at += length;
    }
    *touched = begin ? (size_t)(at - begin) : 0;
    return begin ? (size_t)(begin - start) : bytes;
}

bool text_is_normal(enum text_form form, const char *data, size_t bytes) {
    size_t touched = 0;
    if (form != TEXT_AS_IS)
        next_stretch(form, data, bytes, &touched);
    return touched == 0;
}

bool text_normalize(enum text_form form, const char *data, size_t bytes, struct text_buffer *out, char *error,
                    size_t error_bytes) {
    while (bytes > 0) {
        size_t touched = 0, kept = form == TEXT_AS_IS ? bytes : next_stretch(form, data, bytes, &touched);
        if (!text_buffer_add(out, data, kept))
            return text_fail(error, error_bytes, "out of memory");
        if (touched && !normalize_stretch(form, data + kept, touched, out, error, error_bytes))
            return false;
        data += kept + touched;
        bytes -= kept + touched;
    }
    return true;
}
