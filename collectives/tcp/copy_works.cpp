// SPDX-License-Identifier: Apache-2.0
//
// Collectives that only move bytes. Allgather: everybody sends everybody its part. Broadcast: a
// small one goes from the root to everybody; of a large one the root sends each other rank one
// slice, and these pass their slices on to each other, so that no link carries more than the rest.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/tcp/works.hpp"

#include <cstddef>
#include <cstring>

namespace hvd::coll::tcp {
namespace {

constexpr std::size_t kDirectBytes = std::size_t{64} << 10;  // of a broadcast

class AllgatherWork final : public SteppedWork {
public:
    AllgatherWork(State& state, const Task& task)
        : SteppedWork(state), task_(task), element_bytes_(size_of(task.type)) {}

private:
    [[nodiscard]] bool advance() override {
        if (begun_) {
            return false;
        }
        begun_ = true;
        exchange().begin();
        for (const auto& segment : task_.segments) {
            std::byte* to = segment.out;
            for (int rank = 0; rank < mesh().size(); ++rank) {
                const auto bytes = segment.counts[static_cast<std::size_t>(rank)] * element_bytes_;
                if (rank == mesh().rank()) {
                    copy_own(segment, to, bytes);
                } else if (bytes != 0) {
                    exchange().receive(rank, {to, bytes});
                }
                to += bytes;
            }
        }
        return true;
    }

    void copy_own(const Segment& segment, std::byte* to, std::size_t bytes) {
        if (bytes == 0) {
            return;
        }
        std::memmove(to, segment.in, bytes);
        for (int peer = 0; peer < mesh().size(); ++peer) {
            if (peer != mesh().rank()) {
                exchange().send(peer, {to, bytes});
            }
        }
    }

    Task task_;
    std::size_t element_bytes_;
    bool begun_ = false;
};

class BroadcastWork final : public SteppedWork {
public:
    BroadcastWork(State& state, const Task& task)
        : SteppedWork(state), root_(task.root), others_(mesh().size() - 1) {
        const bool is_root = mesh().rank() == root_;
        for (const auto& segment : task.segments) {
            const auto bytes = segment.count * size_of(task.type);
            if (is_root && bytes != 0 && segment.in != segment.out) {
                std::memmove(segment.out, segment.in, bytes);
            }
            out_.append(segment.out, bytes);
        }
    }

private:
    [[nodiscard]] bool is_direct() const noexcept {
        return out_.bytes() <= kDirectBytes || others_ == 1;
    }

    [[nodiscard]] bool advance() override {
        ++step_;
        if (out_.bytes() == 0 || step_ > (is_direct() ? 1 : 2)) {
            return false;
        }
        exchange().begin();
        if (step_ == 1) {
            from_root();
        } else if (mesh().rank() != root_) {
            among_others();
        }
        return true;
    }

    void from_root() {
        if (mesh().rank() != root_) {
            receive(root_, mesh().rank());
            return;
        }
        for (int peer = 0; peer < mesh().size(); ++peer) {
            if (peer != root_) {
                send(peer, peer);
            }
        }
    }

    void among_others() {
        for (int peer = 0; peer < mesh().size(); ++peer) {
            if (peer != root_ && peer != mesh().rank()) {
                send(peer, mesh().rank());
                receive(peer, peer);
            }
        }
    }

    void send(int peer, int slice) {
        out_.for_each(begin_of(slice), end_of(slice),
                      [&](const std::byte* memory, std::size_t bytes, std::size_t) {
                          exchange().send(peer, {memory, bytes});
                      });
    }

    void receive(int peer, int slice) {
        out_.for_each(begin_of(slice), end_of(slice),
                      [&](std::byte* memory, std::size_t bytes, std::size_t) {
                          exchange().receive(peer, {memory, bytes});
                      });
    }

    [[nodiscard]] std::size_t border(int index) const noexcept {
        return out_.bytes() * static_cast<std::size_t>(index) / static_cast<std::size_t>(others_);
    }
    /// The rank's place among those that are not the root.
    [[nodiscard]] int place_of(int rank) const noexcept { return rank < root_ ? rank : rank - 1; }
    [[nodiscard]] std::size_t begin_of(int rank) const noexcept {
        return is_direct() ? 0 : border(place_of(rank));
    }
    [[nodiscard]] std::size_t end_of(int rank) const noexcept {
        return is_direct() ? out_.bytes() : border(place_of(rank) + 1);
    }

    int root_;
    int others_;
    OutList out_;
    int step_ = 0;
};

class BarrierWork final : public SteppedWork {
public:
    explicit BarrierWork(State& state) : SteppedWork(state) {}

private:
    [[nodiscard]] bool advance() override {
        if (begun_) {
            return false;
        }
        begun_ = true;
        exchange().begin();
        for (int peer = 0; peer < mesh().size(); ++peer) {
            if (peer != mesh().rank()) {
                exchange().send(peer, {});
                exchange().receive(peer, {});
            }
        }
        return true;
    }

    bool begun_ = false;
};

}  // namespace

std::unique_ptr<Work> start_allgather(State& state, const Task& task) {
    return std::make_unique<AllgatherWork>(state, task);
}

std::unique_ptr<Work> start_broadcast(State& state, const Task& task) {
    return std::make_unique<BroadcastWork>(state, task);
}

std::unique_ptr<Work> start_barrier(State& state) {
    return std::make_unique<BarrierWork>(state);
}

}  // namespace hvd::coll::tcp
