// command.h - the type of the rows of commands.def, for all code that reads the table.
//
// The table is data: passes choose commands from it, headers.c writes the vendor's headers from it, and
// operand.c resolves and checks the operands of commands by it. A file that needs the rows includes
// commands.def with COMMAND defined; BM1690_ROW makes a struct bm1690_command of a row.

#ifndef BM1690_COMMAND_H
#define BM1690_COMMAND_H

#include <stdint.h>

enum bm1690_engine {
    BM1690_CONTROL, // the control program's own: queries, regions, barriers
    BM1690_TIU,     // computes on local memory
    BM1690_GDMA,    // copies between local memory, L2 and device memory
    BM1690_HAU,     // sorts device memory
    BM1690_ENGINES
};

// data_type_t of the vendor's ABI: name, code, bytes of an element (0: the emulator does not have it).
#define BM1690_DTYPES(DTYPE) \
    DTYPE(UINT8, 0, 1)       \
    DTYPE(INT8, 1, 1)        \
    DTYPE(FP16, 3, 2)        \
    DTYPE(FP32, 5, 4)        \
    DTYPE(UINT16, 6, 2)      \
    DTYPE(INT16, 7, 2)       \
    DTYPE(UINT32, 8, 4)      \
    DTYPE(INT32, 9, 4)       \
    DTYPE(BFP16, 11, 2)      \
    DTYPE(UINT4, 12, 0)      \
    DTYPE(INT4, 13, 0)       \
    DTYPE(FP8E5M2, 15, 1)    \
    DTYPE(FP20, 17, 0)       \
    DTYPE(TF32, 19, 0)       \
    DTYPE(FP8E4M3, 47, 1)
enum bm1690_dtype {
#define DTYPE(NAME, CODE, BYTES) BM1690_##NAME = CODE,
    BM1690_DTYPES(DTYPE)
#undef DTYPE
};

// Sets of dtypes: one bit each.
#define BM1690_BIT(dtype) (1u << ((dtype) == BM1690_FP8E4M3 ? 31 : (dtype)))
enum bm1690_dtypes {
    BM1690_ONLY_F32 = BM1690_BIT(BM1690_FP32),
    BM1690_ONLY_I32 = BM1690_BIT(BM1690_INT32),
    BM1690_HALVES = BM1690_BIT(BM1690_FP16) | BM1690_BIT(BM1690_BFP16),
    BM1690_FLOATS = BM1690_ONLY_F32 | BM1690_HALVES,
    BM1690_INTS8 = BM1690_BIT(BM1690_INT8) | BM1690_BIT(BM1690_UINT8),
    BM1690_INTS16 = BM1690_BIT(BM1690_INT16) | BM1690_BIT(BM1690_UINT16),
    BM1690_INTS32 = BM1690_BIT(BM1690_INT32) | BM1690_BIT(BM1690_UINT32),
    BM1690_INTS = BM1690_INTS8 | BM1690_INTS16 | BM1690_INTS32,
    BM1690_SIGNED = BM1690_BIT(BM1690_INT8) | BM1690_BIT(BM1690_INT16) | BM1690_BIT(BM1690_INT32),
    BM1690_UNSIGNED = BM1690_INTS & ~BM1690_SIGNED,
    BM1690_INDICES = BM1690_BIT(BM1690_UINT8) | BM1690_BIT(BM1690_UINT16), // dtypes of indices of gathers in
                                                                           // local memory
    BM1690_REDUCED = BM1690_FLOATS | BM1690_INTS32,                        // dtypes of accumulation in L2
    BM1690_SORTED = BM1690_ONLY_F32 | BM1690_INTS32,
    BM1690_FP8S = (int)(BM1690_BIT(BM1690_FP8E5M2) | BM1690_BIT(BM1690_FP8E4M3)),
    BM1690_ALL = BM1690_FLOATS | BM1690_INTS | BM1690_FP8S,
};

// C types of parameters and results: the enum's name, its spelling in the header, the member of union
// bm1690_value, how a trace prints it.
#define BM1690_KINDS(KIND)                             \
    KIND(NOTHING, "void", u, NONE)                     \
    KIND(LOCAL, "local_addr_t", u, HEX)                \
    KIND(SYSTEM, "system_addr_t", u, HEX)              \
    KIND(EITHER, "addr_t", u, HEX)                     \
    KIND(SHAPE, "const dim4 *", p, DIM4)               \
    KIND(STRIDE, "const dim4 *", p, DIM4)              \
    KIND(DIM4_OUT, "dim4 *", p, NONE)                  \
    KIND(PAIR, "const dim2 *", p, DIM2)                \
    KIND(PADDING, "const padding_t *", p, DIM4)        \
    KIND(VARIABLE, "const variable_t *", p, VARIABLE)  \
    KIND(CONTEXT, "var_context_t", word, HEX)          \
    KIND(SCALAR, "scalar_t", word, HEX)                \
    KIND(DTYPE, "data_type_t", i, DTYPE)               \
    KIND(ROUNDING, "rounding_mode_t", i, DECIMAL)      \
    KIND(PSUM, "all_reduce_psum_t", i, DECIMAL)        \
    KIND(REDUCTION, "all_reduce_opcode_t", i, DECIMAL) \
    KIND(INT, "int", i, DECIMAL)                       \
    KIND(UNSIGNED, "unsigned int", u, DECIMAL)         \
    KIND(LONG, "unsigned long long", u, HEX)           \
    KIND(BOOL, "bool", i, DECIMAL)                     \
    KIND(CHAR, "char", i, DECIMAL)                     \
    KIND(BYTE, "unsigned char", u, DECIMAL)            \
    KIND(FLOAT, "float", f, FLOAT)                     \
    KIND(POINTER, "void *", p, NONE)                   \
    KIND(TEXT, "const char *", p, NONE)                \
    KIND(SIZE_PAIR, "dim2", pair, NONE)                \
    KIND(RANGE, "range_t", range, NONE)
enum bm1690_kind {
#define KIND(NAME, ...) BM1690_KIND_##NAME,
    BM1690_KINDS(KIND)
#undef KIND
};

// How an address and other parameters form an operand. `of` names those parameters in this order.
enum bm1690_layout {
    BM1690_NO_LAYOUT,
    BM1690_TENSOR,  // shape, stride ("" or NULL: aligned, of device memory contiguous), dtype
    BM1690_MATRIX,  // rows, columns, dtype: {1, rows, 1, columns}, aligned, 64-byte aligned from lane 0
    BM1690_SPLIT,   // rows, columns, columns per channel, dtype: {rows, ceil(columns / per), 1, per}, aligned
    BM1690_LINES,   // rows, columns, row stride, dtype: rows of device memory
    BM1690_SWAPPED, // shape, stride, dtype: the tensor of that shape with channels and columns exchanged
    BM1690_EXCHANGED, // shape, stride, dtype: the same with batch and channels exchanged
    // shape, dtype: the shape that pooling by the parameters kernel, padding, stride and dilation makes of it
    BM1690_POOLED,
    BM1690_LANES,        // channels, columns (""; 1), dtype: {1, channels, 1, columns}, aligned
    BM1690_PACKED_LANES, // channels: 32-bit numbers {1, channels, 1, 1}, compact
    BM1690_ONE_LANE,     // shape, stride, dtype: the tensor of that shape with one channel
    BM1690_LINE_ALIGNED, // shape, dtype: the tensor with each row rounded up to 64 bytes
    BM1690_COLUMN,       // shape, dtype: one element per channel, compact {1, C, 1, 1}
    BM1690_COEFFICIENTS, // dtype: constants of a series, an enum bm1690_series, in each lane
    BM1690_LINE,         // count, dtype: that many elements of device memory
    BM1690_BY_CALL,      // resolved by the command's own function
};

// Series of the functions that are sequences of commands.
enum bm1690_series { BM1690_EXP, BM1690_LOG, BM1690_ERF, BM1690_SIN, BM1690_COS };

enum { BM1690_READ = 1, BM1690_WRITE = 2, BM1690_SCRATCH = 4, BM1690_OF = 4, BM1690_PARAMETERS = 20 };

struct bm1690_parameter {
    const char *name;
    enum bm1690_kind kind;
    int access; // of addresses: BM1690_READ and BM1690_WRITE; SCRATCH: written, and undefined afterwards
    enum bm1690_layout layout;
    const char *of[BM1690_OF]; // the parameters that the layout reads; NULL: none
    uint32_t dtypes;           // allowed values of a dtype
    int least, most;           // range of an integer; both 0: any. For coefficients, `least` is the series
};

// A row: TIU commands take `passes` passes of 64 bytes per lane and cycle over their largest operand.
struct bm1690_command {
    const char *name;
    enum bm1690_engine engine;
    enum bm1690_kind returns;
    int passes;
    struct bm1690_parameter parameter[BM1690_PARAMETERS]; // up to the first without a name
};

// The macros that the words of commands.def expand to.
#define BM1690_ADDRESS(KIND, NAME, ACCESS, LAYOUT, ...)                                                 \
    {                                                                                                   \
        .name = #NAME, .kind = BM1690_KIND_##KIND, .access = ACCESS, .layout = BM1690_##LAYOUT, .of = { \
            __VA_ARGS__                                                                                 \
        }                                                                                               \
    }
#define BM1690_CONSTANTS(NAME, ACCESS, DTYPE, SERIES)                                              \
    {                                                                                              \
        .name = #NAME, .kind = BM1690_KIND_LOCAL, .access = ACCESS, .layout = BM1690_COEFFICIENTS, \
        .of = {DTYPE}, .least = BM1690_##SERIES                                                    \
    }
#define BM1690_PARAMETER(KIND, NAME, DTYPES, LEAST, MOST) \
    { .name = #NAME, .kind = BM1690_KIND_##KIND, .dtypes = (uint32_t)(DTYPES), .least = LEAST, .most = MOST }

#define BM1690_UNPACK(...) __VA_ARGS__
#define BM1690_ROW(NAME, ENGINE, RETURNS, PARAMETERS, PASSES)                                         \
    {                                                                                                 \
        .name = #NAME, .engine = BM1690_##ENGINE, .returns = BM1690_KIND_##RETURNS, .passes = PASSES, \
        .parameter = {                                                                                \
            BM1690_UNPACK PARAMETERS                                                                  \
        }                                                                                             \
    }

#endif
