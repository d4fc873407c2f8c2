// suite.c - suites: JSON that lists works with dtypes, ops and sizes. Each combination becomes one
// configuration.
//
//     {"name": "simple", "seconds": 0.3, "items": [
//       {"work": "gemm", "dtypes": ["f32", "bf16"],
//        "sizes": [512, [4096, 512, 512], {"from": 1024, "to": 8192, "times": 2}]},
//       {"work": "elementwise", "ops": ["add", "exp"], "dtypes": ["f32"], "sizes": ["16M"]}]}

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

void bench_config_name(struct bench_config *c) {
    size_t used = (size_t)snprintf(c->id, sizeof c->id, "%s%s%s/%s", c->work, c->op[0] ? "." : "", c->op,
                                   bench_dtype_name(c->dtype));
    for (int i = 0; i < c->dims && used < sizeof c->id; i++)
        used += (size_t)snprintf(c->id + used, sizeof c->id - used, "%c%lld", i ? 'x' : '/',
                                 (long long)c->dim[i]);
}

bool bench_suite_add(struct bench_suite *suite, const struct bench_config *config) {
    bool is_full = (suite->count & (suite->count - 1)) == 0; // the capacity is the count, rounded up to a
                                                             // power of two
    if (is_full) {
        size_t room = suite->count ? 2 * (size_t)suite->count : 1;
        struct bench_config *more = realloc(suite->config, room * sizeof *more);
        if (!more)
            return false;
        suite->config = more;
    }
    suite->config[suite->count] = *config;
    bench_config_name(&suite->config[suite->count++]);
    return true;
}

// Sizes -----------------------------------------------------------------------------------------------------

enum { CONFIGURATIONS_MOST = 10000 };
static const int64_t size_most = INT64_C(1) << 50;

// Returns a size such as 16384, "16K" or "64M"; 0 if it is none, or larger than any array.
static int64_t size_of(text_json_value value) {
    const char *text = text_json_text(value);
    char *end = NULL;
    if (!text) {
        int64_t size = text_json_integer(value);
        return size <= size_most ? size : 0;
    }
    int64_t size = strtoll(text, &end, 10);
    const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;
    int bits = unit ? 10 * (int)(unit - units + 1) : 0;
    bool is_size = size >= 1 && size <= size_most >> bits && (!*end || (unit && !end[1]));
    return is_size ? size << bits : 0;
}

static bool add_size(struct bench_suite *suite, struct bench_config config, text_json_value size) {
    config.dims = text_json_is_list(size) ? text_json_count(size) : 1;
    if (config.dims < 1 || config.dims > 4)
        return false;
    for (int i = 0; i < config.dims; i++) {
        config.dim[i] = size_of(text_json_is_list(size) ? text_json_at(size, i) : size);
        if (config.dim[i] < 1)
            return false;
    }
    return bench_suite_add(suite, &config);
}

// Adds sizes: a number, a list, or {"from": 1024, "to": 8192, "times": 2}.
static bool add_sizes(struct bench_suite *suite, struct bench_config config, text_json_value size) {
    double from = text_json_number_of(size, "from"), to = text_json_number_of(size, "to");
    double times = text_json_number_of(size, "times");
    if (text_json_is_list(size) || isnan(from))
        return add_size(suite, config, size);
    config.dims = 1;
    if (!(from >= 1 && to >= from && to <= (double)size_most && times > 1))
        return false;
    for (; from <= to && suite->count <= CONFIGURATIONS_MOST; from *= times) {
        config.dim[0] = (int64_t)from;
        if (!bench_suite_add(suite, &config))
            return false;
    }
    return true;
}

// Items -----------------------------------------------------------------------------------------------------

static bool wrong(char *error, size_t bytes, const struct bench_suite *suite, const char *what,
                  const char *value) {
    snprintf(error, bytes, "suite %s: %s '%s'", suite->name, what, value ? value : "");
    return false;
}

static bool add_dtype(struct bench_suite *suite, text_json_value item, struct bench_config config,
                      char *error, size_t bytes) {
    text_json_value sizes = text_json_get(item, "sizes");
    if (text_json_count(sizes) == 0)
        return bench_suite_add(suite, &config);
    for (int i = 0; i < text_json_count(sizes); i++)
        if (!add_sizes(suite, config, text_json_at(sizes, i)))
            return wrong(error, bytes, suite,
                         "a size is not a number, a list of at most four, or a range, in", config.work);
    return true;
}

static bool add_op(struct bench_suite *suite, text_json_value item, struct bench_config config, char *error,
                   size_t bytes) {
    text_json_value list = text_json_get(item, "dtypes");
    for (int i = 0; i < text_json_count(list) || (i == 0 && !list); i++) {
        const char *name = list ? text_json_text(text_json_at(list, i)) : "f32";
        config.dtype = bench_dtype_find(name ? name : "");
        if (config.dtype == BENCH_DTYPES)
            return wrong(error, bytes, suite, "no dtype", name);
        if (!add_dtype(suite, item, config, error, bytes))
            return false;
    }
    return true;
}

static bool add_item(struct bench_suite *suite, text_json_value item, char *error, size_t bytes) {
    struct bench_config config = {0};
    const char *work = text_json_text_of(item, "work");
    text_json_value ops = text_json_get(item, "ops");
    if (!bench_work_find(work))
        return wrong(error, bytes, suite, "no work", work);
    snprintf(config.work, sizeof config.work, "%s", work);
    for (int i = 0; i < text_json_count(ops) || (i == 0 && !ops); i++) {
        const char *op = text_json_text(text_json_at(ops, i));
        snprintf(config.op, sizeof config.op, "%s", op ? op : "");
        cli_clean(config.op, false);
        if (!add_op(suite, item, config, error, bytes))
            return false;
    }
    return true;
}

static double number_or(text_json_value root, const char *key, double fallback) {
    double value = text_json_number_of(root, key);
    return isnan(value) ? fallback : value;
}

static int count_or(text_json_value root, const char *key, int fallback) {
    double value = number_or(root, key, fallback);
    return value >= 0 && value < INT32_MAX ? (int)value : fallback;
}

static bool read_suite(struct bench_suite *suite, text_json_value root, char *error, size_t bytes) {
    text_json_value items = text_json_get(root, "items");
    suite->timing = (struct bench_timing){
        .seconds = number_or(root, "seconds", 0.5),
        .warm_seconds = number_or(root, "warm_seconds", 0.3),
        .least = count_or(root, "samples_least", 5),
        .most = count_or(root, "samples_most", 200),
    };
    if (text_json_count(items) == 0)
        return wrong(error, bytes, suite, "has no list", "items");
    for (int i = 0; i < text_json_count(items); i++)
        if (!add_item(suite, text_json_at(items, i), error, bytes))
            return false;
    if (suite->count <= CONFIGURATIONS_MOST)
        return true;
    snprintf(error, bytes, "suite %s: more than %d configurations", suite->name, CONFIGURATIONS_MOST);
    return false;
}

bool bench_suite_open(struct bench_suite *suite, const char *name, char *error, size_t error_bytes) {
    char file[96];
    *suite = (struct bench_suite){0};
    snprintf(suite->name, sizeof suite->name, "%.63s", name);
    snprintf(file, sizeof file, "%.60s.json", name);
    const char *built_in = bench_file_find(file);
    text_json_value root = built_in ? text_json_parse(built_in, strlen(built_in), file, error, error_bytes)
                                    : text_json_load(name, error, error_bytes);
    if (!root && !built_in && access(name, R_OK))
        snprintf(error, error_bytes,
                 "no suite '%s': there are simple, gemm and full, each also after gpu_ or tpu_, delta and "
                 "gpu_delta, tile and llm; or give a file",
                 name);
    if (root && text_json_text_of(root, "name")[0])
        bench_json_copy(root, "name", false, suite->name, sizeof suite->name);
    bool done = root && read_suite(suite, root, error, error_bytes);
    text_json_free(root);
    if (!done)
        bench_suite_close(suite);
    return done;
}

void bench_suite_close(struct bench_suite *suite) {
    free(suite->config);
    suite->config = NULL;
    suite->count = 0;
}
