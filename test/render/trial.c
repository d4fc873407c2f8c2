// trial.c - makes data for row kernels, and compares them with the interpreter.

#include "trial.h"

#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = 64, ITEM = 8 };

// Numbers ---------------------------------------------------------------------------------------------------

static uint64_t special_integer(void) {
    uint64_t bit = (uint64_t)1 << test_between(0, 63);
    switch (test_between(0, 4)) {
    case 0: return (uint64_t)test_between(-2, 2);
    case 1: return (uint64_t)test_between(-70, 70);
    case 2: return bit;
    case 3: return bit - 1;
    default: return test_random();
    }
}

static double special_real(void) {
    static const double list[] = {
        0,      -0.0,    1,       -1,    0.5,         -0.5,     1.5,       2.5,    -2.5,  3,
        1e-310, 1e-40,   -1e-40,  6e-8,  2.9e-8,      65504,    65519,     65520,  1e5,   2147483647,
        0x1p31, -0x1p31, 0x1p32,  127,   128,         -129,     255,       256,    32768, 65536,
        0x1p63, 0x1p64,  -0x1p63, 1e300, -1e300,      3.3e38,   8388607.5, 0x1p52, 710,   -745,
        88.7,   -103.9,  11.1,    1e-5,  0.49999997f, INFINITY, -INFINITY, NAN,    20,    -0.999,
    };
    switch (test_between(0, 6)) {
    case 6: return ldexp(test_uniform(-1, 1), test_between(-160, 160)); // of another magnitude than the other
                                                                        // operand
    case 0:
    case 1: return list[test_between(0, (int)COUNT(list) - 1)];
    case 2: return test_uniform(-1000, 1000);
    case 3: return test_uniform(-10, 10);
    default: return test_uniform(-1, 1);
    }
}

static uint64_t number(struct tile_type type) {
    static const struct tile_type f64 = {TILE_FLOAT, 64, 1}, f32 = {TILE_FLOAT, 32, 1};
    if (tile_type_is_bool(type))
        return test_random() & 1;
    if (tile_type_is_complex(type))
        return number(f32) | number(f32) << 32;
    uint64_t bits = special_integer();
    if (tile_type_is_float(type) && test_between(0, 7))
        bits = tile_bits_of(type, tile_convert(type, f64, (union tile_value){.f = special_real()}));
    return bits & (UINT64_MAX >> (64 - type.bits));
}

static uint64_t read_bits(const char *at, struct tile_type type) {
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)tile_type_bytes(type));
    return bits;
}

static double real_of(struct tile_type type, uint64_t bits) {
    return tile_type_is_float(type) ? tile_value_of(type, bits).f : 0;
}

// Returns whether the bits are equal, or both are NaN, whose sign and payload depend on the machine.
static bool is_same_real(struct tile_type type, uint64_t a, uint64_t b) {
    return a == b || (isnan(real_of(type, a)) && isnan(real_of(type, b)));
}

// In a complex number, a zero next to a NaN may have the NaN's sign.
static bool is_same_complex(uint64_t a, uint64_t b) {
    static const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    uint64_t low[] = {a & UINT32_MAX, b & UINT32_MAX}, high[] = {a >> 32, b >> 32};
    bool same_low = is_same_real(f32, low[0], low[1]), same_high = is_same_real(f32, high[0], high[1]);
    if (same_low == same_high)
        return same_low;
    const uint64_t *kept = same_low ? low : high, *other = same_low ? high : low;
    return isnan(real_of(f32, kept[0])) && real_of(f32, other[0]) == real_of(f32, other[1]);
}

static bool is_same(struct tile_type type, uint64_t a, uint64_t b) {
    return tile_type_is_complex(type) ? is_same_complex(a, b) : is_same_real(type, a, b);
}

// Trials ----------------------------------------------------------------------------------------------------

static const struct tile_buffer *buffer_of(const struct trial *t, int at) {
    return t->kernel->parameter[at].buffer;
}

static bool is_row(const struct tile_buffer *buffer) {
    return buffer->shape[0]->op == TILE_SYMBOL;
}

static bool interpret(struct trial *t, int64_t n) {
    void *buffers[TRIAL_PARAMETERS];
    for (int i = 0; i < t->kernel->parameters; i++)
        buffers[i] = buffer_of(t, i)->is_output ? t->want[i] : t->data[i];
    return CHECK(tile_interpret(t->kernel, buffers, &n));
}

bool trial_open(struct trial *t, struct tile_kernel *kernel) {
    *t = (struct trial){.kernel = kernel};
    if (!CHECK(kernel && kernel->parameters <= TRIAL_PARAMETERS))
        return false;
    for (int i = 0; i < kernel->parameters; i++) {
        struct tile_type type = buffer_of(t, i)->type;
        t->data[i] = memory_zero(TRIAL_MOST * ITEM + GUARD);
        t->want[i] = memory_zero(TRIAL_MOST * ITEM + GUARD);
        for (int k = 0; k < TRIAL_MOST && !buffer_of(t, i)->is_output; k++) {
            uint64_t bits = number(type);
            memcpy(t->data[i] + k * tile_type_bytes(type), &bits, (size_t)tile_type_bytes(type));
        }
    }
    return interpret(t, TRIAL_MOST);
}

void trial_close(struct trial *t) {
    for (int i = 0; i < TRIAL_PARAMETERS; i++) {
        memory_free(t->data[i]);
        memory_free(t->want[i]);
    }
    tile_free(t->kernel);
}

static bool compare(struct trial *t, int at, const char *got, int64_t n, const char *how) {
    const struct tile_buffer *buffer = buffer_of(t, at);
    int bytes = tile_type_bytes(buffer->type);
    int64_t count = is_row(buffer) ? n : 1;
    for (int64_t i = 0; i < count; i++) {
        uint64_t a = read_bits(got + i * bytes, buffer->type),
                 b = read_bits(t->want[at] + i * bytes, buffer->type);
        if (!is_same(buffer->type, a, b)) {
            test_note("%s%s, n = %d, element %d: %llx instead of %llx", t->kernel->name, how, (int)n, (int)i,
                      (unsigned long long)a, (unsigned long long)b);
            return false;
        }
    }
    return true;
}

static bool is_untouched(const char *data, int64_t from) {
    for (int64_t i = from; i < TRIAL_MOST * ITEM + GUARD; i++)
        if ((unsigned char)data[i] != 0xa5)
            return false;
    return true;
}

// Lists the arguments, outputs first.
static void arguments(const struct trial *t, char **p) {
    int outputs = 0, inputs = 0;
    for (int i = 0; i < t->kernel->parameters; i++)
        outputs += buffer_of(t, i)->is_output;
    int next = 0;
    for (int i = 0; i < t->kernel->parameters; i++)
        p[buffer_of(t, i)->is_output ? next++ : outputs + inputs++] = t->data[i];
}

static bool check_apart(struct trial *t, trial_fn *fn, int64_t n) {
    char *p[TRIAL_PARAMETERS];
    bool good = true;
    for (int i = 0; i < t->kernel->parameters; i++)
        if (buffer_of(t, i)->is_output)
            memset(t->data[i], 0xa5, TRIAL_MOST * ITEM + GUARD);
    arguments(t, p);
    fn(p, n, n);
    for (int i = 0; i < t->kernel->parameters && good; i++) {
        const struct tile_buffer *buffer = buffer_of(t, i);
        int64_t written = (is_row(buffer) ? n : 1) * tile_type_bytes(buffer->type);
        good = !buffer->is_output || (compare(t, i, t->data[i], n, "") && is_untouched(t->data[i], written));
    }
    return good;
}

// Checks the kernel with its output in the memory of an input of the same type, which is restored afterwards.
static bool check_in_place(struct trial *t, trial_fn *fn, int64_t n) {
    int last = t->kernel->parameters - 1;
    bool good = true;
    for (int i = 0; i < last && good; i++) {
        bool fits =
            tile_type_equal(buffer_of(t, i)->type, buffer_of(t, last)->type) && is_row(buffer_of(t, i));
        if (!fits || buffer_of(t, i)->is_output)
            continue;
        char *p[TRIAL_PARAMETERS], saved[TRIAL_MOST * ITEM];
        memcpy(saved, t->data[i], sizeof saved);
        arguments(t, p);
        p[0] = t->data[i];
        fn(p, n, n);
        good = compare(t, last, t->data[i], n, " in place");
        memcpy(t->data[i], saved, sizeof saved);
    }
    return good;
}

bool trial_check(struct trial *t, trial_fn *fn, int64_t n, bool in_place) {
    if (!CHECK(fn))
        return false;
    bool is_map = t->kernel->body->kind == TILE_MAP;
    if (!is_map && !interpret(t, n))
        return false;
    return check_apart(t, fn, n) && (!in_place || !is_map || check_in_place(t, fn, n));
}

// Compares each run separately with the interpreter; trial_open computed only with the first numbers.
bool trial_check_runs(struct trial *t, trial_fn *fn, int64_t n, int64_t run) {
    int last = t->kernel->parameters - 1;
    char *p[TRIAL_PARAMETERS], *one[TRIAL_PARAMETERS];
    arguments(t, p);
    p[0] = t->want[last];
    for (int64_t from = 0; from < n; from += run) {
        arguments(t, one);
        for (int i = 0, input = 1; i <= last; i++) {
            int64_t item = tile_type_bytes(buffer_of(t, i)->type);
            char **at = i == last ? &one[0] : &one[input++];
            *at += (is_row(buffer_of(t, i)) ? from : from / run) * item;
        }
        fn(one, MIN_OF(run, n - from), run);
    }
    fn(p, n, run);
    bool good = compare(t, last, t->data[last], n, " by runs");
    return interpret(t, TRIAL_MOST) && good;
}

// All kernels by number -------------------------------------------------------------------------------------

// The kernel that a number stands for. OPS come first, then casts, then reductions.
struct place {
    int op, dtype, form; // ops; casts: to, from
    enum { OPS, CASTS, REDUCTIONS, NONE } table;
};

enum { OP_PLACES = TILE_CONST * ZL_DTYPE_COUNT * ROW_FORMS, CAST_PLACES = ZL_DTYPE_COUNT * ZL_DTYPE_COUNT };

static struct place place_of(int at) {
    if (at < OP_PLACES)
        return (struct place){at / ROW_FORMS / ZL_DTYPE_COUNT, at / ROW_FORMS % ZL_DTYPE_COUNT,
                              at % ROW_FORMS, OPS};
    at -= OP_PLACES;
    if (at < CAST_PLACES)
        return (struct place){at / ZL_DTYPE_COUNT, at % ZL_DTYPE_COUNT, 0, CASTS};
    at -= CAST_PLACES;
    bool exists = at < TILE_CONST * ZL_DTYPE_COUNT;
    return (struct place){at / ZL_DTYPE_COUNT, at % ZL_DTYPE_COUNT, 0, exists ? REDUCTIONS : NONE};
}

trial_fn *trial_function(const struct row_table *table, int at) {
    struct place p = place_of(at);
    switch (p.table) {
    case OPS: return table->op[p.op][p.dtype][p.form];
    case CASTS: return table->cast[p.op][p.dtype];
    case REDUCTIONS: return table->reduce[p.op][p.dtype];
    default: return NULL;
    }
}

struct tile_kernel *trial_kernel(int at) {
    struct place p = place_of(at);
    char form[4] = {0};
    for (int k = 0; p.table == OPS && k < tile_op_arity((enum tile_op)p.op); k++)
        form[k] = p.form >> k & 1 ? 's' : 'v';
    switch (p.table) {
    case OPS: return tile_row_kernel((enum tile_op)p.op, (zl_dtype)p.dtype, form);
    case CASTS: return tile_cast_kernel((zl_dtype)p.op, (zl_dtype)p.dtype);
    case REDUCTIONS: return tile_reduce_kernel((enum tile_op)p.op, (zl_dtype)p.dtype);
    default: return NULL;
    }
}
