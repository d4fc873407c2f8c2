// rules.h - the words of the `rule` column of elementwise.def: what an op takes and gives. Nothing else.

#ifndef RULES_H
#define RULES_H

enum op_rule {
    ANY = 0,    // takes every dtype and gives the same
    FLOAT = 1,  // takes floating point and complex numbers only (arrays of integers become float32 first)
    REAL = 2,   // does not take complex numbers
    BITS = 4,   // takes integers and bool only
    TRUTH = 8,  // gives bool
    PART = 16,  // gives float32 of complex64, else the same dtype
    WHOLE = 32, // leaves integers and bool as they are
    NUMBERS = 64, // does not take bool
};

#endif
