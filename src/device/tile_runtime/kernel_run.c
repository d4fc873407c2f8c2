// kernel_run.c - the public interface to running tile kernels: finds sizes in the shapes of arguments, checks
// them, and passes the kernel to its target.

#include "kernel/kernel.h"

#include "device/profile/profile.h"

#include <inttypes.h>
#include <string.h>

#define TARGET(name) extern const struct kernel_driver kernel_driver_##name;
#include "device/targets.def"

static const struct kernel_driver *const drivers[] = {
#define TARGET(name) &kernel_driver_##name,
#include "device/targets.def"
};

static const char automatic[] = "auto"; // the kernel has no fixed target: it follows its arguments

const char *zl_kernel_target(int index) {
    return index >= 0 && index < (int)COUNT(drivers) ? drivers[index]->name : NULL;
}

static const struct kernel_driver *find_driver(const char *target) {
    struct text names = {0};
    for (size_t i = 0; i < COUNT(drivers); i++)
        if (!strcmp(drivers[i]->name, target))
            return drivers[i];
    for (size_t i = 0; i < COUNT(drivers); i++)
        text_add(&names, ", %s", drivers[i]->name);
    error_set(ZL_ERROR_VALUE, "zl_kernel_compile: there is no target '%s'; there are: %s%s", target,
              automatic, names.data ? names.data : "");
    text_free(&names);
    return NULL;
}

// Returns the target for arrays of a device, or the CPU's if the device has none.
static const struct kernel_driver *driver_for(const char *device) {
    for (size_t i = 0; i < COUNT(drivers); i++)
        if (!strcmp(drivers[i]->device, device))
            return drivers[i];
    return drivers[0];
}

static const struct kernel_driver *default_driver(void) {
    int unit;
    zl_stream s = zl_default_stream();
    return s ? driver_for(zl_stream_device(s, &unit)) : NULL;
}

// Compiling -------------------------------------------------------------------------------------------------

static struct kernel_form *new_form(const struct tile_kernel *kernel, const struct kernel_driver *driver) {
    struct kernel_form *f = memory_zero(sizeof *f);
    if (!f)
        return NULL;
    f->driver = driver;
    f->lowered = kernel_copy(kernel);
    f->compiled = f->lowered ? driver->compile(f->lowered, &f->source) : NULL;
    if (f->compiled)
        return f;
    kernel_form_free(f);
    return NULL;
}

static struct kernel_form *find_form(zl_kernel k, const struct kernel_driver *driver) {
    struct kernel_form *f = atomic_load_explicit(&k->forms, memory_order_acquire);
    while (f && f->driver != driver)
        f = f->next;
    return f;
}

// Returns the kernel compiled for a target, and compiles it if needed. NULL and an error.
static struct kernel_form *form_of(zl_kernel k, const struct kernel_driver *driver) {
    struct kernel_form *f = driver ? find_form(k, driver) : NULL;
    if (f || !driver)
        return f;
    lock_take(&k->lock);
    if (!(f = find_form(k, driver)) && (f = new_form(k->kernel, driver))) {
        f->next = atomic_load(&k->forms);
        atomic_store_explicit(&k->forms, f, memory_order_release);
    }
    lock_give(&k->lock);
    return f;
}

zl_kernel zl_kernel_compile(const char *text, const char *name, const char *target) {
    return zl_kernel_compile_with(text, name, target, NULL);
}

zl_kernel zl_kernel_compile_with(const char *text, const char *name, const char *target, const char *params) {
    bool follows = !target || !strcmp(target, automatic);
    const struct kernel_driver *driver = follows ? NULL : find_driver(target);
    zl_kernel k = follows || driver ? zl_kernel_parse_with(text, name, params) : NULL;
    if (!k)
        return NULL;
    k->follows = follows;
    if ((k->sizes = tile_sizes_open(k->kernel)) && (follows || form_of(k, driver)))
        return k;
    zl_kernel_release(k);
    return NULL;
}

static bool is_compiled(zl_kernel k, const char *function) {
    return (k && k->sizes) ||
           error_false(ZL_ERROR_VALUE, "%s: the kernel was not compiled: zl_kernel_compile does that",
                       function);
}

bool zl_kernel_prepare(zl_kernel k, const char *target) {
    if (!target)
        return error_false(ZL_ERROR_VALUE, "zl_kernel_prepare: the target is NULL");
    const struct kernel_driver *driver = is_compiled(k, "zl_kernel_prepare") ? find_driver(target) : NULL;
    if (driver && !k->follows && !find_form(k, driver))
        return error_false(ZL_ERROR_VALUE,
                           "zl_kernel_prepare: kernel %s was compiled for the target %s alone, not for %s",
                           k->kernel->name, atomic_load(&k->forms)->driver->name, target);
    return form_of(k, driver);
}

const char *zl_kernel_source_text(zl_kernel k) {
    if (!is_compiled(k, "zl_kernel_source_text"))
        return NULL;
    struct kernel_form *f = atomic_load_explicit(&k->forms, memory_order_acquire);
    f = f ? f : form_of(k, default_driver());
    return f ? f->source.data : NULL;
}

int zl_kernel_parameters(zl_kernel k) {
    return k ? k->kernel->parameters : 0;
}

bool zl_kernel_parameter_at(zl_kernel k, int index, zl_kernel_parameter *out) {
    if (!k || index < 0 || index >= k->kernel->parameters)
        return error_false(ZL_ERROR_VALUE, "zl_kernel_parameter_at: there is no parameter %d", index);
    const struct tile_parameter *p = &k->kernel->parameter[index];
    struct tile_type type = p->is_scalar ? p->scalar->type : p->buffer->type;
    *out = (zl_kernel_parameter){.name = p->is_scalar ? p->scalar->text : p->buffer->text,
                                 .dtype = tile_array_dtype(type),
                                 .ndim = p->is_scalar ? 0 : p->buffer->ndim,
                                 .is_scalar = p->is_scalar,
                                 .is_output = !p->is_scalar && p->buffer->is_output};
    return true;
}

// Sizes -----------------------------------------------------------------------------------------------------

// The symbols of a kernel while they are bound to the shapes of a call's arguments.
struct sizes {
    const struct tile_kernel *kernel;
    int64_t *value; // by symbol
    bool *bound;
};

static int symbol_of(const struct tile_kernel *k, const struct tile_name *name) {
    int at = 0;
    while (at < k->symbols && k->symbol[at] != name)
        at++;
    return at;
}

static union tile_value symbol_value(void *data, expr e, const int64_t *index) {
    const struct sizes *b = data;
    (void)index;
    int at = e->op == TILE_SYMBOL ? symbol_of(b->kernel, e->name) : b->kernel->symbols;
    return (union tile_value){.i = at < b->kernel->symbols ? b->value[at] : 0};
}

static bool evaluate(struct sizes *b, expr e, int64_t *out) {
    struct tile_tape *tape = tile_tape(1, &e);
    union tile_value value;
    int which;
    if (!tape)
        return false;
    bool exact = tile_tape_run_exactly(tape, symbol_value, b, &value, &which);
    tile_tape_free(tape);
    *out = value.i;
    return exact ||
           error_false(ZL_ERROR_SHAPE, "zl_kernel_run: a size of kernel %s does not fit into %d bits",
                       b->kernel->name, e->type.bits);
}

static bool is_in_range(const struct tile_name *s, int64_t value) {
    if (value < s->low || value > s->high)
        return error_false(ZL_ERROR_SHAPE,
                           "zl_kernel_run: %s is %" PRId64 ", which is not within %" PRId64 " to %" PRId64,
                           s->text, value, s->low == INT64_MIN ? 0 : s->low, s->high);
    return s->divisor <= 1 || value % s->divisor == 0 ||
           error_false(ZL_ERROR_SHAPE, "zl_kernel_run: %s is %" PRId64 ", which is no multiple of %" PRId64,
                       s->text, value, s->divisor);
}

// Binds a size or stride that is a symbol: it gives the symbol its value.
static bool bind(struct sizes *b, expr e, int64_t size) {
    if (e->op != TILE_SYMBOL)
        return true; // expressions are checked when all symbols are known
    int at = symbol_of(b->kernel, e->name);
    if (b->bound[at])
        return true;
    b->bound[at] = true;
    b->value[at] = size;
    return is_in_range(e->name, size);
}

// Multiplies *dense, the stride of a dense axis, by the size of that axis.
static bool grow_dense(const struct tile_buffer *buffer, const zl_kernel_buffer *a, int axis,
                       int64_t *dense) {
    return tile_times(*dense, a->dim[axis] ? a->dim[axis] : 1, dense) ||
           error_false(ZL_ERROR_SHAPE,
                       "zl_kernel_run: argument '%s' has %" PRId64
                       " along axis %d: sizes are 0 or more, and all "
                       "elements fit into 64 bits",
                       buffer->text, a->dim[axis], axis);
}

static bool bind_shape(struct sizes *b, const struct tile_buffer *buffer, const zl_kernel_buffer *a) {
    int64_t dense = 1;
    for (int axis = buffer->ndim - 1; axis >= 0; axis--) {
        if (!bind(b, buffer->shape[axis], a->dim[axis]) ||
            (buffer->stride && !bind(b, buffer->stride[axis], a->stride ? a->stride[axis] : dense)))
            return false;
        if (!grow_dense(buffer, a, axis, &dense))
            return false;
    }
    return true;
}

static bool bind_sizes(struct sizes *b, const zl_kernel_buffer *buffer) {
    for (int i = 0; i < b->kernel->parameters; i++) {
        const struct tile_parameter *p = &b->kernel->parameter[i];
        if (!p->is_scalar && !bind_shape(b, p->buffer, &buffer[i]))
            return false;
    }
    for (int i = 0; i < b->kernel->symbols; i++)
        if (!b->bound[i])
            return error_false(ZL_ERROR_SHAPE, "zl_kernel_run: no argument has the size '%s'",
                               b->kernel->symbol[i]->text);
    return true;
}

const char *zl_kernel_size_name(zl_kernel k, int index) {
    return k && index >= 0 && index < k->kernel->symbols ? k->kernel->symbol[index]->text : NULL;
}

static bool are_in_range(const struct tile_kernel *k, const int64_t *sizes) {
    for (int i = 0; i < k->symbols; i++)
        if (!is_in_range(k->symbol[i], sizes[i]))
            return false;
    return true;
}

bool zl_kernel_shape(zl_kernel k, int parameter, const int64_t *sizes, int64_t *dim) {
    zl_kernel_parameter p;
    if (!zl_kernel_parameter_at(k, parameter, &p) || !are_in_range(k->kernel, sizes))
        return false;
    struct sizes b = {.kernel = k->kernel, .value = (int64_t *)(uintptr_t)sizes};
    for (int i = 0; i < p.ndim; i++)
        if (!evaluate(&b, k->kernel->parameter[parameter].buffer->shape[i], &dim[i]))
            return false;
    return true;
}

bool zl_kernel_cost_of(zl_kernel k, const int64_t *sizes, zl_kernel_cost *out) {
    if (!k || !sizes || !out)
        return error_false(ZL_ERROR_VALUE, "zl_kernel_cost_of: an argument is NULL");
    if (!are_in_range(k->kernel, sizes))
        return false;
    struct tile_cost cost = tile_cost(k->kernel, sizes);
    *out = (zl_kernel_cost){cost.flops, cost.bytes};
    return true;
}

// Arguments -------------------------------------------------------------------------------------------------

static bool check_kind(const struct tile_parameter *p, const zl_kernel_buffer *a) {
    const char *name = p->is_scalar ? p->scalar->text : p->buffer->text;
    struct tile_type type = p->is_scalar ? p->scalar->type : p->buffer->type;
    int ndim = p->is_scalar ? 0 : p->buffer->ndim;
    if (!a->data && !(ndim > 0 && a->dim && a->dim[0] == 0))
        return error_false(ZL_ERROR_VALUE, "zl_kernel_run: argument '%s' is NULL", name);
    if (a->dtype != tile_array_dtype(type))
        return error_false(ZL_ERROR_DTYPE, "zl_kernel_run: argument '%s' is %s, not %s", name,
                           zl_dtype_name(a->dtype), zl_dtype_name(tile_array_dtype(type)));
    return a->ndim == ndim || error_false(ZL_ERROR_SHAPE, "zl_kernel_run: argument '%s' has %d axes, not %d",
                                          name, a->ndim, ndim);
}

static bool check_size(struct sizes *b, const struct tile_buffer *buffer, const zl_kernel_buffer *a,
                       int axis) {
    int64_t wanted;
    if (!evaluate(b, buffer->shape[axis], &wanted))
        return false;
    return a->dim[axis] == wanted ||
           error_false(ZL_ERROR_SHAPE,
                       "zl_kernel_run: argument '%s' has %" PRId64 " along axis %d, not %" PRId64,
                       buffer->text, a->dim[axis], axis, wanted);
}

static bool check_stride(struct sizes *b, const struct tile_buffer *buffer, const zl_kernel_buffer *a,
                         int axis, int64_t dense) {
    int64_t wanted = dense, stride = a->stride ? a->stride[axis] : dense;
    if (buffer->stride && !evaluate(b, buffer->stride[axis], &wanted))
        return false;
    return a->dim[axis] <= 1 || stride == wanted ||
           error_false(ZL_ERROR_SHAPE,
                       "zl_kernel_run: argument '%s' has the stride %" PRId64 " along axis %d, not %" PRId64,
                       buffer->text, stride, axis, wanted);
}

static bool check_layout(struct sizes *b, const struct tile_buffer *buffer, const zl_kernel_buffer *a) {
    int64_t dense = 1;
    for (int axis = buffer->ndim - 1; axis >= 0; axis--) {
        if (!check_size(b, buffer, a, axis) || !check_stride(b, buffer, a, axis, dense))
            return false;
        if (!grow_dense(buffer, a, axis, &dense))
            return false;
    }
    return true;
}

static bool check_arguments(struct sizes *b, int count, const zl_kernel_buffer *buffer) {
    if (count != b->kernel->parameters)
        return error_false(ZL_ERROR_VALUE, "zl_kernel_run: kernel %s has %d parameters and got %d arguments",
                           b->kernel->name, b->kernel->parameters, count);
    for (int i = 0; i < count; i++)
        if (!check_kind(&b->kernel->parameter[i], &buffer[i]))
            return false;
    if (!bind_sizes(b, buffer))
        return false;
    for (int i = 0; i < count; i++)
        if (!b->kernel->parameter[i].is_scalar &&
            !check_layout(b, b->kernel->parameter[i].buffer, &buffer[i]))
            return false;
    return true;
}

// Where arguments are ---------------------------------------------------------------------------------------

// Sets home[i] to the target on whose memory argument i is; NULL: on none, as it is passed by value or has no
// elements.
static void find_homes(zl_kernel k, const zl_kernel_buffer *buffer, const struct kernel_driver **home) {
    int count = k->kernel->parameters;
    for (int i = 0; i < count; i++)
        home[i] = tile_is_by_value(&k->kernel->parameter[i]) || !buffer[i].data ? NULL : drivers[0];
    for (size_t d = 0; d < COUNT(drivers); d++) {
        bool may_hold = drivers[d]->holds && drivers[d]->is_loaded();
        for (int i = 0; may_hold && i < count; i++)
            if (home[i] && drivers[d]->holds(buffer[i].data))
                home[i] = drivers[d];
    }
}

static void *tell_homes(zl_kernel k, const struct kernel_driver *const *home) {
    struct text list = {0};
    for (int i = 0; i < k->kernel->parameters; i++)
        if (home[i])
            text_add(&list, "%s'%s' is on %s", list.len ? ", " : "", k->kernel->parameter[i].buffer->text,
                     home[i]->device);
    error_set(ZL_ERROR_VALUE,
              "zl_kernel_run: the arguments of kernel %s are on different devices: %s; copy them to one, or "
              "compile the kernel for a target",
              k->kernel->name, list.data ? list.data : "");
    text_free(&list);
    return NULL;
}

static const struct kernel_driver *common_home(zl_kernel k, const struct kernel_driver *const *home) {
    const struct kernel_driver *found = NULL;
    for (int i = 0; i < k->kernel->parameters; i++) {
        if (home[i] && found && home[i] != found)
            return tell_homes(k, home);
        found = home[i] ? home[i] : found;
    }
    return found ? found : drivers[0];
}

// Returns the target of a kernel that follows its arguments: the one in whose memory all of them are. Returns
// NULL, with an error, if there is none.
static const struct kernel_driver *follow(zl_kernel k, const zl_kernel_buffer *buffer) {
    const struct kernel_driver **home = memory_zero(sizeof *home * (size_t)(k->kernel->parameters + 1)),
                               *found = NULL;
    if (home) {
        find_homes(k, buffer, home);
        found = common_home(k, home);
    }
    memory_free(home);
    return found;
}

// driver: the target that was chosen, or NULL for that of the kernel or of its arguments.
static struct kernel_form *choose_form(zl_kernel k, const struct kernel_driver *driver,
                                       const zl_kernel_buffer *buffer) {
    if (!k->follows)
        return atomic_load_explicit(&k->forms, memory_order_acquire);
    return form_of(k, driver ? driver : follow(k, buffer));
}

// Running ---------------------------------------------------------------------------------------------------

// Times runs of a kernel: by the device, or by the host's clock if the device cannot.
static bool time_run(const struct kernel_form *k, void *const *address, const int64_t *symbol, int repeats,
                     double *seconds) {
    if (k->driver->time)
        return k->driver->time(k->compiled, address, symbol, repeats, seconds);
    int64_t begin = clock_ns();
    for (int i = 0; i < repeats; i++)
        if (!k->driver->run(k->compiled, address, symbol))
            return false;
    *seconds = (double)(clock_ns() - begin) / 1e9 / repeats;
    return true;
}

// Profiles --------------------------------------------------------------------------------------------------

// Returns the device of a target; NULL if that is no device for arrays.
static const struct device *device_of(const struct kernel_driver *driver) {
    for (int i = 0; i < device_count(); i++)
        if (!strcmp(device_at(i)->name, driver->device))
            return device_at(i);
    return NULL;
}

static const char *text_of(zl_kernel k) {
    const char *kept = atomic_load(&k->profiled);
    if (kept)
        return kept;
    bool had_error = zl_error();
    char *text = tile_print(k->kernel);
    if (!text && !had_error)
        zl_clear_error();
    kept = text ? profile_keep(text) : NULL;
    memory_free(text);
    atomic_store(&k->profiled, kept);
    return kept;
}

static size_t bytes_of(const zl_kernel_buffer *b) {
    size_t bytes = zl_dtype_size(b->dtype);
    for (int i = 0; i < b->ndim; i++)
        bytes *= (size_t)b->dim[i];
    return bytes;
}

static void record(zl_kernel k, const struct kernel_driver *driver, int count, const zl_kernel_buffer *buffer,
                   const int64_t *symbol, int64_t begin) {
    uintptr_t word[64] = {(uintptr_t)text_of(k)};
    const char *name = profile_keep(k->kernel->name);
    struct profile_record r = {.kind = PROFILE_KERNEL,
                               .begin = begin,
                               .end = clock_ticks(),
                               .device = device_of(driver),
                               .name = name};
    if (!r.device || !name)
        return;
    for (int i = 0; i < count; i++) {
        bool is_scalar = k->kernel->parameter[i].is_scalar;
        bool is_output = !is_scalar && k->kernel->parameter[i].buffer->is_output;
        *(is_output ? &r.written : &r.read) += is_scalar ? 0 : (float)bytes_of(&buffer[i]);
        r.dtype = (uint8_t)buffer[i].dtype;
    }
    if (word[0] && k->kernel->symbols < (int)COUNT(word))
        r.words = (uint16_t)(k->kernel->symbols + 1);
    for (int i = 0; i + 1 < r.words; i++)
        word[i + 1] = (uintptr_t)symbol[i];
    profile_add(&r, word);
}

static bool run_once(zl_kernel k, const struct kernel_form *form, int count, const zl_kernel_buffer *buffer,
                     void *const *address, const int64_t *symbol) {
    if (!profile_is_on())
        return form->driver->run(form->compiled, address, symbol);
    int64_t begin = clock_ticks();
    bool done = form->driver->run(form->compiled, address, symbol);
    record(k, form->driver, count, buffer, symbol, begin);
    return done;
}

// What a run returns: only results, the seconds of one of many runs, or a report.
struct request {
    int repeats;
    double *seconds;
    zl_device_c_report *report;
};

static bool report_run(const struct kernel_form *k, void *const *address, const int64_t *symbol,
                       zl_device_c_report *out) {
    const struct kernel_driver *d = k->driver;
    if (!d->report || !d->is_modelled())
        return error_false(ZL_ERROR_VALUE,
                           "zl_kernel_report: times of the target %s are measured, not modelled", d->name);
    return d->report(k->compiled, address, symbol, out);
}

static bool run_checked(zl_kernel k, const struct kernel_form *form, int count,
                        const zl_kernel_buffer *buffer, struct sizes *b, const struct request *request) {
    void **address = memory_zero(sizeof *address * (size_t)(count + 1));
    for (int i = 0; address && i < count; i++)
        address[i] = buffer[i].data;
    bool done =
        address && (request->report    ? report_run(form, address, b->value, request->report)
                    : request->repeats ? time_run(form, address, b->value, request->repeats, request->seconds)
                                       : run_once(k, form, count, buffer, address, b->value));
    memory_free(address);
    return done;
}

static bool sizes_open(struct sizes *b, const struct tile_kernel *kernel) {
    *b = (struct sizes){.kernel = kernel};
    b->value = memory_zero(sizeof *b->value * (size_t)(kernel->symbols + 1));
    b->bound = memory_zero(sizeof *b->bound * (size_t)(kernel->symbols + 1));
    return b->value && b->bound;
}

static void sizes_close(struct sizes *b) {
    memory_free(b->value);
    memory_free(b->bound);
}

static bool check_and_run(zl_kernel k, const struct kernel_driver *driver, int count,
                          const zl_kernel_buffer *buffer, const struct request *request) {
    struct sizes b;
    bool fits = sizes_open(&b, k->kernel) && check_arguments(&b, count, buffer) &&
                tile_sizes_check(k->sizes, b.value);
    struct kernel_form *form = fits ? choose_form(k, driver, buffer) : NULL;
    bool done = form && run_checked(k, form, count, buffer, &b, request);
    sizes_close(&b);
    return done;
}

bool zl_kernel_run(zl_kernel k, int count, const zl_kernel_buffer *buffer) {
    return is_compiled(k, "zl_kernel_run") && check_and_run(k, NULL, count, buffer, &(struct request){0});
}

bool zl_kernel_is_modelled(const char *target) {
    const struct kernel_driver *driver = target ? find_driver(target) : NULL;
    return driver && driver->is_modelled && driver->is_modelled();
}

const char *zl_kernel_runs_on(const char *target) {
    const struct kernel_driver *driver = target ? find_driver(target) : NULL;
    return driver && driver->says ? driver->says() : NULL;
}

bool zl_kernel_time(zl_kernel k, int count, const zl_kernel_buffer *buffer, int repeats, double *seconds) {
    if (repeats < 1 || !seconds)
        return error_false(ZL_ERROR_VALUE,
                           "zl_kernel_time: %d repeats; at least one, and a place for the seconds", repeats);
    return is_compiled(k, "zl_kernel_time") &&
           check_and_run(k, NULL, count, buffer, &(struct request){.repeats = repeats, .seconds = seconds});
}

bool zl_kernel_report(zl_kernel k, int count, const zl_kernel_buffer *buffer, zl_device_c_report *report) {
    *report = (zl_device_c_report){0};
    return is_compiled(k, "zl_kernel_report") &&
           check_and_run(k, NULL, count, buffer, &(struct request){.report = report});
}

// Arrays ----------------------------------------------------------------------------------------------------

enum { ALIGNMENT = 16 }; // bytes, of arguments in device memory

static bool has_storage(zl_array a) {
    return !array_is(a, ARRAY_INLINE) && a->storage;
}

// Returns the target of a call: that of the kernel; else that of the first input whose values only a device
// has; else that of the default device. Returns NULL, with an error, if there is none.
static const struct kernel_driver *driver_of_call(zl_kernel k, int inputs, const zl_array *in) {
    if (!k->follows)
        return atomic_load_explicit(&k->forms, memory_order_acquire)->driver;
    for (int i = 0; i < inputs; i++) {
        const struct device *home = has_storage(in[i]) ? device_home(in[i]->storage) : NULL;
        if (home)
            return driver_for(home->name);
    }
    return default_driver();
}

// Returns the device on whose first unit a target's kernels work in place; NULL if they are given host
// memory.
static const struct device *device_in_place(const struct kernel_driver *driver) {
    bool had_error = zl_error();
    const struct device *d = driver->holds ? device_find(driver->device, NULL) : NULL;
    if (!d && !had_error)
        zl_clear_error();
    return d;
}

// Returns the array's memory on the device, to which the device's first lane copies it if needed, or else on
// the host. NULL and an error.
static void *address_of(zl_array a, const struct device *d) {
    char *memory = d && has_storage(a) ? device_reach(d, 0, 0, a->storage) : NULL;
    if (d && has_storage(a) && !memory)
        return NULL;
    char *first = memory ? memory + a->offset * (int64_t)array_item(a) : NULL;
    return first && (uintptr_t)first % ALIGNMENT == 0 ? first : (void *)(uintptr_t)zl_data(a);
}

static bool set_buffer(zl_kernel_buffer *out, zl_array a, const struct device *d) {
    zl_shape shape = zl_shape_of(a);
    *out = (zl_kernel_buffer){address_of(a, d), zl_dtype_of(a), shape.ndim, shape.dim, NULL};
    return out->data || !a->size;
}

// Makes an output whose shape follows from the inputs.
static zl_array new_output(struct sizes *b, const struct tile_buffer *buffer) {
    int64_t dim[TILE_DIMS];
    for (int i = 0; i < buffer->ndim; i++)
        if (!evaluate(b, buffer->shape[i], &dim[i]))
            return NULL;
    zl_array a = zl_zeros((zl_shape){dim, buffer->ndim}, tile_array_dtype(buffer->type));
    if (a && zl_eval(zl_retain(a)))
        return a;
    zl_release(a);
    return NULL;
}

static bool bind_inputs(struct sizes *b, int inputs, const zl_kernel_buffer *buffer) {
    for (int i = 0; i < inputs; i++) {
        const struct tile_parameter *p = &b->kernel->parameter[i];
        if (!check_kind(p, &buffer[i]) || (!p->is_scalar && !bind_shape(b, p->buffer, &buffer[i])))
            return false;
    }
    return true;
}

static int count_inputs(const struct tile_kernel *k) {
    int count = 0;
    while (count < k->parameters && (k->parameter[count].is_scalar || !k->parameter[count].buffer->is_output))
        count++;
    return count;
}

static bool make_outputs(struct sizes *b, const struct device *d, int inputs, int outputs, zl_array *out,
                         zl_kernel_buffer *buffer) {
    for (int i = 0; i < outputs; i++)
        if (!(out[i] = new_output(b, b->kernel->parameter[inputs + i].buffer)) ||
            !set_buffer(&buffer[inputs + i], out[i], d))
            return false;
    return true;
}

// Sets the buffers of the inputs. Those that are passed by value are read on the host.
static bool set_inputs(const struct tile_kernel *k, int inputs, const zl_array *in, const struct device *d,
                       zl_kernel_buffer *buffer) {
    for (int i = 0; i < inputs; i++) {
        zl_array whole = zl_contiguous(in[i], false);
        const struct device *place = tile_is_by_value(&k->parameter[i]) ? NULL : d;
        if (!whole || !zl_eval(whole) || !set_buffer(&buffer[i], whole, place))
            return false;
    }
    return true;
}

static bool eval_inputs(int inputs, const zl_array *in) {
    for (int i = 0; i < inputs; i++)
        if (!zl_eval(in[i]))
            return false;
    return true;
}

// Waits for all work enqueued on the unit's lanes, because kernels are launched outside of them.
static bool wait_for_lanes(const struct device *d) {
    return !d || device_wait(d, 0, device_point(d, 0, 0));
}

// Runs a kernel on arrays. If that fails, the outputs are released.
static bool call(zl_kernel k, int inputs, const zl_array *in, int outputs, zl_array *out,
                 zl_kernel_buffer *buffer) {
    struct sizes b;
    bool ready = sizes_open(&b, k->kernel) && eval_inputs(inputs, in);
    const struct kernel_driver *driver = ready ? driver_of_call(k, inputs, in) : NULL;
    const struct device *d = driver ? device_in_place(driver) : NULL;
    zl_stream stream = driver ? zl_default_stream_of(d ? d->name : "cpu") : NULL;
    if (stream) {
        zl_scope scope = zl_scope_begin_on(stream);
        ready = set_inputs(k->kernel, inputs, in, d, buffer) && bind_inputs(&b, inputs, buffer) &&
                make_outputs(&b, d, inputs, outputs, out, buffer) && wait_for_lanes(d) &&
                check_and_run(k, driver, inputs + outputs, buffer, &(struct request){0});
        zl_scope_end(scope);
    }
    for (int i = 0; !(stream && ready) && i < outputs; i++) {
        zl_release(out[i]);
        out[i] = NULL;
    }
    sizes_close(&b);
    return stream && ready;
}

bool zl_kernel_call(zl_kernel k, int inputs, const zl_array *in, int outputs, zl_array *out) {
    if (!is_compiled(k, "zl_kernel_call"))
        return false;
    int wanted = count_inputs(k->kernel), given = k->kernel->parameters - wanted;
    if (inputs != wanted || outputs != given)
        return error_false(ZL_ERROR_VALUE,
                           "zl_kernel_call: kernel %s has %d inputs and %d outputs, not %d and %d",
                           k->kernel->name, wanted, given, inputs, outputs);
    zl_kernel_buffer *buffer = memory_zero(sizeof *buffer * (size_t)(inputs + outputs + 1));
    for (int i = 0; i < outputs; i++)
        out[i] = NULL;
    bool done = buffer && call(k, inputs, in, outputs, out, buffer);
    memory_free(buffer);
    return done;
}
