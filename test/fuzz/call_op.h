// call_op.h - calls any public op by its described signature, without a list of them.

#ifndef CALL_OP_H
#define CALL_OP_H

#include "test.h"

// The most parameters that an op has.
enum { OP_PARAMS = sizeof ((zl_op_info *)0)->param / sizeof *((zl_op_info *)0)->param };

// The value of one parameter. Which member is read follows from its type.
union op_argument {
    zl_array array;
    struct {
        const zl_array *list;
        int count;
    } arrays;
    int number; // of INT, BOOL and DTYPE
    int64_t wide;
    double real;
    zl_shape shape;
    zl_axes axes;
    zl_array *output;
    const char *string;
};

typedef void op_function(void);

// In the file that tests an op whose arrays must fit each other as chance never makes them:
// OP_FITTING(function, parameter, dtype, sizes...), a row for each array. All its elements are 0.
struct op_fitting {
    const char *op, *param;
    zl_dtype dtype;
    int ndim;
    int64_t dim[4];
    const char *word; // of a text; NULL and no dtype: no array
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
// Such an argument, or one of an op on quantised matrices; false, and nothing, of another op.
bool op_argument_fitting(const zl_op_info *op, const zl_param *param, union op_argument *out);

// What stands for "not given" where the default is None: false, and nothing, of another parameter.
bool op_argument_none(const zl_param *param, union op_argument *out);

// The address of a function of this program by its name; NULL if it has none, or the program was stripped.
op_function *op_address(const char *name);

// Calls the function with op->params arguments. Of a function that returns bool, *result stays NULL.
bool call_op(const zl_op_info *op, op_function *function, const union op_argument *argument,
             zl_array *result);

#endif
