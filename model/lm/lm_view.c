// lm_view.c - slices along one axis.

#include "lm.h"

enum { AXES_MOST = 8 };

zl_array lm_slice(zl_array a, int axis, int64_t start, int64_t stop) {
    int64_t from[AXES_MOST], to[AXES_MOST], step[AXES_MOST];
    int ndim = a ? zl_ndim(a) : 0;
    for (int i = 0; i < ndim && i < AXES_MOST; i++)
        from[i] = i == axis ? start : 0, to[i] = i == axis ? stop : zl_dim(a, i), step[i] = 1;
    return zl_slice(a, (zl_shape){from, ndim}, (zl_shape){to, ndim}, (zl_shape){step, ndim});
}
