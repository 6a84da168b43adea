/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that was compiled against 0.29 and runs with today's libhorovod.so: every struct has its
 * old size, and none of the bytes behind it changes. */
#include "hvd_0_29.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 0x5a

static void require(int condition, const char* what) {
    if (!condition) {
        fprintf(stderr, "abi_0_29: %s (%s)\n", what, hvd_last_error());
        exit(1);
    }
}

/* `size` bytes of zeros and a struct_size, followed by a guard that must survive. */
static void* guarded(size_t size) {
    unsigned char* memory = malloc(size + 256);
    require(memory != NULL, "memory");
    memset(memory, 0, size);
    memset(memory + size, GUARD, 256);
    memcpy(memory, &size, sizeof size);
    return memory;
}

static void check_guard(const void* memory, size_t size, const char* what) {
    const unsigned char* guard = (const unsigned char*)memory + size;
    for (int index = 0; index < 256; ++index) {
        require(guard[index] == GUARD, what);
    }
    size_t kept = 0;
    memcpy(&kept, memory, sizeof kept);
    require(kept == size, "struct_size changed");
}

static hvd_context* context;
static int32_t ranks;

static void join_world(void) {
    /* The very first version of the options ended with the time limit. */
    hvd_init_options* first = guarded(offsetof(hvd_init_options, mpi_comm));
    first->timeout_ms = 20000;
    require(hvd_init(first, &context) == HVD_OK, "hvd_init, first version");
    check_guard(first, offsetof(hvd_init_options, mpi_comm), "hvd_init_options, first version");
    hvd_init_options* options = guarded(sizeof *options);
    require(hvd_init(options, &context) == HVD_OK, "hvd_init");
    check_guard(options, sizeof *options, "hvd_init_options");

    hvd_topology* topology = guarded(sizeof *topology);
    require(hvd_topology_of(context, topology) == HVD_OK, "hvd_topology_of");
    check_guard(topology, sizeof *topology, "hvd_topology");
    require(topology->rank >= 0 && topology->rank < topology->size, "rank");
    ranks = topology->size;
    free(first);
    free(options);
    free(topology);
}

static void describe(hvd_tensor* tensor, float* data, const int64_t* shape) {
    tensor->data = data;
    tensor->shape = shape;
    tensor->ndim = 1;
    tensor->dtype = HVD_FLOAT32;
}

/* Two requests of the old size, one after the other. */
static hvd_request* two_requests(const hvd_tensor* in, const hvd_tensor* out) {
    hvd_request* requests = guarded(sizeof(hvd_request[2]));
    for (int index = 0; index < 2; ++index) {
        requests[index].struct_size = sizeof(hvd_request);
        requests[index].name = index == 0 ? "sum" : "rows";
        requests[index].in = in;
        requests[index].out = index == 0 ? out : NULL;
        requests[index].prescale = 1;
        requests[index].postscale = 1;
        requests[index].op = index == 0 ? HVD_ALLREDUCE : HVD_ALLGATHER;
        requests[index].reduce_op = HVD_SUM;
    }
    return requests;
}

static void check_result(hvd_ticket ticket) {
    hvd_tensor* result = guarded(sizeof *result);
    require(hvd_result(context, ticket, result) == HVD_OK, "hvd_result");
    check_guard(result, sizeof *result, "hvd_tensor");
    require(result->ndim == 1 && result->shape[0] == 3 * (int64_t)ranks, "rows");
    require(((const float*)result->data)[0] == 1.0F, "values");
    free(result);
}

static void run_operations(void) {
    const int64_t shape[1] = {3};
    float data[3] = {1, 1, 1};
    float sum[3] = {0, 0, 0};
    hvd_tensor* in = guarded(sizeof *in);
    hvd_tensor* out = guarded(sizeof *out);
    describe(in, data, shape);
    describe(out, sum, shape);
    hvd_request* requests = two_requests(in, out);

    hvd_ticket tickets[2] = {0, 0};
    require(hvd_run(context, requests, 2, tickets, -1) == HVD_OK, "hvd_run");
    require(sum[2] == (float)ranks, "sum");
    check_result(tickets[1]);
    require(hvd_release(context, tickets[0]) == HVD_OK, "hvd_release");
    require(hvd_release(context, tickets[1]) == HVD_OK, "hvd_release");

    hvd_plan* plan = NULL;
    require(hvd_plan_create(context, requests, 2, &plan) == HVD_OK, "hvd_plan_create");
    require(hvd_plan_run(context, plan, -1) == HVD_OK, "hvd_plan_run");
    hvd_tensor* rows = guarded(sizeof *rows);
    require(hvd_plan_result(context, plan, 1, rows) == HVD_OK, "hvd_plan_result");
    check_guard(rows, sizeof *rows, "hvd_tensor of a plan");
    require(hvd_plan_free(context, plan) == HVD_OK, "hvd_plan_free");
    free(rows);
    free(requests);
    free(out);
    free(in);
}

static void count_operations(void) {
    hvd_counters* counters = guarded(sizeof *counters);
    require(hvd_counters_of(context, counters) == HVD_OK, "hvd_counters_of");
    check_guard(counters, sizeof *counters, "hvd_counters");
    require(counters->submitted == 4 && counters->completed == 4, "counters");
    free(counters);
}

int main(void) {
    join_world();
    run_operations();
    count_operations();
    require(hvd_shutdown(context) == HVD_OK, "hvd_shutdown");
    return 0;
}
