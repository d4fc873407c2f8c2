// delta.c - the delta rule over tokens: each head has a state that decays, is corrected at a key, and is
// read.
//
// For each token the state S (keys, values) becomes Diag(decay) S, then S + w (x - e^T S)^T, and the result
// is scale * q^T S. The rules of the family in delta.def are built from it (delta_rules.c). Devices compute
// the tokens in order (src/kernel/delta.tile); derivatives are those of the chunked form (delta_chunks.c).

#include "op/ops.h"

enum { Q, W, X, GATE, STATE, LEAST_INPUTS, MOST_INPUTS = DELTA_INPUTS_MOST };
enum { PRE, FACTORS, ERASES, SCALED, PACKED, FORM, SCALE, ARGS = DELTA_ARGS };
enum { ERASES_NOTHING, ERASES_GIVEN, ERASES_WRITTEN, ERASES_COUNT }; // what e is: absent, an input, or w
                                                                     // itself

struct delta_rule op_delta_read(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    struct delta_rule r = {.q = in[Q],
                           .w = in[W],
                           .x = in[X],
                           .g = in[GATE],
                           .state = in[STATE],
                           .pre = arg[PRE],
                           .factors = arg[FACTORS],
                           .form = (enum delta_form)arg[FORM],
                           .scale = op_arg_double(arg[SCALE])};
    int at = LEAST_INPUTS;
    if (arg[ERASES])
        r.e = arg[ERASES] == ERASES_WRITTEN ? r.w : in[at++];
    if (arg[SCALED])
        r.beta = in[at++];
    if (arg[PACKED])
        r.offsets = in[at];
    return r;
}

int op_delta_list(const struct delta_rule *r, zl_array *in, int64_t *arg) {
    const zl_array all[] = {r->q,    r->w,      r->x, r->g, r->state, r->e == r->w ? NULL : r->e,
                            r->beta, r->offsets};
    int count = 0;
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i])
            in[count++] = all[i];
    arg[PRE] = r->pre && r->e;
    arg[FACTORS] = r->factors;
    arg[ERASES] = !r->e ? ERASES_NOTHING : r->e == r->w ? ERASES_WRITTEN : ERASES_GIVEN;
    arg[SCALED] = r->beta != NULL;
    arg[PACKED] = r->offsets != NULL;
    arg[FORM] = op_delta_form(r);
    arg[SCALE] = op_double_arg(r->scale);
    return count;
}

bool op_delta(const struct delta_rule *r, zl_array *state, zl_array *y) {
    zl_array in[MOST_INPUTS];
    int64_t arg[ARGS];
    int count = op_delta_list(r, in, arg);
    for (int i = 0; i < count; i++)
        if (!(in[i] = zl_contiguous(in[i], false)))
            return false;
    struct array_spec spec[] = {{.dtype = (zl_dtype)r->state->dtype, .ndim = 4, .dim = r->state->dim},
                                {.dtype = (zl_dtype)r->x->dtype, .ndim = 4, .dim = r->x->dim}};
    *state = graph_call(&op_delta_rule, count, in, ARGS, arg, 2, spec);
    *y = *state ? call_output((*state)->call, 1) : NULL;
    return *state;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    struct delta_rule r = op_delta_read(c, in);
    return op_delta(&r, &out[0], &out[1]);
}

static bool composed(const struct call *c, const zl_array *in, zl_array *out) {
    struct delta_rule r = op_delta_read(c, in);
    return op_delta_chunks(&r, &out[0], &out[1]);
}

// Rules -----------------------------------------------------------------------------------------------------

// Returns the offsets of a batch in one line of tokens: those of batch element i are increased by i * time.
// The end of an element is the start of the next one.
static zl_array batched_offsets(zl_array offsets, int64_t batch, int64_t time) {
    int64_t sequences = offsets->dim[1] - 1;
    zl_array begin = zl_slice(offsets, ZL_SHAPE(0, 0), ZL_SHAPE(batch, sequences), ZL_SHAPE(1, 1));
    zl_array more = zl_arange_int(0, batch * time, time, (zl_dtype)offsets->dtype);
    zl_array all = zl_flatten(zl_add(begin, zl_expand_dims(more, ZL_AXES(1))), 0, 1);
    zl_array end = zl_arange_int(batch * time, batch * time + 1, 1, (zl_dtype)offsets->dtype);
    return zl_concatenate((zl_array[]){all, end}, 2, 0);
}

// Merges an extra axis with the batch or, for packed sequences, with the tokens. all: the inputs of one call.
bool op_delta_merge(const struct call *c, const zl_array *in, const int *axis, int64_t batch, zl_array *all) {
    bool packed = call_args(c)[PACKED];
    int given = (call_args(c)[ERASES] == ERASES_GIVEN) + (int)call_args(c)[SCALED];
    int offsets = packed ? LEAST_INPUTS + given : -1;
    for (int i = 0; i < c->inputs; i++) {
        bool is_state = in[i] && (i == STATE || (c->op == &op_delta_rule_vjp && i == c->inputs - 1));
        if (!(all[i] = op_batch_repeat(in[i], axis[i], batch)))
            return false;
        if (i == offsets)
            all[i] = batched_offsets(all[i], batch, c->in[X]->dim[1]);
        else
            all[i] = zl_flatten(all[i], 0, 1);
        if (packed && !is_state && i != offsets && all[i])
            all[i] = zl_expand_dims(zl_flatten(all[i], 0, 1), ZL_AXES(0)); // (batch, 1 * T, ...) as one line
                                                                           // of tokens
    }
    return true;
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    bool packed = call_args(c)[PACKED];
    zl_array all[MOST_INPUTS];
    out_axis[0] = out_axis[1] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    if (!op_delta_merge(c, in, axis, batch, all))
        return false;
    if (!record(c, all, out))
        return false;
    out[0] = zl_unflatten(out[0], 0, ZL_SHAPE(batch, c->in[STATE]->dim[0]));
    out[1] = packed ? zl_expand_dims(zl_unflatten(zl_squeeze(out[1], ZL_AXES(0)), 0, ZL_SHAPE(batch, -1)),
                                     ZL_AXES(1))
                    : zl_unflatten(out[1], 0, ZL_SHAPE(batch, c->in[X]->dim[0]));
    return out[0] && out[1];
}

static bool fits_key(zl_array a, zl_array x, int64_t keys) {
    return a->ndim == 4 && a->dtype == x->dtype && a->dim[0] == x->dim[0] && a->dim[1] == x->dim[1] &&
           a->dim[2] > 0 && x->dim[2] % a->dim[2] == 0 && a->dim[3] == keys;
}

bool op_delta_fits(const struct call *c, const zl_array *in, int more) {
    int inputs = c->inputs - more;
    if (c->args != ARGS || inputs < LEAST_INPUTS || inputs > MOST_INPUTS)
        return false;
    const int64_t *arg = call_args(c);
    for (int i = PRE; i < SCALE; i++)
        if (!op_is_among(arg[i], i == ERASES ? ERASES_COUNT : i == FORM ? DELTA_FORMS : 2))
            return false;
    if (inputs != LEAST_INPUTS + (arg[ERASES] == ERASES_GIVEN) + arg[SCALED] + arg[PACKED] ||
        (arg[PRE] && !arg[ERASES]))
        return false;
    struct delta_rule r = op_delta_read(c, in);
    zl_dtype wide = r.x->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    if (r.x->ndim != 4 || r.state->ndim != 4 || r.q->ndim != 4 || r.x->dim[1] == 0 || r.q->dim[3] == 0 ||
        !dtype_is_float((zl_dtype)r.x->dtype) || r.state->dtype != wide || r.g->dtype != wide)
        return false;
    int64_t keys = r.q->dim[3], batch = r.x->dim[0];
    const int64_t gates[] = {batch, r.x->dim[1], r.x->dim[2], keys};
    if (r.offsets &&
        (r.offsets->ndim != 1 || r.offsets->dtype != ZL_INT32 || r.offsets->dim[0] < 2 || batch != 1))
        return false;
    const int64_t state[] = {r.offsets ? r.offsets->dim[0] - 1 : batch, r.x->dim[2], keys, r.x->dim[3]};
    return fits_key(r.q, r.x, keys) && fits_key(r.w, r.x, keys) && (!r.e || fits_key(r.e, r.x, keys)) &&
           shape_equal(4, state, 4, r.state->dim) && r.x->dim[1] <= INT32_MAX &&
           (!r.beta || (r.beta->dtype == wide && shape_equal(3, gates, r.beta->ndim, r.beta->dim))) &&
           (r.g->ndim == 3 || r.g->ndim == 4) && shape_equal(r.g->ndim, gates, r.g->ndim, r.g->dim);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_delta_fits(c, in, 0);
}

void op_delta_other_inputs(const struct delta_rule *r, struct op_kernel *k) {
    k->in[k->inputs++] = r->e ? r->e : r->w;
    k->in[k->inputs++] = r->offsets ? r->offsets : r->g;
    k->in[k->inputs++] = r->beta ? r->beta : r->g;
    op_kernel_value(k, (zl_dtype)r->state->dtype, r->scale);
}

// Chooses the kernel that takes tokens in order. Several threads share a column of the state, each with
// `held` elements in registers; with 0, the column is too long and stays in memory. With few threads per
// column, reads and writes of the state are long and contiguous, which dominates for few tokens. For many
// tokens, latency dominates: 32 threads have fewer loads each, in more blocks. On an H200, 8,192 tokens of 32
// heads of 128 took 83 ms with 4 threads per column, and 6 ms with 32 by a kernel of the same form.
static void by_tokens(const struct delta_rule *r, struct op_kernel *k) {
    enum { FEW_TOKENS = 8, HELD_MOST = 64 };
    int halvings = r->x->dim[1] <= FEW_TOKENS ? 2 : 5, lanes = 1 << halvings;
    int64_t keys = r->q->dim[3], values = r->x->dim[3], held = (keys + lanes - 1) / lanes;
    op_kernel_set(k, "delta",
                  "ITEM=%s,WIDE=%s,PLACE=%s,LANES=%d,HALVINGS=%d,HELD=%d,BY_COLUMN=%d,PRE=%d,FACTORS=%d,"
                  "ERASES=%d,SCALED=%d,PACKED=%d",
                  op_kernel_type(r->x), op_kernel_type(r->state),
                  op_kernel_type(r->offsets ? r->offsets : r->g), lanes, halvings,
                  held > HELD_MOST ? 0 : (int)held, r->g->ndim == 4, r->pre, r->factors, r->e != NULL,
                  r->beta != NULL, r->offsets != NULL);
    const int64_t sizes[] = {r->x->dim[1], r->x->dim[2],             r->q->dim[2],
                             r->w->dim[2], r->e ? r->e->dim[2] : 1,  keys,
                             values,       r->state->dim[0],         r->x->dim[0] * r->x->dim[1]};
    for (size_t i = 0; i < COUNT(sizes); i++)
        op_kernel_size(k, sizes[i]);
    op_delta_other_inputs(r, k);
}

static void kernel(const struct call *c, struct op_kernel *k) {
    struct delta_rule r = op_delta_read(c, c->in);
    k->inputs = LEAST_INPUTS;
    if (r.form != DELTA_TOKENS)
        op_delta_by_chunks(&r, k);
    else
        by_tokens(&r, k);
}

static const struct op_field fields[] = {{"pre", FIELD_BOOL},
                                         {"factors", FIELD_BOOL},
                                         {"erases", FIELD_INT},
                                         {"scaled", FIELD_BOOL},
                                         {"packed", FIELD_BOOL},
                                         {"form", FIELD_INT},
                                         {"scale", FIELD_DOUBLE}};
const struct op op_delta_rule = {
    .name = "delta_rule",
    .kind = OP_OTHER,
    .outputs = 2,
    .fields = COUNT(fields),
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp_all = op_delta_vjp_all,
    .composed = composed,
    .vmap = vmap,
    .kernel = kernel,
    .in_place = 1 << STATE,
};
