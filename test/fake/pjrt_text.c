// pjrt_text.c - evaluates the StableHLO of elementwise programs: arithmetic, slices, reshapes and broadcasts
// of 32-bit elements. Other ops are errors of the plugin's compiler.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_text.h"

int64_t tensor_size(const struct tensor *t) {
    int64_t size = 1;
    for (int i = 0; i < t->axes; i++)
        size *= t->dim[i];
    return size;
}

// Reads the type after "tensor<", such as "4x8xf32>".
static const char *read_type(const char *at, struct tensor *out) {
    char *end;
    *out = (struct tensor){0};
    for (int64_t n; *at >= '0' && *at <= '9' && out->axes < FAKE_AXES; at = end + 1) {
        n = strtoll(at, &end, 10);
        out->dim[out->axes++] = n;
    }
    snprintf(out->type, sizeof out->type, "%.*s", (int)strcspn(at, ">"), at);
    return at + strcspn(at, ">");
}

static int read_types(const char *from, const char *end, struct tensor *out) {
    int count = 0;
    for (const char *at = from; (at = strstr(at, "tensor<")) && at < end && count < FAKE_ARGUMENTS;)
        at = read_type(at + 7, &out[count++]);
    return count;
}

// Returns the end of the list of arguments, whose attributes may contain brackets.
static const char *find_arrow(const char *main) {
    return strstr(main, ") -> (");
}

bool text_signature(const char *text, struct tensor *argument, int *arguments, struct tensor *result,
                    int *results) {
    const char *main = strstr(text, "@main("), *arrow = main ? find_arrow(main) : NULL;
    const char *end = arrow ? strstr(arrow, "{\n") : NULL;
    if (!end)
        return false;
    *arguments = read_types(main, arrow, argument);
    *results = read_types(arrow, end, result);
    return true;
}

// Evaluating ------------------------------------------------------------------------------------------------

struct value {
    struct tensor type;
    uint32_t *element; // NULL: there is no such value
};

struct machine {
    struct value value[FAKE_VALUES];
    bool computes;
};

static float as_float(uint32_t bits) {
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static uint32_t as_bits(float x) {
    uint32_t out;
    memcpy(&out, &x, sizeof out);
    return out;
}

static float apply(const char *op, float a, float b) {
    return !strcmp(op, "add")        ? a + b
           : !strcmp(op, "subtract") ? a - b
           : !strcmp(op, "multiply") ? a * b
           : !strcmp(op, "divide")   ? a / b
                                     : -a; // negate
}

static void read_list(const char *at, int64_t *out, int *count) { // after "["
    char *end;
    for (*count = 0; *at != ']' && *count < FAKE_AXES; at = end + strspn(end, ", "))
        out[(*count)++] = strtoll(at, &end, 10);
}

static void arithmetic(const char *op, const struct value *a, const struct value *b, struct value *out) {
    for (int64_t i = 0; i < tensor_size(&out->type); i++)
        out->element[i] = as_bits(apply(op, as_float(a->element[i]), as_float(b->element[i])));
}

// Broadcasts: each element of out is that of x at its positions along the axes that `axis` names.
static void broadcast(const struct value *x, const int64_t *axis, struct value *out) {
    for (int64_t i = 0; i < tensor_size(&out->type); i++) {
        int64_t position[FAKE_AXES], rest = i, from = 0;
        for (int k = out->type.axes - 1; k >= 0; rest /= out->type.dim[k--])
            position[k] = rest % out->type.dim[k];
        for (int k = 0; k < x->type.axes; k++)
            from = from * x->type.dim[k] + (x->type.dim[k] > 1 ? position[axis[k]] : 0);
        out->element[i] = x->element[from];
    }
}

static void slice(const struct value *x, const char *at, struct value *out) { // after "["
    int64_t start[FAKE_AXES] = {0}, step[FAKE_AXES] = {0};
    char *end;
    for (int k = 0; k < x->type.axes; k++) {
        start[k] = strtoll(at, &end, 10);
        strtoll(end + 1, &end, 10);
        step[k] = *end == ':' ? strtoll(end + 1, &end, 10) : 1;
        at = end + strspn(end, ", ");
    }
    for (int64_t i = 0; i < tensor_size(&out->type); i++) {
        int64_t rest = i, from = 0, below = 1;
        for (int k = x->type.axes - 1; k >= 0; below *= x->type.dim[k], rest /= out->type.dim[k], k--)
            from += below * (start[k] + step[k] * (rest % out->type.dim[k]));
        out->element[i] = x->element[from];
    }
}

static struct value *find(struct machine *m, const char *name) { // such as "%12"
    int index = name ? atoi(name + 1) : -1;
    return index >= 0 && index < FAKE_VALUES ? &m->value[index] : NULL;
}

static bool is_one_of(const char *op, const char *list) {
    size_t size = strlen(op);
    for (const char *at = list; (at = strstr(at, op)); at += size)
        if ((at == list || at[-1] == ' ') && (at[size] == ' ' || !at[size]))
            return true;
    return false;
}

static bool run_statement(struct machine *m, char *line) {
    static const char arithmetics[] = "add subtract multiply divide negate";
    char op[40];
    struct value *out = find(m, line);
    char *at = strstr(line, "stablehlo."), *type = strrchr(line, '>');
    if (!out || !at || !type || sscanf(at, "stablehlo.%39[a-z_]", op) != 1)
        return false;
    while (type > line && strncmp(type, "tensor<", 7))
        type--;
    char *first = strchr(at, '%'), *second = first ? strchr(first + 1, '%') : NULL, *list = strchr(at, '[');
    struct value *a = find(m, first), *b = find(m, second);
    read_type(type + 7, &out->type);
    bool is_arithmetic = is_one_of(op, arithmetics);
    bool known = is_arithmetic ? !strcmp(out->type.type, "f32")
                               : is_one_of(op, "reshape bitcast_convert broadcast_in_dim slice");
    if (!known || !a || (strcmp(out->type.type, "f32") && strcmp(out->type.type, "ui32")))
        return false;
    if (!m->computes)
        return true;
    free(out->element);
    out->element = calloc((size_t)tensor_size(&out->type) + 1, sizeof *out->element);
    int64_t axis[FAKE_AXES];
    int axes;
    if (is_arithmetic)
        arithmetic(op, a, b ? b : a, out);
    else if (!strcmp(op, "slice"))
        slice(a, list + 1, out);
    else if (!strcmp(op, "broadcast_in_dim"))
        read_list(list + 1, axis, &axes), broadcast(a, axis, out);
    else
        memcpy(out->element, a->element, (size_t)tensor_size(&out->type) * sizeof *out->element);
    return true;
}

static void take_arguments(struct machine *m, const char *main, void *const *argument) {
    const char *end = find_arrow(main);
    int count = 0;
    for (const char *at = main; (at = strchr(at, '%')) && at < end; count++) {
        struct value *v = find(m, at);
        const char *type = strstr(at, "tensor<");
        at = read_type(type + 7, &v->type);
        v->element = malloc((size_t)tensor_size(&v->type) * 4 + 1);
        memcpy(v->element, argument[count], (size_t)tensor_size(&v->type) * 4);
    }
}

static void give_results(struct machine *m, const char *line, void *const *result) {
    const char *end = strchr(line, ':');
    int count = 0;
    for (const char *at = line; (at = strchr(at, '%')) && at < end; at++) {
        struct value *v = find(m, at);
        memcpy(result[count++], v->element, (size_t)tensor_size(&v->type) * 4);
    }
}

const char *text_run(const char *text, void *const *argument, void *const *result) {
    static _Thread_local char unknown[80];
    struct machine *m = calloc(1, sizeof *m);
    m->computes = argument;
    const char *main = strstr(text, "@main("), *failed = NULL;
    if (m->computes)
        take_arguments(m, main, argument);
    char *body = strdup(strstr(main, "{\n") + 2), *rest = NULL;
    for (char *line = strtok_r(body, "\n", &rest); line && !failed; line = strtok_r(NULL, "\n", &rest)) {
        if (!strncmp(line, "return ", 7) || line[0] == '}') {
            if (m->computes && line[0] == 'r')
                give_results(m, line, result);
            break;
        }
        if (!run_statement(m, line)) {
            snprintf(unknown, sizeof unknown, "%.79s", line);
            failed = unknown;
        }
    }
    free(body);
    for (int i = 0; i < FAKE_VALUES; i++)
        free(m->value[i].element);
    free(m);
    return failed;
}
