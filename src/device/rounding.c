// rounding.c - finds out how a unit rounds by running hard cases when it is first used, because drivers
// report too little about it.
//
// The result is kept on disk next to compiled kernels, under the unit and the code of the test kernel, so
// that other processes only read it.

#include "device/tile_runtime/group_kernel.h"

#include <math.h>
#include <string.h>

enum { HALF = 256, CASES = 2 * HALF }; // the second half has subnormal numbers
enum { SUM, PRODUCT, QUOTIENT, ROOT, FUSED, RESULTS };

// Returns a float with a random sign and mantissa and this exponent; 0 is that of subnormal numbers.
static float number(uint32_t *state, uint32_t exponent) {
    float x;
    *state = *state * 1664525 + 1013904223;
    uint32_t bits = (*state >> 8 & 0x7fffff) | (*state & 0x80000000) | exponent << 23;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct trial {
    float operand[3][CASES], result[RESULTS][CASES];
};

static void make_cases(struct trial *t) {
    uint32_t state = 1;
    for (uint32_t i = 0; i < CASES; i++) {
        bool is_small = i >= HALF;
        t->operand[0][i] = number(&state, is_small ? 0 : 100 + i % 50);
        t->operand[1][i] = number(&state, is_small && i % 2 ? 0 : 110 + i % 30);
        t->operand[2][i] = number(&state, is_small ? 0 : 90 + i % 70);
        if (!is_small && i % 3 == 0) // a fused multiply-add gives the rounding error of the product
            t->operand[2][i] = -(t->operand[0][i] * t->operand[1][i]);
    }
}

static bool is_as_expected(const struct trial *t, int result, int i) {
    float a = t->operand[0][i], b = t->operand[1][i], c = t->operand[2][i];
    float expected[RESULTS] = {a + b, a * b, a / b, sqrtf(fabsf(a)), fmaf(a, b, c)};
    return !memcmp(&expected[result], &t->result[result][i], sizeof(float));
}

// The record on disk: for each result, and each half of the cases, whether it differs from the host's.
struct findings {
    uint8_t differs[RESULTS][2];
};

static struct tile_kernel *kernel(void) {
    return kernel_built_in("rounding", "%s", "");
}

static bool try_cases(const struct text *source, struct text *code, void *context) {
    (void)source;
    const struct kernel_trial *k = context;
    struct findings f = {0};
    struct trial *t = memory_zero(sizeof *t);
    struct tile_kernel *tried = t ? kernel() : NULL;
    if (t)
        make_cases(t);
    bool good = tried && k->run(tried, (void *[]){t->operand, t->result}, (int64_t[]){CASES}, k->context);
    for (int i = 0; i < RESULTS * CASES && good; i++)
        f.differs[i / CASES][i % CASES / HALF] |= !is_as_expected(t, i / CASES, i % CASES);
    text_bytes(code, (const char *)&f, sizeof f);
    tile_free(tried);
    memory_free(t);
    return good;
}

static void *set_record(const char *code, size_t bytes, void *context) {
    struct target_spirv *s = ((struct kernel_trial *)context)->record;
    struct findings f;
    if (bytes != sizeof f)
        return error_set(ZL_ERROR_COMPILE, "what is kept of how a unit rounds is cut off");
    memcpy(&f, code, sizeof f);
    s->has_exact_fma = !f.differs[FUSED][0];
    s->has_exact_divide = !f.differs[QUOTIENT][0] && !f.differs[QUOTIENT][1];
    s->has_exact_root = !f.differs[ROOT][0] && !f.differs[ROOT][1];
    s->is_inexact = f.differs[SUM][0] || f.differs[PRODUCT][0];
    s->flushes = f.differs[SUM][1] || f.differs[PRODUCT][1];
    s->fma_flushes = s->has_exact_fma && f.differs[FUSED][1];
    return s;
}

// While the test kernel is compiled, the record says that the unit computes everything exactly, so that no op
// is replaced by an emulation.
bool kernel_try_rounding(struct kernel_trial *k) {
    struct text source = {0}, identity = {0};
    struct tile_kernel *tried = kernel();
    k->record->has_exact_fma = k->record->has_exact_divide = k->record->has_exact_root = true;
    text_add(&identity, "rounding of %s", k->identity); // the same source may be kept as a kernel as well
    bool good = tried && !identity.failed && render_kernel(&source, tried, k->target) &&
                kernel_code_use(&(struct kernel_code){identity.data, &source, try_cases, set_record, k});
    tile_free(tried);
    text_free(&identity);
    text_free(&source);
    return good;
}
