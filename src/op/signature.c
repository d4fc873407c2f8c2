// signature.c - the signatures of all ops, and the files generated from them: public headers and
// documentation.

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"

// defined by the linker, from OP_SIGNATURE
extern const zl_op_info *const __start_zl_ops[], *const __stop_zl_ops[];

static int entries(void) {
    return (int)(__stop_zl_ops - __start_zl_ops);
}

const zl_op_info *zl_op(int index) {
    return index >= 0 && index < entries() ? __start_zl_ops[index] : NULL;
}

static int by_family(const void *a, const void *b) {
    const zl_op_info *x = *(const zl_op_info *const *)a, *y = *(const zl_op_info *const *)b;
    int order = strcmp(x->family, y->family);
    return order ? order : strcmp(x->name, y->name);
}

// Returns all signatures in an order that does not depend on the linker. The caller frees the list.
static const zl_op_info **sorted(int *count) {
    *count = entries();
    const zl_op_info **list = memory_alloc(sizeof *list * (size_t)(*count + 1));
    if (!list)
        return NULL;
    memcpy(list, __start_zl_ops, sizeof *list * (size_t)*count);
    qsort(list, (size_t)*count, sizeof *list, by_family);
    return list;
}

static void add_parameter(struct text *out, const zl_param *p) {
    static const char *const types[] = {
        [ZL_PARAM_ARRAY] = "zl_array ",    [ZL_PARAM_INT] = "int ",      [ZL_PARAM_INT64] = "int64_t ",
        [ZL_PARAM_DOUBLE] = "double ",     [ZL_PARAM_BOOL] = "bool ",    [ZL_PARAM_DTYPE] = "zl_dtype ",
        [ZL_PARAM_SHAPE] = "zl_shape ",    [ZL_PARAM_AXES] = "zl_axes ", [ZL_PARAM_OUTPUT] = "zl_array *",
        [ZL_PARAM_OPTIONAL] = "zl_array ", [ZL_PARAM_STRING] = "const char *",
    };
    if (p->type == ZL_PARAM_ARRAYS)
        text_add(out, "const zl_array *%s, int count", p->name);
    else
        text_add(out, "%s%s", types[p->type], p->name);
}

static void add_prototype(struct text *out, const zl_op_info *op) {
    text_add(out, "%s%s(", op->returns_bool ? "bool " : "zl_array ", op->name);
    for (int i = 0; i < op->params; i++) {
        text_add(out, i ? ", " : "");
        add_parameter(out, &op->param[i]);
    }
    text_add(out, "%s)", op->params ? "" : "void");
}

// Adds a comment, broken between words into lines of at most 110 columns.
static void add_comment(struct text *out, const char *doc) {
    int column = 0;
    while (*doc) {
        int word = (int)strcspn(doc, " ");
        if (column && column + 1 + word > 110) {
            text_add(out, "\n");
            column = 0;
        }
        text_add(out, column ? " " : "// ");
        text_bytes(out, doc, word);
        column += word + (column ? 1 : 3);
        doc += word;
        doc += strspn(doc, " ");
    }
    text_add(out, "\n");
}

static bool write_text(const char *path, struct text *out) {
    bool ok = !out->failed && file_write(path, out->data, (size_t)out->len);
    text_free(out);
    return ok;
}

// The headers and their descriptions. Families without a header of their own are in the first.
static const struct {
    const char *name, *guard, *what;
} headers[] = {
    {"zellige_ops.h", "ZELLIGE_OPS_H", "ops on arrays of any shape"},
    {"zellige_matrix_ops.h", "ZELLIGE_MATRIX_OPS_H", "ops on matrices, signals and layers of models"},
};

static int header_of(const char *family) {
    static const char *const matrix[] = {"conv", "fast", "fft", "linalg", "matmul", "quantized", "sparse"};
    for (size_t i = 0; i < COUNT(matrix); i++)
        if (!strcmp(family, matrix[i]))
            return 1;
    return 0;
}

static bool write_header(const char *folder, int header, int count, const zl_op_info *const *list) {
    char path[PATH_MAX];
    const char *family = "";
    struct text out = {0};
    snprintf(path, sizeof path, "%.4000s/%s", folder, headers[header].name);
    text_add(&out,
             "// %s - %s: prototypes and documentation. Made from src/op by `make generate`; do not edit.\n"
             "\n#include \"zellige.h\" // which includes this file, so that it always comes first\n"
             "\n#ifndef %s\n#define %s\n\n"
             "#ifdef __cplusplus\nextern \"C\" {\n#endif\n",
             headers[header].name, headers[header].what, headers[header].guard, headers[header].guard);
    for (int i = 0; i < count; i++) {
        if (header_of(list[i]->family) != header)
            continue;
        if (strcmp(list[i]->family, family))
            text_add(&out, "\n// %s\n", list[i]->family);
        family = list[i]->family;
        text_add(&out, "\n");
        add_comment(&out, list[i]->doc);
        text_add(&out, "ZL_API ");
        add_prototype(&out, list[i]);
        text_add(&out, ";\n");
    }
    text_add(&out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    return write_text(path, &out);
}

// Checked calls ---------------------------------------------------------------------------------------------

static bool is_array(const zl_param *p) {
    return p->type == ZL_PARAM_ARRAY || p->type == ZL_PARAM_OPTIONAL;
}

// Returns whether callers may write this argument as a compound literal, whose commas would separate
// arguments of a macro.
static bool is_list(const zl_param *p) {
    return p->type == ZL_PARAM_SHAPE || p->type == ZL_PARAM_AXES || p->type == ZL_PARAM_ARRAYS ||
           p->type == ZL_PARAM_OUTPUT;
}

static int count_of(const zl_op_info *op, bool (*is_such)(const zl_param *p)) {
    int count = 0;
    for (int i = 0; i < op->params; i++)
        count += is_such(&op->param[i]);
    return count;
}

// Adds the names of the parameters, separated by commas; if `checked`, arrays are wrapped in a check.
static void add_arguments(struct text *out, const zl_op_info *op, bool checked) {
    for (int i = 0; i < op->params; i++) {
        const zl_param *p = &op->param[i];
        const char *check = !checked || !is_array(p)    ? ""
                            : p->type == ZL_PARAM_ARRAY ? "ZL_NOT_A_NUMBER_"
                                                        : "ZL_NULL_OR_ARRAY_";
        text_add(out, "%s%s%s%s%s%s", i ? ", " : "", check, *check ? "(" : "", p->name, *check ? ")" : "",
                 p->type == ZL_PARAM_ARRAYS ? ", count" : "");
    }
}

static void add_checked_macro(struct text *out, const zl_op_info *op) {
    bool has_list = count_of(op, is_list) > 0;
    text_add(out, "#define %s%s(", op->name, has_list ? "_" : "");
    add_arguments(out, op, false);
    text_add(out, ") %s(", op->name);
    add_arguments(out, op, true);
    text_add(out, ")\n");
    if (has_list) {
        int count = op->params;
        for (int i = 0; i < op->params; i++)
            count += op->param[i].type == ZL_PARAM_ARRAYS;
        text_add(out, "#define %s(...) ZL_IF_%d_(%s_, %s, __VA_ARGS__)\n", op->name, count, op->name,
                 op->name);
    }
}

static void add_deleted_template(struct text *out, const zl_op_info *op) {
    int count = count_of(op, is_array), next = 0;
    text_add(out, "template <");
    for (int i = 0; i < count; i++)
        text_add(out, "%sclass T%d", i ? ", " : "", i);
    text_add(out, ">\nzl_if_number_<%s", op->returns_bool ? "bool" : "zl_array");
    for (int i = 0; i < count; i++)
        text_add(out, ", T%d", i);
    text_add(out, "> %s(", op->name);
    for (int i = 0; i < op->params; i++) {
        text_add(out, i ? ", " : "");
        if (is_array(&op->param[i]))
            text_add(out, "T%d %s", next++, op->param[i].name);
        else
            add_parameter(out, &op->param[i]);
    }
    text_add(out, ") = delete;\n");
}

// Adds macros ZL_IF_n_(checked, plain, arguments), which expand to `checked` for n arguments, and to `plain`
// for more.
static void add_counters(struct text *out) {
    enum { ROOM = 32 };
    text_add(out, "#define ZL_PICK_(");
    for (int i = 0; i < ROOM; i++)
        text_add(out, "a%d, ", i);
    text_add(out, "pick, ...) pick\n");
    for (int n = 1; n <= (int)COUNT(((zl_op_info *)0)->param) + 1; n++) {
        text_add(out, "#define ZL_IF_%d_(checked, plain, ...) ZL_PICK_(__VA_ARGS__", n);
        for (int given = ROOM; given > 0; given--)
            text_add(out, given == n ? ", checked" : ", plain");
        text_add(out, ", plain)(__VA_ARGS__)\n");
    }
}

static bool write_checks(const char *folder, int count, const zl_op_info *const *list) {
    char path[PATH_MAX];
    struct text out = {0};
    snprintf(path, sizeof path, "%.4000s/zellige_checks.h", folder);
    text_add(&out, "// zellige_checks.h - makes calls of ops that pass a number for an array fail to "
                   "compile: zellige.h says how.\n"
                   "// Made from src/op by `make generate`; do not edit.\n"
                   "\n#include \"zellige.h\" // which includes this file, so that it always comes first\n"
                   "\n#if !defined(ZELLIGE_CHECKS_H) && !defined(ZL_PLAIN_CALLS)\n#define ZELLIGE_CHECKS_H\n"
                   "\n#ifdef __cplusplus\n\n");
    for (int i = 0; i < count; i++)
        if (count_of(list[i], is_array) > 0 && list[i]->params > 1)
            add_deleted_template(&out, list[i]);
    text_add(&out, "\n#else\n\n");
    add_counters(&out);
    text_add(&out, "\n");
    for (int i = 0; i < count; i++)
        if (count_of(list[i], is_array) > 0)
            add_checked_macro(&out, list[i]);
    text_add(&out, "\n#endif\n\n#endif\n");
    return write_text(path, &out);
}

bool op_write_headers(const char *folder) {
    int count;
    const zl_op_info **list = sorted(&count);
    bool ok = list;
    for (size_t i = 0; ok && i < COUNT(headers); i++)
        ok = write_header(folder, (int)i, count, list);
    ok = ok && write_checks(folder, count, list);
    memory_free(list);
    return ok;
}

static void add_page_entry(struct text *out, const zl_op_info *op) {
    text_add(out, "\n### %s\n\n```\n", op->name);
    add_prototype(out, op);
    text_add(out, ";\n```\n\n%s\n", op->doc);
    for (int i = 0; i < op->params; i++)
        if (op->param[i].fallback)
            text_add(out, "\n- `%s` defaults to `%s` in languages with defaults.", op->param[i].name,
                     op->param[i].fallback);
    text_add(out, "\n");
}

bool op_write_docs(const char *folder) {
    int count;
    const zl_op_info **list = sorted(&count);
    bool ok = list != NULL;
    for (int i = 0; ok && i < count;) {
        const char *family = list[i]->family;
        struct text out = {0};
        text_add(&out, "# Ops: %s\n\nMade from `src/op` by `make generate`; do not edit.\n", family);
        for (; i < count && !strcmp(list[i]->family, family); i++)
            add_page_entry(&out, list[i]);
        struct text path = {0};
        text_add(&path, "%s/%s.md", folder, family);
        ok = !path.failed && write_text(path.data, &out);
        text_free(&path);
    }
    memory_free(list);
    return ok;
}
