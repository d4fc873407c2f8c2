// rules.h - the words of the `rule` column of elementwise.def: the dtypes that an op takes and returns.

#ifndef RULES_H
#define RULES_H

enum op_rule {
    ANY = 0,    // takes every dtype and returns the same
    FLOAT = 1,  // takes floating point and complex numbers (integers become float32 first)
    REAL = 2,   // does not take complex numbers
    BITS = 4,   // takes integers and bool only
    TRUTH = 8,  // returns bool
    PART = 16,  // returns float32 for complex64, else the same dtype
    WHOLE = 32, // returns integers and bool unchanged
    NUMBERS = 64, // does not take bool
};

#endif
