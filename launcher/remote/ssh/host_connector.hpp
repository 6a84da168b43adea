// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/net/ready_watch.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/ssh/connecting.hpp"
#include "launcher/remote/ssh/name_lookup.hpp"

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::ssh {

/// Opens sockets to one host: looks its name up once, tries its addresses, and from the first
/// connection on only the one that has answered. Thread: io.
class HostConnector final {
public:
    explicit HostConnector(IoThread& io);

    /// `done` is called once, from the loop. Errors: unavailable, where the name has no address.
    void resolve(const std::string& name, int port, int family, std::function<void(Status)> done);

    /// After `resolve`. `done` is called once, from the loop. Errors: those of Connecting.
    void connect(std::function<void(Result<std::unique_ptr<ReadyWatch>>)> done);

    /// Calls `again` after a pause, since sshd has closed a connection before it said anything.
    /// Errors: unavailable, when that has happened too often.
    [[nodiscard]] Status pause(std::function<void()> again);

    /// "10.0.0.1, 10.0.0.2: "; empty while the host has no address.
    [[nodiscard]] std::string places() const;

private:
    void on_connected(Result<Connecting::Connected> result);

    IoThread& io_;
    NameLookup lookup_;
    std::vector<Address> addresses_;
    std::unique_ptr<Connecting> connecting_;
    std::function<void(Result<std::unique_ptr<ReadyWatch>>)> done_;
    int drops_ = 0;
    std::minstd_rand dice_;
    Timer soon_;
};

}  // namespace hvd::launch::ssh
