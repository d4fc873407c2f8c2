// cufft.c - a libcufft.so.12 for tests: transforms of contiguous rows, computed on the host at once.
//
// It is as strict as allowed: results are not scaled, inputs of transforms to real numbers are overwritten,
// and elements that are real by definition have to be real.

#include "fake.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

enum { COMPLEX_TO_COMPLEX = 0x29, REAL_TO_COMPLEX = 0x2a, COMPLEX_TO_REAL = 0x2c, PLANS = 512, WORK = 256 };
enum { INVALID_PLAN = 1, INVALID_VALUE = 4, NO_WORKSPACE = 14 };

static struct plan {
    long long n, batch;
    int type;
    void *stream, *work;
} plans[PLANS];
static int made;

int cufftCreate(int *out) {
    *out = made++ % PLANS;
    plans[*out] = (struct plan){0};
    return 0;
}

int cufftDestroy(int plan) {
    plans[plan] = (struct plan){0};
    return 0;
}

int cufftSetAutoAllocation(int plan, int automatic) {
    (void)plan;
    return automatic ? INVALID_VALUE : 0;
}

int cufftMakePlanMany64(int plan, int rank, long long *n, long long *in_room, long long in_step,
                        long long in_next, long long *out_room, long long out_step, long long out_next,
                        int type, long long batch, size_t *work) {
    long long half = *n / 2 + 1;
    if (rank != 1 || in_step != 1 || out_step != 1 || *in_room != in_next || *out_room != out_next ||
        in_next != (type == COMPLEX_TO_REAL ? half : *n) || out_next != (type == REAL_TO_COMPLEX ? half : *n))
        return INVALID_VALUE;
    plans[plan] = (struct plan){*n, batch, type, NULL, NULL};
    *work = WORK;
    return 0;
}

int cufftSetStream(int plan, void *stream) {
    plans[plan].stream = stream;
    return 0;
}

int cufftSetWorkArea(int plan, void *work) {
    plans[plan].work = work;
    return 0;
}

// Computes y[k] = sum of x[j * step] * w^(j * k), where w is all[by]; `all` has the powers of all[1], for n *
// by elements.
static void transform(const double complex *x, double complex *y, long long n, long long step,
                      const double complex *all, long long by) {
    if (n % 2) {
        for (long long k = 0; k < n; k++) {
            y[k] = 0;
            for (long long j = 0; j < n; j++)
                y[k] += x[j * step] * all[j * k % n * by];
        }
        return;
    }
    double complex *half = malloc(sizeof *half * (size_t)n);
    transform(x, half, n / 2, 2 * step, all, 2 * by);
    transform(x + step, half + n / 2, n / 2, 2 * step, all, 2 * by);
    for (long long k = 0; k < n; k++)
        y[k] = half[k % (n / 2)] + all[k * by] * half[n / 2 + k % (n / 2)];
    free(half);
}

static double complex read_element(const struct plan *p, const void *from, long long line, long long j) {
    const float complex *numbers = from;
    long long n = p->n, half = n / 2 + 1;
    if (p->type == REAL_TO_COMPLEX)
        return ((const float *)from)[line * n + j];
    if (p->type == COMPLEX_TO_COMPLEX)
        return numbers[line * n + j];
    double complex x = numbers[line * half + (j < half ? j : n - j)];
    return (j == 0 || 2 * j == n) && cimag(x) != 0 ? (double complex)NAN : j < half ? x : conj(x);
}

static void write_element(const struct plan *p, void *to, long long line, long long k, double complex y) {
    long long half = p->n / 2 + 1;
    if (p->type == COMPLEX_TO_REAL)
        ((float *)to)[line * p->n + k] = (float)creal(y);
    else if (p->type == COMPLEX_TO_COMPLEX)
        ((float complex *)to)[line * p->n + k] = (float complex)y;
    else if (k < half)
        ((float complex *)to)[line * half + k] = (float complex)y;
}

static int execute(int plan, void *from, void *to, int type, int sign) {
    struct plan *p = &plans[plan];
    if (p->type != type)
        return INVALID_PLAN;
    if (!p->work)
        return NO_WORKSPACE;
    int failed = cuStreamSynchronize(p->stream);
    double complex *x = malloc(sizeof *x * (size_t)p->n * 3), *y = x + p->n, *all = y + p->n;
    for (long long j = 0; j < p->n; j++)
        all[j] = cexp(sign * 2 * acos(-1) * I * (double)j / (double)p->n);
    from = fake_show(from);
    to = fake_show(to);
    for (long long line = 0; line < p->batch && !failed; line++) {
        for (long long j = 0; j < p->n; j++)
            x[j] = read_element(p, from, line, j);
        transform(x, y, p->n, 1, all, 1);
        for (long long k = 0; k < p->n; k++)
            write_element(p, to, line, k, y[k]);
    }
    for (long long i = 0; type == COMPLEX_TO_REAL && i < p->batch * (p->n / 2 + 1); i++)
        ((float complex *)from)[i] = NAN;
    free(x);
    p->work = NULL;
    return failed;
}

int cufftExecC2C(int plan, void *from, void *to, int direction) {
    return execute(plan, from, to, COMPLEX_TO_COMPLEX, direction);
}

int cufftExecR2C(int plan, void *from, void *to) {
    return execute(plan, from, to, REAL_TO_COMPLEX, -1);
}

int cufftExecC2R(int plan, void *from, void *to) {
    return execute(plan, from, to, COMPLEX_TO_REAL, 1);
}
