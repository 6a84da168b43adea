// SPDX-License-Identifier: Apache-2.0
//
// Ranks in network namespaces of their own: what is different between hosts.
#include "collectives/net/mesh.hpp"
#include "collectives/tcp/factory.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/proc_group.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;
using test::FileStore;

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

void run(const std::string& command) {
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a test, of fixed words
    require(std::system(command.c_str()) == 0, command);
}

std::string wait_for(FileStore& store, const std::string& key) {
    const auto bytes = store.get(key, Deadline::in(20s));
    require(bytes.has_value(), "nobody put " + key);
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

void tell(FileStore& store, const std::string& key, const std::string& value) {
    require(store.put(key, std::as_bytes(std::span(value))).has_value(), "put");
}

/// Two hosts with a cable; both also have a bridge of their own with the same address, as docker
/// makes it, which leads nowhere.
void become_host(int rank, FileStore& store) {
    require(::unshare(CLONE_NEWNET) == 0, "unshare");
    run("ip link set lo up");
    run("ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && "
        "ip link set docker0 up");
    tell(store, "pid" + std::to_string(rank), std::to_string(::getpid()));
    if (rank == 0) {
        run("ip link add cable type veth peer name cable netns " + wait_for(store, "pid1"));
        tell(store, "cable", "laid");
    }
    (void)wait_for(store, "cable");
    run("ip addr add 10.99.0." + std::to_string(rank + 1) +
        "/24 dev cable && ip link set cable up");
    tell(store, "up" + std::to_string(rank), "up");
    (void)wait_for(store, "up" + std::to_string(1 - rank));
}

}  // namespace

TEST_CASE("between hosts the cable is found, whatever else there is") {
    if (::geteuid() != 0) {
        test::skip("network namespaces need root");
    }
    const test::TempDir folder;

    const auto ends = test::run_ranks(2, [&](int rank) {
        FileStore store(folder.path());
        become_host(rank, store);
        auto mesh = Mesh::meet(
            store, {.rank = rank, .size = 2, .host = "h" + std::to_string(rank), .prefix = "w/"},
            Deadline::in(20s));
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        if (rank == 1) {
            const auto& address = (*mesh)->peer(0).address;
            require(address.starts_with("10.99.0.1:") && address.ends_with(" (cable)"), address);
        }
        std::vector<float> data(100'000, static_cast<float>(rank + 1));
        auto* const bytes = reinterpret_cast<std::byte*>(data.data());
        const auto backend = tcp::create(**mesh);
        const auto work = backend->start(
            {.op = Op::allreduce, .segments = {{.in = bytes, .out = bytes, .count = data.size()}}});
        require(work.has_value(), "start");
        const auto deadline = Deadline::in(20s);
        for (auto progress = (*work)->poll();
             progress.has_value() && *progress == Work::Progress::pending;
             progress = (*work)->poll()) {
            require((*mesh)->reactor().wait(deadline), "the sum did not come");
        }
        require(data.front() == 3 && data.back() == 3, "sum");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

}  // namespace hvd::coll::net
