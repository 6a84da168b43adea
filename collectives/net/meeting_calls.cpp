// SPDX-License-Identifier: Apache-2.0
//
// The half of a Meeting that connects to others.
#include "collectives/base/text.hpp"
#include "collectives/net/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/random.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kStagger = 150ms;     // until the next address is tried beside the last one
constexpr auto kRoundPause = 500ms;  // after all addresses have failed
constexpr int kRounds = 2;

}  // namespace

void Meeting::start_attempts(Clock::time_point now) {
    for (std::size_t index = 0; index < calls_.size(); ++index) {
        while (!calls_[index].is_over && calls_[index].next < calls_[index].candidates.size() &&
               calls_[index].next_start <= now) {
            start_attempt(index);
        }
        auto& call = calls_[index];
        if (call.is_over || call.next < call.candidates.size() || has_attempt(index)) {
            continue;
        }
        if (++call.round == kRounds) {
            broken_ = unreachable(call);
            return;
        }
        call.next = 0;
        call.next_start = now + kRoundPause;
        call.failures.clear();
    }
}

void Meeting::start_attempt(std::size_t index) {
    auto& call = calls_[index];
    const auto endpoint = call.candidates[call.next++];
    Nonce nonce{};
    if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
        broken_ = system_error("getrandom", errno);
        return;
    }
    auto socket = begin_connect(endpoint);
    if (!socket) {
        call.failures.push_back(to_string(endpoint) + ": " + socket.error().message);
        return;
    }
    call.next_start = Clock::now() + kStagger;
    add_talk(Conversation(std::move(socket).value(),
                          Handshake::connecting(key_, self(), call.peer, call.lane, nonce),
                          Deadline::in(kAttemptLimit)),
             index, endpoint);
}

bool Meeting::has_attempt(std::size_t call) const {
    return std::ranges::any_of(
        talks_, [&](const auto& talk) { return !talk->is_over && talk->call == call; });
}

void Meeting::fail_attempt(Talk& talk, const std::string& why) {
    end(talk);
    if (talk.call == kNoCall) {
        return;  // a stranger, or a rank that comes again
    }
    auto& call = calls_[talk.call];
    call.failures.push_back(to_string(talk.endpoint) + " (" + talk.endpoint.at.interface +
                            "): " + why);
    call.next_start = {};  // no reason to wait with the next one
}

/// The first that answers is the one: the others are given up.
void Meeting::choose(Talk& talk) {
    auto& call = calls_[talk.call];
    for (const auto& other : talks_) {
        if (other.get() != &talk && other->call == talk.call) {
            end(*other);
        }
    }
    call.next = call.candidates.size();
    talk.conversation.handshake().prove();
    on_event(talk);
}

void Meeting::finish_call(Talk& talk) {
    auto& call = calls_[talk.call];
    call.is_over = true;
    keep(talk);
    used_[static_cast<std::size_t>(call.peer)] =
        to_string(talk.endpoint) + " (" + talk.endpoint.at.interface + ")";
    if (call.lane == Lane::control) {
        // The way is known now.
        calls_.push_back({.peer = call.peer, .lane = Lane::data, .candidates = {talk.endpoint}});
    }
}

/// What has become of them so far: " (ADDRESS (INTERFACE): no answer yet)"; empty where the peer is
/// to call.
std::string Meeting::attempts_at(int rank) const {
    std::vector<std::string> parts;
    for (const auto& call : calls_) {
        if (call.peer == rank && !call.is_over) {
            parts.insert(parts.end(), call.failures.begin(), call.failures.end());
        }
    }
    for (const auto& talk : talks_) {
        if (talk->call != kNoCall && !talk->is_over && calls_[talk->call].peer == rank) {
            parts.push_back(to_string(talk->endpoint) + " (" + talk->endpoint.at.interface +
                            "): no answer yet");
        }
    }
    return parts.empty() ? "" : " (" + join(parts, "; ") + ")";
}

Error Meeting::unreachable(const Call& call) const {
    return {Errc::unavailable, describe(call.peer) + " cannot be reached from rank " +
                                   std::to_string(options_.rank) + " on host " + options_.host +
                                   ": " + join(call.failures, "; ") +
                                   "; a firewall, or see HOROVOD_NETWORK_INTERFACES and "
                                   "HOROVOD_PORT_RANGE"};
}

}  // namespace hvd::coll::net
