// SPDX-License-Identifier: Apache-2.0
//
// What an mpirun said when it was asked last which one it is.
#pragma once

#include "collectives/base/env.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::launch {

/// The answer of one `mpirun --version`, kept in the user's cache: $XDG_CACHE_HOME/horovodrun, else
/// ~/.cache/horovodrun, of mode 0700 and ours. It is of use as long as the file of the program
/// (path, inode, size, times) and the variables that MPIs and the dynamic linker read are those it
/// was given under, for a day at most. Nothing is kept for scripts, which may ask anything. What
/// fails here only means that mpirun is asked.
class MpiMemory final {
public:
    /// `program` as it is looked for in the PATH of `environment`.
    MpiMemory(const std::string& program, const Environment& environment);

    [[nodiscard]] std::optional<std::string> recall() const;
    void keep(std::string_view answer) const;

private:
    std::string key_;  // empty: nothing is kept
    std::filesystem::path folder_;
    std::filesystem::path file_;
};

}  // namespace hvd::launch
