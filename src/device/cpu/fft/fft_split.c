// fft_split.c - long Fourier transforms as many short ones, in two rounds (the four-step algorithm). Each
// short one stays in the cache, and threads share a round: n = first * second numbers are a matrix, whose
// columns are transformed and multiplied by roots of unity, then its rows are transformed.

#include "device/cpu/fft/fft_plan.h"
#include "device/cpu/rows/operands.h"

enum {
    LANES = 16,
    COMPLEX = 2 * sizeof(float),
    WORK_LEAST = 1 << 15
}; // WORK_LEAST: numbers that are worth another thread

// Number k of column j is multiplied by exp(-2 pi i j k / n). This is the product of the root for the first
// column of j's group (coarse) and that for the distance of j from it (fine).
struct fft_split {
    int64_t n, first, second;
    struct fft_plan *columns, *rows;
    float *coarse; // for the first column of each group of LANES: `first` complex numbers
    float *fine;   // for each k, LANES real parts, then LANES imaginary parts
};

// Returns the first factor of n, such that both factors are multiples of a vector and not far from each
// other; 0 if there is none.
static int64_t first_of(int64_t n) {
    int64_t best = 0;
    for (int64_t a = FFT_WIDTH; a * a <= n; a += FFT_WIDTH)
        if (n % a == 0 && n / a % FFT_WIDTH == 0 && cpu_fft_is_product(a) && cpu_fft_is_product(n / a))
            best = a;
    return best * 8 >= n / (best ? best : 1) ? best : 0;
}

static bool make_tables(struct fft_split *s) {
    int64_t groups = (s->second + LANES - 1) / LANES;
    float *roots = memory_alloc(COMPLEX * (size_t)s->n);
    s->coarse = memory_alloc(COMPLEX * (size_t)(groups * s->first));
    s->fine = memory_alloc(COMPLEX * (size_t)(LANES * s->first));
    if (!roots || !s->coarse || !s->fine || !cpu_fft_roots(s->n, s->n, roots)) {
        memory_free(roots);
        return false;
    }
    for (int64_t g = 0; g < groups; g++)
        for (int64_t k = 0; k < s->first; k++)
            memcpy(s->coarse + 2 * (g * s->first + k), roots + 2 * (g * LANES * k % s->n), COMPLEX);
    for (int64_t k = 0; k < s->first; k++)
        for (int64_t l = 0; l < LANES; l++) {
            s->fine[2 * LANES * k + l] = roots[2 * (l * k % s->n)];
            s->fine[2 * LANES * k + LANES + l] = roots[2 * (l * k % s->n) + 1];
        }
    memory_free(roots);
    return true;
}

bool cpu_fft_can_split(int64_t n) {
    return n >= FFT_SPLIT_LEAST && first_of(n);
}

struct fft_split *cpu_fft_split(int64_t n) {
    struct fft_split *s = memory_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (struct fft_split){.n = n, .first = first_of(n)};
    s->second = n / s->first;
    if ((s->columns = cpu_fft_plan(s->first)) && (s->rows = cpu_fft_plan(s->second)) && make_tables(s))
        return s;
    cpu_fft_split_free(s);
    return NULL;
}

void cpu_fft_split_free(struct fft_split *s) {
    if (s->columns)
        cpu_fft_free(s->columns);
    if (s->rows)
        cpu_fft_free(s->rows);
    memory_free(s->coarse);
    memory_free(s->fine);
    memory_free(s);
}

// Running ---------------------------------------------------------------------------------------------------

struct round {
    const struct fft_split *s;
    const struct fft_line *from, *to;
    bool inverse;
    float scale;
    char *between; // (first, second) complex numbers
    atomic_bool failed;
};

// Allocates lists for LANES lines. For an inverse transform, real and imaginary parts are loaded and stored
// exchanged.
static bool open_lines(struct round *r, struct fft_lines *l) {
    int64_t each = (MAX_OF(r->s->first, r->s->second) + 1) * LANES;
    float *room = cpu_scratch(SCRATCH_WORK, sizeof(float) * 4 * (size_t)each);
    if (!room) {
        atomic_store(&r->failed, true);
        return false;
    }
    *l = (struct fft_lines){room, room + each, room + 2 * each, room + 3 * each, LANES};
    return true;
}

static void turn(const struct fft_split *s, int64_t group, struct fft_lines *l) {
    const float *coarse = s->coarse + 2 * group * s->first, *fine = s->fine;
    for (int64_t k = 0; k < s->first; k++, coarse += 2, fine += 2 * LANES)
        for (int64_t i = 0; i < l->lanes; i += FFT_WIDTH) {
            fft_vector *re = (fft_vector *)(void *)(l->re + k * l->lanes + i);
            fft_vector *im = (fft_vector *)(void *)(l->im + k * l->lanes + i), x = *re, y = *im;
            fft_vector a = *(const fft_vector *)(const void *)(fine + i);
            fft_vector b = *(const fft_vector *)(const void *)(fine + LANES + i);
            fft_vector c = a * coarse[0] - b * coarse[1], d = a * coarse[1] + b * coarse[0];
            *re = x * c - y * d;
            *im = x * d + y * c;
        }
}

static void run_columns(const void *context, int64_t group, int64_t end) {
    struct round *r = (struct round *)(uintptr_t)context;
    const struct fft_split *s = r->s;
    struct fft_lines l;
    char *line[LANES];
    if (!open_lines(r, &l))
        return;
    for (; group < end; group++) {
        int64_t column = group * LANES;
        l.lanes = MIN_OF(LANES, s->second - column);
        for (int64_t i = 0; i < l.lanes; i++)
            line[i] = r->from->data + (column + i) * r->from->step;
        cpu_fft_load(line, l.lanes, s->second * r->from->step, r->from->apart, s->first,
                     r->inverse ? l.im : l.re, r->inverse ? l.re : l.im);
        cpu_fft_run(s->columns, &l);
        turn(s, group, &l);
        for (int64_t i = 0; i < l.lanes; i++)
            line[i] = r->between + (column + i) * COMPLEX;
        cpu_fft_store(line, l.lanes, s->second * COMPLEX, sizeof(float), s->first, l.re, l.im, 1);
    }
}

static void run_rows(const void *context, int64_t group, int64_t end) {
    struct round *r = (struct round *)(uintptr_t)context;
    const struct fft_split *s = r->s;
    struct fft_lines l;
    char *line[LANES];
    if (!open_lines(r, &l))
        return;
    for (; group < end; group++) {
        int64_t row = group * LANES;
        l.lanes = MIN_OF(LANES, s->first - row);
        for (int64_t i = 0; i < l.lanes; i++)
            line[i] = r->between + (row + i) * s->second * COMPLEX;
        cpu_fft_load(line, l.lanes, COMPLEX, sizeof(float), s->second, l.re, l.im);
        cpu_fft_run(s->rows, &l);
        for (int64_t i = 0; i < l.lanes; i++)
            line[i] = r->to->data + (row + i) * r->to->step;
        cpu_fft_store(line, l.lanes, s->first * r->to->step, r->to->apart, s->second,
                      r->inverse ? l.im : l.re, r->inverse ? l.re : l.im, r->scale);
    }
}

bool cpu_fft_split_run(const struct fft_split *s, const struct fft_line *from, const struct fft_line *to,
                       bool inverse, float scale) {
    struct round r = {s, from, to, inverse, scale, cpu_scratch(SCRATCH_RESULT, COMPLEX * (size_t)s->n)};
    if (!r.between)
        return false;
    atomic_init(&r.failed, false);
    cpu_split((s->second + LANES - 1) / LANES, WORK_LEAST / (LANES * s->first) + 1, run_columns, &r);
    cpu_split((s->first + LANES - 1) / LANES, WORK_LEAST / (LANES * s->second) + 1, run_rows, &r);
    return !atomic_load(&r.failed);
}
