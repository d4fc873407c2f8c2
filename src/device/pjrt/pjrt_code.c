// pjrt_code.c - compiled programs: each text is compiled once, and kept in memory, even after the plans that
// use it, and on disk for other processes.
//
// An executable is stored on disk as the plugin serializes it, under a hash of its text, the options (also
// those of the environment), the plugin and the chip. With a plugin that cannot serialize, every process
// compiles.

#include "device/tile_runtime/group_kernel.h"
#include "device/pjrt/pjrt.h"
#include "device/profile/profile.h"
#include "pass/pass.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CODES_MOST = 1024 }; // when there are so many, those that no program uses are freed

struct pjrt_code {
    int refs; // programs that use it; under the lock
    struct pjrt_executable *executable;
    char *text; // NULL: it belongs to one program
    int bytes;
};

static struct lock lock; // guards `codes`
static struct map codes;
ZL_AT_LOAD {
    fork_guard(&lock);
}

// Compiling -------------------------------------------------------------------------------------------------

// For XLA's CPU plugin, there is also an entry of env_option_overrides (7), with a key (1) and a value (2)
// that is a boolean (2): minima and maxima of NaN have to be NaN.
#define CPU_OPTION "xla_cpu_enable_fast_min_max"
static const char options[] = PJRT_OPTIONS,
                  cpu_options[] = PJRT_OPTIONS "\x3a\x21\x0a\x1b" CPU_OPTION "\x12\x02\x10\x00";

static bool is_cpu(void) {
    return !strcmp(pjrt_platform(), "cpu");
}

static const char *options_bytes(size_t *size) {
    *size = is_cpu() ? sizeof cpu_options - 1 : sizeof options - 1;
    return is_cpu() ? cpu_options : options;
}

static struct pjrt_executable *compile(const char *text, int bytes) {
    size_t size;
    const char *how = options_bytes(&size);
    PJRT_MAKE(program, program, .code = text, .code_size = (size_t)bytes, .format = "mlir", .format_size = 4);
    pass_dump("stablehlo", text);
    PJRT_CALL(Client_Compile, make, .client = pjrt_client(), .program = &program.a, .options = how,
              .options_size = size);
    return make_ok ? make.a.executable : NULL;
}

static void destroy(struct pjrt_executable *executable) {
    bool had_error = zl_error();
    PJRT_CALL(LoadedExecutable_Destroy, end, .executable = executable);
    if (!end_ok && !had_error)
        zl_clear_error();
}

// On disk ---------------------------------------------------------------------------------------------------

static bool add_serialized(struct pjrt_executable *executable, struct text *out) {
    PJRT_CALL(LoadedExecutable_GetExecutable, get, .loaded = executable);
    if (!get_ok)
        return false;
    PJRT_CALL(Executable_Serialize, write, .executable = get.a.executable);
    if (write_ok) {
        text_bytes(out, write.a.bytes, (int)MIN_OF(write.a.bytes_size, (size_t)INT32_MAX));
        write.a.release(write.a.serialized);
    }
    PJRT_CALL(Executable_Destroy, end, .executable = get.a.executable);
    return write_ok && end_ok && !out->failed;
}

// Compiles and serializes. The executable stays in *context, even if the plugin cannot serialize it, and is
// not made again where its bytes could not be written.
static bool compile_and_serialize(const struct text *source, struct text *out, void *context) {
    struct pjrt_executable **made = context;
    if (!*made)
        *made = compile(source->data, source->len);
    return *made && add_serialized(*made, out);
}

static void *load(const char *bytes, size_t size, void *context) {
    struct pjrt_executable **made = context;
    if (*made)
        return *made;
    PJRT_CALL(Executable_DeserializeAndLoad, read, .client = pjrt_client(), .bytes = bytes,
              .bytes_size = size);
    return read_ok ? read.a.executable : NULL;
}

// Appends the identity of the plugin's file, which a newer version may have replaced.
static bool add_plugin(struct text *out) {
    Dl_info about;
    struct stat file;
    if (!dladdr(pjrt_api(), &about) || stat(about.dli_fname, &file) != 0)
        return false;
    text_add(out, "%s %lld %lld.%ld ", about.dli_fname, (long long)file.st_size,
             (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
    return true;
}

// Appends the machine's CPU, for which the code of a CPU plugin is made.
static bool add_cpu(struct text *out) {
    static const char *const words[] = {"model name", "CPU part", "flags", "Features"};
    char line[8192];
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return false;
    while (fgets(line, sizeof line, file) && *line != '\n') // only of the first core
        for (size_t i = 0; i < COUNT(words); i++)
            if (!strncmp(line, words[i], strlen(words[i])))
                text_add(out, "%s", line);
    fclose(file);
    return true;
}

// Appends the variables by which users give options to XLA's compilers.
static void add_flags(struct text *out) {
    static const char *const names[] = {"XLA_FLAGS", "LIBTPU_INIT_ARGS"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *value = getenv(names[i]);
        text_add(out, "%s=%s, ", names[i], value ? value : "");
    }
}

static bool add_identity(struct text *out) {
    size_t size;
    const char *how = options_bytes(&size);
    text_add(out, "pjrt 1, %s, %s, ", pjrt_detail(), pjrt_model(0));
    add_flags(out);
    for (size_t i = 0; i < size; i++)
        text_add(out, "%02x", (unsigned char)how[i]);
    return add_plugin(out) && (!is_cpu() || add_cpu(out)) && !out->failed;
}

// Loads the executable from disk or compiles it. Returns NULL, with an error, if that fails.
static struct pjrt_executable *find_or_compile(const struct hlo_program *hlo) {
    struct text source = {.data = hlo->text, .len = hlo->bytes}, identity = {0};
    struct pjrt_executable *made = NULL, *found = NULL;
    int64_t begin = clock_ns();
    bool has_error = zl_error();
    if (add_identity(&identity)) {
        found = kernel_code_use(
            &(struct kernel_code){identity.data, &source, compile_and_serialize, load, &made});
        if (!found && made && !has_error)
            zl_clear_error();
        found = found ? found : made;
    } else {
        counter_add(COUNTER_COMPILES, 1);
        found = compile(hlo->text, hlo->bytes);
    }
    text_free(&identity);
    profile_compiled("load a program", begin);
    return found;
}

// In memory -------------------------------------------------------------------------------------------------

static void free_code(struct pjrt_code *c) {
    destroy(c->executable);
    memory_free(c->text);
    memory_free(c);
}

static void list_unused(const void *key, size_t bytes, void *value, void *data) {
    struct pjrt_code ***to = data, *c = value;
    (void)key, (void)bytes;
    if (!c->refs)
        *(*to)++ = c;
}

// Frees the codes that no program uses. Under the lock.
static void forget_unused(void) {
    struct pjrt_code **list = memory_alloc(sizeof *list * (size_t)codes.count), **end = list;
    if (!list)
        return;
    map_each(&codes, list_unused, &end);
    for (struct pjrt_code **c = list; c < end; c++) {
        map_set(&codes, (*c)->text, (size_t)(*c)->bytes, NULL);
        free_code(*c);
    }
    memory_free(list);
}

static struct pjrt_code *find(const struct hlo_program *hlo) {
    lock_take(&lock);
    struct pjrt_code *c = map_get(&codes, hlo->text, (size_t)hlo->bytes);
    if (c)
        c->refs++;
    lock_give(&lock);
    return c;
}

// Makes code of an executable and adds it to the cache; if another thread has compiled the same text
// meanwhile, either one will do. Takes the executable over. Returns NULL, with an error, if memory is out.
static struct pjrt_code *keep(const struct hlo_program *hlo, struct pjrt_executable *executable) {
    bool had_error = zl_error();
    struct pjrt_code *c = memory_zero(sizeof *c);
    if (!c) {
        destroy(executable);
        return NULL;
    }
    *c = (struct pjrt_code){
        .refs = 1, .executable = executable, .text = memory_copy_text(hlo->text), .bytes = hlo->bytes};
    lock_take(&lock);
    if (codes.count >= CODES_MOST)
        forget_unused();
    bool kept = c->text && !map_get(&codes, c->text, (size_t)c->bytes) &&
                map_set(&codes, c->text, (size_t)c->bytes, c);
    lock_give(&lock);
    if (!kept) {
        memory_free(c->text);
        c->text = NULL;
    }
    if (!kept && !had_error)
        zl_clear_error(); // it runs all the same, and is compiled again when it is needed again
    return c;
}

// In the background -----------------------------------------------------------------------------------------

enum { BACKGROUND_MOST = 16 }; // the most compilations at once

// A text that a thread compiles. The entry exists until `codes` has the result.
struct compilation {
    struct compilation *next;
    struct hlo_program hlo; // only its text
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct compilation *first;
    int count;
    pid_t process; // the threads do not exist in a forked process
} background = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

// Returns the link to the entry that compiles the text; the link is NULL if none does. Under its lock.
static struct compilation **find_compilation(const struct hlo_program *hlo) {
    struct compilation **link = &background.first;
    while (*link && ((*link)->hlo.bytes != hlo->bytes ||
                     memcmp((*link)->hlo.text, hlo->text, (size_t)hlo->bytes) != 0))
        link = &(*link)->next;
    return link;
}

static void free_compilation(struct compilation *b) {
    memory_free(b->hlo.text);
    memory_free(b);
}

static void end_compilation(struct compilation *b) {
    pthread_mutex_lock(&background.lock);
    *find_compilation(&b->hlo) = b->next;
    background.count--;
    pthread_cond_broadcast(&background.ended);
    pthread_mutex_unlock(&background.lock);
    free_compilation(b);
}

// Compiles in the background. An error is dropped here: it recurs, and is reported, when the program runs.
static void *compile_in_background(void *data) {
    struct compilation *b = data;
    struct pjrt_executable *executable = find_or_compile(&b->hlo);
    pjrt_code_release(executable ? keep(&b->hlo, executable) : NULL);
    zl_clear_error();
    end_compilation(b);
    return NULL;
}

// Waits for background compilation at exit: the plugin must not be torn down while it compiles.
static void await_all_compilations(void) {
    if (getpid() != background.process)
        return;
    pthread_mutex_lock(&background.lock);
    while (background.count)
        pthread_cond_wait(&background.ended, &background.lock);
    pthread_mutex_unlock(&background.lock);
}

static void at_end(void) {
    background.process = getpid();
    atexit(await_all_compilations);
}

static bool start_compilation(struct compilation *b) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, compile_in_background, b) != 0)
        return false;
    pthread_detach(thread);
    return true;
}

void pjrt_code_begin(const struct hlo_program *hlo) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, at_end);
    struct pjrt_code *known = find(hlo);
    bool had_error = zl_error();
    struct compilation *b = known ? NULL : memory_zero(sizeof *b);
    pjrt_code_release(known);
    if (!b)
        return;
    b->hlo = (struct hlo_program){.text = memory_copy_text(hlo->text), .bytes = hlo->bytes};
    pthread_mutex_lock(&background.lock);
    bool begins = b->hlo.text && background.count < BACKGROUND_MOST && !*find_compilation(&b->hlo);
    if (begins) {
        b->next = background.first;
        background.first = b;
        background.count++;
    }
    pthread_mutex_unlock(&background.lock);
    if (!begins)
        free_compilation(b);
    else if (!start_compilation(b))
        end_compilation(b);
    if (!had_error)
        zl_clear_error();
}

static void await_compilation(const struct hlo_program *hlo) {
    pthread_mutex_lock(&background.lock);
    while (*find_compilation(hlo))
        pthread_cond_wait(&background.ended, &background.lock);
    pthread_mutex_unlock(&background.lock);
}

struct pjrt_code *pjrt_code(const struct hlo_program *hlo) {
    await_compilation(hlo);
    struct pjrt_code *c = find(hlo);
    struct pjrt_executable *executable = c ? NULL : find_or_compile(hlo);
    return executable ? keep(hlo, executable) : c;
}

struct pjrt_executable *pjrt_code_executable(const struct pjrt_code *c) {
    return c->executable;
}

void pjrt_code_release(struct pjrt_code *c) {
    if (!c)
        return;
    lock_take(&lock);
    bool is_last = --c->refs == 0 && !c->text;
    lock_give(&lock);
    if (is_last)
        free_code(c);
}
