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
                                          const sigset_t& signal_mask,
                                          Deadline deadline) {
    if (auto literal = ssh::parse_address(host, port)) {
        return std::vector{*std::move(literal)};
    }
    std::optional<Result<std::string>> found;
    ssh::NameLookup lookup(io, host, signal_mask);
    lookup.start([&](Result<std::string> output) {
        found.emplace(std::move(output));
        io.stop();
    });
    Timer limit(io);
    limit.set(deadline, [&io] { io.stop(); });
    io.run();
    limit.cancel();
    if (!found) {
        return Error{Errc::timed_out, "no name server tells the address of " + host + " in time"};
    }
    HVD_TRY(const auto output, *std::move(found));
    auto addresses = ssh::parse_getent(output, port, std::nullopt);
    if (addresses.empty()) {
        return Error{Errc::unavailable, "`getent ahosts " + host + "` gives no address"};
    }
    return addresses;
}

}  // namespace hvd::launch
