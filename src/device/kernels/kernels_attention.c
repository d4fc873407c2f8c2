// kernels_attention.c - attention of any layout, mask and size of heads, without a matrix of all scores.
//
// A group has eight queries, a thread one key of each 32 for one of them, and then every 32nd column of its result. Keys are
// brought to local memory by pieces of 64 columns. The softmax's largest score and sum are corrected when more keys have a larger
// one. Half floats are multiplied and summed in f32.

#include "device/kernels/kernels_attention.h"

static const char forward_text[] =
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
    "        if (c * LANES + lane < s.width)\n"
    "            store(y + line * s.width + c * LANES + lane, result[c] / sum);\n"
    "    }\n"
    "    if (lane == 0) {\n"
    "        state[2 * line] = most;\n"
    "        state[2 * line + 1] = sum;\n"
    "    }\n"
    "}\n";

bool kernel_attention(const struct kernel_place *p, const struct call *c) {
    static const struct attention_text text = {
        "attention",
        "score = LEAST",
        "most = load(sinks + s.sink_at + batch * s.sink_batch + head); sum = 1;",
        {forward_text}};
    struct attention a = op_attention_read(c, c->in);
    const zl_array memory[] = {call_first(c), call_output(c, 1), a.q, a.k, a.v, a.mask, a.sinks};
    return attention_launch(p, &a,
                            &(struct attention_launch){.text = &text,
                                                       .columns = a.v->dim[3],
                                                       .rows = a.q->dim[2],
                                                       .matrices = a.q->dim[1],
                                                       .memories = COUNT(memory),
                                                       .memory = memory});
}
