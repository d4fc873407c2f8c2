// bm1690.h - an emulated SophGo BM1690: device memory, L2, eight cores of 64 lanes, and the commands of
// commands.def.
//
// Device C is compiled for the host unchanged. Its calls of the device API go to this emulator, which
// computes the same bits as the vendor's reference model (doc/bm1690.md), checks every rule of the table, and
// models time. Device addresses are those of the chip. Only base/ is used: no tile IR, and no kernel of the
// CPU.

#ifndef BM1690_H
#define BM1690_H

#include "base/base.h"
#include "bm1690/command.h"

enum {
    BM1690_CORES = 8,
    BM1690_LANE_COUNT = 64,
    BM1690_LANE_BYTES = 256 << 10,
    BM1690_BANKS = 16,
    BM1690_VECTOR_BYTES = 64, // bytes that a lane processes per cycle, and the alignment of layouts
};

// command_table.c -------------------------------------------------------------------------------------------

extern const struct bm1690_command bm1690_commands[];
extern const int bm1690_command_count;

// Returns the bytes of an element, or 0 for a dtype that the emulator does not know.
int bm1690_dtype_bytes(enum bm1690_dtype dtype);
// Returns the name of a dtype for messages, never NULL.
const char *bm1690_dtype_name(enum bm1690_dtype dtype);

// headers.c -------------------------------------------------------------------------------------------------

// Appends our header under the vendor's name, "tpu_kernel.h" or "ppl_helper.h". Returns false if there is
// none of that name.
bool bm1690_header(struct text *out, const char *name);
// Appends the C file to compile: it includes the device C, which lies beside it as kernel.c, and defines the
// functions of the API that it uses. A loaded module calls the emulator by them.
void bm1690_stub(struct text *out, const char *device_c);

// chip.c ----------------------------------------------------------------------------------------------------

// Returns a new chip, for one thread at a time, or NULL and an error. The caller frees it with bm1690_close.
struct bm1690 *bm1690_open(void);
// Frees a chip and its memory; NULL is allowed.
void bm1690_close(struct bm1690 *chip);

// Allocates device memory. Returns its address on the chip, or 0 and an error.
uint64_t bm1690_alloc(struct bm1690 *chip, size_t bytes);
// Frees device memory; does nothing if it does not begin at `address`, as for 0.
void bm1690_free(struct bm1690 *chip, uint64_t address);
// Copies from the host to device memory or L2. Returns false, with an error, if the bytes are not all in one
// allocation.
bool bm1690_write(struct bm1690 *chip, uint64_t address, const void *data, size_t bytes);
// Copies from device memory or L2 to the host. Returns false, with an error, if the bytes are not all in one
// allocation.
bool bm1690_read(struct bm1690 *chip, uint64_t address, void *data, size_t bytes);

// Loads a shared library that device C and its stub were compiled to. Returns NULL, with an error, if that
// fails.
struct bm1690_module *bm1690_module_open(const char *library);
// Frees a module; NULL is allowed.
void bm1690_module_close(struct bm1690_module *module);

struct bm1690_options {
    int cores;        // cores that run the entry with the same arguments; 0: one
    bool counts_only; // checks and counts, but moves and computes nothing
    bool traces;      // writes a line for each command into the report
};

// What a launch did. Times are modelled, in cycles of 1 ns.
struct bm1690_report {
    uint64_t commands[BM1690_ENGINES];
    uint64_t bytes;              // moved by DMA
    uint64_t scalars;            // elements that the control program accesses one at a time through pointers
    uint64_t elements;           // elements of the largest operand of each command
    uint64_t bank_conflicts;     // TIU commands with two operands in the same bank
    double busy[BM1690_ENGINES]; // cycles of the busiest core
    double cycles;               // of the slowest core, from its first to its last command
    double lane_cycles;          // cycles of the TIU times lanes in use: of all cores
    double tiu_cycles;           // of all cores
    struct text trace;
};
// Frees the trace of a report.
void bm1690_report_free(struct bm1690_report *report);

// Runs an entry of a module to its end. The first rule that is broken ends the launch with an error that
// names the command: later commands do nothing. The report, which may be NULL, is filled in either case.
bool bm1690_launch(struct bm1690 *chip, struct bm1690_module *module, const char *entry,
                   const void *arguments, size_t bytes, const struct bm1690_options *options,
                   struct bm1690_report *report);

#endif
