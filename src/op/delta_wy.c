// delta_wy.c - the delta rule by chunks (src/kernel/delta_wy.tile): which calls its kernel computes, with
// which clauses and sizes, and the gradient, an op of its own (src/kernel/delta_wy_vjp.tile).

#include <string.h>

#include "op/ops.h"

// The sizes of tiles. Matrix instructions multiply 16-bit floats, whose rows fill panels of 128 bytes.
// Products by loops use tiles that fit the shared memory of any device.
struct tiles {
    int size, part, chunk, threads, stages;
};

static struct tiles tiles_of(const struct delta_rule *r) {
    int keys = (int)r->q->dim[3];
    if (r->form == DELTA_MATRICES)
        return (struct tiles){keys <= 64 ? 64 : 128, 64, 64, 128, 2};
    return (struct tiles){(keys + 15) / 16 * 16, 16, 16, 128, 1};
}

// Returns the name of the device for which calls are recorded. Returns NULL without an error if there is no
// memory for its stream; then any form of the rule may be chosen.
static const char *device_here(void) {
    int unit;
    zl_stream stream = zl_default_stream();
    if (!stream)
        zl_clear_error();
    return stream ? zl_stream_device(stream, &unit) : NULL;
}

// On the CPU, cpu_delta.c is faster, and cpu_delta_vjp.c computes the gradient by chunks. PJRT compiles whole
// graphs and is given array ops. On an H200, 32 heads of 128 (bf16) take 2.5 us per token by tokens; by
// chunks, 32 tokens take 22 us and 8,192 take 0.5 ms. Heads of 64 (f32) take 1.4 us per token, and by chunks
// 3.3 ms for 8,192 tokens. On other devices, longer rows are left to the token kernel, because their tiles
// would be larger than 32 KiB.
enum delta_form op_delta_form(const struct delta_rule *r) {
    enum { LENGTH_LEAST = 16, KEYS_MOST = 128, ROW_MOST = 256 };
    int64_t sequences = r->state->dim[0], tokens = r->x->dim[0] * r->x->dim[1];
    if (r->state->dtype != ZL_FLOAT32 || r->factors || r->g->ndim != 3 || (r->beta && !r->e) ||
        r->q->dim[3] > KEYS_MOST || sequences == 0 || tokens / sequences < LENGTH_LEAST)
        return DELTA_TOKENS;
    const char *device = device_here();
    if (!device || !strcmp(device, "cpu") || !strcmp(device, "pjrt"))
        return DELTA_TOKENS;
    if (!strcmp(device, "cuda"))
        return array_item(r->x) == 2 ? DELTA_MATRICES : DELTA_CHUNKS;
    return r->q->dim[3] * (int64_t)array_item(r->x) <= ROW_MOST ? DELTA_CHUNKS : DELTA_TOKENS;
}

// Returns whether the gradient is recorded as an op of its own: if the call itself is computed by chunks, and
// on the CPU, which has that op for all sizes.
static bool has_gradient(const struct delta_rule *r) {
    if (op_delta_form(r) != DELTA_TOKENS)
        return true;
    const char *device = device_here();
    return device && !strcmp(device, "cpu") && r->g->ndim == 3 && !r->factors && (r->e || !r->beta);
}

// Returns how many elements a copy moves at once: 8 if offsets and sizes of all vectors are multiples of it,
// else 1.
static int unit_of(const struct delta_rule *r) {
    enum { UNIT = 8 };
    const zl_array each[] = {r->q, r->w, r->x, r->e};
    for (size_t i = 0; i < COUNT(each); i++)
        if (each[i] && (each[i]->offset % UNIT || each[i]->dim[3] % UNIT))
            return 1;
    return UNIT;
}

static int shares(const struct delta_rule *r, zl_array x) {
    return x ? (int)(r->x->dim[2] / x->dim[2]) : 1;
}

// Sets the clauses and sizes that both kernels have.
static void fill(const struct delta_rule *r, struct op_kernel *k, const char *file, const char *more) {
    struct tiles t = tiles_of(r);
    int64_t sequences = r->state->dim[0], tokens = r->x->dim[0] * r->x->dim[1], steps = r->x->dim[1];
    op_kernel_set(k, file,
                  "ITEM=%s,PLACE=%s,KEYS=%d,SIZE=%d,VALUES=%d,PART=%d,CHUNK=%d,UNIT=%d,THREADS=%d,STAGES=%d,"
                  "Q_SHARES=%d,W_SHARES=%d,E_SHARES=%d,PRE=%d,ERASES=%d,BETA=%d,PACKED=%d,RAGGED=%d%s",
                  op_kernel_type(r->x), op_kernel_type(r->offsets ? r->offsets : r->g), (int)r->q->dim[3],
                  t.size, (int)r->x->dim[3], t.part, t.chunk, unit_of(r), t.threads, t.stages,
                  shares(r, r->q), shares(r, r->w), shares(r, r->e), r->pre,
                  !r->e          ? 0
                  : r->e == r->w ? 2
                                 : 1,
                  r->beta != NULL, r->offsets != NULL, r->offsets || steps % t.chunk, more);
    if (t.stages > 1)
        memcpy(k->smaller, "STAGES=1", sizeof "STAGES=1");
    int64_t slots = r->offsets ? tokens / t.chunk + sequences : sequences * ((steps + t.chunk - 1) / t.chunk);
    const int64_t sizes[] = {steps,     r->x->dim[2], r->q->dim[2], r->w->dim[2], r->e ? r->e->dim[2] : 1,
                             sequences, tokens,       slots};
    for (size_t i = 0; i < COUNT(sizes); i++)
        op_kernel_size(k, sizes[i]);
}

void op_delta_by_chunks(const struct delta_rule *r, struct op_kernel *k) {
    fill(r, k, "delta_wy", "");
    op_delta_other_inputs(r, k);
}

// The gradient ----------------------------------------------------------------------------------------------

enum { OF_Q, OF_W, OF_X, OF_GATE, OF_STATE, OF_E, OF_BETA, GIVEN = 2 }; // GIVEN: cotangents among the inputs

bool op_delta_back(const struct delta_rule *r, zl_array dy, zl_array dstate, zl_array *out) {
    zl_array in[DELTA_INPUTS_MOST + GIVEN];
    int64_t arg[DELTA_ARGS], none[1] = {0};
    int count = op_delta_list(r, in, arg);
    in[count++] = dy, in[count++] = dstate;
    for (int i = 0; i < count; i++)
        if (!(in[i] = zl_contiguous(in[i], false)))
            return false;
    const int64_t key[] = {r->x->dim[0], r->x->dim[1], r->x->dim[2], r->q->dim[3]};
    zl_dtype dtype = (zl_dtype)r->x->dtype, wide = (zl_dtype)r->state->dtype;
    const struct array_spec empty = {.dtype = dtype, .ndim = 1, .dim = none};
    struct array_spec spec[DELTA_COTANGENTS] = {
        [OF_Q] = {.dtype = dtype, .ndim = 4, .dim = key},
        [OF_W] = {.dtype = dtype, .ndim = 4, .dim = key},
        [OF_X] = {.dtype = dtype, .ndim = 4, .dim = r->x->dim},
        [OF_GATE] = {.dtype = wide, .ndim = r->g->ndim, .dim = r->g->dim},
        [OF_STATE] = {.dtype = wide, .ndim = 4, .dim = r->state->dim},
        [OF_E] = empty,
        [OF_BETA] = empty};
    if (r->e && r->e != r->w)
        spec[OF_E] = spec[OF_W];
    if (r->beta)
        spec[OF_BETA] = (struct array_spec){.dtype = wide, .ndim = 3, .dim = r->beta->dim};
    out[0] = graph_call(&op_delta_rule_vjp, count, in, DELTA_ARGS, arg, DELTA_COTANGENTS, spec);
    for (int i = 1; i < DELTA_COTANGENTS; i++)
        out[i] = out[0] ? call_output(out[0]->call, i) : NULL;
    return out[0];
}

// Sums the cotangents of the heads that share a vector.
static zl_array shared(zl_array each, zl_array of) {
    int64_t heads = of->dim[2];
    if (!each || each->dim[2] == heads)
        return each;
    return op_reduce_axes("delta", REDUCE_SUM, zl_unflatten(each, 2, ZL_SHAPE(heads, -1)), ZL_AXES(3), false);
}

bool op_delta_vjp_all(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out) {
    struct delta_rule r = op_delta_read(c, c->in);
    zl_array all[DELTA_COTANGENTS], in[DELTA_INPUTS_MOST];
    int64_t arg[DELTA_ARGS];
    if (!has_gradient(&r) || (!cotangent[0] && !cotangent[1]))
        return true;
    zl_array dstate = cotangent[0] ? cotangent[0] : op_zeros_of(call_output(c, 0)),
             dy = cotangent[1] ? cotangent[1] : op_zeros_of(call_output(c, 1));
    if (!dstate || !dy || !op_delta_back(&r, dy, dstate, all))
        return false;
    int count = op_delta_list(&r, in, arg);
    for (int i = 0; i < count; i++) {
        if (!wanted[i] || in[i] == r.offsets)
            continue;
        int of = i < OF_E ? i : in[i] == r.e ? OF_E : OF_BETA;
        bool is_key = of == OF_Q || of == OF_W || of == OF_E;
        if (!(out[i] = is_key ? shared(all[of], in[i]) : all[of]))
            return false;
    }
    return true;
}

static bool fits(const struct call *c, const zl_array *in) {
    if (c->inputs < GIVEN || !op_delta_fits(c, in, GIVEN))
        return false;
    struct delta_rule r = op_delta_read(c, in);
    zl_array dy = in[c->inputs - 2], dstate = in[c->inputs - 1];
    return r.g->ndim == 3 && !r.factors && (r.e || !r.beta) && op_same_shape(dy, r.x) &&
           dy->dtype == r.x->dtype && op_same_shape(dstate, r.state) && dstate->dtype == r.state->dtype;
}

// Computes the gradient by differentiating the ops of the composed rule, with vectors for each head.
static bool composed(const struct call *c, const zl_array *in, zl_array *out) {
    struct delta_rule r = op_delta_read(c, in);
    zl_array state, y, each[DELTA_INPUTS_MOST] = {0}, list[DELTA_INPUTS_MOST];
    int64_t heads = r.x->dim[2], arg[DELTA_ARGS];
    bool same = r.e == r.w, wanted[DELTA_INPUTS_MOST];
    r.q = zl_repeat(r.q, heads / r.q->dim[2], 2);
    r.w = zl_repeat(r.w, heads / r.w->dim[2], 2);
    if (r.e)
        r.e = same ? r.w : zl_repeat(r.e, heads / r.e->dim[2], 2);
    if (!r.q || !r.w || !op_delta(&r, &state, &y))
        return false;
    int count = op_delta_list(&r, list, arg);
    for (int i = 0; i < count; i++)
        wanted[i] = list[i] != r.offsets;
    const zl_array cotangent[] = {in[c->inputs - 1], in[c->inputs - 2]};
    if (!op_composed_vjp(state->call, wanted, cotangent, each))
        return false;
    for (int i = 0; i < OF_E; i++)
        out[i] = each[i];
    for (int i = OF_E; i < count; i++)
        if (wanted[i])
            out[list[i] == r.beta ? OF_BETA : OF_E] = each[i];
    return true;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    struct delta_rule r = op_delta_read(c, in);
    if (!has_gradient(&r)) // recorded for the CPU, and replayed for another device
        return composed(c, in, out);
    return op_delta_back(&r, in[c->inputs - 2], in[c->inputs - 1], out);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    zl_array all[DELTA_INPUTS_MOST + GIVEN];
    for (int i = 0; i < DELTA_COTANGENTS; i++)
        out_axis[i] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    if (!op_delta_merge(c, in, axis, batch, all) || !record(c, all, out))
        return false;
    for (int i = 0; i < DELTA_COTANGENTS; i++) {
        zl_array like = call_output(c, i);
        int64_t dim[5] = {batch};
        for (int k = 0; k < like->ndim; k++)
            dim[k + 1] = like->dim[k];
        if (!(out[i] = zl_reshape(out[i], (zl_shape){dim, like->ndim + 1})))
            return false;
    }
    return true;
}

static void kernel(const struct call *c, struct op_kernel *k) {
    struct delta_rule r = op_delta_read(c, c->in);
    fill(&r, k, "delta_wy_vjp", r.x->dtype == ZL_FLOAT16 ? ",LEAST=1e-4" : "");
    op_kernel_size(k, call_output(c, OF_E)->size ? r.x->dim[0] * r.x->dim[1] : 0);
    op_kernel_size(k, call_output(c, OF_BETA)->size);
    k->inputs = OF_E;
    k->in[k->inputs++] = c->in[c->inputs - 2];
    k->in[k->inputs++] = c->in[c->inputs - 1];
    op_delta_other_inputs(&r, k);
}

static const struct op_field fields[] = {
    {"pre", FIELD_BOOL},    {"factors", FIELD_BOOL}, {"erases", FIELD_INT},  {"scaled", FIELD_BOOL},
    {"packed", FIELD_BOOL}, {"form", FIELD_INT},     {"scale", FIELD_DOUBLE}};
const struct op op_delta_rule_vjp = {
    .name = "delta_rule_vjp",
    .kind = OP_OTHER,
    .outputs = DELTA_COTANGENTS,
    .fields = COUNT(fields),
    .field = fields,
    .record = record,
    .fits = fits,
    .composed = composed,
    .vmap = vmap,
    .kernel = kernel,
};
