// launch.h - `zellige launch`: starts several processes of one program, on this machine or on others.

#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>

#include "cli.h"

// hosts.c ---------------------------------------------------------------------------------------------------

enum { LAUNCH_RANKS = 1024, LAUNCH_ADDRESSES = 16 };

struct launch_rank {
    char ssh[256];                      // the host to log in to; "" for this machine
    char address[LAUNCH_ADDRESSES][64]; // IP addresses, without ports
    int addresses;
};
struct launch_hosts {
    struct launch_rank *rank;
    int count;
};
// Reads hosts from --hosts "a,b", each of them `times` times, or from a file in the format of mlx.launch:
// [{"ssh": "name", "ips": ["10.0.0.1"]}, ...]. If both are NULL, the host is this machine, `times` times.
// Returns false after a message. The caller calls launch_free_hosts in any case.
bool launch_read_hosts(const struct invocation *call, const char *hosts, const char *file, int times,
                       struct launch_hosts *out);
// Frees the ranks and clears h.
void launch_free_hosts(struct launch_hosts *h);
// Returns whether the rank runs on this machine.
bool launch_is_local(const struct launch_rank *r);

// processes.c -----------------------------------------------------------------------------------------------

struct launch_process {
    char *const *argv;
    char *const *variable; // additions to its environment, "NAME=value"; ends with NULL
    const char *folder;    // its working folder; NULL: that of this process
    const char *input;     // a script for its standard input, which then stays open: the process ends when it
                           // is closed, and each line says a signal for what it runs, "TERM" or "USR1"; NULL:
                           // its standard input is empty, and it gets the signals itself
};
// Runs all processes and waits until they end. Lines of their output are printed whole, after "[rank] "
// unless `plain` is set. If a process fails, the others are ended. Returns the exit code of the first one
// that failed, or 128 plus the number of the signal that ended it; 0 if none failed.
int launch_run(const struct launch_process *p, int count, bool plain);

#endif
