// tpuv7_rt.h - the functions of SOPHGO's runtime that run kernels, under the vendor's names, for tests
// without the vendor's header.

#ifndef TPUV7_RT_H
#define TPUV7_RT_H

#include <stddef.h>
#include <stdint.h>

typedef enum { tpuRtSuccess, tpuRtErrFailure = 2, tpuRtErrParam = 4, tpuRtErrNomem = 5 } tpuRtStatus_t;
typedef struct tpuRtModule *tpuRtKernelModule_t;
typedef struct tpuRtStream *tpuRtStream_t;

tpuRtStatus_t tpuRtInit(void);
tpuRtStatus_t tpuRtGetDeviceCount(int *count);
tpuRtStatus_t tpuRtSetDevice(int device);
tpuRtStatus_t tpuRtMalloc(void **out, unsigned long long bytes, int parallel);
tpuRtStatus_t tpuRtFree(void **memory, int parallel);
tpuRtStatus_t tpuRtMemcpyS2D(void *to, const void *from, unsigned long long bytes);
tpuRtStatus_t tpuRtMemcpyD2S(void *to, const void *from, unsigned long long bytes);
tpuRtStatus_t tpuRtStreamCreate(tpuRtStream_t *out);
tpuRtStatus_t tpuRtStreamSynchronize(tpuRtStream_t stream);
tpuRtKernelModule_t tpuRtKernelLoadModule(const char *data, size_t bytes, tpuRtStream_t stream);
tpuRtKernelModule_t tpuRtKernelLoadModuleFile(const char *file, tpuRtStream_t stream);
tpuRtStatus_t tpuRtKernelUnloadModule(tpuRtKernelModule_t module, tpuRtStream_t stream);
tpuRtStatus_t tpuRtKernelLaunch(tpuRtKernelModule_t module, const char *name, void *arguments, uint32_t bytes,
                                uint64_t groups, uint64_t blocks, tpuRtStream_t stream);

#endif
