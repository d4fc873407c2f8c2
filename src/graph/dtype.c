// dtype.c - element types: names, promotion, conversion of single values.

#include <math.h>
#include <string.h>

#include "graph/graph.h"

static const struct {
    const char *name, *brief;
    uint8_t size;
    char kind; // b bool, u unsigned, i signed, f float, c complex
} dtypes[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = {"bool", "bool", 1, 'b'},         [ZL_UINT8] = {"uint8", "u8", 1, 'u'},
    [ZL_UINT16] = {"uint16", "u16", 2, 'u'},      [ZL_UINT32] = {"uint32", "u32", 4, 'u'},
    [ZL_UINT64] = {"uint64", "u64", 8, 'u'},      [ZL_INT8] = {"int8", "i8", 1, 'i'},
    [ZL_INT16] = {"int16", "i16", 2, 'i'},        [ZL_INT32] = {"int32", "i32", 4, 'i'},
    [ZL_INT64] = {"int64", "i64", 8, 'i'},        [ZL_FLOAT16] = {"float16", "f16", 2, 'f'},
    [ZL_BFLOAT16] = {"bfloat16", "bf16", 2, 'f'}, [ZL_FLOAT32] = {"float32", "f32", 4, 'f'},
    [ZL_FLOAT64] = {"float64", "f64", 8, 'f'},    [ZL_COMPLEX64] = {"complex64", "c64", 8, 'c'},
};

const char *zl_dtype_name(zl_dtype dtype) {
    return (unsigned)dtype < ZL_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

size_t zl_dtype_size(zl_dtype dtype) {
    return (unsigned)dtype < ZL_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

zl_dtype zl_dtype_find(const char *name) {
    for (int d = 0; name && d < ZL_DTYPE_COUNT; d++)
        if (!strcmp(name, dtypes[d].name) || !strcmp(name, dtypes[d].brief))
            return (zl_dtype)d;
    error_set(ZL_ERROR_DTYPE, "zl_dtype_find: there is no dtype '%s'; float32 or f32 is one",
              name ? name : "NULL");
    return ZL_DTYPE_COUNT;
}

bool dtype_is_float(zl_dtype d) {
    return dtypes[d].kind == 'f';
}

bool dtype_is_inexact(zl_dtype d) {
    return dtypes[d].kind == 'f' || dtypes[d].kind == 'c';
}

bool dtype_is_integer(zl_dtype d) {
    return dtypes[d].kind == 'i' || dtypes[d].kind == 'u';
}

bool dtype_is_signed(zl_dtype d) {
    return dtypes[d].kind == 'i';
}

// Promotion -------------------------------------------------------------------------------------------------

// Promotes an unsigned and a signed integer: to the signed dtype if it is wider, otherwise to the next signed
// dtype wider than the unsigned one, and past 64 bits to float32.
static zl_dtype mixed_sign(zl_dtype u, zl_dtype i) {
    static const zl_dtype wider[] = {[1] = ZL_INT16, [2] = ZL_INT32, [4] = ZL_INT64, [8] = ZL_FLOAT32};
    return dtypes[i].size > dtypes[u].size ? i : wider[dtypes[u].size];
}

static zl_dtype two_floats(zl_dtype a, zl_dtype b) {
    if (dtypes[a].size == dtypes[b].size)
        return a == b ? a : ZL_FLOAT32; // float16 and bfloat16
    return dtypes[a].size > dtypes[b].size ? a : b;
}

static zl_dtype promote(zl_dtype a, zl_dtype b) {
    char ka = dtypes[a].kind, kb = dtypes[b].kind;
    if (a == b || kb == 'b')
        return a;
    if (ka == 'b')
        return b;
    if (ka == 'c' || kb == 'c')
        return ZL_COMPLEX64;
    if (ka == 'f' && kb == 'f')
        return two_floats(a, b);
    if (ka == 'f' || kb == 'f')
        return ka == 'f' ? a : b;
    if (ka == kb)
        return dtypes[a].size > dtypes[b].size ? a : b;
    return ka == 'u' ? mixed_sign(a, b) : mixed_sign(b, a);
}

zl_dtype zl_result_type(zl_dtype a, zl_dtype b) {
    if ((unsigned)a >= ZL_DTYPE_COUNT || (unsigned)b >= ZL_DTYPE_COUNT) {
        error_set(ZL_ERROR_DTYPE, "zl_result_type: %d and %d: a dtype is 0 to %d", (int)a, (int)b,
                  ZL_DTYPE_COUNT - 1);
        return ZL_FLOAT32;
    }
    return promote(a, b);
}

static int category(zl_dtype d) {
    char kind = dtypes[d].kind;
    return kind == 'b' ? 0 : kind == 'c' ? 3 : kind == 'f' ? 2 : 1;
}

// A weak number takes the dtype of the arrays next to it, unless it is of a higher kind: 0.5 next to integers
// gives float32.
zl_dtype dtype_common(int count, const zl_array *arrays) {
    zl_dtype strong = ZL_DTYPE_COUNT, weak = ZL_DTYPE_COUNT;
    for (int i = 0; i < count; i++) {
        zl_dtype d = (zl_dtype)arrays[i]->dtype, *side = array_is(arrays[i], ARRAY_WEAK) ? &weak : &strong;
        *side = *side == ZL_DTYPE_COUNT ? d : promote(*side, d);
    }
    if (strong == ZL_DTYPE_COUNT)
        return weak;
    if (weak == ZL_DTYPE_COUNT || category(weak) <= category(strong))
        return strong;
    return weak;
}

// Single values ---------------------------------------------------------------------------------------------

// A value in the widest form of its kind.
struct wide {
    char kind; // as in dtypes; 'b' uses u
    double f, im;
    int64_t i;
    uint64_t u;
};

static struct wide load(const void *from, zl_dtype d) {
    struct wide w = {.kind = dtypes[d].kind};
    float c[2];
    uint64_t raw = 0;
    memcpy(&raw, from, dtypes[d].size); // both architectures are little-endian
    switch (w.kind) {
    case 'b': w.u = raw != 0; break;
    case 'u': w.u = raw; break;
    case 'i': w.i = (int64_t)(raw << (64 - 8 * dtypes[d].size)) >> (64 - 8 * dtypes[d].size); break;
    case 'c':
        memcpy(c, from, sizeof c);
        w.f = c[0], w.im = c[1];
        break;
    default:
        if (d == ZL_FLOAT64)
            memcpy(&w.f, &raw, 8);
        else
            w.f = d == ZL_FLOAT32    ? float_of_bits((uint32_t)raw)
                  : d == ZL_FLOAT16 ? half_to_float((uint16_t)raw)
                                    : bfloat_to_float((uint16_t)raw);
    }
    return w;
}

static bool is_float(struct wide w) {
    return w.kind == 'f' || w.kind == 'c';
}

// Saturates values out of range and converts NaN to 0. So all machines agree, which plain C does not
// guarantee.
static uint64_t to_unsigned(struct wide w, int bits) {
    uint64_t most = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
    if (!is_float(w))
        return (w.kind == 'i' ? (uint64_t)w.i : w.u) & most;
    if (!(w.f > 0))
        return 0;
    return w.f >= ldexp(1, bits) ? most : (uint64_t)w.f;
}

static int64_t to_signed(struct wide w, int bits) {
    int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
    if (!is_float(w)) {
        uint64_t raw = w.kind == 'i' ? (uint64_t)w.i : w.u;
        return (int64_t)(raw << (64 - bits)) >> (64 - bits);
    }
    if (w.f != w.f)
        return 0;
    if (w.f >= ldexp(1, bits - 1))
        return most;
    return w.f < -ldexp(1, bits - 1) ? -most - 1 : (int64_t)w.f;
}

static double to_double(struct wide w) {
    return is_float(w) ? w.f : w.kind == 'i' ? (double)w.i : (double)w.u;
}

static float to_float(struct wide w) { // an integer is rounded once
    return is_float(w) ? (float)w.f : w.kind == 'i' ? (float)w.i : (float)w.u;
}

static void store(void *to, zl_dtype d, struct wide w) {
    int bits = 8 * dtypes[d].size;
    uint64_t raw;
    float c[2] = {to_float(w), (float)w.im};
    double f = to_double(w);
    switch (dtypes[d].kind) {
    case 'b': raw = is_float(w) ? w.f != 0 || w.im != 0 : (w.kind == 'i' ? (uint64_t)w.i : w.u) != 0; break;
    case 'u': raw = to_unsigned(w, bits); break;
    case 'i': raw = (uint64_t)to_signed(w, bits); break;
    case 'c': memcpy(&raw, c, 8); break;
    default:
        if (d == ZL_FLOAT64)
            memcpy(&raw, &f, 8);
        else
            raw = d == ZL_FLOAT32   ? bits_of_float(c[0])
                  : d == ZL_FLOAT16 ? half_from_float(c[0])
                                    : bfloat_from_float(c[0]);
    }
    memcpy(to, &raw, dtypes[d].size);
}

void dtype_convert(void *to, zl_dtype to_type, const void *from, zl_dtype from_type, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        store((char *)to + i * dtypes[to_type].size, to_type,
              load((const char *)from + i * dtypes[from_type].size, from_type));
}

static struct wide scalar_wide(zl_array a) {
    const union scalar *v = array_value(a);
    char kind = dtypes[a->dtype].kind;
    if (kind == 'f')
        return (struct wide){.kind = 'f', .f = v->f};
    if (kind == 'c')
        return (struct wide){.kind = 'c', .f = v->c.re, .im = v->c.im};
    return (struct wide){.kind = kind == 'b' ? 'u' : kind, .i = v->i, .u = (uint64_t)v->i};
}

void scalar_write(zl_array a, zl_dtype dtype, void *out) {
    store(out, dtype, scalar_wide(a));
}

union scalar scalar_as(zl_array a, zl_dtype dtype) {
    uint64_t raw = 0;
    scalar_write(a, dtype, &raw);
    struct wide w = load(&raw, dtype);
    if (w.kind == 'f')
        return (union scalar){.f = w.f};
    if (w.kind == 'c')
        return (union scalar){.c = {(float)w.f, (float)w.im}};
    return (union scalar){.i = w.kind == 'i' ? w.i : (int64_t)w.u};
}

const void *array_data(zl_array a, union scalar *room) {
    if (array_is(a, ARRAY_INLINE)) {
        scalar_write(a, (zl_dtype)a->dtype, room);
        return room;
    }
    return a->storage ? (const char *)a->storage->data + a->offset * (int64_t)dtypes[a->dtype].size : NULL;
}
