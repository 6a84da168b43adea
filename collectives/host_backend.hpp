// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::coll {

/// What all backends have in common that work on the host's memory: they take any task on it, with
/// one score, and read and write its segments themselves.
class HostBackend : public Backend {
public:
    [[nodiscard]] std::string_view name() const noexcept final { return traits_.name; }
    [[nodiscard]] int score(const Task& task) const noexcept final {
        return task.device.is_host() ? traits_.score : 0;
    }
    [[nodiscard]] bool gathers(const Task&) const noexcept final { return true; }
    [[nodiscard]] std::span<std::byte> workspace(std::size_t bytes) final {
        workspace_.resize(bytes);
        return workspace_;
    }
    [[nodiscard]] std::size_t fusion_bytes() const noexcept final { return traits_.fusion_bytes; }

protected:
    struct Traits {
        std::string_view name;  // a literal
        int score = 0;
        std::size_t fusion_bytes = 0;
    };

    explicit HostBackend(const Traits& traits) : traits_(traits) {}

private:
    Traits traits_;
    std::vector<std::byte> workspace_;
};

}  // namespace hvd::coll
