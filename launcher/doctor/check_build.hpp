// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "launcher/model/requests.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvd::launch {

/// What --check-build found, as values.
struct BuildFacts {
    struct Item {
        std::string name;
        bool is_there = false;
        std::string note;  // for --verbose: where it was found, or why not

        friend bool operator==(const Item&, const Item&) = default;
    };
    std::string version;
    std::vector<Item> frameworks;
    std::vector<Item> controllers;
    std::vector<Item> operations;
};

/// The text of --check-build in the layout of the original, which programs read. With `verbose` the
/// notes come first, after an empty line.
[[nodiscard]] std::string print_build(const BuildFacts& facts, bool verbose);

/// The same as JSON, always with the notes.
[[nodiscard]] std::string print_build_json(const BuildFacts& facts);

/// Looks for frameworks and NCCL in the Python of the virtual environment that `program` (the path
/// of horovodrun) lies in, else in that of PATH, without importing any framework and within 30 s;
/// and for the plugins of MPI in the installation of `program`.
[[nodiscard]] BuildFacts find_build(const Environment& environment,
                                    const std::filesystem::path& program);

/// Prints what was built and what was found (--check-build). Returns the exit code.
[[nodiscard]] int check_build(const CheckBuild& request);

}  // namespace hvd::launch
