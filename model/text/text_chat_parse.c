// text_chat_parse.c - parses tokens into a syntax tree, by recursive descent with Jinja's precedence of
// operators.

#include "text_chat.h"

enum { MOST_DEPTH = 200 };

struct parser {
    struct text_template *t;
    const struct token *at;
    int depth, loops;
};

struct nodes { // a list that is being collected
    struct node **item;
    const char **word;
    int count, cap;
};

static struct node *wrong(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static struct node *wrong(struct parser *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_chat_fail(p->t, p->at->at, p->t->error, p->t->error_bytes, format, list);
    va_end(list);
    return NULL;
}

static struct node *make(struct parser *p, enum node_kind kind, size_t at) {
    struct node *n = text_arena_get(&p->t->arena, sizeof *n);
    if (!n)
        return wrong(p, "out of memory");
    *n = (struct node){.kind = kind, .at = at};
    return n;
}

static bool collect(struct parser *p, struct nodes *list, struct node *n, const char *word) {
    if (!n)
        return false;
    if (list->count == list->cap) {
        int cap = list->cap ? 2 * list->cap : 8;
        struct node **item = text_arena_get(&p->t->arena, sizeof *item * (size_t)cap);
        const char **words = text_arena_get(&p->t->arena, sizeof *words * (size_t)cap);
        if (!item || !words)
            return wrong(p, "out of memory");
        if (list->count) {
            memcpy(item, list->item, sizeof *item * (size_t)list->count);
            memcpy(words, list->word, sizeof *words * (size_t)list->count);
        }
        *list = (struct nodes){item, words, list->count, cap};
    }
    list->word[list->count] = word;
    list->item[list->count++] = n;
    return true;
}

static struct node *with(struct node *n, const struct nodes *list) {
    if (n) {
        n->item = list->item;
        n->word = list->word;
        n->count = list->count;
    }
    return n;
}

static bool is_operator(const struct parser *p, const char *text) {
    return p->at->kind == TOKEN_OPERATOR && !strcmp(p->at->text, text);
}

static bool is_word(const struct parser *p, const char *word) {
    return p->at->kind == TOKEN_NAME && !strcmp(p->at->text, word);
}

static bool take(struct parser *p, const char *text) {
    bool there = is_operator(p, text);
    p->at += there;
    return there;
}

static bool take_word(struct parser *p, const char *word) {
    bool there = is_word(p, word);
    p->at += there;
    return there;
}

static bool want(struct parser *p, const char *text) {
    return take(p, text) || wrong(p, "'%s' must stand here", text);
}

// Expressions -----------------------------------------------------------------------------------------------

static struct node *expression(struct parser *p);
static struct node *unary(struct parser *p, bool with_filter);

static struct node *binary(struct parser *p, enum node_kind kind, size_t at, const char *word, struct node *a,
                           struct node *b) {
    struct node *n = a && b ? make(p, kind, at) : NULL;
    if (n) {
        n->text = word;
        n->a = a;
        n->b = b;
    }
    return n;
}

// Parses elements up to a closing bracket. Sets *comma to whether a comma came last.
static bool elements(struct parser *p, const char *closing, struct nodes *list, bool *comma) {
    *comma = false;
    while (!take(p, closing)) {
        if (list->count && !*comma)
            return wrong(p, "a comma or '%s' must stand here", closing);
        if (!collect(p, list, expression(p), NULL))
            return false;
        *comma = take(p, ",");
        if (!*comma && !is_operator(p, closing))
            return wrong(p, "a comma or '%s' must stand here", closing);
    }
    return true;
}

static struct node *parenthesis(struct parser *p, size_t at) {
    struct nodes list = {0};
    bool comma, ok = elements(p, ")", &list, &comma);
    if (!ok)
        return NULL;
    return list.count == 1 && !comma ? list.item[0] : with(make(p, NODE_TUPLE, at), &list);
}

static struct node *dictionary(struct parser *p, size_t at) {
    struct nodes list = {0};
    while (!take(p, "}")) {
        if (list.count && !want(p, ","))
            return NULL;
        if (take(p, "}"))
            break;
        if (!collect(p, &list, expression(p), NULL) || !want(p, ":") ||
            !collect(p, &list, expression(p), NULL))
            return NULL;
    }
    return with(make(p, NODE_DICT, at), &list);
}

static struct node *primary(struct parser *p) {
    static const struct {
        const char *word;
        enum node_kind kind;
    } words[] = {{"true", NODE_TRUE},   {"True", NODE_TRUE}, {"false", NODE_FALSE},
                 {"False", NODE_FALSE}, {"none", NODE_NONE}, {"None", NODE_NONE}};
    const struct token *token = p->at;
    if (token->kind == TOKEN_NAME) {
        p->at++;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (!strcmp(words[i].word, token->text))
                return make(p, words[i].kind, token->at);
        struct node *n = make(p, NODE_NAME, token->at);
        if (n)
            n->text = token->text;
        return n;
    }
    if (token->kind == TOKEN_TEXT) { // adjacent literals are joined to one text
        struct text_buffer joined = {0};
        bool ok = true;
        for (; p->at->kind == TOKEN_TEXT; p->at++)
            ok = ok && text_buffer_add(&joined, p->at->text, p->at->bytes);
        struct node *n = make(p, NODE_TEXT, token->at);
        if (n)
            n->text = ok ? text_arena_copy(&p->t->arena, joined.data, n->bytes = joined.bytes) : NULL;
        free(joined.data);
        return !n || n->text ? n : wrong(p, "out of memory");
    }
    if (token->kind == TOKEN_INTEGER || token->kind == TOKEN_REAL) {
        p->at++;
        struct node *n = make(p, token->kind == TOKEN_REAL ? NODE_REAL : NODE_INTEGER, token->at);
        if (n) {
            n->integer = token->integer;
            n->real = token->real;
        }
        return n;
    }
    if (take(p, "("))
        return parenthesis(p, token->at);
    if (take(p, "[")) {
        struct nodes list = {0};
        bool comma;
        return elements(p, "]", &list, &comma) ? with(make(p, NODE_LIST, token->at), &list) : NULL;
    }
    return take(p, "{") ? dictionary(p, token->at) : wrong(p, "an expression must stand here");
}

static bool arguments(struct parser *p, struct nodes *list) {
    while (!take(p, ")")) {
        if (list->count && !want(p, ","))
            return false;
        if (take(p, ")"))
            break;
        if (is_operator(p, "*") || is_operator(p, "**"))
            return wrong(p, "arguments of a list or a dict are not supported");
        if (p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_OPERATOR && !strcmp(p->at[1].text, "=")) {
            struct node *n = make(p, NODE_NAMED, p->at->at);
            const char *name = p->at->text;
            p->at += 2;
            if (!n || !(n->a = expression(p)))
                return false;
            n->text = name;
            if (!collect(p, list, n, NULL))
                return false;
        } else if (list->count && list->item[list->count - 1]->kind == NODE_NAMED)
            return wrong(p, "an argument without a name stands behind one with a name");
        else if (!collect(p, list, expression(p), NULL))
            return false;
    }
    return true;
}

static struct node *call(struct parser *p, struct node *what, size_t at) {
    struct nodes list = {0};
    struct node *n = arguments(p, &list) ? with(make(p, NODE_CALL, at), &list) : NULL;
    if (n)
        n->a = what;
    return n;
}

// Parses an index or a slice, after the [.
static struct node *subscript(struct parser *p, struct node *what, size_t at) {
    struct node *part[3] = {0};
    int colons = 0;
    while (!is_operator(p, "]")) {
        if (take(p, ":")) {
            if (++colons > 2)
                return wrong(p, "a slice has at most three parts");
        } else if (part[colons] || !(part[colons] = expression(p)))
            return part[colons] ? wrong(p, "']' must stand here") : NULL;
    }
    p->at++;
    if (!colons && !part[0])
        return wrong(p, "an index must stand here");
    struct node *n = make(p, colons ? NODE_SLICE : NODE_ITEM, at);
    if (n) {
        n->a = what;
        n->b = part[0];
        n->c = part[1];
        n->d = part[2];
    }
    return n;
}

static struct node *postfix(struct parser *p, struct node *n) {
    while (n) {
        size_t at = p->at->at;
        if (take(p, ".")) {
            bool is_index = p->at->kind == TOKEN_INTEGER;
            if (!is_index && p->at->kind != TOKEN_NAME)
                return wrong(p, "a name must stand behind the point");
            struct node *next = make(p, is_index ? NODE_ITEM : NODE_ATTRIBUTE, p->at->at);
            if (next && is_index && (next->b = make(p, NODE_INTEGER, p->at->at)))
                next->b->integer = p->at->integer;
            if (next) {
                next->a = n;
                next->text = p->at->text;
            }
            p->at++;
            n = next && is_index && !next->b ? NULL : next;
        } else if (take(p, "["))
            n = subscript(p, n, at);
        else if (take(p, "("))
            n = call(p, n, at);
        else
            break;
    }
    return n;
}

static struct node *filter(struct parser *p, struct node *in) {
    if (p->at->kind != TOKEN_NAME)
        return wrong(p, "the name of a filter must stand here");
    if (!text_is_filter(p->at->text))
        return wrong(p, "no filter '%s'", p->at->text);
    struct node *n = make(p, NODE_FILTER, p->at->at);
    struct nodes list = {0};
    const char *name = p->at++->text;
    if (!n || (take(p, "(") && !arguments(p, &list)))
        return NULL;
    n->text = name;
    n->a = in;
    return with(n, &list);
}

static struct node *test(struct parser *p, struct node *in) {
    bool negated = take_word(p, "not");
    if (p->at->kind != TOKEN_NAME)
        return wrong(p, "the name of a test must stand here");
    if (!text_is_test(p->at->text))
        return wrong(p, "no test '%s'", p->at->text);
    struct node *n = make(p, NODE_TEST, p->at->at);
    struct nodes list = {0};
    const char *name = p->at++->text;
    bool is_value = p->at->kind == TOKEN_TEXT || p->at->kind == TOKEN_INTEGER || p->at->kind == TOKEN_REAL ||
                    is_operator(p, "[") || is_operator(p, "{");
    bool is_argument = p->at->kind == TOKEN_NAME && !is_word(p, "else") && !is_word(p, "or") &&
                       !is_word(p, "and") && !is_word(p, "if") && !is_word(p, "not") && !is_word(p, "in");
    if (is_word(p, "is"))
        return wrong(p, "tests cannot follow each other: use 'and'");
    if (take(p, "(") ? !arguments(p, &list)
                     : (is_value || is_argument) && !collect(p, &list, postfix(p, primary(p)), NULL))
        return NULL;
    if (!n)
        return NULL;
    n->text = name;
    n->a = in;
    with(n, &list);
    struct node *not = negated ? make(p, NODE_NOT, n->at) : n;
    if (negated && not )
        not ->a = n;
    return not ;
}

static struct node *filters(struct parser *p, struct node *n) {
    while (n) {
        size_t at = p->at->at;
        if (take(p, "|"))
            n = filter(p, n);
        else if (take_word(p, "is"))
            n = test(p, n);
        else if (take(p, "("))
            n = call(p, n, at);
        else
            break;
    }
    return n;
}

static struct node *unary(struct parser *p, bool with_filter) {
    struct node *n;
    size_t at = p->at->at;
    if (++p->depth > MOST_DEPTH)
        return wrong(p, "more than %d levels", MOST_DEPTH);
    if (is_operator(p, "-") || is_operator(p, "+")) {
        enum node_kind kind = take(p, "-") ? NODE_NEGATIVE : NODE_POSITIVE;
        p->at += kind == NODE_POSITIVE;
        struct node *a = unary(p, false);
        n = a ? make(p, kind, at) : NULL;
        if (n)
            n->a = a;
    } else
        n = primary(p);
    n = postfix(p, n);
    p->depth--;
    return with_filter ? filters(p, n) : n;
}

// The binary operators of each level; later levels bind more tightly.
static const char *const levels[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};

static struct node *arithmetic(struct parser *p, int level) {
    struct node *n = level == 3 ? unary(p, true) : arithmetic(p, level + 1);
    while (n) {
        const char *word = NULL;
        size_t at = p->at->at;
        for (int i = 0; levels[level][i] && !word; i++)
            word = take(p, levels[level][i]) ? levels[level][i] : NULL;
        if (!word)
            break;
        n = binary(p, NODE_BINARY, at, word, n, level == 3 ? unary(p, true) : arithmetic(p, level + 1));
    }
    return n;
}

static struct node *comparison(struct parser *p) {
    static const char *const words[] = {"==", "!=", "<=", ">=", "<", ">"};
    struct node *first = arithmetic(p, 0);
    struct nodes list = {0};
    size_t at = p->at->at;
    while (first) {
        const char *word = NULL;
        for (size_t i = 0; i < sizeof words / sizeof *words && !word; i++)
            word = take(p, words[i]) ? words[i] : NULL;
        if (!word && take_word(p, "in"))
            word = "in";
        if (!word && is_word(p, "not") && p->at[1].kind == TOKEN_NAME && !strcmp(p->at[1].text, "in")) {
            p->at += 2;
            word = "not in";
        }
        if (!word)
            break;
        if (!collect(p, &list, arithmetic(p, 0), word))
            return NULL;
    }
    if (!first || !list.count)
        return first;
    struct node *n = with(make(p, NODE_COMPARE, at), &list);
    if (n)
        n->a = first;
    return n;
}

static struct node *negation(struct parser *p) {
    size_t at = p->at->at;
    if (!take_word(p, "not"))
        return comparison(p);
    if (++p->depth > MOST_DEPTH)
        return wrong(p, "more than %d levels", MOST_DEPTH);
    struct node *a = negation(p), *n = a ? make(p, NODE_NOT, at) : NULL;
    p->depth--;
    if (n)
        n->a = a;
    return n;
}

static struct node *conjunction(struct parser *p) {
    struct node *n = negation(p);
    for (size_t at = p->at->at; n && take_word(p, "and"); at = p->at->at)
        n = binary(p, NODE_AND, at, NULL, n, negation(p));
    return n;
}

static struct node *disjunction(struct parser *p) {
    struct node *n = conjunction(p);
    for (size_t at = p->at->at; n && take_word(p, "or"); at = p->at->at)
        n = binary(p, NODE_OR, at, NULL, n, conjunction(p));
    return n;
}

static struct node *expression(struct parser *p) {
    if (++p->depth > MOST_DEPTH)
        return wrong(p, "more than %d levels", MOST_DEPTH);
    struct node *n = disjunction(p);
    while (n && is_word(p, "if")) {
        struct node *c = make(p, NODE_CONDITION, p->at->at);
        p->at++;
        if (!c || !(c->a = disjunction(p)))
            return NULL;
        c->b = n;
        if (take_word(p, "else") && !(c->c = expression(p)))
            return NULL;
        n = c;
    }
    p->depth--;
    return n;
}

// Parses a tuple without parentheses, such as a, b after `in`, after = in a set block, and after {{.
static struct node *expression_list(struct parser *p) {
    size_t at = p->at->at;
    struct node *first = expression(p);
    struct nodes list = {0};
    if (!first || !is_operator(p, ","))
        return first;
    if (!collect(p, &list, first, NULL))
        return NULL;
    while (take(p, ",") && p->at->kind != TOKEN_BLOCK_END && p->at->kind != TOKEN_OUTPUT_END &&
           !is_operator(p, "="))
        if (!collect(p, &list, expression(p), NULL))
            return NULL;
    return with(make(p, NODE_TUPLE, at), &list);
}

// Statements ------------------------------------------------------------------------------------------------

static struct node *body(struct parser *p, const char *const *ends);

static bool block_end(struct parser *p) {
    if (p->at->kind != TOKEN_BLOCK_END)
        return wrong(p, "%%} must stand here");
    p->at++;
    return true;
}

// Parses the names that an assignment sets: a, or a, b, or member a of a namespace n.
static struct node *target(struct parser *p, bool may_be_member) {
    size_t at = p->at->at;
    struct nodes list = {0};
    bool comma = false, bracket = take(p, "(");
    do {
        if (p->at->kind != TOKEN_NAME)
            return wrong(p, "a name must stand here");
        struct node *n = make(p, NODE_NAME, p->at->at);
        if (!n)
            return NULL;
        n->text = p->at++->text;
        if (may_be_member && take(p, ".")) {
            struct node *member = make(p, NODE_ATTRIBUTE, n->at);
            if (!member || p->at->kind != TOKEN_NAME)
                return member ? wrong(p, "a name must stand behind the point") : NULL;
            member->a = n;
            member->text = p->at++->text;
            n = member;
        }
        if (!collect(p, &list, n, NULL))
            return NULL;
        comma = comma || is_operator(p, ",");
    } while (take(p, ",") && !is_word(p, "in") && !is_operator(p, ")"));
    if (bracket && !want(p, ")"))
        return NULL;
    return comma ? with(make(p, NODE_TUPLE, at), &list) : list.item[0];
}

static struct node *for_loop(struct parser *p, size_t at) {
    static const char *const ends[] = {"else", "endfor", NULL}, *const end[] = {"endfor", NULL};
    struct node *n = make(p, NODE_FOR, at), *condition = NULL, *otherwise = NULL;
    if (!n || !(n->a = target(p, false)))
        return NULL;
    if (!take_word(p, "in"))
        return wrong(p, "'in' must stand here");
    struct node *items = disjunction(p);
    struct nodes tuple = {0};
    if (items && is_operator(p, ",")) {
        if (!collect(p, &tuple, items, NULL))
            return NULL;
        while (take(p, ","))
            if (!collect(p, &tuple, disjunction(p), NULL))
                return NULL;
        items = with(make(p, NODE_TUPLE, at), &tuple);
    }
    if (!items || (take_word(p, "if") && !(condition = expression(p))))
        return NULL;
    if (is_word(p, "recursive"))
        return wrong(p, "recursive loops are not supported");
    p->loops++;
    if (!block_end(p) || !(n->c = body(p, ends)))
        return NULL;
    p->loops--;
    if (take_word(p, "else")) {
        if (!block_end(p) || !(otherwise = body(p, end)))
            return NULL;
    }
    p->at++; // endfor
    n->b = items;
    n->d = otherwise;
    n->item = text_arena_get(&p->t->arena, sizeof *n->item);
    if (!n->item)
        return wrong(p, "out of memory");
    n->item[0] = condition;
    return block_end(p) ? n : NULL;
}

static struct node *if_block(struct parser *p, size_t at) {
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const end[] = {"endif", NULL};
    struct node *n = make(p, NODE_IF, at);
    if (!n || !(n->a = expression_list(p)) || !block_end(p) || !(n->b = body(p, ends)))
        return NULL;
    size_t next = p->at->at;
    if (take_word(p, "elif")) {
        if (++p->depth > MOST_DEPTH)
            return wrong(p, "more than %d levels", MOST_DEPTH);
        n->c = if_block(p, next); // reads up to endif
        p->depth--;
        return n->c ? n : NULL;
    }
    if (take_word(p, "else") && (!block_end(p) || !(n->c = body(p, end))))
        return NULL;
    p->at++; // endif
    return block_end(p) ? n : NULL;
}

static struct node *set_block(struct parser *p, size_t at) {
    static const char *const end[] = {"endset", NULL};
    struct node *n = make(p, NODE_SET, at);
    if (!n || !(n->a = target(p, true)))
        return NULL;
    if (take(p, "="))
        return (n->b = expression_list(p)) && block_end(p) ? n : NULL;
    n->kind = NODE_SET_BODY;
    struct node *in = make(p, NODE_CAPTURED, at), *through = in; // filters after the name apply to the body
    if (is_operator(p, "|") && !(through = filters(p, in)))
        return NULL;
    n->c = through == in ? NULL : through;
    if (!in || !block_end(p) || !(n->b = body(p, end)))
        return NULL;
    p->at++;
    return block_end(p) ? n : NULL;
}

static struct node *macro(struct parser *p, size_t at) {
    static const char *const end[] = {"endmacro", NULL};
    struct node *n = make(p, NODE_MACRO, at);
    struct nodes list = {0};
    if (!n || p->at->kind != TOKEN_NAME)
        return n ? wrong(p, "the macro's name must stand here") : NULL;
    n->text = p->at++->text;
    if (!want(p, "("))
        return NULL;
    while (!take(p, ")")) {
        if (list.count && !want(p, ","))
            return NULL;
        struct node *parameter = make(p, NODE_NAMED, p->at->at);
        if (!parameter || p->at->kind != TOKEN_NAME)
            return parameter ? wrong(p, "a parameter's name must stand here") : NULL;
        parameter->text = p->at++->text;
        if (take(p, "=") && !(parameter->a = expression(p)))
            return NULL;
        if (!collect(p, &list, parameter, NULL))
            return NULL;
    }
    int loops = p->loops;
    p->loops = 0;
    if (!block_end(p) || !(n->b = body(p, end)))
        return NULL;
    p->loops = loops;
    p->at++;
    return block_end(p) ? with(n, &list) : NULL;
}

static struct node *statement(struct parser *p) {
    size_t at = p->at->at;
    if (take_word(p, "if"))
        return if_block(p, at);
    if (take_word(p, "for"))
        return for_loop(p, at);
    if (take_word(p, "set"))
        return set_block(p, at);
    if (take_word(p, "macro"))
        return macro(p, at);
    if (take_word(p, "generation")) { // encloses what the model wrote, for training
        static const char *const end[] = {"endgeneration", NULL};
        struct node *n = block_end(p) ? body(p, end) : NULL;
        p->at += n != NULL;
        return n && block_end(p) ? n : NULL;
    }
    if (is_word(p, "break") || is_word(p, "continue")) {
        if (!p->loops)
            return wrong(p, "'%s' stands outside of a loop", p->at->text);
        struct node *n = make(p, is_word(p, "break") ? NODE_BREAK : NODE_CONTINUE, at);
        p->at++;
        return n && block_end(p) ? n : NULL;
    }
    return p->at->kind == TOKEN_NAME
               ? wrong(
                     p,
                     "no statement '%s': if, for, set, macro, break, continue, raw and generation are known",
                     p->at->text)
               : wrong(p, "a statement must stand here");
}

static bool ends_body(const struct parser *p, const char *const *ends) {
    for (int i = 0; ends && p->at->kind == TOKEN_BLOCK && ends[i]; i++)
        if (p->at[1].kind == TOKEN_NAME && !strcmp(p->at[1].text, ends[i]))
            return true;
    return false;
}

// Parses statements up to one of the words in `ends`, and leaves p->at at that word; NULL: up to the end of
// the template.
static struct node *body(struct parser *p, const char *const *ends) {
    struct nodes list = {0};
    size_t at = p->at->at;
    if (++p->depth > MOST_DEPTH)
        return wrong(p, "more than %d levels", MOST_DEPTH);
    while (p->at->kind != TOKEN_END && !ends_body(p, ends)) {
        struct node *n;
        const struct token *token = p->at++;
        if (token->kind == TOKEN_DATA) {
            if ((n = make(p, NODE_DATA, token->at))) {
                n->text = token->text;
                n->bytes = token->bytes;
            }
        } else if (token->kind == TOKEN_OUTPUT) {
            n = make(p, NODE_OUTPUT, token->at);
            if (!n || !(n->a = expression_list(p)))
                return NULL;
            if (p->at->kind != TOKEN_OUTPUT_END)
                return wrong(p, "}} must stand here");
            p->at++;
        } else
            n = statement(p);
        if (!collect(p, &list, n, NULL))
            return NULL;
    }
    if (ends && p->at->kind == TOKEN_END)
        return wrong(p, "the template ends inside a block: '%s' is missing",
                     ends[0] && ends[1] ? ends[1 + (ends[2] != NULL)] : ends[0]);
    p->at += ends != NULL; // {%
    p->depth--;
    return with(make(p, NODE_BODY, at), &list);
}

bool text_chat_parse(struct text_template *t) {
    struct parser p = {.t = t, .at = t->tokens.item};
    t->root = body(&p, NULL);
    return t->root != NULL;
}
