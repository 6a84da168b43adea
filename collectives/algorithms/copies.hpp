// SPDX-License-Identifier: Apache-2.0
//
// Collectives that only move bytes, each element once. Allgather: each member sends its part
// to all others. Alltoall: each member sends a different part to each other one. Broadcast: a small
// one goes from the root to all members; of a large one the root sends each other member one slice,
// and these pass their slices on to each other, so that no link carries more than the rest.
#pragma once

#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/algorithms/scheduled_work.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <cstring>

namespace hvd::coll {

class AllgatherSchedule {
public:
    template <Endpoint At>
    AllgatherSchedule(const At& /*at*/, const Task& task)
        : task_(task), element_bytes_(size_of(task.type)) {}

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        if (is_begun_) {
            return false;
        }
        is_begun_ = true;
        for (const auto& segment : task_.segments) {
            add(at, segment);
        }
        return true;
    }

private:
    template <Endpoint At>
    void add(At& at, const Segment& segment) const {
        std::byte* to = segment.out;
        for (int place = 0; place < at.size(); ++place) {
            const auto bytes = segment.counts[static_cast<std::size_t>(place)] * element_bytes_;
            if (bytes != 0 && place == at.place()) {
                std::memmove(to, segment.in, bytes);
                for_each_peer(at, [&](int peer) { at.send(peer, {to, bytes}); });
            } else if (bytes != 0) {
                at.recv(place, {to, bytes});
            }
            to += bytes;
        }
    }

    Task task_;
    std::size_t element_bytes_;
    bool is_begun_ = false;
};

class AlltoallSchedule {
public:
    template <Endpoint At>
    AlltoallSchedule(const At& /*at*/, const Task& task)
        : task_(task), element_bytes_(size_of(task.type)) {}

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        if (is_begun_) {
            return false;
        }
        is_begun_ = true;
        for (const auto& segment : task_.segments) {
            const auto* const own = add_sends(at, segment);
            add_recvs(at, segment, own);
        }
        return true;
    }

private:
    /// Returns where the own part lies in the input.
    template <Endpoint At>
    [[nodiscard]] const std::byte* add_sends(At& at, const Segment& segment) const {
        const std::byte* from = segment.in;
        const std::byte* own = nullptr;
        for (int place = 0; place < at.size(); ++place) {
            const auto bytes =
                segment.send_counts[static_cast<std::size_t>(place)] * element_bytes_;
            if (place == at.place()) {
                own = from;
            } else if (bytes != 0) {
                at.send(place, {from, bytes});
            }
            from += bytes;
        }
        return own;
    }

    template <Endpoint At>
    void add_recvs(At& at, const Segment& segment, const std::byte* own) const {
        std::byte* to = segment.out;
        for (int place = 0; place < at.size(); ++place) {
            const auto bytes = segment.counts[static_cast<std::size_t>(place)] * element_bytes_;
            if (bytes != 0 && place == at.place()) {
                std::memmove(to, own, bytes);
            } else if (bytes != 0) {
                at.recv(place, {to, bytes});
            }
            to += bytes;
        }
    }

    Task task_;
    std::size_t element_bytes_;
    bool is_begun_ = false;
};

class BroadcastSchedule {
public:
    template <Endpoint At>
    BroadcastSchedule(const At& at, const Task& task) : root_(task.root), others_(at.size() - 1) {
        const bool is_root = at.place() == root_;
        for (const auto& segment : task.segments) {
            const auto bytes = segment.count * size_of(task.type);
            if (is_root && bytes != 0 && segment.in != segment.out) {
                std::memmove(segment.out, segment.in, bytes);
            }
            out_.append(segment.out, bytes);
        }
    }

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        ++step_;
        if (out_.bytes() == 0 || others_ == 0 || step_ > (is_direct() ? 1 : 2)) {
            return false;
        }
        if (step_ == 1) {
            from_root(at);
        } else if (at.place() != root_) {
            among_others(at);
        }
        return true;
    }

private:
    static constexpr std::size_t kDirectBytes = std::size_t{64} << 10;

    [[nodiscard]] bool is_direct() const noexcept {
        return out_.bytes() <= kDirectBytes || others_ == 1;
    }

    template <Endpoint At>
    void from_root(At& at) {
        if (at.place() != root_) {
            recv_range(at, root_, out_, begin_of(at.place()), end_of(at.place()));
            return;
        }
        for_each_peer(at,
                      [&](int peer) { send_range(at, peer, out_, begin_of(peer), end_of(peer)); });
    }

    template <Endpoint At>
    void among_others(At& at) {
        for_each_peer(at, [&](int peer) {
            if (peer != root_) {
                send_range(at, peer, out_, begin_of(at.place()), end_of(at.place()));
                recv_range(at, peer, out_, begin_of(peer), end_of(peer));
            }
        });
    }

    [[nodiscard]] std::size_t border(int index) const noexcept {
        return out_.bytes() * static_cast<std::size_t>(index) / static_cast<std::size_t>(others_);
    }
    /// Where the place stands among those that are not the root.
    [[nodiscard]] int index_of(int place) const noexcept {
        return place < root_ ? place : place - 1;
    }
    [[nodiscard]] std::size_t begin_of(int place) const noexcept {
        return is_direct() ? 0 : border(index_of(place));
    }
    [[nodiscard]] std::size_t end_of(int place) const noexcept {
        return is_direct() ? out_.bytes() : border(index_of(place) + 1);
    }

    int root_;
    int others_;
    OutList out_;
    int step_ = 0;
};

class BarrierSchedule {
public:
    template <Endpoint At>
    explicit BarrierSchedule(const At& /*at*/) {}

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        if (is_begun_) {
            return false;
        }
        is_begun_ = true;
        for_each_peer(at, [&](int peer) {
            at.send(peer, {});
            at.recv(peer, {});
        });
        return true;
    }

private:
    bool is_begun_ = false;
};

}  // namespace hvd::coll
