// cuda_dnn.h - cuDNN's graphs: operations on tensors that it runs as one kernel, described once a shape and
// then kept.
//
// A graph is described call by call; what fails leaves it failed, and it has no plan then. Numbers are of
// cuDNN's header.

#ifndef CUDA_DNN_H
#define CUDA_DNN_H

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"

typedef struct dnn_object_ *dnn_object;

enum dnn_type {
    DNN_FLOAT32 = 0,
    DNN_FLOAT64 = 1,
    DNN_FLOAT16 = 2,
    DNN_INT32 = 4,
    DNN_BFLOAT16 = 9,
    DNN_BOOL = 11,
};

enum dnn_row {
    DNN_ADD = 0,
    DNN_MUL = 1,
    DNN_DIV = 6,
    DNN_SUB = 9,
    DNN_EXP = 13,
    DNN_LOG = 15,
    DNN_GREATER_EQUAL = 303,
    DNN_INDEX = 501,
    DNN_SELECT = 601,
};

enum dnn_reduce { DNN_SUM = 0, DNN_MAX = 3 };

// Plans that are looked at of a mode of the heuristics: for float32 those by TF32 come first, up to 32 of
// them.
enum { DNN_TENSORS = 40, DNN_AXES = 5, DNN_CONFIGURATIONS = 64 };

// How a tensor is held: memory that a run gives, an intermediate result, or a number that a run gives.
enum dnn_hold { DNN_MEMORY, DNN_WITHIN, DNN_NUMBER };

struct dnn_tensor {
    dnn_object object;
    enum dnn_type type;
    int ndim;
    int64_t dim[DNN_AXES], stride[DNN_AXES];
};

struct dnn_graph {
    bool failed;
    int tensors, objects, operations;
    struct dnn_tensor tensor[DNN_TENSORS];
    dnn_object object[4 * DNN_TENSORS + 2 * DNN_CONFIGURATIONS], operation[DNN_TENSORS];
};

struct dnn_plan {
    dnn_object plan; // NULL: cuDNN has none
    size_t workspace;
};

bool dnn_is_there(void);
size_t dnn_version(void); // 90501 is 9.5.1; 0: it is not there
enum dnn_type dnn_type_of(zl_dtype dtype);

// Tensors are known by their number, which counts from 0. Strides NULL: row-major.
int dnn_tensor(struct dnn_graph *g, enum dnn_hold hold, enum dnn_type type, int ndim, const int64_t *dim,
               const int64_t *stride);
int dnn_number(struct dnn_graph *g, enum dnn_type type, int ndim); // a number of so many axes
int dnn_like(struct dnn_graph *g, int x, enum dnn_type type);      // an intermediate result of the shape of x

// Operations on tensors; -1: there is none. computes_in: of the operation.
void dnn_matmul(struct dnn_graph *g, int a, int b, int y);
void dnn_reduce(struct dnn_graph *g, enum dnn_reduce how, int x, int y);
void dnn_map(struct dnn_graph *g, enum dnn_row row, enum dnn_type computes_in, int x, int b, int select,
             int y);
void dnn_turn(struct dnn_graph *g, int x, int y); // the same numbers by other strides
void dnn_index(struct dnn_graph *g, int like, int axis, int y); // of each element its position along an axis

struct dnn_conv {
    int axes;
    int64_t stride[3], dilation[3], low[3], high[3];
    bool flip;
};
enum dnn_conv_kind { DNN_CONV_FORWARD, DNN_CONV_OF_INPUT, DNN_CONV_OF_KERNEL };
void dnn_convolve(struct dnn_graph *g, enum dnn_conv_kind kind, const struct dnn_conv *v, int x, int w,
                  int y);

// What a plan may not do: lose digits, by TF32 or the like; need memory of its own.
struct dnn_wish {
    bool exact, no_workspace;
};
// The plan of what was described, for a lane of a unit; NULL plan if cuDNN has none whose results are the
// same in every run.
struct dnn_plan dnn_build(struct dnn_graph *g, int unit, int lane, bool exact);
// So many of such plans at most, what cuDNN holds to be the fastest first; how many.
int dnn_build_some(struct dnn_graph *g, int unit, int lane, struct dnn_wish wish, int most,
                   struct dnn_plan *out);
void dnn_drop(struct dnn_graph *g); // what the plan does not need any more

// cuda_dnn_time.c: the fastest of some plans, which are all run as dnn_run would, and what it takes in
// milliseconds.
int dnn_fastest(const struct kernel_place *p, int plans, const struct dnn_plan *plan, int count,
                const int64_t *tensor, void *const *memory, float *ms);
// in front; the others are let go, all if it is negative
void dnn_keep(int plans, struct dnn_plan *plan, int kept);

// cuda_whole.c: whether a plan of float32 gives whole numbers for whole numbers, so many elements of each
// tensor.
bool dnn_is_whole(const struct kernel_place *p, const struct dnn_plan *plan, int result, int count,
                  const int64_t *tensor, const int64_t *elements);

// One run, in memory for its workspace, between taking a place's lane and giving it back; 0, or cuDNN's code
// of what failed.
void dnn_take(const struct kernel_place *p);
void dnn_give(const struct kernel_place *p);
int dnn_execute(const struct kernel_place *p, const struct dnn_plan *plan, int count, const int64_t *tensor,
                void *const *memory, void *work);

// Runs a plan of that lane: numbers of tensors, and where each is. False and an error.
bool dnn_run(const struct kernel_place *p, const struct dnn_plan *plan, int count, const int64_t *tensor,
             void *const *memory);

#endif
