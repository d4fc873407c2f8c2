// pjrt.h - devices of a PJRT plugin: libtpu for TPUs, XLA's plugins for CUDA and the CPU. Between the files
// of this folder only.
//
//     pjrt_plugin.c   finds the plugin, opens it, its version, its client and its devices
//     pjrt_buffer.c   buffers of the units, what they were asked for and when that is done
//     pjrt_code.c     compiled texts, in memory and on disk
//     pjrt_program.c  segments: rendered by hlo/, executed
//     pjrt_ahead.c    programs compiled for chips that need not be here
//     pjrt_hlo.c      what a compiler made of them, as text
//     pjrt.c          the table of the device

#ifndef PJRT_H
#define PJRT_H

#include "device/device.h"
#include "device/hlo/hlo.h"
#include "device/pjrt/pjrt_abi.h"

// A struct that a plugin reads, with what is named and room for members that newer ones add: `var.a`.
#define PJRT_MAKE(name, var, ...) \
    struct {                      \
        struct pjrt_##name a;     \
        char room[PJRT_ROOM];     \
    } var = {.a = {.struct_size = sizeof var, __VA_ARGS__}}

// Calls a function of the plugin with zeroed arguments but for those that are named, which `var.a` has
// afterwards; var_ok: whether it was good, else an error.
#define PJRT_CALL(function, var, ...)                        \
    PJRT_MAKE(function, var, __VA_ARGS__);                   \
    bool var##_ok =                                          \
        pjrt_good(#function, PJRT_HAS(pjrt_api(), function) ? pjrt_api()->function(&var.a) : &pjrt_missing)

extern struct pjrt_error pjrt_missing;                          // of a function that the plugin does not have
bool pjrt_good(const char *function, struct pjrt_error *error); // false and an error, whose own is gone
const char *pjrt_path(const char **reason);                     // of the plugin; NULL: there is none
bool pjrt_is_open(void);
// the plugin, without a client: no chip is taken
bool pjrt_load(const char **reason);
int pjrt_open(const char **reason);                             // units
const struct pjrt_api *pjrt_api(void);
struct pjrt_client *pjrt_client(void);
struct pjrt_device *pjrt_device(int unit);
const char *pjrt_platform(void);  // "cpu", "tpu", "cuda"
bool pjrt_is_tpu(void);
const char *pjrt_model(int unit); // "TPU v6 lite"
const char *pjrt_detail(void);    // the plugin and its versions

// CompileOptionsProto by hand: executable_build_options (3) with one replica (4) and one partition (5), and a
// portable executable (4), which runs on whichever device each execution names. Without options plugins
// abort.
#define PJRT_OPTIONS "\x1a\x04\x20\x01\x28\x01\x20\x01"

// pjrt_hlo.c: a compiled module, as a plugin gives it, in lines; *cycles is the sum of what its compiler
// estimates. NULL and an error.
char *pjrt_hlo_text(const uint8_t *bytes, size_t size, double *cycles);

void *pjrt_put(int unit, const struct buffer_form *form, const void *from);
bool pjrt_get(int unit, void *buffer, const struct buffer_form *form, void *to);
void *pjrt_carry(int unit, void *buffer);
void pjrt_free(int unit, void *buffer);
bool pjrt_pin(int unit, void *pages, size_t bytes);
void pjrt_unpin(int unit, void *pages);
void pjrt_asked(int unit, struct pjrt_event *done); // takes the event of an execution over
bool pjrt_record(int unit, int lane, int place);
bool pjrt_wait(int unit, int lane, int place);

// What a program's text was compiled to, found or made: pjrt_code_release lets it go. NULL and an error.
struct pjrt_code *pjrt_code(const struct hlo_program *hlo);
// the same in the background: who needs it meanwhile waits for that
void pjrt_code_begin(const struct hlo_program *hlo);
struct pjrt_executable *pjrt_code_executable(const struct pjrt_code *c);
void pjrt_code_release(struct pjrt_code *c); // or NULL

struct program *pjrt_build(int unit, const struct segment *s);
void pjrt_drop(struct program *p);
void pjrt_prepare(int unit, struct program *p, const struct segment *s);
void pjrt_run(int unit, struct program *p, struct binding *b);
int pjrt_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why);

#endif
