// print.c - prints kernels as text. The form is canonical: printing a kernel that was parsed from it gives
// the same text.

#include "tile/syntax.h"

static void print_parameter(struct tile_printer *p, const struct tile_parameter *parameter) {
    if (!parameter->is_scalar) {
        enum tile_memory memory = parameter->buffer->memory;
        tile_print_buffer(p, parameter->buffer, memory == TILE_GLOBAL ? "" : tile_memory_word[memory]);
        return;
    }
    const struct tile_name *name = parameter->scalar;
    text_add(&p->out, "%s: %s", tile_name_text(p, name, name->text), tile_type_name(name->type));
}

static bool is_output(const struct tile_parameter *parameter) {
    return !parameter->is_scalar && parameter->buffer->is_output;
}

static int print_parameters(struct tile_printer *p, const struct tile_kernel *kernel, bool outputs) {
    int count = 0;
    for (int i = 0; i < kernel->parameters; i++)
        if (is_output(&kernel->parameter[i]) == outputs) {
            text_add(&p->out, count++ ? ", " : outputs ? " -> (" : "");
            print_parameter(p, &kernel->parameter[i]);
        }
    text_add(&p->out, count || !outputs ? ")" : "");
    return count;
}

static void print_fact(struct tile_printer *p, int *facts, const struct tile_name *symbol, const char *what,
                       int64_t value, const char *rest) {
    const char *name = tile_name_text(p, symbol, symbol->text);
    text_add(&p->out, "%s%s %s %lld%s", (*facts)++ ? ", " : " where ", name, what, (long long)value, rest);
}

static void print_facts(struct tile_printer *p, const struct tile_kernel *kernel) {
    int facts = 0;
    for (int i = 0; i < kernel->symbols; i++) {
        const struct tile_name *symbol = kernel->symbol[i];
        if (symbol->low > 0)
            print_fact(p, &facts, symbol, ">=", symbol->low, "");
        if (symbol->high < INT64_MAX)
            print_fact(p, &facts, symbol, "<=", symbol->high, "");
        if (symbol->divisor != 1)
            print_fact(p, &facts, symbol, "%", symbol->divisor, " == 0");
    }
}

// Counts the symbols of an expression in the order in which a parser meets them. Returns false if one is met
// before its turn.
static bool meets_in_order(const struct tile_kernel *kernel, expr e, int *met) {
    for (int i = 0; i < tile_operands(e); i++)
        if (!meets_in_order(kernel, tile_operand(e, i), met))
            return false;
    if (e->op != TILE_SYMBOL)
        return true;
    for (int i = 0; i < *met; i++)
        if (kernel->symbol[i] == e->name)
            return true;
    return *met < kernel->symbols && kernel->symbol[(*met)++] == e->name;
}

// Returns whether the shapes of the parameters, read in order, declare the symbols in their order.
static bool shapes_tell_symbols(const struct tile_kernel *kernel) {
    int met = 0;
    for (int i = 0; i < kernel->parameters; i++) {
        const struct tile_buffer *b = kernel->parameter[i].buffer;
        for (int k = 0; b && k < b->ndim; k++)
            if (!meets_in_order(kernel, b->shape[k], &met))
                return false;
    }
    return met == kernel->symbols;
}

static void print_symbols(struct tile_printer *p, const struct tile_kernel *kernel) {
    bool list = !shapes_tell_symbols(kernel);
    for (int i = 0; i < kernel->symbols; i++) {
        const char *name = tile_bind(p, kernel->symbol[i], 0, kernel->symbol[i]->text);
        if (list)
            text_add(&p->out, "%s%s", i ? ", " : "<", name);
    }
    text_add(&p->out, list ? ">" : "");
}

static void print_kernel(struct tile_printer *p, const struct tile_kernel *kernel) {
    text_add(&p->out, kernel->index_bits == 64 ? "kernel %s" : "kernel %s index %d ", kernel->name,
             kernel->index_bits);
    print_symbols(p, kernel);
    for (int i = 0; i < kernel->parameters; i++) {
        const struct tile_parameter *a = &kernel->parameter[i];
        tile_bind(p, a->is_scalar ? (const void *)a->scalar : a->buffer, 0,
                  a->is_scalar ? a->scalar->text : a->buffer->text);
    }
    text_add(&p->out, "(");
    print_parameters(p, kernel, false);
    print_parameters(p, kernel, true);
    print_facts(p, kernel);
    text_add(&p->out, " {\n");
    p->indent = 1;
    tile_print_block(p, kernel->body);
    text_add(&p->out, "}\n");
}

char *tile_print(const struct tile_kernel *kernel) {
    struct tile_printer p = {.index_type = {TILE_INT, (uint8_t)kernel->index_bits, 1}};
    print_kernel(&p, kernel);
    arena_free(&p.arena);
    memory_free(p.scope);
    if (!p.failed)
        return text_take(&p.out);
    text_free(&p.out);
    return NULL;
}
