// pjrt_program.c - programs of segments, which are rendered and compiled when they first run, outside of the
// planning lock.

#include "device/pjrt/pjrt.h"

#include <string.h>

// A segment rendered for inputs and outputs at certain offsets. Other offsets, or more arguments that can be
// donated, need another version. The text is often the same, and is compiled once.
struct version {
    struct hlo_program *hlo;
    struct pjrt_code *code; // NULL: there is nothing to compute
    int refs;               // held by the program and by runs
    int starts;
    int64_t *start;
    struct version *older;
};

enum { VERSIONS_MOST = 8, DONATING_MOST = 4 };

struct program {
    struct lock lock;        // guards everything below
    struct version *version; // the newest
    int versions, donating;  // versions that are kept; how many were rendered to donate more
    int calls;
    uint8_t needed[];
};

// Starts ----------------------------------------------------------------------------------------------------

// Lists what a program's text and words depend on, but a plan's key does not contain: the offsets of all
// arrays that are read and written. Returns how many there are.
static int list_starts(const struct segment *s, int64_t *to) {
    int count = 0;
    for (int i = 0; i < s->calls; i++) {
        const struct call *c = s->call[i];
        int args = c->op == &op_slice_update ? c->args : 0;
        for (int k = 0; k < c->inputs + c->outputs + args; k++, count++)
            if (to)
                to[count] = k < c->inputs                ? c->in[k]->offset
                            : k < c->inputs + c->outputs ? call_output(c, k - c->inputs)->offset
                                                         : call_args(c)[k - c->inputs - c->outputs];
    }
    return count;
}

// Programs --------------------------------------------------------------------------------------------------

struct program *pjrt_build(int unit, const struct segment *s) {
    struct program *p = memory_zero(sizeof *p + (size_t)s->calls);
    (void)unit;
    if (p) {
        p->calls = s->calls;
        memcpy(p->needed, s->needed, (size_t)s->calls);
    }
    return p;
}

static void free_version(struct version *v) {
    hlo_free(v->hlo);
    pjrt_code_release(v->code);
    memory_free(v->start);
    memory_free(v);
}

// Releases a reference. Under the program's lock, if the version belongs to a program.
static void release(struct version *v) {
    if (--v->refs == 0)
        free_version(v);
}

void pjrt_drop(struct program *p) {
    while (p->version) {
        struct version *older = p->version->older;
        release(p->version);
        p->version = older;
    }
    memory_free(p);
}

static const struct hlo_target *target_of(int unit) {
    return pjrt_is_tpu()                     ? hlo_target_of(pjrt_model(unit))
           : !strcmp(pjrt_platform(), "cpu") ? hlo_target_of("cpu")
                                             : NULL;
}

// Begins to compile a program that has not run yet. If its text turns out different when it runs, that text
// is compiled then.
void pjrt_prepare(int unit, struct program *p, const struct segment *s) {
    lock_take(&p->lock);
    bool is_new = !p->version;
    lock_give(&p->lock);
    struct segment own = {.calls = s->calls, .call = s->call, .needed = p->needed};
    struct hlo_program *hlo = is_new ? hlo_foresee(&device_pjrt, unit, &own, target_of(unit)) : NULL;
    if (hlo && hlo->text)
        pjrt_code_begin(hlo);
    hlo_free(hlo);
}

int pjrt_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why) {
    (void)unit, (void)p, (void)why;
    return s->calls - index;
}

// Makes a version. Takes over `start`, the offsets. `before`, unless NULL, is a version that tells which
// arguments could be donated. Returns NULL, with an error, if that fails.
static struct version *new_version(int unit, const struct segment *s, const uint8_t *skip, int starts,
                                   int64_t *start, const struct version *before) {
    struct version *v = memory_zero(sizeof *v);
    if (!v) {
        memory_free(start);
        return NULL;
    }
    *v = (struct version){.refs = 1, .starts = starts, .start = start};
    v->hlo = hlo_render(&device_pjrt, unit, s, skip, before ? before->hlo : NULL, target_of(unit));
    v->code = v->hlo && v->hlo->text ? pjrt_code(v->hlo) : NULL;
    if (v->hlo && (v->code || !v->hlo->text))
        return v;
    free_version(v);
    return NULL;
}

// Adds a version in front of the others, and drops the oldest if there are too many. Under the lock.
static void keep_version(struct program *p, struct version *v) {
    v->older = p->version;
    p->version = v;
    if (++p->versions <= VERSIONS_MOST)
        return;
    struct version **last = &p->version;
    while ((*last)->older)
        last = &(*last)->older;
    release(*last);
    *last = NULL;
    p->versions--;
}

// Returns the newest version that fits views at these offsets. Makes one if there is none, or if a new one
// would donate more inputs. The caller gets a reference. Returns NULL, with an error, if that fails.
static struct version *find_version(int unit, struct program *p, const struct segment *s) {
    int starts = list_starts(s, NULL);
    int64_t *start = memory_alloc(sizeof *start * (size_t)(starts + 1));
    if (!start)
        return NULL;
    list_starts(s, start);
    lock_take(&p->lock);
    struct version *v = p->version, *before = p->version;
    while (v && memcmp(v->start, start, sizeof *start * (size_t)starts) != 0 && !hlo_fits(v->hlo, s->call))
        v = v->older;
    bool donates_more = v && p->donating < DONATING_MOST && hlo_could_donate(v->hlo, s->call);
    if (!v || donates_more) {
        p->donating += donates_more;
        if ((v = new_version(unit, s, NULL, starts, start, before)))
            keep_version(p, v);
    } else {
        memory_free(start);
    }
    if (v)
        v->refs++;
    lock_give(&p->lock);
    return v;
}

static void give_version(struct program *p, struct version *v) {
    if (!v)
        return;
    lock_take(&p->lock);
    release(v);
    lock_give(&p->lock);
}

// Running ---------------------------------------------------------------------------------------------------

struct execution {
    int unit;
    const struct hlo_program *hlo;
    struct binding *b;
    struct pjrt_buffer **argument, **output;
    struct pjrt_buffer *words;
    int64_t *kept; // arguments that the program could take over, but must not
    int kepts;
};

static bool put_words(struct execution *e) {
    const struct hlo_program *h = e->hlo;
    struct buffer_form *form =
        buffer_form_new(ZL_UINT32, 1, (int64_t[]){h->words}, (struct form_bound){.axis = -1});
    uint32_t *word = memory_alloc(sizeof *word * (size_t)h->words);
    if (word)
        memcpy(word, h->word, sizeof *word * (size_t)h->words);
    if (word)
        hlo_put_places(h, e->b->call, word);
    for (int i = 0; word && i < h->scalars; i++)
        scalar_write(e->b->call[h->scalar[i].call]->in[h->scalar[i].input], h->scalar[i].dtype,
                     word + h->scalar[i].word);
    e->words = form && word ? pjrt_put(e->unit, form, word) : NULL;
    memory_free(form);
    memory_free(word);
    return e->words;
}

static struct storage *storage_of(const struct execution *e, int i) {
    return hlo_source_array(&e->hlo->source[e->hlo->argument[i].first], e->b->call)->storage;
}

static bool find_arguments(struct execution *e) {
    const struct hlo_program *h = e->hlo;
    for (int i = 0; i < h->arguments; i++) {
        e->argument[i] = device_reach_form(&device_pjrt, e->unit, storage_of(e, i), h->argument[i].form);
        if (!e->argument[i])
            return false;
        if (h->argument[i].result >= 0 && !hlo_may_donate(h, i, e->b->call))
            e->kept[e->kepts++] = i;
    }
    if (h->words && !put_words(e))
        return false;
    e->argument[h->arguments] = e->words;
    return true;
}

static bool execute(struct execution *e, struct pjrt_executable *executable) {
    PJRT_MAKE(execute_options, how, .kept = e->kept, .kept_count = (size_t)e->kepts);
    struct pjrt_event *done = NULL;
    struct pjrt_timed timed;
    bool is_timed = pjrt_profile_open(&timed, e->unit, e->b->lane);
    PJRT_CALL(LoadedExecutable_Execute, run, .executable = executable, .options = &how.a,
              .arguments = (struct pjrt_buffer *const *const[]){e->argument}, .devices = 1,
              .argument_count = (size_t)(e->hlo->arguments + (e->hlo->words > 0)),
              .outputs = (struct pjrt_buffer * *const[]){e->output}, .done = &done,
              .device = pjrt_device(e->unit));
    if (is_timed)
        pjrt_profile_close(&timed, executable, run_ok);
    counter_add(COUNTER_LAUNCHES, run_ok);
    if (run_ok)
        pjrt_add_execution(e->unit, done);
    return run_ok;
}

// Drops the replicas of arguments whose memory the execution took over, even if it failed: only its calls
// refer to them.
static void give_arguments(struct execution *e) {
    int donated = 0;
    for (int i = 0, kept = 0; i < e->hlo->arguments; i++) {
        bool is_kept = kept < e->kepts && e->kept[kept] == i;
        kept += is_kept;
        if (e->hlo->argument[i].result < 0 || is_kept)
            continue;
        storage_drop_replicas(storage_of(e, i), NULL);
        donated++;
    }
    counter_add(COUNTER_DONATIONS, donated);
}

// Turns results into the storages of their arrays. After an error, the remaining results are freed.
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

static bool run_version(int unit, const struct version *v, struct binding *b) {
    const struct hlo_program *hlo = v->hlo;
    size_t room = (size_t)(hlo->arguments + 1 + hlo->results);
    struct execution e = {.unit = unit, .hlo = hlo, .b = b};
    if (!v->code)
        return true;
    e.argument = memory_zero(sizeof *e.argument * room);
    e.kept = memory_zero(sizeof *e.kept * room);
    e.output = e.argument ? e.argument + hlo->arguments + 1 : NULL;
    bool ok = e.argument && e.kept && find_arguments(&e);
    if (ok) {
        ok = execute(&e, pjrt_code_executable(v->code));
        give_arguments(&e);
        ok = ok && adopt(&e);
    }
    if (e.words)
        pjrt_free(unit, e.words);
    memory_free(e.argument);
    memory_free(e.kept);
    return ok;
}

// Calls -----------------------------------------------------------------------------------------------------

static bool is_lost(zl_array x) {
    enum array_state state = array_state(x);
    return state != ARRAY_READY && state != ARRAY_CLAIMED;
}

// Fails the calls whose inputs failed or are gone, and marks them in skip[]. Returns their number.
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

// Gives views, and arrays without elements, their storage. Results that only the execution reads get none.
static bool prepare(struct binding *b, const uint8_t *skip) {
    for (int i = 0; i < b->calls; i++) {
        const struct call *c = b->call[i];
        bool is_shared = c->op->kind == OP_VIEW || call_first(c)->size == 0;
        if (!skip[i] && is_shared && !b->prepare(b, i, 0))
            return false;
    }
    return true;
}

// Fails all calls, with the thread's error as the reason.
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
    struct version *v = all ? find_version(unit, p, &s) : NULL;
    if (all && !v)
        return false;
    if (v && !hlo_is_bound(v->hlo, b->call)) { // arrays that did not exist when the version was made may have
                                               // other storages
        give_version(p, v);
        v = NULL;
    }
    if (!v)
        v = new_version(unit, &s, skip, 0, NULL, NULL);
    bool ok = v && run_version(unit, v, b);
    give_version(p, v);
    return ok;
}

// Retains the outputs of the calls, because a call that fails releases its inputs. Outputs that nothing but a
// sibling keeps alive are left out. Returns how many are retained.
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
