// SPDX-License-Identifier: Apache-2.0
//
// Worlds of ranks that are connected, as those of several hosts are.
#include "collectives/rendezvous/memory_store.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/tcp_channel.hpp"
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/file_store.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include <pthread.h>

namespace hvd::test {
namespace {

constexpr std::chrono::seconds kLimit{20};

// As the runtime's own hook does it. The rank that this process is.
const coll::net::Mesh* mesh_of_process = nullptr;

void close_links_in_children(const coll::net::Mesh& mesh) {
    static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
        if (mesh_of_process != nullptr) {
            mesh_of_process->close_in_child();
        }
    });
    (void)registered;
    mesh_of_process = &mesh;
}

std::unique_ptr<EngineRank> start_rank(int rank,
                                       int size,
                                       coll::Store& store,
                                       const EngineTraits& traits) {
    auto self = std::make_unique<EngineRank>();
    self->its_rank = rank;
    self->its_size = size;
    self->mesh = value_or_throw(coll::net::Mesh::connect(
        store, {.rank = rank, .size = size, .host = "testhost", .prefix = "world/0/"},
        Deadline::in(kLimit)));
    start_engine(*self, std::make_unique<rt::TcpChannel>(*self->mesh, size), traits);
    return self;
}

}  // namespace

std::unique_ptr<EngineRank> join_world(int rank,
                                       int size,
                                       const std::string& socket,
                                       const EngineTraits& traits) {
    if (size == 1) {
        auto self = std::make_unique<EngineRank>();
        start_engine(*self, std::make_unique<rt::LocalChannel>(), traits);
        return self;
    }
    auto name = socket;
    std::ranges::replace(name, '/', '.');
    const auto folder = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directories(folder);
    FileStore store(folder);
    auto self = start_rank(rank, size, store, traits);
    close_links_in_children(*self->mesh);
    if (rank == 0) {
        std::filesystem::remove_all(folder);  // who has connected has read it all
    }
    return self;
}

std::vector<std::unique_ptr<EngineRank>> thread_world(int size, const EngineTraits& traits) {
    std::vector<std::unique_ptr<EngineRank>> ranks(static_cast<std::size_t>(size));
    coll::MemoryStore store;
    std::vector<std::jthread> threads;
    threads.reserve(ranks.size());
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            ranks[static_cast<std::size_t>(rank)] = start_rank(rank, size, store, traits);
        });
    }
    threads.clear();
    return ranks;
}

}  // namespace hvd::test
