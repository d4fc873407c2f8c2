// launch.h - `zellige launch`: several processes of one program, on this machine or on others.

#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>

#include "cli.h"

// hosts.c ---------------------------------------------------------------------------------------------------

enum { LAUNCH_RANKS = 1024, LAUNCH_ADDRESSES = 16 };

struct launch_rank {
    char ssh[256];                          // the host to log in to; "" for this machine
    char address[LAUNCH_ADDRESSES][64];     // IP addresses, without ports
    int addresses;
};
struct launch_hosts {
    struct launch_rank *rank;
    int count;
};
// From --hosts "a,b" with each so many times, or a file of hosts as mlx.launch's: [{"ssh": "name", "ips":
// ["10.0.0.1"]}, ...]. False after a message. Both NULL: this machine. launch_free_hosts in any case.
bool launch_read_hosts(const struct invocation *call, const char *hosts, const char *file, int times,
                       struct launch_hosts *out);
void launch_free_hosts(struct launch_hosts *h);
bool launch_is_local(const struct launch_rank *r);

// processes.c -----------------------------------------------------------------------------------------------

struct launch_process {
    char *const *argv;
    char *const *variable; // "NAME=value" more in its environment, NULL at the end
    const char *folder;    // to run in; NULL: this one
    const char *input;     // written to its standard input, which then stays open; NULL: it has none
};
// Runs them all. Lines of their output appear whole, with "[rank] " before them, unless `plain`. The first
// that fails ends the others; returns its exit code, 128 and the signal for one that a signal ended, or 0.
int launch_run(const struct launch_process *p, int count, bool plain);

#endif
