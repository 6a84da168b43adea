/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that ends as C programs do: all ranks but one return from main without hvd_shutdown.
 *   return_from_main STAYER ELEMENTS    the rank that stays, and how much they sum up together */
#include <hvd/hvd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 3
#define SETTLE_US 300000 /* in which the ends of the others arrive */

static void require(int condition, const char* what) {
    if (!condition) {
        fprintf(stderr, "return_from_main: %s (%s)\n", what, hvd_last_error());
        exit(1);
    }
}

static void sum(hvd_context* context, float* data, int64_t elements) {
    const hvd_tensor tensor = {.struct_size = sizeof tensor,
                               .data = data,
                               .shape = &elements,
                               .ndim = 1,
                               .dtype = HVD_FLOAT32};
    const hvd_request request = {.struct_size = sizeof request,
                                 .name = "sum",
                                 .in = &tensor,
                                 .out = &tensor,
                                 .prescale = 1,
                                 .postscale = 1,
                                 .op = HVD_ALLREDUCE,
                                 .reduce_op = HVD_SUM};
    hvd_ticket ticket = 0;
    require(hvd_run(context, &request, 1, &ticket, -1) == HVD_OK, "hvd_run");
    require(hvd_release(context, ticket) == HVD_OK, "hvd_release");
}

int main(int argc, char** argv) {
    require(argc == 3, "two arguments");
    const int stayer = atoi(argv[1]);
    const int64_t elements = atoll(argv[2]);
    hvd_context* context = NULL;
    require(hvd_init(NULL, &context) == HVD_OK, "hvd_init");
    hvd_topology topology = {.struct_size = sizeof topology};
    require(hvd_topology_of(context, &topology) == HVD_OK, "hvd_topology_of");
    float* data = calloc((size_t)elements, sizeof *data);
    require(data != NULL, "memory");
    data[elements - 1] = 1;
    float expected = 1;
    for (int round = 0; round < ROUNDS; ++round) {
        sum(context, data, elements);
        expected *= (float)topology.size;
        require(data[elements - 1] == expected, "the sum");
    }
    free(data);
    if (topology.rank != stayer) {
        return 0;
    }
    usleep(SETTLE_US);
    require(hvd_shutdown(context) == HVD_OK, "hvd_shutdown");
    puts("stayed");
    return 0;
}
