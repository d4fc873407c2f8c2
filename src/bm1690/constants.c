// constants.c - the coefficients of series, which a command loads into every lane for the functions that
// follow.

#include "bm1690/element.h"

#include <string.h>

run_function run_constants;

// The Taylor series of e^x and of log(1 + x), the Chebyshev fit of Numerical Recipes for erf, and the series
// of the sine and the cosine of 2 pi x, in x^2.
static const float exponential[] = {1.0f,       1.0f,       1.0f / 2,    1.0f / 6,     1.0f / 24,
                                    1.0f / 120, 1.0f / 720, 1.0f / 5040, 1.0f / 40320, 1.0f / 362880};
static const float logarithm[] = {0,          1.0f,      -1.0f / 2,  1.0f / 3, -1.0f / 4,  1.0f / 5,
                                  -1.0f / 6,  1.0f / 7,  -1.0f / 8,  1.0f / 9, -1.0f / 10, 1.0f / 11,
                                  -1.0f / 12, 1.0f / 13, -1.0f / 14, 1.0f / 15};
static const float error_fit[] = {-1.26551223f, 1.00002368f,  0.37409196f, 0.09678418f,  -0.18628806f,
                                  0.27886807f,  -1.13520398f, 1.48851587f, -0.82215223f, 0.17087277f};
static const float sine[] = {
    6.28318548f,     -41.3417015f,     81.6052475f,     -76.7058563f,     42.0586929f,     -15.0946426f,
    3.81995249f,     -0.718122303f,    0.10422916f,     -0.0120315859f,   0.00113092375f,  -8.82353343e-05f,
    5.80565256e-06f, -3.26492824e-07f, 1.58736704e-08f, -6.73835931e-10f, 2.5191264e-11f,  -8.35723743e-13f,
    2.47695575e-14f, -6.59826543e-16f, 1.58834808e-17f, -3.47206348e-19f, 6.92280702e-21f, -1.26411401e-22f,
    2.12182067e-24f, -3.28494592e-26f, 4.70553219e-28f, -6.25478024e-30f, 7.73586543e-32f, -8.92459739e-34f,
    9.62647508e-36f, -9.72959527e-38f,
};
static const float cosine[] = {
    1.0f,
    -19.7392082f,
    64.9393921f,
    -85.4568176f,
    60.2446404f,
    -26.4262562f,
    7.90353632f,
    -1.71439075f,
    0.282005966f,
    -0.0363828428f,
    0.00377983414f,
    -0.00032299108f,
    2.30999576e-05f,
    -1.4029996e-06f,
    7.32648218e-08f,
    -3.32457373e-09f,
    1.32307373e-10f,
    -4.65533471e-12f,
    1.4586131e-13f,
    -4.09557159e-15f,
    1.03645314e-16f,
    -2.37616316e-18f,
    4.95809507e-20f,
    -9.45593052e-22f,
    1.65472142e-23f,
    -2.66635849e-25f,
    3.96921643e-27f,
    -5.47513536e-29f,
    7.01784704e-31f,
    -8.38032331e-33f,
    9.34581662e-35f,
    -9.75563364e-37f,
};

// For each series, its coefficients, and how many of them are used in f32 and in 16 bits.
static const struct {
    const float *value;
    int wide, half;
} series[] = {
    [BM1690_EXP] = {exponential, 10, 7}, [BM1690_LOG] = {logarithm, 16, 8},
    [BM1690_ERF] = {error_fit, 10, 10},  [BM1690_SIN] = {sine, 32, 16},
    [BM1690_COS] = {cosine, 32, 16},
};

const float *chip_constants_of(int of) {
    return series[of].value;
}

int chip_constants_count(int of, enum bm1690_dtype dtype) {
    return dtype == BM1690_FP32 ? series[of].wide : series[of].half;
}

// Writes the coefficients as they are stored in a lane. Returns their number of bytes.
static size_t encode(uint8_t *to, const struct view *v, int of) {
    for (int i = 0; i < v->dim.w; i++)
        element_store(to + i * v->size, v->dtype, series[of].value[i]);
    return (size_t)(v->dim.w * v->size);
}

bool run_constants(struct command *command) {
    const struct view *v = command_operand(command, 0);
    uint8_t bytes[128];
    size_t count = encode(bytes, v, command->row->parameter[command->operand[0]].least);
    for (int lane = 0; lane < BM1690_LANE_COUNT && !command->core->counts_only; lane++)
        memcpy(view_row(v, 0, lane, 0), bytes, count);
    return true;
}

bool chip_constants_are_there(const struct view *v, int of) {
    uint8_t bytes[128];
    size_t count = encode(bytes, v, of);
    for (int lane = 0; lane < BM1690_LANE_COUNT; lane++)
        if (memcmp(view_row(v, 0, lane, 0), bytes, count) != 0)
            return false;
    return true;
}
