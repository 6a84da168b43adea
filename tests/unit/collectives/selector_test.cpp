// SPDX-License-Identifier: Apache-2.0
#include "collectives/selector/selector.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <utility>

namespace hvd::coll {
namespace {

class Scored final : public Backend {
public:
    explicit Scored(int score) : score_(score) {}
    [[nodiscard]] std::string_view name() const noexcept override { return "scored"; }
    [[nodiscard]] int score(const Task&, const ProcessSet&) const noexcept override {
        return score_;
    }
    [[nodiscard]] std::size_t fusion_bytes() const noexcept override { return 1; }
    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet&, Device) override {
        return nullptr;
    }

private:
    int score_;
};

std::vector<std::unique_ptr<Backend>> scored(std::initializer_list<int> scores) {
    std::vector<std::unique_ptr<Backend>> backends;
    for (const int score : scores) {
        backends.push_back(std::make_unique<Scored>(score));
    }
    return backends;
}

TEST_CASE("the highest score wins, the first among equals") {
    const auto backends = scored({0, 3, 9, 9, 1});

    CHECK(select(backends, Task{}, {}) == backends[2].get());
}

TEST_CASE("a task that nobody can do has no backend") {
    CHECK(select(scored({0, 0}), Task{}, {}) == nullptr);
    CHECK(select({}, Task{}, {}) == nullptr);
}

TEST_CASE("a world of one runs on self and needs no shared memory") {
    const auto backends = create_backends({});

    REQUIRE(backends.size() == 1);
    CHECK(backends.front()->name() == "self");
    CHECK(local_segment_bytes({}) == 0);
}

TEST_CASE("ranks of one host run on shared memory") {
    const Topology topology{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2};
    const std::array<std::size_t, 2> segments{0, local_segment_bytes(topology)};
    const auto groups = LocalGroup::among_threads(2, segments);
    REQUIRE(groups.has_value());

    const auto backends = create_backends(
        {.topology = topology, .local_group = groups->at(1).get(), .local_segment = 1});

    const auto world = world_of(topology);
    const ProcessSet alone{.id = 1, .ranks = {1}, .place = 0, .hosts = {0}};
    REQUIRE(backends.size() == 2);
    CHECK(backends.front()->name() == "shm");
    CHECK(select(backends, Task{}, world) == backends.front().get());
    CHECK(select(backends, Task{.device = {.kind = Device::Kind::cuda}}, world) == nullptr);
    CHECK(select(backends, Task{}, alone)->name() == "self");
}

}  // namespace
}  // namespace hvd::coll
