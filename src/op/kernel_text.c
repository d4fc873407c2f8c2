// kernel_text.c - writes the C text of a kernel whose function body is given.
//
// The body is surrounded by its parameters and the loop over the grid. #line makes compilers report the
// author's own line numbers. Template arguments become types and constants, not macros, so they do not
// replace other text that is spelled like them.

#include <string.h>

#include "op/ops.h"

static const char *const types[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = "bool",         [ZL_UINT8] = "uint8_t",       [ZL_UINT16] = "uint16_t",
    [ZL_UINT32] = "uint32_t",   [ZL_UINT64] = "uint64_t",     [ZL_INT8] = "int8_t",
    [ZL_INT16] = "int16_t",     [ZL_INT32] = "int32_t",       [ZL_INT64] = "int64_t",
    [ZL_FLOAT16] = "float16",   [ZL_FLOAT32] = "float",       [ZL_FLOAT64] = "double",
    [ZL_BFLOAT16] = "bfloat16", [ZL_COMPLEX64] = "complex64",
};

// Words -----------------------------------------------------------------------------------------------------

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_in_word(char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
}

bool op_kernel_names(const char *name) {
    if (!name || !is_letter(*name))
        return false;
    while (is_in_word(*name))
        name++;
    return !*name;
}

// Returns whether the source contains this word.
static bool mentions(const zl_cpu_kernel_source *k, const char *name, const char *suffix) {
    size_t name_bytes = strlen(name), bytes = name_bytes + strlen(suffix);
    for (const char *at = k->source; (at = strstr(at, name)); at++)
        if (!strncmp(at + name_bytes, suffix, bytes - name_bytes) && !is_in_word(at[bytes]) &&
            (at == k->source || !is_in_word(at[-1])))
            return true;
    return false;
}

// Parts -----------------------------------------------------------------------------------------------------

static void write_templates(struct text *out, const zl_cpu_kernel_source *k) {
    for (int i = 0; i < k->arguments; i++) {
        const zl_kernel_argument *a = &k->argument[i];
        if (a->is_dtype)
            text_add(out, "typedef %s %s;\n", types[a->value], a->name);
        else
            text_add(out, "enum { %s = %lld };\n", a->name, (long long)a->value);
    }
}

// The other properties of an input that the body may use: as parameters, and as their arguments.
static const struct {
    const char *suffix, *type, *field;
} known[] = {{"_shape", "const int64_t *", "shape"},
             {"_strides", "const int64_t *", "strides"},
             {"_ndim", "int ", "ndim"}};

static void write_parameters(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    for (int i = 0; i < k->inputs; i++) {
        text_add(out, "const %s %s%s, ", types[in[i]->dtype], in[i]->ndim ? "*restrict " : "", k->input[i]);
        for (size_t j = 0; j < COUNT(known); j++)
            if (mentions(k, k->input[i], known[j].suffix))
                text_add(out, "%s%s%s, ", known[j].type, k->input[i], known[j].suffix);
    }
    for (int i = 0; i < k->outputs; i++)
        text_add(out, "%s *restrict %s, ", types[k->dtype[i]], k->output[i]);
}

static void write_given(struct text *out, const zl_cpu_kernel_source *k) {
    for (int i = 0; i < k->inputs + k->outputs; i++) {
        text_add(out, "zellige_%d, ", i);
        for (size_t j = 0; i < k->inputs && j < COUNT(known); j++)
            if (mentions(k, k->input[i], known[j].suffix))
                text_add(out, "zellige_c->operand[%d].%s, ", i, known[j].field);
    }
}

static const char *const places[][2] = {
    {"threads_per_grid", "zellige_c->grid"},
    {"threads_per_threadgroup", "zellige_c->group"},
    {"threadgroup_position_in_grid", "{thread_position_in_grid.x / zellige_c->group.x, "
                                     "thread_position_in_grid.y / zellige_c->group.y, "
                                     "thread_position_in_grid.z / zellige_c->group.z}"},
    {"thread_position_in_threadgroup", "{thread_position_in_grid.x % zellige_c->group.x, "
                                       "thread_position_in_grid.y % zellige_c->group.y, "
                                       "thread_position_in_grid.z % zellige_c->group.z}"},
};

// Copies text without printf, which would take longer than everything else here.
static void copy(struct text *out, const char *text) {
    text_bytes(out, text, (int)strlen(text));
}

void op_kernel_own(struct text *out, const char *name, const char *what, const char *text) {
    text_add(out, "#line 1 \"%s%s\"\n", name, what);
    copy(out, text);
    text_add(out, "\n#line 1 \"%s (generated)\"\n", name);
}

static void write_body(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    text_add(out, "static inline __attribute__((always_inline)) void %s(", k->name);
    write_parameters(out, k, in);
    copy(out,
         "const struct zellige_place thread_position_in_grid, const struct zellige_call *zellige_c) {\n");
    for (size_t i = 0; i < COUNT(places); i++)
        if (mentions(k, places[i][0], ""))
            text_add(out, "    const struct zellige_place %s = %s;\n", places[i][0], places[i][1]);
    op_kernel_own(out, k->name, "", k->source);
    copy(out, "}\n");
}

// Addresses are read before the loop: for all that the compiler knows, a store to an output could change
// them.
static void write_addresses(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    for (int i = 0; i < k->inputs; i++)
        if (in[i]->ndim)
            text_add(out, "    const %s *restrict zellige_%d = zellige_c->operand[%d].data;\n",
                     types[in[i]->dtype], i, i);
        else
            text_add(out, "    const %s zellige_%d = *(const %s *)zellige_c->operand[%d].data;\n",
                     types[in[i]->dtype], i, types[in[i]->dtype], i);
    for (int i = 0; i < k->outputs; i++)
        text_add(out, "    %s *restrict zellige_%d = zellige_c->operand[%d].data;\n", types[k->dtype[i]],
                 k->inputs + i, k->inputs + i);
}

static const char loop_begin[] =
    "    while (zellige_from < zellige_to) {\n"
    "        int64_t zellige_row = zellige_from / zellige_c->grid.x;\n"
    "        int64_t zellige_at = zellige_from % zellige_c->grid.x;\n"
    "        int64_t zellige_y = zellige_row % zellige_c->grid.y;\n"
    "        int64_t zellige_z = zellige_row / zellige_c->grid.y;\n"
    "        int64_t zellige_end = zellige_at + zellige_to - zellige_from;\n"
    "        zellige_end = zellige_end < zellige_c->grid.x ? zellige_end : zellige_c->grid.x;\n"
    "        zellige_from += zellige_end - zellige_at;\n"
    "        for (int64_t zellige_x = zellige_at; zellige_x < zellige_end; zellige_x++)\n"
    "            ";
static const char loop_end[] =
    "(struct zellige_place){zellige_x, zellige_y, zellige_z}, zellige_c);\n    }\n}\n";

static void write_loop(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    copy(out, "void zellige_kernel(const struct zellige_call *zellige_c, int64_t zellige_from, int64_t "
              "zellige_to) {\n");
    write_addresses(out, k, in);
    copy(out, loop_begin);
    text_add(out, "%s(", k->name);
    write_given(out, k);
    copy(out, loop_end);
}

void op_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    text_add(out, "// %s\n", k->name);
    copy(out, op_kernel_prelude);
    write_templates(out, k);
    if (k->header && *k->header)
        op_kernel_own(out, k->name, " (header)", k->header);
    write_body(out, k, in);
    write_loop(out, k, in);
}
