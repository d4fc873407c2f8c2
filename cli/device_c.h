// device_c.h - `zellige kernel run FILE.c`: device C of a chip, on its emulator.

#ifndef DEVICE_C_H
#define DEVICE_C_H

#include "cli.h"
#include "zellige_tile.h"

// Returns whether the operand is a file of device C instead of a tile kernel: its name ends in ".c".
bool cli_is_device_c(const char *path);
// Runs it with the arguments that the other operands describe. Returns the exit code.
int cli_run_device_c(const struct invocation *call);
// Prints what a launch on a modelled chip did, in two lines.
void cli_print_report(const zl_device_c_report *report);
// Writes the same as members of the JSON object that is open.
void cli_json_report(const zl_device_c_report *report);

#endif
