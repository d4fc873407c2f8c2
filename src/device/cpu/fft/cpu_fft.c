// cpu_fft.c - Fourier transforms along one axis: several rows at a time are loaded, transformed and stored.
//
// A real row of even length n is transformed as a complex row of length n / 2. If all n elements of its
// transform are wanted, the second half is the mirrored conjugate of the first. The order of operations of a
// row does not depend on the rows next to it.

#include "device/cpu/fft/fft_plan.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

#include <math.h>

enum { TO, FROM, LANES = 16, LINES_BYTES = 1 << 19 }; // LINES_BYTES: of the lists that a thread works on

struct transform {
    struct layout others; // all axes but the transformed one; operands: to, from
    int64_t step[2];      // bytes between elements along that axis
    enum fft which;
    int64_t n, half; // half: n / 2
    bool packed;     // real lines of even length, transformed as pairs
    bool whole;      // real lines, all n elements of whose transform are wanted
    float scale;
    struct fft_kit *kit;
    int64_t lanes, room; // room: numbers per line in a list
    atomic_bool failed;
};

// Lines in memory -------------------------------------------------------------------------------------------

static void load_complex(const struct transform *t, char *const *line, int64_t lanes, int64_t count,
                         float *re, float *im) {
    cpu_fft_load(line, lanes, t->step[FROM], sizeof(float), count, re, im);
}

static void store_complex(const struct transform *t, char *const *line, int64_t lanes, int64_t count,
                          const float *re, const float *im) {
    cpu_fft_store(line, lanes, t->step[TO], sizeof(float), count, re, im, t->scale);
}

// Complex ---------------------------------------------------------------------------------------------------

static void run_complex(const struct transform *t, struct fft_lines *l, char *const *to, char *const *from) {
    load_complex(t, from, l->lanes, t->n, l->re, l->im);
    (t->which == FFT_INVERSE ? cpu_fft_run_inverse : cpu_fft_run)(t->kit->plan, l);
    store_complex(t, to, l->lanes, t->n, l->re, l->im);
}

// Real to complex -------------------------------------------------------------------------------------------

// Transforms a real row as complex numbers, each made of two consecutive elements. The first half + 1
// elements of the result are left in the spare lists.
static void transform_pairs(const struct transform *t, struct fft_lines *l, char *const *from) {
    cpu_fft_load(from, l->lanes, 2 * t->step[FROM], t->step[FROM], t->half, l->re, l->im);
    cpu_fft_run(t->kit->plan, l);
    cpu_fft_unpack(l, t->half, t->kit->roots);
}

static void load_real(const struct transform *t, struct fft_lines *l, char *const *from) {
    cpu_fft_load(from, l->lanes, t->step[FROM], 0, t->n, l->re, l->im);
    memset(l->im, 0, sizeof(float) * (size_t)(t->n * l->lanes));
}

static void run_real(const struct transform *t, struct fft_lines *l, char *const *to, char *const *from) {
    if (t->packed) {
        transform_pairs(t, l, from);
        store_complex(t, to, l->lanes, t->half + 1, l->spare_re, l->spare_im);
        return;
    }
    load_real(t, l, from);
    cpu_fft_run(t->kit->plan, l);
    store_complex(t, to, l->lanes, t->half + 1, l->re, l->im);
}

static void negate(float *list, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        list[i] = -list[i];
}

// Copies `count` groups of `lanes` numbers in reverse order, times `sign` (-1 for imaginary parts).
static void reverse(const float *from, int64_t count, int64_t lanes, float sign, float *to) {
    for (int64_t j = 0; j < count; j++)
        for (int64_t i = 0; i < lanes; i++)
            to[j * lanes + i] = sign * from[(count - 1 - j) * lanes + i];
}

// Transforms real rows to whole complex ones. The inverse transform of real numbers is the conjugate of the
// forward one.
static void run_whole(const struct transform *t, struct fft_lines *l, char *const *to, char *const *from) {
    if (!t->packed) {
        load_real(t, l, from);
        (t->which == FFT_INVERSE ? cpu_fft_run_inverse : cpu_fft_run)(t->kit->plan, l);
        store_complex(t, to, l->lanes, t->n, l->re, l->im);
        return;
    }
    char *second[LANES];
    transform_pairs(t, l, from);
    if (t->which == FFT_INVERSE)
        negate(l->spare_im, (t->half + 1) * l->lanes);
    store_complex(t, to, l->lanes, t->half + 1, l->spare_re, l->spare_im);
    reverse(l->spare_re + l->lanes, t->half - 1, l->lanes, 1, l->re);
    reverse(l->spare_im + l->lanes, t->half - 1, l->lanes, -1, l->im);
    for (int64_t i = 0; i < l->lanes; i++)
        second[i] = to[i] + (t->half + 1) * t->step[TO];
    store_complex(t, second, l->lanes, t->half - 1, l->re, l->im);
}

// Complex to real -------------------------------------------------------------------------------------------

// Completes all n elements of a row from the first n / 2 + 1.
static void mirror(const struct transform *t, struct fft_lines *l) {
    size_t bytes = sizeof(float) * (size_t)l->lanes;
    memset(l->im, 0, bytes);
    for (int64_t k = 1; k <= t->half; k++) {
        float *re = l->re + (t->n - k) * l->lanes, *im = l->im + (t->n - k) * l->lanes;
        memcpy(re, l->re + k * l->lanes, bytes);
        for (int64_t i = 0; i < l->lanes; i++)
            im[i] = -l->im[k * l->lanes + i];
    }
}

static void run_hermitian(const struct transform *t, struct fft_lines *l, char *const *to,
                          char *const *from) {
    if (t->packed) {
        load_complex(t, from, l->lanes, t->half + 1, l->spare_re, l->spare_im);
        cpu_fft_pack(l, t->half, t->kit->roots);
        cpu_fft_run_inverse(t->kit->plan, l);
        cpu_fft_store(to, l->lanes, 2 * t->step[TO], t->step[TO], t->half, l->re, l->im, t->scale);
        return;
    }
    load_complex(t, from, l->lanes, t->half + 1, l->re, l->im);
    mirror(t, l);
    cpu_fft_run_inverse(t->kit->plan, l);
    cpu_fft_store(to, l->lanes, t->step[TO], 0, t->n, l->re, l->re, t->scale);
}

// All lines -------------------------------------------------------------------------------------------------

static bool open_lines(const struct transform *t, struct fft_lines *l) {
    int64_t each = t->room * t->lanes;
    float *room = cpu_scratch(SCRATCH_WORK, sizeof(float) * 4 * (size_t)each);
    if (!room)
        return false;
    *l = (struct fft_lines){room, room + each, room + 2 * each, room + 3 * each, t->lanes};
    return true;
}

static void run_range(const void *context, int64_t group, int64_t end) {
    static void (*const runs[])(const struct transform *, struct fft_lines *, char *const *,
                                char *const *) = {run_complex, run_complex, run_real, run_hermitian};
    struct transform *t = (struct transform *)(uintptr_t)context;
    char *to[LANES], *from[LANES];
    struct fft_lines l;
    struct walk w;
    if (!open_lines(t, &l)) {
        atomic_store(&t->failed, true);
        return;
    }
    int64_t at = group * t->lanes, last = MIN_OF(end * t->lanes, t->others.size);
    cpu_walk_to(&t->others, &w, at);
    while (at < last) {
        l.lanes = MIN_OF(t->lanes, last - at);
        for (int64_t i = 0; i < l.lanes; i++, at++) {
            to[i] = w.data[TO];
            from[i] = w.data[FROM];
            if (at + 1 < last)
                cpu_walk_next(&t->others, &w);
        }
        (t->whole ? run_whole : runs[t->which])(t, &l, to, from);
    }
}

static void run_lines(struct transform *t) {
    t->room = cpu_fft_size(t->kit->plan) + 1;
    int64_t fit = LINES_BYTES / (16 * t->room), groups;
    double work = (double)t->others.size * (double)t->n * 8 * (log2((double)t->n) + 4);
    int64_t each = (t->others.size + pool_threads() - 1) / pool_threads(),
            wanted = (each + FFT_WIDTH - 1) / FFT_WIDTH;
    t->lanes = MIN_OF(MIN_OF(MAX_OF(fit / FFT_WIDTH, 1), wanted) * FFT_WIDTH, LANES);
    t->lanes = MIN_OF(t->lanes, t->others.size);
    groups = (t->others.size + t->lanes - 1) / t->lanes;
    double grain = (double)groups * CPU_SPLIT / (work + 1);
    cpu_split(groups, grain < (double)groups ? (int64_t)grain + 1 : groups, run_range, t);
}

// Long lines ------------------------------------------------------------------------------------------------

enum { PIECE = 4096, COMPLEX = 2 * sizeof(float) }; // PIECE: elements of a long line that a thread works on

struct long_line {
    const struct transform *t;
    struct fft_line pairs;  // the transform of a real line as half as many pairs
    struct fft_line halves; // half + 1 elements of the transform of the real line
};

// load_ends() copies elements of a line from memory to the lists of a plan with one lane, store_ends() back.
static void load_ends(const struct fft_line *line, int64_t from, int64_t count, float *re, float *im) {
    char *at = line->data + from * line->step;
    cpu_fft_load(&at, 1, line->step, line->apart, count, re, im);
}

static void store_ends(const struct fft_line *line, int64_t from, int64_t count, const float *re,
                       const float *im, float scale) {
    char *at = line->data + from * line->step;
    cpu_fft_store(&at, 1, line->step, line->apart, count, re, im, scale);
}

// Stores the mirror images (complex conjugates at index N - k) of elements [from, from + n) of a real row's
// transform. n is at most PIECE.
static void store_mirrored(const struct long_line *x, int64_t from, int64_t n, const float *re,
                           const float *im) {
    float list[2][PIECE];
    reverse(re, n, 1, 1, list[0]);
    reverse(im, n, 1, -1, list[1]);
    store_ends(&x->halves, x->t->n - from - n + 1, n, list[0], list[1], x->t->scale);
}

static void unpack_range(const void *context, int64_t from, int64_t to) {
    const struct long_line *x = context;
    const struct transform *t = x->t;
    float list[6][PIECE];
    for (int64_t n; from < to; from += n) {
        n = MIN_OF(PIECE, to - from);
        // Element `half` is element 0 again.
        int64_t whole = from + n > t->half ? n - 1 : n, least = t->half - from - n + 1, more = from == 0;
        load_ends(&x->pairs, from, whole, list[0], list[1]);
        load_ends(&x->pairs, least, n - more, list[2], list[3]);
        if (whole < n)
            load_ends(&x->pairs, 0, 1, list[0] + whole, list[1] + whole);
        if (more)
            load_ends(&x->pairs, 0, 1, list[2] + n - 1, list[3] + n - 1);
        cpu_fft_unpack_piece(n, t->kit->roots + 2 * from,
                             (const float *[]){list[0], list[1], list[2], list[3]}, list[4], list[5]);
        if (t->which == FFT_INVERSE)
            negate(list[5], n);
        store_ends(&x->halves, from, n, list[4], list[5], t->scale);
        if (t->whole)
            store_mirrored(x, from + more, n - more - (whole < n), list[4] + more, list[5] + more);
    }
}

static void pack_range(const void *context, int64_t from, int64_t to) {
    const struct long_line *x = context;
    const struct transform *t = x->t;
    float list[6][PIECE];
    for (int64_t n; from < to; from += n) {
        n = MIN_OF(PIECE, to - from);
        load_ends(&x->halves, from, n, list[0], list[1]);
        load_ends(&x->halves, t->half - from - n + 1, n, list[2], list[3]);
        if (from == 0) // the first and the last element are real: their imaginary parts are ignored
            list[1][0] = list[3][n - 1] = 0;
        cpu_fft_pack_piece(n, t->kit->roots + 2 * from, (const float *[]){list[0], list[1], list[2], list[3]},
                           list[4], list[5]);
        store_ends(&x->pairs, from, n, list[4], list[5], 1);
    }
}

static bool run_long_real(const struct transform *t, char *to, char *from) {
    char *pairs = cpu_scratch(SCRATCH_WEIGHTS, COMPLEX * (size_t)t->half);
    struct long_line x = {t, {pairs, COMPLEX, sizeof(float)}, {to, t->step[TO], sizeof(float)}};
    const struct fft_line line = {from, 2 * t->step[FROM], t->step[FROM]};
    if (!pairs || !cpu_fft_split_run(t->kit->split, &line, &x.pairs, false, 1))
        return false;
    cpu_split(t->half + 1, PIECE, unpack_range, &x);
    return true;
}

static bool run_long_hermitian(const struct transform *t, char *to, char *from) {
    char *pairs = cpu_scratch(SCRATCH_WEIGHTS, COMPLEX * (size_t)t->half);
    struct long_line x = {t, {pairs, COMPLEX, sizeof(float)}, {from, t->step[FROM], sizeof(float)}};
    const struct fft_line line = {to, 2 * t->step[TO], t->step[TO]};
    if (!pairs)
        return false;
    cpu_split(t->half, PIECE, pack_range, &x);
    return cpu_fft_split_run(t->kit->split, &x.pairs, &line, true, t->scale);
}

static bool run_long_line(const struct transform *t, char *to, char *from) {
    if (t->packed)
        return (t->which == FFT_HERMITIAN ? run_long_hermitian : run_long_real)(t, to, from);
    const struct fft_line x = {from, t->step[FROM], sizeof(float)}, y = {to, t->step[TO], sizeof(float)};
    return cpu_fft_split_run(t->kit->split, &x, &y, t->which == FFT_INVERSE, t->scale);
}

static void run_long_range(const void *context, int64_t at, int64_t end) {
    struct transform *t = (struct transform *)(uintptr_t)context;
    struct walk w;
    cpu_walk_to(&t->others, &w, at);
    for (; at < end; at++) {
        if (!run_long_line(t, w.data[TO], w.data[FROM]))
            atomic_store(&t->failed, true);
        if (at + 1 < end)
            cpu_walk_next(&t->others, &w);
    }
}

// Divides the rows among the threads if there are enough of them, else lets the threads share each row.
static void run_long_lines(struct transform *t) {
    if (t->others.size >= pool_threads())
        cpu_split(t->others.size, 1, run_long_range, t);
    else
        run_long_range(t, 0, t->others.size);
}

// Lays out the loop over all axes except the transformed one. `dim` has room for one size per axis.
static void set_layout(struct transform *t, zl_array out, zl_array x, const char *data, int axis,
                       int64_t *dim) {
    struct layout *l = &t->others;
    t->step[TO] = array_stride(out)[axis] * (int64_t)array_item(out);
    t->step[FROM] = array_stride(x)[axis] * (int64_t)array_item(x);
    for (int i = 0; i < out->ndim; i++)
        dim[i] = i == axis ? 1 : out->dim[i];
    cpu_layout_start(l, out->ndim, dim, 1);
    cpu_layout_add(l, cpu_data(out), array_item(out), out->ndim, dim, array_stride(out));
    cpu_layout_add(l, data, array_item(x), x->ndim, dim, array_stride(x));
    cpu_layout_merge(l);
    l->loops = l->axes;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
}

bool cpu_fft(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    const int64_t *arg = call_args(c);
    struct transform t = {.which = (enum fft)arg[0], .n = arg[2], .scale = (float)op_arg_double(arg[3])};
    OP_TEMP(int64_t, dim, out->ndim);
    atomic_init(&t.failed, false);
    t.half = t.n / 2;
    t.whole = x->dtype == ZL_FLOAT32 && t.which != FFT_REAL;
    t.packed = (t.whole || t.which == FFT_REAL || t.which == FFT_HERMITIAN) && t.n % 2 == 0;
    if (!dim || !(t.kit = cpu_fft_take(t.n, t.packed)))
        return false;
    set_layout(&t, out, x, array_data(x, &room), (int)arg[1], dim);
    (t.kit->split ? run_long_lines : run_lines)(&t);
    cpu_fft_give(t.kit);
    return !atomic_load(&t.failed);
}
