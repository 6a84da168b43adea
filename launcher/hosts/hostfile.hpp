// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <filesystem>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Reads a host file. A line is one of
///
///     node1                       as many slots as the host turns out to have
///     node1:4                     4 slots
///     node1 slots=4 max_slots=8   4 slots; the second number is checked, and used alone if the
///                                 first is missing (ranks never exceed slots that were written)
///     me@node1 port=2222          for SSH; ssh://me@node1:2222/4 says the same in one word
///     n[01-04,07] slots=4         five hosts, in Slurm's short form
///     ^n03                        not this one
///
/// So the files of Open MPI, MPICH, DeepSpeed and Horovod are read as they are.
/// Blanks around '=' do no harm; '#' begins a comment; empty lines are skipped; a host on several
/// lines counts once, with its slots summed. `file` is used in errors alone, which read
/// "FILE:LINE:COLUMN: ..." and name the value.
[[nodiscard]] Result<std::vector<Host>> parse_hostfile(std::string_view text,
                                                       std::string_view file);

/// The same from a file of at most 16 MiB, or from standard input where the path is "-".
[[nodiscard]] Result<std::vector<Host>> read_hostfile(const std::filesystem::path& path);

}  // namespace hvd::launch
