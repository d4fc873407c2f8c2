// call_op.h - calls any public op by its described signature, so that no list of ops is needed.

#ifndef CALL_OP_H
#define CALL_OP_H

#include "test.h"

// The largest number of parameters of an op.
enum { OP_PARAMS = sizeof ((zl_op_info *)0)->param / sizeof *((zl_op_info *)0)->param };

// The value of one parameter, whose type determines which member is used.
union op_argument {
    zl_array array;
    struct {
        const zl_array *list;
        int count;
    } arrays;
    int number; // for INT, BOOL and DTYPE
    int64_t wide;
    double real;
    zl_shape shape;
    zl_axes axes;
    zl_array *output;
    const char *string;
};

typedef void op_function(void);

// For files that test an op whose arrays must fit together in a way that random ones never do:
// OP_FITTING(function, parameter, dtype, sizes...), a row for each array. All elements are 0.
struct op_fitting {
    const char *op, *param;
    zl_dtype dtype;
    int ndim;
    int64_t dim[4];
    const char *word; // value of a text parameter; without it and without a dtype, the array is left out
};
#define OP_FITTING(function, parameter, dtype_, ...)                                                      \
    static const struct op_fitting fitting_##function##_##parameter = {                                   \
        #function, #parameter, dtype_, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}, \
            NULL};                                                                                        \
    static const struct op_fitting *const fits_##function##_##parameter                                   \
        __attribute__((used, section("op_fittings"))) = &fitting_##function##_##parameter
// The same for a text, and for an array that is left out.
#define OP_FITTING_WORD(function, parameter, word_)                                    \
    static const struct op_fitting fitting_##function##_##parameter = {                \
        .op = #function, .param = #parameter, .dtype = ZL_DTYPE_COUNT, .word = word_}; \
    static const struct op_fitting *const fits_##function##_##parameter                \
        __attribute__((used, section("op_fittings"))) = &fitting_##function##_##parameter
#define OP_FITTING_NONE(function, parameter) OP_FITTING_WORD(function, parameter, NULL)
// Sets *out to such an argument, or to one of an op on quantised matrices. Returns false, and sets nothing,
// for other ops.
bool op_argument_fitting(const zl_op_info *op, const zl_param *param, union op_argument *out);

// Sets *out to the value that means "not given" if the parameter's default is None. Returns false, and sets
// nothing, for other parameters.
bool op_argument_none(const zl_param *param, union op_argument *out);

// Returns the address of a function of this program by its name; NULL if there is none, or the program was
// stripped.
op_function *op_address(const char *name);

// Calls the function with op->params arguments. If it returns bool, *result stays NULL.
bool call_op(const zl_op_info *op, op_function *function, const union op_argument *argument,
             zl_array *result);

#endif
