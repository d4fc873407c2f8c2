// dlpack.h - the DLPack ABI, as far as arrays in the memory of the CPU need it
// (https://dmlc.github.io/dlpack).

#ifndef DLPACK_H
#define DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_METAL = 8, DLPACK_CUDA_MANAGED = 13 };
enum { DLPACK_INT, DLPACK_UINT, DLPACK_FLOAT, DLPACK_BFLOAT = 4, DLPACK_COMPLEX, DLPACK_BOOL };

struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; // in elements; NULL: row-major
    uint64_t byte_offset;
};

// In a capsule named "dltensor".
struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
};

// In a capsule named "dltensor_versioned".
struct dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

#endif
