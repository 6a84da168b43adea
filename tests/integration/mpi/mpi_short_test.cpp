// SPDX-License-Identifier: Apache-2.0
//
// The MPI backend under sanitizers: two ranks, as everything takes several times as long.
#include "tests/integration/mpi/mpi_launch.hpp"

#include <catch2/catch.hpp>

namespace hvd::test {

TEST_CASE("two ranks keep the backend contract under Open MPI's mpirun") {
    passes_the_contract(kOpenMpi, 2);
}

TEST_CASE("two ranks keep the backend contract under MPICH's mpiexec") {
    passes_the_contract(kMpich, 2);
}

}  // namespace hvd::test
