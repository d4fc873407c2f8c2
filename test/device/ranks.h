// ranks.h - groups whose ranks are children of a test.

#ifndef RANKS_H
#define RANKS_H

#include "zellige.h"

void ranks_forget_launchers(void); // as if no launcher had started this process
const char *ranks_lack(void);      // why there can be none here; NULL: there can
// Starts so many ranks that compute on a device (NULL: the default one), which find each other by a file of
// hosts, and lets each call what(group), which returns how many things were wrong. False: something was, or a
// rank did not end by itself.
bool ranks_run(const char *engine, const char *device, int count, int (*what)(zl_group g));
// whether no group begins, on any of them, with an error that has these words
bool ranks_refused(const char *engine, const char *device, int count, const char *words);

#endif
