// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/connection_maker.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSpareTalks = 64;  // of strangers, beside those of the ranks
constexpr int kAtOnce = 64;              // taken in before anything else gets its turn
constexpr std::size_t kMostEars = 64;    // that a forked child knows of
constexpr auto kLongestTick = 1s;        // the process may have been stopped, or have had to wait
constexpr auto kDeafness = 1s;

}  // namespace

ConnectionMaker::ConnectionMaker(Reactor& reactor, RankIdentity self, std::size_t most_callers)
    : reactor_(reactor),
      self_(std::move(self)),
      most_talks_(most_callers + kSpareTalks),
      open_(most_talks_ + kMostEars),
      alarm_(reactor, kTick, [this] { tick(); }) {}

ConnectionMaker::~ConnectionMaker() {
    stop();
}

void ConnectionMaker::stop() {
    for (const auto& talk : talks_) {
        end(*talk);
    }
    for (auto& call : calls_) {
        call.is_over = true;
    }
    keep_listeners([](const ListenAddress&) { return false; });
}

void ConnectionMaker::expect(std::size_t most_callers) noexcept {
    most_talks_ = most_callers + kSpareTalks;
}

bool ConnectionMaker::was_let_in(int rank) const {
    return std::ranges::any_of(
        calls_, [&](const Call& call) { return call.peer == rank && call.was_let_in; });
}

// ---- who calls us -------------------------------------------------------------------------------

void ConnectionMaker::listen(Listener listener) {
    heard_at_.push_back(listener.endpoint);
    const int socket = listener.socket.get();
    ears_.push_back({.listener = std::move(listener), .open = open_.add(socket)});
    if (!is_accepting_paused_) {
        hear(ears_.back());
    }
}

void ConnectionMaker::hear(const Ear& ear) {
    const int socket = ear.listener.socket.get();
    reactor_.watch(socket, EPOLLIN, [this, socket](std::uint32_t) { accept_from(socket); });
}

void ConnectionMaker::keep_listeners(
    const std::function<bool(const ListenAddress& at)>& is_needed) {
    for (auto& ear : ears_) {
        if (!is_needed(ear.listener.endpoint)) {
            reactor_.forget(ear.listener.socket.get());
            ear.open = {};
            ear.listener.socket.reset();
        }
    }
    std::erase_if(ears_, [](const Ear& ear) { return !ear.listener.socket; });
    std::erase_if(heard_at_, [&](const ListenAddress& at) {
        return std::ranges::none_of(ears_,
                                    [&](const Ear& ear) { return ear.listener.endpoint == at; });
    });
}

/// Who waits at the door stays there, and would wake us again and again.
void ConnectionMaker::pause_accepting(const Error& why) {
    for (const auto& ear : ears_) {
        reactor_.forget(ear.listener.socket.get());
    }
    is_accepting_paused_ = true;
    accepting_paused_until_ = Clock::now() + kDeafness;
    keep_ticking();
    owner_->on_accept_failed(why);
}

void ConnectionMaker::accept_from(int listener) {
    for (int taken = 0; taken < kAtOnce && !is_accepting_paused_; ++taken) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                pause_accepting(
                    system_error("cannot accept a connection (see `ulimit -n`)", errno));
            }
            return;  // nothing waits, or who waited has gone
        }
        make_room();
        Nonce nonce{};
        if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
            pause_accepting(system_error("getrandom", errno));
            return;
        }
        add_talk(PendingConnection(std::move(socket), Handshake::listening(key_, self_, nonce),
                                   Deadline::in(kAttemptLimit)),
                 kNoCall, {});
    }
}

/// The oldest goes: a rank needs no longer than the network, and comes again if it is turned away.
void ConnectionMaker::make_room() {
    std::erase_if(talks_, [](const auto& talk) { return talk->is_over; });
    const auto has_called = [](const auto& talk) { return talk->call == kNoCall; };
    if (static_cast<std::size_t>(std::ranges::count_if(talks_, has_called)) >= most_talks_) {
        end(**std::ranges::find_if(talks_, has_called));
    }
}

void ConnectionMaker::add_talk(PendingConnection conversation,
                               std::size_t call,
                               const ListenAddress& endpoint) {
    const int socket = conversation.descriptor();
    talks_.push_back(std::make_unique<Talk>(Talk{.conversation = std::move(conversation),
                                                 .call = call,
                                                 .endpoint = endpoint,
                                                 .open = open_.add(socket)}));
    Talk& talk = *talks_.back();
    reactor_.watch(socket, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                   [this, &talk](std::uint32_t) { on_event(talk); });
    keep_ticking();
}

void ConnectionMaker::on_event(Talk& talk) {
    if (talk.is_over) {
        return;
    }
    if (auto advanced = talk.conversation.advance(); !advanced) {
        fail_attempt(talk, advanced.error());
        return;
    }
    if (talk.call != kNoCall && talk.conversation.is_connected()) {
        calls_[talk.call].was_let_in = true;
    }
    settle(talk);
}

void ConnectionMaker::settle(Talk& talk) {
    if (talk.call != kNoCall && talk.conversation.handshake().is_answered()) {
        choose(talk);
        return;
    }
    if (talk.conversation.is_done()) {
        give(talk);
    }
}

void ConnectionMaker::give(Talk& talk) {
    const auto& handshake = talk.conversation.handshake();
    const bool is_called = talk.call != kNoCall;
    Made made{.rank = handshake.peer().rank,
              .purpose = handshake.purpose(),
              .socket = {},
              .at = talk.endpoint,
              .is_called = is_called};
    if (is_called) {
        calls_[talk.call].is_over = true;
    } else if (!owner_->admits(made.rank, made.purpose)) {
        end(talk);
        return;
    }
    reactor_.forget(talk.conversation.descriptor());
    made.socket = talk.conversation.take_socket();
    talk.is_over = true;
    if (made.purpose == Purpose::probe) {
        talk.open = {};  // the owner closes it
    }
    owner_->on_made(std::move(made));
    talk.open = {};
}

void ConnectionMaker::end(Talk& talk) {
    if (!talk.is_over) {
        reactor_.forget(talk.conversation.descriptor());
        talk.open = {};
        (void)talk.conversation.take_socket();
        talk.is_over = true;
    }
}

// ---- time ---------------------------------------------------------------------------------------

void ConnectionMaker::keep_ticking() {
    if (!alarm_.is_set()) {
        last_tick_ = Clock::now();
        alarm_.set();
    }
}

void ConnectionMaker::tick() {
    const auto now = Clock::now();
    elapsed_ += std::min<Clock::duration>(now - std::exchange(last_tick_, now), kLongestTick);
    std::erase_if(talks_, [](const auto& talk) { return talk->is_over; });
    if (is_accepting_paused_ && now >= accepting_paused_until_) {
        is_accepting_paused_ = false;
        for (const auto& ear : ears_) {
            hear(ear);
        }
    }
    expire(now);
    start_attempts(now);
    if (!owner_->on_tick() && !is_busy()) {
        alarm_.clear();
    }
}

bool ConnectionMaker::is_busy() const {
    return is_accepting_paused_ || !talks_.empty() ||
           std::ranges::any_of(calls_, [](const Call& call) { return !call.is_over; });
}

void ConnectionMaker::expire(Clock::time_point now) {
    // NOLINTNEXTLINE(modernize-loop-convert): the list may grow under our feet
    for (std::size_t index = 0; index < talks_.size(); ++index) {
        Talk& talk = *talks_[index];
        const auto end = talk.conversation.limit().end();
        if (!talk.is_over && end && *end <= now) {
            if (talk.call != kNoCall) {
                calls_[talk.call].is_silent = true;
            }
            fail_attempt(talk, {Errc::timed_out,
                                "no answer in " + std::to_string(kAttemptLimit.count()) + " s"});
        }
    }
}

}  // namespace hvd::coll::net
