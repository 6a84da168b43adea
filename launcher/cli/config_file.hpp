// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/settings.hpp"

#include <filesystem>
#include <string_view>

namespace hvd::launch {

/// The content of a config file.
struct ConfigFile {
    SettingValues settings;
    bool wants_mpi = false;  // an mpirun should start the ranks
};

/// Reads the settings of --config-file: YAML in the schema of the original.
///
///     params: {cycle_time_ms: 3.5}     section and name as in Flag::key
///     controller: gloo                 or mpi, as --mpi says
///
/// A key without value counts as absent. Errors begin with "FILE:LINE: " and name the key: an
/// unknown key (with the nearest known one), a value of the wrong type or range, a key written
/// twice. `file` is used in errors alone.
[[nodiscard]] Result<ConfigFile> parse_config(std::string_view text, std::string_view file);

/// The same from a file of at most 1 MiB.
[[nodiscard]] Result<ConfigFile> read_config_file(const std::filesystem::path& path);

}  // namespace hvd::launch
