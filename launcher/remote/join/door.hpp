// SPDX-License-Identifier: Apache-2.0
//
// Where hosts that are not started by us come in (`horovodrun --listen`).
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/descriptors.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/join/connection.hpp"
#include "launcher/remote/join/roster.hpp"
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
struct DoorAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// "10.0.0.1:4000", "[fd00::1]:4000".
[[nodiscard]] std::string to_string(const DoorAddress& address);

struct DoorOptions {
    DoorAddress address;  // port 0: one of `ports`, or any
    std::optional<PortSpan> ports{};
    JoinWishes wishes;
    wire::Key token{};
    std::string build_id;
    std::function<void(const std::string&)> say;  // a sentence for people
    BindingOptions binding{};                     // by which the slots of a host are counted
    std::string_view starter = "join";            // as the plan names it; outlives the job
};

/// Who has joined, in the order of the job, and the starter that hands out their connections.
struct JoinedHosts {
    std::vector<Host> hosts;
    std::unique_ptr<Starter> starter;
};

/// Listens until all have joined. Strangers get kPatience to prove the token, and at most
/// kMostStrangers at a time are heard: for the next one the oldest goes. Thread: io.
class JoinDoor final {
public:
    static constexpr auto kPatience = std::chrono::seconds(10);
    static constexpr std::size_t kMostStrangers = 64;

    /// Errors: invalid_argument, when this machine cannot listen there.
    [[nodiscard]] static Result<std::unique_ptr<JoinDoor>> open(IoThread& io, DoorOptions options);

    /// Where it listens, with the port that was free where 0 was asked for.
    [[nodiscard]] const DoorAddress& address() const noexcept { return address_; }

    /// Until all are there; then nobody listens any more. Errors: timed_out, with who is missing
    /// and the remedy; or what `give_up` was told.
    [[nodiscard]] Result<JoinedHosts> gather(
        Deadline deadline,
        std::string_view remedy = "start `horovodrun --join` there, or allow more time");

    /// After `gather`, also one that failed: those who are there. The starter refuses the others.
    [[nodiscard]] JoinedHosts take_joined();

    /// Ends `gather`.
    void give_up(Error error);

private:
    struct Guest {
        std::unique_ptr<JoinConnection> connection;
        std::string name;         // once it was let in
        bool is_refused = false;  // and the user knows why
        bool is_over = false;
    };
    using Guests = std::list<Guest>;

    JoinDoor(IoThread& io, DoorOptions options, UniqueFd socket, const DoorAddress& address);
    void listen();
    void accept_all();
    void let_in(UniqueFd socket, const DoorAddress& from);
    void make_room();
    void on_introduced(Guest& guest, const wire::Introduction& introduction);
    void refuse(Guest& guest, const std::string& why) const;
    void on_facts(Guest& guest, const HostFacts& facts);
    void on_failed(Guest& guest, const Error& error);
    void finish_if_complete();
    void say_of_stranger(const std::string& sentence);

    IoThread& io_;
    DoorOptions options_;
    DoorAddress address_;
    JoinRoster roster_;
    std::optional<ReadableWatch> socket_;
    Guests guests_;
    std::optional<Error> error_;
    bool is_complete_ = false;
    bool is_sweep_due_ = false;
    std::size_t refusals_ = 0;  // that were spoken of
    Timer limit_;
    Timer sweep_;
    Timer pause_;  // when the process is out of descriptors
};

}  // namespace hvd::launch
