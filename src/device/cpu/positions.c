// positions.c - integers of any dtype and layout, read as positions.

#include "device/cpu/cpu.h"

// One step from each to the next, or none.
static bool is_regular(struct indices *i, zl_array a) {
    struct layout l;
    cpu_layout_start(&l, a->ndim, a->dim, 0);
    cpu_layout_add(&l, i->data, array_item(a), a->ndim, a->dim, array_stride(a));
    cpu_layout_merge(&l);
    i->step = l.axes ? l.axis[0].stride[0] : 0;
    return l.axes <= 1;
}

bool cpu_indices_open(struct indices *i, zl_array a) {
    i->data = array_data(a, &i->value);
    i->dtype = (zl_dtype)a->dtype;
    i->room = NULL;
    if (is_regular(i, a))
        return true;
    OP_ROOM(int64_t, dense, a->ndim);
    if (!dense || !(i->room = memory_alloc(array_item(a) * (size_t)a->size)))
        return false;
    shape_row_major(a->ndim, a->dim, dense);
    cpu_copy(array_item(a), a->ndim, a->dim, i->room, dense, i->data, array_stride(a));
    i->data = i->room;
    i->step = (int64_t)array_item(a);
    return true;
}

void cpu_indices_close(struct indices *i) {
    memory_free(i->room);
}

#define READ(type)                                     \
    for (int64_t i = 0; i < n; i++) {                  \
        type value;                                    \
        memcpy(&value, data + i * step, sizeof value); \
        out[i] = (int64_t)value;                       \
    }                                                  \
    return

static void read_wide(const char *data, int64_t step, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t value;
        memcpy(&value, data + i * step, sizeof value);
        out[i] = value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
}

void cpu_indices_read(const char *data, int64_t step, zl_dtype dtype, int64_t n, int64_t *out) {
    switch (dtype) {
    case ZL_UINT8: READ(uint8_t);
    case ZL_UINT16: READ(uint16_t);
    case ZL_UINT32: READ(uint32_t);
    case ZL_INT8: READ(int8_t);
    case ZL_INT16: READ(int16_t);
    case ZL_INT32: READ(int32_t);
    case ZL_UINT64: read_wide(data, step, n, out); return;
    default: READ(int64_t);
    }
}
