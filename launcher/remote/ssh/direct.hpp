// SPDX-License-Identifier: Apache-2.0
//
// The seam between the starter and libssh2, which a build may not have (HVD_WITH_SSH).
#pragma once

#include "launcher/model/host.hpp"
#include "launcher/remote/bootstrap/transport.hpp"
#include "launcher/remote/factory.hpp"

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch::ssh {

/// Makes connections of our own.
class DirectSsh {
public:
    virtual ~DirectSsh() = default;
    DirectSsh(const DirectSsh&) = delete;
    DirectSsh& operator=(const DirectSsh&) = delete;

    /// Tried in turn, until one succeeds.
    using Lines = std::vector<std::string>;

    /// Makes a transport through a program instead; `reason` says why.
    using MakeOther = std::function<std::unique_ptr<Transport>(const std::string& reason)>;

    [[nodiscard]] virtual std::unique_ptr<Transport> make_transport(const Host& host,
                                                                    const SshTask& task,
                                                                    Lines lines,
                                                                    MakeOther make_other) = 0;

    /// The destination of such a connection, as printed: "root@node1 port 22".
    [[nodiscard]] virtual std::string describe(const Host& host, const SshTask& task) = 0;

protected:
    DirectSsh() = default;
};

/// Nothing in a build without libssh2.
[[nodiscard]] std::unique_ptr<DirectSsh> make_direct_ssh(IoThread& io);

}  // namespace hvd::launch::ssh
