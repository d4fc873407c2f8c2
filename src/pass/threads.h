// threads.h - blocks of a grid as groups of threads, while they are made. Between the files of pass/ only.

#ifndef THREADS_H
#define THREADS_H

#include "pass/boxes.h"
#include "pass/layout.h"

enum { SUBGROUP = 32, USES = 32 };

// What becomes of a buffer.
struct holding {
    enum { HELD_AS_IS, HELD_SHARED, HELD_IN_REGISTERS, HELD_BY_ALL } how; // by all: each thread has the whole of it
    bool is_sum, is_operand;                                              // of a product
    bool has_view;
    bool lends;                                                           // its memory, to buffers of which it is the lender
    const struct tile_buffer *lender;                                     // whose shared memory it has; NULL: its own
    bool is_known;                                                        // the layout is
    struct layout layout;
    const struct tile_buffer *now; // what stands for it
};

// A maximum that each subgroup of a cluster took for itself, until a sum of exponentials less it is exchanged with it.
struct thread_loose {
    const struct tile_stmt *s;     // NULL: there is none
    const struct tile_buffer *own; // registers with the maxima of the subgroup
    struct layout layout;          // of the results
};

struct group {
    const struct target *target;
    const struct tile_stmt *body; // of the block
    int threads;     // of all groups of its cluster
    int cluster;     // groups that have a block together: 1 where there are no clusters
    bool have_begun; // all groups of the cluster, as is known
    struct thread_loose loose;
    bool by_rows;  // products: subgroups share no rows, so that rows are reduced inside of one
    bool by_lines; // tiles are reduced along their last axis
    struct holding *of; // by id of buffer, of those that the kernel had
    int buffers;
    int *seen, stamp; // by id of expression
    int ids;
    bool failed;
    int loops;            // around the statement that code is made for, of which each turn uses the same memory
    bool is_flat;         // the points of one statement are divided among all groups
    expr flat;            // then the group's number; else NULL
    int64_t each;         // points of a thread then
    expr thread;          // its number, u32; while code is made
    struct map rewritten; // expressions of the statement that code is made for
    const struct tile_buffer *slots[ZL_DTYPE_COUNT]; // in `thread`: one a thread, for shuffles that the target does not have
};

// An access to a buffer by a statement: index NULL is all of it, or a rectangle.
struct access {
    const struct tile_buffer *buffer;
    const expr *index;
    const struct tile_region *region;
    expr load; // NULL: it is none
    bool is_write, is_atomic;
};
typedef void access_visit(struct group *g, const struct access *a, void *data);

// thread_accesses.c: visits what a statement touches, with its body if it is a map; else the statement alone.
void thread_accesses(struct group *g, const struct tile_stmt *s, access_visit *visit, void *data);
void thread_all_accesses(struct group *g, const struct tile_stmt *body, access_visit *visit, void *data); // of a list
void thread_expr_accesses(struct group *g, int count, const expr *root, access_visit *visit, void *data);
bool thread_is_spread(const struct tile_stmt *s); // a loop whose points are divided among threads, or `thread`
bool thread_is_private(const struct group *g, const struct tile_buffer *b); // each thread has its own
bool thread_is_held(const struct group *g, const struct tile_buffer *b); // in registers, by a layout
const struct tile_buffer *thread_now(const struct group *g, const struct tile_buffer *b); // what stands for it
expr thread_without_casts(expr e);

// The points that a statement is done for, and which thread does which.
struct sweep {
    int vars;
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
    bool is_by_runs;              // the last var counts runs of neighbours
    bool has_layout;
    struct layout layout;         // axes are the vars
    int64_t covered[TILE_DIMS];   // of a layout: points along each
    int pair[2][TILE_DIMS];       // of a copy: the var of each axis of its regions, -1 of one that stays at its origin
};

// How a tile in registers is used by a sweep: its axis for each var.
struct use {
    const struct tile_buffer *buffer;
    int to[TILE_DIMS];
    int64_t size[TILE_DIMS]; // of the var, as the buffer has it; 0: it has not
    bool is_good;
};

struct product { // a gemm
    bool is_matrix;
    int64_t rows, columns, depth;
    int down, across; // subgroups
};

// fragments.c: decides what is held where. False and an error when memory is out.
bool fragments_place(struct group *g);

// fragment_uses.c
bool fragments_is_held(const struct group *g, const struct tile_buffer *b); // a fragment, in registers as far as is known
// The use whose layout all others follow, and the points by it (has_layout: it covers them all); NULL: none is known.
const struct use *fragments_lead(struct group *g, const struct tile_stmt *s, int count, const struct use *use,
                                 struct sweep *w);
struct sweep fragments_sweep(struct group *g, const struct tile_stmt *s); // of a map, copy, fill or reduce
int fragments_uses(struct group *g, const struct tile_stmt *s, struct use *use);
struct product fragments_product(const struct group *g, const struct tile_stmt *s);
bool fragments_is_whole(const struct tile_region *r, const struct tile_region *other);

// overlay.c: lets buffers whose uses do not overlap in time share memory, if a workgroup has too little shared memory. Sets g->failed if
// memory runs out.
void rooms_share(struct group *g);

// barriers.c: puts barriers between the statements of a block, where one reads what other threads wrote.
void barriers_place(struct group *g, struct tile_stmt **body);

// threads.c: what the files that make code share.
void thread_block(void *group, const struct tile_stmt *body); // of struct group
expr thread_number(int64_t value); // u32
// A region as the thread has it: what stands for its buffer now; origin has room for TILE_DIMS.
struct tile_region thread_region(struct group *g, const struct tile_region *r, expr *origin);
void thread_barrier(void);
void thread_meet(int half); // all groups of a cluster: TILE_ARRIVE, TILE_AWAIT, 0: both

// The element of a region of a copy (or of a fill, which is the second) at a point.
void thread_place(const struct sweep *w, int which, const struct tile_region *r, const expr *point, expr *index);
// Which axis of the region's tile each var is; LAYOUT_COPIES: none, or one of size 1.
void thread_axes(const struct sweep *w, int which, const struct tile_buffer *b, int *to);

// thread_sweep.c: loops over a sweep, and the code of one of its points.
struct runs;
struct points {
    struct group *g;
    struct sweep sweep;
    expr digit[LAYOUT_DIGITS]; // slot digits of the layout
    expr point[TILE_DIMS];     // of index type
    int opened;                // statements to close
    expr first;                // of copies; NULL: there are none
    const struct runs *runs;   // around the code that is made, the innermost first; NULL: there are none
};
bool thread_open_points(struct group *g, struct points *p, const struct sweep *s); // opens loops and guards
void thread_close_points(struct points *p);
expr thread_rewrite(struct points *p, expr e); // names and tiles as this thread has them
void thread_body(void *points, const struct tile_stmt *body); // of struct points
// Returns what holds an element of a buffer now, and sets where it is there: at has room for TILE_DIMS.
const struct tile_buffer *thread_element(struct points *p, const struct tile_buffer *b, const expr *index, expr *at, int *indices);
void thread_map(struct group *g, const struct tile_stmt *s);
void thread_code(struct group *g, const struct tile_stmt *s); // a `thread` as it stands
void thread_alone(struct group *g, const struct tile_stmt *s); // a statement of all threads; opens it if it has a body
void thread_copy(struct group *g, const struct tile_stmt *s);
void thread_fill(struct group *g, const struct tile_stmt *s);
// The register of a tile that is held in them, at these points.
expr thread_slot(struct points *p, const struct tile_buffer *b, const int *to);

// thread_vector.c: a copy by as many bytes as one access has, and `otherwise` where a test says that it cannot be; false: it
// never can, and nothing was made.
bool thread_vector_copy(struct group *g, const struct tile_stmt *s,
                        void (*otherwise)(struct group *g, const struct tile_stmt *s));

// Registers for a run of neighbours, aligned to so many bytes; a run in a buffer: index and extent stay the caller's, the latter has room
// for TILE_DIMS; one access that moves a run.
const struct tile_buffer *thread_run_registers(struct tile_type type, int64_t count, int bytes);
struct tile_region thread_run_at(const struct tile_buffer *b, expr *index, expr *extent, int64_t run);
void thread_access(const struct tile_region *from, const struct tile_region *to, bool is_once);

// thread_runs.c: maps and short loops whose points or turns touch neighbours, by vectors. False: they cannot be, and nothing was made.
bool thread_run_map(struct group *g, const struct tile_stmt *s,
                    void (*otherwise)(struct group *g, const struct tile_stmt *s));
bool thread_run_loop(struct points *p, const struct tile_stmt *s);
// Returns how many neighbours are a thread's in a map without a layout; sets *is_sure unless a test decides it when the kernel runs.
int64_t thread_map_run(struct group *g, const struct tile_stmt *s, bool *is_sure);
expr thread_run_load(const struct points *p, expr load); // the register that stands for it, or the load itself
bool thread_run_store(struct points *p, const struct tile_stmt *s); // stores to a register; false: none stands for its element

// thread_registers.c: registers of each thread, or as many numbers in other memory; the at-th of them; a loop over them.
struct tile_buffer *thread_registers(const char *prefix, struct tile_type type, enum tile_memory memory, int64_t count);
expr thread_load(const struct tile_buffer *b, expr at);
void thread_store(const struct tile_buffer *b, expr at, expr value);
expr thread_unrolled(int64_t count); // opens it

// thread_reduce.c
enum { PIECE = 16 }; // threads whose results one of them combines, where a target has no shuffles
int  thread_width(const struct group *g); // those of a subgroup, or PIECE
// What `threads` threads have, by a shuffle; complex numbers by their parts.
expr thread_shuffled(const struct group *g, enum tile_shuffle how, expr value, expr step, int threads);

// The lines of a reduction or scan in memory.
struct thread_lines {
    struct box box; // of the source
    struct tile_region from, to;
    expr origin[2][TILE_DIMS]; // of these
    int64_t count; // of lines; -1: not known
    int each;      // threads of a line
};
void thread_find_lines(struct group *g, const struct tile_stmt *s, struct thread_lines *l);

// Turns of the whole group over its lines, each of which names the point of the box, but for the axis of the line.
struct thread_turns {
    expr lane, is_line; // the thread's number in its line; NULL: there is a line for every thread
    bool is_loop;
};
struct thread_turns thread_open_turns(struct group *g, const struct tile_stmt *s, struct thread_lines *l);
void thread_close_turns(struct group *g, const struct thread_turns *t);
void thread_reduce(struct group *g, const struct tile_stmt *s);

// thread_scan.c
// Of a scan in a grid of its own: threads of a group, and how many groups there are for so many lines.
int  thread_scan_threads(const struct target *target);
expr thread_scan_blocks(const struct target *target, const struct tile_stmt *s, expr lines);
void thread_scan(struct group *g, const struct tile_stmt *s);

// thread_gemm.c
void thread_gemm(struct group *g, const struct tile_stmt *s);

#endif
