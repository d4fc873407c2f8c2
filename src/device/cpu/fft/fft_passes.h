// fft_passes.h - the passes of a Fourier transform, included for single numbers and for vectors, with the
// type NUMBER and the NAME of functions defined.
//
// For each group, a pass reads radix parts of `run` elements, which are groups * run elements apart, and
// writes them contiguously. Each element has the same operations with single numbers and with vectors.

#define PASS(name)                                                                             \
    static void NAME(name)(const struct fft_pass *pass, int64_t run, const float *restrict re, \
                           const float *restrict im, float *restrict to_re, float *restrict to_im)
#define LOOP for (int64_t i = 0; i < run; i += (int64_t)(sizeof(NUMBER) / sizeof(float)))
#define GET(list) (*(const NUMBER *)(const void *)((list) + i))
#define SET(list) (*(NUMBER *)(void *)((list) + i))
// FROM is part j of what group p reads, TO is part k of what it writes.
#define FROM(list, j) GET((list) + (p + (j) * pass->groups) * run)
#define TO(list, k)   SET((list) + (radix * p + (k)) * run)
// Stores part k, multiplied by its root.
#define PUT(k, x, y)                                       \
    do {                                                   \
        NUMBER x_ = (x), y_ = (y);                         \
        float c_ = w[2 * (k) - 2], s_ = w[2 * (k) - 1];    \
        TO(to_re, k) = x_ * c_ - y_ * s_;                  \
        TO(to_im, k) = x_ * s_ + y_ * c_;                  \
    } while (0)

PASS(pass2) {
    enum { radix = 2 };
    for (int64_t p = 0; p < pass->groups; p++) {
        const float *w = pass->twiddle + 2 * p;
        LOOP {
            NUMBER ar = FROM(re, 0), ai = FROM(im, 0), br = FROM(re, 1), bi = FROM(im, 1);
            TO(to_re, 0) = ar + br;
            TO(to_im, 0) = ai + bi;
            PUT(1, ar - br, ai - bi);
        }
    }
}

PASS(pass3) {
    enum { radix = 3 };
    const float sine = 0.866025403784438647f;
    for (int64_t p = 0; p < pass->groups; p++) {
        const float *w = pass->twiddle + 4 * p;
        LOOP {
            NUMBER ar = FROM(re, 0), ai = FROM(im, 0);
            NUMBER sr = FROM(re, 1) + FROM(re, 2), si = FROM(im, 1) + FROM(im, 2);
            NUMBER dr = (FROM(re, 1) - FROM(re, 2)) * sine,
                  di = (FROM(im, 1) - FROM(im, 2)) * sine;
            NUMBER mr = ar - 0.5f * sr, mi = ai - 0.5f * si;
            TO(to_re, 0) = ar + sr;
            TO(to_im, 0) = ai + si;
            PUT(1, mr + di, mi - dr);
            PUT(2, mr - di, mi + dr);
        }
    }
}

PASS(pass4) {
    enum { radix = 4 };
    for (int64_t p = 0; p < pass->groups; p++) {
        const float *w = pass->twiddle + 6 * p;
        LOOP {
            NUMBER er = FROM(re, 0) + FROM(re, 2), ei = FROM(im, 0) + FROM(im, 2);
            NUMBER fr = FROM(re, 0) - FROM(re, 2), fi = FROM(im, 0) - FROM(im, 2);
            NUMBER gr = FROM(re, 1) + FROM(re, 3), gi = FROM(im, 1) + FROM(im, 3);
            NUMBER hr = FROM(re, 1) - FROM(re, 3), hi = FROM(im, 1) - FROM(im, 3);
            TO(to_re, 0) = er + gr;
            TO(to_im, 0) = ei + gi;
            PUT(1, fr + hi, fi - hr);
            PUT(2, er - gr, ei - gi);
            PUT(3, fr - hi, fi + hr);
        }
    }
}

PASS(pass5) {
    enum { radix = 5 };
    const float c1 = 0.309016994374947424f, c2 = -0.809016994374947424f, s1 = 0.951056516295153572f,
                s2 = 0.587785252292473129f;
    for (int64_t p = 0; p < pass->groups; p++) {
        const float *w = pass->twiddle + 8 * p;
        LOOP {
            NUMBER ar = FROM(re, 0), ai = FROM(im, 0);
            NUMBER br = FROM(re, 1) + FROM(re, 4), bi = FROM(im, 1) + FROM(im, 4);
            NUMBER cr = FROM(re, 2) + FROM(re, 3), ci = FROM(im, 2) + FROM(im, 3);
            NUMBER dr = FROM(re, 1) - FROM(re, 4), di = FROM(im, 1) - FROM(im, 4);
            NUMBER er = FROM(re, 2) - FROM(re, 3), ei = FROM(im, 2) - FROM(im, 3);
            NUMBER mr = ar + c1 * br + c2 * cr, mi = ai + c1 * bi + c2 * ci;
            NUMBER nr = ar + c2 * br + c1 * cr, ni = ai + c2 * bi + c1 * ci;
            NUMBER ur = s1 * dr + s2 * er, ui = s1 * di + s2 * ei;
            NUMBER vr = s2 * dr - s1 * er, vi = s2 * di - s1 * ei;
            TO(to_re, 0) = ar + br + cr;
            TO(to_im, 0) = ai + bi + ci;
            PUT(1, mr + ui, mi - ur);
            PUT(2, nr + vi, ni - vr);
            PUT(3, nr - vi, ni + vr);
            PUT(4, mr - ui, mi + ur);
        }
    }
}

// Two butterflies of radix 4, of the parts with even and with odd numbers; the results of the latter are
// rotated by eighths of a turn.
PASS(pass8) {
    enum { radix = 8 };
    const float h = 0.707106781186547524f;
    for (int64_t p = 0; p < pass->groups; p++) {
        const float *w = pass->twiddle + 14 * p;
        LOOP {
            NUMBER ar = FROM(re, 0) + FROM(re, 4), ai = FROM(im, 0) + FROM(im, 4);
            NUMBER br = FROM(re, 0) - FROM(re, 4), bi = FROM(im, 0) - FROM(im, 4);
            NUMBER cr = FROM(re, 2) + FROM(re, 6), ci = FROM(im, 2) + FROM(im, 6);
            NUMBER dr = FROM(re, 2) - FROM(re, 6), di = FROM(im, 2) - FROM(im, 6);
            NUMBER er = FROM(re, 1) + FROM(re, 5), ei = FROM(im, 1) + FROM(im, 5);
            NUMBER fr = FROM(re, 1) - FROM(re, 5), fi = FROM(im, 1) - FROM(im, 5);
            NUMBER gr = FROM(re, 3) + FROM(re, 7), gi = FROM(im, 3) + FROM(im, 7);
            NUMBER ur = FROM(re, 3) - FROM(re, 7), ui = FROM(im, 3) - FROM(im, 7);
            NUMBER pr = ar + cr, pi = ai + ci, qr = er + gr, qi = ei + gi;
            TO(to_re, 0) = pr + qr;
            TO(to_im, 0) = pi + qi;
            PUT(4, pr - qr, pi - qi);
            pr = ar - cr, pi = ai - ci, qr = ei - gi, qi = gr - er;
            PUT(2, pr + qr, pi + qi);
            PUT(6, pr - qr, pi - qi);
            NUMBER xr = fr + ui, xi = fi - ur, yr = fr - ui, yi = fi + ur;
            pr = br + di, pi = bi - dr, qr = h * (xr + xi), qi = h * (xi - xr);
            PUT(1, pr + qr, pi + qi);
            PUT(5, pr - qr, pi - qi);
            pr = br - di, pi = bi + dr, qr = h * (yi - yr), qi = -h * (yr + yi);
            PUT(3, pr + qr, pi + qi);
            PUT(7, pr - qr, pi - qi);
        }
    }
}

// Any odd radix: parts j and radix - j are combined as their sum and their difference.
PASS(pass_prime) {
    const int radix = pass->radix, half = radix / 2;
    for (int64_t p = 0; p < pass->groups; p++) {
        const float *w = pass->twiddle + 2 * (radix - 1) * p;
        LOOP {
            NUMBER sr[FFT_PRIME / 2], si[FFT_PRIME / 2], dr[FFT_PRIME / 2], di[FFT_PRIME / 2];
            NUMBER ar = FROM(re, 0), ai = FROM(im, 0), all_r = ar, all_i = ai;
            for (int j = 1; j <= half; j++) {
                NUMBER br = FROM(re, j), bi = FROM(im, j), cr = FROM(re, radix - j), ci = FROM(im, radix - j);
                sr[j - 1] = br + cr, si[j - 1] = bi + ci;
                dr[j - 1] = br - cr, di[j - 1] = bi - ci;
                all_r += sr[j - 1], all_i += si[j - 1];
            }
            TO(to_re, 0) = all_r;
            TO(to_im, 0) = all_i;
            const fft_vector *root = (const fft_vector *)(const void *)pass->root;
            for (int k = 1; k <= half; k += 2) { // two results at once: each part is read once for both
                NUMBER mr = ar, mi = ai, ur = {0}, ui = {0}, nr = ar, ni = ai, vr = {0}, vi = {0};
                for (int j = 0; j < half; j++, root++) {
                    fft_vector r = *root;
                    mr += r[0] * sr[j], mi += r[0] * si[j];
                    ur += r[1] * dr[j], ui += r[1] * di[j];
                    nr += r[2] * sr[j], ni += r[2] * si[j];
                    vr += r[3] * dr[j], vi += r[3] * di[j];
                }
                PUT(k, mr - ui, mi + ur);
                PUT(radix - k, mr + ui, mi - ur);
                if (k < half) {
                    PUT(k + 1, nr - vi, ni + vr);
                    PUT(radix - k - 1, nr + vi, ni - vr);
                }
            }
        }
    }
}

// Multiplies element j of all lines by complex number j of `by`.
static void NAME(multiply)(struct fft_lines *l, const float *by, int64_t count) {
    int64_t run = l->lanes;
    for (int64_t j = 0; j < count; j++) {
        float *re = l->re + j * run, *im = l->im + j * run, c = by[2 * j], s = by[2 * j + 1];
        LOOP {
            NUMBER x = GET(re), y = GET(im);
            SET(re) = x * c - y * s;
            SET(im) = x * s + y * c;
        }
    }
}

// The real parts of the transformed pairs were the elements at even indices of the real line, the imaginary
// parts those at odd indices. The transforms of both are separated by symmetry (e and q), and combined to
// that of the real line.
static void NAME(unpack)(struct fft_lines *l, int64_t half, const float *roots) {
    int64_t run = l->lanes;
    for (int64_t k = 0; k <= half; k++) {
        int64_t at = (k == half ? 0 : k) * run, mirror = (k == 0 ? 0 : half - k) * run;
        const float *ar = l->re + at, *ai = l->im + at, *br = l->re + mirror, *bi = l->im + mirror;
        float *re = l->spare_re + k * run, *im = l->spare_im + k * run, c = roots[2 * k],
              s = roots[2 * k + 1];
        LOOP {
            NUMBER er = 0.5f * (GET(ar) + GET(br)), ei = 0.5f * (GET(ai) - GET(bi));
            NUMBER qr = 0.5f * (GET(ai) + GET(bi)), qi = 0.5f * (GET(br) - GET(ar));
            SET(re) = er + (qr * c - qi * s);
            SET(im) = ei + (qr * s + qi * c);
        }
    }
}

// The inverse of unpack, from the spare lists.
static void NAME(pack)(struct fft_lines *l, int64_t half, const float *roots) {
    int64_t run = l->lanes;
    for (int64_t k = 0; k < half; k++) {
        int64_t at = k * run, mirror = (half - k) * run;
        const float *ar = l->spare_re + at, *ai = l->spare_im + at, *br = l->spare_re + mirror,
                    *bi = l->spare_im + mirror;
        float *re = l->re + at, *im = l->im + at, c = roots[2 * k], s = -roots[2 * k + 1];
        LOOP {
            NUMBER dr = GET(ar) - GET(br), di = GET(ai) + GET(bi);
            SET(re) = GET(ar) + GET(br) - (dr * s + di * c);
            SET(im) = GET(ai) - GET(bi) + (dr * c - di * s);
        }
    }
}

#undef PASS
#undef LOOP
#undef GET
#undef SET
#undef FROM
#undef TO
#undef PUT
#undef NUMBER
#undef NAME
