// threads.h - generating the code of one thread of a workgroup for the blocks of a grid. Shared by files of
// pass/ only.

#ifndef THREADS_H
#define THREADS_H

#include "pass/boxes.h"
#include "pass/layout.h"

enum { SUBGROUP = 32, USES = 32 };

// Where the elements of a buffer are stored.
struct holding {
    // Where the kernel says; in shared memory; in registers, divided among threads by a layout; all elements
    // in each thread.
    enum { HELD_AS_IS, HELD_SHARED, HELD_IN_REGISTERS, HELD_BY_ALL } how;
    bool is_sum, is_operand;          // the result or a factor of a product
    bool has_view;
    bool lends;                       // other buffers use its shared memory
    const struct tile_buffer *lender; // whose shared memory it uses; NULL: its own
    bool is_known;                    // the layout has been chosen
    struct layout layout;
    const struct tile_buffer *now;    // the buffer that replaces it
};

// A maximum that each subgroup of a cluster computed for itself; it is exchanged together with the sum of
// exponentials that uses it.
struct thread_loose {
    const struct tile_stmt *s;     // the reduction; NULL: there is none
    const struct tile_buffer *own; // registers with the subgroup's maxima
    struct layout layout;          // of the results
};

// The state of the pass for one grid.
struct group {
    const struct target *target;
    const struct tile_stmt *body; // of the block
    int threads;     // of all workgroups of a cluster
    int cluster;     // workgroups that process a block together; 1: there are no clusters
    bool have_begun; // all workgroups of the cluster are known to have begun
    struct thread_loose loose;
    bool by_rows;  // subgroups of products share no rows, so that a row is reduced inside one subgroup
    bool by_lines; // tiles are reduced along their last axis
    struct holding *of; // by id, of the buffers that the kernel had before this pass
    int buffers;
    int *seen, stamp; // by id of expression: the stamp of its last visit
    int ids;
    bool failed;
    int loops;            // loops around the current statement, whose iterations use the same memory
    bool is_flat;         // the points of one statement are divided among all workgroups;
    expr flat;            // if so, the workgroup's number; else NULL
    int64_t each;         // if so, points per thread
    expr thread;          // the thread's number, u32, while code is generated
    struct map rewritten; // expressions of the current statement that were rewritten
    // in `thread`: a slot per thread, for shuffles that the target does not have
    const struct tile_buffer *slots[ZL_DTYPE_COUNT];
};

// An access of a statement to a buffer: to an element (index), to a rectangle (region), or, if both are NULL,
// to all of it.
struct access {
    const struct tile_buffer *buffer;
    const expr *index;
    const struct tile_region *region;
    expr load; // the load; NULL: the access is not a load
    bool is_write, is_atomic;
};
typedef void access_visit(struct group *g, const struct access *a, void *data);

// thread_accesses.c

// Calls `visit` for the accesses of a statement, with its body if its points are divided among threads.
void thread_accesses(struct group *g, const struct tile_stmt *s, access_visit *visit, void *data);
// Calls `visit` for the accesses of statements with their bodies.
void thread_all_accesses(struct group *g, const struct tile_stmt *body, access_visit *visit, void *data);
// Calls `visit` for the loads of expressions, each once.
void thread_expr_accesses(struct group *g, int count, const expr *root, access_visit *visit, void *data);
// Returns whether a statement is a `thread`, or a loop whose points are divided among threads.
bool thread_is_spread(const struct tile_stmt *s);
// Returns whether each thread has a buffer of its own.
bool thread_is_private(const struct group *g, const struct tile_buffer *b);
// Returns whether a buffer is in registers by a layout.
bool thread_is_held(const struct group *g, const struct tile_buffer *b);
// Returns the buffer that replaces a buffer, or the buffer itself.
const struct tile_buffer *thread_now(const struct group *g, const struct tile_buffer *b);
// Returns an expression without its outermost casts.
expr thread_without_casts(expr e);

// The points for which a statement is executed, and how they are divided among threads.
struct sweep {
    int vars;
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
    bool is_by_runs;              // the last variable counts runs of adjacent elements
    bool has_layout;
    struct layout layout;         // its axes are the variables
    int64_t covered[TILE_DIMS];   // points that the layout covers along each variable
    // of a copy: the variable of each axis of its regions; -1: the axis stays at its origin
    int pair[2][TILE_DIMS];
};

// How a sweep uses a tile in registers.
struct use {
    const struct tile_buffer *buffer;
    int to[TILE_DIMS];       // the axis of the buffer for each variable
    int64_t size[TILE_DIMS]; // the size of that axis; 0: there is none
    bool is_good;
};

// The sizes of a gemm.
struct product {
    bool is_matrix; // uses matrix instructions
    int64_t rows, columns, depth;
    int down, across; // subgroups along rows and columns
};

// fragments.c

// Decides where each buffer is kept. Returns false, with an error, if memory runs out.
bool fragments_place(struct group *g);

// fragment_uses.c

// Returns whether a buffer is a fragment that, as far as is known, is in registers.
bool fragments_is_held(const struct group *g, const struct tile_buffer *b);
// Returns the use whose layout all others follow, and sets *w to the points of the statement; w->has_layout
// says whether the layout covers them all. NULL: no layout is known, and *w is not set.
const struct use *fragments_lead(struct group *g, const struct tile_stmt *s, int count, const struct use *use,
                                 struct sweep *w);
// Returns the points of a map, copy, fill or reduce, with the layout of the use that leads, if there is one.
struct sweep fragments_sweep(struct group *g, const struct tile_stmt *s);
// Writes how a statement uses its tiles in registers to `use`, the first USES of them. Returns how many it
// wrote.
int fragments_uses(struct group *g, const struct tile_stmt *s, struct use *use);
// Returns the sizes of a gemm, and how subgroups divide it if it uses matrix instructions.
struct product fragments_product(const struct group *g, const struct tile_stmt *s);
// Returns whether a region is known to be all of its buffer; `other` is the region with which it is copied,
// or NULL.
bool fragments_is_whole(const struct tile_region *r, const struct tile_region *other);

// overlay.c

// Lets buffers whose uses do not overlap in time share memory, if a workgroup has too little shared memory.
// Sets g->failed if memory runs out.
void overlay_share(struct group *g);

// barriers.c

// Inserts barriers between the statements of a block where one reads what other threads wrote. Sets g->failed
// if memory runs out.
void barriers_place(struct group *g, struct tile_stmt **body);

// threads.c: functions shared by the files that generate code.

// Generates the code of statements; `group` is a struct group.
void thread_block(void *group, const struct tile_stmt *body);
// Returns a constant of u32.
expr thread_number(int64_t value);
// Returns a region of the buffer that replaces its buffer; `origin` has room for TILE_DIMS.
struct tile_region thread_region(struct group *g, const struct tile_region *r, expr *origin);
// Generates a barrier of the workgroup.
void thread_barrier(void);
// Generates a barrier of all workgroups of a cluster, or a half of it: TILE_ARRIVE, TILE_AWAIT; 0: both.
void thread_meet(int half);

// Writes the indices of an element of a copy's region (of a fill, the second region) at a point.
void thread_place(const struct sweep *w, int which, const struct tile_region *r, const expr *point,
                  expr *index);
// Writes which axis of the region's tile each variable is; LAYOUT_COPIES: none, or one of size 1.
void thread_axes(const struct sweep *w, int which, const struct tile_buffer *b, int *to);

// thread_sweep.c: loops over a sweep, and the code of one of its points.
struct runs;
struct points {
    struct group *g;
    struct sweep sweep;
    expr digit[LAYOUT_DIGITS]; // slot digits of the layout
    expr point[TILE_DIMS];     // of index type
    int opened;                // how many statements to close
    expr first;                // true in one of the threads that share a point; NULL: none do
    const struct runs *runs;   // around the current code, the innermost first; NULL: there are none
};
// Opens loops and guards over the points of a sweep; thread_close_points closes them. Returns false if the
// sweep is known to have no points.
bool thread_open_points(struct group *g, struct points *p, const struct sweep *s);
// Closes the loops and guards, also after thread_open_points returned false.
void thread_close_points(struct points *p);
// Returns an expression with names and tiles replaced by the values and registers of this thread.
expr thread_rewrite(struct points *p, expr e);
// Generates the code of statements at a point; `points` is a struct points.
void thread_body(void *points, const struct tile_stmt *body);
// Returns the buffer that holds an element now, and writes its indices there to `at`, which has room for
// TILE_DIMS.
const struct tile_buffer *thread_element(struct points *p, const struct tile_buffer *b, const expr *index,
                                         expr *at, int *indices);
// Generates the code of a map, or of a loop whose points are divided among threads.
void thread_map(struct group *g, const struct tile_stmt *s);
// Generates the code of a `thread`.
void thread_code(struct group *g, const struct tile_stmt *s);
// Generates the code of a statement that all threads execute; it stays open if it has a body.
void thread_alone(struct group *g, const struct tile_stmt *s);
// Generates the code of a copy.
void thread_copy(struct group *g, const struct tile_stmt *s);
// Generates the code of a fill.
void thread_fill(struct group *g, const struct tile_stmt *s);
// Returns the number of the register that holds an element of a tile at these points.
expr thread_slot(struct points *p, const struct tile_buffer *b, const int *to);

// thread_vector.c

// Generates a copy by the widest accesses, and calls `otherwise` for the case in which a test at run time
// rules that out. Returns false, without generating anything, if it is never possible.
bool thread_vector_copy(struct group *g, const struct tile_stmt *s,
                        void (*otherwise)(struct group *g, const struct tile_stmt *s));

// Appends the allocation of registers for a run of adjacent elements, aligned to `bytes` bytes.
const struct tile_buffer *thread_run_registers(struct tile_type type, int64_t count, int bytes);
// Returns the region of `run` adjacent elements of a buffer from `index` on. It points to `index` and
// `extent`, which has room for TILE_DIMS.
struct tile_region thread_run_at(const struct tile_buffer *b, expr *index, expr *extent, int64_t run);
// Generates one access that moves a run.
void thread_access(const struct tile_region *from, const struct tile_region *to, bool is_once);

// thread_runs.c

// Generates vector code of a map whose points access adjacent elements, and calls `otherwise` for the case in
// which a test at run time rules that out. Returns false, without generating anything, if it is never
// possible.
bool thread_run_map(struct group *g, const struct tile_stmt *s,
                    void (*otherwise)(struct group *g, const struct tile_stmt *s));
// Generates vector code of a short loop whose iterations access adjacent elements. Returns false, without
// generating anything, if that is not possible.
bool thread_run_loop(struct points *p, const struct tile_stmt *s);
// Returns how many adjacent elements each thread computes in a map without a layout. Sets *is_sure to false
// if a test at run time decides whether it does, else to true.
int64_t thread_map_run(struct group *g, const struct tile_stmt *s, bool *is_sure);
// Returns the register that replaces a load, or the load itself.
expr thread_run_load(const struct points *p, expr load);
// Stores to the register that replaces an element, and returns true; returns false if there is none.
bool thread_run_store(struct points *p, const struct tile_stmt *s);

// thread_registers.c

// Appends the allocation of `count` registers per thread, or of `count` elements of other memory, as a tile
// with one row.
struct tile_buffer *thread_registers(const char *prefix, struct tile_type type, enum tile_memory memory,
                                     int64_t count);
// Returns the value of element `at` of such a tile.
expr thread_load(const struct tile_buffer *b, expr at);
// Stores a value in element `at` of such a tile.
void thread_store(const struct tile_buffer *b, expr at, expr value);
// Opens an unrolled loop of `count` iterations, which the caller closes with tile_close, and returns its
// variable.
expr thread_unrolled(int64_t count);

// thread_reduce.c
enum { PIECE = 16 }; // without shuffles, one thread combines the results of this many
// Returns the threads of a subgroup, or PIECE.
int  thread_width(const struct group *g);
// Returns another thread's value, by a shuffle among `threads` threads; parts of complex numbers are shuffled
// separately.
expr thread_shuffled(const struct group *g, enum tile_shuffle how, expr value, expr step, int threads);

// The rows of a reduction or scan in memory.
struct thread_lines {
    struct box box; // of the source
    struct tile_region from, to;
    expr origin[2][TILE_DIMS]; // of from and to
    int64_t count; // rows; -1: unknown
    int each;      // threads per row
};
// Sets *l to the rows of a reduction or scan, and to how many threads process one.
void thread_find_lines(struct group *g, const struct tile_stmt *s, struct thread_lines *l);

// Turns of the workgroup over its rows. Each turn sets the point of the box, except along the axis that is
// reduced.
struct thread_turns {
    expr lane;    // the thread's number within its row
    expr is_line; // whether the thread has a row; NULL: every thread has one
    bool is_loop;
};
// Opens a loop of turns, if one turn does not cover all rows, and sets the point of the box in l->box.
struct thread_turns thread_open_turns(struct group *g, const struct tile_stmt *s, struct thread_lines *l);
// Closes that loop.
void thread_close_turns(struct group *g, const struct thread_turns *t);
// Generates the code of a reduction.
void thread_reduce(struct group *g, const struct tile_stmt *s);

// thread_scan.c

// Return, of a scan in a grid of its own: the threads per workgroup; the number of workgroups for `lines`
// rows.
int  thread_scan_threads(const struct target *target);
expr thread_scan_blocks(const struct target *target, const struct tile_stmt *s, expr lines);
// Generates the code of a scan.
void thread_scan(struct group *g, const struct tile_stmt *s);

// thread_gemm.c

// Generates the code of a gemm.
void thread_gemm(struct group *g, const struct tile_stmt *s);

#endif
