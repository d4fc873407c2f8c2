// text_chat_value.c - the values of templates, with the operations of Python's None, bool, int, float, str,
// list, tuple and dict.

#include "text_chat.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_BYTES = 256 << 20, MOST_DEPTH = 100 };

struct value text_value_fail(struct run *r, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!r->failed)
        text_chat_fail(r->t, r->at, r->error, r->error_bytes, format, list);
    va_end(list);
    r->failed = true;
    return (struct value){.as.name = ""};
}

void *text_run_memory(struct run *r, size_t bytes) {
    void *got =
        r->used + bytes > MOST_BYTES || r->used + bytes < bytes ? NULL : text_arena_get(&r->arena, bytes);
    if (!got)
        text_value_fail(r, "the template needs more than %d MiB", MOST_BYTES >> 20);
    r->used += bytes;
    return got;
}

const char *text_value_kind(struct value v) {
    static const char *const names[] = {"undefined", "none",  "bool",     "int",   "float",
                                        "str",       "list",  "tuple",    "dict",  "namespace",
                                        "loop",      "macro", "function", "method"};
    return names[v.kind];
}

// Making ----------------------------------------------------------------------------------------------------

struct value text_value_text(struct run *r, const char *data, size_t bytes) {
    char *copy = text_run_memory(r, bytes + 1);
    if (!copy)
        return (struct value){.as.name = ""};
    if (bytes)
        memcpy(copy, data, bytes);
    copy[bytes] = 0;
    return (struct value){VALUE_TEXT, .as.text = {copy, bytes}};
}

struct value text_value_list(struct run *r, enum value_kind kind) {
    struct value_list *list = text_run_memory(r, sizeof *list);
    if (!list)
        return (struct value){.as.name = ""};
    *list = (struct value_list){0};
    return (struct value){kind, .as.list = list};
}

// Returns room for one more item in an array of the arena.
static void *more(struct run *r, void *old, size_t count, size_t *cap, size_t bytes) {
    if (count < *cap)
        return old;
    size_t larger = *cap ? 2 * *cap : 4;
    void *bigger = text_run_memory(r, larger * bytes);
    if (bigger && count)
        memcpy(bigger, old, count * bytes);
    *cap = bigger ? larger : *cap;
    return bigger;
}

bool text_value_append(struct run *r, struct value_list *list, struct value item) {
    struct value *items = more(r, list->item, list->count, &list->cap, sizeof *items);
    if (!items)
        return false;
    list->item = items;
    list->item[list->count++] = item;
    return true;
}

struct value text_value_dict(struct run *r) {
    struct value_dict *dict = text_run_memory(r, sizeof *dict);
    if (!dict)
        return (struct value){.as.name = ""};
    *dict = (struct value_dict){0};
    return (struct value){VALUE_DICT, .as.dict = dict};
}

const struct value *text_value_get(struct run *r, const struct value_dict *dict, struct value key) {
    for (size_t i = 0; i < dict->count; i++)
        if (text_value_equal(r, dict->key[i], key))
            return &dict->value[i];
    return NULL;
}

const struct value *text_value_find(const struct value_dict *dict, const char *key) {
    size_t bytes = strlen(key);
    for (size_t i = 0; i < dict->count; i++)
        if (dict->key[i].kind == VALUE_TEXT && dict->key[i].as.text.bytes == bytes &&
            !memcmp(dict->key[i].as.text.data, key, bytes))
            return &dict->value[i];
    return NULL;
}

bool text_value_set(struct run *r, struct value_dict *dict, struct value key, struct value value) {
    if (key.kind == VALUE_LIST || key.kind == VALUE_DICT) {
        text_value_fail(r, "a %s cannot be a key of a dict", text_value_kind(key));
        return false;
    }
    const struct value *there = text_value_get(r, dict, key);
    if (there) {
        dict->value[there - dict->value] = value;
        return true;
    }
    size_t cap = dict->cap;
    struct value *keys = more(r, dict->key, dict->count, &cap, sizeof *keys);
    struct value *values = keys ? more(r, dict->value, dict->count, &dict->cap, sizeof *values) : NULL;
    if (!values)
        return false;
    dict->key = keys;
    dict->value = values;
    keys[dict->count] = key;
    values[dict->count++] = value;
    return true;
}

struct value text_value_of_json(struct run *r, text_json_value json) {
    struct value out = {VALUE_NONE};
    const char *key;
    if (text_json_text(json))
        return text_value_text(r, text_json_text(json), text_json_bytes(json));
    if (text_json_is_bool(json))
        return text_value_bool(text_json_true(json));
    if (text_json_is_integer(json))
        return text_value_integer(text_json_integer(json));
    if (text_json_is_list(json)) {
        out = text_value_list(r, VALUE_LIST);
        for (int i = 0; !r->failed && i < text_json_count(json); i++)
            text_value_append(r, out.as.list, text_value_of_json(r, text_json_at(json, i)));
    } else if (text_json_is_object(json)) {
        out = text_value_dict(r);
        for (int i = 0; !r->failed && i < text_json_count(json); i++) {
            text_json_value member = text_json_member(json, i, &key);
            struct value name = text_value_text(r, key, text_json_key_bytes(member));
            if (!r->failed)
                text_value_set(r, out.as.dict, name, text_value_of_json(r, member));
        }
    } else if (json && !text_json_is_null(json))
        out = (struct value){VALUE_REAL, .as.real = text_json_number(json)};
    return out;
}

// Truth, equality, order ------------------------------------------------------------------------------------

bool text_value_truth(struct value v) {
    switch (v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL:
    case VALUE_INTEGER: return text_value_whole(v) != 0;
    case VALUE_REAL: return v.as.real != 0;
    case VALUE_TEXT: return v.as.text.bytes > 0;
    case VALUE_LIST:
    case VALUE_TUPLE: return v.as.list->count > 0;
    case VALUE_DICT: return v.as.dict->count > 0;
    case VALUE_LOOP: return v.as.loop->items->count > 0;
    default: return true;
    }
}

static bool deeper(struct run *r) {
    if (r->depth >= MOST_DEPTH) {
        text_value_fail(r, "values are nested in more than %d levels", MOST_DEPTH);
        return false;
    }
    r->depth++;
    return text_run_step(r);
}

static bool lists_equal(struct run *r, const struct value_list *a, const struct value_list *b) {
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = text_value_equal(r, a->item[i], b->item[i]);
    return same;
}

static bool dicts_equal(struct run *r, const struct value_dict *a, const struct value_dict *b) {
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        const struct value *other = text_value_get(r, b, a->key[i]);
        same = other && text_value_equal(r, a->value[i], *other);
    }
    return same;
}

bool text_value_equal(struct run *r, struct value a, struct value b) {
    if (text_value_is_number(a) && text_value_is_number(b)) {
        bool real = a.kind == VALUE_REAL || b.kind == VALUE_REAL;
        return real ? text_value_real(a) == text_value_real(b) : text_value_whole(a) == text_value_whole(b);
    }
    if (a.kind != b.kind || !deeper(r))
        return false;
    bool same;
    switch (a.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: same = true; break;
    case VALUE_TEXT:
        same = a.as.text.bytes == b.as.text.bytes && !memcmp(a.as.text.data, b.as.text.data, a.as.text.bytes);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE: same = lists_equal(r, a.as.list, b.as.list); break;
    case VALUE_DICT: same = dicts_equal(r, a.as.dict, b.as.dict); break;
    default: same = a.as.dict == b.as.dict; break;
    }
    r->depth--;
    return same;
}

int text_value_order(struct run *r, struct value a, struct value b) {
    if (text_value_is_number(a) && text_value_is_number(b)) {
        if (a.kind != VALUE_REAL && b.kind != VALUE_REAL)
            return (text_value_whole(a) > text_value_whole(b)) - (text_value_whole(a) < text_value_whole(b));
        return (text_value_real(a) > text_value_real(b)) - (text_value_real(a) < text_value_real(b));
    }
    if (a.kind == VALUE_TEXT && b.kind == VALUE_TEXT) { // the order of UTF-8 is that of code points
        size_t common = a.as.text.bytes < b.as.text.bytes ? a.as.text.bytes : b.as.text.bytes;
        int by = memcmp(a.as.text.data, b.as.text.data, common);
        return by ? by : (a.as.text.bytes > b.as.text.bytes) - (a.as.text.bytes < b.as.text.bytes);
    }
    bool lists = a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE);
    if (!lists || !deeper(r)) {
        text_value_fail(r, "'%s' and '%s' have no order", text_value_kind(a), text_value_kind(b));
        return 0;
    }
    const struct value_list *x = a.as.list, *y = b.as.list;
    int order = 0;
    size_t i = 0;
    while (i < x->count && i < y->count && text_value_equal(r, x->item[i], y->item[i]))
        i++;
    if (i < x->count && i < y->count)
        order = text_value_order(r, x->item[i], y->item[i]);
    else
        order = (x->count > y->count) - (x->count < y->count);
    r->depth--;
    return order;
}

bool text_value_contains(struct run *r, struct value where, struct value what) {
    if (where.kind == VALUE_TEXT) {
        if (what.kind != VALUE_TEXT) {
            text_value_fail(r, "'in' of a text needs a text, not '%s'", text_value_kind(what));
            return false;
        }
        return memmem(where.as.text.data, where.as.text.bytes, what.as.text.data, what.as.text.bytes) != NULL;
    }
    if (where.kind == VALUE_DICT)
        return text_value_get(r, where.as.dict, what) != NULL;
    if (where.kind != VALUE_LIST && where.kind != VALUE_TUPLE && where.kind != VALUE_UNDEFINED)
        text_value_fail(r, "'in' needs a text, a list or a dict, not '%s'", text_value_kind(where));
    bool found = false;
    for (size_t i = 0;
         (where.kind == VALUE_LIST || where.kind == VALUE_TUPLE) && !found && i < where.as.list->count; i++)
        found = text_value_equal(r, where.as.list->item[i], what);
    return found;
}

// Text ------------------------------------------------------------------------------------------------------

// Prints a float as Python does: with the fewest digits that give the same number.
static bool print_real(struct text_buffer *out, double x) {
    char digits[40], text[64];
    if (!isfinite(x))
        return text_buffer_text(out, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, x);
    while (strtod(digits, NULL) != x && precision++ < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, sizeof text, "%.*se%c%02d", (int)strcspn(digits, "e"), digits,
                 exponent < 0 ? '-' : '+', abs(exponent));
        return text_buffer_text(out, text);
    }
    int decimals = precision - 1 - exponent;
    snprintf(text, sizeof text, "%.*f", decimals > 0 ? decimals : 1, x);
    return text_buffer_text(out, text);
}

// Prints a text as Python's repr does: in single quotes, or in double quotes if it contains only single ones;
// escapes characters that cannot be printed.
static bool print_quoted(struct text_buffer *out, const char *data, size_t bytes) {
    bool has_single = memchr(data, '\'', bytes), has_double = memchr(data, '"', bytes);
    char quote = has_single && !has_double ? '"' : '\'', escape[16];
    bool ok = text_buffer_add(out, &quote, 1);
    const unsigned char *at = (const unsigned char *)data, *end = at + bytes;
    while (ok && at < end) {
        uint32_t code;
        int length = text_utf8_get(at, end, &code);
        static const char from[] = "\n\r\t\\", into[] = "nrt\\";
        const char *which = code && code < 128 ? strchr(from, (int)code) : NULL;
        bool hidden = code < 32 || (code >= 127 && code <= 160) || code == 173 ||
                      (code >= 0x2028 && code <= 0x202e) ||
                      (code > 32 && code != TEXT_NO_CHARACTER && text_class_of(code) & TEXT_SPACE);
        if (which || code == (uint32_t)quote)
            snprintf(escape, sizeof escape, "\\%c", which ? into[which - from] : quote);
        else if (hidden)
            snprintf(escape, sizeof escape, code < 256 ? "\\x%02x" : "\\u%04x", code);
        ok = which || code == (uint32_t)quote || hidden ? text_buffer_text(out, escape)
                                                        : text_buffer_add(out, at, (size_t)length);
        at += length;
    }
    return ok && text_buffer_add(out, &quote, 1);
}

static bool print_list(struct run *r, struct text_buffer *out, struct value v) {
    bool tuple = v.kind == VALUE_TUPLE, ok = text_buffer_text(out, tuple ? "(" : "[");
    for (size_t i = 0; ok && i < v.as.list->count; i++)
        ok = (!i || text_buffer_text(out, ", ")) && text_value_print(r, out, v.as.list->item[i], true);
    return ok && text_buffer_text(out, !tuple ? "]" : v.as.list->count == 1 ? ",)" : ")");
}

static bool print_dict(struct run *r, struct text_buffer *out, const struct value_dict *dict) {
    bool ok = text_buffer_text(out, "{");
    for (size_t i = 0; ok && i < dict->count; i++)
        ok = (!i || text_buffer_text(out, ", ")) && text_value_print(r, out, dict->key[i], true) &&
             text_buffer_text(out, ": ") && text_value_print(r, out, dict->value[i], true);
    return ok && text_buffer_text(out, "}");
}

bool text_value_print(struct run *r, struct text_buffer *out, struct value v, bool quoted) {
    char number[32];
    bool ok = true;
    if (out->bytes > MOST_BYTES) {
        text_value_fail(r, "a text of more than %d MiB", MOST_BYTES >> 20);
        return false;
    }
    switch (v.kind) {
    case VALUE_UNDEFINED: return !quoted || text_buffer_text(out, "Undefined");
    case VALUE_NONE: return text_buffer_text(out, "None");
    case VALUE_BOOL: return text_buffer_text(out, v.as.truth ? "True" : "False");
    case VALUE_REAL: return print_real(out, v.as.real);
    case VALUE_TEXT:
        return quoted ? print_quoted(out, v.as.text.data, v.as.text.bytes)
                      : text_buffer_add(out, v.as.text.data, v.as.text.bytes);
    case VALUE_INTEGER:
        snprintf(number, sizeof number, "%" PRId64, v.as.integer);
        return text_buffer_text(out, number);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
        if (!deeper(r))
            return false;
        ok = v.kind == VALUE_DICT ? print_dict(r, out, v.as.dict) : print_list(r, out, v);
        r->depth--;
        return ok;
    default: text_value_fail(r, "a %s cannot be printed", text_value_kind(v)); return false;
    }
}

struct value text_value_string(struct run *r, struct value v) {
    struct text_buffer out = {0};
    if (v.kind == VALUE_TEXT)
        return v;
    if (!text_value_print(r, &out, v, false))
        text_value_fail(r, "out of memory");
    struct value text = text_value_text(r, out.data, r->failed ? 0 : out.bytes);
    free(out.data);
    return text;
}

// JSON ------------------------------------------------------------------------------------------------------

struct json_style {
    int indent; // -1: everything on one line
    const char *comma, *colon;
    bool ascii, sorted;
    int depth;
};

static bool json_text(struct text_buffer *out, const char *data, size_t bytes, bool ascii) {
    bool ok = text_buffer_text(out, "\"");
    const unsigned char *at = (const unsigned char *)data, *end = at + bytes;
    while (ok && at < end) {
        uint32_t code;
        char escape[16];
        int length = text_utf8_get(at, end, &code);
        static const char from[] = "\"\\\n\r\t\f\b", into[] = "\"\\nrtfb";
        const char *which = code && code < 128 ? strchr(from, (int)code) : NULL;
        if (which)
            snprintf(escape, sizeof escape, "\\%c", into[which - from]);
        else if (code >= 0x10000 && ascii && code != TEXT_NO_CHARACTER)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                     0xdc00 + ((code - 0x10000) & 0x3ff));
        else
            snprintf(escape, sizeof escape, "\\u%04x", code & 0xffff);
        ok = which || code < 32 || (ascii && code > 126) ? text_buffer_text(out, escape)
                                                         : text_buffer_add(out, at, (size_t)length);
        at += length;
    }
    return ok && text_buffer_text(out, "\"");
}

static bool json_line(struct text_buffer *out, const struct json_style *s) {
    bool ok = s->indent < 0 || text_buffer_text(out, "\n");
    for (int i = 0; ok && s->indent > 0 && i < s->depth * s->indent; i++)
        ok = text_buffer_text(out, " ");
    return ok;
}

static bool json_value(struct run *r, struct text_buffer *out, struct value v, struct json_style *s);

static bool json_key(struct run *r, struct text_buffer *out, struct value key) {
    if (key.kind == VALUE_TEXT)
        return json_text(out, key.as.text.data, key.as.text.bytes, false);
    bool ok = text_buffer_text(out, "\"");
    ok = ok && (key.kind == VALUE_NONE   ? text_buffer_text(out, "null")
                : key.kind == VALUE_BOOL ? text_buffer_text(out, key.as.truth ? "true" : "false")
                                         : text_value_print(r, out, key, false));
    return ok && text_buffer_text(out, "\"");
}

static bool json_items(struct run *r, struct text_buffer *out, struct value v, struct json_style *s) {
    bool dict = v.kind == VALUE_DICT, ok = text_buffer_text(out, dict ? "{" : "[");
    size_t count = dict ? v.as.dict->count : v.as.list->count;
    s->depth++;
    for (size_t i = 0; ok && i < count; i++) {
        ok = (!i || text_buffer_text(out, s->comma)) && json_line(out, s);
        if (dict)
            ok = ok && json_key(r, out, v.as.dict->key[i]) && text_buffer_text(out, s->colon);
        ok = ok && json_value(r, out, dict ? v.as.dict->value[i] : v.as.list->item[i], s);
    }
    s->depth--;
    return ok && (!count || json_line(out, s)) && text_buffer_text(out, dict ? "}" : "]");
}

static int by_key(const void *a, const void *b) {
    const struct value *x = a, *y = b;
    size_t common = x->as.text.bytes < y->as.text.bytes ? x->as.text.bytes : y->as.text.bytes;
    int by = memcmp(x->as.text.data, y->as.text.data, common);
    return by ? by : (x->as.text.bytes > y->as.text.bytes) - (x->as.text.bytes < y->as.text.bytes);
}

// Returns the dict with its keys, which are texts, in order.
static struct value sorted_dict(struct run *r, const struct value_dict *dict) {
    struct value out = text_value_dict(r);
    struct value *keys = text_run_memory(r, sizeof *keys * (dict->count + 1));
    for (size_t i = 0; keys && i < dict->count; i++) {
        if (dict->key[i].kind != VALUE_TEXT)
            return text_value_fail(r, "only dicts whose keys are texts can be sorted");
        keys[i] = dict->key[i];
    }
    if (keys)
        qsort(keys, dict->count, sizeof *keys, by_key);
    for (size_t i = 0; keys && !r->failed && i < dict->count; i++)
        text_value_set(r, out.as.dict, keys[i], *text_value_get(r, dict, keys[i]));
    return out;
}

static bool json_value(struct run *r, struct text_buffer *out, struct value v, struct json_style *s) {
    switch (v.kind) {
    case VALUE_NONE: return text_buffer_text(out, "null");
    case VALUE_BOOL: return text_buffer_text(out, v.as.truth ? "true" : "false");
    case VALUE_TEXT: return json_text(out, v.as.text.data, v.as.text.bytes, s->ascii);
    case VALUE_REAL:
        return isfinite(v.as.real) ? print_real(out, v.as.real)
                                   : text_buffer_text(out, isnan(v.as.real) ? "NaN"
                                                           : v.as.real > 0  ? "Infinity"
                                                                            : "-Infinity");
    case VALUE_INTEGER: return text_value_print(r, out, v, false);
    case VALUE_DICT:
    case VALUE_LIST:
    case VALUE_TUPLE: break;
    default: text_value_fail(r, "tojson: a '%s' is no JSON", text_value_kind(v)); return false;
    }
    if (!deeper(r))
        return false;
    if (v.kind == VALUE_DICT && s->sorted)
        v = sorted_dict(r, v.as.dict);
    bool ok = !r->failed && json_items(r, out, v, s);
    r->depth--;
    return ok;
}

bool text_value_json(struct run *r, struct text_buffer *out, struct value v, const struct arguments *args) {
    // The positions of the arguments are those of transformers' filter: ensure_ascii, indent, separators,
    // sort_keys.
    const struct value *ascii = text_argument(args, 0, "ensure_ascii"),
                       *indent = text_argument(args, 1, "indent");
    const struct value *separators = text_argument(args, 2, "separators"),
                       *sorted = text_argument(args, 3, "sort_keys");
    struct json_style s = {.indent = -1,
                           .comma = ", ",
                           .colon = ": ",
                           .ascii = ascii && text_value_truth(*ascii),
                           .sorted = sorted && text_value_truth(*sorted)};
    if (indent && indent->kind == VALUE_INTEGER && indent->as.integer >= 0 && indent->as.integer <= 64) {
        s.indent = (int)indent->as.integer;
        s.comma = ",";
    } else if (indent && indent->kind != VALUE_NONE) {
        text_value_fail(r, "tojson: indent must be a number from 0 to 64");
        return false;
    }
    if (separators && separators->kind != VALUE_NONE) {
        const struct value_list *pair =
            separators->kind == VALUE_TUPLE || separators->kind == VALUE_LIST ? separators->as.list : NULL;
        if (!pair || pair->count != 2 || pair->item[0].kind != VALUE_TEXT ||
            pair->item[1].kind != VALUE_TEXT) {
            text_value_fail(r, "tojson: separators must be two texts");
            return false;
        }
        s.comma = pair->item[0].as.text.data;
        s.colon = pair->item[1].as.text.data;
    }
    return json_value(r, out, v, &s);
}

// Parts -----------------------------------------------------------------------------------------------------

size_t text_utf8_count(const char *data, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)data[i] & 0xc0) != 0x80;
    return count;
}

// Returns where the index-th character begins.
static size_t character_at(struct value v, size_t index) {
    size_t at = 0;
    for (; at < v.as.text.bytes; at++)
        if (((unsigned char)v.as.text.data[at] & 0xc0) != 0x80 && index-- == 0)
            break;
    return at;
}

static struct value character(struct run *r, struct value v, size_t index) {
    size_t from = character_at(v, index), to = from + 1;
    while (to < v.as.text.bytes && ((unsigned char)v.as.text.data[to] & 0xc0) == 0x80)
        to++;
    return text_value_text(r, v.as.text.data + from, to - from);
}

static int64_t length(struct value v) {
    return v.kind == VALUE_TEXT ? (int64_t)text_utf8_count(v.as.text.data, v.as.text.bytes)
                                : (int64_t)v.as.list->count;
}

struct value text_value_index(struct run *r, struct value v, struct value index) {
    struct value none = {.as.name = "item"};
    if (v.kind == VALUE_DICT) {
        const struct value *found =
            index.kind == VALUE_LIST || index.kind == VALUE_DICT ? NULL : text_value_get(r, v.as.dict, index);
        return found ? *found : none;
    }
    bool whole = index.kind == VALUE_INTEGER || index.kind == VALUE_BOOL;
    if ((v.kind != VALUE_TEXT && v.kind != VALUE_LIST && v.kind != VALUE_TUPLE) || !whole)
        return none;
    int64_t at = text_value_whole(index), count = length(v);
    at += at < 0 ? count : 0;
    if (at < 0 || at >= count)
        return none;
    return v.kind == VALUE_TEXT ? character(r, v, (size_t)at) : v.as.list->item[at];
}

static int64_t bound(struct value v, int64_t otherwise, int64_t least, int64_t most, int64_t count) {
    if (v.kind == VALUE_NONE)
        return otherwise;
    int64_t at = text_value_whole(v);
    at += at < 0 ? count : 0;
    return at < least ? least : at > most ? most : at;
}

struct value text_value_slice(struct run *r, struct value v, struct value from, struct value to,
                              struct value step) {
    struct value parts[] = {from, to, step};
    for (int i = 0; i < 3; i++)
        if (parts[i].kind != VALUE_NONE && parts[i].kind != VALUE_INTEGER && parts[i].kind != VALUE_BOOL)
            return text_value_fail(r, "a slice needs whole numbers, not '%s'", text_value_kind(parts[i]));
    if (v.kind == VALUE_UNDEFINED)
        return text_value_fail(r, "'%s' is undefined", v.as.name);
    if (v.kind != VALUE_TEXT && v.kind != VALUE_LIST && v.kind != VALUE_TUPLE)
        return (struct value){.as.name = "slice"};
    int64_t by = step.kind == VALUE_NONE ? 1 : text_value_whole(step), count = length(v);
    if (by == 0)
        return text_value_fail(r, "the step of a slice is 0");
    by = by > count ? count + 1 : by < -count ? -count - 1 : by;
    int64_t at = by > 0 ? bound(from, 0, 0, count, count) : bound(from, count - 1, -1, count - 1, count);
    int64_t stop = by > 0 ? bound(to, count, 0, count, count) : bound(to, -1, -1, count - 1, count);
    if (v.kind != VALUE_TEXT) {
        struct value out = text_value_list(r, v.kind);
        for (; !r->failed && (by > 0 ? at < stop : at > stop); at += by)
            text_value_append(r, out.as.list, v.as.list->item[at]);
        return out;
    }
    if (by == 1) {
        size_t begin = character_at(v, (size_t)at), end = character_at(v, (size_t)(stop > at ? stop : at));
        return text_value_text(r, v.as.text.data + begin, end - begin);
    }
    struct value items = text_value_items(r, v);
    struct text_buffer out = {0};
    for (; !r->failed && (by > 0 ? at < stop : at > stop); at += by)
        if (!text_buffer_add(&out, items.as.list->item[at].as.text.data,
                             items.as.list->item[at].as.text.bytes))
            text_value_fail(r, "out of memory");
    struct value text = text_value_text(r, out.data, r->failed ? 0 : out.bytes);
    free(out.data);
    return text;
}

struct value text_value_items(struct run *r, struct value v) {
    if (v.kind == VALUE_LIST || v.kind == VALUE_TUPLE)
        return v;
    struct value out = text_value_list(r, VALUE_LIST);
    if (v.kind == VALUE_DICT)
        for (size_t i = 0; !r->failed && i < v.as.dict->count; i++)
            text_value_append(r, out.as.list, v.as.dict->key[i]);
    else if (v.kind == VALUE_TEXT)
        for (size_t at = 0, to; !r->failed && at < v.as.text.bytes; at = to) {
            for (to = at + 1; to < v.as.text.bytes && ((unsigned char)v.as.text.data[to] & 0xc0) == 0x80;)
                to++;
            text_value_append(r, out.as.list, text_value_text(r, v.as.text.data + at, to - at));
        }
    else if (v.kind != VALUE_UNDEFINED)
        return text_value_fail(r, "a '%s' has no items", text_value_kind(v));
    return out;
}
