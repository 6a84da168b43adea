// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

namespace hvd::coll::net {

/// Sockets whose copies a forked child gives back. Its memory never moves, so that the child, in
/// which nothing may allocate and no lock may be taken, can read it at any time.
///
/// Thread: progress lock, but for `close_all`.
class OpenSockets {
public:
    /// One socket, as long as this lives.
    class Entry {
    public:
        Entry() = default;
        Entry(Entry&& other) noexcept
            : all_(std::exchange(other.all_, nullptr)), index_(other.index_) {}
        Entry& operator=(Entry&& other) noexcept;
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        ~Entry();

    private:
        friend class OpenSockets;
        Entry(OpenSockets& all, std::size_t index) noexcept : all_(&all), index_(index) {}

        OpenSockets* all_ = nullptr;
        std::size_t index_ = 0;
    };

    explicit OpenSockets(std::size_t capacity);

    /// Remembers it, if there is room: the entry goes before the descriptor is closed.
    [[nodiscard]] Entry add(int socket);

    /// Async-signal-safe.
    void close_all() const noexcept;

private:
    std::vector<std::atomic<int>> sockets_;  // -1: free
    std::vector<std::size_t> free_;
};

}  // namespace hvd::coll::net
