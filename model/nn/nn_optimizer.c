// nn_optimizer.c - optimisers, a row for each, and schedules of the learning rate.

#include "nn.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static zl_array times(double number, zl_array x) {
    return zl_multiply(zl_scalar(number), x);
}

// Returns a x + (1 - a) y.
static zl_array moved(double a, zl_array x, zl_array y) {
    return zl_add(times(a, x), times(1 - a, y));
}

static double decay_of(const struct nn_update *u) {
    return u->kind == ZL_NN_VECTOR ? 0 : u->options->weight_decay;
}

// Sets p to p (1 - rate decay) - rate move.
static void step(struct nn_update *u, zl_array move, double decay) {
    if (decay > 0)
        move = zl_add(move, times(decay, u->parameter));
    u->parameter = zl_subtract(u->parameter, zl_multiply(u->rate, move));
}

static void add_decay_to_gradient(struct nn_update *u) {
    if (decay_of(u) > 0)
        u->gradient = zl_add(u->gradient, times(decay_of(u), u->parameter));
}

// Sets m to momentum m + g. Returns the move: m, or for Nesterov's variant g + momentum m.
static zl_array gather_momentum(struct nn_update *u, bool nesterov) {
    double momentum = u->options->momentum;
    u->state[0] = zl_add(times(momentum, u->state[0]), u->gradient);
    return nesterov ? zl_add(u->gradient, times(momentum, u->state[0])) : u->state[0];
}

static void sgd(struct nn_update *u) {
    add_decay_to_gradient(u);
    step(u, gather_momentum(u, u->options->nesterov), 0);
}

// Sets m to b1 m + (1 - b1) g and v to b2 v + (1 - b2) g^2. Returns the move, m / (1 - b1^t) / (sqrt(v / (1 -
// b2^t)) + eps).
static zl_array adam_move(struct nn_update *u) {
    u->state[0] = moved(u->options->beta1, u->state[0], u->gradient);
    u->state[1] = moved(u->options->beta2, u->state[1], zl_square(u->gradient));
    zl_array size = zl_add(zl_sqrt(zl_divide(u->state[1], u->grown[1])), zl_scalar(u->options->eps));
    return zl_divide(zl_divide(u->state[0], u->grown[0]), size);
}

static void adam(struct nn_update *u) {
    add_decay_to_gradient(u);
    step(u, adam_move(u), 0);
}

static void adamw(struct nn_update *u) {
    step(u, adam_move(u), decay_of(u));
}

// Makes all singular values of a matrix about 1, by five steps of Newton and Schulz with K. Jordan's
// coefficients.
static zl_array orthogonal(zl_array m) {
    enum { STEPS = 5 };
    bool tall = zl_dim(m, -2) > zl_dim(m, -1);
    zl_array size = zl_sqrt(zl_sum_axes(zl_square(m), ZL_AXES(-2, -1), true));
    zl_array x = zl_divide(m, zl_add(size, zl_scalar(1e-7)));
    x = tall ? zl_swapaxes(x, -1, -2) : x;
    for (int i = 0; i < STEPS; i++) {
        zl_array a = zl_matmul(x, zl_swapaxes(x, -1, -2));
        zl_array b = zl_add(times(-4.7750, a), times(2.0315, zl_matmul(a, a)));
        x = zl_add(times(3.4445, x), zl_matmul(b, x));
    }
    return tall ? zl_swapaxes(x, -1, -2) : x;
}

// The elements of the move are about as large as Adam's, 0.2, so that matrices and the parameters left to
// AdamW can share a learning rate.
static void muon(struct nn_update *u) {
    if (u->kind != ZL_NN_MATRIX) {
        adamw(u);
        return;
    }
    bool is_shard = u->mesh && (u->of->split[NN_FSDP] >= 0 || u->of->split[NN_TENSOR] >= 0);
    zl_array m = gather_momentum(u, true);
    m = is_shard ? nn_whole_of(u->mesh, u->of, m)
                 : m; // every rank computes the whole matrix, and takes its shard of the result
    double longest = (double)(zl_dim(m, -1) > zl_dim(m, -2) ? zl_dim(m, -1) : zl_dim(m, -2));
    zl_array move = times(0.2 * sqrt(longest), orthogonal(m));
    step(u, is_shard ? nn_shard_of(u->mesh, u->of, move) : move, decay_of(u));
}

static int one_state(zl_nn_kind kind) {
    (void)kind;
    return 1;
}

static int two_states(zl_nn_kind kind) {
    (void)kind;
    return 2;
}

static int muon_states(zl_nn_kind kind) {
    return kind == ZL_NN_MATRIX ? 1 : 2;
}

#define OPTIMIZERS(FIRST, ROW) \
    FIRST(sgd, one_state) ROW(adam, two_states) ROW(adamw, two_states) ROW(muon, muon_states)

#define ROW(name, states) {#name, states, name},
static const struct nn_optimizer optimizers[] = {OPTIMIZERS(ROW, ROW)};
#undef ROW

#define FIRST(name, ...) #name
#define ROW(name, ...)   " " #name
const char zl_train_optimizers[] = OPTIMIZERS(FIRST, ROW);
#undef ROW

const struct nn_optimizer *nn_optimizer_find(const char *name) {
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (!strcmp(optimizers[i].name, name))
            return &optimizers[i];
    return NULL;
}

void nn_optimizer_defaults(zl_train_options *o) {
    o->optimizer = o->optimizer ? o->optimizer : "adamw";
    o->schedule = o->schedule ? o->schedule : "constant";
    o->momentum = o->momentum > 0 ? o->momentum : !strcmp(o->optimizer, "muon") ? 0.95 : 0;
    o->beta1 = o->beta1 > 0 ? o->beta1 : 0.9;
    o->beta2 = o->beta2 > 0 ? o->beta2 : 0.999;
    o->eps = o->eps > 0 ? o->eps : 1e-8;
    o->accumulate = o->accumulate ? o->accumulate : 1;
}

// Schedules: from 1 to 0 as `done` goes from 0 to 1 ---------------------------------------------------------

static double constant_share(double done) {
    (void)done;
    return 1;
}

static double linear_share(double done) {
    return 1 - done;
}

static double cosine_share(double done) {
    return 0.5 * (1 + cos(3.14159265358979323846 * done));
}

#define SCHEDULES(FIRST, ROW) FIRST(constant) ROW(linear) ROW(cosine)

#define ROW(name) {#name, name##_share},
static const struct schedule {
    const char *name;
    double (*share)(double done);
} schedules[] = {SCHEDULES(ROW, ROW)};
#undef ROW

#define ROW(name) " " #name
const char zl_train_schedules[] = SCHEDULES(FIRST, ROW);
#undef ROW

static const struct schedule *find_schedule(const char *name) {
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (!strcmp(schedules[i].name, name))
            return &schedules[i];
    return NULL;
}

const char *nn_schedule_name(const char *name) {
    const struct schedule *schedule = find_schedule(name);
    return schedule ? schedule->name : NULL;
}

double zl_train_rate(const zl_train_options *o, int64_t step) {
    const struct schedule *schedule = find_schedule(o->schedule ? o->schedule : "constant");
    if (step < o->warmup)
        return o->rate * (double)(step + 1) / (double)o->warmup;
    double length = (double)(o->steps - o->warmup), at = (double)(step - o->warmup);
    double done = at >= length ? 1 : at / length, share = schedule ? schedule->share(done) : NAN;
    return o->rate * (share + (1 - share) * o->last_share);
}
