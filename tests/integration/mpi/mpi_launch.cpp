// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/mpi/mpi_launch.hpp"

#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

namespace hvd::test {
namespace {

constexpr int kCases = 15;  // of the contract, without those that give MPI up

}  // namespace

const Launcher kOpenMpi{
    .name = "Open MPI",
    .path = "/usr/bin/mpirun.openmpi",
    .arguments = {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}};
const Launcher kMpich{.name = "MPICH", .path = "/usr/bin/mpiexec.hydra", .arguments = {}};

RankEnd launch(const Launcher& launcher,
               int ranks,
               const std::vector<const char*>& program,
               std::chrono::seconds limit) {
    const auto socket = unique_socket_name();
    const auto count = std::to_string(ranks);
    const auto run = [&](int) {
        // NOLINTBEGIN(concurrency-mt-unsafe): a forked child of one thread
        (void)::setenv("HVD_TEST_SOCKET", socket.c_str(), 1);
        (void)::setenv("HVD_TEST_PLUGINS", HVD_MPI_PLUGINS, 1);
        // NOLINTEND(concurrency-mt-unsafe)
        std::vector<const char*> words{launcher.path};
        words.insert(words.end(), launcher.arguments.begin(), launcher.arguments.end());
        words.insert(words.end(), {"-n", count.c_str()});
        words.insert(words.end(), launcher.shell.begin(), launcher.shell.end());
        words.insert(words.end(), program.begin(), program.end());
        words.push_back(nullptr);
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): execv's own history
        (void)::execv(launcher.path, const_cast<char* const*>(words.data()));
        return 127;
    };
    return run_ranks(1, run, limit).front();
}

bool is_here(const Launcher& launcher) {
    if (!std::filesystem::exists(launcher.path)) {
        skip(std::string(launcher.path) + " is not installed");
        return false;
    }
    return true;
}

int times(const std::string& text, std::string_view sentence) {
    int count = 0;
    for (auto at = text.find(sentence); at != std::string::npos; at = text.find(sentence, at + 1)) {
        ++count;
    }
    return count;
}

int cases_that_passed(const RankEnd& end) {
    return times(end.output, "a case is over");
}

void passes_the_contract(const Launcher& launcher, int ranks) {
    if (!is_here(launcher) || ranks > HVD_MOST_RANKS) {
        return;
    }

    const auto end =
        launch(launcher, ranks,
               {HVD_MPI_CONTRACT, "--use-colour", "no", "backend contract: *",
                "~backend contract: a killed*", "~backend contract: a task whose deadline*",
                "~backend contract: a set that is aborted*"});

    CAPTURE(launcher.name, ranks, end.output);
    CHECK(end.exit_code == 0);
    CHECK(cases_that_passed(end) == kCases * ranks);
}

}  // namespace hvd::test
