// cpu_fft.c - Fourier transforms along one axis: lines are gathered, several side by side, transformed, and put in place.
//
// Real lines of even length are complex ones of half that length. Each line is computed by itself, in the same order
// whatever is next to it.

#include "device/cpu/cpu.h"
#include "device/cpu/fft_plan.h"
#include "op/ops.h"

#include <math.h>

enum { TO, FROM, LANES = 16, LINES_BYTES = 1 << 19 }; // of lists that a thread works on

struct transform {
    struct layout others; // the axes but one; operands: to, from
    int64_t step[2];      // bytes along the axis
    enum fft which;
    int64_t n, half; // half: n / 2
    bool packed;     // real lines of even length
    float scale;
    struct fft_plan *plan;
    float *roots;        // packed: exp(-2 pi i k / n) for k to n / 2
    int64_t lanes, room; // room: elements of a list for one line
    atomic_bool failed;
};

// Lines in memory ------------------------------------------------------------------------------------------------------

static void load_complex(const struct transform *t, char *const *line, int64_t lanes, int64_t count,
                         float *re, float *im) {
    cpu_fft_load(line, lanes, t->step[FROM], sizeof(float), count, re, im);
}

static void store_complex(const struct transform *t, char *const *line, int64_t lanes, int64_t count,
                          const float *re, const float *im) {
    cpu_fft_store(line, lanes, t->step[TO], sizeof(float), count, re, im, t->scale);
}

// Complex ----------------------------------------------------------------------------------------------------------------

static void run_complex(const struct transform *t, struct fft_lines *l, char *const *to, char *const *from) {
    load_complex(t, from, l->lanes, t->n, l->re, l->im);
    (t->which == FFT_INVERSE ? cpu_fft_run_inverse : cpu_fft_run)(t->plan, l);
    store_complex(t, to, l->lanes, t->n, l->re, l->im);
}

// Real to complex ----------------------------------------------------------------------------------------------------------

static void run_real(const struct transform *t, struct fft_lines *l, char *const *to, char *const *from) {
    if (t->packed) {
        cpu_fft_load(from, l->lanes, 2 * t->step[FROM], t->step[FROM], t->half, l->re, l->im);
        cpu_fft_run(t->plan, l);
        cpu_fft_unpack(l, t->half, t->roots);
        store_complex(t, to, l->lanes, t->half + 1, l->spare_re, l->spare_im);
        return;
    }
    cpu_fft_load(from, l->lanes, t->step[FROM], 0, t->n, l->re, l->im);
    memset(l->im, 0, sizeof(float) * (size_t)(t->n * l->lanes));
    cpu_fft_run(t->plan, l);
    store_complex(t, to, l->lanes, t->half + 1, l->re, l->im);
}

// Complex to real ------------------------------------------------------------------------------------------------------------

// All n elements of a line from the first n / 2 + 1.
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
        cpu_fft_pack(l, t->half, t->roots);
        cpu_fft_run_inverse(t->plan, l);
        cpu_fft_store(to, l->lanes, 2 * t->step[TO], t->step[TO], t->half, l->re, l->im, t->scale);
        return;
    }
    load_complex(t, from, l->lanes, t->half + 1, l->re, l->im);
    mirror(t, l);
    cpu_fft_run_inverse(t->plan, l);
    cpu_fft_store(to, l->lanes, t->step[TO], 0, t->n, l->re, l->re, t->scale);
}

// All lines --------------------------------------------------------------------------------------------------------------------

static bool open_lines(const struct transform *t, struct fft_lines *l) {
    int64_t each = t->room * t->lanes;
    float *room = cpu_scratch(SCRATCH_WORK, sizeof(float) * 4 * (size_t)each);
    *l = (struct fft_lines){room, room + each, room + 2 * each, room + 3 * each, t->lanes};
    return room != NULL;
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
        runs[t->which](t, &l, to, from);
    }
}

static void run_lines(struct transform *t) {
    int64_t fit = LINES_BYTES / (16 * t->room), groups;
    double work = (double)t->others.size * (double)t->n * 8 * (log2((double)t->n) + 4);
    int64_t each = (t->others.size + pool_threads() - 1) / pool_threads(), wanted = (each + FFT_WIDTH - 1) / FFT_WIDTH;
    t->lanes = MIN_OF(MIN_OF(MAX_OF(fit / FFT_WIDTH, 1), wanted) * FFT_WIDTH, LANES);
    t->lanes = MIN_OF(t->lanes, t->others.size);
    groups = (t->others.size + t->lanes - 1) / t->lanes;
    double grain = (double)groups * CPU_SPLIT / (work + 1);
    cpu_split(groups, grain < (double)groups ? (int64_t)grain + 1 : groups, run_range, t);
}

// Plans ------------------------------------------------------------------------------------------------------------------------

static bool make_plan(struct transform *t) {
    t->half = t->n / 2;
    t->packed = (t->which == FFT_REAL || t->which == FFT_HERMITIAN) && t->n % 2 == 0;
    if (!(t->plan = cpu_fft_plan(t->packed ? t->half : t->n)))
        return false;
    t->room = cpu_fft_size(t->plan) + 1;
    t->roots = t->packed ? memory_alloc(sizeof(float) * 2 * (size_t)(t->half + 1)) : NULL;
    return !t->packed || (t->roots && cpu_fft_roots(t->n, t->half + 1, t->roots));
}

static void drop_plan(struct transform *t) {
    if (t->plan)
        cpu_fft_free(t->plan);
    if (t->roots)
        memory_free(t->roots);
}

// The axes but the one of the lines; dim: room for a number an axis.
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
    OP_ROOM(int64_t, dim, out->ndim);
    atomic_init(&t.failed, false);
    bool ok = dim && make_plan(&t);
    if (ok) {
        set_layout(&t, out, x, array_data(x, &room), (int)arg[1], dim);
        run_lines(&t);
    }
    drop_plan(&t);
    return ok && !atomic_load(&t.failed);
}
