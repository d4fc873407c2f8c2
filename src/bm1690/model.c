// model.c - modelled time. The figures and their sources:
//
//   1 GHz for all engines                        profiling tables of the wheel tpu_mlir
//   64 bytes per lane and cycle                  eu_num of the running reference model
//   32 x 4 multiply-adds in 16 bits, 64 x 4 in 8 inner parallelism of the same, per lane and cycle
//   68.3 GB/s of device memory per core          profiling tables of the wheel
//   128 GB/s of L2                               profiling tables of the wheel
//
// Outside of parallel regions, engines wait for each other; inside, the busiest engine determines the time.
// Starting a command takes no time, because no figure for it is known.

#include "bm1690/chip.h"

static const double device_bytes = 68.3, l2_bytes = 128; // per cycle of 1 ns

static double view_elements(const struct view *v) {
    return (double)v->dim.n * v->dim.c * v->dim.h * v->dim.w;
}

static double lanes_used(const struct view *v) {
    return MIN_OF(v->dim.c, BM1690_LANE_COUNT);
}

// Returns the number of 64-byte vectors that the busiest lane processes.
static double vectors(const struct view *v) {
    int64_t groups = (v->lane + v->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT;
    int64_t bytes = (int64_t)v->dim.h * v->dim.w * v->size;
    return (double)(v->dim.n * groups * ((bytes + BM1690_VECTOR_BYTES - 1) / BM1690_VECTOR_BYTES));
}

static const struct view *largest(struct command *command) {
    const struct view *most = command_operand(command, 0);
    for (int i = 1; i < command->views; i++)
        if (vectors(command_operand(command, i)) > vectors(most))
            most = command_operand(command, i);
    return most;
}

static bool is_l2(const struct command *command, const struct view *v) {
    for (int i = 0; i < command->views; i++)
        if (&command->view[command->operand[i]] == v)
            return chip_is_l2(command->value[command->operand[i]].u);
    return false;
}

// Returns the cycles of a copy, and in *moved its bytes. The slower side determines the time; both sides of a
// copy within local memory run at L2's bandwidth.
static double dma_cycles(struct command *command, double *moved) {
    double cycles = 0;
    *moved = 0;
    for (int i = 0; i < command->views; i++) {
        const struct view *v = command_operand(command, i);
        double bytes = view_elements(v) * v->size,
               pace = v->is_local || is_l2(command, v) ? l2_bytes : device_bytes;
        *moved = MAX_OF(*moved, bytes);
        cycles = MAX_OF(cycles, bytes / pace);
    }
    return cycles;
}

static bool share_bank(const struct view *a, const struct view *b) {
    int bank = BM1690_LANE_BYTES / BM1690_BANKS;
    int64_t groups_a = (a->lane + a->dim.c - 1) / BM1690_LANE_COUNT,
            groups_b = (b->lane + b->dim.c - 1) / BM1690_LANE_COUNT;
    int64_t end_a = a->offset +
                    ((a->dim.n - 1) * a->stride[0] + groups_a * a->stride[1] + a->dim.h * a->dim.w) * a->size,
            end_b = b->offset +
                    ((b->dim.n - 1) * b->stride[0] + groups_b * b->stride[1] + b->dim.h * b->dim.w) * b->size;
    return a->offset / bank <= (end_b - 1) / bank && b->offset / bank <= (end_a - 1) / bank;
}

static bool has_bank_conflict(struct command *command) {
    for (int i = 0; i < command->views; i++)
        for (int j = 0; j < i; j++)
            if (command_operand(command, i)->offset != command_operand(command, j)->offset &&
                share_bank(command_operand(command, i), command_operand(command, j)))
                return true;
    return false;
}

void model_count(struct command *command) {
    struct core *core = command->core;
    enum bm1690_engine engine = command->row->engine;
    double cycles = command->cycles, moved = 0;
    if (!command->views)
        return;
    const struct view *most = largest(command);
    if (engine == BM1690_TIU) {
        cycles = cycles > 0 ? cycles : vectors(most) * command->row->passes;
        core->report.tiu_cycles += cycles;
        core->report.lane_cycles += cycles * lanes_used(most);
        core->report.bank_conflicts += has_bank_conflict(command);
    } else if (engine == BM1690_GDMA) {
        double time = dma_cycles(command, &moved);
        cycles = cycles > 0 ? cycles : time;
        core->report.bytes += (uint64_t)moved;
    }
    core->report.elements += (uint64_t)view_elements(most);
    core->report.busy[engine] += cycles;
    if (core->is_parallel)
        core->region[engine] += cycles;
    else
        core->cycles += cycles;
}

void model_begin_region(struct core *core) {
    memset(core->region, 0, sizeof core->region);
    core->is_parallel = true;
    core->touches = 0;
}

void model_end_region(struct core *core) {
    double most = 0;
    for (int i = 0; i < BM1690_ENGINES; i++)
        most = MAX_OF(most, core->region[i]);
    core->cycles += most;
    core->is_parallel = false;
    core->touches = 0;
}
