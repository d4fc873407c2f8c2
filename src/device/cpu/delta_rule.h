// delta_rule.h - steps of the gated delta rule, included once a type: DELTA(name) names its functions, DELTA_TYPE is it.
//
// With one gate for a row of the state, its products with k and q are taken before the row is multiplied: state q after
// the step is gate * (state q) + delta * (k q). So a row is read twice a step, and written once. Products may be fused.

GEMM_FUSED static DELTA_TYPE DELTA(dot)(const DELTA_TYPE *a, const DELTA_TYPE *b, int64_t n) {
    GEMM_CONTRACT
    DELTA_TYPE sum[DELTA_LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + DELTA_LANES <= n; i += DELTA_LANES)
#pragma GCC unroll 16
        for (int lane = 0; lane < DELTA_LANES; lane++)
            sum[lane] += a[i + lane] * b[i + lane];
    for (; i < n; i++)
        rest += a[i] * b[i];
    for (int half = DELTA_LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++)
            sum[lane] += sum[lane + half];
    return sum[0] + rest;
}

// One step of one row; what it answers. kq: k times q.
GEMM_FUSED static DELTA_TYPE DELTA(step)(DELTA_TYPE *row, const DELTA_TYPE *k, const DELTA_TYPE *q, DELTA_TYPE kq,
                                         DELTA_TYPE gate, DELTA_TYPE v, DELTA_TYPE beta, int64_t keys) {
    GEMM_CONTRACT
    DELTA_TYPE delta = (v - gate * DELTA(dot)(row, k, keys)) * beta;
    DELTA_TYPE y = gate * DELTA(dot)(row, q, keys) + delta * kq;
    for (int64_t i = 0; i < keys; i++)
        row[i] = gate * row[i] + delta * k[i];
    return y;
}

// One step of all rows of a head.
static void DELTA(head_step)(const struct delta_rule *r, int64_t batch, int64_t head, int64_t t, DELTA_TYPE *row) {
    int64_t step = batch * r->time + t, at = step * r->heads + head;
    int64_t key = (step * r->groups + head / (r->heads / r->groups)) * r->keys;
    const DELTA_TYPE *k = (const DELTA_TYPE *)r->k + key, *q = (const DELTA_TYPE *)r->q + key;
    const DELTA_TYPE *v = (const DELTA_TYPE *)r->v + at * r->values;
    const DELTA_TYPE *gate = (const DELTA_TYPE *)r->gate + (r->by_column ? at * r->keys : at);
    DELTA_TYPE *y = (DELTA_TYPE *)r->out + at * r->values, beta = ((const DELTA_TYPE *)r->beta)[at];
    if (r->mask && !r->mask[step]) {
        memset(y, 0, sizeof *y * (size_t)r->values);
        return;
    }
    DELTA_TYPE kq = DELTA(dot)(k, q, r->keys);
    for (int64_t e = 0; e < r->values; e++, row += r->keys) {
        for (int64_t i = 0; r->by_column && i < r->keys; i++)
            row[i] *= gate[i];
        y[e] = DELTA(step)(row, k, q, kq, r->by_column ? 1 : *gate, v[e], beta, r->keys);
    }
}

// Heads [from, to) of all batches.
static void DELTA(heads)(const void *context, int64_t from, int64_t to) {
    const struct delta_rule *r = context;
    int64_t size = r->values * r->keys;
    for (; from < to; from++) {
        DELTA_TYPE *state = (DELTA_TYPE *)r->next + from * size;
        memcpy(state, (const DELTA_TYPE *)r->state + from * size, sizeof *state * (size_t)size);
        for (int64_t t = 0; t < r->time; t++)
            DELTA(head_step)(r, from / r->heads, from % r->heads, t, state);
    }
}

#undef DELTA
#undef DELTA_TYPE
