// SPDX-License-Identifier: Apache-2.0
#include "collectives/tcp/stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace hvd::coll::tcp {
namespace {

constexpr std::size_t kAheadBytes = 4096;
constexpr std::size_t kPartsAtOnce = 64;
constexpr int kRoundsAtOnce = 32;  // of one connection, before others have their turn

/// The buffers from and into which the rest of a forgotten message is sent and received.
constexpr std::size_t kVoidBytes = 4096;
constexpr std::array<std::byte, kVoidBytes> kZeros{};

}  // namespace

void Stream::forget(const Message& message) noexcept {
    std::erase_if(messages_, [&](const Outgoing& each) { return each.message == &message; });
    if (is_sending_ && current_.message == &message) {
        current_.message = nullptr;
    }
    if (is_in_frame_ && target_ == &message) {
        target_ = nullptr;
    }
}

Result<bool> Stream::pump(net::Connection& link) {
    int received = 0;
    for (; received < kRoundsAtOnce; ++received) {
        HVD_TRY(const bool has_received, recv_some(link));
        if (!has_received) {
            break;
        }
    }
    int sent = 0;
    while (sent < kRoundsAtOnce && has_to_send() && send_some(link)) {
        ++sent;
    }
    return received == kRoundsAtOnce || sent == kRoundsAtOnce;
}

void Stream::begin_frame() {
    is_sending_ = true;
    header_sent_ = 0;
    if (!control_.empty()) {
        current_ = {control_.front(), nullptr};
        control_.pop_front();
    } else {
        current_ = messages_.front();
        messages_.pop_front();
        const auto left = current_.message->left();
        current_.frame.payload =
            current_.frame.kind == Frame::Kind::part ? std::min(left, kFrameBytes) : left;
    }
    payload_left_ = current_.frame.payload;
}

void Stream::end_frame() {
    is_sending_ = false;
    if (current_.message == nullptr) {
        return;
    }
    if (current_.message->is_done()) {
        owner_.on_sent(rank_, current_.frame);
    } else {
        messages_.push_back(current_);
    }
}

/// False when the connection takes nothing more now.
bool Stream::send_some(net::Connection& link) {
    if (!is_sending_) {
        begin_frame();
    }
    std::array<iovec, kPartsAtOnce> parts{};
    std::size_t count = 0;
    const auto header_left = sizeof(Frame) - header_sent_;
    if (header_left != 0) {
        auto* const header = reinterpret_cast<std::byte*>(&current_.frame);
        parts[count++] = {.iov_base = header + header_sent_, .iov_len = header_left};
    }
    if (payload_left_ != 0 && current_.message != nullptr) {
        count += current_.message->next(std::span(parts).subspan(count), payload_left_);
    } else if (payload_left_ != 0) {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): an iovec knows no const
        parts[count++] = {.iov_base = const_cast<std::byte*>(kZeros.data()),
                          .iov_len = std::min(payload_left_, kVoidBytes)};
    }
    auto sent = link.send(std::span(parts).first(count));
    if (sent == 0) {
        return false;
    }
    const auto of_header = std::min(sent, header_left);
    header_sent_ += of_header;
    sent -= of_header;
    payload_left_ -= sent;
    if (current_.message != nullptr) {
        current_.message->advance(sent);
    }
    if (header_sent_ == sizeof(Frame) && payload_left_ == 0) {
        end_frame();
    }
    return true;
}

std::size_t Stream::take_ahead(std::byte* to, std::size_t bytes) noexcept {
    const auto taken = std::min(bytes, ahead_end_ - ahead_begin_);
    if (taken != 0) {
        std::memcpy(to, ahead_.data() + ahead_begin_, taken);
        ahead_begin_ += taken;
    }
    return taken;
}

/// Puts what was received ahead where the frame's payload goes.
void Stream::deliver_ahead() {
    while (incoming_left_ != 0 && ahead_begin_ != ahead_end_) {
        std::array<iovec, 1> part{};
        const auto wanted = std::min(incoming_left_, ahead_end_ - ahead_begin_);
        if (target_ == nullptr) {
            ahead_begin_ += wanted;
            incoming_left_ -= wanted;
            continue;
        }
        (void)target_->next(part, wanted);
        const auto taken =
            take_ahead(static_cast<std::byte*>(part.front().iov_base), part.front().iov_len);
        target_->advance(taken);
        incoming_left_ -= taken;
    }
}

/// Begins frames whose headers are there, and ends those whose payload is.
Status Stream::take_header() {
    while (!is_in_frame_ && ahead_end_ - ahead_begin_ >= sizeof(Frame)) {
        (void)take_ahead(reinterpret_cast<std::byte*>(&incoming_), sizeof incoming_);
        HVD_TRY(target_, owner_.on_frame(rank_, incoming_));
        incoming_left_ = incoming_.payload;
        is_in_frame_ = true;
        deliver_ahead();
        if (incoming_left_ == 0) {
            is_in_frame_ = false;
            owner_.on_payload(rank_, incoming_);
        }
    }
    return ok();
}

/// False when nothing more is there now.
Result<bool> Stream::recv_some(net::Connection& link) {
    if (ahead_.empty()) {
        ahead_.resize(kAheadBytes);
    }
    // Less than a header is left: it moves to the front.
    std::memmove(ahead_.data(), ahead_.data() + ahead_begin_, ahead_end_ - ahead_begin_);
    ahead_end_ -= std::exchange(ahead_begin_, 0);

    std::array<iovec, kPartsAtOnce> parts{};
    std::array<std::byte, kVoidBytes> nothing;  // NOLINT: written by the kernel, read by nobody
    std::size_t count = 0;
    std::size_t wanted = 0;
    if (is_in_frame_ && target_ != nullptr) {
        count = target_->next(std::span(parts).first(kPartsAtOnce - 1), incoming_left_);
    } else if (is_in_frame_) {
        parts[count++] = {.iov_base = nothing.data(),
                          .iov_len = std::min(incoming_left_, kVoidBytes)};
    }
    for (std::size_t part = 0; part < count; ++part) {
        wanted += parts[part].iov_len;
    }
    if (wanted == incoming_left_ || !is_in_frame_) {
        parts[count++] = {.iov_base = ahead_.data() + ahead_end_,
                          .iov_len = kAheadBytes - ahead_end_};
    }
    const auto received = link.recv(std::span(parts).first(count));
    if (received == 0) {
        return false;
    }
    const auto of_frame = std::min(received, wanted);
    if (of_frame != 0 && target_ != nullptr) {
        target_->advance(of_frame);
    }
    incoming_left_ -= of_frame;
    ahead_end_ += received - of_frame;
    if (is_in_frame_ && incoming_left_ == 0) {
        is_in_frame_ = false;
        owner_.on_payload(rank_, incoming_);
    }
    HVD_TRY_STATUS(take_header());
    return true;
}

}  // namespace hvd::coll::tcp
