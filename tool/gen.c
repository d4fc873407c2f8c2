// gen.c - zellige-gen: writes files that the build needs from the definitions of ops.
//
//     zellige-gen rows OUTDIR     row kernels in C: rows_0.c ... rows_7.c, and rows.h
//     zellige-gen vec OUT.c       the vector layer as text, for kernels compiled at run time
//     zellige-gen headers OUTDIR  prototypes and documentation of every op
//     zellige-gen docs OUTDIR     reference pages
//     zellige-gen bindings OUT.c  ops as Python functions
//     zellige-gen stubs OUT.pyi   their types

#include "op/op.h"
#include "render/render.h"
#include "tool/gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 8, FORMS = 8 };

// A function of the table; kernels with the same text share it.
struct row {
    char *name, *text;
    int cost;
};

static struct {
    struct row **row;
    int count, cap;
    struct map by_text;
    struct text table; // initialisers of struct row_table
} rows;

static void fail(const char *what) {
    fprintf(stderr, "zellige-gen: %s: %s\n", what, zl_error() ? zl_error() : "failed");
    exit(1);
}

static void *need(void *data, const char *what) {
    if (!data)
        fail(what);
    return data;
}

// Row kernels -----------------------------------------------------------------------------------------------

static struct row *new_row(const char *name, const char *key, char *text, int cost) {
    struct row *row = need(memory_zero(sizeof *row), name);
    *row = (struct row){need(memory_copy_text(name), name), text, cost};
    if (!memory_grow(&rows.row, &rows.cap, rows.count + 1, sizeof *rows.row) ||
        !map_set(&rows.by_text, key, strlen(key), row))
        fail(name);
    return rows.row[rows.count++] = row;
}

static char *without(const char *text, const char *symbol) {
    struct text out = {0};
    const char *at = strstr(text, symbol);
    text_add(&out, "%.*s%s", (int)(at - text), text, at + strlen(symbol));
    return need(text_take(&out), symbol);
}

// Renders the kernel, frees it, and gives the function's name: that of the first kernel with the same text.
static const char *add_row(struct tile_kernel *kernel) {
    struct text out = {0};
    char symbol[128];
    need(kernel, "row");
    snprintf(symbol, sizeof symbol, "ROW(%s)", kernel->name);
    if (!pass_run(kernel, need((void *)render_target("c"), "c"), NULL) ||
        !render_function(&out, kernel, "c", symbol))
        fail(kernel->name);
    char *text = need(text_take(&out), kernel->name), *key = without(text, symbol);
    struct row *row = map_get(&rows.by_text, key, strlen(key));
    if (row)
        memory_free(text);
    else
        row = new_row(kernel->name, key, text, render_cost(kernel));
    memory_free(key);
    tile_free(kernel);
    return row->name;
}

// Returns whether an op of this arity has a form. Bit k of a form says that operand k is a scalar. All forms
// exist except the one without a vector.
static bool has_form(int arity, int form) {
    return form < (1 << arity) && form != (1 << arity) - 1;
}

static void add_op(enum tile_op op, zl_dtype dtype) {
    int arity = tile_op_arity(op);
    for (int form = 0; form < FORMS; form++) {
        if (!has_form(arity, form))
            continue;
        char letters[4] = {0};
        for (int k = 0; k < arity; k++)
            letters[k] = form >> k & 1 ? 's' : 'v';
        const char *name = add_row(tile_row_kernel(op, dtype, letters));
        text_add(&rows.table, "    .op[%d][%d][%d] = ROW(%s),\n", op, dtype, form, name);
    }
}

static void add_ops(void) {
    for (int op = 0; tile_op_is_row((enum tile_op)op); op++)
        for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
            if (tile_row_takes((enum tile_op)op, (zl_dtype)dtype))
                add_op((enum tile_op)op, (zl_dtype)dtype);
}

static void add_casts(void) {
    for (int to = 0; to < ZL_DTYPE_COUNT; to++)
        for (int from = 0; from < ZL_DTYPE_COUNT; from++)
            if (to != from)
                text_add(&rows.table, "    .cast[%d][%d] = ROW(%s),\n", to, from,
                         add_row(tile_cast_kernel((zl_dtype)to, (zl_dtype)from)));
}

static void add_reductions(void) {
    static const enum tile_op combine[] = {TILE_ADD, TILE_MUL, TILE_MAX, TILE_MIN, TILE_AND, TILE_OR};
    for (size_t i = 0; i < COUNT(combine); i++)
        for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++) {
            bool is_logic = combine[i] == TILE_AND || combine[i] == TILE_OR;
            if (is_logic == (dtype == ZL_BOOL))
                text_add(&rows.table, "    .reduce[%d][%d] = ROW(%s),\n", combine[i], dtype,
                         add_row(tile_reduce_kernel(combine[i], (zl_dtype)dtype)));
        }
}

// Files -----------------------------------------------------------------------------------------------------

static const char made[] = "// Made by zellige-gen from the definitions of ops: do not edit.\n";

static void write_file(const char *folder, const char *name, struct text *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    if (text->failed || !file_write(path, text->data, (size_t)text->len))
        fail(path);
    text_free(text);
}

static void write_header(const char *folder) {
    struct text out = {0};
    text_add(&out, "%s\n#ifndef ROWS_H\n#define ROWS_H\n\n#include \"zellige.h\"\n\n", made);
    text_add(
        &out,
        "// A row kernel: p holds the outputs, then the inputs; each element of a scalar input serves for "
        "run "
        "elements of\n"
        "// the others. An output may be exactly an input. Of a reduction, p[0] gets one element of the "
        "accumulator's type.\n"
        "typedef void row_fn(char *const *p, int64_t n, int64_t run);\n\n"
        "enum { ROW_OPS = %d, ROW_FORMS = %d }; // rows of enum tile_op; bit k of a form: operand k is a "
        "scalar\n\n"
        "struct row_table {\n"
        "    int vec_bytes; // of a register\n"
        "    row_fn *op[ROW_OPS][ZL_DTYPE_COUNT][ROW_FORMS]; // by dtype of the operands (of where: the last "
        "two)\n"
        "    row_fn *cast[ZL_DTYPE_COUNT][ZL_DTYPE_COUNT];   // [to][from]\n"
        "    row_fn *reduce[ROW_OPS][ZL_DTYPE_COUNT];        // by what combines, and dtype of the input\n"
        "};\n\n"
        "#define LEVEL(name, ...) extern const struct row_table rows_##name;\n"
        "#include \"device/cpu/levels.def\"\n\n#endif\n",
        TILE_CONST, FORMS);
    write_file(folder, "rows.h", &out);
}

static int by_cost(const void *a, const void *b) {
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    return x->cost != y->cost ? (x->cost < y->cost) - (x->cost > y->cost) : strcmp(x->name, y->name);
}

// Distributes rows to shards, costly ones first, each to the shard with the least cost, so that shards
// compile in parallel.
static void deal(struct text *shard) {
    long load[SHARDS] = {0};
    qsort(rows.row, (size_t)rows.count, sizeof *rows.row, by_cost);
    for (int i = 0; i < rows.count; i++) {
        int lightest = 0;
        for (int k = 1; k < SHARDS; k++)
            lightest = load[k] < load[lightest] ? k : lightest;
        load[lightest] += rows.row[i]->cost + 20;
        text_add(&shard[lightest], "\n%s", rows.row[i]->text);
    }
}

static void add_table(struct text *out) {
    text_add(out, "\n");
    for (int i = 0; i < rows.count; i++)
        text_add(out, "row_fn ROW(%s);\n", rows.row[i]->name);
    text_add(out,
             "\nconst struct row_table VEC_JOIN(rows_, ZL_LEVEL) = {\n    .vec_bytes = VEC_BYTES,\n%s};\n",
             rows.table.data);
}

static bool write_rows(const char *folder) {
    struct text shard[SHARDS] = {{0}};
    for (int i = 0; i < SHARDS; i++)
        text_add(&shard[i], "%s\n#include \"rows.h\"\n%s\n#define ROW(name) VEC_JOIN(name##_, ZL_LEVEL)\n",
                 made, render_prelude("c"));
    add_ops();
    add_casts();
    add_reductions();
    deal(shard);
    add_table(&shard[0]);
    for (int i = 0; i < SHARDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "rows_%d.c", i);
        write_file(folder, name, &shard[i]);
    }
    write_header(folder);
    return true;
}

// The vector layer as text ----------------------------------------------------------------------------------

static const char vec_folder[] =
    "src/device/cpu/"; // relative to the root of the repository, where the build runs this

static void add_quoted(struct text *out, const char *line, size_t len) {
    text_add(out, "    \"");
    for (size_t i = 0; i < len; i++)
        text_add(out, line[i] == '"' || line[i] == '\\' ? "\\%c" : "%c", line[i]);
    text_add(out, "\\n\"\n");
}

// Appends a header line by line. A header of the layer that it includes replaces its #include.
static void add_header(struct text *out, const char *name) {
    static const char include[] = "#include \"vec/";
    char path[256];
    snprintf(path, sizeof path, "%s%s", vec_folder, name);
    char *text = need(file_read(path, NULL), path);
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        if (!strncmp(line, include, strlen(include))) {
            char inner[128];
            const char *start = strchr(line, '"') + 1;
            snprintf(inner, sizeof inner, "%.*s", (int)strcspn(start, "\""), start);
            add_header(out, inner);
        } else
            add_quoted(out, line, len);
        line += len + (line[len] == '\n');
    }
    memory_free(text);
}

static bool write_vec(const char *path) {
    struct text out = {0};
    text_add(&out, "%s\nextern const char cpu_vec_text[];\n\nconst char cpu_vec_text[] =\n", made);
    add_header(&out, "vec/vec.h");
    text_add(&out, "    ;\n");
    write_file("", path, &out);
    return true;
}

int main(int count, char **arg) {
    static const struct {
        const char *name;
        bool (*make)(const char *path);
    } modes[] = {{"rows", write_rows}, {"vec", write_vec},         {"headers", op_write_headers},
                 {"docs", gen_pages},  {"bindings", gen_bindings}, {"stubs", gen_stubs}};
    for (size_t i = 0; count == 3 && i < COUNT(modes); i++)
        if (!strcmp(arg[1], modes[i].name)) {
            if (!modes[i].make(arg[2]))
                fail(arg[2]);
            return 0;
        }
    fprintf(stderr,
            "usage: zellige-gen rows OUTDIR | vec OUT.c | headers OUTDIR | docs OUTDIR | bindings OUT.c | "
            "stubs OUT.pyi\n");
    return 2;
}
