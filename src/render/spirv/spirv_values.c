// spirv_values.c - computes expressions: each node once, for the statement that uses it.

#include "render/spirv/spirv_program.h"

spirv_id spirv_type(struct spirv_program *p, struct tile_type type) {
    if (tile_type_is_bool(type))
        return spirv_bool(&p->m);
    if (spirv_is_pair(p, type))
        return spirv_pair(&p->m);
    if (tile_type_is_float(type) && type.bits > 16)
        return spirv_float(&p->m, type.bits);
    return spirv_uint(&p->m, type.bits == 64 ? 64 : 32);
}

spirv_id spirv_from_bits(struct spirv_program *p, struct tile_type type, spirv_id bits) {
    if (tile_type_is_bool(type))
        return spirv_test_by(p, SPIRV_INotEqual, bits, 0);
    if (type.bits == 64 ? spirv_is_pair(p, type) : type.bits == 32 && type.kind != TILE_FLOAT)
        return bits;
    if (type.bits < 32)
        return type.kind == TILE_INT ? spirv_narrow(p, type, bits) : bits;
    return spirv_as(p, spirv_type(p, type), bits);
}

spirv_id spirv_to_bits(struct spirv_program *p, struct tile_type type, spirv_id value) {
    if (tile_type_is_bool(type))
        return spirv_pick_number(p, value, 1, 0);
    if (type.bits < 32)
        return type.kind == TILE_INT ? spirv_narrow(p, (struct tile_type){TILE_UINT, type.bits, 1}, value)
                                     : value;
    if (type.bits == 64)
        return spirv_is_pair(p, type) ? value : spirv_as(p, spirv_pair(&p->m), value);
    return type.kind == TILE_FLOAT ? spirv_as(p, spirv_uint(&p->m, 32), value) : value;
}

spirv_id spirv_of(struct spirv_program *p, expr e) {
    return e->op == TILE_CONST ? spirv_constant_of(p, e->type, e->bits) : p->node[e->id].id;
}

spirv_id spirv_index_as(struct spirv_program *p, struct tile_type type, expr e) {
    if (e->op == TILE_CONST)
        return spirv_constant_of(p, type, type.bits == 64 ? e->bits : (uint32_t)e->bits);
    return spirv_convert(p, type, e->type, spirv_of(p, e));
}

static void compute(struct spirv_program *p, expr e);

static spirv_id load(struct spirv_program *p, expr e, int part) {
    static const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    struct tile_type type = part < 0 ? e->type : f32;
    spirv_id mask = e->args ? spirv_of(p, e->arg[0]) : 0;
    spirv_id bits = spirv_read(p, e->buffer, spirv_place(p, e->buffer, e->index, part), mask);
    spirv_id value = spirv_from_bits(p, type, bits);
    if (!mask)
        return value;
    expr other = part >= 0 && e->arg[1]->op == TILE_PAIR ? e->arg[1]->arg[part] : e->arg[1];
    spirv_id instead = spirv_of(p, other);
    return spirv_pick(p, type, mask, value, instead);
}

static spirv_id leaf(struct spirv_program *p, expr e) {
    spirv_id variable = p->variable[e->name->id];
    return variable ? spirv_load(&p->m, spirv_type(p, e->type), variable) : p->value[e->name->id];
}

static spirv_id value_of(struct spirv_program *p, expr e) {
    bool is_part = e->op == TILE_RE || e->op == TILE_IM;
    spirv_id operand[3] = {0};
    if (e->op >= TILE_INDEX && e->op <= TILE_LOCAL)
        return leaf(p, e);
    if (e->op == TILE_LOAD)
        return load(p, e, -1);
    if (is_part && e->arg[0]->op == TILE_LOAD)
        return load(p, e->arg[0], e->op == TILE_IM);
    if (is_part || e->type.lanes > 1) {
        spirv_fail(p, "the target has no form of ", tile_op_name(e->op));
        return 0;
    }
    for (int i = 0; i < e->args; i++)
        operand[i] = spirv_of(p, e->arg[i]);
    return spirv_operation(p, e, operand);
}

// Forgets the values that were computed in a branch: they are not visible after it.
static void forget(struct spirv_program *p, expr e) {
    struct spirv_node *n = &p->node[e->id];
    if (n->seen != p->stamp || n->depth <= p->depth)
        return;
    n->seen = 0;
    for (int i = 0; i < tile_operands(e); i++)
        forget(p, tile_operand(e, i));
}

// Computes the common value; then, in a branch, the rare one. Returns false if the rare one is a constant or
// was computed already.
static bool compute_rare(struct spirv_program *p, expr e) {
    expr rare = e->arg[1];
    compute(p, e->arg[0]);
    compute(p, e->arg[2]);
    if (rare->op == TILE_CONST || p->node[rare->id].seen == p->stamp)
        return false;
    spirv_id then = spirv_new(&p->m), merge = spirv_new(&p->m), from = p->m.function->label,
             common = spirv_of(p, e->arg[2]);
    spirv_choose(&p->m, spirv_of(p, e->arg[0]), then, merge, merge);
    spirv_label(&p->m, then);
    p->depth++;
    compute(p, rare);
    spirv_id value = spirv_of(p, rare), last = p->m.function->label;
    p->depth--;
    forget(p, rare);
    spirv_label(&p->m, merge);
    p->node[e->id].id = spirv_value(&p->m, SPIRV_Phi, spirv_type(p, e->type), common, from, value, last);
    return true;
}

static void compute(struct spirv_program *p, expr e) {
    struct spirv_node *n = &p->node[e->id];
    if (n->seen == p->stamp)
        return;
    n->seen = p->stamp;
    n->depth = p->depth;
    if (e->op == TILE_RARE && compute_rare(p, e))
        return;
    for (int i = 0; i < tile_operands(e); i++)
        compute(p, tile_operand(e, i));
    if (e->op != TILE_CONST && e->op != TILE_PAIR && !tile_type_is_complex(e->type))
        n->id = value_of(p, e);
}

void spirv_nodes(struct spirv_program *p, int count, const expr *root) {
    p->stamp++;
    for (int i = 0; i < count; i++)
        if (root[i])
            compute(p, root[i]);
}

// 16-bit floats are computed in f32.
spirv_id spirv_combine(struct spirv_program *p, enum tile_op op, struct tile_type type, spirv_id a,
                       spirv_id b) {
    static const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    struct tile_type in = tile_type_is_half(type) ? f32 : type;
    struct tile_expr leaf = {.op = TILE_LOCAL, .type = in};
    bool is_truth = op == TILE_LT || op == TILE_GT;
    struct tile_type out = is_truth ? (struct tile_type){TILE_BOOL, 1, 1} : in;
    struct tile_expr e = {.op = op, .type = out, .args = 2, .arg = {&leaf, &leaf}};
    a = spirv_convert(p, in, type, a);
    b = spirv_convert(p, in, type, b);
    spirv_id result = spirv_operation(p, &e, (spirv_id[]){a, b});
    return is_truth ? result : spirv_convert(p, type, in, result);
}
