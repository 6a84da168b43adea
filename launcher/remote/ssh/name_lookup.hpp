// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/remote/command/command_transport.hpp"

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace hvd::launch::ssh {

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    std::string text;  // "10.0.0.1"
};

/// A literal address, also with a scope ("fe80::1%eth0").
[[nodiscard]] std::optional<Address> parse_address(std::string_view text, int port);

/// What `getent ahosts` printed, each address once. `family`: AF_INET, AF_INET6, or all.
[[nodiscard]] std::vector<Address> parse_getent(std::string_view output,
                                                int port,
                                                std::optional<int> family);

/// Resolves a name by the system's `getent`, which asks whatever nsswitch.conf names. A child
/// process can be killed when a name server does not answer; a call of getaddrinfo cannot.
class NameLookup final {
public:
    NameLookup(IoThread& io, const std::string& name, const sigset_t& signal_mask);

    /// `done` gets what getent printed. Errors: unavailable, in words for the user.
    void start(std::function<void(Result<std::string>)> done);

private:
    std::string name_;
    std::string output_;
    CommandTransport getent_;
};

}  // namespace hvd::launch::ssh
