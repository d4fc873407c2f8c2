// pjrt.h - devices of a PJRT plugin: libtpu for TPUs, XLA's plugins for CUDA and the CPU. Only for the files
// of this folder.
//
//     pjrt_plugin.c   finds the plugin, opens it, its version, its client and its devices
//     pjrt_buffer.c   buffers of the units, and the completion of executions
//     pjrt_code.c     compiled texts, in memory and on disk
//     pjrt_program.c  segments: rendered by hlo/, executed
//     pjrt_ahead.c    programs compiled for chips that need not be present
//     pjrt_hlo.c      compiled modules as text
//     pjrt_profile.c  when executions ran, for the profiler
//     pjrt_proto.c    protobuf messages
//     pjrt.c          the table of the device

#ifndef PJRT_H
#define PJRT_H

#include "device/device.h"
#include "device/hlo/hlo.h"
#include "device/pjrt/pjrt_abi.h"
#include "device/profile/profile.h"

// Declares a struct that a plugin reads, with the named members set, and room for members that later versions
// add: `var.a`.
#define PJRT_MAKE(name, var, ...) \
    struct {                      \
        struct pjrt_##name a;     \
        char room[PJRT_ROOM];     \
    } var = {.a = {.struct_size = sizeof var, __VA_ARGS__}}

// Calls a function of the plugin; arguments that are not named are zero. `var.a` has the arguments
// afterwards, and var_ok whether the call succeeded; if not, the error is set.
#define PJRT_CALL(function, var, ...)                        \
    PJRT_MAKE(function, var, __VA_ARGS__);                   \
    bool var##_ok =                                          \
        pjrt_good(#function, PJRT_HAS(pjrt_api(), function) ? pjrt_api()->function(&var.a) : &pjrt_missing)

extern const struct device device_pjrt;
extern struct pjrt_error pjrt_missing; // the error of a function that the plugin does not have
// Returns true if `error` is NULL, or false, with an error that names the function, and destroys `error`.
bool pjrt_good(const char *function, struct pjrt_error *error);
// Returns the path of the plugin, or NULL with the reason in *reason. Does not load it.
const char *pjrt_path(const char **reason);
// Returns whether this machine has a TPU, by the files of the kernel's driver.
bool pjrt_has_hardware(void);
// Returns whether the plugin has a client.
bool pjrt_is_open(void);
// Loads the plugin, once, without a client, so that no chip is taken. Returns false, with the reason in
// *reason, if that fails.
bool pjrt_load(const char **reason);
// Opens the plugin and its client, once. Returns the number of units, or 0 with the reason in *reason, which
// may be NULL.
int pjrt_open(const char **reason);
// Returns the functions of the plugin, once it is loaded.
const struct pjrt_api *pjrt_api(void);
// Returns the client, or NULL if the plugin is not open.
struct pjrt_client *pjrt_client(void);
// Returns the device of a unit of the open plugin.
struct pjrt_device *pjrt_device(int unit);
// Returns the platform of the open plugin: "cpu", "tpu" or "cuda".
const char *pjrt_platform(void);
// Returns whether the units are TPUs.
bool pjrt_is_tpu(void);
// Returns whether a call reads or makes float64, which TPUs only emulate; numbers without a dtype of their
// own do not count.
bool pjrt_has_doubles(const struct call *c);
// Returns the kind of a unit, such as "TPU v6 lite".
const char *pjrt_model(int unit);
// Returns a text with the plugin's path and versions.
const char *pjrt_detail(void);

// CompileOptionsProto by hand: executable_build_options (3) with one replica (4) and one partition (5), and a
// portable executable (4), which runs on whichever device each execution names. Without options plugins
// abort.
#define PJRT_OPTIONS "\x1a\x04\x20\x01\x28\x01\x20\x01"

// Returns a compiled module, in the bytes that a plugin gives, as lines of text, which the caller frees, and
// stores the sum of the cycles that its compiler estimates (pjrt_hlo.c). Returns NULL, with an error, if that
// fails.
char *pjrt_hlo_text(const uint8_t *bytes, size_t size, double *cycles);

// A protobuf message is a list of fields, each of which has a number, a kind and a value.
enum { PJRT_PROTO_NUMBER = 0, PJRT_PROTO_WIDE = 1, PJRT_PROTO_BYTES = 2, PJRT_PROTO_WORD = 5 };
struct pjrt_proto {
    const uint8_t *at, *end; // what is not read yet
};
struct pjrt_field {
    int number, kind;
    uint64_t value;         // of a number
    struct pjrt_proto part; // of bytes: the text, message or packed numbers
};
// Reads a number of packed numbers.
uint64_t pjrt_proto_number(struct pjrt_proto *p);
// Reads the next field. Returns false at the end, or if the bytes are no protobuf message.
bool pjrt_proto_next(struct pjrt_proto *p, struct pjrt_field *f);

// An execution whose time a profile records.
struct pjrt_timed {
    int unit, lane;
    uint32_t id;
    int64_t begin, begin_ticks; // as of clock_ns() and clock_ticks()
    struct profile_work before;
};
// Returns whether a profile is being recorded and the plugin has a profiler, which is started then. No other
// execution is enqueued until pjrt_profile_close is called with the same *t. Sets no error.
bool pjrt_profile_open(struct pjrt_timed *t, int unit, int lane);
// Adds the execution to the profile if it was enqueued.
void pjrt_profile_close(struct pjrt_timed *t, const struct pjrt_executable *executable, bool is_enqueued);
// Reports when all these executions ran: profile_end of struct device.
void pjrt_profile_end(void);

// Implement the entries of struct device with these names.
void *pjrt_put(int unit, const struct buffer_form *form, const void *from);
bool pjrt_get(int unit, void *buffer, const struct buffer_form *form, void *to);
void *pjrt_carry(int unit, void *buffer);
void pjrt_free(int unit, void *buffer);
bool pjrt_pin(int unit, void *pages, size_t bytes);
void pjrt_unpin(int unit, void *pages);
// Takes over the event of an execution that was enqueued on the unit, for which pjrt_wait waits. Sets no
// error: a failure shows when the results are read.
void pjrt_add_execution(int unit, struct pjrt_event *done);
// Implement the entries of struct device with these names.
bool pjrt_record(int unit, int lane, int place);
bool pjrt_wait(int unit, int lane, int place);

// Returns what a program's text is compiled to, from memory or disk or compiled now, or NULL and an error.
// The caller releases it with pjrt_code_release.
struct pjrt_code *pjrt_code(const struct hlo_program *hlo);
// Begins to compile a program's text in the background; pjrt_code waits for that. Sets no error.
void pjrt_code_begin(const struct hlo_program *hlo);
// Returns the loaded executable, which lives as long as the code.
struct pjrt_executable *pjrt_code_executable(const struct pjrt_code *c);
// Releases the code; NULL is allowed.
void pjrt_code_release(struct pjrt_code *c);

// Implement the entries of struct device with these names.
struct program *pjrt_build(int unit, const struct segment *s);
void pjrt_drop(struct program *p);
void pjrt_prepare(int unit, struct program *p, const struct segment *s);
void pjrt_run(int unit, struct program *p, struct binding *b);
int pjrt_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why);

#endif
