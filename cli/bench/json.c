// json.c - documents are read by jansson, which is opened at run time: the program builds without it.

#include "bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

// What jansson's documentation fixes of its ABI: values start with their type, errors are this struct.
struct json_t {
    int type;
    size_t references;
};
enum { TYPE_OBJECT, TYPE_ARRAY, TYPE_STRING, TYPE_INTEGER, TYPE_REAL, TYPE_TRUE };

struct parse_error {
    int line, column, position;
    char source[80], text[160];
};

static struct {
    bool tried;
    void *library;
    bench_json (*loads)(const char *text, size_t flags, struct parse_error *error);
    void (*delete)(bench_json value);
    bench_json (*get)(bench_json object, const char *key);
    size_t (*size)(bench_json array);
    bench_json (*at)(bench_json array, size_t index);
    const char *(*string)(bench_json value);
    double (*number)(bench_json value);
    void *(*iter)(bench_json object);
    void *(*next)(bench_json object, void *iter);
    const char *(*key)(void *iter);
    bench_json (*value)(void *iter);
} jansson;

static bool open_library(void) {
    static const struct {
        const char *name;
        void **to;
    } symbols[] = {
        {"json_loads", (void **)&jansson.loads},
        {"json_delete", (void **)&jansson.delete},
        {"json_object_get", (void **)&jansson.get},
        {"json_array_size", (void **)&jansson.size},
        {"json_array_get", (void **)&jansson.at},
        {"json_string_value", (void **)&jansson.string},
        {"json_number_value", (void **)&jansson.number},
        {"json_object_iter", (void **)&jansson.iter},
        {"json_object_iter_next", (void **)&jansson.next},
        {"json_object_iter_key", (void **)&jansson.key},
        {"json_object_iter_value", (void **)&jansson.value},
    };
    if (jansson.tried)
        return jansson.library != NULL;
    jansson.tried = true;
    void *library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].to = dlsym(library, symbols[i].name)))
            return false;
    jansson.library = library;
    return library != NULL;
}

bool bench_json_available(void) {
    return open_library();
}

bench_json bench_json_parse(const char *text, const char *name, char *error, size_t error_bytes) {
    struct parse_error where = {0};
    if (!open_library()) {
        snprintf(error, error_bytes, "reading JSON needs libjansson.so.4: apt install libjansson4");
        return NULL;
    }
    bench_json root = jansson.loads(text, 0, &where);
    if (!root)
        snprintf(error, error_bytes, "%s:%d: %s", name, where.line, where.text);
    return root;
}

void bench_json_free(bench_json root) {
    if (root)
        jansson.delete(root); // we never take a second reference
}

bench_json bench_json_get(bench_json object, const char *key) {
    return object ? jansson.get(object, key) : NULL;
}

int bench_json_count(bench_json array) {
    return array && array->type == TYPE_ARRAY ? (int)jansson.size(array) : 0;
}

bench_json bench_json_at(bench_json array, int index) {
    return index < bench_json_count(array) ? jansson.at(array, (size_t)index) : NULL;
}

bool bench_json_is_list(bench_json value) {
    return value && value->type == TYPE_ARRAY;
}

const char *bench_json_text(bench_json value) {
    return value ? jansson.string(value) : NULL;
}

double bench_json_number(bench_json value) {
    bool is_number = value && (value->type == TYPE_INTEGER || value->type == TYPE_REAL);
    return is_number ? jansson.number(value) : (double)NAN;
}

int64_t bench_json_integer(bench_json value) {
    double number = bench_json_number(value);
    return fabs(number) < 9e15 ? (int64_t)number : 0;
}

bool bench_json_true(bench_json value) {
    return value && value->type == TYPE_TRUE;
}

const char *bench_json_text_of(bench_json object, const char *key) {
    const char *text = bench_json_text(bench_json_get(object, key));
    return text ? text : "";
}

double bench_json_number_of(bench_json object, const char *key) {
    return bench_json_number(bench_json_get(object, key));
}

void bench_json_copy(bench_json object, const char *key, bool lines, char *out, size_t bytes) {
    const char *text = bench_json_text_of(object, key);
    size_t len = strlen(text);
    if (len > bytes - 1)
        for (len = bytes - 1; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--; // not within a character
    memcpy(out, text, len);
    out[len] = 0;
    cli_clean(out, lines);
}

bool bench_json_lists(bench_json list, const char *word) {
    for (int i = 0; i < bench_json_count(list); i++) {
        const char *item = bench_json_text(bench_json_at(list, i));
        if (item && !strcmp(item, word))
            return true;
    }
    return false;
}

bench_json bench_json_member(bench_json object, int index, const char **key) {
    void *iter = object && object->type == TYPE_OBJECT ? jansson.iter(object) : NULL;
    for (; iter && index > 0; index--)
        iter = jansson.next(object, iter);
    *key = iter ? jansson.key(iter) : NULL;
    return iter ? jansson.value(iter) : NULL;
}

bench_json bench_json_load(const char *path, char *error, size_t error_bytes) {
    char *text = cli_read_all(path);
    if (!text) {
        snprintf(error, error_bytes, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    bench_json root = bench_json_parse(text, path, error, error_bytes);
    free(text);
    return root;
}
