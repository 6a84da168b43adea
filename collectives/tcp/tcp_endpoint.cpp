// SPDX-License-Identifier: Apache-2.0
#include "collectives/tcp/tcp_endpoint.hpp"

namespace hvd::coll::tcp {

TcpEndpoint::TcpEndpoint(Multiplexer& multiplexer, const ProcessSet& set)
    : multiplexer_(multiplexer), key_{set.id, set.incarnation}, place_(set.place) {
    for (const int rank : set.ranks) {
        pairs_.push_back(rank == multiplexer.mesh().rank() ? nullptr
                                                           : &multiplexer.pair(key_, rank));
    }
}

TcpEndpoint::~TcpEndpoint() {
    for (const auto* pair : pairs_) {
        if (pair != nullptr) {
            multiplexer_.close(key_, pair->rank);
        }
    }
}

void TcpEndpoint::send(int place, std::span<const std::byte> bytes) {
    auto& pair = *pairs_[static_cast<std::size_t>(place)];
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): an iovec knows no const
    pair.out.add(const_cast<std::byte*>(bytes.data()), bytes.size());
    pair.has_out = true;
}

void TcpEndpoint::recv(int place, std::span<std::byte> bytes) {
    auto& pair = *pairs_[static_cast<std::size_t>(place)];
    pair.in.add(bytes.data(), bytes.size());
    pair.has_in = true;
}

void TcpEndpoint::post() {
    ++step_;
    for (auto* pair : pairs_) {
        if (pair != nullptr) {
            pair->left = &left_;
            pair->out_step = step_;
            pair->in_step = step_;
            left_ += (pair->has_out ? 1U : 0U) + (pair->has_in ? 1U : 0U);
        }
    }
    for (auto* pair : pairs_) {
        if (pair != nullptr) {
            multiplexer_.begin(*pair);
        }
    }
}

Result<bool> TcpEndpoint::wait() {
    if (cause_) {
        return *cause_;
    }
    // A waiting thread sleeps in this reactor, or in one that watches it.
    multiplexer_.mesh().reactor().dispatch();
    HVD_TRY_STATUS(multiplexer_.pump());
    if (left_ == 0) {
        return true;
    }
    HVD_TRY_STATUS(check_unfinished());
    return false;
}

/// Errors: those of a connection that this step still needs.
Status TcpEndpoint::check_unfinished() const {
    for (const auto* pair : pairs_) {
        const bool is_unfinished = pair != nullptr && (pair->has_in || pair->has_out);
        HVD_TRY_STATUS(is_unfinished ? multiplexer_.check(*pair) : ok());
    }
    return ok();
}

std::vector<int> TcpEndpoint::missing() const {
    std::vector<int> places;
    for (int place = 0; place < size(); ++place) {
        const auto* const pair = pairs_[static_cast<std::size_t>(place)];
        if (pair != nullptr && pair->is_untouched()) {
            places.push_back(place);
        }
    }
    return places;
}

void TcpEndpoint::abort(const Error& cause) noexcept {
    cause_ = cause;
    for (auto* pair : pairs_) {
        if (pair != nullptr) {
            multiplexer_.abandon(*pair);
        }
    }
    left_ = 0;
}

}  // namespace hvd::coll::tcp
