// runner.c - serves the vendor's reference model of the BM1690 to a Python process (model.py) over two pipes.
//
// It is an x86_64 program, native or under qemu-x86_64. A request is a letter and its operands: integers of 8
// bytes, and strings of bytes preceded by their length. Loading or running a kernel is answered with a
// number, reading memory with its bytes. The model prints to stdout, so answers go to a copy of it, and
// stdout becomes stderr. If a rule is violated that the model checks itself, the model prints a message there
// and ends the process.

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CORES = 8, KERNELS = 256 };

static void *model, *kernels[KERNELS];
static int cores, kernel_count, answers;

static void die(const char *what, const char *more) {
    fprintf(stderr, "runner: %s %s\n", what, more ? more : "");
    exit(1);
}

static void take(void *to, size_t size) {
    for (char *at = to; size;) {
        ssize_t got = read(0, at, size);
        if (got <= 0)
            exit(0); // the driver has ended
        at += got;
        size -= (size_t)got;
    }
}

static void give(const void *from, size_t size) {
    for (const char *at = from; size;) {
        ssize_t put = write(answers, at, size);
        if (put <= 0)
            exit(0);
        at += put;
        size -= (size_t)put;
    }
}

static uint64_t take_number(void) {
    uint64_t value;
    take(&value, sizeof value);
    return value;
}

static void give_number(uint64_t value) {
    give(&value, sizeof value);
}

// Reads a string, which the caller frees, and adds a NUL.
static char *take_bytes(void) {
    uint64_t size = take_number();
    char *bytes = malloc(size + 1);
    if (!bytes)
        die("out of memory", NULL);
    take(bytes, size);
    bytes[size] = 0;
    return bytes;
}

static void *find(void *library, const char *name) {
    void *function = dlsym(library, name);
    if (!function)
        die("no function", name);
    return function;
}

#define MODEL(result, name, ...) ((result(*)(__VA_ARGS__))find(model, #name))

struct launch {
    int core;
    void (*entry)(const void *);
    const void *args;
};

// Does what the vendor's firmware does for a core's thread, and then runs the kernel.
static void *run_core(void *from) {
    struct launch *launch = from;
    MODEL(void, set_cur_nodechip_idx, int)(launch->core);
    MODEL(void, tpu_kernel_init, int)(launch->core);
    MODEL(void, tpu_core_context_setup, int, int, int)(launch->core, cores, 0);
    launch->entry(launch->args);
    return NULL;
}

// K: the number of a kernel, the name of its entry, its arguments. Runs the kernel on every core.
static void launch(void) {
    void *kernel = kernels[take_number()];
    char *name = take_bytes(), *args = take_bytes();
    struct launch launches[CORES];
    pthread_t threads[CORES];
    for (int core = 0; core < cores; core++) {
        launches[core] = (struct launch){core, (void (*)(const void *))(uintptr_t)find(kernel, name), args};
        if (pthread_create(&threads[core], NULL, run_core, &launches[core]))
            die("cannot start a thread", NULL);
    }
    for (int core = 0; core < cores; core++)
        pthread_join(threads[core], NULL);
    give_number(0);
    free(args);
    free(name);
}

// L: the path of a compiled kernel. Answers with its number.
static void load(void) {
    char *path = take_bytes();
    if (kernel_count == KERNELS)
        die("too many kernels", NULL);
    kernels[kernel_count] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!kernels[kernel_count])
        die("cannot load a kernel:", dlerror());
    give_number((uint64_t)kernel_count++);
    free(path);
}

// W: an address of device memory, a size and the bytes. Has no answer.
static void write_memory(void) {
    uint64_t address = take_number(), size = take_number();
    take(MODEL(void *, tpu_global_mem_addr, uint64_t)(address), size);
}

// R: an address and a size. Answers with the bytes.
static void read_memory(void) {
    uint64_t address = take_number(), size = take_number();
    give(MODEL(void *, tpu_global_mem_addr, uint64_t)(address), size);
}

static void start(const char *library, const char *count, const char *memory) {
    answers = dup(1);
    dup2(2, 1);
    model = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (!model)
        die("cannot load the model:", dlerror());
    cores = atoi(count);
    if (cores < 1 || cores > CORES)
        die("the chip has 8 cores, not", count);
    for (int core = 0; core < cores; core++)
        MODEL(int, cmodel_init, int, uint64_t)(core, strtoull(memory, NULL, 0));
    MODEL(void, set_cur_nodechip_idx, int)(0);
}

int main(int argc, char **argv) {
    if (argc != 4)
        die("usage: runner MODEL.so CORES BYTES-OF-DEVICE-MEMORY", NULL);
    start(argv[1], argv[2], argv[3]);
    give_number(1);
    for (;;) {
        char request;
        take(&request, 1);
        switch (request) {
        case 'K': launch(); break;
        case 'L': load(); break;
        case 'R': read_memory(); break;
        case 'W': write_memory(); break;
        default: die("unknown request", NULL);
        }
    }
}
