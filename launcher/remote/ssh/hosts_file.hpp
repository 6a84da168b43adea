// SPDX-License-Identifier: Apache-2.0
//
// Names that /etc/hosts answers: for them no child process has to be asked.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::launch::ssh {

class HostsFile final {
public:
    /// `nsswitch` and `hosts` are the texts of /etc/nsswitch.conf and /etc/hosts. Knows nothing
    /// where the system would not ask that file first.
    HostsFile(std::string_view nsswitch, std::string_view hosts);

    /// The address where the file has exactly one for the name, in any case of letters: among
    /// several, the system chooses.
    [[nodiscard]] std::optional<std::string> find(std::string_view name) const;

private:
    std::map<std::string, std::string, std::less<>> addresses_;  // empty: there are several
};

/// Reads both files of this machine.
[[nodiscard]] HostsFile read_hosts_file();

}  // namespace hvd::launch::ssh
