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

static const char *addresses(const char *at, struct launch_rank *r) {
    if (*(at = skip(at)) != '[')
        return NULL;
    for (at = skip(at + 1); at && *at != ']';) {
        if (r->addresses == LAUNCH_ADDRESSES ||
            !(at = text(at, r->address[r->addresses++], sizeof *r->address)))
            return NULL;
        at = *at == ',' ? skip(at + 1) : at;
    }
    return skip(at + 1);
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
        at = at && *at == ',' ? skip(at + 1) : at;
    }
    return at ? skip(at + 1) : NULL;
}

static bool parse(const char *at, struct launch_hosts *out) {
    at = skip(at);
    if (*at == '{') { // newer files have the list as a member of an object
        const char *list = strstr(at, "\"hosts\"");
        at = list ? strchr(list, '[') : NULL;
    }
    if (!at || *at != '[')
        return false;
    for (at = skip(at + 1); at && *at != ']';) {
        struct launch_rank *r = add(out);
        at = r ? host(at, r) : NULL;
        at = at && *at == ',' ? skip(at + 1) : at;
    }
    return at && out->count;
}

static bool from_file(const struct invocation *call, const char *file, struct launch_hosts *out) {
    char *data = cli_read_all(file);
    if (!data)
        return cli_fail(call, "the file of hosts '%s' cannot be read", file), false;
    bool ok = parse(data, out);
    free(data);
    return ok ||
           (cli_fail(
                call,
                "'%s' is no file of hosts: [{\"ssh\": \"name\", \"ips\": [\"10.0.0.1\"]}, ...] is expected",
                file),
            false);
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
            memcpy(r->ssh, at, len);
            memcpy(r->address[0], at, len);
            r->addresses = 1;
        }
        at += len + (at[len] == ',');
    }
    return out->count || (cli_usage(call, "--hosts names no host"), false);
}
