// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/mpi/this_rank.hpp"

#include "collectives/base/env.hpp"

#include <csignal>
#include <cstdio>
#include <span>
#include <thread>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCaseBytes = 4096;

/// All ranks run the same cases in the same order.
[[nodiscard]] std::string next_socket() {
    static int count = 0;
    return this_rank_variable("HVD_TEST_SOCKET") + "-" + std::to_string(count++);
}

}  // namespace

std::string this_rank_variable(const char* name) {
    const auto value = read_env(name);
    if (!value) {
        throw std::runtime_error(std::string(name) + " is not set: run integration_mpi instead");
    }
    return *value;
}

std::unique_ptr<coll::LocalGroup> meet_all_ranks(int rank, int size) {
    const auto socket = next_socket();
    const auto key = std::as_bytes(std::span(socket));
    return value_of(coll::LocalGroup::form({.rank = rank,
                                            .size = size,
                                            .name = socket,
                                            .key = {key.begin(), key.end()},
                                            .segments = {kCaseBytes, kCaseBytes}},
                                           Deadline::in(20s)));
}

MpiWorld::MpiWorld(coll::mpi::Communicator of_mpi, coll::Reactor& reactor, coll::SumOrder order) {
    const auto set = world_on_one_host(of_mpi.rank(), of_mpi.size());
    backend_ = coll::mpi::create(std::move(of_mpi), reactor, order);
    world_ = backend_->open(set, {});
}

void run_to_end(coll::Communicator& communicator,
                const coll::Task& task,
                std::chrono::seconds limit) {
    const auto work = value_of(communicator.start(task));
    const auto deadline = Deadline::in(limit);
    while (value_of(work->poll()) == coll::Work::Progress::pending) {
        expect(!deadline.has_passed(), "the task did not end in time");
        std::this_thread::yield();
    }
}

void ignore_termination() {
    (void)std::signal(SIGTERM, SIG_IGN);
}

void say_that_it_is_over() {
    (void)std::fputs("a case is over\n", stdout);
    (void)std::fflush(stdout);
}

coll::mpi::Session& this_rank_session(Deadline deadline) {
    static const auto session = value_of(
        coll::mpi::Session::start({.environment = current_environment(),
                                   .plugin_folder = this_rank_variable("HVD_TEST_PLUGINS")},
                                  deadline));
    session->leave();
    return *session;
}

}  // namespace hvd::test
