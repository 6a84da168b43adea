// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/start_connections.hpp"

#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/remedies.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::net {
namespace {

constexpr int kRounds = 2;  // of attempts, where all are refused

}  // namespace

StartConnections::StartConnections(Identity self, int size, Deadline deadline)
    : self_(self.rank),
      size_(size),
      deadline_(deadline),
      reactor_(std::make_unique<Reactor>()),
      maker_(std::make_unique<ConnectionMaker>(*reactor_,
                                               std::move(self),
                                               static_cast<std::size_t>(size) * kPurposes)),
      sockets_(static_cast<std::size_t>(size)),
      addresses_(static_cast<std::size_t>(size)) {
    maker_->work_for(*this);
}

Purpose StartConnections::purpose_with(int rank) const noexcept {
    return rank == 0 || self_.rank == 0 ? Purpose::control : Purpose::probe;
}

void StartConnections::connect(int rank, std::vector<ListenAddress> endpoints) {
    maker_->connector().connect(rank, purpose_with(rank), std::move(endpoints), kRounds);
}

Status StartConnections::wait_for(std::vector<int> ranks) {
    while (true) {
        std::erase_if(ranks, [this](int rank) { return !is_missing(rank); });
        if (ranks.empty()) {
            return ok();
        }
        if (broken_) {
            return *broken_;
        }
        if (deadline_.has_passed()) {
            return missing(ranks);
        }
        (void)reactor_->wait(deadline_);
        reactor_->dispatch();
    }
}

UniqueFd& StartConnections::socket(int rank, Purpose purpose) {
    return sockets_.at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(purpose));
}
const UniqueFd& StartConnections::socket(int rank, Purpose purpose) const {
    return sockets_.at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(purpose));
}

const std::string& StartConnections::address_of(int rank) const {
    return addresses_.at(static_cast<std::size_t>(rank));
}

std::string StartConnections::describe(int rank) const {
    const auto& record = records_->at(static_cast<std::size_t>(rank));
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(record.pid) + " on host " +
           record.host + ")";
}

/// A rank that comes again has given up the connection before, except one for data, which may be in
/// use already.
bool StartConnections::admits(int rank, Purpose purpose) const {
    return rank > self_.rank && rank < size_ &&
           (purpose != Purpose::data || !socket(rank, purpose));
}

void StartConnections::on_made(ConnectionMaker::Made made) {
    socket(made.rank, made.purpose) = std::move(made.socket);
    if (!made.address.empty()) {
        addresses_[static_cast<std::size_t>(made.rank)] = std::move(made.address);
    }
}

void StartConnections::on_refused(int rank, const Refusal& refusal) {
    broken_ = Error{Errc::unavailable, describe(rank) + " cannot be reached from rank " +
                                           std::to_string(self_.rank) + " on host " + self_.host +
                                           ": " + refusal.reasons +
                                           (refusal.nobody_listens ? kHasLeft : kRemedy)};
}

Error StartConnections::missing(const std::vector<int>& ranks) const {
    std::vector<std::string> parts;
    for (const int rank : ranks) {
        const auto attempts = maker_->connector().attempts_at(rank);
        parts.push_back(describe(rank) + (attempts.empty() ? "" : " (" + attempts + ")"));
    }
    return {Errc::timed_out, "rank " + std::to_string(self_.rank) + " on host " + self_.host +
                                 " has no connection with " + join(parts, ", ") + kRemedy};
}

}  // namespace hvd::coll::net
