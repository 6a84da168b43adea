// SPDX-License-Identifier: Apache-2.0
//
// What the programs that mpirun starts in these tests have in common.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/mpi/session.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace hvd::test {

/// A variable that the test has set for its ranks.
[[nodiscard]] std::string this_rank_variable(const char* name);

/// MPI, started at the first call, and ended in order when the program exits.
[[nodiscard]] coll::mpi::Session& this_rank_session();

template <class T>
[[nodiscard]] T value_of(Result<T> result) {
    if (!result) {
        throw std::runtime_error(result.error().message);
    }
    return std::move(result).value();
}

}  // namespace hvd::test
