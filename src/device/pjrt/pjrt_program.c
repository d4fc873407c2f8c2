// pjrt_program.c - segments as programs: rendered and compiled when they first run, outside of the planning lock, and kept by their text.

#include "device/pjrt/pjrt.h"

#include "pass/pass.h"

#include <string.h>

enum { CODES_MOST = 1024 }; // that are kept though no program has them

// A compiled text. Programs of plans share it, and it outlives them.
struct code {
    int refs; // programs; under the lock
    struct pjrt_executable *executable;
    char *text;
    int bytes;
};

struct program {
    struct lock lock; // what follows is made once
    struct hlo_program *hlo;
    struct code *code; // NULL: there is nothing to compute
    int calls;
    uint8_t needed[];
};

static struct lock lock; // guards codes
static struct map codes;

// Compiling -----------------------------------------------------------------------------------------------------------

// Options of XLA's CPU plugin also have an entry of env_option_overrides (7): a key (1) and a value (2) with a truth value (2). Minima and
// maxima of NaN are NaN.
#define CPU_OPTION "xla_cpu_enable_fast_min_max"
static const char options[] = PJRT_OPTIONS,
                  cpu_options[] = PJRT_OPTIONS "\x3a\x21\x0a\x1b" CPU_OPTION "\x12\x02\x10\x00";

static struct pjrt_executable *compile(const struct hlo_program *hlo) {
    PJRT_MAKE(program, program, .code = hlo->text, .code_size = (size_t)hlo->bytes, .format = "mlir",
              .format_size = 4);
    pass_dump("stablehlo", hlo->text);
    counter_add(COUNTER_COMPILES, 1);
    bool is_cpu = !strcmp(pjrt_platform(), "cpu");
    PJRT_CALL(Client_Compile, make, .client = pjrt_client(), .program = &program.a,
              .options = is_cpu ? cpu_options : options,
              .options_size = is_cpu ? sizeof cpu_options - 1 : sizeof options - 1);
    return make_ok ? make.a.executable : NULL;
}

static void free_code(struct code *c) {
    bool had_error = zl_error();
    PJRT_CALL(LoadedExecutable_Destroy, end, .executable = c->executable);
    if (!end_ok && !had_error)
        zl_clear_error();
    memory_free(c->text);
    memory_free(c);
}

static void list_unused(const void *key, size_t bytes, void *value, void *data) {
    struct code ***to = data, *c = value;
    (void)key, (void)bytes;
    if (!c->refs)
        *(*to)++ = c;
}

// Under the lock.
static void forget_unused(void) {
    struct code **list = memory_alloc(sizeof *list * (size_t)codes.count), **end = list;
    if (!list)
        return;
    map_each(&codes, list_unused, &end);
    for (struct code **c = list; c < end; c++) {
        map_set(&codes, (*c)->text, (size_t)(*c)->bytes, NULL);
        free_code(*c);
    }
    memory_free(list);
}

static struct code *find_code(const struct hlo_program *hlo) {
    lock_take(&lock);
    struct code *c = map_get(&codes, hlo->text, (size_t)hlo->bytes);
    if (c)
        c->refs++;
    lock_give(&lock);
    return c;
}

// Another thread may have compiled it meanwhile: either will do. Takes the executable over; NULL and an error.
static struct code *keep_code(const struct hlo_program *hlo, struct pjrt_executable *executable) {
    struct code *c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    *c = (struct code){
        .refs = 1, .executable = executable, .text = memory_copy_text(hlo->text), .bytes = hlo->bytes};
    lock_take(&lock);
    if (codes.count >= CODES_MOST)
        forget_unused();
    bool kept = c->text && !map_get(&codes, c->text, (size_t)c->bytes) &&
                map_set(&codes, c->text, (size_t)c->bytes, c);
    lock_give(&lock);
    if (!kept) {
        memory_free(c->text);
        c->text = NULL; // it is one program's
    }
    return c;
}

static struct code *get_code(const struct hlo_program *hlo) {
    struct code *c = find_code(hlo);
    struct pjrt_executable *executable = c ? NULL : compile(hlo);
    return executable ? keep_code(hlo, executable) : c;
}

static void release_code(struct code *c) {
    if (!c)
        return;
    lock_take(&lock);
    bool is_last = --c->refs == 0 && !c->text;
    lock_give(&lock);
    if (is_last)
        free_code(c);
}

// Programs ------------------------------------------------------------------------------------------------------------

struct program *pjrt_build(int unit, const struct segment *s) {
    struct program *p = memory_zero(sizeof *p + (size_t)s->calls);
    (void)unit;
    if (p) {
        p->calls = s->calls;
        memcpy(p->needed, s->needed, (size_t)s->calls);
    }
    return p;
}

void pjrt_drop(struct program *p) {
    hlo_free(p->hlo);
    release_code(p->code);
    memory_free(p);
}

int pjrt_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why) {
    (void)unit, (void)p, (void)why;
    return s->calls - index;
}

extern const struct device device_pjrt;

static bool prepare_code(int unit, const struct segment *s, const uint8_t *skip, struct hlo_program **hlo,
                         struct code **code) {
    *hlo = hlo_render(&device_pjrt, unit, s, skip);
    *code = *hlo && (*hlo)->text ? get_code(*hlo) : NULL;
    if (*hlo && (*code || !(*hlo)->text))
        return true;
    hlo_free(*hlo);
    *hlo = NULL;
    return false;
}

static bool make_ready(int unit, struct program *p, const struct segment *s) {
    lock_take(&p->lock);
    bool ok = p->hlo || prepare_code(unit, s, NULL, &p->hlo, &p->code);
    lock_give(&p->lock);
    return ok;
}

// Running -------------------------------------------------------------------------------------------------------------

struct execution {
    int unit;
    const struct hlo_program *hlo;
    struct binding *b;
    struct pjrt_buffer **argument, **output;
    struct pjrt_buffer *words;
};

static bool put_words(struct execution *e) {
    const struct hlo_program *h = e->hlo;
    struct buffer_form *form = buffer_form_new(ZL_UINT32, 1, (int64_t[]){h->words});
    uint32_t *word = memory_zero(sizeof *word * (size_t)h->words);
    for (int i = 0; word && i < h->scalars; i++)
        scalar_write(e->b->call[h->scalar[i].call]->in[h->scalar[i].input], h->scalar[i].dtype,
                     word + h->scalar[i].word);
    e->words = form && word ? pjrt_put(e->unit, form, word) : NULL;
    memory_free(form);
    memory_free(word);
    return e->words;
}

static bool find_arguments(struct execution *e) {
    const struct hlo_program *h = e->hlo;
    for (int i = 0; i < h->arguments; i++) {
        zl_array x = e->b->call[h->argument[i].call]->in[h->argument[i].input];
        e->argument[i] = device_reach_form(&device_pjrt, e->unit, x->storage, h->argument[i].form);
        if (!e->argument[i])
            return false;
    }
    if (h->words && !put_words(e))
        return false;
    e->argument[h->arguments] = e->words;
    return true;
}

static bool execute(struct execution *e, struct pjrt_executable *executable) {
    PJRT_MAKE(execute_options, how);
    struct pjrt_event *done = NULL;
    PJRT_CALL(LoadedExecutable_Execute, run, .executable = executable, .options = &how.a,
              .arguments = (struct pjrt_buffer *const *const[]){e->argument}, .devices = 1,
              .argument_count = (size_t)(e->hlo->arguments + (e->hlo->words > 0)),
              .outputs = (struct pjrt_buffer * *const[]){e->output}, .done = &done,
              .device = pjrt_device(e->unit));
    counter_add(COUNTER_LAUNCHES, run_ok);
    if (run_ok)
        pjrt_asked(e->unit, done);
    return run_ok;
}

// Results become storages of their arrays; what is left after an error is freed.
static bool adopt(struct execution *e) {
    bool ok = true;
    for (int i = 0; i < e->hlo->results; i++) {
        const struct hlo_result *r = &e->hlo->result[i];
        zl_array out = call_output(e->b->call[r->call], r->output);
        if (ok)
            ok = (out->storage = device_adopt(&device_pjrt, e->unit, e->b->lane, r->form, e->output[i]));
        else
            pjrt_free(e->unit, e->output[i]);
    }
    return ok;
}

static bool run_code(int unit, const struct hlo_program *hlo, const struct code *code, struct binding *b) {
    size_t room = (size_t)(hlo->arguments + 1 + hlo->results);
    struct pjrt_buffer **list = code ? memory_zero(sizeof *list * room) : NULL;
    struct execution e = {.unit = unit, .hlo = hlo, .b = b, .argument = list};
    if (!code)
        return true;
    e.output = list ? list + hlo->arguments + 1 : NULL;
    bool ok = list && find_arguments(&e) && execute(&e, code->executable) && adopt(&e);
    if (e.words)
        pjrt_free(unit, e.words);
    memory_free(list);
    return ok;
}

// Calls -----------------------------------------------------------------------------------------------------------------

static bool is_lost(zl_array x) {
    enum array_state state = array_state(x);
    return state != ARRAY_READY && state != ARRAY_CLAIMED;
}

// Fails the calls whose inputs failed, or are gone, and marks them. Returns how many.
static int skip_lost(struct binding *b, uint8_t *skip) {
    int count = 0;
    for (int i = 0; i < b->calls; i++)
        for (int k = 0; k < b->call[i]->inputs && !skip[i]; k++)
            if (is_lost(b->call[i]->in[k])) {
                b->prepare(b, i, 0);
                b->fail(b, i);
                skip[i] = 1;
                count++;
            }
    return count;
}

// Views, and arrays without elements, get their storage here; a call that an execution computes on its way to others gets none.
static bool prepare(struct binding *b, const uint8_t *skip) {
    for (int i = 0; i < b->calls; i++) {
        const struct call *c = b->call[i];
        bool is_shared = c->op->kind == OP_VIEW || call_first(c)->size == 0;
        if (!skip[i] && is_shared && !b->prepare(b, i, 0))
            return false;
    }
    return true;
}

// All calls fail for one reason, which is the thread's error.
static void fail(struct binding *b, const uint8_t *skip) {
    zl_error_kind kind = ZL_ERROR_DEVICE;
    char *message = error_take(&kind);
    for (int i = 0; i < b->calls; i++)
        if (!skip[i] && array_state(call_first(b->call[i])) != ARRAY_FAILED) {
            error_set(kind, "%s on the pjrt device: %s", b->call[i]->op->name,
                      message ? message : "it failed");
            b->fail(b, i);
        }
    memory_free(message);
}

static bool compute(int unit, struct program *p, struct binding *b, const uint8_t *skip, bool all) {
    struct segment s = {.calls = b->calls, .call = b->call, .needed = p->needed};
    struct hlo_program *hlo = NULL;
    struct code *code = NULL;
    if (all)
        return make_ready(unit, p, &s) && run_code(unit, p->hlo, p->code, b);
    bool ok = prepare_code(unit, &s, skip, &hlo, &code) && run_code(unit, hlo, code, b);
    hlo_free(hlo);
    release_code(code);
    return ok;
}

// Holds what the calls compute, and returns how many there are: a call that fails lets its inputs go. Outputs that only a sibling keeps alive stay so.
static int hold_outputs(struct binding *b, zl_array *held) {
    int count = 0;
    for (int i = 0; i < b->calls; i++)
        for (int k = 0; k < b->call[i]->outputs; k++)
            if (!array_is_forgotten(call_output(b->call[i], k)))
                held[count++] = zl_retain(call_output(b->call[i], k));
    return count;
}

static int count_outputs(const struct binding *b) {
    int count = 0;
    for (int i = 0; i < b->calls; i++)
        count += b->call[i]->outputs;
    return count;
}

void pjrt_run(int unit, struct program *p, struct binding *b) {
    uint8_t *skip = memory_zero((size_t)b->calls);
    zl_array *held = skip ? memory_alloc(sizeof(zl_array) * (size_t)count_outputs(b)) : NULL;
    if (!held) {
        for (int i = 0; i < b->calls; i++)
            b->fail(b, i);
        memory_free(skip);
        return;
    }
    int count = hold_outputs(b, held);
    bool all = !skip_lost(b, skip), ok = compute(unit, p, b, skip, all) && prepare(b, skip);
    for (int i = 0; ok && i < b->calls; i++)
        if (!skip[i])
            b->finish(b, i);
    if (!ok)
        fail(b, skip);
    for (int i = 0; i < count; i++)
        zl_release(held[i]);
    memory_free(held);
    memory_free(skip);
}
