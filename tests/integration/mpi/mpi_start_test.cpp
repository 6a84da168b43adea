// SPDX-License-Identifier: Apache-2.0
//
// A rank that never comes while MPI starts: cases for the ranks of one mpirun.
#include "collectives/base/env.hpp"
#include "tests/integration/mpi/this_rank.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdlib>
#include <string>

#include <poll.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kShort = 1s;

/// By the launcher's own variables: MPI has not started.
int number_of(const char* of_open_mpi, const char* of_mpich) {
    const auto value = read_env(of_open_mpi);
    return std::stoi(value ? *value : this_rank_variable(of_mpich));
}

/// To end.
void wait_for_the_others(const coll::LocalGroup& group) {
    for (int peer = 0; peer < group.rank(); ++peer) {
        pollfd ended{group.peer_pidfd(peer), POLLIN, 0};
        const auto deadline = Deadline::in(20s);
        int ready = 0;
        do {
            ready = ::poll(&ended, 1, deadline.poll_timeout_ms());
        } while (ready < 0 && errno == EINTR);
        REQUIRE(ready == 1);
    }
}

}  // namespace

TEST_CASE("mpi start: MPI_Init that waits for a rank that never comes ends its process") {
    ignore_termination();  // of a launcher whose first rank has ended
    const int rank = number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK");
    const int size = number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
    const auto group = meet_all_ranks(rank, size);

    if (rank < size - 1) {
        (void)this_rank_session(Deadline::in(kShort));
        FAIL("MPI_Init has returned without one of the ranks");
    }
    wait_for_the_others(*group);
    say_that_it_is_over();
}

TEST_CASE("mpi start: a communicator that one rank does not make is given up by the others") {
    ignore_termination();  // of a launcher whose first rank has ended
    const int rank = number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK");
    const int size = number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
    const auto group = meet_all_ranks(rank, size);
    auto& session = this_rank_session();

    if (rank < size - 1) {
        const auto communicator = session.communicate(Deadline::in(kShort));

        REQUIRE(!communicator.has_value());
        CHECK(communicator.error().code == Errc::timed_out);
        CHECK(communicator.error().message.find("not all ranks of the communicator have come") !=
              std::string::npos);
        say_that_it_is_over();
    } else {
        wait_for_the_others(*group);
        say_that_it_is_over();
        std::_Exit(0);  // MPI_Finalize would wait for the dead
    }
}

}  // namespace hvd::test
