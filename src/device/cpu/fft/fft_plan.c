// fft_plan.c - plans of Fourier transforms of one length.
//
// A length that is a product of small primes takes one pass per factor, from one list into another, which
// leaves the result in order (Stockham). Any other length is computed as a convolution with a chirp, by
// transforms of a longer length that is such a product (Bluestein). Roots of unity are computed in f64 and
// rounded once.

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "device/cpu/fft/fft_plan.h"

enum { PASSES = 64, FFT_PRIME = 61 }; // the largest prime with a pass: for larger ones, a chirp is as fast

struct fft_pass {
    int radix;
    int64_t groups;       // groups of butterflies, each with its own roots
    const float *twiddle; // radix - 1 complex numbers per group
    const float *root;    // of pass_prime: exp(-2 pi i j k / radix) of two k for each j, then the next k
};

struct fft_plan {
    int64_t n;
    int passes;
    struct fft_pass pass[PASSES];
    float *tables;
    // For lengths that are not products of small primes:
    struct fft_plan *inner; // NULL: n is such a product
    const float *chirp;     // exp(-pi i j^2 / n): n complex numbers
    const float *filter;    // transform of its conjugate on both sides of 0, divided by the length of that
};

int64_t cpu_fft_size(const struct fft_plan *plan) {
    return plan->inner ? plan->inner->n : plan->n;
}

// Roots of unity --------------------------------------------------------------------------------------------

// Each of n roots is the product of a coarse one and a fine one, so that few sines give many roots.
struct roots {
    int64_t n, fine;
    double *table; // coarse ones, then fine ones
};

static void write_root(double *to, int64_t j, int64_t n) {
    double angle = -2 * 3.14159265358979323846 * (double)j / (double)n;
    to[0] = cos(angle);
    to[1] = sin(angle);
}

static bool roots_open(struct roots *r, int64_t n) {
    r->n = n;
    for (r->fine = 1; r->fine * r->fine < n;)
        r->fine *= 2;
    int64_t coarse = (n + r->fine - 1) / r->fine;
    r->table = memory_alloc(sizeof(double) * 2 * (size_t)(coarse + r->fine));
    if (!r->table)
        return false;
    for (int64_t i = 0; i < coarse; i++)
        write_root(r->table + 2 * i, i * r->fine, n);
    for (int64_t i = 0; i < r->fine; i++)
        write_root(r->table + 2 * (coarse + i), i, n);
    return true;
}

static inline void put_root(const struct roots *r, int64_t j, float *to) {
    const double *a = r->table + 2 * (j / r->fine);
    const double *b = r->table + 2 * ((r->n + r->fine - 1) / r->fine + j % r->fine);
    to[0] = (float)(a[0] * b[0] - a[1] * b[1]);
    to[1] = (float)(a[0] * b[1] + a[1] * b[0]);
}

bool cpu_fft_roots(int64_t n, int64_t count, float *out) {
    struct roots r;
    if (!roots_open(&r, n))
        return false;
    for (int64_t j = 0; j < count; j++)
        put_root(&r, j, out + 2 * j);
    memory_free(r.table);
    return true;
}

// Passes ----------------------------------------------------------------------------------------------------

typedef void pass_fn(const struct fft_pass *pass, int64_t run, const float *restrict re,
                     const float *restrict im, float *restrict to_re, float *restrict to_im);

#define NUMBER     float
#define NAME(name) name##_one
#include "device/cpu/fft/fft_passes.h"
#define NUMBER     fft_vector
#define NAME(name) name##_vector
#include "device/cpu/fft/fft_passes.h"

static void swap_lists(struct fft_lines *l) {
    float *re = l->re, *im = l->im;
    l->re = l->spare_re, l->im = l->spare_im;
    l->spare_re = re, l->spare_im = im;
}

// Returns whether the radix has no pass of its own and takes the general one for primes.
static bool is_odd_prime(int radix) {
    return radix > 5 && radix != 8;
}

static void run_passes(const struct fft_plan *plan, struct fft_lines *l) {
    static pass_fn *const one[] = {pass_prime_one, [2] = pass2_one, pass3_one,
                                   pass4_one,      pass5_one,       [8] = pass8_one};
    static pass_fn *const vectors[] = {pass_prime_vector, [2] = pass2_vector, pass3_vector,
                                       pass4_vector,      pass5_vector,       [8] = pass8_vector};
    int64_t run = l->lanes;
    for (int i = 0; i < plan->passes; i++) {
        const struct fft_pass *pass = &plan->pass[i];
        (run % FFT_WIDTH ? one : vectors)[is_odd_prime(pass->radix) ? 0 : pass->radix](
            pass, run, l->re, l->im, l->spare_re, l->spare_im);
        swap_lists(l);
        run *= pass->radix;
    }
}

// Chirps ----------------------------------------------------------------------------------------------------

static void multiply(struct fft_lines *l, const float *by, int64_t count) {
    (l->lanes % FFT_WIDTH ? multiply_one : multiply_vector)(l, by, count);
}

static void run_chirp(const struct fft_plan *plan, struct fft_lines *l) {
    int64_t all = plan->inner->n * l->lanes, given = plan->n * l->lanes;
    multiply(l, plan->chirp, plan->n);
    memset(l->re + given, 0, sizeof(float) * (size_t)(all - given));
    memset(l->im + given, 0, sizeof(float) * (size_t)(all - given));
    run_passes(plan->inner, l);
    multiply(l, plan->filter, plan->inner->n);
    cpu_fft_run_inverse(plan->inner, l);
    multiply(l, plan->chirp, plan->n);
}

void cpu_fft_run(const struct fft_plan *plan, struct fft_lines *lines) {
    (plan->inner ? run_chirp : run_passes)(plan, lines);
}

static void swap_parts(struct fft_lines *l) {
    float *re = l->re, *spare = l->spare_re;
    l->re = l->im, l->im = re;
    l->spare_re = l->spare_im, l->spare_im = spare;
}

// With real and imaginary parts exchanged, the transform becomes the inverse one.
void cpu_fft_run_inverse(const struct fft_plan *plan, struct fft_lines *lines) {
    swap_parts(lines);
    cpu_fft_run(plan, lines);
    swap_parts(lines);
}

// Real lines of even length ---------------------------------------------------------------------------------

void cpu_fft_unpack(struct fft_lines *lines, int64_t half, const float *roots) {
    (lines->lanes % FFT_WIDTH ? unpack_one : unpack_vector)(lines, half, roots);
}

// The first and the last element are real: their imaginary parts are ignored.
void cpu_fft_pack(struct fft_lines *lines, int64_t half, const float *roots) {
    memset(lines->spare_im, 0, sizeof(float) * (size_t)lines->lanes);
    memset(lines->spare_im + half * lines->lanes, 0, sizeof(float) * (size_t)lines->lanes);
    (lines->lanes % FFT_WIDTH ? pack_one : pack_vector)(lines, half, roots);
}

// Pieces of one line are computed four elements at a time, then the remaining ones one by one.
#define LOAD(list)     (*(const fft_vector *)(const void *)(list))
#define BACKWARDS(x)   __builtin_shufflevector(x, x, 3, 2, 1, 0)
#define MIRRORED(list) BACKWARDS(LOAD((list) + n - FFT_WIDTH - i))

void cpu_fft_unpack_piece(int64_t n, const float *roots, const float *const *from, float *re, float *im) {
    const float *ar = from[0], *ai = from[1], *br = from[2], *bi = from[3];
    int64_t i = 0;
    for (; i + FFT_WIDTH <= n; i += FFT_WIDTH) {
        fft_vector w = LOAD(roots + 2 * i), x = LOAD(roots + 2 * i + FFT_WIDTH);
        fft_vector c = __builtin_shufflevector(w, x, 0, 2, 4, 6),
                   s = __builtin_shufflevector(w, x, 1, 3, 5, 7);
        fft_vector b = MIRRORED(br), d = MIRRORED(bi);
        fft_vector er = 0.5f * (LOAD(ar + i) + b), ei = 0.5f * (LOAD(ai + i) - d);
        fft_vector qr = 0.5f * (LOAD(ai + i) + d), qi = 0.5f * (b - LOAD(ar + i));
        *(fft_vector *)(void *)(re + i) = er + (qr * c - qi * s);
        *(fft_vector *)(void *)(im + i) = ei + (qr * s + qi * c);
    }
    for (; i < n; i++) {
        float c = roots[2 * i], s = roots[2 * i + 1], b = br[n - 1 - i], d = bi[n - 1 - i];
        float er = 0.5f * (ar[i] + b), ei = 0.5f * (ai[i] - d), qr = 0.5f * (ai[i] + d),
              qi = 0.5f * (b - ar[i]);
        re[i] = er + (qr * c - qi * s);
        im[i] = ei + (qr * s + qi * c);
    }
}

void cpu_fft_pack_piece(int64_t n, const float *roots, const float *const *from, float *re, float *im) {
    const float *ar = from[0], *ai = from[1], *br = from[2], *bi = from[3];
    int64_t i = 0;
    for (; i + FFT_WIDTH <= n; i += FFT_WIDTH) {
        fft_vector w = LOAD(roots + 2 * i), x = LOAD(roots + 2 * i + FFT_WIDTH);
        fft_vector c = __builtin_shufflevector(w, x, 0, 2, 4, 6),
                   s = -__builtin_shufflevector(w, x, 1, 3, 5, 7);
        fft_vector b = MIRRORED(br), d = MIRRORED(bi), dr = LOAD(ar + i) - b, di = LOAD(ai + i) + d;
        *(fft_vector *)(void *)(re + i) = LOAD(ar + i) + b - (dr * s + di * c);
        *(fft_vector *)(void *)(im + i) = LOAD(ai + i) - d + (dr * c - di * s);
    }
    for (; i < n; i++) {
        float c = roots[2 * i], s = -roots[2 * i + 1], b = br[n - 1 - i], d = bi[n - 1 - i];
        float dr = ar[i] - b, di = ai[i] + d;
        re[i] = ar[i] + b - (dr * s + di * c);
        im[i] = ai[i] - d + (dr * c - di * s);
    }
}

// Plans -----------------------------------------------------------------------------------------------------

// Splits n into radices. Returns false if it is not a product of them. 16 becomes 4 * 4, because a pass of
// radix 2 computes too little.
static bool factor(struct fft_plan *plan) {
    static const int radices[] = {61, 59, 53, 47, 43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 8, 4, 2};
    int64_t rest = plan->n;
    plan->passes = 0;
    for (size_t i = 0; i < COUNT(radices); i++)
        for (; rest % radices[i] == 0 && !(radices[i] == 8 && rest == 16); rest /= radices[i])
            plan->pass[plan->passes++] = (struct fft_pass){.radix = radices[i], .groups = rest / radices[i]};
    return rest == 1;
}

bool cpu_fft_is_product(int64_t n) {
    for (int prime = 2; prime <= FFT_PRIME; prime++)
        while (n % prime == 0)
            n /= prime;
    return n == 1;
}

static int64_t count_roots(const struct fft_pass *pass) {
    int64_t half = pass->radix / 2;
    return is_odd_prime(pass->radix) ? (half + 1) / 2 * 2 * half : 0;
}

static bool make_twiddles(struct fft_plan *plan) {
    int64_t count = 0;
    struct roots roots;
    for (int i = 0; i < plan->passes; i++)
        count += plan->pass[i].groups * (plan->pass[i].radix - 1) + count_roots(&plan->pass[i]);
    float *to = plan->tables = memory_alloc(sizeof(float) * 2 * (size_t)(count + 1));
    if (!to || !roots_open(&roots, plan->n))
        return false;
    for (int i = 0; i < plan->passes; i++) {
        struct fft_pass *pass = &plan->pass[i];
        int64_t apart = plan->n / (pass->groups * pass->radix);
        pass->twiddle = to;
        for (int64_t p = 0; p < pass->groups; p++)
            for (int k = 1; k < pass->radix; k++, to += 2)
                put_root(&roots, p * k * apart, to);
        pass->root = to;
        for (int64_t at = 0; at < count_roots(pass); at++, to += 2) {
            int64_t half = pass->radix / 2, j = at / 2 % half + 1, k = at / 2 / half * 2 + at % 2 + 1;
            put_root(&roots, plan->n / pass->radix * (j * k % pass->radix), to);
        }
    }
    memory_free(roots.table);
    return true;
}

// Returns the least length of at least n that is 1, 3, 5 or 9 times a power of 2.
static int64_t length_for(int64_t n) {
    static const int64_t odd[] = {1, 3, 5, 9};
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < COUNT(odd); i++) {
        int64_t length = odd[i];
        while (length < n)
            length *= 2;
        best = MIN_OF(best, length);
    }
    return best;
}

static bool make_chirp(int64_t n, float *to) {
    struct roots roots;
    if (!roots_open(&roots, 2 * n))
        return false;
    for (int64_t j = 0, square = 0; j < n; square = (square + 2 * j + 1) % (2 * n), j++)
        put_root(&roots, square, to + 2 * j);
    memory_free(roots.table);
    return true;
}

// Makes Bluestein's filter: the transform of the conjugate chirp. The chirp is symmetric about index 0, so it
// occupies both ends of the cyclic array.
static bool make_filter(struct fft_plan *plan, const float *chirp, float *to) {
    int64_t length = plan->inner->n;
    float *room = memory_alloc(sizeof(float) * 4 * (size_t)length);
    if (!room)
        return false;
    memset(room, 0, sizeof(float) * 4 * (size_t)length);
    struct fft_lines l = {room, room + length, room + 2 * length, room + 3 * length, 1};
    for (int64_t j = 0; j < plan->n; j++) {
        int64_t back = j ? length - j : 0;
        l.re[j] = l.re[back] = chirp[2 * j] / (float)length;
        l.im[j] = l.im[back] = -chirp[2 * j + 1] / (float)length;
    }
    run_passes(plan->inner, &l);
    for (int64_t j = 0; j < length; j++) {
        to[2 * j] = l.re[j];
        to[2 * j + 1] = l.im[j];
    }
    memory_free(room);
    return true;
}

static bool make_chirps(struct fft_plan *plan) {
    if (!(plan->inner = cpu_fft_plan(length_for(2 * plan->n - 1))))
        return false;
    float *chirp = plan->tables = memory_alloc(sizeof(float) * 2 * (size_t)(plan->n + plan->inner->n));
    plan->chirp = chirp;
    plan->filter = chirp ? chirp + 2 * plan->n : NULL;
    return chirp && make_chirp(plan->n, chirp) && make_filter(plan, chirp, chirp + 2 * plan->n);
}

struct fft_plan *cpu_fft_plan(int64_t n) {
    struct fft_plan *plan = memory_alloc(sizeof *plan);
    if (!plan)
        return NULL;
    *plan = (struct fft_plan){.n = n};
    if (factor(plan) ? make_twiddles(plan) : make_chirps(plan))
        return plan;
    cpu_fft_free(plan);
    return NULL;
}

void cpu_fft_free(struct fft_plan *plan) {
    if (plan->inner)
        cpu_fft_free(plan->inner);
    if (plan->tables)
        memory_free(plan->tables);
    memory_free(plan);
}
