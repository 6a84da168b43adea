// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/external_place.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "collectives/launch_contract/pmi_server.hpp"
#include "collectives/rendezvous/tcp/store_client.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/port_holder.hpp"
#include "runtime/bootstrap/arrange.hpp"
#include "runtime/bootstrap/key_value_store.hpp"
#include "runtime/bootstrap/mpi_store.hpp"
#include "runtime/bootstrap/server_notice.hpp"
#include "runtime/bootstrap/server_plan.hpp"
#include "runtime/bootstrap/store_credentials.hpp"

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <netdb.h>
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
            "the host " + host + " of the store server has no address" +
                (outcome != 0 ? std::string(": ") + ::gai_strerror(outcome) : std::string())};
    }
    return addresses;
}

/// The launcher's process on this host, above all ranks that it has started here.
Result<ProcessId> find_launcher(const coll::ExternalLaunch& launch,
                                const Environment& environment) {
    const auto server =
        launch.launcher == coll::Launcher::pmi ? coll::find_pmi_server(environment) : std::nullopt;
    if (server) {
        return identify_process(*server);
    }
    return find_ancestor_without(launch.job_entry);
}

/// The launcher's process tells the jobs of one host apart.
Status name_group_by_launcher(WorldPlace& place,
                              const coll::ExternalLaunch& launch,
                              const ExternalOptions& options) {
    HVD_TRY(const auto launcher, find_launcher(launch, options.environment));
    place.launcher = launcher.pid;
    place.group_name = "horovod/" + std::to_string(getuid()) + "/" + std::to_string(launcher.pid) +
                       "." + launcher.start_time + "/" + std::to_string(options.generation);
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

/// Where the store server is, and how this rank proves itself there.
struct ServerLocation {
    ServerAddress where{};
    std::string job{};
    Credentials credentials{};
};

/// Where the user chose the ports, the error names their holders.
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

/// Serves the store at the socket; this rank connects to it from here.
Status serve(WorldPlace& place, coll::store::ServerSocket socket, ServerLocation& location) {
    location.where.ports = {socket.port};
    HVD_TRY(place.server, StoreServer::open(std::move(socket), place.topology.size, location.job,
                                            location.credentials));
    return ok();
}

IpAddress own_loopback() {
    return *coll::net::parse_ip("127.0.0.1");
}

/// At an address that the launcher tells.
Result<ServerLocation> locate_by_address(WorldPlace& place,
                                         const coll::ExternalLaunch& launch,
                                         const ExternalOptions& options,
                                         const Credentials& credentials) {
    HVD_TRY(const auto plan,
            plan_server(options.environment, launch, options.config.ports, options.generation));
    ServerLocation location{.where = {.ips = {}, .ports = plan.ports, .name = plan.host},
                            .job = plan.job,
                            .credentials = credentials};
    if (!plan.is_server) {
        HVD_TRY(location.where.ips, resolve(plan.host));
        return location;
    }
    // At all addresses, but where the user named this host by a loopback address.
    const auto literal = coll::net::parse_ip(plan.host == "localhost" ? "127.0.0.1" : plan.host);
    const auto at = literal && is_loopback(*literal) ? literal : std::nullopt;
    HVD_TRY(auto socket, open_server_socket(at, plan.ports, options.config.ports.first != 0));
    location.where.ips = {at.value_or(own_loopback())};
    HVD_TRY_STATUS(serve(place, std::move(socket), location));
    return location;
}

/// Rank 0 serves at any address, and puts address and key into the launcher's key-value store.
Result<ServerLocation> locate_by_key_value_store(WorldPlace& place,
                                                 const coll::ExternalLaunch& launch,
                                                 const ExternalOptions& options,
                                                 KeyValueStore& store,
                                                 Deadline deadline) {
    const auto name = "horovod-" + std::to_string(options.generation);
    ServerLocation location{.where = {.ips = {}, .ports = {}, .name = "rank 0"},
                            .job = launch.job + "#" + std::to_string(options.generation),
                            .credentials = {.kind = Authentication::key}};
    if (launch.rank != 0) {
        HVD_TRY(const auto text, store.get(name, deadline));
        HVD_TRY(const auto notice, decode_notice(text));
        location.where.ips = notice.ips;
        location.where.ports = {notice.port};
        location.credentials.secret = notice.secret;
        return location;
    }
    HVD_TRY(auto all, coll::net::host_addresses());
    HVD_TRY(const auto allowed,
            coll::net::allowed_addresses(std::move(all), options.config.interfaces));
    const auto ports = ports_of(options.config.ports);
    HVD_TRY(auto socket, open_server_socket({}, ports, options.config.ports.first != 0));
    HVD_TRY(const auto secret, coll::random_world_key());
    location.credentials.secret.assign(secret.begin(), secret.end());
    const ServerNotice notice{.port = socket.port,
                              .secret = location.credentials.secret,
                              .ips = public_addresses(allowed)};
    HVD_TRY_STATUS(serve(place, std::move(socket), location));
    location.where.ips = {own_loopback()};
    HVD_TRY_STATUS(store.put(name, encode_notice(notice), deadline));
    return location;
}

bool starts_mpi_programs(coll::Launcher launcher) {
    return launcher == coll::Launcher::ompi || launcher == coll::Launcher::pmix ||
           launcher == coll::Launcher::pmi || launcher == coll::Launcher::jsrun;
}

/// By the launcher's key-value store; where it has none that works, as an Open MPI that keeps PMIx
/// to itself: at an address that the user tells, else by MPI itself.
Result<ServerLocation> locate_by_launcher(WorldPlace& place,
                                          const coll::ExternalLaunch& launch,
                                          const ExternalOptions& options,
                                          Deadline deadline) {
    const auto found = find_key_value_store(options.environment, launch.size, deadline);
    if (found) {
        return locate_by_key_value_store(place, launch, options, **found, deadline);
    }
    if (found.error().code != Errc::unavailable) {
        return found.error();
    }
    if (find(options.environment, kKeyFile) && find(options.environment, kServerHost)) {
        HVD_TRY(const auto credentials, find_credentials(options.environment, launch));
        return locate_by_address(place, launch, options, credentials);
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
                                            std::string(kServerHost) + " to the host of rank 0"};
    }
    return locate_by_key_value_store(place, launch, options, **started, deadline);
}

/// By MPI where the program has started it, else by what the launcher offers. Slurm offers an
/// address, but perhaps no authentication, and a program's MPI may need its PMI for itself.
Result<ServerLocation> locate_server(WorldPlace& place,
                                     const coll::ExternalLaunch& launch,
                                     const ExternalOptions& options,
                                     Deadline deadline) {
    KeyValueStore* store = options.store;
    if (options.mpi != nullptr && launch.launcher != coll::Launcher::torchrun) {
        HVD_TRY(store, options.mpi->if_started(launch, deadline));
    }
    if (store != nullptr) {
        return locate_by_key_value_store(place, launch, options, *store, deadline);
    }
    if (launch.launcher != coll::Launcher::torchrun && launch.launcher != coll::Launcher::slurm) {
        return locate_by_launcher(place, launch, options, deadline);
    }
    auto credentials = find_credentials(options.environment, launch);
    if (credentials) {
        return locate_by_address(place, launch, options, *credentials);
    }
    if (credentials.error().code == Errc::unavailable &&
        (find(options.environment, "PMI_FD") || find(options.environment, "PMIX_NAMESPACE"))) {
        return locate_by_launcher(place, launch, options, deadline);
    }
    return std::move(credentials).error();
}

Status join_store(WorldPlace& place,
                  const coll::ExternalLaunch& launch,
                  const ExternalOptions& options,
                  Deadline deadline) {
    HVD_TRY(const auto location, locate_server(place, launch, options, deadline));
    if (location.credentials.kind == Authentication::none) {
        place.warning = std::string(describe(launch.launcher)) +
                        " gives the ranks no key: any process that can reach " +
                        location.where.name +
                        " may take part; HOROVOD_JOB_KEY_FILE or horovodrun prevent that";
    }
    const auto self = introduce(launch, place.host);
    HVD_TRY(auto client, StoreClient::connect(location.where, location.job, location.credentials,
                                              self, deadline));
    HVD_TRY(const auto membership, client->membership(deadline));
    HVD_TRY(place.topology, arrange(membership, launch.rank));
    place.client = std::move(client);
    place.host_id = self.node;
    place.prefix = coll::world_prefix(options.generation);
    return ok();
}

}  // namespace

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

Result<WorldPlace> place_by_external_launcher(const coll::ExternalLaunch& launch,
                                              const ExternalOptions& options,
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
        HVD_TRY_STATUS(name_group_by_launcher(place, launch, options));
        return place;
    }
    HVD_TRY_STATUS(join_store(place, launch, options, deadline));
    place.needs_tcp = wants_tcp || place.topology.local_size != place.topology.size;
    return place;
}

}  // namespace hvd::rt
