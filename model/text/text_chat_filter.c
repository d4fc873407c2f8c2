// text_chat_filter.c - filters and tests.

#include "text_chat.h"

#include <math.h>

const struct value *text_argument(const struct arguments *args, int place, const char *name) {
    if (place < args->count)
        return &args->item[place];
    for (int i = 0; name && i < args->named_count; i++)
        if (!strcmp(args->name[i], name))
            return &args->named[i];
    return NULL;
}

static bool is_listed(struct value v) {
    return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

static struct value missing(struct run *r, struct value v) {
    return text_value_fail(r, "'%s' is undefined", v.as.name);
}

// Returns the attribute of v at a path such as "function.name" or "0".
static struct value by_path(struct run *r, struct value v, struct value path) {
    if (path.kind == VALUE_INTEGER)
        return text_value_index(r, v, path);
    struct value left = path;
    while (!r->failed && left.kind == VALUE_TEXT) {
        const char *data = left.as.text.data, *dot = memchr(data, '.', left.as.text.bytes);
        size_t bytes = dot ? (size_t)(dot - data) : left.as.text.bytes;
        struct value name = text_value_text(r, data, bytes);
        bool digits = bytes > 0 && bytes < 10 && strspn(name.as.text.data, "0123456789") == bytes;
        if (r->failed || v.kind == VALUE_UNDEFINED)
            return r->failed ? v : missing(r, v);
        struct value next =
            text_value_index(r, v, digits ? text_value_integer(atoi(name.as.text.data)) : name);
        v = next.kind == VALUE_UNDEFINED && !digits ? text_chat_attribute(r, v, name.as.text.data) : next;
        if (!dot)
            break;
        left = text_value_text(r, dot + 1, left.as.text.bytes - bytes - 1);
    }
    return v;
}

// Lists -----------------------------------------------------------------------------------------------------

static struct value length(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    switch (v.kind) {
    case VALUE_UNDEFINED: return text_value_integer(0);
    case VALUE_TEXT: return text_value_integer((int64_t)text_utf8_count(v.as.text.data, v.as.text.bytes));
    case VALUE_LIST:
    case VALUE_TUPLE: return text_value_integer((int64_t)v.as.list->count);
    case VALUE_DICT: return text_value_integer((int64_t)v.as.dict->count);
    case VALUE_LOOP: return text_value_integer((int64_t)v.as.loop->items->count);
    default: return text_value_fail(r, "a '%s' has no length", text_value_kind(v));
    }
}

static struct value at_end(struct run *r, struct value v, bool last) {
    struct value items = text_value_items(r, v);
    size_t count = r->failed ? 0 : items.as.list->count;
    return count ? items.as.list->item[last ? count - 1 : 0]
                 : (struct value){.as.name = last ? "the last item" : "the first item"};
}

static struct value first(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    return at_end(r, v, false);
}

static struct value last(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    return at_end(r, v, true);
}

static struct value join(struct run *r, struct value v, const struct arguments *args) {
    const struct value *by = text_argument(args, 0, "d"), *attribute = text_argument(args, 1, "attribute");
    struct value items = text_value_items(r, v),
                 between = by ? text_value_string(r, *by) : (struct value){VALUE_TEXT, .as.text = {"", 0}};
    struct text_buffer out = {0};
    bool ok = text_buffer_add(&out, "", 0);
    for (size_t i = 0; ok && !r->failed && i < items.as.list->count; i++) {
        struct value item = items.as.list->item[i];
        item = attribute ? by_path(r, item, *attribute) : item;
        ok = !r->failed && (!i || text_buffer_add(&out, between.as.text.data, between.as.text.bytes)) &&
             text_value_print(r, &out, item, false);
    }
    struct value text =
        ok && !r->failed ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

static struct value items(struct run *r, struct value v, const struct arguments *args) {
    if (v.kind == VALUE_UNDEFINED)
        return text_value_list(r, VALUE_LIST);
    if (v.kind != VALUE_DICT)
        return text_value_fail(r, "items needs a dict, not '%s'", text_value_kind(v));
    return text_method(r, v, "items", args);
}

static struct value list(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    struct value from = text_value_items(r, v), out = r->failed ? from : text_value_list(r, VALUE_LIST);
    for (size_t i = 0; !r->failed && i < from.as.list->count; i++)
        text_value_append(r, out.as.list, from.as.list->item[i]);
    return out;
}

static struct value reversed(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    if (v.kind == VALUE_TEXT) {
        struct value none = {VALUE_NONE};
        return text_value_slice(r, v, none, none, text_value_integer(-1));
    }
    struct value from = text_value_items(r, v), out = r->failed ? from : text_value_list(r, VALUE_LIST);
    for (size_t i = r->failed ? 0 : from.as.list->count; !r->failed && i-- > 0;)
        text_value_append(r, out.as.list, from.as.list->item[i]);
    return out;
}

static struct value folded(struct run *r, struct value v, const struct value *case_sensitive) {
    bool ignore = v.kind == VALUE_TEXT && !(case_sensitive && text_value_truth(*case_sensitive));
    return ignore ? text_method(r, v, "lower", &(struct arguments){0}) : v;
}

// Sorts items stably by their keys, by merge sort.
static void merge_sort(struct run *r, struct value *key, struct value *item, struct value *room, size_t count,
                       bool down) {
    if (count < 2 || r->failed)
        return;
    size_t half = count / 2, i = 0, j = half, k = 0;
    merge_sort(r, key, item, room, half, down);
    merge_sort(r, key + half, item + half, room, count - half, down);
    struct value *keys = room, *items_room = room + count;
    while (!r->failed && (i < half || j < count)) {
        int order = i == half ? 1 : j == count ? -1 : text_value_order(r, key[i], key[j]);
        bool left = j == count || (i < half && (down ? order >= 0 : order <= 0));
        if (i == half)
            left = false;
        keys[k] = left ? key[i] : key[j];
        items_room[k++] = left ? item[i++] : item[j++];
    }
    if (!r->failed) {
        memcpy(key, keys, count * sizeof *key);
        memcpy(item, items_room, count * sizeof *item);
    }
}

static struct value sort(struct run *r, struct value v, const struct arguments *args) {
    const struct value *down = text_argument(args, 0, "reverse"),
                       *sensitive = text_argument(args, 1, "case_sensitive"),
                       *attribute = text_argument(args, 2, "attribute");
    struct value out = list(r, v, args);
    size_t count = r->failed ? 0 : out.as.list->count;
    struct value *key = text_run_memory(r, 3 * sizeof *key * (count + 1));
    for (size_t i = 0; key && !r->failed && i < count; i++) {
        struct value item = out.as.list->item[i];
        key[i] = folded(r, attribute ? by_path(r, item, *attribute) : item, sensitive);
    }
    if (key)
        merge_sort(r, key, out.as.list->item, key + count + 1, count, down && text_value_truth(*down));
    return out;
}

static struct value dictsort(struct run *r, struct value v, const struct arguments *args) {
    const struct value *sensitive = text_argument(args, 0, "case_sensitive"),
                       *by = text_argument(args, 1, "by"), *down = text_argument(args, 2, "reverse");
    if (v.kind != VALUE_DICT)
        return text_value_fail(r, "dictsort needs a dict, not '%s'", text_value_kind(v));
    bool by_value = by && by->kind == VALUE_TEXT && !strcmp(by->as.text.data, "value");
    struct value out = text_method(r, v, "items", &(struct arguments){0});
    size_t count = v.as.dict->count;
    struct value *key = r->failed ? NULL : text_run_memory(r, 3 * sizeof *key * (count + 1));
    for (size_t i = 0; key && i < count; i++)
        key[i] = folded(r, by_value ? v.as.dict->value[i] : v.as.dict->key[i], sensitive);
    if (key)
        merge_sort(r, key, out.as.list->item, key + count + 1, count, down && text_value_truth(*down));
    return out;
}

static struct value unique(struct run *r, struct value v, const struct arguments *args) {
    const struct value *sensitive = text_argument(args, 0, "case_sensitive"),
                       *attribute = text_argument(args, 1, "attribute");
    struct value from = text_value_items(r, v), out = text_value_list(r, VALUE_LIST),
                 seen = text_value_list(r, VALUE_LIST);
    for (size_t i = 0; !r->failed && i < from.as.list->count; i++) {
        struct value item = from.as.list->item[i],
                     key = folded(r, attribute ? by_path(r, item, *attribute) : item, sensitive);
        if (key.kind == VALUE_LIST || key.kind == VALUE_DICT)
            return text_value_fail(r, "unique does not take a '%s'", text_value_kind(key));
        if (r->failed || text_value_contains(r, seen, key))
            continue;
        text_value_append(r, seen.as.list, key);
        text_value_append(r, out.as.list, item);
    }
    return out;
}

static struct value extreme(struct run *r, struct value v, const struct arguments *args, int sign) {
    const struct value *sensitive = text_argument(args, 0, "case_sensitive"),
                       *attribute = text_argument(args, 1, "attribute");
    struct value from = text_value_items(r, v), best = {.as.name = "the extreme of no values"},
                 best_key = best;
    for (size_t i = 0; !r->failed && i < from.as.list->count; i++) {
        struct value item = from.as.list->item[i],
                     key = folded(r, attribute ? by_path(r, item, *attribute) : item, sensitive);
        if (i && (r->failed || sign * text_value_order(r, key, best_key) <= 0))
            continue;
        best = item;
        best_key = key;
    }
    return best;
}

static struct value least(struct run *r, struct value v, const struct arguments *args) {
    return extreme(r, v, args, -1);
}

static struct value greatest(struct run *r, struct value v, const struct arguments *args) {
    return extreme(r, v, args, 1);
}

static struct value sum(struct run *r, struct value v, const struct arguments *args) {
    const struct value *attribute = text_argument(args, 0, "attribute"),
                       *start = text_argument(args, 1, "start");
    struct value from = text_value_items(r, v), total = start ? *start : text_value_integer(0);
    for (size_t i = 0; !r->failed && i < from.as.list->count; i++) {
        struct value item = attribute ? by_path(r, from.as.list->item[i], *attribute) : from.as.list->item[i];
        if (r->failed || !text_value_is_number(item) || !text_value_is_number(total))
            return text_value_fail(r, "sum needs numbers, not '%s'", text_value_kind(item));
        if (item.kind == VALUE_REAL || total.kind == VALUE_REAL)
            total = (struct value){VALUE_REAL, .as.real = text_value_real(total) + text_value_real(item)};
        else {
            int64_t out;
            if (__builtin_add_overflow(text_value_whole(total), text_value_whole(item), &out))
                return text_value_fail(r, "a whole number of more than 64 bits");
            total = text_value_integer(out);
        }
    }
    return total;
}

// map, select, reject and their variants: the first argument is the name of the filter or test.
static struct value map(struct run *r, struct value v, const struct arguments *args) {
    const struct value *attribute = args->count ? NULL : text_argument(args, 0, "attribute"),
                       *otherwise = args->count ? NULL : text_argument(args, 9, "default");
    struct value from = text_value_items(r, v), out = text_value_list(r, VALUE_LIST);
    struct arguments rest = *args;
    if (!attribute &&
        (!args->count || args->item[0].kind != VALUE_TEXT || !text_is_filter(args->item[0].as.text.data)))
        return text_value_fail(r, "map needs the name of a filter, or an attribute");
    if (!attribute) {
        rest.item++;
        rest.count--;
    }
    for (size_t i = 0; !r->failed && i < from.as.list->count; i++) {
        struct value item = from.as.list->item[i];
        item = attribute ? by_path(r, item, *attribute)
                         : text_filter(r, args->item[0].as.text.data, item, &rest);
        item = item.kind == VALUE_UNDEFINED && otherwise ? *otherwise : item;
        text_value_append(r, out.as.list, item);
    }
    return out;
}

static struct value chosen(struct run *r, struct value v, const struct arguments *args, bool by_attribute,
                           bool keep) {
    struct value from = text_value_items(r, v), out = text_value_list(r, VALUE_LIST);
    int skip = by_attribute;
    if (args->count < skip)
        return text_value_fail(r, "the name of an attribute is missing");
    struct arguments rest = *args;
    bool has_test = args->count > skip;
    if (has_test && (args->item[skip].kind != VALUE_TEXT || !text_is_test(args->item[skip].as.text.data)))
        return text_value_fail(r, "'%s' is no test",
                               args->item[skip].kind == VALUE_TEXT ? args->item[skip].as.text.data : "");
    rest.item += skip + has_test;
    rest.count -= skip + has_test;
    for (size_t i = 0; !r->failed && i < from.as.list->count; i++) {
        struct value item = from.as.list->item[i],
                     what = by_attribute ? by_path(r, item, args->item[0]) : item;
        bool holds = !r->failed && (has_test ? text_test(r, args->item[skip].as.text.data, what, &rest)
                                             : text_value_truth(what));
        if (!r->failed && holds == keep)
            text_value_append(r, out.as.list, item);
    }
    return out;
}

static struct value select_items(struct run *r, struct value v, const struct arguments *args) {
    return chosen(r, v, args, false, true);
}
static struct value reject(struct run *r, struct value v, const struct arguments *args) {
    return chosen(r, v, args, false, false);
}
static struct value selectattr(struct run *r, struct value v, const struct arguments *args) {
    return chosen(r, v, args, true, true);
}
static struct value rejectattr(struct run *r, struct value v, const struct arguments *args) {
    return chosen(r, v, args, true, false);
}

// Texts -----------------------------------------------------------------------------------------------------

static struct value tojson(struct run *r, struct value v, const struct arguments *args) {
    struct text_buffer out = {0};
    bool ok = text_value_json(r, &out, v, args);
    struct value text =
        ok && !r->failed ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

static struct value from_json(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    char error[300];
    text_json_value json = v.kind == VALUE_TEXT ? text_json_parse(v.as.text.data, v.as.text.bytes,
                                                                  "from_json", error, sizeof error)
                                                : NULL;
    if (!json)
        return text_value_fail(r, "%s", v.kind == VALUE_TEXT ? error : "from_json needs a text");
    struct value out = text_value_of_json(r, json);
    text_json_free(json);
    return out;
}

static struct value string(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    return text_value_string(r, v);
}

static struct value trim(struct run *r, struct value v, const struct arguments *args) {
    const struct value *set = text_argument(args, 0, "chars");
    v = text_value_string(r, v);
    bool given = set && set->kind == VALUE_TEXT;
    return r->failed ? v
                     : text_strip(r, v, given ? set->as.text.data : NULL, given ? set->as.text.bytes : 0,
                                  true, true);
}

static struct value by_method(struct run *r, struct value v, const char *name, const struct arguments *args) {
    v = text_value_string(r, v);
    return r->failed ? v : text_method(r, v, name, args);
}

static struct value upper(struct run *r, struct value v, const struct arguments *args) {
    return by_method(r, v, "upper", args);
}
static struct value lower(struct run *r, struct value v, const struct arguments *args) {
    return by_method(r, v, "lower", args);
}
static struct value capitalize(struct run *r, struct value v, const struct arguments *args) {
    return by_method(r, v, "capitalize", args);
}
static struct value replace(struct run *r, struct value v, const struct arguments *args) {
    const struct value *old = text_argument(args, 0, "old"), *new = text_argument(args, 1, "new"),
                       *count = text_argument(args, 2, "count");
    if (!old || !new)
        return text_value_fail(r, "replace needs two texts");
    struct value three[] = {text_value_string(r, *old), text_value_string(r, *new),
                            count ? *count : (struct value){VALUE_NONE}};
    return by_method(r, v, "replace", &(struct arguments){.item = three, .count = 3});
}

// Makes words begin with a capital. They begin after blanks, hyphens and opening brackets.
static struct value title(struct run *r, struct value v, const struct arguments *args) {
    v = by_method(r, v, "lower", args);
    char *data = r->failed ? NULL : (char *)(uintptr_t)v.as.text.data;
    for (size_t i = 0; data && i < v.as.text.bytes; i++)
        if ((i == 0 || strchr("-({[<\t\n\v\f\r ", data[i - 1])) && data[i] >= 'a' && data[i] <= 'z')
            data[i] = (char)(data[i] - 32);
    return v;
}

static struct value indent(struct run *r, struct value v, const struct arguments *args) {
    const struct value *width = text_argument(args, 0, "width"), *at_first = text_argument(args, 1, "first"),
                       *blank = text_argument(args, 2, "blank");
    char spaces[65];
    int count = width && width->kind == VALUE_INTEGER ? (int)(width->as.integer < 0    ? 0
                                                              : width->as.integer > 64 ? 64
                                                                                       : width->as.integer)
                                                      : 4;
    snprintf(spaces, sizeof spaces, "%*s", count, "");
    const char *by = width && width->kind == VALUE_TEXT ? width->as.text.data : spaces;
    v = text_value_string(r, v);
    struct text_buffer out = {0};
    bool ok = text_buffer_add(&out, "", 0);
    for (size_t from = 0; ok && !r->failed && from <= v.as.text.bytes;) {
        const char *line = v.as.text.data + from, *end = memchr(line, '\n', v.as.text.bytes - from);
        size_t bytes = end ? (size_t)(end - line) + 1 : v.as.text.bytes - from;
        bool is_blank = bytes - (end != NULL) == 0,
             indents = from ? !is_blank || (blank && text_value_truth(*blank))
                            : at_first && text_value_truth(*at_first);
        ok = (!indents || text_buffer_text(&out, by)) && text_buffer_add(&out, line, bytes);
        if (!end)
            break;
        from += bytes;
    }
    struct value text =
        ok && !r->failed ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

static struct value escape(struct run *r, struct value v, const struct arguments *args) {
    static const struct {
        char from;
        const char *to;
    } known[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    (void)args;
    v = text_value_string(r, v);
    struct text_buffer out = {0};
    bool ok = text_buffer_add(&out, "", 0);
    for (size_t i = 0; ok && !r->failed && i < v.as.text.bytes; i++) {
        const char *to = NULL;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            to = known[k].from == v.as.text.data[i] ? known[k].to : to;
        ok = to ? text_buffer_text(&out, to) : text_buffer_add(&out, v.as.text.data + i, 1);
    }
    struct value text =
        ok && !r->failed ? text_value_text(r, out.data, out.bytes) : text_value_fail(r, "out of memory");
    free(out.data);
    return text;
}

// Values ----------------------------------------------------------------------------------------------------

static struct value otherwise(struct run *r, struct value v, const struct arguments *args) {
    (void)r;
    const struct value *value = text_argument(args, 0, "default_value"),
                       *falsy = text_argument(args, 1, "boolean");
    bool missing_one =
        v.kind == VALUE_UNDEFINED || (falsy && text_value_truth(*falsy) && !text_value_truth(v));
    return !missing_one ? v : value ? *value : (struct value){VALUE_TEXT, .as.text = {"", 0}};
}

// Sets *out to the number that the text contains, between blanks. Returns false if it is not a number.
static bool number_of(struct run *r, struct value v, bool whole, double *out) {
    struct value text = text_strip(r, v, NULL, 0, true, true);
    char *end;
    const char *data = text.as.text.data;
    if (r->failed || !text.as.text.bytes ||
        strspn(data, whole ? "+-0123456789" : "+-0123456789.eE") != text.as.text.bytes)
        return false;
    *out = strtod(data, &end);
    return !*end;
}

static struct value integer(struct run *r, struct value v, const struct arguments *args) {
    const struct value *given = text_argument(args, 0, "default");
    struct value fallback = given ? *given : text_value_integer(0);
    double number;
    if (v.kind == VALUE_INTEGER || v.kind == VALUE_BOOL)
        return text_value_integer(text_value_whole(v));
    if (v.kind == VALUE_UNDEFINED)
        return missing(r, v);
    if (v.kind == VALUE_TEXT ? !number_of(r, v, false, &number) : v.kind != VALUE_REAL)
        return fallback;
    number = v.kind == VALUE_REAL ? v.as.real : number;
    if (v.kind == VALUE_TEXT && number_of(r, v, true, &number) && v.as.text.bytes < 18)
        return text_value_integer(atoll(text_strip(r, v, NULL, 0, true, true).as.text.data));
    return isfinite(number) && fabs(number) < 9e18 ? text_value_integer((int64_t)number) : fallback;
}

static struct value real(struct run *r, struct value v, const struct arguments *args) {
    const struct value *given = text_argument(args, 0, "default");
    double number;
    if (v.kind == VALUE_UNDEFINED)
        return missing(r, v);
    if (text_value_is_number(v))
        return (struct value){VALUE_REAL, .as.real = text_value_real(v)};
    if (v.kind == VALUE_TEXT && number_of(r, v, false, &number))
        return (struct value){VALUE_REAL, .as.real = number};
    return given ? *given : (struct value){VALUE_REAL, .as.real = 0};
}

static struct value absolute(struct run *r, struct value v, const struct arguments *args) {
    (void)args;
    if (v.kind == VALUE_UNDEFINED)
        return missing(r, v);
    if (!text_value_is_number(v) || (v.kind == VALUE_INTEGER && v.as.integer == INT64_MIN))
        return text_value_fail(r, "abs needs a number, not '%s'", text_value_kind(v));
    if (v.kind == VALUE_REAL)
        return (struct value){VALUE_REAL, .as.real = fabs(v.as.real)};
    int64_t whole = text_value_whole(v);
    return text_value_integer(whole < 0 ? -whole : whole);
}

static struct value rounded(struct run *r, struct value v, const struct arguments *args) {
    const struct value *digits = text_argument(args, 0, "precision"), *how = text_argument(args, 1, "method");
    int64_t count = digits && digits->kind == VALUE_INTEGER ? digits->as.integer : 0;
    if (!text_value_is_number(v) || count < 0 || count > 15)
        return text_value_fail(r, "round needs a number, and a precision from 0 to 15");
    double x = text_value_real(v), scale = pow(10, (double)count);
    char text[400];
    bool is_ceil = how && how->kind == VALUE_TEXT && !strcmp(how->as.text.data, "ceil"),
         is_floor = how && how->kind == VALUE_TEXT && !strcmp(how->as.text.data, "floor");
    if (is_ceil || is_floor)
        x = (is_ceil ? ceil(x * scale) : floor(x * scale)) / scale;
    else {
        snprintf(text, sizeof text, "%.*f", (int)count, x); // correctly rounded, half to even
        x = strtod(text, NULL);
    }
    if (v.kind != VALUE_REAL && !is_ceil && !is_floor)
        return text_value_integer(text_value_whole(v));
    return (struct value){VALUE_REAL, .as.real = x};
}

static const struct {
    const char *name;
    struct value (*run)(struct run *r, struct value v, const struct arguments *args);
} filters[] = {
    {"tojson", tojson},
    {"length", length},
    {"count", length},
    {"trim", trim},
    {"items", items},
    {"string", string},
    {"safe", string},
    {"default", otherwise},
    {"d", otherwise},
    {"join", join},
    {"first", first},
    {"last", last},
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"replace", replace},
    {"list", list},
    {"int", integer},
    {"float", real},
    {"abs", absolute},
    {"round", rounded},
    {"reverse", reversed},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"map", map},
    {"select", select_items},
    {"reject", reject},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
    {"min", least},
    {"max", greatest},
    {"sum", sum},
    {"indent", indent},
    {"escape", escape},
    {"e", escape},
    {"from_json", from_json},
};

bool text_is_filter(const char *name) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(filters[i].name, name))
            return true;
    return false;
}

struct value text_filter(struct run *r, const char *name, struct value in, const struct arguments *args) {
    size_t i = 0;
    while (strcmp(filters[i].name, name) != 0)
        i++;
    return filters[i].run(r, in, args);
}

// Tests -----------------------------------------------------------------------------------------------------

// Returns the remainder of a division, with the sign of the divisor.
static double rest_of(struct run *r, struct value v, double by) {
    if (!text_value_is_number(v))
        text_value_fail(r, "this test needs a number, not '%s'", text_value_kind(v));
    else if (by == 0)
        text_value_fail(r, "division by zero");
    if (r->failed)
        return 0;
    double rest =
        v.kind == VALUE_REAL
            ? fmod(v.as.real, by)
            : (double)(text_value_whole(v) % (fabs(by) < 9e18 && by == floor(by) ? (int64_t)by : 1));
    return rest != 0 && (rest < 0) != (by < 0) ? rest + by : rest;
}

enum test {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_STRING,
    TEST_MAPPING,
    TEST_ITERABLE,
    TEST_SEQUENCE,
    TEST_TRUE,
    TEST_FALSE,
    TEST_BOOLEAN,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_NUMBER,
    TEST_ODD,
    TEST_EVEN,
    TEST_DIVISIBLE,
    TEST_CALLABLE,
    TEST_IN,
    TEST_EQUAL,
    TEST_NOT_EQUAL,
    TEST_LESS,
    TEST_GREATER,
    TEST_LESS_EQUAL,
    TEST_GREATER_EQUAL,
    TEST_LOWER,
    TEST_UPPER
};
static const struct {
    const char *name;
    enum test test;
    int arguments;
} tests[] = {
    {"defined", TEST_DEFINED, 0},
    {"undefined", TEST_UNDEFINED, 0},
    {"none", TEST_NONE, 0},
    {"string", TEST_STRING, 0},
    {"mapping", TEST_MAPPING, 0},
    {"iterable", TEST_ITERABLE, 0},
    {"sequence", TEST_SEQUENCE, 0},
    {"true", TEST_TRUE, 0},
    {"false", TEST_FALSE, 0},
    {"boolean", TEST_BOOLEAN, 0},
    {"integer", TEST_INTEGER, 0},
    {"float", TEST_FLOAT, 0},
    {"number", TEST_NUMBER, 0},
    {"odd", TEST_ODD, 0},
    {"even", TEST_EVEN, 0},
    {"divisibleby", TEST_DIVISIBLE, 1},
    {"callable", TEST_CALLABLE, 0},
    {"in", TEST_IN, 1},
    {"eq", TEST_EQUAL, 1},
    {"equalto", TEST_EQUAL, 1},
    {"ne", TEST_NOT_EQUAL, 1},
    {"lt", TEST_LESS, 1},
    {"lessthan", TEST_LESS, 1},
    {"gt", TEST_GREATER, 1},
    {"greaterthan", TEST_GREATER, 1},
    {"le", TEST_LESS_EQUAL, 1},
    {"ge", TEST_GREATER_EQUAL, 1},
    {"lower", TEST_LOWER, 0},
    {"upper", TEST_UPPER, 0},
};

bool text_is_test(const char *name) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, name))
            return true;
    return false;
}

static bool one_argument(struct run *r, enum test test, struct value v, struct value other) {
    if (test == TEST_IN)
        return text_value_contains(r, other, v);
    if (test == TEST_EQUAL || test == TEST_NOT_EQUAL)
        return text_value_equal(r, v, other) == (test == TEST_EQUAL);
    if (test == TEST_DIVISIBLE) {
        if (!text_value_is_number(other))
            text_value_fail(r, "divisibleby needs a number, not '%s'", text_value_kind(other));
        return !r->failed && rest_of(r, v, text_value_real(other)) == 0 && !r->failed;
    }
    int order = text_value_order(r, v, other);
    return test == TEST_LESS         ? order < 0
           : test == TEST_GREATER    ? order > 0
           : test == TEST_LESS_EQUAL ? order <= 0
                                     : order >= 0;
}

bool text_test(struct run *r, const char *name, struct value v, const struct arguments *args) {
    size_t i = 0;
    while (strcmp(tests[i].name, name) != 0)
        i++;
    if (args->count != tests[i].arguments || args->named_count) {
        text_value_fail(r, "the test '%s' takes %d values, not %d", name, tests[i].arguments,
                        args->count + args->named_count);
        return false;
    }
    bool listed = is_listed(v) || v.kind == VALUE_DICT || v.kind == VALUE_TEXT;
    switch (tests[i].test) {
    case TEST_DEFINED: return v.kind != VALUE_UNDEFINED;
    case TEST_UNDEFINED: return v.kind == VALUE_UNDEFINED;
    case TEST_NONE: return v.kind == VALUE_NONE;
    case TEST_STRING: return v.kind == VALUE_TEXT;
    case TEST_MAPPING: return v.kind == VALUE_DICT;
    case TEST_ITERABLE: return listed || v.kind == VALUE_UNDEFINED || v.kind == VALUE_LOOP;
    case TEST_SEQUENCE: return listed || v.kind == VALUE_UNDEFINED;
    case TEST_TRUE: return v.kind == VALUE_BOOL && v.as.truth;
    case TEST_FALSE: return v.kind == VALUE_BOOL && !v.as.truth;
    case TEST_BOOLEAN: return v.kind == VALUE_BOOL;
    case TEST_INTEGER: return v.kind == VALUE_INTEGER;
    case TEST_FLOAT: return v.kind == VALUE_REAL;
    case TEST_NUMBER: return text_value_is_number(v);
    case TEST_ODD: return rest_of(r, v, 2) == 1;
    case TEST_EVEN: return rest_of(r, v, 2) == 0 && !r->failed;
    case TEST_CALLABLE: return v.kind >= VALUE_MACRO || v.kind == VALUE_UNDEFINED; // as in Jinja
    case TEST_LOWER:
    case TEST_UPPER:
        v = text_value_string(r, v);
        return !r->failed &&
               text_method(r, v, tests[i].test == TEST_LOWER ? "islower" : "isupper", &(struct arguments){0})
                   .as.truth;
    default: return one_argument(r, tests[i].test, v, args->item[0]);
    }
}
