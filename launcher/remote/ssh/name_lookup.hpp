// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/net/io_thread.hpp"

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

/// Asks getaddrinfo, and so every service that nsswitch.conf names. Thread: io.
///
/// Each call has a separate thread, which is detached: getaddrinfo cannot be cancelled, and
/// horovodrun does not wait for a name server that is silent.
class NameLookup final {
public:
    using Found = Result<std::vector<Address>>;

    explicit NameLookup(IoThread& io);

    /// The answer is dropped when it comes later.
    ~NameLookup();
    NameLookup(const NameLookup&) = delete;
    NameLookup& operator=(const NameLookup&) = delete;

    /// `family`: AF_INET, AF_INET6, or AF_UNSPEC for both. Calls `done` later, once, with at least
    /// one address. Errors: unavailable, in words for the user.
    void start(const std::string& name, int port, int family, std::function<void(Found)> done);

private:
    struct Question;

    std::shared_ptr<Question> question_;
};

}  // namespace hvd::launch::ssh
