// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/resolve.hpp"

#include "launcher/net/io_thread.hpp"
#include "launcher/net/timer.hpp"

#include <optional>
#include <utility>

namespace hvd::launch {

Result<std::vector<ssh::Address>> resolve(IoThread& io,
                                          const std::string& host,
                                          int port,
                                          Deadline deadline) {
    if (auto literal = ssh::parse_address(host, port)) {
        return std::vector{*std::move(literal)};
    }
    std::optional<ssh::NameLookup::Found> found;
    ssh::NameLookup lookup(io);
    lookup.start(host, port, AF_UNSPEC, [&](ssh::NameLookup::Found addresses) {
        found.emplace(std::move(addresses));
        io.stop();
    });
    Timer limit(io);
    limit.set(deadline, [&io] { io.stop(); });
    io.run();
    limit.cancel();
    if (!found) {
        return Error{Errc::timed_out, "no name server tells the address of " + host + " in time"};
    }
    return *std::move(found);
}

}  // namespace hvd::launch
