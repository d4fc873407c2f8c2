// command_table.c - the rows of commands.def as data, and dtypes by their codes.

#include "bm1690/bm1690.h"

const struct bm1690_command bm1690_commands[] = {
#define COMMAND(NAME, ENGINE, RETURNS, PARAMETERS, RUN, OPERATION, PASSES) \
    BM1690_ROW(NAME, ENGINE, RETURNS, PARAMETERS, PASSES),
#include "bm1690/commands.def"
};
const int bm1690_command_count = (int)COUNT(bm1690_commands);

static const struct {
    const char *name;
    int bytes;
} dtypes[] = {
    [BM1690_UINT8] = {"UINT8", 1},     [BM1690_INT8] = {"INT8", 1},     [BM1690_FP16] = {"FP16", 2},
    [BM1690_FP32] = {"FP32", 4},       [BM1690_UINT16] = {"UINT16", 2}, [BM1690_INT16] = {"INT16", 2},
    [BM1690_UINT32] = {"UINT32", 4},   [BM1690_INT32] = {"INT32", 4},   [BM1690_BFP16] = {"BFP16", 2},
    [BM1690_UINT4] = {"UINT4", 0},     [BM1690_INT4] = {"INT4", 0},     [BM1690_FP8E5M2] = {"FP8E5M2", 1},
    [BM1690_FP8E4M3] = {"FP8E4M3", 1}, [BM1690_FP20] = {"FP20", 0},     [BM1690_TF32] = {"TF32", 0},
};

int bm1690_dtype_bytes(enum bm1690_dtype dtype) {
    return (unsigned)dtype < COUNT(dtypes) ? dtypes[dtype].bytes : 0;
}

const char *bm1690_dtype_name(enum bm1690_dtype dtype) {
    const char *name = (unsigned)dtype < COUNT(dtypes) ? dtypes[dtype].name : NULL;
    return name ? name : "of no dtype";
}
