// pjrt_ahead.c - compiles the program of arrays for chips that need not be present, by the plugin's compiler
// and a topology.

#include "device/pjrt/pjrt.h"

#include "zellige_ahead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct zl_ahead_ {
    struct pjrt_topology *topology;
    const struct hlo_target *target; // or NULL
};

// Keeps libtpu from waiting minutes for the metadata server of Google's machines, on a machine that is none
// of them. It reads this from its environment alone: the interface of plugins has no option for it.
static void leave_out_metadata(void) {
    if (!pjrt_has_hardware())
        setenv("TPU_SKIP_MDS_QUERY", "1", 0);
}

zl_ahead *zl_ahead_open(const char *topology) {
    const char *why = "no topology is given";
    if (topology)
        leave_out_metadata();
    if (!topology || !pjrt_load(&why))
        return error_set(ZL_ERROR_DEVICE, "zl_ahead_open: %s", why);
    PJRT_CALL(TopologyDescription_Create, make, .name = topology, .name_size = strlen(topology));
    if (!make_ok)
        return NULL;
    zl_ahead *out = memory_zero(sizeof *out);
    if (out) {
        out->topology = make.a.topology;
        out->target = hlo_target_of(topology);
        return out;
    }
    PJRT_CALL(TopologyDescription_Destroy, end, .topology = make.a.topology);
    (void)end_ok;
    return NULL;
}

void zl_ahead_close(zl_ahead *a) {
    if (!a)
        return;
    bool had_error = zl_error();
    PJRT_CALL(TopologyDescription_Destroy, end, .topology = a->topology);
    if (!end_ok && !had_error)
        zl_clear_error();
    memory_free(a);
}

// What there is to compute ----------------------------------------------------------------------------------

// Calls in an order in which inputs precede outputs.
struct list {
    struct call **call, **open; // finished, and begun
    int calls, call_cap, opens, open_cap;
    struct map seen; // 1: begun; 2: done
};

static bool is_pending(zl_array x) {
    return x->call && array_state(x) != ARRAY_READY && !array_is(x, ARRAY_INLINE);
}

static bool push(struct list *l, zl_array x) {
    struct call *c = x->call;
    if (!is_pending(x) || map_get(&l->seen, &c, sizeof c))
        return true;
    if (!memory_grow(&l->open, &l->open_cap, l->opens + 1, sizeof(struct call *)))
        return false;
    l->open[l->opens++] = c;
    return true;
}

static bool visit_top(struct list *l) {
    struct call *c = l->open[l->opens - 1];
    intptr_t state = (intptr_t)map_get(&l->seen, &c, sizeof c);
    if (state) {
        l->opens--;
        if (state == 2)
            return true;
        if (!memory_grow(&l->call, &l->call_cap, l->calls + 1, sizeof(struct call *)))
            return false;
        l->call[l->calls++] = c;
        return map_set(&l->seen, &c, sizeof c, (void *)2);
    }
    bool ok = map_set(&l->seen, &c, sizeof c, (void *)1);
    for (int i = 0; i < c->inputs && ok; i++)
        ok = push(l, c->in[i]);
    return ok;
}

static bool list_calls(struct list *l, int count, const zl_array *outputs) {
    bool ok = true;
    for (int i = 0; i < count && ok; i++) {
        ok = push(l, outputs[i]);
        while (ok && l->opens)
            ok = visit_top(l);
    }
    return ok;
}

static void free_list(struct list *l) {
    map_free(&l->seen);
    memory_free(l->call);
    memory_free(l->open);
}

// Returns whether all calls run on a TPU. The error names one that does not.
static bool check_calls(const struct list *l) {
    for (int i = 0; i < l->calls; i++) {
        const struct call *c = l->call[i];
        if (pjrt_has_doubles(c))
            return error_false(ZL_ERROR_DEVICE,
                               "zl_ahead_compile: %s of float64 runs on the CPU: TPUs only emulate it",
                               c->op->name);
        if (!hlo_can(c))
            return error_false(ZL_ERROR_DEVICE,
                               "zl_ahead_compile: %s of %s is not rendered as StableHLO: the CPU runs it",
                               c->op->name, zl_dtype_name((zl_dtype)call_first(c)->dtype));
    }
    return true;
}

static struct hlo_program *render(int count, const zl_array *outputs, const struct hlo_target *target) {
    struct list l = {0};
    struct hlo_program *hlo = NULL;
    bool ok = list_calls(&l, count, outputs) && check_calls(&l);
    uint8_t *needed = ok ? memory_zero((size_t)l.calls + 1) : NULL;
    for (int i = 0; needed && i < l.calls; i++)
        for (int k = 0; k < count; k++)
            needed[i] |= outputs[k]->call == l.call[i];
    if (ok && !l.calls)
        error_set(ZL_ERROR_VALUE, "zl_ahead_compile: nothing is to be computed: the arrays are evaluated");
    else if (needed)
        hlo = hlo_render(&device_pjrt, 0, &(struct segment){l.calls, l.call, needed}, NULL, NULL, target);
    memory_free(needed);
    free_list(&l);
    if (hlo && hlo->text)
        return hlo;
    if (hlo)
        error_set(ZL_ERROR_VALUE, "zl_ahead_compile: nothing is to be computed: these are views");
    hlo_free(hlo);
    return NULL;
}

// What came of it -------------------------------------------------------------------------------------------

static bool read_memory(struct pjrt_compiled *executable, zl_ahead_program *out) {
    PJRT_CALL(Executable_GetCompiledMemoryStats, query, .executable = executable);
    if (!query_ok)
        return false;
    out->code_bytes = query.a.code;
    out->argument_bytes = query.a.argument;
    out->result_bytes = query.a.output;
    out->temporary_bytes = query.a.temporary;
    return true;
}

static bool has_name(const struct pjrt_named_value *v, const char *name) {
    return v->name_size == strlen(name) && !memcmp(v->name, name, v->name_size);
}

// Reads the plugin's cost analysis, if it has one; values that it does not give stay 0.
static void read_costs(struct pjrt_compiled *executable, zl_ahead_program *out) {
    bool had_error = zl_error();
    PJRT_CALL(Executable_GetCostAnalysis, query, .executable = executable);
    for (size_t i = 0; query_ok && i < query.a.count; i++) {
        const struct pjrt_named_value *v = &query.a.properties[i];
        double value = v->type == PJRT_VALUE_FLOAT ? fmax(0, (double)v->real) : 0; // negative values mean
                                                                                   // unknown
        if (has_name(v, "flops"))
            out->flops = value;
        else if (has_name(v, "bytes accessed"))
            out->bytes = value;
        else if (has_name(v, "optimal_seconds"))
            out->seconds = value;
    }
    if (!had_error)
        zl_clear_error();
}

static bool read_optimized(struct pjrt_compiled *executable, zl_ahead_program *out) {
    PJRT_MAKE(program, program, .format = "hlo", .format_size = 3);
    PJRT_CALL(Executable_OptimizedProgram, size, .executable = executable, .program = &program.a);
    if (!size_ok)
        return false;
    char *bytes = memory_zero(program.a.code_size + 1);
    if (!bytes)
        return false;
    program.a.code = bytes;
    PJRT_CALL(Executable_OptimizedProgram, get, .executable = executable, .program = &program.a);
    if (get_ok)
        out->optimized = pjrt_hlo_text((const uint8_t *)bytes, program.a.code_size, &out->cycles);
    memory_free(bytes);
    return get_ok && out->optimized;
}

static bool compile(zl_ahead *a, const struct hlo_program *hlo, zl_ahead_program *out) {
    PJRT_MAKE(program, program, .code = hlo->text, .code_size = (size_t)hlo->bytes, .format = "mlir",
              .format_size = 4);
    PJRT_CALL(Compile, make, .topology = a->topology, .program = &program.a, .options = PJRT_OPTIONS,
              .options_size = sizeof PJRT_OPTIONS - 1);
    if (!make_ok)
        return false;
    bool ok = read_memory(make.a.executable, out) && read_optimized(make.a.executable, out);
    if (ok)
        read_costs(make.a.executable, out);
    bool had_error = zl_error();
    PJRT_CALL(Executable_Destroy, end, .executable = make.a.executable);
    if (!end_ok && !had_error)
        zl_clear_error();
    return ok;
}

bool zl_ahead_compile(zl_ahead *a, int count, const zl_array *outputs, zl_ahead_program *out) {
    *out = (zl_ahead_program){0};
    for (int i = 0; i < count; i++)
        if (!outputs[i])
            return false;
    struct hlo_program *hlo = a ? render(count, outputs, a->target) : NULL;
    if (!hlo)
        return false;
    bool ok = compile(a, hlo, out);
    out->program = hlo->text;
    hlo->text = NULL;
    hlo_free(hlo);
    return ok;
}

void zl_ahead_program_free(zl_ahead_program *p) {
    memory_free(p->program);
    memory_free(p->optimized);
    *p = (zl_ahead_program){0};
}
