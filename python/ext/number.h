// number.h - elements of arrays as C numbers: how convert.c, format.c and interchange.c read and write them.
//
// Every element type widens to one of four kinds of eight bytes each, so a conversion is a load and a store.

#ifndef NUMBER_H
#define NUMBER_H

#include "ext.h"

// Element types of memory that comes from outside: a zl_dtype, or this one, which no array has.
#define NUMBER_COMPLEX128 ZL_DTYPE_COUNT

enum number_kind { NUMBER_INT, NUMBER_UINT, NUMBER_FLOAT, NUMBER_COMPLEX };

union number {
    int64_t i;
    uint64_t u;
    double f;
    float c[2];
};

enum number_kind number_kind(int type);
size_t number_size(int type); // bytes of one element

// n elements of a type, widened; in is aligned for it.
void number_load(union number *out, const void *in, int type, size_t n);
// n numbers of one kind as elements of a dtype: whole numbers wrap, what an element cannot hold is cut off.
void number_store(void *out, zl_dtype type, const union number *in, enum number_kind kind, size_t n);
// n elements of one type as another; in may lie anywhere.
void number_convert(void *out, zl_dtype out_type, const void *in, int in_type, size_t n);
// True, 1, 1.0 or 1+0j: the element of a dtype at an address.
PyObject *number_object(const void *element, zl_dtype type);

#endif
