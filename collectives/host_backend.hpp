// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::coll {

/// The common part of the backends for the host's memory: they take any task on it, with one score.
class HostBackend : public Backend {
public:
    [[nodiscard]] std::string_view name() const noexcept final { return traits_.name; }
    [[nodiscard]] int score(const Task& task, const ProcessSet& set) const noexcept final {
        return task.device.is_host() && serves(task, set) ? traits_.score : 0;
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
    [[nodiscard]] virtual bool serves(const Task& task, const ProcessSet& set) const noexcept = 0;

    Traits traits_;
};

/// Their communicators read and write a task's segments themselves, unless values change on the
/// way.
class HostCommunicator : public Communicator {
public:
    [[nodiscard]] bool gathers(const Task& task) const noexcept final {
        return task.wire == Wire::own;
    }
    [[nodiscard]] std::span<std::byte> workspace(std::size_t bytes) final {
        workspace_.resize(bytes);
        return workspace_;
    }

protected:
    explicit HostCommunicator(const Backend& backend) : Communicator(backend.name()) {}

private:
    std::vector<std::byte> workspace_;
};

}  // namespace hvd::coll
