// lane_arithmetic.c - elementwise commands: arithmetic, functions, casts, selects.
//
// Floats are computed in f32 and rounded to the command's dtype after each step. That equals computing in the
// dtype, because the first rounding loses nothing of a sum or product of 16-bit floats. In f32, subnormal
// numbers are flushed to zero.

#include "bm1690/element.h"

#include <math.h>

enum { CHUNK = 256 }; // elements at a time

run_function run_arithmetic, run_cast, run_select;

// Functions -------------------------------------------------------------------------------------------------

// Rounds the result of one step to the dtype.
static float step(enum bm1690_dtype dtype, float x) {
    return element_flush(element_step(dtype, x));
}

// Returns the first guess of 1 / sqrt(x), computed from the bits of x in the dtype.
static float rsqrt_seed(float x, enum bm1690_dtype dtype) {
    if (dtype == BM1690_FP16)
        return half_to_float((uint16_t)(0x59ba - (half_from_float(x) >> 1)));
    if (dtype == BM1690_BFP16)
        return bfloat_to_float((uint16_t)(0x5f37 - (bfloat_from_float(x) >> 1)));
    return float_of_bits(0x5f3759df - (bits_of_float(x) >> 1));
}

// Computes 1 / sqrt(x) from a seed by three Newton steps; every operation is rounded to the dtype.
static float rsqrt(float x, enum bm1690_dtype dtype) {
    if (x == 0)
        return copysignf(INFINITY, x);
    if (!(x > 0) || isinf(x))
        return isinf(x) && x > 0 ? 0 : NAN;
    float y = rsqrt_seed(x, dtype), half = step(dtype, 0.5f * x);
    for (int i = 0; i < 3; i++)
        y = step(dtype, y * step(dtype, 1.5f - step(dtype, step(dtype, half * y) * y)));
    return y;
}

static float divide(float a, float b, enum bm1690_dtype dtype) {
    float y = rsqrt(fabsf(b), dtype), q = step(dtype, a * step(dtype, y * y));
    return signbit(b) ? -q : q;
}

// Returns the square root. The root of a zero is that zero. For a subnormal number the chip gives NaN: the
// number is flushed to 0 and multiplied by 1 / sqrt(0).
static float square_root(float x, enum bm1690_dtype dtype) {
    return x == 0 ? x : element_flush(x) * rsqrt(element_flush(x), dtype);
}

// The exponential is 2^n times the series of e^r, where r = x - n log(2). Every step is rounded to the dtype.
enum { TERMS_F32 = 10, TERMS_HALF = 7 };

// Returns y 2^n, rounded once: |n| is at most 252, and both factors are normal numbers.
static inline float scale_by(float y, float n) {
    int whole = (int)n, half = whole / 2;
    return y * float_of_bits((uint32_t)(127 + half) << 23) *
           float_of_bits((uint32_t)(127 + whole - half) << 23);
}

static inline float limit(float n) {
    return n > 252 ? 252 : n > -252 ? n : -252; // NaN becomes -252
}

static void exponential_f32(float *y, const float *x, int count) {
    const float *factor = chip_constants_of(BM1690_EXP);
    for (int i = 0; i < count; i++) {
        float n = limit(floorf(x[i] * 1.44269504f)), r = x[i] - n * 0.693147181f, sum = factor[TERMS_F32 - 1];
        for (int k = TERMS_F32 - 2; k >= 0; k--)
            sum = sum * r + factor[k];
        float result = scale_by(sum, n);
        result = n >= 252 ? INFINITY : n <= -252 ? 0 : result;
        y[i] = result < 0x1p-126f ? 0 : result;
    }
}

static float exponential_half(float x, enum bm1690_dtype dtype) {
    const float *factor = chip_constants_of(BM1690_EXP);
    float inverse = element_step(dtype, 1.44269504f), ln2 = element_step(dtype, 0.693147181f);
    float n = limit(floorf(element_step(dtype, x * inverse)));
    float r = element_step(dtype, x - element_step(dtype, n * ln2)),
          y = element_step(dtype, factor[TERMS_HALF - 1]);
    for (int i = TERMS_HALF - 2; i >= 0; i--)
        y = element_step(dtype, element_step(dtype, y * r) + element_step(dtype, factor[i]));
    float result = n >= 252 ? INFINITY : n <= -252 ? 0 : scale_by(y, n);
    return result < (dtype == BM1690_FP16 ? 0x1p-14f : 0x1p-126f) ? 0 : result;
}

// Arithmetic ------------------------------------------------------------------------------------------------

static float apply_float(int operation, float a, float b, enum bm1690_dtype dtype) {
    switch (operation) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return divide(a, b, dtype);
    case REVERSED_SUB: return b - a;
    case REVERSED_DIV: return divide(b, a, dtype);
    case DIFF_ABS: return fabsf(a - b);
    case NEG: return 0 - a;
    case SQUARE: return a * a;
    case RELU: return a > 0 ? a : 0;
    case RSQRT: return rsqrt(a, dtype);
    case SQRT: return square_root(a, dtype);
    case RECIPROCAL: return divide(1, a, dtype);
    default: return exponential_half(a, dtype);
    }
}

static int64_t apply_int(int operation, int64_t a, int64_t b) {
    switch (operation) {
    case MAX: return a > b ? a : b;
    case MIN: return a < b ? a : b;
    case ABS: return a < 0 ? -a : a;
    default: return -a;
    }
}

// Applies an operation to a row. Common ones are loops that the compiler vectorises; the others run element
// by element.
static void float_row(int operation, float *y, const float *a, const float *b, int count,
                      enum bm1690_dtype dtype) {
    switch (operation) {
    case ADD:
        for (int i = 0; i < count; i++)
            y[i] = a[i] + b[i];
        break;
    case SUB:
        for (int i = 0; i < count; i++)
            y[i] = a[i] - b[i];
        break;
    case MUL:
        for (int i = 0; i < count; i++)
            y[i] = a[i] * b[i];
        break;
    case EXP:
        if (dtype == BM1690_FP32) {
            exponential_f32(y, a, count);
            break;
        } // fall through
    default:
        for (int i = 0; i < count; i++)
            y[i] = apply_float(operation, a[i], b[i], dtype);
    }
}

static void flush_row(float *x, int count) {
    for (int i = 0; i < count; i++)
        x[i] = element_flush(x[i]);
}

struct elementwise {
    int operation, mode;
    const struct view *y, *a, *b; // b NULL: the scalar
    uint8_t scalar[4];
};

static void run_floats(const struct elementwise *e, uint8_t *y, const uint8_t *a, const uint8_t *b,
                       int count) {
    float x[CHUNK], z[CHUNK], r[CHUNK];
    element_load_row(x, a, e->a->stride[3], count, e->a->dtype);
    if (b)
        element_load_row(z, b, e->b->stride[3], count, e->b->dtype);
    else
        element_load_row(z, e->scalar, 0, count, e->a->dtype);
    if (e->operation != SQRT)
        flush_row(x, count);
    flush_row(z, count);
    float_row(e->operation, r, x, z, count, e->y->dtype);
    flush_row(r, count);
    element_store_row(y, e->y->stride[3], count, e->y->dtype, r);
    for (int i = 0; i < count; i++)
        if (isnan(r[i]))
            element_result(y + i * e->y->stride[3] * e->y->size, e->y->dtype, r[i]);
}

// Rounds to a whole number. Subnormal numbers keep their value here, and NaN stays as it is.
static void round_element(uint8_t *y, const uint8_t *a, enum bm1690_dtype dtype, int mode) {
    float x = element_load(a, dtype);
    if (isnan(x))
        memmove(y, a, (size_t)bm1690_dtype_bytes(dtype));
    else
        element_store(y, dtype, (float)element_round(x, mode));
}

// Computes results that have the bits of an operand.
static void keep_element(const struct elementwise *e, uint8_t *y, const uint8_t *a, const uint8_t *b) {
    enum bm1690_dtype dtype = e->y->dtype;
    switch (e->operation) {
    case MAX: element_keep(y, element_operand(a, dtype) > element_operand(b, dtype) ? a : b, dtype); break;
    case MIN: element_keep(y, element_operand(a, dtype) >= element_operand(b, dtype) ? b : a, dtype); break;
    case FLOOR: round_element(y, a, dtype, ROUND_DOWN); break;
    case CEIL: round_element(y, a, dtype, ROUND_UP); break;
    case ROUND: round_element(y, a, dtype, e->mode); break;
    default: element_keep(y, a, dtype); y[e->y->size - 1] &= 0x7f;
    }
}

static bool keeps_bits(int operation) {
    return operation == MAX || operation == MIN || operation == FLOOR || operation == CEIL ||
           operation == ROUND || operation == ABS;
}

static void run_kept(const struct elementwise *e, uint8_t *y, const uint8_t *a, const uint8_t *b, int count) {
    for (int i = 0; i < count; i++)
        keep_element(e, y + i * e->y->stride[3] * e->y->size, a + i * e->a->stride[3] * e->a->size,
                     b ? b + i * e->b->stride[3] * e->b->size : e->scalar);
}

static void run_ints(const struct elementwise *e, uint8_t *y, const uint8_t *a, const uint8_t *b, int count) {
    enum bm1690_dtype dtype = e->y->dtype;
    for (int i = 0; i < count; i++)
        element_store_int(
            y + i * e->y->stride[3] * e->y->size, dtype,
            apply_int(e->operation, element_load_int(a + i * e->a->stride[3] * e->a->size, dtype),
                      element_load_int(b ? b + i * e->b->stride[3] * e->b->size : e->scalar, dtype)));
}

static void run_channel(void *context, int part) {
    const struct elementwise *e = context;
    bool is_float = element_is_float(e->y->dtype);
    int n = part / e->y->dim.c, c = part % e->y->dim.c;
    for (int h = 0; h < e->y->dim.h; h++) {
        uint8_t *y = view_row(e->y, n, c, h);
        const uint8_t *a = view_row(e->a, n, c, h), *b = e->b ? view_row(e->b, n, c, h) : NULL;
        for (int w = 0; w < e->y->dim.w; w += CHUNK) {
            int count = MIN_OF(CHUNK, e->y->dim.w - w);
            uint8_t *to = y + w * e->y->stride[3] * e->y->size;
            const uint8_t *from = a + w * e->a->stride[3] * e->a->size,
                          *other = b ? b + w * e->b->stride[3] * e->b->size : NULL;
            (!is_float                  ? run_ints
             : keeps_bits(e->operation) ? run_kept
                                        : run_floats)(e, to, from, other, count);
        }
    }
}

// Runs arithmetic. The second operand is a tensor if the command has a second input, else the scalar C.
bool run_arithmetic(struct command *command) {
    struct elementwise e = {.operation = command->operation,
                            .mode = (int)command_value(command, "mode")->i,
                            .y = command_operand(command, 0),
                            .a = command_operand(command, 1),
                            .b = command_has(command, "src1_addr") ? command_operand(command, 2) : NULL};
    uint32_t word = command_value(command, "C")->word;
    if (command->core->counts_only)
        return true;
    memcpy(e.scalar, &word, sizeof word);
    chip_spread(e.y, run_channel, &e);
    return true;
}

// Casts -----------------------------------------------------------------------------------------------------

struct casting {
    const struct view *to, *from;
    int mode;
};

static void cast_channel(void *context, int part) {
    const struct casting *k = context;
    const struct view *to = k->to, *from = k->from;
    int n = part / to->dim.c, c = part % to->dim.c;
    for (int h = 0; h < to->dim.h; h++)
        element_cast_row(view_row(to, n, c, h), to->stride[3], to->dtype, view_row(from, n, c, h),
                         from->stride[3], from->dtype, to->dim.w, k->mode);
}

bool run_cast(struct command *command) {
    struct casting k = {command_operand(command, 0), command_operand(command, 1),
                        (int)command_value(command, "mode")->i};
    if (!command->core->counts_only)
        chip_spread(k.to, cast_channel, &k);
    return true;
}

// Selects ---------------------------------------------------------------------------------------------------

static void keep(uint8_t *to, const uint8_t *from, enum bm1690_dtype dtype) {
    if (element_is_float(dtype))
        element_keep(to, from, dtype);
    else
        memmove(to, from, (size_t)bm1690_dtype_bytes(dtype));
}

// Returns an element of a variable: of its tensor, or the scalar.
static const uint8_t *element(const struct view *v, const struct variable *variable, int n, int c, int h,
                              int w) {
    return variable->type == VARIABLE_SCALAR ? (const uint8_t *)&variable->word
                                             : view_row(v, n, c, h) + w * v->stride[3] * v->size;
}

// Runs a compare-and-select command. A command with two results writes the larger or smaller of the compared
// values to its first result, and the selected value to its second.
bool run_select(struct command *command) {
    static const char *const names[] = {"src0", "src1", "src2", "src3"};
    bool has_extreme = command_has(command, "dst1_addr");
    const struct view *y = command_operand(command, has_extreme), *extreme = command_operand(command, 0);
    const struct variable *variable[4];
    struct view source[4];
    enum bm1690_dtype compared =
        has_extreme ? extreme->dtype : (enum bm1690_dtype)command_value(command, "src_dtype")->i;
    for (int i = 0; i < 4; i++) {
        variable[i] = command_value(command, names[i])->p;
        if (variable[i]->type == VARIABLE_TENSOR &&
            !operand_local(command, &source[i], names[i], variable[i]->word, BM1690_TENSOR, y->dim,
                           i < 2 ? compared : y->dtype, BM1690_READ))
            return false;
    }
    if (command->core->counts_only)
        return true;
    for (int n = 0; n < y->dim.n; n++)
        for (int c = 0; c < y->dim.c; c++)
            for (int h = 0; h < y->dim.h; h++)
                for (int w = 0; w < y->dim.w; w++) {
                    const uint8_t *a = element(&source[0], variable[0], n, c, h, w),
                                  *b = element(&source[1], variable[1], n, c, h, w);
                    bool holds = element_holds(command->operation, compared, a, b);
                    int from = holds ? 2 : 3;
                    if (has_extreme)
                        keep(view_row(extreme, n, c, h) + w * extreme->stride[3] * extreme->size,
                             holds ? a : b, compared);
                    memcpy(view_row(y, n, c, h) + w * y->stride[3] * y->size,
                           element(&source[from], variable[from], n, c, h, w), (size_t)y->size);
                }
    return true;
}

// Steps of functions ----------------------------------------------------------------------------------------

void lane_apply(int operation, const struct view *y, const struct view *a, const struct view *b,
                float scalar) {
    struct elementwise e = {.operation = operation, .y = y, .a = a, .b = b};
    element_store(e.scalar, a->dtype, scalar);
    chip_spread(y, run_channel, &e);
}
