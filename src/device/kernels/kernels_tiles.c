// kernels_tiles.c - tile kernels on devices that run kernels: renders a kernel for the target, compiles it,
// and launches each of its grids. What a launch needs is found once; the IR is not kept.

#include "device/tile_runtime/group_kernel.h"
#include "device/kernels/kernels.h"
#include "device/profile/profile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { ROOMS = 8, GRIDS = KERNEL_GRIDS, PARAMETERS = COUNT(((struct kernel_call *)0)->argument) };

// A call has room for all parameters and sizes that the verifier accepts, and for the memory between grids.
_Static_assert(TILE_ARGUMENT_BYTES + ROOMS * sizeof(void *) <= sizeof((struct kernel_call *)0)->room,
               "a call has no room for the arguments of tile kernels");

struct kernel_tiles {
    struct kernel_tiles *twin; // the same kernel, made by another thread at the same time
    char name[64];
    char *
        // the IR before passes, from which profiles compute its cost, and which is compiled again for far
        // arguments; NULL: not kept
        text;
    int parameters, symbols, rooms, grids;
    bool wide;               // symbols have 64 bits
    bool is_dumped;          // launches are printed
    struct tile_tape *bytes; // of each parameter
    struct tile_tape *sizes; // bytes of rooms, then workgroups of grids
    void *kept;              // handle of a target that runs tile kernels as they are; then there are no tapes
    struct parameter {
        char name[32];
        enum kernel_access access;
    } parameter[PARAMETERS];
    struct kernel_function grid[];
};

// Compiling -------------------------------------------------------------------------------------------------

// Returns whether the kernel can be launched at all. The error is meant for its author.
static bool check(const struct kernel_place *p, const struct group_kernel *g) {
    const char *device = p->target->device->name, *name = g->kernel->name;
    if (g->rooms > ROOMS || g->launches > GRIDS || g->has_status)
        return error_false(
            ZL_ERROR_COMPILE,
            "%s: kernel %s has %d grids, %d rooms outside of them%s; %d and %d are possible, and "
            "nothing reads assertions",
            device, name, g->launches, g->rooms, g->has_status ? ", and an assertion" : "", GRIDS, ROOMS);
    return !g->reads_scalars ||
           error_false(ZL_ERROR_COMPILE,
                       "%s: kernel %s: the groups of a launch follow from sizes alone, not from values",
                       device, name);
}

struct kernel_tiles *kernel_tiles_join(struct kernel_tiles *kept, struct kernel_tiles *twin) {
    twin->twin = kept->twin;
    kept->twin = twin;
    return kept;
}

void kernel_tiles_free(struct kernel_tiles *t) {
    if (!t)
        return;
    tile_tape_free(t->bytes);
    tile_tape_free(t->sizes);
    memory_free(t->text);
    memory_free(t);
}

static enum kernel_access access_of(const struct tile_parameter *p) {
    return tile_is_by_value(p) ? KERNEL_VALUE : p->buffer->is_output ? KERNEL_WRITTEN : KERNEL_READ;
}

// Returns the parts of a kernel that every target keeps, with space for its grids, or NULL and an error.
static struct kernel_tiles *keep_parameters(const struct tile_kernel *kernel, int grids) {
    if (kernel->parameters > PARAMETERS) {
        error_set(ZL_ERROR_COMPILE, "kernel %s has %d parameters; %d are possible", kernel->name,
                  kernel->parameters, PARAMETERS);
        return NULL;
    }
    struct kernel_tiles *t = memory_zero(sizeof *t + sizeof t->grid[0] * (size_t)grids);
    if (!t)
        return NULL;
    snprintf(t->name, sizeof t->name, "%s", kernel->name);
    t->symbols = kernel->symbols;
    t->is_dumped = pass_is_dumped("launches");
    for (; t->parameters < kernel->parameters; t->parameters++) {
        const struct tile_parameter *p = &kernel->parameter[t->parameters];
        const char *name = p->is_scalar ? p->scalar->text : p->buffer->text;
        snprintf(t->parameter[t->parameters].name, sizeof t->parameter[0].name, "%s", name);
        t->parameter[t->parameters].access = access_of(p);
    }
    return t;
}

// Returns what is kept of a kernel that was rendered, or NULL and an error. Takes over the tapes.
static struct kernel_tiles *keep_launches(struct group_kernel *g) {
    struct kernel_tiles *t = keep_parameters(g->kernel, g->launches);
    if (!t)
        return NULL;
    t->rooms = g->rooms;
    t->grids = g->launches;
    t->wide = g->kernel->index_bits == 64;
    for (int i = 0; i < t->grids; i++)
        t->grid[i] =
            (struct kernel_function){.threads = g->launch[i].threads, .shared = (int)g->launch[i].shared};
    t->bytes = g->bytes;
    t->sizes = g->sizes;
    g->bytes = g->sizes = NULL;
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

// Keeps a kernel for a target that runs tile kernels as they are.
static struct kernel_tiles *keep_kernel(const struct kernel_place *p, const struct tile_kernel *kernel) {
    struct kernel_tiles *t = keep_parameters(kernel, 0);
    if (!t)
        return NULL;
    if ((t->kept = p->target->keep(p->unit, kernel)))
        return t;
    kernel_tiles_free(t);
    return NULL;
}

// Returns the text of a kernel, or NULL, without an error, if memory runs out: a profile then counts the
// bytes of its arguments.
static char *print_quietly(const struct tile_kernel *kernel) {
    bool had_error = zl_error();
    char *text = tile_print(kernel);
    if (!text && !had_error)
        zl_clear_error();
    return text;
}

struct kernel_tiles *kernel_tiles_compile(const struct kernel_place *p, struct tile_kernel *kernel) {
    struct group_kernel g = {0};
    struct kernel_tiles *t = NULL;
    if (p->target->keep)
        return keep_kernel(p, kernel);
    struct text source = {0};
    char *text = profile_is_on() || p->record->far ? print_quietly(kernel) : NULL;
    bool good = render_kernel(&source, kernel, p->record) && device_group_kernel_open(&g, kernel) &&
                check(p, &g) && (t = keep_launches(&g)) && load(p, t, kernel->name, &source);
    device_group_kernel_close(&g);
    text_free(&source);
    if (good) {
        t->text = text;
        return t;
    }
    memory_free(text);
    kernel_tiles_free(t);
    return NULL;
}

// Launching -------------------------------------------------------------------------------------------------

// Prints the launches of a kernel.
static void dump_launches(const struct kernel_tiles *t, const int64_t *groups, const struct kernel_call *k) {
    static const char *const word[] = {"value", "read", "written"};
    struct text out = {0};
    for (int i = 0; i < t->grids; i++)
        text_add(&out, "%s: %lld group%s of %d threads, %d bytes of shared memory\n", t->name,
                 (long long)groups[i], groups[i] == 1 ? "" : "s", t->grid[i].threads, t->grid[i].shared);
    for (int i = 0; i < t->parameters; i++) {
        const struct kernel_argument *a = &k->argument[i];
        text_add(&out, "  %s: %s, %zu bytes", a->name, word[a->access],
                 a->access == KERNEL_VALUE ? a->bytes : a->reach);
        if (a->access != KERNEL_VALUE)
            text_add(&out, " at %p", *(void *const *)a->value);
        text_add(&out, "\n");
    }
    pass_dump("launches", out.data);
    text_free(&out);
}

static bool launch_grids(const struct kernel_place *p, const struct kernel_tiles *t, const int64_t *groups,
                         const struct kernel_call *k) {
    for (int i = 0; i < t->grids; i++)
        if (groups[i] && !kernel_launch_function(p, &t->grid[i], groups[i], k))
            return false;
    return true;
}

// Does the same, with a record in the profile for each grid. The bytes and operations of all grids are in the
// first record.
static bool launch_recorded(const struct kernel_place *p, const struct kernel_tiles *t, const int64_t *groups,
                            const struct kernel_call *k, const int64_t *symbol) {
    uintptr_t word[64];
    size_t moved[] = {[KERNEL_VALUE] = 0, [KERNEL_READ] = 0, [KERNEL_WRITTEN] = 0};
    struct profile_record r = {.kind = PROFILE_LAUNCH,
                               .unit = (uint8_t)p->unit,
                               .lane = (uint8_t)p->lane,
                               .device = p->target->device,
                               .name = t->name};
    if (t->text && t->symbols < (int)COUNT(word))
        r.words = (uint16_t)(t->symbols + 1);
    word[0] = (uintptr_t)t->text;
    for (int i = 0; i + 1 < r.words; i++)
        word[i + 1] = (uintptr_t)symbol[i];
    for (int i = 0; i < t->parameters; i++)
        moved[k->argument[i].access] += k->argument[i].reach;
    r.read = (float)moved[KERNEL_READ];
    r.written = (float)moved[KERNEL_WRITTEN];
    bool good = true;
    for (int i = 0; good && i < t->grids; i++) {
        if (!groups[i])
            continue;
        struct profile_work before = profile_open_launch(&r, true);
        good = kernel_launch_function(p, &t->grid[i], groups[i], k);
        profile_close_launch(&r, word, before);
        r.words = 0;
        r.read = r.written = 0;
        r.is_part = true;
    }
    return good;
}

static bool run_kept(const struct kernel_place *p, const struct kernel_tiles *t, const struct kernel_call *k,
                     const int64_t *symbol) {
    void *address[COUNT(k->argument)];
    for (int i = 0; i < k->arguments; i++) {
        const void *value = k->argument[i].value;
        address[i] =
            t->parameter[i].access == KERNEL_VALUE ? (void *)(uintptr_t)value : *(void *const *)value;
    }
    counter_add(COUNTER_LAUNCHES, 1);
    return p->target->run(p, t->kept, address, symbol);
}

// Far arguments ---------------------------------------------------------------------------------------------

static bool is_far(const struct kernel_place *p, const struct kernel_tiles *t, const struct kernel_call *k,
                   const int64_t *room) {
    uint64_t reach = p->record->reach;
    bool is_far = false;
    for (int i = 0; i < t->parameters; i++)
        is_far |= k->argument[i].access != KERNEL_VALUE && k->argument[i].reach > reach;
    for (int i = 0; i < t->rooms; i++)
        is_far |= (uint64_t)room[i] > reach;
    return is_far;
}

static struct tile_kernel *parse_again(const void *tiles) {
    const struct kernel_tiles *t = tiles;
    return t->text ? tile_parse(t->text, t->name)
                   : error_set(ZL_ERROR_MEMORY, "kernel %s was not kept", t->name);
}

// Returns the kernel for arguments that are beyond the reach of the unit's usual record, or NULL and an
// error. Its key is the address of the usual kernel.
static const struct kernel_tiles *find_far(const struct kernel_place *p, const struct kernel_tiles *t) {
    struct kernel_place far = *p;
    far.record = p->record->far;
    return kernel_find_tiles(&far, &t, sizeof t, parse_again, t);
}

// Sets the names and accesses of the arguments. If the size of some memory is unknown, the bytes that the
// kernel accesses are computed from its sizes.
static bool describe(const struct kernel_tiles *t, struct kernel_call *k, const int64_t *symbol) {
    int64_t bytes[PARAMETERS];
    bool is_known = true;
    for (int i = 0; i < t->parameters; i++) {
        struct kernel_argument *a = &k->argument[i];
        a->name = t->parameter[i].name;
        a->access = t->parameter[i].access;
        is_known &= a->reach != KERNEL_ANY;
    }
    if (is_known)
        return true;
    if (!tile_tape_sizes(t->bytes, symbol, bytes))
        return device_group_sizes_fail(t->name);
    for (int i = 0; i < t->parameters; i++)
        if (k->argument[i].reach == KERNEL_ANY)
            k->argument[i].reach = (size_t)bytes[i];
    return true;
}

bool kernel_launch_tiles(const struct kernel_place *p, const struct kernel_tiles *t, struct kernel_call *k,
                         int symbols, const int64_t *symbol) {
    int64_t size[ROOMS + GRIDS];
    struct kernel_scratch room[ROOMS]; // memory in which one grid leaves values for the next
    int rooms = 0;
    if (UNLIKELY(p->batch != NULL))
        return true;
    if (UNLIKELY(symbols != t->symbols || k->arguments != t->parameters))
        return error_false(ZL_ERROR_DEVICE,
                           "kernel %s has %d parameters and %d sizes, and was given %d and %d", t->name,
                           t->parameters, t->symbols, k->arguments, symbols);
    if (UNLIKELY(t->kept != NULL))
        return run_kept(p, t, k, symbol);
    if (UNLIKELY(!tile_tape_sizes(t->sizes, symbol, size)))
        return device_group_sizes_fail(t->name);
    if (UNLIKELY(!describe(t, k, symbol)))
        return false;
    if (UNLIKELY(p->record->far && is_far(p, t, k, size) && !(t = find_far(p, t))))
        return false;
    for (; rooms < t->rooms && kernel_scratch_open(p, &room[rooms], (size_t)size[rooms]); rooms++)
        kernel_add_bytes(k, room[rooms].memory, (size_t)size[rooms]);
    for (int i = 0; i < symbols; i++)
        kernel_add_int(k, symbol[i], t->wide);
    if (UNLIKELY(t->is_dumped))
        dump_launches(t, size + t->rooms, k);
    bool good = rooms == t->rooms && (profile_is_on() ? launch_recorded(p, t, size + t->rooms, k, symbol)
                                                      : launch_grids(p, t, size + t->rooms, k));
    for (int i = 0; i < rooms; i++)
        kernel_scratch_close(p, &room[i]);
    return good;
}

// Ops -------------------------------------------------------------------------------------------------------

bool kernel_run_op(const struct kernel_place *p, const struct call *c) {
    struct op_launch l;
    struct kernel_call k;
    device_op_launch_open(&l, c);
    kernel_begin_call(&k);
    const struct op_choice choice = {&l.key, p->record};
    const struct kernel_tiles *kernel =
        kernel_find_tiles(p, &l.key, sizeof l.key, device_op_choice_kernel, &choice);
    bool good = kernel;
    for (int i = 0; i < l.inputs && good; i++)
        good = kernel_add_array(p, &k, l.in[i]);
    for (int i = 0; i < l.values; i++)
        kernel_add(&k, &l.value[i], l.value[i].bytes);
    for (int i = 0; i < c->outputs && good; i++)
        good = kernel_add_array(p, &k, call_output(c, i));
    return good && kernel_launch_tiles(p, kernel, &k, l.symbols, l.symbol);
}
