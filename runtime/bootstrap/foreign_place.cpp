// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/foreign_place.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/base/random_id.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/port_holder.hpp"
#include "runtime/bootstrap/foreign_board.hpp"
#include "runtime/bootstrap/foreign_credentials.hpp"
#include "runtime/bootstrap/foreign_meeting.hpp"
#include "runtime/bootstrap/foreign_notice.hpp"
#include "runtime/bootstrap/foreign_roll.hpp"
#include "runtime/bootstrap/mpi_board.hpp"

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

using coll::net::IpAddress;
using coll::store::Authentication;
using coll::store::Credentials;
using coll::store::Member;
using coll::store::ServerAddress;
using coll::store::StoreClient;
using coll::store::StoreServer;

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
Status meet_by_launcher(WorldPlace& place, const coll::ExternalLaunch& launch, int generation) {
    HVD_TRY(const auto launcher, find_ancestor_without(launch.mark));
    place.group.launcher = launcher.pid;
    place.group.name = "horovod/" + std::to_string(getuid()) + "/" + std::to_string(launcher.pid) +
                       "." + launcher.start_time + "/" + std::to_string(generation);
    return ok();
}

/// Ranks of one host of which no launcher said so: a key and a name come through the store.
Status meet_by_store(WorldPlace& place, Deadline deadline) {
    const auto name = place.prefix + "local";
    if (place.topology.local_rank == 0) {
        HVD_TRY(const auto key, random_world_key());
        HVD_TRY(const auto id, random_id());
        auto value = key;
        const auto replies = std::as_bytes(std::span(id));
        value.insert(value.end(), replies.begin(), replies.end());
        HVD_TRY_STATUS(place.visit->put(name, value));
    }
    HVD_TRY(const auto value, place.visit->get(name, deadline));
    if (value.size() <= kKeyBytes) {
        return Error{Errc::internal, "the key of the ranks of this host is malformed"};
    }
    const std::span all(value);
    const auto id = all.subspan(kKeyBytes);
    place.group.key.assign(all.begin(), all.begin() + kKeyBytes);
    place.group.name =
        "horovod/" + std::string(reinterpret_cast<const char*>(id.data()), id.size());
    return ok();
}

Member introduce(const coll::ExternalLaunch& launch, const std::string& host) {
    return {.rank = launch.rank,
            .size = launch.size,
            .local_rank = launch.local_rank.value_or(-1),
            .local_size = launch.local_size.value_or(-1),
            .pid = static_cast<std::int32_t>(::getpid()),
            .host = host,
            .node = launch.node ? "node " + std::to_string(*launch.node)
                                : host + " " + coll::net::network_identity()};
}

/// Where and how this rank meets the others.
struct Meeting {
    ServerAddress where{};
    std::string job{};
    Credentials credentials{};
};

/// Where the user chose the ports, the error says who has them.
Result<coll::store::ServerSocket> open_server_socket(const std::optional<IpAddress>& at,
                                                     std::span<const std::uint16_t> ports,
                                                     bool is_chosen) {
    auto socket = coll::store::open_server_socket(at, ports);
    if (!socket && is_chosen) {
        const IpAddress everywhere{.is_v6 = true};
        auto error = std::move(socket).error().context("HOROVOD_PORT_RANGE");
        error.message +=
            coll::net::tell_port_holders(at.value_or(everywhere), {ports.front(), ports.back()});
        return error;
    }
    return socket;
}

/// Keeps the point behind the socket; this rank comes to it from here.
Status keep(WorldPlace& place, coll::store::ServerSocket socket, Meeting& meeting) {
    meeting.where.ports = {socket.port};
    HVD_TRY(place.point, StoreServer::open(std::move(socket), place.topology.size, meeting.job,
                                           meeting.credentials));
    return ok();
}

IpAddress own_loopback() {
    return *coll::net::parse_ip("127.0.0.1");
}

/// At an address that the launcher tells.
Result<Meeting> meet_by_address(WorldPlace& place,
                                const coll::ExternalLaunch& launch,
                                const ForeignOptions& options,
                                const Credentials& credentials) {
    HVD_TRY(const auto plan,
            plan_meeting(options.environment, launch, options.config.ports, options.generation));
    Meeting meeting{.where = {.ips = {}, .ports = plan.ports, .name = plan.host},
                    .job = plan.job,
                    .credentials = credentials};
    if (!plan.is_keeper) {
        HVD_TRY(meeting.where.ips, resolve(plan.host));
        return meeting;
    }
    // At all addresses, but where the user named this host by a loopback address.
    const auto literal = coll::net::parse_ip(plan.host == "localhost" ? "127.0.0.1" : plan.host);
    const auto at = literal && is_loopback(*literal) ? literal : std::nullopt;
    HVD_TRY(auto socket, open_server_socket(at, plan.ports, options.config.ports.first != 0));
    meeting.where.ips = {at.value_or(own_loopback())};
    HVD_TRY_STATUS(keep(place, std::move(socket), meeting));
    return meeting;
}

/// Rank 0 opens a point anywhere and leaves address and key with the launcher.
Result<Meeting> meet_by_board(WorldPlace& place,
                              const coll::ExternalLaunch& launch,
                              const ForeignOptions& options,
                              Board& board,
                              Deadline deadline) {
    const auto name = "horovod-" + std::to_string(options.generation);
    Meeting meeting{.where = {.ips = {}, .ports = {}, .name = "rank 0"},
                    .job = launch.job + "#" + std::to_string(options.generation),
                    .credentials = {.kind = Authentication::key}};
    if (launch.rank != 0) {
        HVD_TRY(const auto text, board.read(name, deadline));
        HVD_TRY(const auto notice, decode_notice(text));
        meeting.where.ips = notice.ips;
        meeting.where.ports = {notice.port};
        meeting.credentials.secret = notice.secret;
        return meeting;
    }
    HVD_TRY(auto all, coll::net::host_addresses());
    HVD_TRY(const auto allowed,
            coll::net::allowed_addresses(std::move(all), options.config.interfaces));
    const auto ports = ports_of(options.config.ports);
    HVD_TRY(auto socket, open_server_socket({}, ports, options.config.ports.first != 0));
    HVD_TRY(meeting.credentials.secret, random_world_key());
    const Notice notice{.port = socket.port,
                        .secret = meeting.credentials.secret,
                        .ips = public_addresses(allowed)};
    HVD_TRY_STATUS(keep(place, std::move(socket), meeting));
    meeting.where.ips = {own_loopback()};
    HVD_TRY_STATUS(board.post(name, encode_notice(notice), deadline));
    return meeting;
}

bool starts_mpi_programs(coll::Launcher launcher) {
    return launcher == coll::Launcher::ompi || launcher == coll::Launcher::pmix ||
           launcher == coll::Launcher::pmi || launcher == coll::Launcher::jsrun;
}

/// By the launcher's board; where it has none that works, as an Open MPI that keeps PMIx to itself:
/// at an address that the user tells, else by MPI itself.
Result<Meeting> meet_by_launchers_board(WorldPlace& place,
                                        const coll::ExternalLaunch& launch,
                                        const ForeignOptions& options,
                                        Deadline deadline) {
    const auto found = find_board(options.environment, launch.size, deadline);
    if (found) {
        return meet_by_board(place, launch, options, **found, deadline);
    }
    if (found.error().code != Errc::unavailable) {
        return found.error();
    }
    if (find(options.environment, kKeyFile) && find(options.environment, kMeetingHost)) {
        HVD_TRY(const auto credentials, find_credentials(options.environment, launch));
        return meet_by_address(place, launch, options, credentials);
    }
    if (options.mpi == nullptr || !starts_mpi_programs(launch.launcher)) {
        return found.error();
    }
    auto started = options.mpi->start(launch, deadline);
    if (!started) {
        return Error{Errc::unavailable, found.error().message + ", and MPI itself does not help (" +
                                            started.error().message + "): set " +
                                            std::string(kKeyFile) +
                                            " to a file on all hosts that only you can read, and " +
                                            std::string(kMeetingHost) + " to the host of rank 0"};
    }
    return meet_by_board(place, launch, options, **started, deadline);
}

/// By MPI where the program has started it, else by what the launcher offers. Slurm offers an
/// address, but perhaps nothing to prove oneself by, and a program's MPI may need its PMI for
/// itself.
Result<Meeting> find_meeting(WorldPlace& place,
                             const coll::ExternalLaunch& launch,
                             const ForeignOptions& options,
                             Deadline deadline) {
    Board* board = options.board;
    if (options.mpi != nullptr && launch.launcher != coll::Launcher::torchrun) {
        HVD_TRY(board, options.mpi->if_started(launch, deadline));
    }
    if (board != nullptr) {
        return meet_by_board(place, launch, options, *board, deadline);
    }
    if (launch.launcher != coll::Launcher::torchrun && launch.launcher != coll::Launcher::slurm) {
        return meet_by_launchers_board(place, launch, options, deadline);
    }
    auto credentials = find_credentials(options.environment, launch);
    if (credentials) {
        return meet_by_address(place, launch, options, *credentials);
    }
    if (credentials.error().code == Errc::unavailable &&
        (find(options.environment, "PMI_FD") || find(options.environment, "PMIX_NAMESPACE"))) {
        return meet_by_launchers_board(place, launch, options, deadline);
    }
    return std::move(credentials).error();
}

Status meet_at_point(WorldPlace& place,
                     const coll::ExternalLaunch& launch,
                     const ForeignOptions& options,
                     Deadline deadline) {
    HVD_TRY(const auto meeting, find_meeting(place, launch, options, deadline));
    if (meeting.credentials.kind == Authentication::none) {
        place.warning = std::string(describe(launch.launcher)) +
                        " gives the ranks no key: whoever can reach " + meeting.where.name +
                        " may take part; HOROVOD_JOB_KEY_FILE or horovodrun prevent that";
    }
    const auto self = introduce(launch, place.host);
    HVD_TRY(auto visit,
            StoreClient::begin(meeting.where, meeting.job, meeting.credentials, self, deadline));
    HVD_TRY(const auto membership, visit->membership(deadline));
    HVD_TRY(place.topology, arrange(membership, launch.rank));
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

Result<WorldPlace> place_by_foreign(const coll::ExternalLaunch& launch,
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
