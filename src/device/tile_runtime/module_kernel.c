// module_kernel.c - tile kernels on the first GPU of a driver that loads modules: rendered, compiled, and run
// with one launch per grid.
//
// Arguments may be in GPU memory, which kernels use directly, or in host memory, which is copied there and
// back. Launches are on the default stream, so that they follow work that other libraries of the process have
// enqueued there.

#include "device/tile_runtime/module_kernel.h"

#include "device/tile_runtime/group_kernel.h"

enum { POINTER_MEMORY = 2, MEMORY_OF_DEVICE = 2, COMMON_SHARED = 48 << 10, ALIGNMENT = 16 };

struct compiled {
    struct group_kernel group;
    const struct module_target *target;
    void *module;
    void **function; // one per launch
};

// Calls a function of the target's library and checks its result.
#define CALL(t, word, ...) ((t)->check((t)->calls->word(__VA_ARGS__), (t)->names->word))

bool module_bind(void *library, const struct module_names *names, struct module_calls *out,
                 const char **missing) {
#define SYMBOL(word, parameters) {names->word, (void **)(void *)&out->word},
    const struct library_symbol symbols[] = {MODULE_CALLS(SYMBOL)};
#undef SYMBOL
    return library_bind(library, symbols, COUNT(symbols), missing);
}

// Compiling -------------------------------------------------------------------------------------------------

void module_free(void *compiled) {
    struct compiled *c = compiled;
    if (c->module && c->target->open())
        c->target->calls->unload(c->module);
    memory_free(c->function);
    device_group_kernel_close(&c->group);
    memory_free(c);
}

static bool allow_shared(const struct module_target *target, int64_t bytes, void *function) {
    return bytes <= COMMON_SHARED || !target->allow_shared || target->allow_shared(function, bytes);
}

static bool find_functions(struct compiled *c) {
    c->function = memory_zero(sizeof *c->function * (size_t)(c->group.launches + 1));
    for (int i = 0; c->function && i < c->group.launches; i++) {
        struct text name = {0};
        text_add(&name, "%s_%d", c->group.kernel->name, i);
        bool good = !name.failed && CALL(c->target, find, &c->function[i], c->module, name.data) &&
                    allow_shared(c->target, c->group.launch[i].shared, c->function[i]);
        text_free(&name);
        if (!good)
            return false;
    }
    return c->function;
}

static void *load_code(const char *code, size_t bytes, void *context) {
    const struct module_target *target = context;
    void *module = NULL;
    (void)bytes;
    return CALL(target, load, &module, code) ? module : NULL;
}

static bool build(struct compiled *c, const struct target *unit, const struct text *source) {
    struct text identity = {0};
    text_add(&identity, "%s ", unit->name);
    if (c->target->identify(&identity) && !identity.failed)
        c->module = kernel_code_use(&(struct kernel_code){identity.data, source, c->target->compile,
                                                          load_code, (void *)(uintptr_t)c->target});
    text_free(&identity);
    return c->module;
}

void *module_compile(const struct module_target *target, struct tile_kernel *kernel, struct text *source) {
    const struct target *unit = target->open();
    struct compiled *c = unit ? memory_zero(sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->target = target;
    bool good = render_kernel(source, kernel, unit) && device_group_kernel_open(&c->group, kernel) &&
                build(c, unit, source) && find_functions(c);
    if (good)
        return c;
    module_free(c);
    return NULL;
}

// Arguments -------------------------------------------------------------------------------------------------

static bool is_of_device(const struct module_target *target, const void *address) {
    unsigned kind = 0;
    return !target->calls->pointer(&kind, POINTER_MEMORY, (module_address)(uintptr_t)address) &&
           kind == MEMORY_OF_DEVICE;
}

bool module_holds(const struct module_target *target, const void *address) {
    bool had_error = zl_error(), is_open = target->open();
    if (!is_open && !had_error)
        zl_clear_error();
    return is_open && is_of_device(target, address);
}

struct call {
    struct compiled *c;
    const struct module_target *target;
    struct group_sizes sizes;
    void *const *address;
    const int64_t *symbol;
    module_address *memory; // of parameters, rooms, and the status if there is one
    bool *is_ours;          // for each of `memory`: allocated for this call
    void **value, **copy;   // of parameters passed by value: their bytes; host copies made for this call
    void **argument;
    int32_t *narrow; // symbols as 32-bit integers
};

static bool is_value(const struct call *k, int i) {
    return tile_is_by_value(&k->c->group.kernel->parameter[i]);
}

static bool make(struct call *k, int at, int64_t bytes) {
    k->is_ours[at] = CALL(k->target, alloc, &k->memory[at], (size_t)MAX_OF(bytes, 1));
    return k->is_ours[at];
}

static bool bring(struct call *k, int i) {
    void *address = k->address[i];
    if (is_of_device(k->target, address)) {
        k->memory[i] = (module_address)(uintptr_t)address;
        return k->memory[i] % ALIGNMENT == 0 ||
               error_false(
                   ZL_ERROR_VALUE,
                   "zl_kernel_run: argument '%s' begins at an address that is no multiple of %d bytes",
                   k->c->group.kernel->parameter[i].buffer->text, ALIGNMENT);
    }
    return make(k, i, k->sizes.bytes[i]) &&
           (!k->sizes.bytes[i] ||
            CALL(k->target, copy_in, k->memory[i], address, (size_t)k->sizes.bytes[i], NULL));
}

// Makes argument i readable by the host, where the launch needs its value: a table in device memory is
// copied.
static bool find_value(struct call *k, int i) {
    k->value[i] = k->address[i];
    if (k->c->group.kernel->parameter[i].is_scalar || !is_of_device(k->target, k->address[i]))
        return true;
    k->value[i] = k->copy[i] = memory_zero((size_t)k->sizes.bytes[i]);
    return k->copy[i] &&
           CALL(k->target, copy_out, k->copy[i], (module_address)(uintptr_t)k->address[i],
                (size_t)k->sizes.bytes[i], NULL) &&
           CALL(k->target, wait, NULL);
}

static bool make_memory(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    static const int32_t fine = 0;
    int status = g->parameters + g->rooms;
    for (int i = 0; i < g->parameters; i++)
        if (!(is_value(k, i) ? find_value(k, i) : bring(k, i)))
            return false;
    for (int i = 0; i < g->rooms; i++)
        if (!make(k, g->parameters + i, k->sizes.room[i]))
            return false;
    return !g->has_status || (make(k, status, sizeof fine) &&
                              CALL(k->target, copy_in, k->memory[status], &fine, sizeof fine, NULL));
}

static void list_arguments(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    int at = 0;
    for (int i = 0; i < g->parameters; i++)
        k->argument[at++] = is_value(k, i) ? k->value[i] : (void *)&k->memory[i];
    for (int i = 0; i < g->rooms; i++)
        k->argument[at++] = &k->memory[g->parameters + i];
    for (int i = 0; i < g->kernel->symbols; i++) {
        k->narrow[i] = (int32_t)k->symbol[i];
        k->argument[at++] =
            g->kernel->index_bits == 32 ? (void *)&k->narrow[i] : (void *)(uintptr_t)&k->symbol[i];
    }
    if (g->has_status)
        k->argument[at] = &k->memory[g->parameters + g->rooms];
}

static bool call_open(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    size_t memories = (size_t)(g->parameters + g->rooms + 1), symbols = (size_t)g->kernel->symbols;
    k->memory = memory_zero(sizeof *k->memory * memories);
    k->is_ours = memory_zero(sizeof *k->is_ours * memories);
    k->value = memory_zero(sizeof *k->value * memories);
    k->copy = memory_zero(sizeof *k->copy * memories);
    k->argument = memory_zero(sizeof *k->argument * (memories + symbols));
    k->narrow = memory_zero(sizeof *k->narrow * (symbols + 1));
    if (!k->memory || !k->is_ours || !k->value || !k->copy || !k->argument || !k->narrow ||
        !k->target->open() || !device_group_sizes_open(&k->sizes, &k->c->group, k->symbol, k->address) ||
        !make_memory(k))
        return false;
    list_arguments(k);
    return true;
}

static void call_close(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    for (int i = 0; k->is_ours && i <= g->parameters + g->rooms; i++)
        if (k->is_ours[i])
            k->target->calls->free(k->memory[i]);
    for (int i = 0; k->copy && i < g->parameters; i++)
        memory_free(k->copy[i]);
    device_group_sizes_close(&k->sizes);
    memory_free(k->value);
    memory_free(k->copy);
    memory_free(k->memory);
    memory_free(k->is_ours);
    memory_free(k->argument);
    memory_free(k->narrow);
}

// Running ---------------------------------------------------------------------------------------------------

static bool launch_all(struct call *k) {
    for (int i = 0; i < k->c->group.launches; i++) {
        const struct render_launch *l = &k->c->group.launch[i];
        if (k->sizes.groups[i] > INT32_MAX)
            return error_false(ZL_ERROR_VALUE, "%s: kernel %s has %lld blocks, more than a launch can have",
                               k->target->name, k->c->group.kernel->name, (long long)k->sizes.groups[i]);
        if (k->sizes.groups[i] > 0 &&
            !CALL(k->target, launch, k->c->function[i], (unsigned)k->sizes.groups[i], 1, 1,
                  (unsigned)l->threads, 1, 1, (unsigned)l->shared, NULL, k->argument, NULL))
            return false;
    }
    return true;
}

static bool read_results(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    int32_t line = 0;
    for (int i = 0; i < g->parameters; i++)
        if (k->is_ours[i] && g->kernel->parameter[i].buffer->is_output && k->sizes.bytes[i] &&
            !CALL(k->target, copy_out, k->address[i], k->memory[i], (size_t)k->sizes.bytes[i], NULL))
            return false;
    if (g->has_status &&
        !CALL(k->target, copy_out, &line, k->memory[g->parameters + g->rooms], sizeof line, NULL))
        return false;
    if (!CALL(k->target, wait, NULL))
        return false;
    return !line || device_group_kernel_fail(g, line);
}

static struct call call_of(struct compiled *c, void *const *address, const int64_t *symbol) {
    return (struct call){.c = c, .target = c->target, .address = address, .symbol = symbol};
}

bool module_run(void *compiled, void *const *address, const int64_t *symbol) {
    struct call k = call_of(compiled, address, symbol);
    bool good = call_open(&k) && launch_all(&k) && read_results(&k);
    call_close(&k);
    return good;
}

static bool measure(struct call *k, int repeats, double *seconds) {
    const struct module_target *t = k->target;
    void *begin = NULL, *end = NULL;
    float ms = 0;
    bool good =
        CALL(t, event_make, &begin, 0) && CALL(t, event_make, &end, 0) && CALL(t, event_record, begin, NULL);
    for (int i = 0; i < repeats && good; i++)
        good = launch_all(k);
    good = good && CALL(t, event_record, end, NULL) && CALL(t, event_wait, end) &&
           CALL(t, event_between, &ms, begin, end);
    if (begin)
        t->calls->event_free(begin);
    if (end)
        t->calls->event_free(end);
    *seconds = (double)ms / 1e3 / MAX_OF(repeats, 1);
    return good;
}

bool module_time(void *compiled, void *const *address, const int64_t *symbol, int repeats, double *seconds) {
    struct call k = call_of(compiled, address, symbol);
    bool good = call_open(&k) && launch_all(&k) && measure(&k, repeats, seconds) && read_results(&k);
    call_close(&k);
    return good;
}
