// positions.c - integers of any dtype and layout, read as positions.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"

// Sets the step between indices. Returns false if the strides need more than one.
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
    OP_TEMP(int64_t, dense, a->ndim);
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

// Adds contiguous 32-bit indices along an axis for which 32 bits suffice: vectors can multiply those.
#define ADD_NARROW(name, type, position)                                                                \
    static void name(const char *data, const struct indices_axis *axis, int64_t n,                      \
                     int64_t *restrict offset) {                                                        \
        const int32_t dim = (int32_t)axis->dim, last = (int32_t)axis->last, step = (int32_t)axis->step; \
        (void)dim;                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                               \
            type index;                                                                                 \
            memcpy(&index, data + i * (int64_t)sizeof index, sizeof index);                             \
            offset[i] += (int64_t)(position)*step;                                                      \
        }                                                                                               \
    }
ADD_NARROW(add_unsigned, uint32_t, (int32_t)MIN_OF(index, (uint32_t)last))
ADD_NARROW(add_signed, int32_t, MIN_OF(MAX_OF(index + (index < 0 ? dim : 0), 0), last))

static bool fits_narrow(const struct indices_axis *axis) {
    return axis->dim <= INT32_MAX && axis->step <= INT32_MAX && axis->step >= INT32_MIN;
}

void cpu_indices_add(const struct indices *list, const struct indices_axis *axis, int64_t from, int64_t n,
                     int64_t *offset) {
    const char *data = list->data + from * list->step;
    if (list->step == 4 && fits_narrow(axis) && list->dtype == ZL_UINT32) {
        add_unsigned(data, axis, n, offset);
        return;
    }
    if (list->step == 4 && fits_narrow(axis) && list->dtype == ZL_INT32) {
        add_signed(data, axis, n, offset);
        return;
    }
    for (int64_t at[INDICES_BLOCK], i = 0, part; i < n; i += part) {
        part = MIN_OF(n - i, INDICES_BLOCK);
        cpu_indices_next(list, from + i, part, at);
        for (int64_t k = 0; k < part; k++)
            offset[i + k] += cpu_position(at[k], axis->dim, axis->last) * axis->step;
    }
}
