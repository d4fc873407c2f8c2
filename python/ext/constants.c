// constants.c - named numbers, None as an axis, and versions.

#include <math.h>

#include "ext.h"

// The version of mlx.core that this module replaces, which programs compare with.
#define MLX_VERSION "0.32.4"

bool ext_add_constants(PyObject *core) {
    static const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"e", 2.718281828459045235},  {"euler_gamma", 0.577215664901532861},
        {"pi", 3.141592653589793238}, {"inf", (double)INFINITY},
        {"nan", (double)NAN},
    };
    for (int i = 0; i < COUNT(numbers); i++)
        if (!ext_add(core, numbers[i].name, PyFloat_FromDouble(numbers[i].value)))
            return false;
    return ext_add(core, "newaxis", Py_NewRef(Py_None)) &&
           ext_add(core, "__version__", PyUnicode_FromString(MLX_VERSION)) &&
           ext_add(core, "__zellige_version__", PyUnicode_FromString(zl_version()));
}
