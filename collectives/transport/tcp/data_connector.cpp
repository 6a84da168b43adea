// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/data_connector.hpp"

#include "collectives/transport/tcp/remedies.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::net {
namespace {

// Refusals within a second and a half: a rank that has died is known by then.
constexpr int kRounds = 4;

// The rank that is connected to waits longer: the other one knows why it cannot connect, and may
// only be late.
constexpr int kAcceptingFactor = 10;

}  // namespace

DataConnector::DataConnector(std::unique_ptr<ConnectionMaker> maker,
                             Options options,
                             Handlers handlers)
    : maker_(std::move(maker)),
      rank_(options.rank),
      limit_(options.limit),
      handlers_(std::move(handlers)) {
    requests_.reserve(options.targets.size());
    for (auto& target : options.targets) {
        requests_.push_back({.target = std::move(target)});
    }
    maker_->work_for(*this);
    maker_->acceptor().expect(static_cast<std::size_t>(size() - rank_ - 1));
    close_idle_listeners();
}

DataConnector::Request& DataConnector::request_of(int rank) {
    return requests_.at(static_cast<std::size_t>(rank));
}
const DataConnector::Request& DataConnector::request_of(int rank) const {
    return requests_.at(static_cast<std::size_t>(rank));
}

void DataConnector::request(int rank) {
    auto& request = request_of(rank);
    if (handlers_.is_connected(rank) || request.requested_at) {
        return;
    }
    request.requested_at = maker_->elapsed();
    if (is_stopped_) {
        request.failure = Error{Errc::aborted, "the connections of this world are given up"};
    } else if (rank < rank_) {
        maker_->connector().connect(rank, Purpose::data, request.target.endpoints, kRounds);
    }
    maker_->keep_ticking();
}

Status DataConnector::status(int rank) const {
    const auto& failure = request_of(rank).failure;
    return failure ? Status(*failure) : ok();
}

void DataConnector::stop() {
    is_stopped_ = true;
    maker_->stop();
}

bool DataConnector::is_awaited(int rank) const {
    const auto& request = request_of(rank);
    return request.requested_at && !request.failure && !handlers_.is_connected(rank);
}

// A rank that connects again has given up a connection that stands here, and on which something may
// have been sent: that is lost, and the exchange that lacks it fails.
bool DataConnector::admits(int rank, Purpose purpose) const {
    return rank > rank_ && rank < size() &&
           (purpose == Purpose::probe ||
            (purpose == Purpose::data && !handlers_.is_connected(rank)));
}

void DataConnector::on_made(ConnectionMaker::Made made) {
    if (made.purpose != Purpose::data) {
        return;  // that it can be made is all that the peer wanted to know
    }
    handlers_.on_connected(made.rank, std::move(made.socket), std::move(made.address));
    close_idle_listeners();
}

/// Those at which no rank is still to connect.
void DataConnector::close_idle_listeners() {
    maker_->acceptor().keep_listeners([this](const ListenAddress& at) {
        for (int rank = rank_ + 1; rank < size(); ++rank) {
            const auto& here = request_of(rank).target.here;
            if (!handlers_.is_connected(rank) && (!here || *here == at.at.ip)) {
                return true;
            }
        }
        return false;
    });
}

void DataConnector::on_refused(int rank, const Refusal& refusal) {
    request_of(rank).failure =
        Error{Errc::unavailable, handlers_.describe(rank) + " cannot be reached from " +
                                     handlers_.describe(rank_) + " for data: " + refusal.reasons +
                                     (refusal.nobody_listens ? kHasLeft : kRemedy)};
}

void DataConnector::on_accept_failed(const Error& why) {
    for (int rank = rank_ + 1; rank < size(); ++rank) {
        if (is_awaited(rank)) {
            request_of(rank).failure =
                Error(why).context("no data connection with " + handlers_.describe(rank));
        }
    }
}

bool DataConnector::on_tick() {
    bool goes_on = false;
    for (int rank = 0; rank < size() && !is_stopped_; ++rank) {
        if (!is_awaited(rank)) {
            continue;
        }
        auto& request = request_of(rank);
        if (maker_->elapsed() - *request.requested_at > limit_with(rank)) {
            request.failure = late(rank);
        }
        goes_on = goes_on || !request.failure;
    }
    return goes_on;
}

std::chrono::milliseconds DataConnector::limit_with(int rank) const {
    const bool is_unreachable = rank < rank_ && !maker_->connector().was_accepted(rank);
    return is_unreachable ? limit_ : kAcceptingFactor * limit_;
}

Error DataConnector::late(int rank) const {
    const auto limit = std::chrono::duration<double>(limit_with(rank)).count();
    auto seconds = std::to_string(limit);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') {
        seconds.pop_back();
    }
    const auto self = handlers_.describe(rank_);
    const auto peer = handlers_.describe(rank);
    if (rank < rank_) {
        return {Errc::timed_out, self + " has no data connection with " + peer + " after " +
                                     seconds + " s: " + maker_->connector().attempts_at(rank) +
                                     kRemedy};
    }
    std::string where;
    for (const auto& at : listening_at()) {
        where += (where.empty() ? "" : ", ") + to_string(at);
    }
    return {Errc::timed_out, peer + " has not connected with " + self + " for data in " + seconds +
                                 " s, at " + where + kRemedy};
}

}  // namespace hvd::coll::net
