// SPDX-License-Identifier: Apache-2.0
//
// Worlds of ranks that share memory.
#include "collectives/selector/selector.hpp"
#include "runtime/control/local_channel.hpp"
#include "runtime/control/shm_channel.hpp"
#include "tests/integration/engine/engine_rank.hpp"

#include <utility>

namespace hvd::test {
namespace {

constexpr std::chrono::seconds kLimit{20};

std::vector<std::size_t> segments_for(int size) {
    return {rt::ShmChannel::segment_bytes(size),
            coll::local_segment_bytes({.size = size, .local_size = size})};
}

std::unique_ptr<EngineRank> start_rank(std::unique_ptr<coll::LocalGroup> group,
                                       const EngineTraits& traits) {
    auto self = std::make_unique<EngineRank>();
    self->its_rank = group->rank();
    self->its_size = group->size();
    self->group = std::move(group);
    start_engine(*self, std::make_unique<rt::ShmChannel>(*self->group, 0, "testhost"), traits);
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
    coll::LocalGroupOptions options;
    options.rank = rank;
    options.size = size;
    options.name = socket;
    options.segments = segments_for(size);
    return start_rank(value_or_throw(coll::LocalGroup::form(options, Deadline::in(kLimit))),
                      traits);
}

std::vector<std::unique_ptr<EngineRank>> thread_world(int size, const EngineTraits& traits) {
    std::vector<std::unique_ptr<EngineRank>> ranks;
    const auto segments = segments_for(size);
    for (auto& group : value_or_throw(coll::LocalGroup::among_threads(size, segments))) {
        ranks.push_back(start_rank(std::move(group), traits));
    }
    return ranks;
}

}  // namespace hvd::test
