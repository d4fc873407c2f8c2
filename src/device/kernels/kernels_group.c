// kernels_group.c - calls that become one kernel: what kernels of elements and of lines have in common.

#include "device/kernels/kernels_group.h"

#include <math.h>
#include <stdio.h>

// Finding ----------------------------------------------------------------------------------------------------------

bool group_is_ready(const struct kernel_group *g, int index) {
    const struct kernel_step *s = group_step(g, index);
    for (int k = 0; k < s->inputs; k++) {
        enum array_state state = array_state(g->call[index]->in[k]);
        if (s->source[k] < g->begin && (state == ARRAY_FAILED || state == ARRAY_CONSUMED))
            return false;
    }
    return true;
}

int group_source(const struct kernel_group *g, int index, int k) {
    int source = group_step(g, index)->source[k];
    while (source >= g->begin && group_step(g, source)->kind == STEP_VIEW)
        source = group_step(g, source)->source[0];
    return source >= g->begin ? source : -1;
}

// A view passes on that it is read.
int group_find_stored(struct kernel_group *g) {
    int count = 0;
    for (int i = g->begin; i < g->end; i++)
        g->stored[i - g->begin] =
            group_step(g, i)->needed || group_step(g, i)->last >= g->end || g->end == g->begin + 1;
    for (int i = g->end - 1; i >= g->begin; i--)
        if (group_step(g, i)->kind == STEP_VIEW && g->stored[i - g->begin])
            g->stored[group_step(g, i)->source[0] - g->begin] = true;
    for (int i = g->begin; i < g->end; i++)
        count += group_has_output(g, i);
    return count;
}

int group_input(struct kernel_group *g, zl_array x, zl_dtype dtype, int inverse_of) {
    for (int i = 0; i < g->inputs; i++)
        if (g->input[i] == x && g->dtype[i] == dtype && g->inverse_of[i] == inverse_of)
            return i;
    if (g->inputs == KERNEL_OPERANDS)
        return -1;
    g->input[g->inputs] = x;
    g->dtype[g->inputs] = dtype;
    g->inverse_of[g->inputs] = inverse_of;
    return g->inputs++;
}

// Division ---------------------------------------------------------------------------------------------------------

// Numbers whose inverses, and quotients of all but the smallest and largest by them, are normal floats.
static const double plain_least = 0x1p-60, plain_most = 0x1p60;

static double number_of(zl_array x, zl_dtype dtype) {
    union scalar room;
    double value = NAN;
    scalar_write(x, dtype, &room);
    dtype_convert(&value, ZL_FLOAT64, &room, dtype, 1);
    return value;
}

// A power of two has an exact inverse.
int group_division(const struct kernel_group *g, int index) {
    const struct kernel_step *s = group_step(g, index);
    zl_array by = g->call[index]->in[1];
    zl_dtype dtype = (zl_dtype)s->dtype[2];
    bool is_half = dtype == ZL_FLOAT16, is_short = is_half || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT32;
    if (group_source(g, index, 1) >= 0 || !array_is(by, ARRAY_INLINE) || !(is_short || dtype == ZL_FLOAT64))
        return TILE_DIV;
    double number = number_of(by, dtype), size = fabs(number);
    int exponent;
    if (!(size >= (is_half ? 0x1p-14 : plain_least) && size <= (is_half ? 0x1p14 : plain_most)))
        return TILE_DIV;
    return frexp(size, &exponent) == 0.5 ? TILE_MUL : is_short ? GROUP_QUOTIENT : TILE_DIV;
}

// x / b, rounded once. Two corrections by what is left make it that of float32 if x is plain. Of bfloat16 the product with the
// inverse is enough: quotients of numbers of 8 bits lie too far from where rounding changes.
static expr quotient(zl_dtype dtype, expr x, expr b, expr inverse, expr *rare) {
    struct tile_type wide = tile_type_of(ZL_FLOAT32), type = tile_type_of(dtype);
    expr a = tile_cast(wide, x), by = tile_cast(wide, b), q = tile_binary(TILE_MUL, a, inverse);
    if (dtype == ZL_BFLOAT16)
        return tile_cast(type, q);
    for (int i = 0; i < 2; i++) {
        expr left = tile_ternary(TILE_FMA, tile_unary(TILE_NEG, by), q, a);
        q = tile_ternary(TILE_FMA, left, inverse, q);
    }
    expr size = tile_unary(TILE_ABS, a);
    expr is_plain = tile_binary(TILE_AND, tile_binary(TILE_GE, size, tile_const(wide, plain_least)),
                                tile_binary(TILE_LE, size, tile_const(wide, plain_most)));
    expr is_rare = tile_unary(TILE_NOT, is_plain);
    *rare = *rare ? tile_binary(TILE_OR, *rare, is_rare) : is_rare;
    return tile_cast(type, q);
}

// Text -------------------------------------------------------------------------------------------------------------

expr group_parameter(char letter, int number, zl_dtype dtype, expr n, expr at) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", letter, number);
    struct tile_buffer *x = tile_parameter_buffer(name, tile_type_of(dtype), 1, &n, false);
    return x ? tile_load(x, 1, &at, NULL, NULL) : NULL;
}

expr group_apply(int op, zl_dtype dtype, int count, const expr *arg, expr *rare) {
    if (op == GROUP_QUOTIENT)
        return rare ? quotient(dtype, arg[0], arg[1], arg[2], rare) : tile_binary(TILE_DIV, arg[0], arg[1]);
    if (op == TILE_CAST)
        return tile_cast(tile_type_of(dtype), arg[0]);
    return count == 1   ? tile_unary((enum tile_op)op, arg[0])
           : count == 2 ? tile_binary((enum tile_op)op, arg[0], arg[1])
                        : tile_ternary((enum tile_op)op, arg[0], arg[1], arg[2]);
}

void group_store(int count, const expr *result, const struct tile_name *i, expr n) {
    struct tile_buffer *y[KERNEL_CALLS];
    expr at = tile_name_value(i, TILE_INDEX);
    for (int k = 0; k < count; k++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", k);
        y[k] = result[k] ? tile_parameter_buffer(name, result[k]->type, 1, &n, true) : NULL;
    }
    tile_open_map(1, &i, &n);
    for (int k = 0; k < count; k++)
        tile_store(y[k], 1, &at, result[k], NULL);
    tile_close();
}

// Running ----------------------------------------------------------------------------------------------------------

bool group_add_outputs(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g) {
    bool ok = true;
    for (int i = g->begin; ok && i < g->end; i++)
        if (group_has_output(g, i)) {
            void *memory = kernel_reach(p, group_output(g, i));
            kernel_add_memory(k, memory);
            ok = memory;
        }
    return ok;
}

bool group_add_input(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g,
                     int at, int64_t offset) {
    zl_array x = g->input[at];
    if (array_is(x, ARRAY_INLINE)) {
        union scalar room;
        if (g->inverse_of[at] == GROUP_ITSELF)
            scalar_write(x, g->dtype[at], &room);
        else
            dtype_convert(&room, g->dtype[at], &(double){1 / number_of(x, (zl_dtype)g->inverse_of[at])}, ZL_FLOAT64, 1);
        kernel_add(k, &room, zl_dtype_size(g->dtype[at]));
        return true;
    }
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    kernel_add_int(k, x->offset + offset, true);
    return memory;
}

// All calls of the group fail for the reason of one.
static void fail(struct kernel_group *g, struct binding *b, int first) {
    zl_array reason = group_output(g, first);
    if (array_state(reason) != ARRAY_FAILED)
        b->fail(b, first);
    for (int i = g->begin; i < g->end; i++)
        if (array_state(group_output(g, i)) != ARRAY_FAILED) {
            error_put(reason->failure->kind, reason->failure->message);
            b->fail(b, i);
        }
}

static bool prepare(struct kernel_group *g, struct binding *b) {
    for (int i = g->begin; i < g->end; i++) {
        bool in_place = g->in_place[i - g->begin];
        if (!g->stored[i - g->begin])
            continue;
        if (in_place && group_step(g, i)->kind == STEP_MAP)
            b->take(b, g->begin, i);
        if (b->prepare(b, i, in_place ? UINT64_MAX : 0))
            continue;
        fail(g, b, i);
        return false;
    }
    return true;
}

// A call that fails lets its inputs go: those that the group computes are held until all of it is finished.
int group_run(struct kernel_group *g, struct binding *b, group_body *body, const struct kernel_place *p) {
    int calls = g->end - g->begin;
    if (p->batch)
        return body(p, g), calls;
    for (int i = g->begin; i < g->end; i++)
        zl_retain(group_output(g, i));
    if (prepare(g, b)) {
        if (body(p, g))
            for (int i = g->begin; i < g->end; i++)
                b->finish(b, i);
        else
            fail(g, b, g->begin);
        counter_add(COUNTER_FUSED, calls > 1 ? calls : 0);
    }
    for (int i = g->begin; i < g->end; i++)
        zl_release(group_output(g, i));
    return calls;
}
