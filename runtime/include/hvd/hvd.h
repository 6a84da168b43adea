/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole public surface of libhorovod. C11, no C++ type crosses it, and it only ever grows:
 * functions are added, enumerators are appended, structs carry their size.
 *
 * Every function that returns hvd_status leaves a sentence for people in hvd_last_error() when the
 * status is not HVD_OK. Functions are thread-safe unless they say otherwise. In a forked child only
 * hvd_topology_of works; every operation there returns HVD_UNAVAILABLE.
 */
#ifndef HVD_HVD_H
#define HVD_HVD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HVD_API __attribute__((visibility("default")))
#else
#define HVD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* 0 is success; the others say what a caller can do about the failure. */
typedef enum hvd_status {
    HVD_OK = 0,
    HVD_INVALID_ARGUMENT = 1, /* the caller must change the input */
    HVD_UNAVAILABLE = 2,      /* a peer is gone, or there is no world */
    HVD_TIMED_OUT = 3,
    HVD_ABORTED = 4,  /* another rank failed, or the world was shut down */
    HVD_MISMATCH = 5, /* ranks disagree about a tensor; the message says which and how */
    HVD_UNSUPPORTED = 6,
    HVD_INTERNAL = 7,
    HVD_IN_PROGRESS = 8 /* not a failure: the time limit of a wait passed first */
} hvd_status;

typedef enum hvd_op {
    HVD_ALLREDUCE = 0,
    HVD_ALLGATHER = 1, /* along the first dimension, which may differ between ranks */
    HVD_BROADCAST = 2,
    HVD_BARRIER = 3,  /* no tensors: in and out are NULL */
    HVD_ALLTOALL = 4, /* rows of the first dimension go to every rank of the set, see splits */
    /* The ranks' tensors are reduced, and each rank of the set gets a share of the rows of the
     * first dimension: with r rows and n ranks, the first r % n ranks get r / n + 1, the others r /
     * n. */
    HVD_REDUCESCATTER = 5,
    /* No tensors, or an `in` without data and dimensions whose device is the GPU on which this rank
     * takes part in what others do on GPUs; without it the first one on which it has had a tensor.
     * Where there is none, operations of others on GPUs fail with HVD_MISMATCH. This rank has no
     * more input: until all ranks of the world have joined, it takes part in the
     * allreduces of others with the reduction's neutral element. Ends when all ranks have joined;
     * hvd_result gives a 0-d int32 tensor, the rank that joined last. */
    HVD_JOIN = 6
} hvd_op;

/* HVD_AVERAGE of integers divides the sum once, towards zero. Of bool, HVD_SUM and HVD_MAX are
 * "or", HVD_PRODUCT and HVD_MIN are "and"; HVD_AVERAGE is refused. HVD_ADASUM is for allreduce of
 * floating-point tensors, each of which is combined by itself, also in a group. */
typedef enum hvd_reduce_op {
    HVD_AVERAGE = 0,
    HVD_SUM = 1,
    HVD_MIN = 2,
    HVD_MAX = 3,
    HVD_PRODUCT = 4,
    HVD_ADASUM = 5
} hvd_reduce_op;

/* What HVD_AVERAGE divides by while ranks have joined (HVD_JOIN). HOROVOD_AVERAGE_OVER=contributing
 * makes the second of the first. */
typedef enum hvd_average_over {
    HVD_OVER_ALL = 0,         /* the number of ranks of the set */
    HVD_OVER_CONTRIBUTING = 1 /* the number of those that have not joined */
} hvd_average_over;

/* float16 and bfloat16 are summed in float32 and rounded once. */
typedef enum hvd_dtype {
    HVD_BOOL = 0,
    HVD_UINT8 = 1,
    HVD_INT8 = 2,
    HVD_UINT16 = 3,
    HVD_INT16 = 4,
    HVD_UINT32 = 5,
    HVD_INT32 = 6,
    HVD_UINT64 = 7,
    HVD_INT64 = 8,
    HVD_FLOAT16 = 9,
    HVD_BFLOAT16 = 10,
    HVD_FLOAT32 = 11,
    HVD_FLOAT64 = 12
} hvd_dtype;

typedef enum hvd_device_type { HVD_HOST = 0, HVD_CUDA = 1 } hvd_device_type;

/* What this build, and this machine, can do. */
typedef enum hvd_feature {
    HVD_FEATURE_MPI = 0,  /* this installation has a plugin for an MPI */
    HVD_FEATURE_GLOO = 1, /* the native transport, which answers to that name; always 1 */
    HVD_FEATURE_NCCL = 2, /* version code, such as 22707, of the libnccl.so.2 that is loaded or that
                             the dynamic loader finds, which is loaded for this question */
    HVD_FEATURE_CUDA = 3, /* 1: requests with tensors on a GPU are taken by this build */
    HVD_FEATURE_CCL = 4,
    HVD_FEATURE_DDL = 5,
    HVD_FEATURE_ROCM = 6,
    HVD_FEATURE_MPI_USED = 7,   /* the tensors of the present world travel by MPI */
    HVD_FEATURE_MPI_THREADS = 8 /* its MPI was started with MPI_THREAD_MULTIPLE */
} hvd_feature;

typedef enum hvd_report_kind {
    HVD_REPORT_EXCEPTION = 0, /* an uncaught exception; the text is its traceback */
    HVD_REPORT_PEER_LOST = 1, /* this rank fails only because of another one */
    HVD_REPORT_VERSIONS = 2   /* no failure: what this rank runs on, in lines "NAME VERSION" */
} hvd_report_kind;

/* The one world of this process. It lives as long as the process; hvd_shutdown empties it. */
typedef struct hvd_context hvd_context;
typedef uint64_t hvd_ticket; /* one submitted operation; 0 is never a ticket */
typedef struct hvd_plan hvd_plan;

/* `struct_size` is sizeof the struct the caller was compiled with, in every struct below. A struct
 * of an older header is read as if the missing fields were 0, and only the fields that it has are
 * written. A struct of a newer header is taken when it is at most 4096 bytes and everything that
 * this library does not know is 0, also where it is to be filled; otherwise it is refused
 * (HVD_UNSUPPORTED for a field that is set). `reserved` fields are 0. */

/* Some ranks of the world, which run operations among themselves. */
typedef struct hvd_process_set {
    size_t struct_size;
    const int32_t* ranks; /* `count` different ranks of the world, in any order */
    size_t count;
} hvd_process_set;

typedef struct hvd_init_options {
    size_t struct_size;
    int64_t timeout_ms;   /* for finding the other ranks; 0: HOROVOD_START_TIMEOUT, else 30 s */
    const void* mpi_comm; /* address of an MPI_Comm, all whose ranks call: the world is theirs;
                             NULL: that of the launcher */
    /* Sets that exist when hvd_init returns, with the ids 1, 2, ... in this order; the same on
     * every rank. As in an array of requests, the struct_size of the first is that of all. */
    const hvd_process_set* process_sets;
    size_t process_set_count;
    int32_t dynamic_process_sets; /* 1: hvd_process_set_add and _remove work; 0: they work where
                                     HOROVOD_DYNAMIC_PROCESS_SETS says so */
    int32_t reserved;
} hvd_init_options;

typedef struct hvd_topology {
    size_t struct_size;
    int32_t rank;
    int32_t size;
    int32_t local_rank;
    int32_t local_size;
    int32_t cross_rank;
    int32_t cross_size;
    int32_t is_homogeneous; /* 1: every host has local_size ranks */
} hvd_topology;

typedef struct hvd_tensor {
    size_t struct_size;
    void* data;
    const int64_t* shape;   /* ndim entries, in elements */
    const int64_t* strides; /* ndim entries, in elements; NULL means row-major */
    int32_t ndim;
    int32_t dtype;       /* hvd_dtype */
    int32_t device_type; /* hvd_device_type */
    int32_t device_index;
    void* stream; /* stream on which `data` becomes ready; NULL on the host */
    void* event;  /* of a device: after which `data` is ready, instead of `stream`; of a result: the
                     event that completes when it is. NULL on the host */
} hvd_tensor;

/* allreduce, broadcast: `out` has the shape and dtype of `in` and may be the same memory; NULL lets
 * the library allocate it, 64-byte aligned (hvd_result). allgather, alltoall: `out` is NULL; the
 * result's first dimension is the sum of what the ranks send here. reducescatter: as allreduce, but
 * `out` has this rank's share of the rows. Shapes, strides and splits are copied; the memory behind
 * `data` is not. A tensor has at most 255 dimensions. A tensor on a GPU is one on all ranks, whose
 * GPUs may have different numbers, but each rank has its own; a rank may have tensors on several
 * GPUs, also in one call, each tensor with both `in` and `out` on one. Its ticket ends when the
 * operation is in the GPU's order, and hvd_wait and hvd_poll look at the GPU as well. With
 * HOROVOD_GPU_OPERATIONS=host it travels through pinned memory of the host instead, ranks may share
 * a GPU, and on other ranks the tensor may be on the host. HVD_ADASUM travels so under
 * HOROVOD_ADASUM_HIERARCHICAL=1; in a set on several hosts, under HOROVOD_HIERARCHICAL_ALLREDUCE=1,
 * everything but the other allreduces, whose tickets end when they have crossed. `stream` and
 * `event` are read by the call that submits, or starts a plan. The struct_size of an array's first
 * request is that of all. A call takes at most 4194304. */
typedef struct hvd_request {
    size_t struct_size;
    const char* name; /* the same on every rank; not while an operation of that name is pending */
    const hvd_tensor* in;
    const hvd_tensor* out;
    double prescale;   /* every input is multiplied by it; 1 leaves it alone */
    double postscale;  /* the result is multiplied by it; 1 leaves it alone */
    uint64_t group;    /* not 0: requests of one call with this number complete as a unit */
    int32_t op;        /* hvd_op */
    int32_t reduce_op; /* hvd_reduce_op, for allreduce and reducescatter */
    int32_t root;      /* broadcast: the rank whose tensor everybody gets; a rank of the world, also
                          in a process set */
    int32_t process_set; /* id of a set that this rank is a member of; 0: the world */
    /* alltoall: how many rows of the first dimension each rank of the set gets, in ascending order
     * of ranks. Their sum may be less than the first dimension. NULL: equal shares of all rows. */
    const int64_t* splits;
    size_t split_count;   /* 0 without splits, else the number of ranks of the set */
    int32_t average_over; /* hvd_average_over */
    /* The type that travels. 0: the tensor's own. HVD_FLOAT16 and HVD_BFLOAT16, for HVD_SUM and
     * HVD_AVERAGE of float32 and float64 in allreduce and reducescatter: inputs are multiplied by
     * `prescale` in their own type and then rounded; the sum, which is of that type, is divided and
     * multiplied by `postscale` in the tensor's type. The result is rounded in a world of one, too,
     * and is infinite where a float16 is too small for the sum. The same on every rank. */
    int32_t wire_dtype;
} hvd_request;

/* What this rank has done since hvd_init. Only ever rises. */
typedef struct hvd_counters {
    size_t struct_size;
    uint64_t submitted;        /* operations */
    uint64_t completed;        /* operations, failed ones included */
    uint64_t agreed_by_name;   /* operations for which names crossed between ranks */
    uint64_t agreed_by_bit;    /* operations that were agreed from the cache alone */
    uint64_t names_bytes;      /* bytes of names and shapes that this rank sent or received */
    uint64_t collectives;      /* messages that the backends ran, after fusion */
    uint64_t collective_bytes; /* bytes that this rank put into them */
    uint64_t engine_wakeups;   /* how often the engine's thread woke up */
    uint64_t caller_progress;  /* how often a waiting caller drove the engine itself */
} hvd_counters;

/* What this rank has done of one operation in one process set since hvd_init, or since the set was
 * made. Times are nanoseconds. They are measured of every message that is fused or has 64 KiB, and
 * of one in 32 of the others; waits, of requests that the engine took up before a caller blocked
 * for them, and of those for which a caller of hvd_run slept: from then on, and only where stalls
 * are looked for. */
typedef struct hvd_metrics {
    size_t struct_size;
    int32_t process_set;
    int32_t op;           /* hvd_op */
    uint64_t operations;  /* that have been started */
    uint64_t bytes;       /* that this rank put into them */
    uint64_t collectives; /* messages that they were, after fusion */
    uint64_t largest;     /* bytes of the largest message */
    uint64_t waits;       /* requests, a group being one, whose wait was measured */
    uint64_t wait_ns;     /* of these: from when this rank had them to when all had */
    uint64_t timed;       /* messages of which the next two were measured */
    uint64_t copy_ns;     /* into the memory of fused messages, and out of it */
    uint64_t wire_ns;     /* in the backend, from start to end */
} hvd_metrics;

/* How often one rank was the last of a process set to be ready for an operation, and how long this
 * rank had waited then, among the waits of hvd_metrics. While a caller of hvd_run slept, ranks that
 * come within 0.1 ms of each other may be taken for one another. */
typedef struct hvd_arrivals {
    size_t struct_size;
    int32_t process_set;
    int32_t op;       /* hvd_op */
    int32_t rank;     /* of the world, that was last */
    int32_t reserved; /* 0 */
    uint64_t times;   /* requests, a group being one */
    uint64_t wait_ns; /* from when this rank had them to when all had */
} hvd_arrivals;

/* "0.29.0". Never NULL. */
HVD_API const char* hvd_version(void);

/* The value of any enumerator of this header by name, such as "HVD_FLOAT32", or -1. Front ends in
 * other languages ask here instead of keeping a copy. */
HVD_API int32_t hvd_enum_value(const char* name);

/* See hvd_feature; 0 means no. Works before hvd_init. */
HVD_API int32_t hvd_feature_value(int32_t feature);

/* Joins the world that the launcher made: finds the other ranks, starts the engine. Without a
 * launcher it is a world of one. A second call returns the same context. `options` may be NULL.
 * After hvd_shutdown it may be called again, by all ranks. Blocks up to options->timeout_ms.
 * Errors: HVD_INVALID_ARGUMENT (an impossible environment), HVD_TIMED_OUT (names what is missing).
 */
HVD_API hvd_status hvd_init(const hvd_init_options* options, hvd_context** context);

/* The context of the last successful hvd_init that was not shut down, or NULL. */
HVD_API hvd_context* hvd_current(void);

/* Leaves the world: what is pending on this rank fails with HVD_ABORTED, and so does what others
 * submit afterwards in process sets with this rank, the world included. Other sets go on. Blocks
 * until no peer can touch this rank's memory, at most five seconds. Rank 0, which coordinates all
 * sets, also blocks while there is one of which no member has left; once its time is over, such
 * sets end too. */
HVD_API hvd_status hvd_shutdown(hvd_context* context);

/* Fills `topology`. Works in a forked child too. */
HVD_API hvd_status hvd_topology_of(hvd_context* context, hvd_topology* topology);

/* Queues `count` operations in one call and fills `tickets`; returns before they run. All or none
 * are queued. Buffers stay valid until hvd_wait or hvd_poll reports the end. */
HVD_API hvd_status hvd_submit(hvd_context* context,
                              const hvd_request* requests,
                              size_t count,
                              hvd_ticket* tickets);

/* hvd_submit and hvd_wait for all of them in one call, which is the fastest way when nothing is to
 * be done meanwhile. The status is that of the first that failed, or HVD_IN_PROGRESS when the limit
 * passed first; the tickets are valid then, and in every case where `tickets[0]` is not 0. */
HVD_API hvd_status hvd_run(hvd_context* context,
                           const hvd_request* requests,
                           size_t count,
                           hvd_ticket* tickets,
                           int64_t timeout_ms);

/* HVD_OK while the world works. Otherwise how it ended, for this rank: by the death of a peer, whom
 * hvd_last_error names, by one that has left, by a failure here; HVD_UNAVAILABLE outside of a
 * world. Nothing that is submitted then can succeed, and what a stream was made to wait for
 * (hvd_wait_stream) may be undefined: look here before such results are used for good. Takes no
 * lock and does not drive the engine, so that every step can call it. */
HVD_API hvd_status hvd_health(hvd_context* context);

/* HVD_OK: finished. HVD_IN_PROGRESS: not yet. Anything else: how it failed. Never blocks. */
HVD_API hvd_status hvd_poll(hvd_context* context, hvd_ticket ticket);

/* Blocks for at most `timeout_ms` (negative: no limit); meanwhile the caller may run the engine.
 * Returns HVD_IN_PROGRESS when the limit passes first. Never consumes the ticket: after any other
 * status hvd_result is valid until hvd_release. */
HVD_API hvd_status hvd_wait(hvd_context* context, hvd_ticket ticket, int64_t timeout_ms);

/* As hvd_wait for `count` tickets: returns when the first of them has ended and stores its position
 * in `index`. The status is that of this ticket. */
HVD_API hvd_status hvd_wait_any(hvd_context* context,
                                const hvd_ticket* tickets,
                                size_t count,
                                int64_t timeout_ms,
                                size_t* index);

/* The stream forms of waiting: work that is put into `stream` (a CUstream or cudaStream_t; NULL is
 * the default stream) after such a call returns HVD_OK finds the result. For a device's tensor the
 * stream waits, not the host: the call returns as soon as the operation is in the device's order.
 * For a tensor of the host they are hvd_wait and hvd_run, and use no stream. Limits, tickets and
 * the status are as there; as hvd_run, hvd_run_stream leaves valid tickets unless `tickets[0]` is
 * 0. An operation that has been put in the device's order does not fail any more: see hvd_health.
 */
HVD_API hvd_status hvd_wait_stream(hvd_context* context,
                                   hvd_ticket ticket,
                                   void* stream,
                                   int64_t timeout_ms);

/* For all of `count` tickets. The status is that of the first that failed. */
HVD_API hvd_status hvd_wait_all_stream(hvd_context* context,
                                       const hvd_ticket* tickets,
                                       size_t count,
                                       void* stream,
                                       int64_t timeout_ms);
HVD_API hvd_status hvd_run_stream(hvd_context* context,
                                  const hvd_request* requests,
                                  size_t count,
                                  hvd_ticket* tickets,
                                  void* stream,
                                  int64_t timeout_ms);

/* `stream` is about to be destroyed by its owner: drops what is kept for it. The other functions
 * need no such call for a stream that lives as long as the process. Errors: HVD_INVALID_ARGUMENT (a
 * negative index). */
HVD_API hvd_status hvd_release_stream(hvd_context* context, int32_t device_index, void* stream);

/* Calls `done(argument, status, message)` once when the ticket ends, on the engine's thread or, if
 * it has ended already, on this one. `message` is valid during the call. One callback a ticket.
 * The callback must not block. It may submit, start plans and release tickets, this one too. What
 * waits is refused there with HVD_INVALID_ARGUMENT, and submits nothing: hvd_wait for what is
 * pending, hvd_wait_any, hvd_run, hvd_plan_wait, hvd_plan_run, their stream forms,
 * hvd_process_set_add and _remove, hvd_shutdown, and hvd_init unless there is a world, whose
 * context it gives. Others see the ticket's end when the callback has returned.
 * A C++ exception that leaves the callback fails the operation on this rank, with HVD_INTERNAL and
 * its text; its result stays readable. Where the ticket had ended before hvd_on_complete, its
 * status stands, and hvd_on_complete returns that error. */
typedef void (*hvd_callback)(void* argument, hvd_status status, const char* message);
HVD_API hvd_status hvd_on_complete(hvd_context* context,
                                   hvd_ticket ticket,
                                   hvd_callback done,
                                   void* argument);

/* The output tensor of an operation that ended with HVD_OK. `tensor->shape` and, where the runtime
 * allocated it, `tensor->data` are valid until hvd_release. */
HVD_API hvd_status hvd_result(hvd_context* context, hvd_ticket ticket, hvd_tensor* tensor);

/* Of an alltoall that ended with HVD_OK: `count` numbers of rows, one for each rank of its set in
 * ascending order, that this rank received. `splits` is valid until hvd_release.
 * Errors: HVD_INVALID_ARGUMENT (another operation, or not ended with HVD_OK). */
HVD_API hvd_status hvd_received_splits(hvd_context* context,
                                       hvd_ticket ticket,
                                       const int64_t** splits,
                                       size_t* count);

/* Every ticket needs it exactly once. Before the end it means: release when done. */
HVD_API hvd_status hvd_release(hvd_context* context, hvd_ticket ticket);

/* As hvd_release for each of `count` tickets. Where one fails, the others are released all the
 * same, and the first failure is returned. */
HVD_API hvd_status hvd_release_all(hvd_context* context, const hvd_ticket* tickets, size_t count);

/* A plan repeats the same requests over the same memory, with names and shapes read once. One start
 * at a time: hvd_plan_wait before the next hvd_plan_start. Thread: one at a time for each plan. */
HVD_API hvd_status hvd_plan_create(hvd_context* context,
                                   const hvd_request* requests,
                                   size_t count,
                                   hvd_plan** plan);
HVD_API hvd_status hvd_plan_start(hvd_context* context, hvd_plan* plan);

/* Waits for all operations of the last start. The status is that of the first that failed. */
HVD_API hvd_status hvd_plan_wait(hvd_context* context, hvd_plan* plan, int64_t timeout_ms);

/* As hvd_wait_all_stream for the operations of the last start. */
HVD_API hvd_status hvd_plan_wait_stream(hvd_context* context,
                                        hvd_plan* plan,
                                        void* stream,
                                        int64_t timeout_ms);

/* hvd_plan_start and hvd_plan_wait in one call, without a detour through the engine's thread. */
HVD_API hvd_status hvd_plan_run(hvd_context* context, hvd_plan* plan, int64_t timeout_ms);

/* The output tensor of operation `index` of the plan, after a wait that gave HVD_OK; as hvd_result,
 * valid until the next start. */
HVD_API hvd_status hvd_plan_result(hvd_context* context,
                                   hvd_plan* plan,
                                   size_t index,
                                   hvd_tensor* tensor);

/* Not while it runs. NULL is allowed. */
HVD_API hvd_status hvd_plan_free(hvd_context* context, hvd_plan* plan);

/* Memory of the host that collectives can use without a copy where the backend allows it; 64-byte
 * aligned. hvd_alloc stores NULL and returns HVD_OK for 0 bytes, and stores NULL where it fails. */
HVD_API hvd_status hvd_alloc(hvd_context* context, size_t bytes, void** memory);
HVD_API hvd_status hvd_free(hvd_context* context, void* memory);

/* Makes a process set. Every rank of the world calls it with the same members, in the same order of
 * calls, also the ranks that are none; blocks until all have, for at most `timeout_ms` (negative:
 * no limit). Stores the id, which is the same on every rank. Errors: HVD_INVALID_ARGUMENT (no
 * ranks, a rank that is not in the world or is named twice, or a set of these ranks exists: its id
 * is stored then), HVD_UNSUPPORTED (sets are not dynamic, see hvd_init_options), HVD_MISMATCH (the
 * ranks disagree about the members), HVD_IN_PROGRESS (the limit passed first; the addition stays
 * pending, and the same call waits for it again). */
HVD_API hvd_status hvd_process_set_add(hvd_context* context,
                                       const hvd_process_set* members,
                                       int64_t timeout_ms,
                                       int32_t* id);

/* Ends a process set: what all its ranks have agreed on still finishes, everything else in it
 * fails. Every rank of the world calls it; otherwise as hvd_process_set_add. Set 0 is refused. */
HVD_API hvd_status hvd_process_set_remove(hvd_context* context, int32_t id, int64_t timeout_ms);

/* The ids of all process sets, ascending; the first is 0, the world. Stores how many there are in
 * `count` and at most `capacity` of them in `ids`, which may be NULL if `capacity` is 0. */
HVD_API hvd_status hvd_process_set_ids(hvd_context* context,
                                       int32_t* ids,
                                       size_t capacity,
                                       size_t* count);

/* The ranks of a set, as ranks of the world, ascending; also on ranks that are no members. `ranks`,
 * `capacity` and `count` as in hvd_process_set_ids. Errors: HVD_INVALID_ARGUMENT (no such set). */
HVD_API hvd_status hvd_process_set_ranks(hvd_context* context,
                                         int32_t id,
                                         int32_t* ranks,
                                         size_t capacity,
                                         size_t* count);

/* Writes what rank 0 does and sees to the file `path`, which is replaced, as JSON of Chrome's trace
 * viewer and Perfetto, until hvd_timeline_stop. `mark_cycles` is 1 to mark the engine's cycles too.
 * Only rank 0 writes. A timeline to another file ends the one that is being written; the same file
 * again changes nothing, nor does a stop without a timeline. Errors: HVD_INVALID_ARGUMENT (no path,
 * or from a callback), HVD_UNAVAILABLE (the file cannot be made). */
HVD_API hvd_status hvd_timeline_start(hvd_context* context, const char* path, int32_t mark_cycles);
HVD_API hvd_status hvd_timeline_stop(hvd_context* context);

HVD_API hvd_status hvd_counters_of(hvd_context* context, hvd_counters* counters);

/* Fills up to `capacity` rows, by process set and operation, in that order; `count` is how many
 * there are. The struct_size of the first row is that of all; `rows` may be NULL if `capacity` is
 * 0. */
HVD_API hvd_status hvd_metrics_of(hvd_context* context,
                                  hvd_metrics* rows,
                                  size_t capacity,
                                  size_t* count);

/* As hvd_metrics_of; rows by process set, operation and rank. */
HVD_API hvd_status hvd_arrivals_of(hvd_context* context,
                                   hvd_arrivals* rows,
                                   size_t capacity,
                                   size_t* count);

/* Tells the launcher why this rank is about to fail, before teardown can block, so that the culprit
 * is told apart from its victims; or, by HVD_REPORT_VERSIONS from one rank of each host, what it
 * runs on (the versions of this library and of the C library are added), so that hosts which differ
 * are named. Does nothing without our launcher. `kind` is hvd_report_kind;
 * `peer` is the rank that was lost, or -1. `text` is cut at 64 KiB. Works before hvd_init. */
HVD_API hvd_status hvd_report(int32_t kind, int32_t peer, const char* text);

/* The last failure on this thread, in words. Never NULL; valid until the next hvd_ call here. */
HVD_API const char* hvd_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
