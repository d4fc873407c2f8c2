// cuda_queue.h - the order of a GPU's work: launches and library calls, enqueued at once or as graphs.
//
// All work of a lane goes through its queue. The launches of a program that has run often enough are recorded
// first, and a list of them goes to the driver as a graph, which takes a fraction of the time of single
// launches. The work of short programs becomes graphs too, once it is repeated with the same memory.

#ifndef CUDA_QUEUE_H
#define CUDA_QUEUE_H

#include "device/cuda/cuda.h"
#include "device/kernels/kernels.h"
#include "device/profile/profile.h"

// cuda_queue.c ----------------------------------------------------------------------------------------------

// Begins a run of a program on this thread. A program that ran often enough has its commands recorded in
// lists from now on, unless another thread's are being recorded on that lane.
void cuda_queue_begin(int unit, int lane, const struct program *p);
// Ends the run, on the same thread, and enqueues what was recorded.
void cuda_queue_end(int unit, int lane);
// Frees the graphs of a program that will not run again.
void cuda_queue_forget(const struct program *p);

// Enqueues a launch of f, or records it; the arguments are copied. Returns false, with an error, if it fails.
bool cuda_queue_launch(int unit, int lane, const struct kernel_function *f, int64_t groups, int arguments,
                       const struct kernel_argument *argument);

// Memory that a command reads, or writes as well.
struct cuda_range {
    uintptr_t begin, end;
    bool is_written;
};

// Work of a library: run(data, stream) enqueues it on that stream and returns 0 for success. `data` is
// copied. Two calls with the same run and the same bytes of data have to do the same work.
typedef int cuda_work(const void *data, cuda_stream s);
struct cuda_library_work {
    cuda_work *run;
    const char *name; // for messages
    const void *data;
    size_t bytes;
    int ranges; // all memory that it accesses
    const struct cuda_range *range;
};
// Enqueues such work, or records it. Returns false, with an error, if it fails.
bool cuda_queue_work(int unit, int lane, const struct cuda_library_work *work);

// Enqueues what was recorded, which has to precede any other use of the lane's stream. It keeps an error for
// cuda_queue_good().
void cuda_queue_flush(int unit, int lane);
// Flushes, and stops recording of this thread's commands (pauses), as while a library has the stream, or
// resumes it.
void cuda_queue_pause(int unit, int lane, bool pauses);
// Returns false, with an error, if recorded commands could not be enqueued since the last call.
bool cuda_queue_good(int unit, int lane);

// Lists -----------------------------------------------------------------------------------------------------

enum {
    CUDA_LIST = 48,
    CUDA_LIST_BYTES = 72 << 10,
    CUDA_ARGUMENTS = 64,
    CUDA_LAUNCH_BYTES = 4096,
    CUDA_RANGES = 8 * CUDA_LIST
};

struct cuda_command {
    cuda_function f; // NULL: a library call, by `run`
    cuda_work *run;
    const char *name;
    uint32_t groups, threads, shared;
    // its data in the list: the offsets of the arguments (uint16_t), then their values
    int32_t arguments, at, bytes;
    int32_t range, ranges;        // in the list
    struct profile_work work;     // its identity for a profile
};

struct cuda_list {
    int count, bytes, ranges;
    struct cuda_command command[CUDA_LIST];
    struct cuda_range range[CUDA_RANGES];
    _Alignas(16) char data[];
};
// Stores the addresses of a launch's c->arguments arguments, which lie in data, as cuLaunchKernel takes them.
void cuda_command_arguments(const struct cuda_command *c, const char *data, void **argument);
// Enqueues the command on the stream. Returns false, with an error, if it fails.
bool cuda_command_give(const struct cuda_command *c, const char *data, cuda_stream s);

// cuda_profile.c --------------------------------------------------------------------------------------------

// Around what gives commands to the driver on a lane while a profile is recorded, so that it is known when
// they run.
struct cuda_timing {
    bool is_linked; // CUPTI links kernels to the commands
    int event;      // index of its events, or -1
};
// Starts the record of a launch in *r; the caller adds what the launch reads, writes and computes.
void cuda_profile_record(int unit, int lane, const char *name, struct profile_record *r);
// Begins timing the commands that are enqueued next, for the profile; pass the result to
// cuda_profile_close() once they are enqueued.
struct cuda_timing cuda_profile_open(int unit, int lane, int count, const struct cuda_command *command);
// Ends what cuda_profile_open() began.
void cuda_profile_close(int unit, int lane, struct cuda_timing timing);
// Returns whether a profile is recorded by events, for which commands have to be enqueued one by one.
bool cuda_profile_uses_events(void);
// Reports all times that are not reported yet, as profile_end() of struct device.
void cuda_profile_end(void);

// cuda_profile_events.c: launches between two events.

// Records the event before launch `id` of a profile. Returns its index for cuda_events_close(), or -1 if it
// is not timed.
int cuda_events_open(int unit, int lane, uint32_t id);
// Records the event after the launch of index `at`.
void cuda_events_close(int unit, int lane, int at);
// Reports the times of launches, on each lane those before the first that is not closed; it waits for them.
void cuda_events_end(void);

// cuda_graph.c ----------------------------------------------------------------------------------------------

enum { CUDA_VARIANTS = 4 };

// A list of commands at one position of a program, as a graph once it came twice: with the same functions,
// the same library work and the same dependencies. Programs use several sets of memory in turn, so there are
// a few variants.
struct cuda_graph_of {
    struct variant {
        cuda_graph graph; // has to exist as long as its nodes are updated
        cuda_graph_exec exec;
        cuda_graph_node *node;  // the node of each command
        uint64_t after[CUDA_LIST]; // bit k of after[i]: command i waits for command k
        struct cuda_list *list; // the commands of the graph; without exec, those of the last list
    } variant[CUDA_VARIANTS];
    int turn, made; // the variant that is replaced next; how many graphs were made
    const struct variant *last; // the one that ran last, or NULL
};
// Submits l as a graph. Returns false if it did not, and then nothing is enqueued. Sets *fresh to the index,
// among the library works of l, of one that was never seen here, else to -1.
bool cuda_graph_run(struct cuda_graph_of *g, const struct cuda_list *l, cuda_stream s, cuda_stream spare,
                    int *fresh);
// Frees the graphs and lists of g and clears it.
void cuda_graph_free(struct cuda_graph_of *g);

// cuda_repeat.c ---------------------------------------------------------------------------------------------

struct cuda_repeat;
// Submits a command with its data as a graph, if it came often enough. Returns false if nothing was enqueued.
// *table, NULL at first, is kept from call to call of one lane.
bool cuda_repeat_give(struct cuda_repeat **table, const struct cuda_command *c, const char *data,
                      cuda_stream s, cuda_stream spare);

#endif
