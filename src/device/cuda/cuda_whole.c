// cuda_whole.c - tests whether a plan of cuDNN computes exact products and sums. Plans are flagged if they
// round to TF32, and most are if they use Winograd's or Fourier transforms, but not all. Sums of products of
// small whole numbers are whole in any order, so a fraction in the result gives such a plan away.

#include "device/cuda/cuda_dnn.h"

#include <math.h>

enum { LOOKED_AT = 1 << 14 }; // elements of a result that are checked

// Fills x with an irregular sequence of -1, 0 and 1.
static bool fill(const struct kernel_place *p, void *x, int64_t n) {
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, x);
    return cuda_run_file(p, (struct cuda_file){"signs", ZL_FLOAT32}, &k, 1, &n);
}

static bool is_whole(const struct kernel_place *p, const void *y, int64_t n) {
    int64_t count = MIN_OF(n, LOOKED_AT);
    float *element = memory_alloc(sizeof *element * (size_t)count);
    bool whole = element && cuda_read(p->unit, p->lane, element, y, sizeof *element * (size_t)count);
    for (int64_t i = 0; whole && i < count; i++)
        whole = element[i] == rintf(element[i]);
    memory_free(element);
    return whole;
}

bool dnn_is_whole(const struct kernel_place *p, const struct dnn_plan *plan, int result, int count,
                  const int64_t *tensor, const int64_t *elements) {
    struct kernel_scratch room[DNN_TENSORS] = {{0}};
    void *memory[DNN_TENSORS];
    bool had_error = zl_error(), good = true;
    for (int i = 0; i < count; i++) {
        memory[i] = kernel_scratch_open(p, &room[i], sizeof(float) * (size_t)elements[i]);
        good = good && memory[i] && fill(p, memory[i], elements[i]);
    }
    good = good && dnn_run(p, plan, count, tensor, memory) && is_whole(p, memory[result], elements[result]);
    for (int i = 0; i < count; i++)
        kernel_scratch_close(p, &room[i]);
    if (!had_error)
        zl_clear_error();
    return good;
}
