// c_style.c - renders kernels in the languages that look like C.

#include "render/spirv/spirv.h"
#include "render/c/style.h"

#include <string.h>

static const struct dialect *const dialects[] = {
#define DIALECT(name) &dialect_##name,
#include "render/dialects.def"
};

const char *render_dialect_name(int at) {
    return at >= 0 && at < (int)COUNT(dialects) ? dialects[at]->target.name : NULL;
}

static const struct dialect *find(const char *name) {
    for (size_t i = 0; i < COUNT(dialects); i++)
        if (!strcmp(dialects[i]->target.name, name))
            return dialects[i];
    return NULL;
}

bool render_has_dialect(const char *dialect) {
    return find(dialect) != NULL;
}

static const struct dialect *require(const char *name) {
    const struct dialect *dialect = find(name);
    return dialect ? dialect : error_set(ZL_ERROR_VALUE, "render: there is no dialect '%s'", name);
}

const struct target *render_target(const char *dialect) {
    const struct dialect *d = require(dialect);
    return d ? &d->target : NULL;
}

const char *render_prelude(const char *dialect) {
    const struct dialect *d = require(dialect);
    return d ? d->prelude : NULL;
}

static bool render_map(struct style *s, const struct tile_kernel *kernel, const char *symbol,
                       void (*map)(struct style *s, const char *symbol)) {
    struct plan plan;
    bool good = render_plan_make(&plan, kernel, kernel->body);
    s->plan = &plan;
    if (!s->dialect->target.is_vector)
        plan.unroll = 0;
    if (good)
        map(s, symbol);
    render_plan_free(&plan);
    return good;
}

// Returns whether a kernel is a reduction, or ends with one, as a map whose result is reduced.
static bool has_reduction(const struct tile_stmt *body) {
    while (body && body->next)
        body = body->next;
    return body && body->kind == TILE_REDUCE;
}

static bool render(struct style *s, const struct tile_kernel *kernel, const char *symbol) {
    const struct tile_stmt *body = kernel->body;
    bool is_one = body && !body->next;
    if (s->dialect->program)
        return s->dialect->program(s, kernel, symbol);
    if (has_reduction(body) && s->dialect->reduction)
        return s->dialect->reduction(s, kernel, symbol);
    if (is_one && body->kind == TILE_MAP)
        return render_map(s, kernel, symbol, s->dialect->map);
    return error_false(ZL_ERROR_COMPILE,
                       "render: kernel '%s' is not one map or reduction of rows, which is all that "
                       "dialect %s has",
                       kernel->name, s->dialect->target.name);
}

// Dumps the code that was appended from `start` on; if it is not text, its disassembly.
static void dump(const struct dialect *dialect, const struct text *out, int start) {
    struct text read = {0};
    if (out->failed || !pass_is_dumped(dialect->target.name))
        return;
    if (dialect->prelude)
        pass_dump(dialect->target.name, out->data + start);
    else if (spirv_disassemble(&read, out->data + start, (size_t)(out->len - start)) && !read.failed)
        pass_dump(dialect->target.name, read.data);
    text_free(&read);
}

static bool render_as(struct text *out, const struct tile_kernel *kernel, const struct dialect *dialect,
                      const struct target *target, const char *symbol) {
    struct style s = {.out = out, .dialect = dialect, .target = target};
    int start = out->len;
    if (!render(&s, kernel, symbol ? symbol : kernel->name))
        return false;
    dump(dialect, out, start);
    return true;
}

bool render_function(struct text *out, const struct tile_kernel *kernel, const char *dialect,
                     const char *symbol) {
    const struct dialect *d = require(dialect);
    return d && render_as(out, kernel, d, &d->target, symbol);
}

bool render_kernel(struct text *out, struct tile_kernel *kernel, const struct target *target) {
    const struct dialect *d = target ? require(target->name) : NULL;
    if (!d || !pass_run(kernel, target, NULL) || !target_has_needs(target, kernel) ||
        !render_fits(target, kernel))
        return false;
    if (d->prelude)
        text_add(out, "%s\n", d->prelude);
    return render_as(out, kernel, d, target, NULL) && !out->failed;
}

int render_cost(const struct tile_kernel *kernel) {
    struct plan plan;
    int cost = 0;
    if (kernel->body->kind == TILE_MAP && render_plan_make(&plan, kernel, kernel->body))
        for (int i = 0; i < plan.count; i++)
            cost += plan.node[i]->op == TILE_CONST ? 0 : render_plan_registers(&plan, plan.node[i]);
    if (kernel->body->kind == TILE_MAP)
        render_plan_free(&plan);
    return cost;
}
