// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/wire/join.hpp"

#include <filesystem>

namespace hvd::launch {

/// The token of a job that hosts may join. A new token lies in a file that only the
/// user can read, until this object goes.
class JoinToken final {
public:
    /// Reads a file that the user made. Errors: with the path and the remedy.
    [[nodiscard]] static Result<JoinToken> read(const std::filesystem::path& file);

    /// Makes one, in $XDG_CACHE_HOME/horovodrun, ~/.cache/horovodrun or else /tmp. Errors: with the
    /// folders that were tried.
    [[nodiscard]] static Result<JoinToken> make(const Environment& environment);

    ~JoinToken();
    JoinToken(JoinToken&& other) noexcept;
    JoinToken& operator=(JoinToken&&) = delete;
    JoinToken(const JoinToken&) = delete;
    JoinToken& operator=(const JoinToken&) = delete;

    [[nodiscard]] const wire::Key& key() const noexcept { return key_; }
    [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

private:
    JoinToken(const wire::Key& key, std::filesystem::path file, bool is_made)
        : key_(key), file_(std::move(file)), is_made_(is_made) {}

    wire::Key key_;
    std::filesystem::path file_;
    bool is_made_;
};

}  // namespace hvd::launch
