// delta_back_micro.h - a chunk of tokens of the delta rule and its gradient, included once per type and
// vector size with CODE(name), CODE_TYPE, CODE_BYTES, CODE_ROWS and CODE_TARGET defined. A product keeps
// CODE_ROWS rows in registers.
//
// A matrix is stored in panels of COLS columns, each row by row: so a product reads its second factor row by
// row, whatever its size, and single numbers of its first factor, which may be transposed.

typedef CODE_TYPE CODE(vector) __attribute__((vector_size(CODE_BYTES)));
typedef CODE(vector) CODE(memory) __attribute__((aligned(sizeof(CODE_TYPE)), may_alias));
#define VECTOR  CODE(vector)
#define AT(p)   (*(CODE(memory) *)(p))
#define READ(p) (*(const CODE(memory) *)(p))
#define LANES   ((int)(CODE_BYTES / sizeof(CODE_TYPE)))
#define COLS    (2 * LANES)
#define INNER   GEMM_FUSED CODE_TARGET static inline __attribute__((always_inline))
#define OUTER   GEMM_FUSED CODE_TARGET static __attribute__((noinline))

// Products --------------------------------------------------------------------------------------------------

// Adds k rows of b to each of CODE_ROWS sums, each row multiplied by a number of a: a_row numbers lie between
// those of two sums, a_next between those of two rows.
INNER void CODE(add_lines)(VECTOR sum[CODE_ROWS][2], const CODE_TYPE *a, int64_t a_row, int64_t a_next,
                           const CODE_TYPE *b, int64_t k) {
    GEMM_CONTRACT
    for (int64_t i = 0; i < k; i++, a += a_next, b += COLS) {
        VECTOR b0 = READ(b), b1 = READ(b + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < CODE_ROWS; r++) {
            CODE_TYPE by = a[r * a_row];
            sum[r][0] += b0 * by;
            sum[r][1] += b1 * by;
        }
    }
}

// Computes CODE_ROWS rows of a panel: c = keep c + sign a b. The panels of a are a_panel numbers apart and
// have COLS of its k columns each; transposed, a is read from one panel.
INNER void CODE(tile)(CODE_TYPE *c, CODE_TYPE keep, CODE_TYPE sign, const CODE_TYPE *a, int64_t a_panel,
                      bool transposed, const CODE_TYPE *b, int64_t k) {
    GEMM_CONTRACT
    VECTOR sum[CODE_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < CODE_ROWS; r++)
        sum[r][0] = sum[r][1] = (VECTOR){0};
    if (transposed)
        CODE(add_lines)(sum, a, 1, COLS, b, k);
    else
        for (int64_t at = 0; at < k; at += COLS, a += a_panel)
            CODE(add_lines)(sum, a, COLS, 1, b + at * COLS, k - at < COLS ? k - at : COLS);
#pragma GCC unroll 8
    for (int r = 0; r < CODE_ROWS; r++, c += COLS)
        for (int v = 0; v < 2; v++) {
            VECTOR all = sign * sum[r][v];
            if (keep != 0) // else c is not initialised yet
                all += keep * READ(c + v * LANES);
            AT(c + v * LANES) = all;
        }
}

// A first factor: its numbers, the rows of its panels, whether it is to be transposed, and whether all
// elements above its diagonal are 0.
struct CODE(factor) {
    const CODE_TYPE *x;
    int64_t rows;
    bool transposed, lower;
};

// Computes c = keep c + sign a b for `rows` rows and `cols` columns of c, over k rows of b. Panels of c have
// in_panel rows, those of b have `lines`.
OUTER void CODE(multiply)(CODE_TYPE *c, int64_t in_panel, int64_t rows, int64_t cols, CODE_TYPE keep,
                          CODE_TYPE sign, struct CODE(factor) a, const CODE_TYPE *b, int64_t lines,
                          int64_t k) {
    const int64_t panel = a.rows * COLS;
    for (int64_t col = 0; col < cols; col += COLS, c += in_panel * COLS, b += lines * COLS)
        for (int64_t row = 0; row < rows; row += CODE_ROWS) {
            int64_t skip = a.lower && a.transposed ? MIN_OF(row, k) : 0,
                    most = a.lower ? MIN_OF(k, row + CODE_ROWS) : k;
            if (a.transposed)
                CODE(tile)
            (c + row * COLS, keep, sign, a.x + row / COLS * panel + row % COLS + skip * COLS, panel, true,
             b + skip * COLS, k - skip);
            else CODE(tile)(c + row * COLS, keep, sign, a.x + row * COLS, panel, false, b, most);
        }
}

// Lines -----------------------------------------------------------------------------------------------------

// Sets row i of y to row i of x times factor * by[i], for `cols` columns.
OUTER void CODE(scale_rows)(CODE_TYPE *y, const CODE_TYPE *x, const CODE_TYPE *by, CODE_TYPE factor,
                            int64_t rows, int64_t cols) {
    for (int64_t col = 0; col < cols; col += COLS)
        for (int64_t i = 0, at = col * TILE; i < rows; i++, at += COLS) {
            CODE_TYPE number = factor * by[i];
            AT(y + at) = READ(x + at) * number;
            AT(y + at + LANES) = READ(x + at + LANES) * number;
        }
}

// Adds sign times the dot product of row i of x and row i of y to sum[i].
OUTER void CODE(dot_rows)(CODE_TYPE *sum, CODE_TYPE sign, const CODE_TYPE *x, const CODE_TYPE *y,
                          int64_t rows, int64_t cols) {
    GEMM_CONTRACT
    for (int64_t i = 0; i < rows; i++) {
        VECTOR all = {0};
        CODE_TYPE total = 0;
        for (int64_t at = i * COLS; at < cols * TILE; at += COLS * TILE) {
            all += READ(x + at) * READ(y + at);
            all += READ(x + at + LANES) * READ(y + at + LANES);
        }
        for (int l = 0; l < LANES; l++)
            total += all[l];
        sum[i] += sign * total;
    }
}

// Returns the sum of the products of all numbers of x and y.
OUTER CODE_TYPE CODE(dot_all)(const CODE_TYPE *x, const CODE_TYPE *y, int64_t count) {
    GEMM_CONTRACT
    VECTOR a = {0}, b = {0};
    CODE_TYPE total = 0;
    for (int64_t i = 0; i < count; i += COLS) {
        a += READ(x + i) * READ(y + i);
        b += READ(x + i + LANES) * READ(y + i + LANES);
    }
    a += b;
    for (int l = 0; l < LANES; l++)
        total += a[l];
    return total;
}

static void CODE(transpose)(CODE_TYPE *to, const CODE_TYPE *from, int64_t rows, int64_t cols) {
    const int64_t line = COLS * (int64_t)sizeof(CODE_TYPE);
    for (int64_t i = 0; i < rows; i += COLS)
        for (int64_t k = 0; k < cols; k += COLS)
            cpu_transpose(sizeof(CODE_TYPE), (char *)(to + i * cols + k * COLS), line,
                          (const char *)(from + k * rows + i * COLS), line, COLS, COLS);
}

// Returns the index of element (t, i) of a TILE x TILE matrix.
static inline int64_t CODE(pair)(int64_t t, int64_t i) {
    return i / COLS * COLS * TILE + t * COLS + i % COLS;
}

// Decays ----------------------------------------------------------------------------------------------------

// Returns x with those lanes set to 0 whose number is not less than `end`; the first lane has the number
// `first`.
INNER VECTOR CODE(before)(VECTOR x, int64_t first, int64_t end) {
    VECTOR lane = {0};
    for (int l = 0; l < LANES; l++)
        lane[l] = (CODE_TYPE)(first + l);
    __typeof__(lane < lane) is = lane < ((VECTOR){0} + (CODE_TYPE)end);
    return (VECTOR)((__typeof__(is))x & is);
}

// Computes the logarithms of the decays from after token i to token t, and from the chunk's start to each
// token, with its own decay (so_far) and without it (before). All are sums and none is a difference, because
// a decay may be 0.
CODE_TARGET static void CODE(logarithms)(const struct delta_chunk *c) {
    const CODE_TYPE *g = c->g;
    CODE_TYPE *between = c->between, *so_far = c->so_far, *before = c->before, sum = 0;
    for (int64_t t = 0; t < TILE; t++) {
        before[t] = sum;
        sum += g[t];
        so_far[t] = sum;
    }
    for (int64_t col = 0; col < TILE; col += LANES) {
        VECTOR all = {0};
        CODE_TYPE *line = between + col / COLS * COLS * TILE + col % COLS;
        for (int64_t t = 0; t < TILE; t++, line += COLS)
            AT(line) = all = CODE(before)(all + g[t], col, t);
    }
}

// Computes `erasing` and `rest` from the decays between tokens, and sets those of later tokens to 0.
CODE_TARGET static void CODE(decays)(const struct delta_chunk *c) {
    CODE_TYPE *between = c->between, *rest = c->rest;
    for (int64_t col = 0; col < TILE; col += LANES) {
        const int64_t begin = col / COLS * COLS * TILE + col % COLS;
        CODE_TYPE *line = between + begin, *erasing = (CODE_TYPE *)c->erasing + begin;
        VECTOR above = {0};
        for (int64_t t = 0; t < TILE; t++, line += COLS, erasing += COLS) {
            VECTOR all = READ(line);
            AT(erasing) = c->pre ? above : CODE(before)(all, col, t);
            AT(line) = above = CODE(before)(all, col, t + 1);
        }
    }
    for (int64_t i = 0; i < TILE; i++)
        rest[i] = between[CODE(pair)(TILE - 1, i)];
}

// Multiplies e and x by beta.
CODE_TARGET static void CODE(by_beta)(const struct delta_chunk *c) {
    if (c->beta && c->e)
        CODE(scale_rows)(c->e_beta, c->e, c->beta, 1, TILE, c->keys);
    if (c->beta)
        CODE(scale_rows)(c->x_beta, c->x, c->beta, 1, TILE, c->values);
}

// Multiplies x by factor * y, element by element, of TILE x TILE matrices.
INNER void CODE(mask)(CODE_TYPE *x, const CODE_TYPE *y, CODE_TYPE factor) {
    for (int64_t i = 0; i < TILE * TILE; i += LANES)
        AT(x + i) = factor * READ(x + i) * READ(y + i);
}

// Chunks ----------------------------------------------------------------------------------------------------

// Computes the inverse of I + lower, row by row.
OUTER void CODE(invert)(CODE_TYPE *inverse, const CODE_TYPE *lower) {
    GEMM_CONTRACT
    memset(inverse, 0, sizeof(CODE_TYPE) * TILE * TILE);
    for (int64_t t = 0; t < TILE; t++) {
        for (int64_t col = 0; col <= t; col += COLS) {
            VECTOR a = {0}, b = {0};
            const CODE_TYPE *line = inverse + col * TILE;
            for (int64_t i = 0; i < t; i++, line += COLS) {
                CODE_TYPE by = lower[CODE(pair)(t, i)];
                a -= READ(line) * by;
                b -= READ(line + LANES) * by;
            }
            AT(inverse + col * TILE + t * COLS) = a;
            AT(inverse + col * TILE + t * COLS + LANES) = b;
        }
        inverse[CODE(pair)(t, t)] += 1;
    }
}

// Computes the corrections (delta) and the state after the chunk (next) from the state before it.
GEMM_FUSED CODE_TARGET static void CODE(forward)(const struct delta_chunk *c, const void *state, void *next,
                                                 void *delta) {
    const int64_t keys = c->keys, values = c->values;
    const size_t line = sizeof(CODE_TYPE) * TILE;
    const CODE_TYPE *so_far = c->so_far;
    CODE(scale_rows)(c->late, c->w, c->rest, 1, TILE, keys);
    if (c->e) {
        CODE(transpose)(c->w_transposed, c->w, TILE, keys);
        CODE(multiply)
        (c->lower, TILE, TILE, TILE, 0, 1, (struct CODE(factor)){c->e_beta, TILE, false}, c->w_transposed,
         keys, keys);
        CODE(mask)(c->lower, c->erasing, 1);
        CODE(invert)(c->inverse, c->lower);
        CODE(scale_rows)(c->room, c->e_beta, c->pre ? c->before : c->so_far, 1, TILE, keys);
        memcpy(c->found, c->x_beta, line * (size_t)values);
        CODE(multiply)
        (c->found, TILE, TILE, values, 1, -1, (struct CODE(factor)){c->room, TILE, false}, state, keys, keys);
        CODE(multiply)
        (delta, TILE, TILE, values, 0, 1, (struct CODE(factor)){c->inverse, TILE, false, true}, c->found,
         TILE, TILE);
    } else {
        memcpy(delta, c->x_beta, line * (size_t)values);
    }
    memcpy(next, state, sizeof(CODE_TYPE) * (size_t)(keys * values));
    CODE(multiply)
    (next, keys, keys, values, so_far[TILE - 1], 1, (struct CODE(factor)){c->late, TILE, true}, delta, TILE,
     c->tokens);
}

// Computes the cotangent of each logarithm g of a decay. That at token s is the sum of all contributions that
// pass s: from a token i < s or the state before the chunk, to a token t >= s or the state after it. Only
// these terms are added, and none is subtracted again: where decays are strong, what passes s is far smaller
// than what does not. past: the contribution of the state before to the state after.
OUTER void CODE(gate)(const struct delta_chunk *c, CODE_TYPE past) {
    CODE_TYPE *dg = c->dg, *ways = c->ways;
    const CODE_TYPE *lower = c->lower, *sums = c->sums, *from_e = c->from_e, *from_w = c->from_w;
    CODE_TYPE into = 0, out = 0;
    VECTOR all[TILE / LANES];
    memset(all, 0, sizeof all);
    for (int64_t t = TILE; t-- > 0;) {
        if (c->e && c->pre && t + 1 < TILE) // e reads the state before its own token's decay
            out += from_e[t + 1];
        out += sums[t] + (c->e && !c->pre ? from_e[t] : 0);
        VECTOR sum = {0};
        for (int64_t v = 0; v < TILE / LANES; v++) {
            const int64_t col = v * LANES, at = CODE(pair)(t, col);
            all[v] += READ(ways + at);
            if (c->e && (!c->pre || t + 1 < TILE))
                all[v] += READ(lower + (c->pre ? at + COLS : at));
            sum += CODE(before)(all[v], col, t);
        }
        CODE_TYPE total = past + out;
        for (int l = 0; l < LANES; l++)
            total += sum[l];
        dg[t] = total;
    }
    for (int64_t t = 0; t < TILE; into += from_w[t++])
        dg[t] += into;
}

// Computes the cotangents of the chunk's inputs. `slope` is the cotangent of the state after the chunk, and
// becomes that of the state before it.
GEMM_FUSED CODE_TARGET static void CODE(backward)(const struct delta_chunk *c, const void *state,
                                                  const void *delta, void *slope) {
    const int64_t keys = c->keys, values = c->values, rows = c->tokens;
    const CODE_TYPE *so_far = c->so_far;
    const CODE_TYPE scale = (CODE_TYPE)c->scale;
    CODE_TYPE *sums = c->sums, *from_e = c->from_e, *from_w = c->from_w, *dbeta = c->dbeta;
    const void *corrected = c->r;
    // The cotangents of the corrections (found), and of the right-hand sides that they solve (corrected).
    CODE(transpose)(c->w_transposed, c->w, TILE, keys);
    CODE(multiply)
    (c->pairs, TILE, TILE, TILE, 0, 1, (struct CODE(factor)){c->q, TILE, false}, c->w_transposed, keys, keys);
    CODE(mask)(c->pairs, c->between, scale);
    memcpy(c->ways, c->pairs, sizeof(CODE_TYPE) * TILE * TILE);
    CODE(scale_rows)(c->late, c->w, c->rest, 1, TILE, keys);
    CODE(multiply)
    (c->found, TILE, TILE, values, 0, 1, (struct CODE(factor)){c->pairs, TILE, true, true}, c->dy, TILE,
     rows);
    CODE(multiply)
    (c->found, TILE, TILE, values, 1, 1, (struct CODE(factor)){c->late, TILE, false}, slope, keys, keys);
    if (c->e)
        CODE(multiply)
    (c->r, TILE, TILE, values, 0, 1, (struct CODE(factor)){c->inverse, TILE, true, true}, c->found, TILE,
     TILE);
    else corrected = c->found;
    // The cotangents of the products of pairs of tokens
    CODE(transpose)(c->transposed, delta, TILE, values);
    CODE(multiply)
    (c->pairs, TILE, TILE, TILE, 0, 1, (struct CODE(factor)){c->dy, TILE, false}, c->transposed, values,
     values);
    CODE(mask)(c->ways, c->pairs, 1);
    CODE(mask)(c->pairs, c->between, scale);
    if (c->e) {
        CODE(multiply)
        (c->pairs_e, TILE, TILE, TILE, 0, -1, (struct CODE(factor)){corrected, TILE, false}, c->transposed,
         values, values);
        CODE(mask)(c->lower, c->pairs_e, 1);
        CODE(mask)(c->pairs_e, c->erasing, 1);
    }
    memset(sums, 0, sizeof(CODE_TYPE) * TILE);
    memset(from_e, 0, sizeof(CODE_TYPE) * TILE);
    memset(from_w, 0, sizeof(CODE_TYPE) * TILE);
    // q
    CODE(transpose)(c->transposed, state, keys, values);
    CODE(scale_rows)(c->dy_now, c->dy, so_far, scale, TILE, values);
    CODE(multiply)
    (c->dq, TILE, rows, keys, 0, 1, (struct CODE(factor)){c->dy_now, TILE, false}, c->transposed, values,
     values);
    CODE(dot_rows)(sums, 1, c->q, c->dq, rows, keys);
    CODE(multiply)
    (c->dq, TILE, rows, keys, 1, 1, (struct CODE(factor)){c->pairs, TILE, false, true}, c->w, TILE, rows);
    // e, and through it the state
    if (c->e) {
        CODE(scale_rows)(c->r_now, corrected, c->pre ? c->before : so_far, -1, TILE, values);
        CODE(multiply)
        (c->de, TILE, rows, keys, 0, 1, (struct CODE(factor)){c->r_now, TILE, false}, c->transposed, values,
         values);
        CODE(dot_rows)(from_e, 1, c->e_beta, c->de, rows, keys);
        CODE(multiply)
        (c->de, TILE, rows, keys, 1, 1, (struct CODE(factor)){c->pairs_e, TILE, false, true}, c->w, TILE,
         rows);
    }
    // w
    CODE(transpose)(c->transposed, slope, keys, values);
    CODE(scale_rows)(c->room, delta, c->rest, 1, TILE, values);
    CODE(multiply)
    (c->dw, TILE, rows, keys, 0, 1, (struct CODE(factor)){c->room, TILE, false}, c->transposed, values,
     values);
    CODE(dot_rows)(from_w, 1, c->w, c->dw, rows, keys);
    CODE(multiply)
    (c->dw, TILE, rows, keys, 1, 1, (struct CODE(factor)){c->pairs, TILE, true, true}, c->q, TILE, rows);
    if (c->e)
        CODE(multiply)
    (c->dw, TILE, rows, keys, 1, 1, (struct CODE(factor)){c->pairs_e, TILE, true, true}, c->e_beta, TILE,
     rows);
    CODE(gate)(c, so_far[TILE - 1] * CODE(dot_all)(slope, state, keys * values));
    // beta, by which x and e were multiplied
    memset(dbeta, 0, sizeof(CODE_TYPE) * TILE);
    if (c->beta) {
        CODE(dot_rows)(dbeta, 1, c->x, corrected, rows, values);
        if (c->e)
            CODE(dot_rows)(dbeta, 1, c->e, c->de, rows, keys);
        CODE(scale_rows)(c->dx, corrected, c->beta, 1, rows, values);
        if (c->e)
            CODE(scale_rows)(c->de, c->de, c->beta, 1, rows, keys);
    } else {
        memcpy(c->dx, corrected, sizeof(CODE_TYPE) * (size_t)(TILE * values));
    }
    // the state
    CODE(multiply)
    (slope, keys, keys, values, so_far[TILE - 1], 1, (struct CODE(factor)){c->q, TILE, true}, c->dy_now, TILE,
     rows);
    if (c->e)
        CODE(multiply)
    (slope, keys, keys, values, 1, 1, (struct CODE(factor)){c->e_beta, TILE, true}, c->r_now, TILE, rows);
}

CODE_TARGET static void CODE(add)(void *sum, const void *x, int64_t count) {
    CODE_TYPE *to = sum;
    const CODE_TYPE *from = x;
    for (int64_t i = 0; i < count; i += LANES)
        AT(to + i) += READ(from + i);
}

static const struct delta_back_code CODE(code) = {
    CODE(logarithms), CODE(decays), CODE(by_beta), CODE(forward), CODE(backward), CODE(add), COLS};

#undef VECTOR
#undef AT
#undef READ
#undef LANES
#undef COLS
#undef INNER
#undef OUTER
#undef CODE
#undef CODE_TYPE
#undef CODE_BYTES
#undef CODE_ROWS
#undef CODE_TARGET
