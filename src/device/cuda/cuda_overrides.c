// cuda_overrides.c - the table of overrides: decides which of them runs a call, and describes each.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_queue.h"
#include "op/ops.h"

#include <pthread.h>

// The table -------------------------------------------------------------------------------------------------

enum kind { LIBRARY, RECORDED, KERNEL, ALONE };

enum { // indices of overrides
#define CUDA_OVERRIDE(name, ...) OF_##name,
#define CUDA_OP(...)
#define CUDA_PROGRAM_OP(...)
#define CUDA_COLLECTIVES(...)
#include "device/cuda/cuda_overrides.def"
    OVERRIDES,
    OF_PROGRAMS = OVERRIDES, // calls with no other implementation are no overrides
    OF_GROUPS
};

static const struct {
    const char *name;
    enum kind kind;
    const char *reason, *measured;
} overrides[] = {
#define CUDA_OVERRIDE(name, ...) {#name, __VA_ARGS__},
#define CUDA_OP(...)
#define CUDA_PROGRAM_OP(op, can, take)    {#op, ALONE, "", ""},
#define CUDA_COLLECTIVES(name, can, take) {#name, ALONE, "", ""},
#include "device/cuda/cuda_overrides.def"
};

_Static_assert(COUNT(overrides) == OF_GROUPS + 1,
               "what is no override comes last in cuda_overrides.def, collectives after it");

static const struct row {
    const struct op *op;
    cuda_question *can;
    cuda_function_of *take;
    int override;
} rows[] = {
#define CUDA_OVERRIDE(...)
#define CUDA_OP(op, can, take, override)  {&op_##op, can, take, OF_##override},
#define CUDA_PROGRAM_OP(op, can, take)    {&op_##op, can, take, OF_PROGRAMS},
#define CUDA_COLLECTIVES(name, can, take) {op_collectives, can, take, OF_GROUPS},
#include "device/cuda/cuda_overrides.def"
};

// Calls -----------------------------------------------------------------------------------------------------

static bool may_use;

static void read_setting(void) {
    may_use = setting_flag(SETTING_CUDA_LIBRARIES);
}

bool cuda_uses_libraries(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_setting);
    return may_use;
}

static bool is_of(const struct row *r, const struct call *c) {
    return r->override == OF_GROUPS ? op_is_collective(c->op) : r->op == c->op;
}

static bool can_take(const struct row *r, const struct call *c) {
    return is_of(r, c) && (overrides[r->override].kind > RECORDED || cuda_uses_libraries()) && r->can(c);
}

bool cuda_takes(int unit, const struct call *c) {
    (void)unit;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (can_take(&rows[i], c))
            return true;
    return false;
}

// Runs a call. Overrides that neither record their work nor launch it like our kernels submit it themselves,
// so the recorded work is submitted first.
static enum kernel_taken take(const struct row *r, const struct kernel_place *p, const struct call *c) {
    enum kind kind = overrides[r->override].kind;
    if (kind == RECORDED || kind == KERNEL)
        return r->take(p, c);
    cuda_queue_pause(p->unit, p->lane, true);
    enum kernel_taken taken = r->take(p, c);
    cuda_queue_pause(p->unit, p->lane, false);
    return taken;
}

// Does the same, with a record in the profile, except for recorded calls, which have their own.
static enum kernel_taken take_recorded(const struct row *r, const struct kernel_place *p,
                                       const struct call *c) {
    struct profile_record record;
    cuda_profile_record(p->unit, p->lane, overrides[r->override].name, &record);
    struct profile_work before = profile_open_launch(&record, false);
    struct cuda_command command = {.work = profile_work};
    struct cuda_timing timing = {.event = -1};
    if (overrides[r->override].kind != KERNEL)
        timing = cuda_profile_open(p->unit, p->lane, 1, &command);
    enum kernel_taken taken = take(r, p, c);
    cuda_profile_close(p->unit, p->lane, timing);
    if (taken == KERNEL_NOT_TAKEN)
        profile_work = before;
    else
        profile_close_launch(&record, NULL, before);
    return taken;
}

enum kernel_taken cuda_take(const struct kernel_place *p, const struct call *c) {
    enum kernel_taken taken = KERNEL_NOT_TAKEN;
    for (size_t i = 0; i < COUNT(rows) && taken == KERNEL_NOT_TAKEN; i++)
        if (can_take(&rows[i], c))
            taken = profile_is_on() && overrides[rows[i].override].kind != RECORDED
                        ? take_recorded(&rows[i], p, c)
                        : take(&rows[i], p, c);
    return taken;
}

// The list --------------------------------------------------------------------------------------------------

static struct text ops[OVERRIDES];
static bool has_tiles[OVERRIDES]; // whether all its ops have tile kernels

static void list_ops(void) {
    for (int i = 0; i < OVERRIDES; i++)
        has_tiles[i] = true;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int at = rows[i].override;
        if (at >= OVERRIDES)
            continue;
        text_add(&ops[at], "%s%s", ops[at].len ? " " : "", rows[i].op->name);
        has_tiles[at] = has_tiles[at] && kernels_have(rows[i].op);
    }
}

static int count_lines(const char *text) {
    int lines = 0;
    for (; text && *text; text++)
        lines += *text == '\n';
    return lines;
}

bool cuda_override(int index, zl_kernel_override *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (index < 0 || index >= OVERRIDES)
        return false;
    pthread_once(&once, list_ops);
    *out = (zl_kernel_override){.name = overrides[index].name,
                                .kind = overrides[index].kind == KERNEL ? "kernel" : "library",
                                .ops = ops[index].data ? ops[index].data : "",
                                .otherwise = has_tiles[index] ? "tile kernels" : "cpu",
                                .reason = overrides[index].reason,
                                .measured = overrides[index].measured,
                                .lines = count_lines(cuda_text_of(overrides[index].name))};
    return true;
}
