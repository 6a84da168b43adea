// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/foreign_place.hpp"

#include "collectives/base/random_id.hpp"
#include "runtime/bootstrap/foreign_credentials.hpp"
#include "runtime/bootstrap/foreign_meeting.hpp"
#include "runtime/bootstrap/foreign_process.hpp"
#include "runtime/bootstrap/foreign_roll.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <netdb.h>
#include <sys/random.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

using coll::meeting::Credentials;
using coll::meeting::Guest;
using coll::meeting::Point;
using coll::meeting::PointAddress;
using coll::meeting::ProofKind;
using coll::meeting::Visit;
using coll::net::IpAddress;

constexpr std::size_t kKeyBytes = 32;

struct AddressListDeleter {
    void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

Result<std::vector<IpAddress>> resolve(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int outcome = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, AddressListDeleter> list(found);
    std::vector<IpAddress> addresses;
    for (const auto* entry = found; outcome == 0 && entry != nullptr; entry = entry->ai_next) {
        std::array<char, NI_MAXHOST> text{};
        if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                          NI_NUMERICHOST) != 0) {
            continue;
        }
        if (const auto address = coll::net::parse_ip(text.data())) {
            addresses.push_back(*address);
        }
    }
    if (addresses.empty()) {
        return Error{
            Errc::unavailable,
            "the host " + host + " of the meeting point has no address" +
                (outcome != 0 ? std::string(": ") + ::gai_strerror(outcome) : std::string())};
    }
    return addresses;
}

/// The launcher's process tells the jobs of one host apart.
Status meet_by_launcher(WorldPlace& place, const ForeignLaunch& launch, int generation) {
    HVD_TRY(const auto launcher, find_launcher(launch.mark));
    place.meeting.launcher = launcher.pid;
    place.meeting.socket = "horovod/" + std::to_string(getuid()) + "/" +
                           std::to_string(launcher.pid) + "." + launcher.start_time + "/" +
                           std::to_string(generation);
    return ok();
}

/// Ranks of one host of which no launcher said so: a key and a name come through the store.
Status meet_by_store(WorldPlace& place, Deadline deadline) {
    const auto name = place.prefix + "local";
    if (place.topology.local_rank == 0) {
        HVD_TRY(const auto key, random_world_key());
        HVD_TRY(const auto id, random_id());
        auto value = key;
        const auto letters = std::as_bytes(std::span(id));
        value.insert(value.end(), letters.begin(), letters.end());
        HVD_TRY_STATUS(place.visit->put(name, value));
    }
    HVD_TRY(const auto value, place.visit->get(name, deadline));
    if (value.size() <= kKeyBytes) {
        return Error{Errc::internal, "the key of the ranks of this host is malformed"};
    }
    const std::span all(value);
    const auto id = all.subspan(kKeyBytes);
    place.meeting.key.assign(all.begin(), all.begin() + kKeyBytes);
    place.meeting.socket =
        "horovod/" + std::string(reinterpret_cast<const char*>(id.data()), id.size());
    return ok();
}

Guest introduce(const ForeignLaunch& launch, const std::string& host) {
    return {.rank = launch.rank,
            .size = launch.size,
            .local_rank = launch.local_rank.value_or(-1),
            .local_size = launch.local_size.value_or(-1),
            .pid = static_cast<std::int32_t>(::getpid()),
            .host = host,
            .node = launch.node ? "node " + std::to_string(*launch.node) : host};
}

/// Opens the door at all addresses, but where the user named this host by a loopback address.
Result<PointAddress> keep_point(WorldPlace& place,
                                const MeetingPlan& plan,
                                const Credentials& credentials) {
    const auto literal = coll::net::parse_ip(plan.host == "localhost" ? "127.0.0.1" : plan.host);
    const auto at = literal && is_loopback(*literal) ? literal : std::nullopt;
    HVD_TRY(auto door, coll::meeting::open_door(at, plan.ports));
    const PointAddress here{.ips = {at.value_or(*coll::net::parse_ip("127.0.0.1"))},
                            .ports = {door.port},
                            .name = plan.host};
    HVD_TRY(place.point, Point::open(std::move(door), place.topology.size, plan.job, credentials));
    return here;
}

Status meet_at_point(WorldPlace& place,
                     const ForeignLaunch& launch,
                     const ForeignOptions& options,
                     Deadline deadline) {
    HVD_TRY(const auto plan,
            plan_meeting(options.environment, launch, options.config.ports, options.generation));
    HVD_TRY(const auto credentials, find_credentials(options.environment, launch));
    PointAddress where{.ips = {}, .ports = plan.ports, .name = plan.host};
    if (plan.is_keeper) {
        HVD_TRY(where, keep_point(place, plan, credentials));
    } else {
        HVD_TRY(where.ips, resolve(plan.host));
    }
    if (credentials.kind == ProofKind::none) {
        place.warning = std::string(describe(launch.launcher)) +
                        " gives the ranks no key: whoever can reach " + plan.host +
                        " may take part; HOROVOD_JOB_KEY_FILE or horovodrun prevent that";
    }
    const auto self = introduce(launch, place.host);
    HVD_TRY(auto visit, Visit::begin(where, plan.job, credentials, self, deadline));
    HVD_TRY(const auto roll, visit->roll(deadline));
    HVD_TRY(place.topology, arrange(roll, launch.rank));
    place.visit = std::move(visit);
    place.home = self.node;
    place.prefix = "world/" + std::to_string(options.generation) + "/";
    return ok();
}

}  // namespace

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

Result<std::vector<std::byte>> random_world_key() {
    std::vector<std::byte> key(kKeyBytes);
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
        return system_error("getrandom", errno);
    }
    return key;
}

Result<WorldPlace> place_by_foreign(const ForeignLaunch& launch,
                                    const ForeignOptions& options,
                                    Deadline deadline) {
    WorldPlace place;
    place.host = host_name();
    place.source = describe(launch.launcher);
    place.topology = {.rank = launch.rank,
                      .size = launch.size,
                      .local_rank = launch.local_rank.value_or(0),
                      .local_size = launch.local_size.value_or(1)};
    if (launch.size == 1) {
        place.topology.local_rank = 0;
        place.topology.local_size = 1;
        return place;
    }
    const bool wants_tcp = options.config.cpu_operations == CpuOperations::tcp;
    if (launch.local_rank && launch.local_size == launch.size && !wants_tcp) {
        HVD_TRY_STATUS(meet_by_launcher(place, launch, options.generation));
        return place;
    }
    HVD_TRY_STATUS(meet_at_point(place, launch, options, deadline));
    place.is_connected = wants_tcp || place.topology.local_size != place.topology.size;
    if (!place.is_connected) {
        HVD_TRY_STATUS(meet_by_store(place, deadline));
    }
    return place;
}

}  // namespace hvd::rt
