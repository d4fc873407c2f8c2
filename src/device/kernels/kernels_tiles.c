// kernels_tiles.c - tile kernels on devices that run kernels: rendered for the target, compiled, and launched as the IR says, one
// launch for each grid. What a launch needs is found once; the IR is not kept.

#include "device/group_kernel.h"
#include "device/kernels/kernels.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { ROOMS = 8, GRIDS = KERNEL_GRIDS };

// Parameters and sizes that the verifier accepts have room in a call, with the memory between grids.
_Static_assert(TILE_ARGUMENT_BYTES + ROOMS * sizeof(void *) <= sizeof((struct kernel_call *)0)->room,
               "a call has no room for the arguments of tile kernels");

struct kernel_tiles {
    char name[64];
    int parameters, symbols, rooms, grids;
    bool wide;               // symbols have 64 bits
    struct tile_tape *sizes; // bytes of rooms, then groups of grids
    void *kept;              // of a target that runs tile kernels as they are; then it has neither
    uint64_t values;         // bit i: parameter i is a value
    struct kernel_function grid[];
};

// Compiling --------------------------------------------------------------------------------------------------------

// Whether the path can launch it at all, which is for its author to know.
static bool check(const struct kernel_place *p, const struct group_kernel *g) {
    const char *device = p->target->device->name, *name = g->kernel->name;
    if (g->rooms > ROOMS || g->launches > GRIDS || g->has_status)
        return error_false(
            ZL_ERROR_COMPILE,
            "%s: kernel %s has %d grids, %d rooms outside of them%s; %d and %d are possible, and "
            "nothing reads assertions",
            device, name, g->launches, g->rooms, g->has_status ? ", and an assertion" : "", GRIDS, ROOMS);
    return true;
}

static void tiles_free(struct kernel_tiles *t) {
    if (t)
        tile_tape_free(t->sizes);
    memory_free(t);
}

// What stays of a kernel that was rendered. Takes the tape of sizes.
static struct kernel_tiles *keep_launches(struct group_kernel *g) {
    struct kernel_tiles *t = memory_zero(sizeof *t + sizeof t->grid[0] * (size_t)g->launches);
    if (!t)
        return NULL;
    snprintf(t->name, sizeof t->name, "%s", g->kernel->name);
    t->parameters = g->parameters;
    t->symbols = g->kernel->symbols;
    t->rooms = g->rooms;
    t->grids = g->launches;
    t->wide = g->kernel->index_bits == 64;
    for (int i = 0; i < t->grids; i++)
        t->grid[i] =
            (struct kernel_function){.threads = g->launch[i].threads, .shared = (int)g->launch[i].shared};
    t->sizes = g->sizes;
    g->sizes = NULL;
    return t;
}

static bool load(const struct kernel_place *p, struct kernel_tiles *t, const char *kernel,
                 const struct text *source) {
    struct text symbol[GRIDS] = {{0}};
    bool good = true;
    for (int i = 0; i < t->grids; i++) {
        text_add(&symbol[i], "%s_%d", kernel, i);
        good = good && !symbol[i].failed;
        t->grid[i].symbol = symbol[i].data;
    }
    good = good && kernel_compile(p, source, t->grids, t->grid);
    for (int i = 0; i < t->grids; i++) {
        text_free(&symbol[i]);
        t->grid[i].symbol = NULL;
    }
    return good;
}

// For a target that runs tile kernels as they are.
static struct kernel_tiles *keep_kernel(const struct kernel_place *p, const struct tile_kernel *kernel) {
    struct kernel_tiles *t = memory_zero(sizeof *t);
    if (!t)
        return NULL;
    snprintf(t->name, sizeof t->name, "%s", kernel->name);
    t->parameters = kernel->parameters;
    t->symbols = kernel->symbols;
    for (int i = 0; i < kernel->parameters; i++)
        t->values |= (uint64_t)tile_is_by_value(&kernel->parameter[i]) << i;
    if ((t->kept = p->target->keep(p->unit, kernel)))
        return t;
    tiles_free(t);
    return NULL;
}

struct kernel_tiles *kernel_tiles_compile(const struct kernel_place *p, struct tile_kernel *kernel) {
    struct group_kernel g = {0};
    struct kernel_tiles *t = NULL;
    if (p->target->keep)
        return keep_kernel(p, kernel);
    struct text source = {0};
    bool good = render_kernel(&source, kernel, p->record) && group_kernel_open(&g, kernel) && check(p, &g) &&
                (t = keep_launches(&g)) && load(p, t, kernel->name, &source);
    group_kernel_close(&g);
    text_free(&source);
    if (good)
        return t;
    tiles_free(t);
    return NULL;
}

// Launching --------------------------------------------------------------------------------------------------------

// Memory outside of the groups of a launch, in which one grid leaves something for the next.
struct rooms {
    int count;
    void *memory[ROOMS];
    size_t capacity[ROOMS];
};

// Memory of a lane serves what the lane is asked for afterwards: it may be freed as soon as the last grid was asked for.
static void close_rooms(const struct kernel_place *p, const struct rooms *r) {
    for (int i = 0; i < r->count; i++)
        device_free(p->target->device, p->unit, p->lane, r->memory[i], r->capacity[i]);
}

static bool open_rooms(const struct kernel_place *p, struct rooms *r, int count, const int64_t *bytes) {
    for (r->count = 0; r->count < count; r->count++) {
        int i = r->count;
        r->memory[i] =
            device_alloc(p->target->device, p->unit, p->lane, (size_t)MAX_OF(bytes[i], 1), &r->capacity[i]);
        if (!r->memory[i])
            return false;
    }
    return true;
}

static bool launch_grids(const struct kernel_place *p, const struct kernel_tiles *t, const int64_t *groups,
                         const struct kernel_call *k) {
    for (int i = 0; i < t->grids; i++)
        if (groups[i] && !kernel_launch_function(p, &t->grid[i], groups[i], k))
            return false;
    return true;
}

static bool run_kept(const struct kernel_place *p, const struct kernel_tiles *t, const struct kernel_call *k,
                     const int64_t *symbol) {
    void *address[COUNT(k->argument)];
    for (int i = 0; i < k->arguments; i++) {
        const void *value = k->argument[i].value;
        address[i] = t->values >> i & 1 ? (void *)(uintptr_t)value : *(void *const *)value;
    }
    counter_add(COUNTER_LAUNCHES, 1);
    return p->target->run(p, t->kept, address, symbol);
}

bool kernel_launch_tiles(const struct kernel_place *p, const struct kernel_tiles *t, struct kernel_call *k,
                         int symbols, const int64_t *symbol) {
    int64_t size[ROOMS + GRIDS];
    struct rooms rooms;
    if (UNLIKELY(p->batch != NULL))
        return true;
    if (UNLIKELY(symbols != t->symbols || k->arguments != t->parameters))
        return error_false(ZL_ERROR_DEVICE,
                           "kernel %s has %d parameters and %d sizes, and was given %d and %d", t->name,
                           t->parameters, t->symbols, k->arguments, symbols);
    if (UNLIKELY(t->kept != NULL))
        return run_kept(p, t, k, symbol);
    if (UNLIKELY(!tile_tape_sizes(t->sizes, symbol, size)))
        return group_sizes_fail(t->name);
    bool good = open_rooms(p, &rooms, t->rooms, size);
    for (int i = 0; i < rooms.count; i++)
        kernel_add_memory(k, rooms.memory[i]);
    for (int i = 0; i < symbols; i++)
        kernel_add_int(k, symbol[i], t->wide);
    good = good && launch_grids(p, t, size + t->rooms, k);
    close_rooms(p, &rooms);
    return good;
}

// Ops --------------------------------------------------------------------------------------------------------------

static bool add_array(const struct kernel_place *p, struct kernel_call *k, zl_array x) {
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    return memory;
}

bool kernel_run_op(const struct kernel_place *p, const struct call *c) {
    struct op_launch l;
    struct kernel_call k;
    op_launch_open(&l, c);
    kernel_begin_call(&k);
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &l.key, sizeof l.key, op_launch_kernel, &l.key);
    bool good = kernel;
    for (int i = 0; i < l.inputs && good; i++)
        good = add_array(p, &k, l.in[i]);
    for (int i = 0; i < c->outputs && good; i++)
        good = add_array(p, &k, call_output(c, i));
    return good && kernel_launch_tiles(p, kernel, &k, l.symbols, l.symbol);
}
