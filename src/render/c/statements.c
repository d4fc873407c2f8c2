// statements.c - writes the statements of a map's body, the same in every dialect: one per register of a
// node, operands first, with an `if` around rarely needed nodes.

#include "render/c/style.h"

#include <stdarg.h>

static void begin_line(struct style *s) {
    text_add(s->out, "%*s", 4 * s->indent, "");
}

void style_line(struct style *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    begin_line(s);
    text_add_list(s->out, format, list);
    text_add(s->out, "\n");
    va_end(list);
}

void style_open(struct style *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    begin_line(s);
    text_add_list(s->out, format, list);
    text_add(s->out, " {\n");
    s->indent++;
    va_end(list);
}

void style_close(struct style *s) {
    s->indent--;
    style_line(s, "}");
}

const struct spelling *style_spelling(const struct style *s, expr e) {
    return &s->dialect->target.op[e->op];
}

void style_expand(struct style *s, const char *spelling, expr e, int j,
                  void (*more)(struct style *, char, expr, int)) {
    for (const char *at = spelling; *at; at++) {
        if (*at != '%') {
            text_bytes(s->out, at, 1);
            continue;
        }
        char what = *++at;
        if (what >= 'a' && what <= 'c')
            s->dialect->operand(s, e->arg[what - 'a'], j);
        else if (what == 't')
            text_add(s->out, "%s", tile_type_name(e->arg[e->args - 1]->type));
        else
            more(s, what, e, j);
    }
}

// Writes `[type] name = value;` for all registers of e. The values are the registers of `other` or, if that
// is NULL, the value of e.
static void assign(struct style *s, expr e, bool declares, expr other) {
    for (int j = 0; j < render_plan_registers(s->plan, e); j++) {
        begin_line(s);
        if (declares) {
            s->dialect->type(s, e);
            text_add(s->out, " ");
        }
        s->dialect->operand(s, e, j);
        text_add(s->out, " = ");
        (other ? s->dialect->operand : s->dialect->value)(s, other ? other : e, j);
        text_add(s->out, ";\n");
    }
}

// Writes the common value; then, if any lane needs it, the rare one and the select.
static void declare_rare(struct style *s, expr e) {
    assign(s, e, true, e->arg[2]);
    begin_line(s);
    text_add(s->out, "if (");
    s->dialect->any(s, e->arg[0]);
    text_add(s->out, ") {\n");
    s->indent++;
    style_block(s, s->plan->of[e->id].inner);
    assign(s, e, false, NULL);
    style_close(s);
}

void style_fixed(struct style *s) {
    const struct plan *plan = s->plan;
    for (int i = 0; i < plan->count; i++)
        if (plan->of[plan->node[i]->id].is_fixed && !s->dialect->is_inline(plan, plan->node[i]))
            assign(s, plan->node[i], true, NULL);
}

void style_node(struct style *s, expr e) {
    if (e->op == TILE_RARE)
        declare_rare(s, e);
    else
        assign(s, e, true, NULL);
}

void style_block(struct style *s, int block) {
    const struct plan *plan = s->plan;
    for (int i = 0; i < plan->count; i++) {
        expr e = plan->node[i];
        const struct node_plan *p = &plan->of[e->id];
        if (p->is_fixed || p->block != block || s->dialect->is_inline(plan, e))
            continue;
        style_node(s, e);
    }
}
