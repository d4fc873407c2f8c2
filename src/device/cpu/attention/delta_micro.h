// delta_micro.h - tokens of the delta rule over some columns of a state, included once per type and vector
// size with CODE(name), CODE_TYPE, CODE_BYTES and CODE_TARGET defined.

typedef CODE_TYPE CODE(vector) __attribute__((vector_size(CODE_BYTES)));
typedef CODE(vector) CODE(memory) __attribute__((aligned(sizeof(CODE_TYPE)), may_alias));
#define VECTOR CODE(vector)
#define AT(p)  (*(CODE(memory) *)(p))
#define LANES  ((int)(CODE_BYTES / sizeof(CODE_TYPE)))
#define COLS   (2 * LANES)
#define INNER  GEMM_FUSED CODE_TARGET static inline __attribute__((always_inline))

// Adds up the rows of the state, each multiplied by its number of e, and by its number of q. Even and odd
// rows have separate sums, so that additions need not wait for each other.
INNER void CODE(read)(const CODE_TYPE *row, const CODE_TYPE *e, const CODE_TYPE *q, int64_t keys, bool erases,
                      VECTOR *by_e, VECTOR *by_q) {
    GEMM_CONTRACT
    VECTOR r0 = {0}, r1 = {0}, r2 = {0}, r3 = {0}, o0 = {0}, o1 = {0}, o2 = {0}, o3 = {0};
    int64_t i = 0;
    for (; i + 2 <= keys; i += 2, row += 2 * COLS) {
        VECTOR a = *(const CODE(memory) *)row, b = *(const CODE(memory) *)(row + LANES);
        VECTOR c = *(const CODE(memory) *)(row + COLS), d = *(const CODE(memory) *)(row + COLS + LANES);
        if (erases) {
            r0 += a * e[i];
            r1 += b * e[i];
            r2 += c * e[i + 1];
            r3 += d * e[i + 1];
        }
        o0 += a * q[i];
        o1 += b * q[i];
        o2 += c * q[i + 1];
        o3 += d * q[i + 1];
    }
    if (i < keys) {
        VECTOR a = *(const CODE(memory) *)row, b = *(const CODE(memory) *)(row + LANES);
        if (erases) {
            r0 += a * e[i];
            r1 += b * e[i];
        }
        o0 += a * q[i];
        o1 += b * q[i];
    }
    by_e[0] = r0 + r2;
    by_e[1] = r1 + r3;
    by_q[0] = o0 + o2;
    by_q[1] = o1 + o3;
}

// Applies the tokens to COLS columns of the state, which has `keys` rows of COLS numbers. x and y have a row
// of COLS numbers per token.
INNER void CODE(walk)(const struct delta_tokens *t, CODE_TYPE *state, const CODE_TYPE *x, CODE_TYPE *y,
                      bool erases) {
    GEMM_CONTRACT
    const CODE_TYPE *e = t->e, *q = t->q, *w = t->w, *decay = t->decay, *wq = t->wq, *beta = t->beta;
    const int64_t tokens = t->tokens, keys = t->keys, step = t->by_column; // copies, as stores might change t
    for (int64_t s = 0; s < tokens; s++, x += COLS, y += COLS) {
        VECTOR by_e[2], by_q[2];
        CODE(read)(state, e, q, keys, erases, by_e, by_q);
        VECTOR d0 = *(const CODE(memory) *)x - by_e[0], d1 = *(const CODE(memory) *)(x + LANES) - by_e[1];
        if (beta) {
            d0 *= beta[s];
            d1 *= beta[s];
        }
        AT(y) = by_q[0] + d0 * wq[s];
        AT(y + LANES) = by_q[1] + d1 * wq[s];
        CODE_TYPE *row = state;
        for (int64_t i = 0; i < keys; i++, row += COLS) {
            CODE_TYPE by = decay[i * step];
            AT(row) = AT(row) * by + d0 * w[i];
            AT(row + LANES) = AT(row + LANES) * by + d1 * w[i];
        }
        e += keys;
        q += keys;
        w += keys;
        decay += step ? keys : 1;
    }
}

// Multiplies a[i] by number * by[i], or by number * by[0] if step is 0.
INNER void CODE(scale)(CODE_TYPE *a, const CODE_TYPE *by, int64_t step, CODE_TYPE number, int64_t keys) {
    int64_t i = 0;
    VECTOR all = number * by[0] - (VECTOR){0};
    for (; i + LANES <= keys; i += LANES) {
        if (step)
            all = number * *(const CODE(memory) *)(by + i);
        AT(a + i) *= all;
    }
    for (; i < keys; i++)
        a[i] *= number * by[i * step];
}

// Multiplies q of each token by its decay and the scale, and e by its decay unless `pre`. Computes wq, the
// products of q and w times the scale.
GEMM_FUSED CODE_TARGET static void CODE(prepare)(const struct delta_tokens *t, double scale, bool pre) {
    GEMM_CONTRACT
    CODE_TYPE *e = t->e, *q = t->q, *wq = t->wq;
    const CODE_TYPE *w = t->w, *decay = t->decay;
    const int64_t tokens = t->tokens, keys = t->keys, step = t->by_column;
    for (int64_t s = 0; s < tokens; s++, e += keys, q += keys, w += keys, decay += step ? keys : 1) {
        VECTOR sum = {0};
        CODE_TYPE product = 0;
        int64_t i = 0;
        for (; i + LANES <= keys; i += LANES)
            sum += AT(q + i) * *(const CODE(memory) *)(w + i);
        for (; i < keys; i++)
            product += q[i] * w[i];
        for (i = 0; i < LANES; i++)
            product += sum[i];
        wq[s] = product * (CODE_TYPE)scale;
        CODE(scale)(q, decay, step, (CODE_TYPE)scale, keys);
        if (t->erases && !pre)
            CODE(scale)(e, decay, step, 1, keys);
    }
}

GEMM_FUSED CODE_TARGET static void CODE(tokens)(const struct delta_tokens *t, void *state, const void *x,
                                                void *y) {
    GEMM_CONTRACT
    if (t->erases)
        CODE(walk)(t, state, x, y, true);
    else
        CODE(walk)(t, state, x, y, false);
}

static const struct delta_code CODE(code) = {CODE(prepare), CODE(tokens), COLS};

#undef VECTOR
#undef AT
#undef LANES
#undef COLS
#undef INNER
#undef CODE
#undef CODE_TYPE
#undef CODE_BYTES
#undef CODE_TARGET
