// meeting.c - lets ranks that know only the address of rank 0 find each other.
//
// Each rank listens at a port of its own choice and reports it to rank 0, which sends the whole list to all
// of them.

#include "group/group.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Sets out->host to the numeric address of the socket's peer.
static bool peer_of(int socket, struct wire_address *out) {
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    return (!getpeername(socket, (struct sockaddr *)&a, &len) &&
            !getnameinfo((struct sockaddr *)&a, len, out->host, sizeof out->host, NULL, 0, NI_NUMERICHOST)) ||
           error_false(ZL_ERROR_IO, "group: the address of a rank cannot be found out");
}

static bool gather(const struct group_invitation *i, struct wire_address *all, int *socket,
                   int64_t deadline) {
    struct wire_address at = {.host = "0.0.0.0"};
    snprintf(at.port, sizeof at.port, "%d", i->port);
    int listener = wire_listen(&at);
    bool ok = listener >= 0;
    for (int seen = 1; ok && seen < i->size;) {
        struct wire_name who;
        int s = wire_accept(listener, (uint32_t)i->size, &who, deadline);
        ok = s >= 0;
        if (ok && (!who.rank || socket[who.rank] >= 0)) {
            close(s); // of another process with the same rank, which reads that its connection was closed
            continue;
        }
        if (ok)
            socket[who.rank] = s;
        ok = ok && peer_of(s, &all[who.rank]) && wire_get(s, all[who.rank].port, sizeof all->port, deadline);
        if (ok)
            all[who.rank].port[sizeof all->port - 1] = 0;
        seen += ok;
    }
    if (listener >= 0)
        close(listener);
    return ok;
}

// Runs on rank 0: gathers the addresses of all ranks and sends each of them the list. The address of rank 0
// in it is the one by which the others know it.
static bool lead(const struct group_invitation *i, struct wire_address *all, int64_t deadline) {
    int *socket = memory_alloc(sizeof *socket * (size_t)i->size);
    for (int k = 0; socket && k < i->size; k++)
        socket[k] = -1;
    snprintf(all[0].host, sizeof all->host, "%s", i->host);
    bool ok = socket && gather(i, all, socket, deadline);
    for (int k = 1; ok && k < i->size; k++)
        ok = wire_put(socket[k], all, sizeof *all * (size_t)i->size, deadline);
    for (int k = 1; socket && k < i->size; k++)
        if (socket[k] >= 0)
            close(socket[k]);
    memory_free(socket);
    return ok;
}

static bool follow(const struct group_invitation *i, struct wire_address *all, int64_t deadline) {
    struct wire_address at = {0};
    struct wire_name self = {(uint32_t)i->rank, (uint32_t)i->size, 0};
    char nonce[16], port[sizeof at.port];
    memcpy(port, all[i->rank].port, sizeof port);
    snprintf(at.host, sizeof at.host, "%s", i->host);
    snprintf(at.port, sizeof at.port, "%d", i->port);
    int s = wire_connect(&at, deadline);
    bool ok = s >= 0 && wire_say_hello(s, &self, nonce, deadline) && wire_hear_answer(s, nonce, deadline) &&
              wire_put(s, port, sizeof port, deadline) &&
              wire_get(s, all, sizeof *all * (size_t)i->size, deadline);
    if (s >= 0)
        close(s);
    for (int k = 0; ok && k < i->size; k++) { // terminates the received texts
        all[k].host[sizeof all->host - 1] = 0;
        all[k].port[sizeof all->port - 1] = 0;
    }
    return ok;
}

static bool list(const struct wire_address *all, int size, struct wire_host **hosts) {
    struct wire_host *h = *hosts = memory_zero(sizeof *h * (size_t)size);
    for (int k = 0; h && k < size; k++) {
        char text[sizeof all->host + sizeof all->port + 4];
        bool is_six = strchr(all[k].host, ':');
        snprintf(text, sizeof text, "%s%s%s:%s", is_six ? "[" : "", all[k].host, is_six ? "]" : "",
                 all[k].port);
        if (!wire_add_address(&h[k], text)) {
            wire_free_hosts(h, size);
            return *hosts = NULL, false;
        }
    }
    return h;
}

bool meeting_hold(const struct group_invitation *i, struct wire_host **hosts, int *listener) {
    int64_t deadline = clock_ns() + group_timeout_ns();
    struct wire_address *all = memory_zero(sizeof *all * (size_t)i->size);
    *hosts = NULL;
    *listener = all ? wire_listen(&(struct wire_address){"0.0.0.0", "0"}) : -1;
    if (*listener >= 0)
        snprintf(all[i->rank].port, sizeof all->port, "%d", wire_port(*listener));
    bool ok = *listener >= 0 && (i->rank ? follow : lead)(i, all, deadline) && list(all, i->size, hosts);
    if (!ok && *listener >= 0)
        close(*listener);
    memory_free(all);
    return ok;
}
