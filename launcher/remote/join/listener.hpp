// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of hosts that join by themselves (`horovodrun --listen`, srun).
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/descriptors.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/join/connection.hpp"
#include "launcher/remote/join/joined_hosts.hpp"
#include "launcher/remote/starter.hpp"

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace hvd::launch {

/// A socket address and how it is written.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// "10.0.0.1:4000", "[fd00::1]:4000".
[[nodiscard]] std::string to_string(const SocketAddress& address);

struct JoinListenerOptions {
    SocketAddress address;  // port 0: one of `ports`, or any
    std::optional<PortSpan> ports{};
    ExpectedHosts expected;
    wire::Key token{};
    std::string build_id;
    std::function<void(const std::string&)> say;  // prints a sentence
    BindingOptions binding{};                     // by which the slots of a host are counted
    std::string_view starter = "join";            // as the plan names it; outlives the job
};

/// The hosts that have joined, in the order of the job, and the starter that hands out their
/// connections.
struct Joined {
    std::vector<Host> hosts;
    std::unique_ptr<Starter> starter;
};

/// Listens until all have joined. A connection has kTimeout to prove the token. At most
/// kMaxUnauthenticated wait at a time: the next one replaces the oldest. Thread: io.
class JoinListener final {
public:
    static constexpr auto kTimeout = std::chrono::seconds(10);
    static constexpr std::size_t kMaxUnauthenticated = 64;

    /// Errors: invalid_argument, when this machine cannot listen there.
    [[nodiscard]] static Result<std::unique_ptr<JoinListener>> open(IoThread& io,
                                                                    JoinListenerOptions options);

    /// Where it listens, with the port that was free where 0 was asked for.
    [[nodiscard]] const SocketAddress& address() const noexcept { return address_; }

    /// Waits until all have joined, and stops listening. Errors: timed_out, with the missing hosts
    /// and the remedy; or the error of `give_up`.
    [[nodiscard]] Result<Joined> gather(
        Deadline deadline,
        std::string_view remedy = "start `horovodrun --join` there, or allow more time");

    /// After `gather`, also one that failed: the hosts that have joined. The starter refuses the
    /// others.
    [[nodiscard]] Joined take_joined();

    /// Ends `gather`.
    void give_up(Error error);

private:
    struct Peer {
        std::unique_ptr<JoinConnection> connection;
        std::string name;         // once it was admitted
        bool is_refused = false;  // and the user knows why
        bool is_over = false;
    };
    using Peers = std::list<Peer>;

    JoinListener(IoThread& io,
                 JoinListenerOptions options,
                 UniqueFd socket,
                 const SocketAddress& address);
    void listen();
    void accept_all();
    void let_in(UniqueFd socket, const SocketAddress& from);
    void make_room();
    void on_introduced(Peer& peer, const wire::Introduction& introduction);
    void refuse(Peer& peer, const std::string& why) const;
    void on_facts(Peer& peer, const HostFacts& facts);
    void on_failed(Peer& peer, const Error& error);
    void finish_if_complete();
    void report_refusal(const std::string& sentence);

    IoThread& io_;
    JoinListenerOptions options_;
    SocketAddress address_;
    JoinedHosts joined_;
    std::optional<ReadableWatch> socket_;
    Peers peers_;
    std::optional<Error> error_;
    bool is_complete_ = false;
    bool is_removal_due_ = false;
    std::size_t refusals_ = 0;  // that were spoken of
    Timer limit_;
    Timer removal_;
    Timer pause_;  // when the process is out of descriptors
};

}  // namespace hvd::launch
