// SPDX-License-Identifier: Apache-2.0
//
// The control memory of ranks that are parts of one test.
#pragma once

#include "collectives/process_set.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "runtime/control/shm_layout.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <poll.h>

namespace hvd::test {

class SharedControlMemory {
public:
    explicit SharedControlMemory(int size) {
        const std::array segments{sizeof(rt::SharedControl) +
                                  sizeof(rt::RankPage) * static_cast<std::size_t>(size)};
        auto made = coll::LocalGroup::among_threads(size, segments);
        REQUIRE(made);
        groups = std::move(made).value();
        auto* const memory = groups.front()->segment(0).data();
        control = std::launder(reinterpret_cast<rt::SharedControl*>(memory));
        pages = {std::launder(reinterpret_cast<rt::RankPage*>(memory + sizeof(rt::SharedControl))),
                 static_cast<std::size_t>(size)};
    }

    [[nodiscard]] coll::LocalGroup& group(int rank) const {
        return *groups[static_cast<std::size_t>(rank)];
    }

    /// Whether somebody has woken the rank since this was asked last.
    [[nodiscard]] bool was_woken(int rank) const {
        pollfd wakeup{.fd = group(rank).wakeup_descriptor(), .events = POLLIN, .revents = 0};
        const bool is_ready = ::poll(&wakeup, 1, 0) == 1;
        group(rank).drain();
        return is_ready;
    }

    std::vector<std::unique_ptr<coll::LocalGroup>> groups;
    rt::SharedControl* control = nullptr;
    std::span<rt::RankPage> pages;
};

/// A set of ranks of one host.
inline coll::ProcessSet set_of(int id, std::vector<int> ranks) {
    coll::ProcessSet set;
    set.id = id;
    set.hosts.assign(ranks.size(), 0);
    set.ranks = std::move(ranks);
    return set;
}

}  // namespace hvd::test
