// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <string>
#include <vector>

namespace hvd::launch::agent {

/// An abstract socket whose random name only agents of the same machine can reach, or to be exact
/// of the same network namespace, as ranks that may share memory have it.
class SameHostSocket {
public:
    /// No name where the kernel gives no socket: then nobody is found to be on this machine.
    SameHostSocket();

    [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
    std::string name_;
    UniqueFd socket_;
};

/// The names of agents that are on this machine.
[[nodiscard]] std::vector<std::string> find_same_host(const std::vector<std::string>& names);

}  // namespace hvd::launch::agent
