// SPDX-License-Identifier: Apache-2.0
//
// A rank for the tests of the agent's socket. MODE is exchange, worlds, reduced, report, hang,
// parent, hear or ask.
#include "collectives/base/env.hpp"
#include "collectives/rendezvous/agent_store.hpp"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using hvd::current_environment;
using hvd::Deadline;
namespace coll = hvd::coll;

int exchange(coll::AgentStore& store, const coll::Topology& topology) {
    const auto own = "value of " + std::to_string(topology.rank);
    const auto put = store.put(std::to_string(topology.rank), std::as_bytes(std::span(own)));
    if (!put) {
        std::cerr << put.error().message << '\n';
        return 1;
    }
    for (int rank = 0; rank < topology.size; ++rank) {
        const auto value = store.get(std::to_string(rank), Deadline::in(10s));
        if (!value) {
            std::cerr << value.error().message << '\n';
            return 1;
        }
        std::cout << std::string_view(reinterpret_cast<const char*>(value->data()), value->size())
                  << ", ";
    }
    const auto refused = store.put("refused", {});
    const auto& why = refused ? std::string("nothing") : refused.error().message;
    std::cout << "refused: " << why.substr(why.rfind(": ") + 2) << '\n';
    return 0;
}

/// Enters two worlds, each over its own connection, as hvd.init() does.
int enter_worlds(std::unique_ptr<coll::AgentStore> store, const coll::LaunchContract& contract) {
    for (int generation = 0; generation < 2; ++generation) {
        const int world = store->first_world() + generation;
        std::cout << "world " << world << '\n';
        const auto key = coll::world_prefix(world) + std::to_string(contract.topology.rank);
        if (const auto put = store->put(key, {}); !put) {
            std::cerr << put.error().message << '\n';
            return 1;
        }
        auto next = coll::AgentStore::connect(contract, Deadline::in(10s));
        if (!next) {
            std::cerr << next.error().message << '\n';
            return 1;
        }
        store = std::move(*next);
    }
    return 0;
}

/// Enters a world that the launcher makes, and waits there for the end of another member.
int enter_reduced_world(coll::AgentStore& store) {
    const auto members = store.enter_world(1, Deadline::in(10s));
    if (!members) {
        std::cerr << members.error().message << '\n';
        return 1;
    }
    for (const auto& member : *members) {
        std::cout << member.rank << " on " << member.host << ", ";
    }
    const auto value = store.get("never there", Deadline::in(10s));
    const auto failure = store.first_failure(Deadline::in(10s));
    if (value || !failure) {
        return 1;
    }
    std::cout << failure->rank << ": " << value.error().message << '\n';
    return store.report(coll::ReportKind::peer_lost, failure->rank, failure->why) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc == 2 ? argv[1] : "";
    const auto contract = coll::decode_launch_contract(current_environment());
    if (!contract) {
        std::cerr << contract.error().message << '\n';
        return 1;
    }
    auto store = coll::AgentStore::connect(*contract, Deadline::in(10s));
    if (!store) {
        std::cerr << store.error().message << '\n';
        return 1;
    }
    if (mode == "exchange") {
        return exchange(**store, contract->topology);
    }
    if (mode == "worlds") {
        return enter_worlds(std::move(*store), *contract);
    }
    if (mode == "reduced") {
        return enter_reduced_world(**store);
    }
    if (mode == "report") {
        const std::string text(60'000, 't');
        (void)(*store)->report(coll::ReportKind::exception, -1, text);
        ::_exit(1);
    }
    if (mode == "hang") {
        (void)(*store)->report(coll::ReportKind::exception, -1, "it hangs");
        (void)::sleep(60);
    }
    if (mode == "parent") {
        const auto child = std::string(argv[0]) + " report";
        // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): our own program, no other thread
        std::cout << "child " << WEXITSTATUS(std::system(child.c_str())) << '\n';
        return 7;
    }
    if (mode == "hear") {
        const auto value = (*store)->get("never there", Deadline::in(10s));
        std::cout << (value ? std::string("a value") : value.error().message) << '\n';
        return 0;
    }
    (void)(*store)->get("never there", Deadline::in(200ms));
    return 0;
}
