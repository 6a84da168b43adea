// SPDX-License-Identifier: Apache-2.0
//
// The common part of the programs that mpirun starts in these tests.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/mpi/factory.hpp"
#include "collectives/mpi/session.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "tests/integration/backend_contract/contract.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace hvd::test {

inline constexpr std::chrono::seconds kStartLimit{60};  // of MPI_Init, and of a communicator

/// A variable that the test has set for its ranks.
[[nodiscard]] std::string this_rank_variable(const char* name);

/// MPI, started at the first call, and ended in order when the program exits.
[[nodiscard]] coll::mpi::Session& this_rank_session(Deadline deadline = Deadline::in(kStartLimit));

/// The ranks of this mpirun, by which they see each other live and die. All call it equally often.
[[nodiscard]] std::unique_ptr<coll::LocalGroup> meet_all_ranks(int rank, int size);

/// Polls the task to its end. Throws when that takes longer than the limit.
void run_to_end(coll::Communicator& communicator,
                const coll::Task& task,
                std::chrono::seconds limit = kTaskLimit);

/// Open MPI's mpirun sends all ranks SIGTERM as soon as one has died, and some time later SIGKILL.
void ignore_termination();

/// A backend over MPI and its communicator of all ranks.
class MpiWorld {
public:
    /// `reactor` outlives it.
    MpiWorld(coll::mpi::Communicator of_mpi,
             coll::Reactor& reactor,
             coll::SumOrder order = coll::SumOrder::by_rank);

    [[nodiscard]] coll::Communicator& operator*() const noexcept { return *world_; }

private:
    std::unique_ptr<coll::Backend> backend_;
    std::unique_ptr<coll::Communicator> world_;
};

/// The line that the test counts in the ranks' output.
void say_that_it_is_over();

template <class T>
[[nodiscard]] T value_of(Result<T> result) {
    if (!result) {
        throw std::runtime_error(result.error().message);
    }
    return std::move(result).value();
}

}  // namespace hvd::test
