// blocked.c - factorisations and inverses of matrices by recursive halving, which turns most of the work into
// matrix products.
//
// Matrices are column-major, of f32 or f64. Small ones are left to LAPACK. Products are ours, which are
// faster than those of the usual LAPACK libraries and run on the threads of the pool.

#include "device/cpu/gemm/product.h"
#include "device/cpu/linalg/linalg.h"
#include "device/cpu/rows/operands.h"

enum {
    TRIANGLE = 48,         // the most columns of a triangle that LAPACK inverts, or solves with
    STRIP = 48,            // columns or rows of a product with a triangle
    PANEL = 32,            // the most columns that LAPACK factors
    FLOPS_LEAST = 1 << 18, // operations that are worth a second thread
};

typedef void trtri_fn(const char *uplo, const char *diag, const int *n, void *a, const int *lda, int *info,
                      size_t, size_t);
typedef void potrf_fn(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
typedef void getrf_fn(const int *m, const int *n, void *a, const int *lda, int *pivot, int *info);
typedef void trsm_fn(const char *side, const char *uplo, const char *trans, const char *diag, const int *m,
                     const int *n, const void *alpha, const void *a, const int *lda, void *b, const int *ldb,
                     size_t, size_t, size_t, size_t);
typedef void laswp_fn(const int *n, void *a, const int *lda, const int *first, const int *last,
                      const int *pivot, const int *step);

#define FUNCTION(type, name, f, which) \
    type *name;                        \
    *(void **)&name = (f)->function[which]

static char *at(const struct factor *f, char *a, int lead, int row, int col) {
    return a + ((int64_t)col * lead + row) * f->item;
}

// Returns about half of n, rounded up to a multiple of `unit`, the size of the blocks that LAPACK computes.
static int half_of(int n, int unit) {
    return (n / 2 + unit - 1) / unit * unit;
}

// Products --------------------------------------------------------------------------------------------------

// A part of a matrix, with the distances between its rows and between its columns in elements, one of which
// is 1.
struct block {
    char *data;
    int64_t row, col;
};

static struct block block_at(const struct factor *f, char *a, int lead, int row, int col) {
    return (struct block){at(f, a, lead, row, col), 1, lead};
}

static struct block transposed(struct block b) {
    return (struct block){b.data, b.col, b.row};
}

static void note_failure(const struct factor *f) {
    atomic_store(&((struct factor *)(uintptr_t)f)->info, CPU_FACTOR_NO_MEMORY);
}

// Computes c = a b, or c += a b if `add`, where c is m x n and a is m x k. The columns of c are contiguous.
// gemm is row-major, so it is given the transposed product: the factors exchanged, each transposed.
static void multiply(const struct factor *f, int64_t m, int64_t n, int64_t k, struct block a, struct block b,
                     struct block c, bool add) {
    struct gemm g = {.m = n,
                     .n = m,
                     .k = k,
                     .a = b.data,
                     .a_row = b.col,
                     .a_col = b.row,
                     .b = a.data,
                     .b_row = a.col,
                     .b_col = a.row,
                     .c = c.data,
                     .c_row = c.col,
                     .c_col = 1,
                     .add = add};
    if (!cpu_blas()->multiply(f->dtype, &g))
        note_failure(f);
}

static void negate(const struct factor *f, const char *from, char *to, int64_t count) {
    cpu_call_row(cpu_level()->rows->op[TILE_NEG][f->dtype][0], to, from, NULL, NULL, count);
}

// Computes c -= a b on this thread.
static void subtract(const struct factor *f, int64_t m, int64_t n, int64_t k, struct block a, struct block b,
                     struct block c) {
    char *minus = cpu_scratch(SCRATCH_WORK, (size_t)(n * k * f->item));
    int64_t line = b.row == 1 ? k : n, lines = b.row == 1 ? n : k, apart = b.row == 1 ? b.col : b.row;
    if (!minus) {
        note_failure(f);
        return;
    }
    for (int64_t i = 0; i < lines; i++)
        negate(f, b.data + i * apart * f->item, minus + i * line * f->item, line);
    struct block negative = {minus, b.row == 1 ? 1 : line, b.row == 1 ? line : 1};
    multiply(f, m, n, k, a, negative, c, true);
}

// Returns how many pieces are worth a thread when each takes `each` multiplications.
static int64_t grain_of(double each) {
    return 1 + (int64_t)(FLOPS_LEAST / (2 * each + 1));
}

// Triangles -------------------------------------------------------------------------------------------------

// The operands of corner = -left * corner * right, in which corner is m x k, and left and right are
// triangles. Products by strips of STRIP columns, then of rows, leave out the zeros of the triangles.
struct corner {
    const struct factor *f;
    bool upper;
    int64_t m, k;
    struct block left, right, corner, workspace;
};

static struct block moved(const struct factor *f, struct block b, int64_t row, int64_t col) {
    b.data += (row * b.row + col * b.col) * f->item;
    return b;
}

static void right_strips(const void *context, int64_t from, int64_t to) {
    const struct corner *c = context;
    for (; from < to; from++) {
        int64_t col = from * STRIP, n = MIN_OF(STRIP, c->k - col), first = c->upper ? 0 : col;
        int64_t last = c->upper ? col + n : c->k;
        struct block out = moved(c->f, c->workspace, 0, col);
        multiply(c->f, c->m, n, last - first, moved(c->f, c->corner, 0, first),
                 moved(c->f, c->right, first, col), out, false);
        negate(c->f, out.data, out.data, c->m * n);
    }
}

static void left_strips(const void *context, int64_t from, int64_t to) {
    const struct corner *c = context;
    for (; from < to; from++) {
        int64_t row = from * STRIP, m = MIN_OF(STRIP, c->m - row), first = c->upper ? row : 0;
        int64_t last = c->upper ? c->m : row + m;
        multiply(c->f, m, c->k, last - first, moved(c->f, c->left, row, first),
                 moved(c->f, c->workspace, first, 0), moved(c->f, c->corner, row, 0), false);
    }
}

static void invert_corner(const struct corner *c) {
    cpu_split((c->k + STRIP - 1) / STRIP, grain_of((double)STRIP * (double)c->m * (double)c->k / 2),
              right_strips, c);
    cpu_split((c->m + STRIP - 1) / STRIP, grain_of((double)STRIP * (double)c->m * (double)c->k / 2),
              left_strips, c);
}

int cpu_invert_triangle(const struct factor *f, bool upper, int n, char *a, int lead, char *workspace) {
    int info = 0;
    if (n <= TRIANGLE) {
        FUNCTION(trtri_fn, trtri, f, FACTOR_TRTRI);
        trtri(upper ? "U" : "L", "N", &n, a, &lead, &info, 1, 1);
        return info;
    }
    int n1 = half_of(n, TRIANGLE), n2 = n - n1, m = upper ? n1 : n2;
    info = cpu_invert_triangle(f, upper, n1, a, lead, workspace);
    if (!info && (info = cpu_invert_triangle(f, upper, n2, at(f, a, lead, n1, n1), lead, workspace)))
        info += n1;
    struct block first = {a, 1, lead}, second = block_at(f, a, lead, n1, n1);
    struct corner c = {.f = f,
                       .upper = upper,
                       .m = m,
                       .k = n - m,
                       .left = upper ? first : second,
                       .right = upper ? second : first,
                       .corner = upper ? block_at(f, a, lead, 0, n1) : block_at(f, a, lead, n1, 0),
                       .workspace = {workspace, 1, m}};
    if (!info)
        invert_corner(&c);
    return info;
}

static const void *one_of(const struct factor *f) {
    static const float one = 1;
    static const double one_twice = 1;
    return f->dtype == ZL_FLOAT64 ? (const void *)&one_twice : &one;
}

// Computes x = l^-1 x, where x is n x cols and l lower triangular with a unit diagonal.
static void solve_left(const struct factor *f, int n, int cols, char *l, char *x, int lead) {
    if (n <= TRIANGLE) {
        FUNCTION(trsm_fn, trsm, f, FACTOR_TRSM);
        trsm("L", "L", "N", "U", &n, &cols, one_of(f), l, &lead, x, &lead, 1, 1, 1, 1);
        return;
    }
    int n1 = half_of(n, TRIANGLE), n2 = n - n1;
    solve_left(f, n1, cols, l, x, lead);
    subtract(f, n2, cols, n1, block_at(f, l, lead, n1, 0), block_at(f, x, lead, 0, 0),
             block_at(f, x, lead, n1, 0));
    solve_left(f, n2, cols, at(f, l, lead, n1, n1), at(f, x, lead, n1, 0), lead);
}

// Computes x = x l^-1, where x is rows x n and l lower triangular with a unit diagonal.
static void solve_right(const struct factor *f, int rows, int n, char *l, int l_lead, char *x, int lead) {
    if (n <= TRIANGLE) {
        FUNCTION(trsm_fn, trsm, f, FACTOR_TRSM);
        trsm("R", "L", "N", "U", &rows, &n, one_of(f), l, &l_lead, x, &lead, 1, 1, 1, 1);
        return;
    }
    int n1 = half_of(n, TRIANGLE), n2 = n - n1;
    solve_right(f, rows, n2, at(f, l, l_lead, n1, n1), l_lead, at(f, x, lead, 0, n1), lead);
    subtract(f, rows, n1, n2, block_at(f, x, lead, 0, n1), block_at(f, l, l_lead, n1, 0),
             block_at(f, x, lead, 0, 0));
    solve_right(f, rows, n1, l, l_lead, x, lead);
}

// Computes x = x l^-T, where x is rows x n and l lower triangular.
static void solve_right_transposed(const struct factor *f, int rows, int n, char *l, char *x, int lead) {
    if (n <= TRIANGLE) {
        FUNCTION(trsm_fn, trsm, f, FACTOR_TRSM);
        trsm("R", "L", "T", "N", &rows, &n, one_of(f), l, &lead, x, &lead, 1, 1, 1, 1);
        return;
    }
    int n1 = half_of(n, TRIANGLE), n2 = n - n1;
    solve_right_transposed(f, rows, n1, l, x, lead);
    subtract(f, rows, n2, n1, block_at(f, x, lead, 0, 0), transposed(block_at(f, l, lead, n1, 0)),
             block_at(f, x, lead, 0, n1));
    solve_right_transposed(f, rows, n2, at(f, l, lead, n1, n1), at(f, x, lead, 0, n1), lead);
}

// Cholesky --------------------------------------------------------------------------------------------------

// The factored first n1 columns, by which the remaining n - n1 are updated.
struct cholesky_panel {
    const struct factor *f;
    int n, n1, lead;
    char *a;
};

static void solve_cholesky_panel(const void *context, int64_t from, int64_t to) {
    const struct cholesky_panel *p = context;
    solve_right_transposed(p->f, (int)(to - from), p->n1, p->a, at(p->f, p->a, p->lead, p->n1 + (int)from, 0),
                           p->lead);
}

// Updates strips of the remaining columns, from the diagonal down.
static void update_after_panel(const void *context, int64_t from, int64_t to) {
    const struct cholesky_panel *p = context;
    for (; from < to; from++) {
        int col = p->n1 + (int)from * STRIP, cols = MIN_OF(STRIP, p->n - col);
        struct block left = block_at(p->f, p->a, p->lead, col, 0);
        subtract(p->f, p->n - col, cols, p->n1, left, transposed(left),
                 block_at(p->f, p->a, p->lead, col, col));
    }
}

int cpu_blocked_cholesky(const struct factor *f, int n, char *a, int lead) {
    int info = 0;
    if (n <= 2 * TRIANGLE) {
        FUNCTION(potrf_fn, potrf, f, FACTOR_POTRF);
        potrf("L", &n, a, &lead, &info, 1);
        return info;
    }
    struct cholesky_panel p = {f, n, half_of(n, TRIANGLE), lead, a};
    int n2 = n - p.n1;
    if ((info = cpu_blocked_cholesky(f, p.n1, a, lead)))
        return info;
    cpu_split(n2, MAX_OF(TRIANGLE, grain_of((double)p.n1 * p.n1 / 2)), solve_cholesky_panel, &p);
    cpu_split((n2 + STRIP - 1) / STRIP, grain_of((double)STRIP * p.n1 * n2 / 2), update_after_panel, &p);
    info = cpu_blocked_cholesky(f, n2, at(f, a, lead, p.n1, p.n1), lead);
    return info ? info + p.n1 : 0;
}

// LU --------------------------------------------------------------------------------------------------------

// A factored panel of n1 columns, by which the columns to its right are updated.
struct panel {
    const struct factor *f;
    int m, n1, lead;
    char *a;
};

static void apply_panel(const void *context, int64_t from, int64_t to) {
    const struct panel *p = context;
    char *top = at(p->f, p->a, p->lead, 0, p->n1 + (int)from);
    int cols = (int)(to - from);
    solve_left(p->f, p->n1, cols, p->a, top, p->lead);
    if (p->m > p->n1)
        subtract(p->f, p->m - p->n1, cols, p->n1, block_at(p->f, p->a, p->lead, p->n1, 0),
                 block_at(p->f, top, p->lead, 0, 0), block_at(p->f, top, p->lead, p->n1, 0));
}

int cpu_blocked_lu(const struct factor *f, int m, int n, char *a, int lead, int *pivot) {
    int least = MIN_OF(m, n), info = 0, one = 1;
    if (least <= PANEL) {
        FUNCTION(getrf_fn, getrf, f, FACTOR_GETRF);
        getrf(&m, &n, a, &lead, pivot, &info);
        return info;
    }
    FUNCTION(laswp_fn, laswp, f, FACTOR_LASWP);
    int n1 = half_of(least, PANEL), n2 = n - n1, next = n1 + 1;
    char *right = at(f, a, lead, 0, n1);
    info = cpu_blocked_lu(f, m, n1, a, lead, pivot);
    laswp(&n2, right, &lead, &one, &n1, pivot, &one);
    struct panel p = {f, m, n1, lead, a};
    cpu_split(n2, grain_of((double)m * n1), apply_panel, &p);
    int more = cpu_blocked_lu(f, m - n1, n2, at(f, right, lead, n1, 0), lead, pivot + n1);
    for (int i = n1; i < least; i++)
        pivot[i] += n1;
    laswp(&n1, a, &lead, &next, &least, pivot, &one);
    return info ? info : more ? more + n1 : 0;
}

// Inverse ---------------------------------------------------------------------------------------------------

struct rows_of {
    const struct factor *f;
    char *l, *x;
};

static void solve_rows(const void *context, int64_t from, int64_t to) {
    const struct rows_of *r = context;
    int n = r->f->n;
    solve_right(r->f, (int)(to - from), n, r->l, n, at(r->f, r->x, n, (int)from, 0), n);
}

// Copies the upper triangle of a to x, with zeros below it.
static void copy_upper(const struct factor *f, char *a, char *x) {
    for (int j = 0; j < f->n; j++) {
        size_t above = (size_t)(j + 1) * (size_t)f->item;
        memcpy(at(f, x, f->n, 0, j), at(f, a, f->n, 0, j), above);
        memset(at(f, x, f->n, 0, j) + above, 0, (size_t)f->n * (size_t)f->item - above);
    }
}

static void swap_columns(const struct factor *f, char *x, const int *pivot, char *workspace) {
    size_t bytes = (size_t)f->n * (size_t)f->item;
    for (int i = f->n - 1; i >= 0; i--) {
        char *first = at(f, x, f->n, 0, i), *second = at(f, x, f->n, 0, pivot[i] - 1);
        if (first == second)
            continue;
        memcpy(workspace, first, bytes);
        memcpy(first, second, bytes);
        memcpy(second, workspace, bytes);
    }
}

// a = p l u, so its inverse is u^-1 l^-1 p^-1.
int cpu_blocked_inverse(const struct factor *f, char *a, char *x, char *workspace, int *pivot) {
    int info = cpu_blocked_lu(f, f->n, f->n, a, f->n, pivot);
    if (info)
        return info;
    copy_upper(f, a, x);
    if ((info = cpu_invert_triangle(f, true, f->n, x, f->n, workspace)))
        return info;
    struct rows_of r = {f, a, x};
    cpu_split(f->n, MAX_OF(TRIANGLE, grain_of((double)f->n * f->n / 2)), solve_rows, &r);
    swap_columns(f, x, pivot, workspace);
    return 0;
}
