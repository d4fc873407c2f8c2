// detect_tpu.c - TPUs as the environment and Google's metadata server report them. This adds to what PCI ids
// say; where a container hides these, it is used alone.

#include "bench.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// The timeout of a connection is short, since often no metadata server exists. Once connected, a server may
// be slow to answer.
static const struct timeval to_connect = {.tv_usec = 500000}, to_answer = {.tv_sec = 10};

// The metadata server ---------------------------------------------------------------------------------------

static int connect_to(const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &found))
        return -1;
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &to_answer, sizeof to_answer);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &to_connect, sizeof to_connect);
        if (connect(fd, at->ai_addr, at->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

// Asks for an attribute. `out` receives the answer with its header. Returns false if there is no such server.
static bool fetch_metadata(const char *host, const char *attribute, char *out, size_t bytes) {
    char request[512], name[128], *port;
    snprintf(name, sizeof name, "%s", host);
    port = strchr(name, ':');
    if (port)
        *port++ = 0;
    int fd = connect_to(name, port ? port : "80");
    if (fd < 0)
        return false;
    int len = snprintf(request, sizeof request,
                       "GET /computeMetadata/v1/instance/attributes/%s HTTP/1.0\r\nHost: %s\r\n"
                       "Metadata-Flavor: Google\r\n\r\n",
                       attribute, host);
    size_t got = 0;
    if (write(fd, request, (size_t)len) == len)
        for (ssize_t more; got < bytes - 1 && (more = read(fd, out + got, bytes - 1 - got)) > 0;)
            got += (size_t)more;
    close(fd);
    out[got] = 0;
    return strstr(out, " 200 ") != NULL;
}

// Returns the metadata server to ask: the one that is named, or Google's default if this is one of its
// machines; NULL if the machine is configured not to ask.
static const char *metadata_host(const struct bench_machine *machine) {
    char product[64] = "";
    const char *skip = bench_environment(machine, "TPU_SKIP_MDS_QUERY");
    if (skip && !strcmp(skip, "1"))
        return NULL;
    const char *host = bench_environment(machine, "GCE_METADATA_IP");
    if (host)
        return host;
    bench_read_line(machine, product, sizeof product, "/sys/class/dmi/id/product_name");
    return !machine->sysroot[0] && !strcmp(product, "Google Compute Engine") ? "metadata.google.internal"
                                                                             : NULL;
}

// Finds the type in the attribute tpu-env, which has a line ACCELERATOR_TYPE: 'v6e-8'.
static bool type_by_metadata(const struct bench_machine *machine, char *type, size_t bytes) {
    char text[8192];
    const char *host = metadata_host(machine);
    if (!host || !fetch_metadata(host, "tpu-env", text, sizeof text))
        return false;
    const char *at = strstr(text, "ACCELERATOR_TYPE:");
    if (!at)
        return false;
    at += strlen("ACCELERATOR_TYPE:");
    at += strspn(at, " '\"");
    snprintf(type, bytes, "%.*s", (int)strcspn(at, "'\"\r\n "), at);
    return type[0] != 0;
}

// Chips of an accelerator type ------------------------------------------------------------------------------

// Returns the number of chips: v5litepod-8 and v6e-8 have 8; the names of the others count cores, two per
// chip.
static int chips_of_type(const char *type) {
    int number = atoi(strrchr(type, '-') + 1);
    bool counts_chips = !strncmp(type, "v5lite", 6) || !strncmp(type, "v5e", 3) || !strncmp(type, "v6e", 3);
    return counts_chips || number < 2 ? number : number / 2;
}

static bool is_found_by_pci(const struct bench_machine *machine) {
    for (int i = 0; i < machine->count; i++)
        if (!strcmp(machine->chip[i].kind, "tpu"))
            return true;
    return false;
}

static void add_type(struct bench_machine *machine, const struct bench_specs *specs, const char *type,
                     const char *told_by) {
    text_json_value spec = bench_chip_by_accelerator_type(specs, type);
    struct bench_chip *chip = spec ? bench_machine_chip(machine, text_json_text_of(spec, "id")) : NULL;
    if (chip) {
        bench_add_evidence(chip->evidence, "%s says %s", told_by, type);
    } else if (is_found_by_pci(machine)) {
        for (int i = 0; i < machine->count; i++)
            if (!strcmp(machine->chip[i].kind, "tpu"))
                bench_add_evidence(machine->chip[i].evidence, "%s says %s, which does not fit: ignored",
                                   told_by, type);
    } else {
        char name[96];
        snprintf(name, sizeof name, "unknown TPU %.60s", type);
        double devices = text_json_number_of(spec, "devices_per_chip");
        chip = bench_add_chip(machine, spec, name, "tpu");
        chip->chips = strchr(type, '-') ? chips_of_type(type) : 1;
        chip->devices = chip->chips * (devices > 1 ? (int)devices : 1);
        bench_add_evidence(chip->evidence, "%s says %s; no TPU in sysfs", told_by, type);
    }
}

void bench_detect_tpu(struct bench_machine *machine, const struct bench_specs *specs) {
    char type[64];
    const char *variable = bench_environment(machine, "TPU_ACCELERATOR_TYPE");
    if (variable && variable[0]) {
        snprintf(type, sizeof type, "%s", variable);
        add_type(machine, specs, type, "TPU_ACCELERATOR_TYPE");
    } else if (type_by_metadata(machine, type, sizeof type)) {
        add_type(machine, specs, type, "the metadata server");
    }
}
