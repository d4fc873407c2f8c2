// francis_values.h - eigenvalues of Hessenberg matrices, included once per type of elements with
// FRANCIS(name), FRANCIS_TYPE, FRANCIS_EPSILON, the distance from 1 to the number after it, and
// FRANCIS_LEAST, the least normal number, defined.
//
// Uses Francis' steps with two shifts: reflections chase a bulge of 3 x 3 down the diagonal, as in LAPACK's
// lahqr. Their effect on columns that the bulge has not reached is deferred until it comes near: then all
// reflections so far are applied to a group of columns at once, in registers. Matrices are column-major.

typedef FRANCIS_TYPE FRANCIS(quad)
    __attribute__((vector_size(4 * sizeof(FRANCIS_TYPE)), aligned(sizeof(FRANCIS_TYPE)), may_alias));

// The reflection I - t1 (1 v2 v3)' (1 v2 v3), with t2 = t1 v2 and t3 = t1 v3.
struct FRANCIS(reflection) {
    FRANCIS_TYPE v2, v3, t1, t2, t3;
};

struct FRANCIS(window) {
    FRANCIS_TYPE *h;
    int64_t n;                              // rows of h
    int64_t low, high;                      // the first and the last row and column of the current block
    int64_t first;                          // the row where the bulge begins
    int64_t ready;                          // all reflections so far were applied to the columns before it
    struct FRANCIS(reflection) *reflection; // from that of row `first` on
};

static FRANCIS_TYPE *FRANCIS(element)(const struct FRANCIS(window) *w, int64_t row, int64_t column) {
    return w->h + column * w->n + row;
}

// Reflections -----------------------------------------------------------------------------------------------

// Finds the reflection that makes all elements of x 0 but the first, which it returns. x has three numbers,
// the last of which may be 0.
static FRANCIS_TYPE FRANCIS(reflect)(const FRANCIS_TYPE *x, struct FRANCIS(reflection) *p) {
    double a = (double)x[0], b = (double)x[1], c = (double)x[2], rest = b * b + c * c;
    *p = (struct FRANCIS(reflection)){0, 0, 0, 0, 0};
    if (rest == 0)
        return x[0];
    double norm = sqrt(a * a + rest), beta = a < 0 ? norm : -norm, t1 = (beta - a) / beta,
           scale = 1 / (a - beta);
    p->v2 = (FRANCIS_TYPE)(b * scale);
    p->v3 = (FRANCIS_TYPE)(c * scale);
    p->t1 = (FRANCIS_TYPE)t1;
    p->t2 = p->t1 * p->v2;
    p->t3 = p->t1 * p->v3;
    return (FRANCIS_TYPE)beta;
}

// Applies a reflection to `count` rows, 3 or at the end 2, from `row` on, in columns [from, to).
static void FRANCIS(reflect_rows)(const struct FRANCIS(window) * w, const struct FRANCIS(reflection) * p,
                                  int64_t row, int count, int64_t from, int64_t to) {
    for (; from < to; from++) {
        FRANCIS_TYPE *x = FRANCIS(element)(w, row, from), sum = x[0] + p->v2 * x[1];
        if (count == 3)
            sum += p->v3 * x[2];
        x[0] -= sum * p->t1;
        x[1] -= sum * p->t2;
        if (count == 3)
            x[2] -= sum * p->t3;
    }
}

// Applies a reflection to `count` columns from `column` on, in rows [from, to).
GEMM_FUSED static void FRANCIS(reflect_columns)(const struct FRANCIS(window) * w,
                                                const struct FRANCIS(reflection) * of, int64_t column,
                                                int count, int64_t from, int64_t to) {
    GEMM_CONTRACT
    const struct FRANCIS(reflection) p = *of;
    FRANCIS_TYPE *a = FRANCIS(element)(w, 0, column), *b = a + w->n, *c = count == 3 ? b + w->n : b;
    for (; count == 3 && from + 4 <= to; from += 4) {
        FRANCIS(quad) *x = (FRANCIS(quad) *)(void *)(a + from), *y = (FRANCIS(quad) *)(void *)(b + from);
        FRANCIS(quad) *z = (FRANCIS(quad) *)(void *)(c + from), sum = *x + p.v2 * *y + p.v3 * *z;
        *x -= sum * p.t1;
        *y -= sum * p.t2;
        *z -= sum * p.t3;
    }
    for (; from < to; from++) {
        FRANCIS_TYPE sum = a[from] + p.v2 * b[from];
        if (count == 3)
            sum += p.v3 * c[from];
        a[from] -= sum * p.t1;
        b[from] -= sum * p.t2;
        if (count == 3)
            c[from] -= sum * p.t3;
    }
}

// Transposes a 4 x 4 square.
static inline void FRANCIS(transpose)(FRANCIS(quad) *x) {
    FRANCIS(quad)
    a = __builtin_shufflevector(x[0], x[2], 0, 4, 1, 5),
    b = __builtin_shufflevector(x[0], x[2], 2, 6, 3, 7);
    FRANCIS(quad)
    c = __builtin_shufflevector(x[1], x[3], 0, 4, 1, 5),
    d = __builtin_shufflevector(x[1], x[3], 2, 6, 3, 7);
    x[0] = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    x[1] = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    x[2] = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    x[3] = __builtin_shufflevector(b, d, 2, 6, 3, 7);
}

// GROUPS: groups of four columns that are updated at once. While one waits for results, the others compute.
enum { FRANCIS(GROUPS) = 3, FRANCIS(COLUMNS) = 4 * FRANCIS(GROUPS) };

// Applies `steps` reflections, the first of which is that of row `row`, to COLUMNS columns from `column` on.
GEMM_FUSED static void FRANCIS(catch_up)(const struct FRANCIS(window) * w, int64_t column, int64_t row,
                                         int64_t steps) {
    GEMM_CONTRACT
    enum { GROUPS = FRANCIS(GROUPS) };
    const struct FRANCIS(reflection) *p = w->reflection;
    FRANCIS_TYPE *h = FRANCIS(element)(w, row, column);
    const int64_t n = w->n;
    FRANCIS(quad) first[GROUPS], second[GROUPS];
    for (int g = 0; g < GROUPS; g++)
        for (int k = 0; k < 4; k++) {
            first[g][k] = h[(4 * g + k) * n];
            second[g][k] = h[(4 * g + k) * n + 1];
        }
    int64_t i = 0;
    for (; i + 4 <= steps; i += 4) {
        FRANCIS(quad) x[GROUPS][4];
#pragma GCC unroll 4
        for (int g = 0; g < GROUPS; g++) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                x[g][k] = *(const FRANCIS(quad) *)(const void *)(h + (4 * g + k) * n + i + 2);
            FRANCIS(transpose)(x[g]);
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const struct FRANCIS(reflection) q = p[i + k];
#pragma GCC unroll 4
            for (int g = 0; g < GROUPS; g++) {
                FRANCIS(quad) third = x[g][k], sum = first[g] + q.v3 * third + q.v2 * second[g];
                x[g][k] = first[g] - sum * q.t1;
                first[g] = second[g] - sum * q.t2;
                second[g] = third - sum * q.t3;
            }
        }
#pragma GCC unroll 4
        for (int g = 0; g < GROUPS; g++) {
            FRANCIS(transpose)(x[g]);
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                *(FRANCIS(quad) *)(void *)(h + (4 * g + k) * n + i) = x[g][k];
        }
    }
    for (int g = 0; g < GROUPS; g++)
        for (int k = 0; k < 4; k++) {
            h[(4 * g + k) * n + i] = first[g][k];
            h[(4 * g + k) * n + i + 1] = second[g][k];
        }
    for (; i < steps; i++)
        FRANCIS(reflect_rows)(w, &p[i], row + i, 3, column, column + 4 * GROUPS);
}

// Applies the reflections of rows [first, row] to columns up to `column` that have not had them.
static void FRANCIS(bring_near)(struct FRANCIS(window) *w, int64_t column, int64_t row) {
    while (w->ready <= column && w->ready <= w->high) {
        int64_t steps = row - w->first + 1, columns = w->high - w->ready + 1;
        if (columns >= FRANCIS(COLUMNS)) {
            FRANCIS(catch_up)(w, w->ready, w->first, steps);
            w->ready += FRANCIS(COLUMNS);
            continue;
        }
        for (int64_t i = 0; i < steps; i++)
            FRANCIS(reflect_rows)(w, &w->reflection[i], w->first + i, 3, w->ready, w->high + 1);
        w->ready = w->high + 1;
    }
}

// Chases a bulge that begins with x from the first row to the last.
static void FRANCIS(chase)(struct FRANCIS(window) *w, const FRANCIS_TYPE *x) {
    w->ready = w->first;
    for (int64_t k = w->first; k < w->high; k++) {
        int count = k + 2 <= w->high ? 3 : 2;
        struct FRANCIS(reflection) *p = &w->reflection[k - w->first];
        if (k > w->first) {
            FRANCIS_TYPE *before = FRANCIS(element)(w, k, k - 1);
            before[0] =
                FRANCIS(reflect)((FRANCIS_TYPE[]){before[0], before[1], count == 3 ? before[2] : 0}, p);
            before[1] = 0;
            if (count == 3)
                before[2] = 0;
        } else {
            FRANCIS(reflect)(x, p);
            if (w->first > w->low)
                *FRANCIS(element)(w, k, k - 1) *= 1 - p->t1;
        }
        FRANCIS(reflect_rows)(w, p, k, count, k, w->ready);
        FRANCIS(bring_near)(w, k + 2, k);
        int64_t last = k + 3 < w->high ? k + 3 : w->high;
        FRANCIS(reflect_columns)(w, p, k, count, w->low, last + 1);
    }
}

// Shifts ----------------------------------------------------------------------------------------------------

// Computes the eigenvalues of the matrix (a b; c d).
static void FRANCIS(pair)(double a, double b, double c, double d, double *re, double *im) {
    double scale = fmax(fmax(fabs(a), fabs(b)), fmax(fabs(c), fabs(d)));
    re[0] = re[1] = im[0] = im[1] = 0;
    if (scale == 0)
        return;
    a /= scale, b /= scale, c /= scale, d /= scale;
    double middle = (a + d) / 2, half = (a - d) / 2, square = half * half + b * c;
    if (square < 0) {
        re[0] = re[1] = middle * scale;
        im[0] = sqrt(-square) * scale;
        im[1] = -im[0];
        return;
    }
    // half and root have the same sign, so their sum is accurate. The second eigenvalue follows from the
    // product of both, each less d, which is -b c.
    double root = half < 0 ? -sqrt(square) : sqrt(square);
    re[0] = (d + half + root) * scale;
    re[1] = (half + root != 0 ? d - b * c / (half + root) : d) * scale;
}

// Returns whether subdiagonal element k is negligible: in itself, or compared to its neighbours by the
// criterion of Ahues and Tisseur.
static bool FRANCIS(is_nothing)(const struct FRANCIS(window) *w, int64_t k, int64_t last) {
    const double least = (double)FRANCIS_LEAST * (double)(last + 1) / FRANCIS_EPSILON;
    double sub = fabs((double)*FRANCIS(element)(w, k, k - 1));
    if (sub <= least)
        return true;
    double before = (double)*FRANCIS(element)(w, k - 1, k - 1), here = (double)*FRANCIS(element)(w, k, k);
    double beside = fabs(before) + fabs(here);
    if (beside == 0) {
        beside += k >= 2 ? fabs((double)*FRANCIS(element)(w, k - 1, k - 2)) : 0;
        beside += k < last ? fabs((double)*FRANCIS(element)(w, k + 1, k)) : 0;
    }
    if (sub > FRANCIS_EPSILON * beside)
        return false;
    double above = fabs((double)*FRANCIS(element)(w, k - 1, k)), apart = fabs(before - here);
    double ab = fmax(sub, above), ba = fmin(sub, above), aa = fmax(fabs(here), apart),
           bb = fmin(fabs(here), apart);
    return ba * (ab / (aa + ab)) <= fmax(least, FRANCIS_EPSILON * (bb * (aa / (aa + ab))));
}

// Chooses both shifts: the eigenvalues of the last two rows, or exceptional shifts after every ten steps
// without success.
static void FRANCIS(choose)(const struct FRANCIS(window) *w, int steps, double *re, double *im) {
    int64_t at = w->high - 1;
    if (steps % 10 == 0 && steps) {
        bool top = steps % 20 == 10;
        int64_t k = top ? w->low : w->high;
        double s = fabs((double)*FRANCIS(element)(w, top ? k + 1 : k, top ? k : k - 1));
        double d = 0.75 * s + (double)*FRANCIS(element)(w, k, k);
        FRANCIS(pair)(d, -0.4375 * s, s, d, re, im);
        return;
    }
    FRANCIS(pair)
    ((double)*FRANCIS(element)(w, at, at), (double)*FRANCIS(element)(w, at, at + 1),
     (double)*FRANCIS(element)(w, at + 1, at), (double)*FRANCIS(element)(w, at + 1, at + 1), re, im);
    if (im[0] == 0) { // both are the one that is nearer to the last element
        double last = (double)*FRANCIS(element)(w, at + 1, at + 1);
        re[0] = re[1] = fabs(re[0] - last) <= fabs(re[1] - last) ? re[0] : re[1];
    }
}

// Finds w->first, the row where the bulge begins, and x, with which it begins: the first column of (H - s)(H
// - t) from that row on. If two consecutive subdiagonal elements are small, the bulge begins below them.
static void FRANCIS(start)(struct FRANCIS(window) *w, const double *re, const double *im, FRANCIS_TYPE *x) {
    for (w->first = w->high - 2;; w->first--) {
        int64_t k = w->first;
        double a = (double)*FRANCIS(element)(w, k, k), b = (double)*FRANCIS(element)(w, k, k + 1);
        double c = (double)*FRANCIS(element)(w, k + 1, k), d = (double)*FRANCIS(element)(w, k + 1, k + 1);
        double e = (double)*FRANCIS(element)(w, k + 2, k + 1);
        double s = fabs(a - re[1]) + fabs(im[1]) + fabs(c);
        double y[3] = {0};
        if (s > 0) {
            y[0] = c / s * b + (a - re[0]) * ((a - re[1]) / s) - im[0] * (im[1] / s);
            y[1] = c / s * (a + d - re[0] - re[1]);
            y[2] = c / s * e;
        }
        double size = fabs(y[0]) + fabs(y[1]) + fabs(y[2]);
        for (int i = 0; i < 3; i++)
            x[i] = (FRANCIS_TYPE)(size > 0 ? y[i] / size : 0);
        if (k == w->low)
            return;
        double before = fabs((double)*FRANCIS(element)(w, k - 1, k - 1)),
               sub = fabs((double)*FRANCIS(element)(w, k, k - 1));
        if (size > 0 &&
            sub * (fabs(y[1]) + fabs(y[2])) <= FRANCIS_EPSILON * fabs(y[0]) * (before + fabs(a) + fabs(d)))
            return;
    }
}

// Computes all eigenvalues. Destroys h; work: n reflections. Returns how many were not found: those are the
// first ones.
static int64_t FRANCIS(eigenvalues)(int64_t n, FRANCIS_TYPE *h, FRANCIS_TYPE *re, FRANCIS_TYPE *im,
                                    struct FRANCIS(reflection) *work) {
    struct FRANCIS(window) w = {.h = h, .n = n, .high = n - 1, .reflection = work};
    const int64_t most = 30 * (n > 10 ? n : 10);
    int64_t all = 0;
    for (int steps = 0; w.high >= 0; steps++, all++) {
        for (w.low = w.high; w.low > 0 && !FRANCIS(is_nothing)(&w, w.low, w.high); w.low--)
            ;
        int64_t found = w.high - w.low + 1;
        if (found > 2) {
            double shift_re[2], shift_im[2];
            FRANCIS_TYPE x[3];
            if (all >= most)
                return w.high + 1;
            FRANCIS(choose)(&w, steps, shift_re, shift_im);
            FRANCIS(start)(&w, shift_re, shift_im, x);
            FRANCIS(chase)(&w, x);
            continue;
        }
        double value_re[2] = {(double)*FRANCIS(element)(&w, w.high, w.high)}, value_im[2] = {0};
        if (found == 2)
            FRANCIS(pair)
            ((double)*FRANCIS(element)(&w, w.low, w.low), (double)*FRANCIS(element)(&w, w.low, w.high),
             (double)*FRANCIS(element)(&w, w.high, w.low), (double)*FRANCIS(element)(&w, w.high, w.high),
             value_re, value_im);
        for (int i = 0; i < found; i++) {
            re[w.low + i] = (FRANCIS_TYPE)value_re[i];
            im[w.low + i] = (FRANCIS_TYPE)value_im[i];
        }
        w.high = w.low - 1;
        steps = -1;
    }
    return 0;
}

#undef FRANCIS
#undef FRANCIS_TYPE
#undef FRANCIS_EPSILON
#undef FRANCIS_LEAST
