// number.c - loads and stores of array elements, and elements as Python objects.

#include "number.h"

#include <math.h>
#include <string.h>

#define CHUNK 256 // elements converted at a time

enum number_kind number_kind(int type) {
    if (type == ZL_UINT64)
        return NUMBER_UINT;
    if (type <= ZL_INT64)
        return NUMBER_INT;
    return type < ZL_COMPLEX64 ? NUMBER_FLOAT : NUMBER_COMPLEX;
}

size_t number_size(int type) {
    return type == NUMBER_COMPLEX128 ? 16 : zl_dtype_size((zl_dtype)type);
}

// Loads and stores ------------------------------------------------------------------------------------------

#define LOAD(type, field, value)        \
    for (size_t k = 0; k < n; k++) {    \
        type x = ((const type *)in)[k]; \
        out[k].field = value;           \
    }                                   \
    break

static void load_complex(union number *out, const void *in, int type, size_t n) {
    bool twice = type == NUMBER_COMPLEX128;
    for (size_t k = 0; k < n; k++)
        for (int part = 0; part < 2; part++)
            out[k].c[part] =
                twice ? (float)((const double *)in)[2 * k + part] : ((const float *)in)[2 * k + part];
}

void number_load(union number *out, const void *in, int type, size_t n) {
    switch (type) {
    case ZL_BOOL: LOAD(uint8_t, i, x != 0);
    case ZL_UINT8: LOAD(uint8_t, i, x);
    case ZL_UINT16: LOAD(uint16_t, i, x);
    case ZL_UINT32: LOAD(uint32_t, i, x);
    case ZL_UINT64: LOAD(uint64_t, u, x);
    case ZL_INT8: LOAD(int8_t, i, x);
    case ZL_INT16: LOAD(int16_t, i, x);
    case ZL_INT32: LOAD(int32_t, i, x);
    case ZL_INT64: LOAD(int64_t, i, x);
    case ZL_FLOAT16: LOAD(uint16_t, f, zl_float16_to_float(x));
    case ZL_BFLOAT16: LOAD(uint16_t, f, zl_bfloat16_to_float(x));
    case ZL_FLOAT32: LOAD(float, f, x);
    case ZL_FLOAT64: LOAD(double, f, x);
    default: load_complex(out, in, type, n);
    }
}

// Converts a fraction to the bits of an integer: NaN becomes 0, and values beyond 64 bits the nearest one
// that fits.
static uint64_t whole(double value) {
    if (!(value > -0x1p63))
        return value != value ? 0 : (uint64_t)INT64_MIN;
    if (value < 0x1p63)
        return (uint64_t)(int64_t)value;
    return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

// Stores integers of 64 bits, cut to the size of the element.
static void store_whole(void *out, size_t size, const union number *in, enum number_kind kind, size_t n) {
    for (size_t k = 0; k < n; k++) {
        uint64_t x = in[k].u;
        if (kind >= NUMBER_FLOAT)
            x = whole(kind == NUMBER_FLOAT ? in[k].f : (double)in[k].c[0]);
        switch (size) {
        case 1: ((uint8_t *)out)[k] = (uint8_t)x; break;
        case 2: ((uint16_t *)out)[k] = (uint16_t)x; break;
        case 4: ((uint32_t *)out)[k] = (uint32_t)x; break;
        default: ((uint64_t *)out)[k] = x;
        }
    }
}

static void store_bool(bool *out, const union number *in, enum number_kind kind, size_t n) {
    for (size_t k = 0; k < n; k++)
        switch (kind) {
        case NUMBER_FLOAT: out[k] = in[k].f != 0; break;
        case NUMBER_COMPLEX: out[k] = in[k].c[0] != 0 || in[k].c[1] != 0; break;
        default: out[k] = in[k].u != 0;
        }
}

static void to_floats(double *out, const union number *in, enum number_kind kind, size_t n) {
    for (size_t k = 0; k < n; k++)
        switch (kind) {
        case NUMBER_INT: out[k] = (double)in[k].i; break;
        case NUMBER_UINT: out[k] = (double)in[k].u; break;
        case NUMBER_FLOAT: out[k] = in[k].f; break;
        case NUMBER_COMPLEX: out[k] = (double)in[k].c[0]; break;
        }
}

static void store_complex(float *out, const union number *in, enum number_kind kind, size_t n) {
    for (size_t k = 0; k < n; k++) {
        double real = 0;
        to_floats(&real, in + k, kind, 1);
        out[2 * k] = (float)real;
        out[2 * k + 1] = kind == NUMBER_COMPLEX ? in[k].c[1] : 0;
    }
}

#define STORE(type, value)           \
    for (size_t k = 0; k < n; k++) { \
        double x = from[k];          \
        ((type *)out)[k] = value;    \
    }                                \
    break

static void store_floats(void *out, zl_dtype type, const union number *in, enum number_kind kind, size_t n) {
    double from[CHUNK];
    to_floats(from, in, kind, n);
    switch (type) {
    case ZL_FLOAT16: STORE(uint16_t, zl_float16_from_float((float)x));
    case ZL_BFLOAT16: STORE(uint16_t, zl_bfloat16_from_float((float)x));
    case ZL_FLOAT32: STORE(float, (float)x);
    default: STORE(double, x);
    }
}

void number_store(void *out, zl_dtype type, const union number *in, enum number_kind kind, size_t n) {
    size_t size = zl_dtype_size(type);
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t some = n - at < CHUNK ? n - at : CHUNK;
        char *to = (char *)out + at * size;
        if (type == ZL_BOOL)
            store_bool((bool *)to, in + at, kind, some);
        else if (type <= ZL_INT64)
            store_whole(to, size, in + at, kind, some);
        else if (type == ZL_COMPLEX64)
            store_complex((float *)to, in + at, kind, some);
        else
            store_floats(to, type, in + at, kind, some);
    }
}

// Converts from NumPy's default dtype in one step.
static void convert_doubles(float *out, const char *in, size_t n) {
    for (size_t k = 0; k < n; k++) {
        double x;
        memcpy(&x, in + k * sizeof x, sizeof x);
        out[k] = (float)x;
    }
}

void number_convert(void *out, zl_dtype out_type, const void *in, int in_type, size_t n) {
    size_t in_size = number_size(in_type), out_size = number_size(out_type);
    if ((int)out_type == in_type) {
        memcpy(out, in, n * in_size);
        return;
    }
    if (out_type == ZL_FLOAT32 && in_type == ZL_FLOAT64) {
        convert_doubles(out, in, n);
        return;
    }
    for (size_t at = 0; at < n; at += CHUNK) {
        _Alignas(16) char aligned[CHUNK * 16];
        union number wide[CHUNK];
        size_t some = n - at < CHUNK ? n - at : CHUNK;
        memcpy(aligned, (const char *)in + at * in_size, some * in_size);
        number_load(wide, aligned, in_type, some);
        number_store((char *)out + at * out_size, out_type, wide, number_kind(in_type), some);
    }
}

PyObject *number_object(const void *element, zl_dtype type) {
    union number x;
    number_load(&x, element, type, 1);
    if (type == ZL_BOOL)
        return PyBool_FromLong((long)x.i);
    switch (number_kind(type)) {
    case NUMBER_INT: return PyLong_FromLongLong(x.i);
    case NUMBER_UINT: return PyLong_FromUnsignedLongLong(x.u);
    case NUMBER_FLOAT: return PyFloat_FromDouble(x.f);
    default: return PyComplex_FromDoubles((double)x.c[0], (double)x.c[1]);
    }
}
