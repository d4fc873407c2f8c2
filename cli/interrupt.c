// interrupt.c - Ctrl-C and SIGTERM end a long command in an orderly way: it cancels running work, and reports
// what it keeps.

#include <signal.h>

#include "cli.h"
#include "zellige.h"

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number) {
    signal(signal_number, SIG_DFL); // a second signal ends the program at once
    interrupted = 1;
}

static bool gives_up(void *context) {
    (void)context;
    return interrupted;
}

bool cli_interrupted(void) {
    return interrupted;
}

void cli_catch_interrupts(void) {
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    zl_set_interrupt(gives_up, NULL);
}
