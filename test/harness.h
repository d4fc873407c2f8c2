// harness.h - what check.c and main.c share: the test that is running now.

#ifndef HARNESS_H
#define HARNESS_H

#include "test.h"

#include <stdatomic.h>

enum { TEST_FOLDER_BYTES = 512 };

extern struct test_state {
    char name[256];          // "unit/graph:add_broadcasts"
    atomic_int failed;       // checks of this test
    bool skipped;            // SKIP was reached
    bool muted;              // a second run that looks for leaks only: nothing is printed or counted
    bool quick, is_long;     // sizes to take
    bool brief;              // one of several cases
    bool sampled;            // quick, and one of several cases
    uint64_t seed;           // of the whole run
    atomic_ullong random;    // of this test
    char *folder;            // TEST_FOLDER_BYTES; "" until test_folder() makes it
} test_state;

// Waits for what a test left to be compiled in the background: no other test counts that, or finds its folder
// gone.
void test_settle(void);

#endif
