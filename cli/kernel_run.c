// kernel_run.c - `zellige kernel build`, `run` and `bench`: compile a tile kernel, run it on random numbers,
// and time it.

#include "kernel_run.h"

#include "device_c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double cli_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Compiling -------------------------------------------------------------------------------------------------

// Returns the target of the default device, which is found once: arguments are made on the CPU, which is the
// default device afterwards.
static const char *default_target(void) {
    static const char *found;
    int unit;
    zl_stream s = found ? NULL : zl_default_stream();
    const char *device = s ? zl_stream_device(s, &unit) : "cpu", *name;
    for (int i = 0; !found && (name = zl_kernel_target(i)); i++)
        if (!strcmp(name, device))
            found = name;
    return found = found ? found : zl_kernel_target(0);
}

const char *cli_target(const struct invocation *call) {
    const char *target = cli_option(call, "target");
    return target && strcmp(target, "auto") ? target : default_target();
}

static zl_kernel compile(const struct invocation *call, double *seconds) {
    char *text = cli_read_all(call->operands[0]);
    if (!text) {
        cli_fail(call, "cannot read %s: %s", call->operands[0], strerror(errno));
        return NULL;
    }
    double start = cli_now();
    zl_kernel k =
        zl_kernel_compile_with(text, call->operands[0], cli_target(call), cli_option(call, "param"));
    *seconds = cli_now() - start;
    free(text);
    if (!k)
        cli_library_failed(call);
    return k;
}

static int run_build(const struct invocation *call) {
    double seconds;
    if (!call->operand_count)
        return cli_usage(call, "needs a .tile file");
    zl_kernel k = compile(call, &seconds);
    if (!k)
        return CLI_FAILED;
    const char *source = zl_kernel_source_text(k);
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("file", call->operands[0]);
        cli_json_text("target", cli_target(call));
        cli_json_number("milliseconds", seconds * 1e3);
        cli_json_text("source", source);
        cli_json_close();
    } else {
        printf("%s: compiled for %s in %.1f ms\n", call->operands[0], cli_target(call), seconds * 1e3);
        if (call->verbosity > 0)
            fputs(source, stdout);
    }
    zl_kernel_release(k);
    return CLI_OK;
}

// Sizes -----------------------------------------------------------------------------------------------------

// Returns the value of NAME in "NAME=7,OTHER=8"; -1 if it is missing or not a number.
static int64_t size_in(const char *list, const char *name) {
    size_t len = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ','), at += at != NULL) {
        char *end;
        if (strncmp(at, name, len) != 0 || at[len] != '=')
            continue;
        long long value = strtoll(at + len + 1, &end, 10);
        return end > at + len + 1 && (!*end || *end == ',') && value >= 0 ? value : -1;
    }
    return -1;
}

// Returns a name in the list that the kernel does not have; NULL if there is none.
static const char *unknown_size(const char *list, zl_kernel k) {
    for (const char *at = list, *name; at && *at; at = strchr(at, ','), at += at != NULL) {
        size_t len = strcspn(at, "=,");
        bool known = false;
        for (int i = 0; !known && (name = zl_kernel_size_name(k, i)); i++)
            known = strlen(name) == len && strncmp(at, name, len) == 0;
        if (!known)
            return at;
    }
    return NULL;
}

bool cli_run_sizes(const struct invocation *call, zl_kernel k, int64_t *size) {
    const char *list = cli_option(call, "size"), *unknown = unknown_size(list, k), *name;
    if (unknown) {
        cli_usage(call, "--size: the kernel has no size '%.*s'", (int)strcspn(unknown, "=,"), unknown);
        return false;
    }
    for (int i = 0; i < CLI_SIZES && (name = zl_kernel_size_name(k, i)); i++)
        if ((size[i] = size_in(list, name)) < 0) {
            cli_usage(call, "needs --size with a number for %s, such as --size %s=1024", name, name);
            return false;
        }
    return true;
}

// Arguments -------------------------------------------------------------------------------------------------

static bool is_float(zl_dtype dtype) {
    return dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64 || dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
}

// Returns numbers of a normal distribution, or small integers, the same in each run.
static zl_array random_input(const zl_kernel_parameter *p, zl_shape shape, int at) {
    zl_array key = zl_random_key(at + 1);
    if (is_float(p->dtype))
        return zl_astype(zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, key), p->dtype);
    return zl_astype(zl_random_randint(zl_scalar_int(0), zl_scalar_int(8), shape, ZL_INT32, key), p->dtype);
}

static bool make_argument(struct run *r, int i) {
    zl_kernel_parameter *p = &r->parameter[i];
    if (!zl_kernel_parameter_at(r->kernel, i, p) ||
        (!p->is_scalar && !zl_kernel_shape(r->kernel, i, r->size, r->dim[i])))
        return false;
    zl_shape shape = {r->dim[i], p->ndim};
    zl_array a = p->is_output ? zl_zeros(shape, p->dtype) : random_input(p, shape, i);
    if (!a || !zl_eval(zl_retain(a)))
        return false;
    r->array[i] = a;
    r->buffer[i] = (zl_kernel_buffer){(void *)(uintptr_t)zl_data(a), p->dtype, p->ndim, r->dim[i], NULL};
    return r->buffer[i].data != NULL;
}

// The arguments are in host memory. Kernels copy them to where they run, and results are read as arrays.
bool cli_run_arguments(struct run *r) {
    bool made = false;
    if (!zl_use_device("cpu"))
        return false;
    ZL_SCOPE {
        made = true;
        for (r->count = 0; made && r->count < zl_kernel_parameters(r->kernel) && r->count < CLI_PARAMETERS;
             r->count++)
            made = make_argument(r, r->count);
    }
    return made;
}

void cli_run_end(struct run *r) {
    for (int i = 0; i < CLI_PARAMETERS; i++)
        zl_release(r->array[i]);
    zl_kernel_release(r->kernel);
}

static int begin_run(const struct invocation *call, struct run *r) {
    double seconds;
    r->kernel = compile(call, &seconds);
    if (!r->kernel)
        return CLI_FAILED;
    if (!cli_run_sizes(call, r->kernel, r->size))
        return CLI_USAGE;
    return cli_run_arguments(r) ? CLI_OK : cli_library_failed(call);
}

// -----------------------------------------------------------------------------------------------------------

enum { SHOWN_MOST = 64 }; // outputs with at most this many elements are printed whole

// Prints the sum of an output, and its elements; of long axes only the ends, if there are more than `most`.
static void print_output(const struct run *r, int i, int64_t most, bool json) {
    char *text = NULL;
    double sum = 0;
    ZL_SCOPE {
        zl_array wide = zl_astype(r->array[i], ZL_FLOAT64);
        sum = zl_item(zl_sum(wide));
        text = zl_print_most(r->array[i], most);
    }
    if (json) {
        cli_json_open(NULL, '{');
        cli_json_text("name", r->parameter[i].name);
        cli_json_number("sum", sum);
        cli_json_close();
    } else {
        printf("%s, sum %g:\n%s\n", r->parameter[i].name, sum, text ? text : "");
    }
    zl_free(text);
}

static int run_run(const struct invocation *call) {
    struct run r = {0};
    if (!call->operand_count)
        return cli_usage(call, "needs a .tile file");
    if (cli_is_device_c(call->operands[0]))
        return cli_run_device_c(call);
    if (call->operand_count > 1)
        return cli_usage(call, "one argument too many: '%s'", call->operands[1]);
    int code = begin_run(call, &r);
    if (code == CLI_OK && !zl_kernel_run(r.kernel, r.count, r.buffer))
        code = cli_library_failed(call);
    if (code == CLI_OK && call->json)
        cli_json_open(NULL, '[');
    for (int i = 0; code == CLI_OK && i < r.count; i++)
        if (r.parameter[i].is_output)
            print_output(&r, i, cli_option(call, "all") ? INT64_MAX : SHOWN_MOST, call->json);
    if (code == CLI_OK && call->json)
        cli_json_close();
    cli_run_end(&r);
    return code;
}

double cli_run_best(struct run *r, double within, int *runs) {
    double best = 1e30, end = cli_now() + within;
    for (*runs = 0; *runs < 3 || cli_now() < end; ++*runs) {
        double took;
        if (!zl_kernel_time(r->kernel, r->count, r->buffer, 1, &took))
            return -1;
        best = took < best ? took : best;
    }
    return best;
}

static int run_bench(const struct invocation *call) {
    struct run r = {0};
    zl_kernel_cost cost;
    int runs = 0;
    if (!call->operand_count)
        return cli_usage(call, "needs a .tile file");
    int code = begin_run(call, &r);
    bool is_modelled = code == CLI_OK && zl_kernel_is_modelled(cli_target(call));
    double best = code == CLI_OK ? cli_run_best(&r, is_modelled ? 0 : 1, &runs) : 0;
    zl_device_c_report report;
    if (code == CLI_OK && (best < 0 || !zl_kernel_cost_of(r.kernel, r.size, &cost) ||
                           (is_modelled && !zl_kernel_report(r.kernel, r.count, r.buffer, &report))))
        code = cli_library_failed(call);
    if (code == CLI_OK && call->json) {
        cli_json_open(NULL, '{');
        cli_json_number("milliseconds", best * 1e3);
        cli_json_number("gflop_s", cost.flops / best * 1e-9);
        cli_json_number("gb_s", cost.bytes / best * 1e-9);
        cli_json_bool("is_modelled", is_modelled);
        if (is_modelled)
            cli_json_report(&report);
        cli_json_bool("is_cpu", !strcmp(cli_target(call), "c") || cli_is_cpu(cli_target(call)));
        cli_json_close();
    } else if (code == CLI_OK) {
        printf("%.3f ms, %.1f GFLOP/s, %.1f GB/s ", best * 1e3, cost.flops / best * 1e-9,
               cost.bytes / best * 1e-9);
        if (is_modelled)
            printf("(modelled)\n");
        else
            printf("(best of %d runs)\n", runs);
        if (is_modelled)
            cli_print_report(&report);
        cli_remark_cpu(cli_target(call), "");
    }
    cli_run_end(&r);
    return code;
}

static const struct option build_options[] = {
    CLI_TARGET_OPTION,
    CLI_PARAM_OPTION,
    {0},
};

#define RUN_OPTIONS \
    CLI_TARGET_OPTION, {"size", 0, "NAME=N,...", NULL, "the sizes that the kernel names"}, CLI_PARAM_OPTION

static const struct option run_options[] = {
    RUN_OPTIONS,
    {"all", 0, NULL, NULL, "print every element, also of large results"},
    {"entry", 0, "NAME", NULL, "of device C: the function that runs"},
    {"cores", 0, "N", NULL, "of device C: on how many cores (default 1)"},
    {"count", 0, NULL, NULL, "of device C: check and count its commands, compute nothing"},
    {"trace", 0, NULL, NULL, "of device C: print every command"},
    {0},
};

static const struct option bench_options[] = {RUN_OPTIONS, {0}};

const struct command cli_kernel_build = {
    .name = "kernel build",
    .operands = "FILE.tile",
    .words = "*.tile",
    .summary = "Compile a tile kernel, and say how long it took",
    .details =
        "With -v the text is printed that the target's compiler got. What was compiled is kept on disk.",
    .operands_most = 1,
    .options = build_options,
    .run = run_build,
};

const struct command cli_kernel_run = {
    .name = "kernel run",
    .operands = "FILE.tile | FILE.c [in:A.npy | out:B.npy:f16[8,16] | inout:C.npy | i32:8]...",
    .words = "*.tile",
    .summary = "Run a tile kernel on random numbers, and print what it computed",
    .details =
        "Inputs are the same at each run. Of a result of more than 64 elements the first and last three\n"
        "along each axis are printed, unless --all is given.\n"
        "  zellige kernel run softmax.tile --size rows=4,n=100\n"
        "Device C of a chip runs on its emulator. Its arguments follow the file: arrays of files, arrays "
        "that\n"
        "are written to files, and numbers. Times are modelled.\n"
        "  zellige kernel run mm.c --target bm1690 --entry mm in:a.npy in:b.npy out:c.npy:f16[384,768] "
        "i32:384",
    .operands_most = 1 + CLI_PARAMETERS,
    .options = run_options,
    .run = run_run,
};

const struct command cli_kernel_bench = {
    .name = "kernel bench",
    .operands = "FILE.tile",
    .words = "*.tile",
    .summary = "Time a tile kernel: the best run, operations and bytes per second",
    .details = "Operations and bytes are counted in the kernel.\n"
               "  zellige kernel bench gemm.tile --size M=1024,N=1024,K=1024",
    .operands_most = 1,
    .options = bench_options,
    .run = run_bench,
};
