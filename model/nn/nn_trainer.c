// nn_trainer.c - steps of training: gradients of a batch and updates of parameters, both compiled.
//
// A whole step is recorded, then evaluated once. Before that the trainer releases the arrays that the step
// replaces, so that the new values are computed in their memory.

#include "nn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nn_table *table_of(zl_trainer t) {
    return t->nn->table;
}

// The options as they are after defaults --------------------------------------------------------------------

static bool check(zl_nn nn, const zl_train_options *o) {
    if (!nn_optimizer_find(o->optimizer))
        return nn_fail(nn, "zl_trainer_new: no optimizer '%s': there are %s", o->optimizer,
                       zl_train_optimizers);
    if (!nn_schedule_name(o->schedule))
        return nn_fail(nn, "zl_trainer_new: no schedule '%s': there are %s", o->schedule, zl_train_schedules);
    if (!(o->rate > 0) || o->accumulate < 1 || o->warmup < 0 || o->beta1 >= 1 || o->beta2 >= 1)
        return nn_fail(
            nn,
            "zl_trainer_new: rate %g, accumulate %d, warmup %lld, beta1 %g, beta2 %g: a rate greater than 0, "
            "at least 1 batch, no negative warm-up, and betas below 1 are needed",
            o->rate, o->accumulate, (long long)o->warmup, o->beta1, o->beta2);
    if (strcmp(o->schedule, "constant") != 0 && o->steps <= o->warmup)
        return nn_fail(
            nn,
            "zl_trainer_new: the schedule %s ends after %lld steps; more than the %lld of the warm-up are "
            "needed",
            o->schedule, (long long)o->steps, (long long)o->warmup);
    return true;
}

// Functions that are compiled -------------------------------------------------------------------------------

// Computes the loss from the parameters, then the batch. The layers keep taking these parameters afterwards,
// because derivatives need them.
static bool loss_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_trainer t = data;
    int parameters = table_of(t)->count;
    nn_record_begin(table_of(t), in);
    return zl_give(out, t->loss(t->nn, count - parameters, in + parameters, t->data));
}

// The report of a batch: the loss, averaged over ranks, and the number of ranks that were told to stop.
enum { LOSS, STOPS, REPORTS };

static zl_array report_of(zl_trainer t, zl_array loss, zl_array stops) {
    const struct nn_mesh *m = table_of(t)->mesh;
    if (!m)
        return loss;
    zl_array share = zl_multiply(zl_reshape(loss, ZL_SHAPE(1)), zl_scalar(1.0 / zl_nn_ranks(t->nn)));
    return zl_all_sum(zl_concatenate((zl_array[]){share, zl_astype(stops, zl_dtype_of(loss))}, 2, 0), m->all);
}

// Computes gradients. Inputs: parameters, sums of gradients if there are any, the batch, and on a mesh
// whether to stop. Results: the report, and the gradients plus those sums.
static bool gradients_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_trainer t = data;
    int parameters = table_of(t)->count, summed = t->batches ? parameters : 0;
    int used = count - summed - (table_of(t)->mesh != NULL);
    zl_array *taken = malloc((size_t)used * sizeof *taken), *grad = malloc((size_t)parameters * sizeof *grad);
    int *argnum = malloc((size_t)parameters * sizeof *argnum);
    zl_outputs *values = zl_outputs_new();
    bool done = taken && grad && argnum && values;
    for (int i = 0; done && i < used; i++)
        taken[i] = in[i < parameters ? i : i + summed];
    for (int i = 0; done && i < parameters; i++)
        argnum[i] = i;
    done = done && zl_value_and_grad((zl_fn){.call = loss_of, .data = t}, used, taken, parameters, argnum,
                                     values, grad);
    nn_record_end(table_of(t));
    done = done && zl_give(out, report_of(t, zl_outputs_get(values, 0), in[count - 1]));
    for (int i = 0; done && i < parameters; i++)
        done = zl_give(out, summed ? zl_add(in[parameters + i], grad[i]) : grad[i]);
    zl_outputs_free(values);
    free(taken), free(grad), free(argnum);
    return done;
}

static zl_dtype state_dtype(zl_array parameter) {
    return zl_dtype_of(parameter) == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
}

// The compiled step takes the learning rate, 1 - beta1^t and 1 - beta2^t, then gradients, parameters and
// states. It returns the norm of the gradients, then parameters and states.
enum { RATE, GROWN, NUMBERS = GROWN + NN_STATES };

static zl_array norm_of(zl_trainer t, const zl_array *gradient) {
    const struct nn_table *table = table_of(t);
    zl_array sum[2][2];
    for (int i = 0; i < 4; i++)
        sum[i / 2][i % 2] = zl_full(ZL_SCALAR, zl_scalar(0), state_dtype(table->parameter[0].array));
    for (int i = 0; i < table->count; i++) {
        const struct nn_parameter *p = &table->parameter[i];
        zl_array *to = &sum[p->split[NN_FSDP] >= 0][p->split[NN_TENSOR] >= 0];
        *to = zl_add(*to, zl_sum(zl_square(zl_astype(gradient[i], state_dtype(p->array)))));
    }
    return zl_sqrt(nn_sum_squares(table->mesh, sum));
}

static bool updates_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_trainer t = data;
    const zl_train_options *o = &t->options;
    int parameters = table_of(t)->count;
    const zl_array *gradient = in + NUMBERS, *parameter = gradient + parameters,
                   *state = parameter + parameters;
    const struct nn_mesh *mesh = table_of(t)->mesh;
    int parts = o->accumulate * (mesh ? mesh->rows : 1); // number of batches over which the gradient is
                                                         // summed
    zl_array norm = NULL, share = zl_scalar(1.0 / parts);
    zl_outputs *states = zl_outputs_new();
    bool done = states && count >= NUMBERS + 2 * parameters;
    if (o->clip > 0) {
        norm = zl_multiply(norm_of(t, gradient), share);
        share = zl_multiply(
            share, zl_minimum(zl_scalar(1), zl_divide(zl_scalar(o->clip), zl_add(norm, zl_scalar(1e-6)))));
        done = done && zl_give(out, norm);
    }
    for (int i = 0; done && i < parameters; i++) {
        zl_nn_kind kind = table_of(t)->parameter[i].kind;
        zl_dtype dtype = state_dtype(parameter[i]);
        struct nn_update u = {
            .options = o, .kind = kind, .rate = in[RATE], .parameter = zl_astype(parameter[i], dtype)};
        u.mesh = mesh, u.of = &table_of(t)->parameter[i];
        u.gradient = zl_astype(gradient[i], dtype);
        if (o->clip > 0 || parts > 1)
            u.gradient = zl_multiply(u.gradient, share);
        for (int s = 0; s < NN_STATES; s++)
            u.grown[s] = in[GROWN + s], u.state[s] = s < t->optimizer->states(kind) ? *state++ : NULL;
        t->optimizer->update(&u);
        done = zl_give(out, zl_astype(u.parameter, zl_dtype_of(parameter[i])));
        for (int s = 0; done && s < t->optimizer->states(kind); s++)
            done = zl_give(states, u.state[s]);
    }
    for (int i = 0; done && i < zl_outputs_count(states); i++)
        done = zl_give(out, zl_outputs_get(states, i));
    zl_outputs_free(states);
    return done;
}

// Making and opening ----------------------------------------------------------------------------------------

zl_trainer zl_trainer_new(zl_nn nn, zl_nn_loss loss, void *data, const zl_train_options *options) {
    zl_train_options o = *options;
    nn_optimizer_defaults(&o);
    zl_trainer t = nn && check(nn, &o) ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    *t = (struct zl_trainer_){.nn = nn, .loss = loss, .data = data, .options = o};
    t->optimizer = nn_optimizer_find(o.optimizer);
    t->options.optimizer = t->optimizer->name;
    t->options.schedule = nn_schedule_name(o.schedule);
    t->gradient = zl_compile((zl_fn){.call = gradients_of, .data = t}, false);
    t->update = zl_compile((zl_fn){.call = updates_of, .data = t}, false);
    if (t->gradient && t->update)
        return t;
    zl_trainer_free(t);
    return NULL;
}

static void free_slot(struct nn_slot *slot) {
    for (int s = 0; s < NN_STATES; s++)
        zl_release(slot->state[s]);
    zl_release(slot->sum);
}

void zl_trainer_free(zl_trainer t) {
    if (!t)
        return;
    for (int i = 0; t->slot && i < table_of(t)->count; i++)
        free_slot(&t->slot[i]);
    free(t->slot);
    nn_writer_free(t);
    zl_compiled_release(t->gradient);
    zl_compiled_release(t->update);
    free(t);
}

void zl_trainer_stop(zl_trainer t) {
    if (t)
        t->stops = 1;
}

int64_t zl_trainer_steps(zl_trainer t) {
    return t ? t->step : 0;
}

int64_t zl_trainer_batches(zl_trainer t) {
    return t ? t->step * t->options.accumulate + t->batches : 0;
}

// Runs the model once without tracing, which makes its parameters, or finds out that loaded parameters do not
// belong to it.
static bool open_table(zl_trainer t, int count, const zl_array *batch) {
    struct nn_table *table = table_of(t);
    bool done = false;
    ZL_SCOPE
        done = t->loss(t->nn, count, batch, t->data) != NULL;
    for (int i = 0; done && i < table->count; i++)
        if (!table->parameter[i].used)
            done = nn_fail(t->nn, "zl_trainer_step: the model does not use the parameter %s",
                           table->parameter[i].name);
    if (done && !table->count)
        done = nn_fail(t->nn, "zl_trainer_step: the model has no parameters");
    table->closed = table->closed || done;
    return done && nn_buckets_make(t->nn);
}

// Gives zeros to each optimizer state that was not loaded from a checkpoint.
static bool open_slots(zl_trainer t) {
    struct nn_table *table = table_of(t);
    if (!t->slot)
        t->slot = calloc((size_t)table->count, sizeof *t->slot);
    bool done = t->slot || nn_fail(t->nn, "zl_trainer_step: out of memory");
    for (int i = 0; done && i < table->count; i++) {
        const struct nn_parameter *p = &table->parameter[i];
        for (int s = 0; done && s < t->optimizer->states(p->kind); s++)
            if (!t->slot[i].state[s])
                ZL_SCOPE {
                    zl_array zeros =
                        zl_contiguous(zl_zeros(zl_shape_of(p->array), state_dtype(p->array)), false);
                    done = (t->slot[i].state[s] = zl_retain(zeros)) && zl_eval(zeros);
                }
    }
    return done;
}

static bool is_open(zl_trainer t) {
    struct nn_table *table = table_of(t);
    if (!table->closed || !t->slot)
        return false;
    for (int i = 0; i < table->count; i++)
        if (!table->parameter[i].used || !t->slot[i].state[0])
            return false;
    return true;
}

// Steps -----------------------------------------------------------------------------------------------------

void nn_replace(zl_array *owned, zl_array value) {
    zl_retain(value);
    zl_release(*owned);
    *owned = value;
}

// Records the gradients of a batch, which become the slots' sums.
static bool add_gradients(zl_trainer t, int count, const zl_array *batch, zl_array *report) {
    struct nn_table *table = table_of(t);
    int parameters = table->count, inputs = 0;
    zl_array *in = malloc((size_t)(2 * parameters + count + 1) * sizeof *in);
    zl_outputs *out = zl_outputs_new();
    bool done = (in && out) || nn_fail(t->nn, "zl_trainer_step: out of memory"), summed = t->batches > 0;
    for (int i = 0; done && i < parameters; i++)
        in[inputs++] = table->parameter[i].array;
    for (int i = 0; done && summed && i < parameters; i++)
        in[inputs++] = t->slot[i].sum;
    for (int i = 0; done && i < count; i++)
        in[inputs++] = batch[i];
    if (done && table->mesh)
        in[inputs++] = zl_from_f32((float[]){(float)t->stops}, ZL_SHAPE(1));
    done = done && zl_compiled_call(t->gradient, &summed, sizeof summed, inputs, in, out);
    for (int i = 0; done && i < parameters; i++)
        nn_replace(&t->slot[i].sum, zl_outputs_get(out, i + 1));
    *report = done ? zl_retain(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    free(in);
    return done;
}

static zl_array number(double x, bool wide) {
    return wide ? zl_from_f64(&x, ZL_SCALAR) : zl_from_f32((float[]){(float)x}, ZL_SCALAR);
}

// Records the new parameters and states. *norm is set if gradients are clipped.
static bool update(zl_trainer t, double rate, zl_array *norm) {
    struct nn_table *table = table_of(t);
    int parameters = table->count, inputs = NUMBERS, outputs = 0;
    zl_array *in = malloc((size_t)(NUMBERS + (2 + NN_STATES) * parameters) * sizeof *in);
    zl_outputs *out = zl_outputs_new();
    bool done = (in && out) || nn_fail(t->nn, "zl_trainer_step: out of memory");
    double grown = (double)(t->step + 1);
    bool wide = state_dtype(table->parameter[0].array) == ZL_FLOAT64;
    zl_scope scope = zl_scope_begin();
    if (done)
        in[RATE] = number(rate, wide), in[GROWN] = number(1 - pow(t->options.beta1, grown), wide),
        in[GROWN + 1] = number(1 - pow(t->options.beta2, grown), wide);
    for (int i = 0; done && i < parameters; i++)
        in[inputs++] = t->slot[i].sum;
    for (int i = 0; done && i < parameters; i++)
        in[inputs++] = table->parameter[i].array;
    for (int i = 0; done && i < parameters; i++)
        for (int s = 0; s < t->optimizer->states(table->parameter[i].kind); s++)
            in[inputs++] = t->slot[i].state[s];
    done = done && zl_compiled_call(t->update, NULL, 0, inputs, in, out);
    if (done && t->options.clip > 0)
        *norm = zl_retain(zl_outputs_get(out, outputs++));
    for (int i = 0; done && i < parameters; i++)
        nn_replace(&table->parameter[i].array, zl_outputs_get(out, outputs++));
    for (int i = 0; done && i < parameters; i++) {
        for (int s = 0; s < t->optimizer->states(table->parameter[i].kind); s++)
            nn_replace(&t->slot[i].state[s], zl_outputs_get(out, outputs++));
        zl_release(t->slot[i].sum);
        t->slot[i].sum = NULL;
    }
    zl_outputs_free(out);
    zl_scope_end(scope);
    free(in);
    return done;
}

// Evaluates the loss, the norm and everything that the trainer keeps in one evaluation.
static bool evaluate(zl_trainer t, zl_array loss, zl_array norm) {
    struct nn_table *table = table_of(t);
    int count = 0;
    zl_array *all = malloc((size_t)(2 + (2 + NN_STATES) * table->count) * sizeof *all);
    if (!all)
        return nn_fail(t->nn, "zl_trainer_step: out of memory");
    all[count++] = loss;
    if (norm)
        all[count++] = norm;
    for (int i = 0; i < table->count; i++) {
        all[count++] = table->parameter[i].array;
        if (t->slot[i].sum)
            all[count++] = t->slot[i].sum;
        for (int s = 0; s < NN_STATES; s++)
            if (t->slot[i].state[s])
                all[count++] = t->slot[i].state[s];
    }
    bool done = zl_eval_all(count, all);
    free(all);
    return done;
}

// Reads the result of report_of: one number, or one per entry of the report.
static bool read_report(zl_array report, double values[REPORTS]) {
    if (zl_size(report) == 1) {
        values[LOSS] = zl_item(report);
        return true;
    }
    zl_array wide = zl_astype(report, ZL_FLOAT64);
    return zl_eval(wide) && zl_copy_to(wide, values, REPORTS * sizeof *values);
}

// Compares the steps of all ranks before the first one: a rank that does not see the checkpoint of the
// others, or still sees an older one, would train with parameters of another step.
static bool agree(zl_trainer t) {
    struct nn_mesh *m = table_of(t)->mesh;
    int64_t at = zl_trainer_batches(t), most[2] = {at, -at};
    bool done = true;
    ZL_SCOPE
        if (m) {
            zl_array all = zl_all_max(zl_from_i64(most, ZL_SHAPE(2)), m->all);
            done = zl_eval(all) && zl_copy_to(all, most, sizeof most);
        }
    return done &&
           (most[0] == -most[1] ||
            nn_fail(t->nn,
                    "zl_trainer_step: this rank continues after %lld batches, and others after %lld to "
                    "%lld: all ranks must load one checkpoint",
                    (long long)at, (long long)-most[1], (long long)most[0]));
}

bool zl_trainer_step(zl_trainer t, int count, const zl_array *batch, zl_train_report *report) {
    if (!t || (!is_open(t) && (!open_table(t, count, batch) || !open_slots(t) || !agree(t))))
        return false;
    zl_array loss = NULL, norm = NULL;
    double rate = zl_train_rate(&t->options, t->step);
    bool done = add_gradients(t, count, batch, &loss);
    t->batches += done;
    bool complete = done && t->batches == t->options.accumulate;
    if (complete)
        done = update(t, rate, &norm);
    done = done && evaluate(t, loss, norm);
    if (complete)
        t->step++, t->batches = 0;
    double values[REPORTS] = {0, t->stops};
    done = done && read_report(loss, values);
    if (report && done)
        *report = (zl_train_report){values[LOSS], norm ? zl_item(norm) : (double)NAN, rate, t->step,
                                    values[STOPS] > 0};
    zl_release(loss);
    zl_release(norm);
    return done;
}
