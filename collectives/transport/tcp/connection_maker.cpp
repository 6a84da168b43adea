// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/connection_maker.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestTick = 1s;  // the process may have been stopped, or have had to wait

}  // namespace

ConnectionMaker::ConnectionMaker(Reactor& reactor, Identity self, std::size_t most_ranks)
    : self_(std::move(self)),
      open_(most_ranks + Acceptor::kSparePlaces),
      acceptor_(
          reactor,
          open_,
          self_,
          most_ranks,
          {.admits = [this](int rank, Purpose purpose) { return owner_->admits(rank, purpose); },
           .on_accepted =
               [this](int rank, Purpose purpose, UniqueFd socket) {
                   owner_->on_made({.rank = rank, .purpose = purpose, .socket = std::move(socket)});
               },
           .on_paused = [this](const Error& why) { owner_->on_accept_failed(why); },
           .on_busy = [this] { keep_ticking(); }}),
      connector_(
          reactor,
          open_,
          self_,
          {.on_connected =
               [this](int rank, Purpose purpose, UniqueFd socket, const ListenAddress& at) {
                   owner_->on_made({.rank = rank,
                                    .purpose = purpose,
                                    .socket = std::move(socket),
                                    .address = to_string(at) + " (" + at.at.interface + ")"});
               },
           .on_refused = [this](int rank, const Refusal& why) { owner_->on_refused(rank, why); },
           .on_busy = [this] { keep_ticking(); }}),
      alarm_(reactor, kTick, [this] { tick(); }) {}

ConnectionMaker::~ConnectionMaker() {
    stop();
}

void ConnectionMaker::stop() {
    connector_.stop();
    acceptor_.stop();
}

void ConnectionMaker::keep_ticking() {
    if (!alarm_.is_set()) {
        last_tick_ = Clock::now();
        alarm_.set();
    }
}

void ConnectionMaker::tick() {
    const auto now = Clock::now();
    elapsed_ += std::min<Clock::duration>(now - std::exchange(last_tick_, now), kLongestTick);
    acceptor_.tick(now);
    connector_.tick(now);
    if (!owner_->on_tick() && !acceptor_.is_busy() && !connector_.is_busy()) {
        alarm_.clear();
    }
}

}  // namespace hvd::coll::net
