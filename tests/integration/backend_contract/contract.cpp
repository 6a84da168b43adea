// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/backend_contract/contract.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/rendezvous/memory_store.hpp"
#include "collectives/self/factory.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/tcp/factory.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/proc_group.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>
#include <thread>

#include <sys/epoll.h>
#include <unistd.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCaseBytes = 4096;
constexpr int kSizeOfHosts = 6;  // ranks on 2 hosts, or on 3

/// The parts of one rank's backend.
struct Parts {
    std::unique_ptr<coll::Reactor> own_reactor;
    std::unique_ptr<coll::net::Mesh> mesh;
    std::unique_ptr<coll::LocalGroup> host;  // of the ranks of one host, where they are on several
    std::unique_ptr<coll::Backend> backend;

    [[nodiscard]] coll::Reactor& reactor() const {
        return own_reactor ? *own_reactor : mesh->reactor();
    }
};

/// A backend under test, with the world sizes it serves.
struct Candidate {
    const char* name = "";
    std::size_t (*segment_bytes)(int size) = nullptr;
    Parts (*create)(coll::LocalGroup& group, coll::Store& store, int hosts) = nullptr;
    int largest_size = 0;
    int hosts = 1;  // the ranks take turns on them
};

[[noreturn]] void throw_error(const Error& error) {
    throw std::runtime_error(std::string(to_string(error.code)) + ": " + error.message);
}

Parts on_shared_memory(coll::LocalGroup& group, coll::Store& /*store*/, int /*hosts*/) {
    return {std::make_unique<coll::Reactor>(), nullptr, nullptr,
            coll::shm::create(coll::shm::share(group, 0))};
}

Parts alone(coll::LocalGroup& /*group*/, coll::Store& /*store*/, int /*hosts*/) {
    return {std::make_unique<coll::Reactor>(), nullptr, nullptr, coll::self::create()};
}

/// The group of this rank's host.
std::unique_ptr<coll::LocalGroup> form_host(const coll::LocalGroup& world, int hosts) {
    std::vector<int> ranks;
    for (int rank = world.rank() % hosts; rank < world.size(); rank += hosts) {
        ranks.push_back(rank);
    }
    const auto size = static_cast<int>(ranks.size());
    auto formed =
        coll::LocalGroup::form({.rank = world.rank() / hosts,
                                .size = size,
                                .name = "contract/" + std::to_string(world.pid(ranks.front())),
                                .world_ranks = ranks,
                                .segments = {coll::shm::segment_bytes(size)}},
                               Deadline::in(20s));
    if (!formed) {
        throw_error(formed.error());
    }
    return std::move(formed).value();
}

Parts over_tcp(coll::LocalGroup& group, coll::Store& store, int hosts) {
    auto mesh = coll::net::Mesh::connect(
        store, {.rank = group.rank(), .size = group.size(), .host = "testhost", .prefix = "world/"},
        Deadline::in(20s));
    if (!mesh) {
        throw_error(mesh.error());
    }
    Parts parts{nullptr, std::move(mesh).value(), nullptr, nullptr};
    std::shared_ptr<coll::shm::HostMemory> memory;
    // Threads are no ranks of a group that is formed.
    if (hosts > 1 && group.pid((group.rank() + 1) % group.size()) != ::getpid()) {
        parts.host = form_host(group, hosts);
        parts.own_reactor = std::make_unique<coll::Reactor>();
        std::vector<int> ranks;
        for (int rank = group.rank() % hosts; rank < group.size(); rank += hosts) {
            ranks.push_back(rank);
        }
        memory = coll::shm::share(*parts.host, 0, std::move(ranks));
    }
    parts.backend = coll::tcp::create(*parts.mesh, coll::SumOrder::any, std::move(memory));
    return parts;
}

constexpr std::array kCandidates{
    Candidate{.name = "self",
              .segment_bytes = [](int) -> std::size_t { return 0; },
              .create = &alone,
              .largest_size = 1},
    Candidate{.name = "shm",
              .segment_bytes = &coll::shm::segment_bytes,
              .create = &on_shared_memory,
              .largest_size = 64},
    Candidate{.name = "tcp",
              .segment_bytes = [](int) -> std::size_t { return 0; },
              .create = &over_tcp,
              .largest_size = 64},
    Candidate{.name = "tcp between 2 hosts",
              .segment_bytes = [](int) -> std::size_t { return 0; },
              .create = &over_tcp,
              .largest_size = 64,
              .hosts = 2},
    Candidate{.name = "tcp between 3 hosts",
              .segment_bytes = [](int) -> std::size_t { return 0; },
              .create = &over_tcp,
              .largest_size = 64,
              .hosts = 3},
};

/// HVD_TEST_BACKEND=tcp leaves the others out.
[[nodiscard]] bool is_wanted(const Candidate& candidate, int size) {
    static const auto only = read_env("HVD_TEST_BACKEND");
    // Several hosts are another case where each has as many ranks, and more than one.
    const bool fits = candidate.hosts == 1 ? size != kSizeOfHosts
                                           : size > candidate.hosts && size % candidate.hosts == 0;
    return fits && size <= std::min(candidate.largest_size, HVD_MOST_RANKS) &&
           (!only || *only == candidate.name);
}

[[nodiscard]] std::vector<std::size_t> segments_of(const Candidate& candidate, int size) {
    return {candidate.segment_bytes(size), kCaseBytes};
}

void run_rank(const Candidate& candidate,
              ContractCase run,
              coll::LocalGroup& group,
              coll::Store& store) {
    auto parts = candidate.create(group, store, candidate.hosts);
    auto& reactor = parts.reactor();
    reactor.watch(group.wakeup_descriptor(), EPOLLIN, [&](std::uint32_t) { group.drain(); });
    auto ranks = world_on_one_host(group.rank(), group.size());
    for (std::size_t rank = 0; rank < ranks.hosts.size(); ++rank) {
        ranks.hosts[rank] = static_cast<int>(rank) % candidate.hosts;
    }
    const auto world = parts.backend->open(ranks, {});
    ContractRank self{*parts.backend, *world, group, reactor, group.rank(), group.size()};
    if (parts.host) {
        // As in the engine: whoever looks for work does not take the wake-up of its sleep.
        reactor.watch(parts.mesh->reactor().descriptor(), EPOLLIN,
                      [&](std::uint32_t) { parts.mesh->reactor().dispatch(); });
        reactor.watch(parts.host->wakeup_descriptor(), EPOLLIN,
                      [&](std::uint32_t) { parts.host->drain(); });
        self.host = parts.host.get();
    }
    self.sums = candidate.hosts == 1 ? coll::SumOrder::by_rank : coll::SumOrder::any;
    run(self);
}

}  // namespace

void check_all_well(const std::vector<RankEnd>& ends) {
    CHECK(failures(ends) == "");
}

void run_on_processes(ContractCase run, void (*check)(const std::vector<RankEnd>& ends)) {
    const int size = GENERATE(1, 2, 3, 4, kSizeOfHosts, 7);
    for (const auto& candidate : kCandidates) {
        if (!is_wanted(candidate, size)) {
            continue;
        }
        const auto socket = unique_socket_name();
        const TempDir folder;
        const auto ends = run_ranks(size, [&](int rank) {
            const auto group = coll::LocalGroup::form({.rank = rank,
                                                       .size = size,
                                                       .name = socket,
                                                       .segments = segments_of(candidate, size)},
                                                      Deadline::in(10s));
            if (!group) {
                throw_error(group.error());
            }
            FileStore store(folder.path());
            run_rank(candidate, run, **group, store);
            return 0;
        });
        CAPTURE(candidate.name, size);
        check(ends);
    }
}

void run_on_threads(ContractCase run) {
    const int size = GENERATE(2, 4);
    for (const auto& candidate : kCandidates) {
        if (!is_wanted(candidate, size)) {
            continue;
        }
        const auto segments = segments_of(candidate, size);
        const auto groups = coll::LocalGroup::among_threads(size, segments);
        REQUIRE(groups.has_value());
        coll::MemoryStore store;
        const auto failed = run_thread_ranks(size, [&](int rank) {
            run_rank(candidate, run, *(*groups)[static_cast<std::size_t>(rank)], store);
            return 0;
        });
        CAPTURE(candidate.name, size);
        CHECK(failed == "");
    }
}

}  // namespace hvd::test
