// device_c.c - `zellige kernel run FILE.c`: runs device C of a chip on its emulator, with files and numbers
// as arguments.
//
// The operands after the file are the entry's arguments in order: in:PATH.npy, out:PATH.npy:DTYPE[D,D],
// inout:PATH.npy, which is written back to the file that it was read from, or DTYPE:NUMBER.

#include "device_c.h"

#include "kernel_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct device_c {
    int count;
    zl_array array[CLI_PARAMETERS];
    const char *path[CLI_PARAMETERS]; // file of an output; NULL: not an output
    int path_len[CLI_PARAMETERS];
    int64_t dim[CLI_PARAMETERS][CLI_DIMS];
    double scalar[CLI_PARAMETERS];
    zl_device_c_argument argument[CLI_PARAMETERS];
};

bool cli_is_device_c(const char *path) {
    size_t len = strlen(path);
    return len > 2 && !strcmp(path + len - 2, ".c");
}

// Arguments -------------------------------------------------------------------------------------------------

static zl_dtype dtype_named(const char *text, size_t len) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), text);
    return zl_dtype_find(name);
}

static bool use_array(struct device_c *d, int i, zl_array a) {
    if (!a || !zl_eval(zl_retain(a)))
        return false;
    d->array[i] = a;
    int ndim = zl_ndim(a) < CLI_DIMS ? zl_ndim(a) : CLI_DIMS;
    for (int k = 0; k < ndim; k++)
        d->dim[i][k] = zl_dim(a, k);
    if (!ndim) // memory of one element, not a scalar that is passed by value
        d->dim[i][ndim++] = 1;
    d->argument[i].memory =
        (zl_kernel_buffer){(void *)(uintptr_t)zl_data(a), zl_dtype_of(a), ndim, d->dim[i], NULL};
    return d->argument[i].memory.data != NULL;
}

static void set_output(struct device_c *d, int i, const char *path, int len) {
    d->path[i] = path;
    d->path_len[i] = len;
    d->argument[i].is_output = true;
}

// Makes an output of a description such as "c.npy:f16[384,768]".
static bool make_output(const struct invocation *call, struct device_c *d, int i, const char *text) {
    const char *colon = strrchr(text, ':'), *bracket = colon ? strchr(colon, '[') : NULL, *at = bracket;
    int64_t dim[CLI_DIMS];
    int ndim = 0;
    while (at && *at != ']' && ndim < CLI_DIMS) {
        char *end;
        dim[ndim++] = strtoll(at + 1, &end, 10);
        at = end > at + 1 && (*end == ',' || *end == ']') && dim[ndim - 1] > 0 ? end : NULL;
    }
    if (!at || at[0] != ']' || at[1]) {
        cli_usage(call, "'out:%s' is no output; it is to be such as out:c.npy:f16[384,768]", text);
        return false;
    }
    zl_dtype dtype = dtype_named(colon + 1, (size_t)(bracket - colon - 1));
    set_output(d, i, text, (int)(colon - text));
    if (dtype != ZL_DTYPE_COUNT && use_array(d, i, zl_zeros((zl_shape){dim, ndim}, dtype)))
        return true;
    cli_library_failed(call);
    return false;
}

static bool make_input(const struct invocation *call, struct device_c *d, int i, const char *path) {
    if (use_array(d, i, zl_contiguous(zl_load(path), false)))
        return true;
    cli_library_failed(call);
    return false;
}

// Copies the file's array, whose memory may be read-only.
static bool make_updated(const struct invocation *call, struct device_c *d, int i, const char *path) {
    if (!make_input(call, d, i, path))
        return false;
    zl_array from = d->array[i];
    zl_array own = zl_zeros((zl_shape){d->dim[i], zl_ndim(from)}, zl_dtype_of(from));
    bool good = use_array(d, i, own);
    if (good)
        memcpy(d->argument[i].memory.data, zl_data(from), zl_nbytes(from));
    else
        cli_library_failed(call);
    zl_release(from);
    set_output(d, i, path, (int)strlen(path));
    return good;
}

static void put_number(struct device_c *d, int i, zl_dtype dtype, double value) {
    zl_array a = zl_retain(zl_astype(zl_scalar(value), dtype));
    if (a && zl_eval(a))
        memcpy(&d->scalar[i], zl_data(a), zl_dtype_size(dtype));
    zl_release(a);
}

// Makes a scalar of a description such as "i32:384".
static bool make_scalar(const struct invocation *call, struct device_c *d, int i, const char *text) {
    const char *colon = strchr(text, ':');
    char *end = NULL;
    zl_dtype dtype = colon ? dtype_named(text, (size_t)(colon - text)) : ZL_DTYPE_COUNT;
    double value = colon ? strtod(colon + 1, &end) : 0;
    if (dtype == ZL_DTYPE_COUNT || end == colon + 1 || *end || zl_dtype_size(dtype) > sizeof d->scalar[i]) {
        zl_clear_error();
        cli_usage(call,
                  "'%s' is no argument; use in:FILE.npy, out:FILE.npy:f16[8,16], inout:FILE.npy or i32:384",
                  text);
        return false;
    }
    put_number(d, i, dtype, value);
    d->argument[i].memory = (zl_kernel_buffer){&d->scalar[i], dtype, 0, NULL, NULL};
    return true;
}

static bool make_arguments(const struct invocation *call, struct device_c *d) {
    bool good = zl_use_device("cpu");
    ZL_SCOPE {
        for (int i = 1; good && i < call->operand_count; i++) {
            const char *text = call->operands[i];
            int at = d->count++;
            good = !strncmp(text, "in:", 3)      ? make_input(call, d, at, text + 3)
                   : !strncmp(text, "out:", 4)   ? make_output(call, d, at, text + 4)
                   : !strncmp(text, "inout:", 6) ? make_updated(call, d, at, text + 6)
                                                 : make_scalar(call, d, at, text);
        }
    }
    return good;
}

// Results ---------------------------------------------------------------------------------------------------

static bool save_outputs(const struct invocation *call, const struct device_c *d) {
    for (int i = 0; i < d->count; i++) {
        char path[4096];
        if (!d->path[i])
            continue;
        snprintf(path, sizeof path, "%.*s", d->path_len[i], d->path[i]);
        if (!zl_save(path, d->array[i])) {
            cli_library_failed(call);
            return false;
        }
    }
    return true;
}

void cli_json_report(const zl_device_c_report *r) {
    cli_json_number("modelled_milliseconds", r->seconds * 1e3);
    cli_json_number("compute_milliseconds", r->compute_seconds * 1e3);
    cli_json_number("copy_milliseconds", r->copy_seconds * 1e3);
    cli_json_int("commands", r->commands);
    cli_json_int("bytes", r->bytes);
    cli_json_int("scalars", r->scalars);
    cli_json_int("bank_conflicts", r->bank_conflicts);
    cli_json_number("lanes", r->lanes);
}

static void print_report(const struct invocation *call, const zl_device_c_report *r) {
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_report(r);
        cli_json_close();
        return;
    }
    if (r->trace)
        fputs(r->trace, stdout);
    cli_print_report(r);
}

void cli_print_report(const zl_device_c_report *r) {
    printf("%.3f us modelled: compute %.3f us in %.0f %% of the lanes, copies %.3f us\n", r->seconds * 1e6,
           r->compute_seconds * 1e6, r->lanes * 100, r->copy_seconds * 1e6);
    printf("%lld commands, %lld bytes moved, %lld bank conflicts, %lld elements handled one at a time\n",
           (long long)r->commands, (long long)r->bytes, (long long)r->bank_conflicts, (long long)r->scalars);
}

static int run_text(const struct invocation *call, struct device_c *d, const char *text) {
    zl_device_c_options o = {.entry = cli_option(call, "entry"),
                             .counts_only = cli_option(call, "count"),
                             .traces = cli_option(call, "trace")};
    zl_device_c_report report;
    int64_t cores = 1;
    if (!o.entry)
        return cli_usage(call, "needs --entry with the function that runs");
    if (!cli_integer(call, "cores", 1, 8, &cores))
        return CLI_USAGE;
    o.cores = (int)cores;
    bool good = zl_device_c_run(text, cli_target(call), &o, d->count, d->argument, &report);
    int code = good ? CLI_OK : cli_library_failed(call);
    if (good && !save_outputs(call, d))
        code = CLI_FAILED;
    else if (good)
        print_report(call, &report);
    zl_free(report.trace);
    return code;
}

int cli_run_device_c(const struct invocation *call) {
    struct device_c d = {0};
    char *text = cli_read_all(call->operands[0]);
    if (!text)
        return cli_fail(call, "cannot read %s: %s", call->operands[0], strerror(errno));
    int code = make_arguments(call, &d) ? run_text(call, &d, text) : CLI_USAGE;
    for (int i = 0; i < d.count; i++)
        zl_release(d.array[i]);
    free(text);
    return code;
}
