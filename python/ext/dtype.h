// dtype.h - shared by dtype.c and interchange.c, beyond ext.h.

#ifndef DTYPE_H
#define DTYPE_H

#include "ext.h"

int dtype_code(zl_dtype dtype); // returns MLX's number of a dtype, which pickles of arrays contain

#endif
