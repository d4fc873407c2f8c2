// kernel.c - the public functions that parse tile kernels and print them at every stage.

#include "kernel/kernel.h"

#include "render/render.h"
#include "render/spirv/spirv.h"

#include <string.h>

zl_kernel zl_kernel_parse(const char *text, const char *name) {
    return zl_kernel_parse_with(text, name, NULL);
}

zl_kernel zl_kernel_parse_with(const char *text, const char *name, const char *params) {
    if (!text)
        return error_set(ZL_ERROR_VALUE, "zl_kernel_parse: text is NULL");
    zl_kernel k = memory_zero(sizeof *k);
    if (!k)
        return NULL;
    k->kernel = tile_parse_with(text, name ? name : "kernel", params && *params ? params : NULL);
    if (k->kernel)
        return k;
    memory_free(k);
    return NULL;
}

void kernel_form_free(struct kernel_form *form) {
    if (form->compiled)
        form->driver->free(form->compiled);
    text_free(&form->source);
    tile_free(form->lowered);
    memory_free(form);
}

void zl_kernel_release(zl_kernel kernel) {
    if (!kernel)
        return;
    struct kernel_form *next;
    for (struct kernel_form *f = atomic_load(&kernel->forms); f; f = next) {
        next = f->next;
        kernel_form_free(f);
    }
    tile_sizes_close(kernel->sizes);
    tile_free(kernel->kernel);
    memory_free(kernel);
}

// Returns the text after the prefix, or NULL if it does not begin with the prefix.
static const char *after(const char *text, const char *prefix) {
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) ? NULL : text + len;
}

// Stages ----------------------------------------------------------------------------------------------------

static const char first_stage[] = "tile";

static int passes(void) {
    int count = 0;
    while (pass_name(count))
        count++;
    return count;
}

const char *zl_kernel_stage(int index) {
    if (index <= 0)
        return index ? NULL : first_stage;
    return index <= passes() ? pass_name(index - 1) : render_dialect_name(index - 1 - passes());
}

static bool no_stage(const char *stage) {
    struct text list = {0};
    for (int i = 0; zl_kernel_stage(i); i++)
        text_add(&list, "%s%s", i ? ", " : "", zl_kernel_stage(i));
    error_set(ZL_ERROR_VALUE, "zl_kernel_print: there is no stage '%s'; there are: %s", stage,
              list.data ? list.data : "");
    text_free(&list);
    return false;
}

static bool is_stage(const char *stage) {
    const char *name;
    for (int i = 0; (name = zl_kernel_stage(i)); i++)
        if (!strcmp(name, stage))
            return true;
    return no_stage(stage);
}

// Returns the dialect for a target, or NULL if there is none. For row kernels it is the one with the target's
// name; otherwise the one with "_tiles" appended is preferred.
static const char *dialect_of(bool is_rows, const char *target) {
    if (is_rows && render_has_dialect(target))
        return target;
    const char *name, *rest;
    for (int i = 0; (name = render_dialect_name(i)); i++)
        if ((rest = after(name, target)) && !strcmp(rest, "_tiles"))
            return name;
    return render_has_dialect(target) ? target : NULL;
}

// Returns the code that a compiler gets; SPIR-V, which is not text, is disassembled.
static char *show_code(struct tile_kernel *kernel, const struct target *target) {
    struct text code = {0}, read = {0};
    bool good = render_kernel(&code, kernel, target);
    if (good && target->spirv)
        good = spirv_disassemble(&read, code.data, (size_t)code.len);
    struct text *out = target->spirv ? &read : &code;
    char *shown = good ? text_take(out) : NULL;
    text_free(&code);
    text_free(&read);
    return shown;
}

// Returns the kernel's text at a stage. Changes the kernel.
static char *show(struct tile_kernel *kernel, const char *stage) {
    if (!stage)
        return error_set(ZL_ERROR_VALUE,
                         "zl_kernel_print: stage is NULL; `tile` is the kernel as it was read");
    if (!strcmp(stage, first_stage))
        return tile_print(kernel);
    bool is_rows;
    if (!render_find_rows(kernel, &is_rows))
        return NULL;
    const char *dialect = dialect_of(is_rows, stage);
    if (dialect)
        return show_code(kernel, render_target(dialect));
    bool done = is_stage(stage) && pass_run(kernel, render_target(dialect_of(is_rows, "c")), stage);
    return done ? tile_print(kernel) : NULL;
}

// Copies the source positions of statements, so that messages refer to the text that was read and not to its
// printed form.
static void keep_places(struct tile_stmt *to, const struct tile_stmt *from) {
    for (; to && from && to->kind == from->kind; to = to->next, from = from->next) {
        to->place = from->place;
        keep_places(to->body, from->body);
        keep_places(to->other, from->other);
    }
}

// Copies a kernel, since passes change it in place: a printed kernel reads back as the same kernel.
struct tile_kernel *kernel_copy(const struct tile_kernel *kernel) {
    char *text = tile_print(kernel);
    struct tile_kernel *result = text ? tile_parse(text, kernel->name) : NULL;
    memory_free(text);
    if (result) {
        result->file = kernel->file;
        result->source = kernel->source;
        keep_places(result->body, kernel->body);
    }
    return result;
}

char *zl_kernel_print(zl_kernel kernel, const char *stage) {
    struct tile_kernel *own = kernel ? kernel_copy(kernel->kernel) : NULL;
    char *text = own ? show(own, stage) : NULL;
    tile_free(own);
    return text;
}

// Built-in kernels ------------------------------------------------------------------------------------------

static const struct kernel_text *find_text(const char *name) {
    size_t len = strlen(name);
    for (const struct kernel_text *t = kernel_texts; t->name; t++)
        if (!strncmp(t->name, name, len) && !strcmp(t->name + len, ".tile"))
            return t;
    return NULL;
}

struct tile_kernel *kernel_built_in(const char *name, const char *params, ...) {
    const struct kernel_text *t = find_text(name);
    struct text given = {0};
    va_list list;
    if (!t)
        return error_set(ZL_ERROR_VALUE, "there is no kernel '%s' in src/kernel/", name);
    va_start(list, params);
    text_add_list(&given, params, list);
    va_end(list);
    struct tile_kernel *kernel =
        given.failed ? NULL : tile_parse_with(t->text, t->name, given.len ? given.data : NULL);
    text_free(&given);
    return kernel;
}

static struct tile_kernel *cast_to(const char *type_name, zl_dtype from) {
    struct tile_type type;
    if (tile_type_find(type_name, &type) && type.lanes == 1)
        return tile_cast_kernel(tile_dtype_of(type), from);
    return error_set(ZL_ERROR_DTYPE, "zl_kernel_of_op: there is no type '%s'", type_name);
}

static struct tile_kernel *no_op(const char *name) {
    return error_set(ZL_ERROR_VALUE,
                     "zl_kernel_of_op: there is no op '%s'; add, cast_f16, reduce_maximum and the files of "
                     "src/kernel/ are such",
                     name);
}

static struct tile_kernel *row(const char *name, zl_dtype dtype) {
    static const char *const all_vectors[] = {"", "v", "vv", "vvv"};
    enum tile_op op = tile_op_find(name);
    if (tile_op_is_row(op))
        return tile_row_kernel(op, dtype, all_vectors[tile_op_arity(op)]);
    return no_op(name);
}

// Returns the built-in kernel of a file. The dtype is that of ITEM, where the file has such a type.
static struct tile_kernel *of_file(const struct kernel_text *t, const char *name, zl_dtype dtype) {
    return strstr(t->text, "type ITEM =")
               ? kernel_built_in(name, "ITEM=%s", tile_type_name(tile_type_of(dtype)))
               : kernel_built_in(name, "%s", "");
}

static struct tile_kernel *built_in(const char *op, zl_dtype dtype) {
    const struct kernel_text *file = find_text(op);
    if (file)
        return of_file(file, op, dtype);
    const char *type = after(op, "cast_"), *combine = after(op, "reduce_");
    if (type)
        return cast_to(type, dtype);
    if (combine && tile_op_find(combine) == TILE_OP_COUNT)
        return no_op(op);
    return combine ? tile_reduce_kernel(tile_op_find(combine), dtype) : row(op, dtype);
}

char *zl_kernel_of_op(const char *op, zl_dtype dtype, const char *stage) {
    if (!op || (unsigned)dtype >= ZL_DTYPE_COUNT)
        return error_set(ZL_ERROR_VALUE, "zl_kernel_of_op: %s", op ? "no such dtype" : "op is NULL");
    struct tile_kernel *kernel = built_in(op, dtype);
    char *text = kernel ? show(kernel, stage) : NULL;
    tile_free(kernel);
    return text;
}
