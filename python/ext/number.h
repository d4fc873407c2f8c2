// number.h - elements of arrays as C numbers, for convert.c, format.c and interchange.c.
//
// Every element type widens to one of four kinds of eight bytes each, so a conversion is a load and a store.

#ifndef NUMBER_H
#define NUMBER_H

#include "ext.h"

// Element types of foreign memory: a zl_dtype, or this one, which no array has.
#define NUMBER_COMPLEX128 ZL_DTYPE_COUNT

enum number_kind { NUMBER_INT, NUMBER_UINT, NUMBER_FLOAT, NUMBER_COMPLEX };

union number {
    int64_t i;
    uint64_t u;
    double f;
    float c[2];
};

enum number_kind number_kind(int type);
size_t number_size(int type); // returns the bytes of an element

// Widens n elements of a type. `in` is aligned for it.
void number_load(union number *out, const void *in, int type, size_t n);
// Stores n numbers of one kind as elements of a dtype: integers wrap, integer elements drop fractions, and
// real elements drop imaginary parts.
void number_store(void *out, zl_dtype type, const union number *in, enum number_kind kind, size_t n);
// Converts n elements from one type to another. `in` need not be aligned.
void number_convert(void *out, zl_dtype out_type, const void *in, int in_type, size_t n);
// Returns True, 1, 1.0 or 1+0j: the element of a dtype at an address.
PyObject *number_object(const void *element, zl_dtype type);

#endif
