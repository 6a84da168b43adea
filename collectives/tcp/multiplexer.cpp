// SPDX-License-Identifier: Apache-2.0
#include "collectives/tcp/multiplexer.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace hvd::coll::tcp {
namespace {

// From the end of a connection to the end of the step: time for a better reason.
constexpr std::chrono::milliseconds kReasonLimit{800};
constexpr std::chrono::milliseconds kReasonTick{100};

[[nodiscard]] std::size_t cost_of(std::uint64_t bytes) noexcept {
    return static_cast<std::size_t>(bytes) + kMessageCost;
}

}  // namespace

Multiplexer::Multiplexer(net::Mesh& mesh)
    : mesh_(mesh), again_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!again_) {
        throw Exception(system_error("eventfd (see `ulimit -n`)", errno));
    }
    mesh_.reactor().watch(again_.get(), EPOLLIN, [this](std::uint32_t) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto bytes = ::read(again_.get(), &count, sizeof count);
    });
    streams_.reserve(static_cast<std::size_t>(mesh.size()));
    for (int rank = 0; rank < mesh.size(); ++rank) {
        streams_.emplace_back(static_cast<Stream::Owner&>(*this), rank);
    }
}

Multiplexer::~Multiplexer() {
    mesh_.reactor().forget(again_.get());
}

Pair& Multiplexer::pair(SetKey set, int rank) {
    auto& pair = pairs_[{rank, set}];
    pair.set = set;
    pair.rank = rank;
    return pair;
}

void Multiplexer::close(SetKey set, int rank) noexcept {
    const auto at = pairs_.find({rank, set});
    if (at == pairs_.end()) {
        return;
    }
    abandon(at->second);
    for (const auto& early : at->second.early) {
        stream(rank).forget(early.message);
    }
    pairs_.erase(at);
}

void Multiplexer::abandon(Pair& pair) noexcept {
    stream(pair.rank).forget(pair.out);
    stream(pair.rank).forget(pair.in);
    pair.out.clear();
    pair.in.clear();
    pair.has_out = false;
    pair.waits_to_send = false;
    pair.has_in = false;
    pair.left = nullptr;
}

void Multiplexer::begin(Pair& pair) {
    if ((pair.has_out || pair.has_in) && !mesh_.peer(pair.rank).data.is_open()) {
        mesh_.request_data_connection(pair.rank);
    }
    if (pair.has_in) {
        begin_in(pair);
    }
    if (pair.has_out) {
        begin_out(pair);
    }
}

void Multiplexer::begin_out(Pair& pair) {
    const auto bytes = pair.out.bytes();
    const bool is_whole = bytes <= kEagerBytes;
    pair.waits_to_send =
        is_whole ? pair.in_window + cost_of(bytes) > kWindow : pair.granted != pair.out_step;
    if (pair.waits_to_send) {
        return;
    }
    pair.in_window += is_whole ? cost_of(bytes) : 0;
    stream(pair.rank).send({.kind = is_whole ? Frame::Kind::whole : Frame::Kind::part,
                            .set = pair.set,
                            .step = pair.out_step,
                            .bytes = bytes},
                           pair.out);
}

void Multiplexer::begin_in(Pair& pair) {
    if (!pair.early.empty()) {
        take_early(pair);
    } else if (pair.in.bytes() > kEagerBytes) {
        stream(pair.rank).send_control({.kind = Frame::Kind::grant,
                                        .set = pair.set,
                                        .step = pair.in_step,
                                        .bytes = pair.in.bytes()});
    }
}

/// The first message that came early, if all of it has come.
void Multiplexer::take_early(Pair& pair) {
    auto& early = pair.early.front();
    if (!is_expected(pair, early.step, early.memory.size()) || !early.message.is_done()) {
        return;
    }
    const auto* from = early.memory.data();
    for (std::array<iovec, 1> part{}; pair.in.next(part, pair.in.left()) != 0;) {
        std::memcpy(part.front().iov_base, from, part.front().iov_len);
        from += part.front().iov_len;
        pair.in.advance(part.front().iov_len);
    }
    const auto bytes = early.memory.size();
    pair.early.pop_front();
    free_window(pair, cost_of(bytes));
    end_in(pair);
}

void Multiplexer::end_in(Pair& pair) {
    pair.has_in = false;
    pair.in.clear();
    --*pair.left;
}

/// The sender hears of it when half of the window is free again.
void Multiplexer::free_window(Pair& pair, std::size_t bytes) {
    pair.taken += bytes;
    if (pair.taken >= kWindow / 2) {
        stream(pair.rank).send_control(
            {.kind = Frame::Kind::credit, .set = pair.set, .bytes = std::exchange(pair.taken, 0)});
    }
}

bool Multiplexer::is_expected(Pair& pair, std::uint32_t step, std::uint64_t bytes) {
    if (step == pair.in_step && bytes == pair.in.bytes()) {
        return true;
    }
    pair.failure =
        Error{Errc::internal, mesh_.describe(pair.rank) + " sends step " + std::to_string(step) +
                                  " of " + std::to_string(bytes) + " bytes where step " +
                                  std::to_string(pair.in_step) + " of " +
                                  std::to_string(pair.in.bytes()) +
                                  " bytes is due: the ranks do not run the same collectives"};
    return false;
}

Result<Message*> Multiplexer::on_frame(int rank, const Frame& frame) {
    const bool has_payload = frame.kind == Frame::Kind::whole || frame.kind == Frame::Kind::part;
    if (frame.magic != Frame::kMagic || frame.kind > Frame::Kind::credit ||
        frame.payload > frame.bytes || (!has_payload && frame.payload != 0) ||
        (frame.kind == Frame::Kind::whole &&
         (frame.payload != frame.bytes || frame.bytes > kEagerBytes))) {
        return Error{Errc::internal, mesh_.describe(rank) + " sends what is no frame"};
    }
    if (frame.kind == Frame::Kind::credit && !pairs_.contains({rank, frame.set})) {
        return nullptr;  // of a set that is closed here
    }
    auto& at = pair(frame.set, rank);
    switch (frame.kind) {
        case Frame::Kind::whole: return on_whole(at, frame);
        case Frame::Kind::part: return on_part(at, frame);
        case Frame::Kind::grant: at.granted = frame.step; break;
        case Frame::Kind::credit:
            at.in_window -= std::min<std::size_t>(at.in_window, frame.bytes);
            break;
    }
    if (at.has_out && at.waits_to_send) {
        begin_out(at);
    }
    return nullptr;
}

Message* Multiplexer::on_whole(Pair& pair, const Frame& frame) {
    if (pair.has_in && pair.early.empty()) {
        return is_expected(pair, frame.step, frame.bytes) ? &pair.in : nullptr;
    }
    auto& early = pair.early.emplace_back();
    early.step = frame.step;
    early.memory.resize(frame.bytes);
    early.message.add(early.memory.data(), early.memory.size());
    return &early.message;
}

/// Of a message that was asked for: nothing where the one who asked has given up.
Message* Multiplexer::on_part(Pair& pair, const Frame& frame) {
    const bool is_awaited = pair.has_in && pair.in_step == frame.step &&
                            pair.in.bytes() == frame.bytes && frame.payload <= pair.in.left();
    return is_awaited ? &pair.in : nullptr;
}

void Multiplexer::on_payload(int rank, const Frame& frame) {
    if (frame.kind != Frame::Kind::whole && frame.kind != Frame::Kind::part) {
        return;
    }
    auto& at = pair(frame.set, rank);
    if (!at.has_in || at.failure) {
        return;  // it came early, or nobody waits for it any more
    }
    if (!at.early.empty()) {
        take_early(at);
    } else if (at.in.is_done() && at.in_step == frame.step) {
        if (frame.kind == Frame::Kind::whole) {
            free_window(at, cost_of(frame.bytes));
        }
        end_in(at);
    }
}

void Multiplexer::on_sent(int rank, const Frame& frame) {
    auto& at = pair(frame.set, rank);
    at.has_out = false;
    at.out.clear();
    --*at.left;
}

Status Multiplexer::pump() {
    bool has_more = false;
    for (int rank = 0; rank < mesh_.size(); ++rank) {
        if (rank != mesh_.rank()) {
            HVD_TRY(const bool is_cut_short, stream(rank).pump(mesh_.peer(rank).data));
            has_more = has_more || is_cut_short;
        }
    }
    if (has_more) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto bytes = ::write(again_.get(), &one, sizeof one);
    }
    return ok();
}

Status Multiplexer::check(const Pair& pair) {
    if (pair.failure) {
        return *pair.failure;
    }
    const auto& link = mesh_.peer(pair.rank).data;
    if (!link.is_open()) {
        return mesh_.data_connection_status(pair.rank);
    }
    if (!link.is_closed() && !link.is_broken()) {
        return ok();
    }
    if (link.is_cut()) {
        return mesh_.end_of(pair.rank, link);
    }
    if (!alarm_) {
        gone_peer_ = pair.rank;
        gone_limit_ = Deadline::in(kReasonLimit);
        alarm_.emplace(mesh_.reactor(), kReasonTick);
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

}  // namespace hvd::coll::tcp
