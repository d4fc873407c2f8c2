// test_bm1690_planted.c - faults planted in device C that our renderer wrote: each is reported, or makes the
// result wrong.
//
// A text has all of its faults, and a variable that selects one: no command of a launch, a command dropped,
// its first address off by 2 bytes (downwards for fills, whose first bytes other commands overwrite) or in
// the last 64 bytes of its lane, one buffer in place of two.

#include "on_chip.h"

#include "device/tile_trial.h"
#include "tile/tile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 3, SYMBOLS = 3, SETS = 2, COMMANDS = 200 };

enum fault { NONE, ONE_BUFFER, DROPPED = 1000, OFF_BY_TWO = 2000, AT_THE_END = 3000 };

struct planted {
    const char *name, *text;
    int buffers, symbols;
    struct {
        int64_t symbol[SYMBOLS];
        int64_t count[BUFFERS]; // number of elements; the last buffer is the result
    } set[SETS];                // sets of sizes: one of them has to show the fault
    bool is_half;
};

static const struct planted matmul = {
    "matmul",
    "kernel matmul(A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]) {\n"
    "  grid bx in ceildiv(N, 64), by in ceildiv(M, 96) {\n"
    "    shared a: f16[96, 32]\n"
    "    shared b: f16[32, 64]\n"
    "    fragment c: f32[96, 64] = 0\n"
    "    pipeline k in ceildiv(K, 32) stages 2 {\n"
    "      copy A[by * 96, k * 32] -> a\n"
    "      copy B[k * 32, bx * 64] -> b\n"
    "      gemm a, b -> c\n"
    "    }\n"
    "    copy c -> C[by * 96, bx * 64]\n"
    "  }\n"
    "}",
    3,
    3,
    {{{70, 48, 40}, {70 * 48, 48 * 40, 70 * 40}}, {{40, 20, 40}, {40 * 20, 20 * 40, 40 * 40}}},
    true,
};

// Some sums, and products with them, are near the largest number, infinite or NaN: quotients and maxima have
// commands for these.
static const struct planted softmax = {
    "softmax",
    "kernel softmax(x: f32[rows, n]) -> (y: f32[rows, n]) where n <= 128 {\n"
    "  grid b in ceildiv(rows, 64) {\n"
    "    shared t: f32[64, 128]\n"
    "    fragment most: f32[64]\n"
    "    fragment sum: f32[64]\n"
    "    copy x[b * 64, 0] -> t else -inf\n"
    "    reduce maximum t -> most axis 1\n"
    "    map i in 64, j in 128 { t[i, j] = exp(where(abs(t[i, j]) < 1500, t[i, j], 0) - most[i] * 0.5) }\n"
    "    reduce add t -> sum axis 1\n"
    "    map i in 64, j in 128 { t[i, j] = t[i, j] * 1e30 / (sum[i] * 4e36) }\n"
    "    copy t -> y[b * 64, 0]\n"
    "  }\n"
    "}",
    2,
    2,
    {{{50, 100}, {50 * 100, 50 * 100}}, {{64, 128}, {64 * 128, 64 * 128}}},
    false,
};

static const struct planted edges = {
    "edges",
    "kernel edges(x: f16[rows, n]) -> (y: f16[rows, n]) {\n"
    "  grid bx in ceildiv(n, 48), by in ceildiv(rows, 80) {\n"
    "    shared t: f16[80, 48]\n"
    "    shared u: f16[80, 48]\n"
    "    copy x[by * 80, bx * 48] -> t\n"
    "    copy t -> u\n"
    "    copy u -> y[by * 80, bx * 48]\n"
    "  }\n"
    "}",
    2,
    2,
    {{{70, 40}, {70 * 40, 70 * 40}}, {{100, 50}, {100 * 50, 100 * 50}}},
    true,
};

static const struct planted masked = {
    "masked",
    "kernel masked(x: f32[n, 96], w: f32[n, 96]) -> (y: f32[n, 96]) {\n"
    "  grid b in ceildiv(n, 32) {\n"
    "    shared t: f32[32, 96]\n"
    "    shared u: f32[32, 96]\n"
    "    copy x[b * 32, 0] -> t\n"
    "    copy w[b * 32, 0] -> u\n"
    "    map i in 32, j in 96 {\n"
    "      if i < j { t[i, j] = t[i, j] * u[i, j] } else { t[i, j] = t[i, j] - 1 }\n"
    "    }\n"
    "    copy t -> y[b * 32, 0]\n"
    "  }\n"
    "}",
    3,
    1,
    {{{50}, {50 * 96, 50 * 96, 50 * 96}}, {{20}, {20 * 96, 20 * 96, 20 * 96}}},
    false,
};

// Planting --------------------------------------------------------------------------------------------------

struct trial {
    const struct planted *planted;
    struct on_chip on;
    char command[COMMANDS][64];
    int sites; // planted places in the text
    char *input[SETS][BUFFERS];
    char *wanted[SETS]; // results without a fault
};

static const char opening[] =
    "static int planted;\n"
    "int plant_kernel(const void *which) { planted = *(const int *)which; return 0; }\n"
    "TPUKERNEL_FUNC_REGISTER(plant_kernel)\n"
    "static u64 at(int site, int off, u64 address) {\n"
    "    u64 end = address < 64 << 18 ? address | 0x3ffc0 : address + (1ull << 32);\n"
    "    return planted == 2000 + site ? address + off : planted == 3000 + site ? end : address;\n"
    "}\n";

// Writes a command's line such that its execution, and its first address, depend on the fault.
static void plant_command(struct text *out, struct trial *t, const char *line, int len) {
    char *command = t->command[t->sites];
    int name = (int)strcspn(line, "("), first = (int)strcspn(line, ",") - name - 1;
    snprintf(command, sizeof t->command[0], "%.*s", name, line);
    int off = !strcmp(command, "tpu_gdma_set_C_local") ? -2 : 2;
    text_add(out, "if (planted != %d) %s(at(%d, %d, %.*s)%.*s\n", DROPPED + t->sites, command, t->sites, off,
             first, line + name + 1, len - name - 1 - first, line + name + 1 + first);
    t->sites++;
}

// Writes any other line. The choice between two buffers is the last bit of a turn's number.
static void plant_line(struct text *out, const char *line, int len) {
    static const char choice[] = "& (u32)0x1u";
    const char *found = strstr(line, choice);
    int before = found && found < line + len ? (int)(found - line) : len;
    text_add(out, "%.*s", before, line);
    if (before < len)
        text_add(out, "& (u32)(planted != %d)%.*s", ONE_BUFFER, len - before - (int)strlen(choice),
                 found + strlen(choice));
    text_add(out, "\n");
}

static void plant(struct text *out, struct trial *t, const char *device_c) {
    bool is_open = false;
    for (const char *at = device_c; *at;) {
        int len = (int)strcspn(at, "\n"), space = (int)strspn(at, " ");
        const char *word = at + space;
        if (!strncmp(word, "tpu_bdc_", 8) || !strncmp(word, "tpu_gdma_", 9))
            plant_command(out, t, word, len - space);
        else
            plant_line(out, at, len);
        if (!is_open && !strncmp(at, "#include", 8)) {
            text_add(out, "%s", opening);
            is_open = true;
        }
        at += len + (at[len] == '\n');
    }
}

// Runs ------------------------------------------------------------------------------------------------------

// Some numbers are so large that products of 16-bit floats, or exponentials, are infinite, and some f32 are
// NaN, because there are commands for these.
static char *random_bytes(int64_t count, bool is_half) {
    char *data = malloc((size_t)count * 4);
    for (int64_t i = 0; data && i < count; i++) {
        float x = (float)test_between(-2048, 2048) / 1024 * (test_between(0, is_half ? 31 : 127) ? 1 : 1000);
        x = !is_half && test_between(0, 127) == 0 ? NAN : x;
        uint16_t half = half_from_float(x);
        memcpy(data + i * (is_half ? 2 : 4), is_half ? (void *)&half : (void *)&x, is_half ? 2 : 4);
    }
    return data;
}

static bool choose(struct trial *t, int fault) {
    return CHECK(bm1690_launch(t->on.chip, t->on.module, "plant_kernel", &fault, sizeof fault, NULL, NULL));
}

// Returns the result, which the caller frees; NULL after an error.
static char *run(struct trial *t, int set, int fault) {
    const struct planted *p = t->planted;
    uint64_t argument[BUFFERS + SYMBOLS] = {0};
    size_t size = p->is_half ? 2 : 4, bytes = size * (size_t)p->set[set].count[p->buffers - 1];
    char entry[64], *result = malloc(bytes);
    if (!choose(t, fault))
        return result;
    for (int i = 0; i < p->buffers; i++)
        argument[i] = on_chip_put(&t->on, t->input[set][i], size * (size_t)p->set[set].count[i]);
    for (int i = 0; i < p->symbols; i++)
        argument[p->buffers + i] = (uint64_t)p->set[set].symbol[i];
    snprintf(entry, sizeof entry, "%s_kernel", p->name);
    bool good = bm1690_launch(t->on.chip, t->on.module, entry, argument,
                              sizeof *argument * (size_t)(p->buffers + p->symbols),
                              &(struct bm1690_options){.cores = BM1690_CORES}, NULL) &&
                bm1690_read(t->on.chip, argument[p->buffers - 1], result, bytes);
    on_chip_forget(&t->on);
    if (good)
        return result;
    free(result);
    return NULL;
}

// Returns whether a fault is found: by an error, or, unless it has to be reported, by a different result.
static bool is_found(struct trial *t, int fault, const char *reported) {
    bool is_found = false;
    for (int set = 0; set < SETS && !is_found; set++) {
        const struct planted *p = t->planted;
        char *result = run(t, set, fault);
        if (!result)
            is_found = !reported || strstr(zl_error(), reported);
        else if (!reported)
            is_found = memcmp(result, t->wanted[set],
                              (p->is_half ? 2ul : 4ul) * (size_t)p->set[set].count[p->buffers - 1]) != 0;
        zl_clear_error();
        free(result);
    }
    return is_found;
}

static void check_sites(struct trial *t) {
    int beyond = 0; // commands of more than one vector do not fit there
    for (int i = 0; i < t->sites; i++) {
        if (!CHECK(is_found(t, DROPPED + i, NULL)))
            test_note("%s: command %d, %s, can be dropped", t->planted->name, i, t->command[i]);
        if (!CHECK(is_found(t, OFF_BY_TWO + i, NULL)))
            test_note("%s: command %d, %s, is off by 2 bytes", t->planted->name, i, t->command[i]);
        if (!CHECK(is_found(t, AT_THE_END + i, NULL)))
            test_note("%s: command %d, %s, is at the end of the lanes", t->planted->name, i, t->command[i]);
        beyond += is_found(t, AT_THE_END + i, "a lane has 262144");
    }
    CHECK(beyond > t->sites / 4);
}

static bool open_trial(struct trial *t, const struct planted *p) {
    struct text text = {0};
    struct tile_kernel *kernel = tile_parse(p->text, p->name);
    char *device_c = kernel ? tile_rendered(kernel, "bm1690") : NULL;
    *t = (struct trial){.planted = p};
    if (CHECK(device_c))
        plant(&text, t, device_c);
    bool good = device_c && CHECK(!text.failed && t->sites > 0 && t->sites < COMMANDS) &&
                on_chip_open(&t->on, text.data);
    for (int set = 0; good && set < SETS; set++) {
        for (int i = 0; i < p->buffers - 1; i++)
            t->input[set][i] = random_bytes(p->set[set].count[i], p->is_half);
        t->wanted[set] = run(t, set, NONE);
        if (!CHECK(t->wanted[set]))
            test_note("%s", zl_error());
        good = t->wanted[set];
    }
    tile_free(kernel);
    memory_free(device_c);
    text_free(&text);
    return good;
}

static void close_trial(struct trial *t) {
    for (int set = 0; set < SETS; set++) {
        free(t->wanted[set]);
        for (int i = 0; i < BUFFERS; i++)
            free(t->input[set][i]);
    }
    on_chip_close(&t->on);
}

static void try_planted(const struct planted *p) {
    struct trial t;
    if (open_trial(&t, p))
        check_sites(&t);
    close_trial(&t);
}

TEST(faults_in_a_rendered_product) {
    struct trial t;
    if (open_trial(&t, &matmul)) {
        check_sites(&t);
        CHECK(is_found(&t, ONE_BUFFER, "in the same parallel region"));
    }
    close_trial(&t);
}

TEST(faults_in_a_rendered_softmax) {
    try_planted(&softmax);
}

TEST(faults_in_a_rendered_copy_with_edges) {
    try_planted(&edges);
}

TEST(faults_in_a_rendered_map_with_a_mask) {
    try_planted(&masked);
}
