// op_test.h - functions that tests of ops share: comparing whole arrays with lists of numbers, and checking
// the rules of ops against differences and loops.

#ifndef OP_TEST_H
#define OP_TEST_H

#include "graph/graph.h"
#include "test.h"

#define NUMBERS(...)                                                                  \
    (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), (const double[]) { \
        __VA_ARGS__                                                                   \
    }

// Checks that the array has that dtype and shape, and these elements in row-major order; NaN equals NaN.
#define CHECK_ARRAY(x, dtype, shape, ...) \
    op_test_array(__FILE__, __LINE__, #x, (x), (dtype), (shape), 0, NUMBERS(__VA_ARGS__))
// The same, up to an absolute or relative bound.
#define CHECK_ARRAY_NEAR(x, dtype, shape, bound, ...) \
    op_test_array(__FILE__, __LINE__, #x, (x), (dtype), (shape), (bound), NUMBERS(__VA_ARGS__))
#define CHECK_EMPTY(x, dtype, shape) op_test_array(__FILE__, __LINE__, #x, (x), (dtype), (shape), 0, 0, NULL)
// Checks that x shares the memory of y once both are computed.
#define CHECK_IS_VIEW(x, y) CHECK(op_test_is_view((x), (y)))

bool op_test_array(const char *file, int line, const char *what, zl_array x, zl_dtype dtype, zl_shape shape,
                   double bound, int count, const double *expected);
bool op_test_is_view(zl_array x, zl_array y);

// Return 0, 1, 2, ... in a shape; random numbers in [lo, hi).
zl_array op_test_range(zl_shape shape, zl_dtype dtype);
zl_array op_test_random(zl_shape shape, zl_dtype dtype, double lo, double hi);
zl_array op_test_ready(zl_array x);          // returns x, evaluated
bool     op_test_near(zl_array a, zl_array b); // returns whether all elements are within a millionth of each
                                               // other

// Returns every element as a double, row-major, in memory that the fourth call after this one reuses; NULL if
// x is NULL.
const double *op_test_values(zl_array x);

// A function of one float array, whose rules are all checked: its gradient against differences, its tangent
// against its gradient, and its batching rule against a loop. RULES(name, shape, expression of x) makes a
// test of it.
typedef zl_array op_test_function(zl_array x);
void op_test_rules(op_test_function *f, zl_shape shape, double lo, double hi);
// for functions that cannot be batched
void op_test_derivatives(op_test_function *f, zl_shape shape, double lo, double hi);
// for functions without a derivative
void op_test_batching(op_test_function *f, zl_shape shape, double lo, double hi);
// If a device runs only a sample of evaluations (ZL_SAMPLE), runs all of them or none until op_test_apart,
// depending on the test's name, so that the bits of results may be compared.
void op_test_together(void);
void op_test_apart(void);
// Returns whether the device compiles its calls to one program, whose compiler plans the memory.
bool op_test_is_static(void);

// For files that test the rules of a function or a family themselves, because its arrays need more than the
// table of test_transform_table.c can describe, or its results differ each time.
#define OP_RULES_HERE(name) \
    static const char *const tested_##name __attribute__((used, section("op_tested"))) = #name

#define RULES_IN(id, shape, lo, hi, expression)                \
    static zl_array rule_##id(zl_array x) { return expression; } \
    TEST(rules_##id) { op_test_rules(rule_##id, (shape), (lo), (hi)); }
#define RULES(id, shape, expression) RULES_IN(id, shape, 0.5, 2, expression)
#define DERIVATIVES(id, shape, expression)                        \
    static zl_array derivative_##id(zl_array x) { return expression; } \
    TEST(derivatives_##id) { op_test_derivatives(derivative_##id, (shape), 0.5, 2); }
#define BATCHING(id, shape, expression)                        \
    static zl_array batch_##id(zl_array x) { return expression; } \
    TEST(batching_##id) { op_test_batching(batch_##id, (shape), -2, 2); }

#endif
