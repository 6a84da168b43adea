// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/launch_plan.hpp"

#include <memory>
#include <string>

namespace hvd::launch {

/// The file that the program which starts the ranks reads, for as long as a job runs: of mode 0600,
/// and never one that was there.
class LauncherFile final {
public:
    /// Null where the plan has none. Errors: unavailable, with its path.
    [[nodiscard]] static Result<std::unique_ptr<LauncherFile>> write(const LaunchPlan& plan);

    explicit LauncherFile(std::string path) : path_(std::move(path)) {}
    LauncherFile(const LauncherFile&) = delete;
    LauncherFile& operator=(const LauncherFile&) = delete;
    ~LauncherFile();

private:
    std::string path_;
};

}  // namespace hvd::launch
