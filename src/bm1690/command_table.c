// command_table.c - the rows of commands.def as data, and the sizes and names of dtypes.

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
#define DTYPE(NAME, CODE, BYTES) [CODE] = {#NAME, BYTES},
    BM1690_DTYPES(DTYPE)
#undef DTYPE
};

int bm1690_dtype_bytes(enum bm1690_dtype dtype) {
    return (unsigned)dtype < COUNT(dtypes) ? dtypes[dtype].bytes : 0;
}

const char *bm1690_dtype_name(enum bm1690_dtype dtype) {
    const char *name = (unsigned)dtype < COUNT(dtypes) ? dtypes[dtype].name : NULL;
    return name ? name : "of no dtype";
}
