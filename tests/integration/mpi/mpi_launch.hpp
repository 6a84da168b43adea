// SPDX-License-Identifier: Apache-2.0
//
// Starts the program mpi_contract under a real mpirun.
#pragma once

#include "tests/support/proc_group.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::test {

/// How an MPI starts programs.
struct Launcher {
    const char* name;
    const char* path;
    std::vector<const char*> arguments;
    std::vector<const char*> shell{};  // what runs the program
};

extern const Launcher kOpenMpi;
extern const Launcher kMpich;

/// Runs the program on that many ranks.
[[nodiscard]] RankEnd launch(const Launcher& launcher,
                             int ranks,
                             const std::vector<const char*>& program,
                             std::chrono::seconds limit = std::chrono::seconds(100));

/// Whether this machine has it; else the case is skipped.
[[nodiscard]] bool is_here(const Launcher& launcher);

[[nodiscard]] int times(const std::string& text, std::string_view sentence);

/// Every rank says when a case is over and has not failed.
[[nodiscard]] int cases_that_passed(const RankEnd& end);

/// All cases of the backend contract but those that fail.
void passes_the_contract(const Launcher& launcher, int ranks);

}  // namespace hvd::test
