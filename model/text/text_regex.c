// text_regex.c - regular expressions that are not hand-coded, by PCRE2, which is loaded at the first use.

#include "text_inside.h"

#include <dlfcn.h>
#include <pthread.h>

// Constants of PCRE2's ABI, as pcre2.h defines them.
enum {
    ERROR_NO_MATCH = -1,
    OPTION_UCP = 0x20000,
    OPTION_UTF = 0x80000,
    OPTION_NO_UTF_CHECK = 0x40000000,
    JIT_COMPLETE = 1,
    MOST_STEPS = 10000000
};

static struct {
    void *(*compile)(const unsigned char *pattern, size_t bytes, uint32_t options, int *error, size_t *at,
                     void *context);
    int (*jit_compile)(void *code, uint32_t options);
    void (*code_free)(void *code);
    void *(*data_new)(uint32_t pairs, void *context);
    void (*data_free)(void *data);
    void *(*context_new)(void *context);
    void (*context_free)(void *context);
    int (*set_limit)(void *context, uint32_t limit);
    int (*match)(const void *code, const unsigned char *text, size_t bytes, size_t from, uint32_t options,
                 void *data, void *context);
    size_t *(*bounds)(void *data);
    int (*message)(int error, unsigned char *out, size_t bytes);
} pcre2;

static const struct {
    const char *name;
    void **to;
} symbols[] = {
    {"pcre2_compile_8", (void **)&pcre2.compile},
    {"pcre2_jit_compile_8", (void **)&pcre2.jit_compile},
    {"pcre2_code_free_8", (void **)&pcre2.code_free},
    {"pcre2_match_data_create_8", (void **)&pcre2.data_new},
    {"pcre2_match_data_free_8", (void **)&pcre2.data_free},
    {"pcre2_match_context_create_8", (void **)&pcre2.context_new},
    {"pcre2_match_context_free_8", (void **)&pcre2.context_free},
    {"pcre2_set_match_limit_8", (void **)&pcre2.set_limit},
    {"pcre2_match_8", (void **)&pcre2.match},
    {"pcre2_get_ovector_pointer_8", (void **)&pcre2.bounds},
    {"pcre2_get_error_message_8", (void **)&pcre2.message},
};

static bool is_open;

static void open_once(void) {
    void *library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
    is_open = library != NULL;
    for (size_t i = 0; is_open && i < sizeof symbols / sizeof *symbols; i++)
        is_open = (*symbols[i].to = dlsym(library, symbols[i].name)) != NULL;
}

static bool open_library(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return is_open;
}

struct text_regex {
    void *code;
};

struct memory { // of one thread
    void *data, *context;
};

struct text_regex *text_regex_new(const char *pattern, char *error, size_t error_bytes) {
    if (!open_library()) {
        text_fail(error, error_bytes, "the pattern '%.200s' needs libpcre2-8.so.0: apt install libpcre2-8-0",
                  pattern);
        return NULL;
    }
    int code;
    size_t at;
    struct text_regex *r = calloc(1, sizeof *r);
    if (!r) {
        text_fail(error, error_bytes, "out of memory");
        return NULL;
    }
    r->code = pcre2.compile((const unsigned char *)pattern, strlen(pattern), OPTION_UTF | OPTION_UCP, &code,
                            &at, NULL);
    if (!r->code) {
        char why[120] = "";
        pcre2.message(code, (unsigned char *)why, sizeof why);
        text_fail(error, error_bytes, "the pattern '%.200s' is wrong at %zu: %s", pattern, at, why);
        free(r);
        return NULL;
    }
    pcre2.jit_compile(r->code, JIT_COMPLETE); // without it matching is only slower
    return r;
}

void text_regex_free(struct text_regex *r) {
    if (r)
        pcre2.code_free(r->code);
    free(r);
}

int text_regex_find(const struct text_regex *r, void **memory, const char *text, size_t bytes, size_t from,
                    size_t *start, size_t *end, char *error, size_t error_bytes) {
    struct memory *m = *memory;
    if (!m) {
        m = *memory = calloc(1, sizeof *m);
        if (m) {
            m->data = pcre2.data_new(64, NULL);
            m->context = pcre2.context_new(NULL);
        }
    }
    if (!m || !m->data || !m->context) {
        text_fail(error, error_bytes, "out of memory");
        return -1;
    }
    pcre2.set_limit(m->context, MOST_STEPS);
    // A check of the whole text at each match would take quadratic time.
    int found = pcre2.match(r->code, (const unsigned char *)text, bytes, from, OPTION_NO_UTF_CHECK, m->data,
                            m->context);
    if (found == ERROR_NO_MATCH)
        return 0;
    if (found < 0) {
        char why[120] = "";
        pcre2.message(found, (unsigned char *)why, sizeof why);
        text_fail(error, error_bytes, "the tokenizer's pattern cannot split %zu bytes of text: %s", bytes,
                  why);
        return -1;
    }
    const size_t *bounds = pcre2.bounds(m->data);
    *start = bounds[0];
    *end = bounds[1];
    return 1;
}

void text_regex_free_memory(void *memory) {
    struct memory *m = memory;
    if (m && m->data)
        pcre2.data_free(m->data);
    if (m && m->context)
        pcre2.context_free(m->context);
    free(m);
}
