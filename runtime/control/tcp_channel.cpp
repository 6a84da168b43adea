// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/tcp_channel.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <sched.h>

namespace hvd::rt {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

template <class... Handlers>
struct Overloaded : Handlers... {
    using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

bool fewer_cpus_than(int ranks) noexcept {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < ranks;
}

}  // namespace

TcpChannel::TcpChannel(coll::net::Mesh& mesh, int local_size, coll::FailureDetector* news)
    : mesh_(mesh),
      rank_(mesh.rank()),
      size_(mesh.size()),
      crowded_(fewer_cpus_than(local_size)),
      news_(news),
      members_(static_cast<std::size_t>(mesh.size())) {}

// ---- what this rank says ------------------------------------------------------------------------

void TcpChannel::announce(std::vector<std::byte> message) {
    if (coordinates()) {
        heard_.push_back({.rank = 0, .message = std::move(message)});
    } else {
        send(0, frame::Announce{std::move(message)});
    }
}

void TcpChannel::mark(std::span<const std::uint32_t> ids, bool /*more_open*/) {
    if (coordinates()) {
        count(ids, polled_);
    } else {
        send(0, frame::Mark{.heard = polled_, .ids = {ids.begin(), ids.end()}});
    }
}

// A round of all ranks would cost no fewer trips than the marks do.
bool TcpChannel::propose(std::span<const std::uint32_t> /*ids*/) {
    return false;
}
Proposal TcpChannel::proposal() {
    return Proposal::refused;
}
void TcpChannel::next_round(bool /*open*/) {}

bool TcpChannel::crowded() {
    return crowded_;
}

// ---- the sequence -------------------------------------------------------------------------------

Result<std::optional<ChannelEvent>> TcpChannel::poll() {
    if (broken_) {
        return *broken_;
    }
    if (events_.empty()) {
        return std::optional<ChannelEvent>{};
    }
    std::optional<ChannelEvent> event = std::move(events_.front());
    events_.pop_front();
    ++polled_;
    return event;
}

Result<std::optional<Channel::Heard>> TcpChannel::hear() {
    if (heard_.empty()) {
        return std::optional<Heard>{};
    }
    std::optional<Heard> heard = std::move(heard_.front());
    heard_.pop_front();
    return heard;
}

void TcpChannel::decide(std::vector<std::byte> message, std::uint32_t id, bool more) {
    publish(frame::Decided{.more = more, .message = std::move(message)});
    if (id < counts_.size()) {
        // What was marked before, or will be by who does not know this decision, meant another.
        counts_[id] = {.marks = 0, .since = published_};
    } else if (id != ~std::uint32_t{0}) {
        counts_.resize(id + std::size_t{1});
        counts_[id].since = published_;
    }
}

void TcpChannel::invalidate(std::uint32_t id) {
    publish(frame::Invalidated{id});
}

void TcpChannel::count(std::span<const std::uint32_t> ids, std::uint64_t heard) {
    std::vector<std::uint32_t> ready;
    for (const auto id : ids) {
        if (id >= counts_.size() || heard < counts_[id].since) {
            continue;
        }
        if (++counts_[id].marks == size_) {
            counts_[id].marks = 0;
            ready.push_back(id);
        }
    }
    if (!ready.empty()) {
        publish(frame::Ready{std::move(ready)});
    }
}

void TcpChannel::publish(const frame::Any& message) {
    if (!std::holds_alternative<frame::Left>(message)) {
        ++published_;
    }
    send_to_all(message);
    receive_event(message);
}

void TcpChannel::send_to_all(const frame::Any& message) {
    for (int peer = first_peer(); peer < end_peer(); ++peer) {
        send(peer, message);
    }
}

void TcpChannel::receive_event(frame::Any message) {
    std::visit(
        Overloaded{
            [&](frame::Decided& decided) {
                events_.emplace_back(event::Decided{std::move(decided.message), decided.more});
            },
            [&](const frame::Invalidated& invalidated) {
                events_.emplace_back(event::Invalidated{invalidated.id});
            },
            [&](frame::Ready& ready) { events_.emplace_back(event::Ready{std::move(ready.ids)}); },
            [&](const frame::Left& left) {
                if (left.rank != rank_) {
                    members_[static_cast<std::size_t>(left.rank)].has_said_goodbye = true;
                    departed_.push_back({.rank = left.rank, .finished = left.finished});
                }
            },
            [](const auto&) {},
        },
        message);
}

// ---- bytes --------------------------------------------------------------------------------------

void TcpChannel::send(int peer, const frame::Any& message) {
    auto& member = members_[static_cast<std::size_t>(peer)];
    if (member.is_gone) {
        return;
    }
    if (member.out_taken > kReadBytes) {
        member.out.erase(member.out.begin(),
                         member.out.begin() + static_cast<std::ptrdiff_t>(member.out_taken));
        member.out_taken = 0;
    }
    const auto bytes = encode(message);
    member.out.insert(member.out.end(), bytes.begin(), bytes.end());
}

bool TcpChannel::flush() {
    mesh_.reactor().dispatch();
    return pump();
}

bool TcpChannel::pump() {
    bool moved = false;
    for (int peer = first_peer(); peer < end_peer(); ++peer) {
        moved = pump_in(peer) || moved;
    }
    // After the last peer was read: what came in may have caused what goes out.
    for (int peer = first_peer(); peer < end_peer(); ++peer) {
        moved = pump_out(peer) || moved;
    }
    return moved;
}

bool TcpChannel::pump_out(int peer) {
    auto& member = members_[static_cast<std::size_t>(peer)];
    if (member.out.empty()) {
        return false;
    }
    auto& link = mesh_.peer(peer).control;
    bool moved = false;
    while (member.out_taken < member.out.size()) {
        const iovec rest{.iov_base = member.out.data() + member.out_taken,
                         .iov_len = member.out.size() - member.out_taken};
        const auto sent = link.send({&rest, 1});
        if (sent == 0) {
            return moved;
        }
        member.out_taken += sent;
        moved = true;
    }
    member.out.clear();
    member.out_taken = 0;
    return moved;
}

bool TcpChannel::pump_in(int peer) {
    auto& member = members_[static_cast<std::size_t>(peer)];
    auto& link = mesh_.peer(peer).control;
    if (member.is_gone) {
        return false;
    }
    bool moved = false;
    std::array<std::byte, kReadBytes> bytes;  // NOLINT: filled by recv
    const iovec into{.iov_base = bytes.data(), .iov_len = bytes.size()};
    for (auto size = link.recv({&into, 1}); size != 0; size = link.recv({&into, 1})) {
        moved = true;
        member.in.feed(std::span(bytes).first(size));
        while (true) {
            auto message = member.in.next();
            if (!message) {
                broken_ = std::move(message).error().context(mesh_.describe(peer));
                return true;
            }
            if (!*message) {
                break;
            }
            take(peer, **std::move(message));
        }
    }
    if (link.is_closed()) {
        lose(peer);
        moved = true;
    }
    return moved;
}

bool TcpChannel::has_output() const noexcept {
    return std::ranges::any_of(
        members_, [](const Member& member) { return !member.is_gone && !member.out.empty(); });
}

void TcpChannel::take(int peer, frame::Any message) {
    if (const auto* leave = std::get_if<frame::Leave>(&message)) {
        take_leave(peer, *leave);
    } else if (const auto* lost = std::get_if<frame::Lost>(&message)) {
        if (lost->rank != rank_) {
            set_lost(lost->rank, {Errc::unavailable, lost->why});
        }
    } else if (peer == 0) {
        receive_event(std::move(message));
    } else if (coordinates()) {
        if (auto* announce = std::get_if<frame::Announce>(&message)) {
            heard_.push_back({.rank = peer, .message = std::move(announce->message)});
        } else if (const auto* mark = std::get_if<frame::Mark>(&message)) {
            count(mark->ids, mark->heard);
        }
    }
}

}  // namespace hvd::rt
