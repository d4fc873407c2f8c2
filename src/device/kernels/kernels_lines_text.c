// kernels_lines_text.c - the text of a kernel of lines.

#include "device/kernels/kernels_lines.h"

#include <stdio.h>

enum {
    CLUSTER_THREADS = 1280
}; // of clusters that a multiprocessor has at once: registers for 32 numbers and the rest each

struct writing {
    struct text *out;
    const struct line_recipe *r;
    const char *dialect;
    struct line_plan plan;
};

// Inputs that several stages read are held by the thread.
static bool is_held(const struct writing *w, int input) {
    int stages = 0;
    for (int i = 0; i <= w->plan.levels; i++)
        stages += w->plan.stage[i].inputs >> input & 1;
    return w->r->packs && line_input_varies(w->r, input) && stages > 1;
}

static bool is_first(const struct writing *w, int input, int stage) { // that reads it
    for (int i = 0; i < stage; i++)
        if (w->plan.stage[i].inputs >> input & 1)
            return false;
    return w->plan.stage[stage].inputs >> input & 1;
}

// Functions --------------------------------------------------------------------------------------------------------

static bool add_function(const struct writing *w, const char *name, int number, const struct line_function *f,
                         bool inverts) {
    char symbol[24];
    snprintf(symbol, sizeof symbol, "%s%d", name, number);
    return !f->count || kernel_element(w->out, line_build(w->r, f, inverts, w->dialect), w->dialect, symbol);
}

static bool add_row_function(const struct writing *w, const char *name, int row, bool inverts) {
    struct line_function f;
    line_plan_row(w->r, row, &f);
    return add_function(w, name, row, &f, inverts);
}

static bool add_reduction_functions(const struct writing *w, int k) {
    const struct fuse_op *op = line_row(w->r, w->r->reduction[k]);
    zl_dtype from = (zl_dtype)op->from, to = (zl_dtype)op->dtype, wide = tile_reduce_gives(from);
    struct tile_kernel *kernel[] = {tile_row_kernel((enum tile_op)op->op, wide, "vv"),
                                    tile_cast_kernel(wide, from), tile_cast_kernel(to, wide)};
    static const char *const names[] = {"step", "widen", "narrow"};
    bool good = true;
    for (size_t i = 0; i < COUNT(kernel); i++) {
        char symbol[24];
        snprintf(symbol, sizeof symbol, "%s%d", names[i], k);
        good = kernel_element(w->out, kernel[i], w->dialect, symbol) && good;
    }
    return good;
}

static bool is_output_of_lines(const struct line_recipe *r, int row) {
    for (int k = 0; k < r->f.outputs; k++)
        if (fuse_output_of_lines(&r->f, k) && fuse_output_row(&r->f, k) == row &&
            line_row(r, row)->kind == ROW_LINES)
            return true;
    return false;
}

static bool add_functions(const struct writing *w) {
    const struct line_recipe *r = w->r;
    bool good = true;
    for (int k = 0; good && k < r->reductions; k++)
        good = add_reduction_functions(w, k);
    for (int row = 0; good && row < r->f.rows; row++) {
        if (w->plan.rows >> row & 1 || is_output_of_lines(r, row))
            good = add_row_function(w, "row", row, false);
        if (good && w->plan.inverse >> row & 1)
            good = add_row_function(w, "inverse", row, true);
    }
    for (int i = 0; good && i <= w->plan.levels; i++)
        good = add_function(w, "stage", i, &w->plan.stage[i], false);
    return good && (!r->at_once || kernel_element(w->out, line_build_factor(), w->dialect, "factor"));
}

// Operands of a call, in the order of line_build: the e-th of packs.
static void add_operands(const struct writing *w, const struct line_function *f) {
    const struct line_recipe *r = w->r;
    for (int k = 0; k < r->f.inputs; k++)
        if (f->inputs >> k & 1)
            text_add(w->out, ", (const %s *)&a%d%s%s", kernel_part_type(fuse_input_dtype(&r->f, k)), k,
                     is_held(w, k) ? "[j]" : "", line_input_varies(r, k) ? ".e[e]" : "");
    for (int k = 0; k < r->reductions; k++)
        if (f->reductions >> k & 1)
            text_add(w->out, ", (const %s *)&r%d", kernel_part_type(line_dtype(r, r->reduction[k])), k);
    for (int k = 0; k < r->f.rows; k++)
        if ((f->rows | f->kept) >> k & 1)
            text_add(w->out, ", (const %s *)&v%d%s", kernel_part_type(line_dtype(r, k)), k,
                     f->kept >> k & 1 ? "[j].e[e]" : "");
    for (int k = 0; k < r->f.rows; k++)
        if (f->inverses >> k & 1)
            text_add(w->out, ", (const f32 *)&q%d", k);
    text_add(w->out, ");\n");
}

// The beginning ----------------------------------------------------------------------------------------------------

static void add_parameters(const struct writing *w) {
    const struct line_recipe *r = w->r;
    for (int k = 0; k < r->f.outputs; k++)
        text_add(w->out, "GLOBAL %s *y%d, ", kernel_memory_type(fuse_output_dtype(&r->f, k)), k);
    for (int k = 0; k < r->f.inputs; k++) {
        const char *type = kernel_memory_type(fuse_input_dtype(&r->f, k));
        if (fuse_form(&r->f, k) == LINE_VALUE)
            text_add(w->out, "%s u%d, ", type, k);
        else
            text_add(w->out, "GLOBAL const %s *x%d, i64 o%d, idx d%d, ", type, k, k, k);
    }
    text_add(w->out, "idx line, idx lines, AXES s, i32 axes");
}

// A group has several lines, and the last one may have less.
static bool has_several(const struct line_recipe *r) {
    return r->threads < KERNEL_THREADS;
}

// The number of the thread in its line, and that of the line.
static void add_numbers(const struct writing *w) {
    const struct line_recipe *r = w->r;
    if (!has_several(r))
        text_add(w->out,
                 "    i32 t = (i32)(GROUP %% %d) * %d + THREAD;\n    idx number = GROUP / %d, end = line;\n",
                 r->groups, r->threads, r->groups);
    else
        text_add(w->out,
                 "    i32 t = THREAD %% %d;\n    idx number = GROUP * %d + THREAD / %d, end = line;\n"
                 "    if (number >= lines) {\n        number = lines - 1;\n        end = 0;\n    }\n",
                 r->threads, KERNEL_THREADS / r->threads, r->threads);
}

// Where the line of each input begins, and what is the same for all of it.
static void add_lines(const struct writing *w) {
    const struct line_recipe *r = w->r;
    int strides = 0;
    add_numbers(w);
    text_add(w->out, "    uidx rest = (uidx)number;\n");
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) != LINE_VALUE)
            text_add(w->out, "    x%d += o%d;\n", k, k);
    text_add(w->out, "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
                     "        uidx next = rest / (uidx)s.dim[axis];\n"
                     "        idx at = (idx)(rest - next * (uidx)s.dim[axis]);\n        rest = next;\n");
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) != LINE_VALUE)
            text_add(w->out, "        x%d += at * s.stride[%d][axis];\n", k, strides++);
    text_add(w->out, "    }\n");
    for (int k = 0; k < r->f.inputs; k++)
        if (!line_input_varies(r, k))
            text_add(w->out,
                     fuse_form(&r->f, k) == LINE_VALUE ? "    %s a%d = u%d;\n" : "    %s a%d = x%d[0];\n",
                     kernel_memory_type(fuse_input_dtype(&r->f, k)), k, k);
}

// What a thread holds of a line, and the types of packs.
static void add_held(const struct writing *w) {
    const struct line_recipe *r = w->r;
    for (int k = 0; k < r->f.inputs; k++)
        if (is_held(w, k))
            text_add(w->out, "    px%d a%d[%d];\n", k, k, r->packs);
    for (int row = 0; row < r->f.rows; row++)
        if (w->plan.kept >> row & 1)
            text_add(w->out, "    PACK(%s, %d) v%d[%d];\n", kernel_memory_type(line_dtype(r, row)), r->width,
                     row, r->packs);
}

static void add_types(const struct writing *w) {
    const struct line_recipe *r = w->r;
    int strides = 0;
    for (int k = 0; k < r->f.inputs; k++) {
        strides += fuse_form(&r->f, k) != LINE_VALUE;
        if (line_input_varies(r, k))
            text_add(w->out, "typedef PACK(%s, %d) px%d;\n", kernel_memory_type(fuse_input_dtype(&r->f, k)),
                     r->width, k);
    }
    for (int k = 0; k < r->f.outputs; k++)
        text_add(w->out, "typedef PACK(%s, %d) py%d;\n", kernel_memory_type(fuse_output_dtype(&r->f, k)),
                 r->width, k);
    text_add(w->out, "struct zl_axes { idx dim[%d]; idx stride[%d][%d]; };\n", KERNEL_AXES,
             MAX_OF(strides, 1), KERNEL_AXES);
}

// Stages -----------------------------------------------------------------------------------------------------------

static void open_loop(const struct writing *w) {
    const struct line_recipe *r = w->r;
    if (r->packs)
        text_add(w->out,
                 "    UNROLL for (i32 j = 0; j < %d; j++) {\n        idx i = (j * %d + t) * %d;\n"
                 "        %s{\n",
                 r->packs, r->threads * r->groups, r->width, r->full ? "" : "if (i < end) ");
    else
        text_add(w->out, "    for (idx i = t * %d; i < end; i += %d) {\n        {\n", r->width,
                 r->threads * r->width);
}

static void close_loop(const struct writing *w) {
    text_add(w->out, "        }\n    }\n");
}

// Weights of a norm, which all lines read: lines themselves should not push them out of the caches.
static bool has_weights(const struct writing *w) {
    bool has = false;
    for (int k = 0; k < w->r->f.inputs; k++)
        has |= fuse_form(&w->r->f, k) == LINE_FLAT && !is_held(w, k);
    return has;
}

static void add_load(const struct writing *w, int k, const char *at) {
    if (fuse_form(&w->r->f, k) == LINE_FLAT && is_held(w, k) && has_weights(w))
        text_add(w->out, "            a%d%s = ONCE((GLOBAL const px%d *)(x%d + i));\n", k, at, k, k);
    else if (fuse_form(&w->r->f, k) == LINE_FLAT)
        text_add(w->out, "            a%d%s = *(GLOBAL const px%d *)(x%d + i);\n", k, at, k, k);
    else
        text_add(w->out,
                 "            UNROLL for (i32 e = 0; e < %d; e++)\n                a%d%s.e[e] = x%d[(i + e) "
                 "* d%d];\n",
                 w->r->width, k, at, k, k);
}

static void load_held(const struct writing *w, int stage) {
    bool any = false;
    for (int k = 0; k < w->r->f.inputs; k++)
        any |= is_held(w, k) && is_first(w, k, stage);
    if (!any)
        return;
    open_loop(w);
    for (int k = 0; k < w->r->f.inputs; k++)
        if (is_held(w, k) && is_first(w, k, stage))
            add_load(w, k, "[j]");
    close_loop(w);
}

// In registers the held numbers take less room than what an earlier stage made of them.
static void forget_held(const struct writing *w, const struct line_function *f, int stage) {
    for (int k = 0; k < w->r->f.inputs; k++)
        if (w->r->rough && w->r->width == 8 && f->inputs >> k & 1 && is_held(w, k) && !is_first(w, k, stage))
            text_add(w->out, "            FORGET(a%d[j]);\n", k);
}

static void load_others(const struct writing *w, const struct line_function *f) {
    for (int k = 0; k < w->r->f.inputs; k++)
        if (f->inputs >> k & 1 && line_input_varies(w->r, k) && !is_held(w, k)) {
            text_add(w->out, "            px%d a%d;\n", k, k);
            add_load(w, k, "");
        }
}

static void add_step(const struct writing *w, int k, zl_dtype wide, const char *indent) {
    text_add(w->out, "%s{ %s next; step%d((%s *)&next, (const %s *)&s%d, (const %s *)&more); s%d = next; }\n",
             indent, kernel_memory_type(wide), k, kernel_part_type(wide), kernel_part_type(wide), k,
             kernel_part_type(wide), k);
}

// Reductions of this stage, by number.
static bool reduces_in(const struct writing *w, int k, int stage) {
    return w->plan.level[w->r->reduction[k]] == stage + 1;
}

static zl_dtype wide_of(const struct line_recipe *r, int k) {
    return tile_reduce_gives((zl_dtype)line_row(r, r->reduction[k])->from);
}

static void begin_sums(const struct writing *w, int stage) {
    for (int k = 0; k < w->r->reductions; k++) {
        uint64_t identity = 0;
        zl_dtype wide = wide_of(w->r, k);
        if (!reduces_in(w, k, stage))
            continue;
        tile_identity((enum tile_op)line_row(w->r, w->r->reduction[k])->op, tile_type_of(wide), &identity);
        text_add(w->out, "    %s s%d = ", kernel_memory_type(wide), k);
        kernel_constant(w->out, wide, identity);
        text_add(w->out, ";\n");
    }
}

static void add_sums(const struct writing *w, int stage) {
    for (int k = 0; k < w->r->reductions; k++) {
        zl_dtype from = (zl_dtype)line_row(w->r, w->r->reduction[k])->from, wide = wide_of(w->r, k);
        if (!reduces_in(w, k, stage))
            continue;
        text_add(w->out, "                { %s more; widen%d((%s *)&more, (const %s *)&g%d);\n",
                 kernel_memory_type(wide), k, kernel_part_type(wide), kernel_part_type(from), k);
        add_step(w, k, wide, "                ");
        text_add(w->out, "                }\n");
    }
}

static void add_exchange(const struct writing *w, int k, int threads) {
    zl_dtype wide = wide_of(w->r, k);
    text_add(w->out,
             "    UNROLL for (i32 span = %d; span > 0; span /= 2) {\n        %s more;\n"
             "        EXCHANGE(more, s%d, span, slot%d);\n",
             threads / 2, kernel_memory_type(wide), k, k);
    add_step(w, k, wide, "        ");
    text_add(w->out, "    }\n");
}

// What 32 threads have, written to all groups of a line: thread i of them writes to group i.
static void give_to_groups(const struct writing *w, int k) {
    text_add(w->out,
             "    if (THREAD %% 32 < %d)\n"
             "        zl_cluster_put(room%d[(i32)(GROUP %% %d) * %d + THREAD / 32], THREAD %% 32, s%d);\n",
             w->r->groups, k, w->r->groups, w->r->threads / 32, k);
}

// After which all have it.
static void wait_for_groups(const struct writing *w) {
    text_add(w->out, "    CLUSTER_ARRIVE;\n    CLUSTER_WAIT;\n");
}

// All groups of a line add up in the same order.
static void join_groups(const struct writing *w, int k) {
    int warps = w->r->groups * w->r->threads / 32, each = MIN_OF(warps, 32);
    text_add(w->out, "    s%d = room%d[THREAD %% %d];\n", k, k, each);
    if (warps > each) {
        text_add(w->out,
                 "    UNROLL for (i32 from = %d; from < %d; from += %d) {\n        %s more = room%d[from + "
                 "THREAD %% %d];\n",
                 each, warps, each, kernel_memory_type(wide_of(w->r, k)), k, each);
        add_step(w, k, wide_of(w->r, k), "        ");
        text_add(w->out, "    }\n");
    }
    add_exchange(w, k, each);
}

// The sum of exponentials, each less the maximum of its 32 threads, once the maximum of all is known.
static void join_exponentials(const struct writing *w) {
    int warps = w->r->groups * w->r->threads / 32, each = MIN_OF(warps, 32);
    text_add(w->out,
             "    s1 = 0;\n    UNROLL for (i32 from = 0; from < %d; from += %d) {\n        f32 more;\n"
             "        factor(&more, &room0[from + THREAD %% %d], &s0);\n        more *= room1[from + THREAD "
             "%% %d];\n",
             warps, each, each, each);
    add_step(w, 1, ZL_FLOAT32, "        ");
    text_add(w->out, "    }\n");
    add_exchange(w, 1, each);
}

static void narrow(const struct writing *w, int k) {
    text_add(w->out, "    narrow%d((%s *)&r%d, (const %s *)&s%d);\n", k,
             kernel_part_type(line_dtype(w->r, w->r->reduction[k])), k, kernel_part_type(wide_of(w->r, k)),
             k);
}

// Of softmax by groups: a maximum of 32 threads will do until their sum is known; then both are joined. Where all is -inf, less 0.
static void join_at_once(const struct writing *w, int k) {
    add_exchange(w, k, 32);
    if (k == 0) {
        text_add(w->out, "    f32 own = s0;\n    r0 = own < -3.40282347e+38f ? 0.0f : own;\n");
        return;
    }
    give_to_groups(w, 0);
    give_to_groups(w, 1);
    wait_for_groups(w);
    join_groups(w, 0);
    join_exponentials(w);
    narrow(w, 0);
    narrow(w, 1);
}

// Over the threads of a line: by 32 of them, then over these, then over groups.
static void join_sums(const struct writing *w, int k) {
    const struct line_recipe *r = w->r;
    int groups = r->threads / 32;
    add_exchange(w, k, MIN_OF(r->threads, 32));
    if (r->groups > 1) {
        give_to_groups(w, k);
        wait_for_groups(w);
        join_groups(w, k);
    } else if (groups > 1) {
        text_add(w->out,
                 "    if (t %% 32 == 0)\n        room%d[THREAD / 32] = s%d;\n    BARRIER;\n"
                 "    s%d = room%d[%s + t %% %d];\n",
                 k, k, k, k, has_several(r) ? "(THREAD - t) / 32" : "0", groups);
        add_exchange(w, k, groups);
    }
    narrow(w, k);
}

// What is one number a line, as soon as it is known.
static void add_rows(const struct writing *w, int level) {
    for (int row = 0; row < w->r->f.rows; row++) {
        struct line_function f;
        zl_dtype dtype = line_dtype(w->r, row);
        if (w->plan.level[row] != level)
            continue;
        line_plan_row(w->r, row, &f);
        if (w->plan.rows >> row & 1 || is_output_of_lines(w->r, row)) {
            text_add(w->out, "    %s v%d;\n    row%d((%s *)&v%d", kernel_memory_type(dtype), row, row,
                     kernel_part_type(dtype), row);
            add_operands(w, &f);
        }
        if (w->plan.inverse >> row & 1) {
            text_add(w->out, "    f32 q%d;\n    inverse%d(&q%d", row, row, row);
            add_operands(w, &f);
            if (w->r->at_once)
                text_add(w->out, "    { f32 by; factor(&by, &own, &s0); q%d *= by; }\n", row);
        }
    }
}

// Results of a call: what is reduced, what is kept, and at last what is stored.
static void add_results(const struct writing *w, int stage) {
    const struct line_recipe *r = w->r;
    const char *comma = "";
    for (int k = 0; stage < w->plan.levels && k < r->reductions; k++)
        if (reduces_in(w, k, stage)) {
            text_add(w->out, "%s(%s *)&g%d", comma,
                     kernel_part_type((zl_dtype)line_row(r, r->reduction[k])->from), k);
            comma = ", ";
        }
    for (int row = 0; row < r->f.rows; row++)
        if (w->plan.kept >> row & 1 && w->plan.level[row] == stage) {
            text_add(w->out, "%s(%s *)&v%d[j].e[e]", comma, kernel_part_type(line_dtype(r, row)), row);
            comma = ", ";
        }
    for (int k = 0; stage == w->plan.levels && k < r->f.outputs; k++)
        if (!fuse_output_of_lines(&r->f, k)) {
            text_add(w->out, "%s(%s *)&b%d.e[e]", comma, kernel_part_type(fuse_output_dtype(&r->f, k)), k);
            comma = ", ";
        }
}

static void add_stage(const struct writing *w, int stage) {
    const struct line_recipe *r = w->r;
    const struct line_function *f = &w->plan.stage[stage];
    bool is_last = stage == w->plan.levels;
    if (!f->count)
        return;
    load_held(w, stage);
    begin_sums(w, stage);
    open_loop(w);
    forget_held(w, f, stage);
    load_others(w, f);
    for (int k = 0; is_last && k < r->f.outputs; k++)
        if (!fuse_output_of_lines(&r->f, k))
            text_add(w->out, "            py%d b%d;\n", k, k);
    text_add(w->out, "            UNROLL for (i32 e = 0; e < %d; e++) {\n", r->width);
    for (int k = 0; k < r->reductions; k++)
        if (reduces_in(w, k, stage))
            text_add(w->out, "                %s g%d;\n",
                     kernel_memory_type((zl_dtype)line_row(r, r->reduction[k])->from), k);
    text_add(w->out, "                stage%d(", stage);
    add_results(w, stage);
    add_operands(w, f);
    add_sums(w, stage);
    text_add(w->out, "            }\n");
    for (int k = 0; is_last && k < r->f.outputs; k++)
        if (!fuse_output_of_lines(&r->f, k))
            text_add(w->out,
                     r->groups > 1
                         ? "            PUT_ONCE((GLOBAL py%d *)(y%d + (i64)number * line + i), b%d);\n"
                         : "            *(GLOBAL py%d *)(y%d + (i64)number * line + i) = b%d;\n",
                     k, k, k);
    close_loop(w);
    if (r->groups > 1 && stage == 0)
        text_add(w->out, "    CLUSTER_WAIT;\n"); // others have begun: they may be given something
    for (int k = 0; k < r->reductions; k++)
        if (reduces_in(w, k, stage))
            (r->at_once ? join_at_once : join_sums)(w, k);
}

static void add_line_outputs(const struct writing *w) {
    const struct line_recipe *r = w->r;
    text_add(w->out, "    if (t == 0 && end > 0) {\n");
    for (int k = 0; k < r->f.outputs; k++) {
        int row = fuse_output_row(&r->f, k), reduction = line_reduction(r, row);
        if (fuse_output_of_lines(&r->f, k))
            text_add(w->out, "        y%d[number] = %c%d;\n", k, reduction < 0 ? 'v' : 'r',
                     reduction < 0 ? row : reduction);
    }
    text_add(w->out, "    }\n}\n");
}

bool kernel_write_lines(struct text *out, const void *data) {
    const struct line_writer *given = data;
    const struct line_recipe *r = given->r;
    struct writing w = {.out = out, .r = r, .dialect = given->dialect};
    int group = MAX_OF(r->threads, KERNEL_THREADS);
    line_plan(r, &w.plan);
    kernel_begin(out, w.dialect, r->wide);
    if (!add_functions(&w))
        return false;
    add_types(&w);
    if (r->groups > 1)
        text_add(out, "KERNEL_BY(%d, %d) CLUSTER_OF(%d) ", group, CLUSTER_THREADS / group, r->groups);
    else
        text_add(out, "KERNEL_OF(%d) ", group);
    text_add(out, "zl_kernel(");
    add_parameters(&w);
    text_add(out, ") {\n");
    for (int k = 0; k < r->reductions; k++) {
        const char *type = kernel_memory_type(wide_of(r, k));
        text_add(out, "    LOCAL %s room%d[%d];\n    SLOT(%s, slot%d, %d)\n", type, k, r->groups * group / 32,
                 type, k, group);
        text_add(out, "    %s r%d;\n", kernel_memory_type(line_dtype(r, r->reduction[k])), k);
    }
    if (r->groups > 1)
        text_add(out, "    CLUSTER_ARRIVE;\n");
    add_lines(&w);
    add_held(&w);
    for (int stage = 0; stage <= w.plan.levels; stage++) {
        add_rows(&w, stage);
        add_stage(&w, stage);
    }
    add_line_outputs(&w);
    return true;
}
