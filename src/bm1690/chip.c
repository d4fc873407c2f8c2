// chip.c - device memory, modules and launches.
//
// Cores run on the thread pool. If a program waits for other cores (tpu_sync_all), each core has a thread of
// its own, because all of them have to run at the same time.

#include "bm1690/chip.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { PAGE = 4096, NOWHERE = 1 << 16 };
#define MEMORY_START UINT64_C(0x100000000)

struct buffer {
    uint64_t address;
    size_t bytes;
    uint8_t *data;
};

struct bm1690 {
    struct buffer *buffer; // by address, with gaps
    int buffers, cap;
    struct lock l2_lock;
    uint8_t *l2; // NULL until it is used
    struct core core[BM1690_CORES];
    uint64_t nowhere[BM1690_CORES][NOWHERE / sizeof(uint64_t)];
    pthread_mutex_t mutex; // of the barrier
    pthread_cond_t changed;
    int waiting, running; // numbers of cores
    unsigned round;
    bool stopped; // a core failed or ended: no core waits any longer
};

struct bm1690_module {
    void *library;
    bool waits; // its cores wait for each other
};

// Device memory ---------------------------------------------------------------------------------------------

struct bm1690 *bm1690_open(void) {
    struct bm1690 *chip = memory_zero(sizeof *chip);
    if (!chip)
        return NULL;
    pthread_mutex_init(&chip->mutex, NULL);
    pthread_cond_init(&chip->changed, NULL);
    return chip;
}

void bm1690_close(struct bm1690 *chip) {
    if (!chip)
        return;
    for (int i = 0; i < chip->buffers; i++)
        memory_free_pages(chip->buffer[i].data, chip->buffer[i].bytes);
    for (int i = 0; i < BM1690_CORES; i++) {
        memory_free_pages(chip->core[i].local, (size_t)BM1690_LANE_BYTES * BM1690_LANE_COUNT);
        memory_free(chip->core[i].written);
        memory_free(chip->core[i].touched);
    }
    memory_free_pages(chip->l2, L2_BYTES);
    memory_free(chip->buffer);
    pthread_cond_destroy(&chip->changed);
    pthread_mutex_destroy(&chip->mutex);
    memory_free(chip);
}

static uint64_t page_end(const struct buffer *b) {
    return (b->address + b->bytes + PAGE - 1) / PAGE * PAGE + PAGE; // leaves a free page after each buffer
}

uint64_t bm1690_alloc(struct bm1690 *chip, size_t bytes) {
    uint64_t address = MEMORY_START;
    int at = 0;
    while (at < chip->buffers && chip->buffer[at].address < address + bytes + 2 * PAGE)
        address = page_end(&chip->buffer[at++]);
    if (address + bytes > LOCAL_START) {
        error_set(ZL_ERROR_MEMORY, "bm1690: no room for %zu bytes of device memory", bytes);
        return 0;
    }
    uint8_t *data = memory_alloc_pages(bytes);
    if (!data || !memory_grow(&chip->buffer, &chip->cap, chip->buffers + 1, sizeof *chip->buffer)) {
        memory_free_pages(data, bytes);
        return 0;
    }
    memmove(&chip->buffer[at + 1], &chip->buffer[at], sizeof *chip->buffer * (size_t)(chip->buffers - at));
    chip->buffer[at] = (struct buffer){address, bytes, data};
    chip->buffers++;
    return address;
}

// Returns the last buffer that begins at or before the address, or -1.
static int find_buffer(const struct bm1690 *chip, uint64_t address) {
    int low = 0, high = chip->buffers;
    while (low < high) {
        int middle = (low + high) / 2;
        if (chip->buffer[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

void bm1690_free(struct bm1690 *chip, uint64_t address) {
    int at = find_buffer(chip, address);
    if (at < 0 || chip->buffer[at].address != address)
        return;
    memory_free_pages(chip->buffer[at].data, chip->buffer[at].bytes);
    chip->buffers--;
    memmove(&chip->buffer[at], &chip->buffer[at + 1], sizeof *chip->buffer * (size_t)(chip->buffers - at));
}

bool chip_is_l2(uint64_t address) {
    return address >= L2_START && address < L2_START + L2_BYTES;
}

static uint8_t *l2_memory(struct bm1690 *chip) {
    lock_take(&chip->l2_lock);
    if (!chip->l2)
        chip->l2 = memory_alloc_pages(L2_BYTES);
    uint8_t *data = chip->l2;
    lock_give(&chip->l2_lock);
    return data;
}

uint8_t *chip_memory(struct bm1690 *chip, uint64_t address, uint64_t bytes) {
    if (chip_is_l2(address)) {
        uint8_t *l2 = address + bytes <= L2_START + L2_BYTES ? l2_memory(chip) : NULL;
        return l2 ? l2 + (address - L2_START) : NULL;
    }
    int at = find_buffer(chip, address);
    const struct buffer *b = at < 0 ? NULL : &chip->buffer[at];
    return b && address - b->address <= b->bytes && bytes <= b->bytes - (address - b->address)
               ? b->data + (address - b->address)
               : NULL;
}

uint8_t *chip_nowhere(struct core *core) {
    return (uint8_t *)core->chip->nowhere[core->index];
}

static uint8_t *host_memory(struct bm1690 *chip, uint64_t address, size_t bytes) {
    uint8_t *data = chip_memory(chip, address, bytes);
    return data ? data
                : error_set(ZL_ERROR_VALUE,
                            "bm1690: the %zu bytes at 0x%llx are in no allocation of the device", bytes,
                            (unsigned long long)address);
}

bool bm1690_write(struct bm1690 *chip, uint64_t address, const void *data, size_t bytes) {
    uint8_t *to = host_memory(chip, address, bytes);
    if (to && bytes)
        memcpy(to, data, bytes);
    return to;
}

bool bm1690_read(struct bm1690 *chip, uint64_t address, void *data, size_t bytes) {
    const uint8_t *from = host_memory(chip, address, bytes);
    if (from && bytes)
        memcpy(data, from, bytes);
    return from;
}

// Modules ---------------------------------------------------------------------------------------------------

typedef union bm1690_value call_function(int command, const union bm1690_value *value);

struct bm1690_module *bm1690_module_open(const char *library) {
    struct bm1690_module *m = memory_zero(sizeof *m);
    if (!m)
        return NULL;
    m->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    call_function **call = m->library ? dlsym(m->library, "bm1690_call") : NULL;
    const int *waits = m->library ? dlsym(m->library, "bm1690_waits") : NULL;
    if (!call || !waits) {
        error_set(ZL_ERROR_COMPILE, "compiled device C cannot be loaded: %s", dlerror());
        bm1690_module_close(m);
        return NULL;
    }
    *call = command_issue;
    m->waits = *waits;
    return m;
}

void bm1690_module_close(struct bm1690_module *module) {
    if (!module)
        return;
    if (module->library)
        dlclose(module->library);
    memory_free(module);
}

// Work of a command -----------------------------------------------------------------------------------------

struct spread {
    const struct view *view;
    void (*fn)(void *data, int part);
    void *data;
};

static void run_lane(void *context, int lane) {
    const struct spread *s = context;
    for (int n = 0; n < s->view->dim.n; n++)
        for (int c = lane; c < s->view->dim.c; c += BM1690_LANE_COUNT)
            s->fn(s->data, n * s->view->dim.c + c);
}

void chip_spread(const struct view *view, void (*fn)(void *data, int part), void *data) {
    struct spread s = {view, fn, data};
    int lanes = MIN_OF(view->dim.c, BM1690_LANE_COUNT);
    if ((int64_t)view->dim.n * view->dim.c * view->dim.h * view->dim.w >= 1 << 16) {
        pool_run(lanes, run_lane, &s);
        return;
    }
    for (int i = 0; i < view->dim.n * view->dim.c; i++)
        fn(data, i);
}

// Barriers --------------------------------------------------------------------------------------------------

static void raise_cycles(struct bm1690 *chip, int cores) {
    double most = 0;
    for (int i = 0; i < cores; i++)
        most = MAX_OF(most, chip->core[i].cycles);
    for (int i = 0; i < cores; i++)
        chip->core[i].cycles = most;
}

bool chip_wait_for_cores(struct core *core) {
    struct bm1690 *chip = core->chip;
    bool released = true;
    pthread_mutex_lock(&chip->mutex);
    unsigned round = chip->round;
    if (++chip->waiting == core->cores) {
        raise_cycles(chip, core->cores);
        chip->waiting = 0;
        chip->round++;
        pthread_cond_broadcast(&chip->changed);
    } else {
        while (chip->round == round && !chip->stopped &&
               chip->waiting + (core->cores - chip->running) < core->cores)
            pthread_cond_wait(&chip->changed, &chip->mutex);
        released = chip->round != round || chip->stopped;
        core->failed |= chip->stopped;
    }
    pthread_mutex_unlock(&chip->mutex);
    return released;
}

// Wakes the cores that wait, which then find that this core does not come.
static void leave_barriers(struct core *core) {
    struct bm1690 *chip = core->chip;
    pthread_mutex_lock(&chip->mutex);
    chip->running--;
    chip->stopped |= core->failed;
    pthread_cond_broadcast(&chip->changed);
    pthread_mutex_unlock(&chip->mutex);
}

// Launches --------------------------------------------------------------------------------------------------

typedef void entry_function(const void *arguments);

struct launch {
    struct bm1690 *chip;
    entry_function *entry;
    const void *arguments;
    size_t bytes;
    int cores;
    char *error[BM1690_CORES];
    zl_error_kind kind[BM1690_CORES];
};

static bool core_ready(struct bm1690 *chip, int index, const struct bm1690_options *o, int cores) {
    struct core *core = &chip->core[index];
    size_t bits = (size_t)BM1690_LANE_BYTES * BM1690_LANE_COUNT / 8;
    uint8_t *local =
        core->local ? core->local : memory_alloc_pages((size_t)BM1690_LANE_BYTES * BM1690_LANE_COUNT);
    uint64_t *written = core->written ? core->written : memory_zero(bits);
    struct touch *touched = core->touched;
    int touch_cap = core->touch_cap;
    *core = (struct core){.chip = chip,
                          .index = index,
                          .cores = cores,
                          .local = local,
                          .written = written,
                          .touched = touched,
                          .touch_cap = touch_cap,
                          .counts_only = o->counts_only,
                          .traces = o->traces};
    if (local && written && !o->counts_only)
        memset(written, 0, bits);
    return local && written;
}

// Runs the entry on one core. Each core has its own copy of the arguments, as with the vendor's runtime.
static void run_core(void *data, int part) {
    struct launch *l = data;
    struct core *core = &l->chip->core[part];
    void *arguments = memory_alloc(l->bytes + 1);
    if (arguments) {
        if (l->bytes)
            memcpy(arguments, l->arguments, l->bytes);
        core_here = core;
        l->entry(arguments);
        core_here = NULL;
        if (core->is_parallel && !core->failed)
            core->failed = !error_false(
                ZL_ERROR_DEVICE,
                "bm1690: core %d: the program ends in a parallel region; call tpu_parallel_end", core->index);
    } else {
        core->failed = true;
    }
    memory_free(arguments);
    leave_barriers(core);
}

struct runner {
    struct launch *launch;
    int part;
    pthread_t thread;
    bool running;
};

static void *run_thread(void *data) {
    struct runner *r = data;
    run_core(r->launch, r->part);
    r->launch->error[r->part] = error_take(&r->launch->kind[r->part]);
    return NULL;
}

static void run_threads(struct launch *l) {
    struct runner runner[BM1690_CORES];
    for (int i = 0; i < l->cores; i++) {
        runner[i] = (struct runner){l, i, 0, false};
        runner[i].running = pthread_create(&runner[i].thread, NULL, run_thread, &runner[i]) == 0;
        if (!runner[i].running) {
            l->chip->core[i].failed = true;
            error_set(ZL_ERROR_DEVICE, "bm1690: no thread for core %d", i);
            leave_barriers(&l->chip->core[i]);
        }
    }
    for (int i = 0; i < l->cores; i++) {
        if (runner[i].running)
            pthread_join(runner[i].thread, NULL);
        if (l->error[i])
            error_put(l->kind[i], l->error[i]);
        memory_free(l->error[i]);
    }
}

// Finds the entry of a module. A static function is found by the wrapper that its registration defines.
static entry_function *find_entry(const struct bm1690_module *m, const char *name) {
    char wrapper[256];
    snprintf(wrapper, sizeof wrapper, "%s_wrapper", name);
    void *found = dlsym(m->library, name);
    found = found ? found : dlsym(m->library, wrapper);
    if (!found)
        error_set(ZL_ERROR_VALUE, "bm1690: the device C has no function %s", name);
    return (entry_function *)(uintptr_t)found;
}

static void add_report(struct bm1690_report *out, struct core *core) {
    const struct bm1690_report *r = &core->report;
    for (int i = 0; i < BM1690_ENGINES; i++) {
        out->commands[i] += r->commands[i];
        out->busy[i] = MAX_OF(out->busy[i], r->busy[i]);
    }
    out->bytes += r->bytes;
    out->scalars += r->scalars;
    out->elements += r->elements;
    out->bank_conflicts += r->bank_conflicts;
    out->lane_cycles += r->lane_cycles;
    out->tiu_cycles += r->tiu_cycles;
    out->cycles = MAX_OF(out->cycles, core->cycles);
    if (r->trace.data)
        text_bytes(&out->trace, r->trace.data, r->trace.len);
}

void bm1690_report_free(struct bm1690_report *report) {
    text_free(&report->trace);
}

bool bm1690_launch(struct bm1690 *chip, struct bm1690_module *module, const char *entry,
                   const void *arguments, size_t bytes, const struct bm1690_options *options,
                   struct bm1690_report *report) {
    static const struct bm1690_options usual;
    const struct bm1690_options *o = options ? options : &usual;
    int cores = o->cores ? o->cores : 1;
    struct launch l = {.chip = chip, .arguments = arguments, .bytes = bytes, .cores = cores};
    struct bm1690_report unread = {0}, *out = report ? report : &unread;
    *out = (struct bm1690_report){0};
    if (cores < 1 || cores > BM1690_CORES)
        return error_false(ZL_ERROR_VALUE, "bm1690: %d cores; the chip has %d", cores, BM1690_CORES);
    bool good = (l.entry = find_entry(module, entry)) != NULL;
    for (int i = 0; good && i < cores; i++)
        good = core_ready(chip, i, o, cores);
    if (!good)
        return false;
    chip->waiting = 0;
    chip->running = cores;
    chip->stopped = false;
    if (module->waits && cores > 1)
        run_threads(&l);
    else
        pool_run(cores, run_core, &l);
    for (int i = 0; i < cores; i++) {
        add_report(out, &chip->core[i]);
        good = good && !chip->core[i].failed && !chip->core[i].report.trace.failed && !out->trace.failed;
        text_free(&chip->core[i].report.trace);
    }
    bm1690_report_free(&unread);
    return good;
}
