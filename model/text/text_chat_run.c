// text_chat_run.c - runs the syntax tree of a template: evaluates expressions, and writes the text of
// statements.

#include "text_chat.h"

#include <math.h>
#include <time.h>

enum { MOST_CALLS = 100, MOST_OUTPUT = 64 << 20 };
static const struct value none = {VALUE_NONE};

static struct value evaluate(struct run *r, const struct node *n);
static void run(struct run *r, const struct node *n);

bool text_run_step(struct run *r) {
    if (++r->steps > r->options->most_steps)
        text_value_fail(r, "the template takes more than %lld steps", (long long)r->options->most_steps);
    return !r->failed;
}

// Names -----------------------------------------------------------------------------------------------------

static void bind(struct run *r, const char *name, struct value v) {
    struct scope *s = &r->scope;
    if (s->count == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 32;
        struct binding *bigger = realloc(s->item, cap * sizeof *bigger);
        if (!bigger) {
            text_value_fail(r, "out of memory");
            return;
        }
        s->item = bigger;
        s->cap = cap;
    }
    s->item[s->count++] = (struct binding){name, v};
}

// Assigns to a name in the current frame: that of a loop, of a macro, or the outermost one.
static void assign(struct run *r, const char *name, struct value v) {
    for (size_t i = r->scope.count; i-- > r->scope.frame;)
        if (!strcmp(r->scope.item[i].name, name)) {
            r->scope.item[i].value = v;
            return;
        }
    bind(r, name, v);
    if (r->scope.frame == 0)
        r->scope.outer = r->scope.count;
}

static const struct value *look_up(const struct run *r, const char *name) {
    const struct scope *s = &r->scope;
    for (size_t i = s->count; i-- > s->floor;)
        if (!strcmp(s->item[i].name, name))
            return &s->item[i].value;
    for (size_t i = s->floor < s->outer ? s->floor : s->outer; i-- > 0;)
        if (!strcmp(s->item[i].name, name))
            return &s->item[i].value;
    return NULL;
}

static struct value name_value(struct run *r, const char *name) {
    static const char *const functions[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};
    const struct value *found = look_up(r, name);
    if (found)
        return *found;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i], name))
            return (struct value){VALUE_FUNCTION, .as.name = functions[i]};
    return (struct value){.as.name = name};
}

// Attributes ------------------------------------------------------------------------------------------------

static struct value loop_attribute(struct run *r, struct loop *l, const char *name) {
    int64_t index = (int64_t)l->index, count = (int64_t)l->items->count;
    struct value missing = {.as.name = name};
    const struct {
        const char *name;
        struct value value;
    } known[] = {
        {"index", text_value_integer(index + 1)},
        {"index0", text_value_integer(index)},
        {"revindex", text_value_integer(count - index)},
        {"revindex0", text_value_integer(count - index - 1)},
        {"first", text_value_bool(index == 0)},
        {"last", text_value_bool(index == count - 1)},
        {"length", text_value_integer(count)},
        {"depth", text_value_integer(l->depth)},
        {"depth0", text_value_integer(l->depth - 1)},
        {"previtem", index > 0 ? l->items->item[index - 1] : missing},
        {"nextitem", index + 1 < count ? l->items->item[index + 1] : missing},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            return known[i].value;
    if (strcmp(name, "cycle") && strcmp(name, "changed"))
        return missing;
    struct method *m = text_run_memory(r, sizeof *m);
    if (!m)
        return missing;
    *m = (struct method){{VALUE_LOOP, .as.loop = l}, name};
    return (struct value){VALUE_METHOD, .as.method = m};
}

struct value text_chat_attribute(struct run *r, struct value v, const char *name) {
    if (v.kind == VALUE_UNDEFINED)
        return text_value_fail(r, "'%s' is undefined", v.as.name);
    if (v.kind == VALUE_LOOP)
        return loop_attribute(r, v.as.loop, name);
    if (text_is_method(v, name)) {
        struct method *m = text_run_memory(r, sizeof *m);
        if (m)
            *m = (struct method){v, name};
        return m ? (struct value){VALUE_METHOD, .as.method = m} : v;
    }
    if (v.kind == VALUE_MACRO && !strcmp(name, "name"))
        return text_value_text(r, v.as.macro->text, strlen(v.as.macro->text));
    const struct value *found =
        v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE ? text_value_find(v.as.dict, name) : NULL;
    return found ? *found : (struct value){.as.name = name};
}

static struct value item(struct run *r, struct value v, struct value index) {
    if (v.kind == VALUE_UNDEFINED)
        return text_value_fail(r, "'%s' is undefined", v.as.name);
    struct value found = text_value_index(r, v, index);
    if (found.kind != VALUE_UNDEFINED || index.kind != VALUE_TEXT || r->failed)
        return found;
    found = v.kind == VALUE_DICT && !text_is_method(v, index.as.text.data)
                ? found
                : text_chat_attribute(r, v, index.as.text.data);
    if (found.kind == VALUE_UNDEFINED)
        found.as.name = index.as.text.data;
    return found;
}

// Arithmetic ------------------------------------------------------------------------------------------------

static struct value repeat(struct run *r, struct value v, int64_t times) {
    times = times > 0 ? times : 0;
    if (v.kind != VALUE_TEXT) {
        struct value out = text_value_list(r, v.kind);
        for (int64_t k = 0; !r->failed && v.as.list->count && k < times; k++)
            for (size_t i = 0; !r->failed && i < v.as.list->count; i++)
                text_value_append(r, out.as.list, v.as.list->item[i]);
        return out;
    }
    size_t bytes = v.as.text.bytes;
    if (bytes && times > (MOST_OUTPUT / (int64_t)bytes))
        return text_value_fail(r, "a text of more than %d MiB", MOST_OUTPUT >> 20);
    char *data = text_run_memory(r, bytes * (size_t)times + 1);
    for (int64_t k = 0; data && bytes && k < times; k++)
        memcpy(data + (size_t)k * bytes, v.as.text.data, bytes);
    if (!data)
        return none;
    data[bytes * (size_t)times] = 0;
    return (struct value){VALUE_TEXT, .as.text = {data, bytes * (size_t)times}};
}

static struct value joined(struct run *r, struct value a, struct value b) {
    if (a.kind == VALUE_TEXT) {
        char *data = text_run_memory(r, a.as.text.bytes + b.as.text.bytes + 1);
        if (!data)
            return none;
        memcpy(data, a.as.text.data, a.as.text.bytes);
        memcpy(data + a.as.text.bytes, b.as.text.data, b.as.text.bytes + 1);
        return (struct value){VALUE_TEXT, .as.text = {data, a.as.text.bytes + b.as.text.bytes}};
    }
    struct value out = text_value_list(r, a.kind);
    const struct value_list *lists[] = {a.as.list, b.as.list};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; !r->failed && i < lists[k]->count; i++)
            text_value_append(r, out.as.list, lists[k]->item[i]);
    return out;
}

static struct value real_arithmetic(struct run *r, const char *word, double a, double b) {
    double out = 0;
    if ((*word == '/' || *word == '%') && b == 0)
        return text_value_fail(r, "division by zero");
    if (!strcmp(word, "+"))
        out = a + b;
    else if (!strcmp(word, "-"))
        out = a - b;
    else if (!strcmp(word, "*"))
        out = a * b;
    else if (!strcmp(word, "/"))
        out = a / b;
    else if (!strcmp(word, "//")) {
        double rest = fmod(a, b);
        out = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0));
        out = out ? floor(out) + (out - floor(out) > 0.5) : copysign(0, a / b);
    } else if (!strcmp(word, "%")) {
        out = fmod(a, b);
        out = out != 0 ? ((out < 0) != (b < 0) ? out + b : out) : copysign(0, b);
    } else {
        out = pow(a, b);
        if (!isfinite(out) && isfinite(a) && isfinite(b))
            return text_value_fail(r, "the power is no finite number");
    }
    return (struct value){VALUE_REAL, .as.real = out};
}

static bool whole_power(int64_t a, int64_t b, int64_t *out) {
    *out = 1;
    for (bool first = true; b > 0; b >>= 1, first = false) {
        if (!first && __builtin_mul_overflow(a, a, &a))
            return false;
        if (b & 1 && __builtin_mul_overflow(*out, a, out))
            return false;
    }
    return true;
}

static struct value whole_arithmetic(struct run *r, const char *word, int64_t a, int64_t b) {
    int64_t out = 0;
    bool fits = true;
    if ((*word == '/' || *word == '%') && b == 0)
        return text_value_fail(r, "division by zero");
    if (!strcmp(word, "/") || (!strcmp(word, "**") && b < 0)) {
        if (!a && *word == '*')
            return text_value_fail(r, "0 has no negative power");
        return real_arithmetic(r, word, (double)a, (double)b);
    }
    if (*word == '+')
        fits = !__builtin_add_overflow(a, b, &out);
    else if (*word == '-')
        fits = !__builtin_sub_overflow(a, b, &out);
    else if (!strcmp(word, "*"))
        fits = !__builtin_mul_overflow(a, b, &out);
    else if (!strcmp(word, "**"))
        fits = whole_power(a, b, &out);
    else if (b == -1) // the only division whose result may not fit
        fits = *word == '%' || !__builtin_sub_overflow((int64_t)0, a, &out);
    else {
        int64_t rest = a % b;
        bool down = rest != 0 && (rest < 0) != (b < 0);
        out = *word == '%' ? rest + (down ? b : 0) : a / b - down;
    }
    return fits ? text_value_integer(out) : text_value_fail(r, "a whole number of more than 64 bits");
}

static struct value binary(struct run *r, const char *word, struct value a, struct value b) {
    bool a_list = a.kind == VALUE_TEXT || a.kind == VALUE_LIST || a.kind == VALUE_TUPLE;
    bool b_list = b.kind == VALUE_TEXT || b.kind == VALUE_LIST || b.kind == VALUE_TUPLE;
    bool a_whole = a.kind == VALUE_INTEGER || a.kind == VALUE_BOOL,
         b_whole = b.kind == VALUE_INTEGER || b.kind == VALUE_BOOL;
    if (!strcmp(word, "~")) {
        struct value x = text_value_string(r, a), y = text_value_string(r, b);
        return r->failed ? none : joined(r, x, y);
    }
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED)
        return text_value_fail(r, "'%s' is undefined", a.kind == VALUE_UNDEFINED ? a.as.name : b.as.name);
    if (a_whole && b_whole)
        return whole_arithmetic(r, word, text_value_whole(a), text_value_whole(b));
    if (text_value_is_number(a) && text_value_is_number(b))
        return real_arithmetic(r, word, text_value_real(a), text_value_real(b));
    if (!strcmp(word, "+") && a_list && a.kind == b.kind)
        return joined(r, a, b);
    if (!strcmp(word, "*") && ((a_list && b_whole) || (b_list && a_whole)))
        return a_list ? repeat(r, a, text_value_whole(b)) : repeat(r, b, text_value_whole(a));
    return text_value_fail(r, "'%s' does not take '%s' and '%s'", word, text_value_kind(a),
                           text_value_kind(b));
}

static bool holds(struct run *r, const char *word, struct value a, struct value b) {
    if (!strcmp(word, "=="))
        return text_value_equal(r, a, b);
    if (!strcmp(word, "!="))
        return !text_value_equal(r, a, b);
    if (!strcmp(word, "in"))
        return text_value_contains(r, b, a);
    if (!strcmp(word, "not in"))
        return !text_value_contains(r, b, a);
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        text_value_fail(r, "'%s' is undefined", a.kind == VALUE_UNDEFINED ? a.as.name : b.as.name);
        return false;
    }
    bool is_nan = (a.kind == VALUE_REAL && isnan(a.as.real)) || (b.kind == VALUE_REAL && isnan(b.as.real));
    int order = text_value_order(r, a, b);
    return !is_nan && (*word == '<' ? order < 0 || (word[1] && !order) : order > 0 || (word[1] && !order));
}

static struct value compare(struct run *r, const struct node *n) {
    struct value left = evaluate(r, n->a);
    bool all = true;
    for (int i = 0; all && !r->failed && i < n->count; i++) {
        struct value right = evaluate(r, n->item[i]);
        r->at = n->at;
        all = !r->failed && holds(r, n->word[i], left, right);
        left = right;
    }
    return text_value_bool(all);
}

// Calls -----------------------------------------------------------------------------------------------------

// Evaluates arguments and stores them in the arena.
static struct arguments take_arguments(struct run *r, const struct node *n) {
    struct arguments args = {0};
    struct value *items = text_run_memory(r, sizeof *items * (size_t)(2 * n->count + 1));
    const char **names = text_run_memory(r, sizeof *names * (size_t)(n->count + 1));
    if (!items || !names)
        return args;
    struct value *named = items + n->count;
    for (int i = 0; !r->failed && i < n->count; i++)
        if (n->item[i]->kind == NODE_NAMED) {
            names[args.named_count] = n->item[i]->text;
            named[args.named_count++] = evaluate(r, n->item[i]->a);
        } else
            items[args.count++] = evaluate(r, n->item[i]);
    args.item = items;
    args.named = named;
    args.name = names;
    return args;
}

// Runs a body, in a frame of names of its own, and returns its text as a value.
static struct value captured(struct run *r, const struct node *n) {
    struct text_buffer outer = r->out;
    size_t frame = r->scope.frame, count = r->scope.count;
    r->scope.frame = count;
    r->out = (struct text_buffer){0};
    run(r, n);
    struct value text = text_value_text(r, r->out.data, r->failed ? 0 : r->out.bytes);
    free(r->out.data);
    r->out = outer;
    r->scope.frame = frame;
    r->scope.count = count;
    return text;
}

static struct value call_macro(struct run *r, const struct node *m, const struct arguments *args) {
    struct scope *s = &r->scope;
    size_t count = s->count, floor = s->floor, frame = s->frame;
    if (r->calls >= MOST_CALLS)
        return text_value_fail(r, "macros call each other in more than %d levels", MOST_CALLS);
    if (args->count > m->count)
        return text_value_fail(r, "macro '%s' takes %d arguments, not %d", m->text, m->count, args->count);
    for (int i = 0; i < args->named_count; i++) {
        int place = 0;
        while (place < m->count && strcmp(m->item[place]->text, args->name[i]) != 0)
            place++;
        if (place == m->count || place < args->count)
            return text_value_fail(r, "macro '%s' has no argument '%s', or gets it twice", m->text,
                                   args->name[i]);
    }
    r->calls++;
    size_t at = r->at;
    s->floor = s->frame = count;
    for (int i = 0; !r->failed && i < m->count; i++) {
        const struct value *given = text_argument(args, i, m->item[i]->text);
        struct value v = given           ? *given
                         : m->item[i]->a ? evaluate(r, m->item[i]->a)
                                         : (struct value){.as.name = m->item[i]->text};
        bind(r, m->item[i]->text, v);
    }
    struct value text = r->failed ? none : captured(r, m->b);
    s->floor = floor;
    s->frame = frame;
    s->count = count;
    r->at = at;
    r->calls--;
    return text;
}

static struct value make_range(struct run *r, const struct arguments *args) {
    int64_t part[3] = {0, 0, 1};
    for (int i = 0; i < args->count && i < 3; i++) {
        if (args->item[i].kind != VALUE_INTEGER && args->item[i].kind != VALUE_BOOL)
            return text_value_fail(r, "range needs whole numbers, not '%s'", text_value_kind(args->item[i]));
        part[i] = text_value_whole(args->item[i]);
    }
    if (args->count < 1 || args->count > 3 || args->named_count)
        return text_value_fail(r, "range takes one to three numbers");
    if (args->count == 1) {
        part[1] = part[0];
        part[0] = 0;
    }
    if (part[2] == 0)
        return text_value_fail(r, "the step of range is 0");
    struct value out = text_value_list(r, VALUE_LIST);
    for (int64_t i = part[0]; !r->failed && (part[2] > 0 ? i < part[1] : i > part[1]);) {
        if (out.as.list->count >= 100000)
            return text_value_fail(r, "range has more than 100000 numbers");
        text_value_append(r, out.as.list, text_value_integer(i));
        if (__builtin_add_overflow(i, part[2], &i))
            break;
    }
    return out;
}

static struct value call_function(struct run *r, const char *name, const struct arguments *args) {
    if (!strcmp(name, "range"))
        return make_range(r, args);
    if (!strcmp(name, "raise_exception")) {
        struct value why = args->count ? text_value_string(r, args->item[0]) : none;
        return text_value_fail(r, "the template refuses: %.400s",
                               why.kind == VALUE_TEXT ? why.as.text.data : "");
    }
    if (!strcmp(name, "strftime_now")) {
        char text[128] = "";
        struct tm now;
        time_t seconds = time(NULL);
        if (args->count != 1 || args->item[0].kind != VALUE_TEXT || !localtime_r(&seconds, &now))
            return text_value_fail(r, "strftime_now needs a format");
        size_t bytes = strftime(text, sizeof text, args->item[0].as.text.data, &now);
        return text_value_text(r, text, bytes);
    }
    struct value out = text_value_dict(r); // dict and namespace
    if (args->count > 1 || (args->count && args->item[0].kind != VALUE_DICT))
        return text_value_fail(r, "%s takes a dict, and values by name", name);
    for (size_t i = 0; !r->failed && args->count && i < args->item[0].as.dict->count; i++)
        text_value_set(r, out.as.dict, args->item[0].as.dict->key[i], args->item[0].as.dict->value[i]);
    for (int i = 0; !r->failed && i < args->named_count; i++)
        text_value_set(r, out.as.dict, text_value_text(r, args->name[i], strlen(args->name[i])),
                       args->named[i]);
    out.kind = r->failed ? VALUE_NONE : *name == 'n' ? VALUE_NAMESPACE : VALUE_DICT;
    return out;
}

static struct value call_loop(struct run *r, struct loop *l, const char *name, const struct arguments *args) {
    if (!strcmp(name, "cycle"))
        return args->count ? args->item[l->index % (size_t)args->count]
                           : text_value_fail(r, "loop.cycle needs values");
    struct value all = text_value_list(r, VALUE_TUPLE);
    for (int i = 0; !r->failed && i < args->count; i++)
        text_value_append(r, all.as.list, args->item[i]);
    bool changed = !l->has_changed || (!r->failed && !text_value_equal(r, l->last_changed, all));
    l->last_changed = all;
    l->has_changed = true;
    return text_value_bool(changed);
}

static struct value call(struct run *r, const struct node *n) {
    struct value what = evaluate(r, n->a);
    struct arguments args = r->failed ? (struct arguments){0} : take_arguments(r, n);
    r->at = n->at;
    if (r->failed)
        return none;
    switch (what.kind) {
    case VALUE_MACRO: return call_macro(r, what.as.macro, &args);
    case VALUE_FUNCTION: return call_function(r, what.as.name, &args);
    case VALUE_METHOD:
        return what.as.method->self.kind == VALUE_LOOP
                   ? call_loop(r, what.as.method->self.as.loop, what.as.method->name, &args)
                   : text_method(r, what.as.method->self, what.as.method->name, &args);
    case VALUE_UNDEFINED: return text_value_fail(r, "'%s' is undefined", what.as.name);
    default: return text_value_fail(r, "a '%s' cannot be called", text_value_kind(what));
    }
}

// Expressions -----------------------------------------------------------------------------------------------

static struct value collected(struct run *r, const struct node *n) {
    struct value out = n->kind == NODE_DICT
                           ? text_value_dict(r)
                           : text_value_list(r, n->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE);
    for (int i = 0; !r->failed && i < n->count; i++) {
        struct value v = evaluate(r, n->item[i]);
        if (n->kind != NODE_DICT)
            text_value_append(r, out.as.list, v);
        else if (!r->failed) {
            struct value second = evaluate(r, n->item[++i]);
            if (!r->failed)
                text_value_set(r, out.as.dict, v, second);
        }
    }
    return out;
}

static struct value sliced(struct run *r, const struct node *n) {
    struct value v = evaluate(r, n->a);
    struct value from = n->b ? evaluate(r, n->b) : none, to = n->c ? evaluate(r, n->c) : none,
                 step = n->d ? evaluate(r, n->d) : none;
    r->at = n->at;
    return r->failed ? none : text_value_slice(r, v, from, to, step);
}

static struct value filtered(struct run *r, const struct node *n) {
    struct value in = evaluate(r, n->a);
    struct arguments args = r->failed ? (struct arguments){0} : take_arguments(r, n);
    r->at = n->at;
    if (r->failed)
        return none;
    return n->kind == NODE_FILTER ? text_filter(r, n->text, in, &args)
                                  : text_value_bool(text_test(r, n->text, in, &args));
}

static struct value signed_value(struct run *r, const struct node *n) {
    struct value v = evaluate(r, n->a);
    r->at = n->at;
    if (r->failed)
        return none;
    if (v.kind == VALUE_UNDEFINED)
        return text_value_fail(r, "'%s' is undefined", v.as.name);
    if (!text_value_is_number(v))
        return text_value_fail(r, "a '%s' has no sign", text_value_kind(v));
    if (v.kind == VALUE_REAL)
        return (struct value){VALUE_REAL, .as.real = n->kind == NODE_NEGATIVE ? -v.as.real : v.as.real};
    return n->kind == NODE_NEGATIVE ? whole_arithmetic(r, "-", 0, text_value_whole(v))
                                    : text_value_integer(text_value_whole(v));
}

static struct value binary_node(struct run *r, const struct node *n) {
    struct value a = evaluate(r, n->a), b = r->failed ? none : evaluate(r, n->b);
    r->at = n->at;
    return r->failed ? none : binary(r, n->text, a, b);
}

static struct value evaluate(struct run *r, const struct node *n) {
    struct value v;
    r->at = n->at;
    if (!text_run_step(r))
        return none;
    switch (n->kind) {
    case NODE_NAME: return name_value(r, n->text);
    case NODE_CAPTURED: return r->body;
    case NODE_TEXT: return (struct value){VALUE_TEXT, .as.text = {n->text, n->bytes}};
    case NODE_INTEGER: return text_value_integer(n->integer);
    case NODE_REAL: return (struct value){VALUE_REAL, .as.real = n->real};
    case NODE_TRUE:
    case NODE_FALSE: return text_value_bool(n->kind == NODE_TRUE);
    case NODE_LIST:
    case NODE_TUPLE:
    case NODE_DICT: return collected(r, n);
    case NODE_ATTRIBUTE:
        v = evaluate(r, n->a);
        r->at = n->at;
        return r->failed ? none : text_chat_attribute(r, v, n->text);
    case NODE_ITEM: {
        v = evaluate(r, n->a);
        struct value index = r->failed ? none : evaluate(r, n->b);
        r->at = n->at;
        return r->failed ? none : item(r, v, index);
    }
    case NODE_SLICE: return sliced(r, n);
    case NODE_CALL: return call(r, n);
    case NODE_FILTER:
    case NODE_TEST: return filtered(r, n);
    case NODE_NOT: v = evaluate(r, n->a); return text_value_bool(!text_value_truth(v));
    case NODE_NEGATIVE:
    case NODE_POSITIVE: return signed_value(r, n);
    case NODE_AND: v = evaluate(r, n->a); return r->failed || !text_value_truth(v) ? v : evaluate(r, n->b);
    case NODE_OR: v = evaluate(r, n->a); return r->failed || text_value_truth(v) ? v : evaluate(r, n->b);
    case NODE_CONDITION:
        v = evaluate(r, n->a);
        return r->failed             ? none
               : text_value_truth(v) ? evaluate(r, n->b)
               : n->c                ? evaluate(r, n->c)
                                     : (struct value){.as.name = "the else of a condition"};
    case NODE_COMPARE: return compare(r, n);
    case NODE_BINARY: return binary_node(r, n);
    default: return none;
    }
}

// Statements ------------------------------------------------------------------------------------------------

static void write(struct run *r, const char *data, size_t bytes) {
    r->written += bytes;
    if (r->written > MOST_OUTPUT)
        text_value_fail(r, "the template writes more than %d MiB", MOST_OUTPUT >> 20);
    else if (!text_buffer_add(&r->out, data, bytes))
        text_value_fail(r, "out of memory");
}

static void output(struct run *r, const struct node *n) {
    struct value v = evaluate(r, n->a);
    r->at = n->at;
    v = r->failed ? none : text_value_string(r, v);
    if (!r->failed)
        write(r, v.as.text.data, v.as.text.bytes);
}

static void set(struct run *r, const struct node *target, struct value v) {
    if (target->kind == NODE_NAME) {
        assign(r, target->text, v);
        return;
    }
    r->at = target->at;
    if (target->kind == NODE_ATTRIBUTE) {
        struct value space = name_value(r, target->a->text);
        if (space.kind == VALUE_NAMESPACE)
            text_value_set(r, space.as.dict, text_value_text(r, target->text, strlen(target->text)), v);
        else
            text_value_fail(r, "'%s' is no namespace: only members of one can be set", target->a->text);
        return;
    }
    struct value items = text_value_items(r, v);
    if (r->failed)
        return;
    if (items.as.list->count != (size_t)target->count) {
        text_value_fail(r, "%d names for %zu values", target->count, items.as.list->count);
        return;
    }
    for (int i = 0; !r->failed && i < target->count; i++)
        set(r, target->item[i], items.as.list->item[i]);
}

static void for_loop(struct run *r, const struct node *n) {
    size_t frame = r->scope.frame;
    struct value items = evaluate(r, n->b);
    r->at = n->at;
    items = r->failed ? none : text_value_items(r, items);
    size_t outer = r->scope.count;
    if (r->failed)
        return;
    if (n->item[0]) { // a loop with a condition runs over the items that satisfy it
        struct value kept = text_value_list(r, VALUE_LIST);
        for (size_t i = 0; !r->failed && i < items.as.list->count; i++) {
            r->scope.frame = outer;
            set(r, n->a, items.as.list->item[i]);
            bool keep = !r->failed && text_value_truth(evaluate(r, n->item[0]));
            r->scope.count = outer;
            r->scope.frame = frame;
            if (keep && !r->failed)
                text_value_append(r, kept.as.list, items.as.list->item[i]);
        }
        items = kept;
    }
    struct loop *l = r->failed ? NULL : text_run_memory(r, sizeof *l);
    if (!l)
        return;
    *l = (struct loop){.items = items.as.list, .depth = 1};
    bool completed = false;
    r->scope.frame = outer;
    for (; l->index < l->items->count && text_run_step(r); l->index++) {
        bind(r, "loop", (struct value){VALUE_LOOP, .as.loop = l});
        set(r, n->a, l->items->item[l->index]);
        run(r, n->c);
        r->scope.count = outer;
        completed = completed || (!r->breaks && !r->continues);
        r->continues = false;
        if (r->breaks || r->failed)
            break;
    }
    r->breaks = false;
    if (!completed && n->d) // as in Jinja, also if `continue` ended every iteration early
        run(r, n->d);
    r->scope.count = outer;
    r->scope.frame = frame;
}

static void set_body(struct run *r, const struct node *n) {
    struct value text = captured(r, n->b);
    if (n->c && !r->failed) { // apply the filters, whose input is the node NODE_CAPTURED
        struct value outer = r->body;
        r->body = text;
        text = evaluate(r, n->c);
        r->body = outer;
    }
    if (!r->failed)
        set(r, n->a, text);
}

static void run(struct run *r, const struct node *n) {
    if (r->failed || r->breaks || r->continues)
        return;
    r->at = n->at;
    if (!text_run_step(r))
        return;
    struct value v;
    switch (n->kind) {
    case NODE_BODY:
        for (int i = 0; i < n->count; i++)
            run(r, n->item[i]);
        break;
    case NODE_DATA: write(r, n->text, n->bytes); break;
    case NODE_OUTPUT: output(r, n); break;
    case NODE_IF:
        v = evaluate(r, n->a);
        if (!r->failed && text_value_truth(v))
            run(r, n->b);
        else if (!r->failed && n->c)
            run(r, n->c);
        break;
    case NODE_FOR: for_loop(r, n); break;
    case NODE_SET:
        v = evaluate(r, n->b);
        if (!r->failed)
            set(r, n->a, v);
        break;
    case NODE_SET_BODY: set_body(r, n); break;
    case NODE_MACRO: assign(r, n->text, (struct value){VALUE_MACRO, .as.macro = n}); break;
    case NODE_BREAK: r->breaks = true; break;
    case NODE_CONTINUE: r->continues = true; break;
    default: break;
    }
}

void text_chat_define(struct run *r, const char *name, struct value v) {
    if (!r->failed)
        assign(r, name, v);
}

bool text_chat_run(struct run *r) {
    run(r, r->t->root);
    return !r->failed;
}
