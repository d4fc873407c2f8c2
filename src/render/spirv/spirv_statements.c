// spirv_statements.c - writes the statements of one thread.

#include "render/spirv/spirv_program.h"

#include "render/c/program.h"

static void compute_all(struct spirv_program *p, const struct tile_stmt *s) {
    expr root[TILE_STMT_EXPRS];
    spirv_nodes(p, tile_stmt_exprs(s, root), root);
}

// Begins the block of a condition and returns the label after it; 0 if there is no condition, and nothing to
// close.
static spirv_id open_if(struct spirv_program *p, spirv_id truth) {
    if (!truth)
        return 0;
    spirv_id then = spirv_new(&p->m), merge = spirv_new(&p->m);
    spirv_choose(&p->m, truth, then, merge, merge);
    spirv_label(&p->m, then);
    return merge;
}

static void close_if(struct spirv_program *p, spirv_id merge) {
    if (merge)
        spirv_label(&p->m, merge);
}

static void choose(struct spirv_program *p, const struct tile_stmt *s) {
    spirv_nodes(p, 1, &s->mask);
    spirv_id then = spirv_new(&p->m), other = spirv_new(&p->m), merge = spirv_new(&p->m);
    spirv_choose(&p->m, spirv_of(p, s->mask), then, s->other ? other : merge, merge);
    spirv_label(&p->m, then);
    spirv_block_of(p, s->body);
    spirv_branch(&p->m, merge);
    if (s->other) {
        spirv_label(&p->m, other);
        spirv_block_of(p, s->other);
    }
    spirv_label(&p->m, merge);
}

// Loops -----------------------------------------------------------------------------------------------------

struct spirv_loop spirv_open_loop(struct spirv_program *p, bool is_unrolled) {
    struct spirv_loop l = {.outer = p->loop_merge};
    for (spirv_id *id = &l.head; id <= &l.merge; id++)
        *id = spirv_new(&p->m);
    spirv_label(&p->m, l.head);
    spirv_do(&p->m, SPIRV_LoopMerge, l.merge, l.next, is_unrolled);
    spirv_branch(&p->m, l.test);
    spirv_label(&p->m, l.test);
    p->loop_merge = l.merge;
    return l;
}

void spirv_test_loop(struct spirv_program *p, const struct spirv_loop *l, spirv_id goes_on) {
    spirv_branch_if(&p->m, goes_on, l->body, l->merge);
    spirv_label(&p->m, l->body);
}

void spirv_close_loop(struct spirv_program *p, const struct spirv_loop *l) {
    spirv_branch(&p->m, l->head);
    spirv_label(&p->m, l->merge);
    p->loop_merge = l->outer;
}

static spirv_id is_inside(struct spirv_program *p, const struct tile_stmt *s, spirv_id at, spirv_id end,
                          spirv_id step) {
    struct tile_type type = s->name[0]->type;
    spirv_id less = spirv_combine(p, TILE_LT, type, at, end);
    if (!step || pass_range(s->step).low > 0)
        return less;
    spirv_id zero = spirv_constant_of(p, type, 0), is_up = spirv_combine(p, TILE_GT, type, step, zero);
    spirv_id up = spirv_test(p, SPIRV_LogicalAnd, is_up, less);
    spirv_id is_down = spirv_combine(p, TILE_LT, type, step, zero);
    spirv_id down = spirv_test(p, SPIRV_LogicalAnd, is_down, spirv_combine(p, TILE_GT, type, at, end));
    return spirv_test(p, SPIRV_LogicalOr, up, down);
}

// Writes the loop over one name, from begin to end by step (0: by 1). Its body is the loop over the next
// name, or the statement's body.
static void count(struct spirv_program *p, const struct tile_stmt *s, int which, spirv_id begin,
                  const spirv_id *end, spirv_id step) {
    const struct tile_name *name = s->name[which];
    spirv_id type = spirv_type(p, name->type), variable = spirv_local(&p->m, type);
    spirv_do(&p->m, SPIRV_Store, variable, begin);
    struct spirv_loop l = spirv_open_loop(p, s->kind == TILE_FOR && s->loop == TILE_UNROLLED);
    spirv_id at = p->value[name->id] = spirv_load(&p->m, type, variable);
    p->variable[name->id] = 0;
    spirv_test_loop(p, &l, is_inside(p, s, at, end[which], step));
    if (which + 1 < s->indices)
        count(p, s, which + 1, begin, end, step);
    else
        spirv_block_of(p, s->body);
    spirv_label(&p->m, l.next);
    at = spirv_combine(p, TILE_ADD, name->type, at, step ? step : spirv_constant_of(p, name->type, 1));
    spirv_do(&p->m, SPIRV_Store, variable, at);
    spirv_close_loop(p, &l);
}

static void map(struct spirv_program *p, const struct tile_stmt *s) {
    spirv_id end[TILE_DIMS];
    spirv_nodes(p, s->indices, s->extent);
    for (int i = 0; i < s->indices; i++)
        end[i] = spirv_of(p, s->extent[i]);
    count(p, s, 0, spirv_constant_of(p, s->name[0]->type, 0), end, 0);
}

static void repeat(struct spirv_program *p, const struct tile_stmt *s) {
    expr root[] = {s->begin, s->extent[0], s->step};
    spirv_nodes(p, 3, root);
    const struct tile_buffer *sums[SPIRV_SUMS];
    spirv_id begin = spirv_of(p, s->begin), end = spirv_of(p, s->extent[0]);
    int opened = spirv_open_sums(p, s, sums);
    count(p, s, 0, begin, &end, spirv_of(p, s->step));
    spirv_close_sums(p, opened, sums);
}

static void repeat_while(struct spirv_program *p, const struct tile_stmt *s) {
    struct spirv_loop l = spirv_open_loop(p, false);
    spirv_nodes(p, 1, &s->mask);
    spirv_test_loop(p, &l, spirv_of(p, s->mask));
    spirv_block_of(p, s->body);
    spirv_label(&p->m, l.next);
    spirv_close_loop(p, &l);
}

static void store_complex(struct spirv_program *p, const struct tile_stmt *s) {
    static const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    expr from = s->value;
    for (int part = 0; part < 2; part++) {
        spirv_id bits = 0, to = spirv_place(p, s->buffer, s->index, part);
        if (from->op == TILE_PAIR)
            bits = spirv_to_bits(p, f32, spirv_of(p, from->arg[part]));
        else if (from->op == TILE_LOAD && !from->args)
            bits = spirv_read(p, from->buffer, spirv_place(p, from->buffer, from->index, part), 0);
        else
            spirv_fail(p, "the target stores complex numbers as pairs", "");
        spirv_write(p, s->buffer, to, bits);
    }
}

static void store(struct spirv_program *p, const struct tile_stmt *s) {
    compute_all(p, s);
    spirv_id merge = open_if(p, s->mask ? spirv_of(p, s->mask) : 0);
    if (tile_type_is_complex(s->value->type))
        store_complex(p, s);
    else {
        spirv_id to = spirv_place(p, s->buffer, s->index, -1);
        spirv_write(p, s->buffer, to, spirv_to_bits(p, s->value->type, spirv_of(p, s->value)));
    }
    close_if(p, merge);
}

static void assign(struct spirv_program *p, const struct tile_name *name, spirv_id value) {
    spirv_do(&p->m, SPIRV_Store, p->variable[name->id], value);
}

static int run_bytes(const struct tile_region *r) {
    return (int)pass_number(r->extent[r->buffer->ndim - 1]) * tile_type_bytes(r->buffer->type);
}

// Copies contiguous elements, or stores zeros.
static void copy(struct spirv_program *p, const struct tile_stmt *s) {
    const struct tile_region *from = s->kind == TILE_COPY ? &s->region[0] : NULL, *to = &s->region[1];
    spirv_id word[SPIRV_VECTOR];
    int bytes = run_bytes(to);
    compute_all(p, s);
    for (int i = 0; i < SPIRV_VECTOR; i++)
        word[i] = spirv_u32(p, 0);
    if (from)
        spirv_read_words(p, from->buffer, spirv_place(p, from->buffer, from->origin, -1), bytes, word);
    spirv_write_words(p, to->buffer, spirv_place(p, to->buffer, to->origin, -1), bytes, word);
}

static void alloc(struct spirv_program *p, const struct tile_buffer *b) {
    if (b->base && !(tile_is_known_at_launch(b) && tile_is_known_at_launch(b->base)))
        spirv_fail(p, "the size of a view follows from the sizes of arguments: ", b->text);
    if (b->memory == TILE_SHARED && !b->base && program_size(b) < 0)
        spirv_fail(p, "the size of memory of a group must be a number: ", b->text);
    if (b->memory == TILE_REGISTER && !b->base)
        spirv_alloc(p, b);
}

// Atomics ---------------------------------------------------------------------------------------------------

// Returns the instruction of an atomic; 0: there is none.
static enum spirv_word atomic_word(enum tile_op op, struct tile_type type) {
    static const enum spirv_word word[TILE_OP_COUNT][2] = {
        [TILE_ADD] = {SPIRV_AtomicIAdd, SPIRV_AtomicIAdd}, [TILE_MAX] = {SPIRV_AtomicUMax, SPIRV_AtomicSMax},
        [TILE_MIN] = {SPIRV_AtomicUMin, SPIRV_AtomicSMin}, [TILE_AND] = {SPIRV_AtomicAnd, SPIRV_AtomicAnd},
        [TILE_OR] = {SPIRV_AtomicOr, SPIRV_AtomicOr},      [TILE_XOR] = {SPIRV_AtomicXor, SPIRV_AtomicXor},
    };
    return tile_type_is_integer(type) && type.bits >= 32 ? word[op][type.kind == TILE_INT] : 0;
}

struct atomic {
    const struct tile_stmt *s;
    spirv_id pointer, shift, scope, word; // word: the type of the word that is exchanged
    struct tile_type type;
};

static spirv_id value_in(struct spirv_program *p, const struct atomic *a, spirv_id seen) {
    spirv_id bits = a->type.bits == 64 ? spirv_as(p, spirv_pair(&p->m), seen)
                    : a->shift         ? spirv_part_of_word(p, seen, a->shift, tile_type_bytes(a->type))
                                       : seen;
    return spirv_from_bits(p, a->type, bits);
}

static spirv_id put_into(struct spirv_program *p, const struct atomic *a, spirv_id seen, spirv_id value) {
    spirv_id bits = spirv_to_bits(p, a->type, value);
    if (a->type.bits == 64)
        return spirv_as(p, a->word, bits);
    if (!a->shift)
        return bits;
    spirv_id mask = spirv_u32(p, (1u << a->type.bits) - 1);
    spirv_id hole = spirv_op(p, SPIRV_ShiftLeftLogical, mask, a->shift);
    spirv_id rest = spirv_op(p, SPIRV_BitwiseAnd, seen, spirv_value(&p->m, SPIRV_Not, a->word, hole));
    return spirv_op(p, SPIRV_BitwiseOr, rest, spirv_op(p, SPIRV_ShiftLeftLogical, bits, a->shift));
}

// Compares and swaps until no other thread changed the word in between. Returns the previous value.
static spirv_id exchange(struct spirv_program *p, const struct atomic *a, spirv_id value) {
    spirv_id variable = spirv_local(&p->m, a->word), relaxed = spirv_u32(p, 0);
    spirv_do(&p->m, SPIRV_Store, variable,
             spirv_value(&p->m, SPIRV_AtomicLoad, a->word, a->pointer, a->scope, relaxed));
    struct spirv_loop l = spirv_open_loop(p, false);
    spirv_id seen = spirv_load(&p->m, a->word, variable);
    spirv_id next =
        put_into(p, a, seen, spirv_combine(p, a->s->combine, a->type, value_in(p, a, seen), value));
    spirv_id found = spirv_value(&p->m, SPIRV_AtomicCompareExchange, a->word, a->pointer, a->scope, relaxed,
                                 relaxed, next, seen);
    spirv_do(&p->m, SPIRV_Store, variable, found);
    spirv_test_loop(p, &l, spirv_test(p, SPIRV_INotEqual, found, seen));
    spirv_label(&p->m, l.next);
    spirv_close_loop(p, &l);
    return value_in(p, a, seen);
}

static void atomic(struct spirv_program *p, const struct tile_stmt *s) {
    struct atomic a = {.s = s, .type = s->buffer->type};
    struct spirv_memory *memory = &p->memory[tile_memory_of(s->buffer)->id];
    compute_all(p, s);
    if (s->old && s->mask)
        assign(p, s->old, spirv_constant_of(p, s->old->type, 0));
    spirv_id merge = open_if(p, s->mask ? spirv_of(p, s->mask) : 0), value = spirv_of(p, s->value), old;
    enum spirv_word word = atomic_word(s->combine, a.type);
    a.word = spirv_uint(&p->m, a.type.bits == 64 ? 64 : 32);
    if (a.type.bits == 64)
        spirv_need(&p->m, SPIRV_INT64_ATOMICS);
    a.pointer = spirv_atomic_pointer(p, s->buffer, spirv_place(p, s->buffer, s->index, -1), &a.shift);
    a.scope = spirv_scope(p, memory);
    if (word)
        old = spirv_value(&p->m, word, a.word, a.pointer, a.scope, spirv_u32(p, 0), value);
    else
        old = exchange(p, &a, value);
    if (s->old)
        assign(p, s->old, old);
    close_if(p, merge);
}

// A barrier orders accesses to memory that threads exchange, and to no other memory: if it orders any
// buffers, drivers wait for all stores to buffers.
void spirv_meet(struct spirv_program *p, uint32_t scope) {
    enum { ACQUIRE_RELEASE = 0x8, BUFFERS = 0x40, GROUP_MEMORY = 0x100, EXCHANGE = 0x6000 };
    uint32_t of = ACQUIRE_RELEASE | GROUP_MEMORY | (p->is_vulkan ? EXCHANGE : 0);
    for (int i = 0; scope == SPIRV_GROUP && i < p->kernel->buffers; i++)
        of |= p->memory[i].where == SPIRV_STORAGE && spirv_is_exchanged(p, &p->memory[i]) ? BUFFERS : 0;
    spirv_id all = spirv_u32(p, scope);
    spirv_do(&p->m, SPIRV_ControlBarrier, all, all, spirv_u32(p, of));
}

static spirv_id lane_of_source(struct spirv_program *p, const struct tile_stmt *s) {
    uint32_t others = (uint32_t)s->threads - 1;
    spirv_id by = spirv_op_by(p, SPIRV_BitwiseAnd, spirv_index(p, s->step), others);
    if (s->shuffle == TILE_SHUFFLE_XOR)
        return spirv_op(p, SPIRV_BitwiseXor, p->lane, by);
    if (s->shuffle == TILE_SHUFFLE_FROM)
        return spirv_op(p, SPIRV_BitwiseOr, by, spirv_op_by(p, SPIRV_BitwiseAnd, p->lane, ~others));
    spirv_id own = spirv_op_by(p, SPIRV_BitwiseAnd, p->lane, others), none = spirv_u32(p, 0);
    spirv_id is_before = spirv_test(p, SPIRV_ULessThan, own, by);
    by = spirv_pick(p, (struct tile_type){TILE_UINT, 32, 1}, is_before, none, by);
    return spirv_op(p, SPIRV_ISub, p->lane, by);
}

static void shuffle(struct spirv_program *p, const struct tile_stmt *s) {
    struct tile_type type = s->old->type;
    compute_all(p, s);
    spirv_need(&p->m, SPIRV_NON_UNIFORM);
    spirv_need(&p->m, SPIRV_NON_UNIFORM_SHUFFLE);
    spirv_id bits = spirv_to_bits(p, type, spirv_of(p, s->value));
    spirv_id kind = type.bits == 64 ? spirv_pair(&p->m) : spirv_uint(&p->m, 32);
    spirv_id scope = spirv_u32(p, SPIRV_SUBGROUP), lane = lane_of_source(p, s);
    spirv_id got = spirv_value(&p->m, SPIRV_GroupNonUniformShuffle, kind, scope, bits, lane);
    assign(p, s->old, spirv_from_bits(p, type, got));
}

// Records the line of the first assertion that fails. The thread continues, since others wait for it at
// barriers.
static void assertion(struct spirv_program *p, const struct tile_stmt *s) {
    spirv_nodes(p, 1, &s->mask);
    spirv_id merge = open_if(p, spirv_not(p, spirv_of(p, s->mask))), word = spirv_uint(&p->m, 32);
    spirv_id status = spirv_status(p), scope = spirv_scope(p, &p->memory[p->kernel->buffers]);
    spirv_id none = spirv_u32(p, 0), line = spirv_u32(p, (uint32_t)MAX_OF(s->place.line, 1));
    spirv_value(&p->m, SPIRV_AtomicCompareExchange, word, status, scope, none, none, line, none);
    close_if(p, merge);
}

static void one(struct spirv_program *p, const struct tile_stmt *s) {
    p->at = s;
    switch (s->kind) {
    case TILE_STORE: store(p, s); return;
    case TILE_ASSIGN:
        spirv_nodes(p, 1, &s->value);
        assign(p, s->name[0], spirv_of(p, s->value));
        return;
    case TILE_ALLOC: alloc(p, s->buffer); return;
    case TILE_MAP: map(p, s); return;
    case TILE_FOR: repeat(p, s); return;
    case TILE_WHILE: repeat_while(p, s); return;
    case TILE_IF: choose(p, s); return;
    case TILE_BREAK: spirv_branch(&p->m, p->loop_merge); return;
    case TILE_COPY:
    case TILE_FILL: copy(p, s); return;
    case TILE_ATOMIC: atomic(p, s); return;
    case TILE_WAIT: return; // copies are synchronous here
    case TILE_BARRIER:
        if (s->scope == TILE_CLUSTER)
            spirv_fail(p, "the target has no clusters", "");
        spirv_meet(p, SPIRV_GROUP);
        return;
    case TILE_SHUFFLE: shuffle(p, s); return;
    case TILE_GEMM:
        compute_all(p, s);
        spirv_gemm(p, s);
        return;
    case TILE_ASSERT: assertion(p, s); return;
    default: spirv_fail(p, "the target has no ", tile_stmt_name(s->kind)); return;
    }
}

// Statements after a break are never reached.
void spirv_block_of(struct spirv_program *p, const struct tile_stmt *body) {
    for (; body && !p->failed && p->m.function->label; body = body->next)
        one(p, body);
}
