// tpu_command.c - `zellige tpu compile`: compiles an op, a suite or an exported function with Google's
// compiler, for chips that this machine does not have.
//
// The figures are estimates of the compiler, and are printed as such. Programs without estimates have none.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "zellige_ahead.h"

static const struct option options[] = {
    {"topology", 0, "NAME", "v4:2x2x1 v5e:2x2 v5p:2x2x1 v6e:1x1 tpu7x:1x1x1", "the chips (default v6e:1x1)"},
    {"dtype", 0, "TYPE", NULL, "of ops: one dtype instead of all, as f32, bf16, i8"},
    {"plugin", 0, "FILE", NULL, "libtpu.so, instead of the one that ZL_PJRT names or Python's packages have"},
    {"sample", 0, "N", NULL, "of `ops`: so many pairs of op and dtype, chosen by --seed"},
    {"seed", 0, "N", NULL, "which ones (default 1)"},
    {"program", 0, NULL, NULL, "print the StableHLO that is compiled"},
    {"hlo", 0, NULL, NULL, "print what the compiler made of it"},
    {0},
};

struct run {
    const struct invocation *call;
    zl_ahead *compiler;
    double peak[BENCH_DTYPES]; // operations per cycle and core; NaN: unknown
    int compiled, left, refused;
};

// A program: its name and the operations that it does, 0 if unknown. If they are known, their dtype has a
// peak.
struct subject {
    const char *name, *dtype;
    double flops;
    enum bench_dtype of;
};

// Showing ---------------------------------------------------------------------------------------------------

// Returns the fraction of the peak, by the compiler's estimate of cycles; NaN if unknown.
static double share_of_peak(const struct run *r, const struct subject *s, const zl_ahead_program *p) {
    return s->flops > 0 && p->cycles > 0 ? s->flops / p->cycles / r->peak[s->of] : NAN;
}

static void show_json(const struct run *r, const struct subject *s, const zl_ahead_program *p,
                      const char *why) {
    cli_json_open(NULL, '{');
    cli_json_text("program", s->name);
    cli_json_text("dtype", s->dtype);
    cli_json_bool("compiled", !why);
    if (why) {
        cli_json_text("reason", why);
    } else {
        cli_json_int("code_bytes", p->code_bytes);
        cli_json_int("argument_bytes", p->argument_bytes);
        cli_json_int("result_bytes", p->result_bytes);
        cli_json_int("temporary_bytes", p->temporary_bytes);
        cli_json_number("estimated_cycles", p->cycles);
        cli_json_number("estimated_least_seconds", p->seconds);
        cli_json_number("estimated_flops", p->flops);
        cli_json_number("estimated_bytes", p->bytes);
        cli_json_number("estimated_share_of_peak", share_of_peak(r, s, p));
        if (cli_option(r->call, "hlo"))
            cli_json_text("hlo", p->optimized);
    }
    if (p->program && cli_option(r->call, "program"))
        cli_json_text("stablehlo", p->program); // also of programs that the compiler refuses
    cli_json_close();
}

static void show_text(const struct run *r, const struct subject *s, const zl_ahead_program *p,
                      const char *why) {
    if (why) {
        printf("%-30s %-8s not compiled: %s\n", s->name, s->dtype, why);
        return;
    }
    char share[32] = "";
    double of_peak = share_of_peak(r, s, p);
    if (of_peak == of_peak)
        snprintf(share, sizeof share, ", %.1f %% of peak", 100 * of_peak);
    printf("%-30s %-8s estimates: %.0f cycles%s, at best %.3g us; bytes: code %lld, arguments %lld, results "
           "%lld, "
           "temporaries %lld\n",
           s->name, s->dtype, p->cycles, share, 1e6 * p->seconds, (long long)p->code_bytes,
           (long long)p->argument_bytes, (long long)p->result_bytes, (long long)p->temporary_bytes);
    if (cli_option(r->call, "program"))
        printf("%s\n", p->program);
    if (cli_option(r->call, "hlo"))
        printf("%s\n", p->optimized);
}

// Compiling -------------------------------------------------------------------------------------------------

// Compiles a program. An op that has no rendering, or has a dtype that TPUs lack, runs on the CPU, which is
// not counted as a failure.
static void compile(struct run *r, const struct subject *s, int count, const zl_array *outputs) {
    zl_ahead_program p = {0};
    bool good = zl_ahead_compile(r->compiler, count, outputs, &p);
    const char *why = good ? NULL : zl_error() ? zl_error() : "it could not be recorded";
    bool is_left = why && strstr(why, "the CPU");
    r->compiled += good;
    r->left += is_left;
    r->refused += !good && !is_left;
    if (r->call->json)
        show_json(r, s, &p, why);
    else
        show_text(r, s, &p, why);
    fflush(stdout);
    zl_clear_error();
    zl_ahead_program_free(&p);
}

static void compile_op(struct run *r, int index, zl_dtype t) {
    const char *name;
    ZL_SCOPE {
        zl_array x = zl_op_sample(index, t, &name);
        if (x)
            compile(r, &(struct subject){name, zl_dtype_name(t), 0, 0}, 1, &x);
        zl_clear_error();
    }
}

// Pairs of op and dtype -------------------------------------------------------------------------------------

struct pair {
    int op;
    zl_dtype dtype;
    uint64_t order;
};

static uint64_t mix(uint64_t x) { // splitmix64
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static int by_order(const void *a, const void *b) {
    uint64_t x = ((const struct pair *)a)->order, y = ((const struct pair *)b)->order;
    return x < y ? -1 : x > y;
}

// Lists the pairs of an op and a dtype that exist, without float64, which TPUs leave to the CPU. Sets *list
// to them, which the caller frees. Returns how many there are; -1 if memory runs out.
static int list_pairs(const char *op, const char *dtype, uint64_t seed, struct pair **list) {
    const char *name = "";
    int count = 0, cap = 0;
    *list = NULL;
    for (int i = 0; name; i++)
        for (int t = 0; t < ZL_DTYPE_COUNT && name; t++) {
            bool exists = false;
            ZL_SCOPE
                exists = zl_op_sample(i, (zl_dtype)t, &name);
            zl_clear_error();
            if (!exists || t == ZL_FLOAT64 || (op && strcmp(op, name)) ||
                (dtype && strcmp(dtype, zl_dtype_name((zl_dtype)t))))
                continue;
            if (count == cap) {
                struct pair *more = realloc(*list, sizeof *more * (size_t)(cap = 2 * cap + 64));
                if (!more)
                    return -1;
                *list = more;
            }
            (*list)[count++] = (struct pair){i, (zl_dtype)t, mix(seed << 32 ^ (uint64_t)(i << 8 | t))};
        }
    return count;
}

static int compile_pairs(struct run *r, const char *op, const char *dtype) {
    int64_t sample = INT32_MAX, seed = 1;
    struct pair *list;
    if (!cli_integer(r->call, "sample", 1, INT32_MAX, &sample) ||
        !cli_integer(r->call, "seed", 0, INT32_MAX, &seed))
        return CLI_USAGE;
    int count = list_pairs(op, dtype, (uint64_t)seed, &list);
    if (cli_option(r->call, "sample") && count > 0)
        qsort(list, (size_t)count, sizeof *list, by_order);
    for (int i = 0; i < count && i < sample; i++)
        compile_op(r, list[i].op, list[i].dtype);
    free(list);
    if (count < 0)
        return cli_fail(r->call, "out of memory");
    return count ? CLI_OK
                 : cli_usage(r->call, "there is no op '%s'%s%s", op ? op : "", dtype ? " of " : "",
                             dtype ? dtype : "");
}

// Suites and files ------------------------------------------------------------------------------------------

static void compile_case(struct run *r, const struct bench_config *config) {
    struct bench_work w = {.zeros = true};
    if (bench_work_prepare(&w, config) && w.kind->record)
        ZL_SCOPE {
            zl_array x = w.kind->record(&w);
            compile(r, &(struct subject){config->id, bench_dtype_name(config->dtype), w.flops, config->dtype},
                    1, &x);
        }
    else if (!r->call->json)
        printf("%-30s %-8s is no program: %s\n", config->id, bench_dtype_name(config->dtype),
               w.why[0]     ? w.why
               : zl_error() ? zl_error()
                            : "it measures calls or copies");
    zl_clear_error();
    bench_work_finish(&w);
}

static int compile_suite(struct run *r, const char *name) {
    struct bench_suite suite;
    char error[256];
    if (!bench_suite_open(&suite, name, error, sizeof error))
        return cli_usage(r->call, "'%s' is no op, file of a function, or suite: %s", name, error);
    for (int i = 0; i < suite.count; i++)
        compile_case(r, &suite.config[i]);
    bench_suite_close(&suite);
    return CLI_OK;
}

// Returns zeros of a description such as "f32[2,3]"; NULL after an error.
static zl_array read_input(const char *text) {
    char name[24];
    int64_t dim[16];
    int ndim = 0;
    size_t size = strcspn(text, "[");
    snprintf(name, sizeof name, "%.*s", (int)size, text);
    for (const char *at = text + size; *at && *at != ']' && at[1] != ']' && ndim < 16; ndim++) {
        char *end;
        dim[ndim] = strtoll(at + 1, &end, 10);
        at = end;
    }
    for (int t = 0; t < ZL_DTYPE_COUNT; t++)
        if (!strcmp(name, zl_dtype_name((zl_dtype)t)) && text[size] == '[') {
            zl_array x = zl_zeros((zl_shape){dim, ndim}, (zl_dtype)t);
            return x && zl_eval(x) ? x : NULL;
        }
    return NULL;
}

static int compile_file(struct run *r, const char *path) {
    enum { INPUTS = 64 };
    zl_imported *f = zl_import(path);
    if (!f)
        return cli_library_failed(r->call);
    int code = CLI_OK;
    ZL_SCOPE {
        zl_array in[INPUTS], results[INPUTS];
        int count = 0;
        zl_outputs *out = zl_outputs_new();
        for (int i = 1; i < r->call->operand_count && count < INPUTS && code == CLI_OK; i++)
            if (!(in[count++] = read_input(r->call->operands[i])))
                code = cli_usage(r->call, "'%s' is no input such as float32[2,3]", r->call->operands[i]);
        if (code == CLI_OK && !zl_imported_call(f, count, in, 0, NULL, out))
            code = cli_library_failed(r->call);
        int given = code == CLI_OK ? zl_outputs_count(out) : 0;
        for (int i = 0; i < given && i < INPUTS; i++)
            results[i] = zl_outputs_get(out, i);
        if (given)
            compile(r, &(struct subject){path, "", 0, 0}, given < INPUTS ? given : INPUTS, results);
        zl_outputs_free(out);
    }
    zl_imported_free(f);
    return code;
}

// Opening ---------------------------------------------------------------------------------------------------

// Sets variables that libtpu reads when it is opened. Without them it would, outside Google's machines, wait
// minutes for their metadata server, and would keep other processes from using it.
static void prepare_environment(const struct invocation *call) {
    static const char *const variables[][2] = {
        {"TPU_SKIP_MDS_QUERY", "1"}, {"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},   {"TPU_ACCELERATOR_TYPE", "v6e-4"},
        {"TPU_WORKER_ID", "0"},      {"TPU_WORKER_HOSTNAMES", "localhost"}, {"TPU_LOG_DIR", "disabled"},
        {"TPU_MIN_LOG_LEVEL", "3"}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i][0], variables[i][1], 0);
    if (cli_option(call, "plugin"))
        setenv("ZL_PJRT", cli_option(call, "plugin"), 1);
    zl_use_device("cpu"); // nothing is evaluated, and arguments are read on the host
}

// Reads the peaks: of bf16 in operations per cycle; other dtypes are scaled by the ratio of their published
// peaks.
static void read_peaks(struct run *r, const char *topology) {
    char name[32], error[256];
    struct bench_specs specs;
    const char *at = strncmp(topology, "tpu", 3) ? topology : topology + 3;
    snprintf(name, sizeof name, "tpu-%.*s", (int)strcspn(at, ":"), at);
    for (int t = 0; t < BENCH_DTYPES; t++)
        r->peak[t] = NAN;
    if (!bench_specs_open(&specs, NULL, error, sizeof error))
        return;
    text_json_value chip = bench_chip_by_id(&specs, name);
    double core = chip ? text_json_number_of(chip, "core_bf16_flop_per_cycle") : NAN;
    for (int t = 0; chip && t < BENCH_DTYPES; t++)
        r->peak[t] = core * bench_spec_peak(&specs, chip, (enum bench_dtype)t).rate /
                     bench_spec_peak(&specs, chip, BENCH_BF16).rate;
    bench_specs_close(&specs);
}

static int run_subject(struct run *r) {
    const char *what = r->call->operands[0], *dtype = cli_option(r->call, "dtype"), *name = "";
    if (!strcmp(what, "ops"))
        return compile_pairs(r, NULL, dtype);
    for (int i = 0; name; i++) {
        zl_op_sample(i, ZL_FLOAT32, &name);
        zl_clear_error();
        if (name && !strcmp(name, what))
            return compile_pairs(r, what, dtype);
    }
    const char *dot = strrchr(what, '.');
    bool is_file = !access(what, R_OK) && !(dot && !strcmp(dot, ".json"));
    return is_file ? compile_file(r, what) : compile_suite(r, what);
}

static int run(const struct invocation *call) {
    if (!call->operand_count)
        return cli_usage(call,
                         "needs an op, `ops`, a suite such as tpu_gemm, or a file of an exported function");
    const char *topology = cli_option(call, "topology");
    struct run r = {.call = call};
    topology = topology ? topology : "v6e:1x1";
    prepare_environment(call);
    if (!(r.compiler = zl_ahead_open(topology)))
        return cli_library_failed(call);
    read_peaks(&r, topology);
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("topology", topology);
        cli_json_open("programs", '[');
    }
    int code = run_subject(&r);
    if (call->json) {
        cli_json_close();
        cli_json_int("compiled", r.compiled);
        cli_json_int("refused", r.refused);
        cli_json_int("on_the_cpu", r.left);
        cli_json_close();
    } else {
        printf("%d compiled for %s, %d refused by its compiler, %d left to the CPU\n", r.compiled, topology,
               r.refused, r.left);
    }
    zl_ahead_close(r.compiler);
    return code != CLI_OK ? code : r.refused ? CLI_FAILED : CLI_OK;
}

const struct command cli_tpu_compile = {
    .name = "tpu compile",
    .operands = "WHAT [INPUT...]",
    .summary = "What Google's compiler makes of a program, without a TPU",
    .details = "WHAT is an op (`exp`), `ops` (all pairs of op and dtype), a suite of `bench run` "
               "(`tpu_gemm`), or the file of an\n"
               "exported function with an input such as float32[2,3] for each of its own. The compiler is "
               "libtpu's, for x86_64\n"
               "(pip install libtpu; elsewhere run a build for x86_64 by qemu-x86_64). It needs no TPU and "
               "takes none. Cycles, times\n"
               "and shares of the peak are its estimates, not measurements.",
    .operands_most = 65,
    .options = options,
    .run = run,
};
