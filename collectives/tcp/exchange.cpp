// SPDX-License-Identifier: Apache-2.0
#include "collectives/tcp/exchange.hpp"

#include <algorithm>
#include <string>

namespace hvd::coll::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x44445648;  // "HVDD"
constexpr std::size_t kPartsAtOnce = 64;

// From the end of a link to the end of the exchange: time for better news of why.
constexpr std::chrono::milliseconds kNewsLimit{800};
constexpr std::chrono::milliseconds kNewsTick{100};

}  // namespace

Exchange::Exchange(net::Mesh& mesh) : mesh_(mesh), pairs_(static_cast<std::size_t>(mesh.size())) {}

void Exchange::begin() {
    ++step_;
    sealed_ = false;
    for (auto& pair : pairs_) {
        pair.checked = false;
        for (Flow* flow : {&pair.out, &pair.in}) {
            flow->parts.clear();
            flow->bytes = 0;
            flow->at = 0;
        }
    }
}

void Exchange::Flow::add(void* memory, std::size_t size) {
    if (parts.empty()) {
        parts.push_back({.iov_base = &header, .iov_len = sizeof header});
    }
    bytes += size;
    if (size != 0) {
        parts.push_back({.iov_base = memory, .iov_len = size});
    }
}

std::span<const iovec> Exchange::Flow::rest() const noexcept {
    return std::span(parts).subspan(at, std::min(parts.size() - at, kPartsAtOnce));
}

void Exchange::Flow::advance(std::size_t moved) noexcept {
    while (moved != 0) {
        auto& part = parts[at];
        const auto step = std::min(moved, part.iov_len);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
        part.iov_len -= step;
        moved -= step;
        if (part.iov_len == 0) {
            ++at;
        }
    }
}

void Exchange::send(int peer, std::span<const std::byte> bytes) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): an iovec knows no const
    pairs_[static_cast<std::size_t>(peer)].out.add(const_cast<std::byte*>(bytes.data()),
                                                   bytes.size());
}

void Exchange::receive(int peer, std::span<std::byte> bytes) {
    pairs_[static_cast<std::size_t>(peer)].in.add(bytes.data(), bytes.size());
}

void Exchange::seal() {
    for (int rank = 0; rank < mesh_.size(); ++rank) {
        auto& pair = pairs_[static_cast<std::size_t>(rank)];
        pair.out.header = {.magic = kMagic, .step = step_, .bytes = pair.out.bytes};
        const bool is_idle = pair.out.is_done() && pair.in.is_done();
        if (!is_idle && !mesh_.peer(rank).data.is_open()) {
            mesh_.request_data_connection(rank);
        }
    }
    sealed_ = true;
}

Status Exchange::check(int peer, Pair& pair) const {
    if (pair.checked || pair.in.at == 0) {
        return ok();
    }
    const Header expected{.magic = kMagic, .step = step_, .bytes = pair.in.bytes};
    if (!(pair.in.header == expected)) {
        return Error{Errc::internal,
                     mesh_.describe(peer) + " sends step " + std::to_string(pair.in.header.step) +
                         " of " + std::to_string(pair.in.header.bytes) + " bytes where step " +
                         std::to_string(step_) + " of " + std::to_string(pair.in.bytes) +
                         " bytes is due: the ranks do not run the same collectives"};
    }
    pair.checked = true;
    return ok();
}

void Exchange::pump_out(int peer, Pair& pair) {
    auto& link = mesh_.peer(peer).data;
    while (!pair.out.is_done()) {
        const auto sent = link.send(pair.out.rest());
        if (sent == 0) {
            return;
        }
        pair.out.advance(sent);
    }
}

Status Exchange::pump_in(int peer, Pair& pair) {
    auto& link = mesh_.peer(peer).data;
    while (!pair.in.is_done()) {
        const auto received = link.recv(pair.in.rest());
        if (received == 0) {
            break;
        }
        pair.in.advance(received);
        HVD_TRY_STATUS(check(peer, pair));
    }
    return ok();
}

/// Whether the link with a peer that is not done will ever do its part.
Status Exchange::look_at(int peer) {
    const auto& link = mesh_.peer(peer).data;
    if (!link.is_open()) {
        return mesh_.data_connection_status(peer);
    }
    if (!link.is_closed() && !link.is_broken()) {
        return ok();
    }
    if (!alarm_) {
        gone_peer_ = peer;
        gone_limit_ = Deadline::in(kNewsLimit);
        alarm_.emplace(mesh_.reactor(), kNewsTick);
        alarm_->set();
    }
    if (!gone_limit_.has_passed()) {
        return ok();
    }
    alarm_->clear();
    return Error{Errc::unavailable,
                 mesh_.describe(gone_peer_) + " has closed its connection with " +
                     mesh_.describe(mesh_.rank()) + " in the middle of a collective"};
}

Result<bool> Exchange::pump() {
    if (!sealed_) {
        seal();
    }
    bool is_over = true;
    for (int rank = 0; rank < mesh_.size(); ++rank) {
        auto& pair = pairs_[static_cast<std::size_t>(rank)];
        if (pair.out.is_done() && pair.in.is_done()) {
            continue;
        }
        pump_out(rank, pair);
        HVD_TRY_STATUS(pump_in(rank, pair));
        const bool is_done = pair.out.is_done() && pair.in.is_done();
        HVD_TRY_STATUS(is_done ? ok() : look_at(rank));
        is_over = is_over && is_done;
    }
    return is_over;
}

}  // namespace hvd::coll::tcp
