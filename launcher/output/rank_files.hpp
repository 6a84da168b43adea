// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/output/writer_thread.hpp"

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {

/// DIR/rank.R/stdout and DIR/rank.R/stderr, with R padded to the digits of the last rank. They hold
/// the bytes that the ranks wrote, without prefixes.
class RankFiles final : public Sink {
public:
    /// Failures after the start, called on the writer's thread, each at most once.
    struct Events {
        std::function<void(std::string)> on_error;      // output of ranks is lost
        std::function<void(std::string)> on_log_error;  // words of horovodrun are
    };

    /// Makes and empties all files, so that a place that cannot be written is known before any rank
    /// starts. What horovodrun says goes to `log`, which may be null. Errors: invalid_argument.
    [[nodiscard]] static Result<std::unique_ptr<Sink>> create(const std::filesystem::path& folder,
                                                              int ranks,
                                                              Events events,
                                                              LauncherLog* log = nullptr);

    void take(const Chunk& chunk) override;
    void flush() override {}

private:
    struct Files {
        std::array<UniqueFd, 2> streams;  // indexed by OutputStream
        std::filesystem::path folder;
    };

    RankFiles(Events events, LauncherLog* log) : events_(std::move(events)), log_(log) {}

    void take_words(const Chunk& chunk);

    std::vector<Files> ranks_;
    Events events_;
    LauncherLog* log_;  // outlives this object
};

/// "rank.07" for rank 7 of 64.
[[nodiscard]] std::string rank_folder_name(int rank, int ranks);

}  // namespace hvd::launch
