// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
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
    /// Makes and empties all files, so that a place that cannot be written is known before any rank
    /// starts. `on_error` is called once, on the writer's thread, with what failed later: output of
    /// the file it happened to is dropped from then on.
    [[nodiscard]] static Result<std::unique_ptr<Sink>> create(
        const std::filesystem::path& folder,
        int ranks,
        std::function<void(std::string)> on_error);

    void take(const Chunk& chunk) override;
    void flush() override {}

private:
    struct Files {
        std::array<UniqueFd, 2> streams;  // indexed by OutputStream
        std::filesystem::path folder;
    };

    explicit RankFiles(std::function<void(std::string)> on_error)
        : on_error_(std::move(on_error)) {}

    std::vector<Files> ranks_;
    std::function<void(std::string)> on_error_;
};

/// "rank.07" for rank 7 of 64.
[[nodiscard]] std::string rank_folder_name(int rank, int ranks);

}  // namespace hvd::launch
