/* SPDX-License-Identifier: Apache-2.0 */
/* The C ABI as a C11 program sees it: hvd.h alone, no C++ and no Python. */
#include <hvd/hvd.h>
#include <stdio.h>

static int fail(const char* step) {
    fprintf(stderr, "%s: %s\n", step, hvd_last_error());
    return 1;
}

int main(void) {
    hvd_context* world = NULL;
    if (hvd_init(NULL, &world) != HVD_OK) {
        return fail("hvd_init");
    }
    hvd_topology topology = {.struct_size = sizeof topology};
    if (hvd_topology_of(world, &topology) != HVD_OK) {
        return fail("hvd_topology_of");
    }
    printf("rank %d of %d\n", (int)topology.rank, (int)topology.size);

    float value = 42;
    const int64_t shape[] = {1};
    const hvd_tensor tensor = {.struct_size = sizeof tensor,
                               .data = &value,
                               .shape = shape,
                               .ndim = 1,
                               .dtype = HVD_FLOAT32,
                               .device_type = HVD_HOST};
    const hvd_request request = {.struct_size = sizeof request,
                                 .name = "value",
                                 .in = &tensor,
                                 .out = &tensor,
                                 .prescale = 1,
                                 .postscale = 1,
                                 .op = HVD_ALLREDUCE,
                                 .reduce_op = HVD_SUM};
    hvd_ticket ticket = 0;
    if (hvd_submit(world, &request, 1, &ticket) != HVD_OK) {
        return fail("hvd_submit");
    }
    if (hvd_wait(world, ticket, 10000) != HVD_OK) {
        return fail("hvd_wait");
    }
    printf("sum %g\n", (double)value);
    if (hvd_release(world, ticket) != HVD_OK || hvd_shutdown(world) != HVD_OK) {
        return fail("the end");
    }
    return 0;
}
