// series.c - functions that the device API composes of several commands: sigmoid, tanh, log, sin, erf and
// those built from them. f32 only.
//
// Each follows the steps of the reference model. Steps that are commands are computed as these commands;
// series, by Horner's rule with every multiplication and addition rounded.

#include "bm1690/element.h"

#include <math.h>

run_function run_sigmoid, run_silu, run_tanh, run_log, run_sine, run_cosine, run_erf, run_gelu;

// Temporary tensors -----------------------------------------------------------------------------------------

enum { TEMPORARIES = 4 };

struct function {
    const struct view *y, *x;
    struct view t[TEMPORARIES]; // temporary tensors of the shape of x, in host memory
    float *memory;
};

static bool function_open(struct function *f, struct command *command) {
    *f = (struct function){.y = command_operand(command, 0), .x = command_operand(command, 1)};
    struct dims d = f->x->dim;
    size_t count = (size_t)d.n * (size_t)d.c * (size_t)d.h * (size_t)d.w;
    f->memory = memory_alloc(sizeof *f->memory * count * TEMPORARIES);
    for (int i = 0; f->memory && i < TEMPORARIES; i++)
        f->t[i] = (struct view){.data = (uint8_t *)(f->memory + (size_t)i * count),
                                .dtype = BM1690_FP32,
                                .size = sizeof *f->memory,
                                .dim = d,
                                .stride = {(int64_t)d.c * d.h * d.w, (int64_t)d.h * d.w, d.w, 1}};
    return f->memory;
}

static void function_close(struct function *f) {
    memory_free(f->memory);
}

typedef void function_steps(struct function *f);

static bool run_steps(struct command *command, function_steps *steps) {
    struct function f;
    if (command->core->counts_only)
        return true;
    if (!function_open(&f, command))
        return false;
    steps(&f);
    function_close(&f);
    return true;
}

// Element by element ----------------------------------------------------------------------------------------

struct mapping {
    const struct view *y, *x;
    float (*function)(float x);
};

// Replaces any NaN by the one that the chip produces, with all fraction bits set.
static float number_or_nan(float x) {
    return isnan(x) ? float_of_bits(0x7fffffff) : x;
}

static void map_channel(void *context, int part) {
    const struct mapping *m = context;
    int n = part / m->x->dim.c, c = part % m->x->dim.c;
    for (int h = 0; h < m->x->dim.h; h++) {
        float *y = (float *)(void *)view_row(m->y, n, c, h);
        const float *x = (const float *)(const void *)view_row(m->x, n, c, h);
        for (int w = 0; w < m->x->dim.w; w++)
            y[w] = element_flush(number_or_nan(m->function(x[w])));
    }
}

static void map(const struct view *y, const struct view *x, float (*function)(float x)) {
    struct mapping m = {y, x, function};
    chip_spread(x, map_channel, &m);
}

static float horner(const float *coefficient, int count, float x) {
    float sum = coefficient[count - 1];
    for (int i = count - 2; i >= 0; i--)
        sum = sum * x + coefficient[i];
    return sum;
}

// Of exp ----------------------------------------------------------------------------------------------------

// Computes 1 / (1 + e^-x).
static void sigmoid_of(const struct view *y, const struct view *x, struct view *t) {
    lane_apply(MUL, t, x, NULL, -1);
    lane_apply(EXP, t, t, NULL, 0);
    lane_apply(ADD, t, t, NULL, 1);
    lane_apply(REVERSED_DIV, y, t, NULL, 1);
}

static void sigmoid_steps(struct function *f) {
    sigmoid_of(f->y, f->x, &f->t[0]);
}

static void silu_steps(struct function *f) {
    sigmoid_of(&f->t[1], f->x, &f->t[0]);
    lane_apply(MUL, f->y, f->x, &f->t[1], 0);
}

// Computes 1 - 2 / (e^2x + 1).
static void tanh_steps(struct function *f) {
    struct view *t = &f->t[0];
    lane_apply(MUL, t, f->x, NULL, 2);
    lane_apply(EXP, t, t, NULL, 0);
    lane_apply(ADD, t, t, NULL, 1);
    lane_apply(REVERSED_DIV, t, t, NULL, 2);
    lane_apply(REVERSED_SUB, f->y, t, NULL, 1);
}

bool run_sigmoid(struct command *command) {
    return run_steps(command, sigmoid_steps);
}

bool run_silu(struct command *command) {
    return run_steps(command, silu_steps);
}

bool run_tanh(struct command *command) {
    return run_steps(command, tanh_steps);
}

// Logarithm -------------------------------------------------------------------------------------------------

// Returns e log(2) plus the series of log(1 + r), where e is the exponent of 1.5 x and 1 + r = x / 2^e is
// between 2/3 and 4/3. From x = 2^127 / 1.5 on, 2^-e is not a normal number, and becomes zero. Numbers below
// the smallest normal one are replaced by it, except +0.
static float log_of(float x) {
    float above = 1.5f * x;
    if (bits_of_float(x) == 0 || (isinf(above) && !isinf(x) && x > 0))
        return -INFINITY;
    if (isinf(x) && x > 0)
        return x;
    if (!(x >= 0x1p-126f)) {
        x = 0x1p-126f;
        above = 1.5f * x;
    }
    int e = (int)(bits_of_float(above) >> 23) - 127;
    float scale = e == 127 ? 0 : float_of_bits((uint32_t)(127 - e) << 23);
    return (float)e * 0.693147181f + horner(chip_constants_of(BM1690_LOG), 16, x * scale - 1);
}

static void log_steps(struct function *f) {
    map(f->y, f->x, log_of);
}

bool run_log(struct command *command) {
    return run_steps(command, log_steps);
}

// Sine and cosine -------------------------------------------------------------------------------------------

enum { TURN_TERMS = 16 }; // of the 32 terms; the others change no bit

// Returns x in turns, without the whole ones.
static float turns_of(float x) {
    float turns = element_flush(element_flush(x) * 0.159154937f);
    return turns - rintf(turns);
}

static float sine_of(float x) {
    float r = turns_of(x);
    return r * horner(chip_constants_of(BM1690_SIN), TURN_TERMS, r * r);
}

static float cosine_of(float x) {
    float r = turns_of(x);
    return horner(chip_constants_of(BM1690_COS), TURN_TERMS, r * r);
}

static void sine_steps(struct function *f) {
    map(f->y, f->x, sine_of);
}

static void cosine_steps(struct function *f) {
    map(f->y, f->x, cosine_of);
}

bool run_sine(struct command *command) {
    return run_steps(command, sine_steps);
}

bool run_cosine(struct command *command) {
    return run_steps(command, cosine_steps);
}

// Error function --------------------------------------------------------------------------------------------

static float erf_series(float t) {
    return horner(chip_constants_of(BM1690_ERF), 10, t);
}

// Returns the sign as the chip's function uses it: 0 only for +0, and -1 for -0, subnormal numbers and NaN.
static float sign_of(float x) {
    return bits_of_float(x) == 0 ? 0 : x >= 0x1p-126f ? 1 : -1;
}

// Chebyshev's fit of Numerical Recipes: with t = 1 / (1 + |x| / 2), erf |x| is 1 - t e^(series(t) - x^2). y
// may be x.
static void erf_of(const struct view *y, const struct view *x, const struct view *t) {
    lane_apply(ABS, &t[0], x, NULL, 0);
    lane_apply(MUL, &t[0], &t[0], NULL, 0.5f);
    lane_apply(ADD, &t[0], &t[0], NULL, 1);
    lane_apply(REVERSED_DIV, &t[0], &t[0], NULL, 1);
    map(&t[1], &t[0], erf_series);
    lane_apply(MUL, &t[2], x, x, 0);
    lane_apply(SUB, &t[1], &t[1], &t[2], 0);
    lane_apply(EXP, &t[1], &t[1], NULL, 0);
    lane_apply(MUL, &t[0], &t[0], &t[1], 0);
    lane_apply(REVERSED_SUB, &t[0], &t[0], NULL, 1);
    map(&t[2], x, sign_of);
    lane_apply(MUL, y, &t[0], &t[2], 0);
}

static void erf_steps(struct function *f) {
    erf_of(f->y, f->x, f->t);
}

// gelu(x) = x (erf(x / sqrt 2) + 1) / 2
static void gelu_steps(struct function *f) {
    struct view *t = &f->t[3];
    lane_apply(MUL, t, f->x, NULL, 0.707106781f);
    erf_of(t, t, f->t);
    lane_apply(ADD, t, t, NULL, 1);
    lane_apply(MUL, t, t, NULL, 0.5f);
    lane_apply(MUL, f->y, f->x, t, 0);
}

bool run_erf(struct command *command) {
    return run_steps(command, erf_steps);
}

bool run_gelu(struct command *command) {
    return run_steps(command, gelu_steps);
}
