// chip.h - the internals of the emulator: cores, commands, operands.

#ifndef BM1690_CHIP_H
#define BM1690_CHIP_H

#include "bm1690/bm1690.h"

#include <string.h>

// Returns the least multiple of `to` that is not less than x.
static inline int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

// Types that the ABI passes; the text of headers.c declares the same types under the vendor's names.
struct dims {
    int32_t n, c, h, w;
};
struct pair {
    int32_t h, w;
};
struct padding {
    int32_t top, bottom, left, right;
};
struct variable {
    int32_t type;
    uint32_t word;
}; // a tensor's local address, or a scalar
enum { VARIABLE_TENSOR, VARIABLE_SCALAR, VARIABLE_VECTOR };

union bm1690_value {
    int64_t i;
    uint64_t u;
    float f;
    uint32_t word; // of a scalar
    const void *p;
    int32_t pair[2], range[2];
};

// An operand: a tensor of up to four axes in local memory, L2 or device memory. Strides are in elements.
struct view {
    uint8_t *data; // element 0; of local memory: of lane 0 of the core, plus the offset within a lane
    bool is_local;
    int lane; // of channel 0
    enum bm1690_dtype dtype;
    int size; // bytes of an element
    int access;
    uint32_t offset; // within a lane
    struct dims dim;
    int64_t stride[4];
};

// Memory that a command of a parallel region accesses: bytes of lanes, by a bounding box and by its view.
struct touch {
    struct view view;
    const struct bm1690_command *command;
    enum bm1690_engine engine;
    uint32_t begin, end; // bytes within a lane
};

struct core {
    struct bm1690 *chip;
    int index, cores;
    uint8_t *local;    // lanes x BM1690_LANE_BYTES
    uint64_t *written; // one bit per byte: whether it was written
    bool failed, counts_only, traces;
    bool is_parallel;
    struct touch *touched; // since tpu_parallel_start
    int touches, touch_cap;
    double region[BM1690_ENGINES]; // cycles since tpu_parallel_start
    double cycles;
    uint32_t filtered; // elements that the last mask select or nonzero wrote
    struct bm1690_report report;
};

// A command as it is issued: its row, its values, and its operands resolved and checked, by the index of
// their parameter.
struct command {
    struct core *core;
    const struct bm1690_command *row;
    const union bm1690_value *value;
    int operation;
    struct view view[BM1690_PARAMETERS];
    int views; // operands are view[operand[0]], view[operand[1]], ...
    int operand[BM1690_PARAMETERS];
    union bm1690_value result;
    double cycles; // set by the command's function, if it counts its cycles itself
};
typedef bool run_function(struct command *command);

// Operations by which functions of several commands distinguish them.
enum operation {
    ANY_LANE = 1, // operands may begin in different lanes
    ADD,
    SUB,
    MUL,
    DIV,
    REVERSED_SUB,
    REVERSED_DIV,
    MAX,
    MIN,
    DIFF_ABS,
    ABS,
    NEG,
    SQUARE,
    RELU,
    FLOOR,
    CEIL,
    ROUND,
    RSQRT,
    SQRT,
    RECIPROCAL,
    EXP,
    GREATER,
    LESS,
    EQUAL,
    TRANSPOSE_CW,
    TRANSPOSE_NC,
    TRANSPOSE_CW_TIU,
    TRANSPOSE_WC_TIU,
    MM_NN,
    MM_NT,
    MM_TT,
    STRIDES_ALIGNED,
    STRIDES_LINE_ALIGNED,
    STRIDES_COMPACT,
    STRIDES_CONTIGUOUS,
    QUERY_PARALLEL,
    QUERY_LANES,
    QUERY_BANKS,
    QUERY_MOST_CORES,
    QUERY_CORES,
    QUERY_CORE,
    QUERY_IS_LAST,
    QUERY_ONE,
    QUERY_ZERO,
    QUERY_LANE_BYTES,
    QUERY_L2_BYTES,
    QUERY_L2_START,
    QUERY_LOCAL_START,
    QUERY_STATIC_START,
    QUERY_LINE_BYTES,
    QUERY_EUS,
    QUERY_INNER,
    QUERY_BYTES,
    QUERY_BITS,
    QUERY_IS_SIGNED,
    QUERY_IS_INT,
    QUERY_IS_FLOAT,
    QUERY_LANE,
    QUERY_BANK,
    QUERY_FILTERED,
    AND,
    OR,
    XOR,
    NOT,
    GREATER_EQUAL,
    LESS_EQUAL,
    NOT_EQUAL,
    GATHER,
    SCATTER,
    LOCAL_SOURCE,
    SORT_VALUES,
    SORT_PLACES,
    SEQUENCE_BY_LANE,
    SEQUENCE_BY_ROW,
};

// chip.c ----------------------------------------------------------------------------------------------------

// Returns where the bytes at a chip's address lie, or NULL, without an error, unless all of them are in one
// allocation or in L2.
uint8_t *chip_memory(struct bm1690 *chip, uint64_t address, uint64_t bytes);
// Returns the memory that a control program gets for a wrong address: the launch has failed then, but the
// program continues.
uint8_t *chip_nowhere(struct core *core);
// Returns whether an address is in L2.
bool chip_is_l2(uint64_t address);
// Waits until all cores of the launch wait (tpu_sync_all). Returns false, without an error, if another core
// has ended before; if one has failed, this one fails too.
bool chip_wait_for_cores(struct core *core);
// Calls fn for each batch and channel of a view (part: n * channels + c), by several threads where there is
// much to do: those of one lane in their order, by one thread, as operands may overlap in it.
void chip_spread(const struct view *view, void (*fn)(void *data, int part), void *data);
enum { L2_BYTES = 128 << 20 };
#define L2_START     UINT64_C(0x1e6980000000) // with the tag that the model gives it
#define LOCAL_START  UINT64_C(0x6900000000)
#define STATIC_START UINT64_C(0x6904000000)

// Runs the command of a row of the table for the calling thread's core, and returns its result
// (device_call.c): operands are resolved and checked, and the command is counted. Modules call it.
union bm1690_value command_issue(int index, const union bm1690_value *value);
extern _Thread_local struct core *core_here;

// Fails the launch with an error that names the command and its parameter, the value, and what would be
// right. Returns false.
bool command_refuse(struct command *command, const char *parameter, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Returns the value of the parameter of that name, or zeros if the command has none.
const union bm1690_value *command_value(const struct command *command, const char *name);
// Returns whether the command has a parameter of that name.
bool command_has(const struct command *command, const char *name);
static inline struct view *command_operand(struct command *command, int index) {
    return &command->view[command->operand[index]];
}

// operand.c -------------------------------------------------------------------------------------------------

// Checks the values of the command's parameters: pointers, shapes, dtypes and ranges. Returns false, with an
// error that fails the launch, if one is wrong.
bool operand_check_values(struct command *command);
// Resolves the operands that the table describes to views of the command, and checks them. Returns false,
// with an error that fails the launch, if one is wrong.
bool operand_check_all(struct command *command);
// Resolves a local tensor that no parameter list describes, and checks it as others: a bias, a variable. The
// layout is TENSOR (aligned), LINE_ALIGNED or COLUMN (compact). Only for operands that are read. Returns
// false, with an error that fails the launch, if it is wrong.
bool operand_local(struct command *command, struct view *view, const char *name, uint32_t address,
                   enum bm1690_layout layout, struct dims dim, enum bm1690_dtype dtype, int access);
// Resolves and checks a tensor that is read, whose address is local or not by another parameter; `stride`
// names the parameter with its strides, "" if there is none. Returns false, with an error that fails the
// launch, if it is wrong.
bool operand_either(struct command *command, struct view *view, const char *name, bool is_local,
                    struct dims dim, const char *stride, enum bm1690_dtype dtype);
// Marks the local memory that the command writes as written, and that of its scratch operands as not written.
void operand_mark_written(struct command *command);
// Marks local memory from an address to the end of its lane as written.
void operand_assume_written(struct core *core, uint64_t address);
// Computes the strides, in elements, of a tensor in the aligned layout that begins in a lane.
void operand_aligned_strides(int64_t *stride, int lane, struct dims dim, enum bm1690_dtype dtype);

// Computes y = operation(a, b), as one command does (lane_arithmetic.c). If b is NULL, `scalar` takes its
// place.
void lane_apply(int operation, const struct view *y, const struct view *a, const struct view *b,
                float scalar);

// constants.c -----------------------------------------------------------------------------------------------

// Returns the constants of an enum bm1690_series.
const float *chip_constants_of(int of);
// Returns how many of these constants a lane holds in this dtype.
int chip_constants_count(int of, enum bm1690_dtype dtype);
// Returns whether each lane of v holds these constants.
bool chip_constants_are_there(const struct view *v, int of);

// model.c ---------------------------------------------------------------------------------------------------

// Adds a command's cycles, bytes and elements to the report of its core.
void model_count(struct command *command);
// Begins a parallel region of a core, in which its engines do not wait for each other.
void model_begin_region(struct core *core);
// Ends a parallel region, which took as long as its busiest engine.
void model_end_region(struct core *core);

// A row of elements: w of them, view->stride[3] apart.
static inline uint8_t *view_row(const struct view *v, int n, int c, int h) {
    int64_t lanes = v->lane + c;
    int64_t at = v->is_local ? n * v->stride[0] + lanes / BM1690_LANE_COUNT * v->stride[1] + h * v->stride[2]
                             : n * v->stride[0] + c * v->stride[1] + h * v->stride[2];
    return v->data + at * v->size + (v->is_local ? lanes % BM1690_LANE_COUNT * BM1690_LANE_BYTES : 0);
}

#endif
