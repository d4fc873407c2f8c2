// dtype.h - what dtype.c offers interchange.c beyond ext.h.

#ifndef DTYPE_H
#define DTYPE_H

#include "ext.h"

int dtype_code(zl_dtype dtype); // MLX's number of a dtype, which pickles of arrays hold

#endif
