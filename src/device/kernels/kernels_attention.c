// kernels_attention.c - attention of any layout, mask and size of heads, without a matrix of all scores.
//
// A group has eight queries, a thread one key of each 32 for one of them, and then every 32nd column of its result. Keys are
// brought to local memory by pieces of 64 columns. The softmax's largest score and sum are corrected when more keys have a larger
// one. Half floats are multiplied and summed in f32.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { ROWS = 8, LANES = 32 };

struct recipe {
    int32_t dtype, mask;    // of numbers and of the mask; ZL_DTYPE_COUNT: there is none
    int32_t sinks, columns; // columns: of a thread
    char name[12];          // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// As in the text: where views begin, then their strides.
struct sizes {
    int64_t q[5], k[5], v[5], mask[5];
    int64_t sink_at, sink_batch, heads, shared, queries, keys, size, width, blocks;
    float scale;
    int32_t causal;
};

// Text -------------------------------------------------------------------------------------------------------------

static const char text[] =
    "#define ROWS 8\n"
    "#define LANES 32\n"
    "#define PIECE 64\n"
    "#define LEAST zl_f32_from(0xff7fffffu)\n"
    "struct zl_axes {\n"
    "    i64 q[5], k[5], v[5], mask[5];\n"
    "    i64 sink_at, sink_batch, heads, shared, queries, keys, size, width, blocks;\n"
    "    f32 scale;\n"
    "    i32 causal;\n"
    "};\n"
    "FN f32 load(GLOBAL const ITEM *from) {\n"
    "    ITEM item = *from;\n"
    "    f32 value;\n"
    "    widen(&value, &item);\n"
    "    return value;\n"
    "}\n"
    "FN f32 power_of(f32 x) {\n"
    "    f32 value;\n"
    "    power(&value, &x);\n"
    "    return value;\n"
    "}\n\n"
    "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL f32 *state, GLOBAL const ITEM *q, GLOBAL const ITEM *k, "
    "GLOBAL const ITEM *v, GLOBAL const MASK *mask, GLOBAL const ITEM *sinks, AXES s) {\n"
    "    LOCAL f32 queries[ROWS][PIECE], keys[LANES][PIECE + 1], scores[ROWS][LANES];\n"
    "    i32 row = THREAD / LANES, lane = THREAD % LANES;\n"
    "    i64 block = GROUP % s.blocks, rest = GROUP / s.blocks, head = rest % s.heads, batch = rest / "
    "s.heads;\n"
    "    i64 first = block * ROWS, query = first + row, shared = head / s.shared;\n"
    "    q += s.q[0] + batch * s.q[1] + head * s.q[2];\n"
    "    k += s.k[0] + batch * s.k[1] + shared * s.k[2];\n"
    "    v += s.v[0] + batch * s.v[1] + shared * s.v[2];\n"
    "    f32 most = LEAST, sum = 0, result[COLUMNS];\n"
    "    for (i32 c = 0; c < COLUMNS; c++)\n"
    "        result[c] = 0;\n"
    "    SINK\n"
    "    i64 end = s.keys, ahead = s.keys - s.queries;\n" // a query sees the keys up to itself and so many
    "    if (s.causal && ahead >= 0 && first + ROWS + ahead < end)\n"
    "        end = first + ROWS + ahead;\n"
    "    for (i64 from = 0; from < end; from += LANES) {\n"
    "        f32 score = 0;\n"
    "        for (i64 d = 0; d < s.size; d += PIECE) {\n"
    "            BARRIER;\n"
    "            for (i32 e = THREAD; e < ROWS * PIECE; e += THREADS) {\n"
    "                i64 r = first + e / PIECE, c = d + e % PIECE;\n"
    "                queries[e / PIECE][e % PIECE] =\n"
    "                    r < s.queries && c < s.size ? load(q + r * s.q[3] + c * s.q[4]) : 0;\n"
    "            }\n"
    "            for (i32 e = THREAD; e < LANES * PIECE; e += THREADS) {\n"
    "                i64 r = from + e / PIECE, c = d + e % PIECE;\n"
    "                keys[e / PIECE][e % PIECE] =\n"
    "                    r < s.keys && c < s.size ? load(k + r * s.k[3] + c * s.k[4]) : 0;\n"
    "            }\n"
    "            BARRIER;\n"
    "            for (i32 e = 0; e < PIECE; e++)\n"
    "                score = zl_fma_f32(queries[row][e], keys[lane][e], score);\n"
    "        }\n"
    "        i64 key = from + lane;\n"
    "        score *= s.scale;\n"
    "        if (key < s.keys && query < s.queries) {\n"
    "            HIDE\n"
    "        }\n"
    "        if (s.causal && key > query + ahead)\n"
    "            score = LEAST;\n"
    "        scores[row][lane] = score;\n"
    "        BARRIER;\n"
    "        i32 count = s.keys - from < LANES ? (i32)(s.keys - from) : LANES;\n"
    "        f32 larger = most;\n"
    "        for (i32 j = 0; j < count; j++)\n"
    "            larger = scores[row][j] > larger || scores[row][j] != scores[row][j] ? scores[row][j] : "
    "larger;\n"
    "        f32 factor = power_of(most - larger), weight = power_of(score - larger);\n"
    "        BARRIER;\n"
    "        scores[row][lane] = weight;\n"
    "        BARRIER;\n"
    "        sum *= factor;\n"
    "        for (i32 j = 0; j < count; j++)\n"
    "            sum += scores[row][j];\n"
    "        for (i32 c = 0; c < COLUMNS; c++) {\n"
    "            i64 column = c * LANES + lane;\n"
    "            f32 part = result[c] * factor;\n"
    "            for (i32 j = 0; j < count && column < s.width; j++)\n"
    "                part = zl_fma_f32(scores[row][j], load(v + (from + j) * s.v[3] + column * s.v[4]), "
    "part);\n"
    "            result[c] = part;\n"
    "        }\n"
    "        most = larger;\n"
    "    }\n"
    "    if (query >= s.queries)\n"
    "        return;\n"
    "    i64 line = (batch * s.heads + head) * s.queries + query;\n"
    "    for (i32 c = 0; c < COLUMNS; c++) {\n"
    "        f32 value = result[c] / sum;\n"
    "        ITEM item;\n"
    "        narrow(&item, &value);\n"
    "        if (c * LANES + lane < s.width)\n"
    "            y[line * s.width + c * LANES + lane] = item;\n"
    "    }\n"
    "    if (lane == 0) {\n"
    "        state[2 * line] = most;\n"
    "        state[2 * line + 1] = sum;\n"
    "    }\n"
    "}\n";

#define MASKED "mask[s.mask[0] + batch * s.mask[1] + head * s.mask[2] + query * s.mask[3] + key * s.mask[4]]"

static void define_mask(struct text *out, const struct recipe *r) {
    if (r->mask == ZL_DTYPE_COUNT)
        text_add(out, "#define MASK ITEM\n#define HIDE\n");
    else if (r->mask == ZL_BOOL)
        text_add(out, "#define MASK u8\n#define HIDE if (!" MASKED ") score = LEAST;\n");
    else
        text_add(out, "#define MASK ITEM\n#define HIDE score += load(&" MASKED ");\n");
    text_add(out, "#define SINK %s\n",
             r->sinks ? "most = load(sinks + s.sink_at + batch * s.sink_batch + head); sum = 1;" : "");
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype;
    kernel_begin(out, w->dialect, true);
    if (!kernel_element(out, tile_cast_kernel(ZL_FLOAT32, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, ZL_FLOAT32), w->dialect, "narrow") ||
        !kernel_element(out, tile_row_kernel(TILE_EXP, ZL_FLOAT32, "v"), w->dialect, "power"))
        return false;
    text_add(out, "#define ITEM %s\n#define COLUMNS %d\n", kernel_memory_type(dtype), w->r->columns);
    define_mask(out, w->r);
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

// Calls ------------------------------------------------------------------------------------------------------------

// Where a view begins and its strides; one element stands for all along an axis.
static void lay_out(int64_t *out, zl_array x) {
    out[0] = x->offset;
    for (int i = 0; i < 4; i++)
        out[i + 1] = x->dim[i] == 1 ? 0 : array_stride(x)[i];
}

static struct sizes sizes_of(const struct attention *a) {
    struct sizes s = {.heads = a->q->dim[1],
                      .shared = a->q->dim[1] / a->k->dim[1],
                      .queries = a->q->dim[2],
                      .keys = a->k->dim[2],
                      .size = a->q->dim[3],
                      .width = a->v->dim[3],
                      .blocks = (a->q->dim[2] + ROWS - 1) / ROWS,
                      .scale = (float)a->scale,
                      .causal = a->causal};
    lay_out(s.q, a->q);
    lay_out(s.k, a->k);
    lay_out(s.v, a->v);
    if (a->mask)
        lay_out(s.mask, a->mask);
    if (a->sinks) {
        s.sink_at = a->sinks->offset;
        s.sink_batch = a->sinks->dim[0] == 1 ? 0 : array_stride(a->sinks)[0];
    }
    return s;
}

bool kernel_attention(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    zl_array y = call_first(c);
    struct sizes s = sizes_of(&a);
    struct recipe r = {a.q->dtype, a.mask ? a.mask->dtype : ZL_DTYPE_COUNT, a.sinks != NULL,
                       (int32_t)((s.width + LANES - 1) / LANES), "attention"};
    const zl_array memory[] = {
        y, call_output(c, 1), a.q, a.k, a.v, a.mask ? a.mask : a.q, a.sinks ? a.sinks : a.q};
    struct kernel_call k;
    kernel_begin_call(&k);
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    for (size_t i = 0; i < COUNT(memory); i++) {
        void *reached = kernel_reach(p, memory[i]);
        if (!reached)
            return false;
        kernel_add_memory(&k, reached);
    }
    kernel_add(&k, &s, sizeof s);
    return kernel && kernel_launch_by(p, kernel, a.q->dim[0] * s.heads * s.blocks, ROWS * LANES, &k);
}
