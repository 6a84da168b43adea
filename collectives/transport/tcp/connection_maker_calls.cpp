// SPDX-License-Identifier: Apache-2.0
//
// The half of a ConnectionMaker that calls others.
#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/connection_maker.hpp"

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

std::string describe(const ListenAddress& endpoint) {
    return to_string(endpoint) + " (" + endpoint.at.interface + ")";
}

}  // namespace

void ConnectionMaker::call(int peer,
                           Purpose purpose,
                           std::vector<ListenAddress> candidates,
                           int rounds) {
    calls_.push_back(
        {.peer = peer, .purpose = purpose, .candidates = std::move(candidates), .rounds = rounds});
    keep_ticking();
    start_attempts(Clock::now());
}

void ConnectionMaker::start_attempts(Clock::time_point now) {
    for (std::size_t index = 0; index < calls_.size(); ++index) {
        while (!calls_[index].is_over && calls_[index].next < calls_[index].candidates.size() &&
               calls_[index].next_start <= now) {
            start_attempt(index);
        }
        auto& call = calls_[index];
        if (call.is_over || call.next < call.candidates.size() || has_attempt(index)) {
            continue;
        }
        if (!call.is_silent && --call.rounds == 0) {
            call.is_over = true;
            owner_->on_refused(
                call.peer,
                {.reasons = join(call.failures, "; "),
                 .nobody_listens = call.deserted > 0 && call.deserted == call.failures.size()});
            continue;
        }
        call.next = 0;
        call.is_silent = false;
        call.next_start = now + kRoundPause;
    }
}

void ConnectionMaker::start_attempt(std::size_t index) {
    auto& call = calls_[index];
    if (call.next == 0) {
        call.failures.clear();  // of the round before
        call.deserted = 0;
    }
    const auto endpoint = call.candidates[call.next++];
    Nonce nonce{};
    if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
        call.failures.push_back(system_error("getrandom", errno).message);
        return;
    }
    auto socket = begin_connect(endpoint);
    if (!socket) {
        note_failure(call, endpoint, socket.error());
        return;
    }
    call.next_start = Clock::now() + kStagger;
    add_talk(PendingConnection(std::move(socket).value(),
                               Handshake::connecting(key_, self_, call.peer, call.purpose, nonce),
                               Deadline::in(kAttemptLimit)),
             index, endpoint);
}

bool ConnectionMaker::has_attempt(std::size_t call) const {
    return std::ranges::any_of(
        talks_, [&](const auto& talk) { return !talk->is_over && talk->call == call; });
}

void ConnectionMaker::note_failure(Call& call, const ListenAddress& endpoint, const Error& why) {
    call.failures.push_back(describe(endpoint) + ": " + why.message);
    call.deserted += is_refusal(why) ? 1 : 0;
}

void ConnectionMaker::fail_attempt(Talk& talk, const Error& why) {
    end(talk);
    if (talk.call == kNoCall) {
        return;  // a stranger, or a rank that comes again
    }
    auto& call = calls_[talk.call];
    note_failure(call, talk.endpoint, why);
    call.next_start = {};  // no reason to wait with the next one
    start_attempts(Clock::now());
}

/// The first that answers is the one: the others are given up. From here on it has all the time
/// there is: the peer may have taken the proof already, and count on this connection.
void ConnectionMaker::choose(Talk& talk) {
    auto& call = calls_[talk.call];
    for (const auto& other : talks_) {
        if (other.get() != &talk && other->call == talk.call) {
            end(*other);
        }
    }
    call.next = call.candidates.size();
    talk.conversation.handshake().prove();
    talk.conversation.wait_for_ever();
    on_event(talk);
}

std::string ConnectionMaker::attempts_at(int rank) const {
    std::vector<std::string> parts;
    for (const auto& call : calls_) {
        if (call.peer == rank && !call.is_over) {
            parts.insert(parts.end(), call.failures.begin(), call.failures.end());
        }
    }
    for (const auto& talk : talks_) {
        if (talk->call != kNoCall && !talk->is_over && calls_[talk->call].peer == rank) {
            parts.push_back(describe(talk->endpoint) + ": no answer yet");
        }
    }
    return join(parts, "; ");
}

}  // namespace hvd::coll::net
