// kernels_gated_delta.c - the gated delta rule: 32 threads have a row of a head's state, which they keep through all steps.
//
// The three sums of a step are taken before the row changes: state q after it is gate * (state q) + delta * (k q). A row that is
// too long for registers stays in the memory of the result.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { Q, K, V, GATE, BETA, STATE, MASK, MOST_INPUTS };
enum { LANES = 32, HELD_MOST = 16 }; // elements of a row that a thread holds

struct recipe {
    int32_t dtype, held, by_column, masked; // held 0: in memory; by_column: a gate for each column
    char name[12];                          // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// As in the text.
struct sizes {
    int64_t at[MOST_INPUTS]; // where inputs begin
    int64_t steps, groups, heads, keys, values, rows;
};

bool kernel_can_gated_delta(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return true;
}

static const char text[] =
    "struct zl_axes { i64 at[7]; i64 steps, groups, heads, keys, values, rows; };\n"
    "#if HELD\n"
    "#define EACH UNROLL for (i32 i = 0; i < HELD; i++) if (lane + 32 * i < s.keys)\n"
    "#define ROW row[i]\n"
    "#else\n"
    "#define EACH for (i64 i = 0; lane + 32 * i < s.keys; i++) if (is_row)\n"
    "#define ROW next[lane + 32 * i]\n"
    "#endif\n"
    "#define SUM(x) UNROLL for (i32 span = 16; span > 0; span /= 2) { WIDE more; EXCHANGE(more, x, span, "
    "slot); x += more; }\n"
    "KERNEL_OF(256) zl_kernel(GLOBAL WIDE *y, GLOBAL WIDE *next, GLOBAL const WIDE *q, GLOBAL const WIDE *k, "
    "GLOBAL const WIDE *v,\n"
    "                         GLOBAL const WIDE *gate, GLOBAL const WIDE *beta, GLOBAL const WIDE *state, "
    "GLOBAL const u8 *mask,\n"
    "                         AXES s) {\n"
    "    SLOT(WIDE, slot, 256)\n"
    "    i64 number = (i64)GROUP * 8 + THREAD / 32, lane = THREAD % 32;\n"
    "    bool is_row = number < s.rows;\n"
    "    number = is_row ? number : 0;\n"
    "    i64 e = number % s.values, head = number / s.values % s.heads, batch = number / s.values / "
    "s.heads;\n"
    "    next += number * s.keys;\n"
    "    state += s.at[5] + number * s.keys;\n"
    "#if HELD\n"
    "    WIDE row[HELD];\n"
    "#endif\n"
    "    EACH ROW = state[lane + 32 * i];\n"
    "    for (i64 t = 0; t < s.steps; t++) {\n"
    "        i64 step = batch * s.steps + t, at = step * s.heads + head;\n"
    "        i64 key = (step * s.groups + head / (s.heads / s.groups)) * s.keys;\n"
    "        WIDE by_k = 0, by_q = 0, kq = 0, whole = BY_COLUMN ? 1 : gate[s.at[3] + at];\n"
    "        bool seen = !MASKED || mask[s.at[6] + step];\n"
    "        EACH {\n"
    "            WIDE kept = BY_COLUMN ? ROW * gate[s.at[3] + at * s.keys + lane + 32 * i] : ROW;\n"
    "            WIDE k_i = k[s.at[1] + key + lane + 32 * i], q_i = q[s.at[0] + key + lane + 32 * i];\n"
    "            by_k = FMA(kept, k_i, by_k);\n"
    "            by_q = FMA(kept, q_i, by_q);\n"
    "            kq = FMA(k_i, q_i, kq);\n"
    "        }\n"
    "        SUM(by_k)\n"
    "        SUM(by_q)\n"
    "        SUM(kq)\n"
    "        WIDE delta = (v[s.at[2] + at * s.values + e] - whole * by_k) * beta[s.at[4] + at];\n"
    "        EACH {\n"
    "            WIDE kept = BY_COLUMN ? ROW * gate[s.at[3] + at * s.keys + lane + 32 * i] : whole * ROW;\n"
    "            ROW = seen ? FMA(delta, k[s.at[1] + key + lane + 32 * i], kept) : ROW;\n"
    "        }\n"
    "        if (is_row && lane == 0)\n"
    "            y[at * s.values + e] = seen ? FMA(delta, kq, whole * by_q) : 0;\n"
    "    }\n"
    "#if HELD\n"
    "    EACH if (is_row) next[lane + 32 * i] = ROW;\n"
    "#endif\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const char *wide = kernel_memory_type((zl_dtype)w->r->dtype);
    kernel_begin(out, w->dialect, true);
    text_add(
        out,
        "#define WIDE %s\n#define FMA zl_fma_%s\n#define HELD %d\n#define BY_COLUMN %d\n#define MASKED %d\n",
        wide, wide, w->r->held, w->r->by_column, w->r->masked);
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

static struct sizes sizes_of(const struct call *c) {
    const int64_t *q = c->in[Q]->dim, *v = c->in[V]->dim; // (B, T, heads, size)
    struct sizes s = {.steps = q[1],
                      .groups = q[2],
                      .heads = v[2],
                      .keys = q[3],
                      .values = v[3],
                      .rows = v[0] * v[2] * v[3]};
    for (int i = 0; i < c->inputs; i++)
        s.at[i] = c->in[i]->offset;
    return s;
}

bool kernel_gated_delta(const struct kernel_place *p, const struct call *c) {
    struct sizes s = sizes_of(c);
    int64_t held = (s.keys + LANES - 1) / LANES;
    struct recipe r = {c->in[V]->dtype, held > HELD_MOST ? 0 : (int32_t)held, c->in[GATE]->ndim == 4,
                       c->inputs > MASK, "gated delta"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to[] = {kernel_reach(p, call_first(c)), kernel_reach(p, call_output(c, 1))};
    struct kernel_call k;
    kernel_begin_call(&k);
    for (int i = 0; i < 2; i++)
        kernel_add_memory(&k, to[i]);
    for (int i = 0; i < MOST_INPUTS; i++) { // the mask, if there is none, is not read
        void *memory = kernel_reach(p, c->in[MIN_OF(i, c->inputs - 1)]);
        if (!memory)
            return false;
        kernel_add_memory(&k, memory);
    }
    kernel_add(&k, &s, sizeof s);
    return kernel && to[0] && to[1] && kernel_launch(p, kernel, (s.rows + 7) / 8, &k);
}
