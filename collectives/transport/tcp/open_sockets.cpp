// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/open_sockets.hpp"

#include <unistd.h>

namespace hvd::coll::net {

OpenSockets::OpenSockets(std::size_t capacity) : sockets_(capacity) {
    free_.reserve(capacity);
    for (std::size_t index = 0; index < capacity; ++index) {
        sockets_[index].store(-1, std::memory_order_relaxed);
        free_.push_back(index);
    }
}

OpenSockets::Entry OpenSockets::add(int socket) {
    if (free_.empty()) {
        return {};
    }
    const auto index = free_.back();
    free_.pop_back();
    sockets_[index].store(socket, std::memory_order_relaxed);
    return {*this, index};
}

void OpenSockets::close_all() const noexcept {
    for (const auto& socket : sockets_) {
        if (const int fd = socket.load(std::memory_order_relaxed); fd >= 0) {
            (void)::close(fd);
        }
    }
}

OpenSockets::Entry& OpenSockets::Entry::operator=(Entry&& other) noexcept {
    std::swap(all_, other.all_);
    std::swap(index_, other.index_);
    return *this;
}

OpenSockets::Entry::~Entry() {
    if (all_ != nullptr) {
        all_->sockets_[index_].store(-1, std::memory_order_relaxed);
        all_->free_.push_back(index_);
    }
}

}  // namespace hvd::coll::net
