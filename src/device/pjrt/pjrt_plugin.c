// pjrt_plugin.c - finds and opens a PJRT plugin and its client. A process uses one plugin.

#include "device/pjrt/pjrt.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UNITS = 64, NAME = 96, PATH = 1024 };

static const struct pjrt_api *api;
static struct {
    struct pjrt_client *client;
    struct pjrt_device *device[UNITS];
    char model[UNITS][NAME];
    char platform[NAME], detail[PATH + 2 * NAME], path[PATH];
    int units;
    bool is_loaded;
    char why[PATH + 512]; // why there are no units
} opened;

struct pjrt_error {
    char nothing;
} pjrt_missing;

// Finding ---------------------------------------------------------------------------------------------------

// Folders of Python's packages, and the plugins in them: TPUs first, CPUs last.
static const char *const folders[] = {"/usr/local/lib/python3*/site-packages",
                                      "/usr/local/lib/python3*/dist-packages",
                                      "/usr/lib/python3/dist-packages", "/usr/lib/python3*/site-packages"};
static const char *const names[] = {"libtpu/libtpu.so", "jax_plugins/xla_cuda*/xla_cuda_plugin.so",
                                    "xla_plugins/*/*.so"};

static bool find_one(const char *pattern) {
    glob_t list = {0};
    bool found = glob(pattern, 0, NULL, &list) == 0;
    if (found)
        snprintf(opened.path, sizeof opened.path, "%s", list.gl_pathv[list.gl_pathc - 1]);
    globfree(&list);
    return found;
}

// Finds a plugin and writes its path to opened.path, or the reason to opened.why if there is none.
static void find_plugin(void) {
    const char *given = setting_text(SETTING_PJRT);
    if (*given) {
        snprintf(opened.path, sizeof opened.path, "%s", given);
        return;
    }
    const char *venv = getenv("VIRTUAL_ENV"); // set by the shell that activated a virtual environment
    for (size_t i = 0; i < COUNT(names); i++) {
        char pattern[PATH];
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/%s", venv ? venv : "", names[i]);
        if (venv && *venv && find_one(pattern))
            return;
        for (size_t k = 0; k < COUNT(folders); k++) {
            snprintf(pattern, sizeof pattern, "%s/%s", folders[k], names[i]);
            if (find_one(pattern))
                return;
        }
    }
    snprintf(opened.why, sizeof opened.why,
             "no PJRT plugin was found: pip install libtpu on a TPU VM (xla-cpu-pjrt anywhere), or set "
             "ZL_PJRT to the path of one");
}

// Returns whether XLA's CPU plugin would end the process by an illegal instruction. LLVM assumes SVE by the
// CPU's part number, even if the system does not offer SVE to this machine. The file is opened with the call
// that LLVM uses, so that a library which replaces the file for LLVM replaces it here too.
static bool would_trap(void) {
#ifdef __aarch64__
    static const char *const parts[] = {"0xd40", "0xd49", "0xd4f",
                                        "0xd83", "0xd84", "0xd8e"}; // Neoverse V1, N2, V2, V3AE, V3, N3
    static char text[1 << 16];
    int file = open("/proc/cpuinfo", O_RDONLY);
    ssize_t bytes = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *part = strstr(text, "CPU part");
    for (size_t i = 0; part && !strstr(text, " sve") && i < COUNT(parts); i++)
        if (!strncmp(part + strcspn(part, "0\n"), parts[i], strlen(parts[i])))
            return true;
#endif
    return false;
}

static bool read_head(const char *path, Elf64_Ehdr *out) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, out, sizeof *out) : 0;
    if (file >= 0)
        close(file);
    return got == sizeof *out && !memcmp(out->e_ident, ELFMAG, SELFMAG);
}

static const char *machine_name(int machine) {
    return machine == EM_X86_64 ? "x86_64" : machine == EM_AARCH64 ? "aarch64" : "another architecture";
}

// Opening ---------------------------------------------------------------------------------------------------

const struct pjrt_api *pjrt_api(void) {
    return api;
}

bool pjrt_good(const char *function, struct pjrt_error *error) {
    if (!error)
        return true;
    if (error == &pjrt_missing)
        return error_false(ZL_ERROR_DEVICE, "the PJRT plugin %s has no %s: it is too old", opened.path,
                           function);
    struct pjrt_Error_Message m = {.struct_size = sizeof m, .error = error};
    struct pjrt_Error_GetCode c = {.struct_size = sizeof c, .error = error};
    api->Error_Message(&m);
    if (PJRT_HAS(api, Error_GetCode))
        api->Error_GetCode(&c);
    size_t most = 1500, size = MIN_OF(m.message_size, most);
    error_set(c.code == PJRT_RESOURCE_EXHAUSTED ? ZL_ERROR_MEMORY : ZL_ERROR_DEVICE,
              "%s of the PJRT plugin: %.*s", function, size ? (int)size : 40,
              size ? m.message : "it failed, and does not say why");
    struct pjrt_Error_Destroy d = {.struct_size = sizeof d, .error = error};
    api->Error_Destroy(&d);
    return false;
}

// Keeps the thread's error message as the reason why the plugin is not used, and clears the error.
static bool give_up(bool had_error) {
    const char *why = zl_error() ? zl_error() : "the PJRT plugin fails";
    bool is_taken = strstr(why, "already in use") || strstr(why, "lockfile");
    snprintf(opened.why, sizeof opened.why,
             is_taken
                 ? "another process has the TPU, which serves one at a time: end it or wait for it (fuser -v "
                   "/dev/accel* /dev/vfio/* names it). %s"
                 : "%s",
             why);
    if (!had_error)
        zl_clear_error();
    return false;
}

// Returns whether the file exists and is made for this machine. For a file of another machine, the loader's
// own message would say that it does not exist.
static bool fits_machine(void) {
    Elf64_Ehdr own, other;
    if (strchr(opened.path, '/') && access(opened.path, R_OK)) {
        snprintf(opened.why, sizeof opened.why, "the PJRT plugin %s cannot be read: %s", opened.path,
                 strerror(errno));
        return false;
    }
    if (!read_head("/proc/self/exe", &own) || !read_head(opened.path, &other) ||
        own.e_machine == other.e_machine)
        return true;
    snprintf(opened.why, sizeof opened.why,
             "the PJRT plugin %s is for %s, and this is %s: install the package for this machine (libtpu is "
             "for x86_64 alone)",
             opened.path, machine_name(other.e_machine), machine_name(own.e_machine));
    return false;
}

// Loads NVIDIA's libraries from the Python packages next to JAX's plugin for CUDA, each before those that
// depend on it. The plugin then finds them by name; others it finds through the loader.
static void load_libraries_beside(void) {
    static const char *const libraries[] = {"cudart", "nvJitLink", "cublasLt", "cublas",  "cufft",
                                            "cusparse", "cusolver", "cudnn",   "nccl", "cupti"};
    const char *end = strstr(opened.path, "/jax_plugins/");
    for (size_t i = 0; end && i < COUNT(libraries); i++) {
        char pattern[PATH];
        glob_t list = {0};
        snprintf(pattern, sizeof pattern, "%.*s/nvidia/*/lib/lib%s.so.*", (int)(end - opened.path),
                 opened.path, libraries[i]);
        if (glob(pattern, 0, NULL, &list) == 0)
            dlopen(list.gl_pathv[list.gl_pathc - 1], RTLD_LAZY | RTLD_LOCAL);
        globfree(&list);
    }
}

static bool load(void) {
    if (!fits_machine())
        return false;
    load_libraries_beside();
    void *library = dlopen(opened.path, RTLD_NOW | RTLD_LOCAL);
    const struct pjrt_api *(*get)(void) = NULL;
    if (library)
        *(void **)(void *)&get = dlsym(library, "GetPjrtApi");
    if (get)
        api = get();
    if (!library)
        snprintf(opened.why, sizeof opened.why, "the PJRT plugin cannot be opened: %s", dlerror());
    else if (!api)
        snprintf(opened.why, sizeof opened.why, "%s is no PJRT plugin: %s", opened.path,
                 get ? "its GetPjrtApi returns nothing" : "it has no GetPjrtApi");
    else if (!PJRT_HAS(api, Error_Destroy) || !PJRT_HAS(api, Error_Message) ||
             api->version.major != PJRT_MAJOR || api->version.minor < PJRT_MINOR_LEAST)
        snprintf(opened.why, sizeof opened.why,
                 "the PJRT plugin %s has interface %d.%d: %d.%d or later of the same major version is needed",
                 opened.path, api->version.major, api->version.minor, PJRT_MAJOR, PJRT_MINOR_LEAST);
    else
        return true;
    return false;
}

static void copy_text(char *out, size_t room, const char *text, size_t size) {
    snprintf(out, room, "%.*s", (int)MIN_OF(size, room - 1), text ? text : "");
}

// Options for CUDA plugins, which would otherwise allocate three quarters of the memory at once.
static const struct pjrt_named_value growing[] = {{.struct_size = sizeof growing[0],
                                                   .name = "preallocate",
                                                   .name_size = sizeof "preallocate" - 1,
                                                   .type = PJRT_VALUE_BOOL,
                                                   .truth = false,
                                                   .count = 1}};

static bool make_client(void) {
    bool is_cuda = strstr(opened.path, "cuda");
    PJRT_CALL(Client_Create, create, .options = is_cuda ? growing : NULL,
              .option_count = is_cuda ? COUNT(growing) : 0);
    if (!create_ok)
        return false;
    opened.client = create.a.client;
    PJRT_CALL(Client_PlatformName, name, .client = opened.client);
    if (!name_ok)
        return false;
    copy_text(opened.platform, sizeof opened.platform, name.a.name, name.a.name_size);
    PJRT_CALL(Client_PlatformVersion, version, .client = opened.client);
    if (!version_ok)
        return false;
    char text[NAME];
    copy_text(text, sizeof text, version.a.version, version.a.version_size);
    text[strcspn(text, "\n")] = 0;
    snprintf(opened.detail, sizeof opened.detail, "%s, PJRT %d.%d, %s", text, api->version.major,
             api->version.minor, opened.path);
    return true;
}

// Destroys the client, which releases the chip.
static void drop_client(void) {
    bool had_error = zl_error();
    if (opened.client) {
        PJRT_CALL(Client_Destroy, end, .client = opened.client);
        if (!end_ok && !had_error)
            zl_clear_error();
    }
    opened.client = NULL;
}

static bool find_units(void) {
    PJRT_CALL(Client_AddressableDevices, all, .client = opened.client);
    if (!all_ok)
        return false;
    opened.units = (int)MIN_OF(all.a.count, (size_t)UNITS);
    for (int i = 0; i < opened.units; i++) {
        opened.device[i] = all.a.devices[i];
        PJRT_CALL(Device_GetDescription, about, .device = opened.device[i]);
        if (!about_ok)
            return false;
        PJRT_CALL(DeviceDescription_Kind, kind, .description = about.a.description);
        if (!kind_ok)
            return false;
        copy_text(opened.model[i], sizeof opened.model[i], kind.a.kind, kind.a.kind_size);
    }
    return true;
}

static bool initialize(void) {
    bool had_error = zl_error();
    PJRT_CALL(Plugin_Initialize, init);
    return init_ok || give_up(had_error);
}

const char *pjrt_path(const char **reason) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_plugin);
    *reason = opened.why;
    return opened.path[0] ? opened.path : NULL;
}

static void load_plugin(void) {
    const char *why;
    if (!pjrt_path(&why))
        return;
    if (would_trap() && strstr(opened.path, "cpu"))
        snprintf(opened.why, sizeof opened.why,
                 "XLA's CPU plugin would use SVE, which this CPU's part number promises and the system does "
                 "not offer: preload libcpuinfo.so (doc/tpu.md)");
    else
        opened.is_loaded = load() && initialize();
}

bool pjrt_load(const char **reason) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_plugin);
    *reason = opened.why;
    return opened.is_loaded;
}

static void open_plugin(void) {
    const char *why;
    bool had_error = zl_error();
    if (!pjrt_load(&why) || (make_client() && find_units()))
        return;
    opened.units = 0;
    give_up(had_error);
    drop_client();
}

int pjrt_open(const char **reason) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_plugin);
    if (!opened.units && reason)
        *reason = opened.why;
    return opened.units;
}

bool pjrt_is_open(void) {
    return opened.client;
}

struct pjrt_client *pjrt_client(void) {
    return opened.client;
}

struct pjrt_device *pjrt_device(int unit) {
    return opened.device[unit];
}

bool pjrt_is_tpu(void) {
    return !strcmp(pjrt_platform(), "tpu");
}

const char *pjrt_platform(void) {
    return opened.platform;
}

const char *pjrt_model(int unit) {
    return opened.model[unit];
}

const char *pjrt_detail(void) {
    return opened.detail;
}
