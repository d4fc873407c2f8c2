// group.h - processes that communicate: how they find each other, and the engines that move their data.
//
// An engine, a row of engines.def, makes a group from the environment variables of a launcher. Its
// collectives are ops (op/collective.c) on a stream that the process has only for them; the engine runs them
// one after the other.

#ifndef GROUP_H
#define GROUP_H

#include "op/ops.h"

// group.c ---------------------------------------------------------------------------------------------------

struct group_engine {
    const char *name;
    bool (*is_available)(void); // returns whether this machine has what the engine needs; sets no error
    bool (*is_prepared)(void);  // returns whether, in addition, a launcher prepared it
    zl_group (*open)(void);     // returns the group of all processes, or NULL and an error
};
#define ENGINE(name) extern const struct group_engine group_##name;
#include "group/engines.def"

// Returns whether a collective is send or recv, in which only two ranks take part.
bool group_is_between_ranks(enum collective kind);

// Names a collective in an error.
struct group_place {
    zl_group group;
    const char *name;
    uint64_t number;
};
// Records an error of a collective in the form that all engines use: "all_sum number 3 in a group of 4
// (ring), rank 0: ...". Returns false.
bool group_fail(const struct group_place *at, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Returns how many nanoseconds to wait for other ranks (ZL_GROUP_TIMEOUT).
int64_t group_timeout_ns(void);

// head.c ----------------------------------------------------------------------------------------------------

// The call that a rank is about to make; ranks compare their heads.
struct group_head {
    uint32_t magic;
    uint8_t kind, dtype;
    int16_t peer;
    uint64_t number;
    int64_t count;
    uint64_t rank;
};
// Returns the head of a collective.
struct group_head head_of(zl_group g, const struct op_transfer *t, uint64_t number);
// Returns whether two ranks make the same call, or b receives what a sends, or a receives what b sends.
bool head_is_same(const struct group_head *a, const struct group_head *b);
// Writes a sentence that says how two calls differ.
void head_difference(const struct group_head *a, const struct group_head *b, char *out, size_t bytes);

// environment.c: what launchers tell a process --------------------------------------------------------------

// The rank and size, and the address at which rank 0 listens first.
struct group_invitation {
    const char *launcher; // "torchrun"
    int rank, size;
    char host[256];
    int port;
};
// Returns a variable of the environment, or NULL if it is not set or empty.
const char *group_variable(const char *name);
// Reads a variable as a number from 0 on. Returns false, without an error, if it is not set or no such
// number.
bool group_read_number(const char *name, int *out);
// Reads the variables of torchrun or srun. Returns false, without an error, if neither started this process
// as one of several.
bool group_is_invited(struct group_invitation *out);
// Reads the variables by which mlx.launch prepares the engine nccl. Returns false, without an error, if they
// are not set.
bool group_is_invited_to_nccl(struct group_invitation *out);
// Returns whether mpirun, or srun with an interface for MPI, started this process.
bool group_is_under_mpi(void);

// wire.c: sockets -------------------------------------------------------------------------------------------

// The addresses at which a rank listens.
struct wire_host {
    struct wire_address {
        char host[256], port[8];
    } *address;
    int addresses;
};
// Reads MLX's file of hosts: for each rank a list of "address:port". Returns false, with an error, if that
// fails. The caller calls wire_free_hosts in both cases.
bool wire_read_hosts(const char *path, struct wire_host **hosts, int *count);
// Frees a list of hosts. NULL is ignored.
void wire_free_hosts(struct wire_host *hosts, int count);
// Appends an address, written as "address:port". Returns false, with an error, if it is none.
bool wire_add_address(struct wire_host *host, const char *text);

// Deadlines are times of clock_ns.

// Opens a socket that listens; port "0" lets the system choose one. Returns the socket, or -1 and an error.
int wire_listen(const struct wire_address *at);
// Returns the port at which a socket listens, or -1, without an error.
int wire_port(int listener);
// Tries to connect until the deadline. Returns the socket, or -1 and an error.
int wire_connect(const struct wire_address *to, int64_t deadline);
// Sends bytes, and waits until all are sent. Returns false, with an error, if that fails or the deadline
// passes.
bool wire_put(int socket, const void *data, size_t bytes, int64_t deadline);
// Receives bytes, and waits until all have come. Returns false, with an error, if that fails or the deadline
// passes.
bool wire_get(int socket, void *data, size_t bytes, int64_t deadline);

// The rank that connects sends its name and a proof that it knows the token of the job; the rank that accepts
// answers with a proof too.
struct wire_name {
    uint32_t rank, size, link;
};
// Sends the name and the proof, and sets the nonce that the answer must prove. Returns false, with an error,
// if that fails.
bool wire_say_hello(int socket, const struct wire_name *self, char nonce[16], int64_t deadline);
// Waits for a connection from a rank of a group of this size that knows the token, and answers it; other
// connections are closed. Returns the socket, or -1 and an error at the deadline.
int wire_accept(int listener, uint32_t size, struct wire_name *who, int64_t deadline);
// Receives the answer. Returns false, with an error, if it does not come or does not prove the token.
bool wire_hear_answer(int socket, const char nonce[16], int64_t deadline);

// meeting.c -------------------------------------------------------------------------------------------------

// Exchanges, through rank 0, the addresses at which all ranks listen; sets *listener to this rank's socket.
// The caller frees *hosts with wire_free_hosts and closes the socket. Returns false, with an error, if that
// fails; it has then freed and closed both.
bool meeting_hold(const struct group_invitation *i, struct wire_host **hosts, int *listener);

// flow.c: bytes that go round a ring ------------------------------------------------------------------------

// Bytes to be sent, or room for bytes to be received. Received bytes are combined with those at `with` unless
// it is NULL.
struct flow_span {
    char *at;
    const char *with;
    size_t bytes;
};
// The data that one pair of sockets sends and receives. The first `lead` bytes may be sent at once; byte lead
// + n only after more than n bytes were received.
struct flow {
    int in, out; // -1: nothing
    struct flow_span *send, *get;
    int sends, gets;
    size_t lead;
    struct group_head *say, *hear; // sent and received before the bytes; NULL: none
    // Progress so far.
    int send_at, get_at;
    size_t send_done, get_done, sent, came, said, heard, staged;
    char *stage;
};
enum { FLOW_STAGE = 1 << 18 };
enum flow_end { FLOW_DONE, FLOW_LOST_IN, FLOW_LOST_OUT, FLOW_OTHER };
// The functions that flow_run calls. Each returns false, with an error, to end it.
struct flow_watch {
    // Called while no byte moves, with the nanoseconds since the last one did.
    bool (*idle)(void *context, int64_t still_ns);
    // Called when the head `hear` of a flow is complete.
    bool (*heard)(void *context, const struct flow *f);
    void *context;
    const int *socket; // two sockets, or -1; a message on one of them makes flow_run call idle at once
    int64_t pause_ns; // the longest time between two calls of idle
};
// Moves the bytes of all flows, and waits until that is done. Returns FLOW_LOST_IN or FLOW_LOST_OUT, without
// an error, if flow *which lost that neighbour, and FLOW_OTHER if `watch` ended it.
enum flow_end flow_run(struct flow *f, int count, const struct op_transfer *t, const struct flow_watch *watch,
                       int *which);

#endif
