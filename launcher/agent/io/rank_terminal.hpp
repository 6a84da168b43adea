// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/processes/spawner.hpp"
#include "launcher/wire/messages.hpp"

#include <optional>

namespace hvd::launch::agent {

/// The terminal of the one rank that has one: a pseudo-terminal. One end is that rank's standard
/// input, output and error; what the launcher sends is typed at the other, and what appears there
/// is output.
class RankTerminal final {
public:
    /// Of an open terminal, whose foreground processes get SIGWINCH, or of the one that is opened.
    void resize(const wire::WindowSize& size);

    /// Opens it, or says which step failed.
    [[nodiscard]] std::optional<SpawnFailure> open();

    /// For the rank. It stays open here, too: a terminal that nobody has open counts as ended, and
    /// a rank may close its streams and open /dev/tty.
    [[nodiscard]] int rank_end() const noexcept { return rank_end_.get(); }

    /// For who types or reads: a descriptor more, which does not block. None where the process is
    /// out of descriptors.
    [[nodiscard]] UniqueFd user_end() const;

    /// The rank has ended. The terminal ends with its last user.
    void close();

private:
    wire::WindowSize size_;
    UniqueFd user_end_;
    UniqueFd rank_end_;
};

}  // namespace hvd::launch::agent
