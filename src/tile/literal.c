// literal.c - prints numbers and reads them back, with the same bits.

#include "tile/syntax.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tile_type f64 = {TILE_FLOAT, 64, 1}, f32 = {TILE_FLOAT, 32, 1};

// Printing --------------------------------------------------------------------------------------------------

static uint64_t rounded_bits(struct tile_type type, double v) {
    return tile_bits_of(type, tile_convert(type, f64, (union tile_value){.f = v}));
}

// Prints the fewest digits that are read as these bits; whole numbers below 1e9 without exponent.
static void print_digits(struct text *out, struct tile_type type, uint64_t bits) {
    char digits[40];
    double v = tile_value_of(type, bits).f;
    if (v == floor(v) && fabs(v) < 1e9) {
        text_add(out, "%.0f", v);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, v);
        if (rounded_bits(type, strtod(digits, NULL)) == bits)
            break;
    }
    text_add(out, "%s", digits);
}

// Prints inf, nan or digits. Returns whether it was a word.
static bool print_float(struct text *out, struct tile_type type, uint64_t bits) {
    double v = tile_value_of(type, bits).f;
    if (!isfinite(v))
        text_add(out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    else
        print_digits(out, type, bits);
    return !isfinite(v);
}

static void print_payload(struct text *out, struct tile_type type, uint64_t bits) {
    bool is_nan = tile_type_is_float(type) && isnan(tile_value_of(type, bits).f);
    if (is_nan && bits != rounded_bits(type, NAN))
        text_add(out, "(0x%" PRIx64 ")", bits);
}

static void print_real(struct text *out, struct tile_type type, uint64_t bits, bool is_known) {
    bool is_word = false;
    if (tile_type_is_float(type))
        is_word = print_float(out, type, bits);
    else if (type.kind == TILE_INT)
        text_add(out, "%" PRId64, tile_value_of(type, bits).i);
    else
        text_add(out, "%" PRIu64, bits);
    if (!is_known)
        text_add(out, "%s%s", is_word ? "_" : "", tile_type_name(type));
    print_payload(out, type, bits);
}

void tile_print_const(struct text *out, struct tile_type type, uint64_t bits, bool is_known) {
    if (type.kind == TILE_BOOL && type.lanes == 1) {
        text_add(out, bits ? "true" : "false");
    } else if (tile_type_is_small_float(type)) { // the suffix e4m3 would be read as an exponent
        text_add(out, "bits<%s>(%" PRIu64 "u%d)", tile_type_name(type), bits, type.bits);
    } else if (type.kind == TILE_COMPLEX) {
        text_add(out, "%s(", tile_type_name(type));
        print_real(out, f32, bits & UINT32_MAX, true);
        text_add(out, ", ");
        print_real(out, f32, bits >> 32, true);
        text_add(out, ")");
    } else {
        print_real(out, type, bits, is_known);
    }
}

// Reading ---------------------------------------------------------------------------------------------------

static double literal_float(const struct tile_literal *literal) {
    if (literal->is_word)
        return literal->text[0] == 'i' ? INFINITY : NAN;
    char digits[128];
    snprintf(digits, sizeof digits, "%.*s", literal->len, literal->text);
    return strtod(digits, NULL);
}

static const char *float_bits(const struct tile_literal *literal, struct tile_type type, uint64_t *bits) {
    if (literal->has_payload) {
        *bits = literal->payload;
        bool fits = type.bits == 64 || !(literal->payload >> type.bits);
        return fits && isnan(tile_value_of(type, *bits).f) ? NULL
                                                           : "these are not the bits of a NaN of that type";
    }
    double v = literal_float(literal);
    *bits = rounded_bits(type, literal->negative ? -v : v);
    return NULL;
}

int tile_literal_base(const char *digits) {
    return digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
}

static const char *integer_bits(const struct tile_literal *literal, struct tile_type type, uint64_t *bits) {
    char digits[128];
    if (literal->is_float)
        return "is no integer; write the cast";
    snprintf(digits, sizeof digits, "%.*s", literal->len, literal->text);
    errno = 0;
    uint64_t size = strtoull(digits, NULL, tile_literal_base(digits));
    uint64_t most = UINT64_MAX >> (64 - type.bits + (type.kind == TILE_INT));
    if (errno || size > most + (type.kind == TILE_INT && literal->negative))
        return "does not fit its type";
    if (literal->negative && type.kind != TILE_INT && size)
        return "is negative and its type is not";
    *bits = tile_bits_of(type, (union tile_value){.u = literal->negative ? 0 - size : size});
    return NULL;
}

const char *tile_literal_bits(const struct tile_literal *literal, struct tile_type type, uint64_t *bits) {
    bool is_truth = literal->is_word && !literal->is_float;
    if (is_truth)
        *bits = literal->text[0] == 't';
    if (is_truth || (type.kind == TILE_BOOL && literal->is_float))
        return type.kind == TILE_BOOL && is_truth ? NULL : "is not of that type";
    if (type.kind == TILE_COMPLEX)
        return float_bits(literal, f32, bits);
    return tile_type_is_float(type) || tile_type_is_small_float(type) ? float_bits(literal, type, bits)
                                                                      : integer_bits(literal, type, bits);
}
