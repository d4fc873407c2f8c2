// arrange.c - plans the text of a map: values that are the same for all elements are computed before the
// loop, values that only a rare node needs in a block of their own, and the block size follows from the
// narrowest element.

#include "render/c/arrange.h"

// Order of statements ---------------------------------------------------------------------------------------

static bool is_fixed(const struct plan *plan, expr e) {
    if (e->op == TILE_LOAD)
        return pass_step_of(e->index[0], plan->map->name[0]) == PASS_FIXED;
    for (int i = 0; i < e->args; i++)
        if (!plan->of[e->arg[i]->id].is_fixed)
            return false;
    return true;
}

// Returns the innermost block that contains both.
static int meet(const struct plan *plan, int a, int b) {
    while (a != b) {
        int *inner = a > b ? &a : &b;
        *inner = plan->outer[*inner];
    }
    return a;
}

static void use(struct plan *plan, expr e, int block) {
    int *place = &plan->of[e->id].block;
    *place = *place < 0 ? block : meet(plan, *place, block);
}

// Places users before their operands: a node goes into the innermost block that all its users can see.
static void place_nodes(struct plan *plan) {
    for (int i = 0; i < plan->count; i++)
        plan->of[plan->node[i]->id].block = -1;
    for (const struct tile_stmt *s = plan->map->body; s; s = s->next)
        use(plan, s->value, 0);
    plan->blocks = 1;
    for (int i = plan->count - 1; i >= 0; i--) {
        expr e = plan->node[i];
        struct node_plan *p = &plan->of[e->id];
        if (e->op == TILE_RARE && !p->is_fixed) {
            p->inner = plan->blocks++;
            plan->outer[p->inner] = p->block;
        }
        for (int k = 0; k < e->args; k++)
            use(plan, e->arg[k], k == 1 && p->inner ? p->inner : p->block);
    }
}

// Widths ----------------------------------------------------------------------------------------------------

// Returns the width of a mask's lanes: a comparison is as wide as its operands, a logical op as the wider of
// them; 0: any width.
static int mask_bytes(const struct plan *plan, expr e) {
    if (e->op == TILE_CONST)
        return 0;
    if (e->op == TILE_LOAD || e->op == TILE_SCALAR)
        return 1;
    int bytes = 0;
    for (int i = 0; i < e->args; i++)
        bytes = MAX_OF(bytes, plan->of[e->arg[i]->id].bytes);
    return bytes;
}

static void include(struct plan *plan, int bytes, int *widest) {
    if (!bytes)
        return;
    plan->narrow = MIN_OF(plan->narrow, bytes);
    *widest = MAX_OF(*widest, bytes);
}

static int wake(struct plan *plan, expr e) {
    struct node_plan *p = &plan->of[e->id];
    bool is_new = !p->is_alive && !p->is_fixed && e->op != TILE_CONST;
    p->is_alive |= is_new;
    return is_new;
}

// Returns the most values of one element that are needed at once. Counts from the end of the body to its
// start.
static int count_alive(struct plan *plan) {
    int alive = 0, most = 0;
    for (const struct tile_stmt *s = plan->map->body; s; s = s->next)
        alive += wake(plan, s->value);
    for (int i = plan->count - 1; i >= 0; i--) {
        expr e = plan->node[i];
        alive -= plan->of[e->id].is_alive;
        for (int k = 0; k < e->args; k++)
            alive += wake(plan, e->arg[k]);
        most = MAX_OF(most, alive);
    }
    return most;
}

// Chooses how many registers of a value one iteration computes. Short bodies need several at once to hide
// latency; long ones have enough independent work (and no registers left). Rarely needed nodes count less. A
// long chain with few values waits for each step, so that more chains side by side are faster (gelu with erf,
// Neoverse-V1: 3.25 ms by 4, 2.48 ms by 8).
static void choose_block(struct plan *plan) {
    int widest = 1, common = 0, rare = 0;
    plan->narrow = 8;
    for (int i = 0; i < plan->count; i++) {
        const struct node_plan *p = &plan->of[plan->node[i]->id];
        if (p->is_fixed)
            continue;
        include(plan, p->bytes, &widest);
        *(p->block ? &rare : &common) += plan->node[i]->args > 0;
    }
    for (const struct tile_stmt *s = plan->map->body; s; s = s->next)
        include(plan, tile_type_bytes(s->buffer->type), &widest);
    int work = common + rare / 16, wanted = work <= 60 ? 4 : work <= 150 ? 2 : 1;
    if (work > 16 && work <= 60 && 8 * count_alive(plan) <= plan->kernel->registers)
        wanted = 8;
    plan->unroll = MAX_OF(1, wanted * plan->narrow / widest);
}

// Numbers the nodes anew, so that the text does not depend on nodes that were built and are no longer used.
static void measure(struct plan *plan) {
    int number = 0;
    for (int i = 0; i < plan->count; i++) {
        expr e = plan->node[i];
        struct node_plan *p = &plan->of[e->id];
        p->number = e->op == TILE_CONST ? -1 : number++;
        p->is_fixed = is_fixed(plan, e);
        p->bytes = (uint8_t)(tile_type_is_bool(e->type) ? mask_bytes(plan, e) : tile_type_bytes(e->type));
    }
}

int render_plan_registers(const struct plan *plan, expr e) {
    const struct node_plan *p = &plan->of[e->id];
    return p->is_fixed ? 1 : MAX_OF(1, p->bytes / plan->narrow * plan->unroll);
}

// Parameters ------------------------------------------------------------------------------------------------

const struct tile_buffer *render_plan_buffer(const struct tile_kernel *kernel, int at) {
    return kernel->parameter[at].is_scalar ? NULL : kernel->parameter[at].buffer;
}

static bool is_output(const struct tile_kernel *kernel, int at) {
    const struct tile_buffer *buffer = render_plan_buffer(kernel, at);
    return buffer && buffer->is_output;
}

int render_plan_argument(const struct tile_kernel *kernel, int at) {
    int outputs = 0, before = 0;
    for (int i = 0; i < kernel->parameters; i++) {
        outputs += is_output(kernel, i);
        before += i < at && is_output(kernel, i) == is_output(kernel, at);
    }
    return is_output(kernel, at) ? before : outputs + before;
}

struct tile_type render_plan_type(const struct tile_kernel *kernel, int at) {
    const struct tile_buffer *buffer = render_plan_buffer(kernel, at);
    return buffer ? buffer->type : kernel->parameter[at].scalar->type;
}

bool render_plan_steps(const struct plan *plan, int at) {
    return render_plan_buffer(plan->kernel, at) && !render_plan_is_row(plan, at);
}

bool render_plan_has_steps(const struct plan *plan) {
    for (int i = 0; i < plan->kernel->parameters; i++)
        if (render_plan_steps(plan, i))
            return true;
    return false;
}

bool render_plan_is_row(const struct plan *plan, int at) {
    const struct tile_buffer *buffer = render_plan_buffer(plan->kernel, at);
    if (!buffer)
        return false;
    for (int i = 0; i < plan->count; i++)
        if (plan->node[i]->buffer == buffer && !plan->of[plan->node[i]->id].is_fixed)
            return true;
    return buffer->is_output;
}

// -----------------------------------------------------------------------------------------------------------

// Returns whether an access is to a row: one axis, indexed by the loop's variable itself, or the element at
// 0.
static bool is_row_access(int indices, const expr *index, const struct tile_name *variable) {
    if (indices != 1)
        return false;
    bool is_first = index[0]->op == TILE_CONST && !index[0]->bits;
    return is_first || (index[0]->op == TILE_INDEX && index[0]->name == variable);
}

static bool is_over_rows(const struct tile_stmt *map, int count, const expr *node) {
    bool good = map->kind == TILE_MAP && map->indices == 1 && map->extent[0]->op == TILE_SYMBOL;
    for (const struct tile_stmt *s = map->body; good && s; s = s->next)
        good = s->kind == TILE_STORE && !s->mask && is_row_access(s->indices, s->index, map->name[0]);
    for (int i = 0; good && i < count; i++) {
        expr e = node[i];
        good = e->op == TILE_LOAD ? !e->args && is_row_access(e->indices, e->index, map->name[0])
                                  : e->op != TILE_INDEX && e->op != TILE_SYMBOL && e->op != TILE_LOCAL;
    }
    return good;
}

bool render_find_rows(const struct tile_kernel *kernel, bool *is_rows) {
    expr *node = NULL;
    const struct tile_stmt *s = kernel->body;
    *is_rows = s && !s->next && s->kind == TILE_REDUCE;
    if (!s || s->next || s->kind != TILE_MAP)
        return true;
    int count = pass_nodes(kernel, s->body, &node);
    *is_rows = count >= 0 && is_over_rows(s, count, node);
    memory_free(node);
    return count >= 0;
}

bool render_plan_make(struct plan *plan, const struct tile_kernel *kernel, const struct tile_stmt *map) {
    *plan = (struct plan){.kernel = kernel, .map = map};
    plan->count = pass_nodes(kernel, map->kind == TILE_MAP ? map->body : NULL, &plan->node);
    if (plan->count < 0)
        return false;
    if (!is_over_rows(map, plan->count, plan->node))
        return error_false(ZL_ERROR_COMPILE, "render: kernel '%s' is not one map over rows", kernel->name);
    plan->of = memory_zero((size_t)(kernel->ids + 1) * sizeof *plan->of);
    plan->outer = memory_zero((size_t)(plan->count + 1) * sizeof *plan->outer);
    if (!plan->of || !plan->outer)
        return false;
    measure(plan);
    place_nodes(plan);
    choose_block(plan);
    return true;
}

void render_plan_free(struct plan *plan) {
    memory_free(plan->node);
    memory_free(plan->of);
    memory_free(plan->outer);
    *plan = (struct plan){0};
}
