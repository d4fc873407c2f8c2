// cuda_collective.c - collectives of arrays on a GPU: passes the addresses of the arrays and the lane's
// stream to the engine of the group.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"

bool cuda_collective_can(const struct call *c) {
    (void)c; // the call is on the group's stream, which is on this device only if the engine works here
    return true;
}

static int progress(void *stream) {
    cuda_result state = cuda_api()->cuStreamQuery(stream);
    return state == CUDA_NOT_READY ? 0 : state ? -1 : 1;
}

enum kernel_taken cuda_collective(const struct kernel_place *p, const struct call *c) {
    struct cuda_device *d = cuda_device(p->unit);
    bool sends = c->inputs > 1;
    if (!d)
        return KERNEL_FAILED;
    struct op_transfer t = {.in = sends ? cuda_element(p, c->in[0]) : NULL,
                            .out = cuda_element(p, call_first(c)),
                            .queue = d->stream[p->lane],
                            .progress = progress};
    return (t.in || !sends) && t.out && op_collective_run(c, &t) ? KERNEL_DONE : KERNEL_FAILED;
}
