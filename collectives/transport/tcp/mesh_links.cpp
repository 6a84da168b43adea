// SPDX-License-Identifier: Apache-2.0
//
// How a Mesh makes data links. A pair has none until both ranks want it, in the same step of the
// same collective; then the higher rank calls. The lower one may be called at any time, since it is
// in its reactor that calls are answered, whether it has come to that step or not.
#include "collectives/transport/tcp/mesh.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::net {
namespace {

// Refusals within a second and a half: a rank that has died is known by then.
constexpr int kRounds = 4;

// Who is to be called waits longer than who calls. The caller knows why it cannot, and may be late
// for reasons of its own.
constexpr int kPatience = 10;

}  // namespace

void Mesh::request_data_connection(int rank) {
    auto& peer = peers_.at(static_cast<std::size_t>(rank));
    if (peer.data.is_open() || peer.way.wanted_at) {
        return;
    }
    peer.way.wanted_at = maker_->elapsed();
    if (!wants_more_) {
        peer.way.failure = Error{Errc::aborted, "the connections of this world are given up"};
    } else if (rank < rank_) {
        maker_->call(rank, Purpose::data, peer.way.doors, kRounds);
    }
    maker_->keep_ticking();
}

Status Mesh::data_connection_status(int rank) const {
    const auto& failure = peer(rank).way.failure;
    return failure ? Status(*failure) : ok();
}

void Mesh::stop_accepting() {
    wants_more_ = false;
    maker_->stop();
}

bool Mesh::is_awaited(int rank) const {
    const auto& peer = peers_[static_cast<std::size_t>(rank)];
    return peer.way.wanted_at && !peer.way.failure && !peer.data.is_open();
}

// A rank that calls again has given up a connection that stands here, and on which something may
// have been sent: that is lost, and what comes of it the exchange notices.
bool Mesh::admits(int rank, Purpose purpose) const {
    return rank > rank_ && rank < size() &&
           (purpose == Purpose::probe || (purpose == Purpose::data && !peer(rank).data.is_open()));
}

void Mesh::on_made(ConnectionMaker::Made made) {
    if (made.purpose != Purpose::data) {
        return;  // it can be made: nobody wants to know more
    }
    auto& peer = peers_.at(static_cast<std::size_t>(made.rank));
    peer.data = Connection(std::move(made.socket));
    peer.data.watch(*reactor_);
    if (made.is_called) {
        peer.address = to_string(made.at) + " (" + made.at.at.interface + ")";
    }
    close_idle_listeners();
}

/// Those at which no rank is still to call.
void Mesh::close_idle_listeners() {
    maker_->keep_listeners([this](const ListenAddress& at) {
        for (int rank = rank_ + 1; rank < size(); ++rank) {
            const auto& peer = peers_[static_cast<std::size_t>(rank)];
            if (!peer.data.is_open() && (!peer.way.here || *peer.way.here == at.at.ip)) {
                return true;
            }
        }
        return false;
    });
}

void Mesh::on_refused(int rank, const ConnectionMaker::Refusal& refusal) {
    peer(rank).way.failure =
        Error{Errc::unavailable, describe(rank) + " cannot be reached from " + describe(rank_) +
                                     " for data: " + refusal.reasons +
                                     (refusal.nobody_listens ? kHasLeft : kRemedy)};
}

void Mesh::on_accept_failed(const Error& why) {
    for (int rank = rank_ + 1; rank < size(); ++rank) {
        if (is_awaited(rank)) {
            peer(rank).way.failure =
                Error(why).context("no data connection with " + describe(rank));
        }
    }
}

bool Mesh::on_tick() {
    if (!wants_more_) {
        return false;
    }
    bool goes_on = false;
    for (int rank = 0; rank < size(); ++rank) {
        if (!is_awaited(rank)) {
            continue;
        }
        auto& way = peer(rank).way;
        if (maker_->elapsed() - *way.wanted_at > limit_with(rank)) {
            way.failure = late(rank);
        }
        goes_on = goes_on || !way.failure;
    }
    return goes_on;
}

std::chrono::milliseconds Mesh::limit_with(int rank) const {
    const bool is_unreachable = rank < rank_ && !maker_->was_let_in(rank);
    return is_unreachable ? link_limit_ : kPatience * link_limit_;
}

Error Mesh::late(int rank) const {
    const auto limit = std::chrono::duration<double>(limit_with(rank)).count();
    auto seconds = std::to_string(limit);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') {
        seconds.pop_back();
    }
    if (rank < rank_) {
        return {Errc::timed_out, describe(rank_) + " has no data connection with " +
                                     describe(rank) + " after " + seconds +
                                     " s: " + maker_->attempts_at(rank) + kRemedy};
    }
    std::string where;
    for (const auto& at : listening_at()) {
        where += (where.empty() ? "" : ", ") + to_string(at);
    }
    return {Errc::timed_out, describe(rank) + " has not connected with " + describe(rank_) +
                                 " for data in " + seconds + " s, at " + where + kRemedy};
}

}  // namespace hvd::coll::net
