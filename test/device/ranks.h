// ranks.h - groups whose ranks are children of a test.

#ifndef RANKS_H
#define RANKS_H

#include "zellige.h"

void ranks_forget_launchers(void); // removes the variables that a launcher sets
const char *ranks_lack(void);      // returns why there can be no ranks here; NULL: there can
// Starts `count` ranks that compute on a device (NULL: the default one) and find each other by a hostfile.
// Each calls what(group), which returns the number of failures. Returns false if there were any, or a rank
// did not exit by itself.
bool ranks_run(const char *engine, const char *device, int count, int (*what)(zl_group g));
// returns whether no group begins on any rank, with an error that contains these words
bool ranks_refused(const char *engine, const char *device, int count, const char *words);

#endif
