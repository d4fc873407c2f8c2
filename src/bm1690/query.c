// query.c - queries of control programs: sizes of the chip, strides of layouts, casts of scalars, pointers;
// and parallel regions and barriers.

#include "bm1690/chip.h"
#include "bm1690/element.h"

run_function run_nothing, run_parallel, run_sync_all, run_query, run_query_dtype, run_query_address,
    run_channels_per_lane, run_feature_bytes, run_strides, run_channel_stride, run_batch_stride,
    run_local_size, run_scalar_cast, run_memory_pointer, run_local_pointer, run_assertion;

bool run_nothing(struct command *command) {
    (void)command;
    return true;
}

bool run_parallel(struct command *command) {
    struct core *core = command->core;
    bool begins = command->operation;
    if (core->failed)
        return true;
    if (core->is_parallel == begins)
        return command_refuse(command, "", "%s",
                              begins ? "a parallel region is open: end it first"
                                     : "no parallel region is open");
    if (begins)
        model_begin_region(core);
    else
        model_end_region(core);
    return true;
}

bool run_sync_all(struct command *command) {
    struct core *core = command->core;
    if (core->failed || core->cores == 1)
        return true;
    if (!chip_wait_for_cores(core))
        return command_refuse(command, "", "core %d waits for cores that have ended", core->index);
    return true;
}

bool run_query(struct command *command) {
    const struct core *core = command->core;
    uint64_t *result = &command->result.u;
    switch (command->operation) {
    case QUERY_PARALLEL: *result = core->is_parallel; break;
    case QUERY_LANES: *result = BM1690_LANE_COUNT; break;
    case QUERY_BANKS: *result = BM1690_BANKS; break;
    case QUERY_MOST_CORES: *result = BM1690_CORES; break;
    case QUERY_CORES: *result = (uint64_t)core->cores; break;
    case QUERY_CORE: *result = (uint64_t)core->index; break;
    case QUERY_FILTERED: *result = core->filtered; break;
    case QUERY_IS_LAST: *result = core->index == core->cores - 1; break;
    case QUERY_ONE: *result = 1; break;
    case QUERY_LANE_BYTES: *result = BM1690_LANE_BYTES; break;
    case QUERY_L2_BYTES: *result = L2_BYTES; break;
    case QUERY_L2_START: *result = L2_START; break;
    case QUERY_LOCAL_START: *result = LOCAL_START; break;
    case QUERY_STATIC_START: *result = STATIC_START; break;
    case QUERY_LINE_BYTES: *result = BM1690_VECTOR_BYTES; break;
    default: *result = 0; break;
    }
    return true;
}

bool run_query_dtype(struct command *command) {
    enum bm1690_dtype dtype = (enum bm1690_dtype)command->value[0].i;
    int bytes = MAX_OF(bm1690_dtype_bytes(dtype), 1); // at least 1, because programs divide by it
    int64_t *result = &command->result.i;
    switch (command->operation) {
    case QUERY_EUS: *result = BM1690_VECTOR_BYTES / bytes; break;
    case QUERY_INNER: *result = BM1690_VECTOR_BYTES / bytes; break;
    case QUERY_BYTES: *result = bytes; break;
    case QUERY_BITS: *result = bytes * 8; break;
    case QUERY_IS_SIGNED: *result = element_is_float(dtype) || element_is_signed(dtype); break;
    case QUERY_IS_INT: *result = !element_is_float(dtype); break;
    default: *result = element_is_float(dtype); break;
    }
    return true;
}

bool run_query_address(struct command *command) {
    uint64_t address = command->value[0].u;
    command->result.u = command->operation == QUERY_LANE
                            ? address / BM1690_LANE_BYTES
                            : address % BM1690_LANE_BYTES / (BM1690_LANE_BYTES / BM1690_BANKS);
    return true;
}

// Strides of layouts ----------------------------------------------------------------------------------------

static int64_t elements_of_vector(int64_t dtype) {
    int bytes = bm1690_dtype_bytes((enum bm1690_dtype)dtype);
    return bytes ? BM1690_VECTOR_BYTES / bytes : 1;
}

static int64_t groups(int64_t lane, int64_t channels) {
    return (lane + channels + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT;
}

bool run_channels_per_lane(struct command *command) {
    command->result.i = groups(command->value[0].i, command->value[1].i);
    return true;
}

bool run_feature_bytes(struct command *command) {
    int64_t dtype = command->value[2].i;
    command->result.i = round_up(command->value[0].i * command->value[1].i, elements_of_vector(dtype)) *
                        bm1690_dtype_bytes((enum bm1690_dtype)dtype);
    return true;
}

bool run_strides(struct command *command) {
    struct dims *out = (struct dims *)(uintptr_t)command->value[0].p;
    const struct dims *shape = command_value(command, "shape")->p;
    int64_t lane = command_value(command, "start_idx")->i,
            unit = elements_of_vector(command_value(command, "dtype")->i);
    if (!out || !shape)
        return false;
    bool is_line_aligned = command->operation == STRIDES_LINE_ALIGNED;
    int64_t row = is_line_aligned ? round_up(shape->w, unit) : shape->w, channel = row * shape->h;
    if (command->operation == STRIDES_ALIGNED)
        channel = round_up(channel, unit);
    int64_t channels = command->operation == STRIDES_CONTIGUOUS ? shape->c : groups(lane, shape->c);
    *out = (struct dims){(int32_t)(channels * channel), (int32_t)channel, (int32_t)row, 1};
    return true;
}

bool run_channel_stride(struct command *command) {
    int64_t area = command->value[0].i * command->value[1].i;
    command->result.i = command->value[2].i ? round_up(area, elements_of_vector(command->value[3].i)) : area;
    return true;
}

bool run_batch_stride(struct command *command) {
    command->result.i = command->value[0].i * groups(command->value[2].i, command->value[1].i);
    return true;
}

bool run_local_size(struct command *command) {
    const struct dims *shape = command->value[0].p;
    if (!shape)
        return false;
    int64_t dtype = command->value[1].i, area = (int64_t)shape->h * shape->w;
    area = command->value[3].i ? round_up(area, elements_of_vector(dtype)) : area;
    command->result.i = shape->n * groups(command->value[2].i, shape->c) * area *
                        bm1690_dtype_bytes((enum bm1690_dtype)dtype);
    return true;
}

bool run_scalar_cast(struct command *command) {
    uint8_t from[4], to[4] = {0};
    memcpy(from, &command->value[0].word, sizeof from);
    element_cast(to, (enum bm1690_dtype)command->value[1].i, from, (enum bm1690_dtype)command->value[2].i,
                 command_has(command, "mode") ? (int)command->value[3].i : ROUND_EVEN);
    memcpy(&command->result.word, to, sizeof to);
    return true;
}

// Pointers --------------------------------------------------------------------------------------------------

bool run_memory_pointer(struct command *command) {
    struct core *core = command->core;
    uint8_t *data = chip_memory(core->chip, command->value[0].u, 1);
    core->report.scalars++;
    command->result.p = data ? data : chip_nowhere(core);
    return data || core->failed ||
           command_refuse(command, "addr", "is 0x%llx, in no allocation of the device, nor in L2",
                          (unsigned long long)command->value[0].u);
}

bool run_local_pointer(struct command *command) {
    struct core *core = command->core;
    bool has_lane = command_has(command, "start_idx");
    uint64_t address =
        command_value(command, "addr")->u + (has_lane ? command->value[0].u * BM1690_LANE_BYTES : 0);
    bool inside = address < (uint64_t)BM1690_LANE_BYTES * BM1690_LANE_COUNT;
    core->report.scalars++;
    if (inside) // the program may write any byte from there to the end of the lane
        operand_assume_written(core, address);
    command->result.p = inside ? core->local + address : chip_nowhere(core);
    return inside || core->failed ||
           command_refuse(command, "addr", "is 0x%llx; local memory ends at 0x%x",
                          (unsigned long long)address, BM1690_LANE_BYTES * BM1690_LANE_COUNT);
}

bool run_assertion(struct command *command) {
    const char *condition = command->value[2].p;
    return command->core->failed ||
           command_refuse(command, "", "%s:%d: the program's own assertion fails: %s",
                          (const char *)command->value[0].p, (int)command->value[1].i,
                          condition ? condition : "");
}
