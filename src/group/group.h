// group.h - processes that communicate: how they find each other, and the engines that move their data.
//
// A group is made by an engine, a row of engines.def, from what a launcher left in the environment. Its
// collectives are ops (op/collective.c) of a stream that the process has for them; the engine runs one after
// the other.

#ifndef GROUP_H
#define GROUP_H

#include "op/ops.h"

// group.c ---------------------------------------------------------------------------------------------------

struct group_engine {
    const char *name;
    bool (*is_available)(void); // whether what it needs is here; without an error
    bool (*is_prepared)(void);  // the same, and a launcher prepared it
    zl_group (*open)(void);     // the group of all processes; NULL and an error
};
#define ENGINE(name) extern const struct group_engine group_##name;
#include "group/engines.def"

bool group_is_between_ranks(enum collective kind); // send and recv: others do not take part

// What is wrong with a collective, as all engines say it: "all_sum number 3 in a group of 4 (ring), rank 0:
// ...". False.
struct group_place {
    zl_group group;
    const char *name;
    uint64_t number;
};
bool group_fail(const struct group_place *at, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t group_timeout_ns(void); // how long ranks are waited for

// head.c ----------------------------------------------------------------------------------------------------

// What a rank is about to call, for others to compare with their own.
struct group_head {
    uint32_t magic;
    uint8_t kind, dtype;
    int16_t peer;
    uint64_t number;
    int64_t count;
    uint64_t rank;
};
struct group_head head_of(zl_group g, const struct op_transfer *t, uint64_t number);
// or one sends what the other receives
bool head_is_same(const struct group_head *a, const struct group_head *b);
// as a sentence
void head_difference(const struct group_head *a, const struct group_head *b, char *out, size_t bytes);

// environment.c: what launchers tell a process --------------------------------------------------------------

// The rank and size, and where rank 0 can be met.
struct group_invitation {
    const char *launcher; // "torchrun"
    int rank, size;
    char host[256];
    int port;
};
const char *group_variable(const char *name); // of the environment, NULL where it is not set or empty
bool group_read_number(const char *name, int *out); // false, without an error: not set, or no number
// false: by none of the launchers that say where rank 0 is
bool group_is_invited(struct group_invitation *out);
bool group_is_invited_to_nccl(struct group_invitation *out); // false: not by variables that mean this engine
bool group_is_under_mpi(void); // mpirun, or srun with an interface for MPI, started this process

// wire.c: sockets -------------------------------------------------------------------------------------------

// Places at which a rank listens.
struct wire_host {
    struct wire_address {
        char host[256], port[8];
    } *address;
    int addresses;
};
// Reads MLX's file of hosts: for each rank a list of "address:port". False and an error. wire_free_hosts in
// any case.
bool wire_read_hosts(const char *path, struct wire_host **hosts, int *count);
void wire_free_hosts(struct wire_host *hosts, int count);
bool wire_add_address(struct wire_host *host, const char *text); // "address:port"; false and an error

// Makes a socket that listens; port "0": any. -1 and an error.
int wire_listen(const struct wire_address *at);
int wire_port(int listener);
// Connects, again and again until the deadline. -1 and an error.
int wire_connect(const struct wire_address *to, int64_t deadline);
bool wire_put(int socket, const void *data, size_t bytes, int64_t deadline); // false and an error
bool wire_get(int socket, void *data, size_t bytes, int64_t deadline);       // false and an error

// Who connects says first who it is, and that it knows the token of the job; who accepts answers in kind.
struct wire_name {
    uint32_t rank, size, link;
};
bool wire_say_hello(int socket, const struct wire_name *self, char nonce[16], int64_t deadline);
// Accepts until one comes that knows the token and is one of this group; others are let go. -1 and an error.
int wire_accept(int listener, uint32_t size, struct wire_name *who, int64_t deadline);
bool wire_hear_answer(int socket, const char nonce[16], int64_t deadline); // of who accepted

// meeting.c -------------------------------------------------------------------------------------------------

// Where every rank listens, found by way of rank 0; *listener is this rank's. False and an error.
bool meeting_hold(const struct group_invitation *i, struct wire_host **hosts, int *listener);

// flow.c: bytes that go round a ring ------------------------------------------------------------------------

// Bytes to be sent, or room for bytes that come; the latter are combined with what lies at `with`, if that is
// not NULL.
struct flow_span {
    char *at;
    const char *with;
    size_t bytes;
};
// What one pair of sockets is to send and receive. The first `lead` bytes may be sent at once, each later one
// after as many came as are between them.
struct flow {
    int in, out; // -1: nothing
    struct flow_span *send, *get;
    int sends, gets;
    size_t lead;
    struct group_head *say, *hear; // NULL: none. hear: what came
    // How far it is.
    int send_at, get_at;
    size_t send_done, get_done, sent, came, said, heard, staged;
    char *stage;
};
enum { FLOW_STAGE = 1 << 18 };
enum flow_end { FLOW_DONE, FLOW_LOST_IN, FLOW_LOST_OUT, FLOW_LATE, FLOW_OTHER };
// Moves the bytes of all flows. While nothing moves, calls idle(context, ns since something moved), which may
// end it: FLOW_OTHER. heard is called when a head is complete; false ends it likewise. *which: the flow that
// lost its neighbour. watch: sockets that wake idle.
struct flow_watch {
    bool (*idle)(void *context, int64_t still_ns);
    bool (*heard)(void *context, const struct flow *f);
    void *context;
    const int *socket; // two, of which some may be -1
    int64_t pause_ns; // the longest time between two calls of idle
};
enum flow_end flow_run(struct flow *f, int count, const struct op_transfer *t, const struct flow_watch *watch,
                       int *which);

#endif
