// hosts.c - assigns ranks to hosts, from a list of names or from a hostfile in the format of mlx.launch.

#include "launch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool launch_is_local(const struct launch_rank *r) {
    return !*r->ssh || !strcmp(r->ssh, "127.0.0.1") || !strcmp(r->ssh, "localhost");
}

void launch_free_hosts(struct launch_hosts *h) {
    free(h->rank);
    *h = (struct launch_hosts){0};
}

static struct launch_rank *add(struct launch_hosts *h) {
    struct launch_rank *more =
        h->count < LAUNCH_RANKS ? realloc(h->rank, sizeof *more * (size_t)(h->count + 1)) : NULL;
    if (!more)
        return NULL;
    h->rank = more;
    h->rank[h->count] = (struct launch_rank){0};
    return &h->rank[h->count++];
}

// Skips blanks. This parser only accepts the JSON of a hostfile: lists, objects and strings without escapes.
static const char *skip(const char *at) {
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *text(const char *at, char *out, size_t bytes) {
    size_t len = 0;
    if (*(at = skip(at)) != '"')
        return NULL;
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' || len + 1 >= bytes) // names and addresses contain no backslash
            return NULL;
        else
            out[len++] = *at;
    out[len] = 0;
    return *at ? skip(at + 1) : NULL;
}

// Skips a value of any kind.
static const char *step_over(const char *at) {
    int depth = 0;
    bool quoted = false;
    for (at = skip(at); *at; at++) {
        if (quoted) {
            quoted = *at != '"';
            at += *at == '\\' && at[1];
            continue;
        }
        if (!depth && (*at == ',' || *at == '}' || *at == ']'))
            return at;
        quoted = *at == '"';
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
    }
    return NULL;
}

// Returns where the next item of a list or object begins, or `at` if it is at the closing bracket. NULL:
// there is no comma, or nothing after it.
static const char *next_item(const char *at, char bracket) {
    if (!at || *at == bracket)
        return at;
    at = *at == ',' ? skip(at + 1) : NULL;
    return at && *at != bracket ? at : NULL;
}

static const char *addresses(const char *at, struct launch_rank *r) {
    if (*(at = skip(at)) != '[')
        return NULL;
    for (at = skip(at + 1); at && *at != ']';) {
        if (r->addresses == LAUNCH_ADDRESSES)
            return NULL;
        at = next_item(text(at, r->address[r->addresses++], sizeof *r->address), ']');
    }
    return at ? skip(at + 1) : NULL;
}

static const char *host(const char *at, struct launch_rank *r) {
    char name[64];
    if (*(at = skip(at)) != '{')
        return NULL;
    for (at = skip(at + 1); at && *at != '}';) {
        if (!(at = text(at, name, sizeof name)) || *at != ':')
            return NULL;
        at = skip(at + 1);
        at = !strcmp(name, "ssh")   ? text(at, r->ssh, sizeof r->ssh)
             : !strcmp(name, "ips") ? addresses(at, r)
                                    : step_over(at);
        at = next_item(at, '}');
    }
    return at ? skip(at + 1) : NULL;
}

static bool parse(const char *at, struct launch_hosts *out) {
    bool is_member = *(at = skip(at)) == '{'; // newer files have the list as a member of an object
    if (is_member) {
        const char *list = strstr(at, "\"hosts\"");
        at = list ? strchr(list, '[') : NULL;
    }
    if (!at || *at != '[')
        return false;
    for (at = skip(at + 1); at && *at != ']';) {
        struct launch_rank *r = add(out);
        at = r ? next_item(host(at, r), ']') : NULL;
    }
    return at && out->count && (is_member || !*skip(at + 1));
}

// Checks names and addresses, which become words of ssh's command line and parts of scripts and JSON.
static bool check(const struct invocation *call, const struct launch_hosts *h) {
    static const char in_address[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_%-";
    for (int i = 0; i < h->count; i++) {
        char name[sizeof h->rank->ssh];
        memcpy(name, h->rank[i].ssh, sizeof name);
        cli_clean(name, false);
        bool fits = *name != '-' && !strcmp(name, h->rank[i].ssh) && !strpbrk(name, " \"'`$\\;&|<>()");
        if (!fits)
            return cli_fail(call, "rank %d: '%s' is no name of a host, as in \"node-1\" or \"me@node-1\"", i,
                            name),
                   false;
        for (int k = 0; k < h->rank[i].addresses; k++)
            if (strspn(h->rank[i].address[k], in_address) != strlen(h->rank[i].address[k]) ||
                !*h->rank[i].address[k])
                return cli_fail(call, "rank %d: its address number %d is none, as in \"10.0.0.1\"", i, k + 1),
                       false;
    }
    return true;
}

static bool from_file(const struct invocation *call, const char *file, struct launch_hosts *out) {
    char *data = cli_read_all(file);
    if (!data)
        return cli_fail(call, "the file of hosts '%s' cannot be read", file), false;
    bool ok = parse(data, out);
    free(data);
    if (!ok)
        return cli_fail(call,
                        "'%s' is no file of hosts: [{\"ssh\": \"name\", \"ips\": [\"10.0.0.1\"]}, ...] is "
                        "expected",
                        file),
               false;
    return check(call, out);
}

bool launch_read_hosts(const struct invocation *call, const char *hosts, const char *file, int times,
                       struct launch_hosts *out) {
    *out = (struct launch_hosts){0};
    if (file)
        return from_file(call, file, out);
    for (const char *at = hosts ? hosts : "127.0.0.1"; *at;) {
        size_t len = strcspn(at, ",");
        for (int i = 0; i < times; i++) {
            struct launch_rank *r = len && len < sizeof r->address[0] ? add(out) : NULL;
            if (!r)
                return cli_usage(call, "--hosts: names with commas between them, for at most %d ranks",
                                 LAUNCH_RANKS),
                       false;
            const char *user = memchr(at, '@', len); // ssh takes "me@node-1"; the address is what follows
            size_t before = user ? (size_t)(user + 1 - at) : 0;
            memcpy(r->ssh, at, len);
            memcpy(r->address[0], at + before, len - before);
            r->addresses = 1;
        }
        at += len + (at[len] == ',');
    }
    if (!out->count)
        return cli_usage(call, "--hosts names no host"), false;
    return check(call, out);
}
