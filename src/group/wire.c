// wire.c - sockets between processes of a job, and the check that keeps other processes out.
//
// The connecting rank sends a hello: its name, a nonce, and the SHA-256 of both and the token of the job,
// which itself is never sent. The accepting rank closes all other connections, and answers with a proof over
// the nonce.

#include "group/group.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/io.h"
#include "schedule/schedule.h"

enum { PAUSE_MS = 50, BACKLOG = 64, NONCE = 16, PROOF = 64 };
static const int64_t HELLO_NS = 2000000000, ADDRESS_NS = 5000000000;

// Files of hosts --------------------------------------------------------------------------------------------

bool wire_add_address(struct wire_host *host, const char *text) {
    const char *colon = strrchr(text, ':');
    struct wire_address *address =
        memory_resize(host->address, sizeof *address * (size_t)(host->addresses + 1));
    if (!address)
        return false;
    host->address = address;
    address += host->addresses;
    size_t len = colon ? (size_t)(colon - text) : 0;
    bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']'; // an IPv6 address
    text += bracketed;
    len -= bracketed ? 2 : 0;
    if (!len || len >= sizeof address->host || !colon[1] || strlen(colon + 1) >= sizeof address->port ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return error_false(ZL_ERROR_VALUE, "group: '%.200s' is no address: \"host:port\" is expected", text);
    snprintf(address->host, sizeof address->host, "%.*s", (int)len, text);
    snprintf(address->port, sizeof address->port, "%s", colon + 1);
    host->addresses++;
    return true;
}

struct reading {
    struct wire_host *host;
    int count, cap;
};

static bool read_address(struct json *j, void *context) {
    struct text text = {0};
    bool ok = json_text(j, &text) && wire_add_address(context, text.data ? text.data : "");
    text_free(&text);
    return ok;
}

static bool read_host(struct json *j, void *context) {
    struct reading *r = context;
    if (!memory_grow(&r->host, &r->cap, r->count + 1, sizeof *r->host))
        return false;
    struct wire_host *host = &r->host[r->count++];
    *host = (struct wire_host){0};
    return json_list(j, read_address, host) &&
           (host->addresses || error_false(ZL_ERROR_VALUE, "group: rank %d has no address", r->count - 1));
}

bool wire_read_hosts(const char *path, struct wire_host **hosts, int *count) {
    struct reading r = {0};
    struct blob *b = blob_open("group", path, false);
    struct json j = {.in = {.blob = b}, .end = b ? b->bytes : 0};
    bool ok = b && json_list(&j, read_host, &r) && json_at_end(&j);
    if (ok && !r.count)
        ok = error_false(ZL_ERROR_VALUE, "group: %s names no hosts", path);
    for (int i = 1; ok && i < r.count; i++)
        if (r.host[i].addresses != r.host[0].addresses)
            ok = error_false(
                ZL_ERROR_VALUE,
                "group: in %s rank 0 has %d addresses and rank %d has %d: all ranks need the same number",
                path, r.host[0].addresses, i, r.host[i].addresses);
    if (b)
        blob_release(b);
    *hosts = r.host;
    *count = r.count;
    return ok;
}

void wire_free_hosts(struct wire_host *hosts, int count) {
    for (int i = 0; hosts && i < count; i++)
        memory_free(hosts[i].address);
    memory_free(hosts);
}

// Waiting ---------------------------------------------------------------------------------------------------

// Waits until the socket is ready. Returns false, with errno ETIMEDOUT at the deadline, or EINTR if the
// program wants to stop.
static bool wait_for(int socket, short events, int64_t deadline) {
    struct pollfd p = {socket, events, 0};
    for (;;) {
        int64_t left = deadline - clock_ns();
        bool stops = interrupt_wanted();
        if (left <= 0 || stops) {
            errno = stops ? EINTR : ETIMEDOUT;
            return false;
        }
        int n = poll(&p, 1, (int)MIN_OF(left / 1000000 + 1, 1000));
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

// Returns whether the program wanted to stop while this thread waited for a connection: the error that this
// leaves is of another kind than those of connections.
static bool was_stopped(bool had_error) {
    return !had_error && zl_error_which() == ZL_ERROR_STATE;
}

bool wire_put(int socket, const void *data, size_t bytes, int64_t deadline) {
    for (const char *at = data; bytes;) {
        ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(socket, POLLOUT, deadline)) {
            return error_false(ZL_ERROR_IO, "group: a neighbour cannot be written to: %s", strerror(errno));
        }
    }
    return true;
}

bool wire_get(int socket, void *data, size_t bytes, int64_t deadline) {
    for (char *at = data; bytes;) {
        ssize_t n = recv(socket, at, bytes, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
            continue;
        }
        if (n == 0)
            return error_false(ZL_ERROR_IO, "group: a neighbour closed its connection");
        if ((errno != EAGAIN && errno != EINTR) || !wait_for(socket, POLLIN, deadline))
            return error_false(ZL_ERROR_IO, "group: a neighbour cannot be read from: %s", strerror(errno));
    }
    return true;
}

// Connections -----------------------------------------------------------------------------------------------

static struct addrinfo *look_up(const struct wire_address *a, int flags) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags},
                    *found = NULL;
    int code = getaddrinfo(a->host, a->port, &hints, &found);
    return code ? error_set(ZL_ERROR_IO, "group: %s:%s: %s", a->host, a->port, gai_strerror(code)) : found;
}

static void set_options(int socket) {
    int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// Tries to listen at one address. Returns -1, with errno set, if that fails.
static int try_listen(const struct addrinfo *a) {
    int one = 1, s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!bind(s, a->ai_addr, a->ai_addrlen) && !listen(s, BACKLOG))
        return s;
    int why = errno;
    close(s);
    errno = why;
    return -1;
}

int wire_listen(const struct wire_address *at) {
    struct addrinfo *found = look_up(at, AI_PASSIVE);
    int s = -1;
    if (!found)
        return -1;
    for (const struct addrinfo *a = found; s < 0 && a; a = a->ai_next)
        s = try_listen(a);
    if (s < 0)
        error_set(ZL_ERROR_IO, "group: this process cannot listen at %s:%s: %s", at->host, at->port,
                  strerror(errno));
    freeaddrinfo(found);
    return s;
}

int wire_port(int listener) {
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (getsockname(listener, (struct sockaddr *)&a, &len))
        return -1;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

// Tries once to connect. Returns -1, with errno set, if that fails.
static int try_connect(const struct addrinfo *a, int64_t deadline) {
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = 0;
    socklen_t len = sizeof why;
    if (s < 0)
        return -1;
    if (!connect(s, a->ai_addr, a->ai_addrlen))
        return s;
    if (errno == EINPROGRESS && wait_for(s, POLLOUT, deadline) &&
        !getsockopt(s, SOL_SOCKET, SO_ERROR, &why, &len) && !why)
        return s;
    why = why ? why : errno;
    close(s);
    errno = why;
    return -1;
}

// Tries each address of a name: of the two of localhost, for instance, a rank may listen at either one.
// While others are left, an address that does not answer gets ADDRESS_NS.
static int try_all(const struct addrinfo *found, int64_t deadline) {
    int s = -1;
    for (const struct addrinfo *a = found; s < 0 && a; a = a->ai_next)
        s = try_connect(a, found->ai_next ? MIN_OF(deadline, clock_ns() + ADDRESS_NS) : deadline);
    return s;
}

int wire_connect(const struct wire_address *to, int64_t deadline) {
    struct addrinfo *found = look_up(to, 0);
    if (!found)
        return -1;
    int s;
    bool had_error = zl_error();
    while ((s = try_all(found, deadline)) < 0 && clock_ns() < deadline && !interrupt_wanted() &&
           !was_stopped(had_error))
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    freeaddrinfo(found);
    if (s < 0)
        return error_set(ZL_ERROR_IO, "group: nobody answers at %s:%s: %s", to->host, to->port,
                         strerror(errno)),
               -1;
    set_options(s);
    return s;
}

// Strangers -------------------------------------------------------------------------------------------------

struct hello {
    char magic[8];
    struct wire_name name;
    char nonce[NONCE], proof[PROOF];
};
static const char magic[8] = "ZLGROUP1";

// Writes a proof about these bytes, which only a process that knows the token can compute.
static bool prove(char role, const void *data, size_t bytes, char *out) {
    struct text t = {0};
    char digest[PROOF + 1];
    const char *token = setting_text(SETTING_GROUP_TOKEN);
    text_bytes(&t, &role, 1);
    text_bytes(&t, data, (int)bytes);
    text_bytes(&t, token, (int)strlen(token));
    bool ok = !t.failed;
    if (ok)
        hash_sha256(t.data, (size_t)t.len, digest);
    text_free(&t);
    if (ok)
        memcpy(out, digest, PROOF);
    return ok;
}

static bool is_proof(char role, const void *data, size_t bytes, const char *proof) {
    char right[PROOF];
    unsigned differs = 0;
    if (!prove(role, data, bytes, right))
        return false;
    for (int i = 0; i < PROOF; i++)
        differs |= (unsigned char)(right[i] ^ proof[i]);
    return !differs;
}

bool wire_say_hello(int socket, const struct wire_name *self, char nonce[16], int64_t deadline) {
    struct hello h = {.name = *self};
    memcpy(h.magic, magic, sizeof magic);
    if (getrandom(h.nonce, NONCE, 0) != NONCE)
        return error_false(ZL_ERROR_IO, "group: the system gives no random bytes");
    memcpy(nonce, h.nonce, NONCE);
    return prove('C', &h, offsetof(struct hello, proof), h.proof) && wire_put(socket, &h, sizeof h, deadline);
}

bool wire_hear_answer(int socket, const char nonce[16], int64_t deadline) {
    char proof[PROOF];
    return wire_get(socket, proof, PROOF, deadline) &&
           (is_proof('A', nonce, NONCE, proof) ||
            error_false(ZL_ERROR_STATE,
                        "group: who listens there does not know the token of this job (ZL_GROUP_TOKEN)"));
}

// Returns whether the connection is from a rank of the group, and if so answers it. Errors of other
// connections are dropped.
static bool welcome(int socket, uint32_t size, struct wire_name *who) {
    struct hello h;
    char proof[PROOF];
    int64_t deadline = clock_ns() + HELLO_NS;
    bool had_error = zl_error();
    bool ok = wire_get(socket, &h, sizeof h, deadline) && !memcmp(h.magic, magic, sizeof magic) &&
              h.name.size == size && h.name.rank < size &&
              is_proof('C', &h, offsetof(struct hello, proof), h.proof) &&
              prove('A', h.nonce, NONCE, proof) && wire_put(socket, proof, PROOF, deadline);
    *who = h.name;
    if (!ok && !had_error && !was_stopped(had_error))
        zl_clear_error();
    return ok;
}

int wire_accept(int listener, uint32_t size, struct wire_name *who, int64_t deadline) {
    bool had_error = zl_error();
    while (!was_stopped(had_error) && wait_for(listener, POLLIN, deadline)) {
        int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (s < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
            return error_set(ZL_ERROR_IO, "group: no connection can be accepted: %s", strerror(errno)), -1;
        if (s < 0)
            continue; // that connection has ended already
        set_options(s);
        if (welcome(s, size, who))
            return s;
        log_line(ZL_LOG_INFO, "group: a connection of a stranger was closed");
        close(s);
    }
    return error_set(ZL_ERROR_IO, "group: a neighbour did not connect in time: %s", strerror(errno)), -1;
}
