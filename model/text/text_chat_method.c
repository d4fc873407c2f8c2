// text_chat_method.c - methods of str, list and dict that templates call. Those that would change a value are
// refused, as transformers' sandbox does.

#include "text_chat.h"

static bool is_blank(const unsigned char *at, const unsigned char *end, int *bytes) {
    int class;
    *bytes = text_next(at, end, &class);
    return class & TEXT_SPACE || (*at >= 0x1c && *at <= 0x1f);
}

static size_t last_character(const char *data, size_t bytes) { // returns where the last character begins
    size_t at = bytes - 1;
    while (at > 0 && ((unsigned char)data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

// Returns whether a character is in a set, or if the set is NULL, a blank.
static bool in_set(const char *at, size_t bytes, const char *set, size_t set_bytes) {
    int length;
    if (!set)
        return is_blank((const unsigned char *)at, (const unsigned char *)at + bytes, &length);
    return memmem(set, set_bytes, at, bytes) != NULL; // finds whole characters only: in UTF-8 none is part of
                                                      // another
}

struct value text_strip(struct run *r, struct value v, const char *set, size_t set_bytes, bool left,
                        bool right) {
    const char *data = v.as.text.data;
    size_t from = 0, to = v.as.text.bytes;
    while (left && from < to) {
        size_t next = from + 1;
        while (next < to && ((unsigned char)data[next] & 0xc0) == 0x80)
            next++;
        if (!in_set(data + from, next - from, set, set_bytes))
            break;
        from = next;
    }
    while (right && to > from) {
        size_t last = from + last_character(data + from, to - from);
        if (!in_set(data + last, to - last, set, set_bytes))
            break;
        to = last;
    }
    return text_value_text(r, data + from, to - from);
}

static struct value strip(struct run *r, struct value v, const struct arguments *args, bool left,
                          bool right) {
    const struct value *set = text_argument(args, 0, NULL);
    if (set && set->kind != VALUE_TEXT && set->kind != VALUE_NONE)
        return text_value_fail(r, "strip needs a text, not '%s'", text_value_kind(*set));
    bool given = set && set->kind == VALUE_TEXT;
    return text_strip(r, v, given ? set->as.text.data : NULL, given ? set->as.text.bytes : 0, left, right);
}

// Returns whether v begins, or ends, with a text, or with one of a tuple of texts.
static struct value meets(struct run *r, struct value v, const struct arguments *args, bool at_end) {
    struct value one = args->count ? args->item[0] : (struct value){VALUE_NONE};
    const struct value *list = one.kind == VALUE_TUPLE ? one.as.list->item : &one;
    size_t count = one.kind == VALUE_TUPLE ? one.as.list->count : 1;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind != VALUE_TEXT)
            return text_value_fail(r, "%s needs a text, not '%s'", at_end ? "endswith" : "startswith",
                                   text_value_kind(list[i]));
        size_t bytes = list[i].as.text.bytes, all = v.as.text.bytes;
        found = found || (bytes <= all &&
                          !memcmp(v.as.text.data + (at_end ? all - bytes : 0), list[i].as.text.data, bytes));
    }
    return text_value_bool(found);
}

static struct value split_at_blanks(struct run *r, struct value v, int64_t most, bool from_right) {
    struct value out = text_value_list(r, VALUE_LIST);
    const char *data = v.as.text.data;
    size_t from = 0, to = v.as.text.bytes;
    while (!r->failed) {
        struct value rest = text_strip(r, (struct value){VALUE_TEXT, .as.text = {data + from, to - from}},
                                       NULL, 0, true, true);
        struct value ahead = text_strip(r, (struct value){VALUE_TEXT, .as.text = {data + from, to - from}},
                                        NULL, 0, true, false);
        if (r->failed || rest.as.text.bytes == 0)
            break;
        size_t start = to - ahead.as.text.bytes, stop = start + rest.as.text.bytes;
        if (most == 0) { // the rest is one item: blanks are removed from the side at which splitting would
                         // continue
            text_value_append(r, out.as.list,
                              from_right ? text_value_text(r, data + from, stop - from)
                                         : text_value_text(r, data + start, to - start));
            break;
        }
        most--;
        int bytes;
        size_t cut = from_right ? stop : start;
        if (from_right) {
            while (cut > start) {
                size_t last = start + last_character(data + start, cut - start);
                if (is_blank((const unsigned char *)data + last, (const unsigned char *)data + cut, &bytes))
                    break;
                cut = last;
            }
            text_value_append(r, out.as.list, text_value_text(r, data + cut, stop - cut));
            to = cut;
        } else {
            for (; cut < stop &&
                   !is_blank((const unsigned char *)data + cut, (const unsigned char *)data + stop, &bytes);
                 cut += (size_t)bytes)
                ;
            text_value_append(r, out.as.list, text_value_text(r, data + start, cut - start));
            from = cut;
        }
    }
    return out;
}

static const char *last_of(const char *data, size_t bytes, struct value what) {
    for (size_t at = bytes + 1; at-- > 0;)
        if (bytes - at >= what.as.text.bytes && !memcmp(data + at, what.as.text.data, what.as.text.bytes))
            return data + at;
    return NULL;
}

static void reverse(struct value_list *list) {
    for (size_t i = 0; i < list->count / 2; i++) {
        struct value swap = list->item[i];
        list->item[i] = list->item[list->count - 1 - i];
        list->item[list->count - 1 - i] = swap;
    }
}

static struct value split(struct run *r, struct value v, const struct arguments *args, bool from_right) {
    const struct value *by = text_argument(args, 0, "sep"), *most = text_argument(args, 1, "maxsplit");
    if ((by && by->kind != VALUE_TEXT && by->kind != VALUE_NONE) || (most && most->kind != VALUE_INTEGER))
        return text_value_fail(r, "split needs a text and a number");
    int64_t left = most && most->as.integer >= 0 ? most->as.integer : INT64_MAX;
    struct value out;
    if (!by || by->kind == VALUE_NONE)
        out = split_at_blanks(r, v, left, from_right);
    else if (by->as.text.bytes == 0)
        return text_value_fail(r, "split by an empty text");
    else {
        out = text_value_list(r, VALUE_LIST);
        const char *data = v.as.text.data;
        size_t bytes = v.as.text.bytes, by_bytes = by->as.text.bytes;
        for (; !r->failed && left > 0; left--) {
            const char *found =
                from_right ? last_of(data, bytes, *by) : memmem(data, bytes, by->as.text.data, by_bytes);
            if (!found)
                break;
            size_t before = (size_t)(found - data), after = bytes - before - by_bytes;
            text_value_append(r, out.as.list,
                              from_right ? text_value_text(r, found + by_bytes, after)
                                         : text_value_text(r, data, before));
            data = from_right ? data : found + by_bytes;
            bytes = from_right ? before : after;
        }
        if (!r->failed)
            text_value_append(r, out.as.list, text_value_text(r, data, bytes));
    }
    if (from_right && !r->failed)
        reverse(out.as.list);
    return out;
}

static struct value split_lines(struct run *r, struct value v, const struct arguments *args) {
    const struct value *keep = text_argument(args, 0, "keepends");
    struct value out = text_value_list(r, VALUE_LIST);
    const char *data = v.as.text.data;
    for (size_t from = 0, at = 0; !r->failed && from < v.as.text.bytes; from = at) {
        size_t end = from, ends = 0;
        for (; end < v.as.text.bytes && !ends; end += !ends) {
            unsigned char c = (unsigned char)data[end];
            bool last = end + 1 >= v.as.text.bytes;
            ends = c == '\r' && !last && data[end + 1] == '\n'                  ? 2
                   : (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e)       ? 1
                   : c == 0xc2 && !last && (unsigned char)data[end + 1] == 0x85 ? 2
                   : c == 0xe2 && (!memcmp(data + end, "\xe2\x80\xa8",
                                           v.as.text.bytes - end < 3 ? v.as.text.bytes - end : 3) ||
                                   !memcmp(data + end, "\xe2\x80\xa9",
                                           v.as.text.bytes - end < 3 ? v.as.text.bytes - end : 3))
                       ? 3
                       : 0;
        }
        at = end + ends;
        text_value_append(
            r, out.as.list,
            text_value_text(r, data + from, (keep && text_value_truth(*keep) ? at : end) - from));
    }
    return out;
}

static struct value replace(struct run *r, struct value v, const struct arguments *args) {
    const struct value *from = text_argument(args, 0, "old"), *to = text_argument(args, 1, "new"),
                       *most = text_argument(args, 2, "count");
    if (!from || !to || from->kind != VALUE_TEXT || to->kind != VALUE_TEXT ||
        (most && most->kind != VALUE_INTEGER && most->kind != VALUE_NONE))
        return text_value_fail(r, "replace needs two texts, and perhaps a number");
    int64_t left =
        most && most->kind == VALUE_INTEGER && most->as.integer >= 0 ? most->as.integer : INT64_MAX;
    struct text_buffer out = {0};
    const char *at = v.as.text.data, *end = at + v.as.text.bytes;
    bool ok = text_buffer_add(&out, "", 0);
    while (ok && left > 0 && text_run_step(r)) {
        const char *found = from->as.text.bytes
                                ? memmem(at, (size_t)(end - at), from->as.text.data, from->as.text.bytes)
                                : at;
        if (!found)
            break;
        ok = text_buffer_add(&out, at, (size_t)(found - at)) &&
             text_buffer_add(&out, to->as.text.data, to->as.text.bytes);
        left--;
        at = found + from->as.text.bytes;
        if (from->as.text.bytes)
            continue;
        if (at == end)
            break;
        do // an empty text is found before each character
            ok = ok && text_buffer_add(&out, at, 1);
        while (++at < end && ((unsigned char)*at & 0xc0) == 0x80);
        if (out.bytes > (64u << 20))
            break;
    }
    ok = ok && text_buffer_add(&out, at, (size_t)(end - at));
    struct value text =
        ok && !r->failed ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

enum { TO_LOWER, TO_UPPER, TO_TITLE, TO_CAPITAL };

static struct value change_case(struct run *r, struct value v, int how) {
    struct text_buffer out = {0};
    const unsigned char *at = (const unsigned char *)v.as.text.data, *end = at + v.as.text.bytes;
    bool inside = false, first = true, ok = text_buffer_add(&out, "", 0);
    while (ok && at < end) {
        uint32_t code;
        char put[4];
        int length = text_utf8_get(at, end, &code);
        bool letter = code != TEXT_NO_CHARACTER && text_class_of(code) & TEXT_LETTER;
        bool upper = how == TO_UPPER || (how == TO_TITLE && !inside) || (how == TO_CAPITAL && first);
        ok = code == TEXT_NO_CHARACTER
                 ? text_buffer_add(&out, at, 1)
                 : text_buffer_add(&out, put, (size_t)text_utf8_put(put, text_in_case(code, upper)));
        inside = letter;
        first = false;
        at += length;
    }
    struct value text = ok ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

static struct value find(struct run *r, struct value v, const struct arguments *args, bool from_right,
                         bool must) {
    if (args->count != 1 || args->item[0].kind != VALUE_TEXT)
        return text_value_fail(r, "find needs one text");
    struct value what = args->item[0];
    const char *found = from_right
                            ? last_of(v.as.text.data, v.as.text.bytes, what)
                            : memmem(v.as.text.data, v.as.text.bytes, what.as.text.data, what.as.text.bytes);
    if (!found && must)
        return text_value_fail(r, "index: the text is not there");
    return text_value_integer(
        found ? (int64_t)text_utf8_count(v.as.text.data, (size_t)(found - v.as.text.data)) : -1);
}

static struct value count(struct run *r, struct value v, const struct arguments *args) {
    if (args->count != 1)
        return text_value_fail(r, "count needs one value");
    int64_t found = 0;
    if (v.kind != VALUE_TEXT) {
        for (size_t i = 0; i < v.as.list->count; i++)
            found += text_value_equal(r, v.as.list->item[i], args->item[0]);
        return text_value_integer(found);
    }
    if (args->item[0].kind != VALUE_TEXT)
        return text_value_fail(r, "count needs a text, not '%s'", text_value_kind(args->item[0]));
    struct value what = args->item[0];
    if (!what.as.text.bytes)
        return text_value_integer((int64_t)text_utf8_count(v.as.text.data, v.as.text.bytes) + 1);
    const char *at = v.as.text.data, *end = at + v.as.text.bytes;
    while ((at = memmem(at, (size_t)(end - at), what.as.text.data, what.as.text.bytes))) {
        at += what.as.text.bytes;
        found++;
    }
    return text_value_integer(found);
}

static struct value remove_affix(struct run *r, struct value v, const struct arguments *args, bool at_end) {
    struct value there = meets(r, v, args, at_end);
    if (r->failed || !there.as.truth)
        return v;
    size_t bytes = args->item[0].kind == VALUE_TEXT ? args->item[0].as.text.bytes : 0;
    return text_value_text(r, v.as.text.data + (at_end ? 0 : bytes), v.as.text.bytes - bytes);
}

static struct value join(struct run *r, struct value v, const struct arguments *args) {
    struct value items =
        args->count == 1 ? text_value_items(r, args->item[0]) : text_value_fail(r, "join needs a list");
    struct text_buffer out = {0};
    bool ok = text_buffer_add(&out, "", 0);
    for (size_t i = 0; ok && !r->failed && i < items.as.list->count; i++) {
        struct value item = items.as.list->item[i];
        if (item.kind != VALUE_TEXT)
            text_value_fail(r, "join needs texts, not '%s'", text_value_kind(item));
        else
            ok = (!i || text_buffer_add(&out, v.as.text.data, v.as.text.bytes)) &&
                 text_buffer_add(&out, item.as.text.data, item.as.text.bytes);
    }
    struct value text =
        ok && !r->failed ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

// Returns whether a text is not empty and all its characters have one of these classes.
static struct value only(struct value v, int classes) {
    const unsigned char *at = (const unsigned char *)v.as.text.data, *end = at + v.as.text.bytes;
    bool all = at < end;
    for (int class; at < end; at += text_next(at, end, &class)) {
        text_next(at, end, &class);
        all = all && class & classes;
    }
    return text_value_bool(all);
}

static struct value has_case(struct value v, bool upper) {
    bool some = false, other = false;
    const unsigned char *at = (const unsigned char *)v.as.text.data, *end = at + v.as.text.bytes;
    while (at < end) {
        uint32_t code;
        at += text_utf8_get(at, end, &code);
        bool is_lower = text_in_case(code, true) != code, is_upper = text_in_case(code, false) != code;
        some = some || (upper ? is_upper : is_lower);
        other = other || (upper ? is_lower : is_upper);
    }
    return text_value_bool(some && !other);
}

static struct value text_methods(struct run *r, struct value v, const char *name,
                                 const struct arguments *args) {
    if (!strcmp(name, "strip") || !strcmp(name, "lstrip") || !strcmp(name, "rstrip"))
        return strip(r, v, args, *name != 'r', *name != 'l');
    if (!strcmp(name, "startswith") || !strcmp(name, "endswith"))
        return meets(r, v, args, *name == 'e');
    if (!strcmp(name, "split") || !strcmp(name, "rsplit"))
        return split(r, v, args, *name == 'r');
    if (!strcmp(name, "replace"))
        return replace(r, v, args);
    if (!strcmp(name, "splitlines"))
        return split_lines(r, v, args);
    if (!strcmp(name, "find") || !strcmp(name, "rfind") || !strcmp(name, "index"))
        return find(r, v, args, *name == 'r', *name == 'i');
    if (!strcmp(name, "removeprefix") || !strcmp(name, "removesuffix"))
        return remove_affix(r, v, args, name[6] == 's');
    if (!strcmp(name, "join"))
        return join(r, v, args);
    if (!strcmp(name, "count"))
        return count(r, v, args);
    static const struct {
        const char *name;
        int how;
    } cases[] = {{"lower", TO_LOWER}, {"upper", TO_UPPER}, {"title", TO_TITLE}, {"capitalize", TO_CAPITAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, name))
            return change_case(r, v, cases[i].how);
    return !strcmp(name, "isspace")   ? only(v, TEXT_SPACE)
           : !strcmp(name, "isalpha") ? only(v, TEXT_LETTER)
           : !strcmp(name, "isalnum") ? only(v, TEXT_LETTER | TEXT_NUMBER)
           : !strcmp(name, "isdigit") ? only(v, TEXT_NUMBER)
                                      : has_case(v, !strcmp(name, "isupper"));
}

static struct value dict_method(struct run *r, struct value v, const char *name,
                                const struct arguments *args) {
    struct value_dict *dict = v.as.dict;
    if (!strcmp(name, "get")) {
        const struct value *key = text_argument(args, 0, NULL), *otherwise = text_argument(args, 1, NULL);
        const struct value *found = key ? text_value_get(r, dict, *key) : NULL;
        if (!key)
            return text_value_fail(r, "get needs a key");
        return found ? *found : otherwise ? *otherwise : (struct value){VALUE_NONE};
    }
    struct value out = text_value_list(r, VALUE_LIST);
    for (size_t i = 0; !r->failed && i < dict->count; i++) {
        struct value item = *name == 'k' ? dict->key[i] : dict->value[i];
        if (*name == 'i') {
            item = text_value_list(r, VALUE_TUPLE);
            if (!r->failed) {
                text_value_append(r, item.as.list, dict->key[i]);
                text_value_append(r, item.as.list, dict->value[i]);
            }
        }
        if (!r->failed)
            text_value_append(r, out.as.list, item);
    }
    return out;
}

static struct value list_method(struct run *r, struct value v, const char *name,
                                const struct arguments *args) {
    if (!strcmp(name, "count"))
        return count(r, v, args);
    for (size_t i = 0; args->count && i < v.as.list->count; i++)
        if (text_value_equal(r, v.as.list->item[i], args->item[0]))
            return text_value_integer((int64_t)i);
    return text_value_fail(r, "index: the value is not there");
}

static const struct {
    const char *names; // separated by blanks
    struct value (*run)(struct run *r, struct value v, const char *name, const struct arguments *args);
} methods[] = {
    [VALUE_TEXT] = {" strip lstrip rstrip startswith endswith split rsplit replace splitlines find rfind "
                    "index removeprefix removesuffix join count "
                    "lower upper title capitalize isspace isalpha isalnum isdigit islower isupper ",
                    text_methods},
    [VALUE_LIST] = {" count index ", list_method},
    [VALUE_TUPLE] = {" count index ", list_method},
    [VALUE_DICT] = {" get items keys values ", dict_method},
};

static bool is_among(const char *names, const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %.60s ", name);
    return names && strlen(name) <= 60 && !strchr(name, ' ') && strstr(names, word) != NULL;
}

static bool changes(struct value v, const char *name) {
    return (v.kind == VALUE_LIST &&
            is_among(" append clear extend insert pop remove reverse sort copy ", name)) ||
           (v.kind == VALUE_DICT && is_among(" clear pop popitem setdefault update copy ", name));
}

bool text_is_method(struct value self, const char *name) {
    size_t known = sizeof methods / sizeof *methods;
    return ((size_t)self.kind < known && is_among(methods[self.kind].names, name)) || changes(self, name);
}

struct value text_method(struct run *r, struct value self, const char *name, const struct arguments *args) {
    if (changes(self, name))
        return text_value_fail(r, "'%s' of a %s is not allowed in a template: values do not change", name,
                               text_value_kind(self));
    return methods[self.kind].run(r, self, name, args);
}
