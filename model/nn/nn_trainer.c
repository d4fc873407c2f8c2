// nn_trainer.c - steps of training: gradients of a batch and updates of parameters, both compiled; and checkpoints.
//
// A step is recorded whole and evaluated once. Before that the trainer lets go of what the step replaces, so that updates are
// computed where the old values lie.

#include "nn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a parameter has besides itself.
struct slot {
    zl_array state[NN_STATES]; // retained; NULL past those the optimiser has
    zl_array sum;              // of gradients of this step's batches; NULL: there are none yet
};

struct zl_trainer_ {
    zl_nn nn;
    zl_nn_loss loss;
    void *data;
    zl_train_options options;
    const struct nn_optimizer *optimizer;
    zl_compiled gradient, update;
    struct slot *slot; // one for each parameter, once the table is closed
    int64_t step;
    int batches; // of the step that is not complete
};

static struct nn_table *table_of(zl_trainer t) {
    return t->nn->table;
}

// The options as they are after defaults --------------------------------------------------------------------------

static bool check(zl_nn nn, const zl_train_options *o) {
    if (!nn_optimizer_find(o->optimizer))
        return nn_fail(nn, "zl_trainer_new: no optimizer '%s': there are %s", o->optimizer,
                       zl_train_optimizers);
    if (!nn_is_schedule(o->schedule))
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

// Functions that are compiled --------------------------------------------------------------------------------------

// Layers take in[0..] in the place of parameters; NULL: parameters again.
static void stand_in(struct nn_table *table, const zl_array *in) {
    for (int i = 0; i < table->count; i++)
        table->parameter[i].current = in ? in[i] : NULL;
}

// Inputs: parameters, then the batch. Result: the loss.
static bool loss_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_trainer t = data;
    int parameters = table_of(t)->count;
    stand_in(table_of(t), in);
    zl_array loss = t->loss(t->nn, count - parameters, in + parameters, t->data);
    stand_in(table_of(t), NULL);
    return zl_give(out, loss);
}

// Inputs: parameters, sums of gradients if there are any, the batch. Results: the loss, gradients added to those sums.
static bool gradients_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_trainer t = data;
    int parameters = table_of(t)->count, summed = t->batches ? parameters : 0, used = count - summed;
    zl_array *taken = malloc((size_t)used * sizeof *taken), *grad = malloc((size_t)parameters * sizeof *grad);
    int *argnum = malloc((size_t)parameters * sizeof *argnum);
    zl_outputs *values = zl_outputs_new();
    bool done = taken && grad && argnum && values;
    for (int i = 0; done && i < used; i++)
        taken[i] = in[i < parameters ? i : i + summed];
    for (int i = 0; done && i < parameters; i++)
        argnum[i] = i;
    done = done &&
           zl_value_and_grad((zl_fn){.call = loss_of, .data = t}, used, taken, parameters, argnum, values,
                             grad) &&
           zl_give(out, zl_outputs_get(values, 0));
    for (int i = 0; done && i < parameters; i++)
        done = zl_give(out, summed ? zl_add(in[parameters + i], grad[i]) : grad[i]);
    zl_outputs_free(values);
    free(taken), free(grad), free(argnum);
    return done;
}

static zl_dtype state_dtype(zl_array parameter) {
    return zl_dtype_of(parameter) == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
}

// Inputs: rate, 1 - beta1^t, 1 - beta2^t; gradients; parameters; states. Results: the norm, parameters, states.
enum { RATE, GROWN, NUMBERS = GROWN + NN_STATES };

static zl_array norm_of(int count, const zl_array *gradient) {
    zl_array sum = zl_scalar(0);
    for (int i = 0; i < count; i++)
        sum = zl_add(sum, zl_sum(zl_square(zl_astype(gradient[i], ZL_FLOAT32))));
    return zl_sqrt(sum);
}

static bool updates_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_trainer t = data;
    const zl_train_options *o = &t->options;
    int parameters = table_of(t)->count;
    const zl_array *gradient = in + NUMBERS, *parameter = gradient + parameters,
                   *state = parameter + parameters;
    zl_array norm = NULL, share = zl_scalar(1.0 / o->accumulate);
    zl_outputs *states = zl_outputs_new();
    bool done = states && count >= NUMBERS + 2 * parameters;
    if (o->clip > 0) {
        norm = zl_multiply(norm_of(parameters, gradient), share);
        share = zl_multiply(
            share, zl_minimum(zl_scalar(1), zl_divide(zl_scalar(o->clip), zl_add(norm, zl_scalar(1e-6)))));
        done = done && zl_give(out, norm);
    }
    for (int i = 0; done && i < parameters; i++) {
        zl_nn_kind kind = table_of(t)->parameter[i].kind;
        zl_dtype dtype = state_dtype(parameter[i]);
        struct nn_update u = {
            .options = o, .kind = kind, .rate = in[RATE], .parameter = zl_astype(parameter[i], dtype)};
        u.gradient = zl_astype(gradient[i], dtype);
        if (o->clip > 0 || o->accumulate > 1)
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

// Making and opening ------------------------------------------------------------------------------------------------

zl_trainer zl_trainer_new(zl_nn nn, zl_nn_loss loss, void *data, const zl_train_options *options) {
    zl_train_options o = *options;
    nn_optimizer_defaults(&o);
    zl_trainer t = nn && check(nn, &o) ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    *t = (struct zl_trainer_){.nn = nn, .loss = loss, .data = data, .options = o};
    t->optimizer = nn_optimizer_find(o.optimizer);
    t->options.optimizer = t->optimizer->name;
    t->gradient = zl_compile((zl_fn){.call = gradients_of, .data = t}, false);
    t->update = zl_compile((zl_fn){.call = updates_of, .data = t}, false);
    if (t->gradient && t->update)
        return t;
    zl_trainer_free(t);
    return NULL;
}

static void free_slot(struct slot *slot) {
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
    zl_compiled_release(t->gradient);
    zl_compiled_release(t->update);
    free(t);
}

int64_t zl_trainer_steps(zl_trainer t) {
    return t ? t->step : 0;
}

// The model runs once as it is, which makes the parameters, or finds out that those loaded are not its own.
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
    return done;
}

// States of zeros, where none were loaded.
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

// Steps ---------------------------------------------------------------------------------------------------------------

static void replace(zl_array *owned, zl_array value) {
    zl_retain(value);
    zl_release(*owned);
    *owned = value;
}

// Records the gradients of a batch; they become the sums of the slots.
static bool add_gradients(zl_trainer t, int count, const zl_array *batch, zl_array *loss) {
    struct nn_table *table = table_of(t);
    int parameters = table->count, inputs = 0;
    zl_array *in = malloc((size_t)(2 * parameters + count) * sizeof *in);
    zl_outputs *out = zl_outputs_new();
    bool done = (in && out) || nn_fail(t->nn, "zl_trainer_step: out of memory"), summed = t->batches > 0;
    for (int i = 0; done && i < parameters; i++)
        in[inputs++] = table->parameter[i].array;
    for (int i = 0; done && summed && i < parameters; i++)
        in[inputs++] = t->slot[i].sum;
    for (int i = 0; done && i < count; i++)
        in[inputs++] = batch[i];
    done = done && zl_compiled_call(t->gradient, &summed, sizeof summed, inputs, in, out);
    for (int i = 0; done && i < parameters; i++)
        replace(&t->slot[i].sum, zl_outputs_get(out, i + 1));
    *loss = done ? zl_retain(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    free(in);
    return done;
}

static zl_array number(double x) {
    return zl_from_f32((float[]){(float)x}, ZL_SCALAR);
}

// Records what parameters and states become. *norm is set if gradients are clipped.
static bool update(zl_trainer t, double rate, zl_array *norm) {
    struct nn_table *table = table_of(t);
    int parameters = table->count, inputs = NUMBERS, outputs = 0;
    zl_array *in = malloc((size_t)(NUMBERS + (2 + NN_STATES) * parameters) * sizeof *in);
    zl_outputs *out = zl_outputs_new();
    bool done = (in && out) || nn_fail(t->nn, "zl_trainer_step: out of memory");
    double grown = (double)(t->step + 1);
    zl_scope scope = zl_scope_begin();
    if (done)
        in[RATE] = number(rate), in[GROWN] = number(1 - pow(t->options.beta1, grown)),
        in[GROWN + 1] = number(1 - pow(t->options.beta2, grown));
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
        replace(&table->parameter[i].array, zl_outputs_get(out, outputs++));
    for (int i = 0; done && i < parameters; i++) {
        for (int s = 0; s < t->optimizer->states(table->parameter[i].kind); s++)
            replace(&t->slot[i].state[s], zl_outputs_get(out, outputs++));
        zl_release(t->slot[i].sum);
        t->slot[i].sum = NULL;
    }
    zl_outputs_free(out);
    zl_scope_end(scope);
    free(in);
    return done;
}

// Computes all that the trainer has, and what is reported, at once.
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

bool zl_trainer_step(zl_trainer t, int count, const zl_array *batch, zl_train_report *report) {
    if (!t || (!is_open(t) && (!open_table(t, count, batch) || !open_slots(t))))
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
    if (report && done)
        *report = (zl_train_report){zl_item(loss), norm ? zl_item(norm) : (double)NAN, rate, t->step};
    zl_release(loss);
    zl_release(norm);
    return done;
}

// Checkpoints -----------------------------------------------------------------------------------------------------------

static const char own[] = "trainer."; // what the names of other arrays than parameters begin with

enum { NAME_BYTES = 300, TEXT_BYTES = 24, FIELDS = 5 };

// Texts of a checkpoint besides `about`.
static void print_fields(zl_trainer t, char seed[TEXT_BYTES], char step[TEXT_BYTES],
                         char batches[TEXT_BYTES]) {
    snprintf(seed, TEXT_BYTES, "%lld", (long long)table_of(t)->seed);
    snprintf(step, TEXT_BYTES, "%lld", (long long)t->step);
    snprintf(batches, TEXT_BYTES, "%d", t->batches);
}

static bool add_slot(zl_file *file, const char *name, const struct slot *slot) {
    char full[NAME_BYTES];
    bool done = true;
    for (int s = 0; done && s < NN_STATES; s++)
        if (slot->state[s]) {
            snprintf(full, sizeof full, "%sstate%d.%s", own, s, name);
            done = zl_file_add(file, full, slot->state[s]);
        }
    snprintf(full, sizeof full, "%ssum.%s", own, name);
    return done && (!slot->sum || zl_file_add(file, full, slot->sum));
}

bool zl_trainer_save(zl_trainer t, const char *path, const char *about) {
    if (!t)
        return false;
    struct nn_table *table = table_of(t);
    char seed[TEXT_BYTES], step[TEXT_BYTES], batches[TEXT_BYTES];
    const char *end = strrchr(path, '.');
    if (!end || strcmp(end, ".safetensors") != 0)
        return nn_fail(t->nn, "zl_trainer_save: %s: the name of a checkpoint ends with .safetensors", path);
    if (!t->slot)
        return nn_fail(t->nn, "zl_trainer_save: %s: no step was made yet", path);
    print_fields(t, seed, step, batches);
    const char *field[FIELDS][2] = {{"about", about ? about : ""},
                                    {"optimizer", t->optimizer->name},
                                    {"seed", seed},
                                    {"step", step},
                                    {"batches", batches}};
    zl_file *file = zl_file_new();
    bool done = file;
    for (int i = 0; done && i < table->count; i++)
        done = zl_file_add(file, table->parameter[i].name, table->parameter[i].array) &&
               add_slot(file, table->parameter[i].name, &t->slot[i]);
    for (int i = 0; done && i < FIELDS; i++) {
        zl_text text = {field[i][1], strlen(field[i][1])};
        done = zl_file_add_metadata(file, &(zl_metadata){.name = field[i][0], .text = &text, .texts = 1});
    }
    done = done && zl_save_safetensors(path, file);
    zl_file_free(file);
    return done;
}

// NULL: the file has no such text.
static const char *field_of(const zl_file *file, const char *name) {
    zl_metadata value;
    for (int i = 0; zl_file_metadata(file, i, &value); i++)
        if (!strcmp(value.name, name) && value.texts == 1)
            return value.text[0].data;
    return NULL;
}

// Read as a whole: what is trained does not lie in a file.
static zl_file *open_file(const char *path) {
    return zl_load_file(path, &(zl_load_options){.format = "safetensors", .no_mmap = true});
}

static bool take_parameters(zl_nn nn, const zl_file *file, const char *path) {
    const char *name;
    bool done = true;
    if (nn->table->count)
        return nn_fail(nn, "zl_nn_load: %s: the model has parameters already; load before it runs", path);
    for (int i = 0; done && (name = zl_file_name(file, i)); i++)
        if (strncmp(name, own, strlen(own)) != 0)
            done = nn_add(nn, name, zl_file_array(file, i));
    if (done && !nn->table->count)
        done = nn_fail(nn, "zl_nn_load: %s has no parameters", path);
    nn->table->closed = done;
    return done;
}

bool zl_nn_load(zl_nn nn, const char *path) {
    zl_file *file = nn ? open_file(path) : NULL;
    bool done = file && take_parameters(nn, file, path);
    zl_file_free(file);
    return done;
}

static bool check_field(zl_trainer t, const zl_file *file, const char *path, const char *name,
                        const char *wanted) {
    const char *has = field_of(file, name);
    return (has && !strcmp(has, wanted)) ||
           nn_fail(t->nn, "zl_trainer_load: %s is of %s '%s', and this training of '%s'", path, name,
                   has ? has : "none", wanted);
}

static bool take_number(zl_trainer t, const zl_file *file, const char *path, const char *name, int64_t *out) {
    const char *text = field_of(file, name);
    char *end;
    *out = text ? strtoll(text, &end, 10) : -1;
    return (text && *text && !*end && *out >= 0) ||
           nn_fail(t->nn, "zl_trainer_load: %s has no number '%s'", path, name);
}

static bool fits(zl_trainer t, const char *path, const char *name, zl_array a, zl_array parameter) {
    zl_shape x = zl_shape_of(a), y = zl_shape_of(parameter);
    return (x.ndim == y.ndim && !memcmp(x.dim, y.dim, (size_t)x.ndim * sizeof *x.dim)) ||
           nn_fail(t->nn, "zl_trainer_load: %s: %s has another shape than its parameter", path, name);
}

// One array that belongs to a parameter: "trainer.state0.", "trainer.state1." or "trainer.sum.", then its name.
static bool take_own(zl_trainer t, const char *path, const char *name, zl_array a) {
    struct nn_table *table = table_of(t);
    int s = -1;
    const char *kind = name + strlen(own), *dot = strchr(kind, '.');
    bool sum = !strncmp(kind, "sum.", 4),
         state = dot && sscanf(kind, "state%d.", &s) == 1 && s >= 0 && s < NN_STATES;
    for (int i = 0; (sum || state) && i < table->count; i++)
        if (!strcmp(table->parameter[i].name, dot + 1)) {
            bool done = fits(t, path, name, a, table->parameter[i].array);
            if (done)
                replace(sum ? &t->slot[i].sum : &t->slot[i].state[s], a);
            return done;
        }
    return nn_fail(t->nn, "zl_trainer_load: %s: no parameter has %s", path, name);
}

static bool take_all(zl_trainer t, const zl_file *file, const char *path, const char *about) {
    char seed[TEXT_BYTES], step[TEXT_BYTES], batches[TEXT_BYTES];
    int64_t steps, begun;
    print_fields(t, seed, step, batches);
    if (!check_field(t, file, path, "about", about ? about : "") ||
        !check_field(t, file, path, "optimizer", t->optimizer->name) ||
        !check_field(t, file, path, "seed", seed) || !take_number(t, file, path, "step", &steps) ||
        !take_number(t, file, path, "batches", &begun) || !take_parameters(t->nn, file, path))
        return false;
    if (begun >= t->options.accumulate)
        return nn_fail(t->nn,
                       "zl_trainer_load: %s has %lld batches of a step, and this training has %d in all",
                       path, (long long)begun, t->options.accumulate);
    t->slot = calloc((size_t)table_of(t)->count, sizeof *t->slot);
    bool done = t->slot || nn_fail(t->nn, "zl_trainer_load: out of memory");
    const char *name;
    for (int i = 0; done && (name = zl_file_name(file, i)); i++)
        done = strncmp(name, own, strlen(own)) != 0 || take_own(t, path, name, zl_file_array(file, i));
    for (int i = 0; done && begun && i < table_of(t)->count; i++)
        if (!t->slot[i].sum)
            done = nn_fail(t->nn, "zl_trainer_load: %s has no %ssum.%s", path, own,
                           table_of(t)->parameter[i].name);
    t->step = steps, t->batches = (int)begun;
    return done;
}

bool zl_trainer_load(zl_trainer t, const char *path, const char *about) {
    zl_file *file = t ? open_file(path) : NULL;
    bool done = file && take_all(t, file, path, about);
    zl_file_free(file);
    return done;
}
