// kernels_attention_vjp.c - cotangents of attention's queries, keys and values, without a matrix of all scores.
//
// Scores are computed again from what the forward pass kept of each query. One kernel gives the queries' cotangents: a group has
// eight queries, a thread one key of each 32 for one of them. Another gives those of keys and values: a group has eight keys, a
// thread one query of each 32, of all heads that share the keys. Nothing is added up by two groups. A slope of a score is that of
// the softmax, p g (v - y): its parts are the cotangent, the values and the result.

#include "device/kernels/kernels_attention.h"

static const char weigh_text[] =
    "#define FILL(to, count, of, stride, first, limit, width) \\\n"
    "    for (i32 e = THREAD; e < (count) * PIECE; e += THREADS) { \\\n"
    "        i64 r = (first) + e / PIECE, c = d + e % PIECE; \\\n"
    "        to[e / PIECE][e % PIECE] = r < (limit) && c < (width) ? load(of + r * stride[3] + c * "
    "stride[4]) : 0; \\\n"
    "    }\n"
    // Of the thread's query and key: its weight, and the slope of its score.
    "#define WEIGH \\\n"
    "    f32 score = 0, slope = 0, weight = 0; \\\n"
    "    for (i64 d = 0; d < s.size; d += PIECE) { \\\n"
    "        BARRIER; \\\n"
    "        FILL(left, QUERIES, q, s.q, first_query, s.queries, s.size) \\\n"
    "        FILL(right, KEYS, k, s.k, first_key, s.keys, s.size) \\\n"
    "        BARRIER; \\\n"
    "        for (i32 e = 0; e < PIECE; e++) \\\n"
    "            score = zl_fma_f32(left[in_queries][e], right[in_keys][e], score); \\\n"
    "    } \\\n"
    "    for (i64 d = 0; d < s.width; d += PIECE) { \\\n"
    "        BARRIER; \\\n"
    "        FILL(left, QUERIES, g, s.g, first_query, s.queries, s.width) \\\n"
    "        FILL(less, QUERIES, y, s.y, first_query, s.queries, s.width) \\\n"
    "        FILL(right, KEYS, v, s.v, first_key, s.keys, s.width) \\\n"
    "        BARRIER; \\\n"
    "        for (i32 e = 0; e < PIECE; e++) \\\n"
    "            slope = zl_fma_f32(left[in_queries][e], right[in_keys][e] - less[in_queries][e], slope); "
    "\\\n"
    "    } \\\n"
    "    i64 query = first_query + in_queries, key = first_key + in_keys; \\\n"
    "    if (query < s.queries && key < s.keys) { \\\n"
    "        i32 hidden = s.causal && key > query + ahead; \\\n"
    "        i64 line = (batch * s.heads + head) * s.queries + query; \\\n"
    "        score *= s.scale; \\\n"
    "        HIDE \\\n"
    "        weight = power_of((hidden ? LEAST : score) - state[2 * line]) / state[2 * line + 1]; \\\n"
    "        slope = hidden ? 0 : weight * slope * s.scale; \\\n"
    "    } else \\\n"
    "        slope = 0; \\\n"
    "    weights[row][lane] = weight; \\\n"
    "    slopes[row][lane] = slope; \\\n"
    "    BARRIER;\n"
    "#define PARAMETERS GLOBAL const ITEM *q, GLOBAL const ITEM *k, GLOBAL const ITEM *v, GLOBAL const ITEM "
    "*y, "
    "GLOBAL const ITEM *g, GLOBAL const f32 *state, GLOBAL const MASK *mask, GLOBAL const ITEM *sinks, AXES "
    "s\n"
    "#define MEMORY LOCAL f32 left[QUERIES][PIECE + 1], less[QUERIES][PIECE + 1], right[KEYS][PIECE + 1], "
    "weights[ROWS][LANES], slopes[ROWS][LANES];\n";

static const char queries_text[] =
    "#define QUERIES ROWS\n"
    "#define KEYS LANES\n"
    "KERNEL zl_kernel(GLOBAL ITEM *dq, GLOBAL f32 *drain, PARAMETERS) {\n"
    "    MEMORY\n"
    "    i32 row = THREAD / LANES, lane = THREAD % LANES, in_queries = row, in_keys = lane;\n"
    "    i64 block = GROUP % s.blocks, rest = GROUP / s.blocks, head = rest % s.heads, batch = rest / "
    "s.heads;\n"
    "    i64 first_query = block * ROWS, shared = head / s.shared, end = s.keys, ahead = s.keys - "
    "s.queries;\n"
    "    q += s.q[0] + batch * s.q[1] + head * s.q[2];\n"
    "    k += s.k[0] + batch * s.k[1] + shared * s.k[2];\n"
    "    v += s.v[0] + batch * s.v[1] + shared * s.v[2];\n"
    "    y += s.y[0] + batch * s.y[1] + head * s.y[2];\n"
    "    g += s.g[0] + batch * s.g[1] + head * s.g[2];\n"
    "    f32 result[COLUMNS];\n"
    "    for (i32 c = 0; c < COLUMNS; c++)\n"
    "        result[c] = 0;\n"
    "    if (s.causal && ahead >= 0 && first_query + ROWS + ahead < end)\n"
    "        end = first_query + ROWS + ahead;\n"
    "    for (i64 first_key = 0; first_key < end; first_key += LANES) {\n"
    "        WEIGH\n"
    "        i32 count = s.keys - first_key < LANES ? (i32)(s.keys - first_key) : LANES;\n"
    "        for (i32 c = 0; c < COLUMNS; c++) {\n"
    "            i64 column = c * LANES + lane;\n"
    "            for (i32 j = 0; j < count && column < s.size; j++)\n"
    "                result[c] = zl_fma_f32(slopes[row][j], load(k + (first_key + j) * s.k[3] + column * "
    "s.k[4]), "
    "result[c]);\n"
    "        }\n"
    "    }\n"
    "    i64 query = first_query + row;\n"
    "    if (query >= s.queries)\n"
    "        return;\n"
    "    i64 line = (batch * s.heads + head) * s.queries + query;\n"
    "    for (i32 c = 0; c < COLUMNS; c++)\n"
    "        if (c * LANES + lane < s.size)\n"
    "            store(dq + line * s.size + c * LANES + lane, result[c]);\n"
    "    SINK\n"
    "}\n";

static const char keys_text[] =
    "#define QUERIES LANES\n"
    "#define KEYS ROWS\n"
    "KERNEL zl_kernel(GLOBAL ITEM *dk, GLOBAL ITEM *dv, PARAMETERS) {\n"
    "    MEMORY\n"
    "    i32 row = THREAD / LANES, lane = THREAD % LANES, in_queries = lane, in_keys = row;\n"
    "    i64 block = GROUP % s.blocks, rest = GROUP / s.blocks, matrices = s.heads / s.shared;\n"
    "    i64 matrix = rest % matrices, batch = rest / matrices;\n"
    "    i64 first_key = block * ROWS, ahead = s.keys - s.queries;\n"
    "    GLOBAL const ITEM *all_q = q + s.q[0] + batch * s.q[1], *all_y = y + s.y[0] + batch * s.y[1];\n"
    "    GLOBAL const ITEM *all_g = g + s.g[0] + batch * s.g[1];\n"
    "    k += s.k[0] + batch * s.k[1] + matrix * s.k[2];\n"
    "    v += s.v[0] + batch * s.v[1] + matrix * s.v[2];\n"
    "    f32 of_keys[COLUMNS], of_values[COLUMNS];\n"
    "    for (i32 c = 0; c < COLUMNS; c++)\n"
    "        of_keys[c] = of_values[c] = 0;\n"
    "    i64 begin = s.causal && ahead >= 0 && first_key > ahead ? (first_key - ahead) / LANES * LANES : 0;\n"
    "    for (i64 head = matrix * s.shared; head < (matrix + 1) * s.shared; head++) {\n"
    "        q = all_q + head * s.q[2];\n"
    "        y = all_y + head * s.y[2];\n"
    "        g = all_g + head * s.g[2];\n"
    "        for (i64 first_query = begin; first_query < s.queries; first_query += LANES) {\n"
    "            WEIGH\n"
    "            i32 count = s.queries - first_query < LANES ? (i32)(s.queries - first_query) : LANES;\n"
    "            for (i32 c = 0; c < COLUMNS; c++) {\n"
    "                i64 column = c * LANES + lane;\n"
    "                for (i32 j = 0; j < count; j++) {\n"
    "                    if (column < s.size)\n"
    "                        of_keys[c] = zl_fma_f32(slopes[row][j], load(q + (first_query + j) * s.q[3] + "
    "column * s.q[4]), of_keys[c]);\n"
    "                    if (column < s.width)\n"
    "                        of_values[c] = zl_fma_f32(weights[row][j], load(g + (first_query + j) * s.g[3] "
    "+ "
    "column * s.g[4]), of_values[c]);\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    if (first_key + row >= s.keys)\n"
    "        return;\n"
    "    i64 line = (batch * matrices + matrix) * s.keys + first_key + row;\n"
    "    for (i32 c = 0; c < COLUMNS; c++) {\n"
    "        i64 column = c * LANES + lane;\n"
    "        if (column < s.size)\n"
    "            store(dk + line * s.size + column, of_keys[c]);\n"
    "        if (column < s.width)\n"
    "            store(dv + line * s.width + column, of_values[c]);\n"
    "    }\n"
    "}\n";

// What each query adds to the cotangent of its sink.
static const char drain_text[] = "if (lane == 0) { f32 dot = 0; for (i64 c = 0; c < s.width; c++) dot = "
                                 "zl_fma_f32(load(g + query * s.g[3] + c * "
                                 "s.g[4]), load(y + query * s.y[3] + c * s.y[4]), dot); drain[line] = "
                                 "-power_of(load(sinks + s.sink_at + batch * "
                                 "s.sink_batch + head) - state[2 * line]) / state[2 * line + 1] * dot; }";

bool kernel_attention_vjp(const struct kernel_place *p, const struct call *c) {
    static const struct attention_text of_queries = {"attention_dq",
                                                     "hidden = 1",
                                                     drain_text,
                                                     {weigh_text, queries_text}},
                                       of_keys = {
                                           "attention_dkv", "hidden = 1", NULL, {weigh_text, keys_text}};
    struct attention a = op_attention_read(c, c->in);
    const zl_array
        queries[] = {call_first(c), a.sinks ? call_output(c, 3) : NULL,
                     a.q,           a.k,
                     a.v,           a.y,
                     a.g,           a.state,
                     a.mask,        a.sinks},
        keys[] = {call_output(c, 1), call_output(c, 2), a.q, a.k, a.v, a.y, a.g, a.state, a.mask, a.sinks};
    return attention_launch(p, &a,
                            &(struct attention_launch){.text = &of_queries,
                                                       .columns = a.q->dim[3],
                                                       .rows = a.q->dim[2],
                                                       .matrices = a.q->dim[1],
                                                       .memories = COUNT(queries),
                                                       .memory = queries}) &&
           attention_launch(p, &a,
                            &(struct attention_launch){.text = &of_keys,
                                                       .columns = MAX_OF(a.q->dim[3], a.v->dim[3]),
                                                       .rows = a.k->dim[2],
                                                       .matrices = a.k->dim[1],
                                                       .memories = COUNT(keys),
                                                       .memory = keys});
}
