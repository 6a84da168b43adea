// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/host_connector.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <sys/random.h>

namespace hvd::launch::ssh {
namespace {

/// sshd drops connections at random once 10 are not signed in (MaxStartups).
constexpr int kMaxDrops = 10;
constexpr std::chrono::milliseconds kFirstPause(100);
constexpr std::chrono::milliseconds kLongestPause(2'000);

/// For pauses of different lengths. std::random_device needs arc4random of glibc 2.36.
unsigned random_seed() {
    unsigned seed = 0;
    (void)::getrandom(&seed, sizeof seed, GRND_NONBLOCK);
    return seed;
}

}  // namespace

HostConnector::HostConnector(IoThread& io)
    : io_(io), lookup_(io), dice_(random_seed()), soon_(io) {}

void HostConnector::resolve(const std::string& name,
                            int port,
                            int family,
                            std::function<void(Status)> done) {
    if (auto literal = parse_address(name, port)) {
        addresses_ = {*std::move(literal)};
        soon_.set(Deadline::in({}), [done = std::move(done)] { done(ok()); });
        return;
    }
    lookup_.start(name, port, family, [this, done = std::move(done)](NameLookup::Found found) {
        if (!found) {
            done(std::move(found).error());
            return;
        }
        addresses_ = std::move(found).value();
        done(ok());
    });
}

void HostConnector::connect(std::function<void(Result<std::unique_ptr<ReadyWatch>>)> done) {
    done_ = std::move(done);
    connecting_ = std::make_unique<Connecting>(
        io_, addresses_,
        [this](Result<Connecting::Connected> result) { on_connected(std::move(result)); });
}

void HostConnector::on_connected(Result<Connecting::Connected> result) {
    const auto done = std::move(done_);  // it may connect again
    if (!result) {
        done(std::move(result).error());
        return;
    }
    addresses_ = {addresses_[result->address]};
    done(std::move(result->socket));
}

Status HostConnector::pause(std::function<void()> again) {
    if (++drops_ > kMaxDrops) {
        return Error{Errc::unavailable,
                     "sshd closed " + std::to_string(drops_) +
                         " connections before it said anything; it may be overloaded "
                         "(MaxStartups in its sshd_config), or not let this machine in"};
    }
    const auto longest = std::min(kLongestPause, kFirstPause * (1 << std::min(drops_, 5)));
    std::uniform_int_distribution<long> span(longest.count() / 2, longest.count());
    soon_.set(Deadline::in(std::chrono::milliseconds(span(dice_))), std::move(again));
    return ok();
}

std::string HostConnector::places() const {
    std::vector<std::string> places;
    std::ranges::transform(addresses_, std::back_inserter(places), &Address::text);
    return places.empty() ? "" : join(places, ", ") + ": ";
}

}  // namespace hvd::launch::ssh
