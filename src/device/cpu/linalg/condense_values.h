// condense_values.h - two-sided reductions of matrices by reflections, included once per type of elements
// with CONDENSE(name), CONDENSE_TYPE and CONDENSE_NOTHING, a square that is too small to count, defined.
//
// A reflection H = I - tau v v' is stored as LAPACK stores it: v begins with 1, which is not stored, and its
// other elements are stored where the reflection made zeros. The update of the rest of the matrix is deferred
// to the next step, which needs all of it anyway: the matrix is read and written once per step. Strips of
// four columns stay in registers and L1.

typedef CONDENSE_TYPE CONDENSE(lanes)
    __attribute__((vector_size(16), aligned(sizeof(CONDENSE_TYPE)), may_alias));

static CONDENSE(lanes) *CONDENSE(at)(const CONDENSE_TYPE *x) {
    return (CONDENSE(lanes) *)(uintptr_t)x;
}

// Returns the sum of the lanes. Takes an address, because gcc 14 for aarch64 fails on parameters that are
// vectors of another alignment.
static CONDENSE_TYPE CONDENSE(sum)(const CONDENSE(lanes) *v) {
    CONDENSE_TYPE sum = 0;
    for (size_t i = 0; i < sizeof *v / sizeof sum; i++)
        sum += (*v)[i];
    return sum;
}

// Finds the reflection that makes all elements of x (n) 0 but the first, which becomes *value. From x[1] on,
// x becomes v without its 1. Returns tau; 0 if the other elements are 0 or negligible compared to the matrix,
// whose largest element is not far from 1.
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

// A deferred update: left right' + other_left other_right' is to be subtracted from the matrix.
struct CONDENSE(rest) {
    const CONDENSE_TYPE *left, *right, *other_left, *other_right;
};

static void CONDENSE(update_column)(CONDENSE_TYPE *a, const struct CONDENSE(rest) * r, int64_t column,
                                    int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        a[i] -= r->left[i] * r->right[column] + r->other_left[i] * r->other_right[column];
}

// Updates rows [from, to) of columns [j, j + 4), which begin at a, and sets dot[k] to the dot product of
// column j + k and v.
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

// Adds four columns of a, each times an element of x, to y.
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

// Does what update_strip does, for one column. Returns the dot product.
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

// Does what update_strip does, and adds each column, times its element of v, to y.
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

// Does so for one column of a symmetric matrix, from the diagonal to row `to`.
static void CONDENSE(update_short)(CONDENSE_TYPE *column, const struct CONDENSE(rest) * r, int64_t j,
                                   int64_t to, const CONDENSE_TYPE *v, CONDENSE_TYPE *y) {
    CONDENSE_TYPE dot = CONDENSE(update_one)(column, r, j, j, to, v);
    CONDENSE(add_one)(y, column, v[j], j + 1, to);
    y[j] += dot;
}

// Updates the lower triangle from column `from` on, and computes y, the matrix times v. Strips begin at
// columns that are multiples of four.
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

// Reduces a symmetric matrix a (n x n), whose lower triangle becomes the reflections, to a tridiagonal matrix
// with the diagonals d and e. work: 4 n.
static void CONDENSE(tridiagonal)(int64_t n, CONDENSE_TYPE *a, CONDENSE_TYPE *d, CONDENSE_TYPE *e,
                                  CONDENSE_TYPE *tau, CONDENSE_TYPE *work) {
    CONDENSE_TYPE *v = work, *w = work + n, *next_v = work + 2 * n, *next_w = work + 3 * n;
    memset(work, 0, sizeof *work * (size_t)(4 * n));
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

// Updates columns from `from` on, and computes z, v times the matrix, and y, the matrix times v.
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

// Reduces a (n x n) to an upper Hessenberg matrix, which has the same eigenvalues and is 0 below the first
// subdiagonal. work: 6 n.
static void CONDENSE(hessenberg)(int64_t n, CONDENSE_TYPE *a, CONDENSE_TYPE *work) {
    CONDENSE_TYPE *v = work, *z = work + n, *y = work + 2 * n, *next = work + 3 * n;
    memset(work, 0, sizeof *work * (size_t)(6 * n));
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

// Updates columns after `row`, and rows from `row` on; of the rows before it, up to three that share a vector
// with it are processed too, but their updates are 0. Computes z, tau times u times these columns; `top`, the
// first row less z; and y, the rows times `top`.
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

// Finds the reflection of the row `top`, from column `row` + 1 on, and stores it in row `row` of a. `top`
// becomes v, with its 1. y, the rows below times the old `top`, becomes tau times (the rows less u z') times
// v.
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

// Reduces a (m x n, m >= n), which becomes the reflections of columns and rows, to an upper bidiagonal matrix
// with the diagonals d and e. work: 4 (m + n).
static void CONDENSE(bidiagonal)(int64_t m, int64_t n, CONDENSE_TYPE *a, CONDENSE_TYPE *d, CONDENSE_TYPE *e,
                                 CONDENSE_TYPE *tau_column, CONDENSE_TYPE *tau_row, CONDENSE_TYPE *work) {
    CONDENSE_TYPE *u = work, *w = u + m, *next_u = w + m, *next_w = next_u + m;
    CONDENSE_TYPE *z = next_w + m, *v = z + n, *next_z = v + n, *next_v = next_z + n;
    memset(work, 0, sizeof *work * (size_t)(4 * (m + n)));
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
