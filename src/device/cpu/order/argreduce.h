// argreduce.h - elements of a dtype as bytes: compared, and found among others.

#ifndef ARGREDUCE_H
#define ARGREDUCE_H

#include "device/cpu/cpu.h"

// What is compared is kept as extremes are: half floats as float32. What is found is an element.
struct element_search {
    int64_t (*find)(const char *from, int64_t n, const char *value); // the first equal one, or the first NaN; n: none
    bool (*less)(const char *a, const char *b);
    bool (*is_nan)(const char *a);
};
struct element_search cpu_element_search(zl_dtype dtype);

#endif
