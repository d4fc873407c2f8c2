// cuda_time.c - measures how long work takes on a lane, between two events.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"

#include <math.h>

float cuda_time(int unit, int lane, int runs, bool (*run)(const void *data), const void *data) {
    const struct cuda_api *cuda = cuda_api();
    struct cuda_device *d = cuda_device(unit);
    cuda_event mark[2] = {NULL, NULL};
    float ms = INFINITY;
    bool done = d && !cuda->cuEventCreate(&mark[0], 0) && !cuda->cuEventCreate(&mark[1], CUDA_EVENT_BLOCKS) &&
                !cuda->cuEventRecord(mark[0], d->stream[lane]);
    for (int i = 0; done && i < runs; i++)
        done = run(data);
    done = done && !cuda->cuEventRecord(mark[1], d->stream[lane]) && !cuda->cuEventSynchronize(mark[1]) &&
           !cuda->cuEventElapsedTime(&ms, mark[0], mark[1]);
    for (int i = 0; i < 2; i++)
        if (mark[i])
            cuda->cuEventDestroy_v2(mark[i]);
    return done ? ms / (float)runs : INFINITY;
}
