// condense_values.h - two-sided reductions by reflections, included once a type of elements: CONDENSE(name),
// CONDENSE_TYPE, and CONDENSE_NOTHING, a square that is too small to count.
//
// A reflection H = I - tau v v' is kept as LAPACK keeps it: v begins with 1, what follows lies where it made
// zeros. What a step does to the rest of the matrix is put off to the next one, which needs all of it anyway:
// the matrix is read and written once per step. Strips of four columns stay in registers and L1.

typedef CONDENSE_TYPE CONDENSE(lanes)
    __attribute__((vector_size(16), aligned(sizeof(CONDENSE_TYPE)), may_alias));

static CONDENSE(lanes) *CONDENSE(at)(const CONDENSE_TYPE *x) {
    return (CONDENSE(lanes) *)(uintptr_t)x;
}

// By address: gcc 14 for aarch64 fails on parameters that are vectors of another alignment.
static CONDENSE_TYPE CONDENSE(sum)(const CONDENSE(lanes) *v) {
    CONDENSE_TYPE sum = 0;
    for (size_t i = 0; i < sizeof *v / sizeof sum; i++)
        sum += (*v)[i];
    return sum;
}

// The reflection that leaves of x (n elements) only the first, *value: x becomes v but for its 1, which is
// not stored. Returns tau; 0: the rest is nothing, or nothing beside the matrix, whose largest element is not
// far from 1.
static CONDENSE_TYPE CONDENSE(reflect)(CONDENSE_TYPE *x, int64_t n, CONDENSE_TYPE *value) {
    double first = (double)x[0], square = 0;
    for (int64_t i = 1; i < n; i++)
        square += (double)x[i] * (double)x[i];
    *value = x[0];
    if (square < CONDENSE_NOTHING) {
        memset(x + 1, 0, sizeof *x * (size_t)(n - 1));
        return 0;
    }
    double norm = sqrt(first * first + square), beta = first < 0 ? norm : -norm, scale = 1 / (first - beta);
    for (int64_t i = 1; i < n; i++)
        x[i] = (CONDENSE_TYPE)((double)x[i] * scale);
    *value = (CONDENSE_TYPE)beta;
    return (CONDENSE_TYPE)((beta - first) / beta);
}

// What is put off: the matrix less left right' + other_left other_right'.
struct CONDENSE(rest) {
    const CONDENSE_TYPE *left, *right, *other_left, *other_right;
};

static void CONDENSE(update_column)(CONDENSE_TYPE *a, const struct CONDENSE(rest) * r, int64_t column,
                                    int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        a[i] -= r->left[i] * r->right[column] + r->other_left[i] * r->other_right[column];
}

// Columns [j, j + 4) of a, from row `from` on, are brought up to date; dot[k] is column k times v.
GEMM_FUSED static void CONDENSE(update_strip)(CONDENSE_TYPE *a, int64_t lead, const struct CONDENSE(rest) * r,
                                              int64_t j, int64_t from, int64_t to, const CONDENSE_TYPE *v,
                                              CONDENSE_TYPE *dot) {
    GEMM_CONTRACT
    enum { LANES = 16 / sizeof(CONDENSE_TYPE) };
    const struct CONDENSE(rest) all = *r;
    CONDENSE(lanes) sum[4] = {{0}};
    CONDENSE_TYPE right[4], other[4];
    int64_t i = from;
    for (int k = 0; k < 4; k++) {
        right[k] = all.right[j + k];
        other[k] = all.other_right[j + k];
    }
    for (; i + LANES <= to; i += LANES) {
        CONDENSE(lanes) left = *CONDENSE(at)(all.left + i), other_left = *CONDENSE(at)(all.other_left + i);
        CONDENSE(lanes) x[4], w = *CONDENSE(at)(v + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            x[k] = *CONDENSE(at)(a + k * lead + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            x[k] -= left * right[k];
            x[k] -= other_left * other[k];
            sum[k] += x[k] * w;
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            *CONDENSE(at)(a + k * lead + i) = x[k];
    }
    for (int k = 0; k < 4; k++) {
        dot[k] = CONDENSE(sum)(&sum[k]);
        CONDENSE(update_column)(a + k * lead, r, j + k, i, to);
        for (int64_t at = i; at < to; at++)
            dot[k] += a[k * lead + at] * v[at];
    }
}

// y += four columns of a, each times one of x.
GEMM_FUSED static void CONDENSE(add_strip)(CONDENSE_TYPE *y, const CONDENSE_TYPE *a, int64_t lead,
                                           const CONDENSE_TYPE *x, int64_t from, int64_t to) {
    GEMM_CONTRACT
    enum { LANES = 16 / sizeof(CONDENSE_TYPE) };
    int64_t i = from;
    for (; i + LANES <= to; i += LANES) {
        CONDENSE(lanes) sum = *CONDENSE(at)(y + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            sum += *CONDENSE(at)(a + k * lead + i) * x[k];
        *CONDENSE(at)(y + i) = sum;
    }
    for (; i < to; i++)
        for (int k = 0; k < 4; k++)
            y[i] += a[k * lead + i] * x[k];
}

// The same for one column.
static CONDENSE_TYPE CONDENSE(update_one)(CONDENSE_TYPE *a, const struct CONDENSE(rest) * r, int64_t j,
                                          int64_t from, int64_t to, const CONDENSE_TYPE *v) {
    CONDENSE_TYPE dot = 0;
    CONDENSE(update_column)(a, r, j, from, to);
    for (int64_t i = from; i < to; i++)
        dot += a[i] * v[i];
    return dot;
}

static void CONDENSE(add_one)(CONDENSE_TYPE *y, const CONDENSE_TYPE *a, CONDENSE_TYPE x, int64_t from,
                              int64_t to) {
    for (int64_t i = from; i < to; i++)
        y[i] += a[i] * x;
}

// Symmetric matrices ----------------------------------------------------------------------------------------

// The same of a symmetric matrix, where y also gets each column times its element of v.
GEMM_FUSED static void CONDENSE(update_both)(CONDENSE_TYPE *a, int64_t n, const struct CONDENSE(rest) * r,
                                             int64_t j, int64_t from, const CONDENSE_TYPE *v,
                                             CONDENSE_TYPE *dot, CONDENSE_TYPE *y) {
    GEMM_CONTRACT
    enum { LANES = 16 / sizeof(CONDENSE_TYPE) };
    const struct CONDENSE(rest) all = *r;
    CONDENSE(lanes) sum[4] = {{0}};
    CONDENSE_TYPE right[4], other[4], weight[4];
    int64_t i = from;
    for (int k = 0; k < 4; k++) {
        right[k] = all.right[j + k];
        other[k] = all.other_right[j + k];
        weight[k] = v[j + k];
    }
    for (; i + LANES <= n; i += LANES) {
        CONDENSE(lanes) left = *CONDENSE(at)(all.left + i), other_left = *CONDENSE(at)(all.other_left + i);
        CONDENSE(lanes) x[4], w = *CONDENSE(at)(v + i), more = *CONDENSE(at)(y + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            x[k] = *CONDENSE(at)(a + k * n + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            x[k] -= left * right[k];
            x[k] -= other_left * other[k];
            sum[k] += x[k] * w;
            more += x[k] * weight[k];
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            *CONDENSE(at)(a + k * n + i) = x[k];
        *CONDENSE(at)(y + i) = more;
    }
    for (int k = 0; k < 4; k++) {
        dot[k] = CONDENSE(sum)(&sum[k]);
        CONDENSE(update_column)(a + k * n, r, j + k, i, n);
        for (int64_t at = i; at < n; at++) {
            dot[k] += a[k * n + at] * v[at];
            y[at] += a[k * n + at] * weight[k];
        }
    }
}

// One column of it, from the diagonal to row `to`.
static void CONDENSE(update_short)(CONDENSE_TYPE *column, const struct CONDENSE(rest) * r, int64_t j,
                                   int64_t to, const CONDENSE_TYPE *v, CONDENSE_TYPE *y) {
    CONDENSE_TYPE dot = CONDENSE(update_one)(column, r, j, j, to, v);
    CONDENSE(add_one)(y, column, v[j], j + 1, to);
    y[j] += dot;
}

// The lower triangle from column `from` on is brought up to date; y = the matrix times v. Strips begin where
// rows do.
static void CONDENSE(symmetric_step)(CONDENSE_TYPE *a, int64_t n, int64_t from,
                                     const struct CONDENSE(rest) * r, const CONDENSE_TYPE *v,
                                     CONDENSE_TYPE *y) {
    int64_t j = from, strips = MIN_OF((from + 3) / 4 * 4, n);
    for (int64_t i = from; i < n; i++)
        y[i] = 0;
    for (; j < strips; j++)
        CONDENSE(update_short)(a + j * n, r, j, n, v, y);
    for (; j + 4 <= n; j += 4) {
        CONDENSE_TYPE dot[4];
        for (int64_t k = j; k < j + 4; k++)
            CONDENSE(update_short)(a + k * n, r, k, j + 4, v, y);
        CONDENSE(update_both)(a + j * n, n, r, j, j + 4, v, dot, y);
        for (int k = 0; k < 4; k++)
            y[j + k] += dot[k];
    }
    for (; j < n; j++)
        CONDENSE(update_short)(a + j * n, r, j, n, v, y);
}

// The lower triangle of a (n x n) becomes the reflections; d and e are the diagonals of what they leave.
// room: 4 n.
static void CONDENSE(tridiagonal)(int64_t n, CONDENSE_TYPE *a, CONDENSE_TYPE *d, CONDENSE_TYPE *e,
                                  CONDENSE_TYPE *tau, CONDENSE_TYPE *room) {
    CONDENSE_TYPE *v = room, *w = room + n, *next_v = room + 2 * n, *next_w = room + 3 * n;
    memset(room, 0, sizeof *room * (size_t)(4 * n));
    for (int64_t k = 0; k < n; k++) {
        const struct CONDENSE(rest) r = {v, w, w, v};
        CONDENSE_TYPE *column = a + k * n, half = 0;
        CONDENSE(update_column)(column, &r, k, k, n);
        d[k] = column[k];
        if (k + 1 == n)
            return;
        tau[k] = CONDENSE(reflect)(column + k + 1, n - k - 1, &e[k]);
        for (int64_t i = k + 1; i < n; i++)
            next_v[i] = tau[k] == 0 ? 0 : i == k + 1 ? 1 : column[i];
        CONDENSE(symmetric_step)(a, n, k + 1, &r, next_v, next_w);
        for (int64_t i = k + 1; i < n; i++)
            half += next_w[i] * next_v[i];
        half *= tau[k] * tau[k] / 2;
        for (int64_t i = k + 1; i < n; i++)
            next_w[i] = tau[k] * next_w[i] - half * next_v[i];
        CONDENSE_TYPE *old_v = v, *old_w = w;
        v = next_v, w = next_w, next_v = old_v, next_w = old_w;
    }
}

// Square matrices -------------------------------------------------------------------------------------------

// Columns from `from` on are brought up to date; z = v times the matrix, y = the matrix times v.
static void CONDENSE(square_step)(CONDENSE_TYPE *a, int64_t n, int64_t from, const struct CONDENSE(rest) * r,
                                  const CONDENSE_TYPE *v, CONDENSE_TYPE *z, CONDENSE_TYPE *y) {
    int64_t j = from;
    memset(y, 0, sizeof *y * (size_t)n);
    for (; j + 4 <= n; j += 4)
        CONDENSE(update_both)(a + j * n, n, r, j, 0, v, z + j, y);
    for (; j < n; j++) {
        z[j] = CONDENSE(update_one)(a + j * n, r, j, 0, n, v);
        CONDENSE(add_one)(y, a + j * n, v[j], 0, n);
    }
}

// a (n x n) becomes a matrix of the same eigenvalues that is 0 below the diagonal but for the one beside it.
// room: 6 n.
static void CONDENSE(hessenberg)(int64_t n, CONDENSE_TYPE *a, CONDENSE_TYPE *room) {
    CONDENSE_TYPE *v = room, *z = room + n, *y = room + 2 * n, *next = room + 3 * n;
    memset(room, 0, sizeof *room * (size_t)(6 * n));
    for (int64_t k = 0; k < n; k++) {
        const struct CONDENSE(rest) r = {v, z, y, v};
        CONDENSE_TYPE *column = a + k * n, *next_v = next, *next_z = next + n, *next_y = next + 2 * n, value,
                      sum = 0;
        CONDENSE(update_column)(column, &r, k, 0, n);
        if (k + 2 >= n) {
            for (int64_t j = k + 1; j < n; j++)
                CONDENSE(update_column)(a + j * n, &r, j, 0, n);
            return;
        }
        CONDENSE_TYPE tau = CONDENSE(reflect)(column + k + 1, n - k - 1, &value);
        for (int64_t i = 0; i < n; i++)
            next_v[i] = tau == 0 || i <= k ? 0 : i == k + 1 ? 1 : column[i];
        memset(column + k + 1, 0, sizeof *column * (size_t)(n - k - 1));
        column[k + 1] = value;
        CONDENSE(square_step)(a, n, k + 1, &r, next_v, next_z, next_y);
        for (int64_t i = 0; i < n; i++) {
            next_y[i] *= tau;
            sum += next_v[i] * next_y[i];
        }
        for (int64_t j = k + 1; j < n; j++)
            next_z[j] = tau * (next_z[j] - sum * next_v[j]);
        next = v;
        v = next_v, z = next_z, y = next_y;
    }
}

// Other matrices --------------------------------------------------------------------------------------------

// Columns behind `row` and rows from it on are brought up to date; rows before it that share a vector with it
// have nothing to be updated by. Then z = tau times them times u, and `top`, the first row, less z; y = the
// rows below times that.
static void CONDENSE(general_step)(CONDENSE_TYPE *a, int64_t m, int64_t n, int64_t row,
                                   const struct CONDENSE(rest) * r, CONDENSE_TYPE tau, const CONDENSE_TYPE *u,
                                   CONDENSE_TYPE *z, CONDENSE_TYPE *top, CONDENSE_TYPE *y) {
    int64_t j = row + 1, first = row / 4 * 4;
    for (int64_t i = first; i < m; i++)
        y[i] = 0;
    for (; j + 4 <= n; j += 4) {
        CONDENSE(update_strip)(a + j * m, m, r, j, first, m, u, z + j);
        for (int k = 0; k < 4; k++) {
            z[j + k] *= tau;
            top[j + k] = a[(j + k) * m + row] - z[j + k];
        }
        CONDENSE(add_strip)(y, a + j * m, m, top + j, first, m);
    }
    for (; j < n; j++) {
        z[j] = tau * CONDENSE(update_one)(a + j * m, r, j, row, m, u);
        top[j] = a[j * m + row] - z[j];
        CONDENSE(add_one)(y, a + j * m, top[j], row + 1, m);
    }
}

// The reflection of the row `top`, from column `from` on, into row `row` of a, and v with its 1; y, what the
// rows below, less u z', are times top, becomes tau times what they are times v.
static CONDENSE_TYPE CONDENSE(reflect_row)(CONDENSE_TYPE *a, int64_t m, int64_t n, int64_t row,
                                           const CONDENSE_TYPE *u, const CONDENSE_TYPE *z, CONDENSE_TYPE *top,
                                           CONDENSE_TYPE *y, CONDENSE_TYPE *value) {
    int64_t from = row + 1;
    CONDENSE_TYPE along = 0, first = top[from], tau;
    for (int64_t j = from; j < n; j++)
        along += z[j] * top[j];
    tau = CONDENSE(reflect)(top + from, n - from, value);
    CONDENSE_TYPE scale = tau == 0 ? 0 : tau / (first - *value), beta = *value;
    for (int64_t i = row / 4 * 4; i < from; i++)
        y[i] = 0;
    for (int64_t i = from; i < m; i++)
        y[i] = scale * (y[i] - u[i] * along - beta * (a[from * m + i] - u[i] * z[from]));
    for (int64_t j = from; j < n; j++) {
        a[j * m + row] = j == from ? *value : top[j];
        top[j] = tau == 0 ? 0 : j == from ? 1 : top[j];
    }
    return tau;
}

// a (m x n, m >= n) becomes the reflections of columns and rows; d and e are the diagonals of what they
// leave, which is upper bidiagonal. room: 4 (m + n).
static void CONDENSE(bidiagonal)(int64_t m, int64_t n, CONDENSE_TYPE *a, CONDENSE_TYPE *d, CONDENSE_TYPE *e,
                                 CONDENSE_TYPE *tau_column, CONDENSE_TYPE *tau_row, CONDENSE_TYPE *room) {
    CONDENSE_TYPE *u = room, *w = u + m, *next_u = w + m, *next_w = next_u + m;
    CONDENSE_TYPE *z = next_w + m, *v = z + n, *next_z = v + n, *next_v = next_z + n;
    memset(room, 0, sizeof *room * (size_t)(4 * (m + n)));
    for (int64_t k = 0; k < n; k++) {
        const struct CONDENSE(rest) r = {u, z, w, v};
        CONDENSE_TYPE *column = a + k * m;
        CONDENSE(update_column)(column, &r, k, k, m);
        tau_column[k] = CONDENSE(reflect)(column + k, m - k, &d[k]);
        for (int64_t i = k / 4 * 4; i < m; i++)
            next_u[i] = tau_column[k] == 0 || i < k ? 0 : i == k ? 1 : column[i];
        column[k] = d[k];
        tau_row[k] = 0;
        if (k + 1 == n)
            return;
        CONDENSE(general_step)(a, m, n, k, &r, tau_column[k], next_u, next_z, next_v, next_w);
        tau_row[k] = CONDENSE(reflect_row)(a, m, n, k, next_u, next_z, next_v, next_w, &e[k]);
        next_u[k] = 0; // row k is done
        CONDENSE_TYPE *old[4] = {u, w, z, v};
        u = next_u, w = next_w, z = next_z, v = next_v;
        next_u = old[0], next_w = old[1], next_z = old[2], next_v = old[3];
    }
}

#undef CONDENSE
#undef CONDENSE_TYPE
#undef CONDENSE_NOTHING
