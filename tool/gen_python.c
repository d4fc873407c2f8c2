// gen_python.c - the Python side of the ops: bindings.c for the extension, and core.pyi for type checkers and
// editors.
//
// A Python function is one or more C ops: zl_take and zl_take_flat are take(a, indices, axis=None). If an op
// with several axes exists (zl_sum_axes), only that one is bound, since it also takes one axis or none.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"
#include "tool/gen.h"

enum { VARIANTS = 4 };

struct function {
    char module[16];
    char name[64];
    const zl_op_info *variant[VARIANTS]; // the one with most parameters first
    int variants;
};

static struct {
    struct function *item;
    int count, cap;
} functions;

// Names -----------------------------------------------------------------------------------------------------

static const char *const modules[] = {"random", "linalg", "fft", "fast"};

static const zl_op_info *find_op(const char *name, int length) {
    const zl_op_info *op;
    for (int i = 0; (op = zl_op(i)); i++)
        if ((int)strlen(op->name) == length && !strncmp(op->name, name, (size_t)length))
            return op;
    return NULL;
}

// Returns whether every parameter of a is a parameter of b.
static bool is_part(const zl_op_info *a, const zl_op_info *b) {
    for (int i = 0; i < a->params; i++) {
        bool found = false;
        for (int k = 0; k < b->params; k++)
            found |= !strcmp(a->param[i].name, b->param[k].name);
        if (!found)
            return false;
    }
    return true;
}

// Returns the length of the name without the suffix of a variant: that of "zl_sum" for "zl_sum_axes".
static int stem_length(const zl_op_info *op) {
    static const char *const suffixes[] = {"_axes", "_axis", "_flat", "_int", "_at"};
    int length = (int)strlen(op->name);
    for (size_t i = 0; i < COUNT(suffixes); i++) {
        int stem = length - (int)strlen(suffixes[i]);
        const zl_op_info *base =
            stem > 0 && !strcmp(op->name + stem, suffixes[i]) ? find_op(op->name, stem) : NULL;
        if (base && (is_part(base, op) || is_part(op, base)))
            return stem;
    }
    return length;
}

// Splits a name: "zl_random_uniform" into module "random" and name "uniform"; "zl_sum_axes" into name "sum".
static void split_name(const zl_op_info *op, struct function *f) {
    const char *name = op->name + strlen("zl_");
    int length = stem_length(op) - (int)strlen("zl_");
    f->module[0] = 0;
    for (size_t i = 0; i < COUNT(modules); i++) {
        int n = (int)strlen(modules[i]);
        if (!strncmp(name, modules[i], (size_t)n) && name[n] == '_') {
            snprintf(f->module, sizeof f->module, "%s", modules[i]);
            name += n + 1;
            length -= n + 1;
        }
    }
    snprintf(f->name, sizeof f->name, "%.*s", length, name);
}

static bool has_suffix(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && !strcmp(name + n - m, suffix);
}

// Returns whether Python can call the op: the number of its results must be known.
static bool is_bindable(const zl_op_info *op) {
    for (int i = 0; i < op->params; i++)
        if (op->param[i].type == ZL_PARAM_OUTPUT && !op->param[i].fallback)
            return false;
    return op->params > 0 || !op->returns_bool;
}

static struct function *find_function(const struct function *like) {
    for (int i = 0; i < functions.count; i++)
        if (!strcmp(functions.item[i].name, like->name) && !strcmp(functions.item[i].module, like->module))
            return &functions.item[i];
    return NULL;
}

static bool add_variant(struct function *f, const zl_op_info *op) {
    if (f->variants && has_suffix(f->variant[0]->name, "_axes"))
        return true;
    if (has_suffix(op->name, "_axes"))
        f->variants = 0;
    if (f->variants == VARIANTS)
        return error_false(ZL_ERROR_VALUE, "%s: too many variants", f->name);
    int at = f->variants++;
    for (; at > 0 && f->variant[at - 1]->params < op->params; at--)
        f->variant[at] = f->variant[at - 1];
    f->variant[at] = op;
    return true;
}

static bool collect(void) {
    const zl_op_info *op;
    for (int i = 0; (op = zl_op(i)); i++) {
        struct function name = {0};
        if (!is_bindable(op))
            continue;
        split_name(op, &name);
        struct function *f = find_function(&name);
        if (!f) {
            if (!memory_grow(&functions.item, &functions.cap, functions.count + 1, sizeof name))
                return false;
            f = &functions.item[functions.count++];
            *f = name;
        }
        if (!add_variant(f, op))
            return false;
    }
    return true;
}

static int by_name(const void *a, const void *b) {
    const struct function *x = a, *y = b;
    int order = strcmp(x->module, y->module);
    return order ? order : strcmp(x->name, y->name);
}

static int output_count(const zl_op_info *op) {
    for (int i = 0; i < op->params; i++)
        if (op->param[i].type == ZL_PARAM_OUTPUT)
            return atoi(op->param[i].fallback);
    return 1;
}

// Returns whether a function, of one array and numbers, is also a method of arrays.
static bool is_method(const struct function *f) {
    for (int v = 0; v < f->variants; v++) {
        const zl_op_info *op = f->variant[v];
        if (f->module[0] || op->params == 0 || op->param[0].type != ZL_PARAM_ARRAY)
            return false;
        for (int i = 1; i < op->params; i++)
            if (op->param[i].type == ZL_PARAM_ARRAY || op->param[i].type == ZL_PARAM_ARRAYS)
                return false;
    }
    return true;
}

// Bindings --------------------------------------------------------------------------------------------------

static void add_c_argument(struct text *out, const zl_param *p, int at) {
    static const char *const field[] = {
        [ZL_PARAM_ARRAY] = "array",   [ZL_PARAM_OPTIONAL] = "array", [ZL_PARAM_INT64] = "integer",
        [ZL_PARAM_DOUBLE] = "number", [ZL_PARAM_BOOL] = "truth",     [ZL_PARAM_DTYPE] = "dtype",
        [ZL_PARAM_SHAPE] = "shape",   [ZL_PARAM_AXES] = "axes",      [ZL_PARAM_STRING] = "text",
    };
    if (p->type == ZL_PARAM_OUTPUT)
        text_add(out, "out");
    else if (p->type == ZL_PARAM_ARRAYS)
        text_add(out, "a[%d].arrays.list, a[%d].arrays.count", at, at);
    else if (p->type == ZL_PARAM_INT)
        text_add(out, "(int)a[%d].integer", at);
    else
        text_add(out, "a[%d].%s", at, field[p->type]);
}

static void add_thunk(struct text *out, const zl_op_info *op) {
    bool several = op->returns_bool;
    text_add(out, "static %s call_%s(const union ext_argument *a%s) {\n", several ? "bool" : "zl_array",
             op->name, several ? ", zl_array *out" : "");
    if (op->params == 0)
        text_add(out, "    (void)a;\n");
    text_add(out, "    return %s(", op->name);
    for (int i = 0; i < op->params; i++) {
        text_add(out, i ? ", " : "");
        add_c_argument(out, &op->param[i], i);
    }
    text_add(out, ");\n}\n");
}

// Appends a number, or a list of numbers in brackets, as an initialiser of a zl_shape or zl_axes: "1", "[-2,
// -1]", "()". NULL and "None" give no list.
static void add_list(struct text *out, const char *field, const char *type, const char *value) {
    char items[64];
    int count = 0, length = 0;
    for (const char *at = value && strcmp(value, "None") ? value : ""; *at && length < (int)sizeof items - 1;
         at++)
        if (!strchr("[]()", *at))
            items[length++] = *at;
    items[length] = 0;
    for (const char *at = items; *at; at++)
        count += *at == ',' || at == items;
    if (count)
        text_add(out, "{.%s = {(const %s[]){%s}, %d}}", field, type, items, count);
    else
        text_add(out, "{.%s = {NULL, %d}}", field, value && strcmp(value, "None") ? 0 : -1);
}

// Appends a text in quotes. The value may be quoted already.
static void add_text(struct text *out, const char *value) {
    size_t length = strlen(value);
    bool quoted = length > 1 && value[0] == '\'' && value[length - 1] == '\'';
    text_add(out, "{.text = \"%.*s\"}", (int)(quoted ? length - 2 : length), value + quoted);
}

// Appends the default as an initialiser of union ext_argument.
static void add_fallback(struct text *out, const zl_param *p) {
    const char *value = p->fallback;
    bool none = !value || !strcmp(value, "None");
    switch (p->type) {
    case ZL_PARAM_INT: text_add(out, "{.integer = %s}", none ? "INT_MIN" : value); break;
    case ZL_PARAM_INT64: text_add(out, "{.integer = %s}", none ? "INT64_MIN" : value); break;
    case ZL_PARAM_DOUBLE: text_add(out, "{.number = %s}", none ? "NAN" : value); break;
    case ZL_PARAM_BOOL:
        text_add(out, "{.truth = %s}", value && !strcmp(value, "True") ? "true" : "false");
        break;
    case ZL_PARAM_DTYPE:
        text_add(out, "{.dtype = (zl_dtype)%d}", none ? ZL_DTYPE_COUNT : zl_dtype_find(value));
        break;
    case ZL_PARAM_SHAPE: add_list(out, "shape", "int64_t", value); break;
    case ZL_PARAM_AXES: add_list(out, "axes", "int", value); break;
    case ZL_PARAM_STRING:
        if (none)
            text_add(out, "{.text = NULL}");
        else
            add_text(out, value);
        break;
    case ZL_PARAM_ARRAY: text_add(out, "{.number = %s}", none ? "0" : value); break;
    default: text_add(out, "{.array = NULL}");
    }
}

static void add_params(struct text *out, const zl_op_info *op) {
    text_add(out, "static struct ext_param param_%s[] = {\n", op->name);
    for (int i = 0; i < op->params; i++) {
        const zl_param *p = &op->param[i];
        if (p->type == ZL_PARAM_OUTPUT)
            continue;
        text_add(out, "    {.name = \"%s\", .type = (zl_param_type)%d, .required = %s, .fallback = ", p->name,
                 p->type, p->fallback ? "false" : "true");
        add_fallback(out, p);
        text_add(out, "},\n");
    }
    text_add(out, "    {0},\n};\n");
}

static int python_params(const zl_op_info *op) {
    int count = 0;
    for (int i = 0; i < op->params; i++)
        count += op->param[i].type != ZL_PARAM_OUTPUT;
    return count;
}

static void add_variants(struct text *out, const struct function *f) {
    for (int v = 0; v < f->variants; v++) {
        add_thunk(out, f->variant[v]);
        add_params(out, f->variant[v]);
    }
    text_add(out, "static const struct ext_variant variant_%s_%s[] = {\n", f->module, f->name);
    for (int v = 0; v < f->variants; v++) {
        const zl_op_info *op = f->variant[v];
        text_add(out,
                 "    {.name = \"%s\", .param = param_%s, .params = %d, .%s = call_%s, .outputs = %d},\n",
                 op->name, op->name, python_params(op), op->returns_bool ? "call_all" : "call", op->name,
                 output_count(op));
    }
    text_add(out, "};\n");
}

// Returns a default in Python's form. A parameter of the longest variant is optional if a shorter variant
// lacks it.
static const char *own_default(const struct function *f, const zl_param *p) {
    if (p->fallback)
        return p->fallback;
    for (int v = 1; v < f->variants; v++) {
        bool found = false;
        for (int i = 0; i < f->variant[v]->params; i++)
            found |= !strcmp(f->variant[v]->param[i].name, p->name);
        if (!found)
            return "None";
    }
    return NULL;
}

// Returns the default, or NULL if a required parameter follows, since Python does not allow such signatures.
static const char *python_default(const struct function *f, const zl_param *p) {
    const zl_op_info *op = f->variant[0];
    for (const zl_param *later = p; later < op->param + op->params; later++)
        if (later->type != ZL_PARAM_OUTPUT && !own_default(f, later))
            return NULL;
    return own_default(f, p);
}

static void add_signature(struct text *out, const struct function *f, bool is_stub) {
    static const char *const types[] = {
        [ZL_PARAM_ARRAY] = "_Operand",       [ZL_PARAM_OPTIONAL] = "_Operand | None",
        [ZL_PARAM_ARRAYS] = "Sequence[_Operand]", [ZL_PARAM_INT] = "int",
        [ZL_PARAM_INT64] = "int",             [ZL_PARAM_DOUBLE] = "float",
        [ZL_PARAM_BOOL] = "bool",             [ZL_PARAM_DTYPE] = "Dtype | None",
        [ZL_PARAM_SHAPE] = "int | Sequence[int]",  [ZL_PARAM_AXES] = "int | Sequence[int] | None",
        [ZL_PARAM_STRING] = "str",
    };
    const zl_op_info *op = f->variant[0];
    text_add(out, "%s(", f->name);
    for (int i = 0; i < op->params; i++) {
        const zl_param *p = &op->param[i];
        if (p->type == ZL_PARAM_OUTPUT)
            continue;
        const char *fallback = python_default(f, p);
        bool quoted = p->type == ZL_PARAM_STRING && fallback && strcmp(fallback, "None") && *fallback != '\'';
        text_add(out, "%s%s", p->name, is_stub ? ": " : "");
        if (is_stub)
            text_add(out, "%s%s", types[p->type],
                     fallback && !strcmp(fallback, "None") && !strstr(types[p->type], "None") ? " | None"
                                                                                              : "");
        if (fallback)
            text_add(out, "%s%s%s%s", is_stub ? " = " : "=", quoted ? "'" : "", fallback, quoted ? "'" : "");
        text_add(out, ", ");
    }
    text_add(out, is_stub ? "*, stream: StreamOrDevice = None) -> " : "*, stream=None)");
    if (is_stub)
        text_add(out, op->returns_bool ? "tuple[array, ...]" : "array");
}

// Returns the length of a C name at this place, and writes Python's name for it: zl_fft_stft is fft.stft.
// Returns 0 if there is no such name.
static size_t c_name(const char *at, char name[static 64]) {
    static const char *const words[][2] = {{"NULL", "None"}, {"ZL_ALL", "None"}, {"out[", "result["}};
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strncmp(at, words[i][0], strlen(words[i][0]))) {
            snprintf(name, 64, "%s", words[i][1]);
            return strlen(words[i][0]);
        }
    size_t len = strncmp(at, "zl_", 3) ? 0 : strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
    snprintf(name, 64, "%.*s", len ? (int)len - 3 : 0, at + 3);
    for (size_t i = 0; len && i < COUNT(modules); i++) {
        size_t n = strlen(modules[i]);
        if (!strncmp(name, modules[i], n) && name[n] == '_')
            name[n] = '.';
    }
    return len;
}

// Returns the documentation of an op, with Python's names in place of C's.
static struct text python_doc(const struct function *f) {
    struct text doc = {0};
    char name[64];
    for (const char *at = f->variant[0]->doc; *at;) {
        size_t len = c_name(at, name);
        text_add(&doc, len ? "%s" : "%.1s", len ? name : at);
        at += len ? len : 1;
    }
    return doc;
}

static void add_quoted(struct text *out, const char *words) {
    for (; *words; words++)
        text_add(out, *words == '"' || *words == '\\' ? "\\%c" : "%c", *words);
}

static void add_function(struct text *out, const struct function *f, int index) {
    text_add(out,
             "static PyObject *function_%s_%s(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject "
             "*names) {\n"
             "    (void)m;\n    return ext_call(&ext_functions[%d], NULL, args, n, names);\n}\n",
             f->module, f->name, index);
    if (is_method(f))
        text_add(out,
                 "static PyObject *method_%s(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject "
                 "*names) {\n"
                 "    return ext_call(&ext_functions[%d], self, args, n, names);\n}\n",
                 f->name, index);
}

// Returns whether a default is a dtype. inspect accepts no such default, so these signatures are in the first
// line of the documentation.
static bool has_dtype_default(const struct function *f) {
    for (int i = 0; i < f->variant[0]->params; i++) {
        const zl_param *p = &f->variant[0]->param[i];
        const char *fallback = p->type == ZL_PARAM_DTYPE ? python_default(f, p) : NULL;
        if (fallback && strcmp(fallback, "None") != 0)
            return true;
    }
    return false;
}

static void add_method_row(struct text *out, const struct function *f, bool of_array) {
    struct text signature = {0};
    add_signature(&signature, f, false);
    text_add(
        out, "    {\"%s\", (PyCFunction)(void (*)(void))%s_%s%s%s, METH_FASTCALL | METH_KEYWORDS,\n     \"",
        f->name, of_array ? "method" : "function", of_array ? "" : f->module, of_array ? "" : "_", f->name);
    if (!of_array) {
        add_quoted(out, signature.data ? signature.data : "");
        text_add(out, has_dtype_default(f) ? "\\n\\n" : "\\n--\\n\\n");
    }
    struct text doc = python_doc(f);
    add_quoted(out, doc.data ? doc.data : "");
    text_add(out, "\"},\n");
    text_free(&doc);
    text_free(&signature);
}

static bool write_bindings(const char *path) {
    struct text out = {0};
    text_add(&out, "// bindings.c - ops as Python functions. Made from src/op by zellige-gen.\n\n#include "
                   "<limits.h>\n#include <math.h>\n\n#include \"ext.h\"\n\n");
    for (int i = 0; i < functions.count; i++)
        add_variants(&out, &functions.item[i]);
    text_add(&out, "const struct ext_function ext_functions[] = {\n");
    for (int i = 0; i < functions.count; i++) {
        const struct function *f = &functions.item[i];
        text_add(&out, "    {\"%s\", \"%s\", variant_%s_%s, %d},\n", f->module, f->name, f->module, f->name,
                 f->variants);
    }
    text_add(&out, "    {0},\n};\n");
    for (int i = 0; i < functions.count; i++)
        add_function(&out, &functions.item[i], i);
    text_add(&out, "PyMethodDef ext_op_methods[] = {\n");
    for (int i = 0; i < functions.count; i++)
        add_method_row(&out, &functions.item[i], false);
    text_add(&out, "    {0},\n};\nPyMethodDef ext_op_array_methods[] = {\n");
    for (int i = 0; i < functions.count; i++)
        if (is_method(&functions.item[i]))
            add_method_row(&out, &functions.item[i], true);
    text_add(&out, "    {0},\n};\n");
    bool ok = !out.failed && file_write(path, out.data, (size_t)out.len);
    text_free(&out);
    return ok;
}

bool gen_bindings(const char *path) {
    if (!collect())
        return false;
    qsort(functions.item, (size_t)functions.count, sizeof *functions.item, by_name);
    return write_bindings(path);
}

// Stubs -----------------------------------------------------------------------------------------------------

static void add_stub(struct text *out, const struct function *f, const char *indent) {
    text_add(out, "%sdef ", indent);
    add_signature(out, f, true);
    struct text doc = python_doc(f);
    text_add(out, ":\n%s    \"\"\"%s\"\"\"\n", indent, doc.data ? doc.data : "");
    text_free(&doc);
}

// Appends a method of arrays, whose first parameter is the array itself.
static void add_method_stub(struct text *out, const struct function *f) {
    struct text signature = {0};
    add_signature(&signature, f, true);
    const char *open = strchr(signature.data, '('), *rest = strchr(signature.data, ',');
    struct text doc = python_doc(f);
    text_add(out, "    def %.*sself%s:\n        \"\"\"%s\"\"\"\n", (int)(open + 1 - signature.data),
             signature.data, rest, doc.data ? doc.data : "");
    text_free(&doc);
    text_free(&signature);
}

static void add_method_stubs(struct text *out) {
    for (int i = 0; i < functions.count; i++)
        if (is_method(&functions.item[i]))
            add_method_stub(out, &functions.item[i]);
}

static void add_function_stubs(struct text *out) {
    for (int i = 0; i < functions.count; i++) {
        const struct function *f = &functions.item[i];
        bool is_first = i == 0 || strcmp(f->module, functions.item[i - 1].module);
        if (*f->module && is_first)
            text_add(out, "\nclass %s:\n", f->module);
        if (*f->module)
            text_add(out, "    @staticmethod\n");
        add_stub(out, f, *f->module ? "    " : "");
    }
}

// The hand-written part of the stubs, with lines that mark where the ops are inserted.
static const char stub_source[] = "python/stubs/core.pyi";

bool gen_stubs(const char *path) {
    size_t length;
    char *source = file_read(stub_source, &length);
    struct text out = {0};
    if (!source || !collect())
        return false;
    qsort(functions.item, (size_t)functions.count, sizeof *functions.item, by_name);
    for (char *line = source, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end != 0;
        if (!strncmp(line, "    # The ops as methods", 24))
            add_method_stubs(&out);
        else if (!strncmp(line, "# The ops as functions", 22))
            add_function_stubs(&out);
        else
            text_bytes(&out, line, (int)(end - line));
    }
    bool ok = !out.failed && file_write(path, out.data, (size_t)out.len);
    memory_free(source);
    text_free(&out);
    return ok;
}
