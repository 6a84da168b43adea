// SPDX-License-Identifier: Apache-2.0
//
// Process sets that are made and removed.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

using hvd::Errc;
using hvd::Exception;
using hvd::rt::Operation;
using hvd::rt::Outcome;
using hvd::rt::Request;
using hvd::test::add_set;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::failures;
using hvd::test::join_world;
using hvd::test::open_descriptors;
using hvd::test::pages_in_use;
using hvd::test::remove_set;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::unique_socket_name;
using hvd::test::value_or_throw;

namespace {

/// The sum over a set, in place.
Request allreduce_of(int set, const std::string& name, std::span<float> data) {
    auto request = allreduce(name, data);
    request.process_set = set;
    return request;
}

/// How an operation of the set failed.
hvd::Error failure_of(EngineRank& self, std::vector<Operation*> operations) {
    try {
        self.finish(operations);
    } catch (const Exception& exception) {
        return exception.error();
    }
    throw std::runtime_error("nothing failed");
}

}  // namespace

TEST_CASE("a change that a call has given up goes on with the next call") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        const auto self = join_world(rank, 2, socket);
        const auto soon = [] { return hvd::Deadline::in(std::chrono::milliseconds(10)); };
        const auto wait_for_rank_1 = [&] { ::usleep(rank == 1 ? 200'000 : 0); };
        int given_up = 0;

        wait_for_rank_1();
        auto added = value_or_throw(self->membership->add({0}, soon()));
        while (added.outcome == Outcome::in_progress) {
            ++given_up;
            added = value_or_throw(self->membership->add({0}, soon()));
        }
        require(added.is_new, "the set was there before");

        wait_for_rank_1();
        auto removed = value_or_throw(self->membership->remove(added.id, soon()));
        while (removed == Outcome::in_progress) {
            ++given_up;
            removed = value_or_throw(self->membership->remove(added.id, soon()));
        }
        require(self->engine->process_sets().ids() == std::vector{0}, "the set is still there");
        require(rank == 1 || given_up > 1, "no call has been given up");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a change waits for one that was begun before it") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        const auto self = join_world(rank, 2, socket);
        const auto soon = hvd::Deadline::in(std::chrono::milliseconds(10));
        if (rank == 0) {
            const auto first = value_or_throw(self->membership->add({0}, soon));
            require(first.outcome == Outcome::in_progress, "rank 1 was early");
            const auto second = value_or_throw(self->membership->add({1}, soon));
            require(second.outcome == Outcome::in_progress, "the second was first");
        } else {
            ::usleep(200'000);
            require(add_set(*self, {0}) == 1, "the first has another id");
        }
        require(add_set(*self, {1}) == 2, "the second has another id");
        require(self->engine->process_sets().ids() == std::vector{0, 1, 2}, "the sets");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a set may be removed with operations pending, and made again") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket);
        for (int round = 0; round < 10; ++round) {
            const int set = add_set(*self, {0, 1});
            require(set == 1, "the id of the set before was not given again");
            std::vector<float> data(100, 1);
            std::vector<float> never(100, 1);
            if (rank != 2) {
                self->run({allreduce_of(set, "x", data)});
                require(data.front() == 2, "the pair's sum");
            }
            std::vector<Operation*> pending;
            if (rank == round % 2) {
                pending =
                    self->submit({allreduce_of(set, "new", never), allreduce_of(set, "x", data)});
            }
            remove_set(*self, set);
            if (!pending.empty()) {
                const auto error = failure_of(*self, pending);
                require(
                    error.code == Errc::aborted &&
                        error.message == "process set " + std::to_string(set) + " has been removed",
                    error.message);
            }
            std::vector<Request> gone{allreduce_of(set, "x", data)};
            require(!self->engine->submit(gone).has_value(), "the set is still there");
            self->run({allreduce("world", data)});
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("what was agreed in a set before its removal finishes") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket);
        for (int round = 0; round < 10; ++round) {
            const int set = add_set(*self, {1, 2});
            std::vector<float> data(100'000, 1);
            std::vector<Operation*> pending;
            if (rank != 0) {
                pending = self->submit({allreduce_of(set, "x", data)});
                ::usleep(20'000);  // most of the time it is agreed by then
            }
            remove_set(*self, set);
            try {
                self->finish(pending);
                require(rank == 0 || data.back() == 2, "the pair's sum");
            } catch (const Exception& exception) {
                require(exception.error().code == Errc::aborted, exception.error().message);
            }
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("sets that come and go leave no memory, no descriptor and no id behind") {
    const auto socket = unique_socket_name();
#ifdef NDEBUG
    constexpr int kRounds = 1000;
#else
    constexpr int kRounds = 200;
#endif

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket, {.cache_capacity = 20});
        std::size_t descriptors = 0;
        long pages = 0;
        for (int round = 0; round < kRounds; ++round) {
            const int set = add_set(*self, {0, 1});
            const int other = add_set(*self, {2, 1});
            std::vector<float> data(300, 1);
            for (const int id : {set, other}) {
                if (rank == 1 || (id == set) == (rank == 0)) {
                    self->run({allreduce_of(id, "x", data)});
                }
            }
            require(data.back() == (rank == 0 ? 2.F : 3.F), "the sum of a pair");
            remove_set(*self, other);
            remove_set(*self, set);
            require(self->engine->process_sets().ids() == std::vector{0}, "a set is left");
            if (round == kRounds / 2) {
                descriptors = open_descriptors();
                pages = pages_in_use();
            }
        }
        require(open_descriptors() <= descriptors, "descriptors are left");
        require(pages_in_use() - pages < 256,
                std::to_string(pages_in_use() - pages) + " more pages are in use");
        return 0;
    });

    CHECK(failures(ends) == "");
}
