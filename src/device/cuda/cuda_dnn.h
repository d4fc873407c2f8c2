// cuda_dnn.h - cuDNN's graphs: operations on tensors that cuDNN runs as one kernel, described once per shape
// and then kept.
//
// A graph is described call by call. After a failed call it is marked as failed, and has no plan. The numbers
// are those of cuDNN's header.

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

// DNN_CONFIGURATIONS: plans of a mode of the heuristics that are examined. For f32, those by TF32 come first,
// up to 32 of them.
enum { DNN_TENSORS = 40, DNN_AXES = 5, DNN_CONFIGURATIONS = 64 };

// The role of a tensor: memory that a run passes, an intermediate result, or a number that a run passes.
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
    dnn_object plan; // NULL: cuDNN has no plan
    size_t workspace;
    int configuration; // which of those that cuDNN proposes for the graph; the same on all lanes of a unit
};

// Returns whether cuDNN is installed and can be loaded.
bool dnn_is_there(void);
// Returns cuDNN's version, of which 90501 is 9.5.1, or 0 without cuDNN.
size_t dnn_version(void);
// Returns cuDNN's name of float64, float16 or bfloat16, and DNN_FLOAT32 for any other dtype.
enum dnn_type dnn_type_of(zl_dtype dtype);

// Adds a tensor, and returns its number, which counts from 0. stride may be NULL: row-major.
int dnn_tensor(struct dnn_graph *g, enum dnn_hold hold, enum dnn_type type, int ndim, const int64_t *dim,
               const int64_t *stride);
// Adds a number that a run gives, as a tensor of so many axes of size 1, and returns its number.
int dnn_number(struct dnn_graph *g, enum dnn_type type, int ndim);
// Adds an intermediate result of the shape of x, row-major, and returns its number.
int dnn_like(struct dnn_graph *g, int x, enum dnn_type type);

// Operations on tensors, by their numbers; y is the result.

// Adds a product of matrices, which computes in float32.
void dnn_matmul(struct dnn_graph *g, int a, int b, int y);
// Adds a reduction to the shape of y, which computes in float32.
void dnn_reduce(struct dnn_graph *g, enum dnn_reduce how, int x, int y);
// Adds an elementwise operation on x, b and what selects between them; -1: it has no such operand.
void dnn_map(struct dnn_graph *g, enum dnn_row row, enum dnn_type computes_in, int x, int b, int select,
             int y);
// Adds a reshape: y has the elements of x by other strides.
void dnn_reshape(struct dnn_graph *g, int x, int y);
// Adds an operation whose result is the index of each element along an axis of `like`.
void dnn_index(struct dnn_graph *g, int like, int axis, int y);

struct dnn_conv {
    int axes;
    int64_t stride[3], dilation[3], low[3], high[3];
    bool flip;
};
enum dnn_conv_kind { DNN_CONV_FORWARD, DNN_CONV_OF_INPUT, DNN_CONV_OF_KERNEL };
// Adds a convolution, or its gradient. x is the input, w the kernel and y the output, or each the gradient of
// it; kind says which of them is computed.
void dnn_convolve(struct dnn_graph *g, enum dnn_conv_kind kind, const struct dnn_conv *v, int x, int w,
                  int y);

// Restrictions on a plan: it must keep full precision (no TF32 or the like); it must not need a workspace.
struct dnn_wish {
    bool exact, no_workspace;
};
// Builds the graph for a lane of a unit. Returns its plan, which is NULL if cuDNN has none whose results are
// the same in every run.
struct dnn_plan dnn_build(struct dnn_graph *g, int unit, int lane, bool exact);
// Builds at most so many of such plans, the one first that cuDNN expects to be the fastest. Returns how many.
int dnn_build_some(struct dnn_graph *g, int unit, int lane, struct dnn_wish wish, int most,
                   struct dnn_plan *out);
// Frees the graph's descriptions; its plans stay.
void dnn_drop(struct dnn_graph *g);

// Runs all plans as dnn_run() would (cuda_dnn_time.c). Returns the index of the fastest, and sets *ms to its
// milliseconds, or to INFINITY if none runs.
int dnn_fastest(const struct kernel_place *p, int plans, const struct dnn_plan *plan, int count,
                const int64_t *tensor, void *const *memory, float *ms);
// Moves plan[kept] to plan[0] and frees the others, or all if kept is negative.
void dnn_keep(int plans, struct dnn_plan *plan, int kept);

// Returns whether a plan of float32, run on tensors of so many elements that are all integers, gives integers
// in tensor[result], as it does if it only multiplies and adds (cuda_whole.c). Returns false, without an
// error, if it cannot run.
bool dnn_is_whole(const struct kernel_place *p, const struct dnn_plan *plan, int result, int count,
                  const int64_t *tensor, const int64_t *elements);

// Locks cuDNN on the place's lane, for dnn_execute().
void dnn_take(const struct kernel_place *p);
// Unlocks it.
void dnn_give(const struct kernel_place *p);
// Enqueues one run, with memory for the plan's workspace. Returns 0, or cuDNN's code of what failed.
int dnn_execute(const struct kernel_place *p, const struct dnn_plan *plan, int count, const int64_t *tensor,
                void *const *memory, void *work);

// Locks the lane and runs a plan of it, given the numbers of its tensors and where each is. Returns false,
// with an error, if it fails.
bool dnn_run(const struct kernel_place *p, const struct dnn_plan *plan, int count, const int64_t *tensor,
             void *const *memory);

#endif
